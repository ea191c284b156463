/* test_key_log.c - the list of requests with keys on a file system that loses its power after any
 * change: no request is carried out twice, and a response that was kept comes back as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "http/key_log.h"
#include "os_sim.h"

#define REPLY "{\"status\":201,\"body\":\"a sentence that is not for everybody\"}"

static struct qp_err err;

static struct qp__key_name
name_of(const char *owner, const char *key, uint8_t digest)
{
  struct qp__key_name name;

  memset(&name, digest, sizeof(name));
  qp__key_name_make(owner, key, &name);
  return name;
}

static enum qp_rc
begin(struct qp__key_log *log, const struct qp__key_name *name, enum qp__key_state *state,
      struct qp__buf *reply)
{
  qp__buf_reset(reply);
  return qp__key_log_begin(log, name, state, reply, &err);
}

static void
test_keys_are_told_apart(void **state)
{
  const struct qp_bytes text = { REPLY, strlen(REPLY) };
  struct qp__key_log *log = NULL;
  struct qp__key_name first = name_of(NULL, "k", 1);
  struct qp__key_name changed = name_of(NULL, "k", 2);
  struct qp__key_name other = name_of("alice", "k", 2);
  enum qp__key_state found;
  struct qp__buf reply;

  (void)state;
  qp__buf_init(&reply, 10000);
  assert_int_equal(qp__key_log_new(&qp__os_posix, NULL, &log, &err), QP_OK);
  assert_int_equal(begin(log, &first, &found, &reply), QP_OK);
  assert_int_equal(found, QP__KEY_NEW);
  assert_int_equal(begin(log, &first, &found, &reply), QP_OK);
  assert_int_equal(found, QP__KEY_RUNNING);
  assert_int_equal(qp__key_log_end(log, &first, &text, &err), QP_OK);
  assert_int_equal(begin(log, &first, &found, &reply), QP_OK);
  assert_int_equal(found, QP__KEY_DONE);
  assert_string_equal(reply.data, REPLY);
  assert_int_equal(begin(log, &changed, &found, &reply), QP_OK);
  assert_int_equal(found, QP__KEY_OTHER);
  assert_int_equal(begin(log, &other, &found, &reply), QP_OK);
  assert_int_equal(found, QP__KEY_NEW);
  assert_int_equal(qp__key_log_end(log, &other, NULL, &err), QP_OK); /* it changed nothing */
  assert_int_equal(begin(log, &other, &found, &reply), QP_OK);
  assert_int_equal(found, QP__KEY_NEW);
  qp__key_log_lose(log, &other);
  assert_int_equal(begin(log, &other, &found, &reply), QP_OK);
  assert_int_equal(found, QP__KEY_UNKNOWN);
  qp__key_log_free(log);
  qp__buf_release(&reply);
}

/* How far two requests came before the power was cut. */
struct progress {
  bool begun, ended;
};

static void
carry_out(struct qp__key_log *log, const struct qp__key_name *name, struct progress *p)
{
  const struct qp_bytes text = { REPLY, strlen(REPLY) };
  enum qp__key_state found = QP__KEY_UNKNOWN;
  struct qp__buf reply;

  qp__buf_init(&reply, 10000);
  if (begin(log, name, &found, &reply) == QP_OK && found == QP__KEY_NEW) {
    p->begun = true;
    p->ended = qp__key_log_end(log, name, &text, &err) == QP_OK;
  }
  qp__buf_release(&reply);
}

/* What is known after the cut. */
static void
expect(struct qp__key_log *log, const struct qp__key_name *name, const struct progress *p)
{
  enum qp__key_state found = QP__KEY_RUNNING;
  struct qp__buf reply;

  qp__buf_init(&reply, 10000);
  assert_int_equal(begin(log, name, &found, &reply), QP_OK);
  if (p->ended)
    assert_int_equal(found, QP__KEY_DONE);
  else if (p->begun)
    assert_true(found == QP__KEY_UNKNOWN || found == QP__KEY_DONE);
  else
    assert_true(found == QP__KEY_NEW || found == QP__KEY_UNKNOWN);
  if (found == QP__KEY_DONE)
    assert_string_equal(reply.data, REPLY);
  qp__buf_release(&reply);
}

/* Opens, carries out two requests, opens again, which writes the file again, and a third. */
static void
test_no_power_cut_makes_a_request_run_twice(void **state)
{
  struct qp__key_name names[3] = { name_of(NULL, "a", 1), name_of(NULL, "b", 1),
                                   name_of("alice", "c", 1) };
  bool cut = true;

  (void)state;
  for (uint64_t n = 0; cut; n++) {
    struct qp__os_sim *sim = qp__os_sim_new(n + 1);
    const struct qp__os *os = qp__os_sim_os(sim);
    struct progress p[3] = { { false, false } };
    struct qp__key_log *log = NULL;
    int root = os->open_root(os->self, "/data", 1);

    assert_true(root >= 0);
    (void)os->close(os->self, root);
    qp__os_sim_cut_after(sim, n);
    for (int round = 0; round < 2; round++) {
      assert_int_equal(qp__key_log_new(os, "/data", &log, &err), QP_OK);
      for (int i = round * 2; i < 2 + round; i++)
        carry_out(log, &names[i], &p[i]);
      qp__key_log_free(log);
    }
    cut = qp__os_sim_is_off(sim);
    assert_int_equal(qp__os_sim_power_cut(sim), 0);
    assert_int_equal(qp__key_log_new(os, "/data", &log, &err), QP_OK);
    for (int i = 0; i < 3; i++)
      expect(log, &names[i], &p[i]);
    qp__key_log_free(log);
    qp__os_sim_free(sim);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_keys_are_told_apart),
    cmocka_unit_test(test_no_power_cut_makes_a_request_run_twice),
  };

  return cmocka_run_group_tests_name("key_log", tests, NULL, NULL);
}

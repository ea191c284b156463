/* test_key_log.c - the list of requests with keys on a file system that loses its power after any
 * change: no request is carried out twice, and a response that was kept comes back as it was. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
begin(struct qp__key_log *log, struct qp__key_name *name, enum qp__key_state *state,
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
  assert_int_equal(qp__key_log_new(&qp__os_posix, NULL, NULL, &log, &err), QP_OK);
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
carry_out(struct qp__key_log *log, struct qp__key_name *name, struct progress *p)
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
expect(struct qp__key_log *log, struct qp__key_name *name, const struct progress *p)
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
      assert_int_equal(qp__key_log_new(os, "/data", NULL, &log, &err), QP_OK);
      for (int i = round * 2; i < 2 + round; i++)
        carry_out(log, &names[i], &p[i]);
      qp__key_log_free(log);
    }
    cut = qp__os_sim_is_off(sim);
    assert_int_equal(qp__os_sim_power_cut(sim), 0);
    assert_int_equal(qp__key_log_new(os, "/data", NULL, &log, &err), QP_OK);
    for (int i = 0; i < 3; i++)
      expect(log, &names[i], &p[i]);
    qp__key_log_free(log);
    qp__os_sim_free(sim);
  }
}

/* ---- many at once ---- */

#define THREADS 8

/* The disk: the first sync lasts until every thread has written its record. */
static struct {
  struct qp__os os;
  pthread_mutex_t lock;
  pthread_cond_t change;
  unsigned writes, syncs, await;
  int bad; /* of the first sync */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER };

static ssize_t
count_write(void *self, int fd, const void *data, size_t len, off_t at)
{
  ssize_t n = qp__os_posix.pwrite(self, fd, data, len, at);

  (void)pthread_mutex_lock(&disk.lock);
  disk.writes++;
  (void)pthread_cond_broadcast(&disk.change);
  (void)pthread_mutex_unlock(&disk.lock);
  return n;
}

static int
slow_sync(void *self, int fd)
{
  int bad = 0;

  (void)pthread_mutex_lock(&disk.lock);
  if (disk.syncs++ == 0)
    bad = disk.bad;
  while (disk.writes < disk.await)
    (void)pthread_cond_wait(&disk.change, &disk.lock);
  (void)pthread_mutex_unlock(&disk.lock);
  return bad ? bad : qp__os_posix.fdatasync(self, fd);
}

struct caller {
  pthread_t thread;
  struct qp__key_log *log;
  struct qp__key_name name;
  bool ends;
  enum qp_rc rc;
};

static void *
call(void *arg)
{
  const struct qp_bytes text = { REPLY, strlen(REPLY) };
  struct caller *c = arg;
  enum qp__key_state found;
  struct qp__buf reply;
  struct qp_err own;

  qp__buf_init(&reply, 10000);
  c->rc = c->ends ? qp__key_log_end(c->log, &c->name, &text, &own)
                  : qp__key_log_begin(c->log, &c->name, &found, &reply, &own);
  qp__buf_release(&reply);
  return NULL;
}

/* All at once; the number of syncs. */
static unsigned
call_all(struct caller *callers, bool ends, int bad)
{
  disk.writes = disk.syncs = 0;
  disk.await = THREADS;
  disk.bad = bad;
  for (int i = 0; i < THREADS; i++) {
    callers[i].ends = ends;
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    assert_int_equal(callers[i].rc, bad ? QP_IO : QP_OK);
  }
  disk.await = 0;
  return disk.syncs;
}

/* A sync is for all that have written before it; when it fails, all of them fail, and what is
 * written next can be read. */
static void
test_threads_share_syncs(void **state)
{
  struct caller callers[THREADS];
  struct qp__key_log *log = NULL;
  const char *tmp = getenv("TMPDIR");
  char dir[256];
  char first[] = "0";

  (void)state;
  disk.os = qp__os_posix;
  disk.os.pwrite = count_write;
  disk.os.fdatasync = slow_sync;
  (void)snprintf(dir, sizeof(dir), "%s/key_log.XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(dir));
  assert_int_equal(qp__key_log_new(&disk.os, dir, NULL, &log, &err), QP_OK);
  for (int i = 0; i < THREADS; i++) {
    first[0] = (char)('0' + i);
    callers[i].log = log;
    callers[i].name = name_of("alice", first, 1);
  }
  assert_int_equal(call_all(callers, false, -EIO), 1);
  assert_int_equal(call_all(callers, false, 0), 2);
  assert_int_equal(call_all(callers, true, 0), 2);
  for (int again = 0; again < 2; again++) {
    for (int i = 0; i < THREADS; i++)
      expect(log, &callers[i].name, &(struct progress){ true, true });
    qp__key_log_free(log);
    log = NULL;
    assert_int_equal(qp__key_log_new(&qp__os_posix, dir, NULL, &log, &err), QP_OK);
  }
  qp__key_log_free(log);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_keys_are_told_apart),
    cmocka_unit_test(test_no_power_cut_makes_a_request_run_twice),
    cmocka_unit_test(test_threads_share_syncs),
  };

  return cmocka_run_group_tests_name("key_log", tests, NULL, NULL);
}

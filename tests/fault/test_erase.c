/* test_erase.c - erasing when a call fails and when the power goes, at every step.
 *
 * When it was acknowledged, no file has the text any more, also after a power cut in the same
 * moment. When it was not, then after the next start either everything is as before or no file has
 * the text. What others have is untouched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "os/file.h"
#include "os/names.h"
#include "os/os_fault.h"
#include "os/os_sim.h"
#include "store/store_int.h"

#define URL "file:/data"
#define WORD "zqxmarker"
#define MESSAGES 6

enum kind { ERASE_CONTEXT, ERASE_SESSION, KINDS };

struct rig {
  enum kind kind;
  char where[64]; /* what is made to fail now */
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  struct qp_store *store;
  struct qp_uuid gone;
  struct qp_uuid kept;
};

static void
must(struct rig *x, enum qp_rc rc, const char *what, const struct qp_err *err)
{
  if (rc)
    fail_msg("%s: %s: %s", x->where, what, err->msg);
}

static void
rig_open(struct rig *x)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD,
                                      .journal_bytes = (size_t)64 << 10 };
  struct qp_err err = { QP_OK, "" };

  must(x, qp__store_open_os(URL, &options, qp__os_fault_os(x->fault), &x->store, &err), "opening",
       &err);
}

static void
rig_close(struct rig *x)
{
  qp_store_close(x->store);
  x->store = NULL;
}

/* ---- what is in the store ---- */

static struct qp_uuid
make_context(struct rig *x, const char *text)
{
  struct qp_context_spec spec = { .title = text };
  struct qp_context *c = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid id;

  must(x, qp_context_create(x->store, &spec, &c, &err), "creating", &err);
  id = qp_context_id(c);
  for (int i = 0; i < MESSAGES; i++) {
    struct qp_message *m = NULL;

    must(x, qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ text, strlen(text) }, &m, &err),
         "a message", &err);
    must(x, qp_message_save(c, NULL, m, NULL, &err), "saving", &err);
    qp_message_free(m);
  }
  qp_context_close(c);
  return id;
}

static void
make_session(struct rig *x, const char *id, const char *text)
{
  struct qp_session_spec spec = { .id = id, .title = text };
  struct qp_err err = { QP_OK, "" };
  char line[128];

  must(x, qp_session_create(x->store, &spec, NULL, &err), "a session", &err);
  (void)snprintf(line, sizeof(line), "{\"role\":\"user\",\"content\":\"%s\"}", text);
  for (int i = 0; i < MESSAGES; i++)
    must(x, qp_session_append(x->store, id, (struct qp_bytes){ line, strlen(line) }, &err),
         "appending", &err);
}

static void
rig_make(struct rig *x, enum kind kind, uint64_t seed)
{
  memset(x, 0, sizeof(*x));
  x->kind = kind;
  x->sim = qp__os_sim_new(seed + 1);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  rig_open(x);
  x->kept = make_context(x, "kept");
  make_session(x, "kept", "kept");
  if (kind == ERASE_CONTEXT)
    x->gone = make_context(x, WORD);
  else
    make_session(x, "s-" WORD, WORD);
}

static void
rig_remove(struct rig *x)
{
  rig_close(x);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

static enum qp_rc
erase(struct rig *x, struct qp_err *err)
{
  return x->kind == ERASE_CONTEXT ? qp_context_erase(x->store, &x->gone, err)
                                  : qp_session_erase(x->store, "s-" WORD, err);
}

/* ---- what must hold ---- */

static enum qp_rc
count_message(void *arg, const struct qp_session_info *info)
{
  *(uint64_t *)arg = info->messages;
  return QP_OK;
}

static uint64_t
messages_of(struct rig *x, enum kind kind, const struct qp_uuid *id, const char *session)
{
  struct qp_context *c = NULL;
  struct qp_size size = { 0 };
  struct qp_err err = { QP_OK, "" };
  uint64_t n = 0;
  enum qp_rc rc;

  if (kind == ERASE_SESSION) {
    rc = qp_session_get(x->store, session, count_message, &n, &err);
  } else {
    rc = qp_context_open(x->store, id, QP_LOAD_NONE, &c, &err);
    if (!rc)
      qp_context_size(c, &size);
    n = size.messages;
    qp_context_close(c);
  }
  if (rc && rc != QP_NOTFOUND)
    must(x, rc, "looking", &err);
  return rc ? 0 : n;
}

/* No file below this directory has the word, in its name or in its bytes. */
static void
expect_no_trace(struct rig *x, int root, const char *dir)
{
  const struct qp__os *os = qp__os_sim_os(x->sim);
  struct qp__names names = { 0 };
  struct qp__buf text;
  char path[1024];

  assert_int_equal(qp__names_read(os, root, dir, &names), 0);
  qp__buf_init(&text, (size_t)1 << 24);
  for (size_t i = 0; i < names.count; i++) {
    (void)snprintf(path, sizeof(path), "%s/%s", dir, names.list[i].name);
    if (strstr(path, WORD))
      fail_msg("%s: '%s' has the word in its name", x->where, path);
    if (names.list[i].type == DT_DIR) {
      expect_no_trace(x, root, path);
      continue;
    }
    qp__buf_reset(&text);
    assert_int_equal(qp__file_read(os, root, path, &text), 0);
    if (text.len && memmem(text.data, text.len, WORD, strlen(WORD)))
      fail_msg("%s: '%s' has the word", x->where, path);
  }
  qp__buf_release(&text);
  qp__names_release(&names);
}

static void
expect_erased(struct rig *x)
{
  const struct qp__os *os = qp__os_sim_os(x->sim);
  int root = os->open_root(os->self, "/", 0);

  assert_true(root >= 0);
  expect_no_trace(x, root, "data");
  qp__close(os, root);
}

/* After a start: it is gone completely, or as it was and can be erased. */
static void
expect_all_or_nothing(struct rig *x, bool acknowledged)
{
  struct qp_err err = { QP_OK, "" };
  uint64_t left = messages_of(x, x->kind, &x->gone, "s-" WORD);

  assert_int_equal(messages_of(x, ERASE_CONTEXT, &x->kept, NULL), MESSAGES);
  assert_int_equal(messages_of(x, ERASE_SESSION, NULL, "kept"), MESSAGES);
  if (left && acknowledged)
    fail_msg("%s: it was acknowledged and is still there", x->where);
  if (left) {
    assert_int_equal(left, MESSAGES);
    must(x, erase(x, &err), "erasing after all", &err);
  }
  expect_erased(x);
  assert_int_equal(messages_of(x, ERASE_CONTEXT, &x->kept, NULL), MESSAGES);
}

/* ---- the power ---- */

/* Whether the cut came before the end. */
static bool
cut_at(enum kind kind, uint64_t n)
{
  struct qp_err err = { QP_OK, "" };
  struct rig x;
  enum qp_rc rc;
  bool cut;

  rig_make(&x, kind, n);
  (void)snprintf(x.where, sizeof(x.where), "kind %d, the power at mutation %llu", (int)kind,
                 (unsigned long long)n);
  qp__os_sim_cut_after(x.sim, n);
  rc = erase(&x, &err);
  cut = qp__os_sim_is_off(x.sim);
  if (!rc && !cut)
    expect_erased(&x);
  qp__os_sim_cut_after(x.sim, 0); /* in any case: acknowledged is durable */
  rig_close(&x);
  assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  if (!rc)
    expect_erased(&x);
  if (n % 3 == 2) { /* and again while the start finishes it */
    struct qp_store_options options = { .size = sizeof(options),
                                        .flags = QP_STORE_NO_THREAD,
                                        .journal_bytes = (size_t)64 << 10 };

    qp__os_sim_cut_after(x.sim, n % 50);
    if (qp__store_open_os(URL, &options, qp__os_sim_os(x.sim), &x.store, &err) == QP_OK)
      rig_close(&x);
    assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  }
  rig_open(&x);
  expect_all_or_nothing(&x, rc == QP_OK);
  rig_remove(&x);
  return cut;
}

static void
test_a_power_cut_at_any_moment_leaves_all_or_nothing(void **state)
{
  uint64_t n;

  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    for (n = 0; cut_at((enum kind)kind, n); n++)
      ;
    assert_true(n > 10);
  }
}

/* ---- failing calls ---- */

static bool
fail_at(enum kind kind, uint64_t n, enum qp__os_fault_kind fault, bool persistent)
{
  struct qp_err err = { QP_OK, "" };
  struct rig x;
  enum qp_rc rc;
  bool fired;

  rig_make(&x, kind, n);
  (void)snprintf(x.where, sizeof(x.where), "kind %d, call %llu fails (%d%s)", (int)kind,
                 (unsigned long long)n, (int)fault, persistent ? ", and all after it" : "");
  qp__os_fault_arm(x.fault, n, fault, persistent);
  rc = erase(&x, &err);
  fired = qp__os_fault_fired(x.fault);
  if (persistent) /* the process ends so */
    rig_close(&x);
  qp__os_fault_disarm(x.fault);
  if (!rc)
    expect_erased(&x);
  rig_close(&x);
  rig_open(&x);
  expect_all_or_nothing(&x, rc == QP_OK);
  rig_remove(&x);
  return fired;
}

static void
test_a_failing_call_leaves_all_or_nothing(void **state)
{
  static const enum qp__os_fault_kind faults[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC };

  (void)state;
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < 2 * sizeof(faults) / sizeof(faults[0]); i++) {
      uint64_t n = 1;

      while (fail_at((enum kind)kind, n, faults[i / 2], i % 2))
        n++;
      assert_true(n > 20);
    }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_power_cut_at_any_moment_leaves_all_or_nothing),
    cmocka_unit_test(test_a_failing_call_leaves_all_or_nothing),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}

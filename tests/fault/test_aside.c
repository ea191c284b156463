/* test_aside.c - a context that cannot be written does not affect others.
 *
 * The directory of one context returns -EACCES for every change, as if it belonged to another user.
 * Its commits fail with the reason; all other contexts work, while the store runs and when it
 * starts. Durable changes are kept, and are applied when the directory can be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "os_fault.h"
#include "os_sim.h"
#include "scenario.h"
#include "store/backup/backup_int.h"
#include "store/store_int.h"

#define URL "file:/data"
#define DENIED_MAX 64

/* ---- a machine on which one directory cannot be written ---- */

static struct denial {
  struct qp__os os;
  const struct qp__os *inner;
  char part[80]; /* of the paths that are denied; "": none */
  int fds[DENIED_MAX];
  size_t fd_count; /* descriptors of denied directories */
} denial;

static bool
is_denied(int dirfd, const char *path)
{
  if (!denial.part[0])
    return false;
  if (strstr(path, denial.part))
    return true;
  for (size_t i = 0; i < denial.fd_count; i++)
    if (denial.fds[i] == dirfd)
      return true;
  return false;
}

static int
deny_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  bool denied = is_denied(dirfd, path);
  int fd;

  if (denied && ((flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC)))
    return -EACCES;
  fd = denial.inner->openat(self, dirfd, path, flags, mode);
  if (fd >= 0 && denied && denial.fd_count < DENIED_MAX)
    denial.fds[denial.fd_count++] = fd; /* the simulated machine gives no number twice */
  return fd;
}

static int
deny_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  return is_denied(dirfd, path) ? -EACCES : denial.inner->mkdirat(self, dirfd, path, mode);
}

static int
deny_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  return is_denied(dirfd, path) ? -EACCES : denial.inner->unlinkat(self, dirfd, path, flags);
}

static int
deny_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  if (is_denied(olddir, from) || is_denied(newdir, to))
    return -EACCES;
  return denial.inner->renameat(self, olddir, from, newdir, to, flags);
}

/* ---- the rig ---- */

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  struct qp_store *store;
  struct model model;
  struct rng rng;
  struct qp_uuid a;
  struct qp_uuid b;
};

static void
deny(const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  denial.fd_count = 0;
  denial.part[0] = 0;
  if (id)
    (void)snprintf(denial.part, sizeof(denial.part), "contexts/%s", qp_uuid_text(id, text));
}

static enum qp_rc
open_as(struct rig *x, unsigned flags, struct qp_store **out, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD | flags,
                                      .journal_bytes = (size_t)64 << 10 };

  (void)x;
  *err = (struct qp_err){ QP_OK, "" };
  return qp__store_open_os(URL, &options, &denial.os, out, err);
}

static void
rig_open(struct rig *x)
{
  struct qp_err err;

  if (open_as(x, 0, &x->store, &err))
    fail_msg("%s", err.msg);
}

static void
must(struct rig *x, struct op op)
{
  struct qp_err err = { QP_OK, "" };

  if (op_run(&op, x->store, &err))
    fail_msg("%s: %s", op_name(op.kind), err.msg);
  assert_int_equal(op_apply(&op, &x->model), QP_OK);
  op_release(&op);
}

/* Two contexts with a few messages each, in the journal. */
static void
rig_make(struct rig *x)
{
  memset(x, 0, sizeof(*x));
  x->rng.state = 11;
  x->sim = qp__os_sim_new(11);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  denial.inner = qp__os_fault_os(x->fault);
  denial.os = *denial.inner;
  denial.os.openat = deny_openat;
  denial.os.mkdirat = deny_mkdirat;
  denial.os.unlinkat = deny_unlinkat;
  denial.os.renameat = deny_renameat;
  deny(NULL);
  rig_open(x);
  must(x, op_create(&x->rng, &x->a));
  must(x, op_create(&x->rng, &x->b));
  for (int i = 0; i < 5; i++) {
    must(x, op_save(&x->rng, &x->a, NULL, 1, 50));
    must(x, op_save(&x->rng, &x->b, NULL, 1, 50));
  }
}

static void
rig_remove(struct rig *x)
{
  qp_store_close(x->store);
  model_release(&x->model);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

/* The process dies; with `cut` the power goes as well. */
static void
rig_die(struct rig *x, bool cut)
{
  qp__os_fault_arm(x->fault, 1, QP__FAULT_EIO, true);
  qp_store_close(x->store);
  qp__os_fault_disarm(x->fault);
  x->store = NULL;
  if (cut)
    assert_int_equal(qp__os_sim_power_cut(x->sim), 0);
}

/* ---- what must hold ---- */

static struct qp_store_stats
stats_of(struct rig *x)
{
  struct qp_store_stats stats;

  qp_store_stats_get(x->store, &stats);
  return stats;
}

/* The others are there and take more, for longer than the journal has room. */
static void
expect_others_go_on(struct rig *x, unsigned n)
{
  struct qp_store_stats before;
  struct qp_store_stats after;
  struct qp_uuid id;
  char why[MODEL_WHY] = "";
  struct qp_err err;

  assert_int_equal(qp_store_writable(x->store, &err), QP_OK);
  before = stats_of(x);
  must(x, op_create(&x->rng, &id));
  while (n--)
    must(x, op_save(&x->rng, &x->b, NULL, 1, 4000));
  must(x, op_on(OP_DELETE, &id, NULL, NULL));
  after = stats_of(x);
  assert_true(after.checkpoints > before.checkpoints + 4);
  if (!model_context_matches(model_context(&x->model, &x->b), x->store, true, why))
    fail_msg("%s", why);
}

/* The context itself says what is wrong, with its path. */
static void
expect_aside(struct rig *x, struct qp_store *store, const char *part)
{
  struct qp_context *c = NULL;
  char text[QP_UUID_TEXT];
  struct qp_err err;

  assert_int_equal(qp_context_open(store, &x->a, 0, &c, &err), QP_IO);
  assert_non_null(strstr(err.msg, qp_uuid_text(&x->a, text)));
  assert_non_null(strstr(err.msg, part));
}

static void
expect_all(struct rig *x, struct op *pending)
{
  struct qp_context *c = NULL;
  char why[MODEL_WHY] = "";
  struct qp_err err;

  if (qp_context_open(x->store, &x->a, 0, &c, &err))
    fail_msg("%s", err.msg);
  qp_context_close(c);
  if (!store_is_right(x->store, &x->model, pending, why))
    fail_msg("%s", why);
}

/* A commit to the context that fails because of its directory; it may be there later. */
static struct op
fail_once(struct rig *x)
{
  struct op op = op_save(&x->rng, &x->a, NULL, 1, 50);
  struct qp_err err = { QP_OK, "" };

  assert_int_equal(op_run(&op, x->store, &err), QP_IO);
  assert_non_null(strstr(err.msg, denial.part));
  assert_non_null(strstr(err.msg, "Permission denied"));
  return op;
}

/* ---- tests ---- */

static void
test_while_the_store_runs(void **state)
{
  struct qp_store *reader;
  struct op pending;
  struct qp_err err;
  struct rig x;

  (void)state;
  rig_make(&x);
  /* All descriptors of it are closed, as after a while. */
  qp_store_close(x.store);
  rig_open(&x);
  must(&x, op_save(&x.rng, &x.b, NULL, 1, 50));
  must(&x, op_save(&x.rng, &x.a, NULL, 1, 50)); /* its directories are known to exist */
  for (int i = 0; i < 40; i++) { /* others take the places of descriptors that are kept open */
    struct qp_uuid id;

    must(&x, op_create(&x.rng, &id));
    must(&x, op_save(&x.rng, &id, NULL, 1, 20));
  }
  deny(&x.a);
  pending = fail_once(&x);
  expect_others_go_on(&x, 120);
  expect_aside(&x, x.store, "Permission denied");
  assert_int_equal(open_as(&x, QP_STORE_READONLY, &reader, &err), QP_OK);
  expect_aside(&x, reader, "could not be written");
  qp_store_close(reader);
  deny(NULL);
  expect_all(&x, &pending); /* it is back by itself */
  must(&x, op_save(&x.rng, &x.a, NULL, 1, 50));
  qp_store_close(x.store);
  rig_open(&x);
  expect_all(&x, NULL);
  op_release(&pending);
  rig_remove(&x);
}

/* What is held survives ends of every kind, and what came before it is in order. */
static void
die_with_something_held(int ends, bool cut)
{
  struct op pending;
  struct rig x;

  rig_make(&x);
  for (int i = 0; i < 40; i++) {
    struct qp_uuid id;

    must(&x, op_create(&x.rng, &id));
    must(&x, op_save(&x.rng, &id, NULL, 1, 20));
  }
  deny(&x.a);
  pending = fail_once(&x);
  for (int i = 0; i < ends; i++) {
    if (i % 3 == 2) {
      qp_store_close(x.store);
      x.store = NULL;
    } else {
      rig_die(&x, cut);
    }
    rig_open(&x);
    expect_aside(&x, x.store, "Permission denied");
    expect_others_go_on(&x, i % 2 ? 120 : 80);
  }
  deny(NULL);
  if (ends % 2) {
    rig_die(&x, cut);
    rig_open(&x);
  }
  expect_all(&x, &pending);
  must(&x, op_save(&x.rng, &x.a, NULL, 1, 50));
  rig_die(&x, cut);
  rig_open(&x);
  expect_all(&x, NULL);
  op_release(&pending);
  rig_remove(&x);
}

static void
test_over_ends_and_starts(void **state)
{
  (void)state;
  for (int ends = 0; ends < 5; ends++) {
    die_with_something_held(ends, false);
    die_with_something_held(ends, true);
  }
}

/* Acknowledged commits that only the journal has, and a directory that cannot be written when the
 * store starts. */
static void
test_when_the_store_starts(void **state)
{
  struct qp_store *reader;
  struct qp_err err;
  char why[MODEL_WHY] = "";

  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    struct rig x;

    rig_make(&x);
    rig_die(&x, cut);
    deny(&x.a);
    rig_open(&x); /* without a failure */
    expect_aside(&x, x.store, "Permission denied");
    expect_others_go_on(&x, 120);
    rig_die(&x, cut);
    assert_int_equal(open_as(&x, QP_STORE_READONLY, &reader, &err), QP_OK);
    expect_aside(&x, reader, "could not be written");
    if (!model_context_matches(model_context(&x.model, &x.b), reader, true, why))
      fail_msg("%s", why);
    qp_store_close(reader);
    deny(NULL);
    assert_int_equal(open_as(&x, QP_STORE_READONLY, &reader, &err), QP_OK);
    if (!model_matches(&x.model, reader, why))
      fail_msg("%s", why);
    qp_store_close(reader);
    rig_open(&x);
    expect_all(&x, NULL);
    rig_remove(&x);
  }
}

/* A backup has what waits, and whoever opens the restored store has the acknowledged commits. */
static void
test_in_a_backup(void **state)
{
  static const unsigned flags[] = { 0, QP_BACKUP_NO_CHECK };
  char why[MODEL_WHY] = "";
  struct qp_err err = { QP_OK, "" };

  (void)state;
  for (int i = 0; i < 4; i++) {
    struct qp_store_options so = { .size = sizeof(so), .flags = QP_STORE_NO_THREAD };
    struct qp_backup_options options = { .size = sizeof(options), .flags = flags[i % 2] };
    struct qp_backup_report report;
    struct qp_store *restored = NULL;
    struct rig x;

    rig_make(&x);
    if (i > 1) /* an older backup, with files that the next one shares */
      assert_int_equal(qp_store_backup(x.store, "/backups", &options, &report, &err), QP_OK);
    for (int n = 0; n < 5; n++)
      must(&x, op_save(&x.rng, &x.a, NULL, 1, 50));
    rig_die(&x, true); /* only the journal has them now */
    deny(&x.a);
    rig_open(&x);
    expect_aside(&x, x.store, "Permission denied");
    deny(NULL); /* the copy has the same paths; nobody looks at the context itself meanwhile */
    if (qp_store_backup(x.store, "/backups", &options, &report, &err))
      fail_msg("%s", err.msg);
    if (qp__store_restore_os("/backups", "/restored", NULL, &denial.os, &report, &err))
      fail_msg("%s", err.msg);
    assert_int_equal(report.problems, 0);
    if (qp__store_open_os("file:/restored", &so, &denial.os, &restored, &err))
      fail_msg("%s", err.msg);
    if (!model_matches(&x.model, restored, why))
      fail_msg("%d: %s", i, why);
    qp_store_close(restored);
    rig_remove(&x);
  }
}

/* A disk that cannot read or write the files of one context stops the store until it has recovered;
 * then it is that context's own trouble. */
static void
test_a_bad_block_in_one_context(void **state)
{
  struct op pending;
  struct qp_err err = { QP_OK, "" };
  char text[QP_UUID_TEXT];
  char part[64];
  struct rig x;

  (void)state;
  rig_make(&x);
  for (int i = 0; i < 40; i++) {
    struct qp_uuid id;

    must(&x, op_create(&x.rng, &id));
    must(&x, op_save(&x.rng, &id, NULL, 1, 20));
  }
  (void)snprintf(part, sizeof(part), "contexts/%s", qp_uuid_text(&x.a, text));
  assert_int_equal(qp__os_fault_filter(x.fault, part), 0);
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  pending = op_save(&x.rng, &x.a, NULL, 1, 50);
  assert_int_not_equal(op_run(&pending, x.store, &err), QP_OK);
  for (int i = 0; i < 3 && qp_store_writable(x.store, NULL); i++)
    if (!qp_store_recover(x.store, &err))
      break;
  if (qp_store_writable(x.store, NULL))
    fail_msg("%s", err.msg);
  expect_others_go_on(&x, 120);
  qp__os_fault_disarm(x.fault);
  assert_int_equal(qp__os_fault_filter(x.fault, NULL), 0);
  expect_all(&x, &pending);
  op_release(&pending);
  rig_remove(&x);
}

/* ---- sessions, prompts and deletions ---- */

static const char *const text_of_prompt = "Be brief.";

static void
deny_part(const char *part)
{
  denial.fd_count = 0;
  (void)snprintf(denial.part, sizeof(denial.part), "%s", part);
}

static enum qp_rc
say(struct rig *x, const char *session, int n, struct qp_err *err)
{
  char line[80];
  int len = snprintf(line, sizeof(line), "{\"role\":\"user\",\"content\":\"line %d\"}", n);

  return qp_session_append(x->store, session, (struct qp_bytes){ line, (size_t)len }, err);
}

struct lines {
  unsigned n;
  bool ok; /* they are in order */
};

static enum qp_rc
count_line(void *arg, struct qp_bytes json)
{
  struct lines *l = arg;
  char text[32];

  (void)snprintf(text, sizeof(text), "\"line %u\"", l->n++);
  l->ok = l->ok && memmem(json.data, json.len, text, strlen(text));
  return QP_OK;
}

static unsigned
lines_of(struct qp_store *store, const char *session)
{
  struct lines l = { .ok = true };
  struct qp_err err;

  if (qp_session_read(store, session, UINT64_MAX, count_line, &l, NULL, &err))
    fail_msg("%s", err.msg);
  assert_true(l.ok);
  return l.n;
}

static enum qp_rc
count_prompt(void *arg, const struct qp_prompt *p)
{
  (void)p;
  ++*(unsigned *)arg;
  return QP_OK;
}

static enum qp_rc
compare_prompt(void *arg, const struct qp_prompt *p)
{
  assert_string_equal(p->content, arg);
  return QP_OK;
}

static void
expect_prompt(struct qp_store *store, const char *id, const char *content)
{
  struct qp_err err;

  if (qp_prompt_get(store, id, compare_prompt, (void *)(uintptr_t)content, &err))
    fail_msg("%s", err.msg);
}

/* Two sessions and two prompts, with all descriptors of them closed. */
static void
rig_make_more(struct rig *x)
{
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec), .id = "one" };
  struct qp_prompt prompt = { .id = "p-one", .name = "p", .content = text_of_prompt };
  struct qp_err err;

  rig_make(x);
  assert_int_equal(qp_session_create(x->store, &spec, NULL, &err), QP_OK);
  spec.id = "two";
  assert_int_equal(qp_session_create(x->store, &spec, NULL, &err), QP_OK);
  assert_int_equal(qp_prompt_create(x->store, &prompt, NULL, &err), QP_OK);
  prompt.id = "p-two";
  assert_int_equal(qp_prompt_create(x->store, &prompt, NULL, &err), QP_OK);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(say(x, "one", i, &err), QP_OK);
    assert_int_equal(say(x, "two", i, &err), QP_OK);
  }
}

static void
expect_refused(enum qp_rc rc, const struct qp_err *err, const char *what)
{
  assert_int_equal(rc, QP_IO);
  if (!strstr(err->msg, what) || !strstr(err->msg, "Permission denied"))
    fail_msg("%s", err->msg);
}

/* A check tells of it, and looks at everything else. */
static void
expect_checked(struct rig *x, const char *what)
{
  struct qp_check_summary sum = { 0 };
  struct qp_err err = { QP_OK, "" };

  if (qp_store_check(x->store, NULL, 0, NULL, NULL, &sum, &err))
    fail_msg("%s: %s", what, err.msg);
  assert_true(sum.problems > 0);
  assert_true(sum.contexts >= 2);
}

static void
test_a_session_that_cannot_be_written(void **state)
{
  struct lines l = { .ok = true };
  struct qp_err err;
  unsigned n;

  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    struct rig x;

    rig_make_more(&x);
    qp_store_close(x.store);
    rig_open(&x);
    deny_part("sessions/session-one.");
    expect_refused(say(&x, "one", 3, &err), &err, "session-one");
    expect_refused(say(&x, "one", 4, &err), &err, "session 'one'");
    expect_refused(qp_session_read(x.store, "one", 9, count_line, &l, NULL, &err), &err,
                   "session 'one'");
    expect_refused(qp_session_delete(x.store, "one", &err), &err, "session 'one'");
    assert_int_equal(say(&x, "two", 3, &err), QP_OK);
    expect_checked(&x, "session");
    expect_others_go_on(&x, 120);
    rig_die(&x, cut); /* and so at the start */
    rig_open(&x);
    expect_refused(say(&x, "one", 4, &err), &err, "session 'one'");
    assert_int_equal(say(&x, "two", 4, &err), QP_OK);
    assert_int_equal(lines_of(x.store, "two"), 5);
    expect_others_go_on(&x, 80);
    deny(NULL);
    n = lines_of(x.store, "one"); /* it is back by itself, with what was durable */
    assert_int_equal(n, 4);
    assert_int_equal(say(&x, "one", (int)n, &err), QP_OK);
    assert_int_equal(lines_of(x.store, "one"), n + 1);
    rig_die(&x, cut);
    rig_open(&x);
    assert_int_equal(lines_of(x.store, "one"), n + 1);
    assert_int_equal(qp_session_delete(x.store, "one", &err), QP_OK);
    rig_remove(&x);
  }
}

/* Without an append in between: what a writer has in memory is right once it can be written. */
static void
test_a_session_goes_on_in_the_same_process(void **state)
{
  struct qp_err err;
  struct rig x;

  (void)state;
  rig_make_more(&x);
  qp_store_close(x.store);
  rig_open(&x);
  deny_part("sessions/session-one.");
  expect_refused(say(&x, "one", 3, &err), &err, "session-one");
  deny(NULL);
  assert_int_equal(say(&x, "one", 4, &err), QP_OK);
  assert_int_equal(lines_of(x.store, "one"), 5);
  qp_store_close(x.store);
  rig_open(&x);
  assert_int_equal(lines_of(x.store, "one"), 5);
  rig_remove(&x);
}

static void
test_an_index_of_sessions_that_cannot_be_written(void **state)
{
  struct qp_err err;

  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    struct rig x;

    rig_make_more(&x);
    qp_store_close(x.store);
    rig_open(&x);
    assert_int_equal(lines_of(x.store, "one"), 3);
    deny_part("sessions/index.jsonl");
    expect_refused(say(&x, "one", 3, &err), &err, "index");
    expect_refused(say(&x, "two", 3, &err), &err, "the index of sessions");
    expect_checked(&x, "index");
    expect_others_go_on(&x, 120);
    rig_die(&x, cut);
    rig_open(&x);
    expect_refused(say(&x, "two", 3, &err), &err, "the index of sessions");
    expect_others_go_on(&x, 80);
    deny(NULL);
    assert_int_equal(say(&x, "two", 3, &err), QP_OK);
    assert_int_equal(lines_of(x.store, "two"), 4);
    assert_int_equal(lines_of(x.store, "one"), 4);
    rig_remove(&x);
  }
}

static void
test_a_prompt_that_cannot_be_written(void **state)
{
  struct qp_prompt change = { .id = "p-one", .content = "Be long." };
  struct qp_err err;
  unsigned n = 0;

  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    struct rig x;

    rig_make_more(&x);
    deny_part("p-one.json");
    expect_refused(qp_prompt_update(x.store, &change, &err), &err, "p-one");
    expect_refused(qp_prompt_get(x.store, "p-one", count_prompt, &n, &err), &err, "'p-one'");
    expect_refused(qp_prompt_delete(x.store, "p-one", &err), &err, "'p-one'");
    expect_prompt(x.store, "p-two", text_of_prompt);
    n = 0;
    assert_int_equal(qp_prompt_list(x.store, count_prompt, &n, &err), QP_OK);
    assert_int_equal(n, 1);
    expect_checked(&x, "prompt");
    expect_others_go_on(&x, 120);
    rig_die(&x, cut);
    rig_open(&x);
    expect_refused(qp_prompt_get(x.store, "p-one", count_prompt, &n, &err), &err, "'p-one'");
    expect_others_go_on(&x, 80);
    deny(NULL);
    expect_prompt(x.store, "p-one", "Be long."); /* it was durable */
    assert_int_equal(qp_prompt_delete(x.store, "p-one", &err), QP_OK);
    rig_remove(&x);
  }
}

/* A prompt that two contexts use cannot be deleted: they lose it, and are not stuck. */
static void
test_a_prompt_that_cannot_be_deleted(void **state)
{
  struct qp_bytes use = { "{\"systemPromptId\":\"p-one\"}", 26 };
  struct qp_context *c = NULL;
  struct qp_err err = { QP_OK, "" };
  unsigned n = 0;
  struct rig x;

  (void)state;
  rig_make_more(&x);
  assert_int_equal(qp_context_open(x.store, &x.a, QP_LOAD_NONE, &c, &err), QP_OK);
  if (qp_context_update(c, use, &err))
    fail_msg("%s", err.msg);
  qp_context_close(c);
  deny_part("p-one.json");
  expect_refused(qp_prompt_delete(x.store, "p-one", &err), &err, "p-one");
  must(&x, op_save(&x.rng, &x.a, NULL, 1, 50));
  expect_others_go_on(&x, 120);
  deny(NULL);
  assert_int_equal(qp_prompt_get(x.store, "p-one", count_prompt, &n, &err), QP_NOTFOUND);
  must(&x, op_save(&x.rng, &x.a, NULL, 1, 50));
  rig_remove(&x);
}

static void
test_a_context_that_is_set_aside_can_be_deleted(void **state)
{
  struct qp_err err;

  (void)state;
  for (int how = 0; how < 4; how++) {
    enum qp_rc (*remove)(struct qp_store *, const struct qp_uuid *, struct qp_err *) =
        how % 2 ? qp_context_erase : qp_context_delete;
    struct qp_context *c = NULL;
    struct op pending;
    struct rig x;

    rig_make(&x);
    for (int i = 0; i < 40; i++) {
      struct qp_uuid id;

      must(&x, op_create(&x.rng, &id));
      must(&x, op_save(&x.rng, &id, NULL, 1, 20));
    }
    deny(&x.a);
    pending = fail_once(&x);
    op_release(&pending);
    if (how > 1) {
      rig_die(&x, true);
      rig_open(&x);
    }
    expect_refused(remove(x.store, &x.a, &err), &err, "context ");
    deny(NULL);
    if (remove(x.store, &x.a, &err))
      fail_msg("%s", err.msg);
    assert_int_equal(qp_context_open(x.store, &x.a, 0, &c, &err), QP_NOTFOUND);
    rig_die(&x, true);
    rig_open(&x);
    assert_int_equal(qp_context_open(x.store, &x.a, 0, &c, &err), QP_NOTFOUND);
    rig_remove(&x);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_while_the_store_runs),
    cmocka_unit_test(test_over_ends_and_starts),
    cmocka_unit_test(test_when_the_store_starts),
    cmocka_unit_test(test_in_a_backup),
    cmocka_unit_test(test_a_bad_block_in_one_context),
    cmocka_unit_test(test_a_session_that_cannot_be_written),
    cmocka_unit_test(test_a_session_goes_on_in_the_same_process),
    cmocka_unit_test(test_an_index_of_sessions_that_cannot_be_written),
    cmocka_unit_test(test_a_prompt_that_cannot_be_written),
    cmocka_unit_test(test_a_prompt_that_cannot_be_deleted),
    cmocka_unit_test(test_a_context_that_is_set_aside_can_be_deleted),
  };

  return cmocka_run_group_tests_name("aside", tests, NULL, NULL);
}

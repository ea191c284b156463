/* test_migrations.c - migrations and rollbacks in which one thing goes wrong: the Nth system call
 * fails, the Nth allocation fails, the power goes after the Nth change.
 *
 * Each is done in a store on the simulated file system (on real files where memory is short) for
 * every N. Afterwards the store is opened again and must be what it was before or what it should
 * become, nothing between: acknowledged means after; any failure but QP_IO means before; the
 * context has all its messages in any case, the source from elsewhere is untouched, the check finds
 * nothing wrong, nothing is left in tmp/, and the same can be tried again and then succeeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "old_context.h"
#include "os/file.h"
#include "os_fault.h"
#include "os_sim.h"
#include "scenario.h"
#include "store/store_int.h"
#include "store_test.h"

#define MESSAGES 4

static struct old_context old = {
  .id = OLD_ID, .messages = MESSAGES, .alt = true, .prompt = "{\"id\": \"p\", \"content\": \"P.\"}"
};

/* ---- the rig ---- */

struct rig {
  const struct qp__os *os; /* without faults */
  struct qp__os_sim *sim;  /* NULL: real files */
  struct qp__os_fault *fault;
  char top[200]; /* "", or the directory that stands for "/" */
  struct qp_store *store;
  const char *deal;
  const char *how;
  uint64_t n;
};

static void
complain(const struct rig *x, const char *what)
{
  fail_msg("%s, %s %llu: %s: %s", x->deal, x->how, (unsigned long long)x->n, what, failure.msg);
}

static void
put(const struct rig *x, const char *path, const char *text)
{
  char top[300];
  int root;
  int rc;

  (void)snprintf(top, sizeof(top), "%s/", x->top);
  root = x->os->open_root(x->os->self, top, 0);
  assert_true(root >= 0);
  rc = qp__dir_make_parents(x->os, root, path);
  if (!rc)
    rc = qp__file_create(x->os, root, path, bytes_of(text));
  assert_int_equal(rc, 0);
  assert_int_equal(x->os->syncfs(x->os->self, root), 0);
  (void)x->os->close(x->os->self, root);
}

/* The bytes of a file; NULL: there is none. */
static char *
get(const struct rig *x, const char *path)
{
  struct qp__buf text;
  char top[300];
  char *out = NULL;
  int root;

  (void)snprintf(top, sizeof(top), "%s/", x->top);
  root = x->os->open_root(x->os->self, top, 0);
  assert_true(root >= 0);
  qp__buf_init(&text, (size_t)1 << 24);
  if (!qp__file_read(x->os, root, path, &text))
    out = strdup(text.data ? text.data : "");
  qp__buf_release(&text);
  (void)x->os->close(x->os->self, root);
  return out;
}

static enum qp_rc
open_rig(struct rig *x, const struct qp__os *os)
{
  struct qp_store_options o = { .size = sizeof(o), .flags = QP_STORE_NO_THREAD };
  char url[300];

  o.journal_bytes = (size_t)64 << 10;
  (void)snprintf(url, sizeof(url), "file:%s/data", x->top);
  clear_failure();
  return qp__store_open_os(url, &o, os, &x->store, &failure);
}

static void
close_rig(struct rig *x)
{
  qp_store_close(x->store);
  x->store = NULL;
}

/* ---- what is done ---- */

static void
put_monolith(struct rig *x, const char *path)
{
  char *text = old_monolith_text(&old);

  put(x, path, text);
  free(text);
}

static enum qp_rc
migrate(struct rig *x)
{
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_open(x->store, &id, QP_LOAD_MIGRATE, &c, &failure);

  qp_context_close(c);
  return rc;
}

static enum qp_rc
import_source(struct rig *x)
{
  struct qp_import_report report = { 0 };
  char path[300];
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), "%s/source/a.json", x->top);
  rc = qp_legacy_import(x->store, path, 0, &report, &failure);
  qp_import_report_release(&report);
  return rc;
}

static enum qp_rc
roll_back(struct rig *x)
{
  struct qp_import_report report = { 0 };
  struct qp_uuid id = id_of(OLD_ID);
  enum qp_rc rc = qp_context_rollback(x->store, &id, NULL, &report, &failure);

  qp_import_report_release(&report);
  return rc;
}

static void
set_up_monolith(struct rig *x)
{
  put_monolith(x, "data/contexts/" OLD_ID ".json");
}

static void
set_up_source(struct rig *x)
{
  put_monolith(x, "source/a.json");
}

static void
set_up_pool(struct rig *x)
{
  char dir[300];

  if (!x->sim) {
    (void)snprintf(dir, sizeof(dir), "%s/data/contexts/" OLD_ID, x->top);
    old_pool_write(&old, dir);
    return;
  }
  /* The same by way of real files. */
  (void)snprintf(dir, sizeof(dir), "/tmp/quipu-pool-XXXXXX");
  assert_non_null(mkdtemp(dir));
  old_pool_write(&old, pathf("%s/p", dir));
  for (unsigned i = 0; i <= MESSAGES + 1; i++) {
    char name[200] = "context.json";
    char *text;

    if (i)
      (void)snprintf(name, sizeof(name), "messages_pool/%.8s-0000-4000-8000-%012x.json", OLD_ID, i);
    text = read_file(pathf("%s/p/%s", dir, name), NULL);
    put(x, pathf("data/contexts/" OLD_ID "/%s", name), text);
    free(text);
  }
  remove_tree(dir);
}

static void
set_up_migrated(struct rig *x)
{
  set_up_monolith(x);
  assert_int_equal(migrate(x), QP_OK);
}

static void
set_up_migrated_pool(struct rig *x)
{
  set_up_pool(x);
  assert_int_equal(migrate(x), QP_OK);
}

static void
set_up_changed(struct rig *x)
{
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *c = NULL;

  set_up_migrated(x);
  OK(qp_context_open(x->store, &id, QP_LOAD_NONE, &c, &failure));
  (void)say(c, "main", "more");
  qp_context_close(c);
}

static const struct deal {
  const char *name;
  void (*set_up)(struct rig *x); /* with the store open */
  enum qp_rc (*act)(struct rig *x);
  int before; /* messages of main; -1: there is no context; + OLD_FORM when it is in an old one */
  int after;
  size_t filler; /* of its messages: large contexts take another way to the disk */
} deals[] = {
#define OLD_FORM 100
  { "migrate a file", set_up_monolith, migrate, MESSAGES + OLD_FORM, MESSAGES, 0 },
  { "migrate a large file", set_up_monolith, migrate, MESSAGES + OLD_FORM, MESSAGES, 10000 },
  { "migrate a directory", set_up_pool, migrate, MESSAGES + OLD_FORM, MESSAGES, 0 },
  { "import", set_up_source, import_source, -1, MESSAGES, 0 },
  { "import a large one", set_up_source, import_source, -1, MESSAGES, 10000 },
  { "roll back", set_up_migrated, roll_back, MESSAGES, MESSAGES + OLD_FORM, 0 },
  { "roll back a directory", set_up_migrated_pool, roll_back, MESSAGES, MESSAGES + OLD_FORM, 0 },
  { "roll back what has changed", set_up_changed, roll_back, MESSAGES + 1, MESSAGES + 1 + OLD_FORM,
    0 },
};

/* ---- what must hold ---- */

/* What there is, as `before` and `after` say it. Every message is read. */
static int
state_of(struct rig *x)
{
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *c = NULL;
  struct qp_branch_info main_branch;
  enum qp_rc rc;
  int state;

  clear_failure();
  rc = qp_context_open(x->store, &id, QP_LOAD_NONE, &c, &failure);
  if (rc == QP_NOTFOUND)
    return -1;
  if (rc)
    complain(x, "opening the context");
  main_branch = branch_of(c, "main");
  expect_texts(c, "alt", "m0 alt");
  expect_texts(c, "main", main_branch.messages == MESSAGES ? "m0 m1 m2 m3" : "m0 m1 m2 m3 more");
  state = (int)main_branch.messages + (qp_context_needs_migration(c) ? OLD_FORM : 0);
  qp_context_close(c);
  return state;
}

static void
check_rig(struct rig *x, const struct deal *d, const char *source)
{
  struct qp_check_summary sum;
  char *now;

  OK(qp_store_check(x->store, NULL, 0, NULL, NULL, &sum, &failure));
  if (sum.problems)
    complain(x, "the check finds problems");
  now = get(x, "source/a.json");
  if (source && (!now || strcmp(now, source) != 0))
    complain(x, "the source was changed");
  free(now);
  (void)d;
}

/* The store is open again after something went wrong. */
static void
judge(struct rig *x, const struct deal *d, enum qp_rc rc, const char *source)
{
  int state = state_of(x);

  check_rig(x, d, source);
  if (state != d->before && state != d->after)
    complain(x, "the context is neither what it was nor what it should be");
  if (rc == QP_OK && state != d->after)
    complain(x, "acknowledged, and it is not there");
  if (rc && rc != QP_IO && state != d->before && d->act != migrate) /* that opens it, too */
    complain(x, "it failed, and it is there");
  if (state == d->before) { /* once more */
    clear_failure();
    if (d->act(x) != QP_OK)
      complain(x, "the second attempt");
    if (state_of(x) != d->after)
      complain(x, "after the second attempt");
    check_rig(x, d, source);
  }
}

static void
make_sim(struct rig *x, const struct deal *d, const char *how, uint64_t n)
{
  memset(x, 0, sizeof(*x));
  old.filler = d->filler;
  x->deal = d->name;
  x->how = how;
  x->n = n;
  x->sim = qp__os_sim_new(n * 31 + 7);
  assert_non_null(x->sim);
  x->os = qp__os_sim_os(x->sim);
  x->fault = qp__os_fault_new(x->os);
  assert_non_null(x->fault);
  OK(open_rig(x, qp__os_fault_os(x->fault)));
  d->set_up(x);
  OK(qp_store_checkpoint(x->store, &failure));
}

static void
free_sim(struct rig *x)
{
  close_rig(x);
  if (qp__os_fault_open_count(x->fault))
    complain(x, "descriptors are left open");
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

/* ---- the tests ---- */

static const struct {
  const char *name;
  enum qp__os_fault_kind kind;
  bool persistent;
} kinds[] = {
  { "EIO at call", QP__FAULT_EIO, false },
  { "EIO from call", QP__FAULT_EIO, true },
  { "ENOSPC at call", QP__FAULT_ENOSPC, false },
  { "ENOSPC from call", QP__FAULT_ENOSPC, true },
  { "EINTR at call", QP__FAULT_EINTR, false },
  { "half a transfer at call", QP__FAULT_SHORT, false },
};

static bool
fail_one_call(const struct deal *d, size_t kind, uint64_t n)
{
  struct rig x;
  char *source;
  enum qp_rc rc;
  bool fired;

  make_sim(&x, d, kinds[kind].name, n);
  source = get(&x, "source/a.json");
  qp__os_fault_arm(x.fault, n, kinds[kind].kind, kinds[kind].persistent);
  clear_failure();
  rc = d->act(&x);
  fired = qp__os_fault_fired(x.fault);
  qp__os_fault_disarm(x.fault);
  if (rc && !fired)
    complain(&x, "it failed by itself");
  if (rc && (kinds[kind].kind == QP__FAULT_EINTR || kinds[kind].kind == QP__FAULT_SHORT))
    complain(&x, "an interruption was seen");
  close_rig(&x);
  OK(open_rig(&x, qp__os_fault_os(x.fault)));
  judge(&x, d, rc, source);
  free(source);
  free_sim(&x);
  return fired;
}

static void
test_every_call(void **state)
{
  const struct deal *d = *state;

  for (size_t kind = 0; kind < COUNT(kinds); kind++)
    for (uint64_t n = 1; fail_one_call(d, kind, n); n++)
      continue;
}

static bool
cut_the_power(const struct deal *d, uint64_t n, uint64_t seed)
{
  struct rig x;
  char *source;
  enum qp_rc rc;
  bool off;

  make_sim(&x, d, "the power goes after change", n + seed * 1000);
  source = get(&x, "source/a.json");
  qp__os_sim_cut_after(x.sim, n);
  rc = d->act(&x);
  if (!rc) /* also when it is acknowledged and never applied to the files */
    qp__os_sim_cut_after(x.sim, 0);
  off = rc != QP_OK;
  close_rig(&x);
  assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  clear_failure();
  if (open_rig(&x, qp__os_fault_os(x.fault)))
    complain(&x, "opening after the cut");
  judge(&x, d, rc ? QP_IO : QP_OK, source);
  free(source);
  free_sim(&x);
  return off;
}

static void
test_every_power_cut(void **state)
{
  const struct deal *d = *state;
  uint64_t seeds = test_is_long() ? 20 : 3;

  for (uint64_t seed = 0; seed < seeds; seed++)
    for (uint64_t n = 0; cut_the_power(d, n, seed); n++)
      continue;
}

/* A disk that is full before the end of it. */
static void
test_a_full_disk(void **state)
{
  const struct deal *d = *state;

  for (uint64_t room = 0; room < 40000 + 12 * d->filler; room += 1500 + d->filler / 2) {
    struct rig x;
    char *source;
    enum qp_rc rc;
    uint64_t used = 3u * 65536; /* the journal, at least */

    make_sim(&x, d, "room", room);
    source = get(&x, "source/a.json");
    qp__os_sim_set_capacity(x.sim, used + room);
    rc = d->act(&x);
    qp__os_sim_set_capacity(x.sim, 0);
    close_rig(&x);
    OK(open_rig(&x, qp__os_fault_os(x.fault)));
    judge(&x, d, rc, source);
    free(source);
    free_sim(&x);
  }
}

static bool
fail_one_allocation(const struct deal *d, const char *top, long n, bool all)
{
  struct rig x = { .os = &qp__os_posix, .deal = d->name, .n = (uint64_t)n };
  char *source;
  enum qp_rc rc;
  bool fired;

  old.filler = d->filler;
  x.how = all ? "from allocation" : "allocation";
  (void)snprintf(x.top, sizeof(x.top), "%s", top);
  make_directory(x.top);
  OK(open_rig(&x, &qp__os_posix));
  d->set_up(&x);
  source = get(&x, "source/a.json");
  clear_failure();
  if (all)
    alloc_fault_arm_all(n);
  else
    alloc_fault_arm(n);
  rc = d->act(&x);
  fired = alloc_fault_fired();
  alloc_fault_disarm();
  if (rc && rc != QP_NOMEM)
    complain(&x, "another answer than QP_NOMEM");
  judge(&x, d, rc, source); /* in the same store */
  close_rig(&x);
  OK(open_rig(&x, &qp__os_posix));
  if (state_of(&x) != d->after)
    complain(&x, "opened again");
  close_rig(&x);
  free(source);
  remove_tree(x.top);
  return fired;
}

static void
test_every_allocation(void **state)
{
  const struct deal *d = *state;
  const char *tmp = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
  char top[100];
  long step = test_is_long() ? 1 : 13;

  (void)snprintf(top, sizeof(top), "%s/quipu-migrations-%d", tmp, (int)getpid());
  for (int all = 0; all < 2; all++)
    for (long n = 1; fail_one_allocation(d, top, n, all); n += step)
      continue;
}

int
main(void)
{
  static const struct {
    const char *name;
    CMUnitTestFunction fn;
  } kinds_of_test[] = {
    { "every call", test_every_call },
    { "every power cut", test_every_power_cut },
    { "a full disk", test_a_full_disk },
    { "every allocation", test_every_allocation },
  };
  struct CMUnitTest tests[COUNT(deals) * COUNT(kinds_of_test)];
  static char names[COUNT(deals) * COUNT(kinds_of_test)][100];
  size_t n = 0;

  alloc_fault_init();
  for (size_t k = 0; k < COUNT(kinds_of_test); k++)
    for (size_t i = 0; i < COUNT(deals); i++, n++) {
      (void)snprintf(names[n], sizeof(names[n]), "%s: %s", deals[i].name, kinds_of_test[k].name);
      tests[n] = (struct CMUnitTest){ .name = names[n],
                                      .test_func = kinds_of_test[k].fn,
                                      .initial_state = (void *)&deals[i] };
    }
  return _cmocka_run_group_tests("migrations", tests, n, NULL, NULL);
}

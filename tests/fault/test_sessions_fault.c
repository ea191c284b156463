/* test_sessions_fault.c - sessions when something fails: every system call, every allocation, and
 * the power at every moment.
 *
 * A deed is one operation in a place that was made ready for it. Whatever single call or allocation
 * of it fails, what was acknowledged is there, what failed with another code than QP_IO is not, and
 * what failed with QP_IO is there completely or not at all; the message and the line of the index
 * never part. QUIPU_TEST_SEED and QUIPU_TEST_LONG as in test_powercut.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "os/file.h"
#include "os_fault.h"
#include "os_sim.h"
#include "session_model.h"
#include "store/session/session_int.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define SLACK 600 /* a few lines: the index is compacted often */

/* ---- a place ---- */

struct place {
  const struct qp__os *os;
  char dir[256]; /* of real files, or "" */
  char url[300];
  struct qp_store *store;
  struct sm *model;
};

static enum qp_rc
place_open(struct place *p, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD,
                                      .journal_bytes = (size_t)64 << 10 };
  enum qp_rc rc = qp__store_open_os(p->url, &options, p->os, &p->store, err);

  if (!rc)
    p->store->sessions->slack = p->store->sessions->first_slack = SLACK;
  return rc;
}

static void
place_close(struct place *p)
{
  qp_store_close(p->store);
  p->store = NULL;
}

static void
place_make(struct place *p, enum sm_kind kind, size_t session, uint32_t number)
{
  struct sm_op op = sm_op_on(p->model, kind, session, number);
  struct qp_err err = { QP_OK, "" };

  if (sm_op_run(&op, p->store, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(sm_op_apply(&op, p->model), QP_OK);
}

static void
place_init(struct place *p, const struct qp__os *os, const char *url)
{
  memset(p, 0, sizeof(*p));
  p->os = os;
  (void)snprintf(p->url, sizeof(p->url), "%s", url);
  p->model = calloc(1, sizeof(*p->model));
  assert_non_null(p->model);
}

static bool
is_memory(const struct place *p)
{
  return strcmp(p->url, "memory:") == 0;
}

/* Closes and opens, so that the next call loads everything anew. */
static void
forget(struct place *p)
{
  struct qp_err err = { QP_OK, "" };

  if (is_memory(p)) {
    qp__sessions_forget(p->store->sessions);
    return;
  }
  place_close(p);
  if (place_open(p, &err))
    fail_msg("%s", err.msg);
}

/* Two sessions, one of them with a full chunk. */
static void
set_up(struct place *p)
{
  struct qp_err err = { QP_OK, "" };

  if (place_open(p, &err))
    fail_msg("%s", err.msg);
  place_make(p, SM_CREATE, 0, 3);
  for (int i = 0; i < 6; i++)
    place_make(p, SM_APPEND, 0, 20);
  place_make(p, SM_CREATE, 1, 5);
  place_make(p, SM_APPEND, 1, 20);
}

static void
set_up_unopened(struct place *p)
{
  set_up(p);
  forget(p);
}

/* Changes a file by hand, through the driver. */
static void
by_hand(struct place *p, struct qp__driver_change *ch)
{
  assert_int_equal(qp__commit_one(p->store, ch, NULL), QP_OK);
}

/* Session 1 is in a file from before there were chunks, with a torn tail. */
static void
set_up_old_file(struct place *p)
{
  struct qp__driver_change name = { .kind = QP__CHANGE_FILE_RENAME,
                                    .path = "sessions/session-a.b.1.jsonl",
                                    .to = "sessions/session-a.b.jsonl" };
  struct qp__driver_change tail = {
    .kind = QP__CHANGE_FILE_APPEND,
    .path = "sessions/session-a.b.jsonl",
    .bytes = { "torn and longer than any line that comes behind it …", 40 }
  };
  uint64_t size;

  set_up(p);
  by_hand(p, &name);
  assert_int_equal(p->store->driver->file_size(p->store->self, tail.path, &size, NULL), QP_OK);
  tail.offset = size;
  by_hand(p, &tail);
  p->model->sessions[1].single = true;
  p->model->damaged = true;
  forget(p);
}

/* So many lines in the index that the next append has it compacted. */
static void
set_up_long_index(struct place *p)
{
  set_up(p);
  p->store->sessions->slack = p->store->sessions->first_slack = 1 << 20;
  for (int i = 0; i < 8; i++)
    place_make(p, SM_SIZE, 0, 3);
  p->store->sessions->slack = p->store->sessions->first_slack = SLACK;
}

/* The index is gone. */
static void
set_up_no_index(struct place *p)
{
  struct qp__driver_change drop = { .kind = QP__CHANGE_FILE_DROP, .path = QP__SESSION_INDEX };

  set_up(p);
  place_make(p, SM_SIZE, 0, QP__SESSION_CHUNK); /* what a session without a line has */
  place_make(p, SM_SIZE, 1, QP__SESSION_CHUNK);
  by_hand(p, &drop);
  p->model->damaged = true;
  forget(p);
}

static void
set_up_closed(struct place *p)
{
  set_up(p);
  place_close(p);
}

/* ---- deeds ---- */

static enum qp_rc
look_at_line(void *arg, struct qp_bytes json)
{
  (void)arg;
  (void)json;
  return QP_OK;
}

static enum qp_rc
look_at_session(void *arg, const struct qp_session_info *session)
{
  (void)arg;
  (void)session;
  return QP_OK;
}

static enum qp_rc
act_read(struct place *p, struct qp_err *err)
{
  return qp_session_read(p->store, sm_ids[0], 5, look_at_line, NULL, NULL, err);
}

static enum qp_rc
act_get(struct place *p, struct qp_err *err)
{
  return qp_session_get(p->store, sm_ids[0], look_at_session, NULL, err);
}

static enum qp_rc
act_list(struct place *p, struct qp_err *err)
{
  return qp_session_list(p->store, look_at_session, NULL, err);
}

static enum qp_rc
act_check(struct place *p, struct qp_err *err)
{
  return qp_store_check(p->store, NULL, 0, NULL, NULL, NULL, err);
}

static enum qp_rc
act_repair(struct place *p, struct qp_err *err)
{
  return qp_store_check(p->store, NULL, QP_CHECK_REPAIR, NULL, NULL, NULL, err);
}

static enum qp_rc
act_open(struct place *p, struct qp_err *err)
{
  return place_open(p, err);
}

static const struct deed {
  const char *name;
  void (*set_up)(struct place *p);
  enum qp_rc (*act)(struct place *p, struct qp_err *err); /* or the operation */
  enum sm_kind kind;
  size_t session;
  uint32_t number;
  bool files_only;
  bool repairs; /* it may change what no model knows of */
} deeds[] = {
  { "create", set_up, NULL, SM_CREATE, 2, 4, false, false },
  { "the first session", NULL, NULL, SM_CREATE, 0, 4, false, false },
  { "append", set_up, NULL, SM_APPEND, 1, 30, false, false },
  { "append that opens a chunk", set_up, NULL, SM_APPEND, 0, 30, false, false },
  { "append as the first thing", set_up_unopened, NULL, SM_APPEND, 1, 30, false, false },
  { "append to an old file", set_up_old_file, NULL, SM_APPEND, 1, 2, false, false },
  { "append that compacts", set_up_long_index, NULL, SM_APPEND, 1, 30, false, false },
  { "append without an index", set_up_no_index, NULL, SM_APPEND, 1, 30, false, false },
  { "chunk size", set_up_unopened, NULL, SM_SIZE, 0, 9, false, false },
  { "delete", set_up_unopened, NULL, SM_DELETE, 0, 0, false, false },
  { "delete an old file", set_up_old_file, NULL, SM_DELETE, 1, 0, false, false },
  { "read", set_up_unopened, act_read, 0, 0, 0, false, false },
  { "get", set_up_unopened, act_get, 0, 0, 0, false, false },
  { "list", set_up_unopened, act_list, 0, 0, 0, false, false },
  { "list without an index", set_up_no_index, act_list, 0, 0, 0, false, false },
  { "check", set_up, act_check, 0, 0, 0, false, false },
  { "repair", set_up_old_file, act_repair, 0, 0, 0, false, true },
  { "repair without an index", set_up_no_index, act_repair, 0, 0, 0, false, true },
  { "open", set_up_closed, act_open, 0, 0, 0, true, false },
};

/* ---- afterwards ---- */

static void
complain(const struct deed *deed, const char *with, uint64_t n, const char *what, const char *why)
{
  fail_msg("%s with %s %llu failing: %s: %s", deed->name, with, (unsigned long long)n, what, why);
}

/* The store is right, now and after it was opened again; what came to nothing can be done again,
 * and writes go on. */
static void
verify(struct place *p, const struct deed *deed, const struct sm_op *op, enum qp_rc rc,
       const char *with, uint64_t n)
{
  const struct sm_op *pending = rc == QP_IO && !deed->act ? op : NULL;
  struct qp_err err = { QP_OK, "" };
  char why[SM_WHY] = "";
  size_t there = 0;

  if (p->store && rc != QP_IO && !sm_is_right(p->store, p->model, NULL, why))
    complain(deed, with, n, "in the same store", why);
  if (!is_memory(p)) {
    place_close(p);
    if (place_open(p, &err))
      complain(deed, with, n, "opening again", err.msg);
  } else if (!p->store) {
    return;
  }
  if (!sm_is_right(p->store, p->model, pending, why))
    complain(deed, with, n, "after opening again", why);
  if (rc && rc != QP_IO && !deed->act && sm_op_run(op, p->store, &err) != sm_op_apply(op, p->model))
    complain(deed, with, n, "trying again", err.msg);
  while (there < SM_SESSIONS && !p->model->sessions[there].there)
    there++;
  if (there < SM_SESSIONS)
    place_make(p, SM_APPEND, there, 3);
  forget(p);
  if (!sm_is_right(p->store, p->model, NULL, why))
    complain(deed, with, n, "in the end", why);
}

static struct sm_op
begin(struct place *p, const struct deed *deed)
{
  struct qp_err err = { QP_OK, "" };

  if (deed->set_up)
    deed->set_up(p);
  else if (place_open(p, &err))
    fail_msg("%s", err.msg);
  return sm_op_on(p->model, deed->kind, deed->session, deed->number);
}

static enum qp_rc
run(struct place *p, const struct deed *deed, const struct sm_op *op, struct qp_err *err)
{
  return deed->act ? deed->act(p, err) : sm_op_run(op, p->store, err);
}

/* ---- system calls ---- */

static const struct fault_kind {
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

/* A store that the failure has stopped recovers in place, after each call of that has failed too;
 * then it shows what is stored. False: it was not stopped. */
static bool
recover_in_place(struct place *p, struct qp__os_fault *fault, const struct deed *deed,
                 const struct sm_op *pending, uint64_t n)
{
  struct qp_err err = { QP_OK, "" };
  char why[SM_WHY] = "";

  if (!p->store || qp_store_writable(p->store, NULL) == QP_OK)
    return false;
  for (uint64_t m = 1; qp_store_writable(p->store, NULL); m++) {
    enum qp_rc rc;

    qp__os_fault_arm(fault, m, QP__FAULT_EIO, false);
    rc = qp_store_recover(p->store, &err);
    if (rc && !qp__os_fault_fired(fault))
      complain(deed, "recovering", n, "without a fault", err.msg);
    qp__os_fault_disarm(fault);
  }
  if (!sm_is_right(p->store, p->model, pending, why))
    complain(deed, "recovering", n, "afterwards", why);
  return true;
}

static bool
fail_call(const struct deed *deed, const struct fault_kind *kind, bool in_place, uint64_t n)
{
  struct qp__os_sim *sim = qp__os_sim_new(42);
  struct qp__os_fault *fault = qp__os_fault_new(qp__os_sim_os(sim));
  struct qp_err err = { QP_OK, "" };
  struct place p;
  struct sm_op op;
  enum qp_rc rc;
  bool fired;

  assert_non_null(fault);
  place_init(&p, qp__os_fault_os(fault), "file:/data");
  op = begin(&p, deed);
  qp__os_fault_arm(fault, n, kind->kind, kind->persistent);
  rc = run(&p, deed, &op, &err);
  fired = qp__os_fault_fired(fault);
  qp__os_fault_disarm(fault);
  if (rc && !fired)
    complain(deed, kind->name, n, "without a fault", err.msg);
  if (rc && (kind->kind == QP__FAULT_EINTR || kind->kind == QP__FAULT_SHORT))
    complain(deed, kind->name, n, "an interruption is seen", err.msg);
  if (rc && (!err.msg[0] || err.rc != rc))
    complain(deed, kind->name, n, "a failure without a sentence", qp_rc_name(rc));
  if (!rc && !deed->act)
    assert_int_equal(sm_op_apply(&op, p.model), QP_OK);
  if (in_place && recover_in_place(&p, fault, deed, rc == QP_IO && !deed->act ? &op : NULL, n))
    rc = QP_OK; /* whether it is there is known now */
  verify(&p, deed, &op, rc, kind->name, n);
  place_close(&p);
  if (qp__os_fault_open_count(fault))
    complain(deed, kind->name, n, "after closing", "a descriptor is open");
  free(p.model);
  qp__os_fault_free(fault);
  qp__os_sim_free(sim);
  return fired;
}

static void
test_every_call(void **state)
{
  const struct deed *deed = *state;

  for (size_t k = 0; k < COUNT(kinds); k++)
    for (uint64_t n = 1; fail_call(deed, &kinds[k], false, n); n++)
      continue;
  for (size_t k = 0; k < 2; k++)
    for (uint64_t n = 1; fail_call(deed, &kinds[k], true, n); n++)
      continue;
}

/* ---- allocations ---- */

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
make_real_place(struct place *p)
{
  const char *tmp = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
  char dir[200];
  char url[260];

  (void)snprintf(dir, sizeof(dir), "%s/quipu-sessions-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(dir));
  (void)snprintf(url, sizeof(url), "file:%s/data", dir);
  place_init(p, &qp__os_posix, url);
  memcpy(p->dir, dir, sizeof(dir));
}

static bool
fail_allocation(const struct deed *deed, bool files, bool all, long n)
{
  struct qp_err err = { QP_OK, "" };
  struct place p;
  struct sm_op op;
  enum qp_rc rc;
  bool fired;

  if (files)
    make_real_place(&p);
  else
    place_init(&p, &qp__os_posix, "memory:");
  op = begin(&p, deed);
  if (all)
    alloc_fault_arm_all(n);
  else
    alloc_fault_arm(n);
  rc = run(&p, deed, &op, &err);
  fired = alloc_fault_fired();
  alloc_fault_disarm();
  if (rc && (!fired || rc != QP_NOMEM || !err.msg[0]))
    complain(deed, "allocation", (uint64_t)n, qp_rc_name(rc), err.msg);
  if (!rc && !deed->act)
    assert_int_equal(sm_op_apply(&op, p.model), QP_OK);
  verify(&p, deed, &op, rc, "allocation", (uint64_t)n);
  place_close(&p);
  free(p.model);
  if (p.dir[0])
    assert_int_equal(nftw(p.dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
  return fired;
}

static void
test_every_allocation(void **state)
{
  const struct deed *deed = *state;

  for (int files = deed->files_only ? 1 : 0; files <= 1; files++) {
    for (long n = 1; fail_allocation(deed, files, false, n); n++)
      continue;
    for (long n = 1; fail_allocation(deed, files, true, n); n += test_is_long() ? 1 : 5)
      continue;
  }
}

/* ---- the power ---- */

struct rig {
  struct qp__os_sim *sim;
  struct place place;
  struct sm_op pending;
  bool is_pending;
  uint64_t seed;
  uint64_t cut;
};

static void
fail_rig(const struct rig *x, const char *what, const char *why)
{
  fail_msg("seed %llu, cut %llu: %s: %s", (unsigned long long)x->seed, (unsigned long long)x->cut,
           what, why);
}

/* Makes random operations until the power goes. */
static void
work(struct rig *x, struct rng *r, size_t count)
{
  struct place *p = &x->place;

  for (size_t i = 0; i < count && !qp__os_sim_is_off(x->sim); i++) {
    struct qp_err err = { QP_OK, "" };
    struct sm_op op = sm_op_random(r, p->model, true);
    enum qp_rc rc = sm_op_run(&op, p->store, &err);
    bool off = qp__os_sim_is_off(x->sim);

    if (off && rc == QP_IO) {
      x->pending = op;
      x->is_pending = true;
    } else if ((!off || rc == QP_OK) && sm_op_apply(&op, p->model) != rc) {
      fail_rig(x, "an operation", err.msg);
    }
    if (!off && rng_below(r, 30) == 0) { /* a life that ends well */
      place_close(p);
      if (place_open(p, &err) && !qp__os_sim_is_off(x->sim))
        fail_rig(x, "opening", err.msg);
      if (!p->store)
        return;
    }
  }
}

/* Cuts the power, perhaps again while the store recovers, and compares. */
static void
recover(struct rig *x, struct rng *r)
{
  struct place *p = &x->place;
  struct qp_err err = { QP_OK, "" };
  char why[SM_WHY] = "";

  place_close(p);
  assert_int_equal(qp__os_sim_power_cut(x->sim), 0);
  for (uint64_t again = rng_below(r, 3); again; again--) {
    qp__os_sim_cut_after(x->sim, rng_below(r, 60));
    if (place_open(p, &err) && !qp__os_sim_is_off(x->sim))
      fail_rig(x, "opening after a cut in the recovery", err.msg);
    place_close(p);
    assert_int_equal(qp__os_sim_power_cut(x->sim), 0);
  }
  if (place_open(p, &err))
    fail_rig(x, "opening after the cut", err.msg);
  if (!sm_is_right(p->store, p->model, x->is_pending ? &x->pending : NULL, why))
    fail_rig(x, "after the cut", why);
  x->is_pending = false;
}

/* Several lives of one store, each ended by a cut. */
static void
run_seed(uint64_t seed)
{
  struct rng r = { seed };
  struct qp_err err = { QP_OK, "" };
  struct rig x = { .sim = qp__os_sim_new(seed), .seed = seed };

  assert_non_null(x.sim);
  place_init(&x.place, qp__os_sim_os(x.sim), "file:/data");
  for (int life = 0; life < 4; life++) {
    x.cut = rng_below(&r, rng_below(&r, 2) ? 100 : 700);
    qp__os_sim_cut_after(x.sim, x.cut);
    if (!x.place.store && place_open(&x.place, &err) && !qp__os_sim_is_off(x.sim))
      fail_rig(&x, "opening", err.msg);
    if (x.place.store)
      work(&x, &r, 150);
    recover(&x, &r);
  }
  place_close(&x.place);
  free(x.place.model);
  qp__os_sim_free(x.sim);
}

static void
test_powercut_at_random_points(void **state)
{
  uint64_t first = test_seed(1);
  uint64_t count = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 5000 : 150;

  (void)state;
  for (uint64_t seed = first; seed < first + count; seed++)
    run_seed(seed);
}

/* Every deed, with the power going at its every mutation. */
static bool
cut_deed(const struct deed *deed, uint64_t n)
{
  struct qp__os_sim *sim = qp__os_sim_new(n + 1);
  struct qp_err err = { QP_OK, "" };
  char why[SM_WHY] = "";
  struct place p;
  struct sm_op op;
  enum qp_rc rc;
  bool off;

  assert_non_null(sim);
  place_init(&p, qp__os_sim_os(sim), "file:/data");
  op = begin(&p, deed);
  qp__os_sim_cut_after(sim, n);
  rc = run(&p, deed, &op, &err);
  off = qp__os_sim_is_off(sim);
  if (rc == QP_OK && !deed->act)
    assert_int_equal(sm_op_apply(&op, p.model), QP_OK);
  place_close(&p);
  assert_int_equal(qp__os_sim_power_cut(sim), 0);
  if (place_open(&p, &err))
    complain(deed, "the power at mutation", n, "opening", err.msg);
  if (!sm_is_right(p.store, p.model, rc == QP_IO && !deed->act ? &op : NULL, why))
    complain(deed, "the power at mutation", n, "after the cut", why);
  place_close(&p);
  free(p.model);
  qp__os_sim_free(sim);
  return off;
}

static void
test_powercut_of_every_deed(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(deeds); i++)
    for (uint64_t n = 0; cut_deed(&deeds[i], n); n++)
      continue;
}

/* A session is deleted, and somebody puts an old file of that name there; a repair finds it, and an
 * append takes it over. After a crash the journal is replayed from before the deletion: it must not
 * take the file for the chunk that was deleted. */
static void
test_an_old_file_that_came_after_a_deletion_survives_a_replay(void **state)
{
  static const char old[] = "{\"role\":\"user\",\"content\":\"old\"}\n";
  struct qp_err err = { QP_OK, "" };

  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct qp__os_sim *sim = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(sim);
    struct qp_session_reading reading = { 0 };
    struct place p;
    int root;
    int fd;

    place_init(&p, os, "file:/data");
    assert_int_equal(place_open(&p, &err), QP_OK);
    place_make(&p, SM_CREATE, 1, 5);
    place_make(&p, SM_APPEND, 1, 2000);
    place_make(&p, SM_DELETE, 1, 0);
    root = os->open_root(os->self, "/data", 0);
    fd = qp__open(os, root, "sessions/session-a.b.jsonl", O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(root >= 0 && fd >= 0);
    assert_int_equal(qp__write_at(os, fd, old, strlen(old), 0), 0);
    assert_int_equal(qp__syncfs(os, root), 0);
    qp__close(os, fd);
    qp__close(os, root);
    assert_int_equal(act_repair(&p, &err), QP_OK);
    assert_int_equal(
        qp_session_append(p.store, "a.b",
                          (struct qp_bytes){ "{\"role\":\"user\",\"content\":\"\"}", 28 }, &err),
        QP_OK);
    qp__os_sim_cut_after(sim, 0); /* else closing makes a checkpoint */
    place_close(&p);
    assert_int_equal(qp__os_sim_power_cut(sim), 0);
    assert_int_equal(place_open(&p, &err), QP_OK);
    assert_int_equal(qp_session_read(p.store, "a.b", 9, look_at_line, NULL, &reading, &err), QP_OK);
    assert_int_equal(reading.messages, 2);
    assert_int_equal(reading.bad_lines, 0);
    place_close(&p);
    free(p.model);
    qp__os_sim_free(sim);
  }
}

int
main(void)
{
  static struct CMUnitTest tests[64];
  static char names[64][80];
  size_t count = 0;

  alloc_fault_init();
  for (size_t i = 0; i < COUNT(deeds); i++) {
    for (int kind = 0; kind < 2; kind++) {
      (void)snprintf(names[count], sizeof(names[count]), "every_%s_of: %s",
                     kind ? "allocation" : "call", deeds[i].name);
      tests[count].name = names[count];
      tests[count].test_func = kind ? test_every_allocation : test_every_call;
      tests[count++].initial_state = (void *)&deeds[i];
    }
  }
  tests[count].name = "an_old_file_that_came_after_a_deletion_survives_a_replay";
  tests[count++].test_func = test_an_old_file_that_came_after_a_deletion_survives_a_replay;
  tests[count].name = "powercut_of_every_deed";
  tests[count++].test_func = test_powercut_of_every_deed;
  tests[count].name = "powercut_at_random_points";
  tests[count++].test_func = test_powercut_at_random_points;
  return _cmocka_run_group_tests("sessions_fault", tests, count, NULL, NULL);
}

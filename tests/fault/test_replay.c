/* test_replay.c - a replay needs no more space than there is, and a partial replay is never
 * visible.
 *
 * A process fills a disk with few inodes, deletes what filled it, continues with another context
 * and crashes. A process that then opens the store, to read or to write, sees everything, or gets
 * the reason for a failure. */
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
#include "store/store_int.h"

#define URL "file:/data"

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  struct model model;
  struct qp_uuid a;
  struct qp_uuid b;
};

static enum qp_rc
open_with(const struct qp__os *os, unsigned flags, struct qp_store **out, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD | flags,
                                      .journal_bytes = (size_t)1 << 20 };

  *err = (struct qp_err){ QP_OK, "" };
  return qp__store_open_os(URL, &options, os, out, err);
}

static enum qp_rc
do_op(struct rig *x, struct qp_store *store, struct op op)
{
  struct qp_err err;
  enum qp_rc rc = op_run(&op, store, &err);

  if (!rc)
    assert_int_equal(op_apply(&op, &x->model), QP_OK);
  op_release(&op);
  return rc;
}

#define DO(x, store, op) assert_int_equal(do_op(x, store, op), QP_OK)

/* The process that writes dies. */
static void
kill_writer(struct rig *x, struct qp_store *store)
{
  qp__os_fault_arm(x->fault, 1, QP__FAULT_EIO, true);
  qp_store_close(store);
  qp__os_fault_disarm(x->fault);
}

/* Everything up to the death, which the caller brings about. */
static struct qp_store *
write_history(struct rig *x)
{
  struct rng r = { 5 };
  struct qp_store *store = NULL;
  struct qp_err err;
  struct op title;
  enum qp_rc rc = QP_OK;

  memset(x, 0, sizeof(*x));
  x->sim = qp__os_sim_new(5);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  assert_int_equal(open_with(qp__os_fault_os(x->fault), 0, &store, &err), QP_OK);
  DO(x, store, op_create(&r, &x->a));
  for (int i = 0; i < 4; i++)
    DO(x, store, op_save(&r, &x->a, NULL, 1, 40));
  DO(x, store, op_on(OP_FORK, &x->a, "main", "side"));
  DO(x, store, op_on(OP_SWITCH, &x->a, "main", NULL));
  DO(x, store, op_save(&r, &x->a, "side", 2, 40));
  DO(x, store, op_create(&r, &x->b));
  qp__os_sim_set_inodes(x->sim, qp__os_sim_inodes(x->sim) + 24);
  while (!rc)
    rc = do_op(x, store, op_save(&r, &x->b, NULL, 1, 40));
  assert_int_equal(rc, QP_FULL);
  DO(x, store, op_on(OP_DELETE, &x->b, NULL, NULL));
  for (int i = 0; i < 12; i++)
    DO(x, store, op_save(&r, &x->a, NULL, 1, 40));
  title = op_on(OP_UPDATE, &x->a, NULL, NULL);
  (void)snprintf(title.text, sizeof(title.text), "v59");
  DO(x, store, title);
  DO(x, store, op_on(OP_DROP, &x->a, "side", NULL));
  return store;
}

static void
remove_rig(struct rig *x)
{
  model_release(&x->model);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

/* Not one byte and not one inode is left. */
static void
fill_disk(struct rig *x)
{
  qp__os_sim_set_inodes(x->sim, qp__os_sim_inodes(x->sim));
  qp__os_sim_set_capacity(x->sim, qp__os_sim_bytes(x->sim));
}

/* A reader sees all of it. */
static void
expect_all(struct rig *x, struct qp_store *store, const char *when, uint64_t n)
{
  char why[MODEL_WHY] = "";

  if (!model_matches(&x->model, store, why))
    fail_msg("%s (%llu): %s", when, (unsigned long long)n, why);
}

/* ---- a medium that cannot be written ---- */

static const struct qp__os *beneath;

static int
refuse_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  if ((flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC))
    return -EROFS;
  return beneath->openat(self, dirfd, path, flags, mode);
}

static int
refuse_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  (void)self;
  (void)dirfd;
  (void)path;
  (void)mode;
  return -EROFS;
}

static int
refuse_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  (void)self;
  (void)dirfd;
  (void)path;
  (void)flags;
  return -EROFS;
}

static int
refuse_renameat(void *self, int olddir, const char *from, int newdir, const char *to,
                unsigned flags)
{
  (void)self;
  (void)olddir;
  (void)from;
  (void)newdir;
  (void)to;
  (void)flags;
  return -EROFS;
}

static struct qp__os
readonly_medium(struct rig *x)
{
  struct qp__os os = *qp__os_sim_os(x->sim);

  beneath = qp__os_sim_os(x->sim);
  os.openat = refuse_openat;
  os.mkdirat = refuse_mkdirat;
  os.unlinkat = refuse_unlinkat;
  os.renameat = refuse_renameat;
  return os;
}

/* ---- tests ---- */

static void
test_a_reader_on_a_full_disk_sees_all_of_it(void **state)
{
  struct qp_store *store;
  struct qp_err err;
  char why[MODEL_WHY];
  struct rig x;

  (void)state;
  kill_writer(&x, write_history(&x));
  fill_disk(&x);
  if (open_with(qp__os_sim_os(x.sim), QP_STORE_READONLY, &store, &err))
    fail_msg("%s", err.msg);
  expect_all(&x, store, "to read", 0);
  qp_store_close(store);
  assert_int_equal(open_with(qp__os_sim_os(x.sim), 0, &store, &err), QP_OK);
  expect_all(&x, store, "to write", 0);
  DO(&x, store, op_on(OP_DELETE, &x.a, NULL, NULL)); /* room can be made */
  if (!store_is_clean(store, &x.model, why))
    fail_msg("%s", why);
  qp_store_close(store);
  remove_rig(&x);
}

/* After a power cut too: the room is what the state had that the replay leads to. */
static void
test_a_replay_after_a_power_cut_on_a_full_disk(void **state)
{
  (void)state;
  for (int i = 0; i < 20; i++) {
    struct qp_store *store;
    struct qp_err err;
    struct rig x;
    uint64_t inodes;

    store = write_history(&x);
    inodes = qp__os_sim_inodes(x.sim);
    kill_writer(&x, store);
    for (int cuts = 0; cuts <= i; cuts++)
      assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
    qp__os_sim_set_inodes(x.sim, inodes);
    if (open_with(qp__os_sim_os(x.sim), QP_STORE_READONLY, &store, &err))
      fail_msg("%s", err.msg);
    expect_all(&x, store, "after the cut", 0);
    qp_store_close(store);
    remove_rig(&x);
  }
}

static void
test_a_medium_that_cannot_be_written_is_refused_until_it_is_replayed(void **state)
{
  struct qp_store *store;
  struct qp_err err;
  struct qp__os os;
  struct rig x;

  (void)state;
  kill_writer(&x, write_history(&x));
  os = readonly_medium(&x);
  assert_int_equal(open_with(&os, QP_STORE_READONLY, &store, &err), QP_READONLY);
  assert_non_null(strstr(err.msg, "after a crash failed"));
  assert_non_null(strstr(err.msg, "Read-only file system"));
  assert_int_equal(open_with(qp__os_sim_os(x.sim), QP_STORE_READONLY, &store, &err), QP_OK);
  qp_store_close(store);
  assert_int_equal(open_with(&os, QP_STORE_READONLY, &store, &err), QP_OK);
  expect_all(&x, store, "on the medium", 0);
  qp_store_close(store);
  remove_rig(&x);
}

static void
test_a_reader_beside_a_live_writer_is_not_refused(void **state)
{
  struct qp_store *writer;
  struct qp_store *store;
  struct qp_err err;
  struct qp__os os;
  struct rig x;

  (void)state;
  writer = write_history(&x);
  os = readonly_medium(&x);
  assert_int_equal(open_with(&os, QP_STORE_READONLY, &store, &err), QP_OK);
  expect_all(&x, store, "beside a writer", 0);
  qp_store_close(store);
  qp_store_close(writer);
  remove_rig(&x);
}

/* A replay fails at its nth call. Whoever comes then sees everything or is refused. */
static bool
fail_replay(uint64_t n, enum qp__os_fault_kind kind, bool persistent, bool cut)
{
  struct qp_store *store;
  struct qp_err err;
  struct qp__os os;
  struct rig x;
  bool fired;
  enum qp_rc rc;

  kill_writer(&x, write_history(&x));
  if (cut)
    assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  qp__os_sim_set_inodes(x.sim, 0);
  qp__os_fault_arm(x.fault, n, kind, persistent);
  rc = open_with(qp__os_fault_os(x.fault), n % 2 ? QP_STORE_READONLY : 0, &store, &err);
  fired = qp__os_fault_fired(x.fault);
  qp__os_fault_disarm(x.fault);
  if (!rc) {
    expect_all(&x, store, "failed and opened", n);
    kill_writer(&x, store);
  } else if (!err.msg[0]) {
    fail_msg("call %llu: refused without a sentence", (unsigned long long)n);
  }
  os = readonly_medium(&x);
  if (!open_with(&os, QP_STORE_READONLY, &store, &err)) {
    expect_all(&x, store, "read after a replay that failed at call", n);
    qp_store_close(store);
  }
  if (open_with(qp__os_sim_os(x.sim), QP_STORE_READONLY, &store, &err))
    fail_msg("call %llu: %s", (unsigned long long)n, err.msg);
  expect_all(&x, store, "finished after a replay that failed at call", n);
  qp_store_close(store);
  remove_rig(&x);
  return fired;
}

static void
test_nobody_sees_half_of_a_replay_that_failed_at_any_call(void **state)
{
  uint64_t stride = test_is_long() ? 1 : 5;

  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    for (uint64_t n = 1; fail_replay(n, QP__FAULT_EIO, true, cut); n += stride)
      continue;
    for (uint64_t n = 2; fail_replay(n, QP__FAULT_EIO, false, cut); n += stride)
      continue;
    for (uint64_t n = 3; fail_replay(n, QP__FAULT_ENOSPC, true, cut); n += stride)
      continue;
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_reader_on_a_full_disk_sees_all_of_it),
    cmocka_unit_test(test_a_replay_after_a_power_cut_on_a_full_disk),
    cmocka_unit_test(test_a_medium_that_cannot_be_written_is_refused_until_it_is_replayed),
    cmocka_unit_test(test_a_reader_beside_a_live_writer_is_not_refused),
    cmocka_unit_test(test_nobody_sees_half_of_a_replay_that_failed_at_any_call),
  };

  return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}

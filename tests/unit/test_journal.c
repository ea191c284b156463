/* test_journal.c - the journal by itself: order, grouping, segments, poison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "journal_rig.h"
#include "os_fault.h"
#include "os_gate.h"
#include "os_sim.h"
#include "os_tools.h"
#include "store/files/journal/journal.h"
#include "store/files/journal/journal_int.h"
#include "store/files/journal/journal_recover.h"
#include "store/files/journal/segment.h"

/* ---- order and grouping ---- */

#define THREADS 12
#define EACH 40

struct order {
  struct rig *rig;
  pthread_mutex_t lock;
  unsigned staged[THREADS * EACH]; /* under `lock`, in the order of staging */
  size_t staged_count;
  unsigned published[THREADS * EACH]; /* by the one thread that publishes at a time */
  size_t published_count;
  atomic_uint failures;
  atomic_uint waiting; /* commits that are staged */
};

struct member {
  struct order *order;
  unsigned number;
};

static void
note_published(void *arg)
{
  struct member *m = arg;

  m->order->published[m->order->published_count++] = m->number;
}

static void
commit_one(struct order *o, unsigned number)
{
  struct member m = { o, number };
  struct qp__txn txn;
  struct qp_err err;
  struct qp__op op = { .kind = QP__OP_PUT, .data = { "x", 1 } };
  char path[32];

  (void)snprintf(path, sizeof(path), "d/%u", number);
  op.path = path;
  if (qp__txn_init(&txn, &err) || qp__txn_add(&txn, &op, NULL, false, &err)) {
    atomic_fetch_add(&o->failures, 1);
    return;
  }
  txn.publish = note_published;
  txn.publish_arg = &m;
  (void)pthread_mutex_lock(&o->lock);
  if (qp__journal_stage(o->rig->j, &txn, &err))
    atomic_fetch_add(&o->failures, 1);
  else
    o->staged[o->staged_count++] = number;
  (void)pthread_mutex_unlock(&o->lock);
  atomic_fetch_add(&o->waiting, 1);
  if (qp__journal_finish(o->rig->j, &txn, &err))
    atomic_fetch_add(&o->failures, 1);
  qp__txn_release(&txn);
}

static void *
commit_many(void *arg)
{
  struct member *m = arg;

  for (unsigned i = 0; i < EACH; i++)
    commit_one(m->order, m->number * EACH + i);
  return NULL;
}

static void *
commit_first(void *arg)
{
  struct member *m = arg;

  commit_one(m->order, m->number);
  return NULL;
}

static void
run_threads(struct order *o, pthread_t threads[], unsigned from, unsigned count,
            void *(*fn)(void *), struct member members[])
{
  for (unsigned i = from; i < from + count; i++) {
    members[i].order = o;
    members[i].number = i;
    assert_int_equal(pthread_create(&threads[i], NULL, fn, &members[i]), 0);
  }
}

static void
join_threads(pthread_t threads[], unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void
test_journal_publishes_in_the_order_of_staging(void **state)
{
  static struct order o;
  struct member members[THREADS];
  pthread_t threads[THREADS];
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  memset(&o, 0, sizeof(o));
  o.rig = &x;
  assert_int_equal(pthread_mutex_init(&o.lock, NULL), 0);
  run_threads(&o, threads, 0, THREADS, commit_many, members);
  join_threads(threads, THREADS);
  assert_int_equal(o.failures, 0);
  assert_int_equal(o.staged_count, THREADS * EACH);
  assert_int_equal(o.published_count, THREADS * EACH);
  assert_memory_equal(o.staged, o.published, sizeof(o.staged));
  assert_int_equal(rig_stats(&x).commits, THREADS * EACH);
  for (unsigned i = 0; i < THREADS * EACH; i++) {
    char path[32];

    (void)snprintf(path, sizeof(path), "d/%u", i);
    assert_content(x.os, x.root, path, "x");
  }
  (void)pthread_mutex_destroy(&o.lock);
  rig_remove(&x);
}

/* One commit is held in its sync; all that come meanwhile share the next one. */
static void
test_journal_syncs_once_for_all_who_wait(void **state)
{
  static struct order o;
  struct member members[THREADS];
  pthread_t threads[THREADS];
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  memset(&o, 0, sizeof(o));
  o.rig = &x;
  assert_int_equal(pthread_mutex_init(&o.lock, NULL), 0);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  run_threads(&o, threads, 0, 1, commit_first, members);
  assert_true(os_gate_await(1));
  run_threads(&o, threads, 1, THREADS - 1, commit_first, members);
  while (atomic_load(&o.waiting) < THREADS)
    sched_yield();
  assert_int_equal(o.published_count, 0); /* nothing is applied before it is durable */
  assert_false(exists(x.os, x.root, "d/0"));
  os_gate_open();
  join_threads(threads, THREADS);
  assert_int_equal(o.failures, 0);
  assert_int_equal(rig_stats(&x).commits, THREADS);
  assert_int_equal(rig_stats(&x).syncs, 2);
  assert_memory_equal(o.staged, o.published, sizeof(o.staged));
  (void)pthread_mutex_destroy(&o.lock);
  rig_remove(&x);
}

/* ---- poison ---- */

static void
fail_next(struct rig *x, enum qp__os_slot slot, const char *path)
{
  qp__os_fault_only(x->fault, slot);
  assert_int_equal(qp__os_fault_filter(x->fault, path), 0);
  qp__os_fault_arm(x->fault, 1, QP__FAULT_EIO, false);
}

static void
test_journal_takes_no_more_after_a_failed_sync(void **state)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__txn txn;
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  assert_int_equal(rig_put(&x, "d/a", "before"), QP_OK);
  fail_next(&x, QP__SLOT_FDATASYNC, "journal");
  assert_int_equal(rig_put(&x, "d/b", "lost or not"), QP_IO);
  rig_fail_no_more(&x);
  assert_false(exists(x.os, x.root, "d/b"));
  for (int i = 0; i < 3; i++) { /* a second sync could succeed without the bytes */
    rig_begin_put(&txn, "d/c", "refused");
    assert_int_equal(qp__journal_stage(x.j, &txn, &err), QP_IO);
    assert_non_null(strstr(err.msg, "until it has recovered"));
    qp__txn_release(&txn);
  }
  assert_int_equal(qp__journal_checkpoint(x.j, &err), QP_IO);
  qp__journal_close(x.j);
  rig_open(&x);
  assert_content(x.os, x.root, "d/a", "before");
  assert_false(exists(x.os, x.root, "d/c"));
  assert_int_equal(rig_put(&x, "d/c", "taken"), QP_OK);
  assert_content(x.os, x.root, "d/c", "taken");
  rig_remove(&x);
}

/* A commit that is durable and cannot be carried out is finished by the next open. */
static void
test_journal_finishes_at_open_what_could_not_be_applied(void **state)
{
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  fail_next(&x, QP__SLOT_RENAMEAT, "d/");
  assert_int_equal(rig_put(&x, "d/a", "late"), QP_IO);
  rig_fail_no_more(&x);
  assert_int_equal(rig_put(&x, "d/b", "refused"), QP_IO);
  qp__journal_close(x.j);
  rig_open(&x);
  assert_int_equal(rig_stats(&x).recovered, 1);
  assert_content(x.os, x.root, "d/a", "late");
  assert_false(exists(x.os, x.root, "d/b"));
  rig_remove(&x);
}

/* All who wait when a sync fails get the failure, and none is applied. */
static void
test_journal_fails_everybody_who_waits(void **state)
{
  static struct order o;
  struct member members[THREADS];
  pthread_t threads[THREADS];
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  memset(&o, 0, sizeof(o));
  o.rig = &x;
  assert_int_equal(pthread_mutex_init(&o.lock, NULL), 0);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  run_threads(&o, threads, 0, 1, commit_first, members);
  assert_true(os_gate_await(1));
  run_threads(&o, threads, 1, THREADS - 1, commit_first, members);
  while (atomic_load(&o.waiting) < THREADS)
    sched_yield();
  fail_next(&x, QP__SLOT_PWRITE, "journal"); /* of the group behind the one at the gate */
  os_gate_open();
  join_threads(threads, THREADS);
  rig_fail_no_more(&x);
  assert_int_equal(o.published_count, 1);
  assert_int_equal(o.failures, THREADS - 1);
  assert_int_equal(rig_stats(&x).commits, 1);
  (void)pthread_mutex_destroy(&o.lock);
  rig_remove(&x);
}

/* A stage that finds no room for a new segment empties the one that is there; one whose frame fits
 * in none fails by itself and harms nobody. */
static void
test_journal_goes_on_after_a_segment_that_could_not_be_made(void **state)
{
  char *text = rig_long_text(40000, 'a');
  char *huge = rig_long_text(100000, 'h');
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  assert_int_equal(rig_put(&x, "d/a", text), QP_OK);
  qp__os_fault_only(x.fault, QP__SLOT_PWRITE);
  assert_int_equal(qp__os_fault_filter(x.fault, "journal"), 0);
  qp__os_fault_arm(x.fault, 1, QP__FAULT_ENOSPC, false);
  assert_int_equal(rig_put(&x, "d/b", text), QP_OK);
  assert_true(qp__os_fault_fired(x.fault));
  assert_true(exists(x.os, x.root, "d/b"));
  assert_int_equal(rig_segments(&x), 1);
  qp__os_fault_arm(x.fault, 1, QP__FAULT_ENOSPC, false);
  assert_int_equal(rig_put(&x, "d/c", huge), QP_FULL);
  rig_fail_no_more(&x);
  assert_false(exists(x.os, x.root, "d/c"));
  assert_int_equal(rig_put(&x, "d/c", huge), QP_OK);
  assert_true(exists(x.os, x.root, "d/c"));
  free(text);
  free(huge);
  rig_remove(&x);
}

/* ---- segments ---- */

static void
test_journal_uses_its_segments_again_and_stays_bounded(void **state)
{
  char *text = rig_long_text(5000, 's');
  uint64_t forgotten = 0;
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  for (int i = 0; i < 200; i++) { /* about 16 segments full */
    char path[32];

    (void)snprintf(path, sizeof(path), "d/%d", i);
    assert_int_equal(rig_put(&x, path, text), QP_OK);
    assert_true(rig_segments(&x) <= SEGMENTS_MAX);
    assert_true(qp__journal_forgotten(x.j) >= forgotten);
    forgotten = qp__journal_forgotten(x.j);
  }
  assert_true(rig_stats(&x).checkpoints >= 10);
  assert_true(forgotten >= 150);
  rig_crash(&x);
  rig_open(&x);
  assert_true(rig_stats(&x).recovered > 0);
  assert_true(rig_stats(&x).recovered <= 200 - forgotten);
  for (int i = 0; i < 200; i++) {
    char path[32];
    struct stat st;

    (void)snprintf(path, sizeof(path), "d/%d", i);
    assert_int_equal(stat_of(x.os, x.root, path, &st), 0);
    assert_int_equal(st.st_size, 5000);
  }
  free(text);
  rig_remove(&x);
}

static void
test_journal_takes_a_frame_that_is_larger_than_a_segment(void **state)
{
  char *text = rig_long_text(300000, 'L');
  struct stat st;
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  assert_int_equal(rig_put(&x, "d/small", "1"), QP_OK);
  qp__os_fault_only(x.fault, QP__SLOT_SYNCFS); /* no checkpoint succeeds: the frame stays */
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  assert_int_equal(rig_put(&x, "d/large", text), QP_OK);
  rig_fail_no_more(&x);
  rig_crash(&x);
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "d/large", 0), 0);
  rig_open(&x);
  assert_int_equal(stat_of(x.os, x.root, "d/large", &st), 0);
  assert_int_equal(st.st_size, 300000);
  assert_int_equal(rig_put(&x, "d/small", "2"), QP_OK);
  assert_content(x.os, x.root, "d/small", "2");
  for (int i = 0; i < 3; i++) /* such segments come and go */
    assert_int_equal(rig_put(&x, "d/large", text), QP_OK);
  assert_true(rig_segments(&x) <= SEGMENTS_MAX);
  free(text);
  rig_remove(&x);
}

/* Frames of an earlier use are still in the file, behind the new ones, and must stay forgotten. */
static void
test_journal_does_not_replay_frames_of_an_earlier_use(void **state)
{
  struct qp_err err;
  char path[128];
  char magic[4];
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  for (int i = 0; i < 5; i++)
    assert_int_equal(rig_put(&x, "d/old", "an old text"), QP_OK);
  assert_int_equal(qp__journal_checkpoint(x.j, &err), QP_OK);
  assert_int_equal(qp__journal_forgotten(x.j), 5);
  assert_int_equal(rig_put(&x, "d/new", "a new text!"), QP_OK); /* as long as an old frame */
  rig_crash(&x);
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "d/old", 0), 0);
  rig_segment_path(&x, path);
  rig_peek(&x, path, QP__SEGMENT_START + (off_t)qp__frame_space(4 + 16 + 5 + 11) + 8, magic, 4);
  assert_memory_equal(magic, "QPF1", 4); /* the second of the old frames is whole */
  rig_open(&x);
  assert_int_equal(rig_stats(&x).recovered, 1);
  assert_content(x.os, x.root, "d/new", "a new text!");
  assert_false(exists(x.os, x.root, "d/old"));
  rig_remove(&x);
}

/* ---- with a thread of its own, on real files ---- */

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
test_journal_with_a_background_thread_stays_bounded(void **state)
{
  struct qp__journal_options options = { .segment_bytes = SEGMENT, .background = true };
  const char *tmp = getenv("TMPDIR");
  static struct order o;
  struct member members[THREADS];
  pthread_t threads[THREADS];
  char dir[256];
  struct qp_err err;
  struct rig x = { .os = &qp__os_posix };

  (void)state;
  (void)snprintf(dir, sizeof(dir), "%s/journal-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(dir));
  x.root = x.os->open_root(x.os->self, dir, 0);
  assert_true(x.root >= 0);
  assert_int_equal(make_dir(x.os, x.root, "journal"), 0);
  assert_int_equal(make_dir(x.os, x.root, "tmp"), 0);
  assert_int_equal(make_dir(x.os, x.root, "d"), 0);
  x.tmp = open_at(x.os, x.root, "tmp", O_RDONLY | O_DIRECTORY);
  memset(&o, 0, sizeof(o));
  o.rig = &x;
  assert_int_equal(pthread_mutex_init(&o.lock, NULL), 0);
  for (int round = 0; round < 3; round++) {
    assert_int_equal(qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err), QP_OK);
    assert_int_equal(rig_stats(&x).recovered, 0); /* the one before was closed well */
    o.staged_count = o.published_count = 0;
    run_threads(&o, threads, 0, THREADS, commit_many, members);
    join_threads(threads, THREADS);
    assert_int_equal(o.failures, 0);
    assert_memory_equal(o.staged, o.published, sizeof(o.staged));
    assert_true(rig_stats(&x).syncs <= rig_stats(&x).commits);
    assert_true(rig_segments(&x) <= SEGMENTS_MAX);
    qp__journal_close(x.j);
  }
  close_fd(x.os, x.tmp);
  close_fd(x.os, x.root);
  (void)pthread_mutex_destroy(&o.lock);
  assert_int_equal(nftw(dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void *
close_journal(void *arg)
{
  qp__journal_close(arg);
  return NULL;
}

/* The background thread is making a spare segment, without the lock, when the disk fails and the
 * journal is closed. It must not wait for a signal that was sent before it could hear it. */
static void
test_journal_closes_while_a_spare_segment_fails(void **state)
{
  struct qp__journal_options options = { .segment_bytes = SEGMENT, .background = true };
  char *text = rig_long_text(SEGMENT / 2, 't');
  bool stopping = false;
  struct qp_err err;
  pthread_t thread;
  struct rig x;

  (void)state;
  rig_make(&x);
  assert_int_equal(qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err), QP_OK);
  os_gate_shut(QP__SLOT_OPENAT, ".qj");
  assert_int_equal(rig_put(&x, "d/large", text), QP_OK);
  assert_true(os_gate_await(1));
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  assert_int_equal(rig_put(&x, "d/small", "s"), QP_IO);
  assert_int_equal(pthread_create(&thread, NULL, close_journal, x.j), 0);
  while (!stopping) {
    (void)sched_yield();
    qp__mutex_lock(&x.j->lock);
    stopping = x.j->stopping;
    qp__mutex_unlock(&x.j->lock);
  }
  os_gate_open();
  assert_int_equal(pthread_join(thread, NULL), 0);
  qp__os_fault_disarm(x.fault);
  x.j = NULL;
  free(text);
  rig_remove(&x);
}

/* ---- barrier ---- */

struct noise {
  struct rig *rig;
  atomic_bool *stop;
  char path[16];
};

static void *
make_noise(void *arg)
{
  struct noise *n = arg;

  while (!atomic_load(n->stop))
    if (rig_put(n->rig, n->path, "something that others write meanwhile"))
      return n;
  return NULL;
}

/* Others go on writing; what came before is forgotten all the same, and soon. */
static void
test_a_barrier_forgets_what_came_before_it(void **state)
{
  atomic_bool stop = false;
  struct noise noise[3];
  pthread_t threads[3];
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  assert_int_equal(qp__journal_barrier(x.j, NULL), QP_OK); /* of nothing */
  for (size_t i = 0; i < 3; i++) {
    noise[i] = (struct noise){ .rig = &x, .stop = &stop };
    (void)snprintf(noise[i].path, sizeof(noise[i].path), "d/noise%zu", i);
    assert_int_equal(pthread_create(&threads[i], NULL, make_noise, &noise[i]), 0);
  }
  for (int i = 0; i < 60; i++) {
    struct qp__txn txn;

    rig_begin_put(&txn, "d/mine", "mine");
    assert_int_equal(qp__journal_stage(x.j, &txn, NULL), QP_OK);
    assert_int_equal(qp__journal_finish(x.j, &txn, NULL), QP_OK);
    assert_int_equal(qp__journal_barrier(x.j, NULL), QP_OK);
    assert_true(qp__journal_forgotten(x.j) >= txn.seq);
    qp__txn_release(&txn);
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < 3; i++) {
    void *failed;

    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  assert_int_equal(qp__journal_barrier(x.j, NULL), QP_OK);
  rig_crash(&x);
  rig_open(&x);
  assert_int_equal(rig_stats(&x).recovered, 0);
  rig_remove(&x);
}

/* It syncs also what no commit has written, and a sync that fails is never tried again. */
static void
test_a_barrier_that_cannot_sync_poisons(void **state)
{
  struct qp_err err;
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  fail_next(&x, QP__SLOT_SYNCFS, NULL);
  assert_int_equal(qp__journal_barrier(x.j, &err), QP_IO);
  rig_fail_no_more(&x);
  assert_int_equal(qp__journal_barrier(x.j, &err), QP_IO);
  assert_int_equal(rig_put(&x, "d/a", "refused"), QP_IO);
  rig_remove(&x);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_journal_publishes_in_the_order_of_staging),
    cmocka_unit_test(test_journal_syncs_once_for_all_who_wait),
    cmocka_unit_test(test_journal_takes_no_more_after_a_failed_sync),
    cmocka_unit_test(test_journal_finishes_at_open_what_could_not_be_applied),
    cmocka_unit_test(test_journal_fails_everybody_who_waits),
    cmocka_unit_test(test_journal_goes_on_after_a_segment_that_could_not_be_made),
    cmocka_unit_test(test_journal_uses_its_segments_again_and_stays_bounded),
    cmocka_unit_test(test_journal_takes_a_frame_that_is_larger_than_a_segment),
    cmocka_unit_test(test_journal_does_not_replay_frames_of_an_earlier_use),
    cmocka_unit_test(test_journal_with_a_background_thread_stays_bounded),
    cmocka_unit_test(test_journal_closes_while_a_spare_segment_fails),
    cmocka_unit_test(test_a_barrier_forgets_what_came_before_it),
    cmocka_unit_test(test_a_barrier_that_cannot_sync_poisons),
  };

  return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}

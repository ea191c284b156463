/* test_journal.c - the journal by itself: order, grouping, segments, poison, recovery. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "os/os_fault.h"
#include "os/os_sim.h"
#include "os_gate.h"
#include "os_tools.h"
#include "store/files/journal.h"
#include "store/files/recover.h"
#include "store/files/segment.h"

#define SEGMENT ((uint64_t)64 << 10)
#define SEGMENTS_MAX 5 /* four in use and a spare one */

/* ---- the rig ---- */

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  const struct qp__os *os;
  int root;
  int tmp;
  struct qp__journal *j;
};

static void
open_journal(struct rig *x)
{
  struct qp__journal_options options = { .segment_bytes = SEGMENT };
  struct qp_err err = { QP_OK, "" };

  if (qp__journal_open(x->os, x->root, x->tmp, &options, &x->j, &err))
    fail_msg("opening the journal: %s", err.msg);
}

/* A data directory with nothing but what the journal needs; the journal is not open yet. */
static void
rig_make(struct rig *x)
{
  memset(x, 0, sizeof(*x));
  x->sim = qp__os_sim_new(7);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(os_gate_over(qp__os_sim_os(x->sim)));
  assert_non_null(x->fault);
  x->os = qp__os_fault_os(x->fault);
  x->root = root_of(x->os);
  assert_int_equal(make_dir(x->os, x->root, "journal"), 0);
  assert_int_equal(make_dir(x->os, x->root, "tmp"), 0);
  assert_int_equal(make_dir(x->os, x->root, "d"), 0);
  x->tmp = open_at(x->os, x->root, "tmp", O_RDONLY | O_DIRECTORY);
  assert_true(x->tmp >= 0);
}

static void
rig_remove(struct rig *x)
{
  qp__journal_close(x->j);
  close_fd(x->os, x->tmp);
  close_fd(x->os, x->root);
  assert_int_equal(qp__os_fault_open_count(x->fault), 0);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

/* The process dies: the journal is freed and nothing it does on the way has an effect. */
static void
crash(struct rig *x)
{
  qp__os_fault_arm(x->fault, 1, QP__FAULT_EIO, true);
  qp__journal_close(x->j);
  qp__os_fault_disarm(x->fault);
  x->j = NULL;
}

/* ---- commits ---- */

static void
add(struct qp__txn *txn, enum qp__op_kind kind, unsigned flags, const char *path, const char *data,
    uint64_t offset)
{
  struct qp__op op = { .kind = kind, .flags = flags, .path = path, .offset = offset };
  struct qp_err err;

  op.data.data = data;
  op.data.len = strlen(data);
  assert_int_equal(qp__txn_add(txn, &op, NULL, false, &err), QP_OK);
}

/* A commit that puts `text` in `path`. */
static void
begin_put(struct qp__txn *txn, const char *path, const char *text)
{
  struct qp_err err;

  assert_int_equal(qp__txn_init(txn, &err), QP_OK);
  add(txn, QP__OP_PUT, 0, path, text, 0);
}

static enum qp_rc
finish(struct rig *x, struct qp__txn *txn)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = qp__journal_stage(x->j, txn, &err);

  if (!rc)
    rc = qp__journal_settle(x->j, txn, &err);
  qp__txn_release(txn);
  return rc;
}

static enum qp_rc
put_file(struct rig *x, const char *path, const char *text)
{
  struct qp__txn txn;

  begin_put(&txn, path, text);
  return finish(x, &txn);
}

static char *
long_text(size_t n, char c)
{
  char *text = malloc(n + 1);

  assert_non_null(text);
  memset(text, c, n);
  text[n] = 0;
  return text;
}

static struct qp__journal_stats
stats(struct rig *x)
{
  struct qp__journal_stats s;

  qp__journal_stats(x->j, &s);
  return s;
}

/* ---- looking at files ---- */

struct names {
  char list[64][64];
  size_t count;
};

static int
collect(void *arg, const char *name, unsigned char type)
{
  struct names *names = arg;

  (void)type;
  assert_true(names->count < 64);
  (void)snprintf(names->list[names->count++], 64, "%s", name);
  return 0;
}

static int
by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

/* The names in a directory, sorted. */
static void
list(struct rig *x, const char *dir, struct names *out)
{
  out->count = 0;
  assert_int_equal(x->os->listdir(x->os->self, x->root, dir, collect, out), 0);
  qsort(out->list, out->count, sizeof(out->list[0]), by_name);
}

static size_t
count_segments(struct rig *x)
{
  struct names names;

  list(x, "journal", &names);
  return names.count;
}

/* The only segment. */
static void
segment_path(struct rig *x, char out[128])
{
  struct names names;

  list(x, "journal", &names);
  assert_int_equal(names.count, 1);
  (void)snprintf(out, 128, "journal/%s", names.list[0]);
}

/* The bytes at an offset of a file. */
static void
peek(struct rig *x, const char *path, off_t at, void *buf, size_t n)
{
  int fd = open_at(x->os, x->root, path, O_RDONLY);

  assert_true(fd >= 0);
  assert_int_equal(x->os->pread(x->os->self, fd, buf, n, at), n);
  close_fd(x->os, fd);
}

static void
flip(struct rig *x, const char *path, off_t at)
{
  unsigned char byte;
  int fd = open_at(x->os, x->root, path, O_RDWR);

  assert_true(fd >= 0);
  assert_int_equal(x->os->pread(x->os->self, fd, &byte, 1, at), 1);
  byte ^= 1;
  assert_int_equal(x->os->pwrite(x->os->self, fd, &byte, 1, at), 1);
  close_fd(x->os, fd);
}

/* Everything below a directory, as text: names and contents. */
static void
describe(struct rig *x, const char *dir, struct qp__buf *out)
{
  struct names names;

  list(x, dir, &names);
  for (size_t i = 0; i < names.count; i++) {
    char path[256];
    char data[FILE_LEN];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, names.list[i]);
    assert_int_equal(stat_of(x->os, x->root, path, &st), 0);
    if (S_ISDIR(st.st_mode)) {
      (void)qp__buf_addf(out, "%s/\n", path);
      describe(x, path, out);
    } else {
      assert_true(get(x->os, x->root, path, data) >= 0);
      (void)qp__buf_addf(out, "%s: %s\n", path, data);
    }
  }
  assert_int_equal(out->rc, QP_OK);
}

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
  if (qp__journal_settle(o->rig->j, &txn, &err))
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
  open_journal(&x);
  memset(&o, 0, sizeof(o));
  o.rig = &x;
  assert_int_equal(pthread_mutex_init(&o.lock, NULL), 0);
  run_threads(&o, threads, 0, THREADS, commit_many, members);
  join_threads(threads, THREADS);
  assert_int_equal(o.failures, 0);
  assert_int_equal(o.staged_count, THREADS * EACH);
  assert_int_equal(o.published_count, THREADS * EACH);
  assert_memory_equal(o.staged, o.published, sizeof(o.staged));
  assert_int_equal(stats(&x).commits, THREADS * EACH);
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
  open_journal(&x);
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
  assert_int_equal(stats(&x).commits, THREADS);
  assert_int_equal(stats(&x).syncs, 2);
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
fail_no_more(struct rig *x)
{
  assert_true(qp__os_fault_fired(x->fault));
  qp__os_fault_disarm(x->fault);
  qp__os_fault_only(x->fault, QP__SLOT__MAX);
  assert_int_equal(qp__os_fault_filter(x->fault, NULL), 0);
}

static void
test_journal_takes_no_more_after_a_failed_sync(void **state)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__txn txn;
  struct rig x;

  (void)state;
  rig_make(&x);
  open_journal(&x);
  assert_int_equal(put_file(&x, "d/a", "before"), QP_OK);
  fail_next(&x, QP__SLOT_FDATASYNC, "journal");
  assert_int_equal(put_file(&x, "d/b", "lost or not"), QP_IO);
  fail_no_more(&x);
  assert_false(exists(x.os, x.root, "d/b"));
  for (int i = 0; i < 3; i++) { /* a second sync could succeed without the bytes */
    begin_put(&txn, "d/c", "refused");
    assert_int_equal(qp__journal_stage(x.j, &txn, &err), QP_IO);
    assert_non_null(strstr(err.msg, "until it is reopened"));
    qp__txn_release(&txn);
  }
  assert_int_equal(qp__journal_checkpoint(x.j, &err), QP_IO);
  qp__journal_close(x.j);
  open_journal(&x);
  assert_content(x.os, x.root, "d/a", "before");
  assert_false(exists(x.os, x.root, "d/c"));
  assert_int_equal(put_file(&x, "d/c", "taken"), QP_OK);
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
  open_journal(&x);
  fail_next(&x, QP__SLOT_RENAMEAT, "d/");
  assert_int_equal(put_file(&x, "d/a", "late"), QP_IO);
  fail_no_more(&x);
  assert_int_equal(put_file(&x, "d/b", "refused"), QP_IO);
  qp__journal_close(x.j);
  open_journal(&x);
  assert_int_equal(stats(&x).recovered, 1);
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
  open_journal(&x);
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
  fail_no_more(&x);
  assert_int_equal(o.published_count, 1);
  assert_int_equal(o.failures, THREADS - 1);
  assert_int_equal(stats(&x).commits, 1);
  (void)pthread_mutex_destroy(&o.lock);
  rig_remove(&x);
}

/* A stage that finds no room for a new segment fails by itself and harms nobody. */
static void
test_journal_goes_on_after_a_segment_that_could_not_be_made(void **state)
{
  char *text = long_text(40000, 'a');
  struct rig x;

  (void)state;
  rig_make(&x);
  open_journal(&x);
  assert_int_equal(put_file(&x, "d/a", text), QP_OK);
  qp__os_fault_only(x.fault, QP__SLOT_PWRITE);
  assert_int_equal(qp__os_fault_filter(x.fault, "journal"), 0);
  qp__os_fault_arm(x.fault, 1, QP__FAULT_ENOSPC, false);
  assert_int_equal(put_file(&x, "d/b", text), QP_FULL);
  fail_no_more(&x);
  assert_false(exists(x.os, x.root, "d/b"));
  assert_int_equal(count_segments(&x), 1);
  assert_int_equal(put_file(&x, "d/b", text), QP_OK);
  assert_true(exists(x.os, x.root, "d/b"));
  free(text);
  rig_remove(&x);
}

/* ---- segments ---- */

static void
test_journal_uses_its_segments_again_and_stays_bounded(void **state)
{
  char *text = long_text(5000, 's');
  uint64_t forgotten = 0;
  struct rig x;

  (void)state;
  rig_make(&x);
  open_journal(&x);
  for (int i = 0; i < 200; i++) { /* about 16 segments full */
    char path[32];

    (void)snprintf(path, sizeof(path), "d/%d", i);
    assert_int_equal(put_file(&x, path, text), QP_OK);
    assert_true(count_segments(&x) <= SEGMENTS_MAX);
    assert_true(qp__journal_forgotten(x.j) >= forgotten);
    forgotten = qp__journal_forgotten(x.j);
  }
  assert_true(stats(&x).checkpoints >= 10);
  assert_true(forgotten >= 150);
  crash(&x);
  open_journal(&x);
  assert_true(stats(&x).recovered > 0);
  assert_true(stats(&x).recovered <= 200 - forgotten);
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
  char *text = long_text(300000, 'L');
  struct stat st;
  struct rig x;

  (void)state;
  rig_make(&x);
  open_journal(&x);
  assert_int_equal(put_file(&x, "d/small", "1"), QP_OK);
  qp__os_fault_only(x.fault, QP__SLOT_SYNCFS); /* no checkpoint succeeds: the frame stays */
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  assert_int_equal(put_file(&x, "d/large", text), QP_OK);
  fail_no_more(&x);
  crash(&x);
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "d/large", 0), 0);
  open_journal(&x);
  assert_int_equal(stat_of(x.os, x.root, "d/large", &st), 0);
  assert_int_equal(st.st_size, 300000);
  assert_int_equal(put_file(&x, "d/small", "2"), QP_OK);
  assert_content(x.os, x.root, "d/small", "2");
  for (int i = 0; i < 3; i++) /* such segments come and go */
    assert_int_equal(put_file(&x, "d/large", text), QP_OK);
  assert_true(count_segments(&x) <= SEGMENTS_MAX);
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
  open_journal(&x);
  for (int i = 0; i < 5; i++)
    assert_int_equal(put_file(&x, "d/old", "an old text"), QP_OK);
  assert_int_equal(qp__journal_checkpoint(x.j, &err), QP_OK);
  assert_int_equal(qp__journal_forgotten(x.j), 5);
  assert_int_equal(put_file(&x, "d/new", "a new text!"), QP_OK); /* as long as an old frame */
  crash(&x);
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "d/old", 0), 0);
  segment_path(&x, path);
  peek(&x, path, QP__SEGMENT_START + (off_t)qp__frame_space(4 + 16 + 5 + 11) + 8, magic, 4);
  assert_memory_equal(magic, "QPF1", 4); /* the second of the old frames is whole */
  open_journal(&x);
  assert_int_equal(stats(&x).recovered, 1);
  assert_content(x.os, x.root, "d/new", "a new text!");
  assert_false(exists(x.os, x.root, "d/old"));
  rig_remove(&x);
}

/* ---- recovery ---- */

/* Five commits of one frame each, then a crash; their files are removed. Returns the offset of the
 * third frame in the only segment, whose path is set. */
static off_t
crash_after_five(struct rig *x, char path[128])
{
  char name[8] = "d/1";

  rig_make(x);
  open_journal(x);
  for (int i = 1; i <= 5; i++) {
    name[2] = (char)('0' + i);
    assert_int_equal(put_file(x, name, "text"), QP_OK);
  }
  crash(x);
  for (int i = 1; i <= 5; i++) {
    name[2] = (char)('0' + i);
    assert_int_equal(x->os->unlinkat(x->os->self, x->root, name, 0), 0);
  }
  segment_path(x, path);
  return QP__SEGMENT_START + 2 * (off_t)qp__frame_space(4 + 16 + 3 + 4);
}

static void
expect_recovered(struct rig *x, unsigned count)
{
  char name[8] = "d/1";

  open_journal(x);
  assert_int_equal(stats(x).recovered, count);
  for (unsigned i = 1; i <= 5; i++) {
    name[2] = (char)('0' + i);
    assert_true(exists(x->os, x->root, name) == (i <= count));
  }
  assert_int_equal(put_file(x, "d/after", "it goes on"), QP_OK);
  rig_remove(x);
}

static void
test_recovery_brings_back_all_commits(void **state)
{
  char path[128];
  struct rig x;

  (void)state;
  (void)crash_after_five(&x, path);
  expect_recovered(&x, 5);
}

/* Whichever byte of a frame is wrong, the log ends before it. */
static void
test_recovery_ends_at_the_first_frame_that_is_not_whole(void **state)
{
  size_t len = QP__FRAME_HEADER_LEN + 4 + 16 + 3 + 4;

  (void)state;
  for (size_t i = 0; i < len; i++) {
    char path[128];
    struct rig x;
    off_t third = crash_after_five(&x, path);

    flip(&x, path, third + (off_t)i);
    expect_recovered(&x, 2);
  }
}

static void
test_recovery_ignores_a_segment_with_a_damaged_header(void **state)
{
  (void)state;
  for (off_t at = 0; at < 64; at += 7) {
    char path[128];
    struct rig x;

    (void)crash_after_five(&x, path);
    flip(&x, path, at);
    expect_recovered(&x, 0);
  }
}

/* Frames behind a segment that is gone are not next to those before it. */
static void
test_recovery_ends_at_a_gap_between_segments(void **state)
{
  char *text = long_text(30000, 'g');
  struct names names;
  char path[128];
  struct rig x;

  (void)state;
  rig_make(&x);
  open_journal(&x);
  qp__os_fault_only(x.fault, QP__SLOT_SYNCFS); /* no checkpoint succeeds: all segments stay */
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  for (int i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof(path), "d/%d", i);
    assert_int_equal(put_file(&x, path, text), QP_OK);
  }
  fail_no_more(&x);
  crash(&x);
  for (int i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof(path), "d/%d", i);
    assert_int_equal(x.os->unlinkat(x.os->self, x.root, path, 0), 0);
  }
  list(&x, "journal", &names);
  assert_int_equal(names.count, 2); /* two frames in the first, one in the second */
  (void)snprintf(path, sizeof(path), "journal/%s", names.list[0]);
  flip(&x, path, QP__SEGMENT_START + (off_t)qp__frame_space(4 + 16 + 3 + 30000) + 100);
  open_journal(&x);
  assert_int_equal(stats(&x).recovered, 1);
  assert_true(exists(x.os, x.root, "d/0"));
  assert_false(exists(x.os, x.root, "d/1"));
  assert_false(exists(x.os, x.root, "d/2"));
  free(text);
  rig_remove(&x);
}

/* Commits of every kind, and files that they work on. */
static void
commit_all_kinds(struct rig *x)
{
  struct qp__txn txn;
  struct qp_err err;

  assert_int_equal(put_file(x, "d/meta", "one"), QP_OK);
  begin_put(&txn, "d/log", "head\n");
  add(&txn, QP__OP_PUT, QP__OP_BACKUP, "d/meta", "two", 0);
  assert_int_equal(finish(x, &txn), QP_OK);
  assert_int_equal(qp__txn_init(&txn, &err), QP_OK);
  add(&txn, QP__OP_APPEND, 0, "d/log", "a\n", 5);
  add(&txn, QP__OP_APPEND, 0, "d/log", "b\n", 7);
  add(&txn, QP__OP_MKDIR, 0, "tmp/new", "", 0);
  add(&txn, QP__OP_PUT, 0, "tmp/new/file", "content", 0);
  add(&txn, QP__OP_RENAME, 0, "tmp/new", "d/dir", 0);
  assert_int_equal(finish(x, &txn), QP_OK);
  begin_put(&txn, "d/dir/second", "2");
  add(&txn, QP__OP_PUT, 0, "d/gone", "gone", 0);
  add(&txn, QP__OP_RENAME, 0, "d/dir/file", "d/dir/moved", 0);
  assert_int_equal(finish(x, &txn), QP_OK);
  assert_int_equal(qp__txn_init(&txn, &err), QP_OK);
  add(&txn, QP__OP_UNLINK, 0, "d/gone", "", 0);
  add(&txn, QP__OP_PUT, 0, "d/log", "new log\n", 0);
  add(&txn, QP__OP_APPEND, 0, "d/log", "c\n", 8);
  assert_int_equal(finish(x, &txn), QP_OK);
}

/* Wherever a recovery is interrupted, the next one gives the same files. */
static void
test_recovery_can_be_repeated(void **state)
{
  struct qp__buf want;
  struct qp__buf got;
  bool fired = true;

  (void)state;
  qp__buf_init(&want, 1 << 20);
  qp__buf_init(&got, 1 << 20);
  for (uint64_t n = 1; fired; n++) {
    struct qp__journal_options options = { .segment_bytes = SEGMENT };
    struct qp_err err;
    struct rig x;

    rig_make(&x);
    open_journal(&x);
    commit_all_kinds(&x);
    qp__buf_reset(&want);
    describe(&x, "d", &want);
    crash(&x);
    for (int again = 0; again < 3; again++) {
      qp__os_fault_arm(x.fault, n, QP__FAULT_EIO, true);
      if (!qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err))
        qp__journal_close(x.j);
      x.j = NULL;
      fired = qp__os_fault_fired(x.fault);
      qp__os_fault_disarm(x.fault);
    }
    open_journal(&x);
    qp__buf_reset(&got);
    describe(&x, "d", &got);
    assert_string_equal(got.data, want.data);
    qp__buf_reset(&got);
    describe(&x, "tmp", &got);
    assert_int_equal(got.len, 0);
    rig_remove(&x);
  }
  qp__buf_release(&want);
  qp__buf_release(&got);
}

/* ---- a reader's questions ---- */

static void
expect_salvage(struct rig *x, const char *path, const char *want)
{
  struct qp__buf out;
  struct qp_err err;
  enum qp_rc rc;

  qp__buf_init(&out, 1 << 20);
  (void)qp__buf_add_str(&out, "already here ");
  rc = qp__journal_salvage(x->os, x->root, path, &out, &err);
  if (want) {
    assert_int_equal(rc, QP_OK);
    assert_string_equal(out.data + strlen("already here "), want);
  } else {
    assert_int_equal(rc, QP_NOTFOUND);
  }
  assert_memory_equal(out.data, "already here ", strlen("already here "));
  qp__buf_release(&out);
}

static void
test_salvage_finds_the_newest_content(void **state)
{
  struct rig x;

  (void)state;
  rig_make(&x);
  open_journal(&x);
  expect_salvage(&x, "d/a", NULL);
  assert_int_equal(put_file(&x, "d/a", "first"), QP_OK);
  assert_int_equal(put_file(&x, "d/b", "other"), QP_OK);
  expect_salvage(&x, "d/a", "first");
  assert_int_equal(put_file(&x, "d/a", "second"), QP_OK);
  expect_salvage(&x, "d/a", "second"); /* beside a live writer */
  expect_salvage(&x, "d", NULL);
  crash(&x);
  expect_salvage(&x, "d/a", "second"); /* and without one */
  open_journal(&x);
  expect_salvage(&x, "d/a", NULL);
  rig_remove(&x);
}

static void
expect_pending(struct rig *x, bool want)
{
  struct qp_err err;
  bool pending = !want;

  assert_int_equal(qp__journal_pending(x->os, x->root, &pending, &err), QP_OK);
  assert_true(pending == want);
}

static void
test_pending_says_whether_commits_may_be_unfinished(void **state)
{
  struct qp_err err;
  struct rig x;

  (void)state;
  rig_make(&x);
  expect_pending(&x, false);
  open_journal(&x);
  expect_pending(&x, false);
  assert_int_equal(put_file(&x, "d/a", "1"), QP_OK);
  expect_pending(&x, true);
  assert_int_equal(qp__journal_checkpoint(x.j, &err), QP_OK);
  expect_pending(&x, false);
  assert_int_equal(put_file(&x, "d/a", "2"), QP_OK);
  crash(&x);
  expect_pending(&x, true);
  open_journal(&x);
  expect_pending(&x, false);
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
    assert_int_equal(stats(&x).recovered, 0); /* the one before was closed well */
    o.staged_count = o.published_count = 0;
    run_threads(&o, threads, 0, THREADS, commit_many, members);
    join_threads(threads, THREADS);
    assert_int_equal(o.failures, 0);
    assert_memory_equal(o.staged, o.published, sizeof(o.staged));
    assert_true(stats(&x).syncs <= stats(&x).commits);
    assert_true(count_segments(&x) <= SEGMENTS_MAX);
    qp__journal_close(x.j);
  }
  close_fd(x.os, x.tmp);
  close_fd(x.os, x.root);
  (void)pthread_mutex_destroy(&o.lock);
  assert_int_equal(nftw(dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
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
    cmocka_unit_test(test_recovery_brings_back_all_commits),
    cmocka_unit_test(test_recovery_ends_at_the_first_frame_that_is_not_whole),
    cmocka_unit_test(test_recovery_ignores_a_segment_with_a_damaged_header),
    cmocka_unit_test(test_recovery_ends_at_a_gap_between_segments),
    cmocka_unit_test(test_recovery_can_be_repeated),
    cmocka_unit_test(test_salvage_finds_the_newest_content),
    cmocka_unit_test(test_pending_says_whether_commits_may_be_unfinished),
    cmocka_unit_test(test_journal_with_a_background_thread_stays_bounded),
  };

  return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}

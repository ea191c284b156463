/* test_recovery.c - what the journal restores after a crash, and what readers see. */
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
#include "journal_rig.h"
#include "os_fault.h"
#include "os_gate.h"
#include "os_sim.h"
#include "os_tools.h"
#include "store/files/journal/journal.h"
#include "store/files/journal/journal_recover.h"
#include "store/files/journal/segment.h"

/* ---- recovery ---- */

/* Five commits of one frame each, then a crash; their files are removed. Returns the offset of the
 * third frame in the only segment, whose path is set. */
static off_t
crash_after_five(struct rig *x, char path[128])
{
  char name[8] = "d/1";

  rig_make(x);
  rig_open(x);
  for (int i = 1; i <= 5; i++) {
    name[2] = (char)('0' + i);
    assert_int_equal(rig_put(x, name, "text"), QP_OK);
  }
  rig_crash(x);
  for (int i = 1; i <= 5; i++) {
    name[2] = (char)('0' + i);
    assert_int_equal(x->os->unlinkat(x->os->self, x->root, name, 0), 0);
  }
  rig_segment_path(x, path);
  return QP__SEGMENT_START + 2 * (off_t)qp__frame_space(4 + 16 + 3 + 4);
}

static void
expect_recovered(struct rig *x, unsigned count)
{
  char name[8] = "d/1";

  rig_open(x);
  assert_int_equal(rig_stats(x).recovered, count);
  for (unsigned i = 1; i <= 5; i++) {
    name[2] = (char)('0' + i);
    assert_true(exists(x->os, x->root, name) == (i <= count));
  }
  assert_int_equal(rig_put(x, "d/after", "it goes on"), QP_OK);
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

    rig_flip(&x, path, third + (off_t)i);
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
    rig_flip(&x, path, at);
    expect_recovered(&x, 0);
  }
}

/* Frames behind a segment that is gone are not next to those before it. */
static void
test_recovery_ends_at_a_gap_between_segments(void **state)
{
  char *text = rig_long_text(30000, 'g');
  struct names names;
  char path[128];
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  qp__os_fault_only(x.fault, QP__SLOT_SYNCFS); /* no checkpoint succeeds: all segments stay */
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  for (int i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof(path), "d/%d", i);
    assert_int_equal(rig_put(&x, path, text), QP_OK);
  }
  rig_fail_no_more(&x);
  rig_crash(&x);
  for (int i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof(path), "d/%d", i);
    assert_int_equal(x.os->unlinkat(x.os->self, x.root, path, 0), 0);
  }
  rig_list(&x, "journal", &names);
  assert_int_equal(names.count, 2); /* two frames in the first, one in the second */
  (void)snprintf(path, sizeof(path), "journal/%s", names.list[0]);
  rig_flip(&x, path, QP__SEGMENT_START + (off_t)qp__frame_space(4 + 16 + 3 + 30000) + 100);
  rig_open(&x);
  assert_int_equal(rig_stats(&x).recovered, 1);
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

  assert_int_equal(rig_put(x, "d/meta", "one"), QP_OK);
  rig_begin_put(&txn, "d/log", "head\n");
  rig_add(&txn, QP__OP_PUT, QP__OP_BACKUP, "d/meta", "two", 0);
  assert_int_equal(rig_finish(x, &txn), QP_OK);
  assert_int_equal(qp__txn_init(&txn, &err), QP_OK);
  rig_add(&txn, QP__OP_APPEND, 0, "d/log", "a\n", 5);
  rig_add(&txn, QP__OP_APPEND, 0, "d/log", "b\n", 7);
  rig_add(&txn, QP__OP_MKDIR, 0, "tmp/new", "", 0);
  rig_add(&txn, QP__OP_PUT, 0, "tmp/new/file", "content", 0);
  rig_add(&txn, QP__OP_RENAME, 0, "tmp/new", "d/dir", 0);
  assert_int_equal(rig_finish(x, &txn), QP_OK);
  rig_begin_put(&txn, "d/dir/second", "2");
  rig_add(&txn, QP__OP_PUT, 0, "d/gone", "gone", 0);
  rig_add(&txn, QP__OP_RENAME, 0, "d/dir/file", "d/dir/moved", 0);
  assert_int_equal(rig_finish(x, &txn), QP_OK);
  assert_int_equal(qp__txn_init(&txn, &err), QP_OK);
  rig_add(&txn, QP__OP_UNLINK, 0, "d/gone", "", 0);
  rig_add(&txn, QP__OP_PUT, 0, "d/log", "new log\n", 0);
  rig_add(&txn, QP__OP_APPEND, 0, "d/log", "c\n", 8);
  assert_int_equal(rig_finish(x, &txn), QP_OK);
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
    rig_open(&x);
    commit_all_kinds(&x);
    qp__buf_reset(&want);
    rig_describe(&x, "d", &want);
    rig_crash(&x);
    for (int again = 0; again < 3; again++) {
      qp__os_fault_arm(x.fault, n, QP__FAULT_EIO, true);
      if (!qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err))
        qp__journal_close(x.j);
      x.j = NULL;
      fired = qp__os_fault_fired(x.fault);
      qp__os_fault_disarm(x.fault);
    }
    rig_open(&x);
    qp__buf_reset(&got);
    rig_describe(&x, "d", &got);
    assert_string_equal(got.data, want.data);
    qp__buf_reset(&got);
    rig_describe(&x, "tmp", &got);
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
  rig_open(&x);
  expect_salvage(&x, "d/a", NULL);
  assert_int_equal(rig_put(&x, "d/a", "first"), QP_OK);
  assert_int_equal(rig_put(&x, "d/b", "other"), QP_OK);
  expect_salvage(&x, "d/a", "first");
  assert_int_equal(rig_put(&x, "d/a", "second"), QP_OK);
  expect_salvage(&x, "d/a", "second"); /* beside a live writer */
  expect_salvage(&x, "d", NULL);
  rig_crash(&x);
  expect_salvage(&x, "d/a", "second"); /* and without one */
  rig_open(&x);
  expect_salvage(&x, "d/a", NULL);
  rig_remove(&x);
}

static void
expect_state(struct rig *x, enum qp__journal_state want)
{
  struct qp_err err;
  enum qp__journal_state state;

  assert_int_equal(qp__journal_look(x->os, x->root, &state, &err), QP_OK);
  assert_int_equal(state, want);
}

static void
test_a_reader_is_told_whether_commits_may_be_unfinished(void **state)
{
  struct qp_err err;
  struct rig x;

  (void)state;
  rig_make(&x);
  expect_state(&x, QP__JOURNAL_EMPTY);
  rig_open(&x);
  expect_state(&x, QP__JOURNAL_EMPTY);
  assert_int_equal(rig_put(&x, "d/a", "1"), QP_OK);
  expect_state(&x, QP__JOURNAL_LIVE);
  assert_int_equal(qp__journal_checkpoint(x.j, &err), QP_OK);
  expect_state(&x, QP__JOURNAL_EMPTY);
  assert_int_equal(rig_put(&x, "d/a", "2"), QP_OK);
  rig_crash(&x);
  expect_state(&x, QP__JOURNAL_UNPLAYED);
  rig_open(&x);
  expect_state(&x, QP__JOURNAL_EMPTY);
  rig_remove(&x);
}

/* While a writer mends, and when that has failed, the files may be half of what they shall be. */
static void
test_a_reader_is_kept_out_while_a_writer_mends(void **state)
{
  struct qp_err err = { QP_IO, "a test" };
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  assert_int_equal(rig_put(&x, "d/a", "1"), QP_OK);
  qp__journal_poison(x.j, &err, true);
  expect_state(&x, QP__JOURNAL_LIVE); /* the files are still as of the last commit */
  qp__os_fault_only(x.fault, QP__SLOT_SYNCFS);
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  assert_int_equal(qp__journal_mend(x.j, &err), QP_IO);
  rig_fail_no_more(&x);
  expect_state(&x, QP__JOURNAL_UNPLAYED);
  assert_int_equal(qp__journal_mend(x.j, &err), QP_OK);
  qp__journal_resume(x.j);
  assert_int_equal(rig_put(&x, "d/a", "2"), QP_OK);
  expect_state(&x, QP__JOURNAL_LIVE);
  rig_remove(&x);
}

/* Somebody put a directory where a file goes and a file where a directory goes, while a commit that
 * needs both was durable and not carried out. */
static void
test_recovery_moves_what_stands_in_its_way_to_lost(void **state)
{
  struct names names;
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  assert_int_equal(rig_put(&x, "d/a", "one"), QP_OK);
  assert_int_equal(rig_put(&x, "d/b", "two"), QP_OK);
  rig_crash(&x);
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "d/a", 0), 0);
  assert_int_equal(make_dir(x.os, x.root, "d/a"), 0);
  assert_int_equal(make_dir(x.os, x.root, "d/a/theirs"), 0);
  rig_open(&x);
  assert_content(x.os, x.root, "d/a", "one");
  assert_content(x.os, x.root, "d/b", "two");
  rig_list(&x, "lost", &names);
  assert_int_equal(names.count, 1);
  assert_non_null(strstr(names.list[0], "-a"));
  rig_remove(&x);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_recovery_brings_back_all_commits),
    cmocka_unit_test(test_recovery_ends_at_the_first_frame_that_is_not_whole),
    cmocka_unit_test(test_recovery_ignores_a_segment_with_a_damaged_header),
    cmocka_unit_test(test_recovery_ends_at_a_gap_between_segments),
    cmocka_unit_test(test_recovery_can_be_repeated),
    cmocka_unit_test(test_recovery_moves_what_stands_in_its_way_to_lost),
    cmocka_unit_test(test_salvage_finds_the_newest_content),
    cmocka_unit_test(test_a_reader_is_told_whether_commits_may_be_unfinished),
    cmocka_unit_test(test_a_reader_is_kept_out_while_a_writer_mends),
  };

  return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}

/* test_plan.c - a replay that is planned gives the files that the commits gave when they were
 * carried out one after the other, however they were cut off, and needs no more room.
 *
 * Histories are random, but of the kinds that the store makes: things are created, written,
 * appended to, moved to a trash and back, deleted, and built in tmp/ and renamed to their places. A
 * failure prints its seed; QUIPU_TEST_SEED=n runs that one, QUIPU_TEST_LONG=1 runs many more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "journal_rig.h"
#include "os/file.h"
#include "os_fault.h"
#include "os_sim.h"
#include "os_tools.h"
#include "scenario.h"
#include "store/files/journal/journal.h"

#define PLACES 4
#define FILES 12

enum where { NOWHERE, IN_PLACE, IN_TRASH };

/* What a history has made so far. */
struct world {
  struct rng rng;
  unsigned next;
  struct place {
    bool there;
    bool journalled; /* its creation may be in the journal */
    unsigned log;    /* bytes */
    enum where files[FILES];
    unsigned names[FILES];
  } places[PLACES];
};

static void
finish(struct rig *x, struct qp__txn *txn)
{
  assert_int_equal(rig_finish(x, txn), QP_OK);
}

static void
begin(struct qp__txn *txn)
{
  struct qp_err err;

  assert_int_equal(qp__txn_init(txn, &err), QP_OK);
}

static void
create_place(struct rig *x, struct world *w, unsigned i)
{
  char top[32];
  char path[64];
  char to[16];
  struct qp__txn txn;

  (void)snprintf(top, sizeof(top), "tmp/n%u", w->next++);
  (void)snprintf(to, sizeof(to), "d/%u", i);
  begin(&txn);
  rig_add(&txn, QP__OP_MKDIR, 0, top, "", 0);
  (void)snprintf(path, sizeof(path), "%s/meta", top);
  rig_add(&txn, QP__OP_PUT, 0, path, "a title", 0);
  (void)snprintf(path, sizeof(path), "%s/log", top);
  rig_add(&txn, QP__OP_PUT, 0, path, "head\n", 0);
  rig_add(&txn, QP__OP_RENAME, 0, top, to, 0);
  finish(x, &txn);
  memset(&w->places[i], 0, sizeof(w->places[i]));
  w->places[i] = (struct place){ .there = true, .journalled = true, .log = 5 };
}

/* Files that no commit has the content of; the journal must have forgotten the place before. */
static void
build_place(struct rig *x, struct world *w, unsigned i)
{
  char top[32];
  char path[64];
  char to[16];
  struct qp__txn txn;
  struct qp_err err;

  if (w->places[i].journalled)
    assert_int_equal(qp__journal_barrier(x->j, &err), QP_OK);
  (void)snprintf(top, sizeof(top), "tmp/b%u", w->next++);
  (void)snprintf(to, sizeof(to), "d/%u", i);
  assert_int_equal(make_dir(x->os, x->root, top), 0);
  (void)snprintf(path, sizeof(path), "%s/log", top);
  put(x->os, x->root, path, "built\n");
  (void)snprintf(path, sizeof(path), "%s/only-here", top);
  put(x->os, x->root, path, "no commit has this");
  assert_int_equal(x->os->syncfs(x->os->self, x->root), 0);
  begin(&txn);
  rig_add(&txn, QP__OP_RENAME, 0, top, to, 0);
  finish(x, &txn);
  w->places[i] = (struct place){ .there = true, .journalled = true, .log = 6 };
}

static void
delete_place(struct rig *x, struct world *w, unsigned i)
{
  char from[16];
  char to[32];
  struct qp__txn txn;

  (void)snprintf(from, sizeof(from), "d/%u", i);
  (void)snprintf(to, sizeof(to), "tmp/g%u", w->next++);
  begin(&txn);
  rig_add(&txn, QP__OP_RENAME, 0, from, to, 0);
  finish(x, &txn);
  if (rng_below(&w->rng, 3))
    assert_int_equal(qp__tree_remove(x->os, x->root, to), 0);
  w->places[i].there = false;
}

/* Adds a line to the log of a place, as a second operation of a commit. */
static void
add_line(struct world *w, unsigned i, struct qp__txn *txn)
{
  char path[32];
  char line[32];

  (void)snprintf(path, sizeof(path), "d/%u/log", i);
  (void)snprintf(line, sizeof(line), "line %u\n", w->next++);
  rig_add(txn, QP__OP_APPEND, rng_below(&w->rng, 8) ? 0 : QP__OP_CUT, path, line, w->places[i].log);
  w->places[i].log += (unsigned)strlen(line);
}

static void
change_file(struct rig *x, struct world *w, unsigned i)
{
  struct place *p = &w->places[i];
  unsigned k = (unsigned)rng_below(&w->rng, FILES);
  char file[64];
  char trash[64];
  char text[64];
  struct qp__txn txn;

  begin(&txn);
  if (p->files[k] == NOWHERE) {
    p->names[k] = w->next++;
    p->files[k] = IN_PLACE;
    (void)snprintf(file, sizeof(file), "d/%u/m/%u", i, p->names[k]);
    (void)snprintf(text, sizeof(text), "text of %u", p->names[k]);
    (void)snprintf(trash, sizeof(trash), "d/%u/m", i);
    rig_add(&txn, QP__OP_MKDIR, 0, trash, "", 0);
    rig_add(&txn, QP__OP_PUT, 0, file, text, 0);
  } else {
    (void)snprintf(file, sizeof(file), "d/%u/m/%u", i, p->names[k]);
    (void)snprintf(trash, sizeof(trash), "d/%u/t", i);
    if (p->files[k] == IN_PLACE && rng_below(&w->rng, 2)) {
      rig_add(&txn, QP__OP_MKDIR, 0, trash, "", 0);
      (void)snprintf(trash, sizeof(trash), "d/%u/t/%u", i, p->names[k]);
      rig_add(&txn, QP__OP_RENAME, 0, file, trash, 0);
      p->files[k] = IN_TRASH;
    } else if (p->files[k] == IN_PLACE) {
      rig_add(&txn, QP__OP_UNLINK, 0, file, "", 0);
      p->files[k] = NOWHERE;
    } else {
      (void)snprintf(trash, sizeof(trash), "d/%u/t/%u", i, p->names[k]);
      rig_add(&txn, QP__OP_RENAME, 0, trash, file, 0);
      p->files[k] = IN_PLACE;
    }
  }
  add_line(w, i, &txn);
  finish(x, &txn);
}

static void
change_meta(struct rig *x, struct world *w, unsigned i)
{
  char path[32];
  char text[32];
  struct qp__txn txn;

  (void)snprintf(path, sizeof(path), "d/%u/meta", i);
  (void)snprintf(text, sizeof(text), "title %u", w->next++);
  begin(&txn);
  rig_add(&txn, QP__OP_PUT, 0, path, text, 0);
  if (!rng_below(&w->rng, 4)) { /* a fold: a new log, with some lines of the old one */
    (void)snprintf(path, sizeof(path), "d/%u/log", i);
    rig_add(&txn, QP__OP_PUT, 0, path, "folded\n", 0);
    w->places[i].log = 7;
  }
  finish(x, &txn);
}

static void
step(struct rig *x, struct world *w)
{
  unsigned i = (unsigned)rng_below(&w->rng, PLACES);
  uint64_t what = rng_below(&w->rng, 16);
  struct qp_err err;

  if (!w->places[i].there && what < 2)
    build_place(x, w, i);
  else if (!w->places[i].there)
    create_place(x, w, i);
  else if (what == 0)
    delete_place(x, w, i);
  else if (what < 4)
    change_meta(x, w, i);
  else if (what == 4 && !rng_below(&w->rng, 6))
    assert_int_equal(qp__journal_checkpoint(x->j, &err), QP_OK);
  else
    change_file(x, w, i);
}

/* A history, and the files that it made. */
static void
make_history(struct rig *x, struct world *w, uint64_t seed, unsigned steps, struct qp__buf *want)
{
  memset(w, 0, sizeof(*w));
  w->rng.state = seed;
  rig_make(x);
  rig_open(x);
  while (steps--)
    step(x, w);
  qp__buf_reset(want);
  rig_describe(x, "d", want);
}

static void
expect_files(struct rig *x, const struct qp__buf *want, const char *how, uint64_t seed, uint64_t n)
{
  struct qp__buf got;
  bool same;

  qp__buf_init(&got, 1 << 20);
  rig_describe(x, "d", &got);
  same = got.len == want->len && (!got.len || memcmp(got.data, want->data, got.len) == 0);
  if (!same)
    fail_msg("seed %llu, %s %llu: the files are\n%s\nand should be\n%s", (unsigned long long)seed,
             how, (unsigned long long)n, got.data ? got.data : "", want->data);
  qp__buf_reset(&got);
  rig_describe(x, "tmp", &got);
  assert_int_equal(got.len, 0);
  assert_false(exists(x->os, x->root, "lost"));
  qp__buf_release(&got);
}

/* The machine starts again. */
static void
restart(struct rig *x)
{
  (void)x->os->close(x->os->self, x->tmp); /* a machine that is off says that it cannot */
  (void)x->os->close(x->os->self, x->root);
  assert_int_equal(qp__os_sim_power_cut(x->sim), 0);
  x->root = root_of(x->os);
  x->tmp = open_at(x->os, x->root, "tmp", O_RDONLY | O_DIRECTORY);
  assert_true(x->tmp >= 0);
}

static void
for_seeds(void (*test)(uint64_t seed))
{
  uint64_t first = test_seed(1);
  uint64_t count = first != 1 ? 1 : test_is_long() ? 2000 : 60;

  for (uint64_t seed = first; seed < first + count; seed++)
    test(seed);
}

/* ---- the process dies ---- */

static void
kill_and_replay(uint64_t seed)
{
  struct world w;
  struct rig x;
  struct qp__buf want;
  struct qp_err err;
  struct qp__journal_options options = { .segment_bytes = SEGMENT };

  qp__buf_init(&want, 1 << 20);
  make_history(&x, &w, seed, 60, &want);
  rig_crash(&x);
  /* The disk is full and has no inode left: what is there must be enough. */
  qp__os_sim_set_inodes(x.sim, qp__os_sim_inodes(x.sim));
  qp__os_sim_set_capacity(x.sim, qp__os_sim_bytes(x.sim));
  if (qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err))
    fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
  expect_files(&x, &want, "kill", seed, 0);
  rig_remove(&x);
  qp__buf_release(&want);
}

static void
test_a_replay_needs_no_room_when_the_process_died(void **state)
{
  (void)state;
  for_seeds(kill_and_replay);
}

/* ---- the power goes ---- */

static void
cut_and_replay(uint64_t seed)
{
  struct world w;
  struct rig x;
  struct qp__buf want;
  struct qp_err err;
  struct qp__journal_options options = { .segment_bytes = SEGMENT };
  uint64_t inodes;
  uint64_t bytes;

  qp__buf_init(&want, 1 << 20);
  make_history(&x, &w, seed, 60, &want);
  inodes = qp__os_sim_inodes(x.sim);
  bytes = qp__os_sim_bytes(x.sim);
  rig_crash(&x);
  restart(&x);
  qp__os_sim_set_inodes(x.sim, inodes);
  qp__os_sim_set_capacity(x.sim, bytes);
  if (qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err))
    fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
  expect_files(&x, &want, "power cut", seed, 0);
  rig_remove(&x);
  qp__buf_release(&want);
}

static void
test_a_replay_needs_no_more_room_than_the_state_it_leads_to(void **state)
{
  (void)state;
  for_seeds(cut_and_replay);
}

/* ---- the replay itself is cut off ---- */

static void
fail_at_every_call(uint64_t seed)
{
  static const enum qp__os_fault_kind kinds[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC };
  struct qp__journal_options options = { .segment_bytes = SEGMENT };
  struct qp__buf want;
  bool fired = true;
  uint64_t stride = test_is_long() ? 1 : 3;

  qp__buf_init(&want, 1 << 20);
  for (uint64_t n = 1 + seed % stride; fired; n += stride) {
    struct world w;
    struct rig x;
    struct qp_err err;

    make_history(&x, &w, seed, 40, &want);
    rig_crash(&x);
    if (seed % 2)
      restart(&x);
    fired = false;
    for (size_t k = 0; k < 2; k++) {
      enum qp_rc rc;

      qp__os_fault_arm(x.fault, n, kinds[k], k == 0);
      rc = qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err);
      fired |= qp__os_fault_fired(x.fault);
      qp__os_fault_disarm(x.fault);
      if (!rc) {
        expect_files(&x, &want, "done in spite of a failure at call", seed, n);
        rig_crash(&x);
      }
    }
    rig_open(&x);
    expect_files(&x, &want, "failed at call", seed, n);
    rig_remove(&x);
  }
  qp__buf_release(&want);
}

static void
test_a_replay_that_failed_at_any_call_is_finished_by_the_next(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= (test_is_long() ? 40 : 4); seed++)
    fail_at_every_call(seed);
}

static void
cut_at_every_change(uint64_t seed)
{
  struct qp__journal_options options = { .segment_bytes = SEGMENT };
  struct qp__buf want;
  bool off = true;
  uint64_t stride = test_is_long() ? 1 : 3;

  qp__buf_init(&want, 1 << 20);
  for (uint64_t n = seed % stride; off; n += stride) {
    struct world w;
    struct rig x;
    struct qp_err err;

    make_history(&x, &w, seed, 40, &want);
    rig_crash(&x);
    restart(&x);
    qp__os_sim_cut_after(x.sim, n);
    if (!qp__journal_open(x.os, x.root, x.tmp, &options, &x.j, &err))
      rig_crash(&x);
    off = qp__os_sim_is_off(x.sim);
    restart(&x);
    rig_open(&x);
    expect_files(&x, &want, "cut after change", seed, n);
    rig_remove(&x);
  }
  qp__buf_release(&want);
}

static void
test_a_replay_that_is_cut_at_any_change_is_finished_by_the_next(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= (test_is_long() ? 40 : 4); seed++)
    cut_at_every_change(seed);
}

/* ---- single cases ---- */

/* What was changed and then moved away, with a content that only the disk has, moves with its
 * changes. (The store makes no such commits: a replay that is repeated could not tell.) */
static void
test_what_moves_takes_its_changes_with_it(void **state)
{
  struct qp__txn txn;
  struct rig x;

  (void)state;
  rig_make(&x);
  assert_int_equal(make_dir(x.os, x.root, "d/a"), 0);
  put(x.os, x.root, "d/a/log", "only here\n");
  put(x.os, x.root, "d/a/gone", "x");
  put(x.os, x.root, "d/f", "base ");
  rig_open(&x);
  rig_begin_put(&txn, "d/a/new", "new");
  rig_add(&txn, QP__OP_UNLINK, 0, "d/a/gone", "", 0);
  rig_add(&txn, QP__OP_APPEND, 0, "d/a/log", "more\n", 10);
  rig_add(&txn, QP__OP_APPEND, 0, "d/f", "and more", 5);
  rig_add(&txn, QP__OP_RENAME, 0, "d/a", "d/b", 0);
  rig_add(&txn, QP__OP_RENAME, 0, "d/f", "d/b/f", 0);
  rig_add(&txn, QP__OP_PUT, 0, "d/b/last", "last", 0);
  qp__os_fault_only(x.fault, QP__SLOT_RENAMEAT); /* nothing of it is carried out yet */
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  assert_int_equal(rig_finish(&x, &txn), QP_IO);
  rig_fail_no_more(&x);
  rig_crash(&x);
  rig_open(&x);
  assert_false(exists(x.os, x.root, "d/a"));
  assert_false(exists(x.os, x.root, "d/f"));
  assert_false(exists(x.os, x.root, "d/b/gone"));
  assert_content(x.os, x.root, "d/b/log", "only here\nmore\n");
  assert_content(x.os, x.root, "d/b/new", "new");
  assert_content(x.os, x.root, "d/b/f", "base and more");
  assert_content(x.os, x.root, "d/b/last", "last");
  rig_remove(&x);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_replay_needs_no_room_when_the_process_died),
    cmocka_unit_test(test_a_replay_needs_no_more_room_than_the_state_it_leads_to),
    cmocka_unit_test(test_a_replay_that_failed_at_any_call_is_finished_by_the_next),
    cmocka_unit_test(test_a_replay_that_is_cut_at_any_change_is_finished_by_the_next),
    cmocka_unit_test(test_what_moves_takes_its_changes_with_it),
  };

  return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}

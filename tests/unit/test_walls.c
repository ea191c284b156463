/* test_walls.c - the checks of base/assert.h and base/mutex.h stop what they are to stop, and each
 * promise of the tree, the journal, the logs and the catalogue, once broken, is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/idset.h"
#include "base/mutex.h"
#include "journal_rig.h"
#include "lib/dies.h"
#include "store/context/tree.h"
#include "store/files/journal/journal_int.h"
#include "store/log/bounded_log.h"

/* ---- the macros ---- */

static void
assert_false_of(void *arg)
{
  int *two = arg;

  QP_ASSERT(*two == 2);
  QP_ASSERT(*two == 3);
}

static void
ensure_false_of(void *arg)
{
  int *two = arg;

  (void)QP_ENSURE(*two == 3);
}

static void
a_failed_check_names_its_place_and_condition(void **state)
{
  int two = 2;

  (void)state;
  test_dies(assert_false_of, &two, "*two == 3");
  test_dies(ensure_false_of, &two, "*two == 3");
}

static void
an_ensured_condition_is_an_answer_in_a_release(void **state)
{
  int two = 2;

  (void)state;
  qp__ensure_returns = true;
  assert_true(QP_ENSURE(two == 2));
  assert_false(QP_ENSURE(two == 3));
  qp__ensure_returns = false;
}

static void
a_small_structure_is_always_walked_and_a_large_one_now_and_then(void **state)
{
  uint32_t calls = 0, walks = 0;

  (void)state;
  for (int i = 0; i < 1000; i++)
    assert_true(qp__check_due(&calls, 10));
  for (int i = 0; i < 1000; i++)
    walks += qp__check_due(&calls, 400);
  assert_int_equal(walks, 10);
}

/* ---- mutexes ---- */

static struct qp__mutex one = QP__MUTEX_INIT(QP__RANK_NONE);

static void
assert_one_held(void *arg)
{
  (void)arg;
  QP_ASSERT_HELD(&one);
}

static void
unlock_one(void *arg)
{
  (void)arg;
  qp__mutex_unlock(&one);
}

static void
lock_one_twice(void *arg)
{
  (void)arg;
  qp__mutex_lock(&one);
  qp__mutex_lock(&one);
}

static void
release_one_locked(void *arg)
{
  (void)arg;
  qp__mutex_lock(&one);
  qp__mutex_release(&one);
}

static void *
other_thread_asserts(void *arg)
{
  (void)arg;
  QP_ASSERT_HELD(&one);
  return NULL;
}

static void
held_by_another(void *arg)
{
  pthread_t t;

  (void)arg;
  qp__mutex_lock(&one);
  assert_int_equal(pthread_create(&t, NULL, other_thread_asserts, NULL), 0);
  (void)pthread_join(t, NULL);
}

static void
a_mutex_knows_who_has_it_locked(void **state)
{
  (void)state;
  QP_ASSERT_NOT_HELD(&one);
  qp__mutex_lock(&one);
  QP_ASSERT_HELD(&one);
  qp__mutex_unlock(&one);
  test_dies(assert_one_held, NULL, "qp__mutex_held(&one)");
  test_dies(held_by_another, NULL, "qp__mutex_held(&one)");
  test_dies(unlock_one, NULL, "qp__mutex_held(m)");
  test_dies(lock_one_twice, NULL, "!qp__mutex_held(m)");
  test_dies(release_one_locked, NULL, "!atomic_load_explicit(&m->owner");
}

static void
a_wait_gives_the_mutex_up_and_takes_it_again(void **state)
{
  struct timespec past = { 1, 0 };
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;

  (void)state;
  qp__mutex_lock(&one);
  assert_int_not_equal(qp__mutex_timedwait(&one, &never, &past), 0);
  QP_ASSERT_HELD(&one);
  qp__mutex_unlock(&one);
  (void)pthread_cond_destroy(&never);
}

/* ---- the order of locks ---- */

static void
lock_out_of_order(void *arg)
{
  struct qp__mutex outer, inner;

  (void)arg;
  qp__mutex_init(&outer, QP__RANK_STORE);
  qp__mutex_init(&inner, QP__RANK_JOURNAL);
  qp__mutex_lock(&inner);
  qp__mutex_lock(&outer);
}

static void
lock_two_of_a_rank(void *arg)
{
  enum qp__rank rank = *(enum qp__rank *)arg;
  struct qp__mutex a, b;

  qp__mutex_init(&a, rank);
  qp__mutex_init(&b, rank);
  qp__mutex_lock(&a);
  qp__mutex_lock(&b);
  qp__mutex_unlock(&a);
  qp__mutex_unlock(&b);
}

static void
locks_are_taken_in_the_order_of_their_ranks(void **state)
{
  enum qp__rank many = QP__RANK_CONTEXT_WRITE, journal = QP__RANK_JOURNAL;

  (void)state;
  lock_two_of_a_rank(&many);
  test_dies(lock_out_of_order, NULL, "in->rank < m->rank");
  test_dies(lock_two_of_a_rank, &journal, "in->rank < m->rank");
}

/* ---- the tree: five messages, the last one on a branch of its own ---- */

enum { MESSAGES = 5 };

static void
make_tree(struct qp__tree *t)
{
  uint16_t dir;

  qp__tree_init(t);
  assert_int_equal(qp__tree_dir(t, "branch-main", 11, &dir), 0);
  assert_true(qp__tree_reserve(t, MESSAGES));
  for (uint32_t i = 0; i < MESSAGES; i++) {
    struct qp__entry e = { .size = 100 + i, .dir = dir };

    e.id.b[15] = (uint8_t)(i + 1);
    e.parent = i == 0 ? QP__NO_SLOT : i == MESSAGES - 1 ? 1 : i - 1;
    assert_int_equal(qp__tree_load(t, &e), i);
  }
  qp__tree_publish(t, t->count, t->pending_bytes);
  qp__tree_invariants(t, true);
}

typedef void break_tree(struct qp__tree *t);

static void
lose_bytes(struct qp__tree *t)
{
  t->pending_bytes--;
}

static void
show_too_much(struct qp__tree *t)
{
  atomic_store(&t->visible, MESSAGES + 1);
}

static void
show_wrong_bytes(struct qp__tree *t)
{
  atomic_store(&t->bytes, 1);
}

static void
swap_parent(struct qp__tree *t)
{
  qp__tree_at(t, 2)->parent = 3;
}

static void
change_depth(struct qp__tree *t)
{
  qp__tree_at(t, 3)->depth = 7;
}

static void
change_path(struct qp__tree *t)
{
  qp__tree_at(t, 3)->path_bytes++;
}

static void
jump_forward(struct qp__tree *t)
{
  qp__tree_at(t, 2)->jump = 2;
}

static void
enter_no_pack(struct qp__tree *t)
{
  atomic_store(&qp__tree_at(t, 2)->place, qp__place_pack(0, 0));
}

static void
mistake_status(struct qp__tree *t)
{
  atomic_store(&qp__tree_at(t, 2)->status, QP_STATUS_TRASHED);
}

static void
count_no_trash(struct qp__tree *t)
{
  qp__tree_set_place(t, qp__tree_at(t, 2), qp__place_trash(1000));
  atomic_store(&t->trashed_count, 0);
}

static void
break_and_check_tree(void *arg)
{
  struct qp__tree t;

  make_tree(&t);
  (*(break_tree **)arg)(&t);
  qp__tree_invariants(&t, true);
}

static void
a_tree_that_contradicts_itself_is_noticed(void **state)
{
  static const struct {
    break_tree *fn;
    const char *condition;
  } cases[] = {
    { lose_bytes, "t->pending_bytes == bytes" },
    { show_too_much, "visible <= t->count" },
    { show_wrong_bytes, "atomic_load(&t->bytes) == bytes" },
    { swap_parent, "e->parent < slot" },
    { change_depth, "e->depth == p->depth + 1" },
    { change_path, "e->path_bytes == p->path_bytes + e->size" },
    { jump_forward, "e->jump < slot" },
    { enter_no_pack, "qp__place_frame(place) < t->frame_count" },
    { mistake_status, "status == " },
    { count_no_trash, "trashed" },
  };
  struct qp__tree t;

  (void)state;
  make_tree(&t);
  qp__tree_release(&t);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    break_tree *fn = cases[i].fn;

    test_dies(break_and_check_tree, &fn, cases[i].condition);
  }
}

/* ---- the journal: one commit applied, two staged ---- */

typedef void break_journal(struct qp__journal *j);

static void
apply_ahead(struct qp__journal *j)
{
  j->applied_seq = j->next_seq;
}

static void
forget_ahead(struct qp__journal *j)
{
  j->forgotten_seq = j->applied_seq + 1;
}

static void
end_outside(struct qp__journal *j)
{
  j->live[0].end = j->live[0].size + 8;
}

static void
lose_segments(struct qp__journal *j)
{
  j->live_count = 0;
}

static void
reuse_number(struct qp__journal *j)
{
  j->next_number = j->live[0].number;
}

static void
lose_tail(struct qp__journal *j)
{
  j->queue_tail = j->queue;
}

static void
swap_queue(struct qp__journal *j)
{
  j->queue->seq = j->queue->next->seq;
}

static void
move_frame(struct qp__journal *j)
{
  j->queue->offset = j->live[0].end;
}

static void
take_twice(struct qp__journal *j)
{
  j->queue->taken = true;
}

static void
miscount_held(struct qp__journal *j)
{
  atomic_store(&j->held_count, 1);
}

static void
sync_without_leader(struct qp__journal *j)
{
  j->syncing = true;
}

static void
break_and_check_journal(void *arg)
{
  struct qp__txn first, second;
  struct rig x;

  rig_make(&x);
  rig_open(&x);
  assert_int_equal(rig_put(&x, "a", "1"), QP_OK);
  rig_begin_put(&first, "b", "2");
  rig_begin_put(&second, "c", "3");
  assert_int_equal(qp__journal_stage(x.j, &first, NULL), QP_OK);
  assert_int_equal(qp__journal_stage(x.j, &second, NULL), QP_OK);
  qp__mutex_lock(&x.j->lock);
  qp__journal_invariants(x.j);
  (*(break_journal **)arg)(x.j);
  qp__journal_invariants(x.j);
}

static void
a_journal_that_contradicts_itself_is_noticed(void **state)
{
  static const struct {
    break_journal *fn;
    const char *condition;
  } cases[] = {
    { apply_ahead, "j->applied_seq" },
    { forget_ahead, "j->forgotten_seq <= j->applied_seq" },
    { end_outside, "s->end <= s->size" },
    { lose_segments, "j->live_count || j->poison" },
    { reuse_number, "s->number < j->next_number" },
    { lose_tail, "j->queue_tail" },
    { swap_queue, "t->next->seq == t->seq + 1" },
    { move_frame, "<= s->end" },
    { take_twice, "!t->taken" },
    { miscount_held, "== j->held.count" },
    { sync_without_leader, "!j->syncing || j->leading" },
  };

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    break_journal *fn = cases[i].fn;

    test_dies(break_and_check_journal, &fn, cases[i].condition);
  }
}

/* What a release does when QP_ENSURE finds a mistake. */
static void
a_frame_without_a_place_stops_writes_and_is_not_written(void **state)
{
  char before[64], after[64], path[128];
  struct qp__txn txn;
  struct qp_err err;
  struct rig x;

  (void)state;
  rig_make(&x);
  rig_open(&x);
  assert_int_equal(rig_put(&x, "a", "1"), QP_OK);
  rig_segment_path(&x, path);
  rig_peek(&x, path, 0, before, sizeof(before));
  rig_begin_put(&txn, "b", "2");
  assert_int_equal(qp__journal_stage(x.j, &txn, &err), QP_OK);
  txn.offset = 0; /* the segment's header */
  qp__ensure_returns = true;
  assert_int_equal(qp__journal_finish(x.j, &txn, &err), QP_IO);
  qp__ensure_returns = false;
  qp__txn_release(&txn);
  assert_non_null(strstr(err.msg, "internal error: commit 2 has no place"));
  rig_peek(&x, path, 0, after, sizeof(after));
  assert_memory_equal(before, after, sizeof(before));
  assert_int_equal(qp__journal_check(x.j, &err), QP_IO);
  assert_int_equal(rig_put(&x, "c", "3"), QP_IO); /* until the store recovers */
  rig_remove(&x);
}

/* ---- logs and the catalogue ---- */

static struct qp__mutex ring_lock = QP__MUTEX_INIT(QP__RANK_NONE);

static void
check_ring_with(void *arg)
{
  struct qp__ring_chunk staged[2] = { { .n = 3 }, { .n = 4 } };
  struct qp__ring_chunk shown[2] = { { .n = 2 }, { .n = 3 } };
  struct qp__ring r = { .lock = &ring_lock, .staged = { staged, 2, 2 }, .shown = { shown, 2, 2 } };
  int way = *(int *)arg;

  qp__mutex_lock(&ring_lock);
  qp__ring_invariants(&r);
  if (way == 0)
    staged[1].n = 3;
  else if (way == 1)
    shown[1].n = 5;
  else if (way == 2)
    r.shown.count = 3;
  else
    qp__mutex_unlock(&ring_lock);
  qp__ring_invariants(&r);
}

static void
a_log_that_contradicts_itself_is_noticed(void **state)
{
  static const char *const conditions[] = { "c->list[i].n > c->list[i - 1].n", "shown->list",
                                            "c->count <= c->cap", "qp__mutex_held(r->lock)" };

  (void)state;
  for (int way = 0; way < 4; way++)
    test_dies(check_ring_with, &way, conditions[way]);
}

static void
check_set_with(void *arg)
{
  struct qp__idset set = { 0 };
  struct qp_uuid id = { { 1 } };

  assert_true(qp__idset_add(&set, &id));
  qp__idset_invariants(&set);
  if (*(int *)arg == 0)
    set.cells[0] = set.cells[1] = 1; /* besides its own cell, or instead */
  else
    set.ids[0].b[0]++; /* an id that belongs elsewhere */
  qp__idset_invariants(&set);
}

static void
a_set_of_contexts_that_contradicts_itself_is_noticed(void **state)
{
  int count = 0, place = 1;

  (void)state;
  test_dies(check_set_with, &count, "used == set->count");
  test_dies(check_set_with, &place, "find_cell(");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_failed_check_names_its_place_and_condition),
    cmocka_unit_test(an_ensured_condition_is_an_answer_in_a_release),
    cmocka_unit_test(a_small_structure_is_always_walked_and_a_large_one_now_and_then),
    cmocka_unit_test(a_mutex_knows_who_has_it_locked),
    cmocka_unit_test(a_wait_gives_the_mutex_up_and_takes_it_again),
    cmocka_unit_test(locks_are_taken_in_the_order_of_their_ranks),
    cmocka_unit_test(a_tree_that_contradicts_itself_is_noticed),
    cmocka_unit_test(a_journal_that_contradicts_itself_is_noticed),
    cmocka_unit_test(a_frame_without_a_place_stops_writes_and_is_not_written),
    cmocka_unit_test(a_log_that_contradicts_itself_is_noticed),
    cmocka_unit_test(a_set_of_contexts_that_contradicts_itself_is_noticed),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}

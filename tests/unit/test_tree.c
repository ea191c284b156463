/* test_tree.c - src/store/context/tree.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "store/context/tree.h"

/* ---- helpers ---- */

static uint32_t
next_random(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

/* Ids that are spread by a number. */
static struct qp_uuid
id_of(uint32_t n)
{
  struct qp_uuid id = { { 0 } };
  uint64_t a = (n + 1) * 0x9e3779b97f4a7c15u;

  memcpy(id.b, &a, sizeof(a));
  memcpy(id.b + 8, &n, sizeof(n));
  id.b[15] = 1;
  return id;
}

static struct qp__entry
entry_of(uint32_t n, uint32_t parent)
{
  struct qp__entry e;

  memset(&e, 0, sizeof(e));
  e.id = id_of(n);
  e.parent = parent;
  e.size = n % 1000 + 1;
  e.time = 1000 + n;
  e.tokens = n;
  e.role = QP_ROLE_ASSISTANT;
  e.type = QP_TYPE_PLAN;
  e.hash[3] = (uint8_t)n;
  return e;
}

static void
init(struct qp__tree *t)
{
  qp__tree_init(t);
}

static void
load(struct qp__tree *t, uint32_t parent)
{
  struct qp__entry e = entry_of(t->count, parent);

  assert_true(qp__tree_reserve(t, 1));
  (void)qp__tree_load(t, &e);
}

/* A random tree: mostly chains, some forks, some roots. */
static void
grow(struct qp__tree *t, uint32_t n, uint64_t seed)
{
  for (uint32_t i = 0; i < n; i++) {
    uint32_t dice = next_random(&seed) % 20;

    if (i == 0 || dice == 0)
      load(t, QP__NO_SLOT);
    else
      load(t, dice < 3 ? next_random(&seed) % i : i - 1);
  }
  qp__tree_publish(t, t->count, t->pending_bytes);
}

/* The ancestor by following parents one by one. */
static uint32_t
walk(const struct qp__tree *t, uint32_t slot, uint32_t depth)
{
  while (qp__tree_at(t, slot)->depth > depth)
    slot = qp__tree_at(t, slot)->parent;
  return slot;
}

/* ---- entries ---- */

static void
test_an_entry_knows_its_place(void **state)
{
  struct qp__tree t;
  struct qp_message_info info;
  struct qp_uuid want;

  (void)state;
  init(&t);
  load(&t, QP__NO_SLOT); /* 0 */
  load(&t, 0);           /* 1 */
  load(&t, 1);           /* 2 */
  load(&t, 1);           /* 3 */
  load(&t, QP__NO_SLOT); /* 4 */
  assert_int_equal(qp__tree_at(&t, 0)->depth, 0);
  assert_int_equal(qp__tree_at(&t, 3)->depth, 2);
  assert_int_equal(qp__tree_at(&t, 4)->depth, 0);
  assert_int_equal(qp__tree_at(&t, 3)->path_bytes, 1 + 2 + 4);
  assert_int_equal(qp__tree_at(&t, 4)->path_bytes, 5);
  assert_int_equal(t.pending_bytes, 15);
  qp__tree_info(&t, 3, &info);
  want = id_of(3);
  assert_memory_equal(&info.id, &want, sizeof(want));
  want = id_of(1);
  assert_memory_equal(&info.parent, &want, sizeof(want));
  assert_int_equal(info.position, 2);
  assert_int_equal(info.size, 4);
  assert_int_equal(info.tokens, 3);
  assert_int_equal(info.created_at, 1003);
  assert_int_equal(info.role, QP_ROLE_ASSISTANT);
  assert_int_equal(info.type, QP_TYPE_PLAN);
  assert_int_equal(info.status, QP_STATUS_LIVE);
  assert_int_equal(info.hash[3], 3);
  qp__tree_info(&t, 4, &info);
  assert_true(qp_uuid_is_none(&info.parent));
  qp__tree_release(&t);
}

static void
test_ancestors_are_those_of_a_naive_walk(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    uint64_t dice = seed;
    struct qp__tree t;

    init(&t);
    grow(&t, 3000, seed);
    for (int i = 0; i < 3000; i++) {
      uint32_t slot = next_random(&dice) % t.count;
      uint32_t depth = next_random(&dice) % (qp__tree_at(&t, slot)->depth + 1);

      assert_int_equal(qp__tree_ancestor(&t, slot, depth), walk(&t, slot, depth));
    }
    qp__tree_release(&t);
  }
}

static void
test_any_ancestor_is_a_few_steps_away(void **state)
{
  enum { DEPTH = 100000 };
  uint64_t dice = 7;
  struct qp__tree t;

  (void)state;
  init(&t);
  for (uint32_t i = 0; i < DEPTH; i++)
    load(&t, i ? i - 1 : QP__NO_SLOT);
  for (int i = 0; i < 2000; i++) {
    uint32_t slot = DEPTH - 1 - next_random(&dice) % 100;
    uint32_t depth = next_random(&dice) % slot;
    int steps = 0;

    while (qp__tree_at(&t, slot)->depth > depth) { /* the way that ancestor() goes */
      const struct qp__entry *e = qp__tree_at(&t, slot);

      slot = qp__tree_at(&t, e->jump)->depth >= depth ? e->jump : e->parent;
      steps++;
    }
    assert_int_equal(slot, depth);    /* in a chain they are the same */
    assert_true(steps <= 3 * 16 - 2); /* 3 lg(depth + 1) - 2, as Myers has it */
  }
  qp__tree_release(&t);
}

/* ---- ids ---- */

static void
expect_found(struct qp__tree *t, uint32_t n, bool all, uint32_t want)
{
  struct qp_uuid id = id_of(n);
  uint32_t slot = 12345;

  assert_true(qp__tree_find(t, &id, all, &slot));
  assert_int_equal(slot, want);
}

static void
test_ids_are_found_while_the_table_grows(void **state)
{
  enum { N = 5000 };
  struct qp_uuid none = { { 0 } };
  struct qp__tree t;
  uint32_t slot;

  (void)state;
  init(&t);
  assert_true(qp__tree_find(&t, &none, true, &slot)); /* makes a small table */
  assert_int_equal(slot, QP__NO_SLOT);
  for (uint32_t i = 0; i < N; i++) {
    struct qp__entry e = entry_of(i, i ? i - 1 : QP__NO_SLOT);

    assert_true(qp__tree_reserve(&t, 1));
    assert_int_equal(qp__tree_add(&t, &e), i);
    expect_found(&t, i, true, i);
    expect_found(&t, i / 2, true, i / 2);
    expect_found(&t, i + 1, true, QP__NO_SLOT);
  }
  for (uint32_t i = 0; i < N; i++)
    expect_found(&t, i, true, i);
  qp__tree_release(&t);
}

static void
test_the_first_lookup_makes_the_table(void **state)
{
  struct qp__tree t;

  (void)state;
  init(&t);
  grow(&t, 2000, 3);
  assert_null(atomic_load(&t.ids));
  for (uint32_t i = 0; i < 2000; i++)
    expect_found(&t, i, false, i);
  expect_found(&t, 2000, false, QP__NO_SLOT);
  qp__tree_release(&t);
}

static void
test_readers_find_only_what_is_published(void **state)
{
  struct qp__tree t;

  (void)state;
  init(&t);
  for (uint32_t i = 0; i < 10; i++)
    load(&t, i ? i - 1 : QP__NO_SLOT);
  expect_found(&t, 3, false, QP__NO_SLOT);
  expect_found(&t, 3, true, 3);
  qp__tree_publish(&t, 4, 10);
  expect_found(&t, 3, false, 3);
  expect_found(&t, 4, false, QP__NO_SLOT);
  assert_int_equal(atomic_load(&t.bytes), 10);
  qp__tree_publish(&t, 10, 55);
  expect_found(&t, 9, false, 9);
  qp__tree_release(&t);
}

/* ---- directories ---- */

static void
test_directories_are_numbered_once(void **state)
{
  struct qp__tree t;
  char name[32];
  uint16_t number;

  (void)state;
  init(&t);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 300; i++) {
      int n = snprintf(name, sizeof(name), "branch-%d and more", i);

      /* A part of a text, as the index has it. */
      assert_int_equal(qp__tree_dir(&t, name, (size_t)n - 9, &number), 0);
      assert_int_equal(number, i);
    }
  }
  for (int i = 0; i < 300; i++) {
    (void)snprintf(name, sizeof(name), "branch-%d", i);
    assert_string_equal(qp__tree_dir_name(&t, (uint16_t)i), name);
  }
  qp__tree_release(&t);
}

/* ---- the whole ---- */

static void
test_a_tree_moves_with_all_it_has(void **state)
{
  struct qp__tree from;
  struct qp__tree to;
  uint16_t dir;

  (void)state;
  init(&from);
  init(&to);
  grow(&from, 1000, 5);
  assert_int_equal(qp__tree_dir(&from, "branch-main", 11, &dir), 0);
  expect_found(&from, 999, false, 999);
  qp__tree_move(&to, &from);
  assert_int_equal(to.count, 1000);
  assert_int_equal(from.count, 0);
  expect_found(&to, 999, false, 999);
  assert_string_equal(qp__tree_dir_name(&to, dir), "branch-main");
  assert_int_equal(qp__tree_ancestor(&to, 700, 0), walk(&to, 700, 0));
  expect_found(&from, 0, true, QP__NO_SLOT); /* empty, and of use again */
  load(&from, QP__NO_SLOT);
  expect_found(&from, 0, true, 0);
  qp__tree_release(&from);
  qp__tree_release(&to);
}

static void
test_without_memory_nothing_is_added_and_nothing_breaks(void **state)
{
  struct qp__tree t;
  bool fired = true;
  uint32_t added = 0;

  (void)state;
  init(&t);
  for (long n = 1; fired; n++) {
    struct qp__entry e = entry_of(added, QP__NO_SLOT);
    struct qp_uuid id = id_of(added);
    uint32_t slot = 0;
    uint16_t dir;
    bool reserved;

    alloc_fault_arm(n % 7 + 1);
    reserved = qp__tree_reserve(&t, 1);
    if (reserved) {
      (void)qp__tree_add(&t, &e);
      added++;
      if (qp__tree_find(&t, &id, true, &slot))
        assert_int_equal(slot, added - 1);
    }
    (void)qp__tree_dir(&t, "branch-x", 8, &dir);
    fired = n < 3000;
    alloc_fault_disarm();
  }
  assert_int_equal(t.count, added);
  for (uint32_t i = 0; i < added; i++)
    expect_found(&t, i, true, i);
  qp__tree_release(&t);
}

/* ---- threads ---- */

struct shared {
  struct qp__tree tree;
  atomic_bool ended;
  atomic_int wrong;
};

static void *
read_tree(void *arg)
{
  struct shared *s = arg;
  uint64_t dice = 11;

  while (!atomic_load(&s->ended)) {
    uint32_t visible = atomic_load_explicit(&s->tree.visible, memory_order_acquire);
    struct qp_uuid id;
    uint32_t slot;
    uint32_t found = 0;

    if (!visible)
      continue;
    slot = next_random(&dice) % visible;
    id = id_of(slot);
    if (!qp__tree_find(&s->tree, &id, false, &found) || found != slot ||
        qp__tree_ancestor(&s->tree, slot, slot / 2) != slot / 2)
      atomic_fetch_add(&s->wrong, 1);
  }
  return NULL;
}

static void
test_readers_need_no_lock(void **state)
{
  static struct shared s;
  pthread_t readers[2];

  (void)state;
  init(&s.tree);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&readers[i], NULL, read_tree, &s), 0);
  for (uint32_t i = 0; i < 20000; i++) {
    struct qp__entry e = entry_of(i, i ? i - 1 : QP__NO_SLOT);

    assert_true(qp__tree_reserve(&s.tree, 1));
    (void)qp__tree_add(&s.tree, &e);
    qp__tree_publish(&s.tree, i + 1, s.tree.pending_bytes);
  }
  atomic_store(&s.ended, true);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_join(readers[i], NULL), 0);
  assert_int_equal(atomic_load(&s.wrong), 0);
  qp__tree_release(&s.tree);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_an_entry_knows_its_place),
    cmocka_unit_test(test_ancestors_are_those_of_a_naive_walk),
    cmocka_unit_test(test_any_ancestor_is_a_few_steps_away),
    cmocka_unit_test(test_ids_are_found_while_the_table_grows),
    cmocka_unit_test(test_the_first_lookup_makes_the_table),
    cmocka_unit_test(test_readers_find_only_what_is_published),
    cmocka_unit_test(test_directories_are_numbered_once),
    cmocka_unit_test(test_a_tree_moves_with_all_it_has),
    cmocka_unit_test(test_without_memory_nothing_is_added_and_nothing_breaks),
    cmocka_unit_test(test_readers_need_no_lock),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}

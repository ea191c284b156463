/* test_pool.c - src/store/context/message_pool.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "store/context/message_pool.h"

#define COST 96 /* of an item, beside its bytes */

static void
init(struct qp__pool *p, size_t budget)
{
  qp__pool_init(p, budget);
}

/* Puts a blob of `len` bytes whose first ones tell its key. */
static void
put(struct qp__pool *p, uint64_t context, uint32_t slot, size_t len)
{
  struct qp__blob *b = qp__blob_new(len);

  assert_non_null(b);
  memset(b->data, 0, len);
  if (len >= 12) {
    memcpy(b->data, &context, 8);
    memcpy(b->data + 8, &slot, 4);
  }
  qp__pool_put(p, context, slot, b);
  qp__blob_unref(b);
}

static bool
has(struct qp__pool *p, uint64_t context, uint32_t slot)
{
  struct qp__blob *b = qp__pool_get(p, context, slot);
  bool found = b != NULL;

  if (b && b->len >= 12) {
    assert_memory_equal(b->data, &context, 8);
    assert_memory_equal(b->data + 8, &slot, 4);
  }
  qp__blob_unref(b);
  return found;
}

/* Finds n slots of context 1 that share a shard: in a pool where every shard has room for one item,
 * they drive each other out. */
static void
find_neighbours(uint32_t *slots, size_t n)
{
  struct qp__pool p;
  size_t found = 1;

  slots[0] = 0;
  for (uint32_t slot = 1; found < n; slot++) {
    init(&p, (size_t)QP__POOL_SHARDS * (COST + 50));
    put(&p, 1, 0, 40);
    put(&p, 1, slot, 40);
    if (!has(&p, 1, 0))
      slots[found++] = slot;
    qp__pool_release(&p);
  }
}

static void
test_what_was_put_can_be_had(void **state)
{
  struct qp__pool p;

  (void)state;
  init(&p, (size_t)1 << 20);
  assert_false(has(&p, 1, 1));
  put(&p, 1, 1, 100);
  put(&p, 2, 1, 100);
  put(&p, 1, 2, 0);
  assert_true(has(&p, 1, 1));
  assert_true(has(&p, 2, 1));
  assert_true(has(&p, 1, 2));
  assert_false(has(&p, 2, 2));
  assert_int_equal(qp__pool_bytes(&p), 200 + 3 * COST);
  qp__pool_release(&p);
}

static void
test_the_first_of_two_stays(void **state)
{
  struct qp__pool p;
  struct qp__blob *b;

  (void)state;
  init(&p, (size_t)1 << 20);
  put(&p, 1, 1, 100);
  put(&p, 1, 1, 200);
  b = qp__pool_get(&p, 1, 1);
  assert_int_equal(b->len, 100);
  qp__blob_unref(b);
  assert_int_equal(qp__pool_bytes(&p), 100 + COST);
  qp__pool_release(&p);
}

static void
test_a_blob_outlives_its_place(void **state)
{
  struct qp__pool p;
  struct qp__blob *b;

  (void)state;
  init(&p, (size_t)1 << 20);
  put(&p, 1, 1, 12);
  b = qp__pool_get(&p, 1, 1);
  assert_non_null(b);
  assert_int_equal(b->data[b->len], 0);
  qp__pool_release(&p);
  assert_int_equal(b->data[0], 1); /* ours still */
  qp__blob_unref(b);
  qp__blob_unref(NULL);
}

static void
test_the_budget_is_never_exceeded(void **state)
{
  enum { BUDGET = 64 << 10 };
  struct qp__pool p;

  (void)state;
  init(&p, BUDGET);
  for (uint32_t i = 0; i < 5000; i++) {
    put(&p, 1, i, 12 + i % 300);
    assert_true(qp__pool_bytes(&p) <= BUDGET);
  }
  assert_true(qp__pool_bytes(&p) > BUDGET / 2);
  assert_true(has(&p, 1, 4999));
  assert_false(has(&p, 1, 0));
  qp__pool_release(&p);
}

static void
test_what_is_larger_than_its_share_is_not_kept(void **state)
{
  struct qp__pool p;

  (void)state;
  init(&p, (size_t)QP__POOL_SHARDS * 1000);
  put(&p, 1, 1, 1000 - COST);
  put(&p, 1, 2, 1000 - COST + 1);
  assert_true(has(&p, 1, 1));
  assert_false(has(&p, 1, 2));
  qp__pool_release(&p);
  init(&p, 0);
  put(&p, 1, 1, 0);
  assert_false(has(&p, 1, 1));
  qp__pool_release(&p);
}

static void
test_what_was_not_used_for_longest_goes_first(void **state)
{
  uint32_t s[5];
  struct qp__pool p;

  (void)state;
  find_neighbours(s, 5);
  init(&p, (size_t)QP__POOL_SHARDS * 3 * (COST + 100)); /* three to a shard */
  put(&p, 1, s[0], 100);
  put(&p, 1, s[1], 100);
  put(&p, 1, s[2], 100);
  assert_true(has(&p, 1, s[0])); /* used: the oldest is s[1] now */
  put(&p, 1, s[3], 100);
  assert_false(has(&p, 1, s[1]));
  assert_true(has(&p, 1, s[2]));
  assert_true(has(&p, 1, s[0]));
  put(&p, 1, s[4], 100);
  assert_false(has(&p, 1, s[3]));
  assert_true(has(&p, 1, s[4]));
  put(&p, 1, s[1], 3 * 100 + 2 * COST); /* as large as all three */
  assert_true(has(&p, 1, s[1]));
  assert_false(has(&p, 1, s[0]) || has(&p, 1, s[2]) || has(&p, 1, s[4]));
  qp__pool_release(&p);
}

static void
test_many_items_are_found(void **state)
{
  struct qp__pool p;

  (void)state;
  init(&p, (size_t)64 << 20);
  for (uint32_t i = 0; i < 30000; i++)
    put(&p, i % 7, i, 12);
  for (uint32_t i = 0; i < 30000; i++)
    assert_true(has(&p, i % 7, i));
  assert_false(has(&p, 1, 0));
  assert_int_equal(qp__pool_bytes(&p), 30000 * (12 + COST));
  qp__pool_release(&p);
}

static void
test_without_memory_nothing_is_kept(void **state)
{
  struct qp__pool p;
  uint32_t kept = 0;

  (void)state;
  init(&p, (size_t)1 << 20);
  for (uint32_t i = 0; i < 500; i++) {
    struct qp__blob *b = qp__blob_new(12);
    bool failed;

    assert_non_null(b);
    memcpy(b->data, &(uint64_t){ 1 }, 8);
    memcpy(b->data + 8, &i, 4);
    alloc_fault_arm(i % 3 + 1);
    qp__pool_put(&p, 1, i, b);
    failed = alloc_fault_fired();
    alloc_fault_disarm();
    qp__blob_unref(b);
    assert_true(failed || has(&p, 1, i));
    kept += has(&p, 1, i);
  }
  assert_int_equal(qp__pool_bytes(&p), kept * (12 + COST));
  assert_true(kept > 100 && kept < 500);
  alloc_fault_arm(1);
  assert_null(qp__blob_new(1));
  alloc_fault_disarm();
  qp__pool_release(&p);
}

/* ---- threads ---- */

struct shared {
  struct qp__pool pool;
  atomic_uint number;
  atomic_int wrong;
};

static void *
use_pool(void *arg)
{
  struct shared *s = arg;
  uint32_t x = atomic_fetch_add(&s->number, 1) * 7919;

  for (int i = 0; i < 5000; i++) {
    struct qp__blob *b;
    uint32_t slot;

    x = x * 1664525 + 1013904223;
    slot = x >> 24;
    b = qp__pool_get(&s->pool, 1, slot);
    if (b) {
      if (memcmp(b->data, &slot, 4) != 0)
        atomic_fetch_add(&s->wrong, 1);
    } else {
      b = qp__blob_new(64);
      if (!b)
        break;
      memcpy(b->data, &slot, 4);
      qp__pool_put(&s->pool, 1, slot, b);
    }
    qp__blob_unref(b);
  }
  return NULL;
}

static void
test_threads_share_it(void **state)
{
  static struct shared s;
  pthread_t threads[4];

  (void)state;
  init(&s.pool, (size_t)100 * (64 + COST));
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, use_pool, &s), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(atomic_load(&s.wrong), 0);
  assert_true(qp__pool_bytes(&s.pool) <= (size_t)100 * (64 + COST));
  qp__pool_release(&s.pool);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_was_put_can_be_had),
    cmocka_unit_test(test_the_first_of_two_stays),
    cmocka_unit_test(test_a_blob_outlives_its_place),
    cmocka_unit_test(test_the_budget_is_never_exceeded),
    cmocka_unit_test(test_what_is_larger_than_its_share_is_not_kept),
    cmocka_unit_test(test_what_was_not_used_for_longest_goes_first),
    cmocka_unit_test(test_many_items_are_found),
    cmocka_unit_test(test_without_memory_nothing_is_kept),
    cmocka_unit_test(test_threads_share_it),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}

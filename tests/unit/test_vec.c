/* test_vec.c - growing arrays, compared with an array that is always large enough. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/alloc.h"
#include "base/vec.h"

#define STEPS 20000
#define MOST 4096

/* Of a size that divides no power of two. */
struct item {
  char text[37];
};

struct items {
  struct item *list;
  size_t count, cap;
};

static uint64_t
next_random(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static struct item
make_item(uint64_t n)
{
  struct item item;

  memset(&item, (int)(n & 0xff), sizeof(item));
  memcpy(item.text, &n, sizeof(n));
  return item;
}

static void
test_elements_stay_what_they_were_also_when_memory_is_out(void **state)
{
  struct item *model = qp__alloc0(MOST, sizeof(*model));
  struct items v = { NULL, 0, 0 };
  uint64_t random = 7;
  size_t failures = 0;
  size_t drops = 0;

  (void)state;
  assert_non_null(model);
  for (int i = 0; i < STEPS; i++) {
    uint64_t dice = next_random(&random) % 16;
    size_t more = 1 + next_random(&random) % 8;
    size_t before = v.cap;
    bool fails;

    if (v.count + more > MOST || dice == 0) { /* shorter, sometimes from the beginning again */
      v.count = next_random(&random) % (v.count + 1);
      if (more == 1) {
        qp__free(v.list);
        v = (struct items){ NULL, 0, 0 };
        drops++;
      }
      continue;
    }
    if (dice < 4)
      alloc_fault_arm(1);
    if (dice % 2) {
      struct item item = make_item(next_random(&random));
      bool ok = qp__vec_push(v.list, v.count, v.cap, item);

      if (ok)
        model[v.count - 1] = item;
      fails = !ok;
    } else {
      bool ok = qp__vec_reserve(v.list, v.count, v.cap, more);

      fails = !ok;
      for (size_t k = 0; ok && k < more; k++) {
        model[v.count] = make_item(next_random(&random));
        v.list[v.count] = model[v.count];
        v.count++;
      }
    }
    assert_int_equal(fails, dice < 4 && alloc_fault_fired());
    alloc_fault_disarm();
    if (fails)
      assert_int_equal(v.cap, before);
    failures += fails;
    assert_true(v.count <= v.cap);
    if (v.count)
      assert_memory_equal(v.list, model, v.count * sizeof(*model));
  }
  assert_true(failures > 10 && drops > 2);
  qp__free(v.list);
  qp__free(model);
}

static void
test_room_is_doubled_so_that_appending_costs_little(void **state)
{
  size_t count = 0;
  size_t cap = 0;
  size_t moves = 0;
  int *list = NULL;

  (void)state;
  for (int i = 0; i < 1000000; i++) {
    size_t before = cap;

    assert_true(qp__vec_push(list, count, cap, i));
    moves += cap != before;
  }
  assert_true(moves < 20);
  for (int i = 0; i < 1000000; i++)
    assert_int_equal(list[i], i);
  qp__free(list);
}

static void
test_one_large_element_takes_no_more_room_than_it_needs(void **state)
{
  struct {
    char bytes[100];
  } *list = NULL;
  size_t count = 0;
  size_t cap = 0;

  (void)state;
  assert_true(qp__vec_reserve(list, count, cap, 1));
  assert_int_equal(cap, 1);
  qp__free(list);
}

static void
test_a_size_that_overflows_is_no_memory(void **state)
{
  uint64_t *list = NULL;
  size_t count = 0;
  size_t cap = 0;

  (void)state;
  assert_false(qp__vec_reserve(list, count, cap, SIZE_MAX));
  assert_false(qp__vec_reserve(list, count, cap, SIZE_MAX / sizeof(*list) + 2));
  assert_false(qp__vec_reserve(list, count, cap, SIZE_MAX / 2));
  assert_null(list);
  assert_int_equal(cap, 0);
  assert_true(qp__vec_push(list, count, cap, 5));
  assert_false(qp__vec_reserve(list, count, cap, SIZE_MAX));
  assert_false(qp__vec_reserve(list, count, cap, SIZE_MAX / sizeof(*list)));
  assert_int_equal(list[0], 5);
  qp__free(list);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_elements_stay_what_they_were_also_when_memory_is_out),
    cmocka_unit_test(test_room_is_doubled_so_that_appending_costs_little),
    cmocka_unit_test(test_one_large_element_takes_no_more_room_than_it_needs),
    cmocka_unit_test(test_a_size_that_overflows_is_no_memory),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

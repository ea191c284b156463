/* test_idset.c - sets of ids, compared with a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/idset.h"

#define STEPS 20000
#define IDS 3000

static uint64_t
next_random(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* Ids that differ in one place only: whoever looked at other bytes would find them all equal. */
static struct qp_uuid
make_id(uint64_t n, size_t place)
{
  struct qp_uuid id = { { 0 } };

  n++;
  memcpy(id.b + place, &n, 4);
  return id;
}

static void
test_a_set_has_what_was_added_also_when_memory_was_out(void **state)
{
  (void)state;
  for (size_t place = 0; place <= 12; place += 4) {
    struct qp__idset set = { 0 };
    static bool model[IDS];
    uint64_t random = 7 + place;
    size_t failures = 0;
    size_t members = 0;

    memset(model, 0, sizeof(model));
    for (int i = 0; i < STEPS; i++) {
      size_t n = next_random(&random) % IDS;
      struct qp_uuid id = make_id(n, place);
      bool fails = next_random(&random) % 4 != 0;

      assert_int_equal(qp__idset_has(&set, &id), model[n]);
      if (fails)
        alloc_fault_arm(1);
      if (qp__idset_add(&set, &id)) {
        members += !model[n];
        model[n] = true;
      } else {
        failures++;
      }
      alloc_fault_disarm();
      assert_int_equal(set.count, members);
      assert_int_equal(qp__idset_has(&set, &id), model[n]);
    }
    for (size_t n = 0; n < IDS; n++) {
      struct qp_uuid id = make_id(n, place);

      assert_int_equal(qp__idset_has(&set, &id), model[n]);
    }
    assert_true(failures > 0 && members > IDS / 2);
    qp__idset_release(&set);
    assert_int_equal(set.count, 0);
  }
}

static void
test_members_are_numbered_in_the_order_of_their_addition(void **state)
{
  struct qp_uuid none = { { 0 } };
  struct qp__idset set = { 0 };

  (void)state;
  assert_int_equal(qp__idset_find(&set, &none), QP__NO_MEMBER);
  for (uint64_t n = 0; n < 2 * IDS; n++) {
    struct qp_uuid id = make_id(n % IDS, 0);

    assert_true(qp__idset_add(&set, &id));
  }
  assert_int_equal(qp__idset_find(&set, &none), QP__NO_MEMBER);
  assert_true(qp__idset_add(&set, &none)); /* an id like any other */
  assert_int_equal(qp__idset_find(&set, &none), IDS);
  assert_int_equal(set.count, IDS + 1);
  for (uint32_t n = 0; n < IDS; n++) {
    struct qp_uuid id = make_id(n, 0);

    assert_int_equal(qp__idset_find(&set, &id), n);
    assert_true(qp_uuid_equal(&set.ids[n], &id));
  }
  qp__idset_invariants(&set);
  qp__idset_release(&set);
}

static void
test_texts_are_told_apart(void **state)
{
  struct qp__idset set = { 0 };
  struct qp_uuid a = qp__idset_text("toolu_1", 7);
  struct qp_uuid again = qp__idset_text("toolu_1 and more", 7);
  struct qp_uuid b = qp__idset_text("toolu_2", 7);

  (void)state;
  assert_true(qp__idset_add(&set, &a));
  assert_true(qp__idset_has(&set, &again));
  assert_false(qp__idset_has(&set, &b));
  qp__idset_release(&set);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_set_has_what_was_added_also_when_memory_was_out),
    cmocka_unit_test(test_members_are_numbered_in_the_order_of_their_addition),
    cmocka_unit_test(test_texts_are_told_apart),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

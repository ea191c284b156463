/* test_walls.c - the checks of base/assert.h and base/mutex.h detect what they are meant to
 * detect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/mutex.h"
#include "lib/dies.h"

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
  assert_true(qp__mutex_trylock(&one));
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

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_failed_check_names_its_place_and_condition),
    cmocka_unit_test(an_ensured_condition_is_an_answer_in_a_release),
    cmocka_unit_test(a_small_structure_is_always_walked_and_a_large_one_now_and_then),
    cmocka_unit_test(a_mutex_knows_who_has_it_locked),
    cmocka_unit_test(a_wait_gives_the_mutex_up_and_takes_it_again),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}

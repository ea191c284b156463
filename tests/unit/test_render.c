/* test_render.c - when a rendered state may be shown again: at most one rendering in 100 ms while a
 * context changes quickly, and the result of a finished action is shown at once. Uses its own clock
 * and random events, and checks both rules after each event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/open_contexts.h"

#define EVENTS 200000

/* A context that changes, and the one who polls it. */
struct scene {
  uint64_t version, settled, epoch;
  int64_t now;
  struct qp__render render;
  bool rendered;
};

static bool
is_fresh(const struct scene *s)
{
  return s->rendered && qp__render_fresh(&s->render, s->settled, s->version, s->epoch, s->now);
}

static void
render(struct scene *s)
{
  s->render.version = s->version;
  s->render.epoch = s->epoch;
  s->render.made_us = s->now;
  s->rendered = true;
}

static uint32_t
next(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static void
what_is_shown_again(void **state)
{
  struct scene s = { .version = 5, .settled = 5, .now = 1000 };

  (void)state;
  assert_false(is_fresh(&s));
  render(&s);
  s.now += (int64_t)3600 * 1000000;
  assert_true(is_fresh(&s)); /* nothing has changed */
  render(&s);
  s.version++;
  assert_true(is_fresh(&s)); /* under way */
  s.now += QP__RENDER_US - 1;
  assert_true(is_fresh(&s));
  s.now++;
  assert_false(is_fresh(&s)); /* long enough */
  render(&s);
  s.version++;
  s.settled = s.version;
  assert_false(is_fresh(&s)); /* complete: at once */
  render(&s);
  s.epoch++;
  assert_false(is_fresh(&s)); /* something that concerns all contexts */
}

static void
laws_hold_in_any_order(void **state)
{
  struct scene s = { .version = 1, .now = 1000000 };
  uint64_t seed = 42;
  uint64_t renders = 0;
  uint64_t reasons = 1; /* finished actions and changed epochs: each is worth a rendering */

  (void)state;
  for (int i = 0; i < EVENTS; i++) {
    switch (next(&seed) % 8) {
    case 0:
    case 1:
      s.version++;
      break;
    case 2:
      if (next(&seed) % 16 == 0 && s.settled < s.version) {
        s.settled = s.version;
        reasons++;
      }
      break;
    case 3:
      if (next(&seed) % 64 == 0) {
        s.epoch++;
        reasons++;
      }
      break;
    case 4:
      s.now += next(&seed) % 5000;
      break;
    default:
      if (!is_fresh(&s)) {
        render(&s);
        renders++;
      }
      /* Whoever polls sees everything that was finished before. */
      assert_true(s.render.version >= s.settled);
      assert_true(s.render.epoch == s.epoch);
    }
  }
  assert_true(renders <= reasons + (uint64_t)(s.now - 1000000) / QP__RENDER_US);
  assert_true(renders > reasons / 2);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_shown_again),
    cmocka_unit_test(laws_hold_in_any_order),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}

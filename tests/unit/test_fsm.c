/* test_fsm.c - src/turn/fsm.c: laws that hold for the whole table. Its cells one by one are in
 * docs/turns.md, which e2e/debug.test.mjs compares with what `quipu debug fsm` prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "turn/fsm.h"

#define EACH_STATE(s) (enum qp_state s = 0; (int)(s) < QP__STATES; (s)++)
#define EACH_EVENT(e) (enum qp__turn_event e = 0; (e) < QP__EVENTS; (e)++)

/* The states that can be reached from `from`, by events other than those in `without`. */
static void
reach(enum qp_state from, const bool *without, bool seen[QP__STATES])
{
  seen[from] = true;
  for
    EACH_EVENT(e)
    {
      struct qp__transition cell = qp__fsm_next(from, e);

      if (cell.legal && !without[e] && !seen[cell.to])
        reach(cell.to, without, seen);
    }
}

static void
test_every_state_is_reached_from_idle(void **state)
{
  const bool without[QP__EVENTS] = { [QP__EVENT_RESTART] = true };
  bool seen[QP__STATES] = { false };

  (void)state;
  reach(QP_STATE_IDLE, without, seen);
  for
    EACH_STATE(s)
  assert_true(seen[s]);
}

static void
test_every_turn_can_come_to_rest_without_a_person(void **state)
{
  /* No client does anything, nothing fails and no timer is needed but the one of a retry. */
  const bool without[QP__EVENTS] = {
    [QP__EVENT_SEND] = true,        [QP__EVENT_RETRY] = true,   [QP__EVENT_CANCEL] = true,
    [QP__EVENT_SAVE_FAILED] = true, [QP__EVENT_RESTART] = true,
  };

  (void)state;
  for
    EACH_STATE(s)
    {
      bool seen[QP__STATES] = { false };

      if (!qp__fsm_is_busy(s))
        continue;
      reach(s, without, seen);
      assert_true(seen[QP_STATE_IDLE]);
    }
}

static void
test_whatever_is_busy_can_be_cancelled_and_is_idle_then(void **state)
{
  (void)state;
  for
    EACH_STATE(s)
    {
      struct qp__transition cell = qp__fsm_next(s, QP__EVENT_CANCEL);

      assert_int_equal(cell.legal, s != QP_STATE_IDLE);
      if (cell.legal)
        assert_int_equal(cell.to, QP_STATE_IDLE);
    }
}

static void
test_a_failed_save_fails_the_context_in_every_state(void **state)
{
  (void)state;
  for
    EACH_STATE(s)
    {
      struct qp__transition cell = qp__fsm_next(s, QP__EVENT_SAVE_FAILED);

      assert_true(cell.legal);
      assert_int_equal(cell.to, QP_STATE_FAILED);
      assert_int_equal(cell.step, QP__STEP_STOP);
    }
}

static void
test_a_restart_leaves_states_from_which_one_can_go_on(void **state)
{
  (void)state;
  for
    EACH_STATE(s)
    {
      struct qp__transition cell = qp__fsm_next(s, QP__EVENT_RESTART);

      assert_true(cell.legal);
      assert_true(cell.to == QP_STATE_AWAITING_TOOL_APPROVAL || !qp__fsm_is_busy(cell.to));
      /* Nothing is called or run by itself. */
      assert_true(cell.step == QP__STEP_NONE || cell.step == QP__STEP_SAVE_PARTIAL ||
                  cell.step == QP__STEP_CLOSE_CALLS);
      /* A second restart, in the middle of the first, does the same again. */
      assert_true(qp__fsm_next(cell.to, QP__EVENT_RESTART).to == cell.to);
    }
}

static void
test_tools_run_only_when_they_were_decided(void **state)
{
  (void)state;
  for
    EACH_STATE(s)
    for
      EACH_EVENT(e)
      {
        struct qp__transition cell = qp__fsm_next(s, e);

        if (!cell.legal || cell.to != QP_STATE_EXECUTING_TOOLS)
          continue;
        assert_int_equal(cell.step, QP__STEP_RUN_TOOLS);
        assert_true((s == QP_STATE_PROCESSING_LLM_RESPONSE && e == QP__EVENT_CALLS_FREE) ||
                    (s == QP_STATE_AWAITING_TOOL_APPROVAL && e == QP__EVENT_APPROVE));
      }
}

static void
test_the_model_is_called_only_in_the_states_that_wait_for_it(void **state)
{
  (void)state;
  for
    EACH_STATE(s)
    for
      EACH_EVENT(e)
      {
        struct qp__transition cell = qp__fsm_next(s, e);
        bool waits =
            cell.to == QP_STATE_AWAITING_LLM_RESPONSE || cell.to == QP_STATE_GENERATING_RESPONSE;

        if (cell.legal)
          assert_int_equal(waits, cell.step == QP__STEP_CALL_MODEL);
      }
}

static void
test_a_message_is_taken_in_idle_and_failed_only(void **state)
{
  (void)state;
  for
    EACH_STATE(s)
  assert_int_equal(qp__fsm_is_busy(s), s != QP_STATE_IDLE && s != QP_STATE_FAILED);
}

static void
test_names_are_told(void **state)
{
  (void)state;
  assert_string_equal(qp__event_name(QP__EVENT_ANSWER_BEGAN), "ANSWER_BEGAN");
  for
    EACH_EVENT(e)
  assert_true(strlen(qp__event_text(e)) > 0);
  for (enum qp__step a = 0; a < QP__STEPS; a++)
    assert_true(strlen(qp__step_text(a)) > 0);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_state_is_reached_from_idle),
    cmocka_unit_test(test_every_turn_can_come_to_rest_without_a_person),
    cmocka_unit_test(test_whatever_is_busy_can_be_cancelled_and_is_idle_then),
    cmocka_unit_test(test_a_failed_save_fails_the_context_in_every_state),
    cmocka_unit_test(test_a_restart_leaves_states_from_which_one_can_go_on),
    cmocka_unit_test(test_tools_run_only_when_they_were_decided),
    cmocka_unit_test(test_the_model_is_called_only_in_the_states_that_wait_for_it),
    cmocka_unit_test(test_a_message_is_taken_in_idle_and_failed_only),
    cmocka_unit_test(test_names_are_told),
  };

  return cmocka_run_group_tests_name("fsm", tests, NULL, NULL);
}

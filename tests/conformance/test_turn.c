/* test_turn.c - turns: what spec 003 and the tool parts of spec 004 ask of the engine. */
#include "turn_rig.h"

#define ANSWER(text) "{\"interval_ms\":0,\"steps\":[{\"play\":[{\"text\":\"" text "\"}]}]}"

/* Send message action; User message persisted automatically; Assistant message persisted. */
static void
test_a_message_is_answered_and_all_of_it_is_stored(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  struct qp_context *c;
  struct qp_message_info info;

  turn_rig_init(&rig, *state, ANSWER("I am well, thank you."));
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  answer = turn_send(&rig, "how are you?");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(answer.branch, "main");
  c = open_context(*state, &rig.id);
  OK(qp_message_find(c, &answer.message, &info, &failure));
  qp_context_close(c);
  assert_int_equal(info.role, QP_ROLE_USER);
  assert_string_equal(turn_story(&rig), "user: how are you?\nassistant: I am well, thank you.\n");
  turn_hear(&rig, "\"state\":\"Idle\"");
  assert_string_equal(turn_states(&rig),
                      "ProcessingUserMessage AwaitingLLMResponse StreamingLLMResponse "
                      "ProcessingLLMResponse Idle ");
  assert_string_equal(turn_text(&rig), "I am well, thank you.");
  turn_rig_release(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_message_is_answered_and_all_of_it_is_stored),
  };

  return run_on_all("turn", tests, COUNT(tests));
}

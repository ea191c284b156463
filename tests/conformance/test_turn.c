/* test_turn.c - turns: the requirements of spec 003 and of the tool parts of spec 004 for the
 * engine. */
#include <stdio.h>

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

/* ---- tools ---- */

#define CALL(tool, id, arguments) \
  "{\"call\":\"" tool "\",\"id\":\"" id "\",\"arguments\":" arguments "}"
#define STEP(play) "{\"play\":[" play "]}"
#define SCRIPT(steps) "{\"interval_ms\":0,\"steps\":[" steps "]}"
#define TEXT(text) "{\"text\":\"" text "\"}"

#define READ_NOTES CALL("read_file", "c1", "{\"path\":\"notes.txt\"}")
#define WRITE(id, path) CALL("write_file", id, "{\"path\":\"" path "\",\"content\":\"new\"}")

static bool
workspace_has(struct turn_rig *rig, const char *name)
{
  return file_exists(pathf("%s/%s", rig->workspace, name));
}

/* Tool call results persisted automatically. */
static void
test_a_tool_that_only_reads_runs_and_the_model_goes_on(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, SCRIPT(STEP(TEXT("I look.") "," READ_NOTES) "," STEP(TEXT("Milk."))));
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  answer = turn_send(&rig, "what must I remember?");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_non_null(strstr(turn_story(&rig), "user: what must I remember?\n"
                                           "assistant: I look. [read_file c1 Approved]\n"
                                           "tool: c1 "));
  assert_non_null(strstr(turn_story(&rig), "remember the milk"));
  assert_non_null(strstr(turn_story(&rig), "\nassistant: Milk.\n"));
  turn_hear(&rig, "\"state\":\"Idle\"");
  assert_string_equal(turn_states(&rig),
                      "ProcessingUserMessage AwaitingLLMResponse StreamingLLMResponse "
                      "ProcessingLLMResponse ExecutingTools ProcessingToolResults "
                      "GeneratingResponse StreamingLLMResponse ProcessingLLMResponse Idle ");
  turn_hear(&rig, "\"type\":\"tool_start\"");
  turn_hear(&rig, "\"type\":\"tool_end\"");
  turn_rig_release(&rig);
}

/* Approve tools action; Tool approval workflow. */
static void
test_a_tool_that_changes_waits_for_a_person(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, SCRIPT(STEP(WRITE("w1", "a.txt")) "," STEP(TEXT("Written."))));
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  answer = turn_send(&rig, "write it");
  assert_string_equal(answer.state, "AwaitingToolApproval");
  assert_false(workspace_has(&rig, "a.txt"));
  assert_string_equal(turn_stored_state(&rig), "AwaitingToolApproval");
  assert_string_equal(turn_story(&rig), "user: write it\nassistant: [write_file w1 Pending]\n");
  answer = turn_approve(&rig, "w1", NULL);
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_true(workspace_has(&rig, "a.txt"));
  assert_non_null(strstr(turn_story(&rig), "tool: w1 "));
  assert_non_null(strstr(turn_story(&rig), "assistant: Written.\n"));
  turn_rig_release(&rig);
}

static void
test_a_denied_call_tells_the_model_why(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, SCRIPT(STEP(WRITE("w1", "a.txt")) "," STEP(TEXT("As you like."))));
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  (void)turn_send(&rig, "write it");
  answer = turn_approve(&rig, NULL, "w1");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_false(workspace_has(&rig, "a.txt"));
  assert_string_equal(turn_story(&rig), "user: write it\nassistant: [write_file w1 Pending]\n"
                                        "tool! w1 \"a person has refused this call: not today\"\n"
                                        "assistant: As you like.\n");
  turn_rig_release(&rig);
}

static void
test_calls_can_be_decided_one_by_one_also_after_a_restart(void **state)
{
  struct fixture *f = *state;
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, f,
                SCRIPT(STEP(WRITE("w1", "a.txt") "," WRITE("w2", "b.txt") "," READ_NOTES) "," STEP(
                    TEXT("Done."))));
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  (void)turn_send(&rig, "write both");
  answer = turn_approve(&rig, "w2", NULL);
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "AwaitingToolApproval");
  assert_false(workspace_has(&rig, "b.txt"));
  if (f->driver->durable) {
    turn_rig_stop(&rig);
    rig.options.demo_script = ANSWER("Done.");
    reload(f);
    turn_rig_start(&rig);
    assert_string_equal(turn_stored_state(&rig), "AwaitingToolApproval");
  }
  answer = turn_approve(&rig, "w2", NULL);
  assert_int_equal(answer.rc, QP_INVALID);
  answer = turn_approve(&rig, NULL, "w1");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_false(workspace_has(&rig, "a.txt"));
  assert_true(workspace_has(&rig, "b.txt"));
  assert_non_null(strstr(turn_story(&rig), "tool! w1 \"a person has refused"));
  assert_non_null(strstr(turn_story(&rig), "tool: w2 "));
  assert_non_null(strstr(turn_story(&rig), "tool: c1 "));
  assert_non_null(strstr(turn_story(&rig), "assistant: Done.\n"));
  turn_rig_release(&rig);
}

static void
test_a_policy_can_refuse_without_asking(void **state)
{
  static const char *const lines[] = { "deny write_file" };
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, SCRIPT(STEP(WRITE("w1", "a.txt")) "," STEP(TEXT("I see."))));
  turn_rig_workspace(&rig);
  rig.options.policy = lines;
  rig.options.policy_count = 1;
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  answer = turn_send(&rig, "write it");
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_story(&rig),
                      "user: write it\nassistant: [write_file w1 Denied]\n"
                      "tool! w1 \"the policy does not allow this call\"\nassistant: I see.\n");
  assert_null(strstr(turn_states(&rig), "ExecutingTools"));
  turn_rig_release(&rig);
}

static void
test_a_call_of_an_unknown_tool_is_an_error_for_the_model(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, SCRIPT(STEP(CALL("fly", "f1", "{}")) "," STEP(TEXT("I cannot."))));
  turn_rig_start(&rig);
  answer = turn_send(&rig, "fly");
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_story(&rig), "user: fly\nassistant: [fly f1 Approved]\n"
                                        "tool! f1 \"there is no tool 'fly'\"\n"
                                        "assistant: I cannot.\n");
  turn_rig_release(&rig);
}

/* Two clients approve at once: the tool runs exactly once. */
static void
test_two_approvals_at_once_run_a_tool_once(void **state)
{
  const char *id = "r1";
  struct qp_action approve = {
    .kind = QP_ACTION_APPROVE_TOOLS, .wait = true, .approved = &id, .approved_count = 1
  };
  struct turn_rig rig;
  struct turn_answer first;
  struct turn_answer second;
  size_t len;
  char *log;

  turn_rig_init(
      &rig, *state,
      SCRIPT(STEP(CALL("run_command", "r1", "{\"command\":\"echo once >> log.txt\"}")) "," STEP(
          TEXT("Done."))));
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "run it").state, "AwaitingToolApproval");
  turn_begin(&rig, &approve, &first);
  turn_begin(&rig, &approve, &second);
  turn_wait(&first);
  turn_wait(&second);
  assert_int_equal(first.rc, QP_OK);
  assert_int_equal(second.rc, QP_INVALID);
  assert_string_equal(second.msg, "No pending tool approvals");
  log = read_file(pathf("%s/log.txt", rig.workspace), &len);
  assert_string_equal(log, "once\n");
  free(log);
  turn_rig_release(&rig);
}

/* ---- wrong states ---- */

/* Invalid action on wrong state. */
static void
test_an_action_that_the_state_does_not_allow_changes_nothing(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  struct qp_context *c;
  uint64_t version;

  turn_rig_init(&rig, *state, SCRIPT(STEP(WRITE("w1", "a.txt")) "," STEP(TEXT("Done."))));
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  c = open_context(*state, &rig.id);
  version = qp_context_version(c);
  answer = turn_approve(&rig, "w1", NULL);
  assert_int_equal(answer.rc, QP_INVALID);
  assert_string_equal(answer.msg, "No pending tool approvals");
  assert_string_equal(answer.state, "Idle");
  answer = turn_do(&rig, QP_ACTION_CANCEL);
  assert_int_equal(answer.rc, QP_CONFLICT);
  assert_non_null(strstr(answer.msg, "Idle"));
  answer = turn_do(&rig, QP_ACTION_RETRY);
  assert_int_equal(answer.rc, QP_INVALID);
  assert_int_equal(qp_context_version(c), version);
  (void)turn_send(&rig, "write it");
  version = qp_context_version(c);
  answer = turn_send(&rig, "and more");
  assert_int_equal(answer.rc, QP_CONFLICT);
  assert_non_null(strstr(answer.msg, "AwaitingToolApproval"));
  answer = turn_approve(&rig, "w2", NULL);
  assert_int_equal(answer.rc, QP_INVALID);
  assert_int_equal(turn_do(&rig, QP_ACTION_REGENERATE).rc, QP_CONFLICT);
  assert_int_equal(qp_context_version(c), version);
  qp_context_close(c);
  turn_rig_release(&rig);
}

static void
test_an_action_on_no_context_finds_nothing(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, NULL);
  turn_rig_start(&rig);
  rig.id.b[3] ^= 1;
  answer = turn_send(&rig, "hello?");
  assert_int_equal(answer.rc, QP_NOTFOUND);
  turn_listen(&rig, 0);
  (void)pthread_mutex_lock(&rig.lock);
  while (!rig.ended)
    (void)pthread_cond_wait(&rig.changed, &rig.lock);
  (void)pthread_mutex_unlock(&rig.lock);
  turn_rig_release(&rig);
}

static void
test_actions_are_checked_before_they_are_taken(void **state)
{
  static const char *const ids[] = { "a" };
  struct turn_rig rig;
  struct qp_action a = { .size = sizeof(a), .kind = QP_ACTION_SEND_MESSAGE };

  turn_rig_init(&rig, *state, NULL);
  turn_rig_start(&rig);
  FAILS(qp_engine_act(rig.engine, &a, NULL, NULL, &failure), QP_INVALID);
  a.text = bytes_of("hi");
  a.key = "";
  FAILS(qp_engine_act(rig.engine, &a, NULL, NULL, &failure), QP_INVALID);
  a = (struct qp_action){ .size = sizeof(a), .kind = QP_ACTION_APPROVE_TOOLS };
  FAILS(qp_engine_act(rig.engine, &a, NULL, NULL, &failure), QP_INVALID);
  a.approved = a.denied = ids;
  a.approved_count = a.denied_count = 1;
  FAILS(qp_engine_act(rig.engine, &a, NULL, NULL, &failure), QP_INVALID);
  a = (struct qp_action){ .size = sizeof(a), .kind = QP_ACTION_SWITCH_BRANCH };
  FAILS(qp_engine_act(rig.engine, &a, NULL, NULL, &failure), QP_INVALID);
  a = (struct qp_action){ .size = sizeof(a),
                          .kind = QP_ACTION_EDIT_MESSAGE,
                          .text = bytes_of("hi") };
  FAILS(qp_engine_act(rig.engine, &a, NULL, NULL, &failure), QP_INVALID);
  turn_rig_release(&rig);
}

/* ---- branches ---- */

static void
test_regenerate_and_edit_make_branches(void **state)
{
  struct turn_rig rig;
  struct turn_answer first;
  struct turn_answer answer;
  struct qp_context *c;

  turn_rig_init(&rig, *state,
                SCRIPT(STEP(TEXT("One.")) "," STEP(TEXT("Two.")) "," STEP(TEXT("Three."))));
  turn_rig_start(&rig);
  first = turn_send(&rig, "a number");
  answer = turn_do(&rig, QP_ACTION_REGENERATE);
  assert_string_equal(answer.msg, "");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.branch, "main-2");
  assert_string_equal(turn_story(&rig), "user: a number\nassistant: Two.\n");
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_EDIT_MESSAGE,
                                              .target = first.message,
                                              .text = bytes_of("a larger number"),
                                              .branch = "larger" });
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.branch, "larger");
  assert_string_equal(turn_story(&rig), "user: a larger number\nassistant: Three.\n");
  c = open_context(*state, &rig.id);
  expect_branches(c, "larger* main main-2");
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_SWITCH_BRANCH, .branch = "main" });
  assert_int_equal(answer.rc, QP_OK);
  expect_branches(c, "larger main* main-2");
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_SWITCH_BRANCH, .branch = "no" });
  assert_int_equal(answer.rc, QP_NOTFOUND);
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_REGENERATE, .branch = "larger" });
  assert_int_equal(answer.rc, QP_EXISTS);
  qp_context_close(c);
  assert_string_equal(turn_story(&rig), "user: a number\nassistant: One.\n");
  assert_string_equal(turn_stored_state(&rig), "Idle");
  turn_rig_release(&rig);
}

/* ---- keys ---- */

static void
test_the_same_key_is_the_same_action_also_after_a_restart(void **state)
{
  struct fixture *f = *state;
  struct qp_action a = {
    .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("only once"), .key = "k-1", .wait = true
  };
  struct turn_rig rig;
  struct turn_answer first;
  struct turn_answer second;
  struct turn_answer again;

  turn_rig_init(&rig, f, ANSWER("Good."));
  turn_rig_start(&rig);
  turn_begin(&rig, &a, &first);
  turn_begin(&rig, &a, &second);
  turn_wait(&first);
  turn_wait(&second);
  assert_int_equal(first.rc, QP_OK);
  assert_int_equal(second.rc, QP_OK);
  assert_true(second.replayed);
  expect_id(&second.message, &first.message);
  if (f->driver->durable) {
    turn_rig_stop(&rig);
    reload(f);
    turn_rig_start(&rig);
  }
  again = turn_act(&rig, a);
  assert_int_equal(again.rc, QP_OK);
  assert_true(again.replayed);
  assert_string_equal(again.branch, "main");
  expect_id(&again.message, &first.message);
  assert_string_equal(turn_story(&rig), "user: only once\nassistant: Good.\n");
  a.text = bytes_of("something else");
  again = turn_act(&rig, a);
  assert_int_equal(again.rc, QP_CONFLICT);
  assert_string_equal(turn_story(&rig), "user: only once\nassistant: Good.\n");
  turn_rig_release(&rig);
}

/* ---- failures ---- */

#define ERROR(status, type) \
  "{\"error\":{\"status\":" status ",\"type\":\"" type "\",\"message\":\"no\"}}"

static void
test_a_passing_failure_is_tried_again(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state,
                SCRIPT(STEP(ERROR("529", "overloaded_error")) "," STEP(
                    ERROR("503", "overloaded")) "," STEP(TEXT("At last."))));
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  answer = turn_send(&rig, "hello");
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_story(&rig), "user: hello\nassistant: At last.\n");
  turn_hear(&rig, "\"state\":\"Idle\"");
  turn_hear(&rig, "\"attempt\":2");
  turn_hear(&rig, "\"retry_at\"");
  turn_rig_release(&rig);
}

static void
test_a_failure_that_stays_ends_the_turn_and_retry_goes_on(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state,
                SCRIPT(STEP(ERROR("529", "overloaded_error")) "," STEP(
                    ERROR("529", "overloaded_error")) "," STEP(TEXT("Here I am."))));
  rig.options.retries = 1;
  turn_rig_start(&rig);
  answer = turn_send(&rig, "hello");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Failed");
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "overloaded");
  assert_string_equal(turn_story(&rig), "user: hello\n");
  answer = turn_do(&rig, QP_ACTION_RETRY);
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_story(&rig), "user: hello\nassistant: Here I am.\n");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "");
  turn_rig_release(&rig);
}

static void
test_a_final_failure_is_not_tried_again(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, SCRIPT(STEP(ERROR("401", "authentication_error"))));
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  answer = turn_send(&rig, "hello");
  assert_string_equal(answer.state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "auth");
  assert_string_equal(turn_detail(&rig, "error", "status"), "401");
  assert_null(strstr(turn_states(&rig), "TransientFailure"));
  turn_rig_release(&rig);
}

static void
test_an_answer_that_breaks_off_is_kept_and_marked(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state,
                SCRIPT(STEP(TEXT("Once upon") ",{\"cut\":true}") "," STEP(TEXT("Once more."))));
  turn_rig_start(&rig);
  answer = turn_send(&rig, "a tale");
  assert_string_equal(answer.state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "cut");
  assert_string_equal(turn_story(&rig), "user: a tale\nassistant! Once upon\n");
  assert_true(strtoll(turn_detail(&rig, "tokens", NULL), NULL, 10) > 0); /* they were used */
  answer = turn_do(&rig, QP_ACTION_RETRY);
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(answer.branch, "main-2");
  assert_string_equal(turn_story(&rig), "user: a tale\nassistant: Once more.\n");
  turn_rig_release(&rig);
}

static void
test_a_history_that_is_too_long_fails_with_a_sentence(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state,
                SCRIPT("{\"play\":[{\"error\":{\"status\":400,\"type\":\"invalid_request_error\","
                       "\"message\":\"prompt is too long: 250000 tokens > 200000 maximum\"}}]}"));
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  answer = turn_send(&rig, "hello");
  assert_string_equal(answer.state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "too_long");
  assert_string_equal(turn_detail(&rig, "error", "message"),
                      "too long for the model: 250000 tokens and 4000 kept free for the answer, "
                      "and the window has 32000 (system prompt 0, tools 0, pinned 0, summary 0, "
                      "messages 5); most of it is one message: send it in parts, or choose a "
                      "model with a larger window");
  turn_hear(&rig, "\"state\":\"Failed\"");
  assert_non_null(strstr(turn_states(&rig), "AwaitingLLMResponse Compacting Failed "));
  turn_rig_release(&rig);
}

static void
test_an_unknown_provider_fails_with_a_sentence(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  struct qp_context *c;

  turn_rig_init(&rig, *state, NULL);
  c = open_context(*state, &rig.id);
  OK(qp_context_update(c, bytes_of("{\"config\":{\"model_id\":\"claude-opus-5-5\"}}"), &failure));
  qp_context_close(c);
  turn_rig_start(&rig);
  answer = turn_send(&rig, "hello");
  assert_string_equal(answer.state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "model");
  assert_string_equal(turn_story(&rig), "user: hello\n");
  turn_rig_release(&rig);
}

/* ---- limits ---- */

static void
test_limits_end_a_turn_with_a_clear_error(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  turn_rig_init(&rig, *state,
                SCRIPT("{\"match\":\"*\",\"play\":[" CALL(
                    "read_file", "c",
                    "{\"path\":\"notes.txt\"}") ",{\"usage\":{\"input\":10,\"output\":5}}]}"));
  turn_rig_workspace(&rig);
  rig.options.limits.rounds = 3;
  turn_rig_start(&rig);
  answer = turn_send(&rig, "go on for ever");
  assert_string_equal(answer.state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "limit");
  assert_non_null(strstr(turn_detail(&rig, "error", "message"), "rounds"));
  turn_rig_stop(&rig);
  rig.options.limits.rounds = 0;
  rig.options.limits.turn_tokens = 40;
  turn_rig_start(&rig);
  answer = turn_send(&rig, "again");
  assert_string_equal(answer.state, "Failed");
  assert_non_null(strstr(turn_detail(&rig, "error", "message"), "tokens of a turn"));
  turn_rig_stop(&rig);
  rig.options.limits.turn_tokens = 0;
  rig.options.limits.context_tokens = 80;
  turn_rig_start(&rig);
  answer = turn_send(&rig, "and again");
  assert_string_equal(answer.state, "Failed");
  assert_non_null(strstr(turn_detail(&rig, "error", "message"), "tokens of the context"));
  turn_rig_release(&rig);
}

/* ---- cancelling ---- */

#define SLOW "{\"delay_ms\":600000}"

/* Sends without waiting for the end, hears `sign`, cancels; the context is Idle. */
static void
cancel_when(struct turn_rig *rig, const char *sign)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("begin"),
                            .wait = true };
  struct turn_answer sent;
  struct turn_answer answer;

  turn_listen(rig, QP_SEQ_NOW);
  turn_begin(rig, &send, &sent);
  turn_hear(rig, sign);
  answer = turn_do(rig, QP_ACTION_CANCEL);
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_stored_state(rig), "Idle");
  turn_wait(&sent);
  assert_int_equal(sent.rc, QP_OK);
}

static void
test_cancel_while_the_model_is_silent(void **state)
{
  struct turn_rig rig;

  turn_rig_init(&rig, *state, SCRIPT(STEP(SLOW)));
  turn_rig_start(&rig);
  cancel_when(&rig, "AwaitingLLMResponse");
  assert_string_equal(turn_story(&rig), "user: begin\n");
  turn_rig_release(&rig);
}

static void
test_cancel_in_the_middle_of_an_answer_keeps_what_came(void **state)
{
  struct turn_rig rig;

  turn_rig_init(&rig, *state, SCRIPT(STEP(TEXT("Half an") "," SLOW)));
  turn_rig_start(&rig);
  cancel_when(&rig, "an\"}");
  assert_string_equal(turn_story(&rig), "user: begin\nassistant! Half an\n");
  turn_rig_release(&rig);
}

static void
test_cancel_while_a_person_is_asked(void **state)
{
  struct turn_rig rig;

  turn_rig_init(&rig, *state, SCRIPT(STEP(WRITE("w1", "a.txt"))));
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  cancel_when(&rig, "\"state\":\"AwaitingToolApproval\"");
  assert_false(workspace_has(&rig, "a.txt"));
  assert_string_equal(turn_story(&rig),
                      "user: begin\nassistant: [write_file w1 Pending]\n"
                      "tool! w1 \"the turn was cancelled before the tool had answered\"\n");
  turn_rig_release(&rig);
}

static void
test_cancel_while_a_tool_runs_stops_it(void **state)
{
  static const char *const lines[] = { "auto run_command", "auto read_file" };
  struct turn_rig rig;

  turn_rig_init(
      &rig, *state,
      SCRIPT(STEP(READ_NOTES "," CALL("run_command", "r1", "{\"command\":\"sleep 600\"}"))));
  turn_rig_workspace(&rig);
  rig.options.policy = lines;
  rig.options.policy_count = 2;
  turn_rig_start(&rig);
  cancel_when(&rig, "\"type\":\"tool_end\"");
  assert_non_null(strstr(turn_story(&rig), "tool: c1 "));
  assert_non_null(strstr(turn_story(&rig),
                         "tool! r1 \"the turn was cancelled before the tool had answered\"\n"));
  turn_rig_release(&rig);
}

static void
test_cancel_while_a_retry_is_awaited(void **state)
{
  struct turn_rig rig;

  turn_rig_init(&rig, *state, SCRIPT(STEP(ERROR("529", "overloaded_error"))));
  rig.options.retry_ms = 60000;
  turn_rig_start(&rig);
  cancel_when(&rig, "TransientFailure");
  assert_string_equal(turn_story(&rig), "user: begin\n");
  turn_rig_release(&rig);
}

/* ---- events ---- */

/* Whoever begins at number `after` hears exactly what the others heard behind it. */
static void
test_a_subscriber_can_come_back_at_any_number(void **state)
{
  struct fixture *f = *state;
  struct turn_rig rig;
  uint64_t seqs[64];
  size_t n = 0;
  char *all;

  turn_rig_init(&rig, f, ANSWER("One two three four."));
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  (void)turn_send(&rig, "count");
  turn_hear(&rig, "\"state\":\"Idle\"");
  all = strdup(rig.events);
  for (const char *at = all; n < COUNT(seqs) && (at = strstr(at, "{\"seq\":")); at++)
    seqs[n++] = strtoull(at + 7, NULL, 10);
  assert_int_equal(n, rig.event_count);
  if (f->driver->durable) {
    turn_rig_stop(&rig);
    reload(f);
    turn_rig_start(&rig);
  }
  for (size_t i = 0; i + 1 < n; i++) {
    const char *want = strstr(all, pathf("{\"seq\":%llu,", (unsigned long long)seqs[i + 1]));

    turn_listen(&rig, seqs[i]);
    turn_hear(&rig, "\"state\":\"Idle\"");
    turn_unlisten(&rig);
    assert_string_equal(rig.events, want);
  }
  free(all);
  turn_rig_release(&rig);
}

static void
test_who_comes_in_the_middle_of_an_answer_hears_all_of_it(void **state)
{
  struct turn_rig rig;
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("begin") };
  struct turn_answer sent;

  turn_rig_init(&rig, *state, SCRIPT(STEP(TEXT("One two three") "," SLOW)));
  rig.options.flush_ms = 600000; /* nothing of it is durable */
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  turn_begin(&rig, &send, &sent);
  turn_wait(&sent);
  turn_hear(&rig, "three");
  turn_listen(&rig, sent.seq);
  turn_hear(&rig, "three");
  assert_string_equal(turn_text(&rig), "One two three");
  assert_non_null(strstr(turn_states(&rig), "StreamingLLMResponse "));
  turn_rig_release(&rig);
  assert_string_equal(turn_story(&rig), "user: begin\nassistant! One two three\n");
}

static void
test_a_released_context_can_be_deleted(void **state)
{
  struct fixture *f = *state;
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("begin"),
                            .wait = true };
  struct turn_rig rig;
  struct turn_answer sent;

  turn_rig_init(&rig, f, SCRIPT(STEP(TEXT("One") "," SLOW)));
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  turn_begin(&rig, &send, &sent);
  turn_hear(&rig, "One");
  qp_engine_release(rig.engine, &rig.id);
  turn_wait(&sent);
  assert_int_equal(sent.rc, QP_STOPPED);
  assert_true(rig.ended);
  OK(qp_context_delete(f->store, &rig.id, &failure));
  qp_engine_release(rig.engine, &rig.id);
  turn_rig_release(&rig);
}

/* ---- stopping ---- */

static void
test_a_stop_leaves_a_context_that_can_go_on(void **state)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("begin"),
                            .wait = true };
  struct turn_rig rig;
  struct turn_answer sent;
  struct turn_answer answer;

  turn_rig_init(&rig, *state, SCRIPT(STEP(TEXT("Half an") "," SLOW)));
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  turn_begin(&rig, &send, &sent);
  turn_hear(&rig, "an\"}");
  turn_rig_stop(&rig);
  turn_wait(&sent);
  assert_int_equal(sent.rc, QP_STOPPED);
  assert_true(rig.ended);
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "interrupted");
  assert_string_equal(turn_story(&rig), "user: begin\nassistant! Half an\n");
  rig.options.demo_script = ANSWER("Whole.");
  turn_rig_start(&rig);
  answer = turn_send(&rig, "go on");
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_story(&rig),
                      "user: begin\nassistant! Half an\nuser: go on\nassistant: Whole.\n");
  turn_rig_release(&rig);
}

/* Whatever state an earlier engine has left, the next one brings the context to one from which it
 * can go on, and every call has a result or waits for a person. */
static void
test_a_start_in_every_stored_state(void **state)
{
  static const struct {
    const char *stored, *then;
    bool closed; /* the open call has an error as result */
  } rows[] = {
    { "Idle", "Idle", false },
    { "ProcessingUserMessage", "Failed", false },
    { "AwaitingLLMResponse", "Failed", false },
    { "StreamingLLMResponse", "Failed", false },
    { "ProcessingLLMResponse", "Failed", true },
    { "AwaitingToolApproval", "AwaitingToolApproval", false },
    { "ExecutingTools", "Failed", true },
    { "ProcessingToolResults", "Failed", true },
    { "GeneratingResponse", "Failed", false },
    { "Compacting", "Failed", false },
    { "TransientFailure", "Failed", false },
    { "Failed", "Failed", false },
  };

  for (size_t i = 0; i < COUNT(rows); i++) {
    const struct qp_tool_call call = { .id = "w1",
                                       .tool_name = "write_file",
                                       .arguments_json = "{}" };
    struct qp_message *answer = NULL;
    struct turn_rig rig;
    struct qp_context *c;
    char patch[128];

    turn_rig_init(&rig, *state, ANSWER("Good."));
    c = open_context(*state, &rig.id);
    (void)say(c, NULL, "hello");
    OK(qp_message_new(QP_ROLE_ASSISTANT, &answer, &failure));
    OK(qp_message_add_tool_call(answer, &call, &failure));
    OK(qp_message_save(c, NULL, answer, NULL, &failure));
    qp_message_free(answer);
    (void)snprintf(patch, sizeof(patch), "{\"current_state\":\"%s\"}", rows[i].stored);
    OK(qp_context_update(c, bytes_of(patch), &failure));
    qp_context_close(c);
    turn_rig_start(&rig);
    assert_string_equal(turn_stored_state(&rig), rows[i].then);
    assert_int_equal(strstr(turn_story(&rig), "tool! w1") != NULL, rows[i].closed);
    if (strcmp(rows[i].then, "AwaitingToolApproval") == 0)
      assert_int_equal(turn_approve(&rig, NULL, "w1").rc, QP_OK);
    else
      assert_int_equal(turn_send(&rig, "go on").rc, QP_OK);
    assert_string_equal(turn_stored_state(&rig), "Idle");
    turn_rig_release(&rig);
  }
}

static void
test_lists_of_models_and_tools(void **state)
{
  struct turn_rig rig;
  char *text = NULL;
  size_t len = 0;

  turn_rig_init(&rig, *state, NULL);
  turn_rig_workspace(&rig);
  turn_rig_start(&rig);
  OK(qp_engine_models(rig.engine, &text, &len, &failure));
  assert_int_equal(strlen(text), len);
  assert_non_null(strstr(text, "\"id\":\"demo\""));
  qp_free(text);
  OK(qp_engine_tools(rig.engine, &text, &len, &failure));
  assert_non_null(strstr(text, "\"name\":\"read_file\""));
  assert_non_null(strstr(text, "\"default\":\"ask\""));
  qp_free(text);
  turn_rig_release(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_message_is_answered_and_all_of_it_is_stored),
    cmocka_unit_test(test_a_tool_that_only_reads_runs_and_the_model_goes_on),
    cmocka_unit_test(test_a_tool_that_changes_waits_for_a_person),
    cmocka_unit_test(test_a_denied_call_tells_the_model_why),
    cmocka_unit_test(test_calls_can_be_decided_one_by_one_also_after_a_restart),
    cmocka_unit_test(test_a_policy_can_refuse_without_asking),
    cmocka_unit_test(test_a_call_of_an_unknown_tool_is_an_error_for_the_model),
    cmocka_unit_test(test_two_approvals_at_once_run_a_tool_once),
    cmocka_unit_test(test_an_action_that_the_state_does_not_allow_changes_nothing),
    cmocka_unit_test(test_an_action_on_no_context_finds_nothing),
    cmocka_unit_test(test_actions_are_checked_before_they_are_taken),
    cmocka_unit_test(test_regenerate_and_edit_make_branches),
    cmocka_unit_test(test_the_same_key_is_the_same_action_also_after_a_restart),
    cmocka_unit_test(test_a_passing_failure_is_tried_again),
    cmocka_unit_test(test_a_failure_that_stays_ends_the_turn_and_retry_goes_on),
    cmocka_unit_test(test_a_final_failure_is_not_tried_again),
    cmocka_unit_test(test_an_answer_that_breaks_off_is_kept_and_marked),
    cmocka_unit_test(test_a_history_that_is_too_long_fails_with_a_sentence),
    cmocka_unit_test(test_an_unknown_provider_fails_with_a_sentence),
    cmocka_unit_test(test_limits_end_a_turn_with_a_clear_error),
    cmocka_unit_test(test_cancel_while_the_model_is_silent),
    cmocka_unit_test(test_cancel_in_the_middle_of_an_answer_keeps_what_came),
    cmocka_unit_test(test_cancel_while_a_person_is_asked),
    cmocka_unit_test(test_cancel_while_a_tool_runs_stops_it),
    cmocka_unit_test(test_cancel_while_a_retry_is_awaited),
    cmocka_unit_test(test_a_subscriber_can_come_back_at_any_number),
    cmocka_unit_test(test_who_comes_in_the_middle_of_an_answer_hears_all_of_it),
    cmocka_unit_test(test_a_released_context_can_be_deleted),
    cmocka_unit_test(test_a_stop_leaves_a_context_that_can_go_on),
    cmocka_unit_test(test_a_start_in_every_stored_state),
    cmocka_unit_test(test_lists_of_models_and_tools),
  };

  return run_on_all("turn", tests, COUNT(tests));
}

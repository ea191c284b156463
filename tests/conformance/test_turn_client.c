/* test_turn_client.c - tools that the client runs itself: their calls wait, over restarts, until
 * their results are submitted; mixed with tools of the server and with approvals. */
#include <stdio.h>

#include "quipu/tools.h"
#include "turn_rig.h"

#define SCRIPT(steps) "{\"interval_ms\":0,\"steps\":[" steps "]}"
#define STEP(play) "{\"play\":[" play "]}"
#define TEXT(text) "{\"text\":\"" text "\"}"
#define CALL(tool, id, arguments) \
  "{\"call\":\"" tool "\",\"id\":\"" id "\",\"arguments\":" arguments "}"
#define TOOL(name) "{\"name\":\"" name "\",\"description\":\"d\"}"
#define WEATHER                                                                            \
  "[{\"name\":\"weather\",\"description\":\"Tells the weather\",\"parameters\":{\"type\":" \
  "\"object\",\"properties\":{\"town\":{\"type\":\"string\"}}}}]"
#define ONE_CALL SCRIPT(STEP(CALL("weather", "c1", "{\"town\":\"Cusco\"}")) "," STEP(TEXT("Dry.")))
#define READ CALL("read_file", "r1", "{\"path\":\"notes.txt\"}")
#define WRITE CALL("write_file", "w1", "{\"path\":\"a.txt\",\"content\":\"x\"}")
#define CUSCO CALL("weather", "c1", "{\"town\":\"Cusco\"}")
#define LIMA CALL("weather", "c2", "{\"town\":\"Lima\"}")
#define MIXED SCRIPT(STEP(READ "," WRITE "," CUSCO "," LIMA) "," STEP(TEXT("Done.")))

static void
configure(struct turn_rig *rig, const char *tools)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  char patch[2000];

  (void)snprintf(patch, sizeof(patch), "{\"config\":{\"tools\":%s}}", tools);
  OK(qp_context_update(c, bytes_of(patch), &failure));
  qp_context_close(c);
}

static void
begin(struct turn_rig *rig, void **state, const char *script)
{
  turn_rig_init(rig, *state, script);
  turn_rig_workspace(rig);
  configure(rig, WEATHER);
  turn_rig_start(rig);
}

static struct turn_answer
submit_with_key(struct turn_rig *rig, const char *id, const char *json, bool is_error,
                const char *key)
{
  struct qp_tool_result result = { .request_id = id, .result_json = json, .is_error = is_error };
  struct qp_action action = {
    .kind = QP_ACTION_SUBMIT_TOOL_RESULTS, .results = &result, .result_count = 1, .key = key
  };

  return turn_act(rig, action);
}

static struct turn_answer
submit(struct turn_rig *rig, const char *id, const char *json)
{
  return submit_with_key(rig, id, json, false, NULL);
}

static void
restart(struct turn_rig *rig)
{
  turn_rig_stop(rig);
  turn_rig_start(rig);
}

/* The script of the demo model counts answers from the start of the engine. */
static void
restart_with(struct turn_rig *rig, const char *script)
{
  rig->options.demo_script = script;
  restart(rig);
}

static void
test_a_call_waits_for_its_result_over_a_restart(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  char *metadata = NULL;
  size_t len;
  struct qp_context *c;

  begin(&rig, state, ONE_CALL);
  turn_listen(&rig, 0);
  assert_string_equal(turn_send(&rig, "how is it?").state, "AwaitingToolApproval");
  turn_hear(&rig, "\"pending\":[{\"id\":\"c1\",\"tool_name\":\"weather\",\"kind\":"
                  "\"client\",\"arguments\":{\"town\":\"Cusco\"}}]");
  assert_string_equal(turn_story(&rig), "user: how is it?\nassistant: [weather c1 Pending]\n");
  turn_unlisten(&rig);
  restart_with(&rig, SCRIPT(STEP(TEXT("Dry."))));
  assert_string_equal(turn_stored_state(&rig), "AwaitingToolApproval");
  answer = submit(&rig, "c1", "{\"sky\":\"blue\"}");
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_story(&rig), "user: how is it?\nassistant: [weather c1 Pending]\n"
                                        "tool: c1 {\"sky\":\"blue\"}\nassistant: Dry.\n");
  c = open_context(rig.f, &rig.id);
  OK(qp_context_metadata(c, &metadata, &len, &failure));
  assert_null(strstr(metadata, "turn_tools"));
  qp_free(metadata);
  qp_context_close(c);
  turn_rig_release(&rig);
}

static void
test_mixed_with_tools_of_the_server_and_approval(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  begin(&rig, state, MIXED);
  assert_string_equal(turn_send(&rig, "go").state, "AwaitingToolApproval");
  answer = submit(&rig, "c1", "\"dry\"");
  assert_string_equal(answer.state, "AwaitingToolApproval");
  /* What was submitted is stored at once; the server's own tools have not run. */
  assert_string_equal(turn_story(&rig),
                      "user: go\nassistant: [read_file r1 Approved] [write_file w1 Pending] "
                      "[weather c1 Pending] [weather c2 Pending]\ntool: c1 \"dry\"\n");
  restart_with(&rig, SCRIPT(STEP(TEXT("Done."))));
  assert_int_equal(submit(&rig, "c1", "\"wet\"").rc, QP_CONFLICT);
  assert_string_equal(turn_approve(&rig, "w1", NULL).state, "AwaitingToolApproval");
  assert_false(file_exists(pathf("%s/a.txt", rig.workspace)));
  restart(&rig);
  turn_listen(&rig, 0);
  answer = submit_with_key(&rig, "c2", "\"no such town\"", true, NULL);
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_true(file_exists(pathf("%s/a.txt", rig.workspace)));
  assert_non_null(strstr(turn_story(&rig), "\ntool! c2 \"no such town\"\n"));
  assert_non_null(strstr(turn_story(&rig), "\ntool: r1 "));
  assert_non_null(strstr(turn_story(&rig), "\ntool: w1 "));
  assert_non_null(strstr(turn_story(&rig), "\nassistant: Done.\n"));
  /* Only the server's tools were started, each once. */
  turn_hear(&rig, "\"type\":\"tool_start\",\"id\":\"r1\"");
  turn_hear(&rig, "Done.");
  assert_false(turn_has_heard(&rig, "\"type\":\"tool_start\",\"id\":\"c1\""));
  turn_rig_release(&rig);
}

static void
test_what_is_refused_changes_nothing(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  begin(&rig, state, ONE_CALL);
  assert_int_equal(submit(&rig, "c1", "1").rc, QP_CONFLICT); /* Idle */
  assert_string_equal(turn_send(&rig, "go").state, "AwaitingToolApproval");
  answer = submit(&rig, "c9", "1");
  assert_int_equal(answer.rc, QP_INVALID);
  assert_non_null(strstr(answer.msg, "c9"));
  answer = turn_approve(&rig, "c1", NULL);
  assert_int_equal(answer.rc, QP_INVALID);
  assert_non_null(strstr(answer.msg, "submit its result"));
  assert_int_equal(turn_send(&rig, "again").rc, QP_CONFLICT);
  assert_string_equal(turn_stored_state(&rig), "AwaitingToolApproval");
  /* A person may refuse such a call. */
  answer = turn_approve(&rig, NULL, "c1");
  assert_string_equal(answer.state, "Idle");
  assert_non_null(strstr(turn_story(&rig), "tool! c1 \"a person has refused this call"));
  turn_rig_release(&rig);
}

static void
test_a_key_makes_submitting_safe_to_repeat(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  begin(&rig, state, ONE_CALL);
  assert_string_equal(turn_send(&rig, "go").state, "AwaitingToolApproval");
  assert_string_equal(submit_with_key(&rig, "c1", "1", false, "k").state, "Idle");
  restart(&rig);
  answer = submit_with_key(&rig, "c1", "1", false, "k");
  assert_int_equal(answer.rc, QP_OK);
  assert_true(answer.replayed);
  assert_int_equal(submit_with_key(&rig, "c1", "2", false, "k").rc, QP_CONFLICT);
  assert_int_equal(submit_with_key(&rig, "c1", "1", true, "k").rc, QP_CONFLICT);
  turn_rig_release(&rig);
}

static void
test_cancel_closes_what_waits_and_keeps_what_came(void **state)
{
  struct turn_rig rig;

  begin(&rig, state, MIXED);
  assert_string_equal(turn_send(&rig, "go").state, "AwaitingToolApproval");
  assert_string_equal(submit(&rig, "c2", "\"fog\"").state, "AwaitingToolApproval");
  restart(&rig);
  assert_string_equal(turn_do(&rig, QP_ACTION_CANCEL).state, "Idle");
  assert_non_null(strstr(turn_story(&rig), "tool: c2 \"fog\"\n"));
  assert_non_null(strstr(turn_story(&rig), "tool! c1 \"the turn was cancelled"));
  assert_null(strstr(turn_story(&rig), "tool! c2"));
  turn_rig_release(&rig);
}

static void
test_the_tools_of_a_turn_replace_those_of_the_context(void **state)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("go"),
                            .tools_json = "[" TOOL("stars") "]" };
  struct turn_rig rig;

  begin(&rig, state,
        SCRIPT(STEP(CALL("stars", "s1", "{}") "," CALL("weather", "c1", "{}")) "," STEP(
            TEXT("Bright."))));
  assert_string_equal(turn_act(&rig, send).state, "AwaitingToolApproval");
  assert_non_null(strstr(turn_story(&rig), "[stars s1 Pending] [weather c1 Approved]"));
  restart_with(&rig, SCRIPT(STEP(TEXT("Bright.")) "," STEP(CALL("stars", "s2", "{}")) "," STEP(
                         TEXT("None."))));
  assert_string_equal(submit(&rig, "s1", "7").state, "Idle");
  assert_non_null(strstr(turn_story(&rig), "tool: s1 7\n"));
  assert_non_null(strstr(turn_story(&rig), "tool! c1 ")); /* nobody has that tool in this turn */
  /* The next turn has those of the context again. */
  assert_string_equal(turn_send(&rig, "and now?").state, "Idle");
  assert_non_null(strstr(turn_story(&rig), "tool! s2 "));
  turn_rig_release(&rig);
}

static void
test_lists_of_tools_are_checked(void **state)
{
  static const struct {
    const char *tools;
    enum qp_rc rc;
    const char *part;
  } wrong[] = {
    { "{}", QP_INVALID, "must be a list" },
    { "[7]", QP_INVALID, "tools[0]" },
    { "[{}]", QP_INVALID, "tools[0].name" },
    { "[{\"name\":\"a b\"}]", QP_INVALID, "tools[0].name" },
    { "[" TOOL("a") "," TOOL("a") "]", QP_INVALID, "earlier tool" },
    { "[{\"name\":\"a\",\"parameters\":[]}]", QP_INVALID, "tools[0].parameters" },
    { "[{\"name\":\"a\",\"parameters\":{\"type\":\"string\"}}]", QP_INVALID, "object" },
    { "[{\"name\":\"a\",\"function\":{}}]", QP_INVALID, "tools[0].function" },
  };
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("go"), .wait = true };
  struct turn_rig rig;
  struct turn_answer answer;

  begin(&rig, state, ONE_CALL);
  send.context = rig.id;
  for (size_t i = 0; i < COUNT(wrong); i++) {
    send.tools_json = wrong[i].tools;
    assert_int_equal(turn_try(&rig, &send, &answer), wrong[i].rc);
    assert_non_null(strstr(failure.msg, wrong[i].part));
  }
  send.tools_json = "[" TOOL("read_file") "]";
  answer = turn_act(&rig, send);
  assert_int_equal(answer.rc, QP_INVALID);
  assert_non_null(strstr(answer.msg, "'read_file'"));
  configure(&rig, "[" TOOL("grep") "]");
  answer = turn_send(&rig, "go");
  assert_int_equal(answer.rc, QP_INVALID);
  assert_non_null(strstr(answer.msg, "'grep'"));
  assert_string_equal(turn_story(&rig), "");
  turn_rig_release(&rig);
}

/* ---- tools of the embedding program ---- */

struct own {
  pthread_t thread;
  struct qp_tool_task *task;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  unsigned calls;
  char arguments[100];
};

static void *
answer_later(void *arg)
{
  struct own *own = arg;

  assert_int_equal(qp_tool_task_end(own->task, "[1,{\"a\":2}]", false, NULL), QP_OK);
  return NULL;
}

static void
call_own(void *arg, const char *arguments, struct qp_tool_task *task)
{
  struct own *own = arg;

  (void)pthread_mutex_lock(&own->lock);
  own->task = task;
  own->calls++;
  (void)snprintf(own->arguments, sizeof(own->arguments), "%s", arguments);
  (void)pthread_cond_signal(&own->changed);
  (void)pthread_mutex_unlock(&own->lock);
}

static void
call_and_answer_later(void *arg, const char *arguments, struct qp_tool_task *task)
{
  struct own *own = arg;

  call_own(arg, arguments, task);
  assert_int_equal(pthread_create(&own->thread, NULL, answer_later, own), 0);
}

static void
call_and_answer_badly(void *arg, const char *arguments, struct qp_tool_task *task)
{
  call_own(arg, arguments, task);
  assert_int_equal(qp_tool_task_end(task, "no json", false, NULL), QP_INVALID);
}

static struct qp_tool_spec
own_spec(struct own *own, const char *name, qp_tool_fn *call)
{
  return (struct qp_tool_spec){
    .size = sizeof(struct qp_tool_spec), .name = name, .call = call, .arg = own
  };
}

static void
test_a_tool_of_the_program_answers_from_any_thread(void **state)
{
  struct own own = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
  struct qp_tool_spec later = own_spec(&own, "later", call_and_answer_later);
  struct qp_tool_spec badly = own_spec(&own, "badly", call_and_answer_badly);
  struct turn_rig rig;

  begin(&rig, state,
        SCRIPT(STEP(CALL("later", "l1", "{\"x\":1}")) "," STEP(CALL("badly", "b1", "{}")) "," STEP(
            TEXT("Done."))));
  OK(qp_engine_add_tool(rig.engine, &later, &failure));
  OK(qp_engine_add_tool(rig.engine, &badly, &failure));
  assert_int_equal(qp_engine_add_tool(rig.engine, &later, &failure), QP_EXISTS);
  later.name = "read_file";
  assert_int_equal(qp_engine_add_tool(rig.engine, &later, &failure), QP_EXISTS);
  later.name = "two words";
  assert_int_equal(qp_engine_add_tool(rig.engine, &later, &failure), QP_INVALID);
  assert_string_equal(turn_send(&rig, "go").state, "Idle");
  (void)pthread_join(own.thread, NULL);
  assert_int_equal(own.calls, 2);
  assert_non_null(strstr(turn_story(&rig), "tool: l1 [1,{\"a\":2}]\n"));
  assert_non_null(strstr(turn_story(&rig), "tool! b1 "));
  turn_rig_release(&rig);
}

static void
test_a_cancelled_task_is_told_and_ended_by_the_program(void **state)
{
  struct own own = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
  struct qp_tool_spec slow = own_spec(&own, "slow", call_own);
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("go") };
  struct turn_rig rig;
  struct turn_answer answer;

  begin(&rig, state, SCRIPT(STEP(CALL("slow", "s1", "{}"))));
  slow.timeout_ms = UINT64_MAX;
  OK(qp_engine_add_tool(rig.engine, &slow, &failure));
  turn_begin(&rig, &send, &answer);
  (void)pthread_mutex_lock(&own.lock);
  while (!own.calls)
    (void)pthread_cond_wait(&own.changed, &own.lock);
  (void)pthread_mutex_unlock(&own.lock);
  assert_false(qp_tool_task_is_cancelled(own.task));
  assert_string_equal(turn_do(&rig, QP_ACTION_CANCEL).state, "Idle");
  assert_true(qp_tool_task_is_cancelled(own.task));
  assert_int_equal(qp_tool_task_end(own.task, "1", false, NULL), QP_OK);
  assert_non_null(strstr(turn_story(&rig), "tool! s1 \"the turn was cancelled"));
  turn_rig_release(&rig); /* stops the engine, which waits for every task */
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_tool_of_the_program_answers_from_any_thread),
    cmocka_unit_test(test_a_cancelled_task_is_told_and_ended_by_the_program),
    cmocka_unit_test(test_a_call_waits_for_its_result_over_a_restart),
    cmocka_unit_test(test_mixed_with_tools_of_the_server_and_approval),
    cmocka_unit_test(test_what_is_refused_changes_nothing),
    cmocka_unit_test(test_a_key_makes_submitting_safe_to_repeat),
    cmocka_unit_test(test_cancel_closes_what_waits_and_keeps_what_came),
    cmocka_unit_test(test_the_tools_of_a_turn_replace_those_of_the_context),
    cmocka_unit_test(test_lists_of_tools_are_checked),
  };

  return run_on_all("turn_client", tests, COUNT(tests));
}

/* test_turn_kill.c - kill -9 in every state of a turn, and the start after it: acknowledged
 * messages exist, partial answers are kept and marked, no tool runs twice, pending calls still wait
 * for approval, and the context accepts the next message.
 *
 * The victim is a child process with its own engine; it reports through a pipe when the awaited
 * event has happened and is durable. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/sandbox.h"
#include "turn_rig.h"

#define SCRIPT(steps) "{\"interval_ms\":0,\"steps\":[" steps "]}"
#define STEP(play) "{\"play\":[" play "]}"
#define TEXT(text) "{\"text\":\"" text "\"}"
#define SLOW "{\"delay_ms\":600000}"
#define CALL(tool, id, arguments) \
  "{\"call\":\"" tool "\",\"id\":\"" id "\",\"arguments\":" arguments "}"

struct scene {
  const char *script;
  const char *policy; /* a line, or NULL */
  uint64_t retry_ms;
  const char *sign;  /* what is heard before the kill */
  const char *fifo;  /* where the tool writes when it has got so far, or NULL */
  const char *state; /* after the start … */
  const char *error; /* … and its error's kind */
  const char *story; /* … and how the messages begin */
  const char *tools; /* of the client, or NULL */
  const char *first; /* a call of them whose result is submitted before the kill, or NULL */
};

static struct turn_answer
submit(struct turn_rig *rig, const char *id)
{
  struct qp_tool_result result = { .request_id = id, .result_json = "\"noon\"" };
  struct qp_action action = { .kind = QP_ACTION_SUBMIT_TOOL_RESULTS,
                              .results = &result,
                              .result_count = 1 };

  return turn_act(rig, action);
}

/* Returns when a tool has written to the FIFO 'name' of the workspace. */
static void
wait_for_tool(const struct turn_rig *rig, const char *name)
{
  int fd = open(pathf("%s/%s", rig->workspace, name), O_RDONLY | O_CLOEXEC);
  char byte;

  assert_true(fd >= 0);
  assert_int_equal(read(fd, &byte, 1), 1);
  (void)close(fd);
}

/* In the child: runs until it is killed. */
static void
be_victim(struct turn_rig *rig, const struct scene *scene, int told)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                            .text = bytes_of("begin"),
                            .tools_json = scene->tools };
  struct qp_event_range range = { .newest = 0 };
  struct turn_answer sent;
  struct qp_context *c;

  open_store(rig->f);
  rig->options.demo_script = scene->script;
  rig->options.policy = &scene->policy;
  rig->options.policy_count = scene->policy != NULL;
  rig->options.retry_ms = scene->retry_ms;
  if (scene->fifo)
    assert_int_equal(mkfifo(pathf("%s/%s", rig->workspace, scene->fifo), 0600), 0);
  turn_rig_start(rig);
  turn_listen(rig, 0);
  turn_begin(rig, &send, &sent);
  turn_wait(&sent);
  turn_hear(rig, scene->sign);
  if (scene->fifo)
    wait_for_tool(rig, scene->fifo);
  if (scene->first)
    assert_int_equal(submit(rig, scene->first).rc, QP_OK);
  c = open_context(rig->f, &rig->id);
  while (range.newest < rig->last_seq)
    OK(qp_events_range(c, &range, &failure));
  (void)!write(told, "x", 1);
  for (;;)
    (void)pause();
}

static void
kill_in(struct turn_rig *rig, const struct scene *scene)
{
  int pipes[2];
  char byte = 0;
  pid_t pid;
  int status;

  close_store(rig->f);
  assert_int_equal(pipe(pipes), 0);
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    (void)close(pipes[0]);
    be_victim(rig, scene, pipes[1]);
    _exit(1);
  }
  (void)close(pipes[1]);
  assert_int_equal(read(pipes[0], &byte, 1), 1);
  (void)close(pipes[0]);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  open_store(rig->f);
}

/* Kills, starts, and compares. */
static void
play(struct turn_rig *rig, void **state, const struct scene *scene)
{
  turn_rig_init(rig, *state, NULL);
  turn_rig_workspace(rig);
  kill_in(rig, scene);
  rig->options.demo_script = SCRIPT("{\"match\":\"*\",\"play\":[" TEXT("Good.") "]}");
  turn_rig_start(rig);
  assert_string_equal(turn_stored_state(rig), scene->state);
  assert_string_equal(turn_detail(rig, "error", "kind"), scene->error);
  assert_int_equal(strncmp(turn_story(rig), scene->story, strlen(scene->story)), 0);
}

/* The next message is answered. */
static void
go_on(struct turn_rig *rig)
{
  struct turn_answer answer = turn_send(rig, "go on");

  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_non_null(strstr(turn_story(rig), "user: go on\nassistant: Good.\n"));
  turn_rig_release(rig);
}

static void
test_kill_while_the_model_is_silent(void **state)
{
  const struct scene scene = {
    .script = SCRIPT(STEP(SLOW)),
    .sign = "AwaitingLLMResponse",
    .state = "Failed",
    .error = "interrupted",
    .story = "user: begin\n",
  };
  struct turn_rig rig;

  play(&rig, state, &scene);
  go_on(&rig);
}

static void
test_kill_in_the_middle_of_an_answer(void **state)
{
  const struct scene scene = {
    .script = SCRIPT(STEP("{\"thinking\":\"hm\",\"signature\":\"s\"}," TEXT("Half an") "," SLOW)),
    .sign = "an\"}",
    .state = "Failed",
    .error = "interrupted",
    .story = "user: begin\nassistant! Half an\n",
  };
  struct turn_rig rig;

  play(&rig, state, &scene);
  /* The events of the answer are still there for those who come back, under their numbers. */
  turn_listen(&rig, 0);
  turn_hear(&rig, "\"state\":\"Failed\"");
  assert_string_equal(turn_text(&rig), "Half an");
  go_on(&rig);
}

static void
test_kill_while_a_person_is_asked(void **state)
{
  const struct scene scene = {
    .script = SCRIPT(STEP(CALL("write_file", "w1", "{\"path\":\"a.txt\",\"content\":\"new\"}"))),
    .sign = "\"state\":\"AwaitingToolApproval\"",
    .state = "AwaitingToolApproval",
    .error = "",
    .story = "user: begin\nassistant: [write_file w1 Pending]\n",
  };
  struct turn_rig rig;
  struct turn_answer answer;

  play(&rig, state, &scene);
  assert_false(file_exists(pathf("%s/a.txt", rig.workspace)));
  answer = turn_approve(&rig, "w1", NULL);
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_true(file_exists(pathf("%s/a.txt", rig.workspace)));
  turn_rig_release(&rig);
}

/* What the client has submitted is there, the other call still waits, and the tool of the server,
 * which was not run before, runs once. */
static void
test_kill_while_the_client_runs_its_tools(void **state)
{
  const struct scene scene = {
    .script = SCRIPT(STEP(CALL("clock", "c1", "{}") "," CALL("clock", "c2", "{}") "," CALL(
        "run_command", "r1", "{\"command\":\"echo once >> log.txt\"}"))),
    .policy = "auto run_command",
    .tools = "[{\"name\":\"clock\"}]",
    .first = "c2",
    .sign = "\"state\":\"AwaitingToolApproval\"",
    .state = "AwaitingToolApproval",
    .error = "",
    .story = "user: begin\nassistant: [clock c1 Pending] [clock c2 Pending] "
             "[run_command r1 Approved]\ntool: c2 \"noon\"\n",
  };
  struct turn_rig rig;
  size_t len;
  char *log;

  play(&rig, state, &scene);
  assert_false(file_exists(pathf("%s/log.txt", rig.workspace)));
  assert_int_equal(submit(&rig, "c2").rc, QP_CONFLICT);
  assert_string_equal(submit(&rig, "c1").state, "Idle");
  assert_non_null(strstr(turn_story(&rig), "tool: c1 \"noon\"\n"));
  assert_non_null(strstr(turn_story(&rig), "assistant: Good.\n"));
  if (file_exists(pathf("%s/log.txt", rig.workspace))) { /* unless there is no sandbox */
    log = read_file(pathf("%s/log.txt", rig.workspace), &len);
    assert_string_equal(log, "once\n");
    free(log);
  }
  go_on(&rig);
}

static void
test_kill_while_a_tool_runs_does_not_run_it_again(void **state)
{
  const struct scene scene = {
    .script = SCRIPT(STEP(CALL(
        "run_command", "r1", "{\"command\":\"echo once >> log.txt; echo > told; exec sleep 5\"}"))),
    .fifo = "told",
    .policy = "auto run_command",
    .sign = "\"type\":\"tool_start\"",
    .state = "Failed",
    .error = "interrupted",
    .story =
        "user: begin\nassistant: [run_command r1 Approved]\n"
        "tool! r1 \"the turn was interrupted before the tool had answered; it may have run\"\n",
  };
  struct turn_rig rig;
  struct turn_answer answer;
  size_t len;
  char *log;

  if (qp__sandbox_landlock() == 0) /* commands are refused */
    skip();
  play(&rig, state, &scene);
  answer = turn_do(&rig, QP_ACTION_RETRY);
  assert_string_equal(answer.state, "Idle");
  log = read_file(pathf("%s/log.txt", rig.workspace), &len);
  assert_string_equal(log, "once\n");
  free(log);
  go_on(&rig);
}

static void
test_kill_while_a_retry_is_awaited(void **state)
{
  const struct scene scene = {
    .script = SCRIPT(STEP("{\"error\":{\"status\":529,\"type\":\"overloaded_error\","
                          "\"message\":\"no\"}}")),
    .retry_ms = 600000,
    .sign = "TransientFailure",
    .state = "Failed",
    .error = "interrupted",
    .story = "user: begin\n",
  };
  struct turn_rig rig;

  play(&rig, state, &scene);
  go_on(&rig);
}

static void
test_kill_at_rest(void **state)
{
  const struct scene scene = {
    .script = SCRIPT(STEP(TEXT("All of it."))),
    .sign = "\"state\":\"Idle\"",
    .state = "Idle",
    .error = "",
    .story = "user: begin\nassistant: All of it.\n",
  };
  struct turn_rig rig;

  play(&rig, state, &scene);
  go_on(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    needs(test_kill_while_the_model_is_silent, NEEDS_DIRECTORY),
    needs(test_kill_in_the_middle_of_an_answer, NEEDS_DIRECTORY),
    needs(test_kill_while_a_person_is_asked, NEEDS_DIRECTORY),
    needs(test_kill_while_the_client_runs_its_tools, NEEDS_DIRECTORY),
    needs(test_kill_while_a_tool_runs_does_not_run_it_again, NEEDS_DIRECTORY),
    needs(test_kill_while_a_retry_is_awaited, NEEDS_DIRECTORY),
    needs(test_kill_at_rest, NEEDS_DIRECTORY),
  };

  return run_on_all("turn_kill", tests, COUNT(tests));
}

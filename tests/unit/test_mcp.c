/* test_mcp.c - the MCP client against tests/lib/mcp_server.mjs over stdio: both generations of the
 * protocol, requests of the server, servers that hang, die, send invalid messages, and change their
 * tools. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fault.h"
#include "tool/mcp.h"
#include "tool/mcp_config.h"
#include "tool_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define SERVER TEST_LIB "/mcp_server.mjs"

/* Adds the server "test" with up to three modes. */
static enum qp_rc
add(struct tool_rig *rig, const char *one, const char *two, const char *three)
{
  const char *argv[] = { "node", SERVER, one, two, three, NULL };
  const char *env[] = { "GIVEN=yes", NULL };
  const struct qp__mcp_config config = { .name = "test", .argv = argv, .env = env };

  return qp__mcp_add(rig->tools, &config, NULL);
}

static void
wait_start(struct tool_rig *rig)
{
  while (qp__tools_starting(rig->tools) > 0)
    assert_true(uv_run(&rig->loop, UV_RUN_ONCE) || qp__tools_starting(rig->tools) == 0);
}

static void
init(struct tool_rig *rig, const char *one, const char *two)
{
  tool_rig_init(rig, (struct qp__tools_options){ 0 });
  assert_int_equal(add(rig, one, two, NULL), QP_OK);
  wait_start(rig);
}

/* ---- the list ---- */

static void
test_tools_are_listed_in_order(void **state)
{
  static const char *const modes[][2] = {
    { "legacy", NULL }, { "modern", NULL },    { "both", NULL },
    { "noisy", NULL },  { "die-probe", NULL }, { "version=2024-11-05", NULL },
  };

  (void)state;
  for (size_t m = 0; m < COUNT(modes); m++) {
    struct tool_rig rig;
    const struct qp__tool *tool;
    size_t count;

    init(&rig, modes[m][0], modes[m][1]);
    count = qp__tools_count(rig.tools);
    if (count != 8 + 24)
      fail_msg("%s: %zu tools\n%s", modes[m][0], count, rig.log);
    for (size_t i = 9; i < count; i++) {
      const char *name = qp__tools_at(rig.tools, i)->name;

      if (!strstr(name, "odd")) /* their names were other ones */
        assert_true(strcmp(qp__tools_at(rig.tools, i - 1)->name, name) < 0);
    }
    tool = qp__tools_find(rig.tools, "mcp__test__echo");
    assert_non_null(tool);
    assert_string_equal(tool->title, "Tool echo");
    assert_string_equal(tool->description, "the tool echo");
    assert_string_equal(tool->schema,
                        "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}");
    assert_string_equal(tool->source, "test");
    assert_true(tool->changes); /* what a server says of itself is not believed */
    assert_int_equal(qp__tools_judge(rig.tools, "mcp__test__echo", "{}", NULL), QP__ASK);
    tool_works(&rig, "mcp__test__echo", "{\"text\":\"hi\"}", "hi");
    tool_rig_release(&rig);
  }
}

static void
test_odd_names_become_names(void **state)
{
  struct tool_rig rig;
  size_t odd = 0;

  (void)state;
  init(&rig, "legacy", NULL);
  for (size_t i = 0; i < qp__tools_count(rig.tools); i++) {
    const char *name = qp__tools_at(rig.tools, i)->name;

    assert_true(strlen(name) <= 64);
    assert_int_equal(strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "_-"),
                     strlen(name));
    if (strncmp(name, "mcp__test__odd_name__", 21) == 0)
      odd++;
  }
  assert_int_equal(odd, 2); /* "odd name/é" has one more '_' */
  tool_works(&rig, "mcp__test__odd_name___", "{}", "odd");
  tool_works(&rig, "mcp__test__odd_name__", "{}", "like the odd one");
  tool_rig_release(&rig);
}

/* ---- results ---- */

static void
test_results_of_every_kind(void **state)
{
  static const char *const eras[] = { "legacy", "modern" };

  (void)state;
  for (size_t e = 0; e < COUNT(eras); e++) {
    struct tool_rig rig;
    struct tool_answer answer;

    init(&rig, eras[e], NULL);
    tool_works(&rig, "mcp__test__two", "{}", "one\ntwo");
    tool_fails(&rig, "mcp__test__fail", "{}", "it went wrong");
    tool_fails(&rig, "mcp__test__error", "{}", "a protocol error");
    tool_fails(&rig, "mcp__test__empty", "{}", "without any content");
    tool_works(&rig, "mcp__test__structured", "{}", "{\"answer\":42}");
    tool_works(&rig, "mcp__test__image", "{}", "\"mimeType\":\"image/png\"");
    tool_works(&rig, "mcp__test__noise", "{}", "quiet");
    tool_works(&rig, "mcp__test__cwd", "{}", rig.workspace);
    answer = tool_call(&rig, "mcp__test__big", "{\"bytes\":1000000}");
    assert_true(answer.cut && !answer.is_error);
    assert_true(strlen(answer.text) < 70000);
    assert_non_null(strstr(answer.text, "of 1000000 bytes]"));
    tool_answer_release(&answer);
    assert_non_null(strstr(rig.log, "noise noise"));
    tool_rig_release(&rig);
  }
}

static void
test_a_server_gets_no_keys_of_ours(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  assert_int_equal(setenv("OPENAI_API_KEY", "sk-secret", 1), 0);
  init(&rig, "legacy", NULL);
  answer = tool_call(&rig, "mcp__test__env", "{}");
  assert_null(strstr(answer.text, "sk-secret"));
  assert_non_null(strstr(answer.text, "\"GIVEN\":\"yes\""));
  assert_non_null(strstr(answer.text, "\"PATH\":"));
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static void
test_requests_of_the_server_are_answered(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  init(&rig, "legacy", NULL);
  answer = tool_call(&rig, "mcp__test__ask", "{}");
  assert_false(answer.is_error);
  assert_non_null(strstr(answer.text, "\"ping\":{}"));
  assert_non_null(strstr(answer.text, "\"roots/list\":{\"roots\":[{\"uri\":\"file://"));
  assert_non_null(strstr(answer.text, rig.workspace));
  assert_non_null(strstr(answer.text, "\"sampling/createMessage\":{\"error\":-32601}"));
  assert_non_null(strstr(answer.text, "\"elicitation/create\":{\"error\":-32601}"));
  assert_non_null(strstr(answer.text, "\"no/such\":{\"error\":-32601}"));
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static void
test_a_stateless_tool_that_needs_input_is_asked_again(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  init(&rig, "modern", NULL);
  answer = tool_call(&rig, "mcp__test__need_roots", "{}");
  assert_false(answer.is_error);
  assert_non_null(strstr(answer.text, "\"state\":\"st-1\""));
  assert_non_null(strstr(answer.text, rig.workspace));
  tool_answer_release(&answer);
  tool_fails(&rig, "mcp__test__need_human", "{}", "\"elicitation/create\", which quipu does not");
  tool_fails(&rig, "mcp__test__need_more", "{}", "repeats its questions");
  tool_works(&rig, "mcp__test__echo", "{\"text\":\"still here\"}", "still here");
  tool_rig_release(&rig);
}

static void
test_a_changed_list_is_read_again(void **state)
{
  struct tool_rig rig;

  (void)state;
  init(&rig, "legacy", NULL);
  assert_null(qp__tools_find(rig.tools, "mcp__test__extra"));
  tool_works(&rig, "mcp__test__change", "{}", "changed");
  while (!qp__tools_find(rig.tools, "mcp__test__extra"))
    assert_true(uv_run(&rig.loop, UV_RUN_ONCE));
  tool_works(&rig, "mcp__test__extra", "{}", "extra");
  tool_rig_release(&rig);
}

/* ---- servers that misbehave ---- */

static void
test_a_hanging_tool_times_out_and_is_cancelled(void **state)
{
  struct tool_rig rig;
  struct tool_answer hanging;
  struct tool_answer other;
  struct qp__tool_run *call;
  char arguments[500];

  (void)state;
  init(&rig, "legacy", NULL);
  (void)snprintf(arguments, sizeof(arguments), "{\"ms\":1,\"until\":\"%s/go\"}", rig.dir);
  assert_non_null(tool_start(&rig, "mcp__test__hang", "{}", 100, &hanging));
  assert_non_null(tool_start(&rig, "mcp__test__slow", arguments, 0, &other));
  tool_wait(&rig, &hanging.done);
  assert_int_equal(hanging.outcome, QP__TOOL_TIMEOUT);
  assert_false(other.done);
  tool_put(&rig, "go", "");
  tool_wait(&rig, &other.done); /* the others go on */
  assert_string_equal(other.text, "waited 1");
  tool_answer_release(&hanging);
  tool_answer_release(&other);
  call = tool_start(&rig, "mcp__test__hang", "{}", 0, &hanging);
  assert_non_null(call);
  tool_works(&rig, "mcp__test__echo", "{\"text\":\"x\"}", "x"); /* it has arrived */
  qp__tool_run_cancel(call);
  tool_wait(&rig, &hanging.done);
  assert_int_equal(hanging.outcome, QP__TOOL_CANCELLED);
  tool_answer_release(&hanging);
  other = tool_call(&rig, "mcp__test__cancelled", "{}");
  assert_int_not_equal(strcmp(other.text, "[]"), 0);
  assert_non_null(strchr(other.text, ',')); /* the server was told of both */
  tool_answer_release(&other);
  tool_rig_release(&rig);
}

static void
test_a_server_that_dies_fails_its_calls_and_comes_back(void **state)
{
  struct tool_rig rig;
  struct tool_answer hanging;
  size_t count;

  (void)state;
  init(&rig, "legacy", NULL);
  count = qp__tools_count(rig.tools);
  assert_non_null(tool_start(&rig, "mcp__test__hang", "{}", 0, &hanging));
  tool_fails(&rig, "mcp__test__die", "{}", "the MCP server 'test': it ended with exit code 3");
  tool_wait(&rig, &hanging.done);
  assert_non_null(strstr(hanging.text, "exit code 3"));
  tool_answer_release(&hanging);
  assert_int_equal(qp__tools_count(rig.tools), count); /* its tools stay in the list */
  tool_works(&rig, "mcp__test__echo", "{\"text\":\"back\"}", "back");
  tool_fails(&rig, "mcp__test__die", "{}", "exit code 3");
  tool_works(&rig, "mcp__test__echo", "{\"text\":\"again\"}", "again");
  tool_rig_release(&rig);
}

static void
test_a_server_that_cannot_start_is_not_tried_without_pause(void **state)
{
  static const char *const argv[] = { "no-such-program", NULL };
  const struct qp__mcp_config missing = { .name = "missing", .argv = argv };
  struct tool_rig rig;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  assert_int_equal(add(&rig, "die-start", NULL, NULL), QP_OK);
  assert_int_equal(qp__mcp_add(rig.tools, &missing, NULL), QP_OK);
  wait_start(&rig);
  assert_int_equal(qp__tools_count(rig.tools), 8);
  assert_non_null(strstr(rig.log, "the MCP server 'test': it ended with exit code 7"));
  assert_non_null(strstr(rig.log, "the MCP server 'missing': there is no program"));
  tool_fails(&rig, "mcp__test__echo", "{}", "there is no tool");
  tool_rig_release(&rig);
}

static void
test_the_pause_after_failures_grows(void **state)
{
  struct tool_rig rig;
  char text[400];

  (void)state;
  init(&rig, "legacy", NULL);
  for (int i = 0; i < 2; i++) /* the first time it is started again at once */
    tool_fails(&rig, "mcp__test__die", "{}", "exit code 3");
  (void)snprintf(text, sizeof(text), "has failed 2 times; it is tried again in 1 s");
  tool_fails(&rig, "mcp__test__die", "{}", text);
  tool_fails(&rig, "mcp__test__echo", "{}", text);
  tool_rig_release(&rig);
}

static void
test_what_is_no_server_is_told(void **state)
{
  static const struct {
    const char *mode, *part;
  } rows[] = {
    { "version=1999-01-01", "it uses version '1999-01-01'" },
    { "version=2026-07-28", "it uses version '2026-07-28'" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct tool_rig rig;

    init(&rig, rows[i].mode, NULL);
    assert_int_equal(qp__tools_count(rig.tools), 8);
    if (!strstr(rig.log, rows[i].part))
      fail_msg("%s", rig.log);
    tool_rig_release(&rig);
  }
}

static void
test_a_server_without_tools_is_no_failure(void **state)
{
  struct tool_rig rig;

  (void)state;
  init(&rig, "no-tools", NULL);
  assert_int_equal(qp__tools_count(rig.tools), 8);
  assert_string_equal(rig.log, "mcp: test: ready, 0 tools\n");
  tool_rig_release(&rig);
}

/* Seconds pass here, because it waits for an answer that never comes. */
static void
test_a_server_that_is_mute_to_the_probe_is_greeted(void **state)
{
  struct tool_rig rig;

  (void)state;
  init(&rig, "mute-probe", NULL);
  tool_works(&rig, "mcp__test__echo", "{\"text\":\"hi\"}", "hi");
  tool_rig_release(&rig);
}

static void
test_closing_ends_whatever_is_under_way(void **state)
{
  static const char *const modes[] = { "never", "legacy", "modern", "die-start" };

  (void)state;
  for (size_t m = 0; m < COUNT(modes); m++)
    for (int turns = 0; turns < (m == 0 ? 2 : 12); turns++) {
      struct tool_answer answer;
      struct tool_rig rig;
      bool begun = false;

      tool_rig_init(&rig, (struct qp__tools_options){ 0 });
      assert_int_equal(add(&rig, modes[m], NULL, NULL), QP_OK);
      for (int i = 0; i < turns && qp__tools_starting(rig.tools) > 0; i++)
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
      memset(&answer, 0, sizeof(answer));
      if (qp__tools_find(rig.tools, "mcp__test__hang"))
        begun = tool_start(&rig, "mcp__test__hang", "{}", 0, &answer) != NULL;
      tool_rig_close(&rig);
      assert_int_equal(answer.done, begun);
      tool_answer_release(&answer);
      tool_rig_remove(&rig);
    }
}

/* Servers that say their lines whatever they are asked. */
#define LINE(json) "read l; echo '" json "'; "
#define TOOLS "\"result\":{\"tools\":[{\"name\":\"t\",\"inputSchema\":{}}]}}"
#define ANSWER "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}}"

static const char *const scripts[] = {
  /* the handshake, with a question of its own */
  LINE("{\"id\":1,\"error\":{\"code\":-1,\"message\":\"no\"}}")
      LINE("{\"id\":2,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":"
           "{\"tools\":{}}}}") "read l; " LINE("{\"id\":3," TOOLS)
          LINE("{\"id\":\"q\",\"method\":\"roots/list\"}") LINE("{\"id\":4," ANSWER) "read l",
  /* the stateless era, and a tool that needs to know something */
  LINE("{\"id\":1,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":"
       "{\"tools\":{}}}}") LINE("{\"id\":2," TOOLS)
      LINE("{\"id\":3,\"result\":{\"resultType\":\"input_required\",\"requestState\":\"s\","
           "\"inputRequests\":{\"a\":{\"method\":\"roots/list\"}}}}")
          LINE("{\"id\":4," ANSWER) "read l",
};

/* With any one allocation failing, the server works or has failed with a reason; nothing hangs. */
static void
test_failing_allocations_never_lose_a_call(void **state)
{
  unsigned works = 0;

  (void)state;
  for (size_t i = 0; i < COUNT(scripts); i++) {
    const char *argv[] = { "/bin/sh", "-c", scripts[i], NULL };
    const struct qp__mcp_config config = { .name = "test", .argv = argv };
    bool fired = true;

    for (long n = 1; fired; n++) {
      struct tool_answer answer;
      struct tool_rig rig;

      tool_rig_init(&rig, (struct qp__tools_options){ 0 });
      memset(&answer, 0, sizeof(answer));
      alloc_fault_arm(n);
      if (qp__mcp_add(rig.tools, &config, NULL) == QP_OK) {
        wait_start(&rig);
        if (tool_start(&rig, "mcp__test__t", "{}", 0, &answer))
          tool_wait(&rig, &answer.done);
      }
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      if (answer.done && !answer.is_error) {
        assert_string_equal(answer.text, "hi");
        works++;
      }
      tool_answer_release(&answer);
      tool_rig_release(&rig);
    }
  }
  assert_true(works >= COUNT(scripts)); /* at least where none failed */
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_tools_are_listed_in_order),
    cmocka_unit_test(test_odd_names_become_names),
    cmocka_unit_test(test_results_of_every_kind),
    cmocka_unit_test(test_a_server_gets_no_keys_of_ours),
    cmocka_unit_test(test_requests_of_the_server_are_answered),
    cmocka_unit_test(test_a_stateless_tool_that_needs_input_is_asked_again),
    cmocka_unit_test(test_a_changed_list_is_read_again),
    cmocka_unit_test(test_a_hanging_tool_times_out_and_is_cancelled),
    cmocka_unit_test(test_a_server_that_dies_fails_its_calls_and_comes_back),
    cmocka_unit_test(test_a_server_that_cannot_start_is_not_tried_without_pause),
    cmocka_unit_test(test_the_pause_after_failures_grows),
    cmocka_unit_test(test_what_is_no_server_is_told),
    cmocka_unit_test(test_a_server_without_tools_is_no_failure),
    cmocka_unit_test(test_a_server_that_is_mute_to_the_probe_is_greeted),
    cmocka_unit_test(test_closing_ends_whatever_is_under_way),
    cmocka_unit_test(test_failing_allocations_never_lose_a_call),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

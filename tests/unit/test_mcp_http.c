/* test_mcp_http.c - the MCP client over Streamable HTTP, against tests/lib/mcp_server.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "tool/mcp.h"
#include "tool/mcp_config.h"
#include "tool_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define SERVER TEST_LIB "/mcp_server.mjs"

struct http_rig {
  struct tool_rig rig;
  pid_t pid;
  char url[100];
};

static void
start_server(struct http_rig *h, const char *one, const char *two)
{
  char file[400];
  const char *text = "(none)";

  (void)snprintf(file, sizeof(file), "%s/port", h->rig.dir);
  h->pid = fork();
  assert_true(h->pid >= 0);
  if (h->pid == 0) {
    (void)execlp("node", "node", SERVER, "http", file, one, two, (char *)NULL);
    _exit(127);
  }
  while (strcmp(text, "(none)") == 0) { /* it says its port when it listens */
    assert_int_equal(waitpid(h->pid, NULL, WNOHANG), 0);
    (void)usleep(2000);
    text = tool_get(&h->rig, "port");
  }
  (void)snprintf(h->url, sizeof(h->url), "http://127.0.0.1:%.10s/mcp", text);
}

static void
stop_server(struct http_rig *h)
{
  (void)kill(h->pid, SIGKILL);
  assert_int_equal(waitpid(h->pid, NULL, 0), h->pid);
}

static void
add(struct http_rig *h, const char *const *headers)
{
  const struct qp__mcp_config config = { .name = "far", .url = h->url, .headers = headers };

  assert_int_equal(qp__mcp_add(h->rig.tools, &config, NULL), QP_OK);
  while (qp__tools_starting(h->rig.tools) > 0)
    assert_true(uv_run(&h->rig.loop, UV_RUN_ONCE) || qp__tools_starting(h->rig.tools) == 0);
}

static void
init(struct http_rig *h, const char *one, const char *two)
{
  static const char *const headers[] = { "Authorization: Bearer right", "X-More: yes", NULL };

  tool_rig_init(&h->rig, (struct qp__tools_options){ 0 });
  start_server(h, one, two);
  add(h, headers);
}

static void
release(struct http_rig *h)
{
  tool_rig_close(&h->rig);
  stop_server(h);
  tool_rig_remove(&h->rig);
}

static void
test_every_way_of_answering(void **state)
{
  static const char *const modes[][2] = {
    { "json", NULL },   { "sse", NULL },     { "cut", NULL },   { "no-get", "sse" },
    { "modern", NULL }, { "modern", "sse" }, { "both", "sse" }, { "expire", NULL },
  };

  (void)state;
  for (size_t m = 0; m < COUNT(modes); m++) {
    struct http_rig h;
    struct tool_answer answer;

    init(&h, modes[m][0], modes[m][1]);
    if (qp__tools_count(h.rig.tools) != 8 + 24)
      fail_msg("%s %s: %s", modes[m][0], modes[m][1] ? modes[m][1] : "", h.rig.log);
    for (int i = 0; i < 10; i++) /* more than a session bears in the mode "expire" */
      tool_works(&h.rig, "mcp__far__echo", "{\"text\":\"hé\"}", "hé");
    tool_fails(&h.rig, "mcp__far__fail", "{}", "it went wrong");
    tool_fails(&h.rig, "mcp__far__error", "{}", "a protocol error");
    answer = tool_call(&h.rig, "mcp__far__big", "{\"bytes\":1000000}");
    assert_true(answer.cut && !answer.is_error);
    tool_answer_release(&answer);
    tool_works(&h.rig, "mcp__far__odd_name___", "{}", "odd"); /* not ASCII, in a header */
    release(&h);
  }
}

/* A server may have all of its tools only when it has taken the end of the handshake: it is not
 * asked for them before. */
static void
test_tools_are_asked_for_behind_the_handshake(void **state)
{
  struct http_rig h;

  (void)state;
  init(&h, "late-tool", "no-get");
  assert_int_equal(qp__tools_count(h.rig.tools), 8 + 25);
  release(&h);
}

/* Many calls at once when the session ends: each is sent again in a new one. */
static void
test_calls_in_parallel_survive_the_end_of_a_session(void **state)
{
  struct tool_answer answers[12];
  struct http_rig h;
  size_t good = 0;

  (void)state;
  init(&h, "expire", NULL);
  for (size_t i = 0; i < COUNT(answers); i++)
    assert_non_null(tool_start(&h.rig, "mcp__far__echo", "{\"text\":\"x\"}", 0, &answers[i]));
  for (size_t i = 0; i < COUNT(answers); i++) {
    tool_wait(&h.rig, &answers[i].done);
    good += !answers[i].is_error;
    tool_answer_release(&answers[i]);
  }
  assert_true(good >= 6); /* three in the first session, three of those sent again */
  tool_works(&h.rig, "mcp__far__echo", "{\"text\":\"y\"}", "y");
  release(&h);
}

static void
test_headers_say_what_the_protocol_wants(void **state)
{
  struct http_rig h;
  struct tool_answer answer;

  (void)state;
  init(&h, "sse", NULL);
  answer = tool_call(&h.rig, "mcp__far__headers", "{}");
  assert_non_null(strstr(answer.text, "\"authorization\":\"Bearer right\""));
  assert_non_null(strstr(answer.text, "\"x-more\":\"yes\""));
  assert_non_null(strstr(answer.text, "\"mcp-session-id\":\"s-1"));
  assert_non_null(strstr(answer.text, "\"mcp-protocol-version\":\"2025-11-25\""));
  assert_non_null(strstr(answer.text, "\"accept\":\"application/json, text/event-stream\""));
  assert_null(strstr(answer.text, "\"expect\""));
  tool_answer_release(&answer);
  release(&h);
  init(&h, "modern", NULL);
  answer = tool_call(&h.rig, "mcp__far__headers", "{}");
  assert_non_null(strstr(answer.text, "\"mcp-protocol-version\":\"2026-07-28\""));
  assert_non_null(strstr(answer.text, "\"mcp-method\":\"tools/call\""));
  assert_non_null(strstr(answer.text, "\"mcp-name\":\"headers\""));
  assert_null(strstr(answer.text, "mcp-session-id"));
  assert_null(strstr(answer.text, "\"method\":\"GET\""));
  tool_answer_release(&answer);
  assert_null(strstr(h.rig.log, "Bearer"));
  release(&h);
}

static void
test_requests_and_notices_of_the_server(void **state)
{
  static const char *const modes[] = { "sse", "json" }; /* on the answer's stream, on their own */

  (void)state;
  for (size_t m = 0; m < COUNT(modes); m++) {
    struct http_rig h;
    struct tool_answer answer;

    init(&h, modes[m], NULL);
    tool_works(&h.rig, "mcp__far__echo", "{\"text\":\"x\"}", "x");
    answer = tool_call(&h.rig, "mcp__far__ask", "{}");
    if (answer.is_error)
      fail_msg("%s: %s", modes[m], answer.text);
    assert_non_null(strstr(answer.text, "\"roots/list\":{\"roots\":[{\"uri\":\"file://"));
    assert_non_null(strstr(answer.text, "\"sampling/createMessage\":{\"error\":-32601}"));
    tool_answer_release(&answer);
    tool_works(&h.rig, "mcp__far__change", "{}", "changed");
    while (!qp__tools_find(h.rig.tools, "mcp__far__extra"))
      assert_true(uv_run(&h.rig.loop, UV_RUN_ONCE));
    release(&h);
  }
}

static void
test_a_stateless_tool_that_needs_input(void **state)
{
  struct http_rig h;

  (void)state;
  init(&h, "modern", NULL);
  tool_works(&h.rig, "mcp__far__need_roots", "{}", "\"state\":\"st-1\"");
  tool_fails(&h.rig, "mcp__far__need_human", "{}", "which quipu does not support");
  release(&h);
}

static void
test_hanging_and_cancelled_calls(void **state)
{
  static const char *const modes[] = { "json", "sse", "modern" };

  (void)state;
  for (size_t m = 0; m < COUNT(modes); m++) {
    struct http_rig h;
    struct tool_answer hanging;
    struct tool_answer other;

    init(&h, modes[m], NULL);
    assert_non_null(tool_start(&h.rig, "mcp__far__hang", "{}", 200, &hanging));
    assert_non_null(tool_start(&h.rig, "mcp__far__slow", "{\"ms\":300}", 0, &other));
    tool_wait(&h.rig, &hanging.done);
    assert_int_equal(hanging.outcome, QP__TOOL_TIMEOUT);
    tool_wait(&h.rig, &other.done);
    assert_string_equal(other.text, "waited 300");
    tool_answer_release(&hanging);
    tool_answer_release(&other);
    for (bool told = m == 2; !told;) { /* the notice has a connection of its own */
      other = tool_call(&h.rig, "mcp__far__cancelled", "{}");
      assert_false(other.is_error);
      told = strcmp(other.text, "[]") != 0;
      tool_answer_release(&other);
    }
    release(&h);
  }
}

static void
test_a_server_that_goes_away_fails_its_calls(void **state)
{
  struct http_rig h;
  struct tool_answer hanging;

  (void)state;
  init(&h, "sse", NULL);
  assert_non_null(tool_start(&h.rig, "mcp__far__hang", "{}", 0, &hanging));
  tool_works(&h.rig, "mcp__far__echo", "{\"text\":\"x\"}", "x");
  tool_fails(&h.rig, "mcp__far__die", "{}", "");
  tool_wait(&h.rig, &hanging.done);
  assert_true(hanging.is_error);
  tool_answer_release(&hanging);
  tool_fails(&h.rig, "mcp__far__echo", "{\"text\":\"x\"}", "");
  release(&h);
}

static void
test_a_server_that_refuses_us_is_told_and_tried_again(void **state)
{
  static const char *const wrong[] = { "Authorization: Bearer wrong", NULL };
  struct http_rig h;

  (void)state;
  tool_rig_init(&h.rig, (struct qp__tools_options){ 0 });
  start_server(&h, "json", NULL);
  add(&h, wrong);
  assert_int_equal(qp__tools_count(h.rig.tools), 8);
  if (!strstr(h.rig.log, "refuses us with HTTP status 401"))
    fail_msg("%s", h.rig.log);
  assert_null(strstr(h.rig.log, "wrong"));
  h.rig.log[0] = 0;
  qp__tools_retry(h.rig.tools);
  while (!h.rig.log[0])
    assert_true(uv_run(&h.rig.loop, UV_RUN_ONCE) || h.rig.log[0]);
  assert_non_null(strstr(h.rig.log, "401"));
  release(&h);
  tool_rig_init(&h.rig, (struct qp__tools_options){ 0 });
  (void)snprintf(h.url, sizeof(h.url), "http://127.0.0.1:1/mcp");
  add(&h, NULL);
  assert_non_null(strstr(h.rig.log, "the MCP server 'far': cannot initialize: Failed to connect"));
  tool_rig_release(&h.rig);
}

static void
test_a_session_is_ended(void **state)
{
  struct http_rig h;

  (void)state;
  init(&h, "tell-delete", NULL);
  tool_works(&h.rig, "mcp__far__echo", "{\"text\":\"x\"}", "x");
  tool_rig_close(&h.rig);
  assert_string_equal(tool_get(&h.rig, "port.deleted"), "yes");
  stop_server(&h);
  tool_rig_remove(&h.rig);
}

static void
test_closing_at_any_moment(void **state)
{
  static const char *const modes[] = { "sse", "modern" };

  (void)state;
  for (size_t m = 0; m < COUNT(modes); m++) {
    struct http_rig h;

    tool_rig_init(&h.rig, (struct qp__tools_options){ 0 });
    start_server(&h, modes[m], NULL);
    tool_rig_close(&h.rig);
    for (int turns = 0; turns < 30; turns++) {
      const struct qp__mcp_config config = { .name = "far", .url = h.url };
      struct tool_answer answer = { .done = false };
      bool begun = false;

      assert_int_equal(uv_loop_init(&h.rig.loop), 0);
      assert_int_equal(tool_rig_open(&h.rig, (struct qp__tools_options){ 0 }, NULL), QP_OK);
      assert_int_equal(qp__mcp_add(h.rig.tools, &config, NULL), QP_OK);
      for (int i = 0; i < turns && qp__tools_starting(h.rig.tools) > 0; i++)
        (void)uv_run(&h.rig.loop, UV_RUN_ONCE);
      if (qp__tools_find(h.rig.tools, "mcp__far__hang"))
        begun = tool_start(&h.rig, "mcp__far__hang", "{}", 0, &answer) != NULL;
      tool_rig_close(&h.rig);
      assert_int_equal(answer.done, begun);
      tool_answer_release(&answer);
    }
    stop_server(&h);
    tool_rig_remove(&h.rig);
  }
}

static void
test_failing_allocations_never_lose_a_call(void **state)
{
  static const char *const modes[] = { "sse", "modern" };
  /* libcurl may lose an answer with the memory for it; then the time of the start ends it. */
  const struct qp__tools_options options = { .mcp_probe_ms = 1000, .mcp_start_ms = 2000 };
  long step = getenv("QUIPU_TEST_LONG") ? 1 : 9;

  (void)state;
  for (size_t m = 0; m < COUNT(modes); m++) {
    struct http_rig h;
    bool fired = true;

    tool_rig_init(&h.rig, (struct qp__tools_options){ 0 });
    start_server(&h, modes[m], NULL);
    tool_rig_close(&h.rig);
    for (long n = 1; fired; n += step) {
      const struct qp__mcp_config config = { .name = "far", .url = h.url };
      struct tool_answer answer = { .done = false };

      assert_int_equal(uv_loop_init(&h.rig.loop), 0);
      assert_int_equal(tool_rig_open(&h.rig, options, NULL), QP_OK);
      alloc_fault_arm(n);
      if (qp__mcp_add(h.rig.tools, &config, NULL) == QP_OK) {
        while (qp__tools_starting(h.rig.tools) > 0)
          assert_true(uv_run(&h.rig.loop, UV_RUN_ONCE) || qp__tools_starting(h.rig.tools) == 0);
        if (tool_start(&h.rig, "mcp__far__echo", "{\"text\":\"hi\"}", 0, &answer))
          tool_wait(&h.rig, &answer.done);
      }
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      assert_true(!answer.done || answer.is_error || strcmp(answer.text, "hi") == 0);
      tool_answer_release(&answer);
      tool_rig_close(&h.rig);
    }
    stop_server(&h);
    tool_rig_remove(&h.rig);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_way_of_answering),
    cmocka_unit_test(test_tools_are_asked_for_behind_the_handshake),
    cmocka_unit_test(test_calls_in_parallel_survive_the_end_of_a_session),
    cmocka_unit_test(test_headers_say_what_the_protocol_wants),
    cmocka_unit_test(test_requests_and_notices_of_the_server),
    cmocka_unit_test(test_a_stateless_tool_that_needs_input),
    cmocka_unit_test(test_hanging_and_cancelled_calls),
    cmocka_unit_test(test_a_server_that_goes_away_fails_its_calls),
    cmocka_unit_test(test_a_server_that_refuses_us_is_told_and_tried_again),
    cmocka_unit_test(test_a_session_is_ended),
    cmocka_unit_test(test_closing_at_any_moment),
    cmocka_unit_test(test_failing_allocations_never_lose_a_call),
  };

  (void)unsetenv("http_proxy");
  (void)unsetenv("https_proxy");
  (void)unsetenv("all_proxy");
  (void)unsetenv("ALL_PROXY");
  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

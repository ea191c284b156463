/* test_mcp_states.c - the MCP client with servers that are slow, reject requests, die, restart and
 * flood: their states, the restarts, and the log of their output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/mcp.h"
#include "tool/mcp_config.h"
#include "tool_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define SERVER TEST_LIB "/mcp_server.mjs"

/* Short times, so that a test does not wait for pauses. */
static const struct qp__tools_options quick = {
  .mcp_probe_ms = 200,
  .mcp_pause_ms = 10,
  .mcp_log_interval_ms = 100,
};

static void
add(struct tool_rig *rig, const char *one, const char *two)
{
  const char *argv[] = { "node", SERVER, one, two, NULL };
  const struct qp__mcp_config config = { .name = "test", .argv = argv };

  assert_int_equal(qp__mcp_add(rig->tools, &config, NULL), QP_OK);
}

static void
wait_start(struct tool_rig *rig)
{
  while (qp__tools_starting(rig->tools) > 0)
    assert_true(uv_run(&rig->loop, UV_RUN_ONCE) || qp__tools_starting(rig->tools) == 0);
}

static struct qp__tool_server
server_of(const struct tool_rig *rig)
{
  struct qp__tool_server server;

  assert_true(qp__tools_server(rig->tools, 0, &server));
  assert_false(qp__tools_server(rig->tools, 1, &server));
  assert_true(qp__tools_server(rig->tools, 0, &server));
  return server;
}

static void
wait_state(struct tool_rig *rig, const char *state)
{
  bool alive = true; /* the last thing that the loop has to do may be what is waited for */

  while (strcmp(server_of(rig).state, state) != 0) {
    assert_true(alive);
    alive = uv_run(&rig->loop, UV_RUN_ONCE) != 0;
  }
}

static void
wait_log(struct tool_rig *rig, const char *part)
{
  while (!strstr(rig->log, part))
    assert_true(uv_run(&rig->loop, UV_RUN_ONCE));
}

static size_t
count_lines(const char *text, const char *part)
{
  size_t n = 0;

  for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
    n++;
  return n;
}

/* ---- slow ---- */

/* The time for the probe is not the time for the answer to the greeting, or to the list. */
static void
test_a_slow_server_has_the_whole_time_of_the_start(void **state)
{
  static const char *const modes[][2] = {
    { "greet-ms=500", "legacy" }, /* refuses the probe at once */
    { "greet-ms=500", "mute-probe" }, { "greet-ms=500", "die-probe" },
    { "list-ms=300", "legacy" },      { "list-ms=300", "modern" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(modes); i++) {
    struct tool_rig rig;

    tool_rig_init(&rig, quick);
    add(&rig, modes[i][0], modes[i][1]);
    assert_string_equal(server_of(&rig).state, "starting");
    wait_start(&rig);
    if (strcmp(server_of(&rig).state, "ready") != 0)
      fail_msg("%s %s: %s", modes[i][0], modes[i][1], rig.log);
    assert_int_equal(server_of(&rig).tools, 24);
    assert_string_equal(server_of(&rig).error, "");
    assert_string_equal(server_of(&rig).transport, "stdio");
    tool_rig_release(&rig);
  }
}

static void
test_a_server_that_never_answers_fails_with_the_time(void **state)
{
  struct qp__tools_options options = quick;
  struct tool_rig rig;

  (void)state;
  options.mcp_start_ms = 900;
  options.mcp_pause_ms = 60000;
  tool_rig_init(&rig, options);
  add(&rig, "never", NULL);
  wait_start(&rig);
  assert_string_equal(server_of(&rig).state, "failed");
  assert_string_equal(server_of(&rig).error, "it did not answer within 1 s");
  tool_rig_release(&rig);
}

/* ---- dying ---- */

static void
test_a_server_that_fails_at_the_start_is_tried_again_by_itself(void **state)
{
  struct tool_rig rig;
  char mode[400];

  (void)state;
  tool_rig_init(&rig, quick);
  (void)snprintf(mode, sizeof(mode), "fail-until=%s/go", rig.dir);
  add(&rig, mode, NULL);
  wait_start(&rig);
  while (server_of(&rig).retry_ms < 0) /* the next try may have begun already */
    assert_true(uv_run(&rig.loop, UV_RUN_ONCE));
  assert_string_equal(server_of(&rig).state, "failed");
  assert_string_equal(server_of(&rig).error, "it ended with exit code 8");
  assert_true(server_of(&rig).failures >= 1);
  assert_int_equal(server_of(&rig).tools, 0);
  while (server_of(&rig).failures < 3)
    assert_true(uv_run(&rig.loop, UV_RUN_ONCE));
  tool_put(&rig, "go", "");
  wait_state(&rig, "ready");
  assert_string_equal(server_of(&rig).error, "");
  assert_int_equal(server_of(&rig).retry_ms, -1);
  tool_works(&rig, "mcp__test__echo", "{\"text\":\"here\"}", "here");
  assert_int_equal(server_of(&rig).failures, 0);
  tool_rig_release(&rig);
}

/* Whoever asks for it (SIGHUP of the server) need not wait for the pause. */
static void
test_a_retry_does_not_wait_for_the_pause(void **state)
{
  struct qp__tools_options options = quick;
  struct tool_rig rig;
  char mode[400];

  (void)state;
  options.mcp_pause_ms = 3600000;
  tool_rig_init(&rig, options);
  (void)snprintf(mode, sizeof(mode), "fail-until=%s/go", rig.dir);
  add(&rig, mode, NULL);
  wait_start(&rig);
  assert_true(server_of(&rig).retry_ms > 0);
  tool_put(&rig, "go", "");
  qp__tools_retry(rig.tools);
  wait_state(&rig, "ready");
  tool_rig_release(&rig);
}

static void
test_a_server_that_died_is_started_again_without_a_call(void **state)
{
  struct tool_rig rig;

  (void)state;
  tool_rig_init(&rig, quick);
  add(&rig, "legacy", NULL);
  wait_start(&rig);
  tool_fails(&rig, "mcp__test__die", "{}", "exit code 3");
  wait_state(&rig, "ready");
  tool_fails(&rig, "mcp__test__die", "{}", "exit code 3");
  wait_state(&rig, "ready");
  tool_works(&rig, "mcp__test__echo", "{\"text\":\"back\"}", "back");
  tool_rig_release(&rig);
}

/* ---- floods ---- */

static void
test_a_flood_on_standard_error_is_a_bounded_log(void **state)
{
  struct qp__tools_options options = quick;
  struct tool_rig rig;

  (void)state;
  options.mcp_log_interval_ms = 3600000; /* all of it is one interval */
  tool_rig_init(&rig, options);
  add(&rig, "legacy", NULL);
  wait_start(&rig);
  tool_works(&rig, "mcp__test__flood", "{\"lines\":500000}", "flooded");
  tool_rig_close(&rig); /* the end of the server ends the interval */
  assert_int_equal(count_lines(rig.log, "test: y\n"), 100);
  if (!strstr(rig.log, "test: printed too much: left out 499900 lines (499900 bytes)"))
    fail_msg("%s", rig.log);
  tool_rig_remove(&rig);
}

static void
test_every_interval_of_the_log_has_its_own_lines_and_summary(void **state)
{
  struct tool_rig rig;

  (void)state;
  tool_rig_init(&rig, quick);
  add(&rig, "legacy", NULL);
  wait_start(&rig);
  for (size_t i = 1; i <= 2; i++) {
    tool_works(&rig, "mcp__test__flood", "{\"lines\":200,\"bytes\":2}", "flooded");
    while (count_lines(rig.log, "left out") < i)
      assert_true(uv_run(&rig.loop, UV_RUN_ONCE));
  }
  assert_true(count_lines(rig.log, "test: yy\n") <= 100 * count_lines(rig.log, "left out"));
  tool_rig_release(&rig);
}

/* No more is read of it for a while, and the calls work as ever. */
static void
test_a_flood_of_megabytes_does_not_stop_calls(void **state)
{
  struct tool_rig rig;
  struct tool_answer flood;

  (void)state;
  tool_rig_init(&rig, quick);
  add(&rig, "legacy", NULL);
  wait_start(&rig);
  assert_non_null(
      tool_start(&rig, "mcp__test__flood", "{\"lines\":400000,\"bytes\":100}", 0, &flood));
  for (int i = 0; i < 20; i++)
    tool_works(&rig, "mcp__test__echo", "{\"text\":\"x\"}", "x");
  tool_wait(&rig, &flood.done);
  assert_string_equal(flood.text, "flooded");
  tool_answer_release(&flood);
  tool_rig_release(&rig);
}

static void
test_a_server_that_floods_its_output_has_failed(void **state)
{
  struct qp__tools_options options = quick;
  struct tool_rig rig;

  (void)state;
  options.mcp_pause_ms = 3600000;
  options.mcp_log_interval_ms = 3600000;
  tool_rig_init(&rig, options);
  add(&rig, "flood-out", NULL);
  wait_state(&rig, "failed");
  wait_log(&rig, "it floods its standard output");
  assert_true(count_lines(rig.log, "this is not a message") <= 101);
  tool_rig_release(&rig);
}

/* ---- over HTTP ---- */

struct far {
  struct tool_rig rig;
  pid_t pid;
  int keeper; /* a socket that has the port, so that nobody else gets it between two servers */
  int port;
  char url[100];
};

/* A server may listen on the port, because both sockets have SO_REUSEADDR and this one does not
 * listen. */
static void
keep_port(struct far *f)
{
  struct sockaddr_in address = { .sin_family = AF_INET };
  socklen_t len = sizeof(address);
  int yes = 1;

  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  f->keeper = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(f->keeper >= 0);
  assert_int_equal(setsockopt(f->keeper, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
  assert_int_equal(bind(f->keeper, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(getsockname(f->keeper, (struct sockaddr *)&address, &len), 0);
  f->port = ntohs(address.sin_port);
  (void)snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d/mcp", f->port);
}

static void
start_far(struct far *f, const char *one, const char *two)
{
  char file[400];
  char port[40];

  (void)snprintf(file, sizeof(file), "%s/port", f->rig.dir);
  (void)snprintf(port, sizeof(port), "port=%d", f->port);
  (void)unlink(file);
  f->pid = fork();
  assert_true(f->pid >= 0);
  if (f->pid == 0) {
    (void)execlp("node", "node", SERVER, "http", file, port, one, two, (char *)NULL);
    _exit(127);
  }
  while (!tool_has(&f->rig, "port")) { /* it writes its port when it listens */
    assert_int_equal(waitpid(f->pid, NULL, WNOHANG), 0);
    (void)usleep(2000);
  }
}

static void
stop_far(struct far *f)
{
  (void)kill(f->pid, SIGKILL);
  assert_int_equal(waitpid(f->pid, NULL, 0), f->pid);
}

static void
init_far(struct far *f, const char *one, const char *two)
{
  struct qp__mcp_config config = { .name = "far" };

  keep_port(f);
  tool_rig_init(&f->rig, quick);
  start_far(f, one, two);
  config.url = f->url;
  assert_int_equal(qp__mcp_add(f->rig.tools, &config, NULL), QP_OK);
  wait_start(&f->rig);
}

static void
release_far(struct far *f)
{
  tool_rig_close(&f->rig);
  stop_far(f);
  (void)close(f->keeper);
  tool_rig_remove(&f->rig);
}

/* The SDKs of MCP answer an unknown session with 404, or with 400. */
static void
test_a_restarted_http_server_is_greeted_again(void **state)
{
  static const char *const modes[] = { "json", "bad-session" };
  static const char *const ways[] = { "no-get", "sse" };

  (void)state;
  for (size_t i = 0; i < COUNT(modes); i++)
    for (size_t j = 0; j < COUNT(ways); j++) {
      struct far f;

      init_far(&f, modes[i], ways[j]);
      assert_string_equal(server_of(&f.rig).transport, "http");
      tool_works(&f.rig, "mcp__far__echo", "{\"text\":\"one\"}", "one");
      stop_far(&f);
      start_far(&f, modes[i], ways[j]);
      tool_works(&f.rig, "mcp__far__echo", "{\"text\":\"two\"}", "two");
      assert_string_equal(server_of(&f.rig).state, "ready");
      release_far(&f);
    }
}

/* The stream of the server's own messages is opened again, and the new server does not know it. */
static void
test_new_tools_of_a_restarted_http_server_are_found_without_a_call(void **state)
{
  struct far f;

  (void)state;
  init_far(&f, "bad-session", NULL);
  tool_works(&f.rig, "mcp__far__echo", "{\"text\":\"one\"}", "one");
  assert_null(qp__tools_find(f.rig.tools, "mcp__far__extra"));
  stop_far(&f);
  start_far(&f, "bad-session", "more");
  while (!qp__tools_find(f.rig.tools, "mcp__far__extra"))
    assert_true(uv_run(&f.rig.loop, UV_RUN_ONCE));
  release_far(&f);
}

static void
test_an_http_server_that_is_gone_has_failed_until_it_is_back(void **state)
{
  struct far f;

  (void)state;
  init_far(&f, "no-get", NULL);
  stop_far(&f);
  tool_fails(&f.rig, "mcp__far__echo", "{}", "");
  wait_state(&f.rig, "failed");
  assert_string_not_equal(server_of(&f.rig).error, "");
  start_far(&f, "no-get", NULL);
  wait_state(&f.rig, "ready");
  tool_works(&f.rig, "mcp__far__echo", "{\"text\":\"back\"}", "back");
  release_far(&f);
}

static void
test_why_an_http_server_refuses_is_reported(void **state)
{
  struct far f;

  (void)state;
  init_far(&f, "refuse=the workspace has expired", NULL);
  assert_string_equal(server_of(&f.rig).state, "failed");
  assert_string_equal(server_of(&f.rig).error, "cannot initialize: the server answered with HTTP "
                                               "status 400: the workspace has expired");
  release_far(&f);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_slow_server_has_the_whole_time_of_the_start),
    cmocka_unit_test(test_a_server_that_never_answers_fails_with_the_time),
    cmocka_unit_test(test_a_server_that_fails_at_the_start_is_tried_again_by_itself),
    cmocka_unit_test(test_a_retry_does_not_wait_for_the_pause),
    cmocka_unit_test(test_a_server_that_died_is_started_again_without_a_call),
    cmocka_unit_test(test_a_flood_on_standard_error_is_a_bounded_log),
    cmocka_unit_test(test_every_interval_of_the_log_has_its_own_lines_and_summary),
    cmocka_unit_test(test_a_flood_of_megabytes_does_not_stop_calls),
    cmocka_unit_test(test_a_server_that_floods_its_output_has_failed),
    cmocka_unit_test(test_a_restarted_http_server_is_greeted_again),
    cmocka_unit_test(test_new_tools_of_a_restarted_http_server_are_found_without_a_call),
    cmocka_unit_test(test_an_http_server_that_is_gone_has_failed_until_it_is_back),
    cmocka_unit_test(test_why_an_http_server_refuses_is_reported),
  };

  (void)signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("mcp states", tests, NULL, NULL);
}

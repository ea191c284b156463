/* test_llm_demo.c - llm/demo.h: what the demo model says, which tools it calls, and scripts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "llm/call_int.h"
#include "llm/demo.h"
#include "llm_test.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const struct qp__llm_tool tools[] = {
  { "list_directory", NULL, { "", 0 }, false }, { "read_file", NULL, { "", 0 }, false },
  { "write_file", NULL, { "", 0 }, false },     { "grep", NULL, { "", 0 }, false },
  { "run_command", NULL, { "", 0 }, false },
};

static uv_loop_t loop;
static struct qp__llm_engine *engine;
static struct qp__demo_script *script;

struct listener {
  struct qp__buf log;
  int done;
  struct qp__llm_call *call;
  int cancel_after; /* events; 0: never */
};

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct listener *l = arg;
  enum qp_rc rc = llm_log_event(&l->log, event, err);

  if (l->cancel_after && --l->cancel_after == 0)
    qp__llm_call_cancel(l->call);
  return rc;
}

static void
on_done(void *arg, const struct qp__llm_fault *fault)
{
  struct listener *l = arg;

  l->done++;
  if (fault)
    (void)qp__buf_addf(&l->log, "fault %s %s %lld\n", qp__fault_name(fault->kind), fault->message,
                       (long long)fault->retry_after_ms);
  else
    (void)qp__buf_add_str(&l->log, "done\n");
}

static int
set_up(void **state)
{
  (void)state;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(llm_engine_open(&loop, &engine), QP_OK);
  script = NULL;
  return 0;
}

static int
tear_down(void **state)
{
  (void)state;
  qp__llm_engine_close(engine);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
  qp__demo_script_free(script);
  return 0;
}

static void
use_script(const char *json)
{
  struct qp_err err = { QP_OK, "" };

  if (qp__demo_script_parse("script", (struct qp_bytes){ json, strlen(json) }, &script, &err))
    fail_msg("%s", err.msg);
}

/* What the demo answers to a history. Free with free(). */
static char *
ask(const char *messages, size_t tool_count, int cancel_after)
{
  struct qp__llm_request request = { .model = "demo", .tools = tools, .tool_count = tool_count };
  struct qp_message **list = llm_messages(messages, &request.message_count);
  struct qp__llm_provider_spec spec = { .name = "demo", .script = script };
  struct qp__llm_providers providers = { 0 };
  struct listener l = { .cancel_after = cancel_after };
  struct qp__llm_call_fns fns = { on_event, on_done, &l };
  char *text;

  request.messages = (const struct qp_message *const *)list;
  qp__buf_init(&l.log, 100000);
  assert_int_equal(qp__llm_providers_add(&providers, &spec, NULL), QP_OK);
  assert_int_equal(qp__llm_call_start(engine, &providers.list[0], &request, &fns, &l.call, NULL),
                   QP_OK);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(l.done, cancel_after ? 0 : 1);
  assert_null(engine->calls);
  text = strdup(l.log.data);
  qp__buf_release(&l.log);
  llm_messages_free(list);
  qp__llm_providers_release(&providers);
  return text;
}

#define U(text) "{\"role\":\"user\",\"text\":\"" text "\"}"

static void
it_says_what_it_is_word_by_word(void **state)
{
  char *got;
  size_t pieces = 0;

  (void)state;
  use_script("{\"interval_ms\":0}");
  got = ask("[" U("What is the capital of France?") "]", 0, 0);
  assert_ptr_equal(strstr(got, "start id= model=demo\ntext 0 \"I \"\ntext 0 \"am \"\n"), got);
  assert_null(strstr(got, "Paris"));
  assert_non_null(strstr(got, "text 0 \"ANTHROPIC_API_KEY \"\n"));
  assert_non_null(strstr(got, "text 0 \"capital \"\n"));
  assert_non_null(strstr(got, "\nusage in="));
  assert_non_null(strstr(got, "\nstop 1 end_turn\ndone\n"));
  for (const char *p = got; (p = strstr(p, "text 0 ")) != NULL; p++)
    pieces++;
  assert_true(pieces > 40);
  free(got);
}

static void
it_calls_tools_in_plain_words(void **state)
{
  static const struct {
    const char *text;
    const char *call; /* NULL: none */
  } rows[] = {
    { U("Please list the files."), "list_directory\narguments 1 \"{\\\"path\\\":\\\".\\\"}\"\n" },
    { U("list files in src/llm please"),
      "list_directory\narguments 1 \"{\\\"path\\\":\\\"src/llm\\\"}\"\n" },
    { U("Read README.md."), "read_file\narguments 1 \"{\\\"path\\\":\\\"README.md\\\"}\"\n" },
    { U("read the file docs/a b.txt, please"),
      "read_file\narguments 1 \"{\\\"path\\\":\\\"docs/a\\\"}\"\n" },
    { U("search for main()"), "grep\narguments 1 \"{\\\"pattern\\\":\\\"main()\\\"}\"\n" },
    { U("write \\\"hi there\\\" to notes.txt"),
      "write_file\narguments 1 \"{\\\"path\\\":\\\"notes.txt\\\",\\\"content\\\":\\\"hi "
      "there\\\"}\"\n" },
    { U("run `ls -l | wc`"),
      "run_command\narguments 1 \"{\\\"command\\\":\\\"ls -l | wc\\\"}\"\n" },
    { U("delete notes.txt"), NULL }, /* not on offer */
    { U("I like to read books"), NULL },
    { U("Hello"), NULL },
  };

  (void)state;
  use_script("{\"interval_ms\":0}");
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__buf messages;
    char *got;
    char *call;

    qp__buf_init(&messages, 10000);
    (void)qp__buf_addf(&messages, "[%s]", rows[i].text);
    got = ask(messages.data, COUNT(tools), 0);
    call = strstr(got, "call 1 demo_call_1 ");
    if (!rows[i].call) {
      assert_null(call);
      assert_non_null(strstr(got, "stop 1 end_turn\n"));
    } else if (!call || strncmp(call + 19, rows[i].call, strlen(rows[i].call)) != 0) {
      fail_msg("%s: %s", rows[i].text, got);
    } else {
      assert_non_null(strstr(got, "stop 2 tool_use\ndone\n"));
    }
    free(got);
    qp__buf_release(&messages);
  }
}

static void
it_tells_what_a_tool_said(void **state)
{
  char *got;

  (void)state;
  use_script("{\"interval_ms\":0}");
  got = ask("[" U("list the files") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"x\","
                                    "\"tool_name\":\"list_directory\"}]},{\"role\":\"tool\",\"tool_"
                                    "result\":"
                                    "{\"request_id\":\"x\",\"result\":\"a.txt\"}}]",
            COUNT(tools), 0);
  assert_non_null(strstr(got, "text 0 \"list_directory \"\ntext 0 \"answered:\\n\\n\"\n"
                              "text 0 \"a.txt\\n\\n\"\n"));
  assert_null(strstr(got, "call "));
  free(got);
}

static void
a_script_is_played(void **state)
{
  static const struct {
    const char *messages, *want;
  } rounds[] = {
    { "[" U("one") "]", "start id= model=demo\nthinking 0 \"h \"\nthinking 0 \"m\"\n"
                        "signature 0 \"s\"\ntext 1 \"a\"\ncall 2 c1 f\n"
                        "arguments 2 \"{\\\"x\\\":1}\"\nend 2 {\"x\":1}\n"
                        "usage in=10 read=1 write=2 out=20\nstop 2 tool_use\ndone\n" },
    { "[" U("two") "]", "fault overloaded busy 500\n" },
    { "[" U("say weather") "]",
      "start id= model=demo\ntext 0 \"sun\"\nusage in=3 read=0 write=0 out=1\n"
      "stop 3 max_tokens\ndone\n" },
    { "[" U("THE WEATHER?") "]",
      "start id= model=demo\ntext 0 \"sun\"\nusage in=4 read=0 write=0 out=1\n"
      "stop 3 max_tokens\ndone\n" },
    { "[" U("three") "]", "start id= model=demo\ntext 0 \"half\"\n"
                          "fault cut the answer ended before it was complete -1\n" },
    { "[" U("four") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"x\",\"tool_name\":\"f\"}]},"
                    "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"x\",\"result\":\"r\"}}]",
      "start id= model=demo\ntext 0 \"thanks\"\nusage in=2 read=0 write=0 out=2\n"
      "stop 1 end_turn\ndone\n" },
    { "[" U("five") "]", "start id= model=demo\nusage in=2 read=0 write=0 out=0\n"
                         "stop 1 end_turn\ndone\n" },
  };

  (void)state;
  use_script(
      "{\"interval_ms\":0,\"steps\":["
      "{\"match\":\"*weather*\",\"play\":[{\"text\":\"sun\"},{\"stop\":\"max_tokens\"}]},"
      "{\"after_tool\":\"f\",\"play\":[{\"text\":\"thanks\"}]},"
      "{\"play\":[{\"thinking\":\"h m\",\"signature\":\"s\"},{\"text\":\"a\"},{\"delay_ms\":1},"
      "{\"call\":\"f\",\"arguments\":{\"x\":1},\"id\":\"c1\"},{\"usage\":{\"input\":10,"
      "\"cache_read\":1,\"cache_write\":2,\"output\":20}}]},"
      "{\"play\":[{\"error\":{\"status\":529,\"type\":\"overloaded_error\",\"message\":"
      "\"busy\",\"retry_after_ms\":500}}]},"
      "{\"times\":0,\"play\":[{\"text\":\"never\"}]},"
      "{\"play\":[{\"text\":\"half\"},{\"cut\":true}]},"
      "{\"play\":[]}]}");
  for (size_t i = 0; i < COUNT(rounds); i++) {
    char *got = ask(rounds[i].messages, 0, 0);

    assert_string_equal(got, rounds[i].want);
    free(got);
  }
  { /* used up: it speaks for itself */
    char *got = ask("[" U("six") "]", 0, 0);

    assert_non_null(strstr(got, "text 0 \"quipu. \"\n"));
    free(got);
  }
}

static void
a_call_can_be_cancelled_at_every_event(void **state)
{
  (void)state;
  use_script("{\"interval_ms\":0,\"steps\":[{\"times\":20,\"play\":[{\"thinking\":\"t\","
             "\"signature\":\"s\"},{\"text\":\"a b\"},{\"call\":\"f\"}]}]}");
  for (int n = 1; n <= 10; n++)
    free(ask("[" U("x") "]", 0, n));
}

static void
bad_scripts_are_refused(void **state)
{
  static const struct {
    const char *json, *sentence;
  } bad[] = {
    { "[]", "script" },
    { "{\"steps\":{}}", "\"steps\" must be" },
    { "{\"interval_ms\":-1}", "\"interval_ms\" must be" },
    { "{\"steps\":[1]}", "\"steps[0]\" must be an object" },
    { "{\"steps\":[{}]}", "\"steps[0].play\" is missing" },
    { "{\"steps\":[{\"play\":[{\"txt\":\"a\"}]}]}", "\"steps[0].play[0]\" must have" },
    { "{\"steps\":[{\"play\":[]},{\"play\":[{\"text\":1}]}]}", "steps[1].play[0]" },
    { "{\"steps\":[{\"play\":[{\"call\":\"\"}]}]}", "steps[0].play[0]" },
    { "{\"steps\":[{\"match\":3,\"play\":[]}]}", "\"steps[0].match\" must be" },
    { "{\"steps\":[{\"play\":[{\"error\":{\"status\":\"bad\"}}]}]}", "status" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct qp__demo_script *none = NULL;
    struct qp_err err = { QP_OK, "" };

    assert_int_equal(qp__demo_script_parse("script",
                                           (struct qp_bytes){ bad[i].json, strlen(bad[i].json) },
                                           &none, &err),
                     QP_INVALID);
    assert_null(none);
    if (!strstr(err.msg, bad[i].sentence))
      fail_msg("%s: %s", bad[i].json, err.msg);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(it_says_what_it_is_word_by_word),
    TEST(it_calls_tools_in_plain_words),
    TEST(it_tells_what_a_tool_said),
    TEST(a_script_is_played),
    TEST(a_call_can_be_cancelled_at_every_event),
    TEST(bad_scripts_are_refused),
  };

  return cmocka_run_group_tests_name("demo", tests, NULL, NULL);
}

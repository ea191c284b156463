/* test_llm_allocations.c - src/llm with every allocation failing once, and with all allocations
 * failing from each one on: the result is QP_OK and the same as with enough memory, or QP_NOMEM and
 * nothing. AddressSanitizer checks for leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fault.h"
#include "llm/answer.h"
#include "llm/call.h"
#include "llm/decoder.h"
#include "llm/demo.h"
#include "llm/models.h"
#include "llm/provider.h"
#include "llm_server.h"
#include "llm_test.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const struct qp__llm_codec *const codecs[] = { &qp__codec_anthropic, &qp__codec_openai,
                                                      &qp__codec_ollama };
static const struct qp__llm_codec *codec; /* that is tested */
static struct qp_message **messages;
static size_t message_count;

/* Puts what came out into `out`, as text. */
typedef enum qp_rc deed(struct qp__buf *out);

/* One run. The text is copied out by hand, because the buffer's own memory may fail too. */
static enum qp_rc
run(deed *fn, bool all, long n, char *text, size_t size)
{
  struct qp__buf out;
  enum qp_rc rc;

  qp__buf_init(&out, size - 1);
  if (n && all)
    alloc_fault_arm_all(n);
  else if (n)
    alloc_fault_arm(n);
  rc = fn(&out);
  alloc_fault_disarm();
  memcpy(text, out.data ? out.data : "", out.len + 1);
  qp__buf_release(&out);
  return rc;
}

static void
try_all(const char *name, deed *fn)
{
  enum { SIZE = 100000 };
  static char want[SIZE];
  static char got[SIZE];

  assert_int_equal(run(fn, false, 0, want, SIZE), QP_OK);
  for (int all = 0; all < 2; all++) {
    long n = 1;

    for (bool fired = true; fired; n++) {
      enum qp_rc rc = run(fn, all, n, got, SIZE);

      fired = alloc_fault_fired();
      if (rc != QP_OK && rc != QP_NOMEM)
        fail_msg("%s: allocation %ld: %s", name, n, qp_rc_name(rc));
      if (rc == QP_OK && strcmp(got, want) != 0)
        fail_msg("%s: allocation %ld: %s\n-- and not --\n%s", name, n, got, want);
    }
    assert_true(n > 2);
  }
}

/* ---- requests and answers ---- */

static enum qp_rc
blob(void *arg, const char *id, struct qp__buf *out, struct qp_err *err)
{
  (void)arg;
  (void)id;
  (void)err;
  return qp__buf_add(out, "\x89PNG\r\n\x1a\n!", 9);
}

static enum qp_rc
encode(struct qp__buf *out)
{
  static const struct qp__llm_tool tools[] = { { "f", "Does.", { "{}", 2 }, true } };
  struct qp__llm_request request = {
    .model = "m",
    .system = { "S", 1 },
    .messages = (const struct qp_message *const *)messages,
    .message_count = message_count,
    .tools = tools,
    .tool_count = 1,
    .cache = QP__CACHE_5M,
    .flags = QP__LLM_SEND_REASONING,
    .blob = blob,
  };

  return codec->encode(&request, out, NULL);
}

static const char *const streams[] = {
  "data: {\"type\":\"message_start\",\"message\":{\"id\":\"i\",\"model\":\"m\",\"usage\":"
  "{\"input_tokens\":1}}}\n\n"
  "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
  "\"redacted_thinking\",\"data\":\"d\"}}\n\ndata: "
  "{\"type\":\"content_block_stop\",\"index\":0}\n\n"
  "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\","
  "\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\n\n"
  "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\","
  "\"partial_json\":\"{\\\"x\\\":[1]}\"}}\n\n"
  "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":"
  "\"a\\ud83d\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
  "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"delta\":{\"reasoning\":\"h\",\"content\":"
  "\"a\",\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\"}}]}}]}\n\n"
  "data: "
  "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"function\":{\"name\":"
  "\"f\",\"arguments\":\"}\"}},{\"index\":1,\"id\":\"y\",\"function\":{\"name\":\"g\"}}]},"
  "\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n",
  "{\"model\":\"m\",\"message\":{\"thinking\":\"h\",\"content\":\"a\",\"tool_calls\":[{"
  "\"function\":"
  "{\"name\":\"f\",\"arguments\":{\"x\":1}}}]}}\n{\"done\":true}\n",
};

/* In two pieces, into an answer, into a message. */
static enum qp_rc
decode(struct qp__buf *out)
{
  const char *stream = streams[codec == codecs[0] ? 0 : codec == codecs[1] ? 1 : 2];
  size_t half = strlen(stream) / 2;
  struct qp__llm_fault fault;
  struct qp_message *message = NULL;
  struct qp__answer answer;
  struct qp__decoder *reader = NULL;
  char *json = NULL;
  size_t len = 0;
  enum qp_rc rc;

  qp__answer_init(&answer, codec->name);
  rc = qp__decoder_open(codec, (struct qp__llm_sink){ qp__answer_feed, &answer }, &reader, NULL);
  if (!rc)
    rc = qp__decoder_feed(reader, (struct qp_bytes){ stream, half }, NULL);
  if (!rc)
    rc = qp__decoder_feed(reader, (struct qp_bytes){ stream + half, strlen(stream) - half }, NULL);
  if (!rc)
    rc = qp__decoder_end(reader, &fault, NULL);
  qp__decoder_close(reader);
  if (!rc)
    rc = qp__answer_message(&answer, false, 5, &message, NULL);
  if (!rc)
    rc = qp_message_json(message, &json, &len, NULL);
  if (!rc)
    rc = qp__buf_add(out, json, len);
  qp_free(json);
  qp_message_free(message);
  qp__answer_release(&answer);
  return rc;
}

static void
codecs_survive(void **state)
{
  (void)state;
  messages = llm_messages(
      "[{\"role\":\"system\",\"text\":\"T\"},{\"role\":\"user\",\"content\":[{\"type\":\"image\","
      "\"url\":\"quipu:blobs/x\"},{\"type\":\"text\",\"text\":\"q\"}]},{\"role\":\"assistant\","
      "\"content\":[{\"type\":\"thinking\",\"text\":\"h\"},{\"type\":\"text\",\"text\":\"a\"}],"
      "\"tool_calls\":[{\"id\":\"x\",\"tool_name\":\"f\",\"arguments\":{\"a\":1}},{\"id\":\"x\","
      "\"tool_name\":\"g\"}]},{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"x\",\"result\":"
      "[1]}},{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"z\",\"result\":1}},"
      "{\"role\":\"system\",\"text\":\"note\"},{\"role\":\"assistant\",\"text\":\"b\"}]",
      &message_count);
  for (size_t i = 0; i < COUNT(codecs); i++) {
    codec = codecs[i];
    try_all("encode", encode);
    try_all("decode", decode);
  }
  llm_messages_free(messages);
}

/* ---- configuration ---- */

static const char *
env(void *arg, const char *name)
{
  (void)arg;
  return strstr(name, "KEY") ? "k" : NULL;
}

static enum qp_rc
configure(struct qp__buf *out)
{
  static const char row[] = "{\"id\":\"llama\",\"provider\":\"local\",\"window\":9}";
  static const char *const headers[] = { "a: b", "c: d", NULL };
  struct qp__llm_provider_spec spec = {
    .name = "local", .protocol = "ollama", .key = "x", .headers = headers
  };
  const struct qp__llm_provider *provider = NULL;
  struct qp__llm_providers providers;
  struct qp__llm_params params = { 0 };
  struct qp__models models = { 0 };
  const char *wire = NULL;
  json_t *value = json_loads(row, 0, NULL);
  json_t *parameters = json_loads("{\"stop\":\"x\",\"effort\":\"low\"}", 0, NULL);
  enum qp_rc rc = qp__llm_providers_init(&providers, env, NULL, NULL);

  if (!rc)
    rc = qp__llm_providers_add(&providers, &spec, NULL);
  if (!rc)
    rc = value && parameters ? qp__models_add(&models, value, NULL) : QP_NOMEM;
  if (!rc)
    rc = qp__llm_params_init(&params, parameters, NULL);
  if (!rc)
    rc = qp__llm_resolve(&providers, &models, "llama:8b", &provider, &wire, NULL);
  if (!rc)
    rc = qp__buf_addf(out, "%s %s %zu %s", provider->name, wire, providers.count, params.effort);
  json_decref(value);
  json_decref(parameters);
  qp__llm_params_release(&params);
  qp__models_release(&models);
  qp__llm_providers_release(&providers);
  return rc;
}

static void
configuration_survives(void **state)
{
  (void)state;
  try_all("configure", configure);
}

/* ---- calls ---- */

struct listener {
  struct qp__buf *log;
  int done;
  enum qp_rc rc;
};

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct listener *l = arg;

  return llm_log_event(l->log, event, err);
}

static void
on_done(void *arg, const struct qp__llm_fault *fault)
{
  struct listener *l = arg;

  l->done++;
  l->rc = fault ? QP_NOMEM : QP_OK;
  if (fault)
    assert_int_equal(fault->kind, QP__FAULT_INTERNAL);
}

static uv_loop_t loop;
static struct llm_server server;

/* The demo with a script, all of it. */
static enum qp_rc
play_demo(struct qp__buf *out)
{
  static const char json[] =
      "{\"interval_ms\":0,\"steps\":[{\"match\":\"*never*\",\"play\":[{\"text\":"
      "\"n\"},{\"call\":\"f\",\"arguments\":{\"x\":1}},{\"error\":"
      "{\"status\":500}}]}]}";
  static const struct qp__llm_tool tools[] = { { "list_directory", NULL, { "", 0 }, false } };
  struct qp__llm_request request = {
    .model = "demo",
    .messages = (const struct qp_message *const *)messages,
    .message_count = message_count,
    .tools = tools,
    .tool_count = 1,
  };
  struct qp__llm_provider_spec spec = { .name = "demo" };
  struct qp__llm_providers providers = { 0 };
  struct qp__llm_engine *engine = NULL;
  struct listener l = { .log = out };
  struct qp__llm_call_fns fns = { on_event, on_done, &l };
  struct qp__llm_call *call = NULL;
  enum qp_rc rc;

  rc = qp__demo_script_parse("script", (struct qp_bytes){ json, sizeof(json) - 1 }, &spec.script,
                             NULL);
  if (!rc)
    rc = qp__llm_providers_add(&providers, &spec, NULL);
  if (!rc)
    rc = llm_engine_open(&loop, &engine);
  if (!rc)
    rc = qp__llm_call_start(engine, &providers.list[0], &request, &fns, &call, NULL);
  if (!rc) {
    while (!l.done && uv_run(&loop, UV_RUN_ONCE))
      ;
    assert_int_equal(l.done, 1);
    rc = l.rc;
  }
  qp__llm_engine_close(engine);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  qp__llm_providers_release(&providers);
  qp__demo_script_free(spec.script);
  return rc;
}

static void
the_demo_survives(void **state)
{
  (void)state;
  messages = llm_messages("[{\"role\":\"user\",\"text\":\"list the files\"}]", &message_count);
  assert_int_equal(uv_loop_init(&loop), 0);
  try_all("demo", play_demo);
  assert_int_equal(uv_loop_close(&loop), 0);
  llm_messages_free(messages);
}

/* Memory is short while a call is started; the server shares the process and must not suffer. */
static enum qp_rc
start_call(struct qp__buf *out)
{
  struct qp__llm_request request = {
    .model = "m",
    .messages = (const struct qp_message *const *)messages,
    .message_count = message_count,
  };
  struct qp__llm_provider_spec spec = {
    .name = "x", .protocol = "openai", .base_url = server.url, .key = "k"
  };
  struct qp__llm_providers providers = { 0 };
  struct qp__llm_engine *engine = NULL;
  struct listener l = { .log = out };
  struct qp__llm_call_fns fns = { on_event, on_done, &l };
  struct qp__llm_call *call = NULL;
  enum qp_rc rc = qp__llm_providers_add(&providers, &spec, NULL);

  if (!rc)
    rc = llm_engine_open(&loop, &engine);
  if (!rc)
    rc = qp__llm_call_start(engine, &providers.list[0], &request, &fns, &call, NULL);
  alloc_fault_disarm();
  if (!rc) {
    while (!l.done && uv_run(&loop, UV_RUN_ONCE))
      ;
    rc = l.rc;
  }
  qp__llm_engine_close(engine);
  (void)uv_run(&loop, UV_RUN_NOWAIT);
  qp__llm_providers_release(&providers);
  return rc;
}

static void
starting_a_call_survives(void **state)
{
  (void)state;
  (void)signal(SIGPIPE, SIG_IGN);
  messages = llm_messages("[{\"role\":\"user\",\"text\":\"q\"}]", &message_count);
  assert_int_equal(uv_loop_init(&loop), 0);
  llm_server_start(&server, &loop);
  server.answer = "HTTP/1.1 200 OK\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"},"
                  "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
  try_all("call", start_call);
  llm_server_stop(&server);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
  llm_server_release(&server);
  llm_messages_free(messages);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(codecs_survive),
    cmocka_unit_test(configuration_survives),
    cmocka_unit_test(the_demo_survives),
    cmocka_unit_test(starting_a_call_survives),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("llm allocations", tests, NULL, NULL);
}

/* test_llm_fault.c - llm/fault.h: how error responses of providers are classified, row by row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "llm/fault.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define ANTHROPIC(type, message) \
  "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"" message "\"}}"
#define OPENAI(code, message) \
  "{\"error\":{\"message\":\"" message "\",\"type\":\"x\",\"param\":null,\"code\":\"" code "\"}}"

static const struct {
  int status;
  const char *body;
  enum qp__fault_kind kind;
  enum qp__fault_action action;
  const char *message; /* NULL: any */
} rows[] = {
  /* models that take no images */
  { 500,
    "{\"error\":{\"code\":500,\"type\":\"server_error\",\"message\":\"image input is not "
    "supported - hint: if this is unexpected, you may need to provide the mmproj\"}}",
    QP__FAULT_IMAGES, QP__ACTION_REPAIR, NULL },
  { 400, "{\"object\":\"error\",\"message\":\"tiny is not a multimodal model\"}", QP__FAULT_IMAGES,
    QP__ACTION_REPAIR, NULL },
  { 404, "{\"error\":{\"message\":\"No endpoints found that support image input\"}}",
    QP__FAULT_IMAGES, QP__ACTION_REPAIR, NULL },
  { 500, "{\"error\":{\"type\":\"server_error\",\"message\":\"disk image is full\"}}",
    QP__FAULT_SERVER, QP__ACTION_RETRY, NULL },
  /* Anthropic */
  { 400, ANTHROPIC("invalid_request_error", "max_tokens: Field required"), QP__FAULT_REQUEST,
    QP__ACTION_FATAL, "max_tokens: Field required" },
  { 400, ANTHROPIC("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    QP__FAULT_TOO_LONG, QP__ACTION_COMPACT, NULL },
  { 400,
    ANTHROPIC("invalid_request_error",
              "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
    QP__FAULT_TOO_LONG, QP__ACTION_COMPACT, NULL },
  { 400,
    ANTHROPIC("invalid_request_error", "messages.2: `tool_use` ids were found without "
                                       "`tool_result` blocks immediately after: toolu_1"),
    QP__FAULT_HISTORY, QP__ACTION_REPAIR, NULL },
  { 400,
    ANTHROPIC("invalid_request_error",
              "tool_use ids were found without tool_result blocks immediately after"),
    QP__FAULT_HISTORY, QP__ACTION_REPAIR, NULL },
  { 400,
    ANTHROPIC("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` "
                                       "block"),
    QP__FAULT_THINKING, QP__ACTION_REPAIR, NULL },
  { 400, ANTHROPIC("invalid_request_error", "Your credit balance is too low to access the API"),
    QP__FAULT_QUOTA, QP__ACTION_FATAL, NULL },
  { 401, ANTHROPIC("authentication_error", "invalid x-api-key"), QP__FAULT_AUTH, QP__ACTION_FATAL,
    "invalid x-api-key" },
  { 402, ANTHROPIC("billing_error", "pay"), QP__FAULT_QUOTA, QP__ACTION_FATAL, NULL },
  { 403, ANTHROPIC("permission_error", "no"), QP__FAULT_AUTH, QP__ACTION_FATAL, NULL },
  { 404, ANTHROPIC("not_found_error", "model: claude-z"), QP__FAULT_MODEL, QP__ACTION_FATAL, NULL },
  { 409, ANTHROPIC("conflict_error", "x"), QP__FAULT_SERVER, QP__ACTION_RETRY, NULL },
  { 413, "<html><body>413 Request Entity Too Large</body></html>", QP__FAULT_TOO_LARGE,
    QP__ACTION_SHRINK, "the provider answered with status 413" },
  { 413, ANTHROPIC("request_too_large", "x"), QP__FAULT_TOO_LARGE, QP__ACTION_SHRINK, NULL },
  { 429, ANTHROPIC("rate_limit_error", "slow"), QP__FAULT_RATE, QP__ACTION_RETRY, NULL },
  { 500, ANTHROPIC("api_error", "x"), QP__FAULT_SERVER, QP__ACTION_RETRY, NULL },
  { 504, ANTHROPIC("timeout_error", "x"), QP__FAULT_SERVER, QP__ACTION_RETRY, NULL },
  { 529, ANTHROPIC("overloaded_error", "Overloaded"), QP__FAULT_OVERLOADED, QP__ACTION_RETRY,
    "Overloaded" },
  /* OpenAI */
  { 400,
    OPENAI("context_length_exceeded",
           "This model's maximum context length is 8192 tokens. However, your messages resulted in "
           "9000 tokens."),
    QP__FAULT_TOO_LONG, QP__ACTION_COMPACT, NULL },
  { 400,
    OPENAI("", "An assistant message with 'tool_calls' must be followed by tool messages "
               "responding to each 'tool_call_id'."),
    QP__FAULT_HISTORY, QP__ACTION_REPAIR, NULL },
  { 401, OPENAI("invalid_api_key", "Incorrect API key provided"), QP__FAULT_AUTH, QP__ACTION_FATAL,
    NULL },
  { 404, OPENAI("model_not_found", "x"), QP__FAULT_MODEL, QP__ACTION_FATAL, NULL },
  { 429, OPENAI("rate_limit_exceeded", "Rate limit reached"), QP__FAULT_RATE, QP__ACTION_RETRY,
    NULL },
  { 429, OPENAI("insufficient_quota", "You exceeded your current quota"), QP__FAULT_QUOTA,
    QP__ACTION_FATAL, NULL },
  /* llama.cpp */
  { 400,
    "{\"error\":{\"code\":400,\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9000,"
    "\"n_ctx\":8192,\"message\":\"request (9000 tokens) exceeds the available context size (8192 "
    "tokens), try increasing it\"}}",
    QP__FAULT_TOO_LONG, QP__ACTION_COMPACT, NULL },
  { 400,
    "{\"error\":{\"code\":400,\"message\":\"the request exceeds the available context size\"}}",
    QP__FAULT_TOO_LONG, QP__ACTION_COMPACT, NULL },
  /* Ollama, proxies, and nothing at all */
  { 404, "{\"error\":\"model 'x' not found\"}", QP__FAULT_MODEL, QP__ACTION_FATAL,
    "model 'x' not found" },
  { 422, "{\"detail\":\"bad field\"}", QP__FAULT_REQUEST, QP__ACTION_FATAL, "bad field" },
  { 502, "<html>", QP__FAULT_SERVER, QP__ACTION_RETRY, "the provider answered with status 502" },
  { 503, "", QP__FAULT_OVERLOADED, QP__ACTION_RETRY, NULL },
  { 408, "[]", QP__FAULT_SERVER, QP__ACTION_RETRY, NULL },
  { 418, "{\"error\":{}}", QP__FAULT_REQUEST, QP__ACTION_FATAL, NULL },
  { 302, "", QP__FAULT_SERVER, QP__ACTION_RETRY, "the provider answered with status 302" },
};

static void
every_answer_is_judged(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__llm_head head;
    struct qp__llm_fault fault;

    qp__llm_head_init(&head);
    head.status = rows[i].status;
    qp__fault_from_reply(&fault, &head, (struct qp_bytes){ rows[i].body, strlen(rows[i].body) });
    if (fault.kind != rows[i].kind)
      fail_msg("%d %s: %s", rows[i].status, rows[i].body, qp__fault_name(fault.kind));
    assert_int_equal(qp__fault_action(fault.kind), rows[i].action);
    assert_int_equal(fault.status, rows[i].status);
    assert_true(fault.message[0]);
    if (rows[i].message)
      assert_string_equal(fault.message, rows[i].message);
  }
}

static void
sizes_are_read_where_they_are_said(void **state)
{
  static const struct {
    const char *body;
    int64_t tokens, window;
  } sizes[] = {
    { ANTHROPIC("x", "prompt is too long: 210000 tokens > 200000 maximum"), 210000, 200000 },
    { "{\"object\":\"error\",\"message\":\"This model's maximum context length is 8192 tokens. "
      "However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).\"}",
      9000, 8192 },
    { OPENAI("context_length_exceeded", "This model's maximum context length is 8192 tokens. "
                                        "However, your messages resulted in 9000 tokens."),
      9000, 8192 },
    { "{\"error\":{\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9,\"n_ctx\":8}}", 9,
      8 },
    { OPENAI("context_length_exceeded", "too much"), 0, 0 },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(sizes); i++) {
    struct qp__llm_head head;
    struct qp__llm_fault fault;

    qp__llm_head_init(&head);
    head.status = 400;
    qp__fault_from_reply(&fault, &head, (struct qp_bytes){ sizes[i].body, strlen(sizes[i].body) });
    assert_int_equal(fault.tokens, sizes[i].tokens);
    assert_int_equal(fault.window, sizes[i].window);
  }
}

static void
feed(struct qp__llm_head *head, const char *name, const char *value)
{
  qp__llm_head_feed(head, (struct qp_bytes){ name, strlen(name) },
                    (struct qp_bytes){ value, strlen(value) }, 1000000000000); /* 2001-09-09 */
}

static void
headers_say_when_and_whether(void **state)
{
  static const struct {
    const char *name, *value;
    int64_t wait;
  } waits[] = {
    { "retry-after", "7", 7000 },
    { "Retry-After", "1.5", 1500 },
    { "retry-after-ms", "250", 250 },
    { "retry-after", "Sun, 09 Sep 2001 01:47:10 GMT", 30000 },
    { "retry-after", "Sun, 09 Sep 2001 01:46:00 GMT", 0 },
    { "retry-after", "soon", -1 },
    { "retry-after", "-5", -1 },
    { "retry-after", "99999999999", 86400000 },
    { "x-other", "7", -1 },
  };
  struct qp__llm_head head;
  struct qp__llm_fault fault;

  (void)state;
  for (size_t i = 0; i < COUNT(waits); i++) {
    qp__llm_head_init(&head);
    feed(&head, waits[i].name, waits[i].value);
    assert_int_equal(head.retry_after_ms, waits[i].wait);
  }
  qp__llm_head_init(&head);
  head.status = 529;
  feed(&head, "retry-after-ms", "40");
  feed(&head, "Retry-After", "9");
  feed(&head, "request-id", "req_1");
  qp__fault_from_reply(&fault, &head, (struct qp_bytes){ "{}", 2 });
  assert_int_equal(fault.retry_after_ms, 40);
  assert_string_equal(fault.request_id, "req_1");
  feed(&head, "x-should-retry", "false");
  qp__fault_from_reply(&fault, &head, (struct qp_bytes){ "{}", 2 });
  assert_int_equal(qp__fault_action(fault.kind), QP__ACTION_FATAL);
  head.status = 400;
  feed(&head, "x-should-retry", "true");
  qp__fault_from_reply(&fault, &head, (struct qp_bytes){ "{\"request_id\":\"r2\"}", 19 });
  assert_int_equal(qp__fault_action(fault.kind), QP__ACTION_RETRY);
  head.request_id[0] = 0;
  qp__fault_from_reply(&fault, &head, (struct qp_bytes){ "{\"request_id\":\"r2\"}", 19 });
  assert_string_equal(fault.request_id, "r2");
}

static void
waits_grow_and_heed_the_provider(void **state)
{
  struct qp__llm_fault fault;

  (void)state;
  qp__fault_set(&fault, QP__FAULT_SERVER, "x");
  assert_int_equal(qp__fault_backoff_ms(&fault, 0, 0), 500);
  assert_int_equal(qp__fault_backoff_ms(&fault, 3, 0), 4000);
  assert_int_equal(qp__fault_backoff_ms(&fault, 99, 0), 8000);
  for (unsigned attempt = 0; attempt < 6; attempt++)
    for (uint32_t random = 0; random < UINT32_MAX - 999999999u; random += 999999999u) {
      int64_t most = qp__fault_backoff_ms(&fault, attempt, 0);
      int64_t wait = qp__fault_backoff_ms(&fault, attempt, random);

      assert_true(wait <= most && wait >= most - most / 4);
    }
  fault.retry_after_ms = 7000;
  assert_int_equal(qp__fault_backoff_ms(&fault, 0, 0), 7000);
  assert_true(qp__fault_backoff_ms(&fault, 0, UINT32_MAX) < 7251);
}

/* Cut where it fits, between two characters, and one line. */
static void
messages_are_bounded(void **state)
{
  char body[4000];
  char text[3000];
  struct qp__llm_head head;
  struct qp__llm_fault fault;

  (void)state;
  for (size_t i = 0; i + 2 < sizeof(text); i += 2)
    memcpy(text + i, "\xc3\xa4", 3);
  (void)snprintf(body, sizeof(body), "{\"error\":{\"message\":\"x\\n%s\"}}", text);
  qp__llm_head_init(&head);
  head.status = 500;
  qp__fault_from_reply(&fault, &head, (struct qp_bytes){ body, strlen(body) });
  assert_true(strlen(fault.message) > 300);
  assert_true(strlen(fault.message) < sizeof(fault.message));
  assert_memory_equal(fault.message, "x \xc3\xa4", 4);
  assert_int_equal((unsigned char)fault.message[strlen(fault.message) - 1], 0xa4);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_answer_is_judged),
    cmocka_unit_test(sizes_are_read_where_they_are_said),
    cmocka_unit_test(headers_say_when_and_whether),
    cmocka_unit_test(waits_grow_and_heed_the_provider),
    cmocka_unit_test(messages_are_bounded),
  };

  return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}

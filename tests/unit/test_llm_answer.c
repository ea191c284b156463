/* test_llm_answer.c - llm/answer.h: from a stream to a message that can be stored, and back to the
 * provider. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "llm/answer.h"
#include "llm/decoder.h"
#include "llm_test.h"

static void
feed_stream(struct qp__answer *a, const struct qp__llm_codec *codec, const char *stream)
{
  struct qp__llm_fault fault;
  struct qp__decoder *reader = NULL;

  assert_int_equal(
      qp__decoder_open(codec, (struct qp__llm_sink){ qp__answer_feed, a }, &reader, NULL), QP_OK);
  assert_int_equal(qp__decoder_feed(reader, (struct qp_bytes){ stream, strlen(stream) }, NULL),
                   QP_OK);
  assert_int_equal(qp__decoder_end(reader, &fault, NULL), QP_OK);
  qp__decoder_close(reader);
}

static void
expect_message(const struct qp__answer *a, bool interrupted, int64_t cost, const char *want)
{
  struct qp_message *m = NULL;
  char *json = NULL;
  size_t len;

  assert_int_equal(qp__answer_message(a, interrupted, cost, &m, NULL), QP_OK);
  assert_int_equal(qp_message_json(m, &json, &len, NULL), QP_OK);
  assert_non_null(strstr(json, "\"role\":\"assistant\""));
  assert_string_equal(strstr(json, "\"role\""), want);
  qp_free(json);
  qp_message_free(m);
}

static void
show(void *arg, const char *tool, enum qp_display *display, const char **ui_hints)
{
  (void)arg;
  if (strcmp(tool, "f") == 0) {
    *display = QP_DISPLAY_COLLAPSIBLE;
    *ui_hints = "{\"icon\":\"file\"}";
  }
}

#define EV(json) "data: " json "\n\n"

static const char everything[] = EV(
    "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"usage\":"
    "{\"input_tokens\":10,\"cache_read_input_tokens\":5,\"output_tokens\":1}}}")
    EV("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\","
       "\"thinking\":\"\"}}")
        EV("{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\","
           "\"signature\":\"sig\"}}")
            EV("{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
               "\"redacted_thinking\",\"data\":\"d\"}}")
                EV("{\"type\":\"content_block_stop\",\"index\":1}")
                    EV("{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":"
                       "\"tool_use\","
                       "\"id\":\"a\",\"name\":\"f\",\"input\":{}}}")
                        EV("{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":"
                           "\"input_json_delta\","
                           "\"partial_json\":\"{\\\"x\\\": 1}\"}}")
                            EV("{\"type\":\"content_block_stop\",\"index\":2}")
                                EV("{\"type\":\"content_block_start\",\"index\":3,\"content_"
                                   "block\":{\"type\":\"text\","
                                   "\"text\":\"Hi\"}}")
                                    EV("{\"type\":\"content_block_start\",\"index\":4,\"content_"
                                       "block\":{\"type\":\"tool_use\","
                                       "\"id\":\"b\",\"name\":\"g\",\"input\":{}}}")
                                        EV("{\"type\":\"content_block_delta\",\"index\":4,"
                                           "\"delta\":{\"type\":\"input_json_delta\","
                                           "\"partial_json\":\"{\\\"te\"}}");

#define PARTS                                                                             \
  "\"content\":[{\"type\":\"thinking\",\"text\":\"\",\"signature\":\"sig\"},"             \
  "{\"type\":\"redacted_thinking\",\"data\":\"d\"},{\"type\":\"text\",\"text\":\"Hi\"}]," \
  "\"tool_calls\":[{\"id\":\"a\",\"tool_name\":\"f\",\"arguments\":{\"x\":1},"            \
  "\"approval_status\":\"Pending\",\"display_preference\":\"Collapsible\",\"ui_hints\":"  \
  "{\"icon\":\"file\"},\"after_parts\":2}"

/* In the middle: the call that has not ended is left out. At the end: arguments that are no JSON
 * are a string. */
static void
a_message_at_any_time(void **state)
{
  struct qp__answer a;

  (void)state;
  qp__answer_init(&a, "anthropic");
  a.display = show;
  expect_message(&a, false, -1,
                 "\"role\":\"assistant\",\"type\":\"text\",\"content\":[],"
                 "\"metadata\":{\"provider\":\"anthropic\"}}");
  assert_false(qp__answer_has_content(&a));
  feed_stream(&a, &qp__codec_anthropic, everything);
  assert_true(qp__answer_has_content(&a));
  expect_message(&a, true, 1500000000,
                 "\"role\":\"assistant\",\"type\":\"tool_call\"," PARTS
                 "],\"metadata\":{\"provider\":\"anthropic\",\"model\":\"m\",\"response_id\":"
                 "\"msg_1\",\"tokens\":{\"prompt_tokens\":15,\"completion_tokens\":1,"
                 "\"total_tokens\":16,\"cache_read_tokens\":5},\"cost_usd\":0.0015,"
                 "\"interrupted\":true}}");
  qp__answer_release(&a);

  qp__answer_init(&a, "anthropic");
  a.display = show;
  {
    struct qp__buf whole;

    qp__buf_init(&whole, 100000);
    (void)qp__buf_add_str(&whole, everything);
    (void)qp__buf_add_str(
        &whole, EV("{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},"
                   "\"usage\":{\"output_tokens\":20}}") EV("{\"type\":\"message_stop\"}"));
    feed_stream(&a, &qp__codec_anthropic, whole.data);
    qp__buf_release(&whole);
  }
  expect_message(&a, false, -1,
                 "\"role\":\"assistant\",\"type\":\"tool_call\"," PARTS
                 ",{\"id\":\"b\",\"tool_name\":\"g\",\"arguments\":\"{\\\"te\",\"approval_status\":"
                 "\"Pending\",\"display_preference\":\"Default\"}],\"metadata\":{\"provider\":"
                 "\"anthropic\",\"model\":\"m\",\"response_id\":\"msg_1\",\"tokens\":"
                 "{\"prompt_tokens\":15,\"completion_tokens\":20,\"total_tokens\":35,"
                 "\"cache_read_tokens\":5},\"stop_reason\":\"max_tokens\"}}");
  qp__answer_release(&a);
}

/* What came from the provider, was stored, and goes back: the same blocks in the same order. */
static void
an_answer_survives_the_way_through_the_store(void **state)
{
  struct qp__llm_request request = { .model = "m" };
  struct qp__answer a;
  struct qp_message *m = NULL;
  struct qp_message *again = NULL;
  struct qp_message *question = NULL;
  const struct qp_message *list[2];
  char *json = NULL;
  char *body;
  size_t len;

  (void)state;
  qp__answer_init(&a, "anthropic");
  feed_stream(&a, &qp__codec_anthropic, everything);
  assert_int_equal(qp__answer_message(&a, true, -1, &m, NULL), QP_OK);
  assert_int_equal(qp_message_json(m, &json, &len, NULL), QP_OK);
  assert_int_equal(qp_message_parse((struct qp_bytes){ json, len }, &again, NULL), QP_OK);
  assert_int_equal(qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ "q", 1 }, &question, NULL),
                   QP_OK);
  list[0] = question;
  list[1] = again;
  request.messages = list;
  request.message_count = 2;
  body = llm_encode(&qp__codec_anthropic, &request);
  assert_non_null(
      strstr(body, "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"\","
                   "\"signature\":\"sig\"},{\"type\":\"redacted_thinking\",\"data\":\"d\"},"
                   "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"x\":1}},"
                   "{\"type\":\"text\",\"text\":\"Hi\"}]},{\"role\":\"user\",\"content\":["
                   "{\"type\":\"tool_result\",\"tool_use_id\":\"a\""));
  free(body);
  qp_free(json);
  qp_message_free(m);
  qp_message_free(again);
  qp_message_free(question);
  qp__answer_release(&a);
}

static void
an_answer_has_a_limit(void **state)
{
  struct qp__llm_event event = { .kind = QP__LLM_TEXT };
  size_t n = QP__ANSWER_MAX / 4;
  char *text = calloc(1, n);
  struct qp__answer a;
  struct qp_err err = { QP_OK, "" };

  (void)state;
  memset(text, 'x', n);
  qp__answer_init(&a, "openai");
  event.text = (struct qp_bytes){ text, n };
  for (size_t i = 0; i < 4; i++) {
    event.block = i;
    assert_int_equal(qp__answer_feed(&a, &event, &err), QP_OK);
  }
  event.text.len = 1;
  assert_int_equal(qp__answer_feed(&a, &event, &err), QP_TOOBIG);
  event.block = QP__LLM_BLOCKS_MAX;
  assert_int_equal(qp__answer_feed(&a, &event, &err), QP_TOOBIG);
  assert_true(qp__answer_has_content(&a));
  qp__answer_release(&a);
  free(text);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_message_at_any_time),
    cmocka_unit_test(an_answer_survives_the_way_through_the_store),
    cmocka_unit_test(an_answer_has_a_limit),
  };

  return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}

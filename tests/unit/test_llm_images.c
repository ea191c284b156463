/* test_llm_images.c - images in the results of tools, as each protocol sends them; models that
 * accept no images; what quipu learns about models while it runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "alloc_fault.h"
#include "llm/known.h"
#include "llm_test.h"
#include "tool/limit.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* A call whose result is content of MCP. */
#define RESULT(blocks)                                                            \
  "[{\"role\":\"user\",\"text\":\"q\"},"                                          \
  "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"t\",\"tool_name\":\"f\"}]}," \
  "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"t\",\"result\":[" blocks "]}}]"
#define IMAGE "{\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/png\"}"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"

static void
expect(const struct qp__llm_codec *codec, unsigned flags, const char *history, const char *part)
{
  size_t count = 0;
  struct qp_message **messages = llm_messages(history, &count);
  const struct qp__llm_request request = {
    .model = "m",
    .messages = (const struct qp_message *const *)messages,
    .message_count = count,
    .flags = flags,
  };
  char *body = llm_encode(codec, &request);

  if (!strstr(body, part))
    fail_msg("%s\nhas no\n%s", body, part);
  free(body);
  llm_messages_free(messages);
}

static void
test_anthropic_gets_image_blocks_in_the_result(void **state)
{
  (void)state;
  expect(&qp__codec_anthropic, 0, RESULT(TEXT("a logo") "," IMAGE),
         "\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\",\"text\":\"a logo\\n[image: "
         "image/png, 3 bytes]\"},{\"type\":\"image\",\"source\":{\"type\":\"base64\","
         "\"media_type\":\"image/png\",\"data\":\"AAAA\"}}]");
}

/* A tool's message takes text alone there, so the picture follows as the user's. */
static void
test_chat_completions_gets_a_stub_and_then_the_image(void **state)
{
  (void)state;
  expect(&qp__codec_openai, 0, RESULT(TEXT("a logo") "," IMAGE),
         "\"tool_call_id\":\"t\",\"content\":\"a logo\\n[image: image/png, 3 bytes]\"},"
         "{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
         "\"data:image/png;base64,AAAA\"}}]}");
}

static void
test_what_is_no_picture_is_a_stub_of_type_and_size(void **state)
{
  static const struct {
    const char *history, *part;
  } rows[] = {
    { RESULT("{\"type\":\"audio\",\"data\":\"AAAAAA==\",\"mimeType\":\"audio/wav\"}"),
      "\"content\":\"[audio: audio/wav, 4 bytes; not sent]\"" },
    { RESULT("{\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/tiff\"}"),
      "\"content\":\"[image: image/tiff, 3 bytes; not sent]\"" },
    { RESULT("{\"type\":\"image\",\"data\":\"no base64\",\"mimeType\":\"image/png\"}"),
      "bytes; not sent]\"" },
    { RESULT("{\"type\":\"resource\",\"resource\":{\"uri\":\"a://b\",\"blob\":\"AAAA\"}}"),
      "\"content\":\"[resource: a://b, unknown type, 3 bytes; not sent]\"" },
    { RESULT("{\"type\":\"resource\",\"resource\":{\"uri\":\"a://b\",\"text\":\"hi\"}}"),
      "\"content\":\"[resource: a://b]\\nhi\"" },
    { RESULT("{\"type\":\"row\",\"n\":1}"), "\"content\":\"[{\\\"type\\\":\\\"row\\\"" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    expect(&qp__codec_anthropic, 0, rows[i].history, rows[i].part);
    expect(&qp__codec_openai, 0, rows[i].history, rows[i].part);
  }
}

static void
test_a_model_that_takes_no_images_gets_stubs(void **state)
{
  static const char note[] =
      "[image: image/png, 3 bytes; not sent, because the model does not accept "
      "images]";
  static const char sent[] = "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"data:"
                             "image/png;base64,AAAA\"},"
                             "{\"type\":\"text\",\"text\":\"?\"}]}]";

  (void)state;
  expect(&qp__codec_openai, QP__LLM_NO_IMAGES, RESULT(IMAGE), note);
  expect(&qp__codec_anthropic, QP__LLM_NO_IMAGES, RESULT(IMAGE), note);
  expect(&qp__codec_openai, QP__LLM_NO_IMAGES, sent, note);
  expect(&qp__codec_anthropic, QP__LLM_NO_IMAGES, sent, note);
}

/* The pictures of a result have one limit together, besides that of its text. */
static void
test_the_limit_is_for_all_content_of_a_result(void **state)
{
  size_t n = (size_t)3 << 20;
  char *data = malloc(n + 1);
  json_t *value = json_array();
  bool cut = false;
  size_t pictures = 0;

  (void)state;
  assert_non_null(data);
  memset(data, 'A', n);
  data[n] = 0;
  for (int i = 0; i < 3; i++)
    assert_int_equal(json_array_append_new(value, json_pack("{s:s, s:s, s:s}", "type", "image",
                                                            "data", data, "mimeType", "image/png")),
                     0);
  value = qp__limit_value(value, 65536, &cut);
  assert_true(cut);
  for (size_t i = 0; i < json_array_size(value); i++)
    pictures += json_object_get(json_array_get(value, i), "data") != NULL;
  assert_int_equal(pictures, 1);
  json_decref(value);
  free(data);
}

static enum qp_rc
count_model(void *arg, const struct qp__known_model *model)
{
  size_t *n = arg;

  (*n)++;
  assert_true(model->listed);
  return QP_OK;
}

static void
test_what_is_known_of_models(void **state)
{
  struct qp__arena arena = { NULL };
  struct qp__known k;
  const char *first = NULL;
  size_t n = 0;

  (void)state;
  qp__known_init(&k);
  assert_int_equal(qp__known_first(&k, "local", &arena, &first, NULL), QP_NOTFOUND);
  assert_false(qp__known_is_blind(&k, "local", "a"));
  qp__known_set_blind(&k, "local", "a");
  assert_true(qp__known_is_blind(&k, "local", "a"));
  assert_false(qp__known_is_blind(&k, "other", "a"));
  assert_int_equal(qp__known_first(&k, "local", &arena, &first, NULL), QP_NOTFOUND);
  assert_int_equal(qp__known_add(&k, "local", "b", 4096, QP__SIGHT_UNKNOWN, NULL), QP_OK);
  assert_int_equal(qp__known_add(&k, "local", "a", 0, QP__SIGHT_UNKNOWN, NULL), QP_OK);
  assert_true(qp__known_is_blind(&k, "local", "a")); /* stays known */
  assert_int_equal(qp__known_each(&k, count_model, &n), QP_OK);
  assert_int_equal(n, 2);
  qp__known_unlist(&k, "local");
  assert_int_equal(qp__known_first(&k, "local", &arena, &first, NULL), QP_NOTFOUND);
  assert_int_equal(qp__known_add(&k, "local", "b", 0, QP__SIGHT_UNKNOWN, NULL), QP_OK);
  assert_int_equal(qp__known_first(&k, "local", &arena, &first, NULL), QP_OK);
  assert_string_equal(first, "b");
  qp__known_release(&k);
  qp__arena_release(&arena);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_anthropic_gets_image_blocks_in_the_result),
    cmocka_unit_test(test_chat_completions_gets_a_stub_and_then_the_image),
    cmocka_unit_test(test_what_is_no_picture_is_a_stub_of_type_and_size),
    cmocka_unit_test(test_a_model_that_takes_no_images_gets_stubs),
    cmocka_unit_test(test_the_limit_is_for_all_content_of_a_result),
    cmocka_unit_test(test_what_is_known_of_models),
  };

  return cmocka_run_group_tests_name("llm images", tests, NULL, NULL);
}

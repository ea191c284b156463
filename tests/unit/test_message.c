/* test_message.c - src/model: message.c, message_json.c, toolcall.c and the field readers under
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>
#include <cmocka.h>

#include "alloc_fault.h"
#include "base/alloc.h"
#include "base/json.h"
#include "model/message.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define BIG ((size_t)1 << 24)
#define TEXT(s)      \
  {                  \
    s, sizeof(s) - 1 \
  }

#define ID "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6"
#define PARENT "0192f3a4-b5c6-7d8e-9fa0-000000000001"

/* Every field that there is, and an unknown one at every level, in the stored form. */
static const char rich[] =
    "{\"id\":\"" ID "\",\"parent_id\":\"" PARENT "\",\"role\":\"assistant\",\"type\":\"plan\","
    "\"created_at\":\"2026-11-15T19:55:40.123Z\","
    "\"content\":[{\"type\":\"text\",\"text\":\"Gr\xc3\xbc\xc3\x9f \\\"dich\\\"\\n\\u0000!\","
    "\"cache\":{\"b\":1,\"a\":2}},"
    "{\"type\":\"image\",\"url\":\"blob:abc\",\"detail\":\"high\",\"width\":640},"
    "{\"type\":\"image\",\"url\":\"x\"},"
    "{\"type\":\"thinking\",\"text\":\"hm\",\"signature\":\"c2ln\",\"z\":null},"
    "{\"kind\":1,\"type\":\"audio\",\"data\":[1,2]}],"
    "\"tool_calls\":[{\"id\":\"c1\",\"tool_name\":\"grep\",\"arguments\":{\"q\":\"a\",\"n\":0.1},"
    "\"approval_status\":\"Approved\",\"display_preference\":\"Collapsible\","
    "\"ui_hints\":{\"icon\":\"s\"},\"index\":0},"
    "{\"id\":\"c2\",\"tool_name\":\"now\",\"arguments\":null,\"approval_status\":\"Pending\","
    "\"display_preference\":\"Default\"}],"
    "\"tool_result\":{\"request_id\":\"c0\",\"result\":[\"ok\",1e+300],\"is_error\":true,"
    "\"display_preference\":\"Hidden\",\"ms\":12},"
    "\"metadata\":{\"tokens\":{\"completion_tokens\":17},\"cost\":0.25},"
    "\"zeta\":[],\"alpha\":{\"deep\":{\"er\":true}},\"text_\":\"\"}";

static struct qp_bytes
bytes(const char *s)
{
  struct qp_bytes b = { s, strlen(s) };

  return b;
}

static struct qp_message *
decode(const char *json)
{
  struct qp_message *m = NULL;
  struct qp_err err;

  if (qp__message_decode("message", bytes(json), &m, &err))
    fail_msg("%s: %s", json, err.msg);
  return m;
}

static char *
encode(const struct qp_message *m)
{
  char *text = NULL;
  size_t len = 0;
  struct qp_err err;

  if (qp_message_json(m, &text, &len, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(strlen(text), len);
  return text;
}

static void
expect_json(const struct qp_message *m, const char *want)
{
  char *text = encode(m);

  assert_string_equal(text, want);
  qp_free(text);
}

/* ---- names ---- */

static void
test_names_are_found_again(void **state)
{
  static const char *const status[] = { "live", "archived", "unavailable", "trashed" };
  static const char *const roles[] = { "system", "user", "assistant", "tool" };
  static const char *const types[] = { "text", "plan", "question", "tool_call", "tool_result" };
  enum qp_role role;
  unsigned found;
  struct qp_err err;

  (void)state;
  for (unsigned i = 0; i < COUNT(roles); i++) {
    assert_string_equal(qp_role_name((enum qp_role)i), roles[i]);
    assert_true(qp__name_set_find(&qp__role_names, roles[i], strlen(roles[i]), &found));
    assert_int_equal(found, i);
  }
  for (unsigned i = 0; i < COUNT(types); i++) {
    assert_string_equal(qp_message_type_name((enum qp_message_type)i), types[i]);
    assert_true(qp__name_set_find(&qp__type_names, types[i], strlen(types[i]), &found));
    assert_int_equal(found, i);
  }
  for (unsigned i = 0; i < COUNT(status); i++) {
    assert_string_equal(qp_message_status_name((enum qp_message_status)i), status[i]);
    assert_true(qp__name_set_find(&qp__status_names, status[i], strlen(status[i]), &found));
    assert_int_equal(found, i);
  }
  assert_string_equal(qp_approval_name(QP_APPROVAL_PENDING), "Pending");
  assert_string_equal(qp_approval_name(QP_APPROVAL_APPROVED), "Approved");
  assert_string_equal(qp_approval_name(QP_APPROVAL_DENIED), "Denied");
  assert_string_equal(qp_display_name(QP_DISPLAY_DEFAULT), "Default");
  assert_string_equal(qp_display_name(QP_DISPLAY_COLLAPSIBLE), "Collapsible");
  assert_string_equal(qp_display_name(QP_DISPLAY_HIDDEN), "Hidden");
  assert_string_equal(qp_role_name((enum qp_role)9), "unknown");

  assert_true(qp__name_set_find(&qp__role_names, "uSERs", 4, &found));
  assert_int_equal(found, QP_ROLE_USER);
  assert_false(qp__name_set_find(&qp__role_names, "use", 3, &found));
  assert_false(qp__name_set_find(&qp__role_names, "", 0, &found));
  assert_false(qp__name_set_find(&qp__type_names, "tool-call", 9, &found));
  assert_false(qp__name_set_find(&qp__status_names, "dead", 4, &found));
  assert_int_equal(qp_role_parse("ASSISTANT", &role, &err), QP_OK);
  assert_int_equal(role, QP_ROLE_ASSISTANT);
  assert_int_equal(qp_role_parse("bot", &role, &err), QP_INVALID);
  assert_string_equal(err.msg, "the role must be one of system, user, assistant, tool");
  assert_int_equal(qp_role_parse(NULL, &role, &err), QP_INVALID);
  assert_int_equal(role, QP_ROLE_ASSISTANT);
}

/* ---- JSON ---- */

static void
test_stored_form_comes_back_byte_for_byte(void **state)
{
  struct qp_message *m = decode(rich);
  struct qp_tool_result result;
  struct qp_tool_call call;
  struct qp_part part;
  char id[QP_UUID_TEXT];
  struct qp_uuid u;

  (void)state;
  expect_json(m, rich);
  u = qp_message_id(m);
  assert_string_equal(qp_uuid_text(&u, id), ID);
  u = qp_message_parent(m);
  assert_string_equal(qp_uuid_text(&u, id), PARENT);
  assert_true(m->has_parent);
  assert_int_equal(qp_message_role(m), QP_ROLE_ASSISTANT);
  assert_int_equal(qp_message_type(m), QP_TYPE_PLAN);
  assert_true(qp_message_created_at(m) == 1794772540123);
  assert_int_equal(qp__message_tokens(m), 17);

  assert_int_equal(qp_message_part_count(m), 5);
  part = qp_message_part(m, 0);
  assert_int_equal(part.kind, QP_PART_TEXT);
  assert_int_equal(part.text.len, 16);
  assert_memory_equal(part.text.data, "Gr\xc3\xbc\xc3\x9f \"dich\"\n\0!", 16);
  part = qp_message_part(m, 1);
  assert_int_equal(part.kind, QP_PART_IMAGE);
  assert_string_equal(part.url, "blob:abc");
  assert_string_equal(part.detail, "high");
  part = qp_message_part(m, 2);
  assert_null(part.detail);
  part = qp_message_part(m, 3);
  assert_int_equal(part.kind, QP_PART_THINKING);
  assert_string_equal(part.signature, "c2ln");
  part = qp_message_part(m, 4);
  assert_int_equal(part.kind, QP_PART_OTHER);
  part = qp_message_part(m, 5); /* past the end */
  assert_int_equal(part.kind, QP_PART_OTHER);
  assert_int_equal(part.text.len, 0);

  assert_int_equal(qp_message_tool_call_count(m), 2);
  call = qp_message_tool_call(m, 0);
  assert_string_equal(call.id, "c1");
  assert_string_equal(call.tool_name, "grep");
  assert_string_equal(call.arguments_json, "{\"q\":\"a\",\"n\":0.1}");
  assert_int_equal(call.approval, QP_APPROVAL_APPROVED);
  assert_int_equal(call.display, QP_DISPLAY_COLLAPSIBLE);
  assert_string_equal(call.ui_hints_json, "{\"icon\":\"s\"}");
  call = qp_message_tool_call(m, 1);
  assert_string_equal(call.arguments_json, "null");
  assert_null(call.ui_hints_json);
  call = qp_message_tool_call(m, 2); /* past the end */
  assert_string_equal(call.id, "");
  assert_true(qp_message_tool_result(m, &result));
  assert_string_equal(result.request_id, "c0");
  assert_string_equal(result.result_json, "[\"ok\",1e+300]");
  assert_true(result.is_error);
  assert_int_equal(result.display, QP_DISPLAY_HIDDEN);
  qp_message_free(m);
}

#define HEAD "{\"parent_id\":null,\"role\":\"user\",\"type\":\"text\","

static void
test_input_becomes_the_stored_form(void **state)
{
  static const struct {
    const char *in;
    const char *out;
  } rows[] = {
    { "{\"role\":\"user\",\"content\":[]}", HEAD "\"content\":[]}" },
    { "{\"role\":\"user\",\"text\":\"hi\"}",
      HEAD "\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}" },
    { "{\"role\":\"user\",\"text\":\"\"}",
      HEAD "\"content\":[{\"type\":\"text\",\"text\":\"\"}]}" },
    { "{\"role\":\"user\",\"text\":\"a\\u0000b\"}",
      HEAD "\"content\":[{\"type\":\"text\",\"text\":\"a\\u0000b\"}]}" },
    { "{\"role\":\"user\",\"content\":\"hi\\u0000\"}",
      HEAD "\"content\":[{\"type\":\"text\",\"text\":\"hi\\u0000\"}]}" },
    { "{\"text\":\"hi\",\"role\":\"User\",\"x\":1}",
      HEAD "\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"x\":1}" },
    { "{\"role\":\"user\",\"content\":null,\"text\":\"hi\"}",
      HEAD "\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}" },
    { "{\"role\":\"user\",\"text\":null,\"content\":[]}", HEAD "\"content\":[]}" },
    { "{\"role\":\"USER\",\"id\":null,\"parent_id\":null,\"type\":null,\"created_at\":null,"
      "\"tool_calls\":null,\"tool_result\":null,\"metadata\":null}",
      HEAD "\"content\":[]}" },
    { "{\"role\":\"user\",\"tool_calls\":[]}", HEAD "\"content\":[]}" },
    { "{\"role\":\"user\",\"metadata\":{}}", HEAD "\"content\":[],\"metadata\":{}}" },
    { "{\"role\":\"user\",\"unknown\":null}", HEAD "\"content\":[],\"unknown\":null}" },
    { "{\"role\":\"user\",\"message_type\":\"plan\"}",
      HEAD "\"content\":[],\"message_type\":\"plan\"}" },
    { "{\"role\":\"user\",\"created_at\":\"2026-11-15T20:55:40.1239+01:00\"}",
      HEAD "\"created_at\":\"2026-11-15T19:55:40.123Z\",\"content\":[]}" },
    { "{\"role\":\"user\",\"id\":\"0192F3A4-B5C6-7D8E-9FA0-B1C2D3E4F5A6\"}",
      "{\"id\":\"" ID "\","
      "\"parent_id\":null,\"role\":\"user\",\"type\":\"text\","
      "\"content\":[]}" },
    { "{\"role\":\"tool\",\"type\":\"Tool_Result\"}",
      "{\"parent_id\":null,\"role\":\"tool\",\"type\":\"tool_result\",\"content\":[]}" },
    { "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"r\"}}",
      "{\"parent_id\":null,\"role\":\"tool\",\"type\":\"tool_result\",\"content\":[],"
      "\"tool_result\":{\"request_id\":\"r\",\"result\":null,\"is_error\":false,"
      "\"display_preference\":\"Default\"}}" },
    { "{\"role\":\"assistant\",\"tool_calls\":[{\"tool_name\":\"t\",\"id\":\"i\",\"ui_hints\":null,"
      "\"display_preference\":\"HIDDEN\",\"approval_status\":\"denied\"}]}",
      "{\"parent_id\":null,\"role\":\"assistant\",\"type\":\"tool_call\",\"content\":[],"
      "\"tool_calls\":[{\"id\":\"i\",\"tool_name\":\"t\",\"arguments\":null,"
      "\"approval_status\":\"Denied\",\"display_preference\":\"Hidden\"}]}" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"thinking\",\"text\":\"\",\"signature\":null,"
      "\"detail\":1},{\"type\":\"text\",\"text\":\"x\",\"signature\":\"s\"}]}",
      HEAD "\"content\":[{\"type\":\"thinking\",\"text\":\"\",\"detail\":1},"
           "{\"type\":\"text\",\"text\":\"x\",\"signature\":\"s\"}]}" },
    { "{\"role\":\"user\",\"n\":[0.1,1e2,-0.0,12345678901234567,1.0,0.30000000000000004]}",
      HEAD "\"content\":[],\"n\":[0.1,100.0,-0.0,12345678901234567,1.0,0.30000000000000004]}" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp_message *m = decode(rows[i].in);

    expect_json(m, rows[i].out);
    qp_message_free(m);
    m = decode(rows[i].out);
    expect_json(m, rows[i].out);
    qp_message_free(m);
  }
}

#define CALL(rest) "{\"role\":\"user\",\"tool_calls\":[{\"id\":\"a\",\"tool_name\":\"b\"" rest "}]}"
#define RESULT(rest) "{\"role\":\"user\",\"tool_result\":{\"request_id\":\"a\"" rest "}}"

static void
test_wrong_input_is_refused_with_the_path_of_the_field(void **state)
{
  static const struct {
    const char *in;
    const char *sentence;
  } rows[] = {
    { "[]", "line 3: must be a JSON object" },
    { "", "line 3: not valid JSON: unexpected end of input (line 1, column 1)" },
    { "{\"role\":\"user\"} x",
      "line 3: not valid JSON: unexpected text after the value (line 1, column 17)" },
    { "{\"role\":\"user\",\"n\":99999999999999999999}",
      "line 3: not valid JSON: a whole number that does not fit in 64 bits (line 1, column 40)" },
    { "{}", "line 3: \"role\" is missing" },
    { "{\"role\":null}", "line 3: \"role\" is missing" },
    { "{\"role\":1}", "line 3: \"role\" must be one of system, user, assistant, tool" },
    { "{\"role\":\"bot\"}", "line 3: \"role\" must be one of system, user, assistant, tool" },
    { "{\"role\":\"user\\u0000\"}",
      "line 3: \"role\" must be one of system, user, assistant, tool" },
    { "{\"role\":\"user\",\"type\":\"image\"}",
      "line 3: \"type\" must be one of text, plan, question, tool_call, tool_result" },
    { "{\"role\":\"user\",\"type\":[]}",
      "line 3: \"type\" must be one of text, plan, question, tool_call, tool_result" },
    { "{\"role\":\"user\",\"id\":\"7\"}", "line 3: \"id\" must be a UUID" },
    { "{\"role\":\"user\",\"id\":7}", "line 3: \"id\" must be a UUID" },
    { "{\"role\":\"user\",\"parent_id\":\"" ID "0\"}", "line 3: \"parent_id\" must be a UUID" },
    { "{\"role\":\"user\",\"created_at\":\"yesterday\"}",
      "line 3: \"created_at\" must be a time such as \"2026-11-15T19:55:40.123Z\"" },
    { "{\"role\":\"user\",\"created_at\":1794772540123}",
      "line 3: \"created_at\" must be a time such as \"2026-11-15T19:55:40.123Z\"" },
    { "{\"role\":\"user\",\"text\":\"a\",\"content\":[]}",
      "line 3: \"text\" cannot be used together with \"content\"" },
    { "{\"role\":\"user\",\"text\":1}", "line 3: \"text\" must be a string" },
    { "{\"role\":\"user\",\"content\":1}", "line 3: \"content\" must be an array or a string" },
    { "{\"role\":\"user\",\"content\":{}}", "line 3: \"content\" must be an array or a string" },
    { "{\"role\":\"user\",\"content\":[\"a\"]}", "line 3: \"content[0]\" must be an object" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"x\"},null]}",
      "line 3: \"content[1]\" must be an object" },
    { "{\"role\":\"user\",\"content\":[{}]}", "line 3: \"content[0].type\" is missing" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"\"}]}",
      "line 3: \"content[0].type\" must not be empty" },
    { "{\"role\":\"user\",\"content\":[{\"type\":3}]}",
      "line 3: \"content[0].type\" must be a string" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}",
      "line 3: \"content[0].text\" is missing" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":[]}]}",
      "line 3: \"content[0].text\" must be a string" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"thinking\",\"text\":null}]}",
      "line 3: \"content[0].text\" is missing" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"thinking\",\"text\":\"\",\"signature\":1}]}",
      "line 3: \"content[0].signature\" must be a string" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}",
      "line 3: \"content[0].url\" is missing" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"a\\u0000b\"}]}",
      "line 3: \"content[0].url\" must be a string without NUL characters" },
    { "{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"a\",\"detail\":{}}]}",
      "line 3: \"content[0].detail\" must be a string" },
    { "{\"role\":\"user\",\"tool_calls\":{}}", "line 3: \"tool_calls\" must be an array" },
    { "{\"role\":\"user\",\"tool_calls\":[1]}", "line 3: \"tool_calls[0]\" must be an object" },
    { "{\"role\":\"user\",\"tool_calls\":[{\"tool_name\":\"b\"}]}",
      "line 3: \"tool_calls[0].id\" is missing" },
    { "{\"role\":\"user\",\"tool_calls\":[{\"id\":\"\",\"tool_name\":\"b\"}]}",
      "line 3: \"tool_calls[0].id\" must not be empty" },
    { "{\"role\":\"user\",\"tool_calls\":[{\"id\":5,\"tool_name\":\"b\"}]}",
      "line 3: \"tool_calls[0].id\" must be a string" },
    { "{\"role\":\"user\",\"tool_calls\":[{\"id\":\"a\",\"tool_name\":\"b\"},"
      "{\"id\":\"a\",\"tool_name\":\"b\"},{\"id\":\"a\",\"tool_name\":null}]}",
      "line 3: \"tool_calls[2].tool_name\" is missing" },
    { CALL(",\"approval_status\":\"Maybe\""),
      "line 3: \"tool_calls[0].approval_status\" must be one of Pending, Approved, Denied" },
    { CALL(",\"approval_status\":true"),
      "line 3: \"tool_calls[0].approval_status\" must be one of Pending, Approved, Denied" },
    { CALL(",\"display_preference\":\"Big\""),
      "line 3: \"tool_calls[0].display_preference\" must be one of Default, Collapsible, Hidden" },
    { CALL(",\"ui_hints\":[]"), "line 3: \"tool_calls[0].ui_hints\" must be an object" },
    { "{\"role\":\"user\",\"tool_result\":[]}", "line 3: \"tool_result\" must be an object" },
    { "{\"role\":\"user\",\"tool_result\":{}}", "line 3: \"tool_result.request_id\" is missing" },
    { RESULT(",\"is_error\":0"), "line 3: \"tool_result.is_error\" must be true or false" },
    { RESULT(",\"display_preference\":\"\""),
      "line 3: \"tool_result.display_preference\" must be one of Default, Collapsible, Hidden" },
    { "{\"role\":\"user\",\"metadata\":\"x\"}", "line 3: \"metadata\" must be an object" },
  };
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp_message *m = NULL;

    if (qp__message_decode("line 3", bytes(rows[i].in), &m, &err) != QP_INVALID)
      fail_msg("taken: %s", rows[i].in);
    assert_null(m);
    assert_int_equal(err.rc, QP_INVALID);
    assert_string_equal(err.msg, rows[i].sentence);
    assert_int_equal(qp_message_parse(bytes(rows[i].in), &m, NULL), QP_INVALID);
  }
}

static void
test_parent_is_said_or_not(void **state)
{
  static const struct {
    const char *in;
    bool has;
    bool none;
  } rows[] = {
    { "{\"role\":\"user\",\"text\":\"\"}", false, true },
    { "{\"role\":\"user\",\"parent_id\":null,\"text\":\"\"}", true, true },
    { "{\"role\":\"user\",\"parent_id\":\"" PARENT "\",\"text\":\"\"}", true, false },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp_message *m = decode(rows[i].in);

    assert_int_equal(m->has_parent, rows[i].has);
    assert_int_equal(qp_uuid_is_none(&m->parent), rows[i].none);
    qp_message_free(m);
  }
}

static void
test_encode_appends_or_leaves_the_buffer_alone(void **state)
{
  struct qp_message *m = decode(rich);
  struct qp_err err;
  struct qp__buf b;

  (void)state;
  qp__buf_init(&b, sizeof(rich) - 1 + 3);
  assert_int_equal(qp__buf_add_str(&b, "xyz"), QP_OK);
  assert_int_equal(qp__message_encode(m, &b, &err), QP_OK); /* fits exactly */
  assert_int_equal(strncmp(b.data, "xyz{", 4), 0);
  assert_string_equal(b.data + 3, rich);
  qp__buf_release(&b);
  qp__buf_init(&b, sizeof(rich) - 1 + 2);
  assert_int_equal(qp__buf_add_str(&b, "xyz"), QP_OK);
  assert_int_equal(qp__message_encode(m, &b, &err), QP_TOOBIG);
  assert_string_equal(b.data, "xyz");
  assert_int_equal(b.len, 3);
  assert_non_null(strstr(err.msg, "the message is over its limit"));
  qp__buf_release(&b);
  qp_message_free(m);
}

static void
test_tokens_come_from_the_metadata(void **state)
{
  static const struct {
    const char *metadata;
    uint32_t tokens;
  } rows[] = {
    { "{}", 0 },
    { "{\"tokens\":5}", 0 },
    { "{\"tokens\":{}}", 0 },
    { "{\"tokens\":{\"completion_tokens\":12,\"prompt_tokens\":99}}", 12 },
    { "{\"tokens\":{\"prompt_tokens\":99}}", 99 },
    { "{\"tokens\":{\"completion_tokens\":0,\"prompt_tokens\":99}}", 99 },
    { "{\"tokens\":{\"completion_tokens\":null,\"prompt_tokens\":99}}", 99 },
    { "{\"tokens\":{\"completion_tokens\":\"12\"}}", 0 },
    { "{\"tokens\":{\"completion_tokens\":-12}}", 0 },
    { "{\"tokens\":{\"completion_tokens\":4294967295}}", UINT32_MAX },
    { "{\"tokens\":{\"completion_tokens\":4294967296}}", UINT32_MAX },
  };
  struct qp_message *m = NULL;

  (void)state;
  assert_int_equal(qp_message_new(QP_ROLE_USER, &m, NULL), QP_OK);
  assert_int_equal(qp__message_tokens(m), 0);
  for (size_t i = 0; i < COUNT(rows); i++) {
    assert_int_equal(qp_message_set_metadata(m, rows[i].metadata, NULL), QP_OK);
    assert_int_equal(qp__message_tokens(m), rows[i].tokens);
  }
  qp_message_free(m);
}

/* ---- building ---- */

static const struct qp_part text_part = { .kind = QP_PART_TEXT, .text = TEXT("a\0b\xe2\x82\xac") };
static const struct qp_part image_part = { .kind = QP_PART_IMAGE, .url = "u", .detail = "low" };
static const struct qp_part thinking_part = { .kind = QP_PART_THINKING,
                                              .text = TEXT("hm"),
                                              .signature = "s" };
static const struct qp_tool_call a_call = { .id = "c",
                                            .tool_name = "t",
                                            .arguments_json = " { \"a\" : [ 0.5 ] } ",
                                            .approval = QP_APPROVAL_DENIED,
                                            .display = QP_DISPLAY_HIDDEN,
                                            .ui_hints_json = "{\"x\":1}" };
static const struct qp_tool_result a_result = {
  .request_id = "r", .result_json = "\"done\"", .is_error = true, .display = QP_DISPLAY_COLLAPSIBLE
};

static void
test_a_message_is_built_by_hand(void **state)
{
  struct qp_message *m = NULL;
  struct qp_uuid id;
  struct qp_uuid parent;
  struct qp_tool_result result;
  struct qp_part bare = { .kind = QP_PART_IMAGE, .url = "only" };
  struct qp_part empty = { .kind = QP_PART_TEXT };

  (void)state;
  assert_int_equal(qp_uuid_parse(ID, &id, NULL), QP_OK);
  assert_int_equal(qp_uuid_parse(PARENT, &parent, NULL), QP_OK);
  assert_int_equal(qp_message_new(QP_ROLE_ASSISTANT, &m, NULL), QP_OK);
  assert_int_equal(qp_message_type(m), QP_TYPE_TEXT);
  assert_false(qp_message_tool_result(m, &result));
  assert_int_equal(qp_message_add_part(m, &text_part, NULL), QP_OK);
  assert_int_equal(qp_message_add_part(m, &image_part, NULL), QP_OK);
  assert_int_equal(qp_message_add_part(m, &thinking_part, NULL), QP_OK);
  assert_int_equal(qp_message_add_part(m, &bare, NULL), QP_OK);
  assert_int_equal(qp_message_add_part(m, &empty, NULL), QP_OK);
  assert_int_equal(qp_message_add_tool_call(m, &a_call, NULL), QP_OK);
  assert_int_equal(qp_message_type(m), QP_TYPE_TOOL_CALL);
  assert_int_equal(qp_message_set_tool_result(m, &a_result, NULL), QP_OK);
  assert_int_equal(qp_message_set_tool_result(m, &a_result, NULL), QP_OK);
  assert_int_equal(qp_message_type(m), QP_TYPE_TOOL_RESULT);
  qp_message_set_type(m, QP_TYPE_QUESTION);
  qp_message_set_type(m, (enum qp_message_type)77); /* not a type: nothing happens */
  assert_int_equal(qp_message_type(m), QP_TYPE_QUESTION);
  qp_message_set_created_at(m, 1);
  qp_message_set_id(m, &id);
  qp_message_set_parent(m, &parent);
  assert_int_equal(qp_message_set_metadata(m, "{ \"a\" : 1 }", NULL), QP_OK);
  assert_int_equal(qp_message_set_metadata(m, "{ \"b\" : 2 }", NULL), QP_OK);
  expect_json(m, "{\"id\":\"" ID "\",\"parent_id\":\"" PARENT "\",\"role\":\"assistant\","
                 "\"type\":\"question\",\"created_at\":\"1970-01-01T00:00:00.001Z\",\"content\":["
                 "{\"type\":\"text\",\"text\":\"a\\u0000b\xe2\x82\xac\"},"
                 "{\"type\":\"image\",\"url\":\"u\",\"detail\":\"low\"},"
                 "{\"type\":\"thinking\",\"text\":\"hm\",\"signature\":\"s\"},"
                 "{\"type\":\"image\",\"url\":\"only\"},"
                 "{\"type\":\"text\",\"text\":\"\"}],"
                 "\"tool_calls\":[{\"id\":\"c\",\"tool_name\":\"t\",\"arguments\":{\"a\":[0.5]},"
                 "\"approval_status\":\"Denied\",\"display_preference\":\"Hidden\","
                 "\"ui_hints\":{\"x\":1}}],"
                 "\"tool_result\":{\"request_id\":\"r\",\"result\":\"done\",\"is_error\":true,"
                 "\"display_preference\":\"Collapsible\"},\"metadata\":{\"b\":2}}");
  qp_message_set_parent(m, NULL);
  qp_message_set_id(m, NULL);
  assert_true(m->has_parent);
  assert_true(qp_uuid_is_none(&m->parent) && qp_uuid_is_none(&m->id));
  qp_message_free(m);
  qp_message_free(NULL);
}

static void
test_new_text_copies_its_text(void **state)
{
  char text[] = "hello";
  struct qp_bytes view = { text, 5 };
  struct qp_bytes bad = { "\xff", 1 };
  struct qp_bytes none = { NULL, 0 };
  struct qp_message *m = NULL;
  struct qp_err err;

  (void)state;
  assert_int_equal(qp_message_new_text(QP_ROLE_USER, view, &m, &err), QP_OK);
  text[0] = 'J';
  assert_memory_equal(qp_message_part(m, 0).text.data, "hello", 5);
  qp_message_free(m);
  m = NULL;
  assert_int_equal(qp_message_new_text(QP_ROLE_USER, bad, &m, &err), QP_INVALID);
  assert_string_equal(err.msg, "the text of a part is not valid UTF-8");
  assert_int_equal(qp_message_new((enum qp_role)9, &m, &err), QP_MISUSE);
  assert_null(m);
  assert_int_equal(qp_message_new_text(QP_ROLE_TOOL, none, &m, &err), QP_OK);
  assert_int_equal(qp_message_part(m, 0).text.len, 0);
  assert_non_null(qp_message_part(m, 0).text.data);
  qp_message_free(m);
}

static void
test_a_setter_that_fails_changes_nothing(void **state)
{
  static const struct qp_part parts[] = {
    { .kind = QP_PART_OTHER },
    { .kind = (enum qp_part_kind)9 },
    { .kind = QP_PART_TEXT, .text = { "\xc3", 1 } },
    { .kind = QP_PART_TEXT, .text = { NULL, 1 } },
    { .kind = QP_PART_IMAGE },
    { .kind = QP_PART_IMAGE, .url = "\xff" },
    { .kind = QP_PART_IMAGE, .url = "a", .detail = "\xff" },
    { .kind = QP_PART_THINKING, .text = TEXT("a"), .signature = "\xff" },
  };
  static const struct qp_tool_call calls[] = {
    { .tool_name = "t", .arguments_json = "{}" },
    { .id = "i", .arguments_json = "{}" },
    { .id = "", .tool_name = "t", .arguments_json = "{}" },
    { .id = "i", .tool_name = "", .arguments_json = "{}" },
    { .id = "\xff", .tool_name = "t", .arguments_json = "{}" },
    { .id = "i", .tool_name = "\xff", .arguments_json = "{}" },
    { .id = "i", .tool_name = "t", .arguments_json = "{" },
    { .id = "i", .tool_name = "t", .arguments_json = "" },
    { .id = "i", .tool_name = "t", .arguments_json = "1e999" },
    { .id = "i", .tool_name = "t", .arguments_json = "{}", .ui_hints_json = "[]" },
    { .id = "i", .tool_name = "t", .arguments_json = "{}", .ui_hints_json = "{]" },
    { .id = "i", .tool_name = "t", .arguments_json = "{}", .approval = (enum qp_approval)3 },
    { .id = "i", .tool_name = "t", .arguments_json = "{}", .display = (enum qp_display)3 },
  };
  static const struct qp_tool_result results[] = {
    { .result_json = "1" },
    { .request_id = "", .result_json = "1" },
    { .request_id = "\xff", .result_json = "1" },
    { .request_id = "r", .result_json = "1 1" },
    { .request_id = "r", .result_json = "1", .display = (enum qp_display) - 1 },
  };
  static const char *const metadata[] = { NULL, "", "[]", "null", "{\"a\":1,\"a\":2}", "{\xff}" };
  struct qp_message *m = decode(rich);
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(parts); i++) {
    err.msg[0] = 0;
    assert_int_not_equal(qp_message_add_part(m, &parts[i], &err), QP_OK);
    assert_true(err.msg[0] && err.rc != QP_NOMEM);
  }
  for (size_t i = 0; i < COUNT(calls); i++) {
    err.msg[0] = 0;
    assert_int_not_equal(qp_message_add_tool_call(m, &calls[i], &err), QP_OK);
    assert_true(err.msg[0] && err.rc != QP_NOMEM);
  }
  for (size_t i = 0; i < COUNT(results); i++) {
    err.msg[0] = 0;
    assert_int_not_equal(qp_message_set_tool_result(m, &results[i], &err), QP_OK);
    assert_true(err.msg[0] && err.rc != QP_NOMEM);
  }
  for (size_t i = 0; i < COUNT(metadata); i++) {
    err.msg[0] = 0;
    assert_int_equal(qp_message_set_metadata(m, metadata[i], &err), QP_INVALID);
    assert_true(err.msg[0]);
  }
  expect_json(m, rich);
  qp_message_free(m);
}

static void
test_absent_json_is_null(void **state)
{
  struct qp_tool_call call = { .id = "i", .tool_name = "t" };
  struct qp_tool_result result = { .request_id = "r" };
  struct qp_message *m = NULL;

  (void)state;
  assert_int_equal(qp_message_new(QP_ROLE_TOOL, &m, NULL), QP_OK);
  assert_int_equal(qp_message_add_tool_call(m, &call, NULL), QP_OK);
  assert_int_equal(qp_message_set_tool_result(m, &result, NULL), QP_OK);
  assert_string_equal(qp_message_tool_call(m, 0).arguments_json, "null");
  assert_true(qp_message_tool_result(m, &result));
  assert_string_equal(result.result_json, "null");
  qp_message_free(m);
}

/* An array in an array …, `depth` levels. */
static char *
nested(size_t depth)
{
  char *text = qp__alloc0(2 * depth + 1, 1);

  memset(text, '[', depth);
  memset(text + depth, ']', depth);
  return text;
}

/* A value that would be too deep once it stands in the message is refused when it is set, so that
 * what was encoded can always be decoded. */
static void
test_depth_counts_from_the_whole_message(void **state)
{
  char *deep[] = { nested(QP__JSON_DEPTH - 1), nested(QP__JSON_DEPTH - 2),
                   nested(QP__JSON_DEPTH - 3) };
  struct qp_tool_call call = { .id = "i", .tool_name = "t" };
  struct qp_tool_result result = { .request_id = "r" };
  struct qp__buf metadata;
  struct qp_message *m = NULL;
  struct qp_message *again = NULL;
  struct qp_err err;
  char *text;

  (void)state;
  assert_int_equal(qp_message_new(QP_ROLE_TOOL, &m, NULL), QP_OK);
  call.arguments_json = deep[1];
  assert_int_equal(qp_message_add_tool_call(m, &call, &err), QP_INVALID);
  assert_string_equal(err.msg, "arguments: JSON nested deeper than 509 levels");
  call.arguments_json = deep[2];
  assert_int_equal(qp_message_add_tool_call(m, &call, &err), QP_OK);
  result.result_json = deep[0];
  assert_int_equal(qp_message_set_tool_result(m, &result, &err), QP_INVALID);
  result.result_json = deep[1];
  assert_int_equal(qp_message_set_tool_result(m, &result, &err), QP_OK);
  qp__buf_init(&metadata, BIG);
  (void)qp__buf_addf(&metadata, "{\"a\":%s}", deep[0]);
  assert_int_equal(qp_message_set_metadata(m, metadata.data, &err), QP_INVALID);
  qp__buf_reset(&metadata);
  (void)qp__buf_addf(&metadata, "{\"a\":%s}", deep[1]);
  assert_int_equal(qp_message_set_metadata(m, metadata.data, &err), QP_OK);
  text = encode(m);
  assert_int_equal(qp_message_parse(bytes(text), &again, &err), QP_OK);
  expect_json(again, text);
  qp_free(text);
  qp__buf_release(&metadata);
  qp_message_free(m);
  qp_message_free(again);
  for (size_t i = 0; i < COUNT(deep); i++)
    qp__free(deep[i]);
}

static void
test_many_parts_and_a_large_text(void **state)
{
  const size_t big = (size_t)3 << 20;
  struct qp_part part = { .kind = QP_PART_TEXT };
  struct qp_message *m = NULL;
  struct qp_message *again = NULL;
  char *text = qp__alloc(big);
  char *json;

  (void)state;
  memset(text, 'x', big);
  assert_int_equal(qp_message_new(QP_ROLE_USER, &m, NULL), QP_OK);
  for (size_t i = 0; i < 1000; i++) {
    part.text.data = text;
    part.text.len = i == 500 ? big : i;
    assert_int_equal(qp_message_add_part(m, &part, NULL), QP_OK);
    assert_int_equal(qp_message_add_tool_call(m, &a_call, NULL), QP_OK);
  }
  json = encode(m);
  assert_int_equal(qp_message_parse(bytes(json), &again, NULL), QP_OK);
  assert_int_equal(qp_message_part_count(again), 1000);
  assert_int_equal(qp_message_tool_call_count(again), 1000);
  assert_int_equal(qp_message_part(again, 500).text.len, big);
  assert_int_equal(qp_message_part(again, 999).text.len, 999);
  expect_json(again, json);
  qp_free(json);
  qp__free(text);
  qp_message_free(m);
  qp_message_free(again);
}

/* ---- failing allocations ---- */

/* Whichever allocation fails: the message, or QP_NOMEM and nothing. */
static void
test_decode_and_encode_survive_every_failing_allocation(void **state)
{
  (void)state;
  for (int all = 0; all < 2; all++) {
    bool fired = true;
    long n;

    for (n = 1; fired; n++) {
      struct qp_message *m = NULL;
      struct qp_err err = { QP_OK, "" };
      char *text = NULL;
      size_t len = 77;
      enum qp_rc rc;
      enum qp_rc encoded = QP_OK;

      (all ? alloc_fault_arm_all : alloc_fault_arm)(n);
      rc = qp_message_parse(bytes(rich), &m, &err);
      if (!rc)
        encoded = qp_message_json(m, &text, &len, &err);
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      if (rc || encoded) {
        assert_int_equal(rc ? rc : encoded, QP_NOMEM);
        assert_int_equal(err.rc, QP_NOMEM);
        assert_int_equal(strncmp(err.msg, "out of memory: ", 15), 0);
        assert_null(text);
        assert_int_equal(len, 77);
        assert_true(rc ? m == NULL : m != NULL);
        if (m)
          expect_json(m, rich); /* it was only the encoding that failed */
      } else {
        assert_string_equal(text, rich);
      }
      qp_free(text);
      qp_message_free(m);
    }
    assert_true(n > 100);
  }
}

static enum qp_rc
change(struct qp_message *m, int which, struct qp_err *err)
{
  switch (which) {
  case 0:
    return qp_message_add_part(m, &text_part, err);
  case 1:
    return qp_message_add_part(m, &image_part, err);
  case 2:
    return qp_message_add_part(m, &thinking_part, err);
  case 3:
    return qp_message_add_tool_call(m, &a_call, err);
  case 4:
    return qp_message_set_tool_result(m, &a_result, err);
  default:
    return qp_message_set_metadata(m, "{\"a\":[1,{\"b\":\"c\"}]}", err);
  }
}

static void
test_setters_survive_every_failing_allocation(void **state)
{
  (void)state;
  for (int which = 0; which < 6; which++) {
    for (int all = 0; all < 2; all++) {
      const char *base =
          which < 3 ? HEAD "\"content\":[]}" : rich; /* the first part needs memory */
      struct qp_message *m = decode(base);
      char *changed;
      bool fired = true;
      long n;

      assert_int_equal(change(m, which, NULL), QP_OK);
      changed = encode(m);
      qp_message_free(m);
      for (n = 1; fired; n++) {
        struct qp_err err;
        enum qp_rc rc;

        m = decode(base);
        (all ? alloc_fault_arm_all : alloc_fault_arm)(n);
        rc = change(m, which, &err);
        fired = alloc_fault_fired();
        alloc_fault_disarm();
        if (rc) {
          assert_int_equal(rc, QP_NOMEM);
          assert_int_equal(err.rc, QP_NOMEM);
          expect_json(m, base);
          assert_int_equal(change(m, which, &err), QP_OK); /* and it can be tried again */
        }
        expect_json(m, changed);
        qp_message_free(m);
      }
      assert_true(n > 2);
      qp_free(changed);
    }
  }
}

static void
test_new_text_survives_every_failing_allocation(void **state)
{
  bool fired = true;
  long n;

  (void)state;
  for (n = 1; fired; n++) {
    struct qp_message *m = NULL;
    struct qp_err err;
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = qp_message_new_text(QP_ROLE_USER, bytes("some text"), &m, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
    assert_true(rc ? m == NULL : m != NULL);
    qp_message_free(m);
  }
  assert_int_equal(n, 5); /* the message, its arena, its array of parts */
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_names_are_found_again),
    cmocka_unit_test(test_stored_form_comes_back_byte_for_byte),
    cmocka_unit_test(test_input_becomes_the_stored_form),
    cmocka_unit_test(test_wrong_input_is_refused_with_the_path_of_the_field),
    cmocka_unit_test(test_parent_is_said_or_not),
    cmocka_unit_test(test_encode_appends_or_leaves_the_buffer_alone),
    cmocka_unit_test(test_tokens_come_from_the_metadata),
    cmocka_unit_test(test_a_message_is_built_by_hand),
    cmocka_unit_test(test_new_text_copies_its_text),
    cmocka_unit_test(test_a_setter_that_fails_changes_nothing),
    cmocka_unit_test(test_absent_json_is_null),
    cmocka_unit_test(test_depth_counts_from_the_whole_message),
    cmocka_unit_test(test_many_parts_and_a_large_text),
    cmocka_unit_test(test_decode_and_encode_survive_every_failing_allocation),
    cmocka_unit_test(test_setters_survive_every_failing_allocation),
    cmocka_unit_test(test_new_text_survives_every_failing_allocation),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}

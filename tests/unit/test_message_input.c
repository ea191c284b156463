/* test_message_input.c - src/model: requirements for the message of a client, and copies of
 * messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>
#include <cmocka.h>

#include "alloc_fault.h"
#include "model/message.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define ID "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6"
#define PARENT "0192f3a4-b5c6-7d8e-9fa0-000000000001"

/* Every field, and an unknown one at every level, in the stored form. */
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
  return (struct qp_bytes){ s, strlen(s) };
}

static struct qp_message *
decode(const char *json)
{
  struct qp_message *m = NULL;

  assert_int_equal(qp_message_parse(bytes(json), &m, NULL), QP_OK);
  return m;
}

static char *
encode(const struct qp_message *m)
{
  char *text = NULL;
  size_t len = 0;

  assert_int_equal(qp_message_json(m, &text, &len, NULL), QP_OK);
  return text;
}

static void
expect_json(const struct qp_message *m, const char *want)
{
  char *text = encode(m);

  assert_string_equal(text, want);
  qp_free(text);
}

static void
test_a_clone_says_the_same_and_shares_nothing(void **state)
{
  static const char *const texts[] = {
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}",
    "{\"role\":\"user\",\"parent_id\":null,\"text\":\"b\"}",
    rich,
  };

  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct qp_message *m = decode(texts[i]);
    struct qp_message *copy = NULL;
    bool has_parent = m->has_parent;
    char *json = encode(m);

    assert_int_equal(qp__message_clone(m, &copy, NULL), QP_OK);
    qp_message_free(m);
    assert_int_equal(copy->has_parent, has_parent);
    expect_json(copy, json);
    qp_message_free(copy);
    qp_free(json);
  }
}

static void
test_a_clone_survives_every_failing_allocation(void **state)
{
  struct qp_message *m = decode(rich);
  bool fired = true;

  (void)state;
  for (long n = 1; fired; n++) {
    struct qp_message *copy = NULL;
    struct qp_err err;
    enum qp_rc rc;

    alloc_fault_arm_all(n);
    rc = qp__message_clone(m, &copy, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
    assert_true(rc ? copy == NULL : copy != NULL);
    expect_json(m, rich);
    qp_message_free(copy);
  }
  qp_message_free(m);
}

/* What a client gives must say something; what is stored is read as it is. */
static void
test_a_message_without_any_content_is_refused(void **state)
{
  static const char *const empty[] = { "{\"role\":\"user\"}",
                                       "{\"role\":\"user\",\"content\":null,\"metadata\":{}}" };
  static const char *const good[] = {
    "{\"role\":\"user\",\"text\":\"\"}",
    "{\"role\":\"assistant\",\"content\":[]}",
    "{\"role\":\"assistant\",\"tool_calls\":[]}",
    "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"c\",\"result\":1}}",
  };
  struct qp_message *m = NULL;
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(empty); i++) {
    assert_int_equal(qp_message_parse(bytes(empty[i]), &m, &err), QP_INVALID);
    assert_string_equal(err.msg, "message: \"content\" is missing");
    assert_null(m);
    assert_int_equal(qp__message_decode("message", bytes(empty[i]), &m, &err), QP_OK);
    qp_message_free(m);
    m = NULL;
  }
  for (size_t i = 0; i < COUNT(good); i++) {
    assert_int_equal(qp_message_parse(bytes(good[i]), &m, &err), QP_OK);
    qp_message_free(m);
  }
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_message_without_any_content_is_refused),
    cmocka_unit_test(test_a_clone_says_the_same_and_shares_nothing),
    cmocka_unit_test(test_a_clone_survives_every_failing_allocation),
  };

  return cmocka_run_group_tests_name("message input", tests, NULL, NULL);
}

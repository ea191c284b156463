/* test_event.c - the lines of events and keys: written lines can be read, and no other line is
 * accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/event.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct qp_bytes
bytes_of(const char *text)
{
  return (struct qp_bytes){ text, strlen(text) };
}

static void
test_an_event_is_read_as_it_was_written(void **state)
{
  static const struct {
    uint64_t seq;
    const char *type;
    const char *data;
    const char *want;
  } cases[] = {
    { 1, "a", "", "{\"seq\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}\n" },
    { 20, "A.b-c_9", "{}",
      "{\"seq\":20,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"A.b-c_9\"}\n" },
    { QP__EVENT_SEQ_MAX, "x", "{ \"a\" : { } , \"\" : [ ] }",
      "{\"seq\":9007199254740991,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"x\",\"a\":{},"
      "\"\":[]}\n" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct qp_event event = { .type = cases[i].type, .data = bytes_of(cases[i].data) };
    struct qp__event_head head;
    struct qp_bytes line;
    struct qp__buf out;

    qp__buf_init(&out, 4096);
    assert_int_equal(qp__event_encode(&event, false, cases[i].seq, 1700000000123, &out, NULL),
                     QP_OK);
    assert_string_equal(out.data, cases[i].want);
    line = (struct qp_bytes){ out.data, out.len - 1 };
    assert_int_equal(qp__event_decode(line, &head, NULL), QP_OK);
    assert_true(head.seq == cases[i].seq && head.time == 1700000000123);
    assert_string_equal(head.type, cases[i].type);
    assert_true(qp__event_seq(line) == cases[i].seq);
    for (size_t n = 0; n < line.len; n++) /* no beginning of it is one */
      assert_int_equal(qp__event_decode((struct qp_bytes){ line.data, n }, &head, NULL),
                       QP_INVALID);
    qp__buf_release(&out);
  }
}

static void
test_other_lines_are_no_events(void **state)
{
  static const char *const lines[] = {
    "",
    "{}",
    "[1]",
    "{\"seq\":0,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\":01,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\":-1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\":1.5,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\":9007199254740992,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\":99999999999999999999999999,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\": 1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\":1,\"time\":\"2023-13-14T22:13:20.123Z\",\"type\":\"a\"}",
    "{\"seq\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"\"}",
    "{\"seq\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a b\"}",
    "{\"seq\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\"}}",
    "{\"seq\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\",\"x\":}",
    "{\"seq\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"a\",\"seq\":2}",
    "{\"time\":\"2023-11-14T22:13:20.123Z\",\"seq\":1,\"type\":\"a\"}",
  };

  (void)state;
  for (size_t i = 0; i < COUNT(lines); i++) {
    struct qp__event_head head;
    struct qp_err err = { QP_OK, "" };

    if (qp__event_decode(bytes_of(lines[i]), &head, &err) != QP_INVALID || !err.msg[0])
      fail_msg("'%s' is taken for an event", lines[i]);
  }
}

static void
test_a_key_is_read_as_it_was_written(void **state)
{
  static const char want[] = "{\"key\":\"a\\\"\\\\\xc3\xbc\",\"time\":\"2023-11-14T22:13:20.123Z\","
                             "\"result\":[1,{\"a\":null}]}\n";
  struct qp__key_line line;
  struct qp__buf out;
  struct qp__buf result;

  (void)state;
  qp__buf_init(&out, 4096);
  qp__buf_init(&result, 4096);
  assert_int_equal(qp__key_encode("a\"\\\xc3\xbc", 1700000000123, bytes_of("[1, {\"a\":null}]"),
                                  false, &out, NULL),
                   QP_OK);
  assert_string_equal(out.data, want);
  assert_int_equal(qp__key_decode((struct qp_bytes){ out.data, out.len - 1 }, &line, &result, NULL),
                   QP_OK);
  assert_string_equal(line.key, "a\"\\\xc3\xbc");
  assert_string_equal(result.data, "[1,{\"a\":null}]");
  assert_true(line.time == 1700000000123);
  for (size_t n = 0; n + 1 < out.len; n++)
    assert_int_equal(qp__key_decode((struct qp_bytes){ out.data, n }, &line, NULL, NULL),
                     QP_INVALID);
  assert_int_equal(qp__key_decode(bytes_of("{\"key\":\"a\"}"), &line, NULL, NULL), QP_INVALID);
  assert_int_equal(qp__key_decode(bytes_of("{\"key\":1,\"result\":1}"), &line, NULL, NULL),
                   QP_INVALID);
  assert_int_equal(qp__key_decode(bytes_of("{\"key\":\"\",\"result\":1}"), &line, NULL, NULL),
                   QP_INVALID);
  qp__buf_release(&result);
  qp__buf_release(&out);
}

static void
test_trusted_text_is_written_as_it_would_be_after_a_parse(void **state)
{
  static const char *const texts[] = { "{}", "{\"a\":1,\"b\":[\"\\n\",0.5,{\"c\":null}]}" };

  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct qp_event event = { .type = "t", .data = bytes_of(texts[i]) };
    struct qp__buf out[4];

    for (size_t k = 0; k < 4; k++)
      qp__buf_init(&out[k], 4096);
    for (size_t k = 0; k < 2; k++) {
      assert_int_equal(qp__event_encode(&event, k == 1, 7, 9, &out[k], NULL), QP_OK);
      assert_int_equal(qp__key_encode("k", 9, event.data, k == 1, &out[2 + k], NULL), QP_OK);
    }
    assert_string_equal(out[0].data, out[1].data);
    assert_string_equal(out[2].data, out[3].data);
    for (size_t k = 0; k < 4; k++)
      qp__buf_release(&out[k]);
  }
}

static void
test_a_result_has_a_bound(void **state)
{
  char text[QP_KEY_RESULT_MAX + 2];
  struct qp__buf out;

  (void)state;
  memset(text, 'x', sizeof(text));
  text[0] = text[QP_KEY_RESULT_MAX - 1] = '"';
  qp__buf_init(&out, (size_t)QP_KEY_RESULT_MAX * 2);
  assert_int_equal(
      qp__key_encode("k", 0, (struct qp_bytes){ text, QP_KEY_RESULT_MAX }, false, &out, NULL),
      QP_OK);
  text[QP_KEY_RESULT_MAX - 1] = 'x';
  text[QP_KEY_RESULT_MAX] = '"';
  qp__buf_reset(&out);
  assert_int_equal(
      qp__key_encode("k", 0, (struct qp_bytes){ text, QP_KEY_RESULT_MAX + 1 }, false, &out, NULL),
      QP_TOOBIG);
  qp__buf_release(&out);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_an_event_is_read_as_it_was_written),
    cmocka_unit_test(test_other_lines_are_no_events),
    cmocka_unit_test(test_a_key_is_read_as_it_was_written),
    cmocka_unit_test(test_trusted_text_is_written_as_it_would_be_after_a_parse),
    cmocka_unit_test(test_a_result_has_a_bound),
  };

  return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}

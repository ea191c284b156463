/* test_json.c - src/base: json_read.c, json_write.c and json.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <locale.h>
#include <cmocka.h>

#include "alloc_fault.h"
#include "base/json.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define TEXT(s) s, sizeof(s) - 1
#define BIG ((size_t)1 << 24)
#define SIXTY "123456789012345678901234567890123456789012345678901234567890"

static struct qp_bytes
bytes(const char *s)
{
  struct qp_bytes b = { s, strlen(s) };

  return b;
}

/* What comes out of reading and writing `in`. */
static void
expect_json(const char *in, const char *out)
{
  struct qp_err err;
  struct qp__buf text;
  json_t *value = NULL;

  if (qp__json_parse("test", bytes(in), &value, &err))
    fail_msg("%s: %s", in, err.msg);
  qp__buf_init(&text, BIG);
  assert_int_equal(qp__json_write(&text, value), QP_OK);
  assert_string_equal(text.data, out);
  json_decref(value);
  qp__buf_release(&text);
}

static void
test_json_comes_out_as_it_went_in(void **state)
{
  static const struct {
    const char *in;
    const char *out; /* NULL: the same */
  } rows[] = {
    { "null", NULL },
    { " [ true , false,null ]\r\n\t", "[true,false,null]" },
    { "{}", NULL },
    { "[]", NULL },
    { "{\"b\":1,\"a\":{\"z\":[],\"y\":{}},\"\":2}", NULL }, /* the order stays */
    { "0", NULL },
    { "-0", "0" },
    { "9223372036854775807", NULL },
    { "-9223372036854775808", NULL },
    { "0.1", NULL },
    { "0.7", NULL },
    { "3.14", NULL },
    { "0.10000000000000001", "0.1" },
    { "0.30000000000000004", NULL },
    { "5e-324", "4.94065645841247e-324" },
    { "1.7976931348623157e308", "1.7976931348623157e+308" },
    { "1e300", "1e+300" },
    { "1E+300", "1e+300" },
    { "1.0", NULL },
    { "-0.0", NULL },
    { "1e2", "100.0" },
    { "123456789012345680.0", "1.2345678901234568e+17" },
    { "1e-400", "0.0" },
    { "\"\"", NULL },
    { "\"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\"", "\"A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"" },
    { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u000b\\u0000\\u001f\\u007f\"",
      "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u000b\\u0000\\u001f\x7f\"" },
    { "{\"k\\\"\\n\":\"v\"}", NULL },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const char *out = rows[i].out ? rows[i].out : rows[i].in;

    expect_json(rows[i].in, out);
    expect_json(out, out);
  }
}

static void
test_json_refuses_what_is_not_json(void **state)
{
  static const struct {
    struct qp_bytes in;
    const char *sentence;
  } rows[] = {
    { { TEXT("") }, "test: not valid JSON: unexpected end of input (line 1, column 1)" },
    { { TEXT("  ") }, "test: not valid JSON: unexpected end of input (line 1, column 3)" },
    { { TEXT("{") }, "test: not valid JSON: a key was expected (line 1, column 2)" },
    { { TEXT("[1") }, "test: not valid JSON: ',' or ']' was expected (line 1, column 3)" },
    { { TEXT("[1,]") }, "test: not valid JSON: expected a value (line 1, column 4)" },
    { { TEXT("{\"a\":1,}") }, "test: not valid JSON: a key was expected (line 1, column 8)" },
    { { TEXT("{\"a\" 1}") }, "test: not valid JSON: ':' was expected (line 1, column 6)" },
    { { TEXT("{\"a\":1 2") }, "test: not valid JSON: ',' or '}' was expected (line 1, column 8)" },
    { { TEXT("{a:1}") }, "test: not valid JSON: a key was expected (line 1, column 2)" },
    { { TEXT("{\"a\":1,\n \"a\":2}") }, "test: not valid JSON: duplicate key (line 2, column 7)" },
    { { TEXT("{\"\\u0061\":1,\"a\":2}") },
      "test: not valid JSON: duplicate key (line 1, column 18)" },
    { { TEXT("{\"a\\u0000\":1}") },
      "test: not valid JSON: a NUL character in a key (line 1, column 11)" },
    { { TEXT("1 2") }, "test: not valid JSON: unexpected text after the value (line 1, column 3)" },
    { { TEXT("{}\n}") },
      "test: not valid JSON: unexpected text after the value (line 2, column 1)" },
    { { TEXT("1\0") }, "test: not valid JSON: unexpected text after the value (line 1, column 2)" },
    { { TEXT("nul") }, "test: not valid JSON: expected a value (line 1, column 1)" },
    { { TEXT("True") }, "test: not valid JSON: expected a value (line 1, column 1)" },
    { { TEXT("NaN") }, "test: not valid JSON: expected a value (line 1, column 1)" },
    { { TEXT("\xef\xbb\xbf{}") }, "test: not valid JSON: expected a value (line 1, column 1)" },
    { { TEXT("01") }, "test: not valid JSON: a malformed number (line 1, column 3)" },
    { { TEXT("-") }, "test: not valid JSON: a malformed number (line 1, column 2)" },
    { { TEXT("+1") }, "test: not valid JSON: expected a value (line 1, column 1)" },
    { { TEXT("1.") }, "test: not valid JSON: a malformed number (line 1, column 3)" },
    { { TEXT(".5") }, "test: not valid JSON: expected a value (line 1, column 1)" },
    { { TEXT("1e") }, "test: not valid JSON: a malformed number (line 1, column 3)" },
    { { TEXT("1e+") }, "test: not valid JSON: a malformed number (line 1, column 4)" },
    { { TEXT("1e400") }, "test: not valid JSON: a number that is too big (line 1, column 6)" },
    { { TEXT("9223372036854775808") },
      "test: not valid JSON: a whole number that does not fit in 64 bits (line 1, column 20)" },
    { { TEXT("-9223372036854775809") },
      "test: not valid JSON: a whole number that does not fit in 64 bits (line 1, column 21)" },
    { { TEXT("99999999999999999999999") },
      "test: not valid JSON: a whole number that does not fit in 64 bits (line 1, column 24)" },
    { { TEXT("\"abc") }, "test: not valid JSON: a string has no end (line 1, column 5)" },
    { { TEXT("\"\xc3\xa4\xc3\xa4") },
      "test: not valid JSON: a string has no end (line 1, column 4)" },
    { { TEXT("\"a\nb\"") },
      "test: not valid JSON: a control character in a string (line 1, column 3)" },
    { { TEXT("\"a\0b\"") },
      "test: not valid JSON: a control character in a string (line 1, column 3)" },
    { { TEXT("\"\\x\"") },
      "test: not valid JSON: an unknown escape in a string (line 1, column 3)" },
    { { TEXT("\"\\") }, "test: not valid JSON: an unknown escape in a string (line 1, column 3)" },
    { { TEXT("\"\\\0\"") },
      "test: not valid JSON: an unknown escape in a string (line 1, column 3)" },
    { { TEXT("\"\\u12g4\"") },
      "test: not valid JSON: \\u must be followed by four hexadecimal digits (line 1, column 4)" },
    { { TEXT("\"\\u12\"") },
      "test: not valid JSON: \\u must be followed by four hexadecimal digits (line 1, column 4)" },
    { { TEXT("\"\\ud800\"") },
      "test: not valid JSON: half of a surrogate pair in a string (line 1, column 8)" },
    { { TEXT("\"\\ud800\\u0041\"") },
      "test: not valid JSON: half of a surrogate pair in a string (line 1, column 14)" },
    { { TEXT("\"\\udc00\\ud800\"") },
      "test: not valid JSON: half of a surrogate pair in a string (line 1, column 8)" },
    { { TEXT("\"\xff\"") }, "test: not valid JSON: not valid UTF-8" },
    { { TEXT("\"\xed\xa0\x80\"") }, "test: not valid JSON: not valid UTF-8" },
    { { NULL, 0 }, "test: not valid JSON: unexpected end of input (line 1, column 1)" },
  };
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    json_t *value = NULL;

    if (qp__json_parse("test", rows[i].in, &value, &err) != QP_INVALID)
      fail_msg("row %zu was taken", i);
    assert_null(value);
    assert_string_equal(err.msg, rows[i].sentence);
  }
}

/* n times `open`, then n times `close`. */
static enum qp_rc
parse_nested(const char *open, const char *close, size_t n, struct qp_err *err)
{
  struct qp__buf b;
  json_t *value = NULL;
  enum qp_rc rc;

  qp__buf_init(&b, BIG);
  for (size_t i = 0; i < n; i++)
    (void)qp__buf_add_str(&b, open);
  if (strchr(open, ':'))
    (void)qp__buf_add_str(&b, "1");
  for (size_t i = 0; i < n; i++)
    (void)qp__buf_add_str(&b, close);
  rc = qp__json_parse("test", qp__buf_bytes(&b), &value, err);
  json_decref(value);
  qp__buf_release(&b);
  return rc;
}

static void
test_json_is_refused_below_512_levels(void **state)
{
  static const size_t deep[] = { QP__JSON_DEPTH + 1, 10000, 1000000 };
  struct qp_err err;

  (void)state;
  assert_int_equal(parse_nested("[", "]", QP__JSON_DEPTH, &err), QP_OK);
  assert_int_equal(parse_nested("{\"a\":", "}", QP__JSON_DEPTH, &err), QP_OK);
  for (size_t i = 0; i < COUNT(deep); i++) {
    assert_int_equal(parse_nested("[", "]", deep[i], &err), QP_INVALID);
    assert_string_equal(err.msg, "test: JSON nested deeper than 512 levels");
    assert_int_equal(parse_nested("{\"a\":", "}", deep[i], &err), QP_INVALID);
    assert_string_equal(err.msg, "test: JSON nested deeper than 512 levels");
    assert_int_equal(parse_nested("[", "", deep[i], &err), QP_INVALID);
    assert_string_equal(err.msg, "test: JSON nested deeper than 512 levels");
  }
}

static void
test_json_object_only(void **state)
{
  struct qp_err err;
  json_t *value = NULL;

  (void)state;
  assert_int_equal(qp__json_parse_object("it", bytes("[]"), &value, &err), QP_INVALID);
  assert_string_equal(err.msg, "it: must be a JSON object");
  assert_int_equal(qp__json_parse_object("it", bytes("{"), &value, &err), QP_INVALID);
  assert_null(value);
  assert_int_equal(qp__json_parse_object("it", bytes("{}"), &value, &err), QP_OK);
  json_decref(value);
}

static void
test_json_pretty_form(void **state)
{
  static const char pretty[] = "{\n"
                               "  \"a\": [\n"
                               "    1,\n"
                               "    {\n"
                               "      \"b\": {}\n"
                               "    }\n"
                               "  ],\n"
                               "  \"c\": [],\n"
                               "  \"d\": \"x\"\n"
                               "}";
  struct qp__buf text;
  json_t *value = NULL;

  (void)state;
  assert_int_equal(qp__json_parse("test", bytes(pretty), &value, NULL), QP_OK);
  qp__buf_init(&text, BIG);
  assert_int_equal(qp__json_write_pretty(&text, value), QP_OK);
  assert_string_equal(text.data, pretty);
  qp__buf_release(&text);
  qp__buf_init(&text, 20);
  assert_int_equal(qp__json_write_pretty(&text, value), QP_TOOBIG);
  qp__buf_release(&text);
  json_decref(value);
}

static void
test_json_numbers_do_not_follow_the_locale(void **state)
{
  static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8", "de_DE" };

  (void)state;
  for (size_t i = 0; i < COUNT(names); i++) {
    if (!setlocale(LC_ALL, names[i]))
      continue; /* not installed here */
    expect_json("[0.5,1.25e-7,3.0]", "[0.5,1.25e-07,3.0]");
    (void)setlocale(LC_ALL, "C");
  }
  expect_json("[0.5,1.25e-7,3.0]", "[0.5,1.25e-07,3.0]");
}

static void
test_json_field_readers(void **state)
{
  static const char text[] =
      "{\"s\":\"x\",\"i\":7,\"b\":true,\"o\":{},\"a\":[],\"n\":null,\"nul\":\"a\\u0000\",\"r\":1.5,"
      "\"u\":\"0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6\",\"t\":\"1970-01-01T00:00:01Z\"}";
  static const char *const keys[] = { "s", "i", "b", "o", "a", "nul", "r", "u", "t" };
  struct qp_err err;
  json_t *o = NULL;

  (void)state;
  assert_int_equal(qp__json_parse_object("it", bytes(text), &o, NULL), QP_OK);
  for (int round = 0; round < 2; round++) { /* null and missing are the same */
    const char *key = round ? "n" : "missing";
    const char *s = "kept";
    int64_t i = 3;
    bool b = true;
    json_t *v = o;
    struct qp_uuid u = { { 9 } };

    assert_int_equal(qp__json_string("it", o, key, &s, &err), QP_OK);
    assert_int_equal(qp__json_int("it", o, key, &i, &err), QP_OK);
    assert_int_equal(qp__json_bool("it", o, key, &b, &err), QP_OK);
    assert_int_equal(qp__json_object("it", o, key, &v, &err), QP_OK);
    assert_int_equal(qp__json_array("it", o, key, &v, &err), QP_OK);
    assert_int_equal(qp__json_uuid("it", o, key, &u, &err), QP_OK);
    assert_int_equal(qp__json_time("it", o, key, &i, &err), QP_OK);
    assert_string_equal(s, "kept");
    assert_true(i == 3 && b && v == o && u.b[0] == 9);
  }
  for (size_t k = 0; k < COUNT(keys); k++) {
    const char *key = keys[k];
    const char *s = NULL;
    int64_t i = 0;
    bool b = false;
    json_t *v = NULL;
    struct qp_uuid u = { { 0 } };
    bool text_like = strchr("sut", key[0]) && !key[1];
    bool want[] = { text_like,     key[0] == 'i', key[0] == 'b', key[0] == 'o',
                    key[0] == 'a', key[0] == 'u', key[0] == 't' };
    enum qp_rc got[COUNT(want)] = {
      qp__json_string("it", o, key, &s, NULL), qp__json_int("it", o, key, &i, NULL),
      qp__json_bool("it", o, key, &b, NULL),   qp__json_object("it", o, key, &v, NULL),
      qp__json_array("it", o, key, &v, NULL),  qp__json_uuid("it", o, key, &u, NULL),
      qp__json_time("it", o, key, &i, NULL),
    };

    for (size_t j = 0; j < COUNT(want); j++)
      if (got[j] != (want[j] ? QP_OK : QP_INVALID))
        fail_msg("field %s, reader %zu", key, j);
  }
  assert_int_equal(qp__json_bool("it", o, "s", &(bool){ false }, &err), QP_INVALID);
  assert_string_equal(err.msg, "it: \"s\" must be true or false");
  json_decref(o);
}

static void
test_json_setters(void **state)
{
  struct qp_uuid id = { { 1 } };
  struct qp_uuid none = { { 0 } };
  struct qp__buf b;
  json_t *o = json_object();

  (void)state;
  assert_int_equal(qp__json_set_str(o, "a", "x"), 0);
  assert_int_equal(qp__json_set_str(o, "b", NULL), 0);
  assert_int_equal(qp__json_set_strn(o, "c", "x\0y", 3), 0);
  assert_int_equal(qp__json_set_uuid(o, "d", &id), 0);
  assert_int_equal(qp__json_set_uuid(o, "e", &none), 0);
  assert_int_equal(qp__json_set_time(o, "f", 1), 0);
  assert_int_equal(qp__json_set_str(NULL, "a", "x"), -1);
  assert_int_equal(qp__json_set_time(NULL, "a", 1), -1);
  qp__buf_init(&b, BIG);
  assert_int_equal(qp__json_write(&b, o), QP_OK);
  assert_string_equal(b.data, "{\"a\":\"x\",\"b\":null,\"c\":\"x\\u0000y\","
                              "\"d\":\"01000000-0000-0000-0000-000000000000\",\"e\":null,"
                              "\"f\":\"1970-01-01T00:00:00.001Z\"}");
  qp__buf_release(&b);
  json_decref(o);
}

/* One text under every failing allocation, jansson's included. */
static void
fail_everywhere(const char *text, bool all)
{
  json_t *want = NULL;
  bool fired = true;
  long n;

  assert_int_equal(qp__json_parse("test", bytes(text), &want, NULL), QP_OK);
  for (n = 1; fired; n++) {
    struct qp_err err;
    struct qp__buf out;
    json_t *value = NULL;
    json_t *again = NULL;
    enum qp_rc rc;
    enum qp_rc written = QP_NOMEM;

    qp__buf_init(&out, BIG);
    (all ? alloc_fault_arm_all : alloc_fault_arm)(n);
    rc = qp__json_parse("test", bytes(text), &value, &err);
    if (!rc)
      written = qp__json_write(&out, value);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (rc) {
      assert_int_equal(rc, QP_NOMEM);
      assert_string_equal(err.msg, "out of memory: test");
      assert_null(value);
    } else {
      assert_true(json_equal(want, value));
    }
    if (!written) {
      assert_int_equal(qp__json_parse("test", qp__buf_bytes(&out), &again, NULL), QP_OK);
      assert_true(json_equal(want, again));
    } else {
      assert_true(fired);
    }
    json_decref(again);
    json_decref(value);
    qp__buf_release(&out);
  }
  assert_true(n > 4);
  json_decref(want);
}

static json_t *
copy_text(const char *text)
{
  json_t *value = NULL;
  json_t *copy = NULL;

  if (!qp__json_parse("test", bytes(text), &value, NULL))
    copy = qp__json_deep_copy(value);
  json_decref(value);
  return copy;
}

static json_t *
pack_some(const char *unused)
{
  (void)unused;
  return qp__json_pack_set("{s:s, s:s?, s:s?, s:o, s:o}", "a", "1", "b", "2", "c", NULL, "d",
                           json_null(), "e", json_string("5"));
}

/* All that was asked for, or nothing. */
static void
make_with_failures(json_t *(*make)(const char *), const char *text, const char *wanted)
{
  bool fired = true;
  long n;

  for (n = 1; fired; n++) {
    json_t *value;

    alloc_fault_arm(n);
    value = make(text);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (value) {
      char *out = json_dumps(value, JSON_COMPACT);

      assert_string_equal(out, wanted);
      free(out);
    } else {
      assert_true(fired);
    }
    json_decref(value);
  }
  assert_true(n > 8);
}

static void
test_json_copies_and_packs_all_or_nothing(void **state)
{
  static const char text[] = "{\"a\":[1,{\"b\":\"two\"},[]],\"c\":null,\"d\":3.5}";

  (void)state;
  make_with_failures(pack_some, NULL, "{\"a\":\"1\",\"b\":\"2\",\"e\":\"5\"}");
  make_with_failures(copy_text, text, text);
}

/* The same value or QP_NOMEM, never half a value. */
static void
test_json_survives_every_failing_allocation(void **state)
{
  static const char *const texts[] = {
    "{\"a long key with an \\u00e9scape in it\":[12345678901234567890.5,1234567890123456,"
    "\"abcdefghijklmn\",\"a longer string with \\\"quotes\\\" and more of it behind them\"],"
    "\"b\":{\"c\":{\"d\":[[[1,2,3,4,5,6,7,8,9,10]]]},\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,"
    "\"j\":0,\"k\":0,\"l\":0,\"m\":0}}",
    "[0.5,\"a\\nb\"]", /* a number and an escape while the stack has no memory yet */
    /* A key that fills the first 120 bytes of the stack, so that its end needs more. */
    "{\"" SIXTY SIXTY "\":1}",
  };

  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++) {
    fail_everywhere(texts[i], false);
    fail_everywhere(texts[i], true);
  }
}

/* A small text must not become a huge tree: each kind of value is refused once the limit is used
 * up, however little text it takes, and one large string is no reason to refuse. */
static void
test_json_bounds_the_memory_of_a_tree(void **state)
{
  static const struct {
    const char *piece;
    size_t count;
    enum qp_rc rc;
  } rows[] = {
    { "{},", 100000, QP_TOOBIG },   { "[],", 300000, QP_TOOBIG },       { "0,", 600000, QP_TOOBIG },
    { "\"\",", 600000, QP_TOOBIG }, { "{\"a\":0},", 60000, QP_TOOBIG }, { "{},", 50000, QP_OK },
    { "0,", 500000, QP_OK },
  };
  struct qp__buf text;
  struct qp_err err;
  json_t *value = NULL;

  (void)state;
  qp__buf_init(&text, 64 << 20);
  for (size_t i = 0; i < COUNT(rows); i++) {
    qp__buf_reset(&text);
    assert_int_equal(qp__buf_add_str(&text, "["), QP_OK);
    for (size_t n = 0; n < rows[i].count; n++)
      assert_int_equal(qp__buf_add_str(&text, rows[i].piece), QP_OK);
    assert_int_equal(qp__buf_add_str(&text, "0]"), QP_OK);
    assert_int_equal(qp__json_parse_outside("test", qp__buf_bytes(&text), &value, &err),
                     rows[i].rc);
    if (rows[i].rc) {
      assert_string_equal(err.msg,
                          "test: too many JSON values; at most 32 MiB of memory are allowed");
    } else {
      json_decref(value);
    }
  }
  qp__buf_reset(&text);
  assert_int_equal(qp__buf_add_str(&text, "[\""), QP_OK);
  for (size_t n = 0; n < 40 << 20; n += 64)
    assert_int_equal(qp__buf_add_str(&text, SIXTY "abcd"), QP_OK);
  assert_int_equal(qp__buf_add_str(&text, "\"]"), QP_OK);
  assert_int_equal(qp__json_parse_outside("test", qp__buf_bytes(&text), &value, &err), QP_OK);
  json_decref(value);
  qp__buf_release(&text);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_json_comes_out_as_it_went_in),
    cmocka_unit_test(test_json_refuses_what_is_not_json),
    cmocka_unit_test(test_json_is_refused_below_512_levels),
    cmocka_unit_test(test_json_bounds_the_memory_of_a_tree),
    cmocka_unit_test(test_json_object_only),
    cmocka_unit_test(test_json_pretty_form),
    cmocka_unit_test(test_json_numbers_do_not_follow_the_locale),
    cmocka_unit_test(test_json_field_readers),
    cmocka_unit_test(test_json_setters),
    cmocka_unit_test(test_json_copies_and_packs_all_or_nothing),
    cmocka_unit_test(test_json_survives_every_failing_allocation),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}

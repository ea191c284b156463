/* test_seal.c - src/base/seal.c and the function in src/base/sum.c under it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "base/seal.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define BIG ((size_t)1 << 20)

static const char document[] = "{\n  \"id\": \"terse\",\n  \"a b\": [\n    1,\n    \"c \\\" } d\"\n"
                               "  ],\n  \"e\\\\\": {}\n}\n";
static const char dense[] = "{\"id\":\"terse\",\"a b\":[1,\"c \\\" } d\"],\"e\\\\\":{}}";

static struct qp_bytes
bytes(const char *s)
{
  struct qp_bytes b = { s, strlen(s) };

  return b;
}

static struct qp__seal
look(struct qp_bytes text, uint32_t before)
{
  struct qp__seal seal;
  struct qp_err err;

  assert_int_equal(qp__seal_look(text, before, &seal, &err), QP_OK);
  return seal;
}

/* The text with its checksum; the caller releases it. */
static struct qp__buf
seal(const char *text, uint32_t before, uint32_t *sum)
{
  struct qp__buf b;
  struct qp_err err;

  qp__buf_init(&b, BIG);
  assert_int_equal(qp__buf_add_str(&b, text), QP_OK);
  if (text[strlen(text) - 1] == '\n')
    assert_int_equal(qp__seal_document(&b, 0, &err), QP_OK);
  else
    assert_int_equal(qp__seal_line(&b, 0, before, sum, &err), QP_OK);
  return b;
}

/* The file format promises these values: docs/formats.md. */
static void
sums_never_change(void **state)
{
  char text[200];

  (void)state;
  memset(text, 'x', sizeof(text));
  assert_int_equal(qp__sum("", 0), 0x931092af);
  assert_int_equal(qp__sum("{\"id\":\"terse\"", 13), 0x1d2d249a);
  assert_int_equal(qp__sum(text, sizeof(text)), 0xd5fa9ac1);
  assert_int_equal(qp__sum_after(0, text, 100), qp__sum(text, 100));
  assert_int_equal(qp__sum_after(1, text, 100), 0xeac2bf94);
}

static void
white_space_does_not_count(void **state)
{
  struct qp__buf a = seal(document, 0, NULL);
  struct qp__buf b;
  uint32_t sum = 0;

  (void)state;
  b = seal(dense, 0, &sum);
  assert_int_equal(look(qp__buf_bytes(&a), 0).state, QP__SUM_RIGHT);
  assert_int_equal(look(qp__buf_bytes(&b), 0).state, QP__SUM_RIGHT);
  assert_int_equal(look(qp__buf_bytes(&a), 0).sum, sum);
  assert_int_equal(b.len, strlen(dense) + QP__SEAL_LINE);
  qp__buf_release(&a);
  qp__buf_release(&b);
}

static void
what_is_cut_off_is_what_was_sealed(void **state)
{
  struct qp__buf a = seal(document, 0, NULL);
  struct qp__buf b = seal(dense, 5, NULL);
  struct qp__seal found = look(qp__buf_bytes(&a), 0);
  struct qp__buf out;
  struct qp_err err;

  (void)state;
  qp__seal_cut(&a, &found);
  assert_string_equal(a.data, document);
  found = look(qp__buf_bytes(&b), 5);
  qp__buf_init(&out, BIG);
  assert_int_equal(qp__seal_strip(qp__buf_bytes(&b), &found, &out, &err), QP_OK);
  assert_string_equal(out.data, dense);
  qp__buf_release(&a);
  qp__buf_release(&b);
  qp__buf_release(&out);
}

static bool
is_json(struct qp_bytes text)
{
  json_t *value = NULL;
  bool ok = qp__json_parse("text", text, &value, NULL) == QP_OK;

  json_decref(value);
  return ok;
}

static void
every_changed_byte_is_noticed(void **state)
{
  const char *const texts[] = { document, dense };

  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct qp__buf b = seal(texts[i], 0, NULL);

    for (size_t at = 0; at < b.len; at++)
      for (unsigned c = 1; c < 256; c++) {
        char was = b.data[at];
        bool space = strchr(" \n\t\r", was) && strchr(" \n\t\r", (int)c);

        b.data[at] = (char)c;
        if ((char)c != was && !space && look(qp__buf_bytes(&b), 0).state != QP__SUM_WRONG &&
            is_json(qp__buf_bytes(&b)))
          fail_msg("'%c' as '%c' (%u) at %zu: %s", was, c, c, at, b.data);
        b.data[at] = was;
      }
    qp__buf_release(&b);
  }
}

static void
a_checksum_is_found_wherever_it_is(void **state)
{
  static const struct {
    const char *text;
    enum qp__sum_state state;
  } rows[] = {
    { "{\"a\":1}", QP__SUM_NONE },
    { "{}", QP__SUM_NONE },
    { "", QP__SUM_NONE },
    { "}", QP__SUM_NONE },
    { "{\"sum\":\"12345678\"}", QP__SUM_NONE },
    { "{\"a\":1,\"sum\":\"12345678\"}", QP__SUM_NONE },
    { "{\"a\":\"quipu_sum\"}", QP__SUM_NONE },
    { "{\"a\":{\"quipu_sum\":\"12345678\"}}", QP__SUM_NONE },
    { "{\"a\":\",\\\"quipu_sum\\\":\\\"12345678\"}", QP__SUM_NONE },
    { "[1,\"quipu_sum\":\"12345678\"", QP__SUM_NONE },
    { "{\"quipu_sum\":\"12345678\"}", QP__SUM_WRONG },
    { "{\"quipu_sum\":\"12345678\",\"a\":1}", QP__SUM_WRONG },
    { "{\"a\":1,\"quipu_sum\":\"12345678\"}", QP__SUM_WRONG },
    { "{\"a\":1,\"quipu_sum\":\"1234567A\"}", QP__SUM_WRONG },
    { "{\"a\":1,\"quipu_sum\":12345678}", QP__SUM_WRONG },
    { "{\"a\":1,\"quipu_sum\":null}", QP__SUM_WRONG },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__seal found = look(bytes(rows[i].text), 0);
    struct qp__buf out;
    struct qp_err err;

    if (found.state != rows[i].state)
      fail_msg("%s: %d", rows[i].text, found.state);
    qp__buf_init(&out, BIG);
    assert_int_equal(qp__seal_strip(bytes(rows[i].text), &found, &out, &err), QP_OK);
    assert_int_equal(look(qp__buf_bytes(&out), 0).state, QP__SUM_NONE);
    qp__buf_release(&out);
  }
}

static void
a_line_knows_the_line_before_it(void **state)
{
  struct qp__buf first;
  struct qp__buf second;
  uint32_t sums[2];
  uint32_t again;

  (void)state;
  first = seal("{\"n\":1}", 0, &sums[0]);
  second = seal("{\"n\":2}", sums[0], &sums[1]);
  assert_int_equal(look(qp__buf_bytes(&second), sums[0]).state, QP__SUM_RIGHT);
  assert_int_equal(look(qp__buf_bytes(&second), sums[0]).sum, sums[1]);
  assert_int_equal(look(qp__buf_bytes(&second), 0).state, QP__SUM_WRONG);
  assert_int_equal(look(qp__buf_bytes(&first), sums[1]).state, QP__SUM_WRONG);
  again = qp__seal_line_again(second.data, second.len, 7);
  assert_int_equal(look(qp__buf_bytes(&second), 7).state, QP__SUM_RIGHT);
  assert_int_equal(look(qp__buf_bytes(&second), 7).sum, again);
  qp__buf_release(&first);
  qp__buf_release(&second);
}

static enum qp_rc
is_original(void *arg, struct qp_bytes text, struct qp_err *err)
{
  (void)err;
  return text.len == strlen(arg) && memcmp(text.data, arg, text.len) == 0 ? QP_OK : QP_INVALID;
}

static void
one_changed_byte_is_found_again(void **state)
{
  struct qp__buf b = seal(dense, 3, NULL);
  char *whole = strdup(b.data);
  struct qp__buf out;
  struct qp_err err;

  (void)state;
  assert_non_null(whole);
  qp__buf_init(&out, BIG);
  for (size_t at = 0; at < b.len - QP__SEAL_LINE - 1; at++) {
    qp__buf_reset(&out);
    b.data[at] ^= 5;
    assert_int_equal(qp__seal_mend(qp__buf_bytes(&b), 3, is_original, whole, &out, &err), QP_OK);
    assert_string_equal(out.data, whole);
    b.data[at] ^= 5;
  }
  qp__buf_reset(&out);
  b.data[1] ^= 5;
  b.data[2] ^= 5;
  assert_int_equal(qp__seal_mend(qp__buf_bytes(&b), 3, is_original, whole, &out, &err),
                   QP_NOTFOUND);
  assert_int_equal(out.len, 0);
  qp__buf_release(&b);
  qp__buf_release(&out);
  free(whole);
}

static void
running_out_of_memory_is_told(void **state)
{
  static const char elsewhere[] = "{ \"quipu_sum\":\"12345678\",\"a\":1}";
  bool failed = true;

  (void)state;
  for (long n = 1; failed; n++) {
    struct qp__buf b;
    struct qp__buf out;
    struct qp__seal found = { .state = QP__SUM_NONE };
    struct qp_err err;
    enum qp_rc rc;

    qp__buf_init(&b, BIG);
    qp__buf_init(&out, BIG);
    assert_int_equal(qp__buf_add_str(&b, document), QP_OK);
    alloc_fault_arm(n);
    rc = qp__seal_document(&b, 0, &err);
    if (!rc)
      rc = qp__seal_look(qp__buf_bytes(&b), 0, &found, &err);
    if (!rc)
      rc = qp__seal_look(bytes(elsewhere), 0, &found, &err);
    if (!rc)
      rc = qp__seal_strip(bytes(elsewhere), &found, &out, &err);
    alloc_fault_disarm();
    failed = rc != QP_OK;
    assert_true(rc == QP_OK || rc == QP_NOMEM);
    qp__buf_release(&b);
    qp__buf_release(&out);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_never_change),
    cmocka_unit_test(white_space_does_not_count),
    cmocka_unit_test(what_is_cut_off_is_what_was_sealed),
    cmocka_unit_test(every_changed_byte_is_noticed),
    cmocka_unit_test(a_checksum_is_found_wherever_it_is),
    cmocka_unit_test(a_line_knows_the_line_before_it),
    cmocka_unit_test(one_changed_byte_is_found_again),
    cmocka_unit_test(running_out_of_memory_is_told),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

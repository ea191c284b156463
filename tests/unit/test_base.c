/* test_base.c - all of src/base except JSON, which has test_json.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <cmocka.h>

#include "alloc_fault.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/uuid.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define BIG ((size_t)1 << 24)

/* ---- errors ---- */

static void
test_rc_table_is_complete_and_consistent(void **state)
{
  static const struct {
    enum qp_rc rc;
    const char *name;
    const char *text;
  } rows[] = {
#define ROW(name, num, text) { QP_##name, #name, text },
    QP_RC_MAP(ROW)
#undef ROW
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    assert_int_equal(rows[i].rc, -(int)i); /* no gap, so that none is forgotten */
    assert_string_equal(qp_rc_name(rows[i].rc), rows[i].name);
    assert_string_equal(qp_rc_text(rows[i].rc), rows[i].text);
    for (size_t j = 0; j < i; j++)
      assert_string_not_equal(rows[i].name, rows[j].name);
  }
  assert_string_equal(qp_rc_name((enum qp_rc)77), "IO"); /* a foreign number is no success */
  assert_string_equal(qp_version(), QP_VERSION);
}

static void
test_fail_fills_and_cuts_the_sentence(void **state)
{
  struct qp_err err;
  char lots[1000];

  (void)state;
  memset(lots, 'x', sizeof(lots) - 1);
  lots[sizeof(lots) - 1] = 0;
  assert_int_equal(qp__fail(&err, QP_BUSY, "%s %d", "lock", 7), QP_BUSY);
  assert_int_equal(err.rc, QP_BUSY);
  assert_string_equal(err.msg, "lock 7");
  assert_int_equal(qp__fail(&err, QP_INVALID, "%s", lots), QP_INVALID);
  assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
  assert_int_equal(qp__fail(NULL, QP_INVALID, "%s", lots), QP_INVALID);
  assert_int_equal(qp__fail_nomem(&err, "a thing"), QP_NOMEM);
  assert_string_equal(err.msg, "out of memory: a thing");
}

static void
test_fail_sys_chooses_the_code(void **state)
{
  static const struct {
    int neg_errno;
    enum qp_rc rc;
  } rows[] = {
    { -ENOSPC, QP_FULL },  { -EDQUOT, QP_FULL },    { -ENOENT, QP_NOTFOUND },
    { -ENOMEM, QP_NOMEM }, { -EROFS, QP_READONLY }, { -EACCES, QP_DENIED },
    { -EPERM, QP_DENIED }, { -EEXIST, QP_EXISTS },  { -EFBIG, QP_FULL },
    { -EMFILE, QP_NOMEM }, { -ENFILE, QP_NOMEM },   { -EOVERFLOW, QP_TOOBIG },
    { -EIO, QP_IO },       { -ELOOP, QP_IO },       { 0, QP_IO },
    { 5, QP_IO },          { -99999, QP_IO },
  };
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    assert_int_equal(qp__fail_sys(&err, rows[i].neg_errno, "open '%s'", "x"), rows[i].rc);
    assert_int_equal(err.rc, rows[i].rc);
    assert_int_equal(strncmp(err.msg, "open 'x': ", 10), 0);
    assert_true(strlen(err.msg) > 10);
    assert_int_equal(qp__fail_sys(NULL, rows[i].neg_errno, "x"), rows[i].rc);
  }
}

/* ---- buf ---- */

static void
test_buf_keeps_its_limit(void **state)
{
  struct qp__buf b;
  struct qp_err err;

  (void)state;
  qp__buf_init(&b, 5);
  assert_int_equal(qp__buf_add_str(&b, "abc"), QP_OK);
  assert_int_equal(qp__buf_add_str(&b, "def"), QP_TOOBIG);
  assert_int_equal(b.len, 3); /* as it was */
  assert_string_equal(b.data, "abc");
  assert_int_equal(qp__buf_add_str(&b, "de"), QP_OK); /* exactly full */
  assert_int_equal(qp__buf_add_char(&b, 'f'), QP_TOOBIG);
  assert_int_equal(qp__buf_addf(&b, "%d", 1), QP_TOOBIG);
  assert_int_equal(qp__buf_reserve(&b, SIZE_MAX), QP_TOOBIG);
  assert_int_equal(qp__buf_add(&b, NULL, 0), QP_OK);
  assert_string_equal(b.data, "abcde");
  assert_int_equal(b.rc, QP_TOOBIG); /* remembered */
  assert_int_equal(qp__buf_check(&b, "the list", &err), QP_TOOBIG);
  assert_string_equal(err.msg, "the list is over its limit of 5 bytes");
  qp__buf_reset(&b);
  assert_int_equal(qp__buf_check(&b, "the list", &err), QP_OK);
  assert_int_equal(b.len, 0);
  assert_string_equal(b.data, "");
  assert_int_equal(qp__buf_addf(&b, "%s-%d", "ab", 12), QP_OK);
  assert_string_equal(b.data, "ab-12");
  qp__buf_release(&b);
  assert_null(b.data);
  assert_int_equal(b.limit, 5);
}

static void
test_buf_grows_and_gives_itself_away(void **state)
{
  struct qp__buf b;
  char *taken;
  size_t len = 7;

  (void)state;
  qp__buf_init(&b, BIG);
  assert_string_equal(qp__buf_bytes(&b).data, "");
  taken = qp__buf_take(&b, &len);
  assert_non_null(taken);
  assert_int_equal(len, 0);
  assert_int_equal(taken[0], 0);
  qp__free(taken);

  for (int i = 0; i < 10000; i++)
    assert_int_equal(qp__buf_addf(&b, "%d,", i), QP_OK);
  assert_int_equal(b.data[b.len], 0);
  assert_int_equal(qp__buf_bytes(&b).len, b.len);
  taken = qp__buf_take(&b, &len);
  assert_int_equal(len, 48890);
  assert_int_equal(strncmp(taken, "0,1,2,", 6), 0);
  assert_string_equal(taken + len - 5, "9999,");
  assert_null(b.data);
  assert_int_equal(b.len, 0);
  qp__free(taken);
  qp__buf_release(&b);
}

static void
test_buf_survives_no_memory(void **state)
{
  struct qp__buf b;
  struct qp_err err;

  (void)state;
  qp__buf_init(&b, BIG);
  assert_int_equal(qp__buf_add_str(&b, "kept"), QP_OK);
  alloc_fault_arm_all(1);
  for (int i = 0; i < 1000; i++)
    if (qp__buf_add_char(&b, '.'))
      break;
  assert_int_equal(qp__buf_addf(&b, "%0999d", 1), QP_NOMEM);
  alloc_fault_disarm();
  assert_int_equal(b.rc, QP_NOMEM);
  assert_int_equal(qp__buf_check(&b, "it", &err), QP_NOMEM);
  assert_int_equal(strncmp(b.data, "kept...", 7), 0);
  qp__buf_release(&b);

  alloc_fault_arm_all(1);
  assert_null(qp__buf_take(&b, NULL));
  alloc_fault_disarm();
}

/* ---- arena and alloc ---- */

static void
test_arena_hands_out_aligned_zeroed_memory(void **state)
{
  struct qp__arena a = { NULL };
  unsigned char *pieces[400];
  size_t sizes[400];

  (void)state;
  for (size_t i = 0; i < COUNT(pieces); i++) {
    sizes[i] = i % 7 == 0 ? 0 : i * 37 % 2500;
    pieces[i] = qp__arena_alloc(&a, sizes[i]);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
    for (size_t j = 0; j < sizes[i]; j++)
      assert_int_equal(pieces[i][j], 0);
    memset(pieces[i], (int)(i % 251) + 1, sizes[i]);
  }
  for (size_t i = 0; i < COUNT(pieces); i++) /* no two overlap */
    for (size_t j = 0; j < sizes[i]; j++)
      assert_int_equal(pieces[i][j], i % 251 + 1);
  assert_string_equal(qp__arena_strdup(&a, "text"), "text");
  assert_string_equal(qp__arena_strndup(&a, "textual", 4), "text");
  assert_null(qp__arena_alloc(&a, SIZE_MAX));
  assert_null(qp__arena_alloc(&a, SIZE_MAX - 40));
  assert_null(qp__arena_strndup(&a, "x", SIZE_MAX));
  qp__arena_release(&a);
  assert_null(a.blocks);
  qp__arena_release(&a);
}

static void
test_arena_survives_no_memory(void **state)
{
  struct qp__arena a = { NULL };
  char *kept;

  (void)state;
  alloc_fault_arm(1);
  assert_null(qp__arena_alloc(&a, 10));
  alloc_fault_disarm();
  kept = qp__arena_strdup(&a, "kept");
  alloc_fault_arm_all(1);
  assert_null(qp__arena_alloc(&a, 5000));
  alloc_fault_disarm();
  assert_string_equal(kept, "kept");
  assert_non_null(qp__arena_alloc(&a, 5000));
  qp__arena_release(&a);
}

static void
test_alloc_answers_null(void **state)
{
  char *s = qp__strdup("four");

  (void)state;
  assert_string_equal(s, "four");
  alloc_fault_arm_all(1);
  assert_null(qp__alloc(0));
  assert_null(qp__alloc0(1, 1));
  assert_null(qp__realloc(s, 100));
  assert_null(qp__strdup("x"));
  assert_null(qp__strndup("xyz", 2));
  assert_null(qp__strf("%d", 7));
  assert_true(alloc_fault_fired());
  alloc_fault_disarm();
  assert_string_equal(s, "four");
  qp__free(s);
  qp__free(NULL);
  s = qp__strndup("xyz", 2);
  assert_string_equal(s, "xy");
  qp__free(s);
  s = qp__strf("%s/%0300d", "dir", 7);
  assert_int_equal(strlen(s), 304);
  assert_string_equal(s + 301, "007");
  qp__free(s);
  s = qp__alloc0(0, 0);
  assert_non_null(s);
  qp__free(s);
}

/* ---- UTF-8 ---- */

static void
test_utf8_accepts_exactly_utf8(void **state)
{
#define TEXT(s) s, sizeof(s) - 1
  static const struct {
    const char *s;
    size_t n;
    bool ok;
  } rows[] = {
    { TEXT(""), true },
    { TEXT("plain, longer than eight"), true },
    { TEXT("a\0b"), true },
    { TEXT("\x7f"), true },
    { TEXT("\xc2\x80"), true },         /* U+0080, the first of two bytes */
    { TEXT("\xdf\xbf"), true },         /* U+07FF */
    { TEXT("\xe0\xa0\x80"), true },     /* U+0800 */
    { TEXT("\xed\x9f\xbf"), true },     /* U+D7FF, the last before the surrogates */
    { TEXT("\xee\x80\x80"), true },     /* U+E000, the first behind them */
    { TEXT("\xef\xbf\xbf"), true },     /* U+FFFF */
    { TEXT("\xf0\x90\x80\x80"), true }, /* U+10000 */
    { TEXT("\xf4\x8f\xbf\xbf"), true }, /* U+10FFFF */
    { TEXT("12345678\xc3\xa4"
           "12345678"),
      true },
    { TEXT("1234567\xc3\xa4"), true }, /* across the step of eight */
    { TEXT("\x80"), false },           /* a tail alone */
    { TEXT("\xbf"), false },
    { TEXT("\xc0\x80"), false }, /* overlong NUL */
    { TEXT("\xc1\xbf"), false }, /* overlong */
    { TEXT("\xe0\x80\x80"), false },
    { TEXT("\xe0\x9f\xbf"), false }, /* overlong of U+07FF */
    { TEXT("\xf0\x80\x80\x80"), false },
    { TEXT("\xf0\x8f\xbf\xbf"), false }, /* overlong of U+FFFF */
    { TEXT("\xed\xa0\x80"), false },     /* U+D800 */
    { TEXT("\xed\xbf\xbf"), false },     /* U+DFFF */
    { TEXT("\xf4\x90\x80\x80"), false }, /* U+110000 */
    { TEXT("\xf5\x80\x80\x80"), false },
    { TEXT("\xfe"), false },
    { TEXT("\xff"), false },
    { TEXT("\xc3"), false }, /* cut off */
    { TEXT("\xe2\x82"), false },
    { TEXT("\xf0\x9f\x98"), false },
    { TEXT("\xc3"
           "a"),
      false },
    { TEXT("\xe2\x82"
           "a"),
      false },
    { TEXT("\xe2"
           "a\x82"),
      false },
    { TEXT("\xf0\x9f\x98"
           "a"),
      false },
    { TEXT("12345678\xc3"), false },
    { TEXT("12345678\xff"
           "1234567"),
      false },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (qp__utf8_ok(rows[i].s, rows[i].n) != rows[i].ok)
      fail_msg("row %zu", i);
}

/* ---- percent encoding ---- */

static void
test_percent_encoding_round_trips_all_bytes(void **state)
{
  struct qp__buf encoded;
  struct qp__buf decoded;

  (void)state;
  qp__buf_init(&encoded, 100);
  qp__buf_init(&decoded, 100);
  for (int c = 0; c < 256; c++) {
    for (int at = 0; at < 3; at++) { /* a '.' is special at the start only */
      char text[3] = { 'a', 'b', 'c' };

      text[at] = (char)c;
      qp__buf_reset(&encoded);
      qp__buf_reset(&decoded);
      assert_int_equal(qp__percent_encode(&encoded, text, 3), QP_OK);
      assert_null(strchr(encoded.data, '/'));
      assert_int_not_equal(encoded.data[0], '.');
      for (size_t i = 0; i < encoded.len; i++)
        assert_true((unsigned char)encoded.data[i] > ' ' && encoded.data[i] != '"' &&
                    encoded.data[i] != '\\' && encoded.data[i] != 0x7f);
      assert_int_equal(qp__percent_decode(&decoded, encoded.data, encoded.len), QP_OK);
      assert_int_equal(decoded.len, 3);
      assert_memory_equal(decoded.data, text, 3);
    }
  }
  qp__buf_release(&encoded);
  qp__buf_release(&decoded);
}

static void
test_percent_encoding_has_one_spelling(void **state)
{
  static const struct {
    const char *plain;
    const char *encoded;
  } rows[] = {
    { "main", "main" },
    { ".", "%2E" },
    { "..", "%2E." },
    { "a.b", "a.b" },
    { "a/b", "a%2Fb" },
    { "a b%", "a%20b%25" },
    { "Caf\xc3\xa9", "Caf\xc3\xa9" },
    { "a\nb", "a%0Ab" },
  };
  static const char *const bad[] = {
    ".",   "..",    ".hidden", "a b", "a/b", "%",      "%4",  "a%2",  "%zz", "%2g", "%41", "a%2E",
    "%2f", "a%2fb", "a%",      "%2e", "\"",  "%C3%A9", "a\n", "%%25", "%5F", "%2D", "%7a",
  };
  struct qp__buf b;

  (void)state;
  qp__buf_init(&b, 100);
  for (size_t i = 0; i < COUNT(rows); i++) {
    qp__buf_reset(&b);
    assert_int_equal(qp__percent_encode(&b, rows[i].plain, strlen(rows[i].plain)), QP_OK);
    assert_string_equal(b.data, rows[i].encoded);
  }
  for (size_t i = 0; i < COUNT(bad); i++) {
    qp__buf_reset(&b);
    if (qp__percent_decode(&b, bad[i], strlen(bad[i])) != QP_INVALID)
      fail_msg("'%s' was taken", bad[i]);
  }
  qp__buf_release(&b);
  qp__buf_init(&b, 4);
  assert_int_equal(qp__percent_encode(&b, "a/b", 3), QP_TOOBIG);
  qp__buf_release(&b);
}

/* ---- hexadecimal ---- */

/* xorshift: the same numbers in every run. */
static uint64_t
next_random(uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

static void
compare_hex(const char in[16])
{
  uint8_t slow[8];
  uint8_t sixteen[8];
  uint32_t eight = 0;
  uint64_t words[2];
  bool ok = qp__hex_decode(slow, in, 4);

  assert_int_equal(qp__hex_decode8(in, &eight), ok);
  if (ok)
    assert_int_equal(eight, (uint32_t)slow[0] << 24 | (uint32_t)slow[1] << 16 |
                                (uint32_t)slow[2] << 8 | slow[3]);
  memcpy(words, in, sizeof(words));
  ok = qp__hex_decode(slow, in, 8);
  assert_int_equal(qp__hex_decode16(words[0], words[1], sixteen), ok);
  if (ok)
    assert_memory_equal(sixteen, slow, sizeof(slow));
}

static void
test_the_fast_hex_decoders_agree_with_the_slow_one(void **state)
{
  static const char digits[] = "0123456789abcdefABCDEF";
  uint64_t x = 88172645463325252u;
  char in[16];

  (void)state;
  for (int at = 0; at < 16; at++) {
    for (int c = 0; c < 256; c++) {
      memcpy(in, "09afAF5cF0aA1b9d", 16);
      in[at] = (char)c;
      compare_hex(in);
    }
  }
  for (int round = 0; round < 100000; round++) {
    for (int i = 0; i < 16; i++)
      in[i] = digits[next_random(&x) % (sizeof(digits) - 1)];
    compare_hex(in);
    in[next_random(&x) % 16] = (char)next_random(&x);
    compare_hex(in);
  }
}

static void
test_hex_round_trips(void **state)
{
  uint8_t in[256];
  uint8_t back[256];
  char text[512];

  (void)state;
  for (int i = 0; i < 256; i++)
    in[i] = (uint8_t)i;
  qp__hex_encode(text, in, 256);
  assert_int_equal(strncmp(text, "000102", 6), 0);
  assert_int_equal(strncmp(text + 508, "feff", 4), 0);
  assert_true(qp__hex_decode(back, text, 256));
  assert_memory_equal(in, back, 256);
  assert_false(qp__hex_decode(back, "0g", 1));
  assert_false(qp__hex_decode(back, "g0", 1));
  assert_true(qp__hex_decode(back, "", 0));
}

/* ---- UUID ---- */

static void
test_uuid7_rises_whatever_the_clock_does(void **state)
{
  struct qp__uuid_gen gen;
  struct qp_uuid last = { { 0 } };
  uint64_t x = 424242;
  int64_t now = 1800000000000;

  (void)state;
  qp__uuid_gen_init(&gen);
  for (int i = 0; i < 100000; i++) {
    uint8_t entropy[10];
    struct qp_uuid id;
    uint64_t r = next_random(&x);

    for (size_t j = 0; j < sizeof(entropy); j++)
      entropy[j] = (uint8_t)next_random(&x);
    now += r % 5 == 0 ? 1 : r % 97 == 0 ? -5000 : r % 101 == 0 ? 300 : 0;
    id = qp__uuid_next(&gen, now, entropy);
    assert_true(memcmp(&last, &id, sizeof(id)) < 0);
    assert_int_equal(id.b[6] >> 4, 7);
    assert_int_equal(id.b[8] >> 6, 2);
    last = id;
  }
  qp__uuid_gen_release(&gen);
}

static void
test_uuid7_outlives_its_counter_in_one_millisecond(void **state)
{
  static const uint8_t entropy[10] = { 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8 };
  const int64_t now = 1800000000000;
  struct qp__uuid_gen gen;
  struct qp_uuid last = { { 0 } };
  struct qp_uuid id = { { 0 } };
  uint64_t ms = 0;

  (void)state;
  qp__uuid_gen_init(&gen);
  for (long i = 0; i < 2 * (1L << 18) + 10; i++) {
    id = qp__uuid_next(&gen, now, entropy);
    assert_true(memcmp(&last, &id, sizeof(id)) < 0);
    last = id;
  }
  for (int i = 0; i < 6; i++)
    ms = ms << 8 | id.b[i];
  assert_in_range(ms, now + 1, now + 3); /* it had to borrow, but little */
  id = qp__uuid_next(&gen, now + 10, entropy);
  assert_true(memcmp(&last, &id, sizeof(id)) < 0);
  last = id;
  id = qp__uuid_next(&gen, -5, entropy); /* a clock before 1970 */
  assert_true(memcmp(&last, &id, sizeof(id)) < 0);
  qp__uuid_gen_release(&gen);
}

static void
test_uuid_text_round_trips_and_is_strict(void **state)
{
  static const char good[] = "0192f3a4-b5c6-7d8e-9fA0-B1c2D3e4F5a6";
  static const char *const bad[] = {
    "",
    "0192f3a4",
    "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a",
    "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a60",
    "0192f3a4b5c6-7d8e-9fa0-b1c2d3e4f5a6-",
    "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5ag",
    "g192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6",
    "0192f3a4_b5c6-7d8e-9fa0-b1c2d3e4f5a6",
    "0192f3a4-b5c6_7d8e-9fa0-b1c2d3e4f5a6",
    "0192f3a4-b5c6-7d8e_9fa0-b1c2d3e4f5a6",
    "0192f3a4-b5c6-7d8e-9fa0_b1c2d3e4f5a6",
    "{192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a}",
    " 192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6",
  };
  struct qp_uuid id = { { 0 } };
  struct qp_uuid none = { { 0 } };
  struct qp_err err;
  char text[QP_UUID_TEXT];

  (void)state;
  assert_int_equal(qp_uuid_parse(good, &id, &err), QP_OK);
  assert_string_equal(qp_uuid_text(&id, text), "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6");
  assert_false(qp_uuid_is_none(&id));
  assert_true(qp_uuid_is_none(&none));
  assert_false(qp_uuid_equal(&id, &none));
  assert_true(qp_uuid_equal(&id, &id));
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct qp_uuid out = id;

    if (qp_uuid_parse(bad[i], &out, &err) != QP_INVALID)
      fail_msg("'%s' was taken", bad[i]);
    assert_true(qp_uuid_equal(&out, &id));
    assert_non_null(strstr(err.msg, "is not a UUID"));
  }
  assert_int_equal(qp_uuid_parse(NULL, &id, NULL), QP_INVALID);
}

/* ---- time ---- */

static void
test_time_parse_table(void **state)
{
  static const struct {
    const char *text;
    int64_t ms;
  } good[] = {
    { "1970-01-01T00:00:00Z", 0 },
    { "1970-01-01T00:00:00.001Z", 1 },
    { "1969-12-31T23:59:59.999Z", -1 },
    { "2026-11-15T19:55:40.123Z", 1794772540123 },
    { "2026-11-15t19:55:40.123z", 1794772540123 },
    { "2026-11-15 19:55:40.123Z", 1794772540123 },
    { "2026-11-15T19:55:40.123987654321Z", 1794772540123 },
    { "2026-11-15T19:55:40.1Z", 1794772540100 },
    { "2026-11-15T19:55:40Z", 1794772540000 },
    { "2026-11-15T20:55:40.123+01:00", 1794772540123 },
    { "2026-11-15T14:25:40.123-05:30", 1794772540123 },
    { "2026-11-16T19:54:40.123+23:59", 1794772540123 },
    { "2026-11-15T19:55:40.123-00:00", 1794772540123 },
    { "2000-02-29T00:00:00Z", 951782400000 },
    { "2024-02-29T12:00:00Z", 1709208000000 },
    { "2016-12-31T23:59:60Z", 1483228800000 }, /* a leap second is the next minute */
    { "0000-01-01T00:00:00Z", -62167219200000 },
    { "9999-12-31T23:59:59.999Z", 253402300799999 },
  };
  static const char *const bad[] = {
    "",
    "2026-11-15",
    "2026-11-15T19:55:40",
    "2026-11-15T19:55Z",
    "2026-11-15T19:55:40.Z",
    "2026-11-15T19:55:40,1Z",
    "2026-11-15T19:55:40.1",
    "2026-11-15T19:55:40+1:00",
    "2026-11-15T19:55:40+0100",
    "2026-11-15T19:55:40+24:00",
    "2026-11-15T19:55:40+01:60",
    "2026-11-15T19:55:40ZZ",
    "2026-11-15T19:55:40Z ",
    " 2026-11-15T19:55:40Z",
    "2026-11-15X19:55:40Z",
    "2026-11-15T24:00:00Z",
    "2026-11-15T23:60:00Z",
    "2026-11-15T23:00:61Z",
    "2026-00-15T19:55:40Z",
    "2026-13-15T19:55:40Z",
    "2026-11-00T19:55:40Z",
    "2026-11-31T19:55:40Z",
    "2026-02-29T19:55:40Z",
    "1900-02-29T00:00:00Z",
    "2100-02-29T00:00:00Z",
    "2024-02-30T00:00:00Z",
    "-026-11-15T19:55:40Z",
    "2026-1a-15T19:55:40Z",
    "20261115T195540.000Z",
  };
  int64_t ms;

  (void)state;
  for (size_t i = 0; i < COUNT(good); i++) {
    ms = 42;
    if (qp__time_parse(good[i].text, strlen(good[i].text), &ms) || ms != good[i].ms)
      fail_msg("'%s' is %lld", good[i].text, (long long)ms);
  }
  for (size_t i = 0; i < COUNT(bad); i++) {
    ms = 42;
    if (qp__time_parse(bad[i], strlen(bad[i]), &ms) != QP_INVALID)
      fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(ms, 42);
  }
}

static void
test_time_format_is_the_reverse_of_parse(void **state)
{
  char text[QP__TIME_LEN + 1] = "";
  uint64_t x = 77;

  (void)state;
  qp__time_format(text, 1794772540123);
  assert_string_equal(text, "2026-11-15T19:55:40.123Z");
  qp__time_format(text, -1);
  assert_string_equal(text, "1969-12-31T23:59:59.999Z");
  qp__time_format(text, INT64_MIN);
  assert_string_equal(text, "0000-01-01T00:00:00.000Z");
  qp__time_format(text, INT64_MAX);
  assert_string_equal(text, "9999-12-31T23:59:59.999Z");
  for (int i = 0; i < 100000; i++) {
    int64_t ms = (int64_t)(next_random(&x) % 315569519999999u) - 62167219200000;
    int64_t back = 0;

    qp__time_format(text, ms);
    assert_int_equal(qp__time_parse(text, QP__TIME_LEN, &back), QP_OK);
    assert_true(ms == back);
  }
  assert_int_equal(qp__time_days(1970, 1, 1), 0);
  assert_int_equal(qp__time_days(2000, 3, 1), 11017);
  assert_int_equal(qp__time_days(1969, 12, 31), -1);
}

/* ---- log ---- */

static void
keep_line(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  (void)snprintf(arg, 100, "%d %s %.60s", (int)level, feature, text);
}

static void
test_log_hands_the_line_over(void **state)
{
  char line[100] = "";
  struct qp__log log = { keep_line, line };
  struct qp__log silent = { NULL, NULL };

  (void)state;
  qp__log(&log, QP_LOG_WARN, "journal", "segment %d", 3);
  assert_string_equal(line, "1 journal segment 3");
  qp__log(&log, QP_LOG_ERROR, "x", "%0900d", 1);
  assert_int_equal(strlen(line), 64);
  qp__log(&silent, QP_LOG_WARN, "journal", "nobody hears this");
  qp__log(NULL, QP_LOG_WARN, "journal", "nor this");
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_rc_table_is_complete_and_consistent),
    cmocka_unit_test(test_fail_fills_and_cuts_the_sentence),
    cmocka_unit_test(test_fail_sys_chooses_the_code),
    cmocka_unit_test(test_buf_keeps_its_limit),
    cmocka_unit_test(test_buf_grows_and_gives_itself_away),
    cmocka_unit_test(test_buf_survives_no_memory),
    cmocka_unit_test(test_arena_hands_out_aligned_zeroed_memory),
    cmocka_unit_test(test_arena_survives_no_memory),
    cmocka_unit_test(test_alloc_answers_null),
    cmocka_unit_test(test_utf8_accepts_exactly_utf8),
    cmocka_unit_test(test_percent_encoding_round_trips_all_bytes),
    cmocka_unit_test(test_percent_encoding_has_one_spelling),
    cmocka_unit_test(test_the_fast_hex_decoders_agree_with_the_slow_one),
    cmocka_unit_test(test_hex_round_trips),
    cmocka_unit_test(test_uuid7_rises_whatever_the_clock_does),
    cmocka_unit_test(test_uuid7_outlives_its_counter_in_one_millisecond),
    cmocka_unit_test(test_uuid_text_round_trips_and_is_strict),
    cmocka_unit_test(test_time_parse_table),
    cmocka_unit_test(test_time_format_is_the_reverse_of_parse),
    cmocka_unit_test(test_log_hands_the_line_over),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}

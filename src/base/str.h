/* str.h - text that comes from outside: UTF-8 checking, percent encoding, hexadecimal, times. */
#ifndef QP_BASE_STR_H
#define QP_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. NUL bytes are allowed. */
bool qp__utf8_ok(const char *s, size_t n);
/* Whether text (UTF-8) holds a control character of ASCII or of Latin-1, U+0080 to U+009F. */
bool qp__has_control(const char *s);
/* How many bytes the first `count` characters have, at most n; the text is UTF-8. */
size_t qp__utf8_prefix(const char *s, size_t n, size_t count);

/* Appends `s` with every ASCII character outside [A-Za-z0-9_-], and a '.' at the start, as %XX;
 * bytes of other characters stay. So the result is never "." or "..", has no '/' and needs no
 * escape in JSON. */
enum qp_rc qp__percent_encode(struct qp__buf *out, const char *s, size_t n);
/* QP_INVALID: a bad escape, or a form that encode would not have made. */
enum qp_rc qp__percent_decode(struct qp__buf *out, const char *s, size_t n);

/* 2 * n lower-case digits, no NUL. */
void qp__hex_encode(char *out, const uint8_t *in, size_t n);
bool qp__hex_decode(uint8_t *out, const char *in,
                    size_t n); /* n bytes from 2n digits of either case */

/* Eight digits of either case at once, the first of them in the highest byte of the word: the
 * inner loop of the index reader. *out is their value. */
static inline bool
qp__hex_word(uint64_t digits, uint32_t *out)
{
  const uint64_t ones = 0x0101010101010101u;
  uint64_t lower = digits | 0x20 * ones;            /* digits have that bit already */
  uint64_t letter = (digits >> 6) & ones;           /* 1 in each byte that can only be a letter */
  uint64_t v = (digits & 0x0f * ones) + 9 * letter; /* 'a' is 0x61: low nibble 1, plus 9 */
  uint64_t above9 = ((v + 6 * ones) >> 4) & ones;

  /* They are digits when the values are below 16 and give the same text, written again. No sum
   * leaves its byte. */
  if (v + '0' * ones + ('a' - '0' - 10) * above9 != lower ||
      ((lower ^ digits) & ~(letter << 5)) | (v & 0x10 * ones))
    return false;
  v = (v | (v >> 4)) & 0x00ff00ff00ff00ffu;
  v = (v | (v >> 8)) & 0x0000ffff0000ffffu;
  *out = (uint32_t)(v | (v >> 16));
  return true;
}

/* The same from 8 characters. */
static inline bool
qp__hex_decode8(const char *in, uint32_t *out)
{
  uint64_t digits;

  memcpy(&digits, in, sizeof(digits));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  digits = __builtin_bswap64(digits);
#endif
  return qp__hex_word(digits, out);
}

#define QP__TIME_LEN 24 /* "2026-11-15T19:55:40.123Z" */

/* Whether a time has a year from 0000 to 9999, and so a form. */
bool qp__time_ok(int64_t ms);
/* Years 0000 to 9999, else clamped; no NUL. */
void qp__time_format(char out[QP__TIME_LEN], int64_t ms);
/* RFC 3339 with any fraction and offset; QP_INVALID otherwise. */
enum qp_rc qp__time_parse(const char *s, size_t n, int64_t *ms);
/* Days since 1970-01-01 of a date in the Gregorian calendar. */
int64_t qp__time_days(int year, int month, int day);

#endif

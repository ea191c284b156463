/* str.h - checking and converting text: UTF-8, percent encoding, hexadecimal, times. */
#ifndef QP_BASE_STR_H
#define QP_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. NUL bytes are allowed. */
bool qp__utf8_ok(const char *s, size_t n);
/* The length of the first character of `text`, which has n > 0 bytes; 0: it is not UTF-8. */
size_t qp__utf8_len(const char *text, size_t n);
/* Whether UTF-8 text contains a control character of ASCII or Latin-1 (U+0080 to U+009F). */
bool qp__has_control(const char *s);
/* The number of bytes of the first `count` characters, at most n; the text is UTF-8. */
size_t qp__utf8_prefix(const char *s, size_t n, size_t count);
/* How many of n bytes of UTF-8 text are kept if at most `max` may be: never half a character. */
size_t qp__utf8_fit(const char *s, size_t n, size_t max);

/* Appends `s` with every ASCII character outside [A-Za-z0-9_-], and a '.' at the start, as %XX;
 * other bytes stay. So the result is never "." or "..", has no '/' and needs no escape in JSON. */
enum qp_rc qp__percent_encode(struct qp__buf *out, const char *s, size_t n);
/* QP_INVALID: a bad escape, or a form that encode would not write. */
enum qp_rc qp__percent_decode(struct qp__buf *out, const char *s, size_t n);

/* 2 * n lower-case digits, no NUL. */
void qp__hex_encode(char *out, const uint8_t *in, size_t n);
bool qp__hex_decode(uint8_t *out, const char *in,
                    size_t n); /* n bytes from 2n digits of either case */

/* Replaces *slot by a copy of `value` (may be NULL). False: out of memory, *slot is unchanged. */
bool qp__str_replace(char **slot, const char *value);
/* Whether both are NULL, or both are equal strings. */
bool qp__str_same(const char *a, const char *b);
/* For qsort and bsearch over pointers to texts. */
int qp__str_compare(const void *a, const void *b);

/* A list of texts. All zero is empty. */
struct qp__texts {
  char **at;
  size_t count, cap;
};

/* Appends a copy of the first n bytes of `text`. False: out of memory; the list is unchanged. */
bool qp__texts_add(struct qp__texts *list, const char *text, size_t n);
void qp__texts_sort(struct qp__texts *list);
void qp__texts_release(struct qp__texts *list);

/* A number of n bytes (at most 8), the first byte is the lowest. */
static inline void
qp__put_le(void *out, uint64_t value, size_t n)
{
  for (size_t i = 0; i < n; i++)
    ((uint8_t *)out)[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t
qp__get_le(const void *in, size_t n)
{
  uint64_t value = 0;

  for (size_t i = n; i-- > 0;)
    value = value << 8 | ((const uint8_t *)in)[i];
  return value;
}

/* Eight bytes as a number, the first byte is the lowest. */
static inline uint64_t
qp__word_at(const char *p)
{
  uint64_t word;

  memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

/* Converts eight digits of either case; the first digit is the most significant. */
static inline bool
qp__hex_decode8(const char *in, uint32_t *out)
{
  const uint64_t ones = 0x0101010101010101u;
  uint64_t digits = __builtin_bswap64(qp__word_at(in));
  uint64_t lower = digits | 0x20 * ones;            /* digits have this bit already */
  uint64_t letter = (digits >> 6) & ones;           /* 1 in each byte that can only be a letter */
  uint64_t v = (digits & 0x0f * ones) + 9 * letter; /* 'a' is 0x61: low nibble 1, plus 9 */
  uint64_t above9 = ((v + 6 * ones) >> 4) & ones;

  /* The text is valid if all values are below 16 and writing them again gives the same text. No sum
   * overflows its byte. */
  if (v + '0' * ones + ('a' - '0' - 10) * above9 != lower ||
      ((lower ^ digits) & ~(letter << 5)) | (v & 0x10 * ones))
    return false;
  v = (v | (v >> 4)) & 0x00ff00ff00ff00ffu;
  v = (v | (v >> 8)) & 0x0000ffff0000ffffu;
  *out = (uint32_t)(v | (v >> 16));
  return true;
}

/* Converts sixteen digits of either case, passed as two words copied from the text, to 8 bytes. One
 * operation works on all of them (vectors of GCC and Clang, for any processor), because the index
 * reader spends most of its time here. */
static inline bool
qp__hex_decode16(uint64_t first, uint64_t second, uint8_t out[8])
{
  typedef uint64_t words __attribute__((vector_size(16)));
  typedef uint8_t bytes __attribute__((vector_size(16)));
  typedef uint16_t pairs __attribute__((vector_size(16)));
  typedef uint8_t half __attribute__((vector_size(8)));
  words text = { first, second };
  bytes digit = (bytes)text - '0'; /* below 10 only for '0' to '9': the numbers wrap around */
  bytes letter = ((bytes)text | 0x20) - 'a';
  bytes is_digit = (bytes)(digit < 10); /* all bits of the byte set, or no bit */
  bytes is_letter = (bytes)(letter < 6);
  words good = (words)(is_digit | is_letter);
  pairs value = (pairs)((digit & is_digit) | ((letter + 10) & is_letter));
  half result;

  if ((good[0] & good[1]) != UINT64_MAX)
    return false;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  value = value << 4 | value >> 8;
#else
  value = value >> 4 | value;
#endif
  result = __builtin_convertvector(value & 0xff, half);
  memcpy(out, &result, sizeof(result));
  return true;
}

#define QP__TIME_LEN 24 /* "2026-11-15T19:55:40.123Z" */

/* Whether the year of a time is from 0000 to 9999, so that it can be formatted. */
bool qp__time_ok(int64_t ms);
/* Times outside of the years 0000 to 9999 are clamped; writes no NUL. */
void qp__time_format(char out[QP__TIME_LEN], int64_t ms);
/* RFC 3339 with any fraction and offset; QP_INVALID otherwise. */
enum qp_rc qp__time_parse(const char *s, size_t n, int64_t *ms);
/* Days since 1970-01-01 of a date in the Gregorian calendar. */
int64_t qp__time_days(int year, int month, int day);

#endif

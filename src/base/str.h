/* str.h - text that comes from outside: UTF-8 checking, percent encoding, hexadecimal, times. */
#ifndef QP_BASE_STR_H
#define QP_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. NUL bytes are allowed. */
bool qp__utf8_ok(const char *s, size_t n);

/* Appends `s` with every ASCII character outside [A-Za-z0-9_-], and a '.' at the start, as %XX; bytes of
 * other characters stay. So the result is never "." or "..", has no '/' and needs no escape in JSON. */
enum qp_rc qp__percent_encode(struct qp__buf *out, const char *s, size_t n);
/* QP_INVALID: a bad escape, or a form that encode would not have made. */
enum qp_rc qp__percent_decode(struct qp__buf *out, const char *s, size_t n);

/* 2 * n lower-case digits, no NUL. */
void qp__hex_encode(char *out, const uint8_t *in, size_t n);
bool qp__hex_decode(uint8_t *out, const char *in, size_t n); /* n bytes from 2n digits of either case */

/* 32 digits, 8 and more at a time: the inner loop of the index reader. */
bool qp__hex_decode8(const char *in, uint32_t *out); /* 8 digits, most significant first */

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

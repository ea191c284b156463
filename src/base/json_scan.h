/* json_scan.h - the tokens of JSON text. The reader of values (json_read.c), the scanner of large
 * files (old/jsonscan.h) and the walk over stored text (http/json_walk.h) are built on it.
 *
 * Checked: syntax, escapes, halves of surrogate pairs, at most QP__JSON_DEPTH levels. Not checked:
 * UTF-8 (the caller checks it before), duplicate keys, and whether a number fits.
 *
 * The text may come in pieces: `refill` supplies the next one, and a token may be split anywhere. A
 * function that returns false has set `problem`; `at` is the place of the problem. */
#ifndef QP_BASE_JSON_SCAN_H
#define QP_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"

#define QP__JSON_DEPTH 512 /* deeper values are refused */

struct qp__json_scan {
  const char *at, *end; /* the rest of the present piece of text */
  /* Called when at == end: sets both for the next piece. False, or NULL: there is no more text. */
  bool (*refill)(struct qp__json_scan *s);
  const char *problem; /* why it is not valid JSON; NULL: no problem was found */
  size_t depth;        /* open brackets */
};

extern const char qp__json_too_deep[]; /* a `problem`, compared by its address */

/* Sets the problem, unless there is one. Always false. */
bool qp__json_scan_fail(struct qp__json_scan *s, const char *problem);

/* The next byte, without consuming it; -1: the end of the text. */
static inline int
qp__json_scan_look(struct qp__json_scan *s)
{
  if (s->at == s->end && !(s->refill && s->refill(s)))
    return -1;
  return (unsigned char)*s->at;
}

/* The same after white space, which is consumed. */
static inline int
qp__json_scan_peek(struct qp__json_scan *s)
{
  for (;; s->at++) {
    int c = qp__json_scan_look(s);

    if (c > ' ' || (c != ' ' && c != '\n' && c != '\t' && c != '\r'))
      return c;
  }
}

/* Consumes the next byte if it is `c`. */
static inline bool
qp__json_scan_take(struct qp__json_scan *s, char c)
{
  if (qp__json_scan_look(s) != (unsigned char)c)
    return false;
  s->at++;
  return true;
}

/* The first byte from `p` on that a string must escape: a quote, a backslash or a control
 * character; or `end`. */
static inline const char *
qp__json_plain_end(const char *p, const char *end)
{
  const uint64_t ones = 0x0101010101010101u;
  const uint64_t highs = 0x8080808080808080u;

  for (; end - p >= 8; p += 8) {
    uint64_t w = qp__word_at(p);
    uint64_t quote = w ^ '"' * ones;
    uint64_t slash = w ^ '\\' * ones;
    /* A byte of x that is below k sets its top bit in (x - k) & ~x. A borrow can set the bits of
     * higher bytes wrongly, so only the lowest bit that is set counts. */
    uint64_t found =
        (((w - 0x20 * ones) & ~w) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & highs;

    if (found)
      return p + (__builtin_ctzll(found) >> 3);
  }
  while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
    p++;
  return p;
}

/* Consumes the rest of a string after its opening quote, if it has no escapes and ends in this
 * piece of the text; *text receives its characters. False: use qp__json_scan_string(). */
static inline bool
qp__json_scan_plain(struct qp__json_scan *s, struct qp_bytes *text)
{
  const char *stop = qp__json_plain_end(s->at, s->end);

  if (stop == s->end || *stop != '"')
    return false;
  text->data = s->at;
  text->len = (size_t)(stop - s->at);
  s->at = stop + 1;
  return true;
}

/* Consumes the rest of a string after its opening quote. Appends its characters to `out` (NULL:
 * they are not needed). The buffer remembers a failure; scanning continues. */
bool qp__json_scan_string(struct qp__json_scan *s, struct qp__buf *out);
/* Consumes a number; *whole: it has neither a fraction nor an exponent. */
bool qp__json_scan_number(struct qp__json_scan *s, bool *whole);
/* Consumes true, false or null. */
bool qp__json_scan_word(struct qp__json_scan *s, const char *word);

/* Consumes an opening bracket, which peek returned. */
static inline bool
qp__json_scan_open(struct qp__json_scan *s)
{
  if (s->depth == QP__JSON_DEPTH)
    return qp__json_scan_fail(s, qp__json_too_deep);
  s->at++;
  s->depth++;
  return true;
}

/* Whether another element or member follows, after the opening bracket (`first`) or after a value.
 * Consumes the comma or the closing bracket. False also if there is a problem. */
static inline bool
qp__json_scan_more(struct qp__json_scan *s, char closing, bool first)
{
  int c = qp__json_scan_peek(s);

  if (c == closing) {
    s->at++;
    s->depth--;
    return false;
  }
  if (first)
    return true;
  if (c != ',')
    return qp__json_scan_fail(s, closing == '}' ? "',' or '}' was expected"
                                                : "',' or ']' was expected");
  s->at++;
  return true;
}

/* Consumes the key of a member; appends it to `out` as qp__json_scan_string() does. */
bool qp__json_scan_key(struct qp__json_scan *s, struct qp__buf *out);
/* Consumes the colon after a key. */
static inline bool
qp__json_scan_colon(struct qp__json_scan *s)
{
  if (qp__json_scan_peek(s) != ':')
    return qp__json_scan_fail(s, "':' was expected");
  s->at++;
  return true;
}

/* Consumes a value of any kind. */
bool qp__json_scan_skip(struct qp__json_scan *s);

#endif

/* json_scan.h - the tokens of JSON text. The reader of values (json_read.c), the scanner of large
 * files (old/jsonscan.h) and the walk over stored text (http/json_walk.h) are built on it.
 *
 * Checked: syntax, escapes, halves of surrogate pairs, at most QP__JSON_DEPTH levels. Not checked:
 * UTF-8 (the caller checks it before), duplicate keys, and whether a number fits.
 *
 * The text may come in pieces: `refill` brings the next one, and a token may be split anywhere. A
 * function that returns false has set `problem`, and stands where the problem is. */
#ifndef QP_BASE_JSON_SCAN_H
#define QP_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"

#define QP__JSON_DEPTH 512 /* deeper values are refused */

struct qp__json_scan {
  const char *at, *end; /* the text that was not passed yet, of this piece */
  /* Called when at == end: sets both for the next piece. False, or NULL: there is no more text. */
  bool (*refill)(struct qp__json_scan *s);
  const char *problem; /* why it is not valid JSON; NULL: no problem was found */
  size_t depth;        /* open brackets */
};

extern const char qp__json_too_deep[]; /* a `problem`, compared by its address */

/* Sets the problem, unless there is one. Always false. */
bool qp__json_scan_fail(struct qp__json_scan *s, const char *problem);

/* The next byte, which is not passed; -1: the end of the text. */
static inline int
qp__json_scan_look(struct qp__json_scan *s)
{
  if (s->at == s->end && !(s->refill && s->refill(s)))
    return -1;
  return (unsigned char)*s->at;
}

/* The same behind white space, which is passed. */
static inline int
qp__json_scan_peek(struct qp__json_scan *s)
{
  for (;; s->at++) {
    int c = qp__json_scan_look(s);

    if (c > ' ' || (c != ' ' && c != '\n' && c != '\t' && c != '\r'))
      return c;
  }
}

/* Passes the next byte if it is `c`. */
static inline bool
qp__json_scan_take(struct qp__json_scan *s, char c)
{
  if (qp__json_scan_look(s) != (unsigned char)c)
    return false;
  s->at++;
  return true;
}

/* The first byte from `p` on that does not stand for itself in a string: a quote, a backslash or a
 * control character; or `end`. */
static inline const char *
qp__json_plain_end(const char *p, const char *end)
{
  const uint64_t ones = 0x0101010101010101u;
  const uint64_t highs = 0x8080808080808080u;

  for (; end - p >= 8; p += 8) {
    uint64_t w = qp__word_at(p);
    uint64_t quote = w ^ '"' * ones;
    uint64_t slash = w ^ '\\' * ones;
    /* A byte of x below k sets its top bit in (x - k) & ~x, where no lower byte borrowed first: so
     * the lowest bit that is set is right. */
    uint64_t found =
        (((w - 0x20 * ones) & ~w) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & highs;

    if (found)
      return p + (__builtin_ctzll(found) >> 3);
  }
  while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
    p++;
  return p;
}

/* Passes the rest of a string behind its opening quote, if it has no escapes and ends in this piece
 * of the text; *text are its characters. False: use qp__json_scan_string(). */
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

/* Passes the rest of a string behind its opening quote. Appends its characters to `out` (NULL: they
 * are not needed), where a failure is remembered while scanning goes on. */
bool qp__json_scan_string(struct qp__json_scan *s, struct qp__buf *out);
/* Passes a number; *whole: it has neither a fraction nor an exponent. */
bool qp__json_scan_number(struct qp__json_scan *s, bool *whole);
/* Passes true, false or null. */
bool qp__json_scan_word(struct qp__json_scan *s, const char *word);

/* Passes an opening bracket, which was seen by peek. */
static inline bool
qp__json_scan_open(struct qp__json_scan *s)
{
  if (s->depth == QP__JSON_DEPTH)
    return qp__json_scan_fail(s, qp__json_too_deep);
  s->at++;
  s->depth++;
  return true;
}

/* Whether one more element or member follows: behind the opening bracket (`first`) or behind a
 * value. Passes the comma, or else the closing bracket. False also after a problem. */
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

/* Passes the key of a member; appends it to `out` as qp__json_scan_string() does. */
bool qp__json_scan_key(struct qp__json_scan *s, struct qp__buf *out);
/* Passes the colon behind a key. */
static inline bool
qp__json_scan_colon(struct qp__json_scan *s)
{
  if (qp__json_scan_peek(s) != ':')
    return qp__json_scan_fail(s, "':' was expected");
  s->at++;
  return true;
}

/* Passes a value of any kind. */
bool qp__json_scan_skip(struct qp__json_scan *s);

#endif

/* json_scan.c - see json_scan.h. */
#include "base/json_scan.h"

const char qp__json_too_deep[] = "nested too deeply";

bool
qp__json_scan_fail(struct qp__json_scan *s, const char *problem)
{
  if (!s->problem)
    s->problem = problem;
  return false;
}

/* ---- strings ---- */

/* Four hexadecimal digits, or -1. */
static int
take_hex4(struct qp__json_scan *s)
{
  char digits[4];
  uint8_t b[2];

  if (s->end - s->at >= 4 || !s->refill) {
    if (s->end - s->at < 4 || !qp__hex_decode(b, s->at, 2))
      return -1;
    s->at += 4;
    return b[0] << 8 | b[1];
  }
  for (int i = 0; i < 4; i++) {
    int c = qp__json_scan_look(s);

    if (c < 0)
      return -1;
    digits[i] = (char)c;
    s->at++;
  }
  return qp__hex_decode(b, digits, 2) ? b[0] << 8 | b[1] : -1;
}

/* Appends the UTF-8 form of a character. */
static void
add_character(struct qp__buf *out, unsigned c)
{
  char u[4];
  size_t n;

  if (c < 0x80) {
    u[0] = (char)c;
    n = 1;
  } else if (c < 0x800) {
    u[0] = (char)(0xc0 | c >> 6);
    u[1] = (char)(0x80 | (c & 0x3f));
    n = 2;
  } else if (c < 0x10000) {
    u[0] = (char)(0xe0 | c >> 12);
    u[1] = (char)(0x80 | (c >> 6 & 0x3f));
    u[2] = (char)(0x80 | (c & 0x3f));
    n = 3;
  } else {
    u[0] = (char)(0xf0 | c >> 18);
    u[1] = (char)(0x80 | (c >> 12 & 0x3f));
    u[2] = (char)(0x80 | (c >> 6 & 0x3f));
    u[3] = (char)(0x80 | (c & 0x3f));
    n = 4;
  }
  (void)qp__buf_add(out, u, n);
}

/* After "\u". */
static bool
take_unicode(struct qp__json_scan *s, struct qp__buf *out)
{
  int c = take_hex4(s);
  int low = -1;

  if (c < 0)
    return qp__json_scan_fail(s, "\\u must be followed by four hexadecimal digits");
  if (c >= 0xd800 && c <= 0xdbff && qp__json_scan_take(s, '\\') && qp__json_scan_take(s, 'u'))
    low = take_hex4(s);
  if (low >= 0xdc00 && low <= 0xdfff)
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  else if (c >= 0xd800 && c <= 0xdfff)
    return qp__json_scan_fail(s, "half of a surrogate pair in a string");
  if (out)
    add_character(out, (unsigned)c);
  return true;
}

/* After a backslash. */
static bool
take_escape(struct qp__json_scan *s, struct qp__buf *out)
{
  static const char names[] = "\"\\/bfnrt";
  static const char values[] = "\"\\/\b\f\n\r\t";
  int c = qp__json_scan_look(s);
  const char *name = c > 0 ? strchr(names, c) : NULL;

  if (c == 'u') {
    s->at++;
    return take_unicode(s, out);
  }
  if (!name)
    return qp__json_scan_fail(s, "an unknown escape in a string");
  s->at++;
  if (out)
    (void)qp__buf_add_char(out, values[name - names]);
  return true;
}

bool
qp__json_scan_string(struct qp__json_scan *s, struct qp__buf *out)
{
  for (;;) {
    const char *stop = qp__json_plain_end(s->at, s->end);
    int c;

    if (out)
      (void)qp__buf_add(out, s->at, (size_t)(stop - s->at));
    s->at = stop;
    c = qp__json_scan_look(s);
    if (c == '"') {
      s->at++;
      return true;
    }
    if (c == '\\') {
      s->at++;
      if (!take_escape(s, out))
        return false;
    } else if (c < 0) {
      return qp__json_scan_fail(s, "a string has no end");
    } else if (c < 0x20) {
      return qp__json_scan_fail(s, "a control character in a string");
    }
  }
}

/* ---- numbers and words ---- */

/* Consumes digits; returns their number. */
static size_t
take_digits(struct qp__json_scan *s)
{
  size_t n = 0;

  do {
    const char *p = s->at;

    while (p < s->end && *p >= '0' && *p <= '9')
      p++;
    n += (size_t)(p - s->at);
    s->at = p;
  } while (s->at == s->end && s->refill && s->refill(s));
  return n;
}

bool
qp__json_scan_number(struct qp__json_scan *s, bool *whole)
{
  static const char malformed[] = "a malformed number";
  bool zero;
  size_t n;

  *whole = true;
  (void)qp__json_scan_take(s, '-');
  zero = qp__json_scan_look(s) == '0';
  n = take_digits(s);
  if (n == 0 || (zero && n > 1))
    return qp__json_scan_fail(s, malformed);
  if (qp__json_scan_take(s, '.')) {
    *whole = false;
    if (take_digits(s) == 0)
      return qp__json_scan_fail(s, malformed);
  }
  if (qp__json_scan_take(s, 'e') || qp__json_scan_take(s, 'E')) {
    *whole = false;
    if (!qp__json_scan_take(s, '+'))
      (void)qp__json_scan_take(s, '-');
    if (take_digits(s) == 0)
      return qp__json_scan_fail(s, malformed);
  }
  return true;
}

bool
qp__json_scan_word(struct qp__json_scan *s, const char *word)
{
  size_t n = strlen(word);

  if ((size_t)(s->end - s->at) >= n && memcmp(s->at, word, n) == 0) {
    s->at += n;
    return true;
  }
  while (s->refill && *word && qp__json_scan_take(s, *word))
    word++;
  return *word ? qp__json_scan_fail(s, "expected a value") : true;
}

bool
qp__json_scan_key(struct qp__json_scan *s, struct qp__buf *out)
{
  if (qp__json_scan_peek(s) != '"')
    return qp__json_scan_fail(s, "a key was expected");
  s->at++;
  return qp__json_scan_string(s, out);
}

/* ---- values ---- */

static inline bool
skip_string(struct qp__json_scan *s)
{
  struct qp_bytes text;

  s->at++;
  return qp__json_scan_plain(s, &text) || qp__json_scan_string(s, NULL);
}

static bool
skip_key(struct qp__json_scan *s)
{
  if (qp__json_scan_peek(s) != '"')
    return qp__json_scan_fail(s, "a key was expected");
  return skip_string(s) && qp__json_scan_colon(s);
}

static bool
skip_scalar(struct qp__json_scan *s, int c)
{
  bool whole;

  switch (c) {
  case '"':
    return skip_string(s);
  case 't':
    return qp__json_scan_word(s, "true");
  case 'f':
    return qp__json_scan_word(s, "false");
  case 'n':
    return qp__json_scan_word(s, "null");
  default:
    if (c == '-' || (c >= '0' && c <= '9'))
      return qp__json_scan_number(s, &whole);
    return qp__json_scan_fail(s, c < 0 ? "unexpected end of input" : "expected a value");
  }
}

bool
qp__json_scan_skip(struct qp__json_scan *s)
{
  char closing[QP__JSON_DEPTH + 1]; /* of each open bracket, by its depth */
  size_t outside = s->depth;

  for (;;) {
    int c = qp__json_scan_peek(s);
    bool first = c == '{' || c == '[';

    if (first) {
      if (!qp__json_scan_open(s))
        return false;
      closing[s->depth] = c == '{' ? '}' : ']';
    } else if (!skip_scalar(s, c)) {
      return false;
    }
    for (;; first = false) { /* to the next value, or out of the last bracket */
      size_t depth = s->depth;

      if (depth == outside)
        return true;
      if (qp__json_scan_more(s, closing[depth], first)) {
        if (closing[depth] == '}' && !skip_key(s))
          return false;
        break;
      }
      if (s->problem)
        return false;
    }
  }
}

/* json_read.c - parses JSON text into jansson's values.
 *
 * jansson's own parser is not used because it is not safe when memory runs out: if its token buffer
 * cannot grow it drops characters, so a number silently loses digits and the end of a string may be
 * missed. This parser returns the whole value or QP_NOMEM. Its recursion is limited by
 * QP__JSON_DEPTH.
 *
 * A tree can be two hundred times as large as its text: "{}," is three bytes of text and about 450
 * bytes of memory. So the cost of each value is charged to a budget before the value is created. */
#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

static const char too_deep[] = "nested too deeply";
static const char too_large[] = "too many values";

/* The memory of a value without the bytes of its text, rounded up from jansson 2.14 and malloc. */
enum cost {
  COST_OBJECT = 384, /* including its first buckets */
  COST_ARRAY = 144,  /* including its first slots */
  COST_VALUE = 64,   /* a string or a number, and its slot in an array */
  COST_MEMBER = 112, /* a key, and its share of the buckets */
};

struct reader {
  const char *at;
  const char *end;
  struct qp__buf stack; /* the keys of all open objects, then the string that is being read */
  const char *problem;  /* the reason for a failure; NULL: out of memory */
  int depth;
  size_t limit;  /* the memory that the tree may use */
  size_t budget; /* the rest of the limit */
};

static json_t *
refuse(struct reader *r, const char *problem)
{
  r->problem = problem;
  return NULL;
}

/* Subtracts `cost` from the budget; false if the budget is used up. */
static bool
charge(struct reader *r, enum cost cost)
{
  if (r->budget < (size_t)cost) {
    r->problem = too_large;
    return false;
  }
  r->budget -= (size_t)cost;
  return true;
}

static void
skip_space(struct reader *r)
{
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
    r->at++;
}

/* Consumes the next character if it is `c`. */
static bool
take(struct reader *r, char c)
{
  if (r->at == r->end || *r->at != c)
    return false;
  r->at++;
  return true;
}

/* Removes everything above `mark` from the stack. */
static void
pop(struct reader *r, size_t mark)
{
  r->stack.len = mark;
  if (r->stack.data)
    r->stack.data[mark] = 0;
}

/* Four hexadecimal digits, or -1. */
static int
take_hex4(struct reader *r)
{
  uint8_t b[2];

  if (r->end - r->at < 4 || !qp__hex_decode(b, r->at, 2))
    return -1;
  r->at += 4;
  return b[0] << 8 | b[1];
}

/* Pushes the UTF-8 form of a character. */
static void
push_character(struct reader *r, unsigned c)
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
  (void)qp__buf_add(&r->stack, u, n);
}

/* The reader is after "\u". */
static bool
read_unicode(struct reader *r)
{
  int c = take_hex4(r);
  int low = -1;

  if (c < 0) {
    r->problem = "\\u must be followed by four hexadecimal digits";
    return false;
  }
  if (c >= 0xd800 && c <= 0xdbff && take(r, '\\') && take(r, 'u'))
    low = take_hex4(r);
  if (low >= 0xdc00 && low <= 0xdfff) {
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  } else if (c >= 0xd800 && c <= 0xdfff) {
    r->problem = "half of a surrogate pair in a string";
    return false;
  }
  push_character(r, (unsigned)c);
  return true;
}

/* The reader is after a backslash. */
static bool
read_escape(struct reader *r)
{
  static const char names[] = "\"\\/bfnrt";
  static const char values[] = "\"\\/\b\f\n\r\t";
  const char *name;

  if (take(r, 'u'))
    return read_unicode(r);
  name = r->at < r->end && *r->at ? strchr(names, *r->at) : NULL;
  if (!name) {
    r->problem = "an unknown escape in a string";
    return false;
  }
  r->at++;
  (void)qp__buf_add_char(&r->stack, values[name - names]);
  return true;
}

/* The end of the characters without special meaning: the next quote, backslash or control
 * character. */
static const char *
plain_end(const struct reader *r)
{
  const char *p = r->at;

  while (p < r->end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
    p++;
  return p;
}

/* Pushes a string on the stack; the reader is after its first quote. */
static bool
push_string(struct reader *r)
{
  for (;;) {
    const char *stop = plain_end(r);

    (void)qp__buf_add(&r->stack, r->at, (size_t)(stop - r->at));
    r->at = stop;
    if (take(r, '"'))
      return r->stack.rc == QP_OK;
    if (take(r, '\\')) {
      if (!read_escape(r))
        return false;
      continue;
    }
    r->problem = r->at == r->end ? "a string has no end" : "a control character in a string";
    return false;
  }
}

static json_t *
read_string(struct reader *r)
{
  size_t mark = r->stack.len;
  const char *stop = plain_end(r);
  json_t *value;

  if (stop < r->end && *stop == '"') { /* no escapes: use the text directly */
    value = json_stringn_nocheck(r->at, (size_t)(stop - r->at));
    r->at = stop + 1;
    return value;
  }
  if (!push_string(r))
    return NULL;
  value = json_stringn_nocheck(r->stack.data + mark, r->stack.len - mark);
  pop(r, mark);
  return value;
}

static const char *
skip_digits(struct reader *r)
{
  const char *start = r->at;

  while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
    r->at++;
  return start;
}

static json_t *
read_integer(struct reader *r, const char *s)
{
  bool negative = *s == '-';
  int64_t v = 0; /* counts downwards, because there is one more negative number */

  for (s += negative; s < r->at; s++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s - '0', &v))
      return refuse(r, "a whole number that does not fit in 64 bits");
  if (!negative && __builtin_sub_overflow(0, v, &v))
    return refuse(r, "a whole number that does not fit in 64 bits");
  return json_integer(v);
}

static json_t *
read_real(struct reader *r, const char *s)
{
  size_t mark = r->stack.len;
  const char *point = memchr(s, '.', (size_t)(r->at - s));
  double v;

  if (point) { /* strtod expects the decimal point of the locale */
    (void)qp__buf_add(&r->stack, s, (size_t)(point - s));
    (void)qp__buf_add_str(&r->stack, localeconv()->decimal_point);
    s = point + 1;
  }
  (void)qp__buf_add(&r->stack, s, (size_t)(r->at - s));
  if (r->stack.rc)
    return NULL;
  v = strtod(r->stack.data + mark, NULL);
  pop(r, mark);
  return isfinite(v) ? json_real(v) : refuse(r, "a number that is too big");
}

static json_t *
read_number(struct reader *r)
{
  const char *start = r->at;
  const char *digits;
  bool whole = true;

  (void)take(r, '-');
  digits = skip_digits(r);
  if (r->at == digits || (*digits == '0' && r->at - digits > 1))
    return refuse(r, "a malformed number");
  if (take(r, '.')) {
    whole = false;
    if (skip_digits(r) == r->at)
      return refuse(r, "a malformed number");
  }
  if (take(r, 'e') || take(r, 'E')) {
    whole = false;
    if (!take(r, '+'))
      (void)take(r, '-');
    if (skip_digits(r) == r->at)
      return refuse(r, "a malformed number");
  }
  return whole ? read_integer(r, start) : read_real(r, start);
}

static json_t *read_value(struct reader *r);

/* Reads one "key": value; the reader is before the key. */
static bool
read_member(struct reader *r, json_t *object)
{
  size_t mark = r->stack.len;
  size_t before = json_object_size(object);
  json_t *value;

  if (!charge(r, COST_MEMBER))
    return false;
  skip_space(r);
  if (!take(r, '"')) {
    r->problem = "a key was expected";
    return false;
  }
  if (!push_string(r))
    return false;
  if (memchr(r->stack.data + mark, 0, r->stack.len - mark)) {
    r->problem = "a NUL character in a key";
    return false;
  }
  if (qp__buf_add_char(&r->stack, 0))
    return false;
  skip_space(r);
  if (!take(r, ':')) {
    r->problem = "':' was expected";
    return false;
  }
  value = read_value(r);
  if (!value || json_object_set_new_nocheck(object, r->stack.data + mark, value))
    return false;
  if (json_object_size(object) == before) {
    r->problem = "duplicate key";
    return false;
  }
  pop(r, mark);
  return true;
}

/* The reader is after the opening bracket. */
static bool
read_members(struct reader *r, json_t *object)
{
  skip_space(r);
  if (take(r, '}'))
    return true;
  do {
    if (!read_member(r, object))
      return false;
    skip_space(r);
  } while (take(r, ','));
  if (take(r, '}'))
    return true;
  r->problem = "',' or '}' was expected";
  return false;
}

static bool
read_elements(struct reader *r, json_t *array)
{
  skip_space(r);
  if (take(r, ']'))
    return true;
  do {
    if (json_array_append_new(array, read_value(r)))
      return false;
    skip_space(r);
  } while (take(r, ','));
  if (take(r, ']'))
    return true;
  r->problem = "',' or ']' was expected";
  return false;
}

static json_t *
read_container(struct reader *r, bool is_object)
{
  json_t *value;

  if (r->depth == QP__JSON_DEPTH)
    return refuse(r, too_deep);
  if (!charge(r, is_object ? COST_OBJECT : COST_ARRAY))
    return NULL;
  r->depth++;
  value = is_object ? json_object() : json_array();
  if (!value || !(is_object ? read_members(r, value) : read_elements(r, value))) {
    json_decref(value);
    return NULL;
  }
  r->depth--;
  return value;
}

static bool
take_word(struct reader *r, const char *word)
{
  size_t n = strlen(word);

  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
    return false;
  r->at += n;
  return true;
}

static json_t *
read_value(struct reader *r)
{
  skip_space(r);
  if (r->at == r->end)
    return refuse(r, "unexpected end of input");
  if (take(r, '{'))
    return read_container(r, true);
  if (take(r, '['))
    return read_container(r, false);
  if (!charge(r, COST_VALUE))
    return NULL;
  if (take(r, '"'))
    return read_string(r);
  if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9'))
    return read_number(r);
  if (take_word(r, "true"))
    return json_true();
  if (take_word(r, "false"))
    return json_false();
  if (take_word(r, "null"))
    return json_null();
  return refuse(r, "expected a value");
}

/* Writes the error: where the reader stopped and why. */
static enum qp_rc
explain(const struct reader *r, const char *what, const char *start, struct qp_err *err)
{
  size_t line = 1;
  size_t column = 1;

  if (!r->problem)
    return qp__fail_nomem(err, what);
  if (r->problem == too_deep)
    return qp__fail(err, QP_INVALID, "%s: JSON nested deeper than %d levels", what, QP__JSON_DEPTH);
  if (r->problem == too_large)
    return qp__fail(err, QP_TOOBIG,
                    "%s: too many JSON values; at most %zu MiB of memory are allowed", what,
                    r->limit >> 20);
  for (const char *p = start; p < r->at; p++) {
    if (*p == '\n') {
      line++;
      column = 1;
    } else if (((unsigned char)*p & 0xc0) != 0x80) {
      column++;
    }
  }
  return qp__fail(err, QP_INVALID, "%s: not valid JSON: %s (line %zu, column %zu)", what,
                  r->problem, line, column);
}

static enum qp_rc
parse(const char *what, struct qp_bytes text, size_t limit, json_t **out, struct qp_err *err)
{
  const char *start = text.len ? text.data : "";
  struct reader r = { .at = start, .end = start + text.len, .limit = limit, .budget = limit };
  json_t *value;
  enum qp_rc rc = QP_OK;

  if (!qp__utf8_ok(start, text.len))
    return qp__fail(err, QP_INVALID, "%s: not valid JSON: not valid UTF-8", what);
  qp__buf_init(&r.stack, SIZE_MAX / 4); /* limited by the text: reading never makes it longer */
  value = read_value(&r);
  if (value) {
    skip_space(&r);
    if (r.at < r.end) {
      json_decref(value);
      value = refuse(&r, "unexpected text after the value");
    }
  }
  if (value)
    *out = value;
  else
    rc = explain(&r, what, start, err);
  qp__buf_release(&r.stack);
  return rc;
}

static enum qp_rc
parse_object(const char *what, struct qp_bytes text, size_t limit, json_t **out, struct qp_err *err)
{
  json_t *value = NULL;
  enum qp_rc rc = parse(what, text, limit, &value, err);

  if (rc)
    return rc;
  if (!json_is_object(value)) {
    json_decref(value);
    return qp__fail(err, QP_INVALID, "%s: must be a JSON object", what);
  }
  *out = value;
  return QP_OK;
}

enum qp_rc
qp__json_parse(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err)
{
  return parse(what, text, QP__JSON_TREE_MAX, out, err);
}

enum qp_rc
qp__json_parse_object(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err)
{
  return parse_object(what, text, QP__JSON_TREE_MAX, out, err);
}

enum qp_rc
qp__json_parse_outside(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err)
{
  return parse(what, text, QP__JSON_TREE_MAX / 2, out, err);
}

enum qp_rc
qp__json_parse_outside_object(const char *what, struct qp_bytes text, json_t **out,
                              struct qp_err *err)
{
  return parse_object(what, text, QP__JSON_TREE_MAX / 2, out, err);
}

enum qp_rc
qp__json_parse_own_object(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err)
{
  return parse_object(what, text, SIZE_MAX, out, err);
}

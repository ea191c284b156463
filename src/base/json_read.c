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
#include "base/json_scan.h"
#include "base/str.h"

static const char too_large[] = "too many values";

/* The memory of a value without the bytes of its text, rounded up from jansson 2.14 and malloc. */
enum cost {
  COST_OBJECT = 384, /* including its first buckets */
  COST_ARRAY = 144,  /* including its first slots */
  COST_VALUE = 64,   /* a string or a number, and its slot in an array */
  COST_MEMBER = 112, /* a key, and its share of the buckets */
};

/* A failure while scan.problem is NULL means out of memory. */
struct reader {
  struct qp__json_scan scan;
  struct qp__buf stack; /* keys with escapes of all open objects, then the token being read */
  size_t limit;         /* the memory that the tree may use */
  size_t budget;        /* the rest of the limit */
};

static json_t *
refuse(struct reader *r, const char *problem)
{
  (void)qp__json_scan_fail(&r->scan, problem);
  return NULL;
}

/* Subtracts `cost` from the budget; false if the budget is used up. */
static bool
charge(struct reader *r, enum cost cost)
{
  if (r->budget < (size_t)cost)
    return qp__json_scan_fail(&r->scan, too_large);
  r->budget -= (size_t)cost;
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

/* After the opening quote. */
static json_t *
read_string(struct reader *r)
{
  struct qp__json_scan *s = &r->scan;
  size_t mark = r->stack.len;
  struct qp_bytes text;
  json_t *value;

  if (qp__json_scan_plain(s, &text))
    return json_stringn_nocheck(text.data, text.len);
  if (!qp__json_scan_string(s, &r->stack) || r->stack.rc)
    return NULL;
  value = json_stringn_nocheck(r->stack.data + mark, r->stack.len - mark);
  pop(r, mark);
  return value;
}

/* The number is the text from `s` on. */
static json_t *
read_integer(struct reader *r, const char *s)
{
  bool negative = *s == '-';
  int64_t v = 0; /* counts downwards, because there is one more negative number */

  for (s += negative; s < r->scan.at; s++)
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
  const char *point = memchr(s, '.', (size_t)(r->scan.at - s));
  double v;

  if (point) { /* strtod expects the decimal point of the locale */
    (void)qp__buf_add(&r->stack, s, (size_t)(point - s));
    (void)qp__buf_add_str(&r->stack, localeconv()->decimal_point);
    s = point + 1;
  }
  (void)qp__buf_add(&r->stack, s, (size_t)(r->scan.at - s));
  if (r->stack.rc)
    return NULL;
  v = strtod(r->stack.data + mark, NULL);
  pop(r, mark);
  return isfinite(v) ? json_real(v) : refuse(r, "a number that is too big");
}

static json_t *
read_number(struct reader *r)
{
  const char *start = r->scan.at;
  bool whole;

  if (!qp__json_scan_number(&r->scan, &whole))
    return NULL;
  return whole ? read_integer(r, start) : read_real(r, start);
}

static json_t *read_value(struct reader *r);

/* One "key": value. A key without escapes is not copied. */
static bool
read_member(struct reader *r, json_t *object)
{
  struct qp__json_scan *s = &r->scan;
  size_t mark = r->stack.len;
  size_t before = json_object_size(object);
  struct qp_bytes key;
  json_t *value;

  if (!charge(r, COST_MEMBER))
    return false;
  if (qp__json_scan_peek(s) != '"')
    return qp__json_scan_fail(s, "a key was expected");
  s->at++;
  if (!qp__json_scan_plain(s, &key)) {
    if (!qp__json_scan_string(s, &r->stack) || r->stack.rc)
      return false;
    key.data = NULL; /* it is on the stack, which may move */
    key.len = r->stack.len - mark;
    if (memchr(r->stack.data + mark, 0, key.len))
      return qp__json_scan_fail(s, "a NUL character in a key");
  }
  if (!qp__json_scan_colon(s))
    return false;
  value = read_value(r);
  if (!value || json_object_setn_new_nocheck(object, key.data ? key.data : r->stack.data + mark,
                                             key.len, value))
    return false;
  if (json_object_size(object) == before)
    return qp__json_scan_fail(s, "duplicate key");
  pop(r, mark);
  return true;
}

static json_t *
read_container(struct reader *r, bool is_object)
{
  char closing = is_object ? '}' : ']';
  bool good = true;
  json_t *value;

  if (r->scan.depth < QP__JSON_DEPTH && !charge(r, is_object ? COST_OBJECT : COST_ARRAY))
    return NULL;
  if (!qp__json_scan_open(&r->scan))
    return NULL;
  value = is_object ? json_object() : json_array();
  for (bool first = true; value && good && qp__json_scan_more(&r->scan, closing, first);
       first = false)
    good = is_object ? read_member(r, value) : !json_array_append_new(value, read_value(r));
  return qp__json_built(value, !good || r->scan.problem);
}

static json_t *
read_value(struct reader *r)
{
  struct qp__json_scan *s = &r->scan;
  int c = qp__json_scan_peek(s);

  if (c < 0)
    return refuse(r, "unexpected end of input");
  if (c == '{' || c == '[')
    return read_container(r, c == '{');
  if (!charge(r, COST_VALUE))
    return NULL;
  if (c == '"') {
    s->at++;
    return read_string(r);
  }
  if (c == '-' || (c >= '0' && c <= '9'))
    return read_number(r);
  if (c == 't')
    return qp__json_scan_word(s, "true") ? json_true() : NULL;
  if (c == 'f')
    return qp__json_scan_word(s, "false") ? json_false() : NULL;
  if (c == 'n')
    return qp__json_scan_word(s, "null") ? json_null() : NULL;
  return refuse(r, "expected a value");
}

/* Writes the error: where the reader stopped and why. */
static enum qp_rc
explain(const struct reader *r, const char *what, const char *start, struct qp_err *err)
{
  const char *problem = r->scan.problem;
  size_t line = 1;
  size_t column = 1;

  if (!problem)
    return qp__fail_nomem(err, what);
  if (problem == qp__json_too_deep)
    return qp__fail(err, QP_INVALID, "%s: JSON nested deeper than %d levels", what, QP__JSON_DEPTH);
  if (problem == too_large)
    return qp__fail(err, QP_TOOBIG,
                    "%s: too many JSON values; at most %zu MiB of memory are allowed", what,
                    r->limit >> 20);
  for (const char *p = start; p < r->scan.at; p++) {
    if (*p == '\n') {
      line++;
      column = 1;
    } else if (((unsigned char)*p & 0xc0) != 0x80) {
      column++;
    }
  }
  return qp__fail(err, QP_INVALID, "%s: not valid JSON: %s (line %zu, column %zu)", what, problem,
                  line, column);
}

static enum qp_rc
parse(const char *what, struct qp_bytes text, size_t limit, json_t **out, struct qp_err *err)
{
  const char *start = text.len ? text.data : "";
  struct reader r = { .scan = { .at = start, .end = start + text.len },
                      .limit = limit,
                      .budget = limit };
  json_t *value;
  enum qp_rc rc = QP_OK;

  if (!qp__utf8_ok(start, text.len))
    return qp__fail(err, QP_INVALID, "%s: not valid JSON: not valid UTF-8", what);
  qp__buf_init(&r.stack, SIZE_MAX / 4); /* limited by the text: reading never makes it longer */
  value = read_value(&r);
  if (value && qp__json_scan_peek(&r.scan) >= 0) {
    json_decref(value);
    value = refuse(&r, "unexpected text after the value");
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

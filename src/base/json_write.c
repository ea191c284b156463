/* json_write.c - writes jansson's values as JSON text.
 *
 * jansson's own writer is not used because it has one precision for all numbers, so 0.1 becomes
 * 0.10000000000000001, and because it allocates memory for each level. This writer uses the fewest
 * digits that give the same number, and only the buffer grows. The same value always gives the same
 * bytes. */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
  struct qp__buf *out;
  bool pretty;
};

enum qp_rc
qp__json_write_string(struct qp__buf *out, const char *s, size_t n)
{
  static const char names[] = "btn\0fr"; /* of 0x08 to 0x0d; 0x0b has none */
  const char *end = s + n;

  (void)qp__buf_add_char(out, '"');
  while (s < end) {
    const char *p = qp__json_plain_end(s, end);
    unsigned char c;

    (void)qp__buf_add(out, s, (size_t)(p - s));
    if (p == end)
      break;
    c = (unsigned char)*p;
    if (c >= 0x20)
      (void)qp__buf_addf(out, "\\%c", c);
    else if (c >= 0x08 && c <= 0x0d && c != 0x0b)
      (void)qp__buf_addf(out, "\\%c", names[c - 0x08]);
    else
      (void)qp__buf_addf(out, "\\u%04x", c);
    s = p + 1;
  }
  (void)qp__buf_add_char(out, '"');
  return out->rc;
}

/* Writes the fewest digits that give the same number, and a mark that it is not an integer. */
static void
write_real(struct qp__buf *out, double v)
{
  char text[64];
  bool whole = true;

  for (int digits = 15; digits <= 17; digits++) {
    (void)snprintf(text, sizeof(text), "%.*g", digits, v);
    if (strtod(text, NULL) == v)
      break;
  }
  for (const char *p = text; *p; p++) {
    if (strchr("0123456789-+e", *p)) {
      (void)qp__buf_add_char(out, *p);
      whole = whole && *p != 'e';
    } else if (whole) { /* the decimal point of the locale, which may have several bytes */
      (void)qp__buf_add_char(out, '.');
      whole = false;
    }
  }
  if (whole)
    (void)qp__buf_add_str(out, ".0");
}

static void
start_line(const struct writer *w, size_t level)
{
  if (!w->pretty)
    return;
  (void)qp__buf_add_char(w->out, '\n');
  for (size_t i = 0; i < level; i++)
    (void)qp__buf_add(w->out, "  ", 2);
}

static void write_value(const struct writer *w, const json_t *value, size_t level);

static void
write_object(const struct writer *w, const json_t *value, size_t level)
{
  void *iter = json_object_iter((json_t *)value); /* jansson's iterators take no const */
  bool first = true;

  (void)qp__buf_add_char(w->out, '{');
  for (; iter && !w->out->rc; iter = json_object_iter_next((json_t *)value, iter)) {
    const char *key = json_object_iter_key(iter);

    if (!first)
      (void)qp__buf_add_char(w->out, ',');
    first = false;
    start_line(w, level + 1);
    (void)qp__json_write_string(w->out, key, strlen(key));
    (void)qp__buf_add_str(w->out, w->pretty ? ": " : ":");
    write_value(w, json_object_iter_value(iter), level + 1);
  }
  if (!first)
    start_line(w, level);
  (void)qp__buf_add_char(w->out, '}');
}

static void
write_array(const struct writer *w, const json_t *value, size_t level)
{
  size_t n = json_array_size(value);

  (void)qp__buf_add_char(w->out, '[');
  for (size_t i = 0; i < n && !w->out->rc; i++) {
    if (i)
      (void)qp__buf_add_char(w->out, ',');
    start_line(w, level + 1);
    write_value(w, json_array_get(value, i), level + 1);
  }
  if (n)
    start_line(w, level);
  (void)qp__buf_add_char(w->out, ']');
}

static void
write_value(const struct writer *w, const json_t *value, size_t level)
{
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    write_object(w, value, level);
    break;
  case JSON_ARRAY:
    write_array(w, value, level);
    break;
  case JSON_STRING:
    (void)qp__json_write_string(w->out, json_string_value(value), json_string_length(value));
    break;
  case JSON_INTEGER:
    (void)qp__buf_addf(w->out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    break;
  case JSON_REAL:
    write_real(w->out, json_real_value(value));
    break;
  case JSON_TRUE:
    (void)qp__buf_add_str(w->out, "true");
    break;
  case JSON_FALSE:
    (void)qp__buf_add_str(w->out, "false");
    break;
  case JSON_NULL:
    (void)qp__buf_add_str(w->out, "null");
    break;
  }
}

enum qp_rc
qp__json_write(struct qp__buf *out, const json_t *value)
{
  struct writer w = { out, false };

  write_value(&w, value, 0);
  return out->rc;
}

enum qp_rc
qp__json_write_pretty(struct qp__buf *out, const json_t *value)
{
  return qp__json_write_inside(out, value, 0);
}

enum qp_rc
qp__json_write_inside(struct qp__buf *out, const json_t *value, size_t level)
{
  struct writer w = { out, true };

  write_value(&w, value, level);
  return out->rc;
}

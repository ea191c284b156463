/* emit.c - see emit.h. */
#include "http/emit.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

/* Almost all keys are our own names; those of unknown fields may contain anything. */
static bool
is_plain(const char *key)
{
  for (; *key; key++)
    if (*key == '"' || *key == '\\' || (unsigned char)*key < 0x20)
      return false;
  return true;
}

/* Adds the comma and the key, and reserves `more` bytes. False: failed. */
static bool
begin(struct qp__buf *b, const char *key, size_t more)
{
  size_t n = key ? strlen(key) : 0;
  char last = b->len ? b->data[b->len - 1] : '[';
  char *at;

  if (qp__buf_reserve(b, n + 4 + more))
    return false;
  at = b->data + b->len;
  if (last != '{' && last != '[' && last != ':')
    *at++ = ',';
  if (key && is_plain(key)) {
    *at++ = '"';
    memcpy(at, key, n);
    at += n;
    *at++ = '"';
    *at++ = ':';
    key = NULL;
  }
  *at = '\0';
  b->len = (size_t)(at - b->data);
  return !key || (!qp__json_write_string(b, key, n) && !qp__buf_add_char(b, ':') &&
                  !qp__buf_reserve(b, more));
}

/* A value that needs no escapes. */
static void
add_plain(struct qp__buf *b, const char *key, const char *text, size_t n, bool quotes)
{
  char *at;

  if (!begin(b, key, n + 2))
    return;
  at = b->data + b->len;
  if (quotes)
    *at++ = '"';
  memcpy(at, text, n);
  at += n;
  if (quotes)
    *at++ = '"';
  *at = '\0';
  b->len = (size_t)(at - b->data);
}

void
qp__emit_open(struct qp__buf *b, const char *key, char bracket)
{
  add_plain(b, key, &bracket, 1, false);
}

void
qp__emit_close(struct qp__buf *b, char bracket)
{
  (void)qp__buf_add_char(b, bracket);
}

void
qp__emit_strn(struct qp__buf *b, const char *key, struct qp_bytes s)
{
  if (begin(b, key, s.len + 2))
    (void)qp__json_write_string(b, s.data, s.len);
}

void
qp__emit_raw(struct qp__buf *b, const char *key, struct qp_bytes json)
{
  add_plain(b, key, json.data, json.len, false);
}

void
qp__emit_json(struct qp__buf *b, const char *key, const json_t *value)
{
  if (!value)
    qp__emit_str(b, key, NULL);
  else if (begin(b, key, 0))
    (void)qp__json_write(b, value);
}

enum qp_rc
qp__emit_taken(struct qp__buf *b, const char *key, char *text, size_t len, enum qp_rc rc)
{
  if (!rc)
    qp__emit_raw(b, key, (struct qp_bytes){ text, len });
  qp_free(text);
  return rc;
}

void
qp__emit_str(struct qp__buf *b, const char *key, const char *s)
{
  if (s)
    qp__emit_strn(b, key, (struct qp_bytes){ s, strlen(s) });
  else
    add_plain(b, key, "null", 4, false);
}

void
qp__emit_uint(struct qp__buf *b, const char *key, uint64_t n)
{
  char digits[20];
  size_t at = sizeof(digits);

  do {
    digits[--at] = (char)('0' + n % 10);
    n /= 10;
  } while (n);
  add_plain(b, key, digits + at, sizeof(digits) - at, false);
}

void
qp__emit_bool(struct qp__buf *b, const char *key, bool yes)
{
  add_plain(b, key, yes ? "true" : "false", yes ? 4 : 5, false);
}

void
qp__emit_time(struct qp__buf *b, const char *key, int64_t ms)
{
  char text[QP__TIME_LEN];

  qp__time_format(text, ms);
  add_plain(b, key, text, sizeof(text), true);
}

void
qp__emit_uuid(struct qp__buf *b, const char *key, const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  if (qp_uuid_is_none(id))
    qp__emit_str(b, key, NULL);
  else
    add_plain(b, key, qp_uuid_text(id, text), QP_UUID_TEXT - 1, true);
}

void
qp__emit_page_end(struct qp__buf *b, char *next_cursor)
{
  qp__emit_close(b, ']');
  qp__emit_str(b, "next_cursor", next_cursor);
  qp__emit_close(b, '}');
  qp_free(next_cursor);
}

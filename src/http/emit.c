/* emit.c - writing JSON answers field by field into a buffer. */
#include "http/emit.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

static void
begin(struct qp__buf *b, const char *key)
{
  char last = b->len ? b->data[b->len - 1] : '[';

  if (last != '{' && last != '[' && last != ':')
    (void)qp__buf_add_char(b, ',');
  if (!key)
    return;
  (void)qp__json_write_string(b, key, strlen(key));
  (void)qp__buf_add_char(b, ':');
}

void
qp__emit_open(struct qp__buf *b, const char *key, char bracket)
{
  begin(b, key);
  (void)qp__buf_add_char(b, bracket);
}

void
qp__emit_close(struct qp__buf *b, char bracket)
{
  (void)qp__buf_add_char(b, bracket);
}

void
qp__emit_strn(struct qp__buf *b, const char *key, struct qp_bytes s)
{
  begin(b, key);
  (void)qp__json_write_string(b, s.data, s.len);
}

void
qp__emit_raw(struct qp__buf *b, const char *key, struct qp_bytes json)
{
  begin(b, key);
  (void)qp__buf_add(b, json.data, json.len);
}

void
qp__emit_str(struct qp__buf *b, const char *key, const char *s)
{
  if (s)
    qp__emit_strn(b, key, (struct qp_bytes){ s, strlen(s) });
  else
    qp__emit_raw(b, key, (struct qp_bytes){ "null", 4 });
}

void
qp__emit_uint(struct qp__buf *b, const char *key, uint64_t n)
{
  begin(b, key);
  (void)qp__buf_addf(b, "%llu", (unsigned long long)n);
}

void
qp__emit_bool(struct qp__buf *b, const char *key, bool yes)
{
  begin(b, key);
  (void)qp__buf_add_str(b, yes ? "true" : "false");
}

void
qp__emit_time(struct qp__buf *b, const char *key, int64_t ms)
{
  char text[QP__TIME_LEN];

  qp__time_format(text, ms);
  qp__emit_strn(b, key, (struct qp_bytes){ text, sizeof(text) });
}

void
qp__emit_uuid(struct qp__buf *b, const char *key, const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  qp__emit_str(b, key, qp_uuid_is_none(id) ? NULL : qp_uuid_text(id, text));
}

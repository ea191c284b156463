/* event.c - see event.h. */
#include "model/event.h"

#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define LINE "the line of an event"
#define KEY_LINE "the line of a key"

/* ---- events: writing ---- */

static bool
is_type_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

static enum qp_rc
check_type(const char *type, struct qp_err *err)
{
  size_t n = 0;

  while (type && n <= QP_EVENT_TYPE_MAX && is_type_char(type[n]))
    n++;
  if (n == 0 || n > QP_EVENT_TYPE_MAX || type[n])
    return qp__fail(err, QP_INVALID,
                    "the type of an event is 1 to %d letters, digits, '.', '_' and '-'",
                    QP_EVENT_TYPE_MAX);
  return QP_OK;
}

/* Appends the fields of the data, each after a comma. */
static enum qp_rc
add_data(struct qp__buf *out, struct qp_bytes data, struct qp_err *err)
{
  json_t *object = NULL;
  size_t at = out->len;
  enum qp_rc rc = qp__json_parse_object("the data of an event", data, &object, err);

  if (rc)
    return rc;
  if (json_object_get(object, "seq") || json_object_get(object, "time") ||
      json_object_get(object, "type")) {
    rc = qp__fail(err, QP_INVALID,
                  "the data of an event must not have \"seq\", \"time\" or \"type\"");
  } else if (json_object_size(object)) {
    (void)qp__json_write(out, object); /* {…}: the first brace becomes a comma … */
    if (!out->rc) {
      out->data[at] = ',';
      out->data[--out->len] = 0; /* … and the last brace is appended later */
    }
  }
  json_decref(object);
  return rc;
}

/* The same for data that qp__json_write() wrote. */
static void
add_trusted(struct qp__buf *out, struct qp_bytes data)
{
  QP_ASSERT(data.len >= 2 && data.data[0] == '{' && data.data[data.len - 1] == '}');
  if (data.len == 2)
    return;
  (void)qp__buf_add_char(out, ',');
  (void)qp__buf_add(out, data.data + 1, data.len - 2);
}

enum qp_rc
qp__event_encode(const struct qp_event *event, bool trusted, uint64_t seq, int64_t now,
                 struct qp__buf *out, struct qp_err *err)
{
  int64_t ms = event->time ? event->time : now;
  char time[QP__TIME_LEN];
  enum qp_rc rc = check_type(event->type, err);

  if (!rc && !qp__time_ok(ms))
    rc = qp__fail(err, QP_INVALID, "the event's time is not between the years 0000 and 9999");
  if (rc)
    return rc;
  qp__time_format(time, ms);
  (void)qp__buf_addf(out, "{\"seq\":%llu,\"time\":\"%.*s\",\"type\":\"%s\"",
                     (unsigned long long)seq, QP__TIME_LEN, time, event->type);
  if (event->data.len && trusted)
    add_trusted(out, event->data);
  else if (event->data.len)
    rc = add_data(out, event->data, err);
  (void)qp__buf_add_str(out, "}\n");
  return rc ? rc : qp__buf_check(out, "the events", err);
}

/* ---- events: reading ---- */

/* Skips a literal text. */
static bool
skip(struct qp_bytes *at, const char *text)
{
  size_t n = strlen(text);

  if (at->len < n || memcmp(at->data, text, n) != 0)
    return false;
  at->data += n;
  at->len -= n;
  return true;
}

/* Reads `{"seq":N,`; 0 if the text does not begin like that. */
static uint64_t
take_seq(struct qp_bytes *at)
{
  uint64_t seq = 0;

  if (!skip(at, "{\"seq\":") || !at->len || at->data[0] == '0')
    return 0;
  while (at->len && at->data[0] >= '0' && at->data[0] <= '9') {
    seq = seq * 10 + (uint64_t)(at->data[0] - '0');
    if (seq > QP__EVENT_SEQ_MAX)
      return 0;
    at->data++;
    at->len--;
  }
  return skip(at, ",") ? seq : 0;
}

uint64_t
qp__event_seq(struct qp_bytes line)
{
  return take_seq(&line);
}

static bool
take_time(struct qp_bytes *at, int64_t *ms)
{
  if (!skip(at, "\"time\":\"") || at->len < QP__TIME_LEN ||
      qp__time_parse(at->data, QP__TIME_LEN, ms))
    return false;
  at->data += QP__TIME_LEN;
  at->len -= QP__TIME_LEN;
  return skip(at, "\",");
}

static bool
take_type(struct qp_bytes *at, char out[QP_EVENT_TYPE_MAX + 1])
{
  size_t n = 0;

  if (!skip(at, "\"type\":\""))
    return false;
  while (n < at->len && n < QP_EVENT_TYPE_MAX && is_type_char(at->data[n]))
    n++;
  memcpy(out, at->data, n);
  out[n] = 0;
  return n && n < at->len && at->data[n] == '"';
}

/* Whether the line is one JSON object. */
static enum qp_rc
check_object(const char *what, struct qp_bytes line, struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc = qp__json_parse_object(what, line, &object, err);

  json_decref(object);
  return rc;
}

enum qp_rc
qp__event_decode(struct qp_bytes line, struct qp__event_head *out, struct qp_err *err)
{
  struct qp_bytes at = line;

  out->seq = take_seq(&at);
  if (!out->seq || !take_time(&at, &out->time) || !take_type(&at, out->type))
    return qp__fail(err, QP_INVALID, LINE " has an invalid form");
  return check_object(LINE, line, err);
}

/* ---- keys ---- */

enum qp_rc
qp__key_check(const char *key, struct qp_err *err)
{
  size_t n = key ? strlen(key) : 0;

  if (!n)
    return qp__fail(err, QP_INVALID, "an idempotency key must not be empty");
  if (n > QP_KEY_MAX)
    return qp__fail(err, QP_TOOBIG, "an idempotency key must have at most %d bytes", QP_KEY_MAX);
  if (!qp__utf8_ok(key, n) || qp__has_control(key))
    return qp__fail(err, QP_INVALID,
                    "an idempotency key must be valid UTF-8 without control characters");
  return QP_OK;
}

enum qp_rc
qp__key_encode(const char *key, int64_t time, struct qp_bytes result, bool trusted,
               struct qp__buf *out, struct qp_err *err)
{
  char text[QP__TIME_LEN];
  json_t *value = NULL;
  size_t at;
  enum qp_rc rc = QP_OK;

  if (!trusted)
    rc = qp__json_parse("the result of an idempotency key", result, &value, err);
  if (rc)
    return rc;
  qp__time_format(text, time);
  (void)qp__buf_add_str(out, "{\"key\":");
  (void)qp__json_write_string(out, key, strlen(key));
  (void)qp__buf_addf(out, ",\"time\":\"%.*s\",\"result\":", QP__TIME_LEN, text);
  at = out->len;
  if (trusted)
    (void)qp__buf_add(out, result.data, result.len);
  else
    (void)qp__json_write(out, value);
  json_decref(value);
  if (out->len - at > QP_KEY_RESULT_MAX)
    return qp__fail(err, QP_TOOBIG, "the result of an idempotency key has at most %d bytes",
                    QP_KEY_RESULT_MAX);
  (void)qp__buf_add_str(out, "}\n");
  return qp__buf_check(out, "an idempotency key", err);
}

static enum qp_rc
take_key_fields(const json_t *object, struct qp__key_line *out, struct qp__buf *result,
                struct qp_err *err)
{
  const json_t *value = json_object_get(object, "result");
  const char *key = NULL;
  enum qp_rc rc = qp__json_string(KEY_LINE, object, "key", &key, err);

  if (!rc)
    rc = qp__json_time(KEY_LINE, object, "time", &out->time, err);
  if (!rc && (!value || !key || qp__key_check(key, NULL)))
    rc = qp__fail(err, QP_INVALID, KEY_LINE " has an invalid form");
  if (rc)
    return rc;
  memcpy(out->key, key, strlen(key) + 1);
  if (result && qp__json_write(result, value))
    rc = qp__buf_check(result, "the result of an idempotency key", err);
  return rc;
}

enum qp_rc
qp__key_decode(struct qp_bytes line, struct qp__key_line *out, struct qp__buf *result,
               struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc = qp__json_parse_object(KEY_LINE, line, &object, err);

  if (rc)
    return rc;
  out->time = 0;
  rc = take_key_fields(object, out, result, err);
  json_decref(object);
  return rc;
}

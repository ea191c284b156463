/* request.c - decodes a request: path, query, body. No byte of it is trusted. */
#include "http/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/clock.h"
#include "http/http_int.h"
#include "http/upload.h"
#include "model/message.h"

/* ---- life ---- */

struct qp__request *
qp__request_new(struct qp__http *http, struct MHD_Connection *connection, const char *uri)
{
  struct qp__request *r = qp__alloc0(1, sizeof(*r));
  size_t path_len = strcspn(uri, "?");

  if (!r)
    return NULL;
  r->http = http;
  r->settings = qp__http_settings(http);
  r->connection = connection;
  r->started_us = qp__clock_us();
  qp__buf_init(&r->reply.body, QP__REPLY_MAX);
  r->line = uri;
  r->line_end = uri + strlen(uri);
  r->path = qp__arena_strndup(&r->arena, uri, path_len);
  if (uri[path_len])
    r->query_text = qp__arena_strdup(&r->arena, uri + path_len + 1);
  if (!r->path || (uri[path_len] && !r->query_text)) {
    qp__request_free(r);
    return NULL;
  }
  return r;
}

void
qp__request_free(struct qp__request *r)
{
  size_t bytes;

  if (!r)
    return;
  bytes = r->body.cap;
  qp__shared_unref(r->reply.shared);
  qp__buf_release(&r->reply.body);
  qp__buf_release(&r->body);
  qp__upload_free(r->upload);
  qp__arena_release(&r->arena);
  qp__free(r);
  qp__alloc_trim(bytes);
}

enum qp_rc
qp__request_fail(struct qp__request *r, unsigned status, const char *code, struct qp_err *err,
                 const char *fmt, ...)
{
  char text[sizeof(err->msg)]; /* a part of it may be err->msg */
  va_list args;

  r->fail_status = status;
  r->fail_code = code;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  return qp__fail(err, QP_INVALID, "%s", text);
}

const char *
qp__request_header(const struct qp__request *r, const char *name)
{
  return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* ---- path and query ---- */

/* Decodes %XX, and '+' as a space in a query. The result must be UTF-8 without control
 * characters. */
static enum qp_rc
decode(struct qp__request *r, const char *s, size_t n, bool plus, char **out, struct qp_err *err)
{
  char *text = qp__arena_alloc(&r->arena, n + 1);
  size_t len = 0;

  if (!text)
    return qp__fail_nomem(err, "decoding a path");
  for (size_t i = 0; i < n; i++) {
    uint8_t byte = (uint8_t)s[i];

    if (byte <= ' ')
      return qp__fail(err, QP_INVALID, "the URL contains a space or a control character");
    if (byte == '%') {
      if (n - i < 3 || !qp__hex_decode(&byte, s + i + 1, 1))
        return qp__fail(err, QP_INVALID, "a '%%' in the address is not followed by two digits");
      i += 2;
    } else if (plus && byte == '+') {
      byte = ' ';
    }
    text[len++] = (char)byte;
  }
  text[len] = '\0';
  if (memchr(text, 0, len) || !qp__utf8_ok(text, len) || qp__has_control(text))
    return qp__fail(err, QP_INVALID, "the URL is not UTF-8, or has control characters in it");
  *out = text;
  return QP_OK;
}

/* "http://host/path" means "/path" with the Host "host". */
static enum qp_rc
skip_origin(const struct qp__request *r, const char **path, struct qp_err *err)
{
  const char *scheme = r->settings->tls ? "https://" : "http://";
  const char *host = qp__request_header(r, "Host");
  const char *name;
  size_t n;

  if (strncasecmp(*path, scheme, strlen(scheme)) != 0)
    return qp__fail(err, QP_INVALID, "the path does not begin with '/'");
  name = *path + strlen(scheme);
  n = strcspn(name, "/");
  if (!host || strlen(host) != n || strncasecmp(host, name, n) != 0)
    return qp__fail(err, QP_INVALID, "the URL and the Host header name different servers");
  *path = name[n] ? name + n : "/";
  return QP_OK;
}

static enum qp_rc
decode_path(struct qp__request *r, struct qp_err *err)
{
  const char *s = r->path;

  if (strcmp(s, "*") == 0 && strcmp(r->method, "OPTIONS") == 0)
    return QP_OK; /* "*": about the server itself */
  if (*s != '/') {
    enum qp_rc rc = skip_origin(r, &s, err);

    if (rc)
      return rc;
  }
  if (!s[1])
    return QP_OK; /* "/" alone has no segments */
  while (*s) {
    size_t n = strcspn(++s, "/");
    enum qp_rc rc;

    if (r->segment_count == QP__SEGMENTS_MAX)
      return qp__fail(err, QP_NOTFOUND, "No such path");
    rc = decode(r, s, n, false, &r->segments[r->segment_count++], err);
    if (rc)
      return rc;
    s += n;
  }
  return QP_OK;
}

static enum qp_rc
decode_pair(struct qp__request *r, const char *s, size_t n, struct qp_err *err)
{
  const char *equals = memchr(s, '=', n);
  size_t name_len = equals ? (size_t)(equals - s) : n;
  char *name = NULL;
  char *value = NULL;
  enum qp_rc rc;

  if (r->query_count == QP__QUERY_MAX)
    return qp__fail(err, QP_INVALID, "the query has more than %d parameters", QP__QUERY_MAX);
  rc = decode(r, s, name_len, true, &name, err);
  if (!rc && equals)
    rc = decode(r, equals + 1, n - name_len - 1, true, &value, err);
  if (rc)
    return rc;
  if (qp__request_query(r, name) && !strstr(name, "[]")) /* "name[]" is a list */
    return qp__fail(err, QP_INVALID, "duplicate query parameter '%.60s'", name);
  r->query[r->query_count].name = name;
  r->query[r->query_count++].value = value ? value : "";
  return QP_OK;
}

enum qp_rc
qp__request_decode(struct qp__request *r, struct qp_err *err)
{
  const char *s = r->query_text;
  enum qp_rc rc = decode_path(r, err);

  while (!rc && s && *s) {
    size_t n = strcspn(s, "&");

    if (n)
      rc = decode_pair(r, s, n, err);
    s += n + (s[n] == '&');
  }
  return rc;
}

const char *
qp__request_query(const struct qp__request *r, const char *name)
{
  for (size_t i = 0; i < r->query_count; i++)
    if (strcmp(r->query[i].name, name) == 0)
      return r->query[i].value;
  return NULL;
}

enum qp_rc
qp__request_number(const struct qp__request *r, const char *name, uint64_t min, uint64_t max,
                   uint64_t *out, struct qp_err *err)
{
  const char *text = qp__request_query(r, name);
  uint64_t n = 0;
  bool good;

  if (!text)
    return QP_OK;
  good = *text != '\0';
  for (const char *s = text; *s && good; s++) {
    unsigned digit = (unsigned)*s - '0';

    good = digit <= 9 && n <= (UINT64_MAX - digit) / 10;
    n = n * 10 + digit;
  }
  if (!good || n < min || n > max)
    return qp__fail(err, QP_INVALID, "'%s' must be a whole number from %llu to %llu", name,
                    (unsigned long long)min, (unsigned long long)max);
  *out = n;
  return QP_OK;
}

enum qp_rc
qp__request_either(const struct qp__request *r, const char *name, const char *yes, const char *no,
                   bool *out, struct qp_err *err)
{
  const char *text = qp__request_query(r, name);

  if (!text)
    return QP_OK;
  *out = strcmp(text, yes) == 0;
  if (!*out && strcmp(text, no) != 0)
    return qp__fail(err, QP_INVALID, "'%s' must be '%s' or '%s'", name, yes, no);
  return QP_OK;
}

enum qp_rc
qp__request_flag(const struct qp__request *r, const char *name, bool *out, struct qp_err *err)
{
  *out = false;
  return qp__request_either(r, name, "true", "false", out, err);
}

/* ---- body ---- */

static const struct qp__body_field *
find_field(const struct qp__body_field *table, const char *name)
{
  for (; table->name; table++)
    if (strcmp(table->name, name) == 0)
      return table;
  return NULL;
}

static enum qp_rc
fail_unknown(const struct qp__body_field *table, const char *name, struct qp_err *err)
{
  char list[200] = "";
  size_t used = 0;

  for (size_t i = 0; table[i].name && used < sizeof(list); i++)
    used +=
        (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", table[i].name);
  return qp__fail(err, QP_INVALID, "unknown field \"%.60s\"; the fields are: %s", name, list);
}

static const char *
type_problem(enum qp__type type, const json_t *value)
{
  struct qp_uuid id;

  switch (type) {
  case QP__TYPE_STRING:
    if (!json_is_string(value))
      return "must be a string";
    return strlen(json_string_value(value)) == json_string_length(value)
               ? NULL
               : "must not have a NUL character in it";
  case QP__TYPE_UUID:
    if (!json_is_string(value) || qp_uuid_parse(json_string_value(value), &id, NULL))
      return "must be an id of 36 characters";
    return NULL;
  case QP__TYPE_UINT:
    return json_is_integer(value) && json_integer_value(value) >= 0
               ? NULL
               : "must be a whole number, 0 or more";
  case QP__TYPE_BOOL:
    return json_is_boolean(value) ? NULL : "must be true or false";
  case QP__TYPE_OBJECT:
    return json_is_object(value) ? NULL : "must be an object";
  case QP__TYPE_ANY:
    break;
  }
  return NULL;
}

enum qp_rc
qp__body_check(const json_t *object, const struct qp__body_field *table, struct qp_err *err)
{
  const char *key;
  json_t *value;

  json_object_foreach ((json_t *)object, key, value) {
    const struct qp__body_field *field = find_field(table, key);
    const char *problem;

    if (!field)
      return fail_unknown(table, key, err);
    if (field->nullable && json_is_null(value))
      continue;
    problem = type_problem(field->type, value);
    if (problem)
      return qp__fail(err, QP_INVALID, "\"%s\" %s%s", key, problem,
                      field->nullable ? ", or null" : "");
  }
  for (; table->name; table++)
    if (table->required && !json_object_get(object, table->name))
      return qp__fail(err, QP_INVALID, "\"%s\" is missing", table->name);
  return QP_OK;
}

enum qp_rc
qp__request_object(struct qp__request *r, const struct qp__body_field *table, json_t **out,
                   struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &object, err);

  if (!rc)
    rc = qp__body_check(object, table, err);
  if (rc)
    json_decref(object);
  else
    *out = object;
  return rc;
}

enum qp_rc
qp__request_optional_object(struct qp__request *r, const struct qp__body_field *table, json_t **out,
                            struct qp_err *err)
{
  if (!r->body.len && qp__buf_add_str(&r->body, "{}"))
    return qp__fail_nomem(err, "the body");
  return qp__request_object(r, table, out, err);
}

enum qp_rc
qp__request_write(struct qp__request *r, const json_t *value, const char **out, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  if (!value || json_is_null(value))
    return QP_OK;
  qp__buf_init(&text, r->settings->max_body * 6);
  (void)qp__json_write(&text, value);
  rc = qp__buf_check(&text, "a value of the body", err);
  if (!rc && !(*out = qp__arena_strndup(&r->arena, text.data, text.len)))
    rc = qp__fail_nomem(err, "a request");
  qp__buf_release(&text);
  return rc;
}

void
qp__body_uuid(const json_t *object, const char *key, struct qp_uuid *out)
{
  const char *text = qp__json_text(object, key);

  if (text)
    (void)!qp_uuid_parse(text, out, NULL);
}

enum qp_rc
qp__request_content(const json_t *content, struct qp_bytes *text, struct qp_message **message,
                    struct qp_err *err)
{
  json_t *value;
  enum qp_rc rc;

  if (!content)
    return QP_OK;
  if (json_is_string(content)) {
    *text = (struct qp_bytes){ json_string_value(content), json_string_length(content) };
    return QP_OK;
  }
  if (!json_is_array(content) || !json_array_size(content))
    return qp__fail(err, QP_INVALID, "'content' must be a text or a list of content blocks");
  value = json_pack("{s:s, s:O}", "role", "user", "content", content);
  rc = value ? qp__message_from_value("message", value, message, err)
             : qp__fail_nomem(err, "the message");
  json_decref(value);
  return rc;
}

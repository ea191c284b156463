/* json.c - see json.h. */
#include "base/json.h"

#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"

/* ---- reading ---- */

/* The deepest nesting of brackets outside strings; cheap, and it bounds the parser's recursion. */
static size_t
nesting(struct qp_bytes text)
{
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;

  for (size_t i = 0; i < text.len; i++) {
    char c = text.data[i];

    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest)
        deepest = depth;
    } else if ((c == ']' || c == '}') && depth) {
      depth--;
    }
  }
  return deepest;
}

enum qp_rc
qp__json_parse(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err)
{
  json_error_t jerr;
  json_t *value;

  if (nesting(text) > QP__JSON_DEPTH)
    return qp__fail(err, QP_INVALID, "%s: JSON nested deeper than %d levels", what, QP__JSON_DEPTH);
  memset(&jerr, 0, sizeof(jerr));
  value = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                     &jerr);
  if (!value) {
    if (json_error_code(&jerr) == json_error_out_of_memory)
      return qp__fail_nomem(err, what);
    return qp__fail(err, QP_INVALID, "%s: not valid JSON: %s (line %d, column %d)", what, jerr.text,
                    jerr.line, jerr.column);
  }
  *out = value;
  return QP_OK;
}

enum qp_rc
qp__json_parse_object(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err)
{
  json_t *value;
  enum qp_rc rc = qp__json_parse(what, text, &value, err);

  if (rc)
    return rc;
  if (!json_is_object(value)) {
    json_decref(value);
    return qp__fail(err, QP_INVALID, "%s: must be a JSON object", what);
  }
  *out = value;
  return QP_OK;
}

/* The field's value, or NULL when it is missing or null. */
static json_t *
present(const json_t *object, const char *key)
{
  json_t *v = json_object_get(object, key);

  return json_is_null(v) ? NULL : v;
}

static enum qp_rc
wrong_type(const char *what, const char *key, const char *type, struct qp_err *err)
{
  return qp__fail(err, QP_INVALID, "%s: \"%s\" must be %s", what, key, type);
}

enum qp_rc
qp__json_string(const char *what, const json_t *object, const char *key, const char **out,
                struct qp_err *err)
{
  json_t *v = present(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_string(v))
    return wrong_type(what, key, "a string", err);
  if (strlen(json_string_value(v)) != json_string_length(v))
    return wrong_type(what, key, "a string without NUL characters", err);
  *out = json_string_value(v);
  return QP_OK;
}

enum qp_rc
qp__json_int(const char *what, const json_t *object, const char *key, int64_t *out,
             struct qp_err *err)
{
  json_t *v = present(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_integer(v))
    return wrong_type(what, key, "a whole number", err);
  *out = json_integer_value(v);
  return QP_OK;
}

enum qp_rc
qp__json_bool(const char *what, const json_t *object, const char *key, bool *out,
              struct qp_err *err)
{
  json_t *v = present(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_boolean(v))
    return wrong_type(what, key, "true or false", err);
  *out = json_is_true(v);
  return QP_OK;
}

enum qp_rc
qp__json_object(const char *what, const json_t *object, const char *key, json_t **out,
                struct qp_err *err)
{
  json_t *v = present(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_object(v))
    return wrong_type(what, key, "an object", err);
  *out = v;
  return QP_OK;
}

enum qp_rc
qp__json_array(const char *what, const json_t *object, const char *key, json_t **out,
               struct qp_err *err)
{
  json_t *v = present(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_array(v))
    return wrong_type(what, key, "an array", err);
  *out = v;
  return QP_OK;
}

enum qp_rc
qp__json_uuid(const char *what, const json_t *object, const char *key, struct qp_uuid *out,
              struct qp_err *err)
{
  json_t *v = present(object, key);
  struct qp_uuid id;

  if (!v)
    return QP_OK;
  if (!json_is_string(v) || json_string_length(v) != QP__UUID_LEN ||
      !qp__uuid_decode(json_string_value(v), &id))
    return wrong_type(what, key, "a UUID", err);
  *out = id;
  return QP_OK;
}

enum qp_rc
qp__json_time(const char *what, const json_t *object, const char *key, int64_t *out,
              struct qp_err *err)
{
  json_t *v = present(object, key);
  int64_t ms;

  if (!v)
    return QP_OK;
  if (!json_is_string(v) || qp__time_parse(json_string_value(v), json_string_length(v), &ms))
    return wrong_type(what, key, "a time such as \"2026-11-15T19:55:40.123Z\"", err);
  *out = ms;
  return QP_OK;
}

/* ---- writing ---- */

static int
write_piece(const char *piece, size_t n, void *arg)
{
  return qp__buf_add(arg, piece, n) ? -1 : 0;
}

static enum qp_rc
dump(struct qp__buf *out, const json_t *value, size_t flags)
{
  if (json_dump_callback(value, write_piece, out, flags | JSON_ENCODE_ANY) && !out->rc)
    out->rc = QP_NOMEM;
  return out->rc;
}

enum qp_rc
qp__json_write(struct qp__buf *out, const json_t *value)
{
  return dump(out, value, JSON_COMPACT);
}

enum qp_rc
qp__json_write_pretty(struct qp__buf *out, const json_t *value)
{
  return dump(out, value, JSON_INDENT(2));
}

int
qp__json_set_str(json_t *object, const char *key, const char *value)
{
  return json_object_set_new(object, key, value ? json_string(value) : json_null());
}

int
qp__json_set_strn(json_t *object, const char *key, const char *s, size_t n)
{
  return json_object_set_new(object, key, json_stringn(s, n));
}

int
qp__json_set_uuid(json_t *object, const char *key, const struct qp_uuid *id)
{
  char text[QP__UUID_LEN];

  if (qp_uuid_is_none(id))
    return json_object_set_new(object, key, json_null());
  qp__uuid_encode(text, id);
  return json_object_set_new(object, key, json_stringn_nocheck(text, sizeof(text)));
}

int
qp__json_set_time(json_t *object, const char *key, int64_t ms)
{
  char text[QP__TIME_LEN];

  qp__time_format(text, ms);
  return json_object_set_new(object, key, json_stringn_nocheck(text, sizeof(text)));
}

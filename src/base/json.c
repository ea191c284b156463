/* json.c - reading and setting fields of objects; see json.h. json_read.c parses text and
 * json_write.c writes it. */
#include "base/json.h"

#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"

/* ---- copying ---- */

json_t *
qp__json_copy(const json_t *value)
{
  json_t *copy = json_is_array(value) ? json_array() : json_object();
  void *iter = json_object_iter((json_t *)value); /* jansson's iterators take no const */
  int bad = !copy;

  for (size_t i = 0; i < json_array_size(value) && !bad; i++)
    bad = json_array_append(copy, json_array_get(value, i));
  for (; iter && !bad; iter = json_object_iter_next((json_t *)value, iter))
    bad = json_object_set_nocheck(copy, json_object_iter_key(iter), json_object_iter_value(iter));
  if (bad) {
    json_decref(copy);
    return NULL;
  }
  return copy;
}

/* ---- reading fields ---- */

/* The value of the field, or NULL if it is missing or null. */
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

/* ---- building objects ---- */

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

/* json.c - reading and setting fields of objects; see json.h. json_read.c parses text and
 * json_write.c writes it. */
#include "base/json.h"

#include <stdarg.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"

/* ---- copying ---- */

/* A new array or object; `element` makes each of its elements. */
static json_t *
copy_elements(const json_t *value, json_t *(*element)(json_t *))
{
  json_t *copy = json_is_array(value) ? json_array() : json_object();
  void *iter = json_object_iter((json_t *)value); /* jansson's iterators take no const */
  int bad = !copy;

  for (size_t i = 0; i < json_array_size(value) && !bad; i++)
    bad = json_array_append_new(copy, element(json_array_get(value, i)));
  for (; iter && !bad; iter = json_object_iter_next((json_t *)value, iter))
    bad = json_object_set_new_nocheck(copy, json_object_iter_key(iter),
                                      element(json_object_iter_value(iter)));
  return qp__json_built(copy, bad);
}

static json_t *
copy_deeply(json_t *value)
{
  return qp__json_deep_copy(value);
}

json_t *
qp__json_copy(const json_t *value)
{
  return copy_elements(value, json_incref);
}

json_t *
qp__json_deep_copy(const json_t *value)
{
  return json_is_array(value) || json_is_object(value) ? copy_elements(value, copy_deeply)
                                                       : json_deep_copy(value);
}

/* ---- reading fields ---- */

enum qp_rc
qp__field_fail(const struct qp__place *at, const char *key, const char *problem, struct qp_err *err)
{
  return qp__fail(err, QP_INVALID, "%s: \"%s%s\" %s", at->what, at->path, key, problem);
}

bool
qp__json_has_text(const json_t *list, const char *text)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *own = json_string_value(json_array_get(list, i));

    if (own && strcmp(own, text) == 0)
      return true;
  }
  return false;
}

json_t *
qp__field_get(const json_t *object, const char *key)
{
  json_t *v = json_object_get(object, key);

  return json_is_null(v) ? NULL : v;
}

enum qp_rc
qp__field_string(const struct qp__place *at, const json_t *object, const char *key,
                 const char **out, struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_string(v))
    return qp__field_fail(at, key, "must be a string", err);
  if (strlen(json_string_value(v)) != json_string_length(v))
    return qp__field_fail(at, key, "must be a string without NUL characters", err);
  *out = json_string_value(v);
  return QP_OK;
}

enum qp_rc
qp__field_text(const struct qp__place *at, const json_t *object, const char *key,
               struct qp_bytes *out, struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);

  if (json_is_string(v))
    *out = (struct qp_bytes){ json_string_value(v), json_string_length(v) };
  return !v || json_is_string(v) ? QP_OK : qp__field_fail(at, key, "must be a string", err);
}

enum qp_rc
qp__field_int(const struct qp__place *at, const json_t *object, const char *key, int64_t *out,
              struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);

  if (json_is_integer(v))
    *out = json_integer_value(v);
  return !v || json_is_integer(v) ? QP_OK : qp__field_fail(at, key, "must be a whole number", err);
}

enum qp_rc
qp__field_bool(const struct qp__place *at, const json_t *object, const char *key, bool *out,
               struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);

  if (json_is_boolean(v))
    *out = json_is_true(v);
  return !v || json_is_boolean(v) ? QP_OK : qp__field_fail(at, key, "must be true or false", err);
}

enum qp_rc
qp__field_object(const struct qp__place *at, const json_t *object, const char *key, json_t **out,
                 struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);

  if (json_is_object(v))
    *out = v;
  return !v || json_is_object(v) ? QP_OK : qp__field_fail(at, key, "must be an object", err);
}

enum qp_rc
qp__field_array(const struct qp__place *at, const json_t *object, const char *key, json_t **out,
                struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);

  if (json_is_array(v))
    *out = v;
  return !v || json_is_array(v) ? QP_OK : qp__field_fail(at, key, "must be an array", err);
}

enum qp_rc
qp__field_uuid(const struct qp__place *at, const json_t *object, const char *key,
               struct qp_uuid *out, struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);
  struct qp_uuid id;
  bool good = json_is_string(v) && json_string_length(v) == QP__UUID_LEN &&
              qp__uuid_decode(json_string_value(v), &id);

  if (good)
    *out = id;
  return !v || good ? QP_OK : qp__field_fail(at, key, "must be a UUID", err);
}

enum qp_rc
qp__field_time(const struct qp__place *at, const json_t *object, const char *key, int64_t *out,
               struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);
  bool good =
      json_is_string(v) && !qp__time_parse(json_string_value(v), json_string_length(v), out);

  return !v || good
             ? QP_OK
             : qp__field_fail(at, key, "must be a time such as \"2026-11-15T19:55:40.123Z\"", err);
}

/* ---- building objects ---- */

json_t *
qp__json_take(struct qp__buf *b)
{
  struct qp_bytes text = qp__buf_bytes(b);
  json_t *value = b->rc ? NULL : json_stringn(text.data, text.len);

  qp__buf_release(b);
  return value;
}

json_t *
qp__json_built(json_t *value, bool bad)
{
  if (!bad)
    return value;
  json_decref(value);
  return NULL;
}

json_t *
qp__json_pack_set(const char *format, ...)
{
  va_list args;
  json_t *object;
  const char *key;
  json_t *value;
  void *next;

  va_start(args, format);
  object = json_vpack_ex(NULL, 0, format, args);
  va_end(args);
  json_object_foreach_safe (object, next, key, value)
    if (json_is_null(value))
      (void)json_object_del(object, key);
  return object;
}

json_t *
qp__json_push(json_t *array, json_t *item)
{
  return qp__json_built(array, json_array_append_new(array, item) != 0);
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

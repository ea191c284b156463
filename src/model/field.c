/* field.c - see field.h. */
#include "model/field.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/uuid.h"

/* ---- names ---- */

static char
lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool
same_name(const char *name, const char *s, size_t n)
{
  if (strlen(name) != n)
    return false;
  for (size_t i = 0; i < n; i++)
    if (lower(name[i]) != lower(s[i]))
      return false;
  return true;
}

bool
qp__name_set_find(const struct qp__name_set *names, const char *s, size_t n, unsigned *out)
{
  for (size_t i = 0; i < names->count; i++) {
    if (same_name(names->list[i], s, n)) {
      *out = (unsigned)i;
      return true;
    }
  }
  return false;
}

const char *
qp__name_set_get(const struct qp__name_set *names, unsigned value)
{
  return value < names->count ? names->list[value] : "unknown";
}

const char *
qp__name_set_list(const struct qp__name_set *names, char *out, size_t size)
{
  size_t used = 0;

  out[0] = 0;
  for (size_t i = 0; i < names->count && used < size; i++) {
    int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "", names->list[i]);

    used += n > 0 ? (size_t)n : 0;
  }
  return out;
}

/* ---- fields ---- */

enum qp_rc
qp__field_need(const struct qp__place *at, const json_t *object, const char *key, const char **out,
               struct qp_err *err)
{
  const char *s = NULL;
  enum qp_rc rc = qp__field_string(at, object, key, &s, err);

  if (rc)
    return rc;
  if (!s)
    return qp__field_fail(at, key, "is missing", err);
  if (!s[0])
    return qp__field_fail(at, key, "must not be empty", err);
  *out = s;
  return QP_OK;
}

enum qp_rc
qp__field_name(const struct qp__place *at, const json_t *object, const char *key,
               const struct qp__name_set *names, unsigned *out, struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);
  char all[240];

  if (!v)
    return QP_OK;
  if (!json_is_string(v) ||
      !qp__name_set_find(names, json_string_value(v), json_string_length(v), out))
    return qp__fail(err, QP_INVALID, "%s: \"%s%s\" must be one of %s", at->what, at->path, key,
                    qp__name_set_list(names, all, sizeof(all)));
  return QP_OK;
}

enum qp_rc
qp__field_each(const char *what, const char *name, const json_t *list, qp__element_fn *fn,
               void *arg, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < json_array_size(list); i++) {
    json_t *element = json_array_get(list, i);
    bool is_object = json_is_object(element);
    char path[40];
    struct qp__place at = { what, path };

    (void)snprintf(path, sizeof(path), "%s[%zu]%s", name, i, is_object ? "." : "");
    rc = is_object ? fn(arg, &at, element, err) : qp__field_fail(&at, "", "must be an object", err);
  }
  return rc;
}

/* ---- unknown fields ---- */

static bool
is_listed(const char *const *known, const char *key)
{
  for (; *known; known++)
    if (strcmp(*known, key) == 0)
      return true;
  return false;
}

enum qp_rc
qp__field_rest(const char *what, const json_t *object, const char *const *known, json_t **out,
               struct qp_err *err)
{
  json_t *rest = NULL;
  void *iter = json_object_iter((json_t *)object); /* jansson's iterators take no const */

  for (; iter; iter = json_object_iter_next((json_t *)object, iter)) {
    const char *key = json_object_iter_key(iter);

    if (is_listed(known, key))
      continue;
    if (!rest)
      rest = json_object();
    if (!rest || json_object_set_nocheck(rest, key, json_object_iter_value(iter))) {
      json_decref(rest);
      return qp__fail_nomem(err, what);
    }
  }
  *out = rest;
  return QP_OK;
}

int
qp__field_add_rest(json_t *object, json_t *rest)
{
  const char *key;
  json_t *value;

  json_object_foreach (rest, key, value) {
    if (json_object_set_nocheck(object, key, value))
      return -1;
  }
  return 0;
}

/* ---- whole values ---- */

/* The number of levels of arrays and objects; a plain value has none. Values are built by the
 * parser or by us, so QP__JSON_DEPTH limits the recursion. */
static size_t
depth_of(const json_t *value)
{
  size_t deepest = 0;

  if (json_is_array(value)) {
    for (size_t i = 0; i < json_array_size(value); i++) {
      size_t d = depth_of(json_array_get(value, i));

      deepest = d > deepest ? d : deepest;
    }
    return deepest + 1;
  }
  if (json_is_object(value)) {
    void *iter = json_object_iter((json_t *)value);

    for (; iter; iter = json_object_iter_next((json_t *)value, iter)) {
      size_t d = depth_of(json_object_iter_value(iter));

      deepest = d > deepest ? d : deepest;
    }
    return deepest + 1;
  }
  return 0;
}

enum qp_rc
qp__value_check_depth(const char *what, const json_t *value, size_t above, struct qp_err *err)
{
  size_t most = QP__JSON_DEPTH - above;

  if (depth_of(value) > most)
    return qp__fail(err, QP_INVALID, "%s: JSON nested deeper than %zu levels", what, most);
  return QP_OK;
}

bool
qp__value_copy(const json_t *value, json_t **out)
{
  *out = value ? qp__json_deep_copy(value) : NULL;
  return *out || !value;
}

enum qp_rc
qp__value_write_new(const char *what, json_t *value, enum qp__value_form form, struct qp__buf *out,
                    struct qp_err *err)
{
  size_t start = out->len;
  enum qp_rc rc;

  if (!value)
    return qp__fail_nomem(err, what);
  if (form == QP__PRETTY) {
    (void)qp__json_write_pretty(out, value);
    (void)qp__buf_add_char(out, '\n');
  } else {
    (void)qp__json_write(out, value);
  }
  json_decref(value);
  rc = qp__buf_check(out, what, err);
  if (rc && out->data) {
    out->len = start;
    out->data[start] = 0;
  }
  return rc;
}

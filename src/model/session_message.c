/* session_message.c - the line of a session's message. See session.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "base/str.h"
#include "model/field.h"
#include "model/message_int.h"
#include "model/session.h"

#define WHAT "the message"

static const char *const known_fields[] = {
  "timestamp", "role", "content", "tool_calls", "tool_call_id", QP__SEAL_KEY, NULL,
};

static const struct qp__place top = { WHAT, "" };

/* ---- checking ---- */

/* Conditions for every message, also those of other programs. */
static enum qp_rc
check_shape(const json_t *root, enum qp_role *role, struct qp_err *err)
{
  struct qp_bytes content;
  json_t *calls = NULL;
  const char *call_id = NULL;
  unsigned which = 0;
  enum qp_rc rc;

  if (!qp__field_get(root, "role"))
    return qp__field_fail(&top, "role", "is missing", err);
  rc = qp__field_name(&top, root, "role", &qp__role_names, &which, err);
  if (!rc)
    rc = qp__field_text(&top, root, "content", &content, err);
  if (!rc)
    rc = qp__field_array(&top, root, "tool_calls", &calls, err);
  if (!rc)
    rc = qp__field_string(&top, root, "tool_call_id", &call_id, err);
  if (!rc)
    *role = (enum qp_role)which;
  return rc;
}

/* Additional conditions for a message that is appended. */
static enum qp_rc
check_new(const json_t *root, struct qp_err *err)
{
  json_t *calls = qp__field_get(root, "tool_calls");
  json_t *time = qp__field_get(root, "timestamp");
  int64_t ms;

  if (!qp__field_get(root, "content") && !json_array_size(calls))
    return qp__field_fail(&top, "content", "is missing", err);
  for (size_t i = 0; i < json_array_size(calls); i++)
    if (!json_is_object(json_array_get(calls, i)))
      return qp__field_fail(&top, "tool_calls", "must be an array of objects", err);
  if (time && (!json_is_string(time) ||
               qp__session_time(json_string_value(time), json_string_length(time), &ms)))
    return qp__field_fail(&top, "timestamp", "must be a time such as \"2026-11-15T19:55:40.123Z\"",
                          err);
  return QP_OK;
}

/* Sets title and time. */
static enum qp_rc
gather(const json_t *root, struct qp__session_message *info, struct qp_err *err)
{
  const json_t *time = json_object_get(root, "timestamp");
  const json_t *content = json_object_get(root, "content");

  info->title = NULL;
  info->time = 0;
  if (!json_is_string(time) ||
      qp__session_time(json_string_value(time), json_string_length(time), &info->time))
    info->time = 0;
  if (info->role == QP_ROLE_USER && json_is_string(content)) {
    const char *s = json_string_value(content);

    info->title = qp__strndup(s, qp__utf8_prefix(s, strlen(s), QP__SESSION_TITLE));
    if (!info->title)
      return qp__fail_nomem(err, "the title of a session");
  }
  return QP_OK;
}

enum qp_rc
qp__session_message_look(struct qp_bytes line, bool all, struct qp__session_message *info,
                         struct qp_err *err)
{
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object(WHAT, line, &root, err);

  if (!rc)
    rc = check_shape(root, &info->role, err);
  if (!rc && all)
    rc = gather(root, info, err);
  json_decref(root);
  return rc;
}

/* ---- encoding ---- */

/* Copies a field of `from`, or sets it to null. */
static int
carry(json_t *object, const json_t *from, const char *key)
{
  json_t *v = json_object_get(from, key);

  return v ? json_object_set(object, key, v) : json_object_set_new(object, key, json_null());
}

/* The stored form of a checked message; NULL: out of memory. */
static json_t *
build(const json_t *root, enum qp_role role, int64_t now, json_t *rest)
{
  json_t *o = json_object();
  int failed = qp__field_get(root, "timestamp") ? carry(o, root, "timestamp")
                                                : qp__json_set_time(o, "timestamp", now);

  return qp__json_built(o, failed || qp__json_set_str(o, "role", qp_role_name(role)) ||
                               carry(o, root, "content") || carry(o, root, "tool_calls") ||
                               carry(o, root, "tool_call_id") || qp__field_add_rest(o, rest));
}

static enum qp_rc
encode(const json_t *root, enum qp_role role, int64_t now, struct qp__buf *out, struct qp_err *err)
{
  json_t *rest = NULL;
  enum qp_rc rc = qp__field_rest(WHAT, root, known_fields, &rest, err);

  if (rc)
    return rc;
  rc = qp__session_write_line(WHAT, build(root, role, now, rest), 0, out, NULL, err);
  json_decref(rest);
  return rc;
}

enum qp_rc
qp__session_message_encode(struct qp_bytes json, int64_t now, struct qp__buf *out,
                           struct qp__session_message *info, struct qp_err *err)
{
  struct qp__session_message found = { 0 };
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object(WHAT, json, &root, err);

  if (!rc)
    rc = check_shape(root, &found.role, err);
  if (!rc)
    rc = check_new(root, err);
  if (!rc)
    rc = encode(root, found.role, now, out, err);
  if (!rc)
    rc = gather(root, &found, err);
  json_decref(root);
  if (!rc)
    *info = found;
  return rc;
}

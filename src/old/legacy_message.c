/* legacy_message.c - converts an old message to a stored one, and back.
 *
 * Old, below the key of the pool (docs/formats.md, "Old formats"):
 *   {"id", "message": {"role", "content", "tool_calls"?, "tool_result"?, "metadata"|null,
 *                      "message_type" (late), "rich_type"?, …}, "parent_id"|null, …}
 *
 * Both directions work on JSON values and share the parts that they do not change. forth() makes
 * exactly the form that the model writes. To find out what back() would not restore, it is called:
 * the list of changes between its result and the original is kept in the message,
 *   "legacy": {"form": "early"|"late", "id": "…" of a copy, "key": "…" as it was spelled,
 *              "differs": [changes, see jsondiff.h]}
 * so that back() always restores the original. A part of the content that the model would refuse is
 * kept as {"type": "legacy", "value": …}.
 *
 * A message that was made by quipu has no "legacy". It is written in the late form. Parts that the
 * old programs do not know would stop their loader, so the whole content is then also stored in
 * metadata.extra.quipu_content, and is read from there. */
#include "old/legacy_int.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "model/message_int.h"
#include "old/jsondiff.h"

#define WHOLE_CONTENT "quipu_content"
#define LEGACY_ABOVE 1 /* levels above "legacy" in a message */

static const char *const old_fields[] = {
  "role", "content", "tool_calls", "tool_result", "metadata", "message_type", "rich_type", NULL,
};
/* Names with another meaning in a stored message. */
static const char *const taken_fields[] = {
  "id", "parent_id", "type", "created_at", "text", QP__LEGACY_FIELD, NULL,
};
static const char *const new_fields[] = {
  "id",         "parent_id",   "role",     "type",      "created_at",     "content",
  "tool_calls", "tool_result", "metadata", "rich_type", QP__LEGACY_FIELD, NULL,
};
static const char *const call_fields[] = {
  "id", "tool_name", "arguments", "approval_status", "display_preference", "ui_hints", NULL,
};
static const char *const result_fields[] = {
  "request_id", "result", "is_error", "display_preference", NULL,
};

/* A string that the model accepts: not empty, no NUL. */
static bool
is_word(const json_t *v)
{
  return json_is_string(v) && json_string_length(v) > 0 &&
         strlen(json_string_value(v)) == json_string_length(v);
}

static bool
is_clean_or_absent(const json_t *v)
{
  return !v || json_is_null(v) ||
         (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v));
}

static bool
find_name(const struct qp__name_set *names, const json_t *v, unsigned *out)
{
  return json_is_string(v) &&
         qp__name_set_find(names, json_string_value(v), json_string_length(v), out);
}

/* ---- content ---- */

static bool
is_type(const json_t *part, const char *type)
{
  const char *s = json_string_value(json_object_get(part, "type"));

  return s && strcmp(s, type) == 0;
}

/* Parts that old programs know. */
static bool
is_old_part(const json_t *part)
{
  return is_type(part, "text") || is_type(part, "image");
}

/* Whether the model accepts the part. */
static bool
is_sound_part(const json_t *part)
{
  if (!is_word(json_object_get(part, "type")) || is_type(part, QP__LEGACY_FIELD))
    return false;
  if (is_type(part, "text"))
    return json_is_string(json_object_get(part, "text"));
  if (is_type(part, "image"))
    return is_word(json_object_get(part, "url")) &&
           is_clean_or_absent(json_object_get(part, "detail"));
  if (is_type(part, "thinking"))
    return json_is_string(json_object_get(part, "text")) &&
           is_clean_or_absent(json_object_get(part, "signature"));
  return true;
}

/* The optional string of a part that the model omits if it is null. */
static const char *
null_field(const json_t *part)
{
  const char *key = is_type(part, "image") ? "detail" : "signature";

  return !is_type(part, "text") && json_is_null(json_object_get(part, key)) ? key : NULL;
}

static int
add_part(json_t *list, json_t *part)
{
  if (is_sound_part(part)) {
    const char *null_key = is_old_part(part) || is_type(part, "thinking") ? null_field(part) : NULL;

    if (!null_key)
      return json_array_append(list, part);
    part = qp__json_copy(part);
    if (part)
      (void)json_object_del(part, null_key);
    return json_array_append_new(list, part);
  }
  return json_array_append_new(list,
                               json_pack("{s:s,s:O}", "type", QP__LEGACY_FIELD, "value", part));
}

static json_t *
whole_content(const json_t *metadata)
{
  json_t *whole = json_object_get(json_object_get(metadata, "extra"), WHOLE_CONTENT);

  return json_is_array(whole) ? whole : NULL;
}

/* The parts of a content that old programs know; a new array. */
static json_t *
old_parts(const json_t *content)
{
  json_t *list = json_array();

  for (size_t i = 0; i < json_array_size(content); i++) {
    json_t *part = json_array_get(content, i);

    if (is_old_part(part))
      list = qp__json_push(list, json_incref(part));
  }
  return list;
}

/* Whether `content` has the parts of `whole` that old programs know. */
static bool
is_whole_content(const json_t *whole, const json_t *content)
{
  size_t at = 0;

  for (size_t i = 0; i < json_array_size(whole); i++) {
    const json_t *part = json_array_get(whole, i);

    if (is_old_part(part) && !json_equal(part, json_array_get(content, at++)))
      return false;
  }
  return whole && json_is_array(content) && at == json_array_size(content);
}

static json_t *
content_forth(const json_t *message)
{
  json_t *content = json_object_get(message, "content");
  json_t *whole = whole_content(json_object_get(message, "metadata"));
  json_t *list = json_array();
  int bad = !list;

  if (is_whole_content(whole, content))
    content = whole;
  if (json_is_string(content))
    bad = json_array_append_new(list, json_pack("{s:s,s:O}", "type", "text", "text", content));
  for (size_t i = 0; i < json_array_size(content) && !bad; i++)
    bad = add_part(list, json_array_get(content, i));
  return qp__json_built(list, bad);
}

static json_t *
content_back(const json_t *content, const json_t *metadata)
{
  json_t *whole = whole_content(metadata);
  json_t *list;

  if (whole && json_equal(whole, content))
    return old_parts(content);
  list = json_array();
  for (size_t i = 0; i < json_array_size(content); i++) {
    json_t *part = json_array_get(content, i);
    json_t *value = is_type(part, QP__LEGACY_FIELD) ? json_object_get(part, "value") : part;

    list = qp__json_push(list, json_incref(value ? value : part));
  }
  return list;
}

/* ---- tools ---- */

/* The id of a call or the name of a tool; an empty one gets a placeholder. */
static int
set_word(json_t *to, const char *key, json_t *value)
{
  return is_word(value) ? json_object_set(to, key, value)
                        : qp__json_set_str(to, key, QP__LEGACY_FIELD);
}

static const char *
approval_of(const json_t *v)
{
  unsigned i = QP_APPROVAL_PENDING;

  if (!find_name(&qp__approval_names, v, &i) && json_is_string(v) &&
      strcmp(json_string_value(v), "auto_approved") == 0)
    i = QP_APPROVAL_APPROVED;
  return qp_approval_name((enum qp_approval)i);
}

static const char *
display_of(const json_t *v)
{
  unsigned i = QP_DISPLAY_DEFAULT;

  (void)find_name(&qp__display_names, v, &i);
  return qp_display_name((enum qp_display)i);
}

static json_t *
call_forth(json_t *call)
{
  json_t *arguments = json_object_get(call, "arguments");
  json_t *hints = json_object_get(call, "ui_hints");
  json_t *o = json_object();

  return qp__json_built(
      o, set_word(o, "id", json_object_get(call, "id")) ||
             set_word(o, "tool_name", json_object_get(call, "tool_name")) ||
             json_object_set(o, "arguments", arguments ? arguments : json_null()) ||
             qp__json_set_str(o, "approval_status",
                              approval_of(json_object_get(call, "approval_status"))) ||
             qp__json_set_str(o, "display_preference",
                              display_of(json_object_get(call, "display_preference"))) ||
             (json_is_object(hints) && json_object_set(o, "ui_hints", hints)) ||
             qp__legacy_add_others(o, call, call_fields, NULL));
}

static enum qp_rc
calls_forth(const struct qp__place *at, const json_t *message, json_t *m, struct qp_err *err)
{
  json_t *calls = NULL;
  json_t *list;
  enum qp_rc rc = qp__field_array(at, message, "tool_calls", &calls, err);

  if (rc || !json_array_size(calls))
    return rc;
  list = json_array();
  for (size_t i = 0; i < json_array_size(calls) && !rc; i++) {
    json_t *call = json_array_get(calls, i);

    if (!json_is_object(call) || !json_is_string(json_object_get(call, "id")) ||
        !json_is_string(json_object_get(call, "tool_name")))
      rc = qp__field_fail(at, "tool_calls", "must contain objects with an id and a tool_name", err);
    else if (json_array_append_new(list, call_forth(call)))
      rc = qp__fail_nomem(err, at->what);
  }
  if (!rc && json_object_set(m, "tool_calls", list))
    rc = qp__fail_nomem(err, at->what);
  json_decref(list);
  return rc;
}

/* The result of an old tool contains whether it failed. */
static bool
says_error(const json_t *result)
{
  return json_is_true(json_object_get(result, "is_error"));
}

static enum qp_rc
result_forth(const struct qp__place *at, const json_t *message, json_t *m, struct qp_err *err)
{
  json_t *old = NULL;
  json_t *result;
  json_t *display;
  json_t *o;
  enum qp_rc rc = qp__field_object(at, message, "tool_result", &old, err);

  if (rc || !old)
    return rc;
  if (!json_is_string(json_object_get(old, "request_id")))
    return qp__field_fail(at, "tool_result.request_id", "must be a string", err);
  result = json_object_get(old, "result");
  display = json_object_get(old, "display_preference");
  o = json_object();
  if (set_word(o, "request_id", json_object_get(old, "request_id")) ||
      json_object_set(o, "result", result ? result : json_null()) ||
      json_object_set_new(
          o, "is_error",
          json_boolean(says_error(result) || json_is_true(json_object_get(old, "is_error")))) ||
      qp__json_set_str(o, "display_preference", display_of(display)) ||
      qp__legacy_add_others(o, old, result_fields, NULL) || json_object_set(m, "tool_result", o))
    rc = qp__fail_nomem(err, at->what);
  json_decref(o);
  return rc;
}

static json_t *
result_back(json_t *result, bool late)
{
  json_t *value = json_object_get(result, "result");
  json_t *display = json_object_get(result, "display_preference");
  const char *name = json_string_value(display);
  json_t *o = json_object();
  int bad = json_object_set(o, "request_id", json_object_get(result, "request_id")) ||
            json_object_set(o, "result", value);

  if (!bad && (late || (name && strcmp(name, "Default") != 0)))
    bad = json_object_set(o, "display_preference", display);
  if (!bad && json_is_true(json_object_get(result, "is_error")) && !says_error(value))
    bad = json_object_set_new(o, "is_error", json_true());
  return qp__json_built(o, bad || qp__legacy_add_others(o, result, result_fields, NULL));
}

/* ---- metadata of messages that quipu made ---- */

/* Whether old programs know all parts. */
static bool
only_old_parts(const json_t *content)
{
  for (size_t i = 0; i < json_array_size(content); i++)
    if (!is_old_part(json_array_get(content, i)))
      return false;
  return true;
}

static int
add_whole_content(json_t *metadata, json_t *content)
{
  json_t *extra = json_object_get(metadata, "extra");
  int bad;

  extra = json_is_object(extra) ? qp__json_copy(extra) : json_object();
  bad = json_object_set(extra, WHOLE_CONTENT, content) || json_object_set(metadata, "extra", extra);
  json_decref(extra);
  return bad;
}

/* Its time, and its content if that has parts that old programs do not know. */
static json_t *
born_metadata(const json_t *m)
{
  json_t *metadata = json_object_get(m, "metadata");
  json_t *created_at = json_object_get(m, "created_at");
  json_t *content = json_object_get(m, "content");
  json_t *o = json_object();
  int bad = !o;

  if (!bad && created_at && !json_object_get(metadata, "created_at"))
    bad = json_object_set(o, "created_at", created_at);
  bad = bad || qp__field_add_rest(o, metadata);
  if (!bad && !only_old_parts(content))
    bad = add_whole_content(o, content);
  return qp__json_built(o, bad);
}

/* ---- whole messages ---- */

static const char *
type_of(const json_t *message, const json_t *m)
{
  unsigned type = QP_TYPE_TEXT;

  if (!find_name(&qp__type_names, json_object_get(message, "message_type"), &type)) {
    if (json_object_get(m, "tool_result"))
      type = QP_TYPE_TOOL_RESULT;
    else if (json_object_get(m, "tool_calls"))
      type = QP_TYPE_TOOL_CALL;
  }
  return qp_message_type_name((enum qp_message_type)type);
}

/* Everything except "legacy", in the stored order. */
static enum qp_rc
fields_forth(const struct qp__place *at, json_t *message, const struct qp__legacy_origin *origin,
             json_t *m, struct qp_err *err)
{
  json_t *metadata = json_object_get(message, "metadata");
  json_t *rich = json_object_get(message, "rich_type");
  json_t *content = json_object_get(message, "content");
  unsigned role = QP_ROLE_USER;
  enum qp_rc rc;
  int bad;

  rc = qp__field_name(at, message, "role", &qp__role_names, &role, err);
  if (rc)
    return rc;
  if (content && !json_is_array(content) && !json_is_string(content) && !json_is_null(content))
    return qp__field_fail(at, "content", "must be an array", err);
  bad = qp__json_set_uuid(m, "id", &origin->id) ||
        qp__json_set_uuid(m, "parent_id", &origin->parent) ||
        qp__json_set_str(m, "role", qp_role_name((enum qp_role)role)) ||
        qp__json_set_str(m, "type", "") || /* reserves its position; the value is set below */
        (origin->time && qp__json_set_time(m, "created_at", origin->time)) ||
        json_object_set_new(m, "content", content_forth(message));
  if (bad)
    return qp__fail_nomem(err, at->what);
  rc = calls_forth(at, message, m, err);
  if (!rc)
    rc = result_forth(at, message, m, err);
  if (rc)
    return rc;
  if (qp__json_set_str(m, "type", type_of(message, m)) ||
      (json_is_object(metadata) && json_object_set(m, "metadata", metadata)) ||
      (rich && json_object_set(m, "rich_type", rich)) ||
      qp__legacy_add_others(m, message, old_fields, taken_fields))
    return qp__fail_nomem(err, at->what);
  return QP_OK;
}

/* The fields of "legacy" without the differences. */
static json_t *
make_legacy(const json_t *message, const struct qp__legacy_origin *origin)
{
  json_t *legacy = json_object();
  char text[QP_UUID_TEXT];
  int bad;

  bad =
      qp__json_set_str(legacy, "form", json_object_get(message, "message_type") ? "late" : "early");
  (void)qp_uuid_text(&origin->old_id, text);
  if (!bad && !qp_uuid_equal(&origin->id, &origin->old_id))
    bad = qp__json_set_str(legacy, "id", text);
  if (!bad && origin->key && strcmp(origin->key, text) != 0)
    bad = qp__json_set_str(legacy, "key", origin->key);
  return qp__json_built(legacy, bad);
}

/* Adds what back() would not restore. */
static enum qp_rc
add_differences(const struct qp__place *at, json_t *node, const struct qp__legacy_origin *origin,
                json_t *m, json_t *legacy, struct qp_err *err)
{
  json_t *guess = NULL;
  json_t *changes = NULL;
  enum qp_rc rc = qp__legacy_back(m, &origin->old_id, &origin->old_parent, &guess, err);

  if (rc)
    return rc;
  if (qp__diff_make(guess, node, false, &changes) ||
      (changes && json_object_set(legacy, "differs", changes)))
    rc = qp__fail_nomem(err, at->what);
  if (!rc && changes)
    rc = qp__value_check_depth(at->what, legacy, LEGACY_ABOVE, err);
  json_decref(changes);
  json_decref(guess);
  return rc;
}

enum qp_rc
qp__legacy_forth(const char *what, json_t *node, const struct qp__legacy_origin *origin,
                 json_t **out, struct qp_err *err)
{
  struct qp__place at = { what, "message." };
  json_t *message = json_object_get(node, "message");
  json_t *legacy;
  json_t *m;
  enum qp_rc rc = QP_OK;

  if (!json_is_object(message))
    return qp__fail(err, QP_INVALID, "%s: \"message\" must be an object", what);
  m = json_object();
  legacy = make_legacy(message, origin);
  if (!m || !legacy)
    rc = qp__fail_nomem(err, what);
  if (!rc)
    rc = fields_forth(&at, message, origin, m, err);
  if (!rc && json_object_set(m, QP__LEGACY_FIELD, legacy))
    rc = qp__fail_nomem(err, what);
  if (!rc)
    rc = add_differences(&at, node, origin, m, legacy, err);
  if (!rc)
    *out = json_incref(m);
  json_decref(legacy);
  json_decref(m);
  return rc;
}

/* ---- back ---- */

static const char *
old_role(const json_t *m)
{
  static const char *const names[] = { "System", "User", "Assistant", "Tool" };
  unsigned i = QP_ROLE_USER;

  (void)find_name(&qp__role_names, json_object_get(m, "role"), &i);
  return names[i];
}

/* The old message, in the order of the old program; NULL: out of memory. */
static json_t *
message_back(const json_t *m, const json_t *legacy)
{
  bool late = qp__legacy_is_late(legacy);
  json_t *metadata = json_object_get(m, "metadata");
  json_t *calls = json_object_get(m, "tool_calls");
  json_t *result = json_object_get(m, "tool_result");
  json_t *rich = json_object_get(m, "rich_type");
  json_t *o = json_object();
  int bad;

  metadata = legacy ? json_incref(metadata) : born_metadata(m);
  bad = (!legacy && !metadata) || qp__json_set_str(o, "role", old_role(m)) ||
        json_object_set_new(o, "content", content_back(json_object_get(m, "content"), metadata)) ||
        (calls && json_object_set(o, "tool_calls", calls)) ||
        (result && json_object_set_new(o, "tool_result", result_back(result, late))) ||
        json_object_set(o, "metadata", metadata ? metadata : json_null()) ||
        (late && json_object_set(o, "message_type", json_object_get(m, "type"))) ||
        (rich && json_object_set(o, "rich_type", rich)) ||
        qp__legacy_add_others(o, m, new_fields, old_fields);
  json_decref(metadata);
  return qp__json_built(o, bad);
}

enum qp_rc
qp__legacy_back(const json_t *m, const struct qp_uuid *old_id, const struct qp_uuid *old_parent,
                json_t **out, struct qp_err *err)
{
  json_t *legacy = json_object_get(m, QP__LEGACY_FIELD);
  json_t *node = json_object();

  legacy = json_is_object(legacy) ? legacy : NULL;
  if (qp__json_set_uuid(node, "id", old_id) ||
      json_object_set_new(node, "message", message_back(m, legacy)) ||
      qp__json_set_uuid(node, "parent_id", old_parent) ||
      qp__diff_apply(&node, json_object_get(legacy, "differs"), false)) {
    json_decref(node);
    return qp__fail_nomem(err, "a message in the old format");
  }
  *out = node;
  return QP_OK;
}

struct qp_uuid
qp__legacy_old_id(const struct qp_message *m)
{
  json_t *text = json_object_get(json_object_get(m->extra, QP__LEGACY_FIELD), "id");
  struct qp_uuid id;

  if (json_string_length(text) == QP__UUID_LEN && qp__uuid_decode(json_string_value(text), &id))
    return id;
  return m->id;
}

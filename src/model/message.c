/* message.c - a message as an object: creating it, setting and reading its fields. Its JSON is in
 * message_json.c, its tool calls and tool results are in toolcall.c.
 *
 * (1) Every string of a message is valid UTF-8, and every enum value is in its range.
 * (2) A setter first allocates everything and then changes the message, so a failure changes
 *     nothing; at worst some bytes of the arena stay unused until the message is freed. */
#include "model/message_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

/* ---- names ---- */

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char *const role_list[] = {
  [QP_ROLE_SYSTEM] = "system",
  [QP_ROLE_USER] = "user",
  [QP_ROLE_ASSISTANT] = "assistant",
  [QP_ROLE_TOOL] = "tool",
};
static const char *const type_list[] = {
  [QP_TYPE_TEXT] = "text",
  [QP_TYPE_PLAN] = "plan",
  [QP_TYPE_QUESTION] = "question",
  [QP_TYPE_TOOL_CALL] = "tool_call",
  [QP_TYPE_TOOL_RESULT] = "tool_result",
};
static const char *const approval_list[] = {
  [QP_APPROVAL_PENDING] = "Pending",
  [QP_APPROVAL_APPROVED] = "Approved",
  [QP_APPROVAL_DENIED] = "Denied",
};
static const char *const display_list[] = {
  [QP_DISPLAY_DEFAULT] = "Default",
  [QP_DISPLAY_COLLAPSIBLE] = "Collapsible",
  [QP_DISPLAY_HIDDEN] = "Hidden",
};
static const char *const status_list[] = {
  [QP_STATUS_LIVE] = "live",
  [QP_STATUS_ARCHIVED] = "archived",
  [QP_STATUS_UNAVAILABLE] = "unavailable",
  [QP_STATUS_TRASHED] = "trashed",
};

const struct qp__name_set qp__role_names = { role_list, COUNT(role_list) };
const struct qp__name_set qp__type_names = { type_list, COUNT(type_list) };
const struct qp__name_set qp__approval_names = { approval_list, COUNT(approval_list) };
const struct qp__name_set qp__display_names = { display_list, COUNT(display_list) };
const struct qp__name_set qp__status_names = { status_list, COUNT(status_list) };

const char *
qp_role_name(enum qp_role role)
{
  return qp__name_set_get(&qp__role_names, (unsigned)role);
}

const char *
qp_message_type_name(enum qp_message_type type)
{
  return qp__name_set_get(&qp__type_names, (unsigned)type);
}

const char *
qp_approval_name(enum qp_approval approval)
{
  return qp__name_set_get(&qp__approval_names, (unsigned)approval);
}

const char *
qp_display_name(enum qp_display display)
{
  return qp__name_set_get(&qp__display_names, (unsigned)display);
}

const char *
qp_message_status_name(enum qp_message_status status)
{
  return qp__name_set_get(&qp__status_names, (unsigned)status);
}

enum qp_rc
qp_role_parse(const char *name, enum qp_role *out, struct qp_err *err)
{
  char all[80];
  unsigned role;

  if (!name || !qp__name_set_find(&qp__role_names, name, strlen(name), &role))
    return qp__fail(err, QP_INVALID, "the role must be one of %s",
                    qp__name_set_list(&qp__role_names, all, sizeof(all)));
  *out = (enum qp_role)role;
  return QP_OK;
}

/* ---- making and freeing ---- */

enum qp_rc
qp_message_new(enum qp_role role, struct qp_message **out, struct qp_err *err)
{
  struct qp_message *m;

  if ((unsigned)role >= qp__role_names.count)
    return qp__fail(err, QP_MISUSE, "%d is not a valid role", (int)role);
  m = qp__alloc0(1, sizeof(*m));
  if (!m)
    return qp__fail_nomem(err, "a message");
  m->role = role;
  *out = m;
  return QP_OK;
}

enum qp_rc
qp_message_new_text(enum qp_role role, struct qp_bytes text, struct qp_message **out,
                    struct qp_err *err)
{
  struct qp_part part = { .kind = QP_PART_TEXT, .text = text };
  struct qp_message *m = NULL;
  enum qp_rc rc = qp_message_new(role, &m, err);

  if (!rc)
    rc = qp_message_add_part(m, &part, err);
  if (rc)
    qp_message_free(m);
  else
    *out = m;
  return rc;
}

void
qp_message_free(struct qp_message *m)
{
  if (!m)
    return;
  for (size_t i = 0; i < m->part_count; i++)
    json_decref(m->parts[i].extra);
  for (size_t i = 0; i < m->call_count; i++) {
    json_decref(m->calls[i].arguments);
    json_decref(m->calls[i].ui_hints);
    json_decref(m->calls[i].extra);
  }
  json_decref(m->result_value);
  json_decref(m->result_extra);
  json_decref(m->metadata);
  json_decref(m->extra);
  qp__free(m->parts);
  qp__free(m->calls);
  qp__arena_release(&m->arena);
  qp__free(m);
}

void
qp_free(void *p)
{
  qp__free(p);
}

/* ---- setting ---- */

enum qp_rc
qp__message_check_str(const char *what, const char *s, struct qp_err *err)
{
  if (!s)
    return qp__fail(err, QP_INVALID, "%s is missing", what);
  if (!qp__utf8_ok(s, strlen(s)))
    return qp__fail(err, QP_INVALID, "%s is not valid UTF-8", what);
  return QP_OK;
}

static enum qp_rc
check_part(const struct qp_part *part, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  switch (part->kind) {
  case QP_PART_TEXT:
  case QP_PART_THINKING:
    if (part->text.len && !part->text.data)
      return qp__fail(err, QP_INVALID, "the text of a part is missing");
    if (part->text.len && !qp__utf8_ok(part->text.data, part->text.len))
      return qp__fail(err, QP_INVALID, "the text of a part is not valid UTF-8");
    if (part->kind == QP_PART_THINKING && part->signature)
      rc = qp__message_check_str("the signature of a part", part->signature, err);
    return rc;
  case QP_PART_IMAGE:
    rc = qp__message_check_str("the URL of an image", part->url, err);
    if (!rc && part->detail)
      rc = qp__message_check_str("the detail of an image", part->detail, err);
    return rc;
  case QP_PART_OTHER:
    return qp__fail(err, QP_INVALID, "a part of an unknown type can only be created from JSON");
  }
  return qp__fail(err, QP_MISUSE, "%d is not a valid kind of part", (int)part->kind);
}

/* Copies a string of a part if its kind has that string. */
static bool
copy_str(struct qp__arena *arena, bool has, const char *s, const char **out)
{
  if (!has || !s)
    return true;
  *out = qp__arena_strdup(arena, s);
  return *out != NULL;
}

enum qp_rc
qp__message_put_part(struct qp_message *m, const struct qp_part *part, json_t *extra,
                     struct qp_err *err)
{
  bool image = part->kind == QP_PART_IMAGE;
  bool thinking = part->kind == QP_PART_THINKING;
  struct qp_part copy = { .kind = part->kind, .text = { "", 0 } };

  if ((thinking || part->kind == QP_PART_TEXT) && part->text.len) {
    copy.text.data = qp__arena_strndup(&m->arena, part->text.data, part->text.len);
    copy.text.len = part->text.len;
  }
  if (!copy.text.data || !copy_str(&m->arena, image, part->url, &copy.url) ||
      !copy_str(&m->arena, image, part->detail, &copy.detail) ||
      !copy_str(&m->arena, thinking, part->signature, &copy.signature))
    return qp__fail_nomem(err, "a part of a message");
  if (!qp__vec_reserve(m->parts, m->part_count, m->part_cap, 1))
    return qp__fail_nomem(err, "a part of a message");
  m->parts[m->part_count++] = (struct qp__part_data){ .view = copy, .extra = json_incref(extra) };
  return QP_OK;
}

enum qp_rc
qp_message_add_part(struct qp_message *m, const struct qp_part *part, struct qp_err *err)
{
  enum qp_rc rc = check_part(part, err);

  return rc ? rc : qp__message_put_part(m, part, NULL, err);
}

void
qp_message_set_type(struct qp_message *m, enum qp_message_type type)
{
  if ((unsigned)type >= qp__type_names.count)
    return;
  m->type = type;
  m->has_type = true;
}

void
qp_message_set_created_at(struct qp_message *m, int64_t ms)
{
  m->created_at = ms;
}

void
qp_message_set_id(struct qp_message *m, const struct qp_uuid *id)
{
  static const struct qp_uuid none;

  m->id = id ? *id : none;
}

void
qp_message_set_parent(struct qp_message *m, const struct qp_uuid *parent)
{
  static const struct qp_uuid none;

  m->parent = parent ? *parent : none;
  m->has_parent = true;
}

enum qp_rc
qp_message_set_metadata(struct qp_message *m, const char *json, struct qp_err *err)
{
  struct qp_bytes text = { json, json ? strlen(json) : 0 };
  json_t *value = NULL;
  enum qp_rc rc;

  if (!json)
    return qp__fail(err, QP_INVALID, "the metadata is missing");
  rc = qp__json_parse_object("metadata", text, &value, err);
  if (!rc)
    rc = qp__value_check_depth("metadata", value, 1, err);
  if (rc) {
    json_decref(value);
    return rc;
  }
  json_decref(m->metadata);
  m->metadata = value;
  return QP_OK;
}

/* ---- copying ---- */

static enum qp_rc
clone_call(struct qp_message *m, const struct qp__message_call *from, struct qp_err *err)
{
  struct qp__message_call call = *from;
  enum qp_rc rc = QP_OK;

  call.arguments = call.ui_hints = call.extra = NULL;
  if (!qp__value_copy(from->arguments, &call.arguments) ||
      !qp__value_copy(from->ui_hints, &call.ui_hints) || !qp__value_copy(from->extra, &call.extra))
    rc = qp__fail_nomem(err, "a copy of a message");
  if (!rc)
    rc = qp__message_put_call(m, &call, err);
  json_decref(call.arguments);
  json_decref(call.ui_hints);
  json_decref(call.extra);
  return rc;
}

static enum qp_rc
clone_result(struct qp_message *m, const struct qp_message *from, struct qp_err *err)
{
  json_t *value = NULL;
  json_t *extra = NULL;
  enum qp_rc rc = QP_OK;

  if (!qp__value_copy(from->result_value, &value) || !qp__value_copy(from->result_extra, &extra))
    rc = qp__fail_nomem(err, "a copy of a message");
  if (!rc)
    rc = qp__message_put_result(m, &from->result, value, extra, err);
  json_decref(value);
  json_decref(extra);
  return rc;
}

static enum qp_rc
clone_content(struct qp_message *m, const struct qp_message *from, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < from->part_count; i++) {
    json_t *extra = NULL;

    if (qp__value_copy(from->parts[i].extra, &extra))
      rc = qp__message_put_part(m, &from->parts[i].view, extra, err);
    else
      rc = qp__fail_nomem(err, "a copy of a message");
    json_decref(extra);
  }
  for (size_t i = 0; !rc && i < from->call_count; i++)
    rc = clone_call(m, &from->calls[i], err);
  if (!rc && from->has_result)
    rc = clone_result(m, from, err);
  return rc;
}

enum qp_rc
qp__message_clone(const struct qp_message *from, struct qp_message **out, struct qp_err *err)
{
  struct qp_message *m = NULL;
  enum qp_rc rc = qp_message_new(from->role, &m, err);

  if (rc)
    return rc;
  m->id = from->id;
  m->parent = from->parent;
  m->has_parent = from->has_parent;
  m->has_type = from->has_type;
  m->type = from->type;
  m->created_at = from->created_at;
  rc = clone_content(m, from, err);
  if (!rc &&
      (!qp__value_copy(from->metadata, &m->metadata) || !qp__value_copy(from->extra, &m->extra)))
    rc = qp__fail_nomem(err, "a copy of a message");
  if (rc)
    qp_message_free(m);
  else
    *out = m;
  return rc;
}

/* ---- asking ---- */

struct qp_uuid
qp_message_id(const struct qp_message *m)
{
  return m->id;
}

struct qp_uuid
qp_message_parent(const struct qp_message *m)
{
  return m->parent;
}

enum qp_role
qp_message_role(const struct qp_message *m)
{
  return m->role;
}

enum qp_message_type
qp_message_type(const struct qp_message *m)
{
  return qp__message_effective_type(m);
}

int64_t
qp_message_created_at(const struct qp_message *m)
{
  return m->created_at;
}

size_t
qp_message_part_count(const struct qp_message *m)
{
  return m->part_count;
}

struct qp_part
qp_message_part(const struct qp_message *m, size_t i)
{
  struct qp_part none = { .kind = QP_PART_OTHER, .text = { "", 0 } };

  return i < m->part_count ? m->parts[i].view : none;
}

enum qp_message_type
qp__message_effective_type(const struct qp_message *m)
{
  if (m->has_type)
    return m->type;
  if (m->has_result)
    return QP_TYPE_TOOL_RESULT;
  return m->call_count ? QP_TYPE_TOOL_CALL : QP_TYPE_TEXT;
}

uint32_t
qp__message_tokens(const struct qp_message *m)
{
  json_t *tokens = json_object_get(m->metadata, "tokens");
  json_int_t n = json_integer_value(json_object_get(tokens, "completion_tokens"));

  if (n <= 0) /* not counted, or not an integer */
    n = json_integer_value(json_object_get(tokens, "prompt_tokens"));
  if (n <= 0)
    return 0;
  return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* dto.c - see dto.h. */
#include "http/dto.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/vec.h"
#include "http/emit.h"
#include "http/json_walk.h"

#define PENDING_TEXT_MAX ((size_t)16 << 20)

/* The stored fields, in the order of their names below; empty if absent. */
enum {
  F_ID,
  F_PARENT,
  F_ROLE,
  F_TYPE,
  F_CREATED,
  F_CONTENT,
  F_CALLS,
  F_RESULT,
  F_METADATA,
  FIELDS,
};

static const char *const names[FIELDS] = {
  "id",      "parent_id",  "role",        "type",     "created_at",
  "content", "tool_calls", "tool_result", "metadata",
};

static const struct qp_bytes null_token = { "null", 4 };
static const struct qp_bytes empty_array = { "[]", 2 };

/* The field of that key, or FIELDS. The known fields of stored messages are in the order of the
 * table, so the search begins at `*next`. */
static size_t
find_field(struct qp_bytes key, size_t *next)
{
  for (size_t tries = 0; tries < FIELDS; tries++) {
    size_t i = (*next + tries) % FIELDS;

    if (qp__token_is(key, names[i])) {
      *next = i + 1;
      return i;
    }
  }
  return FIELDS;
}

static void
emit_or(struct qp__buf *out, const char *key, struct qp_bytes value, struct qp_bytes otherwise)
{
  qp__emit_raw(out, key, value.len ? value : otherwise);
}

/* ---- parts ---- */

struct part {
  struct qp_bytes type, text, url, detail;
};

static struct part
read_part(struct qp_bytes json)
{
  struct part part = { { "", 0 }, { "", 0 }, { "", 0 }, { "", 0 } };
  struct qp__walk w = qp__walk_into(json);
  struct qp_bytes key;
  struct qp_bytes value;

  while (qp__walk_member(&w, &key, &value)) {
    if (qp__token_is(key, "type"))
      part.type = qp__token_inner(value);
    else if (qp__token_is(key, "text"))
      part.text = value;
    else if (qp__token_is(key, "url"))
      part.url = value;
    else if (qp__token_is(key, "detail"))
      part.detail = value;
  }
  return part;
}

/* Joins the texts of all parts of one type to one string. Joining escaped texts never cuts an
 * escape. */
static void
emit_texts(struct qp__buf *out, const char *name, struct qp_bytes content, const char *type,
           bool always)
{
  struct qp__walk w = qp__walk_into(content);
  struct qp_bytes json;
  size_t count = 0;

  while (qp__walk_element(&w, &json)) {
    struct part part = read_part(json);
    struct qp_bytes inner = qp__token_inner(part.text);

    if (!qp__token_is(part.type, type))
      continue;
    if (!count++)
      qp__emit_raw(out, name, (struct qp_bytes){ "\"", 1 });
    else
      (void)qp__buf_add_str(out, "\\n");
    (void)qp__buf_add(out, inner.data, inner.len);
  }
  if (count)
    (void)qp__buf_add_char(out, '"');
  else if (always)
    qp__emit_str(out, name, "");
}

static void
emit_images(struct qp__buf *out, struct qp_bytes content)
{
  struct qp__walk w = qp__walk_into(content);
  struct qp_bytes json;

  qp__emit_open(out, "images", '[');
  while (qp__walk_element(&w, &json)) {
    struct part part = read_part(json);

    if (!qp__token_is(part.type, "image"))
      continue;
    qp__emit_open(out, NULL, '{');
    emit_or(out, "url", part.url, null_token);
    emit_or(out, "detail", part.detail, null_token);
    qp__emit_close(out, '}');
  }
  qp__emit_close(out, ']');
}

static bool
is_known_type(struct qp_bytes type)
{
  return qp__token_is(type, "text") || qp__token_is(type, "image") ||
         qp__token_is(type, "thinking");
}

static void
emit_other_parts(struct qp__buf *out, struct qp_bytes content)
{
  struct qp__walk w = qp__walk_into(content);
  struct qp_bytes json;
  bool any = false;

  while (qp__walk_element(&w, &json)) {
    if (is_known_type(read_part(json).type))
      continue;
    if (!any)
      qp__emit_open(out, "other", '[');
    any = true;
    qp__emit_raw(out, NULL, json);
  }
  if (any)
    qp__emit_close(out, ']');
}

/* ---- messages ---- */

static void
emit_lost(struct qp__buf *out, const struct qp_message_info *info)
{
  qp__emit_uuid(out, "id", &info->id);
  qp__emit_str(out, "role", qp_role_name(info->role));
  qp__emit_str(out, "type", qp_message_type_name(info->type));
  qp__emit_str(out, "text", NULL);
  qp__emit_raw(out, "images", empty_array);
  qp__emit_raw(out, "tool_calls", empty_array);
  qp__emit_str(out, "tool_result", NULL);
  qp__emit_time(out, "created_at", info->created_at);
  qp__emit_uuid(out, "parent_id", &info->parent);
  qp__emit_str(out, "metadata", NULL);
  qp__emit_str(out, "status", qp_message_status_name(QP_STATUS_UNAVAILABLE));
}

static void
emit_extra(struct qp__buf *out, struct qp_bytes json)
{
  struct qp__walk w = qp__walk_into(json);
  struct qp_bytes key;
  struct qp_bytes value;
  size_t next = 0;
  bool any = false;

  while (qp__walk_member(&w, &key, &value)) {
    if (find_field(key, &next) < FIELDS)
      continue;
    if (!any)
      qp__emit_open(out, "extra", '{');
    any = true;
    if (out->len && out->data[out->len - 1] != '{')
      (void)qp__buf_add_char(out, ',');
    (void)qp__buf_add_char(out, '"');
    (void)qp__buf_add(out, key.data, key.len);
    (void)qp__buf_add_str(out, "\":");
    (void)qp__buf_add(out, value.data, value.len);
  }
  if (any)
    qp__emit_close(out, '}');
}

void
qp__dto_message(struct qp__buf *out, const char *name, const struct qp_message_info *info,
                struct qp_bytes json)
{
  struct qp_bytes fields[FIELDS] = { { NULL, 0 } };
  struct qp__walk w = qp__walk_into(json);
  struct qp_bytes key;
  struct qp_bytes value;
  bool unknown = false;
  size_t next = 0;

  qp__emit_open(out, name, '{');
  if (!json.len) {
    emit_lost(out, info);
    qp__emit_close(out, '}');
    return;
  }
  while (qp__walk_member(&w, &key, &value)) {
    size_t i = find_field(key, &next);

    unknown |= i == FIELDS;
    if (i < FIELDS)
      fields[i] = value;
  }
  emit_or(out, "id", fields[F_ID], null_token);
  emit_or(out, "role", fields[F_ROLE], null_token);
  emit_or(out, "type", fields[F_TYPE], null_token);
  emit_texts(out, "text", fields[F_CONTENT], "text", true);
  emit_texts(out, "thinking", fields[F_CONTENT], "thinking", false);
  emit_images(out, fields[F_CONTENT]);
  emit_or(out, "tool_calls", fields[F_CALLS], empty_array);
  emit_or(out, "tool_result", fields[F_RESULT], null_token);
  emit_or(out, "created_at", fields[F_CREATED], null_token);
  emit_or(out, "parent_id", fields[F_PARENT], null_token);
  emit_or(out, "metadata", fields[F_METADATA], null_token);
  emit_other_parts(out, fields[F_CONTENT]);
  if (unknown)
    emit_extra(out, json);
  qp__emit_close(out, '}');
}

void
qp__dto_pinned(struct qp__buf *out)
{
  if (out->rc)
    return;
  out->data[--out->len] = '\0'; /* the closing brace, which is added again */
  qp__emit_bool(out, "pinned", true);
  qp__emit_close(out, '}');
}

/* ---- calls that wait ---- */

void
qp__pending_calls_init(struct qp__pending_calls *p)
{
  memset(p, 0, sizeof(*p));
  qp__buf_init(&p->text, PENDING_TEXT_MAX);
}

void
qp__pending_calls_release(struct qp__pending_calls *p)
{
  qp__buf_release(&p->text);
  qp__free(p->calls);
}

static struct qp_bytes
member(struct qp_bytes object, const char *name)
{
  struct qp__walk w = qp__walk_into(object);
  struct qp_bytes key;
  struct qp_bytes value;

  while (qp__walk_member(&w, &key, &value))
    if (qp__token_is(key, name))
      return value;
  return (struct qp_bytes){ "", 0 };
}

static void
keep_call(struct qp__pending_calls *p, struct qp_bytes call)
{
  struct qp_bytes id = member(call, "id");
  size_t at = p->text.len;

  if (!qp__token_is(member(call, "approval_status"), "\"Pending\"") ||
      p->count == QP__PENDING_MAX || !id.len || qp__buf_add(&p->text, call.data, call.len))
    return;
  if (!qp__vec_push(p->calls, p->count, p->cap,
                    (struct qp__pending_call){ .at = at,
                                               .len = call.len,
                                               .id_at = at + (size_t)(id.data - call.data),
                                               .id_len = id.len }))
    p->text.rc = QP_NOMEM;
}

static void
finish_call(struct qp__pending_calls *p, struct qp_bytes id)
{
  for (size_t i = 0; i < p->count; i++)
    if (p->calls[i].id_len == id.len &&
        memcmp(p->text.data + p->calls[i].id_at, id.data, id.len) == 0)
      p->calls[i].done = true;
}

void
qp__pending_calls_see(struct qp__pending_calls *p, struct qp_bytes json)
{
  struct qp_bytes calls = member(json, "tool_calls");
  struct qp_bytes result = member(json, "tool_result");
  struct qp__walk w;
  struct qp_bytes call;

  if (calls.len) {
    w = qp__walk_into(calls);
    while (qp__walk_element(&w, &call))
      keep_call(p, call);
  }
  if (result.len)
    finish_call(p, member(result, "request_id"));
}

void
qp__pending_calls_decided(struct qp__pending_calls *p, json_t *decisions)
{
  struct qp__buf id;
  const char *key;
  json_t *decision;

  qp__buf_init(&id, PENDING_TEXT_MAX);
  json_object_foreach (decisions, key, decision) {
    qp__buf_reset(&id);
    if (qp__json_write_string(&id, key, strlen(key)))
      p->text.rc = QP_NOMEM;
    else
      finish_call(p, qp__buf_bytes(&id));
  }
  qp__buf_release(&id);
}

void
qp__pending_calls_emit(const struct qp__pending_calls *p, struct qp__buf *out, const char *key)
{
  if (p->text.rc == QP_NOMEM && !out->rc)
    out->rc = QP_NOMEM; /* a call may be missing */
  qp__emit_open(out, key, '[');
  for (size_t i = 0; i < p->count; i++)
    if (!p->calls[i].done)
      qp__emit_raw(out, NULL, (struct qp_bytes){ p->text.data + p->calls[i].at, p->calls[i].len });
  qp__emit_close(out, ']');
}

/* ls_message.c - one message of a dump.
 *
 *   {id?, createdAt?, role, content, images?, model?, finishReason?, tokenUsage?, latency?, …}
 *   {…, role: "assistant", type: "tool_call", toolCalls: [{toolCallId, toolName, parameters}]}
 *   {…, role: "assistant", type: "tool_result", toolCallId, toolName,
 *    result: {tool_name, result, display_preference}, isError}
 *
 * Values are shared with the dump. Messages are elements of an array there, so no value is nested
 * deeper in the converted message than in the dump. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "old/ls_int.h"

/* A message that is being converted. */
struct taking {
  struct qp__ls_chat *chat;
  const json_t *object;
  json_t *rest;
  struct qp_message *message;
  size_t position;
  char item[40]; /* the subject of notes: "message 3" */
};

static enum qp_rc
no_memory(struct qp_err *err)
{
  return qp__fail_nomem(err, "a message of a chat");
}

/* ---- content ---- */

static enum qp_rc
add_text(struct qp_message *m, const json_t *text, json_t *rest, struct qp_err *err)
{
  struct qp_part part = {
    .kind = QP_PART_TEXT,
    .text = { json_string_value(text), json_string_length(text) },
  };
  json_t *fields = NULL;
  enum qp_rc rc;

  if (rest && json_object_size(rest)) {
    fields = json_object();
    if (qp__ls_set_rest(fields, rest)) {
      json_decref(fields);
      return no_memory(err);
    }
  }
  rc = qp__message_put_part(m, &part, fields, err);
  json_decref(fields);
  return rc;
}

/* {"type": "image_url", "image_url": {"url", "detail"}}. *taken: it has this form. */
static enum qp_rc
take_image_url(struct taking *t, json_t *rest, const json_t *part, bool *taken, struct qp_err *err)
{
  json_t *object = json_object_get(part, "image_url");
  json_t *inner;
  const char *url;
  const char *detail;
  enum qp_rc rc = QP_OK;

  *taken = false;
  if (!json_is_object(object))
    return QP_OK;
  inner = qp__json_copy(object);
  if (!inner)
    return no_memory(err);
  url = qp__ls_take_string(inner, object, "url");
  detail = qp__ls_take_string(inner, object, "detail");
  if (url) {
    *taken = true;
    (void)qp__ls_take(rest, part, "image_url");
    if (json_object_size(inner) && json_object_set(rest, "image_url", inner))
      rc = no_memory(err);
    if (!rc)
      rc = qp__ls_image_part(t->chat, t->message, t->item, url, detail, rest, err);
  }
  json_decref(inner);
  return rc;
}

/* One element of a content array. */
static enum qp_rc
take_part(struct taking *t, json_t *part, struct qp_err *err)
{
  static const char *const ours[] = { "text", "image", "thinking" };
  struct qp_part other = { .kind = QP_PART_OTHER };
  const char *type = json_string_value(json_object_get(part, "type"));
  json_t *rest;
  bool taken = false;
  enum qp_rc rc = QP_OK;

  if (json_is_string(part))
    return add_text(t->message, part, NULL, err);
  if (!type || !type[0])
    return qp__ls_keep_part(t->message, "unknown", part, err);
  rest = qp__json_copy(part);
  if (!rest)
    return no_memory(err);
  (void)qp__ls_take(rest, part, "type");
  if (strcmp(type, "text") == 0 && json_is_string(json_object_get(part, "text"))) {
    taken = true;
    rc = add_text(t->message, qp__ls_take(rest, part, "text"), rest, err);
  } else if (strcmp(type, "image_url") == 0) {
    rc = take_image_url(t, rest, part, &taken, err);
  }
  json_decref(rest);
  if (rc || taken)
    return rc;
  for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
    if (strcmp(type, ours[i]) == 0) /* not in our form */
      return qp__ls_keep_part(t->message, "unknown", part, err);
  return qp__message_put_part(t->message, &other, part, err);
}

static enum qp_rc
take_content(struct taking *t, struct qp_err *err)
{
  json_t *content = qp__ls_take(t->rest, t->object, "content");
  enum qp_rc rc = QP_OK;

  if (!content || json_is_null(content))
    return QP_OK;
  if (json_is_string(content))
    return json_string_length(content) ? add_text(t->message, content, NULL, err) : QP_OK;
  if (!json_is_array(content))
    return qp__fail(err, QP_INVALID, "\"content\" must be a string or an array");
  for (size_t i = 0; i < json_array_size(content) && !rc; i++)
    rc = take_part(t, json_array_get(content, i), err);
  return rc;
}

static enum qp_rc
take_images(struct taking *t, struct qp_err *err)
{
  json_t *images = json_object_get(t->object, "images");
  enum qp_rc rc = QP_OK;

  if (!json_is_array(images))
    return QP_OK; /* null, or an unknown value: it stays */
  (void)qp__ls_take(t->rest, t->object, "images");
  for (size_t i = 0; i < json_array_size(images) && !rc; i++)
    rc = qp__ls_image_add(t->chat, t->message, t->item, json_array_get(images, i), err);
  return rc;
}

/* ---- tools ---- */

static enum qp_rc
take_call(struct taking *t, size_t i, json_t *object, struct qp_err *err)
{
  struct qp__message_call call = { .view = { .id = NULL } };
  json_t *rest = json_is_object(object) ? qp__json_copy(object) : NULL;
  enum qp_rc rc = QP_OK;

  if (!rest)
    return json_is_object(object)
               ? no_memory(err)
               : qp__fail(err, QP_INVALID, "\"toolCalls[%zu]\" must be an object", i);
  call.view.id = qp__ls_take_string(rest, object, "toolCallId");
  call.view.tool_name = qp__ls_take_string(rest, object, "toolName");
  call.arguments = qp__ls_take(rest, object, "parameters");
  call.arguments = call.arguments ? json_incref(call.arguments) : json_null();
  call.extra = json_object_size(rest) ? json_object() : NULL;
  if (!call.view.id || !call.view.tool_name)
    rc = qp__fail(err, QP_INVALID, "\"toolCalls[%zu].%s\" must be a string that is not empty", i,
                  call.view.id ? "toolName" : "toolCallId");
  else if (json_object_size(rest) && qp__ls_set_rest(call.extra, rest))
    rc = no_memory(err);
  if (!rc)
    rc = qp__message_put_call(t->message, &call, err);
  json_decref(call.extra);
  json_decref(call.arguments);
  json_decref(rest);
  return rc;
}

static enum qp_rc
take_calls(struct taking *t, struct qp_err *err)
{
  json_t *calls = qp__ls_take(t->rest, t->object, "toolCalls");
  enum qp_rc rc = QP_OK;

  if (!json_is_array(calls) || !json_array_size(calls))
    return qp__fail(err, QP_INVALID, "\"toolCalls\" must be an array of calls");
  for (size_t i = 0; i < json_array_size(calls) && !rc; i++)
    rc = take_call(t, i, json_array_get(calls, i), err);
  return rc;
}

/* The inner {tool_name, result, display_preference}: the result of the tool becomes *value, the
 * rest is kept in the view and in `extra`. Any other value is the result itself. */
static enum qp_rc
take_inner_result(struct taking *t, json_t *result, struct qp_tool_result *view, json_t *extra,
                  json_t **value, struct qp_err *err)
{
  const char *name;
  const char *display;
  unsigned number;
  json_t *rest;
  enum qp_rc rc = QP_OK;

  *value = result ? result : json_null();
  if (!json_is_object(result) || !json_object_get(result, "result"))
    return QP_OK;
  rest = qp__json_copy(result);
  if (!rest)
    return no_memory(err);
  *value = qp__ls_take(rest, result, "result");
  name = json_object_get(extra, "tool_name") ? NULL : qp__ls_take_string(rest, result, "tool_name");
  if (name && qp__json_set_str(extra, "tool_name", name))
    rc = no_memory(err);
  display = json_string_value(json_object_get(result, "display_preference"));
  if (display && qp__name_set_find(&qp__display_names, display, strlen(display), &number)) {
    view->display = (enum qp_display)number;
    (void)qp__ls_take(rest, result, "display_preference");
  }
  if (!rc && json_equal(json_object_get(rest, "tool_name"), json_object_get(extra, "tool_name")))
    (void)qp__ls_take(rest, result, "tool_name"); /* the message has it already */
  if (!rc && json_object_size(rest) && json_object_set(t->rest, "result", rest))
    rc = no_memory(err);
  json_decref(rest);
  return rc;
}

static enum qp_rc
take_result(struct taking *t, struct qp_err *err)
{
  struct qp_tool_result view = { .display = QP_DISPLAY_DEFAULT };
  json_t *result = qp__ls_take(t->rest, t->object, "result");
  json_t *error = json_object_get(t->object, "isError");
  json_t *extra = json_object();
  json_t *value = NULL;
  const char *name;
  enum qp_rc rc;

  if (!extra)
    return no_memory(err);
  view.request_id = qp__ls_take_string(t->rest, t->object, "toolCallId");
  name = qp__ls_take_string(t->rest, t->object, "toolName");
  if (json_is_boolean(error)) {
    view.is_error = json_is_true(error);
    (void)qp__ls_take(t->rest, t->object, "isError");
  }
  if (!view.request_id)
    rc = qp__fail(err, QP_INVALID, "\"toolCallId\" must be a string that is not empty");
  else if (name && qp__json_set_str(extra, "tool_name", name))
    rc = no_memory(err);
  else
    rc = take_inner_result(t, result, &view, extra, &value, err);
  if (!rc)
    rc = qp__message_put_result(t->message, &view, value, json_object_size(extra) ? extra : NULL,
                                err);
  json_decref(extra);
  return rc;
}

/* ---- who and what kind ---- */

/* A message may be empty, but a message without a content is noted. */
static enum qp_rc
note_empty(struct taking *t, struct qp_err *err)
{
  json_t *content = json_object_get(t->object, "content");

  if (t->message->part_count || (content && !json_is_null(content)))
    return QP_OK;
  return qp__ls_note(&t->chat->notes, t->item, QP_OK, "it has no content") ? QP_OK : no_memory(err);
}

/* Determines the kind of message by "type" and its fields. */
static enum qp_rc
take_body(struct taking *t, struct qp_err *err)
{
  const char *type = json_string_value(json_object_get(t->object, "type"));
  bool is_call = type ? strcmp(type, "tool_call") == 0
                      : json_array_size(json_object_get(t->object, "toolCalls")) > 0;
  bool is_result = type && strcmp(type, "tool_result") == 0;
  enum qp_rc rc = take_content(t, err);

  if (!rc)
    rc = take_images(t, err);
  if (rc)
    return rc;
  if (is_call || is_result || (type && strcmp(type, "text") == 0)) {
    (void)qp__ls_take(t->rest, t->object, "type");
  } else if (type && (strcmp(type, "plan") == 0 || strcmp(type, "question") == 0)) {
    qp_message_set_type(t->message, type[0] == 'p' ? QP_TYPE_PLAN : QP_TYPE_QUESTION);
    (void)qp__ls_take(t->rest, t->object, "type");
  }
  if (is_call)
    return take_calls(t, err);
  if (!is_result)
    return note_empty(t, err);
  t->message->role = QP_ROLE_TOOL;
  return take_result(t, err);
}

static enum qp_rc
new_message(const json_t *object, struct qp_message **out, struct qp_err *err)
{
  json_t *role = json_object_get(object, "role");
  unsigned number;

  if (!json_is_object(object))
    return qp__fail(err, QP_INVALID, "it is not an object");
  if (!role || json_is_null(role))
    return qp__fail(err, QP_INVALID, "\"role\" is missing");
  if (!json_is_string(role) || !qp__name_set_find(&qp__role_names, json_string_value(role),
                                                  json_string_length(role), &number))
    return qp__fail(err, QP_INVALID,
                    "\"role\" must be one of system, user, assistant, tool, not '%.40s'",
                    json_is_string(role) ? json_string_value(role) : "a value of another type");
  return qp_message_new((enum qp_role)number, out, err);
}

/* ---- id and time ---- */

static enum qp_rc
take_id(struct taking *t, json_t *seen, struct qp_err *err)
{
  struct qp__ls_chat *chat = t->chat;
  struct qp_bytes scope = { (const char *)chat->meta->id.b, sizeof(chat->meta->id.b) };
  const char *id = qp__ls_take_string(t->rest, t->object, "id");
  char place[300];
  char text[QP_UUID_TEXT];
  struct qp_uuid *out = &t->message->id;

  (void)snprintf(place, sizeof(place), "%zu", t->position);
  if (!id) {
    *out = qp__ls_derive("position", scope, (struct qp_bytes){ place, strlen(place) });
  } else if (!qp__ls_uuid(id, out)) {
    *out = qp__ls_derive("message", scope, (struct qp_bytes){ id, strlen(id) });
    if (qp__json_set_str(t->rest, "id", id))
      return no_memory(err);
  }
  if (json_object_get(seen, qp_uuid_text(out, text))) {
    (void)snprintf(place, sizeof(place), "%s #%zu", text, t->position);
    *out = qp__ls_derive("again", scope, (struct qp_bytes){ place, strlen(place) });
    if ((id && qp__json_set_str(t->rest, "id", id)) ||
        !qp__ls_note(&chat->notes, t->item, QP_OK,
                     "an earlier message has the same id; this message got a new id"))
      return no_memory(err);
  }
  if (json_object_set_new(seen, qp_uuid_text(out, text), json_true()))
    return no_memory(err);
  return QP_OK;
}

/* A message without a time gets that of the message before it, the first one that of the chat. */
static enum qp_rc
take_time(struct taking *t, struct qp_err *err)
{
  struct qp__ls_chat *chat = t->chat;
  json_t *value = json_object_get(t->object, "createdAt");

  if (qp__ls_time(value, &t->message->created_at)) {
    (void)qp__ls_take(t->rest, t->object, "createdAt");
    return QP_OK;
  }
  t->message->created_at =
      chat->count ? chat->messages[chat->count - 1]->created_at : chat->meta->created_at;
  if (value && !json_is_null(value) &&
      !qp__ls_note(&chat->notes, t->item, QP_OK,
                   "\"createdAt\" is not a valid time; the time of the message before it is used"))
    return no_memory(err);
  return QP_OK;
}

/* ---- metadata ---- */

/* tokenUsage {promptTokens, completionTokens, …} as tokens. 0 or -1. */
static int
take_tokens(struct taking *t, json_t *metadata)
{
  json_t *usage = json_object_get(t->object, "tokenUsage");
  json_t *rest;
  json_t *tokens;
  json_t *prompt;
  json_t *completion;
  int bad;

  if (!json_is_object(usage))
    return 0;
  (void)qp__ls_take(t->rest, t->object, "tokenUsage");
  rest = qp__json_copy(usage);
  tokens = json_object();
  prompt = qp__ls_take(rest, usage, "promptTokens");
  completion = qp__ls_take(rest, usage, "completionTokens");
  bad = !rest || !tokens || (prompt && json_object_set(tokens, "prompt_tokens", prompt)) ||
        (completion && json_object_set(tokens, "completion_tokens", completion)) ||
        qp__field_add_rest(tokens, rest) || json_object_set(metadata, "tokens", tokens);
  json_decref(rest);
  json_decref(tokens);
  return bad ? -1 : 0;
}

static enum qp_rc
take_metadata(struct taking *t, struct qp_err *err)
{
  json_t *metadata = json_object();
  const char *model;
  const char *reason;
  json_t *latency = json_object_get(t->object, "latency");

  if (!metadata || take_tokens(t, metadata))
    goto fail;
  if (json_is_number(latency) &&
      json_object_set(metadata, "duration_ms", qp__ls_take(t->rest, t->object, "latency")))
    goto fail;
  model = qp__ls_take_string(t->rest, t->object, "model");
  if (model && qp__json_set_str(metadata, "model", model))
    goto fail;
  reason = qp__ls_take_string(t->rest, t->object, "finishReason");
  if (reason && qp__json_set_str(metadata, "finish_reason", reason))
    goto fail;
  if (json_object_size(metadata))
    t->message->metadata = json_incref(metadata);
  json_decref(metadata);
  return QP_OK;
fail:
  json_decref(metadata);
  return no_memory(err);
}

/* Keeps the remaining fields. */
static enum qp_rc
keep_rest(struct taking *t, struct qp_err *err)
{
  if (!json_object_size(t->rest))
    return QP_OK;
  t->message->extra = json_object();
  return qp__ls_set_rest(t->message->extra, t->rest) ? no_memory(err) : QP_OK;
}

/* After the last imported message. */
static void
link_message(struct taking *t)
{
  size_t n = t->chat->count;

  if (n)
    t->message->parent = t->chat->messages[n - 1]->id;
  t->message->has_parent = true;
}

static enum qp_rc
check_size(const struct taking *t, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, t->chat->max_message);
  rc = qp__message_encode(t->message, &text, err);
  if (rc == QP_TOOBIG)
    rc = qp__fail(err, rc, "it would be larger than %zu bytes", t->chat->max_message);
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp__ls_message_add(struct qp__ls_chat *chat, const json_t *object, size_t position, json_t *seen,
                   struct qp_err *err)
{
  struct taking t = { .chat = chat, .object = object, .position = position };
  enum qp_rc rc = new_message(object, &t.message, err);

  if (rc)
    return rc;
  (void)snprintf(t.item, sizeof(t.item), "message %zu", position + 1);
  t.rest = qp__json_copy(object);
  if (!qp__vec_reserve(chat->messages, chat->count, chat->cap, 1) || !t.rest) {
    rc = no_memory(err);
    goto out;
  }
  (void)qp__ls_take(t.rest, object, "role");
  rc = take_body(&t, err);
  if (!rc)
    rc = take_time(&t, err);
  if (!rc)
    rc = take_id(&t, seen, err);
  if (!rc)
    rc = take_metadata(&t, err);
  if (!rc)
    rc = keep_rest(&t, err);
  link_message(&t);
  if (!rc)
    rc = check_size(&t, err);
  if (rc)
    goto out;
  chat->messages[chat->count++] = t.message;
  t.message = NULL;
out:
  qp_message_free(t.message);
  json_decref(t.rest);
  return rc;
}

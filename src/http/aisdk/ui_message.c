/* ui_message.c - see ui_message.h. */
#include "http/aisdk/ui_message.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "http/emit.h"
#include "http/face/wish.h"
#include "http/http_int.h"
#include "model/message.h"

#define AT_MAX 100
#define MESSAGES_MAX 100000

void
qp__ui_turn_id(const struct qp_uuid *first, char out[QP__UI_ID])
{
  char text[QP_UUID_TEXT];

  (void)snprintf(out, QP__UI_ID, "turn-%s", qp_uuid_text(first, text));
}

bool
qp__ui_turn_parse(const char *id, struct qp_uuid *out)
{
  return strncmp(id, "turn-", 5) == 0 && qp_uuid_parse(id + 5, out, NULL) == QP_OK;
}

/* ---- reading ---- */

static bool
is_type(const json_t *part, const char *type)
{
  const char *own = json_string_value(json_object_get(part, "type"));

  return own && strcmp(own, type) == 0;
}

static enum qp_rc
read_part(struct qp__request *r, const json_t *part, const char *at, json_t *content,
          struct qp_err *err)
{
  const json_t *text = json_object_get(part, "text");
  const char *url = json_string_value(json_object_get(part, "url"));
  const char *media = json_string_value(json_object_get(part, "mediaType"));
  bool good = true;

  if (is_type(part, "text") && json_is_string(text))
    good = json_string_length(text) == 0 || qp__wish_add(content, qp__wish_text(text));
  else if (is_type(part, "file") && url && media && strncmp(media, "image/", 6) == 0)
    good = qp__wish_add(content, qp__wish_image(url, NULL));
  else if (is_type(part, "file"))
    return qp__wish_refuse(r, err, at, "%s: only images can be attached", at);
  return good ? QP_OK : qp__fail_nomem(err, "a message"); /* data-… and others are for the page */
}

enum qp_rc
qp__ui_message_read(struct qp__request *r, const json_t *ui, const char *at, json_t **out,
                    struct qp_err *err)
{
  const json_t *parts = json_object_get(ui, "parts");
  const char *id = json_string_value(json_object_get(ui, "id"));
  json_t *content = json_array();
  enum qp_rc rc = content ? QP_OK : qp__fail_nomem(err, "a message");

  if (!rc && !json_is_array(parts))
    rc = qp__wish_refuse(r, err, at, "%s: a UI message needs a list of \"parts\"", at);
  for (size_t i = 0; !rc && i < json_array_size(parts); i++) {
    char inner[AT_MAX];

    (void)snprintf(inner, sizeof(inner), "%.60s.parts[%zu]", at, i);
    rc = read_part(r, json_array_get(parts, i), inner, content, err);
  }
  if (!rc && !json_array_size(content))
    rc = qp__wish_refuse(r, err, at, "%s: the message is empty", at);
  if (!rc) {
    *out = json_pack("{s:s, s:O, s:o}", "role", "user", "content", content, "metadata",
                     qp__json_pack_set("{s:s?}", "ui", id));
    rc = *out ? QP_OK : qp__fail_nomem(err, "a message");
  }
  json_decref(content);
  return rc;
}

/* ---- writing ---- */

struct writing {
  json_t *list;
  json_t *answer; /* the UI message of the present turn, or NULL; borrowed */
  struct qp_uuid first;
  struct qp_err *err;
};

static bool
add_part(json_t *ui, json_t *part)
{
  return qp__wish_add(json_object_get(ui, "parts"), part);
}

static bool
add_texts(json_t *ui, const struct qp_message *m)
{
  for (size_t i = 0; i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;
    bool good = true;

    if (part->kind == QP_PART_TEXT || part->kind == QP_PART_THINKING)
      good = add_part(ui, json_pack("{s:s, s:s%, s:s}", "type",
                                    part->kind == QP_PART_TEXT ? "text" : "reasoning", "text",
                                    part->text.data, part->text.len, "state", "done"));
    else if (part->kind == QP_PART_IMAGE)
      good = add_part(ui, json_pack("{s:s, s:s, s:s}", "type", "file", "mediaType", "image/*",
                                    "url", part->url));
    if (!good)
      return false;
  }
  return true;
}

static bool
add_call(json_t *ui, const struct qp__message_call *call)
{
  const char *kind = json_string_value(json_object_get(call->extra, "kind"));
  bool is_client = kind && strcmp(kind, "client") == 0;
  char type[160];
  json_t *part;

  (void)snprintf(type, sizeof(type), "tool-%.140s", call->view.tool_name);
  part = json_pack("{s:s, s:s, s:s, s:O}", "type", is_client ? type : "dynamic-tool", "toolCallId",
                   call->view.id, "state", "input-available", "input", call->arguments);
  if (part && !is_client &&
      (qp__json_set_str(part, "toolName", call->view.tool_name) ||
       (call->view.approval == QP_APPROVAL_PENDING &&
        (qp__json_set_str(part, "state", "approval-requested") ||
         json_object_set_new(part, "approval", json_pack("{s:s}", "id", call->view.id)))))) {
    json_decref(part);
    part = NULL;
  }
  return add_part(ui, part);
}

/* Puts a result into the part of its call. */
static bool
set_result(json_t *ui, const struct qp_message *m)
{
  json_t *parts = json_object_get(ui, "parts");

  for (size_t i = json_array_size(parts); i-- > 0;) {
    json_t *part = json_array_get(parts, i);
    const char *id = json_string_value(json_object_get(part, "toolCallId"));

    if (!id || strcmp(id, m->result.request_id) != 0)
      continue;
    (void)json_object_del(part, "approval");
    if (m->result.is_error)
      return qp__json_set_str(part, "state", "output-error") == 0 &&
             qp__json_set_str(part, "errorText",
                              json_is_string(m->result_value) ? json_string_value(m->result_value)
                                                              : m->result.result_json) == 0;
    return qp__json_set_str(part, "state", "output-available") == 0 &&
           json_object_set(part, "output", m->result_value) == 0;
  }
  return true;
}

static json_t *
add_ui(struct writing *w, const char *id, const char *role)
{
  json_t *ui = json_pack("{s:s, s:s, s:[]}", "id", id, "role", role, "parts");

  return qp__wish_add(w->list, ui) ? ui : NULL;
}

static bool
add_message(struct writing *w, const struct qp_message *m)
{
  const char *own = json_string_value(json_object_get(m->metadata, "ui"));
  char id[QP__UI_ID];
  json_t *ui;
  bool good;

  if (m->has_result)
    return !w->answer || set_result(w->answer, m);
  if (m->role != QP_ROLE_ASSISTANT) {
    w->first = m->id;
    w->answer = NULL;
    (void)qp_uuid_text(&m->id, id);
    ui = add_ui(w, own ? own : id, qp_role_name(m->role));
    return ui && add_texts(ui, m);
  }
  if (!w->answer) {
    qp__ui_turn_id(&w->first, id);
    w->answer = add_ui(w, id, "assistant");
  }
  good = w->answer && add_part(w->answer, json_pack("{s:s}", "type", "step-start")) &&
         add_texts(w->answer, m);
  for (size_t i = 0; good && i < m->call_count; i++)
    good = add_call(w->answer, &m->calls[i]);
  return good;
}

static enum qp_rc
take_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct writing *w = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK;
  rc = qp_message_parse(json, &message, w->err);
  if (!rc && !add_message(w, message))
    rc = qp__fail_nomem(w->err, "the messages");
  qp_message_free(message);
  return rc;
}

enum qp_rc
qp__ui_messages_answer(struct qp__request *r, struct qp_err *err)
{
  struct writing w = { .list = json_array(), .err = err };
  enum qp_rc rc =
      w.list ? qp_messages_last(r->held->context, NULL, MESSAGES_MAX, take_message, &w, err)
             : qp__fail_nomem(err, "the messages");

  if (!rc) {
    qp__emit_open(&r->reply.body, NULL, '{');
    qp__emit_open(&r->reply.body, "messages", '[');
    for (size_t i = 0; i < json_array_size(w.list); i++) {
      (void)qp__buf_add_str(&r->reply.body, i ? "," : "");
      (void)qp__json_write(&r->reply.body, json_array_get(w.list, i));
    }
    qp__emit_close(&r->reply.body, ']');
    qp__emit_close(&r->reply.body, '}');
  }
  json_decref(w.list);
  return rc;
}

/* stored_response.c - see stored_response.h. */
#include "http/openai/stored_response.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/engine_use.h"
#include "http/face/face_turn.h"
#include "http/http_int.h"
#include "model/message.h"
#include "quipu/compaction.h"

/* ---- ids ---- */

static void
write_hex(char *out, const struct qp_uuid *id)
{
  qp__hex_encode(out, id->b, sizeof(id->b));
}

void
qp__response_id(const struct qp_uuid *context, const struct qp_uuid *first,
                char out[QP__RESPONSE_ID])
{
  memcpy(out, "resp_", 5);
  write_hex(out + 5, context);
  write_hex(out + 37, first);
  out[69] = '\0';
}

void
qp__conversation_id(const struct qp_uuid *context, char out[QP__CONVERSATION_ID])
{
  memcpy(out, "conv_", 5);
  write_hex(out + 5, context);
  out[37] = '\0';
}

bool
qp__hex_uuid(const char *text, struct qp_uuid *out)
{
  char spelled[QP_UUID_TEXT];

  if (strspn(text, "0123456789abcdef") < 32)
    return false;
  (void)snprintf(spelled, sizeof(spelled), "%.8s-%.4s-%.4s-%.4s-%.12s", text, text + 8, text + 12,
                 text + 16, text + 20);
  return qp_uuid_parse(spelled, out, NULL) == QP_OK;
}

static enum qp_rc
hold(struct qp__request *r, const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  return qp__held_get(r, qp_uuid_text(id, text), &r->held, err);
}

enum qp_rc
qp__conversation_find(struct qp__request *r, const char *id, struct qp_err *err)
{
  struct qp_uuid context;
  enum qp_rc rc = QP_NOTFOUND;

  if (strncmp(id, "conv_", 5) == 0 && strlen(id) == 37 && qp__hex_uuid(id + 5, &context))
    rc = hold(r, &context, err);
  return rc == QP_NOTFOUND ? qp__fail(err, rc, "Conversation with id '%.80s' not found.", id) : rc;
}

/* ---- its messages ---- */

struct walk {
  struct qp__stored_response *out;
  struct qp__face *face;
  json_t *client_calls; /* ids of calls that the client runs */
  bool answered;        /* an answer was seen: what follows may be the next response */
  struct qp_err *err;
};

static bool
ends_here(const struct walk *w, const struct qp_message *m)
{
  if (!w->answered)
    return false;
  return m->role == QP_ROLE_USER || m->role == QP_ROLE_SYSTEM ||
         (m->has_result && json_object_get(w->client_calls, m->result.request_id));
}

static bool
note_calls(struct walk *w, const struct qp_message *m)
{
  for (size_t i = 0; i < m->call_count; i++) {
    const char *kind = json_string_value(json_object_get(m->calls[i].extra, "kind"));

    if (kind && strcmp(kind, "client") == 0 &&
        json_object_set_new(w->client_calls, m->calls[i].view.id, json_true()))
      return false;
  }
  return true;
}

static enum qp_rc
take_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct walk *w = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE) {
    w->out->end = info->position + 1;
    w->out->last = info->id;
    return QP_OK;
  }
  rc = qp_message_parse(json, &message, w->err);
  if (rc)
    return rc;
  if (ends_here(w, message)) {
    rc = QP_STOPPED;
  } else {
    w->answered |= info->role == QP_ROLE_ASSISTANT;
    w->out->end = info->position + 1;
    w->out->last = info->id;
    if (!note_calls(w, message))
      rc = qp__fail_nomem(w->err, "a response");
    else if (w->face)
      rc = qp__face_message(w->face, message, w->err);
  }
  qp_message_free(message);
  return rc;
}

static enum qp_rc
walk_messages(struct qp__request *r, struct qp__face *face, struct qp__stored_response *out,
              struct qp_err *err)
{
  struct walk w = { .out = out, .face = face, .client_calls = json_object(), .err = err };
  enum qp_rc rc = QP_NOMEM;

  if (w.client_calls)
    rc = qp_messages_range(r->held->context, out->branch, out->position + 1, UINT64_MAX,
                           take_message, &w, err);
  json_decref(w.client_calls);
  return rc == QP_STOPPED ? QP_OK : rc;
}

/* ---- what state it is in ---- */

static enum qp_rc
read_state(struct qp__request *r, struct qp__face *face, struct qp__stored_response *out,
           struct qp_err *err)
{
  struct qp_context_info *info = NULL;
  struct qp__response *p = face ? face->own : NULL;
  json_t *detail = NULL;
  const json_t *error;
  const char *branch;
  enum qp_rc rc = qp_context_info_new(r->held->context, &info, err);

  if (rc)
    return rc;
  if (info->state_detail_json)
    (void)qp__json_parse_object(
        "the state", (struct qp_bytes){ info->state_detail_json, strlen(info->state_detail_json) },
        &detail, NULL);
  branch = json_string_value(json_object_get(detail, "branch"));
  error = json_object_get(detail, "error");
  if (out->is_head && (!branch || strcmp(branch, out->branch) == 0)) {
    out->running = !qp_state_awaits_client(info->state);
    if (face)
      face->waits = info->state == QP_STATE_AWAITING_TOOL_APPROVAL;
    if (p && info->state == QP_STATE_FAILED) {
      const char *message = json_string_value(json_object_get(error, "message"));

      p->failed = true;
      (void)snprintf(p->error_code, sizeof(p->error_code), "server_error");
      (void)snprintf(p->error, sizeof(p->error), "%s", message ? message : "the turn failed");
    }
  }
  json_decref(detail);
  qp_free(info);
  return QP_OK;
}

/* ---- finding ---- */

static bool
is_deleted(struct qp__request *r, const char *id)
{
  char *text = NULL;
  size_t len = 0;
  json_t *metadata = NULL;
  bool deleted;

  if (qp_context_summary(r->held->context, &text, &len, NULL))
    return false;
  (void)qp__json_parse_object("the metadata", (struct qp_bytes){ text, len }, &metadata, NULL);
  deleted = json_object_get(json_object_get(metadata, "deleted_responses"), id + 37) != NULL;
  json_decref(metadata);
  qp_free(text);
  return deleted;
}

static enum qp_rc
load_record(struct qp__request *r, struct qp__stored_response *out, struct qp_err *err)
{
  struct qp_message *message = NULL;
  enum qp_rc rc = qp_message_load(r->held->context, &out->first, &message, err);

  if (rc)
    return rc;
  out->record = json_incref(json_object_get(message->metadata, "response"));
  out->inputs = (uint64_t)json_integer_value(json_object_get(out->record, "inputs"));
  out->background =
      json_is_true(json_object_get(json_object_get(out->record, "echo"), "background"));
  qp_message_free(message);
  return QP_OK;
}

static enum qp_rc
find(struct qp__request *r, const char *id, struct qp__face *face, struct qp__stored_response *out,
     struct qp_err *err)
{
  uint64_t messages = 0;
  struct qp_uuid context;
  enum qp_rc rc;

  if (strncmp(id, "resp_", 5) != 0 || strlen(id) != 69 || !qp__hex_uuid(id + 5, &context) ||
      !qp__hex_uuid(id + 37, &out->first))
    return QP_NOTFOUND;
  rc = hold(r, &context, err);
  if (!rc && is_deleted(r, id))
    rc = QP_NOTFOUND;
  if (!rc)
    rc = load_record(r, out, err);
  if (!rc)
    rc = qp__face_find_message(r, &out->first,
                               json_string_value(json_object_get(out->record, "branch")),
                               &out->branch, &out->position, &messages, err);
  if (rc)
    return rc;
  if (!out->inputs || out->inputs > out->position + 1)
    out->inputs = 1;
  out->end = out->position + 1;
  out->last = out->first;
  rc = walk_messages(r, face, out, err);
  out->is_head = out->end == messages;
  return rc ? rc : read_state(r, face, out, err);
}

enum qp_rc
qp__stored_response_find(struct qp__request *r, const char *id, struct qp__face *face,
                         struct qp__stored_response *out, struct qp_err *err)
{
  enum qp_rc rc;

  memset(out, 0, sizeof(*out));
  rc = find(r, id, face, out, err);
  return rc == QP_NOTFOUND ? qp__fail(err, rc, "Response with id '%.80s' not found.", id) : rc;
}

void
qp__stored_response_release(struct qp__stored_response *s)
{
  json_decref(s->record);
  s->record = NULL;
}

/* ---- where a new one belongs ---- */

enum qp_rc
qp__response_fail_locked(struct qp__request *r, struct qp_err *err)
{
  r->fail_param = "conversation";
  return qp__request_fail(r, MHD_HTTP_BAD_REQUEST, "LOCKED", err,
                          "another response is being made in this conversation; wait until it is "
                          "complete, or cancel it");
}

void
qp__compaction_ref(const struct qp_uuid *context, const struct qp_uuid *last,
                   char out[QP__COMPACTION_REF])
{
  memcpy(out, "quipu_", 6);
  write_hex(out + 6, context);
  write_hex(out + 38, last);
  out[70] = '\0';
}

/* Holds the context that a compaction item names, and finds its last message. */
static enum qp_rc
find_compaction(struct qp__request *r, const char *ref, struct qp_uuid *at, const char **branch,
                bool *is_head, struct qp_err *err)
{
  struct qp_uuid context;
  uint64_t position = 0;
  uint64_t messages = 0;
  enum qp_rc rc = QP_NOTFOUND;

  if (strncmp(ref, "quipu_", 6) == 0 && strlen(ref) == 70 && qp__hex_uuid(ref + 6, &context) &&
      qp__hex_uuid(ref + 38, at))
    rc = hold(r, &context, err);
  if (!rc)
    rc = qp__face_find_message(r, at, NULL, branch, &position, &messages, err);
  *is_head = position + 1 == messages;
  if (rc == QP_NOTFOUND)
    return qp__wish_refuse(r, err, "input",
                           "the compaction item was not made by this server, or its conversation "
                           "was deleted");
  return rc;
}

static enum qp_rc
place_compaction(struct qp__request *r, const char *ref, struct qp_uuid *at, const char **branch,
                 struct qp_err *err)
{
  bool is_head = false;
  enum qp_rc rc = find_compaction(r, ref, at, branch, &is_head, err);

  if (!rc && !is_head)
    *branch = NULL;
  return rc;
}

enum qp_rc
qp__response_place(struct qp__request *r, const struct qp__response_wish *w, struct qp_uuid *at,
                   const char **branch, struct qp_err *err)
{
  struct qp__stored_response previous;
  enum qp_rc rc;

  if (w->conversation)
    return qp__conversation_find(r, w->conversation, err);
  if (w->compaction)
    return place_compaction(r, w->compaction, at, branch, err);
  if (!w->previous)
    return qp__face_context(r, "new", err);
  rc = qp__stored_response_find(r, w->previous, NULL, &previous, err);
  if (rc == QP_NOTFOUND) {
    r->fail_param = "previous_response_id";
    rc = qp__request_fail(r, MHD_HTTP_BAD_REQUEST, "NO_RESPONSE", err,
                          "Previous response with id '%.80s' not found.", w->previous);
  } else if (!rc && previous.running) {
    rc = qp__response_fail_locked(r, err);
  }
  if (!rc) {
    *at = previous.last;
    *branch = previous.is_head ? previous.branch : NULL;
  }
  qp__stored_response_release(&previous);
  return rc;
}

/* ---- a compaction that is expanded ---- */

/* Puts the messages of a view up to `last` before those of the wish. */
static enum qp_rc
take_view(struct qp__request *r, const json_t *view, const struct qp_uuid *last,
          struct qp__response_wish *w, struct qp_err *err)
{
  json_t *all = json_array();
  const json_t *message;
  char text[QP_UUID_TEXT];
  bool found = false;
  bool good = all != NULL;
  size_t i;

  (void)qp_uuid_text(last, text);
  json_array_foreach (json_object_get(view, "messages"), i, message) {
    const char *id = json_string_value(json_object_get(message, "id"));

    if (found || !good)
      break;
    good = json_array_append(all, (json_t *)message) == 0;
    found = id && strcmp(id, text) == 0;
  }
  good = good && json_array_extend(all, w->wish.messages) == 0;
  if (!good || !found) {
    json_decref(all);
    return good ? qp__wish_refuse(r, err, "input",
                                  "the conversation of the compaction item was compacted again "
                                  "behind it; compact it again, or use \"store\": true")
                : qp__fail_nomem(err, "a compaction");
  }
  json_decref(w->wish.messages);
  w->wish.messages = all;
  return QP_OK;
}

enum qp_rc
qp__compaction_expand(struct qp__request *r, struct qp__response_wish *w, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  struct qp_uuid last;
  const char *branch = NULL;
  char *text = NULL;
  size_t len = 0;
  json_t *view = NULL;
  bool is_head;
  enum qp_rc rc = find_compaction(r, w->compaction, &last, &branch, &is_head, err);

  if (!rc)
    rc = qp__turns_enter(r, &engine, err);
  if (rc)
    return rc;
  rc = qp_engine_view(engine, r->held->context, branch, &text, &len, err);
  qp__turns_leave(r->http);
  if (!rc)
    rc = qp__json_parse_object("the view", (struct qp_bytes){ text, len }, &view, err);
  if (!rc)
    rc = take_view(r, view, &last, w, err);
  json_decref(view);
  qp_free(text);
  return rc;
}

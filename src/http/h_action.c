/* h_action.c - the actions of a context.
 *
 * The response is sent when the turn stops; with "Prefer: respond-async" as soon as the action is
 * durable; with "Accept: text/event-stream" it is the stream of the turn's events. In each case the
 * engine runs the turn: it continues if the client disconnects. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "http/conditional_change.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/quota.h"
#include "http/state.h"
#include "model/message.h"

#define BRANCH_TEXT 256
#define IDS_MAX 256

/* ---- what can be asked ---- */

static const struct qp__body_field send_fields[] = {
  { "content", QP__TYPE_ANY, true, false },
  { "branch", QP__TYPE_STRING, false, true },
  { 0 },
};
static const struct qp__body_field approve_fields[] = {
  { "approved", QP__TYPE_ANY, false, true },
  { "denied", QP__TYPE_ANY, false, true },
  { "reason", QP__TYPE_STRING, false, true },
  { "always", QP__TYPE_BOOL, false, false },
  { 0 },
};
static const struct qp__body_field cancel_fields[] = { { 0 } };
static const struct qp__body_field retry_fields[] = {
  { "branch", QP__TYPE_STRING, false, true },
  { 0 },
};
static const struct qp__body_field regenerate_fields[] = {
  { "message_id", QP__TYPE_UUID, false, true },
  { "branch", QP__TYPE_STRING, false, true },
  { 0 },
};
static const struct qp__body_field edit_fields[] = {
  { "message_id", QP__TYPE_UUID, true, false },
  { "content", QP__TYPE_ANY, true, false },
  { "branch", QP__TYPE_STRING, false, true },
  { 0 },
};
static const struct qp__body_field switch_fields[] = {
  { "branch", QP__TYPE_STRING, true, false },
  { 0 },
};

static const struct qp__body_field *const fields_of[] = {
  [QP_ACTION_SEND_MESSAGE] = send_fields,     [QP_ACTION_APPROVE_TOOLS] = approve_fields,
  [QP_ACTION_CANCEL] = cancel_fields,         [QP_ACTION_RETRY] = retry_fields,
  [QP_ACTION_REGENERATE] = regenerate_fields, [QP_ACTION_EDIT_MESSAGE] = edit_fields,
  [QP_ACTION_SWITCH_BRANCH] = switch_fields,
};

/* The last segment of the route's path names the action. */
static enum qp_action_kind
kind_of(const struct qp__route *route)
{
  enum qp_action_kind kind = QP_ACTION_APPROVE_TOOLS; /* …/tools/approve */

  (void)qp_action_find(strrchr(route->path, '/') + 1, &kind);
  return kind;
}

/* An action between the two halves of the handler; in the arena. */
struct acting {
  struct qp__turn_ticket *ticket; /* until the response; NULL: the turn is not counted */
  struct qp_action action;        /* its strings point into `body` */
  json_t *body;
  struct qp_message *message;
  uint64_t last;
  bool async, streams;
  /* the result */
  char branch[BRANCH_TEXT];
  enum qp_state state;
  struct qp_uuid saved;
  uint64_t seq;
  bool replayed;
};

/* ---- the body ---- */

/* Content is a text, or an array of parts as in a message. */
static enum qp_rc
read_content(struct acting *a, struct qp_err *err)
{
  const json_t *content = json_object_get(a->body, "content");
  json_t *message;
  enum qp_rc rc;

  if (!content)
    return QP_OK;
  if (json_is_string(content)) {
    a->action.text = (struct qp_bytes){ json_string_value(content), json_string_length(content) };
    return QP_OK;
  }
  if (!json_is_array(content) || !json_array_size(content))
    return qp__fail(err, QP_INVALID, "'content' must be a text or a list of content blocks");
  message = json_pack("{s:s, s:O}", "role", "user", "content", content);
  rc = message ? qp__message_from_value("message", message, &a->message, err)
               : qp__fail_nomem(err, "the message");
  a->action.message = a->message;
  json_decref(message);
  return rc;
}

/* Reads a list of call ids. */
static enum qp_rc
read_ids(struct qp__request *r, const struct acting *a, const char *key, const char *const **out,
         size_t *count, struct qp_err *err)
{
  const json_t *list = json_object_get(a->body, key);
  size_t n = json_array_size(list);
  const char **ids;

  if (list && !json_is_null(list) && !json_is_array(list))
    return qp__fail(err, QP_INVALID, "'%s' must be a list of ids of tool calls", key);
  if (n > IDS_MAX)
    return qp__fail(err, QP_TOOBIG, "'%s' names more than %d tool calls", key, IDS_MAX);
  if (n == 0)
    return QP_OK;
  ids = qp__arena_alloc(&r->arena, n * sizeof(*ids));
  if (!ids)
    return qp__fail_nomem(err, "an action");
  for (size_t i = 0; i < n; i++) {
    ids[i] = json_string_value(json_array_get(list, i));
    if (!ids[i])
      return qp__fail(err, QP_INVALID, "'%s' must be a list of ids of tool calls", key);
  }
  *out = ids;
  *count = n;
  return QP_OK;
}

static enum qp_rc
read_body(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  const struct qp__body_field *fields = fields_of[a->action.kind];
  const char *id;
  enum qp_rc rc = qp__request_optional_object(r, fields, &a->body, err);

  if (!rc)
    rc = read_content(a, err);
  if (!rc)
    rc = read_ids(r, a, "approved", &a->action.approved, &a->action.approved_count, err);
  if (!rc)
    rc = read_ids(r, a, "denied", &a->action.denied, &a->action.denied_count, err);
  if (rc)
    return rc;
  a->action.reason = qp__body_string(a->body, "reason");
  a->action.always = json_is_true(json_object_get(a->body, "always"));
  a->action.branch = qp__body_string(a->body, "branch");
  id = qp__body_string(a->body, "message_id");
  return id ? qp_uuid_parse(id, &a->action.target, err) : QP_OK;
}

/* ---- the header ---- */

/* Whether a header, a list with parameters, contains this word. */
static bool
header_has(const struct qp__request *r, const char *header, const char *word)
{
  const char *at = qp__request_header(r, header);
  size_t len = strlen(word);

  for (; at && *at; at += strcspn(at, ","), at += *at == ',') {
    at += strspn(at, " \t");
    if (strncasecmp(at, word, len) == 0 && (!at[len] || strchr(" \t;,", at[len])))
      return true;
  }
  return false;
}

static enum qp_rc
read_header(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  a->action.key = qp__request_header(r, "Idempotency-Key");
  a->streams = header_has(r, "Accept", "text/event-stream");
  a->async = !a->streams && header_has(r, "Prefer", "respond-async");
  a->action.wait = !a->streams && !a->async;
  a->last = QP__LAST_ALL;
  return qp__request_number(r, "last", 0, 1000000, &a->last, err);
}

/* ---- the second half ---- */

/* The state, and the result of the action. */
static enum qp_rc
answer_state(struct qp__request *r, const struct acting *a, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  enum qp_rc rc = qp__state_render(r->held, a->branch, a->last, b, err);

  if (rc)
    return rc;
  b->data[--b->len] = '\0'; /* removes the closing brace, which is added again */
  qp__emit_uuid(b, "message_id", &a->saved);
  qp__emit_uint(b, "seq", a->seq);
  qp__emit_bool(b, "replayed", a->replayed);
  qp__emit_close(b, '}');
  if (a->async) {
    r->reply.status = MHD_HTTP_ACCEPTED;
    qp__reply_header(r, "Preference-Applied", "respond-async");
  }
  return QP_OK;
}

/* A turn that cannot be saved is always 500: its state is Failed and the turn is lost, which is
 * worse than a rejected change. The code says why. */
static void
fail_turn(struct qp__request *r, enum qp_rc rc)
{
  r->fail_status = MHD_HTTP_INTERNAL_SERVER_ERROR;
  r->fail_code = qp_rc_name(rc);
}

static enum qp_rc
answer_action(struct qp__request *r, struct qp_err *err)
{
  const struct acting *a = r->kept;
  enum qp_rc rc = qp__change_told(r->held, r->waited.rc, &r->waited);

  qp__quota_turn_begun(a->ticket, !rc && !qp_state_awaits_client(a->state));
  if (!rc && a->streams && qp_state_awaits_client(a->state))
    qp__stream_close(r->stream);
  if (!rc)
    return a->streams ? QP_OK : answer_state(r, a, err);
  *err = r->waited;
  if (rc == QP_CONFLICT)
    r->fail_state = qp_state_name(a->state);
  if (rc == QP_FULL || rc == QP_DENIED)
    fail_turn(r, rc);
  if (rc == QP_STOPPED && !qp__http_stopping(r->http))
    return qp__fail(err, QP_NOTFOUND, "Context not found: it was deleted in the meantime");
  if (rc == QP_STOPPED)
    return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "STOPPING", err,
                            "the server is stopping; the turn was interrupted");
  return rc;
}

/* ---- the first half ---- */

/* It has stopped, is durable, or has failed: called on the engine's thread. */
static void
end_action(void *arg, const struct qp_action_result *result, enum qp_rc rc,
           const struct qp_err *err)
{
  struct qp__request *r = arg;
  struct acting *a = r->kept;

  (void)snprintf(a->branch, sizeof(a->branch), "%s", result->branch ? result->branch : "");
  a->state = result->state;
  a->saved = result->message;
  a->seq = result->seq;
  a->replayed = result->replayed;
  qp__held_show_now(r->held);
  qp__work_unpark(r, rc, err);
}

/* Passes the action to the engine and parks the request. */
static enum qp_rc
begin_action(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  struct qp__http *http = r->http;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  if (a->action.kind != QP_ACTION_CANCEL && a->action.kind != QP_ACTION_SWITCH_BRANCH)
    rc = qp__quota_turn(r, engine, &a->ticket, err);
  if (rc) {
    qp__turns_leave(http);
    return rc;
  }
  qp__work_park(r, answer_action, false);
  rc = qp_engine_act(engine, &a->action, end_action, r, err);
  if (rc)
    qp__work_unpark(r, rc, err);
  qp__turns_leave(http);
  return QP_OK;
}

enum qp_rc
qp__h_action(struct qp__request *r, struct qp_err *err)
{
  struct acting *a = qp__arena_alloc(&r->arena, sizeof(*a));
  enum qp_rc rc;

  if (!a)
    return qp__fail_nomem(err, "an action");
  memset(a, 0, sizeof(*a));
  r->kept = a;
  a->action.size = sizeof(a->action);
  a->action.kind = kind_of(r->route);
  rc = read_header(r, a, err);
  if (!rc)
    rc = qp__held_get(r, r->params[0], &r->held, err);
  if (!rc)
    rc = read_body(r, a, err);
  if (!rc) {
    a->action.context = r->held->id;
    if (a->streams)
      rc = qp__stream_new(r, QP_SEQ_NOW, true, &r->stream, err);
  }
  if (!rc)
    rc = begin_action(r, a, err);
  qp_message_free(a->message); /* the engine has copied it */
  json_decref(a->body);
  return rc;
}

/* h_action.c - the actions of a context.
 *
 * The response is sent when the turn stops; with "Prefer: respond-async" as soon as the action is
 * durable; with "Accept: text/event-stream" it is the stream of the turn's events. In each case the
 * engine runs the turn: it continues if the client disconnects.
 *
 * The response has the messages of the turn: from the newest message of the user on. "?last=N" and
 * "?messages=all" ask for other ones. Paths that begin with /api answer with all, as ever. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "http/compaction_json.h"
#include "http/conditional_change.h"
#include "http/context_json.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/quota.h"
#include "http/state.h"

#define BRANCH_TEXT 256
#define IDS_MAX 256
#define LAST_TURN (QP__LAST_ALL - 1)
#define TURN_FIRST 32 /* messages in which the beginning of the turn is searched first */
#define TURN_MAX 512  /* messages of a turn that are shown without being asked for */

/* ---- what can be asked ---- */

static const struct qp__body_field send_fields[] = {
  { "content", QP__TYPE_ANY, true, false },
  { "branch", QP__TYPE_STRING, false, true },
  { "tools", QP__TYPE_ANY, false, true },
  { 0 },
};
static const struct qp__body_field approve_fields[] = {
  { "approved", QP__TYPE_ANY, false, true },     { "denied", QP__TYPE_ANY, false, true },
  { "reason", QP__TYPE_STRING, false, true },    { "always", QP__TYPE_BOOL, false, false },
  { "arguments", QP__TYPE_OBJECT, false, true }, { 0 },
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
  { "tools", QP__TYPE_ANY, false, true },
  { 0 },
};
static const struct qp__body_field switch_fields[] = {
  { "branch", QP__TYPE_STRING, true, false },
  { 0 },
};
static const struct qp__body_field submit_fields[] = {
  { "results", QP__TYPE_ANY, true, false },
  { 0 },
};
static const struct qp__body_field compact_fields[] = {
  { "branch", QP__TYPE_STRING, false, true },
  { "up_to", QP__TYPE_UUID, false, true },
  { "instructions", QP__TYPE_STRING, false, true },
  { "dry_run", QP__TYPE_BOOL, false, false },
  { 0 },
};
static const struct qp__body_field summary_fields[] = {
  { "text", QP__TYPE_STRING, true, false },
  { "branch", QP__TYPE_STRING, false, true },
  { 0 },
};
static const struct qp__body_field expand_fields[] = {
  { "from", QP__TYPE_UUID, true, false },
  { "to", QP__TYPE_UUID, true, false },
  { "branch", QP__TYPE_STRING, false, true },
  { 0 },
};
static const struct qp__body_field pin_fields[] = {
  { "message_id", QP__TYPE_UUID, true, false },
  { 0 },
};

static const struct {
  const struct qp__body_field *fields;
  bool calls_model; /* it may, so that it counts as a turn of its owner */
} kinds[] = {
  [QP_ACTION_SEND_MESSAGE] = { send_fields, true },
  [QP_ACTION_APPROVE_TOOLS] = { approve_fields, true },
  [QP_ACTION_CANCEL] = { cancel_fields, false },
  [QP_ACTION_RETRY] = { retry_fields, true },
  [QP_ACTION_REGENERATE] = { regenerate_fields, true },
  [QP_ACTION_EDIT_MESSAGE] = { edit_fields, true },
  [QP_ACTION_SWITCH_BRANCH] = { switch_fields, false },
  [QP_ACTION_SUBMIT_TOOL_RESULTS] = { submit_fields, true },
  [QP_ACTION_COMPACT] = { compact_fields, true },
  [QP_ACTION_UNDO_COMPACT] = { retry_fields, false },
  [QP_ACTION_REDO_COMPACT] = { retry_fields, false },
  [QP_ACTION_EDIT_SUMMARY] = { summary_fields, false },
  [QP_ACTION_EXPAND] = { expand_fields, false },
  [QP_ACTION_PIN] = { pin_fields, false },
  [QP_ACTION_UNPIN] = { pin_fields, false },
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
  uint64_t last; /* newest messages to show; LAST_TURN: those of the turn */
  bool async, streams;
  bool fails; /* a failed turn is an error */
  bool dry_run;
  bool locked; /* the lock of a condition (If-Match) is held until the action is done */
  /* the result */
  char branch[BRANCH_TEXT];
  enum qp_state state;
  struct qp_uuid saved;
  uint64_t seq;
  bool replayed;
  const char *rules; /* JSON, in the arena; or NULL */
};

/* ---- the body ---- */

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

/* One of "results": {"tool_call_id", "result" or "error"}. */
static enum qp_rc
read_result(struct qp__request *r, const json_t *object, struct qp_tool_result *out,
            struct qp_err *err)
{
  const json_t *result = json_object_get(object, "result");
  const json_t *error = json_object_get(object, "error");

  out->request_id = qp__json_text(object, "tool_call_id");
  if (!out->request_id || json_object_size(object) != 2 || !result == !error)
    return qp__fail(err, QP_INVALID,
                    "each of 'results' must have \"tool_call_id\", and either \"result\" or "
                    "\"error\"");
  out->is_error = error != NULL;
  out->result_json = "null";
  return qp__request_write(r, result ? result : error, &out->result_json, err);
}

static enum qp_rc
read_results(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  const json_t *list = json_object_get(a->body, "results");
  size_t n = json_array_size(list);
  struct qp_tool_result *results;
  enum qp_rc rc = QP_OK;

  if (!list)
    return QP_OK;
  if (n == 0)
    return qp__fail(err, QP_INVALID, "'results' must be a list of results, with at least one");
  if (n > IDS_MAX)
    return qp__fail(err, QP_TOOBIG, "'results' has more than %d results", IDS_MAX);
  results = qp__arena_alloc(&r->arena, n * sizeof(*results));
  if (!results)
    return qp__fail_nomem(err, "an action");
  memset(results, 0, n * sizeof(*results));
  for (size_t i = 0; !rc && i < n; i++)
    rc = read_result(r, json_array_get(list, i), &results[i], err);
  a->action.results = results;
  a->action.result_count = n;
  return rc;
}

static enum qp_rc
read_body(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  const struct qp__body_field *fields = kinds[a->action.kind].fields;
  const json_t *summary;
  enum qp_rc rc = qp__request_optional_object(r, fields, &a->body, err);

  if (!rc)
    rc =
        qp__request_content(json_object_get(a->body, "content"), &a->action.text, &a->message, err);
  a->action.message = a->message;
  if (!rc)
    rc = read_ids(r, a, "approved", &a->action.approved, &a->action.approved_count, err);
  if (!rc)
    rc = read_ids(r, a, "denied", &a->action.denied, &a->action.denied_count, err);
  if (!rc)
    rc = qp__request_write(r, json_object_get(a->body, "tools"), &a->action.tools_json, err);
  if (!rc)
    rc =
        qp__request_write(r, json_object_get(a->body, "arguments"), &a->action.arguments_json, err);
  if (!rc)
    rc = read_results(r, a, err);
  if (rc)
    return rc;
  a->action.reason = qp__json_text(a->body, "reason");
  a->action.always = json_is_true(json_object_get(a->body, "always"));
  a->action.branch = qp__json_text(a->body, "branch");
  a->action.instructions = qp__json_text(a->body, "instructions");
  a->dry_run = json_is_true(json_object_get(a->body, "dry_run"));
  summary = json_object_get(a->body, "text");
  if (summary)
    a->action.text = (struct qp_bytes){ json_string_value(summary), json_string_length(summary) };
  qp__body_uuid(a->body, "message_id", &a->action.target);
  qp__body_uuid(a->body, "up_to", &a->action.target);
  qp__body_uuid(a->body, "from", &a->action.target);
  qp__body_uuid(a->body, "to", &a->action.last);
  return QP_OK;
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

/* "messages=all" or "last=N"; the default is the turn. */
static enum qp_rc
read_last(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  bool turn = strcmp(r->segments[0], "api") != 0;
  enum qp_rc rc = qp__request_either(r, "messages", "turn", "all", &turn, err);

  if (rc)
    return rc;
  if (qp__request_query(r, "messages") && qp__request_query(r, "last"))
    return qp__fail(err, QP_INVALID, "give 'last' or 'messages', not both");
  a->last = turn ? LAST_TURN : QP__LAST_ALL;
  return qp__request_number(r, "last", 0, 1000000, &a->last, err);
}

static enum qp_rc
read_header(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  const char *fail = qp__request_query(r, "fail");

  a->action.key = qp__request_header(r, "Idempotency-Key");
  a->streams = header_has(r, "Accept", "text/event-stream");
  a->async = !a->streams && header_has(r, "Prefer", "respond-async");
  a->action.wait = !a->streams && !a->async;
  a->fails = fail != NULL;
  if (fail && strcmp(fail, "error") != 0)
    return qp__fail(err, QP_INVALID, "'fail' must be 'error'");
  return read_last(r, a, err);
}

/* ---- the second half ---- */

struct turn_start {
  uint64_t seen;  /* messages */
  uint64_t since; /* … from the newest of the user on; 0: none was seen */
};

static enum qp_rc
see_role(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct turn_start *start = arg;

  (void)json;
  start->since = info->role == QP_ROLE_USER ? 1 : start->since ? start->since + 1 : 0;
  start->seen++;
  return QP_OK;
}

/* How many messages the turn has so far, at most TURN_MAX. Reads no message. */
static enum qp_rc
count_turn(struct qp__request *r, const char *branch, uint64_t *out, struct qp_err *err)
{
  struct turn_start start = { 0 };
  uint64_t total = 0;
  char *name = NULL;
  enum qp_rc rc = qp__branch_find(r->held->context, branch, &name, &total, err);

  for (uint64_t n = TURN_FIRST; !rc && !start.since; n = TURN_MAX) {
    uint64_t count = n < total ? n : total;

    start = (struct turn_start){ 0 };
    rc = qp_messages_index(r->held->context, name, total - count, count, see_role, &start, err);
    if (n == TURN_MAX || count == total)
      break;
  }
  *out = start.since ? start.since : start.seen;
  qp__free(name);
  return rc;
}

/* For clients that look at the status only. */
static enum qp_rc
fail_failed(struct qp__request *r, struct qp_err *err)
{
  struct qp__brief brief;
  enum qp_rc rc = qp__brief_shown(r->held, &brief, err);
  const json_t *error = json_object_get(brief.state_detail, "error");
  const char *kind = qp__json_text(error, "kind");
  const char *message = qp__json_text(error, "message");

  if (!rc) {
    r->fail_state = qp_state_name(QP_STATE_FAILED);
    rc = qp__request_fail(r, MHD_HTTP_BAD_GATEWAY, "TURN_FAILED", err, "the turn failed (%s): %s",
                          kind ? kind : "unknown", message ? message : "no reason is stored");
  }
  qp__brief_release(&brief);
  return rc;
}

/* The state, and the result of the action. */
static enum qp_rc
answer_state(struct qp__request *r, const struct acting *a, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  uint64_t last = a->last;
  enum qp_rc rc = QP_OK;

  if (a->fails && !a->async && a->state == QP_STATE_FAILED)
    return fail_failed(r, err);
  if (last == LAST_TURN)
    rc = count_turn(r, a->branch, &last, err);
  if (!rc)
    rc = qp__state_render(r->http, r->held, a->branch, last, b, err);
  if (rc)
    return rc;
  b->data[--b->len] = '\0'; /* removes the closing brace, which is added again */
  qp__emit_uuid(b, "message_id", &a->saved);
  qp__emit_uint(b, "seq", a->seq);
  qp__emit_bool(b, "replayed", a->replayed);
  if (a->rules)
    qp__emit_raw(b, "rules", (struct qp_bytes){ a->rules, strlen(a->rules) });
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
  if (result->rules_json)
    a->rules = qp__arena_strdup(&r->arena, result->rules_json);
  if (a->locked)
    qp__change_release(r->held);
  qp__held_show_now(r->held);
  qp__work_unpark(r, rc, err);
}

/* Checks If-Match. No other request changes the context until the action is done; but nobody waits
 * for a model. */
static enum qp_rc
begin_condition(struct qp__request *r, struct acting *a, struct qp_err *err)
{
  enum qp_rc rc = qp__change_begin(r, r->held, err);

  a->locked = !rc && !kinds[a->action.kind].calls_model;
  if (!rc && !a->locked)
    qp__change_release(r->held);
  return rc;
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
  if (qp__request_header(r, "If-Match"))
    rc = begin_condition(r, a, err);
  if (!rc && kinds[a->action.kind].calls_model)
    rc = qp__quota_turn(r, engine, &a->ticket, err);
  if (rc) {
    qp__turns_leave(http);
    return rc;
  }
  qp__work_park(r, answer_action, false);
  rc = qp_engine_act(engine, &a->action, end_action, r, err);
  if (rc && a->locked)
    qp__change_release(r->held);
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
    if (a->streams && !a->dry_run)
      rc = qp__stream_new(r, QP_SEQ_NOW, true, &r->stream, err);
  }
  if (!rc)
    rc = a->dry_run ? qp__compact_plan_answer(r, a->action.branch, &a->action.target, err)
                    : begin_action(r, a, err);
  qp_message_free(a->message); /* the engine has copied it */
  json_decref(a->body);
  return rc;
}

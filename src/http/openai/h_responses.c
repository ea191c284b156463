/* h_responses.c - Responses of OpenAI's API: creating, reading, following, cancelling, deleting. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "compact/count.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/face/exchange.h"
#include "http/face/face_turn.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/openai/item.h"
#include "http/openai/responses_form.h"
#include "http/openai/responses_request.h"
#include "http/openai/stored_response.h"
#include "model/message.h"

#define SEQ_MAX 9007199254740991

/* ---- create: where it belongs ---- */

static bool
is_role(const json_t *message, const char *role)
{
  const char *own = json_string_value(json_object_get(message, "role"));

  return own && strcmp(own, role) == 0;
}

/* The calls that wait in the context, by id: new. */
static enum qp_rc
read_waiting(struct qp__request *r, json_t **detail, struct qp_err *err)
{
  struct qp_context_info *info = NULL;
  enum qp_rc rc = qp_context_info_new(r->held->context, &info, err);

  *detail = NULL;
  if (!rc && info->state == QP_STATE_AWAITING_TOOL_APPROVAL && info->state_detail_json)
    rc = qp__json_parse_object(
        "the state", (struct qp_bytes){ info->state_detail_json, strlen(info->state_detail_json) },
        detail, err);
  else if (!rc && !qp_state_awaits_client(info->state))
    rc = qp__response_fail_locked(r, err);
  qp_free(info);
  return rc;
}

static size_t
count_results(const json_t *messages)
{
  size_t n = 0;

  for (size_t i = 0; i < json_array_size(messages); i++)
    n += is_role(json_array_get(messages, i), "tool");
  return n;
}

static enum qp_rc
plan_approvals(struct qp__request *r, const json_t *approvals, struct qp__face_plan *plan,
               struct qp_err *err)
{
  size_t n = json_array_size(approvals);
  const char **approved = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*approved));
  const char **denied = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*denied));

  if (!approved || !denied)
    return qp__fail_nomem(err, "approvals");
  for (size_t i = 0; i < n; i++) {
    const json_t *one = json_array_get(approvals, i);
    const char *call = qp__arena_strdup(&r->arena, json_string_value(json_object_get(one, "call")));

    if (!call)
      return qp__fail_nomem(err, "approvals");
    if (json_is_true(json_object_get(one, "approve")))
      approved[plan->approved_count++] = call;
    else
      denied[plan->denied_count++] = call;
    if (json_object_get(one, "reason"))
      plan->reason = qp__arena_strdup(&r->arena, json_string_value(json_object_get(one, "reason")));
  }
  plan->approved = approved;
  plan->denied = denied;
  return QP_OK;
}

static enum qp_rc
last_of_branch(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)json;
  *(struct qp_uuid *)arg = info->id;
  return QP_OK;
}

/* The input answers calls that wait: their results, or approvals. */
static enum qp_rc
plan_answers(struct qp__request *r, const struct qp__response_wish *w, const char *branch,
             struct qp__face_plan *plan, struct qp_err *err)
{
  plan->branch = branch;
  if (w->approvals) {
    enum qp_rc rc =
        qp_messages_last(r->held->context, branch, 1, last_of_branch, &plan->start, err);

    return rc ? rc : plan_approvals(r, w->approvals, plan, err);
  }
  plan->results = json_incref(w->wish.messages);
  return QP_OK;
}

/* The messages of the input, and the settings in the last of them. */
static enum qp_rc
plan_input(struct qp__request *r, const struct qp__response_wish *w, const char *branch,
           struct qp__face_plan *plan, struct qp_err *err)
{
  size_t n = json_array_size(w->wish.messages);
  size_t inputs = 0;
  const json_t *last = NULL;
  enum qp_rc rc;

  plan->branch = branch;
  plan->before = json_array();
  for (size_t i = 0; plan->before && i < n; i++) {
    json_t *message = json_array_get(w->wish.messages, i);

    if (is_role(message, "system"))
      continue; /* a part of the instructions */
    inputs++;
    if (last && json_array_append(plan->before, (json_t *)last))
      return qp__fail_nomem(err, "the input");
    last = message;
  }
  if (!plan->before)
    return qp__fail_nomem(err, "the input");
  if (!last || is_role(last, "assistant"))
    return qp__wish_refuse(r, err, "input",
                           "\"input\" must end with a message of the user or an output of a call");
  if (is_role(last, "tool")) /* the calls do not wait any more: the model is asked again */
    return json_array_append(plan->before, (json_t *)last) ? qp__fail_nomem(err, "the input")
                                                           : QP_OK;
  plan->send = qp__json_copy(last);
  plan->tools = w->wish.tools;
  if (!plan->send)
    return qp__fail_nomem(err, "the input");
  rc = qp__face_settings(r, &w->wish, w->server_tools, plan->send, err);
  if (!rc && !qp__wish_set(json_object_get(plan->send, "metadata"), "response",
                           qp__json_pack_set("{s:O, s:I, s:s?}", "echo", w->echo, "inputs",
                                             (json_int_t)inputs, "branch", branch)))
    rc = qp__fail_nomem(err, "the input");
  return rc;
}

static enum qp_rc
make_plan(struct qp__request *r, struct qp__exchange *x, const struct qp__response_wish *w,
          struct qp__face_plan *plan, bool *repeated, struct qp_err *err)
{
  struct qp_uuid at = { { 0 } };
  const char *branch = NULL;
  const char *waiting;
  json_t *detail = NULL;
  size_t results = count_results(w->wish.messages);
  enum qp_rc rc = qp__response_place(r, w, &at, &branch, err);
  bool here;

  if (!rc) {
    x->context = r->held->id;
    rc = qp__face_repeat(r, x, &w->wish, repeated, err);
  }
  if (rc || *repeated)
    return rc;
  rc = read_waiting(r, &detail, err);
  if (rc)
    return rc;
  waiting = json_string_value(json_object_get(detail, "branch"));
  here = detail && (w->conversation || (branch && waiting && strcmp(branch, waiting) == 0));
  if (here && (w->approvals || (results && results == json_array_size(w->wish.messages)))) {
    rc = plan_answers(r, w, branch, plan, err);
  } else if (here && !results) {
    rc = qp__wish_refuse(r, err, "input", "No tool output found for function call %.80s.",
                         json_string_value(json_object_get(
                             json_array_get(json_object_get(detail, "pending"), 0), "id")));
  } else {
    plan->cancel = detail != NULL;
    if (!qp_uuid_is_none(&at) && (!branch || here))
      rc = qp__face_fork(r, &at, &branch, err);
    if (!rc)
      rc = plan_input(r, w, branch, plan, err);
  }
  json_decref(detail);
  return rc;
}

/* ---- create ---- */

/* The message that begins the response is stored: its id is known. */
static bool
begin_response(struct qp__exchange *x, const struct qp_uuid *id)
{
  const struct qp__response *p = x->face.own;

  qp__response_id(&x->context, id, x->face.id);
  if (x->face.streams)
    qp__face_begin(&x->face);
  if (x->face.streams || !p->background)
    return false;
  qp__response_emit(&x->face, NULL, "queued");
  return true;
}

static enum qp_rc
create(struct qp__request *r, struct qp__response_wish *w, struct qp__exchange *x,
       struct qp_err *err)
{
  struct qp__response *p = qp__response_new(json_incref(w->echo));
  struct qp__face_plan plan = { .branch = NULL };
  bool repeated = false;
  enum qp_rc rc;

  if (!p)
    return qp__fail_nomem(err, "a response");
  p->background = w->background;
  x->face.own = p;
  x->release_own = qp__response_free;
  (void)snprintf(x->face.model, sizeof(x->face.model), "%s", w->wish.model);
  x->client_tools = qp__wish_tool_names(&w->wish);
  if (!x->client_tools)
    return qp__fail_nomem(err, "the tools");
  if (!w->store) {
    rc = w->compaction ? qp__compaction_expand(r, w, err) : QP_OK;
    return rc ? rc : qp__exchange_ask(r, x, &w->wish, err);
  }
  x->face.client_tools = x->client_tools;
  x->first = begin_response;
  rc = make_plan(r, x, w, &plan, &repeated, err);
  if (!rc && !repeated)
    rc = qp__face_turn_run(r, x, &plan, err);
  qp__face_plan_release(&plan);
  return rc;
}

enum qp_rc
qp__h_response_create(struct qp__request *r, struct qp_err *err)
{
  struct qp__response_wish w = { .store = true };
  struct qp__exchange *x = NULL;
  json_t *body = NULL;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &body, err);

  qp__wish_init(&w.wish, "openai");
  if (!rc)
    rc = qp__response_request_read(r, body, &w, err);
  if (!rc)
    rc = qp__exchange_new(r, &qp__responses_form, "resp_", w.wish.stream, &x, err);
  if (!rc) {
    rc = create(r, &w, x, err);
    if (rc)
      qp__exchange_drop(r, x);
  }
  qp__response_wish_release(&w);
  json_decref(body);
  return rc;
}

/* ---- reading ---- */

/* An empty response with the fields that every one has. */
static struct qp__response *
new_response(struct qp_err *err)
{
  struct qp__response_wish w = { .store = true };
  struct qp__response *p = NULL;
  json_t *body = json_object();

  qp__wish_init(&w.wish, "openai");
  if (body && qp__response_request_read(NULL, body, &w, err) == QP_OK)
    p = qp__response_new(json_incref(w.echo));
  qp__response_wish_release(&w);
  json_decref(body);
  return p;
}

static const char *
status_of(const struct qp__face *f, const struct qp__stored_response *s)
{
  const struct qp__response *p = f->own;

  if (s->running)
    return "in_progress";
  if (p->failed)
    return "failed";
  if (f->cancelled)
    return "cancelled";
  return f->stop == QP__LLM_STOP_LENGTH ? "incomplete" : "completed";
}

/* A stored response as the body of the reply. */
static enum qp_rc
answer_stored(struct qp__request *r, const char *id, struct qp_err *err)
{
  struct qp__stored_response s = { .record = NULL };
  struct qp__response *p = new_response(err);
  struct qp__face f;
  enum qp_rc rc;

  if (!p)
    return qp__fail_nomem(err, "a response");
  qp__face_init(&f, &qp__responses_form, "resp_");
  f.own = p;
  (void)snprintf(f.id, sizeof(f.id), "%s", id);
  rc = qp__stored_response_find(r, id, &f, &s, err);
  if (!rc) {
    json_t *echo = json_object_get(s.record, "echo");
    struct qp_message_info info;

    if (echo) {
      json_decref(p->echo);
      p->echo = json_incref(echo);
    }
    rc = qp_message_find(r->held->context, &s.first, &info, err);
    f.created = rc ? 0 : info.created_at / 1000;
  }
  if (!rc) {
    qp__response_emit(&f, NULL, status_of(&f, &s));
    (void)qp__buf_add(&r->reply.body, f.out.data, f.out.len);
    if (f.out.rc)
      rc = qp__fail_nomem(err, "a response");
  }
  qp__stored_response_release(&s);
  qp__face_release(&f);
  qp__response_free(p);
  return rc;
}

/* ---- following ---- */

/* Names of the functions of the client, as qp__wish_tool_names(). */
static char **
tool_names(const json_t *tools)
{
  struct qp__wish w;
  char **names = NULL;

  qp__wish_init(&w, "openai");
  w.tools = json_array();
  for (size_t i = 0; i < json_array_size(tools); i++) {
    json_t *tool = json_array_get(tools, i);

    if (json_is_string(json_object_get(tool, "name")))
      (void)json_array_append(w.tools, tool);
  }
  if (w.tools)
    names = qp__wish_tool_names(&w);
  qp__wish_release(&w);
  return names;
}

/* Its events are not in the log any more: the shortest stream. */
static enum qp_rc
stream_stored(struct qp__request *r, struct qp__exchange *x, const char *id, struct qp_err *err)
{
  struct qp__stored_response s;
  enum qp_rc rc = qp__stored_response_find(r, id, &x->face, &s, err);

  qp__stored_response_release(&s);
  if (rc)
    return rc;
  x->request = NULL;
  qp__exchange_end(x, NULL);
  r->stream = x->stream;
  r->kept = NULL;
  return QP_OK;
}

static enum qp_rc
begin_stream(struct qp__request *r, struct qp__exchange *x, uint64_t after, struct qp_err *err)
{
  struct qp__stored_response s;
  struct qp__response *p = new_response(err);
  struct qp_message_info info;
  uint64_t seq;
  enum qp_rc rc;

  if (!p)
    return qp__fail_nomem(err, "a response");
  p->after = after;
  x->face.own = p;
  x->release_own = qp__response_free;
  x->first = begin_response;
  (void)snprintf(x->face.id, sizeof(x->face.id), "%s", r->params[0]);
  rc = qp__stored_response_find(r, r->params[0], NULL, &s, err);
  if (!rc)
    rc = qp_message_find(r->held->context, &s.first, &info, err);
  if (!rc) {
    json_t *echo = json_object_get(s.record, "echo");

    p->background = s.background;
    x->face.created = info.created_at / 1000;
    x->context = r->held->id;
    if (echo) {
      json_decref(p->echo);
      p->echo = json_incref(echo);
      x->client_tools = tool_names(json_object_get(echo, "tools"));
      x->face.client_tools = x->client_tools;
    }
    seq = qp__face_find_event(r, &s.first, NULL);
    rc = seq ? qp__face_turn_follow(r, x, seq - 1, 0, err) : stream_stored(r, x, r->params[0], err);
  }
  qp__stored_response_release(&s);
  return rc;
}

enum qp_rc
qp__h_response_get(struct qp__request *r, struct qp_err *err)
{
  struct qp__exchange *x = NULL;
  uint64_t after = 0;
  bool given = qp__request_query(r, "starting_after") != NULL;
  bool stream = false;
  enum qp_rc rc = qp__request_flag(r, "stream", &stream, err);

  if (!rc)
    rc = qp__request_number(r, "starting_after", 0, SEQ_MAX, &after, err);
  if (rc)
    return rc;
  if (!stream)
    return answer_stored(r, r->params[0], err);
  rc = qp__exchange_new(r, &qp__responses_form, "resp_", true, &x, err);
  if (!rc) {
    rc = begin_stream(r, x, given ? after + 1 : 0, err);
    if (rc)
      qp__exchange_drop(r, x);
  }
  return rc;
}

/* ---- cancel and delete ---- */

static enum qp_rc
answer_cancel(struct qp__request *r, struct qp_err *err)
{
  qp__held_put(r->held);
  r->held = NULL;
  return answer_stored(r, r->params[0], err); /* whatever came first: its end or the cancel */
}

static void
end_cancel(void *arg, const struct qp_action_result *result, enum qp_rc rc,
           const struct qp_err *err)
{
  (void)result;
  (void)rc;
  (void)err;
  qp__work_unpark(arg, QP_OK, NULL);
}

enum qp_rc
qp__h_response_cancel(struct qp__request *r, struct qp_err *err)
{
  struct qp__stored_response s;
  struct qp_engine *engine = NULL;
  struct qp_action action = { .size = sizeof(action), .kind = QP_ACTION_CANCEL, .wait = true };
  enum qp_rc rc = qp__stored_response_find(r, r->params[0], NULL, &s, err);
  bool running = s.running;
  bool background = s.background;

  qp__stored_response_release(&s);
  if (rc)
    return rc;
  if (!background)
    return qp__wish_refuse(r, err, NULL,
                           "Only responses created with \"background\": true can be cancelled; "
                           "close the stream, or cancel the turn of the context");
  if (!running)
    return answer_cancel(r, err);
  rc = qp__turns_enter(r, &engine, err);
  if (rc)
    return rc;
  action.context = r->held->id;
  qp__work_park(r, answer_cancel, false);
  rc = qp_engine_act(engine, &action, end_cancel, r, err);
  if (rc)
    r->then = NULL;
  qp__turns_leave(r->http);
  return rc;
}

/* The messages stay: they are history. The response cannot be read or continued any more. */
enum qp_rc
qp__h_response_delete(struct qp__request *r, struct qp_err *err)
{
  struct qp__stored_response s;
  char *text = NULL;
  size_t len = 0;
  json_t *metadata = NULL;
  json_t *deleted = NULL;
  struct qp__buf patch;
  enum qp_rc rc = qp__stored_response_find(r, r->params[0], NULL, &s, err);

  qp__stored_response_release(&s);
  qp__buf_init(&patch, (size_t)16 << 20);
  if (!rc)
    rc = qp_context_summary(r->held->context, &text, &len, err);
  if (!rc)
    rc = qp__json_parse_object("the metadata", (struct qp_bytes){ text, len }, &metadata, err);
  if (!rc) {
    const json_t *before = json_object_get(metadata, "deleted_responses");

    deleted = before ? qp__json_copy(before) : json_object();
    if (!deleted || json_object_set_new(deleted, r->params[0] + 37, json_true()))
      rc = qp__fail_nomem(err, "deleting a response");
  }
  if (!rc) {
    (void)qp__buf_add_str(&patch, "{\"deleted_responses\":");
    (void)qp__json_write(&patch, deleted);
    (void)qp__buf_add_char(&patch, '}');
    rc = qp__buf_check(&patch, "the metadata", err);
  }
  if (!rc)
    rc = qp_context_update(r->held->context, qp__buf_bytes(&patch), err);
  if (!rc) {
    qp__emit_open(&r->reply.body, NULL, '{');
    qp__emit_str(&r->reply.body, "id", r->params[0]);
    qp__emit_str(&r->reply.body, "object", "response");
    qp__emit_bool(&r->reply.body, "deleted", true);
    qp__emit_close(&r->reply.body, '}');
  }
  qp__buf_release(&patch);
  json_decref(deleted);
  json_decref(metadata);
  qp_free(text);
  return rc;
}

/* ---- input ---- */

enum qp_rc
qp__h_response_inputs(struct qp__request *r, struct qp_err *err)
{
  struct qp__stored_response s;
  enum qp_rc rc = qp__stored_response_find(r, r->params[0], NULL, &s, err);

  if (!rc)
    rc = qp__items_answer(r, s.branch, s.position + 1 - s.inputs, s.inputs, err);
  qp__stored_response_release(&s);
  return rc;
}

/* By our own estimate. */
enum qp_rc
qp__h_response_count(struct qp__request *r, struct qp_err *err)
{
  struct qp__response_wish w = { .store = true };
  struct qp__llm_tool *tools = NULL;
  json_t *body = NULL;
  size_t n = 0;
  int64_t tokens = 0;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &body, err);

  qp__wish_init(&w.wish, "openai");
  if (!rc)
    rc = qp__response_request_read(r, body, &w, err);
  if (!rc && (w.previous || w.conversation || w.compaction))
    rc = qp__wish_refuse(r, err, w.previous ? "previous_response_id" : "conversation",
                         "only the input itself can be counted");
  if (!rc)
    rc = qp__wish_tools(r, &w.wish, &tools, &n, err);
  if (!rc && w.wish.system)
    tokens += qp__count_text((struct qp_bytes){ w.wish.system, strlen(w.wish.system) });
  for (size_t i = 0; !rc && i < json_array_size(w.wish.messages); i++) {
    struct qp_message *message = NULL;

    rc = qp__message_from_value("input", json_array_get(w.wish.messages, i), &message, err);
    tokens += rc ? 0 : qp__count_message(message);
    qp_message_free(message);
  }
  if (!rc) {
    qp__emit_open(&r->reply.body, NULL, '{');
    qp__emit_str(&r->reply.body, "object", "response.input_tokens");
    qp__emit_uint(&r->reply.body, "input_tokens", (uint64_t)(tokens + qp__count_tools(tools, n)));
    qp__emit_close(&r->reply.body, '}');
  }
  qp__response_wish_release(&w);
  json_decref(body);
  return rc;
}

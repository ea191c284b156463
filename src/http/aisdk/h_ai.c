/* h_ai.c - the backend of useChat: POST /ai/chat and what belongs to it.
 *
 * The chat's id is the name of a context (face_turn.h). The client sends all its messages; only the
 * last one is new, and only what is stored counts as history: the answer before the last message
 * says where it belongs. If more follows it in the context, an earlier message was edited, and the
 * turn is on a new branch. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "http/aisdk/ui_form.h"
#include "http/aisdk/ui_message.h"
#include "http/context_json.h"
#include "http/engine_use.h"
#include "http/face/exchange.h"
#include "http/face/face_turn.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/openai/chat_request.h"

#define PARTS_MAX 4096

static bool
is(const char *a, const char *b)
{
  return a && strcmp(a, b) == 0;
}

/* ---- where a message belongs ---- */

struct tail {
  struct qp_uuid last;   /* of the turn */
  struct qp_uuid answer; /* its first one */
};

static enum qp_rc
see_tail(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct tail *t = arg;

  (void)json;
  if (info->role == QP_ROLE_USER)
    return QP_STOPPED;
  t->last = info->id;
  if (info->role == QP_ROLE_ASSISTANT && qp_uuid_is_none(&t->answer))
    t->answer = info->id;
  return QP_OK;
}

/* The end of the turn that began with `first`. */
static enum qp_rc
find_tail(struct qp__request *r, const struct qp_uuid *first, struct tail *out, struct qp_err *err)
{
  const char *branch = NULL;
  uint64_t position = 0;
  uint64_t messages = 0;
  enum qp_rc rc = qp__face_find_message(r, first, NULL, &branch, &position, &messages, err);

  *out = (struct tail){ .last = *first };
  if (!rc)
    rc = qp_messages_index(r->held->context, branch, position + 1, UINT64_MAX, see_tail, out, err);
  return rc == QP_STOPPED ? QP_OK : rc;
}

/* The branch for a message behind the last answer of the client's list. */
static enum qp_rc
place_message(struct qp__request *r, const json_t *messages, const char **branch,
              struct qp_err *err)
{
  struct qp_uuid none = { { 0 } };
  struct tail tail;

  for (size_t i = json_array_size(messages) - 1; i-- > 0;) {
    const json_t *ui = json_array_get(messages, i);
    const char *id = qp__json_text(ui, "id");
    struct qp_uuid first;

    if (!is(qp__json_text(ui, "role"), "assistant"))
      continue;
    if (!id || !qp__ui_turn_parse(id, &first) || find_tail(r, &first, &tail, NULL))
      return QP_OK; /* not an answer of this context: what the client says of it does not count */
    return qp__face_branch(r, &tail.last, branch, err);
  }
  return qp__face_branch(r, &none, branch, err); /* the first message, or another first message */
}

/* ---- the plan ---- */

static enum qp_rc
plan_message(struct qp__request *r, const json_t *body, const struct qp__wish *w,
             struct qp__face_plan *plan, struct qp_err *err)
{
  const json_t *messages = json_object_get(body, "messages");
  size_t last = json_array_size(messages) - 1;
  char at[40];
  enum qp_rc rc;

  (void)snprintf(at, sizeof(at), "messages[%zu]", last);
  rc = qp__ui_message_read(r, json_array_get(messages, last), at, &plan->send, err);
  if (!rc)
    rc = place_message(r, messages, &plan->branch, err);
  if (!rc)
    rc = qp__face_settings(r, w, true, plan->send, err);
  plan->tools = w->tools;
  plan->cancel = qp_context_state(r->held->context) == QP_STATE_AWAITING_TOOL_APPROVAL;
  return rc;
}

struct answers {
  const char **approved, **denied, **submitted;
  size_t approved_count, denied_count, submitted_count;
};

/* What the client says of one call that waits. */
static enum qp_rc
read_tool_part(struct qp__request *r, const json_t *part, const char *id, struct answers *a,
               struct qp__face_plan *plan, struct qp_err *err)
{
  const char *state = qp__json_text(part, "state");
  const json_t *approval = json_object_get(part, "approval");
  json_t *output = json_object_get(part, "output");
  const char *error = qp__json_text(part, "errorText");
  bool failed = is(state, "output-error");

  if (is(state, "approval-responded") && json_is_boolean(json_object_get(approval, "approved"))) {
    if (json_is_true(json_object_get(approval, "approved")))
      a->approved[a->approved_count++] = id;
    else
      a->denied[a->denied_count++] = id;
    if (qp__json_text(approval, "reason"))
      plan->reason = qp__arena_strdup(&r->arena, qp__json_text(approval, "reason"));
    return QP_OK;
  }
  if (!is(state, "output-available") && !failed)
    return QP_OK;
  if (!plan->results)
    plan->results = json_array();
  a->submitted[a->submitted_count++] = id;
  if (!qp__wish_add(plan->results, json_pack("{s:s, s:{s:s, s:o, s:b}}", "role", "tool",
                                             "tool_result", "request_id", id, "result",
                                             failed ? json_string(error ? error : "the tool failed")
                                             : output ? json_incref(output)
                                                      : json_null(),
                                             "is_error", failed)))
    return qp__fail_nomem(err, "results of tools");
  return QP_OK;
}

/* The calls that wait are those of the stored turn, whatever the client sends. */
static enum qp_rc
read_answers(struct qp__request *r, const json_t *ui, const json_t *pending, struct answers *a,
             struct qp__face_plan *plan, struct qp_err *err)
{
  const json_t *parts = json_object_get(ui, "parts");
  size_t n = json_array_size(parts) < PARTS_MAX ? json_array_size(parts) : PARTS_MAX;
  enum qp_rc rc = QP_OK;

  a->approved = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*a->approved));
  a->denied = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*a->denied));
  a->submitted = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*a->submitted));
  if (!a->approved || !a->denied || !a->submitted)
    return qp__fail_nomem(err, "results of tools");
  for (size_t i = 0; !rc && i < n; i++) {
    const json_t *part = json_array_get(parts, i);
    const char *id = qp__json_text(part, "toolCallId");

    for (size_t j = 0; !rc && id && j < json_array_size(pending); j++)
      if (is(qp__json_text(json_array_get(pending, j), "id"), id))
        rc = read_tool_part(r, part, qp__arena_strdup(&r->arena, id), a, plan, err);
  }
  a->approved[a->approved_count] = a->denied[a->denied_count] = NULL;
  a->submitted[a->submitted_count] = NULL;
  return rc;
}

static enum qp_rc
see_last(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)json;
  *(struct qp_uuid *)arg = info->id;
  return QP_OK;
}

/* One allocation with the strings in it. */
static char **
copy_list(const char **list, size_t count)
{
  size_t bytes = (count + 1) * sizeof(char *);
  char **copy;
  char *at;

  for (size_t i = 0; i < count; i++)
    bytes += strlen(list[i]) + 1;
  copy = qp__alloc(bytes);
  if (!copy)
    return NULL;
  at = (char *)(copy + count + 1);
  for (size_t i = 0; i < count; i++) {
    copy[i] = memcpy(at, list[i], strlen(list[i]) + 1);
    at += strlen(list[i]) + 1;
  }
  copy[count] = NULL;
  return copy;
}

/* The last message is an answer: the client has decided about its calls, or has run them. */
static enum qp_rc
plan_answers(struct qp__request *r, const json_t *ui, struct qp__exchange *x,
             struct qp__face_plan *plan, struct qp_err *err)
{
  struct qp__ui_answer *own = x->face.own;
  struct qp_context_info *info = NULL;
  struct answers a = { .approved_count = 0 };
  json_t *detail = NULL;
  enum qp_rc rc = qp_context_info_new(r->held->context, &info, err);

  if (!rc && info->state_detail_json)
    rc = qp__json_parse_object(
        "the state", (struct qp_bytes){ info->state_detail_json, strlen(info->state_detail_json) },
        &detail, err);
  if (!rc)
    rc = read_answers(r, ui, json_object_get(detail, "pending"), &a, plan, err);
  if (!rc && !plan->results && !a.approved_count && !a.denied_count)
    rc = qp__wish_refuse(r, err, "messages",
                         "the last message must answer a tool call that is pending in this chat");
  if (!rc) {
    plan->approved = a.approved;
    plan->approved_count = a.approved_count;
    plan->denied = a.denied;
    plan->denied_count = a.denied_count;
    own->denied = copy_list(a.denied, a.denied_count);
    own->submitted = copy_list(a.submitted, a.submitted_count);
    if (!own->denied || !own->submitted)
      rc = qp__fail_nomem(err, "results of tools");
  }
  if (!rc)
    rc = qp_messages_last(r->held->context, qp__json_text(detail, "branch"), 1, see_last,
                          &plan->start, err);
  json_decref(detail);
  qp_free(info);
  return rc;
}

/* Another answer: to the turn whose answer the client has removed, or to the last one. */
static enum qp_rc
plan_regenerate(struct qp__request *r, const json_t *body, struct qp__face_plan *plan,
                struct qp_err *err)
{
  const char *removed = qp__json_text(body, "messageId");
  struct qp_uuid first;
  struct tail tail;
  enum qp_rc rc;

  plan->cancel = qp_context_state(r->held->context) == QP_STATE_AWAITING_TOOL_APPROVAL;
  plan->again = true;
  if (!removed || !qp__ui_turn_parse(removed, &first))
    return QP_OK;
  rc = find_tail(r, &first, &tail, err);
  if (!rc) {
    plan->regenerate = tail.answer;
    plan->start = first;
  }
  return rc;
}

/* ---- POST /ai/chat ---- */

static bool
begin_answer(struct qp__exchange *x, const struct qp_uuid *id)
{
  if (!x->face.id[0])
    qp__ui_turn_id(id, x->face.id);
  qp__face_begin(&x->face);
  return false;
}

/* Tools that the page runs: a list of functions, or an object of them by name. */
static enum qp_rc
read_tools(struct qp__request *r, const json_t *tools, struct qp__wish *w, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (tools && !json_is_null(tools) &&
      (!json_is_array(tools) || json_array_size(tools) > QP__WISH_TOOLS_MAX))
    return qp__wish_refuse(r, err, "tools", "\"tools\" must be a list of at most %d tools",
                           QP__WISH_TOOLS_MAX);
  for (size_t i = 0; !rc && i < json_array_size(tools); i++)
    rc = qp__openai_tool(r, json_array_get(tools, i), "tools", w, err);
  return rc;
}

static enum qp_rc
read_body(struct qp__request *r, const json_t *body, struct qp__wish *w, struct qp_err *err)
{
  static const struct qp__field_rule rules[] = {
    { "id", QP__FIELD_READ },        { "messages", QP__FIELD_READ }, { "trigger", QP__FIELD_READ },
    { "messageId", QP__FIELD_READ }, { "model", QP__FIELD_READ },    { "system", QP__FIELD_READ },
    { "tools", QP__FIELD_READ },     { NULL, QP__FIELD_IGNORE },
  };
  const json_t *messages = json_object_get(body, "messages");
  const char *trigger = qp__json_text(body, "trigger");
  const char *id = qp__json_text(body, "id");
  enum qp_rc rc = qp__wish_fields(r, body, rules, w, err);

  if (rc)
    return rc;

  if (!id || !*id || strlen(id) > 200)
    return qp__wish_refuse(r, err, "id", "\"id\" must be the id of the chat, 1 to 200 bytes");
  if (!json_array_size(messages) || json_array_size(messages) > QP__WISH_MESSAGES_MAX)
    return qp__wish_refuse(r, err, "messages", "\"messages\" must be a list of UI messages");
  if (trigger && !is(trigger, "submit-message") && !is(trigger, "regenerate-message"))
    return qp__wish_refuse(r, err, "trigger", "unknown trigger '%.60s'", trigger);
  w->context = id;
  w->model = qp__json_text(body, "model") ? qp__json_text(body, "model") : "";
  w->system = qp__json_text(body, "system");
  return read_tools(r, json_object_get(body, "tools"), w, err);
}

static enum qp_rc
make_plan(struct qp__request *r, const json_t *body, const struct qp__wish *w,
          struct qp__exchange *x, struct qp__face_plan *plan, struct qp_err *err)
{
  const json_t *messages = json_object_get(body, "messages");
  const json_t *last = json_array_get(messages, json_array_size(messages) - 1);

  if (is(qp__json_text(body, "trigger"), "regenerate-message"))
    return plan_regenerate(r, body, plan, err);
  if (!is(qp__json_text(last, "role"), "assistant"))
    return plan_message(r, body, w, plan, err);
  (void)snprintf(x->face.id, sizeof(x->face.id), "%.90s",
                 qp__json_text(last, "id") ? qp__json_text(last, "id") : "");
  return plan_answers(r, last, x, plan, err);
}

static enum qp_rc
new_exchange(struct qp__request *r, struct qp__exchange **out, struct qp_err *err)
{
  enum qp_rc rc = qp__exchange_new(r, &qp__ui_form, "", true, out, err);

  if (rc)
    return rc;
  (*out)->face.id[0] = '\0';
  (*out)->first = begin_answer;
  (*out)->release_own = qp__ui_answer_free;
  (*out)->face.own = qp__ui_answer_new();
  if (!(*out)->face.own) {
    qp__exchange_drop(r, *out);
    return qp__fail_nomem(err, "an answer");
  }
  qp__reply_header(r, "x-vercel-ai-ui-message-stream", "v1");
  return QP_OK;
}

static enum qp_rc
chat(struct qp__request *r, const json_t *body, const struct qp__wish *w, struct qp__exchange *x,
     struct qp_err *err)
{
  struct qp__face_plan plan = { .branch = NULL };
  enum qp_rc rc = qp__face_context(r, w->context, err);

  if (!rc) {
    x->client_tools = qp__wish_tool_names(w);
    x->face.client_tools = x->client_tools;
    rc = x->client_tools ? make_plan(r, body, w, x, &plan, err) : qp__fail_nomem(err, "the tools");
  }
  if (!rc)
    rc = qp__face_turn_run(r, x, &plan, err);
  qp__face_plan_release(&plan);
  return rc;
}

enum qp_rc
qp__h_ai_chat(struct qp__request *r, struct qp_err *err)
{
  struct qp__exchange *x = NULL;
  struct qp__wish wish;
  json_t *body = NULL;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &body, err);

  qp__wish_init(&wish, "openai");
  if (!rc)
    rc = read_body(r, body, &wish, err);
  if (!rc)
    rc = new_exchange(r, &x, err);
  if (!rc) {
    rc = chat(r, body, &wish, x, err);
    if (rc)
      qp__exchange_drop(r, x);
  }
  qp__wish_release(&wish);
  json_decref(body);
  return rc;
}

/* ---- reconnecting, loading, stopping ---- */

struct newest {
  struct qp_uuid user;
};

static enum qp_rc
see_user(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct newest *n = arg;

  (void)json;
  if (info->role == QP_ROLE_USER)
    n->user = info->id;
  return QP_OK;
}

/* The message that began the running turn. */
static enum qp_rc
find_running(struct qp__request *r, struct qp_uuid *out, struct qp_err *err)
{
  struct qp_context_info *info = NULL;
  struct newest newest = { { { 0 } } };
  json_t *detail = NULL;
  char *branch = NULL;
  uint64_t end = 0;
  enum qp_rc rc = qp_context_info_new(r->held->context, &info, err);

  if (!rc && !qp_state_awaits_client(info->state)) {
    if (info->state_detail_json)
      (void)qp__json_parse_object(
          "the state",
          (struct qp_bytes){ info->state_detail_json, strlen(info->state_detail_json) }, &detail,
          NULL);
    rc = qp__branch_find(r->held->context, qp__json_text(detail, "branch"), &branch, &end, err);
  }
  /* It is near the end of the branch. */
  for (uint64_t step = 16; !rc && end && qp_uuid_is_none(&newest.user); step *= 2) {
    uint64_t from = end > step ? end - step : 0;

    rc = qp_messages_index(r->held->context, branch, from, end - from, see_user, &newest, err);
    end = from;
  }
  *out = newest.user;
  qp__free(branch);
  json_decref(detail);
  qp_free(info);
  return rc;
}

enum qp_rc
qp__h_ai_stream(struct qp__request *r, struct qp_err *err)
{
  struct qp__exchange *x = NULL;
  struct qp_uuid first = { { 0 } };
  uint64_t newest = 0;
  uint64_t seq = 0;
  enum qp_rc rc = qp__face_context_find(r, r->params[0], err);

  if (!rc)
    rc = find_running(r, &first, err);
  if (!rc && !qp_uuid_is_none(&first))
    seq = qp__face_find_event(r, &first, &newest);
  if (rc == QP_NOTFOUND || (!rc && !seq)) {
    r->reply.status = MHD_HTTP_NO_CONTENT; /* nothing runs */
    return QP_OK;
  }
  if (!rc)
    rc = new_exchange(r, &x, err);
  if (!rc) {
    rc = qp__face_turn_follow(r, x, seq - 1, newest, err);
    if (rc)
      qp__exchange_drop(r, x);
  }
  return rc;
}

enum qp_rc
qp__h_ai_messages(struct qp__request *r, struct qp_err *err)
{
  enum qp_rc rc = qp__face_context_find(r, r->params[0], err);

  return rc ? rc : qp__ui_messages_answer(r, err);
}

static enum qp_rc
answer_stop(struct qp__request *r, struct qp_err *err)
{
  (void)err; /* it may have ended by itself */
  r->reply.status = MHD_HTTP_NO_CONTENT;
  return QP_OK;
}

static void
end_stop(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  (void)result;
  (void)rc;
  (void)err;
  qp__work_unpark(arg, QP_OK, NULL);
}

enum qp_rc
qp__h_ai_stop(struct qp__request *r, struct qp_err *err)
{
  struct qp_action action = { .size = sizeof(action), .kind = QP_ACTION_CANCEL, .wait = true };
  struct qp_engine *engine = NULL;
  enum qp_rc rc = qp__face_context_find(r, r->params[0], err);

  if (!rc)
    rc = qp__turns_enter(r, &engine, err);
  if (rc)
    return rc;
  action.context = r->held->id;
  qp__work_park(r, answer_stop, false);
  rc = qp_engine_act(engine, &action, end_stop, r, err);
  if (rc)
    r->then = NULL;
  qp__turns_leave(r->http);
  return rc;
}

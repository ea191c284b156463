/* tool_round.c - a round of tool calls: those of one answer, judged, decided, run and closed.
 *
 * Every call of a stored answer gets exactly one result in a stored message: what the tool
 * answered, or an error that says why it did not. Calls that name no tool, or whose arguments are
 * no object, are let through: the tools answer them with an error that helps the model.
 *
 * A call of a tool that the client runs itself has "kind": "client" in the stored answer. It waits
 * in AwaitingToolApproval, like a call that waits for a person. Its result is stored as soon as it
 * is submitted. The server's own tools run when no call waits any more. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "model/client_tool.h"
#include "model/message.h"
#include "model/meta.h"
#include "store/context/context_int.h"
#include "turn/conversation.h"
#include "turn/recalling.h"

#define RESULT_MAX ((size_t)8 << 20)

/* A call that runs. It outlives its turn when that has no more use for it. */
struct qp__actor_run {
  struct qp__actor *actor; /* NULL: the result is not wanted any more */
  size_t index;
  struct qp__tool_run *call;
};

/* ---- the list ---- */

void
qp__round_release(struct qp__actor *t)
{
  qp__round_stop(t);
  for (size_t i = 0; i < t->call_count; i++) {
    struct qp__actor_call *call = &t->calls[i];

    qp__free(call->id);
    qp__free(call->name);
    qp__free(call->arguments);
    qp__free(call->reason);
    qp__free(call->original);
    json_decref(call->preview);
    json_decref(call->result);
  }
  qp__free(t->calls);
  t->calls = NULL;
  t->call_count = 0;
}

struct qp__actor_call *
qp__round_find(const struct qp__actor *t, const char *id)
{
  for (size_t i = 0; i < t->call_count; i++)
    if (strcmp(t->calls[i].id, id) == 0)
      return &t->calls[i];
  return NULL;
}

static bool
is_marked(const json_t *extra)
{
  const char *kind = json_string_value(json_object_get(extra, "kind"));

  return kind && strcmp(kind, "client") == 0;
}

/* Marks a call in an answer that will be saved. */
static enum qp_rc
mark(struct qp__message_call *call, struct qp_err *err)
{
  if (!call->extra)
    call->extra = json_object();
  return qp__json_set_str(call->extra, "kind", "client") ? qp__fail_nomem(err, "a turn") : QP_OK;
}

/* The calls of a message, with the approvals that it has. */
static enum qp_rc
copy_calls(struct qp__actor *t, const struct qp_message *answer, struct qp_err *err)
{
  size_t n = qp_message_tool_call_count(answer);

  qp__round_release(t);
  if (n == 0)
    return QP_OK;
  t->calls = qp__alloc0(n, sizeof(*t->calls));
  if (!t->calls)
    return qp__fail_nomem(err, "the tool calls of an answer");
  t->call_count = n;
  for (size_t i = 0; i < n; i++) {
    struct qp_tool_call from = qp_message_tool_call(answer, i);
    struct qp__actor_call *call = &t->calls[i];

    call->approval = from.approval;
    call->display = from.display;
    call->client = is_marked(answer->calls[i].extra);
    if (!qp__str_replace(&call->id, from.id) || !qp__str_replace(&call->name, from.tool_name) ||
        !qp__str_replace(&call->arguments, from.arguments_json))
      return qp__fail_nomem(err, "the tool calls of an answer");
  }
  return QP_OK;
}

static bool
is_granted(const struct qp__actor *t, const struct qp__actor_call *call)
{
  json_t *narrow = qp__tools_narrow(t->engine->tools, call->name, call->arguments);
  struct qp__view *v = qp__view_get(t->context);
  bool granted = narrow && qp__grants_allow(&t->engine->grants, qp__meta_owner(v->meta), narrow);

  qp__view_unref(v);
  json_decref(narrow);
  return granted;
}

/* ---- rules of the answer "always" ---- */

/* Rules that a worker stores. */
struct rule_job {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  struct qp__action_request *request;
  json_t *rules; /* an array */
  char *owner;   /* of the context, or NULL */
  struct qp_err err;
};

static void
free_rule_job(struct rule_job *job)
{
  json_decref(job->rules);
  qp__free(job->owner);
  qp__free(job);
}

static void
store_rules(uv_work_t *work)
{
  struct rule_job *job = (struct rule_job *)work;
  struct qp__grants *grants = &job->actor->engine->grants;

  for (size_t i = 0; i < json_array_size(job->rules) && !job->err.rc; i++)
    job->err.rc = qp__grants_add(grants, job->owner, json_array_get(job->rules, i), &job->err);
}

/* For the answer to the action; without memory it does not name the rules. */
static void
keep_rules(struct qp__action_request *request, const json_t *rules)
{
  struct qp__buf text;

  qp__buf_init(&text, RESULT_MAX);
  (void)qp__json_write(&text, rules);
  request->stored_rules = qp__arena_take(&request->arena, &text);
}

static void
on_rules_stored(uv_work_t *work, int status)
{
  struct rule_job *job = (struct rule_job *)work;
  struct qp__actor *t = job->actor;
  struct qp__action_request *request = job->request;

  t->jobs--;
  if (status)
    (void)qp__fail(&job->err, QP_STOPPED, "storing a rule was stopped");
  request->rules = job->err.rc ? QP__RULES_FAILED : QP__RULES_STORED;
  request->input.failure = job->err;
  if (!job->err.rc)
    keep_rules(request, job->rules);
  free_rule_job(job);
  qp__actor_enqueue(t, &request->input);
  qp__actor_pump(t);
}

/* The rules of the calls that a request approves. */
static enum qp_rc
make_rules(const struct qp__actor *t, const struct qp_action *a, json_t *rules, struct qp_err *err)
{
  for (size_t i = 0; i < a->approved_count; i++) {
    const struct qp__actor_call *call = qp__round_find(t, a->approved[i]);
    json_t *rule = qp__tools_narrow(t->engine->tools, call->name, call->arguments);

    if (!rule)
      return qp__fail(err, QP_INVALID, "cannot create a rule for a call of '%.80s'", call->name);
    if (json_array_append_new(rules, rule))
      return qp__fail_nomem(err, "a rule");
  }
  return QP_OK;
}

enum qp_rc
qp__round_store_rules(struct qp__actor *t, struct qp__action_request *request, struct qp_err *err)
{
  struct rule_job *job = qp__alloc0(1, sizeof(*job));
  struct qp__view *v;
  const char *owner;
  enum qp_rc rc;

  if (!job)
    return qp__fail_nomem(err, "a rule");
  v = qp__view_get(t->context);
  owner = qp__meta_owner(v->meta);
  job->actor = t;
  job->request = request;
  job->rules = json_array();
  if (!job->rules || !qp__str_replace(&job->owner, owner))
    rc = qp__fail_nomem(err, "a rule");
  else
    rc = make_rules(t, &request->a, job->rules, err);
  qp__view_unref(v);
  if (!rc && uv_queue_work(&t->engine->loop, &job->work, store_rules, on_rules_stored))
    rc = qp__fail(err, QP_NOMEM, "cannot start a worker to store a rule");
  if (rc)
    free_rule_job(job);
  else
    t->jobs++;
  return rc;
}

/* ---- decisions ---- */

static enum qp_approval
check_policy(const struct qp__actor *t, const struct qp__actor_call *call)
{
  if (!qp__tools_find(t->engine->tools, call->name) || call->arguments[0] != '{')
    return QP_APPROVAL_APPROVED;
  switch (qp__tools_judge(t->engine->tools, call->name, call->arguments, NULL)) {
  case QP__AUTO:
    return QP_APPROVAL_APPROVED;
  case QP__DENY:
    return QP_APPROVAL_DENIED;
  default:
    return is_granted(t, call) ? QP_APPROVAL_APPROVED : QP_APPROVAL_PENDING;
  }
}

enum qp_rc
qp__round_check_names(const struct qp__actor *t, const json_t *client_tools, struct qp_err *err)
{
  for (size_t i = 0; i < json_array_size(client_tools); i++) {
    const json_t *tool = json_array_get(client_tools, i);
    const char *name = json_string_value(json_object_get(tool, "name"));

    if (name && qp__tools_find(t->engine->tools, name))
      return qp__fail(err, QP_INVALID,
                      "the tool '%.64s' of the client has the name of a tool of the server; give "
                      "it another name",
                      name);
  }
  return QP_OK;
}

enum qp_rc
qp__round_begin(struct qp__actor *t, struct qp_message *answer, bool barred, struct qp_err *err)
{
  enum qp_rc rc = copy_calls(t, answer, err);
  struct qp__view *v;

  if (rc)
    return rc;
  v = qp__view_get(t->context);
  for (size_t i = 0; !rc && i < t->call_count; i++) {
    struct qp__actor_call *call = &t->calls[i];

    call->client = !barred && !qp__tools_find(t->engine->tools, call->name) &&
                   qp__client_tool_find(qp__client_tools_get(v->meta), call->name);
    if (call->client)
      rc = mark(&answer->calls[i], err);
    call->approval = barred || call->client ? QP_APPROVAL_PENDING : check_policy(t, call);
    call->by_policy = call->approval != QP_APPROVAL_PENDING;
    answer->calls[i].view.approval = barred ? QP_APPROVAL_DENIED : call->approval;
  }
  qp__view_unref(v);
  return rc;
}

/* The changed arguments of an approved call, and the file that was shown. */
static enum qp_rc
load_edit(struct qp__actor_call *call, const json_t *decision, struct qp_err *err)
{
  const char *edited = json_string_value(json_object_get(decision, "arguments"));
  const char *base = json_string_value(json_object_get(decision, "base"));
  char *copy = edited ? qp__strdup(edited) : NULL;

  (void)snprintf(call->base, sizeof(call->base), "%s", base ? base : "");
  if (edited && !copy)
    return qp__fail_nomem(err, "the tool calls of an answer");
  if (copy) {
    call->original = call->arguments;
    call->arguments = copy;
  }
  return QP_OK;
}

enum qp_rc
qp__round_load(struct qp__actor *t, const struct qp_message *answer, const json_t *decisions,
               struct qp_err *err)
{
  enum qp_rc rc = copy_calls(t, answer, err);

  for (size_t i = 0; !rc && i < t->call_count; i++) {
    struct qp__actor_call *call = &t->calls[i];
    const json_t *decision = json_object_get(decisions, call->id);
    const char *approval = json_string_value(json_object_get(decision, "approval"));
    const char *reason = json_string_value(json_object_get(decision, "reason"));

    if (!approval)
      continue;
    call->approval = strcmp(approval, qp_approval_name(QP_APPROVAL_APPROVED)) == 0
                         ? QP_APPROVAL_APPROVED
                         : QP_APPROVAL_DENIED;
    call->by_policy = json_is_true(json_object_get(decision, "policy"));
    if (!qp__str_replace(&call->reason, reason))
      rc = qp__fail_nomem(err, "the tool calls of an answer");
    if (!rc)
      rc = load_edit(call, decision, err);
  }
  return rc;
}

/* Whether the engine runs the call once no call waits. */
static bool
may_run(const struct qp__actor_call *call)
{
  return call->approval == QP_APPROVAL_APPROVED && !call->client && !call->stored && !call->result;
}

enum qp__turn_event
qp__round_event(const struct qp__actor *t)
{
  bool some = false;

  if (t->call_count == 0)
    return QP__EVENT_NO_CALLS;
  for (size_t i = 0; i < t->call_count; i++) {
    if (t->calls[i].approval == QP_APPROVAL_PENDING)
      return QP__EVENT_CALLS_ASK;
    some |= may_run(&t->calls[i]);
  }
  return some ? QP__EVENT_CALLS_FREE : QP__EVENT_CALLS_BARRED;
}

/* ---- running ---- */

/* A new reference to the result. The model does not know what a person has changed, so a text says
 * it; without memory the text stays as it is. */
static json_t *
tell_edit(const struct qp__actor_call *call, json_t *value)
{
  json_t *told = NULL;

  if (call->original && json_is_string(value))
    told = json_sprintf("[the user has changed the arguments of this call to %s]\n%s",
                        call->arguments, json_string_value(value));
  return told ? told : json_incref(value);
}

/* Takes the result of a call. False: nobody waits for it. */
static bool
take_result(struct qp__actor_run *run, json_t *value, bool is_error, uint64_t ms)
{
  struct qp__actor *t = run->actor;
  struct qp__actor_call *call;

  if (!t) {
    qp__free(run);
    return false;
  }
  call = &t->calls[run->index];
  qp__free(run);
  call->run = NULL;
  call->result = tell_edit(call, value);
  call->is_error = is_error;
  call->ms = ms;
  qp__actor_tell(t, "tool_end",
                 json_pack("{s:s, s:s, s:b, s:I}", "id", call->id, "name", call->name, "is_error",
                           call->is_error, "ms", (json_int_t)call->ms));
  if (--t->running == 0)
    qp__actor_enqueue_event(t, QP__EVENT_TOOLS_ENDED, t->number);
  return true;
}

static void
on_result(void *arg, const struct qp__tool_run_result *result)
{
  struct qp__actor_run *run = arg;
  struct qp__actor *t = run->actor;

  if (take_result(run, result->value, result->is_error, result->ms))
    qp__actor_pump(t);
}

/* The caller pumps. */
static void
on_recalled(void *arg, json_t *value, bool is_error, uint64_t ms)
{
  (void)take_result(arg, value, is_error, ms);
}

/* The tools of the server go first: one may have the name of a recall tool. */
static bool
start_call(struct qp__actor *t, const struct qp__actor_call *call, struct qp__actor_run *run)
{
  struct qp__tool_request request = { .name = call->name,
                                      .arguments = call->arguments,
                                      .base = call->base[0] ? call->base : NULL,
                                      .done = on_result,
                                      .arg = run };
  struct qp_err err;

  if (qp__recall_is_tool(call->name) && !qp__tools_find(t->engine->tools, call->name))
    return qp__recall_start(t, call->name, call->arguments, on_recalled, run);
  return !qp__tools_call(t->engine->tools, &request, &run->call, &err);
}

/* A call that cannot even be begun has an error as result. */
static void
start(struct qp__actor *t, size_t i)
{
  struct qp__actor_call *call = &t->calls[i];
  struct qp__actor_run *run = qp__alloc0(1, sizeof(*run));

  if (!run)
    return;
  run->actor = t;
  run->index = i;
  if (!start_call(t, call, run)) {
    qp__free(run);
    return;
  }
  call->run = run;
  t->running++;
  qp__actor_tell(t, "tool_start", json_pack("{s:s, s:s}", "id", call->id, "name", call->name));
}

void
qp__round_run(struct qp__actor *t)
{
  t->number++;
  t->running = 0;
  for (size_t i = 0; i < t->call_count; i++)
    if (may_run(&t->calls[i]))
      start(t, i);
  if (t->running == 0)
    qp__actor_enqueue_event(t, QP__EVENT_TOOLS_ENDED, t->number);
}

void
qp__round_stop(struct qp__actor *t)
{
  for (size_t i = 0; i < t->call_count; i++) {
    struct qp__actor_run *run = t->calls[i].run;

    if (!run)
      continue;
    t->calls[i].run = NULL;
    run->actor = NULL;
    if (run->call) /* a search in the history ends by itself */
      qp__tool_run_cancel(run->call);
  }
  t->running = 0;
}

/* ---- results ---- */

/* Why a call has no result of its tool. */
static json_t *
missing_result(const struct qp__actor_call *call, const char *sentence)
{
  if (call->approval != QP_APPROVAL_DENIED)
    return json_string(sentence);
  if (call->by_policy)
    return json_string("the policy does not allow this call");
  if (call->reason)
    return json_sprintf("a person has refused this call: %s", call->reason);
  return json_string("a person has refused this call");
}

/* Who decided about the call, and how long its tool took. The stored answer does not have this,
 * because it was stored before. */
static enum qp_rc
note_decision(struct qp_message *message, const struct qp__actor_call *call, struct qp_err *err)
{
  bool decided = call->approval != QP_APPROVAL_PENDING;
  bool submitted = call->client && call->result;
  char metadata[128];
  char ms[32] = "";

  if (call->result && !submitted)
    (void)snprintf(ms, sizeof(ms), ",\"ms\":%llu", (unsigned long long)call->ms);
  (void)snprintf(metadata, sizeof(metadata), "{\"approval_status\":\"%s\"%s%s}",
                 qp_approval_name(call->approval),
                 !decided          ? ""
                 : submitted       ? ",\"decided_by\":\"client\""
                 : call->by_policy ? ",\"decided_by\":\"policy\""
                                   : ",\"decided_by\":\"person\"",
                 ms);
  return qp_message_set_metadata(message, metadata, err);
}

static enum qp_rc
add_result(struct qp__actor *t, const struct qp__actor_call *call, const char *sentence,
           struct qp_err *err)
{
  struct qp_message *message = NULL;
  struct qp__buf text;
  json_t *value = call->result ? json_incref(call->result) : missing_result(call, sentence);
  struct qp_tool_result result = {
    .request_id = call->id,
    .is_error = call->is_error || !call->result,
    .display = call->display,
  };
  enum qp_rc rc;

  qp__buf_init(&text, RESULT_MAX);
  if (!value) {
    rc = qp__fail_nomem(err, "the result of a tool");
    goto out;
  }
  (void)qp__json_write(&text, value);
  rc = qp__buf_check(&text, "the result of a tool", err);
  if (rc)
    goto out;
  result.result_json = text.data;
  rc = qp_message_new(QP_ROLE_TOOL, &message, err);
  if (!rc)
    rc = qp_message_set_tool_result(message, &result, err);
  if (!rc)
    rc = note_decision(message, call, err);
  if (!rc) {
    rc = qp__transition_add_message(t, message, err);
    message = NULL;
  }
out:
  qp_message_free(message);
  qp__buf_release(&text);
  json_decref(value);
  return rc;
}

enum qp_rc
qp__round_add_submitted(struct qp__actor *t, const struct qp__action_request *request,
                        struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < request->a.result_count; i++) {
    struct qp__actor_call *call = qp__round_find(t, request->a.results[i].request_id);

    rc = add_result(t, call, "", err);
    call->stored = true;
  }
  return rc;
}

enum qp_rc
qp__round_close(struct qp__actor *t, const char *sentence, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < t->call_count; i++)
    if (!t->calls[i].stored)
      rc = add_result(t, &t->calls[i], sentence, err);
  return rc;
}

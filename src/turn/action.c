/* action.c - actions of clients, interpreted in the state in which they arrive. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/context/context_int.h"
#include "turn/compacting.h"
#include "turn/recalling.h"

#define BRANCH_MAX 200
#define BRANCH_BASE 180 /* how much of a name is kept when a number is appended */
#define RESULT_MAX 4096

/* ---- branches ---- */

struct qp_uuid
qp__branch_head(struct qp_context *context, const struct qp__branch *b)
{
  static const struct qp_uuid none;
  uint32_t slot = atomic_load(&b->head);

  return slot == QP__NO_SLOT ? none : qp__tree_at(&context->tree, slot)->id;
}

/* A branch (NULL: the active one), its name in the request's arena and its head. QP_NOTFOUND. */
static enum qp_rc
find_branch(struct qp__actor *t, struct qp__action_request *request, const char *name, char **found,
            struct qp_uuid *head, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(t->context);
  struct qp__branch *b = NULL;
  enum qp_rc rc = QP_OK;

  if (qp__view_branch(v, name, &b, NULL)) {
    rc = qp__fail(err, QP_NOTFOUND, "branch '%s' not found", name ? name : v->meta->active);
  } else {
    *head = qp__branch_head(t->context, b);
    *found = qp__arena_strdup(&request->arena, b->name);
    if (!*found)
      rc = qp__fail_nomem(err, "a turn");
  }
  qp__view_unref(v);
  return rc;
}

enum qp_rc
qp__action_set_branch(struct qp__actor *t, struct qp__action_request *request, const char *name,
                      struct qp_err *err)
{
  struct qp_uuid head;

  return find_branch(t, request, name, &request->branch, &head, err);
}

/* An unused name for a branch: the name of another branch with a number. */
static enum qp_rc
name_branch(struct qp__actor *t, struct qp__action_request *request, const char *base, char **out,
            struct qp_err *err)
{
  size_t len = strlen(base);
  size_t digits = len;
  char name[BRANCH_MAX + 1];
  struct qp_uuid head;
  char *found;

  while (digits && base[digits - 1] >= '0' && base[digits - 1] <= '9')
    digits--;
  if (digits > 1 && digits < len && base[digits - 1] == '-')
    len = digits - 1;
  len = qp__utf8_fit(base, len, BRANCH_BASE);
  for (unsigned n = 2; n; n++) {
    enum qp_rc rc;

    (void)snprintf(name, sizeof(name), "%.*s-%u", (int)len, base, n);
    rc = find_branch(t, request, name, &found, &head, err);
    if (rc == QP_NOTFOUND) {
      *out = qp__arena_strdup(&request->arena, name);
      return *out ? QP_OK : qp__fail_nomem(err, "a turn");
    }
    if (rc)
      return rc;
  }
  return qp__fail(err, QP_TOOBIG, "there are too many branches");
}

/* The input begins a branch at a message. */
static enum qp_rc
fork_at(struct qp__actor *t, struct qp__input *in, const char *base, const struct qp_uuid *at,
        struct qp_err *err)
{
  struct qp__action_request *request = in->request;
  char *name = NULL;
  enum qp_rc rc = QP_OK;

  if (request->a.kind != QP_ACTION_RETRY && request->a.branch)
    name = qp__arena_strdup(&request->arena, request->a.branch);
  else
    rc = name_branch(t, request, base, &name, err);
  if (rc)
    return rc;
  if (!name)
    return qp__fail_nomem(err, "a turn");
  in->fork = true;
  in->fork_at = *at;
  in->activate = request->branch = name;
  return QP_OK;
}

/* ---- what each action means ---- */

/* Each resolve_ function finds in->event set as its row in resolve() says. */

/* No tool of the client may have the name of one of the server. */
static enum qp_rc
check_tools(const struct qp__actor *t, const struct qp__action_request *request, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(t->context);
  const json_t *tools = request->tools ? request->tools : json_object_get(v->meta->config, "tools");
  enum qp_rc rc = qp__round_check_names(t, tools, err);

  qp__view_unref(v);
  return rc;
}

static enum qp_rc
resolve_send(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  enum qp_rc rc = check_tools(t, in->request, err);

  if (!rc)
    rc = qp__action_set_branch(t, in->request, in->request->a.branch, err);
  if (!rc && qp__recall_is_wanted(t, in->request) && qp__recall_for_request(t, in->request))
    in->event = QP__EVENTS; /* not yet: the request is enqueued again with what was recalled */
  return rc;
}

static enum qp_rc
resolve_edit(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid head;
  char *active;
  enum qp_rc rc = find_branch(t, in->request, NULL, &active, &head, err);

  if (!rc)
    rc = check_tools(t, in->request, err);
  if (!rc)
    rc = qp_message_find(t->context, &in->request->a.target, &info, err);
  if (rc)
    return rc;
  if (info.role != QP_ROLE_USER)
    return qp__fail(err, QP_INVALID, "only a message of the user can be edited");
  return fork_at(t, in, active, &info.parent, err);
}

/* The question before a message: the newest of the user's above it. */
static enum qp_rc
find_question(struct qp__actor *t, const struct qp_uuid *from, struct qp_uuid *out,
              struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid id = *from;
  enum qp_rc rc;

  while (!qp_uuid_is_none(&id)) {
    rc = qp_message_find(t->context, &id, &info, err);
    if (rc)
      return rc;
    if (info.role == QP_ROLE_USER) {
      *out = id;
      return QP_OK;
    }
    id = info.parent;
  }
  return qp__fail(err, QP_INVALID, "there is no message of the user to answer");
}

static enum qp_rc
resolve_regenerate(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid from = in->request->a.target;
  struct qp_uuid head;
  struct qp_uuid question;
  char *active;
  enum qp_rc rc = find_branch(t, in->request, NULL, &active, &head, err);

  if (rc)
    return rc;
  if (t->state == QP_STATE_TRANSIENT_FAILURE)
    return qp__fail(err, QP_CONFLICT, "a turn is running: the context is %s",
                    qp_state_name(t->state));
  if (qp_uuid_is_none(&from)) {
    from = head;
  } else {
    rc = qp_message_find(t->context, &from, &info, err);
    if (!rc && info.role != QP_ROLE_ASSISTANT)
      rc = qp__fail(err, QP_INVALID, "only an answer of the assistant can be regenerated");
    if (rc)
      return rc;
  }
  rc = find_question(t, &from, &question, err);
  return rc ? rc : fork_at(t, in, active, &question, err);
}

/* On the same branch where the model has not answered yet; else as regenerate does. */
static enum qp_rc
resolve_retry(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid head;
  struct qp_uuid question;
  char *branch;
  const char *name = in->request->a.branch;
  enum qp_rc rc;

  if (t->state == QP_STATE_TRANSIENT_FAILURE)
    name = t->open->facts.branch;
  rc = find_branch(t, in->request, name, &branch, &head, err);
  if (rc)
    return rc;
  in->request->branch = branch;
  if (qp_uuid_is_none(&head))
    return qp__fail(err, QP_INVALID, "there is no message of the user to answer");
  rc = qp_message_find(t->context, &head, &info, err);
  if (rc || info.role != QP_ROLE_ASSISTANT)
    return rc;
  rc = find_question(t, &head, &question, err);
  return rc ? rc : fork_at(t, in, branch, &question, err);
}

static enum qp_rc
resolve_switch(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  in->activate = in->request->a.branch;
  return qp__action_set_branch(t, in->request, in->request->a.branch, err);
}

/* Every id must belong to a waiting call and occur once. A call that the client runs can only be
 * denied. */
static enum qp_rc
check_ids(const struct qp__actor *t, const char *const *ids, size_t count, bool approved,
          struct qp_err *err)
{
  for (size_t i = 0; i < count; i++) {
    const struct qp__actor_call *call = qp__round_find(t, ids[i]);

    if (!call || call->approval != QP_APPROVAL_PENDING)
      return qp__fail(err, QP_INVALID, "No pending tool approval '%.80s'", ids[i]);
    if (call->client && approved)
      return qp__fail(err, QP_INVALID,
                      "the tool call '%.80s' is run by the client: submit its result instead",
                      ids[i]);
  }
  return QP_OK;
}

static enum qp_rc
apply_decisions(struct qp__actor *t, struct qp__action_request *request, struct qp_err *err)
{
  for (size_t i = 0; i < request->a.denied_count; i++) {
    struct qp__actor_call *call = qp__round_find(t, request->a.denied[i]);

    if (request->a.reason && !call->reason && !(call->reason = qp__strdup(request->a.reason)))
      return qp__fail_nomem(err, "a turn");
  }
  for (size_t i = 0; i < request->a.denied_count; i++)
    qp__round_find(t, request->a.denied[i])->approval = QP_APPROVAL_DENIED;
  for (size_t i = 0; i < request->a.approved_count; i++)
    qp__round_find(t, request->a.approved[i])->approval = QP_APPROVAL_APPROVED;
  return QP_OK;
}

/* What follows from calls that were decided or answered. */
static enum qp__turn_event
event_of_calls(const struct qp__actor *t)
{
  switch (qp__round_event(t)) {
  case QP__EVENT_CALLS_ASK:
    return QP__EVENT_DECIDE;
  case QP__EVENT_CALLS_FREE:
    return QP__EVENT_APPROVE;
  default:
    return QP__EVENT_DENY;
  }
}

static enum qp_rc
resolve_approve(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__action_request *request = in->request;
  enum qp_rc rc;

  if (t->state != QP_STATE_AWAITING_TOOL_APPROVAL)
    return qp__fail(err, QP_INVALID, "No pending tool approvals");
  request->branch = qp__arena_strdup(&request->arena, t->open->facts.branch);
  if (!request->branch)
    return qp__fail_nomem(err, "a turn");
  rc = check_ids(t, request->a.approved, request->a.approved_count, true, err);
  if (!rc)
    rc = check_ids(t, request->a.denied, request->a.denied_count, false, err);
  qp__round_undo_edits(t); /* those of a request whose rules could not be stored */
  if (!rc && request->edits)
    rc = qp__round_edit(t, request, err);
  if (!rc && request->a.always && request->rules != QP__RULES_STORED) {
    in->event = QP__EVENTS; /* not yet: the request is continued when the rules are stored */
    return qp__round_store_rules(t, request, err);
  }
  if (!rc)
    rc = apply_decisions(t, request, err);
  if (rc)
    return rc;
  in->event = event_of_calls(t);
  return QP_OK;
}

static enum qp_rc
check_results(const struct qp__actor *t, const struct qp_action *a, struct qp_err *err)
{
  for (size_t i = 0; i < a->result_count; i++) {
    const char *id = a->results[i].request_id;
    const struct qp__actor_call *call = qp__round_find(t, id);

    if (!call || !call->client)
      return qp__fail(err, QP_INVALID, "no tool call '%.80s' waits for a result of the client", id);
    if (call->approval != QP_APPROVAL_PENDING)
      return qp__fail(err, QP_CONFLICT, "the tool call '%.80s' has a result already", id);
  }
  return QP_OK;
}

static enum qp_rc
resolve_submit(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__action_request *request = in->request;
  enum qp_rc rc = check_results(t, &request->a, err);

  if (rc)
    return rc;
  request->branch = qp__arena_strdup(&request->arena, t->open->facts.branch);
  if (!request->branch)
    return qp__fail_nomem(err, "a turn");
  for (size_t i = 0; i < request->a.result_count; i++) {
    struct qp__actor_call *call = qp__round_find(t, request->a.results[i].request_id);

    call->result = json_incref(json_array_get(request->values, i));
    call->is_error = request->a.results[i].is_error;
    call->approval = QP_APPROVAL_APPROVED;
  }
  in->event = event_of_calls(t);
  return QP_OK;
}

/* The calls are undecided again: the decision could not be stored. */
static void
undo_decisions(struct qp__actor *t, const struct qp__action_request *request)
{
  for (size_t i = 0; i < request->a.result_count; i++) {
    struct qp__actor_call *call = qp__round_find(t, request->a.results[i].request_id);

    json_decref(call->result);
    call->result = NULL;
    call->stored = false;
    call->approval = QP_APPROVAL_PENDING;
  }
  for (size_t i = 0; i < request->a.approved_count; i++)
    qp__round_find(t, request->a.approved[i])->approval = QP_APPROVAL_PENDING;
  for (size_t i = 0; i < request->a.denied_count; i++)
    qp__round_find(t, request->a.denied[i])->approval = QP_APPROVAL_PENDING;
  qp__round_undo_edits(t);
}

static enum qp_rc
resolve_cancel(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  return qp__action_set_branch(t, in->request, t->open->facts.branch, err);
}

static enum qp_rc
resolve(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  /* `event` must be possible in the present state; QP__EVENTS: the function decides. */
  static const struct {
    enum qp_rc (*resolve)(struct qp__actor *t, struct qp__input *in, struct qp_err *err);
    enum qp__turn_event event;
  } kinds[] = {
    [QP_ACTION_SEND_MESSAGE] = { resolve_send, QP__EVENT_SEND },
    [QP_ACTION_APPROVE_TOOLS] = { resolve_approve, QP__EVENTS },
    [QP_ACTION_CANCEL] = { resolve_cancel, QP__EVENT_CANCEL },
    [QP_ACTION_RETRY] = { resolve_retry, QP__EVENT_RETRY },
    [QP_ACTION_REGENERATE] = { resolve_regenerate, QP__EVENT_RETRY },
    [QP_ACTION_EDIT_MESSAGE] = { resolve_edit, QP__EVENT_SEND },
    [QP_ACTION_SWITCH_BRANCH] = { resolve_switch, QP__EVENT_SWITCH },
    [QP_ACTION_COMPACT] = { qp__resolve_compact, QP__EVENT_COMPACT },
    [QP_ACTION_UNDO_COMPACT] = { qp__resolve_adjust, QP__EVENT_ADJUST },
    [QP_ACTION_REDO_COMPACT] = { qp__resolve_adjust, QP__EVENT_ADJUST },
    [QP_ACTION_EDIT_SUMMARY] = { qp__resolve_adjust, QP__EVENT_ADJUST },
    [QP_ACTION_EXPAND] = { qp__resolve_adjust, QP__EVENT_ADJUST },
    [QP_ACTION_PIN] = { qp__resolve_pin, QP__EVENT_ADJUST },
    [QP_ACTION_UNPIN] = { qp__resolve_pin, QP__EVENT_ADJUST },
    [QP_ACTION_SUBMIT_TOOL_RESULTS] = { resolve_submit, QP__EVENT_DENY },
  };
  enum qp_action_kind kind = in->request->a.kind;

  in->event = kinds[kind].event;
  if (in->event != QP__EVENTS && !qp__fsm_next(t->state, in->event).legal)
    return qp__fail(err, QP_CONFLICT, "%s is not possible while the context is %s",
                    qp_action_name(kind), qp_state_name(t->state));
  return kinds[kind].resolve(t, in, err);
}

/* ---- keys ---- */

enum qp_rc
qp__action_key_result(struct qp__actor *t, struct qp__action_request *request, struct qp_err *err)
{
  char id[QP_UUID_TEXT];
  json_t *result = qp__json_pack_set(
      "{s:s, s:s, s:s?, s:s?}", "action", qp_action_name(request->a.kind), "digest",
      request->digest, "branch", request->branch, "message",
      qp_uuid_is_none(&request->saved) ? NULL : qp_uuid_text(&request->saved, id));
  struct qp__buf text;
  char *copy;

  if (!result)
    return qp__fail_nomem(err, "a turn");
  qp__buf_init(&text, RESULT_MAX);
  (void)qp__json_write(&text, result);
  json_decref(result);
  copy = qp__arena_take(&request->arena, &text);
  if (!copy)
    return qp__fail_nomem(err, "a turn");
  t->open->transition.key_result = (struct qp_bytes){ copy, strlen(copy) };
  return QP_OK;
}

enum qp_rc
qp__action_find_key(struct qp_context *context, const char *key, const char *digest,
                    struct qp_uuid *message, json_t **result, struct qp_err *err)
{
  static const char what[] = "the result of a key";
  const char *known;
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp_idempotency_find(context, key, &text, &len, err);

  *result = NULL;
  if (!rc)
    rc = qp__json_parse_object(what, (struct qp_bytes){ text, len }, result, err);
  known = qp__json_text(*result, "digest");
  if (!rc && (!known || strcmp(known, digest) != 0))
    rc = qp__fail(err, QP_CONFLICT, "the key '%s' was used for another action", key);
  if (!rc)
    rc = qp__json_uuid(what, *result, "message", message, err);
  qp_free(text);
  return rc;
}

/* Fills in the result of an earlier action with that key. QP_NOTFOUND: the key was not used. */
static enum qp_rc
replay(struct qp__actor *t, struct qp__action_request *request, struct qp_err *err)
{
  json_t *result;
  enum qp_rc rc = qp__action_find_key(t->context, request->a.key, request->digest, &request->saved,
                                      &result, err);
  const char *branch = qp__json_text(result, "branch");

  if (!rc && branch && !(request->branch = qp__arena_strdup(&request->arena, branch)))
    rc = qp__fail_nomem(err, "a turn");
  request->replayed = !rc;
  json_decref(result);
  return rc;
}

/* ---- acting ---- */

/* Failures that are the action's own: the context is as it was. */
static bool
is_refusal(enum qp_rc rc)
{
  return rc == QP_CONFLICT || rc == QP_INVALID || rc == QP_NOTFOUND || rc == QP_EXISTS ||
         rc == QP_TOOBIG || rc == QP_READONLY || rc == QP_NOMEM || rc == QP_UNAVAILABLE;
}

void
qp__actor_do_action(struct qp__actor *t, struct qp__input *in)
{
  struct qp__action_request *request = in->request;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  if (t->engine->phase != QP__ENGINE_RUNNING)
    (void)qp__fail(&err, QP_STOPPED, "the engine is stopping");
  else if (request->rules == QP__RULES_FAILED)
    err = in->failure;
  if (err.rc) {
    qp__action_answer(t, request, &err);
    return;
  }
  rc = request->a.key ? replay(t, request, &err) : QP_NOTFOUND;
  if (rc == QP_OK) {
    if (request->a.wait && !qp_state_awaits_client(t->state)) {
      request->next = t->waiting;
      t->waiting = request;
    } else {
      qp__action_answer(t, request, NULL);
    }
    return;
  }
  if (rc != QP_NOTFOUND) {
    qp__action_answer(t, request, &err);
    return;
  }
  rc = resolve(t, in, &err);
  if (!rc && in->event == QP__EVENTS)
    return; /* a worker stores its rules, or reads its records */
  if (!rc) {
    rc = qp__actor_apply(t, in, &err);
    if (rc && (request->a.kind == QP_ACTION_APPROVE_TOOLS ||
               request->a.kind == QP_ACTION_SUBMIT_TOOL_RESULTS))
      undo_decisions(t, request);
    if (rc && request->a.kind == QP_ACTION_COMPACT)
      qp__actor_stop_shortening(t, true); /* its plan */
    if (rc && !is_refusal(rc)) {
      qp__actor_save_failed(t, &err, request);
      return;
    }
  }
  if (rc)
    qp__action_answer(t, request, &err);
}

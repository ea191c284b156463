/* action.c - actions: what clients ask for, understood in the state in which they come. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "turn/actor.h"

#define BRANCH_MAX 200
#define BRANCH_BASE 180 /* what is kept of a name when a number is put behind it */
#define RESULT_MAX 4096

/* ---- branches ---- */

struct branches {
  const char *name; /* that is looked for; NULL: the active one */
  struct qp__arena *arena;
  char *found;
  struct qp_uuid head;
};

static enum qp_rc
look_at_branch(void *arg, const struct qp_branch_info *branch)
{
  struct branches *b = arg;

  if (b->name ? strcmp(b->name, branch->name) != 0 : !branch->active)
    return QP_OK;
  b->head = branch->head;
  b->found = qp__arena_strdup(b->arena, branch->name);
  return b->found ? QP_STOPPED : QP_NOMEM;
}

/* A branch (NULL: the active one), its name in the act's arena and its head. QP_NOTFOUND. */
static enum qp_rc
find_branch(struct qp__actor *t, struct qp__act *act, const char *name, char **found,
            struct qp_uuid *head, struct qp_err *err)
{
  struct branches b = { .name = name, .arena = &act->arena };
  enum qp_rc rc = qp_branch_list(t->context, look_at_branch, &b, err);

  if (rc == QP_OK)
    return qp__fail(err, QP_NOTFOUND, "branch '%s' not found", name ? name : "");
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "a turn");
  if (rc != QP_STOPPED)
    return rc;
  *found = b.found;
  *head = b.head;
  return QP_OK;
}

/* A name that no branch has: that of another one with a number. */
static enum qp_rc
name_branch(struct qp__actor *t, struct qp__act *act, const char *base, char **out,
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
  if (len > BRANCH_BASE)
    for (len = BRANCH_BASE; len && !qp__utf8_ok(base, len); len--)
      ;
  for (unsigned n = 2; n; n++) {
    enum qp_rc rc;

    (void)snprintf(name, sizeof(name), "%.*s-%u", (int)len, base, n);
    rc = find_branch(t, act, name, &found, &head, err);
    if (rc == QP_NOTFOUND) {
      *out = qp__arena_strdup(&act->arena, name);
      return *out ? QP_OK : qp__fail_nomem(err, "a turn");
    }
    if (rc)
      return rc;
  }
  return qp__fail(err, QP_TOOBIG, "there are too many branches");
}

/* Has the occurrence begin a branch at a message. */
static enum qp_rc
fork_at(struct qp__actor *t, struct qp__occurrence *o, const char *base, const struct qp_uuid *at,
        struct qp_err *err)
{
  struct qp__act *act = o->act;
  char *name = NULL;
  enum qp_rc rc = QP_OK;

  if (act->a.kind != QP_ACTION_RETRY && act->a.branch)
    name = qp__arena_strdup(&act->arena, act->a.branch);
  else
    rc = name_branch(t, act, base, &name, err);
  if (rc)
    return rc;
  if (!name)
    return qp__fail_nomem(err, "a turn");
  o->fork = true;
  o->fork_at = *at;
  o->activate = act->branch = name;
  return QP_OK;
}

/* ---- what each action means ---- */

static enum qp_rc
understand_send(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp_uuid head;

  o->event = QP__EVENT_SEND;
  return find_branch(t, o->act, o->act->a.branch, &o->act->branch, &head, err);
}

static enum qp_rc
understand_edit(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid head;
  char *active;
  enum qp_rc rc = find_branch(t, o->act, NULL, &active, &head, err);

  o->event = QP__EVENT_SEND;
  if (!rc)
    rc = qp_message_find(t->context, &o->act->a.target, &info, err);
  if (rc)
    return rc;
  if (info.role != QP_ROLE_USER)
    return qp__fail(err, QP_INVALID, "only a message of the user can be edited");
  return fork_at(t, o, active, &info.parent, err);
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
understand_regenerate(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid from = o->act->a.target;
  struct qp_uuid head;
  struct qp_uuid question;
  char *active;
  enum qp_rc rc = find_branch(t, o->act, NULL, &active, &head, err);

  o->event = QP__EVENT_RETRY;
  if (rc)
    return rc;
  if (t->state == QP__STATE_TRANSIENT_FAILURE)
    return qp__fail(err, QP_CONFLICT, "a turn is running: the context is %s",
                    qp__state_name(t->state));
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
  return rc ? rc : fork_at(t, o, active, &question, err);
}

/* On the same branch where the model has not answered yet; else as regenerate does. */
static enum qp_rc
understand_retry(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid head;
  struct qp_uuid question;
  char *branch;
  const char *name = o->act->a.branch;
  enum qp_rc rc;

  o->event = QP__EVENT_RETRY;
  if (t->state == QP__STATE_TRANSIENT_FAILURE)
    name = t->gear->facts.branch;
  rc = find_branch(t, o->act, name, &branch, &head, err);
  if (rc)
    return rc;
  o->act->branch = branch;
  if (qp_uuid_is_none(&head))
    return qp__fail(err, QP_INVALID, "there is no message of the user to answer");
  rc = qp_message_find(t->context, &head, &info, err);
  if (rc || info.role != QP_ROLE_ASSISTANT)
    return rc;
  rc = find_question(t, &head, &question, err);
  return rc ? rc : fork_at(t, o, branch, &question, err);
}

static enum qp_rc
understand_switch(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp_uuid head;

  o->event = QP__EVENT_SWITCH;
  o->activate = o->act->a.branch;
  return find_branch(t, o->act, o->act->a.branch, &o->act->branch, &head, err);
}

/* Every id must be of a call that waits, and stand once. */
static enum qp_rc
check_ids(const struct qp__actor *t, const char *const *ids, size_t count, struct qp_err *err)
{
  for (size_t i = 0; i < count; i++) {
    const struct qp__actor_call *call = qp__round_find(t, ids[i]);

    if (!call || call->approval != QP_APPROVAL_PENDING)
      return qp__fail(err, QP_INVALID, "No pending tool approval '%.80s'", ids[i]);
  }
  return QP_OK;
}

static enum qp_rc
decide(struct qp__actor *t, struct qp__act *act, struct qp_err *err)
{
  for (size_t i = 0; i < act->a.denied_count; i++) {
    struct qp__actor_call *call = qp__round_find(t, act->a.denied[i]);

    if (act->a.reason && !call->reason && !(call->reason = qp__strdup(act->a.reason)))
      return qp__fail_nomem(err, "a turn");
  }
  for (size_t i = 0; i < act->a.denied_count; i++)
    qp__round_find(t, act->a.denied[i])->approval = QP_APPROVAL_DENIED;
  for (size_t i = 0; i < act->a.approved_count; i++)
    qp__round_find(t, act->a.approved[i])->approval = QP_APPROVAL_APPROVED;
  return QP_OK;
}

static enum qp_rc
understand_approve(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp__act *act = o->act;
  enum qp_rc rc;

  if (t->state != QP__STATE_AWAITING_TOOL_APPROVAL)
    return qp__fail(err, QP_INVALID, "No pending tool approvals");
  act->branch = qp__arena_strdup(&act->arena, t->gear->facts.branch);
  if (!act->branch)
    return qp__fail_nomem(err, "a turn");
  rc = check_ids(t, act->a.approved, act->a.approved_count, err);
  if (!rc)
    rc = check_ids(t, act->a.denied, act->a.denied_count, err);
  for (size_t i = 0; act->a.always && i < act->a.approved_count && !rc; i++)
    rc = qp__round_grant(t, qp__round_find(t, act->a.approved[i]), err);
  if (!rc)
    rc = decide(t, act, err);
  if (rc)
    return rc;
  switch (qp__round_event(t)) {
  case QP__EVENT_CALLS_ASK:
    o->event = QP__EVENT_DECIDE;
    break;
  case QP__EVENT_CALLS_FREE:
    o->event = QP__EVENT_APPROVE;
    break;
  default:
    o->event = QP__EVENT_DENY;
    break;
  }
  return QP_OK;
}

/* Nobody has decided about these calls after all. */
static void
take_back(struct qp__actor *t, const struct qp__act *act)
{
  for (size_t i = 0; i < act->a.approved_count; i++)
    qp__round_find(t, act->a.approved[i])->approval = QP_APPROVAL_PENDING;
  for (size_t i = 0; i < act->a.denied_count; i++)
    qp__round_find(t, act->a.denied[i])->approval = QP_APPROVAL_PENDING;
}

static enum qp_rc
understand_cancel(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp_uuid head;

  o->event = QP__EVENT_CANCEL;
  return find_branch(t, o->act, t->gear->facts.branch, &o->act->branch, &head, err);
}

static enum qp_rc
understand(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  static enum qp_rc (*const by_kind[])(struct qp__actor * t, struct qp__occurrence * o,
                                       struct qp_err * err) = {
    [QP_ACTION_SEND_MESSAGE] = understand_send,     [QP_ACTION_APPROVE_TOOLS] = understand_approve,
    [QP_ACTION_CANCEL] = understand_cancel,         [QP_ACTION_RETRY] = understand_retry,
    [QP_ACTION_REGENERATE] = understand_regenerate, [QP_ACTION_EDIT_MESSAGE] = understand_edit,
    [QP_ACTION_SWITCH_BRANCH] = understand_switch,
  };
  static const enum qp__event events[] = {
    [QP_ACTION_SEND_MESSAGE] = QP__EVENT_SEND,    [QP_ACTION_APPROVE_TOOLS] = QP__EVENTS,
    [QP_ACTION_CANCEL] = QP__EVENT_CANCEL,        [QP_ACTION_RETRY] = QP__EVENT_RETRY,
    [QP_ACTION_REGENERATE] = QP__EVENT_RETRY,     [QP_ACTION_EDIT_MESSAGE] = QP__EVENT_SEND,
    [QP_ACTION_SWITCH_BRANCH] = QP__EVENT_SWITCH,
  };
  enum qp__event event = events[o->act->a.kind];

  if (event != QP__EVENTS && !qp__fsm_next(t->state, event).legal)
    return qp__fail(err, QP_CONFLICT, "%s is not possible while the context is %s",
                    qp_action_name(o->act->a.kind), qp__state_name(t->state));
  return by_kind[o->act->a.kind](t, o, err);
}

/* ---- keys ---- */

enum qp_rc
qp__act_result(struct qp__actor *t, struct qp__act *act, struct qp_err *err)
{
  char id[QP_UUID_TEXT];
  json_t *result = json_pack("{s:s, s:s, s:s*, s:s*}", "action", qp_action_name(act->a.kind),
                             "digest", act->digest, "branch", act->branch, "message",
                             qp_uuid_is_none(&act->saved) ? NULL : qp_uuid_text(&act->saved, id));
  struct qp__buf text;
  char *copy = NULL;

  if (!result)
    return qp__fail_nomem(err, "a turn");
  qp__buf_init(&text, RESULT_MAX);
  if (!qp__json_write(&text, result))
    copy = qp__arena_strndup(&act->arena, text.data, text.len);
  if (copy)
    t->gear->move.key_result = (struct qp_bytes){ copy, text.len };
  qp__buf_release(&text);
  json_decref(result);
  return copy ? QP_OK : qp__fail_nomem(err, "a turn");
}

/* Fills in what an earlier action with that key has led to. QP_NOTFOUND: there was none. */
static enum qp_rc
replay(struct qp__actor *t, struct qp__act *act, struct qp_err *err)
{
  const char *digest;
  const char *branch;
  char *text = NULL;
  json_t *result = NULL;
  size_t len = 0;
  enum qp_rc rc = qp_idempotency_find(t->context, act->a.key, &text, &len, err);

  if (!rc)
    rc = qp__json_parse_object("the result of a key", (struct qp_bytes){ text, len }, &result, err);
  if (rc)
    goto out;
  digest = json_string_value(json_object_get(result, "digest"));
  branch = json_string_value(json_object_get(result, "branch"));
  if (!digest || strcmp(digest, act->digest) != 0)
    rc = qp__fail(err, QP_CONFLICT, "the key '%s' was used for another action", act->a.key);
  if (!rc)
    rc = qp__json_uuid("the result of a key", result, "message", &act->saved, err);
  if (!rc && branch && !(act->branch = qp__arena_strdup(&act->arena, branch)))
    rc = qp__fail_nomem(err, "a turn");
  act->replayed = !rc;
out:
  json_decref(result);
  qp_free(text);
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
qp__actor_act(struct qp__actor *t, struct qp__occurrence *o)
{
  struct qp__act *act = o->act;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  if (t->engine->draining) {
    (void)qp__fail(&err, QP_STOPPED, "the engine stops");
    qp__act_answer(t, act, &err);
    return;
  }
  rc = act->a.key ? replay(t, act, &err) : QP_NOTFOUND;
  if (rc == QP_OK) {
    if (act->a.wait && !qp__state_rests(t->state)) {
      act->next = t->waiting;
      t->waiting = act;
    } else {
      qp__act_answer(t, act, NULL);
    }
    return;
  }
  if (rc != QP_NOTFOUND) {
    qp__act_answer(t, act, &err);
    return;
  }
  rc = understand(t, o, &err);
  if (!rc) {
    rc = qp__actor_apply(t, o, &err);
    if (rc && act->a.kind == QP_ACTION_APPROVE_TOOLS)
      take_back(t, act);
    if (rc && !is_refusal(rc)) {
      qp__actor_save_failed(t, &err, act);
      return;
    }
  }
  if (rc)
    qp__act_answer(t, act, &err);
}

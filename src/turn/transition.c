/* transition.c - what a transition commits: the facts of the turn, its messages, the state's
 * detail, the lines of the log of events. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "model/client_tool.h"
#include "store/context/context_int.h"
#include "turn/compacting.h"

#define PICO 1e12          /* of a dollar */
#define MICRO_PICO 1000000 /* millionths of a millionth in a millionth */

/* ---- limits ---- */

static bool
over(uint64_t limit, uint64_t have, const char *what, struct qp_err *err)
{
  if (limit == UINT64_MAX || have < limit)
    return false;
  (void)qp__fail(err, QP_TOOBIG, "the limit of %s is reached: %llu of %llu", what,
                 (unsigned long long)have, (unsigned long long)limit);
  return true;
}

bool
qp__actor_over_limit(const struct qp_limits *l, const struct qp__turn_facts *facts,
                     struct qp_err *err)
{
  const struct qp__turn_count *turn = &facts->count;
  const struct qp__turn_count *all = &facts->total;

  if (turn->rounds > l->rounds)
    return over(l->rounds, turn->rounds, "rounds of a turn", err);
  if (turn->calls > l->calls)
    return over(l->calls, turn->calls, "tool calls in a turn", err);
  return over(l->turn_tokens, turn->tokens, "tokens of a turn", err) ||
         over(l->turn_cost, (uint64_t)turn->cost / MICRO_PICO,
              "the cost of a turn in millionths of a dollar", err) ||
         over(l->context_tokens, all->tokens, "tokens of the context", err) ||
         over(l->context_cost, (uint64_t)all->cost / MICRO_PICO,
              "the cost of the context in millionths of a dollar", err);
}

/* ---- facts ---- */

/* The pause before the next try; `attempt` is the number of failed tries. */
static int64_t
pause_ms(const struct qp__actor *t, unsigned attempt, int64_t retry_after_ms)
{
  const struct qp_engine *e = t->engine;
  struct qp__llm_fault fault = { .retry_after_ms = retry_after_ms };
  uint32_t dice = 0;
  int64_t ms;

  if (e->os->random(e->os->self, &dice, sizeof(dice)))
    dice = 0;
  ms = qp__fault_backoff_ms(&fault, attempt - 1, dice);
  return retry_after_ms >= 0 ? ms : ms * (int64_t)e->retry_ms / QP__RETRY_MS;
}

static bool
begins_turn(const struct qp__actor *t, enum qp__turn_event event)
{
  return event == QP__EVENT_SEND ||
         (event == QP__EVENT_RETRY && t->state != QP_STATE_TRANSIENT_FAILURE);
}

static enum qp_rc
make_facts(struct qp__actor *t, const struct qp__input *in, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  struct qp__turn_facts *f = &m->facts;
  const struct qp__turn_facts *before =
      t->open->earlier.under_way ? &t->open->earlier.facts : &t->open->facts;
  const char *branch = in->request && in->request->branch ? in->request->branch : before->branch;

  *f = *before;
  f->branch = NULL;
  if (branch) {
    f->branch = qp__strdup(branch);
    if (!f->branch)
      return qp__fail_nomem(err, "a turn");
  }
  if (in->event != QP__EVENT_SWITCH && in->event != QP__EVENT_ADJUST)
    f->error = in->error;
  f->retry_at = 0;
  f->alone = in->event == QP__EVENT_COMPACT;
  if (m->to.to == QP_STATE_COMPACTING)
    f->overflowed = t->compact_reason == QP__REASON_OVERFLOW;
  else if (in->event == QP__EVENT_ANSWER_ENDED || begins_turn(t, in->event))
    f->overflowed = false;
  if (begins_turn(t, in->event))
    memset(&f->count, 0, sizeof(f->count));
  if (begins_turn(t, in->event) || in->event == QP__EVENT_RETRY ||
      in->event == QP__EVENT_ANSWER_ENDED)
    f->attempt = 0;
  if (in->event == QP__EVENT_RESTART && m->to.to == QP_STATE_FAILED) {
    (void)snprintf(f->error.kind, sizeof(f->error.kind), "interrupted");
    (void)snprintf(f->error.message, sizeof(f->error.message),
                   "the engine ended in the middle of the turn (%s)", qp_state_name(t->state));
  }
  if (m->to.to == QP_STATE_TRANSIENT_FAILURE) {
    f->attempt++;
    f->retry_at = qp__engine_now_ms(t->engine) + pause_ms(t, f->attempt, in->retry_after_ms);
  }
  f->answer_seq = in->event == QP__EVENT_ANSWER_BEGAN ? t->feed.next_seq : 0;
  return QP_OK;
}

/* ---- messages ---- */

enum qp_rc
qp__transition_add_message(struct qp__actor *t, struct qp_message *message, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  struct qp_uuid id = qp_message_id(message);
  enum qp_rc rc = QP_OK;

  if (!qp__vec_reserve(m->messages, m->message_count, m->message_cap, 1))
    rc = qp__fail_nomem(err, "a turn");
  if (!rc && qp_uuid_is_none(&id)) {
    rc = qp__engine_new_id(t->engine, &id, err);
    if (!rc)
      qp_message_set_id(message, &id);
  }
  if (rc) {
    qp_message_free(message);
    return rc;
  }
  m->messages[m->message_count++] = message;
  return QP_OK;
}

/* The answer with the results of the calls in it, when it broke off. */
static enum qp_rc
save_partial(struct qp__actor *t, struct qp_err *err)
{
  struct qp_message *message = NULL;
  enum qp_rc rc = qp__actor_take_answer(t, true, &message, err);

  if (rc)
    return rc;
  if (message) {
    rc = qp__round_begin(t, message, true, err);
    if (rc) {
      qp_message_free(message);
      return rc;
    }
    rc = qp__transition_add_message(t, message, err);
  }
  return rc ? rc : qp__round_close(t, "the answer was interrupted, and the tool did not run", err);
}

static enum qp_rc
save_answer(struct qp__actor *t, struct qp_err *err)
{
  struct qp_message *message = NULL;
  struct qp__turn_count *count = &t->open->transition.facts.count;
  enum qp_rc rc = qp__actor_take_answer(t, false, &message, err);

  if (rc)
    return rc;
  rc = qp__round_begin(t, message, false, err);
  if (rc) {
    qp_message_free(message);
    return rc;
  }
  t->open->transition.paused = t->open->answer.stop == QP__LLM_STOP_PAUSE && t->call_count == 0;
  count->rounds += t->call_count > 0 || t->open->transition.paused;
  count->calls += t->call_count;
  return qp__transition_add_message(t, message, err);
}

/* The text that a call without a result gets as its result. */
static const char *
why_closed(enum qp_state state, enum qp__turn_event event)
{
  if (event == QP__EVENT_CANCEL)
    return "the turn was cancelled before the tool had answered";
  if (state == QP_STATE_EXECUTING_TOOLS)
    return "the turn was interrupted before the tool had answered; it may have run";
  return "the turn ended before the tool had run";
}

static enum qp_rc
make_messages(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp_message *message;
  enum qp_rc rc;

  switch (t->open->transition.to.step) {
  case QP__STEP_SAVE_MESSAGE:
    message = in->request->message;
    in->request->message = NULL;
    rc = qp__transition_add_message(t, message, err);
    if (!rc)
      in->request->saved = qp_message_id(message);
    return rc;
  case QP__STEP_SAVE_ANSWER:
    return save_answer(t, err);
  case QP__STEP_SAVE_PARTIAL:
    return save_partial(t, err);
  case QP__STEP_ASK:
  case QP__STEP_RUN_TOOLS:
    if (in->request && in->request->a.kind == QP_ACTION_SUBMIT_TOOL_RESULTS)
      return qp__round_add_submitted(t, in->request, err);
    return QP_OK;
  case QP__STEP_SAVE_RESULTS:
    return qp__round_close(t, "the tool did not answer", err);
  case QP__STEP_CLOSE_CALLS:
    return qp__round_close(t, why_closed(t->state, in->event), err);
  default:
    return QP_OK;
  }
}

/* ---- the state's detail ---- */

static json_t *
error_object(const struct qp__turn_error *error)
{
  json_t *object = json_pack("{s:s, s:s}", "kind", error->kind, "message", error->message);

  return qp__json_built(object,
                        object && error->status &&
                            json_object_set_new(object, "status", json_integer(error->status)));
}

/* What persons have decided about the calls so far. */
static json_t *
decisions_object(const struct qp__actor *t)
{
  json_t *object = json_object();
  bool good = object != NULL;

  for (size_t i = 0; good && i < t->call_count; i++) {
    const struct qp__actor_call *call = &t->calls[i];

    if (call->approval == QP_APPROVAL_PENDING)
      continue;
    good = json_object_set_new(object, call->id,
                               qp__json_pack_set("{s:s, s:s?, s:b, s:s?, s:s?}", "approval",
                                                 qp_approval_name(call->approval), "reason",
                                                 call->reason, "policy", call->by_policy, "base",
                                                 call->base[0] ? call->base : NULL, "arguments",
                                                 call->original ? call->arguments : NULL)) == 0;
  }
  return qp__json_built(object, !good);
}

/* NULL: no memory. */
static json_t *
pending_object(const struct qp__actor_call *call)
{
  json_t *object = json_pack("{s:s, s:s, s:s}", "id", call->id, "tool_name", call->name, "kind",
                             call->client ? "client" : "approval");
  struct qp_bytes text = { call->arguments, strlen(call->arguments) };
  json_t *arguments = NULL;
  bool bad = object && call->client &&
             (qp__json_parse("arguments", text, &arguments, NULL) ||
              json_object_set_new(object, "arguments", arguments));

  bad = bad || (object && call->preview && json_object_set(object, "preview", call->preview));
  return qp__json_built(object, bad);
}

static json_t *
pending_array(const struct qp__actor *t)
{
  json_t *array = json_array();
  bool good = array != NULL;

  for (size_t i = 0; good && i < t->call_count; i++)
    if (t->calls[i].approval == QP_APPROVAL_PENDING)
      good = json_array_append_new(array, pending_object(&t->calls[i])) == 0;
  return qp__json_built(array, !good);
}

static bool
has_decisions(enum qp_state state)
{
  return state == QP_STATE_AWAITING_TOOL_APPROVAL || state == QP_STATE_EXECUTING_TOOLS;
}

static const char *
reason_name(enum qp__plan_reason reason)
{
  return qp__plan_why_name(reason == QP__REASON_REQUEST    ? QP__WHY_REQUEST
                           : reason == QP__REASON_OVERFLOW ? QP__WHY_OVERFLOW
                                                           : QP__WHY_THRESHOLD);
}

/* NULL: no memory. */
static json_t *
make_detail(const struct qp__actor *t)
{
  const struct qp__turn_facts *f = &t->open->transition.facts;
  enum qp_state to = t->open->transition.to.to;
  json_t *detail;

  if (to == QP_STATE_IDLE)
    return json_null();
  detail =
      qp__json_pack_set("{s:s?, s:I, s:I, s:I, s:f}", "branch", f->branch, "rounds",
                        (json_int_t)f->count.rounds, "calls", (json_int_t)f->count.calls, "tokens",
                        (json_int_t)f->count.tokens, "cost_usd", (double)f->count.cost / PICO);
  return qp__json_built(
      detail,
      (f->error.kind[0] && json_object_set_new(detail, "error", error_object(&f->error))) ||
          (f->attempt && json_object_set_new(detail, "attempt", json_integer(f->attempt))) ||
          (f->retry_at && qp__json_set_time(detail, "retry_at", f->retry_at)) ||
          (to == QP_STATE_COMPACTING &&
           qp__json_set_str(detail, "reason", reason_name(t->compact_reason))) ||
          (f->alone && json_object_set_new(detail, "alone", json_true())) ||
          (f->overflowed && json_object_set_new(detail, "overflowed", json_true())) ||
          (f->answer_seq &&
           json_object_set_new(detail, "answer_seq", json_integer((json_int_t)f->answer_seq))) ||
          (has_decisions(to) && json_object_set_new(detail, "decisions", decisions_object(t))) ||
          (to == QP_STATE_AWAITING_TOOL_APPROVAL &&
           json_object_set_new(detail, "pending", pending_array(t))));
}

/* The client's tools for a turn that begins: its own list, or nothing, which removes the list of
 * the turn before. Returns 0 or -1. */
static int
set_turn_tools(struct qp__actor *t, const struct qp__input *in, json_t *patch)
{
  struct qp__view *v;
  json_t *old;

  if (in->event != QP__EVENT_SEND || !in->request)
    return 0;
  if (in->request->tools)
    return json_object_set(patch, QP__TURN_TOOLS, in->request->tools);
  v = qp__view_get(t->context);
  old = json_object_get(v->meta->extra, QP__TURN_TOOLS);
  qp__view_unref(v);
  return old ? json_object_set_new(patch, QP__TURN_TOOLS, json_null()) : 0;
}

/* How full the window is with the answer that is saved. */
static int
set_window(struct qp__actor *t)
{
  struct qp__pending_transition *m = &t->open->transition;
  const struct qp__actor_asked *asked = &t->open->asked;
  const struct qp__llm_usage *u = &t->open->answer.usage;
  int64_t estimate = asked->budget.used.value - asked->budget.reserve.value;
  int64_t used = u->input + u->cache_read + u->cache_write;
  bool reported = t->open->answer.has_usage && !t->open->answer.estimated && used > 0 &&
                  !qp__usage_is_suspect(u, estimate);
  struct qp_uuid id;

  if (!asked->budget.window.value || !m->message_count || !m->facts.branch)
    return 0;
  id = qp_message_id(m->messages[m->message_count - 1]);
  used = (reported ? used : estimate) + u->output - u->reasoning + asked->budget.reserve.value;
  return json_object_set_new(
      m->patch, "window",
      qp__window_object(asked, m->facts.branch, &id, used,
                        reported ? QP__ORIGIN_PROVIDER : QP__ORIGIN_ESTIMATE));
}

static enum qp_rc
make_patch(struct qp__actor *t, const struct qp__input *in, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  const struct qp__turn_count *total = &m->facts.total;
  int bad;

  m->patch = json_pack("{s:s, s:o}", "current_state", qp_state_name(m->to.to), "state_detail",
                       make_detail(t));
  bad = !m->patch ||
        (total->tokens &&
         json_object_set_new(m->patch, "usage",
                             json_pack("{s:I, s:f}", "tokens", (json_int_t)total->tokens,
                                       "cost_usd", (double)total->cost / PICO))) ||
        set_turn_tools(t, in, m->patch) ||
        (m->view && m->view->patch && json_object_update(m->patch, m->view->patch)) ||
        (m->to.step == QP__STEP_SAVE_ANSWER && set_window(t));
  m->patch = qp__json_built(m->patch, bad);
  return m->patch ? QP_OK : qp__fail_nomem(err, "a turn");
}

/* ---- lines ---- */

static enum qp_rc
add_message_line(struct qp__actor *t, const struct qp_message *message, int64_t now,
                 struct qp_err *err)
{
  struct qp_uuid uuid = qp_message_id(message);
  struct qp_tool_result result;
  char id[QP_UUID_TEXT];
  const char *call = qp_message_tool_result(message, &result) ? result.request_id : NULL;

  return qp__feed_add(&t->feed, "message",
                      qp__json_pack_set("{s:s, s:s, s:s?, s:s?}", "id", qp_uuid_text(&uuid, id),
                                        "role", qp_role_name(qp_message_role(message)), "branch",
                                        t->open->transition.facts.branch, "request_id", call),
                      now, true, err);
}

static enum qp_rc
add_state_line(struct qp__actor *t, int64_t now, struct qp_err *err)
{
  json_t *detail = json_object_get(t->open->transition.patch, "state_detail");
  json_t *data = json_pack("{s:s}", "state", qp_state_name(t->open->transition.to.to));

  data = qp__json_built(data,
                        data && json_is_object(detail) && json_object_set(data, "detail", detail));
  /* `answer` events are published before the commit: they announce nothing durable, and the first
   * word of an answer must not wait. */
  return qp__feed_add(&t->feed, "state", data, now,
                      t->open->transition.event != QP__EVENT_ANSWER_BEGAN, err);
}

static enum qp_rc
add_answer_line(struct qp__actor *t, int64_t now, struct qp_err *err)
{
  return qp__feed_add(&t->feed, "answer",
                      json_pack("{s:s, s:s, s:s}", "provider", t->open->answer.provider, "id",
                                t->open->answer.id, "model", t->open->answer.model),
                      now, false, err);
}

/* What is new about compaction. */
static enum qp_rc
add_compaction_lines(struct qp__actor *t, int64_t now, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  struct qp__view_change *view = m->view;
  enum qp_rc rc = QP_OK;

  if (m->to.to == QP_STATE_COMPACTING)
    rc = qp__feed_add(&t->feed, "compact_started",
                      qp__json_pack_set("{s:s, s:s?}", "reason", reason_name(t->compact_reason),
                                        "branch", m->facts.branch),
                      now, true, err);
  if (!rc && t->state == QP_STATE_COMPACTING && m->to.to == QP_STATE_FAILED)
    rc = qp__feed_add(&t->feed, "compact_failed",
                      qp__json_pack_set("{s:s?, s:s, s:s}", "branch", m->facts.branch, "reason",
                                        reason_name(t->compact_reason), "error",
                                        m->facts.error.message),
                      now, true, err);
  if (!rc && view && view->failed)
    rc = qp__feed_add(&t->feed, "compact_failed", json_incref(view->failed), now, true, err);
  if (!rc && view && view->line)
    rc = qp__feed_add(&t->feed, view->type, json_incref(view->line), now, true, err);
  return rc;
}

static enum qp_rc
make_lines(struct qp__actor *t, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  int64_t now = qp__engine_now_ms(t->engine);
  enum qp_rc rc = QP_OK;

  m->first_seq = m->own_seq = t->feed.next_seq;
  if (m->event == QP__EVENT_ANSWER_BEGAN)
    rc = add_answer_line(t, now, err);
  if (!rc && m->activate)
    rc = qp__feed_add(&t->feed, "branch",
                      json_pack("{s:s, s:b}", "branch", m->activate, "new", m->fork), now, true,
                      err);
  for (size_t i = 0; !rc && i < m->message_count; i++)
    rc = add_message_line(t, m->messages[i], now, err);
  if (!rc)
    rc = add_compaction_lines(t, now, err);
  if (!rc)
    rc = add_state_line(t, now, err);
  m->last_seq = t->feed.next_seq - 1;
  return rc;
}

/* ---- the whole ---- */

/* Of the events that change what the model is sent. */
static enum qp_rc
make_view_change(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;

  if (t->open->taken_over) { /* the present request has it */
    m->view = t->open->taken_over;
    t->open->taken_over = NULL;
    return QP_OK;
  }
  if (in->event != QP__EVENT_COMPACTED && in->event != QP__EVENT_COMPACTED_ALONE &&
      in->event != QP__EVENT_ADJUST)
    return QP_OK;
  m->view = qp__alloc0(1, sizeof(*m->view));
  return m->view ? qp__actor_take_change(t, in, m->view, err) : qp__fail_nomem(err, "a turn");
}

enum qp_rc
qp__transition_prepare(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  enum qp_rc rc = make_facts(t, in, err);

  m->activate = in->activate;
  m->fork = in->fork;
  m->fork_at = in->fork_at;
  if (!rc)
    rc = make_messages(t, in, err);
  if (!rc)
    rc = make_view_change(t, in, err);
  if (!rc)
    rc = make_patch(t, in, err);
  if (!rc)
    rc = make_lines(t, err);
  if (!rc && in->request && in->request->a.key)
    rc = qp__action_key_result(t, in->request, err);
  if (!rc && in->request)
    m->key = in->request->a.key;
  return rc;
}

void
qp__transition_release(struct qp__pending_transition *m)
{
  for (size_t i = 0; i < m->message_count; i++)
    qp_message_free(m->messages[i]);
  qp__free(m->messages);
  json_decref(m->patch);
  qp__view_change_free(m->view);
  qp__free(m->facts.branch);
  memset(m, 0, sizeof(*m));
}

/* Changes of branches, in their order; at most three. */
static size_t
make_branch_changes(const struct qp__pending_transition *m, struct qp_branch_change out[3])
{
  size_t n = 0;

  if (m->fork && qp_uuid_is_none(&m->fork_at)) {
    out[n++] = (struct qp_branch_change){ QP_BRANCH_FORK, m->activate, NULL, NULL };
    out[n++] = (struct qp_branch_change){ QP_BRANCH_REWIND, m->activate, NULL, NULL };
  } else if (m->fork) {
    out[n++] = (struct qp_branch_change){ QP_BRANCH_FORK, m->activate, NULL, &m->fork_at };
  }
  if (m->activate)
    out[n++] = (struct qp_branch_change){ QP_BRANCH_SWITCH, m->activate, NULL, NULL };
  return n;
}

enum qp_rc
qp__transition_commit(struct qp__actor *t, qp_done_fn *done, void *arg, struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  struct qp_branch_change branches[3];
  struct qp_change change = { .size = sizeof(change) };
  struct qp__own_json own = { .metadata = m->patch };
  struct qp_event *events;
  enum qp_rc rc;

  events = qp__feed_stage(&t->feed, &change.event_count);
  if (change.event_count && !events)
    return qp__fail_nomem(err, "a turn");
  if (events)
    m->first_seq = events[0].seq;
  if (m->view && m->view->record.len) {
    own.record_id = m->view->record_id;
    own.record = qp__buf_bytes(&m->view->record);
  }
  change.branch_changes = branches;
  change.branch_change_count = make_branch_changes(m, branches);
  change.branch = m->facts.branch;
  change.messages = m->messages;
  change.message_count = m->message_count;
  change.events = events;
  change.key = m->key;
  change.key_result = m->key_result;
  rc = qp__change_commit(t->context, &change, &own, done, arg, err);
  qp__free(events);
  return rc;
}

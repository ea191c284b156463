/* actor.c - see actor.h. */
#include "turn/actor.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/str.h"
#include "store/context/context_int.h"
#include "turn/compacting.h"

#define FLUSH_BYTES ((size_t)2 << 20) /* this many bytes of lines do not wait for the next tick */

static void commit_ended(struct qp_engine *e, struct qp__post *post);

/* ---- life ---- */

struct qp__actor *
qp__actor_new(struct qp_engine *e, const struct qp_uuid *id)
{
  struct qp__actor *t = qp__alloc0(1, sizeof(*t));

  if (!t)
    return NULL;
  t->engine = e;
  t->id = *id;
  t->inbox_end = &t->inbox;
  qp__feed_init(&t->feed);
  return t;
}

bool
qp__actor_equip(struct qp__actor *t)
{
  if (!t->open)
    t->open = qp__alloc0(1, sizeof(*t->open));
  if (!t->open)
    return false;
  for (size_t i = 0; i < 2; i++)
    t->open->notices[i] = (struct qp__commit_notice){ .post = { .run = commit_ended }, .actor = t };
  return true;
}

void
qp__actor_unequip(struct qp__actor *t)
{
  if (t->open) {
    qp__free(t->open->facts.branch);
    qp__view_change_free(t->open->taken_over);
  }
  qp__free(t->open);
  t->open = NULL;
}

void
qp__actor_free(struct qp__actor *t)
{
  struct qp__release *released = t->released;

  QP_ASSERT(!t->inbox && !t->waiting && !t->jobs && !t->flushing && !t->call && !t->timer);
  qp__round_release(t);
  qp__actor_drop_answer(t);
  qp__feed_release(&t->feed);
  qp_context_close(t->context);
  qp__actor_unequip(t);
  qp__free(t);
  qp__release_done(released);
}

/* ---- actions ---- */

void
qp__action_free(struct qp__action_request *request)
{
  qp_message_free(request->message);
  json_decref(request->tools);
  json_decref(request->values);
  qp__shorten_drop(request->shortening);
  qp__adjustment_free(request->adjustment);
  json_decref(request->edits);
  qp__arena_release(&request->arena);
  qp__free(request);
}

/* Whether the commit of a transition is under way. */
static bool
is_committing(const struct qp__actor *t)
{
  return t->open && t->open->transition.under_way;
}

/* The newest event, without those of a transition that is not durable yet. */
static uint64_t
newest_visible_seq(const struct qp__actor *t)
{
  uint64_t next = is_committing(t) ? t->open->transition.first_seq : t->feed.next_seq;

  return next ? next - 1 : 0;
}

void
qp__action_answer(struct qp__actor *t, struct qp__action_request *request, const struct qp_err *err)
{
  struct qp_action_result result = {
    .state = t ? t->state : QP_STATE_IDLE,
    .message = request->saved,
    .branch = request->branch,
    .seq = t ? newest_visible_seq(t) : 0,
    .replayed = request->replayed,
    .rules_json = request->stored_rules,
  };
  static const struct qp_err fine = { QP_OK, "" };

  if (request->done)
    request->done(request->arg, &result, err ? err->rc : QP_OK, err ? err : &fine);
  qp__action_free(request);
}

static void
answer_waiting(struct qp__actor *t, const struct qp_err *err)
{
  while (t->waiting) {
    struct qp__action_request *request = t->waiting;

    t->waiting = request->next;
    qp__action_answer(t, request, err);
  }
}

/* ---- the inbox ---- */

void
qp__actor_enqueue(struct qp__actor *t, struct qp__input *in)
{
  in->next = NULL;
  *t->inbox_end = in;
  t->inbox_end = &in->next;
}

static struct qp__input *
dequeue(struct qp__actor *t)
{
  struct qp__input *in = t->inbox;

  QP_ASSERT(in);
  t->inbox = in->next;
  if (!t->inbox)
    t->inbox_end = &t->inbox;
  return in;
}

/* Not for an input that is part of an action: it is freed with the action. */
static void
free_input(struct qp__actor *t, struct qp__input *in)
{
  QP_ASSERT(!in->request);
  if (t->open && (in == &t->open->spare || in == &t->open->no_memory))
    in->in_use = false;
  else
    qp__free(in);
}

/* Copies a sentence. It may have been cut in the middle of a character. */
static void
set_error(struct qp__turn_error *error, const char *kind, const char *sentence)
{
  size_t len;

  (void)snprintf(error->kind, sizeof(error->kind), "%s", kind);
  (void)snprintf(error->message, sizeof(error->message), "%s", sentence);
  for (len = strlen(error->message); len && !qp__utf8_ok(error->message, len); len--)
    ;
  error->message[len] = 0;
}

/* A new input in the inbox. NULL: out of memory; then the inbox gets FINAL_ERROR instead, once. */
static struct qp__input *
add_input(struct qp__actor *t, enum qp__turn_event event, uint64_t number)
{
  struct qp__input *in = &t->open->spare;
  bool good = true;

  if (in->in_use)
    in = qp__alloc(sizeof(*in));
  if (!in) {
    in = &t->open->no_memory;
    if (in->in_use)
      return NULL;
    good = false;
  }
  *in = (struct qp__input){ .in_use = true, .retry_after_ms = -1 };
  in->event = good ? event : QP__EVENT_FINAL_ERROR;
  in->number = good ? number : 0;
  if (!good)
    set_error(&in->error, "internal", "out of memory");
  qp__actor_enqueue(t, in);
  return good ? in : NULL;
}

void
qp__actor_enqueue_event(struct qp__actor *t, enum qp__turn_event event, uint64_t number)
{
  (void)add_input(t, event, number);
}

void
qp__actor_enqueue_error(struct qp__actor *t, enum qp__turn_event event, uint64_t number,
                        const char *kind, const char *sentence)
{
  struct qp__input *in = add_input(t, event, number);

  if (in)
    set_error(&in->error, kind, sentence);
}

void
qp__actor_enqueue_fault(struct qp__actor *t, enum qp__turn_event event, uint64_t number,
                        const struct qp__llm_fault *fault, int64_t retry_after_ms)
{
  struct qp__input *in = add_input(t, event, number);

  if (!in)
    return;
  in->retry_after_ms = retry_after_ms;
  set_error(&in->error, qp__fault_name(fault->kind), fault->message);
  in->error.status = fault->status;
}

/* ---- work ---- */

static void
free_timer(uv_handle_t *handle)
{
  qp__free(handle);
}

static void
stop_timer(struct qp__actor *t)
{
  if (!t->timer)
    return;
  t->timer->data = NULL;
  uv_close((uv_handle_t *)t->timer, free_timer);
  t->timer = NULL;
}

static void
stop_call(struct qp__actor *t)
{
  if (t->call)
    qp__llm_call_cancel(t->call);
  t->call = NULL;
  qp__actor_drop_answer(t);
}

void
qp__actor_stop_work(struct qp__actor *t)
{
  t->number++;
  stop_timer(t);
  stop_call(t);
  qp__round_stop(t);
  qp__actor_stop_shortening(t, true);
}

/* Ends the work that does not belong to the next state. */
static void
stop_other_work(struct qp__actor *t, enum qp_state to)
{
  bool asks = to == QP_STATE_AWAITING_LLM_RESPONSE || to == QP_STATE_GENERATING_RESPONSE ||
              to == QP_STATE_STREAMING_LLM_RESPONSE;

  if (to != QP_STATE_TRANSIENT_FAILURE)
    stop_timer(t);
  if (!asks)
    stop_call(t);
  if (to != QP_STATE_EXECUTING_TOOLS)
    qp__round_stop(t);
  if (to != QP_STATE_COMPACTING)
    qp__actor_stop_shortening(t, false);
  if (to != QP_STATE_STREAMING_LLM_RESPONSE)
    t->number++; /* only that state continues the work of the state before it */
}

static void
on_timer(uv_timer_t *timer)
{
  struct qp__actor *t = timer->data;

  if (!t)
    return;
  qp__actor_enqueue_event(t, QP__EVENT_TIMER, t->number);
  qp__actor_pump(t);
}

static void
start_timer(struct qp__actor *t)
{
  int64_t ms = t->open->facts.retry_at - qp__engine_now_ms(t->engine);
  uv_timer_t *timer = qp__alloc0(1, sizeof(*timer));

  t->number++;
  if (!timer) {
    qp__actor_enqueue_error(t, QP__EVENT_FINAL_ERROR, t->number, "internal", "out of memory");
    return;
  }
  (void)uv_timer_init(&t->engine->loop, timer); /* cannot fail */
  timer->data = t;
  t->timer = timer;
  uv_update_time(&t->engine->loop);
  (void)uv_timer_start(timer, on_timer, ms > 0 ? (uint64_t)ms : 0, 0);
}

/* ---- steps ---- */

/* The event, or LIMIT when a limit is reached. */
static void
enqueue_within_limits(struct qp__actor *t, enum qp__turn_event event)
{
  struct qp_err err;

  if (qp__actor_over_limit(&t->engine->limits, &t->open->facts, &err))
    qp__actor_enqueue_error(t, QP__EVENT_LIMIT, 0, "limit", err.msg);
  else
    qp__actor_enqueue_event(t, event, 0);
}

/* The event that follows from the answer that is being saved. */
static enum qp__turn_event
answer_event(const struct qp__actor *t)
{
  return t->open->transition.paused ? QP__EVENT_PAUSED : qp__round_event(t);
}

static void
enqueue_answer_event(struct qp__actor *t)
{
  enum qp__turn_event event = answer_event(t);
  struct qp_err err;

  if (event == QP__EVENT_NO_CALLS)
    qp__actor_enqueue_event(t, event, 0);
  else if (event == QP__EVENT_CALLS_ASK &&
           !qp__actor_over_limit(&t->engine->limits, &t->open->facts, &err))
    qp__round_preview(t); /* then it enqueues the event */
  else
    enqueue_within_limits(t, event);
}

/* The history is shorter: asks the model, unless the summary has used up a limit. */
static void
call_after_compaction(struct qp__actor *t)
{
  struct qp_err err;

  if (qp__actor_over_limit(&t->engine->limits, &t->open->facts, &err))
    qp__actor_enqueue_error(t, QP__EVENT_LIMIT, 0, "limit", err.msg);
  else
    qp__actor_call_model(t);
}

static void
start_step(struct qp__actor *t, enum qp__step step, enum qp__turn_event event)
{
  switch (step) {
  case QP__STEP_SAVE_MESSAGE:
  case QP__STEP_SAVE_RESULTS:
    enqueue_within_limits(t, QP__EVENT_SAVED);
    break;
  case QP__STEP_CALL_MODEL:
    if (event == QP__EVENT_COMPACTED)
      call_after_compaction(t);
    else
      qp__actor_call_model(t);
    break;
  case QP__STEP_SAVE_ANSWER:
    enqueue_answer_event(t);
    break;
  case QP__STEP_RUN_TOOLS:
    qp__round_run(t);
    break;
  case QP__STEP_SHORTEN:
    qp__actor_shorten(t);
    break;
  case QP__STEP_WAIT:
    start_timer(t);
    break;
  default: /* nothing, or the commit has done it already */
    break;
  }
}

/* ---- the state machine ---- */

/* The only function that changes the state of an open context. */
static void
enter(struct qp__actor *t, enum qp__turn_event event, const struct qp__action_request *request)
{
  struct qp__transition cell = qp__fsm_next(t->state, event);
  char id[QP_UUID_TEXT];

  QP_ASSERT(cell.legal);
  qp__log(&t->engine->log, QP_LOG_DEBUG, "turn", "context %s: %s -> %s (%s)",
          qp_uuid_text(&t->id, id), qp_state_name(t->state), qp_state_name(cell.to),
          request ? qp_action_name(request->a.kind) : qp__event_name(event));
  t->state = cell.to;
}

void
qp__actor_enter_stored(struct qp__actor *t, enum qp_state state)
{
  char id[QP_UUID_TEXT];

  qp__log(&t->engine->log, QP_LOG_DEBUG, "turn", "context %s: opened in state %s",
          qp_uuid_text(&t->id, id), qp_state_name(state));
  t->state = state;
}

void
qp__actor_restart(struct qp__actor *t)
{
  struct qp__input *first = t->inbox;
  struct qp__input **end = t->inbox_end;

  t->inbox_end = &t->inbox;
  t->inbox = NULL;
  /* A compaction that a person asked for is not made, and no turn is lost. */
  qp__actor_enqueue_event(t,
                          t->state == QP_STATE_COMPACTING && t->open->facts.alone
                              ? QP__EVENT_COMPACTED_ALONE
                              : QP__EVENT_RESTART,
                          0);
  if (!first)
    return;
  *t->inbox_end = first;
  t->inbox_end = end;
}

void
qp__actor_tell(struct qp__actor *t, const char *type, json_t *data)
{
  if (qp__feed_add(&t->feed, type, data, qp__engine_now_ms(t->engine), false, NULL) == QP_OK) {
    qp__feed_show(&t->feed);
    qp__engine_flush_soon(t->engine);
  }
}

void
qp__commit_notice_post(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__commit_notice *notice = arg;

  notice->err.rc = rc;
  if (rc)
    notice->err = *err;
  qp__engine_post(notice->actor->engine, &notice->post);
}

/* Prepares a transition of the table and begins its commit. */
static enum qp_rc
begin_transition(struct qp__actor *t, struct qp__input *in, struct qp__transition cell,
                 struct qp_err *err)
{
  struct qp__pending_transition *m = &t->open->transition;
  enum qp_rc rc;

  QP_ASSERT(cell.legal && !m->under_way && t->context);
  memset(m, 0, sizeof(*m));
  m->notice = &t->open->notices[t->open->earlier.under_way];
  m->to = cell;
  m->event = in->event;
  m->failure = in->failure;
  rc = qp__transition_prepare(t, in, err);
  if (!rc)
    rc = qp__transition_commit(t, qp__commit_notice_post, m->notice, err);
  if (rc) {
    /* Lines that were streamed before are saved by the next commit. */
    qp__feed_unstage(&t->feed, m->first_seq, m->own_seq);
    qp__feed_drop(&t->feed, m->own_seq, m->last_seq);
    qp__transition_release(m);
    return rc;
  }
  m->under_way = true;
  m->request = in->request;
  stop_other_work(t, cell.to);
  qp__feed_show(&t->feed);
  return QP_OK;
}

/* Whether the step only saves. */
static bool
only_saves(enum qp__step step)
{
  return step == QP__STEP_SAVE_MESSAGE || step == QP__STEP_SAVE_RESULTS ||
         step == QP__STEP_SAVE_ANSWER;
}

/* Stages the transition that follows the one that has just begun. If that is not possible, its
 * event is enqueued once the first is durable. */
static void
begin_next_transition(struct qp__actor *t)
{
  struct qp__input in = { .event = QP__EVENT_SAVED, .retry_after_ms = -1 };
  struct qp__transition cell;
  struct qp_err err;

  if (t->open->transition.to.step == QP__STEP_SAVE_ANSWER)
    in.event = answer_event(t);
  if (in.event != QP__EVENT_NO_CALLS &&
      qp__actor_over_limit(&t->engine->limits, &t->open->transition.facts, &err))
    return;
  if (in.event == QP__EVENT_CALLS_ASK) {
    if (qp__round_preview_reads(t))
      return;
    qp__round_preview_now(t);
  }
  cell = qp__fsm_next(t->open->transition.to.to, in.event);
  if (!cell.legal)
    return;
  t->open->earlier = t->open->transition;
  t->open->transition.under_way = false;
  if (begin_transition(t, &in, cell, &err)) {
    t->open->transition = t->open->earlier;
    memset(&t->open->earlier, 0, sizeof(t->open->earlier));
  }
}

enum qp_rc
qp__actor_apply(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__committer *committer = &t->engine->store->committer;
  struct qp__transition cell = qp__fsm_next(t->state, in->event);
  enum qp_rc rc;

  if (!cell.legal)
    return qp__fail(err, QP_CONFLICT, "%s, which the state %s does not allow",
                    qp__event_text(in->event), qp_state_name(t->state));
  if (!only_saves(cell.step) || t->stage == QP__ACTOR_RELEASING ||
      t->engine->phase != QP__ENGINE_RUNNING)
    return begin_transition(t, in, cell, err);
  qp__committer_hold(committer);
  rc = begin_transition(t, in, cell, err);
  if (!rc)
    begin_next_transition(t);
  qp__committer_let_go(committer);
  return rc;
}

/* The context is Failed, and that could not be saved. */
static void
fail_in_memory(struct qp__actor *t, const struct qp_err *failure,
               struct qp__action_request *request)
{
  qp__actor_stop_work(t);
  set_error(&t->open->facts.error, "save", failure->msg);
  enter(t, QP__EVENT_SAVE_FAILED, NULL);
  if (request)
    qp__action_answer(t, request, failure);
  answer_waiting(t, failure);
}

void
qp__actor_save_failed(struct qp__actor *t, const struct qp_err *failure,
                      struct qp__action_request *request)
{
  struct qp__input in = { .event = QP__EVENT_SAVE_FAILED, .request = request, .failure = *failure };
  char id[QP_UUID_TEXT];
  struct qp_err err;

  qp__log(&t->engine->log, QP_LOG_ERROR, "turn", "context %s in state %s: saving failed: %s",
          qp_uuid_text(&t->id, id), qp_state_name(t->state), failure->msg);
  t->engine->unclean = true;
  set_error(&in.error, "save", failure->msg);
  qp__actor_stop_work(t);
  if (qp__actor_apply(t, &in, &err))
    fail_in_memory(t, failure, in.request);
}

static void
start_work(struct qp__actor *t, const struct qp__pending_transition *m, bool halts)
{
  if (halts)
    qp__actor_restart(t); /* nothing is started any more: recover as the next engine would */
  else if (t->stage != QP__ACTOR_RELEASING)
    start_step(t, m->to.step, m->event);
}

/* The transition is durable. */
static void
commit_succeeded(struct qp__actor *t, struct qp__pending_transition *m)
{
  static const struct qp_err stopped = { QP_STOPPED, "the engine is stopping" };
  struct qp__action_request *request = m->request;
  bool stops = t->engine->phase != QP__ENGINE_RUNNING;
  bool failed = m->event == QP__EVENT_SAVE_FAILED;
  bool ends = stops && (m->event == QP__EVENT_RESTART || m->event == QP__EVENT_COMPACTED_ALONE);
  bool halts = stops && !qp_state_awaits_client(m->to.to);

  enter(t, m->event, request);
  QP_ASSERT(t->state == m->to.to);
  qp__free(t->open->facts.branch);
  t->open->facts = m->facts;
  m->facts.branch = NULL;
  m->request = NULL;
  qp__feed_saved(&t->feed, m->first_seq, m->last_seq);
  if (request && failed)
    qp__action_answer(t, request, &m->failure);
  else if (request && request->a.wait) {
    request->next = t->waiting;
    t->waiting = request;
  } else if (request)
    qp__action_answer(t, request, NULL);
  if (m->to.step == QP__STEP_SAVE_RESULTS || m->to.step == QP__STEP_CLOSE_CALLS ||
      m->to.step == QP__STEP_SAVE_PARTIAL)
    qp__round_release(t);        /* every call has its stored result */
  if (m == &t->open->transition) /* the step of `earlier` is `transition`, which is under way */
    start_work(t, m, halts);
  if (qp_state_awaits_client(t->state))
    answer_waiting(t, failed ? &m->failure : ends ? &stopped : NULL);
  if (t->state == QP_STATE_IDLE)
    qp__queue_attend(t);
}

/* The transition will never be durable. Returns its action, which the caller owns now. */
static struct qp__action_request *
drop_transition(struct qp__actor *t, struct qp__pending_transition *m)
{
  struct qp__action_request *request = m->request;

  qp__feed_drop(&t->feed, m->first_seq, m->last_seq);
  m->request = NULL;
  qp__transition_release(m);
  return request;
}

static void
commit_failed(struct qp__actor *t)
{
  bool twice = t->open->transition.event == QP__EVENT_SAVE_FAILED;
  struct qp_err failure = twice ? t->open->transition.failure : t->open->transition.notice->err;
  struct qp__action_request *request;

  if (t->open->earlier.under_way) {
    failure = t->open->earlier.notice->err;
    request = drop_transition(t, &t->open->earlier);
    (void)drop_transition(t, &t->open->transition); /* it has no action */
  } else {
    request = drop_transition(t, &t->open->transition);
  }
  if (twice)
    fail_in_memory(t, &failure, request);
  else
    qp__actor_save_failed(t, &failure, request);
}

static void
commit_ended(struct qp_engine *e, struct qp__post *post)
{
  struct qp__commit_notice *notice = (struct qp__commit_notice *)post;
  struct qp__actor *t = notice->actor;

  (void)e;
  QP_ASSERT(is_committing(t));
  if (t->open->earlier.under_way && t->open->earlier.notice == notice) {
    if (!notice->err.rc) {
      t->open->earlier.under_way = false;
      commit_succeeded(t, &t->open->earlier);
      qp__transition_release(&t->open->earlier);
    }
    return; /* the notice of `transition` follows; it reports a failure when this one does */
  }
  QP_ASSERT(t->open->transition.notice == notice);
  t->open->transition.under_way = false;
  if (t->open->earlier.under_way || notice->err.rc) {
    commit_failed(t);
  } else {
    commit_succeeded(t, &t->open->transition);
    qp__transition_release(&t->open->transition);
  }
  qp__actor_pump(t);
}

/* ---- processing the inbox ---- */

static void
process(struct qp__actor *t, struct qp__input *in)
{
  struct qp_err err = { QP_OK, "" };

  if (in->is_action) {
    qp__actor_do_action(t, in); /* it is answered and freed, or the transition owns it */
    return;
  }
  if (in->number && in->number != t->number)
    ; /* of work that has ended */
  else if (!qp__fsm_next(t->state, in->event).legal)
    qp__log(&t->engine->log, QP_LOG_DEBUG, "turn", "%s in state %s changes nothing",
            qp__event_name(in->event), qp_state_name(t->state));
  else if (qp__actor_apply(t, in, &err))
    qp__actor_save_failed(t, &err, NULL);
  free_input(t, in);
}

/* Nothing runs, and no client waits. */
static bool
has_nothing_to_do(const struct qp__actor *t)
{
  return !t->inbox && !is_committing(t) && !t->flushing && !t->jobs && !t->waiting && !t->call &&
         !t->timer && !t->shortening;
}

void
qp__actor_reject_all(struct qp__actor *t, const struct qp_err *err)
{
  while (t->inbox) {
    struct qp__input *in = dequeue(t);

    if (in->is_action)
      qp__action_answer(t, in->request, err);
    else
      free_input(t, in);
  }
  answer_waiting(t, err);
}

/* Closes the context, and frees the actor if it has no subscriber. */
static void
close_context(struct qp__actor *t)
{
  struct qp_engine *e = t->engine;

  if (qp__feed_has_unstaged(&t->feed) && t->stage == QP__ACTOR_OPEN) {
    qp__engine_flush_soon(e);
    return;
  }
  qp__round_release(t);
  qp__actor_drop_answer(t);
  qp_context_close(t->context);
  t->context = NULL;
  qp__actor_unequip(t);
  t->stage = QP__ACTOR_CLOSED;
  t->lost = false;
  qp__feed_remove_ended(&t->feed);
  if (!t->feed.subs) {
    qp__engine_remove_actor(e, t);
    qp__actor_free(t);
  }
}

void
qp__actor_pump(struct qp__actor *t)
{
  static const struct qp_err released = { QP_STOPPED, "the engine releases the context" };
  static const struct qp_err lost = {
    QP_IO, "this server lost the context to another one before the turn ended; the request may "
           "have been carried out: look before you repeat it"
  };

  QP_ASSERT(t->engine->pumped != t); /* callbacks post; they do not call back into the actor */
  t->engine->pumped = t;
  if (t->stage == QP__ACTOR_RELEASING) {
    atomic_store(&t->recall_stops, true);
    qp__actor_stop_work(t);
    qp__actor_reject_all(t, t->lost ? &lost : &released);
  }
  if (t->stage == QP__ACTOR_OPEN && !is_committing(t))
    qp__actor_save_prepared(t);
  while (!is_committing(t) && t->inbox) {
    if (t->stage == QP__ACTOR_CLOSED)
      qp__actor_load(t);
    if (t->stage != QP__ACTOR_OPEN)
      break;
    process(t, dequeue(t));
  }
  if (t->stage == QP__ACTOR_OPEN && !is_committing(t) && qp_state_awaits_client(t->state))
    answer_waiting(t, NULL); /* of contexts that needed no recovery */
  t->engine->pumped = NULL;
  if (QP_CHECKED && qp__check_due(&t->feed.check_credit, t->feed.count))
    QP_ASSERT(!qp__actor_violation(t));
  if (has_nothing_to_do(t) && (t->stage != QP__ACTOR_OPEN || qp_state_awaits_client(t->state)))
    close_context(t);
}

/* ---- streamed lines ---- */

static void
on_flushed(struct qp_engine *e, struct qp__post *post)
{
  struct qp__commit_notice *notice = (struct qp__commit_notice *)post;
  struct qp__actor *t = notice->actor;

  (void)e;
  QP_ASSERT(t->flushing);
  t->flushing--;
  if (notice->err.rc) {
    qp__feed_drop(&t->feed, notice->first_seq, notice->last_seq);
    if (!is_committing(t))
      qp__actor_save_failed(t, &notice->err, NULL);
  } else {
    qp__feed_saved(&t->feed, notice->first_seq, notice->last_seq);
  }
  qp__free(notice);
  if (qp__feed_has_unstaged(&t->feed)) /* the last tick may have skipped this actor */
    qp__engine_flush_soon(t->engine);
  qp__actor_pump(t);
}

/* When out of memory, the lines wait for the next tick. */
static void
flush(struct qp__actor *t)
{
  struct qp__commit_notice *notice = qp__alloc0(1, sizeof(*notice));
  struct qp_change change = { .size = sizeof(change) };
  static const struct qp__own_json own;
  struct qp_event *events = NULL;
  struct qp_err err;
  enum qp_rc rc;

  if (notice)
    events = qp__feed_stage(&t->feed, &change.event_count);
  if (!events) {
    qp__free(notice);
    return;
  }
  notice->post.run = on_flushed;
  notice->actor = t;
  notice->first_seq = events[0].seq;
  notice->last_seq = events[change.event_count - 1].seq;
  t->flushing++;
  change.events = events;
  rc = qp__change_commit(t->context, &change, &own, qp__commit_notice_post, notice, &err);
  qp__free(events);
  if (!rc)
    return;
  t->flushing--;
  qp__feed_drop(&t->feed, notice->first_seq, notice->last_seq);
  qp__free(notice);
  if (!is_committing(t))
    qp__actor_save_failed(t, &err, NULL);
  qp__actor_pump(t);
}

void
qp__actor_flush(struct qp__actor *t)
{
  if (!t->flushing && t->stage == QP__ACTOR_OPEN && qp__feed_has_unstaged(&t->feed))
    flush(t);
}

void
qp__actor_flush_if_large(struct qp__actor *t)
{
  if (t->feed.unstaged > FLUSH_BYTES && t->stage == QP__ACTOR_OPEN)
    flush(t);
}

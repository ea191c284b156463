/* actor.c - see actor.h. */
#include "turn/actor.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "store/context/context_int.h"

#define FLUSH_BYTES ((size_t)2 << 20) /* lines that do not wait for the next tick */

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
  struct qp__actor_gear *gear = t->gear ? t->gear : qp__alloc0(1, sizeof(*gear));

  if (!gear)
    return false;
  t->gear = gear;
  for (size_t i = 0; i < 2; i++)
    gear->ends[i] = (struct qp__actor_end){ .post = { .run = commit_ended }, .turn = t };
  return true;
}

static void
free_gear(struct qp__actor *t)
{
  if (t->gear)
    qp__free(t->gear->facts.branch);
  qp__free(t->gear);
  t->gear = NULL;
}

void
qp__actor_free(struct qp__actor *t)
{
  struct qp__release *released = t->released;

  qp__round_release(t);
  qp__actor_drop_answer(t);
  qp__feed_release(&t->feed);
  qp_context_close(t->context);
  free_gear(t);
  qp__free(t);
  qp__release_done(released);
}

bool
qp__state_rests(enum qp__state state)
{
  return !qp__fsm_is_busy(state) || state == QP__STATE_AWAITING_TOOL_APPROVAL;
}

/* ---- actions ---- */

void
qp__act_free(struct qp__act *act)
{
  qp_message_free(act->message);
  qp__arena_release(&act->arena);
  qp__free(act);
}

/* Whether a commit is under way. */
static bool
is_moving(const struct qp__actor *t)
{
  return t->gear && t->gear->move.under_way;
}

/* The newest event but for those of a move that is not durable yet. */
static uint64_t
newest_told(const struct qp__actor *t)
{
  uint64_t next = is_moving(t) ? t->gear->move.first_seq : t->feed.next_seq;

  return next ? next - 1 : 0;
}

void
qp__act_answer(struct qp__actor *t, struct qp__act *act, const struct qp_err *err)
{
  struct qp_action_result result = {
    .state = t ? qp__state_name(t->state) : "",
    .message = act->saved,
    .branch = act->branch,
    .seq = t ? newest_told(t) : 0,
    .replayed = act->replayed,
  };
  static const struct qp_err fine = { QP_OK, "" };

  if (act->done)
    act->done(act->arg, &result, err ? err->rc : QP_OK, err ? err : &fine);
  qp__act_free(act);
}

static void
answer_waiting(struct qp__actor *t, const struct qp_err *err)
{
  while (t->waiting) {
    struct qp__act *act = t->waiting;

    t->waiting = act->next;
    qp__act_answer(t, act, err);
  }
}

/* ---- the inbox ---- */

void
qp__actor_push(struct qp__actor *t, struct qp__occurrence *o)
{
  o->next = NULL;
  *t->inbox_end = o;
  t->inbox_end = &o->next;
}

static struct qp__occurrence *
pop(struct qp__actor *t)
{
  struct qp__occurrence *o = t->inbox;

  t->inbox = o->next;
  if (!t->inbox)
    t->inbox_end = &t->inbox;
  return o;
}

/* Not for one that is part of an action, which goes with that. */
static void
free_occurrence(struct qp__actor *t, struct qp__occurrence *o)
{
  if (t->gear && o == &t->gear->spare)
    t->gear->spare_used = false;
  else
    qp__free(o);
}

static struct qp__occurrence *
new_occurrence(struct qp__actor *t)
{
  struct qp__occurrence *o;

  if (t->gear && !t->gear->spare_used) {
    o = &t->gear->spare;
    t->gear->spare_used = true;
  } else {
    o = qp__alloc(sizeof(*o));
  }
  if (!o) {
    t->lost = true;
    return NULL;
  }
  memset(o, 0, sizeof(*o));
  o->retry_after_ms = -1;
  return o;
}

void
qp__actor_happen(struct qp__actor *t, enum qp__event event, uint64_t number)
{
  struct qp__occurrence *o = new_occurrence(t);

  if (!o)
    return;
  o->event = event;
  o->number = number;
  qp__actor_push(t, o);
}

/* Copies a sentence, which may have been cut in the middle of a character. */
static void
set_error(struct qp__actor_error *error, const char *kind, const char *sentence)
{
  size_t len;

  (void)snprintf(error->kind, sizeof(error->kind), "%s", kind);
  (void)snprintf(error->message, sizeof(error->message), "%s", sentence);
  for (len = strlen(error->message); len && !qp__utf8_ok(error->message, len); len--)
    ;
  error->message[len] = 0;
}

void
qp__actor_fail(struct qp__actor *t, enum qp__event event, uint64_t number, const char *kind,
               const char *sentence)
{
  struct qp__occurrence *o = new_occurrence(t);

  if (!o)
    return;
  o->event = event;
  o->number = number;
  set_error(&o->error, kind, sentence);
  qp__actor_push(t, o);
}

void
qp__actor_fault(struct qp__actor *t, enum qp__event event, uint64_t number,
                const struct qp__llm_fault *fault, int64_t retry_after_ms)
{
  struct qp__occurrence *o = new_occurrence(t);

  if (!o)
    return;
  o->event = event;
  o->number = number;
  o->retry_after_ms = retry_after_ms;
  set_error(&o->error, qp__fault_name(fault->kind), fault->message);
  o->error.status = fault->status;
  qp__actor_push(t, o);
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
}

/* Ends the work that does not belong to the state that comes. */
static void
leave(struct qp__actor *t, enum qp__state to)
{
  bool asks = to == QP__STATE_AWAITING_LLM_RESPONSE || to == QP__STATE_GENERATING_RESPONSE ||
              to == QP__STATE_STREAMING_LLM_RESPONSE;

  if (to != QP__STATE_TRANSIENT_FAILURE)
    stop_timer(t);
  if (!asks)
    stop_call(t);
  if (to != QP__STATE_EXECUTING_TOOLS)
    qp__round_stop(t);
  if (to != QP__STATE_STREAMING_LLM_RESPONSE)
    t->number++; /* only that state goes on with the work of the one before */
}

static void
on_timer(uv_timer_t *timer)
{
  struct qp__actor *t = timer->data;

  if (!t)
    return;
  qp__actor_happen(t, QP__EVENT_TIMER, t->number);
  qp__actor_pump(t);
}

static void
start_timer(struct qp__actor *t)
{
  int64_t ms = t->gear->facts.retry_at - qp__engine_now_ms(t->engine);
  uv_timer_t *timer = qp__alloc0(1, sizeof(*timer));

  t->number++;
  if (!timer) {
    qp__actor_fail(t, QP__EVENT_FINAL_ERROR, t->number, "internal", "out of memory");
    return;
  }
  (void)uv_timer_init(&t->engine->loop, timer); /* cannot fail */
  timer->data = t;
  t->timer = timer;
  uv_update_time(&t->engine->loop);
  (void)uv_timer_start(timer, on_timer, ms > 0 ? (uint64_t)ms : 0, 0);
}

/* ---- steps ---- */

/* Goes on, unless a limit is reached. */
static void
go_on(struct qp__actor *t, enum qp__event event)
{
  struct qp_err err;

  if (qp__actor_over_limit(&t->engine->limits, &t->gear->facts, &err))
    qp__actor_fail(t, QP__EVENT_LIMIT, 0, "limit", err.msg);
  else
    qp__actor_happen(t, event, 0);
}

/* What the answer of the move means for the machine. */
static enum qp__event
answer_event(const struct qp__actor *t)
{
  return t->gear->move.paused ? QP__EVENT_PAUSED : qp__round_event(t);
}

static void
look_at_calls(struct qp__actor *t)
{
  enum qp__event event = answer_event(t);

  if (event == QP__EVENT_NO_CALLS)
    qp__actor_happen(t, event, 0);
  else
    go_on(t, event);
}

/* Says how much too long the request is, and which part of it. */
static void
fail_too_long(struct qp__actor *t)
{
  const struct qp__actor_asked *asked = &t->gear->asked;
  bool one = asked->largest_bytes > asked->all_bytes / 2;
  char sentence[320];
  char figures[100] = "";

  if (asked->tokens && asked->window)
    (void)snprintf(figures, sizeof(figures), " (%lld tokens, and the window has %lld)",
                   (long long)asked->tokens, (long long)asked->window);
  else if (asked->window)
    (void)snprintf(figures, sizeof(figures), " (the window has %lld tokens)",
                   (long long)asked->window);
  (void)snprintf(sentence, sizeof(sentence),
                 "the request does not fit the window of the model '%.60s'%s: %s", asked->model,
                 figures,
                 one ? "most of it is one message; send it in parts, or choose a model with a "
                       "larger window"
                     : "the conversation is too long; start a new one, or choose a model with a "
                       "larger window");
  qp__actor_fail(t, QP__EVENT_FINAL_ERROR, 0, "too_long", sentence);
}

static void
take_step(struct qp__actor *t, enum qp__step step)
{
  switch (step) {
  case QP__STEP_SAVE_MESSAGE:
  case QP__STEP_SAVE_RESULTS:
    go_on(t, QP__EVENT_SAVED);
    break;
  case QP__STEP_CALL_MODEL:
    qp__actor_ask(t);
    break;
  case QP__STEP_SAVE_ANSWER:
    look_at_calls(t);
    break;
  case QP__STEP_RUN_TOOLS:
    qp__round_run(t);
    break;
  case QP__STEP_SHORTEN:
    fail_too_long(t); /* compaction would be here */
    break;
  case QP__STEP_WAIT:
    start_timer(t);
    break;
  default: /* nothing, or what the commit has done already */
    break;
  }
}

/* ---- the machine ---- */

/* The only function that writes the state. */
static void
enter(struct qp__actor *t, enum qp__state state)
{
  t->state = state;
}

void
qp__actor_enter_stored(struct qp__actor *t, enum qp__state state)
{
  enter(t, state);
}

void
qp__actor_restart(struct qp__actor *t)
{
  struct qp__occurrence *first = t->inbox;
  struct qp__occurrence **end = t->inbox_end;

  t->inbox_end = &t->inbox;
  t->inbox = NULL;
  qp__actor_happen(t, QP__EVENT_RESTART, 0);
  if (!first)
    return;
  *t->inbox_end = first;
  t->inbox_end = end;
}

static void
on_done(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__actor_end *end = arg;

  end->err.rc = rc;
  if (rc)
    end->err = *err;
  qp__engine_post(end->turn->engine, &end->post);
}

/* Prepares the move for a cell of the table and begins its commit. */
static enum qp_rc
begin_move(struct qp__actor *t, struct qp__occurrence *o, struct qp__transition cell,
           struct qp_err *err)
{
  struct qp__actor_move *m = &t->gear->move;
  enum qp_rc rc;

  memset(m, 0, sizeof(*m));
  m->end = &t->gear->ends[t->gear->ahead.under_way];
  m->to = cell;
  m->event = o->event;
  m->failure = o->failure;
  rc = qp__move_prepare(t, o, err);
  if (!rc)
    rc = qp__move_commit(t, on_done, m->end, err);
  if (rc) {
    /* What was streamed can go with the next commit. */
    qp__feed_unstage(&t->feed, m->first_seq, m->own_seq);
    qp__feed_lost(&t->feed, m->own_seq, m->last_seq);
    qp__move_release(m);
    return rc;
  }
  m->under_way = true;
  m->act = o->act;
  leave(t, cell.to);
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

/* Stages what comes behind the move that was just begun. Where that is not possible it comes when
 * the move is stored. */
static void
follow(struct qp__actor *t)
{
  struct qp__occurrence o = { .event = QP__EVENT_SAVED, .retry_after_ms = -1 };
  struct qp__transition cell;
  struct qp_err err;

  if (t->gear->move.to.step == QP__STEP_SAVE_ANSWER)
    o.event = answer_event(t);
  if (o.event != QP__EVENT_NO_CALLS &&
      qp__actor_over_limit(&t->engine->limits, &t->gear->move.facts, &err))
    return;
  cell = qp__fsm_next(t->gear->move.to.to, o.event);
  if (!cell.legal)
    return;
  t->gear->ahead = t->gear->move;
  if (begin_move(t, &o, cell, &err)) {
    t->gear->move = t->gear->ahead;
    memset(&t->gear->ahead, 0, sizeof(t->gear->ahead));
  }
}

enum qp_rc
qp__actor_apply(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err)
{
  struct qp__committer *committer = &t->engine->store->committer;
  struct qp__transition cell = qp__fsm_next(t->state, o->event);
  enum qp_rc rc;

  if (!cell.legal)
    return qp__fail(err, QP_CONFLICT, "%s, which the state %s does not allow",
                    qp__event_text(o->event), qp__state_name(t->state));
  if (!only_saves(cell.step) || t->doomed || t->engine->draining)
    return begin_move(t, o, cell, err);
  qp__committer_hold(committer);
  rc = begin_move(t, o, cell, err);
  if (!rc)
    follow(t);
  qp__committer_let_go(committer);
  return rc;
}

/* The context is Failed, and it could not be saved that it is. */
static void
fail_in_memory(struct qp__actor *t, const struct qp_err *failure, struct qp__act *act)
{
  qp__actor_stop_work(t);
  set_error(&t->gear->facts.error, "save", failure->msg);
  t->unsaved = true;
  enter(t, QP__STATE_FAILED);
  if (act)
    qp__act_answer(t, act, failure);
  answer_waiting(t, failure);
}

void
qp__actor_save_failed(struct qp__actor *t, const struct qp_err *failure, struct qp__act *act)
{
  struct qp__occurrence o = { .event = QP__EVENT_SAVE_FAILED, .act = act, .failure = *failure };
  char id[QP_UUID_TEXT];
  struct qp_err err;

  qp__log(&t->engine->log, QP_LOG_ERROR, "turn", "context %s in state %s: saving failed: %s",
          qp_uuid_text(&t->id, id), qp__state_name(t->state), failure->msg);
  t->engine->unclean = true;
  set_error(&o.error, "save", failure->msg);
  qp__actor_stop_work(t);
  if (qp__actor_apply(t, &o, &err))
    fail_in_memory(t, failure, o.act);
}

static void
go_further(struct qp__actor *t, const struct qp__actor_move *m, bool halts)
{
  if (halts)
    qp__actor_restart(t); /* nothing begins any more: as a restart would find it */
  else if (!t->doomed)
    take_step(t, m->to.step);
}

/* The move is durable. */
static void
commit_succeeded(struct qp__actor *t, struct qp__actor_move *m)
{
  static const struct qp_err stopped = { QP_STOPPED, "the engine stops" };
  struct qp__act *act = m->act;
  bool failed = m->event == QP__EVENT_SAVE_FAILED;
  bool ends = t->engine->draining && m->event == QP__EVENT_RESTART;
  bool halts = t->engine->draining && !qp__state_rests(m->to.to);

  enter(t, m->to.to);
  t->unsaved = false;
  qp__free(t->gear->facts.branch);
  t->gear->facts = m->facts;
  m->facts.branch = NULL;
  m->act = NULL;
  qp__feed_saved(&t->feed, m->first_seq, m->last_seq);
  if (act && failed)
    qp__act_answer(t, act, &m->failure);
  else if (act && act->a.wait) {
    act->next = t->waiting;
    t->waiting = act;
  } else if (act)
    qp__act_answer(t, act, NULL);
  if (m->to.step == QP__STEP_SAVE_RESULTS || m->to.step == QP__STEP_CLOSE_CALLS ||
      m->to.step == QP__STEP_SAVE_PARTIAL)
    qp__round_release(t);  /* every call has its stored result */
  if (m == &t->gear->move) /* what follows `ahead` is under way */
    go_further(t, m, halts);
  if (qp__state_rests(t->state))
    answer_waiting(t, failed ? &m->failure : ends ? &stopped : NULL);
}

/* The move is not durable, and never will be. Answers its action, which is the caller's now. */
static struct qp__act *
drop_move(struct qp__actor *t, struct qp__actor_move *m)
{
  struct qp__act *act = m->act;

  qp__feed_lost(&t->feed, m->first_seq, m->last_seq);
  m->act = NULL;
  qp__move_release(m);
  return act;
}

static void
commit_failed(struct qp__actor *t)
{
  bool twice = t->gear->move.event == QP__EVENT_SAVE_FAILED;
  struct qp_err failure = twice ? t->gear->move.failure : t->gear->move.end->err;
  struct qp__act *act;

  if (t->gear->ahead.under_way) {
    failure = t->gear->ahead.end->err;
    act = drop_move(t, &t->gear->ahead);
    (void)drop_move(t, &t->gear->move); /* it has no action */
  } else {
    act = drop_move(t, &t->gear->move);
  }
  if (twice)
    fail_in_memory(t, &failure, act);
  else
    qp__actor_save_failed(t, &failure, act);
}

static void
commit_ended(struct qp_engine *e, struct qp__post *post)
{
  struct qp__actor_end *end = (struct qp__actor_end *)post;
  struct qp__actor *t = end->turn;

  (void)e;
  if (t->gear->ahead.under_way && t->gear->ahead.end == end) {
    if (!end->err.rc) {
      t->gear->ahead.under_way = false;
      commit_succeeded(t, &t->gear->ahead);
      qp__move_release(&t->gear->ahead);
    }
    return; /* `move` comes too, and fails when this one has */
  }
  t->gear->move.under_way = false;
  if (t->gear->ahead.under_way || end->err.rc) {
    commit_failed(t);
  } else {
    commit_succeeded(t, &t->gear->move);
    qp__move_release(&t->gear->move);
  }
  qp__actor_pump(t);
}

/* ---- taking occurrences ---- */

static void
handle(struct qp__actor *t, struct qp__occurrence *o)
{
  struct qp_err err = { QP_OK, "" };

  if (o->is_action) {
    qp__actor_act(t, o); /* it is gone, or the move's */
    return;
  }
  if (o->number && o->number != t->number)
    ; /* of work that is over */
  else if (!qp__fsm_next(t->state, o->event).legal)
    qp__log(&t->engine->log, QP_LOG_DEBUG, "turn", "%s in state %s changes nothing",
            qp__event_name(o->event), qp__state_name(t->state));
  else if (qp__actor_apply(t, o, &err))
    qp__actor_save_failed(t, &err, NULL);
  free_occurrence(t, o);
}

/* Whether anything of it goes on or is asked for. */
static bool
is_quiet(const struct qp__actor *t)
{
  return !t->inbox && !is_moving(t) && !t->flushing && !t->jobs && !t->waiting && !t->call &&
         !t->timer && t->stage != QP__ACTOR_LOADING;
}

void
qp__actor_refuse(struct qp__actor *t, const struct qp_err *err)
{
  while (t->inbox) {
    struct qp__occurrence *o = pop(t);

    if (o->is_action)
      qp__act_answer(t, o->act, err);
    else
      free_occurrence(t, o);
  }
  answer_waiting(t, err);
}

/* Lets go of the context, and of the turn when nobody listens. */
static void
rest(struct qp__actor *t)
{
  struct qp_engine *e = t->engine;

  if (qp__feed_has_unstaged(&t->feed) && t->stage == QP__ACTOR_WARM && !t->doomed) {
    qp__engine_dirty(e);
    return;
  }
  qp__round_release(t);
  qp__actor_drop_answer(t);
  qp_context_close(t->context);
  t->context = NULL;
  free_gear(t);
  t->stage = QP__ACTOR_COLD;
  qp__feed_sweep(&t->feed);
  if (!t->feed.subs) {
    qp__engine_remove(e, t);
    qp__actor_free(t);
  }
}

void
qp__actor_pump(struct qp__actor *t)
{
  static const struct qp_err released = { QP_STOPPED, "the engine lets go of the context" };

  if (t->pumping)
    return;
  t->pumping = true;
  if (t->doomed) {
    qp__actor_stop_work(t);
    qp__actor_refuse(t, &released);
  }
  while (!is_moving(t) && (t->inbox || t->lost) && !t->doomed) {
    if (t->stage == QP__ACTOR_COLD)
      qp__actor_load(t);
    if (t->stage != QP__ACTOR_WARM)
      break;
    if (t->inbox) {
      handle(t, pop(t));
    } else {
      t->lost = false;
      qp__actor_fail(t, QP__EVENT_FINAL_ERROR, 0, "internal", "out of memory");
    }
  }
  t->pumping = false;
  if (t->recovering && (is_quiet(t) || qp__state_rests(t->state)) &&
      t->stage != QP__ACTOR_LOADING && !is_moving(t)) {
    t->recovering = false;
    qp__engine_recovered(t->engine);
  }
  if (is_quiet(t) && (t->doomed || t->stage == QP__ACTOR_COLD || qp__state_rests(t->state)))
    rest(t);
}

/* ---- what is streamed ---- */

static void
on_lines_done(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__actor_end *end = arg;

  if (rc)
    end->err = *err;
  end->err.rc = rc;
  qp__engine_post(end->turn->engine, &end->post);
}

static void
on_flushed(struct qp_engine *e, struct qp__post *post)
{
  struct qp__actor_end *end = (struct qp__actor_end *)post;
  struct qp__actor *t = end->turn;

  (void)e;
  t->flushing--;
  if (end->err.rc) {
    qp__feed_lost(&t->feed, end->first_seq, end->last_seq);
    if (!t->gear->move.under_way)
      qp__actor_save_failed(t, &end->err, NULL);
  } else {
    qp__feed_saved(&t->feed, end->first_seq, end->last_seq);
  }
  qp__free(end);
  if (qp__feed_has_unstaged(&t->feed)) /* a tick may have passed it by meanwhile */
    qp__engine_dirty(t->engine);
  qp__actor_pump(t);
}

/* Without memory the lines wait for the next tick. */
static void
flush(struct qp__actor *t)
{
  struct qp__actor_end *end = qp__alloc0(1, sizeof(*end));
  struct qp_event *events = NULL;
  struct qp_err err;
  size_t count = 0;
  enum qp_rc rc;

  if (end)
    events = qp__feed_stage(&t->feed, &count);
  if (!events) {
    qp__free(end);
    return;
  }
  end->post.run = on_flushed;
  end->turn = t;
  end->first_seq = events[0].seq;
  end->last_seq = events[count - 1].seq;
  t->flushing++;
  rc = qp_events_append_async(t->context, events, count, NULL, on_lines_done, end, &err);
  qp__free(events);
  if (!rc)
    return;
  t->flushing--;
  qp__feed_lost(&t->feed, end->first_seq, end->last_seq);
  qp__free(end);
  if (!t->gear->move.under_way)
    qp__actor_save_failed(t, &err, NULL);
  qp__actor_pump(t);
}

void
qp__actor_flush(struct qp__actor *t)
{
  if (!t->flushing && t->stage == QP__ACTOR_WARM && !t->doomed && qp__feed_has_unstaged(&t->feed))
    flush(t);
}

void
qp__actor_relieve(struct qp__actor *t)
{
  if (t->feed.unstaged > FLUSH_BYTES && t->stage == QP__ACTOR_WARM && !t->doomed)
    flush(t);
}

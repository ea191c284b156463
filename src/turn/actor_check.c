/* actor_check.c - the rules of an actor (actor.h), as a check for assertions and tests. */
#include "turn/actor.h"

/* The state that the actor has, or will have when the commit that is under way is durable. */
static enum qp_state
next_state(const struct qp__actor *t)
{
  return t->open && t->open->transition.under_way ? t->open->transition.to.to : t->state;
}

static const char *
check_stage(const struct qp__actor *t)
{
  bool commits = t->open && t->open->transition.under_way;

  if (t->open && t->open->earlier.under_way && !commits)
    return "the earlier transition is committed without the one that follows";
  if (commits && !t->open->transition.to.legal)
    return "a transition is committed that the table does not have";
  if ((commits || t->flushing) && !t->context)
    return "something is committed to a context that is not open";
  switch (t->stage) {
  case QP__ACTOR_CLOSED:
    return t->context || t->open ? "a closed context is open" : NULL;
  case QP__ACTOR_OPENING:
    return t->context || !t->open || !t->jobs ? "a context is opened by no worker" : NULL;
  case QP__ACTOR_OPEN:
    return t->context && t->open ? NULL : "an open context is closed";
  case QP__ACTOR_RELEASING:
    return t->feed.subs ? "a context that is released has subscribers" : NULL;
  }
  return "the stage is unknown";
}

static const char *
check_inbox(const struct qp__actor *t)
{
  struct qp__input *const *end = &t->inbox;

  for (const struct qp__input *in = t->inbox; in; in = in->next) {
    if (in->is_action && !in->request)
      return "an action in the inbox has no request";
    if (!in->is_action && !in->in_use)
      return "an input in the inbox is marked free";
    end = &in->next;
  }
  return t->inbox_end == end ? NULL : "the list of the inbox is broken";
}

/* Work belongs to a state. */
static const char *
check_work(const struct qp__actor *t)
{
  enum qp_state state = next_state(t);
  bool asks = state == QP_STATE_AWAITING_LLM_RESPONSE || state == QP_STATE_GENERATING_RESPONSE ||
              state == QP_STATE_STREAMING_LLM_RESPONSE;
  size_t running = 0;

  for (size_t i = 0; i < t->call_count; i++)
    running += t->calls[i].run != NULL;
  if (running != t->running)
    return "'running' is not the number of tools that run";
  if (t->running && state != QP_STATE_EXECUTING_TOOLS)
    return "tools run in another state than ExecutingTools";
  if (t->call && !asks)
    return "a model is called in a state without a model call";
  if (t->call && t->answer == QP__ANSWER_NONE)
    return "a model is called and no answer is expected";
  if (t->answer != QP__ANSWER_NONE && !t->open)
    return "an answer is expected in a context that is not open";
  if (t->timer && state != QP_STATE_TRANSIENT_FAILURE)
    return "the retry timer runs in another state than TransientFailure";
  return NULL;
}

/* After a pump, an open context has nothing to process, and its turn cannot be forgotten. */
static const char *
check_progress(const struct qp__actor *t)
{
  bool works = t->call || t->timer || t->running || t->jobs || t->shortening || t->flushing ||
               (t->delayed_model && t->delayed_model == t->number);

  if (t->stage != QP__ACTOR_OPEN || t->open->transition.under_way)
    return NULL;
  if (t->inbox)
    return "an input is not processed although nothing is committed";
  if (t->waiting && qp_state_awaits_client(t->state))
    return "a client waits for the end of a turn that has ended";
  if (!qp_state_awaits_client(t->state) && !works)
    return "a turn has not ended and nothing will continue it";
  return NULL;
}

const char *
qp__actor_violation(const struct qp__actor *t)
{
  const char *broken = check_stage(t);

  if (!broken)
    broken = check_inbox(t);
  if (!broken)
    broken = check_work(t);
  if (!broken)
    broken = check_progress(t);
  return broken ? broken : qp__feed_violation(&t->feed);
}

/* actor_load.c - opening the context of an actor, and the unfinished turn of an earlier engine.
 *
 * A context that is in memory already (a server has just read it) and whose state awaits a client
 * is used at once. Else a worker opens it and reads what its stored state needs: the calls of the
 * last answer when they wait for a decision or were running, and the pieces of an answer that was
 * being streamed. Any other state was left by an engine that did not end its turns: RESTART is the
 * first input. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/context/context_int.h"
#include "turn/actor.h"
#include "turn/event_batch.h"

#define PICO 1e12

struct load {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  struct qp_context *context;
  struct qp__view *view; /* of the metadata */
  enum qp_state state;
  char *branch;
  struct qp_event_range range;
  struct qp_message *answer;     /* the last one, or NULL */
  json_t *stored;                /* an object with the ids of calls that have results */
  struct qp__event_batch pieces; /* of an answer */
  struct qp_err err;
};

static void
load_free(struct load *l)
{
  qp__event_batch_release(&l->pieces);
  qp_context_close(l->context);
  qp__view_unref(l->view);
  json_decref(l->stored);
  qp_message_free(l->answer);
  qp__free(l->branch);
  qp__free(l);
}

/* ---- in the worker ---- */

static const json_t *
detail_of(const struct load *l)
{
  return l->view->meta->state_detail;
}

static enum qp_rc
read_metadata(struct load *l)
{
  const char *branch;

  l->view = qp__view_get(l->context);
  l->state = l->view->meta->state;
  branch = json_string_value(json_object_get(detail_of(l), "branch"));
  if (!branch)
    branch = l->view->meta->active;
  l->branch = qp__strdup(branch ? branch : "main");
  return l->branch ? QP_OK : qp__fail_nomem(&l->err, "a turn");
}

static bool
needs_calls(enum qp_state state)
{
  return state == QP_STATE_AWAITING_TOOL_APPROVAL || state == QP_STATE_EXECUTING_TOOLS ||
         state == QP_STATE_PROCESSING_LLM_RESPONSE || state == QP_STATE_PROCESSING_TOOL_RESULTS;
}

/* The last answer of the branch and the results behind it. */
static enum qp_rc
read_calls(struct load *l)
{
  struct qp_uuid id = { { 0 } };
  struct qp__branch *branch;
  enum qp_rc rc = QP_OK;

  l->stored = json_object();
  if (!l->stored)
    rc = qp__fail_nomem(&l->err, "a turn");
  if (!qp__view_branch(l->view, l->branch, &branch, NULL))
    id = qp__branch_head(l->context, branch);
  while (!rc && !l->answer && !qp_uuid_is_none(&id)) {
    struct qp_message *message = NULL;
    struct qp_tool_result result;

    rc = qp_message_load(l->context, &id, &message, &l->err);
    if (rc == QP_UNAVAILABLE)
      return QP_OK; /* its calls are unknown */
    if (rc)
      break;
    id = qp_message_parent(message);
    if (qp_message_role(message) == QP_ROLE_ASSISTANT) {
      l->answer = message;
      break;
    }
    if (qp_message_role(message) == QP_ROLE_USER)
      id = (struct qp_uuid){ { 0 } }; /* there is no answer to it */
    else if (qp_message_tool_result(message, &result) &&
             json_object_set_new(l->stored, result.request_id, json_true()))
      rc = qp__fail_nomem(&l->err, "a turn");
    qp_message_free(message);
  }
  return rc;
}

static enum qp_rc
keep_piece(void *arg, const struct qp_event_info *info)
{
  struct load *l = arg;

  return qp__event_batch_add(&l->pieces, info, &l->err);
}

/* The part of the answer that had arrived. When its first events were deleted, the remaining ones
 * are used. */
static enum qp_rc
read_pieces(struct load *l)
{
  uint64_t from = (uint64_t)json_integer_value(json_object_get(detail_of(l), "answer_seq"));
  enum qp_rc rc;

  if (!from || !l->range.newest)
    return QP_OK;
  rc = qp_events_read(l->context, from - 1, UINT64_MAX, keep_piece, l, &l->err);
  if (rc == QP_NOTFOUND && l->range.oldest)
    rc = qp_events_read(l->context, l->range.oldest - 1, UINT64_MAX, keep_piece, l, &l->err);
  return rc == QP_NOTFOUND ? QP_OK : rc;
}

static void
read_context(uv_work_t *work)
{
  struct load *l = (struct load *)work;
  struct qp__actor *t = l->actor;
  enum qp_rc rc = qp_context_open(t->engine->store, &t->id, QP_LOAD_MIGRATE, &l->context, &l->err);

  if (!rc)
    rc = read_metadata(l);
  if (!rc)
    rc = qp_events_range(l->context, &l->range, &l->err);
  if (!rc && needs_calls(l->state))
    rc = read_calls(l);
  if (!rc && l->state == QP_STATE_STREAMING_LLM_RESPONSE)
    rc = read_pieces(l);
  l->err.rc = rc;
}

/* ---- on the loop ---- */

static void
read_count(const json_t *object, struct qp__turn_count *out)
{
  out->rounds = (uint64_t)json_integer_value(json_object_get(object, "rounds"));
  out->calls = (uint64_t)json_integer_value(json_object_get(object, "calls"));
  out->tokens = (uint64_t)json_integer_value(json_object_get(object, "tokens"));
  out->cost = (int64_t)(json_number_value(json_object_get(object, "cost_usd")) * PICO + 0.5);
}

static void
read_facts(struct qp__actor *t, struct load *l)
{
  const json_t *detail = detail_of(l);
  json_t *error = json_object_get(detail, "error");
  struct qp__turn_facts *f = &t->open->facts;
  const char *kind = json_string_value(json_object_get(error, "kind"));
  const char *message = json_string_value(json_object_get(error, "message"));

  qp__free(f->branch);
  memset(f, 0, sizeof(*f));
  f->branch = l->branch;
  l->branch = NULL;
  read_count(detail, &f->count);
  read_count(json_object_get(l->view->meta->extra, "usage"), &f->total);
  f->attempt = (unsigned)json_integer_value(json_object_get(detail, "attempt"));
  f->alone = json_is_true(json_object_get(detail, "alone"));
  f->overflowed = json_is_true(json_object_get(detail, "overflowed"));
  (void)snprintf(f->error.kind, sizeof(f->error.kind), "%s", kind ? kind : "");
  (void)snprintf(f->error.message, sizeof(f->error.message), "%s", message ? message : "");
  f->error.status = (int)json_integer_value(json_object_get(error, "status"));
}

/* The tool calls and the partial answer of an earlier engine. */
static enum qp_rc
restore(struct qp__actor *t, struct load *l, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (l->answer)
    rc = qp__round_load(t, l->answer, json_object_get(detail_of(l), "decisions"), err);
  if (!rc && l->answer)
    rc = qp__round_load_previews(t, json_object_get(detail_of(l), "pending"), err);
  for (size_t i = 0; !rc && i < t->call_count; i++)
    t->calls[i].stored = json_object_get(l->stored, t->calls[i].id) != NULL;
  for (const struct qp__event_copy *piece = l->pieces.first; !rc && piece; piece = piece->next)
    rc = qp__actor_replay_event(t, &piece->info, err);
  return rc;
}

/* The actor gets its context; on failure all its actions and subscriptions end. */
static void
adopt_context(struct qp__actor *t, struct load *l, struct qp_err *err)
{
  if (!err->rc)
    err->rc = restore(t, l, err);
  if (err->rc) {
    qp__round_release(t);
    qp__actor_drop_answer(t);
    qp__actor_reject_all(t, err);
    qp__feed_end_subs(&t->feed);
    qp__actor_unequip(t);
    t->stage = QP__ACTOR_CLOSED;
    return;
  }
  t->context = l->context;
  l->context = NULL;
  t->stage = QP__ACTOR_OPEN;
  qp__actor_enter_stored(t, l->state);
  read_facts(t, l);
  if (l->range.next > t->feed.next_seq)
    t->feed.next_seq = l->range.next;
  if (!qp_state_awaits_client(t->state))
    qp__actor_restart(t);
  qp__queue_attend(t);
}

static void
on_read(uv_work_t *work, int status)
{
  struct load *l = (struct load *)work;
  struct qp__actor *t = l->actor;
  struct qp_err err = l->err;

  t->jobs--;
  if (status)
    (void)qp__fail(&err, QP_STOPPED, "opening the context was stopped");
  if (t->stage == QP__ACTOR_OPENING)
    adopt_context(t, l, &err);
  load_free(l);
  qp__actor_pump(t);
}

static struct load *
new_load(struct qp__actor *t)
{
  struct load *l = qp__alloc0(1, sizeof(*l));

  if (!l)
    return NULL;
  l->actor = t;
  qp__event_batch_init(&l->pieces);
  return l;
}

/* Opens it if this is possible without reading a file. */
static bool
load_from_memory(struct qp__actor *t)
{
  struct load *l = new_load(t);
  struct qp_err err = { QP_OK, "" };
  bool good;

  if (!l)
    return false;
  l->context = qp__context_in_memory(t->engine->store, &t->id);
  good = l->context && !read_metadata(l) && qp_state_awaits_client(l->state) &&
         !needs_calls(l->state) && !qp_events_range(l->context, &l->range, &l->err);
  if (good)
    adopt_context(t, l, &err);
  load_free(l);
  return good;
}

void
qp__actor_load(struct qp__actor *t)
{
  struct qp_err err = { QP_OK, "" };
  bool equipped = qp__actor_equip(t);
  struct load *l;

  if (equipped && load_from_memory(t))
    return;
  l = equipped ? new_load(t) : NULL;
  if (!l) {
    (void)qp__fail_nomem(&err, "opening a context");
  } else if (uv_queue_work(&t->engine->loop, &l->work, read_context, on_read)) {
    qp__free(l);
    (void)qp__fail(&err, QP_NOMEM, "cannot start a worker to open a context");
  }
  if (err.rc) {
    qp__actor_reject_all(t, &err);
    qp__actor_unequip(t);
    return;
  }
  t->stage = QP__ACTOR_OPENING;
  t->jobs++;
}

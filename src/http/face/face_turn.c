/* face_turn.c - see face_turn.h: running and following a turn.
 *
 * The engine's thread calls on_event() for the events of the context, and on_done() when the action
 * is durable or refused. Both work on the exchange while they hold the turn's lock;
 * qp__face_turn_free() takes the exchange away from them. Events before the message that begins the
 * turn belong to an earlier turn and are ignored. */
#include "http/face/face_turn.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "http/engine_use.h"
#include "http/http_int.h"
#include "model/message.h"

#define EVENTS_PAGE 1000

struct qp__face_turn {
  struct qp_subscription *subscription;
  struct qp_context *context;     /* to read results */
  struct qp_uuid first;           /* the message that began the turn */
  struct qp__turn_ticket *ticket; /* that counts it (quota.h), or NULL; of the action */
  uint64_t rest_after;            /* events up to this number do not end the answer */
  struct qp_uuid start;           /* the same for an action that stores none, or none */
  pthread_mutex_t lock;           /* of what follows */
  struct qp__exchange *x;         /* NULL: freed */
  bool begun;                     /* the message that begins the turn was seen */
  bool over;
  unsigned rounds;
  unsigned refs; /* of the exchange, and of the action until its `done` */
};

static void
unref(struct qp__face_turn *turn)
{
  bool last;

  (void)pthread_mutex_lock(&turn->lock);
  last = --turn->refs == 0;
  (void)pthread_mutex_unlock(&turn->lock);
  if (!last)
    return;
  qp_context_close(turn->context);
  (void)pthread_mutex_destroy(&turn->lock);
  qp__free(turn);
}

void
qp__face_turn_free(struct qp__face_turn *turn)
{
  if (!turn)
    return;
  qp_engine_unsubscribe(turn->subscription);
  (void)pthread_mutex_lock(&turn->lock);
  turn->x = NULL;
  (void)pthread_mutex_unlock(&turn->lock);
  unref(turn);
}

/* ---- stored messages ---- */

static int64_t
tokens_at(const json_t *metadata, const char *key)
{
  return json_integer_value(json_object_get(json_object_get(metadata, "tokens"), key));
}

static enum qp_rc
feed_usage(struct qp__face *f, const json_t *metadata, struct qp_err *err)
{
  struct qp__llm_event event = { .kind = QP__LLM_USAGE };
  struct qp__llm_usage *u = &event.usage;

  u->cache_read = tokens_at(metadata, "cache_read_tokens");
  u->cache_write = tokens_at(metadata, "cache_write_tokens");
  u->input = tokens_at(metadata, "prompt_tokens") - u->cache_read - u->cache_write;
  u->output = tokens_at(metadata, "completion_tokens");
  u->reasoning = tokens_at(metadata, "reasoning_tokens");
  return qp__face_feed(f, &event, err);
}

static enum qp_rc
feed_call(struct qp__face *f, const struct qp__message_call *call, size_t block, struct qp_err *err)
{
  struct qp__llm_event event = {
    .kind = QP__LLM_CALL, .block = block, .id = call->view.id, .name = call->view.tool_name
  };
  const char *kind = json_string_value(json_object_get(call->extra, "kind"));
  enum qp_rc rc;

  f->call_kind = kind && strcmp(kind, "client") == 0 ? QP__CALL_OF_CLIENT : QP__CALL_OF_SERVER;
  rc = qp__face_feed(f, &event, err);
  f->call_kind = QP__CALL_BY_NAME;
  event.kind = QP__LLM_CALL_END;
  event.text = (struct qp_bytes){ call->view.arguments_json, strlen(call->view.arguments_json) };
  return rc ? rc : qp__face_feed(f, &event, err);
}

static enum qp_rc
feed_answer(struct qp__face *f, const struct qp_message *m, struct qp_err *err)
{
  const char *model = json_string_value(json_object_get(m->metadata, "model"));
  const char *reason = json_string_value(json_object_get(m->metadata, "stop_reason"));
  struct qp__llm_event event = { .kind = QP__LLM_START, .id = "", .name = model ? model : "" };
  enum qp_rc rc = qp__face_feed(f, &event, err);
  size_t block = 0;

  for (size_t i = 0; !rc && i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;

    if (part->kind != QP_PART_TEXT && part->kind != QP_PART_THINKING)
      continue;
    event = (struct qp__llm_event){
      .kind = part->kind == QP_PART_TEXT ? QP__LLM_TEXT : QP__LLM_THINKING,
      .block = block,
      .text = part->text,
    };
    block++;
    rc = qp__face_feed(f, &event, err);
  }
  for (size_t i = 0; !rc && i < m->call_count; i++)
    rc = feed_call(f, &m->calls[i], block++, err);
  if (!rc)
    rc = feed_usage(f, m->metadata, err);
  f->cancelled |= json_is_true(json_object_get(m->metadata, "interrupted"));
  if (reason && (strcmp(reason, "max_tokens") == 0 || strcmp(reason, "length") == 0))
    f->stop = QP__LLM_STOP_LENGTH;
  qp__face_round(f);
  return rc;
}

enum qp_rc
qp__face_message(struct qp__face *f, const struct qp_message *m, struct qp_err *err)
{
  struct qp_bytes text;

  if (m->role == QP_ROLE_ASSISTANT)
    return feed_answer(f, m, err);
  if (!m->has_result)
    return QP_OK;
  text = (struct qp_bytes){ m->result.result_json, strlen(m->result.result_json) };
  qp__face_result(f, m->result.request_id, text, m->result.is_error);
  return QP_OK;
}

/* ---- events ---- */

static const struct {
  const char *type;
  enum qp__llm_event_kind kind;
} pieces[] = {
  { "text", QP__LLM_TEXT },           { "thinking", QP__LLM_THINKING },
  { "signature", QP__LLM_SIGNATURE }, { "call", QP__LLM_CALL },
  { "arguments", QP__LLM_ARGUMENTS }, { "call_end", QP__LLM_CALL_END },
  { "usage", QP__LLM_USAGE },         { "stop", QP__LLM_STOP },
};

static void
read_usage(const json_t *o, struct qp__llm_usage *u)
{
  u->input = json_integer_value(json_object_get(o, "input"));
  u->cache_read = json_integer_value(json_object_get(o, "cache_read"));
  u->cache_write = json_integer_value(json_object_get(o, "cache_write"));
  u->cache_write_1h = json_integer_value(json_object_get(o, "cache_write_1h"));
  u->output = json_integer_value(json_object_get(o, "output"));
  u->reasoning = json_integer_value(json_object_get(o, "reasoning"));
}

static enum qp_rc
feed_piece(struct qp__face *f, enum qp__llm_event_kind kind, const json_t *o, struct qp_err *err)
{
  const json_t *text = json_object_get(o, "text");
  struct qp__llm_event event = {
    .kind = kind,
    .block = (size_t)json_integer_value(json_object_get(o, "block")),
    .text = { json_string_value(text) ? json_string_value(text) : "", json_string_length(text) },
    .id = json_string_value(json_object_get(o, "id")),
    .name = json_string_value(json_object_get(o, kind == QP__LLM_STOP ? "reason" : "name")),
    .stop = (enum qp__llm_stop)json_integer_value(json_object_get(o, "stop")),
  };

  if (kind == QP__LLM_USAGE)
    read_usage(o, &event.usage);
  return qp__face_feed(f, &event, err);
}

static void
see_first(struct qp__face_turn *turn, const struct qp_uuid *id)
{
  struct qp__exchange *x = turn->x;

  turn->begun = true;
  turn->first = *id;
  if (!x->first)
    return;
  if (x->first(x, id)) {
    turn->over = true;
    x->face.ended = true;
    qp__exchange_continue(x, QP_OK, NULL);
  } else {
    qp__exchange_flush(x);
  }
}

/* A stored message: the one that begins the turn, or the result of a tool. */
static enum qp_rc
see_message(struct qp__face_turn *turn, const json_t *o, struct qp_err *err)
{
  const char *role = json_string_value(json_object_get(o, "role"));
  const char *text = json_string_value(json_object_get(o, "id"));
  struct qp_message *message = NULL;
  struct qp_uuid id;
  enum qp_rc rc;

  if (!role || !text || qp_uuid_parse(text, &id, NULL))
    return QP_OK;
  if (!turn->begun && strcmp(role, "assistant") != 0)
    see_first(turn, &id);
  if (turn->over || strcmp(role, "user") == 0)
    return QP_OK;
  rc = qp_message_load(turn->context, &id, &message, err); /* it was saved now: it is in memory */
  if (!rc && strcmp(role, "assistant") == 0)
    turn->x->face.cancelled = json_is_true(json_object_get(message->metadata, "interrupted"));
  else if (!rc)
    rc = qp__face_message(&turn->x->face, message, err);
  qp_message_free(message);
  return rc;
}

static enum qp__fault_kind
find_kind(const char *name)
{
  for (int kind = QP__FAULT_NONE; kind <= QP__FAULT_INTERNAL; kind++)
    if (name && strcmp(qp__fault_name((enum qp__fault_kind)kind), name) == 0)
      return (enum qp__fault_kind)kind;
  return QP__FAULT_INTERNAL;
}

static void
end_turn(struct qp__face_turn *turn, const struct qp__llm_fault *fault)
{
  if (turn->over)
    return;
  turn->over = true;
  qp__exchange_end(turn->x, fault);
}

static void
end_failed(struct qp__face_turn *turn, const json_t *detail)
{
  const json_t *error = json_object_get(detail, "error");
  const char *message = json_string_value(json_object_get(error, "message"));
  struct qp__llm_fault fault = { .retry_after_ms = -1 };

  qp__fault_set(&fault, find_kind(json_string_value(json_object_get(error, "kind"))), "%s",
                message ? message : "the turn failed");
  end_turn(turn, &fault);
}

static void
see_state(struct qp__face_turn *turn, const json_t *o, uint64_t seq)
{
  const char *name = json_string_value(json_object_get(o, "state"));
  enum qp_state state;

  if (!turn->begun || !name || !qp_state_find(name, &state) || seq <= turn->rest_after)
    return;
  if (state == QP_STATE_FAILED) {
    end_failed(turn, json_object_get(o, "detail"));
  } else if (qp_state_awaits_client(state)) {
    turn->x->face.waits = state != QP_STATE_IDLE;
    end_turn(turn, NULL);
  }
}

static enum qp_rc
take_event(struct qp__face_turn *turn, const struct qp_event_info *event, struct qp_err *err)
{
  struct qp__face *f = &turn->x->face;
  json_t *o = NULL;
  enum qp_rc rc = qp__json_parse_object("an event", event->json, &o, err);

  if (rc)
    return rc;
  if (strcmp(event->type, "message") == 0) {
    rc = see_message(turn, o, err);
  } else if (strcmp(event->type, "state") == 0) {
    see_state(turn, o, event->seq);
  } else if (turn->begun && strcmp(event->type, "answer") == 0) {
    const char *model = json_string_value(json_object_get(o, "model"));

    if (turn->rounds++)
      qp__face_round(f);
    if (model && *model)
      (void)snprintf(f->model, sizeof(f->model), "%s", model);
  } else if (turn->begun) {
    for (size_t i = 0; !rc && i < sizeof(pieces) / sizeof(pieces[0]); i++)
      if (strcmp(pieces[i].type, event->type) == 0)
        rc = feed_piece(f, pieces[i].kind, o, err);
  }
  json_decref(o);
  return rc;
}

static void
on_event(void *arg, const struct qp_event_info *event)
{
  struct qp__face_turn *turn = arg;
  struct qp_err err = { QP_OK, "" };
  struct qp__llm_fault fault = { .retry_after_ms = -1 };

  (void)pthread_mutex_lock(&turn->lock);
  if (turn->x && !turn->over) {
    if (!event)
      (void)qp__fail(&err, QP_STOPPED, "the server is stopping, or the context was deleted");
    else
      err.rc = take_event(turn, event, &err);
    if (err.rc) {
      qp__fault_from_err(&fault, &err);
      end_turn(turn, &fault);
    } else if (!turn->over) {
      qp__exchange_flush(turn->x);
    }
  }
  (void)pthread_mutex_unlock(&turn->lock);
}

/* ---- the action ---- */

/* It is durable, or refused. */
static void
on_done(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__face_turn *turn = arg;

  qp__quota_turn_begun(turn->ticket, !rc && !qp_state_awaits_client(result->state));
  (void)pthread_mutex_lock(&turn->lock);
  if (turn->x && !rc && result->replayed && !turn->over) {
    turn->over = true; /* its events are past */
    turn->first = result->message;
    turn->x->replayed = true;
    qp__exchange_continue(turn->x, QP_OK, NULL);
  } else if (turn->x && rc && !turn->over) {
    struct qp__request *r = turn->x->request;

    turn->over = true;
    turn->x->request = NULL;
    if (r) {
      r->fail_state = rc == QP_CONFLICT ? qp_state_name(result->state) : NULL;
      qp__work_unpark(r, rc, err);
    }
  } else if (turn->x && !rc && !turn->over && !turn->begun) {
    see_first(turn, qp_uuid_is_none(&turn->start) ? &result->message : &turn->start);
  }
  (void)pthread_mutex_unlock(&turn->lock);
  unref(turn);
}

/* `acts`: an action follows, which has a reference. */
static enum qp_rc
follow(struct qp__request *r, struct qp__exchange *x, struct qp_engine *engine, uint64_t after,
       bool acts, const struct qp_uuid *start, uint64_t rest_after, struct qp_err *err)
{
  struct qp__face_turn *turn = qp__alloc0(1, sizeof(*turn));
  enum qp_rc rc;

  if (!turn || pthread_mutex_init(&turn->lock, NULL)) {
    qp__free(turn);
    return qp__fail_nomem(err, "a turn");
  }
  turn->refs = acts ? 2 : 1;
  turn->x = x;
  turn->rest_after = rest_after;
  turn->start = start ? *start : (struct qp_uuid){ { 0 } };
  x->turn = turn;
  rc = qp_context_open(r->http->store, &r->held->id, QP_LOAD_NONE, &turn->context, err);
  if (!rc)
    rc = qp_engine_subscribe(engine, &r->held->id, after, on_event, turn, &turn->subscription, err);
  if (rc && acts)
    unref(turn);
  return rc;
}

enum qp_rc
qp__face_turn_follow(struct qp__request *r, struct qp__exchange *x, uint64_t after,
                     uint64_t rest_after, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  struct qp__http *http = r->http;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  qp__work_park(r, qp__exchange_answer, false);
  rc = follow(r, x, engine, after, false, NULL, rest_after, err);
  if (rc) {
    x->request = NULL;
    r->then = NULL;
  }
  qp__turns_leave(http);
  return rc;
}

/* ---- where a turn is in the log ---- */

struct finding {
  char id[QP_UUID_TEXT];
  uint64_t seq; /* of the message's event; 0: not found */
  uint64_t last;
};

static enum qp_rc
see_event(void *arg, const struct qp_event_info *event)
{
  struct finding *f = arg;

  f->last = event->seq;
  if (strcmp(event->type, "message") != 0 || !memmem(event->json.data, event->json.len, f->id, 36))
    return QP_OK;
  f->seq = event->seq;
  return QP_STOPPED;
}

uint64_t
qp__face_find_event(struct qp__request *r, const struct qp_uuid *message, uint64_t *newest)
{
  struct qp_context *context = r->held->context;
  struct qp_event_range range = { .oldest = 0 };
  struct finding f = { .seq = 0 };

  (void)qp_uuid_text(message, f.id);
  if (qp_events_range(context, &range, NULL) || !range.newest)
    return 0;
  if (newest)
    *newest = range.newest;
  f.last = range.oldest - 1;
  while (!f.seq && f.last < range.newest) {
    uint64_t before = f.last;
    enum qp_rc rc = qp_events_read(context, before, EVENTS_PAGE, see_event, &f, NULL);

    if ((rc && rc != QP_STOPPED) || f.last == before)
      break;
  }
  return f.seq;
}

/* ---- an answer that is stored already ---- */

struct replay {
  struct qp__exchange *x;
  struct qp_err *err;
};

static enum qp_rc
replay_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  const struct replay *p = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->role == QP_ROLE_USER)
    return QP_STOPPED; /* the next turn */
  if (info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK;
  rc = qp_message_parse(json, &message, p->err);
  if (!rc)
    rc = qp__face_message(&p->x->face, message, p->err);
  qp_message_free(message);
  return rc;
}

enum qp_rc
qp__face_stored(struct qp__exchange *x, struct qp_context *context, const char *branch,
                const struct qp_uuid *first, struct qp_err *err)
{
  struct replay replay = { x, err };
  struct qp_message_info info;
  enum qp_rc rc = qp_message_find(context, first, &info, err);

  if (!rc)
    rc = qp_messages_range(context, branch, info.position + 1, UINT64_MAX, replay_message, &replay,
                           err);
  return rc == QP_STOPPED ? QP_OK : rc;
}

enum qp_rc
qp__face_turn_replay(struct qp__exchange *x, struct qp_err *err)
{
  struct qp__face_turn *turn = x->turn;
  enum qp_rc rc;

  if (!qp_state_awaits_client(qp_context_state(turn->context)))
    return qp__fail(err, QP_CONFLICT, "the same request is still running");
  rc = qp__face_stored(x, turn->context, NULL, &turn->first, err);
  if (!rc)
    qp__exchange_end(x, NULL);
  return rc;
}

/* ---- running a plan ---- */

/* Saves messages as they are. */
static enum qp_rc
save_before(struct qp__request *r, struct qp__face_plan *plan, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < json_array_size(plan->before); i++) {
    struct qp_message *message = NULL;

    rc = qp__message_from_value("message", json_array_get(plan->before, i), &message, err);
    if (!rc)
      rc = qp_message_save(r->held->context, plan->branch, message, &plan->start, err);
    qp_message_free(message);
  }
  return rc;
}

struct results {
  struct qp_tool_result *list;
  size_t count;
};

static enum qp_rc
read_results(struct qp__request *r, const json_t *messages, struct results *out, struct qp_err *err)
{
  size_t n = json_array_size(messages);

  out->list = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*out->list));
  if (!out->list)
    return qp__fail_nomem(err, "results of tools");
  for (size_t i = 0; i < n; i++) {
    const json_t *result = json_object_get(json_array_get(messages, i), "tool_result");
    struct qp__buf text;

    qp__buf_init(&text, (size_t)64 << 20);
    (void)qp__json_write(&text, json_object_get(result, "result"));
    out->list[i] = (struct qp_tool_result){
      .request_id = json_string_value(json_object_get(result, "request_id")),
      .result_json = text.rc ? NULL : qp__arena_strdup(&r->arena, text.data),
      .is_error = json_is_true(json_object_get(result, "is_error")),
    };
    qp__buf_release(&text);
    if (!out->list[i].result_json)
      return qp__fail_nomem(err, "results of tools");
  }
  out->count = n;
  return QP_OK;
}

static enum qp_rc
write_tools(struct qp__request *r, const json_t *tools, const char **out, struct qp_err *err)
{
  struct qp__buf text;

  qp__buf_init(&text, (size_t)32 << 20);
  if (tools)
    (void)qp__json_write(&text, tools);
  else
    (void)qp__buf_add_str(&text, "[]");
  *out = text.rc ? NULL : qp__arena_strdup(&r->arena, text.data);
  qp__buf_release(&text);
  return *out ? QP_OK : qp__fail_nomem(err, "the tools");
}

/* The action of a plan. *message is freed by the caller. */
static enum qp_rc
make_action(struct qp__request *r, const struct qp__face_plan *plan, struct qp_action *a,
            struct qp_message **message, struct qp_err *err)
{
  struct results results = { NULL, 0 };
  enum qp_rc rc = QP_OK;

  *a = (struct qp_action){ .size = sizeof(*a), .context = r->held->id, .branch = plan->branch };
  a->key = qp__request_header(r, "Idempotency-Key");
  if (a->key) {
    char digest[QP__FACE_DIGEST];

    qp__face_digest(r, digest);
    a->key_digest = qp__arena_strdup(&r->arena, digest);
    if (!a->key_digest)
      return qp__fail_nomem(err, "a turn");
  }
  if (plan->results) {
    a->kind = QP_ACTION_SUBMIT_TOOL_RESULTS;
    a->branch = NULL;
    rc = read_results(r, plan->results, &results, err);
    a->results = results.list;
    a->result_count = results.count;
  } else if (plan->send) {
    a->kind = QP_ACTION_SEND_MESSAGE;
    rc = qp__message_from_value("message", plan->send, message, err);
    a->message = *message;
    if (!rc)
      rc = write_tools(r, plan->tools, &a->tools_json, err);
  } else if (plan->approved_count + plan->denied_count) {
    a->kind = QP_ACTION_APPROVE_TOOLS;
    a->approved = plan->approved;
    a->approved_count = plan->approved_count;
    a->denied = plan->denied;
    a->denied_count = plan->denied_count;
    a->reason = plan->reason;
  } else if (plan->again) {
    a->kind = QP_ACTION_REGENERATE;
    a->target = plan->regenerate;
    a->branch = NULL;
  } else {
    a->kind = QP_ACTION_RETRY;
  }
  return rc;
}

static void
on_acted(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  (void)result;
  (void)rc; /* it may have ended by itself */
  (void)err;
  (void)sem_post(arg);
}

/* An action before that of the plan: ends calls that wait for a client that does not answer them,
 * or decides about calls while others get their results. This is rare, and the worker waits for it:
 * what follows needs its effect. */
static enum qp_rc
act_first(struct qp__request *r, const struct qp__face_plan *plan, struct qp_engine *engine,
          struct qp_err *err)
{
  const struct qp_action action = {
    .size = sizeof(action),
    .kind = plan->cancel ? QP_ACTION_CANCEL : QP_ACTION_APPROVE_TOOLS,
    .context = r->held->id,
    .wait = plan->cancel,
    .approved = plan->approved,
    .approved_count = plan->approved_count,
    .denied = plan->denied,
    .denied_count = plan->denied_count,
    .reason = plan->reason,
  };
  sem_t done;
  enum qp_rc rc;

  if (sem_init(&done, 0, 0))
    return qp__fail_nomem(err, "a turn");
  rc = qp_engine_act(engine, &action, on_acted, &done, err);
  while (!rc && sem_wait(&done))
    continue; /* a signal */
  (void)sem_destroy(&done);
  return rc;
}

enum qp_rc
qp__face_turn_run(struct qp__request *r, struct qp__exchange *x, struct qp__face_plan *plan,
                  struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  struct qp__http *http = r->http;
  struct qp__turn_ticket *ticket = NULL;
  struct qp_message *message = NULL;
  struct qp_action action;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  if (plan->cancel || (plan->results && plan->approved_count + plan->denied_count))
    rc = act_first(r, plan, engine, err);
  if (!rc)
    rc = save_before(r, plan, err);
  if (!rc)
    rc = make_action(r, plan, &action, &message, err);
  if (!rc)
    rc = qp__quota_turn(r, engine, &ticket, err);
  if (rc) {
    qp_message_free(message);
    qp__turns_leave(http);
    return rc;
  }
  qp__work_park(r, qp__exchange_answer, false);
  if (action.kind == QP_ACTION_SEND_MESSAGE || action.kind == QP_ACTION_SUBMIT_TOOL_RESULTS)
    plan->start = (struct qp_uuid){ { 0 } }; /* an event tells it */
  rc = follow(r, x, engine, QP_SEQ_NOW, true, &plan->start, 0, err);
  if (!rc) {
    x->turn->ticket = ticket;
    rc = qp_engine_act(engine, &action, on_done, x->turn, err);
    if (rc)
      unref(x->turn);
  }
  if (rc) {
    qp__quota_turn_begun(ticket, false);
    x->request = NULL;
    r->then = NULL;
  }
  qp_message_free(message);
  qp__turns_leave(http);
  return rc;
}

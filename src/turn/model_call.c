/* model_call.c - calling the model: a worker prepares the request (question.h), the answer arrives
 * on the loop.
 *
 * Each piece of an answer becomes a line of the event log. After a crash the lines are replayed to
 * get back the part of the answer that had arrived:
 *
 *   answer     provider, id, model      before the first piece
 *   text       block, text              a part of a block
 *   thinking   block, text
 *   signature  block, text
 *   other      block, text              a whole block, a JSON object as text
 *   call       block, id, name          a tool call begins
 *   arguments  block, text              a part of its arguments
 *   call_end   block, text              all of its arguments
 *   usage      input, cache_read, cache_write, output …
 *   stop       reason */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "model/client_tool.h"
#include "store/context/context_int.h"
#include "turn/compacting.h"
#include "turn/discover.h"
#include "turn/question.h"

#define TOKEN_BYTES 4 /* of text, an estimate */

#define PART_MAX ((size_t)64 << 10)   /* bytes per line, of a text that can be split … */
#define WHOLE_MAX ((size_t)256 << 10) /* … and of a value that cannot */

/* ---- the answer ---- */

void
qp__actor_drop_answer(struct qp__actor *t)
{
  if (t->answer != QP__ANSWER_NONE)
    qp__answer_release(&t->open->answer);
  t->answer = QP__ANSWER_NONE;
}

static void
show_call(void *arg, const char *tool, enum qp_display *display, const char **ui_hints)
{
  const struct qp__actor *t = arg;
  const struct qp__tool *found = qp__tools_find(t->engine->tools, tool);

  if (!found)
    return;
  *display = found->display;
  *ui_hints = found->ui_hints;
}

static void
begin_answer(struct qp__actor *t, const char *provider)
{
  qp__actor_drop_answer(t);
  qp__answer_init(&t->open->answer, provider);
  t->open->answer.display = show_call;
  t->open->answer.display_arg = t;
  t->answer = QP__ANSWER_EXPECTED;
}

/* An interrupted answer has no usage, or only that of its beginning. Then prompt and answer are
 * estimated at four bytes per token; the prompt at most as large as the window. */
static void
estimate_usage(struct qp__actor *t)
{
  struct qp__answer *a = &t->open->answer;
  int64_t output = (int64_t)(a->bytes / TOKEN_BYTES) + 1;
  size_t bytes = t->open->asked.body_bytes ? t->open->asked.body_bytes : t->open->asked.all_bytes;
  int64_t input = (int64_t)(bytes / TOKEN_BYTES);

  if (!a->has_usage) {
    a->usage.input = t->model && input > t->model->window ? t->model->window : input;
    a->has_usage = a->estimated = true;
  }
  if (output > a->usage.output) {
    a->usage.output = output;
    a->estimated = true;
  }
}

enum qp_rc
qp__actor_take_answer(struct qp__actor *t, bool interrupted, struct qp_message **out,
                      struct qp_err *err)
{
  struct qp__turn_facts *f = &t->open->transition.facts;
  const struct qp__llm_usage *u = &t->open->answer.usage;
  const struct qp__llm_provider *asked = t->open->asked.provider;
  int64_t cost = -1;

  if (interrupted && (t->answer == QP__ANSWER_NONE || !qp__answer_has_content(&t->open->answer)))
    return QP_OK;
  if (t->answer == QP__ANSWER_NONE)
    return qp__fail(err, QP_MISUSE, "there is no answer to save");
  if (interrupted)
    estimate_usage(t);
  if (t->open->answer.has_usage) {
    uint64_t tokens = (uint64_t)(u->input + u->cache_read + u->cache_write + u->output);
    const struct qp__model *model = qp__models_get(&t->engine->models, t->open->answer.model);

    if (model->origin == QP__MODEL_ASSUMED && t->model)
      model = t->model;
    if (model->origin == QP__MODEL_CONFIGURED || !asked || asked->official)
      cost = qp__model_cost(model, u); /* other providers may have other prices */
    f->count.tokens += tokens;
    f->total.tokens += tokens;
    f->count.cost += cost > 0 ? cost : 0;
    f->total.cost += cost > 0 ? cost : 0;
  }
  return qp__answer_message(&t->open->answer, interrupted, cost, out, err);
}

/* ---- its lines in the event log ---- */

static const struct piece {
  enum qp__llm_event_kind kind;
  const char *type;
} pieces[] = {
  { QP__LLM_TEXT, "text" },           { QP__LLM_THINKING, "thinking" },
  { QP__LLM_SIGNATURE, "signature" }, { QP__LLM_OTHER, "other" },
  { QP__LLM_ARGUMENTS, "arguments" }, { QP__LLM_CALL_END, "call_end" },
};

static const char *
piece_type(enum qp__llm_event_kind kind)
{
  for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
    if (pieces[i].kind == kind)
      return pieces[i].type;
  return NULL;
}

static json_t *
usage_object(const struct qp__llm_usage *u)
{
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "input", (json_int_t)u->input, "cache_read",
                   (json_int_t)u->cache_read, "cache_write", (json_int_t)u->cache_write,
                   "cache_write_1h", (json_int_t)u->cache_write_1h, "output", (json_int_t)u->output,
                   "reasoning", (json_int_t)u->reasoning);
}

static json_t *
piece_object(size_t block, const char *text, size_t len)
{
  return json_pack("{s:I, s:s%}", "block", (json_int_t)block, "text", text, len);
}

/* A part of a block, which may be long: lines have a maximum length. */
static enum qp_rc
add_parts(struct qp__actor *t, const char *type, const struct qp__llm_event *event,
          struct qp_err *err)
{
  const char *at = event->text.data;
  size_t left = event->text.len;
  enum qp_rc rc = QP_OK;

  while (!rc && left) {
    size_t n = qp__utf8_fit(at, left, PART_MAX);

    rc = qp__feed_add(&t->feed, type, piece_object(event->block, at, n),
                      qp__engine_now_ms(t->engine), false, err);
    qp__actor_flush_if_large(t);
    at += n;
    left -= n;
  }
  return rc;
}

/* A value that cannot be split. When it is too long for a line, the log does not have it, and it
 * is missing after a crash. */
static json_t *
whole_object(const struct qp__llm_event *event)
{
  if (event->text.len > WHOLE_MAX)
    return json_pack("{s:I, s:b}", "block", (json_int_t)event->block, "cut", 1);
  return piece_object(event->block, event->text.data, event->text.len);
}

static enum qp_rc
add_line(struct qp__actor *t, const struct qp__llm_event *event, struct qp_err *err)
{
  const char *type = piece_type(event->kind);
  json_t *data;

  switch (event->kind) {
  case QP__LLM_START:
    return QP_OK; /* the line "answer" has it */
  case QP__LLM_TEXT:
  case QP__LLM_THINKING:
  case QP__LLM_ARGUMENTS:
    return add_parts(t, type, event, err);
  case QP__LLM_CALL:
    type = "call";
    data = json_pack("{s:I, s:s, s:s}", "block", (json_int_t)event->block, "id", event->id, "name",
                     event->name);
    break;
  case QP__LLM_USAGE:
    type = "usage";
    data = usage_object(&event->usage);
    break;
  case QP__LLM_STOP:
    type = "stop";
    data =
        json_pack("{s:i, s:s}", "stop", (int)event->stop, "reason", event->name ? event->name : "");
    break;
  default:
    data = whole_object(event);
    break;
  }
  return qp__feed_add(&t->feed, type, data, qp__engine_now_ms(t->engine), false, err);
}

enum qp_rc
qp__actor_replay_event(struct qp__actor *t, const struct qp_event_info *event, struct qp_err *err)
{
  struct qp__llm_event e = { .id = "", .name = "" };
  json_t *o = NULL;
  const struct qp__llm_provider *provider;
  json_t *text;
  enum qp_rc rc = qp__json_parse_object("an event", event->json, &o, err);

  if (rc)
    return rc;
  e.block = (size_t)json_integer_value(json_object_get(o, "block"));
  text = json_object_get(o, "text");
  e.text = (struct qp_bytes){ text ? json_string_value(text) : "", json_string_length(text) };
  if (json_is_string(json_object_get(o, "id")))
    e.id = json_string_value(json_object_get(o, "id"));
  if (strcmp(event->type, "answer") == 0) {
    provider = qp__llm_providers_find(&t->engine->providers,
                                      json_string_value(json_object_get(o, "provider")));
    begin_answer(t, provider ? provider->name : "");
    e.kind = QP__LLM_START;
    e.name = json_string_value(json_object_get(o, "model"));
  } else if (strcmp(event->type, "call") == 0) {
    e.kind = QP__LLM_CALL;
    e.name = json_string_value(json_object_get(o, "name"));
  } else if (strcmp(event->type, "usage") == 0) {
    e.kind = QP__LLM_USAGE;
    e.usage.input = json_integer_value(json_object_get(o, "input"));
    e.usage.cache_read = json_integer_value(json_object_get(o, "cache_read"));
    e.usage.cache_write = json_integer_value(json_object_get(o, "cache_write"));
    e.usage.cache_write_1h = json_integer_value(json_object_get(o, "cache_write_1h"));
    e.usage.output = json_integer_value(json_object_get(o, "output"));
    e.usage.reasoning = json_integer_value(json_object_get(o, "reasoning"));
  } else {
    size_t i = 0;

    while (i < sizeof(pieces) / sizeof(pieces[0]) && strcmp(pieces[i].type, event->type) != 0)
      i++;
    if (i == sizeof(pieces) / sizeof(pieces[0]) || json_is_true(json_object_get(o, "cut")))
      goto out;
    e.kind = pieces[i].kind;
  }
  if (t->answer == QP__ANSWER_NONE)
    begin_answer(t, "");
  rc = qp__answer_feed(&t->open->answer, &e, err);
out:
  json_decref(o);
  return rc;
}

/* ---- the call ---- */

static bool
is_content(const struct qp__llm_event *event)
{
  return event->kind == QP__LLM_TEXT || event->kind == QP__LLM_THINKING ||
         event->kind == QP__LLM_OTHER || event->kind == QP__LLM_CALL;
}

/* Begins the transition to StreamingLLMResponse. False: it failed, and the call was cancelled. */
static bool
begin_streaming(struct qp__actor *t)
{
  uint64_t number = t->number;

  QP_ASSERT(t->answer == QP__ANSWER_EXPECTED);
  t->answer = QP__ANSWER_STREAMING;
  qp__actor_enqueue_event(t, QP__EVENT_ANSWER_BEGAN, number);
  qp__actor_pump(t);
  return t->number == number && t->answer == QP__ANSWER_STREAMING;
}

static enum qp_rc
feed_answer(struct qp__actor *t, const struct qp__llm_event *event, struct qp_err *err)
{
  enum qp_rc rc;

  if (t->answer == QP__ANSWER_EXPECTED && is_content(event) && !begin_streaming(t))
    return QP_OK;
  rc = qp__answer_feed(&t->open->answer, event, err);
  if (rc || t->answer != QP__ANSWER_STREAMING)
    return rc;
  rc = add_line(t, event, err);
  if (!rc) {
    qp__feed_show(&t->feed);
    qp__actor_flush_if_large(t);
    qp__engine_flush_soon(t->engine);
  }
  return rc;
}

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__actor *t = arg;
  uint64_t number = t->number;
  enum qp_rc rc;

  t->jobs++; /* keeps the actor alive while the event is processed */
  rc = feed_answer(t, event, err);
  t->jobs--;
  if (t->number != number) {
    qp__actor_pump(t); /* the call was cancelled; this may free the actor */
    return QP_OK;
  }
  return rc;
}

/* Remembers what requests to this model must leave out. False: it was left out already. */
static bool
learn(struct qp__actor *t, enum qp__fault_kind kind)
{
  const struct qp__actor_asked *asked = &t->open->asked;
  struct qp__known *known = &t->engine->known;

  if (kind == QP__FAULT_THINKING && !(t->call_flags & QP__LLM_NO_THINKING)) {
    t->call_flags |= QP__LLM_NO_THINKING;
    return true;
  }
  if (kind == QP__FAULT_IMAGES && !qp__known_is_blind(known, asked->provider->name, asked->model)) {
    qp__known_set_blind(known, asked->provider->name, asked->model);
    return true;
  }
  return false;
}

/* The event that follows from a provider's error. */
static enum qp__turn_event
fault_event(struct qp__actor *t, const struct qp__llm_fault *fault, int64_t *retry_after)
{
  bool again = t->open->facts.attempt < t->engine->retries;

  switch (qp__fault_action(fault->kind)) {
  case QP__ACTION_RETRY:
    if (t->answer == QP__ANSWER_STREAMING || again)
      return fault->kind == QP__FAULT_CUT ? QP__EVENT_ANSWER_CUT : QP__EVENT_PASSING_ERROR;
    return QP__EVENT_FINAL_ERROR;
  case QP__ACTION_COMPACT:
    t->compact_reason = QP__REASON_OVERFLOW;
    return t->open->facts.overflowed ? QP__EVENT_FINAL_ERROR : QP__EVENT_TOO_LONG;
  case QP__ACTION_REPAIR:
    if (!again || !learn(t, fault->kind))
      return QP__EVENT_FINAL_ERROR;
    *retry_after = 0;
    return QP__EVENT_PASSING_ERROR;
  default:
    return QP__EVENT_FINAL_ERROR;
  }
}

static void
on_call_done(void *arg, const struct qp__llm_fault *fault)
{
  struct qp__actor *t = arg;

  t->call = NULL;
  if (!fault) {
    qp__actor_enqueue_event(t, QP__EVENT_ANSWER_ENDED, t->number);
  } else {
    int64_t retry_after = fault->retry_after_ms;
    enum qp__turn_event event = fault_event(t, fault, &retry_after);

    t->open->asked.tokens = fault->tokens;
    t->open->asked.window = fault->window;
    qp__actor_enqueue_fault(t, event, t->number, fault, retry_after);
  }
  qp__actor_pump(t);
}

static enum qp_rc
start_call(struct qp__actor *t, const struct qp__question *q, struct qp_err *err)
{
  const struct qp__conversation *c = &q->conversation;
  struct qp__llm_call_fns fns = { on_event, on_call_done, t };

  t->model = c->model;
  t->open->asked = (struct qp__actor_asked){
    .provider = c->provider,
    .body_bytes = q->body.len,
    .all_bytes = c->all_bytes,
    .budget = c->budget,
    .summary_tokens = c->summary_tokens,
  };
  (void)snprintf(t->open->asked.model, sizeof(t->open->asked.model), "%s", q->request.model);
  begin_answer(t, c->provider->name);
  return qp__llm_call_start(t->engine->llm, c->provider, &q->request, &fns, &t->call, err);
}

static void
prepare(uv_work_t *work)
{
  qp__question_prepare((struct qp__question *)work);
}

/* Whether the call waits: nobody has named a model, and the provider is asked for its models. */
static bool
await_models(struct qp__actor *t, const struct qp__question *q)
{
  if (!q->conversation.unnamed || t->asked_models == t->number)
    return false;
  t->asked_models = t->number;
  qp__discover(t->engine);
  if (!t->engine->discovering)
    return false;
  t->delayed_model = t->number;
  return true;
}

static void
on_prepared(uv_work_t *work, int status)
{
  struct qp__question *q = (struct qp__question *)work;
  struct qp__actor *t = q->actor;
  struct qp_err err = q->err;

  t->jobs--;
  if (q->number == t->number && t->stage == QP__ACTOR_OPEN && !await_models(t, q)) {
    if (status)
      (void)qp__fail(&err, QP_STOPPED, "reading the history was stopped");
    if (!err.rc && q->must_compact) {
      t->compact_reason = QP__REASON_CHECK;
      qp__actor_enqueue_event(t, QP__EVENT_TOO_LONG, t->number);
    } else if (!err.rc) {
      if (q->takes_over)
        err.rc = qp__actor_take_over(t, q, &err);
      if (!err.rc)
        err.rc = start_call(t, q, &err);
      if (!err.rc && q->must_prepare && q->prepared_saved == t->prepared_saved)
        qp__actor_prepare_summary(t);
    }
    if (err.rc)
      qp__actor_enqueue_error(t, QP__EVENT_FINAL_ERROR, t->number,
                              err.rc == QP_NOTFOUND ? "model"
                              : err.rc == QP_TOOBIG ? "too_long"
                                                    : "request",
                              err.msg);
  }
  qp__question_free(q);
  qp__actor_pump(t);
}

static void
make_question(struct qp__actor *t)
{
  struct qp__view *v = qp__view_get(t->context);
  struct qp_err err = { QP_OK, "" };
  struct qp__question *q;

  (void)qp__round_check_names(t, qp__client_tools_get(v->meta), &err);
  qp__view_unref(v);
  if (err.rc) { /* the tool was added since, or the configuration was changed */
    qp__actor_enqueue_error(t, QP__EVENT_FINAL_ERROR, t->number, "request", err.msg);
    return;
  }
  q = qp__question_new(t->engine, t->context, t->open->facts.branch, t->call_flags);
  if (!q) {
    qp__actor_enqueue_error(t, QP__EVENT_FINAL_ERROR, t->number, "internal", "out of memory");
    return;
  }
  q->actor = t;
  q->number = t->number;
  q->prepared_saved = t->prepared_saved;
  if (uv_queue_work(&t->engine->loop, &q->work, prepare, on_prepared)) {
    qp__question_free(q);
    qp__actor_enqueue_error(t, QP__EVENT_FINAL_ERROR, t->number, "internal",
                            "cannot start a worker");
    return;
  }
  t->jobs++;
}

void
qp__actor_call_model(struct qp__actor *t)
{
  t->number++;
  if (qp__engine_awaits_tools(t->engine))
    t->delayed_model = t->number;
  else
    make_question(t);
}

void
qp__actor_call_delayed_model(struct qp__actor *t)
{
  bool waits = t->delayed_model && t->delayed_model == t->number && t->stage == QP__ACTOR_OPEN;

  if (waits && t->asked_models == t->number && t->engine->discovering)
    return;
  t->delayed_model = 0;
  if (!waits)
    return;
  make_question(t);
  qp__actor_pump(t);
}

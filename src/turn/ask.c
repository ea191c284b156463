/* ask.c - calling the model: the history is read in a worker, the answer comes from the loop.
 *
 * Each piece of an answer becomes a line of the log of events, which a restart replays to have what
 * had come:
 *
 *   answer     provider, id, model      before the first piece
 *   text       block, text              more of a block
 *   thinking   block, text
 *   signature  block, text
 *   other      block, text              a whole block, a JSON object as text
 *   call       block, id, name          a tool call begins
 *   arguments  block, text              more of its arguments
 *   call_end   block, text              all of them
 *   usage      input, cache_read, cache_write, output …
 *   stop       reason */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "turn/turn.h"

/* What a worker reads for a call. */
struct history {
  uv_work_t work; /* first */
  struct qp__turn *turn;
  uint64_t number;
  struct qp_context *context;
  char *branch;
  struct qp_message **messages;
  size_t count, cap;
  json_t *metadata;
  struct qp__buf system;
  struct qp_err err;
};

#define SYSTEM_MAX ((size_t)16 << 20)
#define PART_MAX ((size_t)64 << 10)   /* of a line: more of a text … */
#define WHOLE_MAX ((size_t)256 << 10) /* … and what must be in one piece */

static void
history_free(struct history *h)
{
  for (size_t i = 0; i < h->count; i++)
    qp_message_free(h->messages[i]);
  qp__free(h->messages);
  qp__free(h->branch);
  json_decref(h->metadata);
  qp__buf_release(&h->system);
  qp__free(h);
}

/* ---- in the worker ---- */

static enum qp_rc
add_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct history *h = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK; /* the model must do without it */
  if (h->count == h->cap) {
    size_t cap = h->cap ? h->cap * 2 : 64;
    struct qp_message **list = qp__realloc(h->messages, cap * sizeof(struct qp_message *));

    if (!list)
      return qp__fail_nomem(&h->err, "a history");
    h->messages = list;
    h->cap = cap;
  }
  rc = qp_message_parse(json, &message, &h->err);
  if (rc)
    return rc;
  h->messages[h->count++] = message;
  return QP_OK;
}

static enum qp_rc
add_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct history *h = arg;

  return qp__buf_add_str(&h->system, prompt->content);
}

/* The branch's prompt, else the context's. One that is gone is none. */
static enum qp_rc
read_prompt(struct history *h)
{
  json_t *branches = json_object_get(h->metadata, "branches");
  json_t *branch = json_object_get(branches, h->branch);
  const char *id = json_string_value(json_object_get(branch, "system_prompt_id"));
  enum qp_rc rc;

  if (!id)
    id = json_string_value(
        json_object_get(json_object_get(h->metadata, "config"), "system_prompt_id"));
  if (!id)
    return QP_OK;
  rc = qp_prompt_get(h->turn->engine->store, id, add_prompt, h, &h->err);
  return rc == QP_NOTFOUND ? QP_OK : rc;
}

static void
read_history(uv_work_t *work)
{
  struct history *h = (struct history *)work;
  char *text = NULL;
  size_t len;
  enum qp_rc rc = qp_context_metadata(h->context, &text, &len, &h->err);

  if (!rc)
    rc = qp__json_parse_object("the metadata", (struct qp_bytes){ text, len }, &h->metadata,
                               &h->err);
  qp_free(text);
  if (!rc)
    rc = read_prompt(h);
  if (!rc)
    rc = qp_messages_range(h->context, h->branch, 0, UINT64_MAX, add_message, h, &h->err);
  h->err.rc = rc;
}

/* ---- the answer ---- */

void
qp__turn_drop_answer(struct qp__turn *t)
{
  if (t->answering)
    qp__answer_release(&t->answer);
  t->answering = t->began = false;
}

static void
show_call(void *arg, const char *tool, enum qp_display *display, const char **ui_hints)
{
  const struct qp__turn *t = arg;
  const struct qp__tool *found = qp__tools_find(t->engine->tools, tool);

  if (!found)
    return;
  *display = found->display;
  *ui_hints = found->ui_hints;
}

static void
begin_answer(struct qp__turn *t, const char *provider)
{
  qp__turn_drop_answer(t);
  qp__answer_init(&t->answer, provider);
  t->answer.display = show_call;
  t->answer.display_arg = t;
  t->answering = true;
}

enum qp_rc
qp__turn_take_answer(struct qp__turn *t, bool interrupted, struct qp_message **out,
                     struct qp_err *err)
{
  struct qp__turn_facts *f = &t->gear->move.facts;
  const struct qp__llm_usage *u = &t->answer.usage;
  int64_t cost = -1;

  if (interrupted && (!t->answering || !qp__answer_has_content(&t->answer)))
    return QP_OK;
  if (!t->answering)
    return qp__fail(err, QP_MISUSE, "there is no answer to save");
  if (t->answer.has_usage) {
    uint64_t tokens = (uint64_t)(u->input + u->cache_read + u->cache_write + u->output);
    const struct qp__model *model = qp__models_get(&t->engine->models, t->answer.model);

    if (model->origin == QP__MODEL_ASSUMED && t->model)
      model = t->model;
    cost = qp__model_cost(model, u);
    f->count.tokens += tokens;
    f->total.tokens += tokens;
    f->count.cost += cost > 0 ? cost : 0;
    f->total.cost += cost > 0 ? cost : 0;
  }
  return qp__answer_message(&t->answer, interrupted, cost, out, err);
}

/* ---- its lines ---- */

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

/* More of a block, which may be long: in lines of a bounded length. */
static enum qp_rc
add_parts(struct qp__turn *t, const char *type, const struct qp__llm_event *event,
          struct qp_err *err)
{
  const char *at = event->text.data;
  size_t left = event->text.len;
  enum qp_rc rc = QP_OK;

  while (!rc && left) {
    size_t n = left;

    if (n > PART_MAX)
      for (n = PART_MAX; n > PART_MAX - 4 && ((unsigned char)at[n] & 0xc0) == 0x80; n--)
        ;
    rc = qp__feed_add(&t->feed, type, piece_object(event->block, at, n),
                      qp__engine_now_ms(t->engine), false, err);
    at += n;
    left -= n;
  }
  return rc;
}

/* A whole thing. One that is too long for a line is not in the log: after a crash it is missing. */
static json_t *
whole_object(const struct qp__llm_event *event)
{
  if (event->text.len > WHOLE_MAX)
    return json_pack("{s:I, s:b}", "block", (json_int_t)event->block, "cut", 1);
  return piece_object(event->block, event->text.data, event->text.len);
}

static enum qp_rc
add_line(struct qp__turn *t, const struct qp__llm_event *event, struct qp_err *err)
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
qp__turn_replay(struct qp__turn *t, const struct qp_event_info *event, struct qp_err *err)
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
  if (!t->answering)
    begin_answer(t, "");
  rc = qp__answer_feed(&t->answer, &e, err);
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

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__turn *t = arg;
  uint64_t number = t->number;
  enum qp_rc rc;

  if (!t->began && is_content(event)) {
    t->began = true;
    qp__turn_happen(t, QP__EVENT_ANSWER_BEGAN, number);
    qp__turn_pump(t); /* it stays: its call goes on */
    if (t->number != number || !t->answering)
      return QP_OK; /* the call was cancelled */
  }
  rc = qp__answer_feed(&t->answer, event, err);
  if (!rc && t->began)
    rc = add_line(t, event, err);
  if (!rc && t->began) {
    qp__feed_show(&t->feed);
    qp__engine_dirty(t->engine);
  }
  return rc;
}

/* What a fault means for the machine. */
static enum qp__event
fault_event(struct qp__turn *t, const struct qp__llm_fault *fault, int64_t *retry_after)
{
  bool again = t->facts.attempt < t->engine->retries;

  switch (qp__fault_action(fault->kind)) {
  case QP__ACTION_RETRY:
    if (t->began || again)
      return fault->kind == QP__FAULT_CUT ? QP__EVENT_ANSWER_CUT : QP__EVENT_PASSING_ERROR;
    return QP__EVENT_FINAL_ERROR;
  case QP__ACTION_COMPACT:
    return QP__EVENT_TOO_LONG;
  case QP__ACTION_REPAIR:
    if (fault->kind != QP__FAULT_THINKING || !again || t->call_flags & QP__LLM_NO_THINKING)
      return QP__EVENT_FINAL_ERROR;
    t->call_flags |= QP__LLM_NO_THINKING;
    *retry_after = 0;
    return QP__EVENT_PASSING_ERROR;
  default:
    return QP__EVENT_FINAL_ERROR;
  }
}

static void
on_call_done(void *arg, const struct qp__llm_fault *fault)
{
  struct qp__turn *t = arg;

  t->call = NULL;
  if (!fault) {
    qp__turn_happen(t, QP__EVENT_ANSWER_ENDED, t->number);
  } else {
    int64_t retry_after = fault->retry_after_ms;
    enum qp__event event = fault_event(t, fault, &retry_after);

    qp__turn_fault(t, event, t->number, fault, retry_after);
  }
  qp__turn_pump(t);
}

static enum qp_rc
read_blob(void *arg, const char *id, struct qp__buf *out, struct qp_err *err)
{
  struct qp_engine *e = arg;
  char *bytes = NULL;
  size_t len;
  enum qp_rc rc = qp_blob_get(e->store, id, &bytes, &len, err);

  if (rc)
    return rc;
  rc = qp__buf_add(out, bytes, len);
  qp_free(bytes);
  return rc ? qp__buf_check(out, "a blob", err) : QP_OK;
}

static enum qp_rc
list_tools(struct qp_engine *e, struct qp__llm_tool **out, size_t *count, struct qp_err *err)
{
  size_t n = qp__tools_count(e->tools);
  struct qp__llm_tool *list = n ? qp__alloc0(n, sizeof(*list)) : NULL;

  if (n && !list)
    return qp__fail_nomem(err, "the tools of a model call");
  for (size_t i = 0; i < n; i++) {
    const struct qp__tool *tool = qp__tools_at(e->tools, i);

    list[i].name = tool->name;
    list[i].description = tool->description;
    list[i].schema = (struct qp_bytes){ tool->schema, strlen(tool->schema) };
  }
  *out = list;
  *count = n;
  return QP_OK;
}

static enum qp_rc
start_call(struct qp__turn *t, struct history *h, struct qp_err *err)
{
  struct qp_engine *e = t->engine;
  struct qp__llm_call_fns fns = { on_event, on_call_done, t };
  struct qp__llm_request request = { .cache = QP__CACHE_5M, .flags = t->call_flags };
  const struct qp__llm_provider *provider = NULL;
  struct qp__llm_tool *tools = NULL;
  json_t *config = json_object_get(h->metadata, "config");
  enum qp_rc rc;

  rc = qp__llm_resolve(&e->providers, &e->models,
                       json_string_value(json_object_get(config, "model_id")), &provider,
                       &request.model, err);
  if (rc)
    return rc;
  rc = qp__llm_params_init(&request.params, json_object_get(config, "parameters"), err);
  if (!rc)
    rc = list_tools(e, &tools, &request.tool_count, err);
  if (!rc) {
    t->model = qp__models_get(&e->models, request.model);
    request.system = qp__buf_bytes(&h->system);
    request.messages = (const struct qp_message *const *)h->messages;
    request.message_count = h->count;
    request.tools = tools;
    request.max_output = t->model->max_output;
    request.blob = read_blob;
    request.blob_arg = e;
    begin_answer(t, provider->name);
    rc = qp__llm_call_start(e->llm, provider, &request, &fns, &t->call, err);
  }
  qp__llm_params_release(&request.params);
  qp__free(tools);
  return rc;
}

static void
on_history(uv_work_t *work, int status)
{
  struct history *h = (struct history *)work;
  struct qp__turn *t = h->turn;
  struct qp_err err = h->err;

  t->jobs--;
  if (h->number == t->number && !t->doomed) {
    if (status)
      (void)qp__fail(&err, QP_STOPPED, "reading the history was stopped");
    if (!err.rc && start_call(t, h, &err) == QP_OK)
      err.rc = QP_OK;
    if (err.rc)
      qp__turn_fail(t, QP__EVENT_FINAL_ERROR, t->number,
                    err.rc == QP_NOTFOUND ? "model" : "request", err.msg);
  }
  history_free(h);
  qp__turn_pump(t);
}

void
qp__turn_ask(struct qp__turn *t)
{
  struct history *h = qp__alloc0(1, sizeof(*h));
  uint64_t number = ++t->number;

  if (h)
    h->branch = qp__strdup(t->facts.branch);
  if (!h || !h->branch) {
    qp__free(h);
    qp__turn_fail(t, QP__EVENT_FINAL_ERROR, number, "internal", "out of memory");
    return;
  }
  h->turn = t;
  h->number = number;
  h->context = t->context;
  qp__buf_init(&h->system, SYSTEM_MAX);
  if (uv_queue_work(&t->engine->loop, &h->work, read_history, on_history)) {
    history_free(h);
    qp__turn_fail(t, QP__EVENT_FINAL_ERROR, number, "internal", "no worker can be had");
    return;
  }
  t->jobs++;
}

/* engine_api.c - requests of other threads to an engine: actions, and lists of models, tools,
 * servers and rules. */
#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sized.h"
#include "base/str.h"
#include "llm/codec.h"
#include "model/client_tool.h"
#include "model/field.h"
#include "model/message.h"
#include "turn/actor.h"
#include "turn/discover.h"

#define KEY_MAX 255
#define IDS_MAX 256
#define SUMMARY_MAX (256 << 10)
#define INSTRUCTIONS_MAX 4000
#define RESULT_BYTES ((size_t)1 << 20) /* of one submitted result */
#define DIGEST_MAX ((size_t)16 << 20)  /* of what an action is compared by */
#define GIVEN_MAX ((size_t)256 << 20)
#define DOLLARS 1e6 /* prices are in millionths */

static const char *const action_names[] = {
#define ACTION_NAME(name, text) text,
  QP_ACTION_MAP(ACTION_NAME)
#undef ACTION_NAME
};

#define ACTIONS (sizeof(action_names) / sizeof(action_names[0]))

const char *
qp_action_name(enum qp_action_kind kind)
{
  return (size_t)kind < ACTIONS ? action_names[kind] : "unknown";
}

bool
qp_action_find(const char *name, enum qp_action_kind *out)
{
  for (size_t i = 0; i < ACTIONS; i++)
    if (strcmp(name, action_names[i]) == 0) {
      *out = (enum qp_action_kind)i;
      return true;
    }
  return false;
}

/* ---- an action ---- */

enum qp_rc
qp__action_check_key(const char *key, struct qp_err *err)
{
  size_t len = key ? strlen(key) : 1;

  for (size_t i = 0; key && i < len; i++)
    if (key[i] < ' ' || key[i] > '~')
      len = 0;
  if (len == 0 || len > KEY_MAX)
    return qp__fail(err, QP_INVALID, "an idempotency key has 1 to %d printable ASCII characters",
                    KEY_MAX);
  return QP_OK;
}

static enum qp_rc
check_ids(const struct qp_action *a, struct qp_err *err)
{
  if (a->approved_count + a->denied_count == 0)
    return qp__fail(err, QP_INVALID, "no tool call is named");
  if (a->approved_count > IDS_MAX || a->denied_count > IDS_MAX)
    return qp__fail(err, QP_TOOBIG, "more than %d tool calls are named", IDS_MAX);
  for (size_t i = 0; i < a->approved_count; i++)
    for (size_t j = 0; j < a->denied_count; j++)
      if (strcmp(a->approved[i], a->denied[j]) == 0)
        return qp__fail(err, QP_INVALID, "the call '%.80s' is both approved and denied",
                        a->approved[i]);
  return QP_OK;
}

static enum qp_rc
check_results(const struct qp_action *a, struct qp_err *err)
{
  if (a->result_count == 0)
    return qp__fail(err, QP_INVALID, "no result is submitted");
  if (a->result_count > IDS_MAX)
    return qp__fail(err, QP_TOOBIG, "more than %d results are submitted", IDS_MAX);
  for (size_t i = 0; i < a->result_count; i++) {
    const struct qp_tool_result *result = &a->results[i];

    if (!result->request_id || !*result->request_id || !result->result_json)
      return qp__fail(err, QP_INVALID, "a result names no tool call, or has no value");
    if (strlen(result->result_json) > RESULT_BYTES)
      return qp__fail(err, QP_TOOBIG, "the result of the tool call '%.80s' has more than %zu bytes",
                      result->request_id, RESULT_BYTES);
    for (size_t j = 0; j < i; j++)
      if (strcmp(result->request_id, a->results[j].request_id) == 0)
        return qp__fail(err, QP_INVALID, "the tool call '%.80s' has two results",
                        result->request_id);
  }
  return QP_OK;
}

/* Whether a message has content that a model can answer. */
static bool
says_something(const struct qp_message *message)
{
  for (size_t i = 0; i < qp_message_part_count(message); i++) {
    struct qp_part part = qp_message_part(message, i);

    if (part.kind == QP_PART_TEXT ? part.text.len > 0 : part.kind == QP_PART_IMAGE)
      return true;
  }
  return false;
}

static enum qp_rc
check_message(const struct qp_action *a, struct qp_err *err)
{
  if (a->message ? !says_something(a->message) : a->text.len == 0)
    return qp__fail(err, QP_INVALID, "the message is empty");
  if (a->message && qp_message_role(a->message) != QP_ROLE_USER)
    return qp__fail(err, QP_INVALID, "only a message of the user can be sent");
  return QP_OK;
}

static enum qp_rc
check_summary(const struct qp_action *a, struct qp_err *err)
{
  if (a->text.len == 0)
    return qp__fail(err, QP_INVALID, "the summary is empty");
  if (a->text.len > SUMMARY_MAX)
    return qp__fail(err, QP_TOOBIG, "the summary is longer than %d KiB", SUMMARY_MAX >> 10);
  if (!qp__utf8_ok(a->text.data, a->text.len) || memchr(a->text.data, 0, a->text.len))
    return qp__fail(err, QP_INVALID, "the summary is not valid UTF-8");
  return QP_OK;
}

static enum qp_rc
check_instructions(const struct qp_action *a, struct qp_err *err)
{
  if (!a->instructions)
    return QP_OK;
  if (strlen(a->instructions) > INSTRUCTIONS_MAX)
    return qp__fail(err, QP_TOOBIG, "the instructions are longer than %d bytes", INSTRUCTIONS_MAX);
  if (!qp__utf8_ok(a->instructions, strlen(a->instructions)))
    return qp__fail(err, QP_INVALID, "the instructions are not valid UTF-8");
  return QP_OK;
}

static enum qp_rc
check_action(const struct qp_action *a, struct qp_err *err)
{
  enum qp_rc rc;

  if ((size_t)a->kind >= ACTIONS)
    return qp__fail(err, QP_INVALID, "unknown action");
  rc = qp__action_check_key(a->key, err);
  if (rc)
    return rc;
  switch (a->kind) {
  case QP_ACTION_EDIT_MESSAGE:
    if (qp_uuid_is_none(&a->target))
      return qp__fail(err, QP_INVALID, "the message to edit is not named");
    return check_message(a, err);
  case QP_ACTION_SEND_MESSAGE:
    return check_message(a, err);
  case QP_ACTION_APPROVE_TOOLS:
    return check_ids(a, err);
  case QP_ACTION_SUBMIT_TOOL_RESULTS:
    return check_results(a, err);
  case QP_ACTION_SWITCH_BRANCH:
    return a->branch ? QP_OK : qp__fail(err, QP_INVALID, "the branch is not named");
  case QP_ACTION_EDIT_SUMMARY:
    return check_summary(a, err);
  case QP_ACTION_EXPAND:
  case QP_ACTION_PIN:
  case QP_ACTION_UNPIN:
    return qp_uuid_is_none(&a->target) ? qp__fail(err, QP_INVALID, "the message is not named")
                                       : QP_OK;
  case QP_ACTION_COMPACT:
    return check_instructions(a, err);
  default:
    return QP_OK;
  }
}

static enum qp_rc
copy_message(struct qp__action_request *request, const struct qp_action *a, struct qp_err *err)
{
  if (!a->message)
    return qp_message_new_text(QP_ROLE_USER, a->text, &request->message, err);
  return qp__message_clone(a->message, &request->message, err);
}

static bool
copy_string(struct qp__arena *arena, const char **s)
{
  if (*s)
    *s = qp__arena_strdup(arena, *s);
  return *s != NULL;
}

static bool
copy_list(struct qp__arena *arena, const char *const **list, size_t count)
{
  const char **copy = qp__arena_alloc(arena, (count + 1) * sizeof(*copy));

  for (size_t i = 0; copy && i < count; i++) {
    copy[i] = (*list)[i];
    if (!copy_string(arena, &copy[i]))
      return false;
  }
  *list = copy;
  return copy != NULL;
}

static enum qp_rc
copy_tools(struct qp__action_request *request, const char *json, struct qp_err *err)
{
  enum qp_rc rc;

  if (!json)
    return QP_OK;
  rc = qp__json_parse_outside("tools", (struct qp_bytes){ json, strlen(json) }, &request->tools,
                              err);
  return rc ? rc : qp__client_tools_check("the action", request->tools, err);
}

/* The results with their ids in the arena, and their values. */
static enum qp_rc
copy_results(struct qp__action_request *request, const struct qp_action *a, struct qp_err *err)
{
  struct qp_tool_result *copy =
      qp__arena_alloc(&request->arena, (a->result_count + 1) * sizeof(*copy));
  enum qp_rc rc = QP_OK;

  request->values = json_array();
  if (!copy || !request->values)
    return qp__fail_nomem(err, "an action");
  for (size_t i = 0; !rc && i < a->result_count; i++) {
    struct qp_bytes text = { a->results[i].result_json, strlen(a->results[i].result_json) };
    json_t *value = NULL;

    copy[i] = a->results[i];
    copy[i].result_json = NULL; /* it is in `values` */
    rc = qp__json_parse_outside("the result", text, &value, err);
    if (!rc)
      rc = qp__value_check_depth("the result", value, 2, err); /* a message and its result */
    if (!rc && (json_array_append(request->values, value) ||
                !copy_string(&request->arena, &copy[i].request_id)))
      rc = qp__fail_nomem(err, "an action");
    json_decref(value);
  }
  request->a.results = copy;
  return rc;
}

/* The ids of results and whether they are errors. NULL: no memory. */
static json_t *
result_heads(const struct qp_action *a)
{
  json_t *heads = json_object();
  int bad = !heads;

  for (size_t i = 0; !bad && i < a->result_count; i++)
    bad =
        json_object_set_new(heads, a->results[i].request_id, json_boolean(a->results[i].is_error));
  return qp__json_built(heads, bad);
}

/* Two actions with the same digest ask for the same. */
static enum qp_rc
make_digest(struct qp__action_request *request, const struct qp_action *a, struct qp_err *err)
{
  crypto_generichash_state state;
  uint8_t hash[16];
  json_t *rest =
      qp__json_pack_set("{s:s, s:s?, s:s?, s:[], s:[]}", "action", qp_action_name(a->kind),
                        "branch", a->branch, "reason", a->reason, "approved", "denied");
  struct qp__buf text;
  char *message = NULL;
  size_t len = 0;
  enum qp_rc rc = QP_OK;
  int bad = qp__json_set_uuid(rest, "target", &a->target) ||
            (!qp_uuid_is_none(&a->last) && qp__json_set_uuid(rest, "last", &a->last)) ||
            (a->instructions && qp__json_set_str(rest, "instructions", a->instructions)) ||
            (a->kind == QP_ACTION_EDIT_SUMMARY &&
             qp__json_set_strn(rest, "text", a->text.data, a->text.len)) ||
            (request->edits && json_object_set(rest, "arguments", request->edits)) ||
            (a->always && json_object_set_new(rest, "always", json_true())) ||
            (request->tools && json_object_set(rest, "tools", request->tools)) ||
            (a->result_count && (json_object_set_new(rest, "results", result_heads(a)) ||
                                 json_object_set(rest, "values", request->values)));

  for (size_t i = 0; i < a->approved_count; i++)
    bad |= json_array_append_new(json_object_get(rest, "approved"), json_string(a->approved[i]));
  for (size_t i = 0; i < a->denied_count; i++)
    bad |= json_array_append_new(json_object_get(rest, "denied"), json_string(a->denied[i]));
  qp__buf_init(&text, DIGEST_MAX);
  if (bad || qp__json_write(&text, rest))
    rc = qp__fail_nomem(err, "an action");
  if (!rc && request->message)
    rc = qp_message_json(request->message, &message, &len, err);
  if (!rc) {
    (void)crypto_generichash_init(&state, NULL, 0, sizeof(hash));
    (void)crypto_generichash_update(&state, (const uint8_t *)text.data, text.len);
    if (message)
      (void)crypto_generichash_update(&state, (const uint8_t *)message, len);
    (void)crypto_generichash_final(&state, hash, sizeof(hash));
    qp__hex_encode(request->digest, hash, sizeof(hash));
  }
  qp_free(message);
  qp__buf_release(&text);
  json_decref(rest);
  return rc;
}

/* Changed arguments: an object of objects. */
static enum qp_rc
copy_edits(struct qp__action_request *request, const char *text, struct qp_err *err)
{
  const char *id;
  json_t *value;
  enum qp_rc rc;

  if (!text)
    return QP_OK;
  rc = qp__json_parse_outside_object("arguments", (struct qp_bytes){ text, strlen(text) },
                                     &request->edits, err);
  if (rc)
    return rc;
  json_object_foreach (request->edits, id, value) {
    if (!json_is_object(value))
      return qp__fail(err, QP_INVALID,
                      "the changed arguments of the call '%.80s' must be an object", id);
  }
  return QP_OK;
}

static enum qp_rc
copy_action(struct qp__action_request *request, const struct qp_action *a, struct qp_err *err)
{
  struct qp__arena *arena = &request->arena;
  enum qp_rc rc = QP_OK;

  request->a = *a;
  request->a.message = NULL;
  request->a.text = (struct qp_bytes){ NULL, 0 };
  if ((a->key && !copy_string(arena, &request->a.key)) ||
      (a->branch && !copy_string(arena, &request->a.branch)) ||
      (a->reason && !copy_string(arena, &request->a.reason)) ||
      (a->instructions && !copy_string(arena, &request->a.instructions)) ||
      !copy_list(arena, &request->a.approved, a->approved_count) ||
      !copy_list(arena, &request->a.denied, a->denied_count))
    return qp__fail_nomem(err, "an action");
  if (a->kind == QP_ACTION_SEND_MESSAGE || a->kind == QP_ACTION_EDIT_MESSAGE)
    rc = copy_message(request, a, err);
  if (a->kind == QP_ACTION_EDIT_SUMMARY) {
    request->a.text.data = qp__arena_strndup(arena, a->text.data, a->text.len);
    request->a.text.len = a->text.len;
    if (!request->a.text.data)
      rc = qp__fail_nomem(err, "an action");
  }
  if (!rc && a->kind != QP_ACTION_SUBMIT_TOOL_RESULTS)
    rc = copy_tools(request, a->tools_json, err);
  else if (!rc)
    rc = copy_results(request, a, err);
  if (!rc && a->kind == QP_ACTION_APPROVE_TOOLS)
    rc = copy_edits(request, a->arguments_json, err);
  if (!rc && a->key && a->key_digest)
    (void)snprintf(request->digest, sizeof(request->digest), "%s", a->key_digest);
  else if (!rc && a->key)
    rc = make_digest(request, a, err);
  return rc;
}

static void
run_act(struct qp_engine *e, struct qp__post *post)
{
  struct qp__action_request *request = (struct qp__action_request *)post;
  bool stops = e->phase != QP__ENGINE_RUNNING;
  struct qp__actor *t = stops ? NULL : qp__engine_actor(e, &request->a.context);
  struct qp_err err = { QP_OK, "" };

  if (stops)
    (void)qp__fail(&err, QP_STOPPED, "the engine is stopping");
  else if (!t)
    (void)qp__fail_nomem(&err, "an action");
  else if (t->stage == QP__ACTOR_RELEASING)
    (void)qp__fail(&err, QP_NOTFOUND, "the context is being closed");
  if (err.rc) {
    qp__action_answer(NULL, request, &err);
    return;
  }
  request->input.is_action = true;
  request->input.request = request;
  qp__actor_enqueue(t, &request->input);
  qp__actor_pump(t);
}

enum qp_rc
qp_engine_act(struct qp_engine *engine, const struct qp_action *action, qp_action_fn *done,
              void *arg, struct qp_err *err)
{
  struct qp__action_request *request;
  struct qp_action own;
  enum qp_rc rc = qp__sized_copy("struct qp_action", action, &own, sizeof(own), err);

  if (!rc)
    rc = check_action(&own, err);
  if (rc)
    return rc;
  request = qp__alloc0(1, sizeof(*request));
  if (!request)
    return qp__fail_nomem(err, "an action");
  request->post.run = run_act;
  request->done = done;
  request->arg = arg;
  rc = copy_action(request, &own, err);
  if (rc) {
    qp__action_free(request);
    return rc;
  }
  qp__engine_post(engine, &request->post);
  return QP_OK;
}

/* ---- lists ---- */

/* A question that another thread waits for. */
struct question {
  struct qp__post post; /* first */
  json_t *(*answer)(struct qp_engine *e);
  json_t *value;
  uv_sem_t done;
};

static void
run_question(struct qp_engine *e, struct qp__post *post)
{
  struct question *q = (struct question *)post;

  q->value = e->phase == QP__ENGINE_CLOSING ? NULL : q->answer(e); /* tools are closed */
  uv_sem_post(&q->done);
}

enum qp_rc
qp__engine_give(json_t *value, const char *what, char **out, size_t *len, struct qp_err *err)
{
  struct qp__buf text;

  if (!value)
    return qp__fail_nomem(err, what);
  qp__buf_init(&text, GIVEN_MAX);
  (void)qp__json_write(&text, value);
  json_decref(value);
  return qp__buf_return(&text, QP_OK, what, out, len, err);
}

static enum qp_rc
ask(struct qp_engine *engine, json_t *(*answer)(struct qp_engine *e), const char *what, char **out,
    size_t *len, struct qp_err *err)
{
  struct question q = { .post = { .run = run_question }, .answer = answer };

  if (uv_sem_init(&q.done, 0))
    return qp__fail_nomem(err, what);
  qp__engine_post(engine, &q.post);
  uv_sem_wait(&q.done);
  uv_sem_destroy(&q.done);
  return qp__engine_give(q.value, what, out, len, err);
}

static json_t *
model_object(const struct qp_engine *e, const struct qp__model *model)
{
  const struct qp__llm_provider *provider = qp__llm_providers_find(&e->providers, model->provider);
  bool priced = model->origin == QP__MODEL_CONFIGURED || !provider || provider->official;
  json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:b}", "id", model->id, "provider",
                             model->provider, "window", (json_int_t)model->window, "max_output",
                             (json_int_t)model->max_output, "available", provider != NULL);

  return qp__json_built(
      object,
      object && priced && model->has_prices &&
          (json_object_set_new(object, "input_price", json_real((double)model->input / DOLLARS)) ||
           json_object_set_new(object, "output_price",
                               json_real((double)model->output / DOLLARS))));
}

/* Whether the row of the table is a model of a server that reports its models itself. */
static bool
is_elsewhere(const struct qp_engine *e, const struct qp__model *model)
{
  const struct qp__llm_provider *provider = qp__llm_providers_find(&e->providers, model->provider);

  return model->origin == QP__MODEL_BUILT_IN && provider && !provider->official &&
         provider->codec == &qp__codec_openai;
}

struct listing {
  struct qp_engine *engine;
  json_t *list;
};

/* A model that a server has reported; configured models are in the list already. */
static enum qp_rc
list_known(void *arg, const struct qp__known_model *known)
{
  const struct listing *l = arg;
  const struct qp__model *row = qp__models_get(&l->engine->models, known->id);
  struct qp__model model = { .id = known->id, .provider = known->provider };

  if (row->origin == QP__MODEL_CONFIGURED && strcmp(row->id, known->id) == 0)
    return QP_OK;
  model.origin = QP__MODEL_ASSUMED;
  model.window = known->window ? known->window : QP__MODEL_ASSUMED_WINDOW;
  model.max_output =
      model.window < QP__MODEL_ASSUMED_OUTPUT ? model.window : QP__MODEL_ASSUMED_OUTPUT;
  return json_array_append_new(l->list, model_object(l->engine, &model)) ? QP_NOMEM : QP_OK;
}

static json_t *
list_models(struct qp_engine *e)
{
  struct listing l = { e, json_array() };
  const struct qp__model *model;
  int bad = !l.list;

  for (size_t i = 0; !bad && (model = qp__models_at(&e->models, i)); i++)
    if (!is_elsewhere(e, model))
      bad = json_array_append_new(l.list, model_object(e, model));
  bad = bad || qp__known_each(&e->known, list_known, &l);
  if (!bad)
    qp__discover_if_old(e); /* for the next caller */
  return qp__json_built(l.list, bad);
}

/* NULL: no memory. */
static json_t *
parse_text(const char *what, const char *text)
{
  json_t *value = NULL;

  if (qp__json_parse(what, (struct qp_bytes){ text, strlen(text) }, &value, NULL))
    return NULL;
  return value;
}

static json_t *
tool_object(const struct qp_engine *e, const struct qp__tool *tool)
{
  const char *verdict = qp__verdict_name(qp__tools_judge(e->tools, tool->name, "{}", NULL));
  json_t *object =
      qp__json_pack_set("{s:s, s:s?, s:s, s:s, s:s}", "name", tool->name, "title", tool->title,
                        "description", tool->description ? tool->description : "", "source",
                        tool->source, "display_preference", qp_display_name(tool->display));

  return qp__json_built(
      object, json_object_set_new(object, "ui_hints", parse_text("hints", tool->ui_hints)) ||
                  json_object_set_new(object, "changes", json_boolean(tool->changes)) ||
                  qp__json_set_str(object, "default", verdict) ||
                  json_object_set_new(object, "schema", parse_text("a schema", tool->schema)));
}

static json_t *
list_tools(struct qp_engine *e)
{
  json_t *list = json_array();
  size_t n = qp__tools_count(e->tools);

  for (size_t i = 0; list && i < n; i++)
    list = qp__json_push(list, tool_object(e, qp__tools_at(e->tools, i)));
  return list;
}

static json_t *
server_object(const struct qp_engine *e, const struct qp__tool_server *server)
{
  json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", server->name, "transport",
                             server->transport, "state", server->state, "tools",
                             (json_int_t)server->tools, "failures", (json_int_t)server->failures);
  int bad = !object;

  if (server->error[0])
    bad = bad || qp__json_set_str(object, "error", server->error);
  if (server->retry_ms >= 0)
    bad = bad || qp__json_set_time(object, "next_try", qp__engine_now_ms(e) + server->retry_ms);
  return qp__json_built(object, bad);
}

static json_t *
list_servers(struct qp_engine *e)
{
  json_t *list = json_array();
  struct qp__tool_server server;

  for (size_t i = 0; list && qp__tools_server(e->tools, i, &server); i++)
    list = qp__json_push(list, server_object(e, &server));
  return list;
}

enum qp_rc
qp_engine_tool_servers(struct qp_engine *engine, char **out, size_t *len, struct qp_err *err)
{
  return ask(engine, list_servers, "the list of MCP servers", out, len, err);
}

enum qp_rc
qp_engine_rules(struct qp_engine *engine, const char *owner, char **out, size_t *len,
                struct qp_err *err)
{
  json_t *list = NULL;
  enum qp_rc rc = qp__grants_list(&engine->grants, owner, &list, err);

  return rc ? rc : qp__engine_give(list, "the list of rules", out, len, err);
}

enum qp_rc
qp_engine_rule_remove(struct qp_engine *engine, const char *owner, const char *id,
                      struct qp_err *err)
{
  return qp__grants_remove(&engine->grants, owner, id, err);
}

static void
run_refresh(struct qp_engine *e, const struct qp_uuid *context)
{
  (void)context;
  if (e->phase == QP__ENGINE_RUNNING) {
    qp__tools_retry(e->tools);
    qp__discover(e);
  }
}

void
qp_engine_refresh(struct qp_engine *engine)
{
  qp__engine_send(engine, run_refresh, NULL); /* servers are tried again by themselves */
}

enum qp_rc
qp_engine_models(struct qp_engine *engine, char **out, size_t *len, struct qp_err *err)
{
  return ask(engine, list_models, "the list of models", out, len, err);
}

enum qp_rc
qp_engine_tools(struct qp_engine *engine, char **out, size_t *len, struct qp_err *err)
{
  return ask(engine, list_tools, "the list of tools", out, len, err);
}

const char *
qp_engine_default_model(const struct qp_engine *engine)
{
  const char *found = atomic_load(&engine->default_name);

  return found ? found : engine->model;
}

void
qp_engine_limits(const struct qp_engine *engine, struct qp_limits *out)
{
  *out = engine->limits;
}

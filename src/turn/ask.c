/* ask.c - see ask.h.
 *
 * An ask has two references: the caller's and that of the engine, which lasts from the post to the
 * end of the call. Its lock is held during callbacks, so that qp__ask_free() can wait for them. The
 * engine's pointer in it is valid while `over` is false. */
#include "turn/ask.h"

#include <pthread.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/list.h"
#include "model/message.h"
#include "turn/discover.h"
#include "turn/engine.h"

struct qp__ask {
  struct qp__post begin; /* first */
  struct qp__post cancel;
  struct qp__ask *prev, *next; /* in the engine's list, on its thread */
  struct qp_engine *engine;
  const struct qp__llm_provider *provider;
  struct qp__llm_request request; /* borrows from what follows, and for the demo from `messages` */
  struct qp__llm_call *call;      /* on the engine's thread */
  bool listed;                    /* on the engine's thread */
  struct qp__arena arena;
  struct qp__buf body;
  struct qp_message **messages; /* of the demo, which has no body */
  size_t message_count;

  pthread_mutex_t lock; /* of what follows */
  struct qp__ask_fns fns;
  bool dropped; /* by the caller: nothing is called any more */
  bool over;    /* by the engine: it does not know it any more */
  unsigned refs;
};

static void
unref(struct qp__ask *ask)
{
  bool last;

  (void)pthread_mutex_lock(&ask->lock);
  last = --ask->refs == 0;
  (void)pthread_mutex_unlock(&ask->lock);
  if (!last)
    return;
  for (size_t i = 0; i < ask->message_count; i++)
    qp_message_free(ask->messages[i]);
  qp__free(ask->messages);
  qp__llm_params_release(&ask->request.params);
  qp__arena_release(&ask->arena);
  qp__buf_release(&ask->body);
  (void)pthread_mutex_destroy(&ask->lock);
  qp__free(ask);
}

/* ---- on the engine's thread ---- */

/* The engine's part is over. */
static void
finish(struct qp__ask *ask, const struct qp__llm_fault *fault)
{
  if (ask->listed)
    qp__list_remove(ask->engine->asks, prev, next, ask);
  ask->listed = false;
  ask->call = NULL;
  (void)pthread_mutex_lock(&ask->lock);
  ask->over = true;
  if (!ask->dropped)
    ask->fns.done(ask->fns.arg, fault);
  (void)pthread_mutex_unlock(&ask->lock);
  unref(ask);
}

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__ask *ask = arg;
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&ask->lock);
  if (!ask->dropped)
    rc = ask->fns.event(ask->fns.arg, event, err);
  (void)pthread_mutex_unlock(&ask->lock);
  return rc;
}

static void
on_done(void *arg, const struct qp__llm_fault *fault)
{
  finish(arg, fault);
}

static void
run_begin(struct qp_engine *e, struct qp__post *post)
{
  struct qp__ask *ask = (struct qp__ask *)post;
  const struct qp__llm_call_fns fns = { on_event, on_done, ask };
  struct qp__llm_fault fault = { .kind = QP__FAULT_NONE };
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  if (e->phase != QP__ENGINE_RUNNING)
    rc = qp__fail(&err, QP_STOPPED, "the server is stopping");
  else
    rc = qp__llm_call_start(e->llm, ask->provider, &ask->request, &fns, &ask->call, &err);
  if (rc) {
    err.rc = rc;
    qp__fault_from_err(&fault, &err);
    finish(ask, &fault);
    return;
  }
  ask->listed = true;
  qp__list_push(e->asks, prev, next, ask);
}

static void
run_cancel(struct qp_engine *e, struct qp__post *post)
{
  struct qp__ask *ask = (struct qp__ask *)((char *)post - offsetof(struct qp__ask, cancel));

  (void)e;
  if (ask->call) {
    qp__llm_call_cancel(ask->call);
    finish(ask, NULL);
  }
  unref(ask); /* of the caller */
}

void
qp__asks_end(struct qp_engine *e)
{
  struct qp__llm_fault fault = { .kind = QP__FAULT_NONE };

  qp__fault_set(&fault, QP__FAULT_INTERNAL, "the server is stopping");
  while (e->asks) {
    struct qp__ask *ask = e->asks;

    qp__llm_call_cancel(ask->call);
    finish(ask, &fault);
  }
}

/* ---- on the caller's thread ---- */

static enum qp_rc
resolve(struct qp_engine *e, const char *model, const struct qp__llm_provider **provider,
        const char **name, struct qp_err *err)
{
  return qp__llm_resolve(&e->providers, &e->models, model && *model ? model : e->model, provider,
                         name, err);
}

enum qp_rc
qp__ask_protocol(struct qp_engine *e, const char *model, const char **out, struct qp_err *err)
{
  const struct qp__llm_provider *provider = NULL;
  const char *name = NULL;
  enum qp_rc rc = resolve(e, model, &provider, &name, err);

  if (!rc)
    *out = provider->codec ? provider->codec->name : "demo";
  return rc;
}

/* The demo reads the messages when it is called, on the engine's thread. */
static enum qp_rc
copy_messages(struct qp__ask *ask, const struct qp__ask_spec *spec, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  ask->messages = qp__alloc0(spec->message_count + 1, sizeof(struct qp_message *));
  if (!ask->messages)
    return qp__fail_nomem(err, "a question to a model");
  for (size_t i = 0; !rc && i < spec->message_count; i++) {
    rc = qp__message_clone(spec->messages[i], &ask->messages[i], err);
    ask->message_count += !rc;
  }
  ask->request.messages = (const struct qp_message *const *)ask->messages;
  return rc;
}

static enum qp_rc
copy_tools(struct qp__ask *ask, const struct qp__ask_spec *spec, struct qp_err *err)
{
  struct qp__llm_tool *list = qp__arena_alloc(&ask->arena, (spec->tool_count + 1) * sizeof(*list));

  for (size_t i = 0; list && i < spec->tool_count; i++) {
    const struct qp__llm_tool *tool = &spec->tools[i];
    const char *schema = qp__arena_strndup(&ask->arena, tool->schema.data, tool->schema.len);

    list[i].name = qp__arena_strdup(&ask->arena, tool->name);
    list[i].description =
        tool->description ? qp__arena_strdup(&ask->arena, tool->description) : NULL;
    list[i].schema = (struct qp_bytes){ schema, tool->schema.len };
    list[i].strict = tool->strict;
    if (!schema || !list[i].name || (tool->description && !list[i].description))
      list = NULL;
  }
  if (!list)
    return qp__fail_nomem(err, "a question to a model");
  ask->request.tools = list;
  ask->request.tool_count = spec->tool_count;
  return QP_OK;
}

static enum qp_rc
prepare(struct qp__ask *ask, const struct qp__ask_spec *spec, struct qp_err *err)
{
  struct qp_engine *e = ask->engine;
  struct qp__llm_request *request = &ask->request;
  const char *name = NULL;
  enum qp_rc rc = resolve(e, spec->model, &ask->provider, &name, err);

  if (!rc)
    rc = qp__llm_params_init(&request->params, spec->parameters, err);
  if (!rc && !*name) {
    rc = qp__known_first(&e->known, ask->provider->name, &ask->arena, &name, err);
    if (rc == QP_NOTFOUND)
      qp__discover_later(e); /* for the next caller */
  }
  if (rc)
    return rc;
  request->model = qp__arena_strdup(&ask->arena, name);
  if (!request->model)
    return qp__fail_nomem(err, "a question to a model");
  if (spec->body) {
    request->body = &ask->body;
    return qp__llm_forward(ask->provider, request->model, spec->body, &ask->body, err);
  }
  if (qp__known_is_blind(&e->known, ask->provider->name, request->model))
    request->flags |= QP__LLM_NO_IMAGES;
  request->max_output = qp__models_get(&e->models, request->model)->max_output;
  request->cache = QP__CACHE_5M;
  request->system = spec->system;
  request->messages = (const struct qp_message *const *)spec->messages;
  request->message_count = spec->message_count;
  rc = copy_tools(ask, spec, err);
  if (!rc && ask->provider->codec)
    rc = qp__llm_encode(ask->provider, request, &ask->body, err);
  else if (!rc)
    rc = copy_messages(ask, spec, err);
  request->system = (struct qp_bytes){ "", 0 }; /* it is in the body, and the demo needs none */
  if (ask->provider->codec) {
    request->messages = NULL;
    request->message_count = 0;
    request->body = &ask->body;
  }
  return rc;
}

enum qp_rc
qp__ask_start(struct qp_engine *engine, const struct qp__ask_spec *spec,
              const struct qp__ask_fns *fns, struct qp__ask **out, struct qp_err *err)
{
  struct qp__ask *ask = qp__alloc0(1, sizeof(*ask));
  enum qp_rc rc;

  if (!ask || pthread_mutex_init(&ask->lock, NULL)) {
    qp__free(ask);
    return qp__fail_nomem(err, "a question to a model");
  }
  ask->engine = engine;
  ask->begin.run = run_begin;
  ask->cancel.run = run_cancel;
  ask->fns = *fns;
  ask->refs = 1;
  qp__buf_init(&ask->body, QP__LLM_BODY_MAX);
  rc = prepare(ask, spec, err);
  if (rc) {
    unref(ask);
    return rc;
  }
  ask->refs = 2;
  *out = ask;
  qp__engine_post(engine, &ask->begin);
  return QP_OK;
}

void
qp__ask_free(struct qp__ask *ask)
{
  bool posted;

  if (!ask)
    return;
  (void)pthread_mutex_lock(&ask->lock);
  ask->dropped = true;
  posted = !ask->over;
  if (posted)
    qp__engine_post(ask->engine, &ask->cancel);
  (void)pthread_mutex_unlock(&ask->lock);
  if (!posted)
    unref(ask);
}

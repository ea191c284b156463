/* call.c - see call.h: the list of calls, over HTTP (http_call.c) or to the demo (demo.c). */
#include "llm/call_int.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/list.h"
#include "llm/body_writer.h"

/* ---- the engine ---- */

enum qp_rc
qp__llm_engine_open(uv_loop_t *loop, const struct qp__os *os, struct qp__net_client *net,
                    struct qp__llm_engine **out, struct qp_err *err)
{
  struct qp__llm_engine *e = qp__alloc0(1, sizeof(*e));

  if (!e)
    return qp__fail_nomem(err, "the engine of model calls");
  e->loop = loop;
  e->os = os;
  e->net = qp__net_ref(net);
  *out = e;
  return QP_OK;
}

void
qp__llm_engine_close(struct qp__llm_engine *e)
{
  if (!e)
    return;
  while (e->calls)
    qp__llm_call_cancel(e->calls);
  qp__net_unref(e->net);
  qp__free(e);
}

/* ---- calls ---- */

enum qp_rc
qp__llm_encode(const struct qp__llm_provider *provider, const struct qp__llm_request *request,
               struct qp__buf *body, struct qp_err *err)
{
  struct qp__llm_request flagged = *request;

  flagged.flags |= provider->flags;
  return provider->codec ? provider->codec->encode(&flagged, body, err) : QP_OK;
}

static void
write_stream_options(struct qp__buf *body, const json_t *options)
{
  const char *key;
  json_t *value;

  qp__wire_begin(body, "stream_options", '{');
  json_object_foreach ((json_t *)options, key, value)
    if (strcmp(key, "include_usage") != 0)
      qp__wire_value(body, key, value);
  qp__wire_true(body, "include_usage");
  qp__wire_close(body, '}');
}

enum qp_rc
qp__llm_forward(const struct qp__llm_provider *provider, const char *model, const json_t *request,
                struct qp__buf *body, struct qp_err *err)
{
  const char *key;
  json_t *value;

  qp__wire_open(body, '{');
  qp__wire_str(body, "model", model);
  qp__wire_true(body, "stream");
  if (provider->codec == &qp__codec_openai && !(provider->flags & QP__LLM_NO_STREAM_OPTIONS))
    write_stream_options(body, json_object_get(request, "stream_options"));
  json_object_foreach ((json_t *)request, key, value)
    if (strcmp(key, "model") != 0 && strcmp(key, "stream") != 0 &&
        strcmp(key, "stream_options") != 0)
      qp__wire_value(body, key, value);
  qp__wire_close(body, '}');
  return qp__buf_check(body, "the request", err);
}

enum qp_rc
qp__llm_call_start(struct qp__llm_engine *e, const struct qp__llm_provider *provider,
                   const struct qp__llm_request *request, const struct qp__llm_call_fns *fns,
                   struct qp__llm_call **out, struct qp_err *err)
{
  struct qp__llm_request flagged = *request;
  struct qp__llm_call *call = qp__alloc0(1, sizeof(*call));
  enum qp_rc rc;

  if (!call)
    return qp__fail_nomem(err, "a call of a model");
  call->engine = e;
  call->provider = provider;
  call->fns = *fns;
  flagged.flags |= provider->flags;
  rc = provider->codec ? qp__http_call_start(call, &flagged, err)
                       : qp__demo_start(call, &flagged, err);
  if (rc) {
    qp__free(call);
    return rc;
  }
  qp__list_push(e->calls, prev, next, call);
  *out = call;
  return QP_OK;
}

void
qp__llm_call_cancel(struct qp__llm_call *call)
{
  struct qp__http_call *http = call->http;
  struct qp__demo_call *demo = call->demo;

  qp__list_remove(call->engine->calls, prev, next, call);
  qp__free(call);
  if (http)
    qp__http_call_drop(http);
  if (demo)
    qp__demo_drop(demo);
}

void
qp__llm_call_finish(struct qp__llm_call *call, const struct qp__llm_fault *fault)
{
  struct qp__llm_call_fns fns = call->fns;

  qp__list_remove(call->engine->calls, prev, next, call);
  qp__free(call);
  fns.done(fns.arg, fault);
}

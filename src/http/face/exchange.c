/* exchange.c - see exchange.h.
 *
 * An exchange is used by the worker that begins it, then by the engine's thread until it lets the
 * request continue, then by both ends: the engine's thread feeds the face and writes to the stream,
 * the connection frees the stream. qp__ask_free() and qp__face_turn_free() return when the engine's
 * thread does not use the exchange any more. */
#include "http/face/exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/engine_use.h"
#include "http/face/face_turn.h"
#include "http/http_int.h"
#include "model/message.h"

/* ---- life ---- */

static void
free_exchange(void *arg)
{
  struct qp__exchange *x = arg;

  qp__ask_free(x->ask);
  qp__face_turn_free(x->turn);
  if (x->release_own)
    x->release_own(x->face.own);
  qp__face_release(&x->face);
  qp__free((void *)x->client_tools);
  qp__free(x);
}

enum qp_rc
qp__exchange_new(struct qp__request *r, const struct qp__face_form *form, const char *id_prefix,
                 bool streams, struct qp__exchange **out, struct qp_err *err)
{
  struct qp__exchange *x = qp__alloc0(1, sizeof(*x));
  enum qp_rc rc = QP_OK;

  if (!x)
    return qp__fail_nomem(err, "an answer");
  qp__face_init(&x->face, form, id_prefix);
  x->face.streams = streams;
  x->request = r;
  if (streams)
    rc = qp__stream_open(r, free_exchange, x, &x->stream, err);
  if (rc) {
    free_exchange(x);
    return rc;
  }
  r->kept = x;
  *out = x;
  return QP_OK;
}

void
qp__exchange_drop(struct qp__request *r, struct qp__exchange *x)
{
  if (!x)
    return;
  r->kept = NULL;
  if (x->stream)
    qp__stream_free(x->stream); /* frees the exchange too */
  else
    free_exchange(x);
}

/* ---- errors ---- */

static const struct {
  enum qp__fault_kind kind;
  unsigned status;
  const char *code;
} faults[] = {
  { QP__FAULT_CONNECT, MHD_HTTP_BAD_GATEWAY, "PROVIDER" },
  { QP__FAULT_TIMEOUT, MHD_HTTP_GATEWAY_TIMEOUT, "PROVIDER" },
  { QP__FAULT_CUT, MHD_HTTP_BAD_GATEWAY, "PROVIDER" },
  { QP__FAULT_PROTOCOL, MHD_HTTP_BAD_GATEWAY, "PROVIDER" },
  { QP__FAULT_RATE, MHD_HTTP_TOO_MANY_REQUESTS, "PROVIDER_RATE" },
  { QP__FAULT_OVERLOADED, MHD_HTTP_SERVICE_UNAVAILABLE, "PROVIDER" },
  { QP__FAULT_SERVER, MHD_HTTP_BAD_GATEWAY, "PROVIDER" },
  { QP__FAULT_TOO_LONG, MHD_HTTP_BAD_REQUEST, "CONTEXT_LENGTH" },
  { QP__FAULT_TOO_LARGE, MHD_HTTP_CONTENT_TOO_LARGE, "TOOBIG" },
  { QP__FAULT_AUTH, MHD_HTTP_BAD_GATEWAY, "PROVIDER_KEY" },
  { QP__FAULT_QUOTA, MHD_HTTP_PAYMENT_REQUIRED, "PROVIDER_QUOTA" },
  { QP__FAULT_MODEL, MHD_HTTP_NOT_FOUND, "MODEL" },
  { QP__FAULT_INTERNAL, MHD_HTTP_INTERNAL_SERVER_ERROR, "PROVIDER" },
};

enum qp_rc
qp__exchange_fail(struct qp__request *r, const struct qp__llm_fault *fault, struct qp_err *err)
{
  unsigned status = MHD_HTTP_BAD_REQUEST;
  const char *code = "PROVIDER_REQUEST";

  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
    if (faults[i].kind == fault->kind) {
      status = faults[i].status;
      code = faults[i].code;
    }
  if (fault->retry_after_ms > 0) {
    char text[32];
    const char *copy;

    (void)snprintf(text, sizeof(text), "%lld", (long long)(fault->retry_after_ms + 999) / 1000);
    copy = qp__arena_strdup(&r->arena, text);
    if (copy)
      qp__reply_header(r, "Retry-After", copy);
  }
  return qp__request_fail(r, status, code, err, "%s", fault->message);
}

/* ---- the second half ---- */

enum qp_rc
qp__exchange_answer(struct qp__request *r, struct qp_err *err)
{
  struct qp__exchange *x = r->kept;
  enum qp_rc rc = r->waited.rc;

  if (rc)
    *err = r->waited;
  else if (x->replayed)
    rc = qp__face_turn_replay(x, err);
  if (rc) {
    qp__exchange_drop(r, x);
    return rc;
  }
  if (x->fault.kind) {
    if (x->turn) /* the message is stored, and the engine has retried: a retry is a second turn */
      qp__reply_header(r, "x-should-retry", "false");
    rc = qp__exchange_fail(r, &x->fault, err);
  } else if (x->stream) {
    r->stream = x->stream; /* it owns the exchange */
    r->kept = NULL;
    return QP_OK;
  } else {
    (void)qp__buf_add(&r->reply.body, x->face.out.data, x->face.out.len);
    if (x->face.out.rc)
      rc = qp__fail_nomem(err, "an answer");
  }
  qp__exchange_drop(r, x);
  return rc;
}

/* ---- on the engine's thread ---- */

void
qp__exchange_continue(struct qp__exchange *x, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__request *r = x->request;

  x->request = NULL;
  if (r)
    qp__work_unpark(r, rc, err);
}

void
qp__exchange_flush(struct qp__exchange *x)
{
  struct qp__buf *out = &x->face.out;

  if (!x->stream || !out->len)
    return;
  qp__stream_write(x->stream, qp__buf_bytes(out));
  qp__buf_reset(out);
  qp__exchange_continue(x, QP_OK, NULL);
}

/* An exchange whose request continues may be freed by another thread as soon as the caller has
 * returned to the source, so nothing of it is used behind qp__exchange_continue(). */
void
qp__exchange_end(struct qp__exchange *x, const struct qp__llm_fault *fault)
{
  bool told = x->request == NULL;

  if (fault && !told) {
    x->fault = *fault;
    x->face.ended = true;
    qp__exchange_continue(x, QP_OK, NULL);
    return;
  }
  qp__face_end(&x->face, fault);
  if (x->stream) {
    qp__stream_write(x->stream, qp__buf_bytes(&x->face.out));
    qp__buf_reset(&x->face.out);
    qp__stream_close(x->stream);
  }
  qp__exchange_continue(x, QP_OK, NULL);
}

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__exchange *x = arg;
  enum qp_rc rc = qp__face_feed(&x->face, event, err);

  if (!rc)
    qp__exchange_flush(x);
  return rc;
}

static void
on_done(void *arg, const struct qp__llm_fault *fault)
{
  qp__exchange_end(arg, fault);
}

/* ---- the first half ---- */

static enum qp_rc
read_messages(struct qp__request *r, const struct qp__wish *w, struct qp_message ***out,
              size_t *count, struct qp_err *err)
{
  size_t n = json_array_size(w->messages);
  struct qp_message **list = qp__arena_alloc(&r->arena, (n + 1) * sizeof(struct qp_message *));
  enum qp_rc rc = QP_OK;

  *count = 0;
  if (!list)
    return qp__fail_nomem(err, "the messages");
  *out = list;
  for (size_t i = 0; !rc && i < n; i++) {
    char what[40];

    (void)snprintf(what, sizeof(what), "message %zu", i);
    rc = qp__message_from_value(what, json_array_get(w->messages, i), &list[i], err);
    *count += !rc;
  }
  return rc;
}

enum qp_rc
qp__exchange_ask(struct qp__request *r, struct qp__exchange *x, const struct qp__wish *w,
                 struct qp_err *err)
{
  const struct qp__ask_fns fns = { on_event, on_done, x };
  struct qp__ask_spec spec = { .model = w->model };
  struct qp_message **messages = NULL;
  struct qp__llm_tool *tools = NULL;
  struct qp_engine *engine = NULL;
  struct qp__http *http = r->http;
  const char *protocol = NULL;
  json_t *parameters = NULL;
  json_t *body = NULL;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  (void)snprintf(x->face.model, sizeof(x->face.model), "%s", w->model);
  rc = qp__ask_protocol(engine, w->model, &protocol, err);
  if (!rc && w->body && strcmp(protocol, w->protocol) == 0) {
    body = qp__wish_forward(w);
    rc = body ? QP_OK : qp__fail_nomem(err, "a request");
  } else if (!rc) {
    rc = qp__wish_parameters(r, w, protocol, &parameters, err);
    if (!rc)
      rc = qp__wish_tools(r, w, &tools, &spec.tool_count, err);
    if (!rc)
      rc = read_messages(r, w, &messages, &spec.message_count, err);
  }
  if (!rc) {
    spec.system =
        (struct qp_bytes){ w->system ? w->system : "", w->system ? strlen(w->system) : 0 };
    spec.messages = messages;
    spec.tools = tools;
    spec.parameters = parameters;
    spec.body = body;
    qp__work_park(r, qp__exchange_answer, false);
    rc = qp__ask_start(engine, &spec, &fns, &x->ask, err);
    if (rc) {
      x->request = NULL;
      r->then = NULL; /* nothing waits */
    }
  }
  for (size_t i = 0; messages && i < spec.message_count; i++)
    qp_message_free(messages[i]);
  json_decref(parameters);
  json_decref(body);
  qp__turns_leave(http);
  if (rc == QP_NOTFOUND)
    return qp__request_fail(r, MHD_HTTP_NOT_FOUND, "MODEL", err, "%s", err->msg);
  return rc;
}

/* http_call.c - a call over HTTP.
 *
 * The request is encoded once. The answer passes from libcurl's buffer through the codec's reader
 * to the caller's callback without being stored. Only these are stored: the body of an error, up to
 * 64 KiB, and the answer of a server that does not stream.
 *
 * `done` is called as soon as the end mark of the answer was received, not when the server ends the
 * response. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "llm/call_int.h"
#include "llm/decoder.h"

#define ERROR_BODY_MAX ((size_t)64 << 10)
#define ANSWER_BYTES_MAX ((uint64_t)1 << 30) /* of a stream, with everything around the text */
#define LINE_MAX_BYTES ((size_t)64 << 10)    /* of a URL or header */
#define OWN_HEADERS 4

struct qp__http_call {
  struct qp__llm_call *call;               /* NULL: ended or cancelled */
  const struct qp__llm_provider *provider; /* not valid once `call` is NULL */
  const struct qp__llm_codec *codec;
  const struct qp__os *os;
  struct qp__net_request *request; /* NULL: ended */
  struct qp__decoder *reader;
  struct qp__llm_head head; /* status 0: no response yet */
  bool is_json;             /* the answer is one JSON value, not a stream */
  struct qp__buf reply;     /* an error, or an answer that is not a stream */
  struct qp_err err;        /* why decoding ended early; rc QP_OK: it did not */
};

/* ---- the end ---- */

static void
on_release(void *arg)
{
  struct qp__http_call *http = arg;

  qp__decoder_close(http->reader);
  qp__buf_release(&http->reply);
  qp__free(http);
}

void
qp__http_call_drop(struct qp__http_call *http)
{
  http->call = NULL;
  if (http->request)
    qp__net_cancel(http->request);
}

static bool
is_good(const struct qp__http_call *http)
{
  return http->head.status >= 200 && http->head.status < 300;
}

/* Lets the reader finish. Sets *fault when the answer is not complete. */
static enum qp_rc
end_answer(struct qp__http_call *http, const char *why, struct qp__llm_fault *fault)
{
  enum qp_rc rc = QP_OK;

  if (http->is_json && !why)
    rc = qp__decoder_whole(http->reader, qp__buf_bytes(&http->reply), &http->err);
  if (!rc)
    rc = qp__decoder_end(http->reader, fault, &http->err);
  if (!rc && why && fault->kind == QP__FAULT_CUT)
    qp__fault_set(fault, QP__FAULT_CUT, "the answer was cut: %s", why);
  return rc;
}

/* Reports how the call ended: `fault` is set, or the answer is complete. */
static void
judge(struct qp__http_call *http, enum qp__net_outcome outcome, const char *why,
      struct qp__llm_fault *fault)
{
  enum qp_rc rc = http->err.rc;
  bool late = outcome == QP__NET_SILENT || outcome == QP__NET_TIMEOUT;

  if (outcome == QP__NET_TOOBIG)
    rc = qp__fail(&http->err, QP_TOOBIG, "the provider's answer exceeds its limit");
  if (!rc && late)
    qp__fault_set(fault, QP__FAULT_TIMEOUT, "no answer from %s: %s", http->provider->name, why);
  else if (!rc && is_good(http))
    rc = end_answer(http, why, fault);
  else if (!rc && http->head.status)
    qp__fault_from_reply(fault, &http->head, qp__buf_bytes(&http->reply));
  else if (!rc)
    qp__fault_set(fault, QP__FAULT_CONNECT, "no answer from %s: %s", http->provider->name,
                  why ? why : "the server closed the connection");
  if (rc) {
    http->err.rc = rc;
    qp__fault_from_err(fault, &http->err);
    if (rc == QP_INVALID)
      fault->kind = QP__FAULT_PROTOCOL;
  }
  if (fault->kind) {
    fault->status = http->head.status;
    if (!fault->request_id[0])
      memcpy(fault->request_id, http->head.request_id, sizeof(fault->request_id));
    qp__net_scrub(fault->message, http->provider->key);
    for (size_t i = 0; i < http->provider->header_count; i++)
      qp__net_scrub_header(fault->message, http->provider->headers[i]);
  }
}

/* The last events may cancel the call. */
static void
on_end(void *arg, enum qp__net_outcome outcome, const char *why)
{
  struct qp__http_call *http = arg;
  struct qp__llm_fault fault = { .kind = QP__FAULT_NONE };
  struct qp__llm_call *call;

  http->request = NULL;
  judge(http, outcome, why, &fault);
  call = http->call;
  http->call = NULL;
  if (call)
    qp__llm_call_finish(call, fault.kind ? &fault : NULL);
}

/* ---- the answer ---- */

/* Between the reader and the caller, who may cancel. */
static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__http_call *http = arg;
  enum qp_rc rc;

  if (!http->call)
    return QP_STOPPED;
  rc = http->call->fns.event(http->call->fns.arg, event, err);
  return !rc && !http->call ? QP_STOPPED : rc;
}

static void
on_status(void *arg, int status)
{
  struct qp__http_call *http = arg;

  http->head.status = status;
}

static void
on_header(void *arg, struct qp_bytes name, struct qp_bytes value)
{
  struct qp__http_call *http = arg;

  if (qp__net_is_header(name, "content-type"))
    http->is_json = qp__net_is_type(value, "application/json");
  else
    qp__llm_head_feed(&http->head, name, value, http->os->now_ms(http->os->self));
}

static enum qp_rc
take_data(struct qp__http_call *http, struct qp_bytes data, struct qp_err *err)
{
  size_t room = ERROR_BODY_MAX - http->reply.len;

  if (is_good(http) && !http->is_json)
    return qp__decoder_feed(http->reader, data, err);
  if (!is_good(http) && data.len > room)
    data.len = room;
  (void)qp__buf_add(&http->reply, data.data, data.len);
  return qp__buf_check(&http->reply, "the provider's answer", err);
}

static enum qp__net_next
on_data(void *arg, struct qp_bytes data)
{
  struct qp__http_call *http = arg;

  http->err.rc = take_data(http, data, &http->err);
  if (!http->call || http->err.rc)
    return QP__NET_STOP;
  return is_good(http) && http->reader->over ? QP__NET_ENOUGH : QP__NET_MORE;
}

/* ---- the request ---- */

/* Header lines: ours, the provider's, and the key in `key`. */
static enum qp_rc
list_headers(const struct qp__http_call *http, struct qp__buf *key, const char **lines, size_t *n)
{
  const struct qp__llm_provider *p = http->provider;
  bool is_anthropic = http->codec == &qp__codec_anthropic;

  lines[(*n)++] = "Content-Type: application/json";
  lines[(*n)++] = "Accept: text/event-stream, application/json";
  if (is_anthropic)
    lines[(*n)++] = "anthropic-version: 2023-06-01";
  for (size_t i = 0; i < p->header_count; i++)
    lines[(*n)++] = p->headers[i];
  if (!p->key)
    return QP_OK;
  (void)qp__buf_addf(key, is_anthropic ? "x-api-key: %s" : "Authorization: Bearer %s", p->key);
  lines[(*n)++] = key->data;
  return key->rc;
}

static enum qp_rc
send_request(struct qp__http_call *http, struct qp__buf *body, struct qp_err *err)
{
  const struct qp__llm_provider *p = http->provider;
  const char **lines = qp__alloc0(p->header_count + OWN_HEADERS, sizeof(*lines));
  struct qp__net_spec spec = {
    .method = "POST",
    .headers = lines,
    .body_buf = body,
    .body_max = ANSWER_BYTES_MAX,
    .connect_ms = (uint64_t)p->connect_ms,
    .first_byte_ms = (uint64_t)p->first_byte_ms,
    .idle_ms = (uint64_t)p->idle_ms,
    .hooks = { on_status, on_header, on_data, on_end, on_release },
    .arg = http,
  };
  struct qp__buf url;
  struct qp__buf key;
  enum qp_rc rc;

  qp__buf_init(&url, LINE_MAX_BYTES);
  qp__buf_init(&key, LINE_MAX_BYTES);
  (void)qp__buf_addf(&url, "%s%s", p->url, http->codec->path);
  if (!lines || url.rc || list_headers(http, &key, lines, &spec.header_count)) {
    rc = qp__fail_nomem(err, "a call of a model");
  } else {
    spec.url = url.data;
    rc = qp__net_start(http->call->engine->net, &spec, &http->request, err);
  }
  if (key.data)
    explicit_bzero(key.data, key.len);
  qp__buf_release(&key);
  qp__buf_release(&url);
  qp__free(lines);
  return rc;
}

enum qp_rc
qp__http_call_start(struct qp__llm_call *call, const struct qp__llm_request *request,
                    struct qp_err *err)
{
  const struct qp__llm_codec *codec = call->provider->codec;
  struct qp__http_call *http = qp__alloc0(1, sizeof(*http));
  struct qp__buf body;
  enum qp_rc rc = QP_OK;

  if (!http)
    return qp__fail_nomem(err, "a call of a model");
  http->call = call;
  http->provider = call->provider;
  http->codec = codec;
  http->os = call->engine->os;
  qp__llm_head_init(&http->head);
  qp__buf_init(&http->reply, QP__LLM_EVENT_MAX);
  qp__buf_init(&body, QP__LLM_BODY_MAX);
  if (!request->body)
    rc = codec->encode(request, &body, err);
  if (!rc)
    rc = qp__decoder_open(codec, (struct qp__llm_sink){ on_event, http }, &http->reader, err);
  if (!rc)
    rc = send_request(http, request->body ? request->body : &body, err);
  qp__buf_release(&body);
  if (rc)
    on_release(http);
  else
    call->http = http;
  return rc;
}

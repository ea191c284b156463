/* call.c - one call over HTTP.
 *
 * The request is written once; the answer goes from libcurl's buffer through the codec's reader to
 * the caller's callback without being kept. What is kept: the body of an error, up to 64 KiB, and
 * that of a server that does not stream.
 *
 * The caller is told as soon as the answer's terminator has come. The transfer then has a second to
 * end by itself, so that its connection can serve again; a server that keeps it open loses it. */
#include "llm/call_int.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/err.h"

#define ERROR_BODY_MAX ((size_t)64 << 10)
#define ANSWER_BYTES_MAX ((uint64_t)1 << 30) /* of a stream, with all that surrounds the text */
#define DRAIN_MS 1000
#define RECEIVE_BUFFER 2048L /* of each call; a piece of an answer is far smaller */
#define SEND_BUFFER 16384L   /* the least that libcurl takes */

struct qp__httpcall {
  struct qp__llm_engine *engine;
  struct qp__llm_call *call;               /* NULL: told or cancelled */
  const struct qp__llm_provider *provider; /* not to be used once `call` is NULL */
  const struct qp__llm_codec *codec;
  struct qp__httpcall *prev, *next;
  CURL *easy;
  bool added;   /* libcurl has it */
  bool dropped; /* to be freed once libcurl is left */
  struct curl_slist *headers;
  struct qp__buf body;
  void *reader;
  struct qp__llm_head head;
  bool is_json;         /* the answer comes at once */
  bool begun;           /* something of it has come */
  struct qp__buf reply; /* an error, or such an answer */
  uint64_t received;
  struct qp_err err; /* why decoding ended early; rc QP_OK: it did not */
  uint64_t last_ms;  /* when something came last, by the loop's clock */
  uv_timer_t timer;  /* watches over silence, then over the drain */
  char curl_error[CURL_ERROR_SIZE];
};

struct qp__httpcall *
qp__httpcall_next(const struct qp__httpcall *http)
{
  return http->next;
}

/* ---- ending ---- */

static void
free_memory(uv_handle_t *handle)
{
  struct qp__httpcall *http = handle->data;
  struct qp__llm_engine *e = http->engine;

  qp__free(http);
  qp__llm_engine_release(e);
}

/* What libcurl and the codec hold; also of a call that was only half made. */
static void
release(struct qp__httpcall *http)
{
  if (http->added)
    (void)curl_multi_remove_handle(http->engine->multi, http->easy);
  curl_easy_cleanup(http->easy);
  curl_slist_free_all(http->headers);
  http->codec->close(http->reader);
  qp__buf_release(&http->body);
  qp__buf_release(&http->reply);
}

void
qp__httpcall_free(struct qp__httpcall *http)
{
  if (http->prev)
    http->prev->next = http->next;
  else
    http->engine->https = http->next;
  if (http->next)
    http->next->prev = http->prev;
  release(http);
  uv_close((uv_handle_t *)&http->timer, free_memory);
}

void
qp__httpcall_drop(struct qp__httpcall *http)
{
  http->call = NULL;
  http->dropped = true;
  if (http->engine->busy)
    http->engine->work = true;
  else
    qp__httpcall_free(http);
}

/* A failure on the way, in libcurl's words. */
static void
fault_of_transfer(const struct qp__httpcall *http, CURLcode code, struct qp__llm_fault *fault)
{
  const char *text = http->curl_error[0] ? http->curl_error : curl_easy_strerror(code);
  enum qp__fault_kind kind =
      code == CURLE_OPERATION_TIMEDOUT ? QP__FAULT_TIMEOUT : QP__FAULT_CONNECT;

  qp__fault_set(fault, kind, "no answer from %s: %s", http->provider->name, text);
}

static bool
is_good(const struct qp__httpcall *http)
{
  return http->head.status >= 200 && http->head.status < 300;
}

/* Lets the reader finish and says how the answer ended. */
static void
judge(struct qp__httpcall *http, CURLcode code, struct qp__llm_fault *fault)
{
  const struct qp__llm_codec *codec = http->codec;
  enum qp_rc rc = http->err.rc;

  if (!rc && http->begun && is_good(http)) {
    if (http->is_json && !code)
      rc = codec->whole(http->reader, qp__buf_bytes(&http->reply), &http->err);
    if (!rc)
      rc = codec->end(http->reader, fault, &http->err);
    if (!rc && fault->kind == QP__FAULT_CUT && code)
      qp__fault_set(fault, QP__FAULT_CUT, "the answer was cut: %s",
                    http->curl_error[0] ? http->curl_error : curl_easy_strerror(code));
  } else if (!rc && http->begun && http->head.status) {
    qp__fault_from_reply(fault, &http->head, qp__buf_bytes(&http->reply));
  } else if (!rc) {
    fault_of_transfer(http, code, fault);
  }
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
    qp__fault_scrub(fault, http->provider->key);
  }
}

/* Tells the caller. The call may have been cancelled by the last events. */
static void
tell(struct qp__httpcall *http, CURLcode code)
{
  struct qp__llm_fault fault = { .kind = QP__FAULT_NONE };
  struct qp__llm_call *call;

  judge(http, code, &fault);
  call = http->call;
  http->call = NULL;
  if (call)
    qp__call_finish(call, fault.kind ? &fault : NULL);
}

void
qp__httpcall_ended(struct qp__httpcall *http, CURLcode code)
{
  if (http->call)
    tell(http, code);
  qp__httpcall_free(http);
}

/* ---- silence ---- */

static void on_timer(uv_timer_t *timer);

/* How long it may be quiet now. */
static uint64_t
limit_of(const struct qp__httpcall *http)
{
  return (uint64_t)(http->begun ? http->provider->idle_ms : http->provider->first_byte_ms);
}

/* The timer is not set anew for each piece: when it fires it looks how long it has been quiet. */
static void
watch(struct qp__httpcall *http)
{
  uint64_t limit = limit_of(http);
  uint64_t quiet = uv_now(http->engine->loop) - http->last_ms;

  (void)uv_timer_start(&http->timer, on_timer, quiet < limit ? limit - quiet : 0, 0);
}

static void
on_timer(uv_timer_t *timer)
{
  struct qp__httpcall *http = timer->data;
  struct qp__llm_engine *e = http->engine;
  struct qp__llm_call *call = http->call;
  struct qp__llm_fault fault;

  if (call && uv_now(e->loop) - http->last_ms < limit_of(http)) {
    watch(http);
    return;
  }
  qp__llm_engine_enter(e);
  if (call) {
    qp__fault_set(&fault, QP__FAULT_TIMEOUT, "%s sent nothing for %llu ms", http->provider->name,
                  (unsigned long long)limit_of(http));
    fault.status = http->head.status;
  }
  qp__httpcall_free(http); /* libcurl is not running now */
  if (call)
    qp__call_finish(call, &fault);
  qp__llm_engine_leave(e);
}

/* ---- the answer ---- */

/* Between the reader and the caller, who may cancel. */
static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__httpcall *http = arg;
  enum qp_rc rc;

  if (!http->call)
    return QP_STOPPED;
  rc = http->call->fns.event(http->call->fns.arg, event, err);
  return !rc && !http->call ? QP_STOPPED : rc;
}

static void
take_header(struct qp__httpcall *http, struct qp_bytes line)
{
  const char *colon = memchr(line.data, ':', line.len);
  struct qp_bytes name = { line.data, colon ? (size_t)(colon - line.data) : 0 };
  struct qp_bytes value = { colon, 0 };

  if (!colon)
    return;
  value.data++;
  value.len = line.len - name.len - 1;
  while (value.len && strchr(" \t", *value.data)) {
    value.data++;
    value.len--;
  }
  while (value.len && strchr("\r\n \t", value.data[value.len - 1]))
    value.len--;
  if (name.len == 12 && strncasecmp(name.data, "content-type", 12) == 0)
    http->is_json = value.len >= 16 && strncasecmp(value.data, "application/json", 16) == 0;
  else
    qp__llm_head_feed(&http->head, name, value, http->engine->os->now_ms(http->engine->os->self));
}

static size_t
on_header(const char *data, size_t size, size_t n, void *arg)
{
  struct qp__httpcall *http = arg;
  struct qp_bytes line = { data, size * n };
  long status = 0;

  http->last_ms = uv_now(http->engine->loop);
  http->begun = true;
  if (line.len > 5 && memcmp(line.data, "HTTP/", 5) == 0) {
    (void)curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
    qp__llm_head_init(&http->head);
    http->head.status = (int)status;
    http->is_json = false;
  } else {
    take_header(http, line);
  }
  return line.len;
}

/* The request may be large, and the answer long. */
static void
forget_body(struct qp__httpcall *http)
{
  curl_off_t sent = 0;

  if (http->body.len && !curl_easy_getinfo(http->easy, CURLINFO_SIZE_UPLOAD_T, &sent) &&
      (size_t)sent == http->body.len)
    qp__buf_release(&http->body);
}

static enum qp_rc
take_data(struct qp__httpcall *http, struct qp_bytes data, struct qp_err *err)
{
  size_t room;

  if (!is_good(http)) {
    room = ERROR_BODY_MAX - http->reply.len;
    (void)qp__buf_add(&http->reply, data.data, data.len < room ? data.len : room);
    return qp__buf_check(&http->reply, "the provider's answer", err);
  }
  if (http->is_json) {
    (void)qp__buf_add(&http->reply, data.data, data.len);
    return qp__buf_check(&http->reply, "the provider's answer", err);
  }
  return http->codec->feed(http->reader, data, err);
}

static size_t
on_data(const char *text, size_t size, size_t n, void *arg)
{
  struct qp__httpcall *http = arg;
  struct qp_bytes data = { text, size * n };
  enum qp_rc rc;

  http->last_ms = uv_now(http->engine->loop);
  http->received += data.len;
  forget_body(http);
  if (!http->call) /* told: the rest is of no use; cancelled: no more of it */
    return http->dropped ? 0 : data.len;
  if (http->received > ANSWER_BYTES_MAX)
    rc = qp__fail(&http->err, QP_TOOBIG, "the provider's answer exceeds its limit");
  else
    rc = take_data(http, data, &http->err);
  http->err.rc = rc;
  if (!http->call || http->err.rc)
    return 0;
  if (is_good(http) && http->codec->over(http->reader))
    http->engine->work = true;
  return data.len;
}

/* ---- the request ---- */

static bool
add_header(struct qp__httpcall *http, const char *name, const char *value)
{
  struct qp__buf line;
  struct curl_slist *list = NULL;

  qp__buf_init(&line, (size_t)64 << 10);
  (void)qp__buf_addf(&line, "%s%s", name, value);
  if (!line.rc)
    list = curl_slist_append(http->headers, line.data);
  if (line.data)
    memset(line.data, 0, line.len);
  qp__buf_release(&line);
  if (list)
    http->headers = list;
  return list != NULL;
}

static bool
add_headers(struct qp__httpcall *http)
{
  const char *key = http->provider->key;
  bool is_anthropic = http->codec == &qp__codec_anthropic;

  if (!add_header(http, "Content-Type: application/json", "") ||
      !add_header(http, "Accept: text/event-stream, application/json", "") ||
      !add_header(http, "Expect:", ""))
    return false;
  if (is_anthropic && !add_header(http, "anthropic-version: 2023-06-01", ""))
    return false;
  for (size_t i = 0; i < http->provider->header_count; i++)
    if (!add_header(http, http->provider->headers[i], ""))
      return false;
  return !key || add_header(http, is_anthropic ? "x-api-key: " : "Authorization: Bearer ", key);
}

static bool
set_url(struct qp__httpcall *http)
{
  struct qp__buf url;
  bool good;

  qp__buf_init(&url, (size_t)64 << 10);
  (void)qp__buf_addf(&url, "%s%s", http->provider->url, http->codec->path);
  good = !url.rc && !curl_easy_setopt(http->easy, CURLOPT_URL, url.data);
  qp__buf_release(&url);
  return good;
}

static enum qp_rc
set_options(struct qp__httpcall *http, struct qp_err *err)
{
  const struct qp__llm_provider *p = http->provider;
  CURL *easy = curl_easy_init();
  bool good;

  http->easy = easy;
  good = easy && add_headers(http) && set_url(http) &&
         !curl_easy_setopt(easy, CURLOPT_PRIVATE, http) &&
         !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers) &&
         !curl_easy_setopt(easy, CURLOPT_POSTFIELDS, http->body.data) &&
         !curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)http->body.len) &&
         !curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) &&
         !curl_easy_setopt(easy, CURLOPT_HEADERDATA, http) &&
         !curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data) &&
         !curl_easy_setopt(easy, CURLOPT_WRITEDATA, http) &&
         !curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->curl_error) &&
         !curl_easy_setopt(easy, CURLOPT_USERAGENT, "quipu/" QP_VERSION) &&
         !curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
         !curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)p->connect_ms) &&
         !curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER) &&
         !curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, SEND_BUFFER) &&
         !curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) &&
         !curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
         (!p->loopback || !curl_easy_setopt(easy, CURLOPT_PROXY, ""));
  if (!good)
    return qp__fail_nomem(err, "a call of a model");
  /* Without HTTP/2 in libcurl the older version does as well. */
  (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
  /* A cancel must not wait for a name server. */
  (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  return QP_OK;
}

static bool
add_to_multi(struct qp__httpcall *http)
{
  http->added = curl_multi_add_handle(http->engine->multi, http->easy) == CURLM_OK;
  return http->added;
}

enum qp_rc
qp__httpcall_start(struct qp__llm_call *call, const struct qp__llm_request *request,
                   struct qp_err *err)
{
  struct qp__llm_engine *e = call->engine;
  const struct qp__llm_codec *codec = call->provider->codec;
  struct qp__httpcall *http = qp__alloc0(1, sizeof(*http));
  enum qp_rc rc;

  if (!http)
    return qp__fail_nomem(err, "a call of a model");
  http->engine = e;
  http->call = call;
  http->provider = call->provider;
  http->codec = codec;
  qp__llm_head_init(&http->head);
  qp__buf_init(&http->body, QP__LLM_BODY_MAX);
  qp__buf_init(&http->reply, QP__LLM_EVENT_MAX);
  if (request->body) {
    http->body = *request->body;
    qp__buf_init(request->body, QP__LLM_BODY_MAX);
  }
  rc = request->body ? QP_OK : codec->encode(request, &http->body, err);
  if (!rc)
    rc = codec->open((struct qp__llm_sink){ on_event, http }, &http->reader, err);
  if (!rc)
    rc = set_options(http, err);
  if (!rc && uv_timer_init(e->loop, &http->timer))
    rc = qp__fail_nomem(err, "a call of a model");
  if (rc) {
    release(http);
    qp__free(http);
    return rc;
  }
  http->timer.data = http;
  qp__llm_engine_retain(e);
  http->next = e->https;
  if (e->https)
    e->https->prev = http;
  e->https = http;
  call->http = http;
  uv_update_time(e->loop);
  http->last_ms = uv_now(e->loop);
  watch(http);
  if (e->busy) {
    e->work = true;
  } else if (!add_to_multi(http)) {
    qp__httpcall_free(http);
    return qp__fail_nomem(err, "a call of a model");
  }
  return QP_OK;
}

void
qp__httpcall_work(struct qp__httpcall *http)
{
  struct qp__llm_fault fault;
  struct qp__llm_call *call = http->call;

  if (http->dropped) {
    qp__httpcall_free(http);
  } else if (!http->added && !add_to_multi(http)) {
    qp__fault_set(&fault, QP__FAULT_INTERNAL, "a call of a model: out of memory");
    qp__httpcall_free(http);
    qp__call_finish(call, &fault);
  } else if (call && http->begun && is_good(http) && http->codec->over(http->reader)) {
    tell(http, CURLE_OK);
    (void)uv_timer_start(&http->timer, on_timer, DRAIN_MS, 0);
  }
}

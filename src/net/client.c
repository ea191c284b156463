/* client.c - see client.h.
 *
 * libcurl says which sockets it wants to have watched (watch_socket) and when it wants to be called
 * (set_timer); libuv reports what happened (act). libcurl must not be called from within its own
 * callbacks, and that is where hooks run. So while the client is `busy`, a start and a cancel only
 * put the request into the `work` list, and leave() does the rest.
 *
 * The states of a request:
 *
 *   NEW ──────> RUNNING ──> ENOUGH ──> DRAINING     (removed when the transfer has ended)
 *    │             │   └──> STOPPED                 (likewise)
 *    └─────────────┴──────> CANCELLED               (removed as soon as libcurl has returned)
 */
#include "net/client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/list.h"

#define IDLE_CONNECTIONS 64L /* kept for the next requests */
#define CONNECT_MS 15000
#define DRAIN_MS 1000
#define HEADERS_MAX ((size_t)256 << 10)
#define RECEIVE_BUFFER 2048L /* per request; thousands may run, and pieces of a stream are small */
#define SEND_BUFFER 16384L   /* libcurl's minimum */
#define SECRET_MIN 6         /* a header value that is shorter is no secret: "1", "yes" */
#define WHY_MAX (CURL_ERROR_SIZE + 64)

enum state { NEW, RUNNING, ENOUGH, DRAINING, STOPPED, CANCELLED };

struct qp__net_client {
  uv_loop_t *loop;
  CURLM *multi;
  uv_timer_t timer; /* libcurl's */
  struct qp__net_request *requests;
  struct qp__net_request *work; /* requests for leave(): NEW, ENOUGH or CANCELLED */
  size_t refs;
  size_t handles; /* open handles of libuv; closing the last one frees the client */
  bool busy;
  bool closing;
};

struct qp__net_request {
  struct qp__net_client *client;
  struct qp__net_request *prev, *next;
  struct qp__net_request *work_next;
  bool in_work;
  enum state state;
  CURL *easy;
  bool added; /* to the multi handle */
  struct curl_slist *headers;
  struct qp__buf body;
  struct qp__net_hooks hooks;
  void *arg;
  uint64_t body_max, first_byte_ms, idle_ms;
  int status; /* 0: not known yet */
  bool once;
  bool begun; /* a byte of the response was received */
  bool too_big;
  size_t header_bytes;
  uint64_t body_bytes;
  uint64_t last_ms; /* when something was received last, by the loop's clock */
  uv_timer_t timer; /* for silence, then for draining */
  char error[CURL_ERROR_SIZE];
};

/* One socket of libcurl. */
struct watch {
  uv_poll_t poll;
  struct qp__net_client *client;
  curl_socket_t socket;
};

/* ---- life of the client ---- */

static void
release_handle(struct qp__net_client *c)
{
  if (--c->handles == 0)
    qp__free(c);
}

static void
on_timer_closed(uv_handle_t *handle)
{
  release_handle(handle->data);
}

static void remove_request(struct qp__net_request *r);

/* Only when libcurl is not running. */
static void
tear_down(struct qp__net_client *c)
{
  QP_ASSERT(c->closing && !c->busy);
  while (c->requests)
    remove_request(c->requests);
  (void)curl_multi_cleanup(c->multi);
  c->multi = NULL;
  uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

struct qp__net_client *
qp__net_ref(struct qp__net_client *client)
{
  client->refs++;
  return client;
}

void
qp__net_unref(struct qp__net_client *client)
{
  if (!client)
    return;
  QP_ASSERT(client->refs > 0);
  if (--client->refs > 0)
    return;
  client->closing = true;
  for (struct qp__net_request *r = client->requests; r; r = r->next)
    if (r->state != DRAINING)
      r->state = CANCELLED;
  if (!client->busy)
    tear_down(client);
}

/* ---- life of a request ---- */

static void
on_request_closed(uv_handle_t *handle)
{
  struct qp__net_request *r = handle->data;
  struct qp__net_client *c = r->client;

  qp__free(r);
  release_handle(c);
}

/* What libcurl and the request hold; also of a request that is not complete. */
static void
release_parts(struct qp__net_request *r)
{
  if (r->added)
    (void)curl_multi_remove_handle(r->client->multi, r->easy);
  curl_easy_cleanup(r->easy);
  curl_slist_free_all(r->headers);
  qp__buf_release(&r->body);
}

/* Only when libcurl is not running. Calls `release`, unless the owner is gone (DRAINING). */
static void
remove_request(struct qp__net_request *r)
{
  struct qp__net_client *c = r->client;
  struct qp__net_request **at = &c->work;

  while (r->in_work && *at != r)
    at = &(*at)->work_next;
  if (r->in_work)
    *at = r->work_next;
  qp__list_remove(c->requests, prev, next, r);
  release_parts(r);
  if (r->state != DRAINING && r->hooks.release)
    r->hooks.release(r->arg);
  uv_close((uv_handle_t *)&r->timer, on_request_closed);
}

/* Calls `end` and removes the request. */
static void
finish(struct qp__net_request *r, enum qp__net_outcome outcome, const char *why)
{
  if (r->state != CANCELLED && r->state != DRAINING)
    r->hooks.end(r->arg, outcome, why);
  remove_request(r);
}

static void
add_work(struct qp__net_request *r)
{
  if (r->in_work)
    return;
  r->in_work = true;
  r->work_next = r->client->work;
  r->client->work = r;
}

void
qp__net_cancel(struct qp__net_request *request)
{
  QP_ASSERT(request->state != DRAINING && request->state != CANCELLED);
  request->state = CANCELLED;
  if (request->client->busy)
    add_work(request);
  else
    remove_request(request);
}

static bool
add_to_multi(struct qp__net_request *r)
{
  r->added = curl_multi_add_handle(r->client->multi, r->easy) == CURLM_OK;
  if (r->added)
    r->state = RUNNING;
  return r->added;
}

/* libcurl has ended a transfer. */
static void
finish_transfer(struct qp__net_request *r, CURLcode code)
{
  enum qp__net_outcome outcome = code == CURLE_OPERATION_TIMEDOUT ? QP__NET_TIMEOUT
                                 : code                           ? QP__NET_FAILED
                                                                  : QP__NET_DONE;
  curl_off_t connected = 1;
  char why[WHY_MAX];

  if (code && r->once && !curl_easy_getinfo(r->easy, CURLINFO_CONNECT_TIME_T, &connected) &&
      !connected)
    outcome = QP__NET_UNSENT;
  (void)snprintf(why, sizeof(why), "%s", r->error[0] ? r->error : curl_easy_strerror(code));
  if (r->state == STOPPED)
    outcome = QP__NET_STOPPED;
  if (r->too_big) {
    outcome = QP__NET_TOOBIG;
    (void)snprintf(why, sizeof(why), "the response is larger than its limit");
  }
  finish(r, outcome, outcome == QP__NET_DONE ? NULL : why);
}

/* ---- silence ---- */

static void on_quiet(uv_timer_t *timer);

/* How long it may be quiet now; 0: no limit. */
static uint64_t
quiet_limit(const struct qp__net_request *r)
{
  return r->begun ? r->idle_ms : r->first_byte_ms;
}

/* At the start and with the first byte, which has another limit. The timer is not set again for
 * each piece: when it fires, it looks how long it has been quiet. */
static void
start_quiet_timer(struct qp__net_request *r)
{
  uint64_t limit = quiet_limit(r);
  uint64_t quiet = uv_now(r->client->loop) - r->last_ms;

  if (limit)
    (void)uv_timer_start(&r->timer, on_quiet, quiet < limit ? limit - quiet : 0, 0);
  else
    (void)uv_timer_stop(&r->timer);
}

static void enter(struct qp__net_client *c);
static void leave(struct qp__net_client *c);

static void
on_quiet(uv_timer_t *timer)
{
  struct qp__net_request *r = timer->data;
  struct qp__net_client *c = r->client;
  uint64_t limit = quiet_limit(r);
  char why[64];

  if (r->state != DRAINING && uv_now(c->loop) - r->last_ms < limit) {
    start_quiet_timer(r);
    return;
  }
  (void)snprintf(why, sizeof(why), "the server sent nothing for %llu ms",
                 (unsigned long long)limit);
  enter(c);
  finish(r, QP__NET_SILENT, why);
  leave(c);
}

/* ---- libcurl and libuv ---- */

static void
enter(struct qp__net_client *c)
{
  QP_ASSERT(!c->busy && !c->closing);
  c->busy = true;
}

/* The steps that had to wait until libcurl returned. */
static void
do_work(struct qp__net_request *r)
{
  QP_ASSERT(r->state == CANCELLED || r->state == NEW || r->state == ENOUGH);
  r->in_work = false;
  if (r->state == CANCELLED) {
    remove_request(r);
  } else if (r->state == NEW && !add_to_multi(r)) {
    finish(r, QP__NET_FAILED, "out of memory");
  } else if (r->state == ENOUGH) {
    r->state = DRAINING;
    (void)uv_timer_start(&r->timer, on_quiet, DRAIN_MS, 0);
    r->hooks.end(r->arg, QP__NET_DONE, NULL);
    if (r->hooks.release)
      r->hooks.release(r->arg);
  }
}

/* The work list is handled first: removing a request also removes its message from libcurl. */
static void
leave(struct qp__net_client *c)
{
  for (;;) {
    struct qp__net_request *r = c->work;
    const CURLMsg *message;
    int left;

    if (r) {
      c->work = r->work_next;
      do_work(r);
      continue;
    }
    message = curl_multi_info_read(c->multi, &left);
    if (!message)
      break;
    if (message->msg != CURLMSG_DONE)
      continue;
    (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&r);
    finish_transfer(r, message->data.result);
  }
  c->busy = false;
  if (c->closing)
    tear_down(c);
}

static void
act(struct qp__net_client *c, curl_socket_t socket, int flags)
{
  int running;

  enter(c);
  (void)curl_multi_socket_action(c->multi, socket, flags, &running);
  leave(c);
}

static void
on_socket(uv_poll_t *poll, int status, int events)
{
  struct watch *w = poll->data;
  int flags = 0;

  if (status < 0)
    flags = CURL_CSELECT_ERR;
  if (events & UV_READABLE)
    flags |= CURL_CSELECT_IN;
  if (events & UV_WRITABLE)
    flags |= CURL_CSELECT_OUT;
  act(w->client, w->socket, flags);
}

static void
on_watch_closed(uv_handle_t *handle)
{
  struct watch *w = handle->data;
  struct qp__net_client *c = w->client;

  qp__free(w);
  release_handle(c);
}

static struct watch *
new_watch(struct qp__net_client *c, curl_socket_t socket)
{
  struct watch *w = qp__alloc0(1, sizeof(*w));

  if (!w)
    return NULL;
  if (uv_poll_init_socket(c->loop, &w->poll, socket)) {
    qp__free(w);
    return NULL;
  }
  w->poll.data = w;
  w->client = c;
  w->socket = socket;
  c->handles++;
  (void)curl_multi_assign(c->multi, socket, w);
  return w;
}

static int
watch_socket(CURL *easy, curl_socket_t socket, int what, void *arg, void *slot)
{
  struct qp__net_client *c = arg;
  struct watch *w = slot;
  int events = 0;

  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    if (w) {
      (void)curl_multi_assign(c->multi, socket, NULL);
      uv_close((uv_handle_t *)&w->poll, on_watch_closed);
    }
    return 0;
  }
  if (!w)
    w = new_watch(c, socket);
  if (!w)
    return -1; /* libcurl ends its transfers */
  if (what != CURL_POLL_OUT)
    events |= UV_READABLE;
  if (what != CURL_POLL_IN)
    events |= UV_WRITABLE;
  return uv_poll_start(&w->poll, events, on_socket) ? -1 : 0;
}

static void
on_timer(uv_timer_t *timer)
{
  act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int
set_timer(CURLM *multi, long ms, void *arg)
{
  struct qp__net_client *c = arg;

  (void)multi;
  if (ms < 0)
    return uv_timer_stop(&c->timer) ? -1 : 0;
  return uv_timer_start(&c->timer, on_timer, (uint64_t)ms, 0) ? -1 : 0;
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void
init_curl(void)
{
  curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

enum qp_rc
qp__net_open(uv_loop_t *loop, struct qp__net_client **out, struct qp_err *err)
{
  struct qp__net_client *c;

  (void)pthread_once(&curl_once, init_curl);
  if (curl_ready)
    return qp__fail(err, QP_IO, "cannot use libcurl: %s", curl_easy_strerror(curl_ready));
  c = qp__alloc0(1, sizeof(*c));
  if (!c)
    return qp__fail_nomem(err, "the HTTP client");
  c->loop = loop;
  c->multi = curl_multi_init();
  if (!c->multi || uv_timer_init(loop, &c->timer)) {
    (void)curl_multi_cleanup(c->multi);
    qp__free(c);
    return qp__fail_nomem(err, "the HTTP client");
  }
  c->timer.data = c;
  c->handles = 1;
  c->refs = 1;
  (void)curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS);
  (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
  (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
  (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, set_timer);
  (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
  *out = c;
  return QP_OK;
}

/* ---- the response ---- */

/* Whether hooks may be called. */
static bool
is_heard(const struct qp__net_request *r)
{
  return r->state == RUNNING;
}

static void
report_header(const struct qp__net_request *r, struct qp_bytes line)
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
  r->hooks.header(r->arg, name, value);
}

static size_t
on_header(const char *data, size_t size, size_t n, void *arg)
{
  struct qp__net_request *r = arg;
  struct qp_bytes line = { data, size * n };
  long status = 0;

  r->last_ms = uv_now(r->client->loop);
  if (!r->begun) {
    r->begun = true;
    start_quiet_timer(r);
  }
  r->header_bytes += line.len;
  r->too_big |= r->header_bytes > HEADERS_MAX;
  if (r->too_big || r->state == CANCELLED)
    return 0;
  if (line.len > 5 && memcmp(line.data, "HTTP/", 5) == 0) {
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    r->status = status >= 200 ? (int)status : 0;
    if (r->status && r->hooks.status && is_heard(r))
      r->hooks.status(r->arg, r->status);
  } else if (r->status && !r->body_bytes && r->hooks.header && is_heard(r)) {
    report_header(r, line);
  }
  return r->state == CANCELLED ? 0 : line.len;
}

/* The request may be large, and its response long. */
static void
free_sent_body(struct qp__net_request *r)
{
  curl_off_t sent = 0;

  if (r->body.len && !curl_easy_getinfo(r->easy, CURLINFO_SIZE_UPLOAD_T, &sent) &&
      (size_t)sent == r->body.len)
    qp__buf_release(&r->body);
}

static size_t
on_data(const char *text, size_t size, size_t n, void *arg)
{
  struct qp__net_request *r = arg;
  struct qp_bytes data = { text, size * n };
  enum qp__net_next next = QP__NET_MORE;

  r->last_ms = uv_now(r->client->loop);
  r->body_bytes += data.len;
  free_sent_body(r);
  r->too_big |= r->body_max && r->body_bytes > r->body_max;
  if (r->too_big)
    return 0;
  if (r->hooks.data && is_heard(r))
    next = r->hooks.data(r->arg, data);
  if (is_heard(r) && next == QP__NET_STOP) {
    r->state = STOPPED;
  } else if (is_heard(r) && next == QP__NET_ENOUGH) {
    r->state = ENOUGH;
    add_work(r);
  }
  return r->state == CANCELLED || r->state == STOPPED ? 0 : data.len;
}

/* ---- the request ---- */

static bool
add_header(struct qp__net_request *r, const char *line)
{
  struct curl_slist *list = curl_slist_append(r->headers, line);

  if (list)
    r->headers = list;
  return list != NULL;
}

/* Moves or copies the body of the request. */
static bool
set_body(struct qp__net_request *r, const struct qp__net_spec *spec)
{
  if (spec->body_buf) {
    r->body = *spec->body_buf;
    qp__buf_init(spec->body_buf, spec->body_buf->limit);
  } else {
    (void)qp__buf_add(&r->body, spec->body.data, spec->body.len);
  }
  return r->body.rc == QP_OK;
}

static bool
set_method(struct qp__net_request *r, const struct qp__net_spec *spec)
{
  CURL *easy = r->easy;
  bool post = strcmp(spec->method, "POST") == 0;

  if (post || r->body.len)
    return !curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->body.data ? r->body.data : "") &&
           !curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len) &&
           (post || !curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, spec->method));
  return strcmp(spec->method, "GET") == 0 ||
         !curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, spec->method);
}

/* Where the request goes, and how. */
static bool
set_route(CURL *easy, const struct qp__net_spec *spec)
{
  bool loopback = false;

  (void)qp__net_check_url(spec->url, &loopback); /* libcurl refuses a bad URL itself */
  if (spec->socket && curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, spec->socket))
    return false;
  if ((loopback || spec->socket || spec->peer) && curl_easy_setopt(easy, CURLOPT_PROXY, ""))
    return false;
  if (spec->once && (curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L) ||
                     curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L)))
    return false;
  return !curl_easy_setopt(easy, CURLOPT_URL, spec->url) &&
         !curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
         !curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) &&
         !curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) &&
         !curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
}

static bool
set_options(struct qp__net_request *r, const struct qp__net_spec *spec)
{
  uint64_t connect_ms = spec->connect_ms ? spec->connect_ms : CONNECT_MS;
  CURL *easy = curl_easy_init();
  bool good;

  r->easy = easy;
  good = easy && add_header(r, "Expect:");
  for (size_t i = 0; i < spec->header_count && good; i++)
    good = add_header(r, spec->headers[i]);
  good = good && set_body(r, spec) && set_method(r, spec) && set_route(easy, spec) &&
         !curl_easy_setopt(easy, CURLOPT_PRIVATE, r) &&
         !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, r->headers) &&
         !curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) &&
         !curl_easy_setopt(easy, CURLOPT_HEADERDATA, r) &&
         !curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data) &&
         !curl_easy_setopt(easy, CURLOPT_WRITEDATA, r) &&
         !curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, r->error) &&
         !curl_easy_setopt(easy, CURLOPT_USERAGENT, "quipu/" QP_VERSION) &&
         !curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms) &&
         !curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)spec->total_ms) &&
         !curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER) &&
         !curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, SEND_BUFFER) &&
         !curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  if (!good)
    return false;
  /* A libcurl without HTTP/2 uses HTTP/1.1. */
  (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
  /* A cancel must not wait for a name server. */
  (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  return true;
}

enum qp_rc
qp__net_start(struct qp__net_client *client, const struct qp__net_spec *spec,
              struct qp__net_request **out, struct qp_err *err)
{
  struct qp__net_request *r;

  if (client->closing)
    return qp__fail(err, QP_STOPPED, "the HTTP client is closing");
  r = qp__alloc0(1, sizeof(*r));
  if (!r)
    return qp__fail_nomem(err, "an HTTP request");
  r->client = client;
  r->body_max = spec->body_max;
  r->first_byte_ms = spec->first_byte_ms;
  r->idle_ms = spec->idle_ms;
  r->once = spec->once;
  qp__buf_init(&r->body, SIZE_MAX / 4);
  if (!set_options(r, spec) || (!client->busy && !add_to_multi(r))) {
    release_parts(r);
    qp__free(r);
    return qp__fail_nomem(err, "an HTTP request");
  }
  r->hooks = spec->hooks;
  r->arg = spec->arg;
  (void)uv_timer_init(client->loop, &r->timer); /* cannot fail */
  r->timer.data = r;
  client->handles++;
  qp__list_push(client->requests, prev, next, r);
  if (client->busy)
    add_work(r);
  uv_update_time(client->loop);
  r->last_ms = uv_now(client->loop);
  start_quiet_timer(r);
  *out = r;
  return QP_OK;
}

/* ---- headers, URLs, dates and secrets ---- */

bool
qp__net_is_header(struct qp_bytes name, const char *want)
{
  return name.len == strlen(want) && strncasecmp(name.data, want, name.len) == 0;
}

bool
qp__net_is_type(struct qp_bytes value, const char *type)
{
  return value.len >= strlen(type) && strncasecmp(value.data, type, strlen(type)) == 0;
}

enum qp_rc
qp__net_check_url(const char *url, bool *loopback)
{
  CURLU *parts = curl_url();
  char *scheme = NULL;
  char *host = NULL;
  enum qp_rc rc = parts ? QP_OK : QP_NOMEM;

  if (rc)
    return rc;
  if (curl_url_set(parts, CURLUPART_URL, url, 0) ||
      curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) ||
      curl_url_get(parts, CURLUPART_HOST, &host, 0) ||
      (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
    rc = QP_INVALID;
  else
    *loopback = strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
                (strncmp(host, "127.", 4) == 0 && host[strspn(host, "0123456789.")] == 0);
  curl_free(scheme);
  curl_free(host);
  curl_url_cleanup(parts);
  return rc;
}

int64_t
qp__net_parse_date(const char *text)
{
  time_t at = curl_getdate(text, NULL);

  return at == (time_t)-1 ? -1 : (int64_t)at * 1000;
}

void
qp__net_scrub(char *text, const char *secret)
{
  size_t n = secret ? strlen(secret) : 0;
  char *at;

  while (n && (at = strstr(text, secret)) != NULL) {
    size_t keep = n < 3 ? n : 3;

    memmove(at + keep, at + n, strlen(at + n) + 1);
    memset(at, '*', keep);
    text = at + keep;
  }
  for (size_t len = strlen(text), k = n < len ? n : len; k >= SECRET_MIN; k--)
    if (memcmp(text + len - k, secret, k) == 0) {
      memcpy(text + len - k, "***", 4);
      return;
    }
}

void
qp__net_scrub_header(char *text, const char *line)
{
  const char *value = strchr(line, ':');
  const char *word = strrchr(line, ' ');

  value = value ? value + 1 + strspn(value + 1, " ") : "";
  if (strlen(value) >= SECRET_MIN)
    qp__net_scrub(text, value);
  if (word && strlen(word + 1) >= SECRET_MIN)
    qp__net_scrub(text, word + 1);
}

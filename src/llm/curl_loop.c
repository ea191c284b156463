/* curl_loop.c - libcurl's sockets and timer on a loop of libuv, and the list of calls. */
#include "llm/call_int.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

#define IDLE_CONNECTIONS 64 /* kept for the next calls */

/* One socket of libcurl's. */
struct watch {
  uv_poll_t poll;
  struct qp__llm_engine *engine;
  curl_socket_t socket;
};

/* ---- life ---- */

void
qp__llm_engine_retain(struct qp__llm_engine *e)
{
  e->handles++;
}

void
qp__llm_engine_release(struct qp__llm_engine *e)
{
  if (--e->handles == 0)
    qp__free(e);
}

/* ---- libcurl ---- */

static void
free_timer(uv_handle_t *handle)
{
  qp__llm_engine_release(handle->data);
}

/* Every call has been cancelled. */
static void
tear_down(struct qp__llm_engine *e)
{
  while (e->https)
    qp__httpcall_free(e->https);
  (void)curl_multi_cleanup(e->multi);
  e->multi = NULL;
  uv_close((uv_handle_t *)&e->timer, free_timer);
}

void
qp__llm_engine_enter(struct qp__llm_engine *e)
{
  e->busy = true;
}

/* Transfers that ended, then whatever waited. Callbacks may start and end calls meanwhile: starts
 * join the list at its head, ends only mark, so the walk is safe. */
void
qp__llm_engine_leave(struct qp__llm_engine *e)
{
  CURLMsg *message;
  int left;

  while ((message = curl_multi_info_read(e->multi, &left)) != NULL) {
    struct qp__httpcall *http = NULL;
    CURLcode code = message->data.result;

    if (message->msg != CURLMSG_DONE)
      continue;
    (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&http);
    if (http)
      qp__httpcall_ended(http, code);
  }
  while (e->work) {
    struct qp__httpcall *next;

    e->work = false;
    for (struct qp__httpcall *http = e->https; http; http = next) {
      next = qp__httpcall_next(http);
      qp__httpcall_work(http);
    }
  }
  e->busy = false;
  if (e->closing)
    tear_down(e);
}

static void
act(struct qp__llm_engine *e, curl_socket_t socket, int flags)
{
  int running;

  qp__llm_engine_enter(e);
  (void)curl_multi_socket_action(e->multi, socket, flags, &running);
  qp__llm_engine_leave(e);
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
  act(w->engine, w->socket, flags);
}

static void
free_watch(uv_handle_t *handle)
{
  struct watch *w = handle->data;
  struct qp__llm_engine *e = w->engine;

  qp__free(w);
  qp__llm_engine_release(e);
}

static struct watch *
new_watch(struct qp__llm_engine *e, curl_socket_t socket)
{
  struct watch *w = qp__alloc0(1, sizeof(*w));

  if (!w)
    return NULL;
  if (uv_poll_init_socket(e->loop, &w->poll, socket)) {
    qp__free(w);
    return NULL;
  }
  w->poll.data = w;
  w->engine = e;
  w->socket = socket;
  qp__llm_engine_retain(e);
  (void)curl_multi_assign(e->multi, socket, w);
  return w;
}

static int
watch_socket(CURL *easy, curl_socket_t socket, int what, void *arg, void *slot)
{
  struct qp__llm_engine *e = arg;
  struct watch *w = slot;
  int events = 0;

  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    if (w) {
      (void)curl_multi_assign(e->multi, socket, NULL);
      uv_close((uv_handle_t *)&w->poll, free_watch);
    }
    return 0;
  }
  if (!w)
    w = new_watch(e, socket);
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
  struct qp__llm_engine *e = arg;

  (void)multi;
  if (ms < 0)
    return uv_timer_stop(&e->timer) ? -1 : 0;
  return uv_timer_start(&e->timer, on_timer, (uint64_t)ms, 0) ? -1 : 0;
}

/* ---- the engine ---- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void
init_curl(void)
{
  curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

enum qp_rc
qp__llm_engine_open(uv_loop_t *loop, const struct qp__os *os, struct qp__llm_engine **out,
                    struct qp_err *err)
{
  struct qp__llm_engine *e;

  (void)pthread_once(&curl_once, init_curl);
  if (curl_ready)
    return qp__fail(err, QP_IO, "libcurl cannot be used: %s", curl_easy_strerror(curl_ready));
  e = qp__alloc0(1, sizeof(*e));
  if (!e)
    return qp__fail_nomem(err, "the engine of model calls");
  e->loop = loop;
  e->os = os;
  e->multi = curl_multi_init();
  if (!e->multi || uv_timer_init(loop, &e->timer)) {
    (void)curl_multi_cleanup(e->multi);
    qp__free(e);
    return qp__fail_nomem(err, "the engine of model calls");
  }
  e->timer.data = e;
  e->handles = 1;
  (void)curl_multi_setopt(e->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
  (void)curl_multi_setopt(e->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
  (void)curl_multi_setopt(e->multi, CURLMOPT_SOCKETDATA, e);
  (void)curl_multi_setopt(e->multi, CURLMOPT_TIMERFUNCTION, set_timer);
  (void)curl_multi_setopt(e->multi, CURLMOPT_TIMERDATA, e);
  *out = e;
  return QP_OK;
}

void
qp__llm_engine_close(struct qp__llm_engine *e)
{
  if (!e || e->closing)
    return;
  while (e->calls)
    qp__llm_call_cancel(e->calls);
  e->closing = true;
  if (!e->busy)
    tear_down(e);
}

size_t
qp__llm_engine_calls(const struct qp__llm_engine *e)
{
  return e->call_count;
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

enum qp_rc
qp__llm_call_start(struct qp__llm_engine *e, const struct qp__llm_provider *provider,
                   const struct qp__llm_request *request, const struct qp__llm_call_fns *fns,
                   struct qp__llm_call **out, struct qp_err *err)
{
  struct qp__llm_request flagged = *request;
  struct qp__llm_call *call;
  enum qp_rc rc;

  if (e->closing)
    return qp__fail(err, QP_STOPPED, "the engine of model calls is closing");
  call = qp__alloc0(1, sizeof(*call));
  if (!call)
    return qp__fail_nomem(err, "a call of a model");
  call->engine = e;
  call->provider = provider;
  call->fns = *fns;
  flagged.flags |= provider->flags;
  rc = provider->codec ? qp__httpcall_start(call, &flagged, err)
                       : qp__demo_start(call, &flagged, err);
  if (rc) {
    qp__free(call);
    return rc;
  }
  call->next = e->calls;
  if (e->calls)
    e->calls->prev = call;
  e->calls = call;
  e->call_count++;
  *out = call;
  return QP_OK;
}

/* Off the list; nothing is told any more. */
static void
unlist(struct qp__llm_call *call)
{
  struct qp__llm_engine *e = call->engine;

  if (call->prev)
    call->prev->next = call->next;
  else
    e->calls = call->next;
  if (call->next)
    call->next->prev = call->prev;
  e->call_count--;
}

void
qp__llm_call_cancel(struct qp__llm_call *call)
{
  struct qp__httpcall *http = call->http;
  struct qp__demo_call *demo = call->demo;

  unlist(call);
  qp__free(call);
  if (http)
    qp__httpcall_drop(http);
  if (demo)
    qp__demo_drop(demo);
}

void
qp__call_finish(struct qp__llm_call *call, const struct qp__llm_fault *fault)
{
  struct qp__llm_call_fns fns = call->fns;

  unlist(call);
  qp__free(call);
  fns.done(fns.arg, fault);
}

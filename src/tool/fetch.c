/* fetch.c - see fetch.h.
 *
 * libcurl tells which sockets it wants watched (on_socket) and when it wants to be called
 * (on_timeout); libuv tells it what happened. No handle may be added to the multi handle or removed
 * from it while libcurl calls one of our functions, and hooks may want either. So the sweep timer
 * does both, on the next turn. */
#include "tool/fetch.h"

#include <curl/curl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

#define CONNECT_MS 15000L
#define HEADER_MAX ((size_t)256 << 10) /* of one answer, all together */

struct qp__fetcher {
  uv_loop_t *loop;
  CURLM *multi;
  uv_timer_t timer; /* libcurl's */
  uv_timer_t sweep;
  struct qp__fetch *fetches;
  struct watch *watches;
  size_t handles; /* of libuv that have not been closed */
  bool closing;
  void (*closed)(void *arg);
  void *closed_arg;
};

struct qp__fetch {
  struct qp__fetcher *fetcher;
  struct qp__fetch *next;
  CURL *easy;
  struct curl_slist *headers;
  char *body;
  size_t header_bytes;
  bool added; /* to the multi handle */
  bool cancelled;
  bool has_status;
  struct qp__fetch_spec spec; /* the hooks; the rest is not valid any more */
  char error[CURL_ERROR_SIZE];
};

struct watch {
  uv_poll_t poll;
  struct watch *next;
  struct qp__fetcher *fetcher;
  curl_socket_t socket;
};

/* ---- the end of fetches ---- */

static void
free_fetch(struct qp__fetch *fetch)
{
  struct qp__fetch **at = &fetch->fetcher->fetches;

  while (*at && *at != fetch)
    at = &(*at)->next;
  if (*at)
    *at = fetch->next;
  if (fetch->added)
    (void)curl_multi_remove_handle(fetch->fetcher->multi, fetch->easy);
  curl_easy_cleanup(fetch->easy);
  curl_slist_free_all(fetch->headers);
  qp__free(fetch->body);
  qp__free(fetch);
}

/* Fetches that libcurl has finished. */
static void
take_finished(struct qp__fetcher *fetcher)
{
  CURLMsg *message;
  int left;

  while ((message = curl_multi_info_read(fetcher->multi, &left))) {
    struct qp__fetch *fetch = NULL;
    void (*end)(void *arg, const char *why);
    char why[CURL_ERROR_SIZE + 64];
    CURLcode code = message->data.result;
    void *arg;
    bool cancelled;

    if (message->msg != CURLMSG_DONE)
      continue;
    (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&fetch);
    cancelled = fetch->cancelled;
    end = fetch->spec.end;
    arg = fetch->spec.arg;
    (void)snprintf(why, sizeof(why), "%s",
                   fetch->error[0] ? fetch->error : curl_easy_strerror(code));
    free_fetch(fetch);
    if (!cancelled)
      end(arg, code == CURLE_OK ? NULL : why);
  }
}

static void
add_fetch(struct qp__fetch *fetch)
{
  void (*end)(void *arg, const char *why) = fetch->spec.end;
  void *arg = fetch->spec.arg;

  fetch->added = curl_multi_add_handle(fetch->fetcher->multi, fetch->easy) == CURLM_OK;
  if (fetch->added)
    return;
  free_fetch(fetch);
  end(arg, "out of memory");
}

/* The first that has to be added or freed; NULL: none. */
static struct qp__fetch *
find_work(const struct qp__fetcher *fetcher)
{
  struct qp__fetch *fetch = fetcher->fetches;

  while (fetch && fetch->added && !fetch->cancelled)
    fetch = fetch->next;
  return fetch;
}

static void
on_sweep(uv_timer_t *timer)
{
  struct qp__fetcher *fetcher = timer->data;
  struct qp__fetch *fetch;

  while ((fetch = find_work(fetcher))) {
    if (fetch->cancelled)
      free_fetch(fetch);
    else
      add_fetch(fetch);
  }
  take_finished(fetcher);
}

void
qp__fetch_cancel(struct qp__fetch *fetch)
{
  fetch->cancelled = true;
  if (!fetch->fetcher->closing)
    (void)uv_timer_start(&fetch->fetcher->sweep, on_sweep, 0, 0);
}

/* ---- between libcurl and libuv ---- */

static void
finish_close(struct qp__fetcher *fetcher)
{
  void (*closed)(void *arg) = fetcher->closed;
  void *arg = fetcher->closed_arg;

  qp__free(fetcher);
  if (closed)
    closed(arg);
}

static void
on_handle_closed(struct qp__fetcher *fetcher)
{
  if (--fetcher->handles == 0)
    finish_close(fetcher);
}

static void
on_watch_closed(uv_handle_t *handle)
{
  struct watch *watch = handle->data;
  struct qp__fetcher *fetcher = watch->fetcher;

  qp__free(watch);
  on_handle_closed(fetcher);
}

static void
stop_watch(struct watch *watch)
{
  struct watch **at = &watch->fetcher->watches;

  while (*at != watch)
    at = &(*at)->next;
  *at = watch->next;
  uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
}

static void
on_timer_closed(uv_handle_t *handle)
{
  on_handle_closed(handle->data);
}

static void
on_ready(uv_poll_t *poll, int status, int events)
{
  struct watch *watch = poll->data;
  struct qp__fetcher *fetcher = watch->fetcher;
  int flags =
      (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
  int running;

  if (status < 0)
    flags = CURL_CSELECT_IN | CURL_CSELECT_OUT; /* libcurl finds out what is wrong */
  (void)curl_multi_socket_action(fetcher->multi, watch->socket, flags, &running);
  take_finished(fetcher);
}

static int
on_socket(CURL *easy, curl_socket_t socket, int what, void *arg, void *socket_arg)
{
  struct qp__fetcher *fetcher = arg;
  struct watch *watch = socket_arg;
  int events = (what != CURL_POLL_OUT ? UV_READABLE : 0) | (what != CURL_POLL_IN ? UV_WRITABLE : 0);

  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    if (watch)
      stop_watch(watch);
    (void)curl_multi_assign(fetcher->multi, socket, NULL);
    return 0;
  }
  if (!watch) {
    watch = qp__alloc0(1, sizeof(*watch));
    if (!watch)
      return -1;
    if (uv_poll_init_socket(fetcher->loop, &watch->poll, socket) < 0) {
      qp__free(watch);
      return -1;
    }
    watch->fetcher = fetcher;
    watch->socket = socket;
    watch->poll.data = watch;
    watch->next = fetcher->watches;
    fetcher->watches = watch;
    fetcher->handles++;
    (void)curl_multi_assign(fetcher->multi, socket, watch);
  }
  return uv_poll_start(&watch->poll, events, on_ready) < 0 ? -1 : 0;
}

static void
on_timer(uv_timer_t *timer)
{
  struct qp__fetcher *fetcher = timer->data;
  int running;

  (void)curl_multi_socket_action(fetcher->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  take_finished(fetcher);
}

static int
on_timeout(CURLM *multi, long ms, void *arg)
{
  struct qp__fetcher *fetcher = arg;

  (void)multi;
  if (fetcher->closing || ms < 0)
    (void)uv_timer_stop(&fetcher->timer);
  else
    (void)uv_timer_start(&fetcher->timer, on_timer, (uint64_t)ms, 0);
  return 0;
}

/* ---- opening and closing ---- */

enum qp_rc
qp__fetcher_open(uv_loop_t *loop, struct qp__fetcher **out, struct qp_err *err)
{
  struct qp__fetcher *fetcher;

  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return qp__fail(err, QP_IO, "libcurl cannot be used");
  fetcher = qp__alloc0(1, sizeof(*fetcher));
  if (!fetcher)
    return qp__fail_nomem(err, "HTTP requests");
  fetcher->loop = loop;
  fetcher->multi = curl_multi_init();
  if (!fetcher->multi) {
    qp__free(fetcher);
    return qp__fail_nomem(err, "HTTP requests");
  }
  (void)curl_multi_setopt(fetcher->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  (void)curl_multi_setopt(fetcher->multi, CURLMOPT_SOCKETDATA, fetcher);
  (void)curl_multi_setopt(fetcher->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
  (void)curl_multi_setopt(fetcher->multi, CURLMOPT_TIMERDATA, fetcher);
  (void)uv_timer_init(loop, &fetcher->timer);
  (void)uv_timer_init(loop, &fetcher->sweep);
  fetcher->timer.data = fetcher;
  fetcher->sweep.data = fetcher;
  fetcher->handles = 2;
  *out = fetcher;
  return QP_OK;
}

static void
close_now(uv_timer_t *timer)
{
  struct qp__fetcher *fetcher = timer->data;

  while (fetcher->fetches)
    free_fetch(fetcher->fetches);
  (void)curl_multi_cleanup(fetcher->multi);
  while (fetcher->watches)
    stop_watch(fetcher->watches);
  uv_close((uv_handle_t *)&fetcher->timer, on_timer_closed);
  uv_close((uv_handle_t *)&fetcher->sweep, on_timer_closed);
}

void
qp__fetcher_close(struct qp__fetcher *fetcher, void (*closed)(void *arg), void *arg)
{
  fetcher->closing = true;
  fetcher->closed = closed;
  fetcher->closed_arg = arg;
  for (struct qp__fetch *fetch = fetcher->fetches; fetch; fetch = fetch->next)
    fetch->cancelled = true;
  (void)uv_timer_start(&fetcher->sweep, close_now, 0, 0);
}

/* ---- a fetch ---- */

static void
tell_status(struct qp__fetch *fetch)
{
  long status = 0;

  if (fetch->has_status)
    return;
  (void)curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
  fetch->has_status = true;
  fetch->spec.status(fetch->spec.arg, (int)status);
}

static size_t
on_data(char *data, size_t size, size_t count, void *arg)
{
  struct qp__fetch *fetch = arg;
  size_t n = size * count;

  if (!fetch->cancelled)
    tell_status(fetch);
  if (!fetch->cancelled)
    fetch->spec.data(fetch->spec.arg, data, n);
  return fetch->cancelled ? 0 : n;
}

static size_t
on_header(char *data, size_t size, size_t count, void *arg)
{
  struct qp__fetch *fetch = arg;
  size_t n = size * count;
  const char *colon = memchr(data, ':', n);
  struct qp_bytes name = { data, colon ? (size_t)(colon - data) : 0 };
  struct qp_bytes value = { NULL, 0 };
  long status = 0;

  fetch->header_bytes += n;
  if (fetch->cancelled || fetch->header_bytes > HEADER_MAX)
    return 0;
  (void)curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
  if (colon && fetch->spec.header && status >= 200) {
    value.data = colon + 1;
    value.len = n - name.len - 1;
    while (value.len > 0 && (*value.data == ' ' || *value.data == '\t')) {
      value.data++;
      value.len--;
    }
    while (value.len > 0 && strchr("\r\n \t", value.data[value.len - 1]))
      value.len--;
    fetch->spec.header(fetch->spec.arg, name, value);
  } else if (!colon && n <= 2 && status >= 200) { /* the empty line behind the headers */
    tell_status(fetch);
  }
  return fetch->cancelled ? 0 : n;
}

static bool
add_header(struct qp__fetch *fetch, const char *line)
{
  struct curl_slist *more = curl_slist_append(fetch->headers, line);

  if (more)
    fetch->headers = more;
  return more != NULL;
}

static bool
set_options(struct qp__fetch *fetch, const struct qp__fetch_spec *spec)
{
  CURL *easy = fetch->easy;
  bool post = strcmp(spec->method, "POST") == 0;
  bool bad = false;

  bad |= curl_easy_setopt(easy, CURLOPT_URL, spec->url) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_PRIVATE, fetch) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fetch->error) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fetch->headers) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)spec->timeout_ms) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
  bad |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, fetch) != CURLE_OK;
  if (post) {
    bad |= curl_easy_setopt(easy, CURLOPT_POST, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, fetch->body) != CURLE_OK;
    bad |=
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)spec->body.len) != CURLE_OK;
  } else if (strcmp(spec->method, "GET") != 0) {
    bad |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, spec->method) != CURLE_OK;
  }
  return !bad;
}

enum qp_rc
qp__fetch_start(struct qp__fetcher *fetcher, const struct qp__fetch_spec *spec,
                struct qp__fetch **out, struct qp_err *err)
{
  struct qp__fetch *fetch;
  bool good;

  if (fetcher->closing)
    return qp__fail(err, QP_MISUSE, "HTTP requests are being closed");
  fetch = qp__alloc0(1, sizeof(*fetch));
  if (!fetch)
    return qp__fail_nomem(err, "an HTTP request");
  fetch->fetcher = fetcher;
  fetch->spec = *spec;
  fetch->easy = curl_easy_init();
  fetch->body = qp__alloc(spec->body.len + 1);
  good = fetch->easy && fetch->body && add_header(fetch, "Expect:");
  if (good && spec->body.len > 0)
    memcpy(fetch->body, spec->body.data, spec->body.len);
  for (size_t i = 0; i < spec->header_count && good; i++)
    good = add_header(fetch, spec->headers[i]);
  good = good && set_options(fetch, spec);
  if (!good) {
    free_fetch(fetch);
    return qp__fail_nomem(err, "an HTTP request");
  }
  fetch->next = fetcher->fetches;
  fetcher->fetches = fetch;
  (void)uv_timer_start(&fetcher->sweep, on_sweep, 0, 0);
  *out = fetch;
  return QP_OK;
}

/* connection.c - see connection.h. The threads of the server change the list, the sweeping thread
 * reads it. The socket of a listed connection is open, because libmicrohttpd closes it after its
 * last notification. */
#include "http/connection.h"

#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/list.h"
#include "http/clock.h"
#include "http/framing.h"
#include "http/http_int.h"

struct qp__connection {
  struct qp__connection *next, *prev;
  struct qp__http *http;
  struct MHD_Connection *mhd; /* used only by its own thread */
  int fd;
  enum qp__peer peer;
  atomic_int phase;
  atomic_llong since_us;
  _Atomic(const char *)
      thread;          /* the thread that reads its requests: the address of that thread's `mine` */
  atomic_bool chunked; /* the current body, if any */
};

static _Thread_local char mine; /* only its address is used */

void
qp__connections_init(struct qp__connections *all)
{
  all->first = NULL;
  (void)pthread_mutex_init(&all->lock, NULL); /* cannot fail on Linux */
}

void
qp__connections_release(struct qp__connections *all)
{
  (void)pthread_mutex_destroy(&all->lock);
}

static struct qp__connection *
find(struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

  return info ? info->socket_context : NULL;
}

void
qp__connection_phase(struct MHD_Connection *connection, enum qp__phase phase)
{
  struct qp__connection *c = find(connection);

  if (!c)
    return;
  if (phase == QP__PHASE_HEADER) /* libmicrohttpd may free the header now: it is not used */
    atomic_store_explicit(&c->thread, NULL, memory_order_relaxed);
  atomic_store_explicit(&c->since_us, qp__clock_us(), memory_order_relaxed);
  atomic_store_explicit(&c->phase, (int)phase, memory_order_release);
}

void
qp__connection_line(struct MHD_Connection *connection)
{
  struct qp__connection *c = find(connection);

  if (c)
    atomic_store_explicit(&c->thread, &mine, memory_order_relaxed);
}

void
qp__connection_chunked(struct MHD_Connection *connection, bool chunked)
{
  struct qp__connection *c = find(connection);

  if (c)
    atomic_store_explicit(&c->chunked, chunked, memory_order_relaxed);
}

const struct qp__settings *
qp__connection_settings(struct MHD_Connection *connection)
{
  struct qp__connection *c = find(connection);

  return c ? qp__http_settings(c->http) : NULL;
}

enum qp__peer
qp__connection_peer(struct MHD_Connection *connection)
{
  struct qp__connection *c = find(connection);
  const union MHD_ConnectionInfo *info =
      c ? NULL : MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

  if (c)
    return c->peer;
  return info ? qp__peer_of(info->connect_fd) : QP__PEER_OTHER;
}

/* ---- begin and end ---- */

/* If memory runs out, the connection works without being watched. */
static struct qp__connection *
begin(struct qp__http *http, struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  unsigned timeout_s = qp__http_settings(http)->timeout_s;
  struct qp__connection *c = info ? qp__alloc0(1, sizeof(*c)) : NULL;

  if (timeout_s != http->timeout_s) /* changed by a reload */
    (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, timeout_s);
  if (!c)
    return NULL;
  c->http = http;
  c->mhd = connection;
  c->fd = info->connect_fd;
  c->peer = qp__peer_of(c->fd);
  if (http->main.inside && c->peer != QP__PEER_SELF)
    (void)shutdown(c->fd, SHUT_RDWR);
  atomic_init(&c->phase, QP__PHASE_HEADER);
  atomic_init(&c->since_us, qp__clock_us());
  (void)pthread_mutex_lock(&http->connections.lock);
  qp__list_push(http->connections.first, prev, next, c);
  (void)pthread_mutex_unlock(&http->connections.lock);
  return c;
}

static void
end(struct qp__http *http, struct qp__connection *c)
{
  (void)pthread_mutex_lock(&http->connections.lock);
  qp__list_remove(http->connections.first, prev, next, c);
  (void)pthread_mutex_unlock(&http->connections.lock);
  qp__free(c);
}

void
qp__connection_notify(void *cls, struct MHD_Connection *connection, void **context,
                      enum MHD_ConnectionNotificationCode what)
{
  struct qp__http *http = cls;

  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    (void)atomic_fetch_add_explicit(&http->metrics.connections, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&http->metrics.open, 1, memory_order_relaxed);
    *context = begin(http, connection);
  } else {
    (void)atomic_fetch_sub_explicit(&http->metrics.open, 1, memory_order_relaxed);
    if (*context)
      end(http, *context);
    *context = NULL;
  }
}

/* ---- sweeping ---- */

static bool
is_over(struct qp__connection *c, const struct qp__settings *settings, int64_t now)
{
  int phase = atomic_load_explicit(&c->phase, memory_order_acquire);
  unsigned limit_s =
      phase == QP__PHASE_HEADER ? settings->header_timeout_s : settings->body_timeout_s;

  return phase != QP__PHASE_ANSWER &&
         now - atomic_load_explicit(&c->since_us, memory_order_relaxed) >
             (int64_t)limit_s * 1000000;
}

/* The thread that has the connection detects the end and closes it. */
void
qp__connections_sweep(struct qp__http *http)
{
  const struct qp__settings *settings = qp__http_settings(http);
  int64_t now = qp__clock_us();

  (void)pthread_mutex_lock(&http->connections.lock);
  for (struct qp__connection *c = http->connections.first; c; c = c->next)
    if (is_over(c, settings, now)) {
      (void)shutdown(c->fd, SHUT_RDWR);
      (void)atomic_fetch_add_explicit(&http->metrics.cut, 1, memory_order_relaxed);
      atomic_store(&c->phase, QP__PHASE_ANSWER); /* once is enough */
    }
  (void)pthread_mutex_unlock(&http->connections.lock);
}

/* ---- what libmicrohttpd would answer itself ---- */

/* The complete response to a request that is not read any further. */
static void
answer_invalid(struct qp__connection *c, const char *message)
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  char body[200];
  char text[700];
  int n = snprintf(body, sizeof(body), "{\"error\":{\"code\":\"INVALID\",\"message\":\"%s\"}}",
                   message);

  n = snprintf(text, sizeof(text),
               "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n"
#define HEADER(name, value) name ": " value "\r\n"
               QP__COMMON_HEADER_MAP(HEADER)
#undef HEADER
                   "Cache-Control: no-store\r\n"
                   "Content-Length: %d\r\n\r\n%s",
               n, body);
  /* If it cannot be sent at once, it is not sent: the client then gets no response, but no wrong
   * one. */
  if (info && info->tls_session)
    (void)gnutls_record_send(info->tls_session, text, (size_t)n);
  else
    (void)send(c->fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)shutdown(c->fd, SHUT_WR);
  atomic_store(&c->phase, QP__PHASE_ANSWER);
}

/* All connections of this thread that are receiving a header with a bad length: all of them get
 * this response. */
static void
refuse_lengths(struct qp__http *http)
{
  for (struct qp__connection *c = http->connections.first; c; c = c->next)
    if (atomic_load(&c->thread) == &mine && atomic_load(&c->phase) == QP__PHASE_HEADER &&
        qp__framing_has_bad_length(c->mhd))
      answer_invalid(c, "the Content-Length must be a number");
}

/* The connection of this thread that receives a chunked body. If there are several, it is unknown
 * which one is meant, and libmicrohttpd answers. */
static void
refuse_chunks(struct qp__http *http)
{
  struct qp__connection *found = NULL;
  size_t count = 0;

  for (struct qp__connection *c = http->connections.first; c; c = c->next)
    if (atomic_load(&c->thread) == &mine && atomic_load(&c->phase) == QP__PHASE_BODY &&
        atomic_load(&c->chunked)) {
      found = c;
      count++;
    }
  if (count == 1)
    answer_invalid(found, "the chunks of the body are malformed, or an extension is too long");
}

void
qp__connections_refuse(struct qp__http *http, const char *line)
{
  bool chunks = strstr(line, "chunk") || strstr(line, "Internal server error");

  if (!chunks && !strstr(line, "Content-Length"))
    return;
  (void)pthread_mutex_lock(&http->connections.lock);
  if (chunks)
    refuse_chunks(http);
  else
    refuse_lengths(http);
  (void)pthread_mutex_unlock(&http->connections.lock);
}

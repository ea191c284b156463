/* server.c - the life of the server and of its requests, on libmicrohttpd.
 *
 * A few threads share the listening socket; each waits for its connections with epoll and runs
 * their handlers. A request passes these functions:
 *   begin_request   its first line was received: it is counted and gets its struct
 *   take_header     its header was received: framing, admission, route, size; errors are answered
 *                   before the body is read
 *   take_body       the body arrives in pieces, up to the limit
 *   run             the handler makes the response: at once, or in a worker while the connection
 *                   is suspended (work.h)
 *   end_request     the response is sent, or the connection is lost: logged, counted, freed
 *
 * Stopping: no new connections are accepted, running requests are answered with "Connection:
 * close", and when none is left, or after stop_timeout_s, the threads end. */
#include "http/server.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/access_log.h"
#include "http/admission.h"
#include "http/clock.h"
#include "http/engine_use.h"
#include "http/framing.h"
#include "http/http_int.h"
#include "http/key_log.h"
#include "http/listen.h"
#include "http/page.h"
#include "http/route.h"
#include "http/tls.h"
#include "http/upload.h"
#include "os/file.h"
#include "os/os.h"
#include "store/lease.h"

#define CONNECTIONS 16384
#define CONNECTIONS_MIN 8
#define KEPT_MIN 96
#define KEPT_MAX 256
#define DESCRIPTORS_COUNTED 65536
#define CONNECTIONS_ADDRESS 256
#define ANSWER_MEMORY \
  ((size_t)8 << 10) /* per connection, besides the header; cleared for each request */
#define DROPPED_MAX ((uint64_t)64 << 20)
#define THREADS_MAX 8
#define LOCAL_CONNECTIONS 256
#define LOCAL_THREADS 2 /* of a socket for this machine, or for this process */

/* ---- requests ---- */

static void *
begin_request(void *cls, const char *uri, struct MHD_Connection *connection)
{
  struct qp__http *http = cls;
  struct qp__request *r = qp__request_new(http, connection, uri);

  qp__connection_line(connection);
  if (!r)
    return NULL;
  (void)atomic_fetch_add(&http->active, 1);
  return r;
}

static void
end_request(void *cls, struct MHD_Connection *connection, void **con_cls,
            enum MHD_RequestTerminationCode why)
{
  struct qp__http *http = cls;
  struct qp__request *r = *con_cls;
  int64_t us;

  *con_cls = NULL;
  qp__connection_phase(connection, QP__PHASE_HEADER);
  if (!r)
    return;
  us = qp__clock_us() - r->started_us;
  if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK && r->stage != QP__STAGE_REPLIED)
    r->sent_status = 0;
  if (r->stage != QP__STAGE_LINE) {
    qp__metrics_count(&http->metrics, qp__route_number(r->route), r->sent_status, us);
    qp__access_log(r, us);
  }
  qp__stream_free(r->stream); /* it could not be sent */
  qp__quota_leave(r);
  qp__request_free(r);
  if (atomic_fetch_sub(&http->active, 1) == 1 && atomic_load(&http->stopping)) {
    (void)pthread_mutex_lock(&http->lock);
    (void)pthread_cond_signal(&http->quiet);
    (void)pthread_mutex_unlock(&http->lock);
  }
}

static bool
is_json_type(const char *type)
{
  size_t n = strcspn(type, "; \t");

  return n == strlen("application/json") && strncasecmp(type, "application/json", n) == 0;
}

static enum qp_rc
check_body(struct qp__request *r, const struct qp__framing *f, struct qp_err *err)
{
  const char *type = qp__request_header(r, "Content-Type");
  bool has_body = f->chunked || f->length > 0;
  bool takes_body = r->route && r->route->flags & QP__ROUTE_BODY;
  bool uploads = r->route && r->route->flags & QP__ROUTE_UPLOAD && !r->http->read_only;
  size_t limit = uploads ? r->settings->max_import : r->settings->max_body;

  if (has_body && !takes_body)
    return qp__fail(err, QP_INVALID, "%.20s does not accept a body here", r->method);
  if (f->length > limit)
    return qp__fail(err, QP_TOOBIG, "the body is over the limit of %zu bytes", limit);
  if (has_body && type && !is_json_type(type))
    return qp__request_fail(r, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", err,
                            "the body must be JSON, with Content-Type: application/json");
  return uploads && has_body ? qp__upload_begin(r, err) : QP_OK;
}

/* A caller without permission does not learn what else is wrong. */
static enum qp_rc
find_route(struct qp__request *r, struct qp_err *err)
{
  enum qp_rc rc = qp__route_find(r, err);
  struct qp_err denied = { QP_OK, "" };

  if (r->route && qp__guard_key(r, &denied)) {
    *err = denied;
    rc = denied.rc;
  }
  return rc;
}

static enum qp_rc
take_header(struct qp__request *r, const char *method, const char *version, struct qp_err *err)
{
  struct qp__framing framing;
  enum qp_rc rc;

  r->stage = QP__STAGE_BODY;
  qp__buf_init(&r->body, r->settings->max_body);
  r->method = qp__arena_strdup(&r->arena, method);
  if (!r->method) {
    r->method = "-";
    return qp__fail_nomem(err, "a request");
  }
  r->line -= strlen(method) + 1;
  rc = qp__framing_check(r, version, &framing, err);
  qp__connection_chunked(r->connection, framing.chunked);
  if (!rc)
    rc = qp__guard_check(r, err);
  if (!rc)
    rc = qp__request_decode(r, err);
  if (!rc)
    rc = find_route(r, err);
  if (!rc)
    rc = check_body(r, &framing, err);
  if (!rc || framing.chunked || framing.length || r->close) {
    r->close |= rc != QP_OK; /* its body is not read */
    return rc;
  }
  /* A response at this point would close the connection, which can be used for other requests. */
  r->outcome = *err;
  r->outcome.rc = rc;
  return QP_OK;
}

/* A response cannot be queued before the body is complete, so the rest is read and dropped, up to a
 * limit. */
static enum MHD_Result
take_body(struct qp__request *r, const char *data, size_t *size)
{
  if (!r->too_big && r->upload) {
    qp__upload_feed(r->upload, data, *size);
    r->too_big = qp__upload_failed(r->upload);
    r->close |= r->too_big;
  } else if (!r->too_big && qp__buf_add(&r->body, data, *size)) {
    r->too_big = true;
    if (r->body.rc == QP_TOOBIG)
      r->close = true;
  }
  if (r->too_big) {
    r->dropped += *size;
    if (r->dropped > DROPPED_MAX)
      return MHD_NO;
  }
  *size = 0;
  return MHD_YES;
}

/* Whether the whole request is valid; otherwise the error. */
static enum qp_rc
check_whole(const struct qp__request *r, struct qp_err *err)
{
  if (r->outcome.rc) {
    *err = r->outcome;
    return err->rc;
  }
  if (!r->too_big && r->route && r->route->scope >= QP__SCOPE_WRITE && r->http->read_only)
    return qp__fail(err, QP_READONLY, "this server only reads: it was started with --read-only");
  if (r->upload)
    return qp__upload_end(r->upload, err);
  if (!r->too_big)
    return QP_OK;
  return r->body.rc == QP_TOOBIG
             ? qp__fail(err, QP_TOOBIG, "the body is over the limit of %zu bytes",
                        r->settings->max_body)
             : qp__fail_nomem(err, "reading the body");
}

/* Runs a quick handler, or gives the request to a worker. */
static enum MHD_Result
run(struct qp__request *r, qp__handler *quick)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = QP_OK;

  r->then = NULL;
  if (quick)
    rc = quick(r, &err);
  if (!rc && (r->then || !quick)) {
    rc = qp__work_begin(r, &err);
    if (!rc)
      return MHD_YES; /* the request is not ours any more */
  }
  qp__held_put(r->held);
  r->held = NULL;
  return r->stage == QP__STAGE_REPLIED ? r->queued : qp__reply_send(r, rc, &err);
}

/* Sends the result of a worker. */
static enum MHD_Result
send_outcome(struct qp__request *r)
{
  struct qp__stream *stream = r->stream;
  struct qp_err err = r->outcome;
  enum qp_rc rc = err.rc;

  if (!rc && stream) {
    r->stream = NULL;
    rc = qp__stream_send(r, stream, &err);
    if (!rc)
      return r->queued;
  }
  return qp__reply_send(r, rc, &err);
}

static enum MHD_Result
handle(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
       const char *version, const char *data, size_t *size, void **con_cls)
{
  struct qp__request *r = *con_cls;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  (void)cls;
  (void)url;
  if (!r)
    return MHD_NO; /* out of memory */
  switch (r->stage) {
  case QP__STAGE_LINE:
    rc = take_header(r, method, version, &err);
    qp__connection_phase(connection, QP__PHASE_BODY);
    return rc ? qp__reply_send(r, rc, &err) : MHD_YES;
  case QP__STAGE_BODY:
    if (*size)
      return take_body(r, data, size);
    qp__connection_phase(connection, QP__PHASE_ANSWER);
    rc = check_whole(r, &err);
    if (rc || !r->route)
      return qp__reply_send(r, rc, &err);
    return run(r, r->route->flags & QP__ROUTE_QUICK ? r->route->handle : NULL);
  case QP__STAGE_BACK:
    return run(r, r->then);
  case QP__STAGE_DONE:
    return send_outcome(r);
  case QP__STAGE_AWAY:
  case QP__STAGE_REPLIED:
  default:
    *size = 0;
    return MHD_YES;
  }
}

/* ---- what libmicrohttpd says ---- */

static void QP_PRINTF(2, 0) pass_log(void *cls, const char *fmt, va_list args)
{
  struct qp__http *http = cls;
  char line[400];

  (void)vsnprintf(line, sizeof(line), fmt, args);
  line[strcspn(line, "\n")] = '\0';
  if (strstr(line, "<html>")) /* a response that it is about to send */
    qp__connections_refuse(http, line);
  http->log(http->log_arg, QP_LOG_DEBUG, "http", line);
}

/* ---- where it listens ---- */

static uint64_t
count_descriptors(uint64_t limit)
{
  uint64_t open = 0;

  for (uint64_t fd = 0; fd < limit && fd < DESCRIPTORS_COUNTED; fd++)
    open += fcntl((int)fd, F_GETFD) >= 0;
  return open;
}

/* Each connection is a descriptor. The usual limit of 1024 is a soft limit, so it is raised. Half
 * of the rest, at least KEPT_MIN and at most KEPT_MAX, is not for connections: the store, the tools
 * and the models need descriptors too, and idle clients must not stop writes. */
static unsigned
limit_connections(struct qp__http *http, unsigned wanted)
{
  struct rlimit limit;
  uint64_t open;
  uint64_t left;
  uint64_t kept;
  char line[160];

  if (getrlimit(RLIMIT_NOFILE, &limit))
    return wanted;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
  }
  open = count_descriptors(limit.rlim_cur);
  left = limit.rlim_cur > open ? limit.rlim_cur - open : 0;
  kept = left / 2 < KEPT_MIN ? KEPT_MIN : left / 2 > KEPT_MAX ? KEPT_MAX : left / 2;
  left = left < kept + CONNECTIONS_MIN ? CONNECTIONS_MIN : left - kept;
  if (left >= wanted)
    return wanted;
  (void)snprintf(
      line, sizeof(line),
      "at most %llu connections at once instead of %u, because the process may open only "
      "%llu files",
      (unsigned long long)left, wanted, (unsigned long long)limit.rlim_cur);
  http->log(http->log_arg, QP_LOG_INFO, "http", line);
  return (unsigned)left;
}

static unsigned
default_threads(void)
{
  long n = sysconf(_SC_NPROCESSORS_ONLN);

  return n < 2 ? 2 : n > THREADS_MAX ? THREADS_MAX : (unsigned)n;
}

static unsigned
address_limit(const struct qp__listener *l, const struct qp__http_options *o)
{
  if (o->connections_address)
    return o->connections_address;
  return l->exposed ? CONNECTIONS_ADDRESS : 0;
}

static enum qp_rc
start_daemon(struct qp__http *http, struct qp__listener *l, const struct qp__http_options *o,
             struct qp_err *err)
{
  const struct qp__settings *settings = qp__http_settings(http);
  bool few = l == &http->local || l->inside;
  unsigned threads = few ? LOCAL_THREADS : o->threads ? o->threads : default_threads();
  unsigned connections =
      few ? LOCAL_CONNECTIONS
          : limit_connections(http, o->connections ? o->connections : CONNECTIONS);
  unsigned tls = settings->tls && !qp__listener_is_unix(l) ? MHD_USE_TLS : 0;

  l->daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | tls, 0, NULL,
      NULL, handle, http, MHD_OPTION_EXTERNAL_LOGGER, pass_log, http, MHD_OPTION_LISTEN_SOCKET,
      l->fd, MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_CONNECTION_LIMIT, connections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, address_limit(l, o), MHD_OPTION_CONNECTION_TIMEOUT,
      http->timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, settings->max_header + ANSWER_MEMORY,
      MHD_OPTION_URI_LOG_CALLBACK, begin_request, http, MHD_OPTION_NOTIFY_COMPLETED, end_request,
      http, MHD_OPTION_NOTIFY_CONNECTION, qp__connection_notify, http,
      /* without TLS the list ends here */
      tls ? MHD_OPTION_HTTPS_CERT_CALLBACK2 : MHD_OPTION_END, qp__tls_retrieve,
      MHD_OPTION_HTTPS_PRIORITIES, QP__TLS_PRIORITIES, MHD_OPTION_END);
  if (!l->daemon)
    return qp__fail(err, QP_IO, "cannot start the threads of the server");
  return QP_OK;
}

static enum qp_rc
open_address(struct qp__http *http, const char *address, struct qp_err *err)
{
  bool tls = qp__http_settings(http)->tls != NULL;
  enum qp_rc rc = qp__listener_open(&http->main, address, tls, err);

  if (rc)
    return rc;
  if (qp__listener_is_unix(&http->main) && tls)
    return qp__fail(err, QP_INVALID, "tls_cert is for a TCP address, and not for '%.80s'", address);
  if (http->main.exposed && !qp__keys_any(http->keys))
    return qp__fail(err, QP_DENIED,
                    "'%.80s' can be reached from other machines, but there is no key; create one "
                    "with 'quipu key create', or listen on 127.0.0.1 or [::1]",
                    address);
  return QP_OK;
}

/* Opens the socket in the data directory, for programs on this machine. It is optional: if it
 * fails, the log says why. */
static void
open_data_socket(struct qp__http *http, const struct qp__http_options *o)
{
  struct qp_err err = { QP_OK, "" };
  char *address = o->data ? qp__strf(QP__LISTEN_UNIX "%s/" QP__SOCKET_NAME, o->data) : NULL;

  if (!address || o->read_only || qp__listener_is_unix(&http->main)) {
    qp__free(address);
    return;
  }
  if (qp__listener_open(&http->local, address, false, &err) ||
      start_daemon(http, &http->local, o, &err)) {
    http->log(http->log_arg, QP_LOG_WARN, "http", err.msg);
    qp__listener_release(&http->local);
  }
  qp__free(address);
}

/* ---- life ---- */

static void
log_nothing(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  (void)arg;
  (void)level;
  (void)feature;
  (void)text;
}

/* Initializes the parts that have their own locks. */
static void
init_parts(struct qp__http *http, const struct qp__http_options *o)
{
  qp__holds_init(&http->holds, o->store, o->read_only);
  qp__connections_init(&http->connections);
  qp__streams_init(&http->streams);
  qp__work_init(&http->work, o->workers, o->queue);
  qp__quotas_init(&http->quotas);
  qp__prefixes_init(&http->prefixes);
  qp__jobs_init(&http->jobs);
  qp__uuid_gen_init(&http->ids);
  (void)pthread_mutex_init(&http->probe.lock, NULL); /* they cannot fail on Linux */
  (void)pthread_mutex_init(&http->lock, NULL);
  qp__clock_cond_init(&http->quiet);
}

/* This server lost the contexts that it held: what clients follow is elsewhere now. */
static void
on_lost(void *arg)
{
  struct qp__http *http = arg;

  qp__streams_cut(&http->streams);
}

enum qp_rc
qp__http_start(const struct qp__http_options *options, struct qp__http **out, struct qp_err *err)
{
  struct qp__http *http = qp__alloc0(1, sizeof(*http));
  struct qp__settings *settings = NULL;
  enum qp_rc rc;

  if (!http)
    return qp__fail_nomem(err, "starting the server");
  init_parts(http, options);
  qp__listener_init(&http->main);
  qp__listener_init(&http->local);
  http->store = options->store;
  http->read_only = options->read_only;
  http->ui_dir = -1;
  http->log = options->log ? options->log : log_nothing;
  http->log_arg = options->log_arg;
  http->started_ms = qp__clock_wall_ms();
  rc = qp__settings_new(options, &settings, err);
  atomic_store(&http->settings, settings);
  if (!rc && options->data && !(http->data = qp__strdup(options->data)))
    rc = qp__fail_nomem(err, "starting the server");
  http->timeout_s = rc ? 0 : qp__http_settings(http)->timeout_s;
  if (!rc)
    rc = qp__key_log_new(&qp__os_posix, options->data, http->store, &http->key_log, err);
  if (!rc)
    rc = qp__keys_open(&qp__os_posix, options->data, http->log, http->log_arg, &http->keys, err);
  if (!rc)
    rc = qp__keys_share(http->keys, http->store, err);
  if (!rc && options->ui_dir)
    rc = qp__page_open_dir(options->ui_dir, &http->ui_dir, err);
  if (!rc)
    rc = open_address(http, options->listen, err);
  http->holds.shared = qp__lease_joined(http->store);
  if (!rc && http->holds.shared)
    rc = qp__forward_new(http, options->lease_ms, &http->forward, err);
  http->engine = rc ? NULL : options->engine;
  if (!rc)
    rc = start_daemon(http, &http->main, options, err);
  if (rc) {
    qp__http_stop(http);
    return rc;
  }
  open_data_socket(http, options);
  qp__lease_watch(http->store, QP__LEASE_SERVER,
                  &(struct qp__lease_watch){ .lost = on_lost, .arg = http });
  *out = http;
  return QP_OK;
}

const char *
qp__http_url(const struct qp__http *http)
{
  return http->main.url;
}

enum qp_rc
qp__http_reload(struct qp__http *http, const struct qp__http_options *options, struct qp_err *err)
{
  struct qp__settings *old = atomic_load(&http->settings);
  struct qp__settings *settings = NULL;
  enum qp_rc rc = qp__settings_new(options, &settings, err);

  if (rc)
    return rc;
  qp__turns_refresh(http);
  if (!settings->tls != !old->tls)
    rc = qp__fail(err, QP_INVALID, "restart the server to change between HTTP and HTTPS");
  if (rc || qp__settings_equal(settings, old)) {
    qp__settings_free(settings);
    return rc;
  }
  settings->older = old;
  atomic_store(&http->settings, settings);
  (void)atomic_fetch_add(&http->holds.epoch,
                         1); /* cached responses have headers of the old settings */
  return QP_OK;
}

void
qp__http_tick(struct qp__http *http)
{
  qp__connections_sweep(http);
  qp__keys_tick(http->keys);
  qp__quotas_tick(&http->quotas);
  qp__streams_tick(&http->streams, http->keys);
}

/* Waits for running requests; then longer turns are interrupted, which answers the requests that
 * wait for them. */
static void
wait_until_quiet(struct qp__http *http)
{
  const struct timespec deadline = qp__clock_after(qp__http_settings(http)->stop_timeout_s);

  (void)pthread_mutex_lock(&http->lock);
  while (atomic_load(&http->active) &&
         pthread_cond_timedwait(&http->quiet, &http->lock, &deadline) == 0)
    continue;
  (void)pthread_mutex_unlock(&http->lock);
  qp__turns_stop(http);
  qp__forward_stop(http->forward);
  (void)pthread_mutex_lock(&http->lock);
  while (http->waiting) /* their connections must stay; what they wait for ends by itself */
    (void)pthread_cond_wait(&http->quiet, &http->lock);
  http->sealed = true;
  (void)pthread_mutex_unlock(&http->lock);
}

static void
stop_daemon(struct qp__listener *l)
{
  if (!l->daemon)
    return;
  MHD_stop_daemon(l->daemon);
  l->daemon = NULL;
  l->fd = -1; /* MHD_stop_daemon() closes it */
}

void
qp__http_stop(struct qp__http *http)
{
  if (!http)
    return;
  atomic_store(&http->stopping, true);
  if (http->main.daemon) {
    qp__listener_shut(&http->main);
    qp__listener_shut(&http->local);
    qp__jobs_cancel(&http->jobs);
    qp__streams_end(&http->streams); /* they would not end by themselves; clients reconnect */
    wait_until_quiet(http);
    qp__jobs_stop(&http->jobs);
    stop_daemon(&http->main);
    stop_daemon(&http->local);
  }
  qp__lease_watch(http->store, QP__LEASE_SERVER, NULL);
  qp__work_release(&http->work);
  qp__forward_free(http->forward);
  qp__listener_release(&http->main);
  qp__listener_release(&http->local);
  qp__settings_free(atomic_load(&http->settings));
  qp__connections_release(&http->connections);
  qp__streams_release(&http->streams);
  qp__quotas_release(&http->quotas);
  qp__prefixes_release(&http->prefixes);
  qp__jobs_release(&http->jobs);
  qp__free(http->data);
  qp__keys_close(http->keys);
  qp__key_log_free(http->key_log);
  qp__close(&qp__os_posix, http->ui_dir);
  qp__holds_release(&http->holds);
  qp__uuid_gen_release(&http->ids);
  (void)pthread_mutex_destroy(&http->probe.lock);
  (void)pthread_cond_destroy(&http->quiet);
  (void)pthread_mutex_destroy(&http->lock);
  qp__free(http);
}

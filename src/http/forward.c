/* forward.c - see forward.h. */
#include "http/forward.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/list.h"
#include "base/vec.h"
#include "http/clock.h"
#include "http/http_int.h"
#include "http/idempotency.h"
#include "net/client.h"
#include "store/lease.h"

#define CONNECT_MS 2000
#define AGAIN_MS 100     /* until the next look after a failure */
#define PATIENCE_MS 2000 /* more than a lease lasts */
#define CHECK_MS 1000    /* between two looks whether the holders are alive */
#define SERVERS_MAX 64
#define KNOWN_MAX 4096
#define TAIL_MAX ((size_t)4 << 20)
#define LOST                                                                                 \
  "the server that holds the context stopped before it answered; the request may have been " \
  "carried out: look before you repeat it"

/* One request, or its stream. It belongs to the thread of the loop, except what the lock guards. */
struct job {
  struct job *next, *prev; /* in `jobs`; next also in `incoming` */
  struct job *next_ended;
  struct qp__forward *forward;
  struct qp__request *request; /* NULL: it was given back */
  struct qp__net_request *net;
  struct qp_uuid id;
  char address[QP__ADDRESS_MAX]; /* "": the holder is not known */
  char **headers;                /* "Name: value" */
  size_t header_count, header_cap;
  bool safe; /* it may be sent twice */
  bool elsewhere, is_stream;
  unsigned status;
  struct qp__buf tail; /* of a stream: the beginning of an event */
  uv_timer_t *timer;   /* until it is tried again, or NULL */

  pthread_mutex_t lock;
  struct qp__stream *stream; /* NULL: there is none, or its client is gone */
};

/* A look whether the servers are alive to which requests were sent. */
struct check {
  uv_work_t work; /* first */
  struct qp__forward *forward;
  struct {
    char address[QP__ADDRESS_MAX];
    bool gone;
  } servers[SERVERS_MAX];
  size_t count;
};

struct qp__forward {
  struct qp__http *http;
  int64_t patience_us;
  pthread_t thread;
  uv_loop_t loop;
  uv_async_t wake;
  uv_timer_t check_timer;
  struct qp__net_client *net;
  struct job *jobs;
  bool checking;
  atomic_ullong forwarded, repeated, lost;

  pthread_mutex_t lock; /* of what follows */
  struct job *incoming;
  struct job *ended; /* their streams are gone */
  bool stopping;     /* nothing is tried again, and jobs are ended … */
  bool closing;      /* … and the thread */
  struct known {
    struct qp_uuid id;
    char address[QP__ADDRESS_MAX]; /* "": unused */
  } known[KNOWN_MAX];
};

/* ---- where contexts are ---- */

static struct known *
slot_of(struct qp__forward *f, const struct qp_uuid *id)
{
  return &f->known[(id->b[15] | (size_t)id->b[14] << 8) % KNOWN_MAX];
}

/* `address` NULL: forgets it. */
static void
learn(struct qp__forward *f, const struct qp_uuid *id, const char *address)
{
  struct known *k = slot_of(f, id);

  (void)pthread_mutex_lock(&f->lock);
  if (address) {
    k->id = *id;
    (void)snprintf(k->address, sizeof(k->address), "%s", address);
  } else if (qp_uuid_equal(&k->id, id)) {
    k->address[0] = '\0';
  }
  (void)pthread_mutex_unlock(&f->lock);
}

static bool
recall(struct qp__forward *f, const struct qp_uuid *id, char address[QP__ADDRESS_MAX])
{
  const struct known *k = slot_of(f, id);
  bool found;

  (void)pthread_mutex_lock(&f->lock);
  found = k->address[0] && qp_uuid_equal(&k->id, id);
  if (found)
    memcpy(address, k->address, QP__ADDRESS_MAX);
  (void)pthread_mutex_unlock(&f->lock);
  return found;
}

bool
qp__forward_knows(struct qp__forward *f, const struct qp_uuid *id)
{
  char address[QP__ADDRESS_MAX];

  return f && recall(f, id, address);
}

/* ---- jobs ---- */

static void
free_job(struct job *j)
{
  for (size_t i = 0; i < j->header_count; i++) {
    explicit_bzero(j->headers[i], strlen(j->headers[i])); /* keys */
    qp__free(j->headers[i]);
  }
  qp__free(j->headers);
  qp__buf_release(&j->tail);
  (void)pthread_mutex_destroy(&j->lock);
  qp__free(j);
}

static void
remove_job(struct job *j)
{
  qp__list_remove(j->forward->jobs, prev, next, j);
  free_job(j);
}

/* In a worker, when the job has given the request back: its response is complete, or it failed, or
 * the route is run again, because this server may be able to open the context now. */
static enum qp_rc
go_on(struct qp__request *r, struct qp_err *err)
{
  bool again = r->forward_again;

  r->forward_again = false;
  if (!again) {
    *err = r->waited;
    return err->rc;
  }
  return qp__work_route(r, err);
}

/* Gives the request back to a worker. */
static void
give_back(struct job *j, enum qp_rc rc, const char *why)
{
  struct qp__request *r = j->request;
  struct qp_err err = { QP_OK, "" };

  j->request = NULL;
  if (rc)
    (void)qp__fail(&err, rc, "%s", why);
  qp__work_unpark(r, rc, &err);
}

static void
free_timer(uv_handle_t *handle)
{
  qp__free(handle);
}

static void
on_again(uv_timer_t *timer)
{
  struct job *j = timer->data;

  uv_close((uv_handle_t *)timer, free_timer);
  j->timer = NULL;
  (void)atomic_fetch_add(&j->forward->repeated, 1);
  j->request->forward_again = true;
  give_back(j, QP_OK, NULL);
  remove_job(j);
}

static bool
is_stopping(struct qp__forward *f)
{
  bool stopping;

  (void)pthread_mutex_lock(&f->lock);
  stopping = f->stopping;
  (void)pthread_mutex_unlock(&f->lock);
  return stopping;
}

/* The request was not carried out, or it may be sent twice. */
static void
try_again(struct job *j)
{
  struct qp__request *r = j->request;
  uv_timer_t *timer = qp__alloc0(1, sizeof(*timer));
  int64_t now = qp__clock_us();

  learn(j->forward, &j->id, NULL);
  if (!r->forward_until_us)
    r->forward_until_us = now + j->forward->patience_us;
  if (timer && now < r->forward_until_us && !is_stopping(j->forward)) {
    (void)uv_timer_init(&j->forward->loop, timer); /* cannot fail */
    timer->data = j;
    j->timer = timer;
    (void)uv_timer_start(timer, on_again, AGAIN_MS, 0);
    return;
  }
  qp__free(timer);
  give_back(j, QP_BUSY,
            "the server that holds the context cannot be reached; try again in a moment");
  remove_job(j);
}

/* The holder has not answered, or not completely. `sent`: it may have got the request. */
static void
end_badly(struct job *j, bool sent)
{
  struct qp__request *r = j->request;

  (void)atomic_fetch_add(&j->forward->lost, 1);
  if (!r) { /* the end of the stream removes the job */
    (void)pthread_mutex_lock(&j->lock);
    if (j->stream)
      qp__stream_cut(j->stream);
    (void)pthread_mutex_unlock(&j->lock);
    return;
  }
  r->reply.header_count = 0; /* nothing of a response is kept */
  r->reply.type = NULL;
  qp__buf_reset(&r->reply.body);
  if (!sent || j->safe) {
    try_again(j);
    return;
  }
  learn(j->forward, &j->id, NULL);
  give_back(j, QP_IO, LOST);
  remove_job(j);
}

/* ---- the response ---- */

static const char *const own_headers[] = {
  /* that reply.c or libmicrohttpd adds */
  "Connection",
  "Keep-Alive",
  "Transfer-Encoding",
  "Content-Length",
  "Date",
  "Server",
  "Vary",
  "X-Accel-Buffering",
  "x-request-id",
  "request-id",
  QP__ELSEWHERE,
#define NAME(name, value) name,
  QP__COMMON_HEADER_MAP(NAME)
#undef NAME
      NULL,
};

static bool
is_own(struct qp_bytes name)
{
  for (size_t i = 0; own_headers[i]; i++)
    if (qp__net_is_header(name, own_headers[i]))
      return true;
  return name.len >= 15 && strncasecmp(name.data, "Access-Control-", 15) == 0;
}

static void
on_status(void *arg, int status)
{
  struct job *j = arg;

  j->status = (unsigned)status;
}

static void
on_header(void *arg, struct qp_bytes name, struct qp_bytes value)
{
  struct job *j = arg;
  struct qp__request *r = j->request;
  char *copy;
  char *label;

  if (!r)
    return;
  j->elsewhere |= qp__net_is_header(name, QP__ELSEWHERE);
  copy = qp__arena_strndup(&r->arena, value.data, value.len);
  if (copy && qp__net_is_header(name, "Content-Type")) {
    r->reply.type = copy;
    j->is_stream = qp__net_is_type(value, "text/event-stream");
  } else if (copy && !is_own(name) && (label = qp__arena_strndup(&r->arena, name.data, name.len))) {
    qp__reply_header(r, label, copy);
  }
}

/* The client of the stream is gone, or was sent everything. In the thread of its connection. */
static void
end_stream(void *arg)
{
  struct job *j = arg;
  struct qp__forward *f = j->forward;

  (void)pthread_mutex_lock(&j->lock);
  j->stream = NULL;
  (void)pthread_mutex_unlock(&j->lock);
  (void)pthread_mutex_lock(&f->lock);
  j->next_ended = f->ended;
  f->ended = j;
  (void)uv_async_send(&f->wake);
  (void)pthread_mutex_unlock(&f->lock);
}

/* The first piece of an event stream: it becomes the response. */
static bool
open_stream(struct job *j)
{
  struct qp__request *r = j->request;
  struct qp_err err = { QP_OK, "" };

  r->reply.status = j->status;
  if (qp__stream_open(r, end_stream, j, &j->stream, &err))
    return false;
  r->stream = j->stream;
  give_back(j, QP_OK, NULL);
  return true;
}

/* Passes whole events on: a comment of this server may come between two of them. */
static void
pass_events(struct job *j)
{
  struct qp__buf *tail = &j->tail;
  size_t n = tail->len;

  while (n > 1 && !(tail->data[n - 1] == '\n' && tail->data[n - 2] == '\n'))
    n--;
  if (n < 2)
    return;
  (void)pthread_mutex_lock(&j->lock);
  if (j->stream)
    qp__stream_write(j->stream, (struct qp_bytes){ tail->data, n });
  (void)pthread_mutex_unlock(&j->lock);
  memmove(tail->data, tail->data + n, tail->len - n);
  tail->len -= n;
}

static enum qp__net_next
on_data(void *arg, struct qp_bytes data)
{
  struct job *j = arg;

  if (!j->is_stream)
    return qp__buf_add(&j->request->reply.body, data.data, data.len) ? QP__NET_STOP : QP__NET_MORE;
  if ((j->request && !open_stream(j)) || qp__buf_add(&j->tail, data.data, data.len))
    return QP__NET_STOP;
  pass_events(j);
  return QP__NET_MORE;
}

static void
on_end(void *arg, enum qp__net_outcome outcome, const char *why)
{
  struct job *j = arg;

  (void)why;
  j->net = NULL;
  if (outcome != QP__NET_DONE || j->elsewhere) {
    end_badly(j, outcome != QP__NET_UNSENT && !j->elsewhere);
    return;
  }
  if (j->request) {
    j->request->reply.status = j->status;
    give_back(j, QP_OK, NULL);
    remove_job(j);
    return;
  }
  (void)pthread_mutex_lock(&j->lock);
  if (j->stream)
    qp__stream_close(j->stream);
  (void)pthread_mutex_unlock(&j->lock);
}

/* ---- sending ---- */

static void
start(struct job *j)
{
  struct qp__request *r = j->request;
  bool local = strncmp(j->address, QP__LISTEN_UNIX, strlen(QP__LISTEN_UNIX)) == 0;
  char *url = qp__strf("%s%s%s%s", local ? "http://localhost" : j->address, r->path,
                       r->query_text ? "?" : "", r->query_text ? r->query_text : "");
  struct qp__net_spec spec = {
    .method = strcmp(r->method, "HEAD") == 0 ? "GET" : r->method, /* its body is not sent */
    .url = url,
    .socket = local ? j->address + strlen(QP__LISTEN_UNIX) : NULL,
    .headers = (const char *const *)j->headers,
    .header_count = j->header_count,
    .body = qp__buf_bytes(&r->body),
    .connect_ms = CONNECT_MS,
    .peer = true,
    .once = !j->safe,
    .hooks = { .status = on_status, .header = on_header, .data = on_data, .end = on_end },
    .arg = j,
  };
  struct qp_err err;

  if (!j->address[0])
    try_again(j);
  else if (!url || qp__net_start(j->forward->net, &spec, &j->net, &err))
    end_badly(j, false);
  qp__free(url);
}

/* ---- holders that are gone ---- */

static void
look_at_servers(uv_work_t *work)
{
  struct check *c = (struct check *)work;
  struct qp_err err;

  for (size_t i = 0; i < c->count; i++) {
    bool alive = true;

    if (!qp__lease_alive(c->forward->http->store, c->servers[i].address, &alive, &err))
      c->servers[i].gone = !alive;
  }
}

static void
on_looked(uv_work_t *work, int status)
{
  struct check *c = (struct check *)work;
  struct qp__forward *f = c->forward;

  f->checking = false;
  for (size_t i = 0; i < c->count && !status; i++)
    for (struct job *j = f->jobs, *next; j && c->servers[i].gone; j = next) {
      next = j->next;
      if (!j->net || strcmp(j->address, c->servers[i].address) != 0)
        continue;
      qp__net_cancel(j->net);
      j->net = NULL;
      end_badly(j, true);
    }
  qp__free(c);
}

static void
add_server(struct check *c, const char *address)
{
  for (size_t i = 0; i < c->count; i++)
    if (strcmp(c->servers[i].address, address) == 0)
      return;
  if (c->count < SERVERS_MAX)
    memcpy(c->servers[c->count++].address, address, QP__ADDRESS_MAX);
}

/* A server that was cut off or stopped keeps its connections. */
static void
on_check(uv_timer_t *timer)
{
  struct qp__forward *f = timer->data;
  struct check *c = f->checking || !f->jobs ? NULL : qp__alloc0(1, sizeof(*c));

  if (!c)
    return;
  c->forward = f;
  for (struct job *j = f->jobs; j; j = j->next)
    if (j->net)
      add_server(c, j->address);
  if (c->count && uv_queue_work(&f->loop, &c->work, look_at_servers, on_looked) == 0)
    f->checking = true;
  else
    qp__free(c);
}

/* ---- the thread ---- */

static void
end_jobs(struct qp__forward *f)
{
  for (struct job *j = f->jobs, *next; j; j = next) {
    next = j->next;
    if (j->net)
      qp__net_cancel(j->net);
    j->net = NULL;
    if (j->timer)
      on_again(j->timer); /* it finds that the server is stopping */
    else if (j->request)
      end_badly(j, true); /* streams are ended by qp__streams_end() */
  }
}

static void
on_wake(uv_async_t *wake)
{
  struct qp__forward *f = wake->data;
  struct job *incoming;
  struct job *ended;
  bool stopping;
  bool closing;

  (void)pthread_mutex_lock(&f->lock);
  incoming = f->incoming;
  ended = f->ended;
  f->incoming = f->ended = NULL;
  stopping = f->stopping;
  closing = f->closing;
  (void)pthread_mutex_unlock(&f->lock);
  while (incoming) {
    struct job *next = incoming->next;

    qp__list_push(f->jobs, prev, next, incoming);
    start(incoming);
    incoming = next;
  }
  while (ended) {
    struct job *next = ended->next_ended;

    if (ended->net)
      qp__net_cancel(ended->net);
    remove_job(ended);
    ended = next;
  }
  if (stopping)
    end_jobs(f);
  if (!closing)
    return;
  qp__net_unref(f->net);
  f->net = NULL;
  uv_close((uv_handle_t *)&f->check_timer, NULL);
  uv_close((uv_handle_t *)&f->wake, NULL);
}

static void *
run(void *arg)
{
  struct qp__forward *f = arg;

  (void)uv_run(&f->loop, UV_RUN_DEFAULT);
  return NULL;
}

static enum qp_rc
init_loop(struct qp__forward *f, struct qp_err *err)
{
  enum qp_rc rc;

  if (uv_loop_init(&f->loop))
    return qp__fail_nomem(err, "starting the server");
  f->wake.data = f->check_timer.data = f;
  (void)uv_timer_init(&f->loop, &f->check_timer); /* cannot fail */
  rc = uv_async_init(&f->loop, &f->wake, on_wake) ? qp__fail_nomem(err, "starting the server")
                                                  : qp__net_open(&f->loop, &f->net, err);
  if (!rc)
    (void)uv_timer_start(&f->check_timer, on_check, CHECK_MS, CHECK_MS);
  if (!rc && pthread_create(&f->thread, NULL, run, f))
    rc = qp__fail(err, QP_NOMEM, "cannot start a thread that forwards requests");
  if (!rc)
    return QP_OK;
  qp__net_unref(f->net);
  uv_close((uv_handle_t *)&f->check_timer, NULL);
  if (f->wake.loop)
    uv_close((uv_handle_t *)&f->wake, NULL);
  (void)uv_run(&f->loop, UV_RUN_DEFAULT);
  (void)uv_loop_close(&f->loop);
  return rc;
}

enum qp_rc
qp__forward_new(struct qp__http *http, int64_t lease_ms, struct qp__forward **out,
                struct qp_err *err)
{
  struct qp__forward *f = qp__alloc0(1, sizeof(*f));
  enum qp_rc rc;

  if (!f)
    return qp__fail_nomem(err, "starting the server");
  f->http = http;
  f->patience_us = (lease_ms + PATIENCE_MS) * 1000;
  (void)pthread_mutex_init(&f->lock, NULL); /* cannot fail on Linux */
  rc = init_loop(f, err);
  if (rc) {
    (void)pthread_mutex_destroy(&f->lock);
    qp__free(f);
    return rc;
  }
  *out = f;
  return QP_OK;
}

static void
tell(struct qp__forward *f, bool closing)
{
  (void)pthread_mutex_lock(&f->lock);
  f->stopping = true;
  f->closing = closing;
  (void)uv_async_send(&f->wake);
  (void)pthread_mutex_unlock(&f->lock);
}

void
qp__forward_stop(struct qp__forward *f)
{
  if (f)
    tell(f, false);
}

void
qp__forward_free(struct qp__forward *f)
{
  if (!f)
    return;
  tell(f, true);
  (void)pthread_join(f->thread, NULL);
  (void)uv_loop_close(&f->loop);
  (void)pthread_mutex_destroy(&f->lock);
  qp__free(f);
}

/* ---- from workers ---- */

bool
qp__is_forwarded(const struct qp__request *r)
{
  return qp__request_header(r, QP__FORWARDED) != NULL;
}

/* Headers of one connection, and those that are checked here and not there: the origin of a page,
 * and the name of this server. */
static const char *const kept_back[] = {
  "Connection",     "Keep-Alive", "Transfer-Encoding",
  "Content-Length", "TE",         "Trailer",
  "Upgrade",        "Expect",     "Host",
  "Origin",         "Referer",    "Accept-Encoding",
  "Cookie",         "User-Agent", NULL,
};

static enum MHD_Result
copy_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
  struct job *j = cls;
  char *line;

  (void)kind;
  for (size_t i = 0; kept_back[i]; i++)
    if (strcasecmp(name, kept_back[i]) == 0)
      return MHD_YES;
  line = qp__strf(value && value[0] ? "%s: %s" : "%s;", name, value); /* as libcurl wants it */
  if (!line || !qp__vec_push(j->headers, j->header_count, j->header_cap, line)) {
    qp__free(line);
    j->status = MHD_HTTP_INTERNAL_SERVER_ERROR; /* no memory */
    return MHD_NO;
  }
  return MHD_YES;
}

static struct job *
new_job(struct qp__forward *f, struct qp__request *r)
{
  struct job *j = qp__alloc0(1, sizeof(*j));

  if (!j)
    return NULL;
  j->forward = f;
  j->request = r;
  j->id = r->elsewhere;
  /* Keys of actions are committed with the action, other keys are in the store (key_log.h). */
  j->safe = r->route->scope < QP__SCOPE_WRITE || strcmp(r->method, "GET") == 0 ||
            qp__request_header(r, "Idempotency-Key");
  (void)pthread_mutex_init(&j->lock, NULL); /* cannot fail on Linux */
  qp__buf_init(&j->tail, TAIL_MAX);
  (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, copy_header, j);
  (void)copy_header(j, MHD_HEADER_KIND, QP__FORWARDED, "1");
  if (!j->status)
    return j;
  free_job(j);
  return NULL;
}

/* Where the context is. False: this server cannot find out. */
static bool
find_holder(struct job *j)
{
  struct qp__lease_holder holder;
  struct qp_err err;

  if (recall(j->forward, &j->id, j->address))
    return true;
  if (qp__lease_holder(j->forward->http->store, &j->id, &holder, &err))
    return false;
  if (holder.held && holder.address[0]) {
    memcpy(j->address, holder.address, sizeof(j->address));
    learn(j->forward, &j->id, holder.address);
  }
  return true;
}

bool
qp__forward_begin(struct qp__request *r, enum qp_rc rc)
{
  struct qp__forward *f = r->http->forward;
  struct job *j;

  if (!f || rc != QP_BUSY || qp_uuid_is_none(&r->elsewhere))
    return false;
  if (qp__is_forwarded(r)) {
    qp__reply_header(r, QP__ELSEWHERE, "1");
    return false;
  }
  j = qp__http_stopping(r->http) ? NULL : new_job(f, r);
  if (!j)
    return false;
  if (!find_holder(j)) {
    free_job(j);
    return false;
  }
  qp__idempotency_end(r, rc); /* the key is free for the holder */
  memset(&r->elsewhere, 0, sizeof(r->elsewhere));
  (void)atomic_fetch_add(&f->forwarded, 1);
  qp__work_park(r, go_on, false);
  (void)pthread_mutex_lock(&f->lock);
  j->next = f->incoming;
  f->incoming = j;
  (void)uv_async_send(&f->wake);
  (void)pthread_mutex_unlock(&f->lock);
  return true;
}

void
qp__forward_stats_get(const struct qp__forward *f, struct qp__forward_stats *out)
{
  memset(out, 0, sizeof(*out));
  if (!f)
    return;
  out->forwarded = atomic_load(&f->forwarded);
  out->repeated = atomic_load(&f->repeated);
  out->lost = atomic_load(&f->lost);
}

/* stream.c - see stream.h. */
#include "http/stream.h"

#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "http/clock.h"
#include "http/engine_use.h"
#include "http/http_int.h"
#include "http/open_contexts.h"
#include "http/owner.h"

#define WAITING_MAX ((size_t)1 << 20) /* bytes that may wait for a slow client … */
#define BUFFER_MAX ((size_t)4 << 20)  /* … plus one event, which has at most 1 MiB */
#define KEEP_MAX ((size_t)4 << 10)    /* a larger empty buffer is freed */
#define BLOCK 512                     /* bytes that libmicrohttpd allocates for a response */
#define KERNEL_BUFFER (256 << 10)
#define COMMENT_US 15000000
#define GREETING ": quipu\nretry: 2000\n\n"
#define COMMENT ":\n\n"

struct qp__stream {
  struct qp__stream *next, *prev; /* guarded by the lock of all streams */
  struct qp__streams *all;
  struct MHD_Connection *connection;
  struct qp__holds *holds;
  struct qp_uuid context;
  struct qp__caller caller;
  struct qp_subscription *subscription; /* NULL: its owner fills it … */
  void (*end)(void *arg);               /* … and is called when it is freed */
  void *end_arg;
  bool of_turn;

  pthread_mutex_t lock; /* guards everything below */
  struct qp__buf text;  /* to be sent … */
  size_t sent;          /* … from this offset on */
  bool suspended;       /* the connection waits to be resumed */
  bool closed;          /* nothing more is added */
  bool cut; /* the connection is closed after the buffer: the client was too slow, or may not follow
               any more */
  int64_t sent_us; /* when something was last sent */
};

/* ---- all of them ---- */

void
qp__streams_init(struct qp__streams *all)
{
  all->first = NULL;
  all->count = 0;
  (void)pthread_mutex_init(&all->lock, NULL); /* cannot fail on Linux */
}

void
qp__streams_release(struct qp__streams *all)
{
  (void)pthread_mutex_destroy(&all->lock);
}

size_t
qp__streams_count(struct qp__streams *all)
{
  size_t n;

  (void)pthread_mutex_lock(&all->lock);
  n = all->count;
  (void)pthread_mutex_unlock(&all->lock);
  return n;
}

static void
enlist(struct qp__stream *s)
{
  (void)pthread_mutex_lock(&s->all->lock);
  qp__list_push(s->all->first, prev, next, s);
  s->all->count++;
  (void)pthread_mutex_unlock(&s->all->lock);
}

static void
delist(struct qp__stream *s)
{
  (void)pthread_mutex_lock(&s->all->lock);
  qp__list_remove(s->all->first, prev, next, s);
  s->all->count--;
  (void)pthread_mutex_unlock(&s->all->lock);
}

/* The caller holds the stream's lock: resumes the connection. */
static void
wake(struct qp__stream *s)
{
  if (!s->suspended)
    return;
  s->suspended = false;
  MHD_resume_connection(s->connection);
}

/* The caller holds the stream's lock: drops all its text. */
static void
clear_text(struct qp__stream *s)
{
  s->sent = 0;
  if (s->text.cap > KEEP_MAX)
    qp__buf_release(&s->text);
  else
    qp__buf_reset(&s->text);
}

/* The caller holds the lock of all streams: its caller may not follow any more, and gets no more
 * events. */
static void
cut_off(struct qp__stream *s)
{
  (void)pthread_mutex_lock(&s->lock);
  clear_text(s);
  s->cut = s->closed = true;
  wake(s);
  (void)pthread_mutex_unlock(&s->lock);
}

void
qp__streams_moved(struct qp__streams *all, const struct qp_uuid *context, const char *owner)
{
  (void)pthread_mutex_lock(&all->lock);
  for (struct qp__stream *s = all->first; s; s = s->next)
    if (s->caller.owner[0] && memcmp(&s->context, context, sizeof(*context)) == 0 &&
        (!owner || strcmp(s->caller.owner, owner) != 0))
      cut_off(s);
  (void)pthread_mutex_unlock(&all->lock);
}

void
qp__streams_tick(struct qp__streams *all, struct qp__keys *keys)
{
  int64_t now = qp__clock_us();

  (void)pthread_mutex_lock(&all->lock);
  for (struct qp__stream *s = all->first; s; s = s->next) {
    if (!qp__keys_still(keys, &s->caller))
      cut_off(s);
    (void)pthread_mutex_lock(&s->lock);
    if (s->suspended && now - s->sent_us >= COMMENT_US) {
      (void)qp__buf_add_str(&s->text, COMMENT); /* if it fails, the next one is early enough */
      wake(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
  }
  (void)pthread_mutex_unlock(&all->lock);
}

void
qp__stream_close(struct qp__stream *s)
{
  (void)pthread_mutex_lock(&s->lock);
  s->closed = true;
  wake(s);
  (void)pthread_mutex_unlock(&s->lock);
}

void
qp__stream_cut(struct qp__stream *s)
{
  (void)pthread_mutex_lock(&s->lock);
  s->cut = s->closed = true;
  wake(s);
  (void)pthread_mutex_unlock(&s->lock);
}

void
qp__streams_cut(struct qp__streams *all)
{
  (void)pthread_mutex_lock(&all->lock);
  for (struct qp__stream *s = all->first; s; s = s->next)
    qp__stream_cut(s);
  (void)pthread_mutex_unlock(&all->lock);
}

void
qp__streams_end(struct qp__streams *all)
{
  (void)pthread_mutex_lock(&all->lock);
  for (struct qp__stream *s = all->first; s; s = s->next)
    qp__stream_close(s);
  (void)pthread_mutex_unlock(&all->lock);
}

/* ---- from the engine ---- */

bool
qp__stream_tells_rest(const struct qp_event_info *event)
{
  json_t *object = NULL;
  enum qp_state state;
  const char *name;
  bool rests;

  if (strcmp(event->type, "state") != 0 ||
      qp__json_parse_object("an event", event->json, &object, NULL))
    return false;
  name = json_string_value(json_object_get(object, "state"));
  rests = name && qp_state_find(name, &state) && qp_state_awaits_client(state);
  json_decref(object);
  return rests;
}

/* The caller holds the stream's lock: drops the sent text when that is most of the buffer. */
static void
compact(struct qp__stream *s)
{
  size_t left = s->text.len - s->sent;

  if (s->sent < KEEP_MAX || s->sent < left)
    return;
  memmove(s->text.data, s->text.data + s->sent, left);
  s->text.data[left] = '\0';
  s->text.len = left;
  s->sent = 0;
}

/* The caller holds the stream's lock. A client that is too far behind gets the buffered events and
 * is disconnected; it can reconnect with the number of its last event. */
static void
add_event(struct qp__stream *s, const struct qp_event_info *event)
{
  size_t before;

  compact(s);
  before = s->text.len;
  if (before - s->sent > WAITING_MAX) {
    s->cut = s->closed = true;
    return;
  }
  (void)qp__buf_addf(&s->text, "id: %llu\nevent: %s\ndata: ", (unsigned long long)event->seq,
                     event->type);
  (void)qp__buf_add(&s->text, event->json.data, event->json.len);
  (void)qp__buf_add_str(&s->text, "\n\n");
  if (s->text.rc && s->text.data) { /* not a part of it */
    s->text.len = before;
    s->text.data[before] = '\0';
  }
  s->cut = s->text.rc != QP_OK;
  s->closed = s->cut || (s->of_turn && qp__stream_tells_rest(event));
}

static void
take_event(void *arg, const struct qp_event_info *event)
{
  struct qp__stream *s = arg;

  /* A client that sees a state event and then polls must not get an older state. */
  if (event && strcmp(event->type, "state") == 0)
    qp__holds_show_now(s->holds, &s->context);
  (void)pthread_mutex_lock(&s->lock);
  if (!event)
    s->closed = true;
  else if (!s->closed)
    add_event(s, event);
  wake(s);
  (void)pthread_mutex_unlock(&s->lock);
}

/* ---- to the client ---- */

static ssize_t
read_stream(void *cls, uint64_t pos, char *out, size_t max)
{
  struct qp__stream *s = cls;
  ssize_t n = 0;

  (void)pos;
  (void)pthread_mutex_lock(&s->lock);
  if (s->sent < s->text.len) {
    size_t left = s->text.len - s->sent;

    n = (ssize_t)(left < max ? left : max);
    memcpy(out, s->text.data + s->sent, (size_t)n);
    s->sent += (size_t)n;
    s->sent_us = qp__clock_us();
    if (s->sent == s->text.len)
      clear_text(s);
  } else if (s->closed) {
    n = s->cut ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    s->suspended = true;
    MHD_suspend_connection(s->connection);
  }
  (void)pthread_mutex_unlock(&s->lock);
  return n;
}

static void
end_stream(void *cls)
{
  qp__stream_free(cls);
}

/* ---- life ---- */

/* NULL: out of memory. */
static struct qp__stream *
make_stream(struct qp__request *r)
{
  struct qp__stream *s = qp__alloc0(1, sizeof(*s));

  if (!s)
    return NULL;
  (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail on Linux */
  s->all = &r->http->streams;
  s->connection = r->connection;
  s->holds = &r->http->holds;
  s->context = r->held ? r->held->id : (struct qp_uuid){ { 0 } };
  s->caller = r->caller;
  s->sent_us = qp__clock_us();
  qp__buf_init(&s->text, BUFFER_MAX);
  enlist(s);
  return s;
}

enum qp_rc
qp__stream_open(struct qp__request *r, void (*end)(void *arg), void *arg, struct qp__stream **out,
                struct qp_err *err)
{
  struct qp__stream *s = make_stream(r);

  if (!s)
    return qp__fail_nomem(err, "a stream");
  s->end = end;
  s->end_arg = arg;
  *out = s;
  return QP_OK;
}

void
qp__stream_write(struct qp__stream *s, struct qp_bytes text)
{
  (void)pthread_mutex_lock(&s->lock);
  compact(s);
  if (!s->closed && s->text.len - s->sent > WAITING_MAX)
    s->cut = s->closed = true;
  if (!s->closed && qp__buf_add(&s->text, text.data, text.len))
    s->cut = s->closed = true;
  wake(s);
  (void)pthread_mutex_unlock(&s->lock);
}

enum qp_rc
qp__stream_new(struct qp__request *r, uint64_t after, bool of_turn, struct qp__stream **out,
               struct qp_err *err)
{
  const char *owner = qp__owner(r);
  struct qp__stream *s = make_stream(r);
  struct qp_engine *engine = NULL;
  enum qp_rc rc;

  if (!s)
    return qp__fail_nomem(err, "following a context");
  s->of_turn = of_turn;
  rc = qp__buf_add_str(&s->text, GREETING) ? qp__fail_nomem(err, "following a context")
                                           : qp__turns_enter(r, &engine, err);
  if (!rc) {
    rc = qp_engine_subscribe(engine, &s->context, after, take_event, s, &s->subscription, err);
    qp__turns_leave(r->http);
  }
  /* The owner may have changed before the stream was listed. */
  if (!rc && owner && !qp_context_belongs_to(r->held->context, owner))
    rc = qp__fail(err, QP_NOTFOUND, "Context not found");
  if (rc)
    qp__stream_free(s);
  else
    *out = s;
  return rc;
}

void
qp__stream_free(struct qp__stream *s)
{
  if (!s)
    return;
  delist(s);
  qp_engine_unsubscribe(s->subscription);
  if (s->end)
    s->end(s->end_arg);
  (void)pthread_mutex_destroy(&s->lock);
  qp__buf_release(&s->text);
  qp__free(s);
}

/* Otherwise the kernel would buffer megabytes for each slow client. */
static void
limit_kernel_buffer(struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  const int bytes = KERNEL_BUFFER;

  if (info)
    (void)setsockopt(info->connect_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

enum qp_rc
qp__stream_send(struct qp__request *r, struct qp__stream *s, struct qp_err *err)
{
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, s, end_stream);

  if (!response) {
    qp__stream_free(s);
    return qp__fail_nomem(err, "following a context");
  }
  limit_kernel_buffer(r->connection);
  if (qp__http_stopping(r->http)) /* the stop may have happened before the stream was listed */
    qp__stream_close(s);
  r->reply.type = "text/event-stream";
  qp__reply_header(r, "X-Accel-Buffering", "no");
  r->queued = qp__reply_own(r, response);
  return QP_OK;
}

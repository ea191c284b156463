/* work.c - see work.h. */
#include "http/work.h"

#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "http/clock.h"
#include "http/conditional_change.h"
#include "http/forward.h"
#include "http/http_int.h"
#include "http/idempotency.h"
#include "http/quota.h"
#include "store/lease.h"

/* Workers that are reserved for requests that read. */
#define KEPT_FREE(workers) ((workers) / 4 + ((workers) < 4 && (workers) > 1))

#define CALL_US 5000 /* how long a call of a worker counts */

/* ---- one request ---- */

/* One server at a time has the sessions in its memory, and changes prompts. */
static enum qp_rc
take_common(struct qp__request *r, struct qp_err *err)
{
  const char *path = r->route->path;
  bool common =
      strncmp(path, "/v1/sessions", 12) == 0 ||
      (strncmp(path, "/v1/system-prompts", 18) == 0 && r->route->scope >= QP__SCOPE_WRITE);
  enum qp_rc rc = QP_OK;

  if (!r->http->forward || !common)
    return QP_OK;
  rc = qp__lease_wait(r->http->store, err);
  if (!rc)
    rc = qp__lease_take_common(r->http->store, err);
  if (rc == QP_BUSY)
    r->elsewhere = qp__lease_common;
  return rc;
}

enum qp_rc
qp__work_route(struct qp__request *r, struct qp_err *err)
{
  struct qp_err ignored;
  bool replayed = false;
  enum qp_rc rc;

  if (r->route->scope >= QP__SCOPE_WRITE)
    (void)qp__change_recover(r->http, &ignored); /* if it fails, the handler gets the reason */
  rc = take_common(r, err);
  if (!rc)
    rc = qp__idempotency_begin(r, &replayed, err);
  if (replayed)
    return rc;
  if (!rc && r->route->flags & QP__ROUTE_STORES)
    rc = qp__quota_bytes(r, err);
  return rc ? rc : r->route->handle(r, err);
}

/* The connection continues, in its thread. */
static void
resume(struct qp__request *r, enum qp__stage stage)
{
  struct qp__http *http = r->http;

  r->stage = stage;
  MHD_resume_connection(r->connection);
  (void)pthread_mutex_lock(&http->lock); /* a stop of the server waits for this */
  QP_ASSERT(http->waiting);
  if (--http->waiting == 0)
    (void)pthread_cond_signal(&http->quiet);
  (void)pthread_mutex_unlock(&http->lock);
}

/* The response is ready. */
static void
complete(struct qp__request *r, enum qp_rc rc)
{
  qp__idempotency_end(r, rc);
  qp__held_put(r->held);
  r->held = NULL;
  r->outcome.rc = rc;
  resume(r, QP__STAGE_DONE);
}

/* Runs the handler, and each half that can follow at once. */
static void
run_request(struct qp__request *r)
{
  for (;;) {
    qp__handler *half = r->then;
    enum qp_rc rc;

    r->then = NULL;
    rc = half(r, &r->outcome);
    if (!r->then && !qp__forward_begin(r, rc)) {
      complete(r, rc);
      return;
    }
    if (atomic_fetch_sub(&r->halves, 1) > 1)
      return; /* it is parked; unpark continues it */
    if (r->quick) {
      resume(r, QP__STAGE_BACK);
      return;
    }
  }
}

/* ---- the queue; with the lock ---- */

static void
put(struct qp__work_lane *lane, struct qp__request *r)
{
  r->next = NULL;
  *lane->last = r;
  lane->last = &r->next;
  lane->queued++;
}

static struct qp__request *
take(struct qp__work_lane *lane)
{
  struct qp__request *r = lane->first;

  QP_ASSERT(r && lane->queued);
  lane->first = r->next;
  if (!lane->first)
    lane->last = &lane->first;
  lane->queued--;
  return r;
}

static bool
may_change(const struct qp__work *w)
{
  return w->changes.first && w->changing < w->max - KEPT_FREE(w->max);
}

/* The next request that may run now, or NULL. */
static struct qp__request *
pick(struct qp__work *w, bool *changes)
{
  *changes = false;
  if (w->reads.first)
    return take(&w->reads);
  if (!may_change(w))
    return NULL;
  *changes = true;
  w->changing++;
  return take(&w->changes);
}

static bool
has_work(const struct qp__work *w)
{
  return w->reads.first || may_change(w);
}

static void *run_worker(void *arg);

/* Makes a worker look at the queue if there is work: an idle one, or a new one. Busy workers look
 * when they are done. A worker that was called calls the next one when it has taken a request, so
 * that many requests that come together do not wake all workers for what a few can do. A call that
 * is not heeded soon does not count: the processor is busy, or the C library has lost the signal
 * (glibc bug 25847). */
static void
call_worker(struct qp__work *w)
{
  int64_t now = qp__clock_us();

  if ((w->called && now - w->called_us < CALL_US) || !has_work(w))
    return;
  if (w->idle) {
    (void)pthread_cond_signal(&w->wake);
  } else if (w->count < w->max && pthread_create(&w->threads[w->count], NULL, run_worker, w) == 0) {
    w->count++;
  } else {
    return;
  }
  w->called = true;
  w->called_us = now;
}

static void *
run_worker(void *arg)
{
  struct qp__work *w = arg;

  (void)pthread_mutex_lock(&w->lock);
  w->called = false;
  while (!w->stopping) {
    bool changes;
    struct qp__request *r = pick(w, &changes);

    if (r) {
      call_worker(w);
      (void)pthread_mutex_unlock(&w->lock);
      run_request(r);
      (void)pthread_mutex_lock(&w->lock);
      QP_ASSERT(w->changing >= changes);
      w->changing -= changes;
    } else {
      w->idle++;
      (void)pthread_cond_wait(&w->wake, &w->lock);
      w->idle--;
      w->called = false;
    }
  }
  (void)pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* ---- giving to a worker ---- */

/* False: the queue is full, or there is no worker and none can be created. */
static bool
queue_new(struct qp__work *w, struct qp__request *r)
{
  bool changes = r->route && r->route->scope >= QP__SCOPE_WRITE;
  bool good = false;

  (void)pthread_mutex_lock(&w->lock);
  if (w->reads.queued + w->changes.queued < w->queue_max) {
    struct qp__work_lane *lane = changes ? &w->changes : &w->reads;

    put(lane, r);
    call_worker(w);
    good = w->count > 0;
    if (!good)
      (void)take(lane); /* it is the only one, because no worker has ever run */
  }
  (void)pthread_mutex_unlock(&w->lock);
  return good;
}

static bool
enter(struct qp__http *http)
{
  bool sealed;

  (void)pthread_mutex_lock(&http->lock);
  sealed = http->sealed;
  http->waiting += !sealed;
  (void)pthread_mutex_unlock(&http->lock);
  return !sealed;
}

enum qp_rc
qp__work_begin(struct qp__request *r, struct qp_err *err)
{
  struct qp__http *http = r->http;

  if (!enter(http))
    return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "STOPPING", err,
                            "the server is stopping");
  if (!r->then)
    r->then = qp__work_route;
  r->stage = QP__STAGE_AWAY;
  MHD_suspend_connection(r->connection);
  if (queue_new(&http->work, r))
    return QP_OK;
  r->fail_status = MHD_HTTP_SERVICE_UNAVAILABLE;
  r->fail_code = "OVERLOADED";
  (void)qp__fail(&r->outcome, QP_BUSY,
                 "too many requests are waiting for the disk; try again in a moment");
  complete(r, QP_BUSY);
  return QP_OK;
}

void
qp__work_park(struct qp__request *r, qp__handler *then, bool quick)
{
  QP_ASSERT(!r->then && then);
  r->then = then;
  r->quick = quick && !r->key; /* the response to a request with a key is stored first */
  atomic_store(&r->halves, 2);
}

void
qp__work_unpark(struct qp__request *r, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__work *w = &r->http->work;

  if (rc)
    r->waited = *err;
  r->waited.rc = rc;
  if (atomic_fetch_sub(&r->halves, 1) > 1)
    return; /* the handler has not returned yet; its worker continues with it then */
  if (r->quick) {
    resume(r, QP__STAGE_BACK);
    return;
  }
  (void)pthread_mutex_lock(&w->lock);
  put(&w->reads, r);
  call_worker(w);
  (void)pthread_mutex_unlock(&w->lock);
}

/* ---- life ---- */

void
qp__work_init(struct qp__work *w, unsigned workers, unsigned queue_max)
{
  w->reads.last = &w->reads.first;
  w->changes.last = &w->changes.first;
  w->max = workers && workers < QP__WORKERS ? workers : QP__WORKERS;
  w->queue_max = queue_max ? queue_max : QP__WORK_QUEUE;
  (void)pthread_mutex_init(&w->lock, NULL); /* they cannot fail on Linux */
  (void)pthread_cond_init(&w->wake, NULL);
}

void
qp__work_release(struct qp__work *w)
{
  (void)pthread_mutex_lock(&w->lock);
  w->stopping = true;
  (void)pthread_cond_broadcast(&w->wake);
  (void)pthread_mutex_unlock(&w->lock);
  for (unsigned i = 0; i < w->count; i++)
    (void)pthread_join(w->threads[i], NULL);
  (void)pthread_cond_destroy(&w->wake);
  (void)pthread_mutex_destroy(&w->lock);
}

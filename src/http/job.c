/* job.c - see job.h. */
#include "http/job.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/uuid.h"
#include "http/clock.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"
#include "os/os.h"

#define QUEUED_OWNER 32 /* queued or running jobs per owner */
#define QUEUED_MAX 256  /* … of all owners */
#define ENDED_OWNER 32  /* ended jobs that are kept per owner */
#define ENDED_MAX 256   /* … of all owners */
#define CURRENT_MAX 128 /* bytes of `current` */
#define EVENT_US 100000 /* between two events of one job */
#define REPORT_MAX ((size_t)16 << 20)
#define NOT_FOUND "Job not found"
#define FORGOTTEN                                                                           \
  "Job not found: the server was restarted since, and what the job had done until then is " \
  "kept; start it again"

enum state { QUEUED, RUNNING, DONE, FAILED, CANCELLED };

static const char *const state_names[] = {
  [QUEUED] = "queued", [RUNNING] = "running",     [DONE] = "done",
  [FAILED] = "failed", [CANCELLED] = "cancelled",
};

/* A stream that follows a job. */
struct watcher {
  struct watcher *next;
  struct qp__job *job;
  struct qp__stream *stream;
};

struct qp__job {
  struct qp__job *older;
  struct qp__jobs *all;
  struct qp_uuid id;
  char owner[QP__OWNER_TEXT]; /* "": none */
  struct qp__job_spec spec;
  enum state state;
  atomic_bool cancelled;
  unsigned refs; /* streams */
  uint64_t done, total;
  char current[CURRENT_MAX];
  int64_t created_ms, started_ms, ended_ms;
  int64_t event_us; /* when streams last got an event */
  uint64_t events;  /* so far */
  struct watcher *watchers;
  struct qp__buf report; /* of the thread of the job until it has ended */
  struct qp_err err;
};

/* ---- showing; with the lock ---- */

static bool
has_ended(const struct qp__job *job)
{
  return job->state >= DONE;
}

static void
emit_job(struct qp__buf *b, const char *key, const struct qp__job *job)
{
  qp__emit_open(b, key, '{');
  qp__emit_uuid(b, "id", &job->id);
  qp__emit_str(b, "kind", job->spec.kind);
  qp__emit_uuid(b, "context_id", &job->spec.context);
  qp__emit_str(b, "owner", job->owner[0] ? job->owner : NULL);
  qp__emit_str(b, "state", state_names[job->state]);
  qp__emit_uint(b, "done", job->done);
  qp__emit_uint(b, "total", job->total);
  qp__emit_str(b, "current", job->current[0] && !has_ended(job) ? job->current : NULL);
  qp__emit_time(b, "created_at", job->created_ms);
  if (job->started_ms)
    qp__emit_time(b, "started_at", job->started_ms);
  else
    qp__emit_str(b, "started_at", NULL);
  if (job->ended_ms)
    qp__emit_time(b, "ended_at", job->ended_ms);
  else
    qp__emit_str(b, "ended_at", NULL);
  if (has_ended(job) && job->report.len && !job->report.rc)
    qp__emit_raw(b, "report", qp__buf_bytes(&job->report));
  else
    qp__emit_str(b, "report", NULL);
  if (job->err.rc) {
    qp__emit_open(b, "error", '{');
    qp__emit_str(b, "code", qp_rc_name(job->err.rc));
    qp__emit_str(b, "message", job->err.msg[0] ? job->err.msg : qp_rc_text(job->err.rc));
    qp__emit_close(b, '}');
  } else {
    qp__emit_str(b, "error", NULL);
  }
  qp__emit_close(b, '}');
}

/* Sends the job as an event; at its end the stream ends too. */
static void
send_event(const struct qp__job *job, struct qp__stream *stream)
{
  struct qp__buf json;
  struct qp__buf text;

  qp__buf_init(&json, REPORT_MAX + (1 << 16));
  qp__buf_init(&text, REPORT_MAX + (1 << 16));
  emit_job(&json, NULL, job);
  (void)qp__buf_addf(&text, "id: %llu\nevent: %s\ndata: ", (unsigned long long)job->events,
                     has_ended(job) ? "end" : "progress");
  (void)qp__buf_add(&text, json.data, json.len);
  (void)qp__buf_add_str(&text, "\n\n");
  if (!json.rc && !text.rc)
    qp__stream_write(stream, qp__buf_bytes(&text));
  if (has_ended(job))
    qp__stream_close(stream);
  qp__buf_release(&json);
  qp__buf_release(&text);
}

static void
announce(struct qp__job *job)
{
  job->events++;
  job->event_us = qp__clock_us();
  for (struct watcher *w = job->watchers; w; w = w->next)
    send_event(job, w->stream);
}

/* ---- the list; with the lock ---- */

/* It may hold files and much memory. */
static void
free_work(struct qp__job *job)
{
  if (job->spec.work)
    job->spec.free(job->spec.work);
  job->spec.work = NULL;
}

static void
free_job(struct qp__job *job)
{
  QP_ASSERT(!job->refs && !job->watchers);
  free_work(job);
  qp__buf_release(&job->report);
  qp__free(job);
}

static bool
sees(const char *owner, const struct qp__job *job)
{
  return !owner || strcmp(owner, job->owner) == 0;
}

static struct qp__job *
find_job(struct qp__jobs *all, const struct qp_uuid *id, const char *owner)
{
  struct qp__job *job = all->newest;

  while (job && (!qp_uuid_equal(&job->id, id) || !sees(owner, job)))
    job = job->older;
  return job;
}

/* Forgets the oldest ended jobs where there are too many. Those with streams stay, and `kept`. */
static void
forget_old(struct qp__jobs *all, const struct qp__job *kept)
{
  struct qp__job **at = &all->newest;
  unsigned own = 0;
  unsigned every = 0;

  while (*at) {
    struct qp__job *job = *at;
    bool mine = strcmp(job->owner, kept->owner) == 0;

    if (has_ended(job) && job != kept && !job->refs &&
        ((mine && own >= ENDED_OWNER) || every >= ENDED_MAX)) {
      *at = job->older;
      all->ended--;
      free_job(job);
      continue;
    }
    own += mine && has_ended(job);
    every += has_ended(job);
    at = &job->older;
  }
}

static void
end_job(struct qp__job *job, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__jobs *all = job->all;

  if (rc && job->state == RUNNING && rc != QP_STOPPED) {
    job->state = FAILED;
    job->err = *err;
    job->err.rc = rc;
  } else {
    job->state = rc ? CANCELLED : DONE;
  }
  job->ended_ms = qp__clock_wall_ms();
  all->ended++;
  announce(job);
  if (!all->stopping)
    forget_old(all, job);
}

/* ---- the threads ---- */

static struct qp__job *
oldest_queued(const struct qp__jobs *all)
{
  struct qp__job *found = NULL;

  for (struct qp__job *job = all->newest; job; job = job->older)
    if (job->state == QUEUED)
      found = job;
  return found;
}

static void
run_job(struct qp__jobs *all, struct qp__job *job)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  job->state = RUNNING;
  job->started_ms = qp__clock_wall_ms();
  all->queued--;
  all->running++;
  announce(job);
  (void)pthread_mutex_unlock(&all->lock);
  rc = job->spec.run(job, job->spec.work, &err);
  free_work(job);
  (void)pthread_mutex_lock(&all->lock);
  all->running--;
  end_job(job, rc, &err);
}

static void *
run_thread(void *arg)
{
  struct qp__jobs *all = arg;

  (void)pthread_mutex_lock(&all->lock);
  while (!all->stopping) {
    struct qp__job *job = oldest_queued(all);

    if (job) {
      run_job(all, job);
    } else {
      all->idle++;
      (void)pthread_cond_wait(&all->wake, &all->lock);
      all->idle--;
    }
  }
  (void)pthread_mutex_unlock(&all->lock);
  return NULL;
}

/* With the lock. False: there is no thread at all. */
static bool
call_thread(struct qp__jobs *all)
{
  if (all->queued > all->idle && all->count < QP__JOB_THREADS &&
      pthread_create(&all->threads[all->count], NULL, run_thread, all) == 0)
    all->count++;
  (void)pthread_cond_signal(&all->wake);
  return all->count > 0;
}

/* ---- for the work ---- */

bool
qp__job_cancelled(const struct qp__job *job)
{
  return atomic_load(&job->cancelled);
}

void
qp__job_progress(struct qp__job *job, uint64_t done, uint64_t total, const char *current)
{
  (void)pthread_mutex_lock(&job->all->lock);
  job->done = done;
  job->total = total;
  if (current)
    (void)snprintf(job->current, sizeof(job->current), "%s", current);
  if (qp__clock_us() - job->event_us >= EVENT_US)
    announce(job);
  (void)pthread_mutex_unlock(&job->all->lock);
}

struct qp__buf *
qp__job_report(struct qp__job *job)
{
  return &job->report;
}

/* ---- starting ---- */

static enum qp_rc
new_job(struct qp__request *r, struct qp__job **out, struct qp_err *err)
{
  const struct qp__os *os = &qp__os_posix;
  struct qp__job *job = qp__alloc0(1, sizeof(*job));
  uint8_t entropy[10];
  int sys;

  if (!job)
    return qp__fail_nomem(err, "a job");
  sys = os->random(os->self, entropy, sizeof(entropy));
  if (sys) {
    qp__free(job);
    return qp__fail_sys(err, sys, "cannot get random bytes for an id");
  }
  job->all = &r->http->jobs;
  job->created_ms = qp__clock_wall_ms();
  job->id = qp__uuid_next(&r->http->ids, job->created_ms, entropy);
  (void)snprintf(job->owner, sizeof(job->owner), "%s", r->caller.owner);
  atomic_init(&job->cancelled, false);
  qp__buf_init(&job->report, REPORT_MAX);
  *out = job;
  return QP_OK;
}

/* With the lock: whether there is room for it, and no other one does the same. */
static enum qp_rc
check_room(struct qp__request *r, const struct qp__job *job, const struct qp__job_spec *spec,
           struct qp_err *err)
{
  struct qp__jobs *all = job->all;
  unsigned own = 0;
  char text[QP_UUID_TEXT];

  if (all->stopping)
    return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "STOPPING", err,
                            "the server is stopping");
  for (const struct qp__job *other = all->newest; other; other = other->older) {
    if (has_ended(other) || strcmp(other->owner, job->owner) != 0)
      continue;
    own++;
    if (!spec->parallel && strcmp(other->spec.kind, spec->kind) == 0 &&
        qp_uuid_equal(&other->spec.context, &spec->context))
      return qp__fail(err, QP_CONFLICT, "job %s does this already", qp_uuid_text(&other->id, text));
  }
  if (own < QUEUED_OWNER && all->queued + all->running < QUEUED_MAX)
    return QP_OK;
  qp__reply_header(r, "Retry-After", "10");
  return qp__request_fail(r, MHD_HTTP_TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", err,
                          "too many jobs are queued; wait until some of them have ended");
}

enum qp_rc
qp__job_start(struct qp__request *r, const struct qp__job_spec *spec, struct qp_err *err)
{
  struct qp__jobs *all = &r->http->jobs;
  struct qp__job *job = NULL;
  char id[QP_UUID_TEXT];
  enum qp_rc rc = new_job(r, &job, err);

  if (rc) {
    spec->free(spec->work);
    return rc;
  }
  (void)qp_uuid_text(&job->id, id);
  (void)pthread_mutex_lock(&all->lock);
  rc = check_room(r, job, spec, err);
  job->spec = *spec;
  if (!rc) {
    job->older = all->newest;
    all->newest = job;
    all->queued++;
    if (!call_thread(all)) {
      all->queued--;
      all->newest = job->older;
      rc = qp__fail_nomem(err, "starting a thread for a job");
    }
  }
  if (rc) {
    free_job(job);
  } else {
    qp__emit_open(&r->reply.body, NULL, '{');
    emit_job(&r->reply.body, "job", job);
    qp__emit_close(&r->reply.body, '}');
  }
  (void)pthread_mutex_unlock(&all->lock);
  if (rc)
    return rc;
  r->reply.status = MHD_HTTP_ACCEPTED;
  return qp__reply_location(r, "/v1/jobs/", id, err);
}

/* ---- life ---- */

void
qp__jobs_init(struct qp__jobs *all)
{
  (void)pthread_mutex_init(&all->lock, NULL); /* they cannot fail on Linux */
  (void)pthread_cond_init(&all->wake, NULL);
}

static void
cancel(struct qp__job *job)
{
  struct qp__jobs *all = job->all;

  atomic_store(&job->cancelled, true);
  if (job->state == QUEUED) {
    all->queued--;
    free_work(job);
    end_job(job, QP_STOPPED, NULL);
  }
}

void
qp__jobs_cancel(struct qp__jobs *all)
{
  (void)pthread_mutex_lock(&all->lock);
  all->stopping = true;
  for (struct qp__job *job = all->newest; job; job = job->older)
    if (!has_ended(job))
      cancel(job);
  (void)pthread_cond_broadcast(&all->wake);
  (void)pthread_mutex_unlock(&all->lock);
}

void
qp__jobs_stop(struct qp__jobs *all)
{
  qp__jobs_cancel(all);
  for (unsigned i = 0; i < all->count; i++)
    (void)pthread_join(all->threads[i], NULL);
  all->count = 0;
}

void
qp__jobs_release(struct qp__jobs *all)
{
  while (all->newest) {
    struct qp__job *job = all->newest;

    all->newest = job->older;
    free_job(job);
  }
  (void)pthread_cond_destroy(&all->wake);
  (void)pthread_mutex_destroy(&all->lock);
}

/* ---- requests ---- */

enum qp_rc
qp__h_job_list(struct qp__request *r, struct qp_err *err)
{
  struct qp__jobs *all = &r->http->jobs;
  const char *owner = qp__owner(r);
  struct qp__buf *b = &r->reply.body;

  (void)err;
  qp__emit_open(b, NULL, '{');
  qp__emit_open(b, "jobs", '[');
  (void)pthread_mutex_lock(&all->lock);
  for (const struct qp__job *job = all->newest; job; job = job->older)
    if (sees(owner, job))
      emit_job(b, NULL, job);
  (void)pthread_mutex_unlock(&all->lock);
  qp__emit_close(b, ']');
  qp__emit_close(b, '}');
  return QP_OK;
}

/* Ids contain the time when they were made. */
static bool
is_older_than_server(const struct qp__http *http, const struct qp_uuid *id)
{
  int64_t ms = 0;

  for (size_t i = 0; i < 6; i++)
    ms = ms << 8 | id->b[i];
  return id->b[6] >> 4 == 7 && ms < http->started_ms;
}

/* Finds the job of the path; on success the lock is held. */
static enum qp_rc
lock_job(struct qp__request *r, struct qp__job **out, struct qp_err *err)
{
  struct qp__jobs *all = &r->http->jobs;
  struct qp_uuid id;

  if (qp_uuid_parse(r->params[0], &id, NULL))
    return qp__fail(err, QP_NOTFOUND, NOT_FOUND);
  (void)pthread_mutex_lock(&all->lock);
  *out = find_job(all, &id, qp__owner(r));
  if (*out)
    return QP_OK;
  (void)pthread_mutex_unlock(&all->lock);
  return qp__fail(err, QP_NOTFOUND, "%s",
                  is_older_than_server(r->http, &id) ? FORGOTTEN : NOT_FOUND);
}

/* With the lock, which it releases. */
static enum qp_rc
answer(struct qp__request *r, const struct qp__job *job)
{
  qp__emit_open(&r->reply.body, NULL, '{');
  emit_job(&r->reply.body, "job", job);
  qp__emit_close(&r->reply.body, '}');
  (void)pthread_mutex_unlock(&r->http->jobs.lock);
  return QP_OK;
}

enum qp_rc
qp__h_job_get(struct qp__request *r, struct qp_err *err)
{
  struct qp__job *job = NULL;
  enum qp_rc rc = lock_job(r, &job, err);

  return rc ? rc : answer(r, job);
}

/* A running job ends after the step that it is at. */
enum qp_rc
qp__h_job_cancel(struct qp__request *r, struct qp_err *err)
{
  struct qp__job *job = NULL;
  enum qp_rc rc = lock_job(r, &job, err);

  if (rc)
    return rc;
  if (!has_ended(job)) {
    cancel(job);
    r->reply.status = has_ended(job) ? MHD_HTTP_OK : MHD_HTTP_ACCEPTED;
  }
  return answer(r, job);
}

/* The stream is freed. */
static void
end_watching(void *arg)
{
  struct watcher *w = arg;
  struct qp__jobs *all = w->job->all;
  struct watcher **at;

  (void)pthread_mutex_lock(&all->lock);
  for (at = &w->job->watchers; *at && *at != w;)
    at = &(*at)->next;
  if (*at)
    *at = w->next;
  w->job->refs--;
  (void)pthread_mutex_unlock(&all->lock);
  qp__free(w);
}

enum qp_rc
qp__h_job_events(struct qp__request *r, struct qp_err *err)
{
  struct watcher *w = qp__alloc0(1, sizeof(*w));
  struct qp__stream *stream = NULL;
  struct qp__job *job = NULL;
  enum qp_rc rc;

  if (!w)
    return qp__fail_nomem(err, "following a job");
  rc = lock_job(r, &job, err);
  if (rc) {
    qp__free(w);
    return rc;
  }
  w->job = job;
  job->refs++; /* it stays */
  (void)pthread_mutex_unlock(&job->all->lock);
  rc = qp__stream_open(r, end_watching, w, &stream, err);
  if (rc) {
    end_watching(w);
    return rc;
  }
  (void)pthread_mutex_lock(&job->all->lock);
  w->stream = stream;
  w->next = job->watchers;
  job->watchers = w;
  send_event(job, stream);
  (void)pthread_mutex_unlock(&job->all->lock);
  r->stream = stream;
  return QP_OK;
}

/* job.h - long work that a request starts and does not wait for: checks, compression, imports.
 *
 * A job is queued, then one of a few threads runs it. It reports its progress, and at the end a
 * report or an error. Jobs live in memory: a restart forgets them. All work can be interrupted at
 * any point and started again, so nothing has to be undone.
 *
 *   queued -> running -> done | failed | cancelled
 *   queued -> cancelled
 *
 * (1) A job belongs to the owner of the key that started it. Callers with another owner do not see
 *     it; callers without an owner see all jobs.
 * (2) Of one kind, owner and context only one job is queued or running, unless the kind says
 *     otherwise.
 * (3) A job is cancelled between two steps, never within one: see qp__job_cancelled().
 * (4) Ended jobs are kept until there are too many, the newest longest. */
#ifndef QP_HTTP_JOB_H
#define QP_HTTP_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "http/request.h"

#define QP__JOB_THREADS 2

struct qp__job;

/* The work, on a thread of the jobs. Writes its report to qp__job_report(), also when it fails or
 * is cancelled: then what it has done. QP_STOPPED: it was cancelled. */
typedef enum qp_rc qp__job_fn(struct qp__job *job, void *work, struct qp_err *err);

struct qp__job_spec {
  const char *kind;       /* "check"; lives as long as the process */
  struct qp_uuid context; /* that it is about; none: several */
  bool parallel;          /* rule (2) does not apply */
  qp__job_fn *run;
  void *work; /* argument of both functions; owned by the job, also when it cannot be started */
  void (*free)(void *work);
};

struct qp__jobs {
  pthread_mutex_t lock; /* guards everything below, and the jobs */
  pthread_cond_t wake;
  struct qp__job *newest;
  unsigned queued, running, ended;
  unsigned idle, count;
  bool stopping;
  pthread_t threads[QP__JOB_THREADS];
};

void qp__jobs_init(struct qp__jobs *all);
/* Cancels all jobs, and lets no other one start. */
void qp__jobs_cancel(struct qp__jobs *all);
/* The same, and returns when no job is running any more: after the steps that they are at. */
void qp__jobs_stop(struct qp__jobs *all);
/* Frees all jobs, after a stop. No stream may follow a job. */
void qp__jobs_release(struct qp__jobs *all);

/* Queues a job for the caller and makes the response: 202 with the job and its Location. 409: rule
 * (2). 429: too many jobs are queued. */
enum qp_rc qp__job_start(struct qp__request *r, const struct qp__job_spec *spec,
                         struct qp_err *err);

/* ---- for the work, on its thread ---- */

/* Whether it should end before the next step. */
bool qp__job_cancelled(const struct qp__job *job);
/* `done` of `total` steps (0: not known) are complete, and `current` is next (NULL: unchanged).
 * Cheap: streams get an event at most every 100 ms. */
void qp__job_progress(struct qp__job *job, uint64_t done, uint64_t total, const char *current);
/* The report, a JSON object; empty: null. Shown when the job has ended. */
struct qp__buf *qp__job_report(struct qp__job *job);

#endif

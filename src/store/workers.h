/* workers.h - a few threads that do independent pieces of work.
 *
 * Threads start when they are first needed and end with the pool. With no threads allowed
 * everything runs in the calling thread. All functions may be called from any thread, except init
 * and release. */
#ifndef QP_STORE_WORKERS_H
#define QP_STORE_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mutex.h"

#define QP__WORKERS_MAX 8

typedef void qp__job_fn(void *arg);
typedef void qp__piece_fn(void *arg, size_t i);

struct qp__worker_job {
  struct qp__worker_job *next;
  qp__job_fn *fn;
  void *arg;
};

struct qp__workers {
  struct qp__mutex lock;
  pthread_cond_t work; /* a job was added, or stopping */
  pthread_cond_t idle; /* a job was done */
  struct qp__worker_job *queue, **tail;
  pthread_t threads[QP__WORKERS_MAX];
  unsigned limit; /* maximum number of threads */
  unsigned started;
  unsigned waiting; /* threads without a job */
  bool stopping;
};

void qp__workers_init(struct qp__workers *w, unsigned limit);
/* Finishes all jobs first. */
void qp__workers_release(struct qp__workers *w);

/* Runs fn(arg) later in a thread of the pool, or at once if the pool has no threads. */
void qp__workers_run(struct qp__workers *w, qp__job_fn *fn, void *arg);

/* Calls fn(arg, 0) … fn(arg, n - 1), several at a time, and returns when all are done. */
void qp__workers_each(struct qp__workers *w, size_t n, qp__piece_fn *fn, void *arg);

#endif

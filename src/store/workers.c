/* workers.c - see workers.h. */
#include "store/workers.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

void
qp__workers_init(struct qp__workers *w, unsigned limit)
{
  memset(w, 0, sizeof(*w));
  w->limit = limit > QP__WORKERS_MAX ? QP__WORKERS_MAX : limit;
  w->tail = &w->queue;
  qp__mutex_init(&w->lock, QP__RANK_WORKERS);
  (void)pthread_cond_init(&w->work, NULL);
  (void)pthread_cond_init(&w->idle, NULL);
}

static struct qp__worker_job *
take_job(struct qp__workers *w)
{
  struct qp__worker_job *job = w->queue;

  QP_ASSERT_HELD(&w->lock);
  if (!job)
    return NULL;
  w->queue = job->next;
  if (!w->queue)
    w->tail = &w->queue;
  return job;
}

static void *
run_worker(void *arg)
{
  struct qp__workers *w = arg;
  struct qp__worker_job *job;

  qp__mutex_lock(&w->lock);
  for (;;) {
    job = take_job(w);
    if (job) {
      qp__mutex_unlock(&w->lock);
      job->fn(job->arg);
      qp__free(job);
      qp__mutex_lock(&w->lock);
      continue;
    }
    if (w->stopping)
      break;
    w->waiting++;
    qp__mutex_wait(&w->lock, &w->work);
    w->waiting--;
  }
  qp__mutex_unlock(&w->lock);
  return NULL;
}

void
qp__workers_release(struct qp__workers *w)
{
  QP_ASSERT(!w->stopping);
  qp__mutex_lock(&w->lock);
  w->stopping = true;
  (void)pthread_cond_broadcast(&w->work);
  qp__mutex_unlock(&w->lock);
  for (unsigned i = 0; i < w->started; i++)
    (void)pthread_join(w->threads[i], NULL);
  (void)pthread_cond_destroy(&w->idle);
  (void)pthread_cond_destroy(&w->work);
  qp__mutex_release(&w->lock);
}

/* False: no thread could be started for it. */
static bool
hand_over(struct qp__workers *w, qp__job_fn *fn, void *arg)
{
  struct qp__worker_job *job = w->limit ? qp__alloc(sizeof(*job)) : NULL;
  bool taken;

  QP_ASSERT(fn);
  if (!job)
    return false;
  job->next = NULL;
  job->fn = fn;
  job->arg = arg;
  qp__mutex_lock(&w->lock);
  if (!w->waiting && w->started < w->limit &&
      pthread_create(&w->threads[w->started], NULL, run_worker, w) == 0)
    w->started++;
  taken = w->started > 0;
  if (taken) {
    *w->tail = job;
    w->tail = &job->next;
    (void)pthread_cond_signal(&w->work);
  }
  qp__mutex_unlock(&w->lock);
  if (!taken)
    qp__free(job);
  return taken;
}

void
qp__workers_run(struct qp__workers *w, qp__job_fn *fn, void *arg)
{
  if (!hand_over(w, fn, arg))
    fn(arg);
}

/* ---- pieces ---- */

struct pieces {
  struct qp__workers *workers;
  qp__piece_fn *fn;
  void *arg;
  size_t n;
  atomic_size_t next;
  unsigned helpers; /* that have not ended; guarded by the pool's lock */
};

static void
do_pieces(struct pieces *p)
{
  size_t i;

  while ((i = atomic_fetch_add(&p->next, 1)) < p->n)
    p->fn(p->arg, i);
}

static void
help(void *arg)
{
  struct pieces *p = arg;
  struct qp__workers *w = p->workers;

  do_pieces(p);
  qp__mutex_lock(&w->lock);
  p->helpers--;
  (void)pthread_cond_broadcast(&w->idle);
  qp__mutex_unlock(&w->lock);
}

/* Removes the helpers of `p` that have not begun from the queue. Waiting for them could be a
 * deadlock: they may be queued behind a job that waits for the caller. */
static void
recall_helpers(struct qp__workers *w, struct pieces *p)
{
  struct qp__worker_job **at = &w->queue;

  QP_ASSERT_HELD(&w->lock);
  while (*at) {
    struct qp__worker_job *job = *at;

    if (job->arg != p) {
      at = &job->next;
      continue;
    }
    *at = job->next;
    qp__free(job);
    p->helpers--;
  }
  w->tail = at;
}

void
qp__workers_each(struct qp__workers *w, size_t n, qp__piece_fn *fn, void *arg)
{
  struct pieces p = { .workers = w, .fn = fn, .arg = arg, .n = n };

  QP_ASSERT(fn);
  for (unsigned i = 1; i < w->limit && i < n; i++) {
    qp__mutex_lock(&w->lock);
    p.helpers++;
    qp__mutex_unlock(&w->lock);
    if (!hand_over(w, help, &p)) {
      qp__mutex_lock(&w->lock);
      p.helpers--;
      qp__mutex_unlock(&w->lock);
      break;
    }
  }
  do_pieces(&p);
  qp__mutex_lock(&w->lock);
  recall_helpers(w, &p);
  while (p.helpers)
    qp__mutex_wait(&w->lock, &w->idle);
  qp__mutex_unlock(&w->lock);
}

/* mutex.c - see mutex.h: the mutex of checked builds. */
#include "base/mutex.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

void
qp__cond_init_mono(pthread_cond_t *cond)
{
  pthread_condattr_t attr;

  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(cond, &attr);
  (void)pthread_condattr_destroy(&attr);
}

#if QP_CHECKED

/* The mutexes that this thread has locked, the last one first. Ranks only rise, so the first has
 * the highest. It is a list, because a recovery locks every context of a store. */
static _Thread_local struct qp__mutex *innermost;

/* An address that identifies this thread among all living threads. */
static const void *
self(void)
{
  return &innermost;
}

bool
qp__mutex_held(const struct qp__mutex *m)
{
  return atomic_load_explicit(&m->owner, memory_order_relaxed) == self();
}

static void
enter(struct qp__mutex *m)
{
  QP_ASSERT(!atomic_load_explicit(&m->owner, memory_order_relaxed));
  atomic_store_explicit(&m->owner, self(), memory_order_relaxed);
  m->outer = innermost;
  innermost = m;
}

static void
leave(struct qp__mutex *m)
{
  struct qp__mutex **at = &innermost;

  QP_ASSERT_HELD(m);
  while (*at != m)
    at = &(*at)->outer;
  *at = m->outer;
  m->outer = NULL;
  atomic_store_explicit(&m->owner, NULL, memory_order_relaxed);
}

void
qp__mutex_init(struct qp__mutex *m, enum qp__rank rank)
{
  int failed = pthread_mutex_init(&m->mutex, NULL);

  QP_ASSERT(!failed);
  m->rank = rank;
  m->outer = NULL;
  atomic_init(&m->owner, NULL);
}

void
qp__mutex_release(struct qp__mutex *m)
{
  int busy;

  QP_ASSERT(!atomic_load_explicit(&m->owner, memory_order_relaxed)); /* it is not locked */
  busy = pthread_mutex_destroy(&m->mutex);
  QP_ASSERT(!busy);
}

/* Only recovery and changes of prompts lock several contexts. Both have PROMPT locked, so only one
 * thread does it at a time. */
static void
check_order(const struct qp__mutex *m)
{
  const struct qp__mutex *in = innermost;

  while (in && in->rank == QP__RANK_NONE)
    in = in->outer;
  if (m->rank == QP__RANK_NONE || !in)
    return;
  QP_ASSERT(in->rank < m->rank || (in->rank == QP__RANK_CONTEXT_WRITE && in->rank == m->rank));
}

void
qp__mutex_lock(struct qp__mutex *m)
{
  int failed;

  QP_ASSERT_NOT_HELD(m);
  check_order(m);
  failed = pthread_mutex_lock(&m->mutex);
  QP_ASSERT(!failed);
  enter(m);
}

void
qp__mutex_unlock(struct qp__mutex *m)
{
  int failed;

  leave(m);
  failed = pthread_mutex_unlock(&m->mutex);
  QP_ASSERT(!failed);
}

void
qp__mutex_wait(struct qp__mutex *m, pthread_cond_t *cond)
{
  int failed;

  leave(m);
  check_order(m); /* after the wait it is locked again, after the others */
  failed = pthread_cond_wait(cond, &m->mutex);
  QP_ASSERT(!failed);
  enter(m);
}

int
qp__mutex_timedwait(struct qp__mutex *m, pthread_cond_t *cond, const struct timespec *until)
{
  int rc;

  leave(m);
  check_order(m);
  rc = pthread_cond_timedwait(cond, &m->mutex, until);
  enter(m);
  return rc;
}

#endif

/* committer.c - see committer.h. */
#include "store/context/committer.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define HOLD_MS 50

void
qp__committer_init(struct qp__committer *c, const struct qp__os *os, bool allowed)
{
  memset(c, 0, sizeof(*c));
  c->os = os;
  c->allowed = allowed;
  c->last = &c->first;
  qp__mutex_init(&c->lock, QP__RANK_COMMITTER);
  qp__cond_init_mono(&c->wake);
}

/* Waits until the hold ends. */
static void
wait_held(struct qp__committer *c)
{
  int64_t until = c->held_until;
  struct timespec ts = { .tv_sec = (time_t)(until / 1000),
                         .tv_nsec = (long)(until % 1000) * 1000000 };

  QP_ASSERT_HELD(&c->lock);
  if (qp__mutex_timedwait(&c->lock, &c->wake, &ts) == ETIMEDOUT && c->held_until == until)
    c->held_until = 0;
}

static void *
run(void *arg)
{
  struct qp__committer *c = arg;

  qp__mutex_lock(&c->lock);
  for (;;) {
    struct qp__pending *p = c->first;

    if (p && p->ready && c->held_until && !c->stopping) {
      wait_held(c);
    } else if (p && p->ready) {
      c->first = p->next;
      if (!c->first)
        c->last = &c->first;
      qp__mutex_unlock(&c->lock);
      p->finish(p);
      qp__mutex_lock(&c->lock);
    } else if (!p && c->stopping) {
      break;
    } else {
      qp__mutex_wait(&c->lock, &c->wake);
    }
  }
  qp__mutex_unlock(&c->lock);
  return NULL;
}

void
qp__committer_release(struct qp__committer *c)
{
  qp__mutex_lock(&c->lock);
  c->stopping = true;
  (void)pthread_cond_signal(&c->wake);
  qp__mutex_unlock(&c->lock);
  if (c->started)
    (void)pthread_join(c->thread, NULL);
  (void)pthread_cond_destroy(&c->wake);
  qp__mutex_release(&c->lock);
}

bool
qp__committer_join(struct qp__committer *c, struct qp__pending *p)
{
  bool joined;

  QP_ASSERT(p->finish);
  if (!c->allowed)
    return false;
  qp__mutex_lock(&c->lock);
  if (!c->started)
    c->started = pthread_create(&c->thread, NULL, run, c) == 0;
  joined = c->started;
  if (joined) {
    p->next = NULL;
    p->ready = false;
    *c->last = p;
    c->last = &p->next;
  }
  qp__mutex_unlock(&c->lock);
  return joined;
}

void
qp__committer_go(struct qp__committer *c, struct qp__pending *p)
{
  QP_ASSERT(!p->ready);
  qp__mutex_lock(&c->lock);
  p->ready = true;
  if (c->first == p)
    (void)pthread_cond_signal(&c->wake);
  qp__mutex_unlock(&c->lock);
}

void
qp__committer_hold(struct qp__committer *c)
{
  int64_t until = c->os->mono_ms(c->os->self) + HOLD_MS;

  qp__mutex_lock(&c->lock);
  c->held_until = until;
  qp__mutex_unlock(&c->lock);
}

void
qp__committer_let_go(struct qp__committer *c)
{
  qp__mutex_lock(&c->lock);
  c->held_until = 0;
  if (c->first && c->first->ready)
    (void)pthread_cond_signal(&c->wake);
  qp__mutex_unlock(&c->lock);
}

/* committer.h - one thread finishes commits that no caller waits for, and calls their callbacks.
 *
 * A caller stages a commit, adds it to the queue while it holds the locks that order commits, and
 * then releases it (qp__committer_go). The thread finishes the oldest commit. Finishing a commit
 * syncs everything that is staged at that moment, so most of the queue is finished with it, and
 * also commits of callers that wait.
 *
 * A caller that begins several commits one after the other can hold the thread meanwhile, so that
 * it does not start with the first one and they share a sync. A hold ends by itself after 50 ms:
 * otherwise a commit that waits for room in the journal would wait for ever. */
#ifndef QP_STORE_CONTEXT_COMMITTER_H
#define QP_STORE_CONTEXT_COMMITTER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/mutex.h"
#include "os/os.h"

/* One commit in the queue, part of something larger. */
struct qp__pending {
  void (*finish)(struct qp__pending *p); /* may free it */
  struct qp__pending *next;
  bool ready; /* the caller has released it */
};

struct qp__committer {
  struct qp__mutex lock;
  pthread_cond_t wake; /* the first one is ready, or stopping; or the hold has ended */
  const struct qp__os *os;
  struct qp__pending *first, **last;
  pthread_t thread;
  bool allowed; /* a thread may be started */
  bool started;
  bool stopping;
  int64_t held_until; /* by the monotonic clock; 0: it is not held */
};

/* `allowed`: a thread may be started. */
void qp__committer_init(struct qp__committer *c, const struct qp__os *os, bool allowed);
/* Finishes all commits of the queue first. */
void qp__committer_release(struct qp__committer *c);

/* Adds a commit to the queue. False: there is no thread, and the caller must finish it. */
bool qp__committer_join(struct qp__committer *c, struct qp__pending *p);
/* The commit may be finished from now on. It may be freed already when this returns. */
void qp__committer_go(struct qp__committer *c, struct qp__pending *p);

/* The thread does not finish commits until let_go, or for 50 ms. For one caller at a time; a second
 * hold only extends it. */
void qp__committer_hold(struct qp__committer *c);
void qp__committer_let_go(struct qp__committer *c);

#endif

/* committer.h - commits that no caller waits for: one thread settles them and tells.
 *
 * A commit is staged by its caller, joins the queue while the locks that ordered it are held, and
 * goes when the caller is done with it. The thread settles the oldest one; as whoever settles leads
 * all that is staged at that moment through one sync, the rest of the queue is mostly settled by
 * that too, and so are callers who wait for theirs. */
#ifndef QP_STORE_COMMITTER_H
#define QP_STORE_COMMITTER_H

#include <pthread.h>
#include <stdbool.h>

/* One commit in the queue, part of something larger. */
struct qp__pending {
  void (*settle)(struct qp__pending *p); /* may free it */
  struct qp__pending *next;
  bool ready; /* the caller has let go of it */
};

struct qp__committer {
  pthread_mutex_t lock;
  pthread_cond_t wake; /* the first one is ready, or stopping */
  struct qp__pending *first, **last;
  pthread_t thread;
  bool allowed; /* a thread may be had */
  bool started;
  bool stopping;
};

int qp__committer_init(struct qp__committer *c, bool allowed); /* 0 or -errno */
/* Settles everything first. */
void qp__committer_release(struct qp__committer *c);

/* Takes its place in the queue. False: there is no thread, and the caller settles it himself. */
bool qp__committer_join(struct qp__committer *c, struct qp__pending *p);
/* It may be settled from now on, and is perhaps gone when this returns. */
void qp__committer_go(struct qp__committer *c, struct qp__pending *p);

#endif

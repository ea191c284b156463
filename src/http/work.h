/* work.h - the threads that handlers run in, so that no thread of a connection waits for the disk.
 *
 * A thread of libmicrohttpd serves thousands of connections: while it waits, all of them do. So it
 * only takes requests in and sends answers. Between the two the connection is suspended and a
 * worker has the request: it runs the handler, which may wait for whatever it likes, and then the
 * connection goes on and sends what the handler made. Only what is marked QP__ROUTE_QUICK
 * (route.h) runs in the connection's thread, and must not wait.
 *
 * Workers are made when they are needed, up to WORKERS. That many changes share a sync of the
 * disk. A quarter of them only takes requests that read, so that reading goes on while all changes
 * wait for the disk. When QUEUE_MAX requests wait for a worker, the next one is told to try again
 * (503).
 *
 * A handler need not keep its worker while it waits for something that another thread will tell
 * it, such as the end of a turn: it calls qp__work_park() and returns QP_OK, and when that
 * something is over, any thread calls qp__work_unpark() and `then` runs, in a worker or, if it is
 * quick, in the connection's thread. There r->waited tells how it ended. */
#ifndef QP_HTTP_WORK_H
#define QP_HTTP_WORK_H

#include <pthread.h>

#include "http/route.h"

#define QP__WORKERS 64
#define QP__WORK_QUEUE 4096

/* Requests that wait for a worker, first come first served. */
struct qp__work_lane {
  struct qp__request *first;
  struct qp__request **last;
  unsigned queued;
};

struct qp__work {
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t wake;
  struct qp__work_lane reads;   /* also the second halves of those that have waited */
  struct qp__work_lane changes; /* requests that change something */
  unsigned changing;            /* workers that run one of those */
  unsigned idle;
  unsigned count; /* of workers */
  unsigned max;
  unsigned queue_max;
  bool stopping;
  pthread_t threads[QP__WORKERS];
};

/* `workers` and `queue_max`: 0 means the default. */
enum qp_rc qp__work_init(struct qp__work *w, unsigned workers, unsigned queue_max,
                         struct qp_err *err);
/* Ends the workers. No request may be with them. */
void qp__work_release(struct qp__work *w);

/* Suspends the connection and gives the request to a worker, which runs r->then or, when that is
 * NULL, the handler of the route. When it is done, r->outcome is what the handler returned. On
 * QP_OK the caller must not touch the request any more. 503: too many wait already, or the server
 * is stopping. */
enum qp_rc qp__work_begin(struct qp__request *r, struct qp_err *err);

/* Called by a handler before it begins what it will wait for; it then returns QP_OK. `quick`: as
 * for QP__ROUTE_QUICK. */
void qp__work_park(struct qp__request *r, qp__handler *then, bool quick);
/* Called once for each park, by any thread, also before the handler has returned. The caller must
 * not touch the request any more, unless it is that handler. */
void qp__work_unpark(struct qp__request *r, enum qp_rc rc, const struct qp_err *err);

#endif

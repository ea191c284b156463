/* work.h - the threads that run handlers, so that no connection thread waits for the disk.
 *
 * A thread of libmicrohttpd serves thousands of connections: if it blocks, all of them wait. So it
 * only receives requests and sends responses. In between, the connection is suspended and a worker
 * has the request: it runs the handler, which may block, and then the connection is resumed and
 * sends the result. Only handlers marked QP__ROUTE_QUICK (route.h) run in the connection's thread;
 * they must not block.
 *
 * Workers are created when needed, up to WORKERS. So many changes can share one sync of the disk. A
 * quarter of the workers only handles requests that read, so that reading continues while all
 * changes wait for the disk. If QUEUE_MAX requests wait for a worker, the next one is rejected
 * (503).
 *
 * A handler need not occupy its worker while it waits for another thread, for example for the end
 * of a turn: it calls qp__work_park() and returns QP_OK. When the event happens, any thread calls
 * qp__work_unpark() and `then` runs, in a worker or, if it is quick, in the connection's thread;
 * r->waited has the result. */
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
  pthread_mutex_t lock; /* guards everything below */
  pthread_cond_t wake;
  struct qp__work_lane reads;   /* also the second halves of requests that have waited */
  struct qp__work_lane changes; /* requests that change something */
  unsigned changing;            /* workers that run a request of `changes` */
  unsigned idle;
  bool called;       /* an idle or a new worker will look at the queue … */
  int64_t called_us; /* … since then */
  unsigned count;    /* number of workers */
  unsigned max;
  unsigned queue_max;
  bool stopping;
  pthread_t threads[QP__WORKERS];
};

/* `workers` and `queue_max`: 0 means the default. */
void qp__work_init(struct qp__work *w, unsigned workers, unsigned queue_max);
/* Ends the workers. They must have no requests. */
void qp__work_release(struct qp__work *w);

/* Suspends the connection and gives the request to a worker, which runs r->then or, if that is
 * NULL, the handler of the route; r->outcome becomes its result. After QP_OK the caller must not
 * use the request any more. 503: too many requests wait, or the server is stopping. */
enum qp_rc qp__work_begin(struct qp__request *r, struct qp_err *err);

/* Runs the handler of the route, with what belongs to every request that a worker runs: the
 * Idempotency-Key, the limit of bytes. */
enum qp_rc qp__work_route(struct qp__request *r, struct qp_err *err);

/* Called by a handler before it starts what it will wait for; it then returns QP_OK. `quick`: as
 * for QP__ROUTE_QUICK. */
void qp__work_park(struct qp__request *r, qp__handler *then, bool quick);
/* Called once per park, by any thread, also before the handler has returned. The caller must not
 * use the request any more, unless it is that handler. */
void qp__work_unpark(struct qp__request *r, enum qp_rc rc, const struct qp_err *err);

#endif

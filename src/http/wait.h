/* wait.h - requests that wait without keeping a thread.
 *
 * A handler that has begun something calls begin and returns QP_OK; when that something is over,
 * any thread calls end, and the handler's second half runs in the thread of the connection. There
 * r->waited tells how it ended. What the two halves share is in the request: r->held, which is
 * given back with it, and r->kept. If the client goes away meanwhile the second half may never
 * run. */
#ifndef QP_HTTP_WAIT_H
#define QP_HTTP_WAIT_H

#include "http/route.h"

/* Before whatever will call end is begun. 503: the server is stopping, and nobody may wait. */
enum qp_rc qp__wait_begin(struct qp__request *r, qp__handler *then, struct qp_err *err);
/* The request must not be touched any more, but by a handler that is still in its first half. */
void qp__wait_end(struct qp__request *r, enum qp_rc rc, const struct qp_err *err);

#endif

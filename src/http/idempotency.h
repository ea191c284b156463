/* idempotency.h - the header Idempotency-Key: a request that changes something is carried out once,
 * and who repeats it gets the same response, for 24 hours and over restarts.
 *
 * This is the one place for all routes with POST, PUT, PATCH and DELETE, except actions, whose keys
 * the engine stores in their commits, and routes that are marked QP__ROUTE_OWN_KEY. A worker calls
 * begin before the handler and end after its last half, so that no connection thread waits. A
 * request that failed changed nothing, and may be repeated with the same key. */
#ifndef QP_HTTP_IDEMPOTENCY_H
#define QP_HTTP_IDEMPOTENCY_H

#include "http/request.h"

/* *replayed: r->reply is the response of the first time. 409: the key was used for another request,
 * or the first one is being carried out, or nobody knows how it ended. */
enum qp_rc qp__idempotency_begin(struct qp__request *r, bool *replayed, struct qp_err *err);
/* `rc` is the result of the handler. */
void qp__idempotency_end(struct qp__request *r, enum qp_rc rc);

#endif

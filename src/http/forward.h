/* forward.h - requests for what another server holds (store/lease.h).
 *
 * A context is in the memory of one server at a time. A handler that asks for a context of another
 * server fails with QP_BUSY, and has done nothing yet. Then the request is sent to that server as
 * it was received, and its response is passed on, event streams piece by piece. So every server
 * answers every request, and only one of them knows more than the database.
 *
 * A forwarded request has the header QP__FORWARDED, and is never forwarded again: a server that
 * does not hold the context (any more) says so with QP__ELSEWHERE, and the first server looks
 * again. It also looks again when the holder cannot be reached; once the lease of that one has
 * ended, it opens the context itself. A request that the holder may have carried out is not sent
 * twice, unless it only reads or has an Idempotency-Key.
 *
 * One thread with a libuv loop has all of them. */
#ifndef QP_HTTP_FORWARD_H
#define QP_HTTP_FORWARD_H

#include "http/request.h"

#define QP__FORWARDED "Quipu-Forwarded"
#define QP__ELSEWHERE "Quipu-Elsewhere"

struct qp__forward;

/* `lease_ms`: how long a lease lasts. */
enum qp_rc qp__forward_new(struct qp__http *http, int64_t lease_ms, struct qp__forward **out,
                           struct qp_err *err);
/* There must be no request. NULL is allowed. */
void qp__forward_free(struct qp__forward *f);
/* Ends what is under way: streams end, and waiting requests are answered. */
void qp__forward_stop(struct qp__forward *f);

/* In a worker, after a handler has failed: whether another server answers the request, which is
 * parked then (work.h). */
bool qp__forward_begin(struct qp__request *r, enum qp_rc rc);
/* Whether this server remembers that another one holds the context; f may be NULL. */
bool qp__forward_knows(struct qp__forward *f, const struct qp_uuid *id);
/* Whether the sender of this request is another server. */
bool qp__is_forwarded(const struct qp__request *r);

struct qp__forward_stats {
  uint64_t forwarded, repeated, lost; /* requests; sent or tried again; ended with their holder */
};
void qp__forward_stats_get(const struct qp__forward *f, struct qp__forward_stats *out);

#endif

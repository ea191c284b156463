/* metrics.h - the counters of the server, in the Prometheus text format. All counters are atomic
 * and only grow. */
#ifndef QP_HTTP_METRICS_H
#define QP_HTTP_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"

#define QP__ROUTES_MAX 128
#define QP__LATENCY_BUCKETS 12

struct qp__route_metrics {
  atomic_ullong
      by_class[6]; /* responses by the first digit of their status; 0: no response was sent */
  atomic_ullong bucket[QP__LATENCY_BUCKETS + 1];
  atomic_ullong sum_us;
};

struct qp__metrics {
  struct qp__route_metrics routes[QP__ROUTES_MAX + 1]; /* the last: no route */
  atomic_ullong connections;                           /* accepted since the start */
  atomic_llong open;                                   /* now */
  atomic_ullong cut;                                   /* because their client was too slow */
  atomic_ullong renders;                               /* rendered bodies of …/state */
  atomic_ullong render_hits;                           /* … that were reused */
};

/* Counts a response of route number `route` (QP__ROUTES_MAX: no route). */
void qp__metrics_count(struct qp__metrics *m, size_t route, unsigned status, int64_t us);

struct qp__http;
void qp__metrics_write(struct qp__http *http, struct qp__buf *out);

#endif

/* handlers.h - the handlers of the route table, by file. */
#ifndef QP_HTTP_HANDLERS_H
#define QP_HTTP_HANDLERS_H

#include "http/route.h"

/* h_health.c */
qp__handler qp__h_healthz, qp__h_readyz, qp__h_metrics;
/* h_context.c */
qp__handler qp__h_context_create, qp__h_context_get, qp__h_context_size, qp__h_context_update,
    qp__h_context_delete;

#endif

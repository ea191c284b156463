/* engine_use.h - how requests use the engine. The server stops the engine before it ends its own
 * threads, so a request must mark when it starts and stops using it. Subscriptions may be ended at
 * any time. */
#ifndef QP_HTTP_ENGINE_USE_H
#define QP_HTTP_ENGINE_USE_H

#include "http/request.h"
#include "quipu/turns.h"

/* 503: the server is stopping, or has no engine. After QP_OK, and only then, the caller must call
 * leave. */
enum qp_rc qp__turns_enter(struct qp__request *r, struct qp_engine **out, struct qp_err *err);
/* The same without an error: NULL if there is none. */
struct qp_engine *qp__turns_try(struct qp__http *http);
void qp__turns_leave(struct qp__http *http);

/* Ends the turn of a context that will be deleted: waiting requests are answered, and streams
 * end. */
void qp__turns_let_go(struct qp__http *http, const struct qp_uuid *context);

/* Makes the engine start MCP servers that are not running. */
void qp__turns_refresh(struct qp__http *http);

/* Waits until no request uses the engine, and stops it. */
void qp__turns_stop(struct qp__http *http);

#endif

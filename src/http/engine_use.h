/* engine_use.h - the engine, as requests use it. The server stops it before it ends its own
 * threads, so a request says when it begins and ends to use it. Subscriptions may be ended at any
 * time. */
#ifndef QP_HTTP_ENGINE_USE_H
#define QP_HTTP_ENGINE_USE_H

#include "http/request.h"
#include "quipu_turns.h"

/* 503: the server is stopping, or has no engine. On QP_OK and only then the caller calls leave. */
enum qp_rc qp__turns_enter(struct qp__request *r, struct qp_engine **out, struct qp_err *err);
void qp__turns_leave(struct qp__http *http);

/* Ends what goes on in a context that is to be deleted: whoever waits for it is answered, who
 * follows it is told its end. */
void qp__turns_let_go(struct qp__http *http, const struct qp_uuid *context);

/* Has the engine start MCP servers that are not running. */
void qp__turns_refresh(struct qp__http *http);

/* Waits until no request uses the engine, and stops it. */
void qp__turns_stop(struct qp__http *http);

#endif

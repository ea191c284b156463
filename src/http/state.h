/* state.h - the state of a context and the messages of a branch, as clients poll them.
 *
 *   {"id","state","state_detail"?,"branch","total","messages":[…],"pending_tool_calls":[…],
 *    "window"?,"last_event_id","updated_at"}
 *
 * "messages" are all messages of the branch, or its newest `last`; "total" counts all. A client
 * that follows the events after "last_event_id" misses nothing. A body is rendered once and kept
 * with the context (open_contexts.h) until the version of the context changes. If it changes
 * quickly, a body is used for QP__RENDER_US before the next one is rendered; but the result of a
 * finished action is shown at once. Its validator is the hash of the body. */
#ifndef QP_HTTP_STATE_H
#define QP_HTTP_STATE_H

#include "http/open_contexts.h"
#include "http/request.h"

#define QP__LAST_ALL UINT64_MAX

/* Appends the state; branch NULL: the active branch. `http` NULL: without "window", which says how
 * full the window of the model is (quipu/compaction.h). */
enum qp_rc qp__state_render(struct qp__http *http, struct qp__held *held, const char *branch,
                            uint64_t last, struct qp__buf *out, struct qp_err *err);
/* The same with the newest message of the branch, which was just saved and so is in memory, or with
 * none: `last` is 1 or 0. False: more must be read, or it failed; `out` is unchanged. */
bool qp__state_render_newest(struct qp__held *held, const char *branch, uint64_t last,
                             struct qp__buf *out);

/* Answers a poll with an existing body, in the thread of the connection. False: there is none, or
 * another thread is rendering it. */
bool qp__state_quick(struct qp__request *r, struct qp__held *held, uint64_t last);
/* Answers a poll, and renders the body if there is none. In a worker. */
enum qp_rc qp__state_answer(struct qp__request *r, struct qp__held *held, uint64_t last,
                            struct qp_err *err);

#endif

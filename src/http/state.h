/* state.h - what a client polls: the state of a context and the messages of a branch.
 *
 *   {"id","state","state_detail"?,"branch","total","messages":[…],"pending_tool_calls":[…],
 *    "last_event_id","updated_at"}
 *
 * "messages" are all of the branch, or its newest `last`; "total" counts all. Whoever follows the
 * context from behind "last_event_id" misses nothing. A body is rendered
 * once and kept with the context (open_contexts.h) until the context's version moves on. While it
 * does so quickly, a body is used for QP__RENDER_US before the next is made; but what a finished
 * action left is shown at once. Its validator is the hash of the body. */
#ifndef QP_HTTP_STATE_H
#define QP_HTTP_STATE_H

#include "http/open_contexts.h"
#include "http/request.h"

#define QP__LAST_ALL UINT64_MAX

/* Appends the state; branch NULL: the active one. */
enum qp_rc qp__state_render(struct qp__held *held, const char *branch, uint64_t last,
                            struct qp__buf *out, struct qp_err *err);
/* The same with the newest message of the branch, which was saved just now and so is in memory.
 * False: more must be read, or it fails; `out` is as it was. */
bool qp__state_render_newest(struct qp__held *held, const char *branch, struct qp__buf *out);

/* Answers a poll from a body that is there, in the thread of the connection. False: there is none,
 * or another thread is making it just now. */
bool qp__state_quick(struct qp__request *r, struct qp__held *held, uint64_t last);
/* Makes the answer of a poll, and the body if there is none. In a worker. */
enum qp_rc qp__state_answer(struct qp__request *r, struct qp__held *held, uint64_t last,
                            struct qp_err *err);

#endif

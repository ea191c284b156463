/* conditional_change.h - changing a context under a condition (If-Match), and reporting a change
 * that could not be saved.
 *
 * A change that the disk rejects (no space, an error, no permission) is answered with its status
 * (qp__http_status) and logged once, and the context is shown in the state Failed, with
 *   "state_detail": {"error": {"code","message"}, "failed_at"}
 * This cannot be stored, because the disk rejects writes. It is kept in memory until the next
 * successful change, until the context is released (open_contexts.h) or until the server ends. The
 * context contains nothing of the failed change. */
#ifndef QP_HTTP_CONDITIONAL_CHANGE_H
#define QP_HTTP_CONDITIONAL_CHANGE_H

#include <jansson.h>

#include "http/open_contexts.h"
#include "http/request.h"

/* Takes the lock for a change, and checks If-Match while no other change can happen. 412: the
 * version has changed. After QP_OK, and only then, the caller must call end with the result of the
 * change. */
enum qp_rc qp__change_begin(struct qp__request *r, struct qp__held *held, struct qp_err *err);
/* Returns rc. */
enum qp_rc qp__change_end(struct qp__request *r, struct qp__held *held, enum qp_rc rc,
                          const struct qp_err *err);
/* The two halves of end: any thread may call the first. */
void qp__change_release(struct qp__held *held);
enum qp_rc qp__change_tell(struct qp__request *r, struct qp__held *held, enum qp_rc rc,
                           const struct qp_err *err);
/* The same for a change that the engine has made and logged. */
enum qp_rc qp__change_told(struct qp__held *held, enum qp_rc rc, const struct qp_err *err);

/* The failure of the last change, as the detail of the state Failed; NULL if it did not fail.
 * Release it with json_decref(). */
enum qp_rc qp__change_failure(struct qp__held *held, json_t **detail, struct qp_err *err);

/* Tries to recover a store that stopped after a failure, at most once per second; otherwise does
 * nothing. A result other than QP_OK: it is still stopped, and why. */
enum qp_rc qp__change_recover(struct qp__http *http, struct qp_err *err);

#endif

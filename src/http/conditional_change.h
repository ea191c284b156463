/* conditional_change.h - changing a context: under a condition, and what is told when it cannot be
 * saved.
 *
 * A change that the disk refuses (no space, an error, no permission) is answered by the status of
 * its code in QP_RC_MAP, is logged once, and the context is shown in the state Failed, with
 *   "state_detail": {"error": {"code","message"}, "failed_at"}
 * That cannot be stored, for the disk refuses; it lasts as long as the context stays as it is, and
 * goes with the next change that succeeds: nothing of the failed one is in the context. It also
 * goes when the context is let go of (open_contexts.h) and when the server ends. */
#ifndef QP_HTTP_CONDITIONAL_CHANGE_H
#define QP_HTTP_CONDITIONAL_CHANGE_H

#include <jansson.h>

#include "http/open_contexts.h"
#include "http/request.h"

/* Takes the lock for a change, and checks If-Match while nobody else changes the context. 412: it
 * is another version by now. On QP_OK and only then the caller calls end, with what came of the
 * change. */
enum qp_rc qp__change_begin(struct qp__request *r, struct qp__held *held, struct qp_err *err);
/* Returns rc. */
enum qp_rc qp__change_end(struct qp__request *r, struct qp__held *held, enum qp_rc rc,
                          const struct qp_err *err);
/* The two halves of end: the first may be called by any thread. */
void qp__change_release(struct qp__held *held);
enum qp_rc qp__change_tell(struct qp__request *r, struct qp__held *held, enum qp_rc rc,
                           const struct qp_err *err);
/* The same for a change that the engine has made, and logged. */
enum qp_rc qp__change_told(struct qp__held *held, enum qp_rc rc, const struct qp_err *err);

/* Puts the failure of the last change, if there is one, into metadata that is to be shown. False:
 * no memory. */
bool qp__change_show(struct qp__held *held, json_t *metadata);

/* A store that an earlier failure has stopped is brought back, at most once a second; else this
 * does nothing. Another answer than QP_OK: it is stopped, and why that is still so. */
enum qp_rc qp__change_recover(struct qp__http *http, struct qp_err *err);

#endif

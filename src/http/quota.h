/* quota.h - how much one caller may ask of the server, so that one does not take it from others.
 *
 * Callers without a key are not limited: they are users of this machine. Of a key are counted the
 * requests of a minute and those under way at once, streams included; of an owner, or of a key that
 * has none, the turns that run at once. What is over one of these limits is answered with 429 and
 * Retry-After. Of an owner the bytes that it has stored are counted too, by the library. Waiting
 * does not help there, but deleting does, so this answer is 507, as for a full disk, with a code of
 * its own. The limits are in the settings; 0 means no limit. */
#ifndef QP_HTTP_QUOTA_H
#define QP_HTTP_QUOTA_H

#include <pthread.h>

#include "http/request.h"

#define QP__QUOTA_SLOTS 256

struct qp__quota_row;
struct qp__turn_ticket;

struct qp__quotas {
  pthread_mutex_t lock;
  struct qp__quota_row *rows[QP__QUOTA_SLOTS]; /* by name, chained; there till the end */
  struct qp__turn_ticket *turns;               /* that run, or have ended and are not swept yet */
};

enum qp_rc qp__quotas_init(struct qp__quotas *all, struct qp_err *err);
/* All requests and the engine must have ended. */
void qp__quotas_release(struct qp__quotas *all);
/* Forgets turns that have ended. To be called about once a second. */
void qp__quotas_tick(struct qp__quotas *all);

/* Counts a request whose caller is known. 429: it is one too many. */
enum qp_rc qp__quota_enter(struct qp__request *r, struct qp_err *err);
/* Before a request that stores something. 507: its owner has stored as much as is allowed, or would
 * have with this body. In a worker: the first question for an owner reads the catalogue. */
enum qp_rc qp__quota_bytes(struct qp__request *r, struct qp_err *err);
/* The request is over, whether it was counted or not. */
void qp__quota_leave(struct qp__request *r);

/* Counts a turn in the context r->held, from now until the context rests. 429: it is one too many.
 * *out is NULL where turns are not limited; it belongs to the table, and the caller may use it as
 * long as the request lasts. */
enum qp_rc qp__quota_turn(struct qp__request *r, struct qp_engine *engine,
                          struct qp__turn_ticket **out, struct qp_err *err);
/* The turn did not begin, or is over. NULL is allowed. The request does not use it any more. */
void qp__quota_turn_begun(struct qp__turn_ticket *ticket, bool runs);

#endif

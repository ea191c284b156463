/* quota.h - limits per caller, so that one caller cannot block the others.
 *
 * Callers without a key are not limited: they are users of this machine. For a key, the requests
 * per minute and the simultaneous requests are counted, including streams; for an owner, or a key
 * without an owner, the simultaneous turns. Above a limit the response is 429 with Retry-After. For
 * an owner the library also counts the stored bytes. There waiting does not help, but deleting
 * does, so the response is 507, as for a full disk, with a separate code. The limits are in the
 * settings; 0 means no limit. */
#ifndef QP_HTTP_QUOTA_H
#define QP_HTTP_QUOTA_H

#include <pthread.h>

#include "http/request.h"

#define QP__QUOTA_SLOTS 256

struct qp__quota_row;
struct qp__turn_ticket;

struct qp__quotas {
  pthread_mutex_t lock;
  struct qp__quota_row *rows[QP__QUOTA_SLOTS]; /* by name, chained; never removed */
  struct qp__turn_ticket *turns;               /* running, or ended and not yet removed */
};

void qp__quotas_init(struct qp__quotas *all);
/* All requests and the engine must have ended. */
void qp__quotas_release(struct qp__quotas *all);
/* Removes ended turns. To be called about once per second. */
void qp__quotas_tick(struct qp__quotas *all);

/* Counts a request whose caller is known. 429: over the limit. */
enum qp_rc qp__quota_enter(struct qp__request *r, struct qp_err *err);
/* Called before a request that stores something. 507: its owner has reached the limit, or would
 * with this body. In a worker: the first call for an owner reads the catalogue. */
enum qp_rc qp__quota_bytes(struct qp__request *r, struct qp_err *err);
/* The request has ended, whether it was counted or not. */
void qp__quota_leave(struct qp__request *r);

/* Counts a turn in the context r->held, from now until the turn stops. 429: over the limit. *out is
 * NULL if turns are not limited; it belongs to the table, and the caller may use it until the
 * request ends. */
enum qp_rc qp__quota_turn(struct qp__request *r, struct qp_engine *engine,
                          struct qp__turn_ticket **out, struct qp_err *err);
/* The turn did not start, or has ended. NULL is allowed. The request does not use it any more. */
void qp__quota_turn_begun(struct qp__turn_ticket *ticket, bool runs);

#endif

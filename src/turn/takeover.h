/* takeover.h - using a summary that was prepared ahead of need, when the threshold is reached.
 *
 * The worker that builds a request does this itself: it has read everything that is needed. So a
 * turn that crosses the threshold makes no step more than any other; the record is committed by the
 * next transition of the turn (qp__actor_take_over() in compacting.h). Nothing here reads the
 * covered messages. */
#ifndef QP_TURN_TAKEOVER_H
#define QP_TURN_TAKEOVER_H

#include "turn/conversation.h"

/* The prepared summary of a conversation, if the view is small enough with it; then *plan is the
 * plan that uses it. NULL: there is none, and *plan is as it was. */
const struct qp__record *qp__takeover_find(const struct qp__conversation *c,
                                           const struct qp__plan_input *input,
                                           struct qp__plan *plan);

/* Gives a record that was made from that plan the summary of `ready`. */
void qp__takeover_fill(struct qp__record *record, const struct qp__record *ready);

#endif

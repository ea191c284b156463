/* originals.h - a range of the stored messages of a branch, read for a worker. */
#ifndef QP_TURN_ORIGINALS_H
#define QP_TURN_ORIGINALS_H

#include "compact/ledger.h"
#include "turn/conversation.h"

/* Zeroed: nothing was read yet. */
struct qp__originals {
  struct qp__source source; /* of the messages below */
  struct qp_message **messages;
  size_t cap;
  const struct qp__conversation *conversation;
  struct qp_err *err;
};

/* Reads at most `count` messages from position `from` (from 0) on, in the place of those that were
 * read before. A message that is lost is an empty note of the program, so that all numbers are
 * right. QP_STOPPED: `stops` of the conversation was set. */
enum qp_rc qp__originals_read(struct qp__originals *o, const struct qp__conversation *c,
                              uint64_t from, uint64_t count, struct qp_err *err);
/* Adds one message of the context, wherever it is. */
enum qp_rc qp__originals_add(struct qp__originals *o, const struct qp__conversation *c,
                             const struct qp_uuid *id, struct qp_err *err);
/* Frees the messages, keeps the list. */
void qp__originals_reset(struct qp__originals *o);
void qp__originals_release(struct qp__originals *o);

#endif

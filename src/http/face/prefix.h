/* prefix.h - recognises a history that a client sends again.
 *
 * A chain is a hash of a message and of all messages before it: of their roles, texts, tool calls
 * and results, and not of thinking, ids and times, which clients do not send back. For a context
 * all chains of all branches are kept in memory, so that the longest stored part of a history is
 * found without reading a message. Chains of new messages are added when the context is asked for
 * next; only they are read. Nothing is stored: after a restart the first question reads the whole
 * history once, as the model call behind it does. */
#ifndef QP_HTTP_PREFIX_H
#define QP_HTTP_PREFIX_H

#include <pthread.h>

#include "quipu.h"

#define QP__CHAIN_BYTES 16

struct qp__prefix_hash {
  uint8_t b[QP__CHAIN_BYTES];
};

/* The chain of `message` behind `before` (zeros: it is the first). */
struct qp__prefix_hash qp__prefix_add(const struct qp__prefix_hash *before,
                                      const struct qp_message *message);

struct qp__prefix_table;

/* The tables of the contexts that were asked for last. */
struct qp__prefixes {
  pthread_mutex_t lock;
  struct qp__prefix_table *newest;
  size_t count, entries;
};

void qp__prefixes_init(struct qp__prefixes *all);
void qp__prefixes_release(struct qp__prefixes *all);

/* Finds the longest part of a history that is stored, by the chains of its messages: *matched
 * becomes the number of its messages, *last the id of the last one. Costs a few comparisons,
 * however long the history is. Reads what is new in the context: in a thread that may block. */
enum qp_rc qp__prefix_search(struct qp__prefixes *all, struct qp_context *context,
                             const struct qp__prefix_hash *chains, size_t count, size_t *matched,
                             struct qp_uuid *last, struct qp_err *err);
/* The same for messages, which are hashed first. */
enum qp_rc qp__prefix_find(struct qp__prefixes *all, struct qp_context *context,
                           struct qp_message *const *history, size_t count, size_t *matched,
                           struct qp_uuid *last, struct qp_err *err);

#endif

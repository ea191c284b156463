/* recall_cache.h - indexes of covered messages (compact/recall.h), kept from one search to the
 * next, so that only messages that were covered since are read and indexed.
 *
 * A worker takes an index out, uses or extends it, and puts it back: no two threads use one. An
 * index belongs to a context and to the branches that begin with its messages; the caller checks
 * that its last message is at its place. The least recently used ones are freed when there are too
 * many, or when all of them together take more than QP__RECALL_CACHE_BYTES. They have no texts,
 * only hashes of words and the ids of messages. From any thread. */
#ifndef QP_TURN_RECALL_CACHE_H
#define QP_TURN_RECALL_CACHE_H

#include "base/mutex.h"
#include "compact/recall.h"

#define QP__RECALL_CACHE_COUNT 16
#define QP__RECALL_CACHE_BYTES ((size_t)96 << 20)

struct qp__recall_entry {
  struct qp_uuid context;
  struct qp_uuid last;      /* the last message of the index */
  struct qp__recall *index; /* NULL: the place is free */
  uint64_t used;            /* by `clock` */
};

struct qp__recall_cache {
  struct qp__mutex lock;
  struct qp__recall_entry entries[QP__RECALL_CACHE_COUNT];
  uint64_t clock;
};

void qp__recall_cache_init(struct qp__recall_cache *cache);
void qp__recall_cache_release(struct qp__recall_cache *cache);
/* The index of a context, which the caller owns from now on, and its last message. NULL: there is
 * none. */
struct qp__recall *qp__recall_cache_take(struct qp__recall_cache *cache,
                                         const struct qp_uuid *context, struct qp_uuid *last);
/* Gives an index back, or a new one; the cache owns it. */
void qp__recall_cache_put(struct qp__recall_cache *cache, const struct qp_uuid *context,
                          const struct qp_uuid *last, struct qp__recall *index);
/* The context is deleted. */
void qp__recall_cache_drop(struct qp__recall_cache *cache, const struct qp_uuid *context);

#endif

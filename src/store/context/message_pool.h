/* message_pool.h - keeps the stored bytes of messages in memory after their first use.
 *
 * One pool serves all contexts of a store under one budget; the least recently used bytes are
 * dropped first. A blob stays valid while a reference to it exists, also after the pool has dropped
 * it. Any thread. */
#ifndef QP_STORE_CONTEXT_MESSAGE_POOL_H
#define QP_STORE_CONTEXT_MESSAGE_POOL_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/mutex.h"
#include "quipu.h"

struct qp__blob {
  atomic_uint refs;
  size_t len;
  char data[]; /* and a NUL */
};

/* Room for len bytes, to be filled by the caller, with one reference; NULL: no memory. */
struct qp__blob *qp__blob_new(size_t len);
void qp__blob_unref(struct qp__blob *b); /* NULL is allowed */

#define QP__POOL_SHARDS 16

struct qp__pool_shard {
  struct qp__mutex lock;
  struct qp__pool_item **buckets;
  size_t bucket_count; /* a power of two, or 0 */
  size_t count;
  size_t bytes;
  struct qp__pool_item *newest;
  struct qp__pool_item *oldest;
};

struct qp__pool {
  struct qp__pool_shard shards[QP__POOL_SHARDS];
  size_t shard_budget;
};

void qp__pool_init(struct qp__pool *p, size_t budget);
void qp__pool_release(struct qp__pool *p);

/* A new reference, or NULL. `context` is a number that no other context of the store has or had. */
struct qp__blob *qp__pool_get(struct qp__pool *p, uint64_t context, uint32_t slot);
/* Keeps the blob if there is room, with its own reference. It is not an error if there is none. */
void qp__pool_put(struct qp__pool *p, uint64_t context, uint32_t slot, struct qp__blob *blob);
size_t qp__pool_bytes(struct qp__pool *p);

#endif

/* size_cache.h - the tokens of messages that were counted before, so that no message is counted
 * again for every request.
 *
 * The key is the hash of the stored bytes: a size is a function of them, so no entry can become
 * wrong, and copies of a message share one. The table has a fixed number of places; a new entry
 * replaces the one in its place. It is in memory only: after a restart the messages that are sent
 * are counted once. From any thread. */
#ifndef QP_TURN_SIZE_CACHE_H
#define QP_TURN_SIZE_CACHE_H

#include "base/mutex.h"
#include "compact/plan.h"

struct qp__size_place;

struct qp__size_cache {
  struct qp__mutex lock;
  struct qp__size_place *places; /* NULL: nothing was counted yet, or no memory */
};

void qp__size_cache_init(struct qp__size_cache *cache);
void qp__size_cache_release(struct qp__size_cache *cache);
/* The size of a message whose stored bytes have this hash; counts it if necessary. */
struct qp__plan_size qp__size_cache_get(struct qp__size_cache *cache, const uint8_t hash[16],
                                        const struct qp_message *message);
/* The tokens of a text that is sent again and again and is no stored message: a summary. */
int64_t qp__size_cache_text(struct qp__size_cache *cache, struct qp_bytes text);

#endif

/* covered_cache.h - what was made of the covered messages of a context, kept from one use to the
 * next, so that only messages that were covered since are read: indexes for recall
 * (compact/recall.h) and ledgers (compact/ledger.h).
 *
 * A worker takes a thing out, uses or extends it, and puts it back: no two threads use one. A thing
 * belongs to a context and to the branches that begin with its messages; the caller checks that its
 * last message is at its place. The least recently used ones are freed when there are too many, or
 * when all of them together take too much memory. They can always be made again from the stored
 * messages. From any thread. */
#ifndef QP_TURN_COVERED_CACHE_H
#define QP_TURN_COVERED_CACHE_H

#include "base/mutex.h"
#include "base/uuid.h"

#define QP__COVERED_CACHE_COUNT 64

struct qp__covered_entry {
  struct qp_uuid context;
  struct qp_uuid last; /* the last message of the thing … */
  uint64_t covered;    /* … and its number */
  void *thing;         /* NULL: the place is free */
  size_t bytes;
  uint64_t used; /* by `clock` */
};

struct qp__covered_cache {
  struct qp__mutex lock;
  void (*free_thing)(void *thing); /* NULL is allowed as its argument */
  size_t bytes_max;
  struct qp__covered_entry entries[QP__COVERED_CACHE_COUNT];
  uint64_t clock;
};

void qp__covered_cache_init(struct qp__covered_cache *cache, size_t bytes_max,
                            void (*free_thing)(void *thing));
void qp__covered_cache_release(struct qp__covered_cache *cache);
/* The thing of a context, which the caller owns from now on; thing NULL: there is none. */
struct qp__covered_entry qp__covered_cache_take(struct qp__covered_cache *cache,
                                                const struct qp_uuid *context);
/* Gives a thing back, or a new one; the cache owns it. `used` is not read. */
void qp__covered_cache_put(struct qp__covered_cache *cache, const struct qp__covered_entry *entry);
/* The context is deleted. */
void qp__covered_cache_drop(struct qp__covered_cache *cache, const struct qp_uuid *context);

#endif

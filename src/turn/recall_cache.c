/* recall_cache.c - see recall_cache.h. */
#include "turn/recall_cache.h"

#include <string.h>

void
qp__recall_cache_init(struct qp__recall_cache *cache)
{
  memset(cache, 0, sizeof(*cache));
  qp__mutex_init(&cache->lock, QP__RANK_SIZES);
}

void
qp__recall_cache_release(struct qp__recall_cache *cache)
{
  for (size_t i = 0; i < QP__RECALL_CACHE_COUNT; i++)
    qp__recall_free(cache->entries[i].index);
  qp__mutex_release(&cache->lock);
}

struct qp__recall *
qp__recall_cache_take(struct qp__recall_cache *cache, const struct qp_uuid *context,
                      struct qp_uuid *last)
{
  struct qp__recall *index = NULL;

  qp__mutex_lock(&cache->lock);
  for (size_t i = 0; i < QP__RECALL_CACHE_COUNT && !index; i++) {
    struct qp__recall_entry *e = &cache->entries[i];

    if (!e->index || !qp_uuid_equal(&e->context, context))
      continue;
    index = e->index;
    *last = e->last;
    e->index = NULL;
  }
  qp__mutex_unlock(&cache->lock);
  return index;
}

/* The entry that was not used for the longest time, or NULL: the table is empty. */
static struct qp__recall_entry *
oldest(struct qp__recall_cache *cache)
{
  struct qp__recall_entry *found = NULL;

  for (size_t i = 0; i < QP__RECALL_CACHE_COUNT; i++) {
    struct qp__recall_entry *e = &cache->entries[i];

    if (e->index && (!found || e->used < found->used))
      found = e;
  }
  return found;
}

/* A free place, where there is room for so many bytes more. One index is kept whatever its size. */
static struct qp__recall_entry *
make_room(struct qp__recall_cache *cache, size_t bytes)
{
  for (;;) {
    struct qp__recall_entry *place = NULL;
    struct qp__recall_entry *old = oldest(cache);
    size_t sum = bytes;

    for (size_t i = 0; i < QP__RECALL_CACHE_COUNT; i++) {
      if (cache->entries[i].index)
        sum += qp__recall_bytes(cache->entries[i].index);
      else
        place = &cache->entries[i];
    }
    if (!old || (place && sum <= QP__RECALL_CACHE_BYTES))
      return place;
    qp__recall_free(old->index);
    old->index = NULL;
  }
}

void
qp__recall_cache_put(struct qp__recall_cache *cache, const struct qp_uuid *context,
                     const struct qp_uuid *last, struct qp__recall *index)
{
  qp__recall_cache_drop(cache, context); /* another worker was faster */
  qp__mutex_lock(&cache->lock);
  *make_room(cache, qp__recall_bytes(index)) =
      (struct qp__recall_entry){ *context, *last, index, ++cache->clock };
  qp__mutex_unlock(&cache->lock);
}

void
qp__recall_cache_drop(struct qp__recall_cache *cache, const struct qp_uuid *context)
{
  struct qp_uuid last;

  qp__recall_free(qp__recall_cache_take(cache, context, &last));
}

/* covered_cache.c - see covered_cache.h. */
#include "turn/covered_cache.h"

#include <string.h>

void
qp__covered_cache_init(struct qp__covered_cache *cache, size_t bytes_max,
                       void (*free_thing)(void *thing))
{
  memset(cache, 0, sizeof(*cache));
  cache->free_thing = free_thing;
  cache->bytes_max = bytes_max;
  qp__mutex_init(&cache->lock, QP__RANK_SIZES);
}

void
qp__covered_cache_release(struct qp__covered_cache *cache)
{
  for (size_t i = 0; i < QP__COVERED_CACHE_COUNT; i++)
    cache->free_thing(cache->entries[i].thing);
  qp__mutex_release(&cache->lock);
}

struct qp__covered_entry
qp__covered_cache_take(struct qp__covered_cache *cache, const struct qp_uuid *context)
{
  struct qp__covered_entry taken = { .context = *context };

  qp__mutex_lock(&cache->lock);
  for (size_t i = 0; i < QP__COVERED_CACHE_COUNT && !taken.thing; i++) {
    struct qp__covered_entry *e = &cache->entries[i];

    if (!e->thing || !qp_uuid_equal(&e->context, context))
      continue;
    taken = *e;
    e->thing = NULL;
  }
  qp__mutex_unlock(&cache->lock);
  return taken;
}

/* The entry that was not used for the longest time, or NULL: the table is empty. */
static struct qp__covered_entry *
oldest(struct qp__covered_cache *cache)
{
  struct qp__covered_entry *found = NULL;

  for (size_t i = 0; i < QP__COVERED_CACHE_COUNT; i++) {
    struct qp__covered_entry *e = &cache->entries[i];

    if (e->thing && (!found || e->used < found->used))
      found = e;
  }
  return found;
}

/* A free place, where there is room for so many bytes more. One thing is kept whatever its size. */
static struct qp__covered_entry *
make_room(struct qp__covered_cache *cache, size_t bytes)
{
  for (;;) {
    struct qp__covered_entry *place = NULL;
    struct qp__covered_entry *old = oldest(cache);
    size_t sum = bytes;

    for (size_t i = 0; i < QP__COVERED_CACHE_COUNT; i++) {
      if (cache->entries[i].thing)
        sum += cache->entries[i].bytes;
      else
        place = &cache->entries[i];
    }
    if (!old || (place && sum <= cache->bytes_max))
      return place;
    cache->free_thing(old->thing);
    old->thing = NULL;
  }
}

void
qp__covered_cache_put(struct qp__covered_cache *cache, const struct qp__covered_entry *entry)
{
  struct qp__covered_entry *place;

  qp__covered_cache_drop(cache, &entry->context); /* another worker was faster */
  qp__mutex_lock(&cache->lock);
  place = make_room(cache, entry->bytes);
  *place = *entry;
  place->used = ++cache->clock;
  qp__mutex_unlock(&cache->lock);
}

void
qp__covered_cache_drop(struct qp__covered_cache *cache, const struct qp_uuid *context)
{
  cache->free_thing(qp__covered_cache_take(cache, context).thing);
}

/* size_cache.c - see size_cache.h. */
#include "turn/size_cache.h"

#include <string.h>

#include "base/alloc.h"

#define PLACES 32768 /* a power of two; 2 MB, of which only used pages take memory */

struct qp__size_place {
  uint8_t hash[16];
  struct qp__plan_size size; /* never all zero when the place is used: a message has a frame */
};

void
qp__size_cache_init(struct qp__size_cache *cache)
{
  qp__mutex_init(&cache->lock, QP__RANK_SIZES);
  cache->places = NULL;
}

void
qp__size_cache_release(struct qp__size_cache *cache)
{
  qp__free(cache->places);
  cache->places = NULL;
  qp__mutex_release(&cache->lock);
}

struct qp__plan_size
qp__size_cache_get(struct qp__size_cache *cache, const uint8_t hash[16],
                   const struct qp_message *message)
{
  struct qp__plan_size size = { .recall = 0 };
  uint32_t at;

  memcpy(&at, hash, sizeof(at));
  at &= PLACES - 1;
  qp__mutex_lock(&cache->lock);
  if (cache->places && memcmp(cache->places[at].hash, hash, 16) == 0)
    size = cache->places[at].size;
  qp__mutex_unlock(&cache->lock);
  if (size.count.text)
    return size;
  qp__plan_measure(message, &size);
  qp__mutex_lock(&cache->lock);
  if (!cache->places)
    cache->places = qp__alloc0(PLACES, sizeof(*cache->places));
  if (cache->places) {
    memcpy(cache->places[at].hash, hash, 16);
    cache->places[at].size = size;
  }
  qp__mutex_unlock(&cache->lock);
  return size;
}

/* size_cache.c - see size_cache.h. */
#include "turn/size_cache.h"

#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "compact/count.h"

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

static size_t
place_of(const uint8_t hash[16])
{
  uint32_t at;

  memcpy(&at, hash, sizeof(at));
  return at & (PLACES - 1);
}

static bool
find(struct qp__size_cache *cache, const uint8_t hash[16], struct qp__plan_size *out)
{
  bool found;

  qp__mutex_lock(&cache->lock);
  found = cache->places && memcmp(cache->places[place_of(hash)].hash, hash, 16) == 0;
  if (found)
    *out = cache->places[place_of(hash)].size;
  qp__mutex_unlock(&cache->lock);
  return found && out->count.text;
}

static void
keep(struct qp__size_cache *cache, const uint8_t hash[16], const struct qp__plan_size *size)
{
  qp__mutex_lock(&cache->lock);
  if (!cache->places)
    cache->places = qp__alloc0(PLACES, sizeof(*cache->places));
  if (cache->places) {
    struct qp__size_place *place = &cache->places[place_of(hash)];

    memcpy(place->hash, hash, 16);
    place->size = *size;
  }
  qp__mutex_unlock(&cache->lock);
}

struct qp__plan_size
qp__size_cache_get(struct qp__size_cache *cache, const uint8_t hash[16],
                   const struct qp_message *message)
{
  struct qp__plan_size size = { .recall = 0 };

  if (find(cache, hash, &size))
    return size;
  size = (struct qp__plan_size){ .recall = 0 };
  qp__plan_measure(message, &size);
  keep(cache, hash, &size);
  return size;
}

int64_t
qp__size_cache_text(struct qp__size_cache *cache, struct qp_bytes text)
{
  struct qp__plan_size size = { .recall = 0 };
  uint8_t hash[16];

  (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)text.data, text.len, NULL, 0);
  if (find(cache, hash, &size))
    return size.count.text;
  size = (struct qp__plan_size){ .count.text = qp__count_text(text) };
  keep(cache, hash, &size);
  return size.count.text;
}

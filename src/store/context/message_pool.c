/* message_pool.c - see message_pool.h. A shard is a chained hash table and a list in order of use
 * under one lock, which is never held over input or output. */
#include "store/context/message_pool.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"

#define ITEM_COST 96 /* memory of an item without its bytes */
#define BUCKETS_MIN 64

struct qp__pool_item {
  struct qp__pool_item *chain;
  struct qp__pool_item *newer;
  struct qp__pool_item *older;
  uint64_t context;
  uint32_t slot;
  struct qp__blob *blob;
};

struct qp__blob *
qp__blob_new(size_t len)
{
  struct qp__blob *b = qp__alloc(sizeof(*b) + len + 1);

  if (!b)
    return NULL;
  atomic_init(&b->refs, 1);
  b->len = len;
  b->data[len] = 0;
  return b;
}

void
qp__blob_unref(struct qp__blob *b)
{
  QP_ASSERT(!b || atomic_load(&b->refs) > 0);
  if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
    qp__free(b);
}

void
qp__pool_init(struct qp__pool *p, size_t budget)
{
  memset(p, 0, sizeof(*p));
  p->shard_budget = budget / QP__POOL_SHARDS;
  for (int i = 0; i < QP__POOL_SHARDS; i++)
    qp__mutex_init(&p->shards[i].lock, QP__RANK_POOL);
}

/* ---- items ---- */

static uint64_t
hash_key(uint64_t context, uint32_t slot)
{
  uint64_t h = (context * 0x9e3779b97f4a7c15u) ^ slot;

  h *= 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 29);
}

static void
unlink_use(struct qp__pool_shard *s, struct qp__pool_item *it)
{
  QP_ASSERT_HELD(&s->lock);
  QP_ASSERT(s->count && s->newest && s->oldest);
  qp__list_remove_both(s->newest, s->oldest, newer, older, it);
}

static void
link_newest(struct qp__pool_shard *s, struct qp__pool_item *it)
{
  QP_ASSERT_HELD(&s->lock);
  qp__list_push_both(s->newest, s->oldest, newer, older, it);
}

/* Where the pointer to the item is, or to the NULL at the chain's end. */
static struct qp__pool_item **
find_place(struct qp__pool_shard *s, uint64_t context, uint32_t slot)
{
  struct qp__pool_item **at = &s->buckets[(hash_key(context, slot) >> 8) & (s->bucket_count - 1)];

  QP_ASSERT_HELD(&s->lock);
  QP_ASSERT(s->bucket_count && !(s->bucket_count & (s->bucket_count - 1)));
  while (*at && ((*at)->context != context || (*at)->slot != slot))
    at = &(*at)->chain;
  return at;
}

static void
remove_item(struct qp__pool_shard *s, struct qp__pool_item **at)
{
  struct qp__pool_item *it = *at;

  QP_ASSERT_HELD(&s->lock);
  QP_ASSERT(it && s->count && s->bytes >= it->blob->len + ITEM_COST);
  QP_ASSERT(atomic_load(&it->blob->refs) > 0);
  *at = it->chain;
  unlink_use(s, it);
  s->count--;
  s->bytes -= it->blob->len + ITEM_COST;
  qp__blob_unref(it->blob);
  qp__free(it);
}

/* Without memory the chains just get longer. */
static void
grow_buckets(struct qp__pool_shard *s)
{
  size_t count = s->bucket_count ? s->bucket_count * 2 : BUCKETS_MIN;
  struct qp__pool_item **old = s->buckets;
  size_t old_count = s->bucket_count;
  struct qp__pool_item **buckets;

  QP_ASSERT_HELD(&s->lock);
  if (s->count < s->bucket_count)
    return;
  buckets = qp__alloc0(count, sizeof(struct qp__pool_item *));
  if (!buckets)
    return;
  s->buckets = buckets;
  s->bucket_count = count;
  for (size_t i = 0; i < old_count; i++) {
    while (old[i]) {
      struct qp__pool_item *it = old[i];
      struct qp__pool_item **at;

      old[i] = it->chain;
      at = find_place(s, it->context, it->slot);
      it->chain = *at;
      *at = it;
    }
  }
  qp__free(old);
}

static struct qp__pool_shard *
shard_of(struct qp__pool *p, uint64_t context, uint32_t slot)
{
  return &p->shards[hash_key(context, slot) % QP__POOL_SHARDS];
}

/* ---- use ---- */

void
qp__pool_release(struct qp__pool *p)
{
  for (int i = 0; i < QP__POOL_SHARDS; i++) {
    struct qp__pool_shard *s = &p->shards[i];

    qp__mutex_lock(&s->lock);
    while (s->oldest)
      remove_item(s, find_place(s, s->oldest->context, s->oldest->slot));
    QP_ASSERT(!s->count && !s->bytes);
    qp__mutex_unlock(&s->lock);
    qp__free(s->buckets);
    qp__mutex_release(&s->lock);
  }
}

struct qp__blob *
qp__pool_get(struct qp__pool *p, uint64_t context, uint32_t slot)
{
  struct qp__pool_shard *s = shard_of(p, context, slot);
  struct qp__blob *blob = NULL;
  struct qp__pool_item *it;

  qp__mutex_lock(&s->lock);
  it = s->bucket_count ? *find_place(s, context, slot) : NULL;
  if (it) {
    blob = it->blob;
    atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    if (s->newest != it) {
      unlink_use(s, it);
      link_newest(s, it);
    }
  }
  qp__mutex_unlock(&s->lock);
  return blob;
}

void
qp__pool_put(struct qp__pool *p, uint64_t context, uint32_t slot, struct qp__blob *blob)
{
  struct qp__pool_shard *s = shard_of(p, context, slot);
  struct qp__pool_item *it;
  struct qp__pool_item **at;

  QP_ASSERT(atomic_load(&blob->refs) > 0);
  if (blob->len + ITEM_COST > p->shard_budget)
    return;
  it = qp__alloc(sizeof(*it));
  if (!it)
    return;
  qp__mutex_lock(&s->lock);
  grow_buckets(s);
  if (!s->bucket_count || *(at = find_place(s, context, slot))) { /* no table, or in it already */
    qp__free(it);
  } else {
    it->context = context;
    it->slot = slot;
    it->blob = blob;
    it->chain = NULL;
    *at = it;
    atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    link_newest(s, it);
    s->count++;
    s->bytes += blob->len + ITEM_COST;
    while (s->bytes > p->shard_budget)
      remove_item(s, find_place(s, s->oldest->context, s->oldest->slot));
  }
  qp__mutex_unlock(&s->lock);
}

size_t
qp__pool_bytes(struct qp__pool *p)
{
  size_t bytes = 0;

  for (int i = 0; i < QP__POOL_SHARDS; i++) {
    qp__mutex_lock(&p->shards[i].lock);
    bytes += p->shards[i].bytes;
    qp__mutex_unlock(&p->shards[i].lock);
  }
  return bytes;
}

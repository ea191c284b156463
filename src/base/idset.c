/* idset.c - see idset.h. Open addressing, at most half full. */
#include "base/idset.h"

#include <sodium.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/assert.h"

#define FIRST 64 /* slots at first; a power of two */

/* 16 random bytes that the system gives to each process when it starts. */
static const unsigned char *
process_key(void)
{
  static const unsigned char none[crypto_shorthash_KEYBYTES];
  const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM); /* NOLINT */

  _Static_assert(crypto_shorthash_KEYBYTES == 16, "AT_RANDOM has 16 bytes");
  return random ? random : none;
}

/* The slot of the id, or the free slot where it belongs. */
static size_t
find_slot(const struct qp_uuid *table, size_t cap, const struct qp_uuid *id)
{
  uint64_t h;
  size_t at;

  (void)crypto_shorthash((unsigned char *)&h, id->b, sizeof(id->b), process_key());
  for (at = (size_t)h & (cap - 1); !qp_uuid_is_none(&table[at]) && !qp_uuid_equal(&table[at], id);)
    at = (at + 1) & (cap - 1);
  return at;
}

static bool
grow(struct qp__idset *set)
{
  size_t cap = set->cap ? set->cap * 2 : FIRST;
  struct qp_uuid *table = qp__alloc0(cap, sizeof(*table));

  if (!table)
    return false;
  for (size_t i = 0; i < set->cap; i++)
    if (!qp_uuid_is_none(&set->table[i]))
      table[find_slot(table, cap, &set->table[i])] = set->table[i];
  qp__free(set->table);
  set->table = table;
  set->cap = cap;
  return true;
}

bool
qp__idset_add(struct qp__idset *set, const struct qp_uuid *id)
{
  size_t at;

  if (set->count * 2 >= set->cap && !grow(set))
    return false;
  at = find_slot(set->table, set->cap, id);
  set->count += qp_uuid_is_none(&set->table[at]);
  set->table[at] = *id;
  return true;
}

bool
qp__idset_has(const struct qp__idset *set, const struct qp_uuid *id)
{
  return set->count && !qp_uuid_is_none(&set->table[find_slot(set->table, set->cap, id)]);
}

void
qp__idset_release(struct qp__idset *set)
{
  qp__free(set->table);
  memset(set, 0, sizeof(*set));
}

struct qp_uuid
qp__idset_text(const char *text, size_t n)
{
  struct qp_uuid id;

  (void)crypto_generichash(id.b, sizeof(id.b), (const unsigned char *)text, n, process_key(),
                           crypto_shorthash_KEYBYTES);
  return id;
}

void
qp__idset_invariants(const struct qp__idset *set)
{
  size_t count = 0;

  QP_ASSERT((set->cap & (set->cap - 1)) == 0 && set->count <= set->cap / 2);
  for (size_t i = 0; i < set->cap; i++) {
    if (qp_uuid_is_none(&set->table[i]))
      continue;
    QP_ASSERT(find_slot(set->table, set->cap, &set->table[i]) == i);
    count++;
  }
  QP_ASSERT(count == set->count);
}

/* catalogue_set.c - sets of contexts. */
#include <string.h>

#include "base/alloc.h"
#include "store/catalogue/catalogue_int.h"

#define FIRST 64 /* initial size of the table; a power of two */

/* The slot of the id in the table, or the free slot for it. */
static size_t
find_place(const struct qp_uuid *table, size_t cap, const struct qp_uuid *id)
{
  uint32_t h;
  size_t at;

  memcpy(&h, id->b + 12, sizeof(h)); /* the random end of a UUID */
  for (at = h & (cap - 1); !qp_uuid_is_none(&table[at]) && !qp_uuid_equal(&table[at], id);)
    at = (at + 1) & (cap - 1);
  return at;
}

static bool
grow(struct qp__cat_set *set)
{
  size_t cap = set->cap ? set->cap * 2 : FIRST;
  struct qp_uuid *table = qp__alloc0(cap, sizeof(*table));

  if (!table)
    return false;
  for (size_t i = 0; i < set->cap; i++)
    if (!qp_uuid_is_none(&set->table[i]))
      table[find_place(table, cap, &set->table[i])] = set->table[i];
  qp__free(set->table);
  set->table = table;
  set->cap = cap;
  return true;
}

bool
qp__cat_set_add(struct qp__cat_set *set, const struct qp_uuid *id)
{
  size_t at;

  if (set->count * 2 >= set->cap && !grow(set))
    return false;
  at = find_place(set->table, set->cap, id);
  set->count += qp_uuid_is_none(&set->table[at]);
  set->table[at] = *id;
  return true;
}

bool
qp__cat_set_has(const struct qp__cat_set *set, const struct qp_uuid *id)
{
  return set->count && !qp_uuid_is_none(&set->table[find_place(set->table, set->cap, id)]);
}

void
qp__cat_set_release(struct qp__cat_set *set)
{
  qp__free(set->table);
  memset(set, 0, sizeof(*set));
}

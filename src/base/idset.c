/* idset.c - see idset.h. Open addressing, at most half full. */
#include "base/idset.h"

#include <sodium.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vec.h"

#define FIRST 64 /* cells at first; a power of two */

/* 16 random bytes that the system gives to each process when it starts. */
static const unsigned char *
process_key(void)
{
  static const unsigned char none[crypto_shorthash_KEYBYTES];
  const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM); /* NOLINT */

  _Static_assert(crypto_shorthash_KEYBYTES == 16, "AT_RANDOM has 16 bytes");
  return random ? random : none;
}

/* The cell of the id, or the free cell where it belongs. */
static size_t
find_cell(const struct qp__idset *set, const struct qp_uuid *id)
{
  size_t mask = set->cell_count - 1;
  uint64_t h;
  size_t at;

  (void)crypto_shorthash((unsigned char *)&h, id->b, sizeof(id->b), process_key());
  for (at = (size_t)h & mask; set->cells[at]; at = (at + 1) & mask)
    if (qp_uuid_equal(&set->ids[set->cells[at] - 1], id))
      break;
  return at;
}

static bool
grow(struct qp__idset *set)
{
  struct qp__idset larger = *set;

  larger.cell_count = set->cell_count ? set->cell_count * 2 : FIRST;
  larger.cells = qp__alloc0(larger.cell_count, sizeof(*larger.cells));
  if (!larger.cells)
    return false;
  for (size_t i = 0; i < set->count; i++)
    larger.cells[find_cell(&larger, &set->ids[i])] = (uint32_t)i + 1;
  qp__free(set->cells);
  *set = larger;
  return true;
}

bool
qp__idset_add(struct qp__idset *set, const struct qp_uuid *id)
{
  size_t at;

  if (!qp__vec_reserve(set->ids, set->count, set->cap, 1) || set->count == QP__NO_MEMBER ||
      (set->count * 2 >= set->cell_count && !grow(set)))
    return false;
  at = find_cell(set, id);
  if (!set->cells[at]) {
    set->ids[set->count++] = *id;
    set->cells[at] = (uint32_t)set->count;
  }
  return true;
}

uint32_t
qp__idset_find(const struct qp__idset *set, const struct qp_uuid *id)
{
  return set->count ? set->cells[find_cell(set, id)] - 1 : QP__NO_MEMBER;
}

bool
qp__idset_has(const struct qp__idset *set, const struct qp_uuid *id)
{
  return qp__idset_find(set, id) != QP__NO_MEMBER;
}

void
qp__idset_release(struct qp__idset *set)
{
  qp__free(set->ids);
  qp__free(set->cells);
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
  size_t used = 0;

  QP_ASSERT((set->cell_count & (set->cell_count - 1)) == 0);
  QP_ASSERT(set->count <= set->cap && set->count <= set->cell_count / 2);
  for (size_t i = 0; i < set->count; i++)
    QP_ASSERT(set->cells[find_cell(set, &set->ids[i])] == i + 1);
  for (size_t i = 0; i < set->cell_count; i++)
    used += set->cells[i] != 0;
  QP_ASSERT(used == set->count);
}

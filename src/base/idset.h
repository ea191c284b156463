/* idset.h - a set of ids: a hash table. All zero is an empty set.
 *
 * Members are numbered in the order in which they were added, so a set is also a map: the caller
 * keeps an array of what belongs to each number.
 *
 * Ids may come from outside, so the place of an id depends on a random key of the process: ids
 * cannot be chosen so that they all collide. */
#ifndef QP_BASE_IDSET_H
#define QP_BASE_IDSET_H

#include <stdbool.h>
#include <stddef.h>

#include "quipu.h"

#define QP__NO_MEMBER UINT32_MAX

struct qp__idset {
  struct qp_uuid *ids; /* by number */
  size_t count, cap;
  uint32_t *cells; /* number + 1, or 0 */
  size_t cell_count;
};

/* False: out of memory; the set is as it was. `count` grows if the id is new. */
bool qp__idset_add(struct qp__idset *set, const struct qp_uuid *id);
/* The number of the id, or QP__NO_MEMBER. */
uint32_t qp__idset_find(const struct qp__idset *set, const struct qp_uuid *id);
bool qp__idset_has(const struct qp__idset *set, const struct qp_uuid *id);
void qp__idset_release(struct qp__idset *set);
/* Asserts that each id is found by its number, and that nothing else is in the table. */
void qp__idset_invariants(const struct qp__idset *set);

/* An id that represents a text in a set: a hash of 16 bytes, different in each process. */
struct qp_uuid qp__idset_text(const char *text, size_t n);

#endif

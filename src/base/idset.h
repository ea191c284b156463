/* idset.h - a set of ids: a hash table. All zero is an empty set.
 *
 * Ids may come from outside, so the slot of an id depends on a random key of the process: ids
 * cannot be chosen so that they all collide. */
#ifndef QP_BASE_IDSET_H
#define QP_BASE_IDSET_H

#include <stdbool.h>
#include <stddef.h>

#include "quipu.h"

struct qp__idset {
  struct qp_uuid *table; /* the zero id is a free slot; it cannot be a member */
  size_t count, cap;
};

/* False: out of memory; the set is as it was. `count` grows if the id is new. */
bool qp__idset_add(struct qp__idset *set, const struct qp_uuid *id);
bool qp__idset_has(const struct qp__idset *set, const struct qp_uuid *id);
void qp__idset_release(struct qp__idset *set);
/* Asserts that each id is found in its slot, and that `count` is correct. */
void qp__idset_invariants(const struct qp__idset *set);

/* An id that represents a text in a set: a hash of 16 bytes, different in each process. */
struct qp_uuid qp__idset_text(const char *text, size_t n);

#endif

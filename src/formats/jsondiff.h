/* jsondiff.h - where two JSON values differ, and a list of changes that makes the one of the other.
 *
 * A list of changes is an array of objects, in an order that depends on the values alone and not on
 * the order of their keys:
 *   {"at": ["message", "content", 0, "detail"], "as": "low", "was": null}
 * "at" is the way down, keys and numbers; "was" is what shall stand there, and when it is missing
 * nothing shall. "as" is what stood there when the list was made, and is missing when there was
 * nothing. Arrays of different lengths differ as a whole. */
#ifndef QP_FORMATS_JSONDIFF_H
#define QP_FORMATS_JSONDIFF_H

#include <jansson.h>

#include "base/buf.h"

/* One step down; key NULL: the element `index` of an array. */
struct qp__step {
  const char *key;
  size_t index;
  const struct qp__step *up; /* the step before, or NULL */
};

/* `as` and `was` differ at `at`; NULL: there is nothing on that side. False ends the walk. */
typedef bool qp__diff_fn(void *arg, const struct qp__step *at, json_t *as, json_t *was);

/* False when fn answered so. A value that is the same memory on both sides is not looked into. */
bool qp__diff_walk(json_t *as, json_t *was, qp__diff_fn *fn, void *arg);

/* *out is NULL when nothing differs. With `guarded` the changes have "as". -1: no memory. */
int qp__diff_make(json_t *as, json_t *was, bool guarded, json_t **out);

/* Carries the changes out on *root, which is replaced by what comes out; other owners of its parts
 * do not see it. With `guarded` a change is left out when something else than its "as" stands
 * there. Entries that make no sense are left out. -1: no memory, and *root is half changed. */
int qp__diff_apply(json_t **root, const json_t *changes, bool guarded);

/* Appends "message.content[0].detail"; nothing for the top. */
void qp__step_write(struct qp__buf *out, const struct qp__step *at);

#endif

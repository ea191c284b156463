/* jsondiff.h - the differences between two JSON values, and a list of changes that turns one into
 * the other.
 *
 * A list of changes is an array of objects, in an order that depends only on the values, not on the
 * order of their keys:
 *   {"at": ["message", "content", 0, "detail"], "as": "low", "was": null}
 * "at" is the path, keys and numbers; "was" is the value to set, missing if the value must be
 * removed. "as" is the value when the list was made, missing if there was none. Arrays of different
 * lengths differ as a whole. */
#ifndef QP_OLD_JSONDIFF_H
#define QP_OLD_JSONDIFF_H

#include <jansson.h>

#include "base/buf.h"

/* One step down; key NULL: the element `index` of an array. */
struct qp__diff_step {
  const char *key;
  size_t index;
  const struct qp__diff_step *up; /* the step before, or NULL */
};

/* `as` and `was` differ at `at`; NULL: there is no value on that side. False stops the walk. */
typedef bool qp__diff_fn(void *arg, const struct qp__diff_step *at, json_t *as, json_t *was);

/* False if fn returned false. A value with the same memory on both sides is skipped. */
bool qp__diff_walk(json_t *as, json_t *was, qp__diff_fn *fn, void *arg);

/* *out is NULL if nothing differs. With `guarded` the changes have "as". -1: out of memory. */
int qp__diff_make(json_t *as, json_t *was, bool guarded, json_t **out);

/* Applies the changes to *root, which is replaced by the result; other owners of its parts do not
 * see the change. With `guarded` a change is skipped if the current value is not its "as". Invalid
 * entries are skipped. -1: out of memory, and *root is partly changed. */
int qp__diff_apply(json_t **root, const json_t *changes, bool guarded);

/* Appends "message.content[0].detail"; nothing for the top level. */
void qp__diff_step_write(struct qp__buf *out, const struct qp__diff_step *at);

#endif

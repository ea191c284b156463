/* json_walk.h - walking over stored JSON text and handing out ranges of it, so that answers can be
 * put together from stored bytes without making values of them.
 *
 * The text comes from the store, where its hash was checked, so it is JSON. Nothing is read outside
 * of it even if it is not: the walk ends then. */
#ifndef QP_HTTP_JSON_WALK_H
#define QP_HTTP_JSON_WALK_H

#include <stdbool.h>

#include "quipu.h"

struct qp__walk {
  const char *at, *end;
};

/* Into an object or array; over anything else the walk is empty. */
struct qp__walk qp__walk_into(struct qp_bytes value);
/* The next element of an array, as it is written. */
bool qp__walk_element(struct qp__walk *w, struct qp_bytes *value);
/* The next member of an object: its key without quotes, both as they are written. */
bool qp__walk_member(struct qp__walk *w, struct qp_bytes *key, struct qp_bytes *value);

bool qp__token_is(struct qp_bytes token, const char *text);
/* The string that a token is, as it is written, without its quotes; empty for other values. */
struct qp_bytes qp__token_inner(struct qp_bytes token);

#endif

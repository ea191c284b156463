/* json_walk.h - walks over stored JSON text and returns ranges of it, so that responses can be
 * built from stored bytes without parsing them into values.
 *
 * The text comes from the store, where its hash was checked, so it is JSON. If it is not, nothing
 * outside of it is read: the walk ends. */
#ifndef QP_HTTP_JSON_WALK_H
#define QP_HTTP_JSON_WALK_H

#include "base/json_scan.h"

struct qp__walk {
  struct qp__json_scan scan;
};

/* Enters an object or array; for other values the walk is empty. */
struct qp__walk qp__walk_into(struct qp_bytes value);
/* The next element of an array, unchanged. */
bool qp__walk_element(struct qp__walk *w, struct qp_bytes *value);
/* The next member of an object: its key without quotes, and its value, both unchanged. */
bool qp__walk_member(struct qp__walk *w, struct qp_bytes *key, struct qp_bytes *value);

bool qp__token_is(struct qp_bytes token, const char *text);
/* The content of a string token without its quotes, still escaped; empty for other values. */
struct qp_bytes qp__token_inner(struct qp_bytes token);

#endif

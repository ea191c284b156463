/* json.h - strict reading and plain writing of JSON, on jansson.
 *
 * Strict: no duplicate keys, valid UTF-8, nothing after the value, at most QP__JSON_DEPTH levels.
 * Readers below name the field in their sentence. A json_t is owned by whoever received it; release
 * with json_decref(). */
#ifndef QP_BASE_JSON_H
#define QP_BASE_JSON_H

#include <jansson.h>

#include "base/buf.h"

#define QP__JSON_DEPTH 512 /* deeper values are refused */
/* What the values of one text may take in memory, beside the bytes of its strings: some 200,000
 * empty objects or a million numbers. */
#define QP__JSON_TREE_MAX ((size_t)64 << 20)

/* `what` begins the sentence of a failure: "line 3", "metadata.json". Any value. QP_INVALID,
 * QP_NOMEM; QP_TOOBIG: its values need more than QP__JSON_TREE_MAX. */
enum qp_rc qp__json_parse(const char *what, struct qp_bytes text, json_t **out, struct qp_err *err);
/* The same, and the value must be an object. */
enum qp_rc qp__json_parse_object(const char *what, struct qp_bytes text, json_t **out,
                                 struct qp_err *err);

/* The same with half the limit, for what clients, models and tools send: what they send is stored,
 * with some fields more, and must be readable afterwards. */
enum qp_rc qp__json_parse_outside(const char *what, struct qp_bytes text, json_t **out,
                                  struct qp_err *err);
enum qp_rc qp__json_parse_outside_object(const char *what, struct qp_bytes text, json_t **out,
                                         struct qp_err *err);
/* The same without a limit, for whole files that this program or its user wrote. */
enum qp_rc qp__json_parse_own_object(const char *what, struct qp_bytes text, json_t **out,
                                     struct qp_err *err);

/* Appends; compact, or with two-space indentation. Keys keep their order. */
enum qp_rc qp__json_write(struct qp__buf *out, const json_t *value);
enum qp_rc qp__json_write_pretty(struct qp__buf *out, const json_t *value);
/* The same for a value that stands `level` levels down in a document that is written in pieces. */
enum qp_rc qp__json_write_inside(struct qp__buf *out, const json_t *value, size_t level);

/* Appends one string with its quotes; `s` is UTF-8. */
enum qp_rc qp__json_write_string(struct qp__buf *out, const char *s, size_t n);

/* A new array or object with the same elements, which are shared; NULL: no memory. (jansson's own
 * copy loses elements when memory is out.) */
json_t *qp__json_copy(const json_t *value);

/* Field readers. A missing field or null leaves *out untouched and is QP_OK; a wrong type is
 * QP_INVALID "`what`: \"key\" must be a string". Borrowed from the object. */
enum qp_rc qp__json_string(const char *what, const json_t *object, const char *key,
                           const char **out, struct qp_err *err);
enum qp_rc qp__json_int(const char *what, const json_t *object, const char *key, int64_t *out,
                        struct qp_err *err);
enum qp_rc qp__json_bool(const char *what, const json_t *object, const char *key, bool *out,
                         struct qp_err *err);
enum qp_rc qp__json_object(const char *what, const json_t *object, const char *key, json_t **out,
                           struct qp_err *err);
enum qp_rc qp__json_array(const char *what, const json_t *object, const char *key, json_t **out,
                          struct qp_err *err);
/* A string that is a UUID / an RFC 3339 time. */
enum qp_rc qp__json_uuid(const char *what, const json_t *object, const char *key,
                         struct qp_uuid *out, struct qp_err *err);
enum qp_rc qp__json_time(const char *what, const json_t *object, const char *key, int64_t *out,
                         struct qp_err *err);

/* Writers for json_object_set_new chains: each takes NULL as "memory is out" and returns -1 then.
 * They return 0 or -1 as jansson does. */
int qp__json_set_str(json_t *object, const char *key, const char *value); /* NULL: null */
int qp__json_set_strn(json_t *object, const char *key, const char *s, size_t n);
int qp__json_set_uuid(json_t *object, const char *key, const struct qp_uuid *id); /* none: null */
int qp__json_set_time(json_t *object, const char *key, int64_t ms);

#endif

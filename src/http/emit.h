/* emit.h - writes JSON responses field by field into a buffer.
 *
 * A comma is added before a value if necessary; the last byte of the buffer shows this: no comma
 * after '{', '[' and ':'. The buffer remembers failures. */
#ifndef QP_HTTP_EMIT_H
#define QP_HTTP_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

/* Opens '{' or '[' as a member `key` (NULL: as an element), and closes it. */
void qp__emit_open(struct qp__buf *b, const char *key, char bracket);
void qp__emit_close(struct qp__buf *b, char bracket);
/* In all of these, `key` NULL means an element of an array. */
void qp__emit_str(struct qp__buf *b, const char *key, const char *s); /* NULL: null */
void qp__emit_strn(struct qp__buf *b, const char *key, struct qp_bytes s);
void qp__emit_uint(struct qp__buf *b, const char *key, uint64_t n);
void qp__emit_bool(struct qp__buf *b, const char *key, bool yes);
void qp__emit_time(struct qp__buf *b, const char *key, int64_t ms);
void qp__emit_uuid(struct qp__buf *b, const char *key, const struct qp_uuid *id); /* zeros: null */
/* JSON text, unchanged. */
void qp__emit_raw(struct qp__buf *b, const char *key, struct qp_bytes json);
void qp__emit_json(struct qp__buf *b, const char *key, const json_t *value); /* NULL: null */
/* The JSON text that a function of the library returned with `rc`, unless that is an error. The
 * text is released. Returns rc. */
enum qp_rc qp__emit_taken(struct qp__buf *b, const char *key, char *text, size_t len,
                          enum qp_rc rc);
/* Ends an object whose last array is a page of a list: `next_cursor`, which is released, is NULL on
 * the last page. */
void qp__emit_page_end(struct qp__buf *b, char *next_cursor);

#endif

/* emit.h - writing JSON answers field by field into a buffer.
 *
 * A comma is set before a value where one is needed, which the last byte of the buffer tells: none
 * after '{', '[' and ':'. Failures are remembered by the buffer. */
#ifndef QP_HTTP_EMIT_H
#define QP_HTTP_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* '{' or '[', as a member called `key` (NULL: as an element), and its end. */
void qp__emit_open(struct qp__buf *b, const char *key, char bracket);
void qp__emit_close(struct qp__buf *b, char bracket);
/* `key` may be NULL in all of these: an element of an array. */
void qp__emit_str(struct qp__buf *b, const char *key, const char *s); /* NULL: null */
void qp__emit_strn(struct qp__buf *b, const char *key, struct qp_bytes s);
void qp__emit_uint(struct qp__buf *b, const char *key, uint64_t n);
void qp__emit_bool(struct qp__buf *b, const char *key, bool yes);
void qp__emit_time(struct qp__buf *b, const char *key, int64_t ms);
void qp__emit_uuid(struct qp__buf *b, const char *key, const struct qp_uuid *id); /* none: null */
/* JSON text as it is. */
void qp__emit_raw(struct qp__buf *b, const char *key, struct qp_bytes json);

#endif

/* shared.h - small documents that all servers of a store see at once, for the server: its keys.
 *
 * Only a driver with struct qp__driver_shared has them; other stores belong to one server, which
 * keeps such things in files of its data directory. A document is not part of the conversations: it
 * is neither copied nor exported with them. */
#ifndef QP_STORE_SHARED_H
#define QP_STORE_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "quipu.h"

/* NULL: false. */
bool qp__shared_offered(const struct qp_store *s);
/* Appends the document to `out`, which may be NULL. *version is 0 if there is none, and another
 * number after each change. */
enum qp_rc qp__shared_read(struct qp_store *s, const char *name, struct qp__buf *out,
                           int64_t *version, struct qp_err *err);
/* Replaces the document if it still has this version. QP_CONFLICT: it has not; or the connection
 * was lost, and this call has replaced it. */
enum qp_rc qp__shared_write(struct qp_store *s, const char *name, int64_t version,
                            struct qp_bytes bytes, struct qp_err *err);

#endif

/* quipu/blob.h - bytes that messages refer to, such as images, stored once by their hash. The rules
 * of quipu.h hold here. */
#ifndef QUIPU_BLOB_H
#define QUIPU_BLOB_H

#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QP_BLOB_ID 65              /* BLAKE2b-256 of the content: 64 hexadecimal digits and a NUL */
#define QP_BLOB_URL "quipu:blobs/" /* followed by the id: the URL in a message part */

/* Stores bytes and writes their id into `id`. The same bytes are stored once. A blob that no
 * message refers to yet can be removed when something else that referred to it is erased.
 * QP_TOOBIG: more than 64 MiB. */
QP_API QP_MUST_CHECK enum qp_rc qp_blob_put(struct qp_store *store, struct qp_bytes bytes,
                                            char id[QP_BLOB_ID], struct qp_err *err);
/* Release *out with qp_free(). QP_NOTFOUND: there is no such blob. QP_CORRUPT: its file does not
 * match its hash. */
QP_API QP_MUST_CHECK enum qp_rc qp_blob_get(struct qp_store *store, const char *id, char **out,
                                            size_t *len, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

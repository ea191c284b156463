/* blob_name.h - the names of blobs. A blob is a file that messages refer to, named by its hash. */
#ifndef QP_MODEL_BLOB_NAME_H
#define QP_MODEL_BLOB_NAME_H

#include <stdbool.h>

#include "quipu.h"

#define QP__BLOB_MAX ((size_t)64 << 20) /* maximum size of a blob in bytes */

/* BLAKE2b-256 of the bytes in hexadecimal. */
void qp__blob_name(struct qp_bytes bytes, char out[QP_BLOB_ID]);
/* 64 lower-case hexadecimal digits. */
bool qp__blob_name_ok(const char *id);

#endif

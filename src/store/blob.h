/* blob.h - blobs of a store, inside the library. */
#ifndef QP_STORE_BLOB_H
#define QP_STORE_BLOB_H

#include "store/context_int.h"

struct qp__blob_in {
  const char *id; /* qp__blob_name() of the bytes */
  struct qp_bytes bytes;
};

/* Stores those that are not there yet, many in one commit. When it fails some may be there. */
enum qp_rc qp__blobs_put(struct qp_store *s, const struct qp__blob_in *blobs, size_t n,
                         struct qp_err *err);
/* Compares every blob with its name; tells of foreign files beside them. */
enum qp_rc qp__blobs_check(struct qp_store *s, struct qp__problems *problems, struct qp_err *err);

#endif

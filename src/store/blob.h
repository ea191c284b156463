/* blob.h - blobs of a store, inside the library. */
#ifndef QP_STORE_BLOB_H
#define QP_STORE_BLOB_H

#include "store/context_int.h"

/* Compares every blob with its name; tells of foreign files beside them. */
enum qp_rc qp__blobs_check(struct qp_store *s, struct qp__problems *problems, struct qp_err *err);

#endif

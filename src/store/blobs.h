/* blobs.h - blobs of a store, inside the library. */
#ifndef QP_STORE_BLOBS_H
#define QP_STORE_BLOBS_H

#include "store/context/context_int.h"

struct qp__blob_in {
  const char *id; /* qp__blob_name() of the bytes */
  struct qp_bytes bytes;
};

/* Stores the blobs that are not stored yet, many in one commit. After a failure some may be
 * stored. */
enum qp_rc qp__blobs_put(struct qp_store *s, const struct qp__blob_in *blobs, size_t n,
                         struct qp_err *err);

/* ---- erasing ---- */

/* Adds the ids of the blobs that the messages of a context or session refer to, one per line. The
 * context is claimed. */
enum qp_rc qp__blobs_of_context(struct qp_store *s, const struct qp_uuid *id, struct qp__buf *out,
                                struct qp_err *err);
enum qp_rc qp__blobs_of_session(struct qp_store *s, const char *id, struct qp__buf *out,
                                struct qp_err *err);
/* Overwrites and removes the blobs of this list that nothing in the store refers to. Reads all data
 * of the store, without a lock. */
enum qp_rc qp__blobs_erase(struct qp_store *s, struct qp_bytes ids, struct qp_err *err);
/* Called when a blob is stored: an erasure that is running keeps it. */
void qp__blob_keep(struct qp_store *s, const char *id);

/* Compares every blob with its name; reports foreign files beside them. */
enum qp_rc qp__blobs_check(struct qp_store *s, struct qp__problems *problems, struct qp_err *err);

#endif

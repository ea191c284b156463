/* erase.h - deletes so that no file of the store contains the deleted text any more.
 *
 * A deletion makes something invisible and removes its files. Its text may still be in files that
 * several owners share: the journal, the catalogue, the index of sessions. Erasing cleans these
 * files completely, for all owners, and returns when that is done and durable. Blobs to which only
 * the deleted item referred are erased too (blob_erase.c):
 *
 *   1. journal/{name}.erase marks the erasure. It lists the blobs that the deleted item refers to,
 *      one per line. It is durable before
 *   2. the deletion is committed.
 *   3. The shared files are cleaned; then the marker is removed.
 *
 * A start that finds a marker repeats step 3. So after a crash either the deletion was not
 * committed, and everything is as before, or the next start of a writer completes the erasure. */
#ifndef QP_STORE_ERASE_H
#define QP_STORE_ERASE_H

#include "store/context/context_int.h"

#define QP__ERASE_NAME 48 /* of the file, without ".erase" */

/* Step 1. *again: the file existed, from an attempt that was not completed; `blobs` are added to
 * it. */
enum qp_rc qp__erase_begin(struct qp_store *s, const char *name, struct qp_bytes blobs, bool *again,
                           struct qp_err *err);
/* After step 2 has ended with `deleted`: step 3. Returns the result for the caller. QP_NOTFOUND in
 * step 2 is not a failure if an earlier attempt has deleted it. */
enum qp_rc qp__erase_end(struct qp_store *s, const char *name, bool again, enum qp_rc deleted,
                         struct qp_err *err);
/* At the start of a writer. A failure is logged; the next start tries again. */
void qp__erase_resume(struct qp_store *s);

#endif

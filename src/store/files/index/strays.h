/* strays.h - messages where no message should be. For checks: what costs as much as reading all
 * files of a context is not done for somebody who only opens it. */
#ifndef QP_STORE_FILES_INDEX_STRAYS_H
#define QP_STORE_FILES_INDEX_STRAYS_H

#include "store/files/files.h"

/* A stored message without the line end that an editor or a copy may have changed. */
struct qp_bytes qp__message_trim(struct qp_bytes text);

/* Visits files in places of the context's directory where no message belongs, which are not files
 * of the store under their right name; the trash is not among them. `id` is that of the message
 * that the file's name tells, or none. */
typedef enum qp_rc qp__stray_fn(void *arg, const char *path, const struct qp_uuid *id,
                                struct qp_err *err);
enum qp_rc qp__stray_files(struct qp__files *f, const struct qp__fctx *c, qp__stray_fn *fn,
                           void *arg, struct qp_err *err);

/* With finds_lock: a file in the context's directory that had this content when it was first asked
 * for, or NULL. */
const char *qp__find_file(struct qp__files *f, struct qp__fctx *c, const uint8_t hash[16]);

/* Before a file is written over with the message `own` (empty: it is no message's): when it holds
 * another message, that is copied to messages/<id>.json, where a rebuild and a search find it.
 * *rescued is set when that was done. */
enum qp_rc qp__rescue(struct qp__files *f, const struct qp__fctx *c, const char *path,
                      struct qp_bytes own, bool *rescued, struct qp_err *err);
/* The same for the files of a context that are no messages and that a repair may write over. */
enum qp_rc qp__rescue_all(struct qp__files *f, const struct qp__fctx *c, struct qp_err *err);

#endif

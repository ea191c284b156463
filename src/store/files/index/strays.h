/* strays.h - messages in wrong places. Used by checks only: reading all files of a context is too
 * expensive when it is opened. */
#ifndef QP_STORE_FILES_INDEX_STRAYS_H
#define QP_STORE_FILES_INDEX_STRAYS_H

#include "store/files/files.h"

/* A stored message without its line end, which an editor or a copy may have changed. */
struct qp_bytes qp__message_trim(struct qp_bytes text);

/* Visits files in the context's directory that are not in a place for messages, and are not files
 * of the store under their right name; not the trash. `id` is the id in the name of the file, or
 * zeros. */
typedef enum qp_rc qp__stray_fn(void *arg, const char *path, const struct qp_uuid *id,
                                struct qp_err *err);
enum qp_rc qp__stray_files(struct qp__files *f, const struct qp__fctx *c, qp__stray_fn *fn,
                           void *arg, struct qp_err *err);

/* The caller holds finds_lock: a file in the context's directory that had this content at the first
 * search, or NULL. */
const char *qp__find_file(struct qp__files *f, struct qp__fctx *c, const uint8_t hash[16]);

/* Copies messages that are in files of other kinds, which a repair may overwrite (metadata.json,
 * the index, packs), to messages/<id>.json, where a rebuild finds them. */
enum qp_rc qp__rescue_all(struct qp__files *f, const struct qp__fctx *c, struct qp_err *err);

#endif

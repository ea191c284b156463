/* old_formats.h - contexts of older programs: the only part of src/old that the store knows.
 *
 * Code that serves only old programs (reading their files, migration, rollback, the import of
 * LocalStorage dumps) is in src/old. No file outside includes its headers; `make lint` checks that.
 * The store reaches it through the one struct below, which src/old/old_contexts.c defines. */
#ifndef QP_STORE_OLD_FORMATS_H
#define QP_STORE_OLD_FORMATS_H

#include "store/driver.h"

struct qp__files;
struct qp__fctx;

struct qp__old_formats {
  struct qp__driver_old capability; /* of the file driver */

  /* For the file driver, which has such contexts in its data directory. */

  /* Visits the contexts that have an old form and no directory of the new one. */
  enum qp_rc (*list)(struct qp__files *f, qp_context_visit *visit, void *arg, struct qp_err *err);
  /* Whether the directory of a context, which has no index, is one of an older program. */
  enum qp_rc (*is_pool)(struct qp__files *f, const struct qp__fctx *c, bool *out,
                        struct qp_err *err);
  /* Whether a name in contexts/ is "<uuid>.json", or "<uuid>.json.old" or "<uuid>.old" (backup). */
  bool (*name)(const char *name, struct qp_uuid *id, bool *backup);
  /* Fills the image from an old context and opens its source; QP_NOTFOUND. */
  enum qp_rc (*load)(struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
                     struct qp_err *err);
  void (*close)(struct qp__fctx *c); /* the source and the backup, if they are open */
  /* Converts a message of such a context again. */
  enum qp_rc (*read)(const struct qp__fctx *c, const struct qp__tree *tree,
                     const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err);
  /* Searches the backup that a migration kept for a message with the entry's hash. */
  enum qp_rc (*salvage)(struct qp__files *f, struct qp__fctx *c, const struct qp__entry *entry,
                        struct qp__buf *out, struct qp_err *err);
};

extern const struct qp__old_formats qp__old_formats;

#endif

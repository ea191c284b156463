/* rollback.h - what a migration keeps for a rollback. */
#ifndef QP_OLD_ROLLBACK_H
#define QP_OLD_ROLLBACK_H

#include "store/context/context_build.h"
#include "store/context/loaded_context.h"

/* A hash of everything that an old file would say: the metadata without updated_at and "legacy",
 * the hash of every message, the heads, and the prompts of branches. No message is opened. `build`
 * (may be NULL) has prompts that are not in the store yet. */
enum qp_rc qp__fingerprint(struct qp_store *s, const struct qp__meta *meta,
                           const struct qp__image *image, const struct qp__build *build,
                           uint8_t out[16], struct qp_err *err);

#endif

/* catalogue.h - the interface between the front and the catalogue, the database of conversations
 * and their text in `catalogue.db` (catalogue_int.h explains how it works).
 *
 * The catalogue is derived: it may be lost at any time, and nothing here can make a commit fail. */
#ifndef QP_STORE_CATALOGUE_CATALOGUE_H
#define QP_STORE_CATALOGUE_CATALOGUE_H

#include "quipu.h"

struct qp__catalogue;

#define QP__CATALOGUE_NAME "catalogue.db"

/* Cheap: the database is opened on first use. `where` is the URL after "scheme:". NULL: out of
 * memory. */
struct qp__catalogue *qp__catalogue_new(struct qp_store *s, const char *where);
/* Brings a database that is in use up to date and frees it. The store must still work; NULL is
 * allowed. */
void qp__catalogue_free(struct qp__catalogue *cat);

/* Records that this context has changed, is new or was deleted. O(1), under any lock. Must be
 * called before the driver can forget the change; this is so in `publish`. A caller that cannot
 * guarantee this calls qp__catalogue_expect first, and qp__catalogue_end once for each such
 * call. */
void qp__catalogue_mark(struct qp__catalogue *cat, const struct qp_uuid *id);
void qp__catalogue_expect(struct qp__catalogue *cat, const struct qp_uuid *id);
void qp__catalogue_end(struct qp__catalogue *cat, const struct qp_uuid *id);
/* Records that any context may have changed. */
void qp__catalogue_mark_all(struct qp__catalogue *cat);

/* Returns when the files of the catalogue contain nothing of deleted contexts. The time grows with
 * the size of the whole catalogue. */
enum qp_rc qp__catalogue_erase(struct qp__catalogue *cat, struct qp_err *err);

/* The bytes of all contexts of an owner, messages and metadata, including everything committed
 * before. The time grows with the number of these contexts. */
enum qp_rc qp__catalogue_owner_bytes(struct qp__catalogue *cat, const char *owner, int64_t *out,
                                     struct qp_err *err);

/* Visits the contexts in this state, which must not be "Idle"; the time depends only on their
 * number. */
enum qp_rc qp__catalogue_in_state(struct qp__catalogue *cat, const char *state,
                                  qp_context_visit *visit, void *arg, struct qp_err *err);

#endif

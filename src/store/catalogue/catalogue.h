/* catalogue.h - what the front tells the catalogue: the database of conversations and their text
 * that `catalogue.db` is (catalogue_int.h says how it works).
 *
 * The catalogue is derived: it may be lost at any time, and none of this can fail a commit. */
#ifndef QP_STORE_CATALOGUE_CATALOGUE_H
#define QP_STORE_CATALOGUE_CATALOGUE_H

#include "quipu.h"

struct qp__catalogue;

#define QP__CATALOGUE_NAME "catalogue.db"

/* Costs next to nothing: the database is opened when it is first needed. `where` is the URL behind
 * "scheme:". NULL: no memory. */
struct qp__catalogue *qp__catalogue_new(struct qp_store *s, const char *where);
/* Brings a database that is in use up to date and frees. The store still works; NULL is allowed. */
void qp__catalogue_free(struct qp__catalogue *cat);

/* Something in this context has changed, or it is new or gone. In O(1), under any lock. Called
 * before the driver may forget how to carry the change out again, which is so for `publish`; who
 * cannot know calls qp__catalogue_expect first, and for each of those calls qp__catalogue_end. */
void qp__catalogue_mark(struct qp__catalogue *cat, const struct qp_uuid *id);
void qp__catalogue_expect(struct qp__catalogue *cat, const struct qp_uuid *id);
void qp__catalogue_end(struct qp__catalogue *cat, const struct qp_uuid *id);
/* Anything may have changed. */
void qp__catalogue_mark_all(struct qp__catalogue *cat);

/* Returns when the files of the catalogue hold nothing of contexts that are not there any more. The
 * time that it takes grows with the whole catalogue. */
enum qp_rc qp__catalogue_erase(struct qp__catalogue *cat, struct qp_err *err);

/* The bytes of all contexts of an owner, messages and metadata, with all that was committed before.
 * In time that grows with the number of these contexts. */
enum qp_rc qp__catalogue_owner_bytes(struct qp__catalogue *cat, const char *owner, int64_t *out,
                                     struct qp_err *err);

/* Visits the contexts that are in this state, which is not "Idle", in time that depends on their
 * number alone. */
enum qp_rc qp__catalogue_in_state(struct qp__catalogue *cat, const char *state,
                                  qp_context_visit *visit, void *arg, struct qp_err *err);

#endif

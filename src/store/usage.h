/* usage.h - how many bytes the store keeps for an owner.
 *
 * The sizes before compression count: of the messages and the metadata of the owner's contexts, and
 * of the owner's sessions and system prompts, whose stored ids begin with "OWNER:". These do not
 * count: events of turns, which have their own limit per context; blobs, which have no owner;
 * indexes and the journal.
 *
 * (1) An owner is counted at the first query. From then on every commit adds what it stores, so
 *     a query costs the same however much is stored.
 * (2) Deletions are not subtracted. After a deletion the total may be too high. It is counted
 *     again only for a caller that needs an exact total.
 * (3) While an owner is counted, writers continue: what they add may be in the total twice, but is
 *     never missing. Such a total counts as possibly too high. */
#ifndef QP_STORE_USAGE_H
#define QP_STORE_USAGE_H

#include <stdatomic.h>

#include "base/mutex.h"
#include "quipu.h"

#define QP__USAGE_SLOTS 64

struct qp__catalogue;
struct qp__owner_row;

struct qp__usage {
  atomic_uint owners;        /* with a row */
  atomic_ullong removals;    /* number of operations that may have removed something */
  struct qp__mutex counting; /* one owner is counted at a time; before `lock` */
  struct qp__mutex lock;     /* guards the rows; the last of all locks */
  struct qp__owner_row *rows[QP__USAGE_SLOTS];
  uint64_t forgotten; /* how often all owners were forgotten */
};

void qp__usage_init(struct qp__usage *usage);
void qp__usage_release(struct qp__usage *usage);

/* So many bytes more, or less, are stored for `owner` (NULL: for no owner). Call it when a count
 * that begins now would find them. Costs almost nothing while no owner was counted. */
void qp__usage_add(struct qp__usage *usage, const char *owner, int64_t bytes);
/* The same for a session or a prompt, whose id may begin with the owner. */
void qp__usage_add_named(struct qp__usage *usage, const char *id, uint64_t bytes);
/* Something may have been deleted. */
void qp__usage_removed(struct qp__usage *usage);
/* Anything may have changed: all owners are counted again. */
void qp__usage_forget(struct qp__usage *usage);

/* Counts the bytes of the contexts of an owner: qp__catalogue_owner_bytes. It is passed in because
 * it needs the catalogue's database, which not every program links. */
typedef enum qp_rc qp__usage_contexts_fn(struct qp__catalogue *cat, const char *owner, int64_t *out,
                                         struct qp_err *err);
/* qp_owner_bytes */
enum qp_rc qp__usage_bytes(struct qp_store *store, const char *owner, uint64_t enough,
                           qp__usage_contexts_fn *contexts, uint64_t *out, struct qp_err *err);

#endif

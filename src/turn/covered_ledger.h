/* covered_ledger.h - the ledger (compact/ledger.h) of the covered messages of a context, kept in
 * the engine from one compaction to the next. A compaction reads only the messages that it covers
 * newly; after a restart, an undo or on another branch all of them are read once, page by page. */
#ifndef QP_TURN_COVERED_LEDGER_H
#define QP_TURN_COVERED_LEDGER_H

#include "compact/ledger.h"
#include "turn/conversation.h"

/* The ledger of the first `covered` messages of the branch, of which `last` is the last, as the
 * thing of *out. The caller owns it until qp__covered_cache_put(&engine->ledgers). */
enum qp_rc qp__covered_ledger_take(struct qp__conversation *c, uint64_t covered,
                                   const struct qp_uuid *last, struct qp__covered_entry *out,
                                   struct qp_err *err);
/* Of a struct qp__ledger on the heap; NULL is allowed. */
void qp__covered_ledger_free(void *thing);

#endif

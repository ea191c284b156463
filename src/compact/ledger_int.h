/* ledger_int.h - what the files of the ledger share. */
#ifndef QP_COMPACT_LEDGER_INT_H
#define QP_COMPACT_LEDGER_INT_H

#include "compact/ledger.h"

/* A copy of at most `max` bytes that lives as long as the ledger; NULL data: no memory. */
struct qp_bytes qp__ledger_copy(struct qp__ledger *ledger, struct qp_bytes text, size_t max);
/* Makes the table of the values anew, with `size` places. False: no memory. */
bool qp__ledger_index(struct qp__ledger *ledger, size_t size);
/* Called after each message, so that the result does not depend on how many are read at once. */
enum qp_rc qp__ledger_bound(struct qp__ledger *ledger, struct qp_err *err);

#endif

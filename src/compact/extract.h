/* extract.h - the built-in summariser: a narrative without a model, from the originals.
 *
 * It fits any budget, needs no network, cannot fail but for memory, and gives the same text for the
 * same messages. Sections, each left out when it is empty:
 *
 *   ## Goal                 what the user first asked for, and what the user asked for last
 *   ## Rules and "do not"   statements of the user that set limits
 *   ## Decisions            statements of the user that decide or correct
 *   ## State of work        what tools changed, what failed, what has no result yet
 *   ## Last wishes          the user's last messages, verbatim
 *
 * Wishes, rules and decisions come from messages of the user alone. Text of tools and answers of
 * the model are never quoted, so that an instruction in a web page cannot become a next step. */
#ifndef QP_COMPACT_EXTRACT_H
#define QP_COMPACT_EXTRACT_H

#include "compact/ledger.h"

/* Appends the narrative in at most `budget` tokens. Statements that are quoted are marked in the
 * ledger until it is extended. */
enum qp_rc qp__extract_narrative(struct qp__ledger *ledger, int64_t budget, struct qp__buf *out,
                                 struct qp_err *err);

/* Both parts of a summary together within `budget`: a quarter for the narrative, the rest for the
 * ledger. */
enum qp_rc qp__extract_summary(const struct qp__source *source, int64_t budget,
                               struct qp__buf *narrative, struct qp__buf *ledger,
                               struct qp_err *err);

#endif

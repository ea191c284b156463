/* recall.h - finding covered messages again: what search_history and read_history answer, and what
 * is recalled for a new message of the user.
 *
 * An index of the covered messages is made in memory: for every word and value (compact/lex.h) the
 * messages that have it. A query is ranked by BM25 with these changes, each measured on real
 * conversations (bench/compact_recall.c):
 *
 *  - words count by their stem, amounts and dates by what they mean ("May 20th" finds 2024-05-20);
 *  - identifiers, paths, dates and amounts of the query weigh more than words, and the more of the
 *    query a message has, the better;
 *  - parts of identifiers count too: "departure time" finds "scheduled_departure_time_est";
 *  - a result also has the words of the call that asked for it;
 *  - of messages that are equally good, later ones come first;
 *  - copies of a message are listed once, the last one.
 *
 * The same input gives the same order. */
#ifndef QP_COMPACT_RECALL_H
#define QP_COMPACT_RECALL_H

#include "compact/ledger.h"

#define QP__RECALL_QUERY 64    /* different words of a query that count */
#define QP__RECALL_SNIPPET 240 /* bytes, about */

struct qp__recall_hit {
  uint64_t at;
  struct qp_uuid id;
  double score;
};

struct qp__recall;

/* Indexes the messages, which must live as long as the index. QP_NOMEM. */
enum qp_rc qp__recall_new(const struct qp__source *source, struct qp__recall **out,
                          struct qp_err *err);
void qp__recall_free(struct qp__recall *recall);

/* The best hits, at most `max`; *count of them. QP_NOMEM. */
enum qp_rc qp__recall_search(const struct qp__recall *recall, struct qp_bytes query,
                             struct qp__recall_hit *hits, size_t max, size_t *count,
                             struct qp_err *err);

/* Appends the part of a message that has most of the query, about QP__RECALL_SNIPPET bytes, on one
 * line. */
enum qp_rc qp__recall_snippet(const struct qp__recall *recall, uint64_t at, struct qp_bytes query,
                              struct qp__buf *out, struct qp_err *err);

/* Appends what is recalled for a message of the user, at most `budget` tokens: one line per hit
 * with its number, role and snippet. Nothing when no hit has at least two of the query's words or
 * one of its values. */
enum qp_rc qp__recall_for(const struct qp__recall *recall, struct qp_bytes message, int64_t budget,
                          struct qp__buf *out, struct qp_err *err);

/* Appends a page of messages from number `at` on, at most `budget` tokens. *next is the number of
 * the first message that is not shown whole, and *offset the byte of its text to go on from; both 0
 * when all was shown. QP_NOTFOUND: no such message is covered. */
enum qp_rc qp__recall_read(const struct qp__recall *recall, uint64_t at, size_t from_offset,
                           int64_t budget, struct qp__buf *out, uint64_t *next, size_t *offset,
                           struct qp_err *err);

#endif

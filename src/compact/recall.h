/* recall.h - finding covered messages again: what search_history and read_history answer, and what
 * is recalled for a new message of the user.
 *
 * An index of the covered messages is made in memory: for every word and value (compact/lex.h) the
 * messages that have it. It has no texts, so it is much smaller than the messages, and messages are
 * added to it as they are covered. A query is ranked by BM25 with these changes, each measured on
 * real conversations (bench/compact_recall.c):
 *
 *  - words count by their stem, amounts and dates by what they mean ("May 20th" finds 2024-05-20);
 *  - identifiers, paths, dates and amounts of the query weigh more than words, and the more of the
 *    query a message has, the better;
 *  - parts of identifiers count too: "departure time" finds "scheduled_departure_time_est";
 *  - a result also has the words of the call that asked for it;
 *  - of messages that are equally good, later ones come first;
 *  - copies of a message are listed once, the last one.
 *
 * Of each word of a query the newest QP__RECALL_POSTINGS messages that have it are looked at, so a
 * search does not take longer with the length of the history. An older message is found by any of
 * its words that is not in so many later ones.
 *
 * The same input gives the same order. */
#ifndef QP_COMPACT_RECALL_H
#define QP_COMPACT_RECALL_H

#include "compact/ledger.h"

#define QP__RECALL_QUERY 64    /* different words of a query that count */
#define QP__RECALL_SNIPPET 240 /* bytes, about */
#define QP__RECALL_POSTINGS 1024
#define QP__RECALL_LOOK_BACK 64 /* messages between a result and its call */

struct qp__recall_hit {
  uint64_t at;
  struct qp_uuid id;
  double score;
};

struct qp__recall;

/* An empty index. */
enum qp_rc qp__recall_new(struct qp__recall **out, struct qp_err *err);
void qp__recall_free(struct qp__recall *recall); /* NULL is allowed */

/* Adds the messages of the source that follow those of the index; to an empty index all of them.
 * Messages that the index has already are only looked at for the calls that later ones answer.
 * After a failure (QP_NOMEM) the index can only be freed. */
enum qp_rc qp__recall_add(struct qp__recall *recall, const struct qp__source *source,
                          struct qp_err *err);
/* The number of the message that is added next; 0: the index is empty. */
uint64_t qp__recall_next(const struct qp__recall *recall);
size_t qp__recall_bytes(const struct qp__recall *recall); /* of memory */

/* The best hits with numbers up to `last`, at most `max`; *count of them. QP_NOMEM. */
enum qp_rc qp__recall_search(const struct qp__recall *recall, struct qp_bytes query, uint64_t last,
                             struct qp__recall_hit *hits, size_t max, size_t *count,
                             struct qp_err *err);

/* Appends the part of a text that has most of the query, about QP__RECALL_SNIPPET bytes, on one
 * line. */
enum qp_rc qp__recall_snippet(struct qp_bytes text, struct qp_bytes query, struct qp__buf *out,
                              struct qp_err *err);

/* Appends what is recalled for a message of the user, at most `budget` tokens: one line per hit
 * with its number, role and snippet. `messages` are those of the hits. Only hits that have at least
 * two of the query's words or one of its values are shown; *count of them are left in `hits`. */
enum qp_rc qp__recall_show(struct qp_bytes query, struct qp__recall_hit *hits,
                           const struct qp_message *const *messages, size_t *count, int64_t budget,
                           struct qp__buf *out, struct qp_err *err);

/* Appends a page of messages from number `at` on, at most `budget` tokens. *next is the number of
 * the first message that is not shown whole, and *offset the byte of its text to go on from; both 0
 * when all was shown. QP_NOTFOUND: the source has no such message. */
enum qp_rc qp__recall_read(const struct qp__source *source, uint64_t at, size_t from_offset,
                           int64_t budget, struct qp__buf *out, uint64_t *next, size_t *offset,
                           struct qp_err *err);

#endif

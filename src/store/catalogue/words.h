/* words.h - the words of a text, as the catalogue has them, for a driver that keeps the catalogue
 * itself (struct qp__driver_catalogue): so its search gives the same answers.
 *
 * Words are written one after the other as "<a><brown><fox>": in lower case, without accents. They
 * contain no sign of ASCII, so "<brown><fox>" is a phrase in this text, and "<bro" is the beginning
 * of a word in it. */
#ifndef QP_STORE_CATALOGUE_WORDS_H
#define QP_STORE_CATALOGUE_WORDS_H

#include "base/buf.h"
#include "base/mutex.h"
#include "quipu.h"

#define QP__WORD_MAX 500 /* longer words are cut after so many bytes */
#define QP__WORDS_KEPT 8

/* Splits text; used by one thread at a time. A pool keeps some. */
struct qp__words;
struct qp__words_pool {
  struct qp__mutex lock;
  struct qp__words *unused;
  size_t count;
};
/* A zeroed one. Here, because programs without SQLite have an empty pool. */
static inline void
qp__words_pool_init(struct qp__words_pool *pool)
{
  qp__mutex_init(&pool->lock, QP__RANK_WORDS);
}
void qp__words_pool_release(struct qp__words_pool *pool);
enum qp_rc qp__words_take(struct qp__words_pool *pool, struct qp__words **out, struct qp_err *err);
void qp__words_give(struct qp__words_pool *pool, struct qp__words *w); /* NULL is allowed */

/* Appends the words of a text; *count is their number. */
enum qp_rc qp__words_split(struct qp__words *w, struct qp_bytes text, struct qp__buf *out,
                           uint32_t *count, struct qp_err *err);
/* The same for the searchable text of a stored message. *any: it has some, perhaps without words;
 * otherwise search does not know the message. */
enum qp_rc qp__words_of_message(struct qp__words *w, struct qp_bytes json, struct qp__buf *out,
                                uint32_t *count, bool *any, struct qp_err *err);
/* Appends the snippet of a stored message for a query in the syntax of FTS5. */
enum qp_rc qp__words_snippet(struct qp__words *w, struct qp_bytes json, struct qp_bytes match,
                             struct qp__buf *out, struct qp_err *err);

#endif

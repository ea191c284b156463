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

/* What an answer of a model has used, with the figures that its provider reported. */
struct qp__answer_use {
  char model[QP__WORD_MAX + 1]; /* longer names are cut; "" if it was not stored */
  double input, output, cached, cost;
  bool unpriced; /* the cost is unknown */
};

/* Reports count answers per quarter of an hour. */
#define QP__QUARTERS_PER_DAY 96
#define QP__QUARTER_MS ((int64_t)900000)
static inline int64_t
qp__quarter_of(int64_t ms)
{
  return ms / QP__QUARTER_MS - (ms % QP__QUARTER_MS < 0);
}

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
/* What is known of a stored message. */
struct qp__message_words {
  uint32_t count;
  bool any;  /* it has searchable text, perhaps without words; otherwise search does not know it */
  bool used; /* it is an answer that has used something … */
  struct qp__answer_use answer; /* … this */
};
/* The same for the searchable text of a stored message. */
enum qp_rc qp__words_of_message(struct qp__words *w, struct qp_bytes json, struct qp__buf *out,
                                struct qp__message_words *known, struct qp_err *err);
/* Appends the snippet of a stored message for a query in the syntax of FTS5. */
enum qp_rc qp__words_snippet(struct qp__words *w, struct qp_bytes json, struct qp_bytes match,
                             struct qp__buf *out, struct qp_err *err);

#endif

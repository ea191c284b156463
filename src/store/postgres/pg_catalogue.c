/* pg_catalogue.c - lists and search by PostgreSQL, with the answers that the catalogue of a store
 * on files gives.
 *
 * A search first sees to it that the words of all messages are there (pg_index.c). Then it asks the
 * index of quipu.texts, an inverted index (GIN) of words that our own code has made, for the
 * messages that have all words. The words themselves then tell, as a string, whether a phrase is
 * there and how often. The rank is computed as by FTS5 (bm25), from the numbers of all messages in
 * quipu.totals and of those that have a phrase. So the time of a search grows with the number of
 * messages that have its words, as it does with FTS5; that of a page of a list depends on the page
 * only. */
#include <string.h>

#include "base/err.h"
#include "store/postgres/postgres_int.h"

enum qp_rc
qp__pg_answer(struct qp__pg *pg, const char *what, const struct qp__pg_call *call, PGresult **out,
              struct qp_err *err)
{
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_ask(pg, what, call, &link, err);

  if (!rc) {
    *out = link->results[0];
    link->results[0] = NULL;
  }
  qp__pg_give(link);
  return rc;
}

/* ---- lists ---- */

/* A text in the answer: libpq puts a NUL behind each value. */
static const char *
get_text(const PGresult *r, int row, int column)
{
  return qp__pg_value(r, row, column).data;
}

static enum qp_rc
visit_row(const PGresult *r, int i, qp_catalogue_visit *visit, void *arg, struct qp_err *err)
{
  struct qp_catalogue_row row = { .owner = get_text(r, i, 1),
                                  .created_at = qp__pg_int(r, i, 2),
                                  .updated_at = qp__pg_int(r, i, 3),
                                  .messages = (uint64_t)qp__pg_int(r, i, 4),
                                  .bytes = (uint64_t)qp__pg_int(r, i, 5),
                                  .branches = (uint64_t)qp__pg_int(r, i, 6),
                                  .title = get_text(r, i, 8),
                                  .model_id = get_text(r, i, 9),
                                  .mode = get_text(r, i, 10),
                                  .summary = get_text(r, i, 11) };

  if (!qp__pg_uuid(r, i, 0, &row.id) || !qp_state_find(get_text(r, i, 7), &row.state))
    return qp__fail(err, QP_CORRUPT, "a row of quipu.catalogue is damaged: run quipu reindex");
  return visit(arg, &row);
}

static enum qp_rc
list(void *self, const struct qp__list_query *query, qp_catalogue_visit *visit, void *arg,
     struct qp_err *err)
{
  struct qp__pg_call call = { .statement = query->owner ? QP__PG_LIST_OWNER : QP__PG_LIST };
  PGresult *r = NULL;
  enum qp_rc rc;

  qp__pg_add_int8(&call, query->updated_at);
  qp__pg_add_uuid(&call, &query->id);
  qp__pg_add_int8(&call, query->limit);
  if (query->owner)
    qp__pg_add_text(&call, query->owner);
  rc = qp__pg_answer(self, "list contexts", &call, &r, err);
  for (int i = 0; !rc && i < PQntuples(r); i++)
    rc = visit_row(r, i, visit, arg, err);
  PQclear(r);
  return rc;
}

static enum qp_rc
in_state(void *self, const char *state, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_IN_STATE };
  PGresult *r = NULL;
  enum qp_rc rc;

  qp__pg_add_text(&call, state);
  rc = qp__pg_answer(self, "list contexts", &call, &r, err);
  for (int i = 0; !rc && i < PQntuples(r); i++) {
    struct qp_uuid id;

    if (qp__pg_uuid(r, i, 0, &id))
      rc = visit(arg, &id);
  }
  PQclear(r);
  return rc;
}

static enum qp_rc
owner_bytes(void *self, const char *owner, int64_t *out, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_OWNER_BYTES };
  PGresult *r = NULL;
  enum qp_rc rc;

  qp__pg_add_text(&call, owner);
  rc = qp__pg_answer(self, "count the bytes of an owner", &call, &r, err);
  if (!rc)
    *out = qp__pg_int(r, 0, 0);
  PQclear(r);
  return rc;
}

/* ---- searches ---- */

/* The arrays of a query: see QP__PG_FIND. */
struct question {
  struct qp__buf all; /* what the index is asked for */
  struct qp__buf one; /* of one phrase */
  struct qp__pg_array phrases, vectors, singles, unwanted;
};

static void
init_question(struct question *q)
{
  qp__buf_init(&q->all, (size_t)1 << 20);
  qp__buf_init(&q->one, (size_t)1 << 20);
  qp__pg_array_init(&q->phrases, QP__PG_TEXT);
  qp__pg_array_init(&q->vectors, QP__PG_TEXT);
  qp__pg_array_init(&q->singles, QP__PG_BOOL);
  qp__pg_array_init(&q->unwanted, QP__PG_TEXT);
}

static void
release_question(struct question *q)
{
  qp__buf_release(&q->all);
  qp__buf_release(&q->one);
  qp__pg_array_release(&q->phrases);
  qp__pg_array_release(&q->vectors);
  qp__pg_array_release(&q->singles);
  qp__pg_array_release(&q->unwanted);
}

/* Appends the words of "<a><b>" as 'a' & 'b', that of an open end as 'b':*. Returns their number.
 * Words have no signs of ASCII; if one had, it would be quoted. */
static size_t
add_vector(struct qp__buf *out, const char *words)
{
  size_t n = 0;

  for (const char *w = words; *w == '<'; n++) {
    size_t len = strcspn(++w, ">");

    (void)qp__buf_add_str(out, out->len ? " & '" : "'");
    for (size_t i = 0; i < len; i++) {
      if (w[i] == '\'' || w[i] == '\\')
        (void)qp__buf_add_char(out, w[i]);
      (void)qp__buf_add_char(out, w[i]);
    }
    w += len;
    (void)qp__buf_add_str(out, *w ? "'" : "':*");
    w += *w == '>';
  }
  return n;
}

static enum qp_rc
add_phrases(struct question *q, const struct qp__find_query *query, struct qp_err *err)
{
  for (size_t i = 0; i < query->count; i++) {
    const struct qp__phrase *p = &query->phrases[i];
    size_t words;

    if (p->unwanted) {
      qp__pg_array_add(&q->unwanted, p->words.data, p->words.len);
      continue;
    }
    qp__buf_reset(&q->one);
    words = add_vector(&q->one, p->words.data);
    (void)add_vector(&q->all, p->words.data);
    qp__pg_array_add(&q->phrases, p->words.data, p->words.len);
    qp__pg_array_add(&q->vectors, q->one.data, q->one.len);
    qp__pg_array_add_int(&q->singles, words == 1);
  }
  return qp__buf_check(q->all.rc ? &q->all : &q->one, "the search", err);
}

static enum qp_rc
ask_search(struct qp__pg *pg, struct question *q, const struct qp__find_query *query,
           PGresult **out, struct qp_err *err)
{
  bool one = !qp_uuid_is_none(&query->only);
  struct qp__pg_call call = { .statement = one ? QP__PG_SEARCH_CONTEXT : QP__PG_SEARCH };
  struct qp__pg_array *arrays[] = { &q->phrases, &q->vectors, &q->singles, &q->unwanted };
  enum qp_rc rc = QP_OK;

  qp__pg_add_bytes(&call, qp__buf_bytes(&q->all));
  for (size_t i = 0; i < 4 && !rc; i++)
    rc = qp__pg_add_array(&call, arrays[i], err);
  qp__pg_add_int8(&call, query->limit);
  qp__pg_add_float8(&call, query->rank);
  qp__pg_add_uuid(&call, &query->context);
  qp__pg_add_int8(&call, query->number);
  if (one)
    qp__pg_add_uuid(&call, &query->only);
  else
    qp__pg_add_text(&call, query->owner);
  return rc ? rc : qp__pg_answer(pg, "search", &call, out, err);
}

static enum qp_rc
visit_hit(const PGresult *r, int i, qp__found_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__found found = { .hit = { .title = get_text(r, i, 1),
                                      .role = (enum qp_role)(qp__pg_int(r, i, 3) >> 4 & 15),
                                      .created_at = qp__pg_int(r, i, 4),
                                      .rank = qp__pg_float(r, i, 5) },
                             .number = qp__pg_int(r, i, 6),
                             .stored = qp__pg_value(r, i, 7) };

  if (!qp__pg_uuid(r, i, 0, &found.hit.context) || !qp__pg_uuid(r, i, 2, &found.hit.message))
    return qp__fail(err, QP_CORRUPT, "a row of quipu.texts is damaged: run quipu reindex");
  return visit(arg, &found);
}

static enum qp_rc
search(void *self, const struct qp__find_query *query, qp__found_visit *visit, void *arg,
       struct qp_err *err)
{
  struct question q;
  PGresult *r = NULL;
  enum qp_rc rc;

  init_question(&q);
  rc = qp__pg_index_due(self, err);
  if (!rc)
    rc = add_phrases(&q, query, err);
  if (!rc)
    rc = ask_search(self, &q, query, &r, err);
  release_question(&q);
  for (int i = 0; !rc && i < PQntuples(r); i++)
    rc = visit_hit(r, i, visit, arg, err);
  PQclear(r);
  return rc;
}

const struct qp__driver_catalogue qp__pg_catalogue = {
  .list = list,
  .search = search,
  .in_state = in_state,
  .owner_bytes = owner_bytes,
  .sizes = qp__pg_sizes,
  .size_sum = qp__pg_size_sum,
  .usage = qp__pg_usage,
  .reindex = qp__pg_reindex,
};

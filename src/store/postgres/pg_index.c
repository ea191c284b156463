/* pg_index.c - makes the rows and words of the catalogue from what is stored: for stores that are
 * older than the catalogue, for contexts that were built as a whole, and for `quipu reindex`.
 *
 * quipu.unlisted names the contexts for which this is to be done, so that it goes on after an
 * interruption: open() returns when the table is empty. A context is done in steps of a few hundred
 * messages, each a transaction that locks the context's lease, so that it and the commits of a server
 * that writes the context come one after the other. A step may be repeated. */
#include <string.h>

#include "base/err.h"
#include "store/postgres/pg_rows.h"

struct indexing {
  struct qp__pg *pg;
  struct qp_uuid id;
  struct qp__words *words;
  int64_t after; /* the number of the last message that is done */
  bool more;
  bool gone; /* there is no such context */
  enum qp_rc rc;
  struct qp_err err;
};

static void
send_of_context(struct qp__pg_link *link, enum qp__pg_statement statement,
                const struct qp_uuid *id)
{
  struct qp__pg_call call = { .statement = statement };

  qp__pg_add_uuid(&call, id);
  qp__pg_send(link, &call);
}

/* ---- words ---- */

static enum qp_rc
make_text(struct indexing *x, struct qp__pg_rows *rows, const PGresult *r, int i,
          struct qp__buf *words)
{
  struct qp__pg_text text = { .context = x->id,
                              .number = qp__pg_int(r, i, 0),
                              .trashed = qp__pg_int(r, i, 3) != 0 };
  struct qp_bytes stored = qp__pg_value(r, i, 2);
  bool any = false;
  enum qp_rc rc = QP_OK;

  qp__buf_reset(words);
  if (qp__pg_uuid(r, i, 1, &text.id) && stored.data)
    rc = qp__words_of_message(x->words, stored, words, &text.count, &any, &x->err);
  text.words = qp__buf_bytes(words);
  if (!rc && any)
    qp__pg_rows_add_text(rows, &text);
  return rc;
}

/* The words of the messages of one answer. */
static enum qp_rc
send_texts(struct indexing *x, struct qp__pg_link *link, PGresult *r)
{
  struct qp__pg_call drop = { .statement = QP__PG_PURGE_TEXTS };
  struct qp__pg_array ids;
  struct qp__pg_rows rows;
  struct qp__buf words;
  enum qp_rc rc = QP_OK;

  qp__pg_rows_init(&rows);
  qp__pg_array_init(&ids, QP__PG_UUID);
  qp__buf_init(&words, QP__PG_WORDS_MAX);
  for (int i = 0; i < PQntuples(r) && !rc; i++) {
    qp__pg_array_add(&ids, PQgetvalue(r, i, 1), 16);
    rc = make_text(x, &rows, r, i, &words);
  }
  qp__pg_add_uuid(&drop, &x->id);
  if (!rc)
    rc = qp__pg_add_array(&drop, &ids, &x->err);
  qp__pg_add_int2(&drop, qp__pg_slot(x->pg));
  if (!rc) {
    qp__pg_send(link, &drop);
    rc = qp__pg_rows_send(&rows, x->pg, link, &x->err);
  }
  qp__buf_release(&words);
  qp__pg_array_release(&ids);
  qp__pg_rows_release(&rows);
  return rc;
}

/* ---- the row ---- */

static enum qp_rc
send_row(struct indexing *x, struct qp__pg_link *link, const PGresult *r)
{
  struct qp_bytes bytes = qp__pg_value(r, 0, 0);
  struct qp__meta *meta = NULL;
  struct qp__driver_row row;
  struct qp__pg_rows rows;
  int64_t newest = qp__pg_int(r, 0, 3);
  enum qp_rc rc = qp__meta_decode("metadata", bytes, &meta, &x->err);

  if (rc == QP_NOMEM)
    return rc;
  if (rc) { /* check reports it */
    qp__log(&x->pg->log, QP_LOG_WARN, "postgres", "a context is not listed: %s", x->err.msg);
    return QP_OK;
  }
  qp__driver_row_init(&row, meta, bytes.len);
  row.row.messages = (uint64_t)qp__pg_int(r, 0, 1);
  row.row.bytes = (uint64_t)qp__pg_int(r, 0, 2);
  if (newest > row.row.updated_at)
    row.row.updated_at = newest;
  qp__pg_rows_init(&rows);
  rc = qp__pg_rows_put(&rows, &x->id, &row, &x->err);
  if (!rc)
    rc = qp__pg_rows_send(&rows, x->pg, link, &x->err);
  qp__pg_rows_release(&rows);
  qp__meta_free(meta);
  return rc;
}

/* ---- steps ---- */

/* Ends a step: with a failure of ours nothing of it is stored. */
static enum qp__pg_outcome
end_step(struct indexing *x, struct qp__pg_link *link, enum qp_rc rc)
{
  x->rc = rc;
  qp__pg_send_plain(link, rc ? QP__PG_ROLLBACK : QP__PG_COMMIT);
  return qp__pg_sync(link);
}

/* Begins a step: *out is the answer to a question about the context. */
static enum qp__pg_outcome
begin_step(struct indexing *x, struct qp__pg_link *link, const struct qp__pg_call *call,
           PGresult **out)
{
  enum qp__pg_outcome outcome;

  qp__pg_send_plain(link, QP__PG_BEGIN);
  send_of_context(link, QP__PG_LEASE_LOCK, &x->id);
  qp__pg_send(link, call);
  outcome = qp__pg_sync(link);
  if (outcome)
    return outcome;
  x->gone = PQntuples(link->results[1]) == 0;
  *out = link->results[2];
  link->results[2] = NULL;
  return QP__PG_DONE;
}

static enum qp__pg_outcome
index_some(struct qp__pg_link *link, void *arg)
{
  struct indexing *x = arg;
  struct qp__pg_call call = { .statement = QP__PG_TEXTS_SOURCE };
  PGresult *r = NULL;
  int64_t last = x->after;
  enum qp_rc rc = QP_OK;
  enum qp__pg_outcome outcome;

  qp__pg_add_uuid(&call, &x->id);
  qp__pg_add_int8(&call, x->after);
  outcome = begin_step(x, link, &call, &r);
  if (outcome)
    return outcome;
  x->more = !x->gone && PQntuples(r) > 0;
  if (x->more) {
    last = qp__pg_int(r, PQntuples(r) - 1, 0);
    rc = send_texts(x, link, r);
  }
  PQclear(r);
  outcome = end_step(x, link, rc);
  if (outcome == QP__PG_DONE)
    x->after = last;
  return outcome;
}

static enum qp__pg_outcome
index_row(struct qp__pg_link *link, void *arg)
{
  struct indexing *x = arg;
  struct qp__pg_call call = { .statement = QP__PG_ROW_SOURCE };
  PGresult *r = NULL;
  enum qp_rc rc = QP_OK;
  enum qp__pg_outcome outcome;

  qp__pg_add_uuid(&call, &x->id);
  outcome = begin_step(x, link, &call, &r);
  if (outcome)
    return outcome;
  if (!x->gone && PQntuples(r) == 1)
    rc = send_row(x, link, r);
  if (!rc)
    send_of_context(link, QP__PG_UNLISTED_DROP, &x->id);
  PQclear(r);
  return end_step(x, link, rc);
}

static enum qp_rc
run_step(struct indexing *x, qp__pg_run_fn *step, struct qp_err *err)
{
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  x->rc = QP_OK;
  rc = qp__pg_query(x->pg, "make the catalogue", step, x, &link, err);
  qp__pg_give(link);
  if (!rc && x->rc) {
    rc = x->rc;
    if (err)
      *err = x->err;
  }
  return rc;
}

enum qp_rc
qp__pg_index_context(struct qp__pg *pg, const struct qp_uuid *id, struct qp_err *err)
{
  struct indexing x = { .pg = pg, .id = *id, .more = true };
  enum qp_rc rc = qp__words_take(&pg->words, &x.words, err);

  while (!rc && x.more)
    rc = run_step(&x, index_some, err);
  if (!rc)
    rc = run_step(&x, index_row, err);
  qp__words_give(&pg->words, x.words);
  return rc;
}

/* ---- all that wait ---- */

/* Some of the contexts that wait. */
static enum qp_rc
read_unlisted(struct qp__pg *pg, struct qp_uuid *ids, size_t max, size_t *count,
              struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_UNLISTED };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_ask(pg, "read what is not listed", &call, &link, err);

  *count = 0;
  for (int i = 0; !rc && i < PQntuples(link->results[0]) && *count < max; i++)
    *count += qp__pg_uuid(link->results[0], i, 0, &ids[*count]);
  qp__pg_give(link);
  return rc;
}

static enum qp_rc
count_unlisted(struct qp__pg *pg, uint64_t *out, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_UNLISTED_COUNT };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_ask(pg, "count what is not listed", &call, &link, err);

  *out = rc ? 0 : (uint64_t)qp__pg_int(link->results[0], 0, 0);
  qp__pg_give(link);
  return rc;
}

enum qp_rc
qp__pg_index_rest(struct qp__pg *pg, qp_reindex_visit *visit, void *arg, struct qp_err *err)
{
  struct qp_uuid ids[256];
  uint64_t done = 0, total = 0;
  size_t count;
  enum qp_rc rc = read_unlisted(pg, ids, 256, &count, err);

  if (!rc && count)
    rc = count_unlisted(pg, &total, err);
  if (!rc && count)
    qp__log(&pg->log, QP_LOG_INFO, "postgres", "the catalogue is made for %llu contexts",
            (unsigned long long)total);
  while (!rc && count) {
    for (size_t i = 0; i < count && !rc; i++) {
      rc = qp__pg_index_context(pg, &ids[i], err);
      done++;
      if (!rc && visit)
        rc = visit(arg, done < total ? done : total, total);
    }
    if (!rc)
      rc = read_unlisted(pg, ids, 256, &count, err);
  }
  return rc;
}

enum qp_rc
qp__pg_reindex(void *self, qp_reindex_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_UNLISTED_ALL };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_ask(self, "make the catalogue anew", &call, &link, err);

  qp__pg_give(link);
  return rc ? rc : qp__pg_index_rest(self, visit, arg, err);
}

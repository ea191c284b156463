/* pg_index.c - the words of messages, and rows of the catalogue from what is stored.
 *
 * A commit does not make words: that would take longer than all the rest of it. The row of a
 * context in quipu.catalogue says up to which message its words are in quipu.texts (`indexed`), and
 * which message is its newest (`last`, in the transaction of the commit). So any server finds the
 * contexts with missing words at once, in an index that has only those. A search first makes what
 * is missing; a thread of each server does so soon after commits. What answers have used is counted
 * in the same steps (`counted`), for reports (pg_report.c).
 *
 * A step makes the words of some hundred messages, which never change, without a lock, and adds
 * them in a short transaction. That one locks the context against its deletion, so that no words
 * stay behind; commits go on. A step may be repeated, or done by two servers at once: words are
 * added once, because they have a key, and usage is added by the one that moves `counted`. Its
 * commit does not wait for the disk, because commits of the same context wait for its lock on the
 * row. If the database crashes, the step is undone as a whole, and made again.
 *
 * Rows are made from what is stored for stores that are older than the catalogue, for contexts that
 * were built as a whole, and for `quipu reindex`. quipu.unlisted names those contexts, so that it
 * goes on after an interruption: open() returns when the table is empty. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/postgres/pg_rows.h"

#define DUE_MAX 1000                /* as in the statement */
#define WORDS_MAX ((size_t)1 << 20) /* of a message; its text is limited to a quarter */
#define FOLLOW_MS 500               /* from the first commit to the work of the thread */
#define RETRY_MS 10000              /* … after a failure */

/* A program that only stores links without SQLite, and so without these. Its messages get their
 * words from the next program that searches. */
#pragma weak qp__words_take
#pragma weak qp__words_give
#pragma weak qp__words_of_message

static bool
has_words(void)
{
  return qp__words_take != NULL;
}

static void
send_of_context(struct qp__pg_link *link, enum qp__pg_statement statement, const struct qp_uuid *id)
{
  struct qp__pg_call call = { .statement = statement };

  qp__pg_add_uuid(&call, id);
  qp__pg_send(link, &call);
}

/* ---- words ---- */

/* The words of some messages of a context. */
struct step {
  struct qp__pg *pg;
  struct qp_uuid id;
  struct qp__words *words;
  int64_t indexed, counted, last;  /* of its row; last -1: it has none */
  int64_t done;                    /* afterwards: up to this message */
  struct qp__pg_array words_of[4]; /* id, number, count, words */
  struct qp__pg_array used[7];     /* quarter, model, four figures, whether the cost is unknown */
};

static const enum qp__pg_type word_types[4] = { QP__PG_UUID, QP__PG_INT8, QP__PG_INT4,
                                                QP__PG_TEXT };
static const enum qp__pg_type used_types[7] = { QP__PG_INT8,   QP__PG_TEXT,   QP__PG_FLOAT8,
                                                QP__PG_FLOAT8, QP__PG_FLOAT8, QP__PG_FLOAT8,
                                                QP__PG_BOOL };

static enum qp__pg_outcome
ask_due(struct qp__pg_link *link, void *arg)
{
  const struct step *x = arg;

  qp__pg_send_plain(link, QP__PG_BY_KEY);
  send_of_context(link, QP__PG_DUE_OF, &x->id);
  send_of_context(link, QP__PG_DUE_MESSAGES, &x->id);
  return qp__pg_sync(link);
}

static void
add_answer(struct step *x, int64_t at, const struct qp__answer_use *a)
{
  const double figures[] = { a->input, a->output, a->cached, a->cost };

  qp__pg_array_add_int(&x->used[0], qp__quarter_of(at));
  qp__pg_array_add(&x->used[1], a->model, strlen(a->model));
  for (size_t i = 0; i < 4; i++)
    qp__pg_array_add_float(&x->used[2 + i], figures[i]);
  qp__pg_array_add_int(&x->used[6], a->unpriced);
}

static enum qp_rc
split_message(struct step *x, const PGresult *r, int i, struct qp__buf *words, struct qp_err *err)
{
  struct qp_bytes stored = qp__pg_value(r, i, 2);
  struct qp__message_words known = { .any = false };
  enum qp_rc rc = QP_OK;

  qp__buf_reset(words);
  if (stored.data)
    rc = qp__words_of_message(x->words, stored, words, &known, err);
  if (rc)
    return rc;
  if (known.used)
    add_answer(x, qp__pg_int(r, i, 3), &known.answer);
  if (!known.any || qp__pg_int(r, i, 0) <= x->indexed)
    return QP_OK;
  qp__pg_array_add(&x->words_of[0], PQgetvalue(r, i, 1), 16);
  qp__pg_array_add_int(&x->words_of[1], qp__pg_int(r, i, 0));
  qp__pg_array_add_int(&x->words_of[2], known.count);
  qp__pg_array_add(&x->words_of[3], words->data ? words->data : "", words->len);
  return QP_OK;
}

/* Reads messages and makes their words. Afterwards `done` is the number of the last of them. */
static enum qp_rc
read_due(struct step *x, struct qp_err *err)
{
  struct qp__pg_link *link = NULL;
  struct qp__buf words;
  enum qp_rc rc = qp__pg_query(x->pg, "read what is to be indexed", ask_due, x, &link, err);

  if (rc)
    return rc;
  qp__buf_init(&words, WORDS_MAX);
  x->last = x->done = -1;
  if (PQntuples(link->results[1]) == 1) {
    const PGresult *r = link->results[2];
    int count = PQntuples(r);

    x->indexed = qp__pg_int(link->results[1], 0, 0);
    x->last = qp__pg_int(link->results[1], 0, 1);
    x->counted = qp__pg_int(link->results[1], 0, 2);
    for (int i = 0; i < count && !rc; i++)
      rc = split_message(x, r, i, &words, err);
    x->done = count ? qp__pg_int(r, count - 1, 0) : x->last;
  }
  qp__buf_release(&words);
  qp__pg_give(link);
  return rc;
}

static enum qp__pg_outcome
add_words(struct qp__pg_link *link, void *arg)
{
  struct step *x = arg;
  struct qp__pg_call add = { .statement = QP__PG_TEXTS_ADD };
  struct qp__pg_call done = { .statement = QP__PG_COUNTED };
  size_t at = x->words_of[0].count ? 5 : 4; /* the answer of the last call but one */
  enum qp__pg_outcome outcome;
  struct qp_err err;

  qp__pg_send_plain(link, QP__PG_BEGIN);
  qp__pg_send_plain(link, QP__PG_COMMIT_SOON);
  qp__pg_send_plain(link, QP__PG_BY_KEY);
  send_of_context(link, QP__PG_CONTEXT_SHARE, &x->id);
  qp__pg_add_uuid(&add, &x->id);
  for (size_t i = 0; i < 4; i++)
    (void)qp__pg_add_array(&add, &x->words_of[i], &err); /* they were checked */
  qp__pg_add_int2(&add, qp__pg_slot(x->pg));
  if (x->words_of[0].count)
    qp__pg_send(link, &add);
  qp__pg_add_uuid(&done, &x->id);
  qp__pg_add_int8(&done, x->done);
  qp__pg_add_int8(&done, x->counted);
  for (size_t i = 0; i < 7; i++)
    (void)qp__pg_add_array(&done, &x->used[i], &err);
  qp__pg_send(link, &done);
  qp__pg_send_plain(link, QP__PG_COMMIT);
  outcome = qp__pg_sync(link);
  if (outcome == QP__PG_DONE && !qp__pg_int(link->results[at], 0, 0))
    x->done = INT64_MIN; /* another server was quicker, or the context is gone: look again */
  return outcome;
}

static void
init_arrays(struct step *x)
{
  for (size_t i = 0; i < 4; i++)
    qp__pg_array_init(&x->words_of[i], word_types[i]);
  for (size_t i = 0; i < 7; i++)
    qp__pg_array_init(&x->used[i], used_types[i]);
}

static void
release_arrays(struct step *x)
{
  for (size_t i = 0; i < 4; i++)
    qp__pg_array_release(&x->words_of[i]);
  for (size_t i = 0; i < 7; i++)
    qp__pg_array_release(&x->used[i]);
}

static enum qp_rc
run_step(struct step *x, struct qp_err *err)
{
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  init_arrays(x);
  rc = read_due(x, err);
  for (size_t i = 0; i < 4 && !rc; i++)
    rc = qp__buf_check(&x->words_of[i].buf, "the words of messages", err);
  for (size_t i = 0; i < 7 && !rc; i++)
    rc = qp__buf_check(&x->used[i].buf, "the words of messages", err);
  if (!rc && x->last >= 0)
    rc = qp__pg_query(x->pg, "index messages", add_words, x, &link, err);
  qp__pg_give(link);
  release_arrays(x);
  return rc;
}

/* ---- all that is due ---- */

struct due {
  struct qp_uuid id;
  int64_t last;
};

static enum qp__pg_outcome
ask_list(struct qp__pg_link *link, void *arg)
{
  (void)arg;
  qp__pg_send_plain(link, QP__PG_BY_KEY);
  qp__pg_send_plain(link, QP__PG_DUE);
  return qp__pg_sync(link);
}

/* Some of the contexts whose words are missing. */
static enum qp_rc
read_list(struct qp__pg *pg, struct due *out, size_t *count, struct qp_err *err)
{
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_query(pg, "read what is to be indexed", ask_list, NULL, &link, err);
  const PGresult *r = rc ? NULL : link->results[1];

  *count = 0;
  for (int i = 0; !rc && i < PQntuples(r) && *count < DUE_MAX; i++) {
    out[*count].last = qp__pg_int(r, i, 1);
    *count += qp__pg_uuid(r, i, 0, &out[*count].id);
  }
  qp__pg_give(link);
  return rc;
}

/* ---- the thread ---- */

struct qp__pg_indexer {
  struct qp__pg *pg;
  pthread_t thread;
  atomic_bool stopping;
  atomic_bool due;       /* something was committed since it looked */
  struct qp__mutex lock; /* for `wake` */
  pthread_cond_t wake;
};

/* Waits, until the store is closed. */
static void
wait_ms(struct qp__pg_indexer *x, int64_t ms)
{
  int64_t at = x->pg->os->mono_ms(x->pg->os->self) + ms;
  const struct timespec until = { .tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000 };

  qp__mutex_lock(&x->lock);
  while (!atomic_load(&x->stopping) && x->pg->os->mono_ms(x->pg->os->self) < at)
    (void)qp__mutex_timedwait(&x->lock, &x->wake, &until);
  qp__mutex_unlock(&x->lock);
}

static bool
is_stopping(const struct qp__pg_indexer *thread)
{
  return thread && atomic_load(&thread->stopping);
}

/* Up to message `until`. The thread works a quarter of the time only: if there is more to do than
 * that, commits come first, and searches do the rest. */
static enum qp_rc
index_context(struct qp__pg *pg, const struct qp_uuid *id, int64_t until,
              struct qp__pg_indexer *thread, struct qp_err *err)
{
  struct step x = { .pg = pg, .id = *id };
  enum qp_rc rc = qp__words_take(&pg->words, &x.words, err);

  if (rc)
    return rc;
  do { /* another thread may have done it meanwhile: a step looks first */
    int64_t before = pg->os->mono_ms(pg->os->self);

    qp__mutex_lock(&pg->index_lock);
    rc = run_step(&x, err);
    qp__mutex_unlock(&pg->index_lock);
    if (thread)
      wait_ms(thread, 3 * (pg->os->mono_ms(pg->os->self) - before));
  } while (!rc && x.done < x.last && x.done < until && !is_stopping(thread));
  qp__words_give(&pg->words, x.words);
  return rc;
}

/* A full list may not be all of it. Whatever is committed meanwhile is not waited for. */
static enum qp_rc
index_all(struct qp__pg *pg, struct qp__pg_indexer *thread, struct qp_err *err)
{
  struct due *list = qp__alloc0(DUE_MAX, sizeof(*list));
  size_t count;
  enum qp_rc rc;

  if (!list)
    return qp__fail_nomem(err, "indexing messages");
  do {
    rc = read_list(pg, list, &count, err);
    for (size_t i = 0; i < count && !rc && !is_stopping(thread); i++)
      rc = index_context(pg, &list[i].id, list[i].last, thread, err);
  } while (!rc && count == DUE_MAX && !is_stopping(thread));
  qp__free(list);
  return rc;
}

/* A database that cannot be written, such as a standby, has the words that its primary made. */
enum qp_rc
qp__pg_index_due(struct qp__pg *pg, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  enum qp_rc rc = has_words() ? index_all(pg, NULL, &why) : QP_OK;

  if (rc && pg->readonly) {
    qp__log(&pg->log, QP_LOG_DEBUG, "postgres", "newest messages may not be found: %s", why.msg);
    return QP_OK;
  }
  if (rc && err)
    *err = why;
  return rc;
}

void
qp__pg_index_wake(struct qp__pg *pg)
{
  struct qp__pg_indexer *x = pg->indexer;

  if (!x || atomic_exchange(&x->due, true))
    return;
  qp__mutex_lock(&x->lock);
  (void)pthread_cond_signal(&x->wake);
  qp__mutex_unlock(&x->lock);
}

static void *
run_indexer(void *arg)
{
  struct qp__pg_indexer *x = arg;
  bool told = false;

  for (;;) {
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc;

    qp__mutex_lock(&x->lock);
    while (!atomic_load(&x->stopping) && !atomic_load(&x->due))
      qp__mutex_wait(&x->lock, &x->wake);
    qp__mutex_unlock(&x->lock);
    wait_ms(x, FOLLOW_MS);
    if (atomic_load(&x->stopping))
      return NULL;
    atomic_store(&x->due, false);
    rc = index_all(x->pg, x, &err);
    if (rc && !told)
      qp__log(&x->pg->log, QP_LOG_WARN, "postgres",
              "%s; searches make the words of new messages until this works again", err.msg);
    told = rc != QP_OK;
    if (rc) {
      atomic_store(&x->due, true);
      wait_ms(x, RETRY_MS);
    }
  }
}

enum qp_rc
qp__pg_index_start(struct qp__pg *pg, struct qp_err *err)
{
  struct qp__pg_indexer *x;
  pthread_condattr_t attr;
  int sys;

  if (!has_words())
    return QP_OK;
  x = qp__alloc0(1, sizeof(*x));
  if (!x)
    return qp__fail_nomem(err, "opening a store");
  x->pg = pg;
  atomic_init(&x->due, true); /* another server may have left something */
  qp__mutex_init(&x->lock, QP__RANK_NONE);
  (void)pthread_condattr_init(&attr); /* none of these fails on Linux */
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&x->wake, &attr);
  (void)pthread_condattr_destroy(&attr);
  sys = pthread_create(&x->thread, NULL, run_indexer, x);
  if (!sys) {
    pg->indexer = x;
    return QP_OK;
  }
  (void)pthread_cond_destroy(&x->wake);
  qp__mutex_release(&x->lock);
  qp__free(x);
  return qp__fail_sys(err, -sys, "cannot start the thread that indexes messages");
}

void
qp__pg_index_stop(struct qp__pg *pg)
{
  struct qp__pg_indexer *x = pg->indexer;

  if (!x)
    return;
  atomic_store(&x->stopping, true);
  qp__mutex_lock(&x->lock);
  (void)pthread_cond_signal(&x->wake);
  qp__mutex_unlock(&x->lock);
  (void)pthread_join(x->thread, NULL);
  pg->indexer = NULL;
  (void)pthread_cond_destroy(&x->wake);
  qp__mutex_release(&x->lock);
  qp__free(x);
}

/* ---- rows ---- */

struct making {
  struct qp__pg *pg;
  struct qp_uuid id;
  bool all; /* also the sizes of its branches */
  enum qp_rc rc;
  struct qp_err err;
};

/* The row and, because it may be wrong, none of the words. */
static enum qp_rc
send_row(struct making *x, struct qp__pg_link *link, const PGresult *r)
{
  struct qp_bytes bytes = qp__pg_value(r, 0, 0);
  struct qp__meta *meta = NULL;
  struct qp__driver_row row;
  struct qp__pg_rows rows = { NULL, 0, 0 };
  int64_t newest = qp__pg_int(r, 0, 4);
  enum qp_rc rc = qp__meta_decode("metadata", bytes, &meta, &x->err);

  qp__pg_rows_delete(x->pg, link, &x->id);
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
  rc = qp__pg_rows_put(&rows, &x->id, &row, qp__pg_int(r, 0, 3), &x->err);
  if (!rc)
    rc = qp__pg_rows_send(&rows, link, &x->err);
  if (!rc) {
    send_of_context(link, QP__PG_ROW_COUNT, &x->id);
    if (x->all)
      send_of_context(link, QP__PG_UNMEASURE, &x->id);
  }
  qp__pg_rows_release(&rows);
  qp__meta_free(meta);
  return rc;
}

/* The locks are those of a commit, and that of pg_rows.c. */
static enum qp__pg_outcome
make_row(struct qp__pg_link *link, void *arg)
{
  struct making *x = arg;
  enum qp__pg_outcome outcome;
  PGresult *r;

  x->rc = QP_OK;
  qp__pg_send_plain(link, QP__PG_BEGIN);
  send_of_context(link, QP__PG_LEASE_LOCK, &x->id);
  send_of_context(link, QP__PG_CONTEXT_LOCK, &x->id);
  send_of_context(link, QP__PG_ROW_SOURCE, &x->id);
  outcome = qp__pg_sync(link);
  if (outcome)
    return outcome;
  r = link->results[3];
  link->results[3] = NULL;
  if (PQntuples(r) == 1)
    x->rc = send_row(x, link, r);
  else
    send_of_context(link, QP__PG_UNLISTED_DROP, &x->id);
  PQclear(r);
  qp__pg_send_plain(link, x->rc ? QP__PG_ROLLBACK : QP__PG_COMMIT);
  return qp__pg_sync(link);
}

static enum qp_rc
index_row(struct qp__pg *pg, const struct qp_uuid *id, bool all, struct qp_err *err)
{
  struct making x = { .pg = pg, .id = *id, .all = all };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_query(pg, "make a row of the catalogue", make_row, &x, &link, err);

  qp__pg_give(link);
  if (!rc && x.rc && err)
    *err = x.err;
  return rc ? rc : x.rc;
}

enum qp_rc
qp__pg_index_row(struct qp__pg *pg, const struct qp_uuid *id, struct qp_err *err)
{
  return index_row(pg, id, false, err);
}

/* Some of the contexts that quipu.unlisted names. */
static enum qp_rc
read_unlisted(struct qp__pg *pg, struct qp_uuid *ids, size_t max, size_t *count, struct qp_err *err)
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
    qp__log(&pg->log, QP_LOG_INFO, "postgres", "the rows of %llu contexts are made",
            (unsigned long long)total);
  while (!rc && count) {
    for (size_t i = 0; i < count && !rc; i++) {
      rc = index_row(pg, &ids[i], true, err);
      if (!rc && visit) /* with its words */
        rc = index_context(pg, &ids[i], INT64_MAX, NULL, err);
      done++;
      if (!rc && visit)
        rc = visit(arg, done < total ? done : total, total);
    }
    if (!rc)
      rc = read_unlisted(pg, ids, 256, &count, err);
  }
  return rc;
}

static enum qp_rc
visit_nothing(void *arg, uint64_t done, uint64_t total)
{
  (void)arg;
  (void)done;
  (void)total;
  return QP_OK;
}

enum qp_rc
qp__pg_reindex(void *self, qp_reindex_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_UNLISTED_ALL };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_ask(self, "make the catalogue anew", &call, &link, err);

  qp__pg_give(link);
  return rc ? rc : qp__pg_index_rest(self, visit ? visit : visit_nothing, arg, err);
}

/* pg_commit.c - group commit, and what became of commits in doubt.
 *
 * stage() copies the changes and puts them in a queue. finish() waits for its ticket; a thread that
 * finds no other one at work becomes the leader and sends everything that is in the queue as one
 * batch: one transaction, one round trip. While the database works, others stage the next batch. A
 * transaction that fails is tried again ticket by ticket, so that one commit does not fail others.
 *
 * A batch has a number, which its transaction writes into this server's row of quipu.writers, with
 * the condition that the row's `barrier` is not above it. When the connection is lost, the leader
 * connects again and raises the barrier above the number. PostgreSQL makes this wait for a
 * transaction that is still under way. Afterwards the row's `batch` says whether the batch is
 * stored, and if it is not, it cannot be stored any more, whatever is left in buffers: the leader
 * may send it again. So nothing is guessed, and nothing is stored twice.
 *
 * A database that stays away too long stops the store (struct qp__driver_recovery): the batch in
 * doubt is decided by mend(). */
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "store/postgres/postgres_int.h"

#define BATCH_TICKETS 512
#define BATCH_BYTES ((size_t)16 << 20)
#define CONFLICTS_MAX 50
#define PAUSE_MS 50
#define DIVISION_BY_ZERO "22012" /* a guard has failed */

enum verdict {
  STORED,
  REFUSED,     /* not stored; link->failure or *err says why */
  UNREACHABLE, /* pg->doubt says whether it may be stored */
};

static void
pause_ms(int ms)
{
  (void)poll(NULL, 0, ms);
}

static bool
is_late(const struct qp__pg *pg, int64_t deadline)
{
  return pg->os->mono_ms(pg->os->self) >= deadline;
}

/* ---- reading ---- */

enum qp_rc
qp__pg_query(struct qp__pg *pg, const char *what, qp__pg_run_fn *run, void *arg,
             struct qp__pg_link **out, struct qp_err *err)
{
  int64_t deadline = pg->os->mono_ms(pg->os->self) + QP__PG_PATIENCE_MS;

  for (;;) {
    struct qp__pg_link *link = NULL;
    enum qp__pg_outcome outcome;
    enum qp_rc rc = qp__pg_take(&pg->pool, &link, err);

    if (rc == QP_DENIED || rc == QP_NOMEM || (rc && is_late(pg, deadline)))
      return rc;
    if (rc) {
      pause_ms(PAUSE_MS);
      continue;
    }
    outcome = run(link, arg);
    if (outcome == QP__PG_DONE) {
      *out = link;
      return QP_OK;
    }
    if (outcome == QP__PG_FAILED || is_late(pg, deadline)) {
      rc = qp__pg_explain(link, what, err);
      qp__pg_give(link);
      return rc;
    }
    qp__pg_give(link);
  }
}

static enum qp__pg_outcome
run_call(struct qp__pg_link *link, void *arg)
{
  qp__pg_send(link, arg);
  return qp__pg_sync(link);
}

enum qp_rc
qp__pg_ask(struct qp__pg *pg, const char *what, const struct qp__pg_call *call,
           struct qp__pg_link **out, struct qp_err *err)
{
  struct qp__pg_call copy = *call;

  for (int i = 0; i < copy.count; i++) /* numbers are in the struct itself */
    if (call->values[i] == (const char *)call->numbers[i])
      copy.values[i] = (const char *)copy.numbers[i];
  return qp__pg_query(pg, what, run_call, &copy, out, err);
}

/* ---- one transaction ---- */

/* The leader's link, connected. */
static enum qp_rc
have_link(struct qp__pg *pg, struct qp_err *err)
{
  return pg->link ? QP_OK : qp__pg_take(&pg->pool, &pg->link, err);
}

static void
lose_link(struct qp__pg *pg)
{
  atomic_fetch_add(&pg->reconnects, 1);
  qp__log(&pg->log, QP_LOG_WARN, "postgres", "the connection to the database is lost: %s",
          pg->link->failure.text);
  pg->link->broken = true;
  qp__pg_give(pg->link);
  pg->link = NULL;
}

static enum qp__pg_outcome
send_batch_call(struct qp__pg *pg, enum qp__pg_statement statement, bool sync)
{
  struct qp__pg_call call = { .statement = statement };

  qp__pg_add_uuid(&call, &pg->writer);
  qp__pg_add_int8(&call, pg->batch);
  qp__pg_send(pg->link, &call);
  return sync ? qp__pg_sync(pg->link) : QP__PG_DONE;
}

/* This server's row is there, with a barrier above the batch that was used last. */
static enum qp__pg_outcome
register_writer(struct qp__pg *pg)
{
  return send_batch_call(pg, QP__PG_WRITER_ADD, true);
}

/* Decides whether the batch in doubt is stored. */
static enum qp__pg_outcome
decide(struct qp__pg *pg, bool *stored)
{
  enum qp__pg_outcome outcome = send_batch_call(pg, QP__PG_DECIDE, true);
  const PGresult *r;

  if (outcome)
    return outcome;
  r = pg->link->results[0];
  *stored = PQntuples(r) == 1 && qp__pg_int(r, 0, 0) == pg->batch;
  if (PQntuples(r) == 0)
    outcome = register_writer(pg);
  if (outcome == QP__PG_DONE) {
    pg->doubt = false;
    qp__log(&pg->log, QP_LOG_INFO, "postgres", "a transaction in doubt %s",
            *stored ? "is stored" : "is not stored");
  }
  return outcome;
}

/* A change of a file that belongs to no context. */
static bool
is_common(const struct qp__pg_op *op)
{
  return !op->context && (op->kind == QP__CHANGE_FILE_PUT || op->kind == QP__CHANGE_FILE_APPEND ||
                          op->kind == QP__CHANGE_FILE_RENAME || op->kind == QP__CHANGE_FILE_DROP);
}

/* Files of no context, such as sessions, have no lease of their own: they were staged by a server
 * that held qp__lease_common, which nobody can take over while that server's row is there. */
static void
send_fences(const struct qp__pg *pg, struct qp__pg_ticket *const *tickets, size_t n)
{
  const struct qp_uuid *last = NULL;

  for (size_t i = 0; i < n; i++) {
    const struct qp__pg_ticket *t = tickets[i];
    struct qp__pg_call guard = { .statement = QP__PG_SERVER_STAYS };
    bool common = false;

    for (size_t k = 0; k < t->count; k++)
      common |= is_common(&t->ops[k]);
    if (!common || !t->joined || (last && qp_uuid_equal(last, &t->holder)))
      continue;
    last = &t->holder;
    qp__pg_add_uuid(&guard, last);
    qp__pg_send(pg->link, &guard);
  }
}

/* Sends a batch once. A failure to build it closes the link: nothing was committed. */
static enum qp__pg_outcome
attempt(struct qp__pg *pg, struct qp__pg_ticket *const *tickets, size_t n,
        const struct qp__pg_leases *leases, struct qp_err *err)
{
  enum qp_rc rc;

  pg->batch++;
  qp__pg_send_plain(pg->link, QP__PG_BEGIN);
  qp__pg_send_plain(pg->link, QP__PG_BY_KEY);
  (void)send_batch_call(pg, QP__PG_BATCH, false);
  rc = qp__pg_leases_send(pg, pg->link, leases, err);
  send_fences(pg, tickets, n);
  if (!rc)
    rc = qp__pg_send_tickets(pg, pg->link, tickets, n, err);
  if (rc) {
    lose_link(pg);
    return QP__PG_FAILED;
  }
  qp__pg_send_plain(pg->link, QP__PG_COMMIT);
  atomic_fetch_add(&pg->batches, 1);
  return qp__pg_sync(pg->link);
}

/* Whether the failure is one of this server's row, which somebody has deleted. */
static bool
lacks_writer(const struct qp__pg_failure *f)
{
  return f->statement == QP__PG_BATCH && strcmp(f->state, DIVISION_BY_ZERO) == 0;
}

/* Stores a batch, however often the connection is lost meanwhile. */
static enum verdict
store(struct qp__pg *pg, struct qp__pg_ticket *const *tickets, size_t n,
      const struct qp__pg_leases *leases, struct qp_err *err)
{
  int64_t deadline = pg->os->mono_ms(pg->os->self) + QP__PG_PATIENCE_MS;
  unsigned conflicts = 0;
  bool stored = false;

  for (;; pause_ms(PAUSE_MS)) {
    enum qp__pg_outcome outcome = QP__PG_LOST;

    if (have_link(pg, err)) {
      if (is_late(pg, deadline))
        return UNREACHABLE;
      continue;
    }
    for (;;) {
      if (pg->doubt) {
        outcome = decide(pg, &stored);
        if (outcome == QP__PG_DONE && stored)
          return STORED;
        if (outcome == QP__PG_FAILED)
          outcome = QP__PG_LOST; /* it is still in doubt */
      } else {
        outcome = attempt(pg, tickets, n, leases, err);
        pg->doubt = outcome == QP__PG_LOST;
        if (outcome == QP__PG_DONE)
          return STORED;
      }
      if (outcome == QP__PG_FAILED) {
        if (!pg->link)
          return REFUSED; /* *err says why */
        if (lacks_writer(&pg->link->failure) && ++conflicts < CONFLICTS_MAX)
          outcome = register_writer(pg);
        else if (!qp__pg_is_conflict(&pg->link->failure) || ++conflicts >= CONFLICTS_MAX)
          return REFUSED;
        atomic_fetch_add(&pg->retries, 1);
      }
      if (outcome == QP__PG_LOST)
        break;
    }
    (void)qp__pg_explain(pg->link, "commit", err);
    lose_link(pg);
    if (is_late(pg, deadline))
      return UNREACHABLE;
  }
}

/* ---- batches ---- */

/* Why one ticket was refused. */
static enum qp_rc
explain_refusal(struct qp__pg *pg, const struct qp__pg_ticket *t, struct qp_err *err)
{
  const struct qp__pg_failure *f = &pg->link->failure;
  bool guard = strcmp(f->state, DIVISION_BY_ZERO) == 0;
  char id[QP_UUID_TEXT];

  if (guard && f->statement == QP__PG_CONTEXT_DROP)
    return qp__pg_no_context(&t->ops[0].scope, err);
  if (guard && f->statement == QP__PG_LEASE_DROP)
    return qp__fail(err, QP_BUSY, "context %s is being written by another server",
                    qp_uuid_text(&t->ops[0].scope, id));
  if (guard && f->statement == QP__PG_SERVER_STAYS)
    return qp__fail(err, QP_BUSY,
                    "this server did not extend its lease in time: nothing was stored; try again");
  if (guard && (f->statement == QP__PG_FILES_GROW || f->statement == QP__PG_FILES_START))
    return qp__fail(err, QP_CONFLICT, "a file of the store was changed by another server");
  if (f->statement == QP__PG_CONTEXT_ADD && strcmp(f->state, "23505") == 0)
    return qp__fail(err, QP_EXISTS, "context %s exists already",
                    qp_uuid_text(&t->ops[0].scope, id));
  return qp__pg_explain(pg->link, "commit", err);
}

static void
fail_context(void *arg, struct qp__pg_context *context)
{
  (void)arg;
  context->failed = true;
}

static void
find_failed(void *arg, struct qp__pg_context *context)
{
  bool *failed = arg;

  *failed |= context->failed;
}

/* With the lock. */
static bool
builds_on_failure(const struct qp__pg_ticket *t, struct qp_err *err)
{
  bool failed = false;

  qp__pg_ticket_contexts(t, find_failed, &failed);
  if (failed)
    (void)qp__fail(err, QP_IO, "an earlier change of this context could not be stored");
  return failed;
}

static void
stop(struct qp__pg *pg, const struct qp_err *err)
{
  qp__mutex_lock(&pg->lock);
  pg->stopped = true;
  pg->why = *err;
  qp__mutex_unlock(&pg->lock);
  qp__log(&pg->log, QP_LOG_ERROR, "postgres", "nothing is stored until the database is back: %s",
          err->msg);
}

/* Tickets that fail have their contexts set aside. One that staged something else, such as a
 * session, stops the store: recovery loads everything again. */
static void
fail_ticket(struct qp__pg *pg, struct qp__pg_ticket *t, enum qp_rc rc, const struct qp_err *err)
{
  bool whole = t->publish != NULL;

  t->rc = rc;
  t->err = *err;
  for (size_t i = 0; i < t->count; i++)
    whole = whole && !t->ops[i].context;
  qp__mutex_lock(&pg->lock);
  qp__pg_ticket_contexts(t, fail_context, NULL);
  qp__mutex_unlock(&pg->lock);
  if (whole)
    stop(pg, err);
}

/* Stores some tickets as one transaction; the contexts' handles are brought up to date. */
static enum verdict
store_together(struct qp__pg *pg, struct qp__pg_ticket *const *tickets, size_t n,
               struct qp_err *err)
{
  struct qp__pg_leases leases = { 0 };
  enum verdict v = REFUSED;
  bool again = n == 1;
  bool ok = true;

  for (size_t i = 0; i < n && ok; i++)
    ok = qp__pg_leases_add(&leases, tickets[i]);
  if (!ok)
    (void)qp__fail_nomem(err, "committing");
  while (ok) {
    v = store(pg, tickets, n, &leases, err);
    ok = v == REFUSED && pg->link && again && pg->link->failure.statement == QP__PG_LEASE &&
         strcmp(pg->link->failure.state, DIVISION_BY_ZERO) == 0;
    if (!ok && v == REFUSED && pg->link)
      (void)explain_refusal(pg, tickets[0], err);
    if (ok)
      ok = !qp__pg_lease_examine(pg, pg->link, &leases, err);
    again = false;
  }
  if (v == STORED) {
    qp__mutex_lock(&pg->lock);
    qp__pg_leases_advance(&leases);
    qp__mutex_unlock(&pg->lock);
  }
  qp__pg_leases_release(&leases);
  return v;
}

static void
succeed(struct qp__pg *pg, struct qp__pg_ticket *const *tickets, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    tickets[i]->rc = QP_OK;
    if (tickets[i]->publish)
      tickets[i]->publish(tickets[i]->arg);
  }
  atomic_fetch_add(&pg->commits, n);
  qp__pg_index_wake(pg);
}

static void
store_singly(struct qp__pg *pg, struct qp__pg_ticket *const *tickets, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    struct qp_err err = { QP_OK, "" };
    enum verdict v = REFUSED;
    bool refused;

    qp__mutex_lock(&pg->lock);
    refused = builds_on_failure(tickets[i], &err);
    if (pg->stopped) {
      err = pg->why;
      refused = true;
    }
    qp__mutex_unlock(&pg->lock);
    if (!refused)
      v = store_together(pg, &tickets[i], 1, &err);
    if (v == STORED)
      succeed(pg, &tickets[i], 1);
    else
      fail_ticket(pg, tickets[i], err.rc ? err.rc : QP_IO, &err);
    if (v == UNREACHABLE)
      stop(pg, &err);
  }
}

static void
run_batch(struct qp__pg *pg, struct qp__pg_ticket **tickets, size_t n)
{
  struct qp_err err = { QP_OK, "" };
  enum verdict v;

  if (n == 1) {
    store_singly(pg, tickets, n);
    return;
  }
  v = store_together(pg, tickets, n, &err);
  if (v == STORED)
    succeed(pg, tickets, n);
  else if (v == REFUSED)
    store_singly(pg, tickets, n);
  else
    stop(pg, &err);
  for (size_t i = 0; i < n && v == UNREACHABLE; i++)
    fail_ticket(pg, tickets[i], QP_IO, &err);
}

/* ---- the leader ---- */

/* Takes tickets from the queue, with the lock. Those that cannot be stored are done already. */
static size_t
take_tickets(struct qp__pg *pg, struct qp__pg_ticket **out)
{
  size_t bytes = 0;
  size_t n = 0;

  QP_ASSERT_HELD(&pg->lock);
  while (pg->first && n < BATCH_TICKETS && (!n || bytes + pg->first->bytes <= BATCH_BYTES)) {
    struct qp__pg_ticket *t = pg->first;
    struct qp_err err = pg->why;

    pg->first = t->next;
    if (!pg->first)
      pg->last = &pg->first;
    if (pg->stopped || builds_on_failure(t, &err)) {
      t->rc = err.rc;
      t->err = err;
      t->done = true;
      qp__pg_ticket_contexts(t, fail_context, NULL);
      continue;
    }
    bytes += t->bytes;
    out[n++] = t;
  }
  return n;
}

/* Called and returns with the lock. */
static void
lead(struct qp__pg *pg)
{
  struct qp__pg_ticket *tickets[BATCH_TICKETS];
  size_t n = take_tickets(pg, tickets);

  QP_ASSERT_HELD(&pg->lock);
  pg->leading = true;
  qp__mutex_unlock(&pg->lock);
  if (n)
    run_batch(pg, tickets, n);
  qp__mutex_lock(&pg->lock);
  for (size_t i = 0; i < n; i++)
    tickets[i]->done = true;
  pg->leading = false;
  (void)pthread_cond_broadcast(&pg->turn);
}

/* QP_OK: the ticket is in the queue. */
static enum qp_rc
enqueue(struct qp__pg *pg, struct qp__pg_ticket *t, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };

  qp__mutex_lock(&pg->lock);
  if (pg->stopped)
    why = pg->why;
  else if (!builds_on_failure(t, &why)) {
    t->holder = pg->holder;
    t->joined = pg->member != NULL;
    *pg->last = t;
    pg->last = &t->next;
  }
  qp__mutex_unlock(&pg->lock);
  if (why.rc && err)
    *err = why;
  return why.rc;
}

enum qp_rc
qp__pg_stage(void *self, struct qp__driver_change *changes, size_t n, qp__store_publish *publish,
             void *arg, void **ticket, struct qp_err *err)
{
  struct qp__pg_ticket *t = qp__pg_ticket_new(changes, n);
  enum qp_rc rc;

  if (!t)
    return qp__fail_nomem(err, "committing");
  t->publish = publish;
  t->arg = arg;
  rc = enqueue(self, t, err);
  if (rc)
    qp__pg_ticket_free(t);
  else
    *ticket = t;
  return rc;
}

enum qp_rc
qp__pg_finish(void *self, void *ticket, struct qp_err *err)
{
  struct qp__pg *pg = self;
  struct qp__pg_ticket *t = ticket;
  enum qp_rc rc;

  qp__mutex_lock(&pg->lock);
  while (!t->done) {
    if (pg->leading)
      qp__mutex_wait(&pg->lock, &pg->turn);
    else
      lead(pg);
  }
  qp__mutex_unlock(&pg->lock);
  rc = t->rc;
  if (rc && err)
    *err = t->err;
  qp__pg_ticket_free(t);
  return rc;
}

enum qp_rc
qp__pg_commit(struct qp__pg *pg, struct qp__pg_ticket *ticket, struct qp_err *err)
{
  enum qp_rc rc;

  if (!ticket)
    return qp__fail_nomem(err, "committing");
  rc = enqueue(pg, ticket, err);
  if (rc)
    qp__pg_ticket_free(ticket);
  return rc ? rc : qp__pg_finish(pg, ticket, err);
}

/* ---- recovery ---- */

static enum qp_rc
check_writes(void *self, struct qp_err *err)
{
  struct qp__pg *pg = self;
  enum qp_rc rc;

  qp__mutex_lock(&pg->lock);
  rc = pg->stopped ? pg->why.rc : QP_OK;
  if (rc && err)
    *err = pg->why;
  qp__mutex_unlock(&pg->lock);
  return rc;
}

static bool
is_stopped(void *self)
{
  return check_writes(self, NULL) != QP_OK;
}

/* A connection that was idle may have been lost long ago: a new one counts. */
static enum qp_rc
probe(void *self, struct qp_err *err)
{
  struct qp__pg *pg = self;
  enum qp__pg_outcome outcome = QP__PG_LOST;
  enum qp_rc rc = QP_OK;

  for (int i = 0; i <= QP__PG_LINKS && outcome == QP__PG_LOST && !rc; i++) {
    struct qp__pg_link *link = NULL;

    rc = qp__pg_take(&pg->pool, &link, err);
    if (rc)
      break;
    qp__pg_send_plain(link, QP__PG_STANDBY);
    outcome = qp__pg_sync(link);
    if (outcome)
      (void)qp__pg_explain(link, "ask the database", err);
    else if (qp__pg_int(link->results[0], 0, 0))
      rc = qp__fail(err, QP_READONLY, "the database is a standby, which accepts no writes");
    qp__pg_give(link);
  }
  return rc ? rc : outcome ? QP_IO : QP_OK;
}

static enum qp_rc
mend(void *self, struct qp_err *err)
{
  struct qp__pg *pg = self;
  bool stored;
  enum qp_rc rc;

  qp__mutex_lock(&pg->lock);
  while (pg->leading || pg->first) { /* the queue of a stopped store fails at once */
    if (pg->leading)
      qp__mutex_wait(&pg->lock, &pg->turn);
    else
      lead(pg);
  }
  pg->leading = true; /* the link is ours */
  qp__mutex_unlock(&pg->lock);
  rc = have_link(pg, err);
  if (!rc && (pg->doubt ? decide(pg, &stored) : register_writer(pg))) {
    rc = qp__pg_explain(pg->link, "find out what is stored", err);
    lose_link(pg);
  }
  qp__mutex_lock(&pg->lock);
  pg->leading = false;
  (void)pthread_cond_broadcast(&pg->turn);
  qp__mutex_unlock(&pg->lock);
  return rc;
}

static void
renew(void *self, void *context, void *fresh)
{
  struct qp__pg *pg = self;

  qp__mutex_lock(&pg->lock);
  memcpy(context, fresh, sizeof(struct qp__pg_context));
  qp__mutex_unlock(&pg->lock);
  qp__pg_context_free(self, fresh);
}

static void
resume(void *self)
{
  struct qp__pg *pg = self;

  qp__mutex_lock(&pg->lock);
  pg->stopped = false;
  qp__mutex_unlock(&pg->lock);
  qp__log(&pg->log, QP_LOG_INFO, "postgres", "the database is back: changes are stored again");
}

const struct qp__driver_recovery qp__pg_recovery = {
  .check_writes = check_writes,
  .is_stopped = is_stopped,
  .probe = probe,
  .mend = mend,
  .renew = renew,
  .resume = resume,
};

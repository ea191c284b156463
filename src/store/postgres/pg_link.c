/* pg_link.c - see pg_link.h. */
#include "store/postgres/pg_link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

#define CONNECT_MS 5000
#define IDLE_MS "5000"  /* how long the database waits for the rest of a transaction */
#define ANSWER_MS 60000 /* a statement that takes longer counts as a lost connection */

static const struct {
  const char *name, *text;
} statements[] = {
#define STATEMENT(name, text) { #name, text },
  QP__PG_STATEMENTS(STATEMENT)
#undef STATEMENT
};

/* Used where the connection string does not say otherwise: a dead peer is found in seconds. */
static const char *const defaults[][2] = {
  { "application_name", "quipu" }, { "client_encoding", "UTF8" }, { "keepalives_idle", "5" },
  { "keepalives_interval", "2" },  { "keepalives_count", "3" },   { "tcp_user_timeout", "10000" },
};
#define DEFAULT_COUNT (sizeof(defaults) / sizeof(defaults[0]))

/* ---- the connection string ---- */

static bool
is_set(const PQconninfoOption *options, const char *keyword)
{
  for (const PQconninfoOption *o = options; o->keyword; o++)
    if (strcmp(o->keyword, keyword) == 0)
      return o->val != NULL;
  return true; /* this libpq does not know it */
}

static bool
copy_options(struct qp__pg_pool *pool, const PQconninfoOption *options)
{
  size_t n = 0;

  for (const PQconninfoOption *o = options; o->keyword; o++)
    n++;
  pool->keywords = qp__alloc0(n + DEFAULT_COUNT + 1, sizeof(char *));
  pool->values = qp__alloc0(n + DEFAULT_COUNT + 1, sizeof(char *));
  if (!pool->keywords || !pool->values)
    return false;
  n = 0;
  for (const PQconninfoOption *o = options; o->keyword; o++) {
    if (!o->val)
      continue;
    pool->keywords[n] = qp__strdup(o->keyword);
    pool->values[n] = qp__strdup(o->val);
    if (!pool->keywords[n] || !pool->values[n++])
      return false;
  }
  for (size_t i = 0; i < DEFAULT_COUNT; i++) {
    if (is_set(options, defaults[i][0]))
      continue;
    pool->keywords[n] = qp__strdup(defaults[i][0]);
    pool->values[n] = qp__strdup(defaults[i][1]);
    if (!pool->keywords[n] || !pool->values[n++])
      return false;
  }
  return true;
}

enum qp_rc
qp__pg_pool_init(struct qp__pg_pool *pool, const struct qp__os *os, const struct qp__log *log,
                 const char *url, unsigned max, struct qp_err *err)
{
  PQconninfoOption *options;
  char *why = NULL;
  bool ok;

  memset(pool, 0, sizeof(*pool));
  options = PQconninfoParse(url, &why);
  PQfreemem(why); /* repeats parts of the string, perhaps of the password */
  if (!options)
    return qp__fail(err, QP_INVALID,
                    "the address of the PostgreSQL store cannot be parsed; it looks like "
                    "postgres://user@host:5432/database");
  pool->os = os;
  pool->log = log;
  pool->max = max;
  qp__mutex_init(&pool->lock, QP__RANK_POSTGRES_POOL);
  (void)pthread_cond_init(&pool->free_link, NULL);
  ok = copy_options(pool, options);
  PQconninfoFree(options);
  if (!ok) {
    qp__pg_pool_release(pool);
    return qp__fail_nomem(err, "opening a store");
  }
  return QP_OK;
}

/* ---- waiting ---- */

/* Waits until the socket can be read, or written if `write` is set. False: too late. */
static bool
wait_socket(struct qp__pg_link *link, bool write, int64_t deadline)
{
  struct pollfd p = { .fd = PQsocket(link->conn),
                      .events = (short)(write ? POLLIN | POLLOUT : POLLIN) };

  for (;;) {
    int64_t left = deadline - link->pool->os->mono_ms(link->pool->os->self);
    int n;

    if (left <= 0 || p.fd < 0)
      return false;
    n = poll(&p, 1, (int)left);
    if (n > 0)
      return true;
    if (n < 0 && errno != EINTR)
      return false;
  }
}

static int64_t
deadline_in(const struct qp__pg_link *link, int64_t ms)
{
  return link->pool->os->mono_ms(link->pool->os->self) + ms;
}

/* ---- failures ---- */

/* Keeps the first line of libpq's text, which never has a password. */
static void
note_failure(struct qp__pg_link *link, const char *state, enum qp__pg_statement statement,
             const char *text)
{
  struct qp__pg_failure *f = &link->failure;
  size_t n;

  memset(f, 0, sizeof(*f));
  f->statement = statement;
  if (state)
    (void)snprintf(f->state, sizeof(f->state), "%s", state);
  if (!text || !*text)
    text = "the connection is closed";
  n = strcspn(text, "\n");
  if (n >= sizeof(f->text))
    n = sizeof(f->text) - 1;
  memcpy(f->text, text, n);
}

static void
note_lost(struct qp__pg_link *link, const char *text)
{
  if (!link->broken)
    note_failure(link, NULL, QP__PG_BEGIN, text ? text : PQerrorMessage(link->conn));
  link->broken = true;
  atomic_store(&link->pool->away, true);
}

bool
qp__pg_is_conflict(const struct qp__pg_failure *f)
{
  return strcmp(f->state, "40001") == 0 || strcmp(f->state, "40P01") == 0;
}

/* Whether a failure means that this server cannot be used now. */
static bool
is_server_gone(const struct qp__pg_failure *f)
{
  static const char *const states[] = { "57P01", "57P02", "57P03", "57P05", "25006", "53300" };

  for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
    if (strcmp(f->state, states[i]) == 0)
      return true;
  return strncmp(f->state, "08", 2) == 0;
}

enum qp_rc
qp__pg_explain(const struct qp__pg_link *link, const char *what, struct qp_err *err)
{
  static const struct {
    const char *state;
    enum qp_rc rc;
  } codes[] = {
    { "53100", QP_FULL },   /* disk full */
    { "53200", QP_NOMEM },  /* out of memory */
    { "42501", QP_DENIED }, /* insufficient privilege */
    { "28", QP_DENIED },    /* wrong password, no such role */
    { "23505", QP_EXISTS }, /* unique violation */
    { "25006", QP_READONLY },
  };
  const struct qp__pg_failure *f = &link->failure;
  enum qp_rc rc = QP_IO;

  for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
    if (strncmp(f->state, codes[i].state, strlen(codes[i].state)) == 0)
      rc = codes[i].rc;
  return qp__fail(err, rc, "cannot %s: PostgreSQL says: %s%s%s%s", what, f->text,
                  f->state[0] ? " (" : "", f->state, f->state[0] ? ")" : "");
}

/* ---- connecting ---- */

static void
clear_results(struct qp__pg_link *link)
{
  for (size_t i = 0; i < link->result_count; i++)
    PQclear(link->results[i]);
  link->result_count = 0;
  link->count = 0;
  link->answered = false;
}

static void
disconnect(struct qp__pg_link *link)
{
  clear_results(link);
  PQfinish(link->conn);
  link->conn = NULL;
  link->broken = false;
  memset(link->prepared, 0, sizeof(link->prepared));
}

static bool
finish_connecting(struct qp__pg_link *link)
{
  int64_t deadline = deadline_in(link, CONNECT_MS);
  PostgresPollingStatusType status = PGRES_POLLING_WRITING;

  while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED) {
    if (!wait_socket(link, status == PGRES_POLLING_WRITING, deadline)) {
      note_lost(link, "the connection took too long");
      return false;
    }
    status = PQconnectPoll(link->conn);
  }
  if (status == PGRES_POLLING_OK)
    return true;
  note_lost(link, NULL);
  return false;
}

/* A commit is acknowledged after it is durable, whatever the default of the database is; a stronger
 * setting stays. A transaction whose end does not arrive, because this server is stopped or cut
 * off, must not keep its locks: the database ends it. Everything that is stored is UTF-8. */
static bool
set_up(struct qp__pg_link *link)
{
  static const char text[] =
      "SELECT set_config('synchronous_commit', 'on', false) "
      "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')";
  static const char idle[] =
      "SELECT set_config('idle_in_transaction_session_timeout', '" IDLE_MS "', false)";

  if (PQsetnonblocking(link->conn, 1) || qp__pg_execute(link, text, NULL) ||
      qp__pg_execute(link, idle, NULL) || !PQenterPipelineMode(link->conn)) {
    note_lost(link, NULL);
    return false;
  }
  atomic_store(&link->pool->away, false);
  return true;
}

/* Notices of the server are not for anybody; libpq would print them. */
static void
ignore_notice(void *arg, const PGresult *notice)
{
  (void)arg;
  (void)notice;
}

static enum qp_rc
connect_link(struct qp__pg_link *link, struct qp_err *err)
{
  struct qp__pg_pool *pool = link->pool;
  enum qp_rc rc;

  disconnect(link);
  link->conn = PQconnectStartParams((const char *const *)pool->keywords,
                                    (const char *const *)pool->values, 0);
  if (!link->conn)
    return qp__fail_nomem(err, "connecting to PostgreSQL");
  (void)PQsetNoticeReceiver(link->conn, ignore_notice, NULL);
  if (PQstatus(link->conn) == CONNECTION_BAD)
    note_lost(link, NULL);
  else if (finish_connecting(link) && set_up(link))
    return QP_OK;
  rc = qp__pg_explain(link, "connect to the database", err);
  disconnect(link);
  return rc;
}

/* ---- the pool ---- */

static void
free_link(struct qp__pg_link *link)
{
  disconnect(link);
  qp__free(link->sent);
  qp__free(link->results);
  qp__free(link);
}

void
qp__pg_pool_release(struct qp__pg_pool *pool)
{
  while (pool->idle) {
    struct qp__pg_link *next = pool->idle->next;

    free_link(pool->idle);
    pool->idle = next;
  }
  for (size_t i = 0; pool->keywords && pool->keywords[i]; i++)
    qp__free(pool->keywords[i]);
  for (size_t i = 0; pool->values && pool->values[i]; i++) {
    explicit_bzero(pool->values[i], strlen(pool->values[i]));
    qp__free(pool->values[i]);
  }
  qp__free(pool->keywords);
  qp__free(pool->values);
  (void)pthread_cond_destroy(&pool->free_link);
  qp__mutex_release(&pool->lock);
}

enum qp_rc
qp__pg_take(struct qp__pg_pool *pool, struct qp__pg_link **out, struct qp_err *err)
{
  struct qp__pg_link *link;
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&pool->lock);
  pool->waited += !pool->idle && pool->links >= pool->max;
  pool->waiting++;
  while (!pool->idle && pool->links >= pool->max)
    qp__mutex_wait(&pool->lock, &pool->free_link);
  pool->waiting--;
  link = pool->idle;
  if (link) {
    pool->idle = link->next;
    pool->idle_count--;
  } else {
    pool->links++;
  }
  qp__mutex_unlock(&pool->lock);
  if (!link) {
    link = qp__alloc0(1, sizeof(*link));
    if (!link) {
      qp__mutex_lock(&pool->lock);
      pool->links--;
      qp__mutex_unlock(&pool->lock);
      return qp__fail_nomem(err, "connecting to PostgreSQL");
    }
    link->pool = pool;
  }
  if (!link->conn) {
    rc = connect_link(link, err);
    qp__mutex_lock(&pool->lock);
    pool->connects++;
    qp__mutex_unlock(&pool->lock);
  }
  if (rc)
    qp__pg_give(link);
  else
    *out = link;
  return rc;
}

void
qp__pg_give(struct qp__pg_link *link)
{
  struct qp__pg_pool *pool;

  if (!link)
    return;
  pool = link->pool;
  clear_results(link);
  if (link->broken || (link->conn && PQstatus(link->conn) != CONNECTION_OK))
    disconnect(link);
  qp__mutex_lock(&pool->lock);
  link->next = pool->idle;
  pool->idle = link;
  pool->idle_count++;
  (void)pthread_cond_signal(&pool->free_link);
  qp__mutex_unlock(&pool->lock);
}

/* ---- statements ---- */

static bool
prepare(struct qp__pg_link *link, enum qp__pg_statement s)
{
  if (link->prepared[s])
    return true;
  if (!PQsendPrepare(link->conn, statements[s].name, statements[s].text, 0, NULL))
    return false;
  link->prepared[s] = true;
  return qp__vec_push(link->sent, link->count, link->cap, (struct qp__pg_sent){ s, true });
}

void
qp__pg_send(struct qp__pg_link *link, const struct qp__pg_call *call)
{
  static const int binary[QP__PG_PARAMS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

  if (link->answered)
    clear_results(link);
  if (link->broken)
    return;
  if (!prepare(link, call->statement) ||
      !PQsendQueryPrepared(link->conn, statements[call->statement].name, call->count, call->values,
                           call->lengths, binary, 1) ||
      !qp__vec_push(link->sent, link->count, link->cap,
                    (struct qp__pg_sent){ call->statement, false }))
    note_lost(link, NULL);
}

void
qp__pg_send_plain(struct qp__pg_link *link, enum qp__pg_statement statement)
{
  struct qp__pg_call call = { .statement = statement };

  qp__pg_send(link, &call);
}

/* Sends what is queued and reads until there is a result; *out is NULL at the end of a statement.
 * False: the connection is lost. */
static bool
next_result(struct qp__pg_link *link, int64_t deadline, PGresult **out)
{
  for (;;) {
    int unsent = PQflush(link->conn);

    if (unsent < 0 || PQstatus(link->conn) == CONNECTION_BAD)
      break;
    if (!PQisBusy(link->conn)) {
      *out = PQgetResult(link->conn);
      return true;
    }
    if (!wait_socket(link, unsent > 0, deadline)) {
      note_lost(link, "there was no answer in time");
      return false;
    }
    if (!PQconsumeInput(link->conn))
      break;
  }
  note_lost(link, NULL);
  return false;
}

/* Reads the answer to one statement. */
static bool
read_answer(struct qp__pg_link *link, const struct qp__pg_sent *sent, bool *failed,
            int64_t deadline)
{
  PGresult **out = NULL;
  PGresult *r;

  if (!sent->prepares) {
    out = &link->results[link->result_count++];
    *out = NULL;
  }
  for (;;) {
    ExecStatusType status;

    if (!next_result(link, deadline, &r))
      return false;
    if (!r)
      return true;
    status = PQresultStatus(r);
    if (status == PGRES_TUPLES_OK && out && !*out) {
      *out = r;
      continue;
    }
    if (sent->prepares && status != PGRES_COMMAND_OK)
      link->prepared[sent->statement] = false;
    if (status == PGRES_FATAL_ERROR && !*failed) {
      *failed = true;
      note_failure(link, PQresultErrorField(r, PG_DIAG_SQLSTATE), sent->statement,
                   PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY));
      if (!link->failure.state[0])
        link->broken = true; /* libpq made this error: the connection is lost */
    }
    PQclear(r);
    if (link->broken)
      return false;
  }
}

static bool
read_sync(struct qp__pg_link *link, int64_t deadline)
{
  PGresult *r;
  bool synced;

  do {
    if (!next_result(link, deadline, &r))
      return false;
    synced = r && PQresultStatus(r) == PGRES_PIPELINE_SYNC;
    PQclear(r);
  } while (!synced);
  return true;
}

enum qp__pg_outcome
qp__pg_sync(struct qp__pg_link *link)
{
  int64_t deadline = deadline_in(link, ANSWER_MS);
  struct qp__pg_failure kept;
  bool failed = false;
  size_t cap = link->result_cap;

  QP_ASSERT(!link->answered);
  if (!link->broken && link->count > cap) {
    PGresult **results = qp__realloc(link->results, link->count * sizeof(PGresult *));

    if (results) {
      link->results = results;
      link->result_cap = link->count;
    } else {
      note_lost(link, "out of memory");
    }
  }
  if (!link->broken && !PQpipelineSync(link->conn))
    note_lost(link, NULL);
  if (link->broken) {
    link->count = 0;
    return QP__PG_LOST;
  }
  link->answered = true;
  atomic_fetch_add(&link->pool->queries, 1);
  atomic_fetch_add(&link->pool->statements, link->count);
  for (size_t i = 0; i < link->count; i++)
    if (!read_answer(link, &link->sent[i], &failed, deadline))
      return QP__PG_LOST;
  if (!read_sync(link, deadline))
    return QP__PG_LOST;
  if (!failed)
    return QP__PG_DONE;
  kept = link->failure;
  if (is_server_gone(&kept)) {
    link->broken = true;
    atomic_store(&link->pool->away, true);
    return QP__PG_LOST;
  }
  if (PQtransactionStatus(link->conn) != PQTRANS_IDLE) {
    clear_results(link);
    qp__pg_send_plain(link, QP__PG_ROLLBACK);
    if (qp__pg_sync(link) == QP__PG_LOST)
      return QP__PG_LOST;
  }
  link->failure = kept;
  return QP__PG_FAILED;
}

enum qp__pg_outcome
qp__pg_execute(struct qp__pg_link *link, const char *text, PGresult **out)
{
  int64_t deadline = deadline_in(link, ANSWER_MS);
  bool piped = PQpipelineStatus(link->conn) != PQ_PIPELINE_OFF;
  enum qp__pg_outcome outcome = QP__PG_DONE;
  PGresult *kept = NULL;
  PGresult *r;

  clear_results(link);
  if ((piped && !PQexitPipelineMode(link->conn)) ||
      !PQsendQueryParams(link->conn, text, 0, NULL, NULL, NULL, NULL, 1)) {
    note_lost(link, NULL);
    return QP__PG_LOST;
  }
  do {
    if (!next_result(link, deadline, &r)) {
      PQclear(kept);
      return QP__PG_LOST;
    }
    if (r && PQresultStatus(r) == PGRES_FATAL_ERROR) {
      note_failure(link, PQresultErrorField(r, PG_DIAG_SQLSTATE), QP__PG_BEGIN,
                   PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY));
      outcome = QP__PG_FAILED;
    }
    if (r) {
      PQclear(kept);
      kept = r;
    }
  } while (r);
  if (piped && !PQenterPipelineMode(link->conn)) {
    note_lost(link, NULL);
    outcome = QP__PG_LOST;
  }
  if (out && outcome == QP__PG_DONE)
    *out = kept;
  else
    PQclear(kept);
  return outcome;
}

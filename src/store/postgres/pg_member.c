/* pg_member.c - a server that shares the store with others.
 *
 * A row of quipu.servers says that a server is there, and until when, by the clock of the database.
 * A thread extends it, deletes the rows of servers that have not done so in time, and looks for
 * contexts that a server which is gone left in the middle of a turn.
 *
 *   - A server has what its name holds in quipu.leases until its row is deleted, not until the time
 *     in it: deleting and extending exclude each other, so nobody has to trust a clock.
 *   - It may answer from memory until 9/10 of a lease after it sent the last extension that
 *     succeeded, by its own monotonic clock: until then nobody deletes its row.
 *   - When its row is gone it has lost everything, and joins again under another name.
 *
 * What it writes is safe without all this, because every commit checks number and version of its
 * leases (pg_lease.c). */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/postgres/postgres_int.h"

#define TICK_MS 500
#define REPLICAS_MS 5000 /* how often the replicas are looked at */

struct qp__pg_member {
  struct qp__pg *pg;
  struct qp__lease_watch watch;
  struct qp__uuid_gen gen;
  pthread_t thread;
  int64_t extended_at; /* mono_ms; the thread's */
  atomic_llong until;  /* mono_ms */
  int64_t looked_at;   /* mono_ms; the thread's: at the replicas */
  atomic_llong late_ms, lag_ms;
  atomic_llong ahead_ms; /* of the clock of the database */
  atomic_ullong taken, taken_over, lost, errors, replicas;

  struct qp__mutex lock; /* of what follows */
  pthread_cond_t wake;
  bool stopping;
  bool announce; /* the address has changed */
  char address[QP__ADDRESS_MAX];
};

static int64_t
now_ms(const struct qp__pg *pg)
{
  return pg->os->mono_ms(pg->os->self);
}

/* ---- one lease ---- */

struct asked {
  bool there, ours, theirs, was_held, running;
  char address[QP__ADDRESS_MAX];
};

static enum qp_rc
ask_lease(struct qp__pg *pg, const struct qp_uuid *id, const struct qp_uuid *holder,
          struct asked *out, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_LEASE_READ };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  memset(out, 0, sizeof(*out));
  qp__pg_add_uuid(&call, id);
  qp__pg_add_uuid(&call, holder);
  rc = qp__pg_ask(pg, "read a lease", &call, &link, err);
  if (!rc && PQntuples(link->results[0]) == 1) {
    const PGresult *r = link->results[0];
    struct qp_bytes address = qp__pg_value(r, 0, 4);

    out->there = true;
    out->ours = qp__pg_int(r, 0, 2) != 0;
    out->theirs = qp__pg_int(r, 0, 3) != 0;
    out->was_held = qp__pg_int(r, 0, 5) != 0;
    out->running = qp__pg_int(r, 0, 6) != 0;
    (void)snprintf(out->address, sizeof(out->address), "%.*s", (int)address.len, address.data);
  }
  qp__pg_give(link);
  return rc;
}

/* Runs a statement that names a lease and this server; *rows: how many came back. */
static enum qp_rc
change_lease(struct qp__pg *pg, enum qp__pg_statement statement, const struct qp_uuid *id,
             const struct qp_uuid *holder, int *rows, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = statement };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  qp__pg_add_uuid(&call, id);
  if (holder)
    qp__pg_add_uuid(&call, holder);
  rc = qp__pg_ask(pg, "change a lease", &call, &link, err);
  if (!rc && rows)
    *rows = PQntuples(link->results[0]);
  qp__pg_give(link);
  return rc;
}

/* This server has a context whose turn was interrupted, or is just running: the engine knows which,
 * and applies RESTART to the former, whoever opens the context. */
static void
see_to_turn(const struct qp__pg_member *m, const struct qp_uuid *id, const struct asked *a)
{
  if (a->running)
    m->watch.orphan(m->watch.arg, id);
}

static enum qp_rc
acquire(struct qp__pg *pg, const struct qp_uuid *id, const struct qp_uuid *holder, bool create,
        struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  for (;;) {
    struct asked a;
    int rows = 0;
    enum qp_rc rc = ask_lease(pg, id, holder, &a, err);

    if (!rc && !a.there && create)
      rc = change_lease(pg, QP__PG_LEASE_NAME, id, NULL, NULL, err);
    else if (!rc && (a.ours || !a.there)) {
      see_to_turn(pg->member, id, &a);
      return QP_OK; /* without a row the load reports that there is no context */
    } else if (!rc && a.theirs)
      return qp__fail(err, QP_BUSY, "context %s is held by another server%s%s",
                      qp_uuid_text(id, text), a.address[0] ? ": " : "", a.address);
    else if (!rc)
      rc = change_lease(pg, QP__PG_LEASE_TAKE, id, holder, &rows, err);
    if (rc)
      return rc;
    if (rows)
      atomic_fetch_add(&pg->member->taken, 1);
    if (rows && a.was_held)
      atomic_fetch_add(&pg->member->taken_over, 1);
    if (rows) {
      see_to_turn(pg->member, id, &a);
      return QP_OK;
    }
  }
}

enum qp_rc
qp__pg_lease_acquire(struct qp__pg *pg, const struct qp_uuid *id, const struct qp_uuid *holder,
                     struct qp_err *err)
{
  return pg->member ? acquire(pg, id, holder, false, err) : QP_OK;
}

static enum qp_rc
take(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__pg *pg = self;
  struct qp_uuid holder = qp__pg_holder(pg);

  return acquire(pg, id, &holder, true, err);
}

static enum qp_rc
find_holder(void *self, const struct qp_uuid *id, struct qp__lease_holder *out, struct qp_err *err)
{
  struct qp_uuid holder = qp__pg_holder(self);
  struct asked a;
  enum qp_rc rc = ask_lease(self, id, &holder, &a, err);

  if (rc)
    return rc;
  out->held = a.theirs;
  memcpy(out->address, a.address, sizeof(out->address));
  return QP_OK;
}

static enum qp_rc
is_alive(void *self, const char *address, bool *out, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_SERVER_ALIVE };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  qp__pg_add_text(&call, address);
  rc = qp__pg_ask(self, "look for a server", &call, &link, err);
  if (!rc)
    *out = PQntuples(link->results[0]) > 0;
  qp__pg_give(link);
  return rc;
}

/* ---- the row of this server ---- */

/* Adds or extends it. *there: it is there now. */
static enum qp_rc
write_row(struct qp__pg_member *m, enum qp__pg_statement statement, const struct qp_uuid *server,
          bool *there, struct qp_err *err)
{
  struct qp__pg *pg = m->pg;
  struct qp__pg_call call = { .statement = statement };
  struct qp__pg_link *link = NULL;
  int64_t sent = now_ms(pg);
  char address[QP__ADDRESS_MAX];
  enum qp_rc rc;

  qp__mutex_lock(&m->lock);
  memcpy(address, m->address, sizeof(address));
  m->announce = false;
  qp__mutex_unlock(&m->lock);
  qp__pg_add_uuid(&call, server);
  qp__pg_add_text(&call, address);
  qp__pg_add_int8(&call, pg->lease_ms);
  rc = qp__pg_take(&pg->pool, &link, err);
  if (!rc) {
    qp__pg_send(link, &call);
    if (qp__pg_sync(link))
      rc = qp__pg_explain(link, "extend the lease of this server", err);
  }
  *there = !rc && PQntuples(link->results[0]) == 1;
  if (*there)
    atomic_store(&m->ahead_ms, qp__pg_int(link->results[0], 0, 0) - pg->os->now_ms(pg->os->self));
  qp__pg_give(link);
  if (rc)
    atomic_fetch_add(&m->errors, 1);
  if (!*there)
    return rc;
  m->extended_at = sent;
  atomic_store(&m->late_ms, now_ms(pg) - sent);
  return QP_OK;
}

/* From now on this server answers from memory. */
static void
trust(struct qp__pg_member *m)
{
  atomic_store(&m->until, m->extended_at + m->pg->lease_ms / 10 * 9);
}

/* Under a new name. The caller calls trust() when nothing of the old name is in memory. */
static enum qp_rc
enter(struct qp__pg_member *m, struct qp_err *err)
{
  struct qp__pg *pg = m->pg;
  struct qp_uuid server;
  uint8_t entropy[10];
  bool there;
  enum qp_rc rc;

  if (pg->os->random(pg->os->self, entropy, sizeof(entropy)))
    return qp__fail(err, QP_IO, "cannot get random bytes");
  server = qp__uuid_next(&m->gen, pg->os->now_ms(pg->os->self), entropy);
  rc = write_row(m, QP__PG_SERVER_ADD, &server, &there, err);
  if (rc)
    return rc;
  qp__mutex_lock(&pg->lock);
  pg->holder = server;
  qp__mutex_unlock(&pg->lock);
  return QP_OK;
}

/* ---- the thread ---- */

/* Its row is gone: others may have all that it held. */
static void
lose(struct qp__pg_member *m)
{
  struct qp_err err = { QP_OK, "" };

  atomic_store(&m->until, 1); /* long ago */
  atomic_fetch_add(&m->lost, 1);
  qp__log(&m->pg->log, QP_LOG_WARN, "postgres",
          "this server did not extend its lease in time and lost its contexts to other servers");
  m->watch.lost(m->watch.arg);
  if (enter(m, &err)) {
    qp__log(&m->pg->log, QP_LOG_WARN, "postgres", "%s", err.msg); /* tried again */
    return;
  }
  m->watch.lost(m->watch.arg); /* what was loaded under the old name until now */
  trust(m);
}

static void
extend(struct qp__pg_member *m)
{
  struct qp_uuid server = qp__pg_holder(m->pg);
  struct qp_err err = { QP_OK, "" };
  bool there;

  if (write_row(m, QP__PG_SERVER_EXTEND, &server, &there, &err))
    qp__log(&m->pg->log, QP_LOG_WARN, "postgres", "%s", err.msg);
  else if (there)
    trust(m);
  else
    lose(m);
}

/* Runs a statement and visits the ids in its rows; visit may be NULL. */
static int
run_tick(struct qp__pg_member *m, enum qp__pg_statement statement,
         void (*visit)(void *arg, const struct qp_uuid *id))
{
  struct qp__pg_call call = { .statement = statement };
  struct qp__pg_link *link = NULL;
  struct qp_err err;
  struct qp_uuid ids[200];
  int n = 0;

  if (qp__pg_take(&m->pg->pool, &link, &err)) {
    atomic_fetch_add(&m->errors, 1);
    return 0;
  }
  qp__pg_send(link, &call);
  if (qp__pg_sync(link) == QP__PG_DONE)
    n = PQntuples(link->results[0]);
  else
    atomic_fetch_add(&m->errors, 1);
  for (int i = 0; i < n && i < 200; i++)
    (void)qp__pg_uuid(link->results[0], i, 0, &ids[i]);
  qp__pg_give(link);
  for (int i = 0; i < n && i < 200 && visit; i++)
    visit(m->watch.arg, &ids[i]);
  return n;
}

/* How far the replicas are behind. A role that may not know sees none. */
static void
look_at_replicas(struct qp__pg_member *m)
{
  struct qp__pg_call call = { .statement = QP__PG_REPLICAS };
  struct qp__pg_link *link = NULL;
  struct qp_err err;

  m->looked_at = now_ms(m->pg);
  if (qp__pg_take(&m->pg->pool, &link, &err))
    return;
  qp__pg_send(link, &call);
  if (qp__pg_sync(link) == QP__PG_DONE && PQntuples(link->results[0]) == 1) {
    atomic_store(&m->lag_ms, qp__pg_int(link->results[0], 0, 1));
    atomic_store(&m->replicas, (unsigned long long)qp__pg_int(link->results[0], 0, 0));
  }
  qp__pg_give(link);
}

static bool
wait_tick(struct qp__pg_member *m)
{
  int64_t at = now_ms(m->pg) + TICK_MS;
  const struct timespec until = { .tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000 };
  bool stopping;

  qp__mutex_lock(&m->lock);
  if (!m->stopping && !m->announce)
    (void)qp__mutex_timedwait(&m->lock, &m->wake, &until);
  stopping = m->stopping;
  qp__mutex_unlock(&m->lock);
  return !stopping;
}

static void *
run_member(void *arg)
{
  struct qp__pg_member *m = arg;
  struct qp__pg *pg = m->pg;

  while (wait_tick(m)) {
    bool due;
    int buried;

    qp__mutex_lock(&m->lock);
    due = m->announce || now_ms(pg) - m->extended_at >= pg->lease_ms / 3;
    qp__mutex_unlock(&m->lock);
    if (due)
      extend(m);
    buried = run_tick(m, QP__PG_SERVERS_BURY, NULL);
    if (buried)
      qp__log(&pg->log, QP_LOG_WARN, "postgres", "%d server%s gone: other servers take over",
              buried, buried == 1 ? " is" : "s are");
    (void)run_tick(m, QP__PG_ORPHANS, m->watch.orphan);
    if (now_ms(pg) - m->looked_at >= REPLICAS_MS)
      look_at_replicas(m);
  }
  return NULL;
}

/* ---- joining and leaving ---- */

static enum qp_rc
start_thread(struct qp__pg_member *m, struct qp_err *err)
{
  pthread_condattr_t attr;
  int sys;

  (void)pthread_condattr_init(&attr); /* none of these fails on Linux */
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&m->wake, &attr);
  (void)pthread_condattr_destroy(&attr);
  sys = pthread_create(&m->thread, NULL, run_member, m);
  if (!sys)
    return QP_OK;
  (void)pthread_cond_destroy(&m->wake);
  return qp__fail_sys(err, -sys, "cannot start the thread that extends leases");
}

static void
free_member(struct qp__pg_member *m)
{
  qp__uuid_gen_release(&m->gen);
  qp__mutex_release(&m->lock);
  qp__free(m);
}

static enum qp_rc
join(void *self, int64_t lease_ms, const struct qp__lease_watch *watch, struct qp_err *err)
{
  struct qp__pg *pg = self;
  struct qp__pg_member *m = qp__alloc0(1, sizeof(*m));
  enum qp_rc rc;

  if (!m)
    return qp__fail_nomem(err, "joining other servers");
  QP_ASSERT(!pg->member);
  m->pg = pg;
  m->watch = *watch;
  pg->lease_ms = lease_ms;
  qp__uuid_gen_init(&m->gen);
  qp__mutex_init(&m->lock, QP__RANK_POSTGRES_MEMBER);
  rc = enter(m, err);
  if (!rc) {
    trust(m);
    pg->member = m;
    rc = start_thread(m, err);
  }
  if (rc) {
    pg->member = NULL;
    free_member(m);
  }
  return rc;
}

static enum qp_rc
announce(void *self, const char *address, struct qp_err *err)
{
  const struct qp__pg *pg = self;
  struct qp__pg_member *m = pg->member;

  if (strlen(address) >= sizeof(m->address))
    return qp__fail(err, QP_TOOBIG, "the address of this server is longer than %d bytes",
                    QP__ADDRESS_MAX - 1);
  qp__mutex_lock(&m->lock);
  (void)snprintf(m->address, sizeof(m->address), "%s", address);
  m->announce = true;
  (void)pthread_cond_signal(&m->wake);
  qp__mutex_unlock(&m->lock);
  return QP_OK;
}

static int64_t
valid_until(void *self)
{
  const struct qp__pg *pg = self;

  return pg->member ? atomic_load(&pg->member->until) : 0;
}

static bool
is_reachable(void *self)
{
  const struct qp__pg *pg = self;

  return !atomic_load(&pg->pool.away);
}

static int64_t
clock_ahead(void *self)
{
  const struct qp__pg *pg = self;

  return pg->member ? atomic_load(&pg->member->ahead_ms) : 0;
}

static void
leave(void *self)
{
  static const enum qp__pg_statement all[] = { QP__PG_LEASES_RELEASE, QP__PG_SERVER_DROP };
  struct qp__pg *pg = self;
  struct qp__pg_member *m = pg->member;
  struct qp_uuid server = qp__pg_holder(pg);
  struct qp_err err = { QP_OK, "" };

  if (!m)
    return;
  qp__mutex_lock(&m->lock);
  m->stopping = true;
  (void)pthread_cond_signal(&m->wake);
  qp__mutex_unlock(&m->lock);
  (void)pthread_join(m->thread, NULL);
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !err.rc; i++)
    err.rc = change_lease(pg, all[i], &server, NULL, NULL, &err);
  if (err.rc)
    qp__log(&pg->log, QP_LOG_WARN, "postgres", "others take over when the lease ends: %s", err.msg);
  qp__mutex_lock(&pg->lock);
  pg->holder = pg->writer;
  qp__mutex_unlock(&pg->lock);
  pg->member = NULL;
  (void)pthread_cond_destroy(&m->wake);
  free_member(m);
}

static void
get_stats(void *self, struct qp__lease_stats *out)
{
  struct qp__pg *pg = self;
  struct qp__pg_pool *pool = &pg->pool;
  struct qp__pg_member *m = pg->member;

  qp__mutex_lock(&pool->lock);
  out->connects = pool->connects;
  out->links = pool->links;
  out->links_used = pool->links - pool->idle_count;
  out->links_max = pool->max;
  out->waiting = pool->waiting;
  out->waited = pool->waited;
  qp__mutex_unlock(&pool->lock);
  out->queries = atomic_load(&pool->queries);
  out->statements = atomic_load(&pool->statements);
  out->retries = atomic_load(&pg->retries);
  if (!m)
    return;
  out->replicas = atomic_load(&m->replicas);
  out->lag_ms = atomic_load(&m->lag_ms);
  out->taken = atomic_load(&m->taken);
  out->taken_over = atomic_load(&m->taken_over);
  out->lost = atomic_load(&m->lost);
  out->late_ms = atomic_load(&m->late_ms);
  out->errors = atomic_load(&m->errors);
}

const struct qp__driver_lease qp__pg_shared = {
  .join = join,
  .announce = announce,
  .valid_until = valid_until,
  .is_reachable = is_reachable,
  .clock_ahead = clock_ahead,
  .take = take,
  .holder = find_holder,
  .alive = is_alive,
  .stats = get_stats,
  .leave = leave,
};

/* crowd.c - 64 threads that each save messages durably, against SQLite: WAL, synchronous=FULL, one
 * commit per message, the same threads.
 *
 * SQLite is used at its best: one connection per thread without its own locks, a prepared
 * statement, a table without an index besides its row number, messages that are already encoded,
 * and the faster of two ways to separate the threads: a mutex around the commit, or SQLite's own
 * waiting. */
#include "bench.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 64
#define TRIALS 3 /* of each way to use SQLite */

struct crowd {
  const struct bench *bench;
  unsigned each; /* messages per thread and block */
  struct qp_store *store;
  struct qp_context *contexts[THREADS];
  sqlite3 *connections[THREADS];
  sqlite3_stmt *inserts[THREADS];
  bool use_mutex;
  pthread_mutex_t mutex;
};

/* ---- ours ---- */

static void
save_messages(void *arg, unsigned thread)
{
  struct crowd *c = arg;

  for (unsigned i = 0; i < c->each; i++)
    bench_append(c->bench, c->contexts[thread], (uint64_t)thread * 131 + i);
}

static double
crowd_ours(struct bench *b, void *arg)
{
  struct crowd *c = arg;
  double took;

  bench_settle(b, c->store);
  took = bench_crowd(THREADS, save_messages, c) / (THREADS * c->each);
  bench_settle(b, c->store); /* the thread of the store must not work while the peer is measured */
  return took;
}

/* ---- SQLite ---- */

static void
run_sql(sqlite3 *db, const char *sql)
{
  char *message = NULL;

  if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
    bench_die("SQLite: %s: %s", sql, message);
}

static void
open_connections(struct crowd *c, const char *path)
{
  for (unsigned i = 0; i < THREADS; i++) {
    sqlite3 *db;

    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
      bench_die("SQLite: %s", sqlite3_errmsg(db));
    (void)sqlite3_busy_timeout(db, 600000);
    run_sql(db, "PRAGMA journal_mode=WAL");
    run_sql(db, "PRAGMA synchronous=FULL");
    if (i == 0)
      run_sql(db, "CREATE TABLE messages (n INTEGER PRIMARY KEY, context INTEGER, json TEXT)");
    if (sqlite3_prepare_v2(db, "INSERT INTO messages (context, json) VALUES (?, ?)", -1,
                           &c->inserts[i], NULL) != SQLITE_OK)
      bench_die("SQLite: %s", sqlite3_errmsg(db));
    c->connections[i] = db;
  }
}

static void
close_connections(struct crowd *c)
{
  for (unsigned i = 0; i < THREADS; i++) {
    (void)sqlite3_finalize(c->inserts[i]);
    (void)sqlite3_close(c->connections[i]);
  }
}

/* Each step is a transaction of its own. */
static void
insert_messages(void *arg, unsigned thread)
{
  struct crowd *c = arg;
  sqlite3_stmt *insert = c->inserts[thread];

  for (unsigned i = 0; i < c->each; i++) {
    const struct qp_bytes *line = &c->bench->lines[(thread * 131 + i) % BENCH_TEXTS];

    (void)sqlite3_bind_int(insert, 1, (int)thread);
    (void)sqlite3_bind_text(insert, 2, line->data, (int)line->len - 1, SQLITE_STATIC);
    if (c->use_mutex)
      (void)pthread_mutex_lock(&c->mutex);
    if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert) != SQLITE_OK)
      bench_die("SQLite: %s", sqlite3_errmsg(c->connections[thread]));
    if (c->use_mutex)
      (void)pthread_mutex_unlock(&c->mutex);
  }
}

static double
crowd_sqlite(struct bench *b, void *arg)
{
  struct crowd *c = arg;

  bench_settle(b, NULL);
  return bench_crowd(THREADS, insert_messages, c) / (THREADS * c->each);
}

/* Both ways alternate, so that other load of the machine affects both. */
static void
choose_way(struct bench *b, struct crowd *c)
{
  unsigned each = c->each;
  double took[2][TRIALS];

  c->each = b->quick ? 3 : 20;
  for (int i = 0; i < TRIALS; i++)
    for (int way = 0; way < 2; way++) {
      c->use_mutex = way;
      took[way][i] = crowd_sqlite(b, c);
    }
  c->each = each;
  c->use_mutex = bench_median(took[1], TRIALS) < bench_median(took[0], TRIALS);
  bench_say("SQLite with a mutex: %.0f µs a message, without: %.0f µs",
            bench_median(took[1], TRIALS) * 1e6, bench_median(took[0], TRIALS) * 1e6);
  b->sqlite_way = c->use_mutex ? "a mutex around each commit" : "SQLite's own waiting";
}

/* ---- both ---- */

void
bench_crowd_rows(struct bench *b)
{
  struct crowd *c = bench_alloc(sizeof(*c));
  struct qp_context *own[THREADS];
  struct qp_context *shared;
  char path[BENCH_PATH_MAX];

  c->bench = b;
  c->each = b->quick ? 10 : 50;
  c->store = bench_store_open(b, "crowd/store");
  (void)pthread_mutex_init(&c->mutex, NULL);
  bench_path(b, path, BENCH_PEER "/crowd.db");
  open_connections(c, path);
  shared = bench_context_create(c->store, "shared by all threads");
  for (unsigned i = 0; i < THREADS; i++)
    own[i] = bench_context_create(c->store, "of one thread");
  choose_way(b, c);

  for (unsigned i = 0; i < THREADS; i++)
    c->contexts[i] = shared;
  bench_pair(b,
             bench_row_add(b, "64 threads, durable append, all to one context", BENCH_AT_LEAST, 4,
                           "qp_message_save", "SQLite, WAL, synchronous=FULL"),
             crowd_ours, crowd_sqlite, c);
  memcpy(c->contexts, own, sizeof(own));
  bench_pair(b,
             bench_row_add(b, "64 threads, durable append, a context each", BENCH_AT_LEAST, 4,
                           "qp_message_save", "SQLite, WAL, synchronous=FULL"),
             crowd_ours, crowd_sqlite, c);

  qp_context_close(shared);
  for (unsigned i = 0; i < THREADS; i++)
    qp_context_close(own[i]);
  qp_store_close(c->store);
  close_connections(c);
  (void)pthread_mutex_destroy(&c->mutex);
  free(c);
}

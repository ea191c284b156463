/* pg_server.h - a PostgreSQL server for tests, and a database of it for this process.
 *
 * The server is that of tools/run-tests.mjs (QUIPU_TEST_POSTGRES, the directory of its socket), or
 * one that the first call starts and the end of the process stops. A process that forks shares
 * both. Everything here fails the test when it does not succeed. */
#ifndef PG_SERVER_H
#define PG_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Why there is none, or NULL. */
const char *pg_server_missing(void);

/* The URL of this process's database, without its scheme: "//quipu@/NAME?host=DIR". */
const char *pg_database(void);
/* Removes what is stored in it; its tables stay. */
void pg_empty(void);
/* Runs statements in the database of this process. */
void pg_run(const char *sql);
/* The first value of the first row, or "". In a static buffer. */
const char *pg_ask(const char *sql);

/* Runs statements, and keeps their locks until pg_let_go(). One at a time. */
void pg_hold(const char *sql);
void pg_let_go(void);

/* A server of its own, whose data stays in `dir` and is durable: it can be killed and started
 * again. `dir` must be below /tmp, where another user can reach it; NULL: a scratch server. False:
 * it did not start. */
struct pg_instance {
  char dir[256]; /* of the socket */
  pid_t script, postmaster;
  int leash; /* the server ends when this is closed */
};
bool pg_instance_start(struct pg_instance *p, const char *dir);
void pg_instance_stop(struct pg_instance *p);

#endif

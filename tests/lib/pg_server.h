/* pg_server.h - a PostgreSQL server for tests, and a database of it for this process.
 *
 * The server is that of tools/run-tests.mjs (QUIPU_TEST_POSTGRES, the directory of its socket), or
 * one that the first call starts and the end of the process stops. A process that forks shares
 * both. Everything here fails the test when it does not succeed. */
#ifndef PG_SERVER_H
#define PG_SERVER_H

#include <stdbool.h>
#include <stddef.h>

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

#endif

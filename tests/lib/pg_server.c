/* pg_server.c - see pg_server.h. */
#include "pg_server.h"

#ifdef QP_POSTGRES
#include <fcntl.h>
#include <libpq-fe.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static struct {
  bool looked;
  const char *missing;
  char dir[256];          /* of the socket */
  char database[512];     /* or "" */
  pid_t owner;            /* the process that made them */
  struct pg_instance own; /* script 0: it is not ours */
} pg;

static void
end_server(void)
{
  char url[512];
  char sql[128];
  PGconn *c;

  if (getpid() != pg.owner)
    return;
  if (pg.database[0] && !pg.own.script) {
    (void)snprintf(url, sizeof(url), "postgresql://quipu@/postgres?host=%s", pg.dir);
    (void)snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS t%d WITH (FORCE)", (int)pg.owner);
    c = PQconnectdb(url);
    PQclear(PQexec(c, sql));
    PQfinish(c);
  }
  if (pg.own.script)
    pg_instance_stop(&pg.own);
}

/* Starts tools/scratch-postgres; the tests run in the root of the repository. Returns its exit
 * status, or -1: the server runs. */
static int
launch(struct pg_instance *p, const char *keep)
{
  int in[2];
  int out[2];
  char line[300] = "";
  int pid = 0;
  int status = 0;
  FILE *f;

  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
    return 1;
  p->script = fork();
  if (p->script == 0) {
    (void)dup2(in[0], 0);
    (void)dup2(out[1], 1);
    (void)execl("tools/scratch-postgres", "scratch-postgres", keep ? "--keep" : NULL, keep,
                (char *)NULL);
    _exit(127);
  }
  (void)close(in[0]);
  (void)close(out[1]);
  p->leash = in[1];
  f = fdopen(out[0], "r");
  if (f && fgets(line, sizeof(line), f) && sscanf(line, "%255s %d", p->dir, &pid) == 2)
    status = -1;
  if (f)
    (void)fclose(f);
  p->postmaster = pid;
  if (status)
    return status;
  (void)close(p->leash);
  (void)waitpid(p->script, &status, 0);
  p->script = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

bool
pg_instance_start(struct pg_instance *p, const char *dir)
{
  return launch(p, dir) < 0;
}

void
pg_instance_stop(struct pg_instance *p)
{
  (void)close(p->leash);
  (void)waitpid(p->script, NULL, 0);
  p->script = 0;
}

static void
start_server(void)
{
  int status = launch(&pg.own, NULL);

  if (status < 0) {
    memcpy(pg.dir, pg.own.dir, sizeof(pg.dir));
  } else if (status == 3) {
    pg.missing = "PostgreSQL is not installed";
  } else {
    print_error("tools/scratch-postgres has failed\n");
    abort();
  }
}

const char *
pg_server_missing(void)
{
  const char *dir = getenv("QUIPU_TEST_POSTGRES");

  if (!pg.looked) {
    pg.looked = true;
    pg.owner = getpid();
    if (dir && *dir)
      (void)snprintf(pg.dir, sizeof(pg.dir), "%s", dir);
    else
      start_server();
    (void)atexit(end_server);
  }
  return pg.missing;
}

static PGconn *
connect_to(const char *database)
{
  char url[512];
  PGconn *c;

  assert_null(pg_server_missing());
  (void)snprintf(url, sizeof(url), "postgresql://quipu@/%s?host=%s", database, pg.dir);
  c = PQconnectdb(url);
  if (PQstatus(c) != CONNECTION_OK)
    fail_msg("%s", PQerrorMessage(c));
  return c;
}

static void
run(PGconn *c, const char *sql)
{
  PGresult *r = PQexec(c, sql);

  if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
    fail_msg("%s: %s", sql, PQerrorMessage(c));
  PQclear(r);
}

static const char *
name_of_database(void)
{
  static char name[32];

  (void)snprintf(name, sizeof(name), "t%d", (int)pg.owner);
  return name;
}

const char *
pg_database(void)
{
  char sql[128];
  PGconn *c;

  assert_null(pg_server_missing());
  if (!pg.database[0]) {
    c = connect_to("postgres");
    run(c, "SET client_min_messages = warning");
    (void)snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS %s WITH (FORCE)", name_of_database());
    run(c, sql);
    (void)snprintf(sql, sizeof(sql), "CREATE DATABASE %s TEMPLATE template0", name_of_database());
    run(c, sql);
    PQfinish(c);
    (void)snprintf(pg.database, sizeof(pg.database), "//quipu@/%s?host=%s", name_of_database(),
                   pg.dir);
  }
  return pg.database;
}

void
pg_run(const char *sql)
{
  PGconn *c;

  (void)pg_database();
  c = connect_to(name_of_database());
  run(c, sql);
  PQfinish(c);
}

const char *
pg_ask(const char *sql)
{
  static char value[16384];
  PGconn *c;
  PGresult *r;

  (void)pg_database();
  c = connect_to(name_of_database());
  r = PQexec(c, sql);
  if (PQresultStatus(r) != PGRES_TUPLES_OK)
    fail_msg("%s: %s", sql, PQerrorMessage(c));
  (void)snprintf(value, sizeof(value), "%s", PQntuples(r) ? PQgetvalue(r, 0, 0) : "");
  PQclear(r);
  PQfinish(c);
  return value;
}

static PGconn *holding;

void
pg_hold(const char *sql)
{
  (void)pg_database();
  holding = connect_to(name_of_database());
  run(holding, "BEGIN");
  run(holding, sql);
}

void
pg_let_go(void)
{
  PQfinish(holding);
  holding = NULL;
}

/* Faster than a new database per test. */
void
pg_empty(void)
{
  pg_run("DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables "
         "WHERE schemaname = 'quipu' AND tablename <> 'migrations' LOOP "
         "EXECUTE format('DELETE FROM quipu.%I', t); END LOOP; END $$");
}

#else

#include <stdlib.h>

const char *
pg_server_missing(void)
{
  return "this build has no PostgreSQL driver";
}

const char *
pg_database(void)
{
  abort();
}

void
pg_run(const char *sql)
{
  (void)sql;
  abort();
}

const char *
pg_ask(const char *sql)
{
  (void)sql;
  abort();
}

void
pg_hold(const char *sql)
{
  (void)sql;
  abort();
}

void
pg_let_go(void)
{
  abort();
}

void
pg_empty(void)
{
  abort();
}

bool
pg_instance_start(struct pg_instance *p, const char *dir)
{
  (void)p;
  (void)dir;
  return false;
}

void
pg_instance_stop(struct pg_instance *p)
{
  (void)p;
}
#endif

/* pg_schema.c - the tables of a store in PostgreSQL, and their migrations.
 *
 * The tables are in the schema "quipu" of the database, which its owner can create: no superuser
 * and no extension is needed. Every table has the context (or another id that spreads as well)
 * first in its key, and no key refers to another table, so that engines which shard by the first
 * column of a key can do so.
 *
 * Migrations only add: an older server that still runs during an upgrade keeps working until its
 * next start. One transaction under an advisory lock runs all that are missing. */
#include <stdio.h>

#include "base/err.h"
#include "store/postgres/postgres_int.h"

#define MIGRATION_LOCK "7238716623187509" /* of pg_advisory_xact_lock */

static const char *const version_1[] = {
  "CREATE TABLE quipu.contexts (context uuid PRIMARY KEY, meta bytea NOT NULL)",
  /* Who may write a context (pg_lease.c); `version` counts its commits. Small, because every commit
   * writes it anew. */
  "CREATE TABLE quipu.leases (context uuid PRIMARY KEY, holder uuid, fence int8 NOT NULL, "
  "version int8 NOT NULL, expires timestamptz NOT NULL) WITH (fillfactor = 70)",
  "CREATE TABLE quipu.branches (context uuid, branch text COLLATE \"C\", head uuid, "
  "PRIMARY KEY (context, branch)) WITH (fillfactor = 70)",
  /* The index of a context: rows are added and never changed. The contents are apart, so that
   * loading the index does not read them. */
  "CREATE TABLE quipu.messages (context uuid, number int8, id uuid NOT NULL, parent uuid, "
  "hash bytea NOT NULL, at int8 NOT NULL, size int4 NOT NULL, tokens int4 NOT NULL, "
  "kind int2 NOT NULL, dir text NOT NULL, PRIMARY KEY (context, number))",
  "CREATE TABLE quipu.contents (context uuid, id uuid, bytes bytea NOT NULL, "
  "PRIMARY KEY (context, id))",
  /* Messages that are in the trash or unavailable. */
  "CREATE TABLE quipu.marks (context uuid, id uuid, status int2, trashed int8, "
  "PRIMARY KEY (context, id))",
  "CREATE TABLE quipu.files (scope uuid, name text COLLATE \"C\", size int8 NOT NULL, "
  "PRIMARY KEY (scope, name)) WITH (fillfactor = 70)",
  "CREATE TABLE quipu.chunks (scope uuid, name text COLLATE \"C\", start int8, "
  "bytes bytea NOT NULL, PRIMARY KEY (scope, name, start))",
  /* Which batches of a server are stored (pg_commit.c). */
  "CREATE TABLE quipu.writers (writer uuid PRIMARY KEY, batch int8 NOT NULL, "
  "barrier int8 NOT NULL, seen timestamptz NOT NULL) WITH (fillfactor = 70)",
  NULL,
};

/* Several servers (pg_member.c). */
static const char *const version_2[] = {
  "CREATE TABLE quipu.servers (server uuid PRIMARY KEY, address text NOT NULL, "
  "expires timestamptz NOT NULL) WITH (fillfactor = 50)",
  /* A turn runs in the context: if its server is gone, another one must see to it. */
  "ALTER TABLE quipu.leases ADD COLUMN running bool NOT NULL DEFAULT false",
  "CREATE INDEX leases_running ON quipu.leases (context) WHERE running",
  NULL,
};

/* Lists and search (pg_catalogue.c). */
static const char *const version_3[] = {
  /* A row per context; each commit that changes the context writes it. `last` is the number of its
   * newest message, `indexed` that of the newest one whose words are in quipu.texts. */
  "CREATE TABLE quipu.catalogue (context uuid PRIMARY KEY, owner text COLLATE \"C\", "
  "created int8 NOT NULL, updated int8 NOT NULL, messages int8 NOT NULL, bytes int8 NOT NULL, "
  "branches int8 NOT NULL, meta int8 NOT NULL, state text COLLATE \"C\" NOT NULL, title text, "
  "model text, mode text, summary text, last int8 NOT NULL, indexed int8 NOT NULL DEFAULT 0) "
  "WITH (fillfactor = 80)",
  "CREATE INDEX catalogue_updated ON quipu.catalogue (updated, context)",
  "CREATE INDEX catalogue_owner ON quipu.catalogue (owner, updated, context)",
  "CREATE INDEX catalogue_state ON quipu.catalogue (state, context) WHERE state <> 'Idle'",
  "CREATE INDEX catalogue_due ON quipu.catalogue (context) WHERE indexed < last",
  /* The words of a message, as catalogue/words.h writes them, and how many they are. */
  "CREATE TABLE quipu.texts (context uuid, id uuid, number int8 NOT NULL, length int4 NOT NULL, "
  "trashed bool NOT NULL, words text COLLATE \"C\" NOT NULL, PRIMARY KEY (context, id))",
  "CREATE INDEX texts_words ON quipu.texts USING gin (" QP__PG_VECTOR ") WHERE NOT trashed",
  /* The sums over quipu.texts without the trash. Servers use different slots, so that they do not
   * wait for each other. */
  "CREATE TABLE quipu.totals (slot int2 PRIMARY KEY, texts int8 NOT NULL, words int8 NOT NULL) "
  "WITH (fillfactor = 50)",
  /* Contexts whose row is to be made from what is stored (pg_index.c). */
  "CREATE TABLE quipu.unlisted (context uuid PRIMARY KEY)",
  "INSERT INTO quipu.unlisted SELECT context FROM quipu.contexts",
  NULL,
};

/* Documents that all servers see, such as their keys (pg_shared.c). */
static const char *const version_4[] = {
  "CREATE TABLE quipu.documents (name text COLLATE \"C\" PRIMARY KEY, version int8 NOT NULL, "
  "bytes bytea NOT NULL)",
  NULL,
};

/* Reports of sizes and usage (pg_report.c). */
static const char *const version_5[] = {
  /* Messages and bytes from the root to the head; NULL: not known yet. */
  "ALTER TABLE quipu.branches ADD COLUMN messages int8, ADD COLUMN bytes int8",
  /* `counted` is the number of the newest message that is in quipu.usage. It is never above
   * `indexed`; a purge makes it negative and lower than ever, and all messages are counted again.
   * What is in the trash is NULL if nothing is. */
  "ALTER TABLE quipu.catalogue ADD COLUMN trash int8, ADD COLUMN trash_bytes int8, "
  "ADD COLUMN counted int8 NOT NULL DEFAULT 0",
  "UPDATE quipu.catalogue c SET trash = n.messages, trash_bytes = n.bytes "
  "FROM (SELECT k.context, count(*) AS messages, sum(m.size) AS bytes FROM quipu.marks k "
  "JOIN quipu.messages m ON m.context = k.context AND m.id = k.id "
  "WHERE k.trashed IS NOT NULL GROUP BY 1) n WHERE c.context = n.context",
  "CREATE INDEX catalogue_uncounted ON quipu.catalogue (context) WHERE counted < last",
  "DROP INDEX quipu.catalogue_due",
  /* What the answers of a context have used, per quarter of an hour and model. */
  "CREATE TABLE quipu.usage (context uuid, quarter int8, model text COLLATE \"C\", "
  "answers int8 NOT NULL, input float8 NOT NULL, output float8 NOT NULL, cached float8 NOT NULL, "
  "cost float8 NOT NULL, unpriced int8 NOT NULL, PRIMARY KEY (context, quarter, model)) "
  "WITH (fillfactor = 80)",
  "CREATE INDEX usage_quarter ON quipu.usage (quarter)",
  NULL,
};

/* Requests with an Idempotency-Key (pg_shared.c). */
static const char *const version_6[] = {
  /* `name` is a hash of the owner and the key. `state`: 1 begun by `server` as `claim`, 2 done, 3
   * nobody knows how it ended. */
  "CREATE TABLE quipu.requests (name uuid PRIMARY KEY, digest uuid NOT NULL, claim uuid NOT NULL, "
  "server uuid NOT NULL, begun timestamptz NOT NULL DEFAULT now(), state int2 NOT NULL DEFAULT 1, "
  "reply bytea)",
  "CREATE INDEX requests_begun ON quipu.requests (begun)",
  /* A server that leaves finds what it holds. */
  "CREATE INDEX leases_holder ON quipu.leases (holder) WHERE holder IS NOT NULL",
  NULL,
};

/* Without an owner, a row is in one index less that each commit writes. */
static const char *const version_7[] = {
  "DROP INDEX quipu.catalogue_owner",
  "CREATE INDEX catalogue_owned ON quipu.catalogue (owner, updated, context) "
  "WHERE owner IS NOT NULL",
  NULL,
};

static const char *const *const migrations[] = { version_1, version_2, version_3, version_4,
                                                 version_5, version_6, version_7 };
#define NEWEST (sizeof(migrations) / sizeof(migrations[0]))

static enum qp__pg_outcome
ask_int(struct qp__pg_link *link, const char *text, int64_t *out)
{
  PGresult *r = NULL;
  enum qp__pg_outcome outcome = qp__pg_execute(link, text, &r);

  *out = outcome == QP__PG_DONE && PQntuples(r) == 1 ? qp__pg_int(r, 0, 0) : 0;
  PQclear(r);
  return outcome;
}

/* The version of the tables; 0: there are none. The catalogue is asked and not to_regclass(), which
 * remembers from before the lock that there are none while another server creates them. */
static enum qp__pg_outcome
read_version(struct qp__pg_link *link, int64_t *out)
{
  int64_t there;
  enum qp__pg_outcome outcome =
      ask_int(link,
              "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
              "ON n.oid = c.relnamespace WHERE n.nspname = 'quipu' AND c.relname = 'migrations'",
              &there);

  *out = 0;
  if (outcome == QP__PG_DONE && there)
    outcome = ask_int(link, "SELECT max(version)::int8 FROM quipu.migrations", out);
  return outcome;
}

static enum qp__pg_outcome
run_migration(struct qp__pg_link *link, size_t n)
{
  char text[96];
  enum qp__pg_outcome outcome = QP__PG_DONE;

  for (const char *const *s = migrations[n - 1]; *s && outcome == QP__PG_DONE; s++)
    outcome = qp__pg_execute(link, *s, NULL);
  (void)snprintf(text, sizeof(text), "INSERT INTO quipu.migrations (version) VALUES (%zu)", n);
  return outcome == QP__PG_DONE ? qp__pg_execute(link, text, NULL) : outcome;
}

/* In a transaction, with the advisory lock. */
static enum qp__pg_outcome
run_missing(struct qp__pg_link *link)
{
  int64_t version;
  enum qp__pg_outcome outcome = read_version(link, &version);

  if (outcome == QP__PG_DONE && !version)
    outcome = qp__pg_execute(link, "CREATE SCHEMA IF NOT EXISTS quipu", NULL);
  if (outcome == QP__PG_DONE && !version)
    outcome = qp__pg_execute(link,
                             "CREATE TABLE quipu.migrations (version int4 PRIMARY KEY, "
                             "at timestamptz NOT NULL DEFAULT now())",
                             NULL);
  for (size_t n = (size_t)version + 1; n <= NEWEST && outcome == QP__PG_DONE; n++)
    outcome = run_migration(link, n);
  return outcome;
}

static enum qp__pg_outcome
migrate(struct qp__pg_link *link)
{
  static const char lock[] = "SELECT pg_advisory_xact_lock(" MIGRATION_LOCK ")";
  struct qp__pg_failure kept;
  enum qp__pg_outcome outcome = qp__pg_execute(link, "BEGIN", NULL);

  if (outcome == QP__PG_DONE)
    outcome = qp__pg_execute(link, lock, NULL);
  if (outcome == QP__PG_DONE)
    outcome = run_missing(link);
  if (outcome == QP__PG_DONE)
    return qp__pg_execute(link, "COMMIT", NULL);
  kept = link->failure;
  if (outcome == QP__PG_FAILED && qp__pg_execute(link, "ROLLBACK", NULL) == QP__PG_LOST)
    outcome = QP__PG_LOST;
  link->failure = kept;
  return outcome;
}

static enum qp_rc
check_version(struct qp__pg *pg, struct qp__pg_link *link, bool create, struct qp_err *err)
{
  int64_t version;
  int64_t utf8;

  if (ask_int(link, "SELECT (getdatabaseencoding() = 'UTF8')::int", &utf8) ||
      read_version(link, &version))
    return qp__pg_explain(link, "read the version of the tables", err);
  if (!utf8)
    return qp__fail(err, QP_INVALID, "the database must have the encoding UTF8");
  if (version > (int64_t)NEWEST)
    return qp__fail(err, QP_INVALID,
                    "the tables of this database have version %lld, and this program knows "
                    "versions up to %zu: use a newer quipu",
                    (long long)version, NEWEST);
  if (version == (int64_t)NEWEST)
    return QP_OK;
  if (!version && !create)
    return qp__fail(err, QP_NOTFOUND, "the database has no store of quipu");
  if (pg->readonly)
    return qp__fail(err, QP_INVALID,
                    "the tables of this database have version %lld and need version %zu: start a "
                    "server, or open the store for writing once",
                    (long long)version, NEWEST);
  if (migrate(link))
    return qp__pg_explain(link, "create the tables", err);
  qp__log(&pg->log, QP_LOG_INFO, "postgres", "the tables have version %zu now", NEWEST);
  return QP_OK;
}

enum qp_rc
qp__pg_migrate(struct qp__pg *pg, bool create, struct qp_err *err)
{
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_take(&pg->pool, &link, err);

  if (!rc)
    rc = check_version(pg, link, create, err);
  qp__pg_give(link);
  return rc;
}

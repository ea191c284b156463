/* catalogue_db.c - the database of the catalogue: opening, recreating, statements, errors. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/catalogue/catalogue_int.h"

#define VERSION 5 /* a database of another version is recreated */
#define BUSY_MS 5000
#define READERS_MAX 8    /* unused connections that are kept */
#define READER_KB "1000" /* cache of one of them */

static const char schema[] =
    "CREATE TABLE context (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, title TEXT, "
    "created INTEGER NOT NULL, updated INTEGER NOT NULL, messages INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL, branches INTEGER NOT NULL, model TEXT, mode TEXT, state TEXT, "
    "owner TEXT, summary TEXT, old INTEGER NOT NULL, error TEXT, stamp BLOB, "
    "indexed INTEGER NOT NULL, digest INTEGER NOT NULL, due INTEGER NOT NULL, "
    "rc INTEGER NOT NULL, meta INTEGER NOT NULL, packed INTEGER, packed_bytes INTEGER, "
    "trashed INTEGER, trashed_bytes INTEGER, sizes TEXT);"
    "CREATE INDEX context_due ON context (due) WHERE due = 1;"
    "CREATE INDEX context_error ON context (n) WHERE error IS NOT NULL;"
    "CREATE INDEX context_old ON context (n) WHERE old = 1;"
    "CREATE INDEX context_state ON context (state) WHERE state <> 'Idle';"
    "CREATE TABLE message (n INTEGER PRIMARY KEY, context INTEGER NOT NULL, id BLOB NOT NULL, "
    "role INTEGER NOT NULL, created INTEGER NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX message_context ON message (context);"
    "CREATE TABLE usage (quarter INTEGER NOT NULL, context INTEGER NOT NULL, model TEXT NOT NULL, "
    "answers INTEGER NOT NULL, input REAL NOT NULL, output REAL NOT NULL, cached REAL NOT NULL, "
    "cost REAL NOT NULL, unpriced INTEGER NOT NULL, PRIMARY KEY (quarter, context, model)) "
    "WITHOUT ROWID;"
    "CREATE INDEX usage_context ON usage (context);"
    "CREATE VIRTUAL TABLE words USING fts5 (text, content = 'message', content_rowid = 'n', "
    "tokenize = 'quipu');"
    /* See catalogue_behind.c. One row. */
    "CREATE TABLE state (epoch INTEGER NOT NULL, before INTEGER NOT NULL, "
    "complete INTEGER NOT NULL, dirs BLOB, probe INTEGER NOT NULL, dropped INTEGER NOT NULL);"
    "INSERT INTO state VALUES (0, 0, 0, NULL, 0, 0);";

/* The indexes that lists need. A new database gets them after its rows: rows are inserted in the
 * order of their ids, and keeping these indexes up to date meanwhile would write two random pages
 * per row, slower with every row. */
static const char order[] =
    "PRAGMA temp_store = MEMORY;"
    "CREATE INDEX IF NOT EXISTS context_updated ON context (updated, id);"
    "CREATE INDEX IF NOT EXISTS context_owner ON context (owner, updated, id);"
    "PRAGMA temp_store = DEFAULT";

/* Deleted rows return their space, a little at a time; the log of changes stays small. */
static const char file_settings[] =
    "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
    "PRAGMA journal_size_limit = 4194304";
static const char alone_settings[] =
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; "
    "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304";
static const char memory_settings[] = "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF";

static const char *const sql_texts[] = {
#define TEXT(name, text) text,
  QP__CAT_SQL_MAP(TEXT)
#undef TEXT
};

/* ---- failures ---- */

static enum qp_rc
rc_of(int code)
{
  switch (code & 0xff) {
  case SQLITE_NOMEM:
    return QP_NOMEM;
  case SQLITE_FULL:
    return QP_FULL;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
    return QP_CORRUPT;
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return QP_BUSY;
  case SQLITE_PERM:
  case SQLITE_AUTH:
    return QP_DENIED;
  default:
    return QP_IO;
  }
}

enum qp_rc
qp__cat_fail(const struct qp__cat_db *db, int code, struct qp_err *err)
{
  return qp__fail(err, rc_of(code), "the catalogue cannot be used: %s",
                  db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(code));
}

/* ---- statements ---- */

enum qp_rc
qp__cat_use(struct qp__cat_db *db, enum qp__cat_sql sql, sqlite3_stmt **out, struct qp_err *err)
{
  sqlite3_stmt **slot = &db->statements[sql];
  int code = SQLITE_OK;

  *out = NULL;
  if (!*slot)
    code =
        sqlite3_prepare_v3(db->handle, sql_texts[sql], -1, SQLITE_PREPARE_PERSISTENT, slot, NULL);
  if (code)
    return qp__cat_fail(db, code, err);
  (void)sqlite3_reset(*slot);
  (void)sqlite3_clear_bindings(*slot);
  *out = *slot;
  return QP_OK;
}

enum qp_rc
qp__cat_step(struct qp__cat_db *db, sqlite3_stmt *st, bool *row, struct qp_err *err)
{
  int code = sqlite3_step(st);
  enum qp_rc rc = QP_OK;

  *row = code == SQLITE_ROW;
  if (*row)
    return QP_OK;
  if (code != SQLITE_DONE)
    rc = qp__cat_fail(db, code, err);
  (void)sqlite3_reset(st);
  return rc;
}

enum qp_rc
qp__cat_run(struct qp__cat_db *db, sqlite3_stmt *st, struct qp_err *err)
{
  bool row = true;
  enum qp_rc rc = QP_OK;

  while (row && !rc)
    rc = qp__cat_step(db, st, &row, err);
  return rc;
}

enum qp_rc
qp__cat_do(struct qp__cat_db *db, enum qp__cat_sql sql, struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(db, sql, &st, err);

  return rc ? rc : qp__cat_run(db, st, err);
}

/* A failed bind leaves null, which every column that we bind rejects. */

void
qp__cat_bind_id(sqlite3_stmt *st, int at, const struct qp_uuid *id)
{
  (void)sqlite3_bind_blob(st, at, id->b, sizeof(id->b), SQLITE_TRANSIENT);
}

void
qp__cat_bind_text(sqlite3_stmt *st, int at, const char *text)
{
  (void)sqlite3_bind_text(st, at, text, -1, SQLITE_TRANSIENT);
}

struct qp_uuid
qp__cat_column_id(sqlite3_stmt *st, int at)
{
  struct qp_uuid id = { { 0 } };
  const void *blob = sqlite3_column_blob(st, at);

  if (blob && sqlite3_column_bytes(st, at) == (int)sizeof(id.b))
    memcpy(id.b, blob, sizeof(id.b));
  return id;
}

/* ---- opening ---- */

void
qp__cat_close_db(struct qp__cat_db *db)
{
  for (size_t i = 0; i < QP__CAT__MAX; i++)
    (void)sqlite3_finalize(db->statements[i]);
  (void)sqlite3_close_v2(db->handle);
  memset(db, 0, sizeof(*db));
}

/* Frees the unused readers; those in use are outdated when they are returned. */
static void
close_readers(struct qp__catalogue *cat)
{
  struct qp__cat_reader *reader;

  qp__mutex_lock(&cat->lock);
  reader = cat->readers;
  cat->readers = NULL;
  cat->reader_count = 0;
  cat->generation++;
  cat->version++;
  cat->ready = QP__CAT_STALE;
  qp__mutex_unlock(&cat->lock);
  while (reader) {
    struct qp__cat_reader *next = reader->next;

    qp__cat_close_db(&reader->db);
    qp__free(reader);
    reader = next;
  }
}

void
qp__cat_drop_overlay(struct qp__catalogue *cat)
{
  qp__cat_close_db(&cat->over);
  qp__idset_release(&cat->hidden);
}

void
qp__cat_close(struct qp__catalogue *cat)
{
  close_readers(cat);
  qp__cat_close_db(&cat->main);
  qp__cat_drop_overlay(cat);
  cat->into = NULL;
  cat->opened = false;
  cat->alone = false;
  cat->ordered = false;
  cat->trusted = false;
  cat->compare_due = false;
}

static int
read_version(sqlite3 *db, int *out)
{
  sqlite3_stmt *st = NULL;
  int code = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL);

  if (!code) {
    code = sqlite3_step(st) == SQLITE_ROW ? SQLITE_OK : sqlite3_errcode(db);
    *out = code ? 0 : sqlite3_column_int(st, 0);
  }
  (void)sqlite3_finalize(st);
  return code;
}

/* SQL: hidden(id). Whether the overlay, and not this database, has the row of a context. */
static void
is_hidden(sqlite3_context *context, int n, sqlite3_value **values)
{
  const struct qp__idset *hidden = sqlite3_user_data(context);
  const void *blob = sqlite3_value_blob(values[0]);
  struct qp_uuid id;
  bool found = false;

  (void)n;
  if (hidden && hidden->count && blob && sqlite3_value_bytes(values[0]) == (int)sizeof(id.b)) {
    memcpy(id.b, blob, sizeof(id.b));
    found = qp__idset_has(hidden, &id);
  }
  sqlite3_result_int(context, found);
}

/* Initializes an empty database. SQLITE_NOTADB: it has another version. */
static int
prepare_db(sqlite3 *db, bool only_read, struct qp__idset *hidden)
{
  char sql[64];
  int version = 0;
  int code = qp__cat_add_tokenizer(db);

  if (!code)
    code = sqlite3_create_function(db, "hidden", 1, SQLITE_UTF8, hidden, is_hidden, NULL, NULL);
  if (!code)
    code = read_version(db, &version);
  if (!code && version != VERSION && (version != 0 || only_read))
    code = SQLITE_NOTADB;
  if (!code && version == 0) {
    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version = %d; COMMIT", VERSION);
    code = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (!code)
      code = sqlite3_exec(db, schema, NULL, NULL, NULL);
    if (!code)
      code = sqlite3_exec(db, sql, NULL, NULL, NULL);
  }
  return code;
}

/* `name` "" is a database that SQLite keeps in memory while it is small. `hidden`, or NULL, is the
 * set that the function of that name uses. */
static int
open_db(const char *name, int flags, const char *settings, struct qp__idset *hidden, sqlite3 **out)
{
  sqlite3 *db = NULL;
  int code = sqlite3_open_v2(name, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                             qp__cat_vfs());

  if (!code) {
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    code = sqlite3_exec(db, settings, NULL, NULL, NULL);
  }
  if (!code)
    code = prepare_db(db, (flags & SQLITE_OPEN_READONLY) != 0, hidden);
  if (code)
    (void)sqlite3_close_v2(db);
  else
    *out = db;
  return code;
}

/* The name of the file without links, as SQLite requires. False: there is none. */
static bool
file_name(const struct qp__catalogue *cat, char out[PATH_MAX])
{
  size_t n;

  if (!realpath(cat->where, out))
    return false;
  n = strlen(out);
  return snprintf(out + n, PATH_MAX - n, "/%s", QP__CATALOGUE_NAME) < (int)(PATH_MAX - n);
}

/* Creates the file, because SQLite would make it readable for everybody. Only if there is none:
 * closing a file that is in use would release its locks. */
static void
make_file(struct qp__catalogue *cat)
{
  struct qp_store *s = cat->store;
  int fd = s->os->openat(s->os->self, s->root, QP__CATALOGUE_NAME, O_RDWR | O_CREAT | O_EXCL, 0600);

  if (fd >= 0)
    (void)s->os->close(s->os->self, fd);
}

/* If there is no space for the memory that connections share, the one connection that writes can
 * work without it: then it has the file exclusively. */
static int
open_file(struct qp__catalogue *cat)
{
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW;
  char name[PATH_MAX];
  int code;

  if (!file_name(cat, name))
    return SQLITE_CANTOPEN;
  if (cat->store->readonly)
    return open_db(name, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, "SELECT 1", &cat->hidden,
                   &cat->main.handle);
  make_file(cat);
  code = open_db(name, flags, file_settings, &cat->hidden, &cat->main.handle);
  if (!code || rc_of(code) == QP_CORRUPT || rc_of(code) == QP_NOMEM)
    return code;
  code = open_db(name, flags, alone_settings, &cat->hidden, &cat->main.handle);
  cat->alone = !code;
  return code;
}

int
qp__cat_open_memory(struct qp__cat_db *db)
{
  return open_db("", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, memory_settings, NULL,
                 &db->handle);
}

static enum qp_rc
open_overlay(struct qp__catalogue *cat, struct qp_err *err)
{
  int code = 0;

  if (!cat->over.handle)
    code = qp__cat_open_memory(&cat->over);
  if (!code)
    code = sqlite3_exec(cat->over.handle, order, NULL, NULL, NULL);
  return code ? qp__cat_fail(&cat->over, code, err) : QP_OK;
}

/* Opens catalogue.db, if possible. */
static void
open_main(struct qp__catalogue *cat)
{
  bool readonly = cat->store->readonly;
  int code;

  if (!cat->where || cat->no_file)
    return;
  code = open_file(cat);
  if (code && !readonly && rc_of(code) == QP_CORRUPT) {
    qp__log(&cat->store->log, QP_LOG_INFO, "catalogue", "%s is rebuilt: %s", QP__CATALOGUE_NAME,
            sqlite3_errstr(code));
    code = qp__cat_remove(cat, NULL) ? code : open_file(cat);
  }
  if (code)
    qp__log(&cat->store->log, readonly ? QP_LOG_DEBUG : QP_LOG_WARN, "catalogue",
            "%s cannot be used: %s; lists and searches are answered without it, from memory",
            QP__CATALOGUE_NAME, sqlite3_errstr(code));
}

enum qp_rc
qp__cat_open(struct qp__catalogue *cat, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (cat->opened)
    return QP_OK;
  qp__cat_close(cat);
  cat->needs_pass = true;
  open_main(cat);
  cat->into = cat->main.handle && !cat->store->readonly ? &cat->main : &cat->over;
  if (cat->into == &cat->over)
    rc = open_overlay(cat, err);
  if (!rc && cat->main.handle && !cat->store->readonly)
    rc = qp__cat_trust(cat, err);
  cat->opened = !rc;
  return rc;
}

void
qp__cat_order(struct qp__catalogue *cat)
{
  int code;

  if (cat->ordered)
    return;
  code = sqlite3_exec(cat->main.handle, order, NULL, NULL, NULL);
  cat->ordered = !code;
  if (code)
    qp__log(&cat->store->log, QP_LOG_WARN, "catalogue",
            "the indexes of %s cannot be made: %s; lists take longer until they can",
            QP__CATALOGUE_NAME, sqlite3_errmsg(cat->main.handle));
}

/* ---- the overlay ---- */

enum qp_rc
qp__cat_use_overlay(struct qp__catalogue *cat, struct qp_err *err)
{
  enum qp_rc rc = open_overlay(cat, err);

  if (rc)
    return rc;
  cat->into = &cat->over;
  qp__mutex_lock(&cat->lock);
  cat->ready = QP__CAT_STALE;
  qp__mutex_unlock(&cat->lock);
  return QP_OK;
}

void
qp__cat_try_file(struct qp__catalogue *cat)
{
  enum qp_rc rc;

  if (!cat->opened || cat->into == &cat->main || !cat->main.handle || cat->store->readonly)
    return;
  rc = qp__cat_do(&cat->main, QP__CAT_BEGIN, NULL);
  if (!rc)
    rc = qp__cat_do(&cat->main, QP__CAT_STATE_PROBE, NULL);
  if (!rc)
    rc = qp__cat_do(&cat->main, QP__CAT_COMMIT, NULL);
  for (size_t i = 0; i < cat->hidden.count && !rc; i++)
    rc = qp__cat_take(cat, &cat->hidden.ids[i], NULL);
  if (rc)
    (void)qp__cat_do(&cat->main, QP__CAT_ROLLBACK, NULL);
  else
    cat->into = &cat->main;
}

/* ---- readers ---- */

struct qp__cat_reader *
qp__cat_reader_new(struct qp__catalogue *cat)
{
  struct qp__cat_reader *reader;
  char name[PATH_MAX];

  if (cat->into != &cat->main || cat->over.handle || cat->alone || !file_name(cat, name))
    return NULL;
  reader = qp__alloc0(1, sizeof(*reader));
  if (!reader)
    return NULL;
  reader->generation = cat->generation;
  if (open_db(name, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, "PRAGMA cache_size = -" READER_KB,
              NULL, &reader->db.handle) == 0)
    return reader;
  qp__free(reader);
  return NULL;
}

struct qp__cat_reader *
qp__cat_reader_take(struct qp__catalogue *cat)
{
  struct qp__cat_reader *reader = cat->readers;

  if (reader) {
    cat->readers = reader->next;
    cat->reader_count--;
  }
  return reader;
}

void
qp__cat_reader_put(struct qp__catalogue *cat, struct qp__cat_reader *reader)
{
  bool keep;

  qp__mutex_lock(&cat->lock);
  keep = reader->generation == cat->generation && cat->reader_count < READERS_MAX;
  if (keep) {
    reader->next = cat->readers;
    cat->readers = reader;
    cat->reader_count++;
  }
  qp__mutex_unlock(&cat->lock);
  if (!keep) {
    qp__cat_close_db(&reader->db);
    qp__free(reader);
  }
}

enum qp_rc
qp__cat_remove(struct qp__catalogue *cat, struct qp_err *err)
{
  qp__cat_close(cat);
  return qp__cat_unlink(cat, err);
}

/* The index of words keeps removed text until all its parts are merged into one; other pages
 * contain remains of old rows until the file is rewritten. Then the log contains old pages and must
 * be emptied, which requires that no connection reads from it. */
enum qp_rc
qp__cat_scrub(struct qp__catalogue *cat, struct qp_err *err)
{
  static const char sql[] = "INSERT INTO words (words) VALUES ('optimize'); VACUUM";
  int code;

  close_readers(cat);
  code = sqlite3_exec(cat->main.handle, sql, NULL, NULL, NULL);
  if (!code)
    code =
        sqlite3_wal_checkpoint_v2(cat->main.handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  cat->dropped = 0;
  cat->merging = false;
  return code ? qp__cat_fail(&cat->main, code, err) : QP_OK;
}

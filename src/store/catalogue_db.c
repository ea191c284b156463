/* catalogue_db.c - the catalogue's database: opening, making it anew, statements, failures. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/catalogue_int.h"

#define VERSION 1 /* a database of another one is made anew */
#define BUSY_MS 5000
#define READERS_MAX 8    /* connections that are kept though nobody uses them */
#define READER_KB "1000" /* cache of one of them */

static const char schema[] =
    "CREATE TABLE context (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, title TEXT, "
    "created INTEGER NOT NULL, updated INTEGER NOT NULL, messages INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL, branches INTEGER NOT NULL, model TEXT, mode TEXT, state TEXT, "
    "owner TEXT, summary TEXT, old INTEGER NOT NULL, error TEXT, stamp BLOB, "
    "indexed INTEGER NOT NULL, digest INTEGER NOT NULL, due INTEGER NOT NULL, "
    "rc INTEGER NOT NULL);"
    "CREATE INDEX context_updated ON context (updated, id);"
    "CREATE INDEX context_owner ON context (owner, updated, id);"
    "CREATE INDEX context_due ON context (due) WHERE due = 1;"
    "CREATE INDEX context_error ON context (n) WHERE error IS NOT NULL;"
    "CREATE TABLE message (n INTEGER PRIMARY KEY, context INTEGER NOT NULL, id BLOB NOT NULL, "
    "role INTEGER NOT NULL, created INTEGER NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX message_context ON message (context);"
    "CREATE VIRTUAL TABLE words USING fts5 (text, content = 'message', content_rowid = 'n', "
    "tokenize = 'quipu');";

static const char private_schema[] =
    "CREATE TEMP TABLE differing (id BLOB PRIMARY KEY) WITHOUT ROWID;";

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

/* A failed bind leaves null in its place, which no column of ours takes for what is bound. */

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

static void
close_db(struct qp__cat_db *db)
{
  for (size_t i = 0; i < QP__CAT__MAX; i++)
    (void)sqlite3_finalize(db->statements[i]);
  (void)sqlite3_close_v2(db->handle);
  memset(db, 0, sizeof(*db));
}

/* Frees those that nobody uses; those that are in use are of yesterday when they are given back. */
static void
close_readers(struct qp__catalogue *cat)
{
  struct qp__cat_reader *reader;

  (void)pthread_mutex_lock(&cat->lock);
  reader = cat->readers;
  cat->readers = NULL;
  cat->reader_count = 0;
  cat->generation++;
  cat->version++;
  cat->ready = QP__CAT_STALE;
  (void)pthread_mutex_unlock(&cat->lock);
  while (reader) {
    struct qp__cat_reader *next = reader->next;

    close_db(&reader->db);
    qp__free(reader);
    reader = next;
  }
}
void
qp__cat_close(struct qp__catalogue *cat)
{
  close_readers(cat);
  close_db(&cat->main);
  cat->private = false;
  cat->only_read = false;
  cat->passing = false;
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

/* An empty database becomes one of ours. SQLITE_NOTADB: it is another version's. With `passes` it
 * can compare all contexts. */
static int
prepare_db(sqlite3 *db, bool only_read, bool passes)
{
  char sql[64];
  int version = 0;
  int code = qp__cat_add_tokenizer(db);

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
  if (!code && passes)
    code = sqlite3_exec(db, private_schema, NULL, NULL, NULL);
  return code;
}

/* `name` "" is a private database, which SQLite keeps in memory as long as it is small. */
static int
open_db(const char *name, int flags, const char *settings, bool passes, sqlite3 **out)
{
  sqlite3 *db = NULL;
  int code = sqlite3_open_v2(name, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

  if (!code) {
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    code = sqlite3_exec(db, settings, NULL, NULL, NULL);
  }
  if (!code)
    code = prepare_db(db, (flags & SQLITE_OPEN_READONLY) != 0, passes);
  if (code)
    (void)sqlite3_close_v2(db);
  else
    *out = db;
  return code;
}

/* The file's name without links, as SQLite wants it. False: there is none. */
static bool
file_name(const struct qp__catalogue *cat, char out[PATH_MAX])
{
  size_t n;

  if (!realpath(cat->where, out))
    return false;
  n = strlen(out);
  return snprintf(out + n, PATH_MAX - n, "/%s", QP__CATALOGUE_NAME) < (int)(PATH_MAX - n);
}

/* SQLite would let everybody read it. Only when there is none: to close a file that is in use would
 * take its locks away. */
static void
make_file(struct qp__catalogue *cat)
{
  struct qp_store *s = cat->store;
  int fd = s->os->openat(s->os->self, s->driver->directory(s->self), QP__CATALOGUE_NAME,
                         O_RDWR | O_CREAT | O_EXCL, 0600);

  if (fd >= 0)
    (void)s->os->close(s->os->self, fd);
}

static int
open_file(struct qp__catalogue *cat)
{
  char name[PATH_MAX];

  if (!file_name(cat, name))
    return SQLITE_CANTOPEN;
  cat->only_read = cat->store->readonly;
  if (cat->only_read)
    return open_db(name, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, "SELECT 1", true,
                   &cat->main.handle);
  make_file(cat);
  return open_db(name, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
                 "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", true, &cat->main.handle);
}

static enum qp_rc
open_private(struct qp__catalogue *cat, struct qp_err *err)
{
  int code =
      open_db("", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
              "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF", true, &cat->main.handle);

  cat->only_read = false;
  cat->private = true;
  return code ? qp__cat_fail(&cat->main, code, err) : QP_OK;
}

enum qp_rc
qp__cat_open(struct qp__catalogue *cat, struct qp_err *err)
{
  int code;

  if (cat->main.handle)
    return QP_OK;
  cat->needs_pass = true;
  if (!cat->where)
    return open_private(cat, err);
  code = open_file(cat);
  if (code && !cat->store->readonly && rc_of(code) == QP_CORRUPT) {
    qp__log(&cat->store->log, QP_LOG_INFO, "catalogue", "%s is made anew: %s", QP__CATALOGUE_NAME,
            sqlite3_errstr(code));
    code = qp__cat_remove(cat, NULL) ? code : open_file(cat);
  }
  if (!code)
    return QP_OK;
  qp__log(&cat->store->log, cat->store->readonly ? QP_LOG_DEBUG : QP_LOG_WARN, "catalogue",
          "%s cannot be used: %s; working without it", QP__CATALOGUE_NAME, sqlite3_errstr(code));
  return open_private(cat, err);
}

/* ---- readers ---- */

struct qp__cat_reader *
qp__cat_reader_new(struct qp__catalogue *cat)
{
  struct qp__cat_reader *reader;
  char name[PATH_MAX];

  if (cat->private || cat->only_read || !cat->main.handle || !file_name(cat, name))
    return NULL;
  reader = qp__alloc0(1, sizeof(*reader));
  if (!reader)
    return NULL;
  reader->generation = cat->generation;
  if (open_db(name, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, "PRAGMA cache_size = -" READER_KB,
              false, &reader->db.handle) == 0)
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

  (void)pthread_mutex_lock(&cat->lock);
  keep = reader->generation == cat->generation && cat->reader_count < READERS_MAX;
  if (keep) {
    reader->next = cat->readers;
    cat->readers = reader;
    cat->reader_count++;
  }
  (void)pthread_mutex_unlock(&cat->lock);
  if (!keep) {
    close_db(&reader->db);
    qp__free(reader);
  }
}

enum qp_rc
qp__cat_remove(struct qp__catalogue *cat, struct qp_err *err)
{
  static const char *const names[] = {
    QP__CATALOGUE_NAME,
    QP__CATALOGUE_NAME "-wal",
    QP__CATALOGUE_NAME "-shm",
  };
  struct qp_store *s = cat->store;

  qp__cat_close(cat);
  if (!cat->where || s->readonly)
    return QP_OK;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    int sys = s->os->unlinkat(s->os->self, s->driver->directory(s->self), names[i], 0);

    if (sys && sys != -ENOENT)
      return qp__fail_sys(err, sys, "cannot remove '%s'", names[i]);
  }
  return QP_OK;
}

enum qp_rc
qp__cat_copy(struct qp__catalogue *cat, struct qp_err *err)
{
  sqlite3_backup *backup;
  sqlite3 *copy = NULL;
  int code;

  code = sqlite3_open_v2("", &copy,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                             SQLITE_OPEN_EXRESCODE,
                         NULL);
  if (!code) {
    backup = sqlite3_backup_init(copy, "main", cat->main.handle, "main");
    code = backup ? sqlite3_backup_step(backup, -1) : sqlite3_errcode(copy);
    code = code == SQLITE_DONE ? SQLITE_OK : code;
    (void)sqlite3_backup_finish(backup);
  }
  if (!code)
    code = sqlite3_exec(copy, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF", NULL, NULL,
                        NULL);
  if (!code)
    code = prepare_db(copy, false, true);
  if (code) {
    (void)sqlite3_close_v2(copy);
    return qp__cat_fail(&cat->main, code, err);
  }
  qp__cat_close(cat);
  cat->main.handle = copy;
  cat->private = true;
  cat->needs_pass = true;
  return QP_OK;
}

/* catalogue_int.h - the catalogue inside: shared by the files catalogue*.c.
 *
 * An SQLite database with one row for each context and one for each message that has text. It is
 * catalogue.db in the data directory of a store on real files, else (a store in memory, or on
 * another operating system) a private database of SQLite's that goes with the store. So it is also
 * when catalogue.db cannot be used, and for a store that is only read whenever catalogue.db is not
 * up to date: a copy of it is brought up to date then.
 *
 * (1) Who commits leaves the id of the context in a small set, the marks, and goes on. A list or a
 *     search first brings the rows of all marked contexts up to date, and a search the text too: so
 *     both see everything that was committed before they began.
 * (2) A row has a stamp, made of the sizes, times and inodes of the context's files before they
 *     were read. When the database is opened, and when there were too many marks, a pass compares
 *     the stamps of all contexts, without opening one, and updates the rows that differ.
 * (3) Of a row's messages the first `indexed` (in the order of the context's tree) are in the index
 *     of words, and `digest` is made of their ids and of who of them is in the trash. When it is no
 *     longer that of the tree, the text of the context is indexed anew. So it does not matter what
 *     has changed a context.
 * (4) When nothing is marked and nothing is left to do, a list or a search takes no lock for longer
 *     than a moment: it reads by a connection of its own, beside all others.
 * (5) A page of a list is kept, and is right until something is marked: `version` moves on then,
 *     which happens before the commit is acknowledged.
 * (6) Each step is one transaction of bounded size. `summary` is the only thing in here that cannot
 *     be made again; nobody sets it yet.
 *
 * Locks: db_lock for everything about the database; while it is held contexts are opened, so nobody
 * may wait for it who holds a lock of the store or a claim. `lock` for the marks and the thread; it
 * is the last of all locks. */
#ifndef QP_STORE_CATALOGUE_INT_H
#define QP_STORE_CATALOGUE_INT_H

#include <pthread.h>
#include <sqlite3.h>

#include "store/catalogue.h"
#include "store/context_int.h"

/* X(name, text). Prepared once each. */
#define QP__CAT_SQL_MAP(X)                                                                       \
  X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
  X(COMMIT, "COMMIT")                                                                            \
  X(ROLLBACK, "ROLLBACK")                                                                        \
  X(ROW_FIND, "SELECT n, indexed, digest FROM context WHERE id = ?1")                            \
  X(ROW_PUT,                                                                                     \
    "INSERT INTO context (id, title, created, updated, messages, bytes, branches, model, mode, " \
    "state, owner, old, error, stamp, indexed, digest, due, rc) "                                \
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) "  \
    "ON CONFLICT (id) DO UPDATE SET title = ?2, created = ?3, updated = ?4, messages = ?5, "     \
    "bytes = ?6, branches = ?7, model = ?8, mode = ?9, state = ?10, owner = ?11, old = ?12, "    \
    "error = ?13, stamp = ?14, indexed = ?15, digest = ?16, due = ?17, rc = ?18")                \
  X(ROW_DROP, "DELETE FROM context WHERE n = ?1")                                                \
  X(ROW_BROKEN, "SELECT id FROM context WHERE error IS NOT NULL")                                \
  X(ROW_DUE, "SELECT n, id, messages, indexed, digest FROM context WHERE due = 1 LIMIT 1")       \
  X(ROW_INDEXED, "UPDATE context SET indexed = ?2, digest = ?3, due = ?4 WHERE n = ?1")          \
  X(TEXT_PUT, "INSERT INTO message (context, id, role, created, text) VALUES (?1, ?2, ?3, ?4, "  \
              "?5)")                                                                             \
  X(WORDS_PUT, "INSERT INTO words (rowid, text) VALUES (?1, ?2)")                                \
  X(WORDS_DROP, "INSERT INTO words (words, rowid, text) "                                        \
                "SELECT 'delete', n, text FROM message WHERE context = ?1")                      \
  X(TEXT_DROP, "DELETE FROM message WHERE context = ?1")                                         \
  X(PASS_CLEAR, "DELETE FROM temp.differing")                                                    \
  X(PASS_KNOWN, "SELECT id, stamp, error IS NOT NULL FROM context ORDER BY id")                  \
  X(PASS_ADD, "INSERT OR IGNORE INTO temp.differing (id) VALUES (?1)")                           \
  X(PASS_NEXT, "SELECT id FROM temp.differing LIMIT 1")                                          \
  X(PASS_DONE, "DELETE FROM temp.differing WHERE id = ?1")                                       \
  X(LIST, QP__CAT_ROW "WHERE ?1 OR (updated, id) < (?2, ?3) "                                    \
                      "ORDER BY updated DESC, id DESC LIMIT ?4")                                 \
  X(LIST_OWNER, QP__CAT_ROW "WHERE owner = ?5 AND (?1 OR (updated, id) < (?2, ?3)) "             \
                            "ORDER BY updated DESC, id DESC LIMIT ?4")                           \
  X(SEARCH, QP__CAT_HIT "WHERE words MATCH ?1 AND (?2 OR (rank, words.rowid) > (?3, ?4)) "       \
                        "ORDER BY rank, words.rowid LIMIT ?5")                                   \
  X(SEARCH_OWNER, QP__CAT_HIT "WHERE words MATCH ?1 AND c.owner = ?6 "                           \
                              "AND (?2 OR (rank, words.rowid) > (?3, ?4)) "                      \
                              "ORDER BY rank, words.rowid LIMIT ?5")

#define QP__CAT_ROW                                                                            \
  "SELECT id, title, created, updated, messages, bytes, branches, model, mode, state, owner, " \
  "summary, old, error, rc FROM context "

#define QP__CAT_HIT                                                    \
  "SELECT c.id, c.title, m.id, m.role, m.created, "                    \
  "snippet(words, 0, char(2), char(3), '…', 16), rank, words.rowid " \
  "FROM words JOIN message m ON m.n = words.rowid JOIN context c ON c.n = m.context "

enum qp__cat_sql {
#define QP__CAT_SQL_ENUM(name, text) QP__CAT_##name,
  QP__CAT_SQL_MAP(QP__CAT_SQL_ENUM)
#undef QP__CAT_SQL_ENUM
      QP__CAT__MAX,
};

/* A connection and its statements; one thread at a time. */
struct qp__cat_db {
  sqlite3 *handle; /* NULL: not opened yet */
  sqlite3_stmt *statements[QP__CAT__MAX];
};

/* A connection that only reads, beside the one that writes. */
struct qp__cat_reader {
  struct qp__cat_db db;
  uint64_t generation; /* of the file that it has open */
  struct qp__cat_reader *next;
};

/* What a list or a search need not wait for, as long as there are no marks. */
enum qp__cat_ready {
  QP__CAT_STALE,
  QP__CAT_ROWS, /* all rows are right */
  QP__CAT_TEXT, /* and all words */
};

/* A page of a list, which others may be visiting. */
struct qp__cat_page;
#define QP__CAT_PAGES 16 /* that are kept */

struct qp__catalogue {
  struct qp_store *store;
  char *where; /* the data directory; NULL: the database is private */

  /* The database: under db_lock. */
  pthread_mutex_t db_lock;
  struct qp__cat_db main;
  bool private;          /* it is not catalogue.db, or only read */
  bool only_read;        /* it is catalogue.db of a store that is only read */
  bool passing;          /* temp.differing has contexts whose rows are to be made */
  bool needs_pass;       /* nobody knows whether the rows are right */
  struct qp_uuid *taken; /* marks that were taken and not worked off */
  size_t taken_count, taken_cap;
  uint64_t listed;   /* contexts that the last pass found */
  uint64_t finished; /* contexts that were brought up to date, text and all */

  /* Marks, readers and the thread: under lock. */
  pthread_mutex_t lock;
  pthread_cond_t wake;
  struct qp_uuid *marks; /* a hash table; none: a free place */
  size_t mark_count, mark_cap;
  bool all; /* marks were lost: every context may have changed */
  enum qp__cat_ready ready;
  uint64_t version; /* marks and other files so far: who has it has seen all that was committed */
  struct qp__cat_page *pages[QP__CAT_PAGES]; /* or NULL */
  size_t next_page;                          /* to be replaced */
  struct qp__cat_reader *readers;            /* that nobody uses now */
  size_t reader_count;
  uint64_t generation; /* grows when the file is another */
  bool broken;         /* some contexts cannot be opened, and are tried again each time */
  bool looked;         /* it is known whether there is a catalogue.db */
  bool following;      /* the database is in use: keep it up to date in the background */
  bool stopping;
  bool started;
  pthread_t thread;
};

/* ---- catalogue_db.c: with db_lock ---- */

/* Opens the database unless it is open; makes it anew when it is damaged or another version's. */
enum qp_rc qp__cat_open(struct qp__catalogue *cat, struct qp_err *err);
void qp__cat_close(struct qp__catalogue *cat);
/* Closes it and removes its files: the next open makes it anew. */
enum qp_rc qp__cat_remove(struct qp__catalogue *cat, struct qp_err *err);
/* Turns a database that is only read into a private copy of it. */
enum qp_rc qp__cat_copy(struct qp__catalogue *cat, struct qp_err *err);

/* A new reader, with db_lock: what it opens is the file of the main connection. NULL: there is
 * none, use that one. */
struct qp__cat_reader *qp__cat_reader_new(struct qp__catalogue *cat);
/* One that nobody uses, or NULL; with `lock`. */
struct qp__cat_reader *qp__cat_reader_take(struct qp__catalogue *cat);
/* Without locks. */
void qp__cat_reader_put(struct qp__catalogue *cat, struct qp__cat_reader *reader);

/* ---- catalogue_db.c: with whatever guards the connection ---- */

/* A statement, ready to be bound. Borrowed. */
enum qp_rc qp__cat_use(struct qp__cat_db *db, enum qp__cat_sql sql, sqlite3_stmt **out,
                       struct qp_err *err);
/* *row: there is one. At the end, and on failure, the statement is reset. */
enum qp_rc qp__cat_step(struct qp__cat_db *db, sqlite3_stmt *st, bool *row, struct qp_err *err);
/* Runs a statement without rows to its end. */
enum qp_rc qp__cat_run(struct qp__cat_db *db, sqlite3_stmt *st, struct qp_err *err);
enum qp_rc qp__cat_do(struct qp__cat_db *db, enum qp__cat_sql sql, struct qp_err *err);
/* The failure of the last call of SQLite. */
enum qp_rc qp__cat_fail(const struct qp__cat_db *db, int code, struct qp_err *err);
void qp__cat_bind_id(sqlite3_stmt *st, int at, const struct qp_uuid *id);
/* NULL: null. */
void qp__cat_bind_text(sqlite3_stmt *st, int at, const char *text);
/* None when it is no id. */
struct qp_uuid qp__cat_column_id(sqlite3_stmt *st, int at);

/* ---- catalogue_words.c ---- */

/* Makes our tokenizer known to a connection. 0 or SQLite's code. */
int qp__cat_add_tokenizer(sqlite3 *db);

/* ---- catalogue_update.c: with db_lock ---- */

/* Begins to compare all contexts. */
enum qp_rc qp__cat_start_pass(struct qp__catalogue *cat, struct qp_err *err);
/* One transaction's work: rows of marked contexts, of the pass, and with `text` the words. *more:
 * there is something left. */
enum qp_rc qp__cat_work(struct qp__catalogue *cat, bool text, bool *more, struct qp_err *err);

/* ---- catalogue_text.c ---- */

/* Appends what of a stored message shall be found. */
enum qp_rc qp__cat_message_text(struct qp_bytes json, struct qp__buf *out, struct qp_err *err);

/* ---- catalogue_query.c ---- */

void qp__cat_forget_pages(struct qp__catalogue *cat);

/* ---- catalogue.c ---- */

/* Brings the rows, and with `text` the words, up to date with all that was committed before, and
 * hands out a connection to read by: a reader, or NULL with db_lock held and the main one to be
 * used. Given back with qp__cat_end_reading. */
enum qp_rc qp__cat_begin_reading(struct qp__catalogue *cat, bool text, struct qp__cat_reader **out,
                                 struct qp_err *err);
void qp__cat_end_reading(struct qp__catalogue *cat, struct qp__cat_reader *reader);
/* Whether reading failed because the database is damaged: it is gone then, try again. */
bool qp__cat_is_damaged(struct qp__catalogue *cat, enum qp_rc rc);

#endif

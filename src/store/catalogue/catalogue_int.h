/* catalogue_int.h - the catalogue inside: shared by the files catalogue*.c.
 *
 * An SQLite database with one row for each context and one for each message that has text: the file
 * catalogue.db in the data directory. Beside it there may be a second database of the same form in
 * memory, the overlay: it has the rows that the file lacks. A list reads both. The overlay is used
 *   - by a store that is only read: it never writes the file;
 *   - when the file cannot be written, for instance because the disk is full. As soon as it can be
 *     written again, it catches up and the overlay goes;
 *   - when there is no usable file at all (a store in memory, a bad disk): it has all rows then.
 *
 * (1) Who commits leaves the id of the context in a small set, the marks, and goes on. A list or a
 *     search first brings the rows of all marked contexts up to date, and a search the text too: so
 *     both see everything that was committed before they began.
 * (2) catalogue.behind names the contexts whose rows may not be right in the file (see
 *     catalogue_behind.c). So a process that opens the catalogue, also after a crash, looks at
 *     those contexts alone, and trusts all other rows.
 * (3) A row has a stamp, made of the sizes, times and inodes of the context's files before they
 *     were read. A context whose stamp is that of its row is not opened.
 * (4) A comparison looks at the stamps of all contexts. It is made at once when the rows cannot be
 *     trusted or are few, else in the background, in small steps, once in each process that has a
 *     thread for it: it finds what other programs have changed.
 * (5) Of a row's messages the first `indexed` (in the order of the context's tree) are in the index
 *     of words, and `digest` is made of their ids and of who of them is in the trash. When it is no
 *     longer that of the tree, the text of the context is indexed anew. So it does not matter what
 *     has changed a context.
 * (6) When nothing is marked and nothing is left to do, a list or a search takes no lock for longer
 *     than a moment: it reads by a connection of its own, beside all others.
 * (7) A page of a list is kept, and is right until something is marked: `version` moves on then,
 *     which happens before the commit is acknowledged.
 * (8) Each step is one transaction of bounded size. `summary` is the only thing in here that cannot
 *     be made again; nobody sets it yet.
 *
 * Locks: db_lock for everything about the databases; while it is held contexts are opened, so
 * nobody may wait for it who holds a lock of the store or a claim. `lock` for the marks, the file
 * catalogue.behind and the thread; it is the last of all locks. */
#ifndef QP_STORE_CATALOGUE_CATALOGUE_INT_H
#define QP_STORE_CATALOGUE_CATALOGUE_INT_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/mutex.h"
#include "store/catalogue/catalogue.h"
#include "store/context/context_int.h"

/* X(name, text). Prepared once each. */
#define QP__CAT_SQL_MAP(X)                                                                        \
  X(BEGIN, "BEGIN IMMEDIATE")                                                                     \
  X(COMMIT, "COMMIT")                                                                             \
  X(ROLLBACK, "ROLLBACK")                                                                         \
  X(ROW_FIND, "SELECT n, indexed, digest, stamp, error IS NULL FROM context WHERE id = ?1")       \
  X(ROW_PUT,                                                                                      \
    "INSERT INTO context (id, title, created, updated, messages, bytes, branches, model, mode, "  \
    "state, owner, old, error, stamp, indexed, digest, due, rc, meta) "                           \
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "   \
    "?19) "                                                                                       \
    "ON CONFLICT (id) DO UPDATE SET title = ?2, created = ?3, updated = ?4, messages = ?5, "      \
    "bytes = ?6, branches = ?7, model = ?8, mode = ?9, state = ?10, owner = ?11, old = ?12, "     \
    "error = ?13, stamp = ?14, indexed = ?15, digest = ?16, due = ?17, rc = ?18, meta = ?19")     \
  X(ROW_DROP, "DELETE FROM context WHERE n = ?1")                                                 \
  X(ROW_BROKEN, "SELECT id FROM context WHERE error IS NOT NULL")                                 \
  X(ROW_OLD, "SELECT id FROM context WHERE old = 1")                                              \
  X(ROW_ALL_DUE, "SELECT id FROM context WHERE due = 1")                                          \
  X(ROW_STATE, "SELECT id FROM context WHERE state = ?1 AND state <> 'Idle'")                     \
  X(OWNER_BYTES, "SELECT ifnull(sum(bytes + meta), 0) FROM context "                              \
                 "WHERE NOT hidden(id) AND owner = ?1")                                           \
  X(ROW_AFTER, "SELECT n, id FROM context WHERE n > ?1 ORDER BY n LIMIT 256")                     \
  X(ROW_NUMBER, "SELECT n FROM context LIMIT 1 OFFSET ?1")                                        \
  X(STATE_FIND, "SELECT epoch, before, complete, dirs, dropped FROM state")                       \
  X(STATE_EPOCH, "UPDATE state SET before = epoch, epoch = ?1, complete = 1")                     \
  X(STATE_DIRS, "UPDATE state SET dirs = ?1")                                                     \
  X(STATE_DROPPED, "UPDATE state SET dropped = ?1")                                               \
  X(STATE_PROBE, "UPDATE state SET probe = probe + 1")                                            \
  X(ROW_DUE, "SELECT n, id, messages, indexed, digest FROM context WHERE due = 1 LIMIT 1")        \
  X(ROW_INDEXED, "UPDATE context SET indexed = ?2, digest = ?3, due = ?4 WHERE n = ?1")           \
  X(TEXT_PUT, "INSERT INTO message (context, id, role, created, text) VALUES (?1, ?2, ?3, ?4, "   \
              "?5)")                                                                              \
  X(WORDS_PUT, "INSERT INTO words (rowid, text) VALUES (?1, ?2)")                                 \
  X(WORDS_DROP, "INSERT INTO words (words, rowid, text) "                                         \
                "SELECT 'delete', n, text FROM message WHERE context = ?1")                       \
  X(TEXT_DROP, "DELETE FROM message WHERE context = ?1")                                          \
  X(WORDS_MERGE_ALL, "INSERT INTO words (words, rank) VALUES ('merge', -256)")                    \
  X(WORDS_MERGE, "INSERT INTO words (words, rank) VALUES ('merge', 256)")                         \
  X(VACUUM, "PRAGMA incremental_vacuum(128)")                                                     \
  X(LIST, QP__CAT_ROW "WHERE NOT hidden(id) ORDER BY updated DESC, id DESC")                      \
  X(LIST_AFTER, QP__CAT_ROW                                                                       \
    "WHERE NOT hidden(id) AND (updated, id) < (?1, ?2) ORDER BY updated DESC, id DESC")           \
  X(LIST_OWNER, QP__CAT_ROW "WHERE NOT hidden(id) AND owner = ?3 ORDER BY updated DESC, id DESC") \
  X(LIST_OWNER_AFTER,                                                                             \
    QP__CAT_ROW "WHERE NOT hidden(id) AND owner = ?3 AND (updated, id) < (?1, ?2) "               \
                "ORDER BY updated DESC, id DESC")                                                 \
  X(SEARCH, QP__CAT_HIT "WHERE words MATCH ?1 AND NOT hidden(c.id) "                              \
                        "AND (?2 OR (rank, words.rowid) > (?3, ?4)) "                             \
                        "ORDER BY rank, words.rowid LIMIT ?5")                                    \
  X(SEARCH_OWNER, QP__CAT_HIT "WHERE words MATCH ?1 AND NOT hidden(c.id) AND c.owner = ?6 "       \
                              "AND (?2 OR (rank, words.rowid) > (?3, ?4)) "                       \
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
  sqlite3 *handle; /* NULL: not open */
  sqlite3_stmt *statements[QP__CAT__MAX];
};

/* A connection that only reads, beside the one that writes. */
struct qp__cat_reader {
  struct qp__cat_db db;
  uint64_t generation; /* of the file that it has open */
  struct qp__cat_reader *next;
};

/* A set of ids: a hash table in which none is a free place. All zero is an empty one. */
struct qp__cat_set {
  struct qp_uuid *table;
  size_t count, cap;
};

/* What a list or a search need not wait for, as long as there are no marks. */
enum qp__cat_ready {
  QP__CAT_STALE,
  QP__CAT_ROWS, /* all rows are right */
  QP__CAT_TEXT, /* and all words */
};

/* Of the directories that contexts are in: when a name was last added or removed. */
struct qp__cat_dirs {
  int64_t ns[2];
};

/* A page of a list, which others may be visiting. */
struct qp__cat_page;
#define QP__CAT_PAGES 16   /* that are kept */
#define QP__CAT_SMALL 1000 /* so many rows are compared in the first list of a process */

struct qp__catalogue {
  struct qp_store *store;
  char *where;    /* the data directory; NULL: there is no catalogue.db */
  uint32_t small; /* QP__CAT_SMALL; tests change it */

  /* The databases: under db_lock. */
  struct qp__mutex db_lock;
  bool opened;
  bool no_file;              /* catalogue.db is of no use to this process */
  bool alone;                /* main has the file for itself: no other connection can open it */
  bool ordered;              /* main has all its indexes */
  bool complained;           /* that the file cannot be written was logged */
  bool trusted;              /* the rows of main are right, but for what is named as behind */
  bool needs_pass;           /* all contexts must be compared before the rows are right */
  bool compare_due;          /* … or should be, in the background */
  bool merging;              /* the full text is being merged, because of `dropped` */
  struct qp__cat_db main;    /* catalogue.db, if it can be used */
  struct qp__cat_db over;    /* the overlay, if it is in use */
  struct qp__cat_db *into;   /* the one of them that is brought up to date */
  struct qp__cat_set hidden; /* contexts whose rows are in the overlay, or nowhere */
  struct qp_uuid *taken;     /* contexts that are to be looked at */
  size_t taken_count, taken_cap;
  struct qp__cat_dirs dirs; /* as main knows them */
  uint64_t listed;          /* contexts that the last comparison found */
  uint64_t finished;        /* contexts that were brought up to date, text and all */
  size_t dropped;           /* messages whose text has gone since the index was last merged … */
  size_t dropped_kept;      /* … as main knows it */

  /* Marks, readers and the thread: under lock. */
  struct qp__mutex lock;
  pthread_cond_t wake;
  struct qp__cat_set marks;
  bool all;       /* marks were lost: every context may have changed */
  bool broken;    /* some contexts cannot be opened, and are tried again each time */
  bool looked;    /* it is known whether there is a catalogue.db */
  bool following; /* the database is in use: keep it up to date in the background */
  bool stopping;
  bool started;
  enum qp__cat_ready ready;
  uint64_t version; /* marks and other files so far: who has it has seen all that was committed */
  struct qp__cat_page *pages[QP__CAT_PAGES]; /* or NULL */
  size_t next_page;                          /* to be replaced */
  struct qp__cat_reader *readers;            /* that nobody uses now */
  size_t reader_count;
  uint64_t generation;       /* grows when the file is another */
  int behind;                /* catalogue.behind, or -1 */
  off_t behind_end;          /* of it */
  struct qp__cat_set noted;  /* that it names, as far as this process knows */
  unsigned changing;         /* contexts that were noted and will be marked */
  struct qp__cat_dirs first; /* as the directories were before this process changed them */
  pthread_t thread;
};

/* ---- catalogue_set.c ---- */

/* False: no memory. */
bool qp__cat_set_add(struct qp__cat_set *set, const struct qp_uuid *id);
bool qp__cat_set_has(const struct qp__cat_set *set, const struct qp_uuid *id);
void qp__cat_set_release(struct qp__cat_set *set);

/* ---- catalogue_vfs.c ---- */

/* The name of SQLite's file layer with memory that is shared between processes in such a way that
 * a full disk is a failure and not the end of the process. NULL: it cannot be had. */
const char *qp__cat_vfs(void);

/* ---- catalogue_db.c: with db_lock ---- */

/* Opens the databases unless they are open; makes the file anew when it is damaged or another
 * version's. */
enum qp_rc qp__cat_open(struct qp__catalogue *cat, struct qp_err *err);
void qp__cat_close(struct qp__catalogue *cat);
/* Closes them and removes the files: the next open makes them anew. */
enum qp_rc qp__cat_remove(struct qp__catalogue *cat, struct qp_err *err);
/* Has the file, which is in use, and its log of changes hold nothing but what its rows say. */
enum qp_rc qp__cat_scrub(struct qp__catalogue *cat, struct qp_err *err);
/* Gives the file, which is in use, the indexes that it lacks. A failure is logged. */
void qp__cat_order(struct qp__catalogue *cat);
/* From now on the overlay is brought up to date and no longer the file. */
enum qp_rc qp__cat_use_overlay(struct qp__catalogue *cat, struct qp_err *err);
/* The other way round, if the file can be written: what the overlay has is taken again. */
void qp__cat_try_file(struct qp__catalogue *cat);
/* The file has all that the overlay had. */
void qp__cat_drop_overlay(struct qp__catalogue *cat);

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

/* ---- catalogue_marks.c ---- */

/* What the marks need of the database (catalogue.c). catalogue_marks.c refers to it weakly: a
 * program that neither lists nor searches nor runs turns links without it and without SQLite. */
struct qp__cat_database {
  void *(*follow)(void *cat); /* the thread */
  /* Brings the file up to date, if it is in use, and closes the database. */
  void (*close)(struct qp__catalogue *cat);
  enum qp_rc (*erase)(struct qp__catalogue *cat, struct qp_err *err); /* qp__catalogue_erase */
};
extern const struct qp__cat_database qp__cat_database __attribute__((visibility("hidden")));

/* With `lock`, all of these. */
void qp__cat_add_mark(struct qp__catalogue *cat, const struct qp_uuid *id);
/* Any row may be wrong from now on. */
void qp__cat_lose_marks(struct qp__catalogue *cat);
/* Starts the thread if it is wanted and not running. */
void qp__cat_start_thread(struct qp__catalogue *cat);
/* Removes the files of the catalogue, which must be closed. Without locks. */
enum qp_rc qp__cat_unlink(struct qp__catalogue *cat, struct qp_err *err);

/* ---- catalogue_behind.c ---- */

/* With `lock`: this context is about to change, or has changed; catalogue.behind names it now. */
void qp__cat_note(struct qp__catalogue *cat, const struct qp_uuid *id);
/* The text of catalogue.behind, which is changed. False: it cannot be understood; *out may have
 * some of its names then. */
bool qp__cat_parse_behind(char *text, size_t len, uint64_t *epoch, struct qp__cat_set *out);
/* With `lock`: forgets and removes the file, and without it nobody trusts the rows. */
void qp__cat_forget_behind(struct qp__catalogue *cat);
/* With `lock`: writes a new file that names the contexts of these sets (`b` may be NULL). False: it
 * could not be written, and the file is gone. */
bool qp__cat_replace_behind(struct qp__catalogue *cat, uint64_t epoch, const struct qp__cat_set *a,
                            const struct qp__cat_set *b);
/* False: the file is missing or malformed. */
bool qp__cat_read_behind(struct qp__catalogue *cat, uint64_t *epoch, struct qp__cat_set *out);
/* The directories as they are now. */
struct qp__cat_dirs qp__cat_look_at_dirs(const struct qp__catalogue *cat);

/* ---- catalogue_trust.c ---- */

/* With db_lock, when main is open: whether its rows can be trusted, and takes the contexts that it
 * may be behind with. For a store that is only read this is asked again with each list. */
enum qp_rc qp__cat_trust(struct qp__catalogue *cat, struct qp_err *err);
/* With db_lock, when main has everything that was taken: its rows are to be trusted from now on,
 * and catalogue.behind names what is marked. Nothing that fails here does any harm. */
void qp__cat_write_behind(struct qp__catalogue *cat);

/* ---- catalogue_update.c: with db_lock ---- */

/* This context is to be looked at. */
enum qp_rc qp__cat_take(struct qp__catalogue *cat, const struct qp_uuid *id, struct qp_err *err);
/* Takes all contexts that a statement with one column finds. */
enum qp_rc qp__cat_take_found(struct qp__catalogue *cat, struct qp__cat_db *db,
                              enum qp__cat_sql sql, struct qp_err *err);
/* Whether the row of a context is not that of its files. */
enum qp_rc qp__cat_differs(struct qp__catalogue *cat, const struct qp_uuid *id, bool *out,
                           struct qp_err *err);
/* Takes every context whose row is not right. Not `at_once`: db_lock is given up between the steps,
 * and the comparison ends when the store is closed or the file becomes another one. */
enum qp_rc qp__cat_compare(struct qp__catalogue *cat, bool at_once, struct qp_err *err);
/* One transaction's work: rows of contexts that were taken, and with `text` the words. *more: there
 * is something left. */
enum qp_rc qp__cat_work(struct qp__catalogue *cat, bool text, bool *more, struct qp_err *err);

/* ---- catalogue_text.c ---- */

/* Appends what of a stored message shall be found. */
enum qp_rc qp__cat_message_text(struct qp_bytes json, struct qp__buf *out, struct qp_err *err);

/* ---- catalogue_query.c ---- */

void qp__cat_forget_pages(struct qp__catalogue *cat);

/* ---- catalogue.c ---- */

/* Brings the rows, and with `text` the words, up to date with all that was committed before, and
 * hands out a connection to read by: a reader, or NULL with db_lock held and main and the overlay
 * to be used. Given back with qp__cat_end_reading. `again`: the page follows one that was read. */
enum qp_rc qp__cat_begin_reading(struct qp__catalogue *cat, bool text, bool again,
                                 struct qp__cat_reader **out, struct qp_err *err);
void qp__cat_end_reading(struct qp__catalogue *cat, struct qp__cat_reader *reader);
/* Reading has failed: whether it is worth to try again, without the file that failed. */
bool qp__cat_try_again(struct qp__catalogue *cat, enum qp_rc rc);

#endif

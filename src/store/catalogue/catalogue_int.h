/* catalogue_int.h - internals of the catalogue, shared by the files catalogue*.c.
 *
 * An SQLite database with one row per context and one per message that has text: the file
 * catalogue.db in the data directory. There may be a second database of the same form in memory,
 * the overlay: it has the rows that the file lacks. A list reads both. The overlay is used
 *   - by a read-only store: it never writes the file;
 *   - if the file cannot be written, for instance because the disk is full. When it can be written
 *     again, the file is brought up to date and the overlay is dropped;
 *   - if there is no usable file at all (a store in memory, a bad disk): then it has all rows.
 *
 * (1) A commit only adds the id of its context to a small set, the marks. A list or a search first
 *     brings the rows of all marked contexts up to date, and a search also their text: so both see
 *     everything that was committed before they began.
 * (2) catalogue.behind names the contexts whose rows in the file may be wrong (see
 *     catalogue_behind.c). So a process that opens the catalogue, also after a crash, checks only
 *     those contexts and trusts all other rows.
 * (3) A row has a stamp, made of the sizes, times and inodes of the context's files before they
 *     were read. A context whose stamp is equal to that of its row is not opened.
 * (4) A comparison checks the stamps of all contexts. It is made at once if the rows cannot be
 *     trusted or are few, otherwise in the background, in small steps, once per process that has a
 *     thread for it: it finds changes of other programs.
 * (5) Of a row's messages the first `indexed` (in the order of the context's tree) are in the index
 *     of words; `digest` is made of their ids and of which of them are in the trash. If it differs
 *     from that of the tree, the text of the context is indexed again. So it does not matter what
 *     has changed a context.
 * (6) If nothing is marked and no work is left, a list or a search holds a lock only for a moment:
 *     it reads with its own connection, in parallel with others.
 * (7) A page of a list is cached and is valid until something is marked: `version` changes then,
 *     before the commit is acknowledged.
 * (8) `usage` has the sums of what the answers of a context have used, per quarter of an hour and
 *     model. They are added and dropped together with the words of these messages.
 * (9) Each step is one transaction of limited size. `summary` is that of the newest compaction,
 *     which the metadata has ("compaction").
 *
 * Locks: db_lock for everything about the databases. Contexts are opened while it is held, so a
 * thread that holds a lock of the store or a claim must not wait for it. `lock` for the marks, the
 * file catalogue.behind and the thread; it is the last of all locks. */
#ifndef QP_STORE_CATALOGUE_CATALOGUE_INT_H
#define QP_STORE_CATALOGUE_CATALOGUE_INT_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/idset.h"
#include "base/mutex.h"
#include "store/catalogue/catalogue.h"
#include "store/catalogue/words.h"
#include "store/context/context_int.h"

/* X(name, text). Each is prepared once. */
#define QP__CAT_SQL_MAP(X)                                                                         \
  X(BEGIN, "BEGIN IMMEDIATE")                                                                      \
  X(COMMIT, "COMMIT")                                                                              \
  X(ROLLBACK, "ROLLBACK")                                                                          \
  X(ROW_FIND, "SELECT n, indexed, digest, stamp, error IS NULL FROM context WHERE id = ?1")        \
  X(ROW_PUT,                                                                                       \
    "INSERT INTO context (id, title, created, updated, messages, bytes, branches, model, mode, "   \
    "state, owner, old, error, stamp, indexed, digest, due, rc, meta, summary, packed, "           \
    "packed_bytes, trashed, trashed_bytes, sizes) "                                                \
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "    \
    "?19, ?20, ?21, ?22, ?23, ?24, ?25) "                                                          \
    "ON CONFLICT (id) DO UPDATE SET title = ?2, created = ?3, updated = ?4, messages = ?5, "       \
    "bytes = ?6, branches = ?7, model = ?8, mode = ?9, state = ?10, owner = ?11, old = ?12, "      \
    "error = ?13, stamp = ?14, indexed = ?15, digest = ?16, due = ?17, rc = ?18, meta = ?19, "     \
    "summary = ?20, packed = ?21, packed_bytes = ?22, trashed = ?23, trashed_bytes = ?24, "        \
    "sizes = ?25")                                                                                 \
  X(ROW_DROP, "DELETE FROM context WHERE n = ?1")                                                  \
  X(ROW_BROKEN, "SELECT id FROM context WHERE error IS NOT NULL")                                  \
  X(ROW_OLD, "SELECT id FROM context WHERE old = 1")                                               \
  X(ROW_ALL_DUE, "SELECT id FROM context WHERE due = 1")                                           \
  X(ROW_STATE, "SELECT id FROM context WHERE state = ?1 AND state <> 'Idle'")                      \
  X(OWNER_BYTES, "SELECT ifnull(sum(bytes + meta), 0) FROM context "                               \
                 "WHERE NOT hidden(id) AND owner = ?1")                                            \
  X(SIZE_SUM, "SELECT count(*), total(messages), total(bytes), total(meta), total(packed), "       \
              "total(packed_bytes), total(trashed), total(trashed_bytes) FROM context "            \
              "WHERE NOT hidden(id) AND rc = 0 AND (?1 IS NULL OR owner = ?1)")                    \
  X(SIZES, QP__CAT_SIZE "AND (bytes, id) < (?3, ?4) " QP__CAT_SIZE_ORDER)                          \
  X(SIZES_TRASHED, QP__CAT_SIZE "AND trashed > 0 AND (bytes, id) < (?3, ?4) " QP__CAT_SIZE_ORDER)  \
  X(USAGE_PUT,                                                                                     \
    "INSERT INTO usage VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8) "                                \
    "ON CONFLICT DO UPDATE SET answers = answers + 1, input = input + ?4, output = output + ?5, "  \
    "cached = cached + ?6, cost = cost + ?7, unpriced = unpriced + ?8")                            \
  X(USAGE_DROP, "DELETE FROM usage WHERE context = ?1")                                            \
  X(USAGE_DAY, QP__CAT_USAGE("(quarter + ?4) / 96") "GROUP BY 1 ORDER BY 1 DESC LIMIT ?5")         \
  X(USAGE_DAY_ALL, QP__CAT_USAGE_ALL("(quarter + ?4) / 96") "GROUP BY 1 ORDER BY 1 DESC LIMIT ?5") \
  X(USAGE_MODEL_ALL, QP__CAT_USAGE_ALL("model") "GROUP BY 1 " QP__CAT_USAGE_ORDER)                 \
  X(USAGE_CONTEXT, QP__CAT_USAGE("c.id") "GROUP BY u.context " QP__CAT_USAGE_ORDER)                \
  X(USAGE_MODEL, QP__CAT_USAGE("u.model") "GROUP BY 1 " QP__CAT_USAGE_ORDER)                       \
  X(ROW_AFTER, "SELECT n, id FROM context WHERE n > ?1 ORDER BY n LIMIT 256")                      \
  X(ROW_NUMBER, "SELECT n FROM context LIMIT 1 OFFSET ?1")                                         \
  X(STATE_FIND, "SELECT epoch, before, complete, dirs, dropped FROM state")                        \
  X(STATE_EPOCH, "UPDATE state SET before = epoch, epoch = ?1, complete = 1")                      \
  X(STATE_DIRS, "UPDATE state SET dirs = ?1")                                                      \
  X(STATE_DROPPED, "UPDATE state SET dropped = ?1")                                                \
  X(STATE_PROBE, "UPDATE state SET probe = probe + 1")                                             \
  X(ROW_DUE, "SELECT n, id, messages, indexed, digest FROM context WHERE due = 1 LIMIT 1")         \
  X(ROW_INDEXED, "UPDATE context SET indexed = ?2, digest = ?3, due = ?4 WHERE n = ?1")            \
  X(TEXT_PUT, "INSERT INTO message (context, id, role, created, text) VALUES (?1, ?2, ?3, ?4, "    \
              "?5)")                                                                               \
  X(WORDS_PUT, "INSERT INTO words (rowid, text) VALUES (?1, ?2)")                                  \
  X(WORDS_DROP, "INSERT INTO words (words, rowid, text) "                                          \
                "SELECT 'delete', n, text FROM message WHERE context = ?1")                        \
  X(TEXT_DROP, "DELETE FROM message WHERE context = ?1")                                           \
  X(WORDS_MERGE_ALL, "INSERT INTO words (words, rank) VALUES ('merge', -256)")                     \
  X(WORDS_MERGE, "INSERT INTO words (words, rank) VALUES ('merge', 256)")                          \
  X(VACUUM, "PRAGMA incremental_vacuum(128)")                                                      \
  X(LIST, QP__CAT_ROW "WHERE NOT hidden(id) ORDER BY updated DESC, id DESC")                       \
  X(LIST_AFTER, QP__CAT_ROW                                                                        \
    "WHERE NOT hidden(id) AND (updated, id) < (?1, ?2) ORDER BY updated DESC, id DESC")            \
  X(LIST_OWNER, QP__CAT_ROW "WHERE NOT hidden(id) AND owner = ?3 ORDER BY updated DESC, id DESC")  \
  X(LIST_OWNER_AFTER,                                                                              \
    QP__CAT_ROW "WHERE NOT hidden(id) AND owner = ?3 AND (updated, id) < (?1, ?2) "                \
                "ORDER BY updated DESC, id DESC")                                                  \
  X(SEARCH, QP__CAT_HIT "WHERE words MATCH ?1 AND NOT hidden(c.id) "                               \
                        "AND (?2 OR (rank, words.rowid) > (?3, ?4)) "                              \
                        "ORDER BY rank, words.rowid LIMIT ?5")                                     \
  X(SEARCH_OWNER, QP__CAT_HIT "WHERE words MATCH ?1 AND NOT hidden(c.id) AND c.owner = ?6 "        \
                              "AND (?2 OR (rank, words.rowid) > (?3, ?4)) "                        \
                              "ORDER BY rank, words.rowid LIMIT ?5")                               \
  X(SEARCH_CONTEXT, QP__CAT_HIT "WHERE words MATCH ?1 AND NOT hidden(c.id) AND c.id = ?6 "         \
                                "AND (?2 OR words.rowid > ?4) ORDER BY words.rowid LIMIT ?5")      \
  X(SNIPPET, "SELECT " QP__CAT_SNIP " FROM words WHERE words MATCH ?1")

#define QP__CAT_ROW                                                                            \
  "SELECT id, title, created, updated, messages, bytes, branches, model, mode, state, owner, " \
  "summary, old, error, rc FROM context "

#define QP__CAT_SNIP "snippet(words, 0, char(2), char(3), '…', 16)"
#define QP__CAT_HIT                                                                     \
  "SELECT c.id, c.title, m.id, m.role, m.created, " QP__CAT_SNIP ", rank, words.rowid " \
  "FROM words JOIN message m ON m.n = words.rowid JOIN context c ON c.n = m.context "

/* ?1 owner or null, ?3 and ?4 where the last page ended, ?2 how many */
#define QP__CAT_SIZE                                                                             \
  "SELECT id, title, owner, updated, messages, bytes, meta, packed, packed_bytes, trashed, "     \
  "trashed_bytes, branches, sizes FROM context WHERE NOT hidden(id) AND rc = 0 AND (?1 IS NULL " \
  "OR owner = ?1) "
#define QP__CAT_SIZE_ORDER "ORDER BY bytes DESC, id DESC LIMIT ?2"

/* ?1 owner or null, ?2 and ?3 the first quarter of an hour and the one after the last, ?4 quarters
 * to add for local time, ?5 how many */
#define QP__CAT_USAGE(group)                                                              \
  "SELECT " group ", c.title, sum(answers), total(input), total(output), total(cached), " \
  "total(cost), sum(unpriced) FROM usage u CROSS JOIN context c ON c.n = u.context "      \
  "WHERE quarter >= ?2 AND quarter < ?3 AND (?1 IS NULL OR c.owner = ?1) AND NOT hidden(c.id) "
/* The same about all owners, if no context is hidden: nothing has to be looked up per row. */
#define QP__CAT_USAGE_ALL(group)                                                       \
  "SELECT " group ", NULL, sum(answers), total(input), total(output), total(cached), " \
  "total(cost), sum(unpriced) FROM usage WHERE quarter >= ?2 AND quarter < ?3 "
#define QP__CAT_USAGE_ORDER "ORDER BY total(cost) DESC, total(input) + total(output) DESC LIMIT ?5"

enum qp__cat_sql {
#define QP__CAT_SQL_ENUM(name, text) QP__CAT_##name,
  QP__CAT_SQL_MAP(QP__CAT_SQL_ENUM)
#undef QP__CAT_SQL_ENUM
      QP__CAT__MAX,
};

/* A connection and its statements; used by one thread at a time. */
struct qp__cat_db {
  sqlite3 *handle; /* NULL: not open */
  sqlite3_stmt *statements[QP__CAT__MAX];
};

/* A read-only connection beside the one that writes. */
struct qp__cat_reader {
  struct qp__cat_db db;
  uint64_t generation; /* of the file that it has open */
  struct qp__cat_reader *next;
};

/* What is complete, so that a list or a search need not wait while there are no marks. */
enum qp__cat_ready {
  QP__CAT_STALE,
  QP__CAT_ROWS, /* all rows are correct */
  QP__CAT_TEXT, /* and all words */
};

/* When a name was last added to or removed from the directories of contexts. */
struct qp__cat_dirs {
  int64_t ns[2];
};

/* A page of a list; other threads may be visiting it. */
struct qp__cat_page;
#define QP__CAT_PAGES 16   /* cached pages */
#define QP__CAT_SMALL 1000 /* this many rows are compared in the first list of a process */

struct qp__catalogue {
  struct qp_store *store;
  char *where;    /* the data directory; NULL: there is no catalogue.db */
  uint32_t small; /* QP__CAT_SMALL; tests change it */

  /* The databases: under db_lock. */
  struct qp__mutex db_lock;
  bool opened;
  bool no_file;            /* this process cannot use catalogue.db */
  bool alone;              /* main has the file exclusively: no other connection can open it */
  bool ordered;            /* main has all its indexes */
  bool complained;         /* it was logged that the file cannot be written */
  bool trusted;            /* the rows of main are correct, except for contexts named as behind */
  bool needs_pass;         /* all contexts must be compared before the rows are correct */
  bool compare_due;        /* … or should be, in the background */
  bool merging;            /* the full text index is being merged, because of `dropped` */
  struct qp__cat_db main;  /* catalogue.db, if it can be used */
  struct qp__cat_db over;  /* the overlay, if it is in use */
  struct qp__cat_db *into; /* main or over: the one that is brought up to date */
  struct qp__idset hidden; /* contexts whose rows are in the overlay, or nowhere */
  struct qp_uuid *taken;   /* contexts to check */
  size_t taken_count, taken_cap;
  struct qp__cat_dirs dirs; /* as stored in main */
  uint64_t listed;          /* number of contexts in the last comparison */
  uint64_t finished;        /* number of contexts brought up to date, including their text */
  size_t dropped;      /* messages whose text was removed since the index was last merged … */
  size_t dropped_kept; /* … as stored in main */

  /* Marks, readers and the thread: under lock. */
  struct qp__mutex lock;
  pthread_cond_t wake;
  struct qp__idset marks;
  bool all;       /* marks were lost: every context may have changed */
  bool broken;    /* some contexts cannot be opened, and are tried again each time */
  bool looked;    /* it is known whether catalogue.db exists */
  bool following; /* the database is in use: keep it up to date in the background */
  bool stopping;
  bool started;
  enum qp__cat_ready ready;
  uint64_t version; /* number of marks and file changes so far: a reader with this version has seen
                       all commits */
  struct qp__cat_page *pages[QP__CAT_PAGES]; /* or NULL */
  size_t next_page;                          /* the next page to replace */
  struct qp__cat_reader *readers;            /* unused connections */
  size_t reader_count;
  uint64_t generation;       /* increases when the file is replaced */
  int behind;                /* catalogue.behind, or -1 */
  off_t behind_end;          /* its length */
  struct qp__idset noted;    /* the contexts that it names, as far as this process knows */
  unsigned changing;         /* contexts that were noted and will be marked */
  uint32_t unchecked;        /* for qp__check_due */
  struct qp__cat_dirs first; /* as the directories were before this process changed them */
  pthread_t thread;

  struct qp__words_pool words; /* for the searches of a driver that keeps the catalogue */
};

/* catalogue_marks.c: asserts what holds for marks, readers and the thread; with `lock`. */
void qp__catalogue_invariants(const struct qp__catalogue *cat);

/* ---- catalogue_vfs.c ---- */

/* The name of an SQLite file layer whose shared memory reports a full disk as an error instead of
 * killing the process. NULL: not available. */
const char *qp__cat_vfs(void);

/* ---- catalogue_db.c: with db_lock ---- */

/* Opens the databases unless they are open; recreates the file if it is damaged or has another
 * version. */
enum qp_rc qp__cat_open(struct qp__catalogue *cat, struct qp_err *err);
void qp__cat_close(struct qp__catalogue *cat);
/* Closes them and removes the files: the next open recreates them. */
enum qp_rc qp__cat_remove(struct qp__catalogue *cat, struct qp_err *err);
/* Rewrites the file, which is in use, and its log, so that they contain nothing but the current
 * rows. */
enum qp_rc qp__cat_scrub(struct qp__catalogue *cat, struct qp_err *err);
/* Creates the indexes that the file, which is in use, lacks. A failure is logged. */
void qp__cat_order(struct qp__catalogue *cat);
/* From now on the overlay is brought up to date instead of the file. */
enum qp_rc qp__cat_use_overlay(struct qp__catalogue *cat, struct qp_err *err);
/* The reverse, if the file can be written: the contexts in the overlay are checked again. */
void qp__cat_try_file(struct qp__catalogue *cat);
/* The file has everything that the overlay had. */
void qp__cat_drop_overlay(struct qp__catalogue *cat);

/* A new reader, under db_lock: it opens the file of the main connection. NULL: not available, use
 * the main connection. */
struct qp__cat_reader *qp__cat_reader_new(struct qp__catalogue *cat);
/* An unused reader, or NULL; the caller holds `lock`. */
struct qp__cat_reader *qp__cat_reader_take(struct qp__catalogue *cat);
/* The caller holds no lock. */
void qp__cat_reader_put(struct qp__catalogue *cat, struct qp__cat_reader *reader);

/* ---- catalogue_db.c: with whatever guards the connection ---- */

/* A database in memory with the tables of the catalogue. Returns 0 or an SQLite code. */
int qp__cat_open_memory(struct qp__cat_db *db);
void qp__cat_close_db(struct qp__cat_db *db); /* also one that is not open */

/* A statement, ready for binding. Borrowed. */
enum qp_rc qp__cat_use(struct qp__cat_db *db, enum qp__cat_sql sql, sqlite3_stmt **out,
                       struct qp_err *err);
/* *row: whether there is a row. At the end, and after a failure, the statement is reset. */
enum qp_rc qp__cat_step(struct qp__cat_db *db, sqlite3_stmt *st, bool *row, struct qp_err *err);
/* Runs a statement without rows to its end. */
enum qp_rc qp__cat_run(struct qp__cat_db *db, sqlite3_stmt *st, struct qp_err *err);
enum qp_rc qp__cat_do(struct qp__cat_db *db, enum qp__cat_sql sql, struct qp_err *err);
/* The error of the last SQLite call. */
enum qp_rc qp__cat_fail(const struct qp__cat_db *db, int code, struct qp_err *err);
void qp__cat_bind_id(sqlite3_stmt *st, int at, const struct qp_uuid *id);
/* NULL: null. */
void qp__cat_bind_text(sqlite3_stmt *st, int at, const char *text);
/* Zeros if it is not an id. */
struct qp_uuid qp__cat_column_id(sqlite3_stmt *st, int at);

/* ---- catalogue_words.c ---- */

/* Registers our tokenizer at a connection. Returns 0 or an SQLite code. */
int qp__cat_add_tokenizer(sqlite3 *db);

/* ---- catalogue_marks.c ---- */

/* What the marks need from the database (catalogue.c). catalogue_marks.c refers to it weakly: a
 * program that neither lists nor searches nor runs turns links without it and without SQLite. */
struct qp__cat_database {
  void *(*follow)(void *cat); /* the thread */
  /* Brings the file up to date, if it is in use, and closes the database. */
  void (*close)(struct qp__catalogue *cat);
  enum qp_rc (*erase)(struct qp__catalogue *cat, struct qp_err *err); /* qp__catalogue_erase */
};
extern const struct qp__cat_database qp__cat_database __attribute__((visibility("hidden")));

/* The caller of all of these holds `lock`. */
void qp__cat_add_mark(struct qp__catalogue *cat, const struct qp_uuid *id);
/* From now on any row may be wrong. */
void qp__cat_lose_marks(struct qp__catalogue *cat);
/* Starts the thread if it is needed and not running. */
void qp__cat_start_thread(struct qp__catalogue *cat);
/* Removes the files of the catalogue, which must be closed. The caller holds no lock. */
enum qp_rc qp__cat_unlink(struct qp__catalogue *cat, struct qp_err *err);

/* ---- catalogue_behind.c ---- */

/* The caller holds `lock`: this context is about to change, or has changed; adds it to
 * catalogue.behind. */
void qp__cat_note(struct qp__catalogue *cat, const struct qp_uuid *id);
/* Parses the text of catalogue.behind, which is modified. False: invalid; *out may have some of its
 * names. */
bool qp__cat_parse_behind(char *text, size_t len, uint64_t *epoch, struct qp__idset *out);
/* The caller holds `lock`: forgets and removes the file; without it no process trusts the rows. */
void qp__cat_forget_behind(struct qp__catalogue *cat);
/* The caller holds `lock`: writes a new file that names the contexts of these sets (`b` may be
 * NULL). False: it could not be written and is removed. */
bool qp__cat_replace_behind(struct qp__catalogue *cat, uint64_t epoch, const struct qp__idset *a,
                            const struct qp__idset *b);
/* False: the file is missing or malformed. */
bool qp__cat_read_behind(struct qp__catalogue *cat, uint64_t *epoch, struct qp__idset *out);
/* The current times of the directories. */
struct qp__cat_dirs qp__cat_look_at_dirs(const struct qp__catalogue *cat);

/* ---- catalogue_trust.c ---- */

/* The caller holds db_lock and main is open: whether its rows can be trusted; takes the contexts
 * whose rows may be wrong. In a read-only store this is checked with each list. */
enum qp_rc qp__cat_trust(struct qp__catalogue *cat, struct qp_err *err);
/* The caller holds db_lock and main has everything that was taken: from now on its rows are
 * trusted, and catalogue.behind names the marked contexts. A failure here does no harm. */
void qp__cat_write_behind(struct qp__catalogue *cat);

/* ---- catalogue_update.c: with db_lock ---- */

/* Adds a context to those that are checked. */
enum qp_rc qp__cat_take(struct qp__catalogue *cat, const struct qp_uuid *id, struct qp_err *err);
/* Takes all contexts that a statement with one column returns. */
enum qp_rc qp__cat_take_found(struct qp__catalogue *cat, struct qp__cat_db *db,
                              enum qp__cat_sql sql, struct qp_err *err);
/* Whether the row of a context differs from its files. */
enum qp_rc qp__cat_differs(struct qp__catalogue *cat, const struct qp_uuid *id, bool *out,
                           struct qp_err *err);
/* Takes every context whose row is wrong. If not `at_once`, releases db_lock between the steps, and
 * stops when the store is closed or the file is replaced. */
enum qp_rc qp__cat_compare(struct qp__catalogue *cat, bool at_once, struct qp_err *err);
/* The work of one transaction: rows of contexts that were taken, and with `text` the words. *more:
 * work is left. */
enum qp_rc qp__cat_work(struct qp__catalogue *cat, bool text, bool *more, struct qp_err *err);

/* ---- catalogue_text.c ---- */

/* Appends the searchable text of a message. */
enum qp_rc qp__cat_message_text(const struct qp_message *m, struct qp__buf *out,
                                struct qp_err *err);

/* ---- catalogue_report.c ---- */

/* False: the message is no answer of a model. */
bool qp__answer_read(const struct qp_message *m, struct qp__answer_use *out);
/* Adds what a message has used to the sums of its context, the row `n`. Does nothing for messages
 * other than answers of models. */
enum qp_rc qp__cat_put_usage(struct qp__cat_db *db, int64_t n, const struct qp_message *m,
                             const struct qp__entry *e, struct qp_err *err);
/* Binds the sizes of a context to ROW_PUT. */
enum qp_rc qp__cat_bind_sizes(sqlite3_stmt *st, const struct qp_context *c,
                              const struct qp__view *v, struct qp_err *err);

/* ---- catalogue_terms.c ---- */

#define QP__CAT_TERMS_MAX 64 /* further ones are ignored */
#define QP__CAT_MATCH_MAX ((size_t)32 << 10)

/* A word or a phrase. */
struct qp__cat_term {
  struct qp_bytes text; /* in the query */
  bool unwanted, prefix;
};
struct qp__cat_terms {
  struct qp__cat_term list[QP__CAT_TERMS_MAX];
  size_t count;
  bool wanted; /* one of them is */
};
/* QP_INVALID: nothing is wanted, or it is not UTF-8; QP_TOOBIG. */
enum qp_rc qp__cat_parse_terms(const char *text, struct qp__cat_terms *out, struct qp_err *err);
/* Appends the query in the syntax of FTS5. */
enum qp_rc qp__cat_write_match(const struct qp__cat_terms *terms, struct qp__buf *out,
                               struct qp_err *err);

/* ---- catalogue_query.c ---- */

#define QP__CAT_CURSOR 96

void qp__cat_forget_pages(struct qp__catalogue *cat);
uint32_t qp__cat_limit(uint32_t limit); /* of a page, if a query has this one */
/* "{updated}.{id}" of the last row of a page. */
void qp__cat_write_list_cursor(const struct qp_catalogue_row *last, char out[QP__CAT_CURSOR]);
enum qp_rc qp__cat_parse_list_cursor(const char *cursor, int64_t *updated, struct qp_uuid *id,
                                     struct qp_err *err);
enum qp_rc qp__cat_bad_cursor(struct qp_err *err);
/* *out (out may be NULL) is a copy of the text, or NULL if there are no more pages. */
enum qp_rc qp__cat_give_cursor(const char *text, bool more, char **out, struct qp_err *err);

/* ---- catalogue_driver.c: the driver keeps the catalogue ---- */

enum qp_rc qp__cat_driver_list(struct qp_store *s, const struct qp_catalogue_query *query,
                               qp_catalogue_visit *visit, void *arg, char **next_cursor,
                               struct qp_err *err);
enum qp_rc qp__cat_driver_search(struct qp_store *s, const struct qp_search_query *query,
                                 qp_search_visit *visit, void *arg, char **next_cursor,
                                 struct qp_err *err);
enum qp_rc qp__cat_driver_sizes(struct qp_store *s, const struct qp_size_query *query,
                                qp_size_visit *visit, void *arg, char **next_cursor,
                                struct qp_err *err);

/* ---- catalogue.c ---- */

/* Brings the rows, and with `text` the words, up to date with everything committed before, and
 * returns a connection for reading: a reader, or NULL with db_lock held, then main and the overlay
 * are used. Released with qp__cat_end_reading. `again`: the page follows another page. */
enum qp_rc qp__cat_begin_reading(struct qp__catalogue *cat, bool text, bool again,
                                 struct qp__cat_reader **out, struct qp_err *err);
void qp__cat_end_reading(struct qp__catalogue *cat, struct qp__cat_reader *reader);
/* Reading has failed: whether to try again, without the file that failed. */
bool qp__cat_try_again(struct qp__catalogue *cat, enum qp_rc rc);

#endif

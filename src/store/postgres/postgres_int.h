/* postgres_int.h - what the files of the PostgreSQL driver share.
 *
 *   pg_link.c     connections, pipelines, the pool
 *   pg_value.c    parameters and columns in the binary format
 *   pg_schema.c   tables and their migrations
 *   pg_ticket.c   a staged commit: a copy of its changes, and how they become statements
 *   pg_commit.c   group commit: one thread sends what all have staged; outcomes in doubt
 *   pg_lease.c    who may write a context: the rows of quipu.leases
 *   pg_context.c  contexts: list, load, create, delete, read
 *   pg_file.c     plain files
 *   pg_shared.c   documents and keys of requests that all servers see
 *   pg_build.c    a whole context at once
 *   pg_rows.c     what a commit changes in the catalogue
 *   pg_catalogue.c  lists and search
 *   pg_index.c    words for the search, and rows of the catalogue from what is stored
 *   pg_report.c   sizes of contexts, and what answers have used
 *   postgres.c    opening, closing, the table of functions
 *
 * Locks: `lock` guards the queue of commits and the state of the handles. It is never held while
 * the database works. */
#ifndef QP_STORE_POSTGRES_POSTGRES_INT_H
#define QP_STORE_POSTGRES_POSTGRES_INT_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/mutex.h"
#include "base/uuid.h"
#include "store/catalogue/words.h"
#include "store/driver.h"
#include "store/postgres/pg_link.h"

#define QP__PG_LINKS 8          /* connections of a server, at most */
#define QP__PG_LEASE_MS 5000    /* how long a lease lasts after the last commit */
#define QP__PG_PATIENCE_MS 5000 /* how long a commit waits for a database that is away */

/* The handle of a context. Guarded by the driver's lock, except `id`. */
struct qp__pg_context {
  struct qp_uuid id;
  int64_t fence;   /* of its lease, as last seen … */
  int64_t version; /* … and how many commits it had then */
  bool held;       /* this server has the lease with this number */
  bool failed;     /* a commit of it has failed: what was staged on top of it fails too */
  int64_t number;  /* of the newest message that is staged */
};

struct qp__pg_ticket;

struct qp__pg {
  struct qp__pg_pool pool;
  const struct qp__os *os;
  struct qp__log log;
  bool readonly;
  struct qp_uuid writer;        /* this server, since it opened the store */
  int64_t lease_ms;             /* how long a lease lasts */
  struct qp__pg_member *member; /* of several servers (pg_member.c), or NULL */
  struct qp__words_pool words;
  struct qp__mutex index_lock;    /* of who makes words */
  struct qp__pg_indexer *indexer; /* the thread of pg_index.c, or NULL */

  struct qp__mutex lock;
  pthread_cond_t turn;                 /* a batch has ended */
  struct qp__pg_ticket *first, **last; /* staged, in their order */
  bool leading;                        /* a thread is sending a batch */
  bool stopped;                        /* a batch is in doubt: `why` */
  struct qp_err why;
  struct qp_uuid holder; /* the name of this server in leases: `writer`, or that of a member */
  /* The leader's, or with `stopped` those of mend(). */
  struct qp__pg_link *link; /* or NULL */
  int64_t batch;            /* the last number that was used */
  bool doubt;               /* whether that one is stored is not known */
  atomic_ullong commits, batches, retries, reconnects;
  atomic_uint keys; /* requests with keys that were asked for */
};

/* ---- pg_schema.c ---- */

/* Creates the tables, or brings them up to date. QP_INVALID: they are of a newer program.
 * QP_NOTFOUND: there are none, and `create` is not set. */
enum qp_rc qp__pg_migrate(struct qp__pg *pg, bool create, struct qp_err *err);

/* ---- pg_ticket.c ---- */

/* What a ticket does besides the kinds of struct qp__driver_change. */
enum qp__pg_op_kind {
  QP__PG_OP_CREATE = 100, /* a context with metadata `bytes` */
  QP__PG_OP_DELETE,       /* a context with everything in it */
  QP__PG_OP_PURGE,        /* the messages whose ids are `bytes`, 16 bytes each */
  QP__PG_OP_ADOPT,        /* a context whose messages are stored already (pg_build.c) */
};

/* One change, copied. */
struct qp__pg_op {
  int kind; /* enum qp__driver_change_kind or enum qp__pg_op_kind */
  struct qp__pg_context *context;
  struct qp_uuid scope, to_scope; /* of a plain file; of a context without a handle: its id and the
                                     name of this server when it was asked to create or delete it */
  const char *name, *to;          /* branch or file */
  struct qp_uuid id, parent;
  struct qp__entry entry;
  const char *dir;
  int64_t at;                         /* time, status, number of a message, offset in a file */
  uint64_t path_messages, path_bytes; /* of HEAD and MESSAGE, as in struct qp__driver_change */
  bool cut;
  bool joined; /* of CREATE, ADOPT, DELETE: the name is that of a server among others */
  struct qp_bytes bytes;
  /* for the catalogue (pg_rows.c) */
  const struct qp__driver_row *row; /* or NULL */
  int64_t last;                     /* number of the newest message then */
};

struct qp__pg_ticket {
  struct qp__pg_ticket *next;
  struct qp__arena arena;
  struct qp__pg_op *ops;
  size_t count;
  size_t bytes; /* about what it sends */
  qp__store_publish *publish;
  void *arg;
  struct qp_uuid holder; /* the name of this server when it was staged … */
  bool joined;           /* … and whether it shares the store with others */
  bool done;
  enum qp_rc rc;
  struct qp_err err;
};

/* Copies the changes; numbers are given to new messages. With the lock. NULL: no memory. */
struct qp__pg_ticket *qp__pg_ticket_new(const struct qp__driver_change *changes, size_t n);
/* CREATE, ADOPT or DELETE, in the name that this server has now. */
struct qp__pg_op qp__pg_op_of(struct qp__pg *pg, enum qp__pg_op_kind kind, const struct qp_uuid *id,
                              struct qp_bytes bytes);
/* A ticket of one operation, which is copied without what it points to. */
struct qp__pg_ticket *qp__pg_ticket_of(const struct qp__pg_op *op);
void qp__pg_ticket_free(struct qp__pg_ticket *t);
/* The contexts that a ticket writes, each once: calls fn for each. */
typedef void qp__pg_context_fn(void *arg, struct qp__pg_context *context);
void qp__pg_ticket_contexts(const struct qp__pg_ticket *t, qp__pg_context_fn *fn, void *arg);

/* Sends the statements of tickets, in their order; what can be is merged. Without BEGIN, guards and
 * COMMIT. */
enum qp_rc qp__pg_send_tickets(struct qp__pg *pg, struct qp__pg_link *link,
                               struct qp__pg_ticket *const *tickets, size_t n, struct qp_err *err);

/* ---- pg_commit.c ---- */

enum qp_rc qp__pg_stage(void *self, struct qp__driver_change *changes, size_t n,
                        qp__store_publish *publish, void *arg, void **ticket, struct qp_err *err);
enum qp_rc qp__pg_finish(void *self, void *ticket, struct qp_err *err);
/* Stages and finishes a ticket, which it frees; NULL: QP_NOMEM. */
enum qp_rc qp__pg_commit(struct qp__pg *pg, struct qp__pg_ticket *ticket, struct qp_err *err);
extern const struct qp__driver_recovery qp__pg_recovery;

/* Calls `run` with a link until it is not lost, for as long as a database may be away. For reading:
 * what it does must be repeatable. It returns what qp__pg_sync() returned, and reads the results in
 * link->results. */
typedef enum qp__pg_outcome qp__pg_run_fn(struct qp__pg_link *link, void *arg);
enum qp_rc qp__pg_query(struct qp__pg *pg, const char *what, qp__pg_run_fn *run, void *arg,
                        struct qp__pg_link **out, struct qp_err *err);
/* The same for one statement; the results are in (*out)->results[0] until qp__pg_give(). */
enum qp_rc qp__pg_ask(struct qp__pg *pg, const char *what, const struct qp__pg_call *call,
                      struct qp__pg_link **out, struct qp_err *err);

/* ---- pg_lease.c ---- */

/* The contexts of a batch, for the guard of their leases. */
struct qp__pg_leases {
  struct qp__pg_context **list;
  int64_t *steps; /* commits of each in this batch */
  int64_t *runs;  /* whether a turn runs: 0 as before, 1 no, 2 yes */
  size_t count, cap, step_cap, run_cap;
};
bool qp__pg_leases_add(struct qp__pg_leases *leases, const struct qp__pg_ticket *t);
void qp__pg_leases_release(struct qp__pg_leases *leases);
/* Sends the guard. */
enum qp_rc qp__pg_leases_send(struct qp__pg *pg, struct qp__pg_link *link,
                              const struct qp__pg_leases *leases, struct qp_err *err);
/* After the commit, with the lock: the handles know what is stored. */
void qp__pg_leases_advance(const struct qp__pg_leases *leases);
/* After the guard has failed for one ticket. QP_OK: the lease is free, and the ticket may be tried
 * again. Otherwise why this server may not write: QP_BUSY, QP_CONFLICT, QP_NOTFOUND. */
enum qp_rc qp__pg_lease_examine(struct qp__pg *pg, struct qp__pg_link *link,
                                const struct qp__pg_leases *leases, struct qp_err *err);

/* The name of this server in leases. */
struct qp_uuid qp__pg_holder(struct qp__pg *pg);

/* ---- pg_member.c ---- */

extern const struct qp__driver_lease qp__pg_shared;
/* Of a server that has joined others: takes the lease of a context before it is loaded, in the name
 * of `holder`. QP_BUSY: another server has it. */
enum qp_rc qp__pg_lease_acquire(struct qp__pg *pg, const struct qp_uuid *id,
                                const struct qp_uuid *holder, struct qp_err *err);

/* ---- pg_context.c ---- */

enum qp_rc qp__pg_context_list(void *self, qp_context_visit *visit, void *arg, struct qp_err *err);
enum qp_rc qp__pg_context_load(void *self, const struct qp_uuid *id, struct qp__image *image,
                               struct qp__problems *problems, void **out, struct qp_err *err);
void qp__pg_context_free(void *self, void *context);
/* Loads the tree and the heads of a context without its lease. The image is initialised. */
enum qp_rc qp__pg_context_look(struct qp__pg *pg, const struct qp_uuid *id, struct qp__image *image,
                               struct qp_err *err);
enum qp_rc qp__pg_context_peek(void *self, const struct qp_uuid *id, struct qp__buf *meta,
                               uint8_t stamp[16], struct qp_err *err);
enum qp_rc qp__pg_context_create(void *self, const struct qp_uuid *id, struct qp_bytes meta,
                                 struct qp_err *err);
enum qp_rc qp__pg_context_delete(void *self, const struct qp_uuid *id, struct qp_err *err);
enum qp_rc qp__pg_read(void *self, void *context, const struct qp__tree *tree,
                       const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err);
extern const struct qp__driver_many qp__pg_many;
enum qp_rc qp__pg_purge(void *self, void *context, struct qp__image *image, const bool *gone,
                        bool dry_run, struct qp_gc_report *out, struct qp_err *err);
enum qp_rc qp__pg_no_context(const struct qp_uuid *id, struct qp_err *err);

/* ---- pg_file.c ---- */

/* The scope of a path: the context in "contexts/{id}/…", otherwise a hash of its directory. */
void qp__pg_scope(const char *path, struct qp_uuid *out);
enum qp_rc qp__pg_file_read(void *self, const char *path, uint64_t offset, size_t n,
                            struct qp__buf *out, struct qp_err *err);
enum qp_rc qp__pg_file_size(void *self, const char *path, uint64_t *size, struct qp_err *err);
enum qp_rc qp__pg_file_list(void *self, const char *dir, qp__file_visit *visit, void *arg,
                            struct qp_err *err);

/* ---- pg_catalogue.c ---- */

extern const struct qp__driver_catalogue qp__pg_catalogue;
/* Asks, and gives the link back before anyone looks at the answer: visitors may call the store. The
 * caller clears *out, also after a failure. */
enum qp_rc qp__pg_answer(struct qp__pg *pg, const char *what, const struct qp__pg_call *call,
                         PGresult **out, struct qp_err *err);

/* ---- pg_report.c ---- */

enum qp_rc qp__pg_sizes(void *self, const struct qp__size_page *query, qp_size_visit *visit,
                        void *arg, struct qp_err *err);
enum qp_rc qp__pg_size_sum(void *self, const char *owner, struct qp_size_total *out,
                           struct qp_err *err);
enum qp_rc qp__pg_usage(void *self, const struct qp__usage_range *query, qp_usage_visit *visit,
                        void *arg, struct qp_err *err);

/* ---- pg_index.c ---- */

/* Makes the words of all messages that were committed before the call, and counts what the answers
 * among them have used. */
enum qp_rc qp__pg_index_due(struct qp__pg *pg, struct qp_err *err);
/* Makes the row of a context from what is stored; its words are due. A context that is gone is no
 * failure. */
enum qp_rc qp__pg_index_row(struct qp__pg *pg, const struct qp_uuid *id, struct qp_err *err);
/* The same for all contexts that quipu.unlisted names. */
enum qp_rc qp__pg_index_rest(struct qp__pg *pg, qp_reindex_visit *visit, void *arg,
                             struct qp_err *err);
/* … for all contexts, and all words. */
enum qp_rc qp__pg_reindex(void *self, qp_reindex_visit *visit, void *arg, struct qp_err *err);
/* The thread that makes words soon after commits. */
enum qp_rc qp__pg_index_start(struct qp__pg *pg, struct qp_err *err);
void qp__pg_index_stop(struct qp__pg *pg);
void qp__pg_index_wake(struct qp__pg *pg); /* something was committed */

/* ---- pg_shared.c ---- */

extern const struct qp__driver_shared qp__pg_documents;

/* ---- pg_build.c ---- */

extern const struct qp__driver_build qp__pg_build;

#endif

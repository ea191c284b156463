/* context_int.h - a store and its contexts in memory; shared by the files of the front.
 *
 * A context is shared by all its users and counts them. Readers see what is published:
 *   view     the metadata and the branches, immutable; replaced as a whole when metadata changes
 *   heads    of each branch, an atomic slot
 *   tree     the entries below tree.visible
 * A reader takes a reference to the view (view_lock, held for a few instructions and never during
 * input or output) and loads a head once. Everything that it follows from there never changes.
 *
 * A writer holds write_lock from reading the state until its commit is staged. The state for the
 * next writer is in staged_view, staged heads and the tree's unpublished entries. Publication
 * happens in the order of commits, so readers see each of these states in turn. After a failed
 * commit the store is stopped (journal.h), so that states that were staged on top of it are never
 * used; store_recover.c sets the contexts back to the stored state. */
#ifndef QP_STORE_CONTEXT_CONTEXT_INT_H
#define QP_STORE_CONTEXT_CONTEXT_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mutex.h"
#include "base/uuid.h"
#include "os/os_count.h"
#include "store/catalogue/catalogue.h"
#include "store/context/committer.h"
#include "store/context/message_pool.h"
#include "store/store_int.h"
#include "store/usage.h"
#include "store/workers.h"

struct qp__branch {
  atomic_uint refs;
  _Atomic uint32_t head; /* published; QP__NO_SLOT: empty */
  uint32_t staged_head;  /* the writer's */
  char *dir;             /* "branch-" and the encoded name */
  char name[];
};

struct qp__view {
  atomic_uint refs;
  struct qp__meta *meta;
  size_t meta_bytes;            /* of its encoded form */
  struct qp__branch **branches; /* one for each of meta->branches, in that order */
};

enum qp__context_stage {
  QP__CONTEXT_BUSY,
  QP__CONTEXT_READY
}; /* BUSY: it is being loaded, created or deleted */

struct qp_context {
  struct qp_store *store;
  struct qp_uuid id;
  uint64_t number;           /* unique in the store: the pool's key */
  void *driver;              /* the driver's handle */
  bool old;                  /* in an old format: read, never written */
  unsigned long long losses; /* of the store when it was added to the table */
  atomic_bool stale; /* differs from the stored state: read, never written (store_recover.c) */
  uint8_t stamp[16]; /* of the driver, from before it was loaded; only in a read-only store */
  bool newborn;      /* created since the store was opened, and in memory since then */
  struct qp__tree tree;
  _Atomic uint64_t version;
  struct qp__events *_Atomic events; /* events.h; NULL: not loaded yet */

  struct qp__mutex view_lock;
  struct qp__view *view;

  struct qp__mutex write_lock;
  struct qp__view *staged_view;
  uint32_t unchecked; /* for qp__check_due */

  /* guarded by the store's lock */
  enum qp__context_stage stage;
  unsigned refs;            /* users, running folds and saves, the catalogue while it reads */
  unsigned folds;           /* references that are not users */
  struct qp_context *chain; /* in the store's table */
  struct qp_context *idle_newer, *idle_older;
  bool idle;
};

#define QP__CONTEXT_BUCKETS 1024

struct qp__sessions;
struct qp__events;
struct qp__events_plan;
struct qp__fold; /* context_commit.c */

struct qp_store {
  const struct qp__driver *driver;
  void *self;              /* the driver's */
  int root;                /* the data directory; -1: the store has no directory */
  const struct qp__os *os; /* io's */
  struct qp__os_count io;
  struct qp__log log;
  char *where; /* its directory; NULL: it is not in the file system */
  bool readonly;
  bool background;
  size_t max_message;
  size_t event_bytes;
  struct qp__uuid_gen ids;
  struct qp__pool pool;
  struct qp__workers folders; /* fold in the background */
  struct qp__committer committer;
  atomic_ullong message_reads;
  atomic_ullong pool_hits;
  atomic_uint warned[32]; /* bits by the path of a file with a wrong checksum that was logged */
  struct qp__mutex prompt_lock;  /* one change of prompts at a time */
  struct qp__mutex blob_lock;    /* guards `doomed`; for a few instructions */
  struct qp__doomed *doomed;     /* blobs that are being erased (blob_erase.c) */
  pthread_rwlock_t import_lock;  /* shared from storing blobs until messages refer to them */
  struct qp__sessions *sessions; /* session_int.h */
  struct qp__catalogue *catalogue;
  struct qp__usage usage;

  struct qp__mutex lock;
  pthread_cond_t ready; /* a context is no longer BUSY */
  struct qp_context *table[QP__CONTEXT_BUCKETS];
  struct qp_context *idle_newest, *idle_oldest;
  size_t idle_bytes;
  uint64_t next_number;
  uint64_t open_count;
  unsigned busy_count;             /* contexts that are BUSY */
  bool recovering;                 /* nothing becomes BUSY */
  atomic_ullong recoveries;        /* completed recoveries; increases with all write locks held */
  struct qp__migrating *migrating; /* contexts that are being migrated now */

  /* lease.h */
  atomic_ullong losses;         /* how often this process lost its leases */
  atomic_ullong common;         /* `losses` + 1 when it took qp__lease_common; 0: never */
  struct qp__mutex common_lock; /* one thread takes qp__lease_common */
  struct qp__mutex watch_lock;
  struct qp__lease_watch watches[QP__LEASE_ROLES];
};

/* A context that is being migrated; on the stack of the thread that does it. */
struct qp__migrating {
  struct qp_uuid id;
  struct qp__migrating *next;
};

/* ---- driver.c: how the front uses its driver ---- */

/* The stored bytes of a message in *text. If they are damaged or missing, *why says how, and the
 * bytes are those of another copy (*copy is set); QP_UNAVAILABLE: there is no other copy. */
enum qp_rc qp__stored_read(struct qp_store *s, void *context, const struct qp__tree *tree,
                           const struct qp__entry *entry, struct qp__buf *text, bool *copy,
                           struct qp_err *why);
/* The stored bytes of many messages: calls `visit` for those that are there and match their hash,
 * in any order, with as few round trips as their size allows. For the others qp__stored_read() says
 * what is wrong. A driver that cannot read many at once: nothing is visited. */
enum qp_rc qp__stored_read_many(struct qp_store *s, void *context,
                                const struct qp__entry *const *entries, size_t n,
                                qp__content_visit *visit, void *arg, struct qp_err *err);
/* See struct qp__driver_ahead; for a driver without it prepare only calls `make`. */
void qp__changes_prepare(struct qp_store *s, struct qp__driver_change *changes, size_t n);
void qp__changes_discard(struct qp_store *s, struct qp__driver_change *changes, size_t n);
/* See struct qp__driver_held; a driver without it holds nothing. release: the context is claimed,
 * or not in memory. */
bool qp__is_held(const struct qp_store *s, const struct qp_uuid *id);
bool qp__is_file_held(const struct qp_store *s, const char *path);
enum qp_rc qp__release_held(struct qp_store *s, const struct qp_uuid *id, struct qp_err *err);
/* For the engine: whether the store remembers that turns were interrupted; see mark_turns(). */
bool qp__store_knows_turns(const struct qp_store *s);
enum qp_rc qp__store_mark_turns(struct qp_store *s, bool open, bool *left, struct qp_err *err);

/* ---- context.c ---- */

enum qp_rc qp__store_new_id(struct qp_store *s, struct qp_uuid *out, struct qp_err *err);
/* QP_NOTFOUND if the prompt does not exist; NULL is allowed. With prompt_lock held the result stays
 * true. */
enum qp_rc qp__check_prompt(struct qp_store *s, const char *id, struct qp_err *err);
/* Drops all idle contexts, or the oldest until their memory is within its limit. With the lock
 * held. */
void qp__contexts_evict(struct qp_store *s, bool all);
/* A context that can be opened without waiting and without touching a file, its events included, as
 * qp_context_open() gives it; else NULL. */
struct qp_context *qp__context_in_memory(struct qp_store *s, const struct qp_uuid *id);

/* Visits the contexts that are in memory and usable; with the lock held, so it must be quick. */
enum qp_rc qp__contexts_in_memory(struct qp_store *s, qp_context_visit *visit, void *arg);

/* Makes a context inaccessible for other threads until unclaim, which accepts NULL. QP_BUSY: it is
 * open. */
enum qp_rc qp__context_claim(struct qp_store *s, const struct qp_uuid *id, struct qp_context **out,
                             struct qp_err *err);
void qp__context_unclaim(struct qp_context *claim);
/* A reference for work that continues without a user, and its end: claiming the context waits for
 * it. */
void qp__context_pin(struct qp_context *c);
void qp__context_unpin(struct qp_context *c);
/* Opens a context for a short read: it does not count as open for others, but claiming it waits.
 * *fresh (for end_look): it was not in memory before. */
enum qp_rc qp__context_look(struct qp_store *s, const struct qp_uuid *id, struct qp_context **out,
                            bool *fresh, struct qp_err *err);
void qp__context_end_look(struct qp_context *c, bool fresh);

struct qp__view *qp__view_get(struct qp_context *c); /* a new reference */
/* Asserts the invariants of its tree, branches and heads. With the write lock, or `alone`: no other
 * thread uses it. */
void qp__context_invariants(struct qp_context *c, bool alone);
void qp__view_unref(struct qp__view *v);
/* The branch by name (NULL: the active one); borrowed from the view. QP_NOTFOUND. */
enum qp_rc qp__view_branch(const struct qp__view *v, const char *name, struct qp__branch **out,
                           struct qp_err *err);
/* The latest of the metadata's time and those of the heads. */
int64_t qp__view_time(const struct qp__view *v, const struct qp__tree *tree);
/* A view of `meta`, which it owns from now on, also on failure; branches known to `old` are shared
 * with it. */
enum qp_rc qp__view_new(struct qp__meta *meta, const struct qp__view *old, struct qp__view **out,
                        struct qp_err *err);

/* ---- commits ---- */

/* A branch whose head moves. */
struct qp__move {
  struct qp__branch *branch;
  uint32_t head;
};

/* What a commit makes visible in one context. A commit of several contexts has a list; each context
 * is in it once. */
struct qp__effect {
  struct qp_context *context;
  struct qp__view *view; /* new metadata, or NULL; owned by the commit once it is staged */
  const struct qp__move *moves;
  size_t move_count;
  struct qp__events_plan *events; /* or NULL */
  struct qp__effect *next;
  struct qp__driver_row row; /* used inside */
};

/* A commit. The caller holds the write locks of all contexts in `effects`; they are released in any
 * case, and on failure also the views. On success the writer's state has advanced by the effects:
 * staged views and heads. `added` entries (of the first context in `effects`) are put in its tree,
 * which must have room reserved; `slot` receives the first. */
struct qp__commit {
  struct qp__driver_change *changes;
  size_t count;
  struct qp__effect *effects;
  struct qp__entry *added;
  size_t added_count;
  uint32_t slot; /* out */
  /* Messages of the first context's tree that are in their files again. */
  const uint32_t *returned;
  size_t returned_count;
  /* used inside */
  atomic_bool advanced; /* the writer's state is ahead; only then may it be published */
  uint32_t visible;
  uint64_t bytes;
  void *ticket;          /* the driver's */
  struct qp__fold *fold; /* a fold that became necessary, or NULL */
  bool queued;
  unsigned long long recoveries; /* of the store when it was staged */
  /* Finishes it later, in the order of the commits of the context; or NULL. */
  struct qp__pending *pending;
};
/* Prepares, stages and finishes the changes. */
enum qp_rc qp__commit(struct qp_store *s, struct qp__commit *commit, struct qp_err *err);
/* The same for one change of a plain file or of a context that the caller has claimed. */
enum qp_rc qp__commit_one(struct qp_store *s, struct qp__driver_change *change, struct qp_err *err);
/* For changes that are prepared: the first function releases the locks, and discards the changes
 * if it fails. After its success the second must follow, in any thread; everything that *commit
 * points to must still exist then, except the changes. */
enum qp_rc qp__commit_stage(struct qp_store *s, struct qp__commit *commit, struct qp_err *err);
enum qp_rc qp__commit_finish(struct qp_store *s, struct qp__commit *commit, struct qp_err *err);
/* Lets `pending` finish a staged commit: in the thread of the committer, or at once if there is
 * none. The commit may be freed already when this returns. */
void qp__commit_later(struct qp_store *s, struct qp__commit *commit);

/* Prepares changes. If one of them fails, all are discarded and its error is returned. */
enum qp_rc qp__commit_prepare(struct qp_store *s, struct qp__driver_change *changes, size_t n,
                              struct qp_err *err);
/* A clone of the latest metadata with a new updated_at. With the write lock. */
enum qp_rc qp__clone_meta(struct qp_context *c, struct qp__meta **out, struct qp_err *err);

/* ---- change.c ---- */

/* JSON of the library itself, which is not parsed again: the data of the events and the result of
 * the key are what qp__json_write() wrote. */
struct qp__own_json {
  const json_t *metadata; /* used in the place of the change's patch, or NULL */
  /* A compaction record (record_file.h) that the commit adds, with its checksum; or empty. */
  struct qp_uuid record_id;
  struct qp_bytes record;
};

/* qp_context_commit with JSON of the library itself. */
enum qp_rc qp__change_commit(struct qp_context *context, const struct qp_change *change,
                             const struct qp__own_json *own, qp_done_fn *done, void *arg,
                             struct qp_err *err);

/* ---- context.c, for store_recover.c ---- */

/* Until release no context is loaded, claimed, created or deleted. Gathers the contexts that are in
 * use, each with a reference. QP_BUSY: such an operation is running. */
struct qp__gathered {
  struct qp_context **list; /* by id */
  size_t count;
};
enum qp_rc qp__contexts_gather(struct qp_store *s, struct qp__gathered *out, struct qp_err *err);
void qp__contexts_release(struct qp_store *s, struct qp__gathered *g);
/* New users do not find it any more; its present users keep it. The caller does not hold the
 * store's lock. */
void qp__context_retire(struct qp_context *c);
/* The same for all that are in memory. */
void qp__contexts_retire_all(struct qp_store *s);

/* ---- packing.c ---- */

/* A claimed context, as it is stored. */
struct qp__claimed {
  struct qp_store *store;
  struct qp_context *claim;
  struct qp__image image;
  void *driver;
};
/* `dry_run`: nothing will be written, so the store may be read-only. On failure there is nothing to
 * release. */
enum qp_rc qp__claimed_load(struct qp_store *s, const struct qp_uuid *id, bool dry_run,
                            struct qp__claimed *out, struct qp_err *err);
void qp__claimed_release(struct qp__claimed *c);

/* ---- gc.c ---- */

/* A branch will point to this message: restores it and its ancestors from the trash. Without the
 * write lock. */
enum qp_rc qp__context_untrash(struct qp_context *c, uint32_t slot, struct qp_err *err);

/* QP_READONLY: the store is read-only, or the context is in an old format. */
enum qp_rc qp__check_writable(const struct qp_store *s, struct qp_err *err);
enum qp_rc qp__check_changeable(const struct qp_context *c, struct qp_err *err);

/* ---- prompts.c ---- */

/* The stored bytes of a system prompt. QP_NOTFOUND, QP_CORRUPT. */
enum qp_rc qp__prompt_read(struct qp_store *s, const char *id, struct qp__buf *out,
                           struct qp_err *err);
/* The ids of all system prompts, in any order. */
typedef enum qp_rc qp__prompt_id_visit(void *arg, const char *id);
enum qp_rc qp__prompt_ids(struct qp_store *s, qp__prompt_id_visit *visit, void *arg,
                          struct qp_err *err);
/* A system prompt; released with qp__prompt_free(). QP_NOTFOUND, QP_CORRUPT. */
struct qp__stored_prompt;
enum qp_rc qp__prompt_load(struct qp_store *s, const char *id, struct qp__stored_prompt **out,
                           struct qp_err *err);
/* Writes its file again with a valid checksum. *mended: its content was invalid because of one
 * changed byte, which the checksum identified. QP_NOTFOUND: it cannot be repaired. */
enum qp_rc qp__prompt_repair(struct qp_store *s, const char *id, bool *mended, struct qp_err *err);

/* ---- store.c ---- */

/* Logs that a file below the data directory has a wrong checksum, once for each file. */
void qp__warn_checksum(struct qp_store *s, const char *feature, const char *path);

/* ---- prompts.c ---- */

struct qp__stored_prompt;

/* Stores a prompt as it is, with its unknown fields; its times are now. QP_EXISTS. */
enum qp_rc qp__prompt_add(struct qp_store *s, struct qp__stored_prompt *p, struct qp_err *err);

/* ---- message_read.c ---- */

/* The slot of a message of this context. `all` as for qp__tree_find. QP_NOTFOUND. */
enum qp_rc qp__context_find(struct qp_context *c, const struct qp_uuid *id, bool all, uint32_t *out,
                            struct qp_err *err);

/* The stored bytes of a message without the newline, from the pool or the driver, checked against
 * the index. QP_UNAVAILABLE: no copy is left; its status is then QP_STATUS_UNAVAILABLE. The caller
 * owns *out. */
enum qp_rc qp__message_blob(struct qp_context *c, uint32_t slot, struct qp__blob **out,
                            struct qp_err *err);

#endif

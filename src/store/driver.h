/* driver.h - the contract between the front of the store and a driver.
 *
 * The front (store/context/, store/session/, store/catalogue/, …) keeps contexts in memory, checks
 * input, orders writers and answers readers. A driver stores bytes: it makes lists of changes
 * durable and returns the stored bytes. It does not know the callers. docs/writing-a-driver.md
 * explains the contract to a newcomer; the tests in tests/conformance check it on every driver.
 *
 * struct qp__driver is the core: every driver implements all of it. Functions that only some
 * drivers have are a capability: a separate struct of functions, or NULL. The comment of each
 * capability says what the front does without it. If a user asks for something that the driver
 * cannot do, the call fails with qp__store_lacks().
 *
 * Rules for all functions:
 * - `self` is the result of open(), `context` a handle from context_load().
 * - Any thread may call any function at any time between open() and close(), also the same function
 *   several times at once. Exceptions are stated at the function.
 * - On failure outputs are unchanged, nothing is stored, and *err has the message. Any function may
 *   fail with QP_NOMEM and QP_IO. The other codes of a function are listed in its comment.
 * - A visitor may call the driver. When it returns an error, the listing ends with that code. */
#ifndef QP_STORE_DRIVER_H
#define QP_STORE_DRIVER_H

#include "base/buf.h"
#include "base/log.h"
#include "os/os.h"
#include "store/context/loaded_context.h"
#include "store/lease.h"
#include "store/shared.h"
#include "store/workers.h"

/* ---- changes ---- */

enum qp__driver_change_kind {
  QP__CHANGE_MESSAGE, /* a new message; the head of `branch` moves to it */
  QP__CHANGE_META,    /* the metadata of the context is `bytes` */
  QP__CHANGE_HEAD,    /* the head of `branch` is `id` (no id: the branch is empty) */
  QP__CHANGE_RENAME,  /* `branch` is renamed to `to` */
  QP__CHANGE_DROP,    /* `branch` is deleted; its messages stay */
  QP__CHANGE_STATUS,  /* message `id` has `status`; LIVE: its content is in its usual place */
  QP__CHANGE_TRASH,   /* message `id` moves to the trash, time `at`; `bytes` is its content if it
                         is packed, otherwise empty */
  QP__CHANGE_UNTRASH, /* message `id` moves from the trash to its usual place */
  QP__CHANGE_CONTENT, /* the stored bytes of message `id`, whose entry is known, are restored */

  /* Plain files: named sequences of bytes, for prompts, sessions, events, keys and blobs. A name
   * looks like "sessions/index.jsonl"; a driver may store it as rows of a table. With a context the
   * name is "contexts/{id}/events/…" or "contexts/{id}/compactions/…", and deleting the context
   * deletes the file. The changes of one commit are applied in their order. */
  QP__CHANGE_FILE_PUT,    /* the file `path` holds exactly `bytes` */
  QP__CHANGE_FILE_APPEND, /* `bytes` are written at `offset` of `path`, which is its end; with `cut`
                           * everything after `offset` is removed first. Creates the file. */
  QP__CHANGE_FILE_RENAME, /* the file `path` is renamed to `to`. The front promises that since the
                           * store was opened it has not written `to`, and that it will not write
                           * `path` again: so a journal may repeat the rename. */
  QP__CHANGE_FILE_DROP,   /* the file `path` is deleted, if it exists */
};

/* The row of a context in the catalogue after a commit. Strings are borrowed. */
struct qp__driver_row {
  struct qp_catalogue_row row;
  uint64_t meta_bytes; /* size of the metadata */
  bool whole;          /* false: all but updated_at, messages and bytes is as before */
};
/* Sets everything that the metadata says; with messages and bytes 0. */
void qp__driver_row_init(struct qp__driver_row *row, const struct qp__meta *meta,
                         size_t meta_bytes);

struct qp__driver_change {
  enum qp__driver_change_kind kind;
  void *context; /* the driver's handle of the context */
  const char *branch;
  const char *to;
  struct qp_uuid id;
  struct qp_uuid parent; /* of a message */
  enum qp_message_status status;
  int64_t at;
  const struct qp__entry *entry; /* of a message: everything except its place in the tree */
  const char *dir;               /* of a message: the name of the directory entry->dir */
  struct qp_bytes bytes;         /* stored form of a message or metadata; of a file */
  const char *path;              /* of a plain file */
  uint64_t offset;               /* in it */
  bool cut;
  bool running; /* of metadata: a turn is running */
  /* Of MESSAGE and HEAD, for struct qp__driver_catalogue: the messages of the branch up to its new
   * head, and their bytes. */
  uint64_t path_messages, path_bytes;
  /* For the same, in one change of each context whose row the commit changes. */
  const struct qp__driver_row *row; /* or NULL */
  /* Or NULL. prepare() calls it first, possibly in another thread: it sets `bytes` and the entry,
   * or rc. So a batch is encoded while its files are being written. */
  void (*make)(struct qp__driver_change *change);
  void *make_arg;
  /* set by prepare() */
  void *prepared; /* the driver's */
  enum qp_rc rc;  /* the reason if it could not be prepared */
  struct qp_err err;
};

/* Whether a change is one of the FILE kinds. */
bool qp__is_file_change(const struct qp__driver_change *change);

/* Shows a commit to readers. See stage(). */
typedef void qp__store_publish(void *arg);

/* ---- problems ---- */

/* The problems that loading or checking a context found; `harmless` and `repaired` as in struct
 * qp_problem. */
struct qp__problems {
  qp_problem_visit *visit; /* or NULL */
  void *arg;
  uint64_t count; /* without harmless ones */
  uint64_t repaired;
  bool repair;   /* repair what can be repaired */
  bool told;     /* a load that failed has reported why */
  bool scan;     /* when loading: search for messages that the index does not list … */
  bool distrust; /* … and trust messages rather than their lines in the index */
  bool thorough; /* a check: search every file for lost messages */
  const struct qp__log *log; /* also gets each problem, as a warning; or NULL */
  struct qp_err disk;        /* the first input or output error; rc QP_OK: no error */
};
/* Remembers an input or output error: data that cannot be read may still be intact. False: the
 * check must end, because a repair would overwrite it. */
bool qp__problem_io(struct qp__problems *p, enum qp_rc rc, const struct qp_err *cause);
/* `path` is relative to the context's directory, or begins with "contexts/" or "conversations/";
 * without a context it is relative to the data directory. */
void qp__report_problem(struct qp__problems *p, enum qp_problem_kind kind,
                        const struct qp_uuid *context, const char *path, bool repaired,
                        bool harmless, const char *fmt, ...) QP_PRINTF(7, 8);

/* ---- capabilities ---- */

/* Preparing: the part of a commit that does not depend on the order of commits. Without it: the
 * front calls `make` of each change itself, and stage() does the rest. */
struct qp__driver_ahead {
  /* For many changes at once. A change that fails has its rc and err set and must not be staged.
   * Every prepared change is staged or discarded. */
  void (*prepare)(void *self, struct qp__driver_change *changes, size_t n);
  void (*discard)(void *self, struct qp__driver_change *changes, size_t n);
};

/* Folding: rewriting the index of a context compactly. Without it: the front never folds. start,
 * finish and abort are called with the write lock of the context, write without it. */
struct qp__driver_fold {
  bool (*wanted)(void *self, void *context); /* called after each commit: must be cheap */
  void (*start)(void *self, void *context);
  /* Writes `count` entries and the heads as they were at start(). */
  enum qp_rc (*write)(void *self, void *context, const struct qp__tree *tree, uint32_t count,
                      const struct qp__head *heads, size_t n, struct qp_err *err);
  /* Stages the new index as a commit, as stage() does; core finish() ends it. */
  enum qp_rc (*finish)(void *self, void *context, void **ticket, struct qp_err *err);
  void (*abort)(void *self, void *context); /* undoes start */
};

/* How the messages of a context shall be stored. */
enum qp__packing {
  QP__PACKING_OLD,  /* messages with their own file older than `before`: a pack per month */
  QP__PACKING_ALL,  /* all of them in one pack */
  QP__PACKING_NONE, /* each in its own file */
};

/* Packing: many messages in one compressed file. Without it: archive, compress and decompress fail
 * with qp__store_lacks(), and no message is ever packed. */
struct qp__driver_pack {
  /* The caller has claimed the context. `image` was just loaded; except after a dry run it is
   * invalid afterwards. Messages in the trash stay there. Atomic. QP_CORRUPT: a pack that would
   * have to be removed holds a message that cannot be read. */
  enum qp_rc (*repack)(void *self, void *context, struct qp__image *image, enum qp__packing packing,
                       int64_t before, bool dry_run, struct qp_space_report *out,
                       struct qp_err *err);
  /* The size of the packs on the disk. */
  uint64_t (*bytes)(void *self, void *context, const struct qp__tree *tree);
};

/* Purging: deleting messages for good. Without it: gc fails with qp__store_lacks(). */
struct qp__driver_gc {
  /* Deletes the messages whose slots are set in `gone`; none of them is the parent of a message
   * that stays. Also deletes leftovers of earlier operations, and counts only these in *out. The
   * caller has claimed the context; `image` as for repack. Atomic. */
  enum qp_rc (*purge)(void *self, void *context, struct qp__image *image, const bool *gone,
                      bool dry_run, struct qp_gc_report *out, struct qp_err *err);
};

/* A rename that is part of the commit of a build; names below the data directory. */
struct qp__build_move {
  const char *from;
  const char *to;
};

/* Building: a whole context at once (context_build.h), for imports and migrations. It is invisible
 * before commit(). Without it: an import or migration fails with qp__store_lacks(). */
struct qp__driver_build {
  enum qp_rc (*begin)(void *self, const struct qp_uuid *id, void **out,
                      struct qp_err *err); /* QP_EXISTS */
  /* Called before the puts of the next n messages, all of directory `dir`; NULL: all of them are in
   * the trash. */
  enum qp_rc (*reserve)(void *self, void *build, const char *dir, size_t n, struct qp_err *err);
  /* Called by several threads, at most once per `number`: not for a message whose content is lost.
   * Numbers are the slots of the tree. Appends the bytes of the message, read back, to `back` (may
   * be NULL). */
  enum qp_rc (*put)(void *self, void *build, size_t number, const struct qp_uuid *id,
                    struct qp_bytes bytes, struct qp__buf *back, struct qp_err *err);
  /* A name below tmp/ for a file that the caller writes and commit() moves; finish() makes the file
   * durable. NULL in a driver without struct qp__driver_directory. */
  enum qp_rc (*temp)(void *self, void *build, char out[64], struct qp_err *err);
  /* A plain file of the context. NULL: the caller gives it to commit() among the puts. */
  enum qp_rc (*file)(void *self, void *build, const char *path, struct qp_bytes bytes,
                     struct qp_err *err);
  /* Adds metadata, index and heads, and makes everything durable. Entries of the tree may be in the
   * trash or unavailable. May move the tree out of `image`. */
  enum qp_rc (*finish)(void *self, void *build, struct qp_bytes meta, struct qp__image *image,
                       struct qp_err *err);
  /* With the context claimed: the context, the plain files that `puts` (FILE_PUT) name and the
   * moves become visible together. After QP_IO the commit may be visible when the store is opened
   * again. QP_EXISTS. */
  enum qp_rc (*commit)(void *self, void *build, struct qp__driver_change *puts, size_t put_count,
                       const struct qp__build_move *moves, size_t n, struct qp_err *err);
  void (*free)(void *self, void *build); /* removes everything that was not committed */
  /* Calls fn(arg, 0) … fn(arg, n - 1), several at a time. NULL: the front calls them in turn. */
  void (*each)(void *self, size_t n, qp__piece_fn *fn, void *arg);
};

/* Where a store has a context in an old format (src/old), or the backup that a migration kept. */
struct qp__old_place {
  enum qp_legacy format; /* QP_LEGACY_NONE: not found */
  bool newer;            /* the context exists in the new format, which is used */
  char path[64];         /* of the file or directory, below the data directory */
  struct stat st;        /* of that */
};

/* Old formats: contexts that older programs wrote into the same data directory. context_list() and
 * context_load() find them; such an image has `old` set and is read only. Without it: the store has
 * no such contexts, and a rollback into the store fails with qp__store_lacks(). */
struct qp__driver_old {
  /* Both return QP_OK also if nothing was found. */
  enum qp_rc (*find)(void *self, const struct qp_uuid *id, struct qp__old_place *out,
                     struct qp_err *err);
  enum qp_rc (*find_backup)(void *self, const struct qp_uuid *id, struct qp__old_place *out,
                            struct qp_err *err);
  /* Turns a claimed context back: it is deleted, and `from` (a durable file below tmp/, or the
   * backup) becomes contexts/{id}.json, or contexts/{id} when it is a directory. Atomic. */
  enum qp_rc (*revert)(void *self, const struct qp_uuid *id, const char *from, struct qp_err *err);
  /* Migrates a context of the store that is in an old format; does nothing for other contexts. */
  enum qp_rc (*migrate)(struct qp_store *s, const struct qp_uuid *id, struct qp_err *err);
  /* Migrates a context of `from` that is in an old format into another store. *already: that has
   * it, by such a call. QP_EXISTS: it has another context of this id. */
  enum qp_rc (*copy)(struct qp_store *from, const struct qp_uuid *id, struct qp_store *to,
                     uint64_t *messages, uint64_t *bytes, bool *already, struct qp_err *err);
};

/* Recovery after an uncertain commit. After a failure that leaves it unknown whether some commits
 * are stored (a failed sync, a lost connection) such a driver refuses all writes: it is stopped.
 * Without it: every failed commit is known not to be stored, and the front continues. */
struct qp__driver_recovery {
  /* QP_OK: a write would be accepted now; otherwise the reason why not. */
  enum qp_rc (*check_writes)(void *self, struct qp_err *err);
  bool (*is_stopped)(void *self);
  /* Asks whether what stores the data is there and takes writes, or NULL: that is known. May take a
   * moment. */
  enum qp_rc (*probe)(void *self, struct qp_err *err);
  /* Decides for each uncertain commit, in their order, whether it is stored; all commits after the
   * first lost one are lost too. Can be tried again after a failure. Called with the write locks of
   * all contexts. Writes fail until resume(). */
  enum qp_rc (*mend)(void *self, struct qp_err *err);
  /* Before resume(): `context` gets the state of `fresh`, a handle loaded after mend(); `fresh` is
   * freed. */
  void (*renew)(void *self, void *context, void *fresh);
  void (*resume)(void *self);
};

/* Held commits: commits that are durable, but could not be applied because the files of one context
 * (prompt, session, blob) cannot be written. They wait; only that context fails. Without
 * it: a commit is applied or the store stops. */
struct qp__driver_held {
  bool (*context)(void *self, const struct qp_uuid *id); /* commits of it wait */
  /* Tries to apply them. Only called when the context is not in memory. */
  enum qp_rc (*release)(void *self, const struct qp_uuid *id, struct qp_err *err);
  /* The same for the plain file of a prompt, session or blob. Reading or changing it tries to apply
   * the held commits first, and fails until that succeeds. */
  bool (*file)(void *self, const char *path);
  unsigned (*file_releases)(void *self); /* how often that succeeded since open() */
};

/* Erasing: deleted text is overwritten wherever it was. Without it: erasing is the same as
 * deleting. */
struct qp__driver_erase {
  /* context_delete() that also overwrites the files and removes copies that repairs kept. Fails if
   * one of them cannot be removed. */
  enum qp_rc (*context)(void *self, const struct qp_uuid *id, struct qp_err *err);
  /* Returns when no file, except those of the front (the catalogue), contains anything that was
   * deleted before the call; durable. */
  enum qp_rc (*scrub)(void *self, struct qp_err *err);
  /* Overwrites plain files that nothing uses and removes them. */
  enum qp_rc (*wipe)(void *self, const char *const *paths, size_t n, struct qp_err *err);
};

/* Backup: a copy of all files as of one commit (backup/mirror.h). Without it: backup fails with
 * qp__store_lacks(). */
struct qp__mirror;
struct qp__driver_backup {
  enum qp_rc (*mirror)(void *self, struct qp__mirror *job, struct qp_err *err);
};

/* Other copies of a damaged message. Without it: a damaged message is unavailable. */
struct qp__driver_salvage {
  /* Appends the bytes of another copy that has the entry's size and hash. QP_NOTFOUND. */
  enum qp_rc (*find)(void *self, void *context, const struct qp__tree *tree,
                     const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err);
  /* Before a repair writes the `content` of a message: if another message is in its place, that is
   * copied elsewhere, and *rescued is set. */
  enum qp_rc (*rescue)(void *self, void *context, const struct qp__tree *tree,
                       const struct qp__entry *entry, struct qp_bytes content, bool *rescued,
                       struct qp_err *err);
};

/* One writing process with a journal. Without it: announce and checkpoint do nothing, and an engine
 * looks for interrupted turns at every start. */
struct qp__driver_process {
  /* Other processes that find the store in use report this URL. */
  enum qp_rc (*announce)(void *self, const char *url, struct qp_err *err);
  /* An engine starts (`open`), or it ends after all its turns have ended. *left: the last engine
   * was interrupted, and contexts may be in the middle of a turn. */
  enum qp_rc (*mark_turns)(void *self, bool open, bool *left, struct qp_err *err);
  enum qp_rc (*checkpoint)(void *self, struct qp_err *err); /* empties the journal */
};

/* Several servers: processes that share a store. A server that has joined holds what it opens: as
 * long as it holds a context no other server can open it, so the front may answer from memory.
 * docs/ARCHITECTURE.md, "The lease protocol", has the rules. Without it: the store has only one
 * writing process. */
struct qp__driver_lease {
  /* Joins. From then on context_load() fails with QP_BUSY for what another live server holds. */
  enum qp_rc (*join)(void *self, int64_t lease_ms, const struct qp__lease_watch *watch,
                     struct qp_err *err);
  /* Where other servers find this one. */
  enum qp_rc (*announce)(void *self, const char *address, struct qp_err *err);
  /* The time (os->mono_ms) until which no other server can hold what this one holds. 0: not
   * joined. */
  int64_t (*valid_until)(void *self);
  /* False: the store could not be reached when it was last tried. Also of a process that has not
   * joined. */
  bool (*is_reachable)(void *self);
  /* How many milliseconds the clock of the store is ahead of os->now_ms. 0: not joined. */
  int64_t (*clock_ahead)(void *self);
  /* Holds something that is not a context. QP_BUSY: another live server holds it. */
  enum qp_rc (*take)(void *self, const struct qp_uuid *id, struct qp_err *err);
  enum qp_rc (*holder)(void *self, const struct qp_uuid *id, struct qp__lease_holder *out,
                       struct qp_err *err);
  /* Whether a live server has announced this address. */
  enum qp_rc (*alive)(void *self, const char *address, bool *out, struct qp_err *err);
  void (*stats)(void *self, struct qp__lease_stats *out);
  /* Gives up everything; no call of `watch` follows. */
  void (*leave)(void *self);
};

/* Small documents and keys of requests, which all servers of the store see at once (shared.h has
 * the contract). Without it: the store belongs to one server, which keeps them in files. */
struct qp__driver_shared {
  enum qp_rc (*read)(void *self, const char *name, struct qp__buf *out, int64_t *version,
                     struct qp_err *err);
  enum qp_rc (*write)(void *self, const char *name, int64_t version, struct qp_bytes bytes,
                      struct qp_err *err);
  enum qp_rc (*key_begin)(void *self, const struct qp__shared_key *key, enum qp__key_state *out,
                          struct qp__buf *reply, struct qp_err *err);
  enum qp_rc (*key_end)(void *self, const struct qp__shared_key *key, enum qp__key_state how,
                        struct qp_bytes reply, struct qp_err *err);
};

/* Called with the stored bytes of entries[i]. */
typedef enum qp_rc qp__content_visit(void *arg, size_t i, struct qp_bytes bytes);

/* Reading many messages at once. Without it: one read() for each, which costs nothing where it is
 * no round trip. */
struct qp__driver_many {
  /* Calls `visit` once for each message that is there, in any order. As in read() the front
   * compares the hashes. */
  enum qp_rc (*read)(void *self, void *context, const struct qp__entry *const *entries, size_t n,
                     qp__content_visit *visit, void *arg, struct qp_err *err);
};

/* A page of a list: rows behind this place, in descending order of (updated_at, id). */
struct qp__list_query {
  const char *owner; /* or NULL: of all */
  int64_t updated_at;
  struct qp_uuid id;
  uint32_t limit;
};

/* Words that follow each other, as catalogue/words.h writes them. Without '>' at its end the last
 * one is the beginning of a word. */
struct qp__phrase {
  struct qp_bytes words; /* with a NUL behind */
  bool unwanted;
};

/* A page of a search: messages that have all phrases but those that are unwanted, behind this
 * place, in ascending order of (rank, context, number); with `only` those of that context, in the
 * order in which they were added. */
struct qp__find_query {
  const struct qp__phrase *phrases; /* at least one is wanted */
  size_t count;
  const char *owner; /* or NULL: of all */
  struct qp_uuid only;
  double rank;
  struct qp_uuid context;
  int64_t number;
  uint32_t limit;
};

struct qp__found {
  struct qp_search_hit hit; /* without its snippet */
  int64_t number;           /* orders the messages of a context */
  struct qp_bytes stored;   /* the message */
};
typedef enum qp_rc qp__found_visit(void *arg, const struct qp__found *found);

/* A page of a list of sizes: rows behind this place, in descending order of (bytes, id). */
struct qp__size_page {
  const char *owner; /* or NULL: of all */
  int64_t bytes;
  struct qp_uuid id;
  uint32_t limit;
  bool trashed; /* only contexts with messages in the trash */
};

/* Sums of what answers have used (catalogue/words.h), in the order of qp_usage_list(). */
struct qp__usage_range {
  enum qp_usage_group group;
  const char *owner;   /* or NULL: of all */
  int64_t from, until; /* the first quarter of an hour, and the one after the last */
  int64_t shift;       /* a day is (quarter + shift) / QP__QUARTERS_PER_DAY */
  uint32_t limit;
};

/* The catalogue: lists, search and reports, of a driver that keeps them beside the data. So all
 * servers of a store give the same answers, which have everything that was acknowledged before the
 * question. Such a driver writes the rows that changes name in the same commit, and the words of
 * messages and what answers have used (catalogue/words.h) at the latest before it is asked for
 * them. The rank is that of FTS5 (bm25). Without it, the front keeps a database of its own
 * (store/catalogue/), which it brings up to date before it answers. */
struct qp__driver_catalogue {
  enum qp_rc (*list)(void *self, const struct qp__list_query *query, qp_catalogue_visit *visit,
                     void *arg, struct qp_err *err);
  enum qp_rc (*search)(void *self, const struct qp__find_query *query, qp__found_visit *visit,
                       void *arg, struct qp_err *err);
  /* The contexts in this state, which is not "Idle". */
  enum qp_rc (*in_state)(void *self, const char *state, qp_context_visit *visit, void *arg,
                         struct qp_err *err);
  /* The bytes of all contexts of an owner, messages and metadata. */
  enum qp_rc (*owner_bytes)(void *self, const char *owner, int64_t *out, struct qp_err *err);
  /* With the sizes of the largest branches, at most QP_BRANCH_SIZES_MAX: the largest first, then by
   * name. */
  enum qp_rc (*sizes)(void *self, const struct qp__size_page *query, qp_size_visit *visit,
                      void *arg, struct qp_err *err);
  enum qp_rc (*size_sum)(void *self, const char *owner, struct qp_size_total *out,
                         struct qp_err *err);
  /* Of a row for QP_USAGE_DAY, `day` is the number of the day. */
  enum qp_rc (*usage)(void *self, const struct qp__usage_range *query, qp_usage_visit *visit,
                      void *arg, struct qp_err *err);
  /* Makes all rows and words anew, as qp_store_reindex(). */
  enum qp_rc (*reindex)(void *self, qp_reindex_visit *visit, void *arg, struct qp_err *err);
};

/* A data directory: the store's name is the path of a directory. The front opens it before open(),
 * closes it after close(), and keeps files of its own in it: the catalogue, markers of erasures.
 * Without it: the catalogue is in memory, and erasing leaves no markers. */
struct qp__driver_directory {
  /* A new name, "tmp/…", for a file of the front. open() empties tmp/. */
  void (*temp_name)(void *self, char out[64]);
};

/* ---- the core ---- */

/* A file that names contexts, one id per line after a first line, whose rows in the catalogue may
 * be wrong: see catalogue_behind.c. A driver with a data directory that replays a journal first
 * appends the contexts that it changes. */
#define QP__BEHIND_NAME "catalogue.behind"

struct qp__driver_options {
  const struct qp__os *os; /* for files, clocks and random bytes */
  int root;                /* the data directory (struct qp__driver_directory), or -1 */
  bool readonly;
  bool create;     /* an empty place becomes a store */
  bool background; /* threads are allowed */
  size_t max_message;
  size_t journal_bytes;
  unsigned workers;
  struct qp__log log;
};

/* Counts since open(). A driver without a journal leaves all but `commits` 0. */
struct qp__driver_stats {
  uint64_t commits, syncs, checkpoints, folds, recovered;
};

/* `regular`: it is a plain file, and not something else in its place. */
typedef enum qp_rc qp__file_visit(void *arg, const char *name, bool regular);

struct qp__driver {
  size_t size;        /* sizeof(struct qp__driver) that the driver was built with */
  const char *scheme; /* "file", "memory" */
  /* What users of this driver should use instead of missing capabilities: the end of the message of
   * qp__store_lacks(). Or NULL. */
  const char *instead;

  /* ---- store ---- */

  /* Opens the store; `where` is the URL after "scheme:". Returns after recovery: everything that
   * was acknowledged before is readable. One thread. QP_BUSY: another process has it open.
   * QP_NOTFOUND: it does not exist and `create` is not set. QP_INVALID: `where` cannot be a
   * store. */
  enum qp_rc (*open)(const char *where, const struct qp__driver_options *options, void **out,
                     struct qp_err *err);
  /* Called once, when no other call is running and all handles are freed. */
  void (*close)(void *self);

  /* ---- contexts ---- */

  /* Visits every context once, in any order. Contexts that are created or deleted meanwhile may be
   * missing. */
  enum qp_rc (*context_list)(void *self, qp_context_visit *visit, void *arg, struct qp_err *err);
  /* Fills an initialised image with metadata, tree and heads as of the last commit, and returns the
   * driver's handle of the context, which the changes of this context name. Damage that could be
   * repaired in memory is reported to `problems` and is no failure; with problems->repair it is
   * also repaired in the store. At most one handle of a context is used for writing. QP_NOTFOUND,
   * QP_CORRUPT. */
  enum qp_rc (*context_load)(void *self, const struct qp_uuid *id, struct qp__image *image,
                             struct qp__problems *problems, void **out, struct qp_err *err);
  void (*context_free)(void *self, void *context);
  /* Appends the stored metadata alone to `meta`, unless that is NULL: cheaper than a load.
   * QP_NOTFOUND. `stamp` (may be NULL) receives a value that changes whenever the metadata or the
   * index of the context changes, found without reading them; zeros: unknown. With `meta` NULL the
   * call does not fail. */
  enum qp_rc (*context_peek)(void *self, const struct qp_uuid *id, struct qp__buf *meta,
                             uint8_t stamp[16], struct qp_err *err);
  /* Creates a context with this metadata, one empty branch "main" and no message. Durable and
   * atomic when it returns. QP_EXISTS. */
  enum qp_rc (*context_create)(void *self, const struct qp_uuid *id, struct qp_bytes meta,
                               struct qp_err *err);
  /* Deletes a context with everything in it, also its plain files. Durable and atomic. The caller
   * ensures that no handle of it exists. QP_NOTFOUND. */
  enum qp_rc (*context_delete)(void *self, const struct qp_uuid *id, struct qp_err *err);

  /* ---- commits ---- */

  /* Gives the changes, which are one commit, their place in the order of commits. All of them
   * become durable, or none. The caller holds the write locks of the contexts that they name, so
   * calls for one context arrive in the order of their commits; calls for different contexts arrive
   * at the same time. The caller may free the changes and their bytes when it returns. On failure
   * nothing happened and the changes stay prepared. After success finish() follows, always. */
  enum qp_rc (*stage)(void *self, struct qp__driver_change *changes, size_t n,
                      qp__store_publish *publish, void *arg, void **ticket, struct qp_err *err);
  /* Returns when the commit is durable and readable, after publish(arg) was called, in any thread.
   * publish is called once per commit, in the order of the commits of each context, and not if
   * finish() fails. Called without the write locks, in any thread and any order. On failure the
   * commit and all later ones of the context are not stored, or it is unknown whether they are
   * (struct qp__driver_recovery). */
  enum qp_rc (*finish)(void *self, void *ticket, struct qp_err *err);

  /* ---- reading ---- */

  /* Appends the stored bytes of a message, unchanged. The front compares them with the entry's
   * hash. QP_NOTFOUND; QP_CORRUPT: something else is in its place. */
  enum qp_rc (*read)(void *self, void *context, const struct qp__tree *tree,
                     const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err);
  /* Plain files. All three see the committed state, and possibly the beginning of an append that is
   * being committed. file_read appends `n` bytes from `offset` on, fewer only at the end of the
   * file. QP_NOTFOUND, QP_CORRUPT (not a plain file). */
  enum qp_rc (*file_read)(void *self, const char *path, uint64_t offset, size_t n,
                          struct qp__buf *out, struct qp_err *err);
  enum qp_rc (*file_size)(void *self, const char *path, uint64_t *size, struct qp_err *err);
  /* Visits the names in a directory, in any order; a missing directory is empty. */
  enum qp_rc (*file_list)(void *self, const char *dir, qp__file_visit *visit, void *arg,
                          struct qp_err *err);
  /* Searches for problems that the front cannot see: data without an entry, foreign files. Without
   * a context (NULL, and no image): for data that belongs to no context. The front itself checks
   * every message, prompt, session and event. */
  enum qp_rc (*check)(void *self, void *context, struct qp__image *image,
                      struct qp__problems *problems, struct qp_err *err);
  /* Fills *out, which is all 0. */
  void (*stats)(void *self, struct qp__driver_stats *out);

  /* ---- capabilities, or NULL ---- */
  const struct qp__driver_ahead *ahead;
  const struct qp__driver_fold *fold;
  const struct qp__driver_pack *pack;
  const struct qp__driver_gc *gc;
  const struct qp__driver_build *build;
  const struct qp__driver_old *old;
  const struct qp__driver_recovery *recovery;
  const struct qp__driver_held *held;
  const struct qp__driver_erase *erase;
  const struct qp__driver_backup *backup;
  const struct qp__driver_salvage *salvage;
  const struct qp__driver_process *process;
  const struct qp__driver_directory *directory;
  const struct qp__driver_lease *lease;
  const struct qp__driver_many *many;
  const struct qp__driver_shared *shared;
  const struct qp__driver_catalogue *catalogue;
};

extern const struct qp__driver qp__driver_files;
extern const struct qp__driver qp__driver_memory;
extern const struct qp__driver qp__driver_postgres; /* if the program is built with libpq */

/* The drivers that a URL can name, NULL at the end. libquipu-store has another list
 * (drivers_local.c) than libquipu (drivers.c). */
extern const struct qp__driver *const qp__drivers[];

/* ---- for drivers ---- */

/* The stored form of a message that has id, parent and time, and a newline, in *text; its entry has
 * everything except its directory and its place in the tree. QP_TOOBIG: over `max` bytes. */
enum qp_rc qp__message_store_form(const struct qp_message *m, size_t max, struct qp__buf *text,
                                  struct qp__entry *entry, struct qp_err *err);

/* The directory of compaction records in that of a context (context/record_file.h). */
#define QP__RECORD_DIR "compactions"

/* BLAKE2b-128. */
void qp__content_hash(uint8_t out[16], struct qp_bytes bytes);
/* Whether stored bytes are those of the entry: size and hash. */
bool qp__content_matches(const struct qp__entry *entry, struct qp_bytes bytes);

#endif

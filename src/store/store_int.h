/* store_int.h - what the front of the store and its drivers share.
 *
 * The front (store.c, context.c, branch_change.c, message_read.c, prompts.c, check.c) keeps
 * contexts in memory, checks input, orders writers and answers readers. A driver keeps bytes: it
 * makes lists of changes durable, gives them back, and knows nothing of callers. Only the front
 * calls a driver's slots, and it never asks which driver it has. */
#ifndef QP_STORE_STORE_INT_H
#define QP_STORE_STORE_INT_H

#include "base/buf.h"
#include "base/log.h"
#include "os/os.h"
#include "store/backup/mirror.h"
#include "store/context/context_build.h"
#include "store/context/loaded_context.h"
#include "store/workers.h"

/* ---- changes ---- */

enum qp__driver_change_kind {
  QP__CHANGE_MESSAGE,     /* a new message; the head of `branch` moves to it */
  QP__CHANGE_META,        /* new metadata: `bytes` */
  QP__CHANGE_HEAD,        /* the head of `branch` is `id` (none: empty) */
  QP__CHANGE_RENAME,      /* `branch` is called `to` */
  QP__CHANGE_DROP,        /* `branch` is gone */
  QP__CHANGE_STATUS,      /* message `id` has `status`; LIVE: it is in its file now */
  QP__CHANGE_TRASH,       /* message `id` is in the trash, since `at`; `bytes` is its content where
                           * that is not in its file, else empty */
  QP__CHANGE_UNTRASH,     /* message `id` is in its file again */
  QP__CHANGE_CONTENT,     /* the stored bytes of message `id`, whose entry is known, are restored */
  QP__CHANGE_PROMPT,      /* prompt `branch` is `bytes`; no context */
  QP__CHANGE_PROMPT_DROP, /* prompt `branch` is gone; no context */

  /* Plain files of the store: no index knows them. With a context they are in its directory
   * "events", whose files go with it. They are carried out in the order in which they stand in
   * their commit. */
  QP__CHANGE_FILE_PUT,    /* the file `path` holds exactly `bytes` */
  QP__CHANGE_FILE_APPEND, /* `bytes` stand at `offset` of `path`, which is its end; with `cut` all
                           * that was behind `offset` is gone first. Makes the file. */
  QP__CHANGE_FILE_RENAME, /* the file `path` is called `to`. After a crash it may be carried out
                           * again behind all older commits: neither may this store have written
                           * `to` before, nor `path` afterwards, since it was opened. */
  QP__CHANGE_FILE_DROP,   /* there is no file `path` */
};

struct qp__driver_change {
  enum qp__driver_change_kind kind;
  void *context;      /* the driver's handle of the context */
  const char *branch; /* or the prompt's id */
  const char *to;
  struct qp_uuid id;
  struct qp_uuid parent; /* of a message */
  enum qp_message_status status;
  int64_t at;
  const struct qp__entry *entry; /* of a message: all but its place in the tree */
  const char *dir;               /* of a message: the directory that entry->dir stands for */
  struct qp_bytes bytes;         /* stored form of a message, metadata or a prompt; of a file */
  const char *path;              /* of a plain file, "sessions/index.jsonl" */
  uint64_t offset;               /* in it */
  bool cut;
  /* When set, prepare calls it first, perhaps in another thread: it makes `bytes` and the entry, or
   * sets rc. So a batch is encoded while its files are being written. */
  void (*make)(struct qp__driver_change *change);
  void *make_arg;
  /* set by prepare */
  void *prepared; /* the driver's */
  enum qp_rc rc;  /* why it could not be prepared */
  struct qp_err err;
};

/* Called once the changes are durable and in place, in the order of staging. See qp__publish_fn. */
typedef void qp__store_publish(void *arg);

/* A problem found while loading or checking; `harmless` and `repaired` as in struct qp_problem. */
struct qp__problems {
  qp_problem_visit *visit; /* or NULL */
  void *arg;
  uint64_t count; /* without harmless ones */
  uint64_t repaired;
  bool repair;               /* mend what can be mended */
  bool told;                 /* a load that failed has told why */
  bool scan;                 /* when loading: look for messages that the index does not know … */
  bool distrust;             /* … and believe messages rather than their lines in the index */
  bool thorough;             /* a check: search every file for what is lost */
  const struct qp__log *log; /* also told, as a warning, or NULL */
  struct qp_err disk;        /* the first input or output error; rc QP_OK: there was none */
};
/* Remembers an input or output error: what cannot be read for that reason is not known to be
 * damaged. False: it must not be passed over, because a repair would write on what it guesses. */
bool qp__problem_io(struct qp__problems *p, enum qp_rc rc, const struct qp_err *cause);
/* `path` is relative to the context's directory, or begins with "contexts/" or "conversations/";
 * without a context it is relative to the data directory. */
void qp__problem(struct qp__problems *p, enum qp_problem_kind kind, const struct qp_uuid *context,
                 const char *path, bool repaired, bool harmless, const char *fmt, ...)
    QP_PRINTF(7, 8);

/* ---- contexts of older programs ---- */

/* Where a store has a context in an old format (formats/legacy.h), or the one that was kept as a
 * backup when it was migrated. */
struct qp__old_place {
  enum qp_legacy format; /* QP_LEGACY_NONE: there is none */
  bool newer;            /* the context is there in the new format: that counts */
  char path[64];         /* of the file or directory, below the data directory */
  struct stat st;        /* of that */
};

/* ---- the driver's interface ---- */

/* A file that names contexts, one id a line behind a first line, whose rows in the catalogue may
 * not be right: see catalogue_behind.c. A driver of files that carries out commits which a crash
 * has cut short first appends the contexts that they change. */
#define QP__BEHIND_NAME "catalogue.behind"

struct qp__driver_options {
  const struct qp__os *os;
  bool readonly;
  bool create;
  bool background;
  size_t max_message;
  size_t journal_bytes;
  unsigned workers;
  struct qp__log log;
};

struct qp__driver_stats {
  uint64_t commits, syncs, checkpoints, folds, recovered;
};

typedef enum qp_rc qp__name_visit(void *arg, const char *name);
/* `regular`: it is a file as we make them, not a directory, a link or the like. */
typedef enum qp_rc qp__file_visit(void *arg, const char *name, bool regular);

/* How the messages of a context are to be kept. */
enum qp__packing {
  QP__PACKING_OLD,  /* those that have a file of their own and are older than `before`: by month */
  QP__PACKING_ALL,  /* all of them in one pack */
  QP__PACKING_NONE, /* each in a file of its own */
};

/* The stored form of a system prompt that comes with a context. */
struct qp__new_prompt {
  const char *id;
  struct qp_bytes text;
};

struct qp__driver {
  size_t size;        /* sizeof(struct qp__driver) that the driver was built with */
  const char *scheme; /* "file", "memory" */

  /* `where` is the URL behind "scheme:". */
  enum qp_rc (*open)(const char *where, const struct qp__driver_options *options, void **out,
                     struct qp_err *err);
  void (*close)(void *self);

  /* Contexts. load fills an initialised image and hands out the driver's handle of the context,
   * released with context_free; damage that could be mended in memory is told to `problems` and is
   * no failure. With problems->repair what was mended is also written. create is durable when it
   * returns; QP_EXISTS. */
  enum qp_rc (*context_list)(void *self, qp_context_visit *visit, void *arg, struct qp_err *err);
  enum qp_rc (*context_load)(void *self, const struct qp_uuid *id, struct qp__image *image,
                             struct qp__problems *problems, void **out, struct qp_err *err);
  /* Appends the stored metadata alone: quicker than a load where that is enough. */
  enum qp_rc (*context_peek)(void *self, const struct qp_uuid *id, struct qp__buf *out,
                             struct qp_err *err);
  enum qp_rc (*context_create)(void *self, const struct qp_uuid *id, struct qp_bytes meta,
                               struct qp_err *err);
  /* With `erase` its files are overwritten, and what is known to be of it in lost/ goes too; it is
   * a failure then if one of them cannot be removed. */
  enum qp_rc (*context_delete)(void *self, const struct qp_uuid *id, bool erase,
                               struct qp_err *err);
  void (*context_free)(void *self, void *context);

  /* Writing. prepare does what can be done before the order of commits is known, for many changes
   * at once and concurrently; a change that fails has its rc set and must not be staged. Every
   * prepared change is either staged or discarded. stage gives the changes, all of them one commit,
   * their place in the order; the caller holds the write locks of the contexts. On failure nothing
   * has happened (the changes stay prepared). finish waits until they are durable; without holding
   * those locks. */
  void (*prepare)(void *self, struct qp__driver_change *changes, size_t n);
  void (*discard)(void *self, struct qp__driver_change *changes, size_t n);
  enum qp_rc (*stage)(void *self, struct qp__driver_change *changes, size_t n,
                      qp__store_publish *publish, void *arg, void **ticket, struct qp_err *err);
  enum qp_rc (*finish)(void *self, void *ticket, struct qp_err *err);

  /* Reading. read appends the stored bytes as they are; QP_NOTFOUND, QP_CORRUPT (not readable as a
   * file of ours). salvage looks for another copy that has the entry's size and hash. */
  enum qp_rc (*read)(void *self, void *context, const struct qp__tree *tree,
                     const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err);
  enum qp_rc (*salvage)(void *self, void *context, const struct qp__tree *tree,
                        const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err);
  enum qp_rc (*prompt_read)(void *self, const char *id, struct qp__buf *out, struct qp_err *err);
  enum qp_rc (*prompt_list)(void *self, qp__name_visit *visit, void *arg, struct qp_err *err);

  /* Folding: rewriting the context's index compactly. wants_fold is cheap. start and finish are
   * called with the context's write lock, write without it; finish stages a commit as stage does.
   * Optional, all or none. write sees `count` entries and the heads as they were at start. abort
   * undoes a start. */
  bool (*wants_fold)(void *self, void *context);
  void (*fold_start)(void *self, void *context);
  enum qp_rc (*fold_write)(void *self, void *context, const struct qp__tree *tree, uint32_t count,
                           const struct qp__head *heads, size_t n, struct qp_err *err);
  enum qp_rc (*fold_finish)(void *self, void *context, void **ticket, struct qp_err *err);
  void (*fold_abort)(void *self, void *context);

  /* Optional. check looks for what the index does not know: files without an entry, foreign files;
   * without a context (NULL, and no image) for what is in the store and in no context. */
  enum qp_rc (*checkpoint)(void *self, struct qp_err *err);
  void (*stats)(void *self, struct qp__driver_stats *out);
  enum qp_rc (*announce)(void *self, const char *url, struct qp_err *err);
  /* An engine begins (open) or has ended with every turn at rest. *left: the last one that began
   * has not ended so, and there may be contexts in the middle of a turn. */
  enum qp_rc (*mark_turns)(void *self, bool open, bool *left, struct qp_err *err);
  enum qp_rc (*check)(void *self, void *context, struct qp__image *image,
                      struct qp__problems *problems, struct qp_err *err);
  /* Before a repair writes `content`, that of a message: another message that is in its place is
   * kept elsewhere; *rescued is set then. Optional. */
  enum qp_rc (*rescue)(void *self, void *context, const struct qp__tree *tree,
                       const struct qp__entry *entry, struct qp_bytes content, bool *rescued,
                       struct qp_err *err);

  /* Plain files, by their path in the store. read appends the bytes from `offset` on, `n` at most
   * and fewer only where the file ends; QP_NOTFOUND, QP_CORRUPT (not a regular file). size is that
   * of the file; the same failures. list visits the names in a directory, in no order; one that is
   * not there is empty. All see what is committed, and perhaps the beginning of an append that is
   * being carried out. */
  enum qp_rc (*file_read)(void *self, const char *path, uint64_t offset, size_t n,
                          struct qp__buf *out, struct qp_err *err);
  enum qp_rc (*file_size)(void *self, const char *path, uint64_t *size, struct qp_err *err);
  enum qp_rc (*file_list)(void *self, const char *dir, qp__file_visit *visit, void *arg,
                          struct qp_err *err);
  /* Space. The caller has the context for itself; `image` is as it was loaded a moment ago and, but
   * for a dry run, no longer right afterwards. Messages in the trash are left there. repack is
   * QP_CORRUPT when a pack that would have to go holds a message that cannot be read. purge forgets
   * the messages whose slots are set in `gone`, none of which is the parent of one that stays, and
   * removes what is left over from earlier operations; it counts only the latter. pack_bytes is
   * what the packs take on the disk. */
  enum qp_rc (*repack)(void *self, void *context, struct qp__image *image, enum qp__packing packing,
                       int64_t before, bool dry_run, struct qp_space_report *out,
                       struct qp_err *err);
  enum qp_rc (*purge)(void *self, void *context, struct qp__image *image, const bool *gone,
                      bool dry_run, struct qp_gc_report *out, struct qp_err *err);
  uint64_t (*pack_bytes)(void *self, void *context, const struct qp__tree *tree);

  /* Whole contexts at once (context_build.h), made in a hidden place. begin answers QP_EXISTS.
   * reserve comes before the puts of the next n messages, all of directory `dir`; put is called by
   * several threads, once for each `number` in the order of the tree, and appends to `back` (may be
   * NULL) what can be read of the message then. finish adds metadata (`meta`), index and heads and
   * makes all of it durable; temp names a file of the caller's that finish also makes durable.
   * commit is called with the context claimed; it makes the prompts and carries out the moves too:
   * all of it is there, or nothing has happened. Only after QP_IO it may appear when the store is
   * opened again. free removes what was not committed. Optional, all or none. */
  enum qp_rc (*build_begin)(void *self, const struct qp_uuid *id, void **out, struct qp_err *err);
  enum qp_rc (*build_reserve)(void *self, void *build, const char *dir, size_t n,
                              struct qp_err *err);
  enum qp_rc (*build_put)(void *self, void *build, size_t number, const struct qp_uuid *id,
                          struct qp_bytes bytes, struct qp__buf *back, struct qp_err *err);
  enum qp_rc (*build_temp)(void *self, void *build, char out[64], struct qp_err *err);
  enum qp_rc (*build_finish)(void *self, void *build, struct qp_bytes meta, struct qp__image *image,
                             struct qp_err *err);
  enum qp_rc (*build_commit)(void *self, void *build, const struct qp__new_prompt *prompts,
                             size_t prompt_count, const struct qp__build_move *moves, size_t n,
                             struct qp_err *err);
  void (*build_free)(void *self, void *build);

  /* Contexts in old formats. context_list and context_load know them; is_old tells whether a loaded
   * one is such, which can be read and not written. old_find and backup_find answer QP_OK also when
   * there is none. `directory` is a descriptor of the data directory, to read them by. revert turns
   * a claimed context back: it goes, and `from` (a file below tmp/ that is durable, or the backup)
   * becomes contexts/{id}.json, or contexts/{id} when it is a directory. Optional, all or none. */
  bool (*is_old)(void *self, void *context);
  enum qp_rc (*old_find)(void *self, const struct qp_uuid *id, struct qp__old_place *out,
                         struct qp_err *err);
  enum qp_rc (*backup_find)(void *self, const struct qp_uuid *id, struct qp__old_place *out,
                            struct qp_err *err);
  int (*directory)(void *self);
  void (*temp_name)(void *self, char out[64]); /* "tmp/…" */
  enum qp_rc (*revert)(void *self, const struct qp_uuid *id, const char *from, struct qp_err *err);

  /* Optional: calls fn(arg, 0) … fn(arg, n - 1), several at a time. */
  void (*each)(void *self, size_t n, qp__piece_fn *fn, void *arg);

  /* Optional: something that is other than before whenever the context's metadata or index is,
   * without reading them. All zeros when it cannot be told. */
  void (*context_stamp)(void *self, const struct qp_uuid *id, uint8_t out[16]);

  /* After a failure that leaves open what became of some commits a driver takes no more: it
   * is_stopped, and check_writes says why. mend decides for each of them, in their order, that it
   * is there or not; from the first that is not on, none is. It can be tried again. Writes fail on
   * until resume.
   * Meanwhile the caller holds the write locks of all contexts and gives each handle what a handle
   * of the same context that was loaded after mend knows; renew frees that. Optional, all or
   * none. */
  enum qp_rc (*check_writes)(void *self, struct qp_err *err);
  bool (*is_stopped)(void *self);
  enum qp_rc (*mend)(void *self, struct qp_err *err);
  void (*resume)(void *self);
  void (*context_renew)(void *self, void *context, void *fresh);

  /* Whether commits of a context failed because its files alone cannot be written. They are kept,
   * and it is neither loaded nor changed, until release has brought them there, which is only
   * called when nobody has the context in memory. Optional, both or none. */
  bool (*context_held)(void *self, const struct qp_uuid *id);
  enum qp_rc (*context_release)(void *self, const struct qp_uuid *id, struct qp_err *err);
  /* The same for the file of a prompt, a session or a blob. Reading or changing it tries to bring
   * there what is kept, and fails until that is done. Optional. */
  bool (*file_held)(void *self, const char *path);
  /* How often that was done since the store was opened. With file_held. */
  unsigned (*file_releases)(void *self);

  /* Optional: returns when nothing of what was deleted before the call is in any file but the
   * caller's own (the catalogue), durably. */
  enum qp_rc (*scrub)(void *self, struct qp_err *err);

  /* Optional, with scrub: overwrites files that nothing uses and removes them. */
  enum qp_rc (*file_wipe)(void *self, const char *const *paths, size_t n, struct qp_err *err);

  /* Optional: a copy of all files as of one commit (mirror.h). */
  enum qp_rc (*mirror)(void *self, struct qp__mirror *job, struct qp_err *err);
};

/* Whether a change is one of the FILE kinds. */
bool qp__is_file_change(const struct qp__driver_change *change);

extern const struct qp__driver qp__driver_files;
extern const struct qp__driver qp__driver_memory;

/* The stored form of a message that has id, parent and time, and a newline, in *text; its entry has
 * everything but its directory and its place in the tree. QP_TOOBIG: over `max` bytes. */
enum qp_rc qp__message_store_form(const struct qp_message *m, size_t max, struct qp__buf *text,
                                  struct qp__entry *entry, struct qp_err *err);

/* BLAKE2b-128. */
void qp__content_hash(uint8_t out[16], struct qp_bytes bytes);
/* Whether stored bytes are those of the entry: size and hash. */
bool qp__content_matches(const struct qp__entry *entry, struct qp_bytes bytes);

/* qp_store_open on another operating system: what tests use. */
enum qp_rc qp__store_open_os(const char *url, const struct qp_store_options *options,
                             const struct qp__os *os, struct qp_store **out, struct qp_err *err);

#endif

/* files.h - shared by the files of the file driver. See docs/formats.md for the layout of the data
 * directory.
 *
 *   files.c            opening and closing, contexts
 *   directory_lock.c   who may write, and what a server announces
 *   reserve.c          room for recovery and deletion on a full disk
 *   files_load.c       loads a context from its files, also a damaged one
 *   index_rebuild.c    rebuilds lost parts of an index from the message files
 *   files_commit.c     translates changes to file operations; the journal does the rest
 *   index_fold.c       merges index.log into index.json
 *   message_file.c     the content of a message, wherever it is
 *   pack_driver.c      moves messages into packs and out of them, with repack.c
 *   pack_repair.c      damaged packs
 *   trash.c            deleted messages, and leftovers of operations
 *   files_build.c      a whole context at once
 *   remove.c           deletes contexts, or converts them back to an old format
 *   files_check.c      files that the index does not list
 *   replay_touched.c   contexts that the journal changes, for the catalogue
 *   side_files.c       files that belong to no context's index
 *   mirror.c           a copy of everything as of one commit (journal_tail.c, writer_pause.c)
 *
 * Threads: struct qp__files is shared; its fields do not change after open, apart from atomics. A
 * struct qp__fctx is guarded by the write lock of its context. */
#ifndef QP_STORE_FILES_FILES_H
#define QP_STORE_FILES_FILES_H

#include <stdatomic.h>

#include "base/mutex.h"
#include "base/uuid.h"
#include "model/prompt.h"
#include "store/driver.h"
#include "store/files/directory_lock.h"
#include "store/files/index/index.h"
#include "store/files/journal/held_commits.h"
#include "store/files/journal/journal.h"
#include "store/files/pack/pack.h"
#include "store/files/reserve.h"
#include "store/old_formats.h"
#include "store/workers.h"

#define QP__CTX_PATH_LEN 48  /* "contexts/" and a UUID */
#define QP__TEMP_NAME_LEN 48 /* also "{id}.old" */

#define QP__STOCK_MAX 8
#define QP__BUILD_JOURNAL_MAX ((size_t)4 << 20)

/* Empty files in tmp/ for later contents, created ahead by a worker while no caller waits. */
struct qp__stock {
  struct qp__mutex lock;
  struct qp__stock_file {
    char name[QP__TEMP_NAME_LEN];
    int fd;
  } files[QP__STOCK_MAX];
  unsigned count;
  unsigned taken; /* contents written so far: a store that writes little needs no stock */
  bool filling;
};

/* A sync of the file system for several threads: threads that arrive during a sync share the next
 * one. */
struct qp__group_sync {
  struct qp__mutex lock;
  pthread_cond_t done;
  uint64_t wanted;   /* calls so far */
  uint64_t finished; /* calls up to this one are served */
  uint64_t failed;   /* the last one whose sync failed, and all with it */
  bool running;
};

struct qp__files {
  const struct qp__os *os;
  struct qp__log log;
  int root;
  int tmp;                    /* -1 when readonly */
  struct qp__lock lock;       /* not held when readonly */
  struct qp__reserve reserve; /* not used if readonly */
  bool readonly;
  size_t max_message;
  struct qp__journal *journal; /* NULL when readonly */
  struct qp__aside_list held;  /* when readonly: contexts whose changes wait (held_commits.h) */
  struct qp__workers workers;
  struct qp__stock stock;
  atomic_ullong next_temp;
  atomic_ullong folds;
  atomic_uint plain_dirs; /* which directories of side_files.c are known to exist */
  struct qp__mutex fresh_lock;
  struct qp__fresh *fresh; /* under its lock; see index_fold.c */
  size_t fresh_count;
  size_t fresh_cap;
  struct qp__group_sync sync;
  atomic_bool syncing_ahead;
  size_t build_journal_max;  /* bytes of a built context that go to the journal */
  struct qp__mutex old_lock; /* backups that are being opened */
  struct qp__pack_cache *packs;
  struct qp__mutex finds_lock; /* guards the finds of all contexts */
};

#define QP__PACK_NAME_LEN 32 /* "archive/2025-05.jsonl.zst" */

struct qp__legacy_source; /* src/old */

/* Results of searching a lost message, kept for the next search: see message_file.c. */
struct qp__finds {
  struct qp__image *index; /* as it was on the disk then, or NULL */
  bool scanned;            /* the list is complete */
  struct qp__find {
    uint8_t hash[16];
    char pack[QP__PACK_NAME_LEN];
    uint64_t frame;
    uint32_t pos;
    uint32_t size;
  } * list; /* every message in every pack, by hash */
  size_t count;
  size_t cap;
  bool files_scanned;
  struct qp__found_file {
    uint8_t hash[16];
    char *path;
  } * files; /* every file that may be a message, by hash: strays.h */
  size_t file_count;
  size_t file_cap;
};

/* A commit that may still be in the journal and that renames a whole context: into its place, or
 * away from it. */
struct qp__fresh {
  struct qp_uuid id;
  uint64_t seq;  /* of the commit; UINT64_MAX: it is under way */
  bool contents; /* it contains the files too: a replay creates all of them again */
};

struct qp__fctx {
  struct qp_uuid id;
  char path[QP__CTX_PATH_LEN];
  uint64_t generation; /* of index.json, once all that is staged is applied */
  uint64_t json_bytes;
  uint64_t log_bytes;                /* the offset of the next line of index.log */
  struct qp__buf fold_tail;          /* lines staged since the fold began */
  char fold_name[QP__TEMP_NAME_LEN]; /* of the new index.json in tmp/, or "" */
  uint64_t fold_bytes;
  struct qp__buf fold_content; /* of the new index.json where the journal needs it, or empty */
  /* The guard of a batch that is prepared and not staged yet, or "" (bulk_write.h). */
  char guard[QP__TEMP_NAME_LEN];
  uint8_t *dir_ready; /* per directory of the tree: it is known to exist */
  size_t dir_ready_count;
  struct qp__finds finds;
  struct qp__legacy_source *old;    /* the source of a context in an old format, or NULL */
  struct qp__legacy_source *backup; /* the backup of its migration, once it was opened (old_lock) */
  size_t backup_at;                 /* where the last message was found in it */
  bool folding;
  bool fold_void;     /* the state at the start of the fold has changed: the fold is discarded */
  bool events_ready;  /* its directory of events is known to exist */
  bool records_ready; /* the same for compaction records */
  bool thorough;      /* loaded by a check: see struct qp__problems */
  bool backup_tried;
};

/* A new name in tmp/. */
void qp__files_temp_name(struct qp__files *f, char out[QP__TEMP_NAME_LEN]);
void qp__fctx_init(struct qp__fctx *c, const struct qp_uuid *id);
void qp__fctx_free(struct qp__fctx *c);

/* The path of a message: "contexts/<id>/messages/<dir>/<id>.json". */
void qp__message_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const char *dir,
                      const struct qp_uuid *id);
/* "contexts/<id>/trash/<id>.json". qp__context_path: any other path in the directory of a
 * context. */
void qp__trash_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const struct qp_uuid *id);
/* trash.c: appends the ids of the messages in the trash of a context. */
enum qp_rc qp__trash_names(struct qp__files *f, const struct qp__fctx *c, struct qp__ids *out,
                           struct qp_err *err);
void qp__context_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const char *name);

/* replay_touched.c: notes the contexts that the journal changes, because the catalogue may be
 * behind. */
void qp__files_note_touched(struct qp__files *f);

/* held_files.c: whether the files of a context lack changes that could not be written
 * (held_commits.h); check_held fails then, release tries to write them. */
bool qp__files_held(void *self, const struct qp_uuid *id);
enum qp_rc qp__files_check_held(struct qp__files *f, const struct qp_uuid *id, struct qp_err *err);
bool qp__files_path_held(void *self, const char *path);
unsigned qp__files_releases(void *self);
/* The file of a session, a prompt or a blob: writes its held commits. While that fails, the file
 * must neither be read nor changed. */
enum qp_rc qp__files_release_path(struct qp__files *f, const char *path, struct qp_err *err);
enum qp_rc qp__files_release(void *self, const struct qp_uuid *id, struct qp_err *err);

/* files_load.c */
enum qp_rc qp__files_load(void *self, const struct qp_uuid *id, struct qp__image *image,
                          struct qp__problems *problems, void **out, struct qp_err *err);

/* files_commit.c: a capability and slots of the driver, and a commit that is staged and finished at
 * once. */
extern const struct qp__driver_ahead qp__files_ahead;
enum qp_rc qp__files_stage(void *self, struct qp__driver_change *changes, size_t n,
                           qp__store_publish *publish, void *arg, void **ticket,
                           struct qp_err *err);
enum qp_rc qp__files_finish(void *self, void *ticket, struct qp_err *err);
/* Removes the files that were created ahead. No other thread may use the store. */
void qp__files_drop_stock(struct qp__files *f);
enum qp_rc qp__files_commit(struct qp__files *f, struct qp__txn *txn, struct qp_err *err);

/* index_fold.c: a capability of the driver; below, a whole fold at once of an image that no other
 * thread has yet. */
extern const struct qp__driver_fold qp__files_fold;
/* A driver slot: copies the state of the index from `fresh`, which was just loaded, and frees
 * that. */
void qp__files_renew(void *self, void *context, void *fresh);
/* Additional operations of the commit that replaces the index. */
typedef enum qp_rc qp__ops_fn(void *arg, struct qp__txn *txn, struct qp_err *err);
struct qp__rewrite {
  struct qp_bytes meta; /* a new metadata.json, or empty */
  qp__ops_fn *before; /* adds operations that are applied before the index is replaced, or NULL … */
  qp__ops_fn *after; /* … and operations after it */
  void *arg;
  bool staged; /* out: the commit is staged; if the call failed, only opening the store again shows
                  whether it is stored, and what it renames must stay */
};
enum qp_rc qp__files_rewrite(struct qp__files *f, struct qp__fctx *c, const struct qp__image *image,
                             struct qp__rewrite *with, struct qp_err *err);

/* The content of an index.json. */
struct qp__index_content {
  const struct qp_uuid *id; /* of the context */
  uint64_t generation;
  const struct qp__tree *tree;
  uint32_t count; /* of its entries */
  const struct qp__head *heads;
  size_t head_count;
};
/* Writes an index.json to dirfd/name, which must not exist; *bytes receives its length. */
enum qp_rc qp__files_index_write(struct qp__files *f, int dirfd, const char *name,
                                 const struct qp__index_content *x, bool sync, uint64_t *bytes,
                                 struct qp_err *err);

/* Called before and after a commit that struct qp__fresh describes; `seq` 0: it failed. forget
 * ensures that no such commit of this context is ever replayed. */
enum qp_rc qp__fresh_add(struct qp__files *f, const struct qp_uuid *id, bool contents,
                         struct qp_err *err);
void qp__fresh_commit(struct qp__files *f, const struct qp_uuid *id, uint64_t seq);
enum qp_rc qp__fresh_forget(struct qp__files *f, const struct qp_uuid *id, struct qp_err *err);

/* files_build.c: a capability of the driver. */
extern const struct qp__driver_build qp__files_build;

/* ---- change_stamp.c ---- */

void qp__files_stamp(void *self, const struct qp_uuid *id, uint8_t out[16]);

/* mirror.c: a driver slot. */
enum qp_rc qp__files_mirror(void *self, struct qp__mirror *job, struct qp_err *err);

/* remove.c: driver slots. */
enum qp_rc qp__files_delete(void *self, const struct qp_uuid *id, bool erase, struct qp_err *err);
enum qp_rc qp__files_wipe(void *self, const char *const *paths, size_t n, struct qp_err *err);
enum qp_rc qp__files_revert(void *self, const struct qp_uuid *id, const char *from,
                            struct qp_err *err);

/* side_files.c: the part of prepare and stage that concerns plain files, and driver slots. */
void qp__plain_prepare(struct qp__files *f, struct qp__driver_change *ch);
void qp__plain_op(const struct qp__driver_change *ch, struct qp__op *op);
enum qp_rc qp__plain_read(void *self, const char *path, uint64_t offset, size_t n,
                          struct qp__buf *out, struct qp_err *err);
enum qp_rc qp__plain_size(void *self, const char *path, uint64_t *size, struct qp_err *err);
enum qp_rc qp__plain_list(void *self, const char *dir, qp__file_visit *visit, void *arg,
                          struct qp_err *err);

/* message_file.c: driver slots. */
enum qp_rc qp__files_read(void *self, void *context, const struct qp__tree *tree,
                          const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err);
enum qp_rc qp__files_salvage(void *self, void *context, const struct qp__tree *tree,
                             const struct qp__entry *entry, struct qp__buf *out,
                             struct qp_err *err);
/* The stored bytes, checked, without a newline; also from another copy. QP_UNAVAILABLE: there is no
 * copy; any other failure says nothing about the message. */
enum qp_rc qp__files_content(struct qp__files *f, struct qp__fctx *c, const struct qp__tree *tree,
                             const struct qp__entry *entry, struct qp__buf *out,
                             struct qp_err *err);
void qp__finds_release(struct qp__finds *finds);
/* The code for a failed system call on a file that should be ours: QP_NOTFOUND, QP_CORRUPT or the
 * code of the error. */
enum qp_rc qp__read_failure(int sys, const char *path, struct qp_err *err);

/* The path of the dictionary of a pack, in `out`, or NULL for a pack without one. */
const char *qp__dict_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const char *pack);
/* Whether any message is in this pack. */
bool qp__pack_is_used(const struct qp__tree *tree, const char *name);
/* Visits the names of the packs that a context has files of, in no order. */
typedef enum qp_rc qp__pack_file_fn(void *arg, const char *name, struct qp_err *err);
enum qp_rc qp__pack_files(struct qp__files *f, const struct qp__fctx *c, qp__pack_file_fn *fn,
                          void *arg, struct qp_err *err);

/* pack_driver.c, repack.c: driver slots. pack_repair.c: a pack that cannot be read to its end is
 * written again with its readable part. The damaged pack is moved to lost/. */
enum qp_rc qp__files_repack(void *self, void *context, struct qp__image *image,
                            enum qp__packing packing, int64_t before, bool dry_run,
                            struct qp_space_report *out, struct qp_err *err);
uint64_t qp__files_pack_bytes(void *self, void *context, const struct qp__tree *tree);
enum qp_rc qp__files_mend_pack(struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
                               const char *pack, struct qp_err *err);

/* trash.c: a driver slot; and what operations that were cut short have left behind: second copies
 * of messages, files in the trash that the index does not know, packs that hold nothing. All
 * visited files can be removed without loss. `path` is relative to the root. */
enum qp_rc qp__files_purge(void *self, void *context, struct qp__image *image, const bool *gone,
                           bool dry_run, struct qp_gc_report *out, struct qp_err *err);
typedef enum qp_rc qp__leftover_fn(void *arg, const char *path, uint64_t bytes, struct qp_err *err);
enum qp_rc qp__leftovers(struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
                         qp__leftover_fn *fn, void *arg, struct qp_err *err);

/* strays.c */
enum qp_rc qp__files_rescue(void *self, void *context, const struct qp__tree *tree,
                            const struct qp__entry *entry, struct qp_bytes content, bool *rescued,
                            struct qp_err *err);

/* files_check.c */
enum qp_rc qp__files_check(void *self, void *context, struct qp__image *image,
                           struct qp__problems *problems, struct qp_err *err);

/* Visits the message files of a context: directory below messages/ ("branch-main"), file name, and
 * the d_type. Foreign names are visited too. A missing messages/ is empty. */
typedef enum qp_rc qp__message_file_fn(void *arg, const char *dir, const char *name,
                                       unsigned char type, struct qp_err *err);
enum qp_rc qp__message_files(struct qp__files *f, const struct qp__fctx *c, qp__message_file_fn *fn,
                             void *arg, struct qp_err *err);
/* Whether the file contains the message of its name, or another message that the tree lacks. */
enum qp_rc qp__message_file_valid(struct qp__files *f, const struct qp__fctx *c,
                                  struct qp__tree *tree, const char *dir, const struct qp_uuid *id,
                                  bool *out, struct qp_err *err);

#endif

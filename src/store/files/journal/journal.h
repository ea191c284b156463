/* journal.h - atomic, durable commits over any number of files.
 *
 * A commit (struct qp__txn) is a list of file operations (file_op.h). It has three steps:
 *   stage    it gets its number and its place in the journal. A failure here changes nothing.
 *   sync     one of the waiting threads, the leader, writes all commits that are staged at that
 *            moment and syncs once for them. With one thread there is no hand-over at all.
 *   apply    the leader applies the operations, group after group in the order of their numbers,
 *            calls each commit's publish function, and wakes its thread. The next group syncs
 *            meanwhile.
 *
 * (1) qp__journal_finish() returns QP_OK only after the sync: an acknowledged commit is never lost.
 * (2) Nothing is applied before it is durable in the journal; so after a crash every change that
 *     can be seen in the files is in the journal or older than the last checkpoint.
 * (3) Commits are applied and published in the order in which they were staged.
 * (4) A failed write, sync or apply stops the journal: it returns QP_IO until it is mended or
 *     opened again, which replays what is durable. Retrying a failed sync could acknowledge lost
 *     data. If only the files of one context fail, only the commits of that context fail, and are
 *     kept for it: see held_commits.h.
 * (5) Readers in other processes can distinguish a journal with an active writer from one that a
 *     crash left: see qp__journal_look in journal_recover.h.
 * (6) The journal has at most MAX_SEGMENTS segments: stage waits for a checkpoint and does not
 *     let it grow.
 *
 * A checkpoint syncs the file system and then forgets the segments that were applied before it. All
 * functions may be called from any thread, except open and close. */
#ifndef QP_STORE_FILES_JOURNAL_JOURNAL_H
#define QP_STORE_FILES_JOURNAL_JOURNAL_H

#include "base/buf.h"
#include "base/log.h"
#include "os/os.h"
#include "store/files/journal/file_op.h"

struct qp__journal;

/* Called in commit order by the leading thread; must be quick and must not call the journal. */
typedef void qp__publish_fn(void *arg);

enum qp__txn_state { QP__TXN_NEW, QP__TXN_STAGED, QP__TXN_DONE };

/* One commit. Lives on the caller's stack or heap from init to release; after a successful stage it
 * must be finished before it is released. */
struct qp__txn {
  struct qp__buf frame; /* frame header, then the encoded operations */
  uint32_t op_count;
  char **staged;      /* per operation: name in tmp/ of a PUT's content, or NULL */
  bool *done_already; /* per operation: carried out before staging (building a tree in tmp/) */
  size_t staged_cap;
  qp__publish_fn *publish; /* or NULL */
  void *publish_arg;
  /* the journal's */
  enum qp__txn_state state;
  uint64_t seq;
  bool taken;     /* by a leader */
  size_t segment; /* which of the journal's segments, by count since it was opened */
  uint64_t offset;
  enum qp_rc rc;
  struct qp_err err;
  struct qp__txn *next;
};

enum qp_rc qp__txn_init(struct qp__txn *txn, struct qp_err *err);
void qp__txn_release(struct qp__txn *txn);
/* `staged` (may be NULL) is copied; `done`: the operation is applied already. */
enum qp_rc qp__txn_add(struct qp__txn *txn, const struct qp__op *op, const char *staged, bool done,
                       struct qp_err *err);
/* Adds a RENAME with these flags, or an UNLINK. */
enum qp_rc qp__txn_rename(struct qp__txn *txn, const char *from, const char *to, unsigned flags,
                          struct qp_err *err);
enum qp_rc qp__txn_unlink(struct qp__txn *txn, const char *path, struct qp_err *err);

struct qp__journal_options {
  uint64_t segment_bytes;
  bool background; /* a thread prepares segments and checkpoints; else it happens inside calls */
  struct qp__log log;
  /* Called before a group of commits is written, before segments are emptied and before a journal
   * is mended: whether this process may still write to the data directory. A failure stops the
   * journal. NULL: it may. */
  enum qp_rc (*may_write)(void *arg, struct qp_err *err);
  void *may_write_arg;
};

/* Opens root/journal, replays interrupted commits, checkpoints them and empties root/tmp. `root`
 * and `tmp` stay the caller's and must outlive the journal; the caller holds the writer lock. */
enum qp_rc qp__journal_open(const struct qp__os *os, int root, int tmp,
                            const struct qp__journal_options *options, struct qp__journal **out,
                            struct qp_err *err);
/* Checkpoints, unless poisoned, and frees. No commit may be under way. */
void qp__journal_close(struct qp__journal *j);

/* On QP_OK the commit has its place in the order; finish it, without holding a lock that publish or
 * another stage needs. On failure nothing has happened. */
enum qp_rc qp__journal_stage(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err);
enum qp_rc qp__journal_finish(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err);

/* Refuses commits until it is mended. `lost`: recent writes to the files may be lost. */
void qp__journal_poison(struct qp__journal *j, const struct qp_err *cause, bool lost);
/* Makes all files of the data directory durable. A failure poisons the journal: it still contains
 * the commits that the files may have lost. */
enum qp_rc qp__journal_sync_files(struct qp__journal *j, struct qp_err *err);
/* Whether it is poisoned: QP_FULL, QP_READONLY or QP_NOMEM if that is the reason, otherwise QP_IO;
 * QP_OK: it is not. */
enum qp_rc qp__journal_check(struct qp__journal *j, struct qp_err *err);

/* Does for a stopped journal, in place, what opening does: waits until no thread works in it. Then
 * each failed commit is applied completely or forgotten, in their order; after the first forgotten
 * one all are forgotten. The files are durable then. It stays stopped until resume, so that callers
 * can correct what they remember of the files. On failure some of this may be done, and nothing
 * else has changed; it can be tried again. */
enum qp_rc qp__journal_mend(struct qp__journal *j, struct qp_err *err);
void qp__journal_resume(struct qp__journal *j);

/* Whether commits of this context wait for its files (held_commits.h): it must not be read then. */
bool qp__journal_holds(struct qp__journal *j, const char *id);
/* How often held changes of an item other than a context were applied. */
unsigned qp__journal_releases(struct qp__journal *j);
/* Tries to apply them; QP_OK also if there are none. The context must not be open for writing. */
enum qp_rc qp__journal_release(struct qp__journal *j, const char *id, struct qp_err *err);

enum qp_rc qp__journal_checkpoint(struct qp__journal *j, struct qp_err *err);
/* Returns when everything that was written below the root before the call is durable and no commit
 * that was staged before it will ever be replayed, however many are added meanwhile. */
enum qp_rc qp__journal_barrier(struct qp__journal *j, struct qp_err *err);
/* The same, and the journal's files contain no bytes of those commits any more, durably. */
enum qp_rc qp__journal_scrub(struct qp__journal *j, struct qp_err *err);
/* Returns when no commit up to this number will ever be replayed, whatever happens: a commit that
 * only renames must not follow one that uses the same names. */
enum qp_rc qp__journal_forget(struct qp__journal *j, uint64_t seq, struct qp_err *err);
/* Commits up to this number will never be replayed: the plain files have them for good. */
uint64_t qp__journal_forgotten(struct qp__journal *j);

struct qp__journal_stats {
  uint64_t commits;
  uint64_t syncs;
  uint64_t checkpoints;
  uint64_t recovered;
};
void qp__journal_stats(struct qp__journal *j, struct qp__journal_stats *out);

#endif

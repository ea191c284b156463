/* quipu_backup.h - the part of quipu.h that copies whole stores: backup and restore. */
#ifndef QUIPU_BACKUP_H
#define QUIPU_BACKUP_H

#include "quipu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QP_BACKUP_NAME 48

enum qp_backup_flags {
  QP_BACKUP_NO_CHECK = 1u << 0, /* do not check the messages of the copy */
  QP_RESTORE_REPLACE = 1u << 1, /* restore over a store that is there; the old files are kept */
};

/* What is going on ("copying", "checking", "hashing") and what is done of it, now and then. Must
 * not call the library. */
typedef void qp_backup_progress(void *arg, const char *phase, uint64_t files, uint64_t bytes);

/* Start from {.size = sizeof(struct qp_backup_options)}; a zero field means its default. */
struct qp_backup_options {
  size_t size;
  unsigned flags; /* enum qp_backup_flags */
  unsigned keep;  /* after a backup: delete all but the newest `keep` of this directory; 0: none */
  qp_backup_progress *progress; /* default: none */
  qp_problem_visit *problem;    /* what the check of the copy finds; default: none */
  void *arg;                    /* of both */
};

struct qp_backup_report {
  char name[QP_BACKUP_NAME]; /* of the backup, in its directory */
  uint64_t files;            /* in the backup, and their bytes */
  uint64_t bytes;
  uint64_t copied; /* files that were read and written, some of them several times */
  uint64_t copied_bytes;
  uint64_t cloned;    /* of these, the ones that share their blocks with the store's (reflink) */
  uint64_t linked;    /* unchanged files, shared with the backup before */
  uint64_t rounds;    /* how often changes were looked for */
  uint64_t paused_ms; /* how long the writer was held */
  uint64_t problems;  /* found by the check; the store has them too */
  uint64_t removed;   /* older backups that were deleted */
};

/* Copies the store to a new directory below `dir`, as of one commit, while this or other processes
 * go on writing. Every change that was acknowledged before the call is in it. The backup appears
 * when it is whole, durable and checked. `store` may have been opened for reading only.
 * QP_BUSY: another backup is being made in `dir`, or the store changes too fast. QP_INVALID: the
 * store has no files. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_backup(struct qp_store *store, const char *dir,
                                                const struct qp_backup_options *options,
                                                struct qp_backup_report *out, struct qp_err *err);

/* Makes a data directory of a backup: the directory of one, or one that holds several, of which the
 * newest counts. Every file is compared with the hash that was taken with the backup, and the
 * result is checked before it takes its place. QP_EXISTS: `dir` is not empty; with
 * QP_RESTORE_REPLACE what was there is kept in `dir`/replaced-{time}. QP_CORRUPT: the backup is
 * damaged; `dir` has not changed. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_restore(const char *backup, const char *dir,
                                                 const struct qp_backup_options *options,
                                                 struct qp_backup_report *out, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

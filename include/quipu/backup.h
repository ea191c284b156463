/* quipu/backup.h - backup and restore of a whole store. The rules of quipu.h hold here. */
#ifndef QUIPU_BACKUP_H
#define QUIPU_BACKUP_H

#include "quipu/check.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QP_BACKUP_NAME 48

enum qp_backup_flags {
  QP_BACKUP_NO_CHECK = 1u << 0, /* do not check the messages of the copy */
  QP_RESTORE_REPLACE = 1u << 1, /* restore over an existing store; its files are kept */
};

/* Reports the phase ("copying", "checking", "hashing") and what was done in it, from time to time.
 * Must not call the library. */
typedef void qp_backup_progress(void *arg, const char *phase, uint64_t files, uint64_t bytes);

struct qp_backup_options {
  size_t size;
  unsigned flags; /* enum qp_backup_flags */
  unsigned keep;  /* after a backup: delete all but the newest `keep` backups; 0: delete none */
  qp_backup_progress *progress; /* may be NULL */
  qp_problem_visit *problem;    /* called for each problem in the copy; may be NULL */
  void *arg;                    /* of both callbacks */
};

struct qp_backup_report {
  char name[QP_BACKUP_NAME]; /* name of the backup in its directory */
  uint64_t files;            /* in the backup */
  uint64_t bytes;            /* of these files */
  uint64_t copied;           /* files that were copied; a file that changed counts again */
  uint64_t copied_bytes;
  uint64_t cloned;    /* of the copied files: share their blocks with the store (reflink) */
  uint64_t linked;    /* unchanged files that are shared with the previous backup */
  uint64_t rounds;    /* how often changed files were copied again */
  uint64_t paused_ms; /* how long writers had to wait */
  uint64_t problems;  /* found by the check; the store has them too */
  uint64_t removed;   /* older backups that were deleted */
};

/* Copies the store to a new directory below `dir`, in the state of one commit, while this and other
 * processes continue to write. Every change that was acknowledged before the call is in the backup.
 * The backup appears in `dir` when it is complete, durable and checked. `store` may be read-only.
 * `options` may be NULL. QP_BUSY: another backup is running in `dir`, or the store changes too
 * fast. QP_INVALID: the store has no files. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_backup(struct qp_store *store, const char *dir,
                                                const struct qp_backup_options *options,
                                                struct qp_backup_report *out, struct qp_err *err);

/* Makes the data directory `dir` from `backup`: the directory of one backup, or a directory that
 * holds several, of which the newest is used. Every file is compared with its recorded hash, and
 * the result is checked before it appears in `dir`. `options` may be NULL. QP_EXISTS: `dir` is not
 * empty; with QP_RESTORE_REPLACE its files are moved to `dir`/replaced-{time}. QP_CORRUPT: the
 * backup is damaged; `dir` was not changed. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_restore(const char *backup, const char *dir,
                                                 const struct qp_backup_options *options,
                                                 struct qp_backup_report *out, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

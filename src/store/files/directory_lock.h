/* directory_lock.h - who may write in a data directory, and what a server announces to others.
 *
 * Three files and locks, which were one file in older versions:
 *   the lock       an exclusive flock on the data directory itself and on quipu.lock in it. The
 *                  directory cannot be replaced without its contents, so deleting or replacing
 *                  quipu.lock admits no second writer. quipu.lock is for older versions, which
 *                  lock nothing else, and for file systems that cannot lock a directory (NFS).
 *   quipu.lock     one line for people and for other processes: process id, the URL of the server.
 *                  Written in place without a sync. Nothing depends on it.
 *   turns.open     an empty file that exists while an engine runs; it stays if the engine is
 *                  interrupted. Durable before the first turn, removed after the last. */
#ifndef QP_STORE_FILES_DIRECTORY_LOCK_H
#define QP_STORE_FILES_DIRECTORY_LOCK_H

#include <stdbool.h>
#include <sys/stat.h>

#include "os/os.h"
#include "quipu.h"

#define QP__LOCK_NAME "quipu.lock"
#define QP__LOCK_URL_MAX 150

struct qp__lock {
  const struct qp__os *os;
  int root;         /* the caller's */
  int fd;           /* of quipu.lock; -1: the lock is not held */
  int base;         /* where a relative `where` begins; -1: `where` is absolute */
  char *where;      /* the data directory as the user named it */
  struct stat dir;  /* the directory that is locked … */
  struct stat file; /* … and the file */
  bool dir_locked;  /* false: the file system cannot */
  char url[QP__LOCK_URL_MAX + 1];
};

void qp__lock_init(struct qp__lock *l);
/* Makes this process the only writer below `root`, which was opened by the name `where`. `fresh`:
 * the directory is empty. QP_BUSY: another process has the lock; the message names it. QP_CORRUPT:
 * the store is of a newer version. Release it, also after a failure. */
enum qp_rc qp__lock_take(struct qp__lock *l, const struct qp__os *os, int root, const char *where,
                         bool fresh, struct qp_err *err);
void qp__lock_release(struct qp__lock *l);

/* Whether the locked directory and file still have their names. QP_IO: another process that opens
 * the data directory by its name gets another directory, so writing must stop. Two calls of
 * stat(2): cheap enough for every group of commits. May be called from any thread. */
enum qp_rc qp__lock_check(const struct qp__lock *l, struct qp_err *err);

/* Announces the server's URL to others; "": no server. */
enum qp_rc qp__lock_announce(struct qp__lock *l, const char *url, struct qp_err *err);
/* An engine starts (`open`), or it ends after all its turns have ended; durable. *left: the last
 * engine was interrupted, or this is unknown. */
enum qp_rc qp__lock_mark(struct qp__lock *l, bool open, bool *left, struct qp_err *err);

/* QP_CORRUPT: the store is of a newer version. Needs no lock. */
enum qp_rc qp__lock_check_version(const struct qp__os *os, int root, const char *where,
                                  struct qp_err *err);

#endif

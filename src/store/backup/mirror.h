/* mirror.h - a copy of a store's files as of one commit, made while others write. A driver
 * implements it for backups (backup.c). */
#ifndef QP_STORE_BACKUP_MIRROR_H
#define QP_STORE_BACKUP_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

struct qp__mirror {
  int to;       /* the directory of the copy; descriptors of the store's os */
  int previous; /* an older copy of the same store, or -1: unchanged files are hard links to it */
  int64_t previous_ms;             /* when that copy was started */
  int64_t began_ms;                /* when this copy was started: the same in every call */
  struct qp_backup_report *report; /* counts up copied, linked, cloned, rounds and paused */
  void (*progress)(void *arg);     /* called from time to time; or NULL */
  void *arg;
  bool
      crashed; /* out: the writer has crashed; its commits must be completed before the next call */
};

#endif

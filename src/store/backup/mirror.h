/* mirror.h - a copy of a store's files as of one commit, made while others write: what a driver
 * does for a backup (backup.c). */
#ifndef QP_STORE_BACKUP_MIRROR_H
#define QP_STORE_BACKUP_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

struct qp__mirror {
  int to;              /* the directory that becomes the copy; descriptors of the store's os */
  int previous;        /* an older copy of the same store, or -1: files that have not changed since
                       * are linked to it */
  int64_t previous_ms; /* when the making of that one began */
  int64_t began_ms;    /* when the making of this one began: the same in every call */
  struct qp_backup_report *report; /* copied, linked, cloned, rounds and paused are counted up */
  void (*progress)(void *arg);     /* or NULL; called now and then */
  void *arg;
  bool crashed; /* out: the writer has died; its commits must be finished before the next call */
};

#endif

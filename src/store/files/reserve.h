/* reserve.h - space that is reserved for operations that free space.
 *
 * journal/reserve is a file without content that occupies space. On a full disk it is released, so
 * that a recovery can be finished and contexts can be deleted, compressed and collected: all of
 * these need some space first. While it is released, every operation that makes the store grow is
 * refused with QP_FULL; otherwise it would use that space at once. It is created again as soon as
 * there is room for it and some more. This is checked when a caller asks whether the store accepts
 * writes, at most once per second.
 *
 * Its size is two segments of the journal (16 MiB): one for a missing segment, one for the files
 * that a replay or a deletion writes before it removes others. On a small disk it is a 32nd of
 * that. On a file system that cannot reserve space there is no reserve.
 *
 * All functions except init and release may be called from any thread. */
#ifndef QP_STORE_FILES_RESERVE_H
#define QP_STORE_FILES_RESERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/mutex.h"
#include "os/os.h"
#include "quipu.h"

#define QP__RESERVE_PATH "journal/reserve"

struct qp__reserve {
  const struct qp__os *os; /* NULL: there is no reserve, nothing is refused */
  int root;                /* the caller's */
  struct qp__log log;
  uint64_t size;         /* of the file */
  uint64_t margin;       /* less than this is called full */
  struct qp__mutex lock; /* guards the file and the fields below */
  int64_t looked_ms;     /* time of the last attempt to create it */
  atomic_bool full;      /* the last check or write found too little space */
  atomic_bool given;     /* it is released */
};

/* The directory `journal` exists. `most`: the size on a large disk. */
void qp__reserve_init(struct qp__reserve *r, const struct qp__os *os, int root, uint64_t most,
                      const struct qp__log *log);
void qp__reserve_release(struct qp__reserve *r);

/* At the start, after the recovery: creates the file if it is missing, and checks the free
 * space. */
void qp__reserve_start(struct qp__reserve *r);
/* Releases it. False: it did not exist. */
bool qp__reserve_give(struct qp__reserve *r);
/* Before an operation that frees space: releases it if almost no space is left. */
void qp__reserve_before(struct qp__reserve *r);
/* A write failed because the disk is full. */
void qp__reserve_note(struct qp__reserve *r);

/* Whether there is space: QP_FULL with a message. Checks again if there was none. */
enum qp_rc qp__reserve_check(struct qp__reserve *r, struct qp_err *err);
/* Whether the store may grow; QP_FULL while the reserve is released. */
enum qp_rc qp__reserve_admit(struct qp__reserve *r, struct qp_err *err);

#endif

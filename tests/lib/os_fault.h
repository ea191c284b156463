/* os_fault.h - a wrapper of any struct qp__os that counts the calls and makes a chosen one fail.
 *
 * Counted are the calls of every function in enum qp__os_slot that the filters select; pid, the
 * clocks and close never fail. A call that is made to fail does not reach the inner implementation.
 * To try every point of failure, a test arms n = 1, 2, 3, … until qp__os_fault_fired() returns
 * false. All functions may be called from any thread, except new and free. */
#ifndef QP_OS_FAULT_H
#define QP_OS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"

struct qp__os_fault;

enum qp__os_slot {
  QP__SLOT_OPEN_ROOT,
  QP__SLOT_OPENAT,
  QP__SLOT_PREAD,
  QP__SLOT_PWRITE,
  QP__SLOT_FTRUNCATE,
  QP__SLOT_SET_MTIME,
  QP__SLOT_FDATASYNC,
  QP__SLOT_FSYNC,
  QP__SLOT_SYNCFS,
  QP__SLOT_FSTAT,
  QP__SLOT_FSTATAT,
  QP__SLOT_MKDIRAT,
  QP__SLOT_UNLINKAT,
  QP__SLOT_RENAMEAT,
  QP__SLOT_LISTDIR,
  QP__SLOT_LINKAT,
  QP__SLOT_CLONE,
  QP__SLOT_FLOCK,
  QP__SLOT_RANDOM,
  QP__SLOT_STAT_ROOT,
  QP__SLOT_ALLOCATE,
  QP__SLOT_SPACE,
  QP__SLOT__MAX,
};

enum qp__os_fault_kind {
  QP__FAULT_EIO,    /* the call returns -EIO */
  QP__FAULT_ENOSPC, /* -ENOSPC from a call that can need space, -EIO from the others */
  QP__FAULT_EINTR,  /* -EINTR, once, from openat, pread, pwrite, flock or a sync */
  QP__FAULT_SHORT,  /* a pread or pwrite of 2 bytes or more transfers half of them */
};

/* `inner` must outlive it. NULL: out of memory. */
struct qp__os_fault *qp__os_fault_new(const struct qp__os *inner);
void qp__os_fault_free(struct qp__os_fault *f); /* NULL is allowed; does not close descriptors */

/* Borrowed; valid until free. */
const struct qp__os *qp__os_fault_os(struct qp__os_fault *f);

/* The nth counted call from now on fails (1, and also 0: the next one); if the kind does not apply
 * to that call, the next call to which it applies. `persistent`: every later call fails as well,
 * until disarmed; not for QP__FAULT_EINTR, which would never end. */
void qp__os_fault_arm(struct qp__os_fault *f, uint64_t n, enum qp__os_fault_kind kind,
                      bool persistent);
void qp__os_fault_disarm(struct qp__os_fault *f);
/* Whether a call failed since it was last armed. */
bool qp__os_fault_fired(struct qp__os_fault *f);

/* Counts and fails only calls about a path that contains `part`: the path of the directory
 * descriptor and the given path, or the path of the descriptor. Paths begin below the root; only
 * open_root uses the path of the user. NULL: all calls. -ENOMEM. */
int qp__os_fault_filter(struct qp__os_fault *f, const char *part);
/* Counts and fails only calls of this function; QP__SLOT__MAX: of all. */
void qp__os_fault_only(struct qp__os_fault *f, enum qp__os_slot slot);

/* Counted calls since the start or since reset: of all functions, of one. */
uint64_t qp__os_fault_calls(struct qp__os_fault *f);
uint64_t qp__os_fault_count(struct qp__os_fault *f, enum qp__os_slot slot);
void qp__os_fault_reset(struct qp__os_fault *f);

/* Descriptors that were opened through it and not closed yet. */
uint64_t qp__os_fault_open_count(struct qp__os_fault *f);

#endif

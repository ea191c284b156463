/* os_count.h - a wrapper of another struct qp__os that counts the calls, for the statistics of a
 * store. Tests use it to show that reading operations do not touch the disk. */
#ifndef QP_OS_OS_COUNT_H
#define QP_OS_OS_COUNT_H

#include <stdatomic.h>

#include "os/os.h"

struct qp__os_count {
  struct qp__os os; /* the interface for users */
  const struct qp__os *inner;
  atomic_ullong opens;  /* files and directories */
  atomic_ullong reads;  /* reads, listings, stat calls */
  atomic_ullong writes; /* of bytes, lengths and times */
  atomic_ullong names;  /* created, renamed or removed */
  atomic_ullong syncs;
};

/* `inner` and *c must outlive the use of c->os; *c must not be moved. */
void qp__os_count_init(struct qp__os_count *c, const struct qp__os *inner);

#endif

/* os_count.h - a twin of another struct qp__os that counts what passes, for the statistics of a
 * store: what changes nothing must not touch the disk, and this shows it. */
#ifndef QP_OS_OS_COUNT_H
#define QP_OS_OS_COUNT_H

#include <stdatomic.h>

#include "os/os.h"

struct qp__os_count {
  struct qp__os os; /* what others use */
  const struct qp__os *inner;
  atomic_ullong opens;  /* files and directories */
  atomic_ullong reads;  /* reads, listings, looks at the state of a file */
  atomic_ullong writes; /* of bytes, lengths and times */
  atomic_ullong names;  /* made, renamed or removed */
  atomic_ullong syncs;
};

/* `inner` and *c must outlive the use of c->os; *c must not be moved. */
void qp__os_count_init(struct qp__os_count *c, const struct qp__os *inner);

#endif

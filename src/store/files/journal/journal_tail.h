/* journal_tail.h - follows the journal of a store that another process may be writing.
 *
 * A tail reports the path of every file that a commit changes, once the commit is in the journal:
 * that is before the file changes. If commits may have been missed (the writer has emptied a
 * segment that was not read yet, or another writer has begun) it reports that and continues. */
#ifndef QP_STORE_FILES_JOURNAL_JOURNAL_TAIL_H
#define QP_STORE_FILES_JOURNAL_JOURNAL_TAIL_H

#include <stdbool.h>

#include "base/buf.h"
#include "os/os.h"
#include "store/files/journal/segment.h"

/* `path` is relative to the data directory and not below tmp/; a directory means everything in
 * it. */
typedef enum qp_rc qp__jtail_fn(void *arg, const char *path, struct qp_err *err);

struct qp__jtail {
  const struct qp__os *os;
  int dir; /* journal/, or -1 while it does not exist */
  int root;
  qp__jtail_fn *fn;
  void *arg;
  struct qp__segment segment; /* the segment that is read; fd -1: none yet */
  uint64_t pos;
  uint64_t seq;    /* of the last frame that was read; 0: none yet */
  uint64_t frames; /* read so far */
  uint64_t odd;    /* the segment without a valid header when the first was searched; 0: none */
  bool gap;        /* commits may have been missed; the caller clears it */
  struct qp__buf buf;
};

void qp__jtail_init(struct qp__jtail *t, const struct qp__os *os, int root, qp__jtail_fn *fn,
                    void *arg);
void qp__jtail_release(struct qp__jtail *t);
/* Reads what was added since the last call. */
enum qp_rc qp__jtail_poll(struct qp__jtail *t, struct qp_err *err);

#endif

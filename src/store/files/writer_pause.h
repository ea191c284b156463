/* writer_pause.h - how a backup in one process and the writer in another agree on a quiet moment.
 *
 * Two locks (flock) on directories that every store has; nothing is written for them:
 *   gate   tmp/       the writer takes it shared for an instant before it writes a group of
 *                     commits; a backup holds it exclusively during its pause
 *   busy   contexts/  the writer holds it shared while it writes or applies a group; a backup that
 *                     has the gate takes it exclusively once and releases it at once, which waits
 *                     for the groups under way
 * While a backup has the gate and has seen no busy writer, every commit is applied completely and
 * no new commit begins. The writer waits at the gate for a limited time only. A backup finds out
 * afterwards, from the journal, whether something was committed in the pause. A backup does not
 * keep `busy`, so that the next backup sees a writer that has stopped waiting for this one. */
#ifndef QP_STORE_FILES_WRITER_PAUSE_H
#define QP_STORE_FILES_WRITER_PAUSE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/log.h"
#include "base/mutex.h"
#include "os/os.h"

/* ---- the writer's side ---- */

struct qp__gate {
  const struct qp__os *os;
  struct qp__log log;
  int tmp;            /* the caller's */
  uint64_t session;   /* a random number of this journal (segment.h), or 0 */
  int contexts;       /* -1: not used, as in tests of the journal alone */
  unsigned inside;    /* threads between enter and leave */
  bool impatient;     /* a pause took too long: the gate does not count until it was open again */
  pthread_cond_t nap; /* never signalled: for waiting a moment */
};

/* The moment that lies `ms` ahead, for a condition variable with the monotonic clock. */
struct timespec qp__mono_after(const struct qp__os *os, int64_t ms);

/* Returns inside the gate, for the recovery that follows: leave it. */
void qp__gate_init(struct qp__gate *g, const struct qp__os *os, int root, int tmp,
                   const struct qp__log *log);
void qp__gate_release(struct qp__gate *g);
/* Before anything is written to the files: waits while a backup has the gate. Both are called with
 * `mutex` held; enter releases it while it waits. One thread enters at a time. */
void qp__gate_enter(struct qp__gate *g, struct qp__mutex *mutex);
void qp__gate_leave(struct qp__gate *g);

/* ---- the backup's side ---- */

struct qp__pause {
  int gate; /* tmp/, locked; -1: not locked */
};

/* Waits until the writer is quiet. 0 or -errno; without tmp/ and contexts/, which the first writer
 * creates, there is no writer to wait for. */
int qp__pause_begin(const struct qp__os *os, int root, struct qp__pause *out);
void qp__pause_end(const struct qp__os *os, struct qp__pause *p);

#endif

/* reserve.h - room that is kept for what makes room.
 *
 * journal/reserve is a file without content that takes up space. On a full disk it is given up, so
 * that a recovery can be finished and contexts can be deleted, compressed and collected: all of
 * these need a little room first. While it is given up, whatever would make the store grow is
 * refused with QP_FULL, else that would eat up the room at once. It is made again as soon as there
 * is room for it and some more; who asks whether the store takes writes has it looked after, at
 * most once a second.
 *
 * Its size is two segments of the journal (16 MiB): one for a segment when there is none, one for
 * the files that a replay or a deletion writes before it removes others. On a small disk it is a
 * 32nd of that. Where the file system cannot set room aside there is no reserve.
 *
 * All functions may be called from any thread, init and release excepted. */
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
  struct qp__mutex lock; /* of the file and the rest */
  int64_t looked_ms;     /* when it was last tried to make it */
  atomic_bool full;      /* there was too little room when somebody looked or wrote */
  atomic_bool given;     /* it is given up */
};

/* The directory `journal` is there. `most`: the size on a large disk. */
void qp__reserve_init(struct qp__reserve *r, const struct qp__os *os, int root, uint64_t most,
                      const struct qp__log *log);
void qp__reserve_release(struct qp__reserve *r);

/* At the start, after the recovery: makes it if it is not there, and sees what room there is. */
void qp__reserve_start(struct qp__reserve *r);
/* Gives it up. False: there was none. */
bool qp__reserve_give(struct qp__reserve *r);
/* Before something that makes room: gives it up if there is next to none. */
void qp__reserve_before(struct qp__reserve *r);
/* A write found no room. */
void qp__reserve_note(struct qp__reserve *r);

/* Whether there is room: QP_FULL with a sentence. Looks again if there was none. */
enum qp_rc qp__reserve_check(struct qp__reserve *r, struct qp_err *err);
/* Whether the store may grow; QP_FULL while the reserve is given up. */
enum qp_rc qp__reserve_admit(struct qp__reserve *r, struct qp_err *err);

#endif

/* journal_int.h - shared by the parts of the journal: journal.c stages, syncs and applies commits;
 * journal_life.c opens, mends and closes it, and releases held contexts.
 *
 * Locking: `lock` guards every field below "shared". A leader works without it: `syncing` excludes
 * other leaders from the sync step, and the apply step is entered in the order of commit numbers
 * (applied_seq), so the applier and the segment files have one user each at any time.
 *
 * Segments: live[0 .. live_count) are in use, the last one receives frames; `spare` is ready to
 * follow it. A segment before the last one is retired: a checkpoint forgets it once all its commits
 * are applied. */
#ifndef QP_STORE_FILES_JOURNAL_JOURNAL_INT_H
#define QP_STORE_FILES_JOURNAL_JOURNAL_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mutex.h"
#include "store/files/journal/held_commits.h"
#include "store/files/journal/journal.h"
#include "store/files/journal/segment.h"
#include "store/files/writer_pause.h"

#define MAX_SEGMENTS 4
#define GROUP_BYTES ((size_t)1 << 20) /* frames up to this many bytes are written with one call */
#define WAKE_SLOTS 64                 /* commits that wait are spread over these by their numbers */

struct qp__journal {
  const struct qp__os *os;
  int root;
  int dir;
  struct qp__journal_options options;
  struct qp__applier applier; /* of the thread in the apply station */
  struct qp__buf group;       /* of the thread in the sync station */

  /* shared */
  struct qp__mutex lock;
  pthread_cond_t wake[WAKE_SLOTS]; /* a commit is finished, or may lead */
  pthread_cond_t turn;             /* applied_seq or poison or live_count changed */
  pthread_cond_t wanted;           /* the background thread has something to do */
  struct qp__segment live[MAX_SEGMENTS];
  size_t live_count;
  size_t live_base; /* count of live[0] since open */
  struct qp__segment spare;
  uint64_t next_number;
  uint64_t next_seq;      /* of the next commit to be staged */
  uint64_t applied_seq;   /* all commits up to here are applied */
  uint64_t forgotten_seq; /* no segment contains a commit up to this number */
  struct qp__txn *queue;  /* staged, without a leader yet; oldest first */
  struct qp__txn *queue_tail;
  bool syncing;       /* a leader is in the sync station */
  bool checkpointing; /* a thread is in checkpoint() */
  bool preparing;     /* a thread creates the spare */
  bool stopping;
  unsigned leading;   /* threads in the sync or the apply station, or on the way between them */
  enum qp_rc refusal; /* while it is stopped: the code for new writes */
  enum qp_rc poison;
  struct qp_err poison_err;
  bool mend_failed;
  bool lost; /* a sync of the files failed: they may lack commits applied since the last one */
  struct qp__journal_stats stats;
  struct qp__gate gate;       /* for pauses of backups; entered by one thread at a time */
  struct qp__aside_list held; /* contexts whose commits wait: see held_commits.h */
  pthread_t thread;

  atomic_uint held_count;        /* length of `held`, readable without the lock */
  atomic_uint releases;          /* of items other than contexts, so far */
  struct qp__mutex release_lock; /* one context at a time is released; locked before `lock` */
};

/* All with the lock held. Functions that release it while they work say so. */

/* The error of a poisoned journal for new operations: nothing of them will ever be stored. */
enum qp_rc qp__journal_answer(const struct qp__journal *j, struct qp_err *err);
/* Whether this process may still write; needs no lock. */
enum qp_rc qp__journal_may_write(const struct qp__journal *j, struct qp_err *err);
/* Makes the spare segment, at least `size` long; releases the lock meanwhile. */
enum qp_rc qp__journal_prepare_spare(struct qp__journal *j, uint64_t size, struct qp_err *err);
/* How many segments at the front are retired and completely applied. */
size_t qp__journal_applied_segments(const struct qp__journal *j);
/* Whether every commit is applied; there is no commit; a segment should be created ahead. */
bool qp__journal_is_quiet(const struct qp__journal *j);
bool qp__journal_is_empty(const struct qp__journal *j);
bool qp__journal_wants_spare(struct qp__journal *j);
/* Asserts what holds for segments, numbers and the queue whenever the lock is free. */
void qp__journal_invariants(const struct qp__journal *j);
/* See journal.c; both release the lock meanwhile. */
enum qp_rc qp__journal_run_checkpoint(struct qp__journal *j, struct qp_err *err);
void qp__journal_lead(struct qp__journal *j);

#endif

/* journal_recover.h - what happens to the journal's frames after a crash. */
#ifndef QP_STORE_FILES_JOURNAL_JOURNAL_RECOVER_H
#define QP_STORE_FILES_JOURNAL_JOURNAL_RECOVER_H

#include "base/buf.h"
#include "base/log.h"
#include "os/os.h"
#include "quipu.h"
#include "store/files/journal/held_commits.h"
#include "store/files/journal/segment.h"

struct qp__recovery {
  /* in: all zero at the start; for a running store, whose journal is at rest: */
  bool in_place;    /* tmp/ is kept, except guards: other threads have files there */
  bool again;       /* it has failed before: a failure of the disk in one context is that one's */
  uint64_t applied; /* commits up to this number are carried out in the files */
  /* out */
  bool lost;                  /* a sync failed: only the journal has reliable content */
  uint64_t replayed;          /* commits */
  uint64_t last_number;       /* the highest segment number seen */
  struct qp__aside_list held; /* contexts whose commits wait; the caller's, also after a failure */
  struct qp__segment segment; /* an empty segment, ready for use, or fd -1; owned by the caller */
};

/* Replays all valid frames (replay_plan.h), makes the result durable, then empties the segments,
 * oldest first, and root/tmp. Can be interrupted anywhere and run again. The caller holds the
 * writer lock. out->segment.fd must be -1. In place the frames are first written again: after a
 * failed sync the system may consider data durable that it only has in memory. A failure in only
 * one context is held (held_commits.h) and is not an error. */
enum qp_rc qp__journal_recover(const struct qp__os *os, int root, int tmp, int dir,
                               uint64_t segment_bytes, const struct qp__log *log,
                               struct qp__recovery *out, struct qp_err *err);

/* Applies the held commits of an item in a running store; their file is kept. */
enum qp_rc qp__aside_carry_out(const struct qp__os *os, int root, int tmp, int dir, const char *id,
                               struct qp_err *err);

/* What the journal of a data directory means for a reader.
 *
 * A writer locks root/journal itself (flock) as long as the files are the state as of the last
 * applied commit: from the end of its recovery on, and not while it mends. So commits in the
 * journal of a writer with this lock need no attention. Without the lock they were left by a crash,
 * or a recovery is running or has failed, and the files may be incomplete. */
enum qp__journal_state {
  QP__JOURNAL_EMPTY,    /* the files have everything */
  QP__JOURNAL_LIVE,     /* a writer is at work */
  QP__JOURNAL_UNPLAYED, /* the files must not be read before a recovery */
};
enum qp_rc qp__journal_look(const struct qp__os *os, int root, enum qp__journal_state *out,
                            struct qp_err *err);
/* The writer's part. `dir`: root/journal. -errno: readers are excluded. */
int qp__journal_mark_live(const struct qp__os *os, int dir, bool live);

/* Visits the contexts that commits in the journal change, perhaps more than once. Works on the
 * files alone. */
enum qp_rc qp__journal_touched(const struct qp__os *os, int root, qp_context_visit *visit,
                               void *arg, struct qp_err *err);

/* Appends the newest content that the journal still has for `path` to *out; QP_NOTFOUND. Works on
 * the files alone, beside a live writer or without one. */
enum qp_rc qp__journal_salvage(const struct qp__os *os, int root, const char *path,
                               struct qp__buf *out, struct qp_err *err);

#endif

/* recover.h - what happens to the journal's frames after a crash. */
#ifndef QP_STORE_FILES_RECOVER_H
#define QP_STORE_FILES_RECOVER_H

#include "base/buf.h"
#include "base/log.h"
#include "os/os.h"
#include "store/files/segment.h"

struct qp__recovery {
  /* in: all zero at the start; in a running store, whose journal is at rest: */
  bool in_place;    /* tmp/ stays, but for guards: others have files there */
  uint64_t applied; /* commits up to this number are carried out in the files */
  /* out */
  bool lost;                  /* a sync failed: only the journal can tell what the files hold */
  uint64_t replayed;          /* commits */
  uint64_t last_number;       /* the highest segment number seen */
  struct qp__segment segment; /* one that is empty and ready for use, or fd -1; the caller's */
};

/* Replays every valid frame in order, makes the result durable, then empties the segments, oldest
 * first, and root/tmp. Can be interrupted anywhere and run again. The caller holds the writer lock.
 * out->segment.fd must be -1. In place the frames are first written again: after a sync that failed
 * the system may take for durable what it only has in memory. */
enum qp_rc qp__journal_recover(const struct qp__os *os, int root, int tmp, int dir,
                               uint64_t segment_bytes, const struct qp__log *log,
                               struct qp__recovery *out, struct qp_err *err);

/* Whether root/journal holds commits that may not have been applied: a reader's question. */
enum qp_rc qp__journal_pending(const struct qp__os *os, int root, bool *out, struct qp_err *err);

/* Appends the newest content that the journal still has for `path` to *out; QP_NOTFOUND. Works on
 * the files alone, beside a live writer or without one. */
enum qp_rc qp__journal_salvage(const struct qp__os *os, int root, const char *path,
                               struct qp__buf *out, struct qp_err *err);

#endif

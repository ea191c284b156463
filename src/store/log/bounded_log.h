/* bounded_log.h - a chunked log (chunklog.h) that is bounded: the commit that begins a chunk drops
 * the oldest ones, so that at most `keep` are there.
 *
 * Several lines are appended at a time and stand in one chunk. A chunk is full when it has
 * `chunk_bytes` or `chunk_lines`; the next append begins another one. Numbers of chunks only grow.
 *
 * There are two states of a ring, each a list of chunks with what is known of them:
 *   staged  as it is once all commits that are staged are carried out; of the writer, who plans an
 *           append, stages it and then advances
 *   shown   as it is in place; for readers, under *lock, and moved on by publish, in the order of
 *           the commits */
#ifndef QP_STORE_LOG_BOUNDED_LOG_H
#define QP_STORE_LOG_BOUNDED_LOG_H

#include "base/mutex.h"
#include "store/log/chunklog.h"

#define QP__RING_DIR 64 /* "contexts/", a UUID, "/events" */

struct qp__ring_chunk {
  uint32_t n;
  uint64_t first; /* what the owner knows of its first line */
  uint64_t bytes; /* up to the end of its last line */
};

struct qp__ring_chunks {
  struct qp__ring_chunk *list; /* by number */
  size_t count;
  size_t cap;
};

struct qp__ring {
  struct qp__chunklog log; /* its `dir` is the next field: a ring must not be moved */
  char dir[QP__RING_DIR];
  struct qp__mutex *lock; /* of the owner */
  size_t keep;
  uint64_t chunk_bytes;
  uint64_t chunk_lines;
  struct qp__ring_chunks staged;
  struct qp__chunk_end end;
  struct qp__ring_chunks shown;
};

/* Looks which chunks there are and where the newest ends; `first` is 0 then. On failure the ring is
 * as it was. */
enum qp_rc qp__ring_load(struct qp__ring *r, struct qp_err *err);
/* What was found becomes the state of `to`, which keeps what it is otherwise. */
void qp__ring_replace(struct qp__ring *to, struct qp__ring *from);
void qp__ring_release(struct qp__ring *r);
/* A copy of what is shown, released with qp__free(list). */
enum qp_rc qp__ring_copy(struct qp__ring *r, struct qp__ring_chunks *out, struct qp_err *err);

/* One append. */
struct qp__ring_plan {
  struct qp__ring *ring;
  struct qp__buf lines; /* each with its newline; the caller fills it */
  uint64_t line_count;
  struct qp__chunk_plan chunk;
  uint64_t first; /* of the chunk that is begun */
  bool begins;    /* a chunk */
  size_t drops;   /* chunks that go */
  char (*paths)[QP__CHUNK_PATH];
};
/* An empty plan for lines of up to `limit` bytes; NULL: no memory. */
struct qp__ring_plan *qp__ring_plan_new(struct qp__ring *r, size_t limit);
void qp__ring_plan_free(struct qp__ring_plan *p); /* NULL is allowed */

/* When the lines are there: what an append of them is. `first` is that of the chunk if it begins
 * one. */
enum qp_rc qp__ring_plan(struct qp__ring_plan *p, uint64_t first, struct qp_err *err);
/* How many changes it is; and the changes. */
size_t qp__ring_change_count(const struct qp__ring_plan *p);
void qp__ring_changes(const struct qp__ring_plan *p, void *context, struct qp__driver_change *out);
/* Where the lines begin in their chunk. */
uint64_t qp__ring_offset(const struct qp__ring_plan *p);

void qp__ring_advance(struct qp__ring_plan *p); /* staged; cannot fail */
void qp__ring_publish(struct qp__ring_plan *p); /* with *lock held */

#endif

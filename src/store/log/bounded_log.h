/* bounded_log.h - a chunked log (chunklog.h) of limited size: a commit that starts a chunk drops
 * the oldest chunks, so that at most `keep` remain.
 *
 * Several lines are appended at a time, into one chunk. A chunk is full when it has `chunk_bytes`
 * or `chunk_lines`; the next append starts a new chunk. Chunk numbers only increase.
 *
 * There are two states, each a list of chunks:
 *   staged  the state after all staged commits; used by the writer, who plans an append, stages it
 *           and then advances
 *   shown   the state of the files; used by readers, under *lock; publish updates it in the order
 *           of the commits */
#ifndef QP_STORE_LOG_BOUNDED_LOG_H
#define QP_STORE_LOG_BOUNDED_LOG_H

#include "base/mutex.h"
#include "store/log/chunklog.h"

#define QP__RING_DIR 64 /* "contexts/", a UUID, "/events" */

struct qp__ring_chunk {
  uint32_t n;
  uint64_t first; /* the owner's number of its first line */
  uint64_t bytes; /* up to the end of its last line */
};

struct qp__ring_chunks {
  struct qp__ring_chunk *list; /* sorted by number */
  size_t count;
  size_t cap;
};

struct qp__ring {
  struct qp__chunklog log; /* its `dir` points to the next field: the struct must not be moved */
  char dir[QP__RING_DIR];
  struct qp__mutex *lock; /* the lock of the owner */
  size_t keep;
  uint64_t chunk_bytes;
  uint64_t chunk_lines;
  struct qp__ring_chunks staged;
  struct qp__chunk_end end;
  struct qp__ring_chunks shown;
};

/* Finds the chunks and the end of the newest; sets `first` to 0. After a failure nothing has
 * changed. */
enum qp_rc qp__ring_load(struct qp__ring *r, struct qp_err *err);
/* Moves the loaded state of `from` to `to`; other fields of `to` are unchanged. */
void qp__ring_replace(struct qp__ring *to, struct qp__ring *from);
void qp__ring_release(struct qp__ring *r);
/* A copy of the shown state, released with qp__free(list). */
enum qp_rc qp__ring_copy(struct qp__ring *r, struct qp__ring_chunks *out, struct qp_err *err);

/* One append. Thousands can wait for one sync: what only staging needs is freed after it. */
struct qp__ring_plan {
  struct qp__ring *ring;
  /* until qp__ring_advance */
  struct qp__buf lines; /* each with its newline; filled by the caller */
  uint64_t line_count;
  struct qp__chunk_plan *chunk;
  char (*paths)[QP__CHUNK_PATH]; /* of the chunks to drop */
  /* to the end */
  struct qp__chunk_end next; /* the end of the log afterwards */
  uint64_t offset;           /* of the lines in their chunk */
  uint64_t first;            /* of the chunk that is started */
  bool begins;               /* it starts a chunk */
  size_t drops;              /* number of chunks to drop */
};
/* An empty plan for lines of up to `limit` bytes; NULL: out of memory. */
struct qp__ring_plan *qp__ring_plan_new(struct qp__ring *r, size_t limit);
void qp__ring_plan_free(struct qp__ring_plan *p); /* NULL is allowed */

/* When the lines are complete: plans their append. `first` is for a new chunk. */
enum qp_rc qp__ring_plan(struct qp__ring_plan *p, uint64_t first, struct qp_err *err);
/* The number of changes, and the changes. */
size_t qp__ring_change_count(const struct qp__ring_plan *p);
void qp__ring_changes(const struct qp__ring_plan *p, void *context, struct qp__driver_change *out);

void qp__ring_advance(struct qp__ring_plan *p); /* after staging; cannot fail */
void qp__ring_publish(struct qp__ring_plan *p); /* the caller holds *lock */

/* Asserts what holds for both states; for the writer, with *lock held. */
void qp__ring_invariants(const struct qp__ring *r);

#endif

/* chunklog.h - a log of lines in numbered files, for whoever needs one: nothing here knows what a
 * line holds.
 *
 *   {dir}/{name}.1.jsonl   {dir}/{name}.2.jsonl   …   {dir}/{name}.{n}.jsonl
 *
 * n is a decimal number from 1 on without leading zeros. The chunk with the highest number is the
 * current one; lower numbers may be missing. A line ends in a newline; what stands behind the last
 * newline of a chunk is torn: it is never shown, and cut by the first append. A chunk that is full
 * stays current until the next line comes, which opens the next one. No chunk is ever rewritten.
 *
 * {dir}/{name}.jsonl, without a number, is a log from before there were chunks. It counts as number
 * 0: the oldest part. When it is all there is, the first append renames it to chunk 1.
 *
 * A file belongs to exactly one log: "a.b.1.jsonl" is chunk 1 of "a.b" and nothing of "a", and
 * "a.01.jsonl" and "a.x.jsonl" are logs without chunks that are called "a.01" and "a.x".
 *
 * Writing. The writer keeps a struct qp__chunk_end, found once by reading the newest chunk alone;
 * from there on an append reads nothing. qp__chunk_plan says which changes an append is, for the
 * caller's commit; once that is staged the plan's `next` is the new end. Who appends to one log
 * takes turns; readers need no lock, also in other processes: what they find is committed. */
#ifndef QP_STORE_LOG_CHUNKLOG_H
#define QP_STORE_LOG_CHUNKLOG_H

#include "store/driver.h"

#define QP__CHUNK_PATH 384
#define QP__NO_CHUNK UINT32_MAX /* is no chunk's number */

struct qp__chunklog {
  const struct qp__driver *driver;
  void *self;
  const char *dir;  /* borrowed */
  const char *name; /* borrowed; with `dir` at most 300 bytes */
  size_t line_max;  /* longer lines are not brought into memory */
};

void qp__chunk_path(const struct qp__chunklog *log, uint32_t n, char out[QP__CHUNK_PATH]);

/* Takes a file's name apart: the first *name_len bytes are the log's name, *n is the number, 0 for
 * a file without one. False: not the file of a log. */
bool qp__chunk_split(const char *file, size_t *name_len, uint32_t *n);

/* The numbers of a log's files, rising; released with qp__free(list->n). */
struct qp__chunk_list {
  uint32_t *n;
  size_t count;
  size_t cap;
};
enum qp_rc qp__chunk_list(const struct qp__chunklog *log, struct qp__chunk_list *out,
                          struct qp_err *err);

/* ---- writing ---- */

struct qp__chunk_end {
  uint32_t number; /* of the current chunk, 0: of the file without a number; QP__NO_CHUNK: none */
  uint64_t lines;  /* in it */
  uint64_t end;    /* behind its last newline */
  uint64_t torn;   /* bytes that stand there still */
};

/* Counts the lines of chunk `n`, the newest, or QP__NO_CHUNK. */
enum qp_rc qp__chunk_measure(const struct qp__chunklog *log, uint32_t n, struct qp__chunk_end *out,
                             struct qp_err *err);

struct qp__chunk_plan {
  struct qp__driver_change changes[4];
  size_t count;
  struct qp__chunk_end next;
  char paths[3][QP__CHUNK_PATH]; /* the file without a number, the current chunk, the next one */
};

/* The changes that append `line`, which ends in its newline, or, when `line` is empty, only cut
 * what is torn. `copy` is NULL, or the content of the file without a number up to now->end: chunk 1
 * is then written anew instead of renamed, as it must be when this store may have written and
 * dropped a chunk 1 before (QP__CHANGE_FILE_RENAME). *out points into itself, to `line` and to
 * *copy. QP_FULL: there is no higher number. */
enum qp_rc qp__chunk_plan(const struct qp__chunklog *log, const struct qp__chunk_end *now,
                          struct qp_bytes line, uint32_t capacity, const struct qp_bytes *copy,
                          struct qp__chunk_plan *out, struct qp_err *err);

/* ---- reading ---- */

struct qp__chunk_line {
  struct qp_bytes text; /* without the newline; data NULL: longer than line_max */
  uint32_t chunk;
  uint64_t start; /* in the chunk */
  uint64_t end;   /* behind the newline */
  bool *stop;     /* set it to true to end the reading */
};
/* An answer other than QP_OK ends the reading and is returned. `line` is borrowed. */
typedef enum qp_rc qp__chunk_line_fn(void *arg, const struct qp__chunk_line *line,
                                     struct qp_err *err);

/* Visits lines from the newest to the oldest, from chunk `newest` on downwards. Reads
 * backwards in pieces, and no older piece before it is needed. QP_NOTFOUND: `newest` is not there,
 * or no longer. */
enum qp_rc qp__chunklog_back(const struct qp__chunklog *log, uint32_t newest, qp__chunk_line_fn *fn,
                             void *arg, struct qp_err *err);
/* Visits the lines of chunk `n` between the offsets `from` and `to` (UINT64_MAX: to the last
 * newline), oldest first. *torn (may be NULL) receives how many bytes stand behind the last newline
 * before `to`. */
enum qp_rc qp__chunk_forward(const struct qp__chunklog *log, uint32_t n, uint64_t from, uint64_t to,
                             qp__chunk_line_fn *fn, void *arg, uint64_t *torn, struct qp_err *err);

#endif

/* chunklog.h - a log of lines in numbered files. Nothing here depends on the content of a line.
 *
 *   {dir}/{name}.1.jsonl   {dir}/{name}.2.jsonl   …   {dir}/{name}.{n}.jsonl
 *
 * n is a decimal number from 1 without leading zeros. The chunk with the highest number is current;
 * lower numbers may be missing. A line ends with a newline. Bytes after the last newline of a chunk
 * are torn: they are never shown, and the first append cuts them. A full chunk stays current until
 * the next line, which starts a new chunk. No chunk is ever rewritten.
 *
 * {dir}/{name}.jsonl, without a number, is a log of a program that did not know chunks. It counts
 * as number 0: the oldest part. If it is the only file, the first append renames it to chunk 1.
 *
 * A file belongs to exactly one log: "a.b.1.jsonl" is chunk 1 of "a.b" and does not belong to "a";
 * "a.01.jsonl" and "a.x.jsonl" are logs without chunks, with the names "a.01" and "a.x".
 *
 * Writing. The writer keeps a struct qp__chunk_end, found once by reading only the newest chunk;
 * after that an append reads nothing. qp__chunk_plan lists the changes of an append for the
 * caller's commit; after staging, the plan's `next` is the new end. Only one thread may append to a
 * log at a time. Readers need no lock, also in other processes: they see committed lines only. */
#ifndef QP_STORE_LOG_CHUNKLOG_H
#define QP_STORE_LOG_CHUNKLOG_H

#include "store/driver.h"

#define QP__CHUNK_PATH 384
#define QP__NO_CHUNK UINT32_MAX /* not a chunk number */

struct qp__chunklog {
  const struct qp__driver *driver;
  void *self;
  const char *dir;  /* borrowed */
  const char *name; /* borrowed; with `dir` at most 300 bytes */
  size_t line_max;  /* longer lines are not read into memory */
};

void qp__chunk_path(const struct qp__chunklog *log, uint32_t n, char out[QP__CHUNK_PATH]);

/* Splits a file name: the first *name_len bytes are the name of the log, *n is the number, 0 for a
 * file without one. False: not the file of a log. */
bool qp__chunk_split(const char *file, size_t *name_len, uint32_t *n);

/* The numbers of a log's files, increasing; released with qp__free(list->n). */
struct qp__chunk_list {
  uint32_t *n;
  size_t count;
  size_t cap;
};
enum qp_rc qp__chunk_list(const struct qp__chunklog *log, struct qp__chunk_list *out,
                          struct qp_err *err);

/* ---- writing ---- */

struct qp__chunk_end {
  uint32_t number; /* of the current chunk; 0: the file without a number; QP__NO_CHUNK: no file */
  uint64_t lines;  /* in this chunk */
  uint64_t end;    /* offset after its last newline */
  uint64_t torn;   /* bytes after that */
};

/* Counts the lines of chunk `n`, the newest, or QP__NO_CHUNK. */
enum qp_rc qp__chunk_measure(const struct qp__chunklog *log, uint32_t n, struct qp__chunk_end *out,
                             struct qp_err *err);

struct qp__chunk_plan {
  struct qp__driver_change changes[4];
  size_t count;
  struct qp__chunk_end next;
  char paths[3][QP__CHUNK_PATH]; /* the file without a number, the current chunk, the next chunk */
};

/* The changes that append `line`, which ends with its newline; if `line` is empty, they only cut
 * torn bytes. `copy` is NULL, or the content of the file without a number up to now->end: then
 * chunk 1 is written instead of renamed. This is necessary if this store may have written and
 * dropped a chunk 1 before (QP__CHANGE_FILE_RENAME). *out points into itself, to `line` and to
 * *copy. QP_FULL: there is no higher number. */
enum qp_rc qp__chunk_plan(const struct qp__chunklog *log, const struct qp__chunk_end *now,
                          struct qp_bytes line, uint32_t capacity, const struct qp_bytes *copy,
                          struct qp__chunk_plan *out, struct qp_err *err);

/* ---- reading ---- */

struct qp__chunk_line {
  struct qp_bytes text; /* without the newline; data NULL: longer than line_max */
  uint32_t chunk;
  uint64_t start; /* offset in the chunk */
  uint64_t end;   /* offset after the newline */
  bool *stop;     /* set it to true to stop the reading */
};
/* A result other than QP_OK stops the reading and is returned. `line` is borrowed. */
typedef enum qp_rc qp__chunk_line_fn(void *arg, const struct qp__chunk_line *line,
                                     struct qp_err *err);

/* Visits lines from the newest to the oldest, beginning with chunk `newest`. Reads backwards in
 * blocks, and no more than necessary. QP_NOTFOUND: `newest` does not exist any more. */
enum qp_rc qp__chunklog_back(const struct qp__chunklog *log, uint32_t newest, qp__chunk_line_fn *fn,
                             void *arg, struct qp_err *err);
/* Visits the lines of chunk `n` between the offsets `from` and `to` (UINT64_MAX: to the last
 * newline), oldest first. *torn (may be NULL) receives the number of bytes after the last newline
 * before `to`. */
enum qp_rc qp__chunk_forward(const struct qp__chunklog *log, uint32_t n, uint64_t from, uint64_t to,
                             qp__chunk_line_fn *fn, void *arg, uint64_t *torn, struct qp_err *err);

#endif

/* chunklog_read.c - reading the lines of a chunked log, backwards and forwards.
 *
 * Backwards: a block is read that ends where the delivered lines begin, and the lines that begin in
 * it are delivered from its end. If a line does not begin in the block, a larger block is read, up
 * to line_max; a longer line is scanned in steps and delivered without its text. Blocks grow, so
 * the last few lines cost one small read, and many lines cost few reads. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/log/chunklog.h"

#define FIRST_PIECE ((size_t)16 << 10)
#define LARGEST_PIECE ((size_t)256 << 10)

struct reading {
  const struct qp__chunklog *log;
  uint32_t chunk;
  char path[QP__CHUNK_PATH];
  struct qp__buf piece;
  uint64_t at;  /* file offset of its first byte */
  size_t wants; /* size of the next block */
  qp__chunk_line_fn *fn;
  void *arg;
  bool stop;
};

static void
begin_chunk(struct reading *r, uint32_t n)
{
  r->chunk = n;
  qp__chunk_path(r->log, n, r->path);
}

static void
init_reading(struct reading *r, const struct qp__chunklog *log, qp__chunk_line_fn *fn, void *arg)
{
  memset(r, 0, sizeof(*r));
  r->log = log;
  r->fn = fn;
  r->arg = arg;
  r->wants = FIRST_PIECE;
  qp__buf_init(&r->piece, log->line_max + LARGEST_PIECE);
}

/* Reads [at, at + n) of the chunk completely. */
static enum qp_rc
read_piece(struct reading *r, uint64_t at, size_t n, struct qp_err *err)
{
  enum qp_rc rc;

  qp__buf_reset(&r->piece);
  r->at = at;
  rc = r->log->driver->file_read(r->log->self, r->path, at, n, &r->piece, err);
  if (!rc && r->piece.len < n)
    rc = qp__fail(err, QP_NOTFOUND, "'%s' became shorter while it was read", r->path);
  return rc;
}

/* Delivers the line [start, end) of the file, which is in the block unless it is too long. */
static enum qp_rc
deliver(struct reading *r, uint64_t start, uint64_t end, struct qp_err *err)
{
  struct qp__chunk_line line = { .chunk = r->chunk, .start = start, .end = end, .stop = &r->stop };

  if (end - start - 1 <= r->log->line_max) {
    line.text.data = r->piece.data + (start - r->at);
    line.text.len = (size_t)(end - start - 1);
  }
  return r->fn(r->arg, &line, err);
}

/* ---- backwards ---- */

/* The start of a line that ends at `end` and is longer than line_max. Steps back in blocks. */
static enum qp_rc
begin_of_long_line(struct reading *r, uint64_t end, uint64_t *start, struct qp_err *err)
{
  uint64_t to = end - 1;

  *start = 0;
  while (to) {
    size_t n = to < LARGEST_PIECE ? (size_t)to : LARGEST_PIECE;
    enum qp_rc rc = read_piece(r, to - n, n, err);
    const char *nl;

    if (rc)
      return rc;
    nl = memrchr(r->piece.data, '\n', n);
    if (nl) {
      *start = r->at + (uint64_t)(nl + 1 - r->piece.data);
      return QP_OK;
    }
    to -= n;
  }
  return QP_OK;
}

/* Delivers lines of the block that ends at *end (after a newline), from its end; *end becomes the
 * start of the delivered lines. */
static enum qp_rc
deliver_piece(struct reading *r, uint64_t *end, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  while (*end > r->at && !rc && !r->stop) {
    size_t before = (size_t)(*end - r->at) - 1; /* without the newline that ends the line */
    const char *nl = before ? memrchr(r->piece.data, '\n', before) : NULL;
    uint64_t start = nl ? r->at + (uint64_t)(nl + 1 - r->piece.data) : r->at;

    if (!nl && r->at)
      break; /* it begins before the block */
    rc = deliver(r, start, *end, err);
    *end = start;
  }
  return rc;
}

static enum qp_rc
step_back(struct reading *r, uint64_t *end, struct qp_err *err)
{
  uint64_t before = *end;
  size_t n = *end < r->wants ? (size_t)*end : r->wants;
  enum qp_rc rc = read_piece(r, *end - n, n, err);

  if (!rc)
    rc = deliver_piece(r, end, err);
  if (rc || r->stop)
    return rc;
  if (*end != before) {
    r->wants = r->wants < LARGEST_PIECE / 2 ? r->wants * 2 : LARGEST_PIECE;
  } else if (n <= r->log->line_max) { /* a long line needs a larger block */
    r->wants = n > r->log->line_max / 2 ? r->log->line_max + 1 : n * 2;
  } else {
    uint64_t start;

    rc = begin_of_long_line(r, *end, &start, err);
    if (!rc)
      rc = deliver(r, start, *end, err);
    *end = start;
    r->wants = LARGEST_PIECE;
  }
  return rc;
}

/* The end of the last line of a chunk of `size` bytes. */
static enum qp_rc
find_last_newline(struct reading *r, uint64_t size, uint64_t *end, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  *end = 0;
  while (size && !rc) {
    size_t n = size < FIRST_PIECE ? (size_t)size : FIRST_PIECE;
    const char *nl;

    rc = read_piece(r, size - n, n, err);
    if (rc)
      break;
    nl = memrchr(r->piece.data, '\n', n);
    if (nl) {
      *end = r->at + (uint64_t)(nl + 1 - r->piece.data);
      break;
    }
    size -= n;
  }
  return rc;
}

/* Reads one chunk. The first block, which finds the last newline, usually contains the lines
 * too. */
static enum qp_rc
read_chunk_back(struct reading *r, uint64_t size, struct qp_err *err)
{
  uint64_t end;
  enum qp_rc rc = find_last_newline(r, size, &end, err);

  if (!rc && end)
    rc = deliver_piece(r, &end, err);
  while (!rc && !r->stop && end)
    rc = step_back(r, &end, err);
  return rc;
}

/* Whether a file without a number belongs to this log: "a.1.jsonl" is a chunk of "a". */
static bool
may_have_single(const struct qp__chunklog *log)
{
  char path[QP__CHUNK_PATH];
  size_t len;
  uint32_t n;

  qp__chunk_path(log, 0, path);
  return qp__chunk_split(path + strlen(log->dir) + 1, &len, &n) && n == 0;
}

/* The next lower chunk and its size, or QP__NO_CHUNK. If a number is missing, lists the directory:
 * there may be a gap. */
static enum qp_rc
find_lower(struct reading *r, uint32_t newest, uint32_t *n, uint64_t *size, struct qp_err *err)
{
  const struct qp__chunklog *log = r->log;
  struct qp__chunk_list list = { NULL, 0, 0 };
  uint32_t above = *n;
  enum qp_rc rc;

  *n = QP__NO_CHUNK;
  if (above == 0 || (above == 1 && !may_have_single(log)))
    return QP_OK;
  begin_chunk(r, above - 1);
  rc = log->driver->file_size(log->self, r->path, size, err);
  if (!rc)
    *n = above - 1;
  if (rc != QP_NOTFOUND || above == 1)
    return rc == QP_NOTFOUND ? QP_OK : rc;
  rc = qp__chunk_list(log, &list, err);
  if (!rc && (!list.count || list.n[list.count - 1] < newest)) /* it is before all others */
    rc = qp__fail(err, QP_NOTFOUND, "'%s' was deleted meanwhile", log->name);
  for (size_t i = 0; i < list.count && list.n[i] < above; i++)
    *n = list.n[i];
  qp__free(list.n);
  if (rc || *n == QP__NO_CHUNK)
    return rc;
  begin_chunk(r, *n);
  return log->driver->file_size(log->self, r->path, size, err);
}

enum qp_rc
qp__chunklog_back(const struct qp__chunklog *log, uint32_t newest, qp__chunk_line_fn *fn, void *arg,
                  struct qp_err *err)
{
  struct reading r;
  uint64_t size = 0;
  uint32_t n = newest;
  enum qp_rc rc;

  init_reading(&r, log, fn, arg);
  begin_chunk(&r, n);
  rc = log->driver->file_size(log->self, r.path, &size, err);
  while (!rc && n != QP__NO_CHUNK) {
    rc = read_chunk_back(&r, size, err);
    if (rc || r.stop)
      break;
    rc = find_lower(&r, newest, &n, &size, err);
  }
  qp__buf_release(&r.piece);
  return rc;
}

/* ---- forwards ---- */

/* Delivers the lines that end in the block; *start is the start of the first line, then of the
 * first incomplete line. */
static enum qp_rc
deliver_forward(struct reading *r, uint64_t *start, struct qp_err *err)
{
  const char *p = r->piece.data;
  const char *end = p + r->piece.len;
  const char *nl;
  enum qp_rc rc = QP_OK;

  while (!rc && !r->stop && p < end && (nl = memchr(p, '\n', (size_t)(end - p)))) {
    uint64_t behind = r->at + (uint64_t)(nl + 1 - r->piece.data);

    rc = deliver(r, *start, behind, err);
    *start = behind;
    p = nl + 1;
  }
  return rc;
}

enum qp_rc
qp__chunk_forward(const struct qp__chunklog *log, uint32_t n, uint64_t from, uint64_t to,
                  qp__chunk_line_fn *fn, void *arg, uint64_t *torn, struct qp_err *err)
{
  struct reading r;
  uint64_t start = from; /* of the first line that is not delivered */
  bool at_end = false;
  enum qp_rc rc = QP_OK;

  init_reading(&r, log, fn, arg);
  begin_chunk(&r, n);
  r.at = from;
  r.wants = LARGEST_PIECE;
  while (!rc && !r.stop && !at_end && r.at < to) {
    size_t want = to - r.at < r.wants ? (size_t)(to - r.at) : r.wants;
    uint64_t before = start;

    qp__buf_reset(&r.piece);
    rc = log->driver->file_read(log->self, r.path, r.at, want, &r.piece, err);
    if (!rc)
      rc = deliver_forward(&r, &start, err);
    at_end = r.piece.len < want;
    if (rc || at_end)
      break;
    if (start != before) {
      r.at = start;
      r.wants = LARGEST_PIECE;
    } else if (r.at + want == to) {
      break;
    } else if (r.at == start && want <= log->line_max) { /* a long line needs a larger block */
      r.wants = want > log->line_max / 2 ? log->line_max + 1 : want * 2;
    } else { /* longer than line_max: only its end is searched */
      r.at += want;
      r.wants = LARGEST_PIECE;
    }
  }
  if (!rc && torn)
    *torn = at_end ? r.at + r.piece.len - start : 0;
  qp__buf_release(&r.piece);
  return rc;
}

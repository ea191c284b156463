/* chunklog.c - see chunklog.h: names and appending. Reading is in chunklog_read.c. */
#include "store/log/chunklog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

#define SUFFIX ".jsonl"
#define PIECE ((size_t)256 << 10)

/* ---- names ---- */

void
qp__chunk_path(const struct qp__chunklog *log, uint32_t n, char out[QP__CHUNK_PATH])
{
  if (n)
    (void)snprintf(out, QP__CHUNK_PATH, "%s/%s.%u" SUFFIX, log->dir, log->name, (unsigned)n);
  else
    (void)snprintf(out, QP__CHUNK_PATH, "%s/%s" SUFFIX, log->dir, log->name);
}

/* A number in our spelling: no sign, no leading zero, below QP__NO_CHUNK. */
static bool
parse_number(const char *s, size_t n, uint32_t *out)
{
  uint64_t v = 0;

  if (n == 0 || n > 10 || s[0] == '0')
    return false;
  for (size_t i = 0; i < n; i++) {
    if (s[i] < '0' || s[i] > '9')
      return false;
    v = v * 10 + (uint64_t)(s[i] - '0');
  }
  if (v >= QP__NO_CHUNK)
    return false;
  *out = (uint32_t)v;
  return true;
}

bool
qp__chunk_split(const char *file, size_t *name_len, uint32_t *n)
{
  size_t len = strlen(file);
  const char *dot;

  if (len <= strlen(SUFFIX) || strcmp(file + len - strlen(SUFFIX), SUFFIX) != 0)
    return false;
  len -= strlen(SUFFIX);
  dot = memrchr(file, '.', len);
  if (dot && dot != file && parse_number(dot + 1, (size_t)(file + len - dot - 1), n)) {
    *name_len = (size_t)(dot - file);
  } else {
    *name_len = len;
    *n = 0;
  }
  return true;
}

struct collecting {
  const char *name;
  struct qp__chunk_list *list;
};

static enum qp_rc
collect(void *arg, const char *file, bool regular)
{
  struct collecting *c = arg;
  struct qp__chunk_list *l = c->list;
  size_t len;
  uint32_t n;

  if (!regular || !qp__chunk_split(file, &len, &n) || len != strlen(c->name) ||
      memcmp(file, c->name, len) != 0)
    return QP_OK;
  return qp__vec_push(l->n, l->count, l->cap, n) ? QP_OK : QP_NOMEM;
}

static int
by_number(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a;
  uint32_t y = *(const uint32_t *)b;

  return x < y ? -1 : x > y;
}

enum qp_rc
qp__chunk_list(const struct qp__chunklog *log, struct qp__chunk_list *out, struct qp_err *err)
{
  struct qp__chunk_list list = { NULL, 0, 0 };
  struct collecting c = { log->name, &list };
  enum qp_rc rc = log->driver->file_list(log->self, log->dir, collect, &c, err);

  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "listing the chunks of a log");
  if (rc) {
    qp__free(list.n);
    return rc;
  }
  if (list.count)
    qsort(list.n, list.count, sizeof(*list.n), by_number);
  *out = list;
  return QP_OK;
}

/* ---- writing ---- */

enum qp_rc
qp__chunk_measure(const struct qp__chunklog *log, uint32_t n, struct qp__chunk_end *out,
                  struct qp_err *err)
{
  struct qp__chunk_end found = { .number = n };
  char path[QP__CHUNK_PATH];
  struct qp__buf piece;
  uint64_t at = 0;
  enum qp_rc rc = QP_OK;

  if (n == QP__NO_CHUNK) {
    *out = found;
    return QP_OK;
  }
  qp__chunk_path(log, n, path);
  qp__buf_init(&piece, PIECE);
  do {
    const char *p;
    const char *nl;

    qp__buf_reset(&piece);
    rc = log->driver->file_read(log->self, path, at, PIECE, &piece, err);
    if (rc)
      break;
    for (p = piece.data; piece.len && (nl = memchr(p, '\n', piece.len - (size_t)(p - piece.data)));
         p = nl + 1) {
      found.lines++;
      found.end = at + (uint64_t)(nl + 1 - piece.data);
    }
    at += piece.len;
  } while (piece.len == PIECE);
  qp__buf_release(&piece);
  if (rc)
    return rc;
  found.torn = at - found.end;
  *out = found;
  return QP_OK;
}

static struct qp__driver_change *
add_change(struct qp__chunk_plan *plan, enum qp__driver_change_kind kind, const char *path)
{
  struct qp__driver_change *ch = &plan->changes[plan->count++];

  ch->kind = kind;
  ch->path = path;
  return ch;
}

/* The file without a number becomes chunk 1. */
static void
plan_takeover(struct qp__chunk_plan *plan, const struct qp_bytes *copy)
{
  plan->next.number = 1;
  if (copy) {
    add_change(plan, QP__CHANGE_FILE_PUT, plan->paths[1])->bytes = *copy;
    (void)add_change(plan, QP__CHANGE_FILE_DROP, plan->paths[0]);
    plan->next.torn = 0;
  } else {
    add_change(plan, QP__CHANGE_FILE_RENAME, plan->paths[0])->to = plan->paths[1];
  }
}

enum qp_rc
qp__chunk_plan(const struct qp__chunklog *log, const struct qp__chunk_end *now,
               struct qp_bytes line, uint32_t capacity, const struct qp_bytes *copy,
               struct qp__chunk_plan *out, struct qp_err *err)
{
  struct qp__chunk_end *next = &out->next;
  struct qp__driver_change *ch;

  QP_ASSERT(capacity);
  memset(out->changes, 0, sizeof(out->changes));
  out->count = 0;
  *next = *now;
  if (next->number == QP__NO_CHUNK)
    *next = (struct qp__chunk_end){ .number = 1 };
  qp__chunk_path(log, 0, out->paths[0]);
  qp__chunk_path(log, next->number ? next->number : 1, out->paths[1]);
  if (next->number == 0)
    plan_takeover(out, copy);
  if (line.len && next->lines >= capacity) {
    if (next->number == QP__NO_CHUNK - 1)
      return qp__fail(err, QP_FULL, "'%s' has the maximum number of chunks", log->name);
    if (next->torn) {
      ch = add_change(out, QP__CHANGE_FILE_APPEND, out->paths[1]);
      ch->offset = next->end;
      ch->cut = true;
    }
    *next = (struct qp__chunk_end){ .number = next->number + 1 };
    qp__chunk_path(log, next->number, out->paths[2]);
    ch = add_change(out, QP__CHANGE_FILE_APPEND, out->paths[2]);
  } else {
    ch = add_change(out, QP__CHANGE_FILE_APPEND, out->paths[1]);
  }
  ch->offset = next->end;
  ch->cut = next->torn != 0;
  ch->bytes = line;
  next->lines += line.len != 0;
  next->end += line.len;
  next->torn = 0;
  return QP_OK;
}

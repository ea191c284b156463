/* bounded_log.c - see bounded_log.h. */
#include "store/log/bounded_log.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

/* ---- lists of chunks ---- */

static bool
reserve(struct qp__ring_chunks *c, size_t count)
{
  return qp__vec_reserve(c->list, 0, c->cap, count ? count : 1);
}

/* Drops the first `drops` chunks, adds at most one, and moves the end. There is space for it. */
static void
move_on(struct qp__ring_chunks *c, const struct qp__ring_plan *p)
{
  QP_ASSERT(c->count >= p->drops && c->count - p->drops + p->begins <= c->cap);
  QP_ASSERT(c->count - p->drops + p->begins > 0);
  if (p->drops) {
    c->count -= p->drops;
    memmove(c->list, c->list + p->drops, c->count * sizeof(*c->list));
  }
  if (p->begins)
    c->list[c->count++] = (struct qp__ring_chunk){ .n = p->next.number, .first = p->first };
  c->list[c->count - 1].bytes = p->next.end;
}

/* ---- loading ---- */

static enum qp_rc
take_chunks(struct qp__ring *r, const struct qp__chunk_list *found, struct qp__ring_chunks *out,
            struct qp_err *err)
{
  if (!reserve(out, found->count + 1))
    return qp__fail_nomem(err, "opening a log");
  for (size_t i = 0; i < found->count; i++) {
    struct qp__ring_chunk *chunk = &out->list[out->count];
    char path[QP__CHUNK_PATH];
    enum qp_rc rc;

    if (!found->n[i])
      continue; /* a file without a number does not belong to a bounded log */
    *chunk = (struct qp__ring_chunk){ .n = found->n[i] };
    qp__chunk_path(&r->log, chunk->n, path);
    rc = r->log.driver->file_size(r->log.self, path, &chunk->bytes, err);
    if (rc == QP_NOTFOUND)
      continue; /* another process has just dropped it */
    if (rc)
      return rc;
    out->count++;
  }
  return QP_OK;
}

enum qp_rc
qp__ring_load(struct qp__ring *r, struct qp_err *err)
{
  struct qp__chunk_list found = { NULL, 0, 0 };
  struct qp__ring_chunks staged = { NULL, 0, 0 };
  struct qp__ring_chunks shown = { NULL, 0, 0 };
  struct qp__chunk_end end;
  enum qp_rc rc = qp__chunk_list(&r->log, &found, err);

  if (!rc)
    rc = take_chunks(r, &found, &staged, err);
  if (!rc)
    rc = qp__chunk_measure(&r->log, staged.count ? staged.list[staged.count - 1].n : QP__NO_CHUNK,
                           &end, err);
  if (!rc && !reserve(&shown, staged.count))
    rc = qp__fail_nomem(err, "opening a log");
  qp__free(found.n);
  if (rc) {
    qp__free(staged.list);
    qp__free(shown.list);
    return rc;
  }
  if (staged.count) {
    staged.list[staged.count - 1].bytes = end.end;
    memcpy(shown.list, staged.list, staged.count * sizeof(*shown.list));
    shown.count = staged.count;
  }
  r->staged = staged;
  r->shown = shown;
  r->end = end;
  return QP_OK;
}

void
qp__ring_replace(struct qp__ring *to, struct qp__ring *from)
{
  qp__ring_release(to);
  to->staged = from->staged;
  to->shown = from->shown;
  to->end = from->end;
  memset(&from->staged, 0, sizeof(from->staged));
  memset(&from->shown, 0, sizeof(from->shown));
}

void
qp__ring_release(struct qp__ring *r)
{
  qp__free(r->staged.list);
  qp__free(r->shown.list);
  memset(&r->staged, 0, sizeof(r->staged));
  memset(&r->shown, 0, sizeof(r->shown));
}

enum qp_rc
qp__ring_copy(struct qp__ring *r, struct qp__ring_chunks *out, struct qp_err *err)
{
  struct qp__ring_chunks copy = { NULL, 0, 0 };
  bool ok;

  qp__mutex_lock(r->lock);
  ok = reserve(&copy, r->shown.count + 1);
  if (ok) {
    if (r->shown.count)
      memcpy(copy.list, r->shown.list, r->shown.count * sizeof(*copy.list));
    copy.count = r->shown.count;
  }
  qp__mutex_unlock(r->lock);
  if (!ok)
    return qp__fail_nomem(err, "reading a log");
  *out = copy;
  return QP_OK;
}

/* ---- appending ---- */

struct qp__ring_plan *
qp__ring_plan_new(struct qp__ring *r, size_t limit)
{
  struct qp__ring_plan *p = qp__alloc0(1, sizeof(*p));

  if (!p)
    return NULL;
  p->ring = r;
  qp__buf_init(&p->lines, limit);
  return p;
}

/* Frees what only staging needs. */
static void
release_changes(struct qp__ring_plan *p)
{
  qp__buf_release(&p->lines);
  qp__free(p->chunk);
  qp__free(p->paths);
  p->chunk = NULL;
  p->paths = NULL;
}

void
qp__ring_plan_free(struct qp__ring_plan *p)
{
  if (!p)
    return;
  release_changes(p);
  qp__free(p);
}

/* Plans which chunks are dropped when a chunk is started. */
static enum qp_rc
plan_drops(struct qp__ring_plan *p, struct qp_err *err)
{
  const struct qp__ring *r = p->ring;

  QP_ASSERT(!p->drops && !p->paths);
  if (!p->begins || r->staged.count + 1 <= r->keep)
    return QP_OK;
  p->drops = r->staged.count + 1 - r->keep;
  p->paths = qp__alloc(p->drops * sizeof(*p->paths));
  if (!p->paths)
    return qp__fail_nomem(err, "appending to a log");
  for (size_t i = 0; i < p->drops; i++)
    qp__chunk_path(&r->log, r->staged.list[i].n, p->paths[i]);
  return QP_OK;
}

enum qp_rc
qp__ring_plan(struct qp__ring_plan *p, uint64_t first, struct qp_err *err)
{
  struct qp__ring *r = p->ring;
  bool full = r->end.end >= r->chunk_bytes || r->end.lines >= r->chunk_lines;
  bool ok;
  enum qp_rc rc;

  QP_ASSERT(p->line_count && p->lines.len && p->lines.data[p->lines.len - 1] == '\n');
  p->chunk = qp__alloc(sizeof(*p->chunk));
  if (!p->chunk)
    return qp__fail_nomem(err, "appending to a log");
  rc = qp__chunk_plan(&r->log, &r->end, qp__buf_bytes(&p->lines), full ? 1 : UINT32_MAX, NULL,
                      p->chunk, err);
  if (rc)
    return rc;
  p->next = p->chunk->next;
  p->next.lines += p->line_count - 1;
  p->offset = p->next.end - p->lines.len;
  p->begins = p->next.number != r->end.number;
  p->first = first;
  qp__mutex_lock(r->lock);
  ok = reserve(&r->staged, r->staged.count + 1) && reserve(&r->shown, r->staged.count + 1);
  qp__mutex_unlock(r->lock);
  return ok ? plan_drops(p, err) : qp__fail_nomem(err, "appending to a log");
}

size_t
qp__ring_change_count(const struct qp__ring_plan *p)
{
  return p->chunk->count + p->drops;
}

void
qp__ring_changes(const struct qp__ring_plan *p, void *context, struct qp__driver_change *out)
{
  for (size_t i = 0; i < p->chunk->count; i++)
    out[i] = p->chunk->changes[i];
  for (size_t i = 0; i < p->drops; i++) {
    struct qp__driver_change *ch = &out[p->chunk->count + i];

    memset(ch, 0, sizeof(*ch));
    ch->kind = QP__CHANGE_FILE_DROP;
    ch->path = p->paths[i];
  }
  for (size_t i = 0; i < qp__ring_change_count(p); i++)
    out[i].context = context;
}

void
qp__ring_advance(struct qp__ring_plan *p)
{
  QP_ASSERT(p->ring->staged.count + p->begins - p->drops <= p->ring->staged.cap);
  QP_ASSERT(p->chunk && p->next.number);
  QP_ASSERT(p->begins || p->next.end > p->ring->end.end);
  move_on(&p->ring->staged, p);
  p->ring->end = p->next;
  QP_ASSERT(!p->begins || p->ring->staged.count <= p->ring->keep);
  QP_ASSERT(p->ring->staged.list[p->ring->staged.count - 1].n == p->ring->end.number);
  release_changes(p);
}

void
qp__ring_publish(struct qp__ring_plan *p)
{
  QP_ASSERT_HELD(p->ring->lock);
  move_on(&p->ring->shown, p);
}

/* ---- invariants ---- */

static void
check_chunks(const struct qp__ring_chunks *c)
{
  QP_ASSERT(c->count <= c->cap);
  for (size_t i = 0; i < c->count; i++) {
    QP_ASSERT(c->list[i].n);
    QP_ASSERT(!i || c->list[i].n > c->list[i - 1].n);
  }
}

void
qp__ring_invariants(const struct qp__ring *r)
{
  const struct qp__ring_chunks *staged = &r->staged, *shown = &r->shown;

  QP_ASSERT_HELD(r->lock);
  check_chunks(staged);
  check_chunks(shown);
  if (!staged->count || !shown->count)
    return;
  QP_ASSERT(shown->list[shown->count - 1].n <= staged->list[staged->count - 1].n);
  QP_ASSERT(shown->list[0].n <= staged->list[0].n);
}

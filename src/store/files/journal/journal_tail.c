/* journal_tail.c - see journal_tail.h.
 *
 * The frames of one segment follow each other; the next one is the first frame of a segment with a
 * higher number. A segment that is emptied gets another key at once, so that its descriptor, which
 * stays open, shows no valid frame any more. The numbers show whether a frame is missing. */
#include "store/files/journal/journal_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/files/journal/file_op.h"

#define FRAME_MAX ((size_t)1 << 30)

void
qp__jtail_init(struct qp__jtail *t, const struct qp__os *os, int root, qp__jtail_fn *fn, void *arg)
{
  memset(t, 0, sizeof(*t));
  t->os = os;
  t->root = root;
  t->dir = -1;
  t->fn = fn;
  t->arg = arg;
  t->segment.fd = -1;
  qp__buf_init(&t->buf, FRAME_MAX);
}

void
qp__jtail_release(struct qp__jtail *t)
{
  qp__segment_close(t->os, &t->segment);
  qp__close(t->os, t->dir);
  t->dir = -1;
  qp__buf_release(&t->buf);
}

/* ---- the paths of a frame ---- */

static enum qp_rc
report(struct qp__jtail *t, const char *path, struct qp_err *err)
{
  return strncmp(path, "tmp/", 4) == 0 ? QP_OK : t->fn(t->arg, path, err);
}

static enum qp_rc
report_op(struct qp__jtail *t, const struct qp__op *op, struct qp_err *err)
{
  char other[QP__PATH_MAX + 8];
  enum qp_rc rc;

  if (op->kind == QP__OP_MKDIR)
    return QP_OK; /* files in it are reported separately */
  rc = report(t, op->path, err);
  if (!rc && op->kind == QP__OP_RENAME) {
    rc = report(t, op->data.data, err);
    (void)snprintf(other, sizeof(other), "%s.old", op->data.data);
    if (!rc && op->flags & QP__OP_KEEP)
      rc = report(t, other, err);
  }
  if (!rc && op->kind == QP__OP_PUT && op->flags & QP__OP_BACKUP) {
    (void)snprintf(other, sizeof(other), "%s.bak", op->path);
    rc = report(t, other, err);
  }
  return rc;
}

static enum qp_rc
report_frame(struct qp__jtail *t, struct qp_bytes body, struct qp_err *err)
{
  struct qp__op_reader reader;
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, body);

  while (qp__op_next(&reader, &op, &rc))
    rc = report_op(t, &op, err);
  if (rc == QP_CORRUPT)
    return qp__fail(err, rc, "the journal has an operation that this version does not know");
  return rc;
}

/* ---- frames ---- */

/* Reads on in the segment. *any: there was a frame. */
static enum qp_rc
read_frames(struct qp__jtail *t, bool *any, struct qp_err *err)
{
  struct qp_bytes body;
  uint64_t seq = 0;
  enum qp_rc rc = QP_OK;

  *any = false;
  while (!rc) {
    rc = qp__frame_read(t->os, &t->segment, &t->pos, &t->buf, &seq, &body, err);
    if (rc || !body.data)
      break;
    if (t->seq && seq != t->seq + 1)
      t->gap = true;
    t->seq = seq;
    t->frames++;
    *any = true;
    rc = report_frame(t, body, err);
  }
  return rc;
}

/* ---- segments ---- */

struct search {
  uint64_t after;
  uint64_t best; /* the lowest number above `after`; 0: not found */
};

static int
consider(void *arg, const char *name, unsigned char type)
{
  struct search *s = arg;
  uint64_t number;

  (void)type;
  if (qp__segment_parse_name(name, &number) && number > s->after && (!s->best || number < s->best))
    s->best = number;
  return 0;
}

/* The segments after the current one: continues with the first that has a frame. *moved: it did. */
static enum qp_rc
next_segment(struct qp__jtail *t, bool *moved, struct qp_err *err)
{
  struct search search = { .after = t->segment.fd < 0 ? 0 : t->segment.number };
  struct qp__segment s;
  enum qp_rc rc;

  *moved = false;
  while (!*moved) {
    struct qp_bytes body;
    uint64_t pos = QP__SEGMENT_START;
    uint64_t seq;
    bool first = t->segment.fd < 0;
    bool any;
    int sys;

    search.best = 0;
    sys = t->os->listdir(t->os->self, t->dir, ".", consider, &search);
    if (sys)
      return qp__fail_sys(err, sys, "cannot list 'journal'");
    if (!search.best)
      return QP_OK;
    search.after = search.best;
    rc = qp__segment_open(t->os, t->dir, search.best, false, &s, err);
    if (rc == QP_CORRUPT && first && t->odd != search.best) {
      t->odd = search.best; /* perhaps it is in use and gets a new key: check again later */
      t->gap = true;
      return QP_OK;
    }
    if (rc == QP_CORRUPT || rc == QP_NOTFOUND)
      continue; /* it is being created or renamed */
    if (rc)
      return rc;
    rc = qp__frame_read(t->os, &s, &pos, &t->buf, &seq, &body, err);
    if (rc || (!body.data && !first)) { /* a spare */
      qp__segment_close(t->os, &s);
      if (rc)
        return rc;
      continue;
    }
    if (first) {
      t->gap = true; /* earlier frames are unknown */
    } else {         /* it has a frame, so the one before gets no more; its last may be new */
      rc = read_frames(t, &any, err);
      if (rc) {
        qp__segment_close(t->os, &s);
        return rc;
      }
    }
    qp__segment_close(t->os, &t->segment);
    t->segment = s;
    t->pos = QP__SEGMENT_START;
    *moved = true;
  }
  return QP_OK;
}

/* Notices that the segment was emptied. *emptied: by a checkpoint of the same journal, and nothing
 * was missed; another cause sets `gap` and lets go of the segment. */
static enum qp_rc
look_at_key(struct qp__jtail *t, bool *emptied, struct qp_err *err)
{
  struct qp__segment now = t->segment;
  enum qp_rc rc = qp__segment_reload(t->os, &now, err);

  *emptied = false;
  if (rc && rc != QP_CORRUPT)
    return rc;
  if (!rc && memcmp(now.key, t->segment.key, sizeof(now.key)) == 0)
    return QP_OK;
  if (!rc && now.session && now.session == t->segment.session && now.base == t->seq) {
    t->segment = now;
    t->pos = QP__SEGMENT_START;
    *emptied = true;
    return QP_OK;
  }
  t->gap = true;
  t->seq = 0;
  qp__segment_close(t->os, &t->segment);
  return QP_OK;
}

enum qp_rc
qp__jtail_poll(struct qp__jtail *t, struct qp_err *err)
{
  bool again = true;
  enum qp_rc rc = QP_OK;

  if (t->dir < 0) {
    t->dir = qp__open(t->os, t->root, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (t->dir == -ENOENT)
      return QP_OK;
    if (t->dir < 0)
      return qp__fail_sys(err, t->dir, "cannot open 'journal'");
    t->gap = true;
  }
  while (!rc && again) {
    bool any = false;

    again = false;
    if (t->segment.fd >= 0) {
      rc = read_frames(t, &any, err);
      if (!rc)
        rc = look_at_key(t, &again, err);
      again = again || any;
      if (!rc && again)
        continue; /* a frame may have been added since; only then the next segment can be in use */
    }
    if (!rc)
      rc = next_segment(t, &again, err);
  }
  return rc;
}

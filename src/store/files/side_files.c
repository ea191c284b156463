/* side_files.c - files of the data directory that belong to no context's index: prompts, sessions,
 * blobs, events, compaction records.
 *
 * They change through the journal like all others. Their directories are created with the first
 * file; a replay creates missing directories above a file, so a directory needs no operation. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "os/file.h"
#include "store/files/files.h"

static const char *const plain_dirs[] = { "sessions", "blobs" };

/* ---- writing ---- */

/* Makes the directory of a path, once for each store. Paths elsewhere have theirs already. */
static enum qp_rc
make_dir(struct qp__files *f, const char *path, struct qp_err *err)
{
  for (unsigned i = 0; i < sizeof(plain_dirs) / sizeof(plain_dirs[0]); i++) {
    size_t n = strlen(plain_dirs[i]);
    int sys;

    if (strncmp(path, plain_dirs[i], n) != 0 || path[n] != '/')
      continue;
    if (atomic_load_explicit(&f->plain_dirs, memory_order_relaxed) & 1u << i)
      return QP_OK;
    sys = qp__dir_make(f->os, f->root, plain_dirs[i]);
    if (sys)
      return qp__fail_sys(err, sys, "cannot create the directory '%s'", plain_dirs[i]);
    (void)atomic_fetch_or_explicit(&f->plain_dirs, 1u << i, memory_order_relaxed);
  }
  return QP_OK;
}

/* The same for the events or the compaction records of a context, once while it is in memory. */
static enum qp_rc
make_inner_dir(struct qp__files *f, struct qp__fctx *c, const char *file, struct qp_err *err)
{
  bool record = strstr(file, "/" QP__RECORD_DIR "/") != NULL;
  bool *ready = record ? &c->records_ready : &c->events_ready;
  char path[QP__PATH_MAX];
  int sys;

  if (*ready)
    return QP_OK;
  qp__context_path(path, c, record ? QP__RECORD_DIR : "events");
  sys = qp__dir_make(f->os, f->root, path);
  if (sys)
    return qp__fail_sys(err, sys, "cannot create the directory '%s'", path);
  *ready = true;
  return QP_OK;
}

/* A file may replace another file, but nothing else. */
static enum qp_rc
check_place(struct qp__files *f, const char *path, struct qp_err *err)
{
  struct stat st;

  if (!f->os->fstatat(f->os->self, f->root, path, &st) && !S_ISREG(st.st_mode))
    return qp__fail(err, QP_CORRUPT, "'%s' is not a regular file", path);
  return QP_OK;
}

void
qp__plain_prepare(struct qp__files *f, struct qp__driver_change *ch)
{
  if (!ch->context)
    ch->rc = qp__files_release_path(f, ch->path, &ch->err);
  if (ch->rc || ch->kind == QP__CHANGE_FILE_DROP)
    return;
  if (ch->context)
    ch->rc = make_inner_dir(f, ch->context, ch->path, &ch->err);
  else
    ch->rc = make_dir(f, ch->kind == QP__CHANGE_FILE_RENAME ? ch->to : ch->path, &ch->err);
  if (!ch->rc && ch->kind == QP__CHANGE_FILE_PUT)
    ch->rc = check_place(f, ch->path, &ch->err);
}

void
qp__plain_op(const struct qp__driver_change *ch, struct qp__op *op)
{
  op->path = ch->path;
  switch (ch->kind) {
  case QP__CHANGE_FILE_APPEND:
    op->kind = QP__OP_APPEND;
    op->offset = ch->offset;
    op->flags = ch->cut ? QP__OP_CUT : 0;
    break;
  case QP__CHANGE_FILE_RENAME:
    op->kind = QP__OP_RENAME;
    op->data.data = ch->to;
    op->data.len = strlen(ch->to);
    break;
  case QP__CHANGE_FILE_DROP:
    op->kind = QP__OP_UNLINK;
    op->data.len = 0;
    break;
  default:
    op->kind = QP__OP_PUT;
    break;
  }
}

/* ---- reading ---- */

/* Opens a regular file; *st is what fstat says. */
static int
open_regular(struct qp__files *f, const char *path, struct stat *st)
{
  /* O_NONBLOCK: opening a named pipe in the place of a file must not block. */
  int fd = qp__open(f->os, f->root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  int sys;

  if (fd < 0)
    return fd;
  sys = f->os->fstat(f->os->self, fd, st);
  if (!sys && !S_ISREG(st->st_mode))
    sys = -ENOTSUP;
  if (sys) {
    qp__close(f->os, fd);
    return sys;
  }
  return fd;
}

enum qp_rc
qp__plain_read(void *self, const char *path, uint64_t offset, size_t n, struct qp__buf *out,
               struct qp_err *err)
{
  struct qp__files *f = self;
  struct stat st;
  enum qp_rc rc = qp__files_release_path(f, path, err);
  ssize_t got;
  int fd;

  if (rc)
    return rc;
  fd = open_regular(f, path, &st);
  if (fd < 0)
    return qp__read_failure(fd, path, err);
  if (offset >= (uint64_t)st.st_size)
    n = 0;
  else if (n > (uint64_t)st.st_size - offset)
    n = (size_t)((uint64_t)st.st_size - offset);
  if (qp__buf_reserve(out, n)) {
    rc = qp__buf_check(out, path, err);
  } else if (n) {
    got = qp__read_at(f->os, fd, out->data + out->len, n, (off_t)offset);
    if (got < 0)
      rc = qp__read_failure((int)got, path, err);
    else
      out->len += (size_t)got;
    out->data[out->len] = 0;
  }
  qp__close(f->os, fd);
  return rc;
}

enum qp_rc
qp__plain_size(void *self, const char *path, uint64_t *size, struct qp_err *err)
{
  struct qp__files *f = self;
  struct stat st;
  enum qp_rc rc = qp__files_release_path(f, path, err);
  int sys;

  if (rc)
    return rc;
  sys = f->os->fstatat(f->os->self, f->root, path, &st);
  if (!sys && !S_ISREG(st.st_mode))
    sys = -ENOTSUP;
  if (sys)
    return qp__read_failure(sys, path, err);
  *size = (uint64_t)st.st_size;
  return QP_OK;
}

struct listing {
  qp__file_visit *visit;
  void *arg;
  enum qp_rc rc;
};

static int
visit_name(void *arg, const char *name, unsigned char type)
{
  struct listing *l = arg;

  l->rc = l->visit(l->arg, name, type == DT_REG);
  return l->rc ? 1 : 0;
}

enum qp_rc
qp__plain_list(void *self, const char *dir, qp__file_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__files *f = self;
  struct listing l = { visit, arg, QP_OK };
  int sys = f->os->listdir(f->os->self, f->root, dir, visit_name, &l);

  if (sys == -ENOENT)
    return QP_OK;
  if (sys < 0)
    return qp__fail_sys(err, sys, "cannot list '%s'", dir);
  return l.rc;
}

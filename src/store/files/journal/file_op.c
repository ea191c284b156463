/* file_op.c - see file_op.h. */
#include "store/files/journal/file_op.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "os/file.h"

#define OP_HEADER_LEN 16
#define TEMP_NAME_LEN 32

/* ---- codec ---- */

enum qp_rc
qp__op_encode(struct qp__buf *out, const struct qp__op *op)
{
  char head[OP_HEADER_LEN];
  size_t path_len = strlen(op->path);

  head[0] = (char)op->kind;
  head[1] = (char)op->flags;
  qp__put_le(head + 2, path_len, 2);
  qp__put_le(head + 4, op->data.len, 4);
  qp__put_le(head + 8, op->offset, 8);
  (void)qp__buf_add(out, head, sizeof(head));
  (void)qp__buf_add(out, op->path, path_len);
  (void)qp__buf_add(out, op->data.data, op->data.len);
  return out->rc;
}

enum qp_rc
qp__op_reader_init(struct qp__op_reader *r, struct qp_bytes body)
{
  if (body.len < 4)
    return QP_CORRUPT;
  r->body = body;
  r->pos = 4;
  r->left = (uint32_t)qp__get_le(body.data, 4);
  return QP_OK;
}

/* Copies a path and refuses paths that quipu never writes: the checksum proves that quipu wrote it,
 * this proves that it cannot lead out of the data directory. */
static bool
take_path(char out[QP__PATH_MAX], const char *s, size_t n)
{
  if (n == 0 || n >= QP__PATH_MAX || memchr(s, 0, n) || s[0] == '/')
    return false;
  memcpy(out, s, n);
  out[n] = 0;
  return strcmp(out, "..") != 0 && strncmp(out, "../", 3) != 0 && !strstr(out, "/../") &&
         !(n >= 3 && strcmp(out + n - 3, "/..") == 0);
}

static enum qp_rc
read_op(struct qp__op_reader *r, struct qp__op *op)
{
  const char *p = r->body.data + r->pos;
  size_t room = r->body.len - r->pos;
  size_t path_len;
  size_t data_len;

  if (room < OP_HEADER_LEN)
    return QP_CORRUPT;
  path_len = (size_t)qp__get_le(p + 2, 2);
  data_len = (size_t)qp__get_le(p + 4, 4);
  if (room - OP_HEADER_LEN < path_len || room - OP_HEADER_LEN - path_len < data_len)
    return QP_CORRUPT;
  op->kind = (enum qp__op_kind)(unsigned char)p[0];
  op->flags = (unsigned char)p[1];
  op->offset = qp__get_le(p + 8, 8);
  if (op->kind < QP__OP_PUT || op->kind > QP__OP_MKDIR || op->offset > INT64_MAX / 2 ||
      !take_path(r->path, p + OP_HEADER_LEN, path_len))
    return QP_CORRUPT;
  op->path = r->path;
  op->data.data = p + OP_HEADER_LEN + path_len;
  op->data.len = data_len;
  if (op->kind == QP__OP_RENAME) {
    if (!take_path(r->target, op->data.data, data_len))
      return QP_CORRUPT;
    op->data.data = r->target;
  }
  r->pos += OP_HEADER_LEN + path_len + data_len;
  r->left--;
  return QP_OK;
}

bool
qp__op_next(struct qp__op_reader *r, struct qp__op *op, enum qp_rc *rc)
{
  if (!*rc && r->left)
    *rc = read_op(r, op);
  else if (!*rc && r->pos != r->body.len)
    *rc = QP_CORRUPT;
  else
    return false;
  return !*rc;
}

/* ---- applying ---- */

void
qp__applier_init(struct qp__applier *a, const struct qp__os *os, int root, int tmp)
{
  memset(a, 0, sizeof(*a));
  a->os = os;
  a->root = root;
  a->tmp = tmp;
  for (size_t i = 0; i < QP__KEPT_MAX; i++)
    a->kept[i].fd = -1;
}

static void
drop_kept(struct qp__applier *a, struct qp__kept *k)
{
  qp__close(a->os, k->fd);
  k->fd = -1;
  k->path[0] = 0;
}

/* Something was renamed: any path may mean another file now. */
static void
forget_all(struct qp__applier *a)
{
  for (size_t i = 0; i < QP__KEPT_MAX; i++)
    drop_kept(a, &a->kept[i]);
}

/* Another file replaces this one. */
static void
forget_path(struct qp__applier *a, const char *path)
{
  for (size_t i = 0; i < QP__KEPT_MAX; i++)
    if (strcmp(a->kept[i].path, path) == 0)
      drop_kept(a, &a->kept[i]);
}

void
qp__applier_release(struct qp__applier *a)
{
  forget_all(a);
}

/* A descriptor of path[0 .. n), kept open for the next operation on it, or -errno. */
static int
open_kept(struct qp__applier *a, const char *path, size_t n, int flags)
{
  struct qp__kept *oldest = &a->kept[0];
  char name[QP__PATH_MAX];
  int fd;

  if (n >= sizeof(name))
    return -ENAMETOOLONG;
  for (size_t i = 0; i < QP__KEPT_MAX; i++) {
    struct qp__kept *k = &a->kept[i];

    if (k->fd >= 0 && n < sizeof(k->path) && strncmp(k->path, path, n) == 0 && !k->path[n]) {
      k->used = ++a->clock;
      return k->fd;
    }
    if (k->used < oldest->used)
      oldest = k;
  }
  memcpy(name, path, n);
  name[n] = 0;
  fd = qp__open(a->os, a->root, name, flags | O_NOFOLLOW, 0600);
  if (fd < 0)
    return fd;
  drop_kept(a, oldest);
  oldest->fd = fd;
  oldest->used = ++a->clock;
  if (n < sizeof(oldest->path))
    memcpy(oldest->path, name, n + 1);
  return fd;
}

/* The directory of `path`; *base is the last component. */
static int
open_parent(struct qp__applier *a, const char *path, const char **base)
{
  const char *slash = strrchr(path, '/');

  *base = slash ? slash + 1 : path;
  return slash ? open_kept(a, path, (size_t)(slash - path), O_PATH | O_DIRECTORY) : a->root;
}

static void
temp_name(struct qp__applier *a, char out[TEMP_NAME_LEN])
{
  (void)snprintf(out, TEMP_NAME_LEN, "apply-%llu", (unsigned long long)a->next_name++);
}

/* The directory of a name in tmp/, "3/4711" or "4711"; *base is the last component. */
static int
open_temp(struct qp__applier *a, const char *name, const char **base)
{
  char path[TEMP_NAME_LEN + 8];
  const char *slash = strchr(name, '/');
  int n;

  *base = slash ? slash + 1 : name;
  if (!slash)
    return a->tmp;
  n = snprintf(path, sizeof(path), "tmp/%.*s", (int)(slash - name), name);
  return open_kept(a, path, (size_t)n, O_PATH | O_DIRECTORY);
}

/* Keeps the old content as path.bak: the two files are exchanged, so that one always exists. A
 * missing backup is not a failure: the content itself is safe. */
static int
put_with_backup(struct qp__applier *a, int tmp, const char *temp, int dir, const char *base)
{
  const struct qp__os *os = a->os;
  char backup[QP__PATH_MAX];
  int n = snprintf(backup, sizeof(backup), "%s.bak", base);
  int rc;

  if (n < 0 || (size_t)n >= sizeof(backup))
    return -ENAMETOOLONG;
  rc = os->renameat(os->self, tmp, temp, dir, base, QP__RENAME_EXCHANGE);
  if (rc == -ENOENT || rc == -EINVAL || rc == -ENOSYS)
    return os->renameat(os->self, tmp, temp, dir, base, 0);
  if (rc)
    return rc;
  if (os->renameat(os->self, tmp, temp, dir, backup, 0))
    (void)os->unlinkat(os->self, tmp, temp, 0);
  return 0;
}

static int
apply_put(struct qp__applier *a, const struct qp__op *op, const char *staged)
{
  const struct qp__os *os = a->os;
  char temp[TEMP_NAME_LEN];
  const char *base;
  int dir = open_parent(a, op->path, &base);
  int tmp;
  int rc;

  if (dir < 0)
    return dir;
  forget_path(a, op->path);
  if (!staged) {
    temp_name(a, temp);
    rc = qp__file_create(os, a->tmp, temp, op->data);
    if (rc == -EEXIST) { /* left by an interrupted recovery */
      rc = qp__tree_remove(os, a->tmp, temp);
      if (!rc)
        rc = qp__file_create(os, a->tmp, temp, op->data);
    }
    if (rc)
      return rc;
    staged = temp;
  }
  tmp = open_temp(a, staged, &staged);
  if (tmp < 0)
    return tmp;
  if (op->flags & QP__OP_BACKUP)
    return put_with_backup(a, tmp, staged, dir, base);
  return os->renameat(os->self, tmp, staged, dir, base, 0);
}

static int
apply_append(struct qp__applier *a, const struct qp__op *op)
{
  int fd = open_kept(a, op->path, strlen(op->path), O_WRONLY | O_CREAT);
  int rc = 0;

  if (fd < 0)
    return fd;
  if (op->flags & QP__OP_CUT)
    rc = a->os->ftruncate(a->os->self, fd, (off_t)op->offset);
  return rc ? rc : qp__write_at(a->os, fd, op->data.data, op->data.len, (off_t)op->offset);
}

/* Moves away what is at the new path of a RENAME, as its flags say. */
static int
clear_target(struct qp__applier *a, const struct qp__op *op)
{
  const char *base = strrchr(op->path, '/');
  char aside[QP__PATH_MAX];
  int n;
  int rc = 0;

  base = base ? base + 1 : op->path;
  if (op->flags & QP__OP_KEEP)
    n = snprintf(aside, sizeof(aside), "%s.old", op->data.data);
  else
    n = snprintf(aside, sizeof(aside), "tmp/%s", base);
  if (n < 0 || (size_t)n >= sizeof(aside))
    return -ENAMETOOLONG;
  if (op->flags & QP__OP_DROP)
    rc = qp__tree_remove(a->os, a->root, aside);
  if (!rc)
    rc = a->os->renameat(a->os->self, a->root, op->data.data, a->root, aside, 0);
  return rc == -ENOENT ? 0 : rc;
}

/* First the target is cleared, then the source is renamed: if the source does not exist, both were
 * done. */
static int
apply_rename(struct qp__applier *a, const struct qp__op *op)
{
  int rc = 0;

  forget_all(a);
  if (op->flags & (QP__OP_KEEP | QP__OP_DROP))
    rc = clear_target(a, op);
  return rc ? rc : a->os->renameat(a->os->self, a->root, op->path, a->root, op->data.data, 0);
}

int
qp__op_apply(struct qp__applier *a, const struct qp__op *op, const char *staged)
{
  int rc;

  switch (op->kind) {
  case QP__OP_PUT:
    return apply_put(a, op, staged);
  case QP__OP_APPEND:
    return apply_append(a, op);
  case QP__OP_RENAME:
    return apply_rename(a, op);
  case QP__OP_UNLINK:
    forget_path(a, op->path);
    rc = a->os->unlinkat(a->os->self, a->root, op->path, 0);
    return rc == -ENOENT ? 0 : rc;
  case QP__OP_MKDIR:
    return qp__dir_make(a->os, a->root, op->path);
  }
  return -EINVAL;
}

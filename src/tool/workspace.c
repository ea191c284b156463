/* workspace.c - see workspace.h. */
#include "tool/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "os/names.h"
#include "tool/hidden.h"

#define DEPTH_MAX 64
#define NAMES_MAX 100000 /* of one directory that is walked through */
#define FILE_MODE 0666   /* less the umask: these are the user's own files */
#define DIR_MODE 0777
#define TEMP_NAME ".quipu-"

enum qp_rc
qp__workspace_open(struct qp__workspace *w, const struct qp__os *os, const char *path,
                   struct qp_err *err)
{
  size_t len = strlen(path);
  char real[PATH_MAX];
  char *copy;
  int fd;

  memset(w, 0, sizeof(*w));
  w->fd = -1;
  if (path[0] != '/')
    return qp__fail(err, QP_INVALID, "the workspace '%.200s' must be an absolute path", path);
  while (len > 1 && path[len - 1] == '/')
    len--;
  copy = qp__strndup(path, len);
  if (!copy)
    return qp__fail_nomem(err, "opening the workspace");
  fd = os->open_root(os->self, copy, 0);
  if (fd < 0) {
    qp__free(copy);
    return qp__fail_sys(err, fd, "cannot open the workspace '%.200s'", path);
  }
  w->os = os;
  w->fd = fd;
  w->path = copy;
  if (realpath(copy, real) && strcmp(real, copy) != 0) {
    w->real = qp__strdup(real);
    if (!w->real) {
      qp__workspace_close(w);
      return qp__fail_nomem(err, "opening the workspace");
    }
  }
  return QP_OK;
}

void
qp__workspace_close(struct qp__workspace *w)
{
  if (w->path)
    qp__close(w->os, w->fd);
  qp__free(w->path);
  qp__free(w->real);
  memset(w, 0, sizeof(*w));
  w->fd = -1;
}

/* ---- paths ---- */

/* The rest of an absolute path below the workspace; NULL: it is not below it. */
static const char *
below_root(const struct qp__workspace *w, const char *path)
{
  size_t len = strlen(w->path);

  if (len == 1)
    return path + 1;
  if (strncmp(path, w->path, len) != 0 || (path[len] && path[len] != '/'))
    return NULL;
  return path + len;
}

static enum qp_rc
leaves(const char *path, struct qp_err *err)
{
  return qp__fail(err, QP_DENIED, "'%.200s' is outside of the workspace", path);
}

enum qp_rc
qp__workspace_plain(const struct qp__workspace *w, const char *path,
                    char out[QP__WORKSPACE_PATH_MAX], struct qp_err *err)
{
  char plain[QP__WORKSPACE_PATH_MAX];
  const char *p = path;
  size_t len = 0;

  if (!*path)
    return qp__fail(err, QP_INVALID, "the path is empty");
  if (strlen(path) >= sizeof(plain))
    return qp__fail(err, QP_INVALID, "the path is longer than %zu bytes", sizeof(plain) - 1);
  if (qp__has_control(path))
    return qp__fail(err, QP_INVALID, "the path has a control character");
  if (*path == '/' && !(p = below_root(w, path)))
    return leaves(path, err);
  for (p += strspn(p, "/"); *p; p += strspn(p, "/")) {
    size_t n = strcspn(p, "/");

    if (n == 2 && p[0] == '.' && p[1] == '.') {
      if (len == 0)
        return leaves(path, err);
      while (len > 0 && plain[--len] != '/')
        continue;
    } else if (n != 1 || p[0] != '.') {
      if (len > 0)
        plain[len++] = '/';
      memcpy(plain + len, p, n);
      len += n;
    }
    p += n;
  }
  if (len == 0)
    plain[len++] = '.';
  plain[len] = 0;
  memcpy(out, plain, len + 1);
  return QP_OK;
}

bool
qp__workspace_is_hidden(const struct qp__workspace *w, const char *plain)
{
  struct stat st;

  return w->hidden && w->os->fstatat(w->os->self, w->fd, plain, &st) == 0 &&
         qp__hidden_find(w->hidden, &st) == QP__IS_HIDDEN;
}

enum qp_rc
qp__workspace_reach(const struct qp__workspace *w, const char *plain, struct qp_err *err)
{
  char part[QP__WORKSPACE_PATH_MAX];
  size_t len = strlen(plain);

  for (size_t n = 1; w->hidden && n <= len; n++)
    if (n == len || plain[n] == '/') {
      memcpy(part, plain, n);
      part[n] = 0;
      if (qp__workspace_is_hidden(w, part))
        return qp__fail(err, QP_DENIED, "'%.200s' belongs to quipu itself; tools cannot reach it",
                        part);
    }
  return QP_OK;
}

enum qp_rc
qp__workspace_fail(int neg_errno, const char *deed, const char *path, struct qp_err *err)
{
  switch (neg_errno) {
  case -ENOENT:
    return qp__fail(err, QP_NOTFOUND, "there is no '%.200s'", path);
  case -ELOOP:
    return qp__fail(err, QP_DENIED,
                    "'%.200s' is a symbolic link or leads through one; links are not followed",
                    path);
  case -EXDEV:
    return leaves(path, err);
  case -ENOTDIR:
    return qp__fail(err, QP_INVALID, "'%.200s': a part of the path is not a directory", path);
  case -EISDIR:
    return qp__fail(err, QP_INVALID, "'%.200s' is a directory", path);
  case -ENOMEM:
    return qp__fail_nomem(err, deed);
  default:
    return qp__fail_sys(err, neg_errno, "cannot %s '%.200s'", deed, path);
  }
}

/* ---- reading ---- */

enum qp_rc
qp__workspace_open_file(const struct qp__workspace *w, const char *plain, int *fd, uint64_t *size,
                        struct qp_err *err)
{
  struct stat st;
  int opened;
  int rc;

  /* O_NONBLOCK: a named pipe in the place of a file must not hang us. */
  opened = qp__open(w->os, w->fd, plain, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (opened < 0)
    return qp__workspace_fail(opened, "read", plain, err);
  rc = w->os->fstat(w->os->self, opened, &st);
  if (!rc && S_ISDIR(st.st_mode))
    rc = -EISDIR;
  if (rc || !S_ISREG(st.st_mode)) {
    qp__close(w->os, opened);
    return rc ? qp__workspace_fail(rc, "read", plain, err)
              : qp__fail(err, QP_INVALID, "'%.200s' is not a regular file", plain);
  }
  *fd = opened;
  *size = (uint64_t)st.st_size;
  return QP_OK;
}

enum qp_rc
qp__workspace_read(const struct qp__workspace *w, const char *plain, struct qp__buf *out,
                   struct qp_err *err)
{
  uint64_t size = 0;
  ssize_t got = 0;
  int fd = -1;
  enum qp_rc rc = qp__workspace_open_file(w, plain, &fd, &size, err);

  if (rc)
    return rc;
  if (size > out->limit)
    rc = qp__fail(err, QP_TOOBIG, "'%.200s' has %llu bytes; at most %zu are read", plain,
                  (unsigned long long)size, out->limit);
  else if (qp__buf_reserve(out, (size_t)size))
    rc = qp__fail_nomem(err, "reading a file");
  if (!rc && size > 0) {
    got = qp__read_at(w->os, fd, out->data + out->len, (size_t)size, 0);
    if (got < 0)
      rc = qp__workspace_fail((int)got, "read", plain, err);
  }
  if (!rc && size > 0) {
    out->len += (size_t)got;
    out->data[out->len] = 0;
  }
  qp__close(w->os, fd);
  return rc;
}

/* ---- writing ---- */

static int
make_parents(const struct qp__workspace *w, const char *plain)
{
  char part[QP__WORKSPACE_PATH_MAX];
  const char *slash = plain;

  while ((slash = strchr(slash, '/'))) {
    size_t n = (size_t)(slash - plain);
    int rc;

    memcpy(part, plain, n);
    part[n] = 0;
    rc = w->os->mkdirat(w->os->self, w->fd, part, DIR_MODE);
    if (rc && rc != -EEXIST)
      return rc;
    slash++;
  }
  return 0;
}

/* A new unused name beside `plain`. */
static int
name_temp(const struct qp__workspace *w, const char *plain, char out[QP__WORKSPACE_PATH_MAX])
{
  const char *slash = strrchr(plain, '/');
  size_t dir = slash ? (size_t)(slash - plain) + 1 : 0;
  uint8_t entropy[8];
  char hex[17] = { 0 };
  int n;
  int rc = w->os->random(w->os->self, entropy, sizeof(entropy));

  if (rc)
    return rc;
  qp__hex_encode(hex, entropy, sizeof(entropy));
  n = snprintf(out, QP__WORKSPACE_PATH_MAX, "%.*s" TEMP_NAME "%s", (int)dir, plain, hex);
  return n < 0 || n >= QP__WORKSPACE_PATH_MAX ? -ENAMETOOLONG : 0;
}

enum qp_rc
qp__workspace_write(const struct qp__workspace *w, const char *plain, struct qp_bytes data,
                    bool *made, struct qp_err *err)
{
  char temp[QP__WORKSPACE_PATH_MAX];
  mode_t mode = FILE_MODE;
  struct stat st;
  bool is_new;
  int rc;

  if (strcmp(plain, ".") == 0)
    return qp__workspace_fail(-EISDIR, "write", plain, err);
  rc = w->os->fstatat(w->os->self, w->fd, plain, &st);
  is_new = rc == -ENOENT;
  if (!rc && S_ISREG(st.st_mode))
    mode = st.st_mode & 0777;
  else if (!rc)
    rc = S_ISLNK(st.st_mode) ? -ELOOP : S_ISDIR(st.st_mode) ? -EISDIR : -EPERM;
  if (is_new)
    rc = make_parents(w, plain);
  if (!rc)
    rc = name_temp(w, plain, temp);
  if (!rc)
    rc = qp__file_new(w->os, w->fd, temp, mode, true, data);
  if (rc)
    return qp__workspace_fail(rc, "write", plain, err);
  rc = w->os->renameat(w->os->self, w->fd, temp, w->fd, plain, 0);
  if (rc) {
    (void)w->os->unlinkat(w->os->self, w->fd, temp, 0);
    return qp__workspace_fail(rc, "write", plain, err);
  }
  if (made)
    *made = is_new;
  return QP_OK;
}

/* ---- walking ---- */

struct walk {
  const struct qp__workspace *w;
  qp__workspace_visit *visit;
  void *arg;
  const _Atomic bool *stop;
};

static enum qp_rc walk_into(const struct walk *walk, const char *plain, int depth,
                            struct qp_err *err);

static enum qp_rc
walk_names(const struct walk *walk, const char *plain, const struct qp__names *names, int depth,
           struct qp_err *err)
{
  const char *dir = strcmp(plain, ".") == 0 ? "" : plain;
  char child[QP__WORKSPACE_PATH_MAX];
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < names->count && !rc; i++) {
    const struct qp__name *name = &names->list[i];
    int n = snprintf(child, sizeof(child), "%s%s%s", dir, *dir ? "/" : "", name->name);

    if (walk->stop && *walk->stop)
      return qp__fail(err, QP_STOPPED, "stopped");
    if (n < 0 || (size_t)n >= sizeof(child) ||
        (name->type == DT_DIR && strcmp(name->name, ".git") == 0) ||
        qp__workspace_is_hidden(walk->w, child))
      continue;
    rc = walk->visit(walk->arg, child, name->type, err);
    if (!rc && name->type == DT_DIR && depth < DEPTH_MAX)
      rc = walk_into(walk, child, depth + 1, err);
  }
  return rc;
}

static enum qp_rc
walk_into(const struct walk *walk, const char *plain, int depth, struct qp_err *err)
{
  struct qp__names names = { 0 };
  enum qp_rc rc;
  int listed = qp__names_read_some(walk->w->os, walk->w->fd, plain, NAMES_MAX, &names);

  if (!listed && names.more)
    listed = -E2BIG;
  rc = listed == -ENOMEM || (listed && depth == 0) ? qp__workspace_fail(listed, "list", plain, err)
                                                   : walk_names(walk, plain, &names, depth, err);
  qp__names_release(&names);
  return rc;
}

enum qp_rc
qp__workspace_walk(const struct qp__workspace *w, const char *plain, qp__workspace_visit *visit,
                   void *arg, const _Atomic bool *stop, struct qp_err *err)
{
  struct walk walk = { w, visit, arg, stop };

  return walk_into(&walk, plain, 0, err);
}

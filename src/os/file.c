/* file.c - see file.h. */
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "os/names.h"

#define FILE_MODE 0600 /* conversations are private */
#define DIR_MODE 0700
#define PATH_LEN 1024
#define DEPTH_MAX 16

int
qp__open(const struct qp__os *os, int dirfd, const char *path, int flags, mode_t mode)
{
  int fd;

  do
    fd = os->openat(os->self, dirfd, path, flags, mode);
  while (fd == -EINTR);
  return fd;
}

void
qp__close(const struct qp__os *os, int fd)
{
  if (fd >= 0)
    (void)os->close(os->self, fd);
}

int
qp__fdatasync(const struct qp__os *os, int fd)
{
  int rc;

  do
    rc = os->fdatasync(os->self, fd);
  while (rc == -EINTR);
  return rc;
}

int
qp__fsync(const struct qp__os *os, int fd)
{
  int rc;

  do
    rc = os->fsync(os->self, fd);
  while (rc == -EINTR);
  return rc;
}

int
qp__syncfs(const struct qp__os *os, int fd)
{
  int rc;

  do
    rc = os->syncfs(os->self, fd);
  while (rc == -EINTR);
  return rc;
}

int
qp__flock(const struct qp__os *os, int fd, int operation)
{
  int rc;

  do
    rc = os->flock(os->self, fd, operation);
  while (rc == -EINTR);
  return rc;
}

int
qp__write_at(const struct qp__os *os, int fd, const void *data, size_t n, off_t off)
{
  const char *p = data;

  while (n) {
    ssize_t put = os->pwrite(os->self, fd, p, n, off);

    if (put == -EINTR)
      continue;
    if (put < 0)
      return (int)put;
    if (put == 0)
      return -EIO;
    p += put;
    off += put;
    n -= (size_t)put;
  }
  return 0;
}

ssize_t
qp__read_at(const struct qp__os *os, int fd, void *data, size_t n, off_t off)
{
  char *p = data;
  size_t got = 0;

  while (got < n) {
    ssize_t r = os->pread(os->self, fd, p + got, n - got, off + (off_t)got);

    if (r == -EINTR)
      continue;
    if (r < 0)
      return r;
    if (r == 0)
      break;
    got += (size_t)r;
  }
  return (ssize_t)got;
}

int
qp__file_new(const struct qp__os *os, int dirfd, const char *path, mode_t mode, bool sync,
             struct qp_bytes data)
{
  int fd = qp__open(os, dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  int rc;

  if (fd < 0)
    return fd;
  rc = qp__write_at(os, fd, data.data, data.len, 0);
  if (!rc && sync)
    rc = qp__fdatasync(os, fd);
  qp__close(os, fd);
  if (rc)
    (void)os->unlinkat(os->self, dirfd, path, 0);
  return rc;
}

int
qp__file_create(const struct qp__os *os, int dirfd, const char *path, struct qp_bytes data)
{
  return qp__file_new(os, dirfd, path, FILE_MODE, false, data);
}

int
qp__file_replace(const struct qp__os *os, int dirfd, const char *name, const char *temp,
                 struct qp_bytes data)
{
  int sys = os->unlinkat(os->self, dirfd, temp, 0);

  if (!sys || sys == -ENOENT)
    sys = qp__file_new(os, dirfd, temp, 0600, true, data);
  if (sys)
    return sys;
  sys = os->renameat(os->self, dirfd, temp, dirfd, name, 0);
  if (sys)
    (void)os->unlinkat(os->self, dirfd, temp, 0);
  return sys ? sys : qp__fsync(os, dirfd);
}

int
qp__file_read(const struct qp__os *os, int dirfd, const char *path, struct qp__buf *out)
{
  struct stat st;
  ssize_t got;
  int fd;
  int rc;

  /* O_NONBLOCK: opening a named pipe in the place of a file must not block. */
  fd = qp__open(os, dirfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0)
    return fd;
  rc = os->fstat(os->self, fd, &st);
  if (!rc && !S_ISREG(st.st_mode))
    rc = -ENOTSUP;
  if (!rc) {
    enum qp_rc grown = qp__buf_reserve(out, (size_t)st.st_size);

    rc = grown == QP_TOOBIG ? -EOVERFLOW : grown ? -ENOMEM : 0;
  }
  if (!rc) {
    got = qp__read_at(os, fd, out->data + out->len, (size_t)st.st_size, 0);
    if (got < 0) {
      rc = (int)got;
    } else {
      out->len += (size_t)got;
      out->data[out->len] = 0;
    }
  }
  qp__close(os, fd);
  return rc;
}

int
qp__dir_make(const struct qp__os *os, int dirfd, const char *path)
{
  struct stat st;
  int rc = os->mkdirat(os->self, dirfd, path, DIR_MODE);

  if (rc != -EEXIST)
    return rc;
  rc = os->fstatat(os->self, dirfd, path, &st);
  if (rc)
    return rc;
  return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int
qp__dir_make_parents(const struct qp__os *os, int dirfd, const char *path)
{
  char part[PATH_LEN];
  const char *slash = path;

  while ((slash = strchr(slash, '/'))) {
    size_t n = (size_t)(slash - path);
    int rc;

    if (n >= sizeof(part))
      return -ENAMETOOLONG;
    memcpy(part, path, n);
    part[n] = 0;
    rc = qp__dir_make(os, dirfd, part);
    if (rc)
      return rc;
    slash++;
  }
  return 0;
}

/* ---- removing a tree ---- */

static int remove_dir(const struct qp__os *os, int dirfd, const char *path, int depth);

static int
remove_entry(const struct qp__os *os, int dirfd, const char *path, bool is_dir, int depth)
{
  int rc;

  if (is_dir)
    return remove_dir(os, dirfd, path, depth);
  rc = os->unlinkat(os->self, dirfd, path, 0);
  return rc == -ENOENT ? 0 : rc;
}

static int
remove_dir(const struct qp__os *os, int dirfd, const char *path, int depth)
{
  struct qp__names names = { 0 };
  char child[PATH_LEN];
  int rc = depth > DEPTH_MAX ? -ELOOP : qp__names_read(os, dirfd, path, &names);

  for (size_t i = 0; i < names.count && !rc; i++) {
    int n = snprintf(child, sizeof(child), "%s/%s", path, names.list[i].name);

    rc = n < 0 || (size_t)n >= sizeof(child)
             ? -ENAMETOOLONG
             : remove_entry(os, dirfd, child, names.list[i].type == DT_DIR, depth + 1);
  }
  qp__names_release(&names);
  if (!rc)
    rc = os->unlinkat(os->self, dirfd, path, AT_REMOVEDIR);
  return rc == -ENOENT ? 0 : rc;
}

int
qp__tree_remove(const struct qp__os *os, int dirfd, const char *path)
{
  struct stat st;
  int rc = os->fstatat(os->self, dirfd, path, &st);

  if (rc == -ENOENT)
    return 0;
  return rc ? rc : remove_entry(os, dirfd, path, S_ISDIR(st.st_mode), 0);
}

/* os_tools.h - short forms of the calls through struct qp__os, for tests. Calls that must succeed
 * assert it. Paths are relative to the directory `dir`. */
#ifndef OS_TOOLS_H
#define OS_TOOLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "os/os.h"

#define FILE_LEN 8192 /* longer files are read up to here */

static inline int
open_at(const struct qp__os *os, int dir, const char *path, int flags)
{
  return os->openat(os->self, dir, path, flags, 0640);
}

static inline void
close_fd(const struct qp__os *os, int fd)
{
  assert_int_equal(os->close(os->self, fd), 0);
}

static inline int
root_of(const struct qp__os *os)
{
  int fd = os->open_root(os->self, "/data", 1);

  assert_true(fd >= 0);
  return fd;
}

/* Opens, makes if missing, and writes from the start; the descriptor stays open. */
static inline int
put_open(const struct qp__os *os, int dir, const char *path, const char *text)
{
  int fd = open_at(os, dir, path, O_RDWR | O_CREAT);

  assert_true(fd >= 0);
  assert_int_equal(os->pwrite(os->self, fd, text, strlen(text), 0), strlen(text));
  return fd;
}

static inline void
put(const struct qp__os *os, int dir, const char *path, const char *text)
{
  close_fd(os, put_open(os, dir, path, text));
}

static inline void
put_synced(const struct qp__os *os, int dir, const char *path, const char *text)
{
  int fd = put_open(os, dir, path, text);

  assert_int_equal(os->fsync(os->self, fd), 0);
  close_fd(os, fd);
}

/* The length of the file, whose bytes are in buf, ended by a NUL; -errno when it cannot be
 * opened. */
static inline ssize_t
get(const struct qp__os *os, int dir, const char *path, char buf[FILE_LEN])
{
  int fd = open_at(os, dir, path, O_RDONLY);
  ssize_t n;

  if (fd < 0)
    return fd;
  n = os->pread(os->self, fd, buf, FILE_LEN - 1, 0);
  assert_true(n >= 0);
  buf[n] = 0;
  close_fd(os, fd);
  return n;
}

static inline void
assert_content(const struct qp__os *os, int dir, const char *path, const char *text)
{
  char buf[FILE_LEN];

  assert_int_equal(get(os, dir, path, buf), strlen(text));
  assert_string_equal(buf, text);
}

static inline int
make_dir(const struct qp__os *os, int dir, const char *path)
{
  return os->mkdirat(os->self, dir, path, 0755);
}

static inline int
move(const struct qp__os *os, int dir, const char *from, const char *to)
{
  return os->renameat(os->self, dir, from, dir, to, 0);
}

static inline int
exchange(const struct qp__os *os, int dir, const char *from, const char *to)
{
  return os->renameat(os->self, dir, from, dir, to, QP__RENAME_EXCHANGE);
}

static inline int
stat_of(const struct qp__os *os, int dir, const char *path, struct stat *st)
{
  return os->fstatat(os->self, dir, path, st);
}

static inline bool
exists(const struct qp__os *os, int dir, const char *path)
{
  struct stat st;
  int rc = stat_of(os, dir, path, &st);

  assert_true(rc == 0 || rc == -ENOENT || rc == -ENOTDIR);
  return rc == 0;
}

static inline void
sync_dir(const struct qp__os *os, int dir, const char *path)
{
  int fd = open_at(os, dir, path, O_RDONLY | O_DIRECTORY);

  assert_true(fd >= 0);
  assert_int_equal(os->fsync(os->self, fd), 0);
  close_fd(os, fd);
}

/* A visitor of listdir that stops at the first name. */
static inline int
stop_at_once(void *arg, const char *name, unsigned char type)
{
  (void)arg;
  (void)name;
  (void)type;
  return 77;
}

#endif

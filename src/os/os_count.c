/* os_count.c - see os_count.h. Clocks, locks, random bytes and close are not counted. */
#include "os/os_count.h"

#include <fcntl.h>

static void
count(atomic_ullong *n)
{
  (void)atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static int
count_open_root(void *self, const char *path, int create)
{
  struct qp__os_count *c = self;

  count(&c->opens);
  return c->inner->open_root(c->inner->self, path, create);
}

static int
count_stat_root(void *self, int base, const char *path, struct stat *st)
{
  struct qp__os_count *c = self;

  count(&c->reads);
  return c->inner->stat_root(c->inner->self, base, path, st);
}

static int
count_close(void *self, int fd)
{
  struct qp__os_count *c = self;

  return c->inner->close(c->inner->self, fd);
}

static ssize_t
count_pread(void *self, int fd, void *buf, size_t n, off_t off)
{
  struct qp__os_count *c = self;

  count(&c->reads);
  return c->inner->pread(c->inner->self, fd, buf, n, off);
}

static ssize_t
count_pwrite(void *self, int fd, const void *buf, size_t n, off_t off)
{
  struct qp__os_count *c = self;

  count(&c->writes);
  return c->inner->pwrite(c->inner->self, fd, buf, n, off);
}

static int
count_ftruncate(void *self, int fd, off_t len)
{
  struct qp__os_count *c = self;

  count(&c->writes);
  return c->inner->ftruncate(c->inner->self, fd, len);
}

static int
count_allocate(void *self, int fd, off_t len)
{
  struct qp__os_count *c = self;

  count(&c->writes);
  return c->inner->allocate(c->inner->self, fd, len);
}

static int
count_space(void *self, int fd, uint64_t *room, uint64_t *total)
{
  struct qp__os_count *c = self;

  return c->inner->space(c->inner->self, fd, room, total);
}

static int
count_set_mtime(void *self, int fd, const struct timespec *time)
{
  struct qp__os_count *c = self;

  count(&c->writes);
  return c->inner->set_mtime(c->inner->self, fd, time);
}

static int
count_fdatasync(void *self, int fd)
{
  struct qp__os_count *c = self;

  count(&c->syncs);
  return c->inner->fdatasync(c->inner->self, fd);
}

static int
count_fsync(void *self, int fd)
{
  struct qp__os_count *c = self;

  count(&c->syncs);
  return c->inner->fsync(c->inner->self, fd);
}

static int
count_syncfs(void *self, int fd)
{
  struct qp__os_count *c = self;

  count(&c->syncs);
  return c->inner->syncfs(c->inner->self, fd);
}

static int
count_fstat(void *self, int fd, struct stat *st)
{
  struct qp__os_count *c = self;

  count(&c->reads);
  return c->inner->fstat(c->inner->self, fd, st);
}

static int
count_fstatat(void *self, int dirfd, const char *path, struct stat *st)
{
  struct qp__os_count *c = self;

  count(&c->reads);
  return c->inner->fstatat(c->inner->self, dirfd, path, st);
}

static int
count_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  struct qp__os_count *c = self;

  count(&c->names);
  return c->inner->mkdirat(c->inner->self, dirfd, path, mode);
}

static int
count_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  struct qp__os_count *c = self;

  count(&c->names);
  return c->inner->unlinkat(c->inner->self, dirfd, path, flags);
}

static int
count_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  struct qp__os_count *c = self;

  count(&c->names);
  return c->inner->renameat(c->inner->self, olddir, from, newdir, to, flags);
}

static int
count_listdir(void *self, int dirfd, const char *path, qp__os_name *visit, void *arg)
{
  struct qp__os_count *c = self;

  count(&c->reads);
  return c->inner->listdir(c->inner->self, dirfd, path, visit, arg);
}

static int
count_linkat(void *self, int olddir, const char *from, int newdir, const char *to)
{
  struct qp__os_count *c = self;

  count(&c->names);
  return c->inner->linkat(c->inner->self, olddir, from, newdir, to);
}

static int
count_clone(void *self, int to, int from)
{
  struct qp__os_count *c = self;

  count(&c->writes);
  return c->inner->clone(c->inner->self, to, from);
}

static int
count_flock(void *self, int fd, int operation)
{
  struct qp__os_count *c = self;

  return c->inner->flock(c->inner->self, fd, operation);
}

static int64_t
count_now_ms(void *self)
{
  struct qp__os_count *c = self;

  return c->inner->now_ms(c->inner->self);
}

static int64_t
count_mono_ms(void *self)
{
  struct qp__os_count *c = self;

  return c->inner->mono_ms(c->inner->self);
}

static int
count_random(void *self, void *buf, size_t n)
{
  struct qp__os_count *c = self;

  return c->inner->random(c->inner->self, buf, n);
}

static int
count_pid(void *self)
{
  struct qp__os_count *c = self;

  return c->inner->pid(c->inner->self);
}

static int
count_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  struct qp__os_count *c = self;

  count(&c->opens);
  if (flags & O_CREAT)
    count(&c->names);
  return c->inner->openat(c->inner->self, dirfd, path, flags, mode);
}

void
qp__os_count_init(struct qp__os_count *c, const struct qp__os *inner)
{
  c->inner = inner;
  c->os = (struct qp__os){
    .self = c,
    .real = inner->real,
    .openat = count_openat,
    .open_root = count_open_root,
    .stat_root = count_stat_root,
    .close = count_close,
    .pread = count_pread,
    .pwrite = count_pwrite,
    .ftruncate = count_ftruncate,
    .allocate = count_allocate,
    .set_mtime = count_set_mtime,
    .fdatasync = count_fdatasync,
    .fsync = count_fsync,
    .syncfs = count_syncfs,
    .fstat = count_fstat,
    .space = count_space,
    .fstatat = count_fstatat,
    .mkdirat = count_mkdirat,
    .unlinkat = count_unlinkat,
    .renameat = count_renameat,
    .listdir = count_listdir,
    .linkat = count_linkat,
    .clone = count_clone,
    .flock = count_flock,
    .now_ms = count_now_ms,
    .mono_ms = count_mono_ms,
    .random = count_random,
    .pid = count_pid,
  };
}

/* os_count.c - see os_count.h. Clocks, locks, random bytes and close are not counted. */
#include "os/os_count.h"

#include <fcntl.h>

static void
count(atomic_ullong *n)
{
  (void)atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* Defines count_NAME(): passes a call on to the slot NAME, after counting it. The last arguments
 * are those of the call behind `self`. */
#define COUNTED(result, name, counter, params, ...)     \
  static result count_##name params                     \
  {                                                     \
    struct qp__os_count *c = self;                      \
                                                        \
    count(&c->counter);                                 \
    return c->inner->name(c->inner->self, __VA_ARGS__); \
  }

COUNTED(int, open_root, opens, (void *self, const char *path, int create), path, create)
COUNTED(int, stat_root, reads, (void *self, int base, const char *path, struct stat *st), base,
        path, st)
COUNTED(ssize_t, pread, reads, (void *self, int fd, void *buf, size_t n, off_t off), fd, buf, n,
        off)
COUNTED(ssize_t, pwrite, writes, (void *self, int fd, const void *buf, size_t n, off_t off), fd,
        buf, n, off)
COUNTED(int, ftruncate, writes, (void *self, int fd, off_t len), fd, len)
COUNTED(int, allocate, writes, (void *self, int fd, off_t len), fd, len)
COUNTED(int, set_mtime, writes, (void *self, int fd, const struct timespec *time), fd, time)
COUNTED(int, fdatasync, syncs, (void *self, int fd), fd)
COUNTED(int, fsync, syncs, (void *self, int fd), fd)
COUNTED(int, syncfs, syncs, (void *self, int fd), fd)
COUNTED(int, fstat, reads, (void *self, int fd, struct stat *st), fd, st)
COUNTED(int, fstatat, reads, (void *self, int dirfd, const char *path, struct stat *st), dirfd,
        path, st)
COUNTED(int, mkdirat, names, (void *self, int dirfd, const char *path, mode_t mode), dirfd, path,
        mode)
COUNTED(int, unlinkat, names, (void *self, int dirfd, const char *path, int flags), dirfd, path,
        flags)
COUNTED(int, renameat, names,
        (void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags),
        olddir, from, newdir, to, flags)
COUNTED(int, listdir, reads,
        (void *self, int dirfd, const char *path, qp__os_name *visit, void *arg), dirfd, path,
        visit, arg)
COUNTED(int, linkat, names, (void *self, int olddir, const char *from, int newdir, const char *to),
        olddir, from, newdir, to)
COUNTED(int, clone, writes, (void *self, int to, int from), to, from)

/* Not counted. */

static int
count_close(void *self, int fd)
{
  struct qp__os_count *c = self;

  return c->inner->close(c->inner->self, fd);
}

static int
count_space(void *self, int fd, uint64_t *room, uint64_t *total)
{
  struct qp__os_count *c = self;

  return c->inner->space(c->inner->self, fd, room, total);
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

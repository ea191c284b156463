/* os_count.c - see os_count.h. Clocks, locks, random bytes, space and close are not counted. */
#include "os/os_count.h"

#include <fcntl.h>

static void
count(atomic_ullong *n)
{
  (void)atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* All slots of struct qp__os: the type of the result, the name, the statement that counts in *c,
 * the parameters, and the arguments of the inner call. */
#define SLOTS(SLOT)                                                                                \
  SLOT(int, open_root, count(&c->opens), (void *self, const char *path, int create),               \
       (in, path, create))                                                                         \
  SLOT(int, stat_root, count(&c->reads),                                                           \
       (void *self, int base, const char *path, struct stat *st), (in, base, path, st))            \
  SLOT(int, openat, count_open(c, flags),                                                          \
       (void *self, int dirfd, const char *path, int flags, mode_t mode),                          \
       (in, dirfd, path, flags, mode))                                                             \
  SLOT(int, close, (void)0, (void *self, int fd), (in, fd))                                        \
  SLOT(ssize_t, pread, count(&c->reads), (void *self, int fd, void *buf, size_t n, off_t off),     \
       (in, fd, buf, n, off))                                                                      \
  SLOT(ssize_t, pwrite, count(&c->writes),                                                         \
       (void *self, int fd, const void *buf, size_t n, off_t off), (in, fd, buf, n, off))          \
  SLOT(int, ftruncate, count(&c->writes), (void *self, int fd, off_t len), (in, fd, len))          \
  SLOT(int, allocate, count(&c->writes), (void *self, int fd, off_t len), (in, fd, len))           \
  SLOT(int, set_mtime, count(&c->writes), (void *self, int fd, const struct timespec *time),       \
       (in, fd, time))                                                                             \
  SLOT(int, fdatasync, count(&c->syncs), (void *self, int fd), (in, fd))                           \
  SLOT(int, fsync, count(&c->syncs), (void *self, int fd), (in, fd))                               \
  SLOT(int, syncfs, count(&c->syncs), (void *self, int fd), (in, fd))                              \
  SLOT(int, fstat, count(&c->reads), (void *self, int fd, struct stat *st), (in, fd, st))          \
  SLOT(int, space, (void)0, (void *self, int fd, uint64_t *room, uint64_t *total),                 \
       (in, fd, room, total))                                                                      \
  SLOT(int, fstatat, count(&c->reads), (void *self, int dirfd, const char *path, struct stat *st), \
       (in, dirfd, path, st))                                                                      \
  SLOT(int, mkdirat, count(&c->names), (void *self, int dirfd, const char *path, mode_t mode),     \
       (in, dirfd, path, mode))                                                                    \
  SLOT(int, unlinkat, count(&c->names), (void *self, int dirfd, const char *path, int flags),      \
       (in, dirfd, path, flags))                                                                   \
  SLOT(int, renameat, count(&c->names),                                                            \
       (void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags),     \
       (in, olddir, from, newdir, to, flags))                                                      \
  SLOT(int, listdir, count(&c->reads),                                                             \
       (void *self, int dirfd, const char *path, qp__os_name *visit, void *arg),                   \
       (in, dirfd, path, visit, arg))                                                              \
  SLOT(int, linkat, count(&c->names),                                                              \
       (void *self, int olddir, const char *from, int newdir, const char *to),                     \
       (in, olddir, from, newdir, to))                                                             \
  SLOT(int, clone, count(&c->writes), (void *self, int to, int from), (in, to, from))              \
  SLOT(int, flock, (void)0, (void *self, int fd, int operation), (in, fd, operation))              \
  SLOT(int64_t, now_ms, (void)0, (void *self), (in))                                               \
  SLOT(int64_t, mono_ms, (void)0, (void *self), (in))                                              \
  SLOT(int, random, (void)0, (void *self, void *buf, size_t n), (in, buf, n))                      \
  SLOT(int, pid, (void)0, (void *self), (in))

static void
count_open(struct qp__os_count *c, int flags)
{
  count(&c->opens);
  if (flags & O_CREAT)
    count(&c->names);
}

/* Defines count_NAME(): counts a call and passes it on. */
#define DEFINE_SLOT(result, name, counting, params, args) \
  static result count_##name params                       \
  {                                                       \
    struct qp__os_count *c = self;                        \
    void *in = c->inner->self;                            \
                                                          \
    counting;                                             \
    return c->inner->name args;                           \
  }
SLOTS(DEFINE_SLOT)

void
qp__os_count_init(struct qp__os_count *c, const struct qp__os *inner)
{
#define SET_SLOT(result, name, counting, params, args) .name = count_##name,
  c->inner = inner;
  c->os = (struct qp__os){ .self = c, .real = inner->real, SLOTS(SET_SLOT) };
#undef SET_SLOT
}

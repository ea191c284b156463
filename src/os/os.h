/* os.h - the interface to the operating system: every file, clock and random call of the library
 * goes through one of these functions, so that tests can replace them.
 *
 * All functions return 0 or a count on success and -errno on failure; none sets errno. os_posix.c
 * is the real implementation. For tests, os_fault.c wraps another one and makes the Nth call fail,
 * and os_sim.c is a file system in memory that drops, keeps or tears unsynced data when its power
 * is cut.
 *
 * Paths are relative to a directory descriptor. They never leave it ("..", absolute) and never pass
 * a symbolic link: openat returns -ELOOP or -EXDEV then. Only open_root and stat_root accept paths
 * of the user. Descriptors of one qp__os must not be used with another. All functions may be called
 * from any thread. */
#ifndef QP_OS_OS_H
#define QP_OS_OS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

/* Called for each name except "." and "..". `type` is DT_REG, DT_DIR, DT_LNK, … (never DT_UNKNOWN).
 * A non-zero result stops the listing and is returned by listdir. */
typedef int qp__os_name(void *arg, const char *name, unsigned char type);

enum { QP__RENAME_EXCHANGE = 1 }; /* both paths must exist; they are exchanged */

struct qp__os {
  void *self;
  bool real; /* its paths are those of the system, so that SQLite can open files by them */

  /* Opens a directory by a path of the user, following links; `create`: creates the last
   * component. */
  int (*open_root)(void *self, const char *path, int create);
  /* Stats a path of the user; a relative path starts at the directory `base`. */
  int (*stat_root)(void *self, int base, const char *path, struct stat *st);

  /* O_* flags as for open(2); O_CLOEXEC is always added. -ENOTSUP: the path is a pipe, a device or
   * a socket; opening it never blocks. */
  int (*openat)(void *self, int dirfd, const char *path, int flags, mode_t mode);
  int (*close)(void *self, int fd);
  ssize_t (*pread)(void *self, int fd, void *buf, size_t n, off_t off);
  ssize_t (*pwrite)(void *self, int fd, const void *buf, size_t n, off_t off);
  int (*ftruncate)(void *self, int fd, off_t len);
  /* Sets the length of the file and allocates its blocks; -EOPNOTSUPP if not supported. */
  int (*allocate)(void *self, int fd, off_t len);
  int (*set_mtime)(void *self, int fd, const struct timespec *time);
  int (*fdatasync)(void *self, int fd);
  int (*fsync)(void *self, int fd); /* on a directory: its entries */
  int (*syncfs)(void *self, int fd);
  int (*fstat)(void *self, int fd, struct stat *st);
  /* The free space (0 also if no inode is free) and the total space of the file system. */
  int (*space)(void *self, int fd, uint64_t *room, uint64_t *total);

  /* The parent of `path` is resolved as above; if the last component is a link, the call concerns
   * the link itself. fstatat also accepts ".". */
  int (*fstatat)(void *self, int dirfd, const char *path, struct stat *st);
  int (*mkdirat)(void *self, int dirfd, const char *path, mode_t mode);
  int (*unlinkat)(void *self, int dirfd, const char *path, int flags); /* AT_REMOVEDIR */
  int (*renameat)(void *self, int olddir, const char *from, int newdir, const char *to,
                  unsigned flags);
  int (*listdir)(void *self, int dirfd, const char *path, qp__os_name *visit, void *arg);
  /* Creates a hard link; also to a link, if `from` is one. */
  int (*linkat)(void *self, int olddir, const char *from, int newdir, const char *to);
  /* Makes the empty file `to` share the blocks of `from` (reflink). Fails if the file system cannot
   * do that: the caller then copies the bytes. */
  int (*clone)(void *self, int to, int from);

  int (*flock)(void *self, int fd, int operation);
  int64_t (*now_ms)(void *self);  /* wall clock */
  int64_t (*mono_ms)(void *self); /* monotonic clock */
  int (*random)(void *self, void *buf, size_t n);
  int (*pid)(void *self);
};

/* The real operating system. */
extern const struct qp__os qp__os_posix;

#endif

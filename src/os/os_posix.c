/* os_posix.c - struct qp__os on Linux.
 *
 * (1) A path below a descriptor is resolved by openat2 with RESOLVE_BENEATH and
 *     RESOLVE_NO_SYMLINKS. If the kernel lacks openat2 or a filter forbids it, open_walk opens one
 *     component after the other with O_NOFOLLOW. Both reject the same paths: absolute paths and any
 *     ".." with -EXDEV, any symbolic link with -ELOOP.
 * (2) The other *at calls cannot enforce this. They get a descriptor of the parent directory, found
 *     by (1), and a name without '/'. None of them follows a link there.
 * (3) -EINTR is returned only by pread, pwrite, the syncs and flock; the other calls retry. close
 *     is never repeated: Linux has released the descriptor whatever it returns.
 *
 * There is no state: `self` is not used. */
#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OPENAT2_TRIES 16 /* after this many -EAGAIN in a row use open_walk */

/* Returns 0 or a count unchanged, and -1 as -errno. */
static int
answer(int result)
{
  return result < 0 ? -errno : result;
}

/* ---- resolving a path ---- */

static bool
is_dots(const char *name, size_t len)
{
  return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

/* -EXDEV for a path that is absolute or contains "..". */
static int
check_path(const char *path)
{
  const char *p = path;

  if (*p == '/')
    return -EXDEV;
  while (*p) {
    size_t len = strcspn(p, "/");

    if (len == 2 && is_dots(p, len))
      return -EXDEV;
    p += len;
    p += strspn(p, "/");
  }
  return 0;
}

/* With O_PATH, open(2) ignores all flags except these; openat2 would reject them. */
static int
plain_flags(int flags)
{
  if (flags & O_PATH)
    flags &= O_PATH | O_DIRECTORY;
  return (flags & ~O_NOFOLLOW) | O_CLOEXEC;
}

static bool
is_link(int dirfd, const char *name)
{
  struct stat st;

  return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* Opens one name in dirfd; a symbolic link is always -ELOOP. */
static int
open_name(int dirfd, const char *name, int flags, mode_t mode)
{
  struct stat st;
  int fd;
  int rc;

  do
    fd = openat(dirfd, name, flags | O_NOFOLLOW, mode);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) {
    rc = -errno;
    return rc == -ENOTDIR && is_link(dirfd, name) ? -ELOOP : rc;
  }
  if ((flags & (O_PATH | O_DIRECTORY)) != O_PATH)
    return fd;
  rc = fstat(fd, &st) < 0 ? -errno : S_ISLNK(st.st_mode) ? -ELOOP : fd;
  if (rc < 0)
    (void)close(fd);
  return rc;
}

/* Without openat2: opens every directory on the path relative to the one before it. */
static int
open_walk(int dirfd, const char *path, int flags, mode_t mode)
{
  const char *p = path;
  char name[NAME_MAX + 1];
  int at = dirfd;
  int fd = -ENOENT;

  while (*p) {
    size_t len = strcspn(p, "/");
    const char *next = p + len + strspn(p + len, "/");
    bool last = *next == 0;

    if (len > NAME_MAX) {
      fd = -ENAMETOOLONG;
      break;
    }
    memcpy(name, p, len);
    name[len] = 0;
    if (!last)
      fd = open_name(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    else if (p[len] != '/')
      fd = open_name(at, name, flags, mode);
    else if (flags & O_CREAT) /* "name/" asks for a directory, which open does not create */
      fd = -EISDIR;
    else
      fd = open_name(at, name, flags | O_DIRECTORY, mode);
    if (at != dirfd)
      (void)close(at);
    at = fd;
    if (fd < 0)
      return fd;
    p = next;
  }
  if (fd < 0 && at != dirfd)
    (void)close(at);
  return fd;
}

static int
open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
  struct open_how how = { 0 };
  int rc = check_path(path);

  if (rc)
    return rc;
  flags = plain_flags(flags);
  how.flags = (uint64_t)(unsigned)flags;
  how.mode = flags & O_CREAT ? mode & 07777 : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int tries = 0; tries < OPENAT2_TRIES;) {
    rc = answer((int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how)));
    if (rc == -ENOSYS || rc == -EPERM)
      break; /* open_walk returns a real EPERM */
    if (rc == -EAGAIN)
      tries++;
    else if (rc != -EINTR)
      return rc;
  }
  return open_walk(dirfd, path, flags, how.mode);
}

/* ---- the parent and the last component ---- */

struct place {
  int dirfd;        /* the directory that contains the name */
  bool opened;      /* dirfd must be closed */
  const char *name; /* points into the given path; not empty, not "." and not ".." */
};

static int
find_place(int dirfd, const char *path, struct place *place)
{
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  char parent[PATH_MAX];
  int fd;

  if (*path == '/')
    return -EXDEV;
  if (!*name || is_dots(name, strlen(name)))
    return -EINVAL;
  place->dirfd = dirfd;
  place->opened = false;
  place->name = name;
  if (!slash)
    return 0;
  if ((size_t)(slash - path) >= sizeof(parent))
    return -ENAMETOOLONG;
  memcpy(parent, path, (size_t)(slash - path));
  parent[slash - path] = 0;
  fd = open_beneath(dirfd, parent, O_PATH | O_DIRECTORY, 0);
  if (fd < 0)
    return fd;
  place->dirfd = fd;
  place->opened = true;
  return 0;
}

static void
leave_place(struct place *place)
{
  if (place->opened)
    (void)close(place->dirfd);
}

/* ---- opening and closing ---- */

static int
open_dir(int dirfd, const char *path)
{
  int fd;

  do
    fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return answer(fd);
}

/* Makes the entry of a directory in its parent durable. Callers cannot do that themselves, because
 * they cannot open "..". If the parent cannot be read, its whole file system is synced; a parent
 * that does not support fsync is ignored. */
static int
sync_parent(int fd)
{
  int parent = open_dir(fd, "..");
  int rc;

  if (parent < 0)
    return answer(syncfs(fd));
  do
    rc = answer(fsync(parent));
  while (rc == -EINTR);
  (void)close(parent);
  return rc == -EINVAL || rc == -EROFS ? 0 : rc;
}

static int
posix_open_root(void *self, const char *path, int create)
{
  int fd = open_dir(AT_FDCWD, path);
  int rc;

  (void)self;
  if (!create)
    return fd;
  if (fd == -ENOENT) {
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
      return -errno;
    fd = open_dir(AT_FDCWD, path);
  }
  if (fd < 0)
    return fd;
  rc = sync_parent(fd); /* even if it existed: its creator may have crashed before this sync */
  if (rc) {
    (void)close(fd);
    return rc;
  }
  return fd;
}

static int
posix_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  struct stat st;
  int fd;

  (void)self;
  if (flags & (O_PATH | O_DIRECTORY | O_EXCL))
    return open_beneath(dirfd, path, flags, mode);
  fd = open_beneath(dirfd, path, flags | O_NONBLOCK, mode);
  if (fd == -ENXIO) /* a socket, or a pipe without a reader */
    return -ENOTSUP;
  if (fd >= 0 && !fstat(fd, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
    (void)close(fd);
    return -ENOTSUP;
  }
  return fd;
}

static int
posix_close(void *self, int fd)
{
  int rc = answer(close(fd));

  (void)self;
  return rc == -EINTR ? 0 : rc;
}

/* ---- files ---- */

/* Defines posix_NAME(), a slot that is one system call. */
#define ONE_CALL(name, params, call) \
  static int posix_##name params     \
  {                                  \
    (void)self;                      \
    return answer(call);             \
  }

ONE_CALL(allocate, (void *self, int fd, off_t len), fallocate(fd, 0, 0, len))
ONE_CALL(fdatasync, (void *self, int fd), fdatasync(fd))
ONE_CALL(fsync, (void *self, int fd), fsync(fd))
ONE_CALL(syncfs, (void *self, int fd), syncfs(fd))
ONE_CALL(fstat, (void *self, int fd, struct stat *st), fstat(fd, st))
ONE_CALL(stat_root, (void *self, int base, const char *path, struct stat *st),
         fstatat(base, path, st, 0))
ONE_CALL(clone, (void *self, int to, int from), ioctl(to, FICLONE, from))
ONE_CALL(flock, (void *self, int fd, int operation), flock(fd, operation))

static ssize_t
posix_pread(void *self, int fd, void *buf, size_t n, off_t off)
{
  ssize_t got = pread(fd, buf, n, off);

  (void)self;
  return got < 0 ? -errno : got;
}

static ssize_t
posix_pwrite(void *self, int fd, const void *buf, size_t n, off_t off)
{
  ssize_t put = pwrite(fd, buf, n, off);

  (void)self;
  return put < 0 ? -errno : put;
}

static int
posix_ftruncate(void *self, int fd, off_t len)
{
  int rc;

  (void)self;
  do
    rc = answer(ftruncate(fd, len));
  while (rc == -EINTR);
  return rc;
}

static int
posix_space(void *self, int fd, uint64_t *room, uint64_t *total)
{
  struct statvfs st;
  int rc = answer(fstatvfs(fd, &st));

  (void)self;
  if (rc)
    return rc;
  *room = st.f_files && !st.f_favail ? 0 : (uint64_t)st.f_bavail * st.f_frsize;
  *total = (uint64_t)st.f_blocks * st.f_frsize;
  return 0;
}

static int
posix_set_mtime(void *self, int fd, const struct timespec *time)
{
  struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, *time };

  (void)self;
  return answer(futimens(fd, times));
}

/* ---- names ---- */

static int
posix_fstatat(void *self, int dirfd, const char *path, struct stat *st)
{
  struct place place;
  int rc;

  (void)self;
  if (strcmp(path, ".") == 0)
    return answer(fstat(dirfd, st));
  rc = find_place(dirfd, path, &place);
  if (rc)
    return rc;
  rc = answer(fstatat(place.dirfd, place.name, st, AT_SYMLINK_NOFOLLOW));
  leave_place(&place);
  return rc;
}

static int
posix_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  struct place place;
  int rc = find_place(dirfd, path, &place);

  (void)self;
  if (rc)
    return rc;
  rc = answer(mkdirat(place.dirfd, place.name, mode));
  leave_place(&place);
  return rc;
}

static int
posix_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  struct place place;
  int rc = find_place(dirfd, path, &place);

  (void)self;
  if (rc)
    return rc;
  rc = answer(unlinkat(place.dirfd, place.name, flags));
  leave_place(&place);
  return rc;
}

/* The places of both paths of a call. On failure there is nothing to leave. */
static int
find_places(int olddir, const char *from, int newdir, const char *to, struct place *old,
            struct place *new)
{
  int rc = find_place(olddir, from, old);

  if (rc)
    return rc;
  rc = find_place(newdir, to, new);
  if (rc)
    leave_place(old);
  return rc;
}

static int
posix_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  struct place old;
  struct place new;
  int rc;

  (void)self;
  if (flags & ~(unsigned)QP__RENAME_EXCHANGE)
    return -EINVAL;
  rc = find_places(olddir, from, newdir, to, &old, &new);
  if (rc)
    return rc;
  rc = answer(renameat2(old.dirfd, old.name, new.dirfd, new.name,
                        flags & QP__RENAME_EXCHANGE ? RENAME_EXCHANGE : 0));
  leave_place(&new);
  leave_place(&old);
  return rc;
}

static int
posix_linkat(void *self, int olddir, const char *from, int newdir, const char *to)
{
  struct place old;
  struct place new;
  int rc = find_places(olddir, from, newdir, to, &old, &new);

  (void)self;
  if (rc)
    return rc;
  rc = answer(linkat(old.dirfd, old.name, new.dirfd, new.name, 0));
  leave_place(&new);
  leave_place(&old);
  return rc;
}

/* The type of an entry if the directory listing does not contain it. 0: removed in the meantime. */
static int
find_type(int dirfd, const char *name, unsigned char *type)
{
  struct stat st;

  if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT ? 0 : -errno;
  *type = (unsigned char)IFTODT(st.st_mode);
  return 1;
}

static int
visit_entries(DIR *dir, qp__os_name *visit, void *arg)
{
  const struct dirent *entry;
  unsigned char type;
  int rc;

  for (;;) {
    errno = 0;
    entry = readdir(dir);
    if (!entry)
      return -errno;
    if (is_dots(entry->d_name, strlen(entry->d_name)))
      continue;
    type = entry->d_type;
    rc = type == DT_UNKNOWN ? find_type(dirfd(dir), entry->d_name, &type) : 1;
    if (rc < 0)
      return rc;
    if (rc == 0)
      continue;
    rc = visit(arg, entry->d_name, type);
    if (rc)
      return rc;
  }
}

static int
posix_listdir(void *self, int dirfd, const char *path, qp__os_name *visit, void *arg)
{
  int fd = open_beneath(dirfd, path, O_RDONLY | O_DIRECTORY, 0);
  DIR *dir;
  int rc;

  (void)self;
  if (fd < 0)
    return fd;
  dir = fdopendir(fd);
  if (!dir) {
    rc = -errno;
    (void)close(fd);
    return rc;
  }
  rc = visit_entries(dir, visit, arg);
  (void)closedir(dir);
  return rc;
}

/* ---- clocks, random bytes ---- */

static int64_t
read_clock(clockid_t clock)
{
  struct timespec ts = { 0, 0 };

  (void)clock_gettime(clock, &ts); /* cannot fail for the two clocks used here */
  return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t
posix_now_ms(void *self)
{
  (void)self;
  return read_clock(CLOCK_REALTIME);
}

static int64_t
posix_mono_ms(void *self)
{
  (void)self;
  return read_clock(CLOCK_MONOTONIC);
}

static int
posix_random(void *self, void *buf, size_t n)
{
  unsigned char *p = buf;

  (void)self;
  while (n > 0) {
    ssize_t got = getrandom(p, n, 0);

    if (got < 0 && errno != EINTR)
      return -errno;
    if (got > 0) {
      p += got;
      n -= (size_t)got;
    }
  }
  return 0;
}

static int
posix_pid(void *self)
{
  (void)self;
  return (int)getpid();
}

const struct qp__os qp__os_posix = {
  .self = NULL,
  .real = true,
  .open_root = posix_open_root,
  .stat_root = posix_stat_root,
  .openat = posix_openat,
  .close = posix_close,
  .pread = posix_pread,
  .pwrite = posix_pwrite,
  .ftruncate = posix_ftruncate,
  .allocate = posix_allocate,
  .set_mtime = posix_set_mtime,
  .fdatasync = posix_fdatasync,
  .fsync = posix_fsync,
  .syncfs = posix_syncfs,
  .fstat = posix_fstat,
  .space = posix_space,
  .fstatat = posix_fstatat,
  .mkdirat = posix_mkdirat,
  .unlinkat = posix_unlinkat,
  .renameat = posix_renameat,
  .listdir = posix_listdir,
  .linkat = posix_linkat,
  .clone = posix_clone,
  .flock = posix_flock,
  .now_ms = posix_now_ms,
  .mono_ms = posix_mono_ms,
  .random = posix_random,
  .pid = posix_pid,
};

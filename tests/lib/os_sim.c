/* os_sim.c - the functions of the simulated file system, as callers see them.
 *
 * Every function takes the lock, returns -EIO if the power is off, works on the cached state and
 * records its changes as pending (os_sim_cut.c). Memory is allocated before anything is changed, so
 * -ENOMEM changes nothing. Only listdir releases the lock before it calls the visitor, which may
 * call other functions. */
#include "os_sim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>

#include "base/alloc.h"
#include "os_sim_int.h"

#define START_MS ((int64_t)1800000000000) /* 2027-01-15T08:00:00Z */
#define START_MONO_MS 1000000
#define FIRST_FD 1000 /* a number that the process itself does not use */
#define FIRST_PID 4000
#define DEVICE 77
#define BLOCK_LEN 4096
#define STAT_BLOCK_LEN 512 /* what st_blocks counts in */

#define KNOWN_FLAGS                                                                         \
  (O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC | \
   O_NONBLOCK | O_NOCTTY | O_LARGEFILE)

/* ---- in and out ---- */

static int
enter(struct qp__os_sim *s)
{
  (void)pthread_mutex_lock(&s->lock);
  if (!s->off)
    return 0;
  (void)pthread_mutex_unlock(&s->lock);
  return -EIO;
}

/* Counts a successful call that `changed` something. It may be the last before the power is cut. */
static int
leave(struct qp__os_sim *s, int rc, bool changed)
{
  if (rc >= 0 && changed) {
    s->mutations++;
    if (s->cut_armed && --s->cut_left == 0)
      s->off = true;
  }
  (void)pthread_mutex_unlock(&s->lock);
  return rc;
}

/* ---- descriptors ---- */

static struct qp__sim_file *
find_file(struct qp__os_sim *s, int fd)
{
  struct qp__sim_file *file;

  if (fd < FIRST_FD)
    return NULL;
  file = &s->files[fd % QP__SIM_FILES];
  return file->fd == fd ? file : NULL;
}

/* A descriptor that can be used for more than naming a place. */
static struct qp__sim_file *
find_open(struct qp__os_sim *s, int fd)
{
  struct qp__sim_file *file = find_file(s, fd);

  return file && !(file->flags & O_PATH) ? file : NULL;
}

static bool
can_write(const struct qp__sim_file *file)
{
  return (file->flags & O_ACCMODE) == O_WRONLY || (file->flags & O_ACCMODE) == O_RDWR;
}

/* The next number whose place is free. NULL: all are in use. */
static struct qp__sim_file *
find_free(struct qp__os_sim *s, int *fd)
{
  for (int i = 0; i < QP__SIM_FILES; i++) {
    int number = s->next_fd > INT_MAX - QP__SIM_FILES ? FIRST_FD + i : s->next_fd + i;

    if (!s->files[number % QP__SIM_FILES].fd) {
      *fd = number;
      return &s->files[number % QP__SIM_FILES];
    }
  }
  return NULL;
}

static int
open_node(struct qp__os_sim *s, struct qp__sim_inode *node, int flags)
{
  int fd;
  struct qp__sim_file *file = find_free(s, &fd);

  if (!file)
    return -EMFILE;
  file->fd = fd;
  file->flags = flags;
  file->lock = 0;
  file->node = qp__sim_inode_ref(node);
  node->opens++;
  s->next_fd = fd + 1;
  return fd;
}

/* ---- paths ---- */

static int
find_at(struct qp__os_sim *s, int dirfd, const char *path, struct qp__sim_place *place)
{
  struct qp__sim_file *file = find_file(s, dirfd);

  if (*path == '/')
    return -EXDEV;
  if (!file)
    return -EBADF;
  return qp__sim_find(file->node, path, place);
}

/* As find_at, for calls that need a real name at the end. */
static int
find_name(struct qp__os_sim *s, int dirfd, const char *path, struct qp__sim_place *place)
{
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;

  if (*path == '/')
    return -EXDEV;
  if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
    return -EINVAL;
  return find_at(s, dirfd, path, place);
}

/* ---- opening and closing ---- */

/* The path of the user, from the top of the tree; "" is the top itself. */
static const char *
skip_root(const char *path)
{
  path += strspn(path, "/");
  return *path ? path : ".";
}

static int
sim_open_root(void *self, const char *path, int create)
{
  struct qp__os_sim *s = self;
  struct qp__sim_place place;
  bool made = false;
  int rc = enter(s);

  if (rc)
    return rc;
  rc = *path ? qp__sim_find(s->root, skip_root(path), &place) : -ENOENT;
  if (!rc && !place.node) {
    rc = create ? qp__sim_create(s, &place, S_IFDIR | 0700) : -ENOENT;
    if (!rc) {
      made = true;
      rc = qp__sim_sync_names(s, place.dir);
    }
  }
  if (!rc && !S_ISDIR(place.node->mode))
    rc = -ENOTDIR;
  if (!rc)
    rc = open_node(s, place.node, O_RDONLY | O_DIRECTORY);
  return leave(s, rc, made);
}

/* The error of open(2) for a thing that exists, or 0. */
static int
check_open(const struct qp__sim_inode *node, int flags)
{
  bool writes = (flags & O_ACCMODE) != O_RDONLY;

  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
    return -EEXIST;
  if (S_ISDIR(node->mode) && (writes || (flags & O_CREAT)))
    return -EISDIR;
  if (!S_ISDIR(node->mode) && (flags & O_DIRECTORY))
    return -ENOTDIR;
  return 0;
}

static int
sim_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  struct qp__os_sim *s = self;
  struct qp__sim_place place;
  bool changed = false;
  int fd;
  int rc = enter(s);

  if (rc)
    return rc;
  if (flags & O_PATH)
    flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if ((flags & ~KNOWN_FLAGS) || (flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY)) {
    rc = -EINVAL;
    goto out;
  }
  rc = find_at(s, dirfd, path, &place);
  if (rc)
    goto out;
  if (!find_free(s, &fd)) {
    rc = -EMFILE;
    goto out;
  }
  if (place.node) {
    rc = check_open(place.node, flags);
    if (!rc && (flags & O_TRUNC) && (flags & O_ACCMODE) != O_RDONLY) {
      rc = qp__sim_truncate(s, place.node, 0);
      changed = true;
    }
  } else {
    rc = !(flags & O_CREAT) ? -ENOENT
         : place.slash      ? -EISDIR
                            : qp__sim_create(s, &place, S_IFREG | (mode & 07777));
    changed = true;
  }
  if (!rc)
    rc = open_node(s, place.node, flags);
out:
  return leave(s, rc, changed);
}

static int
sim_close(void *self, int fd)
{
  struct qp__os_sim *s = self;
  struct qp__sim_file *file;
  int rc;

  (void)pthread_mutex_lock(&s->lock);
  file = find_file(s, fd);
  rc = s->off ? -EIO : file ? 0 : -EBADF;
  if (file)
    qp__sim_close(s, file);
  return leave(s, rc, false);
}

/* ---- files ---- */

static ssize_t
sim_pread(void *self, int fd, void *buf, size_t n, off_t off)
{
  struct qp__os_sim *s = self;
  struct qp__sim_file *file;
  uint64_t size;
  int rc = enter(s);

  if (rc)
    return rc;
  file = find_open(s, fd);
  if (!file || (file->flags & O_ACCMODE) == O_WRONLY)
    return leave(s, -EBADF, false);
  if (S_ISDIR(file->node->mode))
    return leave(s, -EISDIR, false);
  if (off < 0)
    return leave(s, -EINVAL, false);
  size = file->node->data.size;
  if ((uint64_t)off >= size)
    n = 0;
  else if (n > size - (uint64_t)off)
    n = (size_t)(size - (uint64_t)off);
  qp__sim_data_read(&file->node->data, buf, n, (uint64_t)off);
  (void)leave(s, 0, false);
  return (ssize_t)n;
}

static ssize_t
sim_pwrite(void *self, int fd, const void *buf, size_t n, off_t off)
{
  struct qp__os_sim *s = self;
  struct qp__sim_file *file;
  ssize_t put;
  int rc = enter(s);

  if (rc)
    return rc;
  file = find_open(s, fd);
  if (!file || !can_write(file))
    return leave(s, -EBADF, false);
  if (off < 0)
    return leave(s, -EINVAL, false);
  if (n == 0)
    return leave(s, 0, false);
  put = qp__sim_write(s, file->node, buf, n, (uint64_t)off);
  (void)leave(s, put < 0 ? (int)put : 0, true);
  return put;
}

static int
sim_ftruncate(void *self, int fd, off_t len)
{
  struct qp__os_sim *s = self;
  struct qp__sim_file *file;
  int rc = enter(s);

  if (rc)
    return rc;
  file = find_open(s, fd);
  rc = !file                         ? -EBADF
       : !can_write(file) || len < 0 ? -EINVAL
                                     : qp__sim_truncate(s, file->node, (uint64_t)len);
  return leave(s, rc, true);
}

/* Like ftruncate: a hole needs as much space as data in this file system. */
static int
sim_allocate(void *self, int fd, off_t len)
{
  return sim_ftruncate(self, fd, len);
}

static int
sim_space(void *self, int fd, uint64_t *room, uint64_t *total)
{
  struct qp__os_sim *s = self;
  int rc = enter(s);

  if (rc)
    return rc;
  if (!find_open(s, fd))
    return leave(s, -EBADF, false);
  *total = s->capacity ? s->capacity : UINT64_MAX;
  *room = *total > s->used ? *total - s->used : 0;
  return leave(s, 0, false);
}

/* Durable at once: no promise depends on it. */
static int
sim_set_mtime(void *self, int fd, const struct timespec *time)
{
  struct qp__os_sim *s = self;
  struct qp__sim_file *file;
  int rc = enter(s);

  if (rc)
    return rc;
  file = find_open(s, fd);
  if (file)
    file->node->mtime_ms = (int64_t)time->tv_sec * 1000 + time->tv_nsec / 1000000;
  return leave(s, file ? 0 : -EBADF, true);
}

static int
sim_fsync(void *self, int fd)
{
  struct qp__os_sim *s = self;
  struct qp__sim_file *file;
  int rc = enter(s);

  if (rc)
    return rc;
  file = find_open(s, fd);
  rc = !file                       ? -EBADF
       : S_ISDIR(file->node->mode) ? qp__sim_sync_names(s, file->node)
                                   : qp__sim_sync_data(file->node);
  return leave(s, rc, true);
}

static int
sim_syncfs(void *self, int fd)
{
  struct qp__os_sim *s = self;
  int rc = enter(s);

  if (rc)
    return rc;
  return leave(s, find_open(s, fd) ? qp__sim_sync_all(s) : -EBADF, true);
}

static void
fill_stat(const struct qp__sim_inode *node, struct stat *st)
{
  uint64_t size = S_ISDIR(node->mode) ? BLOCK_LEN : node->data.size;

  memset(st, 0, sizeof(*st));
  st->st_dev = DEVICE;
  st->st_ino = node->number;
  st->st_mode = node->mode;
  st->st_nlink = S_ISDIR(node->mode) && !qp__sim_is_removed(node) ? 2 : node->links;
  if (S_ISDIR(node->mode))
    for (size_t i = 0; i < node->names.count; i++)
      st->st_nlink += S_ISDIR(node->names.v[i].node->mode) ? 1 : 0;
  st->st_size = (off_t)size;
  st->st_blksize = BLOCK_LEN;
  st->st_blocks = (blkcnt_t)((size + STAT_BLOCK_LEN - 1) / STAT_BLOCK_LEN);
  st->st_mtim.tv_sec = (time_t)(node->mtime_ms / 1000);
  st->st_mtim.tv_nsec = (long)(node->mtime_ms % 1000) * 1000000;
  st->st_atim = st->st_mtim;
  st->st_ctim = st->st_mtim;
}

static int
sim_fstat(void *self, int fd, struct stat *st)
{
  struct qp__os_sim *s = self;
  const struct qp__sim_file *file;
  int rc = enter(s);

  if (rc)
    return rc;
  file = find_file(s, fd);
  if (file)
    fill_stat(file->node, st);
  return leave(s, file ? 0 : -EBADF, false);
}

/* ---- names ---- */

static int
sim_fstatat(void *self, int dirfd, const char *path, struct stat *st)
{
  struct qp__os_sim *s = self;
  struct qp__sim_place place;
  int rc = enter(s);

  if (rc)
    return rc;
  rc = find_name(s, dirfd, path, &place);
  if (!rc && !place.node)
    rc = -ENOENT;
  if (!rc)
    fill_stat(place.node, st);
  return leave(s, rc, false);
}

static int
sim_stat_root(void *self, int base, const char *path, struct stat *st)
{
  struct qp__os_sim *s = self;
  struct qp__sim_place place;
  int rc = enter(s);

  if (rc)
    return rc;
  rc = *path == '/' ? qp__sim_find(s->root, skip_root(path), &place)
                    : find_at(s, base, path, &place);
  if (!rc && !place.node)
    rc = -ENOENT;
  if (!rc)
    fill_stat(place.node, st);
  return leave(s, rc, false);
}

static int
sim_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  struct qp__os_sim *s = self;
  struct qp__sim_place place;
  int rc = enter(s);

  if (rc)
    return rc;
  rc = find_name(s, dirfd, path, &place);
  if (!rc)
    rc = place.node ? -EEXIST : qp__sim_create(s, &place, S_IFDIR | (mode & 07777));
  return leave(s, rc, true);
}

static int
sim_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  struct qp__os_sim *s = self;
  struct qp__sim_place place;
  int rc = enter(s);

  if (rc)
    return rc;
  if (flags & ~AT_REMOVEDIR)
    return leave(s, -EINVAL, false);
  rc = find_name(s, dirfd, path, &place);
  if (!rc && !place.node)
    rc = -ENOENT;
  if (!rc && S_ISDIR(place.node->mode) && !(flags & AT_REMOVEDIR))
    rc = -EISDIR;
  if (!rc && !S_ISDIR(place.node->mode) && (flags & AT_REMOVEDIR))
    rc = -ENOTDIR;
  if (!rc && place.node->names.count > 0)
    rc = -ENOTEMPTY;
  if (!rc)
    rc = qp__sim_remove(s, &place);
  return leave(s, rc, true);
}

static int
sim_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  struct qp__os_sim *s = self;
  struct qp__sim_place old;
  struct qp__sim_place new;
  int rc = enter(s);

  if (rc)
    return rc;
  if (flags & ~(unsigned)QP__RENAME_EXCHANGE)
    return leave(s, -EINVAL, false);
  rc = find_name(s, olddir, from, &old);
  if (!rc)
    rc = find_name(s, newdir, to, &new);
  if (!rc)
    rc = qp__sim_check_move(&old, &new, flags);
  if (rc || old.node == new.node)
    return leave(s, rc, false);
  return leave(s, qp__sim_move(s, &old, &new, flags), true);
}

/* ---- listing ---- */

struct listing {
  char **names;
  unsigned char *types;
  size_t count;
};

static void
release_listing(struct listing *list)
{
  for (size_t i = 0; i < list->count; i++)
    qp__free(list->names[i]);
  qp__free(list->names);
  qp__free(list->types);
}

static int
copy_listing(const struct qp__sim_names *names, struct listing *list)
{
  list->names = qp__alloc0(names->count, sizeof(*list->names));
  list->types = qp__alloc0(names->count, 1);
  if (!list->names || !list->types)
    return -ENOMEM;
  for (size_t i = 0; i < names->count; i++) {
    list->names[i] = qp__strdup(names->v[i].text);
    if (!list->names[i])
      return -ENOMEM;
    list->types[i] = S_ISDIR(names->v[i].node->mode) ? DT_DIR : DT_REG;
    list->count++;
  }
  return 0;
}

/* Names are listed in random order, so that no code can rely on an order. */
static void
shuffle_listing(struct qp__os_sim *s, struct listing *list)
{
  for (size_t i = list->count; i > 1; i--) {
    size_t j = (size_t)(qp__sim_random(&s->list_state) % i);
    char *name = list->names[j];
    unsigned char type = list->types[j];

    list->names[j] = list->names[i - 1];
    list->types[j] = list->types[i - 1];
    list->names[i - 1] = name;
    list->types[i - 1] = type;
  }
}

static int
sim_listdir(void *self, int dirfd, const char *path, qp__os_name *visit, void *arg)
{
  struct qp__os_sim *s = self;
  struct listing list = { 0 };
  struct qp__sim_place place;
  int rc = enter(s);

  if (rc)
    return rc;
  rc = find_at(s, dirfd, path, &place);
  if (!rc)
    rc = !place.node                  ? -ENOENT
         : !S_ISDIR(place.node->mode) ? -ENOTDIR
                                      : copy_listing(&place.node->names, &list);
  if (!rc)
    shuffle_listing(s, &list);
  rc = leave(s, rc, false);
  for (size_t i = 0; !rc && i < list.count; i++)
    rc = visit(arg, list.names[i], list.types[i]);
  release_listing(&list);
  return rc;
}

/* ---- what this file system cannot do ---- */

static int
sim_linkat(void *self, int olddir, const char *from, int newdir, const char *to)
{
  (void)self;
  (void)olddir;
  (void)from;
  (void)newdir;
  (void)to;
  return -EPERM;
}

static int
sim_clone(void *self, int to, int from)
{
  (void)self;
  (void)to;
  (void)from;
  return -EOPNOTSUPP;
}

/* ---- locks, clocks, random bytes ---- */

static int
sim_flock(void *self, int fd, int operation)
{
  struct qp__os_sim *s = self;
  struct qp__sim_file *file;
  int wanted = operation & ~LOCK_NB;
  int rc = enter(s);

  if (rc)
    return rc;
  file = find_open(s, fd);
  if (!file)
    return leave(s, -EBADF, false);
  if (wanted != LOCK_SH && wanted != LOCK_EX && wanted != LOCK_UN)
    return leave(s, -EINVAL, false);
  for (size_t i = 0; wanted != LOCK_UN && i < QP__SIM_FILES; i++) {
    const struct qp__sim_file *other = &s->files[i];

    if (other->fd && other != file && other->node == file->node &&
        (other->lock == LOCK_EX || (other->lock == LOCK_SH && wanted == LOCK_EX)))
      return leave(s, -EWOULDBLOCK,
                   false); /* also without LOCK_NB: the simulated system never waits */
  }
  file->lock = wanted == LOCK_UN ? 0 : wanted;
  return leave(s, 0, false);
}

static int64_t
sim_now_ms(void *self)
{
  struct qp__os_sim *s = self;
  int64_t now;

  (void)pthread_mutex_lock(&s->lock);
  now = s->now++;
  (void)pthread_mutex_unlock(&s->lock);
  return now;
}

static int64_t
sim_mono_ms(void *self)
{
  struct qp__os_sim *s = self;
  int64_t now;

  (void)pthread_mutex_lock(&s->lock);
  now = s->mono++;
  (void)pthread_mutex_unlock(&s->lock);
  return now;
}

static int
sim_random(void *self, void *buf, size_t n)
{
  struct qp__os_sim *s = self;
  unsigned char *p = buf;
  int rc = enter(s);

  if (rc)
    return rc;
  for (size_t i = 0; i < n; i++)
    p[i] = (unsigned char)(qp__sim_random(&s->random_state) >> 56);
  return leave(s, 0, false);
}

/* A restarted machine runs another process. */
static int
sim_pid(void *self)
{
  struct qp__os_sim *s = self;
  int pid;

  (void)pthread_mutex_lock(&s->lock);
  pid = FIRST_PID + (int)(s->cuts % 1000);
  (void)pthread_mutex_unlock(&s->lock);
  return pid;
}

static const struct qp__os sim_slots = {
  .open_root = sim_open_root,
  .stat_root = sim_stat_root,
  .openat = sim_openat,
  .close = sim_close,
  .pread = sim_pread,
  .pwrite = sim_pwrite,
  .ftruncate = sim_ftruncate,
  .allocate = sim_allocate,
  .set_mtime = sim_set_mtime,
  .fdatasync = sim_fsync,
  .fsync = sim_fsync,
  .syncfs = sim_syncfs,
  .fstat = sim_fstat,
  .space = sim_space,
  .fstatat = sim_fstatat,
  .mkdirat = sim_mkdirat,
  .unlinkat = sim_unlinkat,
  .renameat = sim_renameat,
  .listdir = sim_listdir,
  .linkat = sim_linkat,
  .clone = sim_clone,
  .flock = sim_flock,
  .now_ms = sim_now_ms,
  .mono_ms = sim_mono_ms,
  .random = sim_random,
  .pid = sim_pid,
};

/* ---- what tests call ---- */

struct qp__os_sim *
qp__os_sim_new(uint64_t seed)
{
  struct qp__os_sim *s = qp__alloc0(1, sizeof(*s));

  if (!s)
    return NULL;
  if (pthread_mutex_init(&s->lock, NULL)) {
    qp__free(s);
    return NULL;
  }
  s->os = sim_slots;
  s->os.self = s;
  /* Three streams of random numbers: the use of one does not change the others. */
  s->cut_state = qp__sim_random(&seed);
  s->random_state = qp__sim_random(&seed);
  s->list_state = qp__sim_random(&seed);
  s->now = START_MS;
  s->mono = START_MONO_MS;
  s->next_fd = FIRST_FD;
  s->next_inode = 1;
  s->root = qp__sim_inode_new(s, S_IFDIR | 0755);
  if (!s->root) {
    qp__os_sim_free(s);
    return NULL;
  }
  (void)qp__sim_inode_ref(s->root);
  return s;
}

void
qp__os_sim_free(struct qp__os_sim *s)
{
  if (!s)
    return;
  for (size_t i = 0; i < QP__SIM_FILES; i++)
    if (s->files[i].fd)
      qp__sim_close(s, &s->files[i]);
  qp__sim_forget_ops(s);
  qp__sim_hold_all(s);
  for (struct qp__sim_inode *node = s->first; node; node = node->next) {
    qp__sim_names_release(&node->names);
    qp__sim_names_release(&node->disk_names);
  }
  if (s->root)
    qp__sim_inode_unref(s->root);
  qp__sim_release_all(s);
  (void)pthread_mutex_destroy(&s->lock);
  qp__free(s);
}

const struct qp__os *
qp__os_sim_os(struct qp__os_sim *s)
{
  return &s->os;
}

void
qp__os_sim_cut_after(struct qp__os_sim *s, uint64_t n)
{
  (void)pthread_mutex_lock(&s->lock);
  s->cut_armed = true;
  s->cut_left = n;
  if (n == 0)
    s->off = true;
  (void)pthread_mutex_unlock(&s->lock);
}

bool
qp__os_sim_is_off(struct qp__os_sim *s)
{
  bool off;

  (void)pthread_mutex_lock(&s->lock);
  off = s->off;
  (void)pthread_mutex_unlock(&s->lock);
  return off;
}

uint64_t
qp__os_sim_mutations(struct qp__os_sim *s)
{
  uint64_t mutations;

  (void)pthread_mutex_lock(&s->lock);
  mutations = s->mutations;
  (void)pthread_mutex_unlock(&s->lock);
  return mutations;
}

void
qp__os_sim_set_capacity(struct qp__os_sim *s, uint64_t bytes)
{
  (void)pthread_mutex_lock(&s->lock);
  s->capacity = bytes;
  (void)pthread_mutex_unlock(&s->lock);
}

void
qp__os_sim_set_inodes(struct qp__os_sim *s, uint64_t n)
{
  (void)pthread_mutex_lock(&s->lock);
  s->max_inodes = n;
  (void)pthread_mutex_unlock(&s->lock);
}

uint64_t
qp__os_sim_bytes(struct qp__os_sim *s)
{
  uint64_t n;

  (void)pthread_mutex_lock(&s->lock);
  n = s->used;
  (void)pthread_mutex_unlock(&s->lock);
  return n;
}

uint64_t
qp__os_sim_inodes(struct qp__os_sim *s)
{
  uint64_t n;

  (void)pthread_mutex_lock(&s->lock);
  n = qp__sim_inodes(s);
  (void)pthread_mutex_unlock(&s->lock);
  return n;
}

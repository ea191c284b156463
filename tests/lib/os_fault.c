/* os_fault.c - see os_fault.h.
 *
 * (1) The lock is held while a call is counted and the decision is made, never during the inner
 *     call.
 * (2) opened[] has every open descriptor with its path from the root on. It is removed before the
 *     inner close, because the number may be reused at once. */
#include "os_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define FIRST_OPENED 16
#define JOINED_LEN (2 * PATH_MAX)
#define SHORT_CALL 1 /* the decision for a call that transfers half of its bytes */

struct opened {
  int fd;
  char *path;
};

struct qp__os_fault {
  struct qp__os os; /* what callers see; os.self is this struct */
  const struct qp__os *inner;
  pthread_mutex_t lock;  /* of everything below */
  struct opened *opened; /* in no order */
  size_t open_count;
  size_t open_cap;
  char *filter;          /* NULL: every path counts */
  enum qp__os_slot only; /* QP__SLOT__MAX: every slot counts */
  uint64_t calls;
  uint64_t counts[QP__SLOT__MAX];
  bool armed;
  bool persistent;
  bool fired;
  enum qp__os_fault_kind kind;
  uint64_t left; /* counted calls that still pass, while armed */
};

/* The properties of a call on which the decision depends. */
struct call {
  enum qp__os_slot slot;
  int fd;            /* the descriptor, or the directory of `path` */
  const char *path;  /* NULL: the call has a descriptor only */
  int fd2;           /* of a rename */
  const char *path2; /* NULL: none */
  size_t len;        /* bytes to transfer */
  bool may_create;   /* an open with O_CREAT */
};

/* ---- paths ---- */

static struct opened *
find_opened(const struct qp__os_fault *f, int fd)
{
  for (size_t i = f->open_count; i > 0; i--)
    if (f->opened[i - 1].fd == fd)
      return &f->opened[i - 1];
  return NULL;
}

/* The path from the root; a path that is longer than the buffer is cut. */
static void
join_path(const struct qp__os_fault *f, int fd, const char *path, char *out, size_t size)
{
  const struct opened *opened = find_opened(f, fd);
  const char *dir = opened ? opened->path : "";

  if (!path)
    (void)snprintf(out, size, "%s", dir);
  else if (!*dir || strcmp(dir, ".") == 0)
    (void)snprintf(out, size, "%s", path);
  else
    (void)snprintf(out, size, "%s/%s", dir, path);
}

static bool
is_counted(const struct qp__os_fault *f, const struct call *call)
{
  char joined[JOINED_LEN];

  if (f->only != QP__SLOT__MAX && f->only != call->slot)
    return false;
  if (!f->filter)
    return true;
  join_path(f, call->fd, call->path, joined, sizeof(joined));
  if (strstr(joined, f->filter))
    return true;
  if (!call->path2)
    return false;
  join_path(f, call->fd2, call->path2, joined, sizeof(joined));
  return strstr(joined, f->filter) != NULL;
}

static bool
add_opened(struct qp__os_fault *f, int fd, const char *path)
{
  size_t cap = f->open_cap ? f->open_cap * 2 : FIRST_OPENED;
  struct opened *opened;
  char *copy;

  if (f->open_count == f->open_cap) {
    opened = qp__realloc(f->opened, cap * sizeof(*opened));
    if (!opened)
      return false;
    f->opened = opened;
    f->open_cap = cap;
  }
  copy = qp__strdup(path);
  if (!copy)
    return false;
  f->opened[f->open_count].fd = fd;
  f->opened[f->open_count].path = copy;
  f->open_count++;
  return true;
}

/* Records a new descriptor of the inner system and returns it; without memory it closes it
 * again. */
static int
remember_fd(struct qp__os_fault *f, int fd, int dirfd, const char *path)
{
  char joined[JOINED_LEN];
  bool added;

  if (fd < 0)
    return fd;
  (void)pthread_mutex_lock(&f->lock);
  join_path(f, dirfd, path, joined, sizeof(joined));
  added = add_opened(f, fd, joined);
  (void)pthread_mutex_unlock(&f->lock);
  if (added)
    return fd;
  (void)f->inner->close(f->inner->self, fd);
  return -ENOMEM;
}

static void
forget_fd(struct qp__os_fault *f, int fd)
{
  struct opened *opened;

  (void)pthread_mutex_lock(&f->lock);
  opened = find_opened(f, fd);
  if (opened) {
    qp__free(opened->path);
    *opened = f->opened[--f->open_count];
  }
  (void)pthread_mutex_unlock(&f->lock);
}

/* ---- the verdict ---- */

static bool
is_sync(enum qp__os_slot slot)
{
  return slot == QP__SLOT_FDATASYNC || slot == QP__SLOT_FSYNC || slot == QP__SLOT_SYNCFS;
}

static bool
needs_space(const struct call *call)
{
  switch (call->slot) {
  case QP__SLOT_OPEN_ROOT:
  case QP__SLOT_OPENAT:
    return call->may_create;
  case QP__SLOT_PWRITE:
  case QP__SLOT_FTRUNCATE:
  case QP__SLOT_ALLOCATE:
  case QP__SLOT_MKDIRAT:
  case QP__SLOT_RENAMEAT:
  case QP__SLOT_LINKAT:
  case QP__SLOT_CLONE:
    return true;
  default:
    return is_sync(call->slot);
  }
}

static bool
makes_sense(enum qp__os_fault_kind kind, const struct call *call)
{
  bool transfers = call->slot == QP__SLOT_PREAD || call->slot == QP__SLOT_PWRITE;

  if (kind == QP__FAULT_SHORT)
    return transfers && call->len >= 2;
  if (kind == QP__FAULT_EINTR)
    return transfers || call->slot == QP__SLOT_OPENAT || call->slot == QP__SLOT_FLOCK ||
           is_sync(call->slot);
  return true;
}

/* 0: pass the call on; -errno: fail with it; SHORT_CALL: transfer half. */
static int
judge(struct qp__os_fault *f, const struct call *call)
{
  int verdict = 0;

  (void)pthread_mutex_lock(&f->lock);
  if (is_counted(f, call)) {
    f->calls++;
    f->counts[call->slot]++;
    if (f->armed && f->left > 0) {
      f->left--;
    } else if (f->armed && makes_sense(f->kind, call)) {
      f->fired = true;
      f->armed = f->persistent && f->kind != QP__FAULT_EINTR;
      verdict = f->kind == QP__FAULT_SHORT                         ? SHORT_CALL
                : f->kind == QP__FAULT_EINTR                       ? -EINTR
                : f->kind == QP__FAULT_ENOSPC && needs_space(call) ? -ENOSPC
                                                                   : -EIO;
    }
  }
  (void)pthread_mutex_unlock(&f->lock);
  return verdict;
}

/* The decision for a call that has only a descriptor. */
static int
judge_fd(struct qp__os_fault *f, enum qp__os_slot slot, int fd)
{
  struct call call = { .slot = slot, .fd = fd };

  return judge(f, &call);
}

static int
judge_path(struct qp__os_fault *f, enum qp__os_slot slot, int dirfd, const char *path)
{
  struct call call = { .slot = slot, .fd = dirfd, .path = path };

  return judge(f, &call);
}

/* ---- slots ---- */

static int
fault_open_root(void *self, const char *path, int create)
{
  struct qp__os_fault *f = self;
  struct call call = { .slot = QP__SLOT_OPEN_ROOT, .fd = -1, .path = path, .may_create = create };
  int rc = judge(f, &call);

  if (rc)
    return rc;
  return remember_fd(f, f->inner->open_root(f->inner->self, path, create), -1, ".");
}

static int
fault_stat_root(void *self, int base, const char *path, struct stat *st)
{
  struct qp__os_fault *f = self;
  int rc = judge_path(f, QP__SLOT_STAT_ROOT, -1, path);

  return rc ? rc : f->inner->stat_root(f->inner->self, base, path, st);
}

static int
fault_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  struct qp__os_fault *f = self;
  struct call call = {
    .slot = QP__SLOT_OPENAT, .fd = dirfd, .path = path, .may_create = (flags & O_CREAT) != 0
  };
  int rc = judge(f, &call);

  if (rc)
    return rc;
  return remember_fd(f, f->inner->openat(f->inner->self, dirfd, path, flags, mode), dirfd, path);
}

static int
fault_close(void *self, int fd)
{
  struct qp__os_fault *f = self;

  forget_fd(f, fd);
  return f->inner->close(f->inner->self, fd);
}

static ssize_t
fault_pread(void *self, int fd, void *buf, size_t n, off_t off)
{
  struct qp__os_fault *f = self;
  struct call call = { .slot = QP__SLOT_PREAD, .fd = fd, .len = n };
  int rc = judge(f, &call);

  if (rc < 0)
    return rc;
  return f->inner->pread(f->inner->self, fd, buf, rc == SHORT_CALL ? n / 2 : n, off);
}

static ssize_t
fault_pwrite(void *self, int fd, const void *buf, size_t n, off_t off)
{
  struct qp__os_fault *f = self;
  struct call call = { .slot = QP__SLOT_PWRITE, .fd = fd, .len = n };
  int rc = judge(f, &call);

  if (rc < 0)
    return rc;
  return f->inner->pwrite(f->inner->self, fd, buf, rc == SHORT_CALL ? n / 2 : n, off);
}

static int
fault_allocate(void *self, int fd, off_t len)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_ALLOCATE, fd);

  return rc ? rc : f->inner->allocate(f->inner->self, fd, len);
}

static int
fault_space(void *self, int fd, uint64_t *room, uint64_t *total)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_SPACE, fd);

  return rc ? rc : f->inner->space(f->inner->self, fd, room, total);
}

static int
fault_ftruncate(void *self, int fd, off_t len)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_FTRUNCATE, fd);

  return rc ? rc : f->inner->ftruncate(f->inner->self, fd, len);
}

static int
fault_set_mtime(void *self, int fd, const struct timespec *time)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_SET_MTIME, fd);

  return rc ? rc : f->inner->set_mtime(f->inner->self, fd, time);
}

static int
fault_fdatasync(void *self, int fd)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_FDATASYNC, fd);

  return rc ? rc : f->inner->fdatasync(f->inner->self, fd);
}

static int
fault_fsync(void *self, int fd)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_FSYNC, fd);

  return rc ? rc : f->inner->fsync(f->inner->self, fd);
}

static int
fault_syncfs(void *self, int fd)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_SYNCFS, fd);

  return rc ? rc : f->inner->syncfs(f->inner->self, fd);
}

static int
fault_fstat(void *self, int fd, struct stat *st)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_FSTAT, fd);

  return rc ? rc : f->inner->fstat(f->inner->self, fd, st);
}

static int
fault_fstatat(void *self, int dirfd, const char *path, struct stat *st)
{
  struct qp__os_fault *f = self;
  int rc = judge_path(f, QP__SLOT_FSTATAT, dirfd, path);

  return rc ? rc : f->inner->fstatat(f->inner->self, dirfd, path, st);
}

static int
fault_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  struct qp__os_fault *f = self;
  int rc = judge_path(f, QP__SLOT_MKDIRAT, dirfd, path);

  return rc ? rc : f->inner->mkdirat(f->inner->self, dirfd, path, mode);
}

static int
fault_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  struct qp__os_fault *f = self;
  int rc = judge_path(f, QP__SLOT_UNLINKAT, dirfd, path);

  return rc ? rc : f->inner->unlinkat(f->inner->self, dirfd, path, flags);
}

static int
fault_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  struct qp__os_fault *f = self;
  struct call call = {
    .slot = QP__SLOT_RENAMEAT, .fd = olddir, .path = from, .fd2 = newdir, .path2 = to
  };
  int rc = judge(f, &call);

  return rc ? rc : f->inner->renameat(f->inner->self, olddir, from, newdir, to, flags);
}

static int
fault_listdir(void *self, int dirfd, const char *path, qp__os_name *visit, void *arg)
{
  struct qp__os_fault *f = self;
  int rc = judge_path(f, QP__SLOT_LISTDIR, dirfd, path);

  return rc ? rc : f->inner->listdir(f->inner->self, dirfd, path, visit, arg);
}

static int
fault_linkat(void *self, int olddir, const char *from, int newdir, const char *to)
{
  struct qp__os_fault *f = self;
  struct call call = {
    .slot = QP__SLOT_LINKAT, .fd = olddir, .path = from, .fd2 = newdir, .path2 = to
  };
  int rc = judge(f, &call);

  return rc ? rc : f->inner->linkat(f->inner->self, olddir, from, newdir, to);
}

static int
fault_clone(void *self, int to, int from)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_CLONE, to);

  return rc ? rc : f->inner->clone(f->inner->self, to, from);
}

static int
fault_flock(void *self, int fd, int operation)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_FLOCK, fd);

  return rc ? rc : f->inner->flock(f->inner->self, fd, operation);
}

static int64_t
fault_now_ms(void *self)
{
  struct qp__os_fault *f = self;

  return f->inner->now_ms(f->inner->self);
}

static int64_t
fault_mono_ms(void *self)
{
  struct qp__os_fault *f = self;

  return f->inner->mono_ms(f->inner->self);
}

static int
fault_random(void *self, void *buf, size_t n)
{
  struct qp__os_fault *f = self;
  int rc = judge_fd(f, QP__SLOT_RANDOM, -1);

  return rc ? rc : f->inner->random(f->inner->self, buf, n);
}

static int
fault_pid(void *self)
{
  struct qp__os_fault *f = self;

  return f->inner->pid(f->inner->self);
}

static const struct qp__os fault_slots = {
  .open_root = fault_open_root,
  .stat_root = fault_stat_root,
  .openat = fault_openat,
  .close = fault_close,
  .pread = fault_pread,
  .pwrite = fault_pwrite,
  .ftruncate = fault_ftruncate,
  .allocate = fault_allocate,
  .space = fault_space,
  .set_mtime = fault_set_mtime,
  .fdatasync = fault_fdatasync,
  .fsync = fault_fsync,
  .syncfs = fault_syncfs,
  .fstat = fault_fstat,
  .fstatat = fault_fstatat,
  .mkdirat = fault_mkdirat,
  .unlinkat = fault_unlinkat,
  .renameat = fault_renameat,
  .listdir = fault_listdir,
  .linkat = fault_linkat,
  .clone = fault_clone,
  .flock = fault_flock,
  .now_ms = fault_now_ms,
  .mono_ms = fault_mono_ms,
  .random = fault_random,
  .pid = fault_pid,
};

/* ---- what tests call ---- */

struct qp__os_fault *
qp__os_fault_new(const struct qp__os *inner)
{
  struct qp__os_fault *f = qp__alloc0(1, sizeof(*f));

  if (!f)
    return NULL;
  if (pthread_mutex_init(&f->lock, NULL)) {
    qp__free(f);
    return NULL;
  }
  f->os = fault_slots;
  f->os.self = f;
  f->inner = inner;
  f->only = QP__SLOT__MAX;
  return f;
}

void
qp__os_fault_free(struct qp__os_fault *f)
{
  if (!f)
    return;
  for (size_t i = 0; i < f->open_count; i++)
    qp__free(f->opened[i].path);
  qp__free(f->opened);
  qp__free(f->filter);
  (void)pthread_mutex_destroy(&f->lock);
  qp__free(f);
}

const struct qp__os *
qp__os_fault_os(struct qp__os_fault *f)
{
  return &f->os;
}

void
qp__os_fault_arm(struct qp__os_fault *f, uint64_t n, enum qp__os_fault_kind kind, bool persistent)
{
  (void)pthread_mutex_lock(&f->lock);
  f->armed = true;
  f->persistent = persistent;
  f->fired = false;
  f->kind = kind;
  f->left = n > 0 ? n - 1 : 0;
  (void)pthread_mutex_unlock(&f->lock);
}

void
qp__os_fault_disarm(struct qp__os_fault *f)
{
  (void)pthread_mutex_lock(&f->lock);
  f->armed = false;
  (void)pthread_mutex_unlock(&f->lock);
}

bool
qp__os_fault_fired(struct qp__os_fault *f)
{
  bool fired;

  (void)pthread_mutex_lock(&f->lock);
  fired = f->fired;
  (void)pthread_mutex_unlock(&f->lock);
  return fired;
}

int
qp__os_fault_filter(struct qp__os_fault *f, const char *part)
{
  char *copy = part ? qp__strdup(part) : NULL;
  char *old;

  if (part && !copy)
    return -ENOMEM;
  (void)pthread_mutex_lock(&f->lock);
  old = f->filter;
  f->filter = copy;
  (void)pthread_mutex_unlock(&f->lock);
  qp__free(old);
  return 0;
}

void
qp__os_fault_only(struct qp__os_fault *f, enum qp__os_slot slot)
{
  (void)pthread_mutex_lock(&f->lock);
  f->only = slot;
  (void)pthread_mutex_unlock(&f->lock);
}

uint64_t
qp__os_fault_calls(struct qp__os_fault *f)
{
  uint64_t calls;

  (void)pthread_mutex_lock(&f->lock);
  calls = f->calls;
  (void)pthread_mutex_unlock(&f->lock);
  return calls;
}

uint64_t
qp__os_fault_count(struct qp__os_fault *f, enum qp__os_slot slot)
{
  uint64_t count;

  (void)pthread_mutex_lock(&f->lock);
  count = slot < QP__SLOT__MAX ? f->counts[slot] : 0;
  (void)pthread_mutex_unlock(&f->lock);
  return count;
}

void
qp__os_fault_reset(struct qp__os_fault *f)
{
  (void)pthread_mutex_lock(&f->lock);
  f->calls = 0;
  memset(f->counts, 0, sizeof(f->counts));
  (void)pthread_mutex_unlock(&f->lock);
}

uint64_t
qp__os_fault_open_count(struct qp__os_fault *f)
{
  uint64_t count;

  (void)pthread_mutex_lock(&f->lock);
  count = f->open_count;
  (void)pthread_mutex_unlock(&f->lock);
  return count;
}

/* os_gate.c - see os_gate.h. */
#include "os_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define JOURNAL_FDS 1024 /* descriptors that are observed */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct qp__os os;
  const struct qp__os *inner;
  bool shut;
  enum qp__os_slot slot;
  char part[128];
  bool only_new;
  bool syncs;
  unsigned waiting;
  atomic_int refused; /* the error, or 0 */
  atomic_bool journal[JOURNAL_FDS];
  atomic_ullong read;
  atomic_ullong written;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static bool
is_sync(enum qp__os_slot slot)
{
  return slot == QP__SLOT_FDATASYNC || slot == QP__SLOT_FSYNC || slot == QP__SLOT_SYNCFS;
}

static void
pass(enum qp__os_slot slot, const char *path, int flags)
{
  (void)pthread_mutex_lock(&gate.lock);
  if (gate.shut && (gate.syncs ? is_sync(slot) : gate.slot == slot) &&
      (!path || strstr(path, gate.part)) && (!gate.only_new || flags & O_EXCL)) {
    gate.waiting++;
    (void)pthread_cond_broadcast(&gate.changed);
    while (gate.shut)
      (void)pthread_cond_wait(&gate.changed, &gate.lock);
    gate.waiting--;
  }
  (void)pthread_mutex_unlock(&gate.lock);
}

/* Whether it is the journal's directory or below it. */
static bool
is_journal(int fd)
{
  return fd >= 0 && fd < JOURNAL_FDS && atomic_load(&gate.journal[fd]);
}

static int
gate_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  int refused = atomic_load(&gate.refused);
  int fd;

  pass(QP__SLOT_OPENAT, path, flags);
  if (refused && (refused == EMFILE || flags & (O_CREAT | O_WRONLY | O_RDWR)))
    return -refused;
  fd = gate.inner->openat(self, dirfd, path, flags, mode);
  if (fd >= 0 && fd < JOURNAL_FDS)
    atomic_store(&gate.journal[fd], strstr(path, "journal") || is_journal(dirfd));
  return fd;
}

static int
gate_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  int refused = atomic_load(&gate.refused);

  return refused ? -refused : gate.inner->mkdirat(self, dirfd, path, mode);
}

static int
gate_fdatasync(void *self, int fd)
{
  pass(QP__SLOT_FDATASYNC, NULL, 0);
  return gate.inner->fdatasync(self, fd);
}

static int
gate_fsync(void *self, int fd)
{
  pass(QP__SLOT_FSYNC, NULL, 0);
  return gate.inner->fsync(self, fd);
}

static int
gate_syncfs(void *self, int fd)
{
  pass(QP__SLOT_SYNCFS, NULL, 0);
  return gate.inner->syncfs(self, fd);
}

static int
gate_random(void *self, void *buf, size_t n)
{
  pass(QP__SLOT_RANDOM, NULL, 0);
  return gate.inner->random(self, buf, n);
}

static ssize_t
gate_pread(void *self, int fd, void *buf, size_t n, off_t off)
{
  ssize_t got = gate.inner->pread(self, fd, buf, n, off);

  atomic_fetch_add(&gate.read, got > 0 ? (unsigned long long)got : 0);
  return got;
}

static ssize_t
gate_pwrite(void *self, int fd, const void *buf, size_t n, off_t off)
{
  int refused = atomic_load(&gate.refused);
  ssize_t put;

  if (refused && refused != EMFILE && !is_journal(fd))
    return -refused;
  put = gate.inner->pwrite(self, fd, buf, n, off);
  atomic_fetch_add(&gate.written, put > 0 ? (unsigned long long)put : 0);
  return put;
}

const struct qp__os *
os_gate_over(const struct qp__os *inner)
{
  gate.inner = inner;
  gate.os = *inner; /* with its self: the slots that are replaced hand it on */
  gate.os.openat = gate_openat;
  gate.os.mkdirat = gate_mkdirat;
  gate.os.pread = gate_pread;
  gate.os.pwrite = gate_pwrite;
  gate.os.fdatasync = gate_fdatasync;
  gate.os.fsync = gate_fsync;
  gate.os.syncfs = gate_syncfs;
  gate.os.random = gate_random;
  return &gate.os;
}

static void
shut(enum qp__os_slot slot, const char *part, bool only_new, bool syncs)
{
  (void)pthread_mutex_lock(&gate.lock);
  gate.shut = true;
  gate.slot = slot;
  gate.only_new = only_new;
  gate.syncs = syncs;
  gate.part[0] = 0;
  if (part)
    (void)memccpy(gate.part, part, 0, sizeof(gate.part) - 1);
  (void)pthread_mutex_unlock(&gate.lock);
}

void
os_gate_shut(enum qp__os_slot slot, const char *part)
{
  shut(slot, part, false, false);
}

void
os_gate_shut_creation(void)
{
  shut(QP__SLOT_OPENAT, NULL, true, false);
}

void
os_gate_shut_syncs(void)
{
  shut(QP__SLOT__MAX, NULL, false, true);
}

bool
os_gate_await(unsigned n)
{
  struct timespec until;
  bool there;
  int rc = 0;

  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 60;
  (void)pthread_mutex_lock(&gate.lock);
  while (gate.waiting < n && rc != ETIMEDOUT)
    rc = pthread_cond_timedwait(&gate.changed, &gate.lock, &until);
  there = gate.waiting >= n;
  (void)pthread_mutex_unlock(&gate.lock);
  return there;
}

void
os_gate_open(void)
{
  (void)pthread_mutex_lock(&gate.lock);
  gate.shut = false;
  (void)pthread_cond_broadcast(&gate.changed);
  (void)pthread_mutex_unlock(&gate.lock);
}

void
os_gate_refuse(int error)
{
  atomic_store(&gate.refused, error);
}

uint64_t
os_gate_bytes_read(void)
{
  return atomic_load(&gate.read);
}

uint64_t
os_gate_bytes_written(void)
{
  return atomic_load(&gate.written);
}

void
os_gate_reset(void)
{
  atomic_store(&gate.read, 0);
  atomic_store(&gate.written, 0);
}

/* reserve.c - see reserve.h. */
#include "store/files/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "os/file.h"

#define LOOK_MS 1000
#define DISK_PART 32  /* of the disk at most */
#define MARGIN_PART 4 /* of the reserve */

void
qp__reserve_init(struct qp__reserve *r, const struct qp__os *os, int root, uint64_t most,
                 const struct qp__log *log)
{
  uint64_t room;
  uint64_t total;

  memset(r, 0, sizeof(*r));
  if (os->space(os->self, root, &room, &total))
    return; /* then the free space is unknown */
  r->os = os;
  r->root = root;
  r->log = *log;
  r->size = total / DISK_PART < most ? total / DISK_PART : most;
  r->margin = r->size / MARGIN_PART;
  qp__mutex_init(&r->lock, QP__RANK_RESERVE);
}

void
qp__reserve_release(struct qp__reserve *r)
{
  if (r->os)
    qp__mutex_release(&r->lock);
  r->os = NULL;
}

static uint64_t
room_of(const struct qp__reserve *r)
{
  uint64_t room = UINT64_MAX;
  uint64_t total;

  return r->os->space(r->os->self, r->root, &room, &total) ? UINT64_MAX : room;
}

/* Creates the file; false: there is not enough space. */
static bool
make(struct qp__reserve *r)
{
  int fd = qp__open(r->os, r->root, QP__RESERVE_PATH, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
  int sys = fd < 0 ? fd : r->os->allocate(r->os->self, fd, (off_t)r->size);

  QP_ASSERT_HELD(&r->lock);
  qp__close(r->os, fd);
  if (fd >= 0 && sys)
    (void)r->os->unlinkat(r->os->self, r->root, QP__RESERVE_PATH, 0);
  return sys != -ENOSPC && sys != -EDQUOT; /* after any other failure there is no reserve */
}

/* Checks the free space, and creates the file again if there is enough. */
static void
look(struct qp__reserve *r)
{
  uint64_t room = room_of(r);
  bool was_full = atomic_load(&r->full);

  QP_ASSERT_HELD(&r->lock);
  if (atomic_load(&r->given) && room >= r->size + r->margin && make(r)) {
    atomic_store(&r->given, false);
    room -= r->size;
  }
  atomic_store(&r->full, atomic_load(&r->given) || room < r->margin);
  r->looked_ms = r->os->mono_ms(r->os->self);
  if (was_full && !atomic_load(&r->full))
    qp__log(&r->log, QP_LOG_INFO, "reserve",
            "the disk has free space again: the store accepts all writes");
}

void
qp__reserve_start(struct qp__reserve *r)
{
  struct stat st;
  int sys;

  if (!r->os)
    return;
  qp__mutex_lock(&r->lock);
  sys = r->os->fstatat(r->os->self, r->root, QP__RESERVE_PATH, &st);
  atomic_store(&r->given, sys == -ENOENT);
  look(r);
  if (atomic_load(&r->given))
    qp__log(&r->log, QP_LOG_ERROR, "reserve",
            "the disk is full: the store can be read and things can be deleted, but nothing can be "
            "added until %llu KiB are free",
            (unsigned long long)((r->size + r->margin) >> 10));
  else if (atomic_load(&r->full))
    qp__log(&r->log, QP_LOG_ERROR, "reserve",
            "the disk is nearly full: less than %llu KiB are free",
            (unsigned long long)(r->margin >> 10));
  qp__mutex_unlock(&r->lock);
}

bool
qp__reserve_give(struct qp__reserve *r)
{
  int sys;

  if (!r->os)
    return false;
  qp__mutex_lock(&r->lock);
  sys = r->os->unlinkat(r->os->self, r->root, QP__RESERVE_PATH, 0);
  atomic_store(&r->full, true);
  if (!sys) {
    atomic_store(&r->given, true);
    r->looked_ms = r->os->mono_ms(r->os->self);
    qp__log(&r->log, QP_LOG_WARN, "reserve",
            "the disk is full: the reserve of %llu KiB was released; nothing can be added until it "
            "can be created again",
            (unsigned long long)(r->size >> 10));
  }
  qp__mutex_unlock(&r->lock);
  return !sys;
}

void
qp__reserve_before(struct qp__reserve *r)
{
  if (r->os && !atomic_load(&r->given) && room_of(r) < r->margin)
    (void)qp__reserve_give(r);
}

void
qp__reserve_note(struct qp__reserve *r)
{
  if (!r->os || atomic_exchange(&r->full, true))
    return;
  qp__log(&r->log, QP_LOG_ERROR, "reserve", "the disk is full: a write failed");
}

/* Checks again, but not too often. */
static void
look_sometimes(struct qp__reserve *r)
{
  qp__mutex_lock(&r->lock);
  if (r->os->mono_ms(r->os->self) - r->looked_ms >= LOOK_MS)
    look(r);
  qp__mutex_unlock(&r->lock);
}

static enum qp_rc
fail_full(const struct qp__reserve *r, struct qp_err *err)
{
  return qp__fail(err, QP_FULL,
                  "the disk is full: delete contexts or other files until %llu KiB are free",
                  (unsigned long long)((r->size + r->margin) >> 10));
}

enum qp_rc
qp__reserve_check(struct qp__reserve *r, struct qp_err *err)
{
  if (!r->os || !atomic_load(&r->full))
    return QP_OK;
  look_sometimes(r);
  return atomic_load(&r->full) ? fail_full(r, err) : QP_OK;
}

enum qp_rc
qp__reserve_admit(struct qp__reserve *r, struct qp_err *err)
{
  if (!r->os || !atomic_load(&r->given))
    return QP_OK;
  look_sometimes(r);
  return atomic_load(&r->given) ? fail_full(r, err) : QP_OK;
}

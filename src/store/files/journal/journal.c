/* journal.c - commits from staging to publication. See journal.h for the promises, journal_int.h
 * for locks and segments, segment.h for the bytes. */
#include "store/files/journal/journal.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "os/file.h"
#include "store/files/journal/journal_int.h"
#include "store/files/journal/segment.h"

/* An operation that lacks memory or a descriptor is tried again until one of these is reached. */
#define APPLY_TRIES 10000
#define APPLY_MS 200

static size_t
body_len(const struct qp__txn *txn)
{
  return txn->frame.len - QP__FRAME_HEADER_LEN;
}

/* ---- invariants ---- */

#define QUEUE_LOOK 64 /* commits of the queue that are looked at */

static void
check_segments(const struct qp__journal *j)
{
  uint64_t seq = 0;

  QP_ASSERT(j->live_count <= MAX_SEGMENTS);
  QP_ASSERT(j->live_count || j->poison);
  for (size_t i = 0; i < j->live_count; i++) {
    const struct qp__segment *s = &j->live[i];

    QP_ASSERT(s->fd >= 0 && s->number && s->number < j->next_number);
    QP_ASSERT(s->end >= QP__SEGMENT_START && s->end <= s->size && s->end % 8 == 0);
    QP_ASSERT((s->end > QP__SEGMENT_START) == (s->last_seq > 0));
    QP_ASSERT(!s->last_seq || s->last_seq > seq);
    seq = s->last_seq ? s->last_seq : seq;
  }
  QP_ASSERT(seq < j->next_seq);
  QP_ASSERT(j->spare.fd < 0 || (j->spare.number < j->next_number && !j->preparing));
  QP_ASSERT(j->spare.fd < 0 || j->spare.end == QP__SEGMENT_START);
}

static void
check_queue(const struct qp__journal *j)
{
  const struct qp__txn *t = j->queue;
  size_t n = 0;

  QP_ASSERT(!t || !j->poison);
  QP_ASSERT(!t || (j->queue_tail->seq == j->next_seq - 1 && !j->queue_tail->next));
  for (; t && n < QUEUE_LOOK; t = t->next, n++) {
    const struct qp__segment *s = &j->live[t->segment - j->live_base];

    QP_ASSERT(t->state == QP__TXN_STAGED && !t->taken);
    QP_ASSERT(t->seq > j->applied_seq && t->seq < j->next_seq);
    QP_ASSERT(!t->next || t->next->seq == t->seq + 1);
    QP_ASSERT(t->segment >= j->live_base && t->segment < j->live_base + j->live_count);
    QP_ASSERT(t->offset >= QP__SEGMENT_START);
    QP_ASSERT(t->offset + qp__frame_space(body_len(t)) <= s->end);
  }
}

void
qp__journal_invariants(const struct qp__journal *j)
{
  QP_ASSERT_HELD(&j->lock);
  check_segments(j);
  check_queue(j);
  QP_ASSERT(j->forgotten_seq <= j->applied_seq && j->applied_seq < j->next_seq);
  QP_ASSERT(!j->syncing || j->leading);
  QP_ASSERT(!j->poison || (j->refusal && j->poison_err.msg[0]));
  QP_ASSERT(atomic_load(&j->held_count) == j->held.count);
}

/* ---- poison ---- */

static pthread_cond_t *
wake_slot(struct qp__journal *j, uint64_t seq)
{
  return &j->wake[seq % WAKE_SLOTS];
}

/* With the lock held. The commit's thread may free it as soon as it gets the lock. The caller wakes
 * that thread, best without the lock, so that it need not wait for the lock. */
static void
finish(struct qp__txn *txn)
{
  QP_ASSERT(txn->state == QP__TXN_STAGED);
  txn->state = QP__TXN_DONE;
}

/* Whether a failure is returned to the caller as it is: the disk and the stored data are in
 * order. */
static bool
is_passing(enum qp_rc rc)
{
  return rc == QP_FULL || rc == QP_READONLY || rc == QP_NOMEM;
}

/* The first failure is kept; commits that no leader has fail at once. */
static void
poison(struct qp__journal *j, const struct qp_err *cause)
{
  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(cause->rc && cause->msg[0]);
  if (j->poison)
    return;
  j->poison = QP_IO;
  j->refusal = is_passing(cause->rc) ? cause->rc : QP_IO;
  (void)qp__fail(&j->poison_err, QP_IO, "%.200s; the store refuses writes until it has recovered",
                 cause->msg);
  qp__log(&j->options.log, QP_LOG_ERROR, "journal", "%s", j->poison_err.msg);
  while (j->queue) {
    struct qp__txn *txn = j->queue;

    j->queue = txn->next;
    txn->rc = j->poison;
    txn->err = j->poison_err;
    finish(txn);
  }
  for (size_t i = 0; i < WAKE_SLOTS; i++)
    (void)pthread_cond_broadcast(&j->wake[i]);
  (void)pthread_cond_broadcast(&j->turn);
  (void)pthread_cond_broadcast(&j->wanted);
  if (QP_CHECKED)
    qp__journal_invariants(j);
}

void
qp__journal_poison(struct qp__journal *j, const struct qp_err *cause, bool lost)
{
  qp__mutex_lock(&j->lock);
  j->lost |= lost;
  poison(j, cause);
  qp__mutex_unlock(&j->lock);
}

enum qp_rc
qp__journal_sync_files(struct qp__journal *j, struct qp_err *err)
{
  struct qp_err cause;
  enum qp_rc rc;
  int sys = qp__syncfs(j->os, j->root);

  if (!sys)
    return QP_OK;
  (void)qp__fail_sys(&cause, sys, "cannot sync the data directory");
  qp__journal_poison(j, &cause, true);
  rc = qp__journal_check(j, err);
  return rc ? rc : qp__fail_as(err, QP_IO, &cause); /* another thread has mended it already */
}

enum qp_rc
qp__journal_answer(const struct qp__journal *j, struct qp_err *err)
{
  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(j->poison && j->refusal);
  if (err) {
    *err = j->poison_err;
    err->rc = j->refusal;
  }
  return j->refusal;
}

enum qp_rc
qp__journal_may_write(const struct qp__journal *j, struct qp_err *err)
{
  return j->options.may_write ? j->options.may_write(j->options.may_write_arg, err) : QP_OK;
}

/* ---- segments ---- */

static struct qp__segment *
last_segment(struct qp__journal *j)
{
  return &j->live[j->live_count - 1];
}

/* Releases the lock while it works. Creates the spare segment, at least `size` long. */
enum qp_rc
qp__journal_prepare_spare(struct qp__journal *j, uint64_t size, struct qp_err *err)
{
  uint64_t number = j->next_number++;
  struct qp__segment s = { .fd = -1 };
  enum qp_rc rc;

  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(!j->preparing && j->spare.fd < 0);
  j->preparing = true;
  qp__mutex_unlock(&j->lock);
  rc = qp__segment_create(j->os, j->dir, number, size, &s, err);
  qp__mutex_lock(&j->lock);
  j->preparing = false;
  if (!rc)
    j->spare = s;
  (void)pthread_cond_broadcast(&j->turn);
  return rc;
}

/* How many segments at the front are retired and completely applied. */
size_t
qp__journal_applied_segments(const struct qp__journal *j)
{
  size_t n = 0;

  QP_ASSERT_HELD(&j->lock);
  while (n + 1 < j->live_count && j->live[n].last_seq <= j->applied_seq)
    n++;
  return n;
}

bool
qp__journal_is_quiet(const struct qp__journal *j)
{
  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(j->applied_seq < j->next_seq);
  return j->applied_seq + 1 == j->next_seq;
}

bool
qp__journal_is_empty(const struct qp__journal *j)
{
  QP_ASSERT_HELD(&j->lock);
  return j->live_count == 1 && j->live[0].end == QP__SEGMENT_START;
}

bool
qp__journal_wants_spare(struct qp__journal *j)
{
  QP_ASSERT_HELD(&j->lock);
  return j->spare.fd < 0 && !j->preparing && j->live_count < MAX_SEGMENTS &&
         last_segment(j)->end > last_segment(j)->size / 2;
}

/* ---- checkpoint ---- */

/* Releases the lock while it works. Forgets the first segment, whose commits are applied and
 * durable. Its frames are made invalid first: an old segment that reappeared after a power cut,
 * without the later ones, would undo later changes. */
static enum qp_rc
drop_first(struct qp__journal *j, struct qp_err *err)
{
  struct qp__segment s = j->live[0];
  uint64_t last_seq = s.last_seq; /* a reset forgets it */
  char name[QP__SEGMENT_NAME_LEN];
  uint64_t number = 0;
  enum qp_rc rc;
  bool keep;

  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(j->checkpointing && j->live_count > 1);
  QP_ASSERT(j->live[0].last_seq <= j->applied_seq);
  keep = j->spare.fd < 0 && !j->preparing && s.size == j->options.segment_bytes;
  if (keep) {
    j->preparing = true;
    number = j->next_number++;
  }
  qp__mutex_unlock(&j->lock);
  s.session = s.base = 0;
  rc = qp__segment_reset(j->os, &s, err);
  if (rc || !keep || qp__segment_rename(j->os, j->dir, &s, number)) {
    qp__segment_name(name, s.number);
    qp__segment_close(j->os, &s);
    if (!rc)
      (void)j->os->unlinkat(j->os->self, j->dir, name, 0); /* if it stays, it holds nothing */
  }
  qp__mutex_lock(&j->lock);
  if (keep) {
    j->preparing = false;
    j->spare = s;
  }
  if (!rc && last_seq > j->forgotten_seq)
    j->forgotten_seq = last_seq;
  j->live_count--;
  j->live_base++;
  memmove(j->live, j->live + 1, j->live_count * sizeof(j->live[0]));
  (void)pthread_cond_broadcast(&j->turn);
  return rc;
}

/* Releases the lock while it syncs. Makes everything durable that is applied now and forgets the
 * segments that hold nothing else; the last one too if there was no new commit. A failed sync stops
 * the journal: the pages may be lost, and only the journal still has them. */
enum qp_rc
qp__journal_run_checkpoint(struct qp__journal *j, struct qp_err *err)
{
  struct qp_err cause;
  enum qp_rc rc = QP_OK;
  uint64_t upto;
  size_t retired;
  int sys;

  QP_ASSERT_HELD(&j->lock);
  while (j->checkpointing)
    qp__mutex_wait(&j->lock, &j->turn);
  if (j->poison)
    return qp__journal_answer(j, err);
  retired = qp__journal_applied_segments(j);
  upto = j->applied_seq;
  if (qp__journal_is_empty(j) || (!retired && !qp__journal_is_quiet(j)))
    return QP_OK;
  j->checkpointing = true;
  qp__mutex_unlock(&j->lock);
  rc = qp__journal_may_write(j, &cause);
  sys = rc ? 0 : qp__syncfs(j->os, j->root);
  qp__mutex_lock(&j->lock);
  if (sys) {
    j->lost = true;
    rc = qp__fail_sys(&cause, sys, "cannot sync the data directory");
  }
  for (; !rc && retired; retired--)
    rc = drop_first(j, &cause);
  if (!rc && j->live_count == 1 && j->next_seq == upto + 1 && !qp__journal_is_empty(j)) {
    j->live[0].session = j->gate.session;
    j->live[0].base = upto;
    rc = qp__segment_reset(j->os, &j->live[0], &cause);
    if (!rc)
      j->forgotten_seq = upto;
  }
  if (rc)
    poison(j, &cause);
  else
    j->stats.checkpoints++;
  j->checkpointing = false;
  if (QP_CHECKED)
    qp__journal_invariants(j);
  (void)pthread_cond_broadcast(&j->turn);
  return rc ? qp__journal_answer(j, err) : QP_OK;
}

enum qp_rc
qp__journal_checkpoint(struct qp__journal *j, struct qp_err *err)
{
  enum qp_rc rc;

  qp__mutex_lock(&j->lock);
  rc = qp__journal_run_checkpoint(j, err);
  qp__mutex_unlock(&j->lock);
  return rc;
}

uint64_t
qp__journal_forgotten(struct qp__journal *j)
{
  uint64_t seq;

  qp__mutex_lock(&j->lock);
  seq = j->forgotten_seq;
  qp__mutex_unlock(&j->lock);
  return seq;
}

/* ---- stage ---- */

/* May release the lock. On a full disk the existing segments must suffice: one step towards an
 * empty one. */
static enum qp_rc
empty_segments(struct qp__journal *j, struct qp_err *err)
{
  QP_ASSERT_HELD(&j->lock);
  if (qp__journal_is_quiet(j) || qp__journal_applied_segments(j))
    return qp__journal_run_checkpoint(j, err);
  qp__mutex_wait(&j->lock, &j->turn);
  return j->poison ? qp__journal_answer(j, err) : QP_OK;
}

/* May release the lock. Makes a segment with room for a frame of `space` bytes the last one, or
 * waits for progress towards that; the caller checks again. */
static enum qp_rc
next_segment(struct qp__journal *j, uint64_t space, struct qp_err *err)
{
  uint64_t size = j->options.segment_bytes;

  QP_ASSERT_HELD(&j->lock);
  if (size < QP__SEGMENT_START + space)
    size = QP__SEGMENT_START + space;
  if (j->live_count == MAX_SEGMENTS) { /* the journal is at its bound: wait for a checkpoint */
    if (!j->options.background && qp__journal_applied_segments(j))
      return qp__journal_run_checkpoint(j, err);
    (void)pthread_cond_signal(&j->wanted);
    qp__mutex_wait(&j->lock, &j->turn);
    return QP_OK;
  }
  if (j->preparing) {
    qp__mutex_wait(&j->lock, &j->turn);
    return QP_OK;
  }
  if (j->spare.fd >= 0 &&
      j->spare.size < size) { /* a very large frame: the spare segment is too small */
    char name[QP__SEGMENT_NAME_LEN];

    qp__segment_name(name, j->spare.number);
    qp__segment_close(j->os, &j->spare);
    (void)j->os->unlinkat(j->os->self, j->dir, name, 0);
  }
  if (j->spare.fd < 0) {
    enum qp_rc rc = qp__journal_prepare_spare(j, size, err);

    return rc == QP_FULL && size == j->options.segment_bytes && !qp__journal_is_empty(j)
               ? empty_segments(j, err)
               : rc;
  }
  j->live[j->live_count++] = j->spare;
  j->spare.fd = -1;
  return QP_OK;
}

static void
enqueue(struct qp__journal *j, struct qp__txn *txn, uint64_t space)
{
  struct qp__segment *s = last_segment(j);

  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(s->size - s->end >= space);
  txn->segment = j->live_base + j->live_count - 1;
  txn->offset = s->end;
  txn->seq = j->next_seq++;
  txn->next = NULL;
  txn->taken = false;
  txn->state = QP__TXN_STAGED;
  s->end += space;
  s->last_seq = txn->seq;
  if (j->queue)
    j->queue_tail->next = txn;
  else
    j->queue = txn;
  j->queue_tail = txn;
  if (QP_CHECKED)
    qp__journal_invariants(j);
}

/* A held item that the commit changes, or NULL. */
static const struct qp__aside *
held_by(const struct qp__journal *j, const struct qp__txn *txn)
{
  struct qp_bytes body = { txn->frame.data + QP__FRAME_HEADER_LEN, body_len(txn) };

  QP_ASSERT_HELD(&j->lock);
  for (size_t i = 0; i < j->held.count; i++)
    if (qp__aside_touched(body, j->held.v[i].id))
      return &j->held.v[i];
  return NULL;
}

enum qp_rc
qp__journal_stage(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err)
{
  uint64_t space = qp__frame_space(body_len(txn));
  enum qp_rc rc = QP_OK;

  QP_ASSERT(txn->state == QP__TXN_NEW);
  qp__mutex_lock(&j->lock);
  while (!rc) {
    if (j->poison) {
      rc = qp__journal_answer(j, err);
    } else if (held_by(j, txn)) {
      rc = qp__aside_fail(held_by(j, txn), err);
    } else if (last_segment(j)->size - last_segment(j)->end >= space) {
      bool was_empty = qp__journal_is_empty(j);

      enqueue(j, txn, space);
      if (was_empty || qp__journal_wants_spare(j))
        (void)pthread_cond_signal(&j->wanted);
      break;
    } else {
      rc = next_segment(j, space, err);
    }
  }
  qp__mutex_unlock(&j->lock);
  return rc;
}

/* ---- forgetting ---- */

/* Whether this commit is in the last segment, which receives further commits. */
static bool
in_last_segment(const struct qp__journal *j, uint64_t seq)
{
  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(seq < j->next_seq);
  return j->live_count == 1 || seq > j->live[j->live_count - 2].last_seq;
}

/* May release the lock. One step towards a journal that has forgotten commit `seq`; the caller
 * checks again. */
static enum qp_rc
step_to_forget(struct qp__journal *j, uint64_t seq, struct qp_err *err)
{
  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(j->forgotten_seq < seq);
  if (j->poison)
    return qp__journal_answer(j, err);
  if (j->applied_seq >= seq && !qp__journal_is_quiet(j) && in_last_segment(j, seq))
    return next_segment(j, 0, err); /* others continue to commit: let them use another segment */
  if (j->applied_seq >= seq && (qp__journal_is_quiet(j) || qp__journal_applied_segments(j)))
    return qp__journal_run_checkpoint(j, err);
  qp__mutex_wait(&j->lock, &j->turn);
  return QP_OK;
}

enum qp_rc
qp__journal_forget(struct qp__journal *j, uint64_t seq, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&j->lock);
  while (!rc && j->forgotten_seq < seq)
    rc = step_to_forget(j, seq, err);
  qp__mutex_unlock(&j->lock);
  return rc;
}

enum qp_rc
qp__journal_barrier(struct qp__journal *j, struct qp_err *err)
{
  uint64_t upto;
  enum qp_rc rc;

  qp__mutex_lock(&j->lock);
  upto = j->next_seq - 1;
  rc = j->poison ? qp__journal_answer(j, err) : QP_OK;
  qp__mutex_unlock(&j->lock);
  if (!rc)
    rc = qp__journal_forget(j, upto, err);
  /* A checkpoint that was not necessary has not synced files that no commit names. */
  return rc ? rc : qp__journal_sync_files(j, err);
}

/* ---- sync and apply ---- */

/* Takes the oldest staged commits that are adjacent in one segment. */
static struct qp__txn *
take_group(struct qp__journal *j)
{
  struct qp__txn *first = j->queue;
  struct qp__txn *last = first;
  size_t bytes = first->frame.len;

  QP_ASSERT_HELD(&j->lock);
  QP_ASSERT(!j->syncing);
  first->taken = true;
  while (last->next && last->next->segment == first->segment &&
         bytes + last->next->frame.len <= GROUP_BYTES) {
    last = last->next;
    last->taken = true;
    bytes += last->frame.len + 8;
  }
  j->queue = last->next;
  last->next = NULL;
  return first;
}

/* The frames of a group as they are in the segment, one after the other; false: out of memory. */
static bool
join_frames(struct qp__journal *j, const struct qp__txn *group)
{
  static const char padding[8];

  QP_ASSERT(group->next);
  qp__buf_reset(&j->group);
  for (const struct qp__txn *t = group; t; t = t->next) {
    (void)qp__buf_add(&j->group, t->frame.data, t->frame.len);
    (void)qp__buf_add(&j->group, padding, (size_t)qp__frame_space(body_len(t)) - t->frame.len);
  }
  return j->group.rc == QP_OK;
}

/* A frame outside of its segment or out of order would end a replay there: all later commits would
 * be lost. */
static bool
has_its_place(const struct qp__segment *s, const struct qp__txn *t)
{
  uint64_t end = t->offset + qp__frame_space(body_len(t));

  return t->offset >= QP__SEGMENT_START && end <= s->size &&
         (!t->next || (t->next->seq == t->seq + 1 && t->next->offset == end));
}

/* Writes a group's frames, with one call where that can be done, and syncs. */
static enum qp_rc
write_group(struct qp__journal *j, const struct qp__segment *s, struct qp__txn *group,
            struct qp_err *err)
{
  enum qp_rc rc = qp__journal_may_write(j, err);
  int sys = 0;

  if (rc)
    return rc;
  for (struct qp__txn *t = group; t; t = t->next) {
    if (!QP_ENSURE(has_its_place(s, t)))
      return qp__fail(err, QP_CORRUPT,
                      "internal error: commit %llu has no place in the journal's segment",
                      (unsigned long long)t->seq);
    qp__frame_seal(s, t->frame.data, body_len(t), t->seq);
  }
  if (group->next && join_frames(j, group)) {
    sys = qp__write_at(j->os, s->fd, j->group.data, j->group.len, (off_t)group->offset);
  } else {
    for (struct qp__txn *t = group; t && !sys; t = t->next)
      sys = qp__write_at(j->os, s->fd, t->frame.data, t->frame.len, (off_t)t->offset);
  }
  if (sys)
    return qp__fail_sys(err, sys, "cannot write the journal");
  sys = qp__fdatasync(j->os, s->fd);
  if (sys)
    return qp__fail_sys(err, sys, "cannot sync the journal");
  return QP_OK;
}

static bool
is_lack(int sys)
{
  return sys == -ENOMEM || sys == -EMFILE || sys == -ENFILE;
}

/* Other threads free memory and descriptors all the time. `sys` is the result of the first try. */
static int
apply_again(struct qp__journal *j, const struct qp__op *op, const char *staged, int sys)
{
  int64_t began = is_lack(sys) ? j->os->mono_ms(j->os->self) : 0;

  for (unsigned tries = 0; is_lack(sys) && tries < APPLY_TRIES; tries++) {
    if (j->os->mono_ms(j->os->self) - began >= APPLY_MS)
      break;
    (void)sched_yield();
    sys = qp__op_apply(&j->applier, op, staged);
  }
  return sys;
}

/* Carries out an operation of a commit. *held: its context cannot be written, and it waits. */
static enum qp_rc
apply_op(struct qp__journal *j, const struct qp__op *op, const char *staged, bool *held,
         struct qp_err *err)
{
  char id[QP__ASIDE_ID_LEN];
  char text[QP__ASIDE_TEXT];
  bool has_id = qp__aside_id_of_op(op, id);
  bool noted = false;
  enum qp_rc rc;
  int sys;

  if (has_id && atomic_load(&j->held_count)) {
    qp__mutex_lock(&j->lock);
    noted = qp__aside_find(&j->held, id) != NULL;
    qp__mutex_unlock(&j->lock);
    *held |= noted;
    if (noted)
      return QP_OK;
  }
  sys = apply_again(j, op, staged, qp__op_apply(&j->applier, op, staged));
  if (!sys)
    return QP_OK;
  rc = qp__fail_sys(err, sys, "cannot write '%s'", op->path);
  if (!has_id || !qp__aside_is_local(sys, false))
    return rc;
  qp__log(&j->options.log, QP_LOG_ERROR, "journal",
          "%s has changes that cannot be written yet; they are kept: %s", qp__aside_text(id, text),
          err->msg);
  qp__mutex_lock(&j->lock);
  *held = qp__aside_note(&j->held, id, err);
  atomic_store(&j->held_count, (unsigned)j->held.count);
  qp__mutex_unlock(&j->lock);
  return *held ? QP_OK : rc;
}

/* Keeps the operations of a commit in places that are held. Only this function adds to the list.
 * An item that is removed from it meanwhile has all its earlier commits. */
static enum qp_rc
hold_txn(struct qp__journal *j, struct qp__txn *txn, struct qp_bytes body, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&j->lock);
  for (size_t i = 0; i < j->held.count && !rc; i++) {
    const struct qp__aside *h = &j->held.v[i];

    if (!qp__aside_touched(body, h->id))
      continue;
    rc = qp__aside_append(j->os, j->dir, h->id, ".held", qp__frame_key(txn->frame.data), body, err);
    txn->rc = qp__aside_fail(h, &txn->err);
  }
  qp__mutex_unlock(&j->lock);
  return rc;
}

/* A failure stops everything; a failure of only one context is stored in txn->rc, for this commit.
 * A commit that changes no context is published nevertheless: it is durable, and the state in
 * memory is right once it is applied. */
static enum qp_rc
apply_txn(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err)
{
  struct qp_bytes body = { txn->frame.data + QP__FRAME_HEADER_LEN, body_len(txn) };
  struct qp__op_reader reader;
  struct qp__op op;
  bool held = false;
  enum qp_rc rc = qp__op_reader_init(&reader, body);

  txn->rc = QP_OK;
  for (size_t i = 0; qp__op_next(&reader, &op, &rc); i++)
    if (!txn->done_already[i])
      rc = apply_op(j, &op, txn->staged[i], &held, err);
  if (rc == QP_CORRUPT)
    return qp__fail(err, QP_MISUSE, "a commit has an invalid operation");
  if (!rc && held)
    rc = hold_txn(j, txn, body, err);
  if (!rc && txn->publish && (!txn->rc || !qp__aside_in_context(body)))
    txn->publish(txn->publish_arg);
  return rc;
}

/* Releases the lock while it works. Syncs and applies one group. */
void
qp__journal_lead(struct qp__journal *j)
{
  struct qp__txn *group = take_group(j);
  struct qp__segment segment = j->live[group->segment - j->live_base];
  uint64_t first = group->seq;
  uint64_t end = first;                /* behind the last one */
  struct qp__txn *applied_end = group; /* the first that is not applied */
  struct qp_err cause;
  enum qp_rc rc;

  QP_ASSERT_HELD(&j->lock);
  j->syncing = true;
  j->leading++;
  qp__gate_enter(&j->gate, &j->lock);
  qp__mutex_unlock(&j->lock);
  rc = write_group(j, &segment, group, &cause);
  qp__mutex_lock(&j->lock);
  j->syncing = false;
  j->stats.syncs++;
  if (rc)
    poison(j, &cause);
  if (j->queue)
    (void)pthread_cond_broadcast(wake_slot(j, j->queue->seq));

  while (!j->poison && j->applied_seq + 1 != first)
    qp__mutex_wait(&j->lock, &j->turn);
  if (!j->poison) {
    qp__mutex_unlock(&j->lock);
    while (applied_end && !rc) {
      rc = apply_txn(j, applied_end, &cause);
      if (!rc)
        applied_end = applied_end->next;
    }
    qp__mutex_lock(&j->lock);
    if (rc)
      poison(j, &cause);
  }
  while (group) {
    struct qp__txn *next = group->next;
    bool ok = group != applied_end;

    if (!ok) {
      applied_end = next; /* this one and all behind it failed */
      group->rc = j->poison;
      group->err = j->poison_err;
    } else {
      j->applied_seq = group->seq;
    }
    j->stats.commits += !group->rc;
    end = group->seq + 1;
    finish(group);
    group = next;
  }
  j->leading--;
  if (QP_CHECKED)
    qp__journal_invariants(j);
  qp__gate_leave(&j->gate);
  (void)pthread_cond_broadcast(&j->turn);
  if (j->options.background && qp__journal_applied_segments(j))
    (void)pthread_cond_signal(&j->wanted);
  qp__mutex_unlock(&j->lock);
  for (uint64_t seq = first; seq < end && seq < first + WAKE_SLOTS; seq++)
    (void)pthread_cond_broadcast(wake_slot(j, seq));
  qp__mutex_lock(&j->lock);
}

enum qp_rc
qp__journal_finish(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err)
{
  enum qp_rc rc;

  QP_ASSERT(txn->seq); /* it was staged */
  QP_ASSERT_NOT_HELD(&j->lock);
  qp__mutex_lock(&j->lock);
  while (txn->state != QP__TXN_DONE) {
    if (!txn->taken && !j->syncing)
      qp__journal_lead(j);
    else
      qp__mutex_wait(&j->lock, wake_slot(j, txn->seq));
  }
  rc = qp__fail_as(err, txn->rc, &txn->err);
  if (!rc && !j->options.background && qp__journal_applied_segments(j))
    (void)qp__journal_run_checkpoint(
        j, NULL); /* a failure stops the journal, and the next commit reports it */
  qp__mutex_unlock(&j->lock);
  return rc;
}

/* journal.c - see journal.h for what it promises, segment.h for the bytes.
 *
 * Locking: `lock` guards every field below "shared". A leader works without it: `syncing` keeps
 * other leaders out of the sync station, and the apply station is entered in the order of commit
 * numbers (applied_seq), so the applier and the segment files have one user each at any time.
 *
 * Segments: live[0 .. live_count) are in use, the last one receives frames; `spare` is ready to
 * follow it. A segment before the last one is retired: checkpoint() forgets it once all its commits
 * are applied. */
#include "store/files/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/files/recover.h"
#include "store/files/segment.h"

#define MAX_SEGMENTS 4
#define GROUP_BYTES ((size_t)1 << 20) /* frames up to this many bytes are written with one call */
#define WAKE_SLOTS 64                 /* commits that wait are spread over these by their numbers */
#define IDLE_MS 2000 /* a journal that is not empty is checkpointed this long after */

struct qp__journal {
  const struct qp__os *os;
  int root;
  int dir;
  struct qp__journal_options options;
  struct qp__applier applier; /* of the thread in the apply station */
  struct qp__buf group;       /* of the thread in the sync station */

  /* shared */
  pthread_mutex_t lock;
  pthread_cond_t wake[WAKE_SLOTS]; /* a commit is done, or may lead */
  pthread_cond_t turn;             /* applied_seq or poison or live_count changed */
  pthread_cond_t wanted;           /* the background thread has something to do */
  struct qp__segment live[MAX_SEGMENTS];
  size_t live_count;
  size_t live_base; /* count of live[0] since open */
  struct qp__segment spare;
  uint64_t next_number;
  uint64_t next_seq;      /* of the next commit to be staged */
  uint64_t applied_seq;   /* all commits up to here are applied */
  uint64_t forgotten_seq; /* all commits up to here are in no segment any more */
  struct qp__txn *queue;  /* staged, not yet taken by a leader; oldest first */
  struct qp__txn *queue_tail;
  bool syncing;       /* a leader is in the sync station */
  bool checkpointing; /* a thread is in checkpoint() */
  bool preparing;     /* a thread makes the spare */
  bool stopping;
  unsigned leading; /* threads in the sync or the apply station, or on the way between them */
  enum qp_rc poison;
  struct qp_err poison_err;
  bool lost; /* a sync of the files failed: they may lack what was applied since the last one */
  struct qp__journal_stats stats;
  pthread_t thread;
};

static size_t
body_len(const struct qp__txn *txn)
{
  return txn->frame.len - QP__FRAME_HEADER_LEN;
}

/* ---- poison ---- */

static pthread_cond_t *
wake_slot(struct qp__journal *j, uint64_t seq)
{
  return &j->wake[seq % WAKE_SLOTS];
}

/* With the lock held. The commit's thread may free it as soon as it gets the lock; it is woken by
 * whoever calls this, best without the lock, so that it does not wake only to wait for that. */
static void
finish(struct qp__txn *txn, enum qp_rc rc, const struct qp_err *err)
{
  txn->rc = rc;
  if (rc)
    txn->err = *err;
  txn->state = QP__TXN_DONE;
}

/* With the lock held. The first failure stays; commits that no leader has taken fail at once. */
static void
poison(struct qp__journal *j, const struct qp_err *cause)
{
  if (j->poison)
    return;
  j->poison = QP_IO;
  (void)qp__fail(&j->poison_err, QP_IO,
                 "%.200s; the store takes no more writes until it has recovered", cause->msg);
  qp__log(&j->options.log, QP_LOG_ERROR, "journal", "%s", j->poison_err.msg);
  while (j->queue) {
    struct qp__txn *txn = j->queue;

    j->queue = txn->next;
    finish(txn, j->poison, &j->poison_err);
  }
  for (size_t i = 0; i < WAKE_SLOTS; i++)
    (void)pthread_cond_broadcast(&j->wake[i]);
  (void)pthread_cond_broadcast(&j->turn);
  (void)pthread_cond_broadcast(&j->wanted);
}

void
qp__journal_poison(struct qp__journal *j, const struct qp_err *cause, bool lost)
{
  (void)pthread_mutex_lock(&j->lock);
  j->lost |= lost;
  poison(j, cause);
  (void)pthread_mutex_unlock(&j->lock);
}

/* The answer of a poisoned journal. */
static enum qp_rc
poisoned(const struct qp__journal *j, struct qp_err *err)
{
  if (err)
    *err = j->poison_err;
  return j->poison;
}

static enum qp_rc
may_write(const struct qp__journal *j, struct qp_err *err)
{
  return j->options.may_write ? j->options.may_write(j->options.may_write_arg, err) : QP_OK;
}

/* ---- segments ---- */

static struct qp__segment *
last_segment(struct qp__journal *j)
{
  return &j->live[j->live_count - 1];
}

/* With the lock held; gives it up while it works. Makes the spare segment, at least `size` long. */
static enum qp_rc
prepare_spare(struct qp__journal *j, uint64_t size, struct qp_err *err)
{
  uint64_t number = j->next_number++;
  struct qp__segment s = { .fd = -1 };
  enum qp_rc rc;

  assert(!j->preparing && j->spare.fd < 0);
  j->preparing = true;
  (void)pthread_mutex_unlock(&j->lock);
  rc = qp__segment_create(j->os, j->dir, number, size, &s, err);
  (void)pthread_mutex_lock(&j->lock);
  j->preparing = false;
  if (!rc)
    j->spare = s;
  (void)pthread_cond_broadcast(&j->turn);
  return rc;
}

/* How many segments at the front are retired and completely applied. */
static size_t
applied_segments(const struct qp__journal *j)
{
  size_t n = 0;

  while (n + 1 < j->live_count && j->live[n].last_seq <= j->applied_seq)
    n++;
  return n;
}

static bool
quiet(const struct qp__journal *j)
{
  return j->applied_seq + 1 == j->next_seq;
}

static bool
empty(const struct qp__journal *j)
{
  return j->live_count == 1 && j->live[0].end == QP__SEGMENT_START;
}

static bool
wants_spare(struct qp__journal *j)
{
  return j->spare.fd < 0 && !j->preparing && j->live_count < MAX_SEGMENTS &&
         last_segment(j)->end > last_segment(j)->size / 2;
}

/* ---- checkpoint ---- */

/* With the lock held; gives it up while it works. Forgets the first segment, whose commits are
 * applied and durable. Its frames are made invalid before anything else: an old segment that came
 * back after a power cut, when later ones are gone, would undo what followed it. */
static enum qp_rc
drop_first(struct qp__journal *j, struct qp_err *err)
{
  struct qp__segment s = j->live[0];
  uint64_t last_seq = s.last_seq; /* a reset forgets it */
  char name[QP__SEGMENT_NAME_LEN];
  uint64_t number = 0;
  enum qp_rc rc;
  bool keep;

  keep = j->spare.fd < 0 && !j->preparing && s.size == j->options.segment_bytes;
  if (keep) {
    j->preparing = true;
    number = j->next_number++;
  }
  (void)pthread_mutex_unlock(&j->lock);
  rc = qp__segment_reset(j->os, &s, err);
  if (rc || !keep || qp__segment_rename(j->os, j->dir, &s, number)) {
    qp__segment_name(name, s.number);
    qp__segment_close(j->os, &s);
    if (!rc)
      (void)j->os->unlinkat(j->os->self, j->dir, name, 0); /* if it stays, it holds nothing */
  }
  (void)pthread_mutex_lock(&j->lock);
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

/* With the lock held; gives it up while it syncs. Makes durable what is applied now and forgets the
 * segments that hold nothing else; the last one too when no commit came meanwhile. A failed sync
 * poisons: the pages may be lost, and only the journal still has them. */
static enum qp_rc
checkpoint(struct qp__journal *j, struct qp_err *err)
{
  struct qp_err cause;
  enum qp_rc rc = QP_OK;
  uint64_t upto;
  size_t retired;
  int sys;

  while (j->checkpointing)
    (void)pthread_cond_wait(&j->turn, &j->lock);
  if (j->poison)
    return poisoned(j, err);
  retired = applied_segments(j);
  upto = j->applied_seq;
  if (empty(j) || (!retired && !quiet(j)))
    return QP_OK;
  j->checkpointing = true;
  (void)pthread_mutex_unlock(&j->lock);
  rc = may_write(j, &cause);
  sys = rc ? 0 : qp__syncfs(j->os, j->root);
  (void)pthread_mutex_lock(&j->lock);
  if (sys) {
    j->lost = true;
    rc = qp__fail_sys(&cause, sys, "cannot sync the data directory");
  }
  for (; !rc && retired; retired--)
    rc = drop_first(j, &cause);
  if (!rc && j->live_count == 1 && j->next_seq == upto + 1 && !empty(j)) {
    rc = qp__segment_reset(j->os, &j->live[0], &cause);
    if (!rc)
      j->forgotten_seq = upto;
  }
  if (rc)
    poison(j, &cause);
  else
    j->stats.checkpoints++;
  j->checkpointing = false;
  (void)pthread_cond_broadcast(&j->turn);
  return rc ? poisoned(j, err) : QP_OK;
}

enum qp_rc
qp__journal_checkpoint(struct qp__journal *j, struct qp_err *err)
{
  enum qp_rc rc;

  (void)pthread_mutex_lock(&j->lock);
  rc = checkpoint(j, err);
  (void)pthread_mutex_unlock(&j->lock);
  return rc;
}

uint64_t
qp__journal_forgotten(struct qp__journal *j)
{
  uint64_t seq;

  (void)pthread_mutex_lock(&j->lock);
  seq = j->forgotten_seq;
  (void)pthread_mutex_unlock(&j->lock);
  return seq;
}

/* ---- stage ---- */

/* With the lock held; may give it up. On a full disk the segments that are there have to do: one
 * step towards an empty one. */
static enum qp_rc
empty_segments(struct qp__journal *j, struct qp_err *err)
{
  if (quiet(j) || applied_segments(j))
    return checkpoint(j, err);
  (void)pthread_cond_wait(&j->turn, &j->lock);
  return j->poison ? poisoned(j, err) : QP_OK;
}

/* With the lock held; may give it up. Makes a segment that takes a frame of `space` bytes the last
 * one, or waits for something that brings that nearer; the caller looks again. */
static enum qp_rc
next_segment(struct qp__journal *j, uint64_t space, struct qp_err *err)
{
  uint64_t size = j->options.segment_bytes;

  if (size < QP__SEGMENT_START + space)
    size = QP__SEGMENT_START + space;
  if (j->live_count == MAX_SEGMENTS) { /* the journal is at its bound: wait for a checkpoint */
    if (!j->options.background && applied_segments(j))
      return checkpoint(j, err);
    (void)pthread_cond_signal(&j->wanted);
    (void)pthread_cond_wait(&j->turn, &j->lock);
    return QP_OK;
  }
  if (j->preparing) {
    (void)pthread_cond_wait(&j->turn, &j->lock);
    return QP_OK;
  }
  if (j->spare.fd >= 0 && j->spare.size < size) { /* an outsize frame: the spare is no use to it */
    char name[QP__SEGMENT_NAME_LEN];

    qp__segment_name(name, j->spare.number);
    qp__segment_close(j->os, &j->spare);
    (void)j->os->unlinkat(j->os->self, j->dir, name, 0);
  }
  if (j->spare.fd < 0) {
    enum qp_rc rc = prepare_spare(j, size, err);

    return rc == QP_FULL && size == j->options.segment_bytes && !empty(j) ? empty_segments(j, err)
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
}

enum qp_rc
qp__journal_stage(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err)
{
  uint64_t space = qp__frame_space(body_len(txn));
  enum qp_rc rc = QP_OK;

  assert(txn->state == QP__TXN_NEW);
  (void)pthread_mutex_lock(&j->lock);
  while (!rc) {
    if (j->poison) {
      rc = poisoned(j, err);
    } else if (last_segment(j)->size - last_segment(j)->end >= space) {
      bool was_empty = empty(j);

      enqueue(j, txn, space);
      if (was_empty || wants_spare(j))
        (void)pthread_cond_signal(&j->wanted);
      break;
    } else {
      rc = next_segment(j, space, err);
    }
  }
  (void)pthread_mutex_unlock(&j->lock);
  return rc;
}

/* ---- forgetting ---- */

/* With the lock held: whether the last segment, which takes more commits, has this one. */
static bool
in_last_segment(const struct qp__journal *j, uint64_t seq)
{
  return j->live_count == 1 || seq > j->live[j->live_count - 2].last_seq;
}

/* With the lock held; may give it up. One step towards a journal that has forgotten commit `seq`;
 * the caller looks again. */
static enum qp_rc
step_to_forget(struct qp__journal *j, uint64_t seq, struct qp_err *err)
{
  if (j->poison)
    return poisoned(j, err);
  if (j->applied_seq >= seq && !quiet(j) && in_last_segment(j, seq))
    return next_segment(j, 0, err); /* others go on: let them do so elsewhere */
  if (j->applied_seq >= seq && (quiet(j) || applied_segments(j)))
    return checkpoint(j, err);
  (void)pthread_cond_wait(&j->turn, &j->lock);
  return QP_OK;
}

enum qp_rc
qp__journal_forget(struct qp__journal *j, uint64_t seq, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&j->lock);
  while (!rc && j->forgotten_seq < seq)
    rc = step_to_forget(j, seq, err);
  (void)pthread_mutex_unlock(&j->lock);
  return rc;
}

enum qp_rc
qp__journal_barrier(struct qp__journal *j, struct qp_err *err)
{
  struct qp_err cause;
  uint64_t upto;
  enum qp_rc rc;
  int sys;

  (void)pthread_mutex_lock(&j->lock);
  upto = j->next_seq - 1;
  rc = j->poison ? poisoned(j, err) : QP_OK;
  (void)pthread_mutex_unlock(&j->lock);
  if (!rc)
    rc = qp__journal_forget(j, upto, err);
  if (rc)
    return rc;
  sys = qp__syncfs(j->os, j->root); /* what no commit knows of, perhaps written a moment ago */
  if (!sys)
    return QP_OK;
  (void)qp__fail_sys(&cause, sys, "cannot sync the data directory");
  (void)pthread_mutex_lock(&j->lock);
  j->lost = true;
  poison(j, &cause);
  rc = poisoned(j, err);
  (void)pthread_mutex_unlock(&j->lock);
  return rc;
}

/* ---- sync and apply ---- */

/* With the lock held: takes the oldest staged commits that are neighbours in one segment. */
static struct qp__txn *
take_group(struct qp__journal *j)
{
  struct qp__txn *first = j->queue;
  struct qp__txn *last = first;
  size_t bytes = first->frame.len;

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

/* The frames of a group as they stand in the segment, one behind the other; false: no memory for
 * that. */
static bool
join_frames(struct qp__journal *j, const struct qp__txn *group)
{
  static const char padding[8];

  qp__buf_reset(&j->group);
  for (const struct qp__txn *t = group; t; t = t->next) {
    (void)qp__buf_add(&j->group, t->frame.data, t->frame.len);
    (void)qp__buf_add(&j->group, padding, (size_t)qp__frame_space(body_len(t)) - t->frame.len);
  }
  return j->group.rc == QP_OK;
}

/* Writes a group's frames, with one call where that can be done, and syncs. */
static enum qp_rc
write_group(struct qp__journal *j, const struct qp__segment *s, struct qp__txn *group,
            struct qp_err *err)
{
  enum qp_rc rc = may_write(j, err);
  int sys = 0;

  if (rc)
    return rc;
  for (struct qp__txn *t = group; t; t = t->next)
    qp__frame_seal(s, t->frame.data, body_len(t), t->seq);
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

static enum qp_rc
apply_txn(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err)
{
  struct qp_bytes body = { txn->frame.data + QP__FRAME_HEADER_LEN, body_len(txn) };
  struct qp__op_reader reader;
  struct qp__op op;
  bool more = true;
  enum qp_rc rc = qp__op_reader_init(&reader, body);

  for (size_t i = 0; !rc; i++) {
    rc = qp__op_read(&reader, &op, &more);
    if (rc || !more)
      break;
    if (!txn->done_already[i])
      rc = qp__op_apply(&j->applier, &op, txn->staged[i], err);
  }
  if (rc == QP_CORRUPT)
    return qp__fail(err, QP_MISUSE, "a commit holds an operation that cannot be");
  if (!rc && txn->publish)
    txn->publish(txn->publish_arg);
  return rc;
}

/* With the lock held; gives it up while it works. Brings one group through the sync and apply
 * stations. */
static void
lead(struct qp__journal *j)
{
  struct qp__txn *group = take_group(j);
  struct qp__segment segment = j->live[group->segment - j->live_base];
  uint64_t first = group->seq;
  uint64_t end = first;                /* behind the last one */
  struct qp__txn *applied_end = group; /* the first that is not applied */
  struct qp_err cause;
  enum qp_rc rc;

  j->syncing = true;
  j->leading++;
  (void)pthread_mutex_unlock(&j->lock);
  rc = write_group(j, &segment, group, &cause);
  (void)pthread_mutex_lock(&j->lock);
  j->syncing = false;
  j->stats.syncs++;
  if (rc)
    poison(j, &cause);
  if (j->queue)
    (void)pthread_cond_broadcast(wake_slot(j, j->queue->seq));

  while (!j->poison && j->applied_seq + 1 != first)
    (void)pthread_cond_wait(&j->turn, &j->lock);
  if (!j->poison) {
    (void)pthread_mutex_unlock(&j->lock);
    while (applied_end && !rc) {
      rc = apply_txn(j, applied_end, &cause);
      if (!rc)
        applied_end = applied_end->next;
    }
    (void)pthread_mutex_lock(&j->lock);
    if (rc)
      poison(j, &cause);
  }
  while (group) {
    struct qp__txn *next = group->next;
    bool ok = group != applied_end;

    if (!ok)
      applied_end = next; /* this one and all behind it failed */
    else
      j->applied_seq = group->seq;
    j->stats.commits += ok;
    end = group->seq + 1;
    finish(group, ok ? QP_OK : j->poison, &j->poison_err);
    group = next;
  }
  j->leading--;
  (void)pthread_cond_broadcast(&j->turn);
  if (j->options.background && applied_segments(j))
    (void)pthread_cond_signal(&j->wanted);
  (void)pthread_mutex_unlock(&j->lock);
  for (uint64_t seq = first; seq < end && seq < first + WAKE_SLOTS; seq++)
    (void)pthread_cond_broadcast(wake_slot(j, seq));
  (void)pthread_mutex_lock(&j->lock);
}

enum qp_rc
qp__journal_settle(struct qp__journal *j, struct qp__txn *txn, struct qp_err *err)
{
  enum qp_rc rc;

  (void)pthread_mutex_lock(&j->lock);
  while (txn->state != QP__TXN_DONE) {
    if (!txn->taken && !j->syncing)
      lead(j);
    else
      (void)pthread_cond_wait(wake_slot(j, txn->seq), &j->lock);
  }
  rc = txn->rc;
  if (rc && err)
    *err = txn->err;
  if (!rc && !j->options.background && applied_segments(j))
    (void)checkpoint(j, NULL); /* a failure poisons, and the next commit tells */
  (void)pthread_mutex_unlock(&j->lock);
  return rc;
}

/* ---- mending ---- */

enum qp_rc
qp__journal_check(struct qp__journal *j, struct qp_err *err)
{
  enum qp_rc rc;

  (void)pthread_mutex_lock(&j->lock);
  rc = j->poison ? poisoned(j, err) : QP_OK;
  (void)pthread_mutex_unlock(&j->lock);
  return rc;
}

/* After recovery the journal holds no frame: takes over the segment it left, or makes the first
 * one. */
static enum qp_rc
take_first_segment(struct qp__journal *j, struct qp__recovery *r, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (j->next_number <= r->last_number)
    j->next_number = r->last_number + 1;
  j->live[0] = r->segment;
  r->segment.fd = -1;
  if (j->live[0].fd < 0)
    rc = qp__segment_create(j->os, j->dir, j->next_number++, j->options.segment_bytes, &j->live[0],
                            err);
  if (!rc)
    j->live_count = 1;
  return rc;
}

/* For readers in other processes: see recover.h. */
static void
mark_live(struct qp__journal *j, bool live)
{
  int sys = qp__journal_mark_live(j->os, j->dir, live);

  if (sys && live)
    qp__log(&j->options.log, QP_LOG_WARN, "journal",
            "'journal' cannot be locked (%s): other processes cannot read beside this one",
            strerrordesc_np(-sys));
}

static void
close_segments(struct qp__journal *j)
{
  for (size_t i = 0; i < j->live_count; i++)
    qp__segment_close(j->os, &j->live[i]);
  j->live_count = 0;
  qp__segment_close(j->os, &j->spare);
}

enum qp_rc
qp__journal_mend(struct qp__journal *j, struct qp_err *err)
{
  struct qp__recovery r = { .in_place = true, .segment = { .fd = -1 } };
  bool lost;
  enum qp_rc rc;

  (void)pthread_mutex_lock(&j->lock);
  while (j->leading || j->checkpointing || j->preparing)
    (void)pthread_cond_wait(&j->turn, &j->lock);
  if (!j->poison) {
    (void)pthread_mutex_unlock(&j->lock);
    return QP_OK;
  }
  mark_live(j, false); /* until resume */
  close_segments(j);   /* a poisoned journal uses none */
  qp__applier_release(&j->applier);
  lost = j->lost;
  j->lost = false;
  r.applied = lost ? 0 : j->applied_seq;
  (void)pthread_mutex_unlock(&j->lock);
  rc = may_write(j, err);
  if (!rc)
    rc = qp__journal_recover(j->os, j->root, j->applier.tmp, j->dir, j->options.segment_bytes,
                             &j->options.log, &r, err);
  (void)pthread_mutex_lock(&j->lock);
  if (rc)
    j->lost |= lost || r.lost;
  else
    rc = take_first_segment(j, &r, err);
  if (!rc) {
    j->applied_seq = j->forgotten_seq = j->next_seq - 1;
    j->stats.recovered += r.replayed;
  }
  (void)pthread_mutex_unlock(&j->lock);
  qp__segment_close(j->os, &r.segment);
  return rc;
}

void
qp__journal_resume(struct qp__journal *j)
{
  (void)pthread_mutex_lock(&j->lock);
  if (j->poison) {
    qp__log(&j->options.log, QP_LOG_WARN, "journal", "the store takes writes again");
    mark_live(j, true);
  }
  j->poison = QP_OK;
  (void)pthread_cond_broadcast(&j->turn);
  (void)pthread_cond_broadcast(&j->wanted);
  (void)pthread_mutex_unlock(&j->lock);
}

/* ---- the background thread ---- */

/* With the lock held: waits for work; true when IDLE_MS went by without any. */
static bool
wait_idle(struct qp__journal *j)
{
  int64_t until = j->os->mono_ms(j->os->self) + IDLE_MS;
  struct timespec ts = { .tv_sec = (time_t)(until / 1000),
                         .tv_nsec = (long)(until % 1000) * 1000000 };

  if (empty(j) || j->poison) {
    (void)pthread_cond_wait(&j->wanted, &j->lock);
    return false;
  }
  return pthread_cond_timedwait(&j->wanted, &j->lock, &ts) == ETIMEDOUT;
}

static void *
run_background(void *arg)
{
  struct qp__journal *j = arg;
  uint64_t seen = 0;

  (void)pthread_mutex_lock(&j->lock);
  while (!j->stopping) {
    if (!j->poison && applied_segments(j)) {
      (void)checkpoint(j, NULL);
    } else if (!j->poison && wants_spare(j)) {
      if (prepare_spare(j, j->options.segment_bytes, NULL))
        (void)wait_idle(j); /* no room: the next stage tells its caller */
    } else if (wait_idle(j)) {
      if (j->next_seq == seen && quiet(j))
        (void)checkpoint(j, NULL);
      seen = j->next_seq;
    }
  }
  (void)pthread_mutex_unlock(&j->lock);
  return NULL;
}

/* ---- open and close ---- */

static enum qp_rc
init_sync(struct qp__journal *j, struct qp_err *err)
{
  pthread_condattr_t attr;
  int rc = pthread_mutex_init(&j->lock, NULL);

  if (rc)
    return qp__fail_sys(err, -rc, "cannot open the journal");
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  for (size_t i = 0; i < WAKE_SLOTS; i++)
    (void)pthread_cond_init(&j->wake[i], NULL);
  (void)pthread_cond_init(&j->turn, NULL);
  (void)pthread_cond_init(&j->wanted, &attr);
  (void)pthread_condattr_destroy(&attr);
  return QP_OK;
}

static void
free_journal(struct qp__journal *j)
{
  close_segments(j);
  qp__applier_release(&j->applier);
  qp__buf_release(&j->group);
  qp__close(j->os, j->dir);
  for (size_t i = 0; i < WAKE_SLOTS; i++)
    (void)pthread_cond_destroy(&j->wake[i]);
  (void)pthread_cond_destroy(&j->wanted);
  (void)pthread_cond_destroy(&j->turn);
  (void)pthread_mutex_destroy(&j->lock);
  qp__free(j);
}

enum qp_rc
qp__journal_open(const struct qp__os *os, int root, int tmp,
                 const struct qp__journal_options *options, struct qp__journal **out,
                 struct qp_err *err)
{
  struct qp__recovery recovery = { .segment = { .fd = -1 } };
  struct qp__journal *j = qp__alloc0(1, sizeof(*j));
  enum qp_rc rc;

  if (!j)
    return qp__fail_nomem(err, "opening the journal");
  j->os = os;
  j->root = root;
  j->dir = -1;
  j->spare.fd = -1;
  j->options = *options;
  j->next_seq = 1;
  j->next_number = 1;
  qp__applier_init(&j->applier, os, root, tmp);
  qp__buf_init(&j->group, 2 * GROUP_BYTES);
  rc = init_sync(j, err);
  if (rc) {
    qp__free(j);
    return rc;
  }
  j->dir = qp__open(os, root, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (j->dir < 0) {
    rc = qp__fail_sys(err, j->dir, "cannot open 'journal'");
    goto out;
  }
  rc = qp__journal_recover(os, root, tmp, j->dir, options->segment_bytes, &options->log, &recovery,
                           err);
  if (rc)
    goto out;
  j->stats.recovered = recovery.replayed;
  rc = take_first_segment(j, &recovery, err);
  if (rc)
    goto out;
  mark_live(j, true);
  if (options->background) {
    int sys = pthread_create(&j->thread, NULL, run_background, j);

    if (sys) {
      rc = qp__fail_sys(err, -sys, "cannot start the journal's thread");
      goto out;
    }
  }
  *out = j;
  j = NULL;
out:
  qp__segment_close(os, &recovery.segment);
  if (j)
    free_journal(j);
  return rc;
}

void
qp__journal_close(struct qp__journal *j)
{
  if (!j)
    return;
  (void)pthread_mutex_lock(&j->lock);
  j->stopping = true;
  (void)pthread_cond_broadcast(&j->wanted);
  (void)pthread_mutex_unlock(&j->lock);
  if (j->options.background)
    (void)pthread_join(j->thread, NULL);
  (void)qp__journal_checkpoint(j, NULL); /* if it fails, the next open replays */
  free_journal(j);
}

void
qp__journal_stats(struct qp__journal *j, struct qp__journal_stats *out)
{
  (void)pthread_mutex_lock(&j->lock);
  *out = j->stats;
  (void)pthread_mutex_unlock(&j->lock);
}

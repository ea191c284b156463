/* journal_life.c - opens, mends and closes the journal, and releases held commits. See
 * journal.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/files/journal/journal_int.h"
#include "store/files/journal/journal_recover.h"

#define IDLE_MS 2000 /* a journal that is not empty is checkpointed this long after */

/* ---- contexts that are held ---- */

bool
qp__journal_holds(struct qp__journal *j, const char *id)
{
  bool held;

  if (!atomic_load(&j->held_count))
    return false;
  qp__mutex_lock(&j->lock);
  held = qp__aside_find(&j->held, id) != NULL;
  qp__mutex_unlock(&j->lock);
  return held;
}

/* With release_lock held. */
static enum qp_rc
release(struct qp__journal *j, const char *id, struct qp_err *err)
{
  char text[QP__ASIDE_TEXT];
  uint64_t upto;
  enum qp_rc rc;

  qp__mutex_lock(&j->lock);
  upto = j->next_seq - 1; /* commits that were staged before it was held are held too: wait */
  while (!j->poison && j->applied_seq < upto) {
    if (j->queue && !j->syncing)
      qp__journal_lead(j);
    else
      qp__mutex_wait(&j->lock, &j->turn);
  }
  rc = j->poison ? qp__journal_answer(j, err) : QP_OK;
  qp__gate_enter(&j->gate, &j->lock); /* a backup must not see half of it */
  qp__mutex_unlock(&j->lock);
  if (!rc)
    rc = qp__aside_carry_out(j->os, j->root, j->applier.tmp, j->dir, id, err);
  if (!rc)
    rc = qp__journal_sync_files(j, err);
  if (!rc)
    rc = qp__aside_remove(j->os, j->dir, id, err);
  qp__mutex_lock(&j->lock);
  if (!rc) {
    qp__log(&j->options.log, QP_LOG_WARN, "journal",
            "the changes that were kept for %s are written", qp__aside_text(id, text));
    qp__aside_forget(&j->held, id);
    atomic_store(&j->held_count, (unsigned)j->held.count);
    if (!qp__aside_is_context(id))
      (void)atomic_fetch_add(&j->releases, 1);
  }
  qp__gate_leave(&j->gate);
  qp__mutex_unlock(&j->lock);
  return rc;
}

enum qp_rc
qp__journal_release(struct qp__journal *j, const char *id, struct qp_err *err)
{
  enum qp_rc rc;

  if (!atomic_load(&j->held_count))
    return QP_OK;
  qp__mutex_lock(&j->release_lock);
  rc = qp__journal_holds(j, id) ? release(j, id, err) : QP_OK;
  qp__mutex_unlock(&j->release_lock);
  return rc;
}

unsigned
qp__journal_releases(struct qp__journal *j)
{
  return atomic_load(&j->releases);
}

/* With the lock held, or alone: after a recovery. */
static void
take_held(struct qp__journal *j, struct qp__recovery *r)
{
  qp__aside_release(&j->held);
  j->held = r->held;
  r->held = (struct qp__aside_list){ 0 };
  atomic_store(&j->held_count, (unsigned)j->held.count);
}

/* ---- mending ---- */

enum qp_rc
qp__journal_check(struct qp__journal *j, struct qp_err *err)
{
  enum qp_rc rc;

  qp__mutex_lock(&j->lock);
  rc = j->poison ? qp__journal_answer(j, err) : QP_OK;
  qp__mutex_unlock(&j->lock);
  return rc;
}

/* After recovery the journal holds no frame: uses the segment that recovery left, or creates the
 * first one. */
static enum qp_rc
take_first_segment(struct qp__journal *j, struct qp__recovery *r, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  QP_ASSERT(j->live_count == 0);
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

/* For readers in other processes: see journal_recover.h. */
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
  QP_ASSERT(j->live_count <= MAX_SEGMENTS);
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

  qp__mutex_lock(&j->release_lock);
  qp__mutex_lock(&j->lock);
  while (j->leading || j->checkpointing || j->preparing)
    qp__mutex_wait(&j->lock, &j->turn);
  if (!j->poison) {
    qp__mutex_unlock(&j->lock);
    qp__mutex_unlock(&j->release_lock);
    return QP_OK;
  }
  mark_live(j, false); /* until resume */
  close_segments(j);   /* a stopped journal uses none */
  qp__applier_release(&j->applier);
  lost = j->lost;
  j->lost = false;
  r.applied = lost ? 0 : j->applied_seq;
  r.again = j->mend_failed;
  qp__gate_enter(&j->gate, &j->lock);
  qp__mutex_unlock(&j->lock);
  rc = qp__journal_may_write(j, err);
  if (!rc)
    rc = qp__journal_recover(j->os, j->root, j->applier.tmp, j->dir, j->options.segment_bytes,
                             &j->options.log, &r, err);
  qp__mutex_lock(&j->lock);
  qp__gate_leave(&j->gate);
  j->mend_failed = rc != QP_OK;
  if (rc)
    j->lost |= lost || r.lost;
  else
    rc = take_first_segment(j, &r, err);
  if (!rc) {
    j->applied_seq = j->forgotten_seq = j->next_seq - 1;
    j->stats.recovered += r.replayed;
    take_held(j, &r);
  }
  qp__mutex_unlock(&j->lock);
  qp__mutex_unlock(&j->release_lock);
  qp__aside_release(&r.held);
  qp__segment_close(j->os, &r.segment);
  return rc;
}

void
qp__journal_resume(struct qp__journal *j)
{
  QP_ASSERT_NOT_HELD(&j->lock);
  qp__mutex_lock(&j->lock);
  if (j->poison) {
    qp__log(&j->options.log, QP_LOG_WARN, "journal", "the store accepts writes again");
    mark_live(j, true);
  }
  j->poison = QP_OK;
  if (QP_CHECKED)
    qp__journal_invariants(j);
  (void)pthread_cond_broadcast(&j->turn);
  (void)pthread_cond_broadcast(&j->wanted);
  qp__mutex_unlock(&j->lock);
}

/* ---- the background thread ---- */

/* Waits for work; true: there was none for IDLE_MS. The signal to stop is sent once, possibly while
 * this thread works without the lock, so `stopping` is checked first. */
static bool
wait_idle(struct qp__journal *j)
{
  struct timespec ts = qp__mono_after(j->os, IDLE_MS);

  QP_ASSERT_HELD(&j->lock);
  if (j->stopping)
    return false;
  if (qp__journal_is_empty(j) || j->poison) {
    qp__mutex_wait(&j->lock, &j->wanted);
    return false;
  }
  return qp__mutex_timedwait(&j->lock, &j->wanted, &ts) == ETIMEDOUT;
}

static void *
run_background(void *arg)
{
  struct qp__journal *j = arg;
  uint64_t seen = 0;

  qp__mutex_lock(&j->lock);
  while (!j->stopping) {
    if (!j->poison && qp__journal_applied_segments(j)) {
      (void)qp__journal_run_checkpoint(j, NULL);
    } else if (!j->poison && qp__journal_wants_spare(j)) {
      if (qp__journal_prepare_spare(j, j->options.segment_bytes, NULL))
        (void)wait_idle(j); /* no space: the next stage reports it to its caller */
    } else if (wait_idle(j)) {
      if (j->next_seq == seen && qp__journal_is_quiet(j))
        (void)qp__journal_run_checkpoint(j, NULL);
      seen = j->next_seq;
    }
  }
  qp__mutex_unlock(&j->lock);
  return NULL;
}

/* ---- wiping ---- */

/* Frames that are under way are written before the end of their segment, and with the lock held no
 * commit gets a place after it. Waits for a segment that is becoming the spare. */
enum qp_rc
qp__journal_scrub(struct qp__journal *j, struct qp_err *err)
{
  enum qp_rc rc = qp__journal_barrier(j, err);
  int sys = 0;

  if (rc)
    return rc;
  qp__mutex_lock(&j->lock);
  while ((j->checkpointing || j->preparing) && !j->poison)
    qp__mutex_wait(&j->lock, &j->turn);
  rc = j->poison ? qp__journal_answer(j, err) : qp__journal_may_write(j, err);
  for (size_t i = 0; i < j->live_count && !rc && !sys; i++)
    sys = qp__segment_wipe(j->os, &j->live[i], j->live[i].size);
  if (!rc && !sys && j->spare.fd >= 0)
    sys = qp__segment_wipe(j->os, &j->spare, j->spare.size);
  qp__mutex_unlock(&j->lock);
  if (sys)
    return qp__fail_sys(err, sys, "cannot overwrite old data in the journal");
  return rc ? rc : qp__journal_sync_files(j, err);
}

/* At the end, when the journal is empty: removes the bytes of old commits from its files. */
static void
wipe_last(struct qp__journal *j)
{
  char name[QP__SEGMENT_NAME_LEN];

  if (j->poison || !qp__journal_is_empty(j) || qp__journal_may_write(j, NULL))
    return;
  (void)qp__segment_wipe(j->os, &j->live[0], j->live[0].stale);
  if (j->spare.fd >= 0 && j->spare.stale) {
    qp__segment_name(name, j->spare.number);
    (void)j->os->unlinkat(j->os->self, j->dir, name, 0);
  }
}

/* ---- open and close ---- */

static void
init_sync(struct qp__journal *j)
{
  qp__mutex_init(&j->lock, QP__RANK_JOURNAL);
  qp__mutex_init(&j->release_lock, QP__RANK_JOURNAL_RELEASE);
  for (size_t i = 0; i < WAKE_SLOTS; i++)
    (void)pthread_cond_init(&j->wake[i], NULL);
  (void)pthread_cond_init(&j->turn, NULL);
  qp__cond_init_mono(&j->wanted);
}

static void
free_journal(struct qp__journal *j)
{
  close_segments(j);
  qp__aside_release(&j->held);
  qp__applier_release(&j->applier);
  qp__buf_release(&j->group);
  qp__close(j->os, j->dir);
  for (size_t i = 0; i < WAKE_SLOTS; i++)
    (void)pthread_cond_destroy(&j->wake[i]);
  (void)pthread_cond_destroy(&j->wanted);
  qp__gate_release(&j->gate);
  (void)pthread_cond_destroy(&j->turn);
  qp__mutex_release(&j->release_lock);
  qp__mutex_release(&j->lock);
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
  init_sync(j);
  j->dir = qp__open(os, root, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (j->dir < 0) {
    rc = qp__fail_sys(err, j->dir, "cannot open 'journal'");
    goto out;
  }
  qp__gate_init(&j->gate, os, root, tmp, &options->log);
  rc = qp__journal_recover(os, root, tmp, j->dir, options->segment_bytes, &options->log, &recovery,
                           err);
  qp__gate_leave(&j->gate);
  if (rc)
    goto out;
  j->stats.recovered = recovery.replayed;
  take_held(j, &recovery);
  rc = take_first_segment(j, &recovery, err);
  if (rc)
    goto out;
  mark_live(j, true);
  qp__mutex_lock(&j->lock);
  if (QP_CHECKED)
    qp__journal_invariants(j);
  qp__mutex_unlock(&j->lock);
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
  qp__aside_release(&recovery.held);
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
  qp__mutex_lock(&j->lock);
  j->stopping = true;
  (void)pthread_cond_broadcast(&j->wanted);
  qp__mutex_unlock(&j->lock);
  if (j->options.background)
    (void)pthread_join(j->thread, NULL);
  (void)qp__journal_checkpoint(j, NULL); /* if it fails, the next open replays */
  qp__mutex_lock(&j->lock);
  QP_ASSERT(!j->queue && !j->leading && !j->checkpointing && !j->preparing);
  if (QP_CHECKED)
    qp__journal_invariants(j);
  wipe_last(j);
  qp__mutex_unlock(&j->lock);
  free_journal(j);
}

void
qp__journal_stats(struct qp__journal *j, struct qp__journal_stats *out)
{
  qp__mutex_lock(&j->lock);
  *out = j->stats;
  qp__mutex_unlock(&j->lock);
}

/* catalogue.c - keeps the database of the catalogue up to date: refreshing, the thread that
 * processes the marks, rebuilding. See catalogue_int.h for the rules. */
#include "store/catalogue/catalogue.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/catalogue/catalogue_int.h"

#define FOLLOW_MS 200  /* delay between the first mark and the work of the thread */
#define RETRY_MS 10000 /* … and after a failure */

/* Moves the marked contexts to `taken`. The caller also holds db_lock. */
static void
take_marks(struct qp__catalogue *cat)
{
  QP_ASSERT_HELD(&cat->lock);
  QP_ASSERT_HELD(&cat->db_lock);
  for (size_t i = 0; i < cat->marks.count && !cat->all; i++)
    if (qp__cat_take(cat, &cat->marks.ids[i], NULL))
      qp__cat_lose_marks(cat);
  cat->needs_pass |= cat->all;
  cat->trusted &= !cat->all;
  cat->all = false;
  qp__idset_release(&cat->marks);
}

/* ---- refreshing ---- */

/* Contexts that could not be opened may be readable by now, without a mark. */
static enum qp_rc
retry_broken(struct qp__catalogue *cat, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = true;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_ROW_BROKEN, &st, err);

  qp__mutex_lock(&cat->lock);
  cat->broken = false;
  while (row && !rc) {
    rc = qp__cat_step(&cat->main, st, &row, err);
    if (!rc && row) {
      struct qp_uuid id = qp__cat_column_id(st, 0);

      cat->broken = true;
      qp__cat_add_mark(cat, &id);
    }
  }
  qp__mutex_unlock(&cat->lock);
  return rc;
}

/* For contexts whose text is not yet in the file, the overlay must have all of it. */
static enum qp_rc
take_due(struct qp__catalogue *cat, struct qp_err *err)
{
  size_t from = cat->taken_count;
  enum qp_rc rc = qp__cat_take_found(cat, &cat->main, QP__CAT_ROW_ALL_DUE, err);

  for (size_t i = from; i < cat->taken_count && !rc; i++)
    if (!qp__idset_add(&cat->hidden, &cat->taken[i]))
      rc = qp__fail_nomem(err, "the catalogue");
  return rc;
}

/* Opens the databases and takes the contexts to check. */
static enum qp_rc
begin_refresh(struct qp__catalogue *cat, bool text, struct qp_err *err)
{
  enum qp_rc rc = qp__cat_open(cat, err);

  if (rc)
    return rc;
  if (cat->store->readonly && cat->main.handle) /* changes of another process set no marks here */
    rc = qp__cat_trust(cat, err);
  else if (cat->store->readonly)
    cat->needs_pass = true;
  else if (cat->main.handle)
    rc = retry_broken(cat, err);
  if (rc)
    return rc;
  qp__mutex_lock(&cat->lock);
  take_marks(cat);
  if (cat->taken_count || cat->needs_pass)
    cat->ready = QP__CAT_STALE;
  qp__mutex_unlock(&cat->lock);
  if (cat->needs_pass)
    rc = qp__cat_compare(cat, true, err);
  cat->needs_pass &= rc != QP_OK;
  if (!rc && text && cat->into == &cat->over && cat->main.handle)
    rc = take_due(cat, err);
  return rc;
}

/* All marked contexts are processed. Later changes are marked again. */
static void
end_refresh(struct qp__catalogue *cat, bool text)
{
  enum qp__cat_ready ready = text ? QP__CAT_TEXT : QP__CAT_ROWS;

  if (cat->into != &cat->main)
    return;
  if (cat->over.handle)
    qp__cat_drop_overlay(cat);
  cat->complained = false;
  qp__cat_order(cat);
  if (text || !cat->trusted)
    qp__cat_write_behind(cat);
  qp__mutex_lock(&cat->lock);
  if (!cat->broken && cat->ready < ready)
    cat->ready = ready;
  qp__mutex_unlock(&cat->lock);
}

static enum qp_rc
try_refresh(struct qp__catalogue *cat, bool text, struct qp_err *err)
{
  bool more = true;
  enum qp_rc rc = begin_refresh(cat, text, err);

  while (!rc && more)
    rc = qp__cat_work(cat, text, &more, err);
  if (!rc)
    end_refresh(cat, text);
  return rc;
}

/* After a failure: continues without the part that failed. False: there is no alternative left. */
static bool
step_back(struct qp__catalogue *cat, enum qp_rc rc, const struct qp_err *why)
{
  struct qp_store *s = cat->store;

  if (!cat->main.handle || rc == QP_NOMEM)
    return false;
  if (rc == QP_CORRUPT && !s->readonly) {
    qp__log(&s->log, QP_LOG_WARN, "catalogue", "%s is damaged and is rebuilt", QP__CATALOGUE_NAME);
    return qp__cat_remove(cat, NULL) == QP_OK;
  }
  if (cat->into == &cat->main && rc != QP_CORRUPT) {
    if (!cat->complained)
      qp__log(&s->log, QP_LOG_WARN, "catalogue",
              "%s; lists and searches are answered with the help of memory until %s can be "
              "written again",
              why->msg, QP__CATALOGUE_NAME);
    cat->complained = true;
    return qp__cat_use_overlay(cat, NULL) == QP_OK;
  }
  qp__log(&s->log, s->readonly ? QP_LOG_DEBUG : QP_LOG_WARN, "catalogue",
          "%s; lists and searches are answered without %s, from memory", why->msg,
          QP__CATALOGUE_NAME);
  cat->no_file = true;
  qp__cat_close(cat);
  return true;
}

static enum qp_rc
refresh(struct qp__catalogue *cat, bool text, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  enum qp_rc rc;

  qp__cat_try_file(
      cat); /* once: otherwise a file with space for only this would be tried forever */
  rc = try_refresh(cat, text, &why);
  while (rc && step_back(cat, rc, &why))
    rc = try_refresh(cat, text, &why);
  if (rc && err)
    *err = why;
  return rc;
}

bool
qp__cat_try_again(struct qp__catalogue *cat, enum qp_rc rc)
{
  struct qp_err why = { rc, "the catalogue cannot be read" };
  bool again;

  if (!rc || rc == QP_NOMEM || rc == QP_INVALID)
    return false;
  qp__mutex_lock(&cat->db_lock);
  cat->into = &cat->over; /* the file cannot even be read, so an overlay over it is useless */
  again = step_back(cat, rc, &why);
  qp__mutex_unlock(&cat->db_lock);
  return again;
}

/* ---- reading ---- */

/* From now on the catalogue is in use and follows commits. Returns an unused reader if there is
 * nothing to wait for, or NULL. */
static struct qp__cat_reader *
read_at_once(struct qp__catalogue *cat, bool text)
{
  struct qp__cat_reader *reader = NULL;

  qp__mutex_lock(&cat->lock);
  cat->following = true;
  if (!cat->marks.count && !cat->all && cat->ready >= (text ? QP__CAT_TEXT : QP__CAT_ROWS))
    reader = qp__cat_reader_take(cat);
  qp__mutex_unlock(&cat->lock);
  return reader;
}

enum qp_rc
qp__cat_begin_reading(struct qp__catalogue *cat, bool text, bool again, struct qp__cat_reader **out,
                      struct qp_err *err)
{
  struct qp__cat_reader *reader = read_at_once(cat, text);
  enum qp_rc rc = QP_OK;

  *out = reader;
  if (reader)
    return QP_OK;
  qp__mutex_lock(&cat->db_lock);
  if (!again || !cat->opened ||
      !cat->store->readonly) /* a following page must be consistent with the first */
    rc = refresh(cat, text, err);
  if (!rc) {
    qp__mutex_lock(&cat->lock);
    if (cat->into == &cat->main && !cat->over.handle)
      reader = qp__cat_reader_take(cat);
    if (cat->compare_due)
      qp__cat_start_thread(cat);
    qp__mutex_unlock(&cat->lock);
    if (!reader)
      reader = qp__cat_reader_new(cat);
  }
  if (rc || reader)
    qp__mutex_unlock(&cat->db_lock);
  *out = reader;
  return rc;
}

void
qp__cat_end_reading(struct qp__catalogue *cat, struct qp__cat_reader *reader)
{
  if (reader)
    qp__cat_reader_put(cat, reader);
  else
    qp__mutex_unlock(&cat->db_lock);
}

/* ---- the thread ---- */

static void
add_ms(struct timespec *t, long ms)
{
  t->tv_sec += ms / 1000;
  t->tv_nsec += ms % 1000 * 1000000;
  if (t->tv_nsec >= 1000000000) {
    t->tv_sec++;
    t->tv_nsec -= 1000000000;
  }
}

/* Waits, with the lock held, until the time has passed or the store is closed. */
static void
pause_for(struct qp__catalogue *cat, long ms)
{
  struct timespec until;

  QP_ASSERT_HELD(&cat->lock);
  (void)timespec_get(&until, TIME_UTC);
  add_ms(&until, ms);
  while (!cat->stopping && qp__mutex_timedwait(&cat->lock, &cat->wake, &until) != ETIMEDOUT)
    ;
}

/* Processes the marks, one transaction at a time, so that other threads get db_lock soon. After a
 * failure it is tried again later: nothing that was taken is lost. */
static enum qp_rc
follow_once(struct qp__catalogue *cat, struct qp_err *err)
{
  bool more = true;
  bool first = true;
  enum qp_rc rc = QP_OK;

  while (more && !rc) {
    qp__mutex_lock(&cat->db_lock);
    if (first && cat->alone) /* other connections may be possible by now */
      qp__cat_close(cat);
    if (first)
      qp__cat_try_file(cat);
    if (first)
      rc = begin_refresh(cat, true, err);
    if (!rc)
      rc = qp__cat_work(cat, true, &more, err);
    if (rc == QP_CORRUPT)
      (void)step_back(cat, rc, err);
    else if (!rc && !more)
      end_refresh(cat, true);
    qp__mutex_unlock(&cat->db_lock);
    first = false;
    qp__mutex_lock(&cat->lock);
    more = more && !cat->stopping;
    qp__mutex_unlock(&cat->lock);
  }
  return rc;
}

/* Compares all contexts, a few at a time, and processes the differences. */
static enum qp_rc
compare_slowly(struct qp__catalogue *cat, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;
  bool due;

  qp__mutex_lock(&cat->db_lock);
  due = cat->opened && cat->compare_due;
  cat->compare_due = false;
  if (due)
    rc = qp__cat_compare(cat, false, err);
  due = due && cat->taken_count;
  qp__mutex_unlock(&cat->db_lock);
  if (!rc && due)
    rc = follow_once(cat, err);
  return rc;
}

static void *
follow(void *arg)
{
  struct qp__catalogue *cat = arg;
  struct qp_err err = { QP_OK, "" };
  bool told = false;
  enum qp_rc rc;

  qp__mutex_lock(&cat->lock);
  while (!cat->stopping) {
    qp__mutex_unlock(&cat->lock);
    rc = compare_slowly(cat, &err);
    qp__mutex_lock(&cat->lock);
    if (!rc && !cat->marks.count && !cat->all) {
      if (!cat->stopping)
        qp__mutex_wait(&cat->lock, &cat->wake);
      continue;
    }
    if (!rc) {
      pause_for(cat, FOLLOW_MS);
      if (cat->stopping)
        break;
      qp__mutex_unlock(&cat->lock);
      rc = follow_once(cat, &err);
      qp__mutex_lock(&cat->lock);
    }
    if (rc && !told) {
      qp__log(&cat->store->log, QP_LOG_WARN, "catalogue",
              "%s; the catalogue is behind and will be brought up to date later", err.msg);
    }
    told = rc != QP_OK;
    if (rc)
      pause_for(cat, RETRY_MS);
  }
  qp__mutex_unlock(&cat->lock);
  return NULL;
}

/* ---- life ---- */

/* Completes a file that other processes will use. If its rows cannot be trusted it stays as it is:
 * the next user compares all contexts. */
static void
finish(struct qp__catalogue *cat)
{
  struct qp_err err;
  bool more = true;
  enum qp_rc rc;

  if (!cat->store->self || !cat->where || cat->store->readonly || cat->all || cat->no_file ||
      !(cat->marks.count || cat->taken_count) || !(cat->opened || cat->following))
    return;
  rc = qp__cat_open(cat, &err);
  if (!rc && (!cat->trusted || cat->into != &cat->main))
    return;
  qp__mutex_lock(&cat->lock);
  take_marks(cat);
  qp__mutex_unlock(&cat->lock);
  while (!rc && more && cat->trusted)
    rc = qp__cat_work(cat, true, &more, &err);
  if (rc)
    qp__log(&cat->store->log, QP_LOG_WARN, "catalogue", "%s", err.msg);
  else
    end_refresh(cat, true);
}

static void
close_database(struct qp__catalogue *cat)
{
  qp__mutex_lock(&cat->db_lock);
  finish(cat);
  qp__cat_close(cat);
  qp__mutex_unlock(&cat->db_lock);
  qp__cat_forget_pages(cat);
  qp__words_pool_release(&cat->words);
}

/* ---- erasing ---- */

static enum qp_rc
erase(struct qp__catalogue *cat, struct qp_err *err)
{
  struct qp_store *s = cat->store;
  struct qp_err why = { QP_OK, "" };
  struct stat st;
  enum qp_rc rc = QP_OK;

  qp__cat_forget_pages(cat);
  if (!cat->where)
    return QP_OK;
  qp__mutex_lock(&cat->db_lock);
  if (cat->opened || s->os->fstatat(s->os->self, s->root, QP__CATALOGUE_NAME, &st) != -ENOENT) {
    rc = refresh(cat, false, &why);
    if (!rc && cat->into == &cat->main)
      rc = qp__cat_scrub(cat, &why);
    else if (!rc)
      rc = qp__fail(&why, QP_IO, "it cannot be written");
    if (rc) { /* it is derived: better no catalogue than one with erased text */
      qp__log(&s->log, QP_LOG_WARN, "catalogue",
              "%s is deleted and rebuilt, because erased text must not stay in it: %s",
              QP__CATALOGUE_NAME, why.msg);
      rc = qp__cat_remove(cat, err);
    }
  }
  qp__mutex_unlock(&cat->db_lock);
  return rc;
}

const struct qp__cat_database qp__cat_database = { follow, close_database, erase };

/* ---- rebuilding ---- */

static enum qp_rc
begin_anew(struct qp__catalogue *cat, struct qp_err *err)
{
  enum qp_rc rc = qp__cat_remove(cat, err);

  return rc ? rc : begin_refresh(cat, true, err);
}

enum qp_rc
qp_store_reindex(struct qp_store *store, qp_reindex_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__catalogue *cat = store->catalogue;
  uint64_t done = 0, total = 0;
  bool more = true;
  bool first = true;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc && store->driver->catalogue)
    return store->driver->catalogue->reindex(store->self, visit, arg, err);
  while (!rc && more) {
    qp__mutex_lock(&cat->db_lock);
    if (first)
      rc = begin_anew(cat, err);
    if (!rc)
      rc = qp__cat_work(cat, true, &more, err);
    if (!rc && !more)
      end_refresh(cat, true);
    total = cat->listed;
    done = cat->finished < total && more ? cat->finished : total;
    qp__mutex_unlock(&cat->db_lock);
    first = false;
    if (!rc && visit)
      rc = visit(arg, done, total);
  }
  qp__mutex_lock(&cat->lock);
  cat->following |= !rc;
  qp__mutex_unlock(&cat->lock);
  return rc;
}

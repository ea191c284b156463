/* catalogue.c - the catalogue's life: marks, the thread that follows them, refreshing, making it
 * anew. See catalogue_int.h for the rules. */
#include "store/catalogue.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/catalogue_int.h"

#define MARKS_MAX 4096 /* more contexts than that are compared by their stamps instead */
#define MARKS_FIRST 64 /* places in the table at first; a power of two */
#define FOLLOW_MS 200  /* from the first mark to the moment when the thread does its work */
#define RETRY_MS 10000 /* … and after a failure */

/* ---- marks: with `lock` ---- */

/* Where the id is in the table, or would be. */
static size_t
mark_place(const struct qp_uuid *table, size_t cap, const struct qp_uuid *id)
{
  uint32_t h;
  size_t at;

  memcpy(&h, id->b + 12, sizeof(h)); /* the random end of a UUID */
  for (at = h & (cap - 1); !qp_uuid_is_none(&table[at]) && !qp_uuid_equal(&table[at], id);)
    at = (at + 1) & (cap - 1);
  return at;
}

static bool
grow_marks(struct qp__catalogue *cat)
{
  size_t cap = cat->mark_cap ? cat->mark_cap * 2 : MARKS_FIRST;
  struct qp_uuid *table = qp__alloc0(cap, sizeof(*table));

  if (!table)
    return false;
  for (size_t i = 0; i < cat->mark_cap; i++)
    if (!qp_uuid_is_none(&cat->marks[i]))
      table[mark_place(table, cap, &cat->marks[i])] = cat->marks[i];
  qp__free(cat->marks);
  cat->marks = table;
  cat->mark_cap = cap;
  return true;
}

static void
forget_marks(struct qp__catalogue *cat)
{
  qp__free(cat->marks);
  cat->marks = NULL;
  cat->mark_count = 0;
  cat->mark_cap = 0;
}

static void
add_mark(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  size_t at;

  if (cat->all)
    return;
  if (cat->mark_count >= MARKS_MAX || (cat->mark_count * 2 >= cat->mark_cap && !grow_marks(cat))) {
    cat->all = true;
    forget_marks(cat);
    return;
  }
  at = mark_place(cat->marks, cat->mark_cap, id);
  cat->mark_count += qp_uuid_is_none(&cat->marks[at]);
  cat->marks[at] = *id;
}

/* Moves the marks to those that are worked off. With db_lock too. */
static void
take_marks(struct qp__catalogue *cat)
{
  size_t need = cat->taken_count + cat->mark_count;

  if (need > cat->taken_cap && !cat->all) {
    struct qp_uuid *grown = qp__realloc(cat->taken, need * sizeof(*grown));

    if (grown) {
      cat->taken = grown;
      cat->taken_cap = need;
    } else {
      cat->all = true;
    }
  }
  for (size_t i = 0; i < cat->mark_cap && !cat->all; i++)
    if (!qp_uuid_is_none(&cat->marks[i]))
      cat->taken[cat->taken_count++] = cat->marks[i];
  cat->needs_pass |= cat->all;
  cat->all = false;
  forget_marks(cat);
}

/* ---- refreshing ---- */

/* Contexts that could not be opened may be all right by now: nothing marks them then. */
static enum qp_rc
retry_broken(struct qp__catalogue *cat, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = true;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_ROW_BROKEN, &st, err);

  (void)pthread_mutex_lock(&cat->lock);
  cat->broken = false;
  while (row && !rc) {
    rc = qp__cat_step(&cat->main, st, &row, err);
    if (!rc && row) {
      struct qp_uuid id = qp__cat_column_id(st, 0);

      cat->broken = true;
      add_mark(cat, &id);
    }
  }
  (void)pthread_mutex_unlock(&cat->lock);
  return rc;
}

/* Opens the database and takes what has to be worked off. */
static enum qp_rc
begin_refresh(struct qp__catalogue *cat, struct qp_err *err)
{
  enum qp_rc rc = qp__cat_open(cat, err);

  if (!rc && !cat->only_read)
    rc = retry_broken(cat, err);
  if (rc)
    return rc;
  (void)pthread_mutex_lock(&cat->lock);
  take_marks(cat);
  if (cat->taken_count || cat->needs_pass || cat->passing)
    cat->ready = QP__CAT_STALE;
  (void)pthread_mutex_unlock(&cat->lock);
  if (cat->needs_pass || cat->store->readonly) /* nobody marks what another process does */
    rc = qp__cat_start_pass(cat, err);
  return rc;
}

/* Everything that was marked is worked off. What has come since is marked. */
static void
end_refresh(struct qp__catalogue *cat, bool text)
{
  enum qp__cat_ready ready = text ? QP__CAT_TEXT : QP__CAT_ROWS;

  (void)pthread_mutex_lock(&cat->lock);
  if (!cat->broken && !cat->store->readonly && cat->ready < ready)
    cat->ready = ready;
  (void)pthread_mutex_unlock(&cat->lock);
}

static enum qp_rc
try_refresh(struct qp__catalogue *cat, bool text, struct qp_err *err)
{
  bool more = true;
  enum qp_rc rc = begin_refresh(cat, err);

  while (!rc && more)
    rc = qp__cat_work(cat, text, &more, err);
  if (!rc)
    end_refresh(cat, text);
  return rc;
}

/* Whether a failure says that the database is damaged; then it is gone afterwards. */
static bool
give_up_damaged(struct qp__catalogue *cat, enum qp_rc rc)
{
  if (rc != QP_CORRUPT || cat->private)
    return false;
  qp__log(&cat->store->log, QP_LOG_WARN, "catalogue", "%s is damaged and made anew",
          QP__CATALOGUE_NAME);
  return qp__cat_remove(cat, NULL) == QP_OK;
}

static enum qp_rc
refresh(struct qp__catalogue *cat, bool text, struct qp_err *err)
{
  enum qp_rc rc = try_refresh(cat, text, err);

  if (give_up_damaged(cat, rc)) {
    if (cat->store->readonly) { /* the file is not ours to remove: do without it */
      qp__free(cat->where);
      cat->where = NULL;
    }
    rc = try_refresh(cat, text, err);
  }
  if (rc)
    cat->needs_pass = true;
  return rc;
}

bool
qp__cat_is_damaged(struct qp__catalogue *cat, enum qp_rc rc)
{
  bool gone;

  if (rc != QP_CORRUPT)
    return false;
  (void)pthread_mutex_lock(&cat->db_lock);
  gone = give_up_damaged(cat, rc);
  (void)pthread_mutex_unlock(&cat->db_lock);
  return gone;
}

/* ---- reading ---- */

/* Follows commits from now on: the catalogue is in use. A reader, when there is nothing to wait
 * for and one that nobody uses; or NULL. */
static struct qp__cat_reader *
read_at_once(struct qp__catalogue *cat, bool text)
{
  struct qp__cat_reader *reader = NULL;

  (void)pthread_mutex_lock(&cat->lock);
  cat->following = true;
  if (!cat->mark_count && !cat->all && cat->ready >= (text ? QP__CAT_TEXT : QP__CAT_ROWS))
    reader = qp__cat_reader_take(cat);
  (void)pthread_mutex_unlock(&cat->lock);
  return reader;
}

enum qp_rc
qp__cat_begin_reading(struct qp__catalogue *cat, bool text, struct qp__cat_reader **out,
                      struct qp_err *err)
{
  struct qp__cat_reader *reader = read_at_once(cat, text);
  enum qp_rc rc;

  *out = reader;
  if (reader)
    return QP_OK;
  (void)pthread_mutex_lock(&cat->db_lock);
  rc = refresh(cat, text, err);
  if (!rc) {
    (void)pthread_mutex_lock(&cat->lock);
    reader = qp__cat_reader_take(cat);
    (void)pthread_mutex_unlock(&cat->lock);
    if (!reader)
      reader = qp__cat_reader_new(cat);
  }
  if (rc || reader)
    (void)pthread_mutex_unlock(&cat->db_lock);
  *out = reader;
  return rc;
}

void
qp__cat_end_reading(struct qp__catalogue *cat, struct qp__cat_reader *reader)
{
  if (reader)
    qp__cat_reader_put(cat, reader);
  else
    (void)pthread_mutex_unlock(&cat->db_lock);
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

/* Waits, with the lock held, until the time is over or the store is closed. */
static void
pause_for(struct qp__catalogue *cat, long ms)
{
  struct timespec until;

  (void)timespec_get(&until, TIME_UTC);
  add_ms(&until, ms);
  while (!cat->stopping && pthread_cond_timedwait(&cat->wake, &cat->lock, &until) != ETIMEDOUT)
    ;
}

/* Works off what is marked, one transaction at a time, so that nobody waits long for db_lock. */
static enum qp_rc
follow_once(struct qp__catalogue *cat, struct qp_err *err)
{
  bool more = true;
  bool first = true;
  enum qp_rc rc = QP_OK;

  while (more && !rc) {
    (void)pthread_mutex_lock(&cat->db_lock);
    if (first)
      rc = begin_refresh(cat, err);
    if (!rc)
      rc = qp__cat_work(cat, true, &more, err);
    if (rc) {
      cat->needs_pass = true;
      (void)give_up_damaged(cat, rc);
    } else if (!more) {
      end_refresh(cat, true);
    }
    (void)pthread_mutex_unlock(&cat->db_lock);
    first = false;
    (void)pthread_mutex_lock(&cat->lock);
    more = more && !cat->stopping;
    (void)pthread_mutex_unlock(&cat->lock);
  }
  return rc;
}

static void *
follow(void *arg)
{
  struct qp__catalogue *cat = arg;
  struct qp_err err;
  enum qp_rc rc;

  (void)pthread_mutex_lock(&cat->lock);
  while (!cat->stopping) {
    if (!cat->mark_count && !cat->all) {
      (void)pthread_cond_wait(&cat->wake, &cat->lock);
      continue;
    }
    pause_for(cat, FOLLOW_MS);
    if (cat->stopping)
      break;
    (void)pthread_mutex_unlock(&cat->lock);
    rc = follow_once(cat, &err);
    if (rc)
      qp__log(&cat->store->log, QP_LOG_WARN, "catalogue", "%s", err.msg);
    (void)pthread_mutex_lock(&cat->lock);
    if (rc)
      pause_for(cat, RETRY_MS);
  }
  (void)pthread_mutex_unlock(&cat->lock);
  return NULL;
}

/* Whether there is a catalogue.db that someone uses. */
static bool
file_exists(struct qp__catalogue *cat)
{
  struct qp_store *s = cat->store;
  struct stat st;

  return cat->where &&
         !s->os->fstatat(s->os->self, s->driver->directory(s->self), QP__CATALOGUE_NAME, &st);
}

/* A mark for one context, or for all of them. */
static void
mark(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  struct qp_store *s = cat->store;
  bool first;

  if (s->readonly)
    return;
  (void)pthread_mutex_lock(&cat->lock);
  first = !cat->mark_count && !cat->all;
  cat->version++;
  if (id)
    add_mark(cat, id);
  else
    cat->all = true;
  if (!cat->looked) {
    cat->looked = true;
    cat->following |= file_exists(cat);
  }
  if (cat->following && s->background && !cat->started && !cat->stopping)
    cat->started = pthread_create(&cat->thread, NULL, follow, cat) == 0;
  if (first && cat->started)
    (void)pthread_cond_signal(&cat->wake);
  (void)pthread_mutex_unlock(&cat->lock);
}

void
qp__catalogue_mark(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  mark(cat, id);
}

void
qp__catalogue_mark_all(struct qp__catalogue *cat)
{
  mark(cat, NULL);
}

/* ---- life ---- */

struct qp__catalogue *
qp__catalogue_new(struct qp_store *s, const char *where)
{
  struct qp__catalogue *cat = qp__alloc0(1, sizeof(*cat));

  if (!cat)
    return NULL;
  cat->store = s;
  cat->version = 1;
  if (s->io.inner == &qp__os_posix && s->driver->directory) {
    cat->where = qp__strdup(where);
    if (!cat->where) {
      qp__free(cat);
      return NULL;
    }
  }
  (void)pthread_mutex_init(&cat->lock, NULL);
  (void)pthread_mutex_init(&cat->db_lock, NULL);
  (void)pthread_cond_init(&cat->wake, NULL);
  return cat;
}

/* What is left to do for a database that others will use. When marks were lost it is left behind:
 * who needs it compares the stamps. */
static void
finish(struct qp__catalogue *cat)
{
  struct qp_err err;

  if (!cat->store->self || !cat->where || cat->store->readonly || cat->all || cat->private ||
      !(cat->mark_count || cat->taken_count) || !(cat->main.handle || cat->following))
    return;
  if (!cat->main.handle) { /* whatever else may be missing in it is not ours to add */
    if (qp__cat_open(cat, &err))
      return;
    cat->needs_pass = false;
  }
  if (!cat->private && refresh(cat, true, &err))
    qp__log(&cat->store->log, QP_LOG_WARN, "catalogue", "%s", err.msg);
}

void
qp__catalogue_free(struct qp__catalogue *cat)
{
  if (!cat)
    return;
  (void)pthread_mutex_lock(&cat->lock);
  cat->stopping = true;
  (void)pthread_cond_broadcast(&cat->wake);
  (void)pthread_mutex_unlock(&cat->lock);
  if (cat->started)
    (void)pthread_join(cat->thread, NULL);
  finish(cat);
  qp__cat_close(cat);
  qp__cat_forget_pages(cat);
  qp__free(cat->marks);
  qp__free(cat->taken);
  qp__free(cat->where);
  (void)pthread_cond_destroy(&cat->wake);
  (void)pthread_mutex_destroy(&cat->db_lock);
  (void)pthread_mutex_destroy(&cat->lock);
  qp__free(cat);
}

/* ---- making it anew ---- */

static enum qp_rc
begin_anew(struct qp__catalogue *cat, struct qp_err *err)
{
  enum qp_rc rc = qp__cat_remove(cat, err);

  return rc ? rc : begin_refresh(cat, err);
}

enum qp_rc
qp_store_reindex(struct qp_store *store, qp_reindex_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__catalogue *cat = store->catalogue;
  uint64_t done = 0, total = 0;
  bool more = true;
  bool first = true;
  enum qp_rc rc = qp__check_writable(store, err);

  while (!rc && more) {
    (void)pthread_mutex_lock(&cat->db_lock);
    if (first)
      rc = begin_anew(cat, err);
    if (!rc)
      rc = qp__cat_work(cat, true, &more, err);
    if (rc)
      cat->needs_pass = true;
    total = cat->listed;
    done = cat->finished < total && more ? cat->finished : total;
    (void)pthread_mutex_unlock(&cat->db_lock);
    first = false;
    if (!rc && visit)
      rc = visit(arg, done, total);
  }
  (void)pthread_mutex_lock(&cat->lock);
  cat->following |= !rc;
  (void)pthread_mutex_unlock(&cat->lock);
  return rc;
}

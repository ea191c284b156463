/* catalogue_marks.c - what every store does for its catalogue, with or without the database: it
 * marks the contexts that change, names them in catalogue.behind, and erases. Nothing here uses
 * SQLite, so a program that only stores links without it. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/catalogue/catalogue_int.h"

#define MARKS_MAX 65536 /* with more marks than this, the stamps of all contexts are compared */

/* NULL in a program that does not link the database. */
#pragma weak qp__cat_database

static bool
has_database(void)
{
  return &qp__cat_database != NULL;
}

/* Whether changes must be noted here: a driver that keeps the catalogue knows them. */
static bool
follows(const struct qp__catalogue *cat)
{
  return !cat->store->readonly && !cat->store->driver->catalogue;
}

/* ---- marks: with `lock` ---- */

void
qp__cat_lose_marks(struct qp__catalogue *cat)
{
  QP_ASSERT_HELD(&cat->lock);
  cat->all = true;
  qp__idset_release(&cat->marks);
  qp__cat_forget_behind(cat);
}

void
qp__cat_add_mark(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  QP_ASSERT_HELD(&cat->lock);
  QP_ASSERT(!qp_uuid_is_none(id));
  if (!cat->all && (cat->marks.count >= MARKS_MAX || !qp__idset_add(&cat->marks, id)))
    qp__cat_lose_marks(cat);
}

void
qp__cat_start_thread(struct qp__catalogue *cat)
{
  QP_ASSERT_HELD(&cat->lock);
  if (has_database() && cat->following && cat->store->background && !cat->started && !cat->stopping)
    cat->started = pthread_create(&cat->thread, NULL, qp__cat_database.follow, cat) == 0;
}

/* Marks one context, or all contexts if NULL. */
static void
mark(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  bool first = !cat->marks.count && !cat->all;

  QP_ASSERT_HELD(&cat->lock);
  cat->version++;
  if (id) {
    qp__cat_note(cat, id);
    qp__cat_add_mark(cat, id);
  } else {
    qp__cat_lose_marks(cat);
  }
  qp__cat_start_thread(cat);
  if (first && cat->started)
    (void)pthread_cond_signal(&cat->wake);
  if (QP_CHECKED && qp__check_due(&cat->unchecked, cat->marks.cap + cat->noted.cap))
    qp__catalogue_invariants(cat);
}

void
qp__catalogue_invariants(const struct qp__catalogue *cat)
{
  QP_ASSERT_HELD(&cat->lock);
  qp__idset_invariants(&cat->marks);
  qp__idset_invariants(&cat->noted);
  QP_ASSERT(cat->marks.count <= MARKS_MAX);
  QP_ASSERT(!cat->all || !cat->marks.count); /* lost marks: all contexts count as marked */
  QP_ASSERT(!cat->started || cat->store->background);
  QP_ASSERT(!cat->reader_count == !cat->readers);
}

void
qp__catalogue_mark(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  if (!follows(cat))
    return;
  qp__mutex_lock(&cat->lock);
  mark(cat, id);
  qp__mutex_unlock(&cat->lock);
}

void
qp__catalogue_expect(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  if (!follows(cat))
    return;
  qp__mutex_lock(&cat->lock);
  qp__cat_note(cat, id);
  cat->changing++;
  qp__mutex_unlock(&cat->lock);
}

void
qp__catalogue_end(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  if (!follows(cat))
    return;
  qp__mutex_lock(&cat->lock);
  QP_ASSERT(cat->changing);
  cat->changing--;
  mark(cat, id);
  qp__mutex_unlock(&cat->lock);
}

void
qp__catalogue_mark_all(struct qp__catalogue *cat)
{
  qp__catalogue_mark(cat, NULL);
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
  cat->small = QP__CAT_SMALL;
  cat->behind = -1;
  if (s->os->real && s->driver->directory) {
    cat->where = qp__strdup(where);
    if (!cat->where) {
      qp__free(cat);
      return NULL;
    }
  }
  qp__mutex_init(&cat->lock, QP__RANK_CATALOGUE);
  qp__mutex_init(&cat->db_lock, QP__RANK_CATALOGUE_DB);
  (void)pthread_cond_init(&cat->wake, NULL);
  if (has_database())
    qp__words_pool_init(&cat->words);
  return cat;
}

void
qp__catalogue_free(struct qp__catalogue *cat)
{
  if (!cat)
    return;
  qp__mutex_lock(&cat->lock);
  cat->stopping = true;
  (void)pthread_cond_broadcast(&cat->wake);
  qp__mutex_unlock(&cat->lock);
  if (cat->started)
    (void)pthread_join(cat->thread, NULL);
  QP_ASSERT(!cat->changing);
  if (has_database())
    qp__cat_database.close(cat);
  if (cat->store->self)
    qp__close(cat->store->os, cat->behind);
  qp__idset_release(&cat->marks);
  qp__idset_release(&cat->noted);
  qp__free(cat->taken);
  qp__free(cat->where);
  (void)pthread_cond_destroy(&cat->wake);
  qp__mutex_release(&cat->db_lock);
  qp__mutex_release(&cat->lock);
  qp__free(cat);
}

/* ---- erasing ---- */

enum qp_rc
qp__cat_unlink(struct qp__catalogue *cat, struct qp_err *err)
{
  static const char *const names[] = {
    QP__CATALOGUE_NAME,
    QP__CATALOGUE_NAME "-wal",
    QP__CATALOGUE_NAME "-shm",
  };
  struct qp_store *s = cat->store;

  if (!cat->where || s->readonly)
    return QP_OK;
  qp__mutex_lock(&cat->lock);
  qp__cat_forget_behind(cat);
  qp__mutex_unlock(&cat->lock);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    int sys = s->os->unlinkat(s->os->self, s->root, names[i], 0);

    if (sys && sys != -ENOENT)
      return qp__fail_sys(err, sys, "cannot remove '%s'", names[i]);
  }
  return QP_OK;
}

/* Without the database the text cannot be removed from the file, so the file is deleted. It is
 * derived: the next list or search rebuilds it. */
enum qp_rc
qp__catalogue_erase(struct qp__catalogue *cat, struct qp_err *err)
{
  return has_database() ? qp__cat_database.erase(cat, err) : qp__cat_unlink(cat, err);
}

/* catalogue_trust.c - decides whether the rows of catalogue.db can be trusted, using
 * catalogue.behind (catalogue_behind.c has the rules). */
#include <string.h>

#include "store/catalogue/catalogue_int.h"

#define NAMES_MAX 256 /* with more names the file is rewritten */

struct db_state {
  uint64_t epoch, before;
  bool complete;
  bool has_dirs;
  struct qp__cat_dirs dirs;
  size_t dropped;
};

static enum qp_rc
read_state(struct qp__catalogue *cat, struct db_state *out, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = false;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_STATE_FIND, &st, err);

  memset(out, 0, sizeof(*out));
  if (!rc)
    rc = qp__cat_step(&cat->main, st, &row, err);
  if (rc || !row)
    return rc;
  out->epoch = (uint64_t)sqlite3_column_int64(st, 0);
  out->before = (uint64_t)sqlite3_column_int64(st, 1);
  out->complete = sqlite3_column_int(st, 2) != 0;
  out->has_dirs = sqlite3_column_bytes(st, 3) == (int)sizeof(out->dirs);
  if (out->has_dirs)
    memcpy(&out->dirs, sqlite3_column_blob(st, 3), sizeof(out->dirs));
  out->dropped = (size_t)sqlite3_column_int64(st, 4);
  (void)sqlite3_reset(st);
  return QP_OK;
}

static enum qp_rc
set_epoch(struct qp__catalogue *cat, uint64_t epoch, struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_STATE_EPOCH, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, (int64_t)epoch);
  return qp__cat_run(&cat->main, st, err);
}

static bool
new_epoch(struct qp__catalogue *cat, uint64_t *out)
{
  return !cat->store->os->random(cat->store->os->self, out, sizeof(*out));
}

/* Whether there are so few rows that all are compared in the first list. */
static enum qp_rc
is_small(struct qp__catalogue *cat, bool *out, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = false;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_ROW_NUMBER, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, cat->small);
  rc = qp__cat_step(&cat->main, st, &row, err);
  *out = !row;
  (void)sqlite3_reset(st);
  return rc;
}

/* Takes the contexts of the set whose rows are wrong. *any: one of them was not noted by this
 * process. */
static enum qp_rc
take_behind(struct qp__catalogue *cat, const struct qp__idset *behind, bool *any,
            struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  *any = false;
  for (size_t i = 0; i < behind->count && !rc; i++) {
    const struct qp_uuid *id = &behind->ids[i];
    bool differs = false;

    rc = qp__cat_differs(cat, id, &differs, err);
    if (!rc && differs)
      rc = qp__cat_take(cat, id, err);
    qp__mutex_lock(&cat->lock);
    *any |= differs && !qp__idset_has(&cat->noted, id);
    qp__mutex_unlock(&cat->lock);
  }
  return rc;
}

/* Takes the contexts in old formats whose rows are wrong. */
static enum qp_rc
take_old(struct qp__catalogue *cat, struct qp_err *err)
{
  size_t from = cat->taken_count;
  size_t keep = from;
  enum qp_rc rc = qp__cat_take_found(cat, &cat->main, QP__CAT_ROW_OLD, err);

  for (size_t i = from; i < cat->taken_count && !rc; i++) {
    bool differs = false;

    rc = qp__cat_differs(cat, &cat->taken[i], &differs, err);
    if (differs)
      cat->taken[keep++] = cat->taken[i];
  }
  cat->taken_count = keep;
  return rc;
}

/* Begins a session of this writer: with a new number; the names stay. */
static void
begin_session(struct qp__catalogue *cat, const struct qp__idset *behind)
{
  uint64_t epoch;

  if (!new_epoch(cat, &epoch) || set_epoch(cat, epoch, NULL)) {
    cat->compare_due = true; /* the old number is still valid */
    return;
  }
  qp__mutex_lock(&cat->lock);
  (void)qp__cat_replace_behind(cat, epoch, behind, &cat->noted);
  qp__mutex_unlock(&cat->lock);
}

enum qp_rc
qp__cat_trust(struct qp__catalogue *cat, struct qp_err *err)
{
  struct qp__idset behind = { 0 };
  struct qp__cat_dirs now;
  struct db_state state;
  uint64_t epoch = 0;
  bool small = true, explained = false;
  bool readable = qp__cat_read_behind(
      cat, &epoch, &behind); /* first: names are removed only after the rows are written */
  enum qp_rc rc = read_state(cat, &state, err);

  if (!rc)
    rc = is_small(cat, &small, err);
  cat->trusted =
      !rc && readable && state.complete && epoch && (epoch == state.epoch || epoch == state.before);
  cat->needs_pass = !cat->trusted;
  cat->dirs = state.dirs;
  if (!cat->store->readonly) {
    cat->dropped = cat->dropped_kept = state.dropped;
    cat->merging = false;
  }
  if (!rc && cat->trusted) {
    qp__mutex_lock(&cat->lock);
    now = cat->looked ? cat->first : qp__cat_look_at_dirs(cat);
    qp__mutex_unlock(&cat->lock);
    rc = take_behind(cat, &behind, &explained, err);
    if (!rc)
      rc = take_old(cat, err);
    if (!rc && cat->store->readonly)
      rc = qp__cat_take_found(cat, &cat->main, QP__CAT_ROW_BROKEN, err);
    cat->needs_pass =
        small || (!explained && state.has_dirs && memcmp(&now, &state.dirs, sizeof(now)) != 0);
    cat->compare_due = !cat->needs_pass && !cat->store->readonly && cat->store->background;
    if (!rc && !cat->store->readonly)
      begin_session(cat, &behind);
  }
  qp__idset_release(&behind);
  return rc;
}

/* Whether everything that SQLite has written is durable. */
static bool
make_durable(struct qp__catalogue *cat)
{
  int frames = 0, done = 0;

  return !sqlite3_wal_checkpoint_v2(cat->main.handle, "main", SQLITE_CHECKPOINT_PASSIVE, &frames,
                                    &done) &&
         frames == done;
}

void
qp__cat_write_behind(struct qp__catalogue *cat)
{
  uint64_t epoch;
  size_t names;
  bool ok;

  if (cat->into != &cat->main || cat->over.handle || cat->needs_pass || cat->taken_count)
    return;
  qp__mutex_lock(&cat->lock);
  names = cat->changing ? 0 : cat->noted.count; /* a context that is changing must stay noted */
  ok = cat->behind >= 0;
  qp__mutex_unlock(&cat->lock);
  if (cat->trusted && ok && names <= NAMES_MAX)
    return;
  if (!make_durable(cat) || !new_epoch(cat, &epoch) || set_epoch(cat, epoch, NULL))
    return;
  qp__mutex_lock(&cat->lock);
  cat->trusted =
      !cat->all && !cat->changing && qp__cat_replace_behind(cat, epoch, &cat->marks, NULL);
  qp__mutex_unlock(&cat->lock);
}

/* catalogue_behind.c - how a process knows, without looking at every context, that the rows of
 * catalogue.db are right.
 *
 * The file catalogue.behind names the contexts whose rows may be wrong:
 *   quipu-behind 1 00f1ae04bb0d77ce
 *   0198c3f2-6a4e-7c11-9d0e-0242ac120002
 *   …
 * A context is named before its change counts as carried out, by a plain write. So
 *   - after the end of a process, however it ended, the file names every context that may be behind
 *     but for commits that are still in the journal; the driver adds those
 *     (store/files/journal/replay_touched.c);
 *   - after a power cut what the file has lost is in the journal: who empties the journal first
 *     makes the whole file system durable.
 * Names are removed only when SQLite has made durable the rows that they stand for.
 *
 * The number in the first line is that of the writer's session, and so is state.epoch in the
 * database: the two belong together. A session that begins changes the database first, which keeps
 * the number before. When the numbers differ (one of the files is an old copy, or is lost) the rows
 * are not trusted, and all contexts are compared.
 *
 * Programs that know nothing of this file may still add and remove contexts: then the directories
 * have other times than state.dirs says, and all contexts are compared too. What such programs
 * change in place is seen at once for contexts in old formats, which are all looked at, and
 * otherwise by the comparison in the background, or by `quipu reindex`. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/catalogue/catalogue_int.h"

#define HEADER "quipu-behind 1 "
#define HEADER_LEN (sizeof(HEADER) - 1 + 16 + 1)
#define LINE_LEN (QP_UUID_TEXT) /* with '\n' in the place of the NUL */
#define NAMES_MAX 256           /* more are too many to look at with each first list */
#define FILE_MAX ((size_t)64 << 20)

static int
root_of(const struct qp__catalogue *cat)
{
  return cat->store->driver->directory(cat->store->self);
}

/* ---- directories ---- */

struct qp__cat_dirs
qp__cat_look_at_dirs(const struct qp__catalogue *cat)
{
  static const char *const names[2] = { "contexts", "conversations" };
  struct qp_store *s = cat->store;
  struct qp__cat_dirs dirs = { { 0 } };
  struct stat st;

  for (size_t i = 0; i < 2 && s->driver->directory; i++)
    if (!s->os->fstatat(s->os->self, root_of(cat), names[i], &st))
      dirs.ns[i] = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
  return dirs;
}

/* ---- the file ---- */

static size_t
write_line(char *out, const struct qp_uuid *id)
{
  (void)qp_uuid_text(id, out);
  out[LINE_LEN - 1] = '\n';
  return LINE_LEN;
}

void
qp__cat_forget_behind(struct qp__catalogue *cat)
{
  struct qp_store *s = cat->store;

  if (!cat->where || s->readonly || !s->self)
    return;
  qp__close(s->os, cat->behind);
  cat->behind = -1;
  qp__cat_set_release(&cat->noted);
  (void)s->os->unlinkat(s->os->self, root_of(cat), QP__BEHIND_NAME, 0);
}

/* Opens the file that an earlier session left, to append to it. */
static void
open_file(struct qp__catalogue *cat)
{
  struct qp_store *s = cat->store;
  struct stat st;

  cat->behind = qp__open(s->os, root_of(cat), QP__BEHIND_NAME, O_RDWR | O_NOFOLLOW, 0);
  if (cat->behind < 0)
    cat->behind = -1;
  else if (s->os->fstat(s->os->self, cat->behind, &st))
    qp__cat_forget_behind(cat);
  else
    cat->behind_end = st.st_size;
}

void
qp__cat_note(struct qp__catalogue *cat, const struct qp_uuid *id)
{
  struct qp_store *s = cat->store;
  char line[LINE_LEN];

  if (!cat->where || s->readonly || !s->self)
    return;
  if (!cat->looked) {
    struct stat st;

    cat->looked = true;
    cat->first = qp__cat_look_at_dirs(cat);
    cat->following |= !s->os->fstatat(s->os->self, root_of(cat), QP__CATALOGUE_NAME, &st);
    open_file(cat);
  }
  if (cat->behind < 0 || qp__cat_set_has(&cat->noted, id))
    return;
  (void)write_line(line, id);
  if (!qp__cat_set_add(&cat->noted, id) ||
      qp__write_at(s->os, cat->behind, line, sizeof(line), cat->behind_end))
    qp__cat_forget_behind(cat);
  else
    cat->behind_end += sizeof(line);
}

/* A new file that names the contexts of these sets, in the place of the old one. With `lock`. */
static bool
write_file(struct qp__catalogue *cat, uint64_t epoch, const struct qp__cat_set *a,
           const struct qp__cat_set *b)
{
  const struct qp__cat_set *sets[2] = { a, b };
  struct qp_store *s = cat->store;
  struct qp__cat_set noted = { 0 };
  struct qp__buf text;
  char temp[64];
  bool ok = true;

  qp__buf_init(&text, FILE_MAX);
  (void)qp__buf_addf(&text, HEADER "%016" PRIx64 "\n", epoch);
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; sets[k] && i < sets[k]->cap && ok; i++) {
      char line[LINE_LEN];

      if (qp_uuid_is_none(&sets[k]->table[i]) || qp__cat_set_has(&noted, &sets[k]->table[i]))
        continue;
      ok = qp__cat_set_add(&noted, &sets[k]->table[i]) &&
           !qp__buf_add(&text, line, write_line(line, &sets[k]->table[i]));
    }
  s->driver->temp_name(s->self, temp);
  ok = ok && !text.rc && !qp__file_create(s->os, root_of(cat), temp, qp__buf_bytes(&text));
  if (ok && s->os->renameat(s->os->self, root_of(cat), temp, root_of(cat), QP__BEHIND_NAME, 0)) {
    (void)s->os->unlinkat(s->os->self, root_of(cat), temp, 0);
    ok = false;
  }
  qp__buf_release(&text);
  if (!ok) {
    qp__cat_set_release(&noted);
    qp__cat_forget_behind(cat);
    return false;
  }
  qp__close(s->os, cat->behind);
  open_file(cat);
  qp__cat_set_release(&cat->noted);
  cat->noted = noted;
  return cat->behind >= 0;
}

bool
qp__cat_parse_behind(char *text, size_t len, uint64_t *epoch, struct qp__cat_set *out)
{
  char *end = NULL;
  bool ok = len >= HEADER_LEN && memcmp(text, HEADER, sizeof(HEADER) - 1) == 0 &&
            text[HEADER_LEN - 1] == '\n';

  if (ok) {
    *epoch = strtoull(text + sizeof(HEADER) - 1, &end, 16);
    ok = end == text + HEADER_LEN - 1;
  }
  for (size_t at = HEADER_LEN; ok && at < len; at += LINE_LEN) {
    struct qp_uuid id;

    ok = at + LINE_LEN <= len && text[at + LINE_LEN - 1] == '\n';
    if (!ok)
      break;
    text[at + LINE_LEN - 1] = 0;
    ok = !qp_uuid_parse(text + at, &id, NULL) && qp__cat_set_add(out, &id);
  }
  return ok;
}

/* What the file says. False: there is none, or none that can be understood. */
static bool
read_file(struct qp__catalogue *cat, uint64_t *epoch, struct qp__cat_set *out)
{
  struct qp__buf text;
  bool ok;

  qp__buf_init(&text, FILE_MAX);
  ok = !qp__file_read(cat->store->os, root_of(cat), QP__BEHIND_NAME, &text) && text.len &&
       qp__cat_parse_behind(text.data, text.len, epoch, out);
  qp__buf_release(&text);
  return ok;
}

/* ---- the database's side ---- */

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

/* Whether there are no more rows than are compared with each first list. */
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

/* Takes the contexts of the set whose rows are wrong. *any: one that this process did not note. */
static enum qp_rc
take_behind(struct qp__catalogue *cat, const struct qp__cat_set *behind, bool *any,
            struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  *any = false;
  for (size_t i = 0; i < behind->cap && !rc; i++) {
    const struct qp_uuid *id = &behind->table[i];
    bool differs = false;

    if (qp_uuid_is_none(id))
      continue;
    rc = qp__cat_differs(cat, id, &differs, err);
    if (!rc && differs)
      rc = qp__cat_take(cat, id, err);
    (void)pthread_mutex_lock(&cat->lock);
    *any |= differs && !qp__cat_set_has(&cat->noted, id);
    (void)pthread_mutex_unlock(&cat->lock);
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

/* Begins a session of this writer: a new number, and the names go on. */
static void
begin_session(struct qp__catalogue *cat, const struct qp__cat_set *behind)
{
  uint64_t epoch;

  if (!new_epoch(cat, &epoch) || set_epoch(cat, epoch, NULL)) {
    cat->compare_due = true; /* the old number still holds */
    return;
  }
  (void)pthread_mutex_lock(&cat->lock);
  (void)write_file(cat, epoch, behind, &cat->noted);
  (void)pthread_mutex_unlock(&cat->lock);
}

enum qp_rc
qp__cat_trust(struct qp__catalogue *cat, struct qp_err *err)
{
  struct qp__cat_set behind = { 0 };
  struct qp__cat_dirs now;
  struct db_state state;
  uint64_t epoch = 0;
  bool small = true, explained = false;
  bool readable =
      read_file(cat, &epoch, &behind); /* first: names only go when the rows are there */
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
    (void)pthread_mutex_lock(&cat->lock);
    now = cat->looked ? cat->first : qp__cat_look_at_dirs(cat);
    (void)pthread_mutex_unlock(&cat->lock);
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
  qp__cat_set_release(&behind);
  return rc;
}

/* Whether all that SQLite has written is durable. */
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
  (void)pthread_mutex_lock(&cat->lock);
  names = cat->changing ? 0 : cat->noted.count; /* who changes one must find it noted */
  ok = cat->behind >= 0;
  (void)pthread_mutex_unlock(&cat->lock);
  if (cat->trusted && ok && names <= NAMES_MAX)
    return;
  if (!make_durable(cat) || !new_epoch(cat, &epoch) || set_epoch(cat, epoch, NULL))
    return;
  (void)pthread_mutex_lock(&cat->lock);
  cat->trusted = !cat->all && !cat->changing && write_file(cat, epoch, &cat->marks, NULL);
  (void)pthread_mutex_unlock(&cat->lock);
}

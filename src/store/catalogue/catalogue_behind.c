/* catalogue_behind.c - the file catalogue.behind. It tells a process, without checking every
 * context, which rows of catalogue.db are correct (catalogue_trust.c compares the two). Nothing
 * here uses SQLite.
 *
 * The file names the contexts whose rows may be wrong:
 *   quipu-behind 1 00f1ae04bb0d77ce
 *   0198c3f2-6a4e-7c11-9d0e-0242ac120002
 *   …
 * A context is added before its change counts as applied, by a plain write. So
 *   - after the end of a process, however it ended, the file names every context whose row may be
 *     wrong, except for commits that are still in the journal; the driver adds those
 *     (store/files/journal/replay_touched.c);
 *   - after a power cut, the names that the file has lost are in the journal: before the journal is
 *     emptied, the whole file system is synced.
 * Names are removed only after SQLite has made the rows durable.
 *
 * The number in the first line is that of the writer's session. It must be equal to state.epoch in
 * the database. A new session changes the database first, which also keeps the previous number. If
 * the numbers differ (one of the files is an old copy, or is lost), the rows are not trusted, and
 * all contexts are compared.
 *
 * Programs that do not know this file may still add and remove contexts: then the times of the
 * directories differ from state.dirs, and all contexts are compared too. Changes of such programs
 * inside contexts are found at once for old formats, which are always checked, and otherwise by the
 * comparison in the background, or by `quipu reindex`. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "store/catalogue/catalogue_int.h"

#define HEADER "quipu-behind 1 "
#define HEADER_LEN (sizeof(HEADER) - 1 + 16 + 1)
#define LINE_LEN (QP_UUID_TEXT) /* with '\n' in the place of the NUL */
#define FILE_MAX ((size_t)64 << 20)

/* ---- directories ---- */

struct qp__cat_dirs
qp__cat_look_at_dirs(const struct qp__catalogue *cat)
{
  static const char *const names[2] = { "contexts", "conversations" };
  struct qp_store *s = cat->store;
  struct qp__cat_dirs dirs = { { 0 } };
  struct stat st;

  for (size_t i = 0; i < 2 && s->root >= 0; i++)
    if (!s->os->fstatat(s->os->self, cat->store->root, names[i], &st))
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
  qp__idset_release(&cat->noted);
  (void)s->os->unlinkat(s->os->self, cat->store->root, QP__BEHIND_NAME, 0);
}

/* Opens the file that an earlier session left, to append to it. */
static void
open_file(struct qp__catalogue *cat)
{
  struct qp_store *s = cat->store;
  struct stat st;

  cat->behind = qp__open(s->os, cat->store->root, QP__BEHIND_NAME, O_RDWR | O_NOFOLLOW, 0);
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
    cat->following |= !s->os->fstatat(s->os->self, cat->store->root, QP__CATALOGUE_NAME, &st);
    open_file(cat);
  }
  if (cat->behind < 0 || qp__idset_has(&cat->noted, id))
    return;
  (void)write_line(line, id);
  if (!qp__idset_add(&cat->noted, id) ||
      qp__write_at(s->os, cat->behind, line, sizeof(line), cat->behind_end))
    qp__cat_forget_behind(cat);
  else
    cat->behind_end += sizeof(line);
}

bool
qp__cat_replace_behind(struct qp__catalogue *cat, uint64_t epoch, const struct qp__idset *a,
                       const struct qp__idset *b)
{
  const struct qp__idset *sets[2] = { a, b };
  struct qp_store *s = cat->store;
  struct qp__idset noted = { 0 };
  struct qp__buf text;
  char line[LINE_LEN];
  char temp[64];
  bool ok = true;

  qp__buf_init(&text, FILE_MAX);
  (void)qp__buf_addf(&text, HEADER "%016" PRIx64 "\n", epoch);
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; sets[k] && i < sets[k]->count && ok; i++)
      ok = qp__idset_add(&noted, &sets[k]->ids[i]);
  for (size_t i = 0; i < noted.count && ok; i++)
    ok = !qp__buf_add(&text, line, write_line(line, &noted.ids[i]));
  s->driver->directory->temp_name(s->self, temp);
  ok = ok && !text.rc && !qp__file_create(s->os, cat->store->root, temp, qp__buf_bytes(&text));
  if (ok &&
      s->os->renameat(s->os->self, cat->store->root, temp, cat->store->root, QP__BEHIND_NAME, 0)) {
    (void)s->os->unlinkat(s->os->self, cat->store->root, temp, 0);
    ok = false;
  }
  qp__buf_release(&text);
  if (!ok) {
    qp__idset_release(&noted);
    qp__cat_forget_behind(cat);
    return false;
  }
  qp__close(s->os, cat->behind);
  open_file(cat);
  qp__idset_release(&cat->noted);
  cat->noted = noted;
  return cat->behind >= 0;
}

bool
qp__cat_parse_behind(char *text, size_t len, uint64_t *epoch, struct qp__idset *out)
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
    ok = !qp_uuid_parse(text + at, &id, NULL) && qp__idset_add(out, &id);
  }
  return ok;
}

bool
qp__cat_read_behind(struct qp__catalogue *cat, uint64_t *epoch, struct qp__idset *out)
{
  struct qp__buf text;
  bool ok;

  qp__buf_init(&text, FILE_MAX);
  ok = !qp__file_read(cat->store->os, cat->store->root, QP__BEHIND_NAME, &text) && text.len &&
       qp__cat_parse_behind(text.data, text.len, epoch, out);
  qp__buf_release(&text);
  return ok;
}

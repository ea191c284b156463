/* old_contexts.c - reads contexts of older programs in the data directory:
 *   contexts/{id}.json           the whole context in one file
 *   contexts/{id}/context.json   and messages_pool/, one file per message
 *   conversations/{id}.json      where an older program kept the first of these
 * and their backups after a migration, for a rollback and for lost messages:
 *   contexts/{id}.json.old, contexts/{id}.old/
 * If a context also exists in the new format, the new format is used and the old one is ignored.
 *
 * An old context is opened like any other. Each message is converted once to know its size and
 * hash, and again when it is read: its text is not kept. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"
#include "model/message.h"
#include "old/legacy.h"
#include "old/migrate_int.h"
#include "store/files/files.h"

#define WINDOW 1024 /* messages that are converted at a time */
#define TEXT_MAX ((size_t)1 << 30)

/* ---- where they are ---- */

/* Whether it exists and has this type (S_IFREG, S_IFDIR). */
static enum qp_rc
look(struct qp__files *f, const char *path, mode_t type, bool *out, struct stat *st,
     struct qp_err *err)
{
  int sys = f->os->fstatat(f->os->self, f->root, path, st);

  *out = !sys && (st->st_mode & S_IFMT) == type;
  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP && sys != -EXDEV)
    return qp__fail_sys(err, sys, "cannot stat '%s'", path);
  return QP_OK;
}

/* Whether a directory belongs to an older program: it has that program's file and none of ours. */
static enum qp_rc
look_into(struct qp__files *f, const char *dir, bool *pool, struct qp_err *err)
{
  static const struct {
    const char *name;
    mode_t type;
  } signs[] = {
    { "metadata.json", S_IFREG },
    { "index.json", S_IFREG },
    { "index.log", S_IFREG },
    { "messages", S_IFDIR },
  };
  char path[QP__PATH_MAX];
  struct stat st;
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), "%s/context.json", dir);
  rc = look(f, path, S_IFREG, pool, &st, err);
  for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && *pool && !rc; i++) {
    bool ours = false;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, signs[i].name);
    rc = look(f, path, signs[i].type, &ours, &st, err);
    *pool = !ours;
  }
  return rc;
}

static enum qp_rc
is_pool(struct qp__files *f, const struct qp__fctx *c, bool *out, struct qp_err *err)
{
  return look_into(f, c->path, out, err);
}

/* The first of these files that exists. */
static enum qp_rc
find_file(struct qp__files *f, const struct qp_uuid *id, const char *const *dirs, size_t n,
          const char *end, struct qp__old_place *out, struct qp_err *err)
{
  char text[QP_UUID_TEXT];
  bool found = false;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < n && !found && !rc; i++) {
    (void)snprintf(out->path, sizeof(out->path), "%s/%s%s", dirs[i], qp_uuid_text(id, text), end);
    rc = look(f, out->path, S_IFREG, &found, &out->st, err);
  }
  if (!rc && found)
    out->format = QP_LEGACY_MONOLITH;
  return rc;
}

static enum qp_rc
find_old(void *self, const struct qp_uuid *id, struct qp__old_place *out, struct qp_err *err)
{
  static const char *const dirs[] = { "contexts", "conversations" };
  struct qp__files *f = self;
  struct qp__old_place place = { QP_LEGACY_NONE, false, "", { 0 } };
  char text[QP_UUID_TEXT];
  bool pool = false;
  enum qp_rc rc;

  (void)snprintf(place.path, sizeof(place.path), "contexts/%s", qp_uuid_text(id, text));
  rc = look(f, place.path, S_IFDIR, &place.newer, &place.st, err);
  if (!rc && place.newer)
    rc = look_into(f, place.path, &pool, err);
  if (pool) {
    place.newer = false;
    place.format = QP_LEGACY_POOL;
  } else if (!rc) {
    rc = find_file(f, id, dirs, 2, ".json", &place, err);
  }
  if (!rc)
    *out = place;
  return rc;
}

static enum qp_rc
find_backup(void *self, const struct qp_uuid *id, struct qp__old_place *out, struct qp_err *err)
{
  static const char *const dirs[] = { "contexts" };
  struct qp__files *f = self;
  struct qp__old_place place = { QP_LEGACY_NONE, false, "", { 0 } };
  char text[QP_UUID_TEXT];
  bool found = false;
  enum qp_rc rc = find_file(f, id, dirs, 1, ".json.old", &place, err);

  if (!rc && place.format == QP_LEGACY_NONE) {
    (void)snprintf(place.path, sizeof(place.path), "contexts/%s.old", qp_uuid_text(id, text));
    rc = look(f, place.path, S_IFDIR, &found, &place.st, err);
    if (found)
      place.format = QP_LEGACY_POOL;
  }
  if (!rc)
    *out = place;
  return rc;
}

static bool
parse_name(const char *name, struct qp_uuid *id, bool *backup)
{
  char text[QP__UUID_LEN + 1];
  const char *end;

  if (strlen(name) <= QP__UUID_LEN)
    return false;
  memcpy(text, name, QP__UUID_LEN);
  text[QP__UUID_LEN] = 0;
  end = name + QP__UUID_LEN;
  *backup = strcmp(end, ".json.old") == 0 || strcmp(end, ".old") == 0;
  return (*backup || strcmp(end, ".json") == 0) && qp__uuid_of_name(text, "", id);
}

/* ---- listing ---- */

struct listing {
  struct qp__files *files;
  qp_context_visit *visit;
  void *arg;
  enum qp_rc rc;
  struct qp_err *err;
  const char *dir;
};

/* A file {id}.json that is the form that counts. */
static int
list_name(void *arg, const char *name, unsigned char type)
{
  struct listing *l = arg;
  struct qp__old_place place;
  struct qp_uuid id;
  bool backup;

  if (type != DT_REG || !parse_name(name, &id, &backup) || backup)
    return 0;
  l->rc = find_old(l->files, &id, &place, l->err);
  if (!l->rc && !place.newer && place.format == QP_LEGACY_MONOLITH &&
      strncmp(place.path, l->dir, strlen(l->dir)) == 0)
    l->rc = l->visit(l->arg, &id);
  return l->rc ? 1 : 0;
}

static enum qp_rc
list_old(struct qp__files *f, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  static const char *const dirs[] = { "contexts", "conversations" };
  struct listing l = { .files = f, .visit = visit, .arg = arg, .err = err };

  for (size_t i = 0; i < 2 && !l.rc; i++) {
    int sys;

    l.dir = dirs[i];
    sys = f->os->listdir(f->os->self, f->root, dirs[i], list_name, &l);
    if (sys < 0 && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP && sys != -EXDEV)
      return qp__fail_sys(err, sys, "cannot list '%s'", dirs[i]);
  }
  return l.rc;
}

/* ---- loading ---- */

struct loading {
  const struct qp__legacy_source *source;
  size_t first;
  struct qp__entry *entries;
  enum qp_rc *results;
};

/* A worker's piece: a message's size, hash and role. */
static void
convert_piece(void *arg, size_t i)
{
  struct loading *l = arg;
  struct qp_message *m = NULL;
  struct qp__buf text;

  qp__buf_init(&text, TEXT_MAX);
  l->results[i] = qp__legacy_message(l->source, l->first + i, &m, NULL);
  if (!l->results[i])
    l->results[i] = qp__message_store_form(m, TEXT_MAX, &text, &l->entries[i], NULL);
  qp_message_free(m);
  qp__buf_release(&text);
}

/* The number of the directory that messages of this branch are said to be in. */
static bool
find_dir(struct qp__tree *tree, const char *branch, uint16_t *out)
{
  struct qp__buf dir;
  bool ok;

  qp__buf_init(&dir, QP__BRANCH_ENCODED_MAX * 4);
  (void)qp__buf_add_str(&dir, "branch-");
  (void)qp__percent_encode(&dir, branch, strlen(branch));
  ok = !dir.rc && !qp__tree_dir(tree, dir.data, dir.len, out);
  qp__buf_release(&dir);
  return ok;
}

/* Adds a converted message to the tree. A message that cannot be converted is unavailable. */
static enum qp_rc
add_item(struct qp__tree *tree, const struct loading *l, size_t i, struct qp_err *err)
{
  struct qp__entry *e = &l->entries[i];
  struct qp__legacy_item item;

  if (l->results[i] == QP_NOMEM)
    return qp__fail_nomem(err, "loading a context");
  qp__legacy_item(l->source, l->first + i, &item);
  if (l->results[i]) {
    memset(e, 0, sizeof(*e));
    e->id = item.id;
    e->time = item.time;
    atomic_store(&e->status, QP_STATUS_UNAVAILABLE);
  }
  e->parent = QP__NO_SLOT;
  if (!find_dir(tree, item.branch, &e->dir) ||
      (!qp_uuid_is_none(&item.parent) && !qp__tree_find(tree, &item.parent, true, &e->parent)))
    return qp__fail_nomem(err, "loading a context");
  (void)qp__tree_add(tree, e);
  return QP_OK;
}

static enum qp_rc
load_items(struct qp__files *f, const struct qp__legacy_source *source, struct qp__tree *tree,
           struct qp_err *err)
{
  size_t count = qp__legacy_count(source);
  struct loading l = { .source = source };
  enum qp_rc rc = QP_OK;

  l.entries = qp__alloc(WINDOW * sizeof(*l.entries));
  l.results = qp__alloc(WINDOW * sizeof(*l.results));
  if (!l.entries || !l.results || !qp__tree_reserve(tree, count))
    rc = qp__fail_nomem(err, "loading a context");
  for (; l.first < count && !rc; l.first += WINDOW) {
    size_t n = count - l.first < WINDOW ? count - l.first : WINDOW;

    qp__workers_each(&f->workers, n, convert_piece, &l);
    for (size_t i = 0; i < n && !rc; i++)
      rc = add_item(tree, &l, i, err);
  }
  qp__free(l.entries);
  qp__free(l.results);
  return rc;
}

static enum qp_rc
load_heads(const struct qp__legacy_source *source, struct qp__image *image, struct qp_err *err)
{
  for (size_t i = 0; i < qp__legacy_head_count(source); i++) {
    struct qp__legacy_head head;
    uint32_t slot = QP__NO_SLOT;

    qp__legacy_head(source, i, &head);
    if ((!qp_uuid_is_none(&head.id) && !qp__tree_find(&image->tree, &head.id, true, &slot)) ||
        !qp__image_set_head(image, head.branch, slot))
      return qp__fail_nomem(err, "loading a context");
  }
  return QP_OK;
}

static enum qp_rc
load_old(struct qp__files *f, struct qp__fctx *c, struct qp__image *image, struct qp_err *err)
{
  struct qp__old_place place;
  struct qp_uuid id;
  enum qp_rc rc = find_old(f, &c->id, &place, err);

  if (rc)
    return rc;
  if (place.format == QP_LEGACY_NONE || place.newer)
    return qp__fail(err, QP_NOTFOUND, "context %s not found", c->path + strlen("contexts/"));
  rc = qp__legacy_open(f->os, f->root, place.path, place.path, &c->old, err);
  if (rc)
    return rc;
  image->old = true;
  id = qp__legacy_id(c->old);
  if (!qp_uuid_equal(&id, &c->id))
    return qp__fail(err, QP_CORRUPT, "'%s' holds the id of another context", place.path);
  rc = qp__meta_clone(qp__legacy_meta(c->old), &image->meta, err);
  if (!rc)
    rc = load_items(f, c->old, &image->tree, err);
  return rc ? rc : load_heads(c->old, image, err);
}

/* ---- reading ---- */

/* The stored form of message i, at the end of *out. What the source does not give is damage. */
static enum qp_rc
convert(const struct qp__legacy_source *source, size_t i, struct qp__buf *out, struct qp_err *err)
{
  struct qp_message *m = NULL;
  enum qp_rc rc = qp__legacy_message(source, i, &m, err);

  if (!rc)
    rc = qp__message_encode(m, out, err);
  qp_message_free(m);
  return rc == QP_INVALID || rc == QP_TOOBIG ? QP_CORRUPT : rc;
}

static enum qp_rc
read_old(const struct qp__fctx *c, const struct qp__tree *tree, const struct qp__entry *entry,
         struct qp__buf *out, struct qp_err *err)
{
  return convert(c->old, qp__tree_slot(tree, entry), out, err);
}

/* The backup of the context, or NULL. */
static struct qp__legacy_source *
open_backup(struct qp__files *f, struct qp__fctx *c)
{
  struct qp__old_place place;

  QP_ASSERT_HELD(&f->old_lock);
  if (!c->backup_tried && !find_backup(f, &c->id, &place, NULL) && place.format != QP_LEGACY_NONE)
    (void)qp__legacy_open(f->os, f->root, place.path, place.path, &c->backup, NULL);
  c->backup_tried = true;
  return c->backup;
}

/* Its number; messages are mostly asked for in their order. */
static bool
find_item(const struct qp__legacy_source *source, const struct qp_uuid *id, size_t *at)
{
  size_t count = qp__legacy_count(source);

  for (size_t i = 0; i < count; i++) {
    size_t number = (*at + i) % count;
    struct qp__legacy_item item;

    qp__legacy_item(source, number, &item);
    if (qp_uuid_equal(&item.id, id)) {
      *at = number;
      return true;
    }
  }
  return false;
}

static enum qp_rc
salvage_old(struct qp__files *f, struct qp__fctx *c, const struct qp__entry *entry,
            struct qp__buf *out, struct qp_err *err)
{
  size_t start = out->len;
  struct qp__legacy_source *source;
  bool found;
  enum qp_rc rc;

  qp__mutex_lock(&f->old_lock);
  source = open_backup(f, c);
  found = source && find_item(source, &entry->id, &c->backup_at);
  rc = found ? convert(source, c->backup_at, out, err) : QP_NOTFOUND;
  qp__mutex_unlock(&f->old_lock);
  if (!rc) {
    struct qp_bytes got = { out->data + start, out->len - start };

    rc = qp__content_matches(entry, got) ? QP_OK : QP_NOTFOUND;
  }
  return rc;
}

static void
close_old(struct qp__fctx *c)
{
  qp__legacy_close(c->old);
  qp__legacy_close(c->backup);
}

const struct qp__old_formats qp__old_formats = {
  .capability = {
    .find = find_old,
    .find_backup = find_backup,
    .revert = qp__files_revert,
    .migrate = qp__migrate_in_place,
    .copy = qp__migrate_across,
  },
  .list = list_old,
  .is_pool = is_pool,
  .name = parse_name,
  .load = load_old,
  .close = close_old,
  .read = read_old,
  .salvage = salvage_old,
};

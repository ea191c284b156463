/* message_file.c - the content of a message: from its file, a pack or the trash; and other places
 * to search if it is not there.
 *
 * A copy is valid if it has the size and the hash of the index. A message can be elsewhere without
 * damage: this process only reads, and the writer has moved it meanwhile. So a reader reads the
 * index on the disk again before it searches. The cost of a search does not depend on the number of
 * lost messages: the newer index and the list of everything in the packs are kept with the
 * context. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "os/file.h"
#include "store/files/files.h"
#include "store/files/index/strays.h"
#include "store/files/journal/journal_recover.h"

#define LINE_END_MAX 64 /* white space that is ignored after a message */

/* ---- reading ---- */

enum qp_rc
qp__read_failure(int sys, const char *path, struct qp_err *err)
{
  if (sys == -ENOENT || sys == -ENOTDIR)
    return qp__fail(err, QP_NOTFOUND, "'%s' is missing", path);
  if (sys == -ELOOP || sys == -EXDEV || sys == -ENOTSUP || sys == -EISDIR || sys == -ENXIO)
    return qp__fail(err, QP_CORRUPT, "'%s' is not a regular file", path);
  if (sys == -EOVERFLOW)
    return qp__fail(err, QP_CORRUPT, "'%s' is longer than it should be", path);
  return qp__fail_sys(err, sys, "cannot read '%s'", path);
}

const char *
qp__dict_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const char *pack)
{
  if (strcmp(pack, QP__PACK_ALL) != 0)
    return NULL;
  qp__context_path(out, c, QP__PACK_DICT);
  return out;
}

static enum qp_rc
read_plain(struct qp__files *f, const char *path, const struct qp__entry *entry,
           struct qp__buf *out, struct qp_err *err)
{
  size_t limit = out->limit;
  int sys;

  out->limit = out->len + entry->size + 1; /* a longer file is not the one in the index */
  sys = qp__file_read(f->os, f->root, path, out);
  out->limit = limit;
  out->rc = QP_OK;
  return sys ? qp__read_failure(sys, path, err) : QP_OK;
}

static enum qp_rc
read_packed(struct qp__files *f, const struct qp__fctx *c, const char *pack, uint64_t frame,
            uint32_t pos, const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  char dict[QP__PATH_MAX];

  qp__context_path(path, c, pack);
  return qp__pack_read(f->packs, path, qp__dict_path(dict, c, pack), frame, pos, entry->size, out,
                       err);
}

static enum qp_rc
read_at(struct qp__files *f, const struct qp__fctx *c, const struct qp__tree *tree, uint64_t place,
        const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  enum qp_rc rc;

  if (qp__place_kind(place) == QP__PLACE_PACK)
    return read_packed(f, c, qp__tree_pack_of(tree, place),
                       tree->frames[qp__place_frame(place)].offset, qp__place_pos(place), entry,
                       out, err);
  if (qp__place_kind(place) == QP__PLACE_TRASH) {
    qp__trash_path(path, c, &entry->id);
    rc = read_plain(f, path, entry, out, err);
    if (rc != QP_NOTFOUND) /* else it may just be coming back */
      return rc;
  }
  qp__message_path(path, c, qp__tree_dir_name(tree, entry->dir), &entry->id);
  return read_plain(f, path, entry, out, err);
}

enum qp_rc
qp__files_read(void *self, void *context, const struct qp__tree *tree,
               const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err)
{
  const struct qp__fctx *c = context;

  if (c->old)
    return qp__old_formats.read(c, tree, entry, out, err);
  return read_at(self, context, tree, atomic_load_explicit(&entry->place, memory_order_relaxed),
                 entry, out, err);
}

/* ---- the files of packs ---- */

struct pack_names {
  char (*list)[QP__PACK_NAME_LEN];
  size_t count;
  size_t cap;
};

static int
take_pack_name(void *arg, const char *file, unsigned char type)
{
  struct pack_names *n = arg;
  char name[QP__PACK_NAME_LEN];
  int len = snprintf(name, sizeof(name), "archive/%.24s", file);

  if (type != DT_REG || strlen(file) > 24 || !qp__pack_name_ok(name, (size_t)len))
    return 0;
  if (!qp__vec_reserve(n->list, n->count, n->cap, 1))
    return -ENOMEM;
  memcpy(n->list[n->count++], name, sizeof(name));
  return 0;
}

enum qp_rc
qp__pack_files(struct qp__files *f, const struct qp__fctx *c, qp__pack_file_fn *fn, void *arg,
               struct qp_err *err)
{
  struct pack_names names = { .list = NULL };
  char path[QP__PATH_MAX];
  struct stat st;
  enum qp_rc rc = QP_OK;
  int sys;

  qp__context_path(path, c, "archive");
  sys = f->os->listdir(f->os->self, f->root, path, take_pack_name, &names);
  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP)
    rc = qp__fail_sys(err, sys, "cannot list '%s'", path);
  for (size_t i = 0; i < names.count && !rc; i++)
    rc = fn(arg, names.list[i], err);
  qp__free(names.list);
  qp__context_path(path, c, QP__PACK_ALL);
  if (!rc && !f->os->fstatat(f->os->self, f->root, path, &st) && S_ISREG(st.st_mode))
    rc = fn(arg, QP__PACK_ALL, err);
  return rc;
}

bool
qp__pack_is_used(const struct qp__tree *tree, const char *name)
{
  for (uint32_t slot = 0; slot < tree->count; slot++) {
    uint64_t place = atomic_load(&qp__tree_at(tree, slot)->place);

    if (qp__place_kind(place) == QP__PLACE_PACK && strcmp(qp__tree_pack_of(tree, place), name) == 0)
      return true;
  }
  return false;
}

/* ---- finds ---- */

void
qp__finds_release(struct qp__finds *finds)
{
  if (finds->index)
    qp__image_release(finds->index);
  qp__free(finds->index);
  qp__free(finds->list);
  for (size_t i = 0; i < finds->file_count; i++)
    qp__free(finds->files[i].path);
  qp__free(finds->files);
  memset(finds, 0, sizeof(*finds));
}

struct scan {
  struct qp__files *files;
  struct qp__fctx *context;
  const char *pack;
};

static enum qp_rc
note_find(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
          struct qp_err *err)
{
  struct scan *s = arg;
  struct qp__finds *finds = &s->context->finds;
  struct qp__find *find;

  (void)dir;
  if (!qp__vec_reserve(finds->list, finds->count, finds->cap, 1))
    return qp__fail_nomem(err, "searching the archives");
  find = &finds->list[finds->count++];
  qp__content_hash(find->hash, json);
  (void)snprintf(find->pack, sizeof(find->pack), "%s", s->pack);
  find->frame = frame;
  find->pos = pos;
  find->size = (uint32_t)json.len;
  return QP_OK;
}

static enum qp_rc
scan_pack(void *arg, const char *name, struct qp_err *err)
{
  struct scan *s = arg;
  char path[QP__PATH_MAX];
  char dict[QP__PATH_MAX];
  bool damaged;
  enum qp_rc rc;

  s->pack = name;
  qp__context_path(path, s->context, name);
  rc = qp__pack_scan(s->files->os, s->files->root, path, qp__dict_path(dict, s->context, name),
                     note_find, s, &damaged, err);
  return rc == QP_NOMEM ? rc : QP_OK; /* a pack that cannot be read contains no copy */
}

static int
by_hash(const void *a, const void *b)
{
  return memcmp(((const struct qp__find *)a)->hash, ((const struct qp__find *)b)->hash, 16);
}

/* Lists the contents of the packs. */
static enum qp_rc
scan_packs(struct qp__files *f, struct qp__fctx *c, struct qp_err *err)
{
  struct scan s = { .files = f, .context = c };
  enum qp_rc rc;

  QP_ASSERT_HELD(&f->finds_lock);
  c->finds.count = 0;
  rc = qp__pack_files(f, c, scan_pack, &s, err);
  if (rc)
    return rc;
  if (c->finds.count)
    qsort(c->finds.list, c->finds.count, sizeof(*c->finds.list), by_hash);
  c->finds.scanned = true;
  return QP_OK;
}

/* Reads the index that is on the disk now. */
static enum qp_rc
read_newest_index(struct qp__files *f, struct qp__fctx *c, struct qp_err *err)
{
  struct qp__index_report report;
  struct qp__image *image = qp__alloc0(1, sizeof(*image));
  enum qp_rc rc;

  QP_ASSERT_HELD(&f->finds_lock);
  if (!image)
    return qp__fail_nomem(err, "reading the index");
  qp__image_init(image);
  rc = qp__index_read(f->os, f->root, c->path, image, &report, err);
  if (rc) {
    qp__image_release(image);
    qp__free(image);
    return rc;
  }
  if (c->finds.index)
    qp__image_release(c->finds.index);
  qp__free(c->finds.index);
  c->finds.index = image;
  return QP_OK;
}

/* ---- salvage ---- */

/* One message that is looked for. */
struct search {
  struct qp__files *files;
  struct qp__fctx *context;
  const struct qp__tree *tree;
  const struct qp__entry *entry;
  struct qp__buf *out;
  size_t start; /* where its content begins in *out */
};

/* Whether an attempt brought the content; else *out is as it was. */
static bool
is_found(struct search *s, enum qp_rc rc)
{
  struct qp_bytes got = { s->out->data ? s->out->data + s->start : "", s->out->len - s->start };

  if (!rc && qp__content_matches(s->entry, got))
    return true;
  s->out->len = s->start;
  s->out->rc = QP_OK;
  return false;
}

static bool
look_in_journal(struct search *s)
{
  char path[QP__PATH_MAX];

  qp__message_path(path, s->context, qp__tree_dir_name(s->tree, s->entry->dir), &s->entry->id);
  return is_found(s, qp__journal_salvage(s->files->os, s->files->root, path, s->out, NULL));
}

/* At the place in the newest known index. */
static bool
look_at_its_place(struct search *s)
{
  struct qp__image *index = s->context->finds.index;
  const struct qp__entry *e;
  uint32_t slot;

  QP_ASSERT_HELD(&s->files->finds_lock);
  if (!index || !qp__tree_find(&index->tree, &s->entry->id, true, &slot) || slot == QP__NO_SLOT)
    return false;
  e = qp__tree_at(&index->tree, slot);
  return is_found(s, read_at(s->files, s->context, &index->tree, atomic_load(&e->place), s->entry,
                             s->out, NULL));
}

/* Where the writer in another process may have put it. */
static bool
look_in_newest_index(struct search *s)
{
  QP_ASSERT_HELD(&s->files->finds_lock);
  if (look_at_its_place(s))
    return true;
  qp__pack_cache_drop(s->files->packs, s->context->path);
  return !read_newest_index(s->files, s->context, NULL) && look_at_its_place(s);
}

/* In the list of everything in the packs. */
static bool
look_in_list(struct search *s)
{
  const struct qp__finds *finds = &s->context->finds;
  struct qp__find key;
  const struct qp__find *find;

  QP_ASSERT_HELD(&s->files->finds_lock);
  memcpy(key.hash, s->entry->hash, sizeof(key.hash));
  find = finds->count ? bsearch(&key, finds->list, finds->count, sizeof(key), by_hash) : NULL;
  if (!find || find->size != s->entry->size)
    return false;
  return is_found(s, read_packed(s->files, s->context, find->pack, find->frame, find->pos, s->entry,
                                 s->out, NULL));
}

static bool
look_in_packs(struct search *s)
{
  bool old = s->context->finds.scanned;

  if (old && look_in_list(s))
    return true;
  if (old && !s->files->readonly) /* no pack has changed since */
    return false;
  return !scan_packs(s->files, s->context, NULL) && look_in_list(s);
}

/* A file that may have another line end than we write. */
static bool
look_at_path(struct search *s, const char *path)
{
  size_t limit = s->out->limit;
  struct qp_bytes text;
  int sys;

  s->out->limit = s->out->len + s->entry->size + LINE_END_MAX;
  sys = qp__file_read(s->files->os, s->files->root, path, s->out);
  s->out->limit = limit;
  s->out->rc = QP_OK;
  if (!sys) {
    text.data = s->out->data + s->start;
    text.len = s->out->len - s->start;
    s->out->len = s->start + qp__message_trim(text).len;
    s->out->data[s->out->len] = 0;
  }
  return is_found(s, sys ? QP_IO : QP_OK);
}

/* By the message's name: where it should be, in the trash, in the directories of other branches. */
static bool
look_in_files(struct search *s)
{
  const struct qp_uuid *id = &s->entry->id;
  char path[QP__PATH_MAX];
  char text[QP_UUID_TEXT];

  qp__message_path(path, s->context, qp__tree_dir_name(s->tree, s->entry->dir), id);
  if (look_at_path(s, path))
    return true;
  qp__trash_path(path, s->context, id);
  if (look_at_path(s, path))
    return true;
  for (size_t d = 0; d < s->tree->dir_count; d++) {
    qp__message_path(path, s->context, qp__tree_dir_name(s->tree, (uint16_t)d), id);
    if (d != s->entry->dir && look_at_path(s, path))
      return true;
  }
  (void)snprintf(path, sizeof(path), "%s/messages/%s.json", s->context->path,
                 qp_uuid_text(id, text));
  return look_at_path(s, path);
}

/* In any file, whatever its name says. */
static bool
look_in_all_files(struct search *s)
{
  const char *path =
      s->context->thorough ? qp__find_file(s->files, s->context, s->entry->hash) : NULL;

  QP_ASSERT_HELD(&s->files->finds_lock);
  return path && look_at_path(s, path);
}

/* In the backup of the migration. */
static bool
look_in_backup(struct search *s)
{
  return is_found(s, qp__old_formats.salvage(s->files, s->context, s->entry, s->out, NULL));
}

enum qp_rc
qp__files_salvage(void *self, void *context, const struct qp__tree *tree,
                  const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err)
{
  struct qp__files *f = self;
  struct search s = { f, context, tree, entry, out, out->len };
  char id[QP_UUID_TEXT];
  bool found;

  if (!entry->size) /* a placeholder: its content is unknown */
    return qp__fail(err, QP_NOTFOUND, "message %s is lost", qp_uuid_text(&entry->id, id));
  found = !s.context->old && look_in_files(&s);

  if (!found && !s.context->old) {
    qp__mutex_lock(&f->finds_lock);
    found = (f->readonly && look_in_newest_index(&s)) || look_in_journal(&s) || look_in_packs(&s) ||
            look_in_all_files(&s);
    qp__mutex_unlock(&f->finds_lock);
    found = found || look_in_backup(&s);
  }
  return found ? QP_OK
               : qp__fail(err, QP_NOTFOUND, "no other copy of message %s was found",
                          qp_uuid_text(&entry->id, id));
}

enum qp_rc
qp__files_content(struct qp__files *f, struct qp__fctx *c, const struct qp__tree *tree,
                  const struct qp__entry *entry, struct qp__buf *out, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  char id[QP_UUID_TEXT];
  enum qp_rc rc;

  qp__buf_reset(out);
  rc = qp__files_read(f, c, tree, entry, out, &cause);
  if (!rc && !qp__content_matches(entry, qp__buf_bytes(out)))
    rc = qp__fail(&cause, QP_CORRUPT, "its content does not match its hash");
  if (rc == QP_NOTFOUND || rc == QP_CORRUPT) {
    qp__buf_reset(out);
    if (qp__files_salvage(f, c, tree, entry, out, NULL))
      return qp__fail(err, QP_UNAVAILABLE, "message %s cannot be read: %.200s",
                      qp_uuid_text(&entry->id, id), cause.msg);
    rc = QP_OK;
  }
  if (rc)
    return qp__fail_as(err, rc, &cause);
  if (out->len && out->data[out->len - 1] == '\n')
    out->data[--out->len] = 0;
  return QP_OK;
}

/* trash.c - final deletion: of messages that were in the trash long enough, and of leftovers of
 * interrupted operations.
 *
 * A purge first commits an index without the messages, together with packs without them, and then
 * removes their files. An interruption leaves files in trash/ without an entry, which the next
 * purge removes. A second copy of a message is removed only after the first one, at the place that
 * the index names, was read and is valid. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/uuid.h"
#include "base/vec.h"
#include "os/file.h"
#include "store/files/pack/repack.h"

/* ---- leftovers ---- */

struct leftovers {
  struct qp__files *files;
  struct qp__fctx *context;
  struct qp__image *image;
  qp__leftover_fn *fn;
  void *arg;
  struct qp__buf text;
};

static enum qp_rc
visit(struct leftovers *l, const char *path, struct qp_err *err)
{
  const struct qp__files *f = l->files;
  struct stat st;

  if (f->os->fstatat(f->os->self, f->root, path, &st) || !S_ISREG(st.st_mode))
    return QP_OK;
  return l->fn(l->arg, path, (uint64_t)st.st_size, err);
}

static enum qp_rc
find_entry(struct leftovers *l, const struct qp_uuid *id, const struct qp__entry **out,
           struct qp_err *err)
{
  uint32_t slot;

  if (!qp__tree_find(&l->image->tree, id, true, &slot))
    return qp__fail_nomem(err, "searching for leftovers");
  *out = slot == QP__NO_SLOT ? NULL : qp__tree_at(&l->image->tree, slot);
  return QP_OK;
}

/* Whether the message can be read from the place that the index names. */
static enum qp_rc
is_in_place(struct leftovers *l, const struct qp__entry *e, bool *out, struct qp_err *err)
{
  enum qp_rc rc;

  qp__buf_reset(&l->text);
  rc = qp__files_read(l->files, l->context, &l->image->tree, e, &l->text, err);
  *out = !rc && qp__content_matches(e, qp__buf_bytes(&l->text));
  return rc == QP_NOMEM ? rc : QP_OK;
}

/* A file below messages/ whose message is elsewhere. */
static enum qp_rc
look_at_file(void *arg, const char *dir, const char *name, unsigned char type, struct qp_err *err)
{
  struct leftovers *l = arg;
  const struct qp__entry *e = NULL;
  char path[QP__PATH_MAX];
  struct qp_uuid id;
  bool ok = false;
  enum qp_rc rc;

  if (!dir || type != DT_REG || !qp__uuid_of_name(name, ".json", &id))
    return QP_OK;
  rc = find_entry(l, &id, &e, err);
  if (rc || !e || qp__entry_kind(e) == QP__PLACE_FILE ||
      strcmp(qp__tree_dir_name(&l->image->tree, e->dir), dir) != 0)
    return rc;
  qp__message_path(path, l->context, dir, &id);
  if (qp__entry_kind(e) == QP__PLACE_TRASH) { /* reading would fall back on this very file */
    char trash[QP__PATH_MAX];
    struct stat st;

    qp__trash_path(trash, l->context, &id);
    if (l->files->os->fstatat(l->files->os->self, l->files->root, trash, &st))
      return QP_OK;
  }
  rc = is_in_place(l, e, &ok, err);
  return rc || !ok ? rc : visit(l, path, err);
}

static int
take_name(void *arg, const char *name, unsigned char type)
{
  struct qp_uuid id;

  if (type != DT_REG || !qp__uuid_of_name(name, ".json", &id))
    return 0;
  return qp__ids_add(arg, &id) ? -ENOMEM : 0;
}

enum qp_rc
qp__trash_names(struct qp__files *f, const struct qp__fctx *c, struct qp__ids *out,
                struct qp_err *err)
{
  char path[QP__PATH_MAX];
  int sys;

  qp__context_path(path, c, "trash");
  sys = f->os->listdir(f->os->self, f->root, path, take_name, out);
  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP)
    return qp__fail_sys(err, sys, "cannot list '%s'", path);
  return QP_OK;
}

/* Files in trash/ of messages that are elsewhere, or not stored any more. */
static enum qp_rc
look_in_trash(struct leftovers *l, struct qp_err *err)
{
  struct qp__ids names = { NULL, 0, 0 };
  char path[QP__PATH_MAX];
  enum qp_rc rc = qp__trash_names(l->files, l->context, &names, err);

  for (size_t i = 0; i < names.count && !rc; i++) {
    const struct qp__entry *e = NULL;
    bool ok = true;

    rc = find_entry(l, &names.at[i], &e, err);
    if (!rc && e)
      ok = qp__entry_kind(e) != QP__PLACE_TRASH;
    if (!rc && e && ok)
      rc = is_in_place(l, e, &ok, err);
    qp__trash_path(path, l->context, &names.at[i]);
    if (!rc && ok)
      rc = visit(l, path, err);
  }
  qp__free(names.at);
  return rc;
}

/* ---- packs that hold nothing ---- */

struct survey {
  struct leftovers *leftovers;
  bool unknown; /* a message that the index lacks, or cannot be read where it says */
};

/* The id of a message as quipu writes it. */
static bool
id_of_line(struct qp_bytes json, struct qp_uuid *id)
{
  static const char begin[] = "{\"id\":\"";
  const size_t n = sizeof(begin) - 1;

  return json.len > n + QP__UUID_LEN && memcmp(json.data, begin, n) == 0 &&
         qp__uuid_decode(json.data + n, id);
}

static enum qp_rc
look_at_packed(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
               struct qp_err *err)
{
  struct survey *s = arg;
  const struct qp__entry *e = NULL;
  struct qp_uuid id;
  bool ok = false;
  enum qp_rc rc = QP_OK;

  (void)dir;
  (void)frame;
  (void)pos;
  if (id_of_line(json, &id))
    rc = find_entry(s->leftovers, &id, &e, err);
  if (!rc && e && qp__content_matches(e, json))
    rc = is_in_place(s->leftovers, e, &ok, err);
  s->unknown = s->unknown || !ok;
  return rc ? rc : s->unknown ? QP_STOPPED : QP_OK;
}

/* A pack without entries is a leftover if all its messages are stored elsewhere. */
static enum qp_rc
look_at_pack(void *arg, const char *name, struct qp_err *err)
{
  struct leftovers *l = arg;
  struct survey s = { .leftovers = l };
  char path[QP__PATH_MAX];
  char dict[QP__PATH_MAX];
  bool damaged = false;
  enum qp_rc rc;

  if (qp__pack_is_used(&l->image->tree, name))
    return QP_OK;
  qp__context_path(path, l->context, name);
  rc = qp__pack_scan(l->files->os, l->files->root, path, qp__dict_path(dict, l->context, name),
                     look_at_packed, &s, &damaged, err);
  if (rc == QP_NOMEM)
    return rc;
  return rc || damaged || s.unknown ? QP_OK : visit(l, path, err);
}

enum qp_rc
qp__leftovers(struct qp__files *f, struct qp__fctx *c, struct qp__image *image, qp__leftover_fn *fn,
              void *arg, struct qp_err *err)
{
  struct leftovers l = { .files = f, .context = c, .image = image, .fn = fn, .arg = arg };
  char path[QP__PATH_MAX];
  struct stat st;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&l.text, (size_t)1 << 30);
  if (atomic_load(&image->tree.packed_count) || atomic_load(&image->tree.trashed_count))
    rc = qp__message_files(f, c, look_at_file, &l, err);
  if (!rc)
    rc = look_in_trash(&l, err);
  if (!rc)
    rc = qp__pack_files(f, c, look_at_pack, &l, err);
  qp__context_path(path, c, QP__PACK_ALL);
  if (!rc && f->os->fstatat(f->os->self, f->root, path, &st) == -ENOENT) {
    qp__context_path(path, c, QP__PACK_DICT);
    rc = visit(&l, path, err);
  }
  qp__buf_release(&l.text);
  return rc;
}

/* ---- purge ---- */

struct purge {
  struct qp__files *files;
  struct qp__fctx *context;
  struct qp__image *old;
  struct qp__image kept;
  bool dry_run;
  struct qp_gc_report *report;
};

/* An unknown message in a pack ends the scan. */
static enum qp_rc
look_for_forgotten(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
                   struct qp_err *err)
{
  struct qp__tree *kept = arg;
  struct qp_uuid id;
  uint32_t slot = QP__NO_SLOT;

  (void)dir;
  (void)frame;
  (void)pos;
  if (id_of_line(json, &id) && !qp__tree_find(kept, &id, true, &slot))
    return qp__fail_nomem(err, "forgetting messages");
  return slot == QP__NO_SLOT ? QP_STOPPED : QP_OK;
}

static enum qp_rc
holds_forgotten(struct purge *p, const char *name, bool *out, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  char dict[QP__PATH_MAX];
  bool damaged = false;
  enum qp_rc rc;

  *out = false;
  if (!qp__pack_is_used(&p->kept.tree, name))
    return QP_OK;
  qp__context_path(path, p->context, name);
  rc = qp__pack_scan(p->files->os, p->files->root, path, qp__dict_path(dict, p->context, name),
                     look_for_forgotten, &p->kept.tree, &damaged, err);
  *out = rc == QP_STOPPED;
  return *out ? QP_OK : rc;
}

/* Writes the pack again, with the known messages only and with the same dictionary. */
static enum qp_rc
write_without(struct purge *p, struct qp__repack *r, const char *name, struct qp_err *err)
{
  struct qp__packer packer = { .writer = NULL };
  char path[QP__PATH_MAX];
  struct qp__buf dict;
  uint64_t bytes;
  enum qp_rc rc = QP_OK;
  int sys = 0;

  qp__buf_init(&dict, (size_t)16 << 20);
  if (qp__dict_path(path, p->context, name))
    sys = qp__file_read(p->files->os, p->files->root, path, &dict);
  if (sys && sys != -ENOENT)
    rc = qp__fail_sys(err, sys, "cannot read '%s'", path);
  if (!rc && dict.len)
    rc = qp__repack_dict(r, qp__buf_bytes(&dict), err);
  if (!rc)
    rc = qp__packer_start(r, name, qp__buf_bytes(&dict), &packer, err);
  for (uint32_t slot = 0; slot < r->tree->count && !rc; slot++)
    if (qp__is_in_pack(r->tree, qp__tree_at(r->tree, slot), name))
      rc = qp__packer_fill(&packer, &slot, 1, err);
  if (!rc)
    rc = qp__packer_finish(&packer, &bytes, err);
  qp__pack_free(packer.writer);
  qp__buf_release(&dict);
  return rc;
}

/* Commits an index without the messages. A pack that holds one of them is removed, or written again
 * without it: an index that is rebuilt from packs must not restore it. */
static enum qp_rc
forget(struct purge *p, const bool *gone, struct qp_err *err)
{
  const struct qp__tree *old = &p->old->tree;
  struct qp_space_report report = { 0 };
  struct qp__repack r;
  bool staged = false;
  uint32_t *moved = qp__image_copy_kept(p->old, gone, &p->kept);
  uint32_t number;
  enum qp_rc rc;

  if (!moved)
    return qp__fail_nomem(err, "forgetting messages");
  qp__free(moved);
  rc = qp__repack_begin(&r, p->files, p->context, &p->kept, &report, err);
  for (size_t i = 0; i < old->pack_count && !rc; i++) {
    bool dirty = false;

    if (qp__tree_pack(r.tree, old->packs[i], strlen(old->packs[i]), &number))
      rc = qp__fail_nomem(err, "forgetting messages");
    if (!rc)
      rc = holds_forgotten(p, old->packs[i], &dirty, err);
    if (!rc && dirty)
      rc = write_without(p, &r, old->packs[i], err);
  }
  if (!rc)
    rc = qp__repack_commit(&r, &staged, err);
  qp__repack_end(&r, staged);
  return rc;
}

static enum qp_rc
remove_one(void *arg, const char *path, uint64_t bytes, struct qp_err *err)
{
  struct purge *p = arg;
  const struct qp__files *f = p->files;

  (void)err;
  if (!p->dry_run && f->os->unlinkat(f->os->self, f->root, path, 0))
    return QP_OK; /* another time */
  p->report->purged++;
  p->report->purged_bytes += bytes;
  return QP_OK;
}

/* Removes the files of the purged messages. */
static void
remove_files(struct purge *p, const bool *gone)
{
  const struct qp__files *f = p->files;
  char path[QP__PATH_MAX];
  char name[QP_UUID_TEXT + 8];
  char id[QP_UUID_TEXT];
  int dir;

  qp__context_path(path, p->context, "trash");
  dir = qp__open(f->os, f->root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
  for (uint32_t slot = 0; slot < p->old->tree.count && dir >= 0; slot++) {
    if (!gone[slot])
      continue;
    (void)snprintf(name, sizeof(name), "%s.json",
                   qp_uuid_text(&qp__tree_at(&p->old->tree, slot)->id, id));
    (void)f->os->unlinkat(f->os->self, dir, name, 0); /* or another time */
  }
  qp__close(f->os, dir);
}

enum qp_rc
qp__files_purge(void *self, void *context, struct qp__image *image, const bool *gone, bool dry_run,
                struct qp_gc_report *out, struct qp_err *err)
{
  struct purge p = {
    .files = self, .context = context, .old = image, .dry_run = dry_run, .report = out
  };
  bool any = false;
  enum qp_rc rc;

  for (uint32_t slot = 0; slot < image->tree.count && !any && !dry_run; slot++)
    any = gone[slot];
  qp__image_init(&p.kept);
  rc = qp__leftovers(p.files, p.context, image, remove_one, &p, err);
  if (!rc && any) {
    rc = forget(&p, gone, err);
    if (!rc)
      remove_files(&p, gone);
  }
  qp__image_release(&p.kept);
  return rc;
}

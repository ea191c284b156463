/* repack.c - see repack.h. */
#include "store/files/pack/repack.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "os/file.h"

/* ---- beginning, reading ---- */

enum qp_rc
qp__repack_begin(struct qp__repack *r, struct qp__files *f, struct qp__fctx *c,
                 struct qp__image *image, struct qp_space_report *report, struct qp_err *err)
{
  memset(r, 0, sizeof(*r));
  r->files = f;
  r->context = c;
  r->image = image;
  r->tree = &image->tree;
  r->report = report;
  qp__buf_init(&r->text, (size_t)1 << 30);
  r->moved = qp__alloc(((size_t)image->tree.count + 1) * sizeof(*r->moved));
  return r->moved ? QP_OK : qp__fail_nomem(err, "packing messages");
}

/* `keep`: keeps the new files, because the commit may still succeed. */
void
qp__repack_end(struct qp__repack *r, bool keep)
{
  const struct qp__files *f = r->files;

  for (size_t i = 0; i < r->made_count && !keep; i++)
    (void)f->os->unlinkat(f->os->self, f->tmp, r->made[i].temp,
                          0); /* otherwise the next open does it */
  qp__free(r->made);
  qp__free(r->moved);
  qp__buf_release(&r->text);
}

/* The size of a file of the context; 0 if it does not exist. */
uint64_t
qp__repack_size(const struct qp__files *f, const struct qp__fctx *c, const char *name)
{
  char path[QP__PATH_MAX];
  struct stat st;

  qp__context_path(path, c, name);
  return f->os->fstatat(f->os->self, f->root, path, &st) || !S_ISREG(st.st_mode)
             ? 0
             : (uint64_t)st.st_size;
}

uint64_t
qp__files_pack_bytes(void *self, void *context, const struct qp__tree *tree)
{
  uint64_t bytes = 0;

  for (size_t i = 0; i < tree->pack_count; i++) {
    bytes += qp__repack_size(self, context, tree->packs[i]);
    if (strcmp(tree->packs[i], QP__PACK_ALL) == 0)
      bytes += qp__repack_size(self, context, QP__PACK_DICT);
  }
  return bytes;
}

/* Reads the content of a message to r->text. *ok false: it cannot be read and stays in its place;
 * then its pack must not be removed. */
enum qp_rc
qp__repack_read(struct qp__repack *r, const struct qp__entry *e, bool *ok, struct qp_err *err)
{
  struct qp_err own = { QP_OK, "" };
  enum qp_rc rc = qp__files_content(r->files, r->context, r->tree, e, &r->text, &own);

  *ok = !rc && (qp__is_packed(e) || !memchr(r->text.data, '\n', r->text.len));
  if (!rc || (rc == QP_UNAVAILABLE && !qp__is_packed(e))) {
    if (rc)
      qp__log(&r->files->log, QP_LOG_WARN, "space", "%s", own.msg);
    return QP_OK;
  }
  if (rc == QP_UNAVAILABLE)
    return qp__fail(err, QP_CORRUPT, "%.200s; run a check with repair first", own.msg);
  return qp__fail_as(err, rc, &own);
}

/* A new name in tmp/ for the later `name`; it is valid when made_count is increased. */
static enum qp_rc
new_file(struct qp__repack *r, const char *name, struct qp__made **out, struct qp_err *err)
{
  struct qp__made *m;

  if (!qp__vec_reserve(r->made, r->made_count, r->made_cap, 1))
    return qp__fail_nomem(err, "packing messages");
  m = &r->made[r->made_count];
  qp__files_temp_name(r->files, m->temp);
  (void)snprintf(m->name, sizeof(m->name), "%s", name);
  *out = m;
  return QP_OK;
}

/* ---- writing a pack ---- */

enum qp_rc
qp__repack_dict(struct qp__repack *r, struct qp_bytes dict, struct qp_err *err)
{
  struct qp__files *f = r->files;
  struct qp__made *m = NULL;
  enum qp_rc rc = new_file(r, QP__PACK_DICT, &m, err);
  int sys;

  if (rc)
    return rc;
  sys = qp__file_create(f->os, f->tmp, m->temp, dict); /* the barrier makes it durable */
  if (sys)
    return qp__fail_sys(err, sys, "cannot write a dictionary");
  r->made_count++;
  r->report->bytes_after += dict.len;
  return QP_OK;
}

enum qp_rc
qp__packer_start(struct qp__repack *r, const char *name, struct qp_bytes dict,
                 struct qp__packer *out, struct qp_err *err)
{
  struct qp__files *f = r->files;
  struct qp__made *made = NULL;
  enum qp_rc rc;
  int sys;

  memset(out, 0, sizeof(*out));
  out->repack = r;
  sys = qp__tree_pack(r->tree, name, strlen(name), &out->number);
  if (sys)
    return qp__fail_sys(err, sys, "packing messages");
  rc = new_file(r, name, &made, err);
  return rc ? rc : qp__pack_create(f->os, f->tmp, made->temp, dict, 0, &out->writer, err);
}

/* Adds the content in r->text. The entry gets the new place; the old place is not needed any
 * more. */
enum qp_rc
qp__packer_add(struct qp__packer *p, uint32_t slot, struct qp_err *err)
{
  struct qp__repack *r = p->repack;
  struct qp__entry *e = qp__tree_at(r->tree, slot);
  uint64_t offset = 0;
  uint32_t pos = 0;
  uint32_t frame;
  enum qp_rc rc;
  int sys;

  rc = qp__pack_add(p->writer, qp__tree_dir_name(r->tree, e->dir), qp__buf_bytes(&r->text), &offset,
                    &pos, err);
  if (rc)
    return rc;
  sys = qp__tree_frame(r->tree, p->number, offset, &frame);
  if (sys)
    return qp__fail_sys(err, sys, "packing messages");
  if (!qp__is_packed(e)) {
    r->moved[r->moved_count++] = slot;
    r->report->bytes_before += (uint64_t)e->size + 1;
  }
  r->report->messages++;
  qp__tree_set_place(r->tree, e, qp__place_pack(frame, pos));
  p->count++;
  return QP_OK;
}

/* Finishes the pack; a pack without messages is removed. */
enum qp_rc
qp__packer_finish(struct qp__packer *p, uint64_t *bytes, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  *bytes = 0;
  if (p->count) {
    rc = qp__pack_finish(p->writer, bytes, err);
    p->repack->made_count += !rc;
  }
  qp__pack_free(p->writer);
  p->writer = NULL;
  return rc;
}

/* Adds messages, given by their slots, to a new pack. */
enum qp_rc
qp__packer_fill(struct qp__packer *p, const uint32_t *slots, size_t n, struct qp_err *err)
{
  struct qp__repack *r = p->repack;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < n && !rc; i++) {
    bool ok = false;

    rc = qp__repack_read(r, qp__tree_at(r->tree, slots[i]), &ok, err);
    if (!rc && ok)
      rc = qp__packer_add(p, slots[i], err);
  }
  return rc;
}

/* ---- the commit ---- */

static enum qp_rc
add_renames(void *arg, struct qp__txn *txn, struct qp_err *err)
{
  struct qp__repack *r = arg;
  char from[QP__PATH_MAX];
  char to[QP__PATH_MAX];
  struct qp__op make_archive = { .kind = QP__OP_MKDIR, .path = to, .data = { "", 0 } };
  bool has_archive = false;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < r->made_count && !rc; i++) {
    if (strncmp(r->made[i].name, "archive/", 8) == 0 && !has_archive) {
      qp__context_path(to, r->context, "archive");
      rc = qp__txn_add(txn, &make_archive, NULL, false, err);
      has_archive = true;
    }
    (void)snprintf(from, sizeof(from), "tmp/%s", r->made[i].temp);
    qp__context_path(to, r->context, r->made[i].name);
    if (!rc)
      rc = qp__txn_rename(txn, from, to, 0, err);
  }
  return rc;
}

/* Removes packs without messages, and a dictionary that the new files do not need. */
static enum qp_rc
add_unlinks(void *arg, struct qp__txn *txn, struct qp_err *err)
{
  struct qp__repack *r = arg;
  char path[QP__PATH_MAX];
  bool new_all = false;
  bool new_dict = false;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < r->tree->pack_count && !rc; i++) {
    if (qp__pack_is_used(r->tree, r->tree->packs[i]))
      continue;
    qp__context_path(path, r->context, r->tree->packs[i]);
    rc = qp__txn_unlink(txn, path, err);
  }
  for (size_t i = 0; i < r->made_count; i++) {
    new_all = new_all || strcmp(r->made[i].name, QP__PACK_ALL) == 0;
    new_dict = new_dict || strcmp(r->made[i].name, QP__PACK_DICT) == 0;
  }
  if (rc || new_dict || (!new_all && qp__pack_is_used(r->tree, QP__PACK_ALL)))
    return rc;
  qp__context_path(path, r->context, QP__PACK_DICT);
  return qp__txn_unlink(txn, path, err);
}

/* Replaces index and packs. */
enum qp_rc
qp__repack_commit(struct qp__repack *r, bool *staged, struct qp_err *err)
{
  struct qp__files *f = r->files;
  struct qp__rewrite with = { .before = add_renames, .after = add_unlinks, .arg = r };
  enum qp_rc rc = qp__journal_barrier(f->journal, err); /* rule (2) */

  if (rc)
    return rc;
  qp__pack_cache_drop(f->packs, r->context->path);
  rc = qp__files_rewrite(f, r->context, r->image, &with, err);
  *staged = with.staged;
  qp__pack_cache_drop(f->packs, r->context->path);
  return rc;
}

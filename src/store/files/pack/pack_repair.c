/* pack_repair.c - rewrites a damaged pack with all readable messages. The damaged file is kept in
 * lost/, because its missing dictionary or a better copy of the disk may be found later. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "os/copy.h"
#include "os/file.h"
#include "store/files/pack/repack.h"

/* Copies a file of the context to lost/, unless it is empty or missing. */
static enum qp_rc
copy_to_lost(struct qp__repack *r, const char *name, struct qp_err *err)
{
  struct qp__files *f = r->files;
  const char *base = strrchr(name, '/');
  char from[QP__PATH_MAX];
  char to[QP__PATH_MAX];
  int sys;

  if (!qp__repack_size(f, r->context, name))
    return QP_OK;
  qp__context_path(from, r->context, name);
  (void)snprintf(to, sizeof(to), "lost/%lld-%.36s-%s", (long long)f->os->now_ms(f->os->self),
                 r->context->path + strlen("contexts/"), base ? base + 1 : name);
  sys = qp__dir_make(f->os, f->root, "lost");
  if (!sys) {
    sys = qp__copy(f->os, f->root, from, f->root, to);
    if (sys && sys != -EEXIST)
      (void)f->os->unlinkat(f->os->self, f->root, to, 0);
  }
  return sys ? qp__fail_sys(err, sys, "cannot copy '%s' to '%s'", from, to) : QP_OK;
}

/* Writes the readable messages of a pack to a new one; the others are lost from now on. */
static enum qp_rc
write_readable(struct qp__repack *r, const char *name, struct qp_err *err)
{
  struct qp_bytes no_dict = { "", 0 };
  struct qp__packer p = { .writer = NULL };
  uint64_t bytes = 0;
  enum qp_rc rc = qp__packer_start(r, name, no_dict, &p, err);

  for (uint32_t slot = 0; slot < r->tree->count && !rc; slot++) {
    struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (!qp__is_in_pack(r->tree, e, name))
      continue;
    rc = qp__files_content(r->files, r->context, r->tree, e, &r->text, err);
    if (!rc) {
      rc = qp__packer_add(&p, slot, err);
    } else if (rc == QP_UNAVAILABLE) {
      qp__tree_set_place(r->tree, e, 0);
      atomic_store(&e->status, QP_STATUS_UNAVAILABLE);
      rc = QP_OK;
    }
  }
  if (!rc)
    rc = qp__packer_finish(&p, &bytes, err);
  qp__pack_free(p.writer);
  return rc;
}

enum qp_rc
qp__files_mend_pack(struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
                    const char *pack, struct qp_err *err)
{
  struct qp_space_report ignored = { 0 };
  struct qp__repack r;
  bool staged = false;
  enum qp_rc rc = qp__repack_begin(&r, f, c, image, &ignored, err);

  if (!rc)
    rc = copy_to_lost(&r, pack, err);
  if (!rc && strcmp(pack, QP__PACK_ALL) == 0)
    rc = copy_to_lost(&r, QP__PACK_DICT, err);
  if (!rc)
    rc = write_readable(&r, pack, err);
  if (!rc)
    rc = qp__repack_commit(&r, &staged, err);
  qp__repack_end(&r, staged);
  qp__finds_release(&c->finds);
  return rc;
}

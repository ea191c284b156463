/* memory_gc.c - deletes messages of the memory driver for good. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/memory/memory_int.h"

/* Replaces tree and heads by those of `from`, which is empty afterwards. */
static void
replace_image(struct qp__image *to, struct qp__image *from)
{
  qp__image_release(to);
  qp__image_init(to);
  qp__tree_move(&to->tree, &from->tree);
  to->heads = from->heads;
  to->head_count = from->head_count;
  to->head_cap = from->head_cap;
  from->heads = NULL;
  from->head_count = from->head_cap = 0;
}

static enum qp_rc
purge(void *self, void *context, struct qp__image *image, const bool *gone, bool dry_run,
      struct qp_gc_report *out, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__mem_context *c = context;
  struct qp__image kept;
  struct qp__mem_bytes *messages;
  uint32_t *moved;
  bool any = false;
  bool ok;

  (void)image;
  (void)out; /* nothing is ever left over */
  for (uint32_t slot = 0; slot < c->image.tree.count && !any; slot++)
    any = gone[slot];
  if (!any || dry_run)
    return QP_OK;
  qp__image_init(&kept);
  messages = qp__alloc(((size_t)c->image.tree.count + 1) * sizeof(*messages));
  qp__mutex_lock(&m->lock);
  moved = qp__image_copy_kept(&c->image, gone, &kept);
  ok = messages && moved;
  for (uint32_t slot = 0; slot < c->image.tree.count && ok; slot++)
    if (gone[slot])
      qp__free(c->messages[slot].data);
    else
      messages[moved[slot]] = c->messages[slot];
  if (ok) {
    replace_image(&c->image, &kept);
    qp__free(c->messages);
    c->messages = messages;
    c->cap = c->image.tree.count; /* the memory is larger, which does not matter */
    m->commits++;
  } else {
    qp__free(messages);
  }
  qp__mutex_unlock(&m->lock);
  qp__free(moved);
  qp__image_release(&kept);
  return ok ? QP_OK : qp__fail_nomem(err, "forgetting messages");
}

const struct qp__driver_gc qp__mem_gc = { .purge = purge };

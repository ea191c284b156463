/* branch_fork.c - which messages branches share, computed from the index alone. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/context/context_int.h"

/* The last message that both paths have; QP__NO_SLOT: they share no message. All entries of the
 * same depth have their jump at the same depth, so both sides stay level. */
static uint32_t
common_ancestor(const struct qp__tree *t, uint32_t a, uint32_t b)
{
  uint32_t depth;

  if (a == QP__NO_SLOT || b == QP__NO_SLOT)
    return QP__NO_SLOT;
  depth = qp__tree_at(t, a)->depth;
  if (qp__tree_at(t, b)->depth < depth)
    depth = qp__tree_at(t, b)->depth;
  a = qp__tree_ancestor(t, a, depth);
  b = qp__tree_ancestor(t, b, depth);
  while (a != b) {
    const struct qp__entry *x = qp__tree_at(t, a);
    const struct qp__entry *y = qp__tree_at(t, b);
    bool far = x->jump != y->jump;

    if (x->depth == 0)
      return QP__NO_SLOT;
    a = far ? x->jump : x->parent;
    b = far ? y->jump : y->parent;
  }
  return a;
}

static void
describe(const struct qp__tree *t, uint32_t head, uint32_t other, struct qp_branch_fork *out)
{
  uint32_t common = common_ancestor(t, head, other);

  if (head == QP__NO_SLOT)
    return;
  out->head = qp__tree_at(t, head)->id;
  out->messages = (uint64_t)qp__tree_at(t, head)->depth + 1;
  out->shared = common == QP__NO_SLOT ? 0 : (uint64_t)qp__tree_at(t, common)->depth + 1;
  if (out->shared < out->messages)
    out->first = qp__tree_at(t, qp__tree_ancestor(t, head, (uint32_t)out->shared))->id;
}

enum qp_rc
qp_branch_forks(struct qp_context *context, const char *branch, qp_branch_fork_visit *visit,
                void *arg, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  struct qp__branch *b;
  enum qp_rc rc = qp__view_branch(v, branch, &b, err);
  uint32_t other = rc ? QP__NO_SLOT : atomic_load_explicit(&b->head, memory_order_acquire);

  for (size_t i = 0; !rc && i < v->meta->branch_count; i++) {
    struct qp_branch_fork fork = { .name = v->meta->branches[i].name,
                                   .created_at = v->meta->branches[i].created_at };
    uint32_t head = atomic_load_explicit(&v->branches[i]->head, memory_order_acquire);

    describe(&context->tree, v->branches[i] == b ? other : head, other, &fork);
    rc = visit(arg, &fork);
  }
  qp__view_unref(v);
  return rc;
}

/* ---- where a message is ---- */

static bool
has(const struct qp__tree *t, const struct qp__branch *b, uint32_t slot)
{
  uint32_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  uint32_t depth = qp__tree_at(t, slot)->depth;

  return head != QP__NO_SLOT && qp__tree_at(t, head)->depth >= depth &&
         qp__tree_ancestor(t, head, depth) == slot;
}

enum qp_rc
qp_branch_of_message(struct qp_context *context, const struct qp_uuid *id, const char *prefer,
                     char **out, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  struct qp__branch *b = NULL;
  uint32_t slot = QP__NO_SLOT;
  bool found = false;
  enum qp_rc rc = QP_OK;

  if (!qp__tree_find(&context->tree, id, false, &slot))
    rc = qp__fail_nomem(err, "looking up a message");
  if (!rc && slot != QP__NO_SLOT) {
    found = qp__view_branch(v, prefer, &b, NULL) == QP_OK && has(&context->tree, b, slot);
    for (size_t i = 0; !found && i < v->meta->branch_count; i++) {
      b = v->branches[i];
      found = has(&context->tree, b, slot);
    }
  }
  if (!rc && !found) {
    char text[QP_UUID_TEXT];

    rc = qp__fail(err, QP_NOTFOUND, "no branch of this context has message %s",
                  qp_uuid_text(id, text));
  }
  if (!rc) {
    *out = qp__strdup(b->name);
    if (!*out)
      rc = qp__fail_nomem(err, "looking up a message");
  }
  qp__view_unref(v);
  return rc;
}

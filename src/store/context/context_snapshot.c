/* context_snapshot.c - the view that readers have of a context: its metadata and branches,
 * immutable, with a reference count. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "store/context/context_int.h"

/* ---- branches ---- */

static struct qp__branch *
new_branch(const char *name)
{
  size_t n = strlen(name);
  struct qp__branch *b = qp__alloc(sizeof(*b) + n + 1);
  struct qp__buf dir;

  if (!b)
    return NULL;
  atomic_init(&b->refs, 1);
  atomic_init(&b->head, QP__NO_SLOT);
  b->staged_head = QP__NO_SLOT;
  memcpy(b->name, name, n + 1);
  qp__buf_init(&dir, QP__BRANCH_ENCODED_MAX * 4);
  (void)qp__buf_add_str(&dir, "branch-");
  (void)qp__percent_encode(&dir, name, n);
  b->dir = dir.rc ? NULL : qp__buf_take(&dir, NULL);
  qp__buf_release(&dir);
  if (!b->dir) {
    qp__free(b);
    return NULL;
  }
  return b;
}

static void
unref_branch(struct qp__branch *b)
{
  QP_ASSERT(!b || atomic_load(&b->refs) > 0);
  if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) {
    qp__free(b->dir);
    qp__free(b);
  }
}

/* ---- views ---- */

void
qp__view_unref(struct qp__view *v)
{
  QP_ASSERT(!v || atomic_load(&v->refs) > 0);
  if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
    return;
  for (size_t i = 0; v->branches && i < v->meta->branch_count; i++)
    unref_branch(v->branches[i]);
  qp__free(v->branches);
  qp__meta_free(v->meta);
  qp__free(v);
}

struct qp__view *
qp__view_get(struct qp_context *c)
{
  struct qp__view *v;

  qp__mutex_lock(&c->view_lock);
  v = c->view;
  atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  qp__mutex_unlock(&c->view_lock);
  return v;
}

static struct qp__branch *
find_branch(const struct qp__view *v, const char *name)
{
  const struct qp__branch_def *def = v ? qp__meta_branch(v->meta, name) : NULL;

  return def ? v->branches[def - v->meta->branches] : NULL;
}

enum qp_rc
qp__view_branch(const struct qp__view *v, const char *name, struct qp__branch **out,
                struct qp_err *err)
{
  struct qp__branch *b = find_branch(v, name ? name : v->meta->active);

  if (!b)
    return qp__fail(err, QP_NOTFOUND, "there is no branch '%.80s'", name ? name : v->meta->active);
  *out = b;
  return QP_OK;
}

int64_t
qp__view_time(const struct qp__view *v, const struct qp__tree *tree)
{
  int64_t latest = v->meta->updated_at;

  for (size_t i = 0; i < v->meta->branch_count; i++) {
    uint32_t head = atomic_load_explicit(&v->branches[i]->head, memory_order_acquire);

    if (head != QP__NO_SLOT && qp__tree_at(tree, head)->time > latest)
      latest = qp__tree_at(tree, head)->time;
  }
  return latest;
}

enum qp_rc
qp__view_new(struct qp__meta *meta, const struct qp__view *old, struct qp__view **out,
             struct qp_err *err)
{
  struct qp__view *v = qp__alloc0(1, sizeof(*v));

  if (!v) {
    qp__meta_free(meta);
    return qp__fail_nomem(err, "building a context");
  }
  atomic_init(&v->refs, 1);
  v->meta = meta;
  v->branches = qp__alloc0(meta->branch_count, sizeof(struct qp__branch *));
  for (size_t i = 0; v->branches && i < meta->branch_count; i++) {
    struct qp__branch *b = find_branch(old, meta->branches[i].name);

    if (b)
      atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    else
      b = new_branch(meta->branches[i].name);
    v->branches[i] = b;
    if (!b)
      break;
  }
  if (!v->branches || (meta->branch_count && !v->branches[meta->branch_count - 1])) {
    qp__view_unref(v);
    return qp__fail_nomem(err, "building a context");
  }
  *out = v;
  return QP_OK;
}

/* ---- invariants ---- */

static void
check_view(const struct qp__view *v, const struct qp__tree *tree)
{
  QP_ASSERT(atomic_load(&v->refs) > 0);
  for (size_t i = 0; i < v->meta->branch_count; i++) {
    const struct qp__branch *b = v->branches[i];
    uint32_t head = atomic_load_explicit(&b->head, memory_order_acquire);

    QP_ASSERT(atomic_load(&b->refs) > 0);
    QP_ASSERT(strcmp(b->name, v->meta->branches[i].name) == 0);
    QP_ASSERT(head == QP__NO_SLOT || head < atomic_load(&tree->visible));
    QP_ASSERT(b->staged_head == QP__NO_SLOT || b->staged_head < tree->count);
  }
}

void
qp__context_invariants(struct qp_context *c, bool alone)
{
  QP_ASSERT(alone || qp__mutex_held(&c->write_lock));
  if (!c->staged_view) /* it could not be loaded */
    return;
  qp__tree_invariants(&c->tree, alone);
  check_view(c->staged_view, &c->tree);
  QP_ASSERT(!alone || c->view);
}

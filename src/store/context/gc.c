/* gc.c - garbage collection: moves messages that no branch reaches to the trash, restores them,
 * deletes them.
 *
 * (1) Every descendant of a message in the trash is in the trash: children are moved there before
 *     their parents and are restored after them. So a message that a branch reaches is never in the
 *     trash, and to restore a message only the unbroken row of ancestors above it is restored.
 * (2) A message is deleted only when all its children are: no entry ever lacks its parent.
 * Each step is a separate commit and leaves a consistent context. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/context/context_int.h"

#define BATCH 256                     /* messages in one commit … */
#define BATCH_BYTES ((size_t)4 << 20) /* … unless their contents are longer than that */

/* ---- a batch of moves ---- */

struct batch {
  struct qp_store *store;
  void *driver;
  struct qp__tree *tree;
  struct qp__driver_change changes[BATCH];
  struct qp__buf texts[BATCH]; /* contents, where a change has one */
  uint32_t slots[BATCH];
  size_t count;
  size_t bytes;
};

static struct batch *
new_batch(struct qp_store *s, void *driver, struct qp__tree *tree, struct qp_err *err)
{
  struct batch *b = qp__alloc0(1, sizeof(*b));

  if (!b) {
    (void)qp__fail_nomem(err, "collecting garbage");
    return NULL;
  }
  b->store = s;
  b->driver = driver;
  b->tree = tree;
  for (size_t i = 0; i < BATCH; i++)
    qp__buf_init(&b->texts[i], (size_t)1 << 30);
  return b;
}

static void
empty_batch(struct batch *b)
{
  for (size_t i = 0; i < b->count; i++)
    qp__buf_release(&b->texts[i]);
  b->count = 0;
  b->bytes = 0;
}

static void
free_batch(struct batch *b)
{
  if (!b)
    return;
  empty_batch(b);
  qp__free(b);
}

static struct qp__driver_change *
add_change(struct batch *b, uint32_t slot, enum qp__driver_change_kind kind)
{
  struct qp__driver_change *ch = &b->changes[b->count];
  const struct qp__entry *e = qp__tree_at(b->tree, slot);

  memset(ch, 0, sizeof(*ch));
  ch->kind = kind;
  ch->context = b->driver;
  ch->id = e->id;
  ch->entry = e;
  ch->dir = qp__tree_dir_name(b->tree, e->dir);
  b->slots[b->count++] = slot;
  return ch;
}

/* With `context` its write lock is held, and is released in any case. */
static enum qp_rc
commit_batch(struct batch *b, struct qp_context *context, struct qp_err *err)
{
  struct qp__effect effect = { .context = context };
  struct qp__commit commit = { .changes = b->changes, .count = b->count };

  if (context) {
    commit.effects = &effect;
    commit.returned = b->slots;
    commit.returned_count = b->count;
  }
  return qp__commit(b->store, &commit, err);
}

/* ---- restoring ---- */

static bool
is_trashed(const struct qp__tree *tree, uint32_t slot)
{
  return qp__entry_kind(qp__tree_at(tree, slot)) == QP__PLACE_TRASH;
}

/* Adds the topmost entries of the row of trashed entries that ends with `slot`. */
static void
add_topmost(struct batch *b, uint32_t slot)
{
  uint32_t ring[BATCH];
  size_t n = 0;

  for (; slot != QP__NO_SLOT && is_trashed(b->tree, slot);
       slot = qp__tree_at(b->tree, slot)->parent)
    ring[n++ % BATCH] = slot;
  for (size_t i = 0; i < n && i < BATCH; i++)
    (void)add_change(b, ring[(n - 1 - i) % BATCH], QP__CHANGE_UNTRASH);
}

enum qp_rc
qp__context_untrash(struct qp_context *c, uint32_t slot, struct qp_err *err)
{
  struct batch *b;
  enum qp_rc rc = QP_OK;

  if (!is_trashed(&c->tree, slot))
    return QP_OK;
  b = new_batch(c->store, c->driver, &c->tree, err);
  if (!b)
    return QP_NOMEM;
  while (!rc && is_trashed(&c->tree, slot)) {
    qp__mutex_lock(&c->write_lock);
    empty_batch(b);
    add_topmost(b, slot);
    if (b->count)
      rc = commit_batch(b, c, err);
    else /* another thread was quicker */
      qp__mutex_unlock(&c->write_lock);
  }
  free_batch(b);
  return rc;
}

/* ---- listing ---- */

static void
describe_row(const struct qp__tree *tree, uint32_t last, struct qp_trash_row *out)
{
  const struct qp__entry *e = qp__tree_at(tree, last);

  memset(out, 0, sizeof(*out));
  out->last = e->id;
  out->created_at = e->time;
  out->trashed_at = qp__place_time(atomic_load(&e->place));
  for (uint32_t slot = last; slot != QP__NO_SLOT && is_trashed(tree, slot); slot = e->parent) {
    e = qp__tree_at(tree, slot);
    out->first = e->id;
    out->messages++;
    out->bytes += e->size;
  }
}

enum qp_rc
qp_trash_list(struct qp_context *context, qp_trash_visit *visit, void *arg, struct qp_err *err)
{
  const struct qp__tree *tree = &context->tree;
  uint32_t count = atomic_load_explicit(&tree->visible, memory_order_acquire);
  bool *inner; /* it has a child in the trash */
  enum qp_rc rc = QP_OK;

  if (!atomic_load(&tree->trashed_count))
    return QP_OK;
  inner = qp__alloc0((size_t)count + 1, sizeof(bool));
  if (!inner)
    return qp__fail_nomem(err, "listing the trash");
  for (uint32_t slot = count; slot-- > 0 && !rc;) {
    uint32_t parent = qp__tree_at(tree, slot)->parent;
    struct qp_trash_row row;

    if (!is_trashed(tree, slot))
      continue;
    if (parent != QP__NO_SLOT)
      inner[parent] = true;
    if (inner[slot])
      continue;
    describe_row(tree, slot, &row);
    rc = visit(arg, &row);
  }
  qp__free(inner);
  return rc;
}

/* ---- collecting ---- */

struct gc {
  struct qp__claimed context;
  struct qp__tree *tree;
  int64_t now;
  int64_t grace;
  bool dry_run;
  bool *reached; /* per slot */
  bool *gone;    /* per slot: is purged */
  struct batch *batch;
  struct qp_gc_report report;
};

static void
mark_reached(struct gc *g)
{
  const struct qp__image *image = &g->context.image;

  for (size_t i = 0; i < image->head_count; i++)
    for (uint32_t slot = image->heads[i].slot; slot != QP__NO_SLOT && !g->reached[slot];
         slot = qp__tree_at(g->tree, slot)->parent)
      g->reached[slot] = true;
}

/* Commits the batch and updates the tree. */
static enum qp_rc
flush(struct gc *g, struct qp_err *err)
{
  struct batch *b = g->batch;
  enum qp_rc rc = b->count ? commit_batch(b, NULL, err) : QP_OK;

  for (size_t i = 0; i < b->count && !rc; i++)
    qp__tree_set_place(g->tree, qp__tree_at(g->tree, b->slots[i]),
                       b->changes[i].kind == QP__CHANGE_TRASH ? qp__place_trash(g->now) : 0);
  empty_batch(b);
  return rc;
}

/* The content of a message in an archive: in the trash it gets a file. A lost message has no
 * content there either. */
static enum qp_rc
add_content(struct gc *g, struct qp__driver_change *ch, struct qp__buf *text, struct qp_err *err)
{
  struct qp_store *s = g->context.store;
  struct qp_err cause = { QP_OK, "" };
  bool copy;
  enum qp_rc rc = qp__stored_read(s, g->context.driver, g->tree, ch->entry, text, &copy, &cause);

  if (rc == QP_UNAVAILABLE)
    return QP_OK;
  if (rc)
    return qp__fail_as(err, rc, &cause);
  if ((!text->len || text->data[text->len - 1] != '\n') && qp__buf_add_char(text, '\n'))
    return qp__buf_check(text, "a message", err);
  ch->bytes = qp__buf_bytes(text);
  g->batch->bytes += text->len;
  return QP_OK;
}

/* Moves every message that no head reaches to the trash, the youngest first. Restores reachable
 * messages, which only a repaired index can have there. */
static enum qp_rc
move_all(struct gc *g, struct qp_err *err)
{
  struct batch *b = g->batch;
  enum qp_rc rc = QP_OK;

  for (uint32_t slot = g->tree->count; slot-- > 0 && !rc;) {
    const struct qp__entry *e = qp__tree_at(g->tree, slot);
    enum qp__place_kind kind = qp__entry_kind(e);
    struct qp__driver_change *ch;

    if (g->reached[slot] == (kind != QP__PLACE_TRASH))
      continue;
    g->report.trashed += !g->reached[slot];
    g->report.trashed_bytes += g->reached[slot] ? 0 : e->size;
    if (g->dry_run)
      continue;
    ch = add_change(b, slot, g->reached[slot] ? QP__CHANGE_UNTRASH : QP__CHANGE_TRASH);
    ch->at = g->now;
    if (!g->reached[slot] && kind == QP__PLACE_PACK)
      rc = add_content(g, ch, &b->texts[b->count - 1], err);
    if (!rc && (b->count == BATCH || b->bytes > BATCH_BYTES))
      rc = flush(g, err);
  }
  return rc ? rc : flush(g, err);
}

/* Chooses the messages that have been in the trash long enough. */
static void
choose_gone(struct gc *g)
{
  for (uint32_t slot = 0; slot < g->tree->count; slot++) {
    uint64_t place = atomic_load(&qp__tree_at(g->tree, slot)->place);
    int64_t since = qp__place_kind(place) == QP__PLACE_TRASH ? qp__place_time(place) : g->now;

    g->gone[slot] = !g->reached[slot] && since <= g->now && g->now - since >= g->grace;
  }
  for (uint32_t slot = g->tree->count; slot-- > 0;) { /* rule (2) */
    const struct qp__entry *e = qp__tree_at(g->tree, slot);

    if (!g->gone[slot] && e->parent != QP__NO_SLOT)
      g->gone[e->parent] = false;
    g->report.purged += g->gone[slot];
    g->report.purged_bytes += g->gone[slot] ? e->size : 0;
    g->report.waiting += !g->gone[slot] && !g->reached[slot];
  }
}

static enum qp_rc
collect(struct gc *g, struct qp_err *err)
{
  const struct qp__driver_gc *gc = g->context.store->driver->gc;
  enum qp_rc rc;

  g->tree = &g->context.image.tree;
  g->reached = qp__alloc0((size_t)g->tree->count + 1, sizeof(bool));
  g->gone = qp__alloc0((size_t)g->tree->count + 1, sizeof(bool));
  g->batch = new_batch(g->context.store, g->context.driver, g->tree, err);
  if (!g->reached || !g->gone || !g->batch)
    return qp__fail_nomem(err, "collecting garbage");
  mark_reached(g);
  rc = move_all(g, err);
  if (rc)
    return rc;
  choose_gone(g);
  return gc->purge(g->context.store->self, g->context.driver, &g->context.image, g->gone,
                   g->dry_run, &g->report, err);
}

enum qp_rc
qp_context_gc(struct qp_store *store, const struct qp_uuid *id, int64_t grace, unsigned flags,
              struct qp_gc_report *out, struct qp_err *err)
{
  struct gc g = { .grace = grace, .dry_run = (flags & QP_SPACE_DRY_RUN) != 0 };
  enum qp_rc rc;

  if (!store->driver->gc)
    return qp__store_lacks(store, "delete messages for good", err);
  if (grace < 0)
    return qp__fail(err, QP_INVALID, "the grace period is negative");
  rc = qp__claimed_load(store, id, g.dry_run, &g.context, err);
  if (rc)
    return rc;
  g.now = store->os->now_ms(store->os->self);
  rc = collect(&g, err);
  free_batch(g.batch);
  qp__free(g.reached);
  qp__free(g.gone);
  qp__claimed_release(&g.context);
  if (!rc && out)
    *out = g.report;
  return rc;
}

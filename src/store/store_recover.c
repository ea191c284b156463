/* store_recover.c - makes a store writable again after a failure, without closing it.
 *
 * After a failed sync, or when a durable commit could not be applied, the driver refuses all writes
 * (journal.h). Then the state in memory is wrong in two ways: writers have staged states that will
 * never be stored, and commits whose outcome was unknown may turn out to be stored. Readers are
 * right all the time: they see what was applied, which is never undone.
 *
 * So the stored state is always what readers see, and perhaps some commits more. Recovery
 *   1. excludes writers: it holds all their locks, and nothing is being loaded or rewritten;
 *   2. lets the driver decide about the uncertain commits (mend);
 *   3. loads each open context again and updates the one in memory: entries that were never
 *      visible are dropped, stored ones are added, and heads and metadata are published as by a
 *      commit;
 *   4. lets the driver continue (resume).
 * If a step fails, the driver still refuses all writes, and recovery can be tried again.
 *
 * Locks are taken in the usual order: prompt_lock, write locks by id, then those of sessions. */
#include <string.h>

#include "base/err.h"
#include "os/file.h"
#include "store/context/context_int.h"
#include "store/events/events.h"
#include "store/session/session_int.h"

#define PROBE_BYTES 65536

enum qp_rc
qp_store_writable(struct qp_store *store, struct qp_err *err)
{
  enum qp_rc rc = qp__check_writable(store, err);

  return rc || !store->driver->recovery ? rc
                                        : store->driver->recovery->check_writes(store->self, err);
}

/* ---- room ---- */

static enum qp_rc
try_write(struct qp_store *s, struct qp_err *err)
{
  static const char zeros[PROBE_BYTES];
  char name[64];
  int sys;

  s->driver->directory->temp_name(s->self, name);
  sys = qp__file_create(s->os, s->root, name, (struct qp_bytes){ zeros, sizeof(zeros) });
  if (!sys)
    (void)s->os->unlinkat(s->os->self, s->root, name, 0);
  return sys ? qp__fail_sys(err, sys, "cannot write %d bytes to the data directory", PROBE_BYTES)
             : QP_OK;
}

enum qp_rc
qp_store_probe(struct qp_store *store, struct qp_err *err)
{
  enum qp_rc rc = qp_store_writable(store, err);

  if (!rc && store->driver->recovery && store->driver->recovery->probe)
    rc = store->driver->recovery->probe(store->self, err);
  return rc || !store->driver->directory ? rc : try_write(store, err);
}

/* ---- one context ---- */

/* Whether the place of a message means the same in two trees. */
static bool
same_place(const struct qp__tree *a, uint64_t x, const struct qp__tree *b, uint64_t y)
{
  if (qp__place_kind(x) != QP__PLACE_PACK || qp__place_kind(y) != QP__PLACE_PACK)
    return x == y;
  return qp__place_pos(x) == qp__place_pos(y) &&
         strcmp(qp__tree_pack_of(a, x), qp__tree_pack_of(b, y)) == 0 &&
         a->frames[qp__place_frame(x)].offset == b->frames[qp__place_frame(y)].offset;
}

/* Whether the context in memory can be changed to the image while other threads read it: it only
 * grows, and no message moved to another pack. */
static bool
can_become(const struct qp_context *c, const struct qp__image *image)
{
  const struct qp__tree *now = &c->tree;
  const struct qp__tree *then = &image->tree;
  uint32_t visible = atomic_load(&now->visible);

  if (then->count < visible)
    return false;
  for (uint32_t i = 0; i < then->count; i++) {
    const struct qp__entry *b = qp__tree_at(then, i);
    const struct qp__entry *a = i < visible ? qp__tree_at(now, i) : NULL;
    uint64_t place = atomic_load(&b->place);

    if (a && (!qp_uuid_equal(&a->id, &b->id) || a->parent != b->parent || a->size != b->size ||
              memcmp(a->hash, b->hash, sizeof(a->hash)) != 0))
      return false;
    if (qp__place_kind(place) == QP__PLACE_PACK &&
        !(a && same_place(now, atomic_load(&a->place), then, place)))
      return false;
  }
  return true;
}

/* Allocates room for all stored entries, and the view of the stored metadata, or a reference to the
 * readers' view if that is equal. */
static enum qp_rc
make_ready(struct qp_context *c, struct qp__image *image, struct qp__view **view,
           struct qp_err *err)
{
  struct qp__meta *meta = image->meta;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  if (!qp__tree_cut(&c->tree) || !qp__tree_reserve(&c->tree, image->tree.count - c->tree.count))
    return qp__fail_nomem(err, "recovering a context");
  if (qp__meta_equal(meta, c->view->meta) && meta->updated_at == c->view->meta->updated_at) {
    *view = qp__view_get(c);
    return QP_OK;
  }
  qp__buf_init(&text, QP__META_MAX);
  rc = qp__meta_seal(meta, &text, err);
  if (!rc) {
    image->meta = NULL;
    rc = qp__view_new(meta, c->view, view, err);
  }
  if (!rc)
    (*view)->meta_bytes = text.len;
  qp__buf_release(&text);
  return rc;
}

/* Adds the stored entries that readers have not seen. */
static enum qp_rc
add_entries(struct qp_context *c, const struct qp__image *image, struct qp_err *err)
{
  for (uint32_t i = c->tree.count; i < image->tree.count; i++) {
    struct qp__entry e;

    if (qp__tree_translate(&c->tree, &image->tree, qp__tree_at(&image->tree, i), &e))
      return qp__fail_nomem(err, "recovering a context");
    e.parent = qp__tree_at(&image->tree, i)->parent;
    (void)qp__tree_add(&c->tree, &e);
  }
  return QP_OK;
}

/* Messages that were moved to the trash or restored. */
static bool
move_entries(struct qp_context *c, const struct qp__image *image, uint32_t visible)
{
  bool moved = false;

  for (uint32_t i = 0; i < visible; i++) {
    struct qp__entry *e = qp__tree_at(&c->tree, i);
    uint64_t place = atomic_load(&qp__tree_at(&image->tree, i)->place);

    if (qp__place_kind(place) == QP__PLACE_PACK || place == atomic_load(&e->place))
      continue;
    qp__tree_set_place(&c->tree, e, place);
    moved = true;
  }
  return moved;
}

static bool
move_heads(struct qp__view *v, const struct qp__image *image)
{
  bool moved = false;

  for (size_t i = 0; i < v->meta->branch_count; i++) {
    struct qp__branch *b = v->branches[i];
    const struct qp__head *h = qp__image_head(image, b->name);

    b->staged_head = h ? h->slot : QP__NO_SLOT;
    moved |= atomic_exchange(&b->head, b->staged_head) != b->staged_head;
  }
  return moved;
}

/* `view` becomes the view of readers and writers. False: readers had it already. */
static bool
show_view(struct qp_context *c, struct qp__view *view)
{
  struct qp__view *old;
  bool other;

  atomic_fetch_add(&view->refs, 1);
  qp__mutex_lock(&c->view_lock);
  old = c->view;
  c->view = view;
  qp__mutex_unlock(&c->view_lock);
  other = old != view;
  qp__view_unref(old);
  qp__view_unref(c->staged_view);
  c->staged_view = view;
  return other;
}

static enum qp_rc
become(struct qp_context *c, struct qp__image *image, struct qp_err *err)
{
  uint32_t visible = atomic_load(&c->tree.visible);
  struct qp__view *view = NULL;
  bool changed;
  enum qp_rc rc = make_ready(c, image, &view, err);

  QP_ASSERT_HELD(&c->write_lock);
  if (!rc)
    rc = add_entries(c, image, err);
  if (rc) {
    qp__view_unref(view);
    return rc;
  }
  changed = c->tree.count != visible;
  if (changed)
    qp__tree_publish(&c->tree, c->tree.count, c->tree.pending_bytes);
  changed |= move_entries(c, image, visible);
  changed |= move_heads(view, image);
  changed |= show_view(c, view);
  if (changed)
    atomic_fetch_add_explicit(&c->version, 1, memory_order_release);
  if (QP_CHECKED)
    qp__context_invariants(c, false);
  return QP_OK;
}

/* Updates a context to the stored state. */
static enum qp_rc
renew(struct qp_context *c, struct qp_err *err)
{
  struct qp_store *s = c->store;
  struct qp__problems problems = { .log = &s->log };
  struct qp__image image;
  void *fresh = NULL;
  enum qp_rc rc;

  QP_ASSERT_HELD(&c->write_lock);
  if (c->old || atomic_load(&c->stale))
    return QP_OK;
  if (qp__is_held(s, &c->id)) {
    qp__context_retire(c);
    return QP_OK;
  }
  qp__image_init(&image);
  rc = s->driver->context_load(s->self, &c->id, &image, &problems, &fresh, err);
  if (rc == QP_NOTFOUND || rc == QP_CORRUPT) {
    qp__context_retire(c);
    rc = QP_OK;
  } else if (!rc && (image.old || !can_become(c, &image))) {
    qp__context_retire(c);
  } else if (!rc) {
    rc = become(c, &image, err);
    if (!rc)
      rc = qp__events_renew(c, err);
    if (!rc) {
      s->driver->recovery->renew(s->self, c->driver, fresh);
      fresh = NULL;
    }
  }
  if (fresh)
    s->driver->context_free(s->self, fresh);
  qp__image_release(&image);
  return rc;
}

/* ---- the store ---- */

/* With all locks of writers. */
static enum qp_rc
mend(struct qp_store *s, const struct qp__gathered *open, struct qp_err *err)
{
  enum qp_rc rc = s->driver->recovery->mend(s->self, err);

  QP_ASSERT_HELD(&s->prompt_lock);
  QP_ASSERT_HELD(&s->sessions->write_lock);
  for (size_t i = 0; i < open->count && !rc; i++)
    rc = renew(open->list[i], err);
  if (!rc)
    rc = qp__sessions_renew(s, err);
  if (!rc) {
    atomic_fetch_add(&s->recoveries, 1);
    s->driver->recovery->resume(s->self);
    qp__catalogue_mark_all(s->catalogue);
    qp__usage_forget(&s->usage);
  }
  return rc;
}

static enum qp_rc
recover(struct qp_store *s, struct qp_err *err)
{
  struct qp__gathered open;
  enum qp_rc rc = qp__contexts_gather(s, &open, err);

  QP_ASSERT_HELD(&s->prompt_lock);
  if (rc)
    return rc;
  for (size_t i = 0; i < open.count; i++)
    qp__mutex_lock(&open.list[i]->write_lock);
  qp__mutex_lock(&s->sessions->write_lock);
  qp__sessions_wait_idle(s->sessions);
  rc = mend(s, &open, err);
  qp__mutex_unlock(&s->sessions->write_lock);
  for (size_t i = open.count; i-- > 0;)
    qp__mutex_unlock(&open.list[i]->write_lock);
  qp__contexts_release(s, &open);
  return rc;
}

enum qp_rc
qp_store_recover(struct qp_store *store, struct qp_err *err)
{
  enum qp_rc rc = qp__check_writable(store, err);

  if (rc || !store->driver->recovery)
    return rc;
  qp__mutex_lock(&store->prompt_lock);
  if (store->driver->recovery->is_stopped(store->self))
    rc = recover(store, err);
  qp__mutex_unlock(&store->prompt_lock);
  return rc;
}

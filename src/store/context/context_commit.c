/* context_commit.c - commits: from the changes of a writer to the state that readers see, and the
 * folds that become necessary. */
#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "store/context/context_int.h"
#include "store/events/events.h"

enum qp_rc
qp__check_writable(const struct qp_store *s, struct qp_err *err)
{
  if (s->readonly)
    return qp__fail(err, QP_READONLY, "the store was opened for reading only");
  return QP_OK;
}

enum qp_rc
qp__check_changeable(const struct qp_context *c, struct qp_err *err)
{
  char id[QP_UUID_TEXT];
  enum qp_rc rc = qp__check_writable(c->store, err);

  if (!rc && c->old)
    rc = qp__fail(err, QP_READONLY,
                  "context %s is in an old format: migrate it before it is changed "
                  "(quipu migrate, or QP_LOAD_MIGRATE)",
                  qp_uuid_text(&c->id, id));
  if (!rc && atomic_load(&c->stale))
    rc = qp__fail(err, QP_IO,
                  "context %s has changed on the disk since it was opened: open it again",
                  qp_uuid_text(&c->id, id));
  return rc;
}

/* ---- publication ---- */

/* Counts the stored bytes of an effect for the owner of the context. `old` is the view before, or
 * NULL: unchanged. Call it after the catalogue was marked. */
static void
count_effect(const struct qp__commit *commit, const struct qp__effect *e,
             const struct qp__view *old)
{
  struct qp__usage *usage = &e->context->store->usage;
  const struct qp__view *now = e->view ? e->view : e->context->view;
  const char *owner = qp__meta_owner(now->meta);
  int64_t bytes = old ? (int64_t)now->meta_bytes - (int64_t)old->meta_bytes : 0;

  if (!atomic_load(&usage->owners))
    return;
  if (old && !qp__str_same(qp__meta_owner(old->meta), owner)) {
    qp__usage_forget(usage);
    return;
  }
  for (size_t i = 0; i < commit->added_count && e == commit->effects; i++)
    bytes += commit->added[i].size;
  qp__usage_add(usage, owner, bytes);
}

/* Called in commit order, by any thread. */
static void
publish(void *arg)
{
  struct qp__commit *commit = arg;

  /* Another thread may finish this commit before its own thread has left advance(). */
  while (!atomic_load_explicit(&commit->advanced, memory_order_acquire))
    (void)sched_yield();
  for (struct qp__effect *e = commit->effects; e; e = e->next) {
    struct qp_context *c = e->context;
    struct qp__view *old = NULL;

    if (e->events)
      qp__events_publish(e->events);
    if (commit->added_count && e == commit->effects)
      qp__tree_publish(&c->tree, commit->visible, commit->bytes);
    for (size_t i = 0; i < commit->returned_count && e == commit->effects; i++)
      qp__tree_set_place(&c->tree, qp__tree_at(&c->tree, commit->returned[i]), 0);
    for (size_t i = 0; i < e->move_count; i++)
      atomic_store_explicit(&e->moves[i].branch->head, e->moves[i].head, memory_order_release);
    if (e->view) {
      qp__mutex_lock(&c->view_lock);
      old = c->view;
      c->view = e->view;
      qp__mutex_unlock(&c->view_lock);
    }
    if (commit->added_count || commit->returned_count || e->move_count || e->view) {
      atomic_fetch_add_explicit(&c->version, 1, memory_order_release);
      qp__catalogue_mark(c->store->catalogue, &c->id);
      count_effect(commit, e, old);
    } /* events do not change the version or the catalogue */
    qp__view_unref(old);
  }
}

/* After staging: updates the state for the next writer. */
static void
advance(struct qp__commit *commit)
{
  for (struct qp__effect *e = commit->effects; e; e = e->next) {
    struct qp_context *c = e->context;

    if (commit->added_count && e == commit->effects) {
      for (size_t i = 0; i < commit->added_count; i++)
        (void)qp__tree_add(&c->tree, &commit->added[i]);
    }
    if (e->events)
      qp__events_advance(e->events);
    for (size_t i = 0; i < e->move_count; i++)
      e->moves[i].branch->staged_head = e->moves[i].head;
    if (e->view) {
      struct qp__view *old = c->staged_view;

      atomic_fetch_add_explicit(&e->view->refs, 1,
                                memory_order_relaxed); /* one published, one staged */
      c->staged_view = e->view;
      qp__view_unref(old);
    }
  }
}

/* ---- contexts whose files cannot be written ---- */

/* The files of a context cannot be written, and the state in memory is ahead of them. The next open
 * loads it again. */
static void
set_aside(struct qp_context *c)
{
  QP_ASSERT_HELD(&c->write_lock);
  if (!atomic_load(&c->stale))
    qp__context_retire(c);
}

/* Whether a commit failed because of only one of its places: a context, or a prompt that it
 * deletes. Its effects elsewhere are applied but not published: those contexts are behind. If the
 * store is not stopped, this is the only possible cause, unless the store was stopped and has
 * recovered since the commit was staged: then all contexts are up to date. */
static bool
was_set_aside(const struct qp_store *s, const struct qp__commit *commit)
{
  if (s->driver->recovery && !s->driver->recovery->is_stopped(s->self))
    return atomic_load(&s->recoveries) == commit->recoveries;
  for (const struct qp__effect *e = commit->effects; e; e = e->next)
    if (qp__is_held(s, &e->context->id))
      return true;
  return false;
}

/* ---- folds ---- */

struct qp__fold {
  struct qp_context *context; /* with its own reference */
  uint32_t count;
  struct qp__head *heads;
  size_t head_count;
  struct qp__view *view; /* keeps the names of the heads */
};

static void
free_fold(struct qp__fold *f)
{
  QP_ASSERT(!f || f->context);
  if (!f)
    return;
  qp__view_unref(f->view);
  qp__free(f->heads);
  qp__context_unpin(f->context);
  qp__free(f);
}

/* Starts a fold of the present state. NULL: out of memory; a later commit tries again. */
static struct qp__fold *
start_fold(struct qp_context *c)
{
  struct qp_store *s = c->store;
  struct qp__view *v = c->staged_view;
  struct qp__fold *f = qp__alloc0(1, sizeof(*f));

  QP_ASSERT_HELD(&c->write_lock);
  if (!f)
    return NULL;
  f->head_count = v->meta->branch_count;
  f->heads = qp__alloc0(f->head_count, sizeof(*f->heads));
  if (!f->heads) {
    qp__free(f);
    return NULL;
  }
  for (size_t i = 0; i < f->head_count; i++) {
    f->heads[i].name = v->branches[i]->name;
    f->heads[i].slot = v->branches[i]->staged_head;
  }
  atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  f->view = v;
  f->count = c->tree.count;
  f->context = c;
  qp__context_pin(c);
  s->driver->fold->start(s->self, c->driver);
  return f;
}

static void
run_fold(void *arg)
{
  struct qp__fold *f = arg;
  struct qp_context *c = f->context;
  struct qp_store *s = c->store;
  struct qp_err err;
  void *ticket = NULL;
  enum qp_rc rc =
      s->driver->fold->write(s->self, c->driver, &c->tree, f->count, f->heads, f->head_count, &err);

  qp__mutex_lock(&c->write_lock);
  if (!rc)
    rc = qp__check_changeable(c, &err); /* its files may have changed */
  if (!rc)
    rc = s->driver->fold->finish(s->self, c->driver, &ticket, &err);
  if (rc)
    s->driver->fold->abort(s->self, c->driver);
  qp__mutex_unlock(&c->write_lock);
  if (!rc) {
    rc = s->driver->finish(s->self, ticket, &err);
    if (rc && qp__is_held(s, &c->id)) {
      qp__mutex_lock(&c->write_lock);
      set_aside(c);
      qp__mutex_unlock(&c->write_lock);
    }
  }
  if (rc)
    qp__log(&s->log, QP_LOG_WARN, "fold", "cannot fold the index: %s", err.msg);
  qp__catalogue_mark(s->catalogue, &c->id); /* its files have changed */
  free_fold(f);
}

static struct qp__fold *
fold_if_wanted(struct qp_context *c)
{
  const struct qp__driver *d = c->store->driver;

  QP_ASSERT_HELD(&c->write_lock);
  return d->fold && d->fold->wanted(c->store->self, c->driver) ? start_fold(c) : NULL;
}

/* ---- commits ---- */

static void
unlock_all(struct qp__commit *commit)
{
  QP_ASSERT(commit->effects || !commit->added_count);
  for (struct qp__effect *e = commit->effects; e; e = e->next)
    qp__mutex_unlock(&e->context->write_lock);
}

static void
forget_views(struct qp__commit *commit)
{
  for (struct qp__effect *e = commit->effects; e; e = e->next)
    qp__view_unref(e->view);
}

enum qp_rc
qp__commit_prepare(struct qp_store *s, struct qp__driver_change *changes, size_t n,
                   struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__changes_prepare(s, changes, n);
  for (size_t i = 0; i < n && !rc; i++)
    rc = qp__fail_as(err, changes[i].rc, &changes[i].err);
  if (rc)
    qp__changes_discard(s, changes, n);
  return rc;
}

/* Whether the parents and heads of a commit are messages that exist once it is carried out. */
static bool
fits(const struct qp__commit *commit)
{
  for (size_t i = 0; i < commit->added_count; i++)
    if (commit->added[i].parent != QP__NO_SLOT && commit->added[i].parent >= commit->slot + i)
      return false;
  for (const struct qp__effect *e = commit->effects; e; e = e->next) {
    bool adds = commit->added_count && e == commit->effects;
    uint32_t count = adds ? commit->visible : e->context->tree.count;

    for (size_t i = 0; i < e->move_count; i++)
      if (e->moves[i].head != QP__NO_SLOT && e->moves[i].head >= count)
        return false;
  }
  return true;
}

/* ---- the rows of the catalogue, for a driver that keeps it ---- */

static int64_t
time_of(const struct qp__commit *commit, const struct qp__effect *e, uint32_t slot)
{
  const struct qp__tree *tree = &e->context->tree;

  if (slot == QP__NO_SLOT)
    return 0;
  return slot < tree->count ? qp__tree_at(tree, slot)->time
                            : commit->added[slot - commit->slot].time;
}

/* As qp__view_time(), after the commit. */
static int64_t
next_time(const struct qp__commit *commit, const struct qp__effect *e, const struct qp__view *v)
{
  int64_t latest = v->meta->updated_at;

  for (size_t i = 0; i < v->meta->branch_count; i++) {
    uint32_t head = v->branches[i]->staged_head;
    int64_t time;

    for (size_t k = 0; k < e->move_count; k++)
      if (e->moves[k].branch == v->branches[i])
        head = e->moves[k].head;
    time = time_of(commit, e, head);
    latest = time > latest ? time : latest;
  }
  return latest;
}

/* The new messages are the first `added_count` changes of kind MESSAGE, in their order. */
static void
describe_paths(struct qp__commit *commit, const struct qp__tree *tree)
{
  size_t n = 0;

  for (size_t i = 0; i < commit->count && n < commit->added_count; i++) {
    struct qp__driver_change *ch = &commit->changes[i];
    struct qp__entry *e = &commit->added[n];
    const struct qp__entry *p = NULL;

    if (ch->kind != QP__CHANGE_MESSAGE)
      continue;
    n++;
    if (e->parent != QP__NO_SLOT)
      p = e->parent < tree->count ? qp__tree_at(tree, e->parent)
                                  : &commit->added[e->parent - commit->slot];
    e->depth = p ? p->depth + 1 : 0;
    e->path_bytes = e->size + (p ? p->path_bytes : 0);
    ch->path_messages = (uint64_t)e->depth + 1;
    ch->path_bytes = e->path_bytes;
  }
}

/* The row of a context after the commit goes with one of its changes. */
static void
describe(struct qp__commit *commit, struct qp__effect *e)
{
  struct qp_context *c = e->context;
  const struct qp__view *v = e->view ? e->view : c->staged_view;
  bool adds = commit->added_count && e == commit->effects;
  struct qp__driver_change *last = NULL;

  if (!adds && !e->move_count && !e->view)
    return;
  for (size_t i = 0; i < commit->count; i++)
    if (commit->changes[i].context == c->driver && !qp__is_file_change(&commit->changes[i]))
      last = &commit->changes[i];
  if (!last)
    return;
  if (adds)
    describe_paths(commit, &c->tree);
  qp__driver_row_init(&e->row, v->meta, v->meta_bytes);
  e->row.whole = e->view != NULL;
  e->row.row.updated_at = next_time(commit, e, v);
  e->row.row.messages = adds ? commit->visible : c->tree.count;
  e->row.row.bytes = adds ? commit->bytes : c->tree.pending_bytes;
  last->row = &e->row;
}

enum qp_rc
qp__commit_stage(struct qp_store *s, struct qp__commit *commit, struct qp_err *err)
{
  struct qp_context *first = commit->effects ? commit->effects->context : NULL;
  enum qp_rc rc = QP_OK;

  for (struct qp__effect *e = commit->effects; e && !rc; e = e->next) {
    QP_ASSERT_HELD(&e->context->write_lock);
    rc = qp__check_changeable(e->context, err);
  }
  if (first && commit->added_count) {
    uint64_t bytes = first->tree.pending_bytes;

    for (size_t i = 0; i < commit->added_count; i++)
      bytes += commit->added[i].size;
    commit->slot = first->tree.count;
    commit->visible = first->tree.count + (uint32_t)commit->added_count;
    commit->bytes = bytes;
  }
  if (!rc && !QP_ENSURE(fits(commit)))
    rc = qp__fail(
        err, QP_CORRUPT,
        "internal error: a commit refers to a message that does not exist; it was refused");
  commit->recoveries = atomic_load(&s->recoveries);
  for (struct qp__effect *e = commit->effects; e && !rc && s->driver->catalogue; e = e->next)
    describe(commit, e);
  if (!rc)
    rc = s->driver->stage(s->self, commit->changes, commit->count, publish, commit, &commit->ticket,
                          err);
  if (!rc) {
    advance(commit);
    if (QP_CHECKED && first && qp__check_due(&first->unchecked, first->tree.count))
      qp__context_invariants(first, false);
    atomic_store_explicit(&commit->advanced, true, memory_order_release);
    commit->fold = first ? fold_if_wanted(first) : NULL;
    commit->queued = commit->pending && qp__committer_join(&s->committer, commit->pending);
  } else {
    /* With the locks: prepared changes refer to the contexts. */
    qp__changes_discard(s, commit->changes, commit->count);
    forget_views(commit);
    for (struct qp__effect *e = commit->effects; e; e = e->next)
      if (qp__is_held(s, &e->context->id))
        set_aside(e->context);
  }
  unlock_all(commit);
  return rc;
}

enum qp_rc
qp__commit_finish(struct qp_store *s, struct qp__commit *commit, struct qp_err *err)
{
  enum qp_rc rc = s->driver->finish(s->self, commit->ticket, err);

  QP_ASSERT(!commit->effects || atomic_load(&commit->advanced));
  if (rc) {
    forget_views(commit); /* not published: we still own that reference */
    if (was_set_aside(s, commit))
      for (struct qp__effect *e = commit->effects; e; e = e->next) {
        qp__mutex_lock(&e->context->write_lock);
        set_aside(e->context);
        qp__mutex_unlock(&e->context->write_lock);
      }
  }
  if (commit->fold)
    qp__workers_run(&s->folders, run_fold, commit->fold);
  return rc;
}

void
qp__commit_later(struct qp_store *s, struct qp__commit *commit)
{
  struct qp__pending *p = commit->pending;

  QP_ASSERT(commit->pending);
  if (commit->queued)
    qp__committer_go(&s->committer, p);
  else
    p->finish(p);
}

enum qp_rc
qp__commit(struct qp_store *s, struct qp__commit *commit, struct qp_err *err)
{
  enum qp_rc rc = qp__commit_prepare(s, commit->changes, commit->count, err);

  if (rc) {
    forget_views(commit);
    unlock_all(commit);
    return rc;
  }
  rc = qp__commit_stage(s, commit, err);
  return rc ? rc : qp__commit_finish(s, commit, err);
}

enum qp_rc
qp__commit_one(struct qp_store *s, struct qp__driver_change *change, struct qp_err *err)
{
  struct qp__commit commit = { .changes = change, .count = 1 };

  return qp__commit(s, &commit, err);
}

/* ---- metadata ---- */

enum qp_rc
qp__clone_meta(struct qp_context *c, struct qp__meta **out, struct qp_err *err)
{
  struct qp__meta *meta = NULL;
  enum qp_rc rc = qp__meta_clone(c->staged_view->meta, &meta, err);

  QP_ASSERT_HELD(&c->write_lock);
  if (rc)
    return rc;
  meta->updated_at = c->store->os->now_ms(c->store->os->self);
  *out = meta;
  return QP_OK;
}

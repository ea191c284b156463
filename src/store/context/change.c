/* change.c - one commit of many parts: branches, metadata, messages, a compaction record, events, a
 * key.
 *
 * Every change of a context is made here, except batches of messages, imports, the trash and the
 * deletion of prompts. With the context's write lock held, a struct work goes through the parts of
 * a struct qp_change in their order and tracks the resulting state:
 *   meta    the latest metadata, a clone from its first change on
 *   heads   of the branches that have moved or are new, by name; all others are where the staged
 *           view has them
 * and gathers the driver's changes. Then the changes are prepared and staged as one commit, whose
 * effect is a view of the metadata (if that has changed), the moved heads, the new entries and the
 * plan of the events. Until it is staged the context is unchanged, so after a failure only the ids
 * in the caller's messages must be reset.
 *
 * If a part refers to a prompt that the context did not refer to before, the lock of the prompts is
 * taken first. Whether the metadata does is known only after it was patched: then the work begins
 * again with the lock. The lock is released when the commit is staged, because the deletion of a
 * prompt reads the staged metadata. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/sized.h"
#include "base/str.h"
#include "model/message.h"
#include "store/context/message_save.h"
#include "store/context/record_file.h"
#include "store/events/events.h"

struct head {
  const char *name; /* the caller's, or of the staged view */
  uint32_t slot;
};

struct work {
  struct qp__pending pending; /* first, so that a pointer to it is a pointer to the work */
  struct qp_context *context;
  qp_done_fn *done; /* NULL: the caller waits */
  void *arg;
  /* until it is staged */
  const struct qp_change *change;
  const struct qp__own_json *own; /* or NULL */
  bool prompts_locked;
  bool needs_prompts; /* to be locked: nothing was done */
  struct qp__meta *meta;
  struct qp__driver_change *changes;
  size_t count;
  char record_path[QP__RECORD_PATH];
  struct head *heads;
  size_t head_count;
  /* until it is finished */
  struct qp__buf meta_text;
  struct qp__move *moves;
  struct qp__saving *saving;
  size_t saving_count;
  struct qp__entry *entries;
  struct qp__events_plan events;
  struct qp__effect effect;
  struct qp__commit commit;
};

/* ---- life ---- */

/* One block of memory: the work, then its arrays, with room for everything that the change can
 * add. */
static struct work *
new_work(struct qp_context *c, const struct qp_change *change)
{
  size_t heads = change->branch_change_count + 1;
  size_t n = change->message_count;
  struct work *w = qp__alloc0(1, sizeof(*w) + n * (sizeof(*w->saving) + sizeof(*w->entries)) +
                                     heads * (sizeof(*w->moves) + sizeof(*w->heads)));

  if (!w)
    return NULL;
  w->context = c;
  w->change = change;
  w->saving = (struct qp__saving *)(w + 1);
  w->entries = (struct qp__entry *)(w->saving + n);
  w->moves = (struct qp__move *)(w->entries + n);
  w->heads = (struct head *)(w->moves + heads);
  qp__buf_init(&w->meta_text, QP__META_MAX);
  return w;
}

/* Frees what only staging needs: thousands of commits can wait for one sync. */
static void
free_changes(struct work *w)
{
  qp__buf_release(&w->meta_text);
  qp__free(w->changes);
  w->changes = w->commit.changes = NULL;
}

static void
free_work(struct work *w)
{
  if (!w)
    return;
  for (size_t i = 0; i < w->saving_count; i++)
    qp__buf_release(&w->saving[i].text);
  qp__events_plan_release(&w->events);
  qp__meta_free(w->meta);
  free_changes(w);
  qp__free(w);
}

static void
put_back(struct work *w)
{
  for (size_t i = 0; i < w->saving_count; i++)
    qp__saving_put_back(&w->saving[i]);
}

/* ---- the state so far ---- */

/* The view after the change; before the metadata is complete, the present one. */
static struct qp__view *
next_view(const struct work *w)
{
  return w->effect.view ? w->effect.view : w->context->staged_view;
}

static const struct qp__meta *
latest_meta(const struct work *w)
{
  return w->meta ? w->meta : next_view(w)->meta;
}

static enum qp_rc
own_meta(struct work *w, struct qp_err *err)
{
  return w->meta ? QP_OK : qp__clone_meta(w->context, &w->meta, err);
}

static struct head *
find_head(struct work *w, const char *name)
{
  for (size_t i = 0; i < w->head_count; i++)
    if (strcmp(w->heads[i].name, name) == 0)
      return &w->heads[i];
  return NULL;
}

/* `name` lives until the work is staged. */
static void
set_head(struct work *w, const char *name, uint32_t slot)
{
  struct head *h = find_head(w, name);

  if (!h)
    h = &w->heads[w->head_count++];
  h->name = name;
  h->slot = slot;
}

/* The branch (NULL: the active one): its name, which lives until the work is staged, and its
 * head. */
static enum qp_rc
find_branch(struct work *w, const char *name, struct head *out, struct qp_err *err)
{
  const struct qp__meta *meta = latest_meta(w);
  struct qp__branch *b = NULL;
  const struct head *h;
  enum qp_rc rc;

  if (!name)
    name = meta->active;
  if (!qp__meta_branch(meta, name))
    return qp__fail(err, QP_NOTFOUND, "there is no branch '%.80s'", name);
  h = find_head(w, name);
  if (h) {
    *out = *h;
    return QP_OK;
  }
  rc = qp__view_branch(w->context->staged_view, name, &b, err);
  if (!rc)
    *out = (struct head){ b->name, b->staged_head };
  return rc;
}

static struct qp_uuid
id_of_slot(const struct work *w, uint32_t slot)
{
  static const struct qp_uuid none;

  return slot == QP__NO_SLOT ? none : qp__tree_at(&w->context->tree, slot)->id;
}

static struct qp__driver_change *
add_change(struct work *w, enum qp__driver_change_kind kind)
{
  struct qp__driver_change *ch = &w->changes[w->count++];

  ch->kind = kind;
  ch->context = w->context->driver;
  return ch;
}

static void
move_head(struct work *w, const char *name, uint32_t slot)
{
  struct qp__driver_change *ch = add_change(w, QP__CHANGE_HEAD);

  ch->branch = name;
  ch->id = id_of_slot(w, slot);
  if (slot != QP__NO_SLOT) {
    ch->path_messages = (uint64_t)qp__tree_at(&w->context->tree, slot)->depth + 1;
    ch->path_bytes = qp__tree_at(&w->context->tree, slot)->path_bytes;
  }
  set_head(w, name, slot);
}

/* ---- branches ---- */

static enum qp_rc
fork_branch(struct work *w, const struct qp_branch_change *b, struct qp_err *err)
{
  struct qp_uuid base;
  struct head from;
  enum qp_rc rc = qp__branch_name_check(b->name, err);

  if (!rc)
    rc = find_branch(w, b->other, &from, err);
  if (!rc && b->at)
    rc = qp__context_find(w->context, b->at, true, &from.slot, err);
  if (!rc)
    rc = own_meta(w, err);
  if (rc)
    return rc;
  base = id_of_slot(w, from.slot);
  rc = qp__meta_branch_add(w->meta, b->name, w->meta->updated_at, &base, err);
  if (!rc)
    move_head(w, b->name, from.slot);
  return rc;
}

static enum qp_rc
switch_branch(struct work *w, const struct qp_branch_change *b, struct qp_err *err)
{
  enum qp_rc rc;

  if (!b->name || strcmp(latest_meta(w)->active, b->name) == 0)
    return QP_OK;
  rc = own_meta(w, err);
  return rc ? rc : qp__meta_set_active(w->meta, b->name, err);
}

static enum qp_rc
rename_branch(struct work *w, const struct qp_branch_change *b, struct qp_err *err)
{
  struct qp__driver_change *ch;
  struct head old;
  enum qp_rc rc = qp__branch_name_check(b->other, err);

  if (!rc)
    rc = find_branch(w, b->name, &old, err);
  if (rc || strcmp(old.name, b->other) == 0)
    return rc;
  rc = own_meta(w, err);
  if (!rc)
    rc = qp__meta_branch_rename(w->meta, old.name, b->other, err);
  if (rc)
    return rc;
  ch = add_change(w, QP__CHANGE_RENAME);
  ch->branch = old.name;
  ch->to = b->other;
  set_head(w, b->other, old.slot);
  return QP_OK;
}

static enum qp_rc
delete_branch(struct work *w, const struct qp_branch_change *b, struct qp_err *err)
{
  struct head old;
  enum qp_rc rc = find_branch(w, b->name, &old, err);

  if (!rc && strcmp(old.name, latest_meta(w)->active) == 0)
    rc = qp__fail(err, QP_CONFLICT, "'%s' is the active branch: switch to another one first",
                  old.name);
  if (!rc)
    rc = own_meta(w, err);
  if (!rc)
    rc = qp__meta_branch_remove(w->meta, old.name, err);
  if (!rc)
    add_change(w, QP__CHANGE_DROP)->branch = old.name;
  return rc;
}

static enum qp_rc
rewind_branch(struct work *w, const struct qp_branch_change *b, struct qp_err *err)
{
  uint32_t slot = QP__NO_SLOT;
  struct head old;
  enum qp_rc rc = find_branch(w, b->name, &old, err);

  if (!rc && b->at)
    rc = qp__context_find(w->context, b->at, true, &slot, err);
  if (!rc && slot != old.slot)
    move_head(w, old.name, slot);
  return rc;
}

static enum qp_rc
set_branch_prompt(struct work *w, const struct qp_branch_change *b, struct qp_err *err)
{
  struct head branch;
  enum qp_rc rc = qp__check_prompt(w->context->store, b->other, err);

  if (!rc)
    rc = find_branch(w, b->name, &branch, err);
  if (!rc)
    rc = own_meta(w, err);
  return rc ? rc : qp__meta_set_prompt(w->meta, branch.name, b->other, err);
}

static enum qp_rc
change_branch(struct work *w, const struct qp_branch_change *b, struct qp_err *err)
{
  switch (b->action) {
  case QP_BRANCH_FORK:
    return fork_branch(w, b, err);
  case QP_BRANCH_SWITCH:
    return switch_branch(w, b, err);
  case QP_BRANCH_RENAME:
    return rename_branch(w, b, err);
  case QP_BRANCH_DELETE:
    return delete_branch(w, b, err);
  case QP_BRANCH_REWIND:
    return rewind_branch(w, b, err);
  case QP_BRANCH_SET_PROMPT:
    return set_branch_prompt(w, b, err);
  }
  return qp__fail(err, QP_MISUSE, "unknown branch operation");
}

/* ---- metadata ---- */

/* The new metadata shares parts of the patch, so it gets a copy: the caller's is used and freed by
 * another thread. */
static enum qp_rc
patch_own(struct work *w, struct qp_err *err)
{
  json_t *patch = qp__json_deep_copy(w->own->metadata);
  enum qp_rc rc =
      patch ? qp__meta_patch_value(w->meta, patch, err) : qp__fail_nomem(err, "changing a context");

  json_decref(patch);
  return rc;
}

static enum qp_rc
patch_metadata(struct work *w, struct qp_err *err)
{
  const struct qp__meta *before = w->context->staged_view->meta;
  const char *prompt;
  enum qp_rc rc;

  if (!w->change->metadata.data && !(w->own && w->own->metadata))
    return QP_OK;
  rc = own_meta(w, err);
  if (!rc)
    rc = w->own && w->own->metadata ? patch_own(w, err)
                                    : qp__meta_patch(w->meta, w->change->metadata, err);
  if (rc)
    return rc;
  prompt = qp__meta_prompt(w->meta);
  if (!prompt || qp__str_same(prompt, qp__meta_prompt(before)))
    return QP_OK;
  w->needs_prompts = !w->prompts_locked;
  return w->needs_prompts ? QP_OK : qp__check_prompt(w->context->store, prompt, err);
}

/* The view of the new metadata, if it is another one; the first of the changes writes it. */
static enum qp_rc
make_view(struct work *w, struct qp_err *err)
{
  struct qp_context *c = w->context;
  struct qp__meta *meta = w->meta;
  struct qp__driver_change *change;
  enum qp_rc rc;

  if (!meta || qp__meta_equal(meta, c->staged_view->meta))
    return QP_OK;
  rc = qp__meta_seal(meta, &w->meta_text, err);
  if (rc)
    return rc;
  w->meta = NULL;
  rc = qp__view_new(meta, c->staged_view, &w->effect.view, err);
  if (rc)
    return rc;
  w->effect.view->meta_bytes = w->meta_text.len;
  change = add_change(w, QP__CHANGE_META);
  change->bytes = qp__buf_bytes(&w->meta_text);
  change->running = !qp_state_awaits_client(meta->state);
  return QP_OK;
}

/* ---- messages ---- */

/* Message i, which follows `parent`. */
static enum qp_rc
add_message(struct work *w, size_t i, const struct qp__branch *branch, uint16_t dir,
            const struct qp_uuid *parent, uint32_t parent_slot, struct qp_err *err)
{
  struct qp__saving *v = &w->saving[i];
  char text[QP_UUID_TEXT];
  enum qp_rc rc;

  qp__saving_begin(v, w->context, w->change->messages[i]);
  w->saving_count = i + 1;
  rc = qp__saving_check_parent(v->message, parent, err);
  if (!rc)
    rc = qp__saving_name(v, err);
  for (size_t k = 0; k < i && !rc; k++)
    if (qp_uuid_equal(&w->saving[k].message->id, &v->message->id))
      rc = qp__fail(err, QP_EXISTS, "duplicate message %s in the change",
                    qp_uuid_text(&v->message->id, text));
  if (rc)
    return rc;
  v->message->parent = *parent;
  rc = qp__saving_encode(v, dir, err);
  if (rc)
    return rc;
  v->entry.parent = parent_slot;
  w->entries[i] = v->entry;
  qp__saving_change(v, branch, &w->changes[w->count++]);
  return QP_OK;
}

static enum qp_rc
add_messages(struct work *w, struct qp_err *err)
{
  struct qp_context *c = w->context;
  size_t n = w->change->message_count;
  struct qp__branch *branch = NULL;
  struct qp_uuid parent;
  struct head head;
  uint16_t dir;
  enum qp_rc rc;

  if (!n)
    return QP_OK;
  if ((rc = find_branch(w, w->change->branch, &head, err)) ||
      (rc = qp__view_branch(next_view(w), head.name, &branch, err)) ||
      (rc = qp__saving_dir(c, branch, &dir, err)))
    return rc;
  if (!qp__tree_reserve(&c->tree, n))
    return qp__fail_nomem(err, "saving a message");
  parent = id_of_slot(w, head.slot);
  for (size_t i = 0; i < n && !rc; i++) {
    rc = add_message(w, i, branch, dir, &parent, head.slot, err);
    parent = w->saving[i].message->id;
    head.slot = c->tree.count + (uint32_t)i;
  }
  if (!rc)
    set_head(w, head.name, head.slot);
  return rc;
}

/* ---- the commit ---- */

static void
add_moves(struct work *w)
{
  for (size_t i = 0; i < w->head_count; i++) {
    struct qp__move *m = &w->moves[w->effect.move_count];

    if (qp__view_branch(next_view(w), w->heads[i].name, &m->branch, NULL))
      continue; /* renamed or deleted afterwards */
    m->head = w->heads[i].slot;
    w->effect.move_count++;
  }
  w->effect.moves = w->moves;
}

static enum qp_rc
plan_events(struct work *w, struct qp_err *err)
{
  const struct qp_change *change = w->change;
  enum qp_rc rc = QP_OK;

  if (change->event_count)
    rc = qp__events_plan(w->context, change->events, change->event_count, w->own != NULL,
                         &w->events, err);
  if (!rc && change->key)
    rc = qp__events_plan_key(w->context, change->key, change->key_result, w->own != NULL,
                             change->flags & QP_CHANGE_NEW_RESULT, &w->events, err);
  return rc;
}

/* The compaction record that the commit adds. */
static void
add_record(struct work *w)
{
  struct qp__driver_change *ch;

  if (!w->own || !w->own->record.len)
    return;
  qp__record_path(&w->context->id, &w->own->record_id, w->record_path);
  ch = add_change(w, QP__CHANGE_FILE_PUT);
  ch->path = w->record_path;
  ch->bytes = w->own->record;
}

/* Processes all parts. With the write lock. */
static enum qp_rc
build(struct work *w, struct qp_err *err)
{
  const struct qp_change *change = w->change;
  enum qp_rc rc = plan_events(w, err);

  if (rc)
    return rc;
  w->changes = qp__alloc0(2 + change->branch_change_count + change->message_count +
                              qp__events_change_count(&w->events),
                          sizeof(*w->changes));
  if (!w->changes)
    return qp__fail_nomem(err, "changing a context");
  for (size_t i = 0; i < change->branch_change_count && !rc; i++)
    rc = change_branch(w, &change->branch_changes[i], err);
  if (!rc)
    rc = patch_metadata(w, err);
  if (rc || w->needs_prompts)
    return rc;
  rc = make_view(w, err);
  if (!rc)
    rc = add_messages(w, err);
  if (rc)
    return rc;
  add_moves(w);
  add_record(w);
  qp__events_changes(&w->events, w->context->driver, w->changes + w->count);
  w->count += qp__events_change_count(&w->events);
  return QP_OK;
}

/* Everything up to the place in the order of commits. commit.count is 0 when nothing changes. */
static enum qp_rc
stage(struct work *w, struct qp_err *err)
{
  struct qp_context *c = w->context;
  enum qp_rc rc;

  qp__mutex_lock(&c->write_lock);
  rc = build(w, err);
  if (!rc && !w->needs_prompts && w->count)
    rc = qp__commit_prepare(c->store, w->changes, w->count, err);
  if (rc || w->needs_prompts || !w->count) {
    qp__mutex_unlock(&c->write_lock);
    qp__view_unref(w->effect.view);
  } else {
    w->effect.context = c;
    w->effect.events = w->events.events ? &w->events : NULL;
    w->commit.changes = w->changes;
    w->commit.count = w->count;
    w->commit.effects = &w->effect;
    w->commit.added = w->entries;
    w->commit.added_count = w->saving_count;
    w->commit.pending = w->done ? &w->pending : NULL;
    rc = qp__commit_stage(c->store, &w->commit, err);
  }
  if (rc)
    put_back(w);
  free_changes(w);
  w->change = NULL; /* the caller's */
  w->own = NULL;
  return rc;
}

/* Waits until it is durable. */
static enum qp_rc
wait_durable(struct work *w, struct qp_err *err)
{
  enum qp_rc rc = qp__commit_finish(w->context->store, &w->commit, err);

  for (size_t i = 0; i < w->saving_count && !rc; i++)
    qp__saving_remember(&w->saving[i], w->commit.slot + (uint32_t)i);
  return rc;
}

static void
finish_later(struct qp__pending *p)
{
  struct work *w = (struct work *)p;
  struct qp_context *c = w->context;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = wait_durable(w, &err);

  w->done(w->arg, rc, &err);
  free_work(w);
  qp__context_unpin(c); /* the last thing: a context that is waited for may go now */
}

/* Ends a work that is staged, or that changes nothing. */
static enum qp_rc
finish(struct work *w, struct qp_err *err)
{
  static const struct qp_err none;
  struct qp_context *c = w->context;
  enum qp_rc rc = QP_OK;

  if (w->done && w->commit.count) {
    qp__commit_later(c->store, &w->commit);
    return QP_OK;
  }
  if (w->commit.count)
    rc = wait_durable(w, err);
  if (rc)
    put_back(w);
  if (w->done) {
    w->done(w->arg, QP_OK, &none);
    qp__context_unpin(c);
  }
  free_work(w);
  return rc;
}

/* ---- the call ---- */

/* Restores messages from the trash that branches shall point to. Missing messages are not reported
 * here. */
static enum qp_rc
fetch_back(struct qp_context *c, const struct qp_change *change, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < change->branch_change_count && !rc; i++) {
    const struct qp_branch_change *b = &change->branch_changes[i];
    uint32_t slot;

    if (!b->at || (b->action != QP_BRANCH_FORK && b->action != QP_BRANCH_REWIND))
      continue;
    if (!qp__tree_find(&c->tree, b->at, false, &slot))
      return qp__fail_nomem(err, "looking up a message");
    if (slot != QP__NO_SLOT)
      rc = qp__context_untrash(c, slot, err);
  }
  return rc;
}

static bool
names_prompt(const struct qp_change *change)
{
  for (size_t i = 0; i < change->branch_change_count; i++)
    if (change->branch_changes[i].action == QP_BRANCH_SET_PROMPT && change->branch_changes[i].other)
      return true;
  return false;
}

/* One attempt to stage it. *out is NULL when the prompts must be locked. */
static enum qp_rc
attempt(struct qp_context *c, const struct qp_change *change, const struct qp__own_json *own,
        bool prompts_locked, qp_done_fn *done, void *arg, struct work **out, struct qp_err *err)
{
  struct work *w = new_work(c, change);
  enum qp_rc rc;

  *out = NULL;
  if (!w)
    return qp__fail_nomem(err, "changing a context");
  w->own = own;
  w->pending.finish = finish_later;
  w->done = done;
  w->arg = arg;
  w->prompts_locked = prompts_locked;
  if (done)
    qp__context_pin(c); /* it stays while the change is under way */
  rc = stage(w, err);
  if (rc || w->needs_prompts) {
    if (done)
      qp__context_unpin(c);
    free_work(w);
    return rc;
  }
  *out = w;
  return QP_OK;
}

static enum qp_rc
take_change(const struct qp_change *change, struct qp_change *out, struct qp_err *err)
{
  enum qp_rc rc = qp__sized_copy("struct qp_change", change, out, sizeof(*out), err);

  if (rc)
    return rc;
  if (out->message_count > QP_CHANGE_MESSAGES)
    return qp__fail(err, QP_TOOBIG, "a change has at most %d messages", QP_CHANGE_MESSAGES);
  return QP_OK;
}

/* *id (may be NULL) receives the id of the last message; `own` may be NULL. */
static enum qp_rc
commit(struct qp_context *context, const struct qp_change *change, const struct qp__own_json *own,
       struct qp_uuid *id, uint64_t *first_event, qp_done_fn *done, void *arg, struct qp_err *err)
{
  struct qp_store *s = context->store;
  struct qp_uuid last_id = { { 0 } };
  uint64_t first;
  struct qp_change copy;
  struct work *w = NULL;
  enum qp_rc rc = take_change(change, &copy, err);

  if (!rc)
    rc = qp__check_changeable(context, err);
  if (!rc)
    rc = fetch_back(context, &copy, err);
  if (!rc && !names_prompt(&copy))
    rc = attempt(context, &copy, own, false, done, arg, &w, err);
  if (!rc && !w) {
    qp__mutex_lock(&s->prompt_lock);
    rc = attempt(context, &copy, own, true, done, arg, &w, err);
    qp__mutex_unlock(&s->prompt_lock);
  }
  if (rc || !w)
    return rc;
  first = w->events.first;
  if (w->saving_count)
    last_id = w->saving[w->saving_count - 1].message->id;
  if (!done)
    rc = finish(w, err);
  if (rc)
    return rc;
  if (id && copy.message_count)
    *id = last_id;
  if (first_event && copy.event_count)
    *first_event = first;
  /* if the change is asynchronous, the outputs may be freed when `done` was called */
  return done ? finish(w, err) : QP_OK;
}

enum qp_rc
qp__change_commit(struct qp_context *context, const struct qp_change *change,
                  const struct qp__own_json *own, qp_done_fn *done, void *arg, struct qp_err *err)
{
  return commit(context, change, own, NULL, NULL, done, arg, err);
}

enum qp_rc
qp_context_commit(struct qp_context *context, const struct qp_change *change, uint64_t *first_event,
                  qp_done_fn *done, void *arg, struct qp_err *err)
{
  return commit(context, change, NULL, NULL, first_event, done, arg, err);
}

/* ---- changes of one part ---- */

enum qp_rc
qp_message_save(struct qp_context *context, const char *branch, struct qp_message *message,
                struct qp_uuid *id, struct qp_err *err)
{
  return qp_message_save_async(context, branch, message, id, NULL, NULL, err);
}

enum qp_rc
qp_message_save_async(struct qp_context *context, const char *branch, struct qp_message *message,
                      struct qp_uuid *id, qp_done_fn *done, void *arg, struct qp_err *err)
{
  struct qp_change change = {
    .size = sizeof(change), .branch = branch, .messages = &message, .message_count = 1
  };

  return commit(context, &change, NULL, id, NULL, done, arg, err);
}

enum qp_rc
qp_context_update(struct qp_context *context, struct qp_bytes patch, struct qp_err *err)
{
  struct qp_change change = { .size = sizeof(change), .metadata = patch };

  if (!patch.data)
    change.metadata.data = "";
  return qp_context_commit(context, &change, NULL, NULL, NULL, err);
}

enum qp_rc
qp_events_append(struct qp_context *context, const struct qp_event *events, size_t count,
                 uint64_t *first, qp_done_fn *done, void *arg, struct qp_err *err)
{
  struct qp_change change = { .size = sizeof(change), .events = events, .event_count = count };

  return qp_context_commit(context, &change, first, done, arg, err);
}

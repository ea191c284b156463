/* branch.c - branches: a name and a head over the tree of messages. Nothing here copies a message,
 * and everything costs the same for ten messages as for a million. */
#include <string.h>

#include "base/err.h"
#include "store/context_int.h"

/* ---- reading ---- */

static void
describe(struct qp_context *c, const struct qp__view *v, size_t i, struct qp_branch_info *out)
{
  const struct qp__branch_def *def = &v->meta->branches[i];
  uint32_t head = atomic_load_explicit(&v->branches[i]->head, memory_order_acquire);

  memset(out, 0, sizeof(*out));
  out->name = def->name;
  out->active = strcmp(def->name, v->meta->active) == 0;
  out->system_prompt_id = def->system_prompt_id;
  out->created_at = def->created_at;
  if (head != QP__NO_SLOT) {
    const struct qp__entry *e = qp__tree_at(&c->tree, head);

    out->head = e->id;
    out->messages = (uint64_t)e->depth + 1;
    out->message_bytes = e->path_bytes;
  }
}

enum qp_rc
qp_branch_list(struct qp_context *context, qp_branch_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  enum qp_rc rc = QP_OK;

  (void)err;
  for (size_t i = 0; i < v->meta->branch_count && !rc; i++) {
    struct qp_branch_info info;

    describe(context, v, i, &info);
    rc = visit(arg, &info);
  }
  qp__view_unref(v);
  return rc;
}

/* ---- writing ---- */

/* Brings a message that a branch shall lead to back from the trash. What cannot be found is not
 * told here. */
static enum qp_rc
fetch_back(struct qp_context *c, const struct qp_uuid *id, struct qp_err *err)
{
  uint32_t slot;
  enum qp_rc rc = qp__check_changeable(c, err);

  if (rc || !id)
    return rc;
  if (!qp__tree_find(&c->tree, id, false, &slot))
    return qp__fail_nomem(err, "looking up a message");
  return slot == QP__NO_SLOT ? QP_OK : qp__context_untrash(c, slot, err);
}

/* Takes the write lock and clones the metadata. On failure the lock is free again. */
static enum qp_rc
begin(struct qp_context *c, struct qp__meta **meta, struct qp_err *err)
{
  enum qp_rc rc = qp__check_changeable(c, err);

  if (rc)
    return rc;
  (void)pthread_mutex_lock(&c->write_lock);
  rc = qp__clone_meta(c, meta, err);
  if (rc)
    (void)pthread_mutex_unlock(&c->write_lock);
  return rc;
}

static enum qp_rc
give_up(struct qp_context *c, struct qp__meta *meta, enum qp_rc rc)
{
  (void)pthread_mutex_unlock(&c->write_lock);
  qp__meta_free(meta);
  return rc;
}

/* The slot of a message of this context. With the write lock. */
static enum qp_rc
find_message(struct qp_context *c, const struct qp_uuid *id, uint32_t *out, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  if (!qp__tree_find(&c->tree, id, true, out))
    return qp__fail_nomem(err, "looking up a message");
  if (*out == QP__NO_SLOT)
    return qp__fail(err, QP_NOTFOUND, "there is no message %s in this context",
                    qp_uuid_text(id, text));
  return QP_OK;
}

static struct qp_uuid
id_of_slot(struct qp_context *c, uint32_t slot)
{
  static const struct qp_uuid none;

  return slot == QP__NO_SLOT ? none : qp__tree_at(&c->tree, slot)->id;
}

enum qp_rc
qp_branch_fork(struct qp_context *context, const char *name, const char *from,
               const struct qp_uuid *at, struct qp_err *err)
{
  struct qp__change change = { .kind = QP__CHANGE_HEAD, .branch = name };
  struct qp__meta *meta = NULL;
  struct qp__branch *source;
  uint32_t slot;
  enum qp_rc rc = qp__branch_name_check(name, err);

  if (!rc)
    rc = fetch_back(context, at, err);
  if (!rc)
    rc = begin(context, &meta, err);
  if (rc)
    return rc;
  rc = qp__view_branch(context->staged_view, from, &source, err);
  if (!rc && at)
    rc = find_message(context, at, &slot, err);
  else if (!rc)
    slot = source->staged_head;
  if (!rc) {
    change.context = context->driver;
    change.id = id_of_slot(context, slot);
    rc = qp__meta_branch_add(meta, name, meta->updated_at, &change.id, err);
  }
  if (rc)
    return give_up(context, meta, rc);
  return qp__commit_meta(context, meta, &change, slot, err);
}

enum qp_rc
qp_branch_switch(struct qp_context *context, const char *name, struct qp_err *err)
{
  struct qp__meta *meta = NULL;
  enum qp_rc rc = begin(context, &meta, err);

  if (rc)
    return rc;
  if (name && strcmp(meta->active, name) == 0)
    return give_up(context, meta, QP_OK); /* no change, no write */
  if (!name)
    return give_up(context, meta, QP_OK);
  rc = qp__meta_set_active(meta, name, err);
  if (rc)
    return give_up(context, meta, rc);
  return qp__commit_meta(context, meta, NULL, QP__NO_SLOT, err);
}

enum qp_rc
qp_branch_rename(struct qp_context *context, const char *name, const char *new_name,
                 struct qp_err *err)
{
  struct qp__change change = { .kind = QP__CHANGE_RENAME, .to = new_name };
  struct qp__meta *meta = NULL;
  struct qp__branch *old = NULL;
  enum qp_rc rc = qp__branch_name_check(new_name, err);

  if (!rc)
    rc = begin(context, &meta, err);
  if (rc)
    return rc;
  rc = qp__view_branch(context->staged_view, name, &old, err);
  if (!rc && strcmp(old->name, new_name) == 0)
    return give_up(context, meta, QP_OK);
  if (!rc)
    rc = qp__meta_branch_rename(meta, old->name, new_name, err);
  if (rc)
    return give_up(context, meta, rc);
  change.context = context->driver;
  change.branch = old->name;
  return qp__commit_meta(context, meta, &change, old->staged_head, err);
}

enum qp_rc
qp_branch_delete(struct qp_context *context, const char *name, struct qp_err *err)
{
  struct qp__change change = { .kind = QP__CHANGE_DROP };
  struct qp__meta *meta = NULL;
  struct qp__branch *old = NULL;
  enum qp_rc rc = begin(context, &meta, err);

  if (rc)
    return rc;
  rc = qp__view_branch(context->staged_view, name, &old, err);
  if (!rc && strcmp(old->name, meta->active) == 0)
    rc = qp__fail(err, QP_CONFLICT, "'%s' is the active branch: switch to another one first",
                  old->name);
  if (!rc)
    rc = qp__meta_branch_remove(meta, old->name, err);
  if (rc)
    return give_up(context, meta, rc);
  change.context = context->driver;
  change.branch = old->name;
  return qp__commit_meta(context, meta, &change, QP__NO_SLOT, err);
}

enum qp_rc
qp_branch_rewind(struct qp_context *context, const char *name, const struct qp_uuid *to,
                 struct qp_err *err)
{
  struct qp__change change = { .kind = QP__CHANGE_HEAD };
  struct qp__effect effect = { .context = context };
  struct qp__commit commit = { .changes = &change, .count = 1, .effects = &effect };
  enum qp_rc rc = fetch_back(context, to, err);

  if (rc)
    return rc;
  (void)pthread_mutex_lock(&context->write_lock);
  rc = qp__view_branch(context->staged_view, name, &effect.branch, err);
  effect.head = QP__NO_SLOT;
  if (!rc && to)
    rc = find_message(context, to, &effect.head, err);
  if (rc || effect.branch->staged_head == effect.head) {
    (void)pthread_mutex_unlock(&context->write_lock);
    return rc;
  }
  change.context = context->driver;
  change.branch = effect.branch->name;
  change.id = id_of_slot(context, effect.head);
  return qp__commit(context->store, &commit, err);
}

enum qp_rc
qp_branch_set_prompt(struct qp_context *context, const char *name, const char *prompt_id,
                     struct qp_err *err)
{
  struct qp_store *s = context->store;
  struct qp__meta *meta = NULL;
  struct qp__branch *branch;
  enum qp_rc rc;

  (void)pthread_mutex_lock(&s->prompt_lock); /* the prompt stays while we refer to it */
  rc = qp__check_prompt(s, prompt_id, err);
  if (!rc)
    rc = begin(context, &meta, err);
  if (!rc) {
    rc = qp__view_branch(context->staged_view, name, &branch, err);
    if (!rc)
      rc = qp__meta_set_prompt(meta, branch->name, prompt_id, err);
    if (rc || qp__meta_equal(meta, context->staged_view->meta))
      rc = give_up(context, meta, rc);
    else
      rc = qp__commit_meta(context, meta, NULL, QP__NO_SLOT, err);
  }
  (void)pthread_mutex_unlock(&s->prompt_lock);
  return rc;
}

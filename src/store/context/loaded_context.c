/* loaded_context.c - see loaded_context.h. */
#include "store/context/loaded_context.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/driver.h"

void
qp__image_init(struct qp__image *image)
{
  memset(image, 0, sizeof(*image));
  qp__tree_init(&image->tree);
}

void
qp__image_release(struct qp__image *image)
{
  for (size_t i = 0; i < image->head_count; i++)
    qp__free(image->heads[i].name);
  qp__free(image->heads);
  qp__meta_free(image->meta);
  qp__tree_release(&image->tree);
}

struct qp__head *
qp__image_head(const struct qp__image *image, const char *name)
{
  for (size_t i = 0; i < image->head_count; i++)
    if (strcmp(image->heads[i].name, name) == 0)
      return &image->heads[i];
  return NULL;
}

bool
qp__image_set_head(struct qp__image *image, const char *name, uint32_t slot)
{
  struct qp__head *head = qp__image_head(image, name);

  if (head) {
    head->slot = slot;
    return true;
  }
  if (!qp__vec_reserve(image->heads, image->head_count, image->head_cap, 1))
    return false;
  head = &image->heads[image->head_count];
  head->name = qp__strdup(name);
  if (!head->name)
    return false;
  head->slot = slot;
  image->head_count++;
  return true;
}

bool
qp__image_rename_head(struct qp__image *image, const char *name, const char *new_name)
{
  struct qp__head *head = qp__image_head(image, name);
  char *copy;

  if (!head)
    return qp__image_set_head(image, new_name, QP__NO_SLOT);
  if (strcmp(name, new_name) == 0)
    return true;
  copy = qp__strdup(new_name);
  if (!copy)
    return false;
  qp__image_drop_head(image, new_name); /* names are unique */
  head = qp__image_head(image, name);
  qp__free(head->name);
  head->name = copy;
  return true;
}

void
qp__image_drop_head(struct qp__image *image, const char *name)
{
  struct qp__head *head = qp__image_head(image, name);

  if (!head)
    return;
  qp__free(head->name);
  *head = image->heads[--image->head_count];
}

/* ---- changes ---- */

bool
qp__image_copy(struct qp__image *to, const struct qp__image *from)
{
  if (!qp__tree_reserve(&to->tree, from->tree.count))
    return false;
  for (uint32_t i = 0; i < from->tree.count; i++) {
    struct qp__entry e;

    if (qp__tree_translate(&to->tree, &from->tree, qp__tree_at(&from->tree, i), &e))
      return false;
    (void)qp__tree_load(&to->tree, &e);
  }
  for (size_t i = 0; i < from->head_count; i++)
    if (!qp__image_set_head(to, from->heads[i].name, from->heads[i].slot))
      return false;
  qp__tree_publish(&to->tree, to->tree.count, to->tree.pending_bytes);
  return true;
}

bool
qp__image_reserve(struct qp__image *image, const struct qp__driver_change *change, size_t n)
{
  static const struct qp_uuid none;
  uint32_t slot;
  uint16_t dir;

  if (!qp__tree_find(&image->tree, &none, true, &slot)) /* builds the table of ids */
    return false;
  if (change->kind == QP__CHANGE_MESSAGE)
    return qp__tree_reserve(&image->tree, n) &&
           !qp__tree_dir(&image->tree, change->dir, strlen(change->dir), &dir);
  return (change->kind != QP__CHANGE_HEAD && change->kind != QP__CHANGE_RENAME) ||
         qp__vec_reserve(image->heads, image->head_count, image->head_cap, n);
}

static uint32_t
slot_of(struct qp__image *image, const struct qp_uuid *id)
{
  uint32_t slot = QP__NO_SLOT;

  if (!qp_uuid_is_none(id))
    (void)qp__tree_find(&image->tree, id, true, &slot);
  return slot;
}

static uint32_t
add_message(struct qp__image *image, const struct qp__driver_change *change)
{
  struct qp__entry e;
  uint32_t slot;

  memcpy(&e, change->entry, sizeof(e));
  e.parent = slot_of(image, &change->parent);
  (void)qp__tree_dir(&image->tree, change->dir, strlen(change->dir), &e.dir);
  slot = qp__tree_add(&image->tree, &e);
  qp__image_head(image, change->branch)->slot = slot;
  return slot;
}

/* Moves a head, or adds a branch, for which there is room; its name is moved out of *name, which is
 * NULL then. */
static void
put_head(struct qp__image *image, char **name, uint32_t slot)
{
  struct qp__head *head = qp__image_head(image, *name);

  QP_ASSERT(*name && (slot == QP__NO_SLOT || slot < image->tree.count));
  if (!head) {
    head = &image->heads[image->head_count++];
    head->name = *name;
    *name = NULL;
  }
  head->slot = slot;
}

/* The same for a branch that gets another name. */
static void
put_name(struct qp__image *image, const char *old_name, char **name)
{
  struct qp__head *head = qp__image_head(image, old_name);
  uint32_t slot = head ? head->slot : QP__NO_SLOT;

  qp__image_drop_head(image, old_name);
  put_head(image, name, slot);
}

uint32_t
qp__image_apply(struct qp__image *image, const struct qp__driver_change *change, char **name)
{
  uint32_t slot = slot_of(image, &change->id);
  struct qp__entry *e = slot == QP__NO_SLOT ? NULL : qp__tree_at(&image->tree, slot);

  switch (change->kind) {
  case QP__CHANGE_MESSAGE:
    return add_message(image, change);
  case QP__CHANGE_HEAD:
    put_head(image, name, slot);
    break;
  case QP__CHANGE_RENAME:
    put_name(image, change->branch, name);
    break;
  case QP__CHANGE_DROP:
    qp__image_drop_head(image, change->branch);
    break;
  case QP__CHANGE_STATUS:
    if (e)
      atomic_store(&e->status, (uint8_t)change->status);
    break;
  case QP__CHANGE_TRASH:
  case QP__CHANGE_UNTRASH:
    if (e)
      qp__tree_set_place(&image->tree, e,
                         change->kind == QP__CHANGE_TRASH ? qp__place_trash(change->at) : 0);
    break;
  default:
    break;
  }
  return slot;
}

/* ---- mending ---- */

static enum qp_rc
mend_definitions(struct qp__image *image, struct qp__problems *problems, bool *changed,
                 struct qp_err *err)
{
  static const struct qp_uuid none;
  struct qp__meta *meta = image->meta;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < image->head_count && !rc; i++) {
    const char *name = image->heads[i].name;

    if (qp__meta_branch(meta, name))
      continue;
    qp__report_problem(problems, QP_PROBLEM_BRANCH_UNDEFINED, &meta->id, "metadata.json",
                       problems->repair, false,
                       "branch '%s' is in the index and not in metadata.json", name);
    *changed = true;
    rc = qp__meta_branch_add(meta, name, meta->updated_at, &none, err);
  }
  return rc;
}

/* The newest message that was first saved to this branch and is not in the trash, or QP__NO_SLOT.
 * False: no memory. */
static bool
find_newest(const struct qp__tree *tree, const char *branch, uint32_t *out)
{
  struct qp__buf dir;
  bool ok;

  qp__buf_init(&dir, QP__BRANCH_ENCODED_MAX * 4);
  (void)qp__buf_add_str(&dir, "branch-");
  (void)qp__percent_encode(&dir, branch, strlen(branch));
  ok = dir.rc == QP_OK;
  *out = QP__NO_SLOT;
  for (uint32_t i = 0; i < tree->count && ok; i++) {
    const struct qp__entry *e = qp__tree_at(tree, i);

    if (qp__entry_kind(e) != QP__PLACE_TRASH &&
        strcmp(qp__tree_dir_name(tree, e->dir), dir.data) == 0 &&
        (*out == QP__NO_SLOT || e->time >= qp__tree_at(tree, *out)->time))
      *out = i;
  }
  qp__buf_release(&dir);
  return ok;
}

/* A branch without a head gets its newest message, otherwise the message that it was forked
 * from. */
static enum qp_rc
mend_heads(struct qp__image *image, struct qp__problems *problems, bool *changed,
           struct qp_err *err)
{
  const struct qp__meta *meta = image->meta;

  for (size_t i = 0; i < meta->branch_count; i++) {
    const struct qp__branch_def *def = &meta->branches[i];
    uint32_t slot;

    if (qp__image_head(image, def->name))
      continue;
    qp__report_problem(problems, QP_PROBLEM_HEAD_MISSING, &meta->id, "index.json", problems->repair,
                       false, "branch '%s' has no head in the index", def->name);
    *changed = true;
    if (!find_newest(&image->tree, def->name, &slot) ||
        (slot == QP__NO_SLOT && !qp_uuid_is_none(&def->base) &&
         !qp__tree_find(&image->tree, &def->base, true, &slot)))
      return qp__fail_nomem(err, "loading a context");
    if (!qp__image_set_head(image, def->name, slot))
      return qp__fail_nomem(err, "loading a context");
  }
  return QP_OK;
}

enum qp_rc
qp__image_mend(struct qp__image *image, struct qp__problems *problems, bool *changed,
               struct qp_err *err)
{
  static const struct qp_uuid none;
  struct qp__meta *meta = image->meta;
  enum qp_rc rc = mend_definitions(image, problems, changed, err);

  if (!rc && !meta->branch_count) {
    *changed = true;
    rc = qp__meta_branch_add(meta, "main", meta->updated_at, &none, err);
  }
  if (!rc)
    rc = mend_heads(image, problems, changed, err);
  if (!rc && (!meta->active || !qp__meta_branch(meta, meta->active))) {
    const char *name = qp__meta_branch(meta, "main") ? "main" : meta->branches[0].name;

    qp__report_problem(problems, QP_PROBLEM_ACTIVE_MISSING, &meta->id, "metadata.json",
                       problems->repair, false,
                       "the active branch '%s' does not exist; '%s' is active now",
                       meta->active ? meta->active : "", name);
    *changed = true;
    rc = qp__meta_set_active(meta, name, err);
  }
  return rc;
}

/* ---- recovering ---- */

/* The name of a branch for this message: the name of the branch that it was saved to, if that is
 * unused, otherwise a name that describes it. */
static enum qp_rc
name_recovered(const struct qp__image *image, uint32_t slot, struct qp__buf *out)
{
  const char *dir =
      qp__tree_dir_name(&image->tree, qp__tree_at(&image->tree, slot)->dir) + 7; /* "branch-" */
  enum qp_rc rc = qp__percent_decode(out, dir, strlen(dir));

  if (!rc)
    rc = out->data ? qp__branch_name_check(out->data, NULL) : QP_INVALID;
  if (rc == QP_NOMEM || (!rc && !qp__meta_branch(image->meta, out->data)))
    return rc;
  for (unsigned n = 1; n; n++) {
    qp__buf_reset(out);
    out->rc = QP_OK;
    (void)(n == 1 ? qp__buf_add_str(out, "recovered") : qp__buf_addf(out, "recovered-%u", n));
    if (out->rc || !qp__meta_branch(image->meta, out->data))
      break;
  }
  return out->rc;
}

static enum qp_rc
recover_at(struct qp__image *image, uint32_t slot, uint32_t count, struct qp__problems *problems,
           struct qp_err *err)
{
  static const struct qp_uuid none;
  struct qp__buf name;
  enum qp_rc rc;

  qp__buf_init(&name, QP__BRANCH_NAME_MAX);
  rc = name_recovered(image, slot, &name);
  if (rc)
    rc = qp__fail_nomem(err, "recovering messages");
  if (!rc)
    rc = qp__meta_branch_add(image->meta, name.data, image->meta->updated_at, &none, err);
  if (!rc && !qp__image_set_head(image, name.data, slot))
    rc = qp__fail_nomem(err, "recovering messages");
  if (!rc)
    qp__report_problem(
        problems, QP_PROBLEM_MESSAGE_RECOVERED, &image->meta->id, "index.json", problems->repair,
        true, "%lu message%s that no branch reached: on branch '%s' %s", (unsigned long)count,
        count == 1 ? "" : "s", name.data, problems->repair ? "now" : "after a repair");
  qp__buf_release(&name);
  return rc;
}

enum qp_rc
qp__image_recover(struct qp__image *image, const uint8_t *garbage, struct qp__problems *problems,
                  bool *changed, struct qp_err *err)
{
  const struct qp__tree *tree = &image->tree;
  bool *reached = qp__alloc0((size_t)tree->count + 1, sizeof(bool));
  enum qp_rc rc = QP_OK;

  if (!reached)
    return qp__fail_nomem(err, "recovering messages");
  for (size_t i = 0; i < image->head_count; i++)
    for (uint32_t slot = image->heads[i].slot; slot != QP__NO_SLOT && !reached[slot];
         slot = qp__tree_at(tree, slot)->parent)
      reached[slot] = true;
  for (uint32_t end = tree->count; end-- > 0 && !rc;) { /* children follow their parents */
    uint32_t count = 0;

    if (reached[end] || (garbage && garbage[end]) ||
        qp__entry_kind(qp__tree_at(tree, end)) == QP__PLACE_TRASH)
      continue;
    for (uint32_t slot = end; slot != QP__NO_SLOT && !reached[slot];
         slot = qp__tree_at(tree, slot)->parent) {
      reached[slot] = true;
      count++;
    }
    *changed = true;
    rc = recover_at(image, end, count, problems, err);
  }
  qp__free(reached);
  return rc;
}

uint32_t *
qp__image_copy_kept(const struct qp__image *from, const bool *gone, struct qp__image *to)
{
  const struct qp__tree *tree = &from->tree;
  uint32_t *moved = qp__alloc(((size_t)tree->count + 1) * sizeof(*moved));
  bool ok = moved && qp__tree_reserve(&to->tree, tree->count);

  for (uint32_t slot = 0; slot < tree->count && ok; slot++) {
    const struct qp__entry *e = qp__tree_at(tree, slot);
    struct qp__entry copy;

    moved[slot] = QP__NO_SLOT;
    if (gone[slot])
      continue;
    ok = !qp__tree_translate(&to->tree, tree, e, &copy);
    copy.parent = e->parent == QP__NO_SLOT ? QP__NO_SLOT : moved[e->parent];
    if (ok)
      moved[slot] = qp__tree_load(&to->tree, &copy);
  }
  for (size_t i = 0; i < from->head_count && ok; i++) {
    const struct qp__head *h = &from->heads[i];

    ok = qp__image_set_head(to, h->name, h->slot == QP__NO_SLOT ? h->slot : moved[h->slot]);
  }
  if (ok)
    return moved;
  qp__free(moved);
  return NULL;
}

/* legacy_order.c - turns the lists of the branches into a tree.
 *
 * In the old format a branch is a list of ids, and a message may be in many lists, or twice in one,
 * after different messages. In quipu a message has one parent. So:
 *
 * (1) Branches are processed in this order: "main", then the others by key, bytewise. The result
 *     depends on the content of the source, never on its order.
 * (2) The first occurrence of a message becomes an item with its own id; its parent is the item
 *     before it. Another occurrence after the same item is that item: branches share it. After
 *     another item it becomes a copy, whose id is a hash of the context, the parent and the
 *     message, so that the same source gives the same id. A message with the id of all zeros, which
 *     means "no id" here, is such a copy too.
 * (3) Messages in no list are last, in the order of their ids, below their parent_id if that
 *     exists. A loop is cut at the message whose parent was visited before.
 * (4) A parent has a lower number than its children. */
#include "old/legacy_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"

/* ---- ids to numbers ---- */

enum qp_rc
qp__legacy_index(struct qp__legacy_source *l, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  for (uint32_t i = 0; i < l->entry_count; i++) {
    const struct qp_uuid *id = &qp__legacy_entry(l, i)->id;

    if (!qp__idset_add(&l->pool_ids, id))
      return qp__fail_nomem(err, l->what);
    if (l->pool_ids.count == i)
      return qp__fail(err, QP_INVALID, "%s: duplicate message %s", l->what, qp_uuid_text(id, text));
  }
  return QP_OK;
}

/* ---- copies ---- */

static struct qp_uuid
derive_id(const struct qp__legacy_source *l, const struct qp_uuid *parent, const struct qp_uuid *id)
{
  static const char tag[] = "quipu copy of an old message";
  crypto_generichash_state h;
  struct qp_uuid out;

  (void)crypto_generichash_init(&h, NULL, 0, sizeof(out.b));
  (void)crypto_generichash_update(&h, (const unsigned char *)tag, sizeof(tag));
  (void)crypto_generichash_update(&h, l->id.b, sizeof(l->id.b));
  (void)crypto_generichash_update(&h, parent->b, sizeof(parent->b));
  (void)crypto_generichash_update(&h, id->b, sizeof(id->b));
  (void)crypto_generichash_final(&h, out.b, sizeof(out.b));
  out.b[6] = (uint8_t)((out.b[6] & 0x0f) | 0x80); /* version 8: custom */
  out.b[8] = (uint8_t)((out.b[8] & 0x3f) | 0x80);
  return out;
}

/* ---- items ---- */

static enum qp_rc
add_item(struct qp__legacy_source *l, uint32_t entry, uint32_t parent, uint32_t branch,
         uint32_t copy, uint32_t *out, struct qp_err *err)
{
  size_t cap = l->item_cap;
  struct qp__legacy_place *items;

  if (l->item_count >= QP__LEGACY_NONE - 1)
    return qp__fail(err, QP_TOOBIG, "%s: too many messages", l->what);
  if (l->item_count == cap) {
    cap = cap ? cap + cap / 2 : (size_t)l->entry_count + 16;
    items = qp__realloc(l->items, cap * sizeof(*items));
    if (!items)
      return qp__fail_nomem(err, l->what);
    l->items = items;
    l->item_cap = cap;
  }
  l->items[l->item_count] = (struct qp__legacy_place){
    .entry = entry,
    .parent = parent,
    .branch = branch,
    .copy = copy,
    .time = qp__legacy_entry(l, entry)->time,
  };
  *out = l->item_count++;
  return QP_OK;
}

static enum qp_rc
place_copy(struct qp__legacy_source *l, uint32_t entry, uint32_t parent, uint32_t branch,
           uint32_t *out, struct qp_err *err)
{
  struct qp__legacy_copies *c = &l->copies;
  struct qp_uuid above = { { 0 } };
  struct qp_uuid id;
  char text[QP_UUID_TEXT];
  uint32_t copy;
  enum qp_rc rc;

  if (parent != QP__LEGACY_NONE)
    above = qp__legacy_new_id(l, parent);
  id = derive_id(l, &above, &qp__legacy_entry(l, entry)->id);
  if (qp__idset_has(&l->pool_ids, &id))
    return qp__fail(err, QP_INVALID,
                    "%s: message %s has the id that the copy of another message would get", l->what,
                    qp_uuid_text(&id, text));
  copy = qp__idset_find(&c->ids, &id);
  if (copy != QP__NO_MEMBER) {
    *out = c->items[copy];
    return QP_OK;
  }
  rc = add_item(l, entry, parent, branch, (uint32_t)c->count, out, err);
  if (!rc && (!qp__idset_add(&c->ids, &id) || !qp__vec_push(c->items, c->count, c->cap, *out)))
    rc = qp__fail_nomem(err, l->what);
  return rc;
}

/* The item of a message after `parent`. */
static enum qp_rc
place(struct qp__legacy_source *l, uint32_t entry, uint32_t parent, uint32_t branch, uint32_t *out,
      struct qp_err *err)
{
  struct qp__legacy_entry *e = qp__legacy_entry(l, entry);
  enum qp_rc rc;

  if (e->item != QP__LEGACY_NONE && l->items[e->item].parent == parent) {
    *out = e->item;
    return QP_OK;
  }
  if (e->item != QP__LEGACY_NONE)
    return place_copy(l, entry, parent, branch, out, err);
  if (qp_uuid_is_none(&e->id))
    rc = place_copy(l, entry, parent, branch, out, err);
  else
    rc = add_item(l, entry, parent, branch, QP__LEGACY_NONE, out, err);
  if (!rc)
    e->item = *out;
  return rc;
}

/* ---- branches ---- */

static int
compare_lists(const void *a, const void *b)
{
  const char *x = ((const struct qp__legacy_list *)a)->key;
  const char *y = ((const struct qp__legacy_list *)b)->key;
  int main_first = (strcmp(y, "main") == 0) - (strcmp(x, "main") == 0);

  return main_first ? main_first : strcmp(x, y);
}

/* The element of a list in its spelling; the odd ids are in order. */
static const char *
spelled(const struct qp__legacy_list *list, size_t at, size_t *odd, char out[QP_UUID_TEXT])
{
  while (*odd < list->odds.count && list->odds.list[*odd].at < at)
    (*odd)++;
  if (*odd < list->odds.count && list->odds.list[*odd].at == at)
    return list->odds.list[*odd].text;
  return qp_uuid_text(&list->ids[at], out);
}

static enum qp_rc
note_missing(struct qp__legacy_source *l, struct qp__legacy_list *list, size_t at, const char *id,
             struct qp_err *err)
{
  char place_text[24];

  if (!list->missing)
    list->missing = json_object();
  (void)snprintf(place_text, sizeof(place_text), "%zu", at);
  if (qp__json_set_str(list->missing, place_text, id))
    return qp__fail_nomem(err, l->what);
  return qp__legacy_notef(l, err, "branch '%.80s' refers to message %s, which is missing",
                          list->key, id);
}

static enum qp_rc
order_branch(struct qp__legacy_source *l, uint32_t branch, struct qp_err *err)
{
  struct qp__legacy_list *list = &l->lists[branch];
  uint32_t before = l->item_count;
  uint32_t prev = QP__LEGACY_NONE;
  size_t odd = 0;
  enum qp_rc rc = QP_OK;

  list->items = qp__alloc0(list->count + 1, sizeof(*list->items));
  if (!list->items)
    return qp__fail_nomem(err, l->what);
  for (size_t i = 0; i < list->count && !rc; i++) {
    uint32_t entry = qp__idset_find(&l->pool_ids, &list->ids[i]);
    char text[QP_UUID_TEXT];

    list->items[i] = QP__LEGACY_NONE;
    if (entry == QP__LEGACY_NONE) {
      rc = note_missing(l, list, i, spelled(list, i, &odd, text), err);
      continue;
    }
    rc = place(l, entry, prev, branch, &list->items[i], err);
    if (rc)
      break;
    prev = list->items[i];
    if (prev < before)
      list->base = prev;
    else if (list->own == QP__LEGACY_NONE)
      list->own = prev;
  }
  list->head = prev;
  qp__free(list->ids); /* items contain the same in a quarter of the space */
  list->ids = NULL;
  return rc;
}

/* ---- messages in no branch ---- */

static int
compare_orphans(const void *a, const void *b, void *arg)
{
  const struct qp__legacy_source *l = arg;

  return memcmp(&qp__legacy_entry(l, *(const uint32_t *)a)->id,
                &qp__legacy_entry(l, *(const uint32_t *)b)->id, sizeof(struct qp_uuid));
}

#define MARK (QP__LEGACY_NONE - 1) /* the item of an entry that is being visited */

/* Adds an orphan and its ancestors to the tree. `way` has space for all orphans. */
static enum qp_rc
place_orphan(struct qp__legacy_source *l, uint32_t entry, uint32_t *way, struct qp_err *err)
{
  uint32_t parent = QP__LEGACY_NONE;
  size_t n = 0;
  enum qp_rc rc = QP_OK;

  while (entry != QP__LEGACY_NONE && qp__legacy_entry(l, entry)->item == QP__LEGACY_NONE) {
    struct qp__legacy_entry *e = qp__legacy_entry(l, entry);

    e->item = MARK;
    way[n++] = entry;
    entry =
        qp_uuid_is_none(&e->parent) ? QP__LEGACY_NONE : qp__idset_find(&l->pool_ids, &e->parent);
  }
  if (entry != QP__LEGACY_NONE && qp__legacy_entry(l, entry)->item == MARK) {
    char text[QP_UUID_TEXT];

    rc = qp__legacy_notef(l, err, "the parents of message %s form a loop, which was cut there",
                          qp_uuid_text(&qp__legacy_entry(l, way[n - 1])->id, text));
  } else if (entry != QP__LEGACY_NONE) {
    parent = qp__legacy_entry(l, entry)->item;
  }
  while (n-- > 0) {
    qp__legacy_entry(l, way[n])->item = QP__LEGACY_NONE; /* also after a failure */
    if (!rc)
      rc = place(l, way[n], parent, 0, &parent, err);
  }
  return rc;
}

static enum qp_rc
order_orphans(struct qp__legacy_source *l, struct qp_err *err)
{
  uint32_t *orphans = NULL;
  uint32_t *way = NULL;
  size_t count = 0;
  enum qp_rc rc = QP_OK;

  for (uint32_t i = 0; i < l->entry_count; i++)
    count += qp__legacy_entry(l, i)->item == QP__LEGACY_NONE;
  if (!count)
    return QP_OK;
  orphans = qp__alloc0(count, sizeof(*orphans));
  way = qp__alloc0(count, sizeof(*way));
  if (!orphans || !way) {
    rc = qp__fail_nomem(err, l->what);
    goto out;
  }
  count = 0;
  for (uint32_t i = 0; i < l->entry_count; i++)
    if (qp__legacy_entry(l, i)->item == QP__LEGACY_NONE)
      orphans[count++] = i;
  qsort_r(orphans, count, sizeof(*orphans), compare_orphans, l);
  for (size_t i = 0; i < count && !rc; i++)
    rc = place_orphan(l, orphans[i], way, err);
  if (!rc)
    rc = qp__legacy_notef(l, err,
                          "%zu %s in no branch: kept, and collected by gc unless a branch "
                          "is forked there",
                          count, count == 1 ? "message is" : "messages are");
out:
  qp__free(orphans);
  qp__free(way);
  return rc;
}

/* ---- times ---- */

static void
inherit_times(struct qp__legacy_source *l)
{
  for (uint32_t i = 0; i < l->item_count; i++) {
    struct qp__legacy_place *p = &l->items[i];

    if (!p->time && p->parent != QP__LEGACY_NONE)
      p->time = l->items[p->parent].time;
  }
}

/* A message without a time gets that of the message before it, otherwise that of the next one that
 * has one, otherwise that of the file. */
static void
fill_times(struct qp__legacy_source *l)
{
  inherit_times(l);
  for (uint32_t i = 0; i < l->item_count; i++) {
    uint32_t up = l->items[i].parent;

    /* The first child with a time decides. Each item gets its time once, so this visits each item
     * only once. */
    for (; l->items[i].time && up != QP__LEGACY_NONE && !l->items[up].time;
         up = l->items[up].parent)
      l->items[up].time = l->items[i].time;
  }
  inherit_times(l);
  for (uint32_t i = 0; i < l->item_count; i++) {
    if (l->items[i].time)
      continue;
    l->items[i].time = l->file_time;
    l->uses_file_time = true;
  }
}

enum qp_rc
qp__legacy_order(struct qp__legacy_source *l, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (l->list_count)
    qsort(l->lists, l->list_count, sizeof(*l->lists), compare_lists);
  for (uint32_t i = 0; i < l->list_count && !rc; i++)
    rc = order_branch(l, i, err);
  if (!rc)
    rc = order_orphans(l, err);
  if (!rc)
    fill_times(l);
  qp__idset_release(&l->pool_ids); /* no longer needed */
  return rc;
}

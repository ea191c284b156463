/* tree.c - see tree.h. */
#include "store/context/tree.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

#define TABLE_MIN 64u
#define DIRS_MAX 65535u
#define FRAMES_MAX 0x3fffffffu
#define FRAMES_LOOK 16u /* only this many of the newest frames are searched for the same offset */

/* Open addressing; a cell holds slot + 1, or 0. At most half of the cells are used. */
struct qp__id_table {
  uint32_t mask;
  uint32_t used;
  _Atomic uint32_t cells[];
};

struct qp__retired {
  struct qp__retired *next;
  void *memory;
};

void
qp__tree_init(struct qp__tree *t)
{
  memset(t, 0, sizeof(*t));
  qp__mutex_init(&t->ids_lock, QP__RANK_TREE_IDS);
}

void
qp__tree_release(struct qp__tree *t)
{
  struct qp__entry **blocks = atomic_load(&t->blocks);
  char **dirs = atomic_load(&t->dirs);

  for (size_t i = 0; i < t->block_cap && blocks && blocks[i]; i++)
    qp__free(blocks[i]);
  for (size_t i = 0; i < t->dir_count; i++)
    qp__free(dirs[i]);
  for (size_t i = 0; i < t->pack_count; i++)
    qp__free(t->packs[i]);
  qp__free(t->packs);
  qp__free(t->frames);
  qp__free(blocks);
  qp__free(dirs);
  qp__free(atomic_load(&t->ids));
  while (t->retired) {
    struct qp__retired *next = t->retired->next;

    qp__free(t->retired->memory);
    qp__free(t->retired);
    t->retired = next;
  }
  qp__mutex_release(&t->ids_lock);
}

void
qp__tree_move(struct qp__tree *to, struct qp__tree *from)
{
  const size_t start = offsetof(struct qp__tree, blocks);

  memcpy((char *)to + start, (char *)from + start, sizeof(*to) - start);
  memset((char *)from + start, 0, sizeof(*from) - start);
}

/* Keeps replaced memory as long as readers may use it, which is until the tree is freed. Arrays
 * grow by doubling, so all retired ones together are smaller than the live one. */
static bool
retire(struct qp__tree *t, void *memory)
{
  struct qp__retired *r;

  if (!memory)
    return true;
  r = qp__alloc(sizeof(*r));
  if (!r)
    return false;
  r->memory = memory;
  r->next = t->retired;
  t->retired = r;
  return true;
}

/* ---- entries ---- */

/* A larger copy of an array of pointers that readers may use; NULL: no memory. */
static void *
grow_array(struct qp__tree *t, void *old, size_t count, size_t cap)
{
  void **larger = qp__alloc0(cap, sizeof(*larger));

  if (!larger || !retire(t, old)) {
    qp__free(larger);
    return NULL;
  }
  if (old)
    memcpy(larger, old, count * sizeof(*larger));
  return larger;
}

static bool
grow_blocks(struct qp__tree *t, size_t need)
{
  struct qp__entry **blocks;
  size_t cap = t->block_cap ? t->block_cap : 4;

  QP_ASSERT(t->count <= t->block_cap * QP__TREE_BLOCK);
  if (need <= t->block_cap)
    return true;
  while (cap < need)
    cap *= 2;
  blocks = grow_array(t, atomic_load(&t->blocks), t->block_cap, cap);
  if (!blocks)
    return false;
  t->block_cap = cap;
  atomic_store_explicit(&t->blocks, blocks, memory_order_release);
  return true;
}

bool
qp__tree_reserve(struct qp__tree *t, size_t n)
{
  size_t need = (t->count + n + QP__TREE_BLOCK - 1) / QP__TREE_BLOCK;
  struct qp__entry **blocks;

  if (n > QP__NO_SLOT - 1 - t->count)
    return false;
  if (!grow_blocks(t, need))
    return false;
  blocks = atomic_load(&t->blocks);
  for (size_t i = t->count / QP__TREE_BLOCK; i < need; i++) {
    if (blocks[i])
      continue;
    blocks[i] = qp__alloc(QP__TREE_BLOCK * sizeof(struct qp__entry));
    if (!blocks[i])
      return false;
  }
  return true;
}

/* Counts an entry by its place, or undoes that. */
static void
count_place(struct qp__tree *t, const struct qp__entry *e, bool add)
{
  uint64_t one = add ? 1 : UINT64_MAX; /* minus one */

  switch (qp__entry_kind(e)) {
  case QP__PLACE_FILE:
    return;
  case QP__PLACE_PACK:
    atomic_fetch_add_explicit(&t->packed_count, one, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->packed_bytes, one * e->size, memory_order_relaxed);
    return;
  case QP__PLACE_TRASH:
    atomic_fetch_add_explicit(&t->trashed_count, one, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->trashed_bytes, one * e->size, memory_order_relaxed);
    return;
  }
}

static uint32_t
add_entry(struct qp__tree *t, const struct qp__entry *from)
{
  uint32_t slot = t->count;
  struct qp__entry *e = qp__tree_at(t, slot);

  memcpy(e, from, sizeof(*e));
  if (e->parent == QP__NO_SLOT) {
    e->depth = 0;
    e->jump = slot;
    e->path_bytes = e->size;
  } else {
    const struct qp__entry *p = qp__tree_at(t, e->parent);
    const struct qp__entry *pj = qp__tree_at(t, p->jump);

    e->depth = p->depth + 1;
    e->path_bytes = p->path_bytes + e->size;
    if (p->depth - pj->depth == pj->depth - qp__tree_at(t, pj->jump)->depth)
      e->jump = pj->jump;
    else
      e->jump = e->parent;
  }
  QP_ASSERT(e->parent == QP__NO_SLOT || (e->parent < slot && e->jump < slot));
  t->count++;
  t->pending_bytes += e->size;
  count_place(t, e, true);
  return slot;
}

uint32_t
qp__tree_slot(const struct qp__tree *t, const struct qp__entry *e)
{
  struct qp__entry **blocks = atomic_load_explicit(&t->blocks, memory_order_acquire);
  uint32_t block = 0;

  /* A block is found by its bytes; 64-bit numbers, because entries of two blocks do not compare. */
  while ((uintptr_t)e - (uintptr_t)blocks[block] >= QP__TREE_BLOCK * sizeof(*e))
    block++;
  return block * QP__TREE_BLOCK + (uint32_t)(e - blocks[block]);
}

void
qp__tree_publish(struct qp__tree *t, uint32_t count, uint64_t bytes)
{
  /* `count` and `pending_bytes` of the tree belong to the writer, which may stage more meanwhile;
   * qp__tree_invariants() compares them. */
  QP_ASSERT(count >= atomic_load(&t->visible));
  atomic_store_explicit(&t->bytes, bytes, memory_order_relaxed);
  atomic_store_explicit(&t->visible, count, memory_order_release);
}

uint32_t
qp__tree_ancestor(const struct qp__tree *t, uint32_t slot, uint32_t depth)
{
  const struct qp__entry *e = qp__tree_at(t, slot);

  QP_ASSERT(depth <= e->depth);
  while (e->depth > depth) {
    const struct qp__entry *j = qp__tree_at(t, e->jump);

    slot = j->depth >= depth ? e->jump : e->parent;
    e = qp__tree_at(t, slot);
  }
  return slot;
}

void
qp__tree_info(const struct qp__tree *t, uint32_t slot, struct qp_message_info *out)
{
  const struct qp__entry *e = qp__tree_at(t, slot);

  memset(out, 0, sizeof(*out));
  out->id = e->id;
  if (e->parent != QP__NO_SLOT)
    out->parent = qp__tree_at(t, e->parent)->id;
  out->created_at = e->time;
  out->position = e->depth;
  out->size = e->size;
  out->tokens = e->tokens;
  out->role = (enum qp_role)e->role;
  out->type = (enum qp_message_type)e->type;
  out->status = (enum qp_message_status)atomic_load_explicit(&e->status, memory_order_relaxed);
  memcpy(out->hash, e->hash, sizeof(out->hash));
}

/* ---- directory names ---- */

static bool
grow_dirs(struct qp__tree *t)
{
  size_t cap = t->dir_cap ? t->dir_cap * 2 : 4;
  char **dirs;

  if (t->dir_count < t->dir_cap)
    return true;
  dirs = grow_array(t, atomic_load(&t->dirs), t->dir_count, cap);
  if (!dirs)
    return false;
  t->dir_cap = cap;
  atomic_store_explicit(&t->dirs, dirs, memory_order_release);
  return true;
}

int
qp__tree_dir(struct qp__tree *t, const char *name, size_t len, uint16_t *out)
{
  char **dirs = atomic_load_explicit(&t->dirs, memory_order_relaxed);
  char *copy;

  for (size_t i = t->dir_count; i-- > 0;) { /* the newest is the likeliest */
    if (strlen(dirs[i]) == len && memcmp(dirs[i], name, len) == 0) {
      *out = (uint16_t)i;
      return 0;
    }
  }
  if (t->dir_count == DIRS_MAX)
    return -E2BIG;
  if (!grow_dirs(t))
    return -ENOMEM;
  copy = qp__strndup(name, len);
  if (!copy)
    return -ENOMEM;
  atomic_load(&t->dirs)[t->dir_count] = copy;
  *out = (uint16_t)t->dir_count++;
  return 0;
}

const char *
qp__tree_dir_name(const struct qp__tree *t, uint16_t dir)
{
  return atomic_load_explicit(&t->dirs, memory_order_acquire)[dir];
}

/* ---- places ---- */

enum qp_message_status
qp__place_status(uint64_t place)
{
  switch (qp__place_kind(place)) {
  case QP__PLACE_PACK:
    return QP_STATUS_ARCHIVED;
  case QP__PLACE_TRASH:
    return QP_STATUS_TRASHED;
  default:
    return QP_STATUS_LIVE;
  }
}

void
qp__tree_set_place(struct qp__tree *t, struct qp__entry *e, uint64_t place)
{
  QP_ASSERT(qp__place_kind(place) != QP__PLACE_PACK || qp__place_frame(place) < t->frame_count);
  count_place(t, e, false);
  atomic_store_explicit(&e->place, place, memory_order_relaxed);
  atomic_store_explicit(&e->status, (uint8_t)qp__place_status(place), memory_order_relaxed);
  count_place(t, e, true);
}

int
qp__tree_pack(struct qp__tree *t, const char *name, size_t len, uint32_t *out)
{
  char *copy;

  for (size_t i = t->pack_count; i-- > 0;) {
    if (strlen(t->packs[i]) == len && memcmp(t->packs[i], name, len) == 0) {
      *out = (uint32_t)i;
      return 0;
    }
  }
  if (t->pack_count == FRAMES_MAX)
    return -E2BIG;
  copy = qp__strndup(name, len);
  if (!copy || !qp__vec_push(t->packs, t->pack_count, t->pack_cap, copy)) {
    qp__free(copy);
    return -ENOMEM;
  }
  *out = (uint32_t)t->pack_count - 1;
  return 0;
}

int
qp__tree_frame(struct qp__tree *t, uint32_t pack, uint64_t offset, uint32_t *out)
{
  size_t low = t->frame_count > FRAMES_LOOK ? t->frame_count - FRAMES_LOOK : 0;

  QP_ASSERT(pack < t->pack_count);
  for (size_t i = t->frame_count; i-- > low;) {
    if (t->frames[i].pack == pack && t->frames[i].offset == offset) {
      *out = (uint32_t)i;
      return 0;
    }
  }
  if (t->frame_count == FRAMES_MAX)
    return -E2BIG;
  if (!qp__vec_reserve(t->frames, t->frame_count, t->frame_cap, 1))
    return -ENOMEM;
  t->frames[t->frame_count].pack = pack;
  t->frames[t->frame_count].offset = offset;
  *out = (uint32_t)t->frame_count++;
  return 0;
}

const char *
qp__tree_pack_of(const struct qp__tree *t, uint64_t place)
{
  QP_ASSERT(qp__place_kind(place) == QP__PLACE_PACK);
  QP_ASSERT(qp__place_frame(place) < t->frame_count);
  return t->packs[t->frames[qp__place_frame(place)].pack];
}

int
qp__tree_translate(struct qp__tree *t, const struct qp__tree *from, const struct qp__entry *e,
                   struct qp__entry *out)
{
  const char *dir = qp__tree_dir_name(from, e->dir);
  uint64_t place = atomic_load(&e->place);
  uint32_t pack;
  uint32_t frame;
  int rc;

  memcpy(out, e, sizeof(*out));
  rc = qp__tree_dir(t, dir, strlen(dir), &out->dir);
  if (rc || qp__place_kind(place) != QP__PLACE_PACK)
    return rc;
  rc =
      qp__tree_pack(t, qp__tree_pack_of(from, place), strlen(qp__tree_pack_of(from, place)), &pack);
  if (!rc)
    rc = qp__tree_frame(t, pack, from->frames[qp__place_frame(place)].offset, &frame);
  if (!rc)
    atomic_store(&out->place, qp__place_pack(frame, qp__place_pos(place)));
  return rc;
}

/* ---- ids ---- */

/* Ids of other programs need not be random: a counter in any part of one must reach all bits. */
static uint32_t
hash_id(const struct qp_uuid *id)
{
  uint64_t a;
  uint64_t b;

  memcpy(&a, id->b, 8);
  memcpy(&b, id->b + 8, 8);
  b *= 0x9e3779b97f4a7c15u;
  a ^= b ^ (b >> 32);
  a *= 0xbf58476d1ce4e5b9u;
  a ^= a >> 32;
  a *= 0x94d049bb133111ebu;
  return (uint32_t)(a >> 32);
}

static void
put_cell(struct qp__tree *t, struct qp__id_table *table, uint32_t slot)
{
  uint32_t at = hash_id(&qp__tree_at(t, slot)->id) & table->mask;

  QP_ASSERT_HELD(&t->ids_lock);
  QP_ASSERT(table->used < table->mask);
  while (atomic_load_explicit(&table->cells[at], memory_order_relaxed))
    at = (at + 1) & table->mask;
  atomic_store_explicit(&table->cells[at], slot + 1, memory_order_release);
  table->used++;
}

/* A table for `count` entries, filled with them; at most half of its cells are used. */
static struct qp__id_table *
build_table(struct qp__tree *t, uint32_t count)
{
  struct qp__id_table *table;
  uint64_t cells = TABLE_MIN;

  QP_ASSERT_HELD(&t->ids_lock);
  while (cells < (uint64_t)count * 2 + 2)
    cells *= 2;
  table = qp__alloc0(1, sizeof(*table) + (size_t)cells * sizeof(table->cells[0]));
  if (!table)
    return NULL;
  table->mask = (uint32_t)(cells - 1);
  for (uint32_t i = 0; i < count; i++)
    put_cell(t, table, i);
  return table;
}

/* Without memory for a larger table the lookup table is dropped; the next lookup makes a new
 * one. */
static void
table_insert(struct qp__tree *t, uint32_t slot)
{
  struct qp__id_table *table = atomic_load(&t->ids);

  QP_ASSERT_HELD(&t->ids_lock);
  if (table && table->used >= table->mask / 2) {
    struct qp__id_table *larger = build_table(t, slot);

    if (!retire(t, table)) {
      qp__free(larger);
      larger = table->used < table->mask - 1 ? table : NULL; /* fuller than intended, or dropped */
    }
    table = larger;
    atomic_store_explicit(&t->ids, table, memory_order_release);
  }
  if (table)
    put_cell(t, table, slot);
}

uint32_t
qp__tree_load(struct qp__tree *t, const struct qp__entry *e)
{
  uint32_t slot = add_entry(t, e);

  if (atomic_load_explicit(&t->ids, memory_order_relaxed)) {
    qp__mutex_lock(&t->ids_lock);
    table_insert(t, slot);
    qp__mutex_unlock(&t->ids_lock);
  }
  return slot;
}

uint32_t
qp__tree_add(struct qp__tree *t, const struct qp__entry *e)
{
  uint32_t slot;

  qp__mutex_lock(&t->ids_lock); /* a reader may be making the table just now */
  slot = add_entry(t, e);
  if (atomic_load_explicit(&t->ids, memory_order_relaxed))
    table_insert(t, slot);
  qp__mutex_unlock(&t->ids_lock);
  return slot;
}

bool
qp__tree_cut(struct qp__tree *t)
{
  uint32_t visible = atomic_load(&t->visible);
  bool ok;

  if (t->count == visible)
    return true;
  qp__mutex_lock(&t->ids_lock);
  ok = retire(t, atomic_load(&t->ids));
  if (ok) {
    atomic_store_explicit(&t->ids, NULL, memory_order_release); /* the next lookup makes another */
    t->count = visible;
    t->pending_bytes = atomic_load(&t->bytes);
  }
  qp__mutex_unlock(&t->ids_lock);
  return ok;
}

bool
qp__tree_find(struct qp__tree *t, const struct qp_uuid *id, bool all, uint32_t *out)
{
  struct qp__id_table *table = atomic_load_explicit(&t->ids, memory_order_acquire);
  uint32_t limit;
  uint32_t at;

  if (!table) {
    qp__mutex_lock(&t->ids_lock);
    table = atomic_load(&t->ids);
    if (!table) {
      table = build_table(t, t->count);
      atomic_store_explicit(&t->ids, table, memory_order_release);
    }
    qp__mutex_unlock(&t->ids_lock);
    if (!table)
      return false;
  }
  limit = all ? t->count : atomic_load_explicit(&t->visible, memory_order_acquire);
  at = hash_id(id) & table->mask;
  *out = QP__NO_SLOT;
  for (;; at = (at + 1) & table->mask) {
    uint32_t cell = atomic_load_explicit(&table->cells[at], memory_order_acquire);

    if (!cell)
      return true;
    if (cell - 1 < limit && qp_uuid_equal(&qp__tree_at(t, cell - 1)->id, id)) {
      *out = cell - 1;
      return true;
    }
  }
}

/* ---- invariants ---- */

static void
check_parents(const struct qp__tree *t, uint32_t slot)
{
  const struct qp__entry *e = qp__tree_at(t, slot);
  const struct qp__entry *p;

  if (e->parent == QP__NO_SLOT) {
    QP_ASSERT(e->depth == 0 && e->jump == slot);
    QP_ASSERT(e->path_bytes == e->size);
    return;
  }
  QP_ASSERT(e->parent < slot);
  QP_ASSERT(e->jump < slot);
  p = qp__tree_at(t, e->parent);
  QP_ASSERT(e->depth == p->depth + 1);
  QP_ASSERT(e->path_bytes == p->path_bytes + e->size);
  QP_ASSERT(qp__tree_at(t, e->jump)->depth < e->depth);
}

static void
check_place(const struct qp__tree *t, const struct qp__entry *e)
{
  uint64_t place = atomic_load_explicit(&e->place, memory_order_relaxed);
  uint8_t status = atomic_load_explicit(&e->status, memory_order_relaxed);

  QP_ASSERT(qp__place_kind(place) <= QP__PLACE_TRASH);
  QP_ASSERT(qp__place_kind(place) != QP__PLACE_FILE || place == 0);
  if (qp__place_kind(place) == QP__PLACE_PACK) {
    QP_ASSERT(qp__place_frame(place) < t->frame_count);
    QP_ASSERT(t->frames[qp__place_frame(place)].pack < t->pack_count);
  }
  QP_ASSERT(status == (uint8_t)qp__place_status(place) || status == QP_STATUS_UNAVAILABLE);
}

void
qp__tree_invariants(const struct qp__tree *t, bool alone)
{
  uint32_t visible = atomic_load_explicit(&t->visible, memory_order_acquire);
  uint64_t bytes = 0, packed = 0, packed_bytes = 0, trashed = 0, trashed_bytes = 0;

  QP_ASSERT(visible <= t->count);
  QP_ASSERT(t->count <= t->block_cap * QP__TREE_BLOCK);
  QP_ASSERT(t->dir_count <= t->dir_cap && t->pack_count <= t->pack_cap);
  QP_ASSERT(t->frame_count <= t->frame_cap);
  for (uint32_t slot = 0; slot < t->count; slot++) {
    const struct qp__entry *e = qp__tree_at(t, slot);

    check_parents(t, slot);
    bytes += e->size;
    if (!alone)
      continue;
    check_place(t, e);
    packed += qp__entry_kind(e) == QP__PLACE_PACK;
    packed_bytes += qp__entry_kind(e) == QP__PLACE_PACK ? e->size : 0;
    trashed += qp__entry_kind(e) == QP__PLACE_TRASH;
    trashed_bytes += qp__entry_kind(e) == QP__PLACE_TRASH ? e->size : 0;
  }
  QP_ASSERT(t->pending_bytes == bytes);
  QP_ASSERT(visible < t->count || atomic_load(&t->bytes) == bytes);
  if (alone) {
    QP_ASSERT(atomic_load(&t->packed_count) == packed);
    QP_ASSERT(atomic_load(&t->packed_bytes) == packed_bytes);
    QP_ASSERT(atomic_load(&t->trashed_count) == trashed);
    QP_ASSERT(atomic_load(&t->trashed_bytes) == trashed_bytes);
  }
}

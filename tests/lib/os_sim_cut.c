/* os_sim_cut.c - the durable state of the simulated disk, the pending operations, and the power
 * cut.
 *
 * The important question is which pending directory operations may become durable together. A set
 * of them is valid if with every operation it contains
 * (a) all earlier operations on the same directory or directories,
 * (b) for a move between two directories, all earlier operations that put the target directory, or
 *     one above it, in its place: the moved entry must not end in an unreachable directory,
 * (c) for the removal of a directory, all earlier operations on that directory: an entry that was
 *     moved out of it must not be lost with it.
 * Journaling file systems guarantee at least this. A sync processes the operations from the last to
 * the first and includes what these rules require; the power cut processes them from the first to
 * the last and drops those that lack something. */
#include "os_sim_int.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define SECTOR 512u

/* splitmix64: every state is good, so every seed is. */
uint64_t
qp__sim_random(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* 0 to n - 1. */
static uint64_t
below(struct qp__os_sim *s, uint64_t n)
{
  return qp__sim_random(&s->cut_state) % n;
}

/* ---- pending changes of content ---- */

struct qp__sim_change *
qp__sim_change_write(const unsigned char *src, size_t n, uint64_t off)
{
  bool zeros = qp__sim_is_zero(src, n);
  struct qp__sim_change *change = qp__alloc(sizeof(*change) + (zeros ? 0 : n));

  if (!change)
    return NULL;
  change->next = NULL;
  change->truncates = false;
  change->zeros = zeros;
  change->off = off;
  change->len = n;
  if (!zeros)
    memcpy(change->data, src, n);
  return change;
}

struct qp__sim_change *
qp__sim_change_truncate(uint64_t size)
{
  struct qp__sim_change *change = qp__alloc0(1, sizeof(*change));

  if (!change)
    return NULL;
  change->truncates = true;
  change->off = size;
  return change;
}

void
qp__sim_change_add(struct qp__sim_inode *node, struct qp__sim_change *change)
{
  if (node->last_change)
    node->last_change->next = change;
  else
    node->first_change = change;
  node->last_change = change;
}

static void
pop_change(struct qp__sim_inode *node)
{
  struct qp__sim_change *change = node->first_change;

  node->first_change = change->next;
  if (!node->first_change)
    node->last_change = NULL;
  qp__free(change);
}

/* Writes the bytes from `lo` to `hi` of the file, as far as the change contains them. */
static int
apply_part(struct qp__sim_inode *node, const struct qp__sim_change *change, uint64_t lo,
           uint64_t hi)
{
  uint64_t end = change->off + change->len;
  const unsigned char *src;

  lo = lo < change->off ? change->off : lo;
  hi = hi > end ? end : hi;
  if (lo >= hi)
    return 0;
  src = change->zeros ? NULL : change->data + (lo - change->off);
  return qp__sim_data_write(&node->disk_data, src, (size_t)(hi - lo), lo);
}

static int
apply_change(struct qp__sim_inode *node, const struct qp__sim_change *change)
{
  if (!change->truncates)
    return apply_part(node, change, 0, UINT64_MAX);
  qp__sim_data_resize(&node->disk_data, change->off);
  return 0;
}

int
qp__sim_sync_data(struct qp__sim_inode *node)
{
  while (node->first_change) {
    int rc = apply_change(node, node->first_change);

    if (rc)
      return rc;
    pop_change(node);
  }
  return 0;
}

/* ---- pending changes of directories ---- */

void
qp__sim_op_free(struct qp__sim_op *op)
{
  if (!op)
    return;
  qp__sim_inode_unref(op->dir);
  qp__sim_inode_unref(op->dir2);
  qp__sim_inode_unref(op->node);
  qp__sim_inode_unref(op->node2);
  for (size_t i = 0; i < op->above_count; i++)
    qp__sim_inode_unref(op->above[i]);
  qp__free(op->above);
  qp__free(op->name);
  qp__free(op->name2);
  qp__free(op);
}

static size_t
count_above(const struct qp__sim_inode *dir)
{
  size_t n = 0;

  for (; dir; dir = dir->parent)
    n++;
  return n;
}

static void
add_above(struct qp__sim_op *op, struct qp__sim_inode *dir)
{
  for (; dir; dir = dir->parent)
    op->above[op->above_count++] = qp__sim_inode_ref(dir);
}

struct qp__sim_op *
qp__sim_op_new(const struct qp__sim_op *from)
{
  struct qp__sim_op *op = qp__alloc0(1, sizeof(*op));
  bool moves = from->dir2 && from->dir2 != from->dir;

  if (!op)
    return NULL;
  op->kind = from->kind;
  op->dir = qp__sim_inode_ref(from->dir);
  op->dir2 = from->dir2 ? qp__sim_inode_ref(from->dir2) : NULL;
  op->node = qp__sim_inode_ref(from->node);
  op->node2 = from->node2 ? qp__sim_inode_ref(from->node2) : NULL;
  op->name = qp__strdup(from->name);
  if (!op->name)
    goto out;
  if (from->name2) {
    op->name2 = qp__strdup(from->name2);
    if (!op->name2)
      goto out;
  }
  if (moves) {
    op->above = qp__alloc0(count_above(from->dir) + count_above(from->dir2), sizeof(*op->above));
    if (!op->above)
      goto out;
    add_above(op, op->dir2);
    if (op->kind == QP__SIM_EXCHANGE)
      add_above(op, op->dir);
  }
  return op;
out:
  qp__sim_op_free(op);
  return NULL;
}

void
qp__sim_op_add(struct qp__os_sim *s, struct qp__sim_op *op)
{
  op->next = NULL;
  op->prev = s->last_op;
  if (s->last_op)
    s->last_op->next = op;
  else
    s->first_op = op;
  s->last_op = op;
}

static void
drop_op(struct qp__os_sim *s, struct qp__sim_op *op)
{
  if (op->prev)
    op->prev->next = op->next;
  else
    s->first_op = op->next;
  if (op->next)
    op->next->prev = op->prev;
  else
    s->last_op = op->prev;
  qp__sim_op_free(op);
}

void
qp__sim_forget_ops(struct qp__os_sim *s)
{
  while (s->first_op)
    drop_op(s, s->first_op);
}

/* Applies an operation on the cached names to the durable ones. Steps that can fail come first. */
static int
apply_op(struct qp__sim_op *op)
{
  int rc = 0;

  switch (op->kind) {
  case QP__SIM_LINK:
    return qp__sim_names_put(&op->dir->disk_names, op->name, op->node);
  case QP__SIM_UNLINK:
    qp__sim_names_remove(&op->dir->disk_names, op->name);
    return 0;
  case QP__SIM_RENAME:
    rc = qp__sim_names_put(&op->dir2->disk_names, op->name2, op->node);
    if (!rc)
      qp__sim_names_remove(&op->dir->disk_names, op->name);
    return rc;
  case QP__SIM_EXCHANGE: /* both names exist, so neither call needs memory */
    rc = qp__sim_names_put(&op->dir->disk_names, op->name, op->node2);
    return rc ? rc : qp__sim_names_put(&op->dir2->disk_names, op->name2, op->node);
  }
  return rc;
}

/* Makes the chosen operations durable, in order; stops at the first one that lacks memory. */
static int
apply_picked(struct qp__os_sim *s)
{
  struct qp__sim_op *op = s->first_op;
  int rc = 0;

  while (op) {
    struct qp__sim_op *next = op->next;

    if (op->picked && !rc)
      rc = apply_op(op);
    if (op->picked && !rc)
      drop_op(s, op);
    else
      op->picked = false;
    op = next;
  }
  return rc;
}

/* The directory that the operation removes, or NULL. */
static struct qp__sim_inode *
removed_dir(const struct qp__sim_op *op)
{
  struct qp__sim_inode *node = op->kind == QP__SIM_UNLINK   ? op->node
                               : op->kind == QP__SIM_RENAME ? op->node2
                                                            : NULL;

  return node && S_ISDIR(node->mode) ? node : NULL;
}

static bool
has_marked_dir(const struct qp__sim_op *op)
{
  return op->dir->mark_names || (op->dir2 && op->dir2->mark_names);
}

static void
mark_dirs(struct qp__sim_op *op)
{
  op->dir->mark_names = true;
  if (op->dir2)
    op->dir2->mark_names = true;
}

static void
clear_marks(struct qp__os_sim *s)
{
  for (struct qp__sim_inode *node = s->first; node; node = node->next) {
    node->mark_names = false;
    node->mark_place = false;
    node->ops_seen = 0;
    node->ops_quota = 0;
  }
}

/* ---- syncs ---- */

static bool
places_marked(const struct qp__sim_op *op)
{
  if (op->kind == QP__SIM_UNLINK)
    return false;
  return op->node->mark_place || (op->kind == QP__SIM_EXCHANGE && op->node2->mark_place);
}

/* Here mark_names means "earlier operations on it are needed", mark_place "earlier operations that
 * put it in its place are needed". */
int
qp__sim_sync_names(struct qp__os_sim *s, struct qp__sim_inode *dir)
{
  dir->mark_names = true;
  for (struct qp__sim_op *op = s->last_op; op; op = op->prev) {
    struct qp__sim_inode *removed = removed_dir(op);

    if (!has_marked_dir(op) && !places_marked(op))
      continue;
    op->picked = true;
    mark_dirs(op);
    for (size_t i = 0; i < op->above_count; i++)
      op->above[i]->mark_place = true;
    if (removed)
      removed->mark_names = true;
  }
  clear_marks(s);
  return apply_picked(s);
}

int
qp__sim_sync_all(struct qp__os_sim *s)
{
  for (struct qp__sim_op *op = s->first_op; op; op = op->next)
    op->picked = true;
  for (struct qp__sim_inode *node = s->first; node; node = node->next) {
    int rc = qp__sim_sync_data(node);

    if (rc)
      return rc;
  }
  return apply_picked(s);
}

/* ---- the cut: directories ---- */

/* One point for the whole tree. */
static void
pick_prefix(struct qp__os_sim *s, uint64_t count)
{
  struct qp__sim_op *op = s->first_op;

  for (; count > 0 && op; count--) {
    op->picked = true;
    op = op->next;
  }
}

static bool
is_sound(const struct qp__sim_op *op)
{
  const struct qp__sim_inode *removed = removed_dir(op);

  if (has_marked_dir(op) || (removed && removed->mark_names))
    return false;
  for (size_t i = 0; i < op->above_count; i++)
    if (op->above[i]->mark_place)
      return false;
  return op->dir->ops_quota > 0 && (!op->dir2 || op->dir2->ops_quota > 0);
}

/* A point for each directory. Here mark_names means "an operation on it was dropped", mark_place
 * "an operation that puts it in its place was dropped". */
static void
pick_each(struct qp__os_sim *s)
{
  for (struct qp__sim_op *op = s->first_op; op; op = op->next) {
    op->dir->ops_seen++;
    if (op->dir2 && op->dir2 != op->dir)
      op->dir2->ops_seen++;
  }
  for (struct qp__sim_inode *node = s->first; node; node = node->next)
    if (node->ops_seen)
      node->ops_quota = below(s, node->ops_seen + 1);
  for (struct qp__sim_op *op = s->first_op; op; op = op->next) {
    op->picked = is_sound(op);
    if (op->picked) {
      op->dir->ops_quota--;
      if (op->dir2 && op->dir2 != op->dir)
        op->dir2->ops_quota--;
      continue;
    }
    mark_dirs(op);
    if (op->kind != QP__SIM_UNLINK)
      op->node->mark_place = true;
    if (op->kind == QP__SIM_EXCHANGE)
      op->node2->mark_place = true;
  }
  clear_marks(s);
}

static void
cut_names(struct qp__os_sim *s)
{
  uint64_t count = 0;
  uint64_t style = below(s, 16);

  for (const struct qp__sim_op *op = s->first_op; op; op = op->next)
    count++;
  if (style >= 12)
    pick_each(s);
  else if (style >= 2)
    pick_prefix(s, below(s, count + 1));
  else if (style == 1)
    pick_prefix(s, count);
  (void)apply_picked(s); /* a change that lacks memory is lost, which a power cut may do */
  qp__sim_forget_ops(s);
}

/* ---- the cut: contents ---- */

enum fate { FATE_DROP, FATE_KEEP, FATE_TEAR };

/* The length may have reached the disk without the bytes. */
static void
maybe_extend(struct qp__os_sim *s, struct qp__sim_inode *node, const struct qp__sim_change *change)
{
  uint64_t end = change->off + change->len;

  if (below(s, 4) == 0 && end > node->disk_data.size)
    qp__sim_data_resize(&node->disk_data, end);
}

/* A write within one sector: complete, or nothing, or rarely only its first bytes. */
static void
tear_sector(struct qp__os_sim *s, struct qp__sim_inode *node, const struct qp__sim_change *change)
{
  uint64_t keep = change->len;

  if (change->len > 1 && below(s, 2) == 0)
    keep = 1 + below(s, change->len - 1);
  else if (below(s, 2) == 0)
    keep = 0;
  (void)apply_part(node, change, change->off, change->off + keep);
}

/* A write over several sectors: some of them in a row, or all but some in a row. */
static void
tear_sectors(struct qp__os_sim *s, struct qp__sim_inode *node, const struct qp__sim_change *change)
{
  uint64_t first = change->off / SECTOR;
  uint64_t count = (change->off + change->len - 1) / SECTOR - first + 1;
  uint64_t lo = 0;
  uint64_t hi = count;
  uint64_t style = below(s, 4);

  if (style == 0) /* a prefix */
    hi = 1 + below(s, count - 1);
  else if (style == 1) /* a suffix */
    lo = 1 + below(s, count - 1);
  else { /* keeps the middle, or leaves a hole there */
    hi = 1 + below(s, count);
    lo = below(s, hi);
  }
  lo = (first + lo) * SECTOR;
  hi = (first + hi) * SECTOR;
  if (style == 3) {
    (void)apply_part(node, change, 0, lo);
    (void)apply_part(node, change, hi, UINT64_MAX);
    return;
  }
  if (below(s, 4) == 0)
    hi -= below(s, SECTOR); /* the last sector is torn itself */
  (void)apply_part(node, change, lo, hi);
}

static void
settle_change(struct qp__os_sim *s, struct qp__sim_inode *node, const struct qp__sim_change *change,
              enum fate fate)
{
  if (fate == FATE_TEAR && (change->truncates || change->len == 0))
    fate = below(s, 2) == 0 ? FATE_KEEP : FATE_DROP;
  if (fate == FATE_KEEP) {
    (void)apply_change(node, change);
    return;
  }
  if (fate == FATE_TEAR) {
    if (change->off / SECTOR == (change->off + change->len - 1) / SECTOR)
      tear_sector(s, node, change);
    else
      tear_sectors(s, node, change);
  }
  if (!change->truncates)
    maybe_extend(s, node, change);
}

/* The writes of a file share a style, so that the usual results (everything, nothing, a clean
 * prefix) are not rare among mixtures. */
static void
cut_content(struct qp__os_sim *s, struct qp__sim_inode *node)
{
  static const enum fate mixture[] = { FATE_KEEP, FATE_KEEP, FATE_KEEP, FATE_DROP,
                                       FATE_DROP, FATE_TEAR, FATE_TEAR };
  uint64_t style = below(s, 8);
  uint64_t count = 0;
  uint64_t point;

  for (const struct qp__sim_change *change = node->first_change; change; change = change->next)
    count++;
  point = below(s, count + 1);
  for (uint64_t i = 0; node->first_change; i++) {
    enum fate fate = mixture[below(s, sizeof(mixture) / sizeof(mixture[0]))];

    if (style == 0)
      fate = FATE_DROP;
    else if (style == 1)
      fate = FATE_KEEP;
    else if (style <= 3)
      fate = i < point ? FATE_KEEP : i == point ? FATE_TEAR : FATE_DROP;
    settle_change(s, node, node->first_change, fate);
    pop_change(node);
  }
}

/* ---- the cut: starting again ---- */

/* The cached state becomes the durable state. */
static int
restore_cached(struct qp__os_sim *s)
{
  int rc = 0;

  for (struct qp__sim_inode *node = s->first; node; node = node->next) {
    if (node->stale) {
      rc = qp__sim_data_copy(&node->data, &node->disk_data);
      if (rc)
        return rc;
      node->stale = false;
    }
    rc = qp__sim_names_copy(&node->names, &node->disk_names);
    if (rc)
      return rc;
    node->links = 0;
    node->parent = NULL;
  }
  for (struct qp__sim_inode *node = s->first; node; node = node->next) {
    for (size_t i = 0; i < node->names.count; i++) {
      struct qp__sim_inode *child = node->names.v[i].node;

      assert(child->links == 0);
      child->links = 1;
      if (S_ISDIR(child->mode))
        child->parent = node;
    }
  }
  return 0;
}

int
qp__os_sim_power_cut(struct qp__os_sim *s)
{
  int rc;

  (void)pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < QP__SIM_FILES; i++)
    if (s->files[i].fd)
      qp__sim_close(s, &s->files[i]);
  qp__sim_hold_all(s);
  cut_names(s);
  for (struct qp__sim_inode *node = s->first; node; node = node->next) {
    if (node->first_change) {
      node->stale = true;
      cut_content(s, node);
    }
  }
  rc = restore_cached(s);
  qp__sim_release_all(s);
  s->off = rc != 0;
  if (!rc) {
    s->cut_armed = false;
    s->cuts++;
    s->used = 0;
    for (struct qp__sim_inode *node = s->first; node; node = node->next)
      s->used += node->data.size;
  }
  (void)pthread_mutex_unlock(&s->lock);
  return rc;
}

/* os_sim_tree.c - the cached tree of the simulated file system: finding a path, making changes.
 *
 * Every change is also recorded as pending; the memory for both is allocated before anything
 * changes. */
#include "os_sim_int.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

/* ---- paths ---- */

bool
qp__sim_is_removed(const struct qp__sim_inode *dir)
{
  return dir != dir->sim->root && dir->links == 0;
}

static bool
has_dotdot(const char *path)
{
  const char *p = path;

  while (*p) {
    size_t len = strcspn(p, "/");

    if (len == 2 && memcmp(p, "..", 2) == 0)
      return true;
    p += len;
    p += strspn(p, "/");
  }
  return false;
}

int
qp__sim_find(struct qp__sim_inode *at, const char *path, struct qp__sim_place *place)
{
  const char *p = path;

  if (*p == '/' || has_dotdot(path))
    return -EXDEV;
  if (!*p)
    return -ENOENT;
  place->node = at;
  while (*p) {
    size_t len = strcspn(p, "/");

    if (len > NAME_MAX)
      return -ENAMETOOLONG;
    memcpy(place->name, p, len);
    place->name[len] = 0;
    place->slash = p[len] == '/';
    p += len;
    p += strspn(p, "/");
    if (!place->node)
      return -ENOENT;
    if (!S_ISDIR(place->node->mode))
      return -ENOTDIR;
    place->dir = place->node;
    if (strcmp(place->name, ".") == 0)
      continue;
    if (qp__sim_is_removed(place->dir))
      return -ENOENT;
    place->node = qp__sim_names_find(&place->dir->names, place->name);
  }
  return place->slash && place->node && !S_ISDIR(place->node->mode) ? -ENOTDIR : 0;
}

/* ---- content ---- */

static void
touch(struct qp__os_sim *s, struct qp__sim_inode *node)
{
  node->mtime_ms = s->now;
}

int
qp__sim_truncate(struct qp__os_sim *s, struct qp__sim_inode *node, uint64_t size)
{
  struct qp__sim_change *change;

  if (size > QP__SIM_MAX_SIZE)
    return -EFBIG;
  if (s->capacity && size > node->data.size &&
      (s->used > s->capacity || size - node->data.size > s->capacity - s->used))
    return -ENOSPC;
  change = qp__sim_change_truncate(size);
  if (!change)
    return -ENOMEM;
  s->used = s->used - node->data.size + size;
  qp__sim_data_resize(&node->data, size);
  touch(s, node);
  qp__sim_change_add(node, change);
  return 0;
}

/* The number of the n bytes at `off` that fit on the disk. */
static size_t
fit_write(const struct qp__os_sim *s, const struct qp__sim_inode *node, size_t n, uint64_t off)
{
  uint64_t room = s->used < s->capacity ? s->capacity - s->used : 0;
  uint64_t end = node->data.size + room;

  if (!s->capacity || off + n <= end)
    return n;
  return off < end ? (size_t)(end - off) : 0;
}

ssize_t
qp__sim_write(struct qp__os_sim *s, struct qp__sim_inode *node, const void *buf, size_t n,
              uint64_t off)
{
  uint64_t before = node->data.size;
  struct qp__sim_change *change;
  int rc;

  if (n > QP__SIM_MAX_SIZE || off > QP__SIM_MAX_SIZE - n)
    return -EFBIG;
  n = fit_write(s, node, n, off);
  if (n == 0)
    return -ENOSPC;
  change = qp__sim_change_write(buf, n, off);
  if (!change)
    return -ENOMEM;
  rc = qp__sim_data_write(&node->data, change->zeros ? NULL : change->data, n, off);
  if (rc) {
    qp__free(change);
    return rc;
  }
  s->used += node->data.size - before;
  touch(s, node);
  qp__sim_change_add(node, change);
  return (ssize_t)n;
}

/* ---- names ---- */

/* An entry of this inode was removed. */
static void
lose_link(struct qp__os_sim *s, struct qp__sim_inode *node)
{
  node->links = 0;
  node->parent = NULL;
  if (node->opens == 0)
    s->used -= node->data.size;
}

uint64_t
qp__sim_inodes(const struct qp__os_sim *s)
{
  uint64_t count = 0;

  for (const struct qp__sim_inode *node = s->first; node; node = node->next)
    count += node->links || node->opens;
  return count;
}

int
qp__sim_create(struct qp__os_sim *s, struct qp__sim_place *place, mode_t mode)
{
  struct qp__sim_inode *node;
  struct qp__sim_op *op;
  int rc = -ENOMEM;

  if (s->max_inodes && qp__sim_inodes(s) >= s->max_inodes)
    return -ENOSPC;
  node = qp__sim_inode_new(s, mode);
  if (!node)
    return -ENOMEM;
  (void)qp__sim_inode_ref(node);
  op = qp__sim_op_new(&(struct qp__sim_op){
      .kind = QP__SIM_LINK, .dir = place->dir, .node = node, .name = place->name });
  if (op)
    rc = qp__sim_names_put(&place->dir->names, place->name, node);
  if (!rc) {
    node->links = 1;
    node->parent = S_ISDIR(mode) ? place->dir : NULL;
    place->node = node;
    touch(s, place->dir);
    qp__sim_op_add(s, op);
    op = NULL;
  }
  qp__sim_op_free(op);
  qp__sim_inode_unref(node);
  return rc;
}

int
qp__sim_remove(struct qp__os_sim *s, struct qp__sim_place *place)
{
  struct qp__sim_op *op = qp__sim_op_new(&(struct qp__sim_op){
      .kind = QP__SIM_UNLINK, .dir = place->dir, .node = place->node, .name = place->name });

  if (!op)
    return -ENOMEM;
  lose_link(s, place->node);
  touch(s, place->dir);
  qp__sim_names_remove(&place->dir->names, place->name);
  qp__sim_op_add(s, op);
  return 0;
}

static bool
is_at_or_above(const struct qp__sim_inode *node, const struct qp__sim_inode *dir)
{
  for (; dir; dir = dir->parent)
    if (dir == node)
      return true;
  return false;
}

int
qp__sim_check_move(const struct qp__sim_place *old, const struct qp__sim_place *new, unsigned flags)
{
  bool is_dir;

  if (!old->node)
    return -ENOENT;
  is_dir = S_ISDIR(old->node->mode);
  if (flags & QP__RENAME_EXCHANGE) {
    if (!new->node)
      return -ENOENT;
    return is_at_or_above(old->node, new->dir) || is_at_or_above(new->node, old->dir) ? -EINVAL : 0;
  }
  if (is_at_or_above(old->node, new->dir))
    return -EINVAL;
  if (!new->node || new->node == old->node)
    return 0;
  if (is_dir && !S_ISDIR(new->node->mode))
    return -ENOTDIR;
  if (!is_dir && S_ISDIR(new->node->mode))
    return -EISDIR;
  return new->node->names.count > 0 ? -ENOTEMPTY : 0;
}

static void
set_parent(struct qp__sim_inode *node, struct qp__sim_inode *dir)
{
  node->parent = S_ISDIR(node->mode) ? dir : NULL;
}

int
qp__sim_move(struct qp__os_sim *s, struct qp__sim_place *old, struct qp__sim_place *new,
             unsigned flags)
{
  bool exchange = (flags & QP__RENAME_EXCHANGE) != 0;
  struct qp__sim_op *op =
      qp__sim_op_new(&(struct qp__sim_op){ .kind = exchange ? QP__SIM_EXCHANGE : QP__SIM_RENAME,
                                           .dir = old->dir,
                                           .dir2 = new->dir,
                                           .node = old->node,
                                           .node2 = new->node,
                                           .name = old->name,
                                           .name2 = new->name });
  int rc;

  if (!op)
    return -ENOMEM;
  rc = qp__sim_names_put(&new->dir->names, new->name, old->node);
  if (rc) {
    qp__sim_op_free(op);
    return rc;
  }
  set_parent(old->node, new->dir);
  if (exchange) {
    (void)qp__sim_names_put(&old->dir->names, old->name,
                            new->node); /* it exists: no memory is needed */
    set_parent(new->node, old->dir);
  } else {
    qp__sim_names_remove(&old->dir->names, old->name);
    if (new->node)
      lose_link(s, new->node);
  }
  touch(s, old->dir);
  touch(s, new->dir);
  qp__sim_op_add(s, op);
  return 0;
}

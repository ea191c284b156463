/* replay_plan.c - applies the operations of a journal in memory. See replay_plan.h. */
#include "store/files/journal/replay_plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/list.h"
#include "base/vec.h"
#include "store/files/journal/replay_plan_int.h"

#define TABLE_MIN 1024

/* ---- nodes ---- */

static size_t
hash_name(const struct qp__node *dir, const char *name)
{
  uint64_t h = (uintptr_t)dir * 0x9e3779b97f4a7c15u;

  for (; *name; name++)
    h = (h ^ (unsigned char)*name) * 0x100000001b3u;
  return (size_t)(h ^ h >> 29);
}

struct qp__node *
qp__node_known(const struct qp__replay_plan *p, const struct qp__node *dir, const char *name)
{
  struct qp__node *n = p->table[hash_name(dir, name) & (p->table_size - 1)];

  while (n && (n->parent != dir || strcmp(n->name, name) != 0))
    n = n->chain;
  return n;
}

static bool
grow_table(struct qp__replay_plan *p)
{
  size_t size = p->table_size * 2;
  struct qp__node **table = qp__alloc0(size, sizeof(struct qp__node *));

  if (!table)
    return false;
  for (size_t i = 0; i < p->table_size; i++)
    while (p->table[i]) {
      struct qp__node *n = p->table[i];
      size_t at = hash_name(n->parent, n->name) & (size - 1);

      p->table[i] = n->chain;
      n->chain = table[at];
      table[at] = n;
    }
  qp__free(p->table);
  p->table = table;
  p->table_size = size;
  return true;
}

static void
link_node(struct qp__replay_plan *p, struct qp__node *dir, struct qp__node *n)
{
  size_t at = hash_name(dir, n->name) & (p->table_size - 1);

  n->parent = dir;
  n->chain = p->table[at];
  p->table[at] = n;
  qp__list_push(dir->first, prev, next, n);
}

static void
unlink_node(struct qp__replay_plan *p, struct qp__node *n)
{
  struct qp__node **at = &p->table[hash_name(n->parent, n->name) & (p->table_size - 1)];

  while (*at != n)
    at = &(*at)->chain;
  *at = n->chain;
  qp__list_remove(n->parent->first, prev, next, n);
}

/* NULL: no memory. */
static struct qp__node *
new_node(struct qp__replay_plan *p, struct qp__node *dir, const char *name)
{
  size_t len = strlen(name) + 1;
  struct qp__node *n;

  if (p->node_count >= p->table_size && !grow_table(p))
    return NULL;
  n = qp__alloc0(1, sizeof(*n) + len);
  if (!n)
    return NULL;
  memcpy(n->name, name, len);
  p->node_count++;
  if (dir)
    link_node(p, dir, n);
  return n;
}

static void free_node(struct qp__replay_plan *p, struct qp__node *n);

/* Makes it a name without a file. */
static void
clear_node(struct qp__replay_plan *p, struct qp__node *n)
{
  while (n->first)
    free_node(p, n->first);
  qp__free(n->base);
  qp__free(n->pieces);
  n->base = NULL;
  n->pieces = NULL;
  n->piece_count = n->piece_cap = 0;
  n->has_content = false;
  n->move = 0;
  n->type = QP__NODE_NONE;
  n->touched = true;
}

/* The depth of the recursion is that of the tree, which a path bounds. */
static void
free_node(struct qp__replay_plan *p, struct qp__node *n)
{
  clear_node(p, n);
  if (n->parent)
    unlink_node(p, n);
  p->node_count--;
  qp__free(n);
}

bool
qp__node_path(const struct qp__node *n, char out[QP__PATH_MAX])
{
  size_t at = QP__PATH_MAX - 1;

  out[at] = 0;
  for (; n->parent; n = n->parent) {
    size_t len = strlen(n->name);

    if (len + 1 > at) {
      out[0] = 0;
      return false;
    }
    if (out[at])
      out[--at] = '/';
    at -= len;
    memcpy(out + at, n->name, len);
  }
  memmove(out, out + at, QP__PATH_MAX - at);
  return true;
}

bool
qp__node_is_temp(const struct qp__node *n)
{
  while (n->parent && n->parent->parent)
    n = n->parent;
  return n->parent && strcmp(n->name, "tmp") == 0;
}

/* ---- the plan ---- */

static int
start(struct qp__replay_plan *p)
{
  p->top = new_node(p, NULL, "");
  if (!p->top)
    return -ENOMEM;
  p->top->type = QP__NODE_DIR;
  p->top->base = qp__strdup("");
  return p->top->base ? 0 : -ENOMEM;
}

static void
forget(struct qp__replay_plan *p)
{
  for (size_t i = 0; i < p->move_count; i++) {
    qp__free(p->moves[i].from);
    qp__free(p->moves[i].to);
  }
  p->move_count = 0;
  if (p->top)
    free_node(p, p->top);
  p->top = NULL;
}

struct qp__replay_plan *
qp__replay_plan_new(const struct qp__os *os, int root, int tmp, bool in_place, bool hard)
{
  struct qp__replay_plan *p = qp__alloc0(1, sizeof(*p));

  if (!p)
    return NULL;
  p->os = os;
  p->root = root;
  p->tmp = tmp;
  p->in_place = in_place;
  p->hard = hard;
  p->table_size = TABLE_MIN;
  p->table = qp__alloc0(p->table_size, sizeof(struct qp__node *));
  if (!p->table || start(p)) {
    qp__replay_plan_free(p);
    return NULL;
  }
  return p;
}

void
qp__replay_plan_free(struct qp__replay_plan *p)
{
  if (!p)
    return;
  if (p->table)
    forget(p);
  qp__texts_release(&p->kept);
  qp__aside_release(&p->failed);
  qp__free(p->moves);
  qp__free(p->table);
  qp__free(p);
}

/* ---- finding ---- */

static enum qp__node_type
type_of(const struct stat *st)
{
  return S_ISDIR(st->st_mode)   ? QP__NODE_DIR
         : S_ISREG(st->st_mode) ? QP__NODE_FILE
                                : QP__NODE_OTHER;
}

/* The node of a name in a directory; its type may be QP__NODE_NONE. */
static int
get_child(struct qp__replay_plan *p, struct qp__node *dir, const char *name, struct qp__node **out)
{
  struct qp__node *n = qp__node_known(p, dir, name);
  char path[QP__PATH_MAX];
  struct stat st;
  int len;
  int rc;

  *out = n;
  if (n)
    return 0;
  n = *out = new_node(p, dir, name);
  if (!n)
    return -ENOMEM;
  if (!dir->base)
    return 0;
  len = snprintf(path, sizeof(path), "%s%s%s", dir->base, dir->base[0] ? "/" : "", name);
  if (len < 0 || (size_t)len >= sizeof(path))
    return -ENAMETOOLONG;
  rc = p->os->fstatat(p->os->self, p->root, path, &st);
  if (rc == -ENOENT)
    return 0;
  if (rc) {
    free_node(p, n);
    return rc;
  }
  n->type = type_of(&st);
  n->base = qp__strdup(path);
  return n->base ? 0 : -ENOMEM;
}

static int evict(struct qp__replay_plan *p, struct qp__node *n);

/* Creates the directory, unless it exists. Anything else in its place is moved to lost/. */
static int
become_dir(struct qp__replay_plan *p, struct qp__node **n)
{
  struct qp__node *dir = (*n)->parent;
  char name[QP__PATH_MAX];
  int rc;

  if ((*n)->type == QP__NODE_DIR)
    return 0;
  if ((*n)->type != QP__NODE_NONE) {
    (void)snprintf(name, sizeof(name), "%s", (*n)->name);
    rc = evict(p, *n);
    if (!rc)
      rc = get_child(p, dir, name, n);
    if (rc)
      return rc;
  }
  (*n)->type = QP__NODE_DIR;
  (*n)->touched = true;
  return 0;
}

/* The directory of the last component of `path`. Without `make` *dir is NULL if it does not
 * exist. */
static int
find_dir(struct qp__replay_plan *p, const char *path, bool make, struct qp__node **dir,
         const char **name)
{
  struct qp__node *at = p->top;
  char part[QP__PATH_MAX];
  const char *slash;

  *dir = NULL;
  *name = "";
  for (; (slash = strchr(path, '/')); path = slash + 1) {
    struct qp__node *n;
    int rc;

    if (slash == path)
      continue;
    memcpy(part, path, (size_t)(slash - path));
    part[slash - path] = 0;
    rc = get_child(p, at, part, &n);
    if (!rc && make)
      rc = become_dir(p, &n);
    if (rc)
      return rc;
    if (n->type != QP__NODE_DIR) {
      QP_ASSERT(!make);
      return 0;
    }
    at = n;
  }
  *dir = at;
  *name = path;
  return path[0] ? 0 : -EINVAL;
}

/* *out is NULL if nothing exists at the path. */
static int
find_node(struct qp__replay_plan *p, const char *path, struct qp__node **out)
{
  struct qp__node *dir;
  const char *name;
  int rc = find_dir(p, path, false, &dir, &name);

  *out = NULL;
  if (rc || !dir)
    return rc;
  rc = get_child(p, dir, name, out);
  if (!rc && (*out)->type == QP__NODE_NONE)
    *out = NULL;
  return rc;
}

/* ---- moving ---- */

static int
note_move(struct qp__replay_plan *p, const char *from, const char *to, size_t before)
{
  struct qp__replay_plan_move *m;

  if (!qp__vec_reserve(p->moves, p->move_count, p->move_cap, 1))
    return -ENOMEM;
  m = &p->moves[p->move_count];
  m->from = qp__strdup(from);
  m->to = qp__strdup(to);
  if (!m->from || !m->to) {
    qp__free(m->from);
    qp__free(m->to);
    return -ENOMEM;
  }
  m->before = before;
  m->needed = false;
  p->move_count++;
  return 0;
}

static bool
is_above(const struct qp__node *a, const struct qp__node *n)
{
  while (n && n != a)
    n = n->parent;
  return n == a;
}

/* Moves a node to another place; what was there is removed. */
static int
move_node(struct qp__replay_plan *p, struct qp__node *n, struct qp__node *dir, const char *name)
{
  char from[QP__PATH_MAX];
  char to[QP__PATH_MAX];
  struct qp__node *there;
  struct qp__node *moved;
  int rc = get_child(p, dir, name, &there);

  if (rc || there == n)
    return rc;
  if (is_above(n, dir) || is_above(there, n))
    return 0; /* quipu never writes such a journal */
  if (!qp__node_path(n, from) || !qp__node_path(there, to))
    return -ENAMETOOLONG;
  moved = new_node(p, NULL, name);
  if (!moved)
    return -ENOMEM;
  if (n->base)
    rc = note_move(p, from, to, n->move);
  if (rc) {
    free_node(p, moved);
    return rc;
  }
  free_node(p, there);
  moved->type = n->type;
  moved->base = n->base;
  moved->has_content = n->has_content;
  moved->content = n->content;
  moved->pieces = n->pieces;
  moved->piece_count = n->piece_count;
  moved->piece_cap = n->piece_cap;
  moved->touched = true;
  moved->move = n->base ? p->move_count : 0;
  n->base = NULL;
  n->pieces = NULL;
  while (n->first) {
    struct qp__node *child = n->first;

    unlink_node(p, child);
    link_node(p, moved, child);
  }
  clear_node(p, n);
  link_node(p, dir, moved);
  return 0;
}

/* Frees a name: moves something that quipu did not create to lost/, where its owner finds it. One
 * foreign file must not prevent opening a whole store. */
static int
evict(struct qp__replay_plan *p, struct qp__node *n)
{
  char name[QP__PATH_MAX];
  struct qp__node *lost;
  int rc = get_child(p, p->top, "lost", &lost);

  if (rc)
    return rc;
  if (lost->type == QP__NODE_NONE) {
    lost->type = QP__NODE_DIR;
    lost->touched = true;
  }
  if (lost->type != QP__NODE_DIR)
    return -ENOTDIR;
  (void)snprintf(name, sizeof(name), "%lld-%llu-%.200s", (long long)p->os->now_ms(p->os->self),
                 (unsigned long long)p->next_name++, n->name);
  return move_node(p, n, lost, name);
}

/* Whether something in here is not as the disk has it. */
static bool
is_changed(const struct qp__node *n)
{
  if (n->piece_count || n->has_content || (n->touched && !n->base))
    return true;
  for (const struct qp__node *c = n->first; c; c = c->next)
    if (c->touched || is_changed(c))
      return true;
  return false;
}

/* Whether something in here is only on the disk. */
static bool
needs_disk(const struct qp__node *n)
{
  if (n->base)
    return true;
  for (const struct qp__node *c = n->first; c; c = c->next)
    if (needs_disk(c))
      return true;
  return false;
}

/* ---- operations ---- */

/* The node for a file at `path`. A directory in its place is moved away, and with `others` also
 * what is neither a file nor a directory. */
static int
get_file(struct qp__replay_plan *p, const char *path, bool others, struct qp__node **out)
{
  struct qp__node *dir;
  const char *name;
  int rc = find_dir(p, path, true, &dir, &name);

  if (!rc)
    rc = get_child(p, dir, name, out);
  if (rc || !((*out)->type == QP__NODE_DIR || (others && (*out)->type == QP__NODE_OTHER)))
    return rc;
  rc = evict(p, *out);
  return rc ? rc : get_child(p, dir, name, out);
}

static int
plan_put(struct qp__replay_plan *p, const struct qp__op *op, const struct qp__piece *data)
{
  struct qp__node *n;
  int rc = get_file(p, op->path, false, &n);

  if (rc)
    return rc;
  clear_node(p, n);
  n->type = QP__NODE_FILE;
  n->has_content = true;
  n->content = *data;
  n->content.offset = 0;
  n->content.cut = false;
  return 0;
}

static int
plan_append(struct qp__replay_plan *p, const struct qp__op *op, const struct qp__piece *data)
{
  struct qp__node *n;
  int rc = get_file(p, op->path, true, &n);

  if (rc)
    return rc;
  if (!qp__vec_reserve(n->pieces, n->piece_count, n->piece_cap, 1))
    return -ENOMEM;
  n->type = QP__NODE_FILE;
  n->touched = true;
  n->pieces[n->piece_count++] = *data;
  return 0;
}

/* Moves away what is at the new path of a RENAME, as its flags say. */
static int
clear_target(struct qp__replay_plan *p, const struct qp__op *op)
{
  const char *base = strrchr(op->path, '/');
  char aside[QP__PATH_MAX];
  struct qp__node *there;
  struct qp__node *old;
  struct qp__node *dir;
  const char *name;
  int len;
  int rc = find_node(p, op->data.data, &there);

  if (rc || !there)
    return rc;
  base = base ? base + 1 : op->path;
  if (op->flags & QP__OP_KEEP)
    len = snprintf(aside, sizeof(aside), "%s.old", op->data.data);
  else
    len = snprintf(aside, sizeof(aside), "tmp/%s", base);
  if (len < 0 || (size_t)len >= sizeof(aside))
    return -ENAMETOOLONG;
  rc = find_node(p, aside, &old);
  if (!rc && old && op->flags & QP__OP_KEEP)
    rc = evict(p, old); /* foreign */
  if (!rc)
    rc = find_dir(p, aside, true, &dir, &name);
  return rc ? rc : move_node(p, there, dir, name);
}

/* *wait: the plan so far must be executed first, and then this again. */
static int
plan_rename(struct qp__replay_plan *p, const struct qp__op *op, bool *wait)
{
  struct qp__node *from;
  struct qp__node *dir;
  const char *name;
  int rc = find_node(p, op->path, &from);

  if (rc || !from)
    return rc; /* not there: done before */
  if (strncmp(op->data.data, "tmp/", 4) != 0 &&
      (from->base ? is_changed(from) : needs_disk(from))) {
    *wait = true;
    return 0;
  }
  if (op->flags & (QP__OP_KEEP | QP__OP_DROP))
    rc = clear_target(p, op);
  if (!rc)
    rc = find_dir(p, op->data.data, true, &dir, &name);
  if (!rc)
    rc = find_node(p, op->path, &from); /* the way to its new place may have led over it */
  return rc || !from ? rc : move_node(p, from, dir, name);
}

static int
plan_one(struct qp__replay_plan *p, const struct qp__op *op, const struct qp__piece *data,
         bool *wait)
{
  struct qp__node *dir;
  struct qp__node *n;
  const char *name;
  int rc;

  switch (op->kind) {
  case QP__OP_PUT:
    return plan_put(p, op, data);
  case QP__OP_APPEND:
    return plan_append(p, op, data);
  case QP__OP_RENAME:
    return plan_rename(p, op, wait);
  case QP__OP_UNLINK:
    rc = find_node(p, op->path, &n);
    if (!rc && n && n->type != QP__NODE_DIR)
      clear_node(p, n);
    return rc;
  case QP__OP_MKDIR:
    rc = find_dir(p, op->path, true, &dir, &name);
    if (!rc)
      rc = get_child(p, dir, name, &n);
    if (!rc && strcmp(dir->name, "tmp") == 0 && dir->parent == p->top)
      clear_node(p, n); /* its commit has all that belongs in there */
    return rc ? rc : become_dir(p, &n);
  }
  return -EINVAL;
}

/* ---- contexts that fail ---- */

const struct qp__aside_list *
qp__replay_plan_failed(const struct qp__replay_plan *p)
{
  return &p->failed;
}

enum qp_rc
qp__replay_plan_give_up(struct qp__replay_plan *p, const char *id, const struct qp_err *cause,
                        struct qp_err *err)
{
  return qp__aside_note(&p->failed, id, cause) ? QP_OK
                                               : qp__fail_nomem(err, "replaying the journal");
}

bool
qp__replay_plan_has_failed(const struct qp__replay_plan *p, const char *path)
{
  char id[QP__ASIDE_ID_LEN];

  return p->failed.count && qp__aside_id_of(path, id) && qp__aside_find(&p->failed, id);
}

enum qp_rc
qp__replay_plan_fail(struct qp__replay_plan *p, const char *path, int sys, struct qp_err *err)
{
  char id[QP__ASIDE_ID_LEN];
  struct qp_err cause;
  enum qp_rc rc;

  if (!sys)
    return QP_OK;
  rc = qp__fail_sys(&cause, sys, "cannot write '%s'", path);
  if (qp__aside_id_of(path, id) && qp__aside_is_local(sys, p->hard) &&
      qp__aside_note(&p->failed, id, &cause))
    return QP_OK;
  return qp__fail_as(err, rc, &cause);
}

/* An operation of a context that has failed: the file in tmp/ that it needs must stay there. */
static int
keep_source(struct qp__replay_plan *p, const struct qp__op *op)
{
  const char *name = op->path + 4;

  if (op->kind != QP__OP_RENAME || strncmp(op->path, "tmp/", 4) != 0)
    return 0;
  return qp__texts_add(&p->kept, name, strcspn(name, "/")) ? 0 : -ENOMEM;
}

static bool
is_of_failed(const struct qp__replay_plan *p, const struct qp__op *op)
{
  return qp__replay_plan_has_failed(p, op->path) ||
         (op->kind == QP__OP_RENAME && qp__replay_plan_has_failed(p, op->data.data));
}

enum qp_rc
qp__replay_plan_op(struct qp__replay_plan *p, const struct qp__op *op, int fd, uint64_t at,
                   struct qp_err *err)
{
  struct qp__piece data = { fd, at, op->data.len, op->offset, (op->flags & QP__OP_CUT) != 0 };
  char id[QP__ASIDE_ID_LEN];
  bool wait = false;
  enum qp_rc rc = QP_OK;
  int sys;

  if (is_of_failed(p, op)) {
    sys = keep_source(p, op);
    return sys ? qp__fail_sys(err, sys, "replaying the journal") : QP_OK;
  }
  sys = plan_one(p, op, &data, &wait);
  if (!sys && wait) {
    rc = qp__replay_plan_run(p, false, err);
    forget(p);
    if (rc)
      return rc;
    sys = start(p);
    if (!sys && !is_of_failed(p, op))
      sys = plan_one(p, op, &data, &wait);
  }
  if (sys && !qp__aside_id_of(op->path, id) && op->kind == QP__OP_RENAME)
    rc = qp__replay_plan_fail(p, op->data.data, sys, err);
  else
    rc = qp__replay_plan_fail(p, op->path, sys, err);
  if (!rc && sys)
    sys = keep_source(p, op);
  return rc || sys != -ENOMEM ? rc : qp__fail_nomem(err, "replaying the journal");
}

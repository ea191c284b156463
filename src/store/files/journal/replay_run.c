/* replay_run.c - executes a plan. See replay_plan.h for the order and why. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "os/file.h"
#include "store/files/bulk_write.h"
#include "store/files/journal/replay_plan_int.h"

#define CONTENT_MAX ((size_t)1 << 30)
#define TEMP_NAME_LEN 32

struct run {
  struct qp__replay_plan *plan;
  bool last;  /* the files in tmp/ are not needed any more */
  bool early; /* nothing has moved yet */
  bool shrunk;
  struct qp__buf content;
  struct qp__buf found;
};

/* ---- choosing the moves ---- */

/* Whether something that moves is at this path, above it or below it. */
static bool
is_moving(const struct qp__replay_plan *p, const char *path)
{
  size_t len = strlen(path);
  char part[QP__PATH_MAX];
  const char *key = part;
  size_t lo = 0;
  size_t hi = p->source_count;

  (void)snprintf(part, sizeof(part), "%s", path);
  while (lo < hi) { /* below it, or it itself: the first source that is not less */
    size_t mid = lo + (hi - lo) / 2;

    if (strcmp(p->sources[mid], path) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  for (; lo < p->source_count && strncmp(p->sources[lo], path, len) == 0; lo++)
    if (!p->sources[lo][len] || p->sources[lo][len] == '/')
      return true;
  for (char *slash = strrchr(part, '/'); slash; slash = strrchr(part, '/')) {
    *slash = 0;
    if (bsearch(&key, p->sources, p->source_count, sizeof(*p->sources), qp__str_compare))
      return true;
  }
  return false;
}

/* Collects the sources of the moves that are needed. */
static void
sort_sources(struct qp__replay_plan *p)
{
  p->source_count = 0;
  for (size_t i = 0; i < p->move_count; i++)
    if (p->moves[i].needed)
      p->sources[p->source_count++] = p->moves[i].from;
  qsort(p->sources, p->source_count, sizeof(*p->sources), qp__str_compare);
}

static void
need_move(struct qp__replay_plan *p, size_t move)
{
  for (; move && !p->moves[move - 1].needed; move = p->moves[move - 1].before)
    p->moves[move - 1].needed = true;
}

static void
need_moves_of(struct qp__replay_plan *p, const struct qp__node *n, bool last)
{
  if (last && qp__node_is_temp(n))
    return;
  need_move(p, n->move);
  for (const struct qp__node *c = n->first; c; c = c->next)
    need_moves_of(p, c, last);
}

/* Only items that exist at the end must move; all others are removed where they are. But a
 * directory that does not exist at the end moves too if something is later moved out of it. */
static int
choose_moves(struct qp__replay_plan *p, bool last)
{
  bool more = true;

  p->sources = qp__alloc(p->move_count * sizeof(*p->sources) + 1);
  if (!p->sources)
    return -ENOMEM;
  need_moves_of(p, p->top, last);
  while (more) {
    sort_sources(p);
    more = false;
    for (size_t i = 0; i < p->move_count; i++)
      if (!p->moves[i].needed && is_moving(p, p->moves[i].to)) {
        need_move(p, i + 1);
        more = true;
      }
  }
  return 0;
}

/* ---- removing ---- */

static void
temp_name(struct qp__replay_plan *p, char out[TEMP_NAME_LEN])
{
  (void)snprintf(out, TEMP_NAME_LEN, "replay-%llu", (unsigned long long)p->next_name++);
}

/* Removes a path from the disk. A directory is first moved to tmp/, so that readers never see
 * a part of it; if that fails, it is removed in place. */
static int
remove_at(struct qp__replay_plan *p, const char *path)
{
  char temp[TEMP_NAME_LEN];
  struct stat st;
  int rc = p->os->fstatat(p->os->self, p->root, path, &st);

  if (rc)
    return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
  if (!S_ISDIR(st.st_mode)) {
    rc = p->os->unlinkat(p->os->self, p->root, path, 0);
    return rc == -ENOENT ? 0 : rc;
  }
  temp_name(p, temp);
  rc = qp__tree_remove(p->os, p->tmp, temp); /* left by a recovery that was cut short */
  if (!rc)
    rc = p->os->renameat(p->os->self, p->root, path, p->tmp, temp, 0);
  if (rc == -ENOSPC || rc == -EDQUOT)
    return qp__tree_remove(p->os, p->root, path);
  if (!rc)
    (void)qp__tree_remove(p->os, p->tmp, temp); /* the next start removes the rest */
  return rc;
}

/* Names of a directory that is created again. */
struct extras {
  struct run *run;
  const struct qp__node *dir;
  const char *path;
  bool any; /* something was removed */
};

static int
remove_extra(void *arg, const char *name, unsigned char type)
{
  struct extras *x = arg;
  const struct qp__node *n = qp__node_known(x->run->plan, x->dir, name);
  char path[QP__PATH_MAX];
  int len;

  (void)type;
  if (n && n->type != QP__NODE_NONE)
    return 0;
  len = snprintf(path, sizeof(path), "%s/%s", x->path, name);
  if (len < 0 || (size_t)len >= sizeof(path))
    return -ENAMETOOLONG;
  if (x->run->early && is_moving(x->run->plan, path))
    return 0;
  x->any = true;
  return remove_at(x->run->plan, path);
}

/* Removes everything from a new directory that is not in the plan. */
static int
remove_extras(struct run *r, const struct qp__node *n, const char *path)
{
  struct qp__replay_plan *p = r->plan;
  struct extras x = { r, n, path, true };
  struct stat st;
  int rc = p->os->fstatat(p->os->self, p->root, path, &st);

  if (rc)
    return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
  if (!S_ISDIR(st.st_mode))
    return r->early && is_moving(p, path) ? 0 : remove_at(p, path);
  while (!rc && x.any) { /* a listing may skip names while others are removed: list again */
    x.any = false;
    rc = p->os->listdir(p->os->self, p->root, path, remove_extra, &x);
  }
  return rc;
}

/* A file that is created: a directory in its place is removed. */
static int
remove_directory(struct run *r, const char *path)
{
  struct qp__replay_plan *p = r->plan;
  struct stat st;
  int rc = p->os->fstatat(p->os->self, p->root, path, &st);

  if (rc)
    return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
  if (!S_ISDIR(st.st_mode) || (r->early && is_moving(p, path)))
    return 0;
  return remove_at(p, path);
}

/* Removes everything that is not there at the end. */
static enum qp_rc
remove_in(struct run *r, const struct qp__node *dir, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (const struct qp__node *n = dir->first; n && !rc; n = n->next) {
    char path[QP__PATH_MAX];
    int sys = 0;

    if (r->last && qp__node_is_temp(n) && n->parent->parent && n->type != QP__NODE_NONE)
      continue;
    if (!qp__node_path(n, path)) {
      sys = -ENAMETOOLONG;
    } else if (qp__replay_plan_has_failed(r->plan, path)) {
      continue;
    } else if (n->type == QP__NODE_NONE) {
      if (n->touched && !(r->early && is_moving(r->plan, path)))
        sys = remove_at(r->plan, path);
    } else if (!n->base && n->type == QP__NODE_DIR) {
      sys = remove_extras(r, n, path);
    } else if (!n->base && n->type == QP__NODE_FILE && n->has_content) {
      sys = remove_directory(r, path);
    }
    rc = qp__replay_plan_fail(r->plan, path, sys, err);
    if (!rc && !sys && n->type == QP__NODE_DIR && !(r->early && n->move))
      rc = remove_in(r, n, err);
  }
  return rc;
}

static int
remove_temp(void *arg, const char *name, unsigned char type)
{
  struct qp__replay_plan *p = arg;
  char path[QP__PATH_MAX];

  (void)type;
  (void)snprintf(path, sizeof(path), "tmp/%.900s", name);
  if (strncmp(name, QP__GUARD_PREFIX, strlen(QP__GUARD_PREFIX)) == 0 || is_moving(p, path))
    return 0;
  for (size_t i = 0; i < p->kept.count; i++)
    if (strcmp(p->kept.at[i], name) == 0)
      return 0;
  (void)qp__tree_remove(p->os, p->tmp, name); /* the rest only occupies space */
  return 0;
}

/* ---- moving ---- */

static int
carry_out_move(struct qp__replay_plan *p, const struct qp__replay_plan_move *m)
{
  struct stat from;
  struct stat to;
  int rc = p->os->fstatat(p->os->self, p->root, m->from, &from);

  if (rc)
    return rc;
  rc = qp__dir_make_parents(p->os, p->root, m->to);
  if (rc)
    return rc;
  rc = p->os->fstatat(p->os->self, p->root, m->to, &to);
  if (rc && rc != -ENOENT)
    return rc;
  if (!rc && (S_ISDIR(to.st_mode) || S_ISDIR(from.st_mode))) {
    rc = remove_at(p, m->to);
    if (rc)
      return rc;
  }
  return p->os->renameat(p->os->self, p->root, m->from, p->root, m->to, 0);
}

static enum qp_rc
try_move(struct qp__replay_plan *p, const struct qp__replay_plan_move *m, struct qp_err *err)
{
  char id[QP__ASIDE_ID_LEN];

  if (qp__replay_plan_has_failed(p, m->from) || qp__replay_plan_has_failed(p, m->to))
    return QP_OK;
  return qp__replay_plan_fail(p, qp__aside_id_of(m->from, id) ? m->from : m->to,
                              carry_out_move(p, m), err);
}

/* ---- writing ---- */

static int
read_piece(struct run *r, const struct qp__piece *piece, struct qp__buf *out)
{
  ssize_t got;

  if (qp__buf_reserve(out, piece->len))
    return -ENOMEM;
  got = qp__read_at(r->plan->os, piece->fd, out->data + out->len, piece->len, (off_t)piece->at);
  if (got < 0)
    return (int)got;
  if ((size_t)got < piece->len)
    return -EIO;
  out->len += piece->len;
  return 0;
}

/* The last content of a file that is written as a whole. */
static int
make_content(struct run *r, const struct qp__node *n)
{
  struct qp__buf *out = &r->content;
  int rc;

  qp__buf_reset(out);
  rc = read_piece(r, &n->content, out);
  for (size_t i = 0; i < n->piece_count && !rc; i++) {
    const struct qp__piece *piece = &n->pieces[i];
    size_t end = out->len;

    if (piece->offset > CONTENT_MAX)
      return -EOVERFLOW;
    if (piece->offset > end) {
      if (qp__buf_reserve(out, (size_t)piece->offset - end))
        return -ENOMEM;
      memset(out->data + end, 0, (size_t)piece->offset - end);
    }
    out->len = (size_t)piece->offset;
    rc = read_piece(r, piece, out);
    if (!rc && !piece->cut && out->len < end)
      out->len = end; /* in the middle */
  }
  return rc;
}

/* Whether the disk has this file with the content that is wanted. */
static bool
has_content(struct run *r, const char *path)
{
  struct qp__replay_plan *p = r->plan;
  struct stat st;

  qp__buf_reset(&r->found);
  return !p->os->fstatat(p->os->self, p->root, path, &st) && S_ISREG(st.st_mode) &&
         (uint64_t)st.st_size == r->content.len &&
         !qp__file_read(p->os, p->root, path, &r->found) && r->found.len == r->content.len &&
         (!r->found.len || memcmp(r->found.data, r->content.data, r->found.len) == 0);
}

static int
write_in_place(struct run *r, const char *path)
{
  struct qp__replay_plan *p = r->plan;
  int fd = qp__open(p->os, p->root, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  int rc = fd < 0 ? fd : qp__write_at(p->os, fd, r->content.data, r->content.len, 0);

  if (!rc)
    rc = p->os->ftruncate(p->os->self, fd, (off_t)r->content.len);
  qp__close(p->os, fd);
  return rc;
}

/* A file that has its content already is written again: after a failed sync it may be only in
 * memory. Otherwise a new file replaces it. If there is no space for both at a time, and it cannot
 * be read by others, the old one is overwritten. */
static int
write_whole(struct run *r, const struct qp__node *n, const char *path)
{
  struct qp__replay_plan *p = r->plan;
  char temp[TEMP_NAME_LEN];
  int rc = make_content(r, n);

  if (rc)
    return rc;
  if (has_content(r, path))
    return write_in_place(r, path);
  temp_name(p, temp);
  rc = qp__tree_remove(p->os, p->tmp, temp); /* left by a recovery that was cut short */
  if (!rc)
    rc = qp__file_create(p->os, p->tmp, temp, qp__buf_bytes(&r->content));
  if (!rc) {
    rc = p->os->renameat(p->os->self, p->tmp, temp, p->root, path, 0);
    if (rc)
      (void)p->os->unlinkat(p->os->self, p->tmp, temp, 0);
  }
  if ((rc == -ENOSPC || rc == -EDQUOT) && !p->in_place)
    rc = write_in_place(r, path);
  return rc;
}

/* Writes the changes of a file that is on the disk, or of one that begins empty. */
static int
write_pieces(struct run *r, const struct qp__node *n, const char *path)
{
  struct qp__replay_plan *p = r->plan;
  int fd = qp__open(p->os, p->root, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  int rc = fd < 0 ? fd : 0;

  if (!rc && !n->base)
    rc = p->os->ftruncate(p->os->self, fd, 0);
  for (size_t i = 0; i < n->piece_count && !rc; i++) {
    const struct qp__piece *piece = &n->pieces[i];

    qp__buf_reset(&r->content);
    rc = read_piece(r, piece, &r->content);
    if (!rc && piece->cut)
      rc = p->os->ftruncate(p->os->self, fd, (off_t)piece->offset);
    if (!rc)
      rc = qp__write_at(p->os, fd, r->content.data, r->content.len, (off_t)piece->offset);
  }
  qp__close(p->os, fd);
  return rc;
}

static int
write_node(struct run *r, const struct qp__node *n, const char *path)
{
  if (n->type == QP__NODE_DIR && !n->base)
    return qp__dir_make(r->plan->os, r->plan->root, path);
  if (n->type == QP__NODE_FILE && n->has_content)
    return write_whole(r, n, path);
  if (n->type == QP__NODE_FILE && n->piece_count)
    return write_pieces(r, n, path);
  return 0;
}

/* Whether the disk has more of a file than it shall be long. */
static bool
will_shrink(struct run *r, const struct qp__node *n, const char *path)
{
  struct qp__replay_plan *p = r->plan;
  struct stat st;

  return n->type == QP__NODE_FILE && n->has_content && !make_content(r, n) &&
         !p->os->fstatat(p->os->self, p->root, path, &st) && S_ISREG(st.st_mode) &&
         (uint64_t)st.st_size > r->content.len;
}

/* Makes room: what becomes shorter does so now, as far as that is possible. */
static void
shrink_in(struct run *r, const struct qp__node *dir)
{
  for (const struct qp__node *n = dir->first; n; n = n->next) {
    char path[QP__PATH_MAX];

    if ((r->last && qp__node_is_temp(n)) || !qp__node_path(n, path) ||
        qp__replay_plan_has_failed(r->plan, path))
      continue;
    if (will_shrink(r, n, path))
      (void)write_in_place(r, path);
    else if (n->type == QP__NODE_DIR)
      shrink_in(r, n);
  }
}

static enum qp_rc
write_in(struct run *r, const struct qp__node *dir, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (const struct qp__node *n = dir->first; n && !rc; n = n->next) {
    char path[QP__PATH_MAX];
    int sys;

    if (r->last && qp__node_is_temp(n))
      continue;
    sys = qp__node_path(n, path) ? 0 : -ENAMETOOLONG;
    if (qp__replay_plan_has_failed(r->plan, path))
      continue;
    if (!sys)
      sys = write_node(r, n, path);
    if ((sys == -ENOSPC || sys == -EDQUOT) && !r->shrunk && !r->plan->in_place) {
      r->shrunk = true;
      shrink_in(r, r->plan->top);
      sys = write_node(r, n, path);
    }
    rc = qp__replay_plan_fail(r->plan, path, sys, err);
    if (!rc && !sys && n->type == QP__NODE_DIR)
      rc = write_in(r, n, err);
  }
  return rc;
}

/* ---- the whole plan ---- */

static enum qp_rc
carry_out(struct run *r, struct qp_err *err)
{
  struct qp__replay_plan *p = r->plan;
  enum qp_rc rc;

  if (r->last && !p->in_place)
    rc = qp__replay_plan_fail(p, "tmp", p->os->listdir(p->os->self, p->tmp, ".", remove_temp, p),
                              err);
  else
    rc = QP_OK;
  r->early = p->source_count > 0;
  if (!rc && r->early)
    rc = remove_in(r, p->top, err);
  r->early = false;
  for (size_t i = 0; i < p->move_count && !rc; i++)
    if (p->moves[i].needed)
      rc = try_move(p, &p->moves[i], err);
  if (!rc)
    rc = remove_in(r, p->top, err);
  return rc ? rc : write_in(r, p->top, err);
}

enum qp_rc
qp__replay_plan_run(struct qp__replay_plan *p, bool last, struct qp_err *err)
{
  struct run r = { .plan = p, .last = last };
  enum qp_rc rc;

  qp__buf_init(&r.content, CONTENT_MAX);
  qp__buf_init(&r.found, CONTENT_MAX);
  rc = qp__replay_plan_fail(p, "tmp", choose_moves(p, last), err);
  if (!rc)
    rc = carry_out(&r, err);
  qp__free(p->sources);
  p->sources = NULL;
  qp__buf_release(&r.content);
  qp__buf_release(&r.found);
  return rc;
}

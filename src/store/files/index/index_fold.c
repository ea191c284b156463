/* index_fold.c - folds index.log into index.json.
 *
 * The cost of a fold grows with the index, and it is done when the log is longer than index.json:
 * so the cost per append between two folds is constant. The new index.json is written and synced in
 * tmp/ while appends continue; its commit renames it to its place and replaces index.log by one
 * with only the lines since the start of the fold.
 *
 * The commit contains only the rename of the new index.json, not its content. It can be replayed as
 * long as no earlier replayed commit puts another file in its place; the creation of the context
 * does. So while the creation is still in the journal, the commit contains the content too. For a
 * context that was built (files_build.c) this is not necessary: its commit only renames its
 * directory. If that is replayed, either the source no longer exists, or the directory is moved to
 * its place with the new index.json in it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "os/file.h"
#include "store/files/files.h"

#define FOLD_MIN ((uint64_t)128 << 10) /* smaller logs are not folded */
#define PIECE ((size_t)256 << 10)

static bool
is_wanted(void *self, void *context)
{
  const struct qp__fctx *c = context;

  (void)self;
  return !c->folding && c->log_bytes > FOLD_MIN && c->log_bytes > c->json_bytes;
}

static void
start(void *self, void *context)
{
  struct qp__fctx *c = context;

  QP_ASSERT(!c->folding && !c->fold_name[0]);
  QP_ASSERT(!c->fold_tail.len && !c->fold_content.len);
  (void)self;
  c->folding = true;
  c->fold_void = false;
  c->fold_name[0] = 0;
  qp__buf_reset(&c->fold_tail);
}

static void
abort_fold(void *self, void *context)
{
  struct qp__files *f = self;
  struct qp__fctx *c = context;

  QP_ASSERT(c->folding);
  if (c->fold_name[0])
    (void)f->os->unlinkat(f->os->self, f->tmp, c->fold_name, 0);
  c->folding = false;
  c->fold_name[0] = 0;
  qp__buf_release(&c->fold_tail);
  qp__buf_release(&c->fold_content);
}

void
qp__files_renew(void *self, void *context, void *fresh)
{
  struct qp__fctx *c = context;
  const struct qp__fctx *now = fresh;

  QP_ASSERT(!qp_uuid_is_none(&c->id) && qp_uuid_equal(&c->id, &now->id));
  (void)self;
  c->generation = now->generation;
  c->json_bytes = now->json_bytes;
  c->log_bytes = now->log_bytes;
  c->fold_void = c->folding;
  c->dir_ready_count = 0; /* a replay of its creation creates no empty directories */
  c->events_ready = false;
  c->records_ready = false;
  qp__fctx_free(fresh);
}

/* ---- contexts whose creation, deletion or the like may be replayed ---- */

/* Removes the contexts whose creation is no longer in the journal. */
static void
prune_fresh(struct qp__files *f)
{
  uint64_t forgotten = qp__journal_forgotten(f->journal);
  size_t kept = 0;

  QP_ASSERT_HELD(&f->fresh_lock);
  for (size_t i = 0; i < f->fresh_count; i++)
    if (f->fresh[i].seq > forgotten)
      f->fresh[kept++] = f->fresh[i];
  f->fresh_count = kept;
}

enum qp_rc
qp__fresh_add(struct qp__files *f, const struct qp_uuid *id, bool contents, struct qp_err *err)
{
  struct qp__fresh added = { *id, UINT64_MAX, contents };
  enum qp_rc rc = QP_OK;

  QP_ASSERT(!qp_uuid_is_none(id));
  qp__mutex_lock(&f->fresh_lock);
  prune_fresh(f);
  if (!qp__vec_push(f->fresh, f->fresh_count, f->fresh_cap, added))
    rc = qp__fail_nomem(err, "starting a commit");
  qp__mutex_unlock(&f->fresh_lock);
  return rc;
}

void
qp__fresh_commit(struct qp__files *f, const struct qp_uuid *id, uint64_t seq)
{
  qp__mutex_lock(&f->fresh_lock);
  for (size_t i = 0; i < f->fresh_count; i++)
    if (f->fresh[i].seq == UINT64_MAX && qp_uuid_equal(&f->fresh[i].id, id))
      f->fresh[i].seq = seq; /* 0 is removed at once */
  qp__mutex_unlock(&f->fresh_lock);
}

static bool
is_fresh(struct qp__files *f, const struct qp_uuid *id)
{
  bool found = false;

  qp__mutex_lock(&f->fresh_lock);
  prune_fresh(f);
  for (size_t i = 0; i < f->fresh_count && !found; i++)
    found = f->fresh[i].contents && qp_uuid_equal(&f->fresh[i].id, id);
  qp__mutex_unlock(&f->fresh_lock);
  return found;
}

enum qp_rc
qp__fresh_forget(struct qp__files *f, const struct qp_uuid *id, struct qp_err *err)
{
  uint64_t last = 0;

  qp__mutex_lock(&f->fresh_lock);
  prune_fresh(f);
  for (size_t i = 0; i < f->fresh_count; i++)
    if (f->fresh[i].seq != UINT64_MAX && f->fresh[i].seq > last &&
        qp_uuid_equal(&f->fresh[i].id, id))
      last = f->fresh[i].seq;
  qp__mutex_unlock(&f->fresh_lock);
  return last ? qp__journal_forget(f->journal, last, err) : QP_OK;
}

/* ---- writing ---- */

struct out_file {
  const struct qp__os *os;
  int fd;
  uint64_t at;
  struct qp__buf buf;
};

static int
flush(struct out_file *o)
{
  int sys = qp__write_at(o->os, o->fd, o->buf.data, o->buf.len, (off_t)o->at);

  o->at += o->buf.len;
  qp__buf_reset(&o->buf);
  return sys;
}

static enum qp_rc
write_index(struct out_file *o, const struct qp__index_content *x, struct qp_err *err)
{
  enum qp_rc rc;
  int sys = 0;

  (void)qp__index_json_head(&o->buf, x->id, x->generation, x->count);
  for (uint32_t i = 0; i < x->count && !sys; i++) {
    if (qp__index_json_entry(&o->buf, x->tree, i, i + 1 == x->count))
      break;
    if (o->buf.len >= PIECE)
      sys = flush(o);
  }
  (void)qp__index_json_tail(&o->buf, x->id, x->generation, x->count, x->tree, x->heads,
                            x->head_count);
  rc = qp__buf_check(&o->buf, "index.json", err);
  if (rc)
    return rc;
  if (!sys)
    sys = flush(o);
  return sys ? qp__fail_sys(err, sys, "cannot write a new index.json") : QP_OK;
}

enum qp_rc
qp__files_index_write(struct qp__files *f, int dirfd, const char *name,
                      const struct qp__index_content *x, bool sync, uint64_t *bytes,
                      struct qp_err *err)
{
  struct out_file o = { .os = f->os, .fd = -1 };
  enum qp_rc rc;
  int sys;

  o.fd = qp__open(f->os, dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (o.fd < 0)
    return qp__fail_sys(err, o.fd, "cannot write a new index.json");
  qp__buf_init(&o.buf, (size_t)64 << 20);
  rc = write_index(&o, x, err);
  if (!rc && sync) {
    sys = qp__fsync(f->os, o.fd);
    if (sys)
      rc = qp__fail_sys(err, sys, "cannot write a new index.json");
  }
  qp__close(f->os, o.fd);
  qp__buf_release(&o.buf);
  *bytes = o.at;
  return rc;
}

static enum qp_rc
write_fold(void *self, void *context, const struct qp__tree *tree, uint32_t count,
           const struct qp__head *heads, size_t n, struct qp_err *err)
{
  struct qp__files *f = self;
  struct qp__fctx *c = context;
  struct qp__index_content x = { &c->id, c->generation + 1, tree, count, heads, n };
  enum qp_rc rc;
  int sys;

  QP_ASSERT(c->folding && !c->fold_name[0]);
  qp__files_temp_name(f, c->fold_name);
  rc = qp__files_index_write(f, f->tmp, c->fold_name, &x, true, &c->fold_bytes, err);
  if (rc)
    return rc;
  if (is_fresh(f, &c->id)) {
    sys = qp__file_read(f->os, f->tmp, c->fold_name, &c->fold_content);
    if (sys)
      return qp__fail_sys(err, sys, "cannot read a new index.json");
  }
  sys = qp__fsync(f->os, f->tmp); /* its name too: the commit only renames it */
  return sys ? qp__fail_sys(err, sys, "cannot write a new index.json") : QP_OK;
}

/* ---- the commit ---- */

/* Adds the new index.json and the new index.log; *log receives the content of the latter. */
static enum qp_rc
add_fold_ops(struct qp__txn *txn, const struct qp__fctx *c, struct qp__buf *log, struct qp_err *err)
{
  char from[QP__PATH_MAX];
  char to[QP__PATH_MAX];
  struct qp__op op = { .kind = QP__OP_PUT, .path = to, .data = qp__buf_bytes(&c->fold_content) };
  enum qp_rc rc;

  QP_ASSERT(c->folding && c->fold_name[0]);
  (void)snprintf(from, sizeof(from), "tmp/%s", c->fold_name);
  (void)snprintf(to, sizeof(to), "%s/index.json", c->path);
  rc = c->fold_content.len ? qp__txn_add(txn, &op, c->fold_name, false, err)
                           : qp__txn_rename(txn, from, to, 0, err);
  if (rc)
    return rc;
  (void)qp__index_log_header(log, c->generation + 1);
  (void)qp__buf_add(log, c->fold_tail.data ? c->fold_tail.data : "", c->fold_tail.len);
  rc = qp__buf_check(log, "index.log", err);
  if (rc)
    return rc;
  (void)snprintf(to, sizeof(to), "%s/index.log", c->path);
  op.data = qp__buf_bytes(log);
  return qp__txn_add(txn, &op, NULL, false, err);
}

/* Sets the counters of the context after a fold was staged. */
static void
note_fold(struct qp__files *f, struct qp__fctx *c, size_t log_bytes)
{
  QP_ASSERT(c->fold_bytes && log_bytes);
  c->generation++;
  c->json_bytes = c->fold_bytes;
  c->log_bytes = log_bytes;
  c->folding = false;
  c->fold_name[0] = 0;
  qp__buf_release(&c->fold_tail);
  qp__buf_release(&c->fold_content);
  atomic_fetch_add(&f->folds, 1);
}

static enum qp_rc
finish(void *self, void *context, void **ticket, struct qp_err *err)
{
  struct qp__files *f = self;
  struct qp__fctx *c = context;
  struct qp__txn *txn = qp__alloc0(1, sizeof(*txn));
  struct qp__buf log;
  enum qp_rc rc;

  if (!txn)
    return qp__fail_nomem(err, "folding an index");
  if (c->fold_void) {
    qp__free(txn);
    return qp__fail(err, QP_IO, "the store has recovered from a failure in the meantime");
  }
  rc = qp__txn_init(txn, err);
  if (rc) {
    qp__free(txn);
    return rc;
  }
  qp__buf_init(&log, (size_t)1 << 30);
  rc = add_fold_ops(txn, c, &log, err);
  if (!rc)
    rc = qp__journal_stage(f->journal, txn, err);
  if (!rc) {
    note_fold(f, c, log.len);
    *ticket = txn;
    txn = NULL;
  }
  qp__buf_release(&log);
  if (txn) {
    qp__txn_release(txn);
    qp__free(txn);
  }
  return rc;
}

/* ---- a whole fold in one call ---- */

static enum qp_rc
add_rewrite_ops(struct qp__txn *txn, const struct qp__fctx *c, struct qp__buf *log,
                const struct qp__rewrite *with, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__op op = { .kind = QP__OP_PUT,
                       .path = path,
                       .data = with->meta }; /* no backup: the old one may be damaged */
  enum qp_rc rc = with->before ? with->before(with->arg, txn, err) : QP_OK;

  if (!rc)
    rc = add_fold_ops(txn, c, log, err);
  qp__context_path(path, c, "metadata.json");
  if (!rc && with->meta.len)
    rc = qp__txn_add(txn, &op, NULL, false, err);
  if (!rc && with->after)
    rc = with->after(with->arg, txn, err);
  return rc;
}

enum qp_rc
qp__files_rewrite(struct qp__files *f, struct qp__fctx *c, const struct qp__image *image,
                  struct qp__rewrite *with, struct qp_err *err)
{
  struct qp__txn txn;
  struct qp__buf log;
  enum qp_rc rc;

  with->staged = false;
  start(f, c);
  rc = write_fold(f, c, &image->tree, image->tree.count, image->heads, image->head_count, err);
  if (rc) {
    abort_fold(f, c);
    return rc;
  }
  rc = qp__txn_init(&txn, err);
  if (rc) {
    abort_fold(f, c);
    return rc;
  }
  qp__buf_init(&log, (size_t)1 << 20);
  rc = add_rewrite_ops(&txn, c, &log, with, err);
  if (!rc)
    rc = qp__journal_stage(f->journal, &txn, err);
  with->staged = !rc;
  if (rc) {
    abort_fold(f, c);
  } else {
    note_fold(f, c, log.len);
    rc = qp__journal_finish(f->journal, &txn, err);
  }
  qp__buf_release(&log);
  qp__txn_release(&txn);
  return rc;
}

const struct qp__driver_fold qp__files_fold = {
  .wanted = is_wanted,
  .start = start,
  .write = write_fold,
  .finish = finish,
  .abort = abort_fold,
};

/* pg_build.c - a whole context at once: contents and index are stored while it is built, and nobody
 * sees them, because the row of the context and its lease come last, in one commit. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/postgres/postgres_int.h"

#define FLUSH_BYTES ((size_t)4 << 20)
#define INDEX_ROWS 10000

/* What is built; put may be called by several threads. */
struct build {
  struct qp__pg *pg;
  struct qp_uuid id;
  struct qp__mutex lock; /* of `columns` and `bytes` */
  struct qp__pg_array columns[3];
  size_t bytes;
  char *meta;
  size_t meta_len;
  struct qp__arena arena; /* of the names in `rest` */
  struct qp__pg_op *rest; /* heads and marks, for the commit */
  size_t rest_count;
  bool stored; /* some of its rows, and not committed */
};

static enum qp_rc
exists(const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  return qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(id, text));
}

/* Sends the call and forgets the answer. */
static enum qp_rc
run_call(struct qp__pg *pg, const struct qp__pg_call *call, struct qp_err *err)
{
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_ask(pg, "store a context", call, &link, err);

  qp__pg_give(link);
  return rc;
}

/* Rows of this context that an interrupted build has left. */
static enum qp_rc
remove_rows(struct qp__pg *pg, const struct qp_uuid *id, struct qp_err *err)
{
  static const enum qp__pg_statement all[] = { QP__PG_CONTENTS_DROP, QP__PG_MESSAGES_DROP };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !rc; i++) {
    struct qp__pg_call call = { .statement = all[i] };

    qp__pg_add_uuid(&call, id);
    rc = run_call(pg, &call, err);
  }
  return rc;
}

static enum qp_rc
begin(void *self, const struct qp_uuid *id, void **out, struct qp_err *err)
{
  static const enum qp__pg_type types[] = { QP__PG_UUID, QP__PG_UUID, QP__PG_BYTEA };
  struct qp__buf meta;
  struct build *b;
  enum qp_rc rc;

  qp__buf_init(&meta, QP__META_MAX);
  rc = qp__pg_context_peek(self, id, &meta, NULL, err);
  qp__buf_release(&meta);
  if (!rc)
    return exists(id, err);
  if (rc == QP_NOTFOUND)
    rc = remove_rows(self, id, err);
  if (rc)
    return rc;
  b = qp__alloc0(1, sizeof(*b));
  if (!b)
    return qp__fail_nomem(err, "building a context");
  b->pg = self;
  b->id = *id;
  qp__mutex_init(&b->lock, QP__RANK_POSTGRES_BUILD);
  for (size_t i = 0; i < 3; i++)
    qp__pg_array_init(&b->columns[i], types[i]);
  *out = b;
  return QP_OK;
}

static enum qp_rc
reserve(void *self, void *build, const char *dir, size_t n, struct qp_err *err)
{
  (void)self;
  (void)build;
  (void)dir;
  (void)n;
  (void)err;
  return QP_OK;
}

/* Stores the contents that are gathered. */
static enum qp_rc
flush_contents(struct build *b, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_CONTENTS_BUILD };
  enum qp_rc rc = QP_OK;

  QP_ASSERT_HELD(&b->lock);
  if (!b->columns[0].count)
    return QP_OK;
  for (size_t i = 0; i < 3 && !rc; i++)
    rc = qp__pg_add_array(&call, &b->columns[i], err);
  b->stored = true;
  if (!rc)
    rc = run_call(b->pg, &call, err);
  for (size_t i = 0; i < 3; i++)
    qp__pg_array_reset(&b->columns[i]);
  b->bytes = 0;
  return rc;
}

static enum qp_rc
put(void *self, void *build, size_t number, const struct qp_uuid *id, struct qp_bytes bytes,
    struct qp__buf *back, struct qp_err *err)
{
  struct build *b = build;
  enum qp_rc rc = QP_OK;

  (void)self;
  (void)number;
  qp__mutex_lock(&b->lock);
  qp__pg_array_add(&b->columns[0], b->id.b, 16);
  qp__pg_array_add(&b->columns[1], id->b, 16);
  qp__pg_array_add(&b->columns[2], bytes.data ? bytes.data : "", bytes.len);
  b->bytes += bytes.len + 64;
  if (b->bytes >= FLUSH_BYTES)
    rc = flush_contents(b, err);
  qp__mutex_unlock(&b->lock);
  if (!rc && back && qp__buf_add(back, bytes.data, bytes.len))
    rc = qp__buf_check(back, "a message", err);
  return rc;
}

/* The columns of quipu.messages. */
static enum qp_rc
store_rows(struct build *b, const struct qp__tree *tree, uint32_t first, uint32_t end,
           struct qp_err *err)
{
  static const enum qp__pg_type types[] = { QP__PG_UUID,  QP__PG_INT8, QP__PG_UUID, QP__PG_UUID,
                                            QP__PG_BYTEA, QP__PG_INT8, QP__PG_INT4, QP__PG_INT4,
                                            QP__PG_INT2,  QP__PG_TEXT };
  struct qp__pg_call call = { .statement = QP__PG_MESSAGES_BUILD };
  struct qp__pg_array c[10];
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < 10; i++)
    qp__pg_array_init(&c[i], types[i]);
  for (uint32_t slot = first; slot < end; slot++) {
    const struct qp__entry *e = qp__tree_at(tree, slot);
    const char *dir = qp__tree_dir_name(tree, e->dir);

    qp__pg_array_add(&c[0], b->id.b, 16);
    qp__pg_array_add_int(&c[1], (int64_t)slot + 1);
    qp__pg_array_add(&c[2], e->id.b, 16);
    qp__pg_array_add(&c[3], e->parent == QP__NO_SLOT ? NULL : qp__tree_at(tree, e->parent)->id.b,
                     16);
    qp__pg_array_add(&c[4], e->hash, sizeof(e->hash));
    qp__pg_array_add_int(&c[5], e->time);
    qp__pg_array_add_int(&c[6], e->size);
    qp__pg_array_add_int(&c[7], e->tokens);
    qp__pg_array_add_int(&c[8], e->role << 4 | e->type);
    qp__pg_array_add(&c[9], dir, strlen(dir));
  }
  for (size_t i = 0; i < 10 && !rc; i++)
    rc = qp__pg_add_array(&call, &c[i], err);
  b->stored = true;
  if (!rc)
    rc = run_call(b->pg, &call, err);
  for (size_t i = 0; i < 10; i++)
    qp__pg_array_release(&c[i]);
  return rc;
}

/* Messages that are in the trash or unavailable: few. */
static size_t
count_marks(const struct qp__tree *tree)
{
  size_t n = 0;

  for (uint32_t slot = 0; slot < tree->count; slot++) {
    const struct qp__entry *e = qp__tree_at(tree, slot);

    n += qp__entry_kind(e) == QP__PLACE_TRASH;
    n += atomic_load(&e->status) == QP_STATUS_UNAVAILABLE;
  }
  return n;
}

static void
add_mark(struct build *b, int kind, const struct qp__entry *e, int64_t at)
{
  struct qp__pg_op *op = &b->rest[b->rest_count++];

  op->kind = kind;
  op->scope = b->id;
  op->id = e->id;
  op->at = at;
}

/* A message that was lost in the trash has both marks, in this order. */
static void
copy_marks(struct build *b, const struct qp__tree *tree)
{
  for (uint32_t slot = 0; slot < tree->count; slot++) {
    const struct qp__entry *e = qp__tree_at(tree, slot);

    if (qp__entry_kind(e) == QP__PLACE_TRASH)
      add_mark(b, QP__CHANGE_TRASH, e, qp__place_time(atomic_load(&e->place)));
    if (atomic_load(&e->status) == QP_STATUS_UNAVAILABLE)
      add_mark(b, QP__CHANGE_STATUS, e, QP_STATUS_UNAVAILABLE);
  }
}

static enum qp_rc
copy_rest(struct build *b, const struct qp__image *image, struct qp_err *err)
{
  b->rest = qp__alloc0(image->head_count + count_marks(&image->tree) + 1, sizeof(*b->rest));
  if (!b->rest)
    return qp__fail_nomem(err, "building a context");
  for (size_t i = 0; i < image->head_count; i++) {
    const struct qp__head *h = &image->heads[i];
    struct qp__pg_op *op = &b->rest[b->rest_count++];

    op->kind = QP__CHANGE_HEAD;
    op->scope = b->id;
    op->name = qp__arena_strdup(&b->arena, h->name);
    if (!op->name)
      return qp__fail_nomem(err, "building a context");
    if (h->slot != QP__NO_SLOT) {
      const struct qp__entry *e = qp__tree_at(&image->tree, h->slot);

      op->id = e->id;
      op->path_messages = (uint64_t)e->depth + 1;
      op->path_bytes = e->path_bytes;
    }
  }
  copy_marks(b, &image->tree);
  return QP_OK;
}

static enum qp_rc
finish(void *self, void *build, struct qp_bytes meta, struct qp__image *image, struct qp_err *err)
{
  struct build *b = build;
  uint32_t count = image->tree.count;
  enum qp_rc rc;

  (void)self;
  qp__mutex_lock(&b->lock);
  rc = flush_contents(b, err);
  qp__mutex_unlock(&b->lock);
  for (uint32_t at = 0; at < count && !rc; at += INDEX_ROWS)
    rc = store_rows(b, &image->tree, at, count - at < INDEX_ROWS ? count : at + INDEX_ROWS, err);
  if (!rc)
    rc = copy_rest(b, image, err);
  if (rc)
    return rc;
  b->meta = qp__strndup(meta.data, meta.len);
  b->meta_len = meta.len;
  return b->meta ? QP_OK : qp__fail_nomem(err, "building a context");
}

/* One ticket: the context, its heads and marks, and the plain files. */
static struct qp__pg_ticket *
make_ticket(const struct build *b, const struct qp__driver_change *puts, size_t n)
{
  struct qp__pg_ticket *t = qp__pg_ticket_new(puts, n);
  struct qp__pg_op *ops = qp__alloc0(n + b->rest_count + 1, sizeof(*ops));

  if (!t || !ops) {
    qp__pg_ticket_free(t);
    qp__free(ops);
    return NULL;
  }
  ops[0] = qp__pg_op_of(b->pg, QP__PG_OP_ADOPT, &b->id, (struct qp_bytes){ b->meta, b->meta_len });
  memcpy(ops + 1, b->rest, b->rest_count * sizeof(*ops));
  memcpy(ops + 1 + b->rest_count, t->ops, n * sizeof(*ops));
  qp__free(t->ops);
  t->ops = ops;
  t->count = n + b->rest_count + 1;
  return t;
}

static enum qp_rc
commit(void *self, void *build, struct qp__driver_change *puts, size_t put_count,
       const struct qp__build_move *moves, size_t n, struct qp_err *err)
{
  struct build *b = build;
  struct qp_err why = { QP_OK, "" };
  enum qp_rc rc;

  (void)moves; /* without a data directory there are no moves */
  (void)n;
  rc = qp__pg_commit(self, make_ticket(b, puts, put_count), err);
  if (rc)
    return rc;
  b->stored = false;
  if (qp__pg_index_row(self, &b->id, &why))
    qp__log(&b->pg->log, QP_LOG_WARN, "postgres",
            "a context is stored, but it is not listed before the next start: %s", why.msg);
  return QP_OK;
}

static void
free_build(void *self, void *build)
{
  struct build *b = build;
  struct qp__buf meta;
  struct qp_err err;

  qp__buf_init(&meta, QP__META_MAX);
  if (b->stored && qp__pg_context_peek(self, &b->id, &meta, NULL, &err) == QP_NOTFOUND &&
      remove_rows(self, &b->id, &err))
    qp__log(&b->pg->log, QP_LOG_WARN, "postgres",
            "rows of a context that was not completed are left: %s", err.msg);
  qp__buf_release(&meta);
  for (size_t i = 0; i < 3; i++)
    qp__pg_array_release(&b->columns[i]);
  qp__arena_release(&b->arena);
  qp__free(b->rest);
  qp__free(b->meta);
  qp__mutex_release(&b->lock);
  qp__free(b);
}

const struct qp__driver_build qp__pg_build = {
  .begin = begin,
  .reserve = reserve,
  .put = put,
  .finish = finish,
  .commit = commit,
  .free = free_build,
};

/* pg_ticket.c - a staged commit: a copy of its changes, and how they become statements.
 *
 * New messages, heads, metadata and appends of all tickets of a batch are gathered in arrays and
 * sent as a few statements. Anything else first sends what was gathered, so that the order of the
 * changes is kept. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "store/postgres/pg_rows.h"

#define CHUNK_BYTES ((size_t)256 << 10) /* of a file that is written as a whole */

/* ---- tickets ---- */

void
qp__pg_ticket_free(struct qp__pg_ticket *t)
{
  if (!t)
    return;
  qp__arena_release(&t->arena);
  qp__free(t->ops);
  qp__free(t);
}

static struct qp__pg_ticket *
new_ticket(size_t n)
{
  struct qp__pg_ticket *t = qp__alloc0(1, sizeof(*t));

  if (!t)
    return NULL;
  t->ops = qp__alloc0(n + 1, sizeof(*t->ops));
  if (!t->ops) {
    qp__free(t);
    return NULL;
  }
  return t;
}

/* A copy in the arena; NULL stays NULL. */
static bool
copy_text(struct qp__pg_ticket *t, const char *from, const char **out)
{
  *out = from ? qp__arena_strdup(&t->arena, from) : NULL;
  return !from || *out;
}

static bool
copy_change(struct qp__pg_ticket *t, const struct qp__driver_change *ch, struct qp__pg_op *op)
{
  op->kind = (int)ch->kind;
  op->context = ch->context;
  op->id = ch->id;
  op->parent = ch->parent;
  op->at = ch->at;
  op->cut = ch->cut;
  op->path_messages = ch->path_messages;
  op->path_bytes = ch->path_bytes;
  if (ch->entry)
    memcpy(&op->entry, ch->entry, sizeof(op->entry));
  if (ch->kind == QP__CHANGE_MESSAGE) {
    op->id = op->entry.id;
    op->at = ++op->context->number;
  } else if (ch->kind == QP__CHANGE_META) {
    op->at = ch->running ? 2 : 1; /* for its lease (pg_lease.c) */
  } else if (ch->kind == QP__CHANGE_STATUS) {
    op->at = ch->status;
  } else if (qp__is_file_change(ch)) {
    op->at = (int64_t)ch->offset;
    qp__pg_scope(ch->path, &op->scope);
    if (ch->kind == QP__CHANGE_FILE_RENAME)
      qp__pg_scope(ch->to, &op->to_scope);
  }
  if (!qp__is_file_change(ch))
    op->scope = op->context->id;
  if (!copy_text(t, qp__is_file_change(ch) ? ch->path : ch->branch, &op->name) ||
      !copy_text(t, ch->to, &op->to) || !copy_text(t, ch->dir, &op->dir))
    return false;
  if (ch->bytes.len) {
    op->bytes.data = qp__arena_strndup(&t->arena, ch->bytes.data, ch->bytes.len);
    op->bytes.len = ch->bytes.len;
    t->bytes += ch->bytes.len;
  }
  t->bytes += 128;
  if (ch->bytes.len && !op->bytes.data)
    return false;
  return qp__pg_rows_copy(&t->arena, ch, op);
}

struct qp__pg_ticket *
qp__pg_ticket_new(const struct qp__driver_change *changes, size_t n)
{
  struct qp__pg_ticket *t = new_ticket(n);

  for (size_t i = 0; t && i < n; i++)
    if (!copy_change(t, &changes[i], &t->ops[t->count++])) {
      qp__pg_ticket_free(t);
      return NULL;
    }
  return t;
}

struct qp__pg_op
qp__pg_op_of(struct qp__pg *pg, enum qp__pg_op_kind kind, const struct qp_uuid *id,
             struct qp_bytes bytes)
{
  struct qp__pg_op op = { .kind = kind, .scope = *id, .bytes = bytes };

  op.to_scope = qp__pg_holder(pg);
  op.joined = pg->member != NULL;
  return op;
}

struct qp__pg_ticket *
qp__pg_ticket_of(const struct qp__pg_op *op)
{
  struct qp__pg_ticket *t = new_ticket(1);

  if (t) {
    memcpy(&t->ops[t->count++], op, sizeof(*op));
    t->bytes = op->bytes.len + 128;
  }
  return t;
}

void
qp__pg_ticket_contexts(const struct qp__pg_ticket *t, qp__pg_context_fn *fn, void *arg)
{
  for (size_t i = 0; i < t->count; i++) {
    bool again = !t->ops[i].context;

    for (size_t k = 0; k < i && !again; k++)
      again = t->ops[k].context == t->ops[i].context;
    if (!again)
      fn(arg, t->ops[i].context);
  }
}

/* ---- gathering ---- */

/* The arrays of each statement that is gathered; the first numbers in enum column. */
enum column {
  M_CONTEXT, /* messages */
  M_NUMBER,
  M_ID,
  M_PARENT,
  M_HASH,
  M_AT,
  M_SIZE,
  M_TOKENS,
  M_KIND,
  M_DIR,
  C_CONTEXT, /* contents */
  C_ID,
  C_BYTES,
  K_SCOPE, /* chunks */
  K_NAME,
  K_START,
  K_BYTES,
  W_1, /* for heads, metadata and sizes of files, when they are sent */
  W_2,
  W_3,
  W_4,
  W_5,
  COLUMNS,
};

static const enum qp__pg_type column_types[W_1] = {
  QP__PG_UUID,  QP__PG_INT8, QP__PG_UUID, QP__PG_UUID, QP__PG_BYTEA, QP__PG_INT8,
  QP__PG_INT4,  QP__PG_INT4, QP__PG_INT2, QP__PG_TEXT, QP__PG_UUID,  QP__PG_UUID,
  QP__PG_BYTEA, QP__PG_UUID, QP__PG_TEXT, QP__PG_INT8, QP__PG_BYTEA,
};

/* A head, metadata (without a name) or a file that grows: the last value counts. */
struct latest {
  struct qp_uuid scope;
  const char *name;
  struct qp_uuid id;
  struct qp_bytes bytes;
  int64_t start, size; /* of a head: messages and bytes up to it */
};

struct latest_list {
  struct latest *list;
  size_t count, cap;
};

struct gather {
  struct qp__pg *pg;
  struct qp__pg_link *link;
  struct qp__pg_array columns[COLUMNS];
  struct latest_list heads, metas, files;
  struct qp__pg_rows rows;
};

static struct latest *
find_latest(struct latest_list *l, const struct qp_uuid *scope, const char *name)
{
  for (size_t i = l->count; i-- > 0;)
    if (qp_uuid_equal(&l->list[i].scope, scope) && (!name || strcmp(l->list[i].name, name) == 0))
      return &l->list[i];
  return NULL;
}

/* The entry of this name, which is added if it is new. NULL: no memory. */
static struct latest *
latest_of(struct latest_list *l, const struct qp_uuid *scope, const char *name)
{
  struct latest *e = find_latest(l, scope, name);

  if (!e &&
      qp__vec_push(l->list, l->count, l->cap, (struct latest){ .scope = *scope, .name = name }))
    e = &l->list[l->count - 1];
  return e;
}

static const struct qp_uuid *
or_null(const struct qp_uuid *id)
{
  return qp_uuid_is_none(id) ? NULL : id;
}

static void
add_id(struct qp__pg_array *a, const struct qp_uuid *id)
{
  qp__pg_array_add(a, id ? id->b : NULL, 16);
}

static void
add_bytes(struct qp__pg_array *a, struct qp_bytes b)
{
  qp__pg_array_add(a, b.data ? b.data : "", b.len);
}

/* Sends one gathered statement: `count` arrays from `first` on, and with `guard` their length. */
static enum qp_rc
send_columns(struct gather *g, enum qp__pg_statement statement, int first, int count, bool guard,
             struct qp_err *err)
{
  struct qp__pg_call call = { .statement = statement };
  enum qp_rc rc = QP_OK;

  if (!g->columns[first].count)
    return QP_OK;
  for (int i = first; i < first + count && !rc; i++)
    rc = qp__pg_add_array(&call, &g->columns[i], err);
  if (guard)
    qp__pg_add_int8(&call, g->columns[first].count);
  if (!rc)
    qp__pg_send(g->link, &call);
  for (int i = first; i < first + count; i++)
    qp__pg_array_reset(&g->columns[i]);
  return rc;
}

static void
set_types(struct gather *g, enum qp__pg_type b, enum qp__pg_type c, enum qp__pg_type d)
{
  g->columns[W_1].type = QP__PG_UUID;
  g->columns[W_5].type = QP__PG_INT8;
  g->columns[W_2].type = b;
  g->columns[W_3].type = c;
  g->columns[W_4].type = d;
}

static enum qp_rc
send_metas(struct gather *g, struct qp_err *err)
{
  set_types(g, QP__PG_BYTEA, QP__PG_TEXT, QP__PG_TEXT);
  for (size_t i = 0; i < g->metas.count; i++) {
    add_id(&g->columns[W_1], &g->metas.list[i].scope);
    add_bytes(&g->columns[W_2], g->metas.list[i].bytes);
  }
  g->metas.count = 0;
  return send_columns(g, QP__PG_META_PUT, W_1, 2, false, err);
}

static enum qp_rc
send_heads(struct gather *g, struct qp_err *err)
{
  set_types(g, QP__PG_TEXT, QP__PG_UUID, QP__PG_INT8);
  for (size_t i = 0; i < g->heads.count; i++) {
    const struct latest *e = &g->heads.list[i];

    add_id(&g->columns[W_1], &e->scope);
    qp__pg_array_add(&g->columns[W_2], e->name, strlen(e->name));
    add_id(&g->columns[W_3], or_null(&e->id));
    qp__pg_array_add_int(&g->columns[W_4], e->start);
    qp__pg_array_add_int(&g->columns[W_5], e->size);
  }
  g->heads.count = 0;
  return send_columns(g, QP__PG_HEADS_PUT, W_1, 5, false, err);
}

/* Files that begin with this batch, or those that grow. */
static enum qp_rc
send_files(struct gather *g, bool starting, struct qp_err *err)
{
  set_types(g, QP__PG_TEXT, QP__PG_INT8, QP__PG_INT8);
  for (size_t i = 0; i < g->files.count; i++) {
    const struct latest *e = &g->files.list[i];

    if ((e->start == 0) != starting)
      continue;
    add_id(&g->columns[W_1], &e->scope);
    qp__pg_array_add(&g->columns[W_2], e->name, strlen(e->name));
    if (!starting)
      qp__pg_array_add_int(&g->columns[W_3], e->start);
    qp__pg_array_add_int(&g->columns[starting ? W_3 : W_4], e->size);
  }
  return starting ? send_columns(g, QP__PG_FILES_START, W_1, 3, true, err)
                  : send_columns(g, QP__PG_FILES_GROW, W_1, 4, true, err);
}

/* Sends everything that is gathered. */
static enum qp_rc
flush(struct gather *g, struct qp_err *err)
{
  enum qp_rc rc = send_metas(g, err);

  if (!rc)
    rc = send_columns(g, QP__PG_MESSAGES_ADD, M_CONTEXT, 10, false, err);
  if (!rc)
    rc = send_columns(g, QP__PG_CONTENTS_ADD, C_CONTEXT, 3, false, err);
  if (!rc)
    rc = send_heads(g, err);
  if (!rc)
    rc = send_files(g, true, err);
  if (!rc)
    rc = send_files(g, false, err);
  g->files.count = 0;
  if (!rc)
    rc = send_columns(g, QP__PG_CHUNKS_ADD, K_SCOPE, 4, false, err);
  return rc ? rc : qp__pg_rows_send(&g->rows, g->link, err);
}

/* ---- changes that are gathered ---- */

static enum qp_rc
out_of_memory(struct qp_err *err)
{
  return qp__fail_nomem(err, "committing");
}

static enum qp_rc
put_head(struct gather *g, const struct qp__pg_op *op, const char *branch, struct qp_err *err)
{
  struct latest *e = latest_of(&g->heads, &op->scope, branch);

  if (!e)
    return out_of_memory(err);
  e->id = op->id;
  e->start = (int64_t)op->path_messages;
  e->size = (int64_t)op->path_bytes;
  return QP_OK;
}

static enum qp_rc
put_meta(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  struct latest *e = latest_of(&g->metas, &op->scope, NULL);

  if (!e)
    return out_of_memory(err);
  e->bytes = op->bytes;
  return QP_OK;
}

static enum qp_rc
add_message(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  const struct qp__entry *e = &op->entry;
  struct qp__pg_array *c = g->columns;

  add_id(&c[M_CONTEXT], &op->scope);
  qp__pg_array_add_int(&c[M_NUMBER], op->at);
  add_id(&c[M_ID], &op->id);
  add_id(&c[M_PARENT], or_null(&op->parent));
  qp__pg_array_add(&c[M_HASH], e->hash, sizeof(e->hash));
  qp__pg_array_add_int(&c[M_AT], e->time);
  qp__pg_array_add_int(&c[M_SIZE], e->size);
  qp__pg_array_add_int(&c[M_TOKENS], e->tokens);
  qp__pg_array_add_int(&c[M_KIND], e->role << 4 | e->type);
  qp__pg_array_add(&c[M_DIR], op->dir, strlen(op->dir));
  add_id(&c[C_CONTEXT], &op->scope);
  add_id(&c[C_ID], &op->id);
  add_bytes(&c[C_BYTES], op->bytes);
  return put_head(g, op, op->name, err);
}

static void
add_chunk(struct gather *g, const struct qp__pg_op *op, int64_t start, struct qp_bytes bytes)
{
  struct qp__pg_array *c = g->columns;

  add_id(&c[K_SCOPE], &op->scope);
  qp__pg_array_add(&c[K_NAME], op->name, strlen(op->name));
  qp__pg_array_add_int(&c[K_START], start);
  add_bytes(&c[K_BYTES], bytes);
}

static void
add_chunks(struct gather *g, const struct qp__pg_op *op, int64_t start)
{
  for (size_t at = 0; at < op->bytes.len; at += CHUNK_BYTES) {
    size_t n = op->bytes.len - at < CHUNK_BYTES ? op->bytes.len - at : CHUNK_BYTES;

    add_chunk(g, op, start + (int64_t)at, (struct qp_bytes){ op->bytes.data + at, n });
  }
}

static enum qp_rc
append_file(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  struct latest *e = find_latest(&g->files, &op->scope, op->name);

  if (e && e->size != op->at)
    return qp__fail(err, QP_MISUSE, "an append to '%s' does not begin at its end", op->name);
  if (!e) {
    e = latest_of(&g->files, &op->scope, op->name);
    if (!e)
      return out_of_memory(err);
    e->start = op->at;
  }
  e->size = op->at + (int64_t)op->bytes.len;
  add_chunks(g, op, op->at);
  return QP_OK;
}

/* ---- changes that are sent at once ---- */

static struct qp__pg_call
call_of(enum qp__pg_statement statement, const struct qp_uuid *scope, const char *name)
{
  struct qp__pg_call call = { .statement = statement };

  qp__pg_add_uuid(&call, scope);
  if (name)
    qp__pg_add_text(&call, name);
  return call;
}

/* A statement about one name or one message. The struct holds pointers into itself, so it is sent
 * from here. */
static void
send_named(struct gather *g, enum qp__pg_statement statement, const struct qp__pg_op *op)
{
  struct qp__pg_call call = call_of(statement, &op->scope, op->name);

  qp__pg_send(g->link, &call);
}

static void
send_sized(struct gather *g, enum qp__pg_statement statement, const struct qp__pg_op *op,
           int64_t size)
{
  struct qp__pg_call call = call_of(statement, &op->scope, op->name);

  qp__pg_add_int8(&call, size);
  qp__pg_send(g->link, &call);
}

static void
send_rename(struct gather *g, enum qp__pg_statement statement, const struct qp__pg_op *op)
{
  struct qp__pg_call call = call_of(statement, &op->scope, op->name);

  qp__pg_add_uuid(&call, &op->to_scope);
  qp__pg_add_text(&call, op->to);
  qp__pg_send(g->link, &call);
}

static void
send_of_context(struct gather *g, enum qp__pg_statement statement, const struct qp__pg_op *op)
{
  struct qp__pg_call call = call_of(statement, &op->scope, NULL);

  qp__pg_send(g->link, &call);
}

static void
send_of_message(struct gather *g, enum qp__pg_statement statement, const struct qp__pg_op *op)
{
  struct qp__pg_call call = call_of(statement, &op->scope, NULL);

  qp__pg_add_uuid(&call, &op->id);
  if (statement == QP__PG_STATUS_PUT)
    qp__pg_add_int2(&call, (int)op->at);
  else if (statement == QP__PG_TRASH_PUT)
    qp__pg_add_int8(&call, op->at);
  else if (statement == QP__PG_CONTENT_PUT)
    qp__pg_add_bytes(&call, op->bytes);
  qp__pg_send(g->link, &call);
}

static enum qp_rc
send_put(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  send_sized(g, QP__PG_CHUNKS_CUT, op, 0);
  send_sized(g, QP__PG_FILE_PUT, op, (int64_t)op->bytes.len);
  add_chunks(g, op, 0);
  return flush(g, err);
}

static void
send_cut(struct gather *g, const struct qp__pg_op *op)
{
  send_sized(g, QP__PG_CHUNKS_CUT, op, op->at);
  send_sized(g, QP__PG_CHUNK_CUT, op, op->at);
  send_sized(g, QP__PG_FILE_PUT, op, op->at);
}

/* A new context: its row and its lease, which this server has. The guard comes last: a transaction
 * that waited for something is judged at its end. */
static void
send_create(struct gather *g, const struct qp__pg_op *op)
{
  struct qp__pg_call add = call_of(QP__PG_CONTEXT_ADD, &op->scope, NULL);
  struct qp__pg_call lease = call_of(QP__PG_LEASE_ADD, &op->scope, NULL);
  struct qp__pg_call guard = call_of(QP__PG_SERVER_STAYS, &op->to_scope, NULL);

  qp__pg_add_bytes(&add, op->bytes);
  qp__pg_send(g->link, &add);
  qp__pg_add_uuid(&lease, &op->to_scope);
  qp__pg_add_int8(&lease, g->pg->lease_ms);
  qp__pg_send(g->link, &lease);
  if (op->joined)
    qp__pg_send(g->link, &guard);
}

static void
send_delete(struct gather *g, const struct qp__pg_op *op)
{
  static const enum qp__pg_statement all[] = {
    QP__PG_BRANCHES_DROP, QP__PG_MESSAGES_DROP, QP__PG_CONTENTS_DROP,
    QP__PG_MARKS_DROP,    QP__PG_FILES_DROP,    QP__PG_CHUNKS_DROP,
  };
  struct qp__pg_call lease = call_of(QP__PG_LEASE_DROP, &op->scope, NULL);

  send_of_context(g, QP__PG_CONTEXT_DROP, op);
  qp__pg_add_uuid(&lease, &op->to_scope);
  qp__pg_add_int2(&lease, !op->joined);
  qp__pg_send(g->link, &lease);
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    send_of_context(g, all[i], op);
  qp__pg_rows_delete(g->pg, g->link, &op->scope);
}

static enum qp_rc
send_purge(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  static const enum qp__pg_statement all[] = { QP__PG_PURGE_MESSAGES, QP__PG_PURGE_CONTENTS,
                                               QP__PG_PURGE_MARKS };
  struct qp__pg_array ids;
  enum qp_rc rc = QP_OK;

  qp__pg_array_init(&ids, QP__PG_UUID);
  for (size_t at = 0; at < op->bytes.len; at += 16)
    qp__pg_array_add(&ids, op->bytes.data + at, 16);
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !rc; i++) {
    struct qp__pg_call call = call_of(all[i], &op->scope, NULL);

    rc = qp__pg_add_array(&call, &ids, err);
    if (!rc)
      qp__pg_send(g->link, &call);
  }
  if (!rc)
    rc = qp__pg_rows_purge(g->pg, g->link, &op->scope, &ids, err);
  qp__pg_array_release(&ids);
  return rc;
}

static enum qp_rc
send_other(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  struct qp__pg_call call;

  switch (op->kind) {
  case QP__CHANGE_RENAME:
    call = call_of(QP__PG_BRANCH_RENAME, &op->scope, op->name);
    qp__pg_add_text(&call, op->to);
    qp__pg_send(g->link, &call);
    return QP_OK;
  case QP__CHANGE_DROP:
    send_named(g, QP__PG_BRANCH_DROP, op);
    return QP_OK;
  case QP__CHANGE_STATUS:
    send_of_message(g, QP__PG_STATUS_PUT, op);
    return QP_OK;
  case QP__CHANGE_TRASH:
    qp__pg_rows_count_trash(g->link, op, true);
    send_of_message(g, QP__PG_TRASH_PUT, op);
    qp__pg_rows_trash(g->pg, g->link, op, true);
    return QP_OK;
  case QP__CHANGE_UNTRASH:
    qp__pg_rows_count_trash(g->link, op, false);
    send_of_message(g, QP__PG_TRASH_DROP, op);
    qp__pg_rows_trash(g->pg, g->link, op, false);
    return QP_OK;
  case QP__CHANGE_CONTENT:
    send_of_message(g, QP__PG_CONTENT_PUT, op);
    return QP_OK;
  case QP__CHANGE_FILE_PUT:
    return send_put(g, op, err);
  case QP__CHANGE_FILE_APPEND:
    send_cut(g, op);
    return append_file(g, op, err);
  case QP__CHANGE_FILE_RENAME:
    send_rename(g, QP__PG_RENAME_FREE_CHUNKS, op);
    send_rename(g, QP__PG_RENAME_FREE_FILE, op);
    send_rename(g, QP__PG_RENAME_CHUNKS, op);
    send_rename(g, QP__PG_RENAME_FILE, op);
    return QP_OK;
  case QP__CHANGE_FILE_DROP:
    send_sized(g, QP__PG_CHUNKS_CUT, op, 0);
    send_named(g, QP__PG_FILE_DROP, op);
    return QP_OK;
  case QP__PG_OP_CREATE:
    send_create(g, op);
    return put_head(g, op, "main", err);
  case QP__PG_OP_ADOPT:
    send_create(g, op);
    send_of_context(g, QP__PG_UNLISTED_ADD, op);
    return QP_OK;
  case QP__PG_OP_DELETE:
    send_delete(g, op);
    return QP_OK;
  case QP__PG_OP_PURGE:
    return send_purge(g, op, err);
  default:
    return qp__fail(err, QP_MISUSE, "a change of an unknown kind");
  }
}

static enum qp_rc
send_change(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  enum qp_rc rc;

  switch (op->kind) {
  case QP__CHANGE_MESSAGE:
    return add_message(g, op, err);
  case QP__CHANGE_META:
    return put_meta(g, op, err);
  case QP__CHANGE_HEAD:
    return put_head(g, op, op->name, err);
  case QP__CHANGE_FILE_APPEND:
    if (!op->cut)
      return append_file(g, op, err);
    break;
  default:
    break;
  }
  rc = flush(g, err);
  return rc ? rc : send_other(g, op, err);
}

static enum qp_rc
send_op(struct gather *g, const struct qp__pg_op *op, struct qp_err *err)
{
  enum qp_rc rc = send_change(g, op, err);

  return rc || !op->row ? rc : qp__pg_rows_put(&g->rows, &op->scope, op->row, op->last, err);
}

enum qp_rc
qp__pg_send_tickets(struct qp__pg *pg, struct qp__pg_link *link,
                    struct qp__pg_ticket *const *tickets, size_t n, struct qp_err *err)
{
  struct gather g = { .pg = pg, .link = link };
  enum qp_rc rc = QP_OK;

  for (int i = 0; i < COLUMNS; i++)
    qp__pg_array_init(&g.columns[i], i < W_1 ? column_types[i] : QP__PG_UUID);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < tickets[i]->count && !rc; k++)
      rc = send_op(&g, &tickets[i]->ops[k], err);
  if (!rc)
    rc = flush(&g, err);
  for (int i = 0; i < COLUMNS; i++)
    qp__pg_array_release(&g.columns[i]);
  qp__pg_rows_release(&g.rows);
  qp__free(g.heads.list);
  qp__free(g.metas.list);
  qp__free(g.files.list);
  return rc;
}

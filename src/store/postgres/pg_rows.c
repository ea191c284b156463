/* pg_rows.c - what a commit changes in the catalogue: the row of each context, in the transaction
 * of the commit, so every server lists what was acknowledged. The row also says which messages are
 * new, and whoever searches makes their words first (pg_index.c). The work of a commit does not
 * depend on how much is stored. */
#include "store/postgres/pg_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

#define COLUMNS 14 /* of a whole row */

/* ---- copies in a ticket ---- */

static bool
copy_text(struct qp__arena *arena, const char **text)
{
  if (*text)
    *text = qp__arena_strdup(arena, *text);
  return *text != NULL;
}

static bool
copy_row(struct qp__arena *arena, const struct qp__driver_row *from,
         const struct qp__driver_row **out)
{
  struct qp__driver_row *row = qp__arena_alloc(arena, sizeof(*row));
  const char **texts[5];

  if (!row)
    return false;
  *row = *from;
  *out = row;
  texts[0] = &row->row.title;
  texts[1] = &row->row.owner;
  texts[2] = &row->row.model_id;
  texts[3] = &row->row.mode;
  texts[4] = &row->row.summary;
  for (size_t i = 0; i < 5; i++)
    if (!row->whole)
      *texts[i] = NULL;
    else if (*texts[i] && !copy_text(arena, texts[i]))
      return false;
  return true;
}

bool
qp__pg_rows_copy(struct qp__arena *arena, const struct qp__driver_change *ch, struct qp__pg_op *op)
{
  if (!ch->row)
    return true;
  op->last = op->context->number;
  return copy_row(arena, ch->row, &op->row);
}

/* ---- gathering ---- */

void
qp__pg_rows_release(struct qp__pg_rows *rows)
{
  qp__free(rows->list);
}

enum qp_rc
qp__pg_rows_put(struct qp__pg_rows *rows, const struct qp_uuid *context,
                const struct qp__driver_row *row, int64_t last, struct qp_err *err)
{
  struct qp__pg_row *at = NULL;

  for (size_t i = rows->count; i-- > 0 && !at;)
    if (qp_uuid_equal(&rows->list[i].context, context))
      at = &rows->list[i];
  if (!at) {
    if (!qp__vec_push(rows->list, rows->count, rows->cap,
                      (struct qp__pg_row){ .context = *context }))
      return qp__fail_nomem(err, "committing");
    at = &rows->list[rows->count - 1];
  }
  at->newest = row;
  at->last = last;
  if (row->whole)
    at->whole = row;
  return QP_OK;
}

/* ---- sending ---- */

static void
add_text(struct qp__pg_array *a, const char *text)
{
  qp__pg_array_add(a, text, text ? strlen(text) : 0);
}

static void
add_whole(struct qp__pg_array *c, const struct qp__pg_row *at)
{
  const struct qp_catalogue_row *r = &at->whole->row;

  qp__pg_array_add(&c[0], at->context.b, 16);
  add_text(&c[1], r->owner);
  qp__pg_array_add_int(&c[2], r->created_at);
  qp__pg_array_add_int(&c[3], at->newest->row.updated_at);
  qp__pg_array_add_int(&c[4], (int64_t)at->newest->row.messages);
  qp__pg_array_add_int(&c[5], (int64_t)at->newest->row.bytes);
  qp__pg_array_add_int(&c[6], (int64_t)r->branches);
  qp__pg_array_add_int(&c[7], (int64_t)at->whole->meta_bytes);
  add_text(&c[8], qp_state_name(r->state));
  add_text(&c[9], r->title);
  add_text(&c[10], r->model_id);
  add_text(&c[11], r->mode);
  add_text(&c[12], r->summary);
  qp__pg_array_add_int(&c[13], at->last);
}

static void
add_grown(struct qp__pg_array *c, const struct qp__pg_row *at)
{
  qp__pg_array_add(&c[0], at->context.b, 16);
  qp__pg_array_add_int(&c[1], at->newest->row.updated_at);
  qp__pg_array_add_int(&c[2], (int64_t)at->newest->row.messages);
  qp__pg_array_add_int(&c[3], (int64_t)at->newest->row.bytes);
  qp__pg_array_add_int(&c[4], at->last);
}

static enum qp_rc
send_rows(struct qp__pg_rows *rows, struct qp__pg_link *link, bool whole, struct qp_err *err)
{
  static const enum qp__pg_type types[2][COLUMNS] = {
    { QP__PG_UUID, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8 },
    { QP__PG_UUID, QP__PG_TEXT, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8,
      QP__PG_INT8, QP__PG_TEXT, QP__PG_TEXT, QP__PG_TEXT, QP__PG_TEXT, QP__PG_TEXT, QP__PG_INT8 },
  };
  struct qp__pg_call call = { .statement = whole ? QP__PG_ROWS_PUT : QP__PG_ROWS_GROW };
  struct qp__pg_array c[COLUMNS];
  size_t n = whole ? COLUMNS : 5;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < n; i++)
    qp__pg_array_init(&c[i], types[whole][i]);
  for (size_t i = 0; i < rows->count; i++)
    if ((rows->list[i].whole != NULL) == whole)
      (whole ? add_whole : add_grown)(c, &rows->list[i]);
  for (size_t i = 0; i < n && !rc && c[0].count; i++)
    rc = qp__pg_add_array(&call, &c[i], err);
  if (!rc && c[0].count)
    qp__pg_send(link, &call);
  for (size_t i = 0; i < n; i++)
    qp__pg_array_release(&c[i]);
  return rc;
}

enum qp_rc
qp__pg_rows_send(struct qp__pg_rows *rows, struct qp__pg_link *link, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (rows->count)
    rc = send_rows(rows, link, true, err);
  if (!rc && rows->count)
    rc = send_rows(rows, link, false, err);
  rows->count = 0;
  return rc;
}

/* ---- changes that are sent at once ---- */

int
qp__pg_slot(const struct qp__pg *pg)
{
  return pg->writer.b[15] % QP__PG_SLOTS;
}

static void
send_of_context(struct qp__pg_link *link, enum qp__pg_statement statement,
                const struct qp_uuid *context)
{
  struct qp__pg_call call = { .statement = statement };

  qp__pg_add_uuid(&call, context);
  qp__pg_send(link, &call);
}

void
qp__pg_rows_count_trash(struct qp__pg_link *link, const struct qp__pg_op *op, bool trashed)
{
  struct qp__pg_call call = { .statement = QP__PG_ROW_TRASH };

  qp__pg_add_uuid(&call, &op->scope);
  qp__pg_add_uuid(&call, &op->id);
  qp__pg_add_int8(&call, trashed ? 1 : -1);
  qp__pg_add_int8(&call, op->entry.size);
  qp__pg_send(link, &call);
}

void
qp__pg_rows_trash(struct qp__pg *pg, struct qp__pg_link *link, const struct qp__pg_op *op,
                  bool trashed)
{
  struct qp__pg_call call = { .statement = QP__PG_TEXT_TRASH };

  send_of_context(link, QP__PG_CONTEXT_LOCK, &op->scope);
  qp__pg_add_uuid(&call, &op->scope);
  qp__pg_add_uuid(&call, &op->id);
  qp__pg_add_bool(&call, trashed);
  qp__pg_add_int2(&call, qp__pg_slot(pg));
  qp__pg_send(link, &call);
}

enum qp_rc
qp__pg_rows_purge(struct qp__pg *pg, struct qp__pg_link *link, const struct qp_uuid *context,
                  struct qp__pg_array *ids, struct qp_err *err)
{
  struct qp__pg_call texts = { .statement = QP__PG_PURGE_TEXTS };
  enum qp_rc rc;

  send_of_context(link, QP__PG_CONTEXT_LOCK, context);
  qp__pg_add_uuid(&texts, context);
  rc = qp__pg_add_array(&texts, ids, err);
  if (rc)
    return rc;
  qp__pg_add_int2(&texts, qp__pg_slot(pg));
  qp__pg_send(link, &texts);
  send_of_context(link, QP__PG_USAGE_DROP, context);
  send_of_context(link, QP__PG_ROW_COUNT, context);
  return QP_OK;
}

void
qp__pg_rows_delete(struct qp__pg *pg, struct qp__pg_link *link, const struct qp_uuid *context)
{
  struct qp__pg_call texts = { .statement = QP__PG_TEXTS_DROP };

  qp__pg_add_uuid(&texts, context);
  qp__pg_add_int2(&texts, qp__pg_slot(pg));
  qp__pg_send(link, &texts);
  send_of_context(link, QP__PG_USAGE_DROP, context);
  send_of_context(link, QP__PG_ROW_DROP, context);
  send_of_context(link, QP__PG_UNLISTED_DROP, context);
}

/* pg_rows.c - what a commit changes in the catalogue: rows of quipu.catalogue, and the words of new
 * messages in quipu.texts. Both are written in the transaction of the commit, so every server lists
 * and finds what was acknowledged. The work does not depend on how much is stored.
 *
 * The words are made before the commit has its place (struct qp__driver_ahead), in the thread that
 * commits. */
#include "store/postgres/pg_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

/* ---- words ---- */

/* Words of a message, between prepare() and stage(). */
struct prepared {
  struct qp__buf words;
  uint32_t count;
};

static void
free_prepared(struct prepared *p)
{
  if (p)
    qp__buf_release(&p->words);
  qp__free(p);
}

static enum qp_rc
make_words(struct qp__words *w, struct qp__driver_change *ch, struct qp_err *err)
{
  struct prepared *p = qp__alloc0(1, sizeof(*p));
  bool any = false;
  enum qp_rc rc;

  if (!p)
    return qp__fail_nomem(err, "the words of a message");
  qp__buf_init(&p->words, QP__PG_WORDS_MAX);
  rc = qp__words_of_message(w, ch->bytes, &p->words, &p->count, &any, err);
  if (!rc && any)
    ch->prepared = p;
  else
    free_prepared(p);
  return rc;
}

static void
prepare(void *self, struct qp__driver_change *changes, size_t n)
{
  struct qp__pg *pg = self;
  struct qp__words *w = NULL;

  for (size_t i = 0; i < n; i++) {
    struct qp__driver_change *ch = &changes[i];

    ch->prepared = NULL;
    ch->rc = QP_OK;
    if (ch->make)
      ch->make(ch);
    if (ch->rc || ch->kind != QP__CHANGE_MESSAGE)
      continue;
    if (!w)
      ch->rc = qp__words_take(&pg->words, &w, &ch->err);
    if (!ch->rc)
      ch->rc = make_words(w, ch, &ch->err);
  }
  qp__words_give(&pg->words, w);
}

static void
discard(void *self, struct qp__driver_change *changes, size_t n)
{
  (void)self;
  for (size_t i = 0; i < n; i++) {
    free_prepared(changes[i].prepared);
    changes[i].prepared = NULL;
  }
}

const struct qp__driver_ahead qp__pg_ahead = { .prepare = prepare, .discard = discard };

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
  const struct prepared *p = ch->kind == QP__CHANGE_MESSAGE ? ch->prepared : NULL;

  if (p) {
    op->words.data = qp__arena_strndup(arena, p->words.data ? p->words.data : "", p->words.len);
    op->words.len = p->words.len;
    op->word_count = p->count;
  }
  if (p && !op->words.data)
    return false;
  return !ch->row || copy_row(arena, ch->row, &op->row);
}

/* ---- gathering ---- */

static const enum qp__pg_type text_types[QP__PG_TEXT_COLUMNS] = {
  QP__PG_UUID, QP__PG_UUID, QP__PG_INT8, QP__PG_INT4, QP__PG_TEXT, QP__PG_BOOL,
};

void
qp__pg_rows_init(struct qp__pg_rows *rows)
{
  memset(rows, 0, sizeof(*rows));
  for (size_t i = 0; i < QP__PG_TEXT_COLUMNS; i++)
    qp__pg_array_init(&rows->texts[i], text_types[i]);
}

void
qp__pg_rows_release(struct qp__pg_rows *rows)
{
  for (size_t i = 0; i < QP__PG_TEXT_COLUMNS; i++)
    qp__pg_array_release(&rows->texts[i]);
  qp__free(rows->list);
}

void
qp__pg_rows_add_text(struct qp__pg_rows *rows, const struct qp__pg_text *text)
{
  struct qp__pg_array *c = rows->texts;

  qp__pg_array_add(&c[0], text->context.b, 16);
  qp__pg_array_add(&c[1], text->id.b, 16);
  qp__pg_array_add_int(&c[2], text->number);
  qp__pg_array_add_int(&c[3], text->count);
  qp__pg_array_add(&c[4], text->words.data ? text->words.data : "", text->words.len);
  qp__pg_array_add_int(&c[5], text->trashed);
}

enum qp_rc
qp__pg_rows_put(struct qp__pg_rows *rows, const struct qp_uuid *context,
                const struct qp__driver_row *row, struct qp_err *err)
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
}

static void
add_grown(struct qp__pg_array *c, const struct qp__pg_row *at)
{
  qp__pg_array_add(&c[0], at->context.b, 16);
  qp__pg_array_add_int(&c[1], at->newest->row.updated_at);
  qp__pg_array_add_int(&c[2], (int64_t)at->newest->row.messages);
  qp__pg_array_add_int(&c[3], (int64_t)at->newest->row.bytes);
}

static enum qp_rc
send_arrays(struct qp__pg_link *link, enum qp__pg_statement statement, struct qp__pg_array *c,
            size_t n, int slot, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = statement };
  enum qp_rc rc = QP_OK;

  if (!c[0].count)
    return QP_OK;
  for (size_t i = 0; i < n && !rc; i++)
    rc = qp__pg_add_array(&call, &c[i], err);
  if (slot >= 0)
    qp__pg_add_int2(&call, slot);
  if (!rc)
    qp__pg_send(link, &call);
  return rc;
}

static enum qp_rc
send_rows(struct qp__pg_rows *rows, struct qp__pg_link *link, bool whole, struct qp_err *err)
{
  static const enum qp__pg_type types[2][13] = {
    { QP__PG_UUID, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8 },
    { QP__PG_UUID, QP__PG_TEXT, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8, QP__PG_INT8,
      QP__PG_INT8, QP__PG_TEXT, QP__PG_TEXT, QP__PG_TEXT, QP__PG_TEXT, QP__PG_TEXT },
  };
  struct qp__pg_array c[13];
  size_t n = whole ? 13 : 4;
  enum qp_rc rc;

  for (size_t i = 0; i < n; i++)
    qp__pg_array_init(&c[i], types[whole][i]);
  for (size_t i = 0; i < rows->count; i++)
    if ((rows->list[i].whole != NULL) == whole)
      (whole ? add_whole : add_grown)(c, &rows->list[i]);
  rc = send_arrays(link, whole ? QP__PG_ROWS_PUT : QP__PG_ROWS_GROW, c, n, -1, err);
  for (size_t i = 0; i < n; i++)
    qp__pg_array_release(&c[i]);
  return rc;
}

enum qp_rc
qp__pg_rows_send(struct qp__pg_rows *rows, struct qp__pg *pg, struct qp__pg_link *link,
                 struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (rows->count)
    rc = send_rows(rows, link, true, err);
  if (!rc && rows->count)
    rc = send_rows(rows, link, false, err);
  rows->count = 0;
  if (!rc)
    rc = send_arrays(link, QP__PG_TEXTS_ADD, rows->texts, QP__PG_TEXT_COLUMNS, qp__pg_slot(pg),
                     err);
  for (size_t i = 0; i < QP__PG_TEXT_COLUMNS; i++)
    qp__pg_array_reset(&rows->texts[i]);
  return rc;
}

/* ---- changes that are sent at once ---- */

int
qp__pg_slot(const struct qp__pg *pg)
{
  return pg->writer.b[15] % QP__PG_SLOTS;
}

void
qp__pg_rows_trash(struct qp__pg *pg, struct qp__pg_link *link, const struct qp__pg_op *op,
                  bool trashed)
{
  struct qp__pg_call call = { .statement = QP__PG_TEXT_TRASH };

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
  struct qp__pg_call row = { .statement = QP__PG_ROW_COUNT };
  enum qp_rc rc;

  qp__pg_add_uuid(&texts, context);
  rc = qp__pg_add_array(&texts, ids, err);
  if (rc)
    return rc;
  qp__pg_add_int2(&texts, qp__pg_slot(pg));
  qp__pg_send(link, &texts);
  qp__pg_add_uuid(&row, context);
  qp__pg_send(link, &row);
  return QP_OK;
}

void
qp__pg_rows_delete(struct qp__pg *pg, struct qp__pg_link *link, const struct qp_uuid *context)
{
  static const enum qp__pg_statement all[] = { QP__PG_TEXTS_DROP, QP__PG_ROW_DROP,
                                               QP__PG_UNLISTED_DROP };

  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    struct qp__pg_call call = { .statement = all[i] };

    qp__pg_add_uuid(&call, context);
    if (all[i] == QP__PG_TEXTS_DROP)
      qp__pg_add_int2(&call, qp__pg_slot(pg));
    qp__pg_send(link, &call);
  }
}

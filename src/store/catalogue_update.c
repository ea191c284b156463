/* catalogue_update.c - from contexts to rows and words. See catalogue_int.h for the rules. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/catalogue_int.h"

/* What one transaction does at most, give or take one context's row. */
#define STEP_ROWS 64
#define STEP_MESSAGES 512
#define STEP_BYTES ((size_t)1 << 20)

/* ---- digests ---- */

/* Of messages [from, to) of the tree, on top of the digest of those before them. */
static uint64_t
add_digest(uint64_t digest, const struct qp__tree *tree, uint32_t from, uint32_t to)
{
  for (uint32_t slot = from; slot < to; slot++) {
    const struct qp__entry *e = qp__tree_at(tree, slot);
    uint64_t halves[2];

    memcpy(halves, e->id.b, sizeof(halves));
    digest = (digest ^ halves[0]) * 0x9e3779b97f4a7c15u;
    digest ^= digest >> 29;
    digest = (digest ^ halves[1]) * 0xbf58476d1ce4e5b9u;
    digest ^= digest >> 32;
    digest += qp__entry_kind(e) == QP__PLACE_TRASH;
  }
  return digest;
}

/* ---- rows ---- */

/* What the database has of a context. */
struct known {
  int64_t n; /* 0: there is no row */
  uint32_t indexed;
  uint64_t digest;
};

static enum qp_rc
find_row(struct qp__catalogue *cat, const struct qp_uuid *id, struct known *out, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = false;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_ROW_FIND, &st, err);

  memset(out, 0, sizeof(*out));
  if (rc)
    return rc;
  qp__cat_bind_id(st, 1, id);
  rc = qp__cat_step(&cat->main, st, &row, err);
  if (!rc && row) {
    out->n = sqlite3_column_int64(st, 0);
    out->indexed = (uint32_t)sqlite3_column_int64(st, 1);
    out->digest = (uint64_t)sqlite3_column_int64(st, 2);
  }
  (void)sqlite3_reset(st);
  return rc;
}

static enum qp_rc
run_for(struct qp__catalogue *cat, enum qp__cat_sql sql, int64_t n, struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(&cat->main, sql, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, n);
  return qp__cat_run(&cat->main, st, err);
}

static enum qp_rc
drop_text(struct qp__catalogue *cat, int64_t n, struct qp_err *err)
{
  enum qp_rc rc = run_for(cat, QP__CAT_WORDS_DROP, n, err);

  return rc ? rc : run_for(cat, QP__CAT_TEXT_DROP, n, err);
}

static enum qp_rc
drop_row(struct qp__catalogue *cat, const struct qp_uuid *id, struct qp_err *err)
{
  struct known known;
  enum qp_rc rc = find_row(cat, id, &known, err);

  if (!rc && known.n)
    rc = drop_text(cat, known.n, err);
  if (!rc && known.n)
    rc = run_for(cat, QP__CAT_ROW_DROP, known.n, err);
  return rc;
}

/* The latest of the metadata's time and those of the heads. */
static int64_t
time_of(const struct qp_context *c, const struct qp__view *v)
{
  int64_t latest = v->meta->updated_at;

  for (size_t i = 0; i < v->meta->branch_count; i++) {
    uint32_t head = atomic_load_explicit(&v->branches[i]->head, memory_order_acquire);

    if (head != QP__NO_SLOT && qp__tree_at(&c->tree, head)->time > latest)
      latest = qp__tree_at(&c->tree, head)->time;
  }
  return latest;
}

static void
bind_context(sqlite3_stmt *st, struct qp_context *c, const struct qp__view *v, uint32_t messages)
{
  const struct qp__meta *m = v->meta;

  qp__cat_bind_text(st, 2, m->title);
  (void)sqlite3_bind_int64(st, 3, m->created_at);
  (void)sqlite3_bind_int64(st, 4, time_of(c, v));
  (void)sqlite3_bind_int64(st, 5, messages);
  (void)sqlite3_bind_int64(st, 6,
                           (int64_t)atomic_load_explicit(&c->tree.bytes, memory_order_relaxed));
  (void)sqlite3_bind_int64(st, 7, (int64_t)m->branch_count);
  qp__cat_bind_text(st, 8, json_string_value(json_object_get(m->config, "model_id")));
  qp__cat_bind_text(st, 9, json_string_value(json_object_get(m->config, "mode")));
  qp__cat_bind_text(st, 10, qp__state_name(m->state));
  qp__cat_bind_text(st, 11, qp__meta_owner(m));
  (void)sqlite3_bind_int(st, 12, c->old);
}

/* The row of a context that is open. The text of what was indexed before and is no longer so goes
 * here; what is missing is `due`. */
static enum qp_rc
put_row(struct qp__catalogue *cat, struct qp_context *c, const uint8_t stamp[16],
        struct qp_err *err)
{
  struct qp__view *v = qp__view_get(c);
  uint32_t messages = atomic_load_explicit(&c->tree.visible, memory_order_acquire);
  struct known known;
  sqlite3_stmt *st = NULL;
  enum qp_rc rc = find_row(cat, &c->id, &known, err);

  if (!rc && known.n &&
      (known.indexed > messages || known.digest != add_digest(0, &c->tree, 0, known.indexed))) {
    rc = drop_text(cat, known.n, err);
    known.indexed = 0;
    known.digest = 0;
  }
  if (!rc)
    rc = qp__cat_use(&cat->main, QP__CAT_ROW_PUT, &st, err);
  if (!rc) {
    qp__cat_bind_id(st, 1, &c->id);
    bind_context(st, c, v, messages);
    (void)sqlite3_bind_blob(st, 14, stamp, 16, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(st, 15, known.indexed);
    (void)sqlite3_bind_int64(st, 16, (int64_t)known.digest);
    (void)sqlite3_bind_int(st, 17, known.indexed != messages);
    (void)sqlite3_bind_int(st, 18, QP_OK);
    rc = qp__cat_run(&cat->main, st, err);
  }
  cat->finished += !rc && known.indexed == messages;
  qp__view_unref(v);
  return rc;
}

/* The row of a context that cannot be opened: it is there, and says why. */
static enum qp_rc
put_broken(struct qp__catalogue *cat, const struct qp_uuid *id, const struct qp_err *why,
           struct qp_err *err)
{
  sqlite3_stmt *st = NULL;
  enum qp_rc rc = drop_row(cat, id, err);

  if (!rc)
    rc = qp__cat_use(&cat->main, QP__CAT_ROW_PUT, &st, err);
  if (rc)
    return rc;
  qp__cat_bind_id(st, 1, id);
  for (int i = 3; i <= 7; i++)
    (void)sqlite3_bind_int(st, i, 0);
  (void)sqlite3_bind_int(st, 12, 0);
  qp__cat_bind_text(st, 13, why->msg);
  for (int i = 15; i <= 17; i++)
    (void)sqlite3_bind_int(st, i, 0);
  (void)sqlite3_bind_int(st, 18, why->rc);
  cat->finished++;
  return qp__cat_run(&cat->main, st, err);
}

/* Of the context's files as they are now; zeros when there is nothing to tell by. */
static void
make_stamp(struct qp_store *s, const struct qp_uuid *id, uint8_t out[16])
{
  memset(out, 0, 16);
  if (s->driver->context_stamp)
    s->driver->context_stamp(s->self, id, out);
}

static enum qp_rc
update_row(struct qp__catalogue *cat, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  struct qp_context *c = NULL;
  uint8_t stamp[16];
  bool fresh = false;
  enum qp_rc rc;

  make_stamp(cat->store, id, stamp); /* before it is read: what changes later is seen later */
  rc = qp__context_look(cat->store, id, &c, &fresh, &cause);
  if (rc == QP_NOTFOUND)
    return drop_row(cat, id, err);
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "the catalogue");
  if (rc)
    return put_broken(cat, id, &cause, err);
  rc = put_row(cat, c, stamp, err);
  qp__context_end_look(c, fresh);
  return rc;
}

/* ---- text ---- */

/* The stored bytes of a message, in *text, without a place in the pool for them; empty when there
 * are none. */
static enum qp_rc
read_message(struct qp_context *c, uint32_t slot, struct qp__buf *text, struct qp_err *err)
{
  struct qp_store *s = c->store;
  const struct qp__entry *e = qp__tree_at(&c->tree, slot);
  struct qp__blob *blob = qp__pool_get(&s->pool, c->number, slot);
  struct qp_err cause;
  enum qp_rc rc;

  qp__buf_reset(text);
  if (blob) {
    rc = qp__buf_add(text, blob->data, blob->len);
    qp__blob_unref(blob);
    return rc ? qp__buf_check(text, "a message", err) : QP_OK;
  }
  rc = s->driver->read(s->self, c->driver, &c->tree, e, text, &cause);
  if (!rc && qp__content_matches(e, qp__buf_bytes(text)))
    return QP_OK;
  qp__buf_reset(text);
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "reading a message");
  if (s->driver->salvage && s->driver->salvage(s->self, c->driver, &c->tree, e, text, NULL))
    qp__buf_reset(text);
  return QP_OK;
}

static enum qp_rc
put_text(struct qp__catalogue *cat, int64_t n, const struct qp__entry *e, struct qp_bytes text,
         struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_TEXT_PUT, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, n);
  qp__cat_bind_id(st, 2, &e->id);
  (void)sqlite3_bind_int(st, 3, e->role);
  (void)sqlite3_bind_int64(st, 4, e->time);
  (void)sqlite3_bind_text(st, 5, text.data, (int)text.len, SQLITE_STATIC);
  rc = qp__cat_run(&cat->main, st, err);
  if (!rc)
    rc = qp__cat_use(&cat->main, QP__CAT_WORDS_PUT, &st, err);
  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, sqlite3_last_insert_rowid(cat->main.handle));
  (void)sqlite3_bind_text(st, 2, text.data, (int)text.len, SQLITE_STATIC);
  return qp__cat_run(&cat->main, st, err);
}

/* What is left of a transaction. */
struct room {
  size_t rows, messages, bytes;
};

static void
use_room(size_t *room, size_t n)
{
  *room = n < *room ? *room - n : 0;
}

/* Indexes messages [*at, end) as far as there is room. */
static enum qp_rc
index_messages(struct qp__catalogue *cat, struct qp_context *c, int64_t n, uint32_t *at,
               uint32_t end, struct room *room, struct qp_err *err)
{
  struct qp__buf json;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&json, (size_t)1 << 30);
  qp__buf_init(&text, (size_t)1 << 20);
  for (; *at < end && room->messages && room->bytes && !rc; (*at)++) {
    const struct qp__entry *e = qp__tree_at(&c->tree, *at);

    use_room(&room->messages, 1);
    if (qp__entry_kind(e) == QP__PLACE_TRASH)
      continue;
    rc = read_message(c, *at, &json, err);
    qp__buf_reset(&text);
    if (!rc && json.len) /* what cannot be understood has no text */
      rc = qp__cat_message_text(qp__buf_bytes(&json), &text, err) == QP_NOMEM ? QP_NOMEM : QP_OK;
    if (!rc && text.len)
      rc = put_text(cat, n, e, qp__buf_bytes(&text), err);
    use_room(&room->bytes, json.len);
  }
  qp__buf_release(&json);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
set_indexed(struct qp__catalogue *cat, int64_t n, uint32_t indexed, uint64_t digest, bool due,
            struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_ROW_INDEXED, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, n);
  (void)sqlite3_bind_int64(st, 2, indexed);
  (void)sqlite3_bind_int64(st, 3, (int64_t)digest);
  (void)sqlite3_bind_int(st, 4, due);
  cat->finished += !due;
  return qp__cat_run(&cat->main, st, err);
}

/* A row whose text is due. */
struct due {
  int64_t n;
  struct qp_uuid id;
  uint32_t messages, indexed;
  uint64_t digest;
};

/* Goes on with a context up to the messages of its row: more may have come, but those are somebody
 * else's mark. */
static enum qp_rc
index_context(struct qp__catalogue *cat, struct qp_context *c, const struct due *due,
              struct room *room, struct qp_err *err)
{
  const struct qp__tree *tree = &c->tree;
  uint32_t visible = atomic_load_explicit(&tree->visible, memory_order_acquire);
  uint32_t at = due->indexed;
  uint64_t digest;
  enum qp_rc rc;

  digest = due->messages <= visible ? add_digest(0, tree, 0, at) : ~due->digest;
  if (digest != due->digest) /* it has changed since its row was made */
    return update_row(cat, &due->id, err);
  rc = index_messages(cat, c, due->n, &at, due->messages, room, err);
  if (!rc)
    rc = set_indexed(cat, due->n, at, add_digest(digest, tree, due->indexed, at),
                     at < due->messages, err);
  return rc;
}

/* The next row whose text is due. */
static enum qp_rc
index_next(struct qp__catalogue *cat, struct room *room, bool *found, struct qp_err *err)
{
  struct qp_context *c = NULL;
  struct due due;
  sqlite3_stmt *st;
  bool fresh = false;
  enum qp_rc rc = qp__cat_use(&cat->main, QP__CAT_ROW_DUE, &st, err);

  if (!rc)
    rc = qp__cat_step(&cat->main, st, found, err);
  if (rc || !*found)
    return rc;
  due.n = sqlite3_column_int64(st, 0);
  due.id = qp__cat_column_id(st, 1);
  due.messages = (uint32_t)sqlite3_column_int64(st, 2);
  due.indexed = (uint32_t)sqlite3_column_int64(st, 3);
  due.digest = (uint64_t)sqlite3_column_int64(st, 4);
  (void)sqlite3_reset(st);
  rc = qp__context_look(cat->store, &due.id, &c, &fresh, err);
  if (rc == QP_NOMEM)
    return rc;
  if (rc) /* deleted or damaged since then */
    return update_row(cat, &due.id, err);
  rc = index_context(cat, c, &due, room, err);
  qp__context_end_look(c, fresh);
  return rc;
}

/* ---- the pass ---- */

/* What the database says of a context. */
struct stamped {
  struct qp_uuid id;
  uint8_t stamp[16];
  bool good; /* the stamp is one, and the row that of a context that could be opened */
  bool seen; /* the context is there */
};

struct pass {
  struct qp__catalogue *cat;
  struct stamped *rows; /* by id */
  size_t count, cap;
  struct qp_err *err;
};

static enum qp_rc
add_known(struct pass *p, sqlite3_stmt *st)
{
  struct stamped *row;

  if (p->count == p->cap) {
    size_t cap = p->cap ? p->cap * 2 : 256;
    struct stamped *grown = qp__realloc(p->rows, cap * sizeof(*grown));

    if (!grown)
      return qp__fail_nomem(p->err, "the catalogue");
    p->rows = grown;
    p->cap = cap;
  }
  row = &p->rows[p->count++];
  memset(row, 0, sizeof(*row));
  row->id = qp__cat_column_id(st, 0);
  row->good = !sqlite3_column_int(st, 2) && sqlite3_column_bytes(st, 1) == (int)sizeof(row->stamp);
  if (row->good)
    memcpy(row->stamp, sqlite3_column_blob(st, 1), sizeof(row->stamp));
  return QP_OK;
}

/* All rows at once: to ask for each of them would take longer than to look at its files. */
static enum qp_rc
read_known(struct pass *p)
{
  struct qp__cat_db *db = &p->cat->main;
  sqlite3_stmt *st;
  bool row = true;
  enum qp_rc rc = qp__cat_use(db, QP__CAT_PASS_KNOWN, &st, p->err);

  if (rc)
    return rc;
  while (!rc && row) {
    rc = qp__cat_step(db, st, &row, p->err);
    if (!rc && row)
      rc = add_known(p, st);
  }
  (void)sqlite3_reset(st);
  return rc;
}

static int
compare_ids(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(struct qp_uuid));
}

_Static_assert(offsetof(struct stamped, id) == 0, "compare_ids finds the id at the beginning");

static enum qp_rc
add_differing(struct pass *p, const struct qp_uuid *id)
{
  struct qp__cat_db *db = &p->cat->main;
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(db, QP__CAT_PASS_ADD, &st, p->err);

  if (rc)
    return rc;
  qp__cat_bind_id(st, 1, id);
  return qp__cat_run(db, st, p->err);
}

/* Whether the row of a context is not that of its files. */
static bool
differs(struct pass *p, const struct qp_uuid *id)
{
  static const uint8_t none[16];
  struct stamped *row =
      p->count ? bsearch(id, p->rows, p->count, sizeof(*p->rows), compare_ids) : NULL;
  uint8_t stamp[16];

  if (!row)
    return true;
  row->seen = true;
  if (!row->good)
    return true;
  make_stamp(p->cat->store, id, stamp);
  return memcmp(stamp, none, sizeof(none)) == 0 || memcmp(stamp, row->stamp, sizeof(stamp)) != 0;
}

static enum qp_rc
list_context(void *arg, const struct qp_uuid *id)
{
  struct pass *p = arg;

  p->cat->listed++;
  if (differs(p, id))
    return add_differing(p, id);
  p->cat->finished++;
  return QP_OK;
}

/* The id that a statement finds, if any. */
static enum qp_rc
next_id(struct qp__catalogue *cat, enum qp__cat_sql sql, struct qp_uuid *id, bool *found,
        struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(&cat->main, sql, &st, err);

  if (!rc)
    rc = qp__cat_step(&cat->main, st, found, err);
  if (!rc && *found) {
    *id = qp__cat_column_id(st, 0);
    (void)sqlite3_reset(st);
  }
  return rc;
}

enum qp_rc
qp__cat_start_pass(struct qp__catalogue *cat, struct qp_err *err)
{
  struct qp_store *s = cat->store;
  struct pass pass = { .cat = cat, .err = err };
  enum qp_rc rc = qp__cat_do(&cat->main, QP__CAT_PASS_CLEAR, err);

  cat->passing = false;
  cat->listed = 0;
  cat->finished = 0;
  if (!rc)
    rc = read_known(&pass);
  if (!rc)
    rc = s->driver->context_list(s->self, list_context, &pass, err);
  for (size_t i = 0; i < pass.count && !rc; i++)
    if (!pass.rows[i].seen) /* it is gone */
      rc = add_differing(&pass, &pass.rows[i].id);
  qp__free(pass.rows);
  if (rc)
    return rc;
  cat->passing = true;
  cat->needs_pass = false;
  return QP_OK;
}

/* One row of the pass. *found: there was something to do. */
static enum qp_rc
pass_next(struct qp__catalogue *cat, bool *found, struct qp_err *err)
{
  struct qp_uuid id;
  sqlite3_stmt *st;
  enum qp_rc rc = next_id(cat, QP__CAT_PASS_NEXT, &id, found, err);

  if (!rc && !*found)
    cat->passing = false;
  if (rc || !*found)
    return rc;
  rc = update_row(cat, &id, err);
  if (!rc)
    rc = qp__cat_use(&cat->main, QP__CAT_PASS_DONE, &st, err);
  if (rc)
    return rc;
  qp__cat_bind_id(st, 1, &id);
  return qp__cat_run(&cat->main, st, err);
}

/* ---- steps ---- */

static enum qp_rc
do_step(struct qp__catalogue *cat, bool text, size_t *done, bool *more, struct qp_err *err)
{
  struct room room = { STEP_ROWS, STEP_MESSAGES, STEP_BYTES };
  enum qp_rc rc = QP_OK;
  bool found;

  for (; *done < cat->taken_count && room.rows && !rc; room.rows--) {
    rc = update_row(cat, &cat->taken[cat->taken_count - 1 - *done], err);
    *done += !rc;
  }
  for (; cat->passing && room.rows && !rc; room.rows--)
    rc = pass_next(cat, &found, err);
  if (rc || !room.rows) {
    *more = true;
    return rc;
  }
  *more = false;
  if (!text)
    return QP_OK;
  found = true;
  while (found && room.rows && room.messages && room.bytes && !rc) {
    rc = index_next(cat, &room, &found, err);
    use_room(&room.rows, 1);
  }
  *more = found;
  return rc;
}

/* A database that is only read will do when there is nothing to do, and else becomes a copy. */
static enum qp_rc
copy_if_needed(struct qp__catalogue *cat, bool text, bool *more, struct qp_err *err)
{
  struct qp_uuid id;
  sqlite3_stmt *st;
  enum qp_rc rc = next_id(cat, QP__CAT_PASS_NEXT, &id, more, err);

  if (!rc && !*more && text) {
    rc = qp__cat_use(&cat->main, QP__CAT_ROW_DUE, &st, err);
    if (!rc)
      rc = qp__cat_step(&cat->main, st, more, err);
    if (!rc)
      (void)sqlite3_reset(st);
  }
  cat->passing = false;
  if (!rc && *more)
    rc = qp__cat_copy(cat, err);
  if (!rc && *more)
    rc = qp__cat_start_pass(cat, err);
  return rc;
}

enum qp_rc
qp__cat_work(struct qp__catalogue *cat, bool text, bool *more, struct qp_err *err)
{
  bool was_passing = cat->passing;
  size_t done = 0;
  enum qp_rc rc;

  *more = false;
  if (cat->only_read)
    return copy_if_needed(cat, text, more, err);
  rc = qp__cat_do(&cat->main, QP__CAT_BEGIN, err);
  if (rc)
    return rc;
  rc = do_step(cat, text, &done, more, err);
  if (!rc)
    rc = qp__cat_do(&cat->main, QP__CAT_COMMIT, err);
  if (rc) {
    (void)qp__cat_do(&cat->main, QP__CAT_ROLLBACK, NULL);
    cat->passing = was_passing;
    return rc;
  }
  cat->taken_count -= done;
  return QP_OK;
}

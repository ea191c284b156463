/* catalogue_update.c - updates the rows and words of contexts. See catalogue_int.h for the
 * rules. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/uuid.h"
#include "base/vec.h"
#include "model/message.h"
#include "store/catalogue/catalogue_int.h"

/* The limits of one transaction; the row of one context may exceed them. */
#define STEP_ROWS 64
#define STEP_MESSAGES 512
#define STEP_BYTES ((size_t)1 << 20)

/* ---- digests ---- */

/* The digest of messages [from, to) of the tree, continuing the digest of those before them. */
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

/* What a database has about a context. */
struct known {
  int64_t n; /* 0: there is no row */
  uint32_t indexed;
  uint64_t digest;
  bool good; /* it has a stamp, and the row is that of a context that could be opened */
  uint8_t stamp[16];
};

static enum qp_rc
find_row(struct qp__cat_db *db, const struct qp_uuid *id, struct known *out, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = false;
  enum qp_rc rc = qp__cat_use(db, QP__CAT_ROW_FIND, &st, err);

  memset(out, 0, sizeof(*out));
  if (rc)
    return rc;
  qp__cat_bind_id(st, 1, id);
  rc = qp__cat_step(db, st, &row, err);
  if (!rc && row) {
    out->n = sqlite3_column_int64(st, 0);
    out->indexed = (uint32_t)sqlite3_column_int64(st, 1);
    out->digest = (uint64_t)sqlite3_column_int64(st, 2);
    out->good = sqlite3_column_int(st, 4) && sqlite3_column_bytes(st, 3) == (int)sizeof(out->stamp);
    if (out->good)
      memcpy(out->stamp, sqlite3_column_blob(st, 3), sizeof(out->stamp));
  }
  (void)sqlite3_reset(st);
  return rc;
}

/* The stamp of the current files of a context; zeros if there is none. */
static void
make_stamp(struct qp_store *s, const struct qp_uuid *id, uint8_t out[16])
{
  (void)s->driver->context_peek(s->self, id, NULL, out, NULL);
}

/* A context without a row is not checked: a new catalogue has none. */
enum qp_rc
qp__cat_differs(struct qp__catalogue *cat, const struct qp_uuid *id, bool *out, struct qp_err *err)
{
  static const uint8_t none[16];
  bool in_main = cat->main.handle && (cat->into == &cat->main || !qp__idset_has(&cat->hidden, id));
  struct known known;
  uint8_t stamp[16];
  enum qp_rc rc = find_row(in_main ? &cat->main : &cat->over, id, &known, err);

  *out = true;
  if (rc || !known.good)
    return rc;
  make_stamp(cat->store, id, stamp);
  *out = memcmp(stamp, none, sizeof(none)) == 0 ||
         memcmp(stamp, known.stamp, sizeof(known.stamp)) != 0;
  return QP_OK;
}

static enum qp_rc
run_for(struct qp__catalogue *cat, enum qp__cat_sql sql, int64_t n, struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(cat->into, sql, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, n);
  return qp__cat_run(cat->into, st, err);
}

/* The only function that removes the text and the usage of a context. */
static enum qp_rc
drop_text(struct qp__catalogue *cat, int64_t n, struct qp_err *err)
{
  enum qp_rc rc = run_for(cat, QP__CAT_WORDS_DROP, n, err);

  if (!rc)
    rc = run_for(cat, QP__CAT_USAGE_DROP, n, err);
  if (!rc)
    rc = run_for(cat, QP__CAT_TEXT_DROP, n, err);
  if (!rc)
    cat->dropped += (size_t)sqlite3_changes(cat->into->handle);
  return rc;
}

static enum qp_rc
drop_row(struct qp__catalogue *cat, const struct qp_uuid *id, struct qp_err *err)
{
  struct known known;
  enum qp_rc rc = find_row(cat->into, id, &known, err);

  if (!rc && known.n)
    rc = drop_text(cat, known.n, err);
  if (!rc && known.n)
    rc = run_for(cat, QP__CAT_ROW_DROP, known.n, err);
  return rc;
}

static void
bind_context(sqlite3_stmt *st, struct qp_context *c, const struct qp__view *v, uint32_t messages)
{
  struct qp__driver_row own;
  const struct qp_catalogue_row *r = &own.row;

  qp__driver_row_init(&own, v->meta, v->meta_bytes);
  qp__cat_bind_text(st, 2, r->title);
  (void)sqlite3_bind_int64(st, 3, r->created_at);
  (void)sqlite3_bind_int64(st, 4, qp__view_time(v, &c->tree));
  (void)sqlite3_bind_int64(st, 5, messages);
  (void)sqlite3_bind_int64(st, 6,
                           (int64_t)atomic_load_explicit(&c->tree.bytes, memory_order_relaxed));
  (void)sqlite3_bind_int64(st, 7, (int64_t)r->branches);
  qp__cat_bind_text(st, 8, r->model_id);
  qp__cat_bind_text(st, 9, r->mode);
  qp__cat_bind_text(st, 10, qp_state_name(r->state));
  qp__cat_bind_text(st, 11, r->owner);
  (void)sqlite3_bind_int(st, 12, c->old);
  (void)sqlite3_bind_int64(st, 19, (int64_t)own.meta_bytes);
  qp__cat_bind_text(st, 20, r->summary);
}

/* Whether all staged commits of a context are published. A commit is applied to the files first, so
 * a stamp taken between the two belongs to a later row. */
static bool
is_published(struct qp_context *c, const struct qp__view *v, uint32_t messages)
{
  bool published;

  qp__mutex_lock(&c->write_lock);
  published = c->staged_view == v && c->tree.count == messages;
  for (size_t i = 0; i < v->meta->branch_count && published; i++)
    published = v->branches[i]->staged_head == atomic_load(&v->branches[i]->head);
  qp__mutex_unlock(&c->write_lock);
  return published;
}

/* Writes the row of an open context. Removes text that was indexed and is no longer valid; `due` is
 * what is missing. */
static enum qp_rc
put_row(struct qp__catalogue *cat, struct qp_context *c, const uint8_t stamp[16],
        struct qp_err *err)
{
  struct qp__view *v = qp__view_get(c);
  uint32_t messages = atomic_load_explicit(&c->tree.visible, memory_order_acquire);
  struct known known;
  sqlite3_stmt *st = NULL;
  enum qp_rc rc = find_row(cat->into, &c->id, &known, err);

  if (!rc && known.n &&
      (known.indexed > messages || known.digest != add_digest(0, &c->tree, 0, known.indexed))) {
    rc = drop_text(cat, known.n, err);
    known.indexed = 0;
    known.digest = 0;
  }
  if (!rc)
    rc = qp__cat_use(cat->into, QP__CAT_ROW_PUT, &st, err);
  if (!rc) {
    qp__cat_bind_id(st, 1, &c->id);
    bind_context(st, c, v, messages);
    if (is_published(c, v, messages))
      (void)sqlite3_bind_blob(st, 14, stamp, 16, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(st, 15, known.indexed);
    (void)sqlite3_bind_int64(st, 16, (int64_t)known.digest);
    (void)sqlite3_bind_int(st, 17, known.indexed != messages);
    (void)sqlite3_bind_int(st, 18, QP_OK);
    rc = qp__cat_bind_sizes(st, c, v, err);
  }
  if (!rc)
    rc = qp__cat_run(cat->into, st, err);
  cat->finished += !rc && known.indexed == messages;
  qp__view_unref(v);
  return rc;
}

/* The row of a context that cannot be opened; it contains the error. */
static enum qp_rc
put_broken(struct qp__catalogue *cat, const struct qp_uuid *id, const struct qp_err *why,
           struct qp_err *err)
{
  sqlite3_stmt *st = NULL;
  enum qp_rc rc = drop_row(cat, id, err);

  if (!rc)
    rc = qp__cat_use(cat->into, QP__CAT_ROW_PUT, &st, err);
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
  (void)sqlite3_bind_int(st, 19, 0);
  cat->finished++;
  return qp__cat_run(cat->into, st, err);
}

static enum qp_rc
update_row(struct qp__catalogue *cat, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  struct qp_context *c = NULL;
  uint8_t stamp[16];
  bool fresh = false;
  enum qp_rc rc;

  make_stamp(cat->store, id, stamp); /* before it is read: later changes are found later */
  if (cat->into == &cat->over && cat->main.handle && !qp__idset_add(&cat->hidden, id))
    return qp__fail_nomem(err, "the catalogue");
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

/* Reads the stored bytes of a message to *text, without caching them in the pool; empty if there
 * are none. */
static enum qp_rc
read_message(struct qp_context *c, uint32_t slot, struct qp__buf *text, struct qp_err *err)
{
  struct qp_store *s = c->store;
  const struct qp__entry *e = qp__tree_at(&c->tree, slot);
  struct qp__blob *blob = qp__pool_get(&s->pool, c->number, slot);
  struct qp_err cause;
  bool copy;
  enum qp_rc rc;

  qp__buf_reset(text);
  if (blob) {
    rc = qp__buf_add(text, blob->data, blob->len);
    qp__blob_unref(blob);
    return rc ? qp__buf_check(text, "a message", err) : QP_OK;
  }
  rc = qp__stored_read(s, c->driver, &c->tree, e, text, &copy, &cause);
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "reading a message");
  if (rc)
    qp__buf_reset(text);
  return QP_OK;
}

static enum qp_rc
put_text(struct qp__catalogue *cat, int64_t n, const struct qp__entry *e, struct qp_bytes text,
         struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc = qp__cat_use(cat->into, QP__CAT_TEXT_PUT, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, n);
  qp__cat_bind_id(st, 2, &e->id);
  (void)sqlite3_bind_int(st, 3, e->role);
  (void)sqlite3_bind_int64(st, 4, e->time);
  (void)sqlite3_bind_text(st, 5, text.data, (int)text.len, SQLITE_STATIC);
  rc = qp__cat_run(cat->into, st, err);
  if (!rc)
    rc = qp__cat_use(cat->into, QP__CAT_WORDS_PUT, &st, err);
  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, sqlite3_last_insert_rowid(cat->into->handle));
  (void)sqlite3_bind_text(st, 2, text.data, (int)text.len, SQLITE_STATIC);
  return qp__cat_run(cat->into, st, err);
}

/* What is left of the limits of a transaction. */
struct room {
  size_t rows, messages, bytes;
};

static void
use_room(size_t *room, size_t n)
{
  *room = n < *room ? *room - n : 0;
}

/* Adds the words and the usage of a message. Of a message in the trash only the usage: it cannot be
 * found, but it was paid for. */
static enum qp_rc
index_message(struct qp__catalogue *cat, int64_t n, const struct qp__entry *e, struct qp_bytes json,
              struct qp__buf *text, struct qp_err *err)
{
  struct qp_message *m = NULL;
  enum qp_rc rc = qp__message_decode("a message", json, &m, err);

  if (rc) /* a message that cannot be parsed has no text */
    return rc == QP_NOMEM ? rc : QP_OK;
  qp__buf_reset(text);
  rc = qp__cat_put_usage(cat->into, n, m, e, err);
  if (!rc && qp__entry_kind(e) != QP__PLACE_TRASH)
    rc = qp__cat_message_text(m, text, err);
  if (!rc && text->len)
    rc = put_text(cat, n, e, qp__buf_bytes(text), err);
  qp_message_free(m);
  return rc;
}

/* Indexes messages [*at, end) up to the limits. */
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
    if (qp__entry_kind(e) == QP__PLACE_TRASH && e->role != QP_ROLE_ASSISTANT)
      continue;
    rc = read_message(c, *at, &json, err);
    if (!rc && json.len)
      rc = index_message(cat, n, e, qp__buf_bytes(&json), &text, err);
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
  enum qp_rc rc = qp__cat_use(cat->into, QP__CAT_ROW_INDEXED, &st, err);

  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, n);
  (void)sqlite3_bind_int64(st, 2, indexed);
  (void)sqlite3_bind_int64(st, 3, (int64_t)digest);
  (void)sqlite3_bind_int(st, 4, due);
  cat->finished += !due;
  return qp__cat_run(cat->into, st, err);
}

/* A row whose text must be indexed. */
struct due {
  int64_t n;
  struct qp_uuid id;
  uint32_t messages, indexed;
  uint64_t digest;
};

/* Continues with a context up to the messages of its row: later messages have set another mark. */
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
  if (digest != due->digest) /* it has changed since its row was written */
    return update_row(cat, &due->id, err);
  rc = index_messages(cat, c, due->n, &at, due->messages, room, err);
  return rc ? rc
            : set_indexed(cat, due->n, at, add_digest(digest, tree, due->indexed, at),
                          at < due->messages, err);
}

/* Handles the next row whose text must be indexed. */
static enum qp_rc
index_next(struct qp__catalogue *cat, struct room *room, bool *found, struct qp_err *err)
{
  struct qp_context *c = NULL;
  struct due due;
  sqlite3_stmt *st;
  bool fresh = false;
  enum qp_rc rc = qp__cat_use(cat->into, QP__CAT_ROW_DUE, &st, err);

  if (!rc)
    rc = qp__cat_step(cat->into, st, found, err);
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
  if (rc) /* deleted or damaged in the meantime */
    return update_row(cat, &due.id, err);
  rc = index_context(cat, c, &due, room, err);
  qp__context_end_look(c, fresh);
  return rc;
}

/* ---- contexts to look at ---- */

enum qp_rc
qp__cat_take(struct qp__catalogue *cat, const struct qp_uuid *id, struct qp_err *err)
{
  return qp__vec_push(cat->taken, cat->taken_count, cat->taken_cap, *id)
             ? QP_OK
             : qp__fail_nomem(err, "the catalogue");
}

enum qp_rc
qp__cat_take_found(struct qp__catalogue *cat, struct qp__cat_db *db, enum qp__cat_sql sql,
                   struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = true;
  enum qp_rc rc = qp__cat_use(db, sql, &st, err);

  while (row && !rc) {
    rc = qp__cat_step(db, st, &row, err);
    if (!rc && row) {
      struct qp_uuid id = qp__cat_column_id(st, 0);

      rc = qp__cat_take(cat, &id, err);
    }
  }
  if (st)
    (void)sqlite3_reset(st);
  return rc;
}

/* ---- comparing all ---- */

#define CHUNK 256        /* contexts per step of a comparison */
#define CHUNK_PAUSE_MS 4 /* pause between two steps in the background */

/* Lets other threads use the database for a moment. False: it was replaced. */
static bool
give_way(struct qp__catalogue *cat)
{
  struct timespec until;
  uint64_t generation;
  bool same;

  (void)timespec_get(&until, TIME_UTC);
  until.tv_nsec += CHUNK_PAUSE_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  qp__mutex_lock(&cat->lock);
  generation = cat->generation;
  qp__mutex_unlock(&cat->db_lock);
  if (!cat->stopping)
    (void)qp__mutex_timedwait(&cat->lock, &cat->wake, &until);
  qp__mutex_unlock(&cat->lock);
  qp__mutex_lock(&cat->db_lock);
  qp__mutex_lock(&cat->lock);
  same = cat->opened && !cat->stopping && cat->generation == generation;
  qp__mutex_unlock(&cat->lock);
  return same;
}

static enum qp_rc
compare_stamps(struct qp__catalogue *cat, const struct qp__ids *ids, bool at_once, bool *ended,
               struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < ids->count && !rc && !*ended; i++) {
    bool differs = false;

    if (!at_once && i % CHUNK == CHUNK - 1 && !give_way(cat)) {
      *ended = true;
      break;
    }
    rc = qp__cat_differs(cat, &ids->at[i], &differs, err);
    if (!rc && differs)
      rc = qp__cat_take(cat, &ids->at[i], err);
    cat->finished += !differs;
  }
  return rc;
}

/* Takes the rows without a context. */
static enum qp_rc
compare_rows(struct qp__catalogue *cat, struct qp__cat_db *db, const struct qp__ids *ids,
             bool at_once, bool *ended, struct qp_err *err)
{
  int64_t last = 0;
  bool any = true;
  enum qp_rc rc = QP_OK;

  while (any && !rc && !*ended) {
    sqlite3_stmt *st;
    bool row = true;

    any = false;
    rc = qp__cat_use(db, QP__CAT_ROW_AFTER, &st, err);
    if (!rc)
      (void)sqlite3_bind_int64(st, 1, last);
    while (!rc && row) {
      rc = qp__cat_step(db, st, &row, err);
      if (!rc && row) {
        struct qp_uuid id = qp__cat_column_id(st, 1);

        any = true;
        last = sqlite3_column_int64(st, 0);
        if (!ids->count || !bsearch(&id, ids->at, ids->count, sizeof(id), qp__uuid_compare))
          rc = qp__cat_take(cat, &id, err);
      }
    }
    if (st)
      (void)sqlite3_reset(st);
    *ended = !at_once && any && !rc && !give_way(cat);
  }
  return rc;
}

enum qp_rc
qp__cat_compare(struct qp__catalogue *cat, bool at_once, struct qp_err *err)
{
  struct qp_store *s = cat->store;
  struct qp__ids ids = { NULL, 0, 0 };
  bool ended = false;
  enum qp_rc rc;

  if (!at_once)
    qp__mutex_unlock(&cat->db_lock);
  rc = qp_context_list(s, qp__ids_add, &ids, err);
  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "the catalogue");
  if (ids.count)
    qsort(ids.at, ids.count, sizeof(*ids.at), qp__uuid_compare);
  if (!at_once) {
    qp__mutex_lock(&cat->db_lock);
    ended = !cat->opened;
  }
  cat->listed = ids.count;
  cat->finished = 0;
  if (!rc && !ended)
    rc = compare_stamps(cat, &ids, at_once, &ended, err);
  if (!rc && !ended && cat->main.handle)
    rc = compare_rows(cat, &cat->main, &ids, at_once, &ended, err);
  if (!rc && !ended && cat->over.handle)
    rc = compare_rows(cat, &cat->over, &ids, at_once, &ended, err);
  qp__free(ids.at);
  return rc;
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

/* Stores the times of the directories before the step, if it wrote rows to the file. */
static enum qp_rc
keep_dirs(struct qp__catalogue *cat, const struct qp__cat_dirs *dirs, struct qp_err *err)
{
  sqlite3_stmt *st;
  enum qp_rc rc;

  if (cat->into != &cat->main || memcmp(dirs, &cat->dirs, sizeof(*dirs)) == 0)
    return QP_OK;
  rc = qp__cat_use(&cat->main, QP__CAT_STATE_DIRS, &st, err);
  if (rc)
    return rc;
  (void)sqlite3_bind_blob(st, 1, dirs, sizeof(*dirs), SQLITE_TRANSIENT);
  rc = qp__cat_run(&cat->main, st, err);
  cat->dirs = *dirs;
  return rc;
}

#define MERGE_AFTER 1024 /* removed messages */

/* Deleted rows return their space, a little at a time. The index of words keeps removed text until
 * its parts are merged; a merge that changes nothing is complete. */
static enum qp_rc
tidy(struct qp__catalogue *cat, struct qp_err *err)
{
  bool begins = cat->dropped >= MERGE_AFTER;
  enum qp_rc rc = QP_OK;

  if (begins || cat->merging) {
    int before = sqlite3_total_changes(cat->into->handle);

    rc = qp__cat_do(cat->into, begins ? QP__CAT_WORDS_MERGE_ALL : QP__CAT_WORDS_MERGE, err);
    cat->merging = begins || sqlite3_total_changes(cat->into->handle) - before > 1;
    cat->dropped = 0;
  }
  return rc ? rc : qp__cat_do(cat->into, QP__CAT_VACUUM, err);
}

/* Stores how much was removed, also for the next process: many small removals count like a large
 * one. An incomplete merge starts again there. */
static enum qp_rc
keep_dropped(struct qp__catalogue *cat, size_t *kept, struct qp_err *err)
{
  size_t dropped = cat->merging ? MERGE_AFTER : cat->dropped;
  sqlite3_stmt *st;
  enum qp_rc rc;

  if (cat->into != &cat->main || dropped == cat->dropped_kept)
    return QP_OK;
  rc = qp__cat_use(&cat->main, QP__CAT_STATE_DROPPED, &st, err);
  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, (int64_t)dropped);
  *kept = dropped;
  return qp__cat_run(&cat->main, st, err);
}

enum qp_rc
qp__cat_work(struct qp__catalogue *cat, bool text, bool *more, struct qp_err *err)
{
  struct qp__cat_dirs dirs = qp__cat_look_at_dirs(cat);
  struct qp__cat_dirs before = cat->dirs;
  size_t kept = cat->dropped_kept;
  size_t done = 0;
  enum qp_rc rc;

  *more = false;
  rc = qp__cat_do(cat->into, QP__CAT_BEGIN, err);
  if (rc)
    return rc;
  rc = do_step(cat, text, &done, more, err);
  if (!rc && !*more)
    rc = keep_dirs(cat, &dirs, err);
  if (!rc && text && !*more)
    rc = tidy(cat, err);
  if (!rc)
    rc = keep_dropped(cat, &kept, err);
  if (!rc)
    rc = qp__cat_do(cat->into, QP__CAT_COMMIT, err);
  if (rc) {
    (void)qp__cat_do(cat->into, QP__CAT_ROLLBACK, NULL);
    cat->dirs = before;
    return rc;
  }
  cat->taken_count -= done;
  cat->dropped_kept = kept;
  return QP_OK;
}

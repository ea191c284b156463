/* catalogue_query.c - lists and searches. A page is read as a whole into an arena, and visited
 * after all locks are released. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/sized.h"
#include "base/str.h"
#include "store/catalogue/catalogue_int.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 1000
#define KEPT_LIMIT 200 /* maximum number of rows of a cached page */

uint32_t
qp__cat_limit(uint32_t limit)
{
  return !limit ? LIMIT_DEFAULT : limit > LIMIT_MAX ? LIMIT_MAX : limit;
}

/* The text of a column in the arena; NULL for null. *bad: out of memory. */
static const char *
keep_text(struct qp__arena *arena, sqlite3_stmt *st, int at, bool *bad)
{
  const char *text = (const char *)sqlite3_column_text(st, at);
  char *copy;

  if (!text) {
    *bad |= sqlite3_column_type(st, at) != SQLITE_NULL;
    return NULL;
  }
  copy = qp__arena_strdup(arena, text);
  *bad |= !copy;
  return copy;
}

enum qp_rc
qp__cat_bad_cursor(struct qp_err *err)
{
  return qp__fail(err, QP_INVALID, "the cursor is invalid: use a cursor that quipu returned");
}

enum qp_rc
qp__cat_give_cursor(const char *text, bool more, char **out, struct qp_err *err)
{
  char *copy = NULL;

  if (!out)
    return QP_OK;
  if (more) {
    copy = qp__strdup(text);
    if (!copy)
      return qp__fail_nomem(err, "a cursor");
  }
  *out = copy;
  return QP_OK;
}

/* ---- lists ---- */

/* Filled by one thread; afterwards only `refs` changes. */
struct qp__cat_page {
  unsigned refs; /* guarded by the lock of the catalogue */
  uint64_t version;
  const char *owner, *cursor; /* of the query, or NULL; in the arena */
  struct qp__arena arena;
  struct qp_catalogue_row *rows;
  size_t count;
  uint32_t limit;
  bool more;
};

static bool
same_text(const char *a, const char *b)
{
  return a == b || (a && b && strcmp(a, b) == 0);
}

static void
free_page(struct qp__cat_page *page)
{
  if (!page)
    return;
  qp__arena_release(&page->arena);
  qp__free(page->rows);
  qp__free(page);
}

static struct qp__cat_page *
new_page(const struct qp_catalogue_query *q)
{
  struct qp__cat_page *page = qp__alloc0(1, sizeof(*page));

  if (!page)
    return NULL;
  page->refs = 1;
  page->limit = qp__cat_limit(q->limit);
  page->owner = q->owner ? qp__arena_strdup(&page->arena, q->owner) : NULL;
  page->cursor = q->cursor ? qp__arena_strdup(&page->arena, q->cursor) : NULL;
  page->rows = qp__alloc0(page->limit, sizeof(*page->rows));
  if (page->rows && !page->owner == !q->owner && !page->cursor == !q->cursor)
    return page;
  free_page(page);
  return NULL;
}

/* ---- pages that are kept ---- */

/* A valid cached page with a reference, or NULL. *version is the current version, 0 if the page
 * must not be cached. */
static struct qp__cat_page *
find_page(struct qp__catalogue *cat, const struct qp_catalogue_query *q, uint64_t *version)
{
  struct qp__cat_page *found = NULL;

  qp__mutex_lock(&cat->lock);
  cat->following = true; /* like any other list */
  *version = cat->broken || cat->store->readonly ? 0 : cat->version;
  for (size_t i = 0; i < QP__CAT_PAGES && !found && *version; i++) {
    struct qp__cat_page *page = cat->pages[i];

    if (page && page->version == *version && page->limit == qp__cat_limit(q->limit) &&
        same_text(page->owner, q->owner) && same_text(page->cursor, q->cursor))
      found = page;
  }
  if (found)
    found->refs++;
  qp__mutex_unlock(&cat->lock);
  return found;
}

static void
put_page(struct qp__catalogue *cat, struct qp__cat_page *page)
{
  bool last;

  qp__mutex_lock(&cat->lock);
  last = --page->refs == 0;
  qp__mutex_unlock(&cat->lock);
  if (last)
    free_page(page);
}

/* Caches a page that was read at this version, unless the version has changed. */
static void
keep_page(struct qp__catalogue *cat, struct qp__cat_page *page, uint64_t version)
{
  struct qp__cat_page *old = NULL;

  if (!version || page->limit > KEPT_LIMIT)
    return;
  qp__mutex_lock(&cat->lock);
  if (cat->version == version && !cat->broken) {
    struct qp__cat_page **place = &cat->pages[cat->next_page++ % QP__CAT_PAGES];

    page->version = version;
    page->refs++;
    old = *place;
    *place = page;
  }
  qp__mutex_unlock(&cat->lock);
  if (old)
    put_page(cat, old);
}

void
qp__cat_forget_pages(struct qp__catalogue *cat)
{
  for (size_t i = 0; i < QP__CAT_PAGES; i++) {
    if (cat->pages[i])
      put_page(cat, cat->pages[i]);
    cat->pages[i] = NULL;
  }
}

/* ---- reading lists ---- */

void
qp__cat_write_list_cursor(const struct qp_catalogue_row *last, char out[QP__CAT_CURSOR])
{
  char id[QP_UUID_TEXT];

  (void)snprintf(out, QP__CAT_CURSOR, "%" PRId64 ".%s", last->updated_at,
                 qp_uuid_text(&last->id, id));
}

enum qp_rc
qp__cat_parse_list_cursor(const char *cursor, int64_t *updated, struct qp_uuid *id,
                          struct qp_err *err)
{
  char *end = NULL;

  errno = 0;
  *updated = strtoll(cursor, &end, 10);
  if (errno || end == cursor || *end != '.' || qp_uuid_parse(end + 1, id, NULL))
    return qp__cat_bad_cursor(err);
  return QP_OK;
}

static bool
keep_row(struct qp__cat_page *page, sqlite3_stmt *st)
{
  struct qp_catalogue_row *r = &page->rows[page->count++];
  const char *state;
  bool bad = false;

  r->id = qp__cat_column_id(st, 0);
  r->title = keep_text(&page->arena, st, 1, &bad);
  r->created_at = sqlite3_column_int64(st, 2);
  r->updated_at = sqlite3_column_int64(st, 3);
  r->messages = (uint64_t)sqlite3_column_int64(st, 4);
  r->bytes = (uint64_t)sqlite3_column_int64(st, 5);
  r->branches = (uint64_t)sqlite3_column_int64(st, 6);
  r->model_id = keep_text(&page->arena, st, 7, &bad);
  r->mode = keep_text(&page->arena, st, 8, &bad);
  state = (const char *)sqlite3_column_text(st, 9);
  bad |= state && !qp_state_find(state, &r->state);
  r->owner = keep_text(&page->arena, st, 10, &bad);
  r->summary = keep_text(&page->arena, st, 11, &bad);
  r->needs_migration = sqlite3_column_int(st, 12) != 0;
  r->error = keep_text(&page->arena, st, 13, &bad);
  r->rc = (enum qp_rc)sqlite3_column_int(st, 14);
  return !bad;
}

/* A statement of a list, and its current row. */
struct source {
  struct qp__cat_db *db;
  sqlite3_stmt *st;
  bool row;
};

static enum qp_rc
open_source(struct source *s, struct qp__cat_db *db, const struct qp_catalogue_query *q,
            struct qp_err *err)
{
  enum qp__cat_sql sql = q->owner ? QP__CAT_LIST_OWNER : QP__CAT_LIST;
  struct qp_uuid id = { { 0 } };
  int64_t updated = 0;
  enum qp_rc rc = QP_OK;

  s->db = db;
  if (q->cursor) {
    sql = q->owner ? QP__CAT_LIST_OWNER_AFTER : QP__CAT_LIST_AFTER;
    rc = qp__cat_parse_list_cursor(q->cursor, &updated, &id, err);
  }
  if (!rc)
    rc = qp__cat_use(db, sql, &s->st, err);
  if (rc)
    return rc;
  if (q->cursor) {
    (void)sqlite3_bind_int64(s->st, 1, updated);
    qp__cat_bind_id(s->st, 2, &id);
  }
  if (q->owner)
    qp__cat_bind_text(s->st, 3, q->owner);
  return qp__cat_step(db, s->st, &s->row, err);
}

/* Whether the row of a is before that of b: most recently changed first. */
static bool
comes_first(const struct source *a, const struct source *b)
{
  int64_t x, y;
  struct qp_uuid i, j;

  if (!a->row || !b->row)
    return a->row;
  x = sqlite3_column_int64(a->st, 3);
  y = sqlite3_column_int64(b->st, 3);
  if (x != y)
    return x > y;
  i = qp__cat_column_id(a->st, 0);
  j = qp__cat_column_id(b->st, 0);
  return memcmp(i.b, j.b, sizeof(i.b)) > 0;
}

/* From one or two databases; either may be closed. */
static enum qp_rc
read_rows(struct qp__cat_db *main, struct qp__cat_db *over, const struct qp_catalogue_query *q,
          struct qp__cat_page *page, struct qp_err *err)
{
  struct source sources[2] = { { NULL, NULL, false }, { NULL, NULL, false } };
  enum qp_rc rc = QP_OK;

  if (main->handle)
    rc = open_source(&sources[0], main, q, err);
  if (!rc && over->handle)
    rc = open_source(&sources[1], over, q, err);
  while (!rc && (sources[0].row || sources[1].row)) {
    struct source *s = &sources[comes_first(&sources[1], &sources[0])];

    page->more = page->count == page->limit;
    if (page->more)
      break;
    rc = keep_row(page, s->st) ? qp__cat_step(s->db, s->st, &s->row, err)
                               : qp__fail_nomem(err, "a list");
  }
  for (size_t i = 0; i < 2; i++)
    if (sources[i].st)
      (void)sqlite3_reset(sources[i].st);
  return rc;
}

static enum qp_rc
read_list(struct qp__catalogue *cat, const struct qp_catalogue_query *q, struct qp__cat_page *page,
          struct qp_err *err)
{
  struct qp__cat_db none = { .handle = NULL };
  struct qp__cat_reader *reader = NULL;
  enum qp_rc rc = qp__cat_begin_reading(cat, false, q->cursor != NULL, &reader, err);

  if (rc)
    return rc;
  page->count = 0;
  rc = read_rows(reader ? &reader->db : &cat->main, reader ? &none : &cat->over, q, page, err);
  qp__cat_end_reading(cat, reader);
  return rc;
}

/* The page of a query, with a reference: a cached page or a new one. */
static enum qp_rc
get_page(struct qp__catalogue *cat, const struct qp_catalogue_query *q, struct qp__cat_page **out,
         struct qp_err *err)
{
  uint64_t version = 0;
  struct qp__cat_page *page = find_page(cat, q, &version);
  enum qp_rc rc;

  *out = page;
  if (page)
    return QP_OK;
  page = new_page(q);
  if (!page)
    return qp__fail_nomem(err, "a list");
  rc = read_list(cat, q, page, err);
  while (qp__cat_try_again(cat, rc))
    rc = read_list(cat, q, page, err);
  if (rc) {
    free_page(page);
    return rc;
  }
  keep_page(cat, page, version);
  *out = page;
  return QP_OK;
}

enum qp_rc
qp_catalogue_list(struct qp_store *store, const struct qp_catalogue_query *query,
                  qp_catalogue_visit *visit, void *arg, char **next_cursor, struct qp_err *err)
{
  struct qp__catalogue *cat = store->catalogue;
  struct qp_catalogue_query own;
  struct qp__cat_page *page = NULL;
  char cursor[QP__CAT_CURSOR];
  enum qp_rc rc = qp__sized_copy("struct qp_catalogue_query", query, &own, sizeof(own), err);

  if (!rc && store->driver->catalogue)
    return qp__cat_driver_list(store, &own, visit, arg, next_cursor, err);
  if (!rc)
    rc = get_page(cat, &own, &page, err);
  if (rc)
    return rc;
  for (size_t i = 0; i < page->count && !rc; i++)
    rc = visit(arg, &page->rows[i]);
  if (!rc && page->count)
    qp__cat_write_list_cursor(&page->rows[page->count - 1], cursor);
  if (!rc)
    rc = qp__cat_give_cursor(cursor, page->more, next_cursor, err);
  put_page(cat, page);
  return rc;
}

/* ---- how much an owner has ---- */

static enum qp_rc
sum_bytes(struct qp__cat_db *db, const char *owner, int64_t *total, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = false;
  enum qp_rc rc;

  if (!db->handle)
    return QP_OK;
  rc = qp__cat_use(db, QP__CAT_OWNER_BYTES, &st, err);
  if (rc)
    return rc;
  qp__cat_bind_text(st, 1, owner);
  rc = qp__cat_step(db, st, &row, err);
  if (!rc && row)
    *total += sqlite3_column_int64(st, 0);
  (void)sqlite3_reset(st);
  return rc;
}

static enum qp_rc
read_owner_bytes(struct qp__catalogue *cat, const char *owner, int64_t *out, struct qp_err *err)
{
  struct qp__cat_reader *reader = NULL;
  enum qp_rc rc = qp__cat_begin_reading(cat, false, false, &reader, err);

  if (rc)
    return rc;
  *out = 0;
  rc = sum_bytes(reader ? &reader->db : &cat->main, owner, out, err);
  if (!rc && !reader)
    rc = sum_bytes(&cat->over, owner, out, err);
  qp__cat_end_reading(cat, reader);
  return rc;
}

enum qp_rc
qp__catalogue_owner_bytes(struct qp__catalogue *cat, const char *owner, int64_t *out,
                          struct qp_err *err)
{
  const struct qp_store *s = cat->store;
  enum qp_rc rc;

  if (s->driver->catalogue)
    return s->driver->catalogue->owner_bytes(s->self, owner, out, err);
  rc = read_owner_bytes(cat, owner, out, err);
  while (qp__cat_try_again(cat, rc))
    rc = read_owner_bytes(cat, owner, out, err);
  return rc;
}

enum qp_rc
qp_owner_bytes(struct qp_store *store, const char *owner, uint64_t enough, uint64_t *out,
               struct qp_err *err)
{
  return qp__usage_bytes(store, owner, enough, qp__catalogue_owner_bytes, out, err);
}

/* ---- searches ---- */

struct hit_page {
  struct qp__arena arena;
  struct qp_search_hit *hits;
  size_t count;
  uint32_t limit;
  bool more;
  int64_t last; /* the row of the last hit */
};

/* "{rank}/{row}" of the last hit of a page. */
static enum qp_rc
parse_hit_cursor(const char *cursor, double *rank, int64_t *row, struct qp_err *err)
{
  char *end = NULL;
  char *last = NULL;

  errno = 0;
  *rank = strtod(cursor, &end);
  if (end == cursor || *end != '/' || !isfinite(*rank))
    return qp__cat_bad_cursor(err);
  *row = strtoll(end + 1, &last, 10);
  return errno || last == end + 1 || *last ? qp__cat_bad_cursor(err) : QP_OK;
}

/* This is added to row numbers of the overlay, so that a cursor says which database it belongs
 * to. */
#define OVER_ROWS ((int64_t)1 << 48)

static bool
keep_hit(struct hit_page *page, sqlite3_stmt *st, int64_t on_top)
{
  struct qp_search_hit *h = &page->hits[page->count++];
  bool bad = false;

  h->context = qp__cat_column_id(st, 0);
  h->title = keep_text(&page->arena, st, 1, &bad);
  h->message = qp__cat_column_id(st, 2);
  h->role = (enum qp_role)sqlite3_column_int(st, 3);
  h->created_at = sqlite3_column_int64(st, 4);
  h->snippet = keep_text(&page->arena, st, 5, &bad);
  h->rank = sqlite3_column_double(st, 6);
  page->last = sqlite3_column_int64(st, 7) + on_top;
  return !bad && h->snippet;
}

static enum qp_rc
find_hits(struct source *s, struct qp__cat_db *db, const struct qp_search_query *q,
          struct qp_bytes match, uint32_t limit, int64_t on_top, struct qp_err *err)
{
  bool one = !qp_uuid_is_none(&q->context);
  double rank = 0;
  int64_t after = 0;
  enum qp_rc rc = QP_OK;

  s->db = db;
  if (q->cursor)
    rc = parse_hit_cursor(q->cursor, &rank, &after, err);
  if (!rc)
    rc = qp__cat_use(db,
                     one        ? QP__CAT_SEARCH_CONTEXT
                     : q->owner ? QP__CAT_SEARCH_OWNER
                                : QP__CAT_SEARCH,
                     &s->st, err);
  if (rc)
    return rc;
  (void)sqlite3_bind_text(s->st, 1, match.data, (int)match.len, SQLITE_STATIC);
  (void)sqlite3_bind_int(s->st, 2, !q->cursor);
  (void)sqlite3_bind_double(s->st, 3, rank);
  (void)sqlite3_bind_int64(s->st, 4, after < INT64_MIN + on_top ? after : after - on_top);
  (void)sqlite3_bind_int64(s->st, 5, (int64_t)limit + 1);
  if (one)
    qp__cat_bind_id(s->st, 6, &q->context);
  else if (q->owner)
    qp__cat_bind_text(s->st, 6, q->owner);
  return qp__cat_step(db, s->st, &s->row, err);
}

static enum qp_rc
read_hits(struct qp__cat_db *main, struct qp__cat_db *over, const struct qp_search_query *q,
          struct qp_bytes match, struct hit_page *page, struct qp_err *err)
{
  struct source sources[2] = { { NULL, NULL, false }, { NULL, NULL, false } };
  enum qp_rc rc = QP_OK;

  if (main->handle)
    rc = find_hits(&sources[0], main, q, match, page->limit, 0, err);
  if (!rc && over->handle)
    rc = find_hits(&sources[1], over, q, match, page->limit, OVER_ROWS, err);
  while (!rc && (sources[0].row || sources[1].row)) {
    bool second =
        sources[1].row && (!sources[0].row || sqlite3_column_double(sources[1].st, 6) <
                                                  sqlite3_column_double(sources[0].st, 6));
    struct source *s = &sources[second];

    page->more = page->count == page->limit;
    if (page->more)
      break;
    rc = keep_hit(page, s->st, second ? OVER_ROWS : 0) ? qp__cat_step(s->db, s->st, &s->row, err)
                                                       : qp__fail_nomem(err, "a search");
  }
  for (size_t i = 0; i < 2; i++)
    if (sources[i].st) {
      (void)sqlite3_reset(sources[i].st);
      (void)sqlite3_clear_bindings(sources[i].st);
    }
  return rc;
}

static enum qp_rc
read_search(struct qp__catalogue *cat, const struct qp_search_query *q, const struct qp__buf *match,
            struct hit_page *page, struct qp_err *err)
{
  struct qp__cat_db none = { .handle = NULL };
  struct qp__cat_reader *reader = NULL;
  enum qp_rc rc = qp__cat_begin_reading(cat, true, q->cursor != NULL, &reader, err);

  if (rc)
    return rc;
  page->count = 0;
  rc = read_hits(reader ? &reader->db : &cat->main, reader ? &none : &cat->over, q,
                 qp__buf_bytes(match), page, err);
  qp__cat_end_reading(cat, reader);
  return rc;
}

enum qp_rc
qp_search(struct qp_store *store, const struct qp_search_query *query, qp_search_visit *visit,
          void *arg, char **next_cursor, struct qp_err *err)
{
  struct qp__catalogue *cat = store->catalogue;
  struct qp_search_query own;
  struct hit_page page = { .limit = 0 };
  struct qp__cat_terms terms;
  struct qp__buf match;
  char cursor[QP__CAT_CURSOR];
  enum qp_rc rc = qp__sized_copy("struct qp_search_query", query, &own, sizeof(own), err);

  if (rc)
    return rc;
  if (store->driver->catalogue)
    return qp__cat_driver_search(store, &own, visit, arg, next_cursor, err);
  page.limit = qp__cat_limit(own.limit);
  page.hits = qp__alloc0(page.limit, sizeof(*page.hits));
  if (!page.hits)
    return qp__fail_nomem(err, "a search");
  qp__buf_init(&match, QP__CAT_MATCH_MAX);
  rc = qp__cat_parse_terms(own.text, &terms, err);
  if (!rc)
    rc = qp__cat_write_match(&terms, &match, err);
  if (!rc) {
    rc = read_search(cat, &own, &match, &page, err);
    while (qp__cat_try_again(cat, rc))
      rc = read_search(cat, &own, &match, &page, err);
  }
  for (size_t i = 0; i < page.count && !rc; i++)
    rc = visit(arg, &page.hits[i]);
  if (!rc) {
    if (page.count)
      (void)snprintf(cursor, sizeof(cursor), "%.17g/%" PRId64, page.hits[page.count - 1].rank,
                     page.last);
    rc = qp__cat_give_cursor(cursor, page.more, next_cursor, err);
  }
  qp__arena_release(&page.arena);
  qp__free(page.hits);
  qp__buf_release(&match);
  return rc;
}

/* ---- states ---- */

static enum qp_rc
visit_state(struct qp__cat_db *db, const char *state, qp_context_visit *visit, void *arg,
            struct qp__idset *hidden, struct qp_err *err)
{
  sqlite3_stmt *st;
  bool row = true;
  enum qp_rc rc = qp__cat_use(db, QP__CAT_ROW_STATE, &st, err);

  if (rc)
    return rc;
  qp__cat_bind_text(st, 1, state);
  while (!rc && row) {
    rc = qp__cat_step(db, st, &row, err);
    if (!rc && row) {
      struct qp_uuid id = qp__cat_column_id(st, 0);

      if (!hidden || !qp__idset_has(hidden, &id))
        rc = visit(arg, &id);
    }
  }
  (void)sqlite3_reset(st);
  return rc;
}

enum qp_rc
qp__catalogue_in_state(struct qp__catalogue *cat, const char *state, qp_context_visit *visit,
                       void *arg, struct qp_err *err)
{
  struct qp_store *s = cat->store;
  struct qp__cat_reader *reader = NULL;
  enum qp_rc rc;

  if (s->driver->catalogue)
    return s->driver->catalogue->in_state(s->self, state, visit, arg, err);
  do {
    rc = qp__cat_begin_reading(cat, false, false, &reader, err);
    if (rc)
      return rc;
    if (reader)
      rc = visit_state(&reader->db, state, visit, arg, NULL, err);
    if (!reader && cat->main.handle)
      rc = visit_state(&cat->main, state, visit, arg, &cat->hidden, err);
    if (!reader && !rc && cat->over.handle)
      rc = visit_state(&cat->over, state, visit, arg, NULL, err);
    qp__cat_end_reading(cat, reader);
  } while (qp__cat_try_again(cat, rc));
  return rc;
}

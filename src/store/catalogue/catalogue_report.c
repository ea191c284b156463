/* catalogue_report.c - sums over contexts: their sizes, and what the answers in them have used. See
 * rule (8) of catalogue_int.h.
 *
 * `sizes` of a row is a JSON array with an array [name, messages, bytes] for each of the largest
 * branches, the largest first. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sized.h"
#include "base/vec.h"
#include "model/message.h"
#include "store/catalogue/catalogue_int.h"

#define QUARTERS_MAX ((int64_t)1 << 40)
#define LIMIT_MAX 1000
#define SIZES_DEFAULT 50
#define GROUPS_DEFAULT 100
#define OFFSET_MAX 1440
/* A client may store any metadata: larger figures of one answer count as these. */
#define TOKENS_MAX 1e12
#define COST_MAX 1e6

/* ---- what a message has used ---- */

static double
figure(const json_t *object, const char *key, double max)
{
  double value = json_number_value(json_object_get(object, key));

  return value > 0 ? (value < max ? value : max) : 0;
}

bool
qp__answer_read(const struct qp_message *m, struct qp__answer_use *out)
{
  const json_t *tokens = json_object_get(m->metadata, "tokens");
  const char *model = json_string_value(json_object_get(m->metadata, "model"));
  size_t len = model ? strlen(model) : 0;

  if (m->role != QP_ROLE_ASSISTANT || !json_is_object(tokens))
    return false;
  if (len > QP__WORD_MAX)
    for (len = QP__WORD_MAX; len && ((unsigned char)model[len] & 0xc0) == 0x80;)
      len--;
  if (len)
    memcpy(out->model, model, len);
  out->model[len] = 0;
  out->input = figure(tokens, "prompt_tokens", TOKENS_MAX);
  out->output = figure(tokens, "completion_tokens", TOKENS_MAX);
  out->cached = figure(tokens, "cache_read_tokens", TOKENS_MAX);
  out->cost = figure(m->metadata, "cost_usd", COST_MAX);
  out->unpriced = !json_is_number(json_object_get(m->metadata, "cost_usd"));
  return true;
}

enum qp_rc
qp__cat_put_usage(struct qp__cat_db *db, int64_t n, const struct qp_message *m,
                  const struct qp__entry *e, struct qp_err *err)
{
  struct qp__answer_use a;
  sqlite3_stmt *st;
  enum qp_rc rc;

  if (!qp__answer_read(m, &a))
    return QP_OK;
  rc = qp__cat_use(db, QP__CAT_USAGE_PUT, &st, err);
  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, qp__quarter_of(e->time));
  (void)sqlite3_bind_int64(st, 2, n);
  qp__cat_bind_text(st, 3, a.model);
  (void)sqlite3_bind_double(st, 4, a.input);
  (void)sqlite3_bind_double(st, 5, a.output);
  (void)sqlite3_bind_double(st, 6, a.cached);
  (void)sqlite3_bind_double(st, 7, a.cost);
  (void)sqlite3_bind_int(st, 8, a.unpriced);
  return qp__cat_run(db, st, err);
}

/* ---- sizes of branches ---- */

/* Largest first, then by name. */
static bool
comes_before(const struct qp_branch_size *a, const struct qp_branch_size *b)
{
  return a->bytes > b->bytes || (a->bytes == b->bytes && strcmp(a->name, b->name) < 0);
}

/* Puts a branch where it belongs among the largest; those after it move, the smallest goes. */
static void
keep_largest(struct qp_branch_size *sizes, size_t *count, const struct qp_branch_size *one)
{
  size_t at = *count;

  while (at > 0 && comes_before(one, &sizes[at - 1]))
    at--;
  if (at == QP_BRANCH_SIZES_MAX)
    return;
  if (*count < QP_BRANCH_SIZES_MAX)
    (*count)++;
  memmove(sizes + at + 1, sizes + at, (*count - at - 1) * sizeof(*sizes));
  sizes[at] = *one;
}

static enum qp_rc
write_sizes(struct qp__buf *out, const struct qp_context *c, const struct qp__view *v)
{
  struct qp_branch_size sizes[QP_BRANCH_SIZES_MAX];
  size_t count = 0;

  for (size_t i = 0; i < v->meta->branch_count; i++) {
    uint32_t head = atomic_load_explicit(&v->branches[i]->head, memory_order_acquire);
    struct qp_branch_size one = { .name = v->meta->branches[i].name };

    if (head != QP__NO_SLOT) {
      const struct qp__entry *e = qp__tree_at(&c->tree, head);

      one.messages = (uint64_t)e->depth + 1;
      one.bytes = e->path_bytes;
    }
    keep_largest(sizes, &count, &one);
  }
  for (size_t i = 0; i < count; i++) {
    (void)qp__buf_add_str(out, i ? ",[" : "[[");
    (void)qp__json_write_string(out, sizes[i].name, strlen(sizes[i].name));
    (void)qp__buf_addf(out, ",%" PRIu64 ",%" PRIu64 "]", sizes[i].messages, sizes[i].bytes);
  }
  return qp__buf_add_str(out, count ? "]" : "[]");
}

enum qp_rc
qp__cat_bind_sizes(sqlite3_stmt *st, const struct qp_context *c, const struct qp__view *v,
                   struct qp_err *err)
{
  const struct qp__tree *t = &c->tree;
  struct qp__buf sizes;
  enum qp_rc rc;

  (void)sqlite3_bind_int64(st, 21, (int64_t)atomic_load(&t->packed_count));
  (void)sqlite3_bind_int64(st, 22, (int64_t)atomic_load(&t->packed_bytes));
  (void)sqlite3_bind_int64(st, 23, (int64_t)atomic_load(&t->trashed_count));
  (void)sqlite3_bind_int64(st, 24, (int64_t)atomic_load(&t->trashed_bytes));
  qp__buf_init(&sizes, (size_t)1 << 20);
  rc = write_sizes(&sizes, c, v);
  if (rc)
    rc = qp__fail_nomem(err, "the catalogue");
  else
    (void)sqlite3_bind_text(st, 25, sizes.data, (int)sizes.len, SQLITE_TRANSIENT);
  qp__buf_release(&sizes);
  return rc;
}

/* ---- the list of sizes ---- */

struct sizes {
  struct qp__arena arena;
  struct qp_size_row *rows;
  size_t count, cap;
};

static void
forget_sizes(struct sizes *all)
{
  qp__arena_release(&all->arena);
  all->count = 0;
}

static const char *
keep_text(struct qp__arena *arena, sqlite3_stmt *st, int at, bool *bad)
{
  const char *text = (const char *)sqlite3_column_text(st, at);
  char *copy = text ? qp__arena_strdup(arena, text) : NULL;

  *bad |= text ? !copy : sqlite3_column_type(st, at) != SQLITE_NULL;
  return copy;
}

/* False: out of memory. */
static bool
take_sizes(struct qp__arena *arena, const char *text, struct qp_size_row *row)
{
  struct qp_branch_size *sizes;
  json_t *list = NULL;
  json_t *item;
  size_t i;
  bool bad = false;

  if (!text || qp__json_parse("sizes", (struct qp_bytes){ text, strlen(text) }, &list, NULL))
    return true;
  sizes = qp__arena_alloc(arena, (json_array_size(list) + 1) * sizeof(*sizes));
  if (sizes)
    json_array_foreach (list, i, item) {
      const char *name = json_string_value(json_array_get(item, 0));

      sizes[i].name = qp__arena_strdup(arena, name ? name : "");
      sizes[i].messages = (uint64_t)json_integer_value(json_array_get(item, 1));
      sizes[i].bytes = (uint64_t)json_integer_value(json_array_get(item, 2));
      bad |= !sizes[i].name;
    }
  row->sizes = sizes;
  row->size_count = sizes ? json_array_size(list) : 0;
  json_decref(list);
  return sizes && !bad;
}

static bool
keep_size(struct sizes *all, sqlite3_stmt *st)
{
  struct qp_size_row row = { .id = qp__cat_column_id(st, 0) };
  bool bad = false;

  row.title = keep_text(&all->arena, st, 1, &bad);
  row.owner = keep_text(&all->arena, st, 2, &bad);
  row.updated_at = sqlite3_column_int64(st, 3);
  row.messages = (uint64_t)sqlite3_column_int64(st, 4);
  row.bytes = (uint64_t)sqlite3_column_int64(st, 5);
  row.metadata_bytes = (uint64_t)sqlite3_column_int64(st, 6);
  row.archived_messages = (uint64_t)sqlite3_column_int64(st, 7);
  row.archived_bytes = (uint64_t)sqlite3_column_int64(st, 8);
  row.trashed_messages = (uint64_t)sqlite3_column_int64(st, 9);
  row.trashed_bytes = (uint64_t)sqlite3_column_int64(st, 10);
  row.branches = (uint64_t)sqlite3_column_int64(st, 11);
  bad |= !take_sizes(&all->arena, (const char *)sqlite3_column_text(st, 12), &row);
  return !bad && qp__vec_push(all->rows, all->count, all->cap, row);
}

static enum qp_rc
add_sizes(struct qp__cat_db *db, const struct qp_size_query *q, uint32_t limit, struct sizes *all,
          struct qp_err *err)
{
  sqlite3_stmt *st = NULL;
  struct qp_uuid id;
  int64_t bytes = INT64_MAX;
  bool row = db->handle != NULL;
  enum qp_rc rc = QP_OK;

  memset(id.b, 0xff, sizeof(id.b));
  if (q->cursor) /* "{bytes}.{id}" of the last row of a page */
    rc = qp__cat_parse_list_cursor(q->cursor, &bytes, &id, err);
  if (rc || !row)
    return rc;
  rc = qp__cat_use(db, q->trashed ? QP__CAT_SIZES_TRASHED : QP__CAT_SIZES, &st, err);
  if (rc)
    return rc;
  if (q->owner)
    qp__cat_bind_text(st, 1, q->owner);
  (void)sqlite3_bind_int64(st, 2, (int64_t)limit + 1); /* one more: whether there is a next page */
  (void)sqlite3_bind_int64(st, 3, bytes);
  qp__cat_bind_id(st, 4, &id);
  while (!rc && row) {
    rc = qp__cat_step(db, st, &row, err);
    if (!rc && row && !keep_size(all, st))
      rc = qp__fail_nomem(err, "a list of sizes");
  }
  (void)sqlite3_reset(st);
  return rc;
}

/* Largest first. */
static int
compare_sizes(const void *a, const void *b)
{
  const struct qp_size_row *x = a;
  const struct qp_size_row *y = b;

  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? 1 : -1;
  return memcmp(y->id.b, x->id.b, sizeof(x->id.b));
}

static enum qp_rc
read_sizes(struct qp__catalogue *cat, const struct qp_size_query *q, uint32_t limit,
           struct sizes *all, struct qp_err *err)
{
  struct qp__cat_reader *reader = NULL;
  enum qp_rc rc = qp__cat_begin_reading(cat, false, q->cursor != NULL, &reader, err);

  forget_sizes(all);
  if (rc)
    return rc;
  rc = add_sizes(reader ? &reader->db : &cat->main, q, limit, all, err);
  if (!rc && !reader)
    rc = add_sizes(&cat->over, q, limit, all, err);
  qp__cat_end_reading(cat, reader);
  if (!rc && all->count)
    qsort(all->rows, all->count, sizeof(*all->rows), compare_sizes);
  return rc;
}

enum qp_rc
qp_size_list(struct qp_store *store, const struct qp_size_query *query, qp_size_visit *visit,
             void *arg, char **next_cursor, struct qp_err *err)
{
  struct qp__catalogue *cat = store->catalogue;
  struct sizes all = { .rows = NULL };
  struct qp_size_query q;
  char *next = NULL;
  uint32_t limit;
  enum qp_rc rc = qp__sized_copy("struct qp_size_query", query, &q, sizeof(q), err);

  if (rc)
    return rc;
  limit = !q.limit ? SIZES_DEFAULT : q.limit > LIMIT_MAX ? LIMIT_MAX : q.limit;
  q.limit = limit;
  if (store->driver->catalogue)
    return qp__cat_driver_sizes(store, &q, visit, arg, next_cursor, err);
  do {
    rc = read_sizes(cat, &q, limit, &all, err);
  } while (qp__cat_try_again(cat, rc));
  for (size_t i = 0; i < all.count && i < limit && !rc; i++)
    rc = visit(arg, &all.rows[i]);
  if (!rc && all.count > limit && next_cursor) {
    char id[QP_UUID_TEXT];

    next = qp__strf("%" PRIu64 ".%s", all.rows[limit - 1].bytes,
                    qp_uuid_text(&all.rows[limit - 1].id, id));
    if (!next)
      rc = qp__fail_nomem(err, "a cursor");
  }
  if (!rc && next_cursor)
    *next_cursor = next;
  forget_sizes(&all);
  qp__free(all.rows);
  return rc;
}

/* ---- their sum ---- */

static enum qp_rc
add_total(struct qp__cat_db *db, const char *owner, struct qp_size_total *out, struct qp_err *err)
{
  uint64_t *fields[] = { &out->contexts,         &out->messages,          &out->bytes,
                         &out->metadata_bytes,   &out->archived_messages, &out->archived_bytes,
                         &out->trashed_messages, &out->trashed_bytes };
  sqlite3_stmt *st = NULL;
  bool row = false;
  enum qp_rc rc;

  if (!db->handle)
    return QP_OK;
  rc = qp__cat_use(db, QP__CAT_SIZE_SUM, &st, err);
  if (rc)
    return rc;
  if (owner)
    qp__cat_bind_text(st, 1, owner);
  rc = qp__cat_step(db, st, &row, err);
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && !rc && row; i++)
    *fields[i] += (uint64_t)sqlite3_column_double(st, (int)i);
  (void)sqlite3_reset(st);
  return rc;
}

static enum qp_rc
read_total(struct qp__catalogue *cat, const char *owner, struct qp_size_total *out,
           struct qp_err *err)
{
  struct qp__cat_reader *reader = NULL;
  enum qp_rc rc = qp__cat_begin_reading(cat, false, false, &reader, err);

  if (rc)
    return rc;
  memset(out, 0, sizeof(*out));
  rc = add_total(reader ? &reader->db : &cat->main, owner, out, err);
  if (!rc && !reader)
    rc = add_total(&cat->over, owner, out, err);
  qp__cat_end_reading(cat, reader);
  return rc;
}

enum qp_rc
qp_size_sum(struct qp_store *store, const char *owner, struct qp_size_total *out,
            struct qp_err *err)
{
  struct qp_size_total total;
  enum qp_rc rc;

  if (store->driver->catalogue)
    return store->driver->catalogue->size_sum(store->self, owner, out, err);
  do {
    rc = read_total(store->catalogue, owner, &total, err);
  } while (qp__cat_try_again(store->catalogue, rc));
  if (!rc)
    *out = total;
  return rc;
}

/* ---- what was used ---- */

struct groups {
  struct qp__arena arena;
  struct qp_usage_row *rows;
  size_t count, cap;
};

/* The group with the same key, from the other database; contexts are in one of them only. */
static struct qp_usage_row *
find_group(struct groups *all, enum qp_usage_group group, const struct qp_usage_row *row)
{
  for (size_t i = 0; i < all->count; i++)
    if ((group == QP_USAGE_DAY && all->rows[i].day == row->day) ||
        (group == QP_USAGE_MODEL && strcmp(all->rows[i].model, row->model) == 0))
      return &all->rows[i];
  return NULL;
}

/* Of a day, as it is counted in local time. */
static int64_t
first_moment(int64_t day, int64_t shift)
{
  return (day * QP__QUARTERS_PER_DAY - shift) * QP__QUARTER_MS;
}

static bool
keep_group(struct groups *all, enum qp_usage_group group, int64_t shift, bool merge,
           sqlite3_stmt *st)
{
  struct qp_usage_row row = { .answers = (uint64_t)sqlite3_column_int64(st, 2) };
  struct qp_usage_row *same;
  bool bad = false;

  row.input_tokens = (uint64_t)sqlite3_column_double(st, 3);
  row.output_tokens = (uint64_t)sqlite3_column_double(st, 4);
  row.cached_tokens = (uint64_t)sqlite3_column_double(st, 5);
  row.cost_usd = sqlite3_column_double(st, 6);
  row.unpriced = (uint64_t)sqlite3_column_int64(st, 7);
  if (group == QP_USAGE_DAY)
    row.day = first_moment(sqlite3_column_int64(st, 0), shift);
  else if (group == QP_USAGE_MODEL)
    row.model = keep_text(&all->arena, st, 0, &bad);
  else {
    row.context = qp__cat_column_id(st, 0);
    row.title = keep_text(&all->arena, st, 1, &bad);
  }
  if (bad)
    return false;
  same = merge ? find_group(all, group, &row) : NULL;
  if (!same)
    return qp__vec_push(all->rows, all->count, all->cap, row);
  same->answers += row.answers;
  same->input_tokens += row.input_tokens;
  same->output_tokens += row.output_tokens;
  same->cached_tokens += row.cached_tokens;
  same->cost_usd += row.cost_usd;
  same->unpriced += row.unpriced;
  return true;
}

/* `alone`: the database has the rows of all contexts. `merge`: there are groups of another one. */
static enum qp_rc
add_groups(struct qp__cat_db *db, const struct qp_usage_query *q, bool alone, bool merge,
           struct groups *all, struct qp_err *err)
{
  static const enum qp__cat_sql sql[2][3] = {
    { QP__CAT_USAGE_DAY, QP__CAT_USAGE_CONTEXT, QP__CAT_USAGE_MODEL },
    { QP__CAT_USAGE_DAY_ALL, QP__CAT_USAGE_CONTEXT, QP__CAT_USAGE_MODEL_ALL },
  };
  int64_t shift = qp__quarter_of((int64_t)q->utc_offset * 60000);
  sqlite3_stmt *st = NULL;
  bool row = true;
  enum qp_rc rc;

  if (!db->handle)
    return QP_OK;
  rc = qp__cat_use(db, sql[alone && !q->owner][q->group], &st, err);
  if (rc)
    return rc;
  if (q->owner)
    qp__cat_bind_text(st, 1, q->owner);
  (void)sqlite3_bind_int64(st, 2, qp__quarter_of(q->from));
  (void)sqlite3_bind_int64(st, 3, q->until ? qp__quarter_of(q->until) : QUARTERS_MAX);
  (void)sqlite3_bind_int64(st, 4, shift);
  (void)sqlite3_bind_int64(st, 5, q->limit);
  while (!rc && row) {
    rc = qp__cat_step(db, st, &row, err);
    if (!rc && row && !keep_group(all, q->group, shift, merge, st))
      rc = qp__fail_nomem(err, "a report");
  }
  (void)sqlite3_reset(st);
  return rc;
}

static int
compare_days(const void *a, const void *b)
{
  int64_t x = ((const struct qp_usage_row *)a)->day;
  int64_t y = ((const struct qp_usage_row *)b)->day;

  return (x > y) - (x < y);
}

/* Most expensive first, then most tokens. */
static int
compare_costs(const void *a, const void *b)
{
  const struct qp_usage_row *x = a;
  const struct qp_usage_row *y = b;
  uint64_t i = x->input_tokens + x->output_tokens;
  uint64_t j = y->input_tokens + y->output_tokens;

  if (isgreater(x->cost_usd, y->cost_usd) || isless(x->cost_usd, y->cost_usd))
    return isless(x->cost_usd, y->cost_usd) ? 1 : -1;
  return (i < j) - (i > j);
}

static enum qp_rc
read_groups(struct qp__catalogue *cat, const struct qp_usage_query *q, struct groups *all,
            struct qp_err *err)
{
  struct qp__cat_reader *reader = NULL;
  enum qp_rc rc = qp__cat_begin_reading(cat, true, false, &reader, err);

  qp__arena_release(&all->arena);
  all->count = 0;
  if (rc)
    return rc;
  rc = add_groups(reader ? &reader->db : &cat->main, q, reader != NULL, false, all, err);
  if (!rc && !reader)
    rc = add_groups(&cat->over, q, !cat->main.handle, true, all, err);
  qp__cat_end_reading(cat, reader);
  if (!rc && all->count)
    qsort(all->rows, all->count, sizeof(*all->rows),
          q->group == QP_USAGE_DAY ? compare_days : compare_costs);
  return rc;
}

/* ---- … as a driver tells it ---- */

struct report {
  qp_usage_visit *visit;
  void *arg;
  enum qp_usage_group group;
  int64_t shift;
};

static enum qp_rc
visit_group(void *arg, const struct qp_usage_row *row)
{
  const struct report *r = arg;
  struct qp_usage_row own = *row;

  if (r->group == QP_USAGE_DAY)
    own.day = first_moment(row->day, r->shift);
  return r->visit(r->arg, &own);
}

static enum qp_rc
ask_driver(struct qp_store *s, const struct qp_usage_query *q, qp_usage_visit *visit, void *arg,
           struct qp_err *err)
{
  struct report r = { visit, arg, q->group, qp__quarter_of((int64_t)q->utc_offset * 60000) };
  struct qp__usage_range query = { .group = q->group,
                                   .owner = q->owner,
                                   .from = qp__quarter_of(q->from),
                                   .until = q->until ? qp__quarter_of(q->until) : QUARTERS_MAX,
                                   .shift = r.shift,
                                   .limit = q->limit };

  return s->driver->catalogue->usage(s->self, &query, visit_group, &r, err);
}

enum qp_rc
qp_usage_list(struct qp_store *store, const struct qp_usage_query *query, qp_usage_visit *visit,
              void *arg, struct qp_err *err)
{
  struct qp__catalogue *cat = store->catalogue;
  struct groups all = { .rows = NULL };
  struct qp_usage_query q;
  size_t from;
  size_t until;
  enum qp_rc rc = qp__sized_copy("struct qp_usage_query", query, &q, sizeof(q), err);

  if (!rc && (q.group > QP_USAGE_MODEL || q.utc_offset < -OFFSET_MAX || q.utc_offset > OFFSET_MAX))
    rc = qp__fail(err, QP_INVALID, "the group or the offset of the days is not valid");
  if (rc)
    return rc;
  q.limit = !q.limit ? GROUPS_DEFAULT : q.limit > LIMIT_MAX ? LIMIT_MAX : q.limit;
  if (store->driver->catalogue)
    return ask_driver(store, &q, visit, arg, err);
  do {
    rc = read_groups(cat, &q, &all, err);
  } while (qp__cat_try_again(cat, rc));
  /* Two databases may have more groups together: the newest days, the first of the others. */
  from = q.group == QP_USAGE_DAY && all.count > q.limit ? all.count - q.limit : 0;
  until = all.count - from > q.limit ? q.limit : all.count;
  for (size_t i = from; i < until && !rc; i++)
    rc = visit(arg, &all.rows[i]);
  qp__arena_release(&all.arena);
  qp__free(all.rows);
  return rc;
}

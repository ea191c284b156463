/* pg_report.c - sizes of contexts, and what answers have used, with the answers that the catalogue
 * of a store on files gives.
 *
 * Sizes are in quipu.catalogue and quipu.branches, which commits write. The sizes of branches that
 * a program wrote before they were kept are NULL: the first report that shows them loads the index
 * of the context and stores them.
 *
 * What answers have used is summed up in quipu.usage, per context, quarter of an hour and model, at
 * the same time as the words for the search are made (pg_index.c). So no report reads messages. */
#include <string.h>

#include "base/err.h"
#include "store/postgres/postgres_int.h"

#define ROUNDS 3 /* a branch whose head moves each time while it is measured has no size */

/* ---- branches without a size ---- */

static enum qp_rc
send_measured(struct qp__pg *pg, const struct qp_uuid *id, const struct qp__image *image,
              struct qp_err *err)
{
  static const enum qp__pg_type types[4] = { QP__PG_TEXT, QP__PG_UUID, QP__PG_INT8, QP__PG_INT8 };
  struct qp__pg_call call = { .statement = QP__PG_MEASURED };
  struct qp__pg_array c[4];
  PGresult *r = NULL;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < 4; i++)
    qp__pg_array_init(&c[i], types[i]);
  for (size_t i = 0; i < image->head_count; i++) {
    const struct qp__head *h = &image->heads[i];
    const struct qp__entry *e = h->slot == QP__NO_SLOT ? NULL : qp__tree_at(&image->tree, h->slot);

    qp__pg_array_add(&c[0], h->name, strlen(h->name));
    qp__pg_array_add(&c[1], e ? e->id.b : NULL, 16);
    qp__pg_array_add_int(&c[2], e ? (int64_t)e->depth + 1 : 0);
    qp__pg_array_add_int(&c[3], e ? (int64_t)e->path_bytes : 0);
  }
  qp__pg_add_uuid(&call, id);
  for (size_t i = 0; i < 4 && !rc; i++)
    rc = qp__pg_add_array(&call, &c[i], err);
  if (!rc)
    rc = qp__pg_answer(pg, "store the sizes of branches", &call, &r, err);
  PQclear(r);
  for (size_t i = 0; i < 4; i++)
    qp__pg_array_release(&c[i]);
  return rc;
}

/* A context that is damaged or gone meanwhile is no failure. */
static enum qp_rc
measure(struct qp__pg *pg, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__image image;
  enum qp_rc rc;

  qp__image_init(&image);
  rc = qp__pg_context_look(pg, id, &image, err);
  if (!rc)
    rc = send_measured(pg, id, &image, err);
  qp__image_release(&image);
  return rc == QP_NOTFOUND || rc == QP_CORRUPT ? QP_OK : rc;
}

/* Measures the contexts of a page that have a branch without a size. *again: there was one. */
static enum qp_rc
measure_page(struct qp__pg *pg, const PGresult *r, bool *again, struct qp_err *err)
{
  struct qp_uuid last = { { 0 } };
  enum qp_rc rc = QP_OK;

  *again = false;
  for (int i = 0; i < PQntuples(r) && !rc; i++) {
    struct qp_uuid id;

    if (PQgetisnull(r, i, 10) || !PQgetisnull(r, i, 11) || !qp__pg_uuid(r, i, 0, &id) ||
        qp_uuid_equal(&id, &last))
      continue;
    last = id;
    *again = true;
    rc = measure(pg, &id, err);
  }
  return rc;
}

/* ---- sizes ---- */

static enum qp_rc
ask_sizes(struct qp__pg *pg, const struct qp__size_page *q, PGresult **out, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_SIZES };

  qp__pg_add_int8(&call, q->bytes);
  qp__pg_add_uuid(&call, &q->id);
  qp__pg_add_int8(&call, q->limit);
  qp__pg_add_text(&call, q->owner);
  qp__pg_add_bool(&call, q->trashed);
  qp__pg_add_int8(&call, QP_BRANCH_SIZES_MAX);
  return qp__pg_answer(pg, "list sizes", &call, out, err);
}

/* The rows from `first` on are of one context, a branch each. Returns where the next one begins. */
static int
read_branches(const PGresult *r, int first, struct qp_branch_size *sizes, size_t *count)
{
  int i = first;

  *count = 0;
  do {
    if (!PQgetisnull(r, i, 10) && *count < QP_BRANCH_SIZES_MAX)
      sizes[(*count)++] = (struct qp_branch_size){ .name = PQgetvalue(r, i, 10),
                                                   .messages = (uint64_t)qp__pg_int(r, i, 11),
                                                   .bytes = (uint64_t)qp__pg_int(r, i, 12) };
    i++;
  } while (i < PQntuples(r) && memcmp(PQgetvalue(r, i, 0), PQgetvalue(r, first, 0), 16) == 0);
  return i;
}

static enum qp_rc
visit_sizes(const PGresult *r, qp_size_visit *visit, void *arg)
{
  struct qp_branch_size sizes[QP_BRANCH_SIZES_MAX];
  enum qp_rc rc = QP_OK;

  for (int i = 0; i < PQntuples(r) && !rc;) {
    struct qp_size_row row = { .title = qp__pg_value(r, i, 1).data,
                               .owner = qp__pg_value(r, i, 2).data,
                               .updated_at = qp__pg_int(r, i, 3),
                               .messages = (uint64_t)qp__pg_int(r, i, 4),
                               .bytes = (uint64_t)qp__pg_int(r, i, 5),
                               .metadata_bytes = (uint64_t)qp__pg_int(r, i, 6),
                               .trashed_messages = (uint64_t)qp__pg_int(r, i, 7),
                               .trashed_bytes = (uint64_t)qp__pg_int(r, i, 8),
                               .branches = (uint64_t)qp__pg_int(r, i, 9),
                               .sizes = sizes };

    (void)qp__pg_uuid(r, i, 0, &row.id);
    i = read_branches(r, i, sizes, &row.size_count);
    rc = visit(arg, &row);
  }
  return rc;
}

enum qp_rc
qp__pg_sizes(void *self, const struct qp__size_page *query, qp_size_visit *visit, void *arg,
             struct qp_err *err)
{
  struct qp__pg *pg = self;
  PGresult *r = NULL;
  bool again = !pg->readonly;
  enum qp_rc rc = ask_sizes(pg, query, &r, err);

  for (int round = 0; round < ROUNDS && again && !rc; round++) {
    rc = measure_page(pg, r, &again, err);
    if (!rc && again) {
      PQclear(r);
      r = NULL;
      rc = ask_sizes(pg, query, &r, err);
    }
  }
  if (!rc)
    rc = visit_sizes(r, visit, arg);
  PQclear(r);
  return rc;
}

enum qp_rc
qp__pg_size_sum(void *self, const char *owner, struct qp_size_total *out, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_SIZE_SUM };
  PGresult *r = NULL;
  enum qp_rc rc;

  qp__pg_add_text(&call, owner);
  rc = qp__pg_answer(self, "add up sizes", &call, &r, err);
  if (!rc)
    *out = (struct qp_size_total){ .contexts = (uint64_t)qp__pg_int(r, 0, 0),
                                   .messages = (uint64_t)qp__pg_int(r, 0, 1),
                                   .bytes = (uint64_t)qp__pg_int(r, 0, 2),
                                   .metadata_bytes = (uint64_t)qp__pg_int(r, 0, 3),
                                   .trashed_messages = (uint64_t)qp__pg_int(r, 0, 4),
                                   .trashed_bytes = (uint64_t)qp__pg_int(r, 0, 5) };
  PQclear(r);
  return rc;
}

/* ---- usage ---- */

static enum qp_rc
visit_group(const PGresult *r, int i, enum qp_usage_group group, qp_usage_visit *visit, void *arg)
{
  struct qp_usage_row row = { .title = qp__pg_value(r, i, 1).data,
                              .answers = (uint64_t)qp__pg_int(r, i, 2),
                              .input_tokens = (uint64_t)qp__pg_float(r, i, 3),
                              .output_tokens = (uint64_t)qp__pg_float(r, i, 4),
                              .cached_tokens = (uint64_t)qp__pg_float(r, i, 5),
                              .cost_usd = qp__pg_float(r, i, 6),
                              .unpriced = (uint64_t)qp__pg_int(r, i, 7) };

  if (group == QP_USAGE_DAY)
    row.day = qp__pg_int(r, i, 0);
  else if (group == QP_USAGE_MODEL)
    row.model = qp__pg_value(r, i, 0).data;
  else
    (void)qp__pg_uuid(r, i, 0, &row.context);
  return visit(arg, &row);
}

enum qp_rc
qp__pg_usage(void *self, const struct qp__usage_range *query, qp_usage_visit *visit, void *arg,
             struct qp_err *err)
{
  static const enum qp__pg_statement statements[2][3] = {
    { QP__PG_USAGE_DAYS_ALL, QP__PG_USAGE_CONTEXTS, QP__PG_USAGE_MODELS_ALL },
    { QP__PG_USAGE_DAYS, QP__PG_USAGE_CONTEXTS, QP__PG_USAGE_MODELS },
  };
  struct qp__pg_call call = { .statement = statements[query->owner != NULL][query->group] };
  PGresult *r = NULL;
  enum qp_rc rc = qp__pg_index_due(self, err);

  qp__pg_add_int8(&call, query->from);
  qp__pg_add_int8(&call, query->until);
  qp__pg_add_int8(&call, query->limit);
  qp__pg_add_text(&call, query->owner);
  if (query->group == QP_USAGE_DAY)
    qp__pg_add_int8(&call, query->shift);
  if (!rc)
    rc = qp__pg_answer(self, "report what was used", &call, &r, err);
  for (int i = 0; !rc && i < PQntuples(r); i++)
    rc = visit_group(r, i, query->group, visit, arg);
  PQclear(r);
  return rc;
}

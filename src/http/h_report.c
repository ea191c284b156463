/* h_report.c - reports about many contexts, from the catalogue: what models have used, sizes, and
 * what is in the trash. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "http/clock.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"

#define DAY_MS ((int64_t)86400000)
#define DAYS_DEFAULT 30
#define DAYS_MAX 1000
#define GROUPS_DEFAULT 20
#define LIMIT_DEFAULT 50
#define LIMIT_MAX 1000
#define OFFSET_MAX 1440 /* minutes */

/* ---- what models have used ---- */

struct report {
  struct qp__buf *out;
  struct qp_usage_query query;
  struct qp_usage_row total; /* of the days */
};

/* The date of a day that begins at `ms` in a zone `offset` minutes before UTC. */
static void
emit_day(struct qp__buf *out, int64_t ms, int offset)
{
  char text[QP__TIME_LEN];

  qp__time_format(text, ms + (int64_t)offset * 60000);
  qp__emit_strn(out, "day", (struct qp_bytes){ text, 10 });
}

static void
emit_cost(struct qp__buf *out, double cost)
{
  char text[40];
  int n = snprintf(text, sizeof(text), "%.9f", cost);

  qp__emit_raw(out, "cost_usd", (struct qp_bytes){ text, (size_t)n });
}

static void
emit_sums(struct qp__buf *out, const struct qp_usage_row *row)
{
  qp__emit_uint(out, "answers", row->answers);
  qp__emit_uint(out, "input_tokens", row->input_tokens);
  qp__emit_uint(out, "output_tokens", row->output_tokens);
  qp__emit_uint(out, "cached_tokens", row->cached_tokens);
  emit_cost(out, row->cost_usd);
  qp__emit_uint(out, "unpriced", row->unpriced);
}

static enum qp_rc
emit_group(void *arg, const struct qp_usage_row *row)
{
  struct report *report = arg;
  struct qp__buf *out = report->out;

  qp__emit_open(out, NULL, '{');
  if (report->query.group == QP_USAGE_DAY) {
    emit_day(out, row->day, report->query.utc_offset);
    report->total.answers += row->answers;
    report->total.input_tokens += row->input_tokens;
    report->total.output_tokens += row->output_tokens;
    report->total.cached_tokens += row->cached_tokens;
    report->total.cost_usd += row->cost_usd;
    report->total.unpriced += row->unpriced;
  } else if (report->query.group == QP_USAGE_MODEL) {
    qp__emit_str(out, "model", row->model);
  } else {
    qp__emit_uuid(out, "context_id", &row->context);
    qp__emit_str(out, "title", row->title);
  }
  emit_sums(out, row);
  qp__emit_close(out, '}');
  return out->rc;
}

static enum qp_rc
emit_groups(struct qp__request *r, struct report *report, const char *key,
            enum qp_usage_group group, uint32_t limit, struct qp_err *err)
{
  enum qp_rc rc;

  report->query.group = group;
  report->query.limit = limit;
  qp__emit_open(report->out, key, '[');
  rc = qp_usage_list(r->http->store, &report->query, emit_group, report, err);
  qp__emit_close(report->out, ']');
  return rc;
}

static enum qp_rc
read_offset(const struct qp__request *r, int32_t *out, struct qp_err *err)
{
  const char *text = qp__request_query(r, "utc_offset");
  char *end = NULL;
  long minutes = text ? strtol(text, &end, 10) : 0;

  if (text && (end == text || *end || minutes < -OFFSET_MAX || minutes > OFFSET_MAX))
    return qp__fail(err, QP_INVALID, "'utc_offset' must be a number of minutes from -%d to %d",
                    OFFSET_MAX, OFFSET_MAX);
  *out = (int32_t)minutes;
  return QP_OK;
}

enum qp_rc
qp__h_usage_report(struct qp__request *r, struct qp_err *err)
{
  struct report report = { .out = &r->reply.body, .query = { .size = sizeof(report.query) } };
  struct qp__buf *b = report.out;
  uint64_t days = DAYS_DEFAULT;
  uint64_t limit = GROUPS_DEFAULT;
  int64_t shift;
  int64_t today;
  enum qp_rc rc = qp__request_number(r, "days", 1, DAYS_MAX, &days, err);

  if (!rc)
    rc = qp__request_number(r, "limit", 1, LIMIT_MAX, &limit, err);
  if (!rc)
    rc = read_offset(r, &report.query.utc_offset, err);
  if (!rc)
    rc = qp__owner_asked(r, &report.query.owner, err);
  if (rc)
    return rc;
  shift = (int64_t)report.query.utc_offset * 60000;
  today = (qp__clock_wall_ms() + shift) / DAY_MS * DAY_MS - shift;
  report.query.from = today - (int64_t)(days - 1) * DAY_MS;
  qp__emit_open(b, NULL, '{');
  rc = emit_groups(r, &report, "days", QP_USAGE_DAY, (uint32_t)days, err);
  qp__emit_open(b, "total", '{');
  emit_sums(b, &report.total);
  qp__emit_close(b, '}');
  if (!rc)
    rc = emit_groups(r, &report, "contexts", QP_USAGE_CONTEXT, (uint32_t)limit, err);
  if (!rc)
    rc = emit_groups(r, &report, "models", QP_USAGE_MODEL, (uint32_t)limit, err);
  qp__emit_time(b, "from", report.query.from);
  qp__emit_close(b, '}');
  return rc;
}

/* ---- sizes ---- */

static enum qp_rc
emit_size(void *arg, const struct qp_size_row *row)
{
  struct qp__buf *out = arg;

  qp__emit_open(out, NULL, '{');
  qp__emit_uuid(out, "id", &row->id);
  qp__emit_str(out, "title", row->title);
  qp__emit_str(out, "owner", row->owner);
  qp__emit_time(out, "updated_at", row->updated_at);
  qp__emit_uint(out, "messages", row->messages);
  qp__emit_uint(out, "message_bytes", row->bytes);
  qp__emit_uint(out, "metadata_bytes", row->metadata_bytes);
  qp__emit_uint(out, "archived_messages", row->archived_messages);
  qp__emit_uint(out, "archived_bytes", row->archived_bytes);
  qp__emit_uint(out, "trashed_messages", row->trashed_messages);
  qp__emit_uint(out, "trashed_bytes", row->trashed_bytes);
  qp__emit_uint(out, "branch_count", row->branches);
  qp__emit_open(out, "branches", '[');
  for (size_t i = 0; i < row->size_count; i++) {
    qp__emit_open(out, NULL, '{');
    qp__emit_str(out, "name", row->sizes[i].name);
    qp__emit_uint(out, "messages", row->sizes[i].messages);
    qp__emit_uint(out, "message_bytes", row->sizes[i].bytes);
    qp__emit_close(out, '}');
  }
  qp__emit_close(out, ']');
  qp__emit_close(out, '}');
  return out->rc;
}

static enum qp_rc
emit_total(struct qp__request *r, const char *owner, struct qp_err *err)
{
  struct qp__buf *out = &r->reply.body;
  struct qp_size_total total = { 0 };
  enum qp_rc rc = qp_size_sum(r->http->store, owner, &total, err);

  qp__emit_open(out, "total", '{');
  qp__emit_uint(out, "contexts", total.contexts);
  qp__emit_uint(out, "messages", total.messages);
  qp__emit_uint(out, "message_bytes", total.bytes);
  qp__emit_uint(out, "metadata_bytes", total.metadata_bytes);
  qp__emit_uint(out, "archived_messages", total.archived_messages);
  qp__emit_uint(out, "archived_bytes", total.archived_bytes);
  qp__emit_uint(out, "trashed_messages", total.trashed_messages);
  qp__emit_uint(out, "trashed_bytes", total.trashed_bytes);
  qp__emit_close(out, '}');
  return rc;
}

enum qp_rc
qp__h_size_list(struct qp__request *r, struct qp_err *err)
{
  struct qp_size_query query = { .size = sizeof(query), .cursor = qp__request_query(r, "cursor") };
  struct qp__buf *b = &r->reply.body;
  uint64_t limit = LIMIT_DEFAULT;
  char *next = NULL;
  enum qp_rc rc = qp__request_number(r, "limit", 1, LIMIT_MAX, &limit, err);

  if (!rc)
    rc = qp__request_flag(r, "trashed", &query.trashed, err);
  if (!rc)
    rc = qp__owner_asked(r, &query.owner, err);
  if (rc)
    return rc;
  query.limit = (uint32_t)limit;
  qp__emit_open(b, NULL, '{');
  rc = emit_total(r, query.owner, err);
  qp__emit_open(b, "contexts", '[');
  if (!rc)
    rc = qp_size_list(r->http->store, &query, emit_size, b, &next, err);
  qp__emit_page_end(b, next);
  return rc;
}

/* ---- the trash of a context ---- */

struct trash {
  struct qp__buf *out;
  uint64_t left;
  bool more;
};

static enum qp_rc
emit_trash(void *arg, const struct qp_trash_row *row)
{
  struct trash *t = arg;

  if (!t->left) {
    t->more = true;
    return QP_STOPPED;
  }
  t->left--;
  qp__emit_open(t->out, NULL, '{');
  qp__emit_uuid(t->out, "first_message_id", &row->first);
  qp__emit_uuid(t->out, "last_message_id", &row->last);
  qp__emit_uint(t->out, "messages", row->messages);
  qp__emit_uint(t->out, "message_bytes", row->bytes);
  qp__emit_time(t->out, "created_at", row->created_at);
  qp__emit_time(t->out, "trashed_at", row->trashed_at);
  qp__emit_close(t->out, '}');
  return t->out->rc;
}

enum qp_rc
qp__h_trash_list(struct qp__request *r, struct qp_err *err)
{
  struct trash t = { .out = &r->reply.body, .left = LIMIT_DEFAULT };
  enum qp_rc rc = qp__request_number(r, "limit", 1, LIMIT_MAX, &t.left, err);

  if (!rc)
    rc = qp__held_get(r, r->params[0], &r->held, err);
  if (rc)
    return rc;
  qp__emit_open(t.out, NULL, '{');
  qp__emit_open(t.out, "trash", '[');
  rc = qp_trash_list(r->held->context, emit_trash, &t, err);
  qp__emit_close(t.out, ']');
  qp__emit_bool(t.out, "more", t.more);
  qp__emit_close(t.out, '}');
  return rc == QP_STOPPED ? QP_OK : rc;
}

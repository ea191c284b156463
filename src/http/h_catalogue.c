/* h_catalogue.c - lists of contexts, search and the usage of an owner, from the catalogue: no
 * context is opened. */
#include <string.h>

#include "base/err.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 1000
#define OWNER_MAX 256 /* longest owner name of a context in bytes */

static enum qp_rc
read_limit(const struct qp__request *r, uint32_t *out, struct qp_err *err)
{
  uint64_t limit = LIMIT_DEFAULT;
  enum qp_rc rc = qp__request_number(r, "limit", 1, LIMIT_MAX, &limit, err);

  *out = (uint32_t)limit;
  return rc;
}

/* ---- list ---- */

static enum qp_rc
emit_row(void *arg, const struct qp_catalogue_row *row)
{
  struct qp__buf *out = arg;

  qp__emit_open(out, NULL, '{');
  qp__emit_uuid(out, "id", &row->id);
  if (row->rc) {
    qp__emit_str(out, "error", row->error);
    qp__emit_close(out, '}');
    return out->rc;
  }
  qp__emit_str(out, "title", row->title);
  qp__emit_time(out, "created_at", row->created_at);
  qp__emit_time(out, "updated_at", row->updated_at);
  qp__emit_uint(out, "messages", row->messages);
  qp__emit_uint(out, "message_bytes", row->bytes);
  qp__emit_uint(out, "branches", row->branches);
  qp__emit_str(out, "model_id", row->model_id);
  qp__emit_str(out, "mode", row->mode);
  qp__emit_str(out, "state", qp_state_name(row->state));
  qp__emit_str(out, "owner", row->owner);
  qp__emit_str(out, "summary", row->summary);
  qp__emit_bool(out, "needs_migration", row->needs_migration);
  qp__emit_close(out, '}');
  return out->rc;
}

enum qp_rc
qp__h_context_list(struct qp__request *r, struct qp_err *err)
{
  struct qp_catalogue_query query = { .size = sizeof(struct qp_catalogue_query),
                                      .owner = qp__owner(r),
                                      .cursor = qp__request_query(r, "cursor") };
  struct qp__buf *b = &r->reply.body;
  char *next = NULL;
  enum qp_rc rc = read_limit(r, &query.limit, err);

  if (rc)
    return rc;
  qp__emit_open(b, NULL, '{');
  qp__emit_open(b, "contexts", '[');
  rc = qp_catalogue_list(r->http->store, &query, emit_row, b, &next, err);
  qp__emit_page_end(b, next);
  return rc;
}

/* ---- search ---- */

void
qp__emit_snippet(struct qp__buf *out, const char *snippet)
{
  bool match = false;

  qp__emit_open(out, "snippet", '[');
  while (*snippet) {
    size_t n = strcspn(snippet, QP_MARK_BEGIN QP_MARK_END);

    if (n) {
      qp__emit_open(out, NULL, '{');
      qp__emit_strn(out, "text", (struct qp_bytes){ snippet, n });
      qp__emit_bool(out, "match", match);
      qp__emit_close(out, '}');
    }
    snippet += n;
    if (*snippet)
      match = *snippet++ == QP_MARK_BEGIN[0];
  }
  qp__emit_close(out, ']');
}

static enum qp_rc
emit_hit(void *arg, const struct qp_search_hit *hit)
{
  struct qp__buf *out = arg;

  qp__emit_open(out, NULL, '{');
  qp__emit_uuid(out, "context_id", &hit->context);
  qp__emit_str(out, "title", hit->title);
  qp__emit_uuid(out, "message_id", &hit->message);
  qp__emit_str(out, "role", qp_role_name(hit->role));
  qp__emit_time(out, "created_at", hit->created_at);
  qp__emit_snippet(out, hit->snippet);
  qp__emit_close(out, '}');
  return out->rc;
}

enum qp_rc
qp__h_search(struct qp__request *r, struct qp_err *err)
{
  struct qp_search_query query = { .size = sizeof(struct qp_search_query),
                                   .text = qp__request_query(r, "q"),
                                   .owner = qp__owner(r),
                                   .cursor = qp__request_query(r, "cursor") };
  struct qp__buf *b = &r->reply.body;
  char *next = NULL;
  enum qp_rc rc = read_limit(r, &query.limit, err);

  if (!rc && !query.text)
    rc = qp__fail(err, QP_INVALID, "'q' is missing: the words to search for");
  if (rc)
    return rc;
  qp__emit_open(b, NULL, '{');
  qp__emit_open(b, "hits", '[');
  rc = qp_search(r->http->store, &query, emit_hit, b, &next, err);
  qp__emit_page_end(b, next);
  return rc;
}

/* ---- what an owner has stored ---- */

enum qp_rc
qp__h_usage(struct qp__request *r, struct qp_err *err)
{
  const char *owner = NULL;
  struct qp__buf *b = &r->reply.body;
  uint64_t bytes = 0;
  enum qp_rc rc = qp__owner_asked(r, &owner, err);

  if (rc)
    return rc;
  if (!owner || !owner[0] || strlen(owner) > OWNER_MAX)
    return qp__fail(
        err, QP_INVALID,
        "'owner' is missing or too long: this key has no owner, so name one of at most %d bytes",
        OWNER_MAX);
  rc = qp_owner_bytes(r->http->store, owner, 0, &bytes, err);
  if (rc)
    return rc;
  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "owner", owner);
  qp__emit_uint(b, "bytes", bytes);
  if (r->settings->owner_bytes)
    qp__emit_uint(b, "limit", r->settings->owner_bytes);
  else
    qp__emit_str(b, "limit", NULL);
  qp__emit_close(b, '}');
  return QP_OK;
}

/* mcpd.c - what the files of the MCP server share. */
#include "http/mcp/mcpd.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "http/open_contexts.h"

enum qp_rc
qp__mcpd_fail(struct qp__mcpd_call *c, int code, struct qp_err *err, const char *fmt, ...)
{
  va_list args;

  c->code = code;
  err->rc = QP_INVALID;
  va_start(args, fmt);
  (void)vsnprintf(err->msg, sizeof(err->msg), fmt, args);
  va_end(args);
  return QP_INVALID;
}

enum qp_rc
qp__mcpd_run(struct qp__mcpd_call *c, qp__handler *handler, const char *id,
             const struct qp__mcpd_query *query, json_t **out, struct qp_err *err)
{
  struct qp__request *r = c->r;
  enum qp_rc rc;

  r->query_count = 0;
  for (; query && query->name; query++)
    if (query->value) {
      r->query[r->query_count].name = query->name;
      r->query[r->query_count++].value = query->value;
    }
  r->params[0] = id;
  qp__buf_reset(&r->reply.body);
  rc = handler(r, err);
  qp__held_put(r->held);
  r->held = NULL;
  if (!rc)
    rc = qp__json_parse_own_object("a response", qp__buf_bytes(&r->reply.body), out, err);
  qp__buf_reset(&r->reply.body);
  r->reply.status = 0;
  r->reply.header_count = 0;
  r->fail_status = 0;
  return rc;
}

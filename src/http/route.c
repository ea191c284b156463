/* route.c - the route table and its search. */
#include "http/route.h"

#include <string.h>

#include "base/err.h"
#include "http/admission.h"
#include "http/handlers.h"
#include "http/http_int.h"

/* The rows that occur often. tests/e2e/route_table.mjs reads them, too. */
#define READS(path, handle, query)                \
  {                                               \
    "GET", path, handle, QP__SCOPE_READ, 0, query \
  }
#define STORES(method, path, handle, query)                                         \
  {                                                                                 \
    method, path, handle, QP__SCOPE_WRITE, QP__ROUTE_BODY | QP__ROUTE_STORES, query \
  }
#define DELETES(path, handle, query)                  \
  {                                                   \
    "DELETE", path, handle, QP__SCOPE_WRITE, 0, query \
  }
#define ACTION(name, flags)                                                   \
  {                                                                           \
    "POST", "/v1/contexts/{id}/actions/" name, qp__h_action, QP__SCOPE_WRITE, \
        QP__ROUTE_BODY | (flags), "last messages fail"                        \
  }

static const struct qp__route routes[] = {
  { "GET", "/", qp__h_index, QP__SCOPE_NONE, QP__ROUTE_QUICK, NULL },
  { "GET", "/c/{id}", qp__h_page, QP__SCOPE_NONE, QP__ROUTE_QUICK, NULL },
  { "GET", "/favicon.svg", qp__h_favicon, QP__SCOPE_NONE, QP__ROUTE_QUICK, NULL },
  { "GET", "/assets/{name}", qp__h_asset, QP__SCOPE_NONE, QP__ROUTE_QUICK, NULL },
  { "GET", "/healthz", qp__h_healthz, QP__SCOPE_NONE, QP__ROUTE_QUICK, NULL },
  { "GET", "/readyz", qp__h_readyz, QP__SCOPE_NONE, 0, NULL },
  { "GET", "/metrics", qp__h_metrics, QP__SCOPE_READ, QP__ROUTE_GLOBAL, NULL },
  { "GET", "/openapi.json", qp__h_openapi, QP__SCOPE_NONE, QP__ROUTE_QUICK, NULL },

  { "POST", "/mcp", qp__h_mcp, QP__SCOPE_READ, QP__ROUTE_BODY | QP__ROUTE_OWN_KEY, "write" },

  READS("/v1/search", qp__h_search, "q limit cursor"),
  READS("/v1/models", qp__h_models, NULL),
  READS("/v1/tools", qp__h_tools, NULL),
  READS("/v1/tools/rules", qp__h_rule_list, NULL),
  DELETES("/v1/tools/rules/{id}", qp__h_rule_delete, NULL),
  READS("/v1/usage", qp__h_usage, "owner"),
  READS("/v1/usage/report", qp__h_usage_report, "owner days utc_offset limit"),
  READS("/v1/sizes", qp__h_size_list, "owner trashed limit cursor"),
  READS("/v1/contexts", qp__h_context_list, "limit cursor"),
  STORES("POST", "/v1/contexts", qp__h_context_create, NULL),
  READS("/v1/contexts/{id}", qp__h_context_get, "messages"),
  STORES("PATCH", "/v1/contexts/{id}", qp__h_context_update, NULL),
  STORES("PUT", "/v1/contexts/{id}", qp__h_context_update, NULL),
  DELETES("/v1/contexts/{id}", qp__h_context_delete, "erase"),
  READS("/v1/contexts/{id}/size", qp__h_context_size, NULL),
  READS("/v1/contexts/{id}/trash", qp__h_trash_list, "limit"),

  READS("/v1/contexts/{id}/outline", qp__h_outline, "branch max from to"),
  READS("/v1/contexts/{id}/previews", qp__h_previews, "ids"),
  READS("/v1/contexts/{id}/find", qp__h_find, "q message branch limit cursor"),

  READS("/v1/contexts/{id}/messages", qp__h_message_list, "branch limit offset cursor order"),
  STORES("POST", "/v1/contexts/{id}/messages", qp__h_message_save, "branch last"),
  { "GET", "/v1/contexts/{id}/state", qp__h_state, QP__SCOPE_READ, QP__ROUTE_QUICK, "last" },

  READS("/v1/contexts/{id}/events", qp__h_events, "after"),

  ACTION("send_message", QP__ROUTE_STORES),
  ACTION("approve_tools", 0),
  ACTION("cancel", 0),
  ACTION("retry", QP__ROUTE_STORES),
  ACTION("regenerate", QP__ROUTE_STORES),
  ACTION("edit_message", QP__ROUTE_STORES),
  ACTION("switch_branch", 0),
  ACTION("submit_tool_results", QP__ROUTE_STORES),
  ACTION("compact", QP__ROUTE_STORES),
  ACTION("undo_compact", 0),
  ACTION("redo_compact", 0),
  ACTION("edit_summary", QP__ROUTE_STORES),
  ACTION("expand", 0),
  ACTION("pin", 0),
  ACTION("unpin", 0),
  READS("/v1/contexts/{id}/compactions", qp__h_compaction_list, "branch"),
  READS("/v1/contexts/{id}/view", qp__h_view, "branch"),
  { "POST", "/v1/contexts/{id}/tools/approve", qp__h_action, QP__SCOPE_WRITE, QP__ROUTE_BODY,
    "last messages fail" },

  READS("/v1/contexts/{id}/queue", qp__h_queue_list, NULL),
  { "POST", "/v1/contexts/{id}/queue", qp__h_queue_add, QP__SCOPE_WRITE,
    QP__ROUTE_BODY | QP__ROUTE_STORES | QP__ROUTE_OWN_KEY, NULL },
  STORES("PATCH", "/v1/contexts/{id}/queue/{item}", qp__h_queue_edit, NULL),
  DELETES("/v1/contexts/{id}/queue/{item}", qp__h_queue_drop, NULL),
  { "POST", "/v1/contexts/{id}/queue/{item}/send", qp__h_queue_send, QP__SCOPE_WRITE, 0, NULL },

  READS("/v1/contexts/{id}/branches", qp__h_branch_list, NULL),
  STORES("POST", "/v1/contexts/{id}/branches", qp__h_branch_fork, NULL),
  READS("/v1/contexts/{id}/branches/{name}", qp__h_branch_get, NULL),
  STORES("PUT", "/v1/contexts/{id}/branches/{name}", qp__h_branch_update, NULL),
  STORES("PATCH", "/v1/contexts/{id}/branches/{name}", qp__h_branch_update, NULL),
  DELETES("/v1/contexts/{id}/branches/{name}", qp__h_branch_delete, NULL),

  READS("/v1/system-prompts", qp__h_prompt_list, NULL),
  STORES("POST", "/v1/system-prompts", qp__h_prompt_create, NULL),
  READS("/v1/system-prompts/{id}", qp__h_prompt_get, NULL),
  STORES("PUT", "/v1/system-prompts/{id}", qp__h_prompt_update, NULL),
  STORES("PATCH", "/v1/system-prompts/{id}", qp__h_prompt_update, NULL),
  DELETES("/v1/system-prompts/{id}", qp__h_prompt_delete, NULL),

  READS("/v1/sessions", qp__h_session_list, NULL),
  STORES("POST", "/v1/sessions", qp__h_session_create, NULL),
  READS("/v1/sessions/{id}", qp__h_session_get, NULL),
  STORES("PATCH", "/v1/sessions/{id}", qp__h_session_update, NULL),
  DELETES("/v1/sessions/{id}", qp__h_session_delete, "erase"),
  READS("/v1/sessions/{id}/messages", qp__h_session_messages, "last"),
  STORES("POST", "/v1/sessions/{id}/messages", qp__h_session_append, NULL),

  READS("/v1/jobs", qp__h_job_list, NULL),
  READS("/v1/jobs/{id}", qp__h_job_get, NULL),
  DELETES("/v1/jobs/{id}", qp__h_job_cancel, NULL),
  READS("/v1/jobs/{id}/events", qp__h_job_events, NULL),
  { "POST", "/v1/import", qp__h_import, QP__SCOPE_WRITE,
    QP__ROUTE_BODY | QP__ROUTE_UPLOAD | QP__ROUTE_STORES, NULL },
  { "POST", "/v1/maintenance/check", qp__h_maintenance, QP__SCOPE_WRITE, QP__ROUTE_BODY, NULL },
  { "POST", "/v1/maintenance/gc", qp__h_maintenance, QP__SCOPE_WRITE, QP__ROUTE_BODY, NULL },
  { "POST", "/v1/maintenance/archive", qp__h_maintenance, QP__SCOPE_WRITE, QP__ROUTE_BODY, NULL },
  { "POST", "/v1/maintenance/compress", qp__h_maintenance, QP__SCOPE_WRITE, QP__ROUTE_BODY, NULL },
  { "POST", "/v1/maintenance/decompress", qp__h_maintenance, QP__SCOPE_WRITE, QP__ROUTE_BODY,
    NULL },
  { "POST", "/v1/maintenance/reindex", qp__h_maintenance, QP__SCOPE_ADMIN,
    QP__ROUTE_BODY | QP__ROUTE_GLOBAL, NULL },
  { "POST", "/v1/maintenance/migrate", qp__h_maintenance, QP__SCOPE_ADMIN,
    QP__ROUTE_BODY | QP__ROUTE_GLOBAL, NULL },

  /* Other protocols; each has its own contract in api/. */
  { "POST", "/openai/v1/chat/completions", qp__h_openai_chat, QP__SCOPE_WRITE,
    QP__ROUTE_BODY | QP__ROUTE_STORES | QP__ROUTE_OWN_KEY, NULL },
  READS("/openai/v1/models", qp__h_openai_models, NULL),
  READS("/openai/v1/models/{id}", qp__h_openai_model, NULL),
  { "POST", "/openai/v1/responses", qp__h_response_create, QP__SCOPE_WRITE,
    QP__ROUTE_BODY | QP__ROUTE_STORES | QP__ROUTE_OWN_KEY, NULL },
  STORES("POST", "/openai/v1/responses/compact", qp__h_response_compact, NULL),
  { "POST", "/openai/v1/responses/input_tokens", qp__h_response_count, QP__SCOPE_READ,
    QP__ROUTE_BODY, NULL },
  READS("/openai/v1/responses/{id}", qp__h_response_get,
        "include[] stream starting_after include_obfuscation"),
  DELETES("/openai/v1/responses/{id}", qp__h_response_delete, NULL),
  { "POST", "/openai/v1/responses/{id}/cancel", qp__h_response_cancel, QP__SCOPE_WRITE,
    QP__ROUTE_BODY, NULL },
  READS("/openai/v1/responses/{id}/input_items", qp__h_response_inputs,
        "include[] after limit order"),
  STORES("POST", "/openai/v1/conversations", qp__h_conversation_create, NULL),
  READS("/openai/v1/conversations/{id}", qp__h_conversation_get, NULL),
  STORES("POST", "/openai/v1/conversations/{id}", qp__h_conversation_update, NULL),
  DELETES("/openai/v1/conversations/{id}", qp__h_conversation_delete, NULL),
  READS("/openai/v1/conversations/{id}/items", qp__h_items_list, "include[] after limit order"),
  STORES("POST", "/openai/v1/conversations/{id}/items", qp__h_items_add, "include[]"),
  READS("/openai/v1/conversations/{id}/items/{item}", qp__h_item_get, "include[]"),
  DELETES("/openai/v1/conversations/{id}/items/{item}", qp__h_item_delete, NULL),
  { "POST", "/ai/chat", qp__h_ai_chat, QP__SCOPE_WRITE,
    QP__ROUTE_BODY | QP__ROUTE_STORES | QP__ROUTE_OWN_KEY, NULL },
  READS("/ai/chat/{id}", qp__h_ai_messages, NULL),
  READS("/ai/chat/{id}/stream", qp__h_ai_stream, NULL),
  { "POST", "/ai/chat/{id}/stop", qp__h_ai_stop, QP__SCOPE_WRITE, QP__ROUTE_BODY, NULL },
  { "POST", "/anthropic/v1/messages", qp__h_anthropic_messages, QP__SCOPE_WRITE,
    QP__ROUTE_BODY | QP__ROUTE_STORES | QP__ROUTE_OWN_KEY, "beta" },
  { "POST", "/anthropic/v1/messages/count_tokens", qp__h_anthropic_count, QP__SCOPE_READ,
    QP__ROUTE_BODY, "beta" },
};

enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };
_Static_assert(ROUTE_COUNT <= QP__ROUTES_MAX, "metrics has a row for each route");

size_t
qp__route_count(void)
{
  return ROUTE_COUNT;
}

const struct qp__route *
qp__route_at(size_t number)
{
  return &routes[number];
}

size_t
qp__route_number(const struct qp__route *route)
{
  return route ? (size_t)(route - routes) : QP__ROUTES_MAX;
}

/* ---- finding ---- */

/* The number of bytes of `pattern` if its segment is equal, ended by '/' or its end; otherwise
 * 0. */
static size_t
same_segment(const char *pattern, const char *segment)
{
  size_t n = 0;

  while (segment[n] && segment[n] == pattern[n])
    n++;
  return !segment[n] && (!pattern[n] || pattern[n] == '/') ? n : 0;
}

/* Whether the decoded path matches the pattern; params receives the values of its {…}. */
static bool
fits(const struct qp__request *r, const char *pattern, const char *params[2])
{
  size_t count = 0;
  size_t i = 0;

  while (pattern[0] && pattern[1]) {
    const char *segment;
    size_t n;

    if (i == r->segment_count)
      return false;
    segment = r->segments[i];
    if (*++pattern == '{') {
      params[count++] = segment;
      n = segment[0] ? strcspn(pattern, "/") : 0;
    } else if ((n = same_segment(pattern, segment)) == 0 && i == 0 &&
               strncmp(pattern, "v1/", 3) == 0 && strcmp(segment, "api") == 0) {
      n = 2;
    }
    if (!n)
      return false;
    i++;
    pattern += n;
  }
  return i == r->segment_count;
}

/* A HEAD is a GET whose body is not sent. */
static bool
is_method(const struct qp__route *route, const char *method)
{
  return strcmp(route->method, method) == 0 ||
         (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* Whether `name` is one of the words in `list`. */
static bool
in_list(const char *list, const char *name)
{
  size_t len = strlen(name);

  while (list && *list) {
    size_t n = strcspn(list, " ");

    if (n == len && memcmp(list, name, n) == 0)
      return true;
    list += n + (list[n] == ' ');
  }
  return false;
}

static enum qp_rc
check_query(const struct qp__request *r, struct qp_err *err)
{
  for (size_t i = 0; i < r->query_count; i++)
    if (!in_list(r->route->query, r->query[i].name))
      return qp__fail(err, QP_INVALID, "unknown query parameter '%.60s'%s%s", r->query[i].name,
                      r->route->query ? "; allowed: " : "; none is allowed here",
                      r->route->query ? r->route->query : "");
  return QP_OK;
}

/* The methods of all matching rows, for Allow; NULL: out of memory. */
static const char *
allowed(struct qp__request *r)
{
  const char *params[2];
  struct qp__buf list;
  const char *text;

  qp__buf_init(&list, 200);
  for (size_t i = 0; i < ROUTE_COUNT; i++)
    if (fits(r, routes[i].path, params))
      (void)qp__buf_addf(&list, "%s, %s", routes[i].method,
                         strcmp(routes[i].method, "GET") == 0 ? "HEAD, " : "");
  (void)qp__buf_add_str(&list, "OPTIONS");
  text = list.rc ? NULL : qp__arena_strdup(&r->arena, list.data);
  qp__buf_release(&list);
  return text;
}

/* Answers the preflight request of a browser for a page of another origin, and requests for the
 * methods of a path. */
static void
answer_options(struct qp__request *r, const char *allow)
{
  r->reply.status = MHD_HTTP_NO_CONTENT;
  qp__reply_header(r, "Allow", allow);
  if (!qp__guard_is_cross(r))
    return;
  qp__reply_header(r, "Access-Control-Allow-Methods", allow);
  qp__reply_header(r, "Access-Control-Allow-Headers",
                   "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
                   "Last-Event-ID, Prefer");
  qp__reply_header(r, "Access-Control-Max-Age", "600");
}

/* Names the right base URL to a client of another protocol that has a wrong one. */
static enum qp_rc
refuse_path(const struct qp__request *r, struct qp_err *err)
{
  static const struct {
    const char *before, *last; /* segments at the end of the path; NULL: any */
    const char *base;          /* of the client */
  } calls[] = {
    { "chat", "completions", "/openai/v1" },      { NULL, "responses", "/openai/v1" },
    { NULL, "conversations", "/openai/v1" },      { "v1", "messages", "/anthropic" },
    { "messages", "count_tokens", "/anthropic" },
  };
  size_t n = r->segment_count;
  const char *last = n ? r->segments[n - 1] : "";
  const char *before = n > 1 ? r->segments[n - 2] : "";

  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    if (strcmp(last, calls[i].last) == 0 && strcmp(r->method, "POST") == 0 &&
        (!calls[i].before || strcmp(before, calls[i].before) == 0) &&
        strncmp(r->path, "/openai/v1/", 11) != 0)
      return qp__fail(err, QP_NOTFOUND,
                      "No such path; the base URL for this protocol ends with %s (docs/openai.md)",
                      calls[i].base);
  return qp__fail(err, QP_NOTFOUND, "No such path");
}

enum qp_rc
qp__route_find(struct qp__request *r, struct qp_err *err)
{
  const char *params[2] = { NULL, NULL };
  const char *allow;
  bool known = false;

  for (size_t i = 0; i < ROUTE_COUNT; i++) {
    if (!fits(r, routes[i].path, params))
      continue;
    known = true;
    if (!is_method(&routes[i], r->method))
      continue;
    r->route = &routes[i];
    memcpy(r->params, params, sizeof(params));
    return check_query(r, err);
  }
  if (strcmp(r->path, "*") == 0 && strcmp(r->method, "OPTIONS") == 0) {
    qp__reply_header(r, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    r->reply.status = MHD_HTTP_NO_CONTENT;
    return QP_OK;
  }
  if (!known)
    return refuse_path(r, err);
  allow = allowed(r);
  if (!allow)
    return qp__fail_nomem(err, "finding the methods of a path");
  if (strcmp(r->method, "OPTIONS") == 0) {
    answer_options(r, allow);
    return QP_OK;
  }
  qp__reply_header(r, "Allow", allow);
  return qp__request_fail(r, MHD_HTTP_METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", err,
                          "%.20s is not allowed on this path; allowed: %s", r->method, allow);
}

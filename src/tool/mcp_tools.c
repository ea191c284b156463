/* mcp_tools.c - the tools of an MCP server as a source of tools: the list, calls and results.
 *
 * The list is read page by page into `pages` and replaces the old one after the last page. The
 * model sees a tool as mcp__SERVER__TOOL, with every character that a provider refuses replaced by
 * '_'. If that name is too long or used already, it ends with a hash of both names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "tool/mcp_int.h"

#define PAGES_MAX 100
#define TOOLS_MAX 1000
#define NAME_MAX_LEN 64 /* what providers accept */
#define HASH_LEN 9      /* '_' and eight digits */
#define ROUNDS_MAX 8
#define SCHEMA_MAX ((size_t)1 << 20)
#define EMPTY_SCHEMA "{\"type\":\"object\"}"

/* ---- names ---- */

static uint32_t
hash(const char *a, const char *b)
{
  uint32_t h = 2166136261u;

  for (; *a; a++)
    h = (h ^ (unsigned char)*a) * 16777619u;
  h = (h ^ '/') * 16777619u;
  for (; *b; b++)
    h = (h ^ (unsigned char)*b) * 16777619u;
  return h;
}

/* `hashed`: the plain form is too long or used already. */
static void
make_name(char out[NAME_MAX_LEN + 1], const char *server, const char *tool, bool hashed)
{
  char whole[400];
  int n = snprintf(whole, sizeof(whole), "mcp__%s__%s", server, tool);
  size_t len = n < 0 ? 0 : strlen(whole);

  for (size_t i = 0; i < len; i++)
    if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", whole[i]))
      whole[i] = '_';
  if (len > NAME_MAX_LEN)
    hashed = true;
  if (hashed && len > NAME_MAX_LEN - HASH_LEN)
    len = NAME_MAX_LEN - HASH_LEN;
  memcpy(out, whole, len);
  out[len] = 0;
  if (hashed)
    (void)snprintf(out + len, HASH_LEN + 1, "_%08x", hash(server, tool));
}

/* ---- the list ---- */

void
qp__mcp_ask_list(struct qp__mcp *server)
{
  struct qp_err err;

  json_decref(server->pages);
  server->pages = json_array();
  server->page_count = 0;
  server->listing = true;
  if (server->pages) {
    qp__mcp_ask(server, QP__MCP_LIST, "tools/list", json_object());
  } else {
    (void)qp__fail_nomem(&err, "the tools of an MCP server");
    qp__mcp_fail(server, err.msg);
  }
}

static const char *
text_at(const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  const char *text = json_string_value(value);

  return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* NULL: no memory. */
static const char *
copy_json(struct qp__arena *memory, const json_t *value)
{
  struct qp__buf text;
  const char *copy = NULL;

  qp__buf_init(&text, SCHEMA_MAX);
  if (qp__json_write(&text, value) == QP_OK)
    copy = qp__arena_strndup(memory, text.data, text.len);
  else if (text.rc == QP_TOOBIG)
    copy = EMPTY_SCHEMA;
  qp__buf_release(&text);
  return copy;
}

static bool
is_taken(const struct qp__tool *list, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i].name, name) == 0)
      return true;
  return false;
}

/* Fills list[i] and names[i]. False: no memory. */
static bool
describe(struct qp__mcp *server, struct qp__arena *memory, const json_t *tool,
         struct qp__tool *list, char **names, size_t i)
{
  const char *server_name = server->config.name;
  const json_t *annotations = json_object_get(tool, "annotations");
  const json_t *schema = json_object_get(tool, "inputSchema");
  const char *raw = text_at(tool, "name");
  const char *title = text_at(tool, "title");
  const char *description = text_at(tool, "description");
  json_t *hints = json_pack("{s:s, s:s, s:s, s:s}", "icon", "plug", "server", server_name, "tool",
                            raw, "result", "text");
  char name[NAME_MAX_LEN + 1];

  make_name(name, server_name, raw, false);
  if (is_taken(list, i, name))
    make_name(name, server_name, raw, true);
  if (!title)
    title = text_at(annotations, "title");
  names[i] = qp__arena_strdup(memory, raw);
  list[i] = (struct qp__tool){
    .name = qp__arena_strdup(memory, name),
    .title = qp__arena_strdup(memory, title ? title : raw),
    .description = qp__arena_strdup(memory, description ? description : ""),
    .schema = json_is_object(schema) ? copy_json(memory, schema) : EMPTY_SCHEMA,
    .display = QP_DISPLAY_COLLAPSIBLE,
    .ui_hints = hints ? copy_json(memory, hints) : NULL,
    .changes =
        !(server->config.trusted && json_is_true(json_object_get(annotations, "readOnlyHint"))),
    .source = server_name,
  };
  json_decref(hints);
  return names[i] && list[i].name && list[i].title && list[i].description && list[i].schema &&
         list[i].ui_hints;
}

static int
compare_tools(const void *a, const void *b)
{
  const json_t *const *x = a;
  const json_t *const *y = b;

  return strcmp(text_at(*x, "name"), text_at(*y, "name"));
}

/* Puts what has been read in the place of the old list. */
static bool
swap_list(struct qp__mcp *server)
{
  size_t count = json_array_size(server->pages);
  struct qp__arena memory = { NULL };
  struct qp__tool *list = qp__arena_alloc(&memory, (count + 1) * sizeof(*list));
  char **names = qp__arena_alloc(&memory, (count + 1) * sizeof(*names));
  const json_t **sorted = qp__arena_alloc(&memory, (count + 1) * sizeof(*sorted));
  bool good = list && names && sorted;
  size_t kept = 0;

  for (size_t i = 0; i < count && good; i++)
    sorted[i] = json_array_get(server->pages, i);
  if (good && count > 0)
    qsort(sorted, count, sizeof(*sorted), compare_tools);
  for (size_t i = 0; i < count && good; i++) {
    if (i > 0 && compare_tools(&sorted[i - 1], &sorted[i]) == 0)
      continue; /* listed twice */
    good = describe(server, &memory, sorted[i], list, names, kept);
    kept++;
  }
  if (!good) {
    qp__arena_release(&memory);
    return false;
  }
  qp__arena_release(&server->memory);
  server->memory = memory;
  server->list = list;
  server->names = names;
  server->source.count = kept;
  return true;
}

/* Adds the tools of a page; what has no name is left out. False: no memory. */
static bool
add_page(struct qp__mcp *server, const json_t *tools)
{
  for (size_t i = 0; i < json_array_size(tools); i++) {
    json_t *tool = json_array_get(tools, i);
    const char *name = text_at(tool, "name");

    if (!name || !*name || json_array_size(server->pages) >= TOOLS_MAX)
      continue;
    if (json_array_append(server->pages, tool))
      return false;
  }
  return true;
}

static void
finish_list(struct qp__mcp *server)
{
  bool good = swap_list(server);

  server->listing = false;
  json_decref(server->pages);
  server->pages = NULL;
  if (!good) {
    qp__mcp_fail(server, "out of memory");
    return;
  }
  if (!server->first)
    qp__tools_tell_change(server->tools); /* otherwise the end of the start reports it */
  if (server->list_again) {
    server->list_again = false;
    qp__mcp_ask_list(server);
  }
  qp__mcp_listed(server);
}

void
qp__mcp_take_list(struct qp__mcp *server, const json_t *result)
{
  const json_t *tools = json_object_get(result, "tools");
  const char *cursor = json_string_value(json_object_get(result, "nextCursor"));

  if (!json_is_array(tools))
    qp__mcp_fail(server, "its list of tools has no \"tools\"");
  else if (!add_page(server, tools))
    qp__mcp_fail(server, "out of memory");
  else if (cursor && ++server->page_count < PAGES_MAX)
    qp__mcp_ask(server, QP__MCP_LIST, "tools/list", json_pack("{s:s}", "cursor", cursor));
  else
    finish_list(server);
}

/* ---- calls ---- */

static void
free_call(struct qp__mcp_call *call)
{
  struct qp__mcp_call **at = &call->server->calls;

  while (*at != call)
    at = &(*at)->next;
  *at = call->next;
  json_decref(call->arguments);
  json_decref(call->more);
  qp__free(call->tool);
  qp__free(call);
}

void
qp__mcp_fail_call(struct qp__mcp_call *call, const char *why)
{
  qp__tool_run_fail(call->call, why);
  free_call(call);
}

void
qp__mcp_fail_calls(struct qp__mcp *server, const char *why)
{
  while (server->calls)
    qp__mcp_fail_call(server->calls, why);
}

static enum qp_rc
send_call(struct qp__mcp_call *call, struct qp_err *err)
{
  json_t *params = json_pack("{s:s, s:O}", "name", call->tool, "arguments", call->arguments);
  const char *key;
  json_t *value;
  int bad = !params;

  json_object_foreach (call->more, key, value)
    bad = bad || json_object_set(params, key, value);
  params = qp__json_built(params, bad);
  return qp__mcp_request(call->server, QP__MCP_CALL, "tools/call", params, call, err);
}

void
qp__mcp_send_calls(struct qp__mcp *server)
{
  struct qp__mcp_call *next;

  for (struct qp__mcp_call *call = server->calls; call; call = next) {
    struct qp_err err = { QP_OK, "" };

    next = call->next;
    if (call->id == 0 && send_call(call, &err))
      qp__mcp_fail_call(call, err.msg);
  }
}

static void
source_call(void *self, const struct qp__tool *tool, json_t *arguments, struct qp__tool_run *call)
{
  struct qp__mcp *server = self;
  struct qp__mcp_call *c = qp__alloc0(1, sizeof(*c));
  struct qp_err err = { QP_OK, "" };
  bool awake;

  if (c)
    c->tool = qp__strdup(server->names[tool - server->list]);
  if (!c || !c->tool) {
    qp__free(c);
    qp__tool_run_end(call, QP__TOOL_FAILED, NULL, false);
    return;
  }
  awake = qp__mcp_wake(server, &err);
  c->server = server;
  c->call = call;
  c->arguments = json_incref(arguments);
  c->next = server->calls;
  server->calls = c;
  call->work = c;
  if (!awake)
    qp__mcp_fail_call(c, err.msg);
  else if (server->state == QP__MCP_READY && send_call(c, &err))
    qp__mcp_fail_call(c, err.msg);
}

static void
source_cancel(void *self, struct qp__tool_run *call)
{
  struct qp__mcp_call *c = call->work;

  if (c->id)
    qp__mcp_cancel(self, c->id);
  free_call(c);
}

/* ---- results ---- */

/* The server's questions during a call, in the stateless era, and their answers. New; NULL with a
 * sentence: they cannot be answered. */
static json_t *
answer_inputs(struct qp__mcp *server, const json_t *result, struct qp_err *err)
{
  json_t *state = json_object_get(result, "requestState");
  json_t *more = json_object();
  json_t *answers = json_object();
  const char *key;
  json_t *request;
  int bad = !more || !answers;

  json_object_foreach (json_object_get(result, "inputRequests"), key, request) {
    const char *method = text_at(request, "method");
    int64_t code = 0;
    json_t *answer = qp__mcp_answer(server, method ? method : "", &code);

    if (!answer && code) {
      json_decref(more);
      json_decref(answers);
      (void)qp__fail(err, QP_INVALID, "the tool asks for \"%.60s\", which quipu does not support",
                     method ? method : "?");
      return NULL;
    }
    bad = json_object_set_new(answers, key, answer) || bad; /* owns it in any case */
  }
  bad = bad || json_object_set(more, "inputResponses", answers);
  if (state)
    bad = bad || json_object_set(more, "requestState", state);
  json_decref(answers);
  if (bad) {
    json_decref(more);
    (void)qp__fail_nomem(err, "answering an MCP server");
    return NULL;
  }
  return more;
}

static void
go_on(struct qp__mcp_call *call, const json_t *result)
{
  struct qp_err err = { QP_OK, "" };
  json_t *more;

  if (++call->rounds > ROUNDS_MAX) {
    qp__mcp_fail_call(call, "the tool repeats its questions and returns no result");
    return;
  }
  more = answer_inputs(call->server, result, &err);
  json_decref(call->more);
  call->more = more;
  if (!more || send_call(call, &err))
    qp__mcp_fail_call(call, err.msg);
}

static bool
is_text(const json_t *block)
{
  const char *type = text_at(block, "type");

  return type && strcmp(type, "text") == 0 && json_is_string(json_object_get(block, "text"));
}

/* Text blocks are joined to one text; a list with other blocks stays as it is. New; NULL: out of
 * memory. */
static json_t *
join_content(json_t *content)
{
  struct qp__buf text;

  for (size_t i = 0; i < json_array_size(content); i++)
    if (!is_text(json_array_get(content, i)))
      return json_incref(content);
  qp__buf_init(&text, QP__MCP_MESSAGE_MAX);
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *part = json_object_get(json_array_get(content, i), "text");

    if (i > 0)
      (void)qp__buf_add_char(&text, '\n');
    (void)qp__buf_add(&text, json_string_value(part), json_string_length(part));
  }
  return qp__json_take(&text);
}

void
qp__mcp_take_result(struct qp__mcp_call *call, const json_t *result)
{
  json_t *content = json_object_get(result, "content");
  json_t *structured = json_object_get(result, "structuredContent");
  const char *type = text_at(result, "resultType");
  json_t *value;
  bool failed = json_is_true(json_object_get(result, "isError"));

  call->id = 0;
  if (type && strcmp(type, "input_required") == 0) {
    go_on(call, result);
    return;
  }
  if (!json_is_array(content) && !structured) {
    qp__mcp_fail_call(call, "the tool answered without any content");
    return;
  }
  if (structured && json_array_size(content) == 0)
    value = json_incref(structured);
  else
    value = join_content(content);
  qp__tool_run_end(call->call, failed ? QP__TOOL_FAILED : QP__TOOL_DONE, value, false);
  free_call(call);
}

/* ---- the source ---- */

static const struct qp__tool *
source_at(void *self, size_t i)
{
  const struct qp__mcp *server = self;

  return &server->list[i];
}

void
qp__mcp_source_init(struct qp__mcp *server)
{
  server->source.self = server;
  server->source.at = source_at;
  server->source.call = source_call;
  server->source.cancel = source_cancel;
}

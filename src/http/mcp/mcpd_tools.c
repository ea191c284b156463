/* mcpd_tools.c - the tools of the MCP server.
 *
 * Wrong arguments and failures are results with "isError", so that the model can mend its call. A
 * result has a text that can be read, and the same as "structuredContent". */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "http/conditional_change.h"
#include "http/handlers.h"
#include "http/mcp/mcpd.h"
#include "http/quota.h"
#include "model/message.h"

#define TEXT_MAX ((size_t)1 << 20)
#define MESSAGE_TEXT_MAX 20000 /* bytes of one message in a transcript */

static qp__mcpd_method search, list, read_one, save, branch;

#define STRING(what) "{\"type\":\"string\",\"description\":\"" what "\"}"
#define LIMIT(max, preset)                                                                      \
  "{\"type\":\"integer\",\"minimum\":1,\"maximum\":" #max ",\"description\":\"default " #preset \
  "\"}"
#define SCHEMA(properties, required)                                                  \
  "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]," \
  "\"additionalProperties\":false}"

static const struct tool {
  const char *name, *title, *description, *schema;
  bool changes;
  qp__mcpd_method *run;
} tools[] = {
  { "search_conversations", "Search conversations",
    "Finds messages in all stored conversations by their words. \"quotes\" keep words "
    "together. "
    "Returns the conversation, the message and the text around the match.",
    SCHEMA("\"query\":" STRING("the words to search for") ",\"limit\":" LIMIT(
               50, 10) ",\"cursor\":" STRING("next_cursor of the page before"),
           "\"query\""),
    false, search },
  { "list_conversations", "List conversations",
    "Lists conversations, the one that was changed last first, with id, title and time.",
    SCHEMA("\"limit\":" LIMIT(100, 20) ",\"cursor\":" STRING("next_cursor of the page before"), ""),
    false, list },
  { "read_conversation", "Read a conversation",
    "Shows messages of a conversation: the newest ones, or with order \"oldest\" from the "
    "beginning.",
    SCHEMA("\"id\":" STRING("the id of the conversation") ",\"branch\":" STRING(
               "default: the active branch") ",\"order\":{\"type\":\"string\",\"enum\":["
                                             "\"newest\",\"oldest\"],\"description\":\"default "
                                             "newest\"},\"limit\":" LIMIT(
                                                 200, 30) ",\"cursor\":" STRING("next_cursor of "
                                                                                "the page before"),
           "\"id\""),
    false, read_one },
  { "save_message", "Save a message",
    "Appends a message to a conversation as it is. Without \"id\" a new conversation begins.",
    SCHEMA("\"id\":" STRING("the id of the conversation") ",\"text\":" STRING(
               "the text of the message") ",\"role\":{\"type\":\"string\",\"enum\":[\"user\","
                                          "\"assistant\",\"system\"],\"description\":\"default "
                                          "user\"},\"branch\":" STRING(
                                              "default: the active branch") ",\"title\""
                                                                            ":" STRING("of a "
                                                                                       "new "
                                                                                       "convers"
                                                                                       "ation"),
           "\"text\""),
    true, save },
  { "branch", "Branch a conversation",
    "Begins a branch of a conversation at a message, by default at its end. The other branches "
    "stay as they are.",
    SCHEMA("\"id\":" STRING("the id of the conversation") ",\"name\":" STRING(
               "the name of the new branch") ",\"at\":" STRING("the id of its last message"),
           "\"id\",\"name\""),
    true, branch },
};

enum { TOOLS = sizeof(tools) / sizeof(tools[0]) };

/* ---- the list ---- */

static json_t *
describe(const struct tool *tool)
{
  json_t *schema = NULL;
  struct qp_err err;

  if (qp__json_parse_own_object(tool->name, (struct qp_bytes){ tool->schema, strlen(tool->schema) },
                                &schema, &err))
    return NULL;
  return json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:b, s:b, s:b, s:b}}", "name", tool->name, "title",
                   tool->title, "description", tool->description, "inputSchema", schema,
                   "annotations", "title", tool->title, "readOnlyHint", !tool->changes,
                   "destructiveHint", 0, "idempotentHint", !tool->changes, "openWorldHint", 0);
}

enum qp_rc
qp__mcpd_tool_list(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  json_t *array = json_array();
  int bad = !array;

  if (qp__json_text(c->params, "cursor")) {
    json_decref(array);
    return qp__mcpd_fail(c, QP__MCPD_INVALID_PARAMS, err,
                         "invalid cursor: the list of tools has only one page");
  }
  for (size_t i = 0; !bad && i < TOOLS; i++)
    if (!tools[i].changes || c->may_change)
      bad = json_array_append_new(array, describe(&tools[i]));
  *out = bad ? NULL : json_pack("{s:O}", "tools", array);
  json_decref(array);
  return *out ? QP_OK : qp__fail_nomem(err, "a response");
}

/* ---- reading ---- */

/* The text of an argument that is a number or a string; in the arena. */
static const char *
argument(struct qp__mcpd_call *c, const char *key, const char *preset)
{
  const json_t *value = json_object_get(c->params, key);
  char digits[32];

  if (json_is_string(value))
    return json_string_value(value);
  if (!json_is_integer(value))
    return preset;
  (void)snprintf(digits, sizeof(digits), "%lld", (long long)json_integer_value(value));
  return qp__arena_strdup(&c->r->arena, digits);
}

static enum qp_rc
search(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const struct qp__mcpd_query query[] = { { "q", argument(c, "query", NULL) },
                                          { "limit", argument(c, "limit", "10") },
                                          { "cursor", argument(c, "cursor", NULL) },
                                          { 0 } };

  if (!query[0].value)
    return qp__fail(err, QP_INVALID, "\"query\" is missing: the words to search for");
  return qp__mcpd_run(c, qp__h_search, NULL, query, out, err);
}

static enum qp_rc
list(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const struct qp__mcpd_query query[] = { { "limit", argument(c, "limit", "20") },
                                          { "cursor", argument(c, "cursor", NULL) },
                                          { 0 } };

  return qp__mcpd_run(c, qp__h_context_list, NULL, query, out, err);
}

static enum qp_rc
read_one(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const char *cursor = argument(c, "cursor", NULL);
  const struct qp__mcpd_query query[] = {
    { "branch", argument(c, "branch", NULL) },
    { "limit", argument(c, "limit", "30") },
    { "order", argument(c, "order", cursor ? NULL : "newest") },
    { "cursor", cursor },
    { 0 },
  };
  const char *id = argument(c, "id", NULL);

  if (!id)
    return qp__fail(err, QP_INVALID, "\"id\" is missing: the id of the conversation");
  return qp__mcpd_run(c, qp__h_message_list, id, query, out, err);
}

/* ---- changing ---- */

/* Gives a handler another body. */
static enum qp_rc
set_body(struct qp__request *r, json_t *body, struct qp_err *err)
{
  enum qp_rc rc = body ? QP_OK : qp__fail_nomem(err, "a request");

  qp__buf_reset(&r->body);
  if (!rc && qp__json_write(&r->body, body))
    rc = qp__buf_check(&r->body, "a request", err);
  json_decref(body);
  return rc;
}

/* The message is saved here and not by the handler, which does not wait for the disk. */
static enum qp_rc
append(struct qp__mcpd_call *c, const char *id, struct qp_uuid *saved, struct qp_err *err)
{
  const char *role = argument(c, "role", "user");
  json_t *object = json_pack("{s:s, s:O}", "role", role ? role : "user", "text",
                             json_object_get(c->params, "text"));
  struct qp_message *message = NULL;
  struct qp__held *held = NULL;
  size_t count = 0;
  enum qp_rc rc = object ? qp__messages_from_input(object, &message, 1, &count, err)
                         : qp__fail_nomem(err, "a message");

  if (!rc)
    rc = qp__held_get(c->r, id, &held, err);
  if (!rc)
    rc = qp__change_begin(c->r, held, err);
  if (!rc) {
    rc = qp_message_save(held->context, argument(c, "branch", NULL), message, saved, err);
    rc = qp__change_end(c->r, held, rc, err);
  }
  qp__held_put(held);
  qp_message_free(message);
  json_decref(object);
  return rc;
}

static enum qp_rc
save(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const char *id = argument(c, "id", NULL);
  json_t *created = NULL;
  struct qp_uuid saved;
  char text[QP_UUID_TEXT];
  enum qp_rc rc = QP_OK;

  if (!json_is_string(json_object_get(c->params, "text")))
    return qp__fail(err, QP_INVALID, "\"text\" is missing: the text of the message");
  rc = qp__quota_bytes(c->r, err);
  if (!rc && !id) {
    rc = set_body(c->r, qp__json_pack_set("{s:s?}", "title", argument(c, "title", NULL)), err);
    if (!rc)
      rc = qp__mcpd_run(c, qp__h_context_create, NULL, NULL, &created, err);
    id = qp__json_text(created, "id");
  }
  if (!rc)
    rc = append(c, id, &saved, err);
  if (!rc)
    *out = json_pack("{s:s, s:s}", "id", id, "message_id", qp_uuid_text(&saved, text));
  json_decref(created);
  return rc || *out ? rc : qp__fail_nomem(err, "a response");
}

static enum qp_rc
branch(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const char *id = argument(c, "id", NULL);
  enum qp_rc rc;

  if (!id || !argument(c, "name", NULL))
    return qp__fail(err, QP_INVALID, "\"id\" or \"name\" is missing");
  rc = qp__quota_bytes(c->r, err);
  if (!rc)
    rc = set_body(c->r,
                  qp__json_pack_set("{s:s, s:s?}", "name", argument(c, "name", NULL), "at",
                                    argument(c, "at", NULL)),
                  err);
  return rc ? rc : qp__mcpd_run(c, qp__h_branch_fork, id, NULL, out, err);
}

/* ---- as text ---- */

enum qp_rc
qp__mcpd_transcript(const json_t *page, struct qp__buf *out)
{
  const json_t *messages = json_object_get(page, "messages");

  for (size_t i = 0; i < json_array_size(messages); i++) {
    const json_t *message = json_array_get(messages, i);
    const json_t *calls = json_object_get(message, "tool_calls");
    const json_t *result = json_object_get(message, "tool_result");
    const char *text = qp__json_text(message, "text");
    const char *time = qp__json_text(message, "created_at");

    (void)qp__buf_addf(out, "## %s, %s (%s)\n\n%.*s\n", qp__json_text(message, "role"),
                       time ? time : "", qp__json_text(message, "id"), MESSAGE_TEXT_MAX,
                       text ? text : "");
    for (size_t k = 0; k < json_array_size(calls); k++)
      (void)qp__buf_addf(out, "[calls the tool %s]\n",
                         qp__json_text(json_array_get(calls, k), "tool_name"));
    if (json_is_object(result)) {
      (void)qp__buf_add_str(out, "[result of a tool] ");
      (void)qp__json_write(out, json_object_get(result, "result"));
      (void)qp__buf_add_char(out, '\n');
    }
    (void)qp__buf_add_char(out, '\n');
  }
  return out->rc;
}

/* A new result; takes `value`. */
static enum qp_rc
make_result(json_t *value, json_t **out, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, TEXT_MAX);
  if (json_object_get(value, "messages"))
    (void)qp__mcpd_transcript(value, &text);
  else
    (void)qp__json_write(&text, value);
  if (text.rc == QP_TOOBIG) {
    qp__buf_reset(&text);
    (void)qp__buf_add_str(&text, "the text is too long; ask for fewer messages with \"limit\"");
  } else if (!text.len) {
    (void)qp__buf_add_str(&text, "no messages");
  }
  rc = qp__buf_check(&text, "a response", err);
  if (!rc) {
    *out = json_pack("{s:[{s:s, s:s%}], s:O}", "content", "type", "text", "text", text.data,
                     text.len, "structuredContent", value);
    rc = *out ? QP_OK : qp__fail_nomem(err, "a response");
  }
  qp__buf_release(&text);
  json_decref(value);
  return rc;
}

/* ---- calling ---- */

static const struct tool *
find_tool(const struct qp__mcpd_call *c, const char *name)
{
  for (size_t i = 0; name && i < TOOLS; i++)
    if (strcmp(tools[i].name, name) == 0 && (!tools[i].changes || c->may_change))
      return &tools[i];
  return NULL;
}

enum qp_rc
qp__mcpd_tool_call(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const char *name = qp__json_text(c->params, "name");
  const struct tool *tool = find_tool(c, name);
  struct qp_err why = { QP_OK, "" };
  json_t *value = NULL;
  enum qp_rc rc;

  if (!tool)
    return qp__mcpd_fail(c, QP__MCPD_INVALID_PARAMS, err, "there is no tool '%.60s'%s",
                         name ? name : "", c->may_change ? "" : "; this server only reads");
  c->params = json_object_get(c->params, "arguments");
  rc = tool->run(c, &value, &why);
  if (!rc)
    return make_result(value, out, err);
  *out =
      json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text", why.msg, "isError", 1);
  return *out ? QP_OK : qp__fail_nomem(err, "a response");
}

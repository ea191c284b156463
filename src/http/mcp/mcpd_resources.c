/* mcpd_resources.c - conversations as resources of the MCP server:
 *
 *   quipu://context/ID                a conversation, its active branch
 *   quipu://context/ID/branch/NAME    another branch of it, the name percent-encoded
 *
 * A resource is Markdown: the newest MESSAGES_MAX messages, oldest first. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "http/handlers.h"
#include "http/mcp/mcpd.h"

#define SCHEME "quipu://context/"
#define BRANCH "/branch/"
#define MESSAGES_MAX "500"
#define TEXT_MAX ((size_t)16 << 20)
#define PAGE "50"

static json_t *
describe(const json_t *context)
{
  const char *id = qp__json_text(context, "id");
  const char *title = qp__json_text(context, "title");
  char uri[128];

  (void)snprintf(uri, sizeof(uri), SCHEME "%.60s", id ? id : "");
  return json_pack("{s:s, s:s, s:s}", "uri", uri, "name", title && *title ? title : uri, "mimeType",
                   "text/markdown");
}

enum qp_rc
qp__mcpd_resource_list(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const struct qp__mcpd_query query[] = { { "limit", PAGE },
                                          { "cursor", qp__json_text(c->params, "cursor") },
                                          { 0 } };
  json_t *page = NULL;
  json_t *array = json_array();
  const json_t *contexts;
  struct qp_err why = { QP_OK, "" };
  int bad = !array;
  enum qp_rc rc = qp__mcpd_run(c, qp__h_context_list, NULL, query, &page, &why);

  if (rc) {
    json_decref(array);
    return qp__mcpd_fail(c, rc == QP_INVALID ? QP__MCPD_INVALID_PARAMS : 0, err, "%s", why.msg);
  }
  contexts = json_object_get(page, "contexts");
  for (size_t i = 0; !bad && i < json_array_size(contexts); i++)
    bad = json_array_append_new(array, describe(json_array_get(contexts, i)));
  *out = bad ? NULL
             : qp__json_pack_set("{s:O, s:s?}", "resources", array, "nextCursor",
                                 qp__json_text(page, "next_cursor"));
  json_decref(array);
  json_decref(page);
  return *out ? QP_OK : qp__fail_nomem(err, "a response");
}

enum qp_rc
qp__mcpd_template_list(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  (void)c;
  *out = json_pack("{s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}]}", "resourceTemplates", "uriTemplate",
                   SCHEME "{id}", "name", "A conversation", "mimeType", "text/markdown",
                   "uriTemplate", SCHEME "{id}" BRANCH "{name}", "name",
                   "A branch of a conversation", "mimeType", "text/markdown");
  return *out ? QP_OK : qp__fail_nomem(err, "a response");
}

/* Decodes %XX in place. False: the text is no UTF-8 then, or has a NUL in it. */
static bool
decode(char *text)
{
  char *to = text;

  for (const char *s = text; *s; to++) {
    uint8_t byte = (uint8_t)*s;

    if (*s == '%' && s[1] && s[2] && qp__hex_decode(&byte, s + 1, 1))
      s += 3;
    else
      s++;
    if (!byte)
      return false;
    *to = (char)byte;
  }
  *to = '\0';
  return qp__utf8_ok(text, strlen(text));
}

/* The context and the branch (or NULL) of a URI, in the arena. */
static bool
split(struct qp__mcpd_call *c, const char *uri, const char **id, const char **branch)
{
  char *text;
  char *slash;

  if (!uri || strncmp(uri, SCHEME, strlen(SCHEME)) != 0)
    return false;
  text = qp__arena_strdup(&c->r->arena, uri + strlen(SCHEME));
  if (!text)
    return false;
  slash = strchr(text, '/');
  *id = text;
  *branch = NULL;
  if (!slash)
    return true;
  if (strncmp(slash, BRANCH, strlen(BRANCH)) != 0)
    return false;
  *slash = '\0';
  *branch = slash + strlen(BRANCH);
  return decode(slash + strlen(BRANCH));
}

static enum qp_rc
no_resource(struct qp__mcpd_call *c, const char *uri, struct qp_err *err)
{
  c->data = json_pack("{s:s}", "uri", uri ? uri : "");
  return qp__mcpd_fail(c, c->modern ? QP__MCPD_INVALID_PARAMS : QP__MCPD_NO_RESOURCE, err,
                       "there is no resource '%.200s'", uri ? uri : "");
}

/* A page comes newest first; people read the other way round. NULL: no memory. */
static json_t *
reversed(const json_t *page)
{
  const json_t *messages = json_object_get(page, "messages");
  json_t *list = json_array();

  for (size_t i = json_array_size(messages); list && i-- > 0;)
    if (json_array_append(list, json_array_get(messages, i))) {
      json_decref(list);
      return NULL;
    }
  return list ? json_pack("{s:o}", "messages", list) : NULL;
}

enum qp_rc
qp__mcpd_resource_read(struct qp__mcpd_call *c, json_t **out, struct qp_err *err)
{
  const char *uri = qp__json_text(c->params, "uri");
  struct qp__mcpd_query query[] = {
    { "limit", MESSAGES_MAX }, { "order", "newest" }, { "branch", NULL }, { 0 }
  };
  struct qp_err why = { QP_OK, "" };
  const char *id = NULL;
  json_t *page = NULL;
  json_t *shown;
  struct qp__buf text;
  enum qp_rc rc;

  if (!split(c, uri, &id, &query[2].value))
    return no_resource(c, uri, err);
  rc = qp__mcpd_run(c, qp__h_message_list, id, query, &page, &why);
  if (rc == QP_NOTFOUND || rc == QP_INVALID)
    return no_resource(c, uri, err);
  if (rc)
    return qp__mcpd_fail(c, 0, err, "%s", why.msg);
  qp__buf_init(&text, TEXT_MAX);
  shown = reversed(page);
  json_decref(page);
  if (!shown)
    rc = qp__fail_nomem(err, "a response");
  else if (qp__mcpd_transcript(shown, &text))
    rc = qp__buf_check(&text, "the conversation", err);
  if (!rc)
    *out = json_pack("{s:[{s:s, s:s, s:s%}]}", "contents", "uri", uri, "mimeType", "text/markdown",
                     "text", text.len ? text.data : "", text.len);
  json_decref(shown);
  qp__buf_release(&text);
  return rc || *out ? rc : qp__fail_nomem(err, "a response");
}

/* messages_request.c - see messages_request.h. */
#include "http/anthropic/messages_request.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"

#define AT_MAX 120
#define TEXT_MAX ((size_t)64 << 20)

static const struct qp__field_rule rules[] = {
  { "model", QP__FIELD_READ },
  { "messages", QP__FIELD_READ },
  { "max_tokens", QP__FIELD_READ },
  { "system", QP__FIELD_READ },
  { "tools", QP__FIELD_READ },
  { "tool_choice", QP__FIELD_READ },
  { "stream", QP__FIELD_READ },
  { "thinking", QP__FIELD_READ },
  { "stop_sequences", QP__FIELD_READ },
  { "temperature", QP__FIELD_READ },
  { "top_p", QP__FIELD_READ },
  { "thread", QP__FIELD_READ },
  { "cache_control", QP__FIELD_IGNORE }, /* the encoder sets breakpoints */
  { "stream_options", QP__FIELD_IGNORE },
  { "max_completion_tokens", QP__FIELD_IGNORE },
  { NULL, QP__FIELD_PASS },
};

static bool
is_type(const json_t *block, const char *type)
{
  const char *own = qp__json_text(block, "type");

  return own && strcmp(own, type) == 0;
}

/* ---- blocks ---- */

/* {"type":"base64","media_type","data"} or {"type":"url","url"} as a URL: new. */
static enum qp_rc
read_image(struct qp__request *r, const json_t *block, const char *at, char **out,
           struct qp_err *err)
{
  const json_t *source = json_object_get(block, "source");
  const char *type = qp__json_text(source, "media_type");
  const char *data = qp__json_text(source, "data");
  const char *url = qp__json_text(source, "url");
  struct qp__buf text;
  size_t len;

  qp__buf_init(&text, TEXT_MAX);
  if (is_type(source, "url") && url)
    (void)qp__buf_add_str(&text, url);
  else if (is_type(source, "base64") && type && data)
    (void)qp__buf_addf(&text, "data:%s;base64,%s", type, data);
  else
    return qp__wish_refuse(r, err, at, "%s: the \"source\" of an image must be base64 or a url",
                           at);
  *out = qp__buf_take(&text, &len);
  qp__buf_release(&text);
  return *out ? QP_OK : qp__fail_nomem(err, "a message");
}

static enum qp_rc
add_image(struct qp__request *r, const json_t *block, const char *at, json_t *parts,
          struct qp_err *err)
{
  char *url = NULL;
  enum qp_rc rc = read_image(r, block, at, &url, err);

  if (!rc && !qp__wish_add(parts, qp__wish_image(url, NULL)))
    rc = qp__fail_nomem(err, "a message");
  qp_free(url);
  return rc;
}

/* A part of text, image or thinking. */
static enum qp_rc
read_part(struct qp__request *r, const json_t *block, const char *at, json_t *parts,
          struct qp_err *err)
{
  const json_t *text = json_object_get(block, "text");
  const json_t *thinking = json_object_get(block, "thinking");
  const char *signature = qp__json_text(block, "signature");
  bool good;

  if (signature && (!*signature || strcmp(signature, QP__WISH_NO_SIGNATURE) == 0))
    signature = NULL;

  if (is_type(block, "text") && json_is_string(text))
    good = qp__wish_add(parts, qp__wish_text(text));
  else if (is_type(block, "image"))
    return add_image(r, block, at, parts, err);
  else if (is_type(block, "thinking") && json_is_string(thinking))
    good = qp__wish_add(parts, qp__json_pack_set("{s:s, s:O, s:s?}", "type", "thinking", "text",
                                                 thinking, "signature", signature));
  else if (is_type(block, "redacted_thinking"))
    good = qp__wish_add(parts, json_incref((json_t *)block));
  else
    return qp__wish_refuse(r, err, at, "%s: blocks of type \"%.40s\" are not supported", at,
                           qp__json_text(block, "type") ? qp__json_text(block, "type") : "");
  return good ? QP_OK : qp__fail_nomem(err, "a message");
}

/* The content of a result: a string, or blocks of text and images. */
static enum qp_rc
read_result(struct qp__request *r, const json_t *content, const char *at, json_t *parts,
            struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (json_is_string(content))
    return qp__wish_add(parts, qp__wish_text(content)) ? QP_OK : qp__fail_nomem(err, "a message");
  if (content && !json_is_null(content) && !json_is_array(content))
    return qp__wish_refuse(r, err, at, "%s: the content of a result is a string or blocks", at);
  for (size_t i = 0; !rc && i < json_array_size(content); i++) {
    const json_t *block = json_array_get(content, i);

    if (is_type(block, "text") || is_type(block, "image"))
      rc = read_part(r, block, at, parts, err);
    else
      rc = qp__wish_refuse(r, err, at, "%s: a result has blocks of text and base64 images", at);
  }
  return rc;
}

static enum qp_rc
add_result(struct qp__request *r, const json_t *block, const char *at, struct qp__wish *w,
           struct qp_err *err)
{
  const json_t *id = json_object_get(block, "tool_use_id");
  json_t *message = NULL;
  json_t *parts;
  enum qp_rc rc;

  if (!json_is_string(id))
    return qp__wish_refuse(r, err, at, "%s: a tool_result needs a \"tool_use_id\"", at);
  parts = json_array();
  rc = parts ? read_result(r, json_object_get(block, "content"), at, parts, err)
             : qp__fail_nomem(err, "a message");
  if (!rc)
    rc = qp__wish_result(r, id, parts, json_is_true(json_object_get(block, "is_error")), at,
                         &message, err);
  if (!rc && !qp__wish_add(w->messages, message))
    rc = qp__fail_nomem(err, "a message");
  json_decref(parts);
  return rc;
}

static enum qp_rc
add_call(struct qp__request *r, const json_t *block, const char *at, json_t *calls, size_t parts,
         struct qp_err *err)
{
  const json_t *id = json_object_get(block, "id");
  const json_t *name = json_object_get(block, "name");
  const json_t *input = json_object_get(block, "input");

  if (!json_is_string(id) || !json_is_string(name))
    return qp__wish_refuse(r, err, at, "%s: a tool_use needs \"id\" and \"name\"", at);
  if (!qp__wish_add(calls,
                    json_pack("{s:O, s:O, s:o, s:s, s:I}", "id", id, "tool_name", name, "arguments",
                              input ? json_incref((json_t *)input) : json_object(),
                              "approval_status", "Approved", "after_parts", (json_int_t)parts)))
    return qp__fail_nomem(err, "a message");
  return QP_OK;
}

/* ---- messages ---- */

/* The blocks of one message. Results are messages of their own and stand before the rest. */
static enum qp_rc
read_blocks(struct qp__request *r, const json_t *content, const char *at, json_t *parts,
            json_t *calls, struct qp__wish *w, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < json_array_size(content); i++) {
    const json_t *block = json_array_get(content, i);
    char inner[AT_MAX];

    (void)snprintf(inner, sizeof(inner), "%.80s.content.%zu", at, i);
    if (is_type(block, "tool_result"))
      rc = add_result(r, block, inner, w, err);
    else if (is_type(block, "tool_use"))
      rc = add_call(r, block, inner, calls, json_array_size(parts), err);
    else
      rc = read_part(r, block, inner, parts, err);
  }
  return rc;
}

static enum qp_rc
read_message(struct qp__request *r, const json_t *m, const char *at, struct qp__wish *w,
             struct qp_err *err)
{
  const char *role = qp__json_text(m, "role");
  const json_t *content = json_object_get(m, "content");
  json_t *parts;
  json_t *calls;
  enum qp_rc rc;

  if (!role ||
      (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0))
    return qp__wish_refuse(r, err, at, "%s: \"role\" must be user, assistant or system", at);
  parts = json_array();
  calls = json_array();
  rc = parts && calls ? QP_OK : qp__fail_nomem(err, "a message");
  if (!rc && json_is_string(content))
    rc = json_string_length(content) == 0 || qp__wish_add(parts, qp__wish_text(content))
             ? QP_OK
             : qp__fail_nomem(err, "a message");
  else if (!rc && !json_is_array(content))
    rc = qp__wish_refuse(r, err, at, "%s: \"content\" must be a string or a list of blocks", at);
  else if (!rc)
    rc = read_blocks(r, content, at, parts, calls, w, err);
  if (!rc)
    rc = qp__wish_check_images(r, role, parts, at, err);
  if (!rc && (json_array_size(parts) || json_array_size(calls) || strcmp(role, "user") != 0)) {
    json_t *message = json_pack("{s:s, s:O}", "role", role, "content", parts);
    bool good = message != NULL;

    if (good && json_array_size(calls))
      good = json_object_set(message, "tool_calls", calls) == 0;
    if (good && strcmp(role, "assistant") == 0) /* so that its thinking goes back unchanged */
      good = qp__wish_set(message, "metadata", json_pack("{s:s}", "provider", "anthropic"));
    if (!good) {
      json_decref(message);
      message = NULL;
    }
    if (!qp__wish_add(w->messages, message))
      rc = qp__fail_nomem(err, "a message");
  }
  json_decref(parts);
  json_decref(calls);
  return rc;
}

static enum qp_rc
read_messages(struct qp__request *r, const json_t *messages, struct qp__wish *w, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!json_is_array(messages) || !json_array_size(messages))
    return qp__wish_refuse(r, err, "messages", "messages: at least one message is required");
  if (json_array_size(messages) > QP__WISH_MESSAGES_MAX)
    return qp__fail(err, QP_TOOBIG, "messages: more than %d elements", QP__WISH_MESSAGES_MAX);
  w->messages = json_array();
  if (!w->messages)
    return qp__fail_nomem(err, "the messages");
  for (size_t i = 0; !rc && i < json_array_size(messages); i++) {
    char at[AT_MAX];

    (void)snprintf(at, sizeof(at), "messages.%zu", i);
    rc = read_message(r, json_array_get(messages, i), at, w, err);
  }
  return rc;
}

/* ---- the rest ---- */

/* A string, or blocks of text. */
static enum qp_rc
read_system(struct qp__request *r, const json_t *system, struct qp__wish *w, struct qp_err *err)
{
  struct qp__buf text;

  if (!system || json_is_null(system))
    return QP_OK;
  if (json_is_string(system)) {
    w->system = json_string_value(system);
    return QP_OK;
  }
  qp__buf_init(&text, TEXT_MAX);
  for (size_t i = 0; i < json_array_size(system); i++) {
    const char *more = qp__json_text(json_array_get(system, i), "text");

    if (!more) {
      qp__buf_release(&text);
      return qp__wish_refuse(r, err, "system", "system: it must be a string or blocks of text");
    }
    (void)qp__buf_addf(&text, "%s%s", i ? "\n\n" : "", more);
  }
  w->system = text.rc ? NULL : qp__arena_strdup(&r->arena, text.len ? text.data : "");
  qp__buf_release(&text);
  return w->system ? QP_OK : qp__fail_nomem(err, "the system prompt");
}

static enum qp_rc
read_tools(struct qp__request *r, const json_t *tools, struct qp__wish *w, struct qp_err *err)
{
  if (!tools || json_is_null(tools))
    return QP_OK;
  if (!json_is_array(tools) || json_array_size(tools) > QP__WISH_TOOLS_MAX)
    return qp__wish_refuse(r, err, "tools", "tools: it must be a list of at most %d tools",
                           QP__WISH_TOOLS_MAX);
  w->tools = json_array();
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *type = qp__json_text(tool, "type");
    const char *name = qp__json_text(tool, "name");
    json_t *description = json_object_get(tool, "description");
    json_t *schema = json_object_get(tool, "input_schema");
    json_t *strict = json_object_get(tool, "strict");
    char at[AT_MAX];

    (void)snprintf(at, sizeof(at), "tools.%zu", i);
    if (type && strcmp(type, "custom") != 0)
      return qp__wish_refuse(r, err, at, "%s: tools of type \"%.40s\" are not supported", at, type);
    if (!name || !*name || strlen(name) > 128 || !json_is_object(schema))
      return qp__wish_refuse(r, err, at,
                             "%s: a tool needs a \"name\" of 1 to 128 bytes and an "
                             "\"input_schema\"",
                             at);
    if (!qp__wish_add(w->tools,
                      json_pack("{s:s, s:O*, s:O, s:O*}", "name", name, "description",
                                json_is_string(description) ? description : NULL, "parameters",
                                schema, "strict", json_is_true(strict) ? strict : NULL)))
      return qp__fail_nomem(err, "the tools");
  }
  return QP_OK;
}

static enum qp_rc
read_choice(struct qp__request *r, const json_t *choice, struct qp__wish *w, struct qp_err *err)
{
  if (!choice || json_is_null(choice))
    return QP_OK;
  w->one_call = json_is_true(json_object_get(choice, "disable_parallel_tool_use"));
  w->choice_tool = qp__json_text(choice, "name");
  if (is_type(choice, "auto"))
    w->choice = QP__CHOICE_AUTO;
  else if (is_type(choice, "any"))
    w->choice = QP__CHOICE_ANY;
  else if (is_type(choice, "none"))
    w->choice = QP__CHOICE_NONE;
  else if (is_type(choice, "tool") && w->choice_tool)
    w->choice = QP__CHOICE_TOOL;
  else
    return qp__wish_refuse(r, err, "tool_choice",
                           "tool_choice: its type must be auto, any, none or tool with a name");
  return QP_OK;
}

static enum qp_rc
read_parameters(struct qp__request *r, const json_t *body, bool counts, struct qp__wish *w,
                struct qp_err *err)
{
  static const struct {
    const char *key, *as;
  } copied[] = { { "max_tokens", "max_tokens" },
                 { "temperature", "temperature" },
                 { "top_p", "top_p" },
                 { "stop_sequences", "stop" },
                 { "thinking", "thinking" } };
  const json_t *max = json_object_get(body, "max_tokens");

  if (!counts && (!json_is_integer(max) || json_integer_value(max) < 1))
    return qp__wish_refuse(r, err, "max_tokens", "max_tokens: it must be a number from 1 on");
  w->parameters = json_object();
  for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++) {
    json_t *value = json_object_get(body, copied[i].key);

    if (value && !json_is_null(value) && json_object_set(w->parameters, copied[i].as, value))
      return qp__fail_nomem(err, "the parameters");
  }
  return QP_OK;
}

enum qp_rc
qp__messages_request_read(struct qp__request *r, const json_t *body, bool counts,
                          struct qp__wish *w, struct qp_err *err)
{
  enum qp_rc rc;

  w->model = qp__json_text(body, "model");
  if (!w->model)
    return qp__wish_refuse(r, err, "model", "model: it must be the name of a model");
  w->body = body;
  w->stream = json_is_true(json_object_get(body, "stream"));
  if (json_is_object(json_object_get(body, "thread")))
    return qp__request_fail(r, MHD_HTTP_BAD_REQUEST, "THREAD", err,
                            "thread: threads are not supported; send the whole conversation "
                            "without \"thread\"");
  rc = qp__wish_fields(r, body, rules, w, err);
  if (!rc)
    rc = read_messages(r, json_object_get(body, "messages"), w, err);
  if (!rc)
    rc = read_system(r, json_object_get(body, "system"), w, err);
  if (!rc)
    rc = read_tools(r, json_object_get(body, "tools"), w, err);
  if (!rc)
    rc = read_choice(r, json_object_get(body, "tool_choice"), w, err);
  if (!rc)
    rc = read_parameters(r, body, counts, w, err);
  return rc ? rc : qp__wish_read_context(r, w, json_object_get(body, "metadata"), err);
}

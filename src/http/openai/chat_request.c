/* chat_request.c - see chat_request.h. */
#include "http/openai/chat_request.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"

#define AT_MAX 120

static const struct qp__field_rule rules[] = {
  { "model", QP__FIELD_READ },
  { "messages", QP__FIELD_READ },
  { "stream", QP__FIELD_READ },
  { "stream_options", QP__FIELD_READ },
  { "tools", QP__FIELD_READ },
  { "tool_choice", QP__FIELD_READ },
  { "parallel_tool_calls", QP__FIELD_READ },
  { "response_format", QP__FIELD_READ },
  { "max_tokens", QP__FIELD_READ },
  { "max_completion_tokens", QP__FIELD_READ },
  { "temperature", QP__FIELD_READ },
  { "top_p", QP__FIELD_READ },
  { "stop", QP__FIELD_READ },
  { "reasoning_effort", QP__FIELD_READ },
  { "metadata", QP__FIELD_PASS },
  { "n", QP__FIELD_REFUSE },
  { "logprobs", QP__FIELD_REFUSE },
  { "top_logprobs", QP__FIELD_REFUSE },
  { "logit_bias", QP__FIELD_REFUSE },
  { "audio", QP__FIELD_REFUSE },
  { "modalities", QP__FIELD_REFUSE },
  { "functions", QP__FIELD_REFUSE },
  { "function_call", QP__FIELD_REFUSE },
  { "web_search_options", QP__FIELD_REFUSE },
  { "moderation", QP__FIELD_REFUSE },
  { "seed", QP__FIELD_PASS },
  { "presence_penalty", QP__FIELD_PASS },
  { "frequency_penalty", QP__FIELD_PASS },
  { "verbosity", QP__FIELD_PASS },
  { "prediction", QP__FIELD_PASS },
  { "service_tier", QP__FIELD_PASS },
  { "user", QP__FIELD_PASS },
  { "safety_identifier", QP__FIELD_PASS },
  { "prompt_cache_key", QP__FIELD_PASS },
  { "prompt_cache_retention", QP__FIELD_PASS },
  { "prompt_cache_options", QP__FIELD_PASS },
  { "store", QP__FIELD_PASS },
  { "system", QP__FIELD_IGNORE }, /* ours to write (llm/model_request.c) */
  { NULL, QP__FIELD_PASS },       /* what servers of this protocol have added */
};

/* ---- content ---- */

static enum qp_rc
read_part(struct qp__request *r, const json_t *part, const char *at, json_t *out,
          struct qp_err *err)
{
  const char *type = json_string_value(json_object_get(part, "type"));
  const json_t *text = json_object_get(part, "text");
  const json_t *image = json_object_get(part, "image_url");
  const char *url = json_is_string(image) ? json_string_value(image)
                                          : json_string_value(json_object_get(image, "url"));
  bool good = true;

  if (!type)
    return qp__wish_refuse(r, err, at, "%s: a content part needs a \"type\"", at);
  if (strcmp(type, "refusal") == 0)
    text = json_object_get(part, "refusal");
  if (strcmp(type, "text") == 0 || strcmp(type, "refusal") == 0) {
    if (!json_is_string(text))
      return qp__wish_refuse(r, err, at, "%s: \"text\" must be a string", at);
    good = qp__wish_add(out, qp__wish_text(text));
  } else if (strcmp(type, "image_url") == 0) {
    if (!url)
      return qp__wish_refuse(r, err, at, "%s: \"image_url\" needs a \"url\"", at);
    good =
        qp__wish_add(out, qp__wish_image(url, json_string_value(json_object_get(image, "detail"))));
  } else {
    return qp__wish_refuse(r, err, at, "%s: content parts of type \"%.40s\" are not supported", at,
                           type);
  }
  return good ? QP_OK : qp__fail_nomem(err, "a message");
}

/* A string or parts, as the parts of a message: new. */
static enum qp_rc
read_content(struct qp__request *r, const json_t *content, const char *at, json_t **out,
             struct qp_err *err)
{
  json_t *parts = json_array();
  enum qp_rc rc = parts ? QP_OK : qp__fail_nomem(err, "a message");

  if (!rc && json_is_string(content)) {
    if (json_string_length(content) && !qp__wish_add(parts, qp__wish_text(content)))
      rc = qp__fail_nomem(err, "a message");
  } else if (!rc && content && !json_is_null(content) && !json_is_array(content)) {
    rc = qp__wish_refuse(r, err, at, "%s must be a string or a list of parts", at);
  }
  for (size_t i = 0; !rc && json_is_array(content) && i < json_array_size(content); i++) {
    char inner[AT_MAX];

    (void)snprintf(inner, sizeof(inner), "%.80s[%zu]", at, i);
    rc = read_part(r, json_array_get(content, i), inner, parts, err);
  }
  if (rc)
    json_decref(parts);
  else
    *out = parts;
  return rc;
}

json_t *
qp__openai_arguments(const json_t *text)
{
  json_t *value = NULL;
  const struct qp_bytes bytes = { json_string_value(text), json_string_length(text) };
  enum qp_rc rc;

  if (!bytes.len)
    return json_object();
  rc = qp__json_parse_outside("arguments", bytes, &value, NULL);
  if (rc == QP_NOMEM)
    return NULL;
  return rc ? json_incref((json_t *)text) : value;
}

static enum qp_rc
read_calls(struct qp__request *r, const json_t *calls, const char *at, json_t *message,
           struct qp_err *err)
{
  json_t *list;

  if (!calls || json_is_null(calls))
    return QP_OK;
  if (!json_is_array(calls))
    return qp__wish_refuse(r, err, at, "%s must be a list", at);
  list = json_array();
  for (size_t i = 0; list && i < json_array_size(calls); i++) {
    const json_t *call = json_array_get(calls, i);
    const json_t *function = json_object_get(call, "function");
    const json_t *id = json_object_get(call, "id");
    const json_t *name = json_object_get(function, "name");
    const json_t *arguments = json_object_get(function, "arguments");

    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments)) {
      json_decref(list);
      return qp__wish_refuse(r, err, at,
                             "%s[%zu] needs \"id\" and \"function\" with \"name\" and "
                             "\"arguments\", all strings",
                             at, i);
    }
    if (!qp__wish_add(list,
                      json_pack("{s:O, s:O, s:o, s:s}", "id", id, "tool_name", name, "arguments",
                                qp__openai_arguments(arguments), "approval_status", "Approved"))) {
      json_decref(list);
      list = NULL;
    }
  }
  if (!qp__wish_set(message, "tool_calls", list))
    return qp__fail_nomem(err, "a message");
  return QP_OK;
}

/* ---- messages ---- */

static enum qp_rc
read_tool_message(struct qp__request *r, const json_t *m, const char *at, json_t *content,
                  json_t **out, struct qp_err *err)
{
  const json_t *id = json_object_get(m, "tool_call_id");

  if (!json_is_string(id))
    return qp__wish_refuse(r, err, at, "%s: a message of a tool needs a \"tool_call_id\"", at);
  return qp__wish_result(r, id, content, false, at, out, err);
}

static enum qp_rc
add_thinking(const json_t *m, json_t *content, struct qp_err *err)
{
  const json_t *text = json_object_get(m, "reasoning_content");
  json_t *part;

  if (!json_is_string(text) || !json_string_length(text))
    return QP_OK;
  part = json_pack("{s:s, s:O}", "type", "thinking", "text", text);
  return part && json_array_insert_new(content, 0, part) == 0 ? QP_OK
                                                              : qp__fail_nomem(err, "a message");
}

/* What an answer of the model had besides its content: a refusal is text here. */
static enum qp_rc
read_answer(struct qp__request *r, const json_t *m, const char *at, json_t *content,
            struct qp_err *err)
{
  static const char *const refused[] = { "audio", "function_call" };
  const json_t *refusal = json_object_get(m, "refusal");

  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
    const json_t *value = json_object_get(m, refused[i]);

    if (value && !json_is_null(value)) {
      char inner[AT_MAX];

      (void)snprintf(inner, sizeof(inner), "%.80s.%s", at, refused[i]);
      return qp__wish_refuse(r, err, inner, "%s is not supported", inner);
    }
  }
  if (json_string_length(refusal) && !qp__wish_add(content, qp__wish_text(refusal)))
    return qp__fail_nomem(err, "a message");
  return add_thinking(m, content, err);
}

static enum qp_rc
read_message(struct qp__request *r, const json_t *m, const char *at, json_t **out,
             struct qp_err *err)
{
  const char *role = json_string_value(json_object_get(m, "role"));
  json_t *content = NULL;
  char inner[AT_MAX];
  enum qp_rc rc;

  if (role && strcmp(role, "developer") == 0)
    role = "system";
  if (!role || (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 &&
                strcmp(role, "assistant") != 0 && strcmp(role, "tool") != 0))
    return qp__wish_refuse(r, err, at,
                           "%s: \"role\" must be system, developer, user, assistant or tool", at);
  (void)snprintf(inner, sizeof(inner), "%.80s.content", at);
  rc = read_content(r, json_object_get(m, "content"), inner, &content, err);
  if (!rc && strcmp(role, "tool") == 0) {
    rc = read_tool_message(r, m, at, content, out, err);
  } else if (!rc) {
    rc = qp__wish_check_images(r, role, content, inner, err);
    if (!rc && strcmp(role, "assistant") == 0)
      rc = read_answer(r, m, at, content, err);
    *out = json_pack("{s:s, s:O}", "role", role, "content", content);
    if (!rc && !*out)
      rc = qp__fail_nomem(err, "a message");
    (void)snprintf(inner, sizeof(inner), "%.80s.tool_calls", at);
    if (!rc && strcmp(role, "assistant") == 0)
      rc = read_calls(r, json_object_get(m, "tool_calls"), inner, *out, err);
  }
  json_decref(content);
  return rc;
}

static enum qp_rc
read_messages(struct qp__request *r, const json_t *messages, struct qp__wish *w, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!json_is_array(messages) || !json_array_size(messages))
    return qp__wish_refuse(r, err, "messages", "\"messages\" must be a list of messages");
  if (json_array_size(messages) > QP__WISH_MESSAGES_MAX)
    return qp__fail(err, QP_TOOBIG, "\"messages\" has more than %d elements",
                    QP__WISH_MESSAGES_MAX);
  w->messages = json_array();
  if (!w->messages)
    return qp__fail_nomem(err, "the messages");
  for (size_t i = 0; !rc && i < json_array_size(messages); i++) {
    json_t *message = NULL;
    char at[AT_MAX];

    (void)snprintf(at, sizeof(at), "messages[%zu]", i);
    rc = read_message(r, json_array_get(messages, i), at, &message, err);
    if (rc)
      json_decref(message);
    else if (!qp__wish_add(w->messages, message))
      rc = qp__fail_nomem(err, "the messages");
  }
  return rc;
}

/* ---- tools ---- */

enum qp_rc
qp__openai_tool(struct qp__request *r, const json_t *function, const char *at, struct qp__wish *w,
                struct qp_err *err)
{
  const char *name = json_string_value(json_object_get(function, "name"));
  json_t *schema = json_object_get(function, "parameters");
  json_t *description = json_object_get(function, "description");
  json_t *strict = json_object_get(function, "strict");

  if (!name || !*name || strlen(name) > 128)
    return qp__wish_refuse(r, err, at, "%s: a function needs a \"name\" of 1 to 128 bytes", at);
  if (schema && !json_is_object(schema) && !json_is_null(schema))
    return qp__wish_refuse(r, err, at, "%s: \"parameters\" must be a JSON Schema", at);
  if (!w->tools)
    w->tools = json_array();
  if (!qp__wish_add(w->tools, json_pack("{s:s, s:O*, s:O*, s:O*}", "name", name, "description",
                                        json_is_string(description) ? description : NULL,
                                        "parameters", json_is_object(schema) ? schema : NULL,
                                        "strict", json_is_true(strict) ? strict : NULL)))
    return qp__fail_nomem(err, "the tools");
  return QP_OK;
}

static enum qp_rc
read_tools(struct qp__request *r, const json_t *tools, struct qp__wish *w, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!tools || json_is_null(tools))
    return QP_OK;
  if (!json_is_array(tools) || json_array_size(tools) > QP__WISH_TOOLS_MAX)
    return qp__wish_refuse(r, err, "tools", "\"tools\" must be a list of at most %d tools",
                           QP__WISH_TOOLS_MAX);
  for (size_t i = 0; !rc && i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *function = json_object_get(tool, "function");
    char at[AT_MAX];

    (void)snprintf(at, sizeof(at), "tools[%zu]", i);
    if (!type || strcmp(type, "function") != 0)
      return qp__wish_refuse(r, err, at, "%s: only tools of type \"function\" are supported", at);
    rc = qp__openai_tool(r, function ? function : tool, at, w, err);
  }
  return rc;
}

static enum qp_rc
read_choice(struct qp__request *r, const json_t *choice, struct qp__wish *w, struct qp_err *err)
{
  static const struct {
    const char *word;
    enum qp__choice choice;
  } words[] = { { "auto", QP__CHOICE_AUTO },
                { "none", QP__CHOICE_NONE },
                { "required", QP__CHOICE_ANY } };
  const char *word = json_string_value(choice);
  const char *name =
      json_string_value(json_object_get(json_object_get(choice, "function"), "name"));

  if (!choice || json_is_null(choice))
    return QP_OK;
  for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++)
    if (strcmp(word, words[i].word) == 0) {
      w->choice = words[i].choice;
      return QP_OK;
    }
  if (!name)
    name = json_string_value(json_object_get(choice, "name")); /* of the Responses API */
  if (!name)
    return qp__wish_refuse(r, err, "tool_choice",
                           "\"tool_choice\" must be auto, none, required or a function");
  w->choice = QP__CHOICE_TOOL;
  w->choice_tool = name;
  return QP_OK;
}

/* ---- the rest ---- */

enum qp_rc
qp__openai_number(struct qp__request *r, const json_t *body, const char *key, const char *as,
                  json_t *parameters, struct qp_err *err)
{
  json_t *value = json_object_get(body, key);

  if (!value || json_is_null(value))
    return QP_OK;
  if (!json_is_number(value))
    return qp__wish_refuse(r, err, key, "\"%s\" must be a number", key);
  return json_object_set(parameters, as, value) ? qp__fail_nomem(err, "the parameters") : QP_OK;
}

static enum qp_rc
read_parameters(struct qp__request *r, const json_t *body, struct qp__wish *w, struct qp_err *err)
{
  json_t *effort = json_object_get(body, "reasoning_effort");
  json_t *stop = json_object_get(body, "stop");
  json_t *p = w->parameters = json_object();
  enum qp_rc rc = p ? QP_OK : qp__fail_nomem(err, "the parameters");

  if (!rc)
    rc = qp__openai_number(r, body, "max_tokens", "max_tokens", p, err);
  if (!rc) /* the newer name wins */
    rc = qp__openai_number(r, body, "max_completion_tokens", "max_tokens", p, err);
  if (!rc)
    rc = qp__openai_number(r, body, "temperature", "temperature", p, err);
  if (!rc)
    rc = qp__openai_number(r, body, "top_p", "top_p", p, err);
  if (!rc && json_is_string(effort) && json_object_set(p, "effort", effort))
    rc = qp__fail_nomem(err, "the parameters");
  if (!rc && stop && !json_is_null(stop) && json_object_set(p, "stop", stop))
    rc = qp__fail_nomem(err, "the parameters");
  return rc;
}

enum qp_rc
qp__chat_request_read(struct qp__request *r, const json_t *body, struct qp__wish *w,
                      bool *wants_usage, struct qp_err *err)
{
  const json_t *model = json_object_get(body, "model");
  const json_t *format = json_object_get(body, "response_format");
  enum qp_rc rc = QP_OK;

  if (!json_is_string(model))
    return qp__wish_refuse(r, err, "model", "\"model\" must be the name of a model");
  w->model = json_string_value(model);
  w->body = body;
  w->stream = json_is_true(json_object_get(body, "stream"));
  *wants_usage =
      json_is_true(json_object_get(json_object_get(body, "stream_options"), "include_usage"));
  w->one_call = json_is_false(json_object_get(body, "parallel_tool_calls"));
  w->format = json_is_object(format) ? json_incref((json_t *)format) : NULL;
  rc = qp__wish_fields(r, body, rules, w, err);
  if (!rc)
    rc = read_messages(r, json_object_get(body, "messages"), w, err);
  if (!rc)
    rc = read_tools(r, json_object_get(body, "tools"), w, err);
  if (!rc)
    rc = read_choice(r, json_object_get(body, "tool_choice"), w, err);
  if (!rc)
    rc = read_parameters(r, body, w, err);
  return rc ? rc : qp__wish_read_context(r, w, json_object_get(body, "metadata"), err);
}

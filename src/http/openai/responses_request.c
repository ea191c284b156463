/* responses_request.c - see responses_request.h.
 *
 * Items are finer than messages: reasoning, a message of the assistant and its function calls are
 * one message here, and are joined as long as they follow each other. */
#include "http/openai/responses_request.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "http/openai/chat_request.h"

#define AT_MAX 120
#define METADATA_MAX 16

void
qp__response_wish_release(struct qp__response_wish *w)
{
  qp__wish_release(&w->wish);
  json_decref(w->echo);
  json_decref(w->approvals);
  w->echo = w->approvals = NULL;
}

static bool
is(const char *a, const char *b)
{
  return a && strcmp(a, b) == 0;
}

/* ---- content ---- */

static enum qp_rc
read_part(struct qp__request *r, const json_t *part, const char *at, json_t *out,
          struct qp_err *err)
{
  const char *type = qp__json_text(part, "type");
  const json_t *text = json_object_get(part, is(type, "refusal") ? "refusal" : "text");
  bool good = true;

  if ((is(type, "input_text") || is(type, "output_text") || is(type, "text") ||
       is(type, "refusal")) &&
      json_is_string(text)) {
    good = json_string_length(text) == 0 || qp__wish_add(out, qp__wish_text(text));
  } else if (is(type, "input_image") && qp__json_text(part, "image_url")) {
    good = qp__wish_add(
        out, qp__wish_image(qp__json_text(part, "image_url"), qp__json_text(part, "detail")));
  } else {
    return qp__wish_refuse(r, err, at, "%s: content of type \"%.40s\" is not supported", at,
                           type ? type : "");
  }
  return good ? QP_OK : qp__fail_nomem(err, "an item");
}

static enum qp_rc
read_content(struct qp__request *r, const json_t *content, const char *at, json_t *parts,
             struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (json_is_string(content))
    return json_string_length(content) == 0 || qp__wish_add(parts, qp__wish_text(content))
               ? QP_OK
               : qp__fail_nomem(err, "an item");
  if (!json_is_array(content))
    return qp__wish_refuse(r, err, at, "%s must be a string or a list of parts", at);
  for (size_t i = 0; !rc && i < json_array_size(content); i++) {
    char inner[AT_MAX];

    (void)snprintf(inner, sizeof(inner), "%.80s[%zu]", at, i);
    rc = read_part(r, json_array_get(content, i), inner, parts, err);
  }
  return rc;
}

/* ---- items ---- */

/* The message of the assistant that is last, or a new one; NULL: out of memory. */
static json_t *
open_answer(json_t *messages)
{
  json_t *last = json_array_get(messages, json_array_size(messages) - 1);

  if (json_array_size(messages) && is(qp__json_text(last, "role"), "assistant"))
    return last;
  last = json_pack("{s:s, s:[]}", "role", "assistant", "content");
  return qp__wish_add(messages, last) ? last : NULL;
}

static enum qp_rc
read_message(struct qp__request *r, const json_t *item, const char *at, json_t *messages,
             struct qp_err *err)
{
  const char *role = qp__json_text(item, "role");
  json_t *message;
  char inner[AT_MAX];
  enum qp_rc rc;

  if (is(role, "developer"))
    role = "system";
  if (!is(role, "system") && !is(role, "user") && !is(role, "assistant"))
    return qp__wish_refuse(r, err, at, "%s: \"role\" must be user, assistant, system or developer",
                           at);
  if (is(role, "assistant")) {
    message = open_answer(messages);
  } else {
    message = json_pack("{s:s, s:[]}", "role", role, "content");
    if (!qp__wish_add(messages, message))
      message = NULL;
  }
  if (!message)
    return qp__fail_nomem(err, "an item");
  (void)snprintf(inner, sizeof(inner), "%.80s.content", at);
  rc = read_content(r, json_object_get(item, "content"), inner, json_object_get(message, "content"),
                    err);
  return rc ? rc : qp__wish_check_images(r, role, json_object_get(message, "content"), inner, err);
}

static enum qp_rc
read_call(struct qp__request *r, const json_t *item, const char *at, json_t *messages,
          struct qp_err *err)
{
  const json_t *id = json_object_get(item, "call_id");
  const json_t *name = json_object_get(item, "name");
  const json_t *arguments = json_object_get(item, "arguments");
  json_t *message;
  json_t *calls;

  if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
    return qp__wish_refuse(r, err, at,
                           "%s: a function_call needs \"call_id\", \"name\" and \"arguments\"", at);
  message = open_answer(messages);
  calls = json_object_get(message, "tool_calls");
  if (message && !calls && json_object_set_new(message, "tool_calls", json_array()) == 0)
    calls = json_object_get(message, "tool_calls");
  if (!qp__wish_add(calls,
                    json_pack("{s:O, s:O, s:o, s:s}", "id", id, "tool_name", name, "arguments",
                              qp__openai_arguments(arguments), "approval_status", "Approved")))
    return qp__fail_nomem(err, "an item");
  return QP_OK;
}

static enum qp_rc
read_output(struct qp__request *r, const json_t *item, const char *at, json_t *messages,
            struct qp_err *err)
{
  const json_t *id = json_object_get(item, "call_id");
  const json_t *output = json_object_get(item, "output");
  json_t *parts;
  json_t *message = NULL;
  enum qp_rc rc;

  if (!json_is_string(id) || (!json_is_string(output) && !json_is_array(output)))
    return qp__wish_refuse(r, err, at,
                           "%s: a function_call_output needs \"call_id\" and \"output\"", at);
  parts = json_array();
  rc = parts ? read_content(r, output, at, parts, err) : qp__fail_nomem(err, "an item");
  if (!rc)
    rc = qp__wish_result(r, id, parts, false, at, &message, err);
  if (!rc && !qp__wish_add(messages, message))
    rc = qp__fail_nomem(err, "an item");
  json_decref(parts);
  return rc;
}

static enum qp_rc
read_approval(struct qp__request *r, const json_t *item, const char *at,
              struct qp__response_wish *w, struct qp_err *err)
{
  const char *id = qp__json_text(item, "approval_request_id");
  const json_t *approve = json_object_get(item, "approve");

  if (!w || !id || strncmp(id, "mcpr_", 5) != 0 || !json_is_boolean(approve))
    return qp__wish_refuse(r, err, at,
                           "%s: an mcp_approval_response needs \"approval_request_id\" of a "
                           "request of this server, and \"approve\"",
                           at);
  if (!w->approvals)
    w->approvals = json_array();
  if (!qp__wish_add(w->approvals,
                    qp__json_pack_set("{s:s, s:O, s:s?}", "call", id + 5, "approve", approve,
                                      "reason", qp__json_text(item, "reason"))))
    return qp__fail_nomem(err, "an item");
  return QP_OK;
}

/* It stands for all items before it. */
static enum qp_rc
read_compaction(struct qp__request *r, const json_t *item, const char *at, json_t *messages,
                struct qp__response_wish *w, struct qp_err *err)
{
  const char *content = qp__json_text(item, "encrypted_content");

  if (!w || !content)
    return qp__wish_refuse(r, err, at,
                           w ? "%s: a compaction needs \"encrypted_content\""
                             : "%s: items of type \"compaction\" cannot be stored",
                           at);
  w->compaction = content;
  (void)json_array_clear(messages);
  json_decref(w->approvals);
  w->approvals = NULL;
  return QP_OK;
}

static enum qp_rc
read_item(struct qp__request *r, const json_t *item, const char *at, json_t *messages,
          struct qp__response_wish *w, struct qp_err *err)
{
  const char *type = qp__json_text(item, "type");

  if (!json_is_object(item))
    return qp__wish_refuse(r, err, at, "%s must be an item", at);
  if (!type || is(type, "message"))
    return read_message(r, item, at, messages, err);
  if (is(type, "function_call"))
    return read_call(r, item, at, messages, err);
  if (is(type, "function_call_output"))
    return read_output(r, item, at, messages, err);
  if (is(type, "mcp_approval_response"))
    return read_approval(r, item, at, w, err);
  if (is(type, "compaction"))
    return read_compaction(r, item, at, messages, w, err);
  /* Clients send back what they got. Reasoning of this face cannot be given to a provider, and
   * calls of the server are in its own history. */
  if (is(type, "reasoning") || is(type, "mcp_call") || is(type, "mcp_list_tools") ||
      is(type, "mcp_approval_request"))
    return QP_OK;
  return qp__wish_refuse(r, err, at, "%s: items of type \"%.40s\" are not supported", at, type);
}

enum qp_rc
qp__response_items_read(struct qp__request *r, const json_t *items, const char *at,
                        json_t *messages, struct qp__response_wish *w, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (json_array_size(items) > QP__WISH_MESSAGES_MAX)
    return qp__fail(err, QP_TOOBIG, "%s has more than %d items", at, QP__WISH_MESSAGES_MAX);
  for (size_t i = 0; !rc && i < json_array_size(items); i++) {
    char inner[AT_MAX];

    (void)snprintf(inner, sizeof(inner), "%.80s[%zu]", at, i);
    rc = read_item(r, json_array_get(items, i), inner, messages, w, err);
  }
  return rc;
}

static enum qp_rc
read_input(struct qp__request *r, const json_t *input, struct qp__response_wish *w,
           struct qp_err *err)
{
  w->wish.messages = json_array();
  if (!w->wish.messages)
    return qp__fail_nomem(err, "the input");
  if (!input || json_is_null(input))
    return QP_OK;
  if (json_is_string(input))
    return qp__wish_add(w->wish.messages,
                        json_pack("{s:s, s:[o]}", "role", "user", "content", qp__wish_text(input)))
               ? QP_OK
               : qp__fail_nomem(err, "the input");
  if (!json_is_array(input))
    return qp__wish_refuse(r, err, "input", "\"input\" must be a text or a list of items");
  return qp__response_items_read(r, input, "input", w->wish.messages, w, err);
}

/* ---- tools ---- */

/* The tools of this server run by its own rules: a client cannot choose among them, and cannot ask
 * to be asked. */
static enum qp_rc
read_server_tools(struct qp__request *r, const json_t *tool, const char *at,
                  struct qp__response_wish *w, struct qp_err *err)
{
  const json_t *allowed = json_object_get(tool, "allowed_tools");
  const json_t *approval = json_object_get(tool, "require_approval");

  if ((allowed && !json_is_null(allowed)) ||
      (approval && !json_is_null(approval) && !is(json_string_value(approval), "never")))
    return qp__wish_refuse(r, err, at,
                           "%s: the rules of the server decide which tools run and which need "
                           "approval; leave out \"allowed_tools\" and \"require_approval\"",
                           at);
  w->server_tools = true;
  return QP_OK;
}

static enum qp_rc
read_tools(struct qp__request *r, const json_t *tools, struct qp__response_wish *w,
           struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (tools && !json_is_null(tools) &&
      (!json_is_array(tools) || json_array_size(tools) > QP__WISH_TOOLS_MAX))
    return qp__wish_refuse(r, err, "tools", "\"tools\" must be a list of at most %d tools",
                           QP__WISH_TOOLS_MAX);
  for (size_t i = 0; !rc && i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *type = qp__json_text(tool, "type");
    char at[AT_MAX];

    (void)snprintf(at, sizeof(at), "tools[%zu]", i);
    if (is(type, "function"))
      rc = qp__openai_tool(r, tool, at, &w->wish, err);
    else if (is(type, "mcp") && is(qp__json_text(tool, "server_label"), "quipu"))
      rc = read_server_tools(r, tool, at, w, err);
    else
      rc = qp__wish_refuse(r, err, at,
                           "%s: tools are of type \"function\", or \"mcp\" with the server_label "
                           "\"quipu\" for the tools of this server",
                           at);
  }
  return rc;
}

static enum qp_rc
read_choice(struct qp__request *r, const json_t *choice, struct qp__wish *w, struct qp_err *err)
{
  const char *word = json_string_value(choice);

  if (!choice || json_is_null(choice))
    return QP_OK;
  if (is(word, "auto"))
    w->choice = QP__CHOICE_AUTO;
  else if (is(word, "none"))
    w->choice = QP__CHOICE_NONE;
  else if (is(word, "required"))
    w->choice = QP__CHOICE_ANY;
  else if (is(qp__json_text(choice, "type"), "function") && qp__json_text(choice, "name")) {
    w->choice = QP__CHOICE_TOOL;
    w->choice_tool = qp__json_text(choice, "name");
  } else {
    return qp__wish_refuse(r, err, "tool_choice",
                           "\"tool_choice\" must be auto, none, required or a function");
  }
  return QP_OK;
}

/* ---- the rest ---- */

/* text.format, as response_format of Chat Completions has it. */
static enum qp_rc
read_text(const json_t *text, struct qp__wish *w, struct qp_err *err)
{
  const json_t *format = json_object_get(text, "format");

  if (!format || is(qp__json_text(format, "type"), "text"))
    return QP_OK;
  if (is(qp__json_text(format, "type"), "json_schema"))
    w->format = json_pack("{s:s, s:o}", "type", "json_schema", "json_schema",
                          qp__json_pack_set("{s:s?, s:s?, s:O?, s:O?}", "name",
                                            qp__json_text(format, "name"), "description",
                                            qp__json_text(format, "description"), "schema",
                                            json_object_get(format, "schema"), "strict",
                                            json_object_get(format, "strict")));
  else
    w->format = json_incref((json_t *)format);
  return w->format ? QP_OK : qp__fail_nomem(err, "the parameters");
}

static enum qp_rc
read_parameters(struct qp__request *r, const json_t *body, struct qp__wish *w, struct qp_err *err)
{
  json_t *effort = json_object_get(json_object_get(body, "reasoning"), "effort");
  json_t *p = w->parameters = json_object();
  enum qp_rc rc = p ? QP_OK : qp__fail_nomem(err, "the parameters");

  if (!rc)
    rc = qp__openai_number(r, body, "max_output_tokens", "max_tokens", p, err);
  if (!rc)
    rc = qp__openai_number(r, body, "temperature", "temperature", p, err);
  if (!rc)
    rc = qp__openai_number(r, body, "top_p", "top_p", p, err);
  if (!rc && json_is_string(effort) && json_object_set(p, "effort", effort))
    rc = qp__fail_nomem(err, "the parameters");
  return rc ? rc : read_text(json_object_get(body, "text"), w, err);
}

enum qp_rc
qp__metadata_check(struct qp__request *r, const json_t *metadata, struct qp_err *err)
{
  const char *key;
  json_t *value;

  if (!metadata || json_is_null(metadata))
    return QP_OK;
  if (!json_is_object(metadata) || json_object_size(metadata) > METADATA_MAX)
    return qp__wish_refuse(r, err, "metadata", "\"metadata\" is an object of at most %d strings",
                           METADATA_MAX);
  json_object_foreach ((json_t *)metadata, key, value)
    if (strlen(key) > 64 || !json_is_string(value) || json_string_length(value) > 512)
      return qp__wish_refuse(r, err, "metadata",
                             "\"metadata\": a key has at most 64 and a value at most 512 bytes");
  return QP_OK;
}

/* Fields that Chat Completions has too go to a provider of that protocol. */
static enum qp_rc
read_others(struct qp__request *r, const json_t *body, struct qp__wish *w, struct qp_err *err)
{
  static const struct qp__field_rule rules[] = {
    { "model", QP__FIELD_READ },
    { "input", QP__FIELD_READ },
    { "instructions", QP__FIELD_READ },
    { "stream", QP__FIELD_READ },
    { "store", QP__FIELD_READ },
    { "background", QP__FIELD_READ },
    { "previous_response_id", QP__FIELD_READ },
    { "conversation", QP__FIELD_READ },
    { "metadata", QP__FIELD_READ },
    { "max_output_tokens", QP__FIELD_READ },
    { "temperature", QP__FIELD_READ },
    { "top_p", QP__FIELD_READ },
    { "parallel_tool_calls", QP__FIELD_READ },
    { "text", QP__FIELD_READ },
    { "reasoning", QP__FIELD_READ },
    { "tools", QP__FIELD_READ },
    { "tool_choice", QP__FIELD_READ },
    { "service_tier", QP__FIELD_PASS },
    { "user", QP__FIELD_PASS },
    { "safety_identifier", QP__FIELD_PASS },
    { "prompt_cache_key", QP__FIELD_PASS },
    { "prompt_cache_retention", QP__FIELD_PASS },
    { "prompt_cache_options", QP__FIELD_PASS },
    { "prompt", QP__FIELD_REFUSE },
    { "moderation", QP__FIELD_REFUSE },
    { "top_logprobs", QP__FIELD_REFUSE },
    { NULL, QP__FIELD_IGNORE },
  };
  json_t *verbosity = json_object_get(json_object_get(body, "text"), "verbosity");
  enum qp_rc rc = qp__wish_fields(r, body, rules, w, err);

  if (rc)
    return rc;
  if (json_is_true(json_object_get(json_object_get(body, "prompt_cache_options"), "prewarm")))
    return qp__wish_refuse(r, err, "prompt_cache_options", "\"prewarm\" is not supported");
  if (json_is_string(verbosity) && json_object_set(w->extra, "verbosity", verbosity))
    return qp__fail_nomem(err, "the parameters");
  return QP_OK;
}

/* What the object repeats, with the defaults of the fields. */
static enum qp_rc
make_echo(const json_t *body, struct qp__response_wish *w, struct qp_err *err)
{
  static const struct {
    const char *key, *value; /* the default, as JSON */
  } fields[] = {
    { "instructions", "null" },
    { "metadata", "{}" },
    { "parallel_tool_calls", "true" },
    { "temperature", "null" },
    { "tool_choice", "\"auto\"" },
    { "tools", "[]" },
    { "top_p", "null" },
    { "background", "false" },
    { "max_output_tokens", "null" },
    { "max_tool_calls", "null" },
    { "previous_response_id", "null" },
    { "reasoning", "{\"effort\":null,\"summary\":null}" },
    { "text", "{\"format\":{\"type\":\"text\"}}" },
    { "truncation", "\"disabled\"" },
    { "user", "null" },
    { "store", "true" },
    { "safety_identifier", "null" },
    { "prompt_cache_key", "null" },
  };
  bool good = (w->echo = json_object()) != NULL;

  for (size_t i = 0; good && i < sizeof(fields) / sizeof(fields[0]); i++) {
    json_t *value = json_object_get(body, fields[i].key);

    if (value && !json_is_null(value)) {
      good = json_object_set(w->echo, fields[i].key, value) == 0;
    } else {
      json_t *own = NULL;

      good =
          qp__json_parse("a default", (struct qp_bytes){ fields[i].value, strlen(fields[i].value) },
                         &own, NULL) == QP_OK &&
          json_object_set_new(w->echo, fields[i].key, own) == 0;
    }
  }
  good = good && qp__wish_set(w->echo, "service_tier", json_string("default")) &&
         qp__wish_set(w->echo, "conversation",
                      w->conversation ? json_pack("{s:s}", "id", w->conversation) : json_null());
  return good ? QP_OK : qp__fail_nomem(err, "a response");
}

static enum qp_rc
read_state(struct qp__request *r, const json_t *body, struct qp__response_wish *w,
           struct qp_err *err)
{
  const json_t *conversation = json_object_get(body, "conversation");

  w->previous = qp__json_text(body, "previous_response_id");
  w->conversation = json_is_string(conversation) ? json_string_value(conversation)
                                                 : qp__json_text(conversation, "id");
  w->store = !json_is_false(json_object_get(body, "store"));
  w->background = json_is_true(json_object_get(body, "background"));
  if (w->previous && w->conversation)
    return qp__wish_refuse(r, err, "conversation",
                           "\"previous_response_id\" and \"conversation\" exclude each other");
  if (!w->store && (w->previous || w->conversation || w->background))
    return qp__wish_refuse(r, err, "store",
                           "\"store\": false cannot be used with previous_response_id, "
                           "conversation or background");
  return QP_OK;
}

enum qp_rc
qp__response_request_read(struct qp__request *r, const json_t *body, struct qp__response_wish *w,
                          struct qp_err *err)
{
  const json_t *instructions = json_object_get(body, "instructions");
  const json_t *model = json_object_get(body, "model");
  enum qp_rc rc;

  if (model && !json_is_string(model) && !json_is_null(model))
    return qp__wish_refuse(r, err, "model", "\"model\" must be the name of a model");
  if (json_is_string(model))
    w->wish.model = json_string_value(model);
  if (instructions && !json_is_string(instructions) && !json_is_null(instructions))
    return qp__wish_refuse(r, err, "instructions", "\"instructions\" must be a text");
  w->wish.system = json_string_value(instructions);
  w->wish.stream = json_is_true(json_object_get(body, "stream"));
  w->wish.one_call = json_is_false(json_object_get(body, "parallel_tool_calls"));
  rc = read_others(r, body, &w->wish, err);
  if (!rc)
    rc = read_state(r, body, w, err);
  if (!rc)
    rc = qp__metadata_check(r, json_object_get(body, "metadata"), err);
  if (!rc)
    rc = read_input(r, json_object_get(body, "input"), w, err);
  if (!rc && w->compaction && (w->previous || w->conversation))
    rc = qp__wish_refuse(r, err, "input",
                         "an input with a compaction item cannot be used with "
                         "previous_response_id or conversation: the item names the conversation");
  if (!rc)
    rc = read_tools(r, json_object_get(body, "tools"), w, err);
  if (!rc && w->server_tools && !w->store)
    rc = qp__wish_refuse(r, err, "store",
                         "the tools of this server run in stored responses only: leave out "
                         "\"store\": false");
  if (!rc)
    rc = read_choice(r, json_object_get(body, "tool_choice"), &w->wish, err);
  if (!rc)
    rc = read_parameters(r, body, &w->wish, err);
  return rc ? rc : make_echo(body, w, err);
}

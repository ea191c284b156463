/* message_foreign.c - converts messages of OpenAI's and Anthropic's APIs to our form.
 *
 *   OpenAI     tool_calls[] {"id","type":"function","function":{"name","arguments":"…"}}
 *              role "tool" with "tool_call_id"; role "developer"
 *              parts image_url, input_text, output_text, input_image
 *   Anthropic  blocks tool_use, tool_result, thinking (with "thinking"), image (with "source")
 *
 * Calls in this form count as approved: the program that sent them has run them. Unknown fields are
 * kept. Each result becomes a message with the role "tool". These messages are first, in their
 * order; the rest of the message follows. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "model/message_int.h"

#define WHAT "message"

/* The parts of a message. */
struct pieces {
  json_t *parts, *calls, *results;
};

static bool
is(const char *s, const char *word)
{
  return s && strcmp(s, word) == 0;
}

static bool
is_foreign_part(const json_t *part)
{
  static const char *const types[] = { "tool_use",   "tool_result", "image_url",
                                       "input_text", "output_text", "input_image" };
  const char *type = qp__json_text(part, "type");

  for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++)
    if (strcmp(type, types[i]) == 0)
      return true;
  return (is(type, "thinking") && json_object_get(part, "thinking")) ||
         (is(type, "image") && json_object_get(part, "source"));
}

static bool
is_foreign(const json_t *root)
{
  const json_t *calls = json_object_get(root, "tool_calls");
  const json_t *content = json_object_get(root, "content");

  if (json_object_get(root, "tool_call_id") || is(qp__json_text(root, "role"), "developer"))
    return true;
  for (size_t i = 0; i < json_array_size(calls); i++)
    if (json_object_get(json_array_get(calls, i), "function"))
      return true;
  for (size_t i = 0; i < json_array_size(content); i++)
    if (is_foreign_part(json_array_get(content, i)))
      return true;
  return false;
}

/* ---- calls ---- */

/* Arguments are JSON in a string; a string that is not JSON stays a string. */
static json_t *
read_arguments(const json_t *value)
{
  struct qp_bytes text = { json_string_value(value), json_string_length(value) };
  json_t *parsed = NULL;

  if (!value || (json_is_string(value) && text.len == 0))
    return json_object();
  if (json_is_string(value) && qp__json_parse_outside("arguments", text, &parsed, NULL) == QP_OK)
    return parsed;
  return json_incref((json_t *)value);
}

static enum qp_rc
put_call(struct pieces *p, json_t *id, json_t *name, const json_t *arguments, struct qp_err *err)
{
  json_t *call;

  if (!json_is_string(id) || !json_is_string(name))
    return qp__fail(err, QP_INVALID, WHAT ": a tool call has no id or no name");
  call = json_pack("{s:O, s:O, s:o, s:s}", "id", id, "tool_name", name, "arguments",
                   read_arguments(arguments), "approval_status", "Approved");
  return json_array_append_new(p->calls, call) ? qp__fail_nomem(err, WHAT) : QP_OK;
}

static enum qp_rc
take_calls(struct pieces *p, const json_t *calls, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < json_array_size(calls); i++) {
    json_t *call = json_array_get(calls, i);
    json_t *function = json_object_get(call, "function");

    if (function)
      rc = put_call(p, json_object_get(call, "id"), json_object_get(function, "name"),
                    json_object_get(function, "arguments"), err);
    else if (json_array_append(p->calls, call))
      rc = qp__fail_nomem(err, WHAT);
  }
  return rc;
}

/* ---- results ---- */

static enum qp_rc
put_result(struct pieces *p, json_t *id, json_t *value, bool is_error, struct qp_err *err)
{
  json_t *result;

  if (!json_is_string(id))
    return qp__fail(err, QP_INVALID, WHAT ": a tool result does not name its call");
  if (value && !json_is_string(value) && !json_is_array(value) && !json_is_null(value))
    return qp__fail(err, QP_INVALID, WHAT ": \"content\" must be a string or an array");
  result = json_pack("{s:O, s:o, s:b}", "request_id", id, "result",
                     value ? json_incref(value) : json_string(""), "is_error", is_error);
  return json_array_append_new(p->results, result) ? qp__fail_nomem(err, WHAT) : QP_OK;
}

/* ---- parts ---- */

/* A new value; NULL: out of memory. */
static json_t *
image_of_source(const json_t *part)
{
  const json_t *source = json_object_get(part, "source");
  const char *type = qp__json_text(source, "type");
  const char *data = qp__json_text(source, "data");
  const char *media = qp__json_text(source, "media_type");

  if (is(type, "base64") && data && media)
    return json_pack("{s:s, s:o}", "type", "image", "url",
                     json_sprintf("data:%s;base64,%s", media, data));
  if (is(type, "url") && qp__json_text(source, "url"))
    return json_pack("{s:s, s:s}", "type", "image", "url", qp__json_text(source, "url"));
  return json_incref((json_t *)part);
}

static json_t *
translate_part(const json_t *part)
{
  const char *type = qp__json_text(part, "type");
  const json_t *image = json_object_get(part, "image_url");
  const char *url = json_is_string(image) ? json_string_value(image) : qp__json_text(image, "url");
  const char *detail = qp__json_text(json_is_object(image) ? image : part, "detail");

  if ((is(type, "image_url") || is(type, "input_image")) && url)
    return qp__json_pack_set("{s:s, s:s, s:s?}", "type", "image", "url", url, "detail", detail);
  if ((is(type, "input_text") || is(type, "output_text")) && qp__json_text(part, "text"))
    return json_pack("{s:s, s:O}", "type", "text", "text", json_object_get(part, "text"));
  if (is(type, "thinking") && json_object_get(part, "thinking"))
    return qp__json_pack_set("{s:s, s:O, s:s?}", "type", "thinking", "text",
                             json_object_get(part, "thinking"), "signature",
                             qp__json_text(part, "signature"));
  if (is(type, "image") && json_object_get(part, "source"))
    return image_of_source(part);
  return json_incref((json_t *)part);
}

static enum qp_rc
take_content(struct pieces *p, json_t *content, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (json_is_string(content))
    return json_array_append_new(p->parts, json_pack("{s:s, s:O}", "type", "text", "text", content))
               ? qp__fail_nomem(err, WHAT)
               : QP_OK;
  for (size_t i = 0; !rc && i < json_array_size(content); i++) {
    const json_t *part = json_array_get(content, i);
    const char *type = qp__json_text(part, "type");

    if (is(type, "tool_use"))
      rc = put_call(p, json_object_get(part, "id"), json_object_get(part, "name"),
                    json_object_get(part, "input"), err);
    else if (is(type, "tool_result"))
      rc = put_result(p, json_object_get(part, "tool_use_id"), json_object_get(part, "content"),
                      json_is_true(json_object_get(part, "is_error")), err);
    else if (json_array_append_new(p->parts, translate_part(part)))
      rc = qp__fail_nomem(err, WHAT);
  }
  return rc;
}

/* ---- putting together ---- */

/* The message with the collected parts and calls instead of its own. NULL: out of memory. */
static json_t *
make_rest(const json_t *root, const struct pieces *p)
{
  json_t *rest = qp__json_copy(root);
  bool developer = is(qp__json_text(root, "role"), "developer");
  int bad = !rest;

  if (bad)
    return NULL;
  (void)json_object_del(rest, "tool_calls");
  (void)json_object_del(rest, "tool_call_id");
  if (developer)
    bad = qp__json_set_str(rest, "role", "system");
  bad = bad || json_object_set(rest, "content", p->parts);
  if (!bad && json_array_size(p->calls))
    bad = json_object_set(rest, "tool_calls", p->calls);
  return qp__json_built(rest, bad);
}

/* The message of a result. `whole`: the input has nothing else, and its other fields are kept. */
static json_t *
make_result(const json_t *root, json_t *result, bool whole)
{
  json_t *message = whole ? qp__json_copy(root) : json_object();
  int bad = !message;

  if (!bad && whole) {
    (void)json_object_del(message, "content");
    (void)json_object_del(message, "tool_call_id");
    (void)json_object_del(message, "name");
  }
  if (!bad && !whole && json_object_get(root, "created_at"))
    bad = json_object_set(message, "created_at", json_object_get(root, "created_at"));
  return qp__json_built(message, bad || qp__json_set_str(message, "role", "tool") ||
                                     json_object_set(message, "tool_result", result));
}

static enum qp_rc
put_together(const json_t *root, const struct pieces *p, json_t *out, struct qp_err *err)
{
  size_t results = json_array_size(p->results);
  bool rest = json_array_size(p->parts) || json_array_size(p->calls) || results == 0;

  for (size_t i = 0; i < results; i++)
    if (json_array_append_new(
            out, make_result(root, json_array_get(p->results, i), results == 1 && !rest)))
      return qp__fail_nomem(err, WHAT);
  if (results + rest > 1 && (json_object_get(root, "id") || json_object_get(root, "parent_id")))
    return qp__fail(err, QP_INVALID,
                    WHAT ": \"id\" and \"parent_id\" cannot be used for a message with several "
                         "tool results, which becomes several messages");
  if (rest && json_array_append_new(out, make_rest(root, p)))
    return qp__fail_nomem(err, WHAT);
  return QP_OK;
}

enum qp_rc
qp__message_translate(const json_t *root, json_t **out, struct qp_err *err)
{
  struct pieces p = { json_array(), json_array(), json_array() };
  json_t *list = json_array();
  json_t *call = json_object_get(root, "tool_call_id");
  enum qp_rc rc = QP_OK;

  if (!p.parts || !p.calls || !p.results || !list)
    rc = qp__fail_nomem(err, WHAT);
  else if (!is_foreign(root))
    rc = json_array_append(list, (json_t *)root) ? qp__fail_nomem(err, WHAT) : QP_OK;
  else {
    if (call)
      rc = put_result(&p, call, json_object_get(root, "content"), false, err);
    else
      rc = take_content(&p, json_object_get(root, "content"), err);
    if (!rc)
      rc = take_calls(&p, json_object_get(root, "tool_calls"), err);
    if (!rc)
      rc = put_together(root, &p, list, err);
  }
  json_decref(p.parts);
  json_decref(p.calls);
  json_decref(p.results);
  if (rc)
    json_decref(list);
  else
    *out = list;
  return rc;
}

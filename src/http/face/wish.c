/* wish.c - see wish.h. */
#include "http/face/wish.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"

#define SCHEMA_MAX ((size_t)16 << 20)
#define IGNORED_MAX 1000 /* bytes of the header */
#define RESULT_MAX ((size_t)64 << 20)

void
qp__wish_init(struct qp__wish *w, const char *protocol)
{
  memset(w, 0, sizeof(*w));
  w->protocol = protocol;
  w->model = "";
}

void
qp__wish_release(struct qp__wish *w)
{
  json_decref(w->messages);
  json_decref(w->tools);
  json_decref(w->parameters);
  json_decref(w->extra);
  json_decref(w->ignored);
  json_decref(w->format);
  memset(w, 0, sizeof(*w));
}

enum qp_rc
qp__wish_refuse(struct qp__request *r, struct qp_err *err, const char *param, const char *fmt, ...)
{
  char text[sizeof(err->msg)];
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  if (param)
    r->fail_param = qp__arena_strdup(&r->arena, param);
  return qp__fail(err, QP_INVALID, "%s", text);
}

bool
qp__wish_add(json_t *array, json_t *value)
{
  return value && array && json_array_append_new(array, value) == 0;
}

bool
qp__wish_set(json_t *object, const char *key, json_t *value)
{
  return value && object && json_object_set_new(object, key, value) == 0;
}

json_t *
qp__wish_text(const json_t *text)
{
  return json_pack("{s:s, s:O}", "type", "text", "text", text);
}

json_t *
qp__wish_image(const char *url, const char *detail)
{
  return qp__json_pack_set("{s:s, s:s, s:s?}", "type", "image", "url", url, "detail", detail);
}

static bool
is_word(const json_t *value, const char *word)
{
  return json_is_string(value) && strcmp(json_string_value(value), word) == 0;
}

enum qp_rc
qp__wish_check_images(struct qp__request *r, const char *role, const json_t *parts, const char *at,
                      struct qp_err *err)
{
  for (size_t i = 0; strcmp(role, "user") != 0 && i < json_array_size(parts); i++)
    if (is_word(json_object_get(json_array_get(parts, i), "type"), "image"))
      return qp__wish_refuse(r, err, at, "%s: only messages of the user have images", at);
  return QP_OK;
}

/* ---- results of tools ---- */

static bool
is_text(const json_t *part)
{
  return json_is_string(json_object_get(part, "text"));
}

/* The texts, one per line. NULL: no memory. */
static json_t *
join_texts(const json_t *parts)
{
  struct qp__buf text;
  json_t *value;

  qp__buf_init(&text, RESULT_MAX);
  for (size_t i = 0; i < json_array_size(parts); i++) {
    const json_t *part = json_object_get(json_array_get(parts, i), "text");

    (void)qp__buf_add(&text, i ? "\n" : "", i ? 1 : 0);
    (void)qp__buf_add(&text, json_string_value(part), json_string_length(part));
  }
  value = text.rc ? NULL : json_stringn(text.len ? text.data : "", text.len);
  qp__buf_release(&text);
  return value;
}

/* {"type":"image","data","mimeType"} of a data: URL: new. */
static enum qp_rc
result_image(struct qp__request *r, const json_t *part, const char *at, json_t **out,
             struct qp_err *err)
{
  const char *url = json_string_value(json_object_get(part, "url"));
  const char *comma = strncmp(url, "data:", 5) == 0 ? strstr(url, ";base64,") : NULL;

  if (!comma)
    return qp__wish_refuse(r, err, at,
                           "%s: an image in a result must have its data: a base64 data URL", at);
  *out = json_pack("{s:s, s:s, s:s%}", "type", "image", "data", comma + 8, "mimeType", url + 5,
                   (size_t)(comma - url - 5));
  return *out ? QP_OK : qp__fail_nomem(err, "a result");
}

enum qp_rc
qp__wish_result(struct qp__request *r, const json_t *id, const json_t *parts, bool failed,
                const char *at, json_t **out, struct qp_err *err)
{
  json_t *value = json_array();
  enum qp_rc rc = value ? QP_OK : qp__fail_nomem(err, "a result");
  bool images = false;

  for (size_t i = 0; !rc && i < json_array_size(parts); i++) {
    json_t *block = json_incref(json_array_get(parts, i));

    if (!is_text(block)) {
      json_decref(block);
      block = NULL;
      images = true;
      rc = result_image(r, json_array_get(parts, i), at, &block, err);
    }
    if (!rc && !qp__wish_add(value, block))
      rc = qp__fail_nomem(err, "a result");
  }
  if (!rc && !images) {
    json_decref(value);
    value = join_texts(parts);
  }
  if (!rc)
    *out = json_pack("{s:s, s:{s:O, s:O*, s:b}}", "role", "tool", "tool_result", "request_id", id,
                     "result", value, "is_error", failed);
  if (!rc && (!value || !*out)) {
    json_decref(*out);
    *out = NULL;
    rc = qp__fail_nomem(err, "a result");
  }
  json_decref(value);
  return rc;
}

/* ---- fields ---- */

/* Whether the value of a refused field asks for nothing. */
static bool
is_harmless(const char *name, const json_t *value)
{
  if (json_is_null(value) || json_is_false(value))
    return true;
  if (strcmp(name, "n") == 0)
    return json_integer_value(value) == 1;
  if (strcmp(name, "top_logprobs") == 0)
    return json_is_integer(value) && json_integer_value(value) == 0;
  if (strcmp(name, "logit_bias") == 0)
    return json_is_object(value) && json_object_size(value) == 0;
  if (strcmp(name, "modalities") == 0)
    return json_array_size(value) == 1 && is_word(json_array_get(value, 0), "text");
  return strcmp(name, "function_call") == 0 && is_word(value, "none");
}

enum qp_rc
qp__wish_fields(struct qp__request *r, const json_t *body, const struct qp__field_rule *rules,
                struct qp__wish *w, struct qp_err *err)
{
  const char *key;
  json_t *value;
  bool good;

  w->extra = json_object();
  w->ignored = json_object();
  good = w->extra && w->ignored;
  json_object_foreach ((json_t *)body, key, value) {
    const struct qp__field_rule *rule = rules;

    while (rule->name && strcmp(rule->name, key) != 0)
      rule++;
    if (rule->treatment == QP__FIELD_REFUSE && !is_harmless(key, value))
      return qp__wish_refuse(r, err, key, "\"%.60s\" is not supported", key);
    if (rule->treatment == QP__FIELD_PASS && !json_is_null(value))
      good = good && json_object_set(w->extra, key, value) == 0;
    if (rule->treatment == QP__FIELD_IGNORE && !json_is_null(value))
      good = good && json_object_set_new(w->ignored, key, json_true()) == 0;
  }
  return good ? QP_OK : qp__fail_nomem(err, "the parameters");
}

static bool
add_name(struct qp__buf *names, const char *name)
{
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

  if (strspn(name, plain) == strlen(name)) /* others may not be in a header */
    (void)qp__buf_addf(names, "%s%s", names->len ? ", " : "", name);
  return names->rc != QP_NOMEM;
}

/* Names the fields that have no effect with a provider of `protocol`. */
static bool
tell_ignored(struct qp__request *r, const struct qp__wish *w, const char *protocol)
{
  bool same = strcmp(protocol, w->protocol) == 0;
  struct qp__buf names;
  const char *copy = NULL;
  const char *key;
  json_t *value;
  bool good = true;

  qp__buf_init(&names, IGNORED_MAX);
  json_object_foreach (w->ignored, key, value)
    good = good && add_name(&names, key);
  json_object_foreach (w->extra, key, value)
    good = good && (same || add_name(&names, key));
  if (json_object_get(w->parameters, "thinking") && strcmp(protocol, "anthropic") != 0)
    good = good && add_name(&names, "thinking");
  if (good && names.len)
    copy = qp__arena_strndup(&r->arena, names.data, names.len);
  if (copy)
    qp__reply_header(r, "X-Quipu-Ignored", copy);
  good = good && (copy || !names.len);
  qp__buf_release(&names);
  return good;
}

/* The metadata without the name of a context, which is meant for quipu. */
static bool
forward_metadata(json_t *body)
{
  const json_t *metadata = json_object_get(body, "metadata");
  json_t *copy;

  if (!json_object_get(metadata, "quipu_context"))
    return true;
  copy = qp__json_copy(metadata);
  (void)json_object_del(copy, "quipu_context");
  if (copy && !json_object_size(copy)) {
    json_decref(copy);
    return json_object_del(body, "metadata") == 0;
  }
  return qp__wish_set(body, "metadata", copy);
}

enum qp_rc
qp__wish_read_context(struct qp__request *r, struct qp__wish *w, const json_t *metadata,
                      struct qp_err *err)
{
  const char *header = qp__request_header(r, "X-Quipu-Context");
  const json_t *named = json_object_get(metadata, "quipu_context");

  if (named && !json_is_string(named))
    return qp__wish_refuse(r, err, "metadata.quipu_context", "it must be a string");
  w->context = header && *header ? header : json_string_value(named);
  if (w->context && (!*w->context || strlen(w->context) > 200))
    return qp__wish_refuse(r, err, "metadata.quipu_context",
                           "the name of a context has 1 to 200 bytes");
  return forward_metadata(w->extra) ? QP_OK : qp__fail_nomem(err, "the parameters");
}

/* ---- the whole request ---- */

/* Thinking that has no signature of Anthropic: another provider has made it, or this server. */
static bool
is_unsigned_thinking(const json_t *block)
{
  const char *type = qp__json_text(block, "type");
  const char *signature = qp__json_text(block, "signature");

  return type && strcmp(type, "thinking") == 0 &&
         (!signature || !*signature || strcmp(signature, QP__WISH_NO_SIGNATURE) == 0);
}

/* The messages without such thinking, which Anthropic refuses. NULL: no memory. */
static json_t *
forward_messages(const json_t *messages)
{
  json_t *all = qp__json_copy(messages);
  bool good = all != NULL;

  for (size_t i = 0; good && i < json_array_size(all); i++) {
    const json_t *message = json_array_get(all, i);
    const json_t *content = json_object_get(message, "content");
    json_t *kept = NULL;

    for (size_t k = json_array_size(content); good && k-- > 0;) {
      if (!is_unsigned_thinking(json_array_get(content, k)))
        continue;
      if (!kept)
        kept = qp__json_copy(content);
      good = kept && json_array_remove(kept, k) == 0;
    }
    if (good && kept) {
      json_t *copy = qp__json_copy(message);

      good = copy && json_object_set(copy, "content", kept) == 0 &&
             json_array_set_new(all, i, json_incref(copy)) == 0;
      json_decref(copy);
    }
    json_decref(kept);
  }
  if (!good) {
    json_decref(all);
    all = NULL;
  }
  return all;
}

json_t *
qp__wish_forward(const struct qp__wish *w)
{
  json_t *body = qp__json_copy(w->body);

  if (body && forward_metadata(body) &&
      (strcmp(w->protocol, "anthropic") != 0 ||
       qp__wish_set(body, "messages", forward_messages(json_object_get(body, "messages")))))
    return body;
  json_decref(body);
  return NULL;
}

/* ---- tools ---- */

static const char empty_schema[] = "{\"type\":\"object\",\"properties\":{}}";

static bool
write_tool(struct qp__request *r, const json_t *tool, struct qp__llm_tool *out)
{
  const json_t *schema = json_object_get(tool, "parameters");
  struct qp__buf text;
  const char *copy;

  qp__buf_init(&text, SCHEMA_MAX);
  if (json_is_object(schema))
    (void)qp__json_write(&text, schema);
  else
    (void)qp__buf_add_str(&text, empty_schema);
  copy = text.rc ? NULL : qp__arena_strndup(&r->arena, text.data, text.len);
  out->name = json_string_value(json_object_get(tool, "name"));
  out->description = json_string_value(json_object_get(tool, "description"));
  out->schema = (struct qp_bytes){ copy, text.len };
  out->strict = json_is_true(json_object_get(tool, "strict"));
  qp__buf_release(&text);
  return copy != NULL;
}

/* A provider that cannot be told to use no tool, or only one, is not offered the others. */
enum qp_rc
qp__wish_tools(struct qp__request *r, const struct qp__wish *w, struct qp__llm_tool **out,
               size_t *count, struct qp_err *err)
{
  size_t n = w->choice == QP__CHOICE_NONE ? 0 : json_array_size(w->tools);
  struct qp__llm_tool *list = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*list));

  if (!list)
    return qp__fail_nomem(err, "the tools");
  *count = 0;
  for (size_t i = 0; i < n; i++)
    if (!write_tool(r, json_array_get(w->tools, i), &list[(*count)++]))
      return qp__fail_nomem(err, "the tools");
  *out = list;
  return QP_OK;
}

char **
qp__wish_tool_names(const struct qp__wish *w)
{
  size_t n = json_array_size(w->tools);
  size_t bytes = (n + 1) * sizeof(char *);
  char **names;
  char *at;

  for (size_t i = 0; i < n; i++)
    bytes += json_string_length(json_object_get(json_array_get(w->tools, i), "name")) + 1;
  names = qp__alloc(bytes);
  if (!names)
    return NULL;
  at = (char *)(names + n + 1);
  for (size_t i = 0; i < n; i++) {
    const json_t *name = json_object_get(json_array_get(w->tools, i), "name");

    names[i] = at;
    memcpy(at, json_string_value(name), json_string_length(name) + 1);
    at += json_string_length(name) + 1;
  }
  names[n] = NULL;
  return names;
}

/* ---- parameters ---- */

static bool
choose_openai(const struct qp__wish *w, json_t *extra)
{
  static const char *const words[] = {
    [QP__CHOICE_AUTO] = "auto", [QP__CHOICE_NONE] = "none", [QP__CHOICE_ANY] = "required"
  };

  if (!json_array_size(w->tools))
    return true;
  if (w->one_call && !qp__wish_set(extra, "parallel_tool_calls", json_false()))
    return false;
  if (w->choice == QP__CHOICE_TOOL)
    return qp__wish_set(
        extra, "tool_choice",
        json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", w->choice_tool));
  return w->choice == QP__CHOICE_UNSET || w->choice == QP__CHOICE_NONE ||
         qp__wish_set(extra, "tool_choice", json_string(words[w->choice]));
}

static bool
choose_anthropic(const struct qp__wish *w, json_t *extra)
{
  json_t *choice;

  if (!json_array_size(w->tools) || w->choice == QP__CHOICE_NONE ||
      (w->choice == QP__CHOICE_UNSET && !w->one_call))
    return true;
  choice = json_pack("{s:s}", "type",
                     w->choice == QP__CHOICE_ANY    ? "any"
                     : w->choice == QP__CHOICE_TOOL ? "tool"
                                                    : "auto");
  if (choice && w->choice == QP__CHOICE_TOOL &&
      !qp__wish_set(choice, "name", json_string(w->choice_tool))) {
    json_decref(choice);
    return false;
  }
  if (choice && w->one_call && !qp__wish_set(choice, "disable_parallel_tool_use", json_true())) {
    json_decref(choice);
    return false;
  }
  return qp__wish_set(extra, "tool_choice", choice);
}

/* response_format of Chat Completions for other protocols. */
static enum qp_rc
set_format(struct qp__request *r, const struct qp__wish *w, const char *protocol, json_t *extra,
           struct qp_err *err)
{
  const char *type = json_string_value(json_object_get(w->format, "type"));
  const json_t *schema = json_object_get(json_object_get(w->format, "json_schema"), "schema");
  bool good = true;

  if (!w->format || !type || strcmp(type, "text") == 0 || strcmp(protocol, "demo") == 0)
    return QP_OK;
  if (strcmp(protocol, "openai") == 0)
    good = qp__wish_set(extra, "response_format", json_incref(w->format));
  else if (strcmp(protocol, "ollama") == 0)
    good =
        qp__wish_set(extra, "format",
                     json_is_object(schema) ? json_incref((json_t *)schema) : json_string("json"));
  else if (json_is_object(schema))
    good = qp__wish_set(
        extra, "output_config",
        json_pack("{s:{s:s, s:O}}", "format", "type", "json_schema", "schema", schema));
  else
    return qp__wish_refuse(r, err, "response_format",
                           "the provider of this model has no JSON mode without a schema; use "
                           "json_schema");
  return good ? QP_OK : qp__fail_nomem(err, "the parameters");
}

enum qp_rc
qp__wish_parameters(struct qp__request *r, const struct qp__wish *w, const char *protocol,
                    json_t **out, struct qp_err *err)
{
  bool same = strcmp(protocol, w->protocol) == 0;
  json_t *all = w->parameters ? qp__json_copy(w->parameters) : json_object();
  json_t *extra = same && w->extra ? qp__json_copy(w->extra) : json_object();
  enum qp_rc rc = QP_OK;
  bool good = all && extra && tell_ignored(r, w, protocol);

  if (good && strcmp(protocol, "openai") == 0)
    good = choose_openai(w, extra);
  else if (good && strcmp(protocol, "anthropic") == 0)
    good = choose_anthropic(w, extra);
  if (good)
    rc = set_format(r, w, protocol, extra, err);
  if (good && !rc && json_object_size(extra))
    good = json_object_set(all, "extra_body", extra) == 0;
  json_decref(extra);
  if (!good)
    rc = qp__fail_nomem(err, "the parameters");
  if (rc)
    json_decref(all);
  else
    *out = all;
  return rc;
}

/* fault.c - see fault.h.
 *
 * Providers agree on little: {"type":"error","error":{"type","message"}} (Anthropic),
 * {"error":{"message","type","param","code"}} (OpenAI and most others; "code" may be a number),
 * {"error":"sentence"} (Ollama), {"message"} or {"detail"} (proxies), HTML (networks of proxies).
 * So the message, a type and a code are extracted from any of these forms. Known words decide
 * first, and otherwise the status decides. */
#include "llm/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/str.h"
#include "net/client.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define RETRY_AFTER_MAX_MS ((int64_t)24 * 3600 * 1000)

static const struct {
  const char *name;
  enum qp__fault_action action;
} kinds[] = {
#define KIND_ROW(name, text, action) { text, QP__ACTION_##action },
  QP__FAULT_MAP(KIND_ROW)
#undef KIND_ROW
};

const char *
qp__fault_name(enum qp__fault_kind kind)
{
  return (size_t)kind < COUNT(kinds) ? kinds[kind].name : "unknown";
}

enum qp__fault_action
qp__fault_action(enum qp__fault_kind kind)
{
  return (size_t)kind < COUNT(kinds) ? kinds[kind].action : QP__ACTION_FATAL;
}

int64_t
qp__fault_backoff_ms(const struct qp__llm_fault *fault, unsigned attempt, uint32_t random)
{
  int64_t wait = (int64_t)500 << (attempt < 4 ? attempt : 4);
  double part = (double)random / 4294967296.0;

  wait -= (int64_t)((double)wait / 4 * part);
  if (fault->retry_after_ms > 0)
    return fault->retry_after_ms + (int64_t)(250 * part);
  return wait;
}

/* ---- header ---- */

void
qp__llm_head_init(struct qp__llm_head *head)
{
  memset(head, 0, sizeof(*head));
  head->retry_after_ms = -1;
  head->should_retry = -1;
}

static void
copy_text(char *out, size_t size, const char *s, size_t n)
{
  size_t fits = qp__utf8_fit(s, n, size - 1);

  memcpy(out, s, fits);
  out[fits] = 0;
  for (char *p = out; *p; p++)
    if ((unsigned char)*p < 0x20 || *p == 0x7f)
      *p = ' ';
}

static int64_t
clamp_wait(double ms)
{
  if (!(ms > 0))
    return 0;
  return ms > (double)RETRY_AFTER_MAX_MS ? RETRY_AFTER_MAX_MS : (int64_t)ms;
}

/* A number of units, with or without a fraction. */
static bool
parse_wait(const char *text, double unit_ms, int64_t *out)
{
  char *end;
  double v = strtod(text, &end);

  if (end == text || *end || !(v >= 0))
    return false;
  *out = clamp_wait(v * unit_ms);
  return true;
}

void
qp__llm_head_feed(struct qp__llm_head *head, struct qp_bytes name, struct qp_bytes value,
                  int64_t now_ms)
{
  char text[96];

  copy_text(text, sizeof(text), value.data, value.len);
  if (qp__net_is_header(name, "retry-after-ms")) {
    (void)parse_wait(text, 1, &head->retry_after_ms);
  } else if (qp__net_is_header(name, "retry-after")) {
    if (head->retry_after_ms < 0 && !parse_wait(text, 1000, &head->retry_after_ms)) {
      int64_t at = qp__net_parse_date(text);

      if (at >= 0)
        head->retry_after_ms = clamp_wait((double)at - (double)now_ms);
    }
  } else if (qp__net_is_header(name, "x-should-retry")) {
    head->should_retry = strcasecmp(text, "true") == 0 ? 1 : 0;
  } else if (qp__net_is_header(name, "request-id") || qp__net_is_header(name, "x-request-id")) {
    copy_text(head->request_id, sizeof(head->request_id), value.data, value.len);
  }
}

/* ---- making ---- */

void
qp__fault_set(struct qp__llm_fault *out, enum qp__fault_kind kind, const char *fmt, ...)
{
  char text[512];
  va_list args;
  int n;

  memset(out, 0, sizeof(*out));
  out->kind = kind;
  out->retry_after_ms = -1;
  va_start(args, fmt);
  n = vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  if (n > 0)
    copy_text(out->message, sizeof(out->message), text, strlen(text));
}

void
qp__fault_from_err(struct qp__llm_fault *out, const struct qp_err *err)
{
  qp__fault_set(out, QP__FAULT_INTERNAL, "%s", err->msg[0] ? err->msg : qp_rc_text(err->rc));
}

/* ---- judging ---- */

/* The type, code and message of an error. */
struct words {
  const char *type;
  char code[64];
  const char *message;
  const json_t *error; /* the object, or NULL */
};

struct rule {
  const char *word; /* in the message, case ignored; or the whole type or code */
  enum qp__fault_kind kind;
};

static const struct rule named[] = {
  { "context_length_exceeded", QP__FAULT_TOO_LONG },
  { "exceed_context_size_error", QP__FAULT_TOO_LONG },
  { "model_context_window_exceeded", QP__FAULT_TOO_LONG },
  { "request_too_large", QP__FAULT_TOO_LARGE },
  { "insufficient_quota", QP__FAULT_QUOTA },
  { "billing_error", QP__FAULT_QUOTA },
  { "billing_hard_limit_reached", QP__FAULT_QUOTA },
  { "authentication_error", QP__FAULT_AUTH },
  { "invalid_api_key", QP__FAULT_AUTH },
  { "permission_error", QP__FAULT_AUTH },
  { "not_found_error", QP__FAULT_MODEL },
  { "model_not_found", QP__FAULT_MODEL },
  { "rate_limit_error", QP__FAULT_RATE },
  { "rate_limit_exceeded", QP__FAULT_RATE },
  { "overloaded_error", QP__FAULT_OVERLOADED },
  { "api_error", QP__FAULT_SERVER },
  { "server_error", QP__FAULT_SERVER },
  { "timeout_error", QP__FAULT_SERVER },
  { "conflict_error", QP__FAULT_SERVER },
  { "conversation_locked", QP__FAULT_SERVER },
};

/* Looked for when the request itself was found bad. */
static const struct rule said[] = {
  { "prompt is too long", QP__FAULT_TOO_LONG },
  { "exceeds the available context size", QP__FAULT_TOO_LONG },
  { "maximum context length", QP__FAULT_TOO_LONG },
  { "exceed context limit", QP__FAULT_TOO_LONG },
  { "exceeds the context window", QP__FAULT_TOO_LONG },
  { "exceeds context length", QP__FAULT_TOO_LONG },
  { "input is too long", QP__FAULT_TOO_LONG },
  { "without `tool_result` blocks", QP__FAULT_HISTORY },
  { "without tool_result blocks", QP__FAULT_HISTORY },
  { "unexpected `tool_use_id`", QP__FAULT_HISTORY },
  { "each `tool_result` block must have a corresponding", QP__FAULT_HISTORY },
  { "must be followed by tool messages", QP__FAULT_HISTORY },
  { "must be a response to a preceeding message", QP__FAULT_HISTORY },
  { "must be a response to a preceding message", QP__FAULT_HISTORY },
  { "`signature` in `thinking`", QP__FAULT_THINKING },
  { "thinking` or `redacted_thinking` blocks", QP__FAULT_THINKING },
  { "credit balance is too low", QP__FAULT_QUOTA },
};

/* Messages of servers about an image that their model does not accept; with any status (llama.cpp:
 * 500, OpenRouter: 404). */
static const char *const about_images[] = {
  "image input is not supported", "support image input",
  "does not support image",       "do not support image",
  "not support vision",           "is not a multimodal model",
  "not a vision model",           "image_url is only supported",
  "content type. image_url",      "unsupported content type 'image_url'",
  "unknown variant `image_url`",  "could not process image",
};

static void
read_words(const json_t *root, struct words *w)
{
  const json_t *error = json_object_get(root, "error");
  const json_t *code;

  memset(w, 0, sizeof(*w));
  if (!error)
    error = root;
  if (json_is_string(error)) {
    w->message = json_string_value(error);
    return;
  }
  w->error = error;
  w->message = qp__json_text(error, "message");
  w->type = qp__json_text(error, "type");
  code = json_object_get(error, "code");
  if (json_is_string(code))
    copy_text(w->code, sizeof(w->code), json_string_value(code), json_string_length(code));
  else if (json_is_integer(code))
    (void)snprintf(w->code, sizeof(w->code), "%lld", (long long)json_integer_value(code));
  if (!w->message)
    w->message = qp__json_text(root, "message");
  if (!w->message)
    w->message = qp__json_text(root, "detail");
}

static bool
find_rule(const struct words *w, int status, enum qp__fault_kind *out)
{
  bool bad_request = status == 200 || (status >= 400 && status != 401 && status != 403 &&
                                       status != 404 && status != 429);

  for (size_t i = 0; w->message && i < COUNT(about_images); i++)
    if (strcasestr(w->message, about_images[i])) {
      *out = QP__FAULT_IMAGES;
      return true;
    }
  for (size_t i = 0; bad_request && w->message && i < COUNT(said); i++)
    if (strcasestr(w->message, said[i].word)) {
      *out = said[i].kind;
      return true;
    }
  for (size_t i = 0; i < COUNT(named); i++)
    if (strcmp(w->code, named[i].word) == 0 || (w->type && strcmp(w->type, named[i].word) == 0)) {
      *out = named[i].kind;
      return true;
    }
  return false;
}

static enum qp__fault_kind
kind_of_status(int status)
{
  switch (status) {
  case 401:
  case 403:
    return QP__FAULT_AUTH;
  case 402:
    return QP__FAULT_QUOTA;
  case 404:
    return QP__FAULT_MODEL;
  case 408:
  case 409:
  case 425:
    return QP__FAULT_SERVER;
  case 413:
    return QP__FAULT_TOO_LARGE;
  case 429:
    return QP__FAULT_RATE;
  case 503:
  case 529:
    return QP__FAULT_OVERLOADED;
  default:
    break;
  }
  if (status >= 500)
    return QP__FAULT_SERVER;
  return status >= 400 ? QP__FAULT_REQUEST : QP__FAULT_PROTOCOL;
}

/* The number after some words; returns the text after the number, or NULL if there is no number. */
static const char *
number_behind(const char *text, const char *words, int64_t *out)
{
  const char *at = text ? strstr(text, words) : NULL;
  char *end;
  long long n;

  if (!at)
    return NULL;
  at += strlen(words);
  n = strtoll(at, &end, 10);
  if (end == at || n < 0)
    return NULL;
  *out = n;
  return end;
}

/* "prompt is too long: N tokens > M maximum", "maximum context length is M tokens. However, …
 * resulted in N tokens", or the numbers that llama.cpp gives by name. */
static void
read_sizes(struct qp__llm_fault *out, const struct words *w)
{
  const char *rest;

  out->tokens = json_integer_value(json_object_get(w->error, "n_prompt_tokens"));
  out->window = json_integer_value(json_object_get(w->error, "n_ctx"));
  if (out->tokens || !w->message)
    return;
  rest = number_behind(w->message, "too long: ", &out->tokens);
  if (rest) {
    (void)number_behind(rest, "> ", &out->window);
    return;
  }
  rest = number_behind(w->message, "context length is ", &out->window);
  if (!number_behind(rest, "resulted in ", &out->tokens))
    (void)number_behind(rest, "requested ", &out->tokens); /* vLLM */
}

static void
judge(struct qp__llm_fault *out, const struct qp__llm_head *head, const struct words *w)
{
  enum qp__fault_kind kind = kind_of_status(head->status);
  bool known = find_rule(w, head->status, &kind);

  if (!known && head->status < 400) /* an error in a stream, of an unknown kind */
    kind = QP__FAULT_SERVER;
  if (head->should_retry == 1 && qp__fault_action(kind) == QP__ACTION_FATAL)
    kind = QP__FAULT_SERVER;
  if (head->should_retry == 0 && qp__fault_action(kind) == QP__ACTION_RETRY)
    kind = QP__FAULT_REQUEST;
  if (w->message && *w->message)
    qp__fault_set(out, kind, "%.400s", w->message);
  else if (head->status != 200)
    qp__fault_set(out, kind, "the provider answered with status %d", head->status);
  else
    qp__fault_set(out, kind, "the provider sent an error without a message");
  out->status = head->status;
  out->retry_after_ms = head->retry_after_ms;
  (void)snprintf(out->request_id, sizeof(out->request_id), "%s", head->request_id);
  if (w->type || w->code[0]) {
    const char *code = w->type ? w->type : w->code;

    copy_text(out->code, sizeof(out->code), code, strlen(code));
  }
  if (kind == QP__FAULT_TOO_LONG)
    read_sizes(out, w);
}

void
qp__fault_from_value(struct qp__llm_fault *out, const struct qp__llm_head *head,
                     const json_t *value)
{
  struct words w;

  read_words(value, &w);
  judge(out, head, &w);
}

void
qp__fault_from_reply(struct qp__llm_fault *out, const struct qp__llm_head *head,
                     struct qp_bytes body)
{
  struct words w = { .code = "" };
  json_t *root = NULL;
  struct qp_err err;

  if (qp__json_parse_outside_object("body", body, &root, &err) == QP_OK)
    read_words(root, &w);
  judge(out, head, &w);
  if (!out->request_id[0] && qp__json_text(root, "request_id")) {
    const char *id = qp__json_text(root, "request_id");

    copy_text(out->request_id, sizeof(out->request_id), id, strlen(id));
  }
  json_decref(root);
}

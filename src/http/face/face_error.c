/* face_error.c - see face_error.h. The table maps codes of quipu to the words that clients of the
 * other protocols look at. */
#include "http/face/face_error.h"

#include <string.h>

#include "http/emit.h"
#include "http/face/face.h"

#define ID_BYTES 12

enum family { NONE, OPENAI, ANTHROPIC, AISDK };

static enum family
family_of(const struct qp__request *r)
{
  if (strncmp(r->path, "/openai/", 8) == 0)
    return OPENAI;
  if (strncmp(r->path, "/anthropic/", 11) == 0)
    return ANTHROPIC;
  return strncmp(r->path, "/ai/", 4) == 0 ? AISDK : NONE;
}

/* Of OpenAI: the code for a code of ours; others are in small letters as they are. */
static const char *
openai_code(const char *code)
{
  static const struct {
    const char *ours, *theirs;
  } words[] = {
    { "UNAUTHORIZED", "invalid_api_key" },
    { "MODEL", "model_not_found" },
    { "CONTEXT_LENGTH", "context_length_exceeded" },
    { "PROVIDER_RATE", "rate_limit_exceeded" },
    { "PROVIDER_QUOTA", "insufficient_quota" },
    { "LOCKED", "conversation_locked" },
    { "NO_RESPONSE", "previous_response_not_found" },
    { "INVALID", NULL },
    { "NOTFOUND", NULL },
  };

  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (strcmp(words[i].ours, code) == 0)
      return words[i].theirs;
  return code;
}

static const char *
openai_type(unsigned status)
{
  switch (status) {
  case MHD_HTTP_UNAUTHORIZED:
    return "authentication_error";
  case MHD_HTTP_FORBIDDEN:
    return "permission_error";
  case MHD_HTTP_TOO_MANY_REQUESTS:
    return "rate_limit_error";
  default:
    return status < 500 ? "invalid_request_error" : "server_error";
  }
}

static const char *
anthropic_type(unsigned status)
{
  switch (status) {
  case MHD_HTTP_UNAUTHORIZED:
    return "authentication_error";
  case MHD_HTTP_PAYMENT_REQUIRED:
    return "billing_error";
  case MHD_HTTP_FORBIDDEN:
    return "permission_error";
  case MHD_HTTP_NOT_FOUND:
    return "not_found_error";
  case MHD_HTTP_CONTENT_TOO_LARGE:
    return "request_too_large";
  case MHD_HTTP_TOO_MANY_REQUESTS:
    return "rate_limit_error";
  case MHD_HTTP_GATEWAY_TIMEOUT:
    return "timeout_error";
  case MHD_HTTP_SERVICE_UNAVAILABLE:
    return "overloaded_error";
  default:
    return status < 500 ? "invalid_request_error" : "api_error";
  }
}

bool
qp__face_error(struct qp__request *r, unsigned status, const char *code, const char *message)
{
  struct qp__buf *b = &r->reply.body;

  switch (family_of(r)) {
  case NONE:
    return false;
  case OPENAI:
    qp__emit_open(b, NULL, '{');
    qp__emit_open(b, "error", '{');
    qp__emit_str(b, "message", message);
    qp__emit_str(b, "type", openai_type(status));
    qp__emit_str(b, "param", r->fail_param);
    qp__emit_str(b, "code", openai_code(code));
    qp__emit_close(b, '}');
    qp__emit_close(b, '}');
    break;
  case ANTHROPIC:
    qp__emit_open(b, NULL, '{');
    qp__emit_str(b, "type", "error");
    qp__emit_open(b, "error", '{');
    qp__emit_str(b, "type", anthropic_type(status));
    qp__emit_str(b, "message", message);
    if (strcmp(code, "THREAD") == 0) { /* the client continues without it, if it may */
      qp__emit_open(b, "details", '{');
      qp__emit_str(b, "error_code", "thread_unsupported_request");
      qp__emit_open(b, "unsupported", '[');
      qp__emit_str(b, NULL, "thread");
      qp__emit_close(b, ']');
      qp__emit_close(b, '}');
    }
    qp__emit_close(b, '}');
    qp__emit_close(b, '}');
    break;
  case AISDK: /* useChat shows the text of the body */
    r->reply.type = "text/plain; charset=utf-8";
    (void)qp__buf_add_str(b, message);
    break;
  }
  return true;
}

void
qp__face_headers(struct qp__request *r)
{
  enum family family = family_of(r);
  char value[4 + 2 * ID_BYTES + 1] = "req_";
  const char *copy;

  if ((family != OPENAI && family != ANTHROPIC) || !qp__face_random(value + 4, ID_BYTES))
    return;
  copy = qp__arena_strdup(&r->arena, value);
  if (copy)
    qp__reply_header(r, family == OPENAI ? "x-request-id" : "request-id", copy);
}

/* model_request.h - a request to a model, independent of the provider. */
#ifndef QP_LLM_MODEL_REQUEST_H
#define QP_LLM_MODEL_REQUEST_H

#include <jansson.h>

#include "base/buf.h"
#include "quipu.h"

#define QP__LLM_BODY_MAX ((size_t)64 << 20) /* of an encoded request */

struct qp__llm_tool {
  const char *name;
  const char *description; /* NULL: no description */
  struct qp_bytes schema;  /* of its arguments, a JSON object as text; empty: no arguments */
  bool strict;             /* the provider makes sure that arguments fit the schema */
};

/* From the "parameters" of a context. Zeroed: the provider's defaults. */
struct qp__llm_params {
  int64_t max_tokens;  /* of the answer; 0: the model's own limit */
  json_t *temperature; /* a number or NULL; numbers keep the form in which they were written */
  json_t *top_p;
  json_t *stop;     /* an array of strings or NULL */
  json_t *thinking; /* an object as Anthropic accepts it, or NULL */
  char *effort;     /* "low", "medium", "high" …, or NULL */
  int64_t num_ctx;  /* of Ollama: the window to load the model with; 0: its default */
  json_t *extra;    /* "extra_body": more fields of the body, as they are, or NULL */
};

/* Reads the known fields of the object and ignores the rest: a context may have parameters that are
 * not meant for a provider. QP_INVALID: a wrong type, or an extra field that quipu writes itself.
 * NULL or null is an object without fields. Release with qp__llm_params_release(), also after a
 * failure. */
enum qp_rc qp__llm_params_init(struct qp__llm_params *params, const json_t *object,
                               struct qp_err *err);
void qp__llm_params_release(struct qp__llm_params *params);

/* Appends the bytes of a blob that a message refers to. QP_NOTFOUND and the like make an image
 * unavailable for the model; QP_NOMEM ends the encoding. */
typedef enum qp_rc qp__llm_blob_fn(void *arg, const char *id, struct qp__buf *out,
                                   struct qp_err *err);

enum qp__llm_cache {
  QP__CACHE_OFF,
  QP__CACHE_5M, /* breakpoints for the provider's prompt cache, which keeps them for 5 minutes */
  QP__CACHE_1H,
};

enum qp__llm_request_flags {
  QP__LLM_NO_THINKING = 1u << 0,    /* leave out earlier thinking, after QP__FAULT_THINKING */
  QP__LLM_MAX_COMPLETION = 1u << 1, /* Chat Completions: "max_completion_tokens" */
  QP__LLM_SEND_REASONING = 1u << 2, /* Chat Completions: send "reasoning_content" back */
  QP__LLM_NO_IMAGES = 1u << 4,      /* the model does not accept images, after QP__FAULT_IMAGES */
  QP__LLM_NO_STREAM_OPTIONS = 1u << 3, /* Chat Completions: a server that refuses the field */
};

/* Everything is borrowed. */
struct qp__llm_request {
  const char *model;                        /* as the provider calls it */
  struct qp_bytes system;                   /* empty: no system prompt */
  const struct qp_message *const *messages; /* oldest first */
  size_t message_count;
  const struct qp__llm_tool *tools; /* in an order that stays the same from turn to turn */
  size_t tool_count;
  struct qp__llm_params params;
  int64_t max_output; /* of the model, for providers that require it; 0: 8192 */
  enum qp__llm_cache cache;
  unsigned flags;
  qp__llm_blob_fn *blob; /* NULL: no blob is available */
  void *blob_arg;
  struct qp__buf
      *body; /* the result of qp__llm_encode(), which the call will own; NULL: not encoded yet */
};

#endif

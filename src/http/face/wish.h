/* wish.h - what a client of another protocol asks for, in quipu's words.
 *
 * The decoder of a protocol fills it from a request; exchange.h answers it. Messages are in the
 * stored form of a message (model/message.h). Everything is borrowed from the request's body or in
 * the request's arena, except the JSON values, which the wish owns. */
#ifndef QP_HTTP_WISH_H
#define QP_HTTP_WISH_H

#include "http/request.h"
#include "llm/model_request.h"

#define QP__WISH_MESSAGES_MAX 100000
#define QP__WISH_TOOLS_MAX 512

/* Thinking of another provider than Anthropic has no signature, and Anthropic's clients must send
 * one back. They get this one, and such thinking is left out when it comes back. */
#define QP__WISH_NO_SIGNATURE "quipu"

enum qp__choice {
  QP__CHOICE_UNSET,
  QP__CHOICE_AUTO,
  QP__CHOICE_NONE,
  QP__CHOICE_ANY, /* some tool must be called */
  QP__CHOICE_TOOL /* this one */
};

/* What becomes of a field of a request. The tables of docs/openai.md and docs/ai-sdk.md say so
 * too, and e2e/face_fields checks that they agree. */
enum qp__treatment {
  QP__FIELD_READ,   /* by the decoder */
  QP__FIELD_PASS,   /* sent to a provider of the same protocol; other providers do not get it */
  QP__FIELD_IGNORE, /* has no effect here */
  QP__FIELD_REFUSE, /* 400, unless it has the value that means nothing */
};

struct qp__field_rule {
  const char *name; /* NULL: all others, at the end of the list */
  enum qp__treatment treatment;
};

struct qp__wish {
  const char *protocol; /* of the client: "openai", "anthropic" */
  const char *model;
  const char *system; /* besides system messages; NULL: none */
  json_t *messages;   /* array */
  json_t *tools;      /* array of client tools (model/client_tool.h), or NULL */
  json_t *parameters; /* object: max_tokens, temperature, top_p, stop, thinking, effort */
  json_t *extra;      /* object: fields that go to a provider of the same protocol unchanged */
  json_t *ignored;    /* object: the names of fields without effect */
  json_t *format;     /* Chat Completions: response_format, or NULL */
  enum qp__choice choice;
  const char *choice_tool;
  bool one_call; /* at most one tool call at a time */
  bool stream;
  const json_t *body;  /* the request, when a provider of the same protocol may get it; or NULL */
  const char *context; /* the context that keeps the exchange: an id, a name, "new"; NULL: none */
};

void qp__wish_init(struct qp__wish *w, const char *protocol);
void qp__wish_release(struct qp__wish *w);

/* Goes through the fields of a request: refuses them, or fills `extra` and `ignored`. */
enum qp_rc qp__wish_fields(struct qp__request *r, const json_t *body,
                           const struct qp__field_rule *rules, struct qp__wish *w,
                           struct qp_err *err);
/* Reads the header X-Quipu-Context, or "quipu_context" of the request's metadata. */
enum qp_rc qp__wish_read_context(struct qp__request *r, struct qp__wish *w, const json_t *metadata,
                                 struct qp_err *err);

/* The request for a provider of the client's own protocol, which gets every field: new. Without
 * what the caller writes itself (qp__llm_forward) and what is meant for quipu. NULL: no memory. */
json_t *qp__wish_forward(const struct qp__wish *w);

/* The parameters for a provider of `protocol`, as in the config of a context: new. The header
 * X-Quipu-Ignored of the response names the fields that have no effect with it. QP_INVALID: the
 * provider cannot do what is asked; r->fail_param names the field. */
enum qp_rc qp__wish_parameters(struct qp__request *r, const struct qp__wish *w,
                               const char *protocol, json_t **out, struct qp_err *err);
/* The tools for a provider: in the arena. */
enum qp_rc qp__wish_tools(struct qp__request *r, const struct qp__wish *w,
                          struct qp__llm_tool **out, size_t *count, struct qp_err *err);
/* Their names, ending with NULL, for a face: one allocation. NULL: out of memory. */
char **qp__wish_tool_names(const struct qp__wish *w);

/* Fails with 400; `param` names the field in the form of the protocol, "messages[3].content". */
enum qp_rc qp__wish_refuse(struct qp__request *r, struct qp_err *err, const char *param,
                           const char *fmt, ...) QP_PRINTF(4, 5);

/* The message with the result of a call, of parts of text and images: new. Its result is a text, or
 * blocks as MCP has them when there are images, whose URLs must have their data. */
enum qp_rc qp__wish_result(struct qp__request *r, const json_t *id, const json_t *parts,
                           bool failed, const char *at, json_t **out, struct qp_err *err);
/* Refuses images in messages of the system and of the assistant: no provider takes them there. */
enum qp_rc qp__wish_check_images(struct qp__request *r, const char *role, const json_t *parts,
                                 const char *at, struct qp_err *err);

/* Helpers for decoders. All take over `value`; false: out of memory. */
bool qp__wish_add(json_t *array, json_t *value);
bool qp__wish_set(json_t *object, const char *key, json_t *value);
/* {"type":"text","text":…} and {"type":"image","url":…}. NULL: out of memory. */
json_t *qp__wish_text(const json_t *text);
json_t *qp__wish_image(const char *url, const char *detail);

#endif

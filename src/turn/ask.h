/* ask.h - one question to a model that belongs to no context: nothing of it is stored.
 *
 * The caller's thread finds the provider and writes the body of the request; the engine's thread
 * sends it and calls back. There are no retries: the caller gets the fault and has clients that
 * know how to retry. */
#ifndef QP_TURN_ASK_H
#define QP_TURN_ASK_H

#include "llm/answer_event.h"
#include "llm/fault.h"
#include "llm/model_request.h"
#include "quipu/turns.h"

struct qp__ask;

/* Everything is borrowed until the call returns. */
struct qp__ask_spec {
  const char *model;      /* "provider/model", "model"; "": the default model */
  struct qp_bytes system; /* empty: none */
  struct qp_message *const *messages;
  size_t message_count;
  const struct qp__llm_tool *tools;
  size_t tool_count;
  const json_t *parameters; /* as in the config of a context, or NULL */
  /* Instead of all but the model: the request in the protocol of its provider (qp__llm_forward). */
  const json_t *body;
};

/* Called on the engine's thread. They must not call qp__ask_free(). */
struct qp__ask_fns {
  qp__llm_event_fn *event;
  /* Once, last; not after qp__ask_free(). NULL: the answer is complete. */
  void (*done)(void *arg, const struct qp__llm_fault *fault);
  void *arg;
};

/* The protocol of the provider of a model: "openai", "anthropic", "ollama", "demo". QP_NOTFOUND: no
 * provider has that name. */
enum qp_rc qp__ask_protocol(struct qp_engine *engine, const char *model, const char **out,
                            struct qp_err *err);

/* Begins. QP_INVALID, QP_NOTFOUND: nothing is called. Release *out with qp__ask_free(). */
enum qp_rc qp__ask_start(struct qp_engine *engine, const struct qp__ask_spec *spec,
                         const struct qp__ask_fns *fns, struct qp__ask **out, struct qp_err *err);
/* Ends the call if it has not ended. When it returns, no callback is running or will be called.
 * From any thread but the engine's, also after the engine has stopped. NULL is allowed. */
void qp__ask_free(struct qp__ask *ask);

struct qp_engine;
/* The engine stops: ends all asks with a fault. On the engine's thread. */
void qp__asks_end(struct qp_engine *engine);

#endif

/* question.h - a request to a model, prepared in a worker: the history, the prompt and its blobs
 * are read there and the body is written there, so that neither a slow disk nor a long history
 * delays other contexts of the engine. */
#ifndef QP_TURN_QUESTION_H
#define QP_TURN_QUESTION_H

#include "base/arena.h"
#include "llm/models.h"
#include "turn/engine.h"

struct qp__question {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  uint64_t number; /* of the work that it belongs to */
  struct qp_engine *engine;
  struct qp_context *context;
  char *branch;

  /* What the worker makes. */
  const struct qp__llm_provider *provider;
  const struct qp__model *model;
  struct qp__llm_request request; /* borrows from what follows */
  struct qp__arena arena;         /* the tools */
  size_t server_tools;            /* of these, the first are tools of the server */
  struct qp_message **messages;
  size_t count, cap;
  json_t *metadata;
  struct qp__buf system;
  struct qp__buf body;
  size_t all_bytes, largest_bytes; /* of the messages; of the largest one */
  struct qp_err err;               /* rc QP_OK: it is ready */
};

/* On the engine's thread, as the tools are now. The context stays open until it is freed. NULL: no
 * memory. */
struct qp__question *qp__question_new(struct qp_engine *e, struct qp_context *context,
                                      const char *branch, unsigned flags);
/* In a worker: the rest of the preparation. */
void qp__question_prepare(struct qp__question *q);
void qp__question_free(struct qp__question *q);

#endif

/* question.h - a request to a model, prepared in a worker: the history, the prompt and its blobs
 * are read there and the body is written there, so that neither a slow disk nor a long history
 * delays other contexts of the engine.
 *
 * Right before the request is written it is decided whether the conversation must be compacted
 * first. If a summary was prepared, the request is written with it (takeover.h); else there is no
 * body. */
#ifndef QP_TURN_QUESTION_H
#define QP_TURN_QUESTION_H

#include "turn/conversation.h"

struct qp__question {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  uint64_t number; /* of the work that it belongs to */
  /* As in the actor when the question was made: if it differs at the end, the worker may not have
   * seen a summary that was prepared meanwhile. */
  uint64_t prepared_saved;

  /* What the worker makes. */
  struct qp__conversation conversation;
  struct qp__plan plan;
  struct qp__llm_request request; /* borrows from the conversation */
  struct qp__buf body;
  bool must_compact; /* the request would be too long: nothing was written */
  bool must_prepare; /* a summary should be prepared, and none is */
  bool takes_over;   /* the request has a summary that was prepared; `record` must be committed */
  struct qp__record record; /* without an id; strings are in the conversation's arena */
  struct qp_err err;        /* rc QP_OK: it is ready */
};

/* On the engine's thread, as the tools are now. The context stays open until it is freed. NULL: no
 * memory. */
struct qp__question *qp__question_new(struct qp_engine *e, struct qp_context *context,
                                      const char *branch, unsigned flags);
/* In a worker: the rest of the preparation. */
void qp__question_prepare(struct qp__question *q);
void qp__question_free(struct qp__question *q);

/* On the engine's thread: begins a conversation with the tools as they are now. False: no memory;
 * release it also then. */
bool qp__conversation_begin(struct qp__conversation *c, struct qp_engine *e,
                            struct qp_context *context, const char *branch);

#endif

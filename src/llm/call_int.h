/* call_int.h - what call.c, http_call.c and demo.c share.
 *
 * A call is in the engine's list from its start until `done` is called or it is cancelled. What its
 * HTTP request or its timer still needs then is freed later, by the loop. */
#ifndef QP_LLM_CALL_INT_H
#define QP_LLM_CALL_INT_H

#include "llm/call.h"

struct qp__http_call;
struct qp__demo_call;

struct qp__llm_call {
  struct qp__llm_engine *engine;
  const struct qp__llm_provider *provider;
  struct qp__llm_call_fns fns;
  struct qp__llm_call *prev, *next; /* in the engine's list */
  struct qp__http_call *http;       /* one of the two */
  struct qp__demo_call *demo;
};

struct qp__llm_engine {
  uv_loop_t *loop;
  const struct qp__os *os;
  struct qp__net_client *net;
  struct qp__llm_call *calls;
};

/* Removes the call from the list, frees it and calls `done`. */
void qp__llm_call_finish(struct qp__llm_call *call, const struct qp__llm_fault *fault);

/* ---- HTTP (http_call.c) ---- */

enum qp_rc qp__http_call_start(struct qp__llm_call *call, const struct qp__llm_request *request,
                               struct qp_err *err);
/* The call was cancelled. */
void qp__http_call_drop(struct qp__http_call *http);

/* ---- demo (demo.c) ---- */

enum qp_rc qp__demo_start(struct qp__llm_call *call, const struct qp__llm_request *request,
                          struct qp_err *err);
void qp__demo_drop(struct qp__demo_call *demo);

#endif

/* call.h - one request to a model and its answer, on a libuv loop.
 *
 * An engine belongs to one loop, and all functions are called on that loop's thread only. Thousands
 * of calls share the thread. Callbacks are called from the loop, never from within start or cancel.
 * The caller decides whether a failed call is repeated: the fault says what would help.
 *
 * A key is sent only to the provider's own URL (net/client.h), and is removed from the message of a
 * fault. The process must ignore SIGPIPE. */
#ifndef QP_LLM_CALL_H
#define QP_LLM_CALL_H

#include <uv.h>

#include "llm/answer_event.h"
#include "llm/fault.h"
#include "llm/model_request.h"
#include "llm/provider.h"
#include "net/client.h"
#include "os/os.h"

struct qp__llm_engine;
struct qp__llm_call;

struct qp__llm_call_fns {
  /* Events in their order. A return value other than QP_OK ends the call with QP__FAULT_INTERNAL.
   * It may cancel this call and start or cancel others. */
  qp__llm_event_fn *event;
  /* Called once, last, and never after a cancel. NULL: the answer is complete. The call is freed
   * before. Events before a fault are valid: the text so far can be kept. */
  void (*done)(void *arg, const struct qp__llm_fault *fault);
  void *arg;
};

/* Keeps a reference to `net`, which runs on the same loop. Release with qp__llm_engine_close(). */
enum qp_rc qp__llm_engine_open(uv_loop_t *loop, const struct qp__os *os, struct qp__net_client *net,
                               struct qp__llm_engine **out, struct qp_err *err);
/* Cancels all calls, without a callback. The loop must run until it has nothing left to do: it
 * frees their memory. NULL is allowed. */
void qp__llm_engine_close(struct qp__llm_engine *engine);

/* Writes the body of the request, for a caller that does this in a worker thread. Otherwise the
 * call writes it itself. The demo has no body. */
enum qp_rc qp__llm_encode(const struct qp__llm_provider *provider,
                          const struct qp__llm_request *request, struct qp__buf *body,
                          struct qp_err *err);
/* Instead: a request that is in the provider's protocol already. It is sent as it is, but for
 * "model", "stream" and "stream_options", so that the answer comes as a stream with its usage. */
enum qp_rc qp__llm_forward(const struct qp__llm_provider *provider, const char *model,
                           const json_t *request, struct qp__buf *body, struct qp_err *err);

/* Encodes the request, which is not needed afterwards, and begins. `provider` must live until the
 * call ends. On failure nothing is called. */
enum qp_rc qp__llm_call_start(struct qp__llm_engine *engine,
                              const struct qp__llm_provider *provider,
                              const struct qp__llm_request *request,
                              const struct qp__llm_call_fns *fns, struct qp__llm_call **out,
                              struct qp_err *err);
/* Ends a call that has not ended; no callback is called any more. */
void qp__llm_call_cancel(struct qp__llm_call *call);

#endif

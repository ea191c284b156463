/* quipu/tools.h - tools of the program that embeds the engine: functions of your own that a model
 * can call. Not in libquipu-store. The rules of quipu.h hold here.
 *
 * They are tools of the server: rules and approvals apply (docs/tools.md), and after a crash a call
 * that was running gets an error as its result and is not run again. For calls that must wait for
 * hours or over restarts, offer the tools in `tools_json` of a context or an action instead. */
#ifndef QUIPU_TOOLS_H
#define QUIPU_TOOLS_H

#include "quipu/turns.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A call that runs. */
struct qp_tool_task;

/* Begins a call. It is called on the engine's thread and must return quickly: it ends the task at
 * once, or hands it to another thread. `arguments_json` is a JSON object, which is valid until it
 * returns. */
typedef void qp_tool_fn(void *arg, const char *arguments_json, struct qp_tool_task *task);

struct qp_tool_spec {
  size_t size;
  const char *name; /* 1 to 64 of A-Z a-z 0-9 _ - */
  const char *description;
  const char *parameters_json; /* the JSON Schema of an object; NULL: no arguments */
  bool changes;                /* it may change something, so a person is asked; else it is free */
  uint64_t timeout_ms;         /* 0: that of the engine; UINT64_MAX: none */
  qp_tool_fn *call;
  void *arg;
};

/* Adds a tool; it exists until the engine stops. Everything is copied. Must not be called on the
 * engine's thread. QP_EXISTS: there is a tool with that name. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_add_tool(struct qp_engine *engine,
                                                   const struct qp_tool_spec *spec,
                                                   struct qp_err *err);

/* Ends a call with its result, any JSON value, or with an error for the model. From any thread,
 * exactly once for each task, which is gone then. qp_engine_stop() waits for tasks that have not
 * ended. QP_INVALID: the text is not JSON; the model gets this as an error. */
QP_API enum qp_rc qp_tool_task_end(struct qp_tool_task *task, const char *result_json,
                                   bool is_error, struct qp_err *err);
/* Nobody waits for the result any more: the turn was cancelled, the time is over, or the engine
 * stops. The task must be ended all the same. From any thread. */
QP_API bool qp_tool_task_is_cancelled(const struct qp_tool_task *task);

#ifdef __cplusplus
}
#endif
#endif

/* tool_int.h - shared by tool.c and the sources of tools.
 *
 * A source is a family of tools: the built-in ones, or one MCP server. It works on the loop's
 * thread and never blocks. It never answers from within its call(): qp__tool_run_end() only stores
 * the result, and the callback is called in a later iteration of the loop. */
#ifndef QP_TOOL_TOOL_INT_H
#define QP_TOOL_TOOL_INT_H

#include "tool/tool.h"
#include "tool/workspace.h"

struct qp__tool_source {
  void *self;
  struct qp__tool_source *next;

  /* Its tools, in their order. */
  size_t count;
  const struct qp__tool *(*at)(void *self, size_t i);

  /* Begins a call; `tool` is one of its own and `arguments` an object, both borrowed. Ends it by
   * qp__tool_run_end(), now or later, exactly once, unless cancel() was called before. */
  void (*call)(void *self, const struct qp__tool *tool, json_t *arguments,
               struct qp__tool_run *call);
  /* Stops the work of a call that has not ended. The source forgets the call. */
  void (*cancel)(void *self, struct qp__tool_run *call);

  /* Optional, of MCP servers: its state, and qp__tools_retry(). */
  void (*server)(void *self, struct qp__tool_server *out);
  void (*retry)(void *self);

  /* Begins to close; may be NULL. Calls have ended. Everything that still runs in it is held
   * (below); the last unhold ends it, and then free() is called. */
  void (*close)(void *self);
  void (*free)(void *self);
};

struct qp__tool_run {
  struct qp__tools *tools;
  struct qp__tool_run *next, *prev;
  struct qp__tool_source *source; /* NULL: it has ended or never began */
  uv_timer_t timer; /* its timeout; then the iteration in which the callback is called */
  uint64_t began;
  uint64_t timeout_ms;
  size_t output_limit;
  qp__tool_done *done;
  void *arg;
  void *work;                  /* of the source */
  void (*stop)(void *work);    /* of the built-in tools: ends `work` */
  char base[QP__PREVIEW_BASE]; /* of the request; "": none */

  /* Once it has ended. */
  enum qp__tool_outcome outcome;
  json_t *value;
  bool cut;
};

struct qp__tools {
  uv_loop_t *loop;
  const struct qp__os *os;
  struct qp__net_client *net; /* NULL: no server needed it yet */
  struct qp__log log;
  const struct qp__policy *policy;
  uint64_t timeout_ms;
  size_t output_limit;
  uint64_t mcp_probe_ms, mcp_start_ms, mcp_pause_ms, mcp_log_interval_ms;
  void (*changed)(void *arg);
  void *changed_arg;

  struct qp__workspace workspace; /* path is NULL: no workspace */
  struct qp__hidden *hidden;      /* what the workspace must not show; NULL: nothing */
  struct qp__tool_source *sources;
  struct qp__tool_run *calls;
  size_t starting;   /* servers whose first start has not ended */
  json_t *no_memory; /* the value of a result when memory is out */

  uv_timer_t closer; /* `closed` is called when this handle is closed */
  bool closing;
  size_t held;
  void (*closed)(void *arg);
  void *closed_arg;
};

/* The verdict on a call; see qp__tools_judge(). From any thread. */
enum qp__verdict qp__tools_judge_call(const struct qp__tools *tools, const struct qp__tool *tool,
                                      const json_t *arguments, size_t *rule);

/* Adds a source at the end; it is released with the tools. */
void qp__tools_add_source(struct qp__tools *tools, struct qp__tool_source *source);
/* Reports that the list of tools has changed. */
void qp__tools_tell_change(struct qp__tools *tools);

/* Something that must end before the tools are freed: a handle, a process, a job. */
void qp__tools_hold(struct qp__tools *tools);
void qp__tools_unhold(struct qp__tools *tools);

/* Owns `value` from now on; NULL means out of memory. */
void qp__tool_run_end(struct qp__tool_run *call, enum qp__tool_outcome outcome, json_t *value,
                      bool cut);
/* For a source that keeps the time itself: the call's own timeout, from now. */
void qp__tool_run_set_timeout(struct qp__tool_run *call, uint64_t ms);
/* An error result of one sentence. */
void qp__tool_run_fail(struct qp__tool_run *call, const char *sentence);

#endif

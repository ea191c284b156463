/* tool.h - tools behind one interface: what a model may call, who decides about a call, and the
 * call itself.
 *
 * A struct qp__tools belongs to one libuv loop and is used on that loop's thread only. It has the
 * built-in tools (builtin.h), which work inside one workspace directory, and those of MCP servers
 * (mcp.h). Files are read and written in libuv's worker threads, commands are child processes, MCP
 * servers are child processes or HTTP servers; nothing blocks the loop.
 *
 * (1) Every call gets exactly one result, in a later iteration of the loop: what the tool answered,
 *     or an error result if the tool is unknown, the arguments are wrong, it timed out, it was
 *     cancelled, or its process or server died. No call is ever stuck.
 * (2) A result is never over the output limit; a note replaces what was cut.
 * (3) Calls run in parallel and end in any order.
 * (4) The order of the tools is stable, so that prompt caches hit: built-in tools first, then each
 *     server's in the order of the configuration, by name.
 *
 * The process must ignore SIGPIPE. */
#ifndef QP_TOOL_TOOL_H
#define QP_TOOL_TOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "base/log.h"
#include "os/os.h"
#include "quipu.h"
#include "tool/policy.h"

/* Strings are borrowed: until the tools change (see qp__tools_options.changed). */
struct qp__tool {
  const char *name; /* as the model calls it: 1 to 64 of A-Z a-z 0-9 _ - */
  const char *title;
  const char *description;
  const char *schema; /* JSON text of the schema of its arguments, an object */
  enum qp_display display;
  const char *ui_hints; /* JSON text of an object */
  bool changes;         /* it may change something; else it only reads */
  const char *source;   /* "builtin", or the name of its MCP server */
};

enum qp__tool_outcome {
  QP__TOOL_DONE,      /* the tool answered */
  QP__TOOL_FAILED,    /* it said that it failed, or it could not be called, or it died */
  QP__TOOL_TIMEOUT,   /* it took too long and was stopped */
  QP__TOOL_CANCELLED, /* by qp__tool_run_cancel or qp__tools_close */
};

struct qp__tool_run_result {
  enum qp__tool_outcome outcome;
  json_t *value; /* a string is text; else any JSON. Borrowed during the callback; never NULL */
  bool is_error; /* outcome is not QP__TOOL_DONE */
  bool cut;      /* something was left out because of the limit */
  uint64_t ms;   /* how long it took */
};

struct qp__net_client;
struct qp__tools;
struct qp__tool_run;

/* Start from zeros; a zero field means its default. Strings are copied. */
struct qp__tools_options {
  const struct qp__os *os;    /* default: qp__os_posix */
  struct qp__net_client *net; /* for MCP servers; default: a new client */
  struct qp__log log;
  const char *workspace;           /* an absolute path; NULL: no built-in tools */
  const struct qp__policy *policy; /* borrowed until close, unchanged; NULL: the defaults */
  uint64_t timeout_ms;             /* of a call; default 60 s */
  size_t output_limit;             /* bytes of text in a result; default 64 KiB */

  /* Of run_command and its sandbox (sandbox.h). */
  const char *temp;                /* where its private directories are made; default "/tmp" */
  const char *const *command_env;  /* "NAME=value", ends with NULL; besides the few that it gets */
  const char *const *command_read; /* more paths that it may read, ends with NULL */
  bool command_network;            /* commands may use the network */
  bool command_without_landlock;   /* commands run although the kernel has no Landlock */

  /* Absolute paths that no tool may reach, ends with NULL: the data directory, the configuration,
   * keys. The workspace must not be inside of one (QP_INVALID). Where it holds one, the file tools
   * pass it over, and run_command is refused: a sandbox cannot hide a part of what it opens. */
  const char *const *hidden;

  /* Times of MCP servers in ms, for tests. */
  uint64_t mcp_probe_ms;        /* for an answer to "server/discover"; default 3 s */
  uint64_t mcp_start_ms;        /* until the tools are known; default 60 s */
  uint64_t mcp_pause_ms;        /* the first pause before a new try; default 1 s */
  uint64_t mcp_log_interval_ms; /* in which log lines of a server are counted; default 10 s */

  /* The list of tools has changed: read it again. May be NULL. */
  void (*changed)(void *arg);
  void *changed_arg;
};

/* The built-in tools are available at once. QP_NOTFOUND: the workspace does not exist. Release with
 * qp__tools_close(). */
enum qp_rc qp__tools_open(uv_loop_t *loop, const struct qp__tools_options *options,
                          struct qp__tools **out, struct qp_err *err);

/* Cancels every call and stops every server. When all have ended, calls `closed` (may be NULL) as
 * the last thing. */
void qp__tools_close(struct qp__tools *tools, void (*closed)(void *arg), void *arg);

/* ---- lists ---- */

/* The number of MCP servers that have neither listed their tools nor failed yet. When one does,
 * `changed` of the options is called. */
size_t qp__tools_starting(const struct qp__tools *tools);
/* Starts every server that is not running now, without waiting for its pause to end. */
void qp__tools_retry(struct qp__tools *tools);

/* The state of an MCP server. Strings are borrowed until the loop runs again. */
struct qp__tool_server {
  const char *name;
  const char *transport; /* "stdio" or "http" */
  const char *state;     /* "starting", "ready" or "failed" */
  const char *error;     /* why it failed last; "" when it is ready */
  size_t tools;          /* in the list; they stay there while it is restarted */
  unsigned failures;     /* since its last good answer */
  int64_t retry_ms;      /* of "failed": until the next try; else -1 */
};

/* The i-th MCP server, in the order of the configuration. False: there are fewer. */
bool qp__tools_server(const struct qp__tools *tools, size_t i, struct qp__tool_server *out);

size_t qp__tools_count(const struct qp__tools *tools);
const struct qp__tool *qp__tools_at(const struct qp__tools *tools, size_t i);
/* NULL: not found. */
const struct qp__tool *qp__tools_find(const struct qp__tools *tools, const char *name);

/* Who decides about this call. Arguments that are paths are made plain before rules see them, of
 * every tool: "./x", "a/../x" and "/workspace/x" are all judged as "x". An unknown tool, or
 * arguments that are not a JSON object, are QP__DENY. `rule` as in qp__policy_judge(). */
enum qp__verdict qp__tools_judge(const struct qp__tools *tools, const char *name,
                                 const char *arguments, size_t *rule);

/* The form of a call that a grant (grant.h) is compared with: {"tool", "arguments"} with all
 * arguments that are paths or commands, and of run_command with all arguments. A new value; NULL:
 * the tool is unknown, the arguments are not a JSON object, or out of memory. */
json_t *qp__tools_narrow(const struct qp__tools *tools, const char *name, const char *arguments);

/* What a call will do, for a person who decides about it; an object:
 *   {"kind":"diff","path","diff","base","cut"?,"binary"?}   of a tool that changes a file: a
 *              unified diff against the file as it is now. "base" stands for its content (see
 *              `base` below)
 *   {"kind":"command","command","directory"}               of run_command
 *   {"kind":"arguments","error"?}                          of all others, and if a call will fail
 * `limit`: bytes of the diff. Reads files: it is called in a worker thread. A new value; NULL: out
 * of memory. */
json_t *qp__tools_preview(const struct qp__tools *tools, const char *name, const char *arguments,
                          size_t limit);
/* Whether the preview of a call of this tool reads files. */
bool qp__tools_preview_reads(const char *name);

#define QP__PREVIEW_BASE 33 /* 32 hexadecimal digits and a NUL */

/* ---- calling ---- */

/* Called once. The call is freed when it returns. It may start and cancel other calls. */
typedef void qp__tool_done(void *arg, const struct qp__tool_run_result *result);

struct qp__tool_request {
  const char *name;
  const char *arguments; /* JSON text of an object; NULL and "" are {} */
  uint64_t timeout_ms;   /* 0: the default of the options */
  size_t output_limit;   /* 0: the default */
  const char *base; /* "base" of the preview that a person has approved, or NULL: the call fails
                            if the file is another one by now */
  qp__tool_done *done;
  void *arg;
};

/* Does not check the policy. Fails only when memory runs out (QP_NOMEM) or when the tools are being
 * closed (QP_MISUSE); all other failures are error results. *out (may be NULL) is borrowed until
 * `done`. */
enum qp_rc qp__tools_call(struct qp__tools *tools, const struct qp__tool_request *request,
                          struct qp__tool_run **out, struct qp_err *err);

/* Stops the call. `done` is called as usual, with QP__TOOL_CANCELLED unless the call has already
 * ended. */
void qp__tool_run_cancel(struct qp__tool_run *call);

#endif

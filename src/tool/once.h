/* once.h - tools for a caller without a loop: opens them, does one thing, and closes them. It is
 * what the command `quipu tool` is made of. */
#ifndef QP_TOOL_ONCE_H
#define QP_TOOL_ONCE_H

#include "quipu.h"
#include "tool/tool.h"

/* Start from zeros. */
struct qp__tool_once {
  const char *workspace;     /* an absolute path; NULL: no built-in tools */
  struct qp_bytes mcp;       /* the text of an mcp.json; empty: no servers */
  const char *mcp_name;      /* its name in error messages */
  const char *const *policy; /* rules as lines, ends with NULL; NULL: the defaults */
  const char *const *hidden; /* paths that no tool may reach, ends with NULL; NULL: no paths */
  uint64_t timeout_ms;       /* 0: the default */
  qp_log_fn *log;
  void *log_arg;
};

struct qp__tool_once_visitor {
  /* `policy`: "auto", "ask" or "deny", for a call without arguments. */
  enum qp_rc (*tool)(void *arg, const struct qp__tool *tool, const char *policy);
  enum qp_rc (*server)(void *arg, const struct qp__tool_server *server);
  void *arg;
};

/* Visits every tool and then every MCP server, once all servers are ready or have failed. An answer
 * of the visitor other than QP_OK ends it and is returned. */
enum qp_rc qp__tool_once_list(const struct qp__tool_once *options,
                              const struct qp__tool_once_visitor *visitor, struct qp_err *err);

struct qp__tool_once_result {
  const char *outcome; /* "done", "failed", "timeout", "cancelled" */
  bool is_error, cut;
  uint64_t ms;
  const char *text; /* of a result that is text, else NULL */
  const char *json; /* the result */
};

/* `take` is called once, when QP_OK is returned. */
enum qp_rc qp__tool_once_call(const struct qp__tool_once *options, const char *name,
                              const char *arguments,
                              void (*take)(void *arg, const struct qp__tool_once_result *result),
                              void *arg, struct qp_err *err);

/* What the policy decides about this call: *verdict is "auto", "ask" or "deny", *rule the number of
 * the rule that decides, from 1, or 0 for the default. */
enum qp_rc qp__tool_once_judge(const struct qp__tool_once *options, const char *name,
                               const char *arguments, const char **verdict, size_t *rule,
                               struct qp_err *err);

/* Whether a line is a valid rule. QP_INVALID: the message says why not. */
enum qp_rc qp__tool_once_check_rule(const char *line, struct qp_err *err);

#endif

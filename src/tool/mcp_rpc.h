/* mcp_rpc.h - JSON-RPC 2.0 as MCP uses it: messages in and out, and the lines of stdio servers. */
#ifndef QP_TOOL_MCP_RPC_H
#define QP_TOOL_MCP_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum {
  QP__RPC_NO_METHOD = -32601, /* method not found */
  QP__RPC_INTERNAL = -32603,
};

enum qp__rpc_kind {
  QP__RPC_REQUEST,      /* id, method, params */
  QP__RPC_NOTIFICATION, /* method, params */
  QP__RPC_RESULT,       /* id, result */
  QP__RPC_ERROR,        /* id, code, message */
};

/* Borrowed from the message that was read. */
struct qp__rpc {
  enum qp__rpc_kind kind;
  json_t *id;
  const char *method;
  json_t *params; /* NULL: no parameters */
  json_t *result;
  int64_t code;
  const char *message;
};

/* QP_INVALID: not a message of JSON-RPC. */
enum qp_rc qp__rpc_read(const json_t *message, struct qp__rpc *out, struct qp_err *err);

/* Each appends one message without a line break. Without `params` (NULL) the message has none;
 * without `result` it is {}. Failures stay in *out. */
void qp__rpc_request(struct qp__buf *out, int64_t id, const char *method, const json_t *params);
void qp__rpc_notification(struct qp__buf *out, const char *method, const json_t *params);
void qp__rpc_result(struct qp__buf *out, const json_t *id, const json_t *result);
void qp__rpc_error(struct qp__buf *out, const json_t *id, int64_t code, const char *message);

/* ---- lines ---- */

/* A line without its line break, and without a '\r' before it; empty lines are skipped. `line` is
 * NULL for a line that was over the limit and was skipped. */
typedef void qp__rpc_line(void *arg, const char *line, size_t n);

struct qp__rpc_lines {
  struct qp__buf rest; /* of a line that has no end yet */
  bool passing;        /* inside of a line that is too long */
};

void qp__rpc_lines_init(struct qp__rpc_lines *lines, size_t limit);
void qp__rpc_lines_release(struct qp__rpc_lines *lines);
/* Calls `take` for each line that the bytes complete. QP_NOMEM: a line may be lost. */
enum qp_rc qp__rpc_lines_feed(struct qp__rpc_lines *lines, const char *data, size_t n,
                              qp__rpc_line *take, void *arg);

#endif

/* mcpd.h - quipu as an MCP server: POST /mcp (Streamable HTTP), and `quipu mcp`, which passes each
 * line to it. docs/mcp-server.md has what clients see.
 *
 *   h_mcp.c           HTTP, JSON-RPC, both eras of the protocol
 *   mcpd.c            what the others share
 *   mcpd_tools.c      tools/list, tools/call
 *   mcpd_resources.c  resources/list, resources/templates/list, resources/read
 *
 * There are no sessions and no streams: every request is answered by itself with JSON. A tool is
 * the handler of a route of the API with other arguments, so keys, owners and limits apply alike.
 * The text of a conversation is data: nothing here interprets it. */
#ifndef QP_HTTP_MCP_MCPD_H
#define QP_HTTP_MCP_MCPD_H

#include <jansson.h>

#include "http/request.h"

/* One JSON-RPC request. */
struct qp__mcpd_call {
  struct qp__request *r;
  bool modern;
  bool may_change; /* "?write=true", and the key may write */
  const json_t *params;
  int code;     /* of a JSON-RPC error, or 0 */
  json_t *data; /* of the error, or NULL; owned */
};

/* Answers with a JSON-RPC error. Returns QP_INVALID. */
enum qp_rc qp__mcpd_fail(struct qp__mcpd_call *c, int code, struct qp_err *err, const char *fmt,
                         ...) QP_PRINTF(4, 5);

/* Runs the handler of a route and decodes its response. `names` and `values` are the query; a NULL
 * value is left out. Release *out with json_decref(). */
struct qp__mcpd_query {
  const char *name, *value;
};
enum qp_rc qp__mcpd_run(struct qp__mcpd_call *c, qp__handler *handler, const char *id,
                        const struct qp__mcpd_query *query, json_t **out, struct qp_err *err);

typedef enum qp_rc qp__mcpd_method(struct qp__mcpd_call *c, json_t **out, struct qp_err *err);
qp__mcpd_method qp__mcpd_tool_list, qp__mcpd_tool_call;
qp__mcpd_method qp__mcpd_resource_list, qp__mcpd_template_list, qp__mcpd_resource_read;

/* Messages of a page as text that people and models can read. */
enum qp_rc qp__mcpd_transcript(const json_t *page, struct qp__buf *out);

#define QP__MCPD_INVALID_PARAMS (-32602)
#define QP__MCPD_NO_RESOURCE (-32002)

#endif

/* mcp_config.h - MCP servers as a standard mcp.json describes them:
 *
 *   {"mcpServers": {
 *     "files":  {"command": "npx", "args": ["-y", "some-server", "."], "env": {"KEY": "${KEY}"}},
 *     "remote": {"url": "https://host/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-none}"}}
 *   }}
 *
 * "servers" is accepted instead of "mcpServers". A server has a command or a url. A server with
 * "disabled": true is skipped. With "trusted": true we believe a server that declares a tool as
 * reading only. ${NAME} and ${NAME:-default} in command, args, env, url and headers are replaced by
 * variables of our environment. Unknown fields belong to other programs and are ignored. */
#ifndef QP_TOOL_MCP_CONFIG_H
#define QP_TOOL_MCP_CONFIG_H

#include <stdbool.h>

#include "base/arena.h"
#include "quipu.h"

struct qp__mcp_config {
  const char *name;           /* 1 to 64 characters without control characters */
  const char *const *argv;    /* ends with NULL; NULL: it has a url */
  const char *const *env;     /* "NAME=value", ends with NULL */
  const char *url;            /* http:// or https:// */
  const char *const *headers; /* "Name: value", ends with NULL */
  bool trusted;
};

struct qp__mcp_configs {
  struct qp__mcp_config *at;
  size_t count;
  struct qp__arena arena; /* holds all of it */
};

/* `what` begins the error message, for example the name of the file. QP_INVALID, QP_NOMEM. */
enum qp_rc qp__mcp_configs_parse(const char *what, struct qp_bytes json,
                                 struct qp__mcp_configs *out, struct qp_err *err);
void qp__mcp_configs_release(struct qp__mcp_configs *configs);

#endif

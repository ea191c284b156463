/* mcp_config.h - MCP servers as a standard mcp.json describes them:
 *
 *   {"mcpServers": {
 *     "files":  {"command": "npx", "args": ["-y", "some-server", "."], "env": {"KEY": "${KEY}"}},
 *     "remote": {"url": "https://host/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-none}"}}
 *   }}
 *
 * "servers" is taken for "mcpServers" too. A server has a command or a url; one with "disabled":
 * true is left out; "trusted": true believes it when it says that a tool only reads. ${NAME} and
 * ${NAME:-otherwise} in command, args, env, url and headers are variables of our own environment.
 * Unknown fields are for other programs and are passed over. */
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

/* `what` begins the sentence of a failure, such as the file's name. QP_INVALID, QP_NOMEM. */
enum qp_rc qp__mcp_configs_parse(const char *what, struct qp_bytes json,
                                 struct qp__mcp_configs *out, struct qp_err *err);
void qp__mcp_configs_release(struct qp__mcp_configs *configs);

#endif

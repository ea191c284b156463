/* mcp.h - the tools of an MCP server, as a source of tools (tool.h).
 *
 * The server is started at once and asked for its tools; they are called mcp__SERVER__TOOL. It
 * speaks the handshake versions of the protocol (2024-11-05 to 2025-11-25) or the stateless one
 * (2026-07-28), whichever it answers. A server that dies keeps its tools in the list: the next call
 * starts it again, with a growing pause after each failure. */
#ifndef QP_TOOL_MCP_H
#define QP_TOOL_MCP_H

#include "quipu.h"

struct qp__tools;
struct qp__mcp_config;

/* Copies what it needs of the configuration. Fails only when memory runs out. If the server cannot
 * be started, the log and its calls report that. */
enum qp_rc qp__mcp_add(struct qp__tools *tools, const struct qp__mcp_config *config,
                       struct qp_err *err);

#endif

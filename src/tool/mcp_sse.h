/* mcp_sse.h - events of a text/event-stream as they come in pieces: LF, CRLF or CR end a line, data
 * lines are joined by LF, comments and unknown fields are passed over. */
#ifndef QP_TOOL_MCP_SSE_H
#define QP_TOOL_MCP_SSE_H

#include <stdbool.h>

#include "base/buf.h"

#define QP__MCP_EVENT_ID 256 /* longer ones are taken as none */

struct qp__mcp_sse {
  struct qp__buf line;
  struct qp__buf data;
  bool has_data;
  bool after_cr;
  bool began;                /* past the byte order mark */
  char id[QP__MCP_EVENT_ID]; /* the last one; "": none */
  int64_t retry_ms;          /* -1: not told */
};

void qp__mcp_sse_init(struct qp__mcp_sse *sse, size_t limit);
void qp__mcp_sse_release(struct qp__mcp_sse *sse);
/* The stream broke off and begins again: what had no end is dropped, the last id is kept. */
void qp__mcp_sse_restart(struct qp__mcp_sse *sse);
/* Calls `take` for each event that has data. QP_TOOBIG, QP_NOMEM: the stream cannot go on. */
enum qp_rc qp__mcp_sse_feed(struct qp__mcp_sse *sse, const char *data, size_t n,
                            void (*take)(void *arg, const char *data, size_t n), void *arg);

#endif

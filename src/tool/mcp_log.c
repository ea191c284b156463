/* mcp_log.c - what an MCP server prints, as log lines.
 *
 * A server may print without end. The first line opens an interval; of each interval the first
 * LINES_MAX lines and BYTES_MAX bytes are logged, and when it ends one line reports what was left
 * out. */
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "tool/mcp_int.h"
#include "tool/text.h"

#define LINE_MAX_LEN 500 /* of one line */
#define LINES_MAX 100
#define BYTES_MAX ((size_t)16 << 10)
#define FLOOD_BYTES ((uint64_t)16 << 20)

void
qp__mcp_quota_end(struct qp__mcp *server)
{
  struct qp__mcp_quota *q = &server->quota;

  (void)uv_timer_stop(&q->timer);
  if (q->left_lines)
    qp__log(&server->tools->log, QP_LOG_WARN, "mcp",
            "%s: printed too much: left out %llu lines (%llu bytes)", server->config.name,
            (unsigned long long)q->left_lines, (unsigned long long)q->left_bytes);
  q->lines = q->bytes = 0;
  q->printed = q->left_lines = q->left_bytes = 0;
}

static void
on_interval(uv_timer_t *timer)
{
  struct qp__mcp *server = timer->data;
  void (*resume)(void *arg) = server->quota.resume;

  qp__mcp_quota_end(server);
  server->quota.resume = NULL;
  if (resume)
    resume(server->quota.resume_arg);
}

void
qp__mcp_quota_init(struct qp__mcp *server)
{
  (void)uv_timer_init(server->tools->loop, &server->quota.timer);
  uv_unref((uv_handle_t *)&server->quota.timer);
  server->quota.timer.data = server;
}

static void
open_interval(struct qp__mcp *server)
{
  uv_timer_t *timer = &server->quota.timer;

  if (!uv_is_active((uv_handle_t *)timer))
    (void)uv_timer_start(timer, on_interval, server->tools->mcp_log_interval_ms, 0);
}

bool
qp__mcp_floods(struct qp__mcp *server, size_t n)
{
  open_interval(server);
  server->quota.printed += n;
  return server->quota.printed > FLOOD_BYTES;
}

void
qp__mcp_log_line(struct qp__mcp *server, enum qp_log_level level, const char *line, size_t n)
{
  struct qp__mcp_quota *q = &server->quota;
  size_t fit = qp__utf8_fit(line, n, LINE_MAX_LEN);
  struct qp__buf text;

  open_interval(server);
  if (q->lines >= LINES_MAX || q->bytes + fit > BYTES_MAX) {
    q->left_lines++;
    q->left_bytes += n;
    return;
  }
  q->lines++;
  q->bytes += fit;
  qp__buf_init(&text, 3 * LINE_MAX_LEN);
  if (qp__text_add(&text, line, fit) == QP_OK)
    qp__log(&server->tools->log, level, "mcp", "%s: %s", server->config.name, text.data);
  qp__buf_release(&text);
}

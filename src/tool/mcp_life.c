/* mcp_life.c - an MCP server from the configuration to its end, and its state in between. */
#include "base/alloc.h"
#include "base/err.h"
#include "tool/mcp.h"
#include "tool/mcp_int.h"

/* ---- its state ---- */

static void
source_server(void *self, struct qp__tool_server *out)
{
  const struct qp__mcp *server = self;
  bool failed = server->state == QP__MCP_OFF || server->state == QP__MCP_STOPPING;
  uint64_t now = uv_now(server->tools->loop);

  *out = (struct qp__tool_server){
    .name = server->config.name,
    .transport = server->config.url ? "http" : "stdio",
    .state = failed                           ? "failed"
             : server->state == QP__MCP_READY ? "ready"
                                              : "starting",
    .error = server->fault,
    .tools = server->source.count,
    .failures = server->failures,
    .retry_ms = -1,
  };
  if (server->state == QP__MCP_OFF)
    out->retry_ms = server->not_before > now ? (int64_t)(server->not_before - now) : 0;
}

static void
source_retry(void *self)
{
  struct qp__mcp *server = self;

  server->not_before = 0;
  (void)qp__mcp_wake(server, NULL);
}

/* ---- from the configuration to its end ---- */

static void
source_free(void *self)
{
  struct qp__mcp *server = self;

  qp__arena_release(&server->memory);
  qp__mcp_drop_requests(server);
  json_decref(server->pages);
  qp__arena_release(&server->config_memory);
  qp__free(server);
}

static void
on_timer_closed(uv_handle_t *handle)
{
  struct qp__mcp *server = handle->data;

  qp__tools_unhold(server->tools);
}

static void
close_timer(struct qp__mcp *server, uv_timer_t *timer)
{
  qp__tools_hold(server->tools);
  uv_close((uv_handle_t *)timer, on_timer_closed);
}

static void
source_close(void *self)
{
  struct qp__mcp *server = self;

  server->closing = true;
  close_timer(server, &server->timer);
  close_timer(server, &server->quota.timer);
  if (server->state == QP__MCP_OFF)
    return;
  qp__tools_hold(server->tools); /* until it has ended */
  qp__mcp_fail(server, "quipu is stopping it");
}

/* False: no memory; the same below. */
static bool
copy_list(struct qp__arena *arena, const char *const *list, const char *const **out)
{
  size_t count = 0;
  const char **copy;

  while (list && list[count])
    count++;
  copy = qp__arena_alloc(arena, (count + 1) * sizeof(*copy));
  for (size_t i = 0; i < count && copy; i++) {
    copy[i] = qp__arena_strdup(arena, list[i]);
    if (!copy[i])
      return false;
  }
  *out = copy;
  return copy != NULL;
}

static bool
copy_config(struct qp__arena *arena, const struct qp__mcp_config *from, struct qp__mcp_config *out)
{
  out->trusted = from->trusted;
  out->name = qp__arena_strdup(arena, from->name);
  out->url = from->url ? qp__arena_strdup(arena, from->url) : NULL;
  return out->name && (out->url || !from->url) &&
         (!from->argv || copy_list(arena, from->argv, &out->argv)) &&
         copy_list(arena, from->env, &out->env) && copy_list(arena, from->headers, &out->headers);
}

enum qp_rc
qp__mcp_add(struct qp__tools *tools, const struct qp__mcp_config *config, struct qp_err *err)
{
  struct qp__mcp *server;

  if (tools->closing)
    return qp__fail(err, QP_MISUSE, "the tools are being closed");
  server = qp__alloc0(1, sizeof(*server));
  if (!server || !copy_config(&server->config_memory, config, &server->config)) {
    if (server)
      qp__arena_release(&server->config_memory);
    qp__free(server);
    return qp__fail_nomem(err, "adding an MCP server");
  }
  server->tools = tools;
  (void)uv_timer_init(tools->loop, &server->timer);
  server->timer.data = server;
  qp__mcp_quota_init(server);
  qp__mcp_source_init(server);
  server->source.server = source_server;
  server->source.retry = source_retry;
  server->source.close = source_close;
  server->source.free = source_free;
  qp__tools_add_source(tools, &server->source);
  server->first = true;
  tools->starting++;
  (void)qp__mcp_wake(server, NULL);
  return QP_OK;
}

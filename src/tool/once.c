/* once.c - see once.h. */
#include "tool/once.h"

#include <string.h>
#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "tool/mcp.h"
#include "tool/mcp_config.h"

#define RESULT_MAX ((size_t)256 << 20)
#define LATE_MS 2000

struct once {
  uv_loop_t loop;
  struct qp__tools *tools;
  struct qp__policy policy;
  struct qp__mcp_configs servers;
};

/* Ends everything that open began. */
static void
close_once(struct once *o)
{
  qp__tools_close(o->tools, NULL, NULL);
  (void)uv_run(&o->loop, UV_RUN_DEFAULT);
  (void)uv_loop_close(&o->loop);
  qp__policy_release(&o->policy);
  qp__mcp_configs_release(&o->servers);
}

static enum qp_rc
open_once(struct once *o, const struct qp__tool_once *options, struct qp_err *err)
{
  const struct qp__tools_options how = {
    .workspace = options->workspace,
    .policy = &o->policy,
    .hidden = options->hidden,
    .timeout_ms = options->timeout_ms,
    .log = { options->log, options->log_arg },
  };
  enum qp_rc rc = QP_OK;
  int error;

  memset(o, 0, sizeof(*o));
  error = uv_loop_init(&o->loop);
  if (error < 0)
    return qp__fail_sys(err, error, "cannot create an event loop");
  for (size_t i = 0; options->policy && options->policy[i] && !rc; i++)
    rc = qp__policy_add_line(&o->policy, options->policy[i], err);
  if (!rc && options->mcp.len > 0)
    rc = qp__mcp_configs_parse(options->mcp_name, options->mcp, &o->servers, err);
  if (!rc)
    rc = qp__tools_open(&o->loop, &how, &o->tools, err);
  for (size_t i = 0; i < o->servers.count && !rc; i++)
    rc = qp__mcp_add(o->tools, &o->servers.at[i], err);
  while (!rc && qp__tools_starting(o->tools) > 0)
    (void)uv_run(&o->loop, UV_RUN_ONCE);
  if (rc)
    close_once(o);
  return rc;
}

enum qp_rc
qp__tool_once_list(const struct qp__tool_once *options, const struct qp__tool_once_visitor *visitor,
                   struct qp_err *err)
{
  struct qp__tool_server server;
  struct once o;
  enum qp_rc rc = open_once(&o, options, err);

  if (rc)
    return rc;
  for (size_t i = 0; i < qp__tools_count(o.tools) && !rc; i++) {
    const struct qp__tool *tool = qp__tools_at(o.tools, i);

    rc = visitor->tool(visitor->arg, tool,
                       qp__verdict_name(qp__tools_judge(o.tools, tool->name, "{}", NULL)));
  }
  for (size_t i = 0; !rc && qp__tools_server(o.tools, i, &server); i++)
    rc = visitor->server(visitor->arg, &server);
  close_once(&o);
  return rc;
}

/* ---- calling ---- */

static void
on_late(uv_timer_t *timer)
{
  *(bool *)timer->data = true;
}

/* A server may announce tools shortly after its first list, so an unknown tool is waited for. */
static enum qp_rc
find_tool(struct once *o, const char *name, struct qp_err *err)
{
  uv_timer_t timer;
  bool late = o->servers.count == 0;

  (void)uv_timer_init(&o->loop, &timer);
  timer.data = &late;
  (void)uv_timer_start(&timer, on_late, LATE_MS, 0);
  while (!qp__tools_find(o->tools, name) && !late)
    (void)uv_run(&o->loop, UV_RUN_ONCE);
  uv_close((uv_handle_t *)&timer, NULL);
  (void)uv_run(&o->loop, UV_RUN_NOWAIT); /* the timer is on our stack */
  return qp__tools_find(o->tools, name)
             ? QP_OK
             : qp__fail(err, QP_NOTFOUND, "there is no tool '%.80s'", name);
}

struct calling {
  void (*take)(void *arg, const struct qp__tool_once_result *result);
  void *arg;
  bool done;
  enum qp_rc rc;
};

static void
on_done(void *arg, const struct qp__tool_run_result *result)
{
  static const char *const outcomes[] = {
    [QP__TOOL_DONE] = "done",
    [QP__TOOL_FAILED] = "failed",
    [QP__TOOL_TIMEOUT] = "timeout",
    [QP__TOOL_CANCELLED] = "cancelled",
  };
  struct calling *c = arg;
  struct qp__tool_once_result told = {
    .outcome = outcomes[result->outcome],
    .is_error = result->is_error,
    .cut = result->cut,
    .ms = result->ms,
    .text = json_string_value(result->value),
  };
  struct qp__buf json;

  qp__buf_init(&json, RESULT_MAX);
  c->rc = qp__json_write(&json, result->value);
  c->done = true;
  told.json = qp__buf_bytes(&json).data;
  if (!c->rc)
    c->take(c->arg, &told);
  qp__buf_release(&json);
}

enum qp_rc
qp__tool_once_call(const struct qp__tool_once *options, const char *name, const char *arguments,
                   void (*take)(void *arg, const struct qp__tool_once_result *result), void *arg,
                   struct qp_err *err)
{
  struct calling c = { .take = take, .arg = arg };
  const struct qp__tool_request request = {
    .name = name,
    .arguments = arguments,
    .done = on_done,
    .arg = &c,
  };
  struct once o;
  enum qp_rc rc = open_once(&o, options, err);

  if (rc)
    return rc;
  rc = find_tool(&o, name, err);
  if (!rc)
    rc = qp__tools_call(o.tools, &request, NULL, err);
  while (!rc && !c.done)
    (void)uv_run(&o.loop, UV_RUN_ONCE);
  close_once(&o);
  return rc || !c.rc ? rc : qp__fail_nomem(err, "the result of a tool");
}

enum qp_rc
qp__tool_once_judge(const struct qp__tool_once *options, const char *name, const char *arguments,
                    const char **verdict, size_t *rule, struct qp_err *err)
{
  struct once o;
  enum qp_rc rc = open_once(&o, options, err);

  if (rc)
    return rc;
  rc = find_tool(&o, name, err);
  if (!rc)
    *verdict = qp__verdict_name(qp__tools_judge(o.tools, name, arguments, rule));
  close_once(&o);
  return rc;
}

enum qp_rc
qp__tool_once_check_rule(const char *line, struct qp_err *err)
{
  struct qp__policy policy = { 0 };
  enum qp_rc rc = qp__policy_add_line(&policy, line, err);

  qp__policy_release(&policy);
  return rc;
}

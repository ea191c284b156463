/* tool.c - see tool.h.
 *
 * A call is in the list `calls` from its beginning until its callback. While it runs `source` is
 * set and the timer is its timeout; once it has ended `source` is NULL, the result is in it and the
 * timer fires on the next turn of the loop. The memory is freed when the timer's handle has closed.
 *
 * Closing ends every call, closes the sources and waits until nothing is held. */
#include "tool/tool_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "net/client.h"
#include "tool/builtin.h"
#include "tool/hidden.h"
#include "tool/limit.h"
#include "tool/policy_arg.h"
#include "tool/text.h"

#define TIMEOUT_MS 60000
#define OUTPUT_LIMIT ((size_t)64 << 10)
#define SENTENCE_MAX ((size_t)64 << 10)
#define ARGUMENTS_MAX ((size_t)16 << 20)
#define MCP_PROBE_MS 3000  /* a server of the older era may not answer what it does not know */
#define MCP_START_MS 60000 /* it may be downloaded first */
#define MCP_PAUSE_MS 1000
#define MCP_LOG_INTERVAL_MS 10000

/* ---- holding ---- */

static void
free_tools(uv_handle_t *handle)
{
  struct qp__tools *tools = handle->data;
  void (*closed)(void *arg) = tools->closed;
  void *arg = tools->closed_arg;

  while (tools->sources) {
    struct qp__tool_source *source = tools->sources;

    tools->sources = source->next;
    source->free(source->self);
  }
  qp__workspace_close(&tools->workspace);
  qp__net_unref(tools->net);
  qp__free(tools->hidden);
  json_decref(tools->no_memory);
  qp__free(tools);
  if (closed)
    closed(arg);
}

void
qp__tools_hold(struct qp__tools *tools)
{
  tools->held++;
}

void
qp__tools_unhold(struct qp__tools *tools)
{
  if (--tools->held == 0 && tools->closing)
    uv_close((uv_handle_t *)&tools->closer, free_tools);
}

void
qp__tools_add_source(struct qp__tools *tools, struct qp__tool_source *source)
{
  struct qp__tool_source **at = &tools->sources;

  while (*at)
    at = &(*at)->next;
  source->next = NULL;
  *at = source;
}

void
qp__tools_tell_change(struct qp__tools *tools)
{
  if (tools->changed && !tools->closing)
    tools->changed(tools->changed_arg);
}

/* ---- opening and closing ---- */

/* *inside as in qp__hidden_check(). */
static enum qp_rc
hide(struct qp__tools *tools, const struct qp__tools_options *options, const char **inside,
     struct qp_err *err)
{
  enum qp_rc rc = qp__hidden_check(options->hidden, options->workspace, inside, err);

  if (rc || !*inside)
    return rc;
  tools->hidden = qp__alloc(sizeof(*tools->hidden));
  if (!tools->hidden)
    return qp__fail_nomem(err, "opening the tools");
  rc = qp__hidden_init(tools->hidden, options->hidden, err);
  tools->workspace.hidden = tools->hidden;
  return rc;
}

enum qp_rc
qp__tools_open(uv_loop_t *loop, const struct qp__tools_options *options, struct qp__tools **out,
               struct qp_err *err)
{
  struct qp__tools *tools = qp__alloc0(1, sizeof(*tools));
  const char *inside = NULL;
  enum qp_rc rc = QP_OK;

  if (!tools)
    return qp__fail_nomem(err, "opening the tools");
  tools->loop = loop;
  tools->os = options->os ? options->os : &qp__os_posix;
  tools->log = options->log;
  tools->policy = options->policy;
  tools->timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS;
  tools->output_limit = options->output_limit ? options->output_limit : OUTPUT_LIMIT;
  tools->mcp_probe_ms = options->mcp_probe_ms ? options->mcp_probe_ms : MCP_PROBE_MS;
  tools->mcp_start_ms = options->mcp_start_ms ? options->mcp_start_ms : MCP_START_MS;
  tools->mcp_pause_ms = options->mcp_pause_ms ? options->mcp_pause_ms : MCP_PAUSE_MS;
  tools->mcp_log_interval_ms =
      options->mcp_log_interval_ms ? options->mcp_log_interval_ms : MCP_LOG_INTERVAL_MS;
  tools->changed = options->changed;
  tools->changed_arg = options->changed_arg;
  tools->workspace.fd = -1;
  tools->no_memory = json_string("out of memory");
  if (!tools->no_memory)
    rc = qp__fail_nomem(err, "opening the tools");
  if (!rc && options->workspace)
    rc = qp__workspace_open(&tools->workspace, tools->os, options->workspace, err);
  if (!rc && options->workspace)
    rc = hide(tools, options, &inside, err);
  if (!rc && options->workspace)
    rc = qp__builtin_add(tools, options, inside, err);
  if (rc) {
    qp__workspace_close(&tools->workspace);
    qp__free(tools->hidden);
    json_decref(tools->no_memory);
    qp__free(tools);
    return rc;
  }
  tools->net = options->net ? qp__net_ref(options->net) : NULL;
  (void)uv_timer_init(loop, &tools->closer); /* cannot fail */
  uv_unref((uv_handle_t *)&tools->closer);
  tools->closer.data = tools;
  *out = tools;
  return QP_OK;
}

void
qp__tools_close(struct qp__tools *tools, void (*closed)(void *arg), void *arg)
{
  if (!tools || tools->closing)
    return;
  tools->closing = true;
  tools->closed = closed;
  tools->closed_arg = arg;
  qp__tools_hold(tools);
  for (struct qp__tool_run *call = tools->calls; call; call = call->next)
    qp__tool_run_cancel(call);
  for (struct qp__tool_source *source = tools->sources; source; source = source->next)
    if (source->close)
      source->close(source->self);
  qp__tools_unhold(tools);
}

/* ---- lists ---- */

size_t
qp__tools_starting(const struct qp__tools *tools)
{
  return tools->starting;
}

void
qp__tools_retry(struct qp__tools *tools)
{
  for (struct qp__tool_source *source = tools->sources; source; source = source->next)
    if (source->retry && !tools->closing)
      source->retry(source->self);
}

bool
qp__tools_server(const struct qp__tools *tools, size_t i, struct qp__tool_server *out)
{
  for (const struct qp__tool_source *source = tools->sources; source; source = source->next)
    if (source->server && i-- == 0) {
      source->server(source->self, out);
      return true;
    }
  return false;
}

size_t
qp__tools_count(const struct qp__tools *tools)
{
  size_t count = 0;

  for (const struct qp__tool_source *source = tools->sources; source; source = source->next)
    count += source->count;
  return count;
}

const struct qp__tool *
qp__tools_at(const struct qp__tools *tools, size_t i)
{
  for (const struct qp__tool_source *source = tools->sources; source; source = source->next) {
    if (i < source->count)
      return source->at(source->self, i);
    i -= source->count;
  }
  return NULL;
}

static const struct qp__tool *
find(const struct qp__tools *tools, const char *name, struct qp__tool_source **owner)
{
  for (struct qp__tool_source *source = tools->sources; source; source = source->next)
    for (size_t i = 0; i < source->count; i++) {
      const struct qp__tool *tool = source->at(source->self, i);

      if (strcmp(tool->name, name) == 0) {
        *owner = source;
        return tool;
      }
    }
  return NULL;
}

const struct qp__tool *
qp__tools_find(const struct qp__tools *tools, const char *name)
{
  struct qp__tool_source *owner;

  return find(tools, name, &owner);
}

static enum qp_rc
parse_arguments(const char *text, json_t **out, struct qp_err *err)
{
  struct qp_bytes bytes = { text, text ? strlen(text) : 0 };

  if (bytes.len == 0)
    bytes = (struct qp_bytes){ "{}", 2 };
  if (bytes.len > ARGUMENTS_MAX)
    return qp__fail(err, QP_TOOBIG, "the arguments have more than %zu bytes", ARGUMENTS_MAX);
  return qp__json_parse_outside_object("the arguments", bytes, out, err);
}

enum qp__verdict
qp__tools_judge_call(const struct qp__tools *tools, const struct qp__tool *tool,
                     const json_t *arguments, size_t *rule)
{
  static const struct qp__policy defaults;
  const struct qp__policy_call call = {
    .tool = tool->name,
    .changes = tool->changes,
    .arguments = arguments,
    .root = { tools->workspace.path, tools->workspace.real },
  };

  return qp__policy_judge(tools->policy ? tools->policy : &defaults, &call, rule);
}

enum qp__verdict
qp__tools_judge(const struct qp__tools *tools, const char *name, const char *arguments,
                size_t *rule)
{
  const struct qp__tool *tool = qp__tools_find(tools, name);
  enum qp__verdict verdict;
  json_t *object = NULL;

  if (rule)
    *rule = 0;
  if (!tool || parse_arguments(arguments, &object, NULL))
    return QP__DENY;
  verdict = qp__tools_judge_call(tools, tool, object, rule);
  json_decref(object);
  return verdict;
}

json_t *
qp__tools_narrow(const struct qp__tools *tools, const char *name, const char *arguments)
{
  const struct qp__tool *tool = qp__tools_find(tools, name);
  struct qp__policy_call call = { .root = { tools->workspace.path, tools->workspace.real } };
  bool whole = strcmp(name, "run_command") == 0;
  json_t *object = NULL;
  json_t *kept = json_object();
  json_t *narrow = NULL;
  bool good = tool && kept && !parse_arguments(arguments, &object, NULL);

  if (good) {
    call.tool = tool->name;
    call.changes = tool->changes;
    call.arguments = object;
  }
  for (void *at = good ? json_object_iter(object) : NULL; good && at;
       at = json_object_iter_next(object, at)) {
    const char *key = json_object_iter_key(at);
    json_t *value = json_object_iter_value(at);

    if (whole || qp__arg_matters(&call, key, value))
      good = json_object_set(kept, key, value) == 0;
  }
  if (good)
    narrow = json_pack("{s:s, s:O}", "tool", name, "arguments", kept);
  json_decref(kept);
  json_decref(object);
  return narrow;
}

/* ---- a call ---- */

static void
free_call(uv_handle_t *handle)
{
  struct qp__tool_run *call = handle->data;
  struct qp__tools *tools = call->tools;

  qp__free(call);
  qp__tools_unhold(tools);
}

static void
deliver(struct qp__tool_run *call)
{
  struct qp__tool_run_result result = {
    .outcome = call->outcome,
    .value = call->value ? call->value : call->tools->no_memory,
    .is_error = call->outcome != QP__TOOL_DONE,
    .cut = call->cut,
    .ms = uv_now(call->tools->loop) - call->began,
  };

  qp__list_remove(call->tools->calls, prev, next, call);
  call->done(call->arg, &result);
  json_decref(call->value);
  uv_close((uv_handle_t *)&call->timer, free_call);
}

static void
on_timer(uv_timer_t *timer)
{
  struct qp__tool_run *call = timer->data;
  struct qp__tool_source *source = call->source;

  if (!source) {
    deliver(call);
    return;
  }
  source->cancel(source->self, call);
  qp__tool_run_end(call, QP__TOOL_TIMEOUT,
                   json_sprintf("the tool took longer than %llu ms and was stopped",
                                (unsigned long long)call->timeout_ms),
                   false);
}

void
qp__tool_run_set_timeout(struct qp__tool_run *call, uint64_t ms)
{
  call->timeout_ms = ms;
  (void)uv_timer_start(&call->timer, on_timer, ms, 0);
}

void
qp__tool_run_end(struct qp__tool_run *call, enum qp__tool_outcome outcome, json_t *value, bool cut)
{
  call->source = NULL;
  call->cut = cut;
  call->value = qp__limit_value(value, call->output_limit, &call->cut);
  call->outcome = call->value || outcome != QP__TOOL_DONE ? outcome : QP__TOOL_FAILED;
  (void)uv_timer_start(&call->timer, on_timer, 0, 0); /* fails only without a callback */
}

void
qp__tool_run_fail(struct qp__tool_run *call, const char *sentence)
{
  struct qp__buf clean; /* a sentence may end in half a character, where it was cut */

  qp__buf_init(&clean, SENTENCE_MAX);
  (void)qp__text_add(&clean, sentence, strlen(sentence));
  qp__tool_run_end(call, QP__TOOL_FAILED, qp__json_take(&clean), false);
}

void
qp__tool_run_cancel(struct qp__tool_run *call)
{
  struct qp__tool_source *source = call->source;

  if (!source)
    return;
  source->cancel(source->self, call);
  qp__tool_run_end(call, QP__TOOL_CANCELLED, json_string("the call was cancelled"), false);
}

static void
begin(struct qp__tool_run *call, const char *name, const char *arguments)
{
  struct qp__tool_source *source = NULL;
  const struct qp__tool *tool = find(call->tools, name, &source);
  struct qp_err err = { QP_OK, "" };
  json_t *object = NULL;

  if (!tool) {
    (void)qp__fail(&err, QP_NOTFOUND, "there is no tool '%.80s'", name);
    qp__tool_run_fail(call, err.msg);
    return;
  }
  if (parse_arguments(arguments, &object, &err)) {
    qp__tool_run_fail(call, err.msg);
    return;
  }
  call->source = source;
  (void)uv_timer_start(&call->timer, on_timer, call->timeout_ms, 0);
  source->call(source->self, tool, object, call);
  json_decref(object);
}

enum qp_rc
qp__tools_call(struct qp__tools *tools, const struct qp__tool_request *request,
               struct qp__tool_run **out, struct qp_err *err)
{
  struct qp__tool_run *call;

  if (tools->closing)
    return qp__fail(err, QP_MISUSE, "the tools are being closed");
  call = qp__alloc0(1, sizeof(*call));
  if (!call)
    return qp__fail_nomem(err, "calling a tool");
  call->tools = tools;
  call->timeout_ms = request->timeout_ms ? request->timeout_ms : tools->timeout_ms;
  call->output_limit = request->output_limit ? request->output_limit : tools->output_limit;
  call->done = request->done;
  call->arg = request->arg;
  if (request->base)
    (void)snprintf(call->base, sizeof(call->base), "%s", request->base);
  qp__list_push(tools->calls, prev, next, call);
  (void)uv_timer_init(tools->loop, &call->timer); /* cannot fail */
  call->timer.data = call;
  uv_update_time(tools->loop);
  call->began = uv_now(tools->loop);
  qp__tools_hold(tools);
  begin(call, request->name, request->arguments);
  if (out)
    *out = call;
  return QP_OK;
}

/* own_tool.c - see own_tool.h.
 *
 * A task is begun on the loop's thread and ended by any thread, which puts it into the list `ended`
 * and wakes the loop. The loop delivers the result and frees the task. A task that was cancelled
 * lives until the program ends it, and the tools are not closed before: they are held by the
 * handle, which is closed after the last task. */
#include "tool/own_tool.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "model/client_tool.h"
#include "tool/limit.h"
#include "tool/tool_int.h"

#define NO_ARGUMENTS "{\"type\":\"object\",\"properties\":{}}"
#define ARGUMENTS_MAX ((size_t)16 << 20)

struct own_tool {
  struct qp__tool tool; /* first; its strings are owned */
  uint64_t timeout_ms;
  qp_tool_fn *call;
  void *arg;
};

struct own_tools {
  struct qp__tool_source source;
  struct qp__tools *tools;
  struct own_tool **list;
  size_t cap;
  size_t live; /* tasks; the loop's thread */
  bool closing;
  uv_async_t wake;
  pthread_mutex_t lock; /* of `ended` */
  struct qp_tool_task *ended;
};

struct qp_tool_task {
  struct qp_tool_task *next;
  struct own_tools *own;
  struct qp__tool_run *run; /* NULL: no call waits; used by the loop's thread */
  atomic_bool cancelled;
  json_t *value; /* once it has ended */
  bool is_error;
};

/* ---- ending ---- */

bool
qp_tool_task_is_cancelled(const struct qp_tool_task *task)
{
  return atomic_load(&task->cancelled);
}

enum qp_rc
qp_tool_task_end(struct qp_tool_task *task, const char *result_json, bool is_error,
                 struct qp_err *err)
{
  struct own_tools *own = task->own;
  struct qp_bytes text = { result_json, strlen(result_json) };
  enum qp_rc rc = qp__json_parse_outside("the result of the tool", text, &task->value, err);

  if (rc)
    task->value = json_string("the tool answered with a text that is no JSON");
  task->is_error = is_error || rc;
  (void)pthread_mutex_lock(&own->lock);
  task->next = own->ended;
  own->ended = task;
  (void)uv_async_send(&own->wake); /* under the lock: the loop closes it after the last task */
  (void)pthread_mutex_unlock(&own->lock);
  return rc;
}

static void
on_closed(uv_handle_t *handle)
{
  struct own_tools *own = handle->data;

  qp__tools_unhold(own->tools);
}

static void
close_when_idle(struct own_tools *own)
{
  if (own->closing && !own->live && !uv_is_closing((uv_handle_t *)&own->wake))
    uv_close((uv_handle_t *)&own->wake, on_closed);
}

static void
deliver(struct qp_tool_task *task)
{
  bool cut = false;
  json_t *value = task->value;

  if (task->run) {
    value = qp__limit_value(value, task->run->output_limit, &cut);
    qp__tool_run_end(task->run, task->is_error ? QP__TOOL_FAILED : QP__TOOL_DONE, value, cut);
  } else {
    json_decref(value);
  }
  task->own->live--;
  qp__free(task);
}

static void
on_wake(uv_async_t *wake)
{
  struct own_tools *own = wake->data;
  struct qp_tool_task *task;

  (void)pthread_mutex_lock(&own->lock);
  task = own->ended;
  own->ended = NULL;
  (void)pthread_mutex_unlock(&own->lock);
  while (task) {
    struct qp_tool_task *next = task->next;

    deliver(task);
    task = next;
  }
  close_when_idle(own);
}

/* ---- the source ---- */

static const struct qp__tool *
own_at(void *self, size_t i)
{
  return &((struct own_tools *)self)->list[i]->tool;
}

static void
own_call(void *self, const struct qp__tool *tool, json_t *arguments, struct qp__tool_run *call)
{
  struct own_tools *own = self;
  const struct own_tool *row = (const struct own_tool *)tool;
  struct qp_tool_task *task = qp__alloc0(1, sizeof(*task));
  struct qp__buf text;

  qp__buf_init(&text, ARGUMENTS_MAX);
  if (!task || qp__json_write(&text, arguments)) {
    qp__free(task);
    qp__buf_release(&text);
    qp__tool_run_end(call, QP__TOOL_FAILED, NULL, false);
    return;
  }
  task->own = own;
  task->run = call;
  atomic_init(&task->cancelled, false);
  call->work = task;
  own->live++;
  if (row->timeout_ms)
    qp__tool_run_set_timeout(call, row->timeout_ms);
  row->call(row->arg, text.data, task);
  qp__buf_release(&text);
}

static void
own_cancel(void *self, struct qp__tool_run *call)
{
  struct qp_tool_task *task = call->work;

  (void)self;
  task->run = NULL;
  atomic_store(&task->cancelled, true);
}

static void
own_close(void *self)
{
  struct own_tools *own = self;

  own->closing = true;
  close_when_idle(own);
}

static void
free_tool(struct own_tool *row)
{
  if (!row)
    return;
  qp__free((char *)row->tool.name);
  qp__free((char *)row->tool.description);
  qp__free((char *)row->tool.schema);
  qp__free(row);
}

static void
own_free(void *self)
{
  struct own_tools *own = self;

  for (size_t i = 0; i < own->source.count; i++)
    free_tool(own->list[i]);
  qp__free(own->list);
  (void)pthread_mutex_destroy(&own->lock);
  qp__free(own);
}

/* ---- adding ---- */

/* The source of these tools, created with the first one. */
static enum qp_rc
find_source(struct qp__tools *tools, struct own_tools **out, struct qp_err *err)
{
  struct own_tools *own;

  for (struct qp__tool_source *source = tools->sources; source; source = source->next)
    if (source->call == own_call) {
      *out = source->self;
      return QP_OK;
    }
  own = qp__alloc0(1, sizeof(*own));
  if (!own || uv_async_init(tools->loop, &own->wake, on_wake)) {
    qp__free(own);
    return qp__fail_nomem(err, "a tool");
  }
  (void)pthread_mutex_init(&own->lock, NULL); /* cannot fail on Linux */
  own->wake.data = own;
  own->tools = tools;
  own->source = (struct qp__tool_source){
    .self = own,
    .at = own_at,
    .call = own_call,
    .cancel = own_cancel,
    .close = own_close,
    .free = own_free,
  };
  qp__tools_hold(tools);
  qp__tools_add_source(tools, &own->source);
  *out = own;
  return QP_OK;
}

/* The rules for names and schemas are those of tools that a client runs. */
static enum qp_rc
check(const struct qp_tool_spec *spec, struct qp_err *err)
{
  const char *schema = spec->parameters_json ? spec->parameters_json : NO_ARGUMENTS;
  json_t *parameters = NULL;
  json_t *list;
  enum qp_rc rc;

  if (!spec->name || !spec->call)
    return qp__fail(err, QP_INVALID, "a tool has no name or no function");
  rc = qp__json_parse_object("the schema of a tool", (struct qp_bytes){ schema, strlen(schema) },
                             &parameters, err);
  if (rc)
    return rc;
  list = json_pack("[o]", qp__json_pack_set("{s:s, s:s?, s:o}", "name", spec->name, "description",
                                            spec->description, "parameters", parameters));
  rc = list ? qp__client_tools_check("the tool", list, err) : qp__fail_nomem(err, "a tool");
  json_decref(list);
  return rc;
}

enum qp_rc
qp__own_tool_add(struct qp__tools *tools, const struct qp_tool_spec *spec, struct qp_err *err)
{
  struct own_tools *own = NULL;
  struct own_tool *row = NULL;
  enum qp_rc rc = check(spec, err);

  if (!rc && tools->closing)
    rc = qp__fail(err, QP_STOPPED, "the engine is stopping");
  if (!rc && qp__tools_find(tools, spec->name))
    rc = qp__fail(err, QP_EXISTS, "there is a tool '%s' already", spec->name);
  if (!rc)
    rc = find_source(tools, &own, err);
  if (rc)
    return rc;
  row = qp__alloc0(1, sizeof(*row));
  if (row) {
    row->tool.name = qp__strdup(spec->name);
    row->tool.title = row->tool.name;
    row->tool.description = qp__strdup(spec->description ? spec->description : "");
    row->tool.schema = qp__strdup(spec->parameters_json ? spec->parameters_json : NO_ARGUMENTS);
    row->tool.ui_hints = "{}";
    row->tool.changes = spec->changes;
    row->tool.source = "program";
    row->timeout_ms = spec->timeout_ms;
    row->call = spec->call;
    row->arg = spec->arg;
  }
  if (!row || !row->tool.name || !row->tool.description || !row->tool.schema ||
      !qp__vec_push(own->list, own->source.count, own->cap, row)) {
    free_tool(row);
    return qp__fail_nomem(err, "a tool");
  }
  qp__tools_tell_change(tools);
  return QP_OK;
}

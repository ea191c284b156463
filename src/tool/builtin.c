/* builtin.c - see builtin.h: the table of the built-in tools, their schemas, the check of their
 * arguments, and the jobs in worker threads. */
#include "tool/builtin_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "tool/builtin.h"

#define NOTE_ROOM 1024
#define SCHEMA_MAX ((size_t)64 << 10)

/* Their order is the order in which models see them: it stays as it is. */
static const struct qp__builtin *const table[] = {
  &qp__builtin_read_file,   &qp__builtin_list_directory, &qp__builtin_grep,
  &qp__builtin_glob,        &qp__builtin_write_file,     &qp__builtin_edit_file,
  &qp__builtin_delete_file, &qp__builtin_run_command,
};

#define TOOL_COUNT (sizeof(table) / sizeof(table[0]))

struct qp__builtins {
  struct qp__tool_source source;
  struct qp__tools *tools;
  struct qp__commands *commands;
  struct qp__tool list[TOOL_COUNT];
  char *schemas[TOOL_COUNT];
};

/* ---- schemas ---- */

static json_t *
type_schema(enum qp__arg_type type)
{
  static const char *const names[] = {
    [QP__ARG_STRING] = "string",   [QP__ARG_PATH] = "string",    [QP__ARG_INTEGER] = "integer",
    [QP__ARG_BOOLEAN] = "boolean", [QP__ARG_COMMAND] = "string",
  };

  if (type == QP__ARG_COMMAND)
    return json_pack("{s:[{s:s}, {s:s, s:{s:s}, s:i}]}", "anyOf", "type", "string", "type", "array",
                     "items", "type", "string", "minItems", 1);
  return json_pack("{s:s}", "type", names[type]);
}

static json_t *
arg_schema(const struct qp__arg *arg)
{
  json_t *schema = type_schema(arg->type);
  bool number = arg->type == QP__ARG_INTEGER;

  return qp__json_built(
      schema, (number && json_object_set_new(schema, "minimum", json_integer(arg->min))) ||
                  (number && json_object_set_new(schema, "maximum", json_integer(arg->max))) ||
                  json_object_set_new(schema, "description", json_string(arg->help)));
}

/* NULL: no memory. */
static char *
build_schema(const struct qp__builtin *builtin)
{
  json_t *properties = json_object();
  json_t *required = json_array();
  json_t *schema = json_pack("{s:s, s:O, s:O, s:b}", "type", "object", "properties", properties,
                             "required", required, "additionalProperties", 0);
  struct qp__buf out;
  int bad = !schema;
  char *text = NULL;

  for (const struct qp__arg *arg = builtin->args; arg->type && !bad; arg++) {
    bad = json_object_set_new(properties, arg->name, arg_schema(arg));
    if (arg->required)
      bad = bad || json_array_append_new(required, json_string(arg->name));
  }
  qp__buf_init(&out, SCHEMA_MAX);
  if (!bad && !qp__json_write(&out, schema))
    text = qp__buf_take(&out, NULL);
  qp__buf_release(&out);
  json_decref(properties);
  json_decref(required);
  json_decref(schema);
  return text;
}

/* ---- arguments ---- */

static bool
is_strings(const json_t *value)
{
  for (size_t i = 0; i < json_array_size(value); i++)
    if (!json_is_string(json_array_get(value, i)) ||
        strlen(json_string_value(json_array_get(value, i))) !=
            json_string_length(json_array_get(value, i)))
      return false;
  return json_array_size(value) > 0;
}

static enum qp_rc
check_arg(const struct qp__builtin *builtin, const struct qp__arg *arg, const json_t *arguments,
          struct qp_err *err)
{
  const char *what = builtin->tool.name;
  const json_t *value = json_object_get(arguments, arg->name);
  const char *text = NULL;
  bool flag = false;
  int64_t n = arg->min;
  enum qp_rc rc;

  if (!value || json_is_null(value))
    return arg->required
               ? qp__fail(err, QP_INVALID, "%s: the argument \"%s\" is missing", what, arg->name)
               : QP_OK;
  switch (arg->type) {
  case QP__ARG_BOOLEAN:
    return qp__json_bool(what, arguments, arg->name, &flag, err);
  case QP__ARG_INTEGER:
    rc = qp__json_int(what, arguments, arg->name, &n, err);
    if (!rc && (n < arg->min || n > arg->max))
      rc = qp__fail(err, QP_INVALID, "%s: \"%s\" must be from %lld to %lld", what, arg->name,
                    (long long)arg->min, (long long)arg->max);
    return rc;
  case QP__ARG_COMMAND:
    if (json_is_array(value))
      return is_strings(value)
                 ? QP_OK
                 : qp__fail(err, QP_INVALID, "%s: \"%s\" must be a string or a list of strings",
                            what, arg->name);
    return qp__json_string(what, arguments, arg->name, &text, err);
  case QP__ARG_PATH:
    return qp__json_string(what, arguments, arg->name, &text, err);
  default:
    /* A string may hold NUL characters: write_file writes them. */
    return json_is_string(value)
               ? QP_OK
               : qp__fail(err, QP_INVALID, "%s: \"%s\" must be a string", what, arg->name);
  }
}

static bool
is_known(const struct qp__builtin *builtin, const char *name)
{
  for (const struct qp__arg *arg = builtin->args; arg->type; arg++)
    if (strcmp(arg->name, name) == 0)
      return true;
  return false;
}

enum qp_rc
qp__builtin_check(const struct qp__builtin *builtin, const json_t *arguments, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;
  void *iter = json_object_iter((json_t *)arguments); /* jansson's iterators know no const */

  for (; iter; iter = json_object_iter_next((json_t *)arguments, iter))
    if (!is_known(builtin, json_object_iter_key(iter)))
      return qp__fail(err, QP_INVALID, "%s has no argument \"%.60s\"", builtin->tool.name,
                      json_object_iter_key(iter));
  for (const struct qp__arg *arg = builtin->args; arg->type && !rc; arg++)
    rc = check_arg(builtin, arg, arguments, err);
  return rc;
}

const char *
qp__tool_job_string(const struct qp__tool_job *job, const char *name)
{
  return json_string_value(json_object_get(job->arguments, name));
}

int64_t
qp__tool_job_integer(const struct qp__tool_job *job, const char *name, int64_t otherwise)
{
  const json_t *value = json_object_get(job->arguments, name);

  return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool
qp__tool_job_boolean(const struct qp__tool_job *job, const char *name)
{
  return json_is_true(json_object_get(job->arguments, name));
}

enum qp_rc
qp__tool_job_path(const struct qp__tool_job *job, const char *name,
                  char out[QP__WORKSPACE_PATH_MAX], struct qp_err *err)
{
  const char *path = qp__tool_job_string(job, name);
  enum qp_rc rc = qp__workspace_plain(job->workspace, path ? path : ".", out, err);

  return rc ? rc : qp__workspace_reach(job->workspace, out, err);
}

bool
qp__tool_job_may_visit(struct qp__tool_job *job, const char *plain)
{
  if (qp__workspace_is_hidden(job->workspace, plain))
    return false;
  if (!job->visiting)
    return true;
  if (json_object_set_new_nocheck(job->visiting, "path", json_string_nocheck(plain)))
    return false;
  return !qp__verdict_is_stricter(
      qp__tools_judge_call(job->tools, &job->builtin->tool, job->visiting, NULL), job->verdict);
}

/* ---- the answer of a job ---- */

bool
qp__tool_job_add(struct qp__tool_job *job, const char *text, size_t n)
{
  if (n > job->limit || job->out.len > job->limit - n) {
    job->cut = true;
    return false;
  }
  return qp__buf_add(&job->out, text, n) == QP_OK;
}

bool
qp__tool_job_addf(struct qp__tool_job *job, const char *fmt, ...)
{
  char line[2 * QP__WORKSPACE_PATH_MAX];
  va_list args;
  int n;

  va_start(args, fmt);
  n = vsnprintf(line, sizeof(line), fmt, args);
  va_end(args);
  if (n < 0 || (size_t)n >= sizeof(line))
    return true; /* longer than any name that a system call accepts */
  return qp__tool_job_add(job, line, (size_t)n);
}

void
qp__tool_job_note(struct qp__tool_job *job, const char *fmt, ...)
{
  char note[NOTE_ROOM / 2];
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(note, sizeof(note), fmt, args);
  va_end(args);
  if (job->out.len > 0 && job->out.data[job->out.len - 1] != '\n')
    (void)qp__buf_add_char(&job->out, '\n');
  (void)qp__buf_addf(&job->out, "[%s]", note);
}

const struct qp__builtin *
qp__builtin_find(const char *name)
{
  for (size_t i = 0; i < TOOL_COUNT; i++)
    if (strcmp(table[i]->tool.name, name) == 0)
      return table[i];
  return NULL;
}

/* ---- jobs ---- */

static void
free_job(struct qp__tool_job *job)
{
  qp__buf_release(&job->out);
  json_decref(job->arguments);
  json_decref(job->visiting);
  qp__free(job);
}

static void
work(uv_work_t *request)
{
  struct qp__tool_job *job = request->data;

  job->rc = atomic_load(&job->stop) ? QP_STOPPED : job->builtin->run(job, &job->err);
  if (!job->rc && job->out.rc)
    job->rc = qp__fail_nomem(&job->err, job->builtin->tool.name);
}

static void
after_work(uv_work_t *request, int status)
{
  struct qp__tool_job *job = request->data;
  struct qp__tools *tools = job->tools;
  struct qp_bytes out = qp__buf_bytes(&job->out);

  (void)status;
  if (job->call && job->rc)
    qp__tool_run_fail(job->call, job->err.msg);
  else if (job->call) {
    /* The tool has already kept to the limit; only the note is added to it. */
    job->call->output_limit += NOTE_ROOM;
    qp__tool_run_end(job->call, QP__TOOL_DONE, json_stringn(out.data, out.len), job->cut);
  }
  free_job(job);
  qp__tools_unhold(tools);
}

static void
stop_job(void *work)
{
  struct qp__tool_job *job = work;

  job->call = NULL;
  atomic_store(&job->stop, true);
  (void)uv_cancel((uv_req_t *)&job->work); /* works when it has not begun */
}

static void
start_job(struct qp__builtins *b, const struct qp__builtin *builtin, json_t *arguments,
          struct qp__tool_run *call)
{
  struct qp__tool_job *job = qp__alloc0(1, sizeof(*job));

  if (job && b->tools->policy && qp__policy_looks_at(b->tools->policy, builtin->tool.name)) {
    job->visiting = qp__json_deep_copy(arguments);
    job->verdict = qp__tools_judge_call(b->tools, &builtin->tool, arguments, NULL);
    if (!job->visiting) {
      qp__free(job);
      job = NULL;
    }
  }
  if (!job) {
    qp__tool_run_end(call, QP__TOOL_FAILED, NULL, false);
    return;
  }
  job->work.data = job;
  job->tools = b->tools;
  job->builtin = builtin;
  job->arguments = json_incref(arguments);
  job->call = call;
  job->workspace = &b->tools->workspace;
  job->limit = call->output_limit;
  memcpy(job->base, call->base, sizeof(job->base));
  atomic_init(&job->stop, false);
  qp__buf_init(&job->out, call->output_limit + NOTE_ROOM);
  call->work = job;
  call->stop = stop_job;
  (void)uv_queue_work(b->tools->loop, &job->work, work, after_work); /* fails without a function */
  qp__tools_hold(b->tools);
}

/* ---- the source ---- */

static const struct qp__tool *
builtin_at(void *self, size_t i)
{
  const struct qp__builtins *b = self;

  return &b->list[i];
}

static void
builtin_call(void *self, const struct qp__tool *tool, json_t *arguments, struct qp__tool_run *call)
{
  struct qp__builtins *b = self;
  const struct qp__builtin *builtin = table[tool - b->list];
  struct qp_err err = { QP_OK, "" };

  if (qp__builtin_check(builtin, arguments, &err))
    qp__tool_run_fail(call, err.msg);
  else if (builtin->run)
    start_job(b, builtin, arguments, call);
  else
    qp__commands_call(b->commands, arguments, call);
}

static void
builtin_cancel(void *self, struct qp__tool_run *call)
{
  (void)self;
  call->stop(call->work);
}

static void
builtin_free(void *self)
{
  struct qp__builtins *b = self;

  qp__commands_free(b->commands);
  for (size_t i = 0; i < TOOL_COUNT; i++)
    qp__free(b->schemas[i]);
  qp__free(b);
}

enum qp_rc
qp__builtin_add(struct qp__tools *tools, const struct qp__tools_options *options,
                const char *inside, struct qp_err *err)
{
  struct qp__builtins *b = qp__alloc0(1, sizeof(*b));
  enum qp_rc rc;

  if (!b)
    return qp__fail_nomem(err, "the built-in tools");
  b->tools = tools;
  rc = qp__commands_new(tools, options, inside, &b->commands, err);
  for (size_t i = 0; i < TOOL_COUNT && !rc; i++) {
    b->list[i] = table[i]->tool;
    b->list[i].schema = b->schemas[i] = build_schema(table[i]);
    b->list[i].source = "builtin";
    if (!b->schemas[i])
      rc = qp__fail_nomem(err, "the built-in tools");
  }
  if (rc) {
    builtin_free(b);
    return rc;
  }
  b->source = (struct qp__tool_source){
    .self = b,
    .count = TOOL_COUNT,
    .at = builtin_at,
    .call = builtin_call,
    .cancel = builtin_cancel,
    /* Nothing to close: its jobs and commands are held, and all of them have been cancelled. */
    .free = builtin_free,
  };
  qp__tools_add_source(tools, &b->source);
  return QP_OK;
}

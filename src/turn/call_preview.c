/* call_preview.c - what the calls of an answer will do, before a person decides about them, and
 * arguments that the person has changed.
 *
 * Previews are made between the save of the answer and the state AwaitingToolApproval, so that
 * whoever sees this state sees them too. Those that read files are made in a worker. They are part
 * of the stored state; "base" of an approved call is compared when it runs (tool/tool.h). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "turn/actor.h"

#define DIFF_MAX ((size_t)32 << 10)
#define DIFFS_MAX ((size_t)192 << 10) /* of all calls of an answer */
#define ARGUMENTS_MAX ((size_t)8 << 20)

struct previewed {
  char *name, *arguments; /* NULL: none is needed */
  json_t *preview;
};

struct preview_job {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  uint64_t number; /* of the actor's work */
  struct previewed *calls;
  size_t count;
};

static bool
wants_preview(const struct qp__actor_call *call)
{
  return call->approval == QP_APPROVAL_PENDING && !call->client;
}

static size_t
limit_of(size_t used)
{
  return used >= DIFFS_MAX ? 0 : DIFFS_MAX - used < DIFF_MAX ? DIFFS_MAX - used : DIFF_MAX;
}

/* The preview is the call's from now on. */
static void
set_preview(struct qp__actor_call *call, json_t *preview)
{
  const char *base = json_string_value(json_object_get(preview, "base"));

  json_decref(call->preview);
  call->preview = preview;
  (void)snprintf(call->base, sizeof(call->base), "%s", base ? base : "");
}

static void
free_job(struct preview_job *job)
{
  for (size_t i = 0; job->calls && i < job->count; i++) {
    qp__free(job->calls[i].name);
    qp__free(job->calls[i].arguments);
    json_decref(job->calls[i].preview);
  }
  qp__free(job->calls);
  qp__free(job);
}

static void
make_previews(uv_work_t *work)
{
  struct preview_job *job = (struct preview_job *)work;
  const struct qp__tools *tools = job->actor->engine->tools;
  size_t used = 0;

  for (size_t i = 0; i < job->count; i++) {
    struct previewed *call = &job->calls[i];

    if (!call->arguments)
      continue;
    call->preview = qp__tools_preview(tools, call->name, call->arguments, limit_of(used));
    used += json_string_length(json_object_get(call->preview, "diff"));
  }
}

static void
on_previews(uv_work_t *work, int status)
{
  struct preview_job *job = (struct preview_job *)work;
  struct qp__actor *t = job->actor;

  (void)status;
  t->jobs--;
  if (t->stage == QP__ACTOR_OPEN && t->number == job->number && t->call_count == job->count) {
    for (size_t i = 0; i < job->count; i++)
      if (job->calls[i].preview) {
        set_preview(&t->calls[i], job->calls[i].preview);
        job->calls[i].preview = NULL;
      }
    qp__actor_enqueue_event(t, QP__EVENT_CALLS_ASK, job->number);
  }
  free_job(job);
  qp__actor_pump(t);
}

/* NULL: out of memory. */
static struct preview_job *
new_job(struct qp__actor *t)
{
  struct preview_job *job = qp__alloc0(1, sizeof(*job));

  if (!job)
    return NULL;
  job->actor = t;
  job->number = t->number;
  job->calls = qp__alloc0(t->call_count, sizeof(*job->calls));
  job->count = t->call_count;
  for (size_t i = 0; job->calls && i < t->call_count; i++) {
    if (!wants_preview(&t->calls[i]))
      continue;
    job->calls[i].name = qp__strdup(t->calls[i].name);
    job->calls[i].arguments = job->calls[i].name ? qp__strdup(t->calls[i].arguments) : NULL;
    if (!job->calls[i].arguments) {
      free_job(job);
      return NULL;
    }
  }
  if (!job->calls) {
    qp__free(job);
    return NULL;
  }
  return job;
}

bool
qp__round_preview_reads(const struct qp__actor *t)
{
  for (size_t i = 0; i < t->call_count; i++)
    if (wants_preview(&t->calls[i]) && qp__tools_preview_reads(t->calls[i].name))
      return true;
  return false;
}

void
qp__round_preview_now(struct qp__actor *t)
{
  for (size_t i = 0; i < t->call_count; i++)
    if (wants_preview(&t->calls[i]))
      set_preview(&t->calls[i],
                  qp__tools_preview(t->engine->tools, t->calls[i].name, t->calls[i].arguments, 0));
}

/* Without memory the calls are shown with their arguments only. */
void
qp__round_preview(struct qp__actor *t)
{
  struct preview_job *job = new_job(t);

  if (job && uv_queue_work(&t->engine->loop, &job->work, make_previews, on_previews) == 0) {
    t->jobs++;
    return;
  }
  if (job)
    free_job(job);
  qp__actor_enqueue_event(t, QP__EVENT_CALLS_ASK, t->number);
}

enum qp_rc
qp__round_load_previews(struct qp__actor *t, const json_t *pending, struct qp_err *err)
{
  for (size_t i = 0; i < json_array_size(pending); i++) {
    const json_t *one = json_array_get(pending, i);
    const char *id = json_string_value(json_object_get(one, "id"));
    const json_t *preview = json_object_get(one, "preview");
    struct qp__actor_call *call = id ? qp__round_find(t, id) : NULL;
    json_t *copy;

    if (!call || !json_is_object(preview))
      continue;
    copy = qp__json_deep_copy(preview); /* the metadata belongs to other threads too */
    if (!copy)
      return qp__fail_nomem(err, "the tool calls of an answer");
    set_preview(call, copy);
  }
  return QP_OK;
}

/* ---- changed arguments ---- */

static bool
is_approved(const struct qp_action *a, const char *id)
{
  for (size_t i = 0; i < a->approved_count; i++)
    if (strcmp(a->approved[i], id) == 0)
      return true;
  return false;
}

/* The base holds for the file that was shown: not for another path. */
static bool
same_path(const struct qp__actor_call *call, const json_t *arguments)
{
  const char *new_path = json_string_value(json_object_get(arguments, "path"));
  json_t *old = NULL;
  const char *old_path;
  bool same;

  if (qp__json_parse_object(
          "arguments", (struct qp_bytes){ call->arguments, strlen(call->arguments) }, &old, NULL))
    return false;
  old_path = json_string_value(json_object_get(old, "path"));
  same = old_path && new_path && strcmp(old_path, new_path) == 0;
  json_decref(old);
  return same;
}

static enum qp_rc
edit_call(struct qp__actor *t, struct qp__actor_call *call, const json_t *arguments,
          struct qp_err *err)
{
  struct qp__buf text;
  char *copy = NULL;
  enum qp_rc rc;

  qp__buf_init(&text, ARGUMENTS_MAX);
  (void)qp__json_write(&text, arguments);
  rc = qp__buf_check(&text, "the changed arguments", err);
  if (!rc && qp__tools_judge(t->engine->tools, call->name, text.data, NULL) == QP__DENY)
    rc = qp__fail(err, QP_INVALID, "the policy does not allow the changed arguments of '%.80s'",
                  call->id);
  if (!rc && !(copy = qp__buf_take(&text, NULL)))
    rc = qp__fail_nomem(err, "a turn");
  qp__buf_release(&text);
  if (rc)
    return rc;
  if (!same_path(call, arguments))
    call->base[0] = '\0';
  if (call->original)
    qp__free(call->arguments);
  else
    call->original = call->arguments;
  call->arguments = copy;
  return QP_OK;
}

enum qp_rc
qp__round_edit(struct qp__actor *t, const struct qp__action_request *request, struct qp_err *err)
{
  const char *id;
  json_t *arguments;
  enum qp_rc rc = QP_OK;

  json_object_foreach (request->edits, id, arguments) {
    struct qp__actor_call *call = qp__round_find(t, id);

    if (!call || !is_approved(&request->a, id))
      rc = qp__fail(err, QP_INVALID, "'arguments' names the call '%.80s', which is not approved",
                    id);
    if (!rc)
      rc = edit_call(t, call, arguments, err);
    if (rc)
      break;
  }
  if (rc)
    qp__round_undo_edits(t);
  return rc;
}

void
qp__round_undo_edits(struct qp__actor *t)
{
  for (size_t i = 0; i < t->call_count; i++) {
    struct qp__actor_call *call = &t->calls[i];
    const char *base = json_string_value(json_object_get(call->preview, "base"));

    if (!call->original || call->approval != QP_APPROVAL_PENDING)
      continue;
    qp__free(call->arguments);
    call->arguments = call->original;
    call->original = NULL;
    (void)snprintf(call->base, sizeof(call->base), "%s", base ? base : "");
  }
}

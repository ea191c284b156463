/* state.c - renders the state of a context, and reuses rendered bodies. */
#include "http/state.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/clock.h"
#include "http/compaction_json.h"
#include "http/context_json.h"
#include "http/dto.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/http_int.h"
#include "quipu/compaction.h"

#define CACHED_MAX ((size_t)8 << 20) /* a larger body is rendered for each poll */
#define PENDING_WINDOW 64            /* newest messages that are searched for pending calls */

/* ---- rendering ---- */

struct rendering {
  struct qp__buf *out;
  struct qp__pending_calls pending;
  struct qp__idset pins;
  char *name; /* of the branch */
  uint64_t total;
  uint64_t skip; /* messages that are read but not shown */
  bool no_skip;  /* fail if messages must be skipped */
};

static enum qp_rc
show(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct rendering *x = arg;

  if (json.len && (info->type == QP_TYPE_TOOL_CALL || info->type == QP_TYPE_TOOL_RESULT))
    qp__pending_calls_see(&x->pending, json);
  if (x->skip) {
    x->skip--;
    return QP_OK;
  }
  qp__dto_message(x->out, NULL, info, json);
  if (qp__idset_has(&x->pins, &info->id))
    qp__dto_pinned(x->out);
  return x->out->rc;
}

/* The first message to read, and how many messages are only read, not shown. */
static uint64_t
window(struct rendering *x, uint64_t last)
{
  uint64_t shown = last < x->total ? last : x->total;
  uint64_t seen = shown < PENDING_WINDOW ? PENDING_WINDOW : shown;

  if (seen > x->total)
    seen = x->total;
  x->skip = seen - shown;
  return x->total - seen;
}

/* Counts messages up to the first with a tool call or a tool result. */
struct quiet {
  uint64_t count;
  bool over;
};

static enum qp_rc
count_quiet(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct quiet *quiet = arg;

  (void)json;
  quiet->over |= info->type == QP_TYPE_TOOL_CALL || info->type == QP_TYPE_TOOL_RESULT;
  quiet->count += !quiet->over;
  return QP_OK;
}

/* Skips messages that are not shown and have no tool calls; their content is not even read. */
static enum qp_rc
pass_quiet(struct rendering *x, struct qp_context *context, uint64_t *first, struct qp_err *err)
{
  struct quiet quiet = { 0 };
  enum qp_rc rc;

  if (!x->skip)
    return QP_OK;
  rc = qp_messages_index(context, x->name, *first, x->skip, count_quiet, &quiet, err);
  *first += quiet.count;
  x->skip -= quiet.count;
  return rc;
}

static enum qp_rc
render_messages(struct rendering *x, struct qp_context *context, uint64_t last, struct qp_err *err)
{
  uint64_t first = window(x, last);
  enum qp_rc rc = pass_quiet(x, context, &first, err);

  if (!rc && x->no_skip && x->skip)
    rc = qp__fail(err, QP_BUSY, "older messages must be read");
  if (rc)
    return rc;
  qp__emit_str(x->out, "branch", x->name);
  qp__emit_uint(x->out, "total", x->total);
  qp__emit_open(x->out, "messages", '[');
  rc = qp_messages_range(context, x->name, first, x->total - first, show, x, err);
  qp__emit_close(x->out, ']');
  return rc ? rc : qp__buf_check(x->out, "the state", err);
}

static void
render_state(struct qp__buf *out, const struct qp_uuid *id, const struct qp__brief *brief)
{
  qp__emit_uuid(out, "id", id);
  qp__emit_str(out, "state", qp_state_name(brief->state));
  if (brief->state_detail)
    qp__emit_json(out, "state_detail", brief->state_detail);
}

/* The newest event that the state includes; while an answer is streamed, the event before its first
 * piece: the state includes none of them. */
static enum qp_rc
find_last_event(struct qp_context *context, const json_t *detail, uint64_t *out, struct qp_err *err)
{
  json_int_t answer = json_integer_value(json_object_get(detail, "answer_seq"));
  struct qp_event_range range = { .newest = 0 };
  enum qp_rc rc = qp_events_range(context, &range, err);

  if (rc)
    return rc;
  *out = answer > 0 && (uint64_t)answer <= range.newest ? (uint64_t)answer - 1 : range.newest;
  return QP_OK;
}

/* How full the window of the model is. A state without it is still a state: only a lack of memory
 * is a failure. */
static enum qp_rc
render_window(struct qp__http *http, struct qp__held *held, const char *branch, struct qp__buf *out,
              struct qp_err *err)
{
  struct qp_engine *engine = http ? qp__turns_try(http) : NULL;
  struct qp_err ignored;
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc;

  if (!engine)
    return QP_OK;
  rc = qp_engine_window(engine, held->context, branch, &text, &len, &ignored);
  qp__turns_leave(http);
  rc = qp__emit_taken(out, "window", text, len, rc);
  return rc == QP_NOMEM ? qp__fail_nomem(err, "the state") : QP_OK;
}

static enum qp_rc
render_whole(struct qp__http *http, struct qp__held *held, const char *branch, uint64_t last,
             bool no_skip, struct qp__buf *out, struct qp_err *err)
{
  struct rendering *x = qp__alloc0(1, sizeof(*x));
  struct qp__brief brief = { .pins = NULL };
  uint64_t last_event = 0;
  enum qp_rc rc;

  if (!x)
    return qp__fail_nomem(err, "the state");
  x->out = out;
  x->no_skip = no_skip;
  qp__pending_calls_init(&x->pending);
  rc = qp__brief_shown(held, &brief, err);
  if (!rc) /* before the messages are read: they may be newer, but not older */
    rc = find_last_event(held->context, brief.state_detail, &last_event, err);
  if (!rc)
    rc = qp__branch_find(held->context, branch, &x->name, &x->total, err);
  if (!rc)
    rc = qp__pins_read(brief.pins, &x->pins, err);
  if (rc)
    goto out;
  qp__emit_open(out, NULL, '{');
  render_state(out, &held->id, &brief);
  rc = render_messages(x, held->context, last, err);
  qp__pending_calls_decided(&x->pending, json_object_get(brief.state_detail, "decisions"));
  qp__pending_calls_emit(&x->pending, out, "pending_tool_calls");
  if (!rc)
    rc = render_window(http, held, x->name, out, err);
  qp__emit_uint(out, "last_event_id", last_event);
  qp__emit_time(out, "updated_at", brief.updated_at);
  qp__emit_close(out, '}');
  if (!rc)
    rc = qp__buf_check(out, "the state", err);
out:
  qp__brief_release(&brief);
  qp__free(x->name);
  qp__pending_calls_release(&x->pending);
  qp__idset_release(&x->pins);
  qp__free(x);
  return rc;
}

enum qp_rc
qp__state_render(struct qp__http *http, struct qp__held *held, const char *branch, uint64_t last,
                 struct qp__buf *out, struct qp_err *err)
{
  return render_whole(http, held, branch, last, false, out, err);
}

bool
qp__state_render_newest(struct qp__held *held, const char *branch, uint64_t last,
                        struct qp__buf *out)
{
  bool good = !render_whole(NULL, held, branch, last, true, out, NULL);

  if (!good)
    qp__buf_reset(out);
  return good;
}

/* ---- using it again; with render_lock ---- */

static struct qp__render *
find_render(struct qp__held *held, uint64_t last)
{
  for (size_t i = 0; i < QP__RENDERS; i++)
    if (held->renders[i].body && held->renders[i].last == last)
      return &held->renders[i];
  return NULL;
}

static void
drop_render(struct qp__held *held, struct qp__render *render)
{
  qp__held_resize(held, held->render_bytes - (render->body ? render->body->len : 0));
  qp__render_release(render);
}

/* The response for all clients that need no special headers. */
static struct MHD_Response *
make_response(struct qp__http *http, struct qp__shared *body, const char *etag)
{
  struct MHD_Response *response = qp__reply_response(body, NULL);

  if (!response)
    return NULL;
  if (MHD_add_response_header(response, "ETag", etag) == MHD_YES &&
      MHD_add_response_header(response, "Cache-Control", "private, no-cache") == MHD_YES &&
      (!qp__http_settings(http)->origins[0] ||
       MHD_add_response_header(response, "Vary", "Origin") == MHD_YES))
    return response;
  MHD_destroy_response(response);
  return NULL;
}

/* Keeps `made` with its body, whose reference it takes, in place of the old one for `last`; not if
 * memory runs out. */
static void
keep_render(struct qp__http *http, struct qp__held *held, const struct qp__render *made)
{
  struct qp__render *render = find_render(held, made->last);

  if (!render)
    render = &held->renders[held->next_render++ % QP__RENDERS];
  drop_render(held, render);
  *render = *made;
  qp__held_resize(held, held->render_bytes + made->body->len);
  render->full = make_response(http, made->body, made->etag);
  render->unchanged = make_response(http, NULL, made->etag);
  if (!render->full || !render->unchanged)
    drop_render(held, render);
}

/* ---- answering ---- */

static void
count(atomic_ullong *counter)
{
  (void)atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Whether the shared responses cannot be used: a response to a page of another origin must name
 * that origin. */
static bool
needs_own_headers(const struct qp__request *r)
{
  return qp__http_stopping(r->http) || (r->settings->origins[0] && qp__request_header(r, "Origin"));
}

/* A separate response with the rendered body. */
static enum qp_rc
answer_alone(struct qp__request *r, const struct qp__render *render, struct qp_err *err)
{
  enum qp_rc rc = qp__reply_etag(r, render->etag, err);

  if (rc)
    return rc;
  r->reply.status = qp__etag_known(r, render->etag) ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
  r->reply.shared = qp__shared_ref(render->body);
  return QP_OK;
}

/* The current versions of everything that a body contains. */
static struct qp__render
versions_now(struct qp__held *held, uint64_t last)
{
  struct qp__render now = { .last = last };

  now.version = qp_context_version(held->context);
  now.epoch = atomic_load(&held->holds->epoch);
  now.failures = atomic_load(&held->failures);
  return now;
}

/* A body that may still be shown, or NULL. */
static struct qp__render *
find_fresh(struct qp__request *r, struct qp__held *held, const struct qp__render *now)
{
  struct qp__render *render = find_render(held, now->last);

  if (!render || render->failures != now->failures ||
      !qp__render_fresh(render, atomic_load(&held->shown_from), now->version, now->epoch,
                        qp__clock_us()))
    return NULL;
  count(&r->http->metrics.render_hits);
  return render;
}

/* MHD counts the references to a response. It is queued while the lock keeps the response alive;
 * from then on MHD does. */
static bool
send_shared(struct qp__request *r, const struct qp__render *render)
{
  struct qp__reply *reply = &r->reply;
  bool unchanged = qp__etag_known(r, render->etag);
  struct qp_err err = { QP_OK, "" };

  if (needs_own_headers(r))
    return !answer_alone(r, render, &err);
  reply->status = unchanged ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
  reply->ready = unchanged ? render->unchanged : render->full;
  reply->ready_bytes = unchanged ? 0 : render->body->len;
  r->queued = qp__reply_send(r, QP_OK, &err);
  reply->ready = NULL;
  return true;
}

bool
qp__state_quick(struct qp__request *r, struct qp__held *held, uint64_t last)
{
  const struct qp__render now = versions_now(held, last);
  const struct qp__render *render;
  bool sent = false;

  if (pthread_mutex_trylock(&held->render_lock))
    return false;
  render = find_fresh(r, held, &now);
  if (render)
    sent = send_shared(r, render);
  (void)pthread_mutex_unlock(&held->render_lock);
  return sent;
}

/* Renders into *made; the caller releases its body. */
static enum qp_rc
render_anew(struct qp__request *r, struct qp__held *held, struct qp__render *made,
            struct qp_err *err)
{
  enum qp_rc rc;

  count(&r->http->metrics.renders);
  made->made_us = qp__clock_us();
  rc = qp__state_render(r->http, held, NULL, made->last, &r->reply.body, err);
  if (rc)
    return rc;
  qp__etag(made->etag, qp__buf_bytes(&r->reply.body));
  made->body = qp__shared_new(&r->reply.body);
  return made->body ? QP_OK : qp__fail_nomem(err, "the state");
}

static enum qp_rc
answer_rendered(struct qp__request *r, struct qp__held *held, uint64_t last, struct qp_err *err)
{
  struct qp__render made = versions_now(held, last);
  struct qp__render *render = find_fresh(r, held, &made);
  enum qp_rc rc;

  if (render)
    return answer_alone(r, render, err);
  rc = render_anew(r, held, &made, err);
  if (rc)
    return rc;
  rc = answer_alone(r, &made, err);
  if (!rc && made.body->len <= CACHED_MAX)
    keep_render(r->http, held, &made); /* if memory runs out the next poll renders again */
  else
    qp__shared_unref(made.body);
  return rc;
}

enum qp_rc
qp__state_answer(struct qp__request *r, struct qp__held *held, uint64_t last, struct qp_err *err)
{
  enum qp_rc rc;

  (void)pthread_mutex_lock(&held->render_lock);
  rc = answer_rendered(r, held, last, err);
  (void)pthread_mutex_unlock(&held->render_lock);
  return rc;
}

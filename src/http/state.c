/* state.c - rendering the state of a context, and using what was rendered again. */
#include "http/state.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "http/clock.h"
#include "http/context.h"
#include "http/dto.h"
#include "http/emit.h"
#include "http/guard.h"
#include "http/http_int.h"

#define RENDER_US 100000
#define CACHED_MAX ((size_t)8 << 20) /* a larger body is made for each poll */
#define PENDING_WINDOW 64            /* newest messages in which calls may wait */

/* ---- rendering ---- */

struct rendering {
  struct qp__buf *out;
  struct qp__pending pending;
  char *name; /* of the branch */
  uint64_t total;
  uint64_t skip; /* messages that are seen and not shown */
};

static enum qp_rc
show(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct rendering *x = arg;

  if (json.len && (info->type == QP_TYPE_TOOL_CALL || info->type == QP_TYPE_TOOL_RESULT))
    qp__pending_see(&x->pending, json);
  if (x->skip) {
    x->skip--;
    return QP_OK;
  }
  qp__dto_message(x->out, NULL, info, json);
  return x->out->rc;
}

/* The first message to look at, and how many of those are only looked at. */
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

static enum qp_rc
render_messages(struct rendering *x, struct qp_context *context, uint64_t last, struct qp_err *err)
{
  uint64_t first = window(x, last);
  enum qp_rc rc;

  qp__emit_str(x->out, "branch", x->name);
  qp__emit_uint(x->out, "total", x->total);
  qp__emit_open(x->out, "messages", '[');
  rc = qp_messages_range(context, x->name, first, x->total - first, show, x, err);
  qp__emit_close(x->out, ']');
  return rc ? rc : qp__buf_check(x->out, "the state", err);
}

static void
render_state(struct qp__buf *out, const json_t *metadata)
{
  const json_t *detail = json_object_get(metadata, "state_detail");

  qp__emit_str(out, "id", qp__body_string(metadata, "id"));
  qp__emit_str(out, "state", qp__body_string(metadata, "current_state"));
  if (detail) {
    qp__emit_raw(out, "state_detail", (struct qp_bytes){ "", 0 });
    (void)qp__json_write(out, detail);
  }
}

enum qp_rc
qp__state_render(struct qp__held *held, const char *branch, uint64_t last, struct qp__buf *out,
                 struct qp_err *err)
{
  struct rendering *x = qp__alloc0(1, sizeof(*x));
  json_t *metadata = NULL;
  int64_t updated_at = 0;
  enum qp_rc rc;

  if (!x)
    return qp__fail_nomem(err, "the state");
  x->out = out;
  qp__pending_init(&x->pending);
  rc = qp__context_metadata(held->context, &metadata, err);
  if (!rc)
    rc = qp__context_updated_at(held->context, metadata, &updated_at, err);
  if (!rc)
    rc = qp__branch_find(held->context, branch, &x->name, &x->total, err);
  if (rc)
    goto out;
  qp__emit_open(out, NULL, '{');
  render_state(out, metadata);
  rc = render_messages(x, held->context, last, err);
  qp__pending_emit(&x->pending, out, "pending_tool_calls");
  qp__emit_time(out, "updated_at", updated_at);
  qp__emit_close(out, '}');
  if (!rc)
    rc = qp__buf_check(out, "the state", err);
out:
  json_decref(metadata);
  qp__free(x->name);
  qp__pending_release(&x->pending);
  qp__free(x);
  return rc;
}

/* ---- using it again; with render_lock ---- */

static struct qp__render *
find_render(struct qp__held *held, uint64_t last)
{
  for (size_t i = 0; i < QP__RENDERS; i++)
    if (held->renders[i].full && held->renders[i].last == last)
      return &held->renders[i];
  return NULL;
}

/* `version` and `epoch` are those of now. */
static bool
is_fresh(const struct qp__held *held, const struct qp__render *render, uint64_t version,
         uint64_t epoch)
{
  if (render->epoch != epoch)
    return false;
  if (render->version == version)
    return true;
  return render->version >= atomic_load(&held->settled) &&
         qp__clock_us() - render->made_us < RENDER_US;
}

static void
drop_render(struct qp__held *held, struct qp__render *render)
{
  if (render->full)
    MHD_destroy_response(render->full);
  if (render->unchanged)
    MHD_destroy_response(render->unchanged);
  qp__held_resize(held, held->render_bytes - render->bytes);
  memset(render, 0, sizeof(*render));
}

static struct MHD_Response *
make_response(struct qp__buf *body, const char *etag)
{
  struct MHD_Response *response = qp__reply_response(body, NULL);

  if (response && MHD_add_response_header(response, "ETag", etag) == MHD_YES &&
      MHD_add_response_header(response, "Cache-Control", "private, no-cache") == MHD_YES)
    return response;
  if (response)
    MHD_destroy_response(response);
  return NULL;
}

/* Keeps `body`, which it takes, as the rendered one for `last`. NULL: no memory. */
static struct qp__render *
keep_render(struct qp__held *held, const struct qp__render *made, struct qp__buf *body)
{
  struct qp__render *render = find_render(held, made->last);
  struct qp__buf nothing;

  if (!render)
    render = &held->renders[held->next_render++ % QP__RENDERS];
  drop_render(held, render);
  *render = *made;
  render->bytes = body->len;
  qp__buf_init(&nothing, 0);
  render->unchanged = make_response(&nothing, made->etag);
  render->full = render->unchanged ? make_response(body, made->etag) : NULL;
  qp__held_resize(held, held->render_bytes + render->bytes);
  if (render->full)
    return render;
  drop_render(held, render);
  return NULL;
}

/* ---- answering ---- */

static void
count(atomic_ullong *counter)
{
  (void)atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* MHD counts who uses a response; this is one more. */
static void
share(struct qp__request *r, const struct qp__render *render)
{
  const char *known = qp__request_header(r, "If-None-Match");
  bool unchanged = known && qp__etag_in(known, render->etag, true);

  r->reply.status = unchanged ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
  r->reply.ready = unchanged ? render->unchanged : render->full;
  r->reply.ready_bytes = unchanged ? 0 : render->bytes;
}

/* An answer of its own: with headers for one client, or too large to keep. */
static enum qp_rc
answer_alone(struct qp__request *r, const char *etag, struct qp_err *err)
{
  const char *known = qp__request_header(r, "If-None-Match");
  const char *copy = qp__arena_strdup(&r->arena, etag);

  if (!copy)
    return qp__fail_nomem(err, "the state");
  qp__reply_header(r, "ETag", copy);
  qp__reply_header(r, "Cache-Control", "private, no-cache");
  if (known && qp__etag_in(known, etag, true)) {
    r->reply.status = MHD_HTTP_NOT_MODIFIED;
    qp__buf_reset(&r->reply.body);
  }
  return QP_OK;
}

static bool
needs_own_headers(const struct qp__request *r)
{
  return r->settings->origins[0] || qp__http_stopping(r->http);
}

static enum qp_rc
answer_rendered(struct qp__request *r, struct qp__held *held, uint64_t last, struct qp_err *err)
{
  struct qp__render made = { .last = last };
  struct qp__render *render = find_render(held, last);
  enum qp_rc rc;

  made.version = qp_context_version(held->context);
  made.epoch = atomic_load(&held->holds->epoch);
  if (render && is_fresh(held, render, made.version, made.epoch) && !needs_own_headers(r)) {
    count(&r->http->metrics.render_hits);
    share(r, render);
    return QP_OK;
  }
  count(&r->http->metrics.renders);
  made.made_us = qp__clock_us();
  rc = qp__state_render(held, NULL, last, &r->reply.body, err);
  if (rc)
    return rc;
  qp__etag(made.etag, qp__buf_bytes(&r->reply.body));
  if (needs_own_headers(r) || r->reply.body.len > CACHED_MAX)
    return answer_alone(r, made.etag, err);
  render = keep_render(held, &made, &r->reply.body);
  if (!render)
    return qp__fail_nomem(err, "the state");
  share(r, render);
  return QP_OK;
}

enum qp_rc
qp__state_answer(struct qp__request *r, struct qp__held *held, uint64_t last, struct qp_err *err)
{
  enum qp_rc rc;

  (void)pthread_mutex_lock(&held->render_lock);
  rc = answer_rendered(r, held, last, err);
  if (!rc && r->reply.ready) {
    /* Queued while the lock keeps the response alive; from then on MHD does. */
    r->queued = qp__reply_send(r, QP_OK, NULL);
    r->reply.ready = NULL;
  }
  (void)pthread_mutex_unlock(&held->render_lock);
  return rc;
}

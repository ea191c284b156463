/* subscribe.c - qp_engine_subscribe and qp_engine_unsubscribe. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "turn/actor.h"
#include "turn/event_batch.h"

#define PAGE 1000                    /* events that a worker reads at once, at most … */
#define PAGE_BYTES ((size_t)4 << 20) /* … and when they have so many bytes, no more */

/* A worker's reading of the log. */
struct reading {
  uv_work_t work;          /* first */
  struct qp__actor *actor; /* it stays: a job of it */
  struct qp_engine *engine;
  struct qp_subscription *sub;
  uint64_t after;
  bool gap; /* events after it are not stored any more */
  struct qp__event_batch kept;
  struct qp_err err;
};

static void
reading_free(struct reading *r)
{
  qp__event_batch_release(&r->kept);
  qp__free(r);
}

/* ---- in the worker ---- */

static enum qp_rc
keep(void *arg, const struct qp_event_info *info)
{
  struct reading *r = arg;
  enum qp_rc rc = qp__event_batch_add(&r->kept, info, &r->err);

  return !rc && r->kept.bytes >= PAGE_BYTES ? QP_STOPPED : rc;
}

static void
read_log(uv_work_t *work)
{
  struct reading *r = (struct reading *)work;
  struct qp_event_range range = { .oldest = 0 };
  struct qp_context *context = NULL;
  enum qp_rc rc = qp_context_open(r->engine->store, &r->actor->id, QP_LOAD_NONE, &context, &r->err);

  if (!rc)
    rc = qp_events_range(context, &range, &r->err);
  if (!rc && range.newest) {
    if (r->after == 0)
      r->after = range.oldest - 1;
    rc = qp_events_read(context, r->after, PAGE, keep, r, &r->err);
    if (rc == QP_NOTFOUND) {
      r->gap = true;
      r->after = range.oldest - 1;
      rc = qp_events_read(context, r->after, PAGE, keep, r, &r->err);
    }
  }
  qp_context_close(context);
  r->err.rc = rc == QP_STOPPED ? QP_OK : rc; /* the page is full */
}

/* ---- on the loop ---- */

static void
tell_gap(struct reading *r)
{
  int64_t now = qp__engine_now_ms(r->engine);
  char when[QP__TIME_LEN];
  char json[128];
  int len;

  qp__time_format(when, now);
  len = snprintf(json, sizeof(json), "{\"seq\":%llu,\"time\":\"%.*s\",\"type\":\"gap\"}",
                 (unsigned long long)r->after, QP__TIME_LEN, when);
  qp__sub_deliver(r->sub, &(struct qp_event_info){ r->after, now, "gap", { json, (size_t)len } });
}

static void
end_sub(struct qp__actor *t, struct qp_subscription *sub)
{
  qp__sub_end(sub);
  qp__feed_remove_ended(&t->feed);
}

static void
on_log(uv_work_t *work, int status)
{
  struct reading *r = (struct reading *)work;
  struct qp_subscription *sub = r->sub;
  struct qp__actor *t = r->actor;
  bool more = r->kept.count == PAGE || r->kept.bytes >= PAGE_BYTES;

  t->jobs--;
  if (!status && !r->err.rc) {
    if (r->gap)
      tell_gap(r);
    for (const struct qp__event_copy *kept = r->kept.first; kept; kept = kept->next)
      qp__sub_deliver(sub, &kept->info);
    if (more && !qp__sub_is_gone(sub))
      qp__sub_read(r->engine, t, sub);
    else
      qp__sub_catch_up(sub);
  } else {
    end_sub(t, sub);
  }
  qp__sub_unref(sub);
  reading_free(r);
  qp__actor_pump(t);
}

void
qp__sub_read(struct qp_engine *e, struct qp__actor *t, struct qp_subscription *sub)
{
  struct reading *r = qp__alloc0(1, sizeof(*r));

  if (r) {
    r->engine = e;
    r->sub = sub;
    r->actor = t;
    r->after = sub->seen;
    qp__event_batch_init(&r->kept);
  }
  if (!r || uv_queue_work(&e->loop, &r->work, read_log, on_log)) {
    qp__free(r);
    end_sub(t, sub);
    return;
  }
  t->jobs++;
  qp__sub_ref(sub);
}

static void
run_join(struct qp_engine *e, struct qp__post *post)
{
  struct qp_subscription *sub = (struct qp_subscription *)post; /* its first member */
  struct qp__actor *t = e->phase != QP__ENGINE_RUNNING ? NULL : qp__engine_actor(e, &sub->id);

  if (!t || t->stage == QP__ACTOR_RELEASING || qp__feed_subscribe(&t->feed, sub, NULL))
    qp__sub_end(sub);
  else if (sub->reading)
    qp__sub_read(e, t, sub);
  qp__sub_unref(sub);
  if (t)
    qp__actor_pump(t);
}

enum qp_rc
qp_engine_subscribe(struct qp_engine *engine, const struct qp_uuid *context, uint64_t after,
                    qp_engine_event_fn *fn, void *arg, struct qp_subscription **out,
                    struct qp_err *err)
{
  struct qp_subscription *sub = qp__alloc0(1, sizeof(*sub));
  pthread_mutexattr_t recursive;

  if (!sub || pthread_mutexattr_init(&recursive)) {
    qp__free(sub);
    return qp__fail_nomem(err, "subscribing to a context");
  }
  (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  (void)pthread_mutex_init(&sub->lock, &recursive);
  (void)pthread_mutexattr_destroy(&recursive);
  sub->engine = engine;
  sub->fn = fn;
  sub->arg = arg;
  sub->reading = after != QP_SEQ_NOW;
  sub->seen = sub->reading ? after : 0;
  sub->id = *context;
  sub->backlog_end = &sub->backlog;
  sub->refs = 2; /* the caller's, and that of the post */
  sub->join.run = run_join;
  qp__engine_post(engine, &sub->join);
  *out = sub;
  return QP_OK;
}

static void
run_leave(struct qp_engine *e, struct qp__post *post)
{
  struct qp_subscription *sub =
      (struct qp_subscription *)((char *)post - offsetof(struct qp_subscription, leave));
  struct qp__actor *t = qp__engine_find_actor(e, &sub->id);

  if (t)
    qp__feed_remove_ended(&t->feed);
  qp__sub_unref(sub);
  if (t)
    qp__actor_pump(t);
}

void
qp_engine_unsubscribe(struct qp_subscription *sub)
{
  bool ended;

  if (!sub)
    return;
  (void)pthread_mutex_lock(&sub->lock);
  sub->dead = true;
  ended = !sub->engine;
  if (!ended) { /* the lock protects the engine: it ends every subscriber before it is freed */
    sub->leave.run = run_leave;
    qp__engine_post(sub->engine, &sub->leave);
  }
  (void)pthread_mutex_unlock(&sub->lock);
  if (ended)
    qp__sub_unref(sub);
}

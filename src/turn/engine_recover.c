/* engine_recover.c - finds contexts with unfinished turns of an earlier engine, by the states in
 * the catalogue, without opening all contexts. With QP_ENGINE_QUICK_START only when the last engine
 * did not end properly.
 *
 * In a store that several servers share (store/lease.h) the driver reports the unfinished turns of
 * servers that are gone, and that this server lost what it held. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "store/context/context_int.h"
#include "store/lease.h"
#include "turn/actor.h"

struct search {
  uv_work_t work; /* first */
  struct qp_engine *engine;
  struct qp_uuid *ids;
  size_t count, cap;
  struct qp_err err;
};

static enum qp_rc
add_context(void *arg, const struct qp_uuid *id)
{
  struct search *s = arg;

  return qp__vec_push(s->ids, s->count, s->cap, *id)
             ? QP_OK
             : qp__fail_nomem(&s->err, "searching for unfinished turns");
}

static void
search_catalogue(uv_work_t *work)
{
  static const enum qp_state states[] = {
#define STATE(name, text) QP_STATE_##name,
    QP_STATE_MAP(STATE)
#undef STATE
  };
  struct search *s = (struct search *)work;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < sizeof(states) / sizeof(states[0]) && !rc; i++)
    if (!qp_state_awaits_client(states[i]))
      rc = qp__catalogue_in_state(s->engine->store->catalogue, qp_state_name(states[i]),
                                  add_context, s, &s->err);
  s->err.rc = rc;
}

static void
on_recovered(void *arg, const struct qp_action_result *result, enum qp_rc rc,
             const struct qp_err *err)
{
  (void)result;
  (void)rc;
  (void)err;
  qp__engine_recovered(arg);
}

/* Opens the context, which recovers it. The start of the engine waits for that by a request that
 * is answered, like those of clients, when the turn has ended. When out of memory, it does not
 * wait. */
static void
recover(struct qp_engine *e, struct qp__actor *t)
{
  struct qp__action_request *request = qp__alloc0(1, sizeof(*request));

  if (request) {
    request->done = on_recovered;
    request->arg = e;
    request->next = t->waiting;
    t->waiting = request;
    e->recovering++;
  }
  qp__actor_load(t);
  qp__actor_pump(t);
}

static void
on_found(uv_work_t *work, int status)
{
  struct search *s = (struct search *)work;
  struct qp_engine *e = s->engine;

  e->unclean |= status || s->err.rc;
  if (status || s->err.rc)
    qp__log(&e->log, QP_LOG_WARN, "turn", "cannot search for unfinished turns: %s",
            status ? "stopped" : s->err.msg);
  else if (s->count)
    qp__log(&e->log, QP_LOG_INFO, "turn", "%zu contexts have an unfinished turn", s->count);
  for (size_t i = 0; i < s->count && e->phase == QP__ENGINE_RUNNING; i++) {
    struct qp__actor *t = qp__engine_actor(e, &s->ids[i]);

    if (t && t->stage == QP__ACTOR_CLOSED)
      recover(e, t);
  }
  qp__engine_recovered(e);
  qp__free(s->ids);
  qp__free(s);
}

enum qp_rc
qp__engine_recover(struct qp_engine *e, struct qp_err *err)
{
  struct search *s = qp__alloc0(1, sizeof(*s));

  if (!s)
    return qp__fail_nomem(err, "starting the engine");
  s->engine = e;
  if (uv_queue_work(&e->loop, &s->work, search_catalogue, on_found)) {
    qp__free(s);
    return qp__fail(err, QP_NOMEM, "cannot start a worker");
  }
  e->recovering++;
  return QP_OK;
}

/* ---- several servers ---- */

/* Another server may be faster; then the context cannot be opened, and nothing happens. */
static void
adopt_orphan(struct qp_engine *e, const struct qp_uuid *id)
{
  struct qp__actor *t = e->phase == QP__ENGINE_RUNNING ? qp__engine_actor(e, id) : NULL;

  if (t && t->stage == QP__ACTOR_CLOSED) {
    qp__actor_load(t);
    qp__actor_pump(t);
  }
}

/* When out of memory, it is reported again. */
static void
post_orphan(void *arg, const struct qp_uuid *id)
{
  qp__engine_send(arg, adopt_orphan, id);
}

/* Nothing is saved any more: the server that took a context over has applied RESTART to it. */
static void
let_go(struct qp__actor *t)
{
  if (t->stage != QP__ACTOR_CLOSED) {
    t->lost = t->stage != QP__ACTOR_RELEASING;
    t->stage = QP__ACTOR_RELEASING;
  }
  qp__feed_end_subs(&t->feed);
  qp__actor_pump(t);
}

static void
run_loss(struct qp_engine *e, struct qp__post *post)
{
  (void)post;
  e->loss_posted = false;
  qp__engine_each_actor(e, let_go);
}

static void
post_loss(void *arg)
{
  struct qp_engine *e = arg;

  if (atomic_exchange(&e->loss_posted, true))
    return;
  e->loss.run = run_loss;
  qp__engine_post(e, &e->loss);
}

void
qp__engine_watch(struct qp_engine *e)
{
  qp__lease_watch(e->store, QP__LEASE_ENGINE,
                  &(struct qp__lease_watch){ .lost = post_loss, .orphan = post_orphan, .arg = e });
}

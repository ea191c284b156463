/* engine.c - see engine.h: the thread, its posts, the table of actors. */
#include "turn/engine.h"

#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/sized.h"
#include "store/context/context_int.h"
#include "store/lease.h"
#include "turn/ask.h"
#include "turn/compacting.h"
#include "turn/discover.h"

/* ---- the clock, ids, posts ---- */

int64_t
qp__engine_now_ms(const struct qp_engine *e)
{
  return e->os->now_ms(e->os->self);
}

enum qp_rc
qp__engine_new_id(struct qp_engine *e, struct qp_uuid *out, struct qp_err *err)
{
  uint8_t entropy[10];
  int sys = e->os->random(e->os->self, entropy, sizeof(entropy));

  if (sys)
    return qp__fail_sys(err, sys, "cannot get random bytes for an id");
  *out = qp__uuid_next(&e->ids, qp__engine_now_ms(e), entropy);
  return QP_OK;
}

void
qp__engine_post(struct qp_engine *e, struct qp__post *post)
{
  post->next = NULL;
  (void)pthread_mutex_lock(&e->lock);
  *e->last = post;
  e->last = &post->next;
  /* Under the lock, so that the loop is not closed in between. */
  if (!e->wake_closed)
    (void)uv_async_send(&e->wake);
  (void)pthread_mutex_unlock(&e->lock);
}

struct errand {
  struct qp__post post; /* first */
  qp__errand_fn *fn;
  struct qp_uuid context;
};

static void
run_errand(struct qp_engine *e, struct qp__post *post)
{
  struct errand *errand = (struct errand *)post;

  errand->fn(e, &errand->context);
  qp__free(errand);
}

void
qp__engine_send(struct qp_engine *e, qp__errand_fn *fn, const struct qp_uuid *context)
{
  struct errand *errand = qp__alloc0(1, sizeof(*errand));

  if (!errand)
    return;
  errand->post.run = run_errand;
  errand->fn = fn;
  if (context)
    errand->context = *context;
  qp__engine_post(e, &errand->post);
}

/* ---- the table ---- */

static size_t
bucket(const struct qp_uuid *id)
{
  uint64_t word;

  memcpy(&word, id->b + 8, sizeof(word));
  return (size_t)(word ^ word >> 32) & (QP__ACTOR_BUCKETS - 1);
}

struct qp__actor *
qp__engine_find_actor(struct qp_engine *e, const struct qp_uuid *id)
{
  struct qp__actor *t = e->actors[bucket(id)];

  while (t && !qp_uuid_equal(&t->id, id))
    t = t->chain;
  return t;
}

struct qp__actor *
qp__engine_actor(struct qp_engine *e, const struct qp_uuid *id)
{
  struct qp__actor *t = qp__engine_find_actor(e, id);

  if (t)
    return t;
  t = qp__actor_new(e, id);
  if (!t)
    return NULL;
  t->chain = e->actors[bucket(id)];
  e->actors[bucket(id)] = t;
  e->actor_count++;
  return t;
}

/* ---- releasing a context ---- */

struct qp__release {
  struct qp__post post; /* first */
  struct qp__release *next;
  struct qp_uuid id;
  uv_sem_t done;
};

void
qp__engine_remove_actor(struct qp_engine *e, struct qp__actor *t)
{
  struct qp__actor **at = &e->actors[bucket(&t->id)];
  struct qp__release **release = &e->releases;

  while (*at != t)
    at = &(*at)->chain;
  *at = t->chain;
  e->actor_count--;
  while (*release) {
    struct qp__release *r = *release;

    if (qp_uuid_equal(&r->id, &t->id)) {
      *release = r->next;
      r->next = t->released; /* woken when it is freed */
      t->released = r;
    } else {
      release = &r->next;
    }
  }
}

void
qp__release_done(struct qp__release *list)
{
  while (list) {
    struct qp__release *next = list->next; /* it is on the stack of the thread that is woken */

    uv_sem_post(&list->done);
    list = next;
  }
}

static void
run_release(struct qp_engine *e, struct qp__post *post)
{
  struct qp__release *r = (struct qp__release *)post;
  struct qp__actor *t = qp__engine_find_actor(e, &r->id);

  if (!t) {
    uv_sem_post(&r->done);
    return;
  }
  r->next = e->releases;
  e->releases = r;
  t->stage = QP__ACTOR_RELEASING;
  t->engine->unclean |= !qp_state_awaits_client(t->state);
  qp__feed_end_subs(&t->feed);
  qp__actor_pump(t);
}

void
qp_engine_release(struct qp_engine *engine, const struct qp_uuid *context)
{
  struct qp__release r = { .post = { .run = run_release }, .id = *context };

  if (uv_sem_init(&r.done, 0))
    return;
  qp__engine_post(engine, &r.post);
  uv_sem_wait(&r.done);
  uv_sem_destroy(&r.done);
  qp__covered_cache_drop(&engine->recalls, context);
  qp__covered_cache_drop(&engine->ledgers, context);
}

/* ---- the tick ---- */

void
qp__engine_each_actor(struct qp_engine *e, void (*fn)(struct qp__actor *t))
{
  for (size_t i = 0; i < QP__ACTOR_BUCKETS; i++)
    for (struct qp__actor *t = e->actors[i], *next; t; t = next) {
      next = t->chain;
      fn(t);
    }
}

static void
on_tick(uv_timer_t *timer)
{
  struct qp_engine *e = timer->data;

  e->ticking = false;
  qp__committer_hold(&e->store->committer);
  qp__engine_each_actor(e, qp__actor_flush);
  qp__committer_let_go(&e->store->committer);
}

void
qp__engine_flush_soon(struct qp_engine *e)
{
  if (e->ticking || e->phase == QP__ENGINE_CLOSING)
    return;
  e->ticking = true;
  (void)uv_timer_start(&e->tick, on_tick, e->flush_ms, 0);
}

/* ---- waiting for tools ---- */

bool
qp__engine_awaits_tools(struct qp_engine *e)
{
  return !e->tools_wait_over && qp__tools_starting(e->tools) > 0;
}

void
qp__engine_tools_changed(void *engine)
{
  struct qp_engine *e = engine;

  if (!qp__engine_awaits_tools(e))
    qp__engine_each_actor(e, qp__actor_call_delayed_model);
}

static void
on_tools_timeout(uv_timer_t *timer)
{
  struct qp_engine *e = timer->data;

  e->tools_wait_over = true;
  qp__engine_tools_changed(e);
}

/* ---- stopping ---- */

/* Closes the handles of the loop; the loop ends when all of them are closed. */
static void
close_all(struct qp_engine *e)
{
  e->phase = QP__ENGINE_CLOSING;
  (void)pthread_mutex_lock(&e->lock);
  e->wake_closed = true;
  (void)pthread_mutex_unlock(&e->lock);
  uv_close((uv_handle_t *)&e->wake, NULL);
  uv_close((uv_handle_t *)&e->tick, NULL);
  uv_close((uv_handle_t *)&e->tools_timer, NULL);
  qp__discover_close(e);
  qp__llm_engine_close(e->llm);
  qp__tools_close(e->tools, NULL, NULL);
  qp__net_unref(e->net); /* the tools use it until their servers have ended */
}

/* Ends the turn, as the recovery of the next engine would. */
static void
drain_actor(struct qp__actor *t)
{
  qp__feed_end_subs(&t->feed);
  atomic_store(&t->recall_stops, true);
  /* While a commit is under way: commit_succeeded() does it. */
  if (t->stage == QP__ACTOR_OPEN && !t->open->transition.under_way &&
      !qp_state_awaits_client(t->state))
    qp__actor_restart(t);
  qp__actor_stop_shortening(t, true);
  qp__actor_pump(t);
}

/* Whether there were posts. */
static bool
run_posts(struct qp_engine *e)
{
  struct qp__post *post;
  bool any;

  (void)pthread_mutex_lock(&e->lock);
  post = e->first;
  e->first = NULL;
  e->last = &e->first;
  (void)pthread_mutex_unlock(&e->lock);
  any = post != NULL;
  while (post) {
    struct qp__post *next = post->next;

    post->run(e, post);
    post = next;
  }
  return any;
}

static void
on_wake(uv_async_t *async)
{
  struct qp_engine *e = async->data;
  bool stopping;

  (void)pthread_mutex_lock(&e->lock);
  stopping = e->stopping;
  (void)pthread_mutex_unlock(&e->lock);
  (void)run_posts(e);
  if (stopping && e->phase == QP__ENGINE_RUNNING) {
    e->phase = QP__ENGINE_DRAINING;
    qp__asks_end(e);
    qp__engine_each_actor(e, drain_actor);
  }
}

/* Before the loop waits: closes when the last actor has been freed. */
static void
on_prepare(uv_prepare_t *prepare)
{
  struct qp_engine *e = prepare->data;

  if (e->phase == QP__ENGINE_DRAINING && !e->actor_count && !e->recovering)
    close_all(e);
  if (e->phase == QP__ENGINE_CLOSING)
    uv_close((uv_handle_t *)prepare, NULL);
}

void
qp__engine_recovered(struct qp_engine *e)
{
  if (--e->recovering)
    return;
  (void)pthread_mutex_lock(&e->lock);
  e->started = true;
  (void)pthread_cond_broadcast(&e->changed);
  (void)pthread_mutex_unlock(&e->lock);
}

static void *
run(void *arg)
{
  struct qp_engine *e = arg;

  (void)uv_run(&e->loop, UV_RUN_DEFAULT);
  while (run_posts(e)) /* callbacks may post again */
    ;
  return NULL;
}

/* ---- starting ---- */

static void
free_engine(struct qp_engine *e)
{
  qp__engine_release_options(e);
  qp__uuid_gen_release(&e->ids);
  (void)pthread_cond_destroy(&e->changed);
  (void)pthread_mutex_destroy(&e->lock);
  qp__free(e);
}

/* Searches for unfinished turns, unless the store's mark says that there are none. */
static enum qp_rc
begin_turns(struct qp_engine *e, const struct qp_engine_options *options, struct qp_err *err)
{
  bool left = true;
  enum qp_rc rc = QP_OK;

  if (qp__lease_joined(e->store)) {
    e->started = true;
    qp__engine_watch(e);
    return QP_OK;
  }
  if (options->flags & QP_ENGINE_QUICK_START && qp__store_knows_turns(e->store)) {
    rc = qp__store_mark_turns(e->store, true, &left, err);
    e->marked = !rc;
  }
  if (rc)
    return rc;
  e->started = !left;
  return left ? qp__engine_recover(e, err) : QP_OK;
}

/* All turns have ended: removes the mark. */
static void
end_turns(struct qp_engine *e)
{
  struct qp_err err = { QP_OK, "" };

  if (e->marked && !e->unclean && qp__store_mark_turns(e->store, false, NULL, &err))
    qp__log(&e->log, QP_LOG_WARN, "turn", "%s", err.msg);
}

/* The loop and everything that uses it. After a failure the loop is closed again. */
static enum qp_rc
open_loop(struct qp_engine *e, const struct qp_engine_options *options, struct qp_err *err)
{
  enum qp_rc rc;
  int sys = uv_loop_init(&e->loop);

  if (sys)
    return qp__fail_sys(err, sys, "cannot start the engine");
  sys = uv_async_init(&e->loop, &e->wake, on_wake);
  if (sys) {
    (void)uv_loop_close(&e->loop);
    return qp__fail_sys(err, sys, "cannot start the engine");
  }
  (void)uv_timer_init(&e->loop, &e->tick);
  (void)uv_timer_init(&e->loop, &e->tools_timer);
  (void)uv_timer_start(&e->tools_timer, on_tools_timeout, QP__TOOLS_WAIT_MS, 0);
  (void)uv_prepare_init(&e->loop, &e->prepare);
  (void)uv_prepare_start(&e->prepare, on_prepare);
  uv_unref((uv_handle_t *)&e->prepare);
  e->wake.data = e->tick.data = e->prepare.data = e->tools_timer.data = e;
  rc = qp__net_open(&e->loop, &e->net, err);
  if (!rc)
    rc = qp__llm_engine_open(&e->loop, e->os, e->net, &e->llm, err);
  if (!rc)
    rc = qp__engine_open_tools(e, options, err);
  if (!rc)
    qp__discover(e);
  if (!rc)
    rc = begin_turns(e, options, err);
  if (rc) {
    close_all(e);
    (void)uv_run(&e->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&e->loop);
  }
  return rc;
}

/* The engine's thread handles no signals except those of its children. SIGPIPE is blocked: a broken
 * pipe is an error of the call that writes to it. */
static int
start_thread(struct qp_engine *e)
{
  static const int theirs[] = { SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2 };
  sigset_t mask;
  sigset_t old;
  int sys;

  (void)sigemptyset(&mask);
  for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
    (void)sigaddset(&mask, theirs[i]);
  (void)pthread_sigmask(SIG_BLOCK, &mask, &old);
  sys = pthread_create(&e->thread, NULL, run, e);
  (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -sys;
}

enum qp_rc
qp_engine_start(struct qp_store *store, const struct qp_engine_options *options,
                struct qp_engine **out, struct qp_err *err)
{
  struct qp_engine_options own;
  struct qp_engine *e = NULL;
  enum qp_rc rc = qp__sized_copy("struct qp_engine_options", options, &own, sizeof(own), err);
  int sys;

  if (rc)
    return rc;
  e = qp__alloc0(1, sizeof(*e));
  if (!e)
    return qp__fail_nomem(err, "starting the engine");
  e->store = store;
  e->os = store->os;
  e->last = &e->first;
  (void)pthread_mutex_init(&e->lock, NULL);
  (void)pthread_cond_init(&e->changed, NULL);
  qp__uuid_gen_init(&e->ids);
  rc = qp__engine_apply_options(e, &own, err);
  if (!rc)
    rc = open_loop(e, &own, err);
  if (rc)
    goto out;
  sys = start_thread(e);
  if (sys) {
    rc = qp__fail_sys(err, sys, "cannot start the engine's thread");
    qp__lease_watch(e->store, QP__LEASE_ENGINE, NULL);
    e->phase = QP__ENGINE_DRAINING; /* the recovery is left to the next engine */
    (void)uv_run(&e->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&e->loop);
    goto out;
  }
  (void)pthread_mutex_lock(&e->lock);
  while (!e->started)
    (void)pthread_cond_wait(&e->changed, &e->lock);
  (void)pthread_mutex_unlock(&e->lock);
  *out = e;
  e = NULL;
out:
  if (e)
    free_engine(e);
  return rc;
}

void
qp_engine_stop(struct qp_engine *engine)
{
  if (!engine)
    return;
  qp__lease_watch(engine->store, QP__LEASE_ENGINE, NULL);
  (void)pthread_mutex_lock(&engine->lock);
  engine->stopping = true;
  (void)uv_async_send(&engine->wake);
  (void)pthread_mutex_unlock(&engine->lock);
  (void)pthread_join(engine->thread, NULL);
  (void)uv_loop_close(&engine->loop);
  end_turns(engine);
  free_engine(engine);
}

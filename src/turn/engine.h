/* engine.h - the thread that runs turns; internal to this folder.
 *
 * One thread with one libuv loop owns everything here and in src/llm and src/tool. Other threads
 * only append to `posts`, under its lock, and wake the loop, so no other lock is needed. Functions
 * are called on the engine's thread unless their comment says otherwise. Whatever blocks (opening a
 * context, reading a history or the event log, storing a rule) runs in libuv's worker threads.
 * Commits are staged on the engine's thread and finished by threads of the store, which post the
 * result.
 *
 *   any thread   qp_engine_act, subscribe …    -> post -> the inbox of the context (actor.h)
 *   store        a commit is durable           -> post -> the step of the transition
 *   loop         a model, a tool, a timer      -> the inbox of the context
 *
 * Every 100 ms a tick appends the lines that were streamed since the last one to the event logs of
 * all contexts. They are staged together and share one sync. */
#ifndef QP_TURN_ENGINE_H
#define QP_TURN_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/uuid.h"
#include "compact/compact_settings.h"
#include "llm/call.h"
#include "llm/known.h"
#include "os/os.h"
#include "quipu.h"
#include "tool/grant.h"
#include "tool/tool.h"
#include "turn/covered_cache.h"
#include "turn/queue.h"
#include "turn/size_cache.h"

#define QP__ACTOR_BUCKETS 1024 /* a power of two */
#define QP__RETRY_MS 500       /* the first pause, as in llm/fault.h */
#define QP__TOOLS_WAIT_MS 5000 /* from the start of the engine */

struct qp__release;
struct qp__actor;
struct qp_subscription;

/* A function that another thread wants to run on the engine's thread. `run` may free it. */
struct qp__post {
  struct qp__post *next;
  void (*run)(struct qp_engine *engine, struct qp__post *post);
};

enum qp__engine_phase {
  QP__ENGINE_RUNNING,
  QP__ENGINE_DRAINING, /* no turn begins any more; running turns are brought to an end */
  QP__ENGINE_CLOSING,  /* there are no actors any more; the loop's handles are closed */
};

struct qp_engine {
  struct qp_store *store;
  const struct qp__os *os;
  struct qp__uuid_gen ids;
  struct qp__log log;
  struct qp_limits limits;
  unsigned retries;
  uint64_t retry_ms;
  uint64_t flush_ms;

  struct qp__llm_providers providers;
  struct qp__models models;
  struct qp__known known; /* what providers report, and what faults have taught */
  char *model;            /* the default model, "provider/model"; the part "model" may be empty */
  const struct qp__llm_provider *unnamed; /* the provider, if that part is empty; else NULL */
  _Atomic(const char *) default_name;     /* the whole name, once that provider reported it */
  struct qp__arena names;                 /* holds default_name */
  struct qp__probe *probes;               /* requests of discover.c that are running */
  struct qp__ask *asks;                   /* questions of ask.h that are running */
  bool discovering;                       /* providers are being asked for their models */
  uint64_t discovered_at;                 /* by the loop's clock */
  struct qp__demo_script *script;
  struct qp__policy policy;
  struct qp__queues queues;
  struct qp__compact_settings compaction; /* of contexts that say nothing else */
  struct qp__size_cache sizes;            /* of messages; used in workers */
  struct qp__covered_cache recalls;       /* of struct qp__recall; used in workers */
  struct qp__covered_cache ledgers;       /* of struct qp__ledger; used in workers */
  struct qp__grants grants;               /* calls that a person has allowed permanently */
  struct qp__net_client *net;
  struct qp__llm_engine *llm;
  struct qp__tools *tools;

  uv_loop_t loop;
  uv_async_t wake;
  uv_timer_t tick;
  uv_prepare_t prepare;
  uv_timer_t tools_timer; /* how long model calls wait for slow MCP servers */
  bool ticking;
  bool tools_wait_over; /* it has expired */
  pthread_t thread;

  struct qp__actor *actors[QP__ACTOR_BUCKETS];
  size_t actor_count;
  const struct qp__actor *pumped; /* its inbox is being processed, or NULL; for assertions */
  struct qp__release *releases;   /* callers that wait until a context is released */
  size_t recovering; /* contexts in which an earlier engine left a turn unfinished and that are not
                      * recovered yet, and the search for them */
  struct qp__post loss;    /* this server lost what it held … */
  atomic_bool loss_posted; /* … and the post is queued */
  bool marked;             /* the store has a mark that turns may be unfinished … */
  bool unclean;            /* … and keeps it: something could not be saved */
  enum qp__engine_phase phase;

  pthread_mutex_t lock; /* of what follows */
  struct qp__post *first, **last;
  bool stopping;    /* qp_engine_stop() was called */
  bool wake_closed; /* `wake` is closed */
  bool started;     /* the recovery has ended */
  pthread_cond_t changed;
};

/* ---- engine.c ---- */

/* From any thread. Posts run in order. */
void qp__engine_post(struct qp_engine *e, struct qp__post *post);
/* The same for a function that nobody waits for; `context` may be NULL. When out of memory, it does
 * not run. */
typedef void qp__errand_fn(struct qp_engine *e, const struct qp_uuid *context);
void qp__engine_send(struct qp_engine *e, qp__errand_fn *fn, const struct qp_uuid *context);
/* Whether model calls must wait: MCP servers have not reported their tools yet. */
bool qp__engine_awaits_tools(struct qp_engine *e);
/* The set of tools has changed; `changed` of struct qp__tools_options. */
void qp__engine_tools_changed(void *engine);
/* There are lines that the next tick must save; starts its timer. */
void qp__engine_flush_soon(struct qp_engine *e);
int64_t qp__engine_now_ms(const struct qp_engine *e);
/* QP_IO: no random bytes. */
enum qp_rc qp__engine_new_id(struct qp_engine *e, struct qp_uuid *out, struct qp_err *err);

/* The actor of a context, created when there is none; NULL: out of memory. */
struct qp__actor *qp__engine_actor(struct qp_engine *e, const struct qp_uuid *id);
struct qp__actor *qp__engine_find_actor(struct qp_engine *e, const struct qp_uuid *id);
/* Calls `fn` for every actor; it may free that actor. */
void qp__engine_each_actor(struct qp_engine *e, void (*fn)(struct qp__actor *t));
/* Removes it from the table. */
void qp__engine_remove_actor(struct qp_engine *e, struct qp__actor *t);
/* Wakes the callers that wait until the context is released; NULL is allowed. */
void qp__release_done(struct qp__release *list);

/* ---- engine_api.c ---- */

/* Writes a value (NULL: out of memory) as text for a caller, and releases it. `what` names it in
 * errors. From any thread. */
enum qp_rc qp__engine_give(json_t *value, const char *what, char **out, size_t *len,
                           struct qp_err *err);

/* ---- subscribe.c ---- */

/* Reads the event log for a subscriber, in a worker, until it has read everything. */
void qp__sub_read(struct qp_engine *e, struct qp__actor *t, struct qp_subscription *sub);

/* ---- options.c ---- */

/* Applies the options, except those of the loop. Call qp__engine_release_options() at the end, also
 * after a failure. QP_INVALID. */
enum qp_rc qp__engine_apply_options(struct qp_engine *e, const struct qp_engine_options *options,
                                    struct qp_err *err);
void qp__engine_release_options(struct qp_engine *e);
/* Opens the tools on the loop. */
enum qp_rc qp__engine_open_tools(struct qp_engine *e, const struct qp_engine_options *options,
                                 struct qp_err *err);

/* ---- engine_recover.c ---- */

/* Searches the catalogue, in a worker, for contexts with unfinished turns of an earlier engine, and
 * opens them, which recovers them. QP_NOMEM. */
enum qp_rc qp__engine_recover(struct qp_engine *e, struct qp_err *err);
/* Instead of that, in a store that several servers share. */
void qp__engine_watch(struct qp_engine *e);
/* One of `recovering` has ended. In engine.c. */
void qp__engine_recovered(struct qp_engine *e);

#endif

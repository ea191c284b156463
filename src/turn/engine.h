/* engine.h - the thread that runs turns, as the files of this folder see it.
 *
 * One thread with one loop of libuv owns everything here and in src/llm and src/tool. Other threads
 * only append to `posts`, under its lock, and wake the loop; so no other lock is needed, and what
 * is not said to be otherwise is called on the engine's thread. What blocks (opening a context,
 * reading a history, reading the log of events) runs in libuv's worker threads and comes back as a
 * post or as the end of the work; commits are staged here and finished by the store's own threads,
 * which post their end.
 *
 *   any thread   qp_engine_act, subscribe …    -> post -> actor.h: the context's inbox
 *   store        a commit is durable           -> post -> the step of the transition
 *   loop         a model, a tool, a timer      -> the context's inbox
 *
 * Every 100 ms a tick appends what was streamed since the last one to the logs of events of all
 * contexts, all staged together, so that they share one sync. */
#ifndef QP_TURN_ENGINE_H
#define QP_TURN_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/uuid.h"
#include "llm/call.h"
#include "llm/known.h"
#include "os/os.h"
#include "quipu.h"
#include "tool/grant.h"
#include "tool/tool.h"

#define QP__TURN_BUCKETS 1024 /* a power of two */
#define QP__RETRY_MS 500      /* the first pause, as llm/fault.h has it */
#define QP__PATIENCE_MS 5000  /* from the start of the engine on */

struct qp__release;
struct qp__actor;
struct qp_subscription;

/* Something another thread wants done on the engine's. `run` may free it. */
struct qp__post {
  struct qp__post *next;
  void (*run)(struct qp_engine *engine, struct qp__post *post);
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
  char *model;            /* of contexts that name none: "provider/model", the model may be empty */
  const struct qp__llm_provider *unnamed; /* then this is the provider, else NULL */
  _Atomic(const char *) default_name;     /* then this is the name, once it is known, or NULL */
  struct qp__arena names;                 /* of that */
  struct qp__probe *probes;               /* requests of discover.c that are running */
  bool discovering;
  uint64_t discovered_at; /* by the loop's clock */
  struct qp__demo_script *script;
  struct qp__policy policy;
  struct qp__grants grants; /* calls that a person has allowed for good */
  struct qp__net_client *net;
  struct qp__llm_engine *llm;
  struct qp__tools *tools;

  uv_loop_t loop;
  uv_async_t wake;
  uv_timer_t tick;
  uv_prepare_t prepare;
  uv_timer_t patience; /* with MCP servers that are slow to tell their tools */
  bool ticking;
  bool impatient; /* it is over */
  pthread_t thread;

  struct qp__actor *table[QP__TURN_BUCKETS];
  size_t turns;                 /* in the table */
  struct qp__release *releases; /* who waits until a context is let go */
  size_t recovering; /* contexts that an earlier engine left and that do not rest yet, and the
                      * search for them */
  bool marked;       /* the store knows that turns may be in the middle … */
  bool unclean;      /* … and that stays so: something could not be saved */
  bool draining;     /* no turn begins any more */
  bool closing;

  pthread_mutex_t lock; /* of what follows */
  struct qp__post *first, **last;
  bool stopping; /* asked for */
  bool deaf;     /* `wake` is closed */
  bool started;  /* the recovery is over */
  pthread_cond_t changed;
};

/* ---- engine.c ---- */

/* From any thread. The post is run in the order of posts. */
void qp__engine_post(struct qp_engine *e, struct qp__post *post);
/* Whether a question must wait: servers have not reported their tools yet, or the provider of the
 * default model has not reported its models. */
bool qp__engine_awaits_tools(struct qp_engine *e);
/* Tools came or went; has the form of `changed` in struct qp__tools_options. */
void qp__engine_tools_changed(void *engine);
/* There are lines that the next tick must save. */
void qp__engine_dirty(struct qp_engine *e);
int64_t qp__engine_now_ms(const struct qp_engine *e);
/* QP_IO: no random bytes. */
enum qp_rc qp__engine_new_id(struct qp_engine *e, struct qp_uuid *out, struct qp_err *err);

/* The context's turn, made when there is none; NULL: no memory. */
struct qp__actor *qp__engine_turn(struct qp_engine *e, const struct qp_uuid *id);
struct qp__actor *qp__engine_find(struct qp_engine *e, const struct qp_uuid *id);
/* Takes it out of the table. */
void qp__engine_remove(struct qp_engine *e, struct qp__actor *t);
/* Wakes those who wait until the context is let go; NULL is allowed. */
void qp__release_done(struct qp__release *list);

/* ---- subscribe.c ---- */

/* Reads the log for a subscriber, in a worker, until it has all. */
void qp__sub_read(struct qp_engine *e, struct qp__actor *t, struct qp_subscription *sub);

/* ---- options.c ---- */

/* Fills in what the options say, all but the loop's things. What was made is released by
 * qp__engine_unset(), also after a failure. QP_INVALID. */
enum qp_rc qp__engine_set(struct qp_engine *e, const struct qp_engine_options *options,
                          struct qp_err *err);
void qp__engine_unset(struct qp_engine *e);
/* Opens the tools on the loop. */
enum qp_rc qp__engine_open_tools(struct qp_engine *e, const struct qp_engine_options *options,
                                 struct qp_err *err);

/* ---- engine_recover.c ---- */

/* Looks in the catalogue for contexts that an earlier engine left in the middle, in a worker, and
 * loads their turns, which brings them to rest. QP_NOMEM. */
enum qp_rc qp__engine_recover(struct qp_engine *e, struct qp_err *err);
/* One of `recovering` is over. In engine.c. */
void qp__engine_recovered(struct qp_engine *e);

#endif

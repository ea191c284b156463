/* feed.h - the events of one context on their way: numbered, shown to subscribers, made durable.
 *
 * A line is numbered when it is added. Lines wait in a list, oldest first:
 *
 *   shown    subscribers have seen it (or there was none)
 *   held     not to be shown before its commit is durable, and nothing behind it before it is
 *   staged   it is part of a commit under way
 *
 * (1) Subscribers see lines in the order of their numbers, each once.
 * (2) What tells of something saved is held, so that nobody hears of it before it is durable.
 *     Pieces of an answer are shown at once and saved by the next tick.
 * (3) A line leaves the list when it is durable, or when its commit has failed: then its number is
 *     never used again.
 *
 * A subscriber that begins in the past is fed from the log by a worker; what happens meanwhile
 * waits in its own list, and numbers tell what it has seen. */
#ifndef QP_TURN_FEED_H
#define QP_TURN_FEED_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "quipu.h"
#include "turn/engine.h"

struct qp__line {
  struct qp__line *next;
  uint64_t seq;
  int64_t time;
  const char *type; /* static text */
  bool held, shown, staged, saved;
  size_t len;  /* of the data */
  char data[]; /* an object as text */
};

/* A subscriber. `lock` (recursive) is held while fn runs, so that unsubscribe can wait for that.
 * What is not under it belongs to the engine's thread. */
struct qp_subscription {
  struct qp__post leave;        /* first; of its end */
  struct qp_subscription *next; /* in its feed */
  struct qp_uuid id;            /* of the context */
  qp_engine_event_fn *fn;
  void *arg;
  uint64_t seen;                           /* the newest number that it was told */
  bool reading;                            /* a worker reads the log for it */
  bool begun;                              /* it is in a feed */
  struct qp__line *backlog, **backlog_end; /* copies, while it reads */

  pthread_mutex_t lock;
  struct qp_engine *engine; /* NULL: it has ended */
  bool dead;                /* unsubscribed */
  unsigned refs;            /* of its owner, its feed and its worker; guarded by the lock */
};

struct qp__feed {
  uint64_t next_seq;
  struct qp__line *first, **last;
  size_t unstaged;          /* bytes of the lines that are not staged, about */
  struct qp__line *unshown; /* the first that was not shown, or NULL */
  struct qp_subscription *subs;
};

void qp__feed_init(struct qp__feed *feed);
/* Frees the lines. There must be no subscriber. */
void qp__feed_release(struct qp__feed *feed);

/* Adds a line; `data`, an object, is taken over; NULL: memory was out when it was made. `type` is a
 * static text. QP_NOMEM, QP_TOOBIG: nothing was added. */
enum qp_rc qp__feed_add(struct qp__feed *feed, const char *type, json_t *data, int64_t now,
                        bool held, struct qp_err *err);
/* Shows what may be shown. */
void qp__feed_show(struct qp__feed *feed);

/* The lines that are not staged yet, as the store takes them; they are staged from now on. NULL
 * with *count 0: there is none; NULL with another *count: no memory, and none is staged. The array
 * is freed with qp__free() and borrows from the lines. */
struct qp_event *qp__feed_stage(struct qp__feed *feed, size_t *count);
/* The commit was not begun: lines from `from` to before `upto` are not staged after all. */
void qp__feed_unstage(struct qp__feed *feed, uint64_t from, uint64_t upto);
/* Whether there are lines that are not staged. */
bool qp__feed_has_unstaged(const struct qp__feed *feed);

/* What became of lines `from` to `upto`, both included.
 *
 * They are durable: what was held is shown. */
void qp__feed_saved(struct qp__feed *feed, uint64_t from, uint64_t upto);
/* They will never be durable. What was held did not happen and is never shown. */
void qp__feed_lost(struct qp__feed *feed, uint64_t from, uint64_t upto);

/* ---- subscribers ---- */

void qp__sub_ref(struct qp_subscription *sub);
void qp__sub_unref(struct qp_subscription *sub);
/* Tells one line unless it was told before or the owner wants no more. */
void qp__sub_tell(struct qp_subscription *sub, const struct qp_event_info *event);
/* It was unsubscribed or has ended. */
bool qp__sub_is_gone(struct qp_subscription *sub);
/* Tells the end. */
void qp__sub_end(struct qp_subscription *sub);
/* The reading is over: tells what has gathered meanwhile. */
void qp__sub_catch_up(struct qp_subscription *sub);
/* Adds it to the feed; while it reads it also gets the lines that are not durable yet. QP_NOMEM. */
enum qp_rc qp__feed_join(struct qp__feed *feed, struct qp_subscription *sub, struct qp_err *err);
/* Takes out those that are dead, or all after telling them the end. */
void qp__feed_sweep(struct qp__feed *feed);
void qp__feed_end_subs(struct qp__feed *feed);

#endif

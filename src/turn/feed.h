/* feed.h - the new events of one context: they get a number, are shown to subscribers and saved.
 *
 * Each event is a line of the event log. Lines that are not both shown and saved are in a list,
 * oldest first.
 *
 * (1) Subscribers see lines in the order of their numbers, each once.
 * (2) Lines that report something saved are held: they are shown when their commit is durable, and
 *     no later line is shown before them. Pieces of an answer are shown at once and saved by the
 *     next tick.
 * (3) A line leaves the list when it is shown and durable, or when its commit has failed. A number
 *     is never used again.
 *
 * qp__feed_violation() checks these rules.
 *
 * A subscriber that wants past events is fed from the log by a worker. Lines that are added in the
 * meantime wait in a list of its own; the numbers say which ones it has seen. */
#ifndef QP_TURN_FEED_H
#define QP_TURN_FEED_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "quipu.h"
#include "turn/engine.h"

enum qp__line_view {
  QP__LINE_HELD,  /* must not be shown before it is durable */
  QP__LINE_READY, /* may be shown */
  QP__LINE_SHOWN, /* was shown to all subscribers */
};

enum qp__line_save {
  QP__LINE_NEW,    /* is part of no commit yet */
  QP__LINE_STAGED, /* its commit is under way */
  QP__LINE_ENDED,  /* it is durable, or its commit has failed after it was shown */
};

struct qp__line {
  struct qp__line *next;
  uint64_t seq;
  int64_t time;
  const char *type; /* static text */
  enum qp__line_view view;
  enum qp__line_save save;
  size_t len;  /* of the data */
  char data[]; /* an object as text */
};

/* A subscriber. `lock` (recursive) is held while fn runs, so that unsubscribe can wait for that.
 * Fields that it does not guard belong to the engine's thread. */
struct qp_subscription {
  struct qp__post join;         /* first; of its beginning */
  struct qp__post leave;        /* of its end */
  struct qp_subscription *next; /* in its feed */
  struct qp_uuid id;            /* of the context */
  qp_engine_event_fn *fn;
  void *arg;
  uint64_t seen;                           /* the newest number that it was given */
  bool reading;                            /* a worker reads the log for it */
  struct qp__line *backlog, **backlog_end; /* copies, while it reads */

  pthread_mutex_t lock;
  struct qp_engine *engine; /* NULL: it has ended */
  bool dead;                /* unsubscribed */
  unsigned refs;            /* of its owner, its feed and its worker; guarded by the lock */
};

struct qp__feed {
  uint64_t next_seq;
  struct qp__line *first, **last;
  size_t count;             /* of lines */
  size_t unstaged;          /* estimated bytes of the NEW lines */
  struct qp__line *unshown; /* the first line that was not shown, or NULL */
  struct qp_subscription *subs;
  uint32_t check_credit; /* of qp__check_due() */
};

void qp__feed_init(struct qp__feed *feed);
/* Frees the lines. There must be no subscriber. */
void qp__feed_release(struct qp__feed *feed);

/* The rule that the feed breaks, or NULL. */
const char *qp__feed_violation(const struct qp__feed *feed);

/* Adds a line. `data` is an object and owned from now on; NULL: it could not be allocated. `type`
 * is a static text. QP_NOMEM, QP_TOOBIG: nothing was added. */
enum qp_rc qp__feed_add(struct qp__feed *feed, const char *type, json_t *data, int64_t now,
                        bool held, struct qp_err *err);
/* Shows all lines up to the first that is held. */
void qp__feed_show(struct qp__feed *feed);

/* The NEW lines, for a commit; they are STAGED from now on. NULL and *count 0: there are none. NULL
 * and another *count: out of memory, and nothing is staged. The array is freed with qp__free() and
 * borrows from the lines. */
struct qp_event *qp__feed_stage(struct qp__feed *feed, size_t *count);
/* The commit was not begun: lines from `from` to before `upto` are NEW again. */
void qp__feed_unstage(struct qp__feed *feed, uint64_t from, uint64_t upto);
/* Whether there are NEW lines. */
bool qp__feed_has_unstaged(const struct qp__feed *feed);

/* Lines `from` to `upto`, both included, are durable. Those that were held are shown. */
void qp__feed_saved(struct qp__feed *feed, uint64_t from, uint64_t upto);
/* Lines `from` to `upto`, both included, will never be durable. Those that were not shown are
 * deleted. */
void qp__feed_drop(struct qp__feed *feed, uint64_t from, uint64_t upto);

/* ---- subscribers ---- */

void qp__sub_ref(struct qp_subscription *sub);
void qp__sub_unref(struct qp_subscription *sub);
/* Calls the subscriber's function, unless it has seen the event or is unsubscribed. */
void qp__sub_deliver(struct qp_subscription *sub, const struct qp_event_info *event);
/* Whether it was unsubscribed or has ended. */
bool qp__sub_is_gone(struct qp_subscription *sub);
/* Ends it: calls its function with NULL. */
void qp__sub_end(struct qp_subscription *sub);
/* The log was read: delivers the lines that were added in the meantime. */
void qp__sub_catch_up(struct qp_subscription *sub);
/* Adds it to the feed. While the log is read for it, its backlog gets the lines that are not
 * durable yet. QP_NOMEM. */
enum qp_rc qp__feed_subscribe(struct qp__feed *feed, struct qp_subscription *sub,
                              struct qp_err *err);
/* Removes subscribers that have ended; end_subs: ends all of them first. */
void qp__feed_remove_ended(struct qp__feed *feed);
void qp__feed_end_subs(struct qp__feed *feed);

#endif

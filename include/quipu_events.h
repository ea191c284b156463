/* quipu_events.h - the part of quipu.h for those who drive and follow contexts: saves that nobody
 * waits for, the event log, and commits of many parts. Include quipu.h, which includes this
 * file and whose rules hold here too. */
#ifndef QUIPU_EVENTS_H
#define QUIPU_EVENTS_H

#include "quipu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- saving without waiting ---- */

/* Called once for a save that was begun: QP_OK when it is durable and readers see it, else what
 * went wrong. `err` is borrowed. It must be quick, and must neither write nor wait for a write. */
typedef void qp_done_fn(void *arg, enum qp_rc rc, const struct qp_err *err);

/* qp_message_save() without waiting: checks, takes its place in the order of saves and returns;
 * `done` is called later, on a thread of the store, for the saves of one context in their order.
 * Nothing is acknowledged before it is durable, and many saves share one sync. On QP_OK *id (may be
 * NULL) is set at once, and the message is the caller's again; on any other answer `done` is not
 * called. The context may be closed meanwhile; qp_store_close() waits for all saves. With
 * QP_STORE_NO_THREAD, or when no thread can be had, `done` is called before this returns. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_save_async(struct qp_context *context,
                                                      const char *branch,
                                                      struct qp_message *message,
                                                      struct qp_uuid *id, qp_done_fn *done,
                                                      void *arg, struct qp_err *err);

/* ---- events ---- */

/* What happens to a context, as a numbered log for those who follow it (docs/formats.md). Numbers
 * grow by one while the context is in memory; when it is loaded they go on behind a gap of one to
 * two millions. So a number that was told to somebody and whose event was lost with the process is
 * not given to another event, provided that it was `safe` (struct qp_event_range). The log is
 * bounded: its oldest part goes when it has grown to about the event_bytes of the store. */

#define QP_EVENT_TYPE_MAX 64 /* bytes */

struct qp_event {
  uint64_t seq;         /* 0: the next number; else one that is not smaller than that */
  int64_t time;         /* 0: now */
  const char *type;     /* ASCII letters, digits, '.', '_' and '-' */
  struct qp_bytes data; /* a JSON object, whose fields stand beside those above; or empty */
};

/* Appends events and returns once they are durable. *first (may be NULL) receives the number of the
 * first one. QP_CONFLICT: a number is smaller than the next one. QP_TOOBIG: they take more than
 * 64 MiB. */
QP_API QP_MUST_CHECK enum qp_rc qp_events_append(struct qp_context *context,
                                                 const struct qp_event *events, size_t count,
                                                 uint64_t *first, struct qp_err *err);
/* The same without waiting, as qp_message_save_async(); *first is set at once. */
QP_API QP_MUST_CHECK enum qp_rc qp_events_append_async(struct qp_context *context,
                                                       const struct qp_event *events, size_t count,
                                                       uint64_t *first, qp_done_fn *done, void *arg,
                                                       struct qp_err *err);

/* `json` is the stored line: {"seq":1,"time":"…","type":"…", and the data}. Borrowed. */
struct qp_event_info {
  uint64_t seq;
  int64_t time;
  const char *type;
  struct qp_bytes json;
};
typedef enum qp_rc qp_event_visit(void *arg, const struct qp_event_info *event);

/* Visits the durable events with numbers above `after`, `limit` at most, oldest first. Reads what
 * is visited and at most one chunk (an eighth of event_bytes) more. QP_NOTFOUND: some of them are
 * gone, because the log is bounded; nothing was visited. A damaged line is left out. */
QP_API QP_MUST_CHECK enum qp_rc qp_events_read(struct qp_context *context, uint64_t after,
                                               uint64_t limit, qp_event_visit *visit, void *arg,
                                               struct qp_err *err);

/* After a load nothing is safe that the next event could get, until one event is durable; then the
 * next million is. */
struct qp_event_range {
  uint64_t oldest; /* that is there; 0: none */
  uint64_t newest; /* that is durable; 0: none */
  uint64_t next;   /* the number that the next event gets, if it is appended now */
  uint64_t safe;   /* numbers up to this one may be told before their events are durable */
  uint64_t bytes;  /* of the log */
};
QP_API QP_MUST_CHECK enum qp_rc qp_events_range(struct qp_context *context,
                                                struct qp_event_range *out, struct qp_err *err);

/* ---- several changes in one commit ---- */

/* What may be done to branches; the fields of struct qp_branch_change that count beside `name`. */
enum qp_branch_action {
  QP_BRANCH_FORK = 1,   /* qp_branch_fork: other (from), at */
  QP_BRANCH_SWITCH,     /* qp_branch_switch */
  QP_BRANCH_RENAME,     /* qp_branch_rename: other (the new name) */
  QP_BRANCH_DELETE,     /* qp_branch_delete */
  QP_BRANCH_REWIND,     /* qp_branch_rewind: at */
  QP_BRANCH_SET_PROMPT, /* qp_branch_set_prompt: other (the prompt's id) */
};

struct qp_branch_change {
  enum qp_branch_action action;
  const char *name;
  const char *other;
  const struct qp_uuid *at;
};

enum qp_change_flags {
  QP_CHANGE_NEW_RESULT = 1u << 0, /* the key may be there: it has the new result */
};

#define QP_KEY_MAX 255         /* bytes of an idempotency key */
#define QP_KEY_RESULT_MAX 8192 /* bytes of its result */
#define QP_CHANGE_MESSAGES 256 /* messages of one change, at most */

/* A change of one context: all of it, or nothing. Its parts are made in this order, each on what
 * those before it have made, with the checks of the function that does it alone. Start from
 * {.size = sizeof(struct qp_change)}; a part whose fields are zero is not there. */
struct qp_change {
  size_t size;
  unsigned flags; /* enum qp_change_flags */
  const struct qp_branch_change *branch_changes;
  size_t branch_change_count;
  struct qp_bytes metadata; /* a patch, as of qp_context_update() */
  const char *branch;       /* where the messages go; NULL: the active one, by then */
  struct qp_message *const *messages;
  size_t message_count;
  const struct qp_event *events;
  size_t event_count;
  /* An idempotency key, 1 to 255 bytes of UTF-8 without control characters, and a small result, any
   * JSON value: durable together with the rest. It is kept for 24 hours, though at least the last
   * 1,500 of a context are and at most 2,000. */
  const char *key;
  struct qp_bytes key_result;
};

/* Commits it and returns once it is durable; with `done` (not NULL) without waiting, as
 * qp_message_save_async() does. *first_event (may be NULL) receives the number of the first event;
 * the messages have their ids. QP_EXISTS: the key was used before: see qp_idempotency_find().
 * Nothing is written when nothing changes, and `done` is called before this returns. A message that
 * comes back from the trash, because a branch is forked at it or rewound to it, does so before and
 * stays. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_commit(struct qp_context *context,
                                                  const struct qp_change *change,
                                                  uint64_t *first_event, qp_done_fn *done,
                                                  void *arg, struct qp_err *err);

/* The result that was stored with a key, as JSON, released with qp_free(). QP_NOTFOUND: the key was
 * not used, or not for 24 hours, or the commit that has it is not durable yet. */
QP_API QP_MUST_CHECK enum qp_rc qp_idempotency_find(struct qp_context *context, const char *key,
                                                    char **result, size_t *len, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

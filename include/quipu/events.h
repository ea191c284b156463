/* quipu/events.h - for programs that drive and follow contexts: saving without waiting, the event
 * log of a context, and several changes in one commit. The rules of quipu.h hold here. */
#ifndef QUIPU_EVENTS_H
#define QUIPU_EVENTS_H

#include "quipu/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- saving without waiting ---- */

/* Called once for each write that was begun without waiting. QP_OK: it is durable and readers see
 * it. Otherwise `err`, which is borrowed, says what failed. It is called on a thread of the store,
 * in the order of the writes of one context. It must return quickly, and must neither write nor
 * wait for a write. */
typedef void qp_done_fn(void *arg, enum qp_rc rc, const struct qp_err *err);

/* qp_message_save() without waiting for the disk. It checks the message, gives it its place behind
 * earlier saves and returns. `done` is called when it is durable; many saves share one sync. When
 * this returns QP_OK, *id (may be NULL) is set and the message may be changed or freed. When it
 * returns anything else, `done` is not called. The context may be closed before `done` is called;
 * qp_store_close() waits for all saves. With QP_STORE_NO_THREAD, or when no thread can be started,
 * `done` is called before this returns. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_save_async(struct qp_context *context,
                                                      const char *branch,
                                                      struct qp_message *message,
                                                      struct qp_uuid *id, qp_done_fn *done,
                                                      void *arg, struct qp_err *err);

/* ---- events ---- */

/* A numbered log of what happens in a context, for programs that follow it (docs/formats.md). The
 * log has a size limit (event_bytes of the store); the oldest events are deleted.
 *
 * Numbers grow by one while the context is in memory. When it is loaded again they continue after a
 * gap of one to two million. So a number that was shown to a client, and whose event was lost in a
 * crash, is never used for another event, if it was `safe` (struct qp_event_range). */

#define QP_EVENT_TYPE_MAX 64 /* bytes */

struct qp_event {
  uint64_t seq;         /* 0: the next number; otherwise a number that is not smaller */
  int64_t time;         /* 0: now */
  const char *type;     /* ASCII letters, digits, '.', '_' and '-' */
  struct qp_bytes data; /* a JSON object, whose fields are stored beside the above; or empty */
};

/* Appends events. Returns when they are durable; with `done` (not NULL) without waiting, as
 * qp_message_save_async(). *first (may be NULL) receives the number of the first event.
 * QP_CONFLICT: a number is smaller than the next number. QP_TOOBIG: more than 64 MiB. */
QP_API QP_MUST_CHECK enum qp_rc qp_events_append(struct qp_context *context,
                                                 const struct qp_event *events, size_t count,
                                                 uint64_t *first, qp_done_fn *done, void *arg,
                                                 struct qp_err *err);

/* `json` is the stored line: {"seq":1,"time":"…","type":"…", …data}. Everything is borrowed. */
struct qp_event_info {
  uint64_t seq;
  int64_t time;
  const char *type;
  struct qp_bytes json;
};
typedef enum qp_rc qp_event_visit(void *arg, const struct qp_event_info *event);

/* Visits up to `limit` durable events with numbers above `after`, oldest first. It reads at most
 * one chunk of the log (an eighth of event_bytes) more than it visits. A damaged line is skipped.
 * QP_NOTFOUND: some of these events were deleted; nothing was visited. */
QP_API QP_MUST_CHECK enum qp_rc qp_events_read(struct qp_context *context, uint64_t after,
                                               uint64_t limit, qp_event_visit *visit, void *arg,
                                               struct qp_err *err);

struct qp_event_range {
  uint64_t oldest; /* number of the oldest event in the log; 0: the log is empty */
  uint64_t newest; /* number of the newest durable event; 0: the log is empty */
  uint64_t next;   /* number of the next event */
  /* Numbers up to this one may be shown to clients before their events are durable. After a context
   * was loaded that is no new number, until one event is durable; from then on the next million. */
  uint64_t safe;
  uint64_t bytes; /* size of the log */
};
QP_API QP_MUST_CHECK enum qp_rc qp_events_range(struct qp_context *context,
                                                struct qp_event_range *out, struct qp_err *err);

/* ---- several changes in one commit ---- */

/* In parentheses: the members of struct qp_branch_change that are used besides `name`. */
enum qp_branch_action {
  QP_BRANCH_FORK = 1,   /* qp_branch_fork() (`other`: from; `at`) */
  QP_BRANCH_SWITCH,     /* qp_branch_switch() */
  QP_BRANCH_RENAME,     /* qp_branch_rename() (`other`: the new name) */
  QP_BRANCH_DELETE,     /* qp_branch_delete() */
  QP_BRANCH_REWIND,     /* qp_branch_rewind() (`at`) */
  QP_BRANCH_SET_PROMPT, /* qp_branch_set_prompt() (`other`: the id of the prompt) */
};

struct qp_branch_change {
  enum qp_branch_action action;
  const char *name;
  const char *other;
  const struct qp_uuid *at;
};

enum qp_change_flags {
  QP_CHANGE_NEW_RESULT = 1u << 0, /* replaces the result of a key that was used before */
};

#define QP_KEY_MAX 255         /* bytes of an idempotency key */
#define QP_KEY_RESULT_MAX 8192 /* bytes of its result */
#define QP_CHANGE_MESSAGES 256 /* largest number of messages in one change */

/* A change of one context, which is made as a whole or not at all. The parts are applied in this
 * order, with the checks of the functions that make them alone. A part whose members are zero is
 * left out. */
struct qp_change {
  size_t size;
  unsigned flags; /* enum qp_change_flags */
  const struct qp_branch_change *branch_changes;
  size_t branch_change_count;
  struct qp_bytes metadata; /* a patch, as for qp_context_update() */
  const char *branch;       /* of the messages; NULL: the branch that is active by then */
  struct qp_message *const *messages;
  size_t message_count;
  const struct qp_event *events;
  size_t event_count;
  /* An idempotency key (1 to 255 bytes of UTF-8 without control characters) and a small result (any
   * JSON value). A key is kept for 24 hours. Independent of that, a context keeps at least its last
   * 1,500 keys and at most 2,000. */
  const char *key;
  struct qp_bytes key_result;
};

/* Commits a change. Returns when it is durable; with `done` (not NULL) without waiting, as
 * qp_message_save_async(). *first_event (may be NULL) receives the number of the first event, and
 * the messages get their ids. When nothing changes, nothing is written, and `done` is called before
 * this returns. QP_EXISTS: the key was used before; qp_idempotency_find() returns its result. A
 * fork or rewind to a message in the trash restores that message first. It stays restored when the
 * rest of the change fails. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_commit(struct qp_context *context,
                                                  const struct qp_change *change,
                                                  uint64_t *first_event, qp_done_fn *done,
                                                  void *arg, struct qp_err *err);

/* The result that was stored with a key, as JSON. Release *result with qp_free(). QP_NOTFOUND: the
 * key was not used, was used more than 24 hours ago, or its commit is not durable yet. */
QP_API QP_MUST_CHECK enum qp_rc qp_idempotency_find(struct qp_context *context, const char *key,
                                                    char **result, size_t *len, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

/* chat_backend.h - what `quipu chat` talks to: the engine in this process (chat_local.c) or a
 * server (chat_remote.c). All of it is called on the main thread.
 *
 * JSON values that are handed out belong to the caller. Their fields are those of the HTTP
 * interface, docs/http-api.md, whichever backend it is. */
#ifndef QP_CLI_CHAT_BACKEND_H
#define QP_CLI_CHAT_BACKEND_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/cli.h"
#include "quipu.h"

/* Something that happened in the turn; docs/turns.md has the types. Borrowed. */
typedef void chat_event_fn(void *arg, const char *type, const json_t *event);

struct chat_watch {
  chat_event_fn *event;
  void *arg;
  bool cancelled; /* set when the user has cancelled the turn by Ctrl-C */
};

struct chat_backend {
  const struct chat_backend_ops *ops;
};

/* QP_STOPPED of `act` and `follow`: Ctrl-C was pressed again while the turn was being cancelled. */
struct chat_backend_ops {
  void (*close)(struct chat_backend *self);
  /* The context that a text names, by its id or the beginning of it. */
  enum qp_rc (*find)(struct chat_backend *self, const char *text, struct qp_uuid *id,
                     struct qp_err *err);
  /* The contexts that were changed last, newest first: an array of {"id", "title", "updated_at",
   * "messages"}. */
  enum qp_rc (*list)(struct chat_backend *self, unsigned count, json_t **out, struct qp_err *err);
  enum qp_rc (*create)(struct chat_backend *self, const char *model, const char *title,
                       struct qp_uuid *id, struct qp_err *err);
  /* {"title", "model_id", "state", "state_detail", "branch", "total", "pending_tool_calls"} */
  enum qp_rc (*look)(struct chat_backend *self, const struct qp_uuid *id, json_t **out,
                     struct qp_err *err);
  /* The last `count` messages of the active branch, oldest first. */
  enum qp_rc (*messages)(struct chat_backend *self, const struct qp_uuid *id, unsigned count,
                         json_t **out, struct qp_err *err);
  /* An array of {"name", "active", "messages"}. */
  enum qp_rc (*branches)(struct chat_backend *self, const struct qp_uuid *id, json_t **out,
                         struct qp_err *err);
  enum qp_rc (*fork)(struct chat_backend *self, const struct qp_uuid *id, const char *name,
                     struct qp_err *err);
  /* "title" or "model_id"; NULL removes it. */
  enum qp_rc (*update)(struct chat_backend *self, const struct qp_uuid *id, const char *field,
                       const char *value, struct qp_err *err);
  enum qp_rc (*models)(struct chat_backend *self, json_t **out, struct qp_err *err);
  enum qp_rc (*tools)(struct chat_backend *self, json_t **out, struct qp_err *err);
  /* Does it, and tells what happens until the context rests. Ctrl-C cancels the turn. */
  enum qp_rc (*act)(struct chat_backend *self, const struct qp_action *action,
                    struct chat_watch *watch, struct qp_err *err);
  /* Tells what happens in a turn that somebody else has begun, until the context rests. */
  enum qp_rc (*follow)(struct chat_backend *self, const struct qp_uuid *id,
                       struct chat_watch *watch, struct qp_err *err);
};

/* Both give a backend that is closed by its own `close`. */
enum qp_rc cli_chat_local_open(struct cli *cli, struct qp_engine *engine, struct chat_backend **out,
                               struct qp_err *err);
/* `key` may be NULL. `own`: the server of this data directory, which is on this machine. */
enum qp_rc cli_chat_remote_open(const char *url, const char *key, bool own,
                                struct chat_backend **out, struct qp_err *err);

/* Idle, Failed or AwaitingToolApproval. */
bool cli_chat_rests(const char *state);
/* A JSON text of our own making, or a server's. NULL: it is none, or memory is out. */
json_t *cli_chat_json(const char *text, size_t len);

#endif

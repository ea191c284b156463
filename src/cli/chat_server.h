/* chat_server.h - the requests of `quipu chat` to a server: another process, or the one in this
 * process (chat_http.h). All functions are called on the main thread.
 *
 * Returned JSON values belong to the caller. Their fields are those of the HTTP API,
 * docs/http-api.md. */
#ifndef QP_CLI_CHAT_SERVER_H
#define QP_CLI_CHAT_SERVER_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/chat_http.h"
#include "quipu/turns.h"

/* The context with this id or beginning of an id. */
enum qp_rc cli_server_find(struct chat_http *http, const char *text, struct qp_uuid *id,
                           struct qp_err *err);
/* An array of the server, "models", "tools" or "contexts?limit=N" (those changed last: {"id",
 * "title", "updated_at", "messages"}), or of the context `id`: "branches" ({"name", "active",
 * "messages"}). */
enum qp_rc cli_server_list(struct chat_http *http, const struct qp_uuid *id, const char *name,
                           json_t **out, struct qp_err *err);
enum qp_rc cli_server_create(struct chat_http *http, const char *model, const char *title,
                             struct qp_uuid *id, struct qp_err *err);
/* {"title", "model_id", "state", "state_detail", "branch", "total", "pending_tool_calls"} */
enum qp_rc cli_server_look(struct chat_http *http, const struct qp_uuid *id, json_t **out,
                           struct qp_err *err);
/* The last `count` messages of the active branch, oldest first. */
enum qp_rc cli_server_messages(struct chat_http *http, const struct qp_uuid *id, unsigned count,
                               json_t **out, struct qp_err *err);
/* The id of the message with this number, "3" or "#3", counted from 1 in a branch (NULL: the active
 * one). QP_NOTFOUND. */
enum qp_rc cli_server_message_at(struct chat_http *http, const struct qp_uuid *id,
                                 const char *branch, const char *number, struct qp_uuid *out,
                                 struct qp_err *err);
/* GET of "/view", "/compactions" and so on of the context, for a branch (NULL: the active one). */
enum qp_rc cli_server_read(struct chat_http *http, const struct qp_uuid *id, const char *what,
                           const char *branch, json_t **out, struct qp_err *err);
enum qp_rc cli_server_fork(struct chat_http *http, const struct qp_uuid *id, const char *name,
                           struct qp_err *err);
/* "title" or "model_id"; NULL removes it. */
enum qp_rc cli_server_update(struct chat_http *http, const struct qp_uuid *id, const char *field,
                             const char *value, struct qp_err *err);

/* ---- turns ---- */

/* An event of the turn; docs/turns.md lists the types. Borrowed. */
typedef void chat_event_fn(void *arg, const char *type, const json_t *event);

struct chat_watch {
  chat_event_fn *event;
  void *arg;
  bool cancelled; /* set if the user cancelled the turn with Ctrl-C */
};

/* Performs an action, and reports the events until the turn stops. Ctrl-C cancels the turn.
 * QP_STOPPED here and below: Ctrl-C was pressed again while the turn was being cancelled. */
enum qp_rc cli_server_act(struct chat_http *http, const struct qp_action *action,
                          struct chat_watch *watch, struct qp_err *err);
/* Performs an action and waits until it is done, without its events. */
enum qp_rc cli_server_ask_action(struct chat_http *http, const struct qp_uuid *id,
                                 const char *action, const json_t *body, json_t **out,
                                 struct qp_err *err);
/* Reports the events of a running turn until it stops. */
enum qp_rc cli_server_follow(struct chat_http *http, const struct qp_uuid *id,
                             struct chat_watch *watch, struct qp_err *err);

/* Idle, Failed or AwaitingToolApproval. */
bool cli_chat_rests(const char *state);
/* Parses JSON text of a server. NULL: invalid, or out of memory. */
json_t *cli_chat_json(const char *text, size_t len);

#endif

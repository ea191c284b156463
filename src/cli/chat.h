/* chat.h - a conversation at the terminal; shared by the parts of `quipu chat`. */
#ifndef QP_CLI_CHAT_H
#define QP_CLI_CHAT_H

#include "cli/chat_input.h"
#include "cli/chat_server.h"
#include "cli/chat_view.h"
#include "cli/cli.h"

struct chat {
  struct cli *cli;
  struct chat_http *http; /* client of the server; see link.h */
  struct chat_input *input;
  struct chat_view view;
  bool tty;            /* standard input and output are a terminal */
  struct qp_uuid id;   /* zeros: the conversation is created with the first message */
  char *model, *title; /* for the new conversation; may be NULL */
  json_t *attached;    /* parts of the next message */
  bool quits;
};

/* ---- turns: cmd_chat.c ---- */

/* Performs an action in the conversation and shows the events until the turn stops or waits. The
 * context of the action need not be set. */
enum qp_rc cli_chat_act(struct chat *chat, struct qp_action *action, struct qp_err *err);
/* The same, then asks about tools, and continues until nothing waits. On a terminal a failure is
 * reported and QP_OK is returned, because the person can continue. */
enum qp_rc cli_chat_turn(struct chat *chat, struct qp_action *action, struct qp_err *err);
/* Opens another conversation: shows its last messages, and continues its turn. */
enum qp_rc cli_chat_enter(struct chat *chat, const struct qp_uuid *id, struct qp_err *err);
/* Reports a failure. Returns QP_OK on a terminal, where a person can continue; elsewhere err->rc,
 * which ends the program. */
enum qp_rc cli_chat_complain(struct chat *chat, struct qp_err *err);
/* Replaces *text by a copy of `value` (or NULL). */
enum qp_rc cli_chat_set(char **text, const char *value, struct qp_err *err);

/* ---- approval: chat_approve.c ---- */

/* Asks about the first call of `pending` and decides about it, or about all. *left: there is no
 * answer, and the calls stay pending. */
enum qp_rc cli_chat_approve(struct chat *chat, const json_t *pending, bool *left,
                            struct qp_err *err);

/* ---- commands: chat_command.c ---- */

/* Executes a line that begins with a slash. */
enum qp_rc cli_chat_command(struct chat *chat, const char *line, struct qp_err *err);

#endif

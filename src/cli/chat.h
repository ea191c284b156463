/* chat.h - a conversation at the terminal: what the parts of `quipu chat` share. */
#ifndef QP_CLI_CHAT_H
#define QP_CLI_CHAT_H

#include "cli/chat_input.h"
#include "cli/chat_server.h"
#include "cli/chat_view.h"
#include "cli/cli.h"

struct chat {
  struct cli *cli;
  struct chat_http *http;  /* to the server */
  struct qp__http *inside; /* that server, when it runs in this process */
  struct chat_input *input;
  struct chat_view view;
  bool tty;            /* a person sits at a terminal */
  struct qp_uuid id;   /* none: the conversation begins with the first message */
  char *model, *title; /* of the one that begins; may be NULL */
  json_t *attached;    /* parts that go with the next message */
  bool quits;
};

/* ---- turns: cmd_chat.c ---- */

/* Does an action in the conversation and shows what happens until the context is at rest or waits.
 * The action's context need not be filled in. */
enum qp_rc cli_chat_act(struct chat *chat, struct qp_action *action, struct qp_err *err);
/* The same, then asks about tools, and goes on until nothing waits. A failure is told and is none
 * where a person can go on. */
enum qp_rc cli_chat_turn(struct chat *chat, struct qp_action *action, struct qp_err *err);
/* Opens another conversation: shows what it is, and goes on where it stands. */
enum qp_rc cli_chat_enter(struct chat *chat, const struct qp_uuid *id, struct qp_err *err);
/* Tells a failure. QP_OK at a terminal, where a person can go on; elsewhere err->rc, which ends the
 * program. */
enum qp_rc cli_chat_complain(struct chat *chat, struct qp_err *err);
/* Takes a copy of `value` (or NULL) instead of *text. */
enum qp_rc cli_chat_set(char **text, const char *value, struct qp_err *err);

/* ---- approval: chat_approve.c ---- */

/* Asks about the first call of `pending` and decides about it, or about all. *left: nobody answers,
 * and the calls go on waiting. */
enum qp_rc cli_chat_approve(struct chat *chat, const json_t *pending, bool *left,
                            struct qp_err *err);

/* ---- commands: chat_command.c ---- */

/* Does what a line that begins with a slash says. */
enum qp_rc cli_chat_command(struct chat *chat, const char *line, struct qp_err *err);

#endif

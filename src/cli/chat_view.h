/* chat_view.h - how a conversation looks: events as they happen, and messages that are stored.
 *
 * On a terminal what is not the answer itself is dimmed; elsewhere nothing but text is written. */
#ifndef QP_CLI_CHAT_VIEW_H
#define QP_CLI_CHAT_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/chat_markdown.h"
#include "quipu.h"

enum chat_block { CHAT_BLOCK_NONE, CHAT_BLOCK_TEXT, CHAT_BLOCK_THINKING };

struct chat_view {
  FILE *f;
  bool styled;           /* Markdown is shown, not spelled: a terminal, and NO_COLOR is not set */
  enum chat_block block; /* that is being written */
  bool in_line;          /* something stands on this line */
  struct chat_markdown markdown; /* of a block of text, while `styled` */
  json_t *calls;                 /* of the answer: the names of its calls by their blocks … */
  json_t *names;                 /* … and by their ids */
};

void cli_view_open(struct chat_view *view, FILE *f, bool tty);
void cli_view_close(struct chat_view *view);

/* One event. Not of type "message": what that tells of must be loaded. */
void cli_view_event(struct chat_view *view, const char *type, const json_t *event);
/* Ends the line and the block that is being written. */
void cli_view_end(struct chat_view *view);
/* A remark, on a line of its own. */
void cli_view_note(struct chat_view *view, const char *fmt, ...) QP_PRINTF(2, 3);
/* What a tool gave, in a few lines. */
void cli_view_result(struct chat_view *view, const json_t *result);
/* The beginning of a tool call, on one line that is not ended. */
void cli_view_call(struct chat_view *view, const char *name, const char *arguments);
/* A stored message. */
void cli_view_message(struct chat_view *view, const json_t *message);

#endif

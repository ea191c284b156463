/* chat_view.h - shows a conversation: events as they happen, and stored messages.
 *
 * On a terminal everything except the answer itself is dimmed; elsewhere only text is written. */
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
  bool styled;                   /* Markdown is rendered: on a terminal, and NO_COLOR is not set */
  enum chat_block block;         /* that is being printed */
  bool in_line;                  /* the current line is not empty */
  struct chat_markdown markdown; /* of a text block, if `styled` */
  json_t *calls;                 /* of the answer: the names of its calls by block … */
  json_t *names;                 /* … and by id */
};

void cli_view_open(struct chat_view *view, FILE *f, bool tty);
void cli_view_close(struct chat_view *view);

/* Shows one event, except type "message", whose content must be loaded. */
void cli_view_event(struct chat_view *view, const char *type, const json_t *event);
/* Ends the current line and block. */
void cli_view_end(struct chat_view *view);
/* A message of the program, on a separate line. */
void cli_view_note(struct chat_view *view, const char *fmt, ...) QP_PRINTF(2, 3);
/* The result of a tool, in a few lines. */
void cli_view_result(struct chat_view *view, const json_t *result);
/* How full the window of the model is: "window" of a state. Nothing if it is NULL. */
void cli_view_gauge(struct chat_view *view, const json_t *window);
/* A stored message. */
void cli_view_message(struct chat_view *view, const json_t *message);

#endif

/* chat_input.h - what the person types: a line editor with a history on a terminal, plain lines
 * elsewhere. */
#ifndef QP_CLI_CHAT_INPUT_H
#define QP_CLI_CHAT_INPUT_H

#include <stdbool.h>

#include "quipu.h"

struct chat_input;

enum chat_typed {
  CHAT_LINE,
  CHAT_INTERRUPT, /* Ctrl-C: on a terminal the line is given up */
  CHAT_END,       /* Ctrl-D, or the end of the input */
};

/* `tty`: standard input and output are a terminal. */
enum qp_rc cli_input_open(bool tty, struct chat_input **out, struct qp_err *err);
void cli_input_close(struct chat_input *in);

/* Asks for a line, which is borrowed until the next call. A line that ends with a backslash goes on
 * in the next one. `prompt` is shown on a terminal only. `preset` (may be NULL) is there to be
 * changed. `keep`: it goes into the history. */
enum qp_rc cli_input_line(struct chat_input *in, const char *prompt, const char *preset, bool keep,
                          enum chat_typed *typed, const char **line, struct qp_err *err);

#endif

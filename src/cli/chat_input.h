/* chat_input.h - the input of the person: a line editor with a history on a terminal, plain lines
 * elsewhere. */
#ifndef QP_CLI_CHAT_INPUT_H
#define QP_CLI_CHAT_INPUT_H

#include <stdbool.h>

#include "quipu.h"

struct chat_input;

enum chat_typed {
  CHAT_LINE,
  CHAT_INTERRUPT, /* Ctrl-C: on a terminal the line is discarded */
  CHAT_END,       /* Ctrl-D, or the end of the input */
};

/* `tty`: standard input and output are a terminal. */
enum qp_rc cli_input_open(bool tty, struct chat_input **out, struct qp_err *err);
void cli_input_close(struct chat_input *in);

/* Asks for a line, which is borrowed until the next call. A line that ends with a backslash
 * continues on the next one. `prompt` is shown only on a terminal. `preset` (may be NULL) is a text
 * to edit. `keep`: the line is added to the history. */
enum qp_rc cli_input_line(struct chat_input *in, const char *prompt, const char *preset, bool keep,
                          enum chat_typed *typed, const char **line, struct qp_err *err);

#endif

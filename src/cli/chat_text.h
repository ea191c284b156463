/* chat_text.h - what a model or a tool said, on its way to a terminal.
 *
 * Only characters that are shown pass, besides newlines and tabs. Control characters are spelled
 * as \xNN, so that no escape sequence reaches the terminal; on one line also those that change the
 * direction of writing, which could make a command look like another one. */
#ifndef QP_CLI_CHAT_TEXT_H
#define QP_CLI_CHAT_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* As it is, with its line breaks. */
void cli_chat_put_text(FILE *f, const char *s, size_t n);
/* On one line, at most `max` bytes, ended by "…" when there is more. */
void cli_chat_put_line(FILE *f, const char *s, size_t n, size_t max);

#endif

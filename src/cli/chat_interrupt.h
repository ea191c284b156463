/* chat_interrupt.h - Ctrl-C as an event that can be waited for and does not end the program.
 *
 * Only the main thread receives the signals of the terminal, and only while it waits: the line
 * editor has signal handlers that must not run at other times. So the signals are blocked from the
 * beginning, which every later thread inherits, and unblocked while the main thread waits. */
#ifndef QP_CLI_CHAT_INTERRUPT_H
#define QP_CLI_CHAT_INTERRUPT_H

#include <stdbool.h>

#include "quipu.h"

/* Catches SIGINT from now on. Must be called before any thread is started. */
enum qp_rc cli_interrupt_begin(struct qp_err *err);
/* Restores the previous effect of SIGINT. */
void cli_interrupt_end(void);
/* The main thread starts or stops waiting: unblocks or blocks the signals. */
void cli_interrupt_listen(bool listen);
/* Becomes readable when Ctrl-C was pressed. */
int cli_interrupt_fd(void);
/* Whether it was pressed since the last call. */
bool cli_interrupt_take(void);

#endif

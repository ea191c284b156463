/* chat_interrupt.h - Ctrl-C as something that can be waited for and does not end the program.
 *
 * The signals of the terminal are for the main thread alone, and only while it waits: the line
 * editor has handlers for them that must not run beside it. So they are blocked from the beginning,
 * as every thread that is started later inherits it, and let through where the main one waits. */
#ifndef QP_CLI_CHAT_INTERRUPT_H
#define QP_CLI_CHAT_INTERRUPT_H

#include <stdbool.h>

#include "quipu.h"

/* Catches SIGINT from now on. Before any thread is started. */
enum qp_rc cli_interrupt_begin(struct qp_err *err);
/* SIGINT does again what it did. */
void cli_interrupt_end(void);
/* The main thread waits now: signals come through, until it says that it does not. */
void cli_interrupt_listen(bool listen);
/* Becomes readable when Ctrl-C was pressed. */
int cli_interrupt_fd(void);
/* Whether it was pressed since the last call. */
bool cli_interrupt_take(void);

#endif

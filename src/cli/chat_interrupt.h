/* chat_interrupt.h - Ctrl-C as something that can be waited for and does not end the program. */
#ifndef QP_CLI_CHAT_INTERRUPT_H
#define QP_CLI_CHAT_INTERRUPT_H

#include <stdbool.h>

#include "quipu.h"

/* Catches SIGINT from now on. */
enum qp_rc cli_interrupt_begin(struct qp_err *err);
/* SIGINT does again what it did. */
void cli_interrupt_end(void);
/* Becomes readable when Ctrl-C was pressed. */
int cli_interrupt_fd(void);
/* Whether it was pressed since the last call. */
bool cli_interrupt_take(void);

#endif

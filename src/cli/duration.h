/* duration.h - durations in the form "6mo". */
#ifndef QP_CLI_DURATION_H
#define QP_CLI_DURATION_H

#include <stdint.h>

#include "quipu.h"

/* Milliseconds since 1970. */
int64_t cli_now(void);

/* The time that is the duration `text` before `now`: an integer with h, d, w, mo or y, or just 0.
 * Months and years are those of the calendar, in UTC; if a month is too short, its last day.
 * QP_INVALID; `what` begins the error message. */
enum qp_rc cli_time_before(const char *what, const char *text, int64_t now, int64_t *out,
                           struct qp_err *err);
/* The time that is as long after `now`; not 0, and before the year 10000. */
enum qp_rc cli_time_after(const char *what, const char *text, int64_t now, int64_t *out,
                          struct qp_err *err);

#endif

/* progress.h - the progress of a long command: a bar with rate and time left on a terminal, an
 * occasional line elsewhere, both on standard error. Nothing with --json. Used by one thread at a
 * time. */
#ifndef QP_CLI_PROGRESS_H
#define QP_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cli;

struct cli_progress {
  const char *noun; /* what is counted: "context" */
  const char *unit; /* unit of the rate: "message"; NULL: the noun */
  uint64_t total;   /* number of all; 0: unknown */
  uint64_t weight;  /* sum of all weights, for items of different size; 0: all are equal */
  /* internal */
  bool quiet, tty, drawn;
  uint64_t done, done_weight, units;
  double start, last; /* seconds */
};

/* The caller sets noun, unit, total and weight; the rest is zero. */
void cli_progress_begin(struct cli_progress *p, const struct cli *cli);
/* One more is done, with this weight and number of units. */
void cli_progress_step(struct cli_progress *p, uint64_t weight, uint64_t units);
/* Removes the bar, at the end or to print something else; the next step draws it again. */
void cli_progress_clear(struct cli_progress *p);

#endif

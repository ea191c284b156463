/* progress.h - how far a long command is: a bar with rate and time left on a terminal, now and then
 * a plain line elsewhere, both on standard error. With --json nothing is shown. One thread at a
 * time. */
#ifndef QP_CLI_PROGRESS_H
#define QP_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cli;

struct cli_progress {
  const char *noun; /* what is counted: "context" */
  const char *unit; /* what the rate is told in: "message"; NULL: the noun */
  uint64_t total;   /* of what is counted; 0: not known */
  uint64_t weight;  /* of all together, for things of unequal size; 0: all weigh the same */
  /* inside */
  bool quiet, tty, drawn;
  uint64_t done, done_weight, units;
  double start, last; /* seconds */
};

/* noun, unit, total and weight are set by the caller, the rest is zero. */
void cli_progress_begin(struct cli_progress *p, const struct cli *cli);
/* One more is done, of this weight and so many units. */
void cli_progress_step(struct cli_progress *p, uint64_t weight, uint64_t units);
/* Takes the bar away, so that something else can be printed; the next step draws it again. */
void cli_progress_clear(struct cli_progress *p);
void cli_progress_end(struct cli_progress *p);

#endif

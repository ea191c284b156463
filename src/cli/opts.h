/* opts.h - options of the command line, read by tables.
 *
 * An option is a row of a table that ends with a row without a name; what the user gave for row
 * i lands in values[i] of the table's set: NULL when it was not given, "" for a flag. Accepted
 * spellings are "--name value", "--name=value", "-n value", "-nvalue"; "--" ends the options and
 * "-" is a word. An option that is given twice, is unknown or lacks its value is QP_INVALID,
 * with the nearest known name. One whose value is called "NAME..." may be given several times. */
#ifndef QP_CLI_OPTS_H
#define QP_CLI_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quipu.h"

struct cli_option {
  const char *name;  /* without the dashes */
  char letter;       /* one-letter form, or 0 */
  const char *value; /* what its value is called in the help; NULL: a flag */
  const char *help;
  const char *only; /* the actions that take it, separated by spaces; NULL: all */
};

#define CLI_OPTIONS_MAX 64
#define CLI_REPEATS_MAX 64

/* The second and later values of options that may be given several times, in order. */
struct cli_repeats {
  struct {
    size_t option; /* its row */
    const char *value;
  } at[CLI_REPEATS_MAX];
  size_t count;
};

struct cli_optset {
  const struct cli_option *table;
  const char **values;         /* CLI_OPTIONS_MAX of them */
  struct cli_repeats *repeats; /* may be NULL where no option of the table has "..." */
};

/* What is left of the arguments besides options, in order. */
struct cli_words {
  char **at;
  size_t count;
};

/* Reads argv[*pos] and on. With stop_at_word it ends before the first word, else words are
 * gathered at the front of argv. *pos is where it ended. */
enum qp_rc cli_opts_parse(const struct cli_optset *sets, size_t set_count, int argc, char **argv,
                          int *pos, bool stop_at_word, struct cli_words *words, struct qp_err *err);

/* QP_INVALID when an option was given that `action` does not take. */
enum qp_rc cli_opts_check_action(const struct cli_option *table, const char *const *values,
                                 const char *command, const char *action, struct qp_err *err);

/* A whole number from min to max; `what` begins the sentence of a failure. */
enum qp_rc cli_opts_number(const char *what, const char *text, uint64_t min, uint64_t max,
                           uint64_t *out, struct qp_err *err);

/* The nearer of *best and `known` to what was typed; *best may be NULL. Names that are nothing
 * like it are left out. */
void cli_nearest(const char *typed, const char *known, const char **best);

#endif

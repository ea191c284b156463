/* opts.h - table-driven options of the command line.
 *
 * An option is a row of a table that ends with a row without a name; the value for row i is stored
 * in values[i] of the table's set: NULL if it was not given, "" for a flag. Accepted spellings are
 * "--name value", "--name=value", "-n value", "-nvalue"; "--" ends the options and "-" is an
 * argument. An option that is repeated, unknown or lacks its value is QP_INVALID; the error names
 * the nearest known name. An option whose value is called "NAME..." may be repeated. */
#ifndef QP_CLI_OPTS_H
#define QP_CLI_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quipu.h"

struct cli_option {
  const char *name;  /* without the dashes */
  char letter;       /* one-letter form, or 0 */
  const char *value; /* name of its value in the help; NULL: a flag */
  const char *help;
  const char *only; /* the actions that allow it, separated by spaces; NULL: all */
};

#define CLI_OPTIONS_MAX 80
#define CLI_REPEATS_MAX 64

/* The second and later values of repeated options, in order. */
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
  struct cli_repeats *repeats; /* may be NULL if no option of the table has "..." */
};

/* The arguments that are not options, in order. */
struct cli_words {
  char **at;
  size_t count;
};

/* Parses argv from *pos on. With stop_at_word it stops before the first argument that is not an
 * option, otherwise these arguments are moved to the front of argv. *pos is where it stopped. */
enum qp_rc cli_opts_parse(const struct cli_optset *sets, size_t set_count, int argc, char **argv,
                          int *pos, bool stop_at_word, struct cli_words *words, struct qp_err *err);

/* QP_INVALID if an option was given that `action` does not allow. */
enum qp_rc cli_opts_check_action(const struct cli_option *table, const char *const *values,
                                 const char *command, const char *action, struct qp_err *err);

/* An integer from min to max; `what` begins the error message. NULL, an option that was not given,
 * leaves *out unchanged. */
enum qp_rc cli_opts_number(const char *what, const char *text, uint64_t min, uint64_t max,
                           uint64_t *out, struct qp_err *err);

/* The nearer of *best and `known` to the typed name; *best may be NULL. Very different names are
 * ignored. */
void cli_nearest(const char *typed, const char *known, const char **best);

#endif

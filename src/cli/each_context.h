/* each_context.h - one operation on many contexts: what fails is told and counted, and the others
 * go on. */
#ifndef QP_CLI_EACH_CONTEXT_H
#define QP_CLI_EACH_CONTEXT_H

#include "cli/cli.h"
#include "cli/progress.h"

/* Does the work on one context and prints its line, after cli_progress_clear(). */
typedef enum qp_rc cli_each_fn(struct cli *cli, const struct qp_uuid *id,
                               struct cli_progress *progress, void *arg, struct qp_err *err);

struct cli_each {
  uint64_t done;
  uint64_t failed;
  uint64_t old;        /* in an old format, which is no failure: these can only be read */
  struct qp_err first; /* of the failures */
};

/* All contexts that are named by `words`, or with `all` every one. Failing is in *out, not in the
 * answer, unless it concerns all of them. */
enum qp_rc cli_each_context(struct cli *cli, const struct cli_words *words, bool all,
                            cli_each_fn *fn, void *arg, struct cli_each *out, struct qp_err *err);

/* The command's answer: QP_OK when nothing failed, else the code of the first failure. */
enum qp_rc cli_each_verdict(const struct cli_each *each, struct qp_err *err);

/* {"contexts": …, "failed": …}, the beginning of a total; NULL: no memory. */
json_t *cli_each_json(const struct cli_each *each);

#endif

/* each_context.h - one operation on many contexts: failures are reported and counted, and the
 * others continue. */
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
  uint64_t old;        /* in an old format and therefore skipped, which is no failure */
  struct qp_err first; /* first failure */
};

/* All contexts named by `words`, or every context with `all`. Failures are in *out, not in the
 * result, unless they concern all contexts. */
enum qp_rc cli_each_context(struct cli *cli, const struct cli_words *words, bool all,
                            cli_each_fn *fn, void *arg, struct cli_each *out, struct qp_err *err);

/* The result of the command: QP_OK if nothing failed, otherwise the code of the first failure. */
enum qp_rc cli_each_verdict(const struct cli_each *each, struct qp_err *err);

/* {"contexts": …, "failed": …}, the beginning of a total; NULL: no memory. */
json_t *cli_each_json(const struct cli_each *each);

#endif

/* packing_report.h - shared by archive, compress and decompress: processes contexts and prints one
 * line per context and a total. */
#ifndef QP_CLI_PACKING_REPORT_H
#define QP_CLI_PACKING_REPORT_H

#include "cli/cli.h"

typedef enum qp_rc cli_pack(struct qp_store *store, const struct qp_uuid *id, unsigned flags,
                            struct qp_space_report *out, struct qp_err *err);

struct cli_space {
  cli_pack *pack; /* NULL: archive the messages older than `before` */
  int64_t before;
  const char *verb; /* "compress" */
  const char *done; /* "compressed" */
  bool dry_run;
};

/* For the named contexts, or all. Opens the store. */
enum qp_rc cli_space_run(struct cli *cli, const struct cli_words *words, bool all,
                         const struct cli_space *space, struct qp_err *err);

#endif

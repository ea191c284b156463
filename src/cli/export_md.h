/* export_md.h - writes a conversation as a Markdown document, message by message.
 *
 * Texts are written unchanged; control characters are escaped only on a terminal. Arguments and
 * results of tools are in fenced blocks whose fences are longer than any run of backticks in them,
 * so that no content can end its block. */
#ifndef QP_CLI_EXPORT_MD_H
#define QP_CLI_EXPORT_MD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "quipu.h"

struct export_md {
  FILE *f;
  bool tty; /* written to a terminal */
};

/* Title and data of the conversation; `meta` is its metadata. */
void cli_export_md_head(const struct export_md *md, const json_t *meta, const char *branch);
/* One message. `json` as a visitor gets it: empty if it is unavailable. */
enum qp_rc cli_export_md_message(const struct export_md *md, const struct qp_message_info *info,
                                 struct qp_bytes json, struct qp_err *err);

/* Where the conversation was compacted (marks.h). */
void cli_export_md_mark(const struct export_md *md, const json_t *mark);

#endif

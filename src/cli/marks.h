/* marks.h - where a branch was compacted, for output that shows its messages. A mark belongs behind
 * the last message that its summary covers. */
#ifndef QP_CLI_MARKS_H
#define QP_CLI_MARKS_H

#include <jansson.h>
#include <stdio.h>

#include "quipu.h"

#define CLI_MARK_TEXT 160

/* An array of {"id","after","covered","kept","created_at"}, oldest first; release it with
 * json_decref(). */
enum qp_rc cli_marks_load(struct qp_context *context, const char *branch, json_t **out,
                          struct qp_err *err);
/* The newest mark behind this message, or NULL. Borrowed. */
const json_t *cli_marks_after(const json_t *marks, const struct qp_uuid *id);
/* One sentence for a person. Returns out. */
const char *cli_mark_text(const json_t *mark, char out[CLI_MARK_TEXT]);

#endif

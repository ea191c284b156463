/* diff.h - two texts as a unified diff, for people who decide about a change. */
#ifndef QP_TOOL_DIFF_H
#define QP_TOOL_DIFF_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends the diff from `before` to `after` to *out: hunks with three lines of context, as
 * "diff -u" prints them, under "--- a/NAME" and "+++ b/NAME" ("/dev/null" for a file that does not
 * exist: `made`, `gone`). Nothing is appended if the texts are equal. *cut: it was longer than
 * `limit` bytes, and ends after a whole line. The time is O(n d) for n lines and d changed lines;
 * where more than a few thousand lines change, they are shown as replaced. QP_NOMEM. */
enum qp_rc qp__diff_unified(struct qp__buf *out, const char *name, struct qp_bytes before,
                            struct qp_bytes after, bool made, bool gone, size_t limit, bool *cut);

/* Whether a text cannot be shown: it has a NUL byte or is not UTF-8. */
bool qp__diff_is_binary(struct qp_bytes text);

#endif

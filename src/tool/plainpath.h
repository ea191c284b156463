/* plainpath.h - paths as text, made plain, so that a rule of a policy sees one spelling of each.
 *
 * Nothing is looked up in a file system: these may be the paths of an MCP server on another
 * machine. So links are not resolved. */
#ifndef QP_TOOL_PLAINPATH_H
#define QP_TOOL_PLAINPATH_H

#include <stdbool.h>

#include "quipu.h"

#define QP__PLAIN_MAX 8192 /* with its NUL */

/* Where relative paths begin: the workspace. Both NULL: unknown. */
struct qp__plain_root {
  const char *path; /* absolute, as it was given */
  const char *real; /* the same without links; NULL: unknown */
};

/* Without ".", "..", "//" and a '/' at the end. A path inside the root is relative to it ("." is
 * the root itself), any other path is absolute. Without a root, a path that leads out begins with
 * "..". Of an address such as https://host/path only the part after the host changes. False: too
 * long. */
bool qp__plain_path(const struct qp__plain_root *root, const char *path, char out[QP__PLAIN_MAX]);

/* The same of what a tool may understand by it: file: addresses are paths, %2e is '.', '\' is '/'.
 * False: it is too long. */
bool qp__plain_decoded(const struct qp__plain_root *root, const char *path,
                       char out[QP__PLAIN_MAX]);

#endif

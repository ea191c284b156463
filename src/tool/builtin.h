/* builtin.h - the built-in tools: read_file, list_directory, grep, glob, write_file, edit_file,
 * delete_file and run_command, all inside the workspace. docs/tools.md describes them. */
#ifndef QP_TOOL_BUILTIN_H
#define QP_TOOL_BUILTIN_H

#include "quipu.h"

struct qp__tools;
struct qp__tools_options;

/* Adds them as a source; the tools must have a workspace. `inside` is the hidden path that it
 * holds, or NULL. */
enum qp_rc qp__builtin_add(struct qp__tools *tools, const struct qp__tools_options *options,
                           const char *inside, struct qp_err *err);

#endif

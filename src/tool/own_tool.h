/* own_tool.h - tools of the embedding program as a source (quipu/tools.h). */
#ifndef QP_TOOL_OWN_TOOL_H
#define QP_TOOL_OWN_TOOL_H

#include "quipu/tools.h"

struct qp__tools;

/* Adds a tool, on the loop's thread. QP_EXISTS; QP_INVALID: name or schema. */
enum qp_rc qp__own_tool_add(struct qp__tools *tools, const struct qp_tool_spec *spec,
                            struct qp_err *err);

#endif

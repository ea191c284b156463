/* policy_arg.h - whether one argument of a call matches a pattern of a rule; see policy.h for what
 * must hold. */
#ifndef QP_TOOL_POLICY_ARG_H
#define QP_TOOL_POLICY_ARG_H

#include "tool/policy.h"

/* For rules that deny or ask. */
bool qp__arg_matches_wide(const struct qp__policy_call *call, const char *name,
                          const char *pattern);
/* For rules that allow. */
bool qp__arg_matches_narrow(const struct qp__policy_call *call, const char *name,
                            const char *pattern);

/* Whether an argument is a path or a command, so that a rule that allows must name it. */
bool qp__arg_matters(const struct qp__policy_call *call, const char *name, const json_t *value);
/* Whether an argument that is a path by its name has a name with a dot at its front in it. */
bool qp__arg_has_dots(const struct qp__policy_call *call, const char *name, const json_t *value);

#endif

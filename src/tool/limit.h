/* limit.h - a tool's answer, cut to the length that its reader bears. */
#ifndef QP_TOOL_LIMIT_H
#define QP_TOOL_LIMIT_H

#include <jansson.h>
#include <stdbool.h>

/* Takes `value` and returns it when it is short enough, else one that is: the beginning of a text
 * and a note; of a list of content blocks (MCP) those that fit, the text blocks cut; of any other
 * value the beginning of its JSON as text. The note comes on top of `limit`. *cut is set when
 * something is missing. NULL: no memory, or `value` was NULL. */
json_t *qp__limit_value(json_t *value, size_t limit, bool *cut);

#endif

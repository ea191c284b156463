/* limit.h - cuts the answer of a tool to a maximum length. */
#ifndef QP_TOOL_LIMIT_H
#define QP_TOOL_LIMIT_H

#include <jansson.h>
#include <stdbool.h>

/* Owns `value` from now on. Returns it if it is short enough, otherwise a shorter value: the
 * beginning of a text and a note; of a list of content blocks (MCP) the blocks that fit, with text
 * blocks cut; of any other value the beginning of its JSON as text. The note is added on top of
 * `limit`. *cut is set when something was left out. NULL: out of memory, or `value` was NULL. */
json_t *qp__limit_value(json_t *value, size_t limit, bool *cut);

#endif

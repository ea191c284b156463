/* client_tool.h - tools that a client runs itself. They are offered to the model; a call waits
 * until the client submits the result (docs/tools.md).
 *
 * A list of tools is JSON. It is in "config.tools" of the metadata. A turn that was started with
 * its own list has that in "turn_tools", and uses it instead:
 *   [{"name":"get_weather","description":"…","parameters":{JSON Schema of an object},
 *     "strict":false}] */
#ifndef QP_MODEL_CLIENT_TOOL_H
#define QP_MODEL_CLIENT_TOOL_H

#include "model/meta.h"

#define QP__CLIENT_TOOLS_MAX 128
#define QP__CLIENT_TOOLS_BYTES ((size_t)256 << 10) /* of the list as JSON */
#define QP__TURN_TOOLS "turn_tools"

/* QP_INVALID, with the path of the wrong field; QP_TOOBIG. `what` begins the message. */
enum qp_rc qp__client_tools_check(const char *what, const json_t *tools, struct qp_err *err);
/* The list for the present turn, or NULL. Borrowed. */
const json_t *qp__client_tools_get(const struct qp__meta *m);
/* NULL: no tool has that name. Borrowed. */
const json_t *qp__client_tool_find(const json_t *tools, const char *name);

#endif

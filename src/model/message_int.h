/* message_int.h - shared by message.c, message_json.c and toolcall.c.
 *
 * Only the put functions add to a message: they copy strings into its arena and take their own
 * reference to every value. Their input must have been checked. After a failure the message is
 * unchanged. */
#ifndef QP_MODEL_MESSAGE_INT_H
#define QP_MODEL_MESSAGE_INT_H

#include "model/field.h"
#include "model/message.h"

/* No limit here: callers decide how much a message holds in memory, and the store checks the
 * encoded size when it saves the message. */
#define QP__MESSAGE_BUF_MAX (SIZE_MAX / 4)

/* QP_INVALID "`what` is not valid UTF-8" or "… is missing". */
enum qp_rc qp__message_check_str(const char *what, const char *s, struct qp_err *err);

/* `extra` may be NULL; for QP_PART_OTHER it is the part itself. */
enum qp_rc qp__message_put_part(struct qp_message *m, const struct qp_part *part, json_t *extra,
                                struct qp_err *err);
/* The JSON texts in the views are ignored; they are generated from the values. */
enum qp_rc qp__message_put_call(struct qp_message *m, const struct qp__message_call *call,
                                struct qp_err *err);
enum qp_rc qp__message_put_result(struct qp_message *m, const struct qp_tool_result *view,
                                  json_t *value, json_t *extra, struct qp_err *err);

/* `tool_calls` and `tool_result` are the values of the fields of those names. */
enum qp_rc qp__tool_calls_decode(const char *what, const json_t *tool_calls, struct qp_message *m,
                                 struct qp_err *err);
enum qp_rc qp__tool_result_decode(const char *what, const json_t *tool_result, struct qp_message *m,
                                  struct qp_err *err);
/* New values; NULL: out of memory. */
json_t *qp__tool_calls_encode(const struct qp_message *m);
json_t *qp__tool_result_encode(const struct qp_message *m);

#endif

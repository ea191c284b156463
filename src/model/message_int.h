/* message_int.h - what message.c, message_json.c and toolcall.c share.
 *
 * The put functions are the only ones that add to a message: they copy the strings into its arena
 * and take a reference of their own to every value. What they are given must have been checked.
 * When they fail the message says what it said before. */
#ifndef QP_MODEL_MESSAGE_INT_H
#define QP_MODEL_MESSAGE_INT_H

#include "model/field.h"
#include "model/message.h"

extern const struct qp__names qp__role_names;
extern const struct qp__names qp__type_names;
extern const struct qp__names qp__approval_names;
extern const struct qp__names qp__display_names;

/* No limit of its own: what a message holds in memory is the caller's choice, and the store checks
 * the encoded size when it is saved. */
#define QP__MESSAGE_BUF_MAX (SIZE_MAX / 4)

/* QP_INVALID "`what` is not valid UTF-8" or "… is missing". */
enum qp_rc qp__message_check_str(const char *what, const char *s, struct qp_err *err);

/* `extra` may be NULL; of QP_PART_OTHER it is the part itself. */
enum qp_rc qp__message_put_part(struct qp_message *m, const struct qp_part *part, json_t *extra,
                                struct qp_err *err);
/* The JSON texts of the views are ignored: they are made from the values. */
enum qp_rc qp__message_put_call(struct qp_message *m, const struct qp__tool_call *call,
                                struct qp_err *err);
enum qp_rc qp__message_put_result(struct qp_message *m, const struct qp_tool_result *view,
                                  json_t *value, json_t *extra, struct qp_err *err);

/* `tool_calls` and `tool_result` are the fields of those names. */
enum qp_rc qp__tool_calls_decode(const char *what, const json_t *tool_calls, struct qp_message *m,
                                 struct qp_err *err);
enum qp_rc qp__tool_result_decode(const char *what, const json_t *tool_result, struct qp_message *m,
                                  struct qp_err *err);
/* New values; NULL: no memory. */
json_t *qp__tool_calls_encode(const struct qp_message *m);
json_t *qp__tool_result_encode(const struct qp_message *m);

#endif

/* quipu/message.h - messages in memory: making, reading and changing them. Saving and loading is in
 * quipu/context.h. The rules of quipu.h hold here; a message belongs to one thread at a time. */
#ifndef QUIPU_MESSAGE_H
#define QUIPU_MESSAGE_H

#include "quipu/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qp_message;

enum qp_role { QP_ROLE_SYSTEM, QP_ROLE_USER, QP_ROLE_ASSISTANT, QP_ROLE_TOOL };
enum qp_message_type {
  QP_TYPE_TEXT,
  QP_TYPE_PLAN,
  QP_TYPE_QUESTION,
  QP_TYPE_TOOL_CALL,
  QP_TYPE_TOOL_RESULT,
};
enum qp_approval { QP_APPROVAL_PENDING, QP_APPROVAL_APPROVED, QP_APPROVAL_DENIED };
enum qp_display { QP_DISPLAY_DEFAULT, QP_DISPLAY_COLLAPSIBLE, QP_DISPLAY_HIDDEN };
enum qp_part_kind {
  QP_PART_TEXT,
  QP_PART_IMAGE,
  QP_PART_THINKING,
  QP_PART_OTHER, /* unknown to this version; it is stored unchanged */
};

/* The names in the stored form: "user", "tool_call", "Approved", "Collapsible". */
QP_API const char *qp_role_name(enum qp_role role);
QP_API const char *qp_message_type_name(enum qp_message_type type);
QP_API const char *qp_approval_name(enum qp_approval approval);
QP_API const char *qp_display_name(enum qp_display display);
/* QP_INVALID: the name is unknown; the sentence lists the names. */
QP_API QP_MUST_CHECK enum qp_rc qp_role_parse(const char *name, enum qp_role *out,
                                              struct qp_err *err);

struct qp_part {
  enum qp_part_kind kind;
  struct qp_bytes text;  /* of QP_PART_TEXT and QP_PART_THINKING */
  const char *url;       /* of QP_PART_IMAGE */
  const char *detail;    /* of QP_PART_IMAGE, or NULL */
  const char *signature; /* of QP_PART_THINKING, or NULL */
};

struct qp_tool_call {
  const char *id;
  const char *tool_name;
  const char *arguments_json; /* any JSON value */
  enum qp_approval approval;
  enum qp_display display;
  const char *ui_hints_json; /* a JSON object, or NULL */
};

struct qp_tool_result {
  const char *request_id;  /* the id of the call */
  const char *result_json; /* any JSON value */
  bool is_error;
  enum qp_display display;
};

/* ---- making ---- */

/* A new message without content. Release *out with qp_message_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_message_new(enum qp_role role, struct qp_message **out,
                                               struct qp_err *err);
/* A new message with one text part. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_new_text(enum qp_role role, struct qp_bytes text,
                                                    struct qp_message **out, struct qp_err *err);
/* Decodes the stored form of a message, the short form {"role": …, "text": …}, or a message as the
 * APIs of OpenAI and Anthropic have it, with at most one tool result. Unknown fields
 * are kept, and qp_message_json() writes them again. QP_INVALID: the sentence names the wrong
 * field. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_parse(struct qp_bytes json, struct qp_message **out,
                                                 struct qp_err *err);
/* The same for a message in the form of OpenAI or Anthropic, which can be several messages here: a
 * tool result is a message of its own. *count messages are in `out`, which has room for `max`. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_parse_all(struct qp_bytes json, struct qp_message **out,
                                                     size_t max, size_t *count, struct qp_err *err);
/* NULL is allowed. */
QP_API void qp_message_free(struct qp_message *message);

/* Encodes a message as one line of JSON without a line break. Release *out with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_message_json(const struct qp_message *message, char **out,
                                                size_t *len, struct qp_err *err);

/* ---- changing ---- */

/* Strings are copied. QP_INVALID: a text is not UTF-8 or not the JSON that it must be. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_add_part(struct qp_message *message,
                                                    const struct qp_part *part, struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_message_add_tool_call(struct qp_message *message,
                                                         const struct qp_tool_call *call,
                                                         struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_message_set_tool_result(struct qp_message *message,
                                                           const struct qp_tool_result *result,
                                                           struct qp_err *err);
QP_API void qp_message_set_type(struct qp_message *message, enum qp_message_type type);
QP_API void qp_message_set_created_at(struct qp_message *message, int64_t ms);
/* The id that the message shall get. Without it, saving chooses one. */
QP_API void qp_message_set_id(struct qp_message *message, const struct qp_uuid *id);
/* The message that this one must follow. Saving returns QP_CONFLICT when the head of the branch is
 * another message. Without it, the message follows the head. */
QP_API void qp_message_set_parent(struct qp_message *message, const struct qp_uuid *parent);
/* Token counts, cost and so on: a JSON object, which is stored unchanged. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_set_metadata(struct qp_message *message,
                                                        const char *json, struct qp_err *err);

/* ---- reading ---- */

/* Strings are borrowed until the message is changed or freed. */
QP_API struct qp_uuid qp_message_id(const struct qp_message *message);
QP_API struct qp_uuid qp_message_parent(const struct qp_message *message);
QP_API enum qp_role qp_message_role(const struct qp_message *message);
QP_API enum qp_message_type qp_message_type(const struct qp_message *message);
/* 0: not set; saving sets it. */
QP_API int64_t qp_message_created_at(const struct qp_message *message);
QP_API size_t qp_message_part_count(const struct qp_message *message);
QP_API struct qp_part qp_message_part(const struct qp_message *message, size_t i);
QP_API size_t qp_message_tool_call_count(const struct qp_message *message);
QP_API struct qp_tool_call qp_message_tool_call(const struct qp_message *message, size_t i);
/* False: the message has no tool result, and *out is unchanged. */
QP_API bool qp_message_tool_result(const struct qp_message *message, struct qp_tool_result *out);
/* The object of qp_message_set_metadata() as JSON, "{}" when there is no metadata. Release *out
 * with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_message_metadata(const struct qp_message *message, char **out,
                                                    size_t *len, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

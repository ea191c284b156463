/* message.h - one message: its role, its content, the tools that it calls or a tool result.
 *
 * Stored form, one line of JSON with these keys in this order (absent ones are omitted):
 *   {"id":"…","parent_id":"…"|null,"role":"user","type":"text",
 *    "created_at":"2026-11-15T19:55:40.123Z",
 *    "content":[{"type":"text","text":"…"},{"type":"image","url":"…","detail":"…"},
 *               {"type":"thinking","text":"…","signature":"…"}],
 *    "tool_calls":[{"id":"…","tool_name":"…","arguments":…,"approval_status":"Pending",
 *                   "display_preference":"Default","ui_hints":{…}}],
 *    "tool_result":{"request_id":"…","result":…,"is_error":false,"display_preference":"Default"},
 *    "metadata":{…}, …unknown fields in the order of the input}
 * Unknown fields are kept at every level: in the message, in a part, in a tool call, in the result;
 * a part of an unknown "type" is kept unchanged. Short form accepted on input:
 * {"role":"user","text":"hi"}.
 *
 * Strings are in the arena of the message; a message belongs to one thread at a time. */
#ifndef QP_MODEL_MESSAGE_H
#define QP_MODEL_MESSAGE_H

#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/field.h"
#include "quipu.h"

struct qp__part_data {
  struct qp_part view;
  json_t *extra; /* unknown fields, or NULL; for QP_PART_OTHER: the whole part */
};

struct qp__message_call {
  struct qp_tool_call view;
  json_t *arguments; /* the value of view.arguments_json */
  json_t *ui_hints;  /* object or NULL */
  json_t *extra;     /* unknown fields, or NULL */
};

struct qp_message {
  struct qp__arena arena;
  struct qp_uuid id;     /* zeros until it is set or saved */
  struct qp_uuid parent; /* zeros: no parent, or not given */
  bool has_parent;       /* the caller named a parent, or null for "no parent" */
  bool has_type;         /* a type was given; otherwise it is derived from the content */
  enum qp_role role;
  enum qp_message_type type;
  int64_t created_at; /* 0: not set */
  struct qp__part_data *parts;
  size_t part_count, part_cap;
  struct qp__message_call *calls;
  size_t call_count, call_cap;
  bool has_result;
  struct qp_tool_result result;
  json_t *result_value; /* the value of result.result_json */
  json_t *result_extra; /* unknown fields, or NULL */
  json_t *metadata;     /* object or NULL */
  json_t *extra;        /* unknown fields, or NULL */
};

/* Like qp_message_parse; `what` begins the error message ("line 3", "message 0192…"). */
enum qp_rc qp__message_decode(const char *what, struct qp_bytes json, struct qp_message **out,
                              struct qp_err *err);
/* qp_message_parse_all of a parsed object; parts of it are shared. */
enum qp_rc qp__messages_from_input(const json_t *root, struct qp_message **out, size_t max,
                                   size_t *count, struct qp_err *err);
/* Messages in the form of OpenAI (tool_calls with "function", tool_call_id, image_url …) and of
 * Anthropic (blocks tool_use, tool_result, thinking, image with "source") are converted to our
 * form: *out is a new array. A message with several tool results becomes several messages; a
 * message in our form is not changed. */
enum qp_rc qp__message_translate(const json_t *root, json_t **out, struct qp_err *err);
/* qp__message_decode of an object of at most QP__JSON_DEPTH levels; parts of it are shared. */
enum qp_rc qp__message_from_value(const char *what, const json_t *root, struct qp_message **out,
                                  struct qp_err *err);
/* The stored form as a new value that shares parts with the message; NULL: out of memory. */
json_t *qp__message_to_value(const struct qp_message *m);
/* Appends the stored form without a newline. */
enum qp_rc qp__message_encode(const struct qp_message *m, struct qp__buf *out, struct qp_err *err);

/* A new message with the same content that shares nothing with the original, so another thread may
 * own it. Unlike the stored form it also keeps has_parent. */
enum qp_rc qp__message_clone(const struct qp_message *m, struct qp_message **out,
                             struct qp_err *err);

/* The given type, or the type derived from the content: tool_result if it has a result, tool_call
 * if it has calls, otherwise text. */
enum qp_message_type qp__message_effective_type(const struct qp_message *m);
/* metadata.tokens.completion_tokens, otherwise metadata.tokens.prompt_tokens, otherwise 0; limited
 * to 32 bits. */
uint32_t qp__message_tokens(const struct qp_message *m);

/* The stored names of enum constants; roles are accepted in any letter case ("User"). */
extern const struct qp__name_set qp__role_names;
extern const struct qp__name_set qp__type_names;
extern const struct qp__name_set qp__approval_names;
extern const struct qp__name_set qp__display_names;
extern const struct qp__name_set qp__status_names;

#endif

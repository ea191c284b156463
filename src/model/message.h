/* message.h - one message: who said it, what it holds, which tools it calls or answers.
 *
 * Stored form, one line of JSON with these keys in this order (absent ones are left out):
 *   {"id":"…","parent_id":"…"|null,"role":"user","type":"text",
 *    "created_at":"2026-11-15T19:55:40.123Z",
 *    "content":[{"type":"text","text":"…"},{"type":"image","url":"…","detail":"…"},
 *               {"type":"thinking","text":"…","signature":"…"}],
 *    "tool_calls":[{"id":"…","tool_name":"…","arguments":…,"approval_status":"Pending",
 *                   "display_preference":"Default","ui_hints":{…}}],
 *    "tool_result":{"request_id":"…","result":…,"is_error":false,"display_preference":"Default"},
 *    "metadata":{…}, …unknown fields in the order in which they came}
 * Unknown fields are kept at every level: in the message, in a part, in a tool call, in the result;
 * a part of unknown "type" is kept whole. Short form accepted on input:
 * {"role":"user","text":"hi"}.
 *
 * Strings live in the message's arena; a message belongs to one thread at a time. */
#ifndef QP_MODEL_MESSAGE_H
#define QP_MODEL_MESSAGE_H

#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "quipu.h"

struct qp__part {
  struct qp_part view;
  json_t *extra; /* unknown fields, or NULL; of QP_PART_OTHER: the whole part */
};

struct qp__tool_call {
  struct qp_tool_call view;
  json_t *arguments; /* what view.arguments_json says, as a value */
  json_t *ui_hints;  /* object or NULL */
  json_t *extra;     /* unknown fields, or NULL */
};

struct qp_message {
  struct qp__arena arena;
  struct qp_uuid id;     /* none until it is saved or set */
  struct qp_uuid parent; /* none: a root, or not said */
  bool has_parent;       /* the caller said which parent it wants (also "none", i.e. null) */
  bool has_type;         /* a type was given; else it follows from the content when encoded */
  enum qp_role role;
  enum qp_message_type type;
  int64_t created_at; /* 0: not set */
  struct qp__part *parts;
  size_t part_count, part_cap;
  struct qp__tool_call *calls;
  size_t call_count, call_cap;
  bool has_result;
  struct qp_tool_result result;
  json_t *result_value; /* what result.result_json says */
  json_t *result_extra; /* unknown fields, or NULL */
  json_t *metadata;     /* object or NULL */
  json_t *extra;        /* unknown fields, or NULL */
};

/* As qp_message_parse; `what` begins the sentence of a failure ("line 3", "message 0192…"). */
enum qp_rc qp__message_decode(const char *what, struct qp_bytes json, struct qp_message **out,
                              struct qp_err *err);
/* The same from a value, an object no deeper than QP__JSON_DEPTH; parts of it are shared. */
enum qp_rc qp__message_from_value(const char *what, const json_t *root, struct qp_message **out,
                                  struct qp_err *err);
/* The stored form as a new value that shares parts with the message; NULL: no memory. */
json_t *qp__message_to_value(const struct qp_message *m);
/* Appends the stored form without a newline. */
enum qp_rc qp__message_encode(const struct qp_message *m, struct qp__buf *out, struct qp_err *err);

/* A new message with the same content that shares nothing with the first, so that it may belong to
 * another thread. Unlike the stored form it also keeps whether a parent was named. */
enum qp_rc qp__message_clone(const struct qp_message *m, struct qp_message **out,
                             struct qp_err *err);

/* The type given, or what follows from the content: a result: tool_result, calls: tool_call, else
 * text. */
enum qp_message_type qp__message_effective_type(const struct qp_message *m);
/* metadata.tokens.completion_tokens, else metadata.tokens.prompt_tokens, else 0; clamped to 32
 * bits. */
uint32_t qp__message_tokens(const struct qp_message *m);

/* Table lookups on names as stored. False: no such name. Roles are accepted in any case
 * ("User"). */
bool qp__role_find(const char *name, size_t len, enum qp_role *out);
bool qp__type_find(const char *name, size_t len, enum qp_message_type *out);
bool qp__status_find(const char *name, size_t len, enum qp_message_status *out);

#endif

/* session.h - the line of a session in sessions/index.jsonl, and the lines of its messages.
 *
 * Line of a session, keys in this order, then unknown keys:
 *   {"id":"abc","agent_id":null,"source":null,"title":"Hello","message_count":2,"chunk_count":1,
 *    "chunk_size":512,"created_at":"2026-11-15T19:55:40.123Z","updated_at":"…",
 *    "quipu_sum":"…"}
 * Line of a deleted session:
 *   {"id":"abc","deleted":true,"quipu_sum":"…"}
 * Only "id" is required when a line is read. If "chunk_size" is missing, an old "max_history" is
 * used instead. Times without a zone are UTC; an invalid time is 0. "created_at" is always written
 * as it was read.
 *
 * Line of a message, keys in this order, including nulls, then unknown keys:
 *   {"timestamp":"2026-11-15T19:55:40.123Z","role":"user","content":"Hello","tool_calls":null,
 *    "tool_call_id":null,"quipu_sum":"…"}
 * "quipu_sum" is the checksum of a line (base/seal.h); it is not a field of a session or a
 * message. */
#ifndef QP_MODEL_SESSION_H
#define QP_MODEL_SESSION_H

#include <jansson.h>

#include "base/buf.h"
#include "quipu.h"

#define QP__SESSION_ID_MAX 128
#define QP__SESSION_TEXT_MAX 1024 /* bytes of agent_id, source and a given title */
#define QP__SESSION_TITLE 50      /* characters of a generated title */
#define QP__SESSION_CHUNK 512     /* the default chunk size */

struct qp__session {
  char *id;
  char *agent_id; /* or NULL, as the next two */
  char *source;
  char *title;
  uint64_t messages;
  uint32_t chunks;
  uint32_t chunk_size;
  int64_t created_at;
  int64_t updated_at;
  char *created_text; /* the original "created_at" if it is not in our form, otherwise NULL */
  json_t *extra;      /* unknown fields, or NULL */
  bool deleted;
};

/* QP_INVALID: empty, too long, bad UTF-8, control characters or '/'. */
enum qp_rc qp__session_id_check(const char *id, struct qp_err *err);

/* A new session, checked; spec->id must not be NULL. */
enum qp_rc qp__session_new(const struct qp_session_spec *spec, int64_t now,
                           struct qp__session **out, struct qp_err *err);
void qp__session_free(struct qp__session *s);                         /* NULL is allowed */
struct qp_session_info qp__session_view(const struct qp__session *s); /* borrowed */

/* Decodes one line without its newline. QP_INVALID: not the line of a session. */
enum qp_rc qp__session_decode(struct qp_bytes line, struct qp__session **out, struct qp_err *err);
/* Appends a line with its checksum and its newline. `before` is the checksum of the line before it
 * (base/seal.h); *sum receives the checksum of this line. */
enum qp_rc qp__session_encode(const struct qp__session *s, uint32_t before, struct qp__buf *out,
                              uint32_t *sum, struct qp_err *err);
enum qp_rc qp__session_encode_deletion(const char *id, uint32_t before, struct qp__buf *out,
                                       uint32_t *sum, struct qp_err *err);

/* Appends a new value as a line with its checksum and releases it. NULL means that building it ran
 * out of memory. */
enum qp_rc qp__session_write_line(const char *what, json_t *value, uint32_t before,
                                  struct qp__buf *out, uint32_t *sum, struct qp_err *err);

/* ---- messages ---- */

struct qp__session_message {
  enum qp_role role;
  char *title;  /* the first characters of a user message, otherwise NULL; qp__free */
  int64_t time; /* 0: no valid time */
};

/* Checks a message and appends its stored line with a newline to *out. The checksum is that of a
 * first line: a caller that knows the line before it computes the checksum again. Sets `title` and
 * `time` of *info. */
enum qp_rc qp__session_message_encode(struct qp_bytes json, int64_t now, struct qp__buf *out,
                                      struct qp__session_message *info, struct qp_err *err);
/* Checks a stored line: QP_INVALID if it is not a message. `all`: sets title and time too. */
enum qp_rc qp__session_message_look(struct qp_bytes line, bool all,
                                    struct qp__session_message *info, struct qp_err *err);

/* RFC 3339, or the same without a zone, which means UTC. */
enum qp_rc qp__session_time(const char *s, size_t n, int64_t *ms);

#endif

/* session.h - a session as its line in sessions/index.jsonl says it, and the lines of its messages.
 *
 * Line of a session, keys in this order, unknown ones behind them:
 *   {"id":"abc","agent_id":null,"source":null,"title":"Hello","message_count":2,"chunk_count":1,
 *    "chunk_size":512,"created_at":"2026-11-15T19:55:40.123Z","updated_at":"…",
 *    "quipu_sum":"…"}
 * of one that is deleted:
 *   {"id":"abc","deleted":true,"quipu_sum":"…"}
 * Only "id" must be there when a line is read. Without "chunk_size" an old "max_history" counts as
 * it. Times without a zone are taken as UTC; one that is no time is 0. What a line says of its
 * creation is written again as it was, whatever its form.
 *
 * Line of a message, keys in this order, nulls written, unknown ones behind them:
 *   {"timestamp":"2026-11-15T19:55:40.123Z","role":"user","content":"Hello","tool_calls":null,
 *    "tool_call_id":null,"quipu_sum":"…"}
 * "quipu_sum" is the checksum of a line (base/seal.h) and no field of a session or a message. */
#ifndef QP_MODEL_SESSION_H
#define QP_MODEL_SESSION_H

#include <jansson.h>

#include "base/buf.h"
#include "quipu.h"

#define QP__SESSION_ID_MAX 128
#define QP__SESSION_TEXT_MAX 1024 /* of agent_id, source and a title that is given */
#define QP__SESSION_TITLE 50      /* characters of a title that is made */
#define QP__SESSION_CHUNK 512     /* the chunk size where none is said */

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
  char *created_text; /* of a line whose "created_at" is not in our form, else NULL */
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

/* One line without its newline. QP_INVALID: not the line of a session. */
enum qp_rc qp__session_decode(struct qp_bytes line, struct qp__session **out, struct qp_err *err);
/* Appends a line with its checksum and its newline. `before` is the checksum of the line before it
 * (base/seal.h); *sum receives its own. */
enum qp_rc qp__session_encode(const struct qp__session *s, uint32_t before, struct qp__buf *out,
                              uint32_t *sum, struct qp_err *err);
enum qp_rc qp__session_encode_deletion(const char *id, uint32_t before, struct qp__buf *out,
                                       uint32_t *sum, struct qp_err *err);

/* ---- messages ---- */

struct qp__session_message {
  enum qp_role role;
  char *title;  /* a user's message: its first characters; else NULL. qp__free */
  int64_t time; /* 0: none that is one */
};

/* Checks a message that is to be appended and appends its stored line with a newline to *out. Its
 * checksum is that of a first line: whoever knows the line before it computes it again. `title` and
 * `time` of *info are set. */
enum qp_rc qp__session_message_encode(struct qp_bytes json, int64_t now, struct qp__buf *out,
                                      struct qp__session_message *info, struct qp_err *err);
/* Looks at a stored line: QP_INVALID when it is no message. With `all`, title and time too. */
enum qp_rc qp__session_message_look(struct qp_bytes line, bool all,
                                    struct qp__session_message *info, struct qp_err *err);

/* RFC 3339, or the same without a zone, which counts as UTC. */
enum qp_rc qp__session_time(const char *s, size_t n, int64_t *ms);

#endif

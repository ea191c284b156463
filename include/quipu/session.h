/* quipu/session.h - sessions: linear histories for bots, stored as chunks of JSON lines
 * (docs/formats.md). The rules of quipu.h hold here.
 *
 * The id of a session has 1 to 128 bytes of UTF-8 without control characters and without '/'. */
#ifndef QUIPU_SESSION_H
#define QUIPU_SESSION_H

#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qp_session_spec {
  size_t size;
  const char *id;       /* NULL: a new id is made */
  const char *agent_id; /* may be NULL */
  const char *source;   /* may be NULL */
  const char *title;    /* NULL: the first 50 characters of the first user message */
  uint32_t chunk_size;  /* messages per file; 0: 512 */
};

struct qp_session_info {
  const char *id;
  const char *agent_id; /* or NULL */
  const char *source;   /* or NULL */
  const char *title;    /* or NULL */
  uint64_t messages;
  uint32_t chunks;     /* number of the newest chunk file */
  uint32_t chunk_size; /* of future chunks */
  int64_t created_at;
  int64_t updated_at;
};

/* Creates a session. *id (may be NULL) receives its id; release it with qp_free(). QP_EXISTS: the
 * id is in use. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_create(struct qp_store *store,
                                                  const struct qp_session_spec *spec, char **id,
                                                  struct qp_err *err);
/* Appends one message and returns when it is durable. `json` is an object {"role", "content",
 * "timestamp", "tool_calls", "tool_call_id", …}. "role" and "content" are required, the default of
 * "timestamp" is now, and unknown fields are kept. The cost does not depend on the number of
 * messages. QP_NOTFOUND: the session does not exist. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_append(struct qp_store *store, const char *id,
                                                  struct qp_bytes json, struct qp_err *err);
/* `json` is the stored line. */
typedef enum qp_rc qp_session_message_visit(void *arg, struct qp_bytes json);

struct qp_session_reading {
  uint64_t messages;  /* that were visited */
  uint64_t bad_lines; /* invalid lines in the chunks that were read; they were skipped */
};
/* Visits the last `max_history` messages, oldest first. Results of tools at the beginning whose
 * call is not among these messages are skipped. 0 visits nothing. A session that does not exist is
 * empty. *out may be NULL. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_read(struct qp_store *store, const char *id,
                                                uint64_t max_history,
                                                qp_session_message_visit *visit, void *arg,
                                                struct qp_session_reading *out, struct qp_err *err);
/* Changes the number of messages per file for future chunks. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_set_chunk_size(struct qp_store *store, const char *id,
                                                          uint32_t chunk_size, struct qp_err *err);
typedef enum qp_rc qp_session_visit(void *arg, const struct qp_session_info *session);
/* Calls `visit` once. QP_NOTFOUND: the session does not exist. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_get(struct qp_store *store, const char *id,
                                               qp_session_visit *visit, void *arg,
                                               struct qp_err *err);
/* Visits all sessions, the one that changed last first. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_list(struct qp_store *store, qp_session_visit *visit,
                                                void *arg, struct qp_err *err);
/* Deletes a session. Its text may remain in the journal for a while. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_delete(struct qp_store *store, const char *id,
                                                  struct qp_err *err);
/* Deletes a session, and returns when no file of the store holds its text any more. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_erase(struct qp_store *store, const char *id,
                                                 struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

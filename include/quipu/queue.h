/* quipu/queue.h - messages that wait until the running turn of their context ends. Not in
 * libquipu-store. The rules of quipu.h hold here.
 *
 * The queue is part of the context and durable. When a turn ends and the context is Idle, the
 * engine sends the first message by itself. Each further message follows after the turn of the one
 * before it.
 * After a failed turn the queue waits: the next turn that ends well, or qp_queue_send_now(),
 * continues it. A message keeps its id when it is sent, so it is sent once, also after a crash.
 * An event "queue" reports each change.
 *
 * The functions wait for the disk. They must not be called on the engine's thread. QP_NOTFOUND:
 * there is no such context, or no such message in its queue: it was sent or dropped. */
#ifndef QUIPU_QUEUE_H
#define QUIPU_QUEUE_H

#include "quipu/turns.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QP_QUEUE_MAX 50                  /* messages per context */
#define QP_QUEUE_BYTES ((size_t)2 << 20) /* of all its messages */

struct qp_queue_spec {
  size_t size;
  struct qp_uuid context;
  struct qp_bytes text;             /* of a user message … */
  const struct qp_message *message; /* … or a whole message with the role user */
  const char *branch;               /* NULL: the branch that is active when it is sent */
  /* An idempotency key, 1 to 255 printable ASCII characters, or NULL: the same message with the
   * same key is queued once. QP_CONFLICT: the key was used for another message. */
  const char *key;
};

/* Adds a message at the end. *id (may be NULL) receives its id; *replayed (may be NULL) whether it
 * was queued before with the same key. A context that is Idle sends it at once. QP_TOOBIG: the
 * queue is full. */
QP_API QP_MUST_CHECK enum qp_rc qp_queue_add(struct qp_engine *engine,
                                             const struct qp_queue_spec *spec, struct qp_uuid *id,
                                             bool *replayed, struct qp_err *err);
/* Replaces the text of a message; its images stay. */
QP_API QP_MUST_CHECK enum qp_rc qp_queue_edit(struct qp_engine *engine,
                                              const struct qp_uuid *context,
                                              const struct qp_uuid *id, struct qp_bytes text,
                                              struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_queue_drop(struct qp_engine *engine,
                                              const struct qp_uuid *context,
                                              const struct qp_uuid *id, struct qp_err *err);
/* Makes it the first message, cancels the running turn and sends it. Returns when the order is
 * durable; the rest happens by itself. */
QP_API QP_MUST_CHECK enum qp_rc qp_queue_send_now(struct qp_engine *engine,
                                                  const struct qp_uuid *context,
                                                  const struct qp_uuid *id, struct qp_err *err);
/* The messages that wait, in their order, a JSON array:
 * [{"id","text","images":n,"branch":name|null,"created_at","error":sentence|null} …]. A message
 * with an error could not be sent, for example because its branch was deleted; editing it makes the
 * engine try again. Release *out with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_queue_list(struct qp_context *context, char **out, size_t *len,
                                              struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

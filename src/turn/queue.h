/* queue.h - the engine's side of queues (quipu/queue.h).
 *
 * The queue of a context is the field "queue" of its metadata, an array, the next message first:
 *
 *   {"id","created_at","branch"?,"error"?,"message":{"role":"user","content":[…]}}
 *
 * A message is sent with the id that it has in the queue. So the history shows whether it was sent:
 * an entry whose message exists has been sent, whatever a crash left in the queue.
 *
 * One thread at a time changes the queue of a context: it has a claim. A thread that waits for the
 * disk waits for the claim; the engine's thread tries, and is woken when the claim ends. */
#ifndef QP_TURN_QUEUE_H
#define QP_TURN_QUEUE_H

#include "base/mutex.h"
#include "quipu.h"

struct qp__actor;

struct qp__queue_claim {
  struct qp__queue_claim *next;
  struct qp_uuid context;
};

struct qp__queues {
  struct qp__mutex lock;
  pthread_cond_t ended; /* a claim */
  struct qp__queue_claim *claims;
};

void qp__queues_init(struct qp__queues *queues);
void qp__queues_release(struct qp__queues *queues);

/* The context of an actor is open and Idle, or its queue has changed: reports the change, and sends
 * the first message if it can be sent now. On the engine's thread. */
void qp__queue_attend(struct qp__actor *t);

#endif

/* event_batch.h - copies of events that a worker reads from the log for the engine's thread. */
#ifndef QP_TURN_EVENT_BATCH_H
#define QP_TURN_EVENT_BATCH_H

#include "quipu/events.h"

struct qp__event_copy {
  struct qp__event_copy *next;
  struct qp_event_info info; /* its texts are in `text` */
  char text[];
};

/* Oldest first. */
struct qp__event_batch {
  struct qp__event_copy *first, **last;
  size_t count;
  size_t bytes; /* of their JSON */
};

void qp__event_batch_init(struct qp__event_batch *list);
void qp__event_batch_release(struct qp__event_batch *list);
/* Appends a copy. QP_NOMEM. */
enum qp_rc qp__event_batch_add(struct qp__event_batch *list, const struct qp_event_info *info,
                               struct qp_err *err);

#endif

/* event_batch.h - events of a log as a worker has read them, for the engine's thread. */
#ifndef QP_TURN_EVENT_BATCH_H
#define QP_TURN_EVENT_BATCH_H

#include "quipu_events.h"

struct qp__kept {
  struct qp__kept *next;
  struct qp_event_info info; /* its texts are behind it */
  char text[];
};

/* Oldest first. */
struct qp__kept_list {
  struct qp__kept *first, **last;
  size_t count;
  size_t bytes; /* of their lines */
};

void qp__kept_init(struct qp__kept_list *list);
void qp__kept_release(struct qp__kept_list *list);
/* Copies one. QP_NOMEM. */
enum qp_rc qp__kept_add(struct qp__kept_list *list, const struct qp_event_info *info,
                        struct qp_err *err);

#endif

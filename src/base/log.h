/* log.h - the library never prints: it passes log lines to the callback of qp_store_options, if
 * there is one. Copied by value; all threads may use it at once. */
#ifndef QP_BASE_LOG_H
#define QP_BASE_LOG_H

#include "quipu.h"

struct qp__log {
  qp_log_fn *fn; /* NULL: silent */
  void *arg;
};

void qp__log(const struct qp__log *log, enum qp_log_level level, const char *feature,
             const char *fmt, ...) QP_PRINTF(4, 5);

#endif

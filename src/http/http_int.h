/* http_int.h - the running server, shared by the files of this directory. */
#ifndef QP_HTTP_HTTP_INT_H
#define QP_HTTP_HTTP_INT_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/uuid.h"
#include "http/held.h"
#include "http/keys.h"
#include "http/metrics.h"
#include "http/server.h"

struct qp__http {
  struct qp_store *store;
  struct MHD_Daemon *daemon;
  int listen_fd;
  bool exposed; /* other machines reach the address */
  atomic_bool log_access;
  atomic_bool stopping;
  char *url;
  char **origins;
  size_t origin_count;
  char **hosts;
  size_t host_count;
  struct qp__keys *keys; /* never NULL */
  struct qp__uuid_gen ids;
  size_t max_body;
  qp_log_fn *log; /* never NULL */
  void *log_arg;
  int64_t started_ms;
  struct qp__metrics metrics;
  struct qp__holds holds;

  _Atomic int64_t recovered_us; /* when recovery of the store was last tried */
  pthread_mutex_t lock;
  pthread_cond_t quiet; /* active became 0 while stopping, or waiting did */
  atomic_uint active;   /* requests whose first line has come and whose answer is not sent */
  unsigned waiting;     /* requests that are suspended (wait.h); under the lock */
};

static inline bool
qp__http_stopping(const struct qp__http *http)
{
  return atomic_load_explicit(&http->stopping, memory_order_relaxed);
}

#endif

/* http_int.h - the running server, shared by the files of this directory. */
#ifndef QP_HTTP_HTTP_INT_H
#define QP_HTTP_HTTP_INT_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/uuid.h"
#include "http/connection.h"
#include "http/face/prefix.h"
#include "http/forward.h"
#include "http/job.h"
#include "http/keys.h"
#include "http/listen.h"
#include "http/metrics.h"
#include "http/open_contexts.h"
#include "http/quota.h"
#include "http/server.h"
#include "http/settings.h"
#include "http/stream.h"
#include "http/work.h"

struct qp__http {
  struct qp_store *store;
  char *data;                /* the data directory, or NULL: the store has none */
  struct qp_engine *engine;  /* NULL: no engine, or it was stopped; guarded by the lock */
  unsigned engine_users;     /* requests that use it (engine_use.h); guarded by the lock */
  struct qp__listener main;  /* the configured address */
  struct qp__listener local; /* the socket in the data directory */
  bool read_only;            /* see server.h */
  int ui_dir;                /* the directory of the page; -1: it is embedded */
  struct qp__keys *keys;     /* never NULL */
  struct qp__uuid_gen ids;
  struct qp__settings *_Atomic settings; /* current; never NULL while requests are accepted */
  unsigned timeout_s;                    /* with which libmicrohttpd was started */
  struct qp__connections connections;
  qp_log_fn *log; /* never NULL */
  void *log_arg;
  int64_t started_ms;
  _Atomic int64_t recovered_us; /* when recovery of the store was last tried */
  struct {
    pthread_mutex_t lock;
    int64_t at_us; /* 0: never */
    struct qp_err result;
  } probe; /* whether the disk has space, for readyz */
  struct qp__metrics metrics;
  struct qp__holds holds;
  struct qp__streams streams;
  struct qp__work work;
  struct qp__key_log *key_log; /* never NULL */
  struct qp__forward *forward; /* NULL: this is the only server of the store */
  struct qp__quotas quotas;
  struct qp__prefixes prefixes;
  struct qp__jobs jobs;

  atomic_bool stopping;
  bool sealed;         /* workers accept no more requests; guarded by the lock */
  atomic_uint uploads; /* that are received or imported (upload.h) */
  atomic_uint active;  /* requests whose first line was received and whose response is not sent */
  unsigned waiting;    /* requests that workers have (work.h); guarded by the lock */
  pthread_mutex_t lock;
  pthread_cond_t quiet; /* signalled when active becomes 0 while stopping, or when waiting or
                           engine_users becomes 0 */
};

#define QP__HEADER_MAX ((size_t)512 << 10) /* upper bound of all header limits */

static inline const struct qp__settings *
qp__http_settings(struct qp__http *http)
{
  return atomic_load_explicit(&http->settings, memory_order_acquire);
}

static inline bool
qp__http_stopping(const struct qp__http *http)
{
  return atomic_load_explicit(&http->stopping, memory_order_relaxed);
}

#endif

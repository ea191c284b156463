/* engine_use.c - see engine_use.h. */
#include "http/engine_use.h"

#include "base/assert.h"
#include "http/http_int.h"

struct qp_engine *
qp__turns_try(struct qp__http *http)
{
  struct qp_engine *engine;

  (void)pthread_mutex_lock(&http->lock);
  engine = http->engine;
  http->engine_users += engine != NULL;
  (void)pthread_mutex_unlock(&http->lock);
  return engine;
}

enum qp_rc
qp__turns_enter(struct qp__request *r, struct qp_engine **out, struct qp_err *err)
{
  *out = qp__turns_try(r->http);
  if (*out)
    return QP_OK;
  if (qp__http_stopping(r->http))
    return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "STOPPING", err,
                            "the server is stopping");
  return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "NO_ENGINE", err,
                          "this server runs no turns");
}

void
qp__turns_leave(struct qp__http *http)
{
  (void)pthread_mutex_lock(&http->lock);
  QP_ASSERT(http->engine_users);
  if (--http->engine_users == 0)
    (void)pthread_cond_signal(&http->quiet);
  (void)pthread_mutex_unlock(&http->lock);
}

void
qp__turns_let_go(struct qp__http *http, const struct qp_uuid *context)
{
  struct qp_engine *engine = qp__turns_try(http);

  if (!engine)
    return;
  qp_engine_release(engine, context);
  qp__turns_leave(http);
}

void
qp__turns_refresh(struct qp__http *http)
{
  struct qp_engine *engine = qp__turns_try(http);

  if (!engine)
    return;
  qp_engine_refresh(engine);
  qp__turns_leave(http);
}

void
qp__turns_stop(struct qp__http *http)
{
  struct qp_engine *engine;

  (void)pthread_mutex_lock(&http->lock);
  engine = http->engine;
  http->engine = NULL;
  while (http->engine_users)
    (void)pthread_cond_wait(&http->quiet, &http->lock);
  (void)pthread_mutex_unlock(&http->lock);
  qp_engine_stop(engine);
}

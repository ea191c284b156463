/* wait.c - see wait.h. */
#include "http/wait.h"

#include "http/http_int.h"

enum qp_rc
qp__wait_begin(struct qp__request *r, qp__handler *then, struct qp_err *err)
{
  struct qp__http *http = r->http;
  bool sealed;

  (void)pthread_mutex_lock(&http->lock);
  sealed = http->sealed;
  http->waiting += !sealed;
  (void)pthread_mutex_unlock(&http->lock);
  if (sealed)
    return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "STOPPING", err,
                            "the server is stopping");
  r->then = then;
  r->stage = QP__STAGE_WAITING;
  MHD_suspend_connection(r->connection);
  return QP_OK;
}

void
qp__wait_end(struct qp__request *r, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__http *http = r->http;

  if (rc)
    r->waited = *err;
  r->waited.rc = rc;
  MHD_resume_connection(r->connection);
  (void)pthread_mutex_lock(&http->lock); /* whoever stops the server waits for this */
  if (--http->waiting == 0)
    (void)pthread_cond_signal(&http->quiet);
  (void)pthread_mutex_unlock(&http->lock);
}

/* h_health.c - health, readiness, metrics, and the API description. */
#include "http/clock.h"
#include "http/conditional_change.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/openapi.h"

#define PROBE_US 1000000

static void
say(struct qp__request *r, const char *status)
{
  struct qp__buf *b = &r->reply.body;

  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "status", status);
  qp__emit_str(b, "version", qp_version());
  qp__emit_close(b, '}');
}

enum qp_rc
qp__h_healthz(struct qp__request *r, struct qp_err *err)
{
  (void)err;
  say(r, "ok");
  return QP_OK;
}

/* A stopped store may have recovered by now, and the disk may be full although nothing was written.
 * Both are checked at most once per second, however many requests there are. */
static enum qp_rc
try_store(struct qp__http *http, struct qp_err *why)
{
  enum qp_rc rc = qp__change_recover(http, why);
  int64_t now = qp__clock_us();

  if (rc)
    return rc;
  (void)pthread_mutex_lock(&http->probe.lock);
  if (!http->probe.at_us || now - http->probe.at_us >= PROBE_US) {
    http->probe.at_us = now;
    http->probe.result = (struct qp_err){ QP_OK, "" };
    http->probe.result.rc = qp_store_probe(http->store, &http->probe.result);
  }
  *why = http->probe.result;
  (void)pthread_mutex_unlock(&http->probe.lock);
  return why->rc;
}

enum qp_rc
qp__h_readyz(struct qp__request *r, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  enum qp_rc rc;

  if (qp__http_stopping(r->http))
    return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "STOPPING", err,
                            "the server is stopping");
  if (r->http->read_only) {
    say(r, "read-only");
    return QP_OK;
  }
  rc = try_store(r->http, &why);
  if (rc)
    return qp__request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, qp_rc_name(rc), err,
                            "the store accepts no writes: %s", why.msg);
  say(r, "ready");
  return QP_OK;
}

enum qp_rc
qp__h_metrics(struct qp__request *r, struct qp_err *err)
{
  (void)err;
  r->reply.type = "text/plain; version=0.0.4; charset=utf-8";
  qp__metrics_write(r->http, &r->reply.body);
  return QP_OK;
}

enum qp_rc
qp__h_openapi(struct qp__request *r, struct qp_err *err)
{
  const struct qp_bytes text = { (const char *)qp__openapi_json, qp__openapi_json_len };
  char etag[QP__ETAG_TEXT];

  qp__etag(etag, text);
  if (qp__etag_known(r, etag))
    r->reply.status = MHD_HTTP_NOT_MODIFIED;
  else
    (void)qp__buf_add(&r->reply.body, text.data, text.len);
  return qp__reply_etag(r, etag, err);
}

/* h_events.c - following the events of a context. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "http/handlers.h"
#include "http/open_contexts.h"
#include "http/stream.h"

#define AFTER_MAX 9007199254740991 /* every client can represent numbers up to this one exactly */

/* The number after which events are wanted: of a client that reconnects, or of the query. */
static enum qp_rc
read_after(struct qp__request *r, uint64_t *out, struct qp_err *err)
{
  const char *last = qp__request_header(r, "Last-Event-ID");
  enum qp_rc rc = qp__request_number(r, "after", 0, AFTER_MAX, out, err);

  if (rc || !last || !last[0])
    return rc;
  if (strlen(last) > 16 || strspn(last, "0123456789") != strlen(last))
    return qp__fail(err, QP_INVALID,
                    "'Last-Event-ID' is invalid: use the id of an event of this server");
  *out = strtoull(last, NULL, 10);
  return QP_OK;
}

enum qp_rc
qp__h_events(struct qp__request *r, struct qp_err *err)
{
  uint64_t after = QP_SEQ_NOW;
  enum qp_rc rc = read_after(r, &after, err);

  if (!rc)
    rc = qp__held_get(r, r->params[0], &r->held, err);
  if (!rc)
    rc = qp__stream_new(r, after, false, &r->stream, err);
  return rc; /* from here on the context may be deleted, which ends the stream */
}

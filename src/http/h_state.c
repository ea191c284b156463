/* h_state.c - polling the state of a context. */
#include "http/handlers.h"
#include "http/state.h"

static enum qp_rc
render_state(struct qp__request *r, struct qp_err *err)
{
  uint64_t last = QP__LAST_ALL;
  enum qp_rc rc = qp__request_number(r, "last", 0, 1000000, &last, err);

  if (!rc)
    rc = qp__held_get(r, r->params[0], &r->held, err);
  return rc ? rc : qp__state_answer(r, r->held, last, err);
}

/* Most polls are answered here, in the thread of the connection: the context is open, and its state
 * has been rendered. */
enum qp_rc
qp__h_state(struct qp__request *r, struct qp_err *err)
{
  struct qp__held *held;
  uint64_t last = QP__LAST_ALL;
  enum qp_rc rc = qp__request_number(r, "last", 0, 1000000, &last, err);

  if (rc)
    return rc;
  held = qp__held_find(r, r->params[0]);
  if (!held || !qp__state_quick(r, held, last))
    r->then = render_state;
  qp__held_put(held);
  return QP_OK;
}

/* h_state.c - polling. */
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/state.h"

enum qp_rc
qp__h_state(struct qp__request *r, struct qp_err *err)
{
  struct qp__held *held = NULL;
  uint64_t last = QP__LAST_ALL;
  enum qp_rc rc = qp__request_number(r, "last", 0, 1000000, &last, err);

  if (!rc)
    rc = qp__held_get(r, r->params[0], &held, err);
  if (!rc)
    rc = qp__state_answer(r, held, last, err);
  qp__held_put(held);
  return rc;
}

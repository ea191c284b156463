/* brief.c - see brief.h. */
#include "store/context/brief.h"

#include <string.h>

#include "base/err.h"
#include "model/field.h"
#include "store/context/context_int.h"

enum qp_rc
qp__brief_read(struct qp_context *context, struct qp__brief *out, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  bool ok;

  memset(out, 0, sizeof(*out));
  out->state = v->meta->state;
  out->updated_at = qp__view_time(v, &context->tree);
  ok = qp__value_copy(v->meta->state_detail, &out->state_detail) &&
       qp__value_copy(json_object_get(v->meta->extra, "pins"), &out->pins);
  qp__view_unref(v);
  if (ok)
    return QP_OK;
  qp__brief_release(out);
  return qp__fail_nomem(err, "a context");
}

void
qp__brief_release(struct qp__brief *brief)
{
  json_decref(brief->state_detail);
  json_decref(brief->pins);
  memset(brief, 0, sizeof(*brief));
}

/* brief.h - the few members of the metadata that the state of a context shows. The server reads
 * them after every change, so the whole metadata is not encoded for it. */
#ifndef QP_STORE_CONTEXT_BRIEF_H
#define QP_STORE_CONTEXT_BRIEF_H

#include <jansson.h>

#include "quipu.h"

struct qp__brief {
  enum qp_state state;
  int64_t updated_at;   /* that of struct qp_context_info */
  json_t *state_detail; /* object or NULL */
  json_t *pins;         /* as it is stored, or NULL */
};

/* All members are of one version of the metadata. Any thread may call it. */
enum qp_rc qp__brief_read(struct qp_context *context, struct qp__brief *out, struct qp_err *err);
/* A zeroed struct is allowed. */
void qp__brief_release(struct qp__brief *brief);

#endif

/* compaction_json.h - what other handlers show of compaction (quipu/compaction.h). */
#ifndef QP_HTTP_COMPACTION_JSON_H
#define QP_HTTP_COMPACTION_JSON_H

#include <jansson.h>

#include "base/buf.h"
#include "base/idset.h"
#include "http/request.h"

/* Answers what compacting the branch (NULL: the active one) now would do: nothing is changed.
 * `up_to` may be none. */
enum qp_rc qp__compact_plan_answer(struct qp__request *r, const char *branch,
                                   const struct qp_uuid *up_to, struct qp_err *err);

/* Appends the member "compactions": where the branch was cut. */
enum qp_rc qp__compact_marks_emit(struct qp_context *context, const char *branch,
                                  struct qp__buf *out, struct qp_err *err);

/* The pinned messages of a context (struct qp__brief). Release the set, after a failure too. */
enum qp_rc qp__pins_read(const json_t *pins, struct qp__idset *out, struct qp_err *err);
/* The same, read from the context. */
enum qp_rc qp__pins_load(struct qp_context *context, struct qp__idset *out, struct qp_err *err);

/* Checks the settings that a body has for a context; NULL is allowed. QP_INVALID. */
enum qp_rc qp__compact_settings_check(const json_t *settings, struct qp_err *err);

#endif

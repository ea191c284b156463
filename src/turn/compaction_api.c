/* compaction_api.c - the functions of quipu/compaction.h. */
#include "base/err.h"
#include "quipu.h"

static enum qp_rc
not_built(struct qp_err *err)
{
  return qp__fail(err, QP_MISUSE, "this version cannot compact conversations");
}

enum qp_rc
qp_compactions(struct qp_context *context, const char *branch, char **out, size_t *len,
               struct qp_err *err)
{
  (void)context;
  (void)branch;
  (void)out;
  (void)len;
  return not_built(err);
}

enum qp_rc
qp_compaction_marks(struct qp_context *context, const char *branch, char **out, size_t *len,
                    struct qp_err *err)
{
  (void)context;
  (void)branch;
  (void)out;
  (void)len;
  return not_built(err);
}

enum qp_rc
qp_engine_window(struct qp_engine *engine, struct qp_context *context, const char *branch,
                 char **out, size_t *len, struct qp_err *err)
{
  (void)engine;
  (void)context;
  (void)branch;
  (void)out;
  (void)len;
  return not_built(err);
}

enum qp_rc
qp_engine_view(struct qp_engine *engine, struct qp_context *context, const char *branch, char **out,
               size_t *len, struct qp_err *err)
{
  (void)engine;
  (void)context;
  (void)branch;
  (void)out;
  (void)len;
  return not_built(err);
}

enum qp_rc
qp_engine_compact_plan(struct qp_engine *engine, struct qp_context *context, const char *branch,
                       const struct qp_uuid *up_to, char **out, size_t *len, struct qp_err *err)
{
  (void)engine;
  (void)context;
  (void)branch;
  (void)up_to;
  (void)out;
  (void)len;
  return not_built(err);
}

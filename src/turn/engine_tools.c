/* engine_tools.c - adding a tool of the embedding program to an engine (quipu/tools.h). */
#include "base/err.h"
#include "base/sized.h"
#include "tool/own_tool.h"
#include "turn/engine.h"

/* A tool that another thread adds, and waits. */
struct adding {
  struct qp__post post; /* first */
  const struct qp_tool_spec *spec;
  struct qp_err err;
  uv_sem_t done;
};

static void
run_add(struct qp_engine *e, struct qp__post *post)
{
  struct adding *a = (struct adding *)post;

  if (e->phase == QP__ENGINE_CLOSING) /* the tools are closed */
    (void)qp__fail(&a->err, QP_STOPPED, "the engine is stopping");
  else
    a->err.rc = qp__own_tool_add(e->tools, a->spec, &a->err);
  uv_sem_post(&a->done);
}

enum qp_rc
qp_engine_add_tool(struct qp_engine *engine, const struct qp_tool_spec *spec, struct qp_err *err)
{
  struct adding a = { .post = { .run = run_add } };
  struct qp_tool_spec own;
  enum qp_rc rc = qp__sized_copy("struct qp_tool_spec", spec, &own, sizeof(own), err);

  if (rc)
    return rc;
  if (uv_sem_init(&a.done, 0))
    return qp__fail_nomem(err, "a tool");
  a.spec = &own;
  qp__engine_post(engine, &a.post);
  uv_sem_wait(&a.done);
  uv_sem_destroy(&a.done);
  return qp__fail_as(err, a.err.rc, &a.err);
}

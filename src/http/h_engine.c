/* h_engine.c - the models and tools that turns can use. */
#include "base/err.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/handlers.h"
#include "http/owner.h"

typedef enum qp_rc lister(struct qp_engine *engine, char **out, size_t *len, struct qp_err *err);

/* Adds another list to the open object, under `key`. */
static enum qp_rc
add_list(struct qp__request *r, struct qp_engine *engine, const char *key, lister *list,
         struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = list(engine, &text, &len, err);

  return qp__emit_taken(&r->reply.body, key, text, len, rc);
}

/* Adds the default model to the list, or the states of MCP servers. */
static enum qp_rc
answer_list(struct qp__request *r, const char *key, lister *list, bool with_default,
            struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  qp__emit_open(&r->reply.body, NULL, '{');
  rc = add_list(r, engine, key, list, err);
  if (!rc && with_default)
    qp__emit_str(&r->reply.body, "default", qp_engine_default_model(engine));
  else if (!rc)
    rc = add_list(r, engine, "servers", qp_engine_tool_servers, err);
  qp__emit_close(&r->reply.body, '}');
  qp__turns_leave(r->http);
  return rc;
}

enum qp_rc
qp__h_models(struct qp__request *r, struct qp_err *err)
{
  return answer_list(r, "models", qp_engine_models, true, err);
}

enum qp_rc
qp__h_tools(struct qp__request *r, struct qp_err *err)
{
  return answer_list(r, "tools", qp_engine_tools, false, err);
}

/* ---- what "always" has allowed ---- */

enum qp_rc
qp__h_rule_list(struct qp__request *r, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  rc = qp_engine_rules(engine, qp__owner(r), &text, &len, err);
  qp__turns_leave(r->http);
  qp__emit_open(&r->reply.body, NULL, '{');
  rc = qp__emit_taken(&r->reply.body, "rules", text, len, rc);
  qp__emit_close(&r->reply.body, '}');
  return rc;
}

enum qp_rc
qp__h_rule_delete(struct qp__request *r, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  rc = qp_engine_rule_remove(engine, qp__owner(r), r->params[0], err);
  qp__turns_leave(r->http);
  if (rc == QP_NOTFOUND)
    return qp__fail(err, rc, "Rule not found");
  r->reply.status = MHD_HTTP_NO_CONTENT;
  return rc;
}

/* options.c - what the options of an engine say: providers, models, tools, limits. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "llm/demo.h"
#include "tool/mcp.h"
#include "tool/mcp_config.h"
#include "turn/engine.h"

#define ROUNDS 50
#define CALLS 200
#define RETRIES 3
#define FLUSH_MS 100

static const char *
no_variable(void *arg, const char *name)
{
  (void)arg;
  (void)name;
  return NULL;
}

static const char *
variable(void *arg, const char *name)
{
  (void)arg;
  return getenv(name);
}

static uint64_t
or_default(uint64_t value, uint64_t otherwise)
{
  return value ? value : otherwise;
}

static void
set_numbers(struct qp_engine *e, const struct qp_engine_options *o)
{
  e->limits.rounds = or_default(o->limits.rounds, ROUNDS);
  e->limits.calls = or_default(o->limits.calls, CALLS);
  e->limits.turn_tokens = or_default(o->limits.turn_tokens, UINT64_MAX);
  e->limits.turn_cost = or_default(o->limits.turn_cost, UINT64_MAX);
  e->limits.context_tokens = or_default(o->limits.context_tokens, UINT64_MAX);
  e->limits.context_cost = or_default(o->limits.context_cost, UINT64_MAX);
  e->retries = o->retries ? o->retries : RETRIES;
  e->retry_ms = or_default(o->retry_ms, QP__RETRY_MS);
  e->flush_ms = or_default(o->flush_ms, FLUSH_MS);
  e->log.fn = o->log;
  e->log.arg = o->log_arg;
}

static enum qp_rc
add_models(struct qp_engine *e, const char *text, struct qp_err *err)
{
  json_t *rows = NULL;
  json_t *row;
  size_t i;
  enum qp_rc rc = qp__json_parse("the models", (struct qp_bytes){ text, strlen(text) }, &rows, err);

  if (!rc && !json_is_array(rows))
    rc = qp__fail(err, QP_INVALID, "the models: must be an array");
  if (!rc)
    json_array_foreach (rows, i, row) {
      rc = qp__models_add(&e->models, row, err);
      if (rc)
        break;
    }
  json_decref(rows);
  return rc;
}

static enum qp_rc
add_providers(struct qp_engine *e, const struct qp_engine_options *o, struct qp_err *err)
{
  bool env = o->flags & QP_ENGINE_ENV;
  enum qp_rc rc = qp__llm_providers_init(&e->providers, env ? variable : no_variable, NULL, err);

  if (!rc && o->demo_script) {
    struct qp__llm_provider_spec demo = { .name = "demo" };

    rc = qp__demo_script_parse("the demo's script",
                               (struct qp_bytes){ o->demo_script, strlen(o->demo_script) },
                               &e->script, err);
    demo.script = e->script;
    if (!rc)
      rc = qp__llm_providers_add(&e->providers, &demo, err);
  }
  for (size_t i = 0; !rc && i < o->provider_count; i++) {
    const struct qp_provider_spec *from = &o->providers[i];
    struct qp__llm_provider_spec spec = {
      .name = from->name,
      .protocol = from->protocol,
      .base_url = from->base_url,
      .key = from->key,
      .model = from->model,
    };

    if (!from->name)
      rc = qp__fail(err, QP_INVALID, "a provider has no name");
    else
      rc = qp__llm_providers_add(&e->providers, &spec, err);
  }
  return rc;
}

enum qp_rc
qp__engine_set(struct qp_engine *e, const struct qp_engine_options *o, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  set_numbers(e, o);
  if (o->models_json)
    rc = add_models(e, o->models_json, err);
  if (!rc)
    rc = add_providers(e, o, err);
  for (size_t i = 0; !rc && i < o->policy_count; i++)
    rc = qp__policy_add_line(&e->policy, o->policy[i], err);
  return rc;
}

void
qp__engine_unset(struct qp_engine *e)
{
  qp__policy_release(&e->policy);
  qp__llm_providers_release(&e->providers);
  qp__models_release(&e->models);
  qp__demo_script_free(e->script);
}

static enum qp_rc
add_servers(struct qp_engine *e, const char *text, struct qp_err *err)
{
  struct qp__mcp_configs configs;
  enum qp_rc rc =
      qp__mcp_configs_parse("mcp.json", (struct qp_bytes){ text, strlen(text) }, &configs, err);

  if (rc)
    return rc;
  for (size_t i = 0; !rc && i < configs.count; i++)
    rc = qp__mcp_add(e->tools, &configs.at[i], err);
  qp__mcp_configs_release(&configs);
  return rc;
}

enum qp_rc
qp__engine_open_tools(struct qp_engine *e, const struct qp_engine_options *o, struct qp_err *err)
{
  struct qp__tools_options options = { .log = e->log,
                                       .workspace = o->workspace,
                                       .policy = &e->policy,
                                       .changed = qp__engine_tools_changed,
                                       .changed_arg = e };
  enum qp_rc rc = qp__tools_open(&e->loop, &options, &e->tools, err);

  if (!rc && o->mcp_json)
    rc = add_servers(e, o->mcp_json, err);
  return rc;
}

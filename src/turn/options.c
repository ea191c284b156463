/* options.c - what the options of an engine say: providers, models, tools, limits. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sized.h"
#include "compact/recall.h"
#include "llm/demo.h"
#include "store/context/context_int.h"
#include "tool/mcp.h"
#include "tool/mcp_config.h"
#include "turn/covered_ledger.h"
#include "turn/engine.h"

#define ROUNDS 50
#define CALLS 200
#define RETRIES 3
#define FLUSH_MS 100
#define NAMES_MAX 16384
#define HIDDEN_MAX 60
#define RECALLS_MAX ((size_t)96 << 20) /* bytes of all indexes for recall */
#define LEDGERS_MAX ((size_t)64 << 20) /* bytes of all ledgers */

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

static void
free_recall(void *recall)
{
  qp__recall_free(recall);
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
  e->retries = o->retries == UINT_MAX ? 0 : o->retries ? o->retries : RETRIES;
  e->retry_ms = or_default(o->retry_ms, QP__RETRY_MS);
  e->flush_ms = or_default(o->flush_ms, FLUSH_MS);
  e->log.fn = o->log;
  e->log.arg = o->log_arg;
}

static enum qp_rc
add_models(struct qp_engine *e, const struct qp_engine_options *o, struct qp_err *err)
{
  const char *what = o->models_name ? o->models_name : "the models";
  struct qp_bytes text = { o->models_json, strlen(o->models_json) };
  json_t *rows = NULL;
  json_t *row;
  size_t i;
  enum qp_rc rc = qp__json_parse(what, text, &rows, err);

  if (!rc && !json_is_array(rows))
    rc = qp__fail(err, QP_INVALID, "%s: must be an array of models", what);
  if (!rc)
    json_array_foreach (rows, i, row) {
      struct qp_err why = { QP_OK, "" };

      rc = qp__models_add(&e->models, row, &why);
      if (rc) {
        rc = qp__fail(err, rc, "%s, row %zu: %s", what, i + 1, why.msg);
        break;
      }
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

    rc = qp__demo_script_parse(o->demo_name ? o->demo_name : "the demo's script",
                               (struct qp_bytes){ o->demo_script, strlen(o->demo_script) },
                               &e->script, err);
    demo.script = e->script;
    if (!rc)
      rc = qp__llm_providers_add(&e->providers, &demo, err);
  }
  for (size_t i = 0; !rc && i < o->provider_count; i++) {
    const char *given = (const char *)o->providers + i * o->providers->size;
    struct qp_provider_spec from;
    struct qp__llm_provider_spec spec;

    rc = qp__sized_copy("struct qp_provider_spec", given, &from, sizeof(from), err);
    if (rc)
      break;
    spec = (struct qp__llm_provider_spec){
      .name = from.name,
      .protocol = from.protocol,
      .base_url = from.base_url,
      .key = from.key,
      .model = from.model,
    };
    if (!from.name)
      rc = qp__fail(err, QP_INVALID, "a provider has no name");
    else
      rc = qp__llm_providers_add(&e->providers, &spec, err);
  }
  return rc;
}

/* An unknown default model is reported now, not in the middle of a turn. */
static enum qp_rc
set_model(struct qp_engine *e, const char *model, struct qp_err *err)
{
  const struct qp__llm_provider *provider = NULL;
  const char *wire = "";
  struct qp_err why = { QP_OK, "" };
  enum qp_rc rc = qp__llm_resolve(&e->providers, &e->models, model, &provider, &wire, &why);

  if (rc)
    return qp__fail(err, rc, "the default model: %s", why.msg);
  e->model = qp__strf("%s/%s", provider->name, wire);
  if (!e->model)
    return qp__fail_nomem(err, "the default model");
  if (!*wire)
    e->unnamed = provider;
  return QP_OK;
}

static enum qp_rc
set_compaction(struct qp_engine *e, const struct qp_compaction_options *o, struct qp_err *err)
{
  json_t *value = qp__json_pack_set("{s:s?, s:s?}", "mode", o->mode, "summarizer", o->summarizer);
  unsigned recall = o->recall_tokens == UINT_MAX ? 0 : o->recall_tokens;
  bool bad =
      !value ||
      (o->threshold && json_object_set_new(value, "threshold", json_integer(o->threshold))) ||
      (o->keep && json_object_set_new(value, "keep", json_integer(o->keep))) ||
      (o->recall_tokens && json_object_set_new(value, "recall_tokens", json_integer(recall)));
  enum qp_rc rc;

  qp__compact_settings_init(&e->compaction);
  rc = bad ? qp__fail_nomem(err, "the settings of compaction")
           : qp__compact_settings_read(value, &e->compaction, err);
  json_decref(value);
  return rc;
}

enum qp_rc
qp__engine_apply_options(struct qp_engine *e, const struct qp_engine_options *o, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__queues_init(&e->queues);
  set_numbers(e, o);
  qp__grants_init(&e->grants, e->os, e->store->root, &e->log);
  qp__known_init(&e->known);
  qp__size_cache_init(&e->sizes);
  qp__covered_cache_init(&e->recalls, RECALLS_MAX, free_recall);
  qp__covered_cache_init(&e->ledgers, LEDGERS_MAX, qp__covered_ledger_free);
  rc = set_compaction(e, &o->compaction, err);
  if (!rc && o->models_json)
    rc = add_models(e, o, err);
  if (!rc)
    rc = add_providers(e, o, err);
  if (!rc)
    rc = set_model(e, o->model, err);
  for (size_t i = 0; !rc && i < o->policy_count; i++)
    rc = qp__policy_add_line(&e->policy, o->policy[i], err);
  return rc;
}

void
qp__engine_release_options(struct qp_engine *e)
{
  qp__queues_release(&e->queues);
  qp__policy_release(&e->policy);
  qp__grants_release(&e->grants);
  qp__llm_providers_release(&e->providers);
  qp__models_release(&e->models);
  qp__known_release(&e->known);
  qp__size_cache_release(&e->sizes);
  qp__covered_cache_release(&e->recalls);
  qp__covered_cache_release(&e->ledgers);
  qp__arena_release(&e->names);
  qp__free(e->model);
  qp__demo_script_free(e->script);
}

/* ---- a summary for the log ---- */

static void
log_models(struct qp_engine *e)
{
  struct qp__buf names;

  qp__buf_init(&names, NAMES_MAX);
  for (size_t i = 0; i < e->providers.count; i++)
    (void)qp__buf_addf(&names, "%s%s", i ? ", " : "", e->providers.list[i].name);
  if (!qp__buf_add_char(&names, '\0'))
    qp__log(&e->log, QP_LOG_INFO, "turn", "providers: %s; default model: %s%s", names.data,
            e->model, e->unnamed ? " (the first one that this server reports)" : "");
  qp__buf_release(&names);
}

static void
log_tools(struct qp_engine *e, const char *workspace, const struct qp__mcp_configs *servers)
{
  struct qp__buf names;

  qp__buf_init(&names, NAMES_MAX);
  if (workspace)
    qp__log(&e->log, QP_LOG_INFO, "tool", "%zu built-in tools work in '%s'",
            qp__tools_count(e->tools), workspace);
  else
    qp__log(&e->log, QP_LOG_INFO, "tool", "no built-in tools, because there is no workspace");
  for (size_t i = 0; i < servers->count; i++)
    (void)qp__buf_addf(&names, "%s%s", i ? ", " : "", servers->at[i].name);
  if (servers->count && !qp__buf_add_char(&names, '\0'))
    qp__log(&e->log, QP_LOG_INFO, "tool", "MCP servers: %s", names.data);
  qp__buf_release(&names);
}

/* ---- tools ---- */

/* The store itself, and what the options name. */
static enum qp_rc
list_hidden(const struct qp_engine *e, const struct qp_engine_options *o,
            const char *out[HIDDEN_MAX + 2], struct qp_err *err)
{
  size_t count = 0;

  if (e->store->where)
    out[count++] = e->store->where;
  for (size_t i = 0; o->hidden && o->hidden[i]; i++) {
    if (i == HIDDEN_MAX)
      return qp__fail(err, QP_INVALID, "at most %d paths can be hidden from tools", HIDDEN_MAX);
    out[count++] = o->hidden[i];
  }
  out[count] = NULL;
  return QP_OK;
}

enum qp_rc
qp__engine_open_tools(struct qp_engine *e, const struct qp_engine_options *o, struct qp_err *err)
{
  const char *hidden[HIDDEN_MAX + 2] = { NULL };
  struct qp__tools_options options = {
    .net = e->net,
    .log = e->log,
    .workspace = o->workspace,
    .policy = &e->policy,
    .timeout_ms = o->tool_timeout_ms,
    .command_env = o->command_env,
    .command_read = o->command_read,
    .command_network = o->flags & QP_ENGINE_COMMAND_NETWORK,
    .command_without_landlock = o->flags & QP_ENGINE_COMMAND_WITHOUT_LANDLOCK,
    .hidden = hidden,
    .changed = qp__engine_tools_changed,
    .changed_arg = e,
  };
  struct qp__mcp_configs servers = { 0 };
  enum qp_rc rc = list_hidden(e, o, hidden, err);

  if (!rc && o->mcp_json)
    rc =
        qp__mcp_configs_parse(o->mcp_name ? o->mcp_name : "mcp.json",
                              (struct qp_bytes){ o->mcp_json, strlen(o->mcp_json) }, &servers, err);
  if (rc)
    return rc;
  rc = qp__tools_open(&e->loop, &options, &e->tools, err);
  if (!rc) {
    log_models(e);
    log_tools(e, o->workspace, &servers);
  }
  for (size_t i = 0; !rc && i < servers.count; i++)
    rc = qp__mcp_add(e->tools, &servers.at[i], err);
  qp__mcp_configs_release(&servers);
  return rc;
}

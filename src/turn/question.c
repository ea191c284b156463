/* question.c - see question.h. */
#include "turn/question.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "model/client_tool.h"
#include "model/message.h"
#include "store/context/context_int.h"

#define SYSTEM_MAX ((size_t)16 << 20)

/* ---- on the engine's thread ---- */

/* Those that the client runs itself, behind those of the server. */
static bool
copy_client_tools(struct qp__question *q, const json_t *tools, struct qp__llm_tool *list)
{
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *name = json_string_value(json_object_get(tool, "name"));
    const char *description = json_string_value(json_object_get(tool, "description"));
    const json_t *schema = json_object_get(tool, "parameters");
    struct qp__buf text;
    bool good;

    qp__buf_init(&text, QP__CLIENT_TOOLS_BYTES);
    if (json_is_object(schema))
      (void)qp__json_write(&text, schema);
    else
      (void)qp__buf_add_str(&text, "{\"type\":\"object\",\"properties\":{}}");
    list[i].name = qp__arena_strdup(&q->arena, name ? name : "");
    list[i].description = qp__arena_strdup(&q->arena, description ? description : "");
    list[i].schema.data = text.rc ? NULL : qp__arena_strndup(&q->arena, text.data, text.len);
    list[i].schema.len = text.len;
    good = list[i].name && list[i].description && list[i].schema.data;
    qp__buf_release(&text);
    if (!good)
      return false;
  }
  return true;
}

/* Copies the list of tools, which may change while the worker writes. */
static bool
copy_tools(struct qp__question *q, const json_t *client_tools)
{
  const struct qp__tools *tools = q->engine->tools;
  size_t n = qp__tools_count(tools);
  size_t more = json_array_size(client_tools);
  struct qp__llm_tool *list = qp__arena_alloc(&q->arena, (n + more + 1) * sizeof(*list));

  if (!list || !copy_client_tools(q, client_tools, list + n))
    return false;
  for (size_t i = 0; i < n; i++) {
    const struct qp__tool *tool = qp__tools_at(tools, i);
    const char *schema = qp__arena_strdup(&q->arena, tool->schema);

    list[i].name = qp__arena_strdup(&q->arena, tool->name);
    list[i].description = qp__arena_strdup(&q->arena, tool->description);
    if (!schema || !list[i].name || !list[i].description)
      return false;
    list[i].schema = (struct qp_bytes){ schema, strlen(schema) };
  }
  q->request.tools = list;
  q->server_tools = n;
  q->request.tool_count = n + more;
  return true;
}

struct qp__question *
qp__question_new(struct qp_engine *e, struct qp_context *context, const char *branch,
                 unsigned flags)
{
  struct qp__question *q = qp__alloc0(1, sizeof(*q));
  struct qp__view *v;
  bool good;

  if (!q)
    return NULL;
  q->engine = e;
  q->context = context;
  q->request.cache = QP__CACHE_5M;
  q->request.flags = flags;
  qp__buf_init(&q->system, SYSTEM_MAX);
  qp__buf_init(&q->body, QP__LLM_BODY_MAX);
  q->branch = qp__strdup(branch);
  v = qp__view_get(context);
  good = q->branch && copy_tools(q, qp__client_tools_get(v->meta));
  qp__view_unref(v);
  if (!good) {
    qp__question_free(q);
    return NULL;
  }
  return q;
}

void
qp__question_free(struct qp__question *q)
{
  for (size_t i = 0; i < q->count; i++)
    qp_message_free(q->messages[i]);
  qp__free(q->messages);
  qp__free(q->branch);
  json_decref(q->metadata);
  qp__llm_params_release(&q->request.params);
  qp__arena_release(&q->arena);
  qp__buf_release(&q->system);
  qp__buf_release(&q->body);
  qp__free(q);
}

/* ---- in the worker ---- */

static enum qp_rc
add_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp__question *q = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK; /* the model must do without it */
  if (!qp__vec_reserve(q->messages, q->count, q->cap, 1))
    return qp__fail_nomem(&q->err, "a history");
  rc = qp_message_parse(json, &message, &q->err);
  if (rc)
    return rc;
  q->messages[q->count++] = message;
  q->all_bytes += json.len;
  if (json.len > q->largest_bytes)
    q->largest_bytes = json.len;
  return QP_OK;
}

static enum qp_rc
add_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct qp__question *q = arg;

  return qp__buf_add_str(&q->system, prompt->content);
}

/* The branch's prompt, otherwise the context's. A deleted prompt counts as "no prompt". */
static enum qp_rc
read_prompt(struct qp__question *q)
{
  json_t *branches = json_object_get(q->metadata, "branches");
  json_t *branch = json_object_get(branches, q->branch);
  const char *id = json_string_value(json_object_get(branch, "system_prompt_id"));
  enum qp_rc rc;

  if (!id)
    id = json_string_value(
        json_object_get(json_object_get(q->metadata, "config"), "system_prompt_id"));
  if (!id)
    return QP_OK;
  rc = qp_prompt_get(q->engine->store, id, add_prompt, q, &q->err);
  return rc == QP_NOTFOUND ? QP_OK : rc;
}

static enum qp_rc
read_history(struct qp__question *q)
{
  char *text = NULL;
  size_t len;
  enum qp_rc rc = qp_context_metadata(q->context, &text, &len, &q->err);

  if (!rc)
    rc = qp__json_parse_object("the metadata", (struct qp_bytes){ text, len }, &q->metadata,
                               &q->err);
  qp_free(text);
  if (!rc)
    rc = read_prompt(q);
  if (!rc)
    rc = qp_messages_range(q->context, q->branch, 0, UINT64_MAX, add_message, q, &q->err);
  return rc;
}

static enum qp_rc
read_blob(void *arg, const char *id, struct qp__buf *out, struct qp_err *err)
{
  struct qp_engine *e = arg;
  char *bytes = NULL;
  size_t len;
  enum qp_rc rc = qp_blob_get(e->store, id, &bytes, &len, err);

  if (rc)
    return rc;
  rc = qp__buf_add(out, bytes, len);
  qp_free(bytes);
  return rc ? qp__buf_check(out, "a blob", err) : QP_OK;
}

/* The settings of this turn, which win over those of the context: "request" in the metadata of the
 * message that began it, {"model","system","parameters","server_tools"}. */
static const json_t *
turn_settings(const struct qp__question *q)
{
  for (size_t i = q->count; i-- > 0;)
    if (q->messages[i]->role == QP_ROLE_USER)
      return json_object_get(q->messages[i]->metadata, "request");
  return NULL;
}

static enum qp_rc
apply_settings(struct qp__question *q, const json_t *settings)
{
  const json_t *system = json_object_get(settings, "system");

  if (json_is_false(json_object_get(settings, "server_tools"))) {
    q->request.tools += q->server_tools;
    q->request.tool_count -= q->server_tools;
  }
  if (!json_is_string(system))
    return QP_OK;
  qp__buf_reset(&q->system);
  if (qp__buf_add(&q->system, json_string_value(system), json_string_length(system)))
    return qp__buf_check(&q->system, "the instructions", &q->err);
  return QP_OK;
}

/* Providers and models do not change while the engine runs. */
static enum qp_rc
write_request(struct qp__question *q)
{
  struct qp_engine *e = q->engine;
  struct qp__llm_request *request = &q->request;
  json_t *config = json_object_get(q->metadata, "config");
  const json_t *settings = turn_settings(q);
  const json_t *parameters = json_object_get(settings, "parameters");
  const char *model = json_string_value(json_object_get(settings, "model"));
  enum qp_rc rc;

  if (!model || !*model)
    model = json_string_value(json_object_get(config, "model_id"));
  if (!model || !*model)
    model = e->model;
  if (!json_is_object(parameters))
    parameters = json_object_get(config, "parameters");
  rc = qp__llm_resolve(&e->providers, &e->models, model, &q->provider, &request->model, &q->err);
  if (!rc)
    rc = apply_settings(q, settings);
  if (!rc)
    rc = qp__llm_params_init(&request->params, parameters, &q->err);
  if (rc)
    return rc;
  if (!*request->model)
    rc = qp__known_first(&e->known, q->provider->name, &q->arena, &request->model, &q->err);
  if (rc)
    return rc;
  if (qp__known_is_blind(&e->known, q->provider->name, request->model))
    request->flags |= QP__LLM_NO_IMAGES;
  q->model = qp__models_get(&e->models, request->model);
  request->system = qp__buf_bytes(&q->system);
  request->messages = (const struct qp_message *const *)q->messages;
  request->message_count = q->count;
  request->max_output = q->model->max_output;
  request->blob = read_blob;
  request->blob_arg = e;
  rc = qp__llm_encode(q->provider, request, &q->body, &q->err);
  request->body = &q->body;
  return rc;
}

void
qp__question_prepare(struct qp__question *q)
{
  enum qp_rc rc = read_history(q);

  q->err.rc = rc ? rc : write_request(q);
}

/* question.c - see question.h. */
#include "turn/question.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "model/client_tool.h"
#include "store/context/context_int.h"
#include "turn/takeover.h"

#define SYSTEM_MAX ((size_t)16 << 20)

/* ---- on the engine's thread ---- */

/* Those that the client runs itself, behind those of the server. */
static bool
copy_client_tools(struct qp__conversation *c, const json_t *tools, struct qp__llm_tool *list)
{
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *name = json_string_value(json_object_get(tool, "name"));
    const char *description = json_string_value(json_object_get(tool, "description"));
    const json_t *schema = json_object_get(tool, "parameters");
    struct qp__buf text;

    qp__buf_init(&text, QP__CLIENT_TOOLS_BYTES);
    if (json_is_object(schema))
      (void)qp__json_write(&text, schema);
    else
      (void)qp__buf_add_str(&text, "{\"type\":\"object\",\"properties\":{}}");
    list[i].name = qp__arena_strdup(&c->arena, name ? name : "");
    list[i].description = qp__arena_strdup(&c->arena, description ? description : "");
    list[i].schema.len = text.len;
    list[i].schema.data = qp__arena_take(&c->arena, &text);
    list[i].strict = json_is_true(json_object_get(tool, "strict"));
    if (!list[i].name || !list[i].description || !list[i].schema.data)
      return false;
  }
  return true;
}

/* Copies the list of tools, which may change while the worker writes. */
static bool
copy_tools(struct qp__conversation *c, const json_t *client_tools)
{
  const struct qp__tools *tools = c->engine->tools;
  size_t n = qp__tools_count(tools);
  size_t more = json_array_size(client_tools);
  struct qp__llm_tool *list = qp__arena_alloc(&c->arena, (n + more + 1) * sizeof(*list));

  if (!list || !copy_client_tools(c, client_tools, list + n))
    return false;
  for (size_t i = 0; i < n; i++) {
    const struct qp__tool *tool = qp__tools_at(tools, i);
    const char *schema = qp__arena_strdup(&c->arena, tool->schema);

    list[i].name = qp__arena_strdup(&c->arena, tool->name);
    list[i].description = qp__arena_strdup(&c->arena, tool->description);
    if (!schema || !list[i].name || !list[i].description)
      return false;
    list[i].schema = (struct qp_bytes){ schema, strlen(schema) };
    list[i].strict = false;
  }
  c->tools = list;
  c->tool_count = n + more;
  c->server_tools = n;
  return true;
}

bool
qp__conversation_begin(struct qp__conversation *c, struct qp_engine *e, struct qp_context *context,
                       const char *branch)
{
  struct qp__view *v;
  bool good;

  c->engine = e;
  c->context = context;
  qp__buf_init(&c->system, SYSTEM_MAX);
  if (branch && !(c->branch = qp__arena_strdup(&c->arena, branch)))
    return false;
  v = qp__view_get(context);
  good = copy_tools(c, qp__client_tools_get(v->meta));
  qp__view_unref(v);
  return good;
}

struct qp__question *
qp__question_new(struct qp_engine *e, struct qp_context *context, const char *branch,
                 unsigned flags)
{
  struct qp__question *q = qp__alloc0(1, sizeof(*q));

  if (!q)
    return NULL;
  q->request.cache = QP__CACHE_5M;
  q->request.flags = flags;
  qp__buf_init(&q->body, QP__LLM_BODY_MAX);
  if (!qp__conversation_begin(&q->conversation, e, context, branch)) {
    qp__question_free(q);
    return NULL;
  }
  return q;
}

void
qp__question_free(struct qp__question *q)
{
  qp__conversation_release(&q->conversation);
  qp__buf_release(&q->body);
  qp__free(q);
}

/* ---- in the worker ---- */

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

static enum qp_rc
write_request(struct qp__question *q)
{
  struct qp__conversation *c = &q->conversation;
  struct qp_engine *e = c->engine;
  struct qp__llm_request *request = &q->request;
  enum qp_rc rc;

  if (qp__known_is_blind(&e->known, c->provider->name, c->model_name))
    request->flags |= QP__LLM_NO_IMAGES;
  request->model = c->model_name;
  request->params = c->params;
  request->system = qp__buf_bytes(&c->system);
  request->messages = c->sent.messages;
  request->message_count = c->sent.count;
  request->tools = c->tools;
  request->tool_count = c->tool_count;
  request->max_output = c->model->max_output;
  request->blob = read_blob;
  request->blob_arg = e;
  rc = qp__llm_encode(c->provider, request, &q->body, &q->err);
  request->body = &q->body;
  return rc;
}

/* Covers what a summary that was prepared covers, if there is one that suffices. */
static enum qp_rc
take_over(struct qp__question *q, const struct qp__plan_input *input)
{
  struct qp__conversation *c = &q->conversation;
  const struct qp__record *ready = qp__takeover_find(c, input, &q->plan);
  enum qp_rc rc;

  if (!ready)
    return QP_OK;
  rc = qp__record_from_plan(&q->plan, c->items, c->tail_count, c->record, &c->arena, &q->record,
                            &q->err);
  if (rc)
    return rc;
  qp__takeover_fill(&q->record, ready);
  q->record.created_at = qp__engine_now_ms(c->engine);
  rc = qp__conversation_cover(c, &q->record, q->plan.cut, &q->err);
  q->record.tokens_after = c->budget.used.value;
  q->takes_over = true;
  q->must_compact = false;
  return rc;
}

/* Whether the conversation fits as it is, or with a summary that was prepared. */
static enum qp_rc
decide(struct qp__question *q)
{
  struct qp__conversation *c = &q->conversation;
  struct qp__plan_input input;
  bool assumed = c->budget.window.origin == QP__ORIGIN_DEFAULT;
  enum qp_rc rc;

  qp__conversation_input(c, QP__REASON_CHECK, &input);
  rc = qp__plan_make(&input, &c->arena, &q->plan, &q->err);
  if (rc)
    return rc;
  q->must_prepare =
      q->plan.prepare && q->plan.action == QP__PLAN_NONE && q->plan.why == QP__WHY_BELOW &&
      !qp__record_prepared(c->records, c->record_count, c->record ? c->record->covered : 0,
                           qp__conversation_holds, c);
  if (q->plan.action == QP__PLAN_TOO_LONG) {
    /* An unknown window is no reason to refuse: the provider reports an error if the request is
     * too long. */
    if (assumed && c->settings.policy.mode != QP__PLAN_AUTO)
      return QP_OK;
    return qp__plan_too_long(&input, &q->plan, &q->err);
  }
  q->must_compact = q->plan.action != QP__PLAN_NONE;
  return q->must_compact ? take_over(q, &input) : QP_OK;
}

void
qp__question_prepare(struct qp__question *q)
{
  enum qp_rc rc = qp__conversation_read(&q->conversation, &q->err);

  if (!rc)
    rc = decide(q);
  if (!rc && !q->must_compact)
    rc = write_request(q);
  q->err.rc = rc;
}

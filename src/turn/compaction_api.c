/* compaction_api.c - the functions of quipu/compaction.h. */
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "model/message.h"
#include "store/context/context_int.h"
#include "turn/actor.h"
#include "turn/compacting.h"
#include "turn/question.h"

#define TOKEN_BYTES 4 /* of a stored message, an estimate */

static const char what[] = "the compactions of a context";

/* ---- records ---- */

static json_t *
records_object(const struct qp__conversation *c)
{
  json_t *list = json_array();
  json_t *pins = json_object_get(c->metadata, "pins");
  json_t *object;
  int bad = !list;

  for (size_t i = 0; i < c->record_count && !bad; i++)
    if (c->records[i].kind != QP__RECORD_PREPARED)
      bad = json_array_append_new(list, qp__record_to_json(&c->records[i]));
  if (bad) {
    json_decref(list);
    return NULL;
  }
  object = json_pack("{s:n, s:o, s:o}", "active", "compactions", list, "pins",
                     json_is_array(pins) ? json_incref(pins) : json_array());
  return qp__json_built(object,
                        object && c->record && qp__json_set_uuid(object, "active", &c->record->id));
}

static enum qp_rc
check_branch(struct qp_context *context, const char *branch, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  struct qp__branch *found;
  enum qp_rc rc = qp__view_branch(v, branch, &found, err);

  qp__view_unref(v);
  return rc;
}

enum qp_rc
qp_compactions(struct qp_context *context, const char *branch, char **out, size_t *len,
               struct qp_err *err)
{
  struct qp__conversation c = { .context = context, .branch = branch };
  enum qp_rc rc = check_branch(context, branch, err);

  if (rc)
    return rc;
  rc = qp__conversation_records(&c, true, err);
  if (!rc)
    rc = qp__engine_give(records_object(&c), what, out, len, err);
  qp__conversation_release(&c);
  return rc;
}

/* ---- marks ---- */

/* Whether the record of a mark holds for the branch with this head. */
static bool
mark_holds(struct qp_context *context, uint32_t head, const json_t *mark)
{
  const struct qp__tree *tree = &context->tree;
  json_int_t covered = json_integer_value(json_object_get(mark, "covered"));
  const char *last = json_string_value(json_object_get(mark, "last"));
  struct qp_uuid id;

  if (covered <= 0 || !last || qp_uuid_parse(last, &id, NULL) || head == QP__NO_SLOT ||
      (uint64_t)covered > (uint64_t)qp__tree_at(tree, head)->depth + 1)
    return false;
  return qp_uuid_equal(&qp__tree_at(tree, qp__tree_ancestor(tree, head, (uint32_t)covered - 1))->id,
                       &id);
}

/* The marks of the metadata that hold for the branch: {"id","after",…}; NULL: no memory. */
static json_t *
marks_array(struct qp_context *context, const struct qp__view *v, uint32_t head)
{
  const json_t *marks = json_object_get(json_object_get(v->meta->extra, "compaction"), "marks");
  json_t *list = json_array();
  const json_t *mark;
  size_t i;

  json_array_foreach (marks, i, mark) {
    json_t *item;

    if (!list || !mark_holds(context, head, mark))
      continue;
    item = qp__json_deep_copy(mark);
    item =
        qp__json_built(item, item && json_object_set(item, "after", json_object_get(item, "last")));
    list = qp__json_push(list, item);
  }
  return list;
}

static enum qp_rc
find_head(const struct qp__view *v, const char *branch, uint32_t *head, struct qp_err *err)
{
  struct qp__branch *found;
  enum qp_rc rc = qp__view_branch(v, branch, &found, err);

  if (!rc)
    *head = atomic_load(&found->head);
  return rc;
}

bool
qp__branch_is_compacted(struct qp_context *context, const struct qp__view *v, const char *branch)
{
  const json_t *marks = json_object_get(json_object_get(v->meta->extra, "compaction"), "marks");
  uint32_t head = QP__NO_SLOT;
  const json_t *mark;
  struct qp_err ignored;
  size_t i;

  if (!json_array_size(marks) || find_head(v, branch, &head, &ignored))
    return false;
  json_array_foreach (marks, i, mark)
    if (mark_holds(context, head, mark))
      return true;
  return false;
}

enum qp_rc
qp_compaction_marks(struct qp_context *context, const char *branch, char **out, size_t *len,
                    struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  uint32_t head = QP__NO_SLOT;
  json_t *list = NULL;
  enum qp_rc rc = find_head(v, branch, &head, err);

  if (!rc)
    list = marks_array(context, v, head);
  qp__view_unref(v);
  return rc ? rc : qp__engine_give(list, what, out, len, err);
}

/* ---- the window ---- */

/* Bytes of messages from the first of the branch to this one. */
static uint64_t
path_bytes(struct qp_context *context, uint32_t slot)
{
  return slot == QP__NO_SLOT ? 0 : qp__tree_at(&context->tree, slot)->path_bytes;
}

/* The slot of a message that is on the branch with this head, or QP__NO_SLOT. */
static uint32_t
slot_on_branch(struct qp_context *context, uint32_t head, const char *id)
{
  struct qp__tree *tree = &context->tree;
  struct qp_uuid uuid;
  uint32_t slot = QP__NO_SLOT;
  uint32_t depth;

  if (!id || head == QP__NO_SLOT || qp_uuid_parse(id, &uuid, NULL) ||
      !qp__tree_find(tree, &uuid, false, &slot) || slot == QP__NO_SLOT)
    return QP__NO_SLOT;
  depth = qp__tree_at(tree, slot)->depth;
  if (depth > qp__tree_at(tree, head)->depth || qp__tree_ancestor(tree, head, depth) != slot)
    return QP__NO_SLOT;
  return slot;
}

/* The figures of a branch about which nothing is stored: estimated from sizes. */
static void
estimate(struct qp_engine *e, struct qp_context *context, const struct qp__view *v, uint32_t head,
         const json_t *mark, struct qp__actor_asked *asked)
{
  const char *model = json_string_value(json_object_get(v->meta->config, "model_id"));
  uint32_t cut = slot_on_branch(context, head, json_string_value(json_object_get(mark, "last")));
  const char *wire = NULL;
  struct qp_err ignored;
  const struct qp__model *row;
  int64_t bytes = (int64_t)(path_bytes(context, head) - path_bytes(context, cut));

  if (!model || !*model)
    model = e->model;
  if (qp__llm_resolve(&e->providers, &e->models, model, &asked->provider, &wire, &ignored) || !wire)
    wire = "";
  row = qp__models_get(&e->models, wire);
  asked->budget.window = qp__number_choose(
      row->origin == QP__MODEL_CONFIGURED ? row->window : 0,
      asked->provider ? qp__known_window(&e->known, asked->provider->name, wire) : 0,
      row->origin == QP__MODEL_BUILT_IN ? row->window : 0, QP__MODEL_ASSUMED_WINDOW);
  asked->budget.reserve = qp__count_reserve(0, row->max_output, asked->budget.window.value);
  asked->budget.messages.text = bytes / TOKEN_BYTES;
  if (cut != QP__NO_SLOT)
    asked->summary_tokens = asked->budget.window.value / 16;
  asked->budget.messages.text += asked->summary_tokens;
  asked->budget.used.value = asked->budget.messages.text + asked->budget.reserve.value;
}

/* "window" of the metadata for this branch, with the messages that were added since; or an
 * estimate. NULL: no memory. */
static json_t *
figures(struct qp_engine *e, struct qp_context *context, const struct qp__view *v,
        const char *branch, uint32_t head, const json_t *mark)
{
  const json_t *stored = json_object_get(v->meta->extra, "window");
  uint32_t at = slot_on_branch(context, head, json_string_value(json_object_get(stored, "at")));
  struct qp__actor_asked asked = { .provider = NULL };
  struct qp_uuid none = { { 0 } };
  json_t *copy;
  json_int_t used;

  if (at == QP__NO_SLOT) {
    estimate(e, context, v, head, mark, &asked);
    return qp__window_object(&asked, branch, &none, asked.budget.used.value, QP__ORIGIN_ESTIMATE);
  }
  copy = qp__json_deep_copy(stored);
  used = json_integer_value(json_object_get(stored, "used"));
  used += (json_int_t)((path_bytes(context, head) - path_bytes(context, at)) / TOKEN_BYTES);
  return qp__json_built(copy, copy && json_object_set_new(copy, "used", json_integer(used)));
}

static int
finish_window(json_t *window, const struct qp__compact_settings *settings, json_t *marks,
              bool breaker)
{
  static const char *const modes[] = {
    [QP__PLAN_AUTO] = "auto", [QP__PLAN_MANUAL] = "manual", [QP__PLAN_OFF] = "off"
  };
  json_t *mark = json_array_size(marks) ? json_array_get(marks, json_array_size(marks) - 1) : NULL;
  json_int_t size = json_integer_value(json_object_get(window, "window"));
  json_t *origins = json_object_get(window, "origins");

  (void)json_object_del(window, "branch");
  (void)json_object_del(window, "at");
  return json_object_set_new(window, "threshold",
                             json_integer(size * settings->policy.threshold / 100)) ||
         json_object_set_new(origins, "threshold",
                             json_string(settings->own_threshold ? "user" : "default")) ||
         json_object_set_new(window, "mode", json_string(modes[settings->policy.mode])) ||
         json_object_set_new(window, "compaction", mark ? json_incref(mark) : json_null()) ||
         json_object_set_new(window, "breaker", json_boolean(breaker));
}

enum qp_rc
qp_engine_window(struct qp_engine *engine, struct qp_context *context, const char *branch,
                 char **out, size_t *len, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  const json_t *state = json_object_get(v->meta->extra, "compaction");
  struct qp__compact_settings settings;
  uint32_t head = QP__NO_SLOT;
  json_t *marks = NULL;
  json_t *window = NULL;
  enum qp_rc rc = find_head(v, branch, &head, err);

  if (rc) {
    qp__view_unref(v);
    return rc;
  }
  qp__conversation_settings(engine, v->meta->config, &settings);
  marks = marks_array(context, v, head);
  if (marks)
    window =
        figures(engine, context, v, branch ? branch : v->meta->active, head,
                json_array_get(marks, json_array_size(marks) ? json_array_size(marks) - 1 : 0));
  window = qp__json_built(
      window, window && finish_window(window, &settings, marks,
                                      json_integer_value(json_object_get(state, "failures")) >=
                                          QP__PLAN_FAILURES));
  json_decref(marks);
  qp__view_unref(v);
  return qp__engine_give(window, what, out, len, err);
}

/* ---- what would be sent, and what a compaction would do ---- */

/* Copies the tools, which belong to the engine's thread. */
struct beginning {
  struct qp__post post; /* first */
  struct qp__conversation *conversation;
  struct qp_context *context;
  const char *branch;
  bool good;
  uv_sem_t done;
};

static void
run_begin(struct qp_engine *e, struct qp__post *post)
{
  struct beginning *b = (struct beginning *)post;

  b->good = e->phase != QP__ENGINE_CLOSING &&
            qp__conversation_begin(b->conversation, e, b->context, b->branch);
  uv_sem_post(&b->done);
}

static enum qp_rc
begin(struct qp_engine *e, struct qp_context *context, const char *branch,
      struct qp__conversation *c, struct qp_err *err)
{
  struct beginning b = {
    .post = { .run = run_begin }, .conversation = c, .context = context, .branch = branch
  };
  enum qp_rc rc = check_branch(context, branch, err);

  if (rc)
    return rc;
  if (uv_sem_init(&b.done, 0))
    return qp__fail_nomem(err, what);
  qp__engine_post(e, &b.post);
  uv_sem_wait(&b.done);
  uv_sem_destroy(&b.done);
  return b.good ? QP_OK : qp__fail(err, QP_STOPPED, "the engine is stopping");
}

static json_t *
view_object(const struct qp__conversation *c)
{
  json_t *tools = json_array();
  json_t *messages = json_array();
  int bad = !tools || !messages;

  for (size_t i = 0; i < c->tool_count && !bad; i++)
    bad = json_array_append_new(tools, json_string(c->tools[i].name));
  for (size_t i = 0; i < c->sent.count && !bad; i++)
    bad = json_array_append_new(messages, qp__message_to_value(c->sent.messages[i]));
  if (bad) {
    json_decref(tools);
    json_decref(messages);
    return NULL;
  }
  return json_pack("{s:s, s:s%, s:o, s:o, s:I}", "model", c->model_name, "system",
                   c->system.len ? c->system.data : "", c->system.len, "tools", tools, "messages",
                   messages, "tokens",
                   (json_int_t)(c->budget.used.value - c->budget.reserve.value));
}

enum qp_rc
qp_engine_view(struct qp_engine *engine, struct qp_context *context, const char *branch, char **out,
               size_t *len, struct qp_err *err)
{
  struct qp__conversation c = { .engine = NULL };
  enum qp_rc rc = begin(engine, context, branch, &c, err);

  if (!rc)
    rc = qp__conversation_read(&c, err);
  if (!rc)
    rc = qp__engine_give(view_object(&c), what, out, len, err);
  qp__conversation_release(&c);
  return rc;
}

static json_t *
plan_object(const struct qp__shortening *s)
{
  static const char *const actions[] = { "none", "stub", "summarise", "trim", "too_long" };
  const struct qp__record *r = &s->record;

  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s}", "action", actions[s->plan.action],
                   "why", qp__plan_why_name(s->plan.why), "covered",
                   (json_int_t)(s->has_record ? r->covered : 0), "kept", (json_int_t)s->kept,
                   "tokens_before", (json_int_t)s->plan.before, "tokens_after",
                   (json_int_t)(s->has_record ? r->tokens_after : s->plan.before), "narrative",
                   r->narrative ? r->narrative : "", "ledger", r->ledger ? r->ledger : "");
}

enum qp_rc
qp_engine_compact_plan(struct qp_engine *engine, struct qp_context *context, const char *branch,
                       const struct qp_uuid *up_to, char **out, size_t *len, struct qp_err *err)
{
  struct qp__shortening s = { .purpose = QP__SHORTEN_REQUEST, .reason = QP__REASON_REQUEST };
  enum qp_rc rc = begin(engine, context, branch, &s.conversation, err);

  if (up_to)
    s.up_to = *up_to;
  if (!rc)
    rc = qp__shorten_preview(&s, err);
  if (!rc)
    rc = qp__engine_give(plan_object(&s), what, out, len, err);
  qp__shorten_release(&s);
  return rc;
}

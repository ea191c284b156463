/* conversation.c - see conversation.h. */
#include "turn/conversation.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "store/context/record_file.h"

#define LEARNED_MAX 64 /* messages to look back for what the provider reported */

static const char what[] = "a conversation";

#define SCHEMA_SEARCH                                                                             \
  "{\"type\":\"object\",\"properties\":{\"query\":{\"type\":\"string\",\"description\":\"words, " \
  "names, numbers or dates to look for\"},\"limit\":{\"type\":\"integer\",\"minimum\":1,"         \
  "\"maximum\":50,\"description\":\"how many hits; default 10\"}},\"required\":[\"query\"]}"
#define SCHEMA_READ                                                                                \
  "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"description\":\"the number " \
  "of a message (12 or #12), or its id\"},\"offset\":{\"type\":\"integer\",\"minimum\":0,"         \
  "\"description\":\"byte to go on from, as an earlier result says\"},\"before\":{\"type\":"       \
  "\"integer\",\"minimum\":0,\"maximum\":50,\"description\":\"messages before it to begin "        \
  "with\"},"                                                                                       \
  "\"max_tokens\":{\"type\":\"integer\",\"minimum\":100,\"maximum\":8000}},\"required\":[\"id\"]}"

const struct qp__llm_tool qp__recall_tools[2] = {
  { "search_history",
    "Searches the earlier part of this conversation, which the summary stands for. Returns the "
    "best "
    "messages with their numbers and a snippet.",
    { SCHEMA_SEARCH, sizeof(SCHEMA_SEARCH) - 1 },
    false },
  { "read_history",
    "Reads messages of the earlier part of this conversation, which the summary stands for, from a "
    "number on.",
    { SCHEMA_READ, sizeof(SCHEMA_READ) - 1 },
    false },
};

bool
qp__recall_is_tool(const char *name)
{
  return strcmp(name, qp__recall_tools[0].name) == 0 || strcmp(name, qp__recall_tools[1].name) == 0;
}

void
qp__conversation_release(struct qp__conversation *c)
{
  qp__sent_release(&c->sent);
  for (size_t i = 0; i < c->shown_count; i++)
    qp_message_free(c->shown[i]);
  for (size_t i = 0; i < c->tail_count; i++)
    qp_message_free(c->tail[i]);
  qp__free(c->shown);
  qp__free(c->shown_at);
  qp__free(c->tail);
  qp__free(c->tail_at);
  qp__free(c->tail_sizes);
  qp__idset_release(&c->pins);
  json_decref(c->metadata);
  qp__llm_params_release(&c->params);
  qp__buf_release(&c->system);
  qp__arena_release(&c->arena);
}

/* ---- the configuration ---- */

static enum qp_rc
add_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct qp__conversation *c = arg;

  return qp__buf_add_str(&c->system, prompt->content);
}

/* The branch's prompt, else the context's. A deleted prompt counts as no prompt. */
static enum qp_rc
read_prompt(struct qp__conversation *c, struct qp_err *err)
{
  json_t *branches = json_object_get(c->metadata, "branches");
  json_t *branch = json_object_get(branches, c->branch);
  const char *id = json_string_value(json_object_get(branch, "system_prompt_id"));
  enum qp_rc rc;

  if (!id)
    id = json_string_value(
        json_object_get(json_object_get(c->metadata, "config"), "system_prompt_id"));
  if (!id)
    return QP_OK;
  rc = qp_prompt_get(c->engine->store, id, add_prompt, c, err);
  return rc == QP_NOTFOUND ? QP_OK : rc;
}

static enum qp_rc
read_pins(struct qp__conversation *c, struct qp_err *err)
{
  const json_t *list = json_object_get(c->metadata, "pins");
  const json_t *value;
  size_t i;

  json_array_foreach (list, i, value) {
    struct qp_uuid id;

    if (!json_is_string(value) || qp_uuid_parse(json_string_value(value), &id, NULL) ||
        qp_uuid_is_none(&id))
      continue;
    if (!qp__idset_add(&c->pins, &id))
      return qp__fail_nomem(err, what);
  }
  return QP_OK;
}

void
qp__conversation_settings(const struct qp_engine *e, const json_t *config,
                          struct qp__compact_settings *out)
{
  struct qp_err ignored; /* settings that make no sense are those of the engine */

  *out = e->compaction;
  (void)qp__compact_settings_read(json_object_get(config, "compaction"), out, &ignored);
}

static enum qp_rc
read_metadata(struct qp__conversation *c, struct qp_err *err)
{
  char *text = NULL;
  size_t len;
  enum qp_rc rc = qp_context_metadata(c->context, &text, &len, err);

  if (!rc)
    rc = qp__json_parse_object("the metadata", (struct qp_bytes){ text, len }, &c->metadata, err);
  qp_free(text);
  if (rc)
    return rc;
  if (!c->branch) {
    const char *active = json_string_value(json_object_get(c->metadata, "active_branch_name"));

    c->branch = qp__arena_strdup(&c->arena, active ? active : "main");
    if (!c->branch)
      return qp__fail_nomem(err, what);
  }
  if (c->engine)
    qp__conversation_settings(c->engine, json_object_get(c->metadata, "config"), &c->settings);
  return read_pins(c, err);
}

/* ---- records ---- */

struct look {
  const struct qp_uuid *id;
  bool found;
};

static enum qp_rc
compare_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct look *look = arg;

  (void)json;
  look->found = qp_uuid_equal(&info->id, look->id);
  return QP_OK;
}

/* Whether message `position`, from 0, of the branch has this id. */
static bool
is_at(const struct qp__conversation *c, uint64_t position, const struct qp_uuid *id)
{
  struct look look = { id, false };
  struct qp_err ignored;

  return !qp_messages_index(c->context, c->branch, position, 1, compare_id, &look, &ignored) &&
         look.found;
}

bool
qp__conversation_holds(void *arg, uint64_t covered, const struct qp_uuid *last,
                       const uint8_t hash[QP__CHAIN])
{
  (void)hash;
  return covered && is_at(arg, covered - 1, last);
}

/* A record that is damaged or not understood does not count; `quipu check` reports it. */
static enum qp_rc
read_record(struct qp__conversation *c, const struct qp_uuid *id, struct qp__record *out,
            bool *good, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  json_t *value = NULL;
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__RECORD_MAX);
  rc = qp__record_read(c->context, id, &text, &cause);
  if (!rc)
    rc = qp__json_parse_own_object("a compaction record", qp__buf_bytes(&text), &value, &cause);
  if (!rc)
    rc = qp__record_from_json(value, &c->arena, out, &cause);
  json_decref(value);
  qp__buf_release(&text);
  *good = !rc;
  if (rc == QP_INVALID || rc == QP_NOTFOUND || rc == QP_CORRUPT || rc == QP_TOOBIG) {
    qp__log(&c->context->store->log, QP_LOG_WARN, "compact", "a compaction record is not used: %s",
            cause.msg);
    return QP_OK;
  }
  return qp__fail_as(err, rc, &cause);
}

/* Reads records, newest first, until one that covers something is chosen, or all of them. */
static enum qp_rc
read_records(struct qp__conversation *c, bool all, struct qp_err *err)
{
  struct qp_uuid *ids = NULL;
  struct qp__record *list = NULL;
  size_t n = 0;
  enum qp_rc rc = qp__record_ids(c->context, &ids, &n, err);

  if (!rc && n)
    list = qp__arena_alloc(&c->arena, n * sizeof(*list));
  if (!rc && n && !list)
    rc = qp__fail_nomem(err, what);
  for (size_t i = n; i-- > 0 && !rc;) {
    struct qp__record *place = &list[n - c->record_count - 1];
    bool good = false;

    rc = read_record(c, &ids[i], place, &good, err);
    if (rc || !good)
      continue;
    c->records = place;
    c->record_count++;
    if (!all && (place->kind != QP__RECORD_COMPACT || !place->covered))
      continue;
    c->record = qp__record_choose(c->records, c->record_count, qp__conversation_holds, c);
    if (!all && c->record && c->record->covered)
      break;
  }
  if (!rc)
    c->record = qp__record_choose(c->records, c->record_count, qp__conversation_holds, c);
  qp__free(ids);
  return rc;
}

enum qp_rc
qp__conversation_parent(struct qp__conversation *c, const struct qp__record *record,
                        const struct qp__record **out, struct qp_err *err)
{
  struct qp__record *parent = qp__arena_alloc(&c->arena, sizeof(*parent));
  bool good = false;
  enum qp_rc rc = QP_OK;

  if (!parent)
    return qp__fail_nomem(err, what);
  if (!qp_uuid_is_none(&record->parent))
    rc = read_record(c, &record->parent, parent, &good, err);
  if (!rc)
    *out = good && qp__conversation_holds(c, parent->covered, &parent->last, parent->hash) ? parent
                                                                                           : NULL;
  return rc;
}

enum qp_rc
qp__conversation_records(struct qp__conversation *c, bool all, struct qp_err *err)
{
  enum qp_rc rc = read_metadata(c, err);

  return rc ? rc : read_records(c, all, err);
}

/* ---- messages ---- */

struct reading {
  struct qp__conversation *c;
  struct qp_err *err;
};

static enum qp_rc
add_tail(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  const struct reading *r = arg;
  struct qp__conversation *c = r->c;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK; /* the model must do without it */
  if (!qp__vec_reserve(c->tail, c->tail_count, c->tail_cap, 1) ||
      !qp__vec_reserve(c->tail_at, c->tail_count, c->tail_at_cap, 1) ||
      !qp__vec_reserve(c->tail_sizes, c->tail_count, c->tail_sizes_cap, 1))
    return qp__fail_nomem(r->err, what);
  rc = qp_message_parse(json, &message, r->err);
  if (rc)
    return rc;
  c->tail_sizes[c->tail_count] = qp__size_cache_get(&c->engine->sizes, info->hash, message);
  c->tail_at[c->tail_count] = info->position + 1;
  c->tail[c->tail_count++] = message;
  c->all_bytes += json.len;
  return QP_OK;
}

/* Keeps a covered message in its place among those that are shown. */
static enum qp_rc
show_message(struct qp__conversation *c, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_err ignored = { QP_OK, "" };
  struct qp_message_info info;
  struct qp_message *message = NULL;
  size_t at = c->shown_count;
  enum qp_rc rc = qp_message_find(c->context, id, &info, &ignored);

  if (rc || info.position >= c->record->covered || !is_at(c, info.position, id))
    return rc == QP_NOMEM ? qp__fail_nomem(err, what) : QP_OK;
  for (size_t i = 0; i < c->shown_count; i++)
    if (c->shown_at[i] == info.position + 1)
      return QP_OK;
  rc = qp_message_load(c->context, id, &message, err);
  if (rc)
    return rc == QP_UNAVAILABLE ? QP_OK : rc;
  if (!qp__vec_reserve(c->shown, c->shown_count, c->shown_cap, 1) ||
      !qp__vec_reserve(c->shown_at, c->shown_count, c->shown_at_cap, 1)) {
    qp_message_free(message);
    return qp__fail_nomem(err, what);
  }
  for (; at > 0 && c->shown_at[at - 1] > info.position + 1; at--) {
    c->shown[at] = c->shown[at - 1];
    c->shown_at[at] = c->shown_at[at - 1];
  }
  c->shown[at] = message;
  c->shown_at[at] = info.position + 1;
  c->shown_count++;
  return QP_OK;
}

static enum qp_rc
read_messages(struct qp__conversation *c, struct qp_err *err)
{
  struct reading reading = { c, err };
  uint64_t first = c->record ? c->record->covered : 0;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; first && i < c->record->shown_count && !rc; i++)
    rc = show_message(c, &c->record->shown[i], err);
  for (size_t i = 0; first && i < c->pins.count && !rc; i++)
    rc = show_message(c, &c->pins.ids[i], err);
  return rc ? rc
            : qp_messages_range(c->context, c->branch, first, UINT64_MAX, add_tail, &reading, err);
}

/* ---- the model ---- */

/* The settings of this turn, which win over those of the context: "request" in the metadata of the
 * message that began it, {"model","system","parameters","server_tools"}. */
static const json_t *
turn_settings(const struct qp__conversation *c)
{
  for (size_t i = c->tail_count; i-- > 0;)
    if (c->tail[i]->role == QP_ROLE_USER)
      return json_object_get(c->tail[i]->metadata, "request");
  for (size_t i = c->shown_count; i-- > 0;)
    if (c->shown[i]->role == QP_ROLE_USER)
      return json_object_get(c->shown[i]->metadata, "request");
  return NULL;
}

static enum qp_rc
find_model(struct qp__conversation *c, const json_t *settings, struct qp_err *err)
{
  struct qp_engine *e = c->engine;
  const json_t *config = json_object_get(c->metadata, "config");
  const json_t *parameters = json_object_get(settings, "parameters");
  const char *model = json_string_value(json_object_get(settings, "model"));
  enum qp_rc rc;

  if (!model || !*model)
    model = json_string_value(json_object_get(config, "model_id"));
  if (!model || !*model)
    model = e->model;
  if (!json_is_object(parameters))
    parameters = json_object_get(config, "parameters");
  rc = qp__llm_resolve(&e->providers, &e->models, model, &c->provider, &c->model_name, err);
  if (!rc)
    rc = qp__llm_params_init(&c->params, parameters, err);
  if (!rc && !*c->model_name) {
    rc = qp__known_first(&e->known, c->provider->name, &c->arena, &c->model_name, err);
    c->unnamed = rc == QP_NOTFOUND;
  } else if (!rc && !(c->model_name = qp__arena_strdup(&c->arena, c->model_name))) {
    rc = qp__fail_nomem(err, what); /* it may point into the metadata */
  }
  if (!rc)
    c->model = qp__models_get(&e->models, c->model_name);
  return rc;
}

/* Without the server's tools there are no recall tools either, and the summary does not mention
 * them. */
static enum qp_rc
silence_record(struct qp__conversation *c, struct qp_err *err)
{
  struct qp__record *silent;

  if (!c->bare || !c->record || !c->record->recall)
    return QP_OK;
  silent = qp__arena_alloc(&c->arena, sizeof(*silent));
  if (!silent)
    return qp__fail_nomem(err, what);
  *silent = *c->record;
  silent->recall = false;
  c->record = silent;
  return QP_OK;
}

static enum qp_rc
apply_settings(struct qp__conversation *c, const json_t *settings, struct qp_err *err)
{
  const json_t *system = json_object_get(settings, "system");
  enum qp_rc rc = find_model(c, settings, err);

  c->bare = json_is_false(json_object_get(settings, "server_tools"));
  if (c->bare) {
    c->tools += c->server_tools;
    c->tool_count -= c->server_tools;
  }
  if (rc || !json_is_string(system))
    return rc;
  qp__buf_reset(&c->system);
  (void)qp__buf_add(&c->system, json_string_value(system), json_string_length(system));
  return qp__buf_check(&c->system, "the instructions", err);
}

/* ---- sizes ---- */

static bool
ask_pinned(void *arg, size_t i)
{
  const struct qp__conversation *c = arg;

  return qp__idset_has(&c->pins, &c->tail[i]->id);
}

static const struct qp__record_stub *
find_stub(const struct qp__conversation *c, size_t i)
{
  for (size_t k = 0; c->record && k < c->record->stub_count; k++)
    if (qp_uuid_equal(&c->record->stubs[k].id, &c->tail[i]->id))
      return &c->record->stubs[k];
  return NULL;
}

static bool
ask_stubbed(void *arg, size_t i)
{
  return find_stub(arg, i) != NULL;
}

static void
set_window(struct qp__conversation *c)
{
  struct qp_engine *e = c->engine;
  const struct qp__model *m = c->model;
  int64_t own = c->params.num_ctx;
  struct qp__budget *b = &c->budget;

  if (!own && m->origin == QP__MODEL_CONFIGURED)
    own = m->window;
  b->window =
      qp__number_choose(own, qp__known_window(&e->known, c->provider->name, c->model_name),
                        m->origin == QP__MODEL_BUILT_IN ? m->window : 0, QP__MODEL_ASSUMED_WINDOW);
  b->reserve = qp__count_reserve(c->params.max_tokens, m->max_output, b->window.value);
  b->threshold =
      (struct qp__number){ c->settings.policy.threshold,
                           c->settings.own_threshold ? QP__ORIGIN_USER : QP__ORIGIN_DEFAULT };
}

/* What the provider reported with an answer. False: nothing that can be used. */
static bool
read_report(const struct qp__conversation *c, const struct qp_message *m,
            struct qp__llm_usage *usage)
{
  const json_t *tokens = json_object_get(m->metadata, "tokens");
  const char *model = json_string_value(json_object_get(m->metadata, "model"));

  if (m->role != QP_ROLE_ASSISTANT || !tokens || !model ||
      strncmp(model, c->model_name, strlen(c->model_name)) != 0 ||
      json_is_true(json_object_get(m->metadata, "interrupted")))
    return false;
  *usage = (struct qp__llm_usage){
    .input = json_integer_value(json_object_get(tokens, "prompt_tokens")),
    .output = json_integer_value(json_object_get(tokens, "completion_tokens")),
  };
  return usage->input > 0;
}

/* The size of the request: what the provider reported for the last call, and what came since. */
static struct qp__number
count_used(const struct qp__conversation *c, int64_t all)
{
  struct qp__anchor anchor = { 0 };
  int64_t since = 0;

  for (size_t i = c->tail_count; i-- > 0 && c->tail_count - i <= LEARNED_MAX;) {
    int64_t own = c->items[i].tokens;
    struct qp__llm_usage usage;

    if (read_report(c, c->tail[i], &usage)) {
      bool rebuilt = c->record && c->tail[i]->created_at <= c->record->created_at;

      if (!rebuilt && qp__anchor_learn(&anchor, &usage, all - since - own, own))
        return qp__anchor_count(&anchor, since, all);
      break;
    }
    since += own;
  }
  return qp__anchor_scale(&anchor, all);
}

int64_t
qp__conversation_summary_tokens(const struct qp__conversation *c, const struct qp__record *record)
{
  struct qp__buf text;
  int64_t tokens = 0;

  qp__buf_init(&text, QP__RECORD_MAX);
  if (!qp__sent_summary(record, &text, NULL))
    tokens = qp__size_cache_text(&c->engine->sizes, qp__buf_bytes(&text));
  qp__buf_release(&text);
  return tokens;
}

/* Counts what is sent by kind. Of the tail only what was made for this view is counted here. */
static void
count_sent(struct qp__conversation *c)
{
  struct qp__count *all = &c->budget.messages;
  size_t at = 0; /* in `sent`, whose order compact/assemble.h gives */

  if (c->record && c->record->covered) {
    c->summary_tokens =
        QP__COUNT_MESSAGE +
        qp__size_cache_text(&c->engine->sizes, c->sent.messages[at++]->parts[0].view.text);
    all->text += c->summary_tokens;
  }
  for (size_t i = 0; i < c->shown_count; i++) {
    qp__count_add(all, c->sent.messages[at++]);
    c->pins_tokens += qp__count_message(c->shown[i]) + QP__PLAN_QUOTE_TOKENS;
  }
  for (size_t i = 0; i < c->tail_count; i++) {
    const struct qp__plan_size *size = &c->tail_sizes[i];

    all->text += size->recall;
    at += size->recall > 0;
    if (c->sent.messages[at] == c->tail[i])
      qp__count_join(all, &size->count);
    else
      qp__count_add(all, c->sent.messages[at]);
    at++;
  }
  QP_ASSERT(at == c->sent.count);
}

static enum qp_rc
measure(struct qp__conversation *c, struct qp_err *err)
{
  struct qp__budget *b = &c->budget;
  const struct qp_message *const *tail = (const struct qp_message *const *)c->tail;
  int64_t all;
  enum qp_rc rc = qp__plan_items(tail, c->tail_sizes, c->tail_count, ask_pinned, ask_stubbed, c,
                                 &c->arena, &c->items, err);

  if (rc)
    return rc;
  set_window(c);
  b->system = c->system.len ? qp__count_text(qp__buf_bytes(&c->system)) : 0;
  b->tools = qp__count_tools(c->tools, c->tool_count);
  count_sent(c);
  all = b->system + b->tools + c->pins_tokens + c->summary_tokens;
  for (size_t i = 0; i < c->tail_count; i++) {
    const struct qp__record_stub *stub = find_stub(c, i);

    if (stub)
      c->items[i].tokens += stub->keep;
    all += c->items[i].tokens;
  }
  b->used = count_used(c, all);
  b->used.value += b->reserve.value;
  return QP_OK;
}

void
qp__conversation_input(const struct qp__conversation *c, enum qp__plan_reason reason,
                       struct qp__plan_input *out)
{
  const json_t *state = json_object_get(c->metadata, "compaction");
  const char *tried = json_string_value(json_object_get(state, "tried"));

  *out = (struct qp__plan_input){
    .policy = &c->settings.policy,
    .reason = reason,
    .window = c->budget.window.value,
    .reserve = c->budget.reserve.value,
    .system = c->budget.system,
    .tools = c->budget.tools,
    .pins = c->pins_tokens,
    .summary = c->summary_tokens,
    .used = c->budget.used.value,
    .items = c->items,
    .count = c->tail_count,
    .failures = (unsigned)json_integer_value(json_object_get(state, "failures")),
  };
  if (reason == QP__REASON_CHECK && tried && qp_uuid_parse(tried, &out->last_head, NULL))
    out->last_head = (struct qp_uuid){ { 0 } };
}

/* ---- the whole ---- */

/* The recall tools behind the others, as long as something is covered. */
static enum qp_rc
add_recall_tools(struct qp__conversation *c, struct qp_err *err)
{
  struct qp__llm_tool *list;

  if (!c->record || !c->record->covered || !c->record->recall || c->recall_tools)
    return QP_OK;
  list = qp__arena_alloc(&c->arena, (c->tool_count + 2) * sizeof(*list));
  if (!list)
    return qp__fail_nomem(err, what);
  if (c->tool_count)
    memcpy(list, c->tools, c->tool_count * sizeof(*list));
  for (size_t i = 0; i < 2; i++)
    list[c->tool_count + i] = qp__recall_tools[i];
  c->tools = list;
  c->tool_count += 2;
  c->recall_tools = true;
  return QP_OK;
}

/* Builds and measures what is sent. */
static enum qp_rc
build(struct qp__conversation *c, struct qp_err *err)
{
  struct qp__sent_input input = {
    .shown = (const struct qp_message *const *)c->shown,
    .shown_at = c->shown_at,
    .shown_count = c->shown_count,
    .tail = (const struct qp_message *const *)c->tail,
    .tail_count = c->tail_count,
  };
  enum qp_rc rc = silence_record(c, err);

  if (!rc)
    rc = add_recall_tools(c, err);
  if (rc)
    return rc;
  input.record = c->record;
  rc = qp__sent_init(&c->sent, &input, err);
  return rc ? rc : measure(c, err);
}

enum qp_rc
qp__conversation_read(struct qp__conversation *c, struct qp_err *err)
{
  enum qp_rc rc = read_metadata(c, err);

  if (!rc)
    rc = read_prompt(c, err);
  if (!rc)
    rc = read_records(c, false, err);
  if (!rc)
    rc = read_messages(c, err);
  if (!rc)
    rc = apply_settings(c, turn_settings(c), err);
  return rc ? rc : build(c, err);
}

/* Whether a covered message is sent nevertheless. */
static bool
is_shown(const struct qp__conversation *c, const struct qp_message *m)
{
  for (size_t i = 0; i < c->record->shown_count; i++)
    if (qp_uuid_equal(&c->record->shown[i], &m->id))
      return true;
  return qp__idset_has(&c->pins, &m->id);
}

enum qp_rc
qp__conversation_cover(struct qp__conversation *c, const struct qp__record *record, size_t cut,
                       struct qp_err *err)
{
  size_t old = c->shown_count;

  if (!qp__vec_reserve(c->shown, c->shown_count, c->shown_cap, cut) ||
      !qp__vec_reserve(c->shown_at, c->shown_count, c->shown_at_cap, cut))
    return qp__fail_nomem(err, what);
  qp__sent_release(&c->sent);
  memset(&c->sent, 0, sizeof(c->sent));
  c->record = record;
  c->shown_count = 0;
  for (size_t i = 0; i < old + cut; i++) {
    struct qp_message *m = i < old ? c->shown[i] : c->tail[i - old];
    uint64_t at = i < old ? c->shown_at[i] : c->tail_at[i - old];

    if (is_shown(c, m)) {
      c->shown_at[c->shown_count] = at;
      c->shown[c->shown_count++] = m;
    } else {
      qp_message_free(m);
    }
  }
  c->tail_count -= cut;
  memmove(c->tail, c->tail + cut, c->tail_count * sizeof(*c->tail));
  memmove(c->tail_at, c->tail_at + cut, c->tail_count * sizeof(*c->tail_at));
  memmove(c->tail_sizes, c->tail_sizes + cut, c->tail_count * sizeof(*c->tail_sizes));
  c->budget.messages = (struct qp__count){ 0 };
  c->pins_tokens = c->summary_tokens = 0;
  return build(c, err);
}

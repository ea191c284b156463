/* legacy_context.c - converts a meta to an old context, as a rollback writes it, without messages.
 *
 * The keys are in the order in which the old program writes them. A migrated meta has in its
 * "legacy", and in that of its branches, what the new form cannot express (legacy_meta.c). The
 * changes there are guarded: what was changed in quipu since then is not changed back. */
#include "old/legacy_int.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "old/jsondiff.h"

const char *const qp__legacy_config_fields[] = {
  "model_id",   "mode",           "parameters",       "system_prompt_id",
  "agent_role", "workspace_path", "mermaid_diagrams", NULL,
};
static const char *const extra_fields[] = {
  "continuation_count", "continuation_reasons", "auto_generate_title", QP__LEGACY_FIELD, NULL,
};
static const char *const legacy_field[] = { QP__LEGACY_FIELD, NULL };

json_t *
qp__legacy_of(const json_t *extra)
{
  json_t *legacy = json_object_get(extra, QP__LEGACY_FIELD);

  return json_is_object(legacy) ? legacy : NULL;
}

bool
qp__legacy_is_late(const json_t *legacy)
{
  const char *form = json_string_value(json_object_get(legacy, "form"));

  return !form || strcmp(form, "early") != 0;
}

int64_t
qp__legacy_file_time(const struct qp__meta *m)
{
  json_t *text = json_object_get(qp__legacy_of(m->extra), "time");
  int64_t time = 0;

  if (text && qp__time_parse(json_string_value(text), json_string_length(text), &time))
    time = 0;
  return time;
}

int
qp__legacy_add_others(json_t *to, const json_t *from, const char *const *known,
                      const char *const *taken)
{
  void *iter = json_object_iter((json_t *)from); /* jansson's iterators take no const */

  for (; iter; iter = json_object_iter_next((json_t *)from, iter)) {
    const char *key = json_object_iter_key(iter);

    if (qp__legacy_is_listed(known, key) || qp__legacy_is_listed(taken, key))
      continue;
    if (json_object_set_nocheck(to, key, json_object_iter_value(iter)))
      return -1;
  }
  return 0;
}

bool
qp__legacy_is_listed(const char *const *list, const char *key)
{
  for (; list && *list; list++)
    if (strcmp(*list, key) == 0)
      return true;
  return false;
}

/* Copies a field of `from`; if it is missing and `preset` is not NULL, sets that, and takes
 * ownership of it. */
static int
set_or(json_t *to, const char *key, const json_t *from, json_t *preset)
{
  json_t *value = json_object_get(from, key);

  if (value) {
    json_decref(preset);
    return json_object_set(to, key, value);
  }
  return preset ? json_object_set_new(to, key, preset) : 0;
}

static json_t *
config_back(const json_t *config, bool late)
{
  json_t *prompt = json_object_get(config, "system_prompt_id");
  json_t *role = json_object_get(config, "agent_role");
  const char *name = json_string_value(role);
  json_t *o = json_object();
  int bad = set_or(o, "model_id", config, NULL) || set_or(o, "mode", config, NULL) ||
            set_or(o, "parameters", config, NULL);

  if (!bad && json_is_string(prompt))
    bad = json_object_set(o, "system_prompt_id", prompt);
  if (!bad && (late || (name && strcmp(name, "actor") != 0)))
    bad = json_object_set(o, "agent_role", role);
  return qp__json_built(o, bad || set_or(o, "workspace_path", config, NULL) ||
                               set_or(o, "mermaid_diagrams", config, late ? json_true() : NULL) ||
                               qp__legacy_add_others(o, config, qp__legacy_config_fields, NULL));
}

static const char *
active_key(const struct qp__meta *m)
{
  const struct qp__branch_def *b = m->active ? qp__meta_branch(m, m->active) : NULL;

  return b ? qp__legacy_branch_key(b) : m->active;
}

static int
fields_back(const struct qp__meta *m, bool late, json_t *o)
{
  return qp__json_set_uuid(o, "id", &m->id) || qp__json_set_uuid(o, "parent_id", &m->parent_id) ||
         json_object_set_new(o, "config", config_back(m->config, late)) ||
         set_or(o, "continuation_count", m->extra, late ? json_integer(0) : NULL) ||
         set_or(o, "continuation_reasons", m->extra, late ? json_array() : NULL) ||
         (m->title && qp__json_set_str(o, "title", m->title)) ||
         set_or(o, "auto_generate_title", m->extra, late ? json_true() : NULL) ||
         json_object_set_new(o, "message_pool", json_object()) ||
         json_object_set_new(o, "branches", json_object()) ||
         qp__json_set_str(o, "active_branch_name", active_key(m)) ||
         json_object_set_new(
             o, "current_state",
             qp__legacy_state_write(m->state, m->state_detail, late, m->updated_at)) ||
         qp__legacy_add_others(o, m->extra, extra_fields, NULL);
}

enum qp_rc
qp__legacy_context_back(const struct qp__meta *m, bool raw, json_t **out, struct qp_err *err)
{
  json_t *legacy = qp__legacy_of(m->extra);
  json_t *o = json_object();

  if (!o || fields_back(m, qp__legacy_is_late(legacy), o) ||
      (!raw && qp__diff_apply(&o, json_object_get(legacy, "differs"), true))) {
    json_decref(o);
    return qp__fail_nomem(err, "a context in the old format");
  }
  *out = o;
  return QP_OK;
}

/* ---- branches ---- */

const char *
qp__legacy_branch_key(const struct qp__branch_def *b)
{
  json_t *legacy = qp__legacy_of(b->extra);
  const char *key = json_string_value(json_object_get(legacy, "key"));
  const char *as = json_string_value(json_object_get(legacy, "as"));

  return key && as && strcmp(as, b->name) == 0 ? key : b->name;
}

void
qp__legacy_prompt_hash(const char *content, char out[33])
{
  uint8_t hash[16];

  (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)content, strlen(content),
                           NULL, 0);
  qp__hex_encode(out, hash, sizeof(hash));
  out[32] = 0;
}

static json_t *
prompt_back(const json_t *legacy, const char *id, const char *content)
{
  static const char *const known[] = { "id", "content", "hash", NULL };
  json_t *was = json_object_get(legacy, "prompt");
  const char *was_hash = json_string_value(json_object_get(was, "hash"));
  const char *was_id = json_string_value(json_object_get(was, "id"));
  json_t *o;
  char hash[33];

  if (!id || !content)
    return json_null();
  qp__legacy_prompt_hash(content, hash);
  if (!was_hash || !was_id || strcmp(hash, was_hash) != 0)
    was = NULL; /* another prompt than the imported one */
  o = json_object();
  return qp__json_built(
      o, qp__json_set_str(o, "id", was ? was_id : id) || qp__json_set_str(o, "content", content) ||
             qp__legacy_add_others(o, json_object_get(was, "others"), known, NULL));
}

enum qp_rc
qp__legacy_branch_back(const struct qp__branch_def *b, const char *prompt_id,
                       const char *prompt_content, bool raw, json_t **out, struct qp_err *err)
{
  json_t *legacy = qp__legacy_of(b->extra);
  json_t *o = json_object();

  if (qp__json_set_str(o, "name", qp__legacy_branch_key(b)) ||
      json_object_set_new(o, "message_ids", json_array()) ||
      json_object_set_new(o, "system_prompt", prompt_back(legacy, prompt_id, prompt_content)) ||
      qp__json_set_str(o, "user_prompt", b->user_prompt) ||
      qp__legacy_add_others(o, b->extra, legacy_field, NULL) ||
      (!raw && qp__diff_apply(&o, json_object_get(legacy, "differs"), true))) {
    json_decref(o);
    return qp__fail_nomem(err, "a branch in the old format");
  }
  *out = o;
  return QP_OK;
}

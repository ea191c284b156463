/* meta.c - a context without its messages: creating, copying, comparing, JSON. The stored form is
 * in meta.h.
 *
 * (1) config always has model_id, mode, agent_role, parameters and system_prompt_id, in this order
 *     and with the right types; only qp__config_build creates one.
 * (2) No value (json_t) belongs to two metas, so that different threads may free them. While a meta
 *     is encoded, the tree that is written borrows its values and changes their reference counts;
 *     the #error below ensures that jansson counts references atomically. */
#include "model/meta_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "base/str.h"
#include "model/client_tool.h"

#ifndef JANSSON_THREAD_SAFE_REFCOUNT
#error "this jansson does not count references atomically"
#endif

#define FORMAT_NAME "quipu-context"
#define FORMAT_VERSION 1

static const char *const meta_fields[] = {
  "format",        "version",      "id",         "parent_id", "title",
  "created_at",    "updated_at",   "config",     "branches",  "active_branch_name",
  "current_state", "state_detail", QP__SEAL_KEY, NULL,
};

/* ---- states ---- */

static const char *const state_list[] = {
#define STATE_NAME(name, text) text,
  QP_STATE_MAP(STATE_NAME)
#undef STATE_NAME
};

static const struct qp__name_set state_names = {
  state_list,
  sizeof(state_list) / sizeof(state_list[0]),
};

const char *
qp_state_name(enum qp_state state)
{
  return qp__name_set_get(&state_names, (unsigned)state);
}

bool
qp_state_find(const char *name, enum qp_state *out)
{
  for (size_t i = 0; i < state_names.count; i++) {
    if (strcmp(state_list[i], name) == 0) {
      *out = (enum qp_state)i;
      return true;
    }
  }
  return false;
}

bool
qp_state_awaits_client(enum qp_state state)
{
  return state == QP_STATE_IDLE || state == QP_STATE_FAILED ||
         state == QP_STATE_AWAITING_TOOL_APPROVAL;
}

/* ---- small parts ---- */

bool
qp__value_same(const json_t *a, const json_t *b)
{
  return a && b ? json_equal(a, b) : a == b;
}

enum qp_rc
qp__meta_check_title(const char *what, const char *title, struct qp_err *err)
{
  size_t n = title ? strlen(title) : 0;

  if (n > QP__TITLE_MAX)
    return qp__fail(err, QP_INVALID, "%s: \"title\" must have at most %d bytes", what,
                    QP__TITLE_MAX);
  if (n && !qp__utf8_ok(title, n))
    return qp__fail(err, QP_INVALID, "%s: \"title\" is not valid UTF-8", what);
  return QP_OK;
}

/* ---- configuration ---- */

static const struct {
  const char *key;
  const char *preset;
} config_words[] = { { "model_id", "" }, { "mode", "chat" }, { "agent_role", "actor" } };

#define CONFIG_WORDS (sizeof(config_words) / sizeof(config_words[0]))

static const char *const config_fields[] = {
  "model_id", "mode", "agent_role", "parameters", "system_prompt_id", NULL,
};

enum qp_rc
qp__config_build(const char *what, const json_t *from, json_t **out, struct qp_err *err)
{
  struct qp__place at = { what, "config." };
  const char *words[CONFIG_WORDS];
  const char *prompt_id = NULL;
  const char *workspace = NULL;
  json_t *parameters = NULL;
  json_t *rest = NULL;
  json_t *config = NULL;
  enum qp_rc rc = QP_OK;
  int bad = 0;

  for (size_t i = 0; i < CONFIG_WORDS && !rc; i++) {
    words[i] = config_words[i].preset;
    rc = qp__field_string(&at, from, config_words[i].key, &words[i], err);
  }
  if (!rc)
    rc = qp__field_object(&at, from, "parameters", &parameters, err);
  if (!rc)
    rc = qp__field_prompt_id(&at, from, "system_prompt_id", &prompt_id, err);
  if (!rc)
    rc = qp__field_string(&at, from, "workspace_path", &workspace, err);
  if (!rc)
    rc = qp__field_rest(what, from, config_fields, &rest, err);
  if (rc)
    return rc;

  config = json_object();
  for (size_t i = 0; i < CONFIG_WORDS && !bad; i++)
    bad = qp__json_set_str(config, config_words[i].key, words[i]);
  parameters = parameters ? json_incref(parameters) : json_object();
  bad = json_object_set_new(config, "parameters", parameters) || bad;
  if (bad || qp__json_set_str(config, "system_prompt_id", prompt_id) ||
      qp__field_add_rest(config, rest)) {
    json_decref(config);
    rc = qp__fail_nomem(err, what);
  } else {
    *out = config;
  }
  json_decref(rest);
  return rc;
}

/* ---- making and freeing ---- */

void
qp__meta_free(struct qp__meta *m)
{
  if (!m)
    return;
  qp__free(m->title);
  qp__free(m->active);
  json_decref(m->config);
  json_decref(m->state_detail);
  json_decref(m->extra);
  qp__branches_release(m);
  qp__free(m);
}

/* Adds one string of a spec to the new configuration. */
static enum qp_rc
add_word(json_t *raw, const char *key, const char *value, struct qp_err *err)
{
  if (!value)
    return QP_OK;
  if (!qp__utf8_ok(value, strlen(value)))
    return qp__fail(err, QP_INVALID, "new context: \"config.%s\" is not valid UTF-8", key);
  if (qp__json_set_str(raw, key, value))
    return qp__fail_nomem(err, "a context");
  return QP_OK;
}

static enum qp_rc
add_object(json_t *raw, const char *key, const char *json, struct qp_err *err)
{
  struct qp_bytes text = { json, json ? strlen(json) : 0 };
  char what[40];
  json_t *value = NULL;
  enum qp_rc rc;

  if (!json)
    return QP_OK;
  (void)snprintf(what, sizeof(what), "new context: %s", key);
  rc = qp__json_parse_object(what, text, &value, err);
  if (!rc)
    rc = qp__value_check_depth(what, value, 2,
                               err); /* two levels above it: the context and its config */
  if (!rc && json_object_set(raw, key, value))
    rc = qp__fail_nomem(err, "a context");
  json_decref(value);
  return rc;
}

static enum qp_rc
add_tools(json_t *raw, const char *json, struct qp_err *err)
{
  const char *what = "new context";
  json_t *tools = NULL;
  enum qp_rc rc;

  if (!json)
    return QP_OK;
  rc = qp__json_parse_outside(what, (struct qp_bytes){ json, strlen(json) }, &tools, err);
  if (!rc)
    rc = qp__client_tools_check(what, tools, err);
  if (!rc && json_object_set(raw, "tools", tools))
    rc = qp__fail_nomem(err, "a context");
  json_decref(tools);
  return rc;
}

static enum qp_rc
config_of_spec(const struct qp_context_spec *spec, json_t **out, struct qp_err *err)
{
  json_t *raw = json_object();
  enum qp_rc rc = raw ? QP_OK : qp__fail_nomem(err, "a context");

  if (!rc)
    rc = add_word(raw, "model_id", spec->model_id, err);
  if (!rc)
    rc = add_word(raw, "mode", spec->mode, err);
  if (!rc)
    rc = add_word(raw, "agent_role", spec->agent_role, err);
  if (!rc)
    rc = add_word(raw, "system_prompt_id", spec->system_prompt_id, err);
  if (!rc)
    rc = add_object(raw, "parameters", spec->parameters_json, err);
  if (!rc)
    rc = add_object(raw, "compaction", spec->compaction_json, err);
  if (!rc)
    rc = add_tools(raw, spec->tools_json, err);
  if (!rc)
    rc = qp__config_build("new context", raw, out, err);
  json_decref(raw);
  return rc;
}

/* The owner is stored in `extra`, among the unknown fields. */
static enum qp_rc
add_owner(struct qp__meta *m, const char *owner, struct qp_err *err)
{
  size_t n = owner ? strlen(owner) : 0;

  if (!owner)
    return QP_OK;
  if (!n || n > QP__OWNER_MAX || !qp__utf8_ok(owner, n))
    return qp__fail(err, QP_INVALID, "new context: \"owner\" must be 1 to %d bytes of UTF-8",
                    QP__OWNER_MAX);
  m->extra = json_object();
  return qp__json_set_str(m->extra, "owner", owner) ? qp__fail_nomem(err, "a context") : QP_OK;
}

const char *
qp__meta_owner(const struct qp__meta *m)
{
  return json_string_value(json_object_get(m->extra, "owner"));
}

const char *
qp__meta_prompt(const struct qp__meta *m)
{
  return json_string_value(json_object_get(m->config, "system_prompt_id"));
}

enum qp_rc
qp__meta_new(const struct qp_context_spec *spec, int64_t now_ms, struct qp__meta **out,
             struct qp_err *err)
{
  struct qp__meta *m = NULL;
  enum qp_rc rc;

  if (qp_uuid_is_none(&spec->id))
    return qp__fail(err, QP_MISUSE, "a new context needs an id");
  rc = qp__meta_check_title("new context", spec->title, err);
  if (rc)
    return rc;
  m = qp__alloc0(1, sizeof(*m));
  if (!m || !qp__str_replace(&m->title, spec->title) ||
      !qp__str_replace(&m->active, QP__BRANCH_MAIN)) {
    qp__meta_free(m);
    return qp__fail_nomem(err, "a context");
  }
  m->id = spec->id;
  m->parent_id = spec->parent_id;
  m->created_at = now_ms;
  m->updated_at = now_ms;
  m->state = QP_STATE_IDLE;
  rc = config_of_spec(spec, &m->config, err);
  if (!rc)
    rc = qp__meta_branch_add(m, QP__BRANCH_MAIN, now_ms, NULL, err);
  if (!rc)
    rc = add_owner(m, spec->owner, err);
  if (rc)
    qp__meta_free(m);
  else
    *out = m;
  return rc;
}

enum qp_rc
qp__meta_clone_head(const struct qp__meta *m, struct qp__meta **out, struct qp_err *err)
{
  struct qp__meta *copy = qp__alloc0(1, sizeof(*copy));

  if (!copy || !qp__str_replace(&copy->title, m->title) ||
      !qp__str_replace(&copy->active, m->active) || !qp__value_copy(m->config, &copy->config) ||
      !qp__value_copy(m->state_detail, &copy->state_detail) ||
      !qp__value_copy(m->extra, &copy->extra)) {
    qp__meta_free(copy);
    return qp__fail_nomem(err, "a context");
  }
  copy->id = m->id;
  copy->parent_id = m->parent_id;
  copy->created_at = m->created_at;
  copy->updated_at = m->updated_at;
  copy->state = m->state;
  *out = copy;
  return QP_OK;
}

enum qp_rc
qp__meta_clone(const struct qp__meta *m, struct qp__meta **out, struct qp_err *err)
{
  struct qp__meta *copy = NULL;
  enum qp_rc rc = qp__meta_clone_head(m, &copy, err);

  if (!rc && !qp__branches_clone(m, copy)) {
    qp__meta_free(copy);
    return qp__fail_nomem(err, "a context");
  }
  if (!rc)
    *out = copy;
  return rc;
}

bool
qp__meta_equal(const struct qp__meta *a, const struct qp__meta *b)
{
  return qp_uuid_equal(&a->id, &b->id) && qp_uuid_equal(&a->parent_id, &b->parent_id) &&
         qp__str_same(a->title, b->title) && qp__value_same(a->config, b->config) &&
         qp__branches_same(a, b) && qp__str_same(a->active, b->active) && a->state == b->state &&
         qp__value_same(a->state_detail, b->state_detail) && qp__value_same(a->extra, b->extra);
}

/* ---- from JSON ---- */

static enum qp_rc
check_format(const struct qp__place *at, const json_t *root, struct qp_err *err)
{
  const char *format = FORMAT_NAME;
  json_t *version = qp__field_get(root, "version");
  enum qp_rc rc = qp__field_string(at, root, "format", &format, err);

  if (rc)
    return rc;
  if (strcmp(format, FORMAT_NAME) != 0)
    return qp__field_fail(at, "format", "must be \"" FORMAT_NAME "\"", err);
  if (!version)
    return QP_OK;
  if (!json_is_integer(version) || json_integer_value(version) < 1)
    return qp__field_fail(at, "version", "must be a whole number, 1 or more", err);
  if (json_integer_value(version) > FORMAT_VERSION)
    return qp__fail(err, QP_INVALID,
                    "%s: was written by a newer quipu (version %lld of the format; this one knows "
                    "%d)",
                    at->what, (long long)json_integer_value(version), FORMAT_VERSION);
  return QP_OK;
}

enum qp_rc
qp__meta_read_state(const struct qp__place *at, const json_t *root, enum qp_state *out,
                    struct qp_err *err)
{
  const char *name = NULL;
  char all[240];
  enum qp_rc rc = qp__field_string(at, root, "current_state", &name, err);

  if (rc || !name)
    return rc;
  if (!qp_state_find(name, out))
    return qp__fail(err, QP_INVALID, "%s: \"current_state\" must be one of %s", at->what,
                    qp__name_set_list(&state_names, all, sizeof(all)));
  return QP_OK;
}

static enum qp_rc
decode_active(const struct qp__place *at, const json_t *root, struct qp__meta *m,
              struct qp_err *err)
{
  const char *active = QP__BRANCH_MAIN;
  const char *problem = NULL;
  enum qp_rc rc = qp__field_string(at, root, "active_branch_name", &active, err);

  if (!rc)
    rc = qp__branch_name_problem(active, &problem, err);
  if (!rc && problem)
    rc = qp__field_fail(at, "active_branch_name", problem, err);
  if (!rc && !qp__str_replace(&m->active, active))
    rc = qp__fail_nomem(err, at->what);
  return rc;
}

static enum qp_rc
decode_head(const struct qp__place *at, const json_t *root, struct qp__meta *m, struct qp_err *err)
{
  const char *title = NULL;
  enum qp_rc rc = check_format(at, root, err);

  if (!rc)
    rc = qp__field_uuid(at, root, "id", &m->id, err);
  if (!rc && qp_uuid_is_none(&m->id))
    rc = qp__field_fail(at, "id", "is missing", err);
  if (!rc)
    rc = qp__field_uuid(at, root, "parent_id", &m->parent_id, err);
  if (!rc)
    rc = qp__field_string(at, root, "title", &title, err);
  if (!rc)
    rc = qp__meta_check_title(at->what, title, err);
  if (!rc)
    rc = qp__field_time(at, root, "created_at", &m->created_at, err);
  if (!rc)
    rc = qp__field_time(at, root, "updated_at", &m->updated_at, err);
  if (!rc)
    rc = decode_active(at, root, m, err);
  if (!rc)
    rc = qp__meta_read_state(at, root, &m->state, err);
  if (!rc && !qp__str_replace(&m->title, title))
    rc = qp__fail_nomem(err, at->what);
  return rc;
}

static enum qp_rc
decode_body(const struct qp__place *at, const json_t *root, struct qp__meta *m, struct qp_err *err)
{
  json_t *config = NULL;
  json_t *branches = NULL;
  json_t *detail = NULL;
  enum qp_rc rc = qp__field_object(at, root, "config", &config, err);

  if (!rc)
    rc = qp__config_build(at->what, config, &m->config, err);
  if (!rc)
    rc = qp__field_object(at, root, "branches", &branches, err);
  if (!rc && branches)
    rc = qp__branches_decode(at->what, branches, m, err);
  else if (!rc)
    rc = qp__meta_branch_add(m, QP__BRANCH_MAIN, m->created_at, NULL, err);
  if (!rc)
    rc = qp__field_object(at, root, "state_detail", &detail, err);
  if (!rc)
    rc = qp__field_rest(at->what, root, meta_fields, &m->extra, err);
  if (!rc)
    m->state_detail = json_incref(detail);
  return rc;
}

enum qp_rc
qp__meta_decode(const char *what, struct qp_bytes json, struct qp__meta **out, struct qp_err *err)
{
  struct qp__place at = { what, "" };
  struct qp__meta *m = NULL;
  json_t *root = NULL;
  enum qp_rc rc;

  if (json.len > QP__META_MAX)
    return qp__fail(err, QP_TOOBIG, "%s is over its limit of %zu bytes", what, QP__META_MAX);
  rc = qp__json_parse_object(what, json, &root, err);
  if (rc)
    return rc;
  m = qp__alloc0(1, sizeof(*m));
  rc = m ? decode_head(&at, root, m, err) : qp__fail_nomem(err, what);
  if (!rc)
    rc = decode_body(&at, root, m, err);
  if (rc)
    qp__meta_free(m);
  else
    *out = m;
  json_decref(root);
  return rc;
}

/* ---- to JSON ---- */

/* The fields before the branches. */
static int
encode_first(const struct qp__meta *m, json_t *o)
{
  return qp__json_set_str(o, "format", FORMAT_NAME) ||
         json_object_set_new(o, "version", json_integer(FORMAT_VERSION)) ||
         qp__json_set_uuid(o, "id", &m->id) || qp__json_set_uuid(o, "parent_id", &m->parent_id) ||
         qp__json_set_str(o, "title", m->title) ||
         qp__json_set_time(o, "created_at", m->created_at) ||
         qp__json_set_time(o, "updated_at", m->updated_at) ||
         json_object_set(o, "config", m->config);
}

/* The fields after the branches. */
static int
encode_last(const struct qp__meta *m, json_t *o)
{
  if (qp__json_set_str(o, "active_branch_name", m->active) ||
      qp__json_set_str(o, "current_state", qp_state_name(m->state)))
    return -1;
  if (m->state_detail && json_object_set(o, "state_detail", m->state_detail))
    return -1;
  return qp__field_add_rest(o, m->extra);
}

void
qp__field_write(struct qp__buf *out, bool first, const char *key, const json_t *value, size_t level)
{
  (void)qp__buf_add_str(out, first ? "\n" : ",\n");
  for (size_t i = 0; i < level; i++)
    (void)qp__buf_add_str(out, "  ");
  (void)qp__json_write_string(out, key, strlen(key));
  (void)qp__buf_add_str(out, ": ");
  (void)qp__json_write_inside(out, value, level);
}

static void
write_fields(struct qp__buf *out, json_t *o, bool first)
{
  const char *key;
  json_t *value;

  json_object_foreach (o, key, value) {
    qp__field_write(out, first, key, value, 1);
    first = false;
  }
}

enum qp_rc
qp__meta_encode(const struct qp__meta *m, struct qp__buf *out, struct qp_err *err)
{
  json_t *first = json_object();
  json_t *last = json_object();
  size_t start = out->len;
  enum qp_rc rc;

  if (encode_first(m, first) || encode_last(m, last)) {
    rc = qp__fail_nomem(err, "the metadata");
  } else {
    (void)qp__buf_add_char(out, '{');
    write_fields(out, first, true);
    (void)qp__buf_add_str(out, ",\n  \"branches\": ");
    qp__branches_write(m, out);
    write_fields(out, last, false);
    (void)qp__buf_add_str(out, "\n}\n");
    rc = qp__buf_check(out, "the metadata", err);
    if (rc && out->data) {
      out->len = start;
      out->data[start] = 0;
    }
  }
  json_decref(first);
  json_decref(last);
  return rc;
}

enum qp_rc
qp__meta_seal(const struct qp__meta *m, struct qp__buf *out, struct qp_err *err)
{
  size_t start = out->len;
  enum qp_rc rc = qp__meta_encode(m, out, err);

  return rc ? rc : qp__seal_document(out, start, err);
}

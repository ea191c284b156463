/* meta_patch.c - changing a meta by a JSON object, as qp_context_update describes. In the patch
 * null removes a field, at the top level and in "config"; required fields get their default. */
#include "model/meta_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "model/client_tool.h"

#define WHAT "change"

static const char *const patch_fields[] = {
  "title", "parent_id", "config", "current_state", "state_detail", NULL,
};

/* Fields that a patch must not change, and why. */
static const struct {
  const char *key;
  const char *problem;
} fixed[] = {
  { "id", "never changes" },
  { "format", "never changes" },
  { "version", "never changes" },
  { "created_at", "never changes" },
  { "updated_at", "is set by quipu itself" },
  { "branches", "is changed by qp_branch_fork, qp_branch_rename, qp_branch_delete and "
                "qp_branch_set_prompt" },
  { "active_branch_name", "is changed by qp_branch_switch" },
  { QP__SEAL_KEY, "is reserved for the checksum of metadata.json" },
};

static enum qp_rc
check_fixed(const struct qp__place *at, const json_t *patch, struct qp_err *err)
{
  for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
    if (json_object_get(patch, fixed[i].key))
      return qp__field_fail(at, fixed[i].key, fixed[i].problem, err);
  return QP_OK;
}

/* A new object with the fields of `old` (may be NULL), changed by `change`. The values are shared.
 * NULL: out of memory. */
static json_t *
merge(json_t *old, json_t *change)
{
  json_t *merged = json_object();
  const char *key;
  json_t *value;
  int bad = !merged || qp__field_add_rest(merged, old);

  json_object_foreach (change, key, value) {
    if (bad)
      break;
    if (json_is_null(value))
      (void)json_object_del(merged, key); /* it may be absent */
    else
      bad = json_object_set_nocheck(merged, key, value);
  }
  return qp__json_built(merged, bad);
}

static enum qp_rc
patch_config(const struct qp__place *at, const json_t *patch, struct qp__meta *m,
             struct qp_err *err)
{
  json_t *change = json_object_get(patch, "config");
  json_t *merged;
  json_t *config;
  enum qp_rc rc;

  if (!change)
    return QP_OK;
  if (!json_is_object(change))
    return qp__field_fail(at, "config", "must be an object", err);
  if (qp__field_get(change, "tools")) {
    rc = qp__client_tools_check("config", qp__field_get(change, "tools"), err);
    if (rc)
      return rc;
  }
  merged = merge(m->config, change);
  if (!merged)
    return qp__fail_nomem(err, WHAT);
  rc = qp__config_build(WHAT, merged, &config, err);
  if (!rc) {
    json_decref(m->config);
    m->config = config;
  }
  json_decref(merged);
  return rc;
}

/* A new state removes the detail of the old state. */
static enum qp_rc
patch_state(const struct qp__place *at, const json_t *patch, struct qp__meta *m, struct qp_err *err)
{
  json_t *name = json_object_get(patch, "current_state");
  json_t *detail = NULL;
  enum qp_rc rc;

  if (json_is_null(name))
    return qp__field_fail(at, "current_state", "cannot be removed", err);
  rc = qp__field_object(at, patch, "state_detail", &detail, err);
  if (!rc)
    rc = qp__meta_read_state(at, patch, &m->state, err);
  if (!rc && (name || json_object_get(patch, "state_detail"))) {
    json_decref(m->state_detail);
    m->state_detail = json_incref(detail);
  }
  return rc;
}

static enum qp_rc
patch_extra(const json_t *patch, struct qp__meta *m, struct qp_err *err)
{
  json_t *change = NULL;
  json_t *merged;
  enum qp_rc rc = qp__field_rest(WHAT, patch, patch_fields, &change, err);

  if (rc || !change)
    return rc;
  merged = merge(m->extra, change);
  json_decref(change);
  if (!merged)
    return qp__fail_nomem(err, WHAT);
  if (json_object_size(merged) == 0) {
    json_decref(merged);
    merged = NULL;
  }
  json_decref(m->extra);
  m->extra = merged;
  return QP_OK;
}

static enum qp_rc
patch_title(const struct qp__place *at, const json_t *patch, struct qp__meta *m, struct qp_err *err)
{
  const char *title = NULL;
  enum qp_rc rc;

  if (!json_object_get(patch, "title"))
    return QP_OK;
  rc = qp__field_string(at, patch, "title", &title, err);
  if (!rc)
    rc = qp__meta_check_title(at->what, title, err);
  if (!rc && !qp__str_replace(&m->title, title))
    rc = qp__fail_nomem(err, WHAT);
  return rc;
}

static enum qp_rc
patch_parent(const struct qp__place *at, const json_t *patch, struct qp__meta *m,
             struct qp_err *err)
{
  struct qp_uuid parent = { { 0 } };
  enum qp_rc rc;

  if (!json_object_get(patch, "parent_id"))
    return QP_OK;
  rc = qp__field_uuid(at, patch, "parent_id", &parent, err);
  if (!rc)
    m->parent_id = parent;
  return rc;
}

enum qp_rc
qp__meta_patch_value(struct qp__meta *m, const json_t *patch, struct qp_err *err)
{
  struct qp__place at = { WHAT, "" };
  enum qp_rc rc = check_fixed(&at, patch, err);

  if (!rc)
    rc = patch_title(&at, patch, m, err);
  if (!rc)
    rc = patch_parent(&at, patch, m, err);
  if (!rc)
    rc = patch_config(&at, patch, m, err);
  if (!rc)
    rc = patch_state(&at, patch, m, err);
  return rc ? rc : patch_extra(patch, m, err);
}

enum qp_rc
qp__meta_patch(struct qp__meta *m, struct qp_bytes patch, struct qp_err *err)
{
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object(WHAT, patch, &root, err);

  if (!rc)
    rc = qp__meta_patch_value(m, root, err);
  json_decref(root);
  return rc;
}

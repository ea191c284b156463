/* context_json.c - see context_json.h. */
#include "http/context_json.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/idset.h"
#include "base/json.h"
#include "http/conditional_change.h"
#include "http/dto.h"
#include "http/emit.h"
#include "http/owner.h"

enum qp_rc
qp__metadata_object(struct qp_context *context, json_t **out, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp_context_summary(context, &text, &len, err);

  if (!rc)
    rc = qp__json_parse_object("the metadata", (struct qp_bytes){ text, len }, out, err);
  qp_free(text);
  return rc;
}

enum qp_rc
qp__brief_shown(struct qp__held *held, struct qp__brief *out, struct qp_err *err)
{
  json_t *failure = NULL;
  enum qp_rc rc = qp__brief_read(held->context, out, err);

  if (!rc)
    rc = qp__change_failure(held, &failure, err);
  if (failure) {
    json_decref(out->state_detail);
    out->state_detail = failure;
    out->state = QP_STATE_FAILED;
  }
  return rc;
}

/* The metadata for showing. */
static enum qp_rc
shown_metadata(struct qp__held *held, json_t **out, struct qp_err *err)
{
  json_t *failure = NULL;
  enum qp_rc rc = qp__metadata_object(held->context, out, err);

  if (!rc)
    rc = qp__change_failure(held, &failure, err);
  if (failure &&
      (json_object_set_new(*out, "state_detail", failure) ||
       json_object_set_new(*out, "current_state", json_string(qp_state_name(QP_STATE_FAILED)))))
    rc = qp__fail_nomem(err, "the state");
  return rc;
}

/* ---- branches ---- */

struct shown_prompt {
  const char *id; /* as the caller sees it */
  struct qp__buf *out;
};

static enum qp_rc
emit_prompt(void *arg, const struct qp_prompt *prompt)
{
  const struct shown_prompt *shown = arg;
  struct qp__buf *out = shown->out;

  qp__emit_open(out, "system_prompt", '{');
  qp__emit_str(out, "id", shown->id);
  qp__emit_str(out, "name", prompt->name);
  qp__emit_str(out, "description", prompt->description);
  qp__emit_str(out, "content", prompt->content);
  qp__emit_close(out, '}');
  return QP_OK;
}

static void
emit_branch_head(struct qp_store *store, const char *owner, struct qp__buf *out,
                 const struct qp_branch_info *branch)
{
  const char *stored = branch->system_prompt_id;
  struct shown_prompt shown = { stored ? qp__owner_visible_prompt(owner, stored) : NULL, out };
  enum qp_rc rc = QP_NOTFOUND;

  qp__emit_open(out, NULL, '{');
  qp__emit_str(out, "name", branch->name);
  qp__emit_bool(out, "active", branch->active);
  qp__emit_uuid(out, "head", &branch->head);
  qp__emit_uint(out, "messages", branch->messages);
  qp__emit_uint(out, "message_bytes", branch->message_bytes);
  qp__emit_str(out, "system_prompt_id", shown.id);
  if (shown.id)
    rc = qp_prompt_get(store, stored, emit_prompt, &shown, NULL);
  if (rc)
    qp__emit_str(out, "system_prompt", NULL);
  if (rc == QP_NOMEM && !out->rc)
    out->rc = QP_NOMEM; /* a member may be missing */
  qp__emit_time(out, "created_at", branch->created_at);
}

void
qp__branch_emit(struct qp_store *store, const char *owner, struct qp__buf *out,
                const struct qp_branch_info *branch)
{
  emit_branch_head(store, owner, out, branch);
  qp__emit_close(out, '}');
}

struct finding {
  const char *name; /* NULL: the active branch */
  char *found;
  uint64_t messages;
};

static enum qp_rc
look_at_branch(void *arg, const struct qp_branch_info *branch)
{
  struct finding *f = arg;

  if (f->name ? strcmp(branch->name, f->name) != 0 : !branch->active)
    return QP_OK;
  f->messages = branch->messages;
  f->found = qp__strdup(branch->name);
  return f->found ? QP_STOPPED : QP_NOMEM;
}

enum qp_rc
qp__branch_find(struct qp_context *context, const char *name, char **found, uint64_t *messages,
                struct qp_err *err)
{
  struct finding f = { name, NULL, 0 };
  enum qp_rc rc = qp_branch_list(context, look_at_branch, &f, err);

  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "finding a branch");
  if (rc && rc != QP_STOPPED)
    return rc;
  if (!f.found)
    return qp__fail(err, QP_NOTFOUND, "Branch not found");
  if (messages)
    *messages = f.messages;
  if (found)
    *found = f.found;
  else
    qp__free(f.found);
  return QP_OK;
}

/* ---- messages of all branches ---- */

struct full {
  struct qp_store *store;
  const char *owner;
  struct qp_context *context;
  struct qp__buf *out; /* the branches */
  struct qp__buf pool; /* the messages */
  struct qp__idset seen;
  uint64_t first_new; /* position of the first message that is in no earlier branch */
  bool messages;
};

static enum qp_rc
list_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct full *full = arg;
  size_t seen = full->seen.count;

  (void)json;
  qp__emit_uuid(full->out, NULL, &info->id);
  if (!qp__idset_add(&full->seen, &info->id))
    return QP_NOMEM;
  if (full->seen.count > seen && full->first_new == UINT64_MAX)
    full->first_new = info->position;
  return QP_OK;
}

static enum qp_rc
pool_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct full *full = arg;
  char id[QP_UUID_TEXT];

  qp__dto_message(&full->pool, qp_uuid_text(&info->id, id), info, json);
  return full->pool.rc;
}

/* Two branches can only share their beginning, so the new messages of a branch are its last
 * ones. */
static enum qp_rc
render_branch(void *arg, const struct qp_branch_info *branch)
{
  struct full *full = arg;
  enum qp_rc rc;

  emit_branch_head(full->store, full->owner, full->out, branch);
  if (full->messages) {
    full->first_new = UINT64_MAX;
    qp__emit_open(full->out, "message_ids", '[');
    rc = qp_messages_index(full->context, branch->name, 0, branch->messages, list_id, full, NULL);
    qp__emit_close(full->out, ']');
    if (!rc && full->first_new != UINT64_MAX)
      rc = qp_messages_range(full->context, branch->name, full->first_new,
                             branch->messages - full->first_new, pool_message, full, NULL);
    if (rc)
      return rc;
  }
  qp__emit_close(full->out, '}');
  return full->out->rc;
}

/* ---- the whole ---- */

static void
emit_extra(struct qp__buf *out, const json_t *metadata)
{
  static const char *const known[] = {
    "format",        "version",      "id",     "parent_id",  "title",
    "created_at",    "updated_at",   "config", "branches",   "active_branch_name",
    "current_state", "state_detail", "owner",  "compaction", "pins",
    "window",        "queue",
  };
  const char *key;
  json_t *value;
  bool any = false;

  json_object_foreach ((json_t *)metadata, key, value) {
    size_t i = 0;

    while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], key) != 0)
      i++;
    if (i < sizeof(known) / sizeof(known[0]))
      continue;
    if (!any)
      qp__emit_open(out, "extra", '{');
    any = true;
    qp__emit_json(out, key, value);
  }
  if (any)
    qp__emit_close(out, '}');
}

static void
emit_metadata(struct qp__buf *out, const json_t *metadata, int64_t updated_at)
{
  const json_t *detail = json_object_get(metadata, "state_detail");

  qp__emit_json(out, "id", json_object_get(metadata, "id"));
  qp__emit_json(out, "parent_id", json_object_get(metadata, "parent_id"));
  qp__emit_json(out, "title", json_object_get(metadata, "title"));
  qp__emit_json(out, "created_at", json_object_get(metadata, "created_at"));
  qp__emit_time(out, "updated_at", updated_at);
  qp__emit_json(out, "state", json_object_get(metadata, "current_state"));
  if (detail)
    qp__emit_json(out, "state_detail", detail);
  qp__emit_json(out, "config", json_object_get(metadata, "config"));
  qp__emit_json(out, "owner", json_object_get(metadata, "owner"));
  qp__emit_json(out, "active_branch", json_object_get(metadata, "active_branch_name"));
}

/* Shows the prompt of the configuration as the caller sees it. False: out of memory. */
static bool
show_config_prompt(json_t *metadata, const char *owner)
{
  json_t *config = json_object_get(metadata, "config");
  const char *stored = qp__json_text(config, "system_prompt_id");
  const char *id;

  if (!stored || !owner)
    return true;
  id = qp__owner_visible_prompt(owner, stored);
  return json_object_set_new(config, "system_prompt_id", id ? json_string(id) : json_null()) == 0;
}

enum qp_rc
qp__context_render(struct qp__held *held, const char *owner, bool messages, struct qp__buf *out,
                   char etag[QP__ETAG_TEXT], struct qp_err *err)
{
  struct full full = {
    .store = held->holds->store,
    .owner = owner,
    .context = held->context,
    .out = out,
    .messages = messages,
  };
  json_t *metadata = NULL;
  int64_t updated_at = 0;
  enum qp_rc rc;

  qp__buf_init(&full.pool, QP__REPLY_MAX);
  rc = shown_metadata(held, &metadata, err);
  if (!rc)
    rc = qp__json_time("the metadata", metadata, "updated_at", &updated_at, err);
  if (!rc && !show_config_prompt(metadata, owner))
    rc = qp__fail_nomem(err, "the context");
  if (rc)
    goto out;
  qp__emit_open(out, NULL, '{');
  emit_metadata(out, metadata, updated_at);
  qp__emit_open(out, "branches", '[');
  err->msg[0] = '\0';
  rc = qp_branch_list(held->context, render_branch, &full, err);
  if (rc) {
    if (!err->msg[0])
      rc = qp__fail(err, rc, "the context cannot be shown: %s", qp_rc_text(rc));
    goto out;
  }
  qp__emit_close(out, ']');
  if (messages) {
    qp__emit_open(out, "message_pool", '{');
    (void)qp__buf_add(out, full.pool.data, full.pool.len);
    qp__emit_close(out, '}');
  }
  emit_extra(out, metadata);
  qp__emit_close(out, '}');
  rc = qp__buf_check(out, "the context", err);
  if (!rc)
    qp__etag(etag, qp__buf_bytes(out));
out:
  json_decref(metadata);
  qp__buf_release(&full.pool);
  qp__idset_release(&full.seen);
  return rc;
}

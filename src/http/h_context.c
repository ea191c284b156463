/* h_context.c - creating, reading, changing and deleting contexts. */
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "http/compaction_json.h"
#include "http/conditional_change.h"
#include "http/context_json.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"

/* ---- answers ---- */

/* The current context, without messages. */
static enum qp_rc
answer(struct qp__request *r, struct qp_err *err)
{
  char etag[QP__ETAG_TEXT];
  enum qp_rc rc = qp__context_render(r->held, qp__owner(r), false, &r->reply.body, etag, err);

  return rc ? rc : qp__reply_etag(r, etag, err);
}

/* ---- create ---- */

static const struct qp__body_field create_fields[] = {
  { "id", QP__TYPE_UUID, false, false },
  { "parent_id", QP__TYPE_UUID, false, true },
  { "title", QP__TYPE_STRING, false, true },
  { "model_id", QP__TYPE_STRING, false, false },
  { "mode", QP__TYPE_STRING, false, false },
  { "agent_role", QP__TYPE_STRING, false, false },
  { "system_prompt_id", QP__TYPE_STRING, false, true },
  { "parameters", QP__TYPE_OBJECT, false, false },
  { "tools", QP__TYPE_ANY, false, true },
  { "compaction", QP__TYPE_OBJECT, false, false },
  { "owner", QP__TYPE_STRING, false, true },
  { 0 },
};

/* Only callers without an owner may set the owner: contexts of other callers belong to their
 * owner. */
static enum qp_rc
check_owner(const struct qp__request *r, const json_t *object, struct qp_err *err)
{
  const char *owner = qp__json_text(object, "owner");

  if (json_object_get(object, "owner") && qp__owner(r))
    return qp__fail(err, QP_INVALID, "\"owner\" cannot be set: the owner of the key is used");
  if (owner && !qp__owner_ok(owner))
    return qp__fail(err, QP_INVALID,
                    "\"owner\" must be 1 to 64 letters, digits, '_', '-' and '.', not starting "
                    "with '.', or null");
  return QP_OK;
}

static enum qp_rc
create(struct qp__request *r, const json_t *object, struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context_spec spec = {
    .size = sizeof(struct qp_context_spec),
    .title = qp__json_text(object, "title"),
    .model_id = qp__json_text(object, "model_id"),
    .mode = qp__json_text(object, "mode"),
    .agent_role = qp__json_text(object, "agent_role"),
    .system_prompt_id = qp__json_text(object, "system_prompt_id"),
    .owner = qp__owner(r) ? qp__owner(r) : qp__json_text(object, "owner"),
  };
  struct qp_context *context = NULL;
  enum qp_rc rc =
      qp__request_write(r, json_object_get(object, "parameters"), &spec.parameters_json, err);

  qp__body_uuid(object, "id", &spec.id);
  qp__body_uuid(object, "parent_id", &spec.parent_id);
  if (!rc)
    rc = qp__request_write(r, json_object_get(object, "tools"), &spec.tools_json, err);
  if (!rc)
    rc = qp__request_write(r, json_object_get(object, "compaction"), &spec.compaction_json, err);
  if (!rc)
    rc = qp_context_create(r->http->store, &spec, &context, err);
  if (!rc)
    *id = qp_context_id(context);
  qp_context_close(context);
  return rc == QP_NOTFOUND ? QP_INVALID : rc; /* the body names it, not the path */
}

enum qp_rc
qp__h_context_create(struct qp__request *r, struct qp_err *err)
{
  char text[QP_UUID_TEXT];
  json_t *object = NULL;
  struct qp_uuid id;
  enum qp_rc rc = qp__request_optional_object(r, create_fields, &object, err);

  if (!rc)
    rc = check_owner(r, object, err);
  if (!rc)
    rc = qp__owner_prompt_field(r, object, err);
  if (!rc)
    rc = qp__compact_settings_check(json_object_get(object, "compaction"), err);
  if (!rc)
    rc = create(r, object, &id, err);
  json_decref(object);
  if (!rc)
    rc = qp__held_get(r, qp_uuid_text(&id, text), &r->held, err);
  if (!rc)
    rc = answer(r, err);
  if (!rc)
    rc = qp__reply_location(r, "/v1/contexts/", text, err);
  r->reply.status = MHD_HTTP_CREATED;
  return rc;
}

/* ---- read ---- */

enum qp_rc
qp__h_context_get(struct qp__request *r, struct qp_err *err)
{
  char etag[QP__ETAG_TEXT];
  bool messages = true;
  enum qp_rc rc = qp__request_either(r, "messages", "all", "none", &messages, err);

  if (!rc)
    rc = qp__held_get(r, r->params[0], &r->held, err);
  if (!rc)
    rc = qp__context_render(r->held, qp__owner(r), messages, &r->reply.body, etag, err);
  if (!rc)
    rc = qp__reply_etag(r, etag, err);
  if (!rc && qp__etag_known(r, etag)) {
    r->reply.status = MHD_HTTP_NOT_MODIFIED;
    qp__buf_reset(&r->reply.body);
  }
  return rc;
}

enum qp_rc
qp__h_context_size(struct qp__request *r, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  struct qp_size size;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (rc)
    return rc;
  qp_context_size(r->held->context, &size);
  qp__emit_open(b, NULL, '{');
  qp__emit_uint(b, "messages", size.messages);
  qp__emit_uint(b, "message_bytes", size.message_bytes);
  qp__emit_uint(b, "metadata_bytes", size.metadata_bytes);
  qp__emit_uint(b, "archived_messages", size.archived_messages);
  qp__emit_uint(b, "archived_bytes", size.archived_bytes);
  qp__emit_uint(b, "pack_bytes", size.pack_bytes);
  qp__emit_uint(b, "trashed_messages", size.trashed_messages);
  qp__emit_uint(b, "trashed_bytes", size.trashed_bytes);
  qp__emit_close(b, '}');
  return QP_OK;
}

/* ---- change ---- */

static const struct qp__body_field update_fields[] = {
  { "title", QP__TYPE_STRING, false, true },
  { "parent_id", QP__TYPE_UUID, false, true },
  { "config", QP__TYPE_OBJECT, false, false },
  { "tools", QP__TYPE_ANY, false, true },
  { "model_id", QP__TYPE_STRING, false, false },
  { "mode", QP__TYPE_STRING, false, false },
  { "agent_role", QP__TYPE_STRING, false, false },
  { "system_prompt_id", QP__TYPE_STRING, false, true },
  { "parameters", QP__TYPE_OBJECT, false, false },
  { "compaction", QP__TYPE_OBJECT, false, false },
  { "owner", QP__TYPE_STRING, false, true },
  { 0 },
};

/* Moves top-level fields that belong to the config into it. A field must not be given twice. */
static enum qp_rc
gather_config(json_t *object, struct qp_err *err)
{
  static const char *const flat[] = { "model_id",   "mode",  "agent_role", "system_prompt_id",
                                      "parameters", "tools", "compaction" };

  for (size_t i = 0; i < sizeof(flat) / sizeof(flat[0]); i++) {
    json_t *value = json_object_get(object, flat[i]);
    json_t *config = json_object_get(object, "config");

    if (!value)
      continue;
    if (json_object_get(config, flat[i]))
      return qp__fail(err, QP_INVALID, "\"%s\" is set twice: also in \"config\"", flat[i]);
    if (!config) {
      config = json_object();
      if (json_object_set_new(object, "config", config))
        return qp__fail_nomem(err, "changing a context");
    }
    if (json_object_set(config, flat[i], value) || json_object_del(object, flat[i]))
      return qp__fail_nomem(err, "changing a context");
  }
  return QP_OK;
}

static enum qp_rc
update(struct qp__request *r, json_t *object, struct qp_err *err)
{
  struct qp__buf patch;
  enum qp_rc rc;

  qp__buf_init(&patch, r->settings->max_body * 6);
  rc = gather_config(object, err);
  if (!rc)
    rc = check_owner(r, object, err);
  if (!rc)
    rc = qp__owner_prompt_field(r, json_object_get(object, "config"), err);
  if (!rc)
    rc = qp__compact_settings_check(
        json_object_get(json_object_get(object, "config"), "compaction"), err);
  if (!rc) {
    (void)qp__json_write(&patch, object);
    rc = qp__buf_check(&patch, "the change", err);
  }
  if (!rc)
    rc = qp__change_begin(r, r->held, err);
  if (!rc) {
    rc = qp_context_update(r->held->context, qp__buf_bytes(&patch), err);
    if (rc == QP_NOTFOUND)
      rc = QP_INVALID; /* the prompt in the body */
    rc = qp__change_end(r, r->held, rc, err);
    if (!rc && json_object_get(object, "owner"))
      qp__streams_moved(&r->http->streams, &r->held->id, qp__json_text(object, "owner"));
  }
  qp__buf_release(&patch);
  return rc;
}

enum qp_rc
qp__h_context_update(struct qp__request *r, struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp__request_object(r, update_fields, &object, err);
  if (!rc)
    rc = update(r, object, err);
  if (!rc)
    rc = answer(r, err);
  json_decref(object);
  return rc;
}

static enum qp_rc
answer_deleted(struct qp__request *r, struct qp_err *err)
{
  enum qp_rc rc = qp__held_end_delete(r, err);

  r->reply.status = MHD_HTTP_NO_CONTENT;
  return rc;
}

enum qp_rc
qp__h_context_delete(struct qp__request *r, struct qp_err *err)
{
  struct qp__held *held = NULL;
  bool erase;
  enum qp_rc rc = qp__request_flag(r, "erase", &erase, err);

  if (!rc && qp__request_header(r, "If-Match")) {
    rc = qp__held_get(r, r->params[0], &held, err);
    if (!rc)
      rc = qp__change_begin(r, held, err);
    if (!rc)
      qp__change_release(held);
    qp__held_put(held);
  }
  return rc ? rc : qp__held_delete(r, r->params[0], answer_deleted, err);
}

/* h_conversations.c - Conversations of OpenAI's API. A conversation is a context, its items are the
 * messages of the active branch (item.h). Its metadata is "conversation" in the metadata of the
 * context. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "http/context_json.h"
#include "http/emit.h"
#include "http/face/face_turn.h"
#include "http/handlers.h"
#include "http/openai/item.h"
#include "http/openai/responses_request.h"
#include "http/openai/stored_response.h"
#include "model/message.h"

#define ITEMS_MAX 20
#define REWRITE_MAX 1000 /* messages behind an item that is deleted */

/* ---- the conversation ---- */

static enum qp_rc
answer_conversation(struct qp__request *r, struct qp_err *err)
{
  char id[QP__CONVERSATION_ID];
  struct qp_context_info *info = NULL;
  json_t *metadata = NULL;
  struct qp__buf text;
  enum qp_rc rc = qp_context_info_new(r->held->context, &info, err);

  if (!rc)
    rc = qp__metadata_object(r->held->context, &metadata, err);
  qp__buf_init(&text, (size_t)1 << 20);
  if (!rc) {
    const json_t *own = json_object_get(metadata, "conversation");

    if (json_is_object(own))
      (void)qp__json_write(&text, own);
    else
      (void)qp__buf_add_str(&text, "{}");
    qp__conversation_id(&r->held->id, id);
    qp__emit_open(&r->reply.body, NULL, '{');
    qp__emit_str(&r->reply.body, "id", id);
    qp__emit_str(&r->reply.body, "object", "conversation");
    qp__emit_uint(&r->reply.body, "created_at", (uint64_t)(info->created_at / 1000));
    qp__emit_raw(&r->reply.body, "metadata", qp__buf_bytes(&text));
    qp__emit_close(&r->reply.body, '}');
    rc = qp__buf_check(&text, "the metadata", err);
  }
  qp__buf_release(&text);
  json_decref(metadata);
  qp_free(info);
  return rc;
}

/* Replaces the metadata of the conversation. */
static enum qp_rc
set_metadata(struct qp__request *r, const json_t *metadata, struct qp_err *err)
{
  struct qp__buf patch;
  enum qp_rc rc = qp__metadata_check(r, metadata, err);

  if (rc || !metadata || json_is_null(metadata))
    return rc;
  qp__buf_init(&patch, (size_t)1 << 20);
  (void)qp__buf_add_str(&patch, "{\"conversation\":");
  (void)qp__json_write(&patch, metadata);
  (void)qp__buf_add_char(&patch, '}');
  rc = qp__buf_check(&patch, "the metadata", err);
  if (!rc)
    rc = qp_context_update(r->held->context, qp__buf_bytes(&patch), err);
  qp__buf_release(&patch);
  return rc;
}

/* ---- adding items ---- */

/* Reads "items" of a body as messages: a new array. */
static enum qp_rc
read_items(struct qp__request *r, const json_t *body, json_t **out, struct qp_err *err)
{
  const json_t *items = json_object_get(body, "items");
  enum qp_rc rc;

  if (items && !json_is_null(items) &&
      (!json_is_array(items) || json_array_size(items) > ITEMS_MAX))
    return qp__wish_refuse(r, err, "items", "\"items\" is a list of at most %d items", ITEMS_MAX);
  *out = json_array();
  if (!*out)
    return qp__fail_nomem(err, "items");
  rc = qp__response_items_read(r, items, "items", *out, NULL, err);
  if (rc) {
    json_decref(*out);
    *out = NULL;
  }
  return rc;
}

static enum qp_rc
parse_body(struct qp__request *r, json_t **out, struct qp_err *err)
{
  if (!r->body.len && qp__buf_add_str(&r->body, "{}"))
    return qp__fail_nomem(err, "the body");
  return qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), out, err);
}

enum qp_rc
qp__h_conversation_create(struct qp__request *r, struct qp_err *err)
{
  json_t *body = NULL;
  json_t *messages = NULL;
  enum qp_rc rc = parse_body(r, &body, err);

  if (!rc)
    rc = read_items(r, body, &messages, err);
  if (!rc)
    rc = qp__metadata_check(r, json_object_get(body, "metadata"), err);
  if (!rc)
    rc = qp__face_context(r, "new", err);
  if (!rc)
    rc = set_metadata(r, json_object_get(body, "metadata"), err);
  if (!rc)
    rc = qp__items_save(r, NULL, messages, NULL, err);
  if (!rc)
    rc = answer_conversation(r, err);
  json_decref(messages);
  json_decref(body);
  return rc;
}

enum qp_rc
qp__h_conversation_get(struct qp__request *r, struct qp_err *err)
{
  enum qp_rc rc = qp__conversation_find(r, r->params[0], err);

  return rc ? rc : answer_conversation(r, err);
}

enum qp_rc
qp__h_conversation_update(struct qp__request *r, struct qp_err *err)
{
  json_t *body = NULL;
  enum qp_rc rc = qp__conversation_find(r, r->params[0], err);

  if (!rc)
    rc = parse_body(r, &body, err);
  if (!rc)
    rc = set_metadata(r, json_object_get(body, "metadata"), err);
  if (!rc)
    rc = answer_conversation(r, err);
  json_decref(body);
  return rc;
}

/* ---- deleting it ---- */

static enum qp_rc
answer_deleted(struct qp__request *r, struct qp_err *err)
{
  enum qp_rc rc = qp__held_end_delete(r, err);

  if (rc)
    return rc;
  qp__emit_open(&r->reply.body, NULL, '{');
  qp__emit_str(&r->reply.body, "id", r->params[0]);
  qp__emit_str(&r->reply.body, "object", "conversation.deleted");
  qp__emit_bool(&r->reply.body, "deleted", true);
  qp__emit_close(&r->reply.body, '}');
  return QP_OK;
}

enum qp_rc
qp__h_conversation_delete(struct qp__request *r, struct qp_err *err)
{
  char text[QP_UUID_TEXT];
  const char *copy;
  enum qp_rc rc = qp__conversation_find(r, r->params[0], err);

  if (rc)
    return rc;
  copy = qp__arena_strdup(&r->arena, qp_uuid_text(&r->held->id, text));
  qp__held_put(r->held);
  r->held = NULL;
  return copy ? qp__held_delete(r, copy, answer_deleted, err)
              : qp__fail_nomem(err, "deleting a conversation");
}

/* ---- items ---- */

enum qp_rc
qp__h_items_add(struct qp__request *r, struct qp_err *err)
{
  json_t *body = NULL;
  json_t *messages = NULL;
  json_t *added = json_array();
  enum qp_rc rc = qp__conversation_find(r, r->params[0], err);

  if (!rc)
    rc = parse_body(r, &body, err);
  if (!rc)
    rc = read_items(r, body, &messages, err);
  if (!rc)
    rc = added ? qp__items_save(r, NULL, messages, added, err) : qp__fail_nomem(err, "items");
  if (!rc)
    qp__items_emit(&r->reply.body, added, false);
  json_decref(added);
  json_decref(messages);
  json_decref(body);
  return rc;
}

enum qp_rc
qp__h_items_list(struct qp__request *r, struct qp_err *err)
{
  char *branch = NULL;
  uint64_t count = 0;
  enum qp_rc rc = qp__conversation_find(r, r->params[0], err);

  if (!rc)
    rc = qp__branch_find(r->held->context, NULL, &branch, &count, err);
  if (!rc)
    rc = qp__items_answer(r, branch, 0, count, err);
  qp__free(branch);
  return rc;
}

/* The message of the item in the path, and all its items: release both. */
static enum qp_rc
load_item(struct qp__request *r, struct qp_message **message, json_t **items, size_t *number,
          struct qp_err *err)
{
  struct qp_uuid id;
  enum qp_rc rc = qp__conversation_find(r, r->params[0], err);

  if (rc)
    return rc;
  rc = QP_NOTFOUND;
  if (qp__item_message(r->params[1], &id))
    rc = qp_message_load(r->held->context, &id, message, err);
  if (!rc) {
    *items = qp__items_of(*message);
    if (!*items)
      return qp__fail_nomem(err, "an item");
    for (*number = 0; *number < json_array_size(*items); (*number)++)
      if (strcmp(json_string_value(json_object_get(json_array_get(*items, *number), "id")),
                 r->params[1]) == 0)
        return QP_OK;
    rc = QP_NOTFOUND;
  }
  return rc == QP_NOTFOUND ? qp__fail(err, rc, "Item with id '%.80s' not found.", r->params[1])
                           : rc;
}

enum qp_rc
qp__h_item_get(struct qp__request *r, struct qp_err *err)
{
  struct qp_message *message = NULL;
  json_t *items = NULL;
  size_t number = 0;
  enum qp_rc rc = load_item(r, &message, &items, &number, err);

  if (!rc)
    (void)qp__json_write(&r->reply.body, json_array_get(items, number));
  json_decref(items);
  qp_message_free(message);
  return rc;
}

/* The messages behind one, as values without ids. */
struct tail {
  json_t *list;
  struct qp_err *err;
};

static enum qp_rc
take_tail(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct tail *t = arg;
  json_t *value = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK;
  rc = qp__json_parse_object("a message", json, &value, t->err);
  if (rc)
    return rc;
  (void)json_object_del(value, "id");
  (void)json_object_del(value, "parent_id");
  return json_array_append_new(t->list, value) ? qp__fail_nomem(t->err, "items") : QP_OK;
}

/* What is left of the messages from `from` on without the item. History is only appended to, so
 * the branch goes back to the message before, and what is left is saved again. */
static enum qp_rc
delete_item(struct qp__request *r, const struct qp_message *message, const json_t *items,
            size_t number, struct qp_err *err)
{
  struct tail tail = { json_array(), err };
  json_t *rest = qp__json_copy(items);
  struct qp_message_info info;
  char *branch = NULL;
  uint64_t count = 0;
  json_t *again = json_array();
  enum qp_rc rc = tail.list && rest && again && json_array_remove(rest, number) == 0
                      ? qp__branch_find(r->held->context, NULL, &branch, &count, err)
                      : qp__fail_nomem(err, "items");

  if (!rc && !qp_state_awaits_client(qp_context_state(r->held->context)))
    rc = qp__request_fail(r, MHD_HTTP_BAD_REQUEST, "LOCKED", err,
                          "a response is being made in this conversation");
  if (!rc)
    rc = qp_message_find(r->held->context, &message->id, &info, err);
  if (!rc && count - info.position > REWRITE_MAX)
    rc = qp__wish_refuse(r, err, NULL, "only the last %d messages can be changed", REWRITE_MAX);
  if (!rc)
    rc = qp__response_items_read(r, rest, "items", again, NULL, err);
  if (!rc)
    rc = qp_messages_range(r->held->context, branch, info.position + 1, REWRITE_MAX, take_tail,
                           &tail, err);
  if (!rc && json_array_extend(again, tail.list))
    rc = qp__fail_nomem(err, "items");
  if (!rc)
    rc = qp_branch_rewind(r->held->context, branch,
                          qp_uuid_is_none(&info.parent) ? NULL : &info.parent, err);
  if (!rc)
    rc = qp__items_save(r, NULL, again, NULL, err);
  if (!rc)
    qp__held_show_now(r->held);
  qp__free(branch);
  json_decref(again);
  json_decref(rest);
  json_decref(tail.list);
  return rc;
}

enum qp_rc
qp__h_item_delete(struct qp__request *r, struct qp_err *err)
{
  struct qp_message *message = NULL;
  json_t *items = NULL;
  size_t number = 0;
  enum qp_rc rc = load_item(r, &message, &items, &number, err);

  if (!rc)
    rc = delete_item(r, message, items, number, err);
  if (!rc)
    rc = answer_conversation(r, err);
  json_decref(items);
  qp_message_free(message);
  return rc;
}

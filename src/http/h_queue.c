/* h_queue.c - messages that wait for the end of a turn (quipu/queue.h). */
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/handlers.h"
#include "http/http_int.h"

static const struct qp__body_field add_fields[] = {
  { "content", QP__TYPE_ANY, true, false },
  { "branch", QP__TYPE_STRING, false, true },
  { 0 },
};
static const struct qp__body_field edit_fields[] = {
  { "text", QP__TYPE_STRING, true, false },
  { 0 },
};

/* ---- answers ---- */

static enum qp_rc
read_list(struct qp__held *held, json_t **out, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp_queue_list(held->context, &text, &len, err);

  if (!rc)
    rc = qp__json_parse("the queue", (struct qp_bytes){ text, len }, out, err);
  qp_free(text);
  return rc;
}

/* The item, or null if it was sent in the meantime: its message has the same id. */
static enum qp_rc
answer_item(struct qp__request *r, const struct qp_uuid *id, bool replayed, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  char text[QP_UUID_TEXT];
  json_t *list = NULL;
  const json_t *found = NULL;
  enum qp_rc rc = read_list(r->held, &list, err);

  if (rc)
    return rc;
  (void)qp_uuid_text(id, text);
  for (size_t i = 0; i < json_array_size(list) && !found; i++) {
    const json_t *item = json_array_get(list, i);

    if (strcmp(json_string_value(json_object_get(item, "id")), text) == 0)
      found = item;
  }
  qp__emit_open(b, NULL, '{');
  qp__emit_json(b, "queued", found);
  qp__emit_str(b, "message_id", text);
  qp__emit_uint(b, "items", json_array_size(list));
  qp__emit_bool(b, "replayed", replayed);
  qp__emit_close(b, '}');
  json_decref(list);
  r->reply.status = MHD_HTTP_ACCEPTED;
  return QP_OK;
}

/* Adds the message; if it is NULL, the text. */
static enum qp_rc
add_message(struct qp__request *r, struct qp_bytes text, const struct qp_message *message,
            const char *branch, struct qp_err *err)
{
  struct qp_queue_spec spec = { .size = sizeof(spec),
                                .context = r->held->id,
                                .text = text,
                                .message = message,
                                .branch = branch,
                                .key = qp__request_header(r, "Idempotency-Key") };
  struct qp_engine *engine = NULL;
  struct qp_uuid id;
  bool replayed = false;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  rc = qp_queue_add(engine, &spec, &id, &replayed, err);
  qp__turns_leave(r->http);
  return rc ? rc : answer_item(r, &id, replayed, err);
}

/* ---- handlers ---- */

enum qp_rc
qp__h_queue_list(struct qp__request *r, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp_queue_list(r->held->context, &text, &len, err);
  qp__emit_open(&r->reply.body, NULL, '{');
  rc = qp__emit_taken(&r->reply.body, "items", text, len, rc);
  qp__emit_close(&r->reply.body, '}');
  return rc;
}

enum qp_rc
qp__h_queue_add(struct qp__request *r, struct qp_err *err)
{
  struct qp_message *message = NULL;
  struct qp_bytes text = { "", 0 };
  json_t *body = NULL;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp__request_object(r, add_fields, &body, err);
  if (!rc)
    rc = qp__request_content(json_object_get(body, "content"), &text, &message, err);
  if (!rc)
    rc = add_message(r, text, message, qp__json_text(body, "branch"), err);
  qp_message_free(message);
  json_decref(body);
  return rc;
}

/* The context and the item of the path. */
static enum qp_rc
find_item(struct qp__request *r, struct qp_uuid *id, struct qp_err *err)
{
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc && qp_uuid_parse(r->params[1], id, NULL))
    rc = qp__fail(err, QP_NOTFOUND, "the queue has no such message: it was sent or dropped");
  return rc;
}

enum qp_rc
qp__h_queue_edit(struct qp__request *r, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  struct qp_uuid id;
  json_t *body = NULL;
  enum qp_rc rc = find_item(r, &id, err);

  if (!rc)
    rc = qp__request_object(r, edit_fields, &body, err);
  if (!rc)
    rc = qp__turns_enter(r, &engine, err);
  if (!rc) {
    const char *text = qp__json_text(body, "text");

    rc = qp_queue_edit(engine, &r->held->id, &id, (struct qp_bytes){ text, strlen(text) }, err);
    qp__turns_leave(r->http);
  }
  json_decref(body);
  if (!rc)
    rc = answer_item(r, &id, false, err);
  r->reply.status = MHD_HTTP_OK;
  return rc;
}

typedef enum qp_rc item_action(struct qp_engine *engine, const struct qp_uuid *context,
                               const struct qp_uuid *id, struct qp_err *err);

static enum qp_rc
act_on_item(struct qp__request *r, struct qp_uuid *id, item_action *act, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  enum qp_rc rc = find_item(r, id, err);

  if (!rc)
    rc = qp__turns_enter(r, &engine, err);
  if (rc)
    return rc;
  rc = act(engine, &r->held->id, id, err);
  qp__turns_leave(r->http);
  return rc;
}

enum qp_rc
qp__h_queue_drop(struct qp__request *r, struct qp_err *err)
{
  struct qp_uuid id;
  enum qp_rc rc = act_on_item(r, &id, qp_queue_drop, err);

  r->reply.status = MHD_HTTP_NO_CONTENT;
  return rc;
}

enum qp_rc
qp__h_queue_send(struct qp__request *r, struct qp_err *err)
{
  struct qp_uuid id;
  enum qp_rc rc = act_on_item(r, &id, qp_queue_send_now, err);

  return rc ? rc : answer_item(r, &id, false, err);
}

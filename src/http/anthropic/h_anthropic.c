/* h_anthropic.c - Messages of Anthropic's API. */
#include <string.h>

#include "base/json.h"
#include "compact/count.h"
#include "http/anthropic/messages_form.h"
#include "http/anthropic/messages_request.h"
#include "http/emit.h"
#include "http/face/exchange.h"
#include "http/face/face_turn.h"
#include "http/handlers.h"
#include "model/message.h"

enum qp_rc
qp__h_anthropic_messages(struct qp__request *r, struct qp_err *err)
{
  struct qp__exchange *x = NULL;
  struct qp__wish wish;
  json_t *body = NULL;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &body, err);

  qp__wish_init(&wish, "anthropic");
  if (!rc)
    rc = qp__messages_request_read(r, body, false, &wish, err);
  if (!rc)
    rc = qp__exchange_new(r, &qp__messages_form, "msg_", wish.stream, &x, err);
  if (!rc) {
    rc = wish.context ? qp__face_turn_begin(r, x, &wish, err) : qp__exchange_ask(r, x, &wish, err);
    if (rc)
      qp__exchange_drop(r, x);
  }
  qp__wish_release(&wish);
  json_decref(body);
  return rc;
}

/* ---- counting ---- */

/* By our own estimate: other providers than Anthropic have no such call. */
static enum qp_rc
count(struct qp__request *r, const struct qp__wish *w, int64_t *out, struct qp_err *err)
{
  struct qp__llm_tool *tools = NULL;
  size_t n = 0;
  enum qp_rc rc = qp__wish_tools(r, w, &tools, &n, err);

  *out = rc ? 0 : qp__count_tools(tools, n);
  if (!rc && w->system)
    *out += qp__count_text((struct qp_bytes){ w->system, strlen(w->system) });
  for (size_t i = 0; !rc && i < json_array_size(w->messages); i++) {
    struct qp_message *message = NULL;

    rc = qp__message_from_value("message", json_array_get(w->messages, i), &message, err);
    if (!rc)
      *out += qp__count_message(message);
    qp_message_free(message);
  }
  return rc;
}

enum qp_rc
qp__h_anthropic_count(struct qp__request *r, struct qp_err *err)
{
  struct qp__wish wish;
  json_t *body = NULL;
  int64_t tokens = 0;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &body, err);

  qp__wish_init(&wish, "anthropic");
  if (!rc)
    rc = qp__messages_request_read(r, body, true, &wish, err);
  if (!rc)
    rc = count(r, &wish, &tokens, err);
  if (!rc) {
    qp__emit_open(&r->reply.body, NULL, '{');
    qp__emit_uint(&r->reply.body, "input_tokens", (uint64_t)tokens);
    qp__emit_close(&r->reply.body, '}');
  }
  qp__wish_release(&wish);
  json_decref(body);
  return rc;
}

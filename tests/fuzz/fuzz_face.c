/* fuzz_face.c - bodies of requests of other protocols. The first byte chooses the decoder: Chat
 * Completions, Messages, Responses, items of a conversation, or a UI message of the AI SDK. What is
 * refused has a sentence; what is taken consists of messages that the store takes, has parameters
 * for every protocol of a provider, and chains that follow from its messages alone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "http/aisdk/ui_message.h"
#include "http/anthropic/messages_request.h"
#include "http/face/prefix.h"
#include "http/openai/chat_request.h"
#include "http/openai/item.h"
#include "http/openai/responses_request.h"
#include "http_rig.h"
#include "model/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *detail)
{
  (void)fprintf(stderr, "%s: %s\n", why, detail);
  abort();
}

static void
judge(enum qp_rc rc, const struct qp_err *err)
{
  if (rc && !err->msg[0])
    die("refused without a sentence", "");
  if (rc && rc != QP_INVALID && rc != QP_TOOBIG)
    die("refused for a reason of its own", err->msg);
}

/* Every message is one, its items name it, and its chain is the same the second time. */
static void
try_messages(const json_t *messages)
{
  struct qp__prefix_hash chain = { { 0 } };

  for (size_t i = 0; i < json_array_size(messages); i++) {
    struct qp_message *m = NULL;
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc = qp__message_from_value("message", json_array_get(messages, i), &m, &err);
    struct qp__prefix_hash next;
    struct qp__prefix_hash again;
    json_t *items;

    judge(rc, &err);
    if (rc)
      continue;
    next = qp__prefix_add(&chain, m);
    again = qp__prefix_add(&chain, m);
    if (memcmp(&next, &again, sizeof(next)) != 0 || memcmp(&next, &chain, sizeof(next)) == 0)
      die("a chain that does not follow from its message", "");
    chain = next;
    items = qp__items_of(m);
    for (size_t j = 0; j < json_array_size(items); j++) {
      struct qp_uuid id;
      const char *text = json_string_value(json_object_get(json_array_get(items, j), "id"));

      if (!text || !qp__item_message(text, &id) || !qp_uuid_equal(&id, &m->id))
        die("an item of another message", text ? text : "");
    }
    json_decref(items);
    qp_message_free(m);
  }
}

static void
try_wish(struct qp__request *r, const struct qp__wish *w)
{
  static const char *const protocols[] = { "openai", "anthropic", "ollama", "demo" };
  struct qp__llm_tool *tools = NULL;
  size_t count = 0;
  struct qp_err err = { QP_OK, "" };

  try_messages(w->messages);
  for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
    struct qp__llm_params params;
    json_t *parameters = NULL;
    enum qp_rc rc = qp__wish_parameters(r, w, protocols[i], &parameters, &err);

    judge(rc, &err);
    if (!rc)
      judge(qp__llm_params_init(&params, parameters, &err), &err);
    if (!rc)
      qp__llm_params_release(&params);
    json_decref(parameters);
  }
  if (w->body) {
    json_t *body = qp__wish_forward(w);

    if (!body || json_object_get(json_object_get(body, "metadata"), "quipu_context"))
      die("what is meant for quipu is sent on", "");
    json_decref(body);
  }
  judge(qp__wish_tools(r, w, &tools, &count, &err), &err);
  for (size_t i = 0; i < count; i++)
    if (!tools[i].name || !tools[i].name[0])
      die("a tool without a name", "");
}

static void
try_response(struct qp__request *r, const json_t *body, struct qp_err *err)
{
  struct qp__response_wish w = { .store = true };
  enum qp_rc rc;

  qp__wish_init(&w.wish, "openai");
  rc = qp__response_request_read(r, body, &w, err);
  judge(rc, err);
  if (!rc && !json_is_object(w.echo))
    die("a response without its fields", "");
  if (!rc)
    try_wish(r, &w.wish);
  qp__response_wish_release(&w);
}

static void
try_body(struct qp__request *r, unsigned which, const json_t *body)
{
  struct qp_err err = { QP_OK, "" };
  json_t *messages = json_array();
  json_t *message = NULL;
  struct qp__wish w;
  bool usage;
  enum qp_rc rc = QP_OK;

  qp__wish_init(&w, which == 1 ? "anthropic" : "openai");
  switch (which) {
  case 0:
    rc = qp__chat_request_read(r, body, &w, &usage, &err);
    break;
  case 1:
    rc = qp__messages_request_read(r, body, false, &w, &err);
    break;
  case 2:
    try_response(r, body, &err);
    break;
  case 3:
    rc = qp__response_items_read(r, json_object_get(body, "items"), "items", messages, NULL, &err);
    try_messages(messages);
    break;
  default:
    rc = qp__ui_message_read(r, body, "message", &message, &err);
    break;
  }
  judge(rc, &err);
  if (!rc && which < 2)
    try_wish(r, &w);
  qp__wish_release(&w);
  json_decref(messages);
  json_decref(message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp__request *r;
  struct http_rig rig;
  json_t *body = NULL;

  if (!size ||
      qp__json_parse_outside_object(
          "the body", (struct qp_bytes){ (const char *)data + 1, size - 1 }, &body, NULL) ||
      !http_rig_make(&rig))
    return 0;
  r = qp__request_new(rig.http, NULL, "/");
  if (r)
    try_body(r, data[0] % 5, body);
  qp__request_free(r);
  json_decref(body);
  http_rig_release(&rig);
  return 0;
}

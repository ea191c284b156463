/* h_openai.c - Chat Completions and the list of models of OpenAI's API. */
#include <string.h>

#include "base/json.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/face/exchange.h"
#include "http/face/face_turn.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/openai/chat_form.h"
#include "http/openai/chat_request.h"

/* ---- chat completions ---- */

enum qp_rc
qp__h_openai_chat(struct qp__request *r, struct qp_err *err)
{
  struct qp__exchange *x = NULL;
  struct qp__wish wish;
  json_t *body = NULL;
  bool wants_usage = false;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &body, err);

  qp__wish_init(&wish, "openai");
  if (!rc)
    rc = qp__chat_request_read(r, body, &wish, &wants_usage, err);
  if (!rc)
    rc = qp__exchange_new(r, &qp__chat_form, "chatcmpl-", wish.stream, &x, err);
  if (!rc) {
    x->face.wants_usage = wants_usage;
    rc = wish.context ? qp__face_turn_begin(r, x, &wish, err) : qp__exchange_ask(r, x, &wish, err);
    if (rc)
      qp__exchange_drop(r, x);
  }
  qp__wish_release(&wish);
  json_decref(body);
  return rc;
}

/* ---- models ---- */

static void
emit_model(struct qp__request *r, const json_t *model)
{
  struct qp__buf *b = &r->reply.body;
  const char *provider = json_string_value(json_object_get(model, "provider"));
  const char *id = json_string_value(json_object_get(model, "id"));
  struct qp__buf name;

  qp__buf_init(&name, 1000);
  (void)qp__buf_addf(&name, "%s%s%s", provider ? provider : "", provider && *provider ? "/" : "",
                     id ? id : "");
  qp__emit_open(b, NULL, '{');
  qp__emit_strn(b, "id", qp__buf_bytes(&name));
  qp__emit_str(b, "object", "model");
  qp__emit_uint(b, "created", (uint64_t)(r->http->started_ms / 1000));
  qp__emit_str(b, "owned_by", provider ? provider : "");
  qp__emit_close(b, '}');
  if (name.rc)
    b->rc = name.rc;
  qp__buf_release(&name);
}

/* Whether the client calls a model so: "provider/model", or its own name alone. */
static bool
is_called(const json_t *model, const char *name)
{
  const char *provider = json_string_value(json_object_get(model, "provider"));
  const char *id = json_string_value(json_object_get(model, "id"));
  size_t len = provider ? strlen(provider) : 0;

  if (!id)
    return false;
  return strcmp(name, id) == 0 || (len && strncmp(name, provider, len) == 0 && name[len] == '/' &&
                                   strcmp(name + len + 1, id) == 0);
}

/* The models that a provider answers for; release it. */
static enum qp_rc
load_models(struct qp__request *r, json_t **out, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  rc = qp_engine_models(engine, &text, &len, err);
  qp__turns_leave(r->http);
  if (!rc)
    rc = qp__json_parse("the models", (struct qp_bytes){ text, len }, out, err);
  qp_free(text);
  for (size_t i = json_array_size(*out); !rc && i-- > 0;)
    if (!json_is_true(json_object_get(json_array_get(*out, i), "available")))
      (void)json_array_remove(*out, i);
  return rc;
}

enum qp_rc
qp__h_openai_models(struct qp__request *r, struct qp_err *err)
{
  json_t *models = NULL;
  enum qp_rc rc = load_models(r, &models, err);

  qp__emit_open(&r->reply.body, NULL, '{');
  qp__emit_str(&r->reply.body, "object", "list");
  qp__emit_open(&r->reply.body, "data", '[');
  for (size_t i = 0; !rc && i < json_array_size(models); i++)
    emit_model(r, json_array_get(models, i));
  qp__emit_close(&r->reply.body, ']');
  qp__emit_close(&r->reply.body, '}');
  json_decref(models);
  return rc;
}

enum qp_rc
qp__h_openai_model(struct qp__request *r, struct qp_err *err)
{
  json_t *models = NULL;
  enum qp_rc rc = load_models(r, &models, err);
  const json_t *found = NULL;

  for (size_t i = 0; !rc && !found && i < json_array_size(models); i++)
    if (is_called(json_array_get(models, i), r->params[0]))
      found = json_array_get(models, i);
  if (found)
    emit_model(r, found);
  else if (!rc)
    rc = qp__request_fail(r, MHD_HTTP_NOT_FOUND, "MODEL", err, "there is no model '%.100s'",
                          r->params[0]);
  json_decref(models);
  return rc;
}

/* http_rig.c - see http_rig.h. */
#include "http_rig.h"

#include <stdlib.h>
#include <string.h>

#include "http/route.h"

#define MAX_BODY ((size_t)1 << 20)

static const char *const messages[] = {
  "{\"id\":\"" RIG_MESSAGE "\",\"role\":\"user\",\"text\":\"A record kept in knotted cords.\"}",
  "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Look\"},"
  "{\"type\":\"image\",\"url\":\"https://example.org/a.png\"},{\"type\":\"other\",\"a\":[1]}],"
  "\"tool_calls\":[{\"id\":\"c1\",\"tool_name\":\"run\",\"arguments\":{}}]}",
};

static char *no_names[] = { NULL };
static struct qp__settings settings = {
  .origins = no_names,
  .hosts = no_names,
  .max_body = MAX_BODY,
  .max_header = MAX_BODY,
};

static void
ignore_log(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  (void)arg;
  (void)level;
  (void)feature;
  (void)text;
}

static enum qp_rc
save(struct qp_context *context, const char *json, struct qp_err *err)
{
  struct qp_message *message = NULL;
  enum qp_rc rc = qp_message_parse((struct qp_bytes){ json, strlen(json) }, &message, err);

  if (!rc)
    rc = qp_message_save(context, NULL, message, NULL, err);
  qp_message_free(message);
  return rc;
}

static enum qp_rc
fill(struct qp_store *store, struct qp_err *err)
{
  static const struct qp_prompt prompt = { .id = "p", .name = "P", .content = "Be brief." };
  static const struct qp_session_spec session = { .size = sizeof(struct qp_session_spec),
                                                  .id = "s" };
  static const char line[] = "{\"role\":\"user\",\"content\":\"Hello\"}";
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = "Cords" };
  struct qp_context *context = NULL;
  enum qp_rc rc = qp_uuid_parse(RIG_CONTEXT, &spec.id, err);

  if (!rc)
    rc = qp_context_create(store, &spec, &context, err);
  for (size_t i = 0; !rc && i < sizeof(messages) / sizeof(messages[0]); i++)
    rc = save(context, messages[i], err);
  if (!rc)
    rc = qp_branch_fork(context, "other", NULL, NULL, err);
  if (!rc)
    rc = qp_prompt_create(store, &prompt, NULL, err);
  if (!rc)
    rc = qp_branch_set_prompt(context, "other", "p", err);
  qp_context_close(context);
  if (!rc)
    rc = qp_session_create(store, &session, NULL, err);
  if (!rc)
    rc = qp_session_append(store, "s", (struct qp_bytes){ line, sizeof(line) - 1 }, err);
  return rc;
}

bool
http_rig_make(struct http_rig *rig)
{
  const struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };
  struct qp_err err;

  memset(rig, 0, sizeof(*rig));
  if (qp_store_open("memory:", &options, &rig->store, &err))
    return false;
  rig->http = calloc(1, sizeof(*rig->http));
  if (!rig->http || fill(rig->store, &err)) {
    free(rig->http);
    qp_store_close(rig->store);
    memset(rig, 0, sizeof(*rig));
    return false;
  }
  qp__holds_init(&rig->http->holds, rig->store, false);
  rig->http->store = rig->store;
  atomic_store(&rig->http->settings, &settings);
  rig->http->log = ignore_log;
  return true;
}

void
http_rig_release(struct http_rig *rig)
{
  if (!rig->http)
    return;
  qp__holds_release(&rig->http->holds);
  free(rig->http);
  qp_store_close(rig->store);
  memset(rig, 0, sizeof(*rig));
}

enum qp_rc
http_rig_ask(struct http_rig *rig, const char *method, const char *uri, struct qp_bytes body,
             struct qp__request **out, struct qp_err *err)
{
  struct qp__request *r = qp__request_new(rig->http, NULL, uri);
  enum qp_rc rc;

  err->rc = QP_OK;
  err->msg[0] = '\0';
  *out = r;
  if (!r)
    return QP_NOMEM;
  r->method = method;
  r->caller.scope = rig->scope;
  qp__buf_init(&r->body, MAX_BODY);
  if (qp__buf_add(&r->body, body.data, body.len))
    return qp__buf_check(&r->body, "the body", err);
  rc = qp__request_decode(r, err);
  if (!rc)
    rc = qp__route_find(r, err);
  if (!rc && r->route)
    rc = r->route->handle(r, err);
  /* The store does all work in the calling thread, so the work that a handler waits for has
   * ended here. */
  while (!rc && r->then) {
    qp__handler *then = r->then;

    r->then = NULL;
    rc = then(r, err);
  }
  qp__held_put(r->held);
  r->held = NULL;
  return rc;
}

unsigned
http_rig_status(const struct qp__request *r, enum qp_rc rc)
{
  if (rc)
    return r->fail_status ? r->fail_status : qp__http_status(rc);
  return r->reply.status ? r->reply.status : MHD_HTTP_OK;
}

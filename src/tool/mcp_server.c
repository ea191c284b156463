/* mcp_server.c - one MCP server: see mcp_int.h for its states. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "tool/mcp_int.h"
#include "tool/text.h"

#define PAUSE_MAX_MS 60000
#define STABLE_MS 60000 /* a run of that length clears earlier failures */

static const char *const legacy_versions[] = { "2025-11-25", "2025-06-18", "2025-03-26",
                                               "2024-11-05" };

/* ---- states ---- */

/* Its start has ended, successfully or not. */
static void
end_start(struct qp__mcp *server)
{
  (void)uv_timer_stop(&server->timer);
  if (!server->first)
    return;
  server->first = false;
  server->tools->starting--;
  qp__tools_tell_change(server->tools);
}

void
qp__mcp_drop_requests(struct qp__mcp *server)
{
  while (server->requests) {
    struct qp__mcp_request *request = server->requests;

    server->requests = request->next;
    qp__free(request);
  }
}

/* Keeps why it failed, as valid UTF-8: servers write some of these sentences. */
static void
set_fault(struct qp__mcp *server, const char *why)
{
  size_t max = sizeof(server->fault) - 1;
  struct qp__buf text;

  qp__buf_init(&text, 3 * sizeof(server->fault));
  server->fault[0] = 0;
  if (qp__text_add(&text, why, qp__utf8_fit(why, strlen(why), max)) == QP_OK && text.len > 0) {
    size_t n = qp__utf8_fit(text.data, text.len, max);

    memcpy(server->fault, text.data, n);
    server->fault[n] = 0;
  }
  qp__buf_release(&text);
}

void
qp__mcp_fail(struct qp__mcp *server, const char *why)
{
  if (server->state == QP__MCP_OFF || server->state == QP__MCP_STOPPING)
    return;
  (void)snprintf(server->why, sizeof(server->why), "%.*s", (int)sizeof(server->why) - 1, why);
  set_fault(server, why);
  server->state = QP__MCP_STOPPING;
  (void)uv_timer_stop(&server->timer);
  server->transport->stop(server->transport->self);
}

static void on_timer(uv_timer_t *timer);

/* Counts a failure and sets the timer of the next try. A server that was ready is started again at
 * once, unless it has failed before. */
static void
count_failure(struct qp__mcp *server, const char *why)
{
  uint64_t pause = server->tools->mcp_pause_ms;
  uint64_t now;
  unsigned steps;

  uv_update_time(server->tools->loop);
  now = uv_now(server->tools->loop);
  if (server->ready_at && now - server->ready_at >= STABLE_MS)
    server->failures = 0;
  server->failures++;
  steps = server->failures - (server->ready_at ? 1 : 0);
  for (unsigned i = 1; i < steps && pause < PAUSE_MAX_MS; i++)
    pause *= 2;
  if (steps == 0)
    pause = 0;
  else if (pause > PAUSE_MAX_MS)
    pause = PAUSE_MAX_MS;
  server->not_before = now + pause;
  (void)uv_timer_start(&server->timer, on_timer, pause, 0);
  set_fault(server, why);
}

static bool
is_asked(const struct qp__mcp *server, enum qp__mcp_purpose purpose)
{
  for (const struct qp__mcp_request *r = server->requests; r; r = r->next)
    if (r->purpose == purpose)
      return true;
  return false;
}

void
qp__mcp_ended(struct qp__mcp *server, const char *why)
{
  bool probed = server->state == QP__MCP_PROBING ||
                (server->state == QP__MCP_GREETING && is_asked(server, QP__MCP_DISCOVER));
  char sentence[400];

  if (server->why[0])
    why = server->why;
  (void)snprintf(sentence, sizeof(sentence), "the MCP server '%s': %s", server->config.name, why);
  server->transport = NULL;
  qp__mcp_drop_requests(server);
  json_decref(server->pages);
  server->pages = NULL;
  server->listing = false;
  server->list_again = false;
  if (probed && !server->closing) {
    /* It may have died of a question that it does not know. It is not asked again. */
    server->era = QP__ERA_LEGACY;
    server->state = QP__MCP_OFF;
    (void)qp__mcp_wake(server, NULL);
    return;
  }
  server->state = QP__MCP_OFF;
  end_start(server);
  if (!server->closing) {
    count_failure(server, why);
    qp__log(&server->tools->log, QP_LOG_WARN, "mcp", "%s", sentence);
  }
  qp__mcp_fail_calls(server, sentence);
  server->why[0] = 0;
  if (server->closing)
    qp__tools_unhold(server->tools);
}

/* ---- sending ---- */

static json_t *
capabilities(const struct qp__mcp *server)
{
  return server->tools->workspace.path ? json_pack("{s:{}}", "roots") : json_object();
}

static json_t *
client_info(void)
{
  return json_pack("{s:s, s:s}", "name", "quipu", "version", QP_VERSION);
}

/* What every request of the stateless era carries. */
static int
add_meta(struct qp__mcp *server, json_t *params)
{
  return json_object_set_new(params, "_meta",
                             json_pack("{s:s, s:o, s:o}", "io.modelcontextprotocol/protocolVersion",
                                       QP__MCP_MODERN, "io.modelcontextprotocol/clientCapabilities",
                                       capabilities(server), "io.modelcontextprotocol/clientInfo",
                                       client_info()));
}

static enum qp_rc
send_text(struct qp__mcp *server, const struct qp__buf *text, struct qp__mcp_out *out,
          struct qp_err *err)
{
  enum qp_rc rc = qp__buf_check(text, "a message to an MCP server", err);

  out->text = qp__buf_bytes(text);
  return rc ? rc : server->transport->send(server->transport->self, out, err);
}

enum qp_rc
qp__mcp_request(struct qp__mcp *server, enum qp__mcp_purpose purpose, const char *method,
                json_t *params, struct qp__mcp_call *call, struct qp_err *err)
{
  bool modern = server->era == QP__ERA_MODERN || purpose == QP__MCP_DISCOVER;
  struct qp__mcp_request *request = qp__alloc0(1, sizeof(*request));
  struct qp__mcp_out out = { .method = method, .name = call ? call->tool : NULL };
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&text, QP__MCP_MESSAGE_MAX);
  if (!request || !params || (modern && add_meta(server, params)))
    rc = qp__fail_nomem(err, "a request to an MCP server");
  if (!rc) {
    request->id = ++server->last_id;
    request->purpose = purpose;
    request->call = call;
    out.id = request->id;
    qp__rpc_request(&text, request->id, method, params);
    request->next = server->requests;
    server->requests = request;
    rc = send_text(server, &text, &out, err);
    if (rc && server->requests == request)
      server->requests = request->next;
  }
  if (rc)
    qp__free(request);
  else if (call)
    call->id = out.id;
  json_decref(params);
  qp__buf_release(&text);
  return rc;
}

void
qp__mcp_ask(struct qp__mcp *server, enum qp__mcp_purpose purpose, const char *method,
            json_t *params)
{
  struct qp_err err = { QP_OK, "" };

  if (qp__mcp_request(server, purpose, method, params, NULL, &err))
    qp__mcp_fail(server, err.msg);
}

/* Owns `params` from now on. */
static enum qp_rc
notify(struct qp__mcp *server, const char *method, json_t *params, struct qp_err *err)
{
  struct qp__mcp_out out = { .method = method };
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__MCP_MESSAGE_MAX);
  qp__rpc_notification(&text, method, params);
  rc = send_text(server, &text, &out, err);
  qp__buf_release(&text);
  json_decref(params);
  return rc;
}

/* Removes a request from the list; NULL: it is not in the list (it was cancelled). */
static struct qp__mcp_request *
take_request(struct qp__mcp *server, int64_t id)
{
  for (struct qp__mcp_request **at = &server->requests; *at; at = &(*at)->next)
    if ((*at)->id == id) {
      struct qp__mcp_request *request = *at;

      *at = request->next;
      return request;
    }
  return NULL;
}

void
qp__mcp_cancel(struct qp__mcp *server, int64_t id)
{
  struct qp__mcp_request *request = take_request(server, id);
  json_t *params = NULL;

  if (!request)
    return;
  qp__free(request);
  if (!server->transport || server->state == QP__MCP_STOPPING)
    return;
  /* Over HTTP in the stateless era, to forget is to cancel. */
  if (server->era == QP__ERA_LEGACY || !server->config.url)
    params = json_pack("{s:I, s:s}", "requestId", (json_int_t)id, "reason", "not wanted any more");
  if (params) /* otherwise the server finishes the call, and its answer is ignored */
    (void)notify(server, "notifications/cancelled", params, NULL);
  if (server->transport->forget)
    server->transport->forget(server->transport->self, id);
}

/* ---- starting ---- */

/* Gives the rest of the start until the deadline. Call it when PROBING ends. */
static void
await_start(struct qp__mcp *server)
{
  uint64_t now = uv_now(server->tools->loop);
  uint64_t left = server->deadline > now ? server->deadline - now : 0;

  (void)uv_timer_start(&server->timer, on_timer, left, 0);
}

static void
greet(struct qp__mcp *server)
{
  json_t *params = json_pack("{s:s, s:o, s:o}", "protocolVersion", QP__MCP_LEGACY, "capabilities",
                             capabilities(server), "clientInfo", client_info());

  server->state = QP__MCP_GREETING;
  await_start(server);
  qp__mcp_ask(server, QP__MCP_INITIALIZE, "initialize", params);
}

static void
begin_start(struct qp__mcp *server)
{
  uv_update_time(server->tools->loop);
  server->deadline = uv_now(server->tools->loop) + server->tools->mcp_start_ms;
}

static void
on_timer(uv_timer_t *timer)
{
  struct qp__mcp *server = timer->data;
  char why[80];

  if (server->state == QP__MCP_OFF) {
    (void)qp__mcp_wake(server, NULL);
    return;
  }
  if (server->state == QP__MCP_PROBING) {
    greet(server);
    return;
  }
  (void)snprintf(why, sizeof(why), "it did not answer within %llu s",
                 (unsigned long long)(server->tools->mcp_start_ms + 999) / 1000);
  qp__mcp_fail(server, why);
}

static void
begin(struct qp__mcp *server)
{
  begin_start(server);
  switch (server->era) {
  case QP__ERA_UNKNOWN:
    server->state = QP__MCP_PROBING;
    (void)uv_timer_start(&server->timer, on_timer, server->tools->mcp_probe_ms, 0);
    qp__mcp_ask(server, QP__MCP_DISCOVER, "server/discover", json_object());
    break;
  case QP__ERA_LEGACY:
    greet(server);
    break;
  case QP__ERA_MODERN:
    server->state = QP__MCP_LISTING;
    await_start(server);
    qp__mcp_ask_list(server);
    break;
  }
}

bool
qp__mcp_wake(struct qp__mcp *server, struct qp_err *err)
{
  const struct qp__mcp_config *config = &server->config;
  uint64_t now = uv_now(server->tools->loop);
  struct qp_err why = { QP_OK, "" };
  struct qp_err whole = { QP_OK, "" };
  enum qp_rc rc;

  if (server->state != QP__MCP_OFF)
    return true;
  if (now < server->not_before) {
    (void)qp__fail(err, QP_BUSY,
                   "the MCP server '%s' has failed %u times; it is tried again in %llu s; "
                   "last failure: %s",
                   config->name, server->failures,
                   (unsigned long long)(server->not_before - now + 999) / 1000, server->fault);
    return false;
  }
  server->version[0] = 0;
  server->why[0] = 0;
  server->ready_at = 0;
  rc = config->url ? qp__mcp_http_start(server, &server->transport, &why)
                   : qp__mcp_stdio_start(server, &server->transport, &why);
  if (rc) {
    (void)qp__fail(&whole, rc, "the MCP server '%s': %s", config->name, why.msg);
    qp__log(&server->tools->log, QP_LOG_WARN, "mcp", "%s", whole.msg);
    end_start(server);
    count_failure(server, why.msg);
    qp__mcp_fail_calls(server, whole.msg);
    if (err)
      *err = whole;
    return false;
  }
  begin(server);
  return true;
}

/* ---- answers ---- */

static void
read_capabilities(struct qp__mcp *server, const json_t *result)
{
  server->has_tools =
      json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools"));
}

static void
ask_tools(struct qp__mcp *server)
{
  server->state = QP__MCP_LISTING;
  await_start(server);
  if (server->has_tools)
    qp__mcp_ask_list(server);
  else
    qp__mcp_listed(server);
}

static void
take_discovery(struct qp__mcp *server, const json_t *result)
{
  const char *one = json_string_value(json_object_get(result, "protocolVersion"));

  if (server->state != QP__MCP_PROBING && server->state != QP__MCP_GREETING)
    return; /* it is late: the handshake is done */
  if (!qp__json_has_text(json_object_get(result, "supportedVersions"), QP__MCP_MODERN) &&
      !(one && strcmp(one, QP__MCP_MODERN) == 0)) {
    if (server->state == QP__MCP_PROBING)
      greet(server);
    return;
  }
  server->era = QP__ERA_MODERN;
  (void)snprintf(server->version, sizeof(server->version), "%s", QP__MCP_MODERN);
  read_capabilities(server, result);
  ask_tools(server);
}

void
qp__mcp_greeted(struct qp__mcp *server)
{
  if (server->state == QP__MCP_GREETING && server->era == QP__ERA_LEGACY)
    ask_tools(server);
}

static void
take_greeting(struct qp__mcp *server, const json_t *result)
{
  const char *version = json_string_value(json_object_get(result, "protocolVersion"));
  struct qp_err err = { QP_OK, "" };
  char why[120];

  if (server->state != QP__MCP_GREETING)
    return;
  for (size_t i = 0; i < sizeof(legacy_versions) / sizeof(legacy_versions[0]) && version; i++)
    if (strcmp(version, legacy_versions[i]) == 0) {
      server->era = QP__ERA_LEGACY;
      (void)snprintf(server->version, sizeof(server->version), "%s", version);
      if (notify(server, "notifications/initialized", NULL, &err)) {
        qp__mcp_fail(server, err.msg);
        return;
      }
      read_capabilities(server, result);
      server->transport->greeted(server->transport->self);
      return;
    }
  (void)snprintf(why, sizeof(why),
                 "it uses version '%.40s' of the protocol, which quipu does not support",
                 version ? version : "");
  qp__mcp_fail(server, why);
}

/* The answer to a request is an error, or no answer will arrive. */
static void
take_failure(struct qp__mcp *server, struct qp__mcp_request *request, const char *why)
{
  char sentence[300];

  switch (request->purpose) {
  case QP__MCP_DISCOVER:
    if (server->state == QP__MCP_PROBING)
      greet(server);
    else if (server->state == QP__MCP_GREETING && !is_asked(server, QP__MCP_INITIALIZE))
      qp__mcp_fail(server, why);
    break;
  case QP__MCP_INITIALIZE:
    /* A slow server of the stateless era may still answer "server/discover". */
    (void)snprintf(sentence, sizeof(sentence), "cannot initialize: %.200s", why);
    if (server->state == QP__MCP_GREETING && !is_asked(server, QP__MCP_DISCOVER)) {
      server->era = QP__ERA_UNKNOWN; /* perhaps its era was detected wrongly */
      qp__mcp_fail(server, sentence);
    }
    break;
  case QP__MCP_LIST:
    (void)snprintf(sentence, sizeof(sentence), "it does not list its tools: %.200s", why);
    server->listing = false;
    if (server->state == QP__MCP_READY) { /* its tools are known from before */
      qp__log(&server->tools->log, QP_LOG_WARN, "mcp", "%s: %s", server->config.name, sentence);
    } else {
      server->era = QP__ERA_UNKNOWN;
      qp__mcp_fail(server, sentence);
    }
    break;
  case QP__MCP_CALL:
    qp__mcp_fail_call(request->call, why);
    break;
  }
}

static void
take_result(struct qp__mcp *server, struct qp__mcp_request *request, const json_t *result)
{
  switch (request->purpose) {
  case QP__MCP_DISCOVER:
    take_discovery(server, result);
    break;
  case QP__MCP_INITIALIZE:
    take_greeting(server, result);
    break;
  case QP__MCP_LIST:
    qp__mcp_take_list(server, result);
    break;
  case QP__MCP_CALL:
    server->failures = 0;
    qp__mcp_take_result(request->call, result);
    break;
  }
}

void
qp__mcp_listed(struct qp__mcp *server)
{
  if (server->state == QP__MCP_LISTING) {
    server->state = QP__MCP_READY;
    if (!server->ready_at)
      server->ready_at = uv_now(server->tools->loop) | 1; /* never 0 */
    server->fault[0] = 0;
    qp__log(&server->tools->log, QP_LOG_INFO, "mcp", "%s: ready, %zu tools", server->config.name,
            server->source.count);
    end_start(server);
  }
  if (server->state == QP__MCP_READY)
    qp__mcp_send_calls(server);
}

void
qp__mcp_expired(struct qp__mcp *server)
{
  if (server->state != QP__MCP_READY)
    return; /* it is being greeted */
  begin_start(server);
  greet(server);
}

void
qp__mcp_unreachable(struct qp__mcp *server, const char *why)
{
  if (server->state == QP__MCP_READY && !server->requests)
    qp__mcp_fail(server, why);
}

void
qp__mcp_unanswered(struct qp__mcp *server, int64_t id, const char *why, bool expired)
{
  struct qp__mcp_request *request = take_request(server, id);

  if (!request)
    return;
  if (expired && request->purpose == QP__MCP_CALL && !request->call->again) {
    request->call->again = true;
    request->call->id = 0; /* it waits, and is sent in the new session */
    qp__mcp_expired(server);
  } else if (expired && request->purpose == QP__MCP_LIST && server->state == QP__MCP_READY) {
    server->listing = false;
    qp__mcp_expired(server); /* its end is a new list */
  } else {
    take_failure(server, request, why);
  }
  qp__free(request);
}

/* ---- requests and notifications of the server ---- */

/* "file://" and the path, with what a URI does not allow as %XX. */
static json_t *
root_uri(const char *path)
{
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "-._~/!$&'()*+,;=:@";
  struct qp__buf uri;

  qp__buf_init(&uri, 3 * QP__WORKSPACE_PATH_MAX + 16);
  (void)qp__buf_add_str(&uri, "file://");
  for (; *path; path++)
    if (strchr(plain, *path))
      (void)qp__buf_add_char(&uri, *path);
    else
      (void)qp__buf_addf(&uri, "%%%02X", (unsigned char)*path);
  return qp__json_take(&uri);
}

json_t *
qp__mcp_answer(struct qp__mcp *server, const char *method, int64_t *code)
{
  const char *workspace = server->tools->workspace.path;

  *code = 0;
  if (strcmp(method, "ping") == 0)
    return json_object();
  if (strcmp(method, "roots/list") == 0 && workspace)
    return json_pack("{s:[{s:o, s:s}]}", "roots", "uri", root_uri(workspace), "name", "workspace");
  *code = QP__RPC_NO_METHOD;
  return NULL;
}

static void
answer_request(struct qp__mcp *server, const struct qp__rpc *rpc)
{
  struct qp__mcp_out out = { .id = 0 };
  int64_t code = 0;
  json_t *result = qp__mcp_answer(server, rpc->method, &code);
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;

  qp__buf_init(&text, QP__MCP_MESSAGE_MAX);
  if (result)
    qp__rpc_result(&text, rpc->id, result);
  else
    qp__rpc_error(&text, rpc->id, code ? code : QP__RPC_INTERNAL,
                  code ? "quipu does not support this" : "out of memory");
  if (send_text(server, &text, &out, &err))
    qp__mcp_fail(server, err.msg); /* it waits for the answer */
  qp__buf_release(&text);
  json_decref(result);
}

static void
take_notification(struct qp__mcp *server, const struct qp__rpc *rpc)
{
  if (strcmp(rpc->method, "notifications/message") == 0) {
    const json_t *data = json_object_get(rpc->params, "data");

    if (json_is_string(data))
      qp__mcp_log_line(server, QP_LOG_DEBUG, json_string_value(data), json_string_length(data));
  }
  if (strcmp(rpc->method, "notifications/tools/list_changed") != 0)
    return;
  if (server->listing)
    server->list_again = true;
  else if (server->state == QP__MCP_READY)
    qp__mcp_ask_list(server);
}

void
qp__mcp_message(struct qp__mcp *server, const json_t *message)
{
  struct qp__mcp_request *request;
  struct qp_err err = { QP_OK, "" };
  struct qp__rpc rpc;

  if (server->state == QP__MCP_OFF || server->state == QP__MCP_STOPPING)
    return;
  if (qp__rpc_read(message, &rpc, &err)) {
    qp__mcp_log_line(server, QP_LOG_INFO, err.msg, strlen(err.msg));
    return;
  }
  if (rpc.kind == QP__RPC_REQUEST) {
    answer_request(server, &rpc);
    return;
  }
  if (rpc.kind == QP__RPC_NOTIFICATION) {
    take_notification(server, &rpc);
    return;
  }
  request = json_is_integer(rpc.id) ? take_request(server, json_integer_value(rpc.id)) : NULL;
  if (!request)
    return; /* it was cancelled, or was never asked */
  if (rpc.kind == QP__RPC_RESULT)
    take_result(server, request, rpc.result);
  else
    take_failure(server, request, rpc.message);
  qp__free(request);
}

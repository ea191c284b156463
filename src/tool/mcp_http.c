/* mcp_http.c - an MCP server over Streamable HTTP.
 *
 * Each of our messages is a POST. Its answer is JSON, or a stream of events that ends with the
 * answer and may contain requests and notifications of the server before it. An exchange is one
 * HTTP request of these kinds:
 *
 *   POST    a message. If its stream breaks off before the answer and had event ids, GET with
 *           Last-Event-ID requests the rest, up to TRIES_MAX times
 *   GET     the server's own stream, in the handshake era; a server without one answers 405. It is
 *           opened again when it ends
 *   DELETE  ends a session
 *
 * In the handshake era the server may issue a session id. A 404, or a 400 whose text mentions the
 * session, means that the server no longer knows it, for instance after a restart; then the
 * handshake is repeated. In the stateless era headers repeat the method and the name of the tool,
 * and a request is cancelled by ending its exchange. Secrets of the headers are never logged. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sse.h"
#include "net/client.h"
#include "tool/mcp_int.h"

#define TRIES_MAX 3
#define RETRY_MS 1000
#define RETRY_MAX_MS 60000
#define STOP_MS 2000
#define GREETING_MS 5000
#define SESSION_MAX 512
#define HEADERS_MAX 1100
#define ENCODED_NAME_MAX 608 /* the base64 form of 450 bytes fits */
#define BODY_MAX QP__MCP_MESSAGE_MAX

enum kind { POST, LISTEN, DELETE };

struct http;

struct exchange {
  struct http *http;
  struct exchange *next;
  enum kind kind;
  struct qp__net_request *request; /* NULL: it waits to be sent again */
  uv_timer_t timer;                /* for that */
  int64_t id;                      /* of the MCP request that it waits for; 0: no request */
  int status;
  bool in_session; /* it named the session */
  bool opened;     /* of LISTEN: the stream was open once */
  bool greets;     /* it ends the handshake; no request is sent before the server has accepted it */
  bool is_stream;
  unsigned tries;
  uint64_t began; /* its last HTTP request */
  struct qp__buf body;
  struct qp__sse sse;
};

struct http {
  struct qp__mcp_transport transport;
  struct qp__mcp *server;
  struct exchange *exchanges;
  uv_timer_t closer;         /* closing it is the end */
  char session[SESSION_MAX]; /* "": no session */
  bool stopping;
};

/* ---- the end ---- */

static void
on_closed(uv_handle_t *handle)
{
  struct http *h = handle->data;
  struct qp__mcp *server = h->server;

  qp__free(h);
  qp__mcp_ended(server, "the connection was closed");
}

static void
finish_if_done(struct http *h)
{
  if (h->stopping && !h->exchanges && !uv_is_closing((uv_handle_t *)&h->closer))
    uv_close((uv_handle_t *)&h->closer, on_closed);
}

static void
on_exchange_closed(uv_handle_t *handle)
{
  struct exchange *x = handle->data;
  struct http *h = x->http;
  struct exchange **at = &h->exchanges;

  while (*at != x)
    at = &(*at)->next;
  *at = x->next;
  qp__buf_release(&x->body);
  qp__sse_release(&x->sse);
  qp__free(x);
  finish_if_done(h);
}

/* The server has accepted the end of the handshake, or we stop waiting for it. */
static void
end_greeting(struct exchange *x)
{
  struct http *h = x->http;

  if (!x->greets)
    return;
  x->greets = false;
  if (!h->stopping)
    qp__mcp_greeted(h->server);
}

static void
close_exchange(struct exchange *x)
{
  if (uv_is_closing((uv_handle_t *)&x->timer))
    return;
  if (x->request)
    qp__net_cancel(x->request);
  x->request = NULL;
  uv_close((uv_handle_t *)&x->timer, on_exchange_closed);
  end_greeting(x);
}

/* The request of this exchange gets no answer. The last thing that is done with it. */
static void
give_up(struct exchange *x, const char *why, bool expired)
{
  struct http *h = x->http;
  int64_t id = x->id;

  close_exchange(x);
  if (id)
    qp__mcp_unanswered(h->server, id, why, expired);
}

/* ---- messages of the server ---- */

static void
take_message(struct exchange *x, const json_t *message)
{
  const json_t *id = json_object_get(message, "id");

  if (!json_object_get(message, "method") && json_is_integer(id) && json_integer_value(id) == x->id)
    x->id = 0; /* here is the answer */
  qp__mcp_message(x->http->server, message);
}

/* One message, or several in an array. QP_INVALID: it is neither. QP_NOMEM. */
static enum qp_rc
take_text(struct exchange *x, const char *text, size_t n)
{
  json_t *value = NULL;
  enum qp_rc rc = qp__json_parse_outside("a message", (struct qp_bytes){ text, n }, &value, NULL);

  if (rc)
    return rc;
  if (json_is_array(value))
    for (size_t i = 0; i < json_array_size(value); i++)
      take_message(x, json_array_get(value, i));
  else
    take_message(x, value);
  json_decref(value);
  return QP_OK;
}

/* Some servers send events without JSON to keep the stream alive; these are ignored. */
static enum qp_rc
take_event(void *arg, const struct qp__sse_event *event, struct qp_err *err)
{
  struct exchange *x = arg;

  if (!uv_is_closing((uv_handle_t *)&x->timer) &&
      take_text(x, event->data.data, event->data.len) == QP_NOMEM)
    return qp__fail_nomem(err, "a message of an MCP server");
  return QP_OK;
}

/* ---- hooks ---- */

static void
on_header(void *arg, struct qp_bytes name, struct qp_bytes value)
{
  struct exchange *x = arg;

  if (qp__net_is_header(name, "content-type"))
    x->is_stream = qp__net_is_type(value, "text/event-stream");
  else if (qp__net_is_header(name, "mcp-session-id") && x->kind == POST &&
           x->http->server->state == QP__MCP_GREETING && value.len < SESSION_MAX) {
    memcpy(x->http->session, value.data, value.len);
    x->http->session[value.len] = 0;
  }
}

static void
on_status(void *arg, int status)
{
  struct exchange *x = arg;

  x->status = status;
}

static enum qp__net_next
on_data(void *arg, struct qp_bytes data)
{
  struct exchange *x = arg;
  bool streams = x->status == 200 && x->is_stream;
  enum qp_rc rc = streams ? qp__sse_feed(&x->sse, data, take_event, x, NULL)
                          : qp__buf_add(&x->body, data.data, data.len);

  if (uv_is_closing((uv_handle_t *)&x->timer))
    return QP__NET_STOP; /* a message in `data` has stopped the server */
  if (rc)
    give_up(x, "the server sent data that cannot be parsed", false);
  /* The server may be slow to end a stream behind its answer. */
  return x->kind == POST && streams && x->id == 0 ? QP__NET_ENOUGH : QP__NET_MORE;
}

static enum qp_rc start_request(struct exchange *x, const struct qp__mcp_out *out,
                                struct qp_err *err);

static void
on_again(uv_timer_t *timer)
{
  struct exchange *x = timer->data;
  struct qp_err err = { QP_OK, "" };

  if (start_request(x, NULL, &err))
    give_up(x, err.msg, false);
}

static void
try_again(struct exchange *x, uint64_t ms)
{
  x->tries++;
  x->status = 0;
  x->is_stream = false;
  qp__buf_reset(&x->body);
  qp__sse_restart(&x->sse);
  (void)uv_timer_start(&x->timer, on_again, ms, 0);
}

static uint64_t
retry_ms(const struct exchange *x)
{
  uint64_t ms = x->sse.retry_ms >= 0 ? (uint64_t)x->sse.retry_ms : RETRY_MS;

  for (unsigned i = 0; i < x->tries && ms < RETRY_MAX_MS && ms > 0; i++)
    ms *= 2;
  return ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
}

/* The text in the body of a refusal: the message of its error, else the body itself unless it is a
 * page. "": nothing that can be shown. Our own secrets are removed. */
static void
read_refusal(const struct exchange *x, char *out, size_t size)
{
  struct qp_bytes body = qp__buf_bytes(&x->body);
  const char *const *headers = x->http->server->config.headers;
  json_t *value = NULL;
  const json_t *error;
  const char *text = NULL;

  if (qp__json_parse_outside("an answer", body, &value, NULL) == QP_OK) {
    error = json_object_get(value, "error");
    text = json_string_value(json_is_string(error) ? error : json_object_get(error, "message"));
    if (!text)
      text = json_string_value(json_object_get(value, "message"));
  }
  if (text)
    (void)snprintf(out, size, "%.*s", (int)size - 1, text);
  else if (!value && body.len > 0 && body.data[0] != '<')
    (void)snprintf(out, size, "%.*s", (int)(body.len < size ? body.len : size - 1), body.data);
  else
    out[0] = 0;
  out[strcspn(out, "\r\n")] = 0;
  for (; headers && *headers; headers++)
    qp__net_scrub_header(out, *headers);
  json_decref(value);
}

/* Whether a refusal means that the server does not know our session. */
static bool
is_expired(const struct exchange *x, const char *said)
{
  return x->in_session && (x->status == 404 || (x->status == 400 && strcasestr(said, "session")));
}

/* Handles a response whose status is not a success. */
static void
take_refusal(struct exchange *x)
{
  char said[200];
  char why[300];

  read_refusal(x, said, sizeof(said));
  if (x->status == 401 || x->status == 403)
    (void)snprintf(why, sizeof(why),
                   "the server refuses us with HTTP status %d; its \"headers\" may lack a key",
                   x->status);
  else
    (void)snprintf(why, sizeof(why), "the server answered with HTTP status %d%s%s", x->status,
                   said[0] ? ": " : "", said);
  give_up(x, why, is_expired(x, said));
}

static void
end_post(struct exchange *x, const char *why)
{
  if (!why && x->status >= 200 && x->status < 300 && !x->is_stream && x->body.len > 0 &&
      take_text(x, x->body.data, x->body.len))
    why = "the server sent data that cannot be parsed";
  if (uv_is_closing((uv_handle_t *)&x->timer))
    return;
  if (x->id == 0)
    close_exchange(x);
  else if (x->status >= 300)
    take_refusal(x);
  else if (x->sse.id[0] && x->tries < TRIES_MAX && x->http->server->era == QP__ERA_LEGACY)
    try_again(x, retry_ms(x));
  else {
    struct http *h = x->http;
    bool unreachable = why && x->status == 0;

    give_up(x, why ? why : "the server ended its answer before it was complete", false);
    if (unreachable)
      qp__mcp_unreachable(h->server, why);
  }
}

/* The stream of the server's own messages has ended, or could not be opened. */
static void
end_listen(struct exchange *x)
{
  struct http *h = x->http;
  char said[200];

  if (h->stopping) {
    close_exchange(x);
  } else if (x->status == 200 || x->status == 0) {
    x->opened = x->opened || x->status == 200;
    if (uv_now(h->server->tools->loop) - x->began > RETRY_MAX_MS)
      x->tries = 0;
    try_again(x, retry_ms(x));
  } else {
    bool expired;

    read_refusal(x, said, sizeof(said));
    expired = x->opened && is_expired(x, said);
    close_exchange(x);
    if (expired)
      qp__mcp_expired(h->server);
  }
}

static void
on_end(void *arg, enum qp__net_outcome outcome, const char *why)
{
  struct exchange *x = arg;

  (void)outcome;
  x->request = NULL;
  if (x->kind == POST)
    end_post(x, why);
  else if (x->kind == LISTEN)
    end_listen(x);
  else
    close_exchange(x);
}

/* ---- sending ---- */

/* Header lines of one request, in one buffer. */
struct lines {
  const char *at[HEADERS_MAX + 8];
  size_t count;
  char text[6][SESSION_MAX + 700];
  size_t used;
};

static void
add_line(struct lines *l, const char *name, const char *value)
{
  if (l->used == sizeof(l->text) / sizeof(l->text[0]))
    return;
  (void)snprintf(l->text[l->used], sizeof(l->text[0]), "%s: %.*s", name, SESSION_MAX + 600, value);
  l->at[l->count++] = l->text[l->used++];
}

/* A value that is not allowed in a header is sent in base64, marked as such. */
static void
add_encoded(struct lines *l, const char *name, const char *value)
{
  size_t n = strlen(value);
  char text[ENCODED_NAME_MAX];
  char out[sizeof(text) + 16];
  bool plain = n > 0 && value[0] != ' ' && value[n - 1] != ' ' && strncmp(value, "=?", 2) != 0;

  for (size_t i = 0; i < n && plain; i++)
    plain = value[i] >= ' ' && value[i] <= '~';
  if (plain || sodium_base64_ENCODED_LEN(n, sodium_base64_VARIANT_ORIGINAL) > sizeof(text)) {
    add_line(l, name, plain ? value : "");
    return;
  }
  (void)sodium_bin2base64(text, sizeof(text), (const unsigned char *)value, n,
                          sodium_base64_VARIANT_ORIGINAL);
  (void)snprintf(out, sizeof(out), "=?base64?%s?=", text);
  add_line(l, name, out);
}

static void
add_headers(struct exchange *x, struct lines *l, const struct qp__mcp_out *out)
{
  const struct http *h = x->http;
  const struct qp__mcp *server = h->server;
  bool probe = out && out->method && strcmp(out->method, "server/discover") == 0;
  bool modern = server->era == QP__ERA_MODERN || probe;

  for (size_t i = 0; server->config.headers && server->config.headers[i] && i < HEADERS_MAX; i++)
    l->at[l->count++] = server->config.headers[i];
  add_line(l, "Accept", out ? "application/json, text/event-stream" : "text/event-stream");
  if (out)
    add_line(l, "Content-Type", "application/json");
  if (modern || server->version[0])
    add_line(l, "MCP-Protocol-Version", modern ? QP__MCP_MODERN : server->version);
  if (modern && out && out->method) {
    add_line(l, "Mcp-Method", out->method);
    if (out->name)
      add_encoded(l, "Mcp-Name", out->name);
  }
  x->in_session = !modern && h->session[0];
  if (x->in_session)
    add_line(l, "Mcp-Session-Id", h->session);
  if (!out && x->sse.id[0])
    add_line(l, "Last-Event-ID", x->sse.id);
}

/* Begins the next HTTP request of the exchange: POST of `out`; without `out`, GET of the events
 * after the last one that was seen; or DELETE. */
static enum qp_rc
start_request(struct exchange *x, const struct qp__mcp_out *out, struct qp_err *err)
{
  struct lines *l = qp__alloc0(1, sizeof(*l));
  struct qp__net_spec spec = {
    .method = x->kind == DELETE ? "DELETE"
              : out             ? "POST"
                                : "GET",
    .url = x->http->server->config.url,
    .total_ms = x->kind == DELETE ? STOP_MS : 0,
    .hooks = { on_status, on_header, on_data, on_end, NULL },
    .arg = x,
  };
  enum qp_rc rc;

  x->began = uv_now(x->http->server->tools->loop);
  if (!l)
    return qp__fail_nomem(err, "an HTTP request");
  add_headers(x, l, out);
  spec.headers = l->at;
  spec.header_count = l->count;
  if (out)
    spec.body = out->text;
  rc = qp__net_start(x->http->server->tools->net, &spec, &x->request, err);
  qp__free(l);
  return rc;
}

static enum qp_rc
start_exchange(struct http *h, enum kind kind, const struct qp__mcp_out *out, struct qp_err *err)
{
  struct exchange *x = qp__alloc0(1, sizeof(*x));
  enum qp_rc rc;

  if (!x)
    return qp__fail_nomem(err, "an HTTP request");
  x->http = h;
  x->kind = kind;
  x->id = out ? out->id : 0;
  qp__buf_init(&x->body, BODY_MAX);
  qp__sse_init(&x->sse, BODY_MAX);
  rc = start_request(x, out, err);
  if (rc) {
    qp__free(x);
    return rc;
  }
  (void)uv_timer_init(h->server->tools->loop, &x->timer);
  x->timer.data = x;
  x->next = h->exchanges;
  h->exchanges = x;
  return QP_OK;
}

static enum qp_rc
http_send(void *self, const struct qp__mcp_out *out, struct qp_err *err)
{
  struct http *h = self;

  if (out->method && strcmp(out->method, "initialize") == 0)
    h->session[0] = 0; /* the server gives a new one */
  return start_exchange(h, POST, out, err);
}

static void
http_forget(void *self, int64_t id)
{
  struct http *h = self;

  for (struct exchange *x = h->exchanges; x; x = x->next)
    if (x->id == id) {
      x->id = 0;
      close_exchange(x);
      return;
    }
}

static void
on_slow_greeting(uv_timer_t *timer)
{
  end_greeting(timer->data);
}

/* The exchange that was begun last has the end of the handshake. A question in another one could
 * overtake it, and some servers have all of their tools only when they have seen it. */
static void
http_greeted(void *self)
{
  struct http *h = self;

  h->exchanges->greets = true;
  (void)uv_timer_start(&h->exchanges->timer, on_slow_greeting, GREETING_MS, 0);
  for (struct exchange *x = h->exchanges; x; x = x->next)
    if (x->kind == LISTEN)
      close_exchange(x);                       /* of the session before */
  (void)start_exchange(h, LISTEN, NULL, NULL); /* without it, calls still work */
}

static void
http_stop(void *self)
{
  struct http *h = self;

  h->stopping = true;
  for (struct exchange *x = h->exchanges; x; x = x->next) {
    x->id = 0;
    close_exchange(x);
  }
  if (h->session[0])
    (void)start_exchange(h, DELETE, NULL, NULL);
  finish_if_done(h);
}

enum qp_rc
qp__mcp_http_start(struct qp__mcp *server, struct qp__mcp_transport **out, struct qp_err *err)
{
  struct qp__tools *tools = server->tools;
  enum qp_rc rc = tools->net ? QP_OK : qp__net_open(tools->loop, &tools->net, err);
  struct http *h;

  if (rc)
    return rc;
  h = qp__alloc0(1, sizeof(*h));
  if (!h)
    return qp__fail_nomem(err, "an MCP server");
  h->server = server;
  (void)uv_timer_init(tools->loop, &h->closer);
  h->closer.data = h;
  h->transport = (struct qp__mcp_transport){
    .self = h,
    .send = http_send,
    .forget = http_forget,
    .greeted = http_greeted,
    .stop = http_stop,
  };
  *out = &h->transport;
  return QP_OK;
}

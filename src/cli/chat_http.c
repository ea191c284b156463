/* chat_http.c - see chat_http.h. On libcurl. */
#include "cli/chat_http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/sse.h"
#include "cli/chat_interrupt.h"
#include "cli/chat_server.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "http/server.h"

#define BODY_MAX ((size_t)256 << 20)
#define LINE_MAX_BYTES ((size_t)64 << 20)
#define CONNECT_TIMEOUT_S 10L
#define ANSWER_TIMEOUT_S 120L
#define SILENCE_S 60L /* the server sends something every 15 s */
#define POLL_MS 1000
#define HEADER_MAX 512
#define UNIX "unix:"
#define UNIX_BASE "http://127.0.0.1" /* the name of such a server in requests */

struct chat_http {
  char *name;   /* as it was given, for error messages */
  char *base;   /* URL without a trailing slash */
  char *socket; /* path of a Unix socket, or its name if it is abstract; or NULL */
  char *key;    /* or NULL */
  bool own;
  struct qp__http *inside; /* the server, if it is in this process */
  CURL *asking;            /* reuse their connections */
  CURL *streaming;
  CURLM *multi;
  char reason[CURL_ERROR_SIZE];
};

/* ---- life ---- */

void
cli_http_close(struct chat_http *http)
{
  if (!http)
    return;
  if (http->multi)
    (void)curl_multi_cleanup(http->multi);
  curl_easy_cleanup(http->asking);
  curl_easy_cleanup(http->streaming);
  if (http->key)
    explicit_bzero(http->key, strlen(http->key));
  qp__free(http->key);
  qp__free(http->name);
  qp__free(http->base);
  qp__free(http->socket);
  qp__free(http);
}

static enum qp_rc
check_url(const char *url, struct qp_err *err)
{
  if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0 ||
      (strncmp(url, UNIX, strlen(UNIX)) == 0 && url[strlen(UNIX)]))
    return QP_OK;
  return qp__fail(err, QP_INVALID,
                  "'%.100s' is not the URL of a server: http://…, https://… or unix:PATH", url);
}

static enum qp_rc
open_client(const char *name, size_t name_len, const char *base, const char *path, const char *key,
            struct chat_http **out, struct qp_err *err)
{
  struct chat_http *http;

  if (curl_global_init(CURL_GLOBAL_DEFAULT))
    return cli_fail_nomem(err);
  http = qp__alloc0(1, sizeof(*http));
  if (!http)
    return cli_fail_nomem(err);
  http->name = qp__strndup(name, name_len);
  http->base = base ? qp__strdup(base) : qp__strndup(name, name_len);
  http->socket = path ? qp__strdup(path) : NULL;
  http->key = key && key[0] ? qp__strdup(key) : NULL;
  http->asking = curl_easy_init();
  http->streaming = curl_easy_init();
  http->multi = curl_multi_init();
  if (!http->name || !http->base || (path && !http->socket) || (key && key[0] && !http->key) ||
      !http->asking || !http->streaming || !http->multi) {
    cli_http_close(http);
    return cli_fail_nomem(err);
  }
  *out = http;
  return QP_OK;
}

enum qp_rc
cli_http_open(const char *url, const char *key, bool own, struct chat_http **out,
              struct qp_err *err)
{
  const char *path = strncmp(url, UNIX, strlen(UNIX)) == 0 ? url + strlen(UNIX) : NULL;
  size_t len = strlen(url);
  enum qp_rc rc = check_url(url, err);

  if (rc)
    return rc;
  if (key && strpbrk(key, "\r\n"))
    return qp__fail(err, QP_INVALID, "the key for the server has a line break in it");
  while (!path && len && url[len - 1] == '/')
    len--;
  rc = open_client(url, len, path ? UNIX_BASE : NULL, path, key, out, err);
  if (!rc)
    (*out)->own = own || path;
  return rc;
}

enum qp_rc
cli_http_open_inside(struct qp__http *server, struct chat_http **out, struct qp_err *err)
{
  const char *name = qp__http_url(server) + strlen(UNIX "@");
  enum qp_rc rc = open_client("quipu", strlen("quipu"), UNIX_BASE, name, NULL, out, err);

  if (!rc) {
    (*out)->own = true;
    (*out)->inside = server;
  }
  return rc;
}

bool
cli_http_is_inside(const struct chat_http *http)
{
  return http->inside != NULL;
}

bool
cli_http_listens(const char *path)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  bool good = false;
  int fd;

  if (strlen(path) >= sizeof(address.sun_path))
    return false;
  memcpy(address.sun_path, path, strlen(path) + 1);
  fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    good = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(fd);
  }
  return good;
}

/* ---- a request ---- */

struct request {
  char *url;
  char *body;
  struct curl_slist *headers;
};

static void
request_release(struct request *r)
{
  curl_slist_free_all(r->headers);
  qp__free(r->url);
  qp__free(r->body);
}

static bool
add_header(struct request *r, const char *name, const char *value)
{
  char line[HEADER_MAX];
  struct curl_slist *longer;

  if ((size_t)snprintf(line, sizeof(line), "%s: %s", name, value) >= sizeof(line))
    return false;
  longer = curl_slist_append(r->headers, line);
  explicit_bzero(line, sizeof(line));
  if (longer)
    r->headers = longer;
  return longer != NULL;
}

static bool
fill_request(const struct chat_http *http, struct request *r, const char *path, const json_t *body)
{
  bool good = true;
  char token[HEADER_MAX];

  *r = (struct request){ .url = qp__strf("%s%s", http->base, path) };
  if (!r->url)
    return false;
  if (body) {
    r->body = json_dumps(body, JSON_COMPACT);
    good = r->body && add_header(r, "Content-Type", "application/json");
  }
  if (http->key) {
    good = good && (size_t)snprintf(token, sizeof(token), "Bearer %s", http->key) < sizeof(token) &&
           add_header(r, "Authorization", token);
    explicit_bzero(token, sizeof(token));
  }
  return good && add_header(r, "Expect", "");
}

static void
set_common(struct chat_http *http, CURL *easy, const struct request *r, const char *method)
{
  curl_easy_reset(easy);
  http->reason[0] = '\0';
  (void)curl_easy_setopt(easy, CURLOPT_URL, r->url);
  (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
  (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, r->headers);
  (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->reason);
  (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
  if (http->own)
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
  if (http->socket)
    (void)curl_easy_setopt(
        easy, http->inside ? CURLOPT_ABSTRACT_UNIX_SOCKET : CURLOPT_UNIX_SOCKET_PATH, http->socket);
  if (r->body)
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->body);
}

/* ---- answers ---- */

static enum qp_rc
rc_of_name(const char *name, long status)
{
#define NAMED(code, number, text) \
  if (strcmp(name, #code) == 0)   \
    return QP_##code;
  QP_RC_MAP(NAMED)
#undef NAMED
  if (status == 401 || status == 403)
    return QP_DENIED;
  if (status == 404)
    return QP_NOTFOUND;
  if (status == 503)
    return QP_BUSY;
  return status >= 500 ? QP_IO : QP_INVALID;
}

static enum qp_rc
refused(const struct chat_http *http, long status, const struct qp__buf *body, struct qp_err *err)
{
  json_t *answer = cli_chat_json(qp__buf_bytes(body).data, body->len);
  const json_t *error = json_object_get(answer, "error");
  const char *message = cli_metadata_text(error, "message");
  enum qp_rc rc = rc_of_name(cli_metadata_text(error, "code"), status);

  if (rc == QP_OK)
    rc = QP_IO;
  if (message[0])
    (void)qp__fail(err, rc, "%s", message);
  else
    (void)qp__fail(err, rc,
                   "%.150s returned status %ld without an error of quipu; is it a quipu server?",
                   http->name, status);
  json_decref(answer);
  return rc;
}

static enum qp_rc
unreachable(const struct chat_http *http, CURLcode code, struct qp_err *err)
{
  return qp__fail(err, QP_IO, "%.150s: %s", http->name,
                  http->reason[0] ? http->reason : curl_easy_strerror(code));
}

static size_t
take_body(char *data, size_t size, size_t count, void *arg)
{
  return qp__buf_add(arg, data, size * count) ? 0 : size * count;
}

/* Sends the request and waits for the response: *status, and the body, which is appended. */
static enum qp_rc
perform(struct chat_http *http, const struct request *r, const char *method, long *status,
        struct qp__buf *answer, struct qp_err *err)
{
  CURLcode code;

  set_common(http, http->asking, r, method);
  (void)curl_easy_setopt(http->asking, CURLOPT_TIMEOUT, ANSWER_TIMEOUT_S);
  (void)curl_easy_setopt(http->asking, CURLOPT_WRITEFUNCTION, take_body);
  (void)curl_easy_setopt(http->asking, CURLOPT_WRITEDATA, answer);
  code = curl_easy_perform(http->asking);
  (void)curl_easy_getinfo(http->asking, CURLINFO_RESPONSE_CODE, status);
  return code ? unreachable(http, code, err) : QP_OK;
}

enum qp_rc
cli_http_ask(struct chat_http *http, const char *method, const char *path, const json_t *body,
             json_t **out, struct qp_err *err)
{
  struct qp__buf answer;
  json_t *value = NULL;
  struct request r;
  long status = 0;
  enum qp_rc rc;

  qp__buf_init(&answer, BODY_MAX);
  rc = fill_request(http, &r, path, body) ? perform(http, &r, method, &status, &answer, err)
                                          : cli_fail_nomem(err);
  if (!rc && (status < 200 || status > 299))
    rc = refused(http, status, &answer, err);
  if (!rc && out) {
    value = cli_chat_json(qp__buf_bytes(&answer).data, answer.len);
    if (!json_is_object(value))
      rc = qp__fail(err, QP_IO, "%.150s is not a quipu server: it sent no JSON object", http->name);
    else
      *out = json_incref(value);
  }
  json_decref(value);
  qp__buf_release(&answer);
  request_release(&r);
  return rc;
}

enum qp_rc
cli_http_send(struct chat_http *http, const char *method, const char *path, json_t *body,
              json_t **out, struct qp_err *err)
{
  enum qp_rc rc = body ? cli_http_ask(http, method, path, body, out, err) : cli_fail_nomem(err);

  json_decref(body);
  return rc;
}

enum qp_rc
cli_http_pass(struct chat_http *http, const char *path, struct qp_bytes body, char **out,
              struct qp_err *err)
{
  struct qp__buf answer;
  struct request r;
  long status = 0;
  enum qp_rc rc;

  qp__buf_init(&answer, BODY_MAX);
  if (fill_request(http, &r, path, NULL) && (r.body = qp__strndup(body.data, body.len)) &&
      add_header(&r, "Content-Type", "application/json"))
    rc = perform(http, &r, "POST", &status, &answer, err);
  else
    rc = cli_fail_nomem(err);
  if (!rc && status > 299 && status != 400 && status != 404)
    rc = refused(http, status, &answer, err);
  if (!rc && !(*out = qp__buf_take(&answer, NULL)))
    rc = cli_fail_nomem(err);
  qp__buf_release(&answer);
  request_release(&r);
  return rc;
}

/* ---- streams ---- */

struct streaming {
  const struct chat_stream *stream;
  CURL *easy;
  struct qp__buf body; /* of an error response */
  struct qp__sse sse;
  bool over; /* no more events are wanted */
};

static enum qp_rc
take_event(void *arg, const struct qp__sse_event *event, struct qp_err *err)
{
  struct streaming *s = arg;
  json_t *data = cli_chat_json(event->data.data, event->data.len);
  char type[QP_EVENT_TYPE_MAX + 1];

  (void)err;
  (void)snprintf(type, sizeof(type), "%.*s", (int)event->name.len, event->name.data);
  if (data && type[0])
    s->over = s->stream->event(s->stream->arg, strtoull(s->sse.id, NULL, 10), type, data);
  json_decref(data);
  return s->over ? QP_STOPPED : QP_OK;
}

static size_t
take_stream(const char *data, size_t size, size_t count, void *arg)
{
  struct streaming *s = arg;
  struct qp_bytes bytes = { data, size * count };
  long status = 0;
  enum qp_rc rc;

  (void)curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
  if (status < 200 || status > 299)
    rc = qp__buf_add(&s->body, bytes.data, bytes.len);
  else if (!s->over)
    rc = qp__sse_feed(&s->sse, bytes, take_event, s, NULL);
  else
    rc = QP_OK;
  return rc && !s->over ? 0 : bytes.len;
}

/* Runs the transfer to its end; *code is that of libcurl. */
static enum qp_rc
run_stream(struct chat_http *http, struct streaming *s, CURLcode *code, struct qp_err *err)
{
  struct curl_waitfd wait = { .fd = cli_interrupt_fd(), .events = CURL_WAIT_POLLIN };
  int running = 1;

  while (running && !s->over) {
    CURLMcode bad = curl_multi_perform(http->multi, &running);

    if (!bad && running && !s->over) {
      cli_interrupt_listen(true);
      bad = curl_multi_poll(http->multi, &wait, 1, POLL_MS, NULL);
      cli_interrupt_listen(false);
    }
    if (bad)
      return qp__fail(err, QP_IO, "%.150s: %s", http->name, curl_multi_strerror(bad));
    if (http->inside)
      qp__http_tick(http->inside);
    if (cli_interrupt_take()) {
      enum qp_rc rc = s->stream->interrupt(s->stream->arg, err);

      if (rc)
        return rc;
    }
  }
  if (!s->over) {
    int left;
    const CURLMsg *message = curl_multi_info_read(http->multi, &left);

    *code = message ? message->data.result : CURLE_RECV_ERROR;
  }
  return QP_OK;
}

enum qp_rc
cli_http_stream(struct chat_http *http, const struct chat_stream *stream, struct qp_err *err)
{
  struct streaming s = { .stream = stream, .easy = http->streaming };
  struct request r;
  CURLcode code = CURLE_OK;
  long status = 0;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&s.body, BODY_MAX);
  qp__sse_init(&s.sse, LINE_MAX_BYTES);
  if (!fill_request(http, &r, stream->path, stream->body) ||
      !add_header(&r, "Accept", "text/event-stream") ||
      (stream->key && !add_header(&r, "Idempotency-Key", stream->key))) {
    rc = cli_fail_nomem(err);
    goto out;
  }
  set_common(http, s.easy, &r, stream->body ? "POST" : "GET");
  (void)curl_easy_setopt(s.easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  (void)curl_easy_setopt(s.easy, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
  (void)curl_easy_setopt(s.easy, CURLOPT_WRITEFUNCTION, take_stream);
  (void)curl_easy_setopt(s.easy, CURLOPT_WRITEDATA, &s);
  if (curl_multi_add_handle(http->multi, s.easy)) {
    rc = cli_fail_nomem(err);
    goto out;
  }
  rc = run_stream(http, &s, &code, err);
  (void)curl_easy_getinfo(s.easy, CURLINFO_RESPONSE_CODE, &status);
  (void)curl_multi_remove_handle(http->multi, s.easy);
  if (!rc && code)
    rc = unreachable(http, code, err);
  else if (!rc && !s.over && (status < 200 || status > 299))
    rc = refused(http, status, &s.body, err);
out:
  qp__buf_release(&s.body);
  qp__sse_release(&s.sse);
  request_release(&r);
  return rc;
}

/* chat_http.h - a client of quipu's own HTTP API: one request at a time, and one event stream in
 * parallel. The server is reached over TCP, over a Unix socket, or inside this process. */
#ifndef QP_CLI_CHAT_HTTP_H
#define QP_CLI_CHAT_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

struct chat_http;
struct qp__http;

/* `own`: the server is on this machine, so no proxy is used. */
enum qp_rc cli_http_open(const char *url, const char *key, bool own, struct chat_http **out,
                         struct qp_err *err);
/* Connects to a server in this process, which must live longer. */
enum qp_rc cli_http_open_inside(struct qp__http *server, struct chat_http **out,
                                struct qp_err *err);
bool cli_http_is_inside(const struct chat_http *http);
/* Whether a program listens on a Unix socket. */
bool cli_http_listens(const char *path);
void cli_http_close(struct chat_http *http); /* NULL is allowed */

/* Sends a request and waits for the response, which is JSON. `body` NULL: none. An error response
 * becomes an error with its code and message. QP_IO: the server cannot be reached. `out` may be
 * NULL. */
enum qp_rc cli_http_ask(struct chat_http *http, const char *method, const char *path,
                        const json_t *body, json_t **out, struct qp_err *err);
/* The same with a new body, which it releases; NULL: building it ran out of memory. */
enum qp_rc cli_http_send(struct chat_http *http, const char *method, const char *path, json_t *body,
                         json_t **out, struct qp_err *err);

/* Posts a body as it is. *out is the body of the response, whatever its status, unless that says
 * that the caller may not ask or that the server is not there; released with qp__free(). */
enum qp_rc cli_http_pass(struct chat_http *http, const char *path, struct qp_bytes body, char **out,
                         struct qp_err *err);

struct chat_stream {
  const char *path;
  const json_t *body; /* sent with POST; NULL: GET */
  const char *key;    /* Idempotency-Key, or NULL */
  /* Handles one event. True: no more events are wanted. */
  bool (*event)(void *arg, uint64_t seq, const char *type, const json_t *data);
  /* Ctrl-C was pressed. A result other than QP_OK ends the stream and is returned. */
  enum qp_rc (*interrupt)(void *arg, struct qp_err *err);
  void *arg;
};

/* Receives events until `event` returns true or the server ends the stream. QP_IO: the connection
 * was lost. */
enum qp_rc cli_http_stream(struct chat_http *http, const struct chat_stream *stream,
                           struct qp_err *err);

#endif

/* chat_http.h - a client of quipu's own HTTP interface: one question at a time, and one stream of
 * events beside it. The server is reached by TCP, by a Unix socket, or in this process. */
#ifndef QP_CLI_CHAT_HTTP_H
#define QP_CLI_CHAT_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

struct chat_http;
struct qp__http;

/* `own`: the server is on this machine and no proxy is asked. */
enum qp_rc cli_http_open(const char *url, const char *key, bool own, struct chat_http **out,
                         struct qp_err *err);
/* To a server of this process, which must live longer. */
enum qp_rc cli_http_open_inside(struct qp__http *server, struct chat_http **out,
                                struct qp_err *err);
bool cli_http_is_inside(const struct chat_http *http);
/* Whether somebody listens on a Unix socket. */
bool cli_http_listens(const char *path);
void cli_http_close(struct chat_http *http); /* NULL is allowed */

/* Asks and waits for the answer, which is JSON. `body` NULL: none is sent. What the server refuses
 * has its code and its sentence. QP_IO: it cannot be reached. `out` may be NULL. */
enum qp_rc cli_http_ask(struct chat_http *http, const char *method, const char *path,
                        const json_t *body, json_t **out, struct qp_err *err);

struct chat_stream {
  const char *path;
  const json_t *body; /* sent by POST; NULL: GET */
  const char *key;    /* Idempotency-Key, or NULL */
  /* One event. True: that was all. */
  bool (*event)(void *arg, uint64_t seq, const char *type, const json_t *data);
  /* Ctrl-C was pressed. Anything but QP_OK ends the stream with it. */
  enum qp_rc (*interrupt)(void *arg, struct qp_err *err);
  void *arg;
};

/* Takes events until `event` has enough of them or the server ends the stream. QP_IO: it broke
 * off. */
enum qp_rc cli_http_stream(struct chat_http *http, const struct chat_stream *stream,
                           struct qp_err *err);

#endif

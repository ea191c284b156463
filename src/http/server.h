/* server.h - the HTTP server of `quipu serve`: all that the command line knows of it. */
#ifndef QP_HTTP_SERVER_H
#define QP_HTTP_SERVER_H

#include <stdbool.h>

#include "quipu.h"

struct qp__http;

/* A zero field means its default. Everything is copied but the store. */
struct qp__http_options {
  struct qp_store *store;
  const char *listen;         /* "127.0.0.1:7878", "[::1]:0"; port 0 picks a free one */
  const char *const *origins; /* other origins whose pages may call: "https://chat.example"; ends
                               * with NULL */
  const char *const *hosts; /* other names by which the server is called: "chat.example"; ends with
                               * NULL */
  const char *data;         /* the data directory, for keys.json; NULL: there are no keys */
  unsigned threads;         /* default: processors, at most 8 */
  unsigned connections;     /* at once; default 16384 */
  unsigned timeout_s;       /* a connection that sends nothing is closed; default 30 */
  size_t max_body;          /* largest request body; default 32 MiB */
  qp_log_fn *log;           /* the access log has the feature "access"; default: none */
  void *log_arg;
  bool no_access_log;
};

/* Listens and answers, on threads of its own, until it is stopped. QP_INVALID: an address that is
 * none. QP_DENIED: one that other machines reach, and there is no key. QP_BUSY: it is in use.
 * QP_CORRUPT: keys.json is damaged. */
enum qp_rc qp__http_start(const struct qp__http_options *options, struct qp__http **out,
                          struct qp_err *err);
/* "http://127.0.0.1:7878", with the real port. Borrowed. */
const char *qp__http_url(const struct qp__http *http);
/* Takes no more connections, finishes the requests that have begun (for at most 10 seconds) and
 * frees. NULL is allowed. */
void qp__http_stop(struct qp__http *http);

#endif

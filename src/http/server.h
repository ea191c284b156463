/* server.h - the HTTP server of `quipu serve`: all that the command line knows of it. */
#ifndef QP_HTTP_SERVER_H
#define QP_HTTP_SERVER_H

#include <stdbool.h>

#include "quipu_turns.h"

#define QP__SOCKET_NAME "quipu.sock"

struct qp__http;

/* A zero field means its default. Everything is copied but the store and the engine. */
struct qp__http_options {
  struct qp_store *store;
  struct qp_engine *engine; /* runs the turns; once the server has started it is the server's,
                                 * which stops it. NULL: there are no turns */
  bool read_only;           /* every request that would change something is refused */
  const char *listen;       /* "127.0.0.1:7878", "[::1]:0"; port 0 picks a free one; "unix:PATH";
                                 * NULL: only this process can connect */
  const char *data;         /* the data directory, for keys.json and, unless the server only
                                 * reads or listens on a Unix socket anyway, for a socket
                                 * QP__SOCKET_NAME; NULL: there are no keys */
  unsigned threads;         /* default: processors, at most 8 */
  unsigned workers;         /* threads that may wait for the disk (work.h); default 64 */
  unsigned queue;           /* requests that may wait for one of them; default 4096 */
  unsigned connections;     /* at once; default 16384 */
  unsigned connections_address; /* from one address; default 256, on loopback no limit */
  size_t max_header;            /* largest request line and header; default 8 KiB */
  qp_log_fn *log; /* default: none. The access log has the feature "access" and is logfmt, or with
                   * log_json "access.json" and is the members of an object */
  void *log_arg;

  /* What qp__http_reload can change. */
  const char *const *origins; /* other origins whose pages may call: "https://chat.example"; ends
                               * with NULL */
  const char *const *hosts;   /* other names of this server; ends with NULL */
  struct qp_bytes tls_cert, tls_key; /* PEM; NULL: plain HTTP */
  size_t max_body;                   /* largest request body; default 32 MiB */
  unsigned timeout_s;                /* a connection on which nothing moves is closed; default 30 */
  unsigned header_timeout_s;         /* … that has not sent a whole header; default 60 */
  unsigned body_timeout_s;           /* … whose body takes longer; default 300 */
  unsigned stop_timeout_s;           /* how long a stop waits for requests; default 10 */
  unsigned key_requests;             /* of a key in a minute; 0: no limit, as below */
  unsigned key_connections;          /* requests of a key at once, streams included */
  unsigned owner_turns;              /* turns at once of an owner, or of a key without one */
  uint64_t owner_bytes;              /* that an owner may store */
  bool no_access_log;
  bool log_json;
};

/* Listens and answers, on threads of its own, until it is stopped. QP_INVALID: an address that is
 * none. QP_DENIED: one that other machines reach, and there is no key. QP_BUSY: it is in use.
 * QP_CORRUPT: keys.json is damaged. */
enum qp_rc qp__http_start(const struct qp__http_options *options, struct qp__http **out,
                          struct qp_err *err);
/* "http://127.0.0.1:7878", with the real port; "unix:/run/quipu.sock"; "unix:@0a1b2", an abstract
 * Unix socket, when only this process can connect. Borrowed. */
const char *qp__http_url(const struct qp__http *http);
/* Takes what can change from `options` for all that comes after; the rest of them is not looked at.
 * On failure all stays as it was. QP_INVALID: a change between HTTP and https. */
enum qp_rc qp__http_reload(struct qp__http *http, const struct qp__http_options *options,
                           struct qp_err *err);
/* To be called about once a second: cuts off the connections whose time is over. */
void qp__http_tick(struct qp__http *http);
/* Takes no more connections, finishes the requests that have begun (for at most stop_timeout_s) and
 * frees. NULL is allowed. */
void qp__http_stop(struct qp__http *http);

#endif

/* server.h - the HTTP server of `quipu serve`: the interface for the command line. */
#ifndef QP_HTTP_SERVER_H
#define QP_HTTP_SERVER_H

#include <stdbool.h>

#include "quipu/turns.h"

#define QP__SOCKET_NAME "quipu.sock"

struct qp__http;

/* A zero field means its default. Everything is copied except the store and the engine. */
struct qp__http_options {
  struct qp_store *store;
  struct qp_engine
      *engine;        /* runs the turns; a started server owns it and stops it. NULL: no turns */
  bool read_only;     /* every request that would change something is rejected */
  const char *listen; /* "127.0.0.1:7878", "[::1]:0"; port 0 chooses a free one; "unix:PATH"; NULL:
                         only this process can connect */
  const char
      *data; /* the data directory, for keys.json and for the socket QP__SOCKET_NAME (unless the
                server is read-only or listens on a Unix socket anyway); NULL: there are no keys */
  const char *ui_dir;           /* files of the page, instead of the embedded ones; or NULL */
  unsigned threads;             /* default: the number of processors, at most 8 */
  unsigned workers;             /* threads that may wait for the disk (work.h); default 64 */
  unsigned queue;               /* requests that may wait for a worker; default 4096 */
  unsigned connections;         /* simultaneous; default 16384 */
  unsigned connections_address; /* per client address; default 256, no limit on loopback */
  size_t max_header;            /* largest request line and header; default 8 KiB */
  qp_log_fn *log; /* default: none. The access log has the feature "access" and is logfmt, or with
                     log_json "access.json" and is the members of an object */
  void *log_arg;

  /* What qp__http_reload can change. */
  const char *const
      *origins; /* other origins whose pages may call: "https://chat.example"; ends with NULL */
  const char *const *hosts;          /* other names of this server; ends with NULL */
  struct qp_bytes tls_cert, tls_key; /* PEM; NULL: plain HTTP */
  size_t max_import;                 /* largest file to import; default 256 MiB */
  size_t max_body;                   /* largest request body; default 32 MiB */
  unsigned timeout_s;                /* an idle connection is closed; default 30 */
  unsigned header_timeout_s;         /* … whose header takes longer; default 60 */
  unsigned body_timeout_s;           /* … whose body takes longer; default 300 */
  unsigned stop_timeout_s;           /* how long a stop waits for requests; default 10 */
  unsigned key_requests;             /* requests per key and minute; 0: no limit, also below */
  unsigned key_connections;          /* simultaneous requests per key, including streams */
  unsigned owner_turns;              /* simultaneous turns per owner, or per key without an owner */
  uint64_t owner_bytes;              /* bytes that an owner may store */
  bool no_access_log;
  bool log_json;
  int64_t lease_ms; /* how long other servers wait for this one; of a store that they share */
};

/* Listens and answers, on its own threads, until it is stopped. QP_INVALID: an invalid address.
 * QP_DENIED: other machines can reach it, and there is no key. QP_BUSY: it is in use. QP_CORRUPT:
 * keys.json is damaged. */
enum qp_rc qp__http_start(const struct qp__http_options *options, struct qp__http **out,
                          struct qp_err *err);
/* "http://127.0.0.1:7878", with the real port; "unix:/run/quipu.sock"; "unix:@0a1b2", an abstract
 * Unix socket, if only this process can connect. Borrowed. */
const char *qp__http_url(const struct qp__http *http);
/* Applies the changeable settings in `options`; the other fields are ignored. After a failure
 * nothing has changed. QP_INVALID: a change between HTTP and https. */
enum qp_rc qp__http_reload(struct qp__http *http, const struct qp__http_options *options,
                           struct qp_err *err);
/* To be called about once per second: closes connections that are too slow. */
void qp__http_tick(struct qp__http *http);
/* Accepts no more connections, completes the running requests (for at most stop_timeout_s) and
 * frees. NULL is allowed. */
void qp__http_stop(struct qp__http *http);

#endif

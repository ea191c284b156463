/* client.h - the HTTP client for models, MCP servers and lists of models: libcurl on a libuv loop.
 *
 * A client belongs to one loop and is used on that loop's thread only. Any number of requests run
 * at the same time and share connections. The rules for every request are in client.c:
 *
 *   - http and https only; redirects are not followed, so secrets in headers reach no other host
 *   - a server on this machine is asked without a proxy; all others as the environment says
 *   - at most 256 KiB of response headers, and of the body what the request allows
 *   - certificates are verified; there is no switch to turn that off
 *
 * The process must ignore SIGPIPE. */
#ifndef QP_NET_CLIENT_H
#define QP_NET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/buf.h"

struct qp__net_client;
struct qp__net_request;

/* Release with qp__net_unref(). QP_NOMEM, QP_IO. */
enum qp_rc qp__net_open(uv_loop_t *loop, struct qp__net_client **out, struct qp_err *err);
struct qp__net_client *qp__net_ref(struct qp__net_client *client);
/* The last one cancels all requests. The loop must run until it has nothing left to do: it frees
 * the memory. NULL is allowed. */
void qp__net_unref(struct qp__net_client *client);

enum qp__net_outcome {
  QP__NET_DONE,    /* the whole response was received, or the data hook returned QP__NET_ENOUGH */
  QP__NET_STOPPED, /* the data hook returned QP__NET_STOP */
  QP__NET_SILENT,  /* nothing was received for first_byte_ms or idle_ms */
  QP__NET_TIMEOUT, /* connect_ms or total_ms have passed */
  QP__NET_TOOBIG,  /* the response is larger than its limit */
  QP__NET_UNSENT,  /* of a request that is sent once: there was no connection to send it on */
  QP__NET_FAILED,  /* not resolved, not connected, TLS, connection broken, out of memory */
};

enum qp__net_next {
  QP__NET_MORE,
  QP__NET_ENOUGH, /* The response is complete for the caller: `end` is called soon. The transfer
                   * may end by itself for one more second, so that its connection is kept. */
  QP__NET_STOP,   /* the rest is of no use: abort, then call `end` */
};

/* Hooks are called from the loop, never from within qp__net_start() or qp__net_cancel(). They may
 * start and cancel requests, this one included. All but `end` may be NULL. */
struct qp__net_hooks {
  /* The status of the response; interim responses (1xx) are not reported. */
  void (*status)(void *arg, int status);
  /* A response header without white space around its value; neither string ends with a NUL. */
  void (*header)(void *arg, struct qp_bytes name, struct qp_bytes value);
  enum qp__net_next (*data)(void *arg, struct qp_bytes data);
  /* Once, last; not after a cancel. `why` is NULL for QP__NET_DONE, else the reason without a
   * secret: neither headers nor the body of the request are in it. */
  void (*end)(void *arg, enum qp__net_outcome outcome, const char *why);
  /* Once, after `end` or a cancel: no hook is running and `arg` can be freed. May be called from
   * within qp__net_cancel(). */
  void (*release)(void *arg);
};

/* Everything is copied, except `body_buf`. Times are in ms; 0: no limit. */
struct qp__net_spec {
  const char *method; /* "GET", "POST", "DELETE", … */
  const char *url;
  const char *socket;         /* path of a Unix socket to connect to, or NULL */
  const char *const *headers; /* "Name: value" */
  size_t header_count;
  struct qp_bytes body;     /* sent when it is not empty, and with every POST */
  struct qp__buf *body_buf; /* instead of `body`: its memory is taken, and freed once it is sent */
  uint64_t body_max;        /* bytes of the response body; 0: no limit */
  uint64_t connect_ms;      /* 0: 15 s */
  uint64_t first_byte_ms;   /* from the start to the first byte of the response */
  uint64_t idle_ms;         /* between two pieces of the response */
  uint64_t total_ms;
  bool peer; /* it is another server of this store: no proxy is used */
  bool once; /* on a connection of its own: libcurl repeats requests on those that it reuses */
  struct qp__net_hooks hooks;
  void *arg;
};

/* QP_STOPPED: the client is closing. QP_NOMEM. On failure no hook is called. *out is valid until
 * `end` is called or the request is cancelled. */
enum qp_rc qp__net_start(struct qp__net_client *client, const struct qp__net_spec *spec,
                         struct qp__net_request **out, struct qp_err *err);
/* Calls `release`, now or soon, and no other hook. */
void qp__net_cancel(struct qp__net_request *request);

/* ---- headers, URLs, dates and secrets ---- */

/* Whether a header has this name; case is ignored. */
bool qp__net_is_header(struct qp_bytes name, const char *want);
/* Whether the value of Content-Type begins with `type`. */
bool qp__net_is_type(struct qp_bytes value, const char *type);
/* Whether libcurl can parse an http or https URL. *loopback: its host is this machine. QP_INVALID,
 * QP_NOMEM; no sentence. */
enum qp_rc qp__net_check_url(const char *url, bool *loopback);
/* An HTTP date in ms since 1970, or -1. */
int64_t qp__net_parse_date(const char *text);
/* Replaces each occurrence of `secret` in `text` by up to three stars, also its beginning at the
 * end of a text that was cut. NULL and "" are no secrets. */
void qp__net_scrub(char *text, const char *secret);
/* The same for the value of a header line "Name: value" and for its last word (behind "Bearer"),
 * when they have at least 6 characters. */
void qp__net_scrub_header(char *text, const char *line);

#endif

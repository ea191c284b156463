/* fetch.h - HTTP requests on a libuv loop, by libcurl's multi interface: any number at once, on the
 * loop's thread, each answered by hooks as its bytes come. Redirects are not followed, so that
 * headers with secrets in them go to no other host. */
#ifndef QP_TOOL_FETCH_H
#define QP_TOOL_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "quipu.h"

struct qp__fetcher;
struct qp__fetch;

/* Release with qp__fetcher_close(). QP_NOMEM, QP_IO. */
enum qp_rc qp__fetcher_open(uv_loop_t *loop, struct qp__fetcher **out, struct qp_err *err);
/* Cancels what is under way and calls `closed` later, when everything is gone. */
void qp__fetcher_close(struct qp__fetcher *fetcher, void (*closed)(void *arg), void *arg);

struct qp__fetch_spec {
  const char *method; /* "GET", "POST", "DELETE" */
  const char *url;
  const char *const *headers; /* "Name: value", `header_count` of them; copied */
  size_t header_count;
  struct qp_bytes body; /* copied; of POST */
  uint64_t timeout_ms;  /* of all of it; 0: none */

  /* Hooks are called on later turns of the loop. In them the fetch may be cancelled. */

  /* The answer's status is known. */
  void (*status)(void *arg, int status);
  /* A header of the answer; may be NULL. Neither name nor value is ended by a NUL. */
  void (*header)(void *arg, struct qp_bytes name, struct qp_bytes value);
  void (*data)(void *arg, const char *data, size_t n);
  /* It is over, and the fetch is gone. `why` is NULL when an answer came as a whole. */
  void (*end)(void *arg, const char *why);
  void *arg;
};

enum qp_rc qp__fetch_start(struct qp__fetcher *fetcher, const struct qp__fetch_spec *spec,
                           struct qp__fetch **out, struct qp_err *err);
/* No hook is called any more, `end` neither. */
void qp__fetch_cancel(struct qp__fetch *fetch);

#endif

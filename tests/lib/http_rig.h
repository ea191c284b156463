/* http_rig.h - the server without sockets: requests pass decoding, the route table and the
 * handlers, on a store in memory. Requests have no headers, because there is no connection. */
#ifndef HTTP_RIG_H
#define HTTP_RIG_H

#include <stdbool.h>

#include "http/http_int.h"
#include "http/request.h"

#define RIG_CONTEXT "0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01"
#define RIG_MESSAGE "0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f"

struct http_rig {
  struct qp_store *store;
  struct qp__http *http;
  enum qp__scope scope; /* of who asks */
};

/* A store with the context RIG_CONTEXT (two messages, of which the first is RIG_MESSAGE and the
 * second has a call that waits; the branch "other" with the system prompt "p"), and with the
 * session "s". False: it could not be made, and the rig is empty. */
bool http_rig_make(struct http_rig *rig);
void http_rig_release(struct http_rig *rig);

/* Sends a request. *out (NULL: no memory) is freed with qp__request_free(); its reply has the
 * response, unless the handler has sent it itself. */
enum qp_rc http_rig_ask(struct http_rig *rig, const char *method, const char *uri,
                        struct qp_bytes body, struct qp__request **out, struct qp_err *err);
/* The status of the response. */
unsigned http_rig_status(const struct qp__request *r, enum qp_rc rc);

#endif

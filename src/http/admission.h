/* admission.h - who may call: the checks before every route.
 *
 * Keys (keys.h): if there is a key file, or other machines can reach the address, a request needs
 * "Authorization: Bearer KEY" with the scope of its route. Only routes without a scope need no key.
 *
 * Unix sockets (peer.h): without a key file only processes of the server's own user and of root may
 * call. Processes that the server itself has started (its tools) may never call.
 *
 * A foreign page in a browser on this machine must not reach the server. Its requests have a
 * foreign Origin, or, if its name was made to resolve to this machine (DNS rebinding), a foreign
 * Host: both are checked. Requests without an Origin do not come from a page. */
#ifndef QP_HTTP_ADMISSION_H
#define QP_HTTP_ADMISSION_H

#include <stdbool.h>
#include <sys/socket.h>

#include "http/request.h"

/* Whether only this machine can reach the address. */
bool qp__guard_loopback(const struct sockaddr *address);

/* Fails with 403 for a Host or an Origin that is not allowed, and for a tool of this server. */
enum qp_rc qp__guard_check(struct qp__request *r, struct qp_err *err);
/* Checks the key for the found route, and sets r->caller. 401: no valid key, for any reason. 429:
 * the key is over a limit (quota.h). 403: its scope is not sufficient. */
enum qp_rc qp__guard_key(struct qp__request *r, struct qp_err *err);
/* Adds the headers that an allowed page of another origin needs to read the response. False: out of
 * memory. */
bool qp__guard_headers(struct qp__request *r, struct MHD_Response *response);
/* Whether the request comes from a page of another, allowed origin. */
bool qp__guard_is_cross(const struct qp__request *r);

#endif

/* admission.h - who may call: the checks that stand before every route.
 *
 * Keys (keys.h): where there is a key file, or other machines reach the address, a request needs
 * "Authorization: Bearer KEY" with the scope of its route. Only routes without a scope are open.
 *
 * Unix sockets (peer.h): without a key file only processes of the server's own user and of root may
 * call, and processes that the server itself has started, its tools, may never.
 *
 * A page of somebody else's, open in a browser on this machine, must not reach the server. Its
 * requests carry an Origin that is not ours (checked), or, when its name was made to lead here (DNS
 * rebinding), a Host that is not ours (checked). Requests without an Origin are not a page's. */
#ifndef QP_HTTP_ADMISSION_H
#define QP_HTTP_ADMISSION_H

#include <stdbool.h>
#include <sys/socket.h>

#include "http/request.h"

/* Whether only this machine reaches the address. */
bool qp__guard_loopback(const struct sockaddr *address);

/* Fails with 403 for a Host or an Origin that is not allowed, and for a tool of this server. */
enum qp_rc qp__guard_check(struct qp__request *r, struct qp_err *err);
/* Asks for the key that the found route takes, and sets r->caller. 401: there is none that is
 * valid, for whatever reason. 429: the key is over a limit (quota.h). 403: it has not the right. */
enum qp_rc qp__guard_key(struct qp__request *r, struct qp_err *err);
/* What an allowed page of another origin needs to read the answer; none for others. False: no
 * memory. */
bool qp__guard_headers(struct qp__request *r, struct MHD_Response *response);
/* Whether the request comes from a page of another, allowed, origin. */
bool qp__guard_is_cross(const struct qp__request *r);

#endif

/* access_log.h - the access log: one line a request, through the log callback.
 *
 *   method=GET path=/v1/contexts status=200 bytes=123 ms=0.412 from=127.0.0.1 key=3f9c2a10
 *
 * or with log_json the same as members of an object, without the braces, for the caller to put its
 * own members before them:
 *
 *   "method":"GET","path":"/v1/contexts","status":200,"bytes":123,"ms":0.412,"from":"127.0.0.1",…
 *
 * "key" is the id of the key that the request was let in with, or "-". Neither the query nor a
 * header nor a body is in it, so that no secret can be. */
#ifndef QP_HTTP_ACCESS_LOG_H
#define QP_HTTP_ACCESS_LOG_H

#include "http/request.h"

/* `us`: how long it took. A status 0 is a request that was cut off. */
void qp__access_log(const struct qp__request *r, int64_t us);
/* A line of another kind; its sentence ends with the request's method and path. */
void qp__access_warn(const struct qp__request *r, const char *sentence);

#endif

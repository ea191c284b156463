/* access_log.h - the access log: one line per request, through the log callback.
 *
 *   method=GET path=/v1/contexts status=200 bytes=123 ms=0.412 from=127.0.0.1 key=3f9c2a10
 *
 * With log_json the line contains the members of an object, without the braces, so that the caller
 * can add its own members before them:
 *
 *   "method":"GET","path":"/v1/contexts","status":200,"bytes":123,"ms":0.412,"from":"127.0.0.1",…
 *
 * "key" is the id of the key of the request, or "-". Query string, headers and body are never
 * logged, because they may contain secrets. */
#ifndef QP_HTTP_ACCESS_LOG_H
#define QP_HTTP_ACCESS_LOG_H

#include "http/request.h"

/* `us`: the duration. Status 0: the connection ended before the response. */
void qp__access_log(const struct qp__request *r, int64_t us);
/* Logs a warning; method and path of the request are appended to it. */
void qp__access_warn(const struct qp__request *r, const char *sentence);

#endif

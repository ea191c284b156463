/* upload.h - a request body that becomes a temporary file while it is received, because it may be
 * larger than what the server keeps in memory.
 *
 * The file is in a directory of its own below the data directory of the server, or below /tmp for a
 * store without one. No name in it comes from the client. Opening a store removes what a killed
 * server has left. */
#ifndef QP_HTTP_UPLOAD_H
#define QP_HTTP_UPLOAD_H

#include "http/request.h"

struct qp__upload;

/* Begins the file of a request whose route has QP__ROUTE_UPLOAD; sets r->upload. Fails with 429
 * while too many uploads are received or imported. */
enum qp_rc qp__upload_begin(struct qp__request *r, struct qp_err *err);
/* Appends a part of the body. After a failure the rest is dropped; qp__upload_end returns it. */
void qp__upload_feed(struct qp__upload *upload, const char *data, size_t size);
bool qp__upload_failed(const struct qp__upload *upload);
/* The body is complete. QP_TOOBIG: it is over the limit. */
enum qp_rc qp__upload_end(struct qp__upload *upload, struct qp_err *err);
/* The path of the file. */
const char *qp__upload_path(const struct qp__upload *upload);
size_t qp__upload_size(const struct qp__upload *upload);
/* The hash of the complete body. */
void qp__upload_hash(const struct qp__upload *upload, uint8_t out[32]);
/* Removes the file; NULL is allowed. */
void qp__upload_free(struct qp__upload *upload);

#endif

/* face_error.h - errors in the form of the protocol that a path belongs to. */
#ifndef QP_HTTP_FACE_ERROR_H
#define QP_HTTP_FACE_ERROR_H

#include "http/request.h"

/* Writes the body of an error and sets its type. False: the path belongs to no other protocol. */
bool qp__face_error(struct qp__request *r, unsigned status, const char *code, const char *message);
/* Adds the headers that clients of the protocol expect on every response. */
void qp__face_headers(struct qp__request *r);

#endif

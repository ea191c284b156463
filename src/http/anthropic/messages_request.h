/* messages_request.h - reads the body of POST /anthropic/v1/messages and …/count_tokens.
 * docs/openai.md has the table of its fields. */
#ifndef QP_HTTP_MESSAGES_REQUEST_H
#define QP_HTTP_MESSAGES_REQUEST_H

#include "http/face/wish.h"

/* Fills a wish that qp__wish_init() has made; it borrows from the body. `counts`: max_tokens is not
 * needed. QP_INVALID: r->fail_param names the field. */
enum qp_rc qp__messages_request_read(struct qp__request *r, const json_t *body, bool counts,
                                     struct qp__wish *w, struct qp_err *err);

#endif

/* chat_request.h - reads the body of POST /openai/v1/chat/completions. docs/openai.md has the table
 * of its fields. */
#ifndef QP_HTTP_CHAT_REQUEST_H
#define QP_HTTP_CHAT_REQUEST_H

#include "http/face/wish.h"

/* Fills a wish that qp__wish_init() has made; it borrows from the body. *wants_usage:
 * stream_options.include_usage. QP_INVALID: r->fail_param names the field. */
enum qp_rc qp__chat_request_read(struct qp__request *r, const json_t *body, struct qp__wish *w,
                                 bool *wants_usage, struct qp_err *err);

/* For the other faces of OpenAI. */

/* max_tokens, temperature, stop … from the fields of the body that are named in both. */
enum qp_rc qp__openai_number(struct qp__request *r, const json_t *body, const char *key,
                             const char *as, json_t *parameters, struct qp_err *err);
/* One tool {"name","description"?,"parameters"?,…}, `at` names it; appended to w->tools. */
enum qp_rc qp__openai_tool(struct qp__request *r, const json_t *function, const char *at,
                           struct qp__wish *w, struct qp_err *err);
/* Arguments of a call, a string with JSON, as a value: new. What is no JSON stays a string. NULL:
 * out of memory. */
json_t *qp__openai_arguments(const json_t *text);

#endif

/* responses_form.h - an answer in the form of OpenAI's Responses: one object, or events.
 *
 * Events are numbered from 0. They follow from the events of the context alone, so a stream that is
 * resumed has the same numbers. */
#ifndef QP_HTTP_RESPONSES_FORM_H
#define QP_HTTP_RESPONSES_FORM_H

#include <jansson.h>

#include "http/face/face.h"

/* What a response has besides its output: face.own. */
struct qp__response {
  json_t *echo;    /* fields of the request that the object repeats; owned */
  bool background; /* its creator does not wait */
  bool failed;     /* set by the reader of a stored one */
  uint64_t seq;    /* of the next event */
  uint64_t after;  /* events up to this number + 1 are not sent: starting_after + 1 */
  char error_code[40];
  char error[320];
};

extern const struct qp__face_form qp__responses_form;

/* `echo` is taken. NULL: out of memory; `echo` is released. */
struct qp__response *qp__response_new(json_t *echo);
void qp__response_free(void *response); /* NULL is allowed */

/* Appends the object with a status. */
void qp__response_emit(struct qp__face *f, const char *key, const char *status);

#endif

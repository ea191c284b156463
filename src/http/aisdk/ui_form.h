/* ui_form.h - an answer as the UI message stream of the AI SDK: always a stream. One UI message is
 * all answers of a turn; each model call is a step of it. */
#ifndef QP_HTTP_UI_FORM_H
#define QP_HTTP_UI_FORM_H

#include "http/face/face.h"

/* Of an answer: face.own. */
struct qp__ui_answer {
  unsigned step;    /* the model call that the open step belongs to */
  char **denied;    /* calls that the client has just denied; ends with NULL */
  char **submitted; /* calls whose results the client has just brought; ends with NULL */
};

extern const struct qp__face_form qp__ui_form;

/* NULL: out of memory. */
struct qp__ui_answer *qp__ui_answer_new(void);
void qp__ui_answer_free(void *answer); /* NULL is allowed */

#endif

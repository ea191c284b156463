/* messages_form.h - an answer in the form of Anthropic's Messages. */
#ifndef QP_HTTP_MESSAGES_FORM_H
#define QP_HTTP_MESSAGES_FORM_H

#include "http/face/face.h"

extern const struct qp__face_form qp__messages_form;

#endif

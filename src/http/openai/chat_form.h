/* chat_form.h - an answer in the form of Chat Completions. */
#ifndef QP_HTTP_CHAT_FORM_H
#define QP_HTTP_CHAT_FORM_H

#include "http/face/face.h"

extern const struct qp__face_form qp__chat_form;

#endif

/* chat_attach.h - files that are sent with a message of `quipu chat`. */
#ifndef QP_CLI_CHAT_ATTACH_H
#define QP_CLI_CHAT_ATTACH_H

#include <jansson.h>

#include "quipu.h"

/* Appends the file as a part to the array `parts`. *kind is "text" or the type of an image. */
enum qp_rc cli_chat_attach(const char *path, json_t *parts, const char **kind, struct qp_err *err);
/* A user message: the text, then the parts. */
enum qp_rc cli_chat_message(const char *text, json_t *parts, struct qp_message **out,
                            struct qp_err *err);

#endif

/* ui_message.h - UI messages of the AI SDK and the messages of a context.
 *
 * A message of the user is one UI message; its own id is "ui" in its metadata. All answers of a
 * turn are one UI message, whose id names the message that began the turn: "turn-" and its id. */
#ifndef QP_HTTP_UI_MESSAGE_H
#define QP_HTTP_UI_MESSAGE_H

#include "http/request.h"

#define QP__UI_ID 42

void qp__ui_turn_id(const struct qp_uuid *first, char out[QP__UI_ID]);
bool qp__ui_turn_parse(const char *id, struct qp_uuid *out);

/* A UI message of the user as a message in the stored form: new. `at` names it. */
enum qp_rc qp__ui_message_read(struct qp__request *r, const json_t *ui, const char *at,
                               json_t **out, struct qp_err *err);

/* Answers with the UI messages of the active branch of r->held. */
enum qp_rc qp__ui_messages_answer(struct qp__request *r, struct qp_err *err);

#endif

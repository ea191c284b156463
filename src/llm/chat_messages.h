/* chat_messages.h - shared by requests of Chat Completions and of Ollama: a message has one text,
 * and each result is a separate message. */
#ifndef QP_LLM_CHAT_MESSAGES_H
#define QP_LLM_CHAT_MESSAGES_H

#include "llm/history.h"

/* Writes the field `key` with the texts (QP__BLOCK_TEXT) or the thinking (QP__BLOCK_THINKING) of a
 * turn as one string. */
enum qp_rc qp__chat_text(struct qp__buf *out, const char *key, const struct qp__history *h,
                         const struct qp__llm_turn *turn, enum qp__block_kind kind,
                         struct qp_err *err);
/* Writes a message of the role "tool" for each result of a turn, with the id (`by_id`) or the name
 * of the tool. */
enum qp_rc qp__chat_results(const struct qp__encoder *e, const struct qp__llm_turn *turn,
                            bool by_id, struct qp_err *err);

bool qp__chat_has(const struct qp__history *h, const struct qp__llm_turn *turn,
                  enum qp__block_kind kind);

typedef enum qp_rc qp__chat_image_fn(void *arg, const struct qp_part *part, struct qp_err *err);
/* Calls `fn` for the images of a turn, those of its results first. */
enum qp_rc qp__chat_images(const struct qp__history *h, const struct qp__llm_turn *turn,
                           qp__chat_image_fn *fn, void *arg, struct qp_err *err);
bool qp__chat_has_images(const struct qp__history *h, const struct qp__llm_turn *turn);

/* Opens a message of `role`. */
void qp__chat_open(struct qp__buf *out, const char *role);
typedef enum qp_rc qp__chat_turn_fn(struct qp__encoder *e, const struct qp__llm_turn *turn,
                                    struct qp_err *err);
/* Writes "messages": the system prompt and every turn by the function of its role. */
enum qp_rc qp__chat_messages(struct qp__encoder *e, qp__chat_turn_fn *user,
                             qp__chat_turn_fn *assistant, struct qp_err *err);

/* Writes "tools" in the form {"type":"function","function":{…}}; nothing without tools. */
void qp__chat_tools(struct qp__buf *out, const struct qp__llm_request *request);

#endif

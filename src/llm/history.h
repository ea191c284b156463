/* history.h - stored messages as the turns that providers accept.
 *
 * Providers refuse a history in which a tool call has no result, in which results are separated
 * from their calls, or in which a text is empty. Stored histories have all of that, after crashes,
 * cancels, imports and edits. Here they become turns of user and assistant in strict alternation:
 *
 *  (1) The first turn and the last one are the user's. Only an answer that the provider itself
 *      paused stays last, so that it can continue.
 *  (2) All calls of an assistant's turn are answered in the next turn of the user, in the order of
 *      the calls and before anything else. A call without a result gets a result that says so.
 *  (3) A result without its call, or a second one, becomes text.
 *  (4) Ids of calls consist of [A-Za-z0-9_-] and are unique in the whole history.
 *  (5) Texts of white space only are left out, and so are messages without content.
 *  (6) Thinking is kept unchanged, with its signature, or left out; it is never last.
 *  (7) Images of results are separate from their text. For a model that does not accept images
 *      (QP__LLM_NO_IMAGES) a text with type and size replaces each of them.
 *  (8) System messages at the beginning join the system prompt. Later ones are notes in a user's
 *      turn, so that the bytes of the prompt do not change.
 *
 * If messages are appended to a history, its turns stay the same up to the last turn of the user.
 * That turn may get more blocks (or other blocks, if it only replaced a missing turn). */
#ifndef QP_LLM_HISTORY_H
#define QP_LLM_HISTORY_H

#include "base/arena.h"
#include "llm/model_request.h"

enum qp__block_kind {
  QP__BLOCK_TEXT,     /* text */
  QP__BLOCK_IMAGE,    /* part */
  QP__BLOCK_THINKING, /* text, part (for its signature) */
  QP__BLOCK_OTHER,    /* value */
  QP__BLOCK_CALL,     /* id, name, value: the arguments */
  QP__BLOCK_RESULT,   /* id, name, text, is_error, images */
};

struct qp__block {
  enum qp__block_kind kind;
  struct qp_bytes text;
  const struct qp_part *part;
  json_t *value;
  const char *id;
  const char *name;
  const struct qp_part *images; /* QP_PART_IMAGE each */
  size_t image_count;
  bool is_error;
};

struct qp__llm_turn {
  bool assistant;
  size_t first; /* block */
  size_t count; /* at least 1 */
};

struct qp__history {
  struct qp__arena arena;
  struct qp__buf system;
  struct qp__block *blocks;
  size_t block_count, block_cap;
  struct qp__llm_turn *turns;
  size_t turn_count, turn_cap;
};

enum qp__history_keep {
  QP__KEEP_SIGNED = 1u << 0,   /* thinking with a signature */
  QP__KEEP_UNSIGNED = 1u << 1, /* thinking without */
  QP__KEEP_OTHER = 1u << 2,    /* blocks of unknown kind, of answers of the provider `owner` */
};

/* Borrows from the request. Blocks of unknown kind are kept only if metadata.provider of their
 * answer is `owner`. QP_INVALID: there is no message. Release with qp__history_release(), also
 * after a failure. */
enum qp_rc qp__history_init(struct qp__history *h, const struct qp__llm_request *request,
                            unsigned keep, const char *owner, struct qp_err *err);
void qp__history_release(struct qp__history *h);

/* What a codec writes from, and where to. */
struct qp__encoder {
  const struct qp__llm_request *request;
  struct qp__history history;
  struct qp__buf *out;
};
typedef enum qp_rc qp__encoder_write(struct qp__encoder *e, struct qp_err *err);

/* Appends a body, an object whose members are written by `members`; keep and owner as above. */
enum qp_rc qp__encode_body(const struct qp__llm_request *request, unsigned keep, const char *owner,
                           qp__encoder_write *members, struct qp__buf *out, struct qp_err *err);

#endif

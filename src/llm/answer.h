/* answer.h - joins the events of an answer to a message that can be stored, at any time.
 *
 * The message is the assistant's, with parts and tool calls in the order of the blocks. A call
 * before a part of the same message has "after_parts" in its stored form: the number of parts
 * before it. Without "after_parts" a call follows all parts. Arguments that are not JSON are kept
 * as a string, so that the code that runs tools sees that they are not an object. Incomplete calls
 * are left out. Metadata:
 *
 *   {"provider":"anthropic","model":"claude-…","response_id":"msg_…",
 *    "tokens":{"prompt_tokens":…,"completion_tokens":…,"total_tokens":…,"cache_read_tokens":…,
 *              "cache_write_tokens":…,"reasoning_tokens":…},
 *    "cost_usd":0.0123,"stop_reason":"end_turn","interrupted":true}
 *
 * "prompt_tokens" is all input. The last three counts are left out when they are 0, and
 * "interrupted" when it is false. */
#ifndef QP_LLM_ANSWER_H
#define QP_LLM_ANSWER_H

#include "base/buf.h"
#include "llm/answer_event.h"

#define QP__ANSWER_MAX ((size_t)12 << 20) /* bytes of text, thinking and arguments of one answer */

/* How calls of a tool are shown. *ui_hints (JSON, borrowed) may stay NULL. */
typedef void qp__answer_display_fn(void *arg, const char *tool, enum qp_display *display,
                                   const char **ui_hints);

struct qp__answer_block;

struct qp__answer {
  const char *provider;           /* the protocol ("anthropic"), borrowed */
  qp__answer_display_fn *display; /* NULL: Default */
  void *display_arg;
  struct qp__answer_block *blocks;
  size_t block_count, block_cap;
  size_t bytes; /* in all blocks */
  char id[96];
  char model[128];
  bool has_usage;
  bool estimated; /* the usage is not the provider's own count */
  struct qp__llm_usage usage;
  enum qp__llm_stop stop;
  char stop_reason[64];
};

void qp__answer_init(struct qp__answer *a, const char *provider);
void qp__answer_release(struct qp__answer *a);

/* Adds an event; has the form of qp__llm_event_fn, `arg` is the answer. QP_TOOBIG, QP_NOMEM: the
 * answer is unchanged. */
enum qp_rc qp__answer_feed(void *arg, const struct qp__llm_event *event, struct qp_err *err);

/* Whether there is anything to keep: text, thinking or a complete call. */
bool qp__answer_has_content(const struct qp__answer *a);
size_t qp__answer_call_count(const struct qp__answer *a); /* complete ones */

/* The message so far. `cost` is in millionths of a millionth of a dollar (models.h); below 0: not
 * known. Free with qp_message_free(). */
enum qp_rc qp__answer_message(const struct qp__answer *a, bool interrupted, int64_t cost,
                              struct qp_message **out, struct qp_err *err);

#endif

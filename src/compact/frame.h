/* frame.h - asking a model for a narrative: what it is sent, and whether its answer is used.
 *
 * The messages are sent as a transcript to describe, inside a frame that they cannot leave, with a
 * system prompt of its own and without tools. Nothing in it is an instruction to the summariser.
 *
 *  (1) Its input never exceeds its window: messages are divided into chunks, each is summarised,
 *      and the parts are merged, several at a time, until one is left. A message that is larger
 *      than a chunk is shortened in its middle. Images and other attachments are stubs, thinking is
 *      left out.
 *  (2) A narrative is accepted when the model finished normally, called no tool, wrote no tool
 *      protocol and no reasoning, and the text is not empty, smaller than what it replaces and
 *      within its budget (qp__frame_check).
 *  (3) What nobody asked for is taken out (qp__frame_clean): a wish or a next step must be in the
 *      words of a message of the user, and lines that read like orders to a model are dropped. */
#ifndef QP_COMPACT_FRAME_H
#define QP_COMPACT_FRAME_H

#include "compact/ledger.h"
#include "llm/answer_event.h"

#define QP__FRAME_VERSION 1 /* of the prompts; stored in records */

/* The summariser's system prompt. */
const char *qp__frame_system(void);

struct qp__frame_chunk {
  size_t first; /* message of the source */
  size_t count;
};

/* Tokens of transcript that fit into one request: the window less the answer, the system prompt,
 * the old narrative and the frame. 0: the window is too small to summarise anything. */
int64_t qp__frame_room(int64_t window, int64_t answer, struct qp_bytes old_narrative,
                       struct qp_bytes instructions);

/* Divides the messages; the list is in the arena. Every chunk has at least one message. */
enum qp_rc qp__frame_divide(const struct qp__source *source, int64_t room, struct qp__arena *arena,
                            struct qp__frame_chunk **out, size_t *count, struct qp_err *err);

/* Appends the request for a chunk, whose transcript has at most `room` tokens. `old_narrative` and
 * `instructions` (of the user, for this compaction) may be empty; `budget` is the size that is
 * asked for. */
enum qp_rc qp__frame_write(const struct qp__source *source, const struct qp__frame_chunk *chunk,
                           int64_t room, struct qp_bytes old_narrative,
                           struct qp_bytes instructions, int64_t budget, struct qp__buf *out,
                           struct qp_err *err);

/* Appends the request to merge parts, as many from the first on as fit into `room` tokens; *merged
 * is their number, at least 2 unless there are fewer. Parts that do not fit together are cut. */
enum qp_rc qp__frame_merge(const struct qp_bytes *parts, size_t count, int64_t room, int64_t budget,
                           struct qp__buf *out, size_t *merged, struct qp_err *err);

enum qp__frame_verdict {
  QP__FRAME_ACCEPTED,
  QP__FRAME_UNFINISHED, /* cut off, refused, or stopped for another reason */
  QP__FRAME_EMPTY,
  QP__FRAME_TOOLS,  /* a tool call, or the text of one, or reasoning */
  QP__FRAME_LARGER, /* than what it replaces */
  QP__FRAME_OVER_BUDGET,
};
const char *qp__frame_verdict_text(enum qp__frame_verdict verdict); /* for events and logs */

/* `replaced`: tokens of what the summary stands for. */
enum qp__frame_verdict qp__frame_check(struct qp_bytes narrative, enum qp__llm_stop stop,
                                       size_t calls, int64_t replaced, int64_t budget);

/* Appends the narrative without what nobody asked for, as the ledger of the covered messages has
 * it. */
enum qp_rc qp__frame_clean(struct qp_bytes narrative, const struct qp__ledger *ledger,
                           struct qp__buf *out, struct qp_err *err);

#endif

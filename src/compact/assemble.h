/* assemble.h - the view: the messages that a model is sent instead of the whole history.
 *
 *   summary      one message, when something is covered: narrative and ledger of the record
 *   shown        covered messages that are sent nevertheless: pinned, carried, expanded
 *   tail         the messages behind the cut, old tool outputs as stubs
 *
 *  (1) The view is a function of its input, to the byte. Messages that are added at the end of the
 *      tail leave everything before them as it was, so that the provider's prompt cache stays
 *      useful; only a new record, or a new pin on a covered message, changes the beginning.
 *  (2) Messages of the tail that have no stub are passed on as they are: the same pointers.
 *  (3) Calls and results of the tail stay together. A covered call or result that is pinned becomes
 *      a text, because its counterpart is not sent.
 *  (4) The summary says that it is a record and no request. It cannot end its own frame: the
 *      closing mark is taken out of the texts. Its role on the wire is "user", because providers
 *      have no other; its metadata has "compact": "summary", so that no view shows it as a user's
 *      turn.
 *  (5) Texts that were recalled for a message of the user (metadata.recall.text) are sent in a
 *      message of their own before it, as long as that message is in the tail.
 *  (6) Messages are numbered from 1 at the start of the branch: "#12". The recall tools accept the
 *      number as an id. */
#ifndef QP_COMPACT_ASSEMBLE_H
#define QP_COMPACT_ASSEMBLE_H

#include "compact/record.h"
#include "model/message.h"

struct qp__sent_input {
  const struct qp__record *record; /* in use, or NULL */
  /* Covered messages that are pinned or in record->shown, in their order, with their numbers. */
  const struct qp_message *const *shown;
  const uint64_t *shown_at;
  size_t shown_count;
  /* All messages behind the record's range. */
  const struct qp_message *const *tail;
  size_t tail_count;
};

struct qp__sent {
  const struct qp_message **messages; /* borrowed from the input, or from `made` */
  size_t count, cap;
  struct qp_message **made; /* owned */
  size_t made_count, made_cap;
};

/* QP_NOMEM. Release the view also after a failure; the input must live as long as the view. */
enum qp_rc qp__sent_init(struct qp__sent *view, const struct qp__sent_input *input,
                         struct qp_err *err);
void qp__sent_release(struct qp__sent *view);

/* Appends the text of the summary as it is sent. */
enum qp_rc qp__sent_summary(const struct qp__record *record, struct qp__buf *out,
                            struct qp_err *err);

/* Appends the text that stands for a tool output: tool, arguments, size and number, and `keep`
 * tokens of its beginning and end. `call` may be NULL. */
enum qp_rc qp__sent_stub(const struct qp__message_call *call, struct qp_bytes output, uint64_t at,
                         int64_t keep, bool recall, struct qp__buf *out, struct qp_err *err);

/* Whether each result has its call before it, as providers require: for a last check before
 * sending. */
bool qp__sent_is_paired(const struct qp_message *const *messages, size_t count);

#endif

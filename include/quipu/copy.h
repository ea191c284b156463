/* quipu/copy.h - copies everything from one store to another. The rules of quipu.h hold here. */
#ifndef QUIPU_COPY_H
#define QUIPU_COPY_H

#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum qp_copy_flags {
  /* Replace what an earlier copy has written and what has changed in `from` since: contexts whose
   * messages are all in `from` as well, prompts that are older, sessions that are shorter. */
  QP_COPY_UPDATE = 1u << 0,
};

/* Reports the phase ("examining", "copying", "comparing") and how many of its `total` contexts are
 * done, with how many messages. Must not call the library. */
typedef void qp_copy_progress(void *arg, const char *phase, uint64_t done, uint64_t total,
                              uint64_t messages);
/* Reports what could not be copied: `item` ("context 01a1…", "prompts/terse.json") and why. */
typedef void qp_copy_problem(void *arg, const char *item, const struct qp_err *why);

struct qp_copy_options {
  size_t size;
  unsigned flags;             /* enum qp_copy_flags */
  qp_copy_progress *progress; /* may be NULL */
  qp_copy_problem *problem;   /* may be NULL */
  void *arg;                  /* of both callbacks */
};

struct qp_copy_report {
  uint64_t contexts;    /* in `from` */
  uint64_t copied;      /* contexts that were written */
  uint64_t updated;     /* of these: replaced an older copy */
  uint64_t migrated;    /* of these: were in an old format */
  uint64_t equal;       /* contexts that were there already */
  uint64_t messages;    /* that were written */
  uint64_t bytes;       /* of these messages */
  uint64_t unavailable; /* messages of copied contexts whose content is lost in `from` */
  uint64_t files;       /* prompts, sessions and blobs (their files) that were written */
  uint64_t files_equal; /* that were there already */
  uint64_t compared;    /* messages that were compared afterwards, byte for byte */
  uint64_t changed;     /* contexts and files that were changed in `from` meanwhile */
  uint64_t problems;    /* what could not be copied */
};

/* Copies contexts with their branches, messages, events, idempotency keys and compaction records,
 * and prompts, sessions and blobs from one store to another. Stored bytes do not change. Each
 * context appears as a whole. A copy that was interrupted is continued by a second call, which
 * skips what is equal. Afterwards all of it is read again from both stores and compared.
 *
 * `from` may be open for reading only, and may be written to by others meanwhile: what they change
 * may be missing in `to` and is counted in `changed`. A second call with QP_COPY_UPDATE brings it
 * over. No other process must use `to`. Archives and compression are not copied: the messages in
 * them are. `options` may be NULL.
 *
 * QP_CONFLICT: `to` holds something else under the same id; nothing was copied. QP_BUSY: a server
 * uses `to`. QP_CORRUPT: a copy is not equal to its source, or something in `from` could not be
 * read; the rest is copied. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_copy(struct qp_store *from, struct qp_store *to,
                                              const struct qp_copy_options *options,
                                              struct qp_copy_report *out, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

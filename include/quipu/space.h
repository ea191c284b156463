/* quipu/space.h - disk space: archives, compression and garbage collection of one context. The
 * rules of quipu.h hold here.
 *
 * All functions return QP_BUSY when a handle on the context is open, and QP_READONLY for a context
 * of an old format. Each can be interrupted at any point, also by kill -9, and called again. The
 * messages remain readable through all other functions, and new messages are saved as before. */
#ifndef QUIPU_SPACE_H
#define QUIPU_SPACE_H

#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qp_context;

enum qp_space_flags {
  QP_SPACE_DRY_RUN = 1u << 0, /* only count; write nothing */
};

struct qp_space_report {
  uint64_t messages;     /* that were moved */
  uint64_t bytes_before; /* of the files that held them */
  uint64_t bytes_after;  /* of the files that hold them now; 0 after a dry run */
};

/* Moves messages older than `before` into archive/{yyyy-mm}.jsonl.zst. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_archive(struct qp_store *store, const struct qp_uuid *id,
                                                   int64_t before, unsigned flags,
                                                   struct qp_space_report *out, struct qp_err *err);
/* Moves all messages, including archived messages, into messages.jsonl.zst. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_compress(struct qp_store *store,
                                                    const struct qp_uuid *id, unsigned flags,
                                                    struct qp_space_report *out,
                                                    struct qp_err *err);
/* Moves every message into a file of its own again. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_decompress(struct qp_store *store,
                                                      const struct qp_uuid *id, unsigned flags,
                                                      struct qp_space_report *out,
                                                      struct qp_err *err);

struct qp_gc_report {
  uint64_t trashed; /* messages that no branch reaches and that were moved to trash/ */
  uint64_t trashed_bytes;
  uint64_t purged; /* messages and leftover files that were deleted */
  uint64_t purged_bytes;
  uint64_t waiting; /* messages that are still in the trash */
};
/* Moves the messages that no branch reaches to trash/, and deletes those that have been there for
 * `grace` milliseconds. A fork at or a rewind to a message in the trash restores it and its
 * ancestors. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_gc(struct qp_store *store, const struct qp_uuid *id,
                                              int64_t grace, unsigned flags,
                                              struct qp_gc_report *out, struct qp_err *err);

/* A row of messages in the trash, such as a deleted branch: from `first`, whose parent is not in
 * the trash, to `last`, which has no child there. Rows may share their first messages. */
struct qp_trash_row {
  struct qp_uuid first, last;
  uint64_t messages;
  uint64_t bytes;
  int64_t created_at; /* of the last message */
  int64_t trashed_at; /* when it was moved to the trash */
};
typedef enum qp_rc qp_trash_visit(void *arg, const struct qp_trash_row *row);
/* Visits the rows in the trash, those of the newest messages first; when `visit` returns anything
 * but QP_OK it ends with that. Computed from the index. A fork at `last` restores a row. */
QP_API QP_MUST_CHECK enum qp_rc qp_trash_list(struct qp_context *context, qp_trash_visit *visit,
                                              void *arg, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

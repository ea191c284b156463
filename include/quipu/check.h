/* quipu/check.h - checking and repairing a store. The rules of quipu.h hold here. */
#ifndef QUIPU_CHECK_H
#define QUIPU_CHECK_H

#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum qp_check_flags {
  QP_CHECK_REPAIR = 1u << 0, /* repair what can be repaired; without it nothing is written */
  /* Only what belongs to no context: prompts, sessions, blobs, files that were left behind. So a
   * caller can check context by context, and stop between two of them. */
  QP_CHECK_NO_CONTEXTS = 1u << 1,
};

/* X(name, text): what a check can find. */
#define QP_PROBLEM_MAP(X)                                                          \
  X(METADATA_DAMAGED, "metadata.json is missing or damaged")                       \
  X(INDEX_DAMAGED, "the index is missing or damaged")                              \
  X(INDEX_TORN, "the index ends in an incomplete line")                            \
  X(MESSAGE_MISSING, "the file of a message in the index is missing")              \
  X(MESSAGE_CORRUPT, "a message file does not match its hash")                     \
  X(MESSAGE_UNINDEXED, "a message file is not in the index")                       \
  X(PARENT_MISSING, "the parent of a message is missing")                          \
  X(HEAD_MISSING, "the head of a branch is missing")                               \
  X(BRANCH_UNDEFINED, "a branch is in the index but not in metadata.json")         \
  X(ACTIVE_MISSING, "the active branch does not exist")                            \
  X(PROMPT_MISSING, "a reference to a system prompt that does not exist")          \
  X(PROMPT_DAMAGED, "the file of a system prompt is damaged")                      \
  X(PACK_DAMAGED, "an archive cannot be read completely")                          \
  X(BLOB_DAMAGED, "a blob does not match its hash")                                \
  X(SESSION_DAMAGED, "a session file or the index of sessions has invalid lines")  \
  X(EVENTS_DAMAGED, "an event log has invalid lines")                              \
  X(LEFTOVER, "a file that a finished or interrupted operation left behind")       \
  X(OLD_FORMAT, "a context in an old format that was not migrated")                \
  X(FOREIGN_FILE, "a file that does not belong to quipu")                          \
  X(WRONG_TYPE, "a file in the place of a directory, the reverse, or a link")      \
  X(UNREADABLE, "a file that cannot be read")                                      \
  X(MESSAGE_RECOVERED, "messages that no branch reached are on a new branch")      \
  X(MIXED_COPY, "files of different ages: an older copy was put over a newer one") \
  X(CHECKSUM_WRONG, "wrong checksum: a file was edited by hand or is damaged")     \
  X(COMPACTION_DAMAGED, "a compaction record cannot be read")

enum qp_problem_kind {
#define QP_PROBLEM_ENUM(name, text) QP_PROBLEM_##name,
  QP_PROBLEM_MAP(QP_PROBLEM_ENUM)
#undef QP_PROBLEM_ENUM
};
/* "METADATA_DAMAGED" and so on. */
QP_API const char *qp_problem_name(enum qp_problem_kind kind);

struct qp_problem {
  enum qp_problem_kind kind;
  struct qp_uuid context; /* none: the problem concerns the whole store */
  const char *path;       /* relative to the data directory */
  const char *detail;     /* one sentence */
  bool repaired;
  bool harmless; /* for information: nothing is lost or wrong */
};
/* Must not call the library. */
typedef void qp_problem_visit(void *arg, const struct qp_problem *problem);

struct qp_check_summary {
  uint64_t contexts;
  uint64_t messages;
  uint64_t bytes;    /* of the messages that were read and compared with their hashes */
  uint64_t problems; /* without harmless ones */
  uint64_t repaired;
};

/* Checks one context, or for NULL the whole store. Returns QP_OK also when it finds problems: *out
 * has their number. `visit` (may be NULL) is called for each. QP_BUSY: a context that is to be
 * repaired is open. QP_IO: the disk reports errors. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_check(struct qp_store *store,
                                               const struct qp_uuid *context, unsigned flags,
                                               qp_problem_visit *visit, void *arg,
                                               struct qp_check_summary *out, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif

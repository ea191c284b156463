/* legacy.h - contexts of older programs: reading them, and writing the old format back.
 *
 * Two shapes are known (docs/formats.md, "Old formats"): one file {id}.json that holds the whole
 * context ("monolith"), and a directory with context.json and one file a message below
 * messages_pool/ ("pool"). Both exist in an early and a late form, with states in two spellings.
 *
 * Opening a source reads it once, piece by piece, and hashes it on the way. What is kept in memory
 * is the metadata (4 MiB of text at most), and of a message about 100 bytes: 64 for the place where
 * it lies, 24 for its place in the tree, 6 to 12 to find it by its id; 4 bytes more for each time
 * that a branch names it (16 while opening), and 40 where its id is not spelled in lower case.
 * Never a message's text: each message is read again, alone, when it is asked for. One that is
 * longer than 64 MiB as the source spells it is refused (QP_TOOBIG). The limit of an encoded
 * message is the store's affair.
 *
 * How old becomes new, so that it can become old again without a loss:
 *   - A branch's message_ids rule: each message becomes the child of the one before it in its
 *     branch. A message that is named behind different ones, in two branches or twice in one,
 *     becomes two messages; the second has an id derived from the context, its parent and its old
 *     id. Messages of the pool that no branch names are kept, as orphans, below their parent_id.
 *   - What the new form cannot say stands in a field "legacy" of the message, the branch or the
 *     metadata: the form, the parent it had, ids that the pool lacks and where they stood, the
 *     state as it was spelled. Fields that nobody knows stay where they were.
 *   - "metadata" of a message stays as it is; created_at is taken from it (in milliseconds). A
 *     message without a time has that of the one before it, else of the next one that has one,
 *     else that of the source file.
 *   - A state in the middle of a turn becomes Idle, apart from AwaitingToolApproval with calls
 *     that are pending; failures stay what they are, with state_detail.
 *   - A prompt that a branch holds as a copy is told to the caller, who makes it a system prompt.
 *
 * Threads: after open, all functions on one source that take it as const may be called from any
 * thread, also qp__legacy_message and qp__legacy_compare for the same message. */
#ifndef QP_FORMATS_LEGACY_H
#define QP_FORMATS_LEGACY_H

#include "base/buf.h"
#include "model/message.h"
#include "model/meta.h"
#include "os/os.h"
#include "quipu.h"

struct qp__legacy;

/* Looks at the first kilobytes of a file, or of context.json in a directory. `path` is relative to
 * dirfd. QP_LEGACY_NONE: nothing of ours, which is no failure. A file that is empty or no JSON is
 * taken for a context only when its name is {uuid}.json: opening it says what is wrong. */
enum qp_rc qp__legacy_detect(const struct qp__os *os, int dirfd, const char *path,
                             enum qp_legacy *out, struct qp_err *err);

/* Opens a source; `what` begins the sentence of every failure. QP_INVALID, QP_TOOBIG, QP_CORRUPT
 * for one that is no sound context; each is one sentence with the place in the file. */
enum qp_rc qp__legacy_open(const struct qp__os *os, int dirfd, const char *path, const char *what,
                           struct qp__legacy **out, struct qp_err *err);
void qp__legacy_close(struct qp__legacy *l);

enum qp_legacy qp__legacy_format(const struct qp__legacy *l);
struct qp_uuid qp__legacy_id(const struct qp__legacy *l);
/* BLAKE2b-128 of the source's bytes; of a directory, over the names and bytes of its files in
 * order. */
void qp__legacy_hash(const struct qp__legacy *l, uint8_t out[16]);
/* Ready to be stored, "legacy" in it; borrowed. Its system_prompt_id (of the configuration and of
 * branches) are those of the source: the caller clears those that lead nowhere, in a clone, and may
 * give a branch's prompt another id. On a rollback they are what they were. */
const struct qp__meta *qp__legacy_meta(const struct qp__legacy *l);

/* Sentences about what was odd and how it was taken; borrowed. */
size_t qp__legacy_note_count(const struct qp__legacy *l);
const char *qp__legacy_note(const struct qp__legacy *l, size_t i);

/* Messages in the order in which they are stored: parents first, the messages of one branch's
 * directory in runs. */
struct qp__legacy_item {
  struct qp_uuid id; /* the new one */
  struct qp_uuid parent;
  int64_t time;
  const char *branch; /* whose directory it goes to */
};
size_t qp__legacy_count(const struct qp__legacy *l);
void qp__legacy_item(const struct qp__legacy *l, size_t i, struct qp__legacy_item *out);
/* The message, with id, parent and time, as it shall be stored. */
enum qp_rc qp__legacy_message(const struct qp__legacy *l, size_t i, struct qp_message **out,
                              struct qp_err *err);
/* Reads message i of the source once more, makes the old form of `stored` and compares the two.
 * Every difference is added to *differences as one line; none: nothing is added. */
enum qp_rc qp__legacy_compare(const struct qp__legacy *l, size_t i, const struct qp_message *stored,
                              struct qp__buf *differences, struct qp_err *err);

struct qp__legacy_head {
  const char *branch;
  struct qp_uuid id; /* none: empty */
};
/* One for each branch of the metadata, in that order. */
size_t qp__legacy_head_count(const struct qp__legacy *l);
void qp__legacy_head(const struct qp__legacy *l, size_t i, struct qp__legacy_head *out);

/* A prompt that a branch holds as a copy. */
struct qp__legacy_prompt {
  const char *branch;
  const char *id;
  const char *content;
};
size_t qp__legacy_prompt_count(const struct qp__legacy *l);
void qp__legacy_prompt(const struct qp__legacy *l, size_t i, struct qp__legacy_prompt *out);

/* Compares stored metadata with the source's: what would come back on a rollback. */
enum qp_rc qp__legacy_compare_meta(const struct qp__legacy *l, const struct qp__meta *stored,
                                   struct qp__buf *differences, struct qp_err *err);
/* Compares the stored messages of a branch, from the root to the head, with the source's list. */
enum qp_rc qp__legacy_compare_branch(const struct qp__legacy *l, const char *branch,
                                     const struct qp_uuid *ids, size_t count,
                                     struct qp__buf *differences, struct qp_err *err);

/* ---- the old format back ---- */

/* Writes a monolith in pieces: begin, a node for each message of the context (a parent before its
 * children, as the index has them), then each branch, then end. `out` grows by each call; the
 * caller writes it away and resets it. A context that was never old is written in the late form.
 * Memory: about 40 bytes a message. */
struct qp__legacy_writer;

/* *w is released by qp__legacy_writer_free. `meta` and `out` must outlive it. */
enum qp_rc qp__legacy_begin(const struct qp__meta *meta, struct qp__buf *out,
                            struct qp__legacy_writer **w, struct qp_err *err);
/* A message that was made a copy of another one, for a branch, is not written twice. */
enum qp_rc qp__legacy_node(struct qp__legacy_writer *w, const struct qp_message *m,
                           struct qp_err *err);
/* One of the branches of the metadata. The ids that follow are those of the stored messages from
 * the root to the head; the writer knows what the old format calls them. `prompt_id` and
 * `prompt_content` are those of the system prompt that the branch refers to, or NULL. */
enum qp_rc qp__legacy_branch_begin(struct qp__legacy_writer *w, const char *branch,
                                   const char *prompt_id, const char *prompt_content,
                                   struct qp_err *err);
enum qp_rc qp__legacy_branch_id(struct qp__legacy_writer *w, const struct qp_uuid *id,
                                struct qp_err *err);
enum qp_rc qp__legacy_branch_end(struct qp__legacy_writer *w, struct qp_err *err);
enum qp_rc qp__legacy_end(struct qp__legacy_writer *w, struct qp_err *err);
void qp__legacy_writer_free(struct qp__legacy_writer *w); /* NULL is allowed */

/* The id that a stored message has in the old format: its own, or the one it was derived from. */
struct qp_uuid qp__legacy_old_id(const struct qp_message *m);

/* The time that the old file had where messages or the context have their times from it, for want
 * of others; else 0. A file that is written on a rollback must get this time, or the times of a
 * second migration are others than those of the first. */
int64_t qp__legacy_file_time(const struct qp__meta *meta);

/* Walks a tree of the user's and visits every old context; see qp_legacy_find. What cannot be read
 * on the way is passed over, and the first such failure is the answer when all is visited. A
 * visitor's answer other than QP_OK ends the walk and is returned. */
enum qp_rc qp__legacy_walk(const struct qp__os *os, const char *path, qp_legacy_visit *visit,
                           void *arg, struct qp_err *err);

#endif

/* legacy.h - contexts of older programs: reading them, and writing the old format back.
 *
 * Two forms are known (docs/formats.md, "Old formats"): one file {id}.json with the whole context
 * ("monolith"), and a directory with context.json and one file per message below messages_pool/
 * ("pool"). Both exist in an early and a late form, with states in two spellings.
 *
 * Opening a source reads it once, block by block, and hashes it. In memory are the metadata (at
 * most 4 MiB of text), and about 100 bytes per message: 64 for its place in the source, 24 for its
 * place in the tree, 4 for each branch that names it, and while opening 6 to 12 to find it by its
 * id and 16 to 32 for each id in a list; 40 more for an id that is not in lower case. Measured: at
 * most 115 bytes per message, for 300,000 messages in 318 MB. The text of messages is not kept:
 * each message is read again when it is needed. A message of more than 64 MiB in the source is
 * rejected (QP_TOOBIG). The store has its own limit for encoded messages.
 *
 * How the old form is converted, so that it can be restored without loss:
 *   - The message_ids of a branch decide: each message becomes the child of the message before it.
 *     A message that follows different messages, in two branches or twice in one, becomes two
 *     messages; the second has an id derived from the context, its parent and its old id. Messages
 *     of the pool that no branch names are kept, as orphans, below their parent_id.
 *   - What the new form cannot express is kept in a field "legacy" of the message, the branch or
 *     the metadata: the form, the old parent, ids that the pool lacks and their positions, the
 *     spelling of the state. Unknown fields stay in place.
 *   - "metadata" of a message is unchanged; created_at is read from it (in milliseconds). A
 *     message without a time gets that of the message before it, otherwise of the next one that
 *     has one, otherwise that of the source file.
 *   - The state of an unfinished turn becomes Idle, except AwaitingToolApproval with pending
 *     calls; failures are kept, with state_detail.
 *   - The prompt copy of a branch is returned to the caller, who makes it a system prompt.
 *
 * Threads: after open, all functions that take the source as const may be called from any thread,
 * also qp__legacy_message and qp__legacy_compare for the same message. */
#ifndef QP_OLD_LEGACY_H
#define QP_OLD_LEGACY_H

#include "base/buf.h"
#include "model/message.h"
#include "model/meta.h"
#include "os/os.h"
#include "quipu.h"

struct qp__legacy_source;

/* Checks the first kilobytes of a file, or of context.json in a directory. `path` is relative to
 * dirfd. QP_LEGACY_NONE: not an old context, which is no failure. A file that is empty or not JSON
 * counts as a context only if its name is {uuid}.json: opening it reports what is wrong. */
enum qp_rc qp__legacy_detect(const struct qp__os *os, int dirfd, const char *path,
                             enum qp_legacy *out, struct qp_err *err);

/* Opens a source; `what` begins every error message. QP_INVALID, QP_TOOBIG, QP_CORRUPT: not a valid
 * context; the error names the place in the file. */
enum qp_rc qp__legacy_open(const struct qp__os *os, int dirfd, const char *path, const char *what,
                           struct qp__legacy_source **out, struct qp_err *err);
void qp__legacy_close(struct qp__legacy_source *l);

enum qp_legacy qp__legacy_format(const struct qp__legacy_source *l);
struct qp_uuid qp__legacy_id(const struct qp__legacy_source *l);
/* BLAKE2b-128 of the bytes of the source; for a directory, of the names and bytes of its files in
 * order. */
void qp__legacy_hash(const struct qp__legacy_source *l, uint8_t out[16]);
/* Ready to be stored, with "legacy"; borrowed. Its system_prompt_ids (of the configuration and of
 * branches) are those of the source: the caller clears references to missing prompts, in a clone,
 * and may give the prompt of a branch another id. A rollback restores them. */
const struct qp__meta *qp__legacy_meta(const struct qp__legacy_source *l);

/* Sentences about unusual content and how it was handled; borrowed. */
size_t qp__legacy_note_count(const struct qp__legacy_source *l);
const char *qp__legacy_note(const struct qp__legacy_source *l, size_t i);

/* Messages in the order of storing: parents first, the messages of one branch directory in runs. */
struct qp__legacy_item {
  struct qp_uuid id; /* the new id */
  struct qp_uuid parent;
  int64_t time;
  const char *branch; /* the branch of its directory */
};
size_t qp__legacy_count(const struct qp__legacy_source *l);
void qp__legacy_item(const struct qp__legacy_source *l, size_t i, struct qp__legacy_item *out);
/* The message, with id, parent and time, ready to be stored. */
enum qp_rc qp__legacy_message(const struct qp__legacy_source *l, size_t i, struct qp_message **out,
                              struct qp_err *err);
/* Reads message i of the source again, converts `stored` to the old form and compares the two.
 * Appends each difference to *differences as one line. */
enum qp_rc qp__legacy_compare(const struct qp__legacy_source *l, size_t i,
                              const struct qp_message *stored, struct qp__buf *differences,
                              struct qp_err *err);

struct qp__legacy_head {
  const char *branch;
  struct qp_uuid id; /* zeros: empty */
};
/* One for each branch of the metadata, in that order. */
size_t qp__legacy_head_count(const struct qp__legacy_source *l);
void qp__legacy_head(const struct qp__legacy_source *l, size_t i, struct qp__legacy_head *out);

/* A prompt that a branch contains as a copy. */
struct qp__legacy_prompt {
  const char *branch;
  const char *id;
  const char *content;
};
size_t qp__legacy_prompt_count(const struct qp__legacy_source *l);
void qp__legacy_prompt(const struct qp__legacy_source *l, size_t i, struct qp__legacy_prompt *out);

/* Compares stored metadata, converted back, with that of the source. */
enum qp_rc qp__legacy_compare_meta(const struct qp__legacy_source *l, const struct qp__meta *stored,
                                   struct qp__buf *differences, struct qp_err *err);
/* Compares the stored messages of a branch, from the root to the head, with the list of the
 * source. */
enum qp_rc qp__legacy_compare_branch(const struct qp__legacy_source *l, const char *branch,
                                     const struct qp_uuid *ids, size_t count,
                                     struct qp__buf *differences, struct qp_err *err);

/* ---- the old format back ---- */

/* Writes a monolith in pieces: begin, a node for each message of the context (parents before
 * children, as in the index), then each branch, then end. Each call appends to `out`; the caller
 * writes it to the file and resets it. A context that was never old is written in the late form.
 * Memory: about 40 bytes per message. */
struct qp__legacy_writer;

/* *w is released by qp__legacy_writer_free. `meta` and `out` must outlive it. */
enum qp_rc qp__legacy_begin(const struct qp__meta *meta, struct qp__buf *out,
                            struct qp__legacy_writer **w, struct qp_err *err);
/* A message that is a copy of another one, made for a branch, is not written twice. */
enum qp_rc qp__legacy_node(struct qp__legacy_writer *w, const struct qp_message *m,
                           struct qp_err *err);
/* One of the branches of the metadata. The following ids are those of the stored messages from the
 * root to the head; the writer knows their old ids. `prompt_id` and `prompt_content` are those of
 * the system prompt of the branch, or NULL. */
enum qp_rc qp__legacy_branch_begin(struct qp__legacy_writer *w, const char *branch,
                                   const char *prompt_id, const char *prompt_content,
                                   struct qp_err *err);
enum qp_rc qp__legacy_branch_id(struct qp__legacy_writer *w, const struct qp_uuid *id,
                                struct qp_err *err);
enum qp_rc qp__legacy_branch_end(struct qp__legacy_writer *w, struct qp_err *err);
enum qp_rc qp__legacy_end(struct qp__legacy_writer *w, struct qp_err *err);
void qp__legacy_writer_free(struct qp__legacy_writer *w); /* NULL is allowed */

/* The id of a stored message in the old format: its own, or the one it was derived from. */
struct qp_uuid qp__legacy_old_id(const struct qp_message *m);

/* The time of the old file if messages or the context got their times from it, otherwise 0. A file
 * that a rollback writes must get this time, otherwise a second migration would give other times
 * than the first. */
int64_t qp__legacy_file_time(const struct qp__meta *meta);

/* Walks a tree of the user's and visits every old context; see qp_legacy_find. What cannot be read
 * on the way is passed over, and the first such failure is the answer when all is visited. A
 * visitor's answer other than QP_OK ends the walk and is returned. */
enum qp_rc qp__legacy_walk(const struct qp__os *os, const char *path, qp_legacy_visit *visit,
                           void *arg, struct qp_err *err);

#endif

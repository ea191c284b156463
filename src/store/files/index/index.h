/* index.h - the files index.json and index.log of a context.
 *
 * index.json, the index as of its last fold, is valid JSON as a whole and has one entry per line:
 *   {"format":"quipu-index","version":1,"context_id":"<uuid>","generation":<g>,"count":<n>,
 *    "entries":[                                (one line with the line above)
 *   <entry>,
 *   <entry>
 *   ],"heads":{"main":"<uuid>","empty branch":null}}
 * index.log has the changes since then, one object per line; its first line names the fold:
 *   {"log":"quipu-index","version":1,"generation":<g>}
 *   <entry>                                    a new message; it becomes the head of its branch
 *   {"head":"main","id":"<uuid>"}              a head moves, or a branch is created; null: empty
 *   {"rename":"main","to":"other"}             a branch is renamed
 *   {"drop":"other"}                           a branch is deleted
 *   {"set":"<uuid>","status":"unavailable"}    a message is lost; its place stays known
 *   {"set":"<uuid>","status":"archived"}       it can be read again from its pack
 *   {"set":"<uuid>","status":"live"}           it is in its file (again)
 *   {"set":"<uuid>","status":"trashed","at":"2026-11-15T19:55:40.123Z"}
 * quipu writes an <entry> with exactly these keys in this order, on one line:
 *   {"id":"<uuid>","parent":"<uuid>"|null,"dir":"branch-main","time":"2026-11-15T19:55:40.123Z",
 *    "role":"user","type":"text","size":1043,"tokens":0,"hash":"<32 hex digits>","status":"live"}
 * If the message has no file of its own, its place follows the status:
 *   …,"status":"archived","pack":"archive/2025-05.jsonl.zst","frame":4096,"pos":1234}
 *   …,"status":"trashed","at":"2026-11-15T19:55:40.123Z"}
 * also if the status is "unavailable". Every other status follows from these fields; without them
 * it is live. The file of a message is messages/<dir>/<id>.json; <dir> is "branch-" and the
 * percent-encoded name of the branch to which it was first appended. A parent is before its
 * children.
 *
 * Every line of the log and every entry ends with its checksum (base/sum.h), a member "sum"; the
 * sum of index.json, after the heads, covers the object without its entries. Files of older
 * programs have none.
 *
 * The generation of the log should be that of index.json. If it is smaller, a fold was interrupted,
 * or an older log was copied here. Then its lines are already in index.json, so they are skipped up
 * to the first entry that index.json does not have. */
#ifndef QP_STORE_FILES_INDEX_INDEX_H
#define QP_STORE_FILES_INDEX_INDEX_H

#include "base/buf.h"
#include "os/os.h"
#include "store/context/loaded_context.h"

#define QP__PACK_ALL "messages.jsonl.zst" /* the pack of a compressed context … */
#define QP__PACK_DICT "messages.dict"     /* … and its dictionary, if it has one */

/* What reading found besides the entries. */
struct qp__index_report {
  uint64_t generation; /* of index.json */
  uint64_t json_bytes;
  uint64_t log_bytes; /* up to the end of the last valid line */
  uint64_t log_generation;
  bool json_missing;
  bool json_damaged; /* not readable as an index */
  bool log_missing;
  bool log_headless;    /* does not begin with its header */
  bool log_torn;        /* ends with an incomplete line */
  bool heads_damaged;   /* the heads in index.json are not used */
  uint64_t bad_lines;   /* invalid lines of the log */
  uint64_t bad_heads;   /* heads that name a missing message */
  uint64_t bad_parents; /* entries with a missing parent: they became roots */
};

/* Whether a name can be a directory of messages: "branch-", then only characters that need no
 * escape in a line and cannot lead elsewhere as a path. */
bool qp__branch_dir_ok(const char *s, size_t n);

/* Whether a path is that of a pack: "messages.jsonl.zst" or "archive/2025-05.jsonl.zst". */
bool qp__pack_name_ok(const char *s, size_t n);

/* Reads both files of the context directory `dir` (relative to root) into the image's tree and
 * heads. Damage is not a failure: the report contains it, and the image has what could be read. */
enum qp_rc qp__index_read(const struct qp__os *os, int root, const char *dir,
                          struct qp__image *image, struct qp__index_report *report,
                          struct qp_err *err);

/* For repairs. collect passes on all readable entries of both files (entry->dir is a number in the
 * image's tree, which is otherwise unchanged), possibly the same entry several times; a line with a
 * wrong checksum is `weak`: any of its fields may be wrong. apply then reads the lines again over a
 * tree that has all their entries: heads, renames, statuses. */
typedef enum qp_rc qp__entry_fn(void *arg, const struct qp__entry *entry,
                                const struct qp_uuid *parent, bool weak, struct qp_err *err);
enum qp_rc qp__index_collect(const struct qp__os *os, int root, const char *dir,
                             struct qp__image *image, qp__entry_fn *fn, void *arg,
                             struct qp_err *err);
enum qp_rc qp__index_apply(const struct qp__os *os, int root, const char *dir,
                           struct qp__image *image, uint8_t *marks, struct qp__index_report *report,
                           struct qp_err *err);

/* Marks of messages: one byte per slot in `marks`, initially zero; NULL: not
 * needed. UNREACHED: no branch reached the message when index.json was written. LEFT: a branch that
 * led to it was dropped or moved since. */
enum { QP__MARK_UNREACHED = 1, QP__MARK_LEFT = 2 };

/* Lines as above, each with its newline. */
enum qp_rc qp__index_log_header(struct qp__buf *out, uint64_t generation);
/* `tree` has the frames of the entry's place; may be NULL for an entry that is not in a pack. */
enum qp_rc qp__index_entry_line(struct qp__buf *out, const struct qp__tree *tree,
                                const struct qp__entry *e, const struct qp_uuid *parent,
                                const char *dir);
enum qp_rc qp__index_head_line(struct qp__buf *out, const char *branch, const struct qp_uuid *id);
enum qp_rc qp__index_rename_line(struct qp__buf *out, const char *branch, const char *to);
enum qp_rc qp__index_drop_line(struct qp__buf *out, const char *branch);
/* `at` is used only for QP_STATUS_TRASHED. */
enum qp_rc qp__index_status_line(struct qp__buf *out, const struct qp_uuid *id,
                                 enum qp_message_status status, int64_t at);

/* Pieces of index.json: head, then one entry line for each of the tree's first `count` entries,
 * then tail, which gets the same arguments as head. */
enum qp_rc qp__index_json_head(struct qp__buf *out, const struct qp_uuid *context,
                               uint64_t generation, uint32_t count);
enum qp_rc qp__index_json_entry(struct qp__buf *out, const struct qp__tree *tree, uint32_t slot,
                                bool last);
enum qp_rc qp__index_json_tail(struct qp__buf *out, const struct qp_uuid *context,
                               uint64_t generation, uint32_t count, const struct qp__tree *tree,
                               const struct qp__head *heads, size_t n);

#endif

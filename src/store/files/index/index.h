/* index.h - the files index.json and index.log of a context.
 *
 * index.json, the index as of its last fold, is valid JSON as a whole and has one entry a line:
 *   {"format":"quipu-index","version":1,"context_id":"<uuid>","generation":<g>,"count":<n>,
 *    "entries":[                                (one line with the one above)
 *   <entry>,
 *   <entry>
 *   ],"heads":{"main":"<uuid>","empty branch":null}}
 * index.log, what came since, is one object a line; its first line names the fold that it follows:
 *   {"log":"quipu-index","version":1,"generation":<g>}
 *   <entry>                                    a new message; the head of its branch moves to it
 *   {"head":"main","id":"<uuid>"}              a head moves, or a branch begins; null: it is empty
 *   {"rename":"main","to":"other"}             a branch has a new name
 *   {"drop":"other"}                           a branch is gone
 *   {"set":"<uuid>","status":"unavailable"}    a message is lost; where it was stays known
 *   {"set":"<uuid>","status":"archived"}       it is there again, in its pack
 *   {"set":"<uuid>","status":"live"}           it is in its file (again)
 *   {"set":"<uuid>","status":"trashed","at":"2026-11-15T19:55:40.123Z"}
 * <entry>, with exactly these keys in this order when quipu writes it:
 *   {"id":"<uuid>","parent":"<uuid>"|null,"dir":"branch-main","time":"2026-11-15T19:55:40.123Z",
 *    "role":"user","type":"text","size":1043,"tokens":0,"hash":"<32 hex digits>","status":"live"}
 * all on one line. Behind the status stands where the message is when it has no file of its own:
 *   …,"status":"archived","pack":"archive/2025-05.jsonl.zst","frame":4096,"pos":1234}
 *   …,"status":"trashed","at":"2026-11-15T19:55:40.123Z"}
 * also when the status is "unavailable". A status other than that follows from these fields, and is
 * live without them. The message's file is messages/<dir>/<id>.json; <dir> is "branch-" and the
 * percent- encoded name of the branch that first received it. A parent stands before its children.
 *
 * Every line of the log and every entry ends in its checksum (base/sum.h), a member "sum"; that of
 * index.json behind the heads is the sum of the object without its entries. What an older program
 * wrote has none.
 *
 * The log's generation is that of index.json. Smaller: a fold was cut short, or an older log was
 * copied here. Its lines are in index.json already, so they are passed over up to the first entry
 * that index.json does not have. */
#ifndef QP_STORE_FILES_INDEX_INDEX_H
#define QP_STORE_FILES_INDEX_INDEX_H

#include "base/buf.h"
#include "os/os.h"
#include "store/context/loaded_context.h"

#define QP__PACK_ALL "messages.jsonl.zst" /* the pack of a context that is compressed … */
#define QP__PACK_DICT "messages.dict"     /* … and the dictionary that it needs, if any */

/* What reading found beside the entries. */
struct qp__index_report {
  uint64_t generation; /* of index.json */
  uint64_t json_bytes;
  uint64_t log_bytes; /* up to the end of the last good line */
  uint64_t log_generation;
  bool json_missing;
  bool json_damaged; /* not readable as an index */
  bool log_missing;
  bool log_headless;    /* does not begin with its header */
  bool log_torn;        /* ends in half a line */
  bool heads_damaged;   /* the heads in index.json do not count */
  uint64_t bad_lines;   /* lines of the log that say nothing sensible */
  uint64_t bad_heads;   /* heads that are told to be a message that is not there */
  uint64_t bad_parents; /* entries whose parent is not there: they became roots */
};

/* Whether a name can be that of a directory of messages: "branch-" and nothing that would need an
 * escape in a line or lead elsewhere as a path. */
bool qp__branch_dir_ok(const char *s, size_t n);

/* Whether a path is that of a pack: "messages.jsonl.zst" or "archive/2025-05.jsonl.zst". */
bool qp__pack_name_ok(const char *s, size_t n);

/* Reads both files of the context directory `dir` (relative to root) into the image's tree and
 * heads. Damage is no failure: it is in the report, and what could be read is in the image. */
enum qp_rc qp__index_read(const struct qp__os *os, int root, const char *dir,
                          struct qp__image *image, struct qp__index_report *report,
                          struct qp_err *err);

/* For who mends an index. collect hands out the entries of both files as far as they can be read
 * (entry->dir is a number in the image's tree, which else stays as it is), perhaps one of them
 * several times; a line whose checksum is wrong is `weak`: any of its fields may be. apply then
 * reads the lines over a tree that has all their entries: heads, new names, statuses. */
typedef enum qp_rc qp__entry_fn(void *arg, const struct qp__entry *entry,
                                const struct qp_uuid *parent, bool weak, struct qp_err *err);
enum qp_rc qp__index_collect(const struct qp__os *os, int root, const char *dir,
                             struct qp__image *image, qp__entry_fn *fn, void *arg,
                             struct qp_err *err);
enum qp_rc qp__index_apply(const struct qp__os *os, int root, const char *dir,
                           struct qp__image *image, uint8_t *marks, struct qp__index_report *report,
                           struct qp_err *err);

/* What the lines say of a message, one byte for each slot in `marks`, which begins with zeros;
 * NULL: nobody asks. No branch reached the message when index.json was written; or a branch that
 * led to it was dropped or moved elsewhere since. */
enum { QP__MARK_UNREACHED = 1, QP__MARK_LEFT = 2 };

/* Lines as above, each with its newline. */
enum qp_rc qp__index_log_header(struct qp__buf *out, uint64_t generation);
/* `tree` knows the frames of the entry's place; NULL will do for one that is in no pack. */
enum qp_rc qp__index_entry_line(struct qp__buf *out, const struct qp__tree *tree,
                                const struct qp__entry *e, const struct qp_uuid *parent,
                                const char *dir);
enum qp_rc qp__index_head_line(struct qp__buf *out, const char *branch, const struct qp_uuid *id);
enum qp_rc qp__index_rename_line(struct qp__buf *out, const char *branch, const char *to);
enum qp_rc qp__index_drop_line(struct qp__buf *out, const char *branch);
/* `at` counts for QP_STATUS_TRASHED only. */
enum qp_rc qp__index_status_line(struct qp__buf *out, const struct qp_uuid *id,
                                 enum qp_message_status status, int64_t at);

/* Pieces of index.json: head, then an entry line for each of the tree's first `count` entries, then
 * tail, which is told the same as head. */
enum qp_rc qp__index_json_head(struct qp__buf *out, const struct qp_uuid *context,
                               uint64_t generation, uint32_t count);
enum qp_rc qp__index_json_entry(struct qp__buf *out, const struct qp__tree *tree, uint32_t slot,
                                bool last);
enum qp_rc qp__index_json_tail(struct qp__buf *out, const struct qp_uuid *context,
                               uint64_t generation, uint32_t count, const struct qp__tree *tree,
                               const struct qp__head *heads, size_t n);

#endif

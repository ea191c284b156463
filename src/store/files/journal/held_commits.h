/* held_commits.h - commits that are durable but cannot be applied in one place.
 *
 * When the directory of a context cannot be written (its owner has changed, something else is in
 * its place, a bad block), its commits must neither be lost nor stop all others. Their operations
 * in that context are kept in a file journal/{id of the context}.held; their other operations are
 * applied. The file is made durable by the same sync that lets the journal forget the commits, so
 * they need no room in the journal. The context is neither read nor written until its file was
 * applied, which is tried at every load and at every start.
 *
 * The same holds for the other items with separate files. Here each has an id as well:
 *   {uuid}         a context         prompt-{id}  a system prompt
 *   session-{id}   a session         sessions     the index of all sessions
 *   blob-{hash}    a blob
 * For these it is tried again whenever one of their files is read or changed.
 *
 * The file is a sequence of frames as in a segment (segment.h), under the key "quipu held  v01",
 * without a header; the first frame that does not match ends it. `seq` is the hash of the commit's
 * own frame in the journal, so that a replay after a crash recognises commits that it has twice.
 * The body has the operations of the commit that concern this item, and those in tmp/. */
#ifndef QP_STORE_FILES_JOURNAL_HELD_COMMITS_H
#define QP_STORE_FILES_JOURNAL_HELD_COMMITS_H

#include <stdbool.h>

#include "base/buf.h"
#include "os/os.h"
#include "store/files/journal/file_op.h"
#include "store/files/journal/segment.h"

#define QP__ASIDE_ID_LEN 160
#define QP__ASIDE_TEXT 176

struct qp__aside {
  char id[QP__ASIDE_ID_LEN];
  struct qp_err cause;
};

struct qp__aside_list {
  struct qp__aside *v;
  size_t count;
  size_t cap;
};

/* The entry, or NULL. */
const struct qp__aside *qp__aside_find(const struct qp__aside_list *l, const char *id);
/* Adds it, unless the list has it. False: out of memory. */
bool qp__aside_note(struct qp__aside_list *l, const char *id, const struct qp_err *cause);
void qp__aside_forget(struct qp__aside_list *l, const char *id);
void qp__aside_release(struct qp__aside_list *l);
/* Whether a name in journal/ is the name of such a file. */
bool qp__aside_parse_name(const char *name, char id[QP__ASIDE_ID_LEN]);
/* Adds all that have a file in `dir`, which is root/journal. */
enum qp_rc qp__aside_scan(const struct qp__os *os, int dir, struct qp__aside_list *l,
                          struct qp_err *err);
/* The same in the data directory `root`, which need not have a journal. */
enum qp_rc qp__aside_scan_root(const struct qp__os *os, int root, struct qp__aside_list *l,
                               struct qp_err *err);

/* Whether it is the id of a context. */
bool qp__aside_is_context(const char *id);
/* Its description in a message: "context …", "session '…'". */
const char *qp__aside_text(const char *id, char out[QP__ASIDE_TEXT]);
/* Where its files are, relative to the data directory: a directory with all of them. */
void qp__aside_place(const char *id, char out[QP__PATH_MAX]);

/* The item that a path belongs to. False: it belongs to no item. */
bool qp__aside_id_of(const char *path, char id[QP__ASIDE_ID_LEN]);
/* The item that an operation changes; of a rename from one to another, the first. */
bool qp__aside_id_of_op(const struct qp__op *op, char id[QP__ASIDE_ID_LEN]);
/* Whether the operations of a frame change this one. */
bool qp__aside_touched(struct qp_bytes body, const char *id);
/* Whether a failure concerns only a file or directory, and not the store or the machine. A disk
 * error (EIO) can be either; it counts as a failure of the file only with `hard`. */
bool qp__aside_is_local(int sys, bool hard);
/* Whether the operations of a frame change any context. */
bool qp__aside_in_context(struct qp_bytes body);
/* The error for callers that use a held item. */
enum qp_rc qp__aside_fail(const struct qp__aside *h, struct qp_err *err);

/* Appends the operations of a frame that concern this item to dir/{id}{suffix}. `key` is the
 * frame's hash. */
enum qp_rc qp__aside_append(const struct qp__os *os, int dir, const char *id, const char *suffix,
                            uint64_t key, struct qp_bytes body, struct qp_err *err);
/* Opens dir/{id}.held as a segment whose frames begin at 0. QP_NOTFOUND. */
enum qp_rc qp__aside_open(const struct qp__os *os, int dir, const char *id, struct qp__segment *out,
                          struct qp_err *err);
/* Removes it, durably. */
enum qp_rc qp__aside_remove(const struct qp__os *os, int dir, const char *id, struct qp_err *err);

#endif

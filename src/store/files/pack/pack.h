/* pack.h - many messages in one file: zstd frames of JSON lines.
 *
 * A pack is a concatenation of zstd frames (with content checksum and content size). A decompressed
 * frame contains stored messages, one per line. `zstdcat` prints them all; a pack with a dictionary
 * needs `zstd -D`. Before each frame there is its header, a skippable frame (magic 0x184D2A50) with
 * one line of JSON. It names the branch directories of the messages in the frame, in runs:
 *   {"quipu-pack":1,"dirs":[["branch-main",34],["branch-b",3]],"sum":"90c2d0a1"}
 * So a lost index can be rebuilt from packs alone. The zstd tools skip the header. "sum" is the
 * first 4 bytes of BLAKE2b-128 over the text of the array, "[[" to "]]".
 *
 * A message is addressed by the file offset of its frame's header (or of the frame itself, if the
 * header is lost) and by its offset in the decompressed frame; the index knows its length. A frame
 * is closed when it has QP__FRAME_TARGET bytes, and a longer message has its own frame, so reading
 * one message costs one small decompression.
 *
 * A pack is never changed in place: a new pack is written under another name, synced, and renamed
 * over the old one; frames that are kept are copied unchanged and keep their offsets.
 *
 * Threads: a writer belongs to one thread. A cache is shared by all threads. */
#ifndef QP_STORE_FILES_PACK_PACK_H
#define QP_STORE_FILES_PACK_PACK_H

#include "base/buf.h"
#include "os/os.h"
#include "quipu.h"

/* ---- writing ---- */

struct qp__pack_writer;

/* Creates dirfd/name, which must not exist. `dict` (may be empty) is copied. `level` 0: the
 * default. After a failure there is no file. */
enum qp_rc qp__pack_create(const struct qp__os *os, int dirfd, const char *name,
                           struct qp_bytes dict, int level, struct qp__pack_writer **out,
                           struct qp_err *err);
/* Starts with a copy of the first `bytes` bytes of root/path, which has the same dictionary or
 * none. Must be called before the first add. */
enum qp_rc qp__pack_copy(struct qp__pack_writer *w, int root, const char *path, uint64_t bytes,
                         struct qp_err *err);
/* Adds a message (without newline) of the directory `dir`; *frame and *pos receive its place. After
 * a failure the pack can only be freed. QP_INVALID: it contains a newline, or dir is invalid. */
enum qp_rc qp__pack_add(struct qp__pack_writer *w, const char *dir, struct qp_bytes json,
                        uint64_t *frame, uint32_t *pos, struct qp_err *err);
/* Writes the last frame and syncs the file. *bytes receives its length. */
enum qp_rc qp__pack_finish(struct qp__pack_writer *w, uint64_t *bytes, struct qp_err *err);
/* Closes; an unfinished pack is removed. NULL is allowed. */
void qp__pack_free(struct qp__pack_writer *w);

/* ---- reading ---- */

/* Open packs, their dictionaries and the most recently used frames. */
struct qp__pack_cache;
enum qp_rc qp__pack_cache_new(const struct qp__os *os, int root, struct qp__pack_cache **out,
                              struct qp_err *err);
void qp__pack_cache_free(struct qp__pack_cache *c);
/* Forgets everything about packs whose path begins with `prefix` (the directory of a context): must
 * be called before and after a pack is replaced or removed. */
void qp__pack_cache_drop(struct qp__pack_cache *c, const char *prefix);

/* Appends the `size` bytes of a message. `dict_path` (may be NULL) is used if the frame needs a
 * dictionary. QP_NOTFOUND: no such pack; QP_CORRUPT. */
enum qp_rc qp__pack_read(struct qp__pack_cache *c, const char *path, const char *dict_path,
                         uint64_t frame, uint32_t pos, uint32_t size, struct qp__buf *out,
                         struct qp_err *err);

/* Visits every message of a pack in order; `visit` may be NULL. `dir` is "" if the pack does not
 * contain it. *damaged: it ended early or a frame was damaged; frames after a damaged one are found
 * by their magic number. */
typedef enum qp_rc qp__pack_visit(void *arg, const char *dir, uint64_t frame, uint32_t pos,
                                  struct qp_bytes json, struct qp_err *err);
enum qp_rc qp__pack_scan(const struct qp__os *os, int root, const char *path, const char *dict_path,
                         qp__pack_visit *visit, void *arg, bool *damaged, struct qp_err *err);

/* ---- dictionaries ---- */

/* Trains a dictionary from samples (2 to 4 MiB of messages from all parts of the context are
 * enough), concatenated in `samples`. Leaves *out empty and returns QP_OK if there are too few
 * samples, or if the dictionary would save less than its own size, measured on samples that were
 * not used for training (times `scale`: the size of all messages in relation to the samples). */
enum qp_rc qp__dict_train(struct qp_bytes samples, const size_t *sizes, size_t count,
                          uint64_t scale, struct qp__buf *out, struct qp_err *err);

#endif

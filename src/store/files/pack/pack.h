/* pack.h - many messages in one file: zstd frames of JSON lines.
 *
 * A pack is a concatenation of zstd frames (with content checksum and content size); decompressed,
 * each is a number of stored messages, one a line. `zstdcat` prints them all; a pack that was made
 * with a dictionary needs `zstd -D`. Before each frame stands a skippable frame (magic 0x184D2A50),
 * its header, whose content is one line of JSON that says in which branch's directory the messages
 * behind it belong, in runs,
 *   {"quipu-pack":1,"dirs":[["branch-main",34],["branch-b",3]],"sum":"90c2d0a1"}
 * so that a lost index can be made again from packs alone. zstd tools skip it. "sum" is the first 4
 * bytes of BLAKE2b-128 over the text of the array, "[[" to "]]".
 *
 * A message is addressed by the offset in the file of its frame's header (or of the frame itself,
 * where the header is lost) and the position of its first byte in the decompressed frame; its
 * length is known to the index. A frame is closed when it has FRAME_TARGET bytes, and a longer
 * message has its own, so one message costs one small decompression.
 *
 * A pack is never changed in place: it is written under another name, synced, and renamed over the
 * old one; frames that are kept are copied as they are and keep their offsets.
 *
 * Threads: a writer belongs to one thread. A cache is shared by all. */
#ifndef QP_STORE_FILES_PACK_PACK_H
#define QP_STORE_FILES_PACK_PACK_H

#include "base/buf.h"
#include "os/os.h"
#include "quipu.h"

/* ---- writing ---- */

struct qp__pack_writer;

/* Creates dirfd/name, which must not exist. `dict` (may be empty) is copied. `level` 0: the
 * default. On failure there is no file. */
enum qp_rc qp__pack_create(const struct qp__os *os, int dirfd, const char *name,
                           struct qp_bytes dict, int level, struct qp__pack_writer **out,
                           struct qp_err *err);
/* Begins with a copy of the first `bytes` bytes of root/path, which has the same dictionary or
 * none. Before the first add. */
enum qp_rc qp__pack_copy(struct qp__pack_writer *w, int root, const char *path, uint64_t bytes,
                         struct qp_err *err);
/* Adds a message (without newline) that belongs in `dir`; *frame and *pos receive its place. After
 * a failure the pack can only be freed. QP_INVALID: it has a newline, or dir is none. */
enum qp_rc qp__pack_add(struct qp__pack_writer *w, const char *dir, struct qp_bytes json,
                        uint64_t *frame, uint32_t *pos, struct qp_err *err);
/* Writes what is left and syncs the file. *bytes receives its length. */
enum qp_rc qp__pack_finish(struct qp__pack_writer *w, uint64_t *bytes, struct qp_err *err);
/* Closes; a pack that was not finished is removed. NULL is allowed. */
void qp__pack_free(struct qp__pack_writer *w);

/* ---- reading ---- */

/* Open packs, their dictionaries and the frames that were used last. */
struct qp__pack_cache;
enum qp_rc qp__pack_cache_new(const struct qp__os *os, int root, struct qp__pack_cache **out,
                              struct qp_err *err);
void qp__pack_cache_free(struct qp__pack_cache *c);
/* Forgets everything about packs whose path begins with `prefix` (a context's directory): call it
 * before a pack is replaced or removed, and after. */
void qp__pack_cache_drop(struct qp__pack_cache *c, const char *prefix);

/* Appends the `size` bytes of a message. `dict_path` (may be NULL) is used when the frame names a
 * dictionary. QP_NOTFOUND: no such pack; QP_CORRUPT. */
enum qp_rc qp__pack_read(struct qp__pack_cache *c, const char *path, const char *dict_path,
                         uint64_t frame, uint32_t pos, uint32_t size, struct qp__buf *out,
                         struct qp_err *err);

/* Visits every message of a pack in order. `dir` is "" where the pack does not say it. *damaged: it
 * ended early or a frame was broken; frames behind a broken one are found again by their magic. */
typedef enum qp_rc qp__pack_visit(void *arg, const char *dir, uint64_t frame, uint32_t pos,
                                  struct qp_bytes json, struct qp_err *err);
enum qp_rc qp__pack_scan(const struct qp__os *os, int root, const char *path, const char *dict_path,
                         qp__pack_visit *visit, void *arg, bool *damaged, struct qp_err *err);

/* ---- dictionaries ---- */

/* Trains one from samples (messages; 2 to 4 MiB of them are plenty, from all over the context) that
 * stand one behind the other in `samples`. Leaves *out empty, with QP_OK, when there are too few or
 * when it would not save more than it is long, measured on samples that it was not trained with
 * (times `scale`: how much more there is than the samples show). */
enum qp_rc qp__dict_train(struct qp_bytes samples, const size_t *sizes, size_t count,
                          uint64_t scale, struct qp__buf *out, struct qp_err *err);

#endif

/* repack.h - moving messages from one place to another; shared by pack_driver.c and pack_repair.c.
 *
 * All operations work in the same way: new files are written to tmp/, a barrier makes them durable,
 * one commit renames them to their places together with an index that refers to them, and then
 * files without references are removed.
 *
 * (1) The content of a message never changes, so it may exist in several places; the index says
 *     which one is used. An interruption before or after the commit only leaves second copies
 *     (trash.c finds them).
 * (2) The commit contains only the renames of the new packs, not their content. It may be replayed,
 *     but no older commit may be: that could put another file in the place of a pack, or remove it,
 *     when the new pack is no longer in tmp/. For this reason there is a barrier before each such
 *     commit.
 * (3) No pack is removed or replaced while it contains a message that cannot be read. */
#ifndef QP_STORE_FILES_PACK_REPACK_H
#define QP_STORE_FILES_PACK_REPACK_H

#include <string.h>

#include "store/files/files.h"

/* A new file in tmp/ and its place in the directory of the context. */
struct qp__made {
  char temp[QP__TEMP_NAME_LEN];
  char name[QP__PACK_NAME_LEN];
};

/* Belongs to one thread. The places in the image change while messages are packed, so after a
 * failure the image must not be used. */
struct qp__repack {
  struct qp__files *files;
  struct qp__fctx *context;
  struct qp__image *image;
  struct qp__tree *tree; /* of the image */
  struct qp_space_report *report;
  struct qp__buf text; /* the current message, without a newline */
  struct qp__made *made;
  size_t made_count;
  size_t made_cap;
  uint32_t *moved; /* slots of messages that are now in packs: their files will be removed */
  size_t moved_count;
};

enum qp_rc qp__repack_begin(struct qp__repack *r, struct qp__files *f, struct qp__fctx *c,
                            struct qp__image *image, struct qp_space_report *report,
                            struct qp_err *err);
/* Also called if begin failed. `keep`: keeps the new files, because the commit may still
 * succeed. */
void qp__repack_end(struct qp__repack *r, bool keep);

/* The size of a file of the context; 0 if it does not exist. */
uint64_t qp__repack_size(const struct qp__files *f, const struct qp__fctx *c, const char *name);

/* Whether a message is in its own file, according to the index. */
static inline bool
qp__is_loose(const struct qp__entry *e)
{
  return qp__entry_kind(e) == QP__PLACE_FILE && atomic_load(&e->status) != QP_STATUS_UNAVAILABLE;
}

static inline bool
qp__is_packed(const struct qp__entry *e)
{
  return qp__entry_kind(e) == QP__PLACE_PACK;
}

static inline bool
qp__is_in_pack(const struct qp__tree *tree, const struct qp__entry *e, const char *pack)
{
  return qp__is_packed(e) && strcmp(qp__tree_pack_of(tree, atomic_load(&e->place)), pack) == 0;
}

/* Reads the content of a message to r->text. *ok false: it cannot be read and stays in its place.
 * QP_CORRUPT: that place is a pack, see rule (3). */
enum qp_rc qp__repack_read(struct qp__repack *r, const struct qp__entry *e, bool *ok,
                           struct qp_err *err);

/* Writes the dictionary of the single pack, which is rewritten. */
enum qp_rc qp__repack_dict(struct qp__repack *r, struct qp_bytes dict, struct qp_err *err);

/* A pack that is being written. Initialize with zeros; always free the writer. */
struct qp__packer {
  struct qp__repack *repack;
  struct qp__pack_writer *writer;
  uint32_t number; /* of the pack in the tree */
  size_t count;    /* messages so far */
};

enum qp_rc qp__packer_start(struct qp__repack *r, const char *name, struct qp_bytes dict,
                            struct qp__packer *out, struct qp_err *err);
/* Adds the content in r->text; its entry gets the new place. */
enum qp_rc qp__packer_add(struct qp__packer *p, uint32_t slot, struct qp_err *err);
/* Reads and adds messages, as far as they can be read. */
enum qp_rc qp__packer_fill(struct qp__packer *p, const uint32_t *slots, size_t n,
                           struct qp_err *err);
/* Finishes the pack; a pack without messages is removed, and *bytes is 0. */
enum qp_rc qp__packer_finish(struct qp__packer *p, uint64_t *bytes, struct qp_err *err);

/* Replaces index and packs; removes packs without messages, and a dictionary that is not needed.
 * *staged as in struct qp__rewrite. */
enum qp_rc qp__repack_commit(struct qp__repack *r, bool *staged, struct qp_err *err);

#endif

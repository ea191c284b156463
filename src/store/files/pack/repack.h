/* repack.h - how messages get from one place to another: what pack_driver.c and pack_repair.c
 * share.
 *
 * All of it goes the same way: new files are written where nobody looks, a barrier makes them
 * durable, one commit puts them in their places together with an index that tells of them, and then
 * what nothing refers to any more is removed.
 *
 * (1) Contents never change, so a message may lie in several places; the index tells which one
 *     counts. What is cut short before the commit or after it leaves second copies behind and
 *     nothing else (trash.c finds them).
 * (2) The commit only renames the new packs: it does not hold them. It may be replayed, but nothing
 *     older: an older commit could put something else in the place of a pack, or remove it, when
 *     the new pack is no longer in tmp/. That is why there is a barrier before each of them.
 * (3) No pack is removed or replaced while it holds a message that cannot be read. */
#ifndef QP_STORE_FILES_PACK_REPACK_H
#define QP_STORE_FILES_PACK_REPACK_H

#include <string.h>

#include "store/files/files.h"

/* A new file in tmp/ and where it belongs in the context's directory. */
struct qp__made {
  char temp[QP__TEMP_NAME_LEN];
  char name[QP__PACK_NAME_LEN];
};

/* Belongs to one thread. The image's places change as messages are packed, so it is of no use any
 * more when something fails. */
struct qp__repack {
  struct qp__files *files;
  struct qp__fctx *context;
  struct qp__image *image;
  struct qp__tree *tree; /* the image's */
  struct qp_space_report *report;
  struct qp__buf text; /* the message at hand, without a newline */
  struct qp__made *made;
  size_t made_count;
  size_t made_cap;
  uint32_t *moved; /* slots of messages whose files go: they are in packs now */
  size_t moved_count;
};

enum qp_rc qp__repack_begin(struct qp__repack *r, struct qp__files *f, struct qp__fctx *c,
                            struct qp__image *image, struct qp_space_report *report,
                            struct qp_err *err);
/* Also after a begin that failed. `keep` what was made: the commit may yet come to pass. */
void qp__repack_end(struct qp__repack *r, bool keep);

/* The size of a file of the context; 0: there is none. */
uint64_t qp__repack_size(const struct qp__files *f, const struct qp__fctx *c, const char *name);

/* Whether a message is in a file of its own, as far as the index knows. */
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

/* The content of a message into r->text. *ok false: it cannot be read, and stays where it is.
 * QP_CORRUPT: that is a pack, see rule (3). */
enum qp_rc qp__repack_read(struct qp__repack *r, const struct qp__entry *e, bool *ok,
                           struct qp_err *err);
/* A new name in tmp/ for what shall become `name`; it counts once made_count does. */
enum qp_rc qp__repack_new(struct qp__repack *r, const char *name, struct qp__made **out,
                          struct qp_err *err);

/* The dictionary of the one pack, which is written again. */
enum qp_rc qp__repack_dict(struct qp__repack *r, struct qp_bytes dict, struct qp_err *err);

/* A pack that is being written. Begin with zeros; free the writer in any case. */
struct qp__packer {
  struct qp__repack *repack;
  struct qp__pack_writer *writer;
  uint32_t number; /* of the pack in the tree */
  size_t count;    /* messages so far */
};

enum qp_rc qp__packer_start(struct qp__repack *r, const char *name, struct qp_bytes dict,
                            struct qp__packer *out, struct qp_err *err);
/* Adds the content in r->text, whose entry's place is the new one from then on. */
enum qp_rc qp__packer_add(struct qp__packer *p, uint32_t slot, struct qp_err *err);
/* Reads and adds messages, as far as they can be read. */
enum qp_rc qp__packer_fill(struct qp__packer *p, const uint32_t *slots, size_t n,
                           struct qp_err *err);
/* Ends the pack; one without messages comes to nothing, and *bytes is 0. */
enum qp_rc qp__packer_finish(struct qp__packer *p, uint64_t *bytes, struct qp_err *err);

/* Replaces index and packs; removes packs that nothing is in, and a dictionary that is not needed.
 * *staged as in struct qp__rewrite. */
enum qp_rc qp__repack_commit(struct qp__repack *r, bool *staged, struct qp_err *err);

#endif

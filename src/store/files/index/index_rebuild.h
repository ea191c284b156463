/* index_rebuild.h - restores lost parts of an index from the remaining lines and from the messages
 * themselves, each of which contains its id, parent, time and role.
 *
 * An entry is taken from a line of index.json or index.log if there is one, because a line also has
 * the hash of the message; otherwise from the file of the message, from trash/ or from a pack. The
 * lines that move heads are then applied to the result, so that they find the messages that they
 * name. If index.json is valid, only it says what is in packs and in the trash: a purged message
 * stays in its pack until the pack is rewritten, and must not reappear. */
#ifndef QP_STORE_FILES_INDEX_INDEX_REBUILD_H
#define QP_STORE_FILES_INDEX_INDEX_REBUILD_H

#include "store/files/files.h"

/* The result. Initialize with zeros. */
struct qp__rebuilt {
  uint32_t *slots; /* of messages that no line of the index names, parents first */
  size_t count;
  size_t lost;      /* new placeholders: messages known only as parents of others */
  bool broken;      /* there are placeholders */
  uint8_t *garbage; /* per slot: not 0 if the index says that no branch reached it */
};
void qp__rebuilt_release(struct qp__rebuilt *r);

/* Adds every message that has a file below messages/ but no entry; with problems->scan also those
 * elsewhere in the context's directory and in packs. A missing message that is the parent of others
 * gets a placeholder: an unavailable entry of size 0, below the newest message before it.
 * `damaged`: the image is first read again as described above; *report is that of the new reading,
 * and bad_parents counts the remaining ones. With problems->distrust the same, and the parent,
 * role, type and time in a message are preferred to those in its line. */
enum qp_rc qp__index_rebuild(struct qp__files *f, const struct qp__fctx *c, bool damaged,
                             const struct qp__problems *problems, struct qp__image *image,
                             struct qp__index_report *report, struct qp__rebuilt *out,
                             struct qp_err *err);

/* Moves the head of a branch to its own messages that follow it and whose lines were lost. An index
 * that is not damaged but lacks messages is an older copy: then messages that are newer than all
 * its entries belong to the branch. */
enum qp_rc qp__rebuilt_heads(struct qp__image *image, const struct qp__rebuilt *r, bool damaged,
                             struct qp_err *err);

#endif

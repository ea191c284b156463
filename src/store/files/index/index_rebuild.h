/* index_rebuild.h - what an index has lost, back from the lines that are left and from the messages
 * themselves, each of which holds its id, parent, time and role.
 *
 * An entry comes from a line of index.json or index.log where there is one, because a line also
 * tells the hash that the message should have, else from the message's file, from trash/ or from a
 * pack. The lines that move heads are then read over the result, so that they find what they tell
 * of. As long as index.json is sound, it alone says what is in packs and in the trash: a message
 * that was purged stays in its pack until that is written again, and must not come back. */
#ifndef QP_STORE_FILES_INDEX_INDEX_REBUILD_H
#define QP_STORE_FILES_INDEX_INDEX_REBUILD_H

#include "store/files/files.h"

/* What was found. Begin with zeros. */
struct qp__rebuilt {
  uint32_t *slots; /* of messages that no line of the index names, parents first */
  size_t count;
  size_t lost;      /* messages that are known only as parents of others: new placeholders */
  bool broken;      /* there are placeholders */
  uint8_t *garbage; /* per slot: not 0 when the index tells that no branch reached it */
};
void qp__rebuilt_release(struct qp__rebuilt *r);

/* Adds every message that has a file below messages/ and no entry; with problems->scan also what
 * lies elsewhere in the context's directory and in packs. A message that is nowhere, but is the
 * parent of others, gets a placeholder: an entry that is unavailable, of size 0, under the newest
 * message before it. `damaged`: the image is read again first as told above; *report is as a new
 * reading found it, and bad_parents counts what is left of them. With problems->distrust the same,
 * and what a message itself says of its parent, role, type and time counts more than its line. */
enum qp_rc qp__index_rebuild(struct qp__files *f, const struct qp__fctx *c, bool damaged,
                             const struct qp__problems *problems, struct qp__image *image,
                             struct qp__index_report *report, struct qp__rebuilt *out,
                             struct qp_err *err);

/* Moves the head of a branch to messages of its own that follow it and whose lines were lost. An
 * index that is not damaged but lacks messages is an older copy: messages that are newer than all
 * that it knows are the branch's then. */
enum qp_rc qp__rebuilt_heads(struct qp__image *image, const struct qp__rebuilt *r, bool damaged,
                             struct qp_err *err);

#endif

/* loaded_context.h - a context as a driver loads it, before other threads see it: metadata, index
 * and heads. */
#ifndef QP_STORE_CONTEXT_LOADED_CONTEXT_H
#define QP_STORE_CONTEXT_LOADED_CONTEXT_H

#include "model/meta.h"
#include "store/context/tree.h"

struct qp__head {
  char *name;
  uint32_t slot; /* or QP__NO_SLOT: an empty branch */
};

struct qp__image {
  struct qp__meta *meta; /* NULL: not loaded yet */
  struct qp__tree tree;
  struct qp__head *heads; /* in no order */
  size_t head_count;
  size_t head_cap;
  bool old; /* in the format of an older program: can be read, not changed */
};

void qp__image_init(struct qp__image *image);
void qp__image_release(struct qp__image *image);

/* NULL: the branch does not exist. */
struct qp__head *qp__image_head(const struct qp__image *image, const char *name);
/* Adds the branch or moves its head. False: no memory. */
bool qp__image_set_head(struct qp__image *image, const char *name, uint32_t slot);
bool qp__image_rename_head(struct qp__image *image, const char *name, const char *new_name);
void qp__image_drop_head(struct qp__image *image, const char *name);

/* For drivers that keep an image: a copy of tree and heads into an empty image (false: out of
 * memory); and a change applied to it. reserve makes room for n such changes, so that applying them
 * cannot fail (false: out of memory). *name is an allocated copy of the branch that a HEAD or
 * RENAME names; if apply uses it, it is NULL afterwards. Returns the slot of the message, if there
 * is one. */
struct qp__driver_change;
bool qp__image_copy(struct qp__image *to, const struct qp__image *from);
bool qp__image_reserve(struct qp__image *image, const struct qp__driver_change *change, size_t n);
uint32_t qp__image_apply(struct qp__image *image, const struct qp__driver_change *change,
                         char **name);

/* For drivers: copies tree and heads into an empty image, without the messages whose byte is set in
 * `gone` (one per slot). Returns the new slot of each old one, QP__NO_SLOT for those that are gone;
 * released with qp__free(). NULL: out of memory. */
uint32_t *qp__image_copy_kept(const struct qp__image *from, const bool *gone, struct qp__image *to);

struct qp__problems;

/* Creates branches for messages that no branch reaches, one for each end of a history. Messages in
 * the trash or with their byte set in `garbage` (one per slot) are skipped. After mend. */
enum qp_rc qp__image_recover(struct qp__image *image, const uint8_t *garbage,
                             struct qp__problems *problems, bool *changed, struct qp_err *err);

/* Makes metadata and heads agree: every branch has a definition and a head, the active branch
 * exists. Changes are reported to `problems`; *changed: there were some. */
enum qp_rc qp__image_mend(struct qp__image *image, struct qp__problems *problems, bool *changed,
                          struct qp_err *err);

#endif

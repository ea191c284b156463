/* hidden.h - paths that no tool may reach: the data directory, the configuration, files with keys.
 *
 * They are known by device and inode, so that a link, a bind mount or another way to write the path
 * makes no difference. A path that does not exist is left out. */
#ifndef QP_TOOL_HIDDEN_H
#define QP_TOOL_HIDDEN_H

#include <stdbool.h>
#include <sys/stat.h>

#include "quipu.h"

#define QP__HIDDEN_MAX 512 /* hidden paths, and the directories above them */

enum qp__hidden_kind {
  QP__VISIBLE,
  QP__ABOVE_HIDDEN, /* a directory that holds something hidden, at any depth */
  QP__IS_HIDDEN,
};

struct qp__hidden {
  struct {
    dev_t dev;
    ino_t ino;
    enum qp__hidden_kind kind;
  } at[QP__HIDDEN_MAX];
  size_t count;
};

/* `paths` are absolute and end with NULL; NULL: no paths. QP_TOOBIG: too many paths. */
enum qp_rc qp__hidden_init(struct qp__hidden *hidden, const char *const *paths, struct qp_err *err);

enum qp__hidden_kind qp__hidden_find(const struct qp__hidden *hidden, const struct stat *st);

/* Whether the path or a directory above it is hidden. */
bool qp__hidden_holds(const struct qp__hidden *hidden, const char *path);

/* *inside is the first of the paths that the workspace holds, mounts included, or NULL. QP_INVALID:
 * the workspace is itself inside a hidden path. */
enum qp_rc qp__hidden_check(const char *const *paths, const char *workspace, const char **inside,
                            struct qp_err *err);

#endif

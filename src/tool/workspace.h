/* workspace.h - one directory that the paths of a model cannot leave.
 *
 * A path is first made plain: relative to the workspace, without ".", ".." and empty components.
 * An absolute path is taken when it begins with the workspace's own; one that would leave the
 * workspace is refused. Because no symbolic link is ever followed (the seam of os.h resolves every
 * component by openat2 below the directory's descriptor, or by a walk with O_NOFOLLOW), that plain
 * path means the same file as the model's, also when somebody puts a link into its way meanwhile.
 *
 * Paths that are hidden (hidden.h) are refused by reach() and left out of walks; the other
 * functions do not look at them.
 *
 * The descriptor stays open, so that a workspace that is moved or replaced stays the same
 * directory. All functions but open and close may be called from any thread. */
#ifndef QP_TOOL_WORKSPACE_H
#define QP_TOOL_WORKSPACE_H

#include <stdbool.h>

#include "base/buf.h"
#include "os/os.h"

struct qp__hidden;

#define QP__WORKSPACE_PATH_MAX 4096 /* with its NUL */

struct qp__workspace {
  const struct qp__os *os;
  int fd;
  char *path; /* absolute, as it was given; no '/' at its end unless it is "/" */
  char *real; /* the same without links; NULL: it is not known */
  const struct qp__hidden *hidden; /* what tools must not reach in it, borrowed; NULL: nothing */
};

/* `path` must be absolute and an existing directory. */
enum qp_rc qp__workspace_open(struct qp__workspace *w, const struct qp__os *os, const char *path,
                              struct qp_err *err);
void qp__workspace_close(struct qp__workspace *w); /* also on a zeroed struct */

/* The plain form of a path; "." is the workspace itself. QP_DENIED: it leads out of the workspace.
 * QP_INVALID: it is empty, too long or has a control character. */
enum qp_rc qp__workspace_plain(const struct qp__workspace *w, const char *path,
                               char out[QP__WORKSPACE_PATH_MAX], struct qp_err *err);

/* Whether a plain path is hidden itself, without looking at the directories above it. */
bool qp__workspace_is_hidden(const struct qp__workspace *w, const char *plain);
/* QP_DENIED: the plain path is hidden or below something hidden. */
enum qp_rc qp__workspace_reach(const struct qp__workspace *w, const char *plain,
                               struct qp_err *err);

/* For system calls below, on a plain path: the sentence and code of a failure, in words that help a
 * model. `deed` is such as "read". */
enum qp_rc qp__workspace_fail(int neg_errno, const char *deed, const char *path,
                              struct qp_err *err);

/* Opens a regular file for reading; its size is in *size. */
enum qp_rc qp__workspace_open_file(const struct qp__workspace *w, const char *plain, int *fd,
                                   uint64_t *size, struct qp_err *err);

/* All of a regular file, which may have `max` bytes. */
enum qp_rc qp__workspace_read(const struct qp__workspace *w, const char *plain, struct qp__buf *out,
                              struct qp_err *err);

/* Puts a file in the place of whatever regular file is there, at once: a reader sees the old or the
 * new content, and after a power cut it is one of the two. Missing directories are made. A file
 * that is replaced keeps its permissions. *made (may be NULL): there was none. */
enum qp_rc qp__workspace_write(const struct qp__workspace *w, const char *plain,
                               struct qp_bytes data, bool *made, struct qp_err *err);

/* A visit of qp__workspace_walk: `plain` and its kind (DT_REG, DT_DIR, DT_LNK, …). An answer other
 * than QP_OK ends the walk and is returned. */
typedef enum qp_rc qp__workspace_visit(void *arg, const char *plain, unsigned char type,
                                       struct qp_err *err);

/* Visits everything below a directory, in bytewise order of each directory's names, links not
 * followed; directories called ".git" and what is hidden are left out. What cannot be listed is
 * passed over, unless it is the directory itself. QP_STOPPED: *stop (an atomic bool, may be NULL)
 * was set. */
enum qp_rc qp__workspace_walk(const struct qp__workspace *w, const char *plain,
                              qp__workspace_visit *visit, void *arg, const _Atomic bool *stop,
                              struct qp_err *err);

#endif

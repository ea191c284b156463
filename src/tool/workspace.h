/* workspace.h - one directory that the paths of a model cannot leave.
 *
 * A path is first made plain: relative to the workspace, without ".", ".." and empty components. An
 * absolute path is accepted if it begins with the path of the workspace. A path that would leave
 * the workspace is refused. No symbolic link is ever followed: the seam of os.h resolves every
 * component by openat2 below the directory's descriptor, or by a walk with O_NOFOLLOW. So the plain
 * path means the same file as the model's, even if another program creates a link in its way
 * meanwhile.
 *
 * Hidden paths (hidden.h) are refused by reach() and skipped by walks; the other functions do not
 * check them.
 *
 * The descriptor stays open, so a workspace that is moved or replaced stays the same directory. All
 * functions but open and close may be called from any thread. */
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

/* For system calls below, on a plain path: the code and message of a failure, in words that help a
 * model. `deed` is a verb such as "read". */
enum qp_rc qp__workspace_fail(int neg_errno, const char *deed, const char *path,
                              struct qp_err *err);

/* Opens a regular file for reading; its size is in *size. */
enum qp_rc qp__workspace_open_file(const struct qp__workspace *w, const char *plain, int *fd,
                                   uint64_t *size, struct qp_err *err);

/* Appends the content of a regular file. QP_TOOBIG: it is longer than the limit of `out`. */
enum qp_rc qp__workspace_read(const struct qp__workspace *w, const char *plain, struct qp__buf *out,
                              struct qp_err *err);

/* Replaces or creates a regular file atomically: a reader sees the old or the new content, also
 * after a power cut. Missing directories are created. A replaced file keeps its permissions. *made
 * (may be NULL): the file is new. */
enum qp_rc qp__workspace_write(const struct qp__workspace *w, const char *plain,
                               struct qp_bytes data, bool *made, struct qp_err *err);

/* A visit of qp__workspace_walk: `plain` and its kind (DT_REG, DT_DIR, DT_LNK, …). An answer other
 * than QP_OK ends the walk and is returned. */
typedef enum qp_rc qp__workspace_visit(void *arg, const char *plain, unsigned char type,
                                       struct qp_err *err);

/* Visits everything below a directory without following links, in bytewise order of each
 * directory's names. Directories called ".git" and hidden paths are skipped. Directories that
 * cannot be listed are skipped, unless it is the first one. QP_STOPPED: *stop (an atomic bool, may
 * be NULL) was set. */
enum qp_rc qp__workspace_walk(const struct qp__workspace *w, const char *plain,
                              qp__workspace_visit *visit, void *arg, const _Atomic bool *stop,
                              struct qp_err *err);

#endif

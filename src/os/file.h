/* file.h - helpers for whole files over struct qp__os. They repeat interrupted calls and complete
 * short reads and writes, so callers never see either. All return 0, a count, or -errno. */
#ifndef QP_OS_FILE_H
#define QP_OS_FILE_H

#include <stdbool.h>

#include "base/buf.h"
#include "os/os.h"

int qp__open(const struct qp__os *os, int dirfd, const char *path, int flags, mode_t mode);
void qp__close(const struct qp__os *os, int fd); /* -1 is allowed */
int qp__fdatasync(const struct qp__os *os, int fd);
int qp__fsync(const struct qp__os *os, int fd);
int qp__syncfs(const struct qp__os *os, int fd);
int qp__flock(const struct qp__os *os, int fd, int operation);

/* Writes all n bytes, or returns -errno. */
int qp__write_at(const struct qp__os *os, int fd, const void *data, size_t n, off_t off);
/* Reads up to n bytes; fewer only at the end of the file. */
ssize_t qp__read_at(const struct qp__os *os, int fd, void *data, size_t n, off_t off);

/* Creates `path`, which must not exist, with these bytes, and `sync`s them. After a failure the
 * file does not exist. */
int qp__file_new(const struct qp__os *os, int dirfd, const char *path, mode_t mode, bool sync,
                 struct qp_bytes data);
/* The same with the mode of stored files, not synced. */
int qp__file_create(const struct qp__os *os, int dirfd, const char *path, struct qp_bytes data);
/* Replaces `name` durably: the bytes are synced in the file `temp`, which is then renamed. */
int qp__file_replace(const struct qp__os *os, int dirfd, const char *name, const char *temp,
                     struct qp_bytes data);
/* Appends the whole file to *out. -EOVERFLOW: over out's limit; -ENOTSUP: not a regular file. */
int qp__file_read(const struct qp__os *os, int dirfd, const char *path, struct qp__buf *out);

/* Creates a directory; succeeds if it exists already. -ENOTDIR: the path exists and is no
 * directory. */
int qp__dir_make(const struct qp__os *os, int dirfd, const char *path);
/* Creates every directory above the last component of `path`. */
int qp__dir_make_parents(const struct qp__os *os, int dirfd, const char *path);
/* Removes a file or a whole tree without following links. -ENOENT counts as success. */
int qp__tree_remove(const struct qp__os *os, int dirfd, const char *path);

#endif

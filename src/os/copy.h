/* copy.h - copying and comparing files through struct qp__os. All functions return 0 or -errno. */
#ifndef QP_OS_COPY_H
#define QP_OS_COPY_H

#include <stdbool.h>

#include "os/os.h"

/* Copies a file, or a directory with everything in it, to a path that must not exist; keeps the
 * times of the files. Symbolic links and special files are skipped. After a failure, files that
 * were copied stay. Nothing is synced. */
int qp__copy(const struct qp__os *os, int from_dir, const char *from, int to_dir, const char *to);

/* Whether two files have the same content. */
int qp__same_content(const struct qp__os *os, int a_dir, const char *a, int b_dir, const char *b,
                     bool *same);

#endif

/* lines.h - reads a file line by line in large blocks, without ever holding the whole file. */
#ifndef QP_OS_LINES_H
#define QP_OS_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "os/os.h"
#include "quipu.h"

#define QP__LINE_MAX ((size_t)64 << 10) /* reading stops at a longer line, which counts as torn */

#define QP__LINE_PAD 64

/* `line` has `len` bytes without the newline and is borrowed. QP__LINE_PAD bytes after the newline
 * may be read; their content is undefined. `end` is the file offset after the newline. A result
 * other than QP_OK stops the reading and is returned. */
typedef enum qp_rc qp__line_fn(void *arg, const char *line, size_t len, uint64_t end,
                               struct qp_err *err);

/* *torn: the file does not end with a newline, or has an over-long line or a NUL byte; all lines
 * before that place were delivered. */
enum qp_rc qp__lines_read(const struct qp__os *os, int fd, qp__line_fn *fn, void *arg, bool *torn,
                          struct qp_err *err);

#endif

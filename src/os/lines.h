/* lines.h - reading a file line by line in large pieces, without ever holding the whole file. */
#ifndef QP_OS_LINES_H
#define QP_OS_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "os/os.h"
#include "quipu.h"

#define QP__LINE_MAX ((size_t)64 << 10) /* a longer line ends the reading as torn */

#define QP__LINE_PAD 64

/* `line` is `len` bytes without the newline, borrowed. Behind the newline QP__LINE_PAD bytes more
 * can be read, whatever they are. `end` is the file offset behind the newline.
 * An answer other than QP_OK ends the reading and is returned. */
typedef enum qp_rc qp__line_fn(void *arg, const char *line, size_t len, uint64_t end,
                               struct qp_err *err);

/* *torn: the file does not end in a newline, or holds an over-long line or a NUL byte; all lines
 * before that were delivered. */
enum qp_rc qp__lines_read(const struct qp__os *os, int fd, qp__line_fn *fn, void *arg, bool *torn,
                          struct qp_err *err);

#endif

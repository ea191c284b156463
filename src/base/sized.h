/* sized.h - structs of callers that begin with their size: see "structs that grow" in
 * quipu/base.h. */
#ifndef QP_BASE_SIZED_H
#define QP_BASE_SIZED_H

#include "quipu/base.h"

/* Fills *own (`size` bytes, which begin with a size_t) from the caller's struct, which may be
 * shorter or longer; NULL: all defaults. `what` begins the sentence of QP_MISUSE. Strings are not
 * copied. */
enum qp_rc qp__sized_copy(const char *what, const void *given, void *own, size_t size,
                          struct qp_err *err);

#endif

/* err.h - creating an error. The function that detects a failure writes the message; its callers
 * return it unchanged. */
#ifndef QP_BASE_ERR_H
#define QP_BASE_ERR_H

#include "quipu.h"

/* Fills *err (may be NULL) and returns rc, so that failing is one line: return qp__fail(...). */
enum qp_rc qp__fail(struct qp_err *err, enum qp_rc rc, const char *fmt, ...) QP_PRINTF(3, 4);

/* The same for the -errno of a system call: chooses the code (ENOSPC: QP_FULL, ENOENT: QP_NOTFOUND,
 * …) and appends ": " and the system's text to the message. */
enum qp_rc qp__fail_sys(struct qp_err *err, int neg_errno, const char *fmt, ...) QP_PRINTF(3, 4);

/* For a function that looked at the error of another one first: returns `rc`; if that is a failure,
 * *err (may be NULL) becomes *cause. */
enum qp_rc qp__fail_as(struct qp_err *err, enum qp_rc rc, const struct qp_err *cause);

/* Out of memory while doing `what`. */
enum qp_rc qp__fail_nomem(struct qp_err *err, const char *what);

#endif

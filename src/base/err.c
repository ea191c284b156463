/* err.c - the table of error codes, and functions that fill a struct qp_err. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct rc_row {
  enum qp_rc rc;
  const char *name;
  const char *text;
} rows[] = {
#define ROW(name, num, text) { QP_##name, #name, text },
  QP_RC_MAP(ROW)
#undef ROW
};

static const struct rc_row *
find_row(enum qp_rc rc)
{
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (rows[i].rc == rc)
      return &rows[i];
  return &rows[2]; /* IO: an unknown code is treated as a failure */
}

const char *
qp_rc_name(enum qp_rc rc)
{
  return find_row(rc)->name;
}

const char *
qp_rc_text(enum qp_rc rc)
{
  return find_row(rc)->text;
}

const char *
qp_version(void)
{
  return QP_VERSION;
}

static const struct {
  int err;
  enum qp_rc rc;
} sys_codes[] = {
  /* no space: on the disk, in a quota, or below the file size limit of the process
   * (RLIMIT_FSIZE) */
  { ENOSPC, QP_FULL },
  { EDQUOT, QP_FULL },
  { EFBIG, QP_FULL },
  /* temporary: memory, and file descriptors of the process and of the system */
  { ENOMEM, QP_NOMEM },
  { EMFILE, QP_NOMEM },
  { ENFILE, QP_NOMEM },
  { ENOENT, QP_NOTFOUND },
  { EROFS, QP_READONLY },
  { EACCES, QP_DENIED },
  { EPERM, QP_DENIED },
  { EEXIST, QP_EXISTS },
  { EOVERFLOW, QP_TOOBIG },
  { ENOTSUP, QP_CORRUPT }, /* a pipe or special file in the place of a file: see os.h */
};

static enum qp_rc
rc_of_errno(int e)
{
  for (size_t i = 0; i < sizeof(sys_codes) / sizeof(sys_codes[0]); i++)
    if (sys_codes[i].err == e)
      return sys_codes[i].rc;
  return QP_IO;
}

/* The text of an error number, independent of the locale and of strerror's static buffer. */
static const char *
errno_text(int e)
{
  const char *text = e == EOVERFLOW ? "the file is too large"
                     : e == ENOTSUP ? "not a regular file"
                                    : strerrordesc_np(e);

  return text ? text : "unknown error";
}

enum qp_rc
qp__fail(struct qp_err *err, enum qp_rc rc, const char *fmt, ...)
{
  va_list args;

  if (!err)
    return rc;
  err->rc = rc;
  va_start(args, fmt);
  (void)vsnprintf(err->msg, sizeof(err->msg), fmt, args);
  va_end(args);
  return rc;
}

enum qp_rc
qp__fail_sys(struct qp_err *err, int neg_errno, const char *fmt, ...)
{
  int e = neg_errno < 0 ? -neg_errno : EIO;
  enum qp_rc rc = rc_of_errno(e);
  va_list args;
  size_t used;

  if (!err)
    return rc;
  err->rc = rc;
  va_start(args, fmt);
  (void)vsnprintf(err->msg, sizeof(err->msg), fmt, args);
  va_end(args);
  used = strlen(err->msg);
  (void)snprintf(err->msg + used, sizeof(err->msg) - used, ": %s", errno_text(e));
  return rc;
}

enum qp_rc
qp__fail_as(struct qp_err *err, enum qp_rc rc, const struct qp_err *cause)
{
  if (rc && err)
    *err = *cause;
  return rc;
}

enum qp_rc
qp__fail_nomem(struct qp_err *err, const char *what)
{
  return qp__fail(err, QP_NOMEM, "out of memory: %s", what);
}

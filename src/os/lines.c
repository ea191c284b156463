/* lines.c - see lines.h. */
#include "os/lines.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"

#define CHUNK ((size_t)256 << 10) /* fits the second-level cache, so copying is cheap */

/* Delivers the complete lines of data[0 .. n); *used is the offset of the first incomplete line. */
static enum qp_rc
deliver(const char *data, size_t n, uint64_t offset, qp__line_fn *fn, void *arg, size_t *used,
        bool *torn, struct qp_err *err)
{
  const char *p = data;
  const char *end = data + n;
  const char *nl;
  enum qp_rc rc = QP_OK;

  while (!rc && (nl = memchr(p, '\n', (size_t)(end - p)))) {
    if (*p == 0) { /* a hole in the file: the rest was never written */
      *torn = true;
      break;
    }
    rc = fn(arg, p, (size_t)(nl - p), offset + (uint64_t)(nl + 1 - data), err);
    p = nl + 1;
  }
  *used = (size_t)(p - data);
  return rc;
}

enum qp_rc
qp__lines_read(const struct qp__os *os, int fd, qp__line_fn *fn, void *arg, bool *torn,
               struct qp_err *err)
{
  char *data = qp__alloc(CHUNK + QP__LINE_PAD);
  uint64_t offset = 0; /* file offset of data[0] */
  size_t have = 0;
  enum qp_rc rc = QP_OK;

  *torn = false;
  if (!data)
    return qp__fail_nomem(err, "reading lines");
  while (!rc && !*torn) {
    ssize_t got = qp__read_at(os, fd, data + have, CHUNK - have, (off_t)(offset + have));
    size_t used;

    if (got < 0) {
      rc = qp__fail_sys(err, (int)got, "cannot read");
      break;
    }
    have += (size_t)got;
    memset(data + have, 0, QP__LINE_PAD);
    rc = deliver(data, have, offset, fn, arg, &used, torn, err);
    memmove(data, data + used, have - used);
    have -= used;
    offset += used;
    if (have > QP__LINE_MAX || (got == 0 && have))
      *torn = true;
    if (got == 0)
      break;
  }
  qp__free(data);
  return rc;
}

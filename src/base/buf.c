/* buf.c - see buf.h. */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

#define FIRST_CAP 120

void
qp__buf_init(struct qp__buf *b, size_t limit)
{
  memset(b, 0, sizeof(*b));
  b->limit = limit;
}

void
qp__buf_release(struct qp__buf *b)
{
  size_t limit = b->limit;

  qp__free(b->data);
  qp__buf_init(b, limit);
}

void
qp__buf_reset(struct qp__buf *b)
{
  b->len = 0;
  b->rc = QP_OK;
  if (b->data)
    b->data[0] = 0;
}

static enum qp_rc
remember(struct qp__buf *b, enum qp_rc rc)
{
  if (b->rc == QP_OK)
    b->rc = rc;
  return rc;
}

enum qp_rc
qp__buf_reserve(struct qp__buf *b, size_t more)
{
  size_t cap = b->cap ? b->cap : FIRST_CAP;
  char *data;

  QP_ASSERT(b->len <= b->cap);
  QP_ASSERT(b->data || !b->len);
  if (more > b->limit || b->len > b->limit - more)
    return remember(b, QP_TOOBIG);
  if (b->data && b->len + more <= b->cap)
    return QP_OK;
  while (cap < b->len + more)
    cap = cap > SIZE_MAX / 2 ? b->len + more : cap * 2;
  if (cap > b->limit)
    cap = b->limit;
  data = qp__realloc(b->data, cap + 1);
  if (!data)
    return remember(b, QP_NOMEM);
  if (!b->data)
    data[0] = 0;
  b->data = data;
  b->cap = cap;
  return QP_OK;
}

enum qp_rc
qp__buf_add(struct qp__buf *b, const void *data, size_t n)
{
  enum qp_rc rc = qp__buf_reserve(b, n);

  if (rc)
    return rc;
  if (n)
    memcpy(b->data + b->len, data, n);
  b->len += n;
  b->data[b->len] = 0;
  return QP_OK;
}

enum qp_rc
qp__buf_add_str(struct qp__buf *b, const char *s)
{
  return qp__buf_add(b, s, strlen(s));
}

enum qp_rc
qp__buf_add_char(struct qp__buf *b, char c)
{
  return qp__buf_add(b, &c, 1);
}

enum qp_rc
qp__buf_addf(struct qp__buf *b, const char *fmt, ...)
{
  va_list args;
  va_list again;
  enum qp_rc rc;
  int n;

  va_start(args, fmt);
  va_copy(again, args);
  n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  rc = n < 0 ? remember(b, QP_INVALID) : qp__buf_reserve(b, (size_t)n);
  if (!rc) {
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    b->len += (size_t)n;
  }
  va_end(again);
  return rc;
}

enum qp_rc
qp__buf_check(const struct qp__buf *b, const char *what, struct qp_err *err)
{
  if (b->rc == QP_TOOBIG)
    return qp__fail(err, QP_TOOBIG, "%s is over its limit of %zu bytes", what, b->limit);
  if (b->rc)
    return qp__fail_nomem(err, what);
  return QP_OK;
}

char *
qp__buf_take(struct qp__buf *b, size_t *len)
{
  char *data = b->data;

  if (!data)
    data = qp__alloc0(1, 1);
  if (len)
    *len = b->len;
  b->data = NULL;
  b->len = 0;
  b->cap = 0;
  b->rc = QP_OK;
  return data;
}

enum qp_rc
qp__buf_return(struct qp__buf *b, enum qp_rc rc, const char *what, char **out, size_t *len,
               struct qp_err *err)
{
  char *data = NULL;
  size_t n = 0;

  if (!rc)
    rc = qp__buf_check(b, what, err);
  if (!rc && !(data = qp__buf_take(b, &n)))
    rc = qp__fail_nomem(err, what);
  qp__buf_release(b);
  if (rc)
    return rc;
  *out = data;
  if (len)
    *len = n;
  return QP_OK;
}

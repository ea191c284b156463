/* pg_value.c - values in PostgreSQL's binary format: parameters, arrays, columns of a result. */
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "store/postgres/pg_link.h"

#define ARRAY_HEADER 20 /* dimensions, whether there are NULLs, type, length, first index */
#define ARRAY_MAX ((size_t)1 << 30)

static void
put_number(uint8_t *out, uint64_t n, size_t size)
{
  for (size_t i = 0; i < size; i++)
    out[i] = (uint8_t)(n >> 8 * (size - 1 - i));
}

/* ---- parameters ---- */

static void
add(struct qp__pg_call *c, const void *data, size_t len)
{
  QP_ASSERT(c->count < QP__PG_PARAMS && len <= INT_MAX);
  c->values[c->count] = data;
  c->lengths[c->count++] = (int)len;
}

void
qp__pg_add_uuid(struct qp__pg_call *c, const struct qp_uuid *id)
{
  add(c, id->b, sizeof(id->b));
}

void
qp__pg_add_bytes(struct qp__pg_call *c, struct qp_bytes bytes)
{
  add(c, bytes.data ? bytes.data : "", bytes.len);
}

void
qp__pg_add_text(struct qp__pg_call *c, const char *text)
{
  add(c, text, text ? strlen(text) : 0);
}

static void
add_number(struct qp__pg_call *c, int64_t n, size_t size)
{
  uint8_t *at = c->numbers[c->count];

  put_number(at, (uint64_t)n, size);
  add(c, at, size);
}

void
qp__pg_add_int8(struct qp__pg_call *c, int64_t n)
{
  add_number(c, n, 8);
}

void
qp__pg_add_int2(struct qp__pg_call *c, int n)
{
  add_number(c, n, 2);
}

void
qp__pg_add_bool(struct qp__pg_call *c, bool b)
{
  add_number(c, b, 1);
}

void
qp__pg_add_float8(struct qp__pg_call *c, double x)
{
  int64_t bits;

  memcpy(&bits, &x, sizeof(bits));
  add_number(c, bits, 8);
}

/* ---- arrays ---- */

void
qp__pg_array_init(struct qp__pg_array *a, enum qp__pg_type type)
{
  qp__buf_init(&a->buf, ARRAY_MAX);
  a->type = type;
  a->count = 0;
}

void
qp__pg_array_reset(struct qp__pg_array *a)
{
  qp__buf_reset(&a->buf);
  a->count = 0;
}

void
qp__pg_array_release(struct qp__pg_array *a)
{
  qp__buf_release(&a->buf);
}

void
qp__pg_array_add(struct qp__pg_array *a, const void *data, size_t len)
{
  static const uint8_t header[ARRAY_HEADER];
  uint8_t size[4];

  put_number(size, data ? len : UINT32_MAX, 4);
  if (!a->count)
    (void)qp__buf_add(&a->buf, header, sizeof(header));
  (void)qp__buf_add(&a->buf, size, 4);
  if (data && len)
    (void)qp__buf_add(&a->buf, data, len);
  a->count++;
}

void
qp__pg_array_add_int(struct qp__pg_array *a, int64_t n)
{
  size_t size = a->type == QP__PG_INT8   ? 8
                : a->type == QP__PG_INT4 ? 4
                : a->type == QP__PG_INT2 ? 2
                                         : 1;
  uint8_t bytes[8];

  put_number(bytes, (uint64_t)n, size);
  qp__pg_array_add(a, bytes, size);
}

void
qp__pg_array_add_float(struct qp__pg_array *a, double x)
{
  uint8_t bytes[8];
  uint64_t bits;

  memcpy(&bits, &x, sizeof(bits));
  put_number(bytes, bits, sizeof(bytes));
  qp__pg_array_add(a, bytes, sizeof(bytes));
}

enum qp_rc
qp__pg_add_array(struct qp__pg_call *c, struct qp__pg_array *a, struct qp_err *err)
{
  static const uint8_t header[ARRAY_HEADER];
  uint8_t *h;
  enum qp_rc rc;

  if (!a->count) { /* an empty array has no dimension */
    qp__buf_reset(&a->buf);
    (void)qp__buf_add(&a->buf, header, ARRAY_HEADER);
  }
  rc = qp__buf_check(&a->buf, "a transaction", err);
  if (rc)
    return rc;
  h = (uint8_t *)a->buf.data;
  put_number(h, a->count > 0, 4);
  put_number(h + 4, a->count > 0, 4);
  put_number(h + 8, (uint64_t)a->type, 4);
  put_number(h + 12, a->count, 4);
  put_number(h + 16, 1, 4);
  add(c, a->buf.data, a->count ? a->buf.len : 12);
  return QP_OK;
}

/* ---- results ---- */

struct qp_bytes
qp__pg_value(const PGresult *r, int row, int column)
{
  struct qp_bytes bytes = { NULL, 0 };

  if (!PQgetisnull(r, row, column)) {
    bytes.data = PQgetvalue(r, row, column);
    bytes.len = (size_t)PQgetlength(r, row, column);
  }
  return bytes;
}

int64_t
qp__pg_int(const PGresult *r, int row, int column)
{
  struct qp_bytes v = qp__pg_value(r, row, column);
  uint64_t n = 0;

  for (size_t i = 0; i < v.len && i < 8; i++)
    n = n << 8 | (uint8_t)v.data[i];
  switch (v.len) {
  case 2:
    return (int16_t)n;
  case 4:
    return (int32_t)n;
  default:
    return (int64_t)n;
  }
}

double
qp__pg_float(const PGresult *r, int row, int column)
{
  int64_t bits = qp__pg_int(r, row, column);
  double x;

  memcpy(&x, &bits, sizeof(x));
  return x;
}

bool
qp__pg_uuid(const PGresult *r, int row, int column, struct qp_uuid *out)
{
  struct qp_bytes v = qp__pg_value(r, row, column);

  if (v.len != sizeof(out->b))
    return false;
  memcpy(out->b, v.data, sizeof(out->b));
  return true;
}

/* sse.c - see sse.h. A line that is complete in one block of input is used in place; only lines
 * that are split between blocks are copied. */
#include "base/sse.h"

#include <string.h>

#include "base/err.h"

static const char bom[] = { '\xef', '\xbb', '\xbf' };
enum { BOM_OVER = sizeof(bom) };

#define RETRY_MAX_MS 3600000

void
qp__sse_init(struct qp__sse *sse, size_t limit)
{
  memset(sse, 0, sizeof(*sse));
  qp__buf_init(&sse->line, limit);
  qp__buf_init(&sse->name, limit);
  qp__buf_init(&sse->data, limit);
  sse->limit = limit;
  sse->retry_ms = -1;
}

void
qp__sse_release(struct qp__sse *sse)
{
  qp__buf_release(&sse->line);
  qp__buf_release(&sse->name);
  qp__buf_release(&sse->data);
}

void
qp__sse_restart(struct qp__sse *sse)
{
  qp__buf_reset(&sse->line);
  qp__buf_reset(&sse->name);
  qp__buf_reset(&sse->data);
  sse->bom = 0;
  sse->has_data = false;
  sse->was_cr = false;
}

static enum qp_rc
end_event(struct qp__sse *sse, qp__sse_fn *fn, void *arg, struct qp_err *err)
{
  struct qp__sse_event event = { qp__buf_bytes(&sse->name), qp__buf_bytes(&sse->data) };
  enum qp_rc rc = sse->has_data ? fn(arg, &event, err) : QP_OK;

  qp__buf_reset(&sse->name);
  qp__buf_reset(&sse->data);
  sse->has_data = false;
  return rc;
}

static bool
is_field(const char *line, size_t n, const char *name)
{
  return n == strlen(name) && memcmp(line, name, n) == 0;
}

static void
take_id(struct qp__sse *sse, const char *value, size_t n)
{
  if (n >= sizeof(sse->id) || (n && memchr(value, 0, n)))
    n = 0;
  memcpy(sse->id, value, n);
  sse->id[n] = 0;
}

/* Ignores anything except a few digits. */
static void
take_retry(struct qp__sse *sse, const char *value, size_t n)
{
  int64_t ms = 0;

  if (n == 0 || n > 9)
    return;
  for (size_t i = 0; i < n; i++) {
    if (value[i] < '0' || value[i] > '9')
      return;
    ms = ms * 10 + (value[i] - '0');
  }
  sse->retry_ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
}

/* Handles one line without its end. */
static enum qp_rc
take_line(struct qp__sse *sse, const char *line, size_t n, qp__sse_fn *fn, void *arg,
          struct qp_err *err)
{
  const char *colon = n ? memchr(line, ':', n) : NULL;
  size_t name_len = colon ? (size_t)(colon - line) : n;
  const char *value = colon ? colon + 1 : line + n;
  size_t value_len = n - name_len - (colon ? 1 : 0);

  if (!n)
    return end_event(sse, fn, arg, err);
  if (value_len && *value == ' ') {
    value++;
    value_len--;
  }
  if (is_field(line, name_len, "data")) {
    if (sse->has_data)
      (void)qp__buf_add_char(&sse->data, '\n');
    (void)qp__buf_add(&sse->data, value, value_len);
    sse->has_data = true;
    return qp__buf_check(&sse->data, "an event of the stream", err);
  }
  if (is_field(line, name_len, "event")) {
    qp__buf_reset(&sse->name);
    (void)qp__buf_add(&sse->name, value, value_len);
    return qp__buf_check(&sse->name, "the name of an event of the stream", err);
  }
  if (is_field(line, name_len, "id"))
    take_id(sse, value, value_len);
  else if (is_field(line, name_len, "retry"))
    take_retry(sse, value, value_len);
  return QP_OK; /* a comment, or an unknown field */
}

/* Completes a line whose last part is `tail`. */
static enum qp_rc
end_line(struct qp__sse *sse, const char *tail, size_t n, qp__sse_fn *fn, void *arg,
         struct qp_err *err)
{
  enum qp_rc rc;

  if (n > sse->limit)
    return qp__fail(err, QP_TOOBIG, "a line of the stream exceeds its limit");
  if (!sse->line.len)
    return take_line(sse, tail, n, fn, arg, err);
  (void)qp__buf_add(&sse->line, tail, n);
  rc = qp__buf_check(&sse->line, "a line of the stream", err);
  if (!rc)
    rc = take_line(sse, sse->line.data, sse->line.len, fn, arg, err);
  qp__buf_reset(&sse->line);
  return rc;
}

/* The next CR or LF, or `end`. */
static const char *
find_end(const char *p, const char *end)
{
  const char *lf = memchr(p, '\n', (size_t)(end - p));
  const char *cr;

  if (!lf)
    lf = end;
  cr = memchr(p, '\r', (size_t)(lf - p));
  return cr ? cr : lf;
}

/* Skips the byte order mark, which may arrive in pieces; if it was something else, the skipped
 * bytes become part of the line. */
static const char *
skip_bom(struct qp__sse *sse, const char *p, const char *end)
{
  while (p < end && sse->bom < BOM_OVER) {
    if (*p != bom[sse->bom]) {
      (void)qp__buf_add(&sse->line, bom, sse->bom);
      sse->bom = BOM_OVER;
      return p;
    }
    sse->bom++;
    p++;
  }
  return p;
}

enum qp_rc
qp__sse_feed(struct qp__sse *sse, struct qp_bytes bytes, qp__sse_fn *fn, void *arg,
             struct qp_err *err)
{
  const char *p = bytes.data;
  const char *end = p + bytes.len;

  if (!bytes.len)
    return QP_OK;
  p = skip_bom(sse, p, end);
  while (p < end) {
    const char *stop;
    enum qp_rc rc;

    if (sse->was_cr && *p == '\n') {
      sse->was_cr = false;
      p++;
      continue;
    }
    sse->was_cr = false;
    stop = find_end(p, end);
    if (stop == end) {
      (void)qp__buf_add(&sse->line, p, (size_t)(end - p));
      return qp__buf_check(&sse->line, "a line of the stream", err);
    }
    sse->was_cr = *stop == '\r';
    rc = end_line(sse, p, (size_t)(stop - p), fn, arg, err);
    if (rc)
      return rc;
    p = stop + 1;
  }
  return qp__buf_check(&sse->line, "a line of the stream", err);
}

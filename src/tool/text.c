/* text.c - see text.h. */
#include "tool/text.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define REPLACEMENT "\xef\xbf\xbd"

enum qp_rc
qp__text_add(struct qp__buf *out, const char *data, size_t n)
{
  enum qp_rc rc = QP_OK;
  size_t at = 0;

  if (qp__utf8_ok(data, n) && !memchr(data, 0, n))
    return qp__buf_add(out, data, n);
  while (at < n && !rc) {
    size_t from = at;
    size_t len = 1;

    while (at < n && data[at] && (len = qp__utf8_len(data + at, n - at)) > 0)
      at += len;
    rc = qp__buf_add(out, data + from, at - from);
    if (!rc && at < n) {
      rc = qp__buf_add_str(out, REPLACEMENT);
      at++;
    }
  }
  return rc;
}

bool
qp__text_is_binary(const char *data, size_t n)
{
  return memchr(data, 0, n) != NULL;
}

/* ---- head and tail ---- */

void
qp__tail_init(struct qp__tail *t, size_t limit)
{
  memset(t, 0, sizeof(*t));
  t->limit = limit;
  qp__buf_init(&t->head, limit / 2);
}

void
qp__tail_release(struct qp__tail *t)
{
  qp__buf_release(&t->head);
  qp__free(t->ring);
  t->ring = NULL;
}

static void
add_ring(struct qp__tail *t, const char *data, size_t n)
{
  if (!t->ring && !t->failed) {
    t->ring_size = t->limit - t->limit / 2;
    t->ring = t->ring_size ? qp__alloc(t->ring_size) : NULL;
    t->failed = !t->ring;
  }
  t->behind += n;
  if (t->failed)
    return;
  if (n > t->ring_size) {
    data += n - t->ring_size;
    n = t->ring_size;
  }
  while (n > 0) {
    size_t room = t->ring_size - t->ring_at;
    size_t now = n < room ? n : room;

    memcpy(t->ring + t->ring_at, data, now);
    t->ring_at = (t->ring_at + now) % t->ring_size;
    data += now;
    n -= now;
  }
}

void
qp__tail_add(struct qp__tail *t, const char *data, size_t n)
{
  size_t room = t->behind ? 0 : t->head.limit - t->head.len;
  size_t now = n < room ? n : room;

  if (now && qp__buf_add(&t->head, data, now)) {
    t->failed = true;
    now = 0;
  }
  if (now < n)
    add_ring(t, data + now, n - now);
}

/* How many bytes of the head stay when the character that it ends with may be cut. */
static size_t
whole_head(struct qp_bytes head)
{
  size_t n = head.len;

  while (n > 0 && head.len - n < 3 && ((unsigned char)head.data[n - 1] & 0xc0) == 0x80)
    n--;
  return n > 0 && (unsigned char)head.data[n - 1] >= 0xc0 ? n - 1 : head.len;
}

static enum qp_rc
add_with_gap(struct qp__buf *out, struct qp_bytes head, struct qp_bytes tail, uint64_t lost)
{
  size_t skip = 0;
  enum qp_rc rc = qp__text_add(out, head.data, whole_head(head));

  while (skip < tail.len && skip < 3 && ((unsigned char)tail.data[skip] & 0xc0) == 0x80)
    skip++;
  if (!rc)
    rc = qp__buf_addf(out, "\n[… %" PRIu64 " bytes left out …]\n", lost);
  return rc ? rc : qp__text_add(out, tail.data + skip, tail.len - skip);
}

enum qp_rc
qp__tail_text(const struct qp__tail *t, struct qp__buf *out, bool *cut)
{
  struct qp_bytes head = qp__buf_bytes(&t->head);
  size_t kept = t->failed ? 0 : t->behind < t->ring_size ? (size_t)t->behind : t->ring_size;
  size_t from = kept ? (t->ring_at + t->ring_size - kept) % t->ring_size : 0;
  size_t first = t->ring_size - from < kept ? t->ring_size - from : kept;
  uint64_t lost = t->behind - kept;
  struct qp__buf
      all; /* the head too, when nothing is lost: a character may lie across the border */
  enum qp_rc rc;

  *cut = lost > 0;
  qp__buf_init(&all, head.len + kept);
  if (!lost)
    (void)qp__buf_add(&all, head.data, head.len);
  if (kept) {
    (void)qp__buf_add(&all, t->ring + from, first);
    (void)qp__buf_add(&all, t->ring, kept - first);
  }
  rc = all.rc;
  if (!rc && lost)
    rc = add_with_gap(out, head, qp__buf_bytes(&all), lost);
  else if (!rc)
    rc = qp__text_add(out, qp__buf_bytes(&all).data, all.len);
  qp__buf_release(&all);
  return rc;
}

/* fuzz_sse.c - the events of a stream do not depend on how it is split. The first byte chooses the
 * split. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum qp_rc
log_event(void *arg, const struct qp__sse_event *event, struct qp_err *err)
{
  struct qp__buf *log = arg;

  (void)qp__buf_addf(log, "%zu:", event->name.len);
  (void)qp__buf_add(log, event->name.data, event->name.len);
  (void)qp__buf_addf(log, "|%zu:", event->data.len);
  (void)qp__buf_add(log, event->data.data, event->data.len);
  return qp__buf_check(log, "the log", err);
}

/* In pieces of `piece` bytes, each a copy of its own. */
static enum qp_rc
read_all(const char *data, size_t size, size_t piece, struct qp__buf *log)
{
  struct qp__sse sse;
  enum qp_rc rc = QP_OK;

  qp__sse_init(&sse, 256);
  qp__buf_init(log, (size_t)1 << 24);
  for (size_t at = 0; !rc && at < size; at += piece) {
    size_t n = size - at < piece ? size - at : piece;
    char *copy = malloc(n);

    memcpy(copy, data + at, n);
    rc = qp__sse_feed(&sse, (struct qp_bytes){ copy, n }, log_event, log, NULL);
    free(copy);
  }
  (void)qp__buf_addf(log, "%s %lld", rc ? "" : sse.id, rc ? 0LL : (long long)sse.retry_ms);
  qp__sse_release(&sse);
  return rc;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp__buf whole;
  struct qp__buf pieces;
  enum qp_rc rc;

  if (size < 2)
    return 0;
  rc = read_all((const char *)data + 1, size - 1, size, &whole);
  if (rc && rc != QP_TOOBIG)
    abort();
  if (read_all((const char *)data + 1, size - 1, (size_t)data[0] + 1, &pieces) != rc ||
      whole.len != pieces.len || (whole.len && memcmp(whole.data, pieces.data, whole.len) != 0)) {
    (void)fprintf(stderr, "the cut makes a difference\n");
    abort();
  }
  qp__buf_release(&whole);
  qp__buf_release(&pieces);
  return 0;
}

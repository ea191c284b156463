/* buf.h - a growing byte buffer with a limit that is set at initialization.
 *
 * Invariants: len <= cap, and data[len] is 0 whenever data is not NULL. The limit applies to len. A
 * failed append leaves the content unchanged and is remembered: one qp__buf_check() after several
 * appends is enough. */
#ifndef QP_BASE_BUF_H
#define QP_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "quipu.h"

struct qp__buf {
  char *data; /* NULL until the first append */
  size_t len;
  size_t cap; /* usable bytes, without the final 0 */
  size_t limit;
  enum qp_rc rc; /* the first failure since init or reset */
};

void qp__buf_init(struct qp__buf *b, size_t limit);
void qp__buf_release(
    struct qp__buf *b);                /* also for a zeroed struct; the buffer can be used again */
void qp__buf_reset(struct qp__buf *b); /* empties, keeps the memory */

/* QP_NOMEM or QP_TOOBIG. */
enum qp_rc qp__buf_reserve(struct qp__buf *b, size_t more);
enum qp_rc qp__buf_add(struct qp__buf *b, const void *data, size_t n);
enum qp_rc qp__buf_add_str(struct qp__buf *b, const char *s);
enum qp_rc qp__buf_add_char(struct qp__buf *b, char c);
enum qp_rc qp__buf_addf(struct qp__buf *b, const char *fmt, ...) QP_PRINTF(2, 3);

/* QP_OK if no append failed; otherwise writes the error "out of memory: `what`" or "`what` is over
 * its limit". */
enum qp_rc qp__buf_check(const struct qp__buf *b, const char *what, struct qp_err *err);

/* Ownership moves to the caller (qp__free); the buffer is empty again. NULL only if an empty buffer
 * runs out of memory. */
char *qp__buf_take(struct qp__buf *b, size_t *len);

/* For a function that returns a text: the content and its length (may be NULL) move to the caller,
 * unless `rc` or the buffer is a failure, which is returned. `what` as for qp__buf_check. Releases
 * the buffer in any case. */
enum qp_rc qp__buf_return(struct qp__buf *b, enum qp_rc rc, const char *what, char **out,
                          size_t *len, struct qp_err *err);

static inline struct qp_bytes
qp__buf_bytes(const struct qp__buf *b)
{
  struct qp_bytes bytes = { b->data ? b->data : "", b->len };

  return bytes;
}

#endif

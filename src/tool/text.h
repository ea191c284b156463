/* text.h - text for a model: always UTF-8, never longer than its limit. */
#ifndef QP_TOOL_TEXT_H
#define QP_TOOL_TEXT_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends bytes; those that are not UTF-8, and NUL, become U+FFFD each. */
enum qp_rc qp__text_add(struct qp__buf *out, const char *data, size_t n);

/* Whether a file that begins with these bytes is binary: it has a NUL byte. */
bool qp__text_is_binary(const char *data, size_t n);

/* The beginning and the end of a long output, and how much is missing between them. At most
 * `limit` bytes are held; a zeroed struct with a limit is empty. */
struct qp__tail {
  size_t limit;
  struct qp__buf head; /* the first half of the limit */
  char *ring;          /* the last bytes behind the head */
  size_t ring_size;
  size_t ring_at;  /* where the next byte is put */
  uint64_t behind; /* bytes after the head was full */
  bool failed;     /* no memory: only the head counts */
};

void qp__tail_init(struct qp__tail *t, size_t limit);
void qp__tail_release(struct qp__tail *t);
void qp__tail_add(struct qp__tail *t, const char *data, size_t n);
/* Appends the held bytes as text, with a note in place of what is missing. *cut: something is
 * missing. */
enum qp_rc qp__tail_text(const struct qp__tail *t, struct qp__buf *out, bool *cut);

#endif

/* sse.h - server-sent events out of bytes that come in pieces of any size.
 *
 * As the HTML standard says: lines end in LF, CRLF or CR; a blank line ends an event; several data
 * lines are joined by LF; one space behind the colon is dropped; a line that begins with a colon is
 * a comment; a byte order mark at the very beginning is skipped; an event without data is none. An
 * event that the stream's end cuts off is never told. The last "id" and "retry" are kept for
 * those who want to go on where a stream broke off. */
#ifndef QP_BASE_SSE_H
#define QP_BASE_SSE_H

#include "base/buf.h"

#define QP__SSE_ID 256 /* a longer id, or one with a NUL, is taken as none */

struct qp__sse_event {
  struct qp_bytes name; /* of the "event" field; may be empty */
  struct qp_bytes data;
};

/* Borrowed until it returns. An answer other than QP_OK ends the feeding and is returned. */
typedef enum qp_rc qp__sse_fn(void *arg, const struct qp__sse_event *event, struct qp_err *err);

struct qp__sse {
  struct qp__buf line; /* the beginning of a line whose end has not come */
  struct qp__buf name;
  struct qp__buf data;
  size_t limit;
  size_t bom;          /* how many bytes of the mark have been seen; BOM_OVER once it is decided */
  bool has_data;       /* the event has a data line, perhaps an empty one */
  bool was_cr;         /* the last byte was CR: an LF that follows belongs to it */
  char id[QP__SSE_ID]; /* the last one; "": none */
  int64_t retry_ms;    /* at most an hour; -1: not told */
};

/* `limit` bounds a line and the data of an event. */
void qp__sse_init(struct qp__sse *sse, size_t limit);
void qp__sse_release(struct qp__sse *sse);
/* The stream broke off and begins again: what had no end is dropped, id and retry are kept. */
void qp__sse_restart(struct qp__sse *sse);

/* Calls `fn` for each event that these bytes complete. QP_NOMEM, QP_TOOBIG, or what `fn` said; the
 * parser must not be fed again then. */
enum qp_rc qp__sse_feed(struct qp__sse *sse, struct qp_bytes bytes, qp__sse_fn *fn, void *arg,
                        struct qp_err *err);

#endif

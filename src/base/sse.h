/* sse.h - parses server-sent events from input blocks of any size.
 *
 * As the HTML standard says: lines end with LF, CRLF or CR; a blank line ends an event; several
 * data lines are joined by LF; one space after the colon is removed; a line that begins with a
 * colon is a comment; a byte order mark at the beginning is skipped; an event without data is
 * ignored. An incomplete event at the end of the stream is never delivered. The last "id" and
 * "retry" are kept for clients that reconnect. */
#ifndef QP_BASE_SSE_H
#define QP_BASE_SSE_H

#include "base/buf.h"

#define QP__SSE_ID 256 /* a longer id, or one with a NUL, is ignored */

struct qp__sse_event {
  struct qp_bytes name; /* the "event" field; may be empty */
  struct qp_bytes data;
};

/* Borrowed until the function returns. A result other than QP_OK stops the parser and is
 * returned. */
typedef enum qp_rc qp__sse_fn(void *arg, const struct qp__sse_event *event, struct qp_err *err);

struct qp__sse {
  struct qp__buf line; /* the beginning of an incomplete line */
  struct qp__buf name;
  struct qp__buf data;
  size_t limit;
  size_t bom;          /* bytes of the byte order mark seen so far; BOM_OVER when it is decided */
  bool has_data;       /* the event has a data line, possibly empty */
  bool was_cr;         /* the last byte was CR: an LF after it belongs to it */
  char id[QP__SSE_ID]; /* the last id; "": none */
  int64_t retry_ms;    /* at most an hour; -1: not received */
};

/* `limit` applies to a line and to the data of an event. */
void qp__sse_init(struct qp__sse *sse, size_t limit);
void qp__sse_release(struct qp__sse *sse);
/* Prepares for a new connection: drops incomplete input, keeps id and retry. */
void qp__sse_restart(struct qp__sse *sse);

/* Calls `fn` for each event that these bytes complete. QP_NOMEM, QP_TOOBIG, or the result of `fn`;
 * after a failure the parser must not be used. */
enum qp_rc qp__sse_feed(struct qp__sse *sse, struct qp_bytes bytes, qp__sse_fn *fn, void *arg,
                        struct qp_err *err);

#endif

/* event.h - the lines of a context's event log and of its idempotency keys.
 *
 * Line of an event, exactly in this form, the fields of the data behind the type:
 *   {"seq":17,"time":"2026-11-15T19:55:40.123Z","type":"state","state":"Idle"}
 * so that its number, time and type are found without reading the rest. Numbers are from 1 to
 * 2^53 - 1, which every JSON reader keeps exactly, and rise from line to line.
 *
 * Line of a key, exactly in this form; the result is any JSON value:
 *   {"key":"4711","time":"2026-11-15T19:55:40.123Z","result":{"ok":true}} */
#ifndef QP_MODEL_EVENT_H
#define QP_MODEL_EVENT_H

#include <stdbool.h>

#include "base/buf.h"
#include "quipu.h"

#define QP__EVENT_SEQ_MAX (((uint64_t)1 << 53) - 1)

/* QP_INVALID: a type, a time or data that cannot be. Appends the line with its newline. */
enum qp_rc qp__event_encode(const struct qp_event *event, uint64_t seq, int64_t now,
                            struct qp__buf *out, struct qp_err *err);

struct qp__event_head {
  uint64_t seq;
  int64_t time;
  char type[QP_EVENT_TYPE_MAX + 1];
};
/* The number that a line without its newline, or just its beginning, has; 0: it is no event. */
uint64_t qp__event_seq(struct qp_bytes line);
/* The whole line: QP_INVALID when it is no event. */
enum qp_rc qp__event_decode(struct qp_bytes line, struct qp__event_head *out, struct qp_err *err);

/* QP_INVALID, QP_TOOBIG. */
enum qp_rc qp__key_check(const char *key, struct qp_err *err);
enum qp_rc qp__key_encode(const char *key, int64_t time, struct qp_bytes result,
                          struct qp__buf *out, struct qp_err *err);

struct qp__key_line {
  char key[QP_KEY_MAX + 1];
  int64_t time;
};
/* The whole line: QP_INVALID when it has no key. The text of the result is appended to `result`
 * unless that is NULL. */
enum qp_rc qp__key_decode(struct qp_bytes line, struct qp__key_line *out, struct qp__buf *result,
                          struct qp_err *err);

#endif

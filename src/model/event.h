/* event.h - the lines of a context's event log and of its idempotency keys.
 *
 * Line of an event, exactly in this form, with the fields of the data after the type:
 *   {"seq":17,"time":"2026-11-15T19:55:40.123Z","type":"state","state":"Idle"}
 * So a reader finds number, time and type without parsing the rest. Numbers are from 1 to 2^53 - 1,
 * which every JSON reader keeps exactly, and increase from line to line.
 *
 * Line of a key, exactly in this form; the result is any JSON value:
 *   {"key":"4711","time":"2026-11-15T19:55:40.123Z","result":{"ok":true}} */
#ifndef QP_MODEL_EVENT_H
#define QP_MODEL_EVENT_H

#include <stdbool.h>

#include "base/buf.h"
#include "quipu.h"

#define QP__EVENT_SEQ_MAX (((uint64_t)1 << 53) - 1)

/* Appends the line with its newline. `trusted`: qp__json_write() wrote the data, and it is not
 * parsed. QP_INVALID: invalid type, time or data. */
enum qp_rc qp__event_encode(const struct qp_event *event, bool trusted, uint64_t seq, int64_t now,
                            struct qp__buf *out, struct qp_err *err);

struct qp__event_head {
  uint64_t seq;
  int64_t time;
  char type[QP_EVENT_TYPE_MAX + 1];
};
/* The number in a line without newline, or in the beginning of a line; 0: it is not an event. */
uint64_t qp__event_seq(struct qp_bytes line);
/* Decodes a whole line. QP_INVALID: it is not an event. */
enum qp_rc qp__event_decode(struct qp_bytes line, struct qp__event_head *out, struct qp_err *err);

/* QP_INVALID, QP_TOOBIG. */
enum qp_rc qp__key_check(const char *key, struct qp_err *err);
enum qp_rc qp__key_encode(const char *key, int64_t time, struct qp_bytes result, bool trusted,
                          struct qp__buf *out, struct qp_err *err);

struct qp__key_line {
  char key[QP_KEY_MAX + 1];
  int64_t time;
};
/* Decodes a whole line. QP_INVALID: it has no key. Appends the text of the result to `result`
 * unless that is NULL. */
enum qp_rc qp__key_decode(struct qp_bytes line, struct qp__key_line *out, struct qp__buf *result,
                          struct qp_err *err);

#endif

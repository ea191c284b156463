/* fault.h - why a call of a model failed, and what may be done about it.
 *
 * A fault is found in the status and header of the answer, in its body, in an event of the stream
 * after a good status, or on the way there. */
#ifndef QP_LLM_FAULT_H
#define QP_LLM_FAULT_H

#include <jansson.h>

#include "quipu.h"

/* X(constant, name, what may be done). */
#define QP__FAULT_MAP(X)                                                                        \
  X(NONE, "none", NONE)                                                                         \
  X(CONNECT, "connect", RETRY)       /* no connection, unknown host, TLS */                     \
  X(TIMEOUT, "timeout", RETRY)       /* no first byte, or silence in the middle */              \
  X(CUT, "cut", RETRY)               /* the stream ended without its terminator */              \
  X(PROTOCOL, "protocol", RETRY)     /* the answer violates the protocol */                     \
  X(RATE, "rate_limit", RETRY)       /* 429 */                                                  \
  X(OVERLOADED, "overloaded", RETRY) /* 529, 503 */                                             \
  X(SERVER, "server", RETRY)         /* other 5xx, 408, 409 */                                  \
  X(TOO_LONG, "too_long", COMPACT)   /* the prompt is longer than the window */                 \
  X(TOO_LARGE, "too_large", SHRINK)  /* 413: the body is larger than the provider accepts */    \
  X(HISTORY, "history", REPAIR)      /* tool calls and results do not fit together */           \
  X(THINKING, "thinking", REPAIR)    /* earlier thinking was refused; retry without it */       \
  X(IMAGES, "images", REPAIR)        /* the model does not accept images; retry without them */ \
  X(AUTH, "auth", FATAL)             /* 401, 403 */                                             \
  X(QUOTA, "quota", FATAL)           /* 402, no credit left */                                  \
  X(MODEL, "model", FATAL)           /* 404: unknown model, or unknown path */                  \
  X(REQUEST, "request", FATAL)       /* any other 4xx */                                        \
  X(INTERNAL, "internal", FATAL)     /* on our side: out of memory, over a limit */

enum qp__fault_kind {
#define QP__FAULT_ENUM(name, text, action) QP__FAULT_##name,
  QP__FAULT_MAP(QP__FAULT_ENUM)
#undef QP__FAULT_ENUM
};

enum qp__fault_action {
  QP__ACTION_NONE,
  QP__ACTION_RETRY,   /* repeat the same request after a pause */
  QP__ACTION_COMPACT, /* shorten the history, then retry once */
  QP__ACTION_SHRINK,  /* send smaller attachments */
  QP__ACTION_REPAIR,  /* repair the history, then retry once */
  QP__ACTION_FATAL,   /* a retry would fail too */
};

struct qp__llm_fault {
  enum qp__fault_kind kind;
  int status;             /* of HTTP, or 0 */
  int64_t retry_after_ms; /* what the provider asks for, or -1 */
  int64_t tokens;         /* of QP__FAULT_TOO_LONG: what was sent, or 0 */
  int64_t window;         /* and what would have fitted, or 0 */
  char code[64];          /* the provider's word for it, or "" */
  char request_id[96];    /* for a report to the provider, or "" */
  char message[320];      /* one sentence, never with a key in it */
};

/* What is known of an HTTP answer besides its body. */
struct qp__llm_head {
  int status;
  int64_t retry_after_ms; /* -1: not said */
  int should_retry;       /* of x-should-retry: 1, 0, or -1 when it is not said */
  char request_id[96];
};

void qp__llm_head_init(struct qp__llm_head *head);
/* Reads one header line; unknown headers are ignored. `now_ms` is for dates. */
void qp__llm_head_feed(struct qp__llm_head *head, struct qp_bytes name, struct qp_bytes value,
                       int64_t now_ms);

const char *qp__fault_name(enum qp__fault_kind kind);
enum qp__fault_action qp__fault_action(enum qp__fault_kind kind);

/* How long to wait before try number `attempt` + 1, from 0 on: half a second, doubled each time up
 * to eight, less a random part of up to a quarter; or what the provider asks for, and up to a
 * quarter of a second more. */
int64_t qp__fault_backoff_ms(const struct qp__llm_fault *fault, unsigned attempt, uint32_t random);

/* Fills *out; the message is cut where it is too long. */
void qp__fault_set(struct qp__llm_fault *out, enum qp__fault_kind kind, const char *fmt, ...)
    QP_PRINTF(3, 4);
/* The fault for an error of our own. */
void qp__fault_from_err(struct qp__llm_fault *out, const struct qp_err *err);

/* Judges an answer by its status and body, which may be anything. */
void qp__fault_from_reply(struct qp__llm_fault *out, const struct qp__llm_head *head,
                          struct qp_bytes body);
/* Judges an error in a stream whose status was good: the object that holds "error", or the value
 * of it. */
void qp__fault_from_value(struct qp__llm_fault *out, const struct qp__llm_head *head,
                          const json_t *value);

#endif

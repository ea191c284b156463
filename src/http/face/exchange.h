/* exchange.h - answers the wish of a client of another protocol.
 *
 * Without a context the model is asked and nothing is kept (turn/ask.h). With a context the
 * exchange is a turn of it (face_turn.h). Both feed a face (face.h), whose form writes the answer:
 * as a stream, or as one body when the answer is complete. The request is parked in the meantime;
 * no thread waits. A stream begins with the first piece of the answer, so that an error before it
 * is an HTTP error. */
#ifndef QP_HTTP_EXCHANGE_H
#define QP_HTTP_EXCHANGE_H

#include "http/face/face.h"
#include "http/face/wish.h"
#include "turn/ask.h"

struct qp__face_turn;

struct qp__exchange {
  struct qp__face face;
  struct qp__request *request; /* parked; NULL: it was told to continue */
  struct qp__stream *stream;   /* NULL: the answer is one body */
  struct qp__ask *ask;         /* one of the two */
  struct qp__face_turn *turn;
  struct qp_uuid context;     /* of a turn */
  struct qp__llm_fault fault; /* kind NONE: none */
  char **client_tools;
  /* On the engine's thread: the message that begins the turn is stored. May be NULL. True: the
   * answer is complete, its creator does not wait for the turn. */
  bool (*first)(struct qp__exchange *x, const struct qp_uuid *id);
  bool replayed;                  /* the answer is stored already: see face_turn.h */
  void (*release_own)(void *own); /* of face.own; may be NULL */
};

/* A new exchange for the request, in r->kept; freed by exchange.c, whatever happens. `id_prefix` as
 * in face.h. */
enum qp_rc qp__exchange_new(struct qp__request *r, const struct qp__face_form *form,
                            const char *id_prefix, bool streams, struct qp__exchange **out,
                            struct qp_err *err);
/* Frees an exchange that was not begun, or whose begin failed. */
void qp__exchange_drop(struct qp__request *r, struct qp__exchange *x);
/* Asks the model, without a context, and parks the request. After a failure the exchange must be
 * dropped. */
enum qp_rc qp__exchange_ask(struct qp__request *r, struct qp__exchange *x, const struct qp__wish *w,
                            struct qp_err *err);

/* ---- for face_turn.c, on the engine's thread ---- */

/* Sends what the form has written, and lets the request continue when it is time. */
void qp__exchange_flush(struct qp__exchange *x);
/* Lets the request continue, once. */
void qp__exchange_continue(struct qp__exchange *x, enum qp_rc rc, const struct qp_err *err);
/* The answer is over. */
void qp__exchange_end(struct qp__exchange *x, const struct qp__llm_fault *fault);
/* The second half of a request, for qp__work_park(). */
enum qp_rc qp__exchange_answer(struct qp__request *r, struct qp_err *err);

/* The status of a fault, and its code in the form of the request's protocol. */
enum qp_rc qp__exchange_fail(struct qp__request *r, const struct qp__llm_fault *fault,
                             struct qp_err *err);

#endif

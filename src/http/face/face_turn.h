/* face_turn.h - an exchange that is a turn of a context.
 *
 * The context is the one that the client names; it is created when the name is new. A client that
 * sends only what is new continues at the head of the active branch. A client that sends its whole
 * history is recognised (prefix.h): the turn continues behind the longest part of it that is
 * stored, on the branch that ends there or on a new one, and only the rest is stored. The settings
 * of the request (model, instructions, parameters) are those of this turn, in the metadata of the
 * message that begins it. */
#ifndef QP_HTTP_FACE_TURN_H
#define QP_HTTP_FACE_TURN_H

#include "http/face/exchange.h"

/* Finds the context that a client calls `name`, and holds it in r->held: an id of a context; "new";
 * or any other name, which stands for a context of the caller and creates it when there is none.
 * The response names its id in the header X-Quipu-Context. QP_NOTFOUND. */
enum qp_rc qp__face_context(struct qp__request *r, const char *name, struct qp_err *err);

/* The same for a context that exists. */
enum qp_rc qp__face_context_find(struct qp__request *r, const char *name, struct qp_err *err);

/* What a turn does. Everything is borrowed. */
struct qp__face_plan {
  const char *branch;        /* NULL: the active branch */
  json_t *before;            /* messages that are stored first, an array; or NULL */
  json_t *send;              /* the message that begins the turn; NULL: see below */
  json_t *results;           /* messages of tools: results of calls that wait for the client */
  json_t *tools;             /* of the client; NULL: none */
  struct qp_uuid start;      /* the message behind which the answer comes, when none is sent */
  bool again;                /* another answer to the last message */
  struct qp_uuid regenerate; /* an answer: another one to the same message */
  bool cancel;               /* ends the calls that wait first */
  const char *const *approved, *const *denied; /* calls that wait for approval */
  size_t approved_count, denied_count;
  const char *reason;
};

/* Makes the metadata of the message that begins a turn: {"request":{…}}. */
enum qp_rc qp__face_settings(struct qp__request *r, const struct qp__wish *w, bool server_tools,
                             json_t *message, struct qp_err *err);

/* Finds out where the messages of the wish belong in r->held, and makes the plan; strings are in
 * the arena, values belong to the caller: qp__face_plan_release(). */
enum qp_rc qp__face_plan_make(struct qp__request *r, const struct qp__wish *w,
                              struct qp__face_plan *plan, struct qp_err *err);
void qp__face_plan_release(struct qp__face_plan *plan);
/* The branch of r->held behind whose head a turn continues at message `at`: the branch that ends
 * there (NULL: the active one, in an empty context), or a new one. In the arena. */
enum qp_rc qp__face_branch(struct qp__request *r, const struct qp_uuid *at, const char **out,
                           struct qp_err *err);
/* A branch of r->held with a message: `preferred` if it has it, else the active one, else any. Its
 * name is in the arena; *messages is the number of its messages. QP_NOTFOUND. */
enum qp_rc qp__face_find_message(struct qp__request *r, const struct qp_uuid *id,
                                 const char *preferred, const char **branch, uint64_t *position,
                                 uint64_t *messages, struct qp_err *err);
/* A new branch that ends at `at` (none: it is empty). */
enum qp_rc qp__face_fork(struct qp__request *r, const struct qp_uuid *at, const char **out,
                         struct qp_err *err);

/* What an Idempotency-Key stands for: a digest of the request, in hexadecimal. */
#define QP__FACE_DIGEST 33
void qp__face_digest(const struct qp__request *r, char out[QP__FACE_DIGEST]);
/* *found: the same request was carried out before in r->held, with the same Idempotency-Key. Then
 * the exchange follows that turn, whether it runs or has ended, and the request is parked or
 * answered. QP_CONFLICT: the key was used for another request. Called before the plan is made. */
enum qp_rc qp__face_repeat(struct qp__request *r, struct qp__exchange *x, const struct qp__wish *w,
                           bool *found, struct qp_err *err);

/* Begins the turn in r->held and parks the request. After a failure the exchange must be
 * dropped. */
enum qp_rc qp__face_turn_run(struct qp__request *r, struct qp__exchange *x,
                             struct qp__face_plan *plan, struct qp_err *err);
/* All of the above, for protocols without state of their own. */
enum qp_rc qp__face_turn_begin(struct qp__request *r, struct qp__exchange *x,
                               const struct qp__wish *w, struct qp_err *err);
/* Follows the turn in r->held whose first message is the event behind number `after`. The answer
 * ends where the turn stops for the first time behind event `rest_after`. */
enum qp_rc qp__face_turn_follow(struct qp__request *r, struct qp__exchange *x, uint64_t after,
                                uint64_t rest_after, struct qp_err *err);
/* The number of the event that tells of a message in r->held; 0: the log does not have it. *newest
 * is that of the newest durable event. */
uint64_t qp__face_find_event(struct qp__request *r, const struct qp_uuid *message,
                             uint64_t *newest);

/* The turn itself continues. NULL is allowed. */
void qp__face_turn_free(struct qp__face_turn *turn);

/* The action was executed before, with the same Idempotency-Key: feeds the stored answer and ends
 * the exchange. QP_CONFLICT: it is not complete yet. */
enum qp_rc qp__face_turn_replay(struct qp__exchange *x, struct qp_err *err);

/* Feeds the stored answer behind message `first` of a branch to the face. */
enum qp_rc qp__face_stored(struct qp__exchange *x, struct qp_context *context, const char *branch,
                           const struct qp_uuid *first, struct qp_err *err);
/* Feeds a stored message of an answer to a face: an answer, or the result of a tool. */
enum qp_rc qp__face_message(struct qp__face *f, const struct qp_message *message,
                            struct qp_err *err);

#endif

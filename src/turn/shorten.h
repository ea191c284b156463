/* shorten.h - a compaction being made: from the plan to the record that a transition commits.
 *
 *   worker   reads the conversation, plans, reads the messages that the narrative is made from,
 *            writes what the summariser is asked; a prepared summary ends it here
 *   loop     asks the summariser, part by part, once more after a failure
 *   worker   checks and cleans the narrative, or writes one without a model; makes the ledger
 *   loop     writes the record; the actor commits it
 *
 * An actor has one at a time (`shortening`): for the turn that waits in Compacting, for a person
 * who asked, or ahead of need. Dropping one is always safe: nothing is stored before the end. */
#ifndef QP_TURN_SHORTEN_H
#define QP_TURN_SHORTEN_H

#include "compact/ledger.h"
#include "llm/answer.h"
#include "turn/conversation.h"

enum qp__shorten_purpose {
  QP__SHORTEN_TURN,    /* the turn waits */
  QP__SHORTEN_REQUEST, /* a person asked; no turn waits */
  QP__SHORTEN_PREPARE, /* ahead of need */
};

enum qp__shorten_phase {
  QP__SHORTEN_PLANNING, /* in a worker */
  QP__SHORTEN_PLANNED,  /* there is something to do: qp__shorten_go_on() */
  QP__SHORTEN_ASKING,   /* the summariser */
  QP__SHORTEN_CLOSING,  /* in a worker */
  QP__SHORTEN_DONE,
};

struct qp__shortening {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  struct qp__action_request *request; /* that waits for the plan, or NULL; owned */
  enum qp__shorten_purpose purpose;
  enum qp__shorten_phase phase;
  enum qp__plan_reason reason;
  unsigned attempt;   /* of the present request to the summariser */
  bool dropped;       /* nobody waits: free it when the worker has ended */
  bool without_model; /* no model may be asked */
  bool has_record;    /* else nothing is to be done */
  bool asking;        /* `answer` is in use */
  bool failed;        /* the summariser, twice; `failure` says why */

  /* What is asked for. */
  struct qp_uuid up_to; /* the last message that may be covered, or none */
  const char *instructions;
  int64_t refused_tokens, refused_window; /* as the provider said; 0: unknown */

  /* The plan. */
  struct qp__conversation conversation;
  struct qp__plan_input input;
  struct qp__plan plan;
  struct qp__record record; /* strings are in the conversation's arena */
  size_t kept;              /* messages that are sent as they are */

  /* The summariser; NULL: the built-in one. */
  const struct qp__llm_provider *provider;
  const char *model_name;
  const struct qp__model *model;
  int64_t room, budget;   /* of a request; of the narrative */
  struct qp__buf *bodies; /* of the requests for the parts of the transcript */
  struct qp__buf *parts;  /* their answers */
  size_t part_count, answered;
  size_t merged; /* parts that the present request merges; 0: it is one of the bodies */
  struct qp__answer answer;
  struct qp__llm_call *call;
  struct qp__buf narrative;

  /* Results. */
  char failure[320];
  uint64_t tokens;
  int64_t cost;
  struct qp__buf text; /* of the record */
  struct qp_err err;
};

/* Begins one for the actor's branch or `branch`. NULL: no memory, or no worker. */
struct qp__shortening *qp__shorten_new(struct qp__actor *t, enum qp__shorten_purpose purpose,
                                       const char *branch);
/* Starts the worker. False: it could not be started; the caller still has it. */
bool qp__shorten_start(struct qp__shortening *s);
/* After PLANNED. */
void qp__shorten_go_on(struct qp__shortening *s);
/* It is not needed any more; frees it, or has its worker do so. NULL is allowed. */
void qp__shorten_drop(struct qp__shortening *s);

/* In any thread but the engine's: only the plan, and with it the summary that the built-in
 * summariser would write. */
enum qp_rc qp__shorten_preview(struct qp__shortening *s, struct qp_err *err);
/* Frees what it has, not itself. */
void qp__shorten_release(struct qp__shortening *s);

/* Calls the actor back, on the loop, when the phase is PLANNED (of a request) or DONE. In
 * compacting.c. */
void qp__actor_shortened(struct qp__actor *t, struct qp__shortening *s);

#endif

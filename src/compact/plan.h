/* plan.h - whether a conversation is compacted now, how, and where it is cut.
 *
 * The input is the present view as a list of small items, one per message behind the last
 * compaction, and the sizes of everything that is sent beside them. The output says what to do;
 * nothing is done here. The rules:
 *
 *  (1) Nothing happens below the threshold (80 % of the window), unless the user asks or the
 *      provider has refused the request as too long. Mode "manual" waits for the user, mode "off"
 *      for nobody.
 *  (2) The steps, each only if the one before does not bring the view to the target (60 %):
 *      a. Old tool outputs become stubs. The last two turns and the newest 40,000 tokens (a fifth
 *         of a small window) keep theirs. Only when that saves at least 20,000 tokens (a tenth of a
 *         small window), because it makes the provider's prompt cache useless once.
 *      b. All messages before the cut are covered by a summary.
 *      c. Tool outputs and images behind the cut become stubs too, the newest with as much of their
 *         beginning and end as fits, and the cut moves forward inside the last turn.
 *  (3) The cut is at a turn boundary: the first kept message is the user's. 6 messages are kept,
 *      but not more than 20,000 tokens or a quarter of the window. Only when the last turn is
 *      larger than that, the cut is inside it; then the user's message of that turn is *carried*:
 *      sent behind the summary as it was.
 *  (4) A cut never parts a tool call from any of its results.
 *  (5) System prompt, tools, pinned messages, the summary and the last user message are never
 *      shortened. If they do not fit, the plan is QP__PLAN_TOO_LONG and says which part is large.
 *  (6) A plan that frees nothing is QP__PLAN_NONE. The same content is not compacted twice: the
 *      caller passes the head at which it was last tried.
 *  (7) After three failures of the summariser in a row, plans say `without_model`: the built-in
 *      summariser is used, no model is called (the breaker).
 *
 * After a plan is carried out the view has at most `after` tokens, provided that the summary keeps
 * to `summary_budget`. */
#ifndef QP_COMPACT_PLAN_H
#define QP_COMPACT_PLAN_H

#include "compact/count.h"

#define QP__PLAN_FAILURES 3      /* open the breaker */
#define QP__PLAN_STUB_TOKENS 160 /* at most, of the stub of a message */
#define QP__PLAN_FRAME_TOKENS \
  120 /* around a summary, beside its budget; the same for recalled text */
#define QP__PLAN_QUOTE_TOKENS 30 /* around a covered call or result that is pinned */
#define QP__PLAN_NONE_AT SIZE_MAX

enum qp__plan_mode { QP__PLAN_AUTO, QP__PLAN_MANUAL, QP__PLAN_OFF };

/* Settings of a context. */
struct qp__plan_policy {
  enum qp__plan_mode mode;
  int threshold;          /* percent of the window at which auto compacts */
  int prepare;            /* percent from which a summary is prepared in the background */
  int target;             /* percent of the window that a compaction must reach */
  size_t keep;            /* messages */
  int64_t keep_tokens;    /* at most, and at most a quarter of the window */
  size_t protect_turns;   /* the last turns keep their tool outputs in step a */
  int64_t protect_tokens; /* so do the newest tokens, at most a fifth of the window */
  int64_t batch_tokens;   /* step a must save this much, at most a tenth of the window */
};
extern const struct qp__plan_policy qp__plan_default;

enum qp__plan_kind {
  QP__ITEM_USER,
  QP__ITEM_ASSISTANT, /* without calls */
  QP__ITEM_CALL,      /* an answer that calls tools */
  QP__ITEM_RESULT,
  QP__ITEM_NOTE, /* a system message */
};

struct qp__plan_item {
  struct qp_uuid id;
  enum qp__plan_kind kind;
  bool pinned;
  size_t caller;       /* of a result: the item that called, or QP__PLAN_NONE_AT */
  int64_t tokens;      /* as it is sent now */
  int64_t stub_tokens; /* with stubs for tool output and images; `tokens` when there are none */
};

enum qp__plan_reason {
  QP__REASON_CHECK,    /* before a call of the model */
  QP__REASON_REQUEST,  /* the user asked for it */
  QP__REASON_OVERFLOW, /* the provider refused the request as too long */
};

struct qp__plan_input {
  const struct qp__plan_policy *policy;
  enum qp__plan_reason reason;
  int64_t window;
  int64_t reserve; /* for the answer */
  int64_t system;
  int64_t tools;
  int64_t pins;    /* pinned messages and a carried message that earlier compactions cover */
  int64_t summary; /* of earlier compactions, replaced by a new one */
  int64_t used;    /* all of it as anchored on the provider's report; 0: the sum of the sizes */
  const struct qp__plan_item *items;
  size_t count;
  size_t up_to;             /* of QP__REASON_REQUEST: cover at most so many items; 0: as usual */
  struct qp_uuid last_head; /* the last item when compaction was last tried, or none */
  unsigned failures;        /* of the summariser, in a row */
};

enum qp__plan_action {
  QP__PLAN_NONE,
  QP__PLAN_STUB,      /* step a: `edits` */
  QP__PLAN_SUMMARISE, /* step b, with `edits` also step c */
  QP__PLAN_TRIM,      /* step c alone: nothing can be covered */
  QP__PLAN_TOO_LONG,  /* it cannot fit, or must not be compacted */
};

enum qp__plan_why {
  QP__WHY_BELOW,       /* the threshold is not reached */
  QP__WHY_OFF,         /* compaction is off */
  QP__WHY_MANUAL,      /* the user has not asked */
  QP__WHY_NOTHING_NEW, /* it was tried at this head already */
  QP__WHY_NO_GAIN,     /* nothing can be covered, or the summary would be as large */
  QP__WHY_THRESHOLD,
  QP__WHY_REQUEST,
  QP__WHY_OVERFLOW,
  QP__WHY_FIXED, /* the parts that are never shortened do not fit */
};
const char *qp__plan_why_name(enum qp__plan_why why); /* "below_threshold", … */

/* A message whose tool output and images become a stub. */
struct qp__plan_edit {
  size_t item;
  int64_t keep; /* tokens of the beginning and the end of the output that stay; 0: none */
};

struct qp__plan {
  enum qp__plan_action action;
  enum qp__plan_why why;
  bool prepare;                /* a summary should be prepared in the background */
  bool without_model;          /* the breaker is open */
  size_t cut;                  /* items that the summary covers */
  size_t carry;                /* the covered item that is sent as it was, or QP__PLAN_NONE_AT */
  struct qp__plan_edit *edits; /* behind the cut; in the arena */
  size_t edit_count;
  int64_t before;         /* tokens of the view, with the reserve */
  int64_t after;          /* at most, when it is carried out */
  int64_t summary_budget; /* tokens for narrative and ledger together */
};

/* The tokens of a message, which never change. */
struct qp__plan_size {
  struct qp__count count;
  int64_t recall; /* of the text that is sent before it (compact/assemble.h); 0: none */
};
void qp__plan_measure(const struct qp_message *message, struct qp__plan_size *out);

/* Describes messages as items, in the arena. `sizes` are theirs; NULL: they are measured here.
 * `pinned` and `stubbed` (both may be NULL) answer for the i-th message. Messages that are stubs
 * already must be given as `stubbed`. QP_NOMEM. */
typedef bool qp__plan_ask(void *arg, size_t i);
enum qp_rc qp__plan_items(const struct qp_message *const *messages,
                          const struct qp__plan_size *sizes, size_t count, qp__plan_ask *pinned,
                          qp__plan_ask *stubbed, void *arg, struct qp__arena *arena,
                          struct qp__plan_item **out, struct qp_err *err);

/* QP_OK for every action, also QP__PLAN_TOO_LONG. QP_NOMEM. */
enum qp_rc qp__plan_make(const struct qp__plan_input *input, struct qp__arena *arena,
                         struct qp__plan *out, struct qp_err *err);

/* The error of QP__PLAN_TOO_LONG: QP_TOOBIG with the size of every part. */
enum qp_rc qp__plan_too_long(const struct qp__plan_input *input, const struct qp__plan *plan,
                             struct qp_err *err);

#endif

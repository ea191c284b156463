/* actor.h - one context in the engine: its state, its inbox, and the function that changes its
 * state.
 *
 * The engine has one actor per context that it works on. Everything that concerns the context is an
 * input: an action of a client, an event of the model or of a tool, a timer. Inputs wait in the
 * inbox, in order. The next one is processed when no transition of this context is being committed.
 * qp__actor_apply() finds the transition in the table of fsm.h and makes one commit of everything
 * that belongs to it: the new state with its detail, the messages, the lines of the event log, the
 * idempotency key of the action. When the commit is durable, the state changes, subscribers and
 * clients are informed, and the step of the transition begins. A step starts work and never calls
 * apply; the result of the work is a new input.
 *
 * (1) `state` is written by one function (enter in actor.c), which asserts that the table has the
 *     transition and logs it at debug level: "context ID: Idle -> ProcessingUserMessage
 *     (send_message)".
 * (2) Nothing outside begins before its reason is durable: the user's message before the model is
 *     called, the decision about a tool before the tool runs.
 * (3) Work belongs to a state: a model call to AwaitingLLMResponse, GeneratingResponse and
 *     StreamingLLMResponse, tools to ExecutingTools, the timer to TransientFailure, a compaction to
 *     Compacting, unless it is prepared ahead of need. A transition to
 *     another state ends it. Work has a number; inputs of work that has ended are recognised by it
 *     and dropped.
 * (4) An input that the table does not have in the present state changes nothing. An action is
 *     answered with QP_CONFLICT and the state.
 * (5) When a commit fails, the failure is logged with the context and the state, its action is
 *     answered with it, and the context becomes Failed. When even that cannot be saved, it is
 *     Failed in memory only; the next engine recovers the stored state.
 * (6) When a step only saves, the next transition is known before the first is durable: after the
 *     message is saved, the model is called. Then both are staged at once, `earlier` before
 *     `transition`. They are two commits that share one sync. Neither is entered before it is
 *     durable, and when `earlier` fails, `transition` fails too: the journal accepts nothing
 *     after a commit that it has lost.
 *
 * qp__actor_violation() checks these rules. Checked builds call it after each pump.
 *
 * "state_detail" of the metadata; a field is present only where it has a meaning:
 *
 *   {"branch":"main","rounds":1,"calls":2,"tokens":900,"cost_usd":0.01,     the turn so far
 *    "error":{"kind":"rate_limit","message":"…","status":429},             Failed, TransientFailure
 *    "attempt":1,"retry_at":"…",                                           TransientFailure
 *    "reason":"threshold","alone":true,                                    Compacting
 *    "decisions":{"call_1":{"approval":"Denied","reason":"…"}},            AwaitingToolApproval …
 *    "pending":[{"id":"…","tool_name":"…","kind":"approval"},              AwaitingToolApproval
 *               {"id":"…","tool_name":"…","kind":"client","arguments":…}]}
 *
 * and "usage" beside it: {"tokens":…,"cost_usd":…} of all turns of the context. */
#ifndef QP_TURN_ACTOR_H
#define QP_TURN_ACTOR_H

#include "base/arena.h"
#include "compact/count.h"
#include "compact/plan.h"
#include "llm/answer.h"
#include "llm/models.h"
#include "turn/engine.h"
#include "turn/feed.h"
#include "turn/fsm.h"

struct qp__action_request;
struct qp__adjustment;
struct qp__branch;
struct qp__shortening;
struct qp__view_change;

/* An error, as it is stored in the state's detail. */
struct qp__turn_error {
  char kind[32];     /* "": no error */
  char message[320]; /* one sentence */
  int status;        /* of HTTP, or 0 */
};

/* One entry of the inbox. */
struct qp__input {
  struct qp__input *next;
  bool in_use;    /* of those that are part of struct qp__actor_open */
  bool is_action; /* `request` was not looked at yet, and `event` is not known */
  enum qp__turn_event event;
  uint64_t number;                    /* of the work that sent it; 0: no work did */
  struct qp__action_request *request; /* its action, or NULL; owned. It may contain the input */
  struct qp__turn_error error;
  struct qp_err failure;  /* of SAVE_FAILED, and of an action whose rules could not be stored */
  int64_t retry_after_ms; /* -1: unknown */
  /* Of actions that begin a branch. */
  const char *activate;   /* becomes the active branch, or NULL; in the request's arena */
  bool fork;              /* it is created first */
  struct qp_uuid fork_at; /* none: an empty branch */
};

/* What a worker does for an action before it can be applied: storing the rules of the answer
 * "always" (tool/grant.h), planning a compaction, reading its records, recalling messages. */
enum qp__rules_phase {
  QP__RULES_NONE,
  QP__RULES_STORED, /* it is done */
  QP__RULES_FAILED, /* `failure` of the input says why */
};

/* An action of a client, from qp_engine_act() to its callback. */
struct qp__action_request {
  struct qp__post post; /* first */
  struct qp__input input;
  struct qp__action_request *next; /* while it waits for the end of the turn */
  struct qp_action a;              /* strings are in the arena */
  struct qp__arena arena;
  struct qp_message *message; /* to be saved, or NULL */
  json_t *tools;              /* of the client for this turn, or NULL: those of the context */
  json_t *edits;              /* changed arguments by the ids of calls, or NULL */
  json_t *values;             /* of the submitted results, an array; or NULL */
  enum qp__rules_phase rules;
  struct qp__shortening *shortening; /* of COMPACT, once it is planned; owned */
  struct qp__adjustment *adjustment; /* of UNDO_COMPACT and the like, once it is made; owned */
  char digest[33];                   /* of the action's content, in hexadecimal */
  qp_action_fn *done;
  void *arg;
  /* Results. */
  struct qp_uuid saved;
  char *branch;       /* that the action applies to; in the arena */
  char *stored_rules; /* a JSON array; in the arena; or NULL */
  bool replayed;
};

/* A tool call of the present answer. */
struct qp__actor_call {
  char *id, *name, *arguments;
  enum qp_display display;
  enum qp_approval approval;   /* PENDING: not decided */
  bool by_policy;              /* decided without asking a person */
  bool client;                 /* the client runs it: PENDING until its result is submitted */
  char *reason;                /* of the denial, or NULL */
  char *original;              /* the arguments before a person changed them, or NULL */
  json_t *preview;             /* what it will do (tool/tool.h), or NULL */
  char base[QP__PREVIEW_BASE]; /* of the file that was shown; "": none */
  bool stored;                 /* its result is in a stored message */
  json_t *result;              /* NULL: none yet */
  bool is_error;
  uint64_t ms;
  struct qp__actor_run *run; /* while it runs */
};

/* What a turn has used. Costs are in millionths of a millionth of a dollar (models.h). */
struct qp__turn_count {
  uint64_t rounds, calls, tokens;
  int64_t cost;
};

/* What is known of a turn beside its state; stored in the state's detail. */
struct qp__turn_facts {
  struct qp__turn_error error;
  struct qp__turn_count count, total; /* of this turn; of the context */
  unsigned attempt;                   /* failed attempts of the present model call */
  int64_t retry_at;
  uint64_t answer_seq; /* the first event of the present answer in the log; 0: none */
  bool alone;          /* Compacting: no turn waits for it */
  bool overflowed;     /* the history was compacted because the provider had refused the request */
  char *branch;        /* of the turn; NULL: not known yet */
};

/* The end of a commit, posted by a thread of the store. Those of transitions are part of struct
 * qp__actor_open; those of streamed lines are allocated, because several may be under way. */
struct qp__commit_notice {
  struct qp__post post; /* first */
  struct qp__actor *actor;
  struct qp_err err;
  uint64_t first_seq, last_seq;
};

/* The callback of a commit; `arg` is its notice, which is posted. */
void qp__commit_notice_post(void *arg, enum qp_rc rc, const struct qp_err *err);

/* A transition from the lookup in the table to the end of its commit. */
struct qp__pending_transition {
  bool under_way;
  struct qp__commit_notice *notice; /* of its commit; one of struct qp__actor_open */
  struct qp__transition to;
  enum qp__turn_event event;
  struct qp__action_request *request; /* owned, or NULL */
  struct qp_err failure;              /* of SAVE_FAILED: the action is answered with it */
  struct qp__turn_facts facts;        /* become the actor's when it is durable */
  struct qp_message **messages;       /* owned */
  size_t message_count, message_cap;
  json_t *patch;
  const char *activate; /* a branch that becomes the active one, or NULL; borrowed */
  bool fork;            /* it is created at fork_at (none: empty) first */
  struct qp_uuid fork_at;
  const char *key; /* of the action, or NULL; borrowed from it */
  struct qp_bytes key_result;
  struct qp__view_change *view; /* of compaction; owned, or NULL */
  uint64_t first_seq, last_seq; /* of the lines that it commits; 0: none */
  uint64_t own_seq;             /* lines before it were streamed, and waited for a commit */
  bool paused;                  /* of an answer: the provider wants to be called again */
};

/* The present model call. */
struct qp__actor_asked {
  const struct qp__llm_provider *provider; /* the engine's */
  char model[160];                         /* the provider's name of it */
  size_t body_bytes;                       /* of the request */
  size_t all_bytes;                        /* of the messages behind the covered part */
  int64_t tokens, window;                  /* of a request that is too long, as reported; or 0 */
  struct qp__budget budget;                /* of the request, as estimated */
  int64_t summary_tokens;                  /* of it */
};

/* What an actor needs only while its context is open. Most actors in memory have subscribers and
 * nothing to do: they do without. */
struct qp__actor_open {
  struct qp__turn_facts facts;
  struct qp__answer answer;                 /* unless the answer phase is NONE */
  struct qp__actor_asked asked;             /* of the present model call */
  struct qp__input spare;                   /* most inputs need no allocation */
  struct qp__input no_memory;               /* FINAL_ERROR, for when no input can be allocated */
  struct qp__pending_transition earlier;    /* is committed before `transition`, or not under way */
  struct qp__pending_transition transition; /* the last one */
  struct qp__commit_notice notices[2];      /* of the transitions */
  struct qp__view_change *taken_over;       /* the next transition commits it, or NULL; owned */
};

enum qp__actor_stage {
  QP__ACTOR_CLOSED,    /* the context is not open */
  QP__ACTOR_OPENING,   /* a worker opens it */
  QP__ACTOR_OPEN,      /* inputs are processed */
  QP__ACTOR_RELEASING, /* qp_engine_release: no work begins; it is freed when all work has ended */
};

/* The answer of the present model call. */
enum qp__answer_phase {
  QP__ANSWER_NONE,      /* there is no model call, or it ended */
  QP__ANSWER_EXPECTED,  /* nothing of its content has arrived */
  QP__ANSWER_STREAMING, /* its content is shown to subscribers */
};

struct qp__actor {
  struct qp_engine *engine;
  struct qp_uuid id;
  struct qp__actor *chain;      /* in the engine's table */
  struct qp_context *context;   /* of the stage OPEN, and of RELEASING after OPEN; else NULL */
  struct qp__release *released; /* a list of those to wake when it is freed */
  enum qp__actor_stage stage;
  bool lost;          /* it is RELEASING because another server has its context */
  bool queue_changed; /* which was not reported yet (queue.h) */
  unsigned jobs;      /* in workers: it cannot be freed */
  unsigned flushing;  /* commits of streamed lines that are under way */
  enum qp_state state;

  struct qp__input *inbox, **inbox_end;
  struct qp__actor_open *open;        /* NULL in the stage CLOSED */
  struct qp__action_request *waiting; /* for the end of the turn */
  struct qp__feed feed;

  /* The work. */
  uint64_t number;        /* of the newest work; grows by one with each */
  uint64_t delayed_model; /* the number of the model call that waits for tools or models; 0: none */
  uint64_t asked_models;  /* the number of the model call for which models were asked for */
  enum qp__answer_phase answer;
  struct qp__llm_call *call;
  const struct qp__model *model;
  struct qp__actor_call *calls;
  size_t call_count;
  size_t running;
  uv_timer_t *timer;                   /* of TransientFailure */
  unsigned call_flags;                 /* enum qp__llm_request_flags, learned from a failure */
  struct qp__shortening *shortening;   /* a compaction that is being made, or NULL; shorten.h */
  bool shorten_waits;                  /* Compacting waits for what is prepared ahead of need */
  bool prepared_saves;                 /* a prepared summary is being committed */
  uint64_t prepared_saved;             /* how many were committed since the context was opened */
  enum qp__plan_reason compact_reason; /* of the present Compacting */
  bool recall_builds;                  /* a worker indexes the covered messages */
  atomic_bool recall_stops;            /* searches in workers end soon, without a result */
};

struct qp__actor *qp__actor_new(struct qp_engine *e, const struct qp_uuid *id);
/* Allocates `open`. False: out of memory. */
bool qp__actor_equip(struct qp__actor *t);
void qp__actor_unequip(struct qp__actor *t);
/* Nothing of it may be under way. */
void qp__actor_free(struct qp__actor *t);
/* The rule that the actor or its feed breaks, or NULL. */
const char *qp__actor_violation(const struct qp__actor *t);

/* ---- actor.c ---- */

/* The only function that applies an event. QP_OK: a commit is under way; the transition owns the
 * input's action. Else nothing has changed and the caller still owns the action. */
enum qp_rc qp__actor_apply(struct qp__actor *t, struct qp__input *in, struct qp_err *err);

/* Appends to the inbox; takes ownership. */
void qp__actor_enqueue(struct qp__actor *t, struct qp__input *in);
/* The same for an event alone. When out of memory: FINAL_ERROR instead. */
void qp__actor_enqueue_event(struct qp__actor *t, enum qp__turn_event event, uint64_t number);
void qp__actor_enqueue_error(struct qp__actor *t, enum qp__turn_event event, uint64_t number,
                             const char *kind, const char *sentence);
/* The same for an error of a provider. */
void qp__actor_enqueue_fault(struct qp__actor *t, enum qp__turn_event event, uint64_t number,
                             const struct qp__llm_fault *fault, int64_t retry_after_ms);
/* A commit failed, or could not be begun: the context becomes Failed, and the action (NULL: none;
 * owned from now on) is answered with the failure. */
void qp__actor_save_failed(struct qp__actor *t, const struct qp_err *failure,
                           struct qp__action_request *request);
/* Empties the inbox; its actions, and those that wait for the end of the turn, get the failure. */
void qp__actor_reject_all(struct qp__actor *t, const struct qp_err *err);
/* Processes inputs while it can. Closes the context when nothing is left to do, and may free the
 * actor. */
void qp__actor_pump(struct qp__actor *t);
/* Shows a line of progress to subscribers; owns `data`. Without memory it is left out. */
void qp__actor_tell(struct qp__actor *t, const char *type, json_t *data);
/* Ends all work without events. */
void qp__actor_stop_work(struct qp__actor *t);
/* Appends the streamed lines to the event log, unless earlier ones are still being written. */
void qp__actor_flush(struct qp__actor *t);
/* The same at once when there are so many that one commit would soon be too small. May free the
 * actor unless it has a job. */
void qp__actor_flush_if_large(struct qp__actor *t);
/* The context was opened in this state. */
void qp__actor_enter_stored(struct qp__actor *t, enum qp_state state);
/* RESTART, before everything else in the inbox. */
void qp__actor_restart(struct qp__actor *t);
/* Calls the callback of an action and frees it; err NULL: success. */
void qp__action_answer(struct qp__actor *t, struct qp__action_request *request,
                       const struct qp_err *err);
void qp__action_free(struct qp__action_request *request);

/* ---- transition.c: what a transition commits ---- */

/* Fills in the pending transition: messages, patch, lines. */
enum qp_rc qp__transition_prepare(struct qp__actor *t, struct qp__input *in, struct qp_err *err);
void qp__transition_release(struct qp__pending_transition *m);
enum qp_rc qp__transition_add_message(struct qp__actor *t, struct qp_message *message,
                                      struct qp_err *err);
/* Commits it; `done` is called as qp_context_commit() does. */
enum qp_rc qp__transition_commit(struct qp__actor *t, qp_done_fn *done, void *arg,
                                 struct qp_err *err);

/* ---- model_call.c: calling the model ---- */

/* Prepares the request in a worker, then calls the model. While MCP servers start, it waits until
 * their tools are known. */
void qp__actor_call_model(struct qp__actor *t);
/* The tools are known: begins a model call that waited for them. */
void qp__actor_call_delayed_model(struct qp__actor *t);
void qp__actor_drop_answer(struct qp__actor *t);
/* The answer so far as a message, and counts its usage. *out is NULL when an interrupted answer has
 * no content. */
enum qp_rc qp__actor_take_answer(struct qp__actor *t, bool interrupted, struct qp_message **out,
                                 struct qp_err *err);
/* Adds a line of the event log to the answer; lines of other kinds are ignored. */
enum qp_rc qp__actor_replay_event(struct qp__actor *t, const struct qp_event_info *event,
                                  struct qp_err *err);

/* ---- tool_round.c: tool calls ---- */

/* Applies the policy to the calls of an answer that will be saved: sets their approval in the
 * message and the list of calls. `barred`: none of them will run, because the answer was cut. */
enum qp_rc qp__round_begin(struct qp__actor *t, struct qp_message *answer, bool barred,
                           struct qp_err *err);
/* The list of calls from a stored answer, with the decisions made since. */
enum qp_rc qp__round_load(struct qp__actor *t, const struct qp_message *answer,
                          const json_t *decisions, struct qp_err *err);
void qp__round_release(struct qp__actor *t);
/* The event that follows from the calls: NO_CALLS, CALLS_FREE, CALLS_BARRED, CALLS_ASK. */
enum qp__turn_event qp__round_event(const struct qp__actor *t);
void qp__round_run(struct qp__actor *t);
void qp__round_stop(struct qp__actor *t);
/* Adds the results that the request submits to the pending transition. */
enum qp_rc qp__round_add_submitted(struct qp__actor *t, const struct qp__action_request *request,
                                   struct qp_err *err);
/* Adds one message per call whose result is not stored to the pending transition. A call without a
 * result gets an error: that it was denied, or `sentence`. */
enum qp_rc qp__round_close(struct qp__actor *t, const char *sentence, struct qp_err *err);
struct qp__actor_call *qp__round_find(const struct qp__actor *t, const char *id);
/* QP_INVALID: a tool of the client has the name of a tool of the server. */
enum qp_rc qp__round_check_names(const struct qp__actor *t, const json_t *client_tools,
                                 struct qp_err *err);
/* Allows calls like those that the request approves, without asking, from now on. A worker stores
 * the rules; then the request is in the inbox again. */
enum qp_rc qp__round_store_rules(struct qp__actor *t, struct qp__action_request *request,
                                 struct qp_err *err);

/* ---- call_preview.c ---- */

/* Whether previews of the calls that wait for a person read files. If not, preview_now makes them;
 * else preview makes them in a worker, and then enqueues CALLS_ASK. */
bool qp__round_preview_reads(const struct qp__actor *t);
void qp__round_preview_now(struct qp__actor *t);
void qp__round_preview(struct qp__actor *t);
/* The previews of a stored state: "pending" of its detail. */
enum qp_rc qp__round_load_previews(struct qp__actor *t, const json_t *pending, struct qp_err *err);
/* Gives the calls the arguments that a person has changed. QP_INVALID: the policy does not allow
 * them, or the call is not approved; nothing has changed then. */
enum qp_rc qp__round_edit(struct qp__actor *t, const struct qp__action_request *request,
                          struct qp_err *err);
/* Undoes this for the calls that are still pending. */
void qp__round_undo_edits(struct qp__actor *t);

/* ---- action.c: actions ---- */

/* Sets the branch of an action (NULL: the active one). QP_NOTFOUND. */
enum qp_rc qp__action_set_branch(struct qp__actor *t, struct qp__action_request *request,
                                 const char *name, struct qp_err *err);
/* The newest message of a branch; none: it is empty. */
struct qp_uuid qp__branch_head(struct qp_context *context, const struct qp__branch *b);
/* QP_INVALID: not a valid idempotency key. NULL is valid. */
enum qp_rc qp__action_check_key(const char *key, struct qp_err *err);
/* The stored result of an action with this key: *message is its message, *result the object, which
 * the caller releases also after a failure. QP_NOTFOUND: the key is new. QP_CONFLICT: it was used
 * for an action with another digest. */
enum qp_rc qp__action_find_key(struct qp_context *context, const char *key, const char *digest,
                               struct qp_uuid *message, json_t **result, struct qp_err *err);
/* Fills in the result that is stored with the action's idempotency key. */
enum qp_rc qp__action_key_result(struct qp__actor *t, struct qp__action_request *request,
                                 struct qp_err *err);
/* Checks an action in the present state and applies it, or answers it with a failure. */
void qp__actor_do_action(struct qp__actor *t, struct qp__input *in);

/* ---- actor_load.c ---- */

/* Opens the context in a worker; then the inbox is processed. */
void qp__actor_load(struct qp__actor *t);

/* ---- limits, in transition.c ---- */

/* Whether a limit is reached; *err says which. */
bool qp__actor_over_limit(const struct qp_limits *limits, const struct qp__turn_facts *facts,
                          struct qp_err *err);

#endif

/* actor.h - one context in the engine: its state, its inbox, and the one function that moves it.
 *
 * Everything that happens to a context becomes an occurrence: an action of a client, an event of
 * the model or of a tool, a timer, the end of a commit's work. Occurrences wait in the inbox, in
 * their order, and one is taken when nothing of this context is being committed. qp__actor_apply()
 * looks into the table of fsm.h and makes one commit of all that the transition means: the new
 * state with its detail, the messages that the step saves, the lines of the log of events, the key
 * of the action. When that is durable the state has changed, subscribers and clients hear of it,
 * and the step is taken: it begins work and never calls apply; what comes of the work is an
 * occurrence.
 *
 * (1) `state` is written by one function (enter in actor.c): when a commit is durable, when the
 *     context is opened, and in the last case of (5).
 * (2) Nothing outside begins before what led to it is durable: the user's message before the model
 *     is called, the decision about a tool before it runs.
 * (3) Work belongs to a state: a model call to AwaitingLLMResponse, GeneratingResponse and
 *     StreamingLLMResponse, tools to ExecutingTools, the timer to TransientFailure. A transition to
 *     any other state ends it. Work has a number; occurrences of work that is over are dropped by
 *     it.
 * (4) An occurrence that the table does not know in a state changes nothing. For an action that is
 *     QP_CONFLICT with the state in the sentence.
 * (5) When a commit fails, the failure is logged with the context and the state, the action behind
 *     it is answered with it, and the context becomes Failed. When even that cannot be saved, it is
 *     so in memory only; the next engine brings the stored state to rest.
 * (6) Where a step only saves, what comes next is known before it is durable (the message is saved,
 *     so the model is called): that move is staged right behind it, `move` behind `ahead`. They are
 *     two commits in their order that share one sync. Neither is entered before it is durable, and
 *     when `ahead` fails so does `move`, because the journal takes nothing behind what it has lost.
 *
 * "state_detail" of the metadata, all fields only where they mean something:
 *
 *   {"branch":"main","rounds":1,"calls":2,"tokens":900,"cost_usd":0.01,     the turn so far
 *    "error":{"kind":"rate_limit","message":"…","status":429},             Failed, TransientFailure
 *    "attempt":1,"retry_at":"…",                                           TransientFailure
 *    "decisions":{"call_1":{"approval":"Denied","reason":"…"}}}            AwaitingToolApproval …
 *
 * and "usage" beside it: {"tokens":…,"cost_usd":…} of all turns of the context. */
#ifndef QP_TURN_ACTOR_H
#define QP_TURN_ACTOR_H

#include "base/arena.h"
#include "llm/answer.h"
#include "llm/models.h"
#include "turn/engine.h"
#include "turn/feed.h"
#include "turn/fsm.h"

struct qp__act;

/* What went wrong, as it is kept in the state's detail. */
struct qp__actor_error {
  char kind[32];     /* "": there is none */
  char message[320]; /* one sentence */
  int status;        /* of HTTP, or 0 */
};

/* Something that happened. */
struct qp__occurrence {
  struct qp__occurrence *next;
  bool is_action; /* `act` has not been understood yet */
  enum qp__event event;
  uint64_t number;     /* of the work that it comes from; 0: of none */
  struct qp__act *act; /* the action behind it, or NULL; owned. It may hold the occurrence */
  struct qp__actor_error error;
  struct qp_err failure;  /* of SAVE_FAILED */
  int64_t retry_after_ms; /* -1: not said */
  /* Of actions that begin a branch. */
  const char *activate;   /* becomes the active branch, or NULL; in the act's arena */
  bool fork;              /* … and is made before */
  struct qp_uuid fork_at; /* none: an empty branch */
};

/* An action on its way. */
struct qp__act {
  struct qp__post post; /* first */
  struct qp__occurrence occurrence;
  struct qp__act *next; /* while it waits for the turn's end */
  struct qp_action a;   /* strings are in the arena */
  struct qp__arena arena;
  struct qp_message *message; /* to be saved, or NULL */
  char digest[33];            /* of what it asks for, in hexadecimal */
  qp_action_fn *done;
  void *arg;
  /* Filled in on the way. */
  struct qp_uuid saved;
  char *branch; /* on which it happened; in the arena */
  bool replayed;
};

/* A tool call of the answer that is being worked on. */
struct qp__actor_call {
  char *id, *name, *arguments;
  enum qp_display display;
  enum qp_approval approval; /* PENDING: nobody has decided */
  bool by_policy;            /* nobody was asked */
  char *reason;              /* of the denial, or NULL */
  bool stored;               /* its result is in a stored message */
  json_t *result;            /* NULL: not yet */
  bool is_error;
  uint64_t ms;
  struct qp__actor_run *run; /* while it runs */
};

/* What a turn has used up. Costs are in millionths of a millionth of a dollar (models.h). */
struct qp__actor_count {
  uint64_t rounds, calls, tokens;
  int64_t cost;
};

/* What is known of a turn beside its state; goes into the state's detail. */
struct qp__actor_facts {
  struct qp__actor_error error;
  struct qp__actor_count count, total; /* of this turn; of the context */
  unsigned attempt;                    /* failed tries of the present model call */
  int64_t retry_at;
  uint64_t answer_seq; /* where the present answer begins in the log of events; 0: nowhere */
  char *branch;        /* where the turn goes on; NULL: nowhere yet */
};

/* The end of a commit, told by the store's thread. Those of moves are parts of their turn; that of
 * lines is freed when it was told, because several may be on their way. */
struct qp__actor_end {
  struct qp__post post; /* first */
  struct qp__actor *turn;
  struct qp_err err;
  uint64_t first_seq, last_seq;
};

/* A transition under way, from the table's cell to the end of its commit. */
struct qp__actor_move {
  bool under_way;
  struct qp__actor_end *end; /* of its commit; one of the turn's */
  struct qp__transition to;
  enum qp__event event;
  struct qp__act *act;          /* owned, or NULL */
  struct qp_err failure;        /* of QP__EVENT_SAVE_FAILED: what the action is answered with */
  struct qp__actor_facts facts; /* become the turn's when it is durable */
  struct qp_message **messages; /* owned */
  size_t message_count, message_cap;
  json_t *patch;
  const char *activate; /* a branch that becomes the active one, or NULL; borrowed */
  bool fork;            /* … and is made at fork_at (none: empty) before */
  struct qp_uuid fork_at;
  const char *key; /* of the action, or NULL; borrowed from it */
  struct qp_bytes key_result;
  uint64_t first_seq, last_seq; /* of the lines that it commits; 0: none */
  uint64_t own_seq;             /* those before it were streamed, and waited for a commit */
  bool paused;                  /* of an answer: its provider wants to be asked again */
};

/* What is being asked of a model. */
struct qp__actor_asked {
  const struct qp__llm_provider *provider; /* the engine's */
  char model[160];                         /* as the provider calls it */
  size_t body_bytes;                       /* of the request */
  size_t all_bytes, largest_bytes;         /* of the messages; of the largest one */
  int64_t tokens, window;                  /* of a request that is too long, as reported; or 0 */
};

/* What a turn needs while its context is open. It is apart because most turns that are in memory
 * only have somebody who listens. */
struct qp__actor_gear {
  struct qp__actor_facts facts;
  struct qp__answer answer;
  struct qp__actor_asked asked; /* of the present model call */
  struct qp__occurrence spare;  /* so that most of them need no memory */
  bool spare_used;
  struct qp__actor_move ahead;  /* what is committed before `move`, or not under way */
  struct qp__actor_move move;   /* the last one */
  struct qp__actor_end ends[2]; /* of the moves */
};

enum qp__actor_stage {
  QP__ACTOR_COLD,    /* the context is not open */
  QP__ACTOR_LOADING, /* a worker opens it */
  QP__ACTOR_WARM,
};

struct qp__actor {
  struct qp_engine *engine;
  struct qp_uuid id;
  struct qp__actor *chain;      /* in the engine's table */
  struct qp_context *context;   /* open while warm */
  struct qp__release *released; /* a list of those who are told when it is freed */
  enum qp__actor_stage stage;
  unsigned jobs;     /* in workers: it cannot be freed */
  unsigned flushing; /* commits of lines that are under way */
  enum qp__state state;

  bool doomed;     /* qp_engine_release: nothing more is done */
  bool pumping;    /* qp__actor_pump() is at work */
  bool unsaved;    /* Failed in memory only */
  bool recovering; /* the start of the engine waits for it */
  bool lost;       /* an occurrence could not be noted for want of memory */
  bool answering;  /* the answer of the gear is in use */
  bool began;      /* something of it has come */

  struct qp__occurrence *inbox, **inbox_end;
  struct qp__actor_gear *gear; /* NULL while it is cold */
  struct qp__act *waiting;     /* for the turn's end */
  struct qp__feed feed;

  /* The work. */
  uint64_t number;           /* of the newest work; grows by one with each */
  uint64_t waiting_question; /* the number of the work whose question waits for tools; 0: none */
  struct qp__llm_call *call;
  const struct qp__model *model;
  struct qp__actor_call *calls;
  size_t call_count;
  size_t running;
  uv_timer_t *timer;   /* of TransientFailure */
  unsigned call_flags; /* enum qp__llm_request_flags, learned from a failure */
};

struct qp__actor *qp__actor_new(struct qp_engine *e, const struct qp_uuid *id);
/* False: no memory. It goes when the context is let go. */
bool qp__actor_equip(struct qp__actor *t);
/* Nothing of it may be under way. */
void qp__actor_free(struct qp__actor *t);

/* ---- actor.c ---- */

/* The one function that applies an event. QP_OK: a commit is under way; the occurrence's action is
 * the move's. Else nothing has changed and the action is the caller's still. */
enum qp_rc qp__actor_apply(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err);

/* Appends to the inbox; takes the occurrence over. */
void qp__actor_push(struct qp__actor *t, struct qp__occurrence *o);
/* The same for one without more to say. No memory: the turn fails by FINAL_ERROR when it can, and
 * else stays until the next action. */
void qp__actor_happen(struct qp__actor *t, enum qp__event event, uint64_t number);
void qp__actor_fail(struct qp__actor *t, enum qp__event event, uint64_t number, const char *kind,
                    const char *sentence);
/* The same for what a provider says. */
void qp__actor_fault(struct qp__actor *t, enum qp__event event, uint64_t number,
                     const struct qp__llm_fault *fault, int64_t retry_after_ms);
/* A commit failed, or could not be begun: the context becomes Failed, and the action (may be NULL,
 * taken over) is answered with the failure. */
void qp__actor_save_failed(struct qp__actor *t, const struct qp_err *failure, struct qp__act *act);
/* Answers what is in the inbox, and whoever waits, with a failure. */
void qp__actor_refuse(struct qp__actor *t, const struct qp_err *err);
/* Takes occurrences while it can, and lets go of the context when nothing is left to do. */
void qp__actor_pump(struct qp__actor *t);
/* Ends all work, without a word. */
void qp__actor_stop_work(struct qp__actor *t);
/* Appends the streamed lines to the log of events, unless earlier ones are still on their way. */
void qp__actor_flush(struct qp__actor *t);
/* The same at once when there are so many that one commit would soon not take them. The turn stays
 * only if it is held by a job. */
void qp__actor_relieve(struct qp__actor *t);
/* The state that the store has, when the context was opened. */
void qp__actor_enter_stored(struct qp__actor *t, enum qp__state state);
/* RESTART, before everything else in the inbox. */
void qp__actor_restart(struct qp__actor *t);
/* Whether the state is one that stays until somebody acts. */
bool qp__state_rests(enum qp__state state);
/* Answers and frees an action; err NULL: it went well. */
void qp__act_answer(struct qp__actor *t, struct qp__act *act, const struct qp_err *err);
void qp__act_free(struct qp__act *act);

/* ---- transition.c: what a transition commits ---- */

/* Fills in the move for the cell: messages, patch, lines. */
enum qp_rc qp__move_prepare(struct qp__actor *t, struct qp__occurrence *o, struct qp_err *err);
void qp__move_release(struct qp__actor_move *m);
enum qp_rc qp__move_add_message(struct qp__actor *t, struct qp_message *message,
                                struct qp_err *err);
/* Commits it; `done` is called as qp_context_commit() does. */
enum qp_rc qp__move_commit(struct qp__actor *t, qp_done_fn *done, void *arg, struct qp_err *err);

/* ---- model_call.c: calling the model ---- */

/* Makes the question ready in a worker, then calls the model. A question that comes while servers
 * start waits until their tools are known. */
void qp__actor_ask(struct qp__actor *t);
/* No question waits for that any more. */
void qp__actor_ask_now(struct qp__actor *t);
void qp__actor_drop_answer(struct qp__actor *t);
/* The answer so far as a message with its usage counted, or NULL in *out: there is nothing. */
enum qp_rc qp__actor_take_answer(struct qp__actor *t, bool interrupted, struct qp_message **out,
                                 struct qp_err *err);
/* Feeds the answer with a line of the log; others than those of an answer are passed over. */
enum qp_rc qp__actor_replay(struct qp__actor *t, const struct qp_event_info *event,
                            struct qp_err *err);

/* ---- tool_round.c: tool calls ---- */

/* Judges the calls of an answer that is about to be saved: sets their approval in the message and
 * the list of calls. `barred`: none of them will run, because the answer broke off. */
enum qp_rc qp__round_begin(struct qp__actor *t, struct qp_message *answer, bool barred,
                           struct qp_err *err);
/* The list of calls from a stored answer, with decisions made since. */
enum qp_rc qp__round_load(struct qp__actor *t, const struct qp_message *answer,
                          const json_t *decisions, struct qp_err *err);
void qp__round_release(struct qp__actor *t);
/* What the calls mean for the machine: NO_CALLS, CALLS_FREE, CALLS_BARRED, CALLS_ASK. */
enum qp__event qp__round_event(const struct qp__actor *t);
void qp__round_run(struct qp__actor *t);
void qp__round_stop(struct qp__actor *t);
/* Adds a message for every call whose result is not stored to the move; a call without a result
 * gets an error, `sentence` unless it was denied. */
enum qp_rc qp__round_close(struct qp__actor *t, const char *sentence, struct qp_err *err);
struct qp__actor_call *qp__round_find(const struct qp__actor *t, const char *id);
/* Calls like this one are allowed from now on without a question. */
enum qp_rc qp__round_grant(const struct qp__actor *t, const struct qp__actor_call *call,
                           struct qp_err *err);

/* ---- action.c: actions ---- */

/* What is stored with the action's key, into the move. */
enum qp_rc qp__act_result(struct qp__actor *t, struct qp__act *act, struct qp_err *err);
/* Understands an action in the present state and applies it, or answers it with a failure. */
void qp__actor_act(struct qp__actor *t, struct qp__occurrence *o);

/* ---- actor_load.c ---- */

/* Opens the context in a worker; then the inbox goes on. */
void qp__actor_load(struct qp__actor *t);

/* ---- limits, in transition.c ---- */

/* Whether a limit is reached, and the sentence for it. */
bool qp__actor_over_limit(const struct qp_limits *limits, const struct qp__actor_facts *facts,
                          struct qp_err *err);

#endif

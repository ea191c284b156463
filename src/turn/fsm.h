/* fsm.h - the state machine of a turn: twelve states, the events that reach them, one table.
 *
 * The usual way of a turn; docs/turns.md has the whole graph, made by `quipu debug fsm --dot`:
 *
 *   Idle -> ProcessingUserMessage -> AwaitingLLMResponse -> StreamingLLMResponse
 *        -> ProcessingLLMResponse -> Idle
 *                                 -> AwaitingToolApproval -> ExecutingTools
 *                                    -> ProcessingToolResults -> GeneratingResponse -> Streaming…
 *
 * The machine only decides: it has no clock, no file and no thread. The engine feeds it events and
 * does the step that it names, after the new state is durable. An event that the table does not
 * have for a state changes nothing. */
#ifndef QP_TURN_FSM_H
#define QP_TURN_FSM_H

#include "model/meta.h"

#define QP__STATES (QP_STATE_FAILED + 1)

/* The events. The text is what `quipu debug fsm` prints. */
#define QP__EVENT_MAP(X)                                             \
  X(SEND, "a message is sent")                                       \
  X(RETRY, "a retry is asked for")                                   \
  X(CANCEL, "the turn is cancelled")                                 \
  X(APPROVE, "every call is decided or answered, some may run")      \
  X(DENY, "every call is decided or answered, none may run")         \
  X(DECIDE, "some calls are decided or answered, others still wait") \
  X(SWITCH, "another branch becomes the active one")                 \
  X(COMPACT, "a compaction is asked for")                            \
  X(ADJUST, "a record or a pin changes what the model is sent")      \
  X(SAVED, "the last messages are durable")                          \
  X(SAVE_FAILED, "a save failed")                                    \
  X(ANSWER_BEGAN, "the model begins to answer")                      \
  X(ANSWER_ENDED, "the answer is complete")                          \
  X(ANSWER_CUT, "the answer ended too early")                        \
  X(NO_CALLS, "the stored answer calls no tool")                     \
  X(PAUSED, "the provider paused the stored answer")                 \
  X(CALLS_FREE, "its calls are all decided by the policy, some run") \
  X(CALLS_BARRED, "its calls are all denied by the policy")          \
  X(CALLS_ASK, "some of its calls wait for a person or a client")    \
  X(TOOLS_ENDED, "every call has its result")                        \
  X(TOO_LONG, "the history does not fit the model")                  \
  X(COMPACTED, "the history is shorter")                             \
  X(COMPACTED_ALONE, "the history is shorter, and no turn waits")    \
  X(PASSING_ERROR, "the provider failed, a retry may succeed")       \
  X(FINAL_ERROR, "an error occurred that a retry does not fix")      \
  X(LIMIT, "a limit of the turn or the context is reached")          \
  X(TIMER, "the time to wait is over")                               \
  X(RESTART, "the engine starts and finds the context in this state")

enum qp__turn_event {
#define QP__EVENT_ENUM(name, text) QP__EVENT_##name,
  QP__EVENT_MAP(QP__EVENT_ENUM)
#undef QP__EVENT_ENUM
      QP__EVENTS
};

/* What the engine does in the new state. */
#define QP__STEP_MAP(X)                                     \
  X(NONE, "nothing")                                        \
  X(SAVE_MESSAGE, "save the message")                       \
  X(CALL_MODEL, "call the model")                           \
  X(KEEP_DELTAS, "keep the pieces of the answer")           \
  X(SAVE_ANSWER, "save the answer, look at its calls")      \
  X(SAVE_PARTIAL, "save the partial answer as interrupted") \
  X(ASK, "wait for a person or a client")                   \
  X(RUN_TOOLS, "run the tools")                             \
  X(SAVE_RESULTS, "save the results")                       \
  X(SHORTEN, "compact the history")                         \
  X(WAIT, "wait, then try again")                           \
  X(CLOSE_CALLS, "stop, close open calls with an error")    \
  X(STOP, "stop")

enum qp__step {
#define QP__STEP_ENUM(name, text) QP__STEP_##name,
  QP__STEP_MAP(QP__STEP_ENUM)
#undef QP__STEP_ENUM
      QP__STEPS
};

struct qp__transition {
  bool legal;
  enum qp_state to;
  enum qp__step step;
};

/* The cell of the table. */
struct qp__transition qp__fsm_next(enum qp_state state, enum qp__turn_event event);
/* Whether a turn is under way, so that a new message must wait. */
bool qp__fsm_is_busy(enum qp_state state);

const char *qp__event_name(enum qp__turn_event event); /* "ANSWER_BEGAN" */
const char *qp__event_text(enum qp__turn_event event);
const char *qp__step_text(enum qp__step step);

#endif

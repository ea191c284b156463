/* fsm.c - the table of the state machine. */
#include "turn/fsm.h"

/* A cell means: in this state, on this event, change to that state and do this step. A missing cell
 * is an illegal event. */
#define GO(state, act)                     \
  {                                        \
    true, QP_STATE_##state, QP__STEP_##act \
  }

/* In every state of a turn that talks to the store. */
#define FAILURES                                                                          \
  [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP), [QP__EVENT_FINAL_ERROR] = GO(FAILED, STOP), \
  [QP__EVENT_LIMIT] = GO(FAILED, STOP)

/* While the model is asked and has said nothing yet. */
#define ASKING                                                                         \
  [QP__EVENT_ANSWER_BEGAN] = GO(STREAMING_LLM_RESPONSE, KEEP_DELTAS),                  \
  [QP__EVENT_ANSWER_ENDED] = GO(PROCESSING_LLM_RESPONSE, SAVE_ANSWER),                 \
  [QP__EVENT_ANSWER_CUT] = GO(TRANSIENT_FAILURE, WAIT),                                \
  [QP__EVENT_PASSING_ERROR] = GO(TRANSIENT_FAILURE, WAIT),                             \
  [QP__EVENT_TOO_LONG] = GO(COMPACTING, SHORTEN), [QP__EVENT_CANCEL] = GO(IDLE, STOP), \
  [QP__EVENT_RESTART] = GO(FAILED, NONE), FAILURES

static const struct qp__transition table[QP__STATES][QP__EVENTS] = {
  [QP_STATE_IDLE] = {
    [QP__EVENT_SEND] = GO(PROCESSING_USER_MESSAGE, SAVE_MESSAGE),
    [QP__EVENT_SWITCH] = GO(IDLE, NONE),
    [QP__EVENT_RETRY] = GO(AWAITING_LLM_RESPONSE, CALL_MODEL),
    [QP__EVENT_COMPACT] = GO(COMPACTING, SHORTEN),
    [QP__EVENT_ADJUST] = GO(IDLE, NONE),
    [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP),
    [QP__EVENT_RESTART] = GO(IDLE, NONE),
  },
  [QP_STATE_PROCESSING_USER_MESSAGE] = {
    [QP__EVENT_SAVED] = GO(AWAITING_LLM_RESPONSE, CALL_MODEL),
    [QP__EVENT_TOO_LONG] = GO(COMPACTING, SHORTEN),
    [QP__EVENT_CANCEL] = GO(IDLE, STOP),
    [QP__EVENT_RESTART] = GO(FAILED, NONE),
    FAILURES,
  },
  [QP_STATE_AWAITING_LLM_RESPONSE] = { ASKING },
  [QP_STATE_STREAMING_LLM_RESPONSE] = {
    [QP__EVENT_ANSWER_ENDED] = GO(PROCESSING_LLM_RESPONSE, SAVE_ANSWER),
    /* What was shown is kept: an automatic retry would show it twice. */
    [QP__EVENT_ANSWER_CUT] = GO(FAILED, SAVE_PARTIAL),
    [QP__EVENT_PASSING_ERROR] = GO(FAILED, SAVE_PARTIAL),
    [QP__EVENT_FINAL_ERROR] = GO(FAILED, SAVE_PARTIAL),
    [QP__EVENT_TOO_LONG] = GO(FAILED, SAVE_PARTIAL),
    [QP__EVENT_LIMIT] = GO(FAILED, SAVE_PARTIAL),
    [QP__EVENT_CANCEL] = GO(IDLE, SAVE_PARTIAL),
    [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP),
    [QP__EVENT_RESTART] = GO(FAILED, SAVE_PARTIAL),
  },
  [QP_STATE_PROCESSING_LLM_RESPONSE] = {
    [QP__EVENT_NO_CALLS] = GO(IDLE, NONE),
    [QP__EVENT_PAUSED] = GO(GENERATING_RESPONSE, CALL_MODEL),
    [QP__EVENT_CALLS_FREE] = GO(EXECUTING_TOOLS, RUN_TOOLS),
    [QP__EVENT_CALLS_BARRED] = GO(PROCESSING_TOOL_RESULTS, SAVE_RESULTS),
    [QP__EVENT_CALLS_ASK] = GO(AWAITING_TOOL_APPROVAL, ASK),
    [QP__EVENT_CANCEL] = GO(IDLE, CLOSE_CALLS),
    [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP),
    [QP__EVENT_FINAL_ERROR] = GO(FAILED, CLOSE_CALLS),
    [QP__EVENT_LIMIT] = GO(FAILED, CLOSE_CALLS),
    /* The answer may be stored or not; what was streamed of it is in the log of events. */
    [QP__EVENT_RESTART] = GO(FAILED, SAVE_PARTIAL),
  },
  [QP_STATE_AWAITING_TOOL_APPROVAL] = {
    [QP__EVENT_APPROVE] = GO(EXECUTING_TOOLS, RUN_TOOLS),
    [QP__EVENT_DENY] = GO(PROCESSING_TOOL_RESULTS, SAVE_RESULTS),
    [QP__EVENT_DECIDE] = GO(AWAITING_TOOL_APPROVAL, ASK),
    [QP__EVENT_CANCEL] = GO(IDLE, CLOSE_CALLS),
    [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP),
    [QP__EVENT_RESTART] = GO(AWAITING_TOOL_APPROVAL, NONE),
  },
  [QP_STATE_EXECUTING_TOOLS] = {
    [QP__EVENT_TOOLS_ENDED] = GO(PROCESSING_TOOL_RESULTS, SAVE_RESULTS),
    [QP__EVENT_CANCEL] = GO(IDLE, CLOSE_CALLS),
    [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP),
    [QP__EVENT_FINAL_ERROR] = GO(FAILED, CLOSE_CALLS),
    [QP__EVENT_LIMIT] = GO(FAILED, CLOSE_CALLS),
    /* A tool that may have run is never run again by itself. */
    [QP__EVENT_RESTART] = GO(FAILED, CLOSE_CALLS),
  },
  [QP_STATE_PROCESSING_TOOL_RESULTS] = {
    [QP__EVENT_SAVED] = GO(GENERATING_RESPONSE, CALL_MODEL),
    [QP__EVENT_TOO_LONG] = GO(COMPACTING, SHORTEN),
    [QP__EVENT_CANCEL] = GO(IDLE, CLOSE_CALLS),
    [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP),
    [QP__EVENT_FINAL_ERROR] = GO(FAILED, CLOSE_CALLS),
    [QP__EVENT_LIMIT] = GO(FAILED, CLOSE_CALLS),
    [QP__EVENT_RESTART] = GO(FAILED, CLOSE_CALLS),
  },
  [QP_STATE_GENERATING_RESPONSE] = { ASKING },
  [QP_STATE_COMPACTING] = {
    [QP__EVENT_COMPACTED] = GO(AWAITING_LLM_RESPONSE, CALL_MODEL),
    [QP__EVENT_COMPACTED_ALONE] = GO(IDLE, NONE),
    [QP__EVENT_CANCEL] = GO(IDLE, STOP),
    [QP__EVENT_RESTART] = GO(FAILED, NONE),
    FAILURES,
  },
  [QP_STATE_TRANSIENT_FAILURE] = {
    [QP__EVENT_TIMER] = GO(AWAITING_LLM_RESPONSE, CALL_MODEL),
    [QP__EVENT_RETRY] = GO(AWAITING_LLM_RESPONSE, CALL_MODEL),
    [QP__EVENT_CANCEL] = GO(IDLE, STOP),
    [QP__EVENT_RESTART] = GO(FAILED, NONE),
    FAILURES,
  },
  [QP_STATE_FAILED] = {
    [QP__EVENT_SEND] = GO(PROCESSING_USER_MESSAGE, SAVE_MESSAGE),
    [QP__EVENT_SWITCH] = GO(FAILED, NONE),
    [QP__EVENT_RETRY] = GO(AWAITING_LLM_RESPONSE, CALL_MODEL),
    [QP__EVENT_COMPACT] = GO(COMPACTING, SHORTEN),
    [QP__EVENT_ADJUST] = GO(FAILED, NONE),
    [QP__EVENT_CANCEL] = GO(IDLE, NONE),
    [QP__EVENT_SAVE_FAILED] = GO(FAILED, STOP),
    [QP__EVENT_RESTART] = GO(FAILED, NONE),
  },
};

struct qp__transition
qp__fsm_next(enum qp_state state, enum qp__turn_event event)
{
  return table[state][event];
}

bool
qp__fsm_is_busy(enum qp_state state)
{
  return !table[state][QP__EVENT_SEND].legal;
}

const char *
qp__event_name(enum qp__turn_event event)
{
  static const char *const names[] = {
#define EVENT_NAME(name, text) #name,
    QP__EVENT_MAP(EVENT_NAME)
#undef EVENT_NAME
  };

  return names[event];
}

const char *
qp__event_text(enum qp__turn_event event)
{
  static const char *const texts[] = {
#define EVENT_TEXT(name, text) text,
    QP__EVENT_MAP(EVENT_TEXT)
#undef EVENT_TEXT
  };

  return texts[event];
}

const char *
qp__step_text(enum qp__step step)
{
  static const char *const texts[] = {
#define STEP_TEXT(name, text) text,
    QP__STEP_MAP(STEP_TEXT)
#undef STEP_TEXT
  };

  return texts[step];
}

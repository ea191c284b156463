/* answer_event.h - what a model answers, in a form that does not depend on the provider.
 *
 * An answer is a sequence of blocks: text, thinking, tool calls, and blocks that only the provider
 * understands. Decoders number the blocks from 0 in the order in which they begin; pieces of
 * different blocks may alternate. */
#ifndef QP_LLM_ANSWER_EVENT_H
#define QP_LLM_ANSWER_EVENT_H

#include "quipu.h"

#define QP__LLM_BLOCKS_MAX 4096 /* of one answer */

/* Tokens. Total input is input + cache_read + cache_write. */
struct qp__llm_usage {
  int64_t input;          /* not from and not to a cache */
  int64_t cache_read;     /* read from the provider's prompt cache */
  int64_t cache_write;    /* written to it */
  int64_t cache_write_1h; /* of cache_write, the part that is cached for an hour */
  int64_t output;
  int64_t reasoning; /* of output, if the provider reports it */
};

enum qp__llm_stop {
  QP__LLM_STOP_NONE,     /* not reported yet */
  QP__LLM_STOP_END,      /* the model is done */
  QP__LLM_STOP_TOOLS,    /* it waits for results */
  QP__LLM_STOP_LENGTH,   /* max_tokens */
  QP__LLM_STOP_SEQUENCE, /* a stop sequence */
  QP__LLM_STOP_REFUSAL,  /* the model or a filter refused */
  QP__LLM_STOP_PAUSE,    /* send the answer back to go on */
  QP__LLM_STOP_WINDOW,   /* the window is full */
  QP__LLM_STOP_OTHER,    /* a reason that this version does not know */
};

enum qp__llm_event_kind {
  QP__LLM_START,     /* id, name: of the answer and of the model that answers; either may be "" */
  QP__LLM_TEXT,      /* block, text: more of it */
  QP__LLM_THINKING,  /* block, text: more of it */
  QP__LLM_SIGNATURE, /* block, text: more of the signature of the thinking in that block */
  QP__LLM_OTHER,     /* block, text: the whole block, a JSON object */
  QP__LLM_CALL,      /* block, id, name: a tool call begins */
  QP__LLM_ARGUMENTS, /* block, text: more of its arguments */
  QP__LLM_CALL_END,  /* block, text: all of its arguments; they may be invalid JSON */
  QP__LLM_USAGE,     /* usage: what is known so far; replaces earlier values */
  QP__LLM_STOP,      /* stop, name: the provider's own word for it */
};

struct qp__llm_event {
  enum qp__llm_event_kind kind;
  size_t block;
  struct qp_bytes text;
  const char *id;
  const char *name;
  struct qp__llm_usage usage;
  enum qp__llm_stop stop;
};

/* Everything is borrowed until it returns. An answer other than QP_OK ends the decoding. */
typedef enum qp_rc qp__llm_event_fn(void *arg, const struct qp__llm_event *event,
                                    struct qp_err *err);

struct qp__llm_sink {
  qp__llm_event_fn *fn;
  void *arg;
};

#endif

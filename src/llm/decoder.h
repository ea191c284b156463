/* decoder.h - reading one answer of any protocol, and what the protocols share: reporting events,
 * and reading events that are almost JSON. */
#ifndef QP_LLM_DECODER_H
#define QP_LLM_DECODER_H

#include "base/buf.h"
#include "base/sse.h"
#include "llm/codec.h"

struct qp__toolpiece_call;

/* The first member of every reader. */
struct qp__decoder {
  const struct qp__llm_codec *codec;
  struct qp__llm_sink sink;
  struct qp__sse sse;
  struct qp__buf line;              /* of a stream of lines: the beginning of an incomplete one */
  struct qp__toolpiece_call *calls; /* of toolstream.h */
  size_t call_count, call_cap;
  struct qp__llm_usage usage;
  struct qp__llm_fault fault;        /* an error that the provider sent, or kind NONE */
  size_t blocks;                     /* begun so far */
  enum qp__llm_event_kind more_kind; /* of qp__decoder_more(): what its last block is … */
  size_t more_block;                 /* … and which; unset while in_more is false */
  bool in_more;
  bool started;
  bool over;     /* the terminator or an error was received; what follows is ignored */
  bool complete; /* the answer has what its protocol requires at the end */
};

/* A reader of one answer with a good status. */
enum qp_rc qp__decoder_open(const struct qp__llm_codec *codec, struct qp__llm_sink sink,
                            struct qp__decoder **out, struct qp_err *err);
/* More bytes of the stream. An error that the provider sends is not a failure of this call:
 * qp__decoder_end() reports it. QP_INVALID: the bytes violate the protocol. */
enum qp_rc qp__decoder_feed(struct qp__decoder *d, struct qp_bytes bytes, struct qp_err *err);
/* Instead of feed: a complete body, from a server that does not stream. */
enum qp_rc qp__decoder_whole(struct qp__decoder *d, struct qp_bytes body, struct qp_err *err);
/* Called at the end of the bytes. fault->kind is QP__FAULT_NONE if the answer is complete;
 * otherwise *fault is the error that the provider sent, or QP__FAULT_CUT. Fails only if the
 * receiver of a last event fails. */
enum qp_rc qp__decoder_end(struct qp__decoder *d, struct qp__llm_fault *fault, struct qp_err *err);
void qp__decoder_close(struct qp__decoder *d); /* NULL is allowed */

/* ---- for protocols ---- */

/* Each reports one event; empty text is not reported. */
enum qp_rc qp__decoder_start(struct qp__decoder *d, const char *id, const char *model,
                             struct qp_err *err); /* the first time only; NULL is "" */
enum qp_rc qp__decoder_text(struct qp__decoder *d, enum qp__llm_event_kind kind, size_t block,
                            struct qp_bytes text, struct qp_err *err);
/* The same for protocols that do not number their blocks: one ends where the kind changes. */
enum qp_rc qp__decoder_more(struct qp__decoder *d, enum qp__llm_event_kind kind,
                            struct qp_bytes text, struct qp_err *err);
enum qp_rc qp__decoder_call(struct qp__decoder *d, size_t block, const char *id, const char *name,
                            struct qp_err *err);
enum qp_rc qp__decoder_call_end(struct qp__decoder *d, size_t block, struct qp_bytes arguments,
                                struct qp_err *err);
enum qp_rc qp__decoder_usage(struct qp__decoder *d, struct qp_err *err);
enum qp_rc qp__decoder_stop(struct qp__decoder *d, enum qp__llm_stop stop, const char *name,
                            struct qp_err *err);
/* A new block; QP_TOOBIG when there are too many. */
enum qp_rc qp__decoder_block(struct qp__decoder *d, size_t *out, struct qp_err *err);

/* The meaning of a provider's word for the end of an answer, from a list that ends with a NULL
 * name; QP__LLM_STOP_OTHER: the word is not in the list. */
struct qp__stop_reason {
  const char *name;
  enum qp__llm_stop stop;
};
enum qp__llm_stop qp__stop_of(const struct qp__stop_reason *list, const char *reason);

/* Parses a JSON object. Some servers cut characters in two: halves of surrogate pairs
 * and of UTF-8 sequences become U+FFFD. */
enum qp_rc qp__decoder_parse(struct qp_bytes text, json_t **out, struct qp_err *err);

/* The string at `key`; empty if it is missing or has another type. Borrowed. */
struct qp_bytes qp__decoder_bytes(const json_t *object, const char *key);
/* The same; NULL when it is missing or empty. */
const char *qp__decoder_string(const json_t *object, const char *key);
/* Assigns the number at `key` if it exists and is not negative. */
void qp__decoder_count(const json_t *object, const char *key, int64_t *out);

#endif

/* codec.h - a protocol: how a request is written and how an answer is read. It knows bytes and
 * nothing of connections, so that every one of its rules can be tested with text.
 *
 * One row per protocol; http_call.c and the tests use these slots only. */
#ifndef QP_LLM_CODEC_H
#define QP_LLM_CODEC_H

#include "llm/answer_event.h"
#include "llm/fault.h"
#include "llm/model_request.h"

#define QP__LLM_EVENT_MAX ((size_t)16 << 20) /* bytes of one event of a stream */

struct qp__decoder; /* a reader of one answer (decoder.h) */

struct qp__llm_codec {
  const char *name;
  const char *path; /* of the request, behind the base URL */

  /* Appends the body. The same request always gives the same bytes. If a history extends another
   * one (history.h), their bodies begin with the same bytes. QP_INVALID: there is nothing to
   * send. */
  enum qp_rc (*encode)(const struct qp__llm_request *request, struct qp__buf *out,
                       struct qp_err *err);

  /* A reader of one answer with a good status. */
  enum qp_rc (*open)(struct qp__llm_sink sink, struct qp__decoder **out, struct qp_err *err);
  /* More bytes of the stream. An error that the provider sends is not a failure of this call: end()
   * reports it. QP_INVALID: the bytes violate the protocol. */
  enum qp_rc (*feed)(struct qp__decoder *reader, struct qp_bytes bytes, struct qp_err *err);
  /* Instead of feed: a complete body, from a server that does not stream. */
  enum qp_rc (*whole)(struct qp__decoder *reader, struct qp_bytes body, struct qp_err *err);
  /* Called at the end of the bytes. fault->kind is QP__FAULT_NONE if the answer is complete;
   * otherwise *fault is the error that the provider sent, or QP__FAULT_CUT. Fails only if the
   * receiver of a last event fails. */
  enum qp_rc (*end)(struct qp__decoder *reader, struct qp__llm_fault *fault, struct qp_err *err);
  void (*close)(struct qp__decoder *reader); /* NULL is allowed */
};

extern const struct qp__llm_codec qp__codec_anthropic;
extern const struct qp__llm_codec qp__codec_openai;
extern const struct qp__llm_codec qp__codec_ollama;

/* Two of the slots `encode`, which are not in the file of their table (anthropic.c, openai.c). */
enum qp_rc qp__anthropic_encode(const struct qp__llm_request *request, struct qp__buf *out,
                                struct qp_err *err);
enum qp_rc qp__openai_encode(const struct qp__llm_request *request, struct qp__buf *out,
                             struct qp_err *err);

#endif

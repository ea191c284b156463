/* codec.h - a protocol: how a request is written and how an answer is read. It knows bytes and
 * nothing of connections, so that every one of its rules can be tested with text.
 *
 * One row per protocol. decoder.h reads an answer with these slots. */
#ifndef QP_LLM_CODEC_H
#define QP_LLM_CODEC_H

#include <jansson.h>

#include "llm/answer_event.h"
#include "llm/fault.h"
#include "llm/model_request.h"

#define QP__LLM_EVENT_MAX ((size_t)16 << 20) /* bytes of one event of a stream */

struct qp__decoder;

struct qp__llm_codec {
  const char *name;
  const char *path; /* of the request, behind the base URL */

  /* Appends the body. The same request always gives the same bytes. If a history extends another
   * one (history.h), their bodies begin with the same bytes. QP_INVALID: there is nothing to
   * send. */
  enum qp_rc (*encode)(const struct qp__llm_request *request, struct qp__buf *out,
                       struct qp_err *err);

  size_t reader_size; /* of a struct that begins with a decoder (decoder.h) */
  /* The stream is one JSON object per line; otherwise one per event (sse.h). */
  bool is_lines;
  const char *end_mark; /* the text of an event that ends the stream, or NULL */
  /* One object of the stream, which is no error. */
  enum qp_rc (*take)(struct qp__decoder *reader, json_t *object, struct qp_err *err);
  /* A complete body, from a server that does not stream. Not used for lines. */
  enum qp_rc (*take_whole)(struct qp__decoder *reader, json_t *body, struct qp_err *err);
  /* Reports the last events of a complete answer; may be NULL. */
  enum qp_rc (*finish)(struct qp__decoder *reader, struct qp_err *err);
  /* Frees the fields that the protocol has added to the decoder; may be NULL. */
  void (*release)(struct qp__decoder *reader);
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

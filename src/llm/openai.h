/* openai.h - the slots of qp__codec_openai that read answers (openai_stream.c). */
#ifndef QP_LLM_OPENAI_H
#define QP_LLM_OPENAI_H

#include "llm/codec.h"

enum qp_rc qp__openai_open(struct qp__llm_sink sink, void **out, struct qp_err *err);
enum qp_rc qp__openai_feed(void *self, struct qp_bytes bytes, struct qp_err *err);
enum qp_rc qp__openai_whole(void *self, struct qp_bytes body, struct qp_err *err);
bool qp__openai_over(const void *self);
enum qp_rc qp__openai_end(void *self, struct qp__llm_fault *fault, struct qp_err *err);
void qp__openai_close(void *self);

#endif

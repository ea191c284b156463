/* anthropic.h - the slots of qp__codec_anthropic that read answers (anthropic_stream.c). */
#ifndef QP_LLM_ANTHROPIC_H
#define QP_LLM_ANTHROPIC_H

#include "llm/codec.h"

enum qp_rc qp__anthropic_open(struct qp__llm_sink sink, void **out, struct qp_err *err);
enum qp_rc qp__anthropic_feed(void *self, struct qp_bytes bytes, struct qp_err *err);
enum qp_rc qp__anthropic_whole(void *self, struct qp_bytes body, struct qp_err *err);
bool qp__anthropic_over(const void *self);
enum qp_rc qp__anthropic_end(void *self, struct qp__llm_fault *fault, struct qp_err *err);
void qp__anthropic_close(void *self);

#endif

/* content.h - the content of a tool's result for a model: a text, and images where they can be
 * sent. A result may be a list of content blocks as MCP has them; pictures in it must not be sent
 * as base64 text. */
#ifndef QP_LLM_CONTENT_H
#define QP_LLM_CONTENT_H

#include "base/arena.h"
#include "model/message.h"

struct qp__content {
  struct qp_bytes text;
  struct qp_part *images; /* QP_PART_IMAGE each */
  size_t image_count;
};

/* A string is the text; nothing at all: the text of the message; blocks: their texts and images,
 * with a stub of type and size in the place of each block that is no text; all else: its JSON.
 * Without `with_images` there are none, and the stubs say so. Everything is in the arena or
 * borrowed from the message. */
enum qp_rc qp__content_of_result(const struct qp_message *m, bool with_images,
                                 struct qp__arena *arena, struct qp__content *out,
                                 struct qp_err *err);

/* The text that stands for an image that is not sent because the model does not take images. NULL:
 * no memory. */
const char *qp__content_stub(const char *url, struct qp__arena *arena);

#endif

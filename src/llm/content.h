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

/* A string is the text. Without a value, the text of the message is used. Of blocks: their texts
 * and images, and for each other block a stub with its type and size. Any other value: its JSON.
 * Without `with_images` images become stubs too. Everything is in the arena or borrowed from the
 * message. */
enum qp_rc qp__content_of_result(const struct qp_message *m, bool with_images,
                                 struct qp__arena *arena, struct qp__content *out,
                                 struct qp_err *err);

/* The text that replaces an image that is not sent because the model does not accept images. NULL:
 * out of memory. */
const char *qp__content_stub(const char *url, struct qp__arena *arena);

#endif

/* image_source.h - an image part in the forms that providers accept: an address on the web, or
 * bytes in base64. */
#ifndef QP_LLM_IMAGE_SOURCE_H
#define QP_LLM_IMAGE_SOURCE_H

#include "llm/model_request.h"

enum qp__llm_image_kind {
  QP__IMAGE_NONE, /* not available: a deleted blob, or an address that only this machine can use */
  QP__IMAGE_URL,  /* url */
  QP__IMAGE_DATA, /* media type, base64 */
};

struct qp__llm_image {
  enum qp__llm_image_kind kind;
  struct qp_bytes url;
  struct qp_bytes media_type; /* "image/png" */
  struct qp_bytes base64;
  struct qp__buf bytes; /* what base64 points into, for blobs */
};

/* Reads the address of an image: "https://…", "data:image/png;base64,…" or "quipu:blobs/…".
 * QP_NOMEM, QP_TOOBIG. Release with qp__llm_image_release(), also after a failure. */
enum qp_rc qp__llm_image_init(struct qp__llm_image *image, const char *url,
                              const struct qp__llm_request *request, struct qp_err *err);
void qp__llm_image_release(struct qp__llm_image *image);

/* The text that replaces an image that is not available. */
extern const char qp__llm_image_missing[];

#endif

/* image_source.c - see image_source.h. The first bytes of a blob determine its type; providers
 * accept only these four types. */
#include "llm/image_source.h"

#include <sodium.h>
#include <string.h>

const char qp__llm_image_missing[] = "[an image that is no longer available]";

static const struct {
  size_t at;
  const char *magic;
  const char *type;
} types[] = {
  { 0, "\x89PNG\r\n\x1a\n", "image/png" },
  { 0, "\xff\xd8\xff", "image/jpeg" },
  { 0, "GIF8", "image/gif" },
  { 8, "WEBP", "image/webp" },
};

static const char *
type_of(struct qp_bytes bytes)
{
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    size_t n = strlen(types[i].magic);

    if (bytes.len >= types[i].at + n && memcmp(bytes.data + types[i].at, types[i].magic, n) == 0)
      return types[i].type;
  }
  return NULL;
}

static bool
starts_with(const char *s, const char *head)
{
  return strncmp(s, head, strlen(head)) == 0;
}

/* "data:image/png;base64,…"; other forms are not available to the model. */
static void
split_data_url(struct qp__llm_image *image, const char *url)
{
  const char *type = url + strlen("data:");
  const char *mark = strstr(type, ";base64,");
  const char *comma = strchr(type, ',');

  if (!mark || comma != mark + strlen(";base64") || !starts_with(type, "image/"))
    return;
  image->kind = QP__IMAGE_DATA;
  image->media_type.data = type;
  image->media_type.len = strcspn(type, ";");
  image->base64.data = comma + 1;
  image->base64.len = strlen(comma + 1);
}

static enum qp_rc
encode_blob(struct qp__llm_image *image, const struct qp__buf *raw, const char *type,
            struct qp_err *err)
{
  size_t size = sodium_base64_ENCODED_LEN(raw->len, sodium_base64_VARIANT_ORIGINAL);
  enum qp_rc rc = qp__buf_reserve(&image->bytes, size);

  if (rc)
    return qp__buf_check(&image->bytes, "an image for a model", err);
  (void)sodium_bin2base64(image->bytes.data, size, (const unsigned char *)raw->data, raw->len,
                          sodium_base64_VARIANT_ORIGINAL);
  image->bytes.len = size - 1; /* without the NUL */
  image->kind = QP__IMAGE_DATA;
  image->media_type.data = type;
  image->media_type.len = strlen(type);
  image->base64 = qp__buf_bytes(&image->bytes);
  return QP_OK;
}

static enum qp_rc
read_blob(struct qp__llm_image *image, const char *id, const struct qp__llm_request *request,
          struct qp_err *err)
{
  struct qp__buf raw;
  const char *type;
  enum qp_rc rc;

  if (!request->blob)
    return QP_OK;
  qp__buf_init(&raw, QP__LLM_BODY_MAX);
  rc = request->blob(request->blob_arg, id, &raw, err);
  type = rc ? NULL : type_of(qp__buf_bytes(&raw));
  if (type)
    rc = encode_blob(image, &raw, type, err);
  else if (rc != QP_NOMEM)
    rc = QP_OK; /* it stays unavailable */
  qp__buf_release(&raw);
  return rc;
}

enum qp_rc
qp__llm_image_init(struct qp__llm_image *image, const char *url,
                   const struct qp__llm_request *request, struct qp_err *err)
{
  memset(image, 0, sizeof(*image));
  qp__buf_init(&image->bytes, QP__LLM_BODY_MAX * 2);
  if (!url)
    return QP_OK;
  if (starts_with(url, QP_BLOB_URL))
    return read_blob(image, url + strlen(QP_BLOB_URL), request, err);
  if (starts_with(url, "data:")) {
    split_data_url(image, url);
  } else if (starts_with(url, "https://") || starts_with(url, "http://")) {
    image->kind = QP__IMAGE_URL;
    image->url.data = url;
    image->url.len = strlen(url);
  }
  return QP_OK;
}

void
qp__llm_image_release(struct qp__llm_image *image)
{
  qp__buf_release(&image->bytes);
}

/* chat_attach.c - files that are sent with the next message: images as images, other UTF-8 files as
 * text after the name of the file. */
#include "cli/chat_attach.h"

#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/input.h"
#include "cli/out.h"

#define ATTACHMENT_MAX ((size_t)8 << 20)

static const struct {
  const char *magic;
  size_t len;
  size_t offset;
  const char *type;
} pictures[] = {
  { "\x89PNG\r\n\x1a\n", 8, 0, "image/png" },
  { "\xff\xd8\xff", 3, 0, "image/jpeg" },
  { "GIF87a", 6, 0, "image/gif" },
  { "GIF89a", 6, 0, "image/gif" },
  { "WEBP", 4, 8, "image/webp" },
};

static const char *
picture_type(const char *data, size_t len)
{
  for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++)
    if (len >= pictures[i].offset + pictures[i].len &&
        memcmp(data + pictures[i].offset, pictures[i].magic, pictures[i].len) == 0)
      return pictures[i].type;
  return NULL;
}

/* "data:image/png;base64,…", released with qp__free(); NULL: out of memory. */
static char *
data_url(const char *type, const unsigned char *data, size_t len)
{
  size_t size = strlen(type) + sizeof("data:;base64,");
  size_t encoded =
      sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL); /* including the NUL */
  char *url = qp__alloc(size + encoded);
  int head;

  if (!url)
    return NULL;
  head = snprintf(url, size, "data:%s;base64,", type);
  (void)sodium_bin2base64(url + head, encoded, data, len, sodium_base64_VARIANT_ORIGINAL);
  return url;
}

static json_t *
text_part(const char *path, const char *data, size_t len)
{
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  struct qp__buf text;
  json_t *part = NULL;

  qp__buf_init(&text, SIZE_MAX / 4);
  if (!qp__buf_addf(&text, "File %s:\n", name) && !qp__buf_add(&text, data, len))
    part = json_pack("{s:s, s:s%}", "type", "text", "text", text.data, text.len);
  qp__buf_release(&text);
  return part;
}

enum qp_rc
cli_chat_attach(const char *path, json_t *parts, const char **kind, struct qp_err *err)
{
  char *data = NULL;
  size_t len = 0;
  const char *type;
  char *url = NULL;
  json_t *part = NULL;
  enum qp_rc rc = cli_read_all(path, ATTACHMENT_MAX, &data, &len, err);

  if (rc)
    return rc;
  type = picture_type(data, len);
  if (type) {
    url = data_url(type, (const unsigned char *)data, len);
    part = url ? json_pack("{s:s, s:s}", "type", "image", "url", url) : NULL;
  } else if (memchr(data, '\0', len) || !(part = text_part(path, data, len))) {
    rc = qp__fail(err, QP_INVALID,
                  "cannot attach '%.200s': it is neither text nor a PNG, JPEG, GIF or WebP picture",
                  path);
  }
  if (!rc && (!part || json_array_append_new(parts, part)))
    rc = cli_fail_nomem(err);
  *kind = type ? type : "text";
  qp__free(url);
  qp__free(data);
  return rc;
}

enum qp_rc
cli_chat_message(const char *text, json_t *parts, struct qp_message **out, struct qp_err *err)
{
  json_t *content = json_array();
  json_t *whole = NULL;
  char *json = NULL;
  enum qp_rc rc = QP_OK;

  if (!content ||
      json_array_append_new(content, json_pack("{s:s, s:s}", "type", "text", "text", text)) ||
      json_array_extend(content, parts))
    rc = cli_fail_nomem(err);
  if (!rc) {
    whole = json_pack("{s:s, s:O}", "role", "user", "content", content);
    json = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    rc = json ? qp_message_parse((struct qp_bytes){ json, strlen(json) }, out, err)
              : cli_fail_nomem(err);
  }
  qp__free(json);
  json_decref(whole);
  json_decref(content);
  return rc;
}

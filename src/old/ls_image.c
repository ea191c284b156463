/* ls_image.c - images of a dump: converts data URLs to blobs.
 *
 * An image is "data:<media type>[;…];base64,<digits>", "data:<media type>[;…],<escaped bytes>",
 * only base64 digits, or a URL, which stays a URL. Data that cannot be decoded is kept as text in a
 * blob, and the message refers to it with a part of type "unreadable_image". */
#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/blob_name.h"
#include "old/ls_int.h"

#define URL_LEN (sizeof(QP_BLOB_URL) - 1 + QP_BLOB_ID)

/* ---- decoding ---- */

struct picture {
  const char *media; /* media type, or NULL */
  size_t media_len;
  char *data; /* decoded; owned */
  size_t len;
  const char *problem; /* why it could not be decoded, or NULL */
};

/* Base64 with or without padding; white space is skipped. False: out of memory. */
static bool
decode_base64(const char *text, size_t n, struct picture *out)
{
  static const int variants[] = {
    sodium_base64_VARIANT_ORIGINAL,
    sodium_base64_VARIANT_ORIGINAL_NO_PADDING,
  };
  size_t room = n / 4 * 3 + 3;

  out->data = qp__alloc(room);
  if (!out->data)
    return false;
  for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
    const char *end = NULL;

    if (sodium_base642bin((uint8_t *)out->data, room, text, n, " \t\r\n", &out->len, &end,
                          variants[i]) == 0 &&
        end == text + n)
      return true;
  }
  out->problem = "its base64 is broken";
  return true;
}

/* Bytes, some of them as %XX. False: out of memory. */
static bool
decode_escaped(const char *text, size_t n, struct picture *out)
{
  out->data = qp__alloc(n + 1);
  if (!out->data)
    return false;
  for (size_t i = 0; i < n; i++) {
    uint8_t byte = (uint8_t)text[i];

    if (text[i] == '%') {
      if (n - i < 3 || !qp__hex_decode(&byte, text + i + 1, 1)) {
        out->problem = "a %-escape in it is broken";
        return true;
      }
      i += 2;
    }
    out->data[out->len++] = (char)byte;
  }
  return true;
}

/* The part after "data:". False: out of memory. */
static bool
decode_data_url(const char *text, size_t n, struct picture *out)
{
  static const char mark[] = ";base64";
  const size_t mark_len = sizeof(mark) - 1;
  const char *comma = memchr(text, ',', n);
  const char *semicolon;
  size_t head;
  bool digits;

  if (!comma) {
    out->problem = "its data URL has no comma";
    return true;
  }
  head = (size_t)(comma - text);
  semicolon = memchr(text, ';', head);
  out->media = text;
  out->media_len = semicolon ? (size_t)(semicolon - text) : head;
  digits = head >= mark_len && strncasecmp(comma - mark_len, mark, mark_len) == 0;
  n -= head + 1;
  return digits ? decode_base64(comma + 1, n, out) : decode_escaped(comma + 1, n, out);
}

/* A URL has a scheme; base64 has no colon. */
static bool
is_address(const char *source)
{
  return strchr(source, ':') != NULL;
}

/* False: out of memory. */
static bool
decode(const char *source, size_t n, struct picture *out)
{
  bool ok = strncasecmp(source, "data:", 5) == 0 ? decode_data_url(source + 5, n - 5, out)
                                                 : decode_base64(source, n, out);

  if (ok && !out->problem && !out->len)
    out->problem = "it has no bytes";
  return ok;
}

/* ---- blobs ---- */

/* Takes ownership of `data`, also after a failure. */
static enum qp_rc
add_blob(struct qp__ls_chat *chat, char *data, size_t len, char url[URL_LEN], struct qp_err *err)
{
  struct qp__ls_blob blob = { .data = data, .len = len };

  qp__blob_name((struct qp_bytes){ data, len }, blob.id);
  memcpy(url, QP_BLOB_URL, sizeof(QP_BLOB_URL) - 1);
  memcpy(url + sizeof(QP_BLOB_URL) - 1, blob.id, QP_BLOB_ID);
  if (json_object_get(chat->blob_ids, blob.id)) {
    qp__free(data);
    return QP_OK;
  }
  if (!qp__vec_reserve(chat->blobs, chat->blob_count, chat->blob_cap, 1) ||
      json_object_set_new(chat->blob_ids, blob.id, json_true())) {
    qp__free(data);
    return qp__fail_nomem(err, "an image");
  }
  chat->blobs[chat->blob_count++] = blob;
  return QP_OK;
}

/* ---- parts ---- */

enum qp_rc
qp__ls_keep_part(struct qp_message *m, const char *type, json_t *value, struct qp_err *err)
{
  struct qp_part part = { .kind = QP_PART_OTHER };
  json_t *o = json_pack("{s:s,s:O}", "type", type, QP__LS_FIELD, value);
  enum qp_rc rc =
      o ? qp__message_put_part(m, &part, o, err) : qp__fail_nomem(err, "a part of a message");

  json_decref(o);
  return rc;
}

/* For an image that could not be decoded: its text becomes a blob. `fields` may be NULL. */
static enum qp_rc
add_unreadable(struct qp__ls_chat *chat, struct qp_message *m, const char *item, const char *source,
               size_t n, const char *problem, json_t *fields, struct qp_err *err)
{
  struct qp_part part = { .kind = QP_PART_OTHER };
  char url[URL_LEN] = "";
  json_t *o;
  char *copy;
  enum qp_rc rc = QP_OK;

  if (n <= QP__BLOB_MAX) {
    copy = qp__strndup(source, n);
    if (!copy)
      return qp__fail_nomem(err, "an image");
    rc = add_blob(chat, copy, n, url, err);
  }
  if (rc)
    return rc;
  o = json_pack("{s:s}", "type", "unreadable_image");
  if ((url[0] && qp__json_set_str(o, "url", url)) || qp__json_set_str(o, "problem", problem) ||
      qp__field_add_rest(o, fields) ||
      !qp__ls_note(&chat->notes, item, QP_OK, "an image cannot be read: %s; %s", problem,
                   url[0] ? "its text is kept as a blob" : "it is omitted"))
    rc = qp__fail_nomem(err, "an image");
  if (!rc)
    rc = qp__message_put_part(m, &part, o, err);
  json_decref(o);
  return rc;
}

/* Adds the image in `source`. `fields` are the other fields of the part, or NULL; a missing media
 * type is added. */
static enum qp_rc
add_picture(struct qp__ls_chat *chat, struct qp_message *m, const char *item, const char *source,
            const char *detail, json_t *fields, struct qp_err *err)
{
  struct qp_part part = { .kind = QP_PART_IMAGE, .detail = detail };
  struct picture p = { .media = NULL };
  size_t n = strlen(source);
  char url[URL_LEN];
  enum qp_rc rc;

  if (is_address(source) && strncasecmp(source, "data:", 5) != 0) {
    part.url = source;
    return qp__message_put_part(m, &part, fields, err);
  }
  if (!decode(source, n, &p))
    return qp__fail_nomem(err, "an image");
  if (!p.problem && p.len > QP__BLOB_MAX)
    p.problem = "it is larger than 64 MiB";
  if (p.problem) {
    qp__free(p.data);
    return add_unreadable(chat, m, item, source, n, p.problem, fields, err);
  }
  if (fields && p.media_len && !json_object_get(fields, "media_type") &&
      qp__json_set_strn(fields, "media_type", p.media, p.media_len)) {
    qp__free(p.data);
    return qp__fail_nomem(err, "an image");
  }
  rc = add_blob(chat, p.data, p.len, url, err);
  part.url = url;
  return rc ? rc : qp__message_put_part(m, &part, fields, err);
}

enum qp_rc
qp__ls_image_part(struct qp__ls_chat *chat, struct qp_message *m, const char *item, const char *url,
                  const char *detail, json_t *rest, struct qp_err *err)
{
  json_t *fields = json_object();
  enum qp_rc rc;

  if (!fields || qp__ls_set_rest(fields, rest))
    rc = qp__fail_nomem(err, "an image");
  else
    rc = add_picture(chat, m, item, url, detail, fields, err);
  json_decref(fields);
  return rc;
}

/* Moves a field to the part, possibly under another name. 0 or -1. */
static int
move_field(json_t *fields, const char *to, json_t *rest, const json_t *image, const char *from,
           bool fits)
{
  return fits ? json_object_set(fields, to, qp__ls_take(rest, image, from)) : 0;
}

/* Moves the description of an image from `rest` to `fields`. 0 or -1. */
static int
describe(json_t *fields, json_t *rest, const json_t *image)
{
  static const char *const numbers[] = { "size", "width", "height" };
  json_t *type = json_object_get(image, "type");
  int bad = move_field(fields, "name", rest, image, "name",
                       json_is_string(json_object_get(image, "name"))) ||
            move_field(fields, "media_type", rest, image, "type", json_string_length(type) > 0);

  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !bad; i++)
    bad = move_field(fields, numbers[i], rest, image, numbers[i],
                     json_is_number(json_object_get(image, numbers[i])));
  return bad || qp__ls_set_rest(fields, rest);
}

enum qp_rc
qp__ls_image_add(struct qp__ls_chat *chat, struct qp_message *m, const char *item, json_t *image,
                 struct qp_err *err)
{
  json_t *rest = json_is_object(image) ? qp__json_copy(image) : NULL;
  json_t *fields = json_object();
  const char *source;
  enum qp_rc rc;

  if (!fields || (json_is_object(image) && !rest)) {
    rc = qp__fail_nomem(err, "an image");
    goto out;
  }
  source = rest ? qp__ls_take_string(rest, image, "base64") : NULL;
  if (!source && rest)
    source = qp__ls_take_string(rest, image, "url");
  if (!source) {
    rc = qp__ls_keep_part(m, "unreadable_image", image, err);
    if (!rc && !qp__ls_note(&chat->notes, item, QP_OK,
                            "an image has no \"base64\"; its other fields are kept"))
      rc = qp__fail_nomem(err, "an image");
    goto out;
  }
  if (describe(fields, rest, image))
    rc = qp__fail_nomem(err, "an image");
  else
    rc = add_picture(chat, m, item, source, NULL, fields, err);
out:
  json_decref(fields);
  json_decref(rest);
  return rc;
}

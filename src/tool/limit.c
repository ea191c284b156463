/* limit.c - see limit.h. */
#include "tool/limit.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "tool/text.h"

#define MEDIA_MAX ((size_t)4 << 20) /* bytes of base64 of all images and sounds of a result */
#define ENCODED_MAX ((size_t)256 << 20)

static json_t *
cut_text(const char *text, size_t n, size_t limit)
{
  size_t fit = qp__utf8_fit(text, n, limit);
  struct qp__buf out;

  qp__buf_init(&out, limit + 200);
  (void)qp__buf_add(&out, text, fit);
  (void)qp__buf_addf(&out, "\n[… cut: these are the first %zu of %zu bytes]", fit, n);
  return qp__json_take(&out);
}

static size_t
encoded_size(const json_t *value, struct qp__buf *out)
{
  qp__buf_reset(out);
  return qp__json_write(out, value) ? (size_t)-1 : out->len;
}

/* ---- lists of content blocks ---- */

static const char *
block_type(const json_t *block)
{
  const char *type = json_string_value(json_object_get(block, "type"));

  return type ? type : "";
}

static json_t *
text_block(json_t *text)
{
  return json_pack("{s:s, s:o}", "type", "text", "text", text);
}

/* The block itself, or a note in its place. *left is the room for other text, *media the room for
 * images and sounds. New. */
static json_t *
limit_block(json_t *block, size_t *left, size_t *media, struct qp__buf *scratch, bool *cut)
{
  const json_t *text = json_object_get(block, "text");
  const json_t *data = json_object_get(block, "data");
  size_t n;

  if (strcmp(block_type(block), "text") == 0 && json_is_string(text)) {
    n = json_string_length(text);
    if (n <= *left) {
      *left -= n;
      return json_incref(block);
    }
    *cut = true;
    n = *left;
    *left = 0;
    return text_block(cut_text(json_string_value(text), json_string_length(text), n));
  }
  n = encoded_size(block, scratch);
  if (json_is_string(data) && n <= *media) {
    *media -= n;
    return json_incref(block);
  }
  if (n <= *left) {
    *left -= n;
    return json_incref(block);
  }
  *cut = true;
  return text_block(json_sprintf("[a block of type %.40s was left out: %zu bytes are too many]",
                                 block_type(block), n));
}

static bool
is_blocks(const json_t *value)
{
  for (size_t i = 0; i < json_array_size(value); i++)
    if (!*block_type(json_array_get(value, i)))
      return false;
  return json_array_size(value) > 0;
}

static json_t *
limit_blocks(json_t *value, size_t limit, bool *cut)
{
  json_t *out = json_array();
  struct qp__buf scratch;
  size_t left = limit;
  size_t media = MEDIA_MAX;
  int bad = !out;

  qp__buf_init(&scratch, ENCODED_MAX);
  for (size_t i = 0; i < json_array_size(value) && !bad; i++)
    bad = json_array_append_new(
        out, limit_block(json_array_get(value, i), &left, &media, &scratch, cut));
  qp__buf_release(&scratch);
  json_decref(value);
  return qp__json_built(out, bad);
}

json_t *
qp__limit_value(json_t *value, size_t limit, bool *cut)
{
  struct qp__buf scratch;
  json_t *out = value;
  size_t n;

  if (is_blocks(value))
    return limit_blocks(value, limit, cut);
  if (json_is_string(value)) {
    if (json_string_length(value) <= limit)
      return value;
    *cut = true;
    out = cut_text(json_string_value(value), json_string_length(value), limit);
    json_decref(value);
    return out;
  }
  if (!value)
    return NULL;
  qp__buf_init(&scratch, ENCODED_MAX);
  n = encoded_size(value, &scratch);
  if (n > limit) {
    *cut = true;
    out = scratch.rc ? NULL : cut_text(scratch.data, n, limit);
    json_decref(value);
  }
  qp__buf_release(&scratch);
  return out;
}

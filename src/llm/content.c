/* content.c - see content.h. */
#include "llm/content.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "llm/model_request.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define TEXT_MAX (QP__LLM_BODY_MAX)

static const char what[] = "a tool's result";
static const char blind[] = "; not sent, because the model does not accept images";

/* Types that providers accept. */
static const char *const image_types[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };

static bool
is_one_of(const char *word, const char *const *list, size_t count)
{
  for (size_t i = 0; word && i < count; i++)
    if (strcmp(word, list[i]) == 0)
      return true;
  return false;
}

static size_t
decoded_size(const char *base64, size_t n)
{
  while (n && base64[n - 1] == '=')
    n--;
  return n / 4 * 3 + n % 4 * 3 / 4;
}

static bool
is_base64(const char *s, size_t n)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t plain = strspn(s, digits);

  return n > 0 && n % 4 == 0 && plain + 2 >= n && strspn(s + plain, "=") == n - plain;
}

/* Whether a list is content of MCP: all elements have a type, and at least one type is of MCP. */
static bool
is_content(const json_t *value)
{
  static const char *const kinds[] = { "text", "image", "audio", "resource", "resource_link" };
  bool known = false;

  for (size_t i = 0; i < json_array_size(value); i++) {
    const char *type = qp__json_text(json_array_get(value, i), "type");

    if (!type)
      return false;
    known = known || is_one_of(type, kinds, COUNT(kinds));
  }
  return known;
}

/* ---- blocks ---- */

struct reading {
  struct qp__arena *arena;
  struct qp__buf text;
  struct qp__content *out;
  bool with_images;
};

static void
begin_line(struct reading *r)
{
  if (r->text.len)
    (void)qp__buf_add_char(&r->text, '\n');
}

/* False: no memory. */
static bool
add_image(struct reading *r, const char *type, const char *data, size_t n)
{
  struct qp_part *part = &r->out->images[r->out->image_count];
  struct qp__buf url;
  const char *copy;

  qp__buf_init(&url, TEXT_MAX);
  (void)qp__buf_addf(&url, "data:%s;base64,", type);
  (void)qp__buf_add(&url, data, n);
  copy = qp__arena_take(r->arena, &url);
  if (!copy)
    return false;
  *part = (struct qp_part){ .kind = QP_PART_IMAGE, .text = { "", 0 }, .url = copy };
  r->out->image_count++;
  return true;
}

/* An image or a sound: sent if it can be, and a stub of its type and size in the text. */
static bool
read_media(struct reading *r, const char *kind, const json_t *block)
{
  const json_t *data = json_object_get(block, "data");
  const char *bytes = json_string_value(data);
  size_t n = json_string_length(data);
  const char *type = qp__json_text(block, "mimeType");
  bool is_image = is_one_of(type, image_types, COUNT(image_types)) && is_base64(bytes, n);
  const char *why = !is_image ? "; not sent" : r->with_images ? "" : blind;

  begin_line(r);
  (void)qp__buf_addf(&r->text, "[%s: %.80s, %zu bytes%s]", kind, type ? type : "unknown type",
                     decoded_size(bytes, n), why);
  return !is_image || !r->with_images || add_image(r, type, bytes, n);
}

/* The text of an embedded resource; of a binary one its type and size. */
static void
read_resource(struct reading *r, const json_t *block)
{
  const json_t *resource = json_object_get(block, "resource");
  const json_t *text = json_object_get(resource, "text");
  const json_t *blob = json_object_get(resource, "blob");
  const char *uri = qp__json_text(resource, "uri");
  const char *type = qp__json_text(resource, "mimeType");

  begin_line(r);
  if (json_is_string(text)) {
    (void)qp__buf_addf(&r->text, "[resource: %.300s]\n", uri ? uri : "");
    (void)qp__buf_add(&r->text, json_string_value(text), json_string_length(text));
  } else {
    (void)qp__buf_addf(
        &r->text, "[resource: %.300s, %.80s, %zu bytes; not sent]", uri ? uri : "",
        type ? type : "unknown type",
        json_is_string(blob) ? decoded_size(json_string_value(blob), json_string_length(blob)) : 0);
  }
}

/* False: no memory. */
static bool
read_block(struct reading *r, const json_t *block)
{
  const char *type = qp__json_text(block, "type");
  const json_t *text = json_object_get(block, "text");

  if (strcmp(type, "text") == 0 && json_is_string(text)) {
    begin_line(r);
    (void)qp__buf_add(&r->text, json_string_value(text), json_string_length(text));
  } else if ((strcmp(type, "image") == 0 || strcmp(type, "audio") == 0) &&
             json_is_string(json_object_get(block, "data"))) {
    return read_media(r, type, block);
  } else if (strcmp(type, "resource") == 0 && json_is_object(json_object_get(block, "resource"))) {
    read_resource(r, block);
  } else {
    begin_line(r);
    (void)qp__json_write(&r->text, block);
  }
  return true;
}

/* ---- the whole ---- */

static void
read_parts(struct reading *r, const struct qp_message *m)
{
  for (size_t i = 0; i < m->part_count; i++)
    if (m->parts[i].view.kind == QP_PART_TEXT) {
      begin_line(r);
      (void)qp__buf_add(&r->text, m->parts[i].view.text.data, m->parts[i].view.text.len);
    }
}

/* Images that are parts of the message. False: no memory. */
static bool
take_image_parts(struct reading *r, const struct qp_message *m)
{
  for (size_t i = 0; i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;

    if (part->kind != QP_PART_IMAGE)
      continue;
    if (r->with_images) {
      r->out->images[r->out->image_count++] = *part;
    } else {
      const char *stub = qp__content_stub(part->url, r->arena);

      if (!stub)
        return false;
      begin_line(r);
      (void)qp__buf_add_str(&r->text, stub);
    }
  }
  return true;
}

enum qp_rc
qp__content_of_result(const struct qp_message *m, bool with_images, struct qp__arena *arena,
                      struct qp__content *out, struct qp_err *err)
{
  const json_t *value = m->result_value;
  size_t most = m->part_count + json_array_size(value);
  struct reading r = { .arena = arena, .out = out, .with_images = with_images };
  enum qp_rc rc;
  bool good;

  memset(out, 0, sizeof(*out));
  out->images = qp__arena_alloc(arena, (most + 1) * sizeof(*out->images));
  qp__buf_init(&r.text, TEXT_MAX);
  good = out->images != NULL;
  if (json_is_null(value))
    read_parts(&r, m);
  else if (json_is_string(value))
    (void)qp__buf_add(&r.text, json_string_value(value), json_string_length(value));
  else if (is_content(value))
    for (size_t i = 0; good && i < json_array_size(value); i++)
      good = read_block(&r, json_array_get(value, i));
  else
    (void)qp__json_write(&r.text, value);
  good = good && take_image_parts(&r, m);
  rc = good ? qp__buf_check(&r.text, what, err) : qp__fail_nomem(err, what);
  out->text.len = r.text.len;
  out->text.data = qp__arena_take(arena, &r.text);
  if (!rc && !out->text.data)
    rc = qp__fail_nomem(err, what);
  return rc;
}

const char *
qp__content_stub(const char *url, struct qp__arena *arena)
{
  const char *comma = url && strncmp(url, "data:", 5) == 0 ? strchr(url, ',') : NULL;
  struct qp__buf text;

  qp__buf_init(&text, 1024);
  (void)qp__buf_add_str(&text, "[image");
  if (comma)
    (void)qp__buf_addf(&text, ": %.*s, %zu bytes", (int)strcspn(url + 5, ";,"), url + 5,
                       decoded_size(comma + 1, strlen(comma + 1)));
  (void)qp__buf_addf(&text, "%s]", blind);
  return qp__arena_take(arena, &text);
}

/* message_json.c - messages from and to JSON; the stored form is in message.h.
 *
 * (1) decode accepts everything that encode writes, and encoding the result gives the same bytes.
 * (2) Input may differ from the stored form: {"role", "text"}, "content" as one string, names in
 *     any letter case, null for an absent field. The stored form has only one spelling. */
#include "model/message_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"

static const char *const message_fields[] = {
  "id",      "parent_id",  "role",        "type",     "created_at", "text",
  "content", "tool_calls", "tool_result", "metadata", NULL,
};
static const char *const text_fields[] = { "type", "text", NULL };
static const char *const image_fields[] = { "type", "url", "detail", NULL };
static const char *const thinking_fields[] = { "type", "text", "signature", NULL };

/* ---- parts ---- */

/* The text of a part: required, but may be empty. */
static enum qp_rc
need_text(const struct qp__place *at, const json_t *object, struct qp_bytes *out,
          struct qp_err *err)
{
  out->data = NULL;
  out->len = 0;
  if (!qp__field_get(object, "text"))
    return qp__field_fail(at, "text", "is missing", err);
  return qp__field_text(at, object, "text", out, err);
}

static enum qp_rc
decode_known_part(const struct qp__place *at, const json_t *object, struct qp_part *part,
                  const char *const *known, struct qp_message *m, struct qp_err *err)
{
  json_t *extra = NULL;
  enum qp_rc rc;

  if (part->kind == QP_PART_IMAGE) {
    rc = qp__field_need(at, object, "url", &part->url, err);
    if (!rc)
      rc = qp__field_string(at, object, "detail", &part->detail, err);
  } else {
    rc = need_text(at, object, &part->text, err);
    if (!rc && part->kind == QP_PART_THINKING)
      rc = qp__field_string(at, object, "signature", &part->signature, err);
  }
  if (!rc)
    rc = qp__field_rest(at->what, object, known, &extra, err);
  if (!rc)
    rc = qp__message_put_part(m, part, extra, err);
  json_decref(extra);
  return rc;
}

static enum qp_rc
decode_part(void *arg, const struct qp__place *at, json_t *object, struct qp_err *err)
{
  struct qp_message *m = arg;
  struct qp_part part = { .kind = QP_PART_OTHER };
  const char *const *known = NULL;
  const char *type = NULL;
  enum qp_rc rc = qp__field_need(at, object, "type", &type, err);

  if (rc)
    return rc;
  if (strcmp(type, "text") == 0) {
    part.kind = QP_PART_TEXT;
    known = text_fields;
  } else if (strcmp(type, "image") == 0) {
    part.kind = QP_PART_IMAGE;
    known = image_fields;
  } else if (strcmp(type, "thinking") == 0) {
    part.kind = QP_PART_THINKING;
    known = thinking_fields;
  } else {
    return qp__message_put_part(m, &part, object, err);
  }
  return decode_known_part(at, object, &part, known, m, err);
}

/* "content" as an array or as one string, or "text". */
static enum qp_rc
decode_content(const struct qp__place *at, const json_t *root, struct qp_message *m,
               struct qp_err *err)
{
  struct qp_part part = { .kind = QP_PART_TEXT };
  json_t *content = qp__field_get(root, "content");
  bool short_form = qp__field_get(root, "text") != NULL;
  enum qp_rc rc;

  if (short_form && content)
    return qp__field_fail(at, "text", "cannot be used together with \"content\"", err);
  if (!short_form && !content)
    return QP_OK;
  if (json_is_array(content))
    return qp__field_each(at->what, "content", content, decode_part, m, err);
  if (content && !json_is_string(content))
    return qp__field_fail(at, "content", "must be an array or a string", err);
  rc = qp__field_text(at, root, short_form ? "text" : "content", &part.text, err);
  return rc ? rc : qp__message_put_part(m, &part, NULL, err);
}

/* ---- from JSON ---- */

/* Reads the simple fields. */
static enum qp_rc
decode_head(const struct qp__place *at, const json_t *root, struct qp_message *m,
            struct qp_err *err)
{
  unsigned role = 0;
  unsigned type = 0;
  enum qp_rc rc;

  if (!qp__field_get(root, "role"))
    return qp__field_fail(at, "role", "is missing", err);
  rc = qp__field_name(at, root, "role", &qp__role_names, &role, err);
  if (!rc)
    rc = qp__field_name(at, root, "type", &qp__type_names, &type, err);
  if (!rc)
    rc = qp__field_uuid(at, root, "id", &m->id, err);
  if (!rc)
    rc = qp__field_uuid(at, root, "parent_id", &m->parent, err);
  if (!rc)
    rc = qp__field_time(at, root, "created_at", &m->created_at, err);
  if (rc)
    return rc;
  m->role = (enum qp_role)role;
  m->type = (enum qp_message_type)type;
  m->has_type = qp__field_get(root, "type") != NULL;
  m->has_parent = json_object_get(root, "parent_id") != NULL;
  return QP_OK;
}

static enum qp_rc
decode_body(const struct qp__place *at, const json_t *root, struct qp_message *m,
            struct qp_err *err)
{
  json_t *calls = NULL;
  json_t *result = NULL;
  json_t *metadata = NULL;
  enum qp_rc rc = decode_content(at, root, m, err);

  if (!rc)
    rc = qp__field_array(at, root, "tool_calls", &calls, err);
  if (!rc && calls)
    rc = qp__tool_calls_decode(at->what, calls, m, err);
  if (!rc)
    rc = qp__field_object(at, root, "tool_result", &result, err);
  if (!rc && result)
    rc = qp__tool_result_decode(at->what, result, m, err);
  if (!rc)
    rc = qp__field_object(at, root, "metadata", &metadata, err);
  if (!rc)
    rc = qp__field_rest(at->what, root, message_fields, &m->extra, err);
  if (!rc)
    m->metadata = json_incref(metadata);
  return rc;
}

enum qp_rc
qp__message_from_value(const char *what, const json_t *root, struct qp_message **out,
                       struct qp_err *err)
{
  struct qp__place at = { what, "" };
  struct qp_message *m = qp__alloc0(1, sizeof(*m));
  enum qp_rc rc;

  if (!m)
    return qp__fail_nomem(err, what);
  rc = decode_head(&at, root, m, err);
  if (!rc)
    rc = decode_body(&at, root, m, err);
  if (rc)
    qp_message_free(m);
  else
    *out = m;
  return rc;
}

enum qp_rc
qp__message_decode(const char *what, struct qp_bytes json, struct qp_message **out,
                   struct qp_err *err)
{
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object(what, json, &root, err);

  if (!rc)
    rc = qp__message_from_value(what, root, out, err);
  json_decref(root);
  return rc;
}

static enum qp_rc
from_own_form(const json_t *root, struct qp_message **out, struct qp_err *err)
{
  static const char *const contents[] = { "text", "content", "tool_calls", "tool_result" };
  struct qp__place at = { "message", "" };
  bool has_content = false;

  for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++)
    has_content = has_content || qp__field_get(root, contents[i]);
  /* The stored form always has "content", so all of them can be missing only in input. */
  if (!has_content && qp__field_get(root, "role"))
    return qp__field_fail(&at, "content", "is missing", err);
  return qp__message_from_value(at.what, root, out, err);
}

enum qp_rc
qp__messages_from_input(const json_t *root, struct qp_message **out, size_t max, size_t *count,
                        struct qp_err *err)
{
  json_t *list = NULL;
  size_t n = 0;
  enum qp_rc rc = qp__message_translate(root, &list, err);

  if (!rc && json_array_size(list) > max)
    rc = qp__fail(err, QP_TOOBIG, "a message has more than %zu tool results", max);
  for (; !rc && n < json_array_size(list); n += !rc)
    rc = from_own_form(json_array_get(list, n), &out[n], err);
  while (rc && n > 0)
    qp_message_free(out[--n]);
  json_decref(list);
  *count = n;
  return rc;
}

enum qp_rc
qp_message_parse_all(struct qp_bytes json, struct qp_message **out, size_t max, size_t *count,
                     struct qp_err *err)
{
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object("message", json, &root, err);

  if (!rc)
    rc = qp__messages_from_input(root, out, max, count, err);
  json_decref(root);
  return rc;
}

enum qp_rc
qp_message_parse(struct qp_bytes json, struct qp_message **out, struct qp_err *err)
{
  struct qp_message *message = NULL;
  size_t count = 0;
  enum qp_rc rc = qp_message_parse_all(json, &message, 1, &count, err);

  if (!rc)
    *out = message;
  return rc;
}

/* ---- to JSON ---- */

/* A new value; NULL: out of memory. The text was checked when the part was created. */
static json_t *
encode_part(const struct qp__part_data *part)
{
  const struct qp_part *view = &part->view;
  json_t *o;
  int bad = 0;

  if (view->kind == QP_PART_OTHER)
    return json_incref(part->extra);
  o = json_object();
  if (view->kind == QP_PART_IMAGE) {
    bad = qp__json_set_str(o, "type", "image") || qp__json_set_str(o, "url", view->url) ||
          (view->detail && qp__json_set_str(o, "detail", view->detail));
  } else {
    const char *type = view->kind == QP_PART_TEXT ? "text" : "thinking";

    bad = qp__json_set_str(o, "type", type) ||
          json_object_set_new(o, "text", json_stringn_nocheck(view->text.data, view->text.len)) ||
          (view->signature && qp__json_set_str(o, "signature", view->signature));
  }
  return qp__json_built(o, bad || qp__field_add_rest(o, part->extra));
}

static json_t *
encode_parts(const struct qp_message *m)
{
  json_t *list = json_array();

  for (size_t i = 0; i < m->part_count; i++) {
    list = qp__json_push(list, encode_part(&m->parts[i]));
  }
  return list;
}

static int
encode_fields(const struct qp_message *m, json_t *o)
{
  const char *type = qp_message_type_name(qp__message_effective_type(m));

  if (!qp_uuid_is_none(&m->id) && qp__json_set_uuid(o, "id", &m->id))
    return -1;
  if (qp__json_set_uuid(o, "parent_id", &m->parent) ||
      qp__json_set_str(o, "role", qp_role_name(m->role)) || qp__json_set_str(o, "type", type))
    return -1;
  if (m->created_at && qp__json_set_time(o, "created_at", m->created_at))
    return -1;
  if (json_object_set_new(o, "content", encode_parts(m)))
    return -1;
  if (m->call_count && json_object_set_new(o, "tool_calls", qp__tool_calls_encode(m)))
    return -1;
  if (m->has_result && json_object_set_new(o, "tool_result", qp__tool_result_encode(m)))
    return -1;
  if (m->metadata && json_object_set(o, "metadata", m->metadata))
    return -1;
  return qp__field_add_rest(o, m->extra);
}

json_t *
qp__message_to_value(const struct qp_message *m)
{
  json_t *root = json_object();

  return qp__json_built(root, encode_fields(m, root));
}

enum qp_rc
qp__message_encode(const struct qp_message *m, struct qp__buf *out, struct qp_err *err)
{
  size_t room = 256;

  for (size_t i = 0; i < m->part_count; i++)
    room += m->parts[i].view.text.len + 64;
  if (room <= out->limit - out->len)
    (void)qp__buf_reserve(out, room); /* allocate once instead of doubling */
  return qp__value_write_new("the message", qp__message_to_value(m), QP__COMPACT, out, err);
}

enum qp_rc
qp_message_metadata(const struct qp_message *m, char **out, size_t *len, struct qp_err *err)
{
  struct qp__buf text;

  qp__buf_init(&text, QP__MESSAGE_BUF_MAX);
  if (m->metadata)
    (void)qp__json_write(&text, m->metadata);
  else
    (void)qp__buf_add_str(&text, "{}");
  return qp__buf_return(&text, QP_OK, "the metadata of a message", out, len, err);
}

enum qp_rc
qp_message_json(const struct qp_message *m, char **out, size_t *len, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__MESSAGE_BUF_MAX);
  rc = qp__message_encode(m, &text, err);
  return qp__buf_return(&text, rc, "the message", out, len, err);
}

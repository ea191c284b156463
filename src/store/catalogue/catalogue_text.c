/* catalogue_text.c - the searchable text of a message: its text, the names and arguments of the
 * tools that it calls, and the result of a tool. Thinking is not searchable. Of JSON values the
 * strings are used, not the keys. */
#include <string.h>

#include "model/message.h"
#include "store/catalogue/catalogue_int.h"

#define TEXT_MAX ((size_t)256 << 10) /* per message; later text is not found */
#define DEPTH_MAX 32                 /* levels of arguments and results */

/* Appends text on a new line, as much as fits, cut between characters. Control characters become
 * spaces: two of them mark words in a snippet. */
static void
add_text(struct qp__buf *out, const char *s, size_t n)
{
  size_t room = TEXT_MAX - out->len;
  size_t from = out->len;

  if (!n || room < 2)
    return;
  if (n > room - 1) {
    n = room - 1;
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
      n--;
  }
  if ((from && qp__buf_add_char(out, '\n')) || qp__buf_add(out, s, n))
    return;
  for (size_t i = from; i < out->len; i++)
    if ((unsigned char)out->data[i] < 0x20 && out->data[i] != '\n' && out->data[i] != '\t')
      out->data[i] = ' ';
}

static void
add_strings(struct qp__buf *out, json_t *value, int depth)
{
  const char *key;
  json_t *item;
  size_t i;

  if (depth > DEPTH_MAX || out->rc)
    return;
  if (json_is_string(value)) {
    add_text(out, json_string_value(value), json_string_length(value));
  } else if (json_is_array(value)) {
    json_array_foreach (value, i, item) {
      add_strings(out, item, depth + 1);
    }
  } else if (json_is_object(value)) {
    json_object_foreach (value, key, item) {
      add_strings(out, item, depth + 1);
    }
  }
}

enum qp_rc
qp__cat_message_text(const struct qp_message *m, struct qp__buf *out, struct qp_err *err)
{
  for (size_t i = 0; i < m->part_count; i++)
    if (m->parts[i].view.kind == QP_PART_TEXT)
      add_text(out, m->parts[i].view.text.data, m->parts[i].view.text.len);
  for (size_t i = 0; i < m->call_count; i++) {
    add_text(out, m->calls[i].view.tool_name, strlen(m->calls[i].view.tool_name));
    add_strings(out, m->calls[i].arguments, 0);
  }
  if (m->has_result)
    add_strings(out, m->result_value, 0);
  return qp__buf_check(out, "the text of a message", err);
}

/* index_write.c - writes the lines of index.json and index.log; see index.h. */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/sum.h"
#include "base/uuid.h"
#include "store/files/index/index.h"

/* Appends "<uuid>" with its quotes, or null. */
static void
add_id(struct qp__buf *out, const struct qp_uuid *id)
{
  char text[QP__UUID_LEN + 2];

  if (qp_uuid_is_none(id)) {
    (void)qp__buf_add_str(out, "null");
    return;
  }
  text[0] = '"';
  qp__uuid_encode(text + 1, id);
  text[QP__UUID_LEN + 1] = '"';
  (void)qp__buf_add(out, text, sizeof(text));
}

static void
add_number(struct qp__buf *out, uint64_t v)
{
  char digits[20];
  size_t at = sizeof(digits);

  do
    digits[--at] = (char)('0' + v % 10);
  while (v /= 10);
  (void)qp__buf_add(out, digits + at, sizeof(digits) - at);
}

/* A branch name as a JSON string: it may contain quotes and any character except controls. */
static void
add_string(struct qp__buf *out, const char *s)
{
  (void)qp__json_write_string(out, s, strlen(s));
}

/* The place of a message without its own file. */
static void
add_place(struct qp__buf *out, const struct qp__tree *tree, const struct qp__entry *e)
{
  uint64_t place = atomic_load(&e->place);
  char time[QP__TIME_LEN];

  if (qp__place_kind(place) == QP__PLACE_PACK) {
    (void)qp__buf_add_str(out, ",\"pack\":\"");
    (void)qp__buf_add_str(out, qp__tree_pack_of(tree, place));
    (void)qp__buf_add_str(out, "\",\"frame\":");
    add_number(out, tree->frames[qp__place_frame(place)].offset);
    (void)qp__buf_add_str(out, ",\"pos\":");
    add_number(out, qp__place_pos(place));
  } else if (qp__place_kind(place) == QP__PLACE_TRASH) {
    qp__time_format(time, qp__place_time(place));
    (void)qp__buf_add_str(out, ",\"at\":\"");
    (void)qp__buf_add(out, time, sizeof(time));
    (void)qp__buf_add_char(out, '"');
  }
}

/* One entry without newline, in exactly the fixed form that the fast reader knows. */
static void
add_entry(struct qp__buf *out, const struct qp__tree *tree, const struct qp__entry *e,
          const struct qp_uuid *parent, const char *dir)
{
  size_t start = out->len;
  char time[QP__TIME_LEN];
  char hash[32];

  qp__time_format(time, e->time);
  qp__hex_encode(hash, e->hash, sizeof(e->hash));
  (void)qp__buf_add_str(out, "{\"id\":");
  add_id(out, &e->id);
  (void)qp__buf_add_str(out, ",\"parent\":");
  add_id(out, parent);
  (void)qp__buf_add_str(out, ",\"dir\":\"");
  (void)qp__buf_add_str(out, dir);
  (void)qp__buf_add_str(out, "\",\"time\":\"");
  (void)qp__buf_add(out, time, sizeof(time));
  (void)qp__buf_add_str(out, "\",\"role\":\"");
  (void)qp__buf_add_str(out, qp_role_name((enum qp_role)e->role));
  (void)qp__buf_add_str(out, "\",\"type\":\"");
  (void)qp__buf_add_str(out, qp_message_type_name((enum qp_message_type)e->type));
  (void)qp__buf_add_str(out, "\",\"size\":");
  add_number(out, e->size);
  (void)qp__buf_add_str(out, ",\"tokens\":");
  add_number(out, e->tokens);
  (void)qp__buf_add_str(out, ",\"hash\":\"");
  (void)qp__buf_add(out, hash, sizeof(hash));
  (void)qp__buf_add_str(out, "\",\"status\":\"");
  (void)qp__buf_add_str(out,
                        qp_message_status_name((enum qp_message_status)atomic_load(&e->status)));
  (void)qp__buf_add_char(out, '"');
  add_place(out, tree, e);
  qp__sum_close(out, start);
}

/* ---- index.log ---- */

/* Ends a line that began at `start`. */
static enum qp_rc
close_line(struct qp__buf *out, size_t start)
{
  qp__sum_close(out, start);
  (void)qp__buf_add_char(out, '\n');
  return out->rc; /* of all appends, not only of the last one */
}

enum qp_rc
qp__index_log_header(struct qp__buf *out, uint64_t generation)
{
  size_t start = out->len;

  (void)qp__buf_addf(out, "{\"log\":\"quipu-index\",\"version\":1,\"generation\":%llu",
                     (unsigned long long)generation);
  return close_line(out, start);
}

enum qp_rc
qp__index_entry_line(struct qp__buf *out, const struct qp__tree *tree, const struct qp__entry *e,
                     const struct qp_uuid *parent, const char *dir)
{
  add_entry(out, tree, e, parent, dir);
  (void)qp__buf_add_char(out, '\n');
  return out->rc; /* of all appends, not only of the last one */
}

enum qp_rc
qp__index_head_line(struct qp__buf *out, const char *branch, const struct qp_uuid *id)
{
  size_t start = out->len;

  (void)qp__buf_add_str(out, "{\"head\":");
  add_string(out, branch);
  (void)qp__buf_add_str(out, ",\"id\":");
  add_id(out, id);
  return close_line(out, start);
}

enum qp_rc
qp__index_rename_line(struct qp__buf *out, const char *branch, const char *to)
{
  size_t start = out->len;

  (void)qp__buf_add_str(out, "{\"rename\":");
  add_string(out, branch);
  (void)qp__buf_add_str(out, ",\"to\":");
  add_string(out, to);
  return close_line(out, start);
}

enum qp_rc
qp__index_drop_line(struct qp__buf *out, const char *branch)
{
  size_t start = out->len;

  (void)qp__buf_add_str(out, "{\"drop\":");
  add_string(out, branch);
  return close_line(out, start);
}

enum qp_rc
qp__index_status_line(struct qp__buf *out, const struct qp_uuid *id, enum qp_message_status status,
                      int64_t at)
{
  size_t start = out->len;
  char time[QP__TIME_LEN];

  (void)qp__buf_add_str(out, "{\"set\":");
  add_id(out, id);
  (void)qp__buf_addf(out, ",\"status\":\"%s\"", qp_message_status_name(status));
  if (status == QP_STATUS_TRASHED) {
    qp__time_format(time, at);
    (void)qp__buf_add_str(out, ",\"at\":\"");
    (void)qp__buf_add(out, time, sizeof(time));
    (void)qp__buf_add_char(out, '"');
  }
  return close_line(out, start);
}

/* ---- index.json ---- */

/* The first line up to its entries. */
static void
add_json_head(struct qp__buf *out, const struct qp_uuid *context, uint64_t generation,
              uint32_t count)
{
  (void)qp__buf_add_str(out, "{\"format\":\"quipu-index\",\"version\":1,\"context_id\":");
  add_id(out, context);
  (void)qp__buf_addf(out, ",\"generation\":%llu,\"count\":%lu", (unsigned long long)generation,
                     (unsigned long)count);
}

enum qp_rc
qp__index_json_head(struct qp__buf *out, const struct qp_uuid *context, uint64_t generation,
                    uint32_t count)
{
  add_json_head(out, context, generation, count);
  (void)qp__buf_add_str(out, ",\"entries\":[\n");
  return out->rc;
}

enum qp_rc
qp__index_json_entry(struct qp__buf *out, const struct qp__tree *tree, uint32_t slot, bool last)
{
  static const struct qp_uuid none;
  const struct qp__entry *e = qp__tree_at(tree, slot);
  const struct qp_uuid *parent =
      e->parent == QP__NO_SLOT ? &none : &qp__tree_at(tree, e->parent)->id;

  add_entry(out, tree, e, parent, qp__tree_dir_name(tree, e->dir));
  (void)qp__buf_add_str(out, last ? "\n" : ",\n");
  return out->rc;
}

static void
add_heads(struct qp__buf *out, const struct qp__tree *tree, const struct qp__head *heads, size_t n)
{
  static const struct qp_uuid none;

  (void)qp__buf_add_str(out, ",\"heads\":{");
  for (size_t i = 0; i < n; i++) {
    if (i)
      (void)qp__buf_add_char(out, ',');
    add_string(out, heads[i].name);
    (void)qp__buf_add_char(out, ':');
    add_id(out, heads[i].slot == QP__NO_SLOT ? &none : &qp__tree_at(tree, heads[i].slot)->id);
  }
  (void)qp__buf_add_char(out, '}');
}

enum qp_rc
qp__index_json_tail(struct qp__buf *out, const struct qp_uuid *context, uint64_t generation,
                    uint32_t count, const struct qp__tree *tree, const struct qp__head *heads,
                    size_t n)
{
  struct qp__buf rest; /* the object without its entries, which the sum covers */

  qp__buf_init(&rest, out->limit);
  add_json_head(&rest, context, generation, count);
  add_heads(&rest, tree, heads, n);
  (void)qp__buf_add_char(out, ']');
  add_heads(out, tree, heads, n);
  if (rest.rc)
    out->rc = out->rc ? out->rc : rest.rc;
  else
    (void)qp__buf_addf(out, ",\"" QP__SUM_KEY "\":\"%08x\"}\n", qp__sum(rest.data, rest.len));
  qp__buf_release(&rest);
  return out->rc;
}

/* h_find.c - finds messages in one conversation, on whatever branch; and the beginnings of given
 * messages. */
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"

#define FIND_DEFAULT 100
#define FIND_MAX 1000
#define PREVIEWS_MAX 100
#define PREVIEW_CHARS 200
#define PREVIEW_BYTES 4096 /* that are looked at */

/* ---- find ---- */

struct finding {
  struct qp__buf *out;
  struct qp_context *context;
  const char *branch; /* preferred; NULL: the active one */
  struct qp_err *err;
};

/* Where a message is: its number from 1, and a branch that has it. A message of a deleted branch
 * has no branch. */
static enum qp_rc
emit_place(struct finding *f, const struct qp_uuid *id)
{
  struct qp_message_info info;
  char *branch = NULL;
  enum qp_rc rc = qp_message_find(f->context, id, &info, f->err);

  if (rc)
    return rc;
  rc = qp_branch_of_message(f->context, id, f->branch, &branch, f->err);
  if (rc && rc != QP_NOTFOUND)
    return rc;
  qp__emit_uuid(f->out, "id", id);
  qp__emit_uint(f->out, "at", info.position + 1);
  qp__emit_str(f->out, "branch", branch);
  qp__emit_str(f->out, "role", qp_role_name(info.role));
  qp__emit_time(f->out, "created_at", info.created_at);
  qp_free(branch);
  return f->out->rc;
}

/* The index of words may still have a message that garbage collection removed: it is skipped. */
static enum qp_rc
emit_hit(void *arg, const struct qp_search_hit *hit)
{
  struct finding *f = arg;
  size_t before = f->out->len;
  enum qp_rc rc;

  qp__emit_open(f->out, NULL, '{');
  rc = emit_place(f, &hit->message);
  if (rc == QP_NOTFOUND) {
    f->out->len = before;
    f->out->data[before] = '\0';
    return QP_OK;
  }
  qp__emit_snippet(f->out, hit->snippet);
  qp__emit_close(f->out, '}');
  return rc;
}

static enum qp_rc
find_message(struct finding *f, const char *text)
{
  struct qp_uuid id;
  enum qp_rc rc;

  if (qp_uuid_parse(text, &id, NULL))
    return qp__fail(f->err, QP_INVALID, "'message' must be the id of a message");
  qp__emit_open(f->out, NULL, '{');
  rc = emit_place(f, &id);
  qp__emit_open(f->out, "snippet", '[');
  qp__emit_close(f->out, ']');
  qp__emit_close(f->out, '}');
  return rc;
}

enum qp_rc
qp__h_find(struct qp__request *r, struct qp_err *err)
{
  struct qp_search_query query = { .size = sizeof(query),
                                   .text = qp__request_query(r, "q"),
                                   .cursor = qp__request_query(r, "cursor") };
  const char *message = qp__request_query(r, "message");
  struct finding f = { .out = &r->reply.body,
                       .branch = qp__request_query(r, "branch"),
                       .err = err };
  uint64_t limit = FIND_DEFAULT;
  char *next = NULL;
  enum qp_rc rc = qp__request_number(r, "limit", 1, FIND_MAX, &limit, err);

  if (!rc && !query.text == !message)
    rc = qp__fail(err, QP_INVALID,
                  "give 'q', the words to search for, or 'message', the id of a message");
  if (!rc)
    rc = qp__held_get(r, r->params[0], &r->held, err);
  if (rc)
    return rc;
  query.limit = (uint32_t)limit;
  query.context = r->held->id;
  f.context = r->held->context;
  qp__emit_open(f.out, NULL, '{');
  qp__emit_open(f.out, "hits", '[');
  rc = message ? find_message(&f, message)
               : qp_search(r->http->store, &query, emit_hit, &f, &next, err);
  qp__emit_page_end(f.out, next);
  return rc;
}

/* ---- previews ---- */

/* Appends the text, each run of white space as one space, up to PREVIEW_CHARS characters. */
static void
add_plain(struct qp__buf *out, struct qp_bytes text)
{
  size_t n = text.len < PREVIEW_BYTES ? text.len : PREVIEW_BYTES;
  size_t chars = 0;

  for (size_t i = 0; i < n && chars < PREVIEW_CHARS;) {
    size_t width = qp__utf8_len(text.data + i, text.len - i);

    if (!width)
      return;
    if (width == 1 && (unsigned char)text.data[i] <= ' ') {
      if (out->len && out->data[out->len - 1] != ' ')
        (void)qp__buf_add_char(out, ' ');
    } else {
      (void)qp__buf_add(out, text.data + i, width);
    }
    chars++;
    i += width;
  }
}

static struct qp_bytes
bytes_of(const char *s)
{
  return (struct qp_bytes){ s, strlen(s) };
}

/* The first text; else the first tool that is called, or the result of a tool. */
static void
add_preview(struct qp__buf *out, const struct qp_message *m)
{
  struct qp_tool_result result;

  for (size_t i = 0; i < qp_message_part_count(m) && !out->len; i++) {
    struct qp_part part = qp_message_part(m, i);

    if (part.kind == QP_PART_TEXT)
      add_plain(out, part.text);
  }
  if (!out->len && qp_message_tool_call_count(m))
    add_plain(out, bytes_of(qp_message_tool_call(m, 0).tool_name));
  if (!out->len && qp_message_tool_result(m, &result))
    add_plain(out, bytes_of(result.result_json));
  if (!out->len && qp_message_part_count(m) && qp_message_part(m, 0).kind == QP_PART_IMAGE)
    (void)qp__buf_add_str(out, "[image]");
}

/* An unknown id is left out: the message may have been deleted since. */
static enum qp_rc
emit_preview(struct qp__request *r, struct qp_context *context, const struct qp_uuid *id,
             struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  struct qp_message_info info;
  struct qp_message *message = NULL;
  struct qp__buf text;
  enum qp_rc rc = qp_message_find(context, id, &info, err);

  if (rc)
    return rc == QP_NOTFOUND ? QP_OK : rc;
  rc = qp_message_load(context, id, &message, err);
  if (rc == QP_NOMEM)
    return rc;
  qp__buf_init(&text, (size_t)8 * PREVIEW_BYTES);
  if (!rc)
    add_preview(&text, message);
  qp__emit_open(b, NULL, '{');
  qp__emit_uuid(b, "id", id);
  qp__emit_uint(b, "at", info.position + 1);
  qp__emit_str(b, "role", qp_role_name(info.role));
  qp__emit_strn(b, "text", (struct qp_bytes){ text.len ? text.data : "", text.len });
  qp__emit_bool(b, "error", rc != QP_OK);
  qp__emit_close(b, '}');
  rc = qp__buf_check(&text, "a preview", err);
  qp__buf_release(&text);
  qp_message_free(message);
  return rc;
}

static enum qp_rc
emit_previews(struct qp__request *r, struct qp_context *context, const char *ids,
              struct qp_err *err)
{
  enum qp_rc rc = QP_OK;
  size_t count = 0;

  while (!rc && *ids) {
    size_t n = strcspn(ids, ",");
    char text[QP_UUID_TEXT];
    struct qp_uuid id;

    if (n >= sizeof(text))
      return qp__fail(err, QP_INVALID, "'ids' must be ids of messages, separated by commas");
    memcpy(text, ids, n);
    text[n] = '\0';
    if (qp_uuid_parse(text, &id, NULL))
      return qp__fail(err, QP_INVALID, "'ids' must be ids of messages, separated by commas");
    if (++count > PREVIEWS_MAX)
      return qp__fail(err, QP_INVALID, "'ids' has more than %d ids", PREVIEWS_MAX);
    rc = emit_preview(r, context, &id, err);
    ids += n + (ids[n] == ',');
  }
  return rc;
}

enum qp_rc
qp__h_previews(struct qp__request *r, struct qp_err *err)
{
  const char *ids = qp__request_query(r, "ids");
  enum qp_rc rc;

  if (!ids || !*ids)
    return qp__fail(err, QP_INVALID, "'ids' is missing: ids of messages, separated by commas");
  rc = qp__held_get(r, r->params[0], &r->held, err);
  if (rc)
    return rc;
  qp__emit_open(&r->reply.body, NULL, '{');
  qp__emit_open(&r->reply.body, "previews", '[');
  rc = emit_previews(r, r->held->context, ids, err);
  qp__emit_close(&r->reply.body, ']');
  qp__emit_close(&r->reply.body, '}');
  return rc;
}

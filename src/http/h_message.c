/* h_message.c - the messages of a branch, in pages; and saving a message.
 *
 * A page ends with a cursor: 'o' (oldest first) or 'n' (newest first) and the id of its last
 * message. The next page begins after that message, whatever was added since. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "http/access_log.h"
#include "http/compaction_json.h"
#include "http/conditional_change.h"
#include "http/context_json.h"
#include "http/dto.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/state.h"
#include "model/message.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 1000

/* Links to the description of the deprecated operation and to its replacement. */
#define DEPRECATION_LINK                                               \
  "</openapi.json#/paths/~1v1~1contexts~1%%7Bid%%7D~1messages/post>; " \
  "rel=\"deprecation\"; type=\"application/json\", "                   \
  "</v1/contexts/%s/actions/send_message>; rel=\"successor-version\""

/* ---- pages ---- */

struct page {
  char *branch;
  uint64_t total;
  uint64_t limit;
  uint64_t offset; /* messages before the page, in its order */
  bool newest;
  uint64_t first, count; /* positions in the branch */

  struct qp__idset pins;
  struct qp__buf text; /* the messages, oldest first */
  size_t ends[LIMIT_MAX];
  size_t shown;
  struct qp_uuid oldest_id, newest_id;
};

static enum qp_rc
see_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp_uuid *id = arg;

  (void)json;
  *id = info->id;
  return QP_OK;
}

/* Converts a cursor to the number of messages before the page. */
static enum qp_rc
read_cursor(const char *cursor, struct qp_context *context, struct page *page, bool order_given,
            struct qp_err *err)
{
  struct qp_uuid there = { { 0 } };
  struct qp_message_info info;
  struct qp_uuid id;
  enum qp_rc rc;

  if ((cursor[0] != 'o' && cursor[0] != 'n') || qp_uuid_parse(cursor + 1, &id, NULL))
    return qp__fail(err, QP_INVALID, "'cursor' is invalid: use a cursor that this server returned");
  if (order_given && page->newest != (cursor[0] == 'n'))
    return qp__fail(err, QP_INVALID, "'cursor' belongs to a list in the other order");
  page->newest = cursor[0] == 'n';
  rc = qp_message_find(context, &id, &info, err);
  if (!rc)
    rc = qp_messages_index(context, page->branch, info.position, 1, see_id, &there, err);
  if (rc == QP_NOTFOUND || (!rc && !qp_uuid_equal(&there, &id)))
    return qp__fail(err, QP_INVALID, "'cursor' names a message that the branch does not have");
  if (!rc)
    page->offset = page->newest ? page->total - info.position : info.position + 1;
  return rc;
}

static enum qp_rc
read_page(const struct qp__request *r, struct qp_context *context, struct page *page,
          struct qp_err *err)
{
  const char *cursor = qp__request_query(r, "cursor");
  bool oldest = true;
  uint64_t left;
  enum qp_rc rc = qp__request_either(r, "order", "oldest", "newest", &oldest, err);

  page->limit = LIMIT_DEFAULT;
  page->newest = !oldest;
  if (!rc)
    rc = qp__request_number(r, "limit", 1, LIMIT_MAX, &page->limit, err);
  if (!rc)
    rc = qp__request_number(r, "offset", 0, UINT32_MAX, &page->offset, err);
  if (!rc && cursor && qp__request_query(r, "offset"))
    rc = qp__fail(err, QP_INVALID, "give 'cursor' or 'offset', not both");
  if (!rc)
    rc = qp__branch_find(context, qp__request_query(r, "branch"), &page->branch, &page->total, err);
  if (!rc && cursor)
    rc = read_cursor(cursor, context, page, qp__request_query(r, "order") != NULL, err);
  if (rc)
    return rc;
  if (page->offset > page->total)
    page->offset = page->total;
  left = page->total - page->offset;
  page->count = page->limit < left ? page->limit : left;
  page->first = page->newest ? left - page->count : page->offset;
  return QP_OK;
}

static enum qp_rc
take_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct page *page = arg;

  if (page->shown == LIMIT_MAX)
    return QP_OK;
  /* Each message starts a new list, so that there is no comma before it. */
  (void)qp__buf_add_char(&page->text, '[');
  qp__dto_message(&page->text, NULL, info, json);
  if (qp__idset_has(&page->pins, &info->id))
    qp__dto_pinned(&page->text);
  if (!page->shown)
    page->oldest_id = info->id;
  page->newest_id = info->id;
  page->ends[page->shown++] = page->text.len;
  return page->text.rc;
}

static enum qp_rc
emit_page(const struct page *page, struct qp_context *context, struct qp__buf *out,
          struct qp_err *err)
{
  bool more = page->offset + page->shown < page->total;
  char cursor[QP_UUID_TEXT + 1];
  enum qp_rc rc;

  qp__emit_open(out, NULL, '{');
  qp__emit_open(out, "messages", '[');
  for (size_t n = 0; n < page->shown; n++) {
    size_t i = page->newest ? page->shown - 1 - n : n;
    size_t begin = (i ? page->ends[i - 1] : 0) + 1;

    qp__emit_raw(out, NULL, (struct qp_bytes){ page->text.data + begin, page->ends[i] - begin });
  }
  qp__emit_close(out, ']');
  qp__emit_uint(out, "total", page->total);
  cursor[0] = page->newest ? 'n' : 'o';
  (void)qp_uuid_text(page->newest ? &page->oldest_id : &page->newest_id, cursor + 1);
  qp__emit_str(out, "next_cursor", more && page->shown ? cursor : NULL);
  qp__emit_str(out, "branch", page->branch);
  rc = qp__compact_marks_emit(context, page->branch, out, err);
  qp__emit_close(out, '}');
  return rc;
}

enum qp_rc
qp__h_message_list(struct qp__request *r, struct qp_err *err)
{
  struct page *page = qp__alloc0(1, sizeof(*page));
  enum qp_rc rc;

  if (!page)
    return qp__fail_nomem(err, "listing messages");
  qp__buf_init(&page->text, QP__REPLY_MAX);
  rc = qp__held_get(r, r->params[0], &r->held, err);
  if (!rc)
    rc = read_page(r, r->held->context, page, err);
  if (!rc)
    rc = qp__pins_load(r->held->context, &page->pins, err);
  if (!rc && page->count)
    rc = qp_messages_range(r->held->context, page->branch, page->first, page->count, take_message,
                           page, err);
  if (!rc)
    rc = qp__buf_check(&page->text, "the messages", err);
  if (!rc)
    rc = emit_page(page, r->held->context, &r->reply.body, err);
  qp__buf_release(&page->text);
  qp__idset_release(&page->pins);
  qp__free(page->branch);
  qp__free(page);
  return rc;
}

/* ---- saving ---- */

static const struct qp__body_field message_fields[] = {
  { "role", QP__TYPE_STRING, true, false },     { "text", QP__TYPE_ANY, false, true },
  { "content", QP__TYPE_ANY, false, true },     { "tool_calls", QP__TYPE_ANY, false, true },
  { "tool_result", QP__TYPE_ANY, false, true }, { "metadata", QP__TYPE_ANY, false, true },
  { "type", QP__TYPE_STRING, false, true },     { "id", QP__TYPE_UUID, false, true },
  { "parent_id", QP__TYPE_UUID, false, true },  { "created_at", QP__TYPE_STRING, false, true },
  { "branch", QP__TYPE_STRING, false, false },  { "tool_call_id", QP__TYPE_STRING, false, false },
  { "name", QP__TYPE_STRING, false, false },    { 0 },
};

/* Messages between the two halves of the handler; in the arena. */
struct saving {
  const char *branch;
  uint64_t last;
  struct qp_message *messages[QP_CHANGE_MESSAGES];
  size_t count;
  struct qp_uuid ids[QP_CHANGE_MESSAGES];
};

static enum qp_rc
read_message(struct saving *s, const json_t *object, struct qp_err *err)
{
  size_t count = 0;
  enum qp_rc rc = QP_OK;

  if (!json_is_object(object))
    return qp__fail(err, QP_INVALID, "a message must be an object");
  rc = qp__body_check(object, message_fields, err);
  if (!rc)
    rc = qp__messages_from_input(object, s->messages + s->count, QP_CHANGE_MESSAGES - s->count,
                                 &count, err);
  s->count += count;
  return rc;
}

/* The field "branch" of a single message names the branch, like the query. */
static enum qp_rc
read_branch(struct qp__request *r, struct saving *s, json_t *body, struct qp_err *err)
{
  const json_t *branch = json_object_get(body, "branch");

  s->branch = qp__request_query(r, "branch");
  if (!json_is_string(branch))
    return QP_OK; /* none, or its type is reported with those of the other fields */
  s->branch = qp__arena_strdup(&r->arena, json_string_value(branch));
  (void)json_object_del(body, "branch");
  return s->branch ? QP_OK : qp__fail_nomem(err, "the message");
}

static enum qp_rc
read_messages(struct qp__request *r, struct saving *s, struct qp_err *err)
{
  json_t *body = NULL;
  bool one;
  size_t n;
  enum qp_rc rc = qp__json_parse_outside("the body", qp__buf_bytes(&r->body), &body, err);

  if (rc)
    return rc;
  n = json_array_size(body);
  one = json_is_object(body);
  rc = read_branch(r, s, body, err);
  if (!rc && one)
    rc = read_message(s, body, err);
  else if (!rc && n == 0)
    rc = qp__fail(err, QP_INVALID, "the body must be a message, or a list with at least one");
  else if (!rc && n > QP_CHANGE_MESSAGES)
    rc = qp__fail(err, QP_TOOBIG, "the body has more than %d messages", QP_CHANGE_MESSAGES);
  for (size_t i = 0; !rc && i < n; i++) {
    struct qp_err why = { QP_OK, "" };

    if (json_object_get(json_array_get(body, i), "branch"))
      (void)qp__fail(&why, QP_INVALID, "give the branch of a list as the query parameter 'branch'");
    else
      why.rc = read_message(s, json_array_get(body, i), &why);
    if (why.rc)
      rc = qp__fail(err, why.rc, "message %zu of the list: %s", i + 1, why.msg);
  }
  json_decref(body);
  return rc;
}

/* Paths of older programs. */
static enum qp_rc
tell_deprecation(struct qp__request *r, struct qp_err *err)
{
  char link[sizeof(DEPRECATION_LINK) + QP_UUID_TEXT];
  char id[QP_UUID_TEXT];

  if (strcmp(r->segments[0], "api") != 0)
    return QP_OK;
  qp__access_warn(r, "Deprecated endpoint used");
  (void)snprintf(link, sizeof(link), DEPRECATION_LINK, qp_uuid_text(&r->held->id, id));
  qp__reply_header(r, "Deprecation", "true");
  return qp__reply_header_copy(r, "Link", link, err);
}

/* Called by a thread of the store: the messages are durable, or could not be saved. */
static void
end_save(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__request *r = arg;

  qp__change_release(r->held);
  qp__work_unpark(r, rc, err);
}

/* Adds the ids of the messages to the rendered state. */
static void
end_answer(struct qp__request *r, const struct saving *s)
{
  struct qp__buf *b = &r->reply.body;

  b->data[--b->len] = '\0'; /* removes the closing brace, which is added again */
  qp__emit_uuid(b, "message_id", &s->ids[s->count - 1]);
  qp__emit_open(b, "message_ids", '[');
  for (size_t i = 0; i < s->count; i++)
    qp__emit_uuid(b, NULL, &s->ids[i]);
  qp__emit_close(b, ']');
  qp__emit_close(b, '}');
  r->reply.status = MHD_HTTP_CREATED;
}

static enum qp_rc
answer_slowly(struct qp__request *r, struct qp_err *err)
{
  const struct saving *s = r->kept;
  enum qp_rc rc = qp__state_render(NULL, r->held, s->branch, s->last, &r->reply.body, err);

  if (!rc)
    end_answer(r, s);
  return rc;
}

static enum qp_rc
answer_save(struct qp__request *r, struct qp_err *err)
{
  const struct saving *s = r->kept;
  enum qp_rc rc = qp__change_tell(r, r->held, r->waited.rc, &r->waited);

  *err = r->waited;
  if (rc)
    return rc;
  if (s->last <= 1 && qp__state_render_newest(r->held, s->branch, s->last, &r->reply.body))
    end_answer(r, s);
  else if (r->quick)
    r->then = answer_slowly;
  else
    return answer_slowly(r, err);
  return QP_OK;
}

/* All kinds of changes are grouped into one sync, but messages are what many clients send at the
 * same time: so they do not occupy a worker until then. A list is one commit. */
static enum qp_rc
begin_save(struct qp__request *r, struct saving *s, struct qp_err *err)
{
  struct qp_change change = {
    .size = sizeof(change),
    .branch = s->branch,
    .messages = s->messages,
    .message_count = s->count,
  };
  enum qp_rc rc = qp__change_begin(r, r->held, err);

  if (rc)
    return rc;
  r->kept = s;
  qp__work_park(r, answer_save, true);
  if (s->count == 1)
    rc = qp_message_save_async(r->held->context, s->branch, s->messages[0], &s->ids[0], end_save, r,
                               err);
  else
    rc = qp_context_commit(r->held->context, &change, NULL, end_save, r, err);
  for (size_t i = 0; s->count > 1 && !rc && i < s->count; i++) /* the other half has not begun */
    s->ids[i] = qp_message_id(s->messages[i]);
  if (rc)
    end_save(r, rc, err);
  return QP_OK;
}

enum qp_rc
qp__h_message_save(struct qp__request *r, struct qp_err *err)
{
  struct saving *s = qp__arena_alloc(&r->arena, sizeof(*s));
  enum qp_rc rc;

  if (!s)
    return qp__fail_nomem(err, "saving a message");
  memset(s, 0, sizeof(*s));
  rc = qp__held_get(r, r->params[0], &r->held, err);
  if (!rc)
    rc = tell_deprecation(r, err);
  if (!rc)
    rc = read_messages(r, s, err);
  s->last = s->count;
  if (!rc)
    rc = qp__request_number(r, "last", 0, 1000000, &s->last, err);
  if (!rc)
    rc = begin_save(r, s, err);
  for (size_t i = 0; i < s->count; i++)
    qp_message_free(s->messages[i]);
  return rc;
}

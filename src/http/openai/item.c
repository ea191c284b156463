/* item.c - see item.h. */
#include "http/openai/item.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/emit.h"
#include "http/face/wish.h"
#include "http/http_int.h"
#include "http/openai/stored_response.h"
#include "model/message.h"

#define LIMIT 20
#define LIMIT_MAX 100
#define PAGE 64 /* messages that are read at once */
#define ID_MAX 64

/* ---- one message ---- */

static const char *
item_id(const char *kind, const struct qp_message *m, size_t number, char out[ID_MAX])
{
  char hex[33];

  qp__hex_encode(hex, m->id.b, sizeof(m->id.b));
  hex[32] = '\0';
  if (number)
    (void)snprintf(out, ID_MAX, "%s_%s_%zu", kind, hex, number);
  else
    (void)snprintf(out, ID_MAX, "%s_%s", kind, hex);
  return out;
}

bool
qp__item_message(const char *item, struct qp_uuid *out)
{
  const char *hex = strchr(item, '_');

  return hex && qp__hex_uuid(hex + 1, out);
}

/* The texts and images of a message, as content parts: new. */
static json_t *
content_of(const struct qp_message *m)
{
  bool is_answer = m->role == QP_ROLE_ASSISTANT;
  json_t *list = json_array();
  bool good = list != NULL;

  for (size_t i = 0; good && i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;

    if (part->kind == QP_PART_TEXT && is_answer)
      good =
          qp__wish_add(list, json_pack("{s:s, s:s%, s:[], s:[]}", "type", "output_text", "text",
                                       part->text.data, part->text.len, "annotations", "logprobs"));
    else if (part->kind == QP_PART_TEXT)
      good = qp__wish_add(list, json_pack("{s:s, s:s%}", "type", "input_text", "text",
                                          part->text.data, part->text.len));
    else if (part->kind == QP_PART_IMAGE)
      good =
          qp__wish_add(list, json_pack("{s:s, s:s, s:s}", "type", "input_image", "image_url",
                                       part->url, "detail", part->detail ? part->detail : "auto"));
  }
  if (good)
    return list;
  json_decref(list);
  return NULL;
}

static bool
add_reasoning(json_t *items, const struct qp_message *m)
{
  size_t number = 0;

  for (size_t i = 0; i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;
    char id[ID_MAX];

    if (part->kind == QP_PART_THINKING &&
        !qp__wish_add(items,
                      json_pack("{s:s, s:s, s:[{s:s, s:s%}]}", "id", item_id("rs", m, number++, id),
                                "type", "reasoning", "summary", "type", "summary_text", "text",
                                part->text.data, part->text.len)))
      return false;
  }
  return true;
}

static bool
add_calls(json_t *items, const struct qp_message *m)
{
  for (size_t i = 0; i < m->call_count; i++) {
    const struct qp__message_call *call = &m->calls[i];
    const char *kind = json_string_value(json_object_get(call->extra, "kind"));
    const char *arguments = json_is_string(call->arguments) ? json_string_value(call->arguments)
                                                            : call->view.arguments_json;
    char id[ID_MAX];

    (void)kind; /* a call of a tool of the server is a call too */
    if (!qp__wish_add(items, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "id",
                                       item_id("fc", m, i, id), "type", "function_call", "call_id",
                                       call->view.id, "name", call->view.tool_name, "arguments",
                                       arguments, "status", "completed")))
      return false;
  }
  return true;
}

static bool
add_result(json_t *items, const struct qp_message *m)
{
  const char *text =
      json_is_string(m->result_value) ? json_string_value(m->result_value) : m->result.result_json;
  char id[ID_MAX];

  return qp__wish_add(items,
                      json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", item_id("fco", m, 0, id), "type",
                                "function_call_output", "call_id", m->result.request_id, "output",
                                text, "status", "completed"));
}

json_t *
qp__items_of(const struct qp_message *m)
{
  json_t *items = json_array();
  json_t *content;
  bool good = items != NULL;
  char id[ID_MAX];

  if (good && m->has_result) {
    good = add_result(items, m);
  } else if (good) {
    good = add_reasoning(items, m);
    content = good ? content_of(m) : NULL;
    good = content != NULL;
    if (good && (json_array_size(content) || !m->call_count))
      good =
          qp__wish_add(items, json_pack("{s:s, s:s, s:s, s:s, s:O}", "id", item_id("msg", m, 0, id),
                                        "type", "message", "role", qp_role_name(m->role), "status",
                                        "completed", "content", content));
    json_decref(content);
    good = good && add_calls(items, m);
  }
  if (good)
    return items;
  json_decref(items);
  return NULL;
}

/* ---- pages ---- */

void
qp__items_emit(struct qp__buf *out, const json_t *items, bool has_more)
{
  size_t n = json_array_size(items);
  struct qp__buf text;

  qp__buf_init(&text, (size_t)256 << 20);
  (void)qp__json_write(&text, items);
  qp__emit_open(out, NULL, '{');
  qp__emit_str(out, "object", "list");
  qp__emit_raw(out, "data", qp__buf_bytes(&text));
  qp__emit_str(out, "first_id",
               n ? json_string_value(json_object_get(json_array_get(items, 0), "id")) : NULL);
  qp__emit_str(out, "last_id",
               n ? json_string_value(json_object_get(json_array_get(items, n - 1), "id")) : NULL);
  qp__emit_bool(out, "has_more", has_more);
  qp__emit_close(out, '}');
  if (text.rc)
    out->rc = text.rc;
  qp__buf_release(&text);
}

struct page {
  json_t *items;     /* in the order of the page */
  const char *after; /* the last item that the client has; NULL: it was passed */
  uint64_t limit;
  bool newest_first, full;
};

/* Adds the items of one message. */
static bool
add_items(struct page *p, json_t *items)
{
  size_t n = json_array_size(items);

  for (size_t i = 0; i < n && !p->full; i++) {
    json_t *item = json_array_get(items, p->newest_first ? n - 1 - i : i);

    if (p->after) {
      if (strcmp(json_string_value(json_object_get(item, "id")), p->after) == 0)
        p->after = NULL;
      continue;
    }
    p->full = json_array_size(p->items) == p->limit;
    if (!p->full && json_array_append(p->items, item))
      return false;
  }
  return true;
}

/* Messages of one read, oldest first. */
struct chunk {
  json_t *lists[PAGE];
  size_t count;
  struct qp_err *err;
};

static enum qp_rc
take(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct chunk *c = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK;
  rc = qp_message_parse(json, &message, c->err);
  if (rc)
    return rc;
  c->lists[c->count] = qp__items_of(message);
  rc = c->lists[c->count] ? QP_OK : qp__fail_nomem(c->err, "items");
  c->count += !rc;
  qp_message_free(message);
  return rc;
}

static enum qp_rc
read_chunk(struct qp__request *r, const char *branch, uint64_t first, uint64_t count,
           struct page *p, struct qp_err *err)
{
  struct chunk c = { .count = 0, .err = err };
  enum qp_rc rc = qp_messages_range(r->held->context, branch, first, count, take, &c, err);

  for (size_t i = 0; !rc && i < c.count; i++)
    if (!add_items(p, c.lists[p->newest_first ? c.count - 1 - i : i]))
      rc = qp__fail_nomem(err, "items");
  for (size_t i = 0; i < c.count; i++)
    json_decref(c.lists[i]);
  return rc;
}

/* Where the page begins: the message of the item that the client has. */
static enum qp_rc
find_after(struct qp__request *r, const char *after, uint64_t *first, uint64_t *end, bool backwards,
           struct qp_err *err)
{
  struct qp_message_info info;
  struct qp_uuid id;

  if (!after)
    return QP_OK;
  if (!qp__item_message(after, &id) || qp_message_find(r->held->context, &id, &info, NULL) ||
      info.position < *first || info.position >= *end)
    return qp__wish_refuse(r, err, "after", "no item of this list has the id '%.80s'", after);
  if (backwards)
    *end = info.position + 1;
  else
    *first = info.position;
  return QP_OK;
}

enum qp_rc
qp__items_answer(struct qp__request *r, const char *branch, uint64_t first, uint64_t count,
                 struct qp_err *err)
{
  const char *order = qp__request_query(r, "order");
  struct page p = { .after = qp__request_query(r, "after"), .limit = LIMIT };
  uint64_t end = first + count;
  enum qp_rc rc = qp__request_number(r, "limit", 1, LIMIT_MAX, &p.limit, err);

  p.newest_first = !order || strcmp(order, "asc") != 0;
  if (!rc && order && p.newest_first && strcmp(order, "desc") != 0)
    rc = qp__wish_refuse(r, err, "order", "'order' must be 'asc' or 'desc'");
  if (!rc)
    rc = find_after(r, p.after, &first, &end, p.newest_first, err);
  if (rc)
    return rc;
  p.items = json_array();
  if (!p.items)
    return qp__fail_nomem(err, "items");
  while (!rc && first < end && !p.full) {
    uint64_t n = end - first < PAGE ? end - first : PAGE;

    rc = read_chunk(r, branch, p.newest_first ? end - n : first, n, &p, err);
    if (p.newest_first)
      end -= n;
    else
      first += n;
  }
  if (!rc)
    qp__items_emit(&r->reply.body, p.items, p.full);
  json_decref(p.items);
  return rc;
}

/* ---- saving ---- */

enum qp_rc
qp__items_save(struct qp__request *r, const char *branch, const json_t *messages, json_t *added,
               struct qp_err *err)
{
  size_t n = json_array_size(messages);
  struct qp_message **list = qp__arena_alloc(&r->arena, (n + 1) * sizeof(struct qp_message *));
  struct qp_save_result *results = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*results));
  size_t count = 0;
  enum qp_rc rc = list && results ? QP_OK : qp__fail_nomem(err, "items");

  for (size_t i = 0; !rc && i < n; i++) {
    rc = qp__message_from_value("items", json_array_get(messages, i), &list[i], err);
    count += !rc;
  }
  if (!rc && n)
    rc = qp_message_save_batch(r->held->context, branch, list, n, results, err);
  for (size_t i = 0; !rc && i < n; i++) {
    json_t *items;

    if (results[i].err.rc) {
      *err = results[i].err;
      rc = err->rc;
      break;
    }
    qp_message_set_id(list[i], &results[i].id);
    items = added ? qp__items_of(list[i]) : NULL;
    if (added && (!items || json_array_extend(added, items)))
      rc = qp__fail_nomem(err, "items");
    json_decref(items);
  }
  for (size_t i = 0; i < count; i++)
    qp_message_free(list[i]);
  if (!rc && n)
    qp__held_show_now(r->held);
  return rc;
}

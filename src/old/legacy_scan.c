/* legacy_scan.c - reads the file of an old context once: the offset of each message and the little
 * that must be known about it, the lists of the branches, and everything else as one small value.
 *
 * Everything else is collected as text: the whole file with {} in place of the messages, and [] in
 * place of the elements of message_ids. The JSON parser reads that text, and detects duplicate
 * keys. The lists belong to the branches in the order of the keys in that text. */
#include "old/legacy_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/message_int.h"

/* ---- ids and how they are spelled ---- */

enum spelling { LOWER = 1, UPPER = 2 }; /* bits: an id without letters has both */

static unsigned
spelling_of(const char *text)
{
  unsigned found = LOWER | UPPER;

  for (size_t i = 0; i < QP__UUID_LEN; i++) {
    if (text[i] >= 'a' && text[i] <= 'f')
      found &= ~(unsigned)UPPER;
    if (text[i] >= 'A' && text[i] <= 'F')
      found &= ~(unsigned)LOWER;
  }
  return found;
}

/* Parses the scanner's string as an id. */
static bool
text_uuid(const struct qp__scan *s, struct qp_uuid *out)
{
  return s->text.len == QP__UUID_LEN && qp__uuid_decode(s->text.data, out);
}

static bool
add_odd(struct qp__legacy_odds *odds, size_t at, const char *text)
{
  struct qp__legacy_odd odd = { .at = (uint32_t)at };

  memcpy(odd.text, text, QP__UUID_LEN);
  return qp__vec_push(odds->list, odds->count, odds->cap, odd);
}

static bool
fail_nomem(struct qp__scan *s)
{
  if (!s->rc)
    s->rc = qp__fail_nomem(s->err, s->what);
  return false;
}

/* ---- messages ---- */

static bool
add_block(struct qp__legacy_source *l)
{
  size_t n = l->entry_count / QP__LEGACY_BLOCK;

  if (!qp__vec_reserve(l->blocks, n, l->block_cap, 1))
    return false;
  l->blocks[n] = qp__alloc(QP__LEGACY_BLOCK * sizeof(**l->blocks));
  return l->blocks[n] != NULL;
}

bool
qp__legacy_add_entry(struct qp__legacy_source *l, const struct qp__legacy_entry *e, const char *key)
{
  unsigned spelling = spelling_of(key);
  struct qp__legacy_entry *slot;

  if (l->entry_count % QP__LEGACY_BLOCK == 0 && !add_block(l))
    return false;
  l->entry_count++; /* the block is released with the others in any case */
  slot = qp__legacy_entry(l, l->entry_count - 1);
  *slot = *e;
  slot->item = QP__LEGACY_NONE;
  if (spelling & LOWER)
    return true;
  slot->flags |= spelling & UPPER ? QP__LEGACY_UPPER : QP__LEGACY_MIXED;
  return spelling & UPPER || add_odd(&l->odd_keys, l->entry_count - 1, key);
}

/* The approval of one call. */
static bool
scan_call(struct qp__scan *s, struct qp__legacy_entry *e)
{
  unsigned approval;

  e->flags |= QP__LEGACY_CALLS;
  if (qp__scan_peek(s) != '{')
    return qp__scan_skip(s);
  for (bool first = true; qp__scan_field(s, &first);) {
    bool status = qp__scan_is(s, "approval_status") && qp__scan_peek(s) == '"';

    if (!(status ? qp__scan_string(s) : qp__scan_skip(s)))
      return false;
    if (status && qp__name_set_find(&qp__approval_names, s->text.data, s->text.len, &approval) &&
        approval == QP_APPROVAL_PENDING)
      e->flags |= QP__LEGACY_PENDING;
  }
  return !s->rc;
}

static bool
scan_calls(struct qp__scan *s, struct qp__legacy_entry *e)
{
  if (qp__scan_peek(s) != '[')
    return qp__scan_skip(s);
  if (!qp__scan_open(s, '['))
    return false;
  for (bool first = true; qp__scan_more(s, ']', first); first = false)
    if (!scan_call(s, e))
      return false;
  return !s->rc;
}

/* created_at of the metadata; sets *odd if it is present but invalid. */
static bool
scan_time(struct qp__scan *s, struct qp__legacy_entry *e, bool *odd)
{
  int64_t time;

  if (qp__scan_peek(s) == 'n')
    return qp__scan_skip(s);
  if (qp__scan_peek(s) != '"') {
    *odd = true;
    return qp__scan_skip(s);
  }
  if (!qp__scan_string(s))
    return false;
  if (s->text_cut || qp__time_parse(s->text.data, s->text.len, &time) || !qp__time_ok(time))
    *odd = true;
  else
    e->time = time;
  return true;
}

static bool
scan_metadata(struct qp__scan *s, struct qp__legacy_entry *e, bool *odd)
{
  if (qp__scan_peek(s) != '{')
    return qp__scan_skip(s);
  for (bool first = true; qp__scan_field(s, &first);)
    if (!(qp__scan_is(s, "created_at") ? scan_time(s, e, odd) : qp__scan_skip(s)))
      return false;
  return !s->rc;
}

static bool
scan_message(struct qp__scan *s, struct qp__legacy_entry *e, bool *odd)
{
  bool ok = true;

  if (qp__scan_peek(s) != '{')
    return !s->rc &&
           qp__scan_fail(s, QP_INVALID, qp__scan_at(s), "a \"message\" must be an object");
  for (bool first = true; ok && qp__scan_field(s, &first);) {
    if (qp__scan_is(s, "metadata"))
      ok = scan_metadata(s, e, odd);
    else if (qp__scan_is(s, "tool_calls"))
      ok = scan_calls(s, e);
    else
      ok = qp__scan_skip(s);
  }
  return ok && !s->rc;
}

static bool
scan_parent(struct qp__scan *s, struct qp__legacy_entry *e)
{
  if (qp__scan_peek(s) != '"')
    return qp__scan_skip(s);
  if (!qp__scan_string(s))
    return false;
  (void)text_uuid(s, &e->parent); /* an invalid id counts as no parent */
  return true;
}

bool
qp__legacy_scan_node(struct qp__scan *s, struct qp__legacy_entry *e, bool *odd_time)
{
  bool has_message = false;
  bool ok = true;

  *odd_time = false;
  if (qp__scan_peek(s) != '{')
    return !s->rc && qp__scan_fail(s, QP_INVALID, qp__scan_at(s), "a message must be an object");
  e->at = qp__scan_at(s);
  for (bool first = true; ok && qp__scan_field(s, &first);) {
    if (qp__scan_is(s, "message")) {
      has_message = true;
      ok = scan_message(s, e, odd_time);
    } else if (qp__scan_is(s, "parent_id")) {
      ok = scan_parent(s, e);
    } else {
      ok = qp__scan_skip(s);
    }
  }
  if (!ok || s->rc)
    return false;
  if (!has_message)
    return qp__scan_fail(s, QP_INVALID, e->at, "a message without \"message\"");
  if (qp__scan_at(s) - e->at > QP__LEGACY_NODE_MAX)
    return qp__scan_fail(s, QP_TOOBIG, e->at, "a message of more than 64 MiB");
  e->len = (uint32_t)(qp__scan_at(s) - e->at);
  return true;
}

bool
qp__legacy_note_time(struct qp__legacy_source *l, const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  return qp__legacy_notef(l, err, "message %s: \"created_at\" is not a valid time and was ignored",
                          qp_uuid_text(id, text)) == QP_OK;
}

/* A key and its node. */
static bool
scan_entry(struct qp__legacy_source *l, struct qp__scan *s)
{
  struct qp__legacy_entry e = { .len = 0 };
  char key[QP__UUID_LEN];
  bool odd_time;

  (void)qp__scan_peek(s);
  e.at = qp__scan_at(s);
  if (!qp__scan_key(s))
    return false;
  if (l->entry_count >= QP__LEGACY_NONE - 1)
    return qp__scan_fail(s, QP_TOOBIG, e.at, "too many messages");
  if (!text_uuid(s, &e.id))
    return qp__scan_fail(s, QP_INVALID, e.at, "a key of \"message_pool\" is not a UUID");
  memcpy(key, s->text.data, sizeof(key));
  if (!qp__legacy_scan_node(s, &e, &odd_time))
    return false;
  if (!qp__legacy_add_entry(l, &e, key))
    return fail_nomem(s);
  if (odd_time && !qp__legacy_note_time(l, &e.id, s->err))
    return fail_nomem(s);
  return true;
}

static bool
scan_pool(struct qp__legacy_source *l, struct qp__scan *s)
{
  if (!qp__scan_open(s, '{'))
    return false;
  for (bool first = true; qp__scan_more(s, '}', first); first = false)
    if (!scan_entry(l, s))
      return false;
  return !s->rc;
}

/* ---- branches ---- */

static bool
add_id(struct qp__legacy_list *list, const struct qp_uuid *id, const char *text)
{
  unsigned spelling = spelling_of(text);

  if (!qp__vec_reserve(list->ids, list->count, list->cap, 1))
    return false;
  list->ids[list->count] = *id;
  list->lower = list->lower && spelling & LOWER;
  list->upper = list->upper && spelling & UPPER;
  if (!(spelling & LOWER) && !add_odd(&list->odds, list->count, text))
    return false;
  list->count++;
  return true;
}

static bool
scan_ids(struct qp__scan *s, struct qp__legacy_list *list)
{
  struct qp_uuid id;

  if (!qp__scan_open(s, '['))
    return false;
  for (bool first = true; qp__scan_more(s, ']', first); first = false) {
    uint64_t at;

    (void)qp__scan_peek(s);
    at = qp__scan_at(s);
    if (qp__scan_peek(s) != '"')
      return !s->rc &&
             qp__scan_fail(s, QP_INVALID, at, "an element of \"message_ids\" is not a UUID");
    if (!qp__scan_string(s))
      return false;
    if (!text_uuid(s, &id))
      return qp__scan_fail(s, QP_INVALID, at, "an element of \"message_ids\" is not a UUID");
    if (list->count >= QP__LEGACY_NONE - 1)
      return qp__scan_fail(s, QP_TOOBIG, at, "too many message_ids");
    if (!add_id(list, &id, s->text.data))
      return fail_nomem(s);
  }
  return !s->rc;
}

/* Keeps `instead` in place of the text that was just read. */
static bool
stand_in(struct qp__scan *s, struct qp__buf *rest, const char *instead)
{
  (void)qp__buf_add_str(rest, instead); /* the scanner detects a failure */
  qp__scan_keep(s, rest);
  return !s->rc;
}

static struct qp__legacy_list *
add_list(struct qp__legacy_source *l)
{
  struct qp__legacy_list list = {
    .lower = true,
    .upper = true,
    .head = QP__LEGACY_NONE,
    .base = QP__LEGACY_NONE,
    .own = QP__LEGACY_NONE,
  };

  return qp__vec_push(l->lists, l->list_count, l->list_cap, list) ? &l->lists[l->list_count - 1]
                                                                  : NULL;
}

static bool
scan_branch(struct qp__legacy_source *l, struct qp__scan *s, struct qp__buf *rest)
{
  struct qp__legacy_list *list = add_list(l);

  if (!list)
    return fail_nomem(s);
  if (qp__scan_peek(s) != '{')
    return qp__scan_skip(s); /* the parser of the rest reports it */
  for (bool first = true; qp__scan_field(s, &first);) {
    if (!qp__scan_is(s, "message_ids") || qp__scan_peek(s) != '[') {
      if (!qp__scan_skip(s))
        return false;
      continue;
    }
    qp__scan_keep(s, NULL);
    if (!scan_ids(s, list) || !stand_in(s, rest, "[]"))
      return false;
  }
  return !s->rc;
}

static bool
scan_branches(struct qp__legacy_source *l, struct qp__scan *s, struct qp__buf *rest)
{
  if (qp__scan_peek(s) != '{')
    return qp__scan_skip(s);
  for (bool first = true; qp__scan_field(s, &first);)
    if (!scan_branch(l, s, rest))
      return false;
  return !s->rc;
}

/* ---- the whole ---- */

static bool
scan_top(struct qp__legacy_source *l, struct qp__scan *s, struct qp__buf *rest)
{
  bool ok = true;
  int c = qp__scan_peek(s);

  if (c < 0)
    return !s->rc && (s->rc = qp__fail(s->err, QP_INVALID, "%s: is empty", s->what), false);
  if (c != '{')
    return qp__scan_fail(s, QP_INVALID, qp__scan_at(s), "not a context: not a JSON object");
  qp__scan_keep(s, rest);
  for (bool first = true; ok && qp__scan_field(s, &first);) {
    if (qp__scan_is(s, "message_pool") && qp__scan_peek(s) == '{') {
      qp__scan_keep(s, NULL);
      ok = scan_pool(l, s) && stand_in(s, rest, "{}");
    } else if (qp__scan_is(s, "branches")) {
      ok = scan_branches(l, s, rest);
    } else {
      ok = qp__scan_skip(s);
    }
  }
  qp__scan_keep(s, NULL);
  return ok && !s->rc && qp__scan_end(s);
}

/* Assigns the keys of the branches to the lists. */
static enum qp_rc
name_lists(struct qp__legacy_source *l, struct qp_err *err)
{
  json_t *branches = json_object_get(l->context, "branches");
  size_t i = 0;
  const char *key;
  json_t *value;

  if (l->list_count != json_object_size(branches))
    return qp__fail(err, QP_INVALID, "%s: duplicate \"branches\"", l->what);
  json_object_foreach (branches, key, value) {
    l->lists[i].key = key;
    i++;
  }
  return QP_OK;
}

enum qp_rc
qp__legacy_scan_context(struct qp__legacy_source *l, struct qp__scan *s, struct qp_err *err)
{
  char what[QP__LEGACY_WHAT];
  struct qp__buf rest;
  enum qp_rc rc;

  qp__buf_init(&rest, QP__LEGACY_CONTEXT_MAX);
  rc = scan_top(l, s, &rest) ? QP_OK : s->rc;
  (void)snprintf(what, sizeof(what), "%s, without its messages", l->what);
  if (!rc)
    rc = qp__json_parse_own_object(what, qp__buf_bytes(&rest), &l->context, err);
  if (!rc)
    rc = name_lists(l, err);
  qp__buf_release(&rest);
  return rc;
}

void
qp__legacy_list_release(struct qp__legacy_list *list)
{
  qp__free(list->ids);
  qp__free(list->items);
  qp__free(list->odds.list);
  qp__free(list->name);
  json_decref(list->missing);
}

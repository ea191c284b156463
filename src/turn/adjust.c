/* adjust.c - actions on what a model is sent: a compaction that a person asks for, and changes of
 * records and pins.
 *
 * Records are files, so a worker reads them and makes the new record; then the action is in the
 * inbox again and becomes a transition. Pins are in the metadata and need no worker. Nothing is
 * overwritten: undo, redo, an edited summary and an expansion are records of their own. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/context/context_int.h"
#include "turn/compacting.h"
#include "turn/question.h"

#define EXPAND_MAX 1000 /* messages */

struct qp__adjustment {
  uv_work_t work; /* first */
  struct qp__actor *actor;
  struct qp__action_request *request; /* owned while the worker runs */
  struct qp__conversation conversation;
  struct qp__record record;       /* the new one, without id and time */
  const struct qp__record *after; /* of undo and redo: in use afterwards, or NULL: no record */
  bool uses_new;
  bool again; /* an undone record counts again */
  struct qp_uuid *ids;
  size_t id_count;
  struct qp_err err;
};

void
qp__adjustment_free(struct qp__adjustment *a)
{
  if (!a)
    return;
  qp__conversation_release(&a->conversation);
  qp__free(a);
}

/* ---- in the worker ---- */

static enum qp_rc
collect_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp__adjustment *a = arg;

  (void)json;
  a->ids[a->id_count++] = info->id;
  return QP_OK;
}

/* The position of a covered message of the branch. */
static enum qp_rc
find_covered(struct qp__adjustment *a, const struct qp_uuid *id, uint64_t *out)
{
  struct qp__conversation *c = &a->conversation;
  struct qp_message_info info;
  enum qp_rc rc = qp_message_find(c->context, id, &info, &a->err);

  if (rc)
    return rc;
  if (info.position >= c->record->covered ||
      !qp__conversation_holds(c, info.position + 1, id, NULL))
    return qp__fail(&a->err, QP_INVALID, "the message is not covered by a summary");
  *out = info.position;
  return QP_OK;
}

static enum qp_rc
make_expansion(struct qp__adjustment *a)
{
  struct qp__conversation *c = &a->conversation;
  const struct qp_action *action = &a->request->a;
  uint64_t from = 0;
  uint64_t to;
  enum qp_rc rc;

  if (!c->record || !c->record->covered)
    return qp__fail(&a->err, QP_NOTFOUND, "nothing to expand: the conversation is not compacted");
  rc = find_covered(a, &action->target, &from);
  to = from;
  if (!rc && !qp_uuid_is_none(&action->last))
    rc = find_covered(a, &action->last, &to);
  if (rc)
    return rc;
  if (to < from || to - from >= EXPAND_MAX)
    return qp__fail(&a->err, QP_INVALID,
                    "expand needs 1 to %d messages, from the older one to the newer one",
                    EXPAND_MAX);
  a->ids = qp__arena_alloc(&c->arena, (size_t)(to - from + 1) * sizeof(*a->ids));
  if (!a->ids)
    return qp__fail_nomem(&a->err, "an action");
  rc = qp_messages_index(c->context, c->branch, from, to - from + 1, collect_id, a, &a->err);
  return rc ? rc
            : qp__record_expand(c->record, a->ids, a->id_count, &c->arena, &a->record, &a->err);
}

static enum qp_rc
make_edit(struct qp__adjustment *a)
{
  struct qp__conversation *c = &a->conversation;

  if (!c->record || !c->record->covered)
    return qp__fail(&a->err, QP_NOTFOUND, "nothing to edit: the conversation is not compacted");
  return qp__record_edit(c->record, a->request->a.text.data, &a->record, &a->err);
}

/* The record that an undo leaves in use, or that a redo brings back. */
static enum qp_rc
find_after(struct qp__adjustment *a)
{
  struct qp__conversation *c = &a->conversation;
  size_t n = c->record_count;
  struct qp__record *all = qp__arena_alloc(&c->arena, (n + 1) * sizeof(*all));

  if (!all)
    return qp__fail_nomem(&a->err, "an action");
  if (n)
    memcpy(all, c->records, n * sizeof(*all));
  all[n] = a->record;
  a->after = qp__record_choose(all, n + 1, qp__conversation_holds, c);
  return QP_OK;
}

static void
work(uv_work_t *w)
{
  struct qp__adjustment *a = (struct qp__adjustment *)w;
  struct qp__conversation *c = &a->conversation;
  enum qp_rc rc = qp__conversation_records(c, true, &a->err);

  if (!rc)
    switch (a->request->a.kind) {
    case QP_ACTION_UNDO_COMPACT:
      rc = qp__record_undo(c->records, c->record_count, qp__conversation_holds, c, &a->record,
                           &a->err);
      break;
    case QP_ACTION_REDO_COMPACT:
      rc = qp__record_redo(c->records, c->record_count, qp__conversation_holds, c, &a->record,
                           &a->err);
      a->again = true;
      break;
    case QP_ACTION_EDIT_SUMMARY:
      rc = make_edit(a);
      a->uses_new = true;
      break;
    default:
      rc = make_expansion(a);
      a->uses_new = true;
      break;
    }
  if (!rc && !a->uses_new)
    rc = find_after(a);
  a->err.rc = rc;
}

/* ---- on the loop ---- */

static void
on_worked(uv_work_t *w, int status)
{
  struct qp__adjustment *a = (struct qp__adjustment *)w;
  struct qp__actor *t = a->actor;
  struct qp__action_request *request = a->request;

  t->jobs--;
  a->request = NULL;
  if (status)
    (void)qp__fail(&a->err, QP_STOPPED, "reading the compactions was stopped");
  request->rules = a->err.rc ? QP__RULES_FAILED : QP__RULES_STORED;
  request->input.failure = a->err;
  request->adjustment = a;
  qp__actor_enqueue(t, &request->input);
  qp__actor_pump(t);
}

enum qp_rc
qp__resolve_adjust(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__action_request *request = in->request;
  struct qp__adjustment *a;
  enum qp_rc rc;

  if (request->rules == QP__RULES_STORED)
    return QP_OK;
  rc = qp__action_set_branch(t, request, request->a.branch, err);
  if (rc)
    return rc;
  a = qp__alloc0(1, sizeof(*a));
  if (!a)
    return qp__fail_nomem(err, "an action");
  a->actor = t;
  a->request = request;
  if (!qp__conversation_begin(&a->conversation, t->engine, t->context, request->branch) ||
      uv_queue_work(&t->engine->loop, &a->work, work, on_worked)) {
    qp__adjustment_free(a);
    return qp__fail_nomem(err, "an action");
  }
  t->jobs++;
  in->event = QP__EVENTS; /* not yet: it is enqueued again when the worker has ended */
  return QP_OK;
}

enum qp_rc
qp__resolve_compact(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__action_request *request = in->request;
  struct qp__shortening *s = request->shortening;
  enum qp_rc rc;

  if (s) {
    qp__actor_stop_shortening(t, true); /* this one covers what would be prepared */
    request->shortening = NULL;
    t->shortening = s;
    t->compact_reason = QP__REASON_REQUEST;
    return QP_OK;
  }
  rc = qp__action_set_branch(t, request, request->a.branch, err);
  if (rc)
    return rc;
  s = qp__shorten_new(t, QP__SHORTEN_REQUEST, request->branch);
  if (!s)
    return qp__fail_nomem(err, "an action");
  s->up_to = request->a.target;
  s->instructions = request->a.instructions
                        ? qp__arena_strdup(&s->conversation.arena, request->a.instructions)
                        : NULL;
  s->without_model = qp__actor_over_limit(&t->engine->limits, &t->open->facts, err);
  s->request = request;
  if ((request->a.instructions && !s->instructions) || !qp__shorten_start(s)) {
    s->request = NULL;
    qp__shorten_drop(s);
    return qp__fail_nomem(err, "an action");
  }
  in->event = QP__EVENTS;
  return QP_OK;
}

/* ---- what the transition commits ---- */

/* Removes the mark of a record. */
static void
drop_mark(json_t *state, const struct qp_uuid *id)
{
  json_t *marks = json_object_get(state, "marks");
  char text[QP_UUID_TEXT];

  (void)qp_uuid_text(id, text);
  for (size_t i = json_array_size(marks); i-- > 0;)
    if (qp__str_same(qp__json_text(json_array_get(marks, i), "id"), text))
      (void)json_array_remove(marks, i);
}

static size_t
kept_of(const struct qp__adjustment *a, const struct qp__record *r)
{
  struct qp__view *v = qp__view_get(a->conversation.context);
  struct qp__branch *b = NULL;
  uint32_t head = QP__NO_SLOT;
  size_t kept = 0;

  if (!qp__view_branch(v, a->conversation.branch, &b, NULL))
    head = atomic_load(&b->head);
  if (head != QP__NO_SLOT) {
    uint64_t all = (uint64_t)qp__tree_at(&a->conversation.context->tree, head)->depth + 1;

    kept = all > r->covered ? (size_t)(all - r->covered) : 0;
  }
  qp__view_unref(v);
  return kept;
}

/* "compaction" of the metadata as it is afterwards; NULL: no memory. */
static json_t *
make_state(const struct qp__adjustment *a)
{
  const struct qp__record *now = a->uses_new ? &a->record : a->after;
  json_t *state = qp__compaction_state(a->conversation.context);
  json_t *marks;
  int bad = !state;

  if (bad)
    return NULL;
  if (!json_is_array(json_object_get(state, "marks")))
    bad = json_object_set_new(state, "marks", json_array());
  marks = json_object_get(state, "marks");
  if (a->uses_new) /* it replaces the record that it was made from */
    drop_mark(state, &a->record.parent);
  else if (!a->again)
    drop_mark(state, &a->record.target);
  if (now)
    drop_mark(state, &now->id);
  if (now && !bad) {
    while (json_array_size(marks) >= QP__MARKS_MAX)
      (void)json_array_remove(marks, 0);
    bad = json_array_append_new(marks, qp__mark_object(now, kept_of(a, now))) ||
          qp__json_set_str(state, "summary", now->narrative) ||
          qp__json_set_uuid(state, "record", &now->id);
  } else if (!bad) {
    (void)json_object_del(state, "summary");
    (void)json_object_del(state, "record");
  }
  (void)json_object_del(state, "tried"); /* it was about the previous view */
  return qp__json_built(state, bad);
}

/* The word of the event for an action. */
static const char *
word_of(enum qp_action_kind kind)
{
  switch (kind) {
  case QP_ACTION_UNDO_COMPACT:
    return "undo";
  case QP_ACTION_REDO_COMPACT:
    return "redo";
  case QP_ACTION_EDIT_SUMMARY:
    return "edit";
  case QP_ACTION_EXPAND:
    return "expand";
  case QP_ACTION_PIN:
    return "pin";
  default:
    return "unpin";
  }
}

/* The pins with or without a message, as a patch. */
static json_t *
make_pins(struct qp_context *context, const struct qp_uuid *id, bool pin)
{
  struct qp__view *v = qp__view_get(context);
  const json_t *old = json_object_get(v->meta->extra, "pins");
  json_t *list = json_is_array(old) ? qp__json_deep_copy(old) : json_array();
  char text[QP_UUID_TEXT];

  qp__view_unref(v);
  (void)qp_uuid_text(id, text);
  for (size_t i = json_array_size(list); i-- > 0;)
    if (qp__str_same(json_string_value(json_array_get(list, i)), text))
      (void)json_array_remove(list, i);
  if (pin && list)
    list = qp__json_push(list, json_string(text));
  return json_pack("{s:o, s:n}", "pins", list, "window");
}

enum qp_rc
qp__adjustment_take(struct qp__actor *t, struct qp__action_request *request,
                    struct qp__view_change *out, struct qp_err *err)
{
  struct qp__adjustment *a = request->adjustment;
  char message[QP_UUID_TEXT];
  char id[QP_UUID_TEXT];
  json_t *state;
  enum qp_rc rc;

  out->type = "compaction";
  if (!a) {
    out->patch = make_pins(t->context, &request->a.target, request->a.kind == QP_ACTION_PIN);
    out->line =
        qp__json_pack_set("{s:s, s:s, s:s?}", "action", word_of(request->a.kind), "message_id",
                          qp_uuid_text(&request->a.target, message), "branch", request->branch);
    return out->patch && out->line ? QP_OK : qp__fail_nomem(err, "an action");
  }
  rc = qp__engine_new_id(t->engine, &a->record.id, err);
  a->record.created_at = qp__engine_now_ms(t->engine);
  qp__buf_init(&out->record, (size_t)16 << 20);
  out->record_id = a->record.id;
  if (!rc)
    rc = qp__record_seal(&a->record, &out->record, err);
  if (rc)
    return rc;
  state = make_state(a);
  out->patch = json_pack("{s:o, s:n}", "compaction", state, "window");
  out->line = json_pack("{s:s, s:s, s:s}", "action", word_of(request->a.kind), "id",
                        qp_uuid_text(&a->record.id, id), "branch", request->branch);
  return out->patch && out->line ? QP_OK : qp__fail_nomem(err, "an action");
}

/* ---- pins ---- */

static bool
is_pinned(struct qp_context *context, const struct qp_uuid *id, size_t *count)
{
  struct qp__view *v = qp__view_get(context);
  const json_t *list = json_object_get(v->meta->extra, "pins");
  char text[QP_UUID_TEXT];
  bool found = qp__json_has_text(list, qp_uuid_text(id, text));

  *count = json_array_size(list);
  qp__view_unref(v);
  return found;
}

enum qp_rc
qp__resolve_pin(struct qp__actor *t, struct qp__input *in, struct qp_err *err)
{
  struct qp__action_request *request = in->request;
  bool pin = request->a.kind == QP_ACTION_PIN;
  struct qp_message_info info;
  size_t count;
  bool pinned = is_pinned(t->context, &request->a.target, &count);
  enum qp_rc rc = qp__action_set_branch(t, request, request->a.branch, err);

  if (!rc && pin)
    rc = qp_message_find(t->context, &request->a.target, &info, err);
  if (rc)
    return rc;
  if (!pin && !pinned)
    return qp__fail(err, QP_NOTFOUND, "the message is not pinned");
  if (pin && !pinned && count >= QP__PINS_MAX)
    return qp__fail(err, QP_TOOBIG, "at most %d messages can be pinned", QP__PINS_MAX);
  return QP_OK;
}

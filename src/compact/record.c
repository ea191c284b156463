/* record.c - see record.h. */
#include "compact/record.h"

#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

static const char what[] = "compaction record";
static const char *const kind_names[] = { "compact", "undo", "redo", "prepared" };

void
qp__record_link(uint8_t chain[QP__CHAIN], const struct qp_uuid *id, const uint8_t hash[QP__CHAIN])
{
  uint8_t link[3 * QP__CHAIN];

  memcpy(link, chain, QP__CHAIN);
  memcpy(link + QP__CHAIN, id->b, QP__CHAIN);
  memcpy(link + 2 * QP__CHAIN, hash, QP__CHAIN);
  (void)crypto_generichash(chain, QP__CHAIN, link, sizeof(link), NULL, 0);
}

/* ---- writing ---- */

static json_t *
shown_to_json(const struct qp__record *r)
{
  json_t *list = json_array();
  char text[QP_UUID_TEXT];

  for (size_t i = 0; list && i < r->shown_count; i++)
    list = qp__json_push(list, json_string(qp_uuid_text(&r->shown[i], text)));
  return list;
}

static json_t *
stubs_to_json(const struct qp__record *r)
{
  json_t *list = json_array();

  for (size_t i = 0; list && i < r->stub_count; i++) {
    json_t *stub = json_object();

    if (!stub || qp__json_set_uuid(stub, "id", &r->stubs[i].id) ||
        json_object_set_new(stub, "keep", json_integer(r->stubs[i].keep)) ||
        json_array_append(list, stub)) {
      json_decref(stub);
      json_decref(list);
      return NULL;
    }
    json_decref(stub);
  }
  return list;
}

static int
set_int(json_t *object, const char *key, int64_t value)
{
  return json_object_set_new(object, key, json_integer(value));
}

/* The fields of a compaction. */
static int
set_compaction(json_t *object, const struct qp__record *r)
{
  char hash[2 * QP__CHAIN];

  qp__hex_encode(hash, r->hash, QP__CHAIN);
  return qp__json_set_uuid(object, "parent", &r->parent) ||
         qp__json_set_str(object, "reason", r->reason) ||
         set_int(object, "covered", (int64_t)r->covered) ||
         qp__json_set_uuid(object, "last", &r->last) ||
         qp__json_set_strn(object, "hash", hash, sizeof(hash)) ||
         json_object_set_new(object, "shown", shown_to_json(r)) ||
         json_object_set_new(object, "stubs", stubs_to_json(r)) ||
         qp__json_set_str(object, "narrative", r->narrative ? r->narrative : "") ||
         qp__json_set_str(object, "ledger", r->ledger ? r->ledger : "") ||
         json_object_set_new(object, "recall", json_boolean(r->recall)) ||
         qp__json_set_str(object, "model", r->model) ||
         set_int(object, "prompt_version", r->prompt_version) ||
         set_int(object, "tokens_before", r->tokens_before) ||
         set_int(object, "tokens_after", r->tokens_after) || set_int(object, "cost", r->cost) ||
         set_int(object, "generation", r->generation);
}

static bool
has_summary(enum qp__record_kind kind)
{
  return kind == QP__RECORD_COMPACT || kind == QP__RECORD_PREPARED;
}

json_t *
qp__record_to_json(const struct qp__record *r)
{
  json_t *object = json_object();

  return qp__json_built(object, !object || qp__json_set_uuid(object, "id", &r->id) ||
                                    qp__json_set_str(object, "kind", kind_names[r->kind]) ||
                                    qp__json_set_time(object, "created_at", r->created_at) ||
                                    (has_summary(r->kind)
                                         ? set_compaction(object, r)
                                         : qp__json_set_uuid(object, "target", &r->target)));
}

/* ---- reading ---- */

static enum qp_rc
read_text(const json_t *object, const char *key, struct qp__arena *arena, const char **out,
          struct qp_err *err)
{
  const char *text = NULL;
  enum qp_rc rc = qp__json_string(what, object, key, &text, err);

  if (rc || !text)
    return rc;
  if (strlen(text) > QP__RECORD_TEXT_MAX)
    return qp__fail(err, QP_INVALID, "%s: \"%s\" is too long", what, key);
  *out = qp__arena_strdup(arena, text);
  return *out ? QP_OK : qp__fail_nomem(err, what);
}

static enum qp_rc
read_number(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
            struct qp_err *err)
{
  enum qp_rc rc = qp__json_int(what, object, key, out, err);

  if (!rc && (*out < low || *out > high))
    return qp__fail(err, QP_INVALID, "%s: \"%s\" is out of range", what, key);
  return rc;
}

static enum qp_rc
read_shown(const json_t *object, struct qp__arena *arena, struct qp__record *r, struct qp_err *err)
{
  json_t *list = NULL;
  enum qp_rc rc = qp__json_array(what, object, "shown", &list, err);
  size_t n = json_array_size(list);

  if (rc || !n)
    return rc;
  if (n > QP__RECORD_LIST_MAX)
    return qp__fail(err, QP_INVALID, "%s: \"shown\" is too long", what);
  r->shown = qp__arena_alloc(arena, n * sizeof(*r->shown));
  if (!r->shown)
    return qp__fail_nomem(err, what);
  for (size_t i = 0; i < n; i++) {
    const char *text = json_string_value(json_array_get(list, i));

    if (!text || qp_uuid_parse(text, &r->shown[i], NULL))
      return qp__fail(err, QP_INVALID, "%s: \"shown\" has a value that is not an id", what);
  }
  r->shown_count = n;
  return QP_OK;
}

static enum qp_rc
read_stubs(const json_t *object, struct qp__arena *arena, struct qp__record *r, struct qp_err *err)
{
  json_t *list = NULL;
  enum qp_rc rc = qp__json_array(what, object, "stubs", &list, err);
  size_t n = json_array_size(list);

  if (rc || !n)
    return rc;
  if (n > QP__RECORD_LIST_MAX)
    return qp__fail(err, QP_INVALID, "%s: \"stubs\" is too long", what);
  r->stubs = qp__arena_alloc(arena, n * sizeof(*r->stubs));
  if (!r->stubs)
    return qp__fail_nomem(err, what);
  for (size_t i = 0; i < n; i++) {
    const json_t *stub = json_array_get(list, i);

    if (!json_is_object(stub))
      return qp__fail(err, QP_INVALID, "%s: \"stubs\" has a value that is not an object", what);
    rc = qp__json_uuid(what, stub, "id", &r->stubs[i].id, err);
    if (!rc)
      rc = read_number(stub, "keep", 0, INT64_MAX, &r->stubs[i].keep, err);
    if (rc)
      return rc;
  }
  r->stub_count = n;
  return QP_OK;
}

static enum qp_rc
read_numbers(const json_t *object, struct qp__record *r, struct qp_err *err)
{
  int64_t covered = -1, version = 0, generation = 0;
  enum qp_rc rc = read_number(object, "covered", 0, INT64_MAX, &covered, err);

  r->cost = -1;
  if (!rc)
    rc = read_number(object, "prompt_version", 0, INT32_MAX, &version, err);
  if (!rc)
    rc = read_number(object, "generation", 0, INT32_MAX, &generation, err);
  if (!rc)
    rc = read_number(object, "tokens_before", 0, INT64_MAX, &r->tokens_before, err);
  if (!rc)
    rc = read_number(object, "tokens_after", 0, INT64_MAX, &r->tokens_after, err);
  if (!rc)
    rc = read_number(object, "cost", -1, INT64_MAX, &r->cost, err);
  r->covered = (uint64_t)covered;
  r->prompt_version = (int)version;
  r->generation = (int)generation;
  return rc;
}

static enum qp_rc
read_compaction(const json_t *object, struct qp__arena *arena, struct qp__record *r,
                struct qp_err *err)
{
  const char *hash = NULL;
  enum qp_rc rc = read_numbers(object, r, err);

  if (!rc)
    rc = qp__json_uuid(what, object, "parent", &r->parent, err);
  if (!rc)
    rc = qp__json_uuid(what, object, "last", &r->last, err);
  if (!rc)
    rc = qp__json_string(what, object, "hash", &hash, err);
  if (!rc)
    rc = qp__json_bool(what, object, "recall", &r->recall, err);
  if (!rc)
    rc = read_text(object, "reason", arena, &r->reason, err);
  if (!rc)
    rc = read_text(object, "narrative", arena, &r->narrative, err);
  if (!rc)
    rc = read_text(object, "ledger", arena, &r->ledger, err);
  if (!rc)
    rc = read_text(object, "model", arena, &r->model, err);
  if (!rc)
    rc = read_shown(object, arena, r, err);
  if (!rc)
    rc = read_stubs(object, arena, r, err);
  if (rc)
    return rc;
  if (!hash || strlen(hash) != 2 * QP__CHAIN || !qp__hex_decode(r->hash, hash, QP__CHAIN))
    return qp__fail(err, QP_INVALID, "%s: \"hash\" must be 32 hexadecimal digits", what);
  if ((r->covered == 0) != qp_uuid_is_none(&r->last))
    return qp__fail(err, QP_INVALID, "%s: \"covered\" and \"last\" contradict each other", what);
  if (r->covered && !*r->narrative && !*r->ledger)
    return qp__fail(err, QP_INVALID, "%s: messages are covered, but the summary is empty", what);
  if (!r->covered && (r->shown_count || !r->stub_count))
    return qp__fail(err, QP_INVALID, "%s: it covers nothing and has no stubs", what);
  return QP_OK;
}

enum qp_rc
qp__record_from_json(const json_t *value, struct qp__arena *arena, struct qp__record *out,
                     struct qp_err *err)
{
  struct qp__record r = { .reason = "", .narrative = "", .ledger = "" };
  const char *kind = NULL;
  enum qp_rc rc;

  if (!json_is_object(value))
    return qp__fail(err, QP_INVALID, "%s: it is not an object", what);
  rc = qp__json_uuid(what, value, "id", &r.id, err);
  if (!rc)
    rc = qp__json_string(what, value, "kind", &kind, err);
  if (!rc)
    rc = qp__json_time(what, value, "created_at", &r.created_at, err);
  if (rc)
    return rc;
  if (qp_uuid_is_none(&r.id))
    return qp__fail(err, QP_INVALID, "%s: \"id\" is missing", what);
  for (r.kind = QP__RECORD_COMPACT; kind && r.kind < KINDS; r.kind++)
    if (strcmp(kind, kind_names[r.kind]) == 0)
      break;
  if (!kind || r.kind >= KINDS)
    return qp__fail(err, QP_INVALID, "%s: \"kind\" must be compact, undo, redo or prepared", what);
  if (has_summary(r.kind))
    rc = read_compaction(value, arena, &r, err);
  else
    rc = qp__json_uuid(what, value, "target", &r.target, err);
  if (!rc && !has_summary(r.kind) && qp_uuid_is_none(&r.target))
    rc = qp__fail(err, QP_INVALID, "%s: \"target\" is missing", what);
  if (!rc)
    *out = r;
  return rc;
}

/* ---- choosing ---- */

/* Whether the last undo or redo behind record i that names it is an undo. */
static bool
is_undone(const struct qp__record *records, size_t count, size_t i)
{
  for (size_t k = count; k-- > i + 1;)
    if (!has_summary(records[k].kind) && qp_uuid_equal(&records[k].target, &records[i].id))
      return records[k].kind == QP__RECORD_UNDO;
  return false;
}

static bool
does_hold(const struct qp__record *r, qp__record_holds *holds, void *arg)
{
  return r->covered == 0 || holds(arg, r->covered, &r->last, r->hash);
}

const struct qp__record *
qp__record_choose(const struct qp__record *records, size_t count, qp__record_holds *holds,
                  void *arg)
{
  const struct qp__record *stubs = NULL;

  for (size_t i = count; i-- > 0;) {
    if (records[i].kind != QP__RECORD_COMPACT || is_undone(records, count, i) ||
        !does_hold(&records[i], holds, arg))
      continue;
    if (records[i].covered)
      return &records[i];
    if (!stubs)
      stubs = &records[i];
  }
  return stubs;
}

const struct qp__record *
qp__record_prepared(const struct qp__record *records, size_t count, uint64_t covered,
                    qp__record_holds *holds, void *arg)
{
  for (size_t i = count; i-- > 0;)
    if (records[i].kind == QP__RECORD_PREPARED && records[i].covered > covered &&
        does_hold(&records[i], holds, arg))
      return &records[i];
  return NULL;
}

static const struct qp__record_stub *
find_old_stub(const struct qp__record *old, const struct qp_uuid *id)
{
  for (size_t i = 0; old && i < old->stub_count; i++)
    if (qp_uuid_equal(&old->stubs[i].id, id))
      return &old->stubs[i];
  return NULL;
}

/* Stubs of the items behind the cut: those of the plan, else those that they had. */
static enum qp_rc
take_stubs(const struct qp__plan *plan, const struct qp__plan_item *items, size_t count,
           const struct qp__record *old, struct qp__arena *arena, struct qp__record *out,
           struct qp_err *err)
{
  size_t next = 0;

  out->stubs = qp__arena_alloc(arena, (count + 1) * sizeof(*out->stubs));
  if (!out->stubs)
    return qp__fail_nomem(err, what);
  for (size_t i = plan->cut; i < count; i++) {
    const struct qp__record_stub *stub = find_old_stub(old, &items[i].id);

    while (next < plan->edit_count && plan->edits[next].item < i)
      next++;
    if (next < plan->edit_count && plan->edits[next].item == i)
      out->stubs[out->stub_count++] =
          (struct qp__record_stub){ items[i].id, plan->edits[next].keep };
    else if (stub)
      out->stubs[out->stub_count++] = *stub;
  }
  return QP_OK;
}

enum qp_rc
qp__record_from_plan(const struct qp__plan *plan, const struct qp__plan_item *items, size_t count,
                     const struct qp__record *old, struct qp__arena *arena, struct qp__record *out,
                     struct qp_err *err)
{
  struct qp__record r = { .reason = qp__plan_why_name(plan->why), .narrative = "", .ledger = "" };
  bool has_user = false;
  enum qp_rc rc;

  r.cost = -1;
  r.tokens_before = plan->before;
  r.tokens_after = plan->after;
  r.covered = (old ? old->covered : 0) + plan->cut;
  if (old) {
    r.parent = old->id;
    r.last = old->last;
    if (!plan->cut) {
      r.narrative = old->narrative;
      r.ledger = old->ledger;
      r.generation = old->generation;
      r.recall = old->recall;
      memcpy(r.hash, old->hash, QP__CHAIN);
    }
  }
  if (plan->cut)
    r.last = items[plan->cut - 1].id;
  for (size_t i = 0; i < count; i++)
    has_user = has_user || items[i].kind == QP__ITEM_USER;
  r.shown = qp__arena_alloc(arena, 1 * sizeof(*r.shown));
  if (!r.shown)
    return qp__fail_nomem(err, what);
  if (plan->carry != QP__PLAN_NONE_AT)
    r.shown[r.shown_count++] = items[plan->carry].id;
  else if (old && old->shown_count && !plan->cut) {
    r.shown = old->shown;
    r.shown_count = old->shown_count;
  } else if (old && old->shown_count && !has_user)
    r.shown[r.shown_count++] = old->shown[old->shown_count - 1];
  rc = take_stubs(plan, items, count, old, arena, &r, err);
  if (!rc)
    *out = r;
  return rc;
}

enum qp_rc
qp__record_undo(const struct qp__record *records, size_t count, qp__record_holds *holds, void *arg,
                struct qp__record *out, struct qp_err *err)
{
  const struct qp__record *r = qp__record_choose(records, count, holds, arg);

  if (!r)
    return qp__fail(err, QP_NOTFOUND, "nothing to undo: the conversation is not compacted");
  *out = (struct qp__record){ .kind = QP__RECORD_UNDO, .target = r->id };
  return QP_OK;
}

enum qp_rc
qp__record_redo(const struct qp__record *records, size_t count, qp__record_holds *holds, void *arg,
                struct qp__record *out, struct qp_err *err)
{
  for (size_t k = count; k-- > 0;) {
    if (records[k].kind == QP__RECORD_COMPACT && does_hold(&records[k], holds, arg) &&
        !is_undone(records, count, k))
      return qp__fail(err, QP_CONFLICT,
                      "nothing to redo: there is a newer compaction; undo it first");
    if (records[k].kind != QP__RECORD_UNDO)
      continue;
    for (size_t i = 0; i < k; i++)
      if (qp_uuid_equal(&records[i].id, &records[k].target) && is_undone(records, count, i) &&
          does_hold(&records[i], holds, arg)) {
        *out = (struct qp__record){ .kind = QP__RECORD_REDO, .target = records[i].id };
        return QP_OK;
      }
  }
  return qp__fail(err, QP_NOTFOUND, "nothing to redo: no compaction was undone");
}

enum qp_rc
qp__record_edit(const struct qp__record *old, const char *narrative, struct qp__record *out,
                struct qp_err *err)
{
  if (!old->covered)
    return qp__fail(err, QP_INVALID, "cannot edit the summary: nothing is summarised");
  if (!narrative || !*narrative || strlen(narrative) > QP__RECORD_TEXT_MAX)
    return qp__fail(err, QP_INVALID, "cannot edit the summary: the new text is empty or too long");
  *out = *old;
  out->id = (struct qp_uuid){ { 0 } };
  out->parent = old->id;
  out->reason = "edit";
  out->narrative = narrative;
  out->model = NULL;
  out->cost = 0;
  return QP_OK;
}

enum qp_rc
qp__record_expand(const struct qp__record *old, const struct qp_uuid *ids, size_t count,
                  struct qp__arena *arena, struct qp__record *out, struct qp_err *err)
{
  size_t n = old->shown_count;
  struct qp_uuid *shown = qp__arena_alloc(arena, (n + count + 1) * sizeof(*shown));

  if (!shown)
    return qp__fail_nomem(err, what);
  if (!old->covered || n + count > QP__RECORD_LIST_MAX)
    return qp__fail(err, QP_INVALID, "cannot expand: %s",
                    old->covered ? "too many messages" : "nothing is summarised");
  if (n)
    memcpy(shown, old->shown, n * sizeof(*shown));
  if (count)
    memcpy(shown + n, ids, count * sizeof(*shown));
  *out = *old;
  out->id = (struct qp_uuid){ { 0 } };
  out->parent = old->id;
  out->reason = "expand";
  out->shown = shown;
  out->shown_count = n + count;
  out->cost = 0;
  return QP_OK;
}

bool
qp__record_is_extended(const struct qp__record *old, bool waits)
{
  int limit = waits ? 2 * QP__RECORD_GENERATIONS : QP__RECORD_GENERATIONS;

  return old && old->covered && old->generation > 0 && old->generation < limit;
}

/* h_response_compact.c - POST /openai/v1/responses/compact.
 *
 * It compacts a branch of a context: the one of "previous_response_id", with "input" at its end;
 * "input" alone is stored in a new context. The action "compact" (docs/compaction.md) shortens
 * what models are sent of it and removes nothing. The answer has the messages of the user that are
 * still sent as they are, and an item that names the context and its last message: an input that
 * begins with this item continues there. When there is too little to compact, the item is the same
 * and everything is sent. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "http/clock.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/face/face_turn.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/openai/item.h"
#include "http/openai/stored_response.h"
#include "http/quota.h"
#include "model/message.h"
#include "quipu/compaction.h"

#define SHOWN_MAX 64 /* messages at the end of the branch among which those of the user are shown */

struct compacting {
  const char *branch; /* NULL: the active one */
  struct qp__turn_ticket *ticket;
};

/* ---- the answer ---- */

struct shown {
  json_t *items;
  uint64_t covered; /* messages of the branch that the summary stands for */
  struct qp_uuid last;
  struct qp_err *err;
};

static enum qp_rc
show_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct shown *s = arg;
  struct qp_message *message = NULL;
  json_t *items = NULL;
  enum qp_rc rc;

  s->last = info->id;
  if (info->position < s->covered || info->role != QP_ROLE_USER ||
      info->status == QP_STATUS_UNAVAILABLE)
    return QP_OK;
  rc = qp_message_parse(json, &message, s->err);
  if (rc)
    return rc;
  items = qp__items_of(message);
  if (!items || json_array_extend(s->items, items))
    rc = qp__fail_nomem(s->err, "a compaction");
  json_decref(items);
  qp_message_free(message);
  return rc;
}

/* The newest mark of the branch: a new reference, or NULL when nothing is covered. */
static enum qp_rc
read_mark(struct qp__request *r, const char *branch, json_t **out, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  json_t *marks = NULL;
  enum qp_rc rc = qp_compaction_marks(r->held->context, branch, &text, &len, err);

  if (!rc)
    rc = qp__json_parse("the compactions", (struct qp_bytes){ text, len }, &marks, err);
  if (!rc && json_array_size(marks))
    *out = json_incref(json_array_get(marks, json_array_size(marks) - 1));
  json_decref(marks);
  qp_free(text);
  return rc;
}

static uint64_t
number_of(const json_t *mark, const char *key)
{
  json_int_t n = json_integer_value(json_object_get(mark, key));

  return n > 0 ? (uint64_t)n : 0;
}

static void
emit_usage(struct qp__buf *b, uint64_t before, uint64_t after)
{
  qp__emit_open(b, "usage", '{');
  qp__emit_uint(b, "input_tokens", before);
  qp__emit_open(b, "input_tokens_details", '{');
  qp__emit_uint(b, "cached_tokens", 0);
  qp__emit_uint(b, "cache_write_tokens", 0);
  qp__emit_close(b, '}');
  qp__emit_uint(b, "output_tokens", after);
  qp__emit_open(b, "output_tokens_details", '{');
  qp__emit_uint(b, "reasoning_tokens", 0);
  qp__emit_close(b, '}');
  qp__emit_uint(b, "total_tokens", before + after);
  qp__emit_close(b, '}');
}

static enum qp_rc
emit(struct qp__request *r, const struct shown *s, const json_t *mark, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  char ref[QP__COMPACTION_REF];
  char id[QP__COMPACTION_REF];
  struct qp__buf items;
  enum qp_rc rc;

  qp__compaction_ref(&r->held->id, &s->last, ref);
  (void)snprintf(id, sizeof(id), "cmp_%s", ref + 38); /* the digits of the message */
  qp__buf_init(&items, (size_t)256 << 20);
  if (!qp__wish_add(s->items, json_pack("{s:s, s:s, s:s}", "type", "compaction", "id", id,
                                        "encrypted_content", ref)))
    return qp__fail_nomem(err, "a compaction");
  (void)qp__json_write(&items, s->items);
  (void)snprintf(id, sizeof(id), "resp_%s", ref + 38);
  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "id", id);
  qp__emit_str(b, "object", "response.compaction");
  qp__emit_uint(b, "created_at", (uint64_t)(qp__clock_wall_ms() / 1000));
  qp__emit_raw(b, "output", qp__buf_bytes(&items));
  emit_usage(b, number_of(mark, "tokens_before"), number_of(mark, "tokens_after"));
  qp__emit_close(b, '}');
  rc = qp__buf_check(&items, "a compaction", err);
  qp__buf_release(&items);
  return rc;
}

static enum qp_rc
answer_compact(struct qp__request *r, struct qp_err *err)
{
  const struct compacting *c = r->kept;
  struct shown s = { .items = NULL, .err = err };
  json_t *mark = NULL;
  enum qp_rc rc = r->waited.rc;

  qp__quota_turn_begun(c->ticket, false);
  if (rc && rc != QP_CONFLICT) { /* a conflict: there is too little to compact */
    *err = r->waited;
    return rc;
  }
  qp__held_show_now(r->held);
  s.items = json_array();
  rc = s.items ? read_mark(r, c->branch, &mark, err) : qp__fail_nomem(err, "a compaction");
  if (!rc) {
    s.covered = number_of(mark, "covered");
    rc = qp_messages_last(r->held->context, c->branch, SHOWN_MAX, show_message, &s, err);
  }
  if (!rc)
    rc = emit(r, &s, mark, err);
  json_decref(mark);
  json_decref(s.items);
  return rc;
}

/* ---- the request ---- */

/* Gives the newest message of the user the settings of the request: they name the model. The
 * messages without those of the system: a new array. */
static enum qp_rc
prepare_input(struct qp__request *r, const struct qp__response_wish *w, json_t **out,
              struct qp_err *err)
{
  size_t n = json_array_size(w->wish.messages);
  json_t *last = NULL;

  *out = json_array();
  for (size_t i = 0; *out && i < n; i++) {
    json_t *message = json_array_get(w->wish.messages, i);
    const char *role = json_string_value(json_object_get(message, "role"));

    if (role && strcmp(role, "user") == 0)
      last = message;
    if (role && strcmp(role, "system") != 0 && json_array_append(*out, message))
      return qp__fail_nomem(err, "the input");
  }
  if (!*out)
    return qp__fail_nomem(err, "the input");
  return last ? qp__face_settings(r, &w->wish, false, last, err) : QP_OK;
}

/* Holds the context, and stores the input at the end of the branch. */
static enum qp_rc
store_input(struct qp__request *r, const struct qp__response_wish *w, struct compacting *c,
            struct qp_err *err)
{
  struct qp_uuid at = { { 0 } };
  struct qp_context_info *info = NULL;
  json_t *messages = NULL;
  enum qp_rc rc = qp__response_place(r, w, &at, &c->branch, err);

  if (!rc)
    rc = qp_context_info_new(r->held->context, &info, err);
  if (!rc && info->state == QP_STATE_AWAITING_TOOL_APPROVAL)
    rc = qp__wish_refuse(r, err, "previous_response_id",
                         "a function call of the conversation waits for its output");
  else if (!rc && !qp_state_awaits_client(info->state))
    rc = qp__response_fail_locked(r, err);
  qp_free(info);
  if (!rc && !qp_uuid_is_none(&at) && !c->branch)
    rc = qp__face_fork(r, &at, &c->branch, err);
  if (!rc)
    rc = prepare_input(r, w, &messages, err);
  if (!rc)
    rc = qp__items_save(r, c->branch, messages, NULL, err);
  json_decref(messages);
  return rc;
}

static void
end_compact(void *arg, const struct qp_action_result *result, enum qp_rc rc,
            const struct qp_err *err)
{
  (void)result;
  qp__work_unpark(arg, rc, err);
}

static enum qp_rc
begin(struct qp__request *r, const struct qp__response_wish *w, struct compacting *c,
      struct qp_err *err)
{
  struct qp_action action = { .size = sizeof(action), .kind = QP_ACTION_COMPACT, .wait = true };
  struct qp_engine *engine = NULL;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  rc = qp__quota_turn(r, engine, &c->ticket, err);
  if (!rc) {
    action.context = r->held->id;
    action.branch = c->branch;
    action.instructions = w->wish.system;
    qp__work_park(r, answer_compact, false);
    rc = qp_engine_act(engine, &action, end_compact, r, err);
    if (rc) {
      r->then = NULL;
      qp__quota_turn_begun(c->ticket, false);
    }
  }
  qp__turns_leave(r->http);
  return rc;
}

enum qp_rc
qp__h_response_compact(struct qp__request *r, struct qp_err *err)
{
  struct qp__response_wish w = { .store = true };
  struct compacting *c = qp__arena_alloc(&r->arena, sizeof(*c));
  json_t *body = NULL;
  enum qp_rc rc = qp__json_parse_outside_object("the body", qp__buf_bytes(&r->body), &body, err);

  qp__wish_init(&w.wish, "openai");
  if (!rc && !c)
    rc = qp__fail_nomem(err, "a compaction");
  if (!rc) {
    *c = (struct compacting){ .branch = NULL };
    r->kept = c;
    rc = qp__response_request_read(r, body, &w, err);
  }
  if (!rc && !*w.wish.model)
    rc = qp__wish_refuse(r, err, "model", "\"model\" is missing");
  if (!rc && (w.conversation || w.approvals))
    rc = qp__wish_refuse(r, err, w.conversation ? "conversation" : "input",
                         "compact uses \"previous_response_id\" or \"input\" with messages; to "
                         "compact a conversation use its last response");
  if (!rc && !w.previous && !w.compaction && !json_array_size(w.wish.messages))
    rc = qp__wish_refuse(r, err, "input",
                         "compact needs \"previous_response_id\", \"input\" or both");
  if (!rc)
    rc = store_input(r, &w, c, err);
  if (!rc)
    rc = begin(r, &w, c, err);
  qp__response_wish_release(&w);
  json_decref(body);
  return rc;
}

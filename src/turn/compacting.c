/* compacting.c - see compacting.h. */
#include "turn/compacting.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "base/str.h"
#include "store/context/context_int.h"
#include "store/context/record_file.h"
#include "turn/question.h"

#define PICO 1e12
#define SUMMARY_MAX 8192 /* bytes of a summary in the metadata, which is written often */

static const char what[] = "a compaction";

/* ---- JSON ---- */

json_t *
qp__compaction_state(struct qp_context *context)
{
  struct qp__view *v = qp__view_get(context);
  const json_t *state = json_object_get(v->meta->extra, "compaction");
  json_t *copy = json_is_object(state) ? qp__json_deep_copy(state) : json_object();

  qp__view_unref(v);
  return copy;
}

enum qp_rc
qp__record_seal(const struct qp__record *record, struct qp__buf *out, struct qp_err *err)
{
  json_t *value = qp__record_to_json(record);
  enum qp_rc rc;

  if (!value)
    return qp__fail_nomem(err, what);
  (void)qp__json_write_pretty(out, value);
  (void)qp__buf_add_char(out, '\n');
  json_decref(value);
  rc = qp__buf_check(out, what, err);
  return rc ? rc : qp__seal_document(out, 0, err);
}

json_t *
qp__mark_object(const struct qp__record *r, size_t kept)
{
  json_t *mark = json_object();

  return qp__json_built(
      mark, !mark || qp__json_set_uuid(mark, "id", &r->id) ||
                json_object_set_new(mark, "covered", json_integer((json_int_t)r->covered)) ||
                qp__json_set_uuid(mark, "last", &r->last) ||
                json_object_set_new(mark, "kept", json_integer((json_int_t)kept)) ||
                json_object_set_new(mark, "tokens_before", json_integer(r->tokens_before)) ||
                json_object_set_new(mark, "tokens_after", json_integer(r->tokens_after)) ||
                qp__json_set_time(mark, "created_at", r->created_at));
}

/* Adds a mark, and drops the oldest when there are too many. */
static int
push_mark(json_t *state, const struct qp__record *r, size_t kept)
{
  json_t *marks = json_object_get(state, "marks");

  if (!json_is_array(marks)) {
    if (json_object_set_new(state, "marks", json_array()))
      return -1;
    marks = json_object_get(state, "marks");
  }
  while (json_array_size(marks) >= QP__MARKS_MAX)
    (void)json_array_remove(marks, 0);
  return json_array_append_new(marks, qp__mark_object(r, kept));
}

static int
set_summary(json_t *state, const struct qp__record *r)
{
  size_t n = r->narrative ? strlen(r->narrative) : 0;

  if (n > SUMMARY_MAX)
    n = qp__utf8_prefix(r->narrative, n, SUMMARY_MAX);
  while (n > SUMMARY_MAX || (n && !qp__utf8_ok(r->narrative, n)))
    n--;
  return qp__json_set_strn(state, "summary", n ? r->narrative : "", n) ||
         qp__json_set_uuid(state, "record", &r->id);
}

static const char *
window_origin(const struct qp__number *n)
{
  return qp__origin_name(n->origin);
}

json_t *
qp__window_object(const struct qp__actor_asked *asked, const char *branch, const struct qp_uuid *at,
                  int64_t used, enum qp__origin origin)
{
  const struct qp__budget *b = &asked->budget;
  const struct qp__count *m = &b->messages;
  struct qp__number own = { used, origin };
  json_t *window = json_pack(
      "{s:s, s:I, s:I, s:I, s:{s:s, s:s, s:s}, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}}",
      "branch", branch, "used", (json_int_t)used, "window", (json_int_t)b->window.value, "reserve",
      (json_int_t)b->reserve.value, "origins", "used", window_origin(&own), "window",
      window_origin(&b->window), "reserve", window_origin(&b->reserve), "parts", "system",
      (json_int_t)b->system, "tools", (json_int_t)b->tools, "summary",
      (json_int_t)asked->summary_tokens, "text", (json_int_t)(m->text - asked->summary_tokens),
      "thinking", (json_int_t)m->thinking, "calls", (json_int_t)m->calls, "results",
      (json_int_t)m->results, "images", (json_int_t)m->images);

  return qp__json_built(window, window && qp__json_set_uuid(window, "at", at));
}

/* ---- beginning ---- */

void
qp__actor_stop_shortening(struct qp__actor *t, bool all)
{
  if (!t->shortening || (t->shortening->purpose == QP__SHORTEN_PREPARE && !all))
    return;
  qp__shorten_drop(t->shortening);
  t->shortening = NULL;
}

/* A failure before anything could be begun. */
static void
fail(struct qp__actor *t, struct qp__shortening *s)
{
  qp__shorten_drop(s);
  qp__actor_enqueue_error(t, QP__EVENT_FINAL_ERROR, t->number, "internal",
                          "out of memory: a compaction");
}

void
qp__actor_shorten(struct qp__actor *t)
{
  struct qp__shortening *s = t->shortening;
  struct qp_err ignored;

  t->number++;
  if (s && s->phase == QP__SHORTEN_PLANNED) {
    qp__shorten_go_on(s);
    return;
  }
  if (s || t->prepared_saves) {
    t->shorten_waits = true; /* what is prepared may be just what is needed */
    return;
  }
  s = qp__shorten_new(t, QP__SHORTEN_TURN, t->open->facts.branch);
  if (!s) {
    fail(t, NULL);
    return;
  }
  s->reason = t->compact_reason;
  s->refused_tokens = t->open->asked.tokens;
  s->refused_window = t->open->asked.window;
  s->without_model = qp__actor_over_limit(&t->engine->limits, &t->open->facts, &ignored);
  if (qp__shorten_start(s))
    t->shortening = s;
  else
    fail(t, s);
}

void
qp__actor_prepare_summary(struct qp__actor *t)
{
  struct qp__shortening *s;

  if (t->shortening || t->prepared_saves || t->engine->phase != QP__ENGINE_RUNNING)
    return;
  s = qp__shorten_new(t, QP__SHORTEN_PREPARE, t->open->facts.branch);
  if (s && qp__shorten_start(s))
    t->shortening = s;
  else
    qp__shorten_drop(s); /* it is made when it is needed */
}

/* ---- ending ---- */

/* Names the record and writes its file. */
static enum qp_rc
write_record(struct qp__shortening *s, struct qp_err *err)
{
  struct qp_engine *e = s->conversation.engine;
  enum qp_rc rc = qp__engine_new_id(e, &s->record.id, err);

  s->record.created_at = qp__engine_now_ms(e);
  if (s->purpose == QP__SHORTEN_PREPARE)
    s->record.kind = QP__RECORD_PREPARED;
  if (s->tokens || s->record.cost < 0)
    s->record.cost = s->cost;
  return rc ? rc : qp__record_seal(&s->record, &s->text, err);
}

/* The plan for a person's request is made, or there is nothing to do. */
static void
answer_request(struct qp__actor *t, struct qp__shortening *s)
{
  struct qp__action_request *request = s->request;
  struct qp_err *failure = &request->input.failure;

  s->request = NULL;
  request->rules = QP__RULES_STORED;
  request->shortening = s;
  if (s->dropped)
    (void)qp__fail(failure, QP_STOPPED, "the context is being closed");
  else if (s->err.rc)
    *failure = s->err;
  else if (!s->has_record)
    (void)qp__fail(failure, QP_CONFLICT, "nothing to compact: %s",
                   s->plan.why == QP__WHY_OFF       ? "compaction is off in this context"
                   : s->plan.why == QP__WHY_NO_GAIN ? "a summary would not be smaller"
                   : s->plan.why == QP__WHY_FIXED   ? "what is never shortened fills the window"
                                                    : "there are too few messages");
  else
    failure->rc = QP_OK;
  if (failure->rc)
    request->rules = QP__RULES_FAILED;
  qp__actor_enqueue(t, &request->input);
}

void
qp__actor_shortened(struct qp__actor *t, struct qp__shortening *s)
{
  if (s->request) {
    answer_request(t, s);
    return;
  }
  if (!s->err.rc && s->has_record)
    s->err.rc = write_record(s, &s->err);
  if (s->purpose == QP__SHORTEN_PREPARE)
    return; /* the pump saves it */
  if (s->err.rc) {
    qp__actor_enqueue_error(t, QP__EVENT_FINAL_ERROR, t->number,
                            s->err.rc == QP_TOOBIG     ? "too_long"
                            : s->err.rc == QP_NOTFOUND ? "model"
                                                       : "internal",
                            s->err.msg);
    return;
  }
  qp__actor_enqueue_event(t, t->open->facts.alone ? QP__EVENT_COMPACTED_ALONE : QP__EVENT_COMPACTED,
                          t->number);
}

/* ---- saving what was prepared ---- */

static void
on_saved(struct qp_engine *e, struct qp__post *post)
{
  struct qp__commit_notice *notice = (struct qp__commit_notice *)post;
  struct qp__actor *t = notice->actor;

  t->flushing--;
  t->prepared_saves = false;
  t->prepared_saved++;
  if (notice->err.rc)
    qp__log(&e->log, QP_LOG_WARN, "compact", "a prepared summary could not be saved: %s",
            notice->err.msg);
  qp__free(notice);
  if (t->shorten_waits && t->state == QP_STATE_COMPACTING && t->stage == QP__ACTOR_OPEN)
    qp__actor_shorten(t);
  t->shorten_waits = false;
  qp__actor_pump(t);
}

static int
set_failures(json_t *state, const struct qp__shortening *s)
{
  json_int_t failures = json_integer_value(json_object_get(state, "failures"));

  if (s->failed)
    failures++;
  else if (s->record.model)
    failures = 0;
  return json_object_set_new(state, "failures", json_integer(failures));
}

static void
add_cost(struct qp__turn_facts *f, const struct qp__shortening *s)
{
  f->count.tokens += s->tokens;
  f->total.tokens += s->tokens;
  f->count.cost += s->cost;
  f->total.cost += s->cost;
}

/* The metadata after a summary was prepared; NULL: no memory. */
static json_t *
prepared_patch(const struct qp__actor *t, const struct qp__shortening *s)
{
  const struct qp__turn_count *total = &t->open->facts.total;
  json_t *state = qp__compaction_state(t->context);
  json_t *patch;

  if (!state || set_failures(state, s)) {
    json_decref(state);
    return NULL;
  }
  patch = json_pack("{s:o}", "compaction", state);
  if (patch && s->tokens &&
      json_object_set_new(patch, "usage",
                          json_pack("{s:I, s:f}", "tokens", (json_int_t)total->tokens, "cost_usd",
                                    (double)total->cost / PICO))) {
    json_decref(patch);
    return NULL;
  }
  return patch;
}

static json_t *
failed_line(const char *branch, const struct qp__shortening *s, json_int_t failures)
{
  return json_pack("{s:s, s:s, s:s, s:b}", "branch", branch, "reason",
                   s->purpose == QP__SHORTEN_PREPARE ? "prepare" : s->record.reason, "error",
                   s->failure, "breaker", failures >= QP__PLAN_FAILURES);
}

void
qp__actor_save_prepared(struct qp__actor *t)
{
  struct qp__shortening *s = t->shortening;
  struct qp_change change = { .size = sizeof(change) };
  struct qp__own_json own = { .metadata = NULL };
  struct qp__commit_notice *notice;
  struct qp_err err;
  bool saved = false;

  if (!s || s->purpose != QP__SHORTEN_PREPARE || s->phase != QP__SHORTEN_DONE)
    return;
  t->shortening = NULL;
  notice = qp__alloc0(1, sizeof(*notice));
  add_cost(&t->open->facts, s);
  if (s->failed)
    (void)qp__feed_add(&t->feed, "compact_failed", failed_line(s->conversation.branch, s, 0),
                       qp__engine_now_ms(t->engine), false, NULL);
  if (notice && !s->err.rc && s->has_record) {
    notice->post.run = on_saved;
    notice->actor = t;
    own.metadata = prepared_patch(t, s);
    own.record_id = s->record.id;
    own.record = qp__buf_bytes(&s->text);
    t->flushing++;
    saved = own.metadata &&
            !qp__change_commit(t->context, &change, &own, qp__commit_notice_post, notice, &err);
    if (!saved)
      t->flushing--;
    t->prepared_saves = saved;
    json_decref((json_t *)own.metadata);
  }
  qp__shorten_drop(s);
  if (saved)
    return;
  qp__free(notice);
  if (t->shorten_waits && t->state == QP_STATE_COMPACTING)
    qp__actor_shorten(t);
  t->shorten_waits = false;
}

/* ---- what a transition commits ---- */

void
qp__view_change_free(struct qp__view_change *change)
{
  if (!change)
    return;
  qp__buf_release(&change->record);
  json_decref(change->patch);
  json_decref(change->line);
  json_decref(change->failed);
  qp__free(change);
}

static json_t *
compact_line(const struct qp__record *r, const char *branch, size_t kept, int64_t cost)
{
  char id[QP_UUID_TEXT];

  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:f, s:s?, s:I, s:b}", "id",
                   qp_uuid_text(&r->id, id), "branch", branch, "covered", (json_int_t)r->covered,
                   "kept", (json_int_t)kept, "tokens_before", (json_int_t)r->tokens_before,
                   "tokens_after", (json_int_t)r->tokens_after, "reason", r->reason, "cost_usd",
                   (double)cost / PICO, "model", r->model, "stubs", (json_int_t)r->stub_count,
                   "recall", r->recall);
}

/* The last message of a conversation. */
static struct qp_uuid
head_of(const struct qp__conversation *c)
{
  return c->tail_count ? c->tail[c->tail_count - 1]->id : (struct qp_uuid){ { 0 } };
}

/* Fills in the news of a record, and what the metadata has of it. False: no memory. */
static bool
describe(struct qp__view_change *out, json_t *state, const struct qp__record *r,
         const struct qp__conversation *c, const struct qp__actor_asked *asked, size_t kept,
         int64_t cost)
{
  struct qp_uuid head = head_of(c);

  if (push_mark(state, r, kept) || (r->covered && set_summary(state, r)))
    return false;
  out->record_id = r->id;
  out->type = "compact";
  out->line = compact_line(r, c->branch, kept, cost);
  out->patch =
      json_pack("{s:o}", "window",
                qp__window_object(asked, c->branch, &head, r->tokens_after, QP__ORIGIN_ESTIMATE));
  return out->line && out->patch;
}

/* Of COMPACTED: the record, what the metadata has of it, and the news. */
static enum qp_rc
take_compaction(struct qp__actor *t, struct qp__view_change *out, struct qp_err *err)
{
  struct qp__shortening *s = t->shortening;
  struct qp__conversation *c;
  struct qp__turn_facts *f = &t->open->transition.facts;
  json_t *state;
  struct qp_uuid head;
  bool bad;

  if (!s || s->phase != QP__SHORTEN_DONE)
    return QP_OK;
  c = &s->conversation;
  head = head_of(c);
  state = qp__compaction_state(t->context);
  add_cost(f, s);
  bad = !state || set_failures(state, s) || qp__json_set_uuid(state, "tried", &head);
  if (!bad && s->has_record) {
    struct qp__actor_asked asked = { .budget = c->budget };

    asked.budget.messages =
        (struct qp__count){ .text = s->record.tokens_after - c->budget.reserve.value -
                                    c->budget.system - c->budget.tools };
    out->record = s->text;
    qp__buf_init(&s->text, 0);
    bad = !describe(out, state, &s->record, c, &asked, s->kept, s->cost);
  } else if (!bad) {
    out->patch = json_object();
    bad = !out->patch;
  }
  if (!bad && s->failed) {
    out->failed = failed_line(c->branch, s, json_integer_value(json_object_get(state, "failures")));
    bad = !out->failed;
  }
  bad = bad || json_object_set(out->patch, "compaction", state);
  json_decref(state);
  return bad ? qp__fail_nomem(err, what) : QP_OK;
}

enum qp_rc
qp__actor_take_over(struct qp__actor *t, struct qp__question *q, struct qp_err *err)
{
  struct qp__view_change *change = qp__alloc0(1, sizeof(*change));
  struct qp__conversation *c = &q->conversation;
  struct qp__actor_asked asked = { .budget = c->budget, .summary_tokens = c->summary_tokens };
  struct qp_uuid head = head_of(c);
  json_t *state = qp__compaction_state(t->context);
  enum qp_rc rc = QP_OK;

  if (change)
    qp__buf_init(&change->record, QP__RECORD_MAX);
  if (!change || !state || qp__json_set_uuid(state, "tried", &head))
    rc = qp__fail_nomem(err, what);
  if (!rc)
    rc = qp__engine_new_id(t->engine, &q->record.id, err);
  if (!rc)
    rc = qp__record_seal(&q->record, &change->record, err);
  if (!rc && (!describe(change, state, &q->record, c, &asked, c->tail_count, 0) ||
              json_object_set(change->patch, "compaction", state)))
    rc = qp__fail_nomem(err, what);
  json_decref(state);
  if (rc) {
    qp__view_change_free(change);
    return rc;
  }
  qp__view_change_free(t->open->taken_over);
  t->open->taken_over = change;
  return QP_OK;
}

enum qp_rc
qp__actor_take_change(struct qp__actor *t, struct qp__input *in, struct qp__view_change *out,
                      struct qp_err *err)
{
  switch (in->event) {
  case QP__EVENT_COMPACTED:
  case QP__EVENT_COMPACTED_ALONE:
    return take_compaction(t, out, err);
  case QP__EVENT_ADJUST:
    return in->request ? qp__adjustment_take(t, in->request, out, err) : QP_OK;
  default:
    return QP_OK;
  }
}

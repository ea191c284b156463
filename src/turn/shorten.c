/* shorten.c - see shorten.h. */
#include "turn/shorten.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "compact/extract.h"
#include "compact/frame.h"
#include "turn/actor.h"
#include "turn/covered_ledger.h"
#include "turn/originals.h"
#include "turn/question.h"
#include "turn/takeover.h"

#define NARRATIVE_MAX ((size_t)1 << 20)
#define ATTEMPTS 2
#define ANSWER_MIN 512 /* tokens that the summariser may write at least */
#define REACH 16       /* compactions whose messages a narrative is rebuilt from at most */

static const char what[] = "a compaction";

/* ---- life ---- */

struct qp__shortening *
qp__shorten_new(struct qp__actor *t, enum qp__shorten_purpose purpose, const char *branch)
{
  struct qp__shortening *s = qp__alloc0(1, sizeof(*s));

  if (!s)
    return NULL;
  s->actor = t;
  s->purpose = purpose;
  s->reason = purpose == QP__SHORTEN_TURN ? QP__REASON_CHECK : QP__REASON_REQUEST;
  qp__buf_init(&s->narrative, NARRATIVE_MAX);
  qp__buf_init(&s->text, (size_t)16 << 20);
  if (!qp__conversation_begin(&s->conversation, t->engine, t->context, branch)) {
    qp__shorten_drop(s);
    return NULL;
  }
  s->conversation.stops = &t->recall_stops;
  return s;
}

static void
free_parts(struct qp__shortening *s)
{
  for (size_t i = 0; i < s->part_count; i++) {
    qp__buf_release(&s->bodies[i]);
    qp__buf_release(&s->parts[i]);
  }
  s->part_count = 0;
}

void
qp__shorten_release(struct qp__shortening *s)
{
  free_parts(s);
  qp__buf_release(&s->narrative);
  qp__buf_release(&s->text);
  qp__conversation_release(&s->conversation);
}

static void
end_answer(struct qp__shortening *s)
{
  if (s->asking)
    qp__answer_release(&s->answer);
  s->asking = false;
}

void
qp__shorten_drop(struct qp__shortening *s)
{
  if (!s)
    return;
  s->dropped = true;
  if (s->call)
    qp__llm_call_cancel(s->call);
  s->call = NULL;
  end_answer(s);
  if (s->work.data)
    return; /* a worker has it */
  qp__shorten_release(s);
  qp__free(s);
}

/* ---- the plan, in the worker ---- */

struct reading {
  struct qp__shortening *s;
  uint8_t chain[QP__CHAIN];
};

static enum qp_rc
add_link(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct reading *r = arg;

  (void)json;
  qp__record_link(r->chain, &info->id, info->hash);
  return QP_OK;
}

/* The hash of the covered messages, from that of the earlier record on. */
static enum qp_rc
make_hash(struct qp__shortening *s)
{
  const struct qp__conversation *c = &s->conversation;
  uint64_t from = c->record ? c->record->covered : 0;
  struct reading r = { .s = s };
  enum qp_rc rc = QP_OK;

  if (from)
    memcpy(r.chain, c->record->hash, QP__CHAIN);
  if (s->record.covered > from)
    rc = qp_messages_index(c->context, c->branch, from, s->record.covered - from, add_link, &r,
                           &s->err);
  memcpy(s->record.hash, r.chain, QP__CHAIN);
  return rc;
}

/* How many items a person allows to be covered; 0: as usual. */
static enum qp_rc
find_limit(struct qp__shortening *s)
{
  const struct qp__conversation *c = &s->conversation;

  if (qp_uuid_is_none(&s->up_to))
    return QP_OK;
  for (size_t i = 0; i < c->tail_count; i++)
    if (qp_uuid_equal(&c->tail[i]->id, &s->up_to)) {
      s->input.up_to = i + 1;
      return QP_OK;
    }
  return qp__fail(&s->err, QP_NOTFOUND,
                  "the message is not behind the part of the branch that is covered already");
}

static enum qp_rc
make_plan(struct qp__shortening *s)
{
  struct qp__conversation *c = &s->conversation;
  enum qp_rc rc;

  qp__conversation_input(c, s->reason, &s->input);
  if (s->reason == QP__REASON_OVERFLOW) {
    if (s->refused_window > 0 && s->refused_window < s->input.window)
      s->input.window = s->refused_window;
    if (s->input.reserve > s->input.window / 8)
      s->input.reserve = s->input.window / 8;
    if (s->refused_tokens + s->input.reserve > s->input.used)
      s->input.used = s->refused_tokens + s->input.reserve;
    if (s->input.used <= s->input.window)
      s->input.used = s->input.window + 1;
  }
  if (s->purpose == QP__SHORTEN_REQUEST)
    s->input.failures = 0;
  rc = find_limit(s);
  if (!rc)
    rc = qp__plan_make(&s->input, &c->arena, &s->plan, &s->err);
  if (!rc && c->settings.policy.mode == QP__PLAN_MANUAL && s->reason == QP__REASON_OVERFLOW) {
    s->plan.action = QP__PLAN_TOO_LONG;
    s->plan.why = QP__WHY_MANUAL;
  }
  return rc;
}

/* The record, without its summary unless that was prepared. */
static enum qp_rc
make_record(struct qp__shortening *s)
{
  struct qp__conversation *c = &s->conversation;
  const struct qp__record *ready =
      s->purpose == QP__SHORTEN_TURN ? qp__takeover_find(c, &s->input, &s->plan) : NULL;
  enum qp_rc rc = qp__record_from_plan(&s->plan, c->items, c->tail_count, c->record, &c->arena,
                                       &s->record, &s->err);

  if (rc)
    return rc;
  if (ready) {
    qp__takeover_fill(&s->record, ready);
  } else if (s->plan.cut) {
    s->record.covered = c->tail_at[s->plan.cut - 1];
    rc = make_hash(s);
  }
  s->kept = c->tail_count - s->plan.cut;
  s->has_record = true;
  return rc;
}

/* ---- the summariser, in the worker ---- */

/* Which model writes the narrative; none when there is no better one than the built-in. */
static void
choose_model(struct qp__shortening *s)
{
  struct qp__conversation *c = &s->conversation;
  struct qp_engine *e = c->engine;
  const char *name = c->settings.summarizer;
  const char *fast = NULL;
  const char *wire = NULL;

  if (s->without_model || s->plan.without_model || strcmp(name, "built-in") == 0)
    return;
  s->provider = c->provider;
  s->model_name = c->model_name;
  if (strcmp(name, "fast") == 0) {
    fast = c->provider->official ? qp__models_fast(c->model->provider) : NULL;
    if (fast)
      s->model_name = fast;
  } else if (strcmp(name, "own") != 0) {
    struct qp_err ignored;

    if (qp__llm_resolve(&e->providers, &e->models, name, &s->provider, &wire, &ignored) || !*wire) {
      s->provider = NULL;
      s->failed = true;
      (void)snprintf(s->failure, sizeof(s->failure), "there is no model '%.100s' to summarise with",
                     name);
      return;
    }
    s->model_name = qp__arena_strdup(&c->arena, wire);
  }
  if (!s->provider->codec || !s->model_name) /* the demo cannot summarise */
    s->provider = NULL;
  else
    s->model = qp__models_get(&e->models, s->model_name);
}

static enum qp_rc
encode(struct qp__shortening *s, struct qp_bytes text, struct qp__buf *body, struct qp_err *err)
{
  const char *system = qp__frame_system();
  struct qp_message *message = NULL;
  struct qp__llm_request request = {
    .model = s->model_name,
    .system = { system, strlen(system) },
    .message_count = 1,
    .max_output = s->model->max_output,
    .cache = QP__CACHE_OFF,
  };
  enum qp_rc rc = qp_message_new_text(QP_ROLE_USER, text, &message, err);

  if (rc)
    return rc;
  request.messages = (const struct qp_message *const[]){ message };
  request.params.max_tokens = s->budget * 2 > ANSWER_MIN ? s->budget * 2 : ANSWER_MIN;
  rc = qp__llm_encode(s->provider, &request, body, err);
  qp_message_free(message);
  return rc;
}

/* The record whose narrative the new one goes on from, or NULL: it begins with the first message.
 * An extension goes on from the record in use. A rebuild goes back over the last REACH compactions,
 * so that it costs the same however long the conversation is, but not behind a narrative that a
 * person has written. */
static enum qp_rc
find_base(struct qp__shortening *s, const struct qp__record **out)
{
  struct qp__conversation *c = &s->conversation;
  const struct qp__record *r = c->record && c->record->covered ? c->record : NULL;
  bool extends = c->record && qp__record_is_extended(c->record, s->purpose == QP__SHORTEN_TURN);
  enum qp_rc rc = QP_OK;

  s->record.generation = extends ? c->record->generation + 1 : 1;
  for (size_t back = 1; !rc && !extends && r && back < REACH && strcmp(r->reason, "edit") != 0;) {
    const struct qp__record *parent = NULL;

    rc = qp__conversation_parent(c, r, &parent, &s->err);
    back += parent && parent->covered < r->covered;
    r = parent && parent->covered ? parent : NULL;
  }
  *out = r;
  return rc;
}

/* Writes the requests for all parts of the transcript. */
static enum qp_rc
write_parts(struct qp__shortening *s, const struct qp__source *source, struct qp_bytes old,
            struct qp_bytes instructions)
{
  struct qp__conversation *c = &s->conversation;
  struct qp__frame_chunk *chunks = NULL;
  size_t n = 0;
  enum qp_rc rc = qp__frame_divide(source, s->room, &c->arena, &chunks, &n, &s->err);

  if (!rc) {
    s->bodies = qp__arena_alloc(&c->arena, n * sizeof(*s->bodies));
    s->parts = qp__arena_alloc(&c->arena, n * sizeof(*s->parts));
    if (!s->bodies || !s->parts)
      rc = qp__fail_nomem(&s->err, what);
  }
  for (size_t i = 0; i < n && !rc; i++) {
    struct qp__buf text;

    qp__buf_init(&s->bodies[i], QP__LLM_BODY_MAX);
    qp__buf_init(&s->parts[i], NARRATIVE_MAX);
    s->part_count = i + 1;
    qp__buf_init(&text, QP__LLM_BODY_MAX);
    rc = qp__frame_write(source, &chunks[i], s->room, i ? (struct qp_bytes){ "", 0 } : old,
                         instructions, s->budget, &text, &s->err);
    if (!rc)
      rc = encode(s, qp__buf_bytes(&text), &s->bodies[i], &s->err);
    qp__buf_release(&text);
  }
  return rc;
}

/* Reads the messages that the narrative is made from, and writes what the summariser is asked. */
static enum qp_rc
write_bodies(struct qp__shortening *s)
{
  struct qp__conversation *c = &s->conversation;
  struct qp_bytes instructions = { s->instructions ? s->instructions : "", 0 };
  struct qp_bytes old = { "", 0 };
  struct qp__originals originals = { .cap = 0 };
  const struct qp__record *base = NULL;
  int64_t window = s->model->window;
  int64_t known = qp__known_window(&c->engine->known, s->provider->name, s->model_name);
  uint64_t from;
  enum qp_rc rc = find_base(s, &base);

  if (rc)
    return rc;
  from = base ? base->covered : 0;
  if (base)
    old = (struct qp_bytes){ base->narrative, strlen(base->narrative) };
  instructions.len = strlen(instructions.data);
  if (known)
    window = known;
  s->budget = s->plan.summary_budget / 2;
  s->room = qp__frame_room(window, s->budget * 2 > ANSWER_MIN ? s->budget * 2 : ANSWER_MIN, old,
                           instructions);
  rc = qp__originals_read(&originals, c, from, s->record.covered - from, &s->err);
  if (!rc && (s->room <= 0 || !originals.source.count))
    s->provider = NULL;
  else if (!rc)
    rc = write_parts(s, &originals.source, old, instructions);
  qp__originals_release(&originals);
  return rc;
}

/* The first half of the work: everything before the summariser is asked. */
static void
plan(struct qp__shortening *s)
{
  struct qp__conversation *c = &s->conversation;
  enum qp_rc rc = qp__conversation_read(c, &s->err);

  if (!rc)
    rc = make_plan(s);
  if (!rc && s->plan.action == QP__PLAN_TOO_LONG && s->purpose == QP__SHORTEN_TURN)
    rc = qp__plan_too_long(&s->input, &s->plan, &s->err);
  if (!rc && s->plan.action != QP__PLAN_NONE && s->plan.action != QP__PLAN_TOO_LONG)
    rc = make_record(s);
  if (!rc && s->has_record && s->plan.cut && !*s->record.narrative && !*s->record.ledger) {
    choose_model(s);
    if (s->provider)
      rc = write_bodies(s);
  }
  s->err.rc = rc;
}

/* ---- the summary, in the worker ---- */

static enum qp_rc
keep_text(struct qp__shortening *s, const struct qp__buf *text, const char **out)
{
  enum qp_rc rc = qp__buf_check(text, what, &s->err);

  if (rc)
    return rc;
  *out = qp__arena_strndup(&s->conversation.arena, text->data ? text->data : "", text->len);
  return *out ? QP_OK : qp__fail_nomem(&s->err, what);
}

/* The narrative of the model without what nobody asked for; false: nothing is left of it. */
static bool
clean_narrative(struct qp__shortening *s, const struct qp__ledger *ledger, struct qp__buf *out)
{
  if (!s->narrative.len || s->failed)
    return false;
  if (qp__frame_clean(qp__buf_bytes(&s->narrative), ledger, out, &s->err) || !out->len) {
    s->failed = true;
    (void)snprintf(s->failure, sizeof(s->failure), "the summary says nothing that was said");
    qp__buf_reset(out);
    return false;
  }
  return true;
}

/* Narrative and ledger within the budget of the plan. */
static enum qp_rc
write_summary(struct qp__shortening *s)
{
  struct qp__conversation *c = &s->conversation;
  struct qp__covered_entry ledger = { .thing = NULL };
  struct qp__buf narrative, values;
  int64_t budget = s->plan.summary_budget;
  enum qp_rc rc = qp__covered_ledger_take(c, s->record.covered, &s->record.last, &ledger, &s->err);

  qp__buf_init(&narrative, NARRATIVE_MAX);
  qp__buf_init(&values, NARRATIVE_MAX);
  if (!rc && !clean_narrative(s, ledger.thing, &narrative)) {
    s->provider = NULL;
    s->record.generation = 1;
    rc = qp__extract_narrative(ledger.thing, budget / 4, &narrative, &s->err);
  }
  if (!rc)
    rc = qp__ledger_render(ledger.thing, budget - qp__count_text(qp__buf_bytes(&narrative)),
                           &values, &s->err);
  if (!rc)
    rc = keep_text(s, &narrative, &s->record.narrative);
  if (!rc)
    rc = keep_text(s, &values, &s->record.ledger);
  if (!rc && !narrative.len && !values.len) { /* pictures alone, for instance */
    s->record.narrative = "The covered messages have no text.";
  }
  s->record.recall = true;
  s->record.model = s->provider ? s->model_name : NULL;
  s->record.prompt_version = s->provider ? QP__FRAME_VERSION : 0;
  s->record.tokens_after +=
      qp__conversation_summary_tokens(c, &s->record) - budget - QP__PLAN_FRAME_TOKENS;
  if (ledger.thing)
    qp__covered_cache_put(&c->engine->ledgers, &ledger);
  qp__buf_release(&values);
  qp__buf_release(&narrative);
  return rc;
}

static bool
needs_summary(const struct qp__shortening *s)
{
  return s->has_record && s->plan.cut && !*s->record.narrative && !*s->record.ledger;
}

static void
work(uv_work_t *w)
{
  struct qp__shortening *s = (struct qp__shortening *)w;

  if (s->phase == QP__SHORTEN_PLANNING)
    plan(s);
  if (!s->err.rc && needs_summary(s) && (!s->provider || s->phase == QP__SHORTEN_CLOSING) &&
      (s->purpose != QP__SHORTEN_REQUEST || s->phase == QP__SHORTEN_CLOSING))
    s->err.rc = write_summary(s);
}

enum qp_rc
qp__shorten_preview(struct qp__shortening *s, struct qp_err *err)
{
  s->without_model = true;
  plan(s);
  if (!s->err.rc && needs_summary(s))
    s->err.rc = write_summary(s);
  return qp__fail_as(err, s->err.rc, &s->err);
}

/* ---- on the loop ---- */

static void on_worked(uv_work_t *w, int status);

bool
qp__shorten_start(struct qp__shortening *s)
{
  s->work.data = s;
  if (uv_queue_work(&s->actor->engine->loop, &s->work, work, on_worked)) {
    s->work.data = NULL;
    return false;
  }
  s->actor->jobs++;
  return true;
}

static void
finish(struct qp__shortening *s)
{
  s->phase = QP__SHORTEN_DONE;
  qp__actor_shortened(s->actor, s);
}

static void
close_summary(struct qp__shortening *s)
{
  s->phase = QP__SHORTEN_CLOSING;
  if (qp__shorten_start(s))
    return;
  s->err.rc = qp__fail(&s->err, QP_NOMEM, "cannot start a worker to compact a conversation");
  finish(s);
}

static void ask_next(struct qp__shortening *s);

/* The summariser failed: asks once more, then does without it. */
static void
ask_failed(struct qp__shortening *s, const char *why)
{
  end_answer(s);
  if (++s->attempt < ATTEMPTS) {
    ask_next(s);
    return;
  }
  s->failed = true;
  (void)snprintf(s->failure, sizeof(s->failure), "%s", why);
  close_summary(s);
}

static void
add_text(const struct qp_message *message, struct qp__buf *out)
{
  for (size_t i = 0; i < qp_message_part_count(message); i++) {
    struct qp_part part = qp_message_part(message, i);

    if (part.kind == QP_PART_TEXT)
      (void)qp__buf_add(out, part.text.data, part.text.len);
  }
}

static void
account(struct qp__shortening *s)
{
  const struct qp__llm_usage *u = &s->answer.usage;
  bool priced = s->model->origin == QP__MODEL_CONFIGURED || s->provider->official;
  int64_t cost = priced && s->answer.has_usage ? qp__model_cost(s->model, u) : -1;

  if (!s->answer.has_usage)
    return;
  s->tokens += (uint64_t)(u->input + u->cache_read + u->cache_write + u->output);
  s->cost += cost > 0 ? cost : 0;
}

/* Puts an answer in its place. False: it cannot be used. */
static bool
take_answer(struct qp__shortening *s, const char **why)
{
  struct qp_message *message = NULL;
  enum qp__frame_verdict verdict;
  struct qp__buf text;
  struct qp_err err;
  bool good;

  account(s);
  qp__buf_init(&text, NARRATIVE_MAX);
  if (qp__answer_message(&s->answer, false, -1, &message, &err)) {
    *why = "the summary is empty";
    return false;
  }
  add_text(message, &text);
  qp_message_free(message);
  verdict = text.rc ? QP__FRAME_OVER_BUDGET
                    : qp__frame_check(qp__buf_bytes(&text), s->answer.stop,
                                      qp__answer_call_count(&s->answer), s->plan.before,
                                      s->plan.summary_budget * 3 / 4);
  good = verdict == QP__FRAME_ACCEPTED;
  if (good && s->merged) { /* the parts that were merged become one */
    qp__buf_release(&s->parts[0]);
    s->parts[0] = text;
    for (size_t i = 1; i < s->merged; i++)
      qp__buf_release(&s->parts[i]);
    for (size_t i = s->merged; i < s->answered; i++) {
      s->parts[i - s->merged + 1] = s->parts[i];
      qp__buf_init(&s->parts[i], NARRATIVE_MAX);
    }
    s->answered -= s->merged - 1;
  } else if (good) {
    s->parts[s->answered++] = text;
  } else {
    *why = qp__frame_verdict_text(verdict);
    qp__buf_release(&text);
  }
  return good;
}

static void
on_done(void *arg, const struct qp__llm_fault *fault)
{
  struct qp__shortening *s = arg;
  struct qp__actor *t = s->actor;
  const char *why = fault ? fault->message : "";

  s->call = NULL;
  if (fault || !take_answer(s, &why)) {
    ask_failed(s, why);
  } else {
    end_answer(s);
    s->attempt = 0;
    s->merged = 0;
    ask_next(s);
  }
  qp__actor_pump(t);
}

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__shortening *s = arg;

  return qp__answer_feed(&s->answer, event, err);
}

/* The body of the next request. A retry needs it again, so it is copied. */
static enum qp_rc
next_body(struct qp__shortening *s, struct qp__buf *body, struct qp_err *err)
{
  struct qp_bytes *parts;
  struct qp__buf text;
  enum qp_rc rc;

  if (s->answered < s->part_count && s->bodies[s->answered].len) {
    (void)qp__buf_add(body, s->bodies[s->answered].data, s->bodies[s->answered].len);
    return qp__buf_check(body, what, err);
  }
  parts = qp__arena_alloc(&s->conversation.arena, s->answered * sizeof(*parts));
  if (!parts)
    return qp__fail_nomem(err, what);
  for (size_t i = 0; i < s->answered; i++)
    parts[i] = qp__buf_bytes(&s->parts[i]);
  qp__buf_init(&text, QP__LLM_BODY_MAX);
  rc = qp__frame_merge(parts, s->answered, s->room, s->budget, &text, &s->merged, err);
  if (!rc)
    rc = encode(s, qp__buf_bytes(&text), body, err);
  qp__buf_release(&text);
  return rc;
}

/* Asks for the next part, or to merge the parts. */
static void
ask_next(struct qp__shortening *s)
{
  struct qp__llm_call_fns fns = { on_event, on_done, s };
  struct qp__llm_request request = { .model = s->model_name };
  struct qp_err err = { QP_OK, "" };
  struct qp__buf body;
  enum qp_rc rc;

  if (s->merged == 0 && s->answered == s->part_count) { /* every part has its answer */
    for (size_t i = 0; i < s->part_count; i++)
      qp__buf_release(&s->bodies[i]);
  }
  if (s->answered == 1 && !s->bodies[s->part_count - 1].len) {
    (void)qp__buf_add(&s->narrative, s->parts[0].data, s->parts[0].len);
    close_summary(s);
    return;
  }
  qp__buf_init(&body, QP__LLM_BODY_MAX);
  rc = next_body(s, &body, &err);
  if (!rc) {
    qp__answer_init(&s->answer, s->provider->name);
    s->asking = true;
    request.body = &body;
    rc = qp__llm_call_start(s->actor->engine->llm, s->provider, &request, &fns, &s->call, &err);
  }
  qp__buf_release(&body);
  if (!rc)
    return;
  s->attempt = ATTEMPTS; /* it would fail again */
  ask_failed(s, err.msg);
}

void
qp__shorten_go_on(struct qp__shortening *s)
{
  if (s->has_record && needs_summary(s) && s->provider) {
    s->phase = QP__SHORTEN_ASKING;
    ask_next(s);
  } else if (needs_summary(s)) {
    close_summary(s);
  } else {
    finish(s);
  }
}

static void
on_worked(uv_work_t *w, int status)
{
  struct qp__shortening *s = (struct qp__shortening *)w;
  struct qp__actor *t = s->actor;

  t->jobs--;
  s->work.data = NULL;
  if (status)
    s->err.rc = qp__fail(&s->err, QP_STOPPED, "reading the history was stopped");
  if (s->dropped || t->stage != QP__ACTOR_OPEN) {
    s->dropped = true;
    if (t->shortening == s)
      t->shortening = NULL;
    if (!s->request)
      qp__shorten_drop(s);
    else
      qp__actor_shortened(t, s);
  } else if (s->phase == QP__SHORTEN_CLOSING || s->err.rc || !s->has_record) {
    finish(s);
  } else if (s->request) {
    s->phase = QP__SHORTEN_PLANNED;
    qp__actor_shortened(t, s);
  } else {
    qp__shorten_go_on(s);
  }
  qp__actor_pump(t);
}

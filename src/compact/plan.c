/* plan.c - see plan.h. */
#include "compact/plan.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"

#define LOOK_BACK 4096 /* messages; a result whose call is farther away has no call */
#define BUDGET_SHARE 8 /* of the window, for a summary */
#define BUDGET_MIN 200 /* tokens; a smaller summary says nothing */
#define BUDGET_OF 3    /* a summary has at most a third of what it covers */
#define GAIN_PERCENT 5 /* of the window, that an automatic compaction must free */

const struct qp__plan_policy qp__plan_default = {
  .mode = QP__PLAN_AUTO,
  .threshold = 80,
  .prepare = 70,
  .target = 60,
  .keep = 6,
  .keep_tokens = 20000,
  .protect_turns = 2,
  .protect_tokens = 40000,
  .batch_tokens = 20000,
};

/* ---- items ---- */

static enum qp__plan_kind
kind_of(const struct qp_message *m)
{
  if (m->has_result)
    return QP__ITEM_RESULT;
  switch (m->role) {
  case QP_ROLE_ASSISTANT:
    return m->call_count ? QP__ITEM_CALL : QP__ITEM_ASSISTANT;
  case QP_ROLE_SYSTEM:
    return QP__ITEM_NOTE;
  case QP_ROLE_USER:
  case QP_ROLE_TOOL:
    break;
  }
  return QP__ITEM_USER;
}

/* The nearest message before `i` that makes the call which message i answers. */
static size_t
find_caller(const struct qp_message *const *messages, size_t i)
{
  const char *id = messages[i]->result.request_id;

  for (size_t back = 1; id && back <= i && back <= LOOK_BACK; back++) {
    const struct qp_message *m = messages[i - back];

    for (size_t k = 0; k < m->call_count; k++)
      if (strcmp(m->calls[k].view.id, id) == 0)
        return i - back;
  }
  return QP__PLAN_NONE_AT;
}

static int64_t
smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

void
qp__plan_measure(const struct qp_message *message, struct qp__plan_size *out)
{
  const json_t *recall = json_object_get(message->metadata, "recall");
  const json_t *text = json_object_get(recall, "text");

  memset(out, 0, sizeof(*out));
  qp__count_add(&out->count, message);
  if (message->role == QP_ROLE_USER && json_string_length(text))
    out->recall =
        QP__PLAN_FRAME_TOKENS +
        qp__count_text((struct qp_bytes){ json_string_value(text), json_string_length(text) });
}

enum qp_rc
qp__plan_items(const struct qp_message *const *messages, const struct qp__plan_size *sizes,
               size_t count, qp__plan_ask *pinned, qp__plan_ask *stubbed, void *arg,
               struct qp__arena *arena, struct qp__plan_item **out, struct qp_err *err)
{
  struct qp__plan_item *items = qp__arena_alloc(arena, (count + 1) * sizeof(*items));

  if (!items)
    return qp__fail_nomem(err, "planning a compaction");
  for (size_t i = 0; i < count; i++) {
    struct qp__plan_item *item = &items[i];
    struct qp__plan_size size;
    int64_t rest;

    if (sizes)
      size = sizes[i];
    else
      qp__plan_measure(messages[i], &size);
    item->id = messages[i]->id;
    item->kind = kind_of(messages[i]);
    item->pinned = pinned && pinned(arg, i);
    item->caller = item->kind == QP__ITEM_RESULT ? find_caller(messages, i) : QP__PLAN_NONE_AT;
    item->tokens = qp__count_sum(&size.count);
    rest = item->tokens - size.count.results - size.count.images;
    item->stub_tokens = smaller(item->tokens, rest + QP__PLAN_STUB_TOKENS) + size.recall;
    item->tokens += size.recall;
    if (stubbed && stubbed(arg, i))
      item->tokens = item->stub_tokens;
  }
  *out = items;
  return QP_OK;
}

/* ---- sizes ---- */

/* What the functions below share. Sizes are scaled to what the provider counts. */
struct planner {
  const struct qp__plan_input *in;
  const struct qp__plan_policy *policy;
  bool *boundary;    /* count + 1: whether a cut before item i parts no call from its results */
  int64_t numerator; /* of the scale */
  int64_t denominator;
  int64_t fixed;    /* reserve, system, tools, pins of earlier compactions */
  size_t last_user; /* or QP__PLAN_NONE_AT */
  bool stubs;       /* step c: sizes behind the cut are those of stubs */
};

static int64_t
scaled(const struct planner *p, int64_t tokens)
{
  return (tokens * p->numerator + p->denominator - 1) / p->denominator;
}

static int64_t
size_of(const struct planner *p, size_t i)
{
  const struct qp__plan_item *item = &p->in->items[i];
  bool stub = p->stubs && !item->pinned && i != p->last_user;

  return scaled(p, stub ? item->stub_tokens : item->tokens);
}

static int64_t
share(const struct planner *p, int percent)
{
  return p->in->window * percent / 100;
}

/* The sizes are estimates, except for their sum when the provider has reported it: all of them are
 * corrected by the same factor, the reserve excepted. */
static int64_t
measure(struct planner *p)
{
  const struct qp__plan_input *in = p->in;
  int64_t sum = in->system + in->tools + in->pins + in->summary;

  for (size_t i = 0; i < in->count; i++)
    sum += in->items[i].tokens;
  p->numerator = p->denominator = 1;
  if (in->used > in->reserve && sum > 0) {
    p->numerator = in->used - in->reserve;
    p->denominator = sum;
  }
  p->fixed = in->reserve + scaled(p, in->system + in->tools + in->pins);
  return in->reserve + scaled(p, sum);
}

static enum qp_rc
find_boundaries(struct planner *p, struct qp__arena *arena, struct qp_err *err)
{
  const struct qp__plan_input *in = p->in;
  size_t first_caller = in->count;

  p->boundary = qp__arena_alloc(arena, in->count + 1);
  if (!p->boundary)
    return qp__fail_nomem(err, "planning a compaction");
  p->boundary[in->count] = true;
  p->last_user = QP__PLAN_NONE_AT;
  for (size_t i = in->count; i-- > 0;) {
    const struct qp__plan_item *item = &in->items[i];

    if (item->kind == QP__ITEM_USER && p->last_user == QP__PLAN_NONE_AT)
      p->last_user = i;
    if (item->kind == QP__ITEM_RESULT && item->caller < first_caller)
      first_caller = item->caller;
    p->boundary[i] = first_caller >= i;
  }
  return QP_OK;
}

/* Whether item i begins a turn: the user speaks, and did not speak just before. */
static bool
is_turn(const struct planner *p, size_t i)
{
  const struct qp__plan_item *items = p->in->items;

  return i < p->in->count && items[i].kind == QP__ITEM_USER && p->boundary[i] &&
         (i == 0 || items[i - 1].kind != QP__ITEM_USER);
}

/* ---- step a: stubs for old tool outputs ---- */

/* The number of items, from the oldest on, whose tool output may become a stub. */
static size_t
unprotected(const struct planner *p)
{
  int64_t newest = 0;
  int64_t protect = smaller(p->policy->protect_tokens, p->in->window / 5);
  size_t turns = 0, i = p->in->count;

  while (i > 0 && turns < p->policy->protect_turns) {
    i--;
    newest += size_of(p, i);
    turns += is_turn(p, i);
  }
  while (i > 0 && newest < protect)
    newest += size_of(p, --i);
  return i;
}

static bool
is_stubbable(const struct qp__plan_item *item)
{
  return !item->pinned && item->stub_tokens < item->tokens;
}

static enum qp_rc
add_edits(const struct planner *p, size_t from, size_t to, bool results_only,
          struct qp__arena *arena, struct qp__plan *plan, struct qp_err *err)
{
  plan->edits = qp__arena_alloc(arena, (to - from + 1) * sizeof(*plan->edits));
  if (!plan->edits)
    return qp__fail_nomem(err, "planning a compaction");
  plan->edit_count = 0;
  for (size_t i = from; i < to; i++) {
    const struct qp__plan_item *item = &p->in->items[i];

    if (is_stubbable(item) && i != p->last_user && (item->kind == QP__ITEM_RESULT || !results_only))
      plan->edits[plan->edit_count++] = (struct qp__plan_edit){ .item = i };
  }
  return QP_OK;
}

/* Whether step a suffices; then *plan is complete. */
static enum qp_rc
plan_stubs(const struct planner *p, struct qp__arena *arena, struct qp__plan *plan, bool *done,
           struct qp_err *err)
{
  size_t end = unprotected(p);
  int64_t gain = 0;

  *done = false;
  for (size_t i = 0; i < end; i++)
    if (p->in->items[i].kind == QP__ITEM_RESULT && is_stubbable(&p->in->items[i]))
      gain += scaled(p, p->in->items[i].tokens) - scaled(p, p->in->items[i].stub_tokens);
  if (gain < smaller(p->policy->batch_tokens, p->in->window / 10) || gain <= 0 ||
      plan->before - gain > share(p, p->policy->target))
    return QP_OK;
  plan->action = QP__PLAN_STUB;
  plan->after = plan->before - gain;
  *done = true;
  return add_edits(p, 0, end, true, arena, plan, err);
}

/* ---- steps b and c: the cut ---- */

static int64_t
size_from(const struct planner *p, size_t from)
{
  int64_t sum = 0;

  for (size_t i = from; i < p->in->count; i++)
    sum += size_of(p, i);
  return sum;
}

/* The user's message that must be sent although the cut at `cut` covers it. */
static size_t
carried(const struct planner *p, size_t cut)
{
  return p->last_user != QP__PLAN_NONE_AT && p->last_user < cut ? p->last_user : QP__PLAN_NONE_AT;
}

/* Tokens that may be kept behind the cut. What is fixed may leave less room than the setting. */
static int64_t
kept_bound(const struct planner *p)
{
  int64_t bound = smaller(p->policy->keep_tokens, p->in->window / 4);

  return smaller(bound,
                 share(p, p->policy->target) - p->fixed - QP__PLAN_FRAME_TOKENS - BUDGET_MIN);
}

/* Chooses the cut so that at most `bound` tokens are kept: at the turn that keeps the wanted number
 * of messages, else at the earliest later turn that fits, else inside the last turn. */
static size_t
choose_cut(const struct planner *p, int64_t bound)
{
  const struct qp__plan_input *in = p->in;
  size_t limit = in->up_to && in->up_to < in->count ? in->up_to : in->count;
  size_t best = QP__PLAN_NONE_AT;
  int64_t kept = 0;

  for (size_t i = in->count; i-- > 0;) {
    kept += size_of(p, i);
    if (kept > bound && !(in->up_to && best == QP__PLAN_NONE_AT))
      break;
    if (!is_turn(p, i) || i > limit)
      continue;
    best = i;
    if (in->up_to || in->count - i >= p->policy->keep)
      break;
  }
  if (best != QP__PLAN_NONE_AT || in->up_to)
    return best == QP__PLAN_NONE_AT ? 0 : best;

  /* The last turn alone is too large: keep its newest units, and carry its question. */
  kept = p->last_user == QP__PLAN_NONE_AT ? 0 : size_of(p, p->last_user);
  best = in->count;
  for (size_t i = in->count; i-- > 0 && (p->last_user == QP__PLAN_NONE_AT || i > p->last_user);) {
    kept += size_of(p, i);
    if (kept > bound)
      break;
    if (p->boundary[i])
      best = i;
  }
  return p->last_user == QP__PLAN_NONE_AT || best > p->last_user ? best : p->last_user;
}

/* Sizes of what a cut leaves: everything that stays, without the summary; and what it covers. */
static void
weigh_cut(const struct planner *p, size_t cut, int64_t *stays, int64_t *covered)
{
  size_t carry = carried(p, cut);

  *stays = p->fixed + QP__PLAN_FRAME_TOKENS + size_from(p, cut);
  *covered = scaled(p, p->in->summary);
  for (size_t i = 0; i < cut; i++) {
    int64_t size = scaled(p, p->in->items[i].tokens);

    if (p->in->items[i].pinned || i == carry)
      *stays += size + QP__PLAN_QUOTE_TOKENS;
    else
      *covered += size;
  }
}

/* Tokens for the summary, 0 when there is no room for one. */
static int64_t
summary_budget(const struct planner *p, int64_t stays, int64_t covered)
{
  int64_t room = share(p, p->policy->target) - stays;
  int64_t budget = smaller(p->in->window / BUDGET_SHARE, covered / BUDGET_OF);

  if (room < BUDGET_MIN)
    room = share(p, 90) - stays; /* the target is out of reach: fit at all */
  budget = smaller(budget, room);
  return budget < 0 ? 0 : budget;
}

/* Whether anything was said that a summary can tell: the first question is not summarised before
 * it was answered. */
static bool
has_answer(const struct planner *p, size_t cut)
{
  if (p->in->summary > 0)
    return cut > 0;
  for (size_t i = 0; i < cut; i++)
    if (p->in->items[i].kind != QP__ITEM_USER && p->in->items[i].kind != QP__ITEM_NOTE)
      return true;
  return false;
}

/* Fills the plan for one choice of sizes. False: it frees too little. */
static bool
try_cut(const struct planner *p, struct qp__plan *plan)
{
  const struct qp__plan_input *in = p->in;
  int64_t stays, covered, budget, gain;
  size_t cut = choose_cut(p, kept_bound(p));

  weigh_cut(p, cut, &stays, &covered);
  budget = summary_budget(p, stays, covered);
  gain = plan->before - stays - budget;
  if (!cut || !budget || !has_answer(p, cut) || gain <= 0 ||
      (in->reason == QP__REASON_CHECK && plan->before <= in->window &&
       gain < share(p, GAIN_PERCENT)))
    return false;
  plan->action = QP__PLAN_SUMMARISE;
  plan->cut = cut;
  plan->carry = carried(p, cut);
  plan->summary_budget = budget;
  plan->after = stays + budget;
  return true;
}

/* Gives the room that the stubs behind the cut leave back to the newest outputs. */
static enum qp_rc
trim(const struct planner *p, struct qp__arena *arena, struct qp__plan *plan, struct qp_err *err)
{
  int64_t room = kept_bound(p) - size_from(p, plan->cut);
  enum qp_rc rc = add_edits(p, plan->cut, p->in->count, false, arena, plan, err);

  room = smaller(room, share(p, p->policy->target) - plan->after);
  for (size_t i = plan->edit_count; !rc && i-- > 0 && room > QP__PLAN_STUB_TOKENS;) {
    struct qp__plan_edit *edit = &plan->edits[i];
    const struct qp__plan_item *item = &p->in->items[edit->item];
    int64_t keep = smaller(room - scaled(p, 1), scaled(p, item->tokens - item->stub_tokens));

    if (item->kind != QP__ITEM_RESULT)
      continue;
    edit->keep = keep * p->denominator / p->numerator;
    room -= scaled(p, edit->keep);
    plan->after += scaled(p, edit->keep);
  }
  return rc;
}

/* Stubs alone, when nothing can be covered. */
static bool
try_trim(const struct planner *p, struct qp__plan *plan)
{
  plan->after = p->fixed + scaled(p, p->in->summary) + size_from(p, 0);
  if (plan->before - plan->after < share(p, GAIN_PERCENT))
    return false;
  plan->action = QP__PLAN_TRIM;
  return true;
}

/* Prefers to keep something behind the cut, and whole outputs to stubs. */
static enum qp_rc
plan_summary(struct planner *p, struct qp__arena *arena, struct qp__plan *plan, struct qp_err *err)
{
  int64_t target = share(p, p->policy->target);
  struct qp__plan whole = *plan, stubs = *plan, alone = *plan;
  bool found_whole = try_cut(p, &whole), found_stubs, found_alone;

  if (found_whole && whole.after <= target && whole.cut < p->in->count) {
    *plan = whole;
    return QP_OK;
  }
  p->stubs = true;
  found_stubs = try_cut(p, &stubs);
  found_alone = try_trim(p, &alone);
  if (found_stubs && stubs.after <= target && stubs.cut < p->in->count)
    *plan = stubs;
  else if (found_alone && alone.after <= target)
    *plan = alone;
  else if (found_whole && (!found_stubs || whole.after <= stubs.after)) {
    *plan = whole;
    return QP_OK;
  } else if (found_stubs)
    *plan = stubs;
  else if (found_alone)
    *plan = alone;
  else
    return QP_OK;
  return trim(p, arena, plan, err);
}

/* ---- the decision ---- */

static enum qp__plan_why
wanted(const struct planner *p, const struct qp__plan *plan)
{
  const struct qp__plan_input *in = p->in;
  bool same = in->count && !qp_uuid_is_none(&in->last_head) &&
              qp_uuid_equal(&in->last_head, &in->items[in->count - 1].id);

  if (p->policy->mode == QP__PLAN_OFF)
    return QP__WHY_OFF;
  if (in->reason == QP__REASON_CHECK && p->policy->mode == QP__PLAN_MANUAL)
    return QP__WHY_MANUAL;
  if (in->reason == QP__REASON_CHECK && plan->before < share(p, p->policy->threshold))
    return QP__WHY_BELOW;
  if (same || !in->count)
    return QP__WHY_NOTHING_NEW;
  return in->reason == QP__REASON_REQUEST    ? QP__WHY_REQUEST
         : in->reason == QP__REASON_OVERFLOW ? QP__WHY_OVERFLOW
                                             : QP__WHY_THRESHOLD;
}

enum qp_rc
qp__plan_make(const struct qp__plan_input *in, struct qp__arena *arena, struct qp__plan *out,
              struct qp_err *err)
{
  struct planner p = { .in = in, .policy = in->policy ? in->policy : &qp__plan_default };
  struct qp__plan plan = { .action = QP__PLAN_NONE, .carry = QP__PLAN_NONE_AT };
  bool done = false, goes, over;
  enum qp_rc rc;

  assert(in->window > 0 && in->reserve >= 0);
  plan.before = plan.after = measure(&p);
  rc = find_boundaries(&p, arena, err);
  if (rc)
    return rc;
  over = plan.before > in->window || in->reason == QP__REASON_OVERFLOW;
  plan.prepare = p.policy->mode == QP__PLAN_AUTO && plan.before >= share(&p, p.policy->prepare);
  plan.without_model = in->failures >= QP__PLAN_FAILURES;
  plan.why = wanted(&p, &plan);
  goes =
      plan.why == QP__WHY_THRESHOLD || plan.why == QP__WHY_REQUEST || plan.why == QP__WHY_OVERFLOW;
  if (goes && in->reason != QP__REASON_REQUEST)
    rc = plan_stubs(&p, arena, &plan, &done, err);
  if (!rc && goes && !done)
    rc = plan_summary(&p, arena, &plan, err);
  if (rc)
    return rc;
  if (goes && plan.action == QP__PLAN_NONE) {
    plan.why = over ? QP__WHY_FIXED : QP__WHY_NO_GAIN;
    plan.after = plan.before;
  }
  /* A compaction must leave a little more room than nothing, because sizes are estimates. */
  if (plan.action == QP__PLAN_NONE ? over && plan.why != QP__WHY_BELOW
                                   : plan.after > in->window - in->window / 50) {
    plan.why = plan.action == QP__PLAN_NONE ? plan.why : QP__WHY_FIXED;
    plan.action = QP__PLAN_TOO_LONG;
    plan.edit_count = 0;
  }
  *out = plan;
  return QP_OK;
}

/* ---- words ---- */

const char *
qp__plan_why_name(enum qp__plan_why why)
{
  static const char *const names[] = { "below_threshold", "off",      "manual",
                                       "nothing_new",     "no_gain",  "threshold",
                                       "request",         "overflow", "fixed_part_too_long" };

  assert((size_t)why < sizeof(names) / sizeof(names[0]));
  return names[why];
}

static const char *
remedy(enum qp__plan_why why, bool one_message)
{
  switch (why) {
  case QP__WHY_OFF:
    return "compaction is off";
  case QP__WHY_MANUAL:
    return "compaction is manual: compact it, or set it to auto";
  case QP__WHY_NOTHING_NEW:
    return "it was compacted and is still too long";
  default:
    return one_message ? "most of it is one message: send it in parts, or choose a model with a "
                         "larger window"
                       : "the parts that are never shortened do not fit: send less at once, or "
                         "choose a model with a larger window";
  }
}

enum qp_rc
qp__plan_too_long(const struct qp__plan_input *in, const struct qp__plan *plan, struct qp_err *err)
{
  int64_t messages = 0;
  int64_t largest = 0;

  for (size_t i = 0; i < in->count; i++) {
    messages += in->items[i].tokens;
    if (in->items[i].tokens > largest)
      largest = in->items[i].tokens;
  }
  return qp__fail(err, QP_TOOBIG,
                  "too long for the model: %lld tokens and %lld kept free for the answer, and the "
                  "window has %lld (system prompt %lld, tools %lld, pinned %lld, summary %lld, "
                  "messages %lld); %s",
                  (long long)(plan->before - in->reserve), (long long)in->reserve,
                  (long long)in->window, (long long)in->system, (long long)in->tools,
                  (long long)in->pins, (long long)in->summary, (long long)messages,
                  remedy(plan->why, largest > (in->system + in->tools + messages) / 2));
}

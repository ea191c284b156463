/* test_compact_property.c - thousands of random conversations, compacted whenever the plan says so.
 * Before every call of the model: the request fits into the window, no tool pair is split, pinned
 * messages and the last message of the user are in it to the byte, what was sent before is a prefix
 * of it unless a compaction happened, and undoing the last compaction restores the request that
 * there was before it. QUIPU_TEST_LONG: twenty times as many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compact/assemble.h"
#include "compact/extract.h"
#include "compact/plan.h"

#define MESSAGES_MAX 600
#define RECORDS_MAX 200

struct talk {
  uint64_t seed;
  struct qp_message *messages[MESSAGES_MAX];
  bool pinned[MESSAGES_MAX];
  int64_t tokens[MESSAGES_MAX]; /* 0: not counted yet */
  size_t count;
  struct qp__arena arena;
  struct qp__record records[RECORDS_MAX];
  char *texts[2 * RECORDS_MAX];
  size_t record_count;
  struct qp__plan_policy policy;
  int64_t window, system, tools, reserve;
  unsigned compactions, too_long;
  struct qp_uuid last_head;
};

static uint64_t
dice(struct talk *t, uint64_t sides)
{
  t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
  return (t->seed >> 33) % sides;
}

/* ---- the conversation ---- */

static struct qp_message *
add(struct talk *t, enum qp_role role)
{
  struct qp_message *m = NULL;

  assert_int_equal(qp_message_new(role, &m, NULL), QP_OK);
  m->id.b[0] = 1;
  m->id.b[14] = (uint8_t)((t->count + 1) >> 8);
  m->id.b[15] = (uint8_t)(t->count + 1);
  t->pinned[t->count] = dice(t, 40) == 0;
  t->messages[t->count++] = m;
  return m;
}

static void
add_text(struct talk *t, struct qp_message *m, uint64_t words)
{
  static const char *const list[] = { "the",
                                      "budget",
                                      "is",
                                      "$120",
                                      "HAT069",
                                      "do",
                                      "not",
                                      "src/a.c",
                                      "maybe",
                                      "2024-05-20",
                                      "\xe4\xb8\xad\xe6\x96\x87",
                                      "Please",
                                      "run",
                                      ".\n",
                                      "\xf0\x9f\x98\x80",
                                      "instead" };
  struct qp__buf text;
  struct qp_part part = { .kind = QP_PART_TEXT };

  qp__buf_init(&text, 1 << 20);
  for (uint64_t i = 0; i < words + 1; i++)
    (void)qp__buf_addf(&text, "%s ", list[dice(t, 16)]);
  part.text = qp__buf_bytes(&text);
  assert_int_equal(qp_message_add_part(m, &part, NULL), QP_OK);
  qp__buf_release(&text);
}

static void
add_result(struct talk *t, const char *id, uint64_t words)
{
  struct qp_message *m = add(t, QP_ROLE_TOOL);
  struct qp_tool_result result = { .request_id = id };
  struct qp__buf text;

  qp__buf_init(&text, 1 << 20);
  (void)qp__buf_add_char(&text, '"');
  for (uint64_t i = 0; i < words; i++)
    (void)qp__buf_addf(&text, "line %d of x_%d.c ", (int)i, (int)dice(t, 900));
  (void)qp__buf_add_char(&text, '"');
  result.result_json = text.data;
  result.is_error = dice(t, 8) == 0;
  assert_int_equal(qp_message_set_tool_result(m, &result, NULL), QP_OK);
  qp__buf_release(&text);
}

static void
add_calls(struct talk *t, uint64_t size)
{
  struct qp_message *m = add(t, QP_ROLE_ASSISTANT);
  uint64_t calls = dice(t, 3) + 1;
  char ids[3][32];

  for (uint64_t i = 0; i < calls; i++) {
    struct qp_tool_call call = { .id = ids[i],
                                 .tool_name = "run_command",
                                 .arguments_json = "{\"command\":\"make test\"}",
                                 .approval = QP_APPROVAL_APPROVED };

    (void)snprintf(ids[i], sizeof(ids[i]), "c%zu_%d", t->count % 7, (int)i); /* used again later */
    assert_int_equal(qp_message_add_tool_call(m, &call, NULL), QP_OK);
  }
  for (uint64_t i = calls; i-- > 0;) {
    if (dice(t, 20) == 0)
      add_text(t, add(t, QP_ROLE_USER), dice(t, 5));
    if (dice(t, 15))
      add_result(t, ids[i], dice(t, size) + 1);
  }
}

/* One turn of the user and what follows, up to before the next call of the model. */
static void
step(struct talk *t)
{
  struct qp_message *m;

  switch (dice(t, 6)) {
  case 0:
  case 1:
    m = add(t, QP_ROLE_USER);
    add_text(t, m, dice(t, 60));
    if (dice(t, 12) == 0) {
      struct qp_part image = { .kind = QP_PART_IMAGE, .url = "blob:1" };

      assert_int_equal(qp_message_add_part(m, &image, NULL), QP_OK);
    }
    if (dice(t, 6) == 0)
      assert_int_equal(qp_message_set_metadata(m, "{\"recall\":{\"text\":\"#1 something\"}}", NULL),
                       QP_OK);
    break;
  case 2:
    add_text(t, add(t, QP_ROLE_ASSISTANT), dice(t, 100));
    break;
  default:
    add_calls(t, dice(t, 10) == 0 ? 400 : 30);
    break;
  }
}

/* ---- the view ---- */

static bool
is_shown(const struct qp__record *r, const struct qp_uuid *id)
{
  for (size_t i = 0; r && i < r->shown_count; i++)
    if (qp_uuid_equal(&r->shown[i], id))
      return true;
  return false;
}

static void
build_view(const struct talk *t, const struct qp__record *r, struct qp__sent *view)
{
  const struct qp_message *shown[MESSAGES_MAX];
  uint64_t at[MESSAGES_MAX];
  size_t covered = r ? (size_t)r->covered : 0;
  struct qp__sent_input in = { .record = r, .shown = shown, .shown_at = at };

  for (size_t i = 0; i < covered; i++)
    if (t->pinned[i] || is_shown(r, &t->messages[i]->id)) {
      shown[in.shown_count] = t->messages[i];
      at[in.shown_count++] = i + 1;
    }
  in.tail = (const struct qp_message *const *)t->messages + covered;
  in.tail_count = t->count - covered;
  assert_int_equal(qp__sent_init(view, &in, NULL), QP_OK);
}

static char *
encode(const struct talk *t, const struct qp__record *r)
{
  struct qp__sent view;
  struct qp__buf out;

  build_view(t, r, &view);
  qp__buf_init(&out, 1 << 26);
  for (size_t i = 0; i < view.count; i++) {
    assert_int_equal(qp__message_encode(view.messages[i], &out, NULL), QP_OK);
    (void)qp__buf_add_char(&out, '\n');
  }
  qp__sent_release(&view);
  return qp__buf_take(&out, NULL);
}

/* Tokens of a message of a view; those of stored messages are counted once. */
static int64_t
tokens_of(struct talk *t, const struct qp_message *m)
{
  size_t i = (size_t)m->id.b[14] << 8 | m->id.b[15];

  if (i == 0 || i > t->count || t->messages[i - 1] != m)
    return qp__count_message(m);
  if (!t->tokens[i - 1])
    t->tokens[i - 1] = qp__count_message(m);
  return t->tokens[i - 1];
}

static bool
has_message(const struct qp__sent *view, const struct qp_message *m)
{
  for (size_t i = 0; i < view->count; i++)
    if (view->messages[i] == m || qp_uuid_equal(&view->messages[i]->id, &m->id))
      return true;
  return false;
}

static void
check_view(struct talk *t, const struct qp__record *r)
{
  int64_t tokens = t->system + t->tools + t->reserve;
  size_t last_user = MESSAGES_MAX;
  struct qp__sent view;

  build_view(t, r, &view);
  for (size_t i = 0; i < view.count; i++)
    tokens += tokens_of(t, view.messages[i]);
  if (tokens > t->window)
    fail_msg("%lld of %lld tokens", (long long)tokens, (long long)t->window);
  for (size_t i = 0; i < t->count; i++) {
    const struct qp_message *m = t->messages[i];

    if (m->role == QP_ROLE_USER)
      last_user = i;
    if (!t->pinned[i])
      continue;
    if (m->has_result || m->call_count) /* a covered one is quoted; its text is in the view */
      continue;
    assert_true(has_message(&view, m));
  }
  if (last_user < MESSAGES_MAX) {
    bool found = false;

    for (size_t i = 0; i < view.count; i++)
      found = found || view.messages[i] == t->messages[last_user];
    assert_true(found);
  }
  /* A result of the view has its call there, and a call of the view all results that it has. */
  for (size_t i = 0, n = r ? (size_t)r->covered : 0; n + i < t->count; i++) {
    const struct qp_message *m = t->messages[n + i];
    size_t caller = MESSAGES_MAX;

    assert_true(has_message(&view, m));
    for (size_t k = n + i; m->has_result && caller == MESSAGES_MAX && k-- > 0;)
      for (size_t c = 0; c < t->messages[k]->call_count; c++)
        if (strcmp(t->messages[k]->calls[c].view.id, m->result.request_id) == 0)
          caller = k;
    if (m->has_result && caller < n)
      fail_msg("a cut at %zu parts the call %zu from its result %zu", n, caller, n + i);
  }
  qp__sent_release(&view);
}

/* ---- compaction ---- */

static bool
holds(void *arg, uint64_t covered, const struct qp_uuid *last, const uint8_t hash[QP__CHAIN])
{
  const struct talk *t = arg;

  (void)hash;
  return covered <= t->count && qp_uuid_equal(&t->messages[covered - 1]->id, last);
}

struct asked {
  const struct talk *talk;
  const struct qp__record *record;
  size_t from;
};

static bool
ask_pinned(void *arg, size_t i)
{
  const struct asked *a = arg;

  return a->talk->pinned[a->from + i];
}

static bool
ask_stubbed(void *arg, size_t i)
{
  const struct asked *a = arg;

  for (size_t k = 0; a->record && k < a->record->stub_count; k++)
    if (qp_uuid_equal(&a->record->stubs[k].id, &a->talk->messages[a->from + i]->id))
      return a->record->stubs[k].keep == 0;
  return false;
}

/* Carries out a plan: the built-in summary, and the record. */
static void
carry_out(struct talk *t, const struct qp__plan *plan, const struct qp__plan_item *items,
          size_t count, const struct qp__record *old)
{
  struct qp__record *r = &t->records[t->record_count];
  struct qp__buf narrative, ledger;

  assert_int_equal(qp__record_from_plan(plan, items, count, old, &t->arena, r, NULL), QP_OK);
  r->id.b[0] = 2;
  r->id.b[15] = (uint8_t)(t->record_count + 1);
  r->recall = dice(t, 2);
  if (plan->cut) {
    qp__buf_init(&narrative, 1 << 24);
    qp__buf_init(&ledger, 1 << 24);
    assert_int_equal(
        qp__extract_summary(&(struct qp__source){ (const struct qp_message *const *)t->messages,
                                                  (size_t)r->covered, 1 },
                            plan->summary_budget, &narrative, &ledger, NULL),
        QP_OK);
    r->narrative = t->texts[2 * t->record_count] = qp__buf_take(&narrative, NULL);
    r->ledger = t->texts[2 * t->record_count + 1] = qp__buf_take(&ledger, NULL);
  }
  t->record_count++;
}

/* What a turn does before it calls the model. Returns the record in use, or false: too long. */
static bool
prepare(struct talk *t, const struct qp__record **in_use)
{
  const struct qp__record *old = qp__record_choose(t->records, t->record_count, holds, t);
  struct asked asked = { t, old, old ? (size_t)old->covered : 0 };
  size_t count = t->count - asked.from;
  struct qp__plan_input in = { .policy = &t->policy,
                               .window = t->window,
                               .reserve = t->reserve,
                               .system = t->system,
                               .tools = t->tools,
                               .count = count,
                               .last_head = t->last_head };
  struct qp__plan_item *items = NULL;
  struct qp__sent view;
  struct qp__plan plan;

  assert_int_equal(qp__plan_items((const struct qp_message *const *)t->messages + asked.from, NULL,
                                  count, ask_pinned, ask_stubbed, &asked, &t->arena, &items, NULL),
                   QP_OK);
  build_view(t, old, &view);
  for (size_t i = 0; i < view.count; i++) {
    const char *kind = json_string_value(json_object_get(view.messages[i]->metadata, "compact"));

    if (kind && strcmp(kind, "summary") == 0)
      in.summary += tokens_of(t, view.messages[i]);
    else if (old && i <= view.count - count && (!kind || strcmp(kind, "shown") == 0) &&
             view.messages[i]->id.b[15] + 256 * view.messages[i]->id.b[14] <= (int)old->covered)
      in.pins += tokens_of(t, view.messages[i]);
  }
  qp__sent_release(&view);
  in.items = items;
  assert_int_equal(qp__plan_make(&in, &t->arena, &plan, NULL), QP_OK);
  *in_use = old;
  if (plan.action == QP__PLAN_TOO_LONG) {
    t->too_long++;
    return false;
  }
  if (plan.action == QP__PLAN_NONE)
    return true;
  char *before = encode(t, old), *again;

  carry_out(t, &plan, items, count, old);
  t->compactions++;
  t->last_head = t->messages[t->count - 1]->id;
  *in_use = qp__record_choose(t->records, t->record_count, holds, t);
  assert_ptr_equal(*in_use, &t->records[t->record_count - 1]);
  /* Undone, the request is what it was. */
  t->records[t->record_count] =
      (struct qp__record){ .kind = QP__RECORD_UNDO, .target = (*in_use)->id };
  again = encode(t, qp__record_choose(t->records, t->record_count + 1, holds, t));
  assert_string_equal(before, again);
  qp_free(before);
  qp_free(again);
  return true;
}

static void
run(uint64_t seed, unsigned *compactions, unsigned *too_long)
{
  struct talk *t = calloc(1, sizeof(*t));
  const struct qp__record *record, *last_record = NULL;
  char *sent = NULL;

  assert_non_null(t);
  t->seed = seed * 7919 + 1;
  t->policy = qp__plan_default;
  t->policy.keep = dice(t, 12);
  t->policy.threshold = 50 + (int)dice(t, 45);
  t->policy.target = t->policy.threshold - 10 - (int)dice(t, 20);
  t->window = 1200 + (int64_t)dice(t, 3) * 2000 + (int64_t)dice(t, 1000);
  t->reserve = t->window / 8;
  t->system = (int64_t)dice(t, (uint64_t)t->window / 8);
  t->tools = (int64_t)dice(t, (uint64_t)t->window / 10);
  for (int i = 0; i < 24 && t->count + 12 < MESSAGES_MAX && t->record_count + 2 < RECORDS_MAX;
       i++) {
    step(t);
    if (!prepare(t, &record))
      break;
    check_view(t, record);
    if (sent && record == last_record) {
      char *now = encode(t, record);

      assert_memory_equal(sent, now, strlen(sent));
      qp_free(now);
    }
    qp_free(sent);
    sent = encode(t, record);
    last_record = record;
  }
  *compactions += t->compactions;
  *too_long += t->too_long;
  qp_free(sent);
  for (size_t i = 0; i < t->count; i++)
    qp_message_free(t->messages[i]);
  for (size_t i = 0; i < 2 * t->record_count; i++)
    qp_free(t->texts[i]);
  qp__arena_release(&t->arena);
  free(t);
}

static void
every_request_is_whole_and_fits(void **state)
{
  uint64_t talks = getenv("QUIPU_TEST_LONG") ? 20000 : 1000;
  unsigned compactions = 0, too_long = 0;

  (void)state;
  for (uint64_t seed = 1; seed <= talks; seed++)
    run(seed, &compactions, &too_long);
  assert_true(compactions > talks / 2); /* the test must test something */
  assert_true(too_long < talks / 2);
  print_message("%u compactions, %u conversations that cannot fit\n", compactions, too_long);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_request_is_whole_and_fits),
  };

  return cmocka_run_group_tests_name("compact_property", tests, NULL, NULL);
}

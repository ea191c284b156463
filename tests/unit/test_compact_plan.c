/* test_compact_plan.c - compact/plan.h: when a conversation is compacted, and where it is cut.
 *
 * A history is a text with one word per item: u user, a assistant, c calls a tool, r result, n
 * note, i user with an image; then its tokens; "*" behind it: pinned. "u10 c20 r5000* a30". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compact/compact_settings.h"
#include "compact/plan.h"
#include "llm_test.h"

#define ITEMS_MAX 4000

struct rig {
  struct qp__arena arena;
  struct qp__plan_item items[ITEMS_MAX];
  struct qp__plan_policy policy;
  struct qp__plan_input in;
  struct qp__plan plan;
};

static void
rig_init(struct rig *r, int64_t window)
{
  qp__arena_release(&r->arena);
  memset(r, 0, sizeof(*r));
  r->policy = qp__plan_default;
  r->in.policy = &r->policy;
  r->in.window = window;
  r->in.items = r->items;
}

/* Appends items. */
static void
say(struct rig *r, const char *text)
{
  size_t caller = QP__PLAN_NONE_AT;

  while (*text) {
    struct qp__plan_item *item = &r->items[r->in.count];
    char kind = *text++;
    char *end;

    memset(item, 0, sizeof(*item));
    item->id.b[0] = 1;
    item->id.b[14] = (uint8_t)(r->in.count >> 8);
    item->id.b[15] = (uint8_t)r->in.count;
    item->tokens = item->stub_tokens = strtoll(text, &end, 10);
    item->caller = QP__PLAN_NONE_AT;
    text = end;
    item->kind = kind == 'a'   ? QP__ITEM_ASSISTANT
                 : kind == 'c' ? QP__ITEM_CALL
                 : kind == 'r' ? QP__ITEM_RESULT
                 : kind == 'n' ? QP__ITEM_NOTE
                               : QP__ITEM_USER;
    if (kind == 'c')
      caller = r->in.count;
    if (kind == 'r')
      item->caller = caller;
    if ((kind == 'r' || kind == 'i') && item->tokens > QP__PLAN_STUB_TOKENS)
      item->stub_tokens = QP__PLAN_STUB_TOKENS;
    if (*text == '*') {
      item->pinned = true;
      text++;
    }
    text += strspn(text, " ");
    r->in.count++;
  }
}

static const struct qp__plan *
decide(struct rig *r)
{
  struct qp_err err = { QP_OK, "" };

  assert_int_equal(qp__plan_make(&r->in, &r->arena, &r->plan, &err), QP_OK);
  return &r->plan;
}

static void
rig_release(struct rig *r)
{
  qp__arena_release(&r->arena);
}

static void
expect(const struct qp__plan *plan, enum qp__plan_action action, enum qp__plan_why why, size_t cut)
{
  if (plan->action != action || plan->why != why || plan->cut != cut)
    fail_msg("action %d, %s, cut %zu", plan->action, qp__plan_why_name(plan->why), plan->cut);
}

/* ---- when ---- */

static void
a_short_conversation_is_sent_as_it_is(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000);
  say(r, "u1000 a1000 u1000 a1000 u1000 a1000 u1000 a900");
  expect(decide(r), QP__PLAN_NONE, QP__WHY_BELOW, 0);
  assert_true(r->plan.prepare); /* 79 %: but it is prepared */
  assert_int_equal(r->plan.before, 7900);
}

static void
at_the_threshold_six_messages_are_kept(void **state)
{
  struct rig *r = *state;

  rig_init(r, 100000);
  say(r, "u20000 a20000 u20000 a19000 u100 a100 u100 a100 u100 a100 u400");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 4);
  assert_int_equal(r->plan.carry, QP__PLAN_NONE_AT);
  assert_true(r->plan.after <= 60000);
  assert_in_range(r->plan.summary_budget, 1, 100000 / 8);
  assert_int_equal(r->plan.after, 1000 + QP__PLAN_FRAME_TOKENS + r->plan.summary_budget);
}

static void
system_prompt_tools_and_reserve_count(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000);
  say(r, "u2000 a2000 u100 a100 u100 a100 u100 a100 u100");
  expect(decide(r), QP__PLAN_NONE, QP__WHY_BELOW, 0);
  r->in.system = 1000;
  r->in.tools = 1300;
  r->in.reserve = 1000;
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 2);
  /* What the provider reported wins over the sum of the estimates. */
  r->in.used = 7000;
  expect(decide(r), QP__PLAN_NONE, QP__WHY_BELOW, 0);
  assert_int_equal(r->plan.before, 7000);
  r->in.used = 8000;
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 2);
}

static void
modes_are_honoured(void **state)
{
  struct rig *r = *state;
  struct qp_err err = { QP_OK, "" };

  rig_init(r, 10000);
  r->policy.mode = QP__PLAN_MANUAL;
  say(r, "u4000 a4500 u100 a100 u100 a100 u100 a100 u100");
  expect(decide(r), QP__PLAN_NONE, QP__WHY_MANUAL, 0);
  assert_false(r->plan.prepare);
  r->in.reason = QP__REASON_REQUEST;
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_REQUEST, 2);
  r->policy.mode = QP__PLAN_OFF;
  expect(decide(r), QP__PLAN_NONE, QP__WHY_OFF, 0);
  r->in.reason = QP__REASON_CHECK;
  say(r, "a900 u100");
  expect(decide(r), QP__PLAN_TOO_LONG, QP__WHY_OFF, 0);
  assert_int_equal(qp__plan_too_long(&r->in, &r->plan, &err), QP_TOOBIG);
  assert_string_equal(err.msg,
                      "too long for the model: 10200 tokens and 0 kept free for the answer, and "
                      "the window has 10000 (system prompt 0, tools 0, pinned 0, summary 0, "
                      "messages 10200); compaction is off");
  r->policy.mode = QP__PLAN_MANUAL;
  expect(decide(r), QP__PLAN_TOO_LONG, QP__WHY_MANUAL, 0);
}

static void
the_same_content_is_not_compacted_twice(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000);
  say(r, "u4000 a4500 u100 a100 u100 a100 u100 a100 u100");
  r->in.last_head = r->items[r->in.count - 1].id;
  expect(decide(r), QP__PLAN_NONE, QP__WHY_NOTHING_NEW, 0);
  r->in.reason = QP__REASON_OVERFLOW;
  expect(decide(r), QP__PLAN_TOO_LONG, QP__WHY_NOTHING_NEW, 0);
  r->in.reason = QP__REASON_CHECK;
  say(r, "a100 u100");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 4);
}

static void
three_failures_open_the_breaker(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000);
  say(r, "u4000 a4500 u100 a100 u100 a100 u100 a100 u100");
  r->in.failures = 2;
  assert_false(decide(r)->without_model);
  r->in.failures = 3;
  assert_true(decide(r)->without_model);
  expect(&r->plan, QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 2);
}

static void
an_overflow_that_the_provider_reports_compacts(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000);
  say(r, "u2000 a2000 u100 a100 u100 a100 u100 a100 u100");
  r->in.reason = QP__REASON_OVERFLOW;
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_OVERFLOW, 2);
}

/* ---- where ---- */

static void
the_kept_part_is_bounded_in_tokens(void **state)
{
  struct rig *r = *state;

  rig_init(r, 200000);
  say(r, "u50000 a50000 u20000 a30000 u9000 a9000 u9000 a9000 u500");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 6); /* not 18,500 + 18,000 */
  rig_init(r, 40000);
  say(r, "u10000 a10000 u4000 a4000 u2000 a4000 u500");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 4); /* a quarter of the window */
}

static void
a_call_and_its_results_stay_together(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000);
  /* The cut for 6 messages would be between call and results; the turn begins before. */
  say(r, "u4000 a4000 u50 c100 r100 r100 a50 u50 a50 u50");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 2);
  /* A result that was stored behind the next message of the user forbids that boundary. */
  rig_init(r, 10000);
  say(r, "u4000 a4000 u50 c100 u60 r100 a50 u50 a50 u50 a50");
  r->policy.keep = 7;
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 2);
}

static void
inside_a_long_turn_the_question_is_carried(void **state)
{
  struct rig *r = *state;

  rig_init(r, 40000);
  say(r, "u300 c100 r9000 c100 r9000 c100 r9000 c100 r4000 c100 r900");
  r->policy.protect_turns = 2;
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 7);
  assert_int_equal(r->plan.carry, 0);
  assert_true(r->plan.after <= 24000);
}

static void
pinned_messages_stay_and_are_counted(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000);
  say(r, "u1500* a6500 u100 a100 u100 a100 u100 a100 u100");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 2);
  assert_int_equal(r->plan.after, 1500 + QP__PLAN_QUOTE_TOKENS + 700 + QP__PLAN_FRAME_TOKENS +
                                      r->plan.summary_budget);
  rig_init(r, 10000);
  say(r, "u10500* a100 u100");
  expect(decide(r), QP__PLAN_TOO_LONG, QP__WHY_FIXED, 0);
}

/* ---- step a ---- */

static void
old_tool_outputs_become_stubs_first(void **state)
{
  struct rig *r = *state;

  rig_init(r, 200000);
  say(r, "u100 c100 r90000 a100 u100 c100 r20000 a100 u100 c100 r30000 a100 u100 c100 r25000 a100 "
         "u100");
  expect(decide(r), QP__PLAN_STUB, QP__WHY_THRESHOLD, 0);
  assert_int_equal(r->plan.edit_count, 2); /* not those of the last two turns, nor the newest */
  assert_int_equal(r->plan.edits[0].item, 2);
  assert_int_equal(r->plan.edits[1].item, 6);
  assert_true(r->plan.after <= 120000);
}

static void
small_batches_of_stubs_are_not_made(void **state)
{
  struct rig *r = *state;

  rig_init(r, 200000);
  say(r, "u120000 c100 r19000 a100 u100 c100 r30000 a100 u100 c100 r100 a100 u100");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 8);
}

/* ---- edges ---- */

static void
edges_have_defined_answers(void **state)
{
  struct rig *r = *state;

  rig_init(r, 10000); /* nothing */
  expect(decide(r), QP__PLAN_NONE, QP__WHY_BELOW, 0);
  r->in.reason = QP__REASON_REQUEST;
  expect(decide(r), QP__PLAN_NONE, QP__WHY_NOTHING_NEW, 0);
  r->in.reason = QP__REASON_CHECK;
  r->in.system = 11000; /* the fixed part alone */
  say(r, "u10");
  expect(decide(r), QP__PLAN_TOO_LONG, QP__WHY_FIXED, 0);

  rig_init(r, 10000); /* one message larger than the window */
  say(r, "u12000");
  expect(decide(r), QP__PLAN_TOO_LONG, QP__WHY_FIXED, 0);

  rig_init(r, 10000); /* fewer messages than are kept, but large ones */
  say(r, "u3000 a4500 u1000");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 2);

  rig_init(r, 10000); /* only tool output, in the turn that is going on */
  say(r, "u100 c100 r9000");
  expect(decide(r), QP__PLAN_TRIM, QP__WHY_THRESHOLD, 0);
  assert_int_equal(r->plan.edit_count, 1);
  assert_in_range(r->plan.edits[0].keep, 2000, 2140); /* its beginning and end stay */
  assert_in_range(r->plan.after, 2400, 2500);

  rig_init(r, 10000); /* only images: older ones become stubs */
  say(r, "i3200 a100 i3200 a100 i1600");
  expect(decide(r), QP__PLAN_SUMMARISE, QP__WHY_THRESHOLD, 4);

  rig_init(r, 10000); /* a question that nobody has answered is not summarised */
  say(r, "u5000 u3500");
  expect(decide(r), QP__PLAN_NONE, QP__WHY_NO_GAIN, 0);
}

static void
after_a_compaction_a_fifth_of_the_window_is_free(void **state)
{
  struct rig *r = *state;
  int64_t total = 0, last = 0;
  size_t plans = 0;

  /* 5,000 turns: what a compaction leaves is replayed as a summary and the kept items. */
  rig_init(r, 20000);
  for (int turn = 0; turn < 5000; turn++) {
    say(r, "u60 c40 r300 a100");
    total += 500;
    if (decide(r)->action == QP__PLAN_NONE)
      continue;
    assert_int_equal(r->plan.action, QP__PLAN_SUMMARISE);
    assert_true(r->plan.after <= 12000);
    assert_true(plans == 0 || total - last >= 4000);
    last = total;
    plans++;
    r->in.summary = r->plan.summary_budget;
    r->in.last_head = r->items[r->in.count - 1].id;
    memmove(r->items, r->items + r->plan.cut, (r->in.count - r->plan.cut) * sizeof(r->items[0]));
    r->in.count -= r->plan.cut;
    for (size_t i = 0; i < r->in.count; i++)
      if (r->items[i].kind == QP__ITEM_RESULT)
        r->items[i].caller -= r->plan.cut;
    qp__arena_release(&r->arena);
  }
  assert_true(plans > 100);
}

/* ---- items ---- */

static void
items_are_read_from_messages(void **state)
{
  static const char json[] =
      "[{\"role\":\"user\",\"text\":\"go\"},"
      "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"x\",\"tool_name\":\"ls\"},"
      "{\"id\":\"y\",\"tool_name\":\"ls\"}]},"
      "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"y\",\"result\":\"1\"}},"
      "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"z\",\"result\":\"1\"}},"
      "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"x\",\"result\":\"1\"}},"
      "{\"role\":\"system\",\"text\":\"note\"},{\"role\":\"assistant\",\"text\":\"done\"}]";
  struct rig *r = *state;
  struct qp_err err = { QP_OK, "" };
  struct qp__plan_item *items = NULL;
  size_t n;
  struct qp_message **list = llm_messages(json, &n);

  rig_init(r, 1000);
  assert_int_equal(qp__plan_items((const struct qp_message *const *)list, NULL, n, NULL, NULL, NULL,
                                  &r->arena, &items, &err),
                   QP_OK);
  assert_int_equal(items[0].kind, QP__ITEM_USER);
  assert_int_equal(items[1].kind, QP__ITEM_CALL);
  assert_int_equal(items[2].caller, 1);
  assert_int_equal(items[3].caller, QP__PLAN_NONE_AT);
  assert_int_equal(items[4].caller, 1);
  assert_int_equal(items[5].kind, QP__ITEM_NOTE);
  assert_int_equal(items[6].kind, QP__ITEM_ASSISTANT);
  assert_int_equal(items[6].tokens, qp__count_message(list[6]));
  llm_messages_free(list);
}

static int
set_up(void **state)
{
  *state = calloc(1, sizeof(struct rig));
  return *state ? 0 : -1;
}

static int
tear_down(void **state)
{
  rig_release(*state);
  free(*state);
  return 0;
}

/* ---- settings ---- */

static enum qp_rc
read_settings(const char *text, struct qp__compact_settings *settings, struct qp_err *err)
{
  json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
  enum qp_rc rc;

  assert_non_null(value);
  rc = qp__compact_settings_read(value, settings, err);
  json_decref(value);
  return rc;
}

static void
settings_change_what_they_name(void **state)
{
  struct qp__compact_settings s;
  struct qp_err err = { QP_OK, "" };

  (void)state;
  qp__compact_settings_init(&s);
  assert_int_equal(qp__compact_settings_read(NULL, &s, &err), QP_OK);
  assert_int_equal(read_settings("null", &s, &err), QP_OK);
  assert_int_equal(read_settings("{}", &s, &err), QP_OK);
  assert_int_equal(s.policy.threshold, 80);
  assert_int_equal(s.policy.prepare, 70);
  assert_int_equal(s.policy.target, 60);
  assert_int_equal(s.policy.keep, 6);
  assert_false(s.own_threshold);
  assert_string_equal(s.summarizer, "fast");
  assert_int_equal(s.recall_tokens, 500);
  assert_int_equal(read_settings("{\"mode\":\"off\",\"threshold\":40,\"keep\":2,"
                                 "\"summarizer\":\"openai/small\",\"recall_tokens\":0}",
                                 &s, &err),
                   QP_OK);
  assert_int_equal(s.policy.mode, QP__PLAN_OFF);
  assert_int_equal(s.policy.threshold, 40);
  assert_true(s.policy.prepare < 40 && s.policy.target < 40);
  assert_true(s.own_threshold);
  assert_int_equal(s.policy.keep, 2);
  assert_string_equal(s.summarizer, "openai/small");
  assert_int_equal(s.recall_tokens, 0);
}

/* A refused value changes nothing, and the error names the field. */
static void
bad_settings_are_refused(void **state)
{
  static const struct {
    const char *text, *field;
  } cases[] = {
    { "7", "must be an object" },
    { "{\"mode\":\"always\"}", "compaction.mode" },
    { "{\"mode\":1}", "compaction.mode" },
    { "{\"threshold\":9}", "compaction.threshold" },
    { "{\"threshold\":96}", "compaction.threshold" },
    { "{\"threshold\":\"80\"}", "compaction.threshold" },
    { "{\"keep\":0}", "compaction.keep" },
    { "{\"keep\":3,\"recall_tokens\":-1}", "compaction.recall_tokens" },
    { "{\"keep\":3,\"summarizer\":\"\"}", "compaction.summarizer" },
    { "{\"keep\":3,\"treshold\":50}", "no field \"treshold\"" },
  };

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct qp__compact_settings s;
    struct qp_err err = { QP_OK, "" };

    qp__compact_settings_init(&s);
    assert_int_equal(read_settings(cases[i].text, &s, &err), QP_INVALID);
    if (!strstr(err.msg, cases[i].field))
      fail_msg("%s: %s", cases[i].text, err.msg);
    assert_int_equal(s.policy.keep, 6);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(a_short_conversation_is_sent_as_it_is),
    TEST(at_the_threshold_six_messages_are_kept),
    TEST(system_prompt_tools_and_reserve_count),
    TEST(modes_are_honoured),
    TEST(the_same_content_is_not_compacted_twice),
    TEST(three_failures_open_the_breaker),
    TEST(an_overflow_that_the_provider_reports_compacts),
    TEST(the_kept_part_is_bounded_in_tokens),
    TEST(a_call_and_its_results_stay_together),
    TEST(inside_a_long_turn_the_question_is_carried),
    TEST(pinned_messages_stay_and_are_counted),
    TEST(old_tool_outputs_become_stubs_first),
    TEST(small_batches_of_stubs_are_not_made),
    TEST(edges_have_defined_answers),
    TEST(after_a_compaction_a_fifth_of_the_window_is_free),
    TEST(items_are_read_from_messages),
    TEST(settings_change_what_they_name),
    TEST(bad_settings_are_refused),
  };

  return cmocka_run_group_tests_name("compact_plan", tests, NULL, NULL);
}

/* test_reading.c - the contract of every store driver for reading: by id, by range, without
 * content, and from memory the second time. */
#include <stdio.h>

#include "store_test.h"

#define N 600 /* more than one window of the walk along a branch */

/* What a visit saw. */
struct seen {
  uint64_t count;
  uint64_t first; /* position of the first one */
  bool with_content;
  uint64_t stop_after; /* 0: never */
  enum qp_rc answer;
};

/* Positions must rise one by one; the text of message i is "m<i>". */
static enum qp_rc
look_at_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct seen *s = arg;
  char want[40];

  if (!s->count)
    s->first = info->position;
  assert_int_equal(info->position, s->first + s->count);
  assert_int_equal(info->status, QP_STATUS_LIVE);
  if (s->with_content) {
    (void)snprintf(want, sizeof(want), "\"text\":\"m%llu\"", (unsigned long long)info->position);
    assert_int_equal(json.len, info->size);
    assert_non_null(memmem(json.data, json.len, want, strlen(want)));
  } else {
    assert_int_equal(json.len, 0);
  }
  s->count++;
  return s->count == s->stop_after ? s->answer : QP_OK;
}

static struct qp_context *
context_of(struct fixture *f, size_t n, struct qp_uuid *ids)
{
  struct qp_context *c = new_context(f);

  if (n)
    say_many(c, NULL, "m", n, ids);
  return c;
}

struct window {
  uint64_t first;
  uint64_t count;
  uint64_t want_first;
  uint64_t want_count;
};

static void
expect_window(struct qp_context *c, const struct window *w, bool content)
{
  struct seen s = { .with_content = content };

  if (content)
    OK(qp_messages_range(c, NULL, w->first, w->count, look_at_message, &s, &failure));
  else
    OK(qp_messages_index(c, "main", w->first, w->count, look_at_message, &s, &failure));
  assert_int_equal(s.count, w->want_count);
  if (s.count)
    assert_int_equal(s.first, w->want_first);
}

static void
test_ranges_are_cut_at_the_end(void **state)
{
  struct fixture *f = *state;
  static const struct window windows[] = {
    { 0, 0, 0, 0 },
    { 0, 1, 0, 1 },
    { 0, N, 0, N },
    { 0, N + 1, 0, N },
    { 0, UINT64_MAX, 0, N },
    { 1, UINT64_MAX, 1, N - 1 },
    { 255, 2, 255, 2 },
    { 256, 256, 256, 256 },
    { 257, 300, 257, 300 },
    { N - 1, 1, N - 1, 1 },
    { N - 1, 2, N - 1, 1 },
    { N - 1, 0, 0, 0 },
    { N, 1, 0, 0 },
    { N, UINT64_MAX, 0, 0 },
    { N + 1, 1, 0, 0 },
    { UINT64_MAX, 1, 0, 0 },
    { UINT64_MAX, UINT64_MAX, 0, 0 },
    { (uint64_t)1 << 32, 1, 0, 0 },
    { UINT64_MAX - 1, 3, 0, 0 },
  };
  struct qp_context *c = context_of(f, N, NULL);
  struct qp_uuid id = qp_context_id(c);

  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < COUNT(windows); i++) {
      expect_window(c, &windows[i], true);
      expect_window(c, &windows[i], false);
    }
    qp_context_close(c);
    reload(f);
    c = open_context(f, &id);
  }
  qp_context_close(c);
}

static void
test_the_last_messages(void **state)
{
  struct fixture *f = *state;
  static const struct window windows[] = {
    { 0, 0, 0, 0 },         { 0, 1, N - 1, 1 }, { 0, 2, N - 2, 2 }, { 0, 300, 300, 300 },
    { 0, N - 1, 1, N - 1 }, { 0, N, 0, N },     { 0, N + 1, 0, N }, { 0, UINT64_MAX, 0, N },
  };
  struct qp_context *c = context_of(f, N, NULL);

  for (size_t i = 0; i < COUNT(windows); i++) {
    struct seen s = { .with_content = true };

    OK(qp_messages_last(c, NULL, windows[i].count, look_at_message, &s, &failure));
    assert_int_equal(s.count, windows[i].want_count);
    if (s.count)
      assert_int_equal(s.first, windows[i].want_first);
  }
  qp_context_close(c);
}

static void
test_ranges_of_an_empty_branch(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = context_of(f, 0, NULL);
  struct seen s = { .with_content = true };

  OK(qp_messages_range(c, NULL, 0, UINT64_MAX, look_at_message, &s, &failure));
  OK(qp_messages_last(c, NULL, UINT64_MAX, look_at_message, &s, &failure));
  OK(qp_messages_index(c, NULL, 0, UINT64_MAX, look_at_message, &s, &failure));
  assert_int_equal(s.count, 0);
  FAILS(qp_messages_range(c, "nowhere", 0, 1, look_at_message, &s, &failure), QP_NOTFOUND);
  FAILS(qp_messages_last(c, "nowhere", 1, look_at_message, &s, &failure), QP_NOTFOUND);
  FAILS(qp_messages_index(c, "nowhere", 0, 1, look_at_message, &s, &failure), QP_NOTFOUND);
  qp_context_close(c);
}

static void
test_a_visitor_ends_the_visit_with_its_answer(void **state)
{
  struct fixture *f = *state;
  static const enum qp_rc answers[] = { QP_STOPPED, QP_NOTFOUND, QP_NOMEM, QP_CORRUPT };
  struct qp_context *c = context_of(f, 300, NULL);

  for (size_t i = 0; i < COUNT(answers); i++) {
    struct seen s = { .with_content = true, .stop_after = 7, .answer = answers[i] };

    assert_int_equal(qp_messages_range(c, NULL, 3, 250, look_at_message, &s, NULL), answers[i]);
    assert_int_equal(s.count, 7);
    s.count = 0;
    assert_int_equal(qp_messages_last(c, NULL, 290, look_at_message, &s, NULL), answers[i]);
    assert_int_equal(s.count, 7);
    s.count = 0;
    s.with_content = false;
    assert_int_equal(qp_messages_index(c, NULL, 0, 300, look_at_message, &s, NULL), answers[i]);
    assert_int_equal(s.count, 7);
  }
  qp_context_close(c);
}

struct nested {
  struct qp_context *context;
  uint64_t seen;
};

/* Changes the branch that is being visited. */
static enum qp_rc
change_while_visiting(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct nested *n = arg;

  (void)info;
  (void)json;
  n->seen++;
  (void)say(n->context, NULL, "new");
  if (n->seen == 3)
    OK(qp_branch_rewind(n->context, NULL, NULL, &failure));
  return QP_OK;
}

static void
test_a_visit_sees_what_was_there_when_it_began(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = context_of(f, 5, NULL);
  struct nested n = { c, 0 };

  OK(qp_messages_range(c, NULL, 0, UINT64_MAX, change_while_visiting, &n, &failure));
  assert_int_equal(n.seen, 5);
  expect_texts(c, NULL, "new new");
  qp_context_close(c);
}

static void
test_find_tells_what_the_index_knows(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid ids[300];
  struct qp_context *c = context_of(f, COUNT(ids), ids);
  struct qp_uuid id = qp_context_id(c);

  for (int round = 0; round < 2; round++) {
    uint64_t reads = stats(f).message_reads;

    for (size_t i = 0; i < COUNT(ids); i++) {
      struct qp_message_info info;

      OK(qp_message_find(c, &ids[i], &info, &failure));
      expect_id(&info.id, &ids[i]);
      assert_int_equal(info.position, i);
    }
    assert_int_equal(stats(f).message_reads, reads);
    qp_context_close(c);
    reload(f);
    c = open_context(f, &id);
  }
  qp_context_close(c);
}

static void
test_the_second_access_is_answered_from_memory(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid ids[3];
  struct qp_context *c = context_of(f, COUNT(ids), ids);
  struct qp_uuid id = qp_context_id(c);
  struct qp_message *m = NULL;
  struct qp_store_stats before;
  struct qp_store_stats after;

  qp_context_close(c);
  reload(f);
  c = open_context(f, &id);
  before = stats(f);
  OK(qp_message_load(c, &ids[1], &m, &failure));
  qp_message_free(m);
  after = stats(f);
  assert_int_equal(after.message_reads, before.message_reads + 1);
  assert_true(after.pool_bytes > before.pool_bytes);
  OK(qp_message_load(c, &ids[1], &m, &failure));
  qp_message_free(m);
  after = stats(f);
  assert_int_equal(after.message_reads, before.message_reads + 1);
  assert_int_equal(after.pool_hits, before.pool_hits + 1);
  expect_texts(c, NULL, "m0 m1 m2");
  assert_int_equal(stats(f).message_reads, before.message_reads + 3);
  qp_context_close(c);
}

static enum qp_rc
count_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  uint64_t *seen = arg;

  assert_int_equal(json.len, info->size);
  ++*seen;
  return QP_OK;
}

static void
test_a_saved_message_is_in_memory_at_once(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  uint64_t seen = 0;

  (void)say(c, NULL, "a");
  say_many(c, NULL, "b", 40, NULL);
  OK(qp_messages_range(c, NULL, 0, UINT64_MAX, count_message, &seen, &failure));
  assert_int_equal(seen, 41);
  assert_int_equal(stats(f).message_reads, 0);
  assert_int_equal(stats(f).pool_hits, 41);
  qp_context_close(c);
}

static void
test_a_tiny_memory_budget_only_costs_reads(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  struct seen s = { .with_content = true };

  close_store(f);
  f->options.pool_bytes = 4096;
  open_store(f);
  c = context_of(f, 200, NULL);
  for (int round = 0; round < 2; round++) {
    s.count = 0;
    OK(qp_messages_range(c, NULL, 0, UINT64_MAX, look_at_message, &s, &failure));
    assert_int_equal(s.count, 200);
    assert_true(stats(f).pool_bytes <= 4096);
  }
  assert_true(stats(f).message_reads > 200);
  qp_context_close(c);
}

static void
test_contexts_that_are_used_share_nothing_in_memory(void **state)
{
  struct fixture *f = *state;
  struct qp_context *a = new_context(f);
  struct qp_context *b = new_context(f);

  say_many(a, NULL, "a", 3, NULL);
  say_many(b, NULL, "b", 3, NULL);
  expect_texts(a, NULL, "a0 a1 a2");
  expect_texts(b, NULL, "b0 b1 b2");
  qp_context_close(a);
  qp_context_close(b);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_ranges_are_cut_at_the_end),
    cmocka_unit_test(test_the_last_messages),
    cmocka_unit_test(test_ranges_of_an_empty_branch),
    cmocka_unit_test(test_a_visitor_ends_the_visit_with_its_answer),
    cmocka_unit_test(test_a_visit_sees_what_was_there_when_it_began),
    cmocka_unit_test(test_find_tells_what_the_index_knows),
    cmocka_unit_test(test_the_second_access_is_answered_from_memory),
    cmocka_unit_test(test_a_saved_message_is_in_memory_at_once),
    cmocka_unit_test(test_a_tiny_memory_budget_only_costs_reads),
    cmocka_unit_test(test_contexts_that_are_used_share_nothing_in_memory),
  };

  return run_on_all("reading", tests, COUNT(tests));
}

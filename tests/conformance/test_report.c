/* test_report.c - the contract of reports on every store driver: usage and sizes follow every
 * change at once, and what is in the trash can be listed and restored. */
#include <stdio.h>

#include "store_test.h"

/* ---- making and reading ---- */

/* Saves an answer of a model on the active branch. */
static struct qp_uuid
answer(struct qp_context *c, const char *model, unsigned tokens, double cost)
{
  struct qp_message *m = NULL;
  struct qp_uuid id;
  char json[256];

  (void)snprintf(json, sizeof(json),
                 "{\"role\":\"assistant\",\"text\":\"words\",\"metadata\":{\"model\":\"%s\","
                 "\"tokens\":{\"prompt_tokens\":%u,\"completion_tokens\":1},\"cost_usd\":%.2f}}",
                 model, tokens, cost);
  OK(qp_message_parse((struct qp_bytes){ json, strlen(json) }, &m, &failure));
  OK(qp_message_save(c, NULL, m, &id, &failure));
  qp_message_free(m);
  return id;
}

struct sums {
  size_t groups;
  uint64_t answers, input;
  double cost;
  char first[64]; /* the title or model of the first group */
};

static enum qp_rc
take_usage(void *arg, const struct qp_usage_row *row)
{
  struct sums *s = arg;

  if (!s->groups++)
    (void)snprintf(s->first, sizeof(s->first), "%s",
                   row->title   ? row->title
                   : row->model ? row->model
                                : "-");
  s->answers += row->answers;
  s->input += row->input_tokens;
  s->cost += row->cost_usd;
  return QP_OK;
}

static struct sums
usage(struct fixture *f, enum qp_usage_group group, const char *owner)
{
  struct qp_usage_query q = { .size = sizeof(q), .group = group, .owner = owner };
  struct sums s = { 0 };

  OK(qp_usage_list(f->store, &q, take_usage, &s, &failure));
  return s;
}

struct sizes {
  size_t count;
  struct qp_uuid ids[8];
  uint64_t trashed;
  char branches[128]; /* of the first context */
};

static enum qp_rc
take_size(void *arg, const struct qp_size_row *row)
{
  struct sizes *s = arg;
  size_t n = 0;

  assert_true(s->count < COUNT(s->ids));
  for (size_t i = 0; i < row->size_count && !s->count; i++)
    n += (size_t)snprintf(s->branches + n, sizeof(s->branches) - n, "%s:%u ", row->sizes[i].name,
                          (unsigned)row->sizes[i].messages);
  s->ids[s->count++] = row->id;
  s->trashed += row->trashed_messages;
  return QP_OK;
}

static struct sizes
list_sizes(struct fixture *f, bool trashed, const char *cursor, uint32_t limit, char **next)
{
  struct qp_size_query q = {
    .size = sizeof(q), .cursor = cursor, .limit = limit, .trashed = trashed
  };
  struct sizes s = { 0 };

  OK(qp_size_list(f->store, &q, take_size, &s, next, &failure));
  return s;
}

static struct qp_context *
named(struct fixture *f, const char *title, const char *owner)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .title = title,
                                  .owner = owner };
  struct qp_context *c = NULL;

  OK(qp_context_create(f->store, &spec, &c, &failure));
  return c;
}

/* ---- usage ---- */

static void
test_usage_follows_every_change(void **state)
{
  struct fixture *f = *state;
  struct qp_context *a = named(f, "ann's", "ann");
  struct qp_context *b = named(f, "bob's", "bob");
  struct qp_uuid gone = qp_context_id(b);
  struct sums s = usage(f, QP_USAGE_DAY, NULL);

  assert_int_equal(s.groups, 0);
  (void)answer(a, "one", 100, 0.25);
  (void)answer(a, "two", 10, 0.25);
  (void)answer(b, "one", 1, 4);
  (void)say(b, NULL, "a question uses nothing");
  s = usage(f, QP_USAGE_DAY, NULL);
  assert_true(s.answers == 3 && s.input == 111 && s.cost > 4.49 && s.cost < 4.51);
  s = usage(f, QP_USAGE_CONTEXT, NULL);
  assert_int_equal(s.groups, 2);
  assert_string_equal(s.first, "bob's"); /* the most expensive one */
  s = usage(f, QP_USAGE_MODEL, "ann");
  assert_true(s.groups == 2 && s.answers == 2 && s.input == 110);
  (void)answer(a, "two", 5, 9);
  assert_string_equal(usage(f, QP_USAGE_CONTEXT, NULL).first, "ann's");
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  assert_int_equal(usage(f, QP_USAGE_DAY, NULL).answers, 4);
  qp_context_close(b);
  OK(qp_context_delete(f->store, &gone, &failure));
  s = usage(f, QP_USAGE_DAY, NULL);
  assert_true(s.answers == 3 && s.input == 115);
  qp_context_close(a);
}

/* ---- sizes and trash ---- */

static void
test_sizes_come_largest_first_with_their_branches(void **state)
{
  struct fixture *f = *state;
  struct qp_context *small = named(f, "small", NULL);
  struct qp_context *large = named(f, "large", NULL);
  struct qp_uuid ids[2] = { qp_context_id(large), qp_context_id(small) };
  struct qp_size_total total;
  struct qp_uuid first;
  struct sizes s;
  char *next = NULL;

  (void)say(small, NULL, "one");
  first = say(large, NULL, "one");
  for (int i = 0; i < 4; i++)
    (void)say(large, NULL, "more words than the other one has");
  OK(qp_branch_fork(large, "side", NULL, &first, &failure));
  s = list_sizes(f, false, NULL, 1, &next);
  assert_int_equal(s.count, 1);
  assert_true(qp_uuid_equal(&s.ids[0], &ids[0]));
  assert_string_equal(s.branches, "main:5 side:1 ");
  assert_non_null(next);
  s = list_sizes(f, false, next, 1, NULL);
  qp_free(next);
  assert_true(s.count == 1 && qp_uuid_equal(&s.ids[0], &ids[1]));
  OK(qp_size_sum(f->store, NULL, &total, &failure));
  assert_true(total.contexts == 2 && total.messages == 6 && total.trashed_messages == 0);
  assert_int_equal(list_sizes(f, true, NULL, 0, NULL).count, 0);
  qp_context_close(small);
  qp_context_close(large);
}

static enum qp_rc
take_trash(void *arg, const struct qp_trash_row *row)
{
  struct qp_trash_row *out = arg;

  assert_int_equal(out->messages, 0); /* one row */
  *out = *row;
  return QP_OK;
}

static void
test_the_trash_is_listed_and_restored(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = named(f, "trash", NULL);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid keep = say(c, NULL, "keep");
  struct qp_uuid first = answer(c, "m", 7, 1);
  struct qp_uuid last = say(c, NULL, "last");
  struct qp_trash_row row = { .messages = 0 };

  OK(qp_branch_rewind(c, NULL, &keep, &failure));
  OK(qp_trash_list(c, take_trash, &row, &failure));
  assert_int_equal(row.messages, 0);
  qp_context_close(c);
  OK(qp_context_gc(f->store, &id, INT64_MAX, 0, NULL, &failure));
  c = open_context(f, &id);
  OK(qp_trash_list(c, take_trash, &row, &failure));
  assert_int_equal(row.messages, 2);
  assert_true(qp_uuid_equal(&row.first, &first) && qp_uuid_equal(&row.last, &last));
  assert_int_equal(list_sizes(f, true, NULL, 0, NULL).trashed, 2);
  assert_int_equal(usage(f, QP_USAGE_DAY, NULL).input, 7); /* it was paid for */
  OK(qp_branch_fork(c, "back", NULL, &last, &failure));
  memset(&row, 0, sizeof(row));
  OK(qp_trash_list(c, take_trash, &row, &failure));
  assert_int_equal(row.messages, 0);
  assert_int_equal(list_sizes(f, true, NULL, 0, NULL).count, 0);
  assert_int_equal(usage(f, QP_USAGE_DAY, NULL).input, 7);
  qp_context_close(c);
}

static void
test_bad_questions_are_refused(void **state)
{
  struct fixture *f = *state;
  struct qp_size_query q = { .size = sizeof(q), .cursor = "nonsense" };
  struct qp_usage_query u = { .size = sizeof(u), .utc_offset = 5000 };
  struct sizes s = { 0 };
  struct sums sums = { 0 };

  FAILS(qp_size_list(f->store, &q, take_size, &s, NULL, &failure), QP_INVALID);
  FAILS(qp_usage_list(f->store, &u, take_usage, &sums, &failure), QP_INVALID);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_usage_follows_every_change),
    cmocka_unit_test(test_sizes_come_largest_first_with_their_branches),
    needs(test_the_trash_is_listed_and_restored, NEEDS_GC),
    cmocka_unit_test(test_bad_questions_are_refused),
  };

  return run_on_all("report", tests, COUNT(tests));
}

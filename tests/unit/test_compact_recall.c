/* test_compact_recall.c - compact/recall.h: covered messages are found by what they say, shown in
 * pieces, and read page by page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "compact/count.h"
#include "compact/recall.h"
#include "llm_test.h"

static const char history[] =
    "[{\"role\":\"user\",\"text\":\"I would like to book flights to Seattle on May 20th.\"},"
    "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"tool_name\":\"search_flights\","
    "\"arguments\":{\"date\":\"2024-05-20\",\"to\":\"SEA\"}}]},"
    "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"a\",\"result\":\"[{\\\"flight_number\\\":"
    " "
    "\\\"HAT069\\\", \\\"price\\\": 121}]\"}},"
    "{\"role\":\"assistant\",\"text\":\"Flight HAT069 costs $121. Shall I book it?\"},"
    "{\"role\":\"user\",\"text\":\"No. It was cancelled last time, take HAT136 for $1,240.\"},"
    "{\"role\":\"assistant\",\"text\":\"Done.\"},"
    "{\"role\":\"user\",\"text\":\"Noted thing.\"},{\"role\":\"user\",\"text\":\"Noted thing.\"}]";

struct rig {
  struct qp_message **list;
  size_t count;
  struct qp__recall *recall;
};

#define FIRST 11

static struct qp__source
source_of(const struct rig *r)
{
  return (struct qp__source){ (const struct qp_message *const *)r->list, r->count, FIRST };
}

static int
set_up(void **state)
{
  struct rig *r = calloc(1, sizeof(*r));
  struct qp_err err = { QP_OK, "" };

  assert_non_null(r);
  r->list = llm_messages(history, &r->count);
  assert_int_equal(qp__recall_new(&r->recall, &err), QP_OK);
  /* In two steps: the second begins between a call and its result. */
  for (size_t n = 2; n <= r->count; n += r->count - 2) {
    struct qp__source source = source_of(r);

    source.count = n;
    assert_int_equal(qp__recall_add(r->recall, &source, &err), QP_OK);
  }
  assert_int_equal(qp__recall_next(r->recall), FIRST + r->count);
  *state = r;
  return 0;
}

static int
tear_down(void **state)
{
  struct rig *r = *state;

  qp__recall_free(r->recall);
  llm_messages_free(r->list);
  free(r);
  return 0;
}

static struct qp_bytes
bytes_of(const char *text)
{
  return (struct qp_bytes){ text, strlen(text) };
}

static uint64_t
first_hit(const struct rig *r, const char *query)
{
  struct qp__recall_hit hits[10];
  size_t n = 0;

  assert_int_equal(qp__recall_search(r->recall, bytes_of(query), UINT64_MAX, hits, 10, &n, NULL),
                   QP_OK);

  return n ? hits[0].at : 0;
}

static void
messages_are_found_by_words_values_and_calls(void **state)
{
  struct rig *r = *state;

  assert_int_equal(first_hit(r, "Who cancels?"), 15);               /* stem */
  assert_int_equal(first_hit(r, "1240 dollars"), 15);               /* another form of $1,240 */
  assert_int_equal(first_hit(r, "price of flights on May 20"), 13); /* date of the call */
  assert_int_equal(first_hit(r, "flight number"), 13);              /* parts of flight_number */
  assert_int_equal(first_hit(r, "book to seattle"), 11);
  assert_int_equal(first_hit(r, "zebra"), 0);
  assert_int_equal(first_hit(r, "the of and"), 0);
  assert_int_equal(first_hit(r, ""), 0);
}

static void
copies_are_listed_once(void **state)
{
  struct rig *r = *state;
  struct qp__recall_hit hits[10];
  size_t n = 0;

  assert_int_equal(
      qp__recall_search(r->recall, bytes_of("noted thing"), UINT64_MAX, hits, 10, &n, NULL), QP_OK);
  assert_int_equal(n, 1);
  assert_int_equal(hits[0].at, 18);
  /* The later copy is not covered on this branch. */
  assert_int_equal(qp__recall_search(r->recall, bytes_of("noted thing"), 17, hits, 10, &n, NULL),
                   QP_OK);
  assert_int_equal(n, 1);
  assert_int_equal(hits[0].at, 17);
}

static void
show(const struct rig *r, const char *query, int64_t budget, struct qp__buf *out)
{
  const struct qp_message *messages[10];
  struct qp__recall_hit hits[10];
  struct qp_err err = { QP_OK, "" };
  size_t n = 0;

  assert_int_equal(qp__recall_search(r->recall, bytes_of(query), UINT64_MAX, hits, 10, &n, &err),
                   QP_OK);
  for (size_t i = 0; i < n; i++)
    messages[i] = r->list[hits[i].at - FIRST];
  qp__buf_reset(out);
  assert_int_equal(qp__recall_show(bytes_of(query), hits, messages, &n, budget, out, &err), QP_OK);
  assert_true((n > 0) == (out->len > 0));
}

static void
recalled_text_fits_its_budget(void **state)
{
  struct rig *r = *state;
  struct qp__buf out;

  qp__buf_init(&out, 100000);
  show(r, "What about HAT136, was it cancelled?", 500, &out);
  assert_memory_equal(out.data, "#15 user: No. It was cancelled", 30);
  for (int64_t budget = 0; budget < 200; budget += 7) {
    show(r, "flight HAT069 to seattle", budget, &out);
    assert_true(qp__count_text(qp__buf_bytes(&out)) <= budget);
  }
  show(r, "Thanks, go on.", 500, &out);
  assert_int_equal(out.len, 0); /* nothing in common: nothing is recalled */
  qp__buf_release(&out);
}

static void
reading_goes_on_where_a_page_ended(void **state)
{
  struct rig *r = *state;
  struct qp__source source = source_of(r);
  struct qp_err err = { QP_OK, "" };
  struct qp__buf page;
  uint64_t at = 11, next = 0;
  size_t from = 0, offset = 0, pages = 0;
  bool seen = false;

  qp__buf_init(&page, 100000);
  assert_int_equal(qp__recall_read(&source, 10, 0, 100, &page, &next, &offset, &err), QP_NOTFOUND);
  assert_int_equal(qp__recall_read(&source, 19, 0, 100, &page, &next, &offset, &err), QP_NOTFOUND);
  do {
    qp__buf_reset(&page);
    assert_int_equal(qp__recall_read(&source, at, from, 60, &page, &next, &offset, &err), QP_OK);
    assert_true(page.len > 0);
    assert_true(qp__count_text(qp__buf_bytes(&page)) <= 60);
    seen = seen || strstr(page.data, "take HAT136 for $1,240") != NULL;
    at = next;
    from = offset;
    pages++;
  } while (next && pages < 50);
  assert_true(seen);
  assert_in_range(pages, 2, 49);
  qp__buf_release(&page);
}

/* A word that is in more messages than a search looks at does not hide an old one. */
static void
an_old_message_is_found_among_many(void **state)
{
  const struct rig *r = *state;
  size_t n = 3 * QP__RECALL_POSTINGS;
  struct qp__recall *recall = NULL;
  struct qp__recall_hit hits[10];
  struct qp__source one = source_of(r);
  struct qp_err err = { QP_OK, "" };
  size_t found = 0;

  assert_int_equal(qp__recall_new(&recall, &err), QP_OK);
  for (size_t i = 0; i < n; i++) { /* #1 is about Seattle, all others about a flight that costs */
    one.messages = (const struct qp_message *const *)r->list + (i ? 3 : 0);
    one.count = 1;
    one.first = i + 1;
    assert_int_equal(qp__recall_add(recall, &one, &err), QP_OK);
  }
  assert_int_equal(qp__recall_search(recall, bytes_of("book Seattle flight cost"), UINT64_MAX, hits,
                                     10, &found, &err),
                   QP_OK);
  assert_int_equal(found, 2); /* copies are listed once */
  assert_true(hits[0].at == 1 || hits[1].at == 1);
  assert_true(qp__recall_bytes(recall) < n * 400);
  qp__recall_free(recall);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(messages_are_found_by_words_values_and_calls),
    TEST(copies_are_listed_once),
    TEST(recalled_text_fits_its_budget),
    TEST(reading_goes_on_where_a_page_ended),
    TEST(an_old_message_is_found_among_many),
  };

  return cmocka_run_group_tests_name("compact_recall", tests, NULL, NULL);
}

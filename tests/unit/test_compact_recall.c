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
  struct qp__recall *recall;
};

static int
set_up(void **state)
{
  struct rig *r = calloc(1, sizeof(*r));
  struct qp_err err = { QP_OK, "" };
  size_t n;

  assert_non_null(r);
  r->list = llm_messages(history, &n);
  assert_int_equal(
      qp__recall_new(&(struct qp__source){ (const struct qp_message *const *)r->list, n, 11 },
                     &r->recall, &err),
      QP_OK);
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

  assert_int_equal(qp__recall_search(r->recall, bytes_of(query), hits, 10, &n, NULL), QP_OK);

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

  assert_int_equal(qp__recall_search(r->recall, bytes_of("noted thing"), hits, 10, &n, NULL),
                   QP_OK);
  assert_int_equal(n, 1);
  assert_int_equal(hits[0].at, 18);
}

static void
recalled_text_fits_its_budget(void **state)
{
  struct rig *r = *state;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf out;

  qp__buf_init(&out, 100000);
  assert_int_equal(
      qp__recall_for(r->recall, bytes_of("What about HAT136, was it cancelled?"), 500, &out, &err),
      QP_OK);
  assert_memory_equal(out.data, "#15 user: No. It was cancelled", 30);
  for (int64_t budget = 0; budget < 200; budget += 7) {
    qp__buf_reset(&out);
    assert_int_equal(
        qp__recall_for(r->recall, bytes_of("flight HAT069 to seattle"), budget, &out, &err), QP_OK);
    assert_true(qp__count_text(qp__buf_bytes(&out)) <= budget);
  }
  qp__buf_reset(&out);
  assert_int_equal(qp__recall_for(r->recall, bytes_of("Thanks, go on."), 500, &out, &err), QP_OK);
  assert_int_equal(out.len, 0); /* nothing in common: nothing is recalled */
  qp__buf_release(&out);
}

static void
reading_goes_on_where_a_page_ended(void **state)
{
  struct rig *r = *state;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf page;
  uint64_t at = 11, next = 0;
  size_t from = 0, offset = 0, pages = 0;
  bool seen = false;

  qp__buf_init(&page, 100000);
  assert_int_equal(qp__recall_read(r->recall, 10, 0, 100, &page, &next, &offset, &err),
                   QP_NOTFOUND);
  assert_int_equal(qp__recall_read(r->recall, 19, 0, 100, &page, &next, &offset, &err),
                   QP_NOTFOUND);
  do {
    qp__buf_reset(&page);
    assert_int_equal(qp__recall_read(r->recall, at, from, 60, &page, &next, &offset, &err), QP_OK);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(messages_are_found_by_words_values_and_calls),
    TEST(copies_are_listed_once),
    TEST(recalled_text_fits_its_budget),
    TEST(reading_goes_on_where_a_page_ended),
  };

  return cmocka_run_group_tests_name("compact_recall", tests, NULL, NULL);
}

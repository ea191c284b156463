/* test_compact_count.c - compact/count.h: the estimate against the tokenizer's own counts of the
 * texts in fixtures/compact (counts.json, which e2e/compact_tokens checks), anchored counting, what
 * a message costs, and where numbers come from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compact/count.h"
#include "llm_test.h"

#define DIR TEST_FIXTURES "/compact/"

static const char *const classes[] = { "arabic",  "base64", "chinese", "code",     "emoji",
                                       "english", "german", "hindi",   "japanese", "json" };
#define CLASSES (sizeof(classes) / sizeof(classes[0]))

static char *
read_fixture(const char *name)
{
  char path[512];
  FILE *file;
  char *text = calloc(1, 65536);

  (void)snprintf(path, sizeof(path), DIR "%s.txt", name);
  file = fopen(path, "rb");
  assert_non_null(file);
  assert_non_null(text);
  assert_true(fread(text, 1, 65535, file) > 0);
  (void)fclose(file);
  return text;
}

static int64_t
estimate(const char *text)
{
  return qp__count_text((struct qp_bytes){ text, strlen(text) });
}

static int64_t
truth(const char *name)
{
  json_t *counts = json_load_file(DIR "counts.json", 0, NULL);
  int64_t n = json_integer_value(json_object_get(counts, name));

  assert_true(n > 0);
  json_decref(counts);
  return n;
}

static int64_t
distance(int64_t a, int64_t b)
{
  return a > b ? a - b : b - a;
}

static void
every_kind_of_text_is_estimated_within_ten_percent(void **state)
{
  (void)state;
  for (size_t i = 0; i < CLASSES; i++) {
    char *text = read_fixture(classes[i]);
    int64_t got = estimate(text), want = truth(classes[i]);

    if (distance(got, want) * 10 > want)
      fail_msg("%s: estimated %lld, is %lld", classes[i], (long long)got, (long long)want);
    free(text);
  }
}

/* Each class is added to a conversation whose size so far the provider has reported. */
static void
an_anchored_count_is_within_two_percent(void **state)
{
  (void)state;
  for (size_t i = 0; i < CLASSES; i++) {
    struct qp__anchor anchor = { 0 };
    struct qp__llm_usage usage = { 0 };
    int64_t before = 0, real = 0, got, all;
    char *text = read_fixture(classes[i]);

    for (size_t k = 0; k < CLASSES; k++) {
      char *other = read_fixture(classes[k]);

      real += truth(classes[k]) * 2;
      before += estimate(other) * 2;
      free(other);
    }
    usage.input = real / 3;
    usage.cache_read = real - real / 3 - 50;
    usage.output = 80;
    usage.reasoning = 30;
    assert_true(qp__anchor_learn(&anchor, &usage, before - 50, 50));
    got = qp__anchor_count(&anchor, estimate(text), 0).value;
    all = real + truth(classes[i]);
    if (distance(got, all) * 50 > all)
      fail_msg("%s: counted %lld, is %lld", classes[i], (long long)got, (long long)all);
    assert_int_equal(qp__anchor_count(&anchor, 1, 0).origin, QP__ORIGIN_PROVIDER);
    free(text);
  }
}

static void
reports_that_look_cut_are_not_learned(void **state)
{
  struct qp__anchor anchor = { 0 };
  struct qp__llm_usage cut = { .input = 4090, .output = 6 };
  struct qp__llm_usage half = { .input = 900, .output = 10 };
  struct qp__llm_usage none = { 0 };
  struct qp__llm_usage huge = { .input = 90000, .output = 10 };
  struct qp__llm_usage good = { .input = 2100, .output = 10 };

  (void)state;
  assert_false(qp__anchor_learn(&anchor, &cut, 9000, 5));
  assert_false(qp__anchor_learn(&anchor, &half, 2000, 5));
  assert_false(qp__anchor_learn(&anchor, &none, 2000, 5));
  assert_false(qp__anchor_learn(&anchor, &huge, 2000, 5));
  assert_int_equal(qp__anchor_count(&anchor, 7, 2007).value, 2007);
  assert_int_equal(qp__anchor_count(&anchor, 7, 2007).origin, QP__ORIGIN_ESTIMATE);
  assert_true(qp__anchor_learn(&anchor, &good, 2000, 10));
  assert_int_equal(anchor.reported, 2110);
  assert_false(qp__anchor_learn(&anchor, &cut, 9000, 5));
  assert_int_equal(anchor.reported, 2110);
  /* A rebuilt view is corrected by the same ratio, but is an estimate again. */
  assert_in_range(qp__anchor_scale(&anchor, 1000).value, 1049, 1050);
  assert_int_equal(qp__anchor_scale(&anchor, 1000).origin, QP__ORIGIN_ESTIMATE);
}

static void
a_message_is_counted_by_kind_and_images_are_flat(void **state)
{
  static const char json[] =
      "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"look at this\"},"
      "{\"type\":\"image\",\"url\":\"data:image/png;base64,AAAA\"},"
      "{\"type\":\"image\",\"url\":\"blob:1\",\"detail\":\"low\"}]},"
      "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"let me think\"}],"
      "\"tool_calls\":[{\"id\":\"x\",\"tool_name\":\"grep\",\"arguments\":{\"a\":1}}]},"
      "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"x\",\"result\":"
      "[{\"type\":\"text\",\"text\":\"four words are here\"},"
      "{\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/png\"}]}}]";
  size_t n;
  struct qp_message **list = llm_messages(json, &n);
  struct qp__count count = { 0 };
  struct qp__llm_tool tool = { .name = "read_file",
                               .description = "Reads a file",
                               .schema = { "{\"type\":\"object\"}", 17 } };

  (void)state;
  for (size_t i = 0; i < n; i++)
    qp__count_add(&count, list[i]);
  assert_int_equal(count.images, 2 * QP__COUNT_IMAGE + QP__COUNT_IMAGE_LOW);
  assert_in_range(count.text, 3 + 3 * QP__COUNT_MESSAGE, 5 + 3 * QP__COUNT_MESSAGE);
  assert_in_range(count.thinking, 3, 4);
  assert_in_range(count.calls, QP__COUNT_CALL + 5, QP__COUNT_CALL + 8);
  assert_in_range(count.results, QP__COUNT_CALL + 4, QP__COUNT_CALL + 5);
  assert_int_equal(qp__count_sum(&count), qp__count_message(list[0]) + qp__count_message(list[1]) +
                                              qp__count_message(list[2]));
  assert_in_range(qp__count_tools(&tool, 1), QP__COUNT_CALL + 6, QP__COUNT_CALL + 14);
  llm_messages_free(list);
}

static void
every_number_says_where_it_came_from(void **state)
{
  (void)state;
  assert_int_equal(qp__number_choose(5, 6, 7, 8).value, 5);
  assert_int_equal(qp__number_choose(5, 6, 7, 8).origin, QP__ORIGIN_USER);
  assert_int_equal(qp__number_choose(0, 6, 7, 8).origin, QP__ORIGIN_PROVIDER);
  assert_int_equal(qp__number_choose(0, 0, 7, 8).origin, QP__ORIGIN_TABLE);
  assert_int_equal(qp__number_choose(0, -1, 0, 8).origin, QP__ORIGIN_DEFAULT);
  assert_int_equal(qp__number_choose(0, -1, 0, 8).value, 8);
  assert_string_equal(qp__origin_name(QP__ORIGIN_TABLE), "table");
  /* The room for the answer must not eat a small window, unless the user wants it. */
  assert_int_equal(qp__count_reserve(0, 64000, 200000).value, 25000);
  assert_int_equal(qp__count_reserve(0, 0, 200000).value, 4096);
  assert_int_equal(qp__count_reserve(0, 0, 8000).value, 1000);
  assert_int_equal(qp__count_reserve(6000, 0, 8000).value, 6000);
}

static void
any_bytes_are_counted_without_failing(void **state)
{
  static const char bad[] = "\xff\xfe\xc3\x28\xf0\x9f\x98\x00 ok \xe2\x82";
  uint64_t seed = 42;
  char noise[512];

  (void)state;
  assert_int_equal(estimate(""), 0);
  assert_true(qp__count_text((struct qp_bytes){ bad, sizeof(bad) - 1 }) > 3);
  for (int round = 0; round < 2000; round++) {
    size_t n = (size_t)(seed >> 33) % sizeof(noise);

    for (size_t i = 0; i < n; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      noise[i] = (char)(seed >> 56);
    }
    assert_in_range(qp__count_text((struct qp_bytes){ noise, n }), n ? 1 : 0, 3 * n);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kind_of_text_is_estimated_within_ten_percent),
    cmocka_unit_test(an_anchored_count_is_within_two_percent),
    cmocka_unit_test(reports_that_look_cut_are_not_learned),
    cmocka_unit_test(a_message_is_counted_by_kind_and_images_are_flat),
    cmocka_unit_test(every_number_says_where_it_came_from),
    cmocka_unit_test(any_bytes_are_counted_without_failing),
  };

  return cmocka_run_group_tests_name("compact_count", tests, NULL, NULL);
}

/* test_llm_models.c - llm/models.h: which row a name gets, custom rows, and costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "llm/models.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void
a_name_gets_the_row_that_fits_best(void **state)
{
  static const struct {
    const char *name, *id, *provider;
  } rows[] = {
    { "demo", "demo", "demo" },
    { "claude-sonnet-5-5", "claude-sonnet-5-5", "anthropic" },
    { "claude-sonnet-5", "claude-sonnet-5", "anthropic" },
    { "claude-haiku-4-5-20251001", "claude-haiku-4-5", "anthropic" },
    { "claude-nova-9", "claude", "anthropic" },
    { "gpt-5-mini-2025-08-07", "gpt-5-mini", "openai" },
    { "gpt-5", "gpt-5", "openai" },
    { "gpt-5.9", "gpt", "openai" },
    { "gpt-9", "gpt", "openai" },
    { "gpt", "gpt", "openai" },
    { "claudette", "", "" },
    { "llama3:8b", "", "" },
    { "", "", "" },
  };
  struct qp__models models = { 0 };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const struct qp__model *m = qp__models_get(&models, rows[i].name);

    assert_string_equal(m->id, rows[i].id);
    assert_string_equal(m->provider, rows[i].provider);
    assert_true(m->window > 0 && m->max_output > 0 && m->max_output < m->window);
    assert_int_equal(m->origin, *rows[i].id ? QP__MODEL_BUILT_IN : QP__MODEL_ASSUMED);
  }
}

static void
add(struct qp__models *models, const char *json)
{
  struct qp_err err = { QP_OK, "" };
  json_t *row = json_loads(json, 0, NULL);

  if (qp__models_add(models, row, &err))
    fail_msg("%s", err.msg);
  json_decref(row);
}

static void
rows_of_ones_own_win(void **state)
{
  struct qp__models models = { 0 };
  const struct qp__model *m;
  size_t n = 0;

  (void)state;
  add(&models, "{\"id\":\"llama3\",\"provider\":\"local\",\"window\":8192,\"max_output\":1024}");
  add(&models, "{\"id\":\"claude-opus-5\",\"window\":200000}");
  add(&models, "{\"id\":\"llama3:70b\",\"input_price\":0.0125,\"output_price\":1}");
  m = qp__models_get(&models, "llama3:8b");
  assert_string_equal(m->provider, "local");
  assert_int_equal(m->window, 8192);
  assert_int_equal(m->origin, QP__MODEL_CONFIGURED);
  assert_false(m->has_prices);
  m = qp__models_get(&models, "claude-opus-5-20260101"); /* the rest is as it was */
  assert_int_equal(m->window, 200000);
  assert_int_equal(m->max_output, 128000);
  assert_int_equal(m->input, 5000000);
  assert_string_equal(m->provider, "anthropic");
  assert_string_equal(qp__models_get(&models, "claude-opus-5-5")->id, "claude-opus-5-5");
  m = qp__models_get(&models, "llama3:70b"); /* from the row before it */
  assert_int_equal(m->window, 8192);
  assert_int_equal(m->input, 12500);
  assert_int_equal(m->cache_read, 12500);
  add(&models, "{\"id\":\"llama3\",\"window\":4096}"); /* again: the later one */
  assert_int_equal(qp__models_get(&models, "llama3")->window, 4096);
  assert_string_equal(qp__models_at(&models, 0)->id, "llama3");
  while (qp__models_at(&models, n))
    n++;
  assert_true(n > 10);
  qp__models_release(&models);
}

static void
bad_rows_are_refused(void **state)
{
  static const char *const bad[] = {
    "{}",
    "{\"id\":\"\"}",
    "{\"id\":\"x\",\"window\":0}",
    "{\"id\":\"x\",\"max_output\":\"many\"}",
    "{\"id\":\"x\",\"input_price\":1}",
    "{\"id\":\"x\",\"input_price\":-1,\"output_price\":1}",
    "{\"id\":\"x\",\"input_price\":\"1\",\"output_price\":1}",
    "{\"id\":\"x\",\"provider\":7}",
  };
  struct qp__models models = { 0 };

  (void)state;
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct qp_err err = { QP_OK, "" };
    json_t *row = json_loads(bad[i], 0, NULL);

    assert_int_equal(qp__models_add(&models, row, &err), QP_INVALID);
    assert_non_null(strstr(err.msg, "a model: "));
    json_decref(row);
  }
  assert_int_equal(models.added_count, 0);
  qp__models_release(&models);
}

static void
what_a_usage_costs(void **state)
{
  static const struct {
    const char *model;
    struct qp__llm_usage usage;
    double dollars; /* below 0: not known */
  } rows[] = {
    { "claude-sonnet-5-5", { .input = 1000000, .output = 1000000 }, 12 },
    { "claude-sonnet-5-5",
      { .cache_read = 1000000, .cache_write = 2000000, .cache_write_1h = 1000000 },
      0.2 + 2.5 + 4 },
    { "claude-haiku-5-5", { .input = 100000, .output = 1000 }, 0.0105 },
    { "claude-haiku-5-5", { .input = 100001, .output = 1000 }, 0.0525005 },
    { "gpt-5.5", { .input = 200000, .cache_read = 100000, .output = 1000 }, 2.1 + 0.045 },
    { "demo", { .input = 5, .output = 5 }, 0 },
    { "gpt-4o-mini", { .input = 1 }, 0.00000015 },
    { "claude-unknown", { .input = 5 }, -1 },
    { "llama3", { .input = 5 }, -1 },
  };
  struct qp__models models = { 0 };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    int64_t cost = qp__model_cost(qp__models_get(&models, rows[i].model), &rows[i].usage);

    if (rows[i].dollars < 0)
      assert_int_equal(cost, -1);
    else
      assert_int_equal(cost, (int64_t)(rows[i].dollars * 1e12 + 0.5));
  }
}

/* ollama#17889 */
static void
a_count_that_cannot_be_true(void **state)
{
  (void)state;
  assert_true(qp__usage_is_suspect(&(struct qp__llm_usage){ .input = 4000, .output = 96 }, 4100));
  assert_true(qp__usage_is_suspect(&(struct qp__llm_usage){ .input = 2048 }, 30000));
  assert_false(qp__usage_is_suspect(&(struct qp__llm_usage){ .input = 20000 }, 30000));
  assert_false(qp__usage_is_suspect(&(struct qp__llm_usage){ .input = 10 }, 100));
  assert_false(
      qp__usage_is_suspect(&(struct qp__llm_usage){ .input = 10, .cache_read = 29000 }, 30000));
  assert_false(qp__usage_is_suspect(&(struct qp__llm_usage){ .output = 5 }, 30000));
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_name_gets_the_row_that_fits_best),
    cmocka_unit_test(rows_of_ones_own_win),
    cmocka_unit_test(bad_rows_are_refused),
    cmocka_unit_test(what_a_usage_costs),
    cmocka_unit_test(a_count_that_cannot_be_true),
  };

  return cmocka_run_group_tests_name("models", tests, NULL, NULL);
}

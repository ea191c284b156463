/* test_prompt.c - src/model/prompt.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/alloc.h"
#include "model/prompt.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define BIG ((size_t)1 << 24)
#define NOW 1794772540123

static const char rich[] = "{\n"
                           "  \"id\": \"base\",\n"
                           "  \"name\": \"Base\",\n"
                           "  \"description\": \"for all\",\n"
                           "  \"content\": \"Be kind.\\nBe short.\",\n"
                           "  \"created_at\": \"2026-11-15T19:55:40.123Z\",\n"
                           "  \"updated_at\": \"2026-11-15T19:55:41.000Z\",\n"
                           "  \"tags\": [\n"
                           "    \"x\"\n"
                           "  ],\n"
                           "  \"gone\": null\n"
                           "}\n";

static struct qp_bytes
bytes(const char *s)
{
  struct qp_bytes b = { s, strlen(s) };

  return b;
}

static struct qp__stored_prompt *
decode(const char *json)
{
  struct qp__stored_prompt *p = NULL;
  struct qp_err err;

  if (qp__prompt_decode("base.json", bytes(json), &p, &err))
    fail_msg("%s: %s", json, err.msg);
  return p;
}

static void
expect_json(const struct qp__stored_prompt *p, const char *want)
{
  struct qp__buf b;
  struct qp_err err;

  qp__buf_init(&b, BIG);
  if (qp__prompt_encode(p, &b, &err))
    fail_msg("%s", err.msg);
  assert_string_equal(b.data, want);
  qp__buf_release(&b);
}

static void
test_stored_form_comes_back_byte_for_byte(void **state)
{
  struct qp__stored_prompt *p = decode(rich);
  struct qp_prompt view = qp__prompt_view(p);

  (void)state;
  expect_json(p, rich);
  assert_string_equal(view.id, "base");
  assert_string_equal(view.name, "Base");
  assert_string_equal(view.description, "for all");
  assert_string_equal(view.content, "Be kind.\nBe short.");
  assert_true(view.created_at == NOW && view.updated_at == 1794772541000);
  qp__prompt_free(p);
  qp__prompt_free(NULL);
}

static void
test_new_and_missing_fields(void **state)
{
  static const char want[] = "{\n  \"id\": \"p\",\n  \"name\": null,\n  \"description\": null,\n"
                             "  \"content\": \"\",\n"
                             "  \"created_at\": \"2026-11-15T19:55:40.123Z\",\n"
                             "  \"updated_at\": \"2026-11-15T19:55:40.123Z\"\n}\n";
  struct qp_prompt spec = { .id = "p", .content = "", .created_at = 5, .updated_at = 6 };
  struct qp__stored_prompt *p = NULL;

  (void)state;
  assert_int_equal(qp__prompt_new(&spec, NOW, &p, NULL), QP_OK);
  expect_json(p, want);
  qp__prompt_free(p);
  p = decode("{\"content\":\"\",\"id\":\"p\",\"created_at\":\"2026-11-15T19:55:40.123Z\","
             "\"updated_at\":\"2026-11-15T19:55:40.123Z\"}");
  expect_json(p, want);
  qp__prompt_free(p);
}

static void
test_new_checks_every_string(void **state)
{
  static const struct {
    struct qp_prompt prompt;
    const char *sentence;
  } rows[] = {
    { { .content = "c" }, "the id of a system prompt must not be empty" },
    { { .id = "../x", .content = "c" }, "the id of a system prompt must not start with '.'" },
    { { .id = "p" }, "system prompt: \"content\" is missing" },
    { { .id = "p", .content = "\xff" }, "system prompt: \"content\" is not valid UTF-8" },
    { { .id = "p", .content = "c", .name = "\xff" }, "system prompt: \"name\" is not valid UTF-8" },
    { { .id = "p", .content = "c", .description = "\xff" },
      "system prompt: \"description\" is not valid UTF-8" },
  };
  struct qp_prompt big = { .id = "p" };
  struct qp__stored_prompt *p = NULL;
  struct qp_err err;
  char *text = qp__alloc(QP__PROMPT_MAX + 2);

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    assert_int_equal(qp__prompt_new(&rows[i].prompt, NOW, &p, &err), QP_INVALID);
    assert_string_equal(err.msg, rows[i].sentence);
    assert_null(p);
  }
  memset(text, 'x', QP__PROMPT_MAX + 1);
  text[QP__PROMPT_MAX + 1] = 0;
  big.content = text;
  assert_int_equal(qp__prompt_new(&big, NOW, &p, &err), QP_TOOBIG);
  assert_string_equal(err.msg, "system prompt: \"content\" is over its limit of 1048576 bytes");
  text[QP__PROMPT_MAX] = 0;
  assert_int_equal(qp__prompt_new(&big, NOW, &p, &err), QP_OK);
  qp__prompt_free(p);
  qp__free(text);
}

static void
test_wrong_input_is_refused_with_the_name_of_the_field(void **state)
{
  static const struct {
    const char *in;
    const char *sentence;
  } rows[] = {
    { "[]", "p.json: must be a JSON object" },
    { "{\"id\":\"p\"", "p.json: not valid JSON: ',' or '}' was expected (line 1, column 10)" },
    { "{\"content\":\"c\"}", "p.json: \"id\" is missing" },
    { "{\"id\":1,\"content\":\"c\"}", "p.json: \"id\" must be a string" },
    { "{\"id\":\"a/b\",\"content\":\"c\"}",
      "p.json: \"id\" may contain only letters, digits, '.', '_' and '-'" },
    { "{\"id\":\"p\"}", "p.json: \"content\" is missing" },
    { "{\"id\":\"p\",\"content\":[]}", "p.json: \"content\" must be a string" },
    { "{\"id\":\"p\",\"content\":\"a\\u0000\"}",
      "p.json: \"content\" must be a string without NUL characters" },
    { "{\"id\":\"p\",\"content\":\"\",\"name\":1}", "p.json: \"name\" must be a string" },
    { "{\"id\":\"p\",\"content\":\"\",\"description\":1}",
      "p.json: \"description\" must be a string" },
    { "{\"id\":\"p\",\"content\":\"\",\"created_at\":1}",
      "p.json: \"created_at\" must be a time such as \"2026-11-15T19:55:40.123Z\"" },
    { "{\"id\":\"p\",\"content\":\"\",\"updated_at\":\"x\"}",
      "p.json: \"updated_at\" must be a time such as \"2026-11-15T19:55:40.123Z\"" },
  };
  struct qp__stored_prompt *p = NULL;
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    if (qp__prompt_decode("p.json", bytes(rows[i].in), &p, &err) != QP_INVALID)
      fail_msg("taken: %s", rows[i].in);
    assert_null(p);
    assert_string_equal(err.msg, rows[i].sentence);
  }
}

static void
test_change_replaces_what_is_given(void **state)
{
  struct qp__stored_prompt *p = decode(rich);
  struct qp_prompt change = { .id = "ignored", .content = "New." };
  struct qp_prompt bad = { .content = "x", .name = "\xff" };
  struct qp_err err;

  (void)state;
  assert_int_equal(qp__prompt_change(p, &bad, 5, &err), QP_INVALID);
  expect_json(p, rich);
  assert_int_equal(qp__prompt_change(p, &change, 1794772542000, &err), QP_OK);
  assert_string_equal(p->id, "base");
  assert_string_equal(p->name, "Base");
  assert_string_equal(p->content, "New.");
  assert_true(p->created_at == NOW && p->updated_at == 1794772542000);
  change.content = NULL;
  change.name = "";
  change.description = "d";
  assert_int_equal(qp__prompt_change(p, &change, 1794772543000, &err), QP_OK);
  assert_string_equal(p->name, "");
  assert_string_equal(p->description, "d");
  assert_string_equal(p->content, "New.");
  qp__prompt_free(p);
}

static void
test_everything_survives_every_failing_allocation(void **state)
{
  static const struct qp_prompt change = { .name = "N", .description = "D", .content = "C" };
  static const struct qp_prompt spec = { .id = "i", .name = "N", .content = "C" };

  (void)state;
  for (int all = 0; all < 2; all++) {
    bool fired = true;
    long n;

    for (n = 1; fired; n++) {
      struct qp__stored_prompt *made = NULL;
      struct qp__stored_prompt *p = NULL;
      struct qp__buf text;
      struct qp_err err;
      enum qp_rc rc;
      bool changed = false;

      qp__buf_init(&text, BIG);
      (all ? alloc_fault_arm_all : alloc_fault_arm)(n);
      rc = qp__prompt_new(&spec, NOW, &made, &err);
      if (!rc)
        rc = qp__prompt_decode("base.json", bytes(rich), &p, &err);
      if (!rc)
        rc = qp__prompt_encode(p, &text, &err);
      if (!rc) {
        rc = qp__prompt_change(p, &change, NOW, &err);
        changed = rc == QP_OK;
      }
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
      if (text.len)
        assert_string_equal(text.data, rich);
      if (p && !changed)
        expect_json(p, rich);
      if (changed)
        assert_string_equal(p->content, "C");
      qp__buf_release(&text);
      qp__prompt_free(made);
      qp__prompt_free(p);
    }
    assert_true(n > 40);
  }
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stored_form_comes_back_byte_for_byte),
    cmocka_unit_test(test_new_and_missing_fields),
    cmocka_unit_test(test_new_checks_every_string),
    cmocka_unit_test(test_wrong_input_is_refused_with_the_name_of_the_field),
    cmocka_unit_test(test_change_replaces_what_is_given),
    cmocka_unit_test(test_everything_survives_every_failing_allocation),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("prompt", tests, NULL, NULL);
}

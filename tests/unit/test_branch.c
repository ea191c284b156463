/* test_branch.c - src/model/branch.c: names, branches and prompt references of a meta. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>
#include <cmocka.h>

#include "alloc_fault.h"
#include "base/alloc.h"
#include "model/meta.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

#define ID "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6"
#define NOW 1794772540123

static const char sample[] =
    "{\"id\":\"" ID "\",\"config\":{\"system_prompt_id\":\"base\"},\"branches\":{"
    "\"main\":{},\"Idea 2\":{\"system_prompt_id\":\"terse\"}}}";

static struct qp__meta *
decode(const char *json)
{
  struct qp_bytes text = { json, strlen(json) };
  struct qp__meta *m = NULL;
  struct qp_err err;

  if (qp__meta_decode("metadata.json", text, &m, &err))
    fail_msg("%s: %s", json, err.msg);
  return m;
}

static struct qp_context_spec
a_spec(void)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = NULL };

  assert_int_equal(qp_uuid_parse(ID, &spec.id, NULL), QP_OK);
  return spec;
}

static char *
repeat(const char *piece, size_t n)
{
  size_t len = strlen(piece);
  char *s = qp__alloc0(n * len + 1, 1);

  for (size_t i = 0; i < n; i++)
    memcpy(s + i * len, piece, len);
  return s;
}

static void
test_branch_names(void **state)
{
  struct {
    const char *piece;
    size_t times;
    const char *sentence; /* NULL: it is a name */
  } rows[] = {
    { "main", 1, NULL },
    { "..", 1, NULL },
    { "a/b c", 1, NULL },
    { "\xe6\x97\xa5\xe6\x9c\xac", 1, NULL },
    { "x", 200, NULL },
    { " ", 80, NULL }, /* 240 bytes once encoded */
    { "\xc3\xa4", 100, NULL },
    { "\xc2\xa0", 1, NULL }, /* the first behind the control characters */
    { "", 1, "a branch name must not be empty" },
    { "x", 201, "a branch name must have at most 200 bytes" },
    { " ", 81, "a branch name must have at most 240 bytes once percent-encoded" },
    { "a\nb", 1, "a branch name must not contain control characters" },
    { "\x1f", 1, "a branch name must not contain control characters" },
    { "\x7f", 1, "a branch name must not contain control characters" },
    { "\xc2\x80", 1, "a branch name must not contain control characters" },
    { "\xc2\x9f", 1, "a branch name must not contain control characters" },
    { "\xc3", 1, "a branch name must be valid UTF-8" },
    { "\xc0\x80", 1, "a branch name must be valid UTF-8" },
  };
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char *name = repeat(rows[i].piece, rows[i].times);
    enum qp_rc rc = qp__branch_name_check(name, &err);

    if (rc != (rows[i].sentence ? QP_INVALID : QP_OK))
      fail_msg("row %zu", i);
    if (rc)
      assert_string_equal(err.msg, rows[i].sentence);
    qp__free(name);
  }
  assert_int_equal(qp__branch_name_check(NULL, &err), QP_INVALID);
  alloc_fault_arm(1);
  assert_int_equal(qp__branch_name_check("main", &err), QP_NOMEM);
  alloc_fault_disarm();
}

static void
test_prompt_ids(void **state)
{
  static const struct {
    const char *piece;
    size_t times;
    const char *sentence;
  } rows[] = {
    { "a", 1, NULL },
    { "A-z_0.9", 1, NULL },
    { "-", 1, NULL },
    { "x", 128, NULL },
    { "alice:a", 1, NULL }, /* of an owner */
    { "al.ice:a.b", 1, NULL },
    { "", 1, "the id of a system prompt must not be empty" },
    { ":a", 1, "the id of a system prompt must not be empty" },
    { "a:", 1, "the id of a system prompt must not be empty" },
    { ".a:b", 1, "the id of a system prompt must not start with '.'" },
    { "a:.b", 1, "the id of a system prompt must not start with '.'" },
    { "a:b:c", 1, "the id of a system prompt may contain only letters, digits, '.', '_' and '-'" },
    { "x", 129, "the id of a system prompt must have at most 128 bytes" },
    { ".", 1, "the id of a system prompt must not start with '.'" },
    { "..", 1, "the id of a system prompt must not start with '.'" },
    { "a/b", 1, "the id of a system prompt may contain only letters, digits, '.', '_' and '-'" },
    { "a b", 1, "the id of a system prompt may contain only letters, digits, '.', '_' and '-'" },
    { "\xc3\xa4", 1,
      "the id of a system prompt may contain only letters, digits, '.', '_' and '-'" },
  };
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char *id = repeat(rows[i].piece, rows[i].times);
    enum qp_rc rc = qp__prompt_id_check(id, &err);

    assert_int_equal(rc, rows[i].sentence ? QP_INVALID : QP_OK);
    if (rc)
      assert_string_equal(err.msg, rows[i].sentence);
    qp__free(id);
  }
  assert_int_equal(qp__prompt_id_check(NULL, &err), QP_INVALID);
}

static void
test_branches_are_sorted_by_bytes(void **state)
{
  struct qp__meta *m = decode("{\"id\":\"" ID "\",\"branches\":{\"b\":{},\"a\":{},\"\xc3\xa4\":{},"
                              "\"B\":{},\"ab\":{},\"a-\":{}}}");
  static const char *const want[] = { "B", "a", "a-", "ab", "b", "\xc3\xa4" };

  (void)state;
  assert_int_equal(m->branch_count, COUNT(want));
  for (size_t i = 0; i < COUNT(want); i++)
    assert_string_equal(m->branches[i].name, want[i]);
  assert_string_equal(m->active, "main"); /* which does not exist: check reports it */
  assert_null(qp__meta_branch(m, m->active));
  qp__meta_free(m);
}

static void
test_branches_are_added_renamed_and_removed(void **state)
{
  struct qp_context_spec spec = a_spec();
  struct qp__meta *m = NULL;
  struct qp_err err;

  (void)state;
  assert_int_equal(qp__meta_new(&spec, NOW, &m, NULL), QP_OK);
  assert_int_equal(qp__meta_branch_add(m, "zeta", 5, &spec.id, &err), QP_OK);
  assert_int_equal(qp__meta_branch_add(m, "alpha", 6, NULL, &err), QP_OK);
  assert_int_equal(m->branch_count, 3);
  assert_string_equal(m->branches[0].name, "alpha");
  assert_string_equal(m->branches[2].name, "zeta");
  assert_true(qp_uuid_equal(&m->branches[2].base, &spec.id));
  assert_true(m->branches[2].created_at == 5);
  assert_int_equal(qp__meta_branch_add(m, "alpha", 7, NULL, &err), QP_EXISTS);
  assert_string_equal(err.msg, "branch 'alpha' exists already");
  assert_int_equal(qp__meta_branch_add(m, "", 7, NULL, &err), QP_INVALID);

  assert_int_equal(qp__meta_branch_rename(m, "none", "x", &err), QP_NOTFOUND);
  assert_string_equal(err.msg, "branch 'none' not found");
  assert_int_equal(qp__meta_branch_rename(m, "a\n", "x", &err), QP_INVALID);
  assert_int_equal(qp__meta_branch_rename(m, "zeta", "alpha", &err), QP_EXISTS);
  assert_int_equal(qp__meta_branch_rename(m, "zeta", "zeta", &err), QP_EXISTS);
  assert_int_equal(qp__meta_branch_rename(m, "zeta", "", &err), QP_INVALID);
  assert_int_equal(qp__meta_branch_rename(m, "zeta", "aaa", &err), QP_OK);
  assert_string_equal(m->branches[0].name, "aaa");
  assert_true(m->branches[0].created_at == 5);
  assert_string_equal(m->active, "main");
  assert_int_equal(qp__meta_branch_rename(m, m->active, "trunk", &err), QP_OK);
  assert_string_equal(m->active, "trunk");
  assert_null(qp__meta_branch(m, "main"));

  assert_int_equal(qp__meta_set_active(m, "main", &err), QP_NOTFOUND);
  assert_string_equal(m->active, "trunk");
  assert_int_equal(qp__meta_set_active(m, "alpha", &err), QP_OK);
  assert_string_equal(m->active, "alpha");

  assert_int_equal(qp__meta_branch_remove(m, "alpha", &err), QP_CONFLICT);
  assert_int_equal(qp__meta_branch_remove(m, "nobody", &err), QP_NOTFOUND);
  assert_int_equal(qp__meta_branch_remove(m, NULL, &err), QP_INVALID);
  assert_int_equal(qp__meta_branch_remove(m, "aaa", &err), QP_OK);
  assert_int_equal(qp__meta_branch_remove(m, "trunk", &err), QP_OK);
  assert_int_equal(m->branch_count, 1);
  assert_string_equal(m->branches[0].name, "alpha");
  qp__meta_free(m);
}

static void
test_many_branches_stay_sorted(void **state)
{
  struct qp_context_spec spec = a_spec();
  struct qp__meta *m = NULL;
  char name[20];

  (void)state;
  assert_int_equal(qp__meta_new(&spec, NOW, &m, NULL), QP_OK);
  for (unsigned i = 0; i < 500; i++) {
    (void)snprintf(name, sizeof(name), "b%u", i * 7919 % 500);
    assert_int_equal(qp__meta_branch_add(m, name, i, NULL, NULL), QP_OK);
  }
  assert_int_equal(m->branch_count, 501);
  for (size_t i = 1; i < m->branch_count; i++)
    assert_true(strcmp(m->branches[i - 1].name, m->branches[i].name) < 0);
  for (unsigned i = 0; i < 500; i++) {
    (void)snprintf(name, sizeof(name), "b%u", i);
    assert_string_equal(qp__meta_branch(m, name)->name, name);
    if (i % 2)
      assert_int_equal(qp__meta_branch_remove(m, name, NULL), QP_OK);
  }
  assert_int_equal(m->branch_count, 251);
  assert_null(qp__meta_branch(m, "b1"));
  assert_non_null(qp__meta_branch(m, "b498"));
  qp__meta_free(m);
}

static void
test_prompts_are_set_found_and_dropped(void **state)
{
  struct qp__meta *m = decode(sample);
  struct qp_err err;

  (void)state;
  assert_true(qp__meta_uses_prompt(m, "base"));
  assert_true(qp__meta_uses_prompt(m, "terse"));
  assert_false(qp__meta_uses_prompt(m, "bas"));
  assert_false(qp__meta_drop_prompt(m, "bas"));
  assert_int_equal(qp__meta_set_prompt(m, "main", "base", &err), QP_OK);
  assert_string_equal(qp__meta_branch(m, "main")->system_prompt_id, "base");
  assert_true(qp__meta_drop_prompt(m, "base")); /* in the configuration and in a branch */
  assert_false(qp__meta_uses_prompt(m, "base"));
  assert_true(json_is_null(json_object_get(m->config, "system_prompt_id")));
  assert_null(qp__meta_branch(m, "main")->system_prompt_id);
  assert_int_equal(qp__meta_set_prompt(m, NULL, "mine", &err), QP_OK);
  assert_true(qp__meta_uses_prompt(m, "mine"));
  assert_int_equal(qp__meta_set_prompt(m, NULL, NULL, &err), QP_OK);
  assert_false(qp__meta_uses_prompt(m, "mine"));
  assert_int_equal(qp__meta_set_prompt(m, "Idea 2", NULL, &err), QP_OK);
  assert_false(qp__meta_uses_prompt(m, "terse"));
  assert_int_equal(qp__meta_set_prompt(m, "nobody", "p", &err), QP_NOTFOUND);
  assert_int_equal(qp__meta_set_prompt(m, "main", ".p", &err), QP_INVALID);
  assert_int_equal(qp__meta_set_prompt(m, NULL, "a b", &err), QP_INVALID);

  assert_int_equal(qp__meta_set_prompt(m, NULL, "last", &err), QP_OK);
  alloc_fault_arm_all(1);
  assert_true(qp__meta_drop_prompt(m, "last")); /* cannot fail, so must not need memory */
  alloc_fault_disarm();
  assert_false(qp__meta_uses_prompt(m, "last"));
  qp__meta_free(m);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_branch_names),
    cmocka_unit_test(test_prompt_ids),
    cmocka_unit_test(test_branches_are_sorted_by_bytes),
    cmocka_unit_test(test_branches_are_added_renamed_and_removed),
    cmocka_unit_test(test_many_branches_stay_sorted),
    cmocka_unit_test(test_prompts_are_set_found_and_dropped),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("branch", tests, NULL, NULL);
}

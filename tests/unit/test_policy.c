/* test_policy.c - src/tool/glob.c and src/tool/policy.c: tables of patterns, rules and verdicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "tool/glob.h"
#include "tool/policy.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- patterns ---- */

static void
test_text_patterns(void **state)
{
  static const struct {
    const char *pattern, *text, *never;
    bool is;
  } rows[] = {
    { "", "", NULL, true },
    { "", "a", NULL, false },
    { "*", "", NULL, true },
    { "*", "a/b\n", NULL, true },
    { "a*c", "abbbc", NULL, true },
    { "a*c", "abbb", NULL, false },
    { "a**c", "ac", NULL, true },
    { "*.c", "x.c", NULL, true },
    { "*.c", "x.c.c", NULL, true },
    { "*.c", "x.h", NULL, false },
    { "a?c", "abc", NULL, true },
    { "a?c", "ac", NULL, false },
    { "[a-c]x", "bx", NULL, true },
    { "[a-c]x", "dx", NULL, false },
    { "[!a-c]x", "dx", NULL, true },
    { "[!a-c]x", "ax", NULL, false },
    { "[]]", "]", NULL, true },
    { "[a", "[a", NULL, true },
    { "\\*", "*", NULL, true },
    { "\\*", "a", NULL, false },
    { "a\\", "a\\", NULL, true },
    { "mcp__github__*", "mcp__github__create", NULL, true },
    { "git *", "git status", ";&|", true },
    { "git *", "git status; rm x", ";&|", false },
    { "git *", "git a && b", ";&|", false },
    { "git ?", "git ;", ";&|", false },
    { "git [;a]", "git ;", ";&|", false },
    { "a; b*", "a; b c", ";&|", true }, /* written out it is meant */
    { "*x", "a;x", ";", false },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (qp__glob_text(rows[i].pattern, rows[i].text, rows[i].never) != rows[i].is)
      fail_msg("'%s' and '%s' are not %d", rows[i].pattern, rows[i].text, rows[i].is);
}

static void
test_path_patterns(void **state)
{
  static const struct {
    const char *pattern, *path;
    bool is;
  } rows[] = {
    { "*.c", "a.c", true },
    { "*.c", "src/deep/a.c", true }, /* without '/': the name alone */
    { "src/*.c", "src/a.c", true },
    { "src/*.c", "src/deep/a.c", false },
    { "src/**/*.c", "src/a.c", true },
    { "src/**/*.c", "src/x/y/a.c", true },
    { "src/**/*.c", "lib/a.c", false },
    { "**/*.c", "a.c", true },
    { "**/*.c", "x/y/a.c", true },
    { "**/x/**/a.c", "p/x/q/r/a.c", true },
    { "**/x/**/a.c", "p/y/q/r/a.c", false },
    { "**/x/y", "x/x/y", true },
    { "**/x/y", "x/y/x", false },
    { "**", "a/b/c", true },
    { "src/**", "src/a/b", true },
    { "src/**", "srcs/a", false },
    { "./src/*", "src/a", true },
    { "src/", "src/a", false },
    { "a/b", "a/b/c", false },
    { "a/b/c", "a/b", false },
    { "*/b", "a/b", true },
    { "?/b", "/b", false },
    { "*.[ch]", "x/y.h", true },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (qp__glob_path(rows[i].pattern, rows[i].path) != rows[i].is)
      fail_msg("'%s' and '%s' are not %d", rows[i].pattern, rows[i].path, rows[i].is);
}

/* An attacker's pattern takes no more than pattern times text. */
static void
test_stars_do_not_explode(void **state)
{
  char text[4097];
  char path[4097];

  (void)state;
  memset(text, 'a', sizeof(text) - 1);
  text[sizeof(text) - 1] = 0;
  assert_false(qp__glob_text("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text, NULL));
  for (size_t i = 0; i < sizeof(path) - 1; i++)
    path[i] = i % 2 ? '/' : 'a';
  path[sizeof(path) - 1] = 0;
  assert_false(qp__glob_path("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", path));
}

/* ---- policies ---- */

static json_t *
parse(const char *text)
{
  struct qp_bytes bytes = { text, strlen(text) };
  json_t *value = NULL;

  assert_int_equal(qp__json_parse("test", bytes, &value, NULL), QP_OK);
  return value;
}

static void
add(struct qp__policy *policy, const char *line)
{
  struct qp_err err = { QP_OK, "" };

  if (qp__policy_add_line(policy, line, &err))
    fail_msg("%s: %s", line, err.msg);
}

static enum qp__verdict
judge(const struct qp__policy *policy, const char *tool, bool changes, const json_t *arguments,
      size_t *rule)
{
  const struct qp__policy_call call = { .tool = tool, .changes = changes, .arguments = arguments };

  return qp__policy_judge(policy, &call, rule);
}

static const char *const rules[] = {
  "# reading is auto anyway",
  "",
  "deny read_file path=\"*.pem\"",
  "auto write_file path=\"docs/*\"",
  "auto run_command command=\"git status*\"",
  "deny run_command command=\"*rm *\"",
  "auto run_command command=make",
  "ask mcp__fs__read_*",
  "auto mcp__fs__*",
  "deny mcp__*",
  "deny edit_file path=a* old_string=\"say \\\"x\\\"\"",
};

static void
test_first_rule_that_matches_decides(void **state)
{
  static const struct {
    const char *tool;
    bool changes;
    const char *arguments;
    enum qp__verdict verdict;
    size_t rule; /* of those above that are rules */
  } rows[] = {
    { "read_file", false, "{\"path\":\"a.c\"}", QP__AUTO, 0 },
    { "read_file", false, "{\"path\":\"keys/a.pem\"}", QP__DENY, 1 },
    { "write_file", true, "{\"path\":\"a.c\"}", QP__ASK, 0 },
    { "write_file", true, "{\"path\":\"docs/x/y.md\"}", QP__AUTO, 2 },
    { "write_file", true, "{\"path\":\"docs/$(x)\"}", QP__ASK, 0 },
    { "write_file", true, "{\"path\":7}", QP__ASK, 0 },
    { "write_file", true, "{}", QP__ASK, 0 },
    { "write_file", true, NULL, QP__ASK, 0 },
    { "run_command", true, "{\"command\":\"git status -s\"}", QP__AUTO, 3 },
    { "run_command", true, "{\"command\":\"git status; rm -rf .\"}", QP__DENY, 4 },
    { "run_command", true, "{\"command\":\"git status && make\"}", QP__ASK, 0 },
    { "run_command", true, "{\"command\":\"git status\\nmake\"}", QP__ASK, 0 },
    { "run_command", true, "{\"command\":\"git status `make`\"}", QP__ASK, 0 },
    { "run_command", true, "{\"command\":[\"git\",\"status\"]}", QP__AUTO, 3 },
    { "run_command", true, "{\"command\":[\"rm\",\"-rf\",\".\"]}", QP__DENY, 4 },
    { "run_command", true, "{\"command\":[\"x\",7]}", QP__DENY, 4 },
    { "run_command", true, "{\"command\":\"x\\u0000 rm \"}", QP__DENY, 4 },
    { "run_command", true, "{\"command\":\"make\"}", QP__AUTO, 5 },
    { "run_command", true, "{\"command\":\"makeup\"}", QP__ASK, 0 },
    { "mcp__fs__read_text", true, "{}", QP__ASK, 6 },
    { "mcp__fs__write", true, "{}", QP__AUTO, 7 },
    { "mcp__github__push", true, "{}", QP__DENY, 8 },
    { "edit_file", true, "{\"path\":\"abc\",\"old_string\":\"say \\\"x\\\"\"}", QP__DENY, 9 },
    { "edit_file", true, "{\"path\":\"abc\",\"old_string\":\"say x\"}", QP__ASK, 0 },
  };
  struct qp__policy policy = { 0 };

  (void)state;
  for (size_t i = 0; i < COUNT(rules); i++)
    add(&policy, rules[i]);
  for (size_t i = 0; i < COUNT(rows); i++) {
    json_t *arguments = rows[i].arguments ? parse(rows[i].arguments) : NULL;
    size_t rule = 99;
    enum qp__verdict verdict = judge(&policy, rows[i].tool, rows[i].changes, arguments, &rule);

    if (verdict != rows[i].verdict || rule != rows[i].rule)
      fail_msg("%s %s: %s by rule %zu", rows[i].tool, rows[i].arguments ? rows[i].arguments : "",
               qp__verdict_name(verdict), rule);
    json_decref(arguments);
  }
  qp__policy_release(&policy);
}

static void
test_bad_rules_are_refused_with_a_reason(void **state)
{
  static const char *const lines[] = {
    "allow grep",   "auto",
    "deny path=x",  "auto grep pattern",
    "auto grep =x", "auto grep a=\"b",
    "auto \"\"",    "auto x a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1",
  };
  struct qp__policy policy = { 0 };

  (void)state;
  for (size_t i = 0; i < COUNT(lines); i++) {
    struct qp_err err = { QP_OK, "" };

    if (qp__policy_add_line(&policy, lines[i], &err) != QP_INVALID || !err.msg[0])
      fail_msg("taken: %s", lines[i]);
  }
  assert_int_equal(policy.count, 0);
  qp__policy_release(&policy);
}

/* Out of memory never makes a rule that is half there, nor a verdict that allows more. */
static void
test_policies_survive_failing_allocations(void **state)
{
  bool fired = true;

  (void)state;
  for (long n = 1; fired; n++) {
    struct qp__policy policy = { 0 };
    enum qp_rc one;
    enum qp_rc two;

    alloc_fault_arm(n);
    one = qp__policy_add_line(&policy, "deny x a=b c=d", NULL);
    two = qp__policy_add_line(&policy, "deny run_command command=\"*rm*\"", NULL);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_true(one == QP_OK || one == QP_NOMEM);
    assert_true(two == QP_OK || two == QP_NOMEM);
    assert_int_equal(policy.count, (one ? 0 : 1) + (two ? 0 : 1));
    if (!one && !two) {
      json_t *value = parse("{\"command\":[\"rm\",\"x\"]}");
      alloc_fault_arm_all(1);
      assert_int_equal(judge(&policy, "run_command", true, value, NULL), QP__DENY);
      alloc_fault_disarm();
      json_decref(value);
    }
    qp__policy_release(&policy);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_text_patterns),
    cmocka_unit_test(test_path_patterns),
    cmocka_unit_test(test_stars_do_not_explode),
    cmocka_unit_test(test_first_rule_that_matches_decides),
    cmocka_unit_test(test_bad_rules_are_refused_with_a_reason),
    cmocka_unit_test(test_policies_survive_failing_allocations),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

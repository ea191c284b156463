/* test_policy_paths.c - src/tool/plainpath.c, and policy rules against arguments that try to bypass
 * them: other spellings of a path, other names of an argument, lists, dots in names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "tool/plainpath.h"
#include "tool/policy.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const struct qp__plain_root root = { "/w/ws", "/real/ws" };

static void
test_paths_are_made_plain(void **state)
{
  static const struct {
    const char *path, *plain, *decoded; /* decoded is NULL: the same as plain */
  } rows[] = {
    { "a", "a", NULL },
    { "a/b/", "a/b", NULL },
    { "./a", "a", NULL },
    { "a//b/./c", "a/b/c", NULL },
    { "a/../b", "b", NULL },
    { "a/b/../../c", "c", NULL },
    { ".", ".", NULL },
    { "./", ".", NULL },
    { "a/..", ".", NULL },
    { "", "", NULL },
    { "/", "/", NULL },
    { "/w/ws", ".", NULL },
    { "/w/ws/", ".", NULL },
    { "/w/ws/a", "a", NULL },
    { "/real/ws/a", "a", NULL },
    { "//w///ws//a", "a", NULL },
    { "/w/wsx/a", "/w/wsx/a", NULL },
    { "/w/ws/../ws/a", "a", NULL },
    { "../ws/a", "a", NULL },
    { "../other/a", "/w/other/a", NULL },
    { "a/../../../../../etc/passwd", "/etc/passwd", NULL },
    { "/etc/../etc/passwd", "/etc/passwd", NULL },
    { "...", "...", NULL },
    { "..a/b..", "..a/b..", NULL },
    { "a/%2e%2e/b", "a/%2e%2e/b", "b" },
    { "a/%2E%2e%2fb", "a/%2E%2e%2fb", "b" },
    { "a/%252e%252e/b", "a/%252e%252e/b", "b" },
    { "100%", "100%", NULL },
    { "%zz%4", "%zz%4", NULL },
    { "a%00b", "a%00b", NULL },
    { "a\\..\\b", "a\\..\\b", "b" },
    { "file:///w/ws/a/../b", "file:///w/ws/b", "b" },
    { "file://localhost/w/ws/a", "file://localhost/w/ws/a", "a" },
    { "FILE:///etc/passwd?x#y", "FILE:///etc/passwd?x#y", "/etc/passwd" },
    { "file:a/b", "file:a/b", "a/b" },
    { "https://host/a/../b?c=../d", "https://host/b?c=../d", NULL },
    { "https://host", "https://host", NULL },
    { "https://host/../../a", "https://host/a", NULL },
    { "git status ../x", "git status ../x", NULL },
    { "cat docs/../x", "x", NULL },
  };
  char out[QP__PLAIN_MAX];
  char again[QP__PLAIN_MAX];

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const char *decoded = rows[i].decoded ? rows[i].decoded : rows[i].plain;

    assert_true(qp__plain_path(&root, rows[i].path, out));
    if (strcmp(out, rows[i].plain) != 0)
      fail_msg("'%s' is '%s'", rows[i].path, out);
    assert_true(qp__plain_path(&root, out, again));
    assert_string_equal(again, out);
    assert_true(qp__plain_decoded(&root, rows[i].path, out));
    if (strcmp(out, decoded) != 0)
      fail_msg("'%s' is decoded '%s'", rows[i].path, out);
  }
}

static void
test_paths_without_a_root_keep_what_leads_out(void **state)
{
  static const struct qp__plain_root none = { NULL, NULL };
  static const char *const rows[][2] = {
    { "a/../b", "b" },         { "../a", "../a" },     { "a/../../b", "../b" },
    { "../../a/..", "../.." }, { "/a/../../b", "/b" }, { "a/..", "." },
  };
  char out[QP__PLAIN_MAX];

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    assert_true(qp__plain_path(&none, rows[i][0], out));
    assert_string_equal(out, rows[i][1]);
  }
}

static void
test_paths_that_are_too_long_are_refused(void **state)
{
  char path[2 * QP__PLAIN_MAX];
  char out[QP__PLAIN_MAX];

  (void)state;
  memset(path, 'a', sizeof(path));
  path[sizeof(path) - 1] = 0;
  assert_false(qp__plain_path(&root, path, out));
  assert_false(qp__plain_decoded(&root, path, out));
  memcpy(path, "https://h/", 10);
  assert_false(qp__plain_path(&root, path, out));
  for (size_t i = 0; i + 1 < sizeof(path); i++)
    path[i] = i % 3 == 2 ? '/' : '.';
  (void)qp__plain_path(&root, path, out); /* "../../…": it ends at "/" */
}

/* ---- rules ---- */

enum { READS, CHANGES };

static void
check(const char *const *lines, const char *tool, int changes, const char *arguments,
      enum qp__verdict wanted)
{
  struct qp__policy policy = { 0 };
  struct qp_bytes bytes = { arguments, strlen(arguments) };
  struct qp_err err = { QP_OK, "" };
  json_t *value = NULL;
  struct qp__policy_call call = { .tool = tool, .changes = changes == CHANGES, .root = root };
  enum qp__verdict verdict;

  for (; *lines; lines++)
    if (qp__policy_add_line(&policy, *lines, &err))
      fail_msg("%s: %s", *lines, err.msg);
  assert_int_equal(qp__json_parse("test", bytes, &value, NULL), QP_OK);
  call.arguments = value;
  verdict = qp__policy_judge(&policy, &call, NULL);
  if (verdict != wanted)
    fail_msg("%s %s: %s, not %s", tool, arguments, qp__verdict_name(verdict),
             qp__verdict_name(wanted));
  json_decref(value);
  qp__policy_release(&policy);
}

static void
test_no_spelling_of_a_path_gets_around_deny(void **state)
{
  static const char *const rules[] = { "deny * path=\"secrets/*\"", "auto *", NULL };
  static const char *const rows[][2] = {
    { "read_file", "{\"path\":\"secrets/x\"}" },
    { "read_file", "{\"path\":\"secrets/deep/x\"}" },
    { "list_directory", "{\"path\":\"secrets\"}" },
    { "list_directory", "{\"path\":\"secrets/\"}" },
    { "grep", "{\"pattern\":\"x\",\"path\":\"./secrets\"}" },
    { "read_file", "{\"path\":\"docs/../secrets/x\"}" },
    { "read_file", "{\"path\":\"./docs/.././/secrets//x\"}" },
    { "read_file", "{\"path\":\"/w/ws/secrets/x\"}" },
    { "read_file", "{\"path\":\"/real/ws/secrets/x\"}" },
    { "read_file", "{\"path\":\"../ws/secrets/x\"}" },
    { "run_command", "{\"command\":\"ls\",\"directory\":\"secrets\"}" },
    { "run_command", "{\"command\":\"ls\",\"directory\":\"a/../secrets/\"}" },
    { "mcp__fs__read_file", "{\"path\":\"docs/../secrets/x\"}" },
    { "mcp__fs__read_file", "{\"file\":\"secrets/x\"}" },
    { "mcp__fs__read_file", "{\"filePath\":\"secrets/x\"}" },
    { "mcp__fs__read_file", "{\"name\":\"./secrets/x\"}" },
    { "mcp__fs__read_file", "{\"uri\":\"file:///w/ws/secrets/x\"}" },
    { "mcp__fs__read_file", "{\"uri\":\"file:///w/ws/docs/%2e%2e/secrets/x\"}" },
    { "mcp__fs__read_file", "{\"path\":\"secrets%2fx\"}" },
    { "mcp__fs__read_file", "{\"path\":\"docs\\\\..\\\\secrets\\\\x\"}" },
    { "mcp__fs__read_many", "{\"paths\":[\"docs/a\",\"docs/../secrets/x\"]}" },
    { "mcp__fs__read_many", "{\"files\":[{\"path\":\"a\"},{\"path\":\"secrets/x\"}]}" },
    { "mcp__fs__move_file", "{\"source\":\"secrets/x\",\"destination\":\"docs/x\"}" },
    { "mcp__fs__move_file", "{\"source\":\"docs/x\",\"destination\":\"./secrets/x\"}" },
    { "mcp__fs__edit", "{\"options\":{\"deep\":{\"target\":\"secrets/x\"}}}" },
  };
  static const char *const free[][2] = {
    { "read_file", "{\"path\":\"docs/x\"}" },
    { "read_file", "{\"path\":\"secretsx\"}" },
    { "write_file", "{\"path\":\"docs/x\",\"content\":\"see secrets/x\"}" },
    { "grep", "{\"pattern\":\"secrets/x\"}" }, /* the search passes the directory over */
    { "run_command", "{\"command\":\"ls docs\"}" },
    { "mcp__memory__add", "{\"entities\":[{\"name\":\"a\",\"observations\":[\"secrets/x\"]}]}" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    check(rules, rows[i][0], CHANGES, rows[i][1], QP__DENY);
  for (size_t i = 0; i < COUNT(free); i++)
    check(rules, free[i][0], CHANGES, free[i][1], QP__AUTO);
}

static void
test_patterns_are_made_plain_too(void **state)
{
  static const char *const denied[] = { "deny * path=\"/w/ws/secrets/*\"",
                                        "deny * path=\"./secrets/*\"",
                                        "deny * path=\"docs/../secrets/*\"",
                                        "deny * path=\"/real/ws/secrets/*\"" };

  (void)state;
  for (size_t i = 0; i < COUNT(denied); i++) {
    const char *const rules[] = { denied[i], NULL };

    check(rules, "read_file", READS, "{\"path\":\"secrets/x\"}", QP__DENY);
    check(rules, "read_file", READS, "{\"path\":\"/w/ws/a/../secrets/x\"}", QP__DENY);
    check(rules, "read_file", READS, "{\"path\":\"docs/x\"}", QP__AUTO);
  }
}

static void
test_a_wildcard_of_auto_stays_inside(void **state)
{
  static const char *const rules[] = {
    "auto mcp__fs__* path=\"ws/*\"",
    "auto write_file path=\"docs/*\"",
    "auto delete_file path=*",
    "auto edit_file path=\".github/*\"",
    "auto mcp__out__write path=\"/srv/shared/*\"",
    "auto mcp__many__write paths=\"docs/*\"",
    "auto mcp__web__get url=\"https://host/api/*\"",
    NULL,
  };
  static const struct {
    const char *tool, *arguments;
    enum qp__verdict verdict;
  } rows[] = {
    { "mcp__fs__read", "{\"path\":\"ws/a\"}", QP__AUTO },
    { "mcp__fs__read", "{\"path\":\"./ws/./b/../a\"}", QP__AUTO },
    { "mcp__fs__read", "{\"path\":\"ws/../../../../etc/passwd\"}", QP__ASK },
    { "mcp__fs__read", "{\"path\":\"ws/%2e%2e/%2e%2e/etc/passwd\"}", QP__ASK },
    { "mcp__fs__read", "{\"path\":\"ws/..\\\\..\\\\etc\"}", QP__ASK },
    { "mcp__fs__read", "{\"path\":[\"ws/a\"]}", QP__AUTO },
    { "mcp__fs__read", "{\"path\":[\"ws/a\",\"/etc/passwd\"]}", QP__ASK },
    { "mcp__fs__read", "{\"path\":[\"ws/a\",7]}", QP__ASK },
    { "mcp__fs__read", "{\"path\":[]}", QP__ASK },
    { "mcp__fs__read", "{\"path\":{\"x\":\"ws/a\"}}", QP__ASK },
    { "mcp__fs__read", "{\"path\":\"ws/a\\u0000b\"}", QP__ASK },
    { "write_file", "{\"path\":\"docs/a.md\",\"content\":\"../x ; y\"}", QP__AUTO },
    { "write_file", "{\"path\":\"docs/../.git/config\",\"content\":\"\"}", QP__ASK },
    { "write_file", "{\"path\":\"docs/.git/config\",\"content\":\"\"}", QP__ASK },
    { "write_file", "{\"path\":\"docs/.env\",\"content\":\"\"}", QP__ASK },
    { "write_file", "{\"path\":\"docs/sub/.gitattributes\",\"content\":\"\"}", QP__ASK },
    { "write_file", "{\"path\":\"docs\",\"content\":\"\"}", QP__ASK },
    { "delete_file", "{\"path\":\"a/b\"}", QP__AUTO },
    { "delete_file", "{\"path\":\"/etc/passwd\"}", QP__ASK },
    { "delete_file", "{\"path\":\"../x\"}", QP__ASK },
    { "delete_file", "{\"path\":\"~/x\"}", QP__ASK },
    { "delete_file", "{\"path\":\".git/config\"}", QP__ASK },
    { "edit_file", "{\"path\":\".github/workflows/x.yml\"}", QP__AUTO }, /* it is written out */
    { "edit_file", "{\"path\":\".github/.env\"}", QP__ASK },
    { "edit_file", "{\"path\":\".git/config\"}", QP__ASK },
    { "mcp__out__write", "{\"path\":\"/srv/shared/a\"}", QP__AUTO },
    { "mcp__out__write", "{\"path\":\"/srv/shared/../x\"}", QP__ASK },
    { "mcp__many__write", "{\"paths\":[\"docs/a\",\"docs/b\"]}", QP__AUTO },
    { "mcp__many__write", "{\"paths\":[\"docs/a\",\"docs/../b\"]}", QP__ASK },
    { "mcp__web__get", "{\"url\":\"https://host/api/x?y=1\"}", QP__AUTO },
    { "mcp__web__get", "{\"url\":\"https://host/api/../admin\"}", QP__ASK },
    { "mcp__web__get", "{\"url\":\"https://host/api/%2e%2e/admin\"}", QP__ASK },
    { "mcp__web__get", "{\"url\":\"https://host.evil/api/x\"}", QP__ASK },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    check(rules, rows[i].tool, CHANGES, rows[i].arguments, rows[i].verdict);
}

/* An argument that a rule does not name counts against it. */
static void
test_auto_must_name_what_matters(void **state)
{
  static const char *const rules[] = {
    "auto run_command command=\"git status\"",
    "auto run_command command=\"cat docs/*\"",
    "auto run_command command=make directory=\"sub/*\"",
    "auto run_command directory=\"any/*\"",
    "auto mcp__fs__move source=\"docs/*\"",
    "auto mcp__all__*",
    NULL,
  };
  static const struct {
    const char *tool, *arguments;
    enum qp__verdict verdict;
  } rows[] = {
    { "run_command", "{\"command\":\"git status\"}", QP__AUTO },
    { "run_command", "{\"command\":\"git status\",\"timeout\":5}", QP__AUTO },
    { "run_command", "{\"command\":\"git status\",\"directory\":\".\"}", QP__AUTO },
    { "run_command", "{\"command\":\"git status\",\"directory\":\"docs/evil\"}", QP__ASK },
    { "run_command", "{\"command\":\"git status -s\"}", QP__ASK },
    { "run_command", "{\"command\":\"cat docs/a\"}", QP__AUTO },
    { "run_command", "{\"command\":\"cat docs/../secrets/a\"}", QP__ASK },
    { "run_command", "{\"command\":\"cat docs/a ../secrets\"}", QP__ASK },
    { "run_command", "{\"command\":[\"cat\",\"docs/..\"]}", QP__ASK },
    { "run_command", "{\"command\":\"cat docs/a..b\"}", QP__AUTO },
    { "run_command", "{\"command\":\"make\",\"directory\":\"sub/x\"}", QP__AUTO },
    { "run_command", "{\"command\":\"make\",\"directory\":\"sub/../x\"}", QP__ASK },
    { "run_command", "{\"command\":\"make\"}", QP__ASK },
    { "run_command", "{\"command\":\"rm x\",\"directory\":\"any/x\"}", QP__ASK },
    { "mcp__fs__move", "{\"source\":\"docs/a\",\"destination\":\"../../etc/cron.d/x\"}", QP__ASK },
    { "mcp__fs__move", "{\"source\":\"docs/a\",\"mode\":\"fast\"}", QP__AUTO },
    { "mcp__fs__move", "{\"source\":\"docs/a\",\"x\":{\"y\":[\"a/b\"]}}", QP__ASK },
    { "mcp__all__x", "{\"path\":\"/anything\",\"command\":\"x\"}", QP__AUTO },
    { "mcp__all__x", "{\"path\":\".git/config\"}", QP__ASK },
    { "mcp__all__x", "{\"files\":[\"a\",\"b/.ssh/c\"]}", QP__ASK },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    check(rules, rows[i].tool, CHANGES, rows[i].arguments, rows[i].verdict);
}

/* What is too deep or too long to be looked at is not allowed, and is denied. */
static void
test_what_cannot_be_looked_at_is_not_allowed(void **state)
{
  static const char *const allow[] = { "auto x a=\"*\"", NULL };
  static const char *const deny[] = { "deny x path=\"secrets/*\"", "auto x", NULL };
  char text[400] = "{\"a\":\"b\",\"c\":";
  size_t len = strlen(text);

  (void)state;
  for (int i = 0; i < 60; i++)
    text[len++] = '[';
  memcpy(text + len, "\"secrets/x\"", 11);
  len += 11;
  for (int i = 0; i < 60; i++)
    text[len++] = ']';
  memcpy(text + len, "}", 2);
  check(allow, "x", CHANGES, text, QP__ASK);
  check(deny, "x", CHANGES, text, QP__DENY);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_paths_are_made_plain),
    cmocka_unit_test(test_paths_without_a_root_keep_what_leads_out),
    cmocka_unit_test(test_paths_that_are_too_long_are_refused),
    cmocka_unit_test(test_no_spelling_of_a_path_gets_around_deny),
    cmocka_unit_test(test_patterns_are_made_plain_too),
    cmocka_unit_test(test_a_wildcard_of_auto_stays_inside),
    cmocka_unit_test(test_auto_must_name_what_matters),
    cmocka_unit_test(test_what_cannot_be_looked_at_is_not_allowed),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_tool_files.c - src/tool: the registry, the workspace, and the tools that work with files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "os_fault.h"
#include "tool/workspace.h"
#include "tool_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- the list ---- */

static void
test_tools_have_all_that_a_model_and_a_page_need(void **state)
{
  static const struct {
    const char *name;
    bool changes;
  } want[] = {
    { "read_file", false },  { "list_directory", false }, { "grep", false },
    { "glob", false },       { "write_file", true },      { "edit_file", true },
    { "delete_file", true }, { "run_command", true },
  };
  struct tool_rig rig;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  assert_int_equal(qp__tools_count(rig.tools), COUNT(want));
  for (size_t i = 0; i < COUNT(want); i++) {
    const struct qp__tool *tool = qp__tools_at(rig.tools, i);
    json_t *schema = json_loads(tool->schema, 0, NULL);
    json_t *hints = json_loads(tool->ui_hints, 0, NULL);
    const char *name;
    json_t *property;

    assert_string_equal(tool->name, want[i].name);
    assert_int_equal(tool->changes, want[i].changes);
    assert_ptr_equal(qp__tools_find(rig.tools, tool->name), tool);
    assert_true(*tool->title && *tool->description);
    assert_true(json_is_object(hints));
    assert_string_equal(json_string_value(json_object_get(schema, "type")), "object");
    json_object_foreach (json_object_get(schema, "properties"), name, property)
      assert_true(json_is_string(json_object_get(property, "description")));
    json_decref(schema);
    json_decref(hints);
    assert_int_equal(qp__tools_judge(rig.tools, tool->name, "{}", NULL),
                     want[i].changes ? QP__ASK : QP__AUTO);
  }
  assert_null(qp__tools_at(rig.tools, COUNT(want)));
  assert_null(qp__tools_find(rig.tools, "no_such"));
  assert_int_equal(qp__tools_judge(rig.tools, "no_such", "{}", NULL), QP__DENY);
  assert_int_equal(qp__tools_judge(rig.tools, "grep", "[]", NULL), QP__DENY);
  tool_rig_release(&rig);
}

static void
test_wrong_calls_get_an_error_result(void **state)
{
  static const struct {
    const char *name, *arguments, *part;
  } rows[] = {
    { "no_such", "{}", "there is no tool 'no_such'" },
    { "read_file", "{", "the arguments" },
    { "read_file", "[]", "the arguments" },
    { "read_file", NULL, "\"path\" is missing" },
    { "read_file", "", "\"path\" is missing" },
    { "read_file", "{\"path\":null}", "\"path\" is missing" },
    { "read_file", "{\"path\":7}", "\"path\" must be a string" },
    { "read_file", "{\"path\":\"a\\u0000b\"}", "\"path\" must be a string without NUL" },
    { "read_file", "{\"path\":\"a\",\"offset\":0}", "\"offset\" must be from 1" },
    { "read_file", "{\"path\":\"a\",\"offset\":1.5}", "\"offset\" must be a whole number" },
    { "read_file", "{\"path\":\"a\",\"lines\":3}", "no argument \"lines\"" },
    { "grep", "{\"pattern\":\"a\",\"ignore_case\":1}", "\"ignore_case\" must be true or false" },
    { "run_command", "{\"command\":[]}", "a string or a list of strings" },
    { "run_command", "{\"command\":[\"a\",1]}", "a string or a list of strings" },
    { "run_command", "{\"command\":{}}", "\"command\" must be a string" },
    { "run_command", "{\"command\":\"\"}", "command is empty" },
  };
  struct tool_rig rig;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  for (size_t i = 0; i < COUNT(rows); i++)
    tool_fails(&rig, rows[i].name, rows[i].arguments, rows[i].part);
  tool_rig_release(&rig);
}

/* ---- paths ---- */

static void
test_paths_are_made_plain_or_refused(void **state)
{
  static const struct {
    const char *path, *plain; /* NULL: outside */
  } rows[] = {
    { "a", "a" },
    { "./a//b/", "a/b" },
    { ".", "." },
    { "a/..", "." },
    { "a/../b", "b" },
    { "a/./../b/../c", "c" },
    { "/w", "." },
    { "/w/", "." },
    { "/w/x/y", "x/y" },
    { "/w/../w/x", NULL },
    { "/wx", NULL },
    { "/", NULL },
    { "/etc/passwd", NULL },
    { "..", NULL },
    { "../w/a", NULL },
    { "a/../../b", NULL },
    { "...", "..." },
    { "..a", "..a" },
  };
  struct qp__workspace w = { .os = &qp__os_posix, .fd = -1, .path = (char *)(uintptr_t) "/w" };
  char plain[QP__WORKSPACE_PATH_MAX];

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    enum qp_rc rc = qp__workspace_plain(&w, rows[i].path, plain, NULL);

    if (rc != (rows[i].plain ? QP_OK : QP_DENIED) ||
        (rows[i].plain && strcmp(plain, rows[i].plain) != 0))
      fail_msg("'%s' became '%s' (%d)", rows[i].path, rc ? "" : plain, rc);
  }
  assert_int_equal(qp__workspace_plain(&w, "", plain, NULL), QP_INVALID);
  assert_int_equal(qp__workspace_plain(&w, "a\nb", plain, NULL), QP_INVALID);
}

/* Every tool with every way out. */
static void
test_no_tool_leaves_the_workspace(void **state)
{
  static const char *const paths[] = {
    "../secret.txt",      "/etc/hostname",     "sub/../../secret.txt", "link.txt",
    "linkdir/secret.txt", "sub/up/secret.txt", "/proc/self/environ",   "absolute/secret.txt",
  };
  static const char *const calls[][2] = {
    /* each "path" goes behind */
    { "read_file", "{\"path\":" },
    { "write_file", "{\"content\":\"gotcha\",\"path\":" },
    { "edit_file", "{\"old_string\":\"secret\",\"new_string\":\"gotcha\",\"path\":" },
    { "grep", "{\"pattern\":\"secret\",\"path\":" },
    { "list_directory", "{\"path\":" },
    { "glob", "{\"pattern\":\"*\",\"path\":" },
    { "run_command", "{\"command\":\"cat secret.txt\",\"directory\":" },
  };
  struct tool_rig rig;
  char arguments[400];

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_put(&rig, "secret.txt", "the secret");
  tool_put(&rig, "work/sub/a.txt", "inside");
  tool_link(&rig, "../secret.txt", "work/link.txt");
  tool_link(&rig, "..", "work/linkdir");
  tool_link(&rig, "../..", "work/sub/up");
  tool_link(&rig, rig.dir, "work/absolute");
  for (size_t c = 0; c < COUNT(calls); c++)
    for (size_t p = 0; p < COUNT(paths); p++) {
      struct tool_answer answer;

      (void)snprintf(arguments, sizeof(arguments), "%s\"%s\"}", calls[c][1], paths[p]);
      answer = tool_call(&rig, calls[c][0], arguments);
      if (!answer.is_error || strstr(answer.text, "the secret"))
        fail_msg("%s %s: %s", calls[c][0], arguments, answer.text);
      tool_answer_release(&answer);
    }
  assert_string_equal(tool_get(&rig, "secret.txt"), "the secret");
  /* A link itself may be deleted, never what it points at. */
  tool_works(&rig, "delete_file", "{\"path\":\"link.txt\"}", "deleted");
  tool_fails(&rig, "delete_file", "{\"path\":\"linkdir/secret.txt\"}", "link");
  tool_fails(&rig, "delete_file", "{\"path\":\"../secret.txt\"}", "outside");
  assert_string_equal(tool_get(&rig, "secret.txt"), "the secret");
  /* Looking through everything passes links by. */
  tool_works(&rig, "grep", "{\"pattern\":\"secret|inside\"}", "sub/a.txt:1: inside");
  tool_works(&rig, "grep", "{\"pattern\":\"the secret\"}", "no match");
  tool_rig_release(&rig);
}

struct swapper {
  char plain[400], link[400];
  atomic_bool stop;
};

/* "sub" is a directory inside and a link out of the workspace, by turns. */
static void *
swap_dir(void *arg)
{
  struct swapper *s = arg;

  while (!atomic_load(&s->stop)) {
    char aside[420];

    (void)snprintf(aside, sizeof(aside), "%s.aside", s->plain);
    (void)rename(s->plain, aside);
    (void)rename(s->link, s->plain);
    (void)rename(s->plain, s->link);
    (void)rename(aside, s->plain);
  }
  return NULL;
}

static void
test_a_link_swapped_in_during_the_call_leads_nowhere(void **state)
{
  struct tool_rig rig;
  struct swapper s = { .stop = false };
  pthread_t thread;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_put(&rig, "out/a.txt", "the secret");
  tool_put(&rig, "work/sub/a.txt", "inside");
  tool_link(&rig, "../out", "work/link");
  (void)snprintf(s.plain, sizeof(s.plain), "%s/sub", rig.workspace);
  (void)snprintf(s.link, sizeof(s.link), "%s/link", rig.workspace);
  assert_int_equal(pthread_create(&thread, NULL, swap_dir, &s), 0);
  for (int i = 0; i < 300; i++) {
    static const char *const calls[][2] = {
      { "read_file", "{\"path\":\"sub/a.txt\"}" },
      { "write_file", "{\"path\":\"sub/a.txt\",\"content\":\"inside\"}" },
      { "delete_file", "{\"path\":\"sub/a.txt\"}" },
      { "grep", "{\"pattern\":\"secret\"}" },
    };
    struct tool_answer answer = tool_call(&rig, calls[i % 4][0], calls[i % 4][1]);

    if (strstr(answer.text, "the secret"))
      fail_msg("%s read it", calls[i % 4][0]);
    tool_answer_release(&answer);
  }
  atomic_store(&s.stop, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(tool_get(&rig, "out/a.txt"), "the secret");
  tool_rig_release(&rig);
}

static void
test_rules_see_plain_paths(void **state)
{
  struct qp__policy policy = { 0 };
  struct tool_rig rig;
  char absolute[400];

  (void)state;
  assert_int_equal(qp__policy_add_line(&policy, "deny write_file path=\"keys/*\"", NULL), QP_OK);
  assert_int_equal(qp__policy_add_line(&policy, "auto write_file path=\"docs/*\"", NULL), QP_OK);
  tool_rig_init(&rig, (struct qp__tools_options){ .policy = &policy });
  (void)snprintf(absolute, sizeof(absolute), "{\"path\":\"%s/keys/a\"}", rig.workspace);
  assert_int_equal(qp__tools_judge(rig.tools, "write_file", absolute, NULL), QP__DENY);
#define JUDGE(path) qp__tools_judge(rig.tools, "write_file", "{\"path\":\"" path "\"}", NULL)
  assert_int_equal(JUDGE("keys/a"), QP__DENY);
  assert_int_equal(JUDGE("./keys//a"), QP__DENY);
  assert_int_equal(JUDGE("docs/../keys/a"), QP__DENY);
  assert_int_equal(JUDGE("docs/a"), QP__AUTO);
  assert_int_equal(JUDGE("docs/../a"), QP__ASK);
  tool_rig_release(&rig);
  qp__policy_release(&policy);
}

/* What a rule denies by its path is passed over where a tool comes across it by itself. */
static void
test_searches_and_lists_pass_over_what_is_denied(void **state)
{
  static const char *const lines[] = {
    "auto * path=\"secrets/public/*\"",
    "deny * path=\"secrets/*\"",
    "deny grep path=\"*.pem\"",
    "ask glob path=\"private/*\"",
  };
  struct qp__policy policy = { 0 };
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  for (size_t i = 0; i < COUNT(lines); i++)
    assert_int_equal(qp__policy_add_line(&policy, lines[i], NULL), QP_OK);
  tool_rig_init(&rig, (struct qp__tools_options){ .policy = &policy });
  tool_put(&rig, "work/a.txt", "needle\n");
  tool_put(&rig, "work/b.pem", "needle\n");
  tool_put(&rig, "work/private/c", "needle\n");
  tool_put(&rig, "work/secrets/d", "needle\n");
  tool_put(&rig, "work/secrets/deep/e", "needle\n");
  tool_put(&rig, "work/secrets/public/f", "needle\n");
  answer = tool_call(&rig, "grep", "{\"pattern\":\"needle\"}");
  assert_string_equal(answer.text,
                      "a.txt:1: needle\nprivate/c:1: needle\nsecrets/public/f:1: needle\n");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "grep", "{\"pattern\":\"needle\",\"path\":\".\",\"files\":\"d\"}");
  assert_string_equal(answer.text, "[no match]");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "glob", "{\"pattern\":\"**\"}");
  assert_string_equal(answer.text, "a.txt\nb.pem\nsecrets/public/f\n");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "list_directory", "{}");
  assert_string_equal(answer.text, "a.txt  7 bytes\nb.pem  7 bytes\nprivate/\n");
  tool_answer_release(&answer);
  tool_rig_release(&rig);
  qp__policy_release(&policy);
}

/* ---- reading ---- */

static void
test_read_file(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ .output_limit = 1000 });
  tool_put(&rig, "work/a.txt", "one\ntwo\nthree\n");
  tool_put(&rig, "work/empty", "");
  tool_put(&rig, "work/no-newline", "é\nlast");
  tool_put_bytes(&rig, "work/binary", "MZ\0\0", 4);
  tool_put_bytes(&rig, "work/latin", "caf\xe9\n", 5);
  answer = tool_call(&rig, "read_file", "{\"path\":\"a.txt\"}");
  assert_string_equal(answer.text, "one\ntwo\nthree\n");
  assert_false(answer.is_error || answer.cut);
  tool_answer_release(&answer);
  answer = tool_call(&rig, "read_file", "{\"path\":\"a.txt\",\"offset\":2,\"limit\":1}");
  assert_string_equal(answer.text, "two\n[lines 2 to 2; more follow, continue with offset 3]");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "read_file", "{\"path\":\"a.txt\",\"offset\":3,\"limit\":1}");
  assert_string_equal(answer.text, "three\n");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "read_file", "{\"path\":\"no-newline\"}");
  assert_string_equal(answer.text, "é\nlast");
  tool_answer_release(&answer);
  tool_works(&rig, "read_file", "{\"path\":\"a.txt\",\"offset\":9}", "fewer than 9 lines");
  tool_works(&rig, "read_file", "{\"path\":\"empty\"}", "the file is empty");
  tool_works(&rig, "read_file", "{\"path\":\"latin\"}", "caf\xef\xbf\xbd\n");
  tool_fails(&rig, "read_file", "{\"path\":\"binary\"}", "a binary file of 4 bytes");
  tool_fails(&rig, "read_file", "{\"path\":\"none\"}", "there is no 'none'");
  tool_fails(&rig, "read_file", "{\"path\":\".\"}", "is a directory");
  tool_rig_release(&rig);
}

static void
test_a_pipe_in_the_place_of_a_file_hangs_nobody(void **state)
{
  struct tool_rig rig;
  char path[400];

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  (void)snprintf(path, sizeof(path), "%s/pipe", rig.workspace);
  assert_int_equal(mkfifo(path, 0600), 0);
  tool_fails(&rig, "read_file", "{\"path\":\"pipe\"}", "not a regular file");
  tool_fails(&rig, "write_file", "{\"path\":\"pipe\",\"content\":\"x\"}", "cannot write");
  tool_works(&rig, "grep", "{\"pattern\":\"x\"}", "no match");
  tool_works(&rig, "list_directory", "{}", "pipe (not a file)");
  tool_rig_release(&rig);
}

static void
test_answers_are_cut_at_the_limit(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;
  char text[5000];

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ .output_limit = 1000 });
  for (size_t i = 0; i < sizeof(text) - 2; i += 2)
    memcpy(text + i, "\xc3\xa9", 2); /* é: the limit falls between characters or inside of one */
  memcpy(text + 100, "\n", 1);
  memcpy(text + 101, "x", 1);
  text[sizeof(text) - 2] = 0;
  tool_put(&rig, "work/long", text);
  for (int i = 0; i < 300; i++) {
    char name[40];

    (void)snprintf(name, sizeof(name), "work/many/file-%03d", i);
    tool_put(&rig, name, "needle\n");
  }
  answer = tool_call(&rig, "read_file", "{\"path\":\"long\"}");
  assert_true(answer.cut && !answer.is_error);
  assert_true(strlen(answer.text) < 1200);
  assert_non_null(strstr(answer.text, "[cut within line 2"));
  tool_answer_release(&answer);
  answer = tool_call(&rig, "list_directory", "{\"path\":\"many\"}");
  assert_true(answer.cut && strlen(answer.text) < 1200);
  assert_non_null(strstr(answer.text, "of 300 entries]"));
  tool_answer_release(&answer);
  answer = tool_call(&rig, "glob", "{\"pattern\":\"many/*\"}");
  assert_true(answer.cut && strlen(answer.text) < 1200);
  tool_answer_release(&answer);
  answer = tool_call(&rig, "grep", "{\"pattern\":\"needle\"}");
  assert_true(answer.cut && strlen(answer.text) < 1200);
  tool_answer_release(&answer);
  answer = tool_call(&rig, "grep", "{\"pattern\":\"needle\",\"max_results\":3}");
  assert_non_null(strstr(answer.text, "[the first 3 matches; there may be more]"));
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static void
test_list_directory_and_glob(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_put(&rig, "work/b.c", "12345");
  tool_put(&rig, "work/a/x.c", "");
  tool_put(&rig, "work/a/deep/y.h", "");
  tool_put(&rig, "work/.git/z.c", "");
  tool_link(&rig, "b.c", "work/link");
  answer = tool_call(&rig, "list_directory", NULL);
  assert_string_equal(answer.text, ".git/\na/\nb.c  5 bytes\nlink (link)\n");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "glob", "{\"pattern\":\"*.[ch]\"}");
  assert_string_equal(answer.text, "a/deep/y.h\na/x.c\nb.c\n");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "glob", "{\"pattern\":\"*.c\",\"path\":\"a\"}");
  assert_string_equal(answer.text, "a/x.c\n");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "glob", "{\"pattern\":\"a/**/*.h\"}");
  assert_string_equal(answer.text, "a/deep/y.h\n");
  tool_answer_release(&answer);
  tool_works(&rig, "glob", "{\"pattern\":\"*.py\"}", "[no file matches]");
  tool_fails(&rig, "glob", "{\"pattern\":\"*\",\"path\":\"none\"}", "there is no 'none'");
  tool_fails(&rig, "list_directory", "{\"path\":\"b.c\"}", "not a directory");
  tool_put(&rig, "work/void/x", "");
  tool_works(&rig, "delete_file", "{\"path\":\"void/x\"}", "deleted");
  tool_works(&rig, "list_directory", "{\"path\":\"void\"}", "the directory is empty");
  tool_rig_release(&rig);
}

static void
test_grep(void **state)
{
  static const struct {
    const char *arguments, *part;
  } rows[] = {
    { "{\"pattern\":\"two\"}", "a.txt:2: line two\n" },
    { "{\"pattern\":\"TWO\"}", "[no match]" },
    { "{\"pattern\":\"TWO\",\"ignore_case\":true}", "a.txt:2: line two\n" },
    { "{\"pattern\":\"(?i)TWO\"}", "a.txt:2: line two\n" },
    { "{\"pattern\":\"^line \\\\w+$\"}", "a.txt:1: line one\na.txt:2: line two\n" },
    { "{\"pattern\":\"\\\\d{3}\"}", "b.c:1: x = 123;\n" },
    { "{\"pattern\":\"(?:one|123)\"}", "a.txt:1: line one\nb.c:1:" },
    { "{\"pattern\":\"[[:digit:]]+;\"}", "b.c:1:" },
    { "{\"pattern\":\"x\",\"files\":\"*.txt\"}", "[no match]" },
    { "{\"pattern\":\"one\",\"path\":\"a.txt\"}", "a.txt:1: line one\n" },
    { "{\"pattern\":\"last$\"}", "a.txt:3: the last" },
    { "{\"pattern\":\"line (?=two)\"}", "a.txt:2: line two\n" },
    { "{\"pattern\":\"(.)\\\\1\"}", "[no match]" },
    { "{\"pattern\":\"^.{3}e .*?\\\\bone\\\\b\"}", "a.txt:1: line one\n" },
  };
  static const struct {
    const char *arguments, *part;
  } bad[] = {
    { "{\"pattern\":\"(\"}", "invalid regular expression at character 2: missing" },
    { "{\"pattern\":\"((a{100}){100}){100}\"}", "too large" },
    { "{\"pattern\":\"a\\\\\"}", "\\ at end of pattern" },
    { "{\"pattern\":\"a\",\"path\":\"none\"}", "there is no 'none'" },
  };
  struct tool_rig rig;
  char *big = calloc(1, 300001);

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_put(&rig, "work/a.txt", "line one\nline two\nthe last");
  tool_put(&rig, "work/b.c", "x = 123;\n");
  tool_put_bytes(&rig, "work/bin", "one\0two", 7);
  for (size_t i = 0; i < COUNT(rows); i++)
    tool_works(&rig, "grep", rows[i].arguments, rows[i].part);
  for (size_t i = 0; i < COUNT(bad); i++)
    tool_fails(&rig, "grep", bad[i].arguments, bad[i].part);
  /* Lines across and beyond the pieces in which a file is read; their numbers stay right. */
  assert_non_null(big);
  memset(big, 'z', 300000);
  for (size_t i = 0; i < 100000; i += 10)
    big[i] = '\n';
  big[100000] = '\n';
  big[300000 - 7] = '\n';
  memcpy(big + 300000 - 6, "needle", 6);
  tool_put(&rig, "work/big", big);
  tool_works(&rig, "grep", "{\"pattern\":\"needle\"}", "big:10003: needle");
  free(big);
  tool_rig_release(&rig);
}

/* Patterns that take exponential or cubic time, or a lot of memory, in other matchers. Each call
 * must end by itself before its timeout, and its worker thread with it: closing waits for that. */
static void
test_no_pattern_holds_a_worker(void **state)
{
  static const char *const patterns[] = {
    "(a|b)*a(a|b){990}c",
    "(a+)+c$",
    "(a*)*(a*)*(a*)*c",
    "(a|aa)+c",
    "a{0,140}a{0,140}c",
    "(.*)(.*)(.*)(.*)(.*)[^a]x",
    "(?=(a+))a*b\\\\1c",
    "(?:(?:(?:a?){50}){50}){10}c",
    "((a{1,9}){1,9}){1,9}c",
    "(a?){500}a{500}c",
    "\\\\b(\\\\w+)\\\\s*\\\\1+c",
    "(?i)(à|A)*A(a|B){400}C",
    "(((((((((((a*)*)*)*)*)*)*)*)*)*)*)*c",
    "(?R)?a",
    "(?:a(?R)?)+c",
  };
  struct tool_rig rig;
  char *line = malloc(20002);
  char text[600];

  (void)state;
  assert_non_null(line);
  memset(line, 'a', 20000);
  memcpy(line + 20000, "\n", 2);
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  line[8000] = 'c'; /* so that it is not refused for want of a 'c' */
  line[7999] = 'x';
  for (int i = 0; i < 12; i++) {
    char name[32];

    (void)snprintf(name, sizeof(name), "work/%d.txt", i);
    tool_put(&rig, name, line);
  }
  for (size_t i = 0; i < COUNT(patterns); i++) {
    struct tool_answer answer;

    (void)snprintf(text, sizeof(text), "{\"pattern\":\"%s\"}", patterns[i]);
    answer = tool_call(&rig, "grep", text);
    if (answer.outcome == QP__TOOL_TIMEOUT)
      fail_msg("%s: %s", patterns[i], answer.text);
    tool_answer_release(&answer);
  }
  tool_fails(&rig, "grep", "{\"pattern\":\"(a+)+[^a]c$\"}", "takes too long on 8 lines");
  tool_works(&rig, "grep", "{\"pattern\":\"(a+)+[^a]c$\",\"path\":\"1.txt\"}",
             "1 lines were not searched");
  free(line);
  tool_rig_release(&rig);
}

/* ---- changing ---- */

static void
test_write_edit_delete(void **state)
{
  struct tool_rig rig;
  struct stat st;
  char path[400];

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_works(&rig, "write_file", "{\"path\":\"new/deep/a.txt\",\"content\":\"one two\"}",
             "created new/deep/a.txt: 7 bytes");
  assert_string_equal(tool_get(&rig, "work/new/deep/a.txt"), "one two");
  (void)snprintf(path, sizeof(path), "%s/new/deep/a.txt", rig.workspace);
  assert_int_equal(chmod(path, 0750), 0);
  tool_works(&rig, "write_file", "{\"path\":\"new/deep/a.txt\",\"content\":\"one two two\"}",
             "replaced");
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0750);
  tool_works(&rig, "edit_file",
             "{\"path\":\"new/deep/a.txt\",\"old_string\":\"one\",\"new_string\":\"1\"}",
             "1 replacement");
  tool_fails(&rig, "edit_file",
             "{\"path\":\"new/deep/a.txt\",\"old_string\":\"two\",\"new_string\":\"2\"}",
             "2 times");
  tool_fails(&rig, "edit_file",
             "{\"path\":\"new/deep/a.txt\",\"old_string\":\"three\",\"new_string\":\"3\"}",
             "does not contain old_string");
  tool_fails(&rig, "edit_file",
             "{\"path\":\"new/deep/a.txt\",\"old_string\":\"\",\"new_string\":\"3\"}", "is empty");
  tool_fails(&rig, "edit_file",
             "{\"path\":\"new/deep/a.txt\",\"old_string\":\"1\",\"new_string\":\"1\"}", "the same");
  assert_string_equal(tool_get(&rig, "work/new/deep/a.txt"), "1 two two");
  tool_works(&rig, "edit_file",
             "{\"path\":\"new/deep/a.txt\",\"old_string\":\"two\",\"new_string\":\"\","
             "\"replace_all\":true}",
             "2 replacements");
  assert_string_equal(tool_get(&rig, "work/new/deep/a.txt"), "1  ");
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0750);
  tool_fails(&rig, "write_file", "{\"path\":\"new\",\"content\":\"\"}", "is a directory");
  tool_fails(&rig, "write_file", "{\"path\":\".\",\"content\":\"\"}", "is a directory");
  tool_fails(&rig, "write_file", "{\"path\":\"new/deep/a.txt/b\",\"content\":\"\"}",
             "not a directory");
  tool_fails(&rig, "delete_file", "{\"path\":\"new\"}", "new");
  tool_fails(&rig, "delete_file", "{\"path\":\".\"}", "cannot be deleted");
  tool_works(&rig, "delete_file", "{\"path\":\"new/deep/a.txt\"}", "deleted");
  tool_fails(&rig, "delete_file", "{\"path\":\"new/deep/a.txt\"}", "there is no");
  assert_false(tool_has(&rig, "work/new/deep/a.txt"));
  tool_rig_release(&rig);
}

/* Whatever system call fails, the old file or the new one is there, and nothing else. */
static void
test_a_write_that_fails_changes_nothing(void **state)
{
  struct qp__os_fault *fault = qp__os_fault_new(&qp__os_posix);
  struct tool_rig rig;
  bool fired = true;
  unsigned failures = 0;

  (void)state;
  assert_non_null(fault);
  tool_rig_init(&rig, (struct qp__tools_options){ .os = qp__os_fault_os(fault) });
  for (uint64_t n = 1; fired; n++) {
    struct tool_answer answer;

    tool_put(&rig, "work/a.txt", "old");
    qp__os_fault_arm(fault, n, QP__FAULT_ENOSPC, false);
    answer = tool_call(&rig, "edit_file",
                       "{\"path\":\"a.txt\",\"old_string\":\"old\",\"new_string\":\"new\"}");
    fired = qp__os_fault_fired(fault);
    qp__os_fault_disarm(fault);
    assert_string_equal(tool_get(&rig, "work/a.txt"), answer.is_error ? "old" : "new");
    failures += answer.is_error;
    tool_answer_release(&answer);
    tool_works(&rig, "glob", "{\"pattern\":\".quipu*\"}", "no file matches");
  }
  assert_true(failures >= 5);
  assert_int_equal(qp__os_fault_open_count(fault), 1); /* the workspace */
  tool_rig_release(&rig);
  qp__os_fault_free(fault);
}

/* ---- calls ---- */

static void
test_parallel_calls_all_end_once(void **state)
{
  struct tool_rig rig;
  struct tool_answer answers[200];
  size_t errors = 0;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_put(&rig, "work/a.txt", "one\n");
  for (size_t i = 0; i < COUNT(answers); i++)
    assert_non_null(
        tool_start(&rig, i % 7 ? "read_file" : "no_such", "{\"path\":\"a.txt\"}", 0, &answers[i]));
  for (size_t i = 0; i < COUNT(answers); i++)
    assert_false(answers[i].done); /* never from within the call */
  for (size_t i = 0; i < COUNT(answers); i++) {
    tool_wait(&rig, &answers[i].done);
    errors += answers[i].is_error;
    tool_answer_release(&answers[i]);
  }
  assert_int_equal(errors, (COUNT(answers) + 6) / 7);
  tool_rig_release(&rig);
}

static void
test_cancel_and_close_end_every_call(void **state)
{
  struct tool_rig rig;
  struct tool_answer answers[40];
  struct qp__tool_run *calls[40];

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  for (int i = 0; i < 500; i++) {
    char name[40];

    (void)snprintf(name, sizeof(name), "work/d%d/f", i);
    tool_put(&rig, name, "some text\n");
  }
  for (size_t i = 0; i < COUNT(answers); i++) {
    calls[i] = tool_start(&rig, i % 2 ? "grep" : "run_command",
                          i % 2 ? "{\"pattern\":\"text$\"}" : "{\"command\":\"sleep 100\"}", 0,
                          &answers[i]);
    assert_non_null(calls[i]);
  }
  for (size_t i = 0; i < COUNT(answers) / 2; i++) {
    qp__tool_run_cancel(calls[i]);
    qp__tool_run_cancel(calls[i]);
  }
  for (size_t i = 0; i < COUNT(answers) / 2; i++) {
    tool_wait(&rig, &answers[i].done);
    assert_int_equal(answers[i].outcome, QP__TOOL_CANCELLED);
    assert_true(answers[i].is_error);
  }
  tool_rig_close(&rig);
  for (size_t i = 0; i < COUNT(answers); i++) {
    assert_true(answers[i].done);
    tool_answer_release(&answers[i]);
  }
  tool_rig_remove(&rig);
}

static void
test_no_calls_while_closing(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  qp__tools_close(rig.tools, NULL, NULL);
  assert_null(tool_start(&rig, "grep", "{}", 0, &answer));
  rig.tools = NULL;
  tool_rig_release(&rig);
}

static void
test_a_workspace_must_be_there(void **state)
{
  struct qp_err err = { QP_OK, "" };
  struct tool_rig rig;

  (void)state;
  tool_rig_make(&rig);
  assert_int_equal(
      tool_rig_open(&rig, (struct qp__tools_options){ .workspace = "/no/such/place" }, &err),
      QP_NOTFOUND);
  assert_non_null(strstr(err.msg, "/no/such/place"));
  assert_int_equal(tool_rig_open(&rig, (struct qp__tools_options){ .workspace = "here" }, &err),
                   QP_INVALID);
  tool_rig_release(&rig);
}

/* Each call with every allocation of ours failing once: an answer always comes. */
static void
test_failing_allocations_never_lose_a_call(void **state)
{
  static const char *const calls[][2] = {
    { "read_file", "{\"path\":\"a.txt\"}" },
    { "list_directory", "{}" },
    { "grep", "{\"pattern\":\"o(n|x)e\"}" },
    { "glob", "{\"pattern\":\"*.txt\"}" },
    { "write_file", "{\"path\":\"b/c.txt\",\"content\":\"x\"}" },
    { "edit_file", "{\"path\":\"a.txt\",\"old_string\":\"one\",\"new_string\":\"one\\n\"}" },
    { "delete_file", "{\"path\":\"none\"}" },
    { "no_such", "{}" },
    { "read_file", "[" },
  };
  (void)state;
  for (size_t c = 0; c < COUNT(calls); c++) {
    bool fired = true;

    for (long n = 1; fired; n++) {
      struct tool_answer answer;
      struct tool_rig rig;

      tool_rig_init(&rig, (struct qp__tools_options){ 0 });
      tool_put(&rig, "work/a.txt", "one\n");
      memset(&answer, 0, sizeof(answer));
      alloc_fault_arm(n);
      if (tool_start(&rig, calls[c][0], calls[c][1], 0, &answer)) {
        while (!answer.done)
          assert_true(uv_run(&rig.loop, UV_RUN_ONCE) || answer.done);
        alloc_fault_disarm();
        assert_int_equal(answer.times, 1);
      }
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      tool_answer_release(&answer);
      tool_rig_release(&rig);
    }
  }
}

static void
test_opening_survives_failing_allocations(void **state)
{
  bool fired = true;

  (void)state;
  for (long n = 1; fired; n++) {
    struct tool_rig rig;
    enum qp_rc rc;

    tool_rig_make(&rig);
    alloc_fault_arm(n);
    rc = tool_rig_open(&rig, (struct qp__tools_options){ 0 }, NULL);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
    tool_rig_release(&rig);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_tools_have_all_that_a_model_and_a_page_need),
    cmocka_unit_test(test_wrong_calls_get_an_error_result),
    cmocka_unit_test(test_paths_are_made_plain_or_refused),
    cmocka_unit_test(test_no_tool_leaves_the_workspace),
    cmocka_unit_test(test_a_link_swapped_in_during_the_call_leads_nowhere),
    cmocka_unit_test(test_rules_see_plain_paths),
    cmocka_unit_test(test_searches_and_lists_pass_over_what_is_denied),
    cmocka_unit_test(test_read_file),
    cmocka_unit_test(test_a_pipe_in_the_place_of_a_file_hangs_nobody),
    cmocka_unit_test(test_answers_are_cut_at_the_limit),
    cmocka_unit_test(test_list_directory_and_glob),
    cmocka_unit_test(test_grep),
    cmocka_unit_test(test_no_pattern_holds_a_worker),
    cmocka_unit_test(test_write_edit_delete),
    cmocka_unit_test(test_a_write_that_fails_changes_nothing),
    cmocka_unit_test(test_parallel_calls_all_end_once),
    cmocka_unit_test(test_cancel_and_close_end_every_call),
    cmocka_unit_test(test_no_calls_while_closing),
    cmocka_unit_test(test_a_workspace_must_be_there),
    cmocka_unit_test(test_failing_allocations_never_lose_a_call),
    cmocka_unit_test(test_opening_survives_failing_allocations),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

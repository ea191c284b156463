/* test_diff.c - unified diffs: their form; applied to the old text, one gives the new text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tool/diff.h"

static struct qp_bytes
bytes(const char *s)
{
  return (struct qp_bytes){ s, strlen(s) };
}

static void
check(const char *before, const char *after, const char *wanted)
{
  struct qp__buf out;
  bool cut = true;

  qp__buf_init(&out, 1 << 20);
  assert_int_equal(
      qp__diff_unified(&out, "f", bytes(before), bytes(after), false, false, 1 << 20, &cut), QP_OK);
  assert_string_equal(out.len ? out.data : "", wanted);
  assert_false(cut);
  qp__buf_release(&out);
}

static void
test_the_form_is_that_of_diff(void **state)
{
  (void)state;
  check("a\nb\nc\n", "a\nb\nc\n", "");
  check("a\nb\nc\n", "a\nB\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
  check("", "x\n", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n");
  check("x\n", "", "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-x\n");
  check("x", "x\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n");
  check(
      "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n10\n",
      "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -6,4 +7,4 @@\n 6\n 7\n 8\n-9\n+10\n");
}

static void
test_files_that_appear_and_vanish(void **state)
{
  struct qp__buf out;
  bool cut;

  (void)state;
  qp__buf_init(&out, 1 << 20);
  assert_int_equal(qp__diff_unified(&out, "n", bytes(""), bytes("a\n"), true, false, 4096, &cut),
                   0);
  assert_string_equal(out.data, "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n");
  qp__buf_reset(&out);
  assert_int_equal(qp__diff_unified(&out, "n", bytes("a\n"), bytes(""), false, true, 4096, &cut),
                   0);
  assert_string_equal(out.data, "--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
  qp__buf_release(&out);
}

static void
test_a_long_diff_is_cut_after_a_line(void **state)
{
  char text[4001];
  struct qp__buf out;
  bool cut = false;

  (void)state;
  for (size_t i = 0; i < 4000; i += 2)
    memcpy(text + i, "x\n", 2);
  text[4000] = 0;
  qp__buf_init(&out, 1 << 20);
  assert_int_equal(qp__diff_unified(&out, "f", bytes(""), bytes(text), true, false, 500, &cut), 0);
  assert_true(cut);
  assert_true(out.len <= 500 && out.data[out.len - 1] == '\n');
  qp__buf_release(&out);
}

/* ---- applying ---- */

/* The lines of `diff` that are context or `keep`, with their line breaks; and what is between the
 * hunks is taken from `base`. */
static void
apply(const char *base, const char *diff, struct qp__buf *out)
{
  size_t line = 1;
  const char *p = diff;

  while (*p) {
    const char *end = strchr(p, '\n');
    size_t n = (size_t)(end - p);

    if (strncmp(p, "--- ", 4) == 0 || strncmp(p, "+++ ", 4) == 0) {
      /* names */
    } else if (*p == '@') {
      unsigned long from = strtoul(p + 4, NULL, 10);
      bool empty =
          strncmp(strchr(p, ' ') + 1, "-", 1) == 0 && strstr(p, ",0 +") && strstr(p, ",0 +") < end;

      from += empty;
      for (; line < from; line++) {
        const char *stop = strchr(base, '\n');

        (void)qp__buf_add(out, base, (size_t)(stop - base) + 1);
        base = stop + 1;
      }
    } else if (*p == '\\') {
      (void)0;
    } else {
      if (*p != '+') {
        const char *stop = strchr(base, '\n');

        assert_int_equal(memcmp(p + 1, base, n - 1), 0);
        base = stop ? stop + 1 : base + strlen(base);
        line++;
      }
      if (*p != '-')
        (void)qp__buf_add(out, p + 1, n);
    }
    p = end + 1;
  }
  (void)qp__buf_add_str(out, base);
}

static void
make_text(char *out, size_t lines, unsigned *seed, unsigned kinds)
{
  for (size_t i = 0; i < lines; i++) {
    *seed = *seed * 1103515245u + 12345u;
    *out++ = (char)('a' + (*seed >> 16) % kinds);
    *out++ = '\n';
  }
  *out = 0;
}

static void
test_applied_to_the_old_text_it_gives_the_new_one(void **state)
{
  char before[1000];
  char after[1000];
  unsigned seed = 1;

  (void)state;
  for (unsigned round = 0; round < 2000; round++) {
    struct qp__buf diff;
    struct qp__buf made;
    bool cut;

    make_text(before, round % 23, &seed, 2 + round % 4);
    make_text(after, (round * 7) % 29, &seed, 2 + round % 4);
    qp__buf_init(&diff, 1 << 20);
    qp__buf_init(&made, 1 << 20);
    assert_int_equal(
        qp__diff_unified(&diff, "f", bytes(before), bytes(after), false, false, 1 << 20, &cut),
        QP_OK);
    apply(before, diff.len ? diff.data : "", &made);
    assert_string_equal(made.len ? made.data : "", after);
    qp__buf_release(&diff);
    qp__buf_release(&made);
  }
}

static void
test_large_texts_that_differ_everywhere_end_soon(void **state)
{
  size_t n = 60000;
  char *before = qp__alloc(2 * n + 1);
  char *after = qp__alloc(2 * n + 1);
  struct qp__buf out;
  unsigned seed = 7;
  bool cut;

  (void)state;
  make_text(before, n, &seed, 20);
  make_text(after, n, &seed, 20);
  qp__buf_init(&out, 16 << 20);
  assert_int_equal(
      qp__diff_unified(&out, "f", bytes(before), bytes(after), false, false, 16 << 20, &cut),
      QP_OK);
  assert_true(out.len > 2 * n);
  qp__buf_release(&out);
  qp__free(before);
  qp__free(after);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_form_is_that_of_diff),
    cmocka_unit_test(test_files_that_appear_and_vanish),
    cmocka_unit_test(test_a_long_diff_is_cut_after_a_line),
    cmocka_unit_test(test_applied_to_the_old_text_it_gives_the_new_one),
    cmocka_unit_test(test_large_texts_that_differ_everywhere_end_soon),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_chunklog.c - store/log/chunklog.h: which files belong to a log, appending, and reading from
 * both ends, with lines of every length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"
#include "store/log/chunklog.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- a memory store that counts what is read ---- */

static struct qp__driver driver;
static void *self;
static uint64_t bytes_read;
static uint64_t listings;

static enum qp_rc
counting_read(void *s, const char *path, uint64_t offset, size_t n, struct qp__buf *out,
              struct qp_err *err)
{
  size_t before = out->len;
  enum qp_rc rc = qp__driver_memory.file_read(s, path, offset, n, out, err);

  bytes_read += out->len - before;
  return rc;
}

static enum qp_rc
counting_list(void *s, const char *dir, qp__file_visit *visit, void *arg, struct qp_err *err)
{
  listings++;
  return qp__driver_memory.file_list(s, dir, visit, arg, err);
}

static int
set_up(void **state)
{
  struct qp__driver_options options = { .create = true };

  (void)state;
  driver = qp__driver_memory;
  driver.file_read = counting_read;
  driver.file_list = counting_list;
  bytes_read = listings = 0;
  return driver.open("", &options, &self, NULL);
}

static int
tear_down(void **state)
{
  (void)state;
  driver.close(self);
  return 0;
}

static struct qp__chunklog
log_called(const char *name, size_t line_max)
{
  struct qp__chunklog log = { &driver, self, "dir", name, line_max };

  return log;
}

static void
published(void *arg)
{
  (void)arg;
}

static void
commit(struct qp__driver_change *changes, size_t n)
{
  void *ticket = NULL;
  struct qp_err err = { QP_OK, "" };

  assert_int_equal(driver.stage(self, changes, n, published, NULL, &ticket, &err), QP_OK);
  assert_int_equal(driver.finish(self, ticket, &err), QP_OK);
}

static void
put(const char *path, const char *text, size_t len)
{
  struct qp__driver_change ch = { .kind = QP__CHANGE_FILE_PUT,
                                  .path = path,
                                  .bytes = { text, len } };

  commit(&ch, 1);
}

static void
put_text(const char *path, const char *text)
{
  put(path, text, strlen(text));
}

/* NULL: there is no such file. */
static void
expect_file(const char *path, const char *want)
{
  struct qp__buf got;
  enum qp_rc rc;

  qp__buf_init(&got, 1 << 20);
  rc = driver.file_read(self, path, 0, 1 << 20, &got, NULL);
  assert_int_equal(rc, want ? QP_OK : QP_NOTFOUND);
  if (want)
    assert_string_equal(got.data ? got.data : "", want);
  qp__buf_release(&got);
}

/* ---- names ---- */

static void
every_file_belongs_to_one_log(void **state)
{
  static const struct {
    const char *file;
    const char *name; /* NULL: none */
    uint32_t n;
  } rows[] = {
    { "a.1.jsonl", "a", 1 },
    { "a.12.jsonl", "a", 12 },
    { "a.4294967294.jsonl", "a", 4294967294u },
    { "a.4294967295.jsonl", "a.4294967295", 0 },
    { "a.99999999999.jsonl", "a.99999999999", 0 },
    { "a.b.1.jsonl", "a.b", 1 },
    { "a.1.2.jsonl", "a.1", 2 },
    { "a.jsonl", "a", 0 },
    { "a.0.jsonl", "a.0", 0 },
    { "a.01.jsonl", "a.01", 0 },
    { "a.x.jsonl", "a.x", 0 },
    { "a.1x.jsonl", "a.1x", 0 },
    { "a.+1.jsonl", "a.+1", 0 },
    { "a.-1.jsonl", "a.-1", 0 },
    { "a. 1.jsonl", "a. 1", 0 },
    { "a..jsonl", "a.", 0 },
    { ".1.jsonl", ".1", 0 },
    { "[a-z]*?.3.jsonl", "[a-z]*?", 3 },
    { "ä b.7.jsonl", "ä b", 7 },
    { "1.jsonl", "1", 0 },
    { ".jsonl", NULL, 0 },
    { "a.1.json", NULL, 0 },
    { "a.1.jsonl.bak", NULL, 0 },
    { "a.1.JSONL", NULL, 0 },
    { "", NULL, 0 },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    size_t len = 4711;
    uint32_t n = 4711;
    bool ok = qp__chunk_split(rows[i].file, &len, &n);

    if (ok != (rows[i].name != NULL) ||
        (ok && (len != strlen(rows[i].name) || memcmp(rows[i].file, rows[i].name, len) != 0 ||
                n != rows[i].n)))
      fail_msg("'%s'", rows[i].file);
  }
}

static void
a_path_is_made_and_taken_apart(void **state)
{
  struct qp__chunklog log = log_called("x.y", 100);
  char path[QP__CHUNK_PATH];

  (void)state;
  qp__chunk_path(&log, 7, path);
  assert_string_equal(path, "dir/x.y.7.jsonl");
  qp__chunk_path(&log, 0, path);
  assert_string_equal(path, "dir/x.y.jsonl");
}

static void
the_list_has_only_the_logs_own_files(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct qp__chunk_list list;

  (void)state;
  put_text("dir/a.10.jsonl", "");
  put_text("dir/a.9.jsonl", "");
  put_text("dir/a.jsonl", "");
  put_text("dir/a.b.1.jsonl", "");
  put_text("dir/a.01.jsonl", "");
  put_text("dir/b.2.jsonl", "");
  put_text("other/a.3.jsonl", "");
  assert_int_equal(qp__chunk_list(&log, &list, NULL), QP_OK);
  assert_int_equal(list.count, 3);
  assert_int_equal(list.n[0], 0);
  assert_int_equal(list.n[1], 9);
  assert_int_equal(list.n[2], 10);
  free(list.n);
}

/* ---- appending ---- */

static struct qp__chunk_end
append(const struct qp__chunklog *log, const struct qp__chunk_end *now, const char *line,
       uint32_t capacity)
{
  struct qp_bytes bytes = { line, strlen(line) };
  struct qp__chunk_plan plan;
  struct qp_err err = { QP_OK, "" };

  assert_int_equal(qp__chunk_plan(log, now, bytes, capacity, NULL, &plan, &err), QP_OK);
  commit(plan.changes, plan.count);
  return plan.next;
}

static void
the_next_line_after_a_full_chunk_opens_the_next_one(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct qp__chunk_end end;

  (void)state;
  assert_int_equal(qp__chunk_measure(&log, QP__NO_CHUNK, &end, NULL), QP_OK);
  end = append(&log, &end, "1\n", 2);
  end = append(&log, &end, "2\n", 2);
  expect_file("dir/a.1.jsonl", "1\n2\n");
  expect_file("dir/a.2.jsonl", NULL);
  end = append(&log, &end, "3\n", 2);
  expect_file("dir/a.2.jsonl", "3\n");
  end = append(&log, &end, "4\n", 1); /* a smaller capacity counts at once */
  expect_file("dir/a.3.jsonl", "4\n");
  end = append(&log, &end, "5\n", 3); /* and so does a larger one */
  end = append(&log, &end, "6\n", 3);
  end = append(&log, &end, "7\n", 3);
  expect_file("dir/a.3.jsonl", "4\n5\n6\n");
  expect_file("dir/a.4.jsonl", "7\n");
  assert_int_equal(bytes_read, strlen("1\n2\n3\n4\n4\n5\n6\n7\n")); /* by expect_file alone */
  assert_int_equal(listings, 0);
}

static void
a_torn_line_is_cut_by_the_first_append(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct qp__chunk_end end;

  (void)state;
  put_text("dir/a.1.jsonl", "1\n2\nhalf of a line that is longer than the next");
  assert_int_equal(qp__chunk_measure(&log, 1, &end, NULL), QP_OK);
  assert_int_equal(end.lines, 2);
  assert_int_equal(end.end, 4);
  assert_int_equal(end.torn, strlen("half of a line that is longer than the next"));
  end = append(&log, &end, "3\n", 9);
  expect_file("dir/a.1.jsonl", "1\n2\n3\n");
  end = append(&log, &end, "4\n", 9);
  expect_file("dir/a.1.jsonl", "1\n2\n3\n4\n");
}

static void
a_torn_line_of_a_full_chunk_is_cut_too(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct qp__chunk_end end;

  (void)state;
  put_text("dir/a.1.jsonl", "1\n2\ntorn");
  assert_int_equal(qp__chunk_measure(&log, 1, &end, NULL), QP_OK);
  end = append(&log, &end, "3\n", 2);
  expect_file("dir/a.1.jsonl", "1\n2\n");
  expect_file("dir/a.2.jsonl", "3\n");
  assert_int_equal(end.number, 2);
}

static void
a_plan_without_a_line_only_cuts(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct qp__chunk_end end;

  (void)state;
  put_text("dir/a.1.jsonl", "1\n2\ntorn");
  assert_int_equal(qp__chunk_measure(&log, 1, &end, NULL), QP_OK);
  end = append(&log, &end, "", 2);
  expect_file("dir/a.1.jsonl", "1\n2\n");
  expect_file("dir/a.2.jsonl", NULL);
  assert_int_equal(end.lines, 2);
  assert_int_equal(end.torn, 0);
}

static void
a_log_without_chunks_becomes_chunk_1(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct qp__chunk_end end;
  struct qp__chunk_plan plan;
  struct qp_bytes copy = { "1\n2\n", 4 };
  struct qp_bytes line = { "3\n", 2 };

  (void)state;
  put_text("dir/a.jsonl", "1\n2\ntorn");
  assert_int_equal(qp__chunk_measure(&log, 0, &end, NULL), QP_OK);
  (void)append(&log, &end, "3\n", 9);
  expect_file("dir/a.jsonl", NULL);
  expect_file("dir/a.1.jsonl", "1\n2\n3\n");

  log.name = "full";
  put_text("dir/full.jsonl", "1\n2\ntorn");
  assert_int_equal(qp__chunk_measure(&log, 0, &end, NULL), QP_OK);
  (void)append(&log, &end, "3\n", 2);
  expect_file("dir/full.jsonl", NULL);
  expect_file("dir/full.1.jsonl", "1\n2\n");
  expect_file("dir/full.2.jsonl", "3\n");

  log.name = "copied";
  put_text("dir/copied.jsonl", "1\n2\ntorn");
  assert_int_equal(qp__chunk_measure(&log, 0, &end, NULL), QP_OK);
  assert_int_equal(qp__chunk_plan(&log, &end, line, 9, &copy, &plan, NULL), QP_OK);
  for (size_t i = 0; i < plan.count; i++)
    assert_int_not_equal(plan.changes[i].kind, QP__CHANGE_FILE_RENAME);
  commit(plan.changes, plan.count);
  expect_file("dir/copied.jsonl", NULL);
  expect_file("dir/copied.1.jsonl", "1\n2\n3\n");
}

static void
there_is_a_last_chunk(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct qp__chunk_end end = { .number = QP__NO_CHUNK - 1, .lines = 5, .end = 10 };
  struct qp_bytes line = { "3\n", 2 };
  struct qp__chunk_plan plan;
  struct qp_err err = { QP_OK, "" };

  (void)state;
  assert_int_equal(qp__chunk_plan(&log, &end, line, 6, NULL, &plan, &err), QP_OK);
  assert_int_equal(qp__chunk_plan(&log, &end, line, 5, NULL, &plan, &err), QP_FULL);
  assert_non_null(strstr(err.msg, "'a'"));
}

/* ---- reading ---- */

/* What a log should give: its lines, oldest first. */
struct expected {
  char **lines;
  size_t *lens;
  size_t count;
  size_t line_max;
  size_t at;
  size_t stop_after; /* 0: never */
};

static void
expect_line(struct expected *e, const struct qp__chunk_line *line, size_t i)
{
  assert_true(i < e->count);
  assert_int_equal(line->end - line->start, e->lens[i] + 1);
  if (e->lens[i] > e->line_max) {
    assert_null(line->text.data);
    return;
  }
  assert_int_equal(line->text.len, e->lens[i]);
  assert_memory_equal(line->text.data, e->lines[i], e->lens[i]);
}

static enum qp_rc
line_back(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct expected *e = arg;

  (void)err;
  expect_line(e, line, e->count - 1 - e->at++);
  *line->stop = e->at == e->stop_after;
  return QP_OK;
}

static enum qp_rc
line_forward(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct expected *e = arg;

  (void)err;
  expect_line(e, line, e->at++);
  *line->stop = e->at == e->stop_after;
  return QP_OK;
}

/* Fills the chunks of a log at random; some numbers are missing, some chunks end in a torn line. */
static uint32_t
fill(struct rng *r, const struct qp__chunklog *log, struct expected *e, size_t longest)
{
  uint32_t number = rng_below(r, 3) == 0 ? 0 : 1;
  uint32_t newest = number;
  size_t i = 0;

  do {
    char path[QP__CHUNK_PATH];
    size_t lines = rng_below(r, 6);
    struct qp__buf text;

    qp__buf_init(&text, (size_t)1 << 30);
    for (; lines && i < e->count; lines--, i++) {
      e->lens[i] = (size_t)rng_below(r, rng_below(r, 4) ? 40 : longest);
      e->lines[i] = malloc(e->lens[i] + 1);
      assert_non_null(e->lines[i]);
      memset(e->lines[i], 'a' + (int)(i % 26), e->lens[i]);
      (void)qp__buf_add(&text, e->lines[i], e->lens[i]);
      (void)qp__buf_add_char(&text, '\n');
    }
    if (rng_below(r, 4) == 0)
      for (uint64_t n = rng_below(r, 3) ? 5 : rng_below(r, longest); n; n--)
        (void)qp__buf_add_char(&text, 't');
    qp__chunk_path(log, number, path);
    put(path, text.data ? text.data : "", text.len);
    qp__buf_release(&text);
    newest = number;
    number += rng_below(r, 5) ? 1 : 1 + (uint32_t)rng_below(r, 1000000);
  } while (i < e->count);
  return newest;
}

static void
read_both_ways(struct rng *r, size_t count, size_t longest, size_t line_max)
{
  struct qp__chunklog log = log_called("r", line_max);
  struct expected e = { .count = count, .line_max = line_max };
  struct qp__chunk_list list;
  struct qp_err err = { QP_OK, "" };
  uint32_t newest;

  e.lines = calloc(count + 1, sizeof(*e.lines));
  e.lens = calloc(count + 1, sizeof(*e.lens));
  assert_true(e.lines && e.lens);
  newest = fill(r, &log, &e, longest);

  assert_int_equal(qp__chunklog_back(&log, newest, line_back, &e, &err), QP_OK);
  assert_int_equal(e.at, count);
  for (int i = 0; i < 5 && count; i++) {
    e.at = 0;
    e.stop_after = 1 + (size_t)rng_below(r, count);
    assert_int_equal(qp__chunklog_back(&log, newest, line_back, &e, &err), QP_OK);
    assert_int_equal(e.at, e.stop_after);
  }
  e.at = 0;
  e.stop_after = 0;
  assert_int_equal(qp__chunk_list(&log, &list, &err), QP_OK);
  for (size_t i = 0; i < list.count; i++) {
    struct qp__chunk_end end;
    size_t before = e.at;
    uint64_t torn = 4711;

    assert_int_equal(
        qp__chunk_forward(&log, list.n[i], 0, UINT64_MAX, line_forward, &e, &torn, &err), QP_OK);
    assert_int_equal(qp__chunk_measure(&log, list.n[i], &end, &err), QP_OK);
    assert_int_equal(end.lines, e.at - before);
    assert_int_equal(end.torn, torn);
  }
  assert_int_equal(e.at, count);
  free(list.n);
  for (size_t i = 0; i < count; i++)
    free(e.lines[i]);
  free(e.lines);
  free(e.lens);
}

static void
random_logs_read_the_same_from_both_ends(void **state)
{
  struct rng r = { test_seed(1) };

  for (int i = 0; i < (test_is_long() ? 2000 : 120); i++) {
    (void)tear_down(state);
    (void)set_up(state);
    read_both_ways(&r, (size_t)rng_below(&r, 40), 300, 1 + (size_t)rng_below(&r, 300));
    (void)tear_down(state);
    (void)set_up(state);
    read_both_ways(&r, (size_t)rng_below(&r, 20), 70000, 20000 + (size_t)rng_below(&r, 50000));
  }
  (void)tear_down(state);
  (void)set_up(state);
  read_both_ways(&r, 12, 2000000, 1000000);
}

static void
the_last_lines_cost_what_they_are_long(void **state)
{
  struct qp__chunklog log = log_called("a", 1 << 20);
  struct expected e = { .count = 20000, .line_max = 1 << 20, .stop_after = 50 };
  struct qp__buf text;
  char line[101];

  (void)state;
  memset(line, 'x', 100);
  line[100] = '\n';
  qp__buf_init(&text, 1 << 30);
  for (size_t i = 0; i < e.count; i++)
    (void)qp__buf_add(&text, line, sizeof(line));
  put("dir/a.1.jsonl", text.data, text.len);
  put("dir/a.2.jsonl", text.data, text.len);
  qp__buf_release(&text);
  e.lines = calloc(e.count, sizeof(*e.lines));
  e.lens = calloc(e.count, sizeof(*e.lens));
  for (size_t i = 0; i < e.count; i++) {
    e.lines[i] = line;
    e.lens[i] = 100;
  }
  bytes_read = 0;
  assert_int_equal(qp__chunklog_back(&log, 2, line_back, &e, NULL), QP_OK);
  assert_int_equal(e.at, 50);
  assert_true(bytes_read <= 16 << 10);
  assert_int_equal(listings, 0);
  free(e.lines);
  free(e.lens);
}

static void
a_chunk_that_is_gone_is_told(void **state)
{
  struct qp__chunklog log = log_called("a", 100);
  struct expected e = { 0 };

  (void)state;
  assert_int_equal(qp__chunklog_back(&log, 1, line_back, &e, NULL), QP_NOTFOUND);
  assert_int_equal(qp__chunk_forward(&log, 1, 0, 10, line_forward, &e, NULL, NULL), QP_NOTFOUND);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(every_file_belongs_to_one_log, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_path_is_made_and_taken_apart, set_up, tear_down),
    cmocka_unit_test_setup_teardown(the_list_has_only_the_logs_own_files, set_up, tear_down),
    cmocka_unit_test_setup_teardown(the_next_line_after_a_full_chunk_opens_the_next_one, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(a_torn_line_is_cut_by_the_first_append, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_torn_line_of_a_full_chunk_is_cut_too, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_plan_without_a_line_only_cuts, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_log_without_chunks_becomes_chunk_1, set_up, tear_down),
    cmocka_unit_test_setup_teardown(there_is_a_last_chunk, set_up, tear_down),
    cmocka_unit_test_setup_teardown(random_logs_read_the_same_from_both_ends, set_up, tear_down),
    cmocka_unit_test_setup_teardown(the_last_lines_cost_what_they_are_long, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_chunk_that_is_gone_is_told, set_up, tear_down),
  };

  return cmocka_run_group_tests_name("chunklog", tests, NULL, NULL);
}

/* test_sse.c - base/sse.h: every stream below as a whole, byte by byte and split at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sse.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static enum qp_rc
log_event(void *arg, const struct qp__sse_event *event, struct qp_err *err)
{
  struct qp__buf *log = arg;

  (void)qp__buf_addf(log, "[%.*s|%.*s]", (int)event->name.len, event->name.data,
                     (int)event->data.len, event->data.data);
  return qp__buf_check(log, "the log", err);
}

/* Cut 0 is byte by byte. */
static void
expect(const char *stream, size_t len, size_t cut, const char *want)
{
  struct qp__sse sse;
  struct qp__buf log;
  size_t at = 0;

  qp__sse_init(&sse, 1000);
  qp__buf_init(&log, 10000);
  while (at < len) {
    size_t n = cut ? (at < cut ? cut - at : len - at) : 1;
    char *copy;

    if (n > len - at)
      n = len - at;
    copy = malloc(n);
    memcpy(copy, stream + at, n);
    assert_int_equal(qp__sse_feed(&sse, (struct qp_bytes){ copy, n }, log_event, &log, NULL),
                     QP_OK);
    free(copy);
    at += n;
  }
  if (strcmp(log.data ? log.data : "", want) != 0)
    fail_msg("'%s' cut at %zu: %s and not %s", stream, cut, log.data ? log.data : "", want);
  qp__sse_release(&sse);
  qp__buf_release(&log);
}

static const struct {
  const char *stream;
  const char *want;
} cases[] = {
  { "data: a\n\n", "[|a]" },
  { "data: a\r\n\r\n", "[|a]" },
  { "data: a\r\r", "[|a]" },
  { "data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", "[|a][|b][|c]" },
  { "event: x\ndata: a\n\ndata: b\n\n", "[x|a][|b]" },
  { "event: x\nevent: y\ndata: a\n\n", "[y|a]" },
  { "data: a\ndata: b\ndata:c\n\n", "[|a\nb\nc]" },
  { "data:  two\n\n", "[| two]" },
  { "data\n\n", "[|]" },
  { "data:\n\n", "[|]" },
  { "data:\ndata:\n\n", "[|\n]" },
  { ": comment\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n", "[|a]" },
  { ":\n:\n\n\n\n", "" },
  { "event: x\n\ndata: a\n\n", "[|a]" }, /* an event without data is none, and its name is lost */
  { "id: 7\nretry: 10\nfoo: bar\ndata: a\n\n", "[|a]" },
  { "data: a: b\n\n", "[|a: b]" },
  { "dataa: x\n\ndat: y\n\n", "" },
  { "data: a", "" }, /* what the end cuts off is not told */
  { "data: a\n", "" },
  { "data: a\n\ndata: b\n", "[|a]" },
  { "\xef\xbb\xbf"
    "data: a\n\n",
    "[|a]" },
  { "\xef\xbb"
    "data: a\n\n",
    "" },
  { "\n\n\ndata: \xe2\x82\xac\n\n", "[|\xe2\x82\xac]" },
};

static void
every_stream_is_read_the_same_however_it_is_cut(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++)
    for (size_t cut = 0; cut <= strlen(cases[i].stream); cut++)
      expect(cases[i].stream, strlen(cases[i].stream), cut, cases[i].want);
}

/* Random events, written with random line ends, come back as they were. */
static void
random_streams_come_back(void **state)
{
  static const char *const ends[] = { "\n", "\r\n", "\r" };
  unsigned seed = 1;

  (void)state;
  for (int round = 0; round < 300; round++) {
    struct qp__buf stream;
    struct qp__buf want;

    qp__buf_init(&stream, 100000);
    qp__buf_init(&want, 100000);
    for (int event = rand_r(&seed) % 5; event >= 0; event--) {
      const char *end = ends[rand_r(&seed) % 3];
      int lines = 1 + rand_r(&seed) % 3;

      (void)qp__buf_add_str(&want, "[|");
      for (int i = 0; i < lines; i++) {
        unsigned number = (unsigned)rand_r(&seed) % 1000;

        if (rand_r(&seed) % 4 == 0)
          (void)qp__buf_addf(&stream, ": keep-alive%s", end);
        (void)qp__buf_addf(&stream, "data: %u%s", number, end);
        (void)qp__buf_addf(&want, "%s%u", i ? "\n" : "", number);
      }
      (void)qp__buf_add_str(&stream, end);
      (void)qp__buf_add_str(&want, "]");
    }
    expect(stream.data, stream.len, (size_t)rand_r(&seed) % (stream.len + 1), want.data);
    qp__buf_release(&stream);
    qp__buf_release(&want);
  }
}

static enum qp_rc
feed_runs(const char *first, size_t n, size_t times)
{
  struct qp__sse sse;
  struct qp__buf log;
  char run[64];
  enum qp_rc rc;

  memset(run, 'x', sizeof(run));
  qp__sse_init(&sse, 1000);
  qp__buf_init(&log, 10000);
  rc = qp__sse_feed(&sse, (struct qp_bytes){ first, n }, log_event, &log, NULL);
  for (size_t i = 0; !rc && i < times; i++)
    rc = qp__sse_feed(&sse, (struct qp_bytes){ run, sizeof(run) }, log_event, &log, NULL);
  qp__sse_release(&sse);
  qp__buf_release(&log);
  return rc;
}

static void
lines_and_events_have_a_limit(void **state)
{
  struct qp__sse sse;
  struct qp__buf log;
  enum qp_rc rc = QP_OK;

  (void)state;
  assert_int_equal(feed_runs("data: ", 6, 15), QP_OK);
  assert_int_equal(feed_runs("data: ", 6, 16), QP_TOOBIG);
  assert_int_equal(feed_runs(":", 1, 16), QP_TOOBIG);
  qp__sse_init(&sse, 1000);
  qp__buf_init(&log, 10000);
  for (int i = 0; !rc && i < 200; i++)
    rc = qp__sse_feed(&sse, (struct qp_bytes){ "data: 1234567\n", 14 }, log_event, &log, NULL);
  assert_int_equal(rc, QP_TOOBIG);
  qp__sse_release(&sse);
  qp__buf_release(&log);
}

static enum qp_rc
refuse(void *arg, const struct qp__sse_event *event, struct qp_err *err)
{
  (void)event;
  (void)err;
  ++*(int *)arg;
  return QP_STOPPED;
}

static void
a_refused_event_ends_the_feeding(void **state)
{
  struct qp__sse sse;
  int count = 0;

  (void)state;
  qp__sse_init(&sse, 1000);
  assert_int_equal(
      qp__sse_feed(&sse, (struct qp_bytes){ "data: a\n\ndata: b\n\n", 18 }, refuse, &count, NULL),
      QP_STOPPED);
  assert_int_equal(count, 1);
  qp__sse_release(&sse);
}

/* Where a stream can be taken up again: the last id and the pause, of whole lines only. */
static void
id_and_retry_outlive_the_stream(void **state)
{
  static const struct {
    const char *stream;
    const char *id;
    int64_t retry_ms;
  } told[] = {
    { "data: a\n\n", "", -1 },
    { "id: 7\nretry: 250\ndata: a\n\n", "7", 250 },
    { "id: 7\n\nid: 8\n\n", "8", -1 },
    { "id: 7\n\nid\n\n", "", -1 },
    { "id: 7\nretry: 10x\nretry:\nretry: -5\nretry: 1234567890\n\nid: 8", "7", -1 },
    { "retry: 0\n\n", "", 0 },
    { "retry: 999999999\n\n", "", 3600000 },
  };
  char longer[QP__SSE_ID + 10];

  (void)state;
  for (size_t i = 0; i < COUNT(told); i++) {
    struct qp__sse sse;
    struct qp__buf log;

    qp__sse_init(&sse, 1000);
    qp__buf_init(&log, 1000);
    for (const char *p = told[i].stream; *p; p++)
      assert_int_equal(qp__sse_feed(&sse, (struct qp_bytes){ p, 1 }, log_event, &log, NULL), QP_OK);
    qp__sse_restart(&sse);
    assert_string_equal(sse.id, told[i].id);
    assert_int_equal(sse.retry_ms, told[i].retry_ms);
    qp__buf_reset(&log);
    assert_int_equal(qp__sse_feed(&sse, (struct qp_bytes){ "\xef\xbb\xbf\ndata: b\n\n", 13 },
                                  log_event, &log, NULL),
                     QP_OK);
    assert_string_equal(log.data, "[|b]");
    assert_string_equal(sse.id, told[i].id);
    (void)snprintf(longer, sizeof(longer), "id: %0*d\n", QP__SSE_ID, 0);
    assert_int_equal(
        qp__sse_feed(&sse, (struct qp_bytes){ longer, strlen(longer) }, log_event, &log, NULL),
        QP_OK);
    assert_string_equal(sse.id, "");
    qp__sse_release(&sse);
    qp__buf_release(&log);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_stream_is_read_the_same_however_it_is_cut),
    cmocka_unit_test(random_streams_come_back),
    cmocka_unit_test(lines_and_events_have_a_limit),
    cmocka_unit_test(a_refused_event_ends_the_feeding),
    cmocka_unit_test(id_and_retry_outlive_the_stream),
  };

  return cmocka_run_group_tests_name("sse", tests, NULL, NULL);
}

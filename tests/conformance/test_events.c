/* test_events.c - the event log of a context: numbers that are never reused, windows, limits,
 * damage; and idempotency keys. */
#include <stdio.h>

#include "os_gate.h"
#include "store_test.h"

#define MILLION ((uint64_t)1000000)

/* ---- short forms ---- */

static uint64_t
append(struct qp_context *c, const char *type, const char *data)
{
  struct qp_event event = { .type = type, .data = bytes_of(data) };
  uint64_t seq = 0;

  OK(qp_events_append(c, &event, 1, &seq, NULL, NULL, &failure));
  return seq;
}

/* Appends n events "<word>" with {"i":0}, {"i":1}, … in one commit; the number of the first. */
static uint64_t
append_many(struct qp_context *c, const char *word, size_t n)
{
  struct qp_event *events = calloc(n, sizeof(*events));
  char(*data)[32] = calloc(n, sizeof(*data));
  uint64_t seq = 0;

  assert_true(events && data);
  for (size_t i = 0; i < n; i++) {
    (void)snprintf(data[i], sizeof(data[i]), "{\"i\":%zu}", i);
    events[i].type = word;
    events[i].data = bytes_of(data[i]);
  }
  OK(qp_events_append(c, events, n, &seq, NULL, NULL, &failure));
  free(events);
  free(data);
  return seq;
}

struct seen {
  char text[4000]; /* "1:state 2:delta" */
  uint64_t count;
  uint64_t last;
  bool wrong;
  enum qp_rc answer; /* of the visitor */
};

static enum qp_rc
see(void *arg, const struct qp_event_info *e)
{
  struct seen *s = arg;
  size_t n = strlen(s->text);
  json_t *o = json_loadb(e->json.data, e->json.len, 0, NULL);

  s->wrong |= !o || json_integer_value(json_object_get(o, "seq")) != (json_int_t)e->seq ||
              strcmp(json_string_value(json_object_get(o, "type")), e->type) != 0 ||
              e->seq <= s->last;
  json_decref(o);
  (void)snprintf(s->text + n, sizeof(s->text) - n, "%s%llu:%s", n ? " " : "",
                 (unsigned long long)e->seq, e->type);
  s->last = e->seq;
  s->count++;
  return s->answer;
}

static void
expect_events(struct qp_context *c, uint64_t after, uint64_t limit, const char *want)
{
  struct seen s = { .text = "", .last = after };

  OK(qp_events_read(c, after, limit, see, &s, &failure));
  assert_string_equal(s.text, want);
  assert_false(s.wrong);
}

static struct qp_event_range
range_of(struct qp_context *c)
{
  struct qp_event_range r;

  OK(qp_events_range(c, &r, &failure));
  return r;
}

static struct qp_context *
again(struct fixture *f, struct qp_context *c)
{
  struct qp_uuid id = qp_context_id(c);

  qp_context_close(c);
  reload(f);
  return open_context(f, &id);
}

/* ---- numbers and windows ---- */

static void
test_events_are_numbered_and_read_in_windows(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  uint64_t version = qp_context_version(c);

  expect_events(c, 0, 10, "");
  assert_int_equal(range_of(c).newest, 0);
  assert_int_equal(range_of(c).next, 1);
  assert_int_equal(append(c, "state", "{\"state\":\"Idle\"}"), 1);
  assert_int_equal(append_many(c, "delta", 3), 2);
  assert_int_equal(append(c, "done", ""), 5);
  expect_events(c, 0, UINT64_MAX, "1:state 2:delta 3:delta 4:delta 5:done");
  expect_events(c, 0, 2, "1:state 2:delta");
  expect_events(c, 2, 2, "3:delta 4:delta");
  expect_events(c, 4, 0, "");
  expect_events(c, 5, 9, "");
  expect_events(c, 99, 9, "");
  assert_int_equal(range_of(c).oldest, 1);
  assert_int_equal(range_of(c).newest, 5);
  assert_int_equal(range_of(c).next, 6);
  assert_true(qp_context_version(c) == version); /* the context itself has not changed */
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_a_line_has_the_form_of_the_documentation(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_event event = { .seq = 7,
                            .time = 1700000000123,
                            .type = "tool.call-1_x",
                            .data = bytes_of(" { \"b\" : [1, 2.5], \"a\":\"\\u00fc\\n\" } ") };
  char *text;
  size_t len;

  OK(qp_events_append(c, &event, 1, NULL, NULL, NULL, &failure));
  expect_events(c, 0, 9, "7:tool.call-1_x");
  qp_context_close(c);
  text = read_file(context_path(f, &id, "/events/events.1.jsonl"), &len);
  assert_string_equal(text,
                      "{\"seq\":7,\"time\":\"2023-11-14T22:13:20.123Z\",\"type\":\"tool.call-1_x\","
                      "\"b\":[1,2.5],\"a\":\"\xc3\xbc\\n\"}\n");
  free(text);
}

static void
test_what_cannot_be_an_event_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  static const struct {
    struct qp_event event;
    const char *data;
    enum qp_rc rc;
  } bad[] = {
    { { .type = NULL }, "", QP_INVALID },
    { { .type = "" }, "", QP_INVALID },
    { { .type = "a b" }, "", QP_INVALID },
    { { .type = "a\"" }, "", QP_INVALID },
    { { .type = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggggg" },
      "",
      QP_INVALID },
    { { .type = "a" }, "[]", QP_INVALID },
    { { .type = "a" }, "{", QP_INVALID },
    { { .type = "a" }, "{\"seq\":1}", QP_INVALID },
    { { .type = "a" }, "{\"x\":1,\"type\":1}", QP_INVALID },
    { { .type = "a", .time = INT64_MAX }, "", QP_INVALID },
    { { .type = "a", .seq = 1 }, "", QP_CONFLICT },
    { { .type = "a", .seq = UINT64_MAX }, "", QP_TOOBIG },
  };

  assert_int_equal(append(c, "one", ""), 1);
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct qp_event events[2] = { { .type = "good" }, bad[i].event };
    uint64_t first = 4711;

    events[1].data = bytes_of(bad[i].data);
    FAILS(qp_events_append(c, events, 2, &first, NULL, NULL, &failure), bad[i].rc);
    assert_int_equal(first, 4711);
  }
  OK(qp_events_append(c, NULL, 0, NULL, NULL, NULL, &failure));
  assert_int_equal(append(c, "two", ""), 2);
  expect_events(c, 0, 9, "1:one 2:two");
  qp_context_close(c);
}

static void
test_an_append_that_is_too_large_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  size_t n = (size_t)65 << 20;
  char *data = malloc(n + 1);
  struct qp_event event = { .type = "big" };

  assert_non_null(data);
  memset(data, 'x', n);
  memcpy(data, "{\"a\":\"", 6);
  memcpy(data + n - 2, "\"}", 3);
  event.data = bytes_of(data);
  FAILS(qp_events_append(c, &event, 1, NULL, NULL, NULL, &failure), QP_TOOBIG);
  memcpy(data + ((size_t)3 << 20) - 2, "\"}", 3);
  event.data = bytes_of(data);
  OK(qp_events_append(c, &event, 1, NULL, NULL, NULL, &failure));
  assert_int_equal(append(c, "small", ""), 2);
  expect_events(c, 0, 9, "1:big 2:small");
  free(data);
  qp_context_close(c);
}

/* Whenever the process ends: a number that was safe to tell is not given to another event. */
static void
test_numbers_go_on_behind_a_gap_after_a_load(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_event event = { .type = "own" };
  struct qp_event_range r;
  uint64_t safe;

  r = range_of(c);
  assert_true(r.next == 1 && r.safe == MILLION);
  for (int life = 0; life < 4; life++) {
    bool appends = life % 2 == 1;

    c = again(f, c);
    safe = r.safe;
    r = range_of(c);
    assert_true(r.next > safe); /* of the life before */
    assert_true(r.next > r.safe);
    assert_int_equal(r.next % MILLION, 1);
    if (!appends)
      continue; /* nobody may have been told of a number of this life */
    assert_true(append(c, "x", "") == r.next);
    r = range_of(c);
    assert_true(r.newest + 1 == r.next && r.safe == r.newest + MILLION);
  }
  event.seq = r.next + 500;
  OK(qp_events_append(c, &event, 1, NULL, NULL, NULL, &failure));
  assert_true(append(c, "next", "") == event.seq + 1);
  qp_context_close(c);
}

static enum qp_rc
stop_at_once(void *arg, const struct qp_event_info *e)
{
  (void)arg;
  (void)e;
  return QP_NOTFOUND;
}

static void
test_a_visitor_ends_the_reading_with_its_answer(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct seen s = { .answer = QP_STOPPED };

  (void)append_many(c, "x", 3);
  assert_int_equal(qp_events_read(c, 0, 9, see, &s, NULL), QP_STOPPED);
  assert_int_equal(s.count, 1);
  assert_int_equal(qp_events_read(c, 0, 9, stop_at_once, NULL, NULL), QP_NOTFOUND);
  qp_context_close(c);
}

/* ---- bounds ---- */

static void
open_small(struct fixture *f, size_t event_bytes)
{
  close_store(f);
  f->options.event_bytes = event_bytes;
  open_store(f);
}

static void
test_the_oldest_chunks_go_when_the_log_is_long(void **state)
{
  struct fixture *f = *state;
  struct qp_event_range r;
  struct qp_context *c;
  struct seen s = { .text = "" };
  uint64_t newest = 0;

  open_small(f, 8000); /* chunks of 1000 bytes */
  c = new_context(f);
  for (int i = 0; i < 200; i++) {
    newest = append_many(c, "x", 5) + 4;
    r = range_of(c);
    assert_true(r.bytes < 8 * (1000 + 400));
  }
  assert_true(r.oldest > 500 && r.newest == newest);
  FAILS(qp_events_read(c, 0, 9, see, &s, &failure), QP_NOTFOUND);
  expect_sentence("no longer stored");
  FAILS(qp_events_read(c, r.oldest - 2, 9, see, &s, &failure), QP_NOTFOUND);
  assert_int_equal(s.count, 0);
  OK(qp_events_read(c, r.oldest - 1, UINT64_MAX, see, &s, &failure));
  assert_int_equal(s.count, newest - r.oldest + 1);
  c = again(f, c);
  assert_true(range_of(c).oldest == r.oldest && range_of(c).bytes == r.bytes);
  memset(&s, 0, sizeof(s));
  OK(qp_events_read(c, newest - 3, UINT64_MAX, see, &s, &failure));
  assert_int_equal(s.count, 3);
  if (has(f, NEEDS_DIRECTORY))
    assert_int_equal(count_files(f->data, ".jsonl"), 8);
  qp_context_close(c);
  expect_no_findings(f);
}

/* A window near the end costs a chunk, not the log; an append reads nothing. */
static void
test_a_window_reads_a_chunk_and_an_append_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;

  f->options.event_bytes = (size_t)256 << 10; /* chunks of 32 KiB */
  watch_calls(f);
  c = new_context(f);
  for (int i = 0; i < 50; i++)
    (void)append_many(c, "x", 100);
  os_gate_reset();
  expect_events(c, 4990, 2, "4991:x 4992:x");
  assert_in_range(os_gate_bytes_read(), 100, 40 << 10);
  os_gate_reset();
  (void)append_many(c, "x", 100);
  assert_int_equal(os_gate_bytes_read(), 0);
  qp_context_close(c);
}

/* ---- damage ---- */

static void
test_a_torn_tail_is_cut_and_a_damaged_line_left_out(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  const char *path = context_path(f, &id, "/events/events.1.jsonl");
  struct findings found;
  char *text;
  size_t len;

  (void)append_many(c, "x", 3);
  qp_context_close(c);
  close_store(f);
  text = read_file(path, &len);
  memcpy(strstr(text, "\"i\":1"), "\"i\":,", 5);
  write_file(path, text, len);
  text = realloc(text, len + 40);
  assert_non_null(text);
  memcpy(text + len, "{\"seq\":9,\"time\":\"", 18);
  write_file(path, text, len + 17);
  open_store(f);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 2);
  assert_int_equal(found.list[0].kind, QP_PROBLEM_EVENTS_DAMAGED);
  c = open_context(f, &id);
  expect_events(c, 0, 9, "1:x 3:x");
  expect_warning(f, "half-written");
  forget_warnings(f);
  assert_true(append(c, "y", "") == 2 * MILLION + 1);
  expect_events(c, 0, 9, "1:x 3:x 2000001:y");
  qp_context_close(c);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.problems, 1);
  assert_int_equal(found.summary.repaired, 1);
  expect_no_findings(f);
  c = open_context(f, &id);
  expect_events(c, 0, 9, "1:x 3:x 2000001:y");
  qp_context_close(c);
  free(text);
}

static void
test_a_repair_cuts_a_torn_tail_and_foreign_files_are_told(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct findings found;

  (void)append(c, "x", "");
  qp_context_close(c);
  write_text(context_path(f, &id, "/events/events.2.jsonl"), "{\"se");
  write_text(context_path(f, &id, "/events/notes.txt"), "mine");
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, 1);
  (void)expect_finding(&found, QP_PROBLEM_EVENTS_DAMAGED, "events/events.2.jsonl");
  (void)expect_finding(&found, QP_PROBLEM_FOREIGN_FILE, "events/notes.txt");
  remove_file(context_path(f, &id, "/events/notes.txt"));
  expect_no_findings(f);
  c = open_context(f, &id);
  assert_true(append(c, "y", "") == 2 * MILLION + 1);
  expect_events(c, 0, 9, "1:x 2000001:y");
  qp_context_close(c);
}

static void
test_readers_in_another_store_follow(void **state)
{
  struct fixture *f = *state;
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_store *store = NULL;
  struct qp_context *reader = NULL;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_change change = { .size = sizeof(change), .key = "k", .key_result = bytes_of("1") };
  struct qp_event event = { .type = "x" };
  char *result = NULL;
  size_t len;

  OK(qp_store_open(f->data, &options, &store, &failure));
  OK(qp_context_open(store, &id, QP_LOAD_NONE, &reader, &failure));
  expect_events(reader, 0, 9, "");
  (void)append(c, "a", "");
  expect_events(reader, 0, 9, "1:a");
  (void)append(c, "b", "");
  expect_events(reader, 1, 9, "2:b");
  FAILS(qp_idempotency_find(reader, "k", &result, &len, &failure), QP_NOTFOUND);
  OK(qp_context_commit(c, &change, NULL, NULL, NULL, &failure));
  OK(qp_idempotency_find(reader, "k", &result, &len, &failure));
  qp_free(result);
  FAILS(qp_events_append(reader, &event, 1, NULL, NULL, NULL, &failure), QP_READONLY);
  qp_context_close(reader);
  qp_store_close(store);
  qp_context_close(c);
}

/* ---- with the rest of the context ---- */

static void
test_events_stay_through_all_work_on_space_and_go_with_the_context(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = NULL };
  struct qp_uuid id = qp_context_id(c);

  spec.id = id;
  (void)say(c, NULL, "one");
  (void)append_many(c, "x", 2);
  qp_context_close(c);
  OK(qp_context_archive(f->store, &id, INT64_MAX, 0, NULL, &failure));
  OK(qp_context_compress(f->store, &id, 0, NULL, &failure));
  OK(qp_context_decompress(f->store, &id, 0, NULL, &failure));
  OK(qp_context_gc(f->store, &id, 0, 0, NULL, &failure));
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  expect_no_findings(f);
  c = open_context(f, &id);
  expect_events(c, 0, 9, "1:x 2:x");
  qp_context_close(c);
  OK(qp_context_delete(f->store, &id, &failure));
  OK(qp_context_create(f->store, &spec, &c, &failure));
  expect_events(c, 0, 9, "");
  assert_int_equal(append(c, "new", ""), 1);
  qp_context_close(c);
  c = NULL;
  reload(f);
  c = open_context(f, &id);
  expect_events(c, 0, 9, "1:new");
  qp_context_close(c);
}

/* ---- keys ---- */

static enum qp_rc
use_key(struct qp_context *c, const char *key, const char *result, unsigned flags)
{
  struct qp_change change = { .size = sizeof(change), .flags = flags, .key = key };

  change.key_result = bytes_of(result);
  return qp_context_commit(c, &change, NULL, NULL, NULL, &failure);
}

static void
expect_result(struct qp_context *c, const char *key, const char *want)
{
  char *result = NULL;
  size_t len = 0;

  if (!want) {
    FAILS(qp_idempotency_find(c, key, &result, &len, &failure), QP_NOTFOUND);
    return;
  }
  OK(qp_idempotency_find(c, key, &result, &len, &failure));
  assert_int_equal(len, strlen(want));
  assert_string_equal(result, want);
  qp_free(result);
}

static void
test_a_key_is_used_once_and_its_result_survives(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  char long_key[300];

  memset(long_key, 'k', sizeof(long_key));
  long_key[256] = 0;
  expect_result(c, "a", NULL);
  OK(use_key(c, "a", " {\"ok\": true} ", 0));
  FAILS(use_key(c, "a", "1", 0), QP_EXISTS);
  expect_result(c, "a", "{\"ok\":true}");
  OK(use_key(c, "\"\xc3\xbc\\ ", "null", QP_CHANGE_NEW_RESULT));
  expect_result(c, "\"\xc3\xbc\\ ", "null");
  FAILS(use_key(c, "", "1", 0), QP_INVALID);
  FAILS(use_key(c, "a\n", "1", 0), QP_INVALID);
  FAILS(use_key(c, "b", "", 0), QP_INVALID);
  FAILS(use_key(c, long_key, "1", 0), QP_TOOBIG);
  long_key[255] = 0;
  OK(use_key(c, long_key, "1", 0));
  c = again(f, c);
  expect_result(c, "a", "{\"ok\":true}");
  expect_result(c, long_key, "1");
  FAILS(use_key(c, "a", "1", 0), QP_EXISTS);
  OK(use_key(c, "a", "[2]", QP_CHANGE_NEW_RESULT));
  expect_result(c, "a", "[2]");
  c = again(f, c);
  expect_result(c, "a", "[2]");
  expect_result(c, "b", NULL);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_keys_are_bounded_in_number(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  char key[32];

  OK(use_key(c, "kept", "0", 0));
  for (int i = 0; i < 2600; i++) {
    (void)snprintf(key, sizeof(key), "k%d", i);
    OK(use_key(c, key, "1", 0));
    if (i == 1200)
      OK(use_key(c, "kept", "2", QP_CHANGE_NEW_RESULT));
  }
  for (int round = 0; round < 2; round++) {
    expect_result(c, "k2599", "1");
    expect_result(c, "k1200", "1");
    expect_result(c, "kept", "2");
    expect_result(c, "k500", NULL);
    c = again(f, c);
  }
  if (has(f, NEEDS_DIRECTORY))
    assert_int_equal(count_files(f->data, ".jsonl"), 4);
  OK(use_key(c, "k0", "3", 0)); /* long forgotten */
  expect_result(c, "k0", "3");
  qp_context_close(c);
}

static int64_t clock_shift;

static int64_t
shifted_clock(void *self)
{
  return qp__os_posix.now_ms(self) + clock_shift;
}

static void
test_a_key_is_kept_for_a_day(void **state)
{
  struct fixture *f = *state;
  struct qp__os os = qp__os_posix;
  struct qp_context *c;

  os.now_ms = shifted_clock;
  clock_shift = 0;
  close_store(f);
  f->os = &os;
  open_store(f);
  c = new_context(f);
  OK(use_key(c, "a", "1", 0));
  clock_shift = (int64_t)23 * 3600 * 1000;
  expect_result(c, "a", "1");
  FAILS(use_key(c, "a", "2", 0), QP_EXISTS);
  clock_shift = (int64_t)25 * 3600 * 1000;
  expect_result(c, "a", NULL);
  OK(use_key(c, "a", "2", 0));
  expect_result(c, "a", "2");
  c = again(f, c);
  expect_result(c, "a", "2");
  FAILS(use_key(c, "a", "3", 0), QP_EXISTS);
  qp_context_close(c);
  close_store(f);
  f->os = &qp__os_posix;
  open_store(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_events_are_numbered_and_read_in_windows),
    needs(test_a_line_has_the_form_of_the_documentation, NEEDS_DIRECTORY),
    cmocka_unit_test(test_what_cannot_be_an_event_changes_nothing),
    cmocka_unit_test(test_an_append_that_is_too_large_changes_nothing),
    cmocka_unit_test(test_numbers_go_on_behind_a_gap_after_a_load),
    cmocka_unit_test(test_a_visitor_ends_the_reading_with_its_answer),
    cmocka_unit_test(test_the_oldest_chunks_go_when_the_log_is_long),
    needs(test_events_stay_through_all_work_on_space_and_go_with_the_context, NEEDS_PACK),
    cmocka_unit_test(test_a_key_is_used_once_and_its_result_survives),
    cmocka_unit_test(test_keys_are_bounded_in_number),
    cmocka_unit_test(test_a_key_is_kept_for_a_day),
  };
  const struct CMUnitTest on_files[] = {
    cmocka_unit_test(test_a_window_reads_a_chunk_and_an_append_nothing),
    cmocka_unit_test(test_a_torn_tail_is_cut_and_a_damaged_line_left_out),
    cmocka_unit_test(test_a_repair_cuts_a_torn_tail_and_foreign_files_are_told),
    cmocka_unit_test(test_readers_in_another_store_follow),
  };
  int failed = run_on_all("events", tests, COUNT(tests));

  return failed + run_on_files("events in files", on_files, COUNT(on_files));
}

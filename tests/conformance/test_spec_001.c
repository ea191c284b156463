/* test_spec_001.c - session chunking: every row and sentence of the specification, with every
 * driver, and each bug of the program from which the format comes. */
#include "sessions.h"

/* A session's message as the old program wrote it. */
#define OLD(role, content)                                            \
  "{\"timestamp\": \"2026-02-03T10:20:30.123456\", \"role\": \"" role \
  "\", \"content\": \"" content "\", \"tool_calls\": null, \"tool_call_id\": null}\n"

/* ---- the file structure ---- */

/* "Naming convention: session-{id}.{index}.jsonl. Index always present (even for first chunk)." */
static void
create_session_creates_chunk_1(void **state)
{
  struct fixture *f = *state;
  char *text;

  new_session(f, "abc-123", 3);
  text = dig(f, "session-abc-123.1.jsonl");
  assert_string_equal(text, "");
  free(text);
  assert_null(dig(f, "session-abc-123.jsonl"));
  expect_chunks(f, "abc-123", "1:0");
}

/* "Split each session into multiple chunk files. Each chunk holds up to N messages." */
static void
chunks_hold_as_many_messages_as_they_may(void **state)
{
  struct fixture *f = *state;

  new_session(f, "abc-123", 3);
  tell_many(f, "abc-123", "m", 8);
  expect_chunks(f, "abc-123", "1:3 2:3 3:2");
  expect_window(f, "abc-123", 100, "m1 m2 m3 m4 m5 m6 m7 m8");
}

/* "Session ID stays stable." */
static void
the_id_never_changes(void **state)
{
  struct fixture *f = *state;

  new_session(f, "abc-123", 1);
  tell_many(f, "abc-123", "m", 5);
  expect_sessions(f, "abc-123");
  assert_string_equal(session_info(f, "abc-123").id, "abc-123");
}

/* ---- behaviour ---- */

/* "Append to newest chunk. If chunk has N messages, create .{n+1}.jsonl" */
static void
write_message_appends_to_the_newest_chunk(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 3);
  tell_many(f, "s", "m", 3);
  expect_chunks(f, "s", "1:3"); /* a full chunk stays current until the next message */
  assert_int_equal(session_info(f, "s").chunks, 1);
  tell(f, "s", "user", "m4");
  expect_chunks(f, "s", "1:3 2:1");
  assert_int_equal(session_info(f, "s").chunks, 2);
}

/* "Load from newest chunk(s) backwards until max_history messages total" */
static void
read_messages_goes_backwards_over_chunks(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 2);
  tell_many(f, "s", "m", 5);
  expect_window(f, "s", 1, "m5");
  expect_window(f, "s", 2, "m4 m5");
  expect_window(f, "s", 3, "m3 m4 m5");
  expect_window(f, "s", 4, "m2 m3 m4 m5");
  expect_window(f, "s", 5, "m1 m2 m3 m4 m5");
  expect_window(f, "s", UINT64_MAX, "m1 m2 m3 m4 m5");
}

/* "Resume session: same as read" and "only load what's needed" */
static void
resume_session_loads_only_what_is_needed(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 4);
  tell_many(f, "s", "m", 12);
  if (!has(f, NEEDS_DIRECTORY)) {
    forget_sessions(f);
    expect_window(f, "s", 2, "m11 m12");
    return;
  }
  watch_calls(f);
  expect_window(f, "s", 0, "");
  count_calls_to(f, "session-s.");
  expect_window(f, "s", 2, "m11 m12");
  assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 2); /* found, and read */
  count_calls_to(f, "session-s.1.");
  expect_window(f, "s", 8, "m5 m6 m7 m8 m9 m10 m11 m12");
  assert_int_equal(calls_of(f, QP__SLOT__MAX), 0);
  tell(f, "s", "user", "m13");
  expect_window(f, "s", 2, "m12 m13");
}

/* "Scan for existing chunks, return highest index" */
static void
the_highest_index_is_current_after_a_restart(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 2);
  tell_many(f, "s", "a", 3);
  forget_sessions(f);
  tell_many(f, "s", "b", 2);
  expect_chunks(f, "s", "1:2 2:2 3:1");
  expect_window(f, "s", 9, "a1 a2 a3 b1 b2");
}

/* "Add chunk_count to avoid a filesystem scan" */
static void
the_index_knows_messages_and_chunks(void **state)
{
  struct fixture *f = *state;
  struct qp_session_info info;

  new_session(f, "s", 2);
  tell_many(f, "s", "m", 5);
  info = session_info(f, "s");
  assert_int_equal(info.messages, 5);
  assert_int_equal(info.chunks, 3);
  assert_int_equal(info.chunk_size, 2);
}

/* ---- migration ---- */

/* "session-abc-123.jsonl -> session-abc-123.1.jsonl" */
static void
an_existing_file_becomes_chunk_1(void **state)
{
  struct fixture *f = *state;
  char *text;

  plant(f, "session-abc-123.jsonl", OLD("user", "hello") OLD("assistant", "hi"));
  forget_sessions(f);
  expect_window(f, "abc-123", 9, "hello hi"); /* a reader takes it as it is */
  expect_chunks(f, "abc-123", "0:2");
  tell(f, "abc-123", "user", "bye"); /* a writer takes it over */
  expect_chunks(f, "abc-123", "1:3");
  assert_null(dig(f, "session-abc-123.jsonl"));
  text = dig(f, "session-abc-123.1.jsonl");
  assert_memory_equal(text, OLD("user", "hello") OLD("assistant", "hi"),
                      strlen(OLD("user", "hello") OLD("assistant", "hi")));
  free(text);
  expect_window(f, "abc-123", 9, "hello hi bye");
  assert_int_equal(session_info(f, "abc-123").messages, 3);
}

static void
an_existing_file_that_is_full_gets_a_second_chunk(void **state)
{
  struct fixture *f = *state;

  plant(f, "index.jsonl",
        "{\"id\": \"old\", \"agent_id\": \"bot\", \"source\": \"cli\", \"title\": "
        "null, \"message_count\": 2, \"created_at\": "
        "\"2026-02-03T10:20:30.123456\", \"updated_at\": "
        "\"2026-02-03T10:20:31.5\", \"max_history\": 2}\n");
  plant(f, "session-old.jsonl", OLD("user", "one") OLD("user", "two"));
  forget_sessions(f);
  assert_int_equal(session_info(f, "old").chunk_size, 2); /* what it had one number for */
  tell(f, "old", "user", "three");
  expect_chunks(f, "old", "1:2 2:1");
  expect_window(f, "old", 9, "one two three");
}

/* A session was deleted, and then another program puts its old file back: the journal may still
 * hold the deletion, so that the file cannot be renamed to a name that the journal knows. */
static void
an_existing_file_is_taken_over_after_a_deletion_too(void **state)
{
  struct fixture *f = *state;

  new_session(f, "back", 5);
  tell(f, "back", "user", "new");
  OK(qp_session_delete(f->store, "back", &failure));
  plant(f, "session-back.jsonl", OLD("user", "old") "torn");
  FAILS(append_json(f, "back", "{\"role\":\"user\",\"content\":\"x\"}"), QP_NOTFOUND);
  if (f->driver->durable)
    return; /* without a restart the store does not look */
  forget_sessions(f);
  tell(f, "back", "user", "newer");
  expect_chunks(f, "back", "1:2");
  expect_window(f, "back", 9, "old newer");
}

/* ---- what its tests expect (legacy.md) ---- */

static void
capacity_3_and_4_messages_give_3_and_1(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 3);
  tell_many(f, "s", "m", 4);
  expect_chunks(f, "s", "1:3 2:1");
}

static void
gaps_are_tolerated(void **state)
{
  struct fixture *f = *state;

  plant(f, "session-g.1.jsonl", OLD("user", "one"));
  plant(f, "session-g.3.jsonl", OLD("user", "three"));
  plant(f, "session-g.5.jsonl", OLD("user", "five"));
  forget_sessions(f);
  expect_window(f, "g", 2, "three five");
  expect_window(f, "g", 9, "one three five");
  tell(f, "g", "user", "six");
  expect_chunks(f, "g", "1:1 3:1 5:2");
  expect_window(f, "g", 9, "one three five six");
}

static void
reading_2_of_5_gives_the_last_two_oldest_first(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 100);
  tell_many(f, "s", "m", 5);
  expect_window(f, "s", 2, "m4 m5");
}

static void
reading_more_than_there_are_gives_all(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 100);
  tell_many(f, "s", "m", 5);
  expect_window(f, "s", 6, "m1 m2 m3 m4 m5");
}

static void
an_unknown_session_reads_as_empty_but_a_write_to_it_fails(void **state)
{
  struct fixture *f = *state;

  expect_window(f, "nobody", 50, "");
  FAILS(append_json(f, "nobody", "{\"role\":\"user\",\"content\":\"x\"}"), QP_NOTFOUND);
  expect_sentence("nobody");
  FAILS(qp_session_set_chunk_size(f->store, "nobody", 5, &failure), QP_NOTFOUND);
  FAILS(qp_session_delete(f->store, "nobody", &failure), QP_NOTFOUND);
  expect_sessions(f, "");
}

static void
the_title_is_the_first_user_message_50_characters(void **state)
{
  struct fixture *f = *state;
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec),
                                  .id = "named",
                                  .title = "My own" };

  new_session(f, "s", 100);
  tell(f, "s", "system", "be terse");
  assert_null(session_info(f, "s").title);
  tell(f, "s", "user", "äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€and more");
  tell(f, "s", "user", "another one");
  assert_string_equal(session_info(f, "s").title,
                      "äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€äöüß€");
  OK(qp_session_create(f->store, &spec, NULL, &failure));
  tell(f, "named", "user", "hello");
  assert_string_equal(session_info(f, "named").title, "My own");
}

static void
messages_are_stored_with_their_keys_in_order_and_nulls(void **state)
{
  struct fixture *f = *state;
  char *text;

  new_session(f, "s", 100);
  OK(append_json(f, "s",
                 "{\"x\":1,\"content\":\"hi\",\"role\":\"User\","
                 "\"timestamp\":\"2026-02-03T10:20:30.123456\"}"));
  OK(append_json(f, "s",
                 "{\"role\":\"assistant\",\"timestamp\":\"2026-02-03T10:20:30Z\",\"content\":null,"
                 "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":"
                 "{\"name\":\"ls\",\"arguments\":\"{}\"}}]}"));
  OK(append_json(f, "s",
                 "{\"role\":\"tool\",\"timestamp\":\"2026-02-03T10:20:30Z\",\"content\":\"a\","
                 "\"tool_call_id\":\"c1\"}"));
  text = lines_of(f, "s", 9);
  assert_string_equal(
      text, "{\"timestamp\":\"2026-02-03T10:20:30.123456\",\"role\":\"user\",\"content\":\"hi\","
            "\"tool_calls\":null,\"tool_call_id\":null,\"x\":1}\n"
            "{\"timestamp\":\"2026-02-03T10:20:30Z\",\"role\":\"assistant\",\"content\":null,"
            "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"ls\","
            "\"arguments\":\"{}\"}}],\"tool_call_id\":null}\n"
            "{\"timestamp\":\"2026-02-03T10:20:30Z\",\"role\":\"tool\",\"content\":\"a\","
            "\"tool_calls\":null,\"tool_call_id\":\"c1\"}\n");
  free(text);
}

static void
old_index_lines_are_read_as_they_are(void **state)
{
  struct fixture *f = *state;
  struct qp_session_info info;
  char *text;

  plant(f, "index.jsonl",
        "{\"id\": \"old\", \"agent_id\": \"bot\", \"source\": \"cli\", \"title\": null, "
        "\"message_count\": 1, \"created_at\": \"2026-02-03T10:20:30.123456\", \"updated_at\": "
        "\"2026-02-03T10:20:31.5\", \"mood\": \"good\"}\n"
        "{\"id\": \"bare\"}\n");
  plant(f, "session-old.1.jsonl", OLD("user", "one"));
  forget_sessions(f);
  info = session_info(f, "old");
  assert_string_equal(info.agent_id, "bot");
  assert_string_equal(info.source, "cli");
  assert_null(info.title);
  assert_int_equal(info.messages, 1);
  assert_int_equal(info.chunk_size, 512);
  assert_int_equal(info.created_at, 1770114030123);
  info = session_info(f, "bare");
  assert_int_equal(info.messages, 0);
  assert_int_equal(info.created_at, 0);
  expect_sessions(f, "old bare");
  tell(f, "old", "user", "two");
  text = dig(f, "index.jsonl");
  /* its creation stays as it was written, and so does what we do not know */
  assert_non_null(strstr(text, "\"message_count\":2,\"chunk_count\":1,\"chunk_size\":512,"
                               "\"created_at\":\"2026-02-03T10:20:30.123456\",\"updated_at\""));
  assert_non_null(strstr(text, ",\"mood\":\"good\",\"quipu_sum\":\""));
  free(text);
}

/* ---- its faults (legacy.md section 7) ---- */

static void
fault_limit_0_returned_everything(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 2);
  tell_many(f, "s", "m", 5);
  expect_window(f, "s", 0, "");
}

static void
fault_session_a_also_matched_files_of_a_b(void **state)
{
  struct fixture *f = *state;

  new_session(f, "a", 2);
  new_session(f, "a.b", 2);
  new_session(f, "a.1", 2);
  new_session(f, "[a]*?", 2);
  tell_many(f, "a.b", "ab", 3);
  tell_many(f, "a.1", "a1", 3);
  tell_many(f, "[a]*?", "glob", 3);
  tell(f, "a", "user", "mine");
  forget_sessions(f);
  expect_chunks(f, "a", "1:1");
  expect_chunks(f, "a.b", "1:2 2:1");
  expect_chunks(f, "a.1", "1:2 2:1");
  expect_chunks(f, "[a]*?", "1:2 2:1");
  expect_window(f, "a", 9, "mine");
  expect_window(f, "a.b", 9, "ab1 ab2 ab3");
  expect_window(f, "a.1", 9, "a11 a12 a13");
  expect_window(f, "[a]*?", 9, "glob1 glob2 glob3");
  OK(qp_session_delete(f->store, "a", &failure));
  expect_window(f, "a.b", 9, "ab1 ab2 ab3");
  expect_window(f, "a.1", 9, "a11 a12 a13");
}

static void
fault_a_non_numeric_suffix_crashed_it(void **state)
{
  struct fixture *f = *state;

  plant(f, "session-s.1.jsonl", OLD("user", "one"));
  plant(f, "session-s.old.jsonl", OLD("user", "no chunk"));
  plant(f, "session-s.01.jsonl", OLD("user", "no chunk"));
  plant(f, "session-s.-1.jsonl", OLD("user", "no chunk"));
  plant(f, "session-s.99999999999.jsonl", OLD("user", "no chunk"));
  plant(f, "session-s..jsonl", OLD("user", "no chunk"));
  forget_sessions(f);
  expect_window(f, "s", 9, "one");
  tell(f, "s", "user", "two");
  expect_chunks(f, "s", "1:2");
}

/* "The index was rewritten whole at every message, in place, without a lock." */
static void
fault_the_index_was_rewritten_at_every_message(void **state)
{
  struct fixture *f = *state;
  char *before;
  char *after;

  for (int i = 0; i < 20; i++)
    new_session(f, pathf("s%d", i), 100);
  before = dig(f, "index.jsonl");
  tell(f, "s7", "user", "x");
  after = dig(f, "index.jsonl");
  assert_memory_equal(before, after, strlen(before)); /* appended, and one line */
  assert_int_equal(strcspn(after + strlen(before), "\n") + 1, strlen(after) - strlen(before));
  free(before);
  free(after);
}

static void
fault_a_corrupt_index_line_was_skipped_and_lost(void **state)
{
  struct fixture *f = *state;
  const char *bad = "{\"id\": \"half\n";
  char *text;

  plant(f, "index.jsonl", pathf("%s{\"id\":\"s\",\"message_count\":0}\n\xff\n", bad));
  plant(f, "session-s.1.jsonl", "");
  forget_sessions(f);
  for (int i = 0; i < 3000; i++) /* more than one compaction */
    tell(f, "s", "user", "x");
  text = dig(f, "index.jsonl");
  assert_true(strlen(text) < 600000);
  assert_memory_equal(text, bad, strlen(bad));
  assert_non_null(strstr(text, "\n\xff\n"));
  free(text);
  assert_int_equal(session_info(f, "s").messages, 3000);
}

/* "The number of messages was counted by re-reading the chunk at each save." */
static void
fault_an_append_read_the_chunk_again(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 1000);
  tell_many(f, "s", "m", 100);
  watch_calls(f);
  tell(f, "s", "user", "first");
  count_calls_to(f, "sessions");
  tell(f, "s", "user", "second");
  assert_int_equal(calls_of(f, QP__SLOT_PREAD), 0);
  assert_int_equal(calls_of(f, QP__SLOT_LISTDIR), 0);
  assert_int_equal(calls_of(f, QP__SLOT_FSTAT) + calls_of(f, QP__SLOT_FSTATAT), 0);
}

#define CALLS(id)                                                          \
  "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"" id \
  "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}"
#define RESULT(id) "{\"role\":\"tool\",\"content\":\"" id "\",\"tool_call_id\":\"" id "\"}"

static void
fault_a_window_began_with_a_result_whose_call_was_cut_off(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 2);
  tell(f, "s", "user", "q");
  OK(append_json(f, "s", CALLS("c1")));
  OK(append_json(f, "s", RESULT("c1")));
  OK(append_json(f, "s", RESULT("c2")));
  tell(f, "s", "assistant", "a");
  expect_window(f, "s", 1, "a");
  expect_window(f, "s", 2, "a");
  expect_window(f, "s", 3, "a");
  expect_window(f, "s", 4, "null c1 c2 a");
  expect_window(f, "s", 5, "q null c1 c2 a");
  new_session(f, "t", 2); /* a result that is the first of all has no call that were left out */
  OK(append_json(f, "t", RESULT("c0")));
  tell(f, "t", "user", "q");
  expect_window(f, "t", 1, "q");
  expect_window(f, "t", 2, "c0 q");
  expect_window(f, "t", 9, "c0 q");
  OK(append_json(f, "t", RESULT("c1")));
  expect_window(f, "t", 1, ""); /* nothing but a result */
}

/* "One number served as chunk size, read window and model limit until that had to be undone." */
static void
fault_one_number_was_chunk_size_and_window(void **state)
{
  struct fixture *f = *state;

  new_session(f, "s", 3);
  tell_many(f, "s", "a", 4);
  expect_window(f, "s", 4, "a1 a2 a3 a4");
  OK(qp_session_set_chunk_size(f->store, "s", 1, &failure));
  tell_many(f, "s", "b", 2);
  OK(qp_session_set_chunk_size(f->store, "s", 4, &failure));
  forget_sessions(f);
  tell_many(f, "s", "c", 4);
  expect_chunks(f, "s", "1:3 2:1 3:1 4:4 5:1");
  expect_window(f, "s", 7, "a4 b1 b2 c1 c2 c3 c4");
  assert_int_equal(session_info(f, "s").chunk_size, 4);
  assert_int_equal(session_info(f, "s").messages, 10);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(create_session_creates_chunk_1),
    cmocka_unit_test(chunks_hold_as_many_messages_as_they_may),
    cmocka_unit_test(the_id_never_changes),
    cmocka_unit_test(write_message_appends_to_the_newest_chunk),
    cmocka_unit_test(read_messages_goes_backwards_over_chunks),
    cmocka_unit_test(resume_session_loads_only_what_is_needed),
    cmocka_unit_test(the_highest_index_is_current_after_a_restart),
    cmocka_unit_test(the_index_knows_messages_and_chunks),
    cmocka_unit_test(an_existing_file_becomes_chunk_1),
    cmocka_unit_test(an_existing_file_that_is_full_gets_a_second_chunk),
    cmocka_unit_test(an_existing_file_is_taken_over_after_a_deletion_too),
    cmocka_unit_test(capacity_3_and_4_messages_give_3_and_1),
    cmocka_unit_test(gaps_are_tolerated),
    cmocka_unit_test(reading_2_of_5_gives_the_last_two_oldest_first),
    cmocka_unit_test(reading_more_than_there_are_gives_all),
    cmocka_unit_test(an_unknown_session_reads_as_empty_but_a_write_to_it_fails),
    cmocka_unit_test(the_title_is_the_first_user_message_50_characters),
    cmocka_unit_test(messages_are_stored_with_their_keys_in_order_and_nulls),
    cmocka_unit_test(old_index_lines_are_read_as_they_are),
    cmocka_unit_test(fault_limit_0_returned_everything),
    cmocka_unit_test(fault_session_a_also_matched_files_of_a_b),
    cmocka_unit_test(fault_a_non_numeric_suffix_crashed_it),
    cmocka_unit_test(fault_the_index_was_rewritten_at_every_message),
    cmocka_unit_test(fault_a_corrupt_index_line_was_skipped_and_lost),
    needs(fault_an_append_read_the_chunk_again, NEEDS_DIRECTORY),
    cmocka_unit_test(fault_a_window_began_with_a_result_whose_call_was_cut_off),
    cmocka_unit_test(fault_one_number_was_chunk_size_and_window),
  };

  return run_on_all("spec_001", tests, COUNT(tests));
}

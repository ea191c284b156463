/* test_sessions.c - sessions beyond their specification (test_spec_001.c): invalid input, damage
 * and repair, several readers and writers, and random operations compared with a model. */
#include <stdatomic.h>
#include <stdio.h>

#include "session_model.h"
#include "sessions.h"
#include "store/session/session_int.h"

/* ---- what is refused ---- */

static void
ids_are_checked(void **state)
{
  static const char *const bad[] = { "", "a/b", "a\nb", "a\x7f", "a\xc2\x85", "\xff", "../../x" };
  struct fixture *f = *state;
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec) };
  char longest[130];
  char *id = NULL;

  for (size_t i = 0; i < COUNT(bad); i++) {
    spec.id = bad[i];
    FAILS(qp_session_create(f->store, &spec, NULL, &failure), QP_INVALID);
    FAILS(append_json(f, bad[i], "{\"role\":\"user\",\"content\":\"x\"}"), QP_INVALID);
  }
  memset(longest, '%', 129);
  longest[129] = 0;
  spec.id = longest;
  FAILS(qp_session_create(f->store, &spec, NULL, &failure), QP_INVALID);
  longest[128] = 0;
  OK(qp_session_create(f->store, &spec, &id, &failure));
  assert_string_equal(id, longest);
  qp_free(id);
  tell(f, longest, "user", "x");
  forget_sessions(f);
  expect_window(f, longest, 9, "x");
  spec.id = ".."; /* no address of the server could name it */
  FAILS(qp_session_create(f->store, &spec, NULL, &failure), QP_INVALID);
  spec.id = "...";
  OK(qp_session_create(f->store, &spec, NULL, &failure));
  FAILS(qp_session_create(f->store, &spec, NULL, &failure), QP_EXISTS);
  expect_sentence("...");
  spec.id = NULL;
  OK(qp_session_create(f->store, &spec, &id, &failure));
  assert_int_equal(strlen(id), 36);
  qp_free(id);
  spec.title = "\xff";
  FAILS(qp_session_create(f->store, &spec, NULL, &failure), QP_INVALID);
}

static void
messages_are_checked(void **state)
{
  static const struct {
    const char *json;
    const char *sentence;
  } bad[] = {
    { "", "" },
    { "[]", "" },
    { "{\"content\":\"x\"}", "\"role\" is missing" },
    { "{\"role\":\"robot\",\"content\":\"x\"}", "\"role\" must be one of" },
    { "{\"role\":\"user\"}", "\"content\" is missing" },
    { "{\"role\":\"user\",\"content\":null}", "\"content\" is missing" },
    { "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}", "\"content\" is missing" },
    { "{\"role\":\"user\",\"content\":5}", "\"content\" must be a string" },
    { "{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":{}}", "\"tool_calls\"" },
    { "{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[1]}", "\"tool_calls\"" },
    { "{\"role\":\"user\",\"content\":\"x\",\"tool_call_id\":1}", "\"tool_call_id\"" },
    { "{\"role\":\"user\",\"content\":\"x\",\"timestamp\":1}", "\"timestamp\"" },
    { "{\"role\":\"user\",\"content\":\"x\",\"timestamp\":\"soon\"}", "\"timestamp\"" },
    { "{\"role\":\"user\",\"content\":\"x\",\"role\":\"user\"}", "" },
  };
  struct fixture *f = *state;

  new_session(f, "s", 3);
  for (size_t i = 0; i < COUNT(bad); i++) {
    FAILS(append_json(f, "s", bad[i].json), QP_INVALID);
    expect_sentence(bad[i].sentence);
  }
  expect_window(f, "s", 9, "");
  OK(append_json(f, "s", "{\"role\":\"USER\",\"content\":\"x\\ny\"}"));
  expect_window(f, "s", 9, "x\ny");
  assert_int_equal(session_info(f, "s").messages, 1);
}

static void
a_message_over_the_limit_is_refused(void **state)
{
  struct fixture *f = *state;
  char *text = malloc(3000);

  assert_non_null(text);
  close_store(f);
  f->options.max_message = 1000;
  open_store(f);
  new_session(f, "s", 3);
  (void)snprintf(text, 3000, "{\"role\":\"user\",\"content\":\"%*d\"}", 2000, 1);
  FAILS(append_json(f, "s", text), QP_TOOBIG);
  tell(f, "s", "user", "small");
  expect_window(f, "s", 9, "small");
  free(text);
}

/* ---- lists ---- */

static void
the_list_begins_with_what_was_changed_last(void **state)
{
  struct fixture *f = *state;
  struct qp_session_info info;

  plant(f, "index.jsonl",
        "{\"id\":\"x\",\"updated_at\":\"2026-01-03T00:00:00Z\"}\n"
        "{\"id\":\"y\",\"updated_at\":\"2026-01-02T00:00:00Z\"}\n"
        "{\"id\":\"z\",\"updated_at\":\"2026-01-01T00:00:00.000+02:00\"}\n"
        "{\"id\":\"gone\",\"updated_at\":\"2026-01-09T00:00:00Z\"}\n"
        "{\"id\":\"gone\",\"deleted\":true}\n"
        "{\"id\":\"w\"}\n");
  forget_sessions(f);
  expect_sessions(f, "x y z w");
  FAILS(qp_session_get(f->store, "gone", NULL, NULL, &failure), QP_NOTFOUND);
  tell(f, "z", "user", "hello");
  expect_sessions(f, "z x y w");
  info = session_info(f, "z");
  assert_true(info.updated_at > 1767225600000);
  assert_int_equal(info.messages, 1);
  OK(qp_session_delete(f->store, "x", &failure));
  expect_sessions(f, "z y w");
  forget_sessions(f);
  expect_sessions(f, "z y w");
}

static enum qp_rc
stop_at_once(void *arg, const struct qp_session_info *session)
{
  (void)session;
  ++*(int *)arg;
  return QP_STOPPED;
}

static enum qp_rc
stop_reading(void *arg, struct qp_bytes json)
{
  (void)json;
  return ++*(int *)arg == 2 ? QP_STOPPED : QP_OK;
}

static void
a_visitor_can_stop(void **state)
{
  struct fixture *f = *state;
  int count = 0;

  new_session(f, "a", 1);
  new_session(f, "b", 1);
  tell_many(f, "a", "m", 5);
  assert_int_equal(qp_session_list(f->store, stop_at_once, &count, NULL), QP_STOPPED);
  assert_int_equal(count, 1);
  count = 0;
  assert_int_equal(qp_session_read(f->store, "a", 9, stop_reading, &count, NULL, NULL), QP_STOPPED);
  assert_int_equal(count, 2);
}

/* ---- damage ---- */

#define GOOD(text) "{\"role\":\"user\",\"content\":\"" text "\"}\n"

static void
a_torn_tail_is_never_shown_and_cut_by_an_append(void **state)
{
  struct fixture *f = *state;
  char *text;

  plant(f, "session-s.1.jsonl", GOOD("one") GOOD("two") "{\"role\":\"user\",\"content\":\"th");
  forget_sessions(f);
  expect_window(f, "s", 9, "one two");
  expect_bad_lines(f, "s", 9, 0);
  tell(f, "s", "user", "3");
  expect_window(f, "s", 9, "one two 3");
  text = dig(f, "session-s.1.jsonl");
  assert_null(strstr(text, "th{"));
  free(text);
  assert_int_equal(session_info(f, "s").messages, 3);
}

static void
bad_lines_are_counted_and_stay(void **state)
{
  static const char damaged[] = GOOD("one") "nonsense\n" GOOD("two") "\n" GOOD(
      "three") "{\"role\":\"user\",\"content\":5}\n\xff\n";
  struct fixture *f = *state;
  char *text;

  plant(f, "session-s.1.jsonl", damaged);
  forget_sessions(f);
  expect_window(f, "s", 1, "three");
  expect_bad_lines(f, "s", 1, 2);
  expect_window(f, "s", 2, "two three");
  expect_bad_lines(f, "s", 2, 3);
  expect_window(f, "s", 9, "one two three");
  expect_bad_lines(f, "s", 9, 4);
  assert_int_equal(session_info(f, "s").messages, 3);
  tell(f, "s", "user", "four");
  expect_window(f, "s", 2, "three four");
  expect_bad_lines(f, "s", 2, 2);
  text = dig(f, "session-s.1.jsonl");
  assert_memory_equal(text, damaged, sizeof(damaged) - 1);
  free(text);
  expect_warning(f, "invalid lines");
}

static void
sessions_are_found_again_when_the_index_is_lost(void **state)
{
  struct fixture *f = *state;
  struct qp_session_info info;

  new_session(f, "a", 2);
  OK(append_json(
      f, "a", "{\"role\":\"user\",\"content\":\"hello\",\"timestamp\":\"2026-01-01T00:00:00Z\"}"));
  OK(append_json(f, "a",
                 "{\"role\":\"user\",\"content\":\"you\",\"timestamp\":\"2026-01-02T00:00:00Z\"}"));
  OK(append_json(
      f, "a", "{\"role\":\"user\",\"content\":\"there\",\"timestamp\":\"2026-01-03T00:00:00Z\"}"));
  new_session(f, "b", 2);
  plant(f, "index.jsonl", NULL);
  forget_sessions(f);
  expect_sessions(f, "a b");
  info = session_info(f, "a");
  assert_int_equal(info.messages, 3);
  assert_int_equal(info.chunks, 2);
  assert_string_equal(info.title, "hello");
  assert_int_equal(info.created_at, 1767225600000);
  assert_int_equal(info.updated_at, 1767225600000 + 2 * 86400000);
  expect_window(f, "a", 2, "you there");
  tell(f, "a", "user", "again");
  forget_sessions(f);
  info = session_info(f, "a");
  assert_int_equal(info.messages, 4);
  assert_int_equal(info.created_at, 1767225600000);
  FAILS(qp_session_create(
            f->store,
            &(struct qp_session_spec){ .size = sizeof(struct qp_session_spec), .id = "b" }, NULL,
            &failure),
        QP_EXISTS);
}

static void
a_session_whose_files_are_gone_begins_anew(void **state)
{
  struct fixture *f = *state;

  new_session(f, "a", 2);
  tell_many(f, "a", "m", 3);
  plant(f, "session-a.1.jsonl", NULL);
  plant(f, "session-a.2.jsonl", NULL);
  forget_sessions(f);
  expect_window(f, "a", 9, "");
  tell(f, "a", "user", "new");
  expect_window(f, "a", 9, "new");
  assert_int_equal(session_info(f, "a").messages, 1);
}

static void
a_torn_index_is_cut_by_the_next_line(void **state)
{
  struct fixture *f = *state;
  char *text;

  plant(f, "index.jsonl", "{\"id\":\"s\",\"message_count\":0}\n{\"id\":\"s\",\"message_co");
  plant(f, "session-s.1.jsonl", "");
  forget_sessions(f);
  expect_sessions(f, "s");
  tell(f, "s", "user", "x");
  text = dig(f, "index.jsonl");
  assert_null(strstr(text, "message_co{"));
  assert_non_null(strstr(text, "0}\n{\"id\":\"s\",\"agent_id\":null"));
  free(text);
}

/* ---- checking ---- */

static void
a_check_tells_of_damage_and_repairs_what_it_can(void **state)
{
  struct fixture *f = *state;
  struct findings found;

  new_session(f, "sound", 2);
  tell_many(f, "sound", "m", 5);
  expect_no_findings(f);
  plant(f, "index.jsonl",
        "{\"id\":\"sound\",\"message_count\":5}\nrubbish\n{\"id\":\"wrong\",\"message_count\":7}\n"
        "{\"id\":\"empty\",\"message_count\":7}\n{\"id\":\"to");
  plant(f, "session-wrong.1.jsonl", GOOD("one") "nonsense\n");
  plant(f, "session-torn.1.jsonl", GOOD("one") "half");
  plant(f, "session-torn.2.jsonl", GOOD("two") "half");
  plant(f, "notes.txt", "mine");
  forget_sessions(f);
  for (int round = 0; round < 2; round++) {
    check_store(f, round ? QP_CHECK_REPAIR : 0, &found);
    (void)expect_finding(&found, QP_PROBLEM_FOREIGN_FILE, "sessions/notes.txt");
    (void)expect_finding(&found, QP_PROBLEM_SESSION_DAMAGED, "sessions/session-wrong.1.jsonl");
    (void)expect_finding(&found, QP_PROBLEM_SESSION_DAMAGED, "sessions/session-torn.1.jsonl");
    (void)expect_finding(&found, QP_PROBLEM_SESSION_DAMAGED, "sessions/session-torn.2.jsonl");
    assert_int_equal(found.count, 9); /* five of them of the index */
    assert_int_equal(found.summary.problems, 8);
    assert_int_equal(found.summary.repaired, round ? 6 : 0);
  }
  check_store(f, 0, &found); /* lines that are none stay */
  assert_int_equal(found.summary.problems, 2);
  expect_window(f, "torn", 9, "one two");
  assert_int_equal(session_info(f, "torn").messages, 2);
  assert_int_equal(session_info(f, "wrong").messages, 1);
  assert_int_equal(session_info(f, "empty").messages, 0);
  tell(f, "torn", "user", "three");
  tell(f, "wrong", "user", "two");
  tell(f, "empty", "user", "first");
  forget_sessions(f);
  expect_window(f, "torn", 9, "one two three");
  expect_window(f, "wrong", 9, "one two");
  expect_window(f, "empty", 9, "first");
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 2);
}

/* ---- other processes ---- */

static void
a_reader_beside_the_writer_sees_what_is_committed(void **state)
{
  struct fixture *f = *state;
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct fixture reader = *f;
  const char *url = pathf("file:%s", f->data);

  OK(qp_store_open(url, &options, &reader.store, &failure));
  expect_sessions(&reader, "");
  new_session(f, "a", 2);
  tell_many(f, "a", "m", 3);
  expect_window(&reader, "a", 2, "m2 m3");
  expect_sessions(&reader, "a");
  assert_int_equal(session_info(&reader, "a").messages, 3);
  FAILS(append_json(&reader, "a", "{\"role\":\"user\",\"content\":\"x\"}"), QP_READONLY);
  FAILS(qp_session_delete(reader.store, "a", &failure), QP_READONLY);
  FAILS(qp_session_set_chunk_size(reader.store, "a", 4, &failure), QP_READONLY);
  FAILS(qp_session_create(
            reader.store,
            &(struct qp_session_spec){ .size = sizeof(struct qp_session_spec), .id = "b" }, NULL,
            &failure),
        QP_READONLY);
  tell(f, "a", "user", "m4");
  expect_window(&reader, "a", 2, "m3 m4");
  OK(qp_session_delete(f->store, "a", &failure));
  expect_window(&reader, "a", 2, "");
  FAILS(qp_session_get(reader.store, "a", NULL, NULL, &failure), QP_NOTFOUND);
  expect_sessions(&reader, "");
  qp_store_close(reader.store);
}

/* ---- one commit ---- */

static void
an_append_is_one_commit_and_one_sync(void **state)
{
  struct fixture *f = *state;
  struct qp_store_stats before;
  struct qp_store_stats after;

  new_session(f, "a", 2);
  tell_many(f, "a", "m", 2);
  before = stats(f);
  tell(f, "a", "user", "opens a chunk");
  after = stats(f);
  assert_int_equal(after.commits - before.commits, 1);
  assert_int_equal(after.syncs - before.syncs, f->driver->durable ? 1 : 0);
}

/* ---- more sessions than are kept open ---- */

static void
any_number_of_sessions_can_be_written_in_turn(void **state)
{
  struct fixture *f = *state;
  enum { SESSIONS = 1200 };
  char *index = malloc(SESSIONS * 48);
  size_t len = 0;

  assert_non_null(index);
  for (int i = 0; i < SESSIONS; i++)
    len += (size_t)snprintf(index + len, 48, "{\"id\":\"s%d\",\"chunk_size\":2}\n", i);
  plant(f, "index.jsonl", index);
  free(index);
  forget_sessions(f);
  for (int i = 0; i < SESSIONS; i++)
    tell(f, pathf("s%d", i), "user", "0");
  for (int i = 0; i < SESSIONS; i += 40) {
    tell(f, pathf("s%d", i), "user", "1");
    tell(f, pathf("s%d", i), "user", "2");
    expect_chunks(f, pathf("s%d", i), "1:2 2:1");
    expect_window(f, pathf("s%d", i), 9, "0 1 2");
    assert_int_equal(session_info(f, pathf("s%d", i)).messages, 3);
    OK(qp_session_delete(f->store, pathf("s%d", i), &failure));
    FAILS(qp_session_get(f->store, pathf("s%d", i), NULL, NULL, &failure), QP_NOTFOUND);
    new_session(f, pathf("s%d", i), 2);
  }
  forget_sessions(f);
  expect_window(f, "s1", 9, "0");
  expect_window(f, "s40", 9, "");
  expect_no_findings(f);
}

/* ---- threads ---- */

#define WRITERS 4
#define EACH 150

struct crew {
  struct fixture *f;
  atomic_int failures;
  atomic_int next;
  atomic_bool ended;
};

/* Appends to a session that all share, and to its own, which it also makes and deletes. */
static void *
write_sessions(void *arg)
{
  struct crew *c = arg;
  struct qp_store *store = c->f->store;
  int number = atomic_fetch_add(&c->next, 1);
  char own[16];

  (void)snprintf(own, sizeof(own), "own%d", number);
  for (int i = 0; i < EACH; i++) {
    struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec),
                                    .id = own,
                                    .chunk_size = 3 };
    char json[80];
    struct qp_bytes bytes = { json, 0 };

    bytes.len = (size_t)snprintf(json, sizeof(json), "{\"role\":\"user\",\"content\":\"%d.%d\"}",
                                 number, i);
    atomic_fetch_add(&c->failures, qp_session_append(store, "shared", bytes, NULL) != QP_OK);
    if (i % 10 == 0)
      atomic_fetch_add(&c->failures, qp_session_create(store, &spec, NULL, NULL) != QP_OK);
    atomic_fetch_add(&c->failures, qp_session_append(store, own, bytes, NULL) != QP_OK);
    if (i % 10 == 9)
      atomic_fetch_add(&c->failures, qp_session_delete(store, own, NULL) != QP_OK);
  }
  return NULL;
}

struct order {
  int last[WRITERS];
  int count;
  bool wrong;
};

/* The messages of each writer come in its order, without a gap once the window has begun. */
static enum qp_rc
check_order(void *arg, struct qp_bytes json)
{
  struct order *o = arg;
  const char *at = memmem(json.data, json.len, "\"content\":\"", 11);
  char text[16] = "";
  int writer = 0;
  int number = 0;

  if (at)
    (void)snprintf(text, sizeof(text), "%.12s", at + 11);
  if (!at || sscanf(text, "%d.%d", &writer, &number) != 2 || writer < 0 || writer >= WRITERS ||
      (o->last[writer] >= 0 && number != o->last[writer] + 1))
    o->wrong = true;
  else
    o->last[writer] = number;
  o->count++;
  return QP_OK;
}

static enum qp_rc
count_session(void *arg, const struct qp_session_info *session)
{
  (void)session;
  ++*(int *)arg;
  return QP_OK;
}

static void *
read_sessions(void *arg)
{
  struct crew *c = arg;
  struct qp_store *store = c->f->store;
  int seen = 0;

  while (!atomic_load(&c->ended)) {
    struct order o = { .last = { -1, -1, -1, -1 } };
    int count = 0;
    enum qp_rc rc;

    atomic_fetch_add(&c->failures,
                     qp_session_read(store, "shared", 40, check_order, &o, NULL, NULL) != QP_OK);
    atomic_fetch_add(&c->failures, o.wrong || o.count < seen);
    seen = o.count;
    atomic_fetch_add(&c->failures, qp_session_list(store, count_session, &count, NULL) != QP_OK);
    atomic_fetch_add(&c->failures, count < 1 || count > WRITERS + 1);
    atomic_fetch_add(&c->failures,
                     qp_session_get(store, "shared", count_session, &count, NULL) != QP_OK);
    rc = qp_session_get(store, "own0", count_session, &count, NULL);
    atomic_fetch_add(&c->failures, rc != QP_OK && rc != QP_NOTFOUND);
  }
  return NULL;
}

static void
many_threads_write_and_read_sessions(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .f = f };
  struct order o = { .last = { -1, -1, -1, -1 } };
  pthread_t writers[WRITERS];
  pthread_t readers[2];

  new_session(f, "shared", 7);
  /* The index is compacted every few appends. */
  f->store->sessions->slack = f->store->sessions->first_slack = 1000;
  for (size_t i = 0; i < COUNT(readers); i++)
    assert_int_equal(pthread_create(&readers[i], NULL, read_sessions, &crew), 0);
  for (size_t i = 0; i < COUNT(writers); i++)
    assert_int_equal(pthread_create(&writers[i], NULL, write_sessions, &crew), 0);
  for (size_t i = 0; i < COUNT(writers); i++)
    assert_int_equal(pthread_join(writers[i], NULL), 0);
  atomic_store(&crew.ended, true);
  for (size_t i = 0; i < COUNT(readers); i++)
    assert_int_equal(pthread_join(readers[i], NULL), 0);
  assert_int_equal(atomic_load(&crew.failures), 0);
  OK(qp_session_read(f->store, "shared", 1000000, check_order, &o, NULL, &failure));
  assert_false(o.wrong);
  assert_int_equal(o.count, WRITERS * EACH);
  assert_int_equal(session_info(f, "shared").messages, WRITERS * EACH);
  expect_sessions(f, "shared");
  expect_no_findings(f);
  forget_sessions(f);
  assert_int_equal(session_info(f, "shared").messages, WRITERS * EACH);
}

/* ---- the model ---- */

static void
run_model(struct fixture *f, uint64_t seed, size_t count)
{
  struct sm *model = calloc(1, sizeof(*model));
  struct rng r = { seed };
  char why[SM_WHY] = "";

  assert_non_null(model);
  for (size_t i = 0; i < count; i++) {
    struct qp_err err = { QP_OK, "" };
    struct sm_op op = sm_op_random(&r, model, true);
    enum qp_rc rc = sm_op_run(&op, f->store, &err);

    if (sm_op_apply(&op, model) != rc)
      fail_msg("seed %llu, step %zu: %s (%s)", (unsigned long long)seed, i, qp_rc_name(rc),
               err.msg);
    if (rng_below(&r, 40) == 0)
      forget_sessions(f);
    if ((i % 50 == 0 || i + 1 == count) && !sm_matches(f->store, model, why))
      fail_msg("seed %llu, step %zu: %s", (unsigned long long)seed, i, why);
  }
  for (size_t i = 0; i < SM_SESSIONS; i++)
    if (model->sessions[i].there)
      OK(qp_session_delete(f->store, sm_ids[i], &failure));
  free(model);
}

static void
random_operations_match_a_model(void **state)
{
  struct fixture *f = *state;
  uint64_t first = test_seed(1);
  uint64_t runs = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 200 : 4;

  for (uint64_t seed = first; seed < first + runs; seed++)
    run_model(f, seed, 400);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ids_are_checked),
    cmocka_unit_test(messages_are_checked),
    cmocka_unit_test(a_message_over_the_limit_is_refused),
    cmocka_unit_test(the_list_begins_with_what_was_changed_last),
    cmocka_unit_test(a_visitor_can_stop),
    cmocka_unit_test(a_torn_tail_is_never_shown_and_cut_by_an_append),
    cmocka_unit_test(bad_lines_are_counted_and_stay),
    cmocka_unit_test(sessions_are_found_again_when_the_index_is_lost),
    cmocka_unit_test(a_session_whose_files_are_gone_begins_anew),
    cmocka_unit_test(a_torn_index_is_cut_by_the_next_line),
    cmocka_unit_test(a_check_tells_of_damage_and_repairs_what_it_can),
    needs(a_reader_beside_the_writer_sees_what_is_committed, NEEDS_DIRECTORY),
    cmocka_unit_test(an_append_is_one_commit_and_one_sync),
    cmocka_unit_test(any_number_of_sessions_can_be_written_in_turn),
    cmocka_unit_test(many_threads_write_and_read_sessions),
    cmocka_unit_test(random_operations_match_a_model),
  };

  return run_on_all("sessions", tests, COUNT(tests));
}

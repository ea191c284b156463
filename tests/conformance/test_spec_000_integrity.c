/* test_spec_000_integrity.c - more scenarios of the specification "separated storage", see
 * test_spec_000.c: performance, integrity, size. */
#include <malloc.h>
#include <stdio.h>

#include "os_gate.h"
#include "store_test.h"

#define MARK "the text of a message"

/* Default journal: no checkpoint comes between what is counted. */
static void
use_large_journal(struct fixture *f)
{
  close_store(f);
  f->options.journal_bytes = 0;
  open_store(f);
}

/* ---- Storage Performance Optimization ---- */

#define TEXT_OF_A_KILOBYTE 1000

/* A context with n messages of a kilobyte; its id. */
static struct qp_uuid
fill(struct fixture *f, size_t n)
{
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  char word[TEXT_OF_A_KILOBYTE + 1];
  struct qp_message *m[500];
  struct qp_save_result *results = calloc(COUNT(m), sizeof(*results));

  assert_non_null(results);
  memset(word, 'w', TEXT_OF_A_KILOBYTE);
  word[TEXT_OF_A_KILOBYTE] = 0;
  while (n) {
    size_t now = n < COUNT(m) ? n : COUNT(m);

    for (size_t i = 0; i < now; i++)
      m[i] = new_text(QP_ROLE_USER, word);
    OK(qp_message_save_batch(c, NULL, m, now, results, &failure));
    for (size_t i = 0; i < now; i++)
      qp_message_free(m[i]);
    n -= now;
  }
  free(results);
  qp_context_close(c);
  return id;
}

/* Scenario: Large context loading performance */
static void
scenario_large_context_loading_performance(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id[2];
  uint64_t calls[2];
  uint64_t bytes[2];
  struct qp_size size;

  use_large_journal(f);
  id[0] = fill(f, 10);
  id[1] = fill(f, 2000);
  watch_calls(f);
  for (int i = 0; i < 2; i++) {
    size_t before = mallinfo2().uordblks;
    struct qp_context *c;

    count_calls_to(f, NULL);
    c = open_context(f, &id[i]);
    calls[i] = calls_of(f, QP__SLOT__MAX);
    bytes[i] = os_gate_bytes_read();
    assert_true(mallinfo2().uordblks < before + ((size_t)1 << 20));
    assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 3);
    qp_context_size(c, &size);
    qp_context_close(c);
  }
  /* The same calls, but for the pieces in which a longer index is read. */
  assert_true(calls[1] <= calls[0] + bytes[1] / (200 << 10) + 1);
  assert_int_equal(size.messages, 2000);
  assert_true(bytes[1] * 4 < size.message_bytes); /* what a monolithic file would have to read */
}

/* Scenario: Adding message to large context */
static void
scenario_adding_message_to_large_context(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id[2];
  uint64_t calls[2];
  uint64_t written[2];
  uint64_t read[2];

  use_large_journal(f);
  id[0] = fill(f, 10);
  id[1] = fill(f, 2000);
  watch_calls(f);
  for (int i = 0; i < 2; i++) {
    struct qp_context *c = open_context(f, &id[i]);
    char context[QP_UUID_TEXT];
    char text[QP_UUID_TEXT];
    char want[400];
    struct qp_uuid message;
    char *before;
    char *after;

    for (int k = 0; k < 16; k++)
      (void)say(c, NULL, MARK); /* the first ones open and make what the next ones find there */
    before = take_picture(f->data);
    count_calls_to(f, NULL);
    message = say(c, NULL, MARK);
    calls[i] = calls_of(f, QP__SLOT__MAX);
    written[i] = os_gate_bytes_written();
    read[i] = os_gate_bytes_read();
    after = take_picture(f->data);
    (void)snprintf(want, sizeof(want),
                   "~contexts/%s/index.log\n+contexts/%s/messages/branch-main/%s.json\n",
                   qp_uuid_text(&id[i], context), context, qp_uuid_text(&message, text));
    expect_changes(before, after, want);
    free(before);
    free(after);
    qp_context_close(c);
  }
  assert_int_equal(calls[0], calls[1]);
  assert_int_equal(written[0], written[1]);
  assert_int_equal(read[0], 0);
  assert_int_equal(read[1], 0);
}

struct job {
  struct qp_context *context;
  const struct qp_uuid *id;
  enum qp_rc rc;
};

static void *
load_one(void *arg)
{
  struct job *job = arg;
  struct qp_message *m = NULL;
  struct qp_err err;

  job->rc = qp_message_load(job->context, job->id, &m, &err);
  qp_message_free(m);
  return NULL;
}

/* Scenario: Concurrent message reads */
static void
scenario_concurrent_message_reads(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[6];
  struct job jobs[3];
  pthread_t threads[3];
  char text[QP_UUID_TEXT];

  say_many(c, NULL, "m", COUNT(ids), ids);
  qp_context_close(c);
  watch_calls(f);
  c = open_context(f, &id);

  /* A slow read of message 0 stops nobody: two others read message 1 and 2 meanwhile. */
  for (size_t i = 0; i < 3; i++)
    jobs[i] = (struct job){ .context = c, .id = &ids[i], .rc = QP_STOPPED };
  os_gate_shut(QP__SLOT_OPENAT, qp_uuid_text(&ids[0], text));
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, load_one, &jobs[i]), 0);
    if (i == 0)
      assert_true(os_gate_await(1));
  }
  assert_int_equal(pthread_join(threads[1], NULL), 0);
  assert_int_equal(pthread_join(threads[2], NULL), 0);
  assert_int_equal(jobs[0].rc, QP_STOPPED);
  assert_int_equal(jobs[1].rc, QP_OK);
  assert_int_equal(jobs[2].rc, QP_OK);
  os_gate_open();
  assert_int_equal(pthread_join(threads[0], NULL), 0);
  assert_int_equal(jobs[0].rc, QP_OK);

  /* All readers are in the middle of their reading at the same moment. */
  os_gate_shut(QP__SLOT_OPENAT, ".json");
  for (size_t i = 0; i < 3; i++) {
    jobs[i].id = &ids[3 + i];
    assert_int_equal(pthread_create(&threads[i], NULL, load_one, &jobs[i]), 0);
  }
  assert_true(os_gate_await(3));
  count_calls_to(f, "/messages/");
  os_gate_open();
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(jobs[i].rc, QP_OK);
  }
  assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 3); /* each file by itself */
  qp_context_close(c);
}

/* ---- Storage Integrity and Consistency ---- */

static bool
is_complete(struct fixture *f, const struct qp_uuid *id)
{
  struct qp_context *c = NULL;

  if (!file_exists(context_path(f, id, ""))) {
    FAILS(qp_context_open(f->store, id, QP_LOAD_NONE, &c, &failure), QP_NOTFOUND);
    return false;
  }
  c = open_context(f, id);
  expect_branches(c, "main*");
  expect_texts(c, NULL, "");
  json_decref(metadata_of(c));
  qp_context_close(c);
  assert_true(file_exists(context_path(f, id, "/metadata.json")));
  assert_true(file_exists(context_path(f, id, "/index.json")));
  assert_true(file_exists(context_path(f, id, "/index.log")));
  assert_true(file_exists(context_path(f, id, "/messages/branch-main")));
  return true;
}

/* Scenario: Atomic directory creation */
static void
scenario_atomic_directory_creation(void **state)
{
  struct fixture *f = *state;
  static const enum qp__os_fault_kind kinds[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC };
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .title = "whole or not at all" };
  uint64_t failed = 0;

  watch_calls(f);
  for (size_t k = 0; k < COUNT(kinds); k++) {
    bool fired = true;

    for (uint64_t n = 1; fired; n++) {
      struct qp_context *c = NULL;
      enum qp_rc rc;

      spec.id = id_of("018f0000-0000-7000-8000-000000000000");
      spec.id.b[14] = (uint8_t)(k + 1);
      spec.id.b[15] = (uint8_t)n;
      qp__os_fault_arm(f->fault, n, kinds[k], false);
      rc = qp_context_create(f->store, &spec, &c, &failure);
      fired = qp__os_fault_fired(f->fault);
      qp__os_fault_disarm(f->fault);
      if (!rc) {
        qp_context_close(c);
        assert_true(is_complete(f, &spec.id));
        continue;
      }
      failed++;
      assert_null(c);
      assert_true(rc == QP_IO || rc == QP_FULL);
      close_store(f);
      open_store(f); /* a failed sync may have stopped the store */
      assert_int_equal(count_files(pathf("%s/tmp", f->data), ""), 0);
      rc = qp_context_create(f->store, &spec, &c, &failure); /* retry */
      assert_true(rc == QP_OK || rc == QP_EXISTS);
      qp_context_close(c);
      assert_true(is_complete(f, &spec.id));
    }
  }
  assert_true(failed > 20);
  expect_no_findings(f);
}

/* Scenario: Index consistency check */
static void
scenario_index_consistency_check(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[4];
  struct qp_uuid extra = id_of("018f0000-0000-7000-8000-00000000abcd");
  struct findings found;
  char text[QP_UUID_TEXT];

  say_many(c, NULL, "m", COUNT(ids), ids);
  qp_context_close(c);
  expect_no_findings(f);
  close_store(f);

  remove_file(message_path(f, &id, "branch-main", &ids[1]));
  write_text(
      message_path(f, &id, "branch-main", &extra),
      "{\"id\":\"018f0000-0000-7000-8000-00000000abcd\",\"parent_id\":null,\"role\":\"user\","
      "\"type\":\"text\",\"created_at\":\"2026-01-01T00:00:00.000Z\",\"content\":[]}\n");
  open_store(f);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 2);
  (void)expect_finding(&found, QP_PROBLEM_MESSAGE_MISSING,
                       pathf("%s.json", qp_uuid_text(&ids[1], text)));
  (void)expect_finding(&found, QP_PROBLEM_MESSAGE_UNINDEXED, "messages");

  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.problems, 2);
  assert_int_equal(found.summary.repaired, 2);
  expect_sound(f);
  c = open_context(f, &id);
  expect_texts(c, NULL, "m0 ? m2 m3"); /* the branch is as the index has it */
  qp_context_close(c);
}

/* Scenario: Corruption recovery */
static void
scenario_corruption_recovery(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[5];
  struct qp_message_info info;
  struct qp_message *m = NULL;
  char text[QP_UUID_TEXT];

  say_many(c, NULL, "m", COUNT(ids), ids);
  make_directory(context_path(f, &id, "/trash"));
  copy_file(message_path(f, &id, "branch-main", &ids[3]),
            context_path(f, &id, pathf("/trash/%s.json", qp_uuid_text(&ids[3], text))));
  qp_context_close(c);
  close_store(f);
  flip_bit(message_path(f, &id, "branch-main", &ids[1]), 40);
  remove_file(message_path(f, &id, "branch-main", &ids[2]));
  remove_file(message_path(f, &id, "branch-main", &ids[3])); /* of this one there is a copy */

  open_store(f);
  forget_warnings(f);
  OK(qp_context_open(f->store, &id, QP_LOAD_MESSAGES, &c, &failure));
  expect_warning(f, qp_uuid_text(&ids[1], text));
  expect_warning(f, qp_uuid_text(&ids[2], text));
  expect_texts(c, NULL, "m0 ? ? m3 m4");
  for (size_t i = 0; i < COUNT(ids); i++) {
    OK(qp_message_find(c, &ids[i], &info, &failure));
    assert_int_equal(info.status, i == 1 || i == 2 ? QP_STATUS_UNAVAILABLE : QP_STATUS_LIVE);
  }
  FAILS(qp_message_load(c, &ids[1], &m, &failure), QP_UNAVAILABLE);
  expect_sentence(qp_uuid_text(&ids[1], text));
  qp_context_close(c);
}

/* ---- Storage Space Management ---- */

/* Scenario: Context size reporting */
static void
scenario_context_size_reporting(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[20];
  uint64_t bytes[2] = { 0, 0 }; /* of the files that main and side reach, without their newlines */
  struct qp_size size;
  struct qp_branch_info main_branch;
  struct qp_branch_info side;

  say_many(c, NULL, "m", 10, ids);
  OK(qp_branch_fork(c, "side", NULL, &ids[3], &failure));
  say_many(c, "side", "somewhat longer ", 10, ids + 10);
  qp_context_close(c);
  watch_calls(f);
  c = open_context(f, &id);
  count_calls_to(f, NULL);
  qp_context_size(c, &size);
  main_branch = branch_of(c, "main");
  side = branch_of(c, "side");
  assert_int_equal(calls_of(f, QP__SLOT__MAX), 0);

  for (size_t i = 0; i < COUNT(ids); i++) {
    const char *dir = i < 10 ? "branch-main" : "branch-side";
    uint64_t n = file_size(message_path(f, &id, dir, &ids[i])) - 1;

    bytes[0] += i < 10 ? n : 0;
    bytes[1] += i < 4 || i >= 10 ? n : 0;
    size.message_bytes -= n;
  }
  assert_int_equal(size.message_bytes, 0);
  assert_int_equal(size.messages, 20);
  assert_int_equal(size.metadata_bytes, file_size(context_path(f, &id, "/metadata.json")));
  assert_int_equal(main_branch.message_bytes, bytes[0]);
  assert_int_equal(main_branch.messages, 10);
  assert_int_equal(side.message_bytes, bytes[1]);
  assert_int_equal(side.messages, 14);
  qp_context_close(c);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(scenario_large_context_loading_performance),
    cmocka_unit_test(scenario_adding_message_to_large_context),
    cmocka_unit_test(scenario_concurrent_message_reads),
    cmocka_unit_test(scenario_atomic_directory_creation),
    cmocka_unit_test(scenario_index_consistency_check),
    cmocka_unit_test(scenario_corruption_recovery),
    cmocka_unit_test(scenario_context_size_reporting),
  };

  return run_on_files("separated storage: performance, integrity, size", tests, COUNT(tests));
}

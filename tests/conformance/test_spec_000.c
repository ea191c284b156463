/* test_spec_000.c - the scenarios of the specification "separated storage", one test each, on the
 * file driver: architecture, loading, saving. A test is called after the title of its scenario;
 * every SHALL is an assertion.
 *
 * What the specification says in milliseconds is asserted in calls to the operating system and in
 * bytes, which are the same on every machine. */
#include <stdio.h>

#include "os_gate.h"
#include "store_test.h"

#define MARK "the text of a message" /* what must be found in no file but the message's own */

static const char *
text_at(const json_t *object, const char *key)
{
  return json_string_value(json_object_get(object, key));
}

static bool
file_holds(const char *path, const char *text)
{
  size_t len;
  char *data = read_file(path, &len);
  bool found = memmem(data, len, text, strlen(text)) != NULL;

  free(data);
  return found;
}

/* ---- Separated Storage Architecture ---- */

/* Scenario: Context metadata storage structure */
static void
scenario_context_metadata_storage_structure(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = {
    .size = sizeof(struct qp_context_spec),
    .parent_id = id_of("018f0000-0000-7000-8000-000000000001"),
    .model_id = "claude-x",
    .mode = "plan",
    .agent_role = "planner",
    .parameters_json = "{\"temperature\":0.5}",
  };
  struct qp_context *c = NULL;
  struct qp_uuid id;
  char text[QP_UUID_TEXT];
  const json_t *config;
  const json_t *branches;
  const char *path;
  json_t *meta;
  char *before;
  char *after;

  set_prompt(f, "base", "Be kind.");
  OK(qp_context_create(f->store, &spec, &c, &failure));
  id = qp_context_id(c);
  path = context_path(f, &id, "/metadata.json");
  assert_true(file_exists(path));
  for (int i = 0; i < 30; i++) {
    char name[32];

    (void)snprintf(name, sizeof(name), "branch %d", i);
    OK(qp_branch_fork(c, name, NULL, NULL, &failure));
  }
  OK(qp_branch_set_prompt(c, "branch 7", "base", &failure));
  OK(qp_branch_switch(c, "branch 7", &failure));
  OK(qp_context_update(c, bytes_of("{\"current_state\":\"ExecutingTools\"}"), &failure));
  path = context_path(f, &id, "/metadata.json");
  before = read_file(path, NULL);
  say_many(c, NULL, MARK, 500, NULL);
  path = context_path(f, &id, "/metadata.json");
  after = read_file(path, NULL);
  assert_string_equal(before, after);

  meta = read_json(path);
  config = json_object_get(meta, "config");
  branches = json_object_get(meta, "branches");
  assert_string_equal(text_at(meta, "id"), qp_uuid_text(&id, text));
  assert_string_equal(text_at(meta, "parent_id"), "018f0000-0000-7000-8000-000000000001");
  assert_string_equal(text_at(config, "model_id"), "claude-x");
  assert_string_equal(text_at(config, "mode"), "plan");
  assert_string_equal(text_at(config, "agent_role"), "planner");
  assert_true(json_is_object(json_object_get(config, "parameters")));
  assert_int_equal(json_object_size(branches), 31);
  assert_string_equal(text_at(json_object_get(branches, "branch 7"), "name"), "branch 7");
  assert_string_equal(text_at(json_object_get(branches, "branch 7"), "system_prompt_id"), "base");
  assert_string_equal(text_at(meta, "active_branch_name"), "branch 7");
  assert_string_equal(text_at(meta, "current_state"), "ExecutingTools");
  json_decref(meta);

  assert_null(strstr(after, MARK));
  assert_null(strstr(after, "\"messages\""));
  assert_true(strlen(after) < (size_t)100 * 1024);
  free(before);
  free(after);
  qp_context_close(c);
}

/* Scenario: Message content storage structure */
static void
scenario_message_content_storage_structure(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_message *m = NULL;
  struct qp_uuid ids[3];
  char *json = NULL;
  char *file;
  size_t len;
  size_t file_len;

  ids[0] = say(c, NULL, MARK);
  OK(qp_branch_fork(c, "side track", NULL, NULL, &failure));
  OK(qp_message_parse(
      bytes_of("{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":"
               "\"t\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"a\"}],"
               "\"tool_calls\":[{\"id\":\"c\",\"tool_name\":\"t\",\"arguments\":{}}],"
               "\"metadata\":{\"tokens\":{\"completion_tokens\":3}},\"other\":1}"),
      &m, &failure));
  OK(qp_message_save(c, "side track", m, &ids[1], &failure));
  ids[2] = say(c, NULL, "another");
  assert_int_equal(count_files(context_path(f, &id, "/messages"), ""), 3);
  assert_true(file_exists(message_path(f, &id, "branch-main", &ids[0])));
  assert_true(file_exists(message_path(f, &id, "branch-side%20track", &ids[1])));
  assert_true(file_exists(message_path(f, &id, "branch-main", &ids[2])));

  OK(qp_message_json(m, &json, &len, &failure));
  file = read_file(message_path(f, &id, "branch-side%20track", &ids[1]), &file_len);
  assert_int_equal(file_len, len + 1);
  assert_memory_equal(file, json, len);
  assert_int_equal(file[len], '\n');
  free(file);
  qp_free(json);
  qp_message_free(m);
  qp_context_close(c);
}

/* The index entry of message i must lead to its file and say what the file says. */
static void
expect_entry(struct fixture *f, const struct qp_uuid *context, const json_t *entry)
{
  struct qp_uuid id = id_of(text_at(entry, "id"));
  const char *path = message_path(f, context, text_at(entry, "dir"), &id);
  json_t *message = read_json(path);

  assert_string_equal(text_at(message, "id"), text_at(entry, "id"));
  assert_string_equal(text_at(message, "created_at"), text_at(entry, "time"));
  assert_string_equal(text_at(message, "role"), text_at(entry, "role"));
  assert_string_equal(text_at(message, "type"), text_at(entry, "type"));
  assert_int_equal(json_integer_value(json_object_get(entry, "size")), file_size(path) - 1);
  json_decref(message);
}

/* Scenario: Message index structure */
static void
scenario_message_index_structure(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[600]; /* enough for the log to be folded into index.json */
  struct qp_message_info info;
  char text[QP_UUID_TEXT];
  char *before;
  char *after;
  json_t *index;
  json_t *entries;

  assert_true(file_exists(context_path(f, &id, "/index.json")));
  say_many(c, NULL, "m", COUNT(ids), ids);
  OK(qp_branch_fork(c, "side", NULL, &ids[9], &failure));
  qp_context_close(c);
  assert_int_equal(stats(f).folds, 1);
  index = read_json(context_path(f, &id, "/index.json"));
  entries = json_object_get(index, "entries");
  assert_int_equal(json_array_size(entries), COUNT(ids));
  for (size_t i = 0; i < COUNT(ids); i++) {
    const json_t *entry = json_array_get(entries, i);

    assert_string_equal(text_at(entry, "id"), qp_uuid_text(&ids[i], text));
    assert_string_equal(text_at(entry, "dir"), "branch-main");
    expect_entry(f, &id, entry);
  }
  assert_string_equal(text_at(json_object_get(index, "heads"), "main"),
                      qp_uuid_text(&ids[COUNT(ids) - 1], text));
  json_decref(index);

  /* Fast lookup: by id, without a look at any file. */
  watch_calls(f);
  c = open_context(f, &id);
  count_calls_to(f, NULL);
  for (size_t i = 0; i < COUNT(ids); i++)
    OK(qp_message_find(c, &ids[i], &info, &failure));
  assert_int_equal(calls_of(f, QP__SLOT__MAX), 0);

  /* Incrementally: a message adds a line, and what was there stays. */
  before = read_file(context_path(f, &id, "/index.log"), NULL);
  index = read_json(context_path(f, &id, "/index.json"));
  ids[0] = say(c, "side", "one more");
  after = read_file(context_path(f, &id, "/index.log"), NULL);
  assert_memory_equal(after, before, strlen(before));
  assert_ptr_equal(strchr(after + strlen(before), '\n'), after + strlen(after) - 1);
  entries = json_loads(after + strlen(before), 0, NULL);
  assert_string_equal(text_at(entries, "id"), qp_uuid_text(&ids[0], text));
  assert_string_equal(text_at(entries, "dir"), "branch-side");
  expect_entry(f, &id, entries);
  json_decref(entries);
  entries = read_json(context_path(f, &id, "/index.json"));
  assert_true(json_equal(entries, index));
  json_decref(entries);
  json_decref(index);
  free(before);
  free(after);
  qp_context_close(c);
}

/* ---- Incremental Message Loading ---- */

struct id_list {
  struct qp_uuid *ids;
  size_t count;
};

static enum qp_rc
expect_next_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct id_list *l = arg;

  (void)json;
  expect_id(&info->id, &l->ids[l->count++]);
  return QP_OK;
}

/* Scenario: Loading context without messages */
static void
scenario_loading_context_without_messages(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[100];
  struct id_list l = { ids, 0 };

  say_many(c, NULL, "m", COUNT(ids), ids);
  qp_context_close(c);
  watch_calls(f);
  c = open_context(f, &id);
  assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 3); /* metadata.json and the two of the index */
  assert_int_equal(calls_of(f, QP__SLOT_LISTDIR), 0);
  assert_int_equal(calls_of(f, QP__SLOT_PWRITE), 0);
  assert_true(os_gate_bytes_read() <= file_size(context_path(f, &id, "/metadata.json")) +
                                          file_size(context_path(f, &id, "/index.json")) +
                                          file_size(context_path(f, &id, "/index.log")));
  count_calls_to(f, "messages");
  expect_branches(c, "main*");
  OK(qp_messages_index(c, NULL, 0, UINT64_MAX, expect_next_id, &l, &failure));
  assert_int_equal(l.count, COUNT(ids));
  assert_int_equal(calls_of(f, QP__SLOT__MAX), 0);
  assert_int_equal(stats(f).pool_bytes, 0);
  assert_int_equal(stats(f).message_reads, 0);
  qp_context_close(c);
}

/* Scenario: Loading specific messages */
static void
scenario_loading_specific_messages(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid shared[3];
  struct qp_uuid ids[8];
  struct qp_uuid others[10];
  struct id_list l = { ids, 0 };

  say_many(c, NULL, "a", 3, shared);
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  say_many(c, "main", "m", COUNT(others), others);
  say_many(c, "side", "s", 5, ids + 3);
  memcpy(ids, shared, sizeof(shared));
  qp_context_close(c);
  watch_calls(f);
  c = open_context(f, &id);
  count_calls_to(f, "/messages/");
  OK(qp_messages_range(c, "side", 0, UINT64_MAX, expect_next_id, &l, &failure));
  assert_int_equal(l.count, 8);
  assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 8);
  assert_int_equal(calls_of(f, QP__SLOT_LISTDIR), 0);
  assert_int_equal(stats(f).message_reads, 8);
  assert_true(stats(f).pool_bytes > 0);
  l.count = 0;
  OK(qp_messages_index(c, "side", 0, UINT64_MAX, expect_next_id, &l, &failure));
  assert_int_equal(l.count, 8);
  expect_texts(c, "main", "a0 a1 a2 m0 m1 m2 m3 m4 m5 m6 m7 m8 m9");
  assert_int_equal(stats(f).message_reads, 18); /* the ten of main were not loaded before */
  qp_context_close(c);
}

/* Scenario: Loading message range */
static void
scenario_loading_message_range(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[1000];
  struct id_list l = { ids + 990, 0 };

  say_many(c, NULL, "m", COUNT(ids), ids);
  qp_context_close(c);
  watch_calls(f);
  c = open_context(f, &id);
  count_calls_to(f, NULL);
  OK(qp_messages_last(c, NULL, 10, expect_next_id, &l, &failure));
  assert_int_equal(l.count, 10);
  assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 10);
  assert_int_equal(calls_of(f, QP__SLOT_LISTDIR), 0);
  assert_true(calls_of(f, QP__SLOT__MAX) <= 30); /* open, look at its size and read, for each */
  l = (struct id_list){ ids + 500, 0 };
  count_calls_to(f, "/messages/");
  OK(qp_messages_range(c, "main", 500, 7, expect_next_id, &l, &failure));
  assert_int_equal(l.count, 7);
  assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 7);
  qp_context_close(c);
}

/* Scenario: Lazy loading during iteration */
static void
scenario_lazy_loading_during_iteration(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[20];

  say_many(c, NULL, "m", COUNT(ids), ids);
  qp_context_close(c);
  watch_calls(f);
  c = open_context(f, &id);
  count_calls_to(f, NULL);
  for (size_t i = 0; i < COUNT(ids); i++) {
    struct qp_message *m = NULL;

    OK(qp_message_load(c, &ids[i], &m, &failure));
    assert_int_equal(calls_of(f, QP__SLOT_OPENAT), i + 1);
    assert_int_equal(stats(f).message_reads, i + 1);
    qp_message_free(m);
  }
  count_calls_to(f, NULL);
  for (size_t i = 0; i < COUNT(ids); i++) {
    struct qp_message *m = NULL;

    OK(qp_message_load(c, &ids[i], &m, &failure));
    qp_message_free(m);
  }
  expect_texts(c, NULL, "m0 m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12 m13 m14 m15 m16 m17 m18 m19");
  assert_int_equal(calls_of(f, QP__SLOT__MAX), 0);
  qp_context_close(c);
}

/* ---- Incremental Message Saving ---- */

/* Scenario: Saving a new message */
static void
scenario_saving_a_new_message(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  struct qp_uuid id;
  struct qp_uuid message;
  char context[QP_UUID_TEXT];
  char text[QP_UUID_TEXT];
  char want[400];
  char *before;
  char *after;

  watch_calls(f);
  c = new_context(f);
  id = qp_context_id(c);
  say_many(c, NULL, "m", 5, NULL);
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  (void)say(c, "side", "x");
  before = take_picture(f->data);
  count_calls_to(f, "branch-main");
  message = say(c, NULL, MARK);
  after = take_picture(f->data);
  (void)qp_uuid_text(&message, text);
  (void)snprintf(want, sizeof(want),
                 "~contexts/%s/index.log\n+contexts/%s/messages/branch-main/%s.json\n",
                 qp_uuid_text(&id, context), context, text);
  expect_changes(before, after, want);
  assert_true(file_holds(message_path(f, &id, "branch-main", &message), MARK));
  assert_true(file_holds(context_path(f, &id, "/index.log"), text));

  /* Atomic: the file comes to its name by a rename, complete. */
  assert_int_equal(calls_of(f, QP__SLOT_RENAMEAT), 1);
  assert_int_equal(calls_of(f, QP__SLOT_PWRITE), 0);
  assert_int_equal(count_files(pathf("%s/tmp", f->data), ""), 0);
  free(before);
  free(after);
  qp_context_close(c);
}

/* Scenario: Updating context metadata */
static void
scenario_updating_context_metadata(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  struct qp_uuid id;
  char context[QP_UUID_TEXT];
  char want[400];
  char *pictures[5];

  watch_calls(f);
  c = new_context(f);
  id = qp_context_id(c);
  (void)qp_uuid_text(&id, context);
  say_many(c, NULL, "m", 5, NULL);
  pictures[0] = take_picture(f->data);
  OK(qp_context_update(c, bytes_of("{\"title\":\"one\"}"), &failure));
  pictures[1] = take_picture(f->data);
  count_calls_to(f, "metadata.json");
  OK(qp_context_update(c, bytes_of("{\"config\":{\"model_id\":\"two\"}}"), &failure));
  assert_int_equal(calls_of(f, QP__SLOT_PWRITE), 0);   /* never written in place */
  assert_int_equal(calls_of(f, QP__SLOT_RENAMEAT), 2); /* it, and the one before as .bak */
  pictures[2] = take_picture(f->data);
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  pictures[3] = take_picture(f->data);
  count_calls_to(f, NULL);
  OK(qp_context_update(c, bytes_of("{\"title\":\"one\"}"), &failure)); /* says nothing new */
  assert_int_equal(calls_of(f, QP__SLOT__MAX), 0);
  pictures[4] = take_picture(f->data);

  (void)snprintf(want, sizeof(want), "~contexts/%s/metadata.json\n+contexts/%s/metadata.json.bak\n",
                 context, context);
  expect_changes(pictures[0], pictures[1], want);
  (void)snprintf(want, sizeof(want), "~contexts/%s/metadata.json\n~contexts/%s/metadata.json.bak\n",
                 context, context);
  expect_changes(pictures[1], pictures[2], want);
  (void)snprintf(want, sizeof(want),
                 "~contexts/%s/index.log\n~contexts/%s/metadata.json\n"
                 "~contexts/%s/metadata.json.bak\n",
                 context, context, context);
  expect_changes(pictures[2], pictures[3], want);
  expect_difference(pictures[3], pictures[4], "");
  for (size_t i = 0; i < COUNT(pictures); i++)
    free(pictures[i]);
  qp_context_close(c);
}

struct job {
  struct qp_context *context;
  size_t n;
  enum qp_rc rc;
};

static void *
save_batch(void *arg)
{
  struct job *job = arg;
  struct qp_message *m[100] = { NULL };
  struct qp_save_result results[100];
  struct qp_err err;

  for (size_t i = 0; i < job->n && !job->rc; i++)
    job->rc = qp_message_new_text(QP_ROLE_USER, bytes_of("x"), &m[i], &err);
  if (!job->rc)
    job->rc = qp_message_save_batch(job->context, NULL, m, job->n, results, &err);
  for (size_t i = 0; i < job->n; i++)
    qp_message_free(m[i]);
  return NULL;
}

/* Scenario: Batch message save */
static void
scenario_batch_message_save(void **state)
{
  struct fixture *f = *state;
  static const size_t batches[] = { 12, 100 };
  struct qp_context *c;
  struct qp_uuid taken;
  struct qp_message *m[3];
  struct qp_save_result results[3];

  close_store(f);
  f->options.flags = 0; /* with threads */
  f->options.journal_bytes = 0;
  open_store(f);
  watch_calls(f);
  c = new_context(f);
  taken = say(c, NULL, "first");
  for (size_t i = 0; i < COUNT(batches); i++) {
    struct job job = { .context = c, .n = batches[i] };
    uint64_t commits = stats(f).commits;
    pthread_t thread;

    /* Concurrently: three files are being created at the same moment. */
    if (batches[i] < 32)
      os_gate_shut_creation(); /* in tmp/, to be renamed */
    else
      os_gate_shut(QP__SLOT_OPENAT, ".json"); /* in their places */
    assert_int_equal(pthread_create(&thread, NULL, save_batch, &job), 0);
    assert_true(os_gate_await(3));
    count_calls_to(f, "index.log");
    os_gate_open();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(job.rc, QP_OK);
    /* The index once, after all of them. */
    assert_int_equal(calls_of(f, QP__SLOT_PWRITE), 1);
    assert_int_equal(stats(f).commits, commits + 1);
  }
  assert_int_equal(branch_of(c, NULL).messages, 113);

  /* Partial success. */
  for (size_t i = 0; i < COUNT(m); i++)
    m[i] = new_text(QP_ROLE_USER, "y");
  qp_message_set_id(m[1], &taken);
  OK(qp_message_save_batch(c, NULL, m, COUNT(m), results, &failure));
  assert_int_equal(results[0].err.rc, QP_OK);
  assert_int_equal(results[1].err.rc, QP_EXISTS);
  assert_int_equal(results[2].err.rc, QP_OK);
  assert_int_equal(branch_of(c, NULL).messages, 115);
  for (size_t i = 0; i < COUNT(m); i++)
    qp_message_free(m[i]);
  qp_context_close(c);
  expect_no_findings(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(scenario_context_metadata_storage_structure),
    cmocka_unit_test(scenario_message_content_storage_structure),
    cmocka_unit_test(scenario_message_index_structure),
    cmocka_unit_test(scenario_loading_context_without_messages),
    cmocka_unit_test(scenario_loading_specific_messages),
    cmocka_unit_test(scenario_loading_message_range),
    cmocka_unit_test(scenario_lazy_loading_during_iteration),
    cmocka_unit_test(scenario_saving_a_new_message),
    cmocka_unit_test(scenario_updating_context_metadata),
    cmocka_unit_test(scenario_batch_message_save),
  };

  return run_on_files("separated storage", tests, COUNT(tests));
}

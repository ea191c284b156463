/* test_contexts.c - the contract of every store driver for stores and contexts: create, open,
 * close, delete, list, metadata, size. */
#include <stdio.h>

#include "store_test.h"

static const struct qp_uuid no_id;

/* ---- helpers ---- */

struct id_list {
  struct qp_uuid ids[64];
  size_t count;
  size_t stop_after; /* 0: never */
};

static enum qp_rc
collect_context(void *arg, const struct qp_uuid *id)
{
  struct id_list *l = arg;

  assert_true(l->count < COUNT(l->ids));
  l->ids[l->count++] = *id;
  return l->count == l->stop_after ? QP_STOPPED : QP_OK;
}

static size_t
count_contexts(struct fixture *f)
{
  struct id_list l = { .count = 0 };

  OK(qp_context_list(f->store, collect_context, &l, &failure));
  return l.count;
}

static bool
is_listed(struct fixture *f, const struct qp_uuid *id)
{
  struct id_list l = { .count = 0 };
  size_t seen = 0;

  OK(qp_context_list(f->store, collect_context, &l, &failure));
  for (size_t i = 0; i < l.count; i++)
    seen += qp_uuid_equal(&l.ids[i], id);
  assert_true(seen <= 1);
  return seen == 1;
}

static void
update(struct qp_context *c, const char *patch)
{
  OK(qp_context_update(c, bytes_of(patch), &failure));
}

/* The metadata as text without its time of change. */
static char *
state_of(struct qp_context *c)
{
  json_t *meta = metadata_of(c);
  char *text;

  assert_int_equal(json_object_del(meta, "updated_at"), 0);
  text = json_dumps(meta, JSON_COMPACT | JSON_SORT_KEYS);
  json_decref(meta);
  return text;
}

static void
expect_state(struct qp_context *c, const char *want)
{
  char *got = state_of(c);

  assert_string_equal(got, want);
  free(got);
}

static const char *
text_at(const json_t *object, const char *key)
{
  return json_string_value(json_object_get(object, key));
}

/* ---- stores ---- */

static void
test_a_store_is_found_by_its_url(void **state)
{
  struct fixture *f = *state;
  struct qp_store *s = (struct qp_store *)f;

  FAILS(qp_store_open("", NULL, &s, &failure), QP_INVALID);
  FAILS(qp_store_open("file:", NULL, &s, &failure), QP_INVALID);
  FAILS(qp_store_open("memory:x", NULL, &s, &failure), QP_INVALID);
  FAILS(qp_store_open("redis://:secret@localhost/x", NULL, &s, &failure), QP_INVALID);
  expect_sentence("redis://");
  assert_ptr_equal(s, f);
  s = NULL;
  OK(qp_store_open("memory:", NULL, &s, NULL));
  qp_store_close(s);
  OK(qp_store_open(pathf("file:%s/copy", f->dir), NULL, &s, NULL));
  qp_store_close(s);
  assert_true(file_exists(pathf("%s/copy/quipu.lock", f->dir)));
  qp_store_close(NULL);
}

static void
test_options_of_a_newer_library_are_refused(void **state)
{
  struct fixture *f = *state;
  struct {
    struct qp_store_options o;
    uint64_t newer;
  } larger = { { .size = sizeof(larger) }, 1 };
  struct qp_store *s = NULL;

  FAILS(qp_store_open(f->driver->durable ? pathf("%s/copy", f->dir) : "memory:", &larger.o, &s,
                      &failure),
        QP_MISUSE);
  assert_null(s);
}

static void
test_a_new_store_is_empty(void **state)
{
  struct fixture *f = *state;
  struct qp_store_stats s = stats(f);

  assert_int_equal(count_contexts(f), 0);
  assert_int_equal(s.commits, 0);
  assert_int_equal(s.contexts_open, 0);
  assert_int_equal(s.pool_bytes, 0);
  assert_int_equal(s.recovered, 0);
  OK(qp_store_checkpoint(f->store, &failure));
  expect_no_findings(f);
}

/* ---- create ---- */

static void
test_create_makes_an_empty_branch_main_with_defaults(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  char text[QP_UUID_TEXT];
  json_t *meta = metadata_of(c);
  const json_t *config = json_object_get(meta, "config");
  struct qp_branch_info main_branch = branch_of(c, "main");

  assert_int_equal(id.b[6] >> 4, 7);
  assert_string_equal(text_at(meta, "id"), qp_uuid_text(&id, text));
  assert_true(json_is_null(json_object_get(meta, "parent_id")));
  assert_true(json_is_null(json_object_get(meta, "title")));
  assert_string_equal(text_at(config, "model_id"), "");
  assert_string_equal(text_at(config, "mode"), "chat");
  assert_string_equal(text_at(config, "agent_role"), "actor");
  assert_true(json_is_null(json_object_get(config, "system_prompt_id")));
  assert_true(json_is_object(json_object_get(config, "parameters")));
  assert_int_equal(json_object_size(json_object_get(config, "parameters")), 0);
  assert_string_equal(text_at(meta, "current_state"), "Idle");
  assert_string_equal(text_at(meta, "active_branch_name"), "main");
  assert_string_equal(text_at(meta, "created_at"), text_at(meta, "updated_at"));
  json_decref(meta);
  expect_branches(c, "main*");
  assert_true(main_branch.active);
  assert_true(qp_uuid_is_none(&main_branch.head));
  assert_int_equal(main_branch.messages, 0);
  assert_int_equal(main_branch.message_bytes, 0);
  assert_null(main_branch.system_prompt_id);
  assert_true(main_branch.created_at > 1600000000000);
  expect_texts(c, NULL, "");
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_ids_of_contexts_rise(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid last = no_id;

  for (int i = 0; i < 20; i++) {
    struct qp_context *c = new_context(f);
    struct qp_uuid id = qp_context_id(c);

    assert_true(memcmp(&last, &id, sizeof(id)) < 0);
    last = id;
    qp_context_close(c);
  }
  assert_int_equal(count_contexts(f), 20);
}

static void
test_create_takes_everything_from_the_spec(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = {
    .size = sizeof(struct qp_context_spec),
    .id = id_of("018f0000-0000-7000-8000-00000000abcd"),
    .parent_id = id_of("018F0000-0000-7000-8000-00000000ABCE"),
    .title = "Über \"alles\" \xf0\x9f\x98\x80",
    .model_id = "claude-x",
    .mode = "plan",
    .agent_role = "planner",
    .system_prompt_id = "base",
    .parameters_json = "{\"temperature\": 0.5, \"deep\": {\"list\": [1, 2, null]}}",
  };
  struct qp_context *c = NULL;
  json_t *meta;
  const json_t *config;
  char *parameters;

  set_prompt(f, "base", "Be kind.");
  OK(qp_context_create(f->store, &spec, &c, &failure));
  for (int round = 0; round < 2; round++) {
    struct qp_uuid id = qp_context_id(c);

    expect_id(&id, &spec.id);
    meta = metadata_of(c);
    config = json_object_get(meta, "config");
    assert_string_equal(text_at(meta, "parent_id"), "018f0000-0000-7000-8000-00000000abce");
    assert_string_equal(text_at(meta, "title"), spec.title);
    assert_string_equal(text_at(config, "model_id"), "claude-x");
    assert_string_equal(text_at(config, "mode"), "plan");
    assert_string_equal(text_at(config, "agent_role"), "planner");
    assert_string_equal(text_at(config, "system_prompt_id"), "base");
    parameters = json_dumps(json_object_get(config, "parameters"), JSON_COMPACT);
    assert_string_equal(parameters, "{\"temperature\":0.5,\"deep\":{\"list\":[1,2,null]}}");
    free(parameters);
    json_decref(meta);
    qp_context_close(c);
    reload(f);
    c = open_context(f, &spec.id);
  }
  qp_context_close(c);
}

static void
test_create_with_a_taken_id_fails_and_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = "other" };
  struct qp_context *first = new_context(f);
  struct qp_context *c = NULL;
  uint64_t commits;

  (void)say(first, NULL, "a");
  spec.id = qp_context_id(first);
  commits = stats(f).commits;
  FAILS(qp_context_create(f->store, &spec, &c, &failure), QP_EXISTS);
  expect_texts(first, NULL, "a");
  qp_context_close(first);
  FAILS(qp_context_create(f->store, &spec, &c, &failure), QP_EXISTS);
  assert_int_equal(stats(f).commits, commits);
  reload(f);
  FAILS(qp_context_create(f->store, &spec, &c, &failure), QP_EXISTS);
  assert_null(c);
  c = open_context(f, &spec.id);
  expect_texts(c, NULL, "a");
  qp_context_close(c);
  assert_int_equal(count_contexts(f), 1);
  expect_no_findings(f);
}

static void
test_create_refuses_what_cannot_be_and_leaves_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = id_of("018f0000-0000-7000-8000-000000000001");
  char long_title[1100];
  struct {
    struct qp_context_spec spec;
    enum qp_rc rc;
  } bad[] = {
    { { .system_prompt_id = "nobody" }, QP_NOTFOUND },
    { { .system_prompt_id = "" }, QP_INVALID },
    { { .system_prompt_id = "../metadata" }, QP_INVALID },
    { { .title = "\xff\xfe" }, QP_INVALID },
    { { .title = long_title }, QP_INVALID },
    { { .model_id = "\xc3" }, QP_INVALID },
    { { .parameters_json = "[1]" }, QP_INVALID },
    { { .parameters_json = "{" }, QP_INVALID },
    { { .parameters_json = "{\"a\":1,\"a\":2}" }, QP_INVALID },
  };
  struct qp_context *c = NULL;

  memset(long_title, 'x', sizeof(long_title) - 1);
  long_title[sizeof(long_title) - 1] = 0;
  for (size_t i = 0; i < COUNT(bad); i++) {
    bad[i].spec.size = sizeof(bad[i].spec);
    bad[i].spec.id = id;
    FAILS(qp_context_create(f->store, &bad[i].spec, &c, &failure), bad[i].rc);
    assert_null(c);
    assert_int_equal(qp_context_create(f->store, &bad[i].spec, &c, NULL), bad[i].rc);
  }
  assert_int_equal(count_contexts(f), 0);
  assert_int_equal(stats(f).contexts_open, 0);
  FAILS(qp_context_open(f->store, &id, QP_LOAD_NONE, &c, &failure), QP_NOTFOUND);
  bad[0].spec.system_prompt_id = NULL;
  OK(qp_context_create(f->store, &bad[0].spec, &c, &failure));
  qp_context_close(c);
  assert_true(is_listed(f, &id));
  expect_no_findings(f);
}

/* ---- open and close ---- */

static void
test_open_of_an_unknown_context(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = id_of("018f0000-0000-7000-8000-000000000001");
  struct qp_context *c = (struct qp_context *)f;

  FAILS(qp_context_open(f->store, &id, QP_LOAD_NONE, &c, &failure), QP_NOTFOUND);
  expect_sentence("018f0000-0000-7000-8000-000000000001");
  FAILS(qp_context_open(f->store, &id, QP_LOAD_MESSAGES, &c, &failure), QP_NOTFOUND);
  FAILS(qp_context_open(f->store, &no_id, QP_LOAD_NONE, &c, &failure), QP_NOTFOUND);
  assert_ptr_equal(c, f);
  assert_int_equal(stats(f).contexts_open, 0);
  qp_context_close(NULL);
}

static void
test_handles_on_one_context_see_the_same(void **state)
{
  struct fixture *f = *state;
  struct qp_context *a = new_context(f);
  struct qp_uuid id = qp_context_id(a);
  struct qp_context *b = open_context(f, &id);

  (void)say(a, NULL, "x");
  expect_texts(b, NULL, "x");
  (void)say(b, NULL, "y");
  expect_texts(a, NULL, "x y");
  update(b, "{\"title\":\"shared\"}");
  assert_int_equal(qp_context_version(a), qp_context_version(b));
  qp_context_close(a);
  (void)say(b, NULL, "z");
  expect_texts(b, NULL, "x y z");
  assert_int_equal(stats(f).contexts_open, 1);
  qp_context_close(b);
}

static void
test_a_closed_context_opens_again_with_everything(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  char *before;

  (void)say(c, NULL, "a");
  (void)say(c, NULL, "b");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  (void)say(c, "side", "c");
  OK(qp_branch_switch(c, "side", &failure));
  update(c, "{\"title\":\"T\",\"extra\":[1,{\"x\":null}]}");
  before = state_of(c);
  for (int round = 0; round < 3; round++) {
    qp_context_close(c);
    if (round)
      reload(f);
    OK(qp_context_open(f->store, &id, round == 2 ? QP_LOAD_MESSAGES : QP_LOAD_NONE, &c, &failure));
    expect_state(c, before);
    expect_branches(c, "main side*");
    expect_texts(c, "main", "a b");
    expect_texts(c, NULL, "a b c");
  }
  qp_context_close(c);
  free(before);
  expect_no_findings(f);
}

static void
test_loading_messages_brings_those_of_every_branch_into_memory(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_store_stats s;

  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  (void)say(c, NULL, "b");
  (void)say(c, "side", "c");
  qp_context_close(c);
  reload(f);
  OK(qp_context_open(f->store, &id, QP_LOAD_MESSAGES, &c, &failure));
  s = stats(f);
  assert_int_equal(s.message_reads, 3);
  expect_texts(c, "main", "a b");
  expect_texts(c, "side", "a c");
  assert_int_equal(stats(f).message_reads, 3);
  assert_int_equal(stats(f).pool_hits - s.pool_hits, 4);
  qp_context_close(c);
}

/* ---- delete ---- */

static void
test_delete_waits_for_every_handle_and_is_final(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_context *other = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid other_id = qp_context_id(other);
  struct qp_context *second = open_context(f, &id);

  (void)say(c, NULL, "a");
  (void)say(other, NULL, "stays");
  FAILS(qp_context_delete(f->store, &id, &failure), QP_BUSY);
  qp_context_close(c);
  FAILS(qp_context_delete(f->store, &id, &failure), QP_BUSY);
  expect_texts(second, NULL, "a");
  qp_context_close(second);
  assert_true(is_listed(f, &id));
  OK(qp_context_delete(f->store, &id, &failure));
  for (int round = 0; round < 2; round++) {
    assert_false(is_listed(f, &id));
    assert_true(is_listed(f, &other_id));
    FAILS(qp_context_open(f->store, &id, QP_LOAD_NONE, &c, &failure), QP_NOTFOUND);
    FAILS(qp_context_delete(f->store, &id, &failure), QP_NOTFOUND);
    expect_texts(other, NULL, "stays");
    qp_context_close(other);
    reload(f);
    other = open_context(f, &other_id);
  }
  qp_context_close(other);
  expect_no_findings(f);
}

static void
test_a_deleted_id_can_be_used_again_and_begins_empty(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = "second" };
  struct qp_context *c = new_context(f);

  (void)say(c, NULL, "old");
  spec.id = qp_context_id(c);
  qp_context_close(c);
  OK(qp_context_delete(f->store, &spec.id, &failure));
  OK(qp_context_create(f->store, &spec, &c, &failure));
  expect_texts(c, NULL, "");
  (void)say(c, NULL, "new");
  qp_context_close(c);
  reload(f);
  c = open_context(f, &spec.id);
  expect_texts(c, NULL, "new");
  qp_context_close(c);
  expect_no_findings(f);
}

/* ---- list ---- */

static void
test_list_visits_each_context_once_until_it_is_stopped(void **state)
{
  struct fixture *f = *state;
  struct id_list l = { .stop_after = 2 };
  struct qp_context *c[5];

  for (size_t i = 0; i < COUNT(c); i++)
    c[i] = new_context(f);
  for (size_t i = 0; i < COUNT(c); i++) {
    struct qp_uuid id = qp_context_id(c[i]);

    assert_true(is_listed(f, &id));
    qp_context_close(c[i]);
  }
  assert_int_equal(count_contexts(f), COUNT(c));
  assert_int_equal(qp_context_list(f->store, collect_context, &l, &failure), QP_STOPPED);
  assert_int_equal(l.count, 2);
  reload(f);
  assert_int_equal(count_contexts(f), COUNT(c));
}

static enum qp_rc
open_and_close(void *arg, const struct qp_uuid *id)
{
  struct fixture *f = arg;
  struct qp_context *c = open_context(f, id);

  (void)say(c, NULL, "visited");
  qp_context_close(c);
  return QP_OK;
}

static void
test_a_visitor_of_contexts_may_use_the_store(void **state)
{
  struct fixture *f = *state;

  for (int i = 0; i < 3; i++)
    qp_context_close(new_context(f));
  OK(qp_context_list(f->store, open_and_close, f, &failure));
  assert_int_equal(stats(f).commits, 6);
}

/* ---- metadata ---- */

static void
test_a_context_belongs_to_its_owner(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .owner = "alice" };
  struct qp_context *nobodys = new_context(f);
  struct qp_context *c = NULL;
  struct qp_uuid id;

  OK(qp_context_create(f->store, &spec, &c, &failure));
  id = qp_context_id(c);
  assert_true(qp_context_belongs_to(c, "alice"));
  assert_false(qp_context_belongs_to(c, "alic"));
  assert_false(qp_context_belongs_to(c, "alice2"));
  assert_false(qp_context_belongs_to(c, ""));
  assert_false(qp_context_belongs_to(nobodys, ""));
  assert_false(qp_context_belongs_to(nobodys, "alice"));
  update(c, "{\"owner\":\"bob\"}");
  assert_false(qp_context_belongs_to(c, "alice"));
  assert_true(qp_context_belongs_to(c, "bob"));
  qp_context_close(c);
  qp_context_close(nobodys);
  reload(f);
  c = open_context(f, &id);
  assert_true(qp_context_belongs_to(c, "bob"));
  update(c, "{\"owner\":{\"name\":\"bob\"}}"); /* none that quipu knows */
  assert_false(qp_context_belongs_to(c, "bob"));
  update(c, "{\"owner\":null}");
  assert_false(qp_context_belongs_to(c, "bob"));
  qp_context_close(c);
}

static void
test_update_changes_what_is_named_and_nothing_else(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  json_t *meta;
  const json_t *config;

  set_prompt(f, "p1", "One.");
  update(c, "{\"title\":\"T\",\"parent_id\":\"018f0000-0000-7000-8000-000000000009\","
            "\"config\":{\"model_id\":\"m\",\"system_prompt_id\":\"p1\",\"new\":[1]},"
            "\"current_state\":\"AwaitingToolApproval\",\"state_detail\":{\"n\":1},"
            "\"labels\":[\"a\"],\"owner\":{\"name\":\"me\"}}");
  update(c, "{\"config\":{\"mode\":\"plan\"}}");
  for (int round = 0; round < 2; round++) {
    meta = metadata_of(c);
    config = json_object_get(meta, "config");
    assert_string_equal(text_at(meta, "title"), "T");
    assert_string_equal(text_at(meta, "parent_id"), "018f0000-0000-7000-8000-000000000009");
    assert_string_equal(text_at(config, "model_id"), "m");
    assert_string_equal(text_at(config, "mode"), "plan");
    assert_string_equal(text_at(config, "agent_role"), "actor");
    assert_string_equal(text_at(config, "system_prompt_id"), "p1");
    assert_int_equal(json_array_size(json_object_get(config, "new")), 1);
    assert_string_equal(text_at(meta, "current_state"), "AwaitingToolApproval");
    assert_int_equal(json_object_size(json_object_get(meta, "state_detail")), 1);
    assert_int_equal(json_array_size(json_object_get(meta, "labels")), 1);
    assert_string_equal(text_at(json_object_get(meta, "owner"), "name"), "me");
    json_decref(meta);
    qp_context_close(c);
    reload(f);
    c = open_context(f, &id);
  }
  update(c, "{\"title\":null,\"parent_id\":null,\"state_detail\":null,\"labels\":null,"
            "\"config\":{\"new\":null,\"system_prompt_id\":null,\"model_id\":null}}");
  meta = metadata_of(c);
  config = json_object_get(meta, "config");
  assert_true(json_is_null(json_object_get(meta, "title")));
  assert_true(json_is_null(json_object_get(meta, "parent_id")));
  assert_null(json_object_get(meta, "state_detail"));
  assert_null(json_object_get(meta, "labels"));
  assert_non_null(json_object_get(meta, "owner"));
  assert_null(json_object_get(config, "new"));
  assert_true(json_is_null(json_object_get(config, "system_prompt_id")));
  assert_string_equal(text_at(config, "model_id"), "");
  json_decref(meta);
  qp_context_close(c);
}

static void
test_update_refuses_what_cannot_be_and_changes_nothing(void **state)
{
  struct fixture *f = *state;
  static const char *const bad[] = {
    "",
    "[]",
    "null",
    "{\"title\":",
    "{\"title\":1}",
    "{\"title\":\"a\",\"title\":\"b\"}",
    "{\"title\":\"\xff\"}",
    "{\"title\":\"x\"} trailing",
    "{\"title\":\"half\",\"config\":7}",
    "{\"title\":\"half\",\"config\":{\"parameters\":[]}}",
    "{\"title\":\"half\",\"parent_id\":\"nothing\"}",
    "{\"title\":\"half\",\"current_state\":\"Asleep\"}",
    "{\"title\":\"half\",\"current_state\":null}",
    "{\"title\":\"half\",\"id\":\"018f0000-0000-7000-8000-000000000009\"}",
    "{\"title\":\"half\",\"branches\":{}}",
    "{\"title\":\"half\",\"active_branch_name\":\"main\"}",
    "{\"title\":\"half\",\"created_at\":\"2026-01-01T00:00:00.000Z\"}",
    "{\"title\":\"half\",\"updated_at\":\"2026-01-01T00:00:00.000Z\"}",
    "{\"title\":\"half\",\"config\":{\"system_prompt_id\":\"../x\"}}",
  };
  struct qp_context *c = new_context(f);
  uint64_t commits = stats(f).commits;
  uint64_t version = qp_context_version(c);
  char *before = state_of(c);

  for (size_t i = 0; i < COUNT(bad); i++) {
    FAILS(qp_context_update(c, bytes_of(bad[i]), &failure), QP_INVALID);
    expect_state(c, before);
  }
  FAILS(qp_context_update(
            c, bytes_of("{\"title\":\"half\",\"config\":{\"system_prompt_id\":\"x\"}}"), &failure),
        QP_NOTFOUND);
  expect_state(c, before);
  assert_int_equal(stats(f).commits, commits);
  assert_int_equal(qp_context_version(c), version);
  qp_context_close(c);
  free(before);
}

static void
test_update_without_a_change_writes_nothing(void **state)
{
  struct fixture *f = *state;
  static const char *const same[] = {
    "{}",
    "{\"title\":\"T\"}",
    "{\"config\":{}}",
    "{\"config\":{\"model_id\":\"\",\"absent\":null}}",
    "{\"absent\":null}",
    "{\"labels\":[1,2]}",
    "{\"current_state\":\"Idle\"}",
    " {\n\"title\" : \"T\" } ",
  };
  struct qp_context *c = new_context(f);
  json_t *before;
  uint64_t commits;
  uint64_t version;

  update(c, "{\"title\":\"T\",\"labels\":[1,2]}");
  before = metadata_of(c);
  commits = stats(f).commits;
  version = qp_context_version(c);
  for (size_t i = 0; i < COUNT(same); i++) {
    json_t *now;

    update(c, same[i]);
    now = metadata_of(c);
    assert_true(json_equal(before, now)); /* updated_at too */
    json_decref(now);
    assert_int_equal(stats(f).commits, commits);
    assert_int_equal(qp_context_version(c), version);
  }
  json_decref(before);
  qp_context_close(c);
}

static void
test_the_version_grows_with_every_change_and_with_nothing_else(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  uint64_t version = qp_context_version(c);
  struct qp_uuid first;

#define GREW(call)                                \
  do {                                            \
    call;                                         \
    assert_true(qp_context_version(c) > version); \
    version = qp_context_version(c);              \
  } while (0)
  set_prompt(f, "p", "x");
  assert_int_equal(qp_context_version(c), version);
  GREW(first = say(c, NULL, "a"));
  GREW(say_many(c, NULL, "m", 3, NULL));
  GREW(update(c, "{\"title\":\"x\"}"));
  GREW(OK(qp_branch_fork(c, "b", NULL, NULL, &failure)));
  GREW(OK(qp_branch_switch(c, "b", &failure)));
  GREW(OK(qp_branch_rename(c, "b", "c", &failure)));
  GREW(OK(qp_branch_rewind(c, "c", &first, &failure)));
  GREW(OK(qp_branch_set_prompt(c, "c", "p", &failure)));
  GREW(OK(qp_prompt_delete(f->store, "p", &failure)));
  GREW(OK(qp_branch_delete(c, "main", &failure)));
#undef GREW
  expect_texts(c, NULL, "a");
  expect_branches(c, "c*");
  OK(qp_store_checkpoint(f->store, &failure));
  FAILS(qp_branch_switch(c, "nowhere", &failure), QP_NOTFOUND);
  assert_int_equal(qp_context_version(c), version);
  qp_context_close(c);
}

/* ---- size ---- */

static void
test_size_counts_all_messages_and_the_metadata(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[3];
  struct qp_message_info info;
  struct qp_size size;
  uint64_t bytes = 0;
  char *meta = NULL;
  size_t len = 0;

  qp_context_size(c, &size);
  assert_int_equal(size.messages, 0);
  assert_int_equal(size.message_bytes, 0);
  ids[0] = say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  ids[1] = say(c, NULL, "a longer one");
  ids[2] = say(c, "side", "\xe2\x82\xac");
  for (size_t i = 0; i < COUNT(ids); i++) {
    OK(qp_message_find(c, &ids[i], &info, &failure));
    bytes += info.size;
  }
  for (int round = 0; round < 2; round++) {
    OK(qp_context_metadata(c, &meta, &len, &failure));
    qp_context_size(c, &size);
    assert_int_equal(size.metadata_bytes, len + strlen(",\n  \"quipu_sum\": \"00000000\""));
    assert_int_equal(size.messages, 3);
    assert_int_equal(size.message_bytes, bytes);
    qp_free(meta);
    qp_context_close(c);
    reload(f);
    c = open_context(f, &id);
  }
  OK(qp_branch_delete(c, "side", &failure)); /* its message is still stored */
  qp_context_size(c, &size);
  assert_int_equal(size.messages, 3);
  assert_int_equal(size.message_bytes, bytes);
  qp_context_close(c);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_store_is_found_by_its_url),
    cmocka_unit_test(test_options_of_a_newer_library_are_refused),
    cmocka_unit_test(test_a_new_store_is_empty),
    cmocka_unit_test(test_create_makes_an_empty_branch_main_with_defaults),
    cmocka_unit_test(test_ids_of_contexts_rise),
    cmocka_unit_test(test_create_takes_everything_from_the_spec),
    cmocka_unit_test(test_create_with_a_taken_id_fails_and_changes_nothing),
    cmocka_unit_test(test_create_refuses_what_cannot_be_and_leaves_nothing),
    cmocka_unit_test(test_open_of_an_unknown_context),
    cmocka_unit_test(test_handles_on_one_context_see_the_same),
    cmocka_unit_test(test_a_closed_context_opens_again_with_everything),
    cmocka_unit_test(test_loading_messages_brings_those_of_every_branch_into_memory),
    cmocka_unit_test(test_delete_waits_for_every_handle_and_is_final),
    cmocka_unit_test(test_a_deleted_id_can_be_used_again_and_begins_empty),
    cmocka_unit_test(test_list_visits_each_context_once_until_it_is_stopped),
    cmocka_unit_test(test_a_visitor_of_contexts_may_use_the_store),
    cmocka_unit_test(test_a_context_belongs_to_its_owner),
    cmocka_unit_test(test_update_changes_what_is_named_and_nothing_else),
    cmocka_unit_test(test_update_refuses_what_cannot_be_and_changes_nothing),
    cmocka_unit_test(test_update_without_a_change_writes_nothing),
    cmocka_unit_test(test_the_version_grows_with_every_change_and_with_nothing_else),
    cmocka_unit_test(test_size_counts_all_messages_and_the_metadata),
  };

  return run_on_all("contexts", tests, COUNT(tests));
}

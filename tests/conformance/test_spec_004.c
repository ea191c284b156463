/* test_spec_004.c - scenarios of the specification "context API" about the store: system prompts,
 * the display of tool calls, and the import of LocalStorage data. One test each, with the file
 * driver, named after the scenario. */
#include <stdio.h>

#include "store_test.h"

static const char *
text_at(const json_t *object, const char *key)
{
  return json_string_value(json_object_get(object, key));
}

static enum qp_rc
keep_content(void *arg, const struct qp_prompt *p)
{
  char *out = arg;

  (void)snprintf(out, 100, "%s", p->content);
  return QP_OK;
}

static void
expect_content(struct fixture *f, const char *id, const char *want)
{
  char got[100];

  OK(qp_prompt_get(f->store, id, keep_content, got, &failure));
  assert_string_equal(got, want);
}

/* The branch as metadata.json has it; the caller decrefs *meta. */
static const json_t *
stored_branch(struct fixture *f, const struct qp_uuid *id, const char *name, json_t **meta)
{
  *meta = read_json(context_path(f, id, "/metadata.json"));
  return json_object_get(json_object_get(*meta, "branches"), name);
}

/* ---- System Prompt Management in Context Manager ---- */

/* Scenario: Create system prompt for branch */
static void
scenario_create_system_prompt_for_branch(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  json_t *meta;

  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  set_prompt(f, "guide", "Be kind.");
  OK(qp_branch_set_prompt(c, "side", "guide", &failure));
  assert_string_equal(text_at(stored_branch(f, &id, "side", &meta), "system_prompt_id"), "guide");
  json_decref(meta);
  assert_string_equal(branch_of(c, "side").system_prompt_id, "guide");
  expect_content(f, "guide", "Be kind.");
  assert_true(file_exists(pathf("%s/prompts/guide.json", f->data)));
  qp_context_close(c);
}

/* Scenario: Update system prompt */
static void
scenario_update_system_prompt(void **state)
{
  struct fixture *f = *state;
  struct qp_context *a = new_context(f);
  struct qp_context *b = new_context(f);
  struct qp_prompt p = { .id = "guide", .content = "Be brief." };
  char *before;
  char *after;

  set_prompt(f, "guide", "Be kind.");
  OK(qp_branch_fork(a, "side", NULL, NULL, &failure));
  OK(qp_branch_set_prompt(a, "main", "guide", &failure));
  OK(qp_branch_set_prompt(a, "side", "guide", &failure));
  OK(qp_branch_set_prompt(b, "main", "guide", &failure));
  before = take_picture(pathf("%s/contexts", f->data));
  OK(qp_prompt_update(f->store, &p, &failure));
  expect_content(f, branch_of(a, "main").system_prompt_id, "Be brief.");
  expect_content(f, branch_of(a, "side").system_prompt_id, "Be brief.");
  expect_content(f, branch_of(b, "main").system_prompt_id, "Be brief.");
  after = take_picture(pathf("%s/contexts", f->data));
  expect_difference(before, after, ""); /* it is kept once and copied nowhere */
  free(before);
  free(after);
  qp_context_close(a);
  qp_context_close(b);
  reload(f);
  expect_content(f, "guide", "Be brief.");
}

/* Scenario: Delete system prompt */
static void
scenario_delete_system_prompt(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .system_prompt_id = "guide" };
  struct qp_context *c = NULL;
  struct qp_uuid ids[2];
  json_t *meta;

  set_prompt(f, "guide", "Be kind.");
  for (int i = 0; i < 2; i++) {
    OK(qp_context_create(f->store, &spec, &c, &failure));
    ids[i] = qp_context_id(c);
    OK(qp_branch_set_prompt(c, "main", "guide", &failure));
    qp_context_close(c);
  }
  reload(f); /* neither is in memory */
  c = open_context(f, &ids[0]);
  OK(qp_prompt_delete(f->store, "guide", &failure));
  for (int i = 0; i < 2; i++) {
    const json_t *branch = stored_branch(f, &ids[i], "main", &meta);
    const json_t *config = json_object_get(meta, "config");

    /* Without a prompt of its own a branch behaves by default. */
    assert_true(json_is_null(json_object_get(branch, "system_prompt_id")));
    assert_true(json_is_null(json_object_get(config, "system_prompt_id")));
    json_decref(meta);
  }
  assert_null(branch_of(c, "main").system_prompt_id);
  assert_false(file_exists(pathf("%s/prompts/guide.json", f->data)));
  (void)say(c, "main", "goes on");
  expect_texts(c, "main", "goes on");
  qp_context_close(c);
  expect_no_findings(f);
}

struct listed {
  size_t count;
  bool complete;
};

static enum qp_rc
look_at_prompt(void *arg, const struct qp_prompt *p)
{
  struct listed *l = arg;
  char id[32];

  (void)snprintf(id, sizeof(id), "prompt-%zu", l->count++);
  l->complete = l->complete && strcmp(p->id, id) == 0 && strcmp(p->name, "Name") == 0 &&
                strcmp(p->description, "Description") == 0 && strcmp(p->content, id) == 0 &&
                p->created_at > 0 && p->updated_at >= p->created_at;
  return QP_OK;
}

/* Scenario: List all system prompts */
static void
scenario_list_all_system_prompts(void **state)
{
  struct fixture *f = *state;
  struct listed l = { 0, true };

  for (size_t i = 0; i < 9; i++) {
    char id[32];
    struct qp_prompt p = { .id = id, .name = "Name", .description = "Description", .content = id };

    (void)snprintf(id, sizeof(id), "prompt-%zu", i);
    OK(qp_prompt_create(f->store, &p, NULL, &failure));
  }
  OK(qp_prompt_list(f->store, look_at_prompt, &l, &failure));
  assert_int_equal(l.count, 9);
  assert_true(l.complete);
}

/* ---- Tool Call Display Metadata ---- */

/* Scenario: Tool call with display preference */
static void
scenario_tool_call_with_display_preference(void **state)
{
  struct fixture *f = *state;
  static const char *const names[] = { "Default", "Collapsible", "Hidden" };
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_message *m = NULL;
  struct qp_uuid message;
  const json_t *calls;
  json_t *file;

  OK(qp_message_new(QP_ROLE_ASSISTANT, &m, &failure));
  for (int i = 0; i < 3; i++) {
    struct qp_tool_call call = {
      .id = "c",
      .tool_name = "read_file",
      .arguments_json = "{}",
      .display = (enum qp_display)i,
      .ui_hints_json = "{\"icon\":\"file\"}",
    };

    OK(qp_message_add_tool_call(m, &call, &failure));
  }
  OK(qp_message_save(c, NULL, m, &message, &failure));
  qp_message_free(m);
  file = read_json(message_path(f, &id, "branch-main", &message));
  calls = json_object_get(file, "tool_calls");
  assert_int_equal(json_array_size(calls), 3);
  for (size_t i = 0; i < 3; i++) {
    const json_t *call = json_array_get(calls, i);

    assert_string_equal(text_at(call, "display_preference"), names[i]);
    assert_string_equal(text_at(json_object_get(call, "ui_hints"), "icon"), "file");
  }
  json_decref(file);
  qp_context_close(c);
}

/* ---- Frontend LocalStorage Chat Management ---- */

/* Removed requirement: "Existing LocalStorage data is migrated to backend contexts via migration
 * utility". */
static void
scenario_localstorage_data_is_migrated(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = id_of("0197c0de-1111-7222-8333-444455556666");
  struct qp_context *c;
  json_t *meta;

  OK(qp_localstorage_import(f->store, TEST_FIXTURES "/localstorage/v2.json", 0, NULL, NULL,
                            &failure));
  c = open_context(f, &id);
  expect_texts(c, NULL, "hi Hi.");
  assert_string_equal(text_at(stored_branch(f, &id, "main", &meta), "system_prompt_id"), "p1");
  assert_string_equal(text_at(meta, "title"), "Terse talk");
  assert_string_equal(text_at(meta, "created_at"), "2025-11-01T09:40:00.000Z");
  assert_string_equal(text_at(json_object_get(meta, "config"), "mode"), "general");
  json_decref(meta);
  expect_content(f, "p1", "Be terse.");
  OK(qp_prompt_delete(f->store, "p1", &failure)); /* a prompt and a reference like all others */
  assert_null(branch_of(c, "main").system_prompt_id);
  qp_context_close(c);
  expect_no_findings(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(scenario_create_system_prompt_for_branch),
    cmocka_unit_test(scenario_update_system_prompt),
    cmocka_unit_test(scenario_delete_system_prompt),
    cmocka_unit_test(scenario_list_all_system_prompts),
    cmocka_unit_test(scenario_tool_call_with_display_preference),
    cmocka_unit_test(scenario_localstorage_data_is_migrated),
  };

  return run_on_files("context API", tests, COUNT(tests));
}

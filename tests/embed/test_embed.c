/* test_embed.c - the library as a program sees it that embeds it: the public headers and
 * libquipu.so, nothing else. What the server and the command line do not use is used here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs those above */
#include <cmocka.h>

#include "quipu.h"

static struct qp_err failure;

#define OK(call) assert_int_equal((call), QP_OK)
#define FAILS(call, rc) assert_int_equal((call), (rc))

static struct qp_bytes
bytes_of(const char *text)
{
  return (struct qp_bytes){ text, strlen(text) };
}

static struct qp_store *
open_store(const char *url)
{
  struct qp_store_options options = QP_INIT(struct qp_store_options);
  struct qp_store *store = NULL;

  options.pool_bytes = 1; /* messages come from the disk */
  OK(qp_store_open(url, &options, &store, &failure));
  return store;
}

static struct qp_context *
new_context(struct qp_store *store)
{
  struct qp_context *context = NULL;

  OK(qp_context_create(store, NULL, &context, &failure));
  return context;
}

/* ---- messages ---- */

/* A call of a tool, put together part by part. */
static struct qp_message *
new_call(const struct qp_uuid *id)
{
  const struct qp_part parts[] = {
    { .kind = QP_PART_THINKING, .text = bytes_of("hm"), .signature = "sig" },
    { .kind = QP_PART_TEXT, .text = bytes_of("I look it up.") },
    { .kind = QP_PART_IMAGE, .url = QP_BLOB_URL "00", .detail = "low" },
  };
  const struct qp_tool_call call = { .id = "c1",
                                     .tool_name = "lookup",
                                     .arguments_json = "{\"q\":1}",
                                     .approval = QP_APPROVAL_APPROVED };
  struct qp_message *m = NULL;

  OK(qp_message_new(QP_ROLE_ASSISTANT, &m, &failure));
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
    OK(qp_message_add_part(m, &parts[i], &failure));
  OK(qp_message_add_tool_call(m, &call, &failure));
  OK(qp_message_set_metadata(m, "{\"tokens\":{\"output\":7}}", &failure));
  qp_message_set_type(m, QP_TYPE_TOOL_CALL);
  qp_message_set_id(m, id);
  qp_message_set_created_at(m, 1700000000123);
  return m;
}

static void
test_a_message_is_read_back_as_it_was_made(void **state)
{
  const struct qp_tool_result result = { .request_id = "c1",
                                         .result_json = "[1]",
                                         .is_error = true };
  struct qp_store *store = open_store("memory:");
  struct qp_context *c = new_context(store);
  struct qp_tool_result back;
  struct qp_message *m, *answer = NULL;
  struct qp_uuid id, answer_id, got;
  char *json = NULL;
  size_t len;

  (void)state;
  OK(qp_uuid_parse("018f0000-0000-7000-8000-000000000001", &id, &failure));
  m = new_call(&id);
  OK(qp_message_save(c, NULL, m, NULL, &failure));
  qp_message_free(m);
  OK(qp_message_new(QP_ROLE_TOOL, &answer, &failure));
  OK(qp_message_set_tool_result(answer, &result, &failure));
  qp_message_set_parent(answer, &id);
  OK(qp_message_save(c, NULL, answer, &answer_id, &failure));
  qp_message_free(answer);

  OK(qp_message_load(c, &id, &m, &failure));
  got = qp_message_id(m);
  assert_true(qp_uuid_equal(&got, &id));
  assert_int_equal(qp_message_role(m), QP_ROLE_ASSISTANT);
  assert_int_equal(qp_message_type(m), QP_TYPE_TOOL_CALL);
  assert_int_equal(qp_message_created_at(m), 1700000000123);
  assert_int_equal(qp_message_part_count(m), 3);
  assert_string_equal(qp_message_part(m, 0).signature, "sig");
  assert_string_equal(qp_message_part(m, 2).detail, "low");
  assert_int_equal(qp_message_tool_call_count(m), 1);
  assert_string_equal(qp_message_tool_call(m, 0).arguments_json, "{\"q\":1}");
  assert_false(qp_message_tool_result(m, &back));
  OK(qp_message_metadata(m, &json, &len, &failure));
  assert_string_equal(json, "{\"tokens\":{\"output\":7}}");
  assert_int_equal(len, strlen(json));
  qp_free(json);
  qp_message_free(m);

  OK(qp_message_load(c, &answer_id, &m, &failure));
  got = qp_message_parent(m);
  assert_true(qp_uuid_equal(&got, &id));
  assert_true(qp_message_tool_result(m, &back));
  assert_true(back.is_error);
  assert_string_equal(back.result_json, "[1]");
  OK(qp_message_metadata(m, &json, &len, &failure));
  assert_string_equal(json, "{}");
  qp_free(json);
  qp_message_free(m);
  qp_context_close(c);
  qp_store_close(store);
}

/* ---- metadata ---- */

static void
test_what_a_context_was_made_with_can_be_read(void **state)
{
  struct qp_prompt prompt = { .id = "terse", .content = "Be short." };
  struct qp_context_spec spec = QP_INIT(struct qp_context_spec);
  struct qp_store *store = open_store("memory:");
  struct qp_context *c = NULL;
  struct qp_context_info *info = NULL;

  (void)state;
  OK(qp_prompt_create(store, &prompt, NULL, &failure));
  OK(qp_uuid_parse("018f0000-0000-7000-8000-000000000001", &spec.id, &failure));
  OK(qp_uuid_parse("018f0000-0000-7000-8000-000000000002", &spec.parent_id, &failure));
  spec.title = "Knots";
  spec.model_id = "demo/echo";
  spec.mode = "plan";
  spec.agent_role = "critic";
  spec.system_prompt_id = "terse";
  spec.parameters_json = "{\"temperature\":0.5}";
  spec.owner = "ada";
  OK(qp_context_create(store, &spec, &c, &failure));
  OK(qp_context_info_new(c, &info, &failure));
  assert_true(qp_uuid_equal(&info->id, &spec.id));
  assert_true(qp_uuid_equal(&info->parent_id, &spec.parent_id));
  assert_string_equal(info->title, spec.title);
  assert_string_equal(info->model_id, spec.model_id);
  assert_string_equal(info->mode, spec.mode);
  assert_string_equal(info->agent_role, spec.agent_role);
  assert_string_equal(info->system_prompt_id, spec.system_prompt_id);
  assert_string_equal(info->parameters_json, spec.parameters_json);
  assert_string_equal(info->owner, spec.owner);
  assert_string_equal(info->active_branch, "main");
  assert_int_equal(info->state, QP_STATE_IDLE);
  assert_null(info->state_detail_json);
  assert_true(info->created_at > 0 && info->updated_at >= info->created_at);
  qp_free(info);

  OK(qp_context_update(c,
                       bytes_of("{\"title\":null,\"config\":{\"system_prompt_id\":null},"
                                "\"current_state\":\"Failed\",\"state_detail\":{\"why\":1}}"),
                       &failure));
  assert_int_equal(qp_context_state(c), QP_STATE_FAILED);
  assert_true(qp_state_awaits_client(qp_context_state(c)));
  OK(qp_context_info_new(c, &info, &failure));
  assert_null(info->title);
  assert_null(info->system_prompt_id);
  assert_int_equal(info->state, QP_STATE_FAILED);
  assert_string_equal(info->state_detail_json, "{\"why\":1}");
  qp_free(info);
  qp_context_close(c);
  qp_store_close(store);
}

static void
test_every_state_has_a_name(void **state)
{
  enum qp_state found = QP_STATE_FAILED;
  size_t waits = 0;

  (void)state;
#define CHECK(name, text)                                    \
  assert_string_equal(qp_state_name(QP_STATE_##name), text); \
  assert_true(qp_state_find(text, &found));                  \
  assert_int_equal(found, QP_STATE_##name);                  \
  waits += qp_state_awaits_client(found);
  QP_STATE_MAP(CHECK)
#undef CHECK
  assert_int_equal(waits, 3);
  assert_false(qp_state_find("idle", &found));
}

/* ---- events and commits ---- */

static enum qp_rc
count_event(void *arg, const struct qp_event_info *event)
{
  size_t *count = arg;

  assert_string_equal(event->type, "mine");
  (*count)++;
  return QP_OK;
}

static void
set_done(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  enum qp_rc *out = arg;

  (void)err;
  *out = rc;
}

static void
test_a_change_is_made_once_by_its_key(void **state)
{
  const struct qp_event event = { .type = "mine", .data = bytes_of("{\"n\":1}") };
  struct qp_store *store = open_store("memory:");
  struct qp_context *c = new_context(store);
  struct qp_change change = QP_INIT(struct qp_change);
  struct qp_message *m = NULL;
  enum qp_rc done = QP_STOPPED;
  uint64_t first = 0;
  size_t count = 0, len = 0;
  char *result = NULL;

  (void)state;
  OK(qp_message_new_text(QP_ROLE_USER, bytes_of("hello"), &m, &failure));
  change.messages = &m;
  change.message_count = 1;
  change.events = &event;
  change.event_count = 1;
  change.key = "request 1";
  change.key_result = bytes_of("{\"answer\":42}");
  FAILS(qp_idempotency_find(c, "request 1", &result, &len, &failure), QP_NOTFOUND);
  OK(qp_context_commit(c, &change, &first, NULL, NULL, &failure));
  FAILS(qp_context_commit(c, &change, NULL, NULL, NULL, &failure), QP_EXISTS);
  OK(qp_idempotency_find(c, "request 1", &result, &len, &failure));
  assert_string_equal(result, "{\"answer\":42}");
  qp_free(result);
  qp_message_free(m);

  OK(qp_events_append(c, &event, 1, NULL, NULL, NULL, &failure));
  OK(qp_events_append(c, &event, 1, NULL, set_done, &done, &failure));
  qp_context_close(c);
  qp_store_close(store); /* waits for `done` */
  OK(done);
  assert_true(first > 0);

  store = open_store("memory:");
  c = new_context(store);
  OK(qp_events_append(c, &event, 1, &first, NULL, NULL, &failure));
  OK(qp_events_append(c, &event, 1, NULL, NULL, NULL, &failure));
  OK(qp_events_read(c, 0, 10, count_event, &count, &failure));
  assert_int_equal(count, 2);
  OK(qp_events_read(c, first, 10, count_event, &count, &failure));
  assert_int_equal(count, 3);
  qp_context_close(c);
  qp_store_close(store);
}

/* ---- blobs, files ---- */

static void
test_blobs_are_stored_by_their_content(void **state)
{
  struct qp_store *store = open_store("memory:");
  char id[QP_BLOB_ID], again[QP_BLOB_ID];
  char *back = NULL;
  size_t len = 0;

  (void)state;
  OK(qp_blob_put(store, (struct qp_bytes){ "a\0b", 3 }, id, &failure));
  OK(qp_blob_put(store, (struct qp_bytes){ "a\0b", 3 }, again, &failure));
  assert_string_equal(id, again);
  OK(qp_blob_get(store, id, &back, &len, &failure));
  assert_int_equal(len, 3);
  assert_memory_equal(back, "a\0b", 3);
  qp_free(back);
  id[0] = id[0] == 'f' ? '0' : 'f';
  FAILS(qp_blob_get(store, id, &back, &len, &failure), QP_NOTFOUND);
  qp_store_close(store);
}

static void
test_a_checkpoint_empties_the_journal(void **state)
{
  const char *tmp = getenv("TMPDIR");
  struct qp_store_stats before, after;
  struct qp_store *store;
  char path[4096];

  (void)state;
  (void)snprintf(path, sizeof(path), "%s/embed-data", tmp ? tmp : "/tmp");
  store = open_store(path);
  qp_context_close(new_context(store));
  qp_store_stats_get(store, &before);
  OK(qp_store_checkpoint(store, &failure));
  qp_store_stats_get(store, &after);
  assert_true(after.checkpoints > before.checkpoints);
  qp_store_close(store);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_message_is_read_back_as_it_was_made),
    cmocka_unit_test(test_what_a_context_was_made_with_can_be_read),
    cmocka_unit_test(test_every_state_has_a_name),
    cmocka_unit_test(test_a_change_is_made_once_by_its_key),
    cmocka_unit_test(test_blobs_are_stored_by_their_content),
    cmocka_unit_test(test_a_checkpoint_empties_the_journal),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}

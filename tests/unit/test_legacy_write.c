/* test_legacy_write.c - src/formats: writing the old format of contexts that were created in quipu,
 * and of migrated contexts that were changed in quipu: these changes are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "base/uuid.h"
#include "legacy_rig.h"
#include "legacy_text.h"
#include "model/message.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct qp_uuid
uuid(const char *text)
{
  struct qp_uuid id;

  assert_true(qp__uuid_decode(text, &id));
  return id;
}

static struct qp_bytes
bytes(const char *text)
{
  struct qp_bytes b = { text, strlen(text) };

  return b;
}

static void
ok(enum qp_rc rc, const struct qp_err *err)
{
  if (rc)
    fail_msg("%s", err->msg);
}

/* ---- a writer whose pieces a test chooses ---- */

struct rig {
  struct qp__legacy_writer *w;
  struct qp__buf out;
  struct qp_err err;
};

static void
begin(struct rig *r, const struct qp__meta *meta)
{
  memset(r, 0, sizeof(*r));
  qp__buf_init(&r->out, TEXT_MAX);
  ok(qp__legacy_begin(meta, &r->out, &r->w, &r->err), &r->err);
}

/* A stored message by its JSON. */
static void
node(struct rig *r, const char *json)
{
  struct qp_message *m = NULL;

  ok(qp__message_decode("a stored message", bytes(json), &m, &r->err), &r->err);
  ok(qp__legacy_node(r->w, m, &r->err), &r->err);
  qp_message_free(m);
}

static void
branch(struct rig *r, const char *name, const char *prompt_id, const char *content,
       const char *const *ids)
{
  ok(qp__legacy_branch_begin(r->w, name, prompt_id, content, &r->err), &r->err);
  for (; *ids; ids++) {
    struct qp_uuid id = uuid(*ids);

    ok(qp__legacy_branch_id(r->w, &id, &r->err), &r->err);
  }
  ok(qp__legacy_branch_end(r->w, &r->err), &r->err);
}

/* What was written; the caller's. */
static json_t *
finish(struct rig *r)
{
  json_t *value = NULL;

  ok(qp__legacy_end(r->w, &r->err), &r->err);
  ok(qp__json_parse("what was written", qp__buf_bytes(&r->out), &value, &r->err), &r->err);
  qp__legacy_writer_free(r->w);
  qp__buf_release(&r->out);
  return value;
}

/* "config.model_id" of a value. */
static json_t *
at(json_t *value, const char *path)
{
  char part[100];

  while (*path && value) {
    size_t n = strcspn(path, ".");

    (void)snprintf(part, sizeof(part), "%.*s", (int)n, path);
    value = json_is_array(value) ? json_array_get(value, strtoul(part, NULL, 10))
                                 : json_object_get(value, part);
    path += n + (path[n] == '.');
  }
  return value;
}

static void
assert_at(json_t *value, const char *path, const char *json)
{
  json_t *is = at(value, path);
  struct qp__buf text;

  qp__buf_init(&text, TEXT_MAX);
  if (is)
    (void)qp__json_write(&text, is);
  if (strcmp(qp__buf_bytes(&text).data, json) != 0)
    fail_msg("%s is %s, should be %s", path, qp__buf_bytes(&text).data, json);
  qp__buf_release(&text);
}

/* ---- contexts of quipu's own ---- */

/* Everything that the late program's loader wants is there, and what it does not know is out of
 * its way, but not lost. */
static void
a_context_of_quipu_is_written_in_the_late_form(void **state)
{
  static const char *const main_ids[] = { U1, U2, U3, NULL };
  static const char *const none[] = { NULL };
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .id = uuid(CTX),
                                  .title = "Knots",
                                  .system_prompt_id = "terse" };
  struct qp__meta *meta = NULL;
  struct legacy_open_file f;
  struct qp_message *m = NULL;
  struct qp_tool_result result;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;
  struct rig r;
  json_t *old;

  (void)state;
  ok(qp__meta_new(&spec, 1761984001442, &meta, &err), &err);
  ok(qp__meta_branch_add(meta, "empty", 1761984001442, NULL, &err), &err);
  begin(&r, meta);
  node(&r, "{\"id\":\"" U1 "\",\"parent_id\":null,\"role\":\"user\",\"type\":\"text\","
           "\"created_at\":\"2025-11-01T08:00:01.442Z\",\"content\":[{\"type\":\"text\",\"text\":"
           "\"hi\"}]}");
  node(&r, "{\"id\":\"" U2 "\",\"parent_id\":\"" U1 "\",\"role\":\"assistant\",\"created_at\":"
           "\"2025-11-01T08:00:02.000Z\",\"content\":[{\"type\":\"thinking\",\"text\":\"hm\","
           "\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"Looking.\"},{\"type\":\"audio\"}],"
           "\"tool_calls\":[{\"id\":\"c\",\"tool_name\":\"ls\",\"arguments\":{\"p\":1}}],"
           "\"metadata\":{\"tokens\":{\"completion_tokens\":3},\"extra\":{\"k\":1}}}");
  node(&r, "{\"id\":\"" U3 "\",\"parent_id\":\"" U2 "\",\"role\":\"tool\",\"created_at\":"
           "\"2025-11-01T08:00:03.000Z\",\"content\":[],\"tool_result\":{\"request_id\":\"c\","
           "\"result\":\"no\",\"is_error\":true},\"mine\":[1]}");
  branch(&r, "empty", NULL, NULL, none);
  branch(&r, "main", "terse", "Be terse.", main_ids);
  assert_int_equal(qp__legacy_branch_begin(r.w, "gone", NULL, NULL, &err), QP_NOTFOUND);
  assert_string_equal(err.msg, "branch 'gone' not found");
  qp__buf_init(&text, TEXT_MAX);
  (void)qp__buf_add(&text, r.out.data, r.out.len);
  (void)qp__buf_reset(&r.out); /* the caller writes pieces away */
  ok(qp__legacy_end(r.w, &err), &err);
  (void)qp__buf_add(&text, r.out.data, r.out.len);
  qp__legacy_writer_free(r.w);
  qp__buf_release(&r.out);
  ok(qp__json_parse("written", qp__buf_bytes(&text), &old, &err), &err);

  assert_at(old, "title", "\"Knots\"");
  assert_at(old, "continuation_count", "0");
  assert_at(old, "continuation_reasons", "[]");
  assert_at(old, "auto_generate_title", "true");
  assert_at(old, "current_state", "\"idle\"");
  assert_at(old, "config",
            "{\"model_id\":\"\",\"mode\":\"chat\",\"parameters\":{},\"system_prompt_id\":"
            "\"terse\",\"agent_role\":\"actor\",\"mermaid_diagrams\":true}");
  assert_at(old, "branches.empty.message_ids", "[]");
  assert_at(old, "branches.main.system_prompt", "{\"id\":\"terse\",\"content\":\"Be terse.\"}");
  assert_at(old, "branches.main.message_ids", "[\"" U1 "\",\"" U2 "\",\"" U3 "\"]");
  assert_at(old, "message_pool." U1,
            "{\"id\":\"" U1 "\",\"message\":{\"role\":\"User\",\"content\":[{\"type\":\"text\","
            "\"text\":\"hi\"}],\"metadata\":{\"created_at\":\"2025-11-01T08:00:01.442Z\"},"
            "\"message_type\":\"text\"},\"parent_id\":null}");
  assert_at(old, "message_pool." U2 ".message.content",
            "[{\"type\":\"text\",\"text\":\"Looking.\"}]");
  assert_at(old, "message_pool." U2 ".message.tool_calls.0",
            "{\"id\":\"c\",\"tool_name\":\"ls\",\"arguments\":{\"p\":1},\"approval_status\":"
            "\"Pending\",\"display_preference\":\"Default\"}");
  assert_at(old, "message_pool." U2 ".message.metadata.extra.k", "1");
  assert_at(old, "message_pool." U2 ".message.message_type", "\"tool_call\"");
  assert_at(
      old, "message_pool." U3 ".message.tool_result",
      "{\"request_id\":\"c\",\"result\":\"no\",\"display_preference\":\"Default\",\"is_error\":"
      "true}");
  assert_at(old, "message_pool." U3 ".message.mine", "[1]");
  json_decref(old);

  /* And it is an old context from now on, in which nothing got lost. */
  legacy_round_trip(text.data);
  legacy_open_text(&f, text.data);
  assert_int_equal(qp__legacy_message(f.legacy, 1, &m, &err), QP_OK);
  assert_int_equal(qp_message_part_count(m), 3);
  assert_int_equal(qp_message_part(m, 0).kind, QP_PART_THINKING);
  assert_string_equal(qp_message_part(m, 0).signature, "s");
  assert_int_equal(qp_message_created_at(m), 1761984002000);
  qp_message_free(m);
  m = NULL;
  assert_int_equal(qp__legacy_message(f.legacy, 2, &m, &err), QP_OK);
  assert_true(qp_message_tool_result(m, &result));
  assert_true(result.is_error);
  qp_message_free(m);
  legacy_close_text(&f);
  qp__buf_release(&text);
  qp__meta_free(meta);
}

/* Each state is written as the form wants it, with what its loader needs. */
static void
every_state_is_written(void **state)
{
  static const struct {
    enum qp_state state;
    const char *detail;
    const char *late;
    const char *early;
  } cases[] = {
    { QP_STATE_IDLE, NULL, "\"idle\"", "\"Idle\"" },
    { QP_STATE_PROCESSING_USER_MESSAGE, NULL, "\"processing_user_message\"",
      "\"ProcessingUserMessage\"" },
    { QP_STATE_AWAITING_LLM_RESPONSE, NULL, "\"awaiting_l_l_m_response\"",
      "\"AwaitingLLMResponse\"" },
    { QP_STATE_STREAMING_LLM_RESPONSE, NULL, "\"streaming_l_l_m_response\"",
      "\"StreamingLLMResponse\"" },
    { QP_STATE_PROCESSING_LLM_RESPONSE, NULL, "\"processing_l_l_m_response\"",
      "\"ProcessingLLMResponse\"" },
    { QP_STATE_AWAITING_TOOL_APPROVAL, "{\"tool_names\":[\"t\"]}",
      "{\"awaiting_tool_approval\":{\"tool_names\":[\"t\"],\"pending_requests\":[]}}",
      "\"AwaitingToolApproval\"" },
    { QP_STATE_EXECUTING_TOOLS, NULL, "{\"executing_tool\":{\"tool_name\":\"\",\"attempt\":1}}",
      "\"ExecutingTools\"" },
    { QP_STATE_PROCESSING_TOOL_RESULTS, NULL, "\"processing_tool_results\"",
      "\"ProcessingToolResults\"" },
    { QP_STATE_GENERATING_RESPONSE, NULL, "\"generating_response\"", "\"GeneratingResponse\"" },
    { QP_STATE_COMPACTING, NULL, "\"optimizing_context\"", "\"Idle\"" },
    { QP_STATE_TRANSIENT_FAILURE, "{\"error\":\"e\"}",
      "{\"transient_failure\":{\"error\":\"e\",\"error_type\":\"e\",\"retry_count\":0,"
      "\"max_retries\":3}}",
      "{\"TransientFailure\":{\"error\":\"e\",\"retry_count\":0}}" },
    { QP_STATE_FAILED, NULL,
      "{\"failed\":{\"error_message\":\"\",\"failed_at\":\"1970-01-01T00:00:00.005Z\"}}",
      "{\"Failed\":{\"error\":\"\"}}" },
    { QP_STATE_FAILED, "{\"error_message\":\"m\"}",
      "{\"failed\":{\"error_message\":\"m\",\"failed_at\":\"1970-01-01T00:00:00.005Z\"}}",
      "{\"Failed\":{\"error_message\":\"m\",\"error\":\"m\"}}" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(cases) * 2; i++) {
    bool late = i < COUNT(cases);
    size_t k = i % COUNT(cases);
    struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = uuid(CTX) };
    struct qp__meta *meta = NULL;
    struct qp_err err = { QP_OK, "" };
    struct rig r;
    json_t *old;

    ok(qp__meta_new(&spec, 5, &meta, &err), &err);
    meta->state = cases[k].state;
    meta->state_detail = cases[k].detail ? json_loads(cases[k].detail, 0, NULL) : NULL;
    if (!late)
      meta->extra = json_loads("{\"legacy\":{\"form\":\"early\"}}", 0, NULL);
    begin(&r, meta);
    old = finish(&r);
    assert_at(old, "current_state", late ? cases[k].late : cases[k].early);
    json_decref(old);
    qp__meta_free(meta);
  }
}

/* ---- contexts that went on ---- */

#define COPY_ID_PATH "message_pool."

/* a-b in main and b behind c in other: b is there twice in quipu. */
static const char shared[] =
    "{\"id\":\"" CTX "\",\"config\":{\"model_id\":\"m\",\"system_prompt_id\":\"general\"},"
    "\"message_pool\":{\"" U1 "\":{\"id\":\"" U1 "\",\"message\":{},\"parent_id\":null},\"" U2
    "\":{\"id\":\"" U2 "\",\"message\":{\"role\":\"User\"},\"parent_id\":\"" U1 "\"},\"" U3
    "\":{\"id\":\"" U3 "\",\"message\":{},\"parent_id\":null}},\"branches\":{\"main\":"
    "{\"message_ids\":[\"" U1 "\",\"" U9 "\",\"" U2 "\"]},\"other\":{\"message_ids\":[\"" U3
    "\",\"" U2 "\"],\"system_prompt\":{\"id\":\"p q\",\"content\":\"old\"}}},"
    "\"active_branch_name\":\"gone\",\"current_state\":\"ProcessingUserMessage\"}";

/* Writes what a source became, all or only those messages that are not in `without`. */
static void
write_nodes(struct rig *r, const struct qp__legacy_source *l, size_t without)
{
  for (size_t i = 0; i < qp__legacy_count(l); i++) {
    struct qp_message *m = NULL;

    if (i == without)
      continue;
    ok(qp__legacy_message(l, i, &m, &r->err), &r->err);
    ok(qp__legacy_node(r->w, m, &r->err), &r->err);
    qp_message_free(m);
  }
}

static const char *
id_of(const struct qp__legacy_source *l, size_t i, char out[QP_UUID_TEXT])
{
  struct qp__legacy_item item;

  qp__legacy_item(l, i, &item);
  return qp_uuid_text(&item.id, out);
}

static void
what_was_changed_in_quipu_stays_changed(void **state)
{
  const char *main_ids[] = { U1, U2, NULL };
  const char *other_ids[] = { U3, NULL, "77777777-7777-4777-8777-777777777777", NULL };
  struct legacy_open_file f;
  struct qp__meta *meta = NULL;
  struct qp_err err = { QP_OK, "" };
  char copy[QP_UUID_TEXT];
  char text[500];
  struct rig r;
  json_t *old;

  (void)state;
  legacy_open_text(&f, shared);
  assert_int_equal(qp__legacy_count(f.legacy), 4);
  other_ids[1] = id_of(f.legacy, 3, copy);
  ok(qp__meta_clone(qp__legacy_meta(f.legacy), &meta, &err), &err);
  assert_string_equal(meta->active, "main");
  ok(qp__meta_patch(meta,
                    bytes("{\"title\":\"new\",\"config\":{\"model_id\":\"n\",\"agent_role\":"
                          "\"planner\"},\"current_state\":\"Failed\"}"),
                    &err),
     &err);
  ok(qp__meta_set_prompt(meta, NULL, NULL, &err), &err); /* as the migration does */
  ok(qp__meta_set_active(meta, "other", &err), &err);
  ok(qp__meta_branch_rename(meta, "other", "renamed", &err), &err);
  begin(&r, meta);
  write_nodes(&r, f.legacy, SIZE_MAX);
  (void)snprintf(text, sizeof(text),
                 "{\"id\":\"%s\",\"parent_id\":\"%s\",\"role\":\"assistant\",\"created_at\":"
                 "\"2026-01-01T00:00:00.000Z\",\"content\":[]}",
                 other_ids[2], copy);
  node(&r, text);
  branch(&r, "main", NULL, NULL, main_ids);
  branch(&r, "renamed", "p_q", "new content", other_ids);
  old = finish(&r);
  assert_at(old, "title", "\"new\"");
  assert_at(old, "config",
            "{\"model_id\":\"n\",\"agent_role\":\"planner\",\"system_prompt_id\":\"general\"}");
  assert_at(old, "current_state", "{\"Failed\":{\"error\":\"\"}}");
  assert_at(old, "active_branch_name", "\"renamed\"");
  assert_at(old, "branches.main.message_ids", "[\"" U1 "\",\"" U9 "\",\"" U2 "\"]");
  assert_at(old, "branches.renamed.message_ids",
            "[\"" U3 "\",\"" U2 "\",\"77777777-7777-4777-8777-777777777777\"]");
  assert_at(old, "branches.renamed.system_prompt", "{\"id\":\"p_q\",\"content\":\"new content\"}");
  /* The copy is not written, and is called what it is a copy of. */
  assert_int_equal(json_object_size(json_object_get(old, "message_pool")), 4);
  assert_at(old, COPY_ID_PATH "77777777-7777-4777-8777-777777777777.parent_id", "\"" U2 "\"");
  assert_at(old, COPY_ID_PATH U2 ".parent_id", "\"" U1 "\"");
  json_decref(old);
  qp__meta_free(meta);
  legacy_close_text(&f);
}

/* When only the copy is left, it is written, as what it was. */
static void
a_copy_stands_in_for_what_is_gone(void **state)
{
  const char *other_ids[] = { U3, NULL, NULL };
  static const char *const main_ids[] = { U1, NULL };
  struct legacy_open_file f;
  char copy[QP_UUID_TEXT];
  struct rig r;
  json_t *old;

  (void)state;
  legacy_open_text(&f, shared);
  other_ids[1] = id_of(f.legacy, 3, copy);
  begin(&r, qp__legacy_meta(f.legacy));
  write_nodes(&r, f.legacy, 1);
  branch(&r, "main", NULL, NULL, main_ids);
  branch(&r, "other", "any", "old", other_ids);
  old = finish(&r);
  assert_at(old, "message_pool." U2,
            "{\"id\":\"" U2 "\",\"message\":{\"role\":\"User\"},\"parent_id\":\"" U1 "\"}");
  assert_at(old, "branches.other.message_ids", "[\"" U3 "\",\"" U2 "\"]");
  /* The same content is the same prompt, under whatever id quipu has it. */
  assert_at(old, "branches.other.system_prompt", "{\"id\":\"p q\",\"content\":\"old\"}");
  /* The branch was rewound: what stood behind its end is not made up. */
  assert_at(old, "branches.main.message_ids", "[\"" U1 "\",\"" U9 "\"]");
  json_decref(old);
  legacy_close_text(&f);
}

/* A prompt that was deleted in quipu does not come back. */
static void
a_deleted_prompt_stays_deleted(void **state)
{
  static const char *const none[] = { NULL };
  struct legacy_open_file f;
  struct qp__meta *meta = NULL;
  struct qp_err err = { QP_OK, "" };
  struct rig r;
  json_t *old;

  (void)state;
  legacy_open_text(&f, shared);
  ok(qp__meta_clone(qp__legacy_meta(f.legacy), &meta, &err), &err);
  assert_true(qp__meta_drop_prompt(meta, "p_q"));
  begin(&r, meta);
  branch(&r, "main", NULL, NULL, none);
  branch(&r, "other", NULL, NULL, none);
  old = finish(&r);
  assert_at(old, "branches.other.system_prompt", "null");
  json_decref(old);
  qp__meta_free(meta);
  legacy_close_text(&f);
}

/* Somebody else wrote "legacy": what makes no sense there is left out. */
static void
a_strange_legacy_field_does_no_harm(void **state)
{
  static const char *const strange[] = {
    "7",
    "[]",
    "{\"id\":7,\"key\":[],\"form\":{},\"differs\":7}",
    "{\"id\":\"x\",\"key\":\"" U9 "\",\"differs\":[7,{},{\"at\":7},{\"at\":[]},{\"at\":[{}]}]}",
    "{\"differs\":[{\"at\":[\"message\",\"content\",-1],\"was\":1},{\"at\":[\"message\","
    "\"content\","
    "7],\"was\":1},{\"at\":[\"message\",0],\"was\":1},{\"at\":[\"gone\",\"x\"],\"was\":1},"
    "{\"at\":[\"id\",\"x\"],\"was\":1},{\"at\":[0],\"was\":1}]}",
  };
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = uuid(CTX) };
  struct qp__meta *meta = NULL;
  struct qp_err err = { QP_OK, "" };
  char text[1000];

  (void)state;
  ok(qp__meta_new(&spec, 5, &meta, &err), &err);
  for (size_t i = 0; i < COUNT(strange); i++) {
    static const char *const ids[] = { U1, NULL };
    struct rig r;
    json_t *old;

    (void)snprintf(text, sizeof(text),
                   "{\"id\":\"" U1 "\",\"parent_id\":null,\"role\":\"user\",\"content\":[],"
                   "\"legacy\":%s}",
                   strange[i]);
    begin(&r, meta);
    node(&r, text);
    branch(&r, "main", NULL, NULL, ids);
    old = finish(&r);
    assert_at(old, "message_pool." U1 ".id", "\"" U1 "\"");
    json_decref(old);
  }
  meta->extra = json_loads("{\"legacy\":{\"differs\":[{\"at\":[\"message_pool\"]},{\"at\":[\"x\","
                           "\"y\"],\"was\":1}],\"time\":5}}",
                           0, NULL);
  meta->branches[0].extra =
      json_loads("{\"legacy\":{\"missing\":{\"0\":7,\"1\":\"x\"},\"spelled\":"
                 "[],\"prompt\":4,\"upper\":1,\"key\":\"k\",\"as\":\"other\"}}",
                 0, NULL);
  {
    static const char *const ids[] = { U1, NULL };
    struct rig r;
    json_t *old;

    begin(&r, meta);
    branch(&r, "main", "p", "c", ids);
    old = finish(&r);
    assert_at(old, "branches.main.message_ids", "[\"" U1 "\"]");
    json_decref(old);
  }
  assert_int_equal(qp__legacy_file_time(meta), 0);
  qp__meta_free(meta);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_context_of_quipu_is_written_in_the_late_form),
    cmocka_unit_test(every_state_is_written),
    cmocka_unit_test(what_was_changed_in_quipu_stays_changed),
    cmocka_unit_test(a_copy_stands_in_for_what_is_gone),
    cmocka_unit_test(a_deleted_prompt_stays_deleted),
    cmocka_unit_test(a_strange_legacy_field_does_no_harm),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

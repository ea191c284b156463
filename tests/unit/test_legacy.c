/* test_legacy.c - src/formats: an old context is stored completely, and converts back value for
 * value: every variant of the old formats, in tables. test_legacy_order.c tests trees of branches,
 * test_legacy_bad.c invalid sources. */
#include <pthread.h>
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
#include "base/str.h"
#include "legacy_rig.h"
#include "legacy_text.h"
#include "model/message.h"
#include "os_fault.h"
#include "os_sim.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- messages ---- */

/* Nodes of the pool, all with the key U1. */
static const char *const nodes[] = {
  /* the forms as they are written by the old program */
  EARLY_NODE,
  LATE_NODE,
  "{\"id\":\"" U1 "\",\"message\":{\"role\":\"System\",\"content\":[],\"metadata\":null},"
  "\"parent_id\":null}",
  /* metadata absent, null, empty, of the wrong kind */
  MESSAGE("\"role\":\"User\",\"content\":[]"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":{}"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":\"none\""),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":[1]"),
  /* times: microseconds, an offset, no time at all, a number */
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":{\"created_at\":"
          "\"2025-11-01T08:00:01.442124Z\"}"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":{\"created_at\":"
          "\"2025-11-01T09:30:00+01:30\"}"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":{\"created_at\":\"yesterday\"}"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":{\"created_at\":1761984001442}"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":{\"created_at\":null}"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"metadata\":{\"created_at\":"
          "\"0000-01-01T00:00:00+23:00\"}"),
  /* all that late metadata has */
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"metadata\":{\"created_at\":"
          "\"2025-11-01T08:00:01Z\",\"duration_ms\":9223372036854775807,\"tokens\":"
          "{\"prompt_tokens\":12,\"completion_tokens\":3},\"extra\":{\"a\":{\"b\":[1,2.5,null]}},"
          "\"source\":\"a_i_generated\",\"display_hint\":{\"summary\":\"s\",\"collapsed\":true,"
          "\"icon\":\"i\"},\"streaming\":{\"chunks_count\":2,\"started_at\":"
          "\"2025-11-01T08:00:00.000001Z\",\"completed_at\":null},\"original_input\":\"x\","
          "\"trace_id\":\"t\"},\"message_type\":\"text\""),
  /* roles */
  MESSAGE("\"role\":\"user\",\"content\":[]"),
  MESSAGE("\"role\":null,\"content\":[]"),
  MESSAGE("\"content\":[]"),
  MESSAGE("\"role\":\"TOOL\",\"content\":[]"),
  /* types */
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"message_type\":\"plan\""),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"message_type\":\"question\""),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"message_type\":\"Question\""),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"message_type\":\"poem\""),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"message_type\":null"),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"message_type\":7"),
  /* content */
  MESSAGE("\"role\":\"User\""),
  MESSAGE("\"role\":\"User\",\"content\":null"),
  MESSAGE("\"role\":\"User\",\"content\":\"plain text\""),
  MESSAGE("\"role\":\"User\",\"content\":\"\""),
  MESSAGE("\"role\":\"User\",\"content\":[{\"type\":\"text\",\"text\":\"\"},{\"text\":\"b\","
          "\"type\":\"text\",\"lang\":\"en\"},{\"type\":\"text\",\"text\":\"nul \\u0000 \\ud83d\\"
          "ude00 \xf0\x9f\x98\x80 \\u001f\"}]"),
  MESSAGE(
      "\"role\":\"User\",\"content\":[{\"type\":\"image\",\"url\":\"data:image/png;base64,AA\"},"
      "{\"type\":\"image\",\"url\":\"u\",\"detail\":\"low\"},{\"type\":\"image\",\"url\":\"u\","
      "\"detail\":null,\"w\":3},{\"type\":\"image\",\"url\":\"\"},{\"type\":\"image\"}]"),
  MESSAGE(
      "\"role\":\"User\",\"content\":[{\"type\":\"thinking\",\"text\":\"t\",\"signature\":null},"
      "{\"type\":\"thinking\"},{\"type\":\"audio\",\"url\":7},{\"type\":\"legacy\",\"value\":1},"
      "{\"type\":\"\"},{\"type\":3},{\"type\":\"text\"},{\"type\":\"text\",\"text\":4},{},\"x\","
      "5,null,[[]]]"),
  /* rich_type of each sort, unknown fields, fields whose names mean something else here */
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"message_type\":\"text\",\"rich_type\":{\"kind\":"
          "\"streaming_response\",\"data\":{\"content\":\"ab\",\"chunks\":[{\"sequence\":1,"
          "\"delta\":\"a\",\"accumulated_chars\":1},{\"sequence\":2,\"delta\":\"b\","
          "\"interval_ms\":3}],\"usage\":null}}"),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"rich_type\":null"),
  MESSAGE("\"zeta\":1,\"rich_type\":{\"kind\":\"todo_list\"},\"role\":\"User\",\"alpha\":[],"
          "\"content\":[]"),
  MESSAGE("\"role\":\"User\",\"content\":[],\"id\":\"x\",\"parent_id\":5,\"type\":\"t\","
          "\"created_at\":\"c\",\"text\":\"tt\",\"legacy\":{\"form\":\"late\",\"differs\":[]}"),
  /* tool calls */
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"tool_calls\":[]"),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"tool_calls\":null"),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"tool_calls\":[" CALL("\"a string\"") "," CALL(
      "[\"x"
      "\","
      "\"y\""
      "]") "," CALL("{\"k\":{\"n\":1.5}}") "," CALL("null") "," CALL("17") "," CALL("[]") "],"
                                                                                          "\"messag"
                                                                                          "e_"
                                                                                          "type\":"
                                                                                          "\"tool_"
                                                                                          "call\""),
  MESSAGE(
      "\"role\":\"Assistant\",\"content\":[],\"tool_calls\":[{\"id\":\"\",\"tool_name\":\"\"}]"),
  MESSAGE("\"role\":\"Assistant\",\"content\":[],\"tool_calls\":[{\"id\":\"c\",\"tool_name\":\"t\","
          "\"approval_status\":\"denied\",\"display_preference\":\"hidden\",\"ui_hints\":null,"
          "\"color\":\"red\"},{\"id\":\"a\\u0000b\",\"tool_name\":\"t\",\"approval_status\":"
          "\"auto_approved\",\"ui_hints\":{\"icon\":\"folder\"}},{\"id\":\"d\",\"tool_name\":\"t\","
          "\"approval_status\":9,\"display_preference\":\"Fancy\",\"ui_hints\":[1]}]"),
  /* tool results, with the role of a user too */
  MESSAGE("\"role\":\"User\",\"content\":[],\"tool_result\":{\"request_id\":\"c\",\"result\":"
          "{\"display_preference\":\"Default\",\"is_error\":true,\"path\":\"/x\",\"result\":"
          "{\"content\":\"t\"},\"tool_name\":\"read_file\"}},\"message_type\":\"tool_result\""),
  RESULT("\"request_id\":\"c\",\"result\":\"text\",\"display_preference\":\"Collapsible\""),
  RESULT("\"request_id\":\"c\",\"result\":[1,2],\"display_preference\":\"Default\""),
  RESULT("\"request_id\":\"c\",\"result\":null,\"is_error\":true,\"took\":3"),
  RESULT("\"request_id\":\"c\",\"result\":1e300,\"is_error\":false"),
  RESULT("\"request_id\":\"\",\"result\":-0.0"),
  RESULT("\"request_id\":\"c\",\"is_error\":\"yes\",\"display_preference\":4"),
  MESSAGE("\"role\":\"Tool\",\"content\":[],\"tool_result\":null"),
  /* what stands beside the message; an id that is not the key; no id; parents that are none */
  "{\"id\":\"" U2 "\",\"message\":{},\"parent_id\":null}",
  "{\"message\":{\"role\":\"User\"}}",
  "{\"id\":5,\"message\":{\"role\":\"User\"},\"parent_id\":\"nobody\",\"extra\":{\"deep\":[{}]}}",
  "{\"id\":\"" U1 "\",\"message\":{\"role\":\"User\"},\"parent_id\":\"" U9 "\",\"tags\":[\"a\"]}",
  "{\"parent_id\":\"" U1 "\",\"message\":{\"role\":\"User\"},\"id\":\"" U1 "\"}",
  /* content that quipu once put aside */
  MESSAGE("\"role\":\"Assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}],\"metadata\":"
          "{\"extra\":{\"quipu_content\":[{\"type\":\"thinking\",\"text\":\"hm\"},{\"type\":"
          "\"text\",\"text\":\"a\"}]}}"),
  MESSAGE("\"role\":\"Assistant\",\"content\":[{\"type\":\"text\",\"text\":\"changed\"}],"
          "\"metadata\":{\"extra\":{\"quipu_content\":[{\"type\":\"text\",\"text\":\"a\"}]}}"),
};

static void
each_node_comes_back(void **state)
{
  struct qp__buf text;

  (void)state;
  for (size_t i = 0; i < COUNT(nodes); i++) {
    qp__buf_init(&text, TEXT_MAX);
    (void)qp__buf_addf(&text, CONTEXT_F, CONFIG, "\"" U1 "\":", nodes[i], BRANCH_OF_U1, "");
    legacy_round_trip(text.data);
    qp__buf_release(&text);
  }
}

/* ---- contexts ---- */

/* Whole contexts; the message of each is U1. */
static const struct {
  const char *config;
  const char *branches; /* with its key and a comma behind it, or "" */
  const char *rest;
} contexts[] = {
  { CONFIG, BRANCH_OF_U1, ",\"active_branch_name\":\"main\",\"current_state\":\"Idle\"" },
  /* the late form */
  { LATE_CONFIG, BRANCH_OF_U1, LATE_REST("\"idle\"") },
  { LATE_CONFIG, BRANCH_OF_U1, LATE_REST("\"idle\"") ",\"pinned\":true,\"zoo\":null,\"ant\":[1]" },
  /* later fields that are missing, or null */
  { "{}", BRANCH_OF_U1, "" },
  { "{\"model_id\":null,\"mode\":null,\"parameters\":null,\"system_prompt_id\":null,"
    "\"agent_role\":null,\"workspace_path\":null,\"mermaid_diagrams\":null}",
    BRANCH_OF_U1,
    ",\"active_branch_name\":null,\"current_state\":null,\"title\":null,"
    "\"continuation_count\":null,\"continuation_reasons\":null" },
  { "null", BRANCH_OF_U1, "" },
  /* unknown and odd fields in the configuration */
  { "{\"zeta\":[{}],\"mermaid_diagrams\":false,\"mode\":\"m\",\"model_id\":\"\",\"alpha\":1,"
    "\"agent_role\":\"planner\",\"parameters\":{\"t\":0.1},\"workspace_path\":\"/w\"}",
    BRANCH_OF_U1, "" },
  { "{\"system_prompt_id\":\"two words\"}", BRANCH_OF_U1, "" },
  { "{\"system_prompt_id\":\"\"}", BRANCH_OF_U1, "" },
  { "{\"system_prompt_id\":17}", BRANCH_OF_U1, "" },
  { "{\"system_prompt_id\":\"general_assistant\"}", BRANCH_OF_U1, "" },
  /* fields whose names mean something else in metadata.json */
  { CONFIG, BRANCH_OF_U1,
    ",\"format\":\"f\",\"version\":9,\"created_at\":\"c\",\"updated_at\":0,"
    "\"state_detail\":{\"a\":1},\"legacy\":{\"form\":\"late\"},\"quipu_sum\":\"12345678\"" },
  /* parents */
  { CONFIG, BRANCH_OF_U1, ",\"parent_id\":\"" U9 "\"" },
  { CONFIG, BRANCH_OF_U1, ",\"parent_id\":\"00000000-0000-0000-0000-000000000000\"" },
  { CONFIG, BRANCH_OF_U1, ",\"parent_id\":\"AAAAAAAA-bbbb-4111-8111-111111111111\"" },
  { CONFIG, BRANCH_OF_U1, ",\"parent_id\":\"none\"" },
  { CONFIG, BRANCH_OF_U1, ",\"parent_id\":4" },
  /* titles */
  { CONFIG, BRANCH_OF_U1, ",\"title\":\"Files\",\"auto_generate_title\":false" },
  { CONFIG, BRANCH_OF_U1, ",\"title\":\"\"" },
  { CONFIG, BRANCH_OF_U1, ",\"title\":\"a\\u0000b\"" },
  { CONFIG, BRANCH_OF_U1, ",\"title\":[\"x\"]" },
  /* the active branch */
  { CONFIG, BRANCH_OF_U1, ",\"active_branch_name\":\"gone\"" },
  { CONFIG, BRANCH_OF_U1, ",\"active_branch_name\":\"\"" },
  { CONFIG, BRANCH_OF_U1, ",\"active_branch_name\":3" },
  /* branches: none, empty, null, without fields, with unknown ones */
  { CONFIG, "", "" },
  { CONFIG, "", ",\"active_branch_name\":\"main\"" },
  { CONFIG, "\"branches\":{},", "" },
  { CONFIG, "\"branches\":null,", "" },
  { CONFIG, "\"branches\":{\"main\":{}},", "" },
  { CONFIG, "\"branches\":{\"main\":{\"message_ids\":null}},", "" },
  { CONFIG, "\"branches\":{\"main\":{\"message_ids\":[],\"name\":\"main\"}},", "" },
  { CONFIG, "\"branches\":{\"main\":{\"message_ids\":[\"" U1 "\"],\"zeta\":1,\"alpha\":{}}},", "" },
  { CONFIG,
    "\"branches\":{\"main\":{\"name\":\"main\",\"message_ids\":[\"" U1 "\"],"
    "\"system_prompt_id\":\"p\",\"created_at\":5,\"base\":null,\"legacy\":1,\"message\":2}},",
    "" },
  /* names: another one than the key, none that quipu allows */
  { CONFIG, "\"branches\":{\"main\":{\"name\":\"other\",\"message_ids\":[\"" U1 "\"]}},", "" },
  { CONFIG, "\"branches\":{\"\":{\"name\":\"\",\"message_ids\":[\"" U1 "\"]}},",
    ",\"active_branch_name\":\"\"" },
  { CONFIG,
    "\"branches\":{\"a\\nb\":{\"name\":\"a\\nb\",\"message_ids\":[\"" U1 "\"]},\"a_b\":"
    "{\"name\":4,\"message_ids\":[]}},",
    ",\"active_branch_name\":\"a\\nb\"" },
  { CONFIG, "\"branches\":{\"\\u0085\":{\"name\":\"x\\u0000\",\"message_ids\":[]}},", "" },
  { CONFIG, "\"branches\":{\"" LONG_NAME "\":{\"name\":\"" LONG_NAME "\",\"message_ids\":[]}},",
    ",\"active_branch_name\":\"" LONG_NAME "\"" },
  { CONFIG, "\"branches\":{\"../etc\":{\"name\":\"../etc\",\"message_ids\":[\"" U1 "\"]}},", "" },
  /* prompts of branches */
  { CONFIG, PROMPT("{\"id\":\"p1\",\"content\":\"Be terse.\"}"), "" },
  { CONFIG, PROMPT("{\"content\":\"\",\"id\":\"two words\",\"name\":\"n\",\"hash\":\"h\"}"), "" },
  { CONFIG, PROMPT("{\"id\":\"\",\"content\":\"c\"}"), "" },
  { CONFIG, PROMPT("{\"id\":\".hidden\",\"content\":\"c\",\"others\":{\"id\":3}}"), "" },
  { CONFIG, PROMPT("{\"id\":\"p1\"}"), "" },
  { CONFIG, PROMPT("{\"id\":7,\"content\":\"c\"}"), "" },
  { CONFIG, PROMPT("\"p1\""), "" },
  { CONFIG, "\"branches\":{\"main\":{\"message_ids\":[],\"user_prompt\":\"ask\"}},", "" },
  { CONFIG, "\"branches\":{\"main\":{\"message_ids\":[],\"user_prompt\":{\"a\":1}}},", "" },
  /* ids that are not spelled in lower case, ids that the pool lacks */
  { CONFIG, IDS("\"" U1 "\",\"" U9 "\""), "" },
  { CONFIG, IDS("\"AAAAAAAA-1111-4111-8111-111111111111\",\"" U1 "\""), "" },
  { CONFIG, IDS("\"Aaaaaaaa-1111-4111-8111-111111111111\",\"" U1 "\",\"" U9 "\",\"" U9 "\""), "" },
  { CONFIG, IDS("\"" U9 "\""), "" },
  { CONFIG, IDS("\"00000000-0000-0000-0000-000000000000\""), "" },
};

static void
each_context_comes_back(void **state)
{
  struct qp__buf text;

  (void)state;
  for (size_t i = 0; i < COUNT(contexts); i++) {
    qp__buf_init(&text, TEXT_MAX);
    (void)qp__buf_addf(&text, CONTEXT_F, contexts[i].config, "\"" U1 "\":", LATE_NODE,
                       contexts[i].branches, contexts[i].rest);
    legacy_round_trip(text.data);
    qp__buf_reset(&text); /* and without a message */
    (void)qp__buf_addf(&text, CONTEXT_F, contexts[i].config, "", "", contexts[i].branches,
                       contexts[i].rest);
    legacy_round_trip(text.data);
    qp__buf_release(&text);
  }
}

/* A title beyond the limit is cut at a whole character, and comes back whole. */
static void
a_long_title_is_cut(void **state)
{
  struct qp__buf title;
  struct qp__buf text;
  struct legacy_open_file f;
  const char *cut;

  (void)state;
  qp__buf_init(&title, TEXT_MAX);
  qp__buf_init(&text, TEXT_MAX);
  (void)qp__buf_add_str(&title, ",\"title\":\"x");
  for (int i = 0; i < 700; i++)
    (void)qp__buf_add_str(&title, "\xc3\xb6");
  (void)qp__buf_add_str(&title, "\"");
  (void)qp__buf_addf(&text, CONTEXT_F, CONFIG, "", "", BRANCH_OF_U1, title.data);
  legacy_round_trip(text.data);
  legacy_open_text(&f, text.data);
  cut = qp__legacy_meta(f.legacy)->title;
  assert_int_equal(strlen(cut), 1023); /* 1024 would be half a character */
  assert_true(legacy_has_note(f.legacy, "longer than 1024 bytes"));
  legacy_close_text(&f);
  qp__buf_release(&title);
  qp__buf_release(&text);
}

/* ---- states ---- */

static const struct {
  const char *json;
  enum qp_state state;
  bool note;
} states[] = {
  { "\"Idle\"", QP_STATE_IDLE, false },
  { "\"idle\"", QP_STATE_IDLE, false },
  { "{\"Idle\":null}", QP_STATE_IDLE, false },
  { "\"ProcessingUserMessage\"", QP_STATE_IDLE, true },
  { "\"AwaitingLLMResponse\"", QP_STATE_IDLE, true },
  { "\"StreamingLLMResponse\"", QP_STATE_IDLE, true },
  { "\"ProcessingLLMResponse\"", QP_STATE_IDLE, true },
  { "\"ExecutingTools\"", QP_STATE_IDLE, true },
  { "\"ProcessingToolResults\"", QP_STATE_IDLE, true },
  { "\"GeneratingResponse\"", QP_STATE_IDLE, true },
  { "{\"TransientFailure\":{\"error\":\"timeout\",\"retry_count\":1}}", QP_STATE_TRANSIENT_FAILURE,
    false },
  { "{\"Failed\":{\"error\":\"boom\"}}", QP_STATE_FAILED, false },
  { "\"Failed\"", QP_STATE_FAILED, false },
  { "{\"Failed\":\"boom\"}", QP_STATE_FAILED, false },
  { "\"processing_user_message\"", QP_STATE_IDLE, true },
  { "\"resolving_file_references\"", QP_STATE_IDLE, true },
  { "\"enhancing_system_prompt\"", QP_STATE_IDLE, true },
  { "\"optimizing_context\"", QP_STATE_IDLE, true },
  { "\"preparing_l_l_m_request\"", QP_STATE_IDLE, true },
  { "\"connecting_to_l_l_m\"", QP_STATE_IDLE, true },
  { "\"awaiting_l_l_m_response\"", QP_STATE_IDLE, true },
  { "\"streaming_l_l_m_response\"", QP_STATE_IDLE, true },
  { "\"processing_l_l_m_response\"", QP_STATE_IDLE, true },
  { "\"parsing_tool_calls\"", QP_STATE_IDLE, true },
  { "\"collecting_tool_results\"", QP_STATE_IDLE, true },
  { "\"processing_tool_results\"", QP_STATE_IDLE, true },
  { "\"saving_context\"", QP_STATE_IDLE, true },
  { "\"generating_summary\"", QP_STATE_IDLE, true },
  { "\"waiting_for_recovery\"", QP_STATE_IDLE, true },
  { "\"initializing\"", QP_STATE_IDLE, true },
  { "\"paused\"", QP_STATE_IDLE, true },
  { "\"cancelling\"", QP_STATE_IDLE, true },
  { "\"generating_response\"", QP_STATE_IDLE, true },
  { "\"connecting_l_l_m\"", QP_STATE_IDLE, true },
  { "{\"executing_tool\":{\"tool_name\":\"t\",\"attempt\":2}}", QP_STATE_IDLE, true },
  { "{\"tool_auto_loop\":{\"depth\":1,\"tools_executed\":4}}", QP_STATE_IDLE, true },
  { "{\"switching_branch\":{\"from\":\"a\",\"to\":\"b\"}}", QP_STATE_IDLE, true },
  { "{\"merging_branches\":{\"source\":\"a\",\"target\":\"b\",\"strategy\":\"s\"}}", QP_STATE_IDLE,
    true },
  { "{\"saving_message\":{\"message_id\":\"" U1 "\"}}", QP_STATE_IDLE, true },
  { "{\"loading_messages\":{\"loaded\":1,\"total\":2}}", QP_STATE_IDLE, true },
  { "{\"compressing_messages\":{\"messages_to_compress\":1}}", QP_STATE_IDLE, true },
  { "{\"transient_failure\":{\"error_type\":\"net\",\"retry_count\":1,\"max_retries\":3}}",
    QP_STATE_TRANSIENT_FAILURE, false },
  { "{\"failed\":{\"error_message\":\"boom\",\"failed_at\":\"2025-11-01T08:00:00Z\"}}",
    QP_STATE_FAILED, false },
  { "\"AwaitingToolApproval\"", QP_STATE_IDLE, true }, /* no call is pending */
  { "{\"awaiting_tool_approval\":{\"pending_requests\":[],\"tool_names\":[]}}", QP_STATE_IDLE,
    true },
  { "\"Dreaming\"", QP_STATE_IDLE, true },
  { "{\"idle\":1,\"failed\":2}", QP_STATE_IDLE, true },
  { "{}", QP_STATE_IDLE, true },
  { "7", QP_STATE_IDLE, true },
};

static void
each_state_is_known_and_comes_back(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(states) * 2; i++) {
    bool late = i >= COUNT(states); /* in a context of either form */
    const char *json = states[i % COUNT(states)].json;
    struct legacy_open_file f;
    struct qp__buf text;
    struct qp__buf rest;

    qp__buf_init(&rest, TEXT_MAX);
    qp__buf_init(&text, TEXT_MAX);
    (void)qp__buf_addf(&rest, ",%s\"active_branch_name\":\"main\",\"current_state\":%s",
                       late ? "\"continuation_count\":0,\"continuation_reasons\":[]," : "", json);
    (void)qp__buf_addf(&text, CONTEXT_F, CONFIG, "", "",
                       "\"branches\":{\"main\":{\"message_ids\":[]}},", rest.data);
    legacy_round_trip(text.data);
    legacy_open_text(&f, text.data);
    assert_int_equal(qp__legacy_meta(f.legacy)->state, states[i % COUNT(states)].state);
    assert_int_equal(qp__legacy_note_count(f.legacy), states[i % COUNT(states)].note);
    legacy_close_text(&f);
    qp__buf_release(&text);
    qp__buf_release(&rest);
  }
}

/* A context that waits for an approval goes on waiting when a call of its active branch does. */
static void
pending_calls_keep_waiting(void **state)
{
  static const struct {
    const char *approval;
    const char *branch;
    enum qp_state state;
  } cases[] = {
    { "Pending", "main", QP_STATE_AWAITING_TOOL_APPROVAL },
    { "pending", "main", QP_STATE_AWAITING_TOOL_APPROVAL },
    { "Approved", "main", QP_STATE_IDLE },
    { "Pending", "other", QP_STATE_IDLE },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct legacy_open_file f;
    struct qp__buf text;

    qp__buf_init(&text, TEXT_MAX);
    (void)qp__buf_addf(&text,
                       "{\"id\":\"" CTX "\",\"message_pool\":{\"" U1 "\":{\"message\":{\"role\":"
                       "\"Assistant\",\"tool_calls\":[{\"id\":\"c\",\"tool_name\":\"t\","
                       "\"approval_status\":\"%s\"}]}}},\"branches\":{\"main\":{\"message_ids\":"
                       "[\"" U1 "\"]},\"other\":{}},\"active_branch_name\":\"%s\","
                       "\"current_state\":{\"awaiting_tool_approval\":{\"pending_requests\":[\"" U1
                       "\"],\"tool_names\":[\"t\"]}}}",
                       cases[i].approval, cases[i].branch);
    legacy_round_trip(text.data);
    legacy_open_text(&f, text.data);
    assert_int_equal(qp__legacy_meta(f.legacy)->state, cases[i].state);
    assert_int_equal(qp__legacy_meta(f.legacy)->state_detail != NULL,
                     cases[i].state == QP_STATE_AWAITING_TOOL_APPROVAL);
    legacy_close_text(&f);
    qp__buf_release(&text);
  }
}

/* ---- what becomes of it ---- */

/* The fields of a stored message, for a person who knows both formats. */
static void
a_message_is_what_it_was(void **state)
{
  struct qp_message *m = NULL;
  struct qp_tool_result result;
  struct legacy_open_file f;
  struct qp_err err = { QP_OK, "" };
  struct qp_tool_call call;

  (void)state;
  legacy_open_text(&f, EARLY_CONTEXT);
  assert_int_equal(qp__legacy_count(f.legacy), 3);
  assert_int_equal(qp__legacy_meta(f.legacy)->state, QP_STATE_TRANSIENT_FAILURE);
  assert_string_equal(
      json_string_value(json_object_get(qp__legacy_meta(f.legacy)->state_detail, "error")),
      "timeout");

  assert_int_equal(qp__legacy_message(f.legacy, 1, &m, &err), QP_OK);
  assert_int_equal(qp_message_role(m), QP_ROLE_ASSISTANT);
  assert_int_equal(qp_message_type(m), QP_TYPE_TOOL_CALL);
  assert_int_equal(qp_message_created_at(m), 1761984001442);
  call = qp_message_tool_call(m, 0);
  assert_string_equal(call.tool_name, "list_directory");
  assert_string_equal(call.arguments_json, "{\"path\":\".\"}");
  assert_int_equal(call.approval, QP_APPROVAL_APPROVED);
  assert_int_equal(call.display, QP_DISPLAY_COLLAPSIBLE);
  assert_string_equal(call.ui_hints_json, "{\"icon\":\"folder\"}");
  assert_string_equal(json_string_value(json_object_get(m->metadata, "created_at")),
                      "2025-11-01T08:00:01.442124Z");
  qp_message_free(m);

  m = NULL;
  assert_int_equal(qp__legacy_message(f.legacy, 2, &m, &err), QP_OK);
  assert_int_equal(qp_message_role(m), QP_ROLE_TOOL);
  assert_int_equal(qp_message_type(m), QP_TYPE_TOOL_RESULT);
  assert_true(qp_message_tool_result(m, &result));
  assert_string_equal(result.result_json, "{\"entries\":[\"a.c\",\"b.c\"]}");
  assert_int_equal(qp_message_created_at(m), 1761984001442); /* of the one before it */
  qp_message_free(m);
  legacy_close_text(&f);
}

/* Early context of the reference, byte for byte as the old program would write it again. */
static void
the_writer_writes_as_the_old_program(void **state)
{
  (void)state;
  legacy_round_trip(EARLY_CONTEXT);
  legacy_assert_written(EARLY_CONTEXT, EARLY_PRETTY);
}

/* Two values that are not equal give a line each. */
static void
differences_are_listed(void **state)
{
  struct qp_message *m = NULL;
  struct legacy_open_file f;
  struct qp__meta *meta = NULL;
  struct qp__buf lines;
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid other = { { 7 } };

  (void)state;
  qp__buf_init(&lines, TEXT_MAX);
  legacy_open_text(&f, EARLY_CONTEXT);
  assert_int_equal(qp__legacy_message(f.legacy, 1, &m, &err), QP_OK);
  m->parts[0].view.text.data = "Lurking.";
  m->parent = other;
  m->created_at = 1;
  json_decref(m->metadata);
  m->metadata = NULL;
  assert_int_equal(qp__legacy_compare(f.legacy, 1, m, &lines, &err), QP_OK);
  assert_string_equal(
      lines.data,
      "source: message " U2 ": stored parent: was " U1 ", is 07000000-0000-0000-0000-000000000000\n"
      "source: message " U2 ": time: was 2025-11-01T08:00:01.442Z, is 1970-01-01T00:00:00.001Z\n"
      "source: message " U2 ": message.content[0].text: was \"Looking.\", is \"Lurking.\"\n"
      "source: message " U2 ": message.metadata: was {\"created_at\":\"2025-11-01T08:00:01.442124Z"
      "\",\"tokens\":{\"promp…, is null\n");
  qp_message_free(m);

  qp__buf_reset(&lines);
  assert_int_equal(qp__meta_clone(qp__legacy_meta(f.legacy), &meta, &err), QP_OK);
  meta->state = QP_STATE_IDLE;
  assert_int_equal(qp__meta_branch_add(meta, "new", 1, NULL, &err), QP_OK);
  assert_int_equal(qp__legacy_compare_meta(f.legacy, meta, &lines, &err), QP_OK);
  assert_string_equal(lines.data,
                      "source: current_state: was "
                      "{\"TransientFailure\":{\"error\":\"timeout\",\"retry_count\":1}}, "
                      "is \"Idle\"\nsource: branch 'new': was missing, is there\n");
  qp__meta_free(meta);

  qp__buf_reset(&lines);
  assert_int_equal(qp__legacy_compare_branch(f.legacy, "main", &other, 1, &lines, &err), QP_OK);
  assert_string_equal(lines.data, "source: branch 'main': the first message that differs: was " U1
                                  ", is 07000000-0000-0000-0000-000000000000\n");
  qp__buf_reset(&lines);
  assert_int_equal(qp__legacy_compare_branch(f.legacy, "main", NULL, 0, &lines, &err), QP_OK);
  assert_string_equal(lines.data, "source: branch 'main': had 3 messages, has 0\n");
  qp__buf_release(&lines);
  legacy_close_text(&f);
}

/* ---- threads ---- */

struct asker {
  const struct qp__legacy_source *legacy;
  struct qp__buf stored; /* all messages */
  struct qp__buf differences;
  enum qp_rc rc;
};

static void *
ask(void *arg)
{
  struct asker *a = arg;

  for (size_t i = 0; i < qp__legacy_count(a->legacy) && !a->rc; i++) {
    struct qp_message *m = NULL;

    a->rc = qp__legacy_message(a->legacy, i, &m, NULL);
    if (!a->rc)
      a->rc = qp__message_encode(m, &a->stored, NULL);
    if (!a->rc)
      a->rc = qp__legacy_compare(a->legacy, i, m, &a->differences, NULL);
    qp_message_free(m);
  }
  return NULL;
}

/* All messages of one source from several threads at once. */
static void
threads_may_ask_at_once(void **state)
{
  struct asker askers[4];
  pthread_t threads[COUNT(askers)];
  struct legacy_open_file f;

  (void)state;
  legacy_open_text(&f, FULL_CONTEXT);
  for (size_t i = 0; i < COUNT(askers); i++) {
    askers[i] = (struct asker){ .legacy = f.legacy };
    qp__buf_init(&askers[i].stored, TEXT_MAX);
    qp__buf_init(&askers[i].differences, TEXT_MAX);
    assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
  }
  for (size_t i = 0; i < COUNT(askers); i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(askers[i].rc, QP_OK);
    assert_int_equal(askers[i].differences.len, 0);
    assert_string_equal(askers[i].stored.data, askers[0].stored.data);
  }
  for (size_t i = 0; i < COUNT(askers); i++)
    qp__buf_release(&askers[i].stored);
  legacy_close_text(&f);
}

/* ---- files on disk ---- */

#define FIXTURES "tests/fixtures/legacy/" /* tests run in the project's root */

static void
must_be_refused(const char *data, size_t len)
{
  struct qp__legacy_source *l = NULL;
  struct qp_err err = { QP_OK, "" };
  struct legacy_file file;

  legacy_file_make_bytes(&file, data, len);
  assert_int_equal(legacy_file_open(&file, &l, &err), QP_INVALID);
  assert_true(strlen(err.msg) > 12);
  legacy_file_release(&file);
}

/* The files that the tests of whole commands use. */
static void
fixtures_are_what_they_should_be(void **state)
{
  (void)state;
  assert_int_equal(legacy_each_file(FIXTURES "conversations", legacy_round_trip_bytes), 5);
  assert_int_equal(legacy_each_file(FIXTURES "bad", must_be_refused), 5);
}

static void
real_files_come_back(void **state)
{
  size_t count;

  (void)state;
  count = legacy_each_real_file(legacy_round_trip_bytes);
  if (!count) {
    print_message("skipped: there is no folder with real files\n");
    skip();
  }
}

/* ---- faults ---- */

/* Whatever allocation fails, everything that was made is released and nothing else happens than
 * QP_NOMEM. */
static void
survives_every_allocation_that_fails(void **state)
{
  bool fired = true;
  struct legacy_file file;

  (void)state;
  legacy_file_make(&file, FULL_CONTEXT);
  for (long n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    struct qp__buf back;
    enum qp_rc rc;

    qp__buf_init(&back, TEXT_MAX);
    alloc_fault_arm(n);
    rc = legacy_there_and_back(&file, &back, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (rc && rc != QP_NOMEM)
      fail_msg("allocation %ld: %s", n, err.msg);
    assert_true(fired || rc == QP_OK);
    qp__buf_release(&back);
  }
  legacy_file_release(&file);
}

/* The same for every call to the system. */
static void
survives_every_call_that_fails(void **state)
{
  bool fired = true;
  struct legacy_file file;
  struct qp__os_fault *fault;

  (void)state;
  legacy_file_make(&file, FULL_CONTEXT);
  fault = qp__os_fault_new(file.os);
  assert_non_null(fault);
  file.os = qp__os_fault_os(fault);
  for (uint64_t n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    struct qp__buf back;
    enum qp_rc rc;

    qp__buf_init(&back, TEXT_MAX);
    qp__os_fault_arm(fault, n, QP__FAULT_EIO, false);
    rc = legacy_there_and_back(&file, &back, &err);
    fired = qp__os_fault_fired(fault);
    qp__os_fault_disarm(fault);
    assert_int_equal(rc, fired ? QP_IO : QP_OK);
    qp__buf_release(&back);
  }
  assert_int_equal(qp__os_fault_open_count(fault), 0);
  qp__os_fault_free(fault);
  legacy_file_release(&file);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_node_comes_back),
    cmocka_unit_test(each_context_comes_back),
    cmocka_unit_test(a_long_title_is_cut),
    cmocka_unit_test(each_state_is_known_and_comes_back),
    cmocka_unit_test(pending_calls_keep_waiting),
    cmocka_unit_test(a_message_is_what_it_was),
    cmocka_unit_test(the_writer_writes_as_the_old_program),
    cmocka_unit_test(differences_are_listed),
    cmocka_unit_test(threads_may_ask_at_once),
    cmocka_unit_test(fixtures_are_what_they_should_be),
    cmocka_unit_test(real_files_come_back),
    cmocka_unit_test(survives_every_allocation_that_fails),
    cmocka_unit_test(survives_every_call_that_fails),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

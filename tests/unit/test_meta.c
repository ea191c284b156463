/* test_meta.c - src/model: meta.c and meta_patch.c; branches have test_branch.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>
#include <cmocka.h>

#include "alloc_fault.h"
#include "base/alloc.h"
#include "base/json.h"
#include "model/meta.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

#define ID "0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f5a6"
#define OTHER "0192f3a4-b5c6-7d8e-9fa0-000000000001"
#define NOW 1794772540123
#define NOW_TEXT "2026-11-15T19:55:40.123Z"

/* Every field that there is, and an unknown one at every level, in the stored form. */
static const char rich[] = "{\n"
                           "  \"format\": \"quipu-context\",\n"
                           "  \"version\": 1,\n"
                           "  \"id\": \"" ID "\",\n"
                           "  \"parent_id\": \"" OTHER "\",\n"
                           "  \"title\": \"Wetter in K\xc3\xb6ln\",\n"
                           "  \"created_at\": \"2026-11-15T19:55:40.123Z\",\n"
                           "  \"updated_at\": \"2026-11-15T19:55:41.000Z\",\n"
                           "  \"config\": {\n"
                           "    \"model_id\": \"claude\",\n"
                           "    \"mode\": \"agent\",\n"
                           "    \"agent_role\": \"planner\",\n"
                           "    \"parameters\": {\n"
                           "      \"temperature\": 0.7\n"
                           "    },\n"
                           "    \"system_prompt_id\": \"base\",\n"
                           "    \"workspace_path\": \"src\",\n"
                           "    \"tools\": [\n"
                           "      \"grep\"\n"
                           "    ]\n"
                           "  },\n"
                           "  \"branches\": {\n"
                           "    \"Idea 2\": {\n"
                           "      \"name\": \"Idea 2\",\n"
                           "      \"system_prompt_id\": \"terse\",\n"
                           "      \"user_prompt\": \"go on\",\n"
                           "      \"created_at\": \"2026-11-15T19:55:40.500Z\",\n"
                           "      \"base\": \"" OTHER "\",\n"
                           "      \"color\": \"red\"\n"
                           "    },\n"
                           "    \"main\": {\n"
                           "      \"name\": \"main\",\n"
                           "      \"system_prompt_id\": null,\n"
                           "      \"user_prompt\": null,\n"
                           "      \"created_at\": \"2026-11-15T19:55:40.123Z\",\n"
                           "      \"base\": null\n"
                           "    }\n"
                           "  },\n"
                           "  \"active_branch_name\": \"Idea 2\",\n"
                           "  \"current_state\": \"Failed\",\n"
                           "  \"state_detail\": {\n"
                           "    \"error\": \"no route\"\n"
                           "  },\n"
                           "  \"folder\": {\n"
                           "    \"id\": 7\n"
                           "  },\n"
                           "  \"starred\": null\n"
                           "}\n";

static struct qp_bytes
bytes(const char *s)
{
  struct qp_bytes b = { s, strlen(s) };

  return b;
}

static struct qp__meta *
decode(const char *json)
{
  struct qp__meta *m = NULL;
  struct qp_err err;

  if (qp__meta_decode("metadata.json", bytes(json), &m, &err))
    fail_msg("%s: %s", json, err.msg);
  return m;
}

/* Released by qp__free. */
static char *
encode(const struct qp__meta *m)
{
  struct qp__buf b;
  struct qp_err err;

  qp__buf_init(&b, QP__META_MAX);
  if (qp__meta_encode(m, &b, &err))
    fail_msg("%s", err.msg);
  return qp__buf_take(&b, NULL);
}

static void
expect_json(const struct qp__meta *m, const char *want)
{
  char *text = encode(m);

  assert_string_equal(text, want);
  qp__free(text);
}

static struct qp_context_spec
a_spec(void)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = NULL };

  assert_int_equal(qp_uuid_parse(ID, &spec.id, NULL), QP_OK);
  return spec;
}

/* ---- states ---- */

static void
test_states_are_found_again(void **state)
{
  static const char *const names[] = {
    "Idle",
    "ProcessingUserMessage",
    "AwaitingLLMResponse",
    "StreamingLLMResponse",
    "ProcessingLLMResponse",
    "AwaitingToolApproval",
    "ExecutingTools",
    "ProcessingToolResults",
    "GeneratingResponse",
    "Compacting",
    "TransientFailure",
    "Failed",
  };
  enum qp_state s;

  (void)state;
  for (unsigned i = 0; i < COUNT(names); i++) {
    assert_string_equal(qp_state_name((enum qp_state)i), names[i]);
    assert_true(qp_state_find(names[i], &s));
    assert_int_equal(s, i);
  }
  assert_int_equal(QP_STATE_FAILED, COUNT(names) - 1);
  assert_false(qp_state_find("idle", &s));
  assert_false(qp_state_find("", &s));
  assert_string_equal(qp_state_name((enum qp_state)12), "unknown");
}

static char *
repeat(const char *piece, size_t n)
{
  size_t len = strlen(piece);
  char *s = qp__alloc0(n * len + 1, 1);

  for (size_t i = 0; i < n; i++)
    memcpy(s + i * len, piece, len);
  return s;
}

/* ---- new ---- */

#define BEFORE_CONFIG                                                              \
  "{\n  \"format\": \"quipu-context\",\n  \"version\": 1,\n  \"id\": \"" ID        \
  "\",\n  \"parent_id\": null,\n  \"title\": null,\n  \"created_at\": \"" NOW_TEXT \
  "\",\n  \"updated_at\": \"" NOW_TEXT "\",\n"
#define DEFAULT_CONFIG                                                                        \
  "  \"config\": {\n    \"model_id\": \"\",\n    \"mode\": \"chat\",\n"                       \
  "    \"agent_role\": \"actor\",\n    \"parameters\": {},\n    \"system_prompt_id\": null\n" \
  "  },\n"
#define BEHIND_CONFIG                                                            \
  "  \"branches\": {\n    \"main\": {\n      \"name\": \"main\",\n"              \
  "      \"system_prompt_id\": null,\n      \"user_prompt\": null,\n"            \
  "      \"created_at\": \"" NOW_TEXT "\",\n      \"base\": null\n    }\n  },\n" \
  "  \"active_branch_name\": \"main\",\n  \"current_state\": \"Idle\"\n}\n"

static void
test_new_has_the_defaults(void **state)
{
  struct qp_context_spec spec = a_spec();
  struct qp__meta *m = NULL;

  (void)state;
  assert_int_equal(qp__meta_new(&spec, NOW, &m, NULL), QP_OK);
  expect_json(m, BEFORE_CONFIG DEFAULT_CONFIG BEHIND_CONFIG);
  qp__meta_free(m);
  qp__meta_free(NULL);
}

static void
test_new_takes_what_the_spec_says(void **state)
{
  struct qp_context_spec spec = a_spec();
  struct qp__meta *m = NULL;
  char *text;

  (void)state;
  spec.parent_id = spec.id;
  spec.title = "T";
  spec.model_id = "m";
  spec.mode = "o";
  spec.agent_role = "r";
  spec.system_prompt_id = "p";
  spec.parameters_json = "{\"t\":0.1}";
  assert_int_equal(qp__meta_new(&spec, NOW, &m, NULL), QP_OK);
  text = encode(m);
  assert_non_null(strstr(text, "\"parent_id\": \"" ID "\",\n  \"title\": \"T\""));
  assert_non_null(strstr(text, "\"config\": {\n    \"model_id\": \"m\",\n    \"mode\": \"o\",\n"
                               "    \"agent_role\": \"r\",\n    \"parameters\": {\n"
                               "      \"t\": 0.1\n    },\n    \"system_prompt_id\": \"p\"\n  }"));
  qp__free(text);
  qp__meta_free(m);
}

static void
test_new_checks_every_string(void **state)
{
  struct qp_context_spec specs[9];
  struct qp__meta *m = NULL;
  struct qp_err err;
  char *title = repeat("x", QP__TITLE_MAX + 1);
  char *deep = repeat("[", QP__JSON_DEPTH - 2);
  char *close = repeat("]", QP__JSON_DEPTH - 2);
  struct qp__buf parameters;

  (void)state;
  for (size_t i = 0; i < COUNT(specs); i++)
    specs[i] = a_spec();
  qp__buf_init(&parameters, 10000);
  (void)qp__buf_addf(&parameters, "{\"a\":%s%s}", deep, close);
  specs[0].title = "\xff";
  specs[1].title = title;
  specs[2].model_id = "\xff";
  specs[3].mode = "\xff";
  specs[4].agent_role = "\xff";
  specs[5].system_prompt_id = "../x";
  specs[6].parameters_json = "[]";
  specs[7].parameters_json = "{";
  specs[8].parameters_json = parameters.data;
  for (size_t i = 0; i < COUNT(specs); i++) {
    err.msg[0] = 0;
    assert_int_equal(qp__meta_new(&specs[i], NOW, &m, &err), QP_INVALID);
    assert_int_equal(strncmp(err.msg, "new context: ", 13), 0);
    assert_null(m);
  }
  parameters.data[parameters.len - 2] = '}'; /* one level less */
  memcpy(parameters.data, " {\"a\":", 6);
  parameters.data[parameters.len - 1] = ' ';
  assert_int_equal(qp__meta_new(&specs[8], NOW, &m, &err), QP_OK);
  qp__meta_free(m);
  m = NULL;
  title[QP__TITLE_MAX] = 0;
  assert_int_equal(qp__meta_new(&specs[1], NOW, &m, &err), QP_OK);
  qp__meta_free(m);
  m = NULL;
  memset(&specs[0].id, 0, sizeof(specs[0].id));
  assert_int_equal(qp__meta_new(&specs[0], NOW, &m, &err), QP_MISUSE);
  qp__buf_release(&parameters);
  qp__free(title);
  qp__free(deep);
  qp__free(close);
}

/* ---- JSON ---- */

static void
test_stored_form_comes_back_byte_for_byte(void **state)
{
  struct qp__meta *m = decode(rich);
  const struct qp__branch_def *b;

  (void)state;
  expect_json(m, rich);
  assert_string_equal(m->title, "Wetter in K\xc3\xb6ln");
  assert_true(m->created_at == NOW && m->updated_at == 1794772541000);
  assert_int_equal(m->branch_count, 2);
  assert_string_equal(m->active, "Idea 2");
  assert_int_equal(m->state, QP_STATE_FAILED);
  b = qp__meta_branch(m, "Idea 2");
  assert_non_null(b);
  assert_string_equal(b->system_prompt_id, "terse");
  assert_string_equal(b->user_prompt, "go on");
  assert_false(qp_uuid_is_none(&b->base));
  assert_non_null(qp__meta_branch(m, "main"));
  assert_null(qp__meta_branch(m, "mai"));
  assert_null(qp__meta_branch(m, "zzz"));
  qp__meta_free(m);
}

#define TIMES "\"created_at\":\"" NOW_TEXT "\",\"updated_at\":\"" NOW_TEXT "\""

static void
test_missing_fields_get_their_defaults(void **state)
{
  static const char *const rows[] = {
    "{\"id\":\"" ID "\"," TIMES "}",
    "{\"id\":\"" ID "\"," TIMES ",\"format\":null,\"version\":null,\"parent_id\":null,"
    "\"title\":null,\"config\":null,\"branches\":null,\"active_branch_name\":null,"
    "\"current_state\":null,\"state_detail\":null}",
    "{\"id\":\"" ID "\"," TIMES ",\"config\":{},\"version\":1,\"format\":\"quipu-context\"}",
    "{\"id\":\"" ID "\"," TIMES ",\"config\":{\"model_id\":null,\"parameters\":null}}",
    "{\"id\":\"" ID "\"," TIMES ",\"branches\":{\"main\":{\"created_at\":\"" NOW_TEXT "\"}}}",
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__meta *m = decode(rows[i]);

    expect_json(m, BEFORE_CONFIG DEFAULT_CONFIG BEHIND_CONFIG);
    qp__meta_free(m);
  }
}

#define META(rest) "{\"id\":\"" ID "\"," rest "}"
#define BRANCH(rest) META("\"branches\":{\"x\":{" rest "}}")

static void
test_wrong_metadata_is_refused_with_the_path_of_the_field(void **state)
{
  static const struct {
    const char *in;
    const char *sentence;
  } rows[] = {
    { "[]", "metadata.json: must be a JSON object" },
    { "{", "metadata.json: not valid JSON: a key was expected (line 1, column 2)" },
    { "{}", "metadata.json: \"id\" is missing" },
    { "{\"id\":\"00000000-0000-0000-0000-000000000000\"}", "metadata.json: \"id\" is missing" },
    { "{\"id\":\"x\"}", "metadata.json: \"id\" must be a UUID" },
    { META("\"format\":\"other\""), "metadata.json: \"format\" must be \"quipu-context\"" },
    { META("\"format\":1"), "metadata.json: \"format\" must be a string" },
    { META("\"version\":2"),
      "metadata.json: was written by a newer quipu (version 2 of the format; "
      "this one knows 1)" },
    { META("\"version\":0"), "metadata.json: \"version\" must be a whole number, 1 or more" },
    { META("\"version\":1.0"), "metadata.json: \"version\" must be a whole number, 1 or more" },
    { META("\"version\":\"1\""), "metadata.json: \"version\" must be a whole number, 1 or more" },
    { META("\"parent_id\":1"), "metadata.json: \"parent_id\" must be a UUID" },
    { META("\"title\":[]"), "metadata.json: \"title\" must be a string" },
    { META("\"title\":\"a\\u0000\""),
      "metadata.json: \"title\" must be a string without NUL characters" },
    { META("\"created_at\":\"\""),
      "metadata.json: \"created_at\" must be a time such as \"2026-11-15T19:55:40.123Z\"" },
    { META("\"updated_at\":5"),
      "metadata.json: \"updated_at\" must be a time such as \"2026-11-15T19:55:40.123Z\"" },
    { META("\"config\":[]"), "metadata.json: \"config\" must be an object" },
    { META("\"config\":{\"model_id\":1}"), "metadata.json: \"config.model_id\" must be a string" },
    { META("\"config\":{\"mode\":{}}"), "metadata.json: \"config.mode\" must be a string" },
    { META("\"config\":{\"agent_role\":[]}"),
      "metadata.json: \"config.agent_role\" must be a string" },
    { META("\"config\":{\"workspace_path\":1}"),
      "metadata.json: \"config.workspace_path\" must be a string" },
    { META("\"config\":{\"parameters\":[]}"),
      "metadata.json: \"config.parameters\" must be an object" },
    { META("\"config\":{\"system_prompt_id\":1}"),
      "metadata.json: \"config.system_prompt_id\" must be a string" },
    { META("\"config\":{\"system_prompt_id\":\"../../x\"}"),
      "metadata.json: \"config.system_prompt_id\" must not start with '.'" },
    { META("\"branches\":[]"), "metadata.json: \"branches\" must be an object" },
    { META("\"branches\":{\"x\":1}"), "metadata.json: \"branches.x\" must be an object" },
    { META("\"branches\":{\"\":{}}"), "metadata.json: a name in \"branches\" must not be empty" },
    { META("\"branches\":{\"a\\n\":{}}"),
      "metadata.json: a name in \"branches\" must not contain control characters" },
    { BRANCH("\"name\":\"y\""),
      "metadata.json: \"branches.x.name\" must be equal to the key of the branch in \"branches\"" },
    { BRANCH("\"name\":1"), "metadata.json: \"branches.x.name\" must be a string" },
    { BRANCH("\"system_prompt_id\":\"a/b\""), "metadata.json: \"branches.x.system_prompt_id\" may "
                                              "contain only letters, digits, '.', '_' and "
                                              "'-'" },
    { BRANCH("\"user_prompt\":1"), "metadata.json: \"branches.x.user_prompt\" must be a string" },
    { BRANCH("\"created_at\":1"), "metadata.json: \"branches.x.created_at\" must be a time such as "
                                  "\"2026-11-15T19:55:40.123Z\"" },
    { BRANCH("\"base\":\"x\""), "metadata.json: \"branches.x.base\" must be a UUID" },
    { META("\"active_branch_name\":1"), "metadata.json: \"active_branch_name\" must be a string" },
    { META("\"active_branch_name\":\"\""),
      "metadata.json: \"active_branch_name\" must not be empty" },
    { META("\"current_state\":1"), "metadata.json: \"current_state\" must be a string" },
    { META("\"current_state\":\"Idle\\u0000\""),
      "metadata.json: \"current_state\" must be a string without NUL characters" },
    { META("\"current_state\":\"idle\""),
      "metadata.json: \"current_state\" must be one of Idle, ProcessingUserMessage, "
      "AwaitingLLMResponse, StreamingLLMResponse, ProcessingLLMResponse, AwaitingToolApproval, "
      "ExecutingTools, ProcessingToolResults, GeneratingResponse, Compacting, TransientFailure, "
      "Failed" },
    { META("\"state_detail\":[]"), "metadata.json: \"state_detail\" must be an object" },
  };
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__meta *m = NULL;

    if (qp__meta_decode("metadata.json", bytes(rows[i].in), &m, &err) != QP_INVALID)
      fail_msg("taken: %s", rows[i].in);
    assert_null(m);
    assert_string_equal(err.msg, rows[i].sentence);
  }
}

static void
test_metadata_over_its_limit_is_refused(void **state)
{
  char *text = repeat(" ", QP__META_MAX + 1);
  struct qp__meta *m = NULL;
  struct qp__buf b;
  struct qp_err err;

  (void)state;
  memcpy(text, "{\"id\":\"" ID "\"}", 45);
  assert_int_equal(qp__meta_decode("metadata.json", bytes(text), &m, &err), QP_TOOBIG);
  assert_null(m);
  text[QP__META_MAX] = 0;
  assert_int_equal(qp__meta_decode("metadata.json", bytes(text), &m, &err), QP_OK);
  qp__buf_init(&b, 100);
  assert_int_equal(qp__buf_add_str(&b, "x"), QP_OK);
  assert_int_equal(qp__meta_encode(m, &b, &err), QP_TOOBIG);
  assert_string_equal(b.data, "x");
  qp__buf_release(&b);
  qp__meta_free(m);
  qp__free(text);
}

/* Every change of a context writes all of its branches: no tree of values is made of them. */
static void
test_encoding_takes_no_memory_for_each_branch(void **state)
{
  struct qp__meta *m = decode(rich);
  struct qp__buf b;
  struct qp_err err;

  (void)state;
  for (int i = 0; i < 2000; i++) {
    char name[16];

    (void)snprintf(name, sizeof(name), "b%d", i);
    assert_int_equal(qp__meta_branch_add(m, name, 0, NULL, &err), QP_OK);
  }
  qp__buf_init(&b, QP__META_MAX);
  alloc_fault_arm_all(500);
  assert_int_equal(qp__meta_encode(m, &b, &err), QP_OK);
  assert_false(alloc_fault_fired());
  alloc_fault_disarm();
  qp__buf_release(&b);
  qp__meta_free(m);
}

static void
test_clone_is_equal_and_independent(void **state)
{
  struct qp__meta *m = decode(rich);
  struct qp__meta *copy = NULL;

  (void)state;
  assert_int_equal(qp__meta_clone(m, &copy, NULL), QP_OK);
  assert_true(qp__meta_equal(m, copy));
  expect_json(copy, rich);
  assert_int_equal(qp__meta_patch(copy,
                                  bytes("{\"title\":null,\"folder\":null,\"config\":"
                                        "{\"parameters\":{},\"tools\":null}}"),
                                  NULL),
                   QP_OK);
  assert_int_equal(qp__meta_branch_rename(copy, "main", "trunk", NULL), QP_OK);
  assert_false(qp__meta_equal(m, copy));
  expect_json(m, rich);
  qp__meta_free(copy);
  expect_json(m, rich);
  qp__meta_free(m);
}

/* Each patch or change makes a difference that equal must see. */
static void
test_equal_sees_everything_but_the_times(void **state)
{
  static const char *const patches[] = {
    "{\"title\":\"other\"}",
    "{\"title\":null}",
    "{\"parent_id\":null}",
    "{\"config\":{\"mode\":\"x\"}}",
    "{\"config\":{\"parameters\":{\"temperature\":0.8}}}",
    "{\"config\":{\"new\":1}}",
    "{\"current_state\":\"Idle\",\"state_detail\":{\"error\":\"no route\"}}",
    "{\"state_detail\":null}",
    "{\"state_detail\":{\"error\":\"other\"}}",
    "{\"folder\":{\"id\":8}}",
    "{\"starred\":null}",
    "{\"more\":1}",
  };
  struct qp__meta *m = decode(rich);
  struct qp__meta *copy = NULL;
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(patches) + 5; i++) {
    assert_int_equal(qp__meta_clone(m, &copy, &err), QP_OK);
    if (i < COUNT(patches))
      assert_int_equal(qp__meta_patch(copy, bytes(patches[i]), &err), QP_OK);
    else if (i == COUNT(patches))
      assert_int_equal(qp__meta_set_active(copy, "main", &err), QP_OK);
    else if (i == COUNT(patches) + 1)
      assert_int_equal(qp__meta_branch_add(copy, "new", 0, NULL, &err), QP_OK);
    else if (i == COUNT(patches) + 2)
      assert_int_equal(qp__meta_branch_remove(copy, "main", &err), QP_OK);
    else if (i == COUNT(patches) + 3)
      assert_int_equal(qp__meta_set_prompt(copy, "main", "p", &err), QP_OK);
    else
      memset(&qp__meta_branch(copy, "Idea 2")->base, 0, 16);
    if (qp__meta_equal(m, copy) || qp__meta_equal(copy, m))
      fail_msg("change %zu is not seen", i);
    qp__meta_free(copy);
  }
  assert_int_equal(qp__meta_clone(m, &copy, &err), QP_OK);
  copy->created_at++;
  copy->updated_at++;
  copy->branches[0].created_at++;
  assert_true(qp__meta_equal(m, copy));
  assert_int_equal(qp__meta_patch(copy, bytes("{}"), &err), QP_OK);
  assert_int_equal(qp__meta_patch(copy,
                                  bytes("{\"title\":\"Wetter in K\xc3\xb6ln\",\"folder\":"
                                        "{\"id\":7},\"config\":{\"mode\":\"agent\"}}"),
                                  &err),
                   QP_OK);
  assert_true(qp__meta_equal(m, copy));
  assert_int_equal(qp__meta_patch(copy, bytes("{\"folder\":null,\"starred\":null}"), &err), QP_OK);
  assert_null(copy->extra); /* as if it had never had unknown fields */
  qp__meta_free(copy);
  qp__meta_free(m);
}

/* ---- patch ---- */

/* The metadata of `rich` after the patch, as the text of one field. */
static void
test_patch_changes_what_it_names(void **state)
{
  static const struct {
    const char *patch;
    const char *there;     /* must be in the result */
    const char *not_there; /* must not; or NULL */
  } rows[] = {
    { "{\"title\":\"New\"}", "\"title\": \"New\"", "Wetter" },
    { "{\"title\":null}", "\"title\": null", "Wetter" },
    { "{\"parent_id\":null}", "\"parent_id\": null", NULL },
    { "{\"parent_id\":\"" ID "\"}", "\"parent_id\": \"" ID "\"", NULL },
    { "{\"config\":{\"model_id\":\"m2\"}}",
      "\"model_id\": \"m2\",\n    \"mode\": \"agent\",\n    \"agent_role\": \"planner\"",
      "claude" },
    { "{\"config\":{\"model_id\":null,\"mode\":null,\"agent_role\":null}}",
      "\"model_id\": \"\",\n    \"mode\": \"chat\",\n    \"agent_role\": \"actor\"", "claude" },
    { "{\"config\":{\"parameters\":{\"top_p\":0.9}}}",
      "\"parameters\": {\n      \"top_p\": 0.9\n    }", "temperature" },
    { "{\"config\":{\"parameters\":null}}", "\"parameters\": {},", "temperature" },
    { "{\"config\":{\"system_prompt_id\":null}}", "\"system_prompt_id\": null,\n    \"workspace",
      "\"base\"," },
    { "{\"config\":{\"system_prompt_id\":\"p2\"}}", "\"system_prompt_id\": \"p2\",\n", NULL },
    { "{\"config\":{\"workspace_path\":null}}", "\"tools\": [", "workspace_path" },
    { "{\"config\":{\"tools\":null,\"x\":{\"y\":1}}}",
      "\"workspace_path\": \"src\",\n    \"x\": {\n      \"y\": 1\n    }\n  }", "grep" },
    { "{\"config\":{\"never\":null}}", "\"tools\": [", "never" },
    { "{\"config\":{}}", "\"tools\": [", NULL },
    { "{\"current_state\":\"Idle\"}", "\"current_state\": \"Idle\",\n  \"folder\"", "no route" },
    { "{\"current_state\":\"Failed\"}", "\"current_state\": \"Failed\",\n  \"folder\"",
      "no route" },
    { "{\"current_state\":\"Compacting\",\"state_detail\":{\"n\":1}}",
      "\"current_state\": \"Compacting\",\n  \"state_detail\": {\n    \"n\": 1\n  }", "no route" },
    { "{\"state_detail\":{\"n\":1}}",
      "\"current_state\": \"Failed\",\n  \"state_detail\": {\n    \"n\": 1\n  }", "no route" },
    { "{\"state_detail\":null}", "\"current_state\": \"Failed\",\n  \"folder\"", "no route" },
    { "{\"folder\":null,\"starred\":true,\"new\":[1]}",
      "},\n  \"starred\": true,\n  \"new\": [\n    1\n  ]\n}\n", "folder" },
    { "{\"folder\":null,\"starred\":null}", "\"error\": \"no route\"\n  }\n}\n", "starred" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__meta *m = decode(rich);
    struct qp_err err;
    char *text;

    if (qp__meta_patch(m, bytes(rows[i].patch), &err))
      fail_msg("%s: %s", rows[i].patch, err.msg);
    text = encode(m);
    if (!strstr(text, rows[i].there))
      fail_msg("%s makes %s", rows[i].patch, text);
    if (rows[i].not_there && strstr(text, rows[i].not_there))
      fail_msg("%s leaves %s in %s", rows[i].patch, rows[i].not_there, text);
    assert_true(m->updated_at == 1794772541000);
    qp__free(text);
    qp__meta_free(m);
  }
}

static void
test_patch_refuses(void **state)
{
  static const struct {
    const char *patch;
    const char *sentence;
  } rows[] = {
    { "1", "change: must be a JSON object" },
    { "{", "change: not valid JSON: a key was expected (line 1, column 2)" },
    { "{\"id\":\"" ID "\"}", "change: \"id\" never changes" },
    { "{\"id\":null}", "change: \"id\" never changes" },
    { "{\"format\":\"quipu-context\"}", "change: \"format\" never changes" },
    { "{\"version\":1}", "change: \"version\" never changes" },
    { "{\"created_at\":null}", "change: \"created_at\" never changes" },
    { "{\"updated_at\":null}", "change: \"updated_at\" is set by quipu itself" },
    { "{\"branches\":{}}", "change: \"branches\" is changed by qp_branch_fork, qp_branch_rename, "
                           "qp_branch_delete and qp_branch_set_prompt" },
    { "{\"active_branch_name\":\"main\"}",
      "change: \"active_branch_name\" is changed by qp_branch_switch" },
    { "{\"title\":1}", "change: \"title\" must be a string" },
    { "{\"parent_id\":\"x\"}", "change: \"parent_id\" must be a UUID" },
    { "{\"config\":null}", "change: \"config\" must be an object" },
    { "{\"config\":[]}", "change: \"config\" must be an object" },
    { "{\"config\":{\"model_id\":1}}", "change: \"config.model_id\" must be a string" },
    { "{\"config\":{\"mode\":true}}", "change: \"config.mode\" must be a string" },
    { "{\"config\":{\"agent_role\":{}}}", "change: \"config.agent_role\" must be a string" },
    { "{\"config\":{\"workspace_path\":[]}}",
      "change: \"config.workspace_path\" must be a string" },
    { "{\"config\":{\"parameters\":1}}", "change: \"config.parameters\" must be an object" },
    { "{\"config\":{\"system_prompt_id\":\"\"}}",
      "change: \"config.system_prompt_id\" must not be empty" },
    { "{\"current_state\":null}", "change: \"current_state\" cannot be removed" },
    { "{\"current_state\":1}", "change: \"current_state\" must be a string" },
    { "{\"state_detail\":1}", "change: \"state_detail\" must be an object" },
  };
  struct qp_err err;

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__meta *m = decode(rich);

    if (qp__meta_patch(m, bytes(rows[i].patch), &err) != QP_INVALID)
      fail_msg("taken: %s", rows[i].patch);
    assert_string_equal(err.msg, rows[i].sentence);
    qp__meta_free(m);
  }
}

/* ---- failing allocations ---- */

static void
test_decode_clone_encode_survive_every_failing_allocation(void **state)
{
  (void)state;
  for (int all = 0; all < 2; all++) {
    bool fired = true;
    long n;

    for (n = 1; fired; n++) {
      struct qp__meta *m = NULL;
      struct qp__meta *copy = NULL;
      struct qp__buf text;
      struct qp_err err = { QP_OK, "" };
      enum qp_rc rc;

      qp__buf_init(&text, QP__META_MAX);
      (all ? alloc_fault_arm_all : alloc_fault_arm)(n);
      rc = qp__meta_decode("metadata.json", bytes(rich), &m, &err);
      if (!rc)
        rc = qp__meta_clone(m, &copy, &err);
      if (!rc)
        rc = qp__meta_encode(copy, &text, &err);
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      if (rc) {
        assert_int_equal(rc, QP_NOMEM);
        assert_int_equal(err.rc, QP_NOMEM);
        assert_int_equal(text.len, 0);
      } else {
        assert_string_equal(text.data, rich);
      }
      if (m)
        expect_json(m, rich);
      if (copy)
        expect_json(copy, rich);
      qp__buf_release(&text);
      qp__meta_free(m);
      qp__meta_free(copy);
    }
    assert_true(n > 150);
  }
}

static void
test_new_survives_every_failing_allocation(void **state)
{
  struct qp_context_spec spec = a_spec();

  (void)state;
  spec.title = "T";
  spec.model_id = "m";
  spec.system_prompt_id = "p";
  spec.parameters_json = "{\"t\":0.1}";
  for (int all = 0; all < 2; all++) {
    bool fired = true;
    long n;

    for (n = 1; fired; n++) {
      struct qp__meta *m = NULL;
      struct qp_err err;
      enum qp_rc rc;

      (all ? alloc_fault_arm_all : alloc_fault_arm)(n);
      rc = qp__meta_new(&spec, NOW, &m, &err);
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
      assert_true(rc ? m == NULL : m != NULL);
      qp__meta_free(m);
    }
    assert_true(n > 20);
  }
}

#define CHANGES 8

static enum qp_rc
change(struct qp__meta *m, int which, struct qp_err *err)
{
  switch (which) {
  case 0:
    return qp__meta_branch_add(m, "new one", NOW, &m->id, err);
  case 1:
    return qp__meta_branch_rename(m, "Idea 2", "zz", err); /* the active one */
  case 2:
    return qp__meta_branch_rename(m, "main", "aa", err);
  case 3:
    return qp__meta_set_active(m, "main", err);
  case 4:
    return qp__meta_set_prompt(m, "main", "p", err);
  case 5:
    return qp__meta_set_prompt(m, NULL, "p", err);
  case 6:
    return qp__meta_branch_remove(m, "main", err);
  default:
    return qp__meta_patch(m,
                          bytes("{\"title\":\"T\",\"config\":{\"mode\":\"x\",\"tools\":null,"
                                "\"parameters\":{\"a\":[1]}},\"current_state\":\"Idle\","
                                "\"folder\":null,\"new\":{\"a\":1}}"),
                          err);
  }
}

static void
test_changes_survive_every_failing_allocation(void **state)
{
  (void)state;
  for (int which = 0; which < CHANGES; which++) {
    bool patches = which == CHANGES - 1; /* which may be left half done */

    for (int all = 0; all < 2; all++) {
      struct qp__meta *m = decode(rich);
      char *changed;
      bool fired = true;
      long n;

      assert_int_equal(change(m, which, NULL), QP_OK);
      changed = encode(m);
      qp__meta_free(m);
      for (n = 1; fired; n++) {
        struct qp_err err;
        enum qp_rc rc;

        m = decode(rich);
        (all ? alloc_fault_arm_all : alloc_fault_arm)(n);
        rc = change(m, which, &err);
        fired = alloc_fault_fired();
        alloc_fault_disarm();
        if (rc) {
          assert_int_equal(rc, QP_NOMEM);
          assert_int_equal(err.rc, QP_NOMEM);
          if (!patches)
            expect_json(m, rich);
          assert_int_equal(change(m, which, &err), QP_OK);
        }
        expect_json(m, changed);
        qp__meta_free(m);
      }
      assert_true(n > 2 || which == 6); /* removing needs no memory */
      qp__free(changed);
    }
  }
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_states_are_found_again),
    cmocka_unit_test(test_new_has_the_defaults),
    cmocka_unit_test(test_new_takes_what_the_spec_says),
    cmocka_unit_test(test_new_checks_every_string),
    cmocka_unit_test(test_stored_form_comes_back_byte_for_byte),
    cmocka_unit_test(test_missing_fields_get_their_defaults),
    cmocka_unit_test(test_wrong_metadata_is_refused_with_the_path_of_the_field),
    cmocka_unit_test(test_metadata_over_its_limit_is_refused),
    cmocka_unit_test(test_encoding_takes_no_memory_for_each_branch),
    cmocka_unit_test(test_clone_is_equal_and_independent),
    cmocka_unit_test(test_equal_sees_everything_but_the_times),
    cmocka_unit_test(test_patch_changes_what_it_names),
    cmocka_unit_test(test_patch_refuses),
    cmocka_unit_test(test_decode_clone_encode_survive_every_failing_allocation),
    cmocka_unit_test(test_new_survives_every_failing_allocation),
    cmocka_unit_test(test_changes_survive_every_failing_allocation),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("meta", tests, NULL, NULL);
}

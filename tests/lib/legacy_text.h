/* legacy_text.h - fragments of old contexts as text, which the tests of src/formats combine. */
#ifndef LEGACY_TEXT_H
#define LEGACY_TEXT_H

#include <stddef.h>

#define CTX "3f0c2b1e-5a77-4c1d-9e10-0a1b2c3d4e5f"
#define U1 "11111111-1111-4111-8111-111111111111"
#define U2 "22222222-2222-4222-8222-222222222222"
#define U3 "33333333-3333-4333-8333-333333333333"
#define U9 "99999999-9999-4999-8999-999999999999"

#define TEXT_MAX ((size_t)1 << 26)

/* A context: config, key and node of the pool (or ""), branches with a comma (or ""), more fields
 * with a comma in front (or ""). */
#define CONTEXT_F "{\"id\":\"" CTX "\",\"config\":%s,\"message_pool\":{%s%s},%s\"x_last\":0%s}"

#define CONFIG "{\"model_id\":\"gpt-4\",\"mode\":\"chat\",\"parameters\":{\"temperature\":0.2}}"
#define LATE_CONFIG                                                                             \
  "{\"model_id\":\"gpt-4\",\"mode\":\"chat\",\"parameters\":{},\"system_prompt_id\":\"general_" \
  "assistant\",\"agent_role\":\"actor\",\"workspace_path\":\"/w\",\"mermaid_diagrams\":true}"
#define LATE_REST(state)                                                                        \
  ",\"parent_id\":null,\"continuation_count\":2,\"continuation_reasons\":[\"more\"],\"title\":" \
  "\"Files\",\"auto_generate_title\":true,\"active_branch_name\":\"main\",\"current_"           \
  "state\":" state

#define IDS(ids)                                                    \
  "\"branches\":{\"main\":{\"name\":\"main\",\"message_ids\":[" ids \
  "],\"system_prompt\":null,\"user_prompt\":null}},"
#define BRANCH_OF_U1 IDS("\"" U1 "\"")
#define PROMPT(prompt)                                               \
  "\"branches\":{\"main\":{\"name\":\"main\",\"message_ids\":[\"" U1 \
  "\"],\"system_prompt\":" prompt ",\"user_prompt\":null}},"

#define MESSAGE(fields) "{\"id\":\"" U1 "\",\"message\":{" fields "},\"parent_id\":null}"
#define RESULT(fields) \
  MESSAGE("\"role\":\"Tool\",\"content\":[],\"tool_result\":{" fields "},\"metadata\":null")
#define CALL(arguments)                                        \
  "{\"id\":\"c\",\"tool_name\":\"t\",\"arguments\":" arguments \
  ",\"approval_status\":\"Approved\",\"display_preference\":\"Default\"}"

#define EARLY_NODE \
  MESSAGE("\"role\":\"User\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"metadata\":null")
#define LATE_NODE                                                                                  \
  MESSAGE("\"role\":\"User\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"metadata\":null," \
          "\"message_type\":\"text\"")

#define TEN "0123456789"
#define LONG_NAME \
  TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "x"

/* The invented instance of the early form. */
#define EARLY_CONTEXT                                                                              \
  "{\"id\":\"" CTX "\",\"parent_id\":null,\"config\":{\"model_id\":\"gpt-4\",\"mode\":\"chat\","   \
  "\"parameters\":{\"temperature\":0.2},\"system_prompt_id\":\"general_assistant\"},"              \
  "\"message_pool\":{\"" U3 "\":{\"id\":\"" U3 "\",\"message\":{\"role\":\"Tool\",\"content\":["   \
  "{\"type\":\"text\",\"text\":\"a.c b.c\"}],\"tool_result\":{\"request_id\":\"call_1\","          \
  "\"result\":{\"entries\":[\"a.c\",\"b.c\"]}},\"metadata\":null},\"parent_id\":\"" U2 "\"},\"" U1 \
  "\":{\"id\":\"" U1 "\",\"message\":{\"role\":\"User\",\"content\":[{\"type\":\"text\",\"text\":" \
  "\"list the files\"}],\"metadata\":null},\"parent_id\":null},\"" U2 "\":{\"id\":\"" U2           \
  "\",\"message\":{\"role\":\"Assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Looking.\"}]" \
  ","                                                                                              \
  "\"tool_calls\":[{\"id\":\"call_1\",\"tool_name\":\"list_directory\",\"arguments\":{\"path\":"   \
  "\".\"},\"approval_status\":\"Approved\",\"display_preference\":\"Collapsible\",\"ui_hints\":"   \
  "{\"icon\":\"folder\"}}],\"metadata\":{\"created_at\":\"2025-11-01T08:00:01.442124Z\","          \
  "\"tokens\":{\"prompt_tokens\":12,\"completion_tokens\":3}}},\"parent_id\":\"" U1 "\"}},"        \
  "\"branches\":{\"main\":{\"name\":\"main\",\"message_ids\":[\"" U1 "\",\"" U2 "\",\"" U3         \
  "\"],\"system_prompt\":null,\"user_prompt\":null}},\"active_branch_name\":\"main\","             \
  "\"current_state\":{\"TransientFailure\":{\"error\":\"timeout\",\"retry_count\":1}}}"

/* The same, as it is written. */
#define EARLY_PRETTY                                             \
  "{\n"                                                          \
  "  \"id\": \"" CTX "\",\n"                                     \
  "  \"parent_id\": null,\n"                                     \
  "  \"config\": {\n"                                            \
  "    \"model_id\": \"gpt-4\",\n"                               \
  "    \"mode\": \"chat\",\n"                                    \
  "    \"parameters\": {\n"                                      \
  "      \"temperature\": 0.2\n"                                 \
  "    },\n"                                                     \
  "    \"system_prompt_id\": \"general_assistant\"\n"            \
  "  },\n"                                                       \
  "  \"message_pool\": {\n"                                      \
  "    \"" U1 "\": {\n"                                          \
  "      \"id\": \"" U1 "\",\n"                                  \
  "      \"message\": {\n"                                       \
  "        \"role\": \"User\",\n"                                \
  "        \"content\": [\n"                                     \
  "          {\n"                                                \
  "            \"type\": \"text\",\n"                            \
  "            \"text\": \"list the files\"\n"                   \
  "          }\n"                                                \
  "        ],\n"                                                 \
  "        \"metadata\": null\n"                                 \
  "      },\n"                                                   \
  "      \"parent_id\": null\n"                                  \
  "    },\n"                                                     \
  "    \"" U2 "\": {\n"                                          \
  "      \"id\": \"" U2 "\",\n"                                  \
  "      \"message\": {\n"                                       \
  "        \"role\": \"Assistant\",\n"                           \
  "        \"content\": [\n"                                     \
  "          {\n"                                                \
  "            \"type\": \"text\",\n"                            \
  "            \"text\": \"Looking.\"\n"                         \
  "          }\n"                                                \
  "        ],\n"                                                 \
  "        \"tool_calls\": [\n"                                  \
  "          {\n"                                                \
  "            \"id\": \"call_1\",\n"                            \
  "            \"tool_name\": \"list_directory\",\n"             \
  "            \"arguments\": {\n"                               \
  "              \"path\": \".\"\n"                              \
  "            },\n"                                             \
  "            \"approval_status\": \"Approved\",\n"             \
  "            \"display_preference\": \"Collapsible\",\n"       \
  "            \"ui_hints\": {\n"                                \
  "              \"icon\": \"folder\"\n"                         \
  "            }\n"                                              \
  "          }\n"                                                \
  "        ],\n"                                                 \
  "        \"metadata\": {\n"                                    \
  "          \"created_at\": \"2025-11-01T08:00:01.442124Z\",\n" \
  "          \"tokens\": {\n"                                    \
  "            \"prompt_tokens\": 12,\n"                         \
  "            \"completion_tokens\": 3\n"                       \
  "          }\n"                                                \
  "        }\n"                                                  \
  "      },\n"                                                   \
  "      \"parent_id\": \"" U1 "\"\n"                            \
  "    },\n"                                                     \
  "    \"" U3 "\": {\n"                                          \
  "      \"id\": \"" U3 "\",\n"                                  \
  "      \"message\": {\n"                                       \
  "        \"role\": \"Tool\",\n"                                \
  "        \"content\": [\n"                                     \
  "          {\n"                                                \
  "            \"type\": \"text\",\n"                            \
  "            \"text\": \"a.c b.c\"\n"                          \
  "          }\n"                                                \
  "        ],\n"                                                 \
  "        \"tool_result\": {\n"                                 \
  "          \"request_id\": \"call_1\",\n"                      \
  "          \"result\": {\n"                                    \
  "            \"entries\": [\n"                                 \
  "              \"a.c\",\n"                                     \
  "              \"b.c\"\n"                                      \
  "            ]\n"                                              \
  "          }\n"                                                \
  "        },\n"                                                 \
  "        \"metadata\": null\n"                                 \
  "      },\n"                                                   \
  "      \"parent_id\": \"" U2 "\"\n"                            \
  "    }\n"                                                      \
  "  },\n"                                                       \
  "  \"branches\": {\n"                                          \
  "    \"main\": {\n"                                            \
  "      \"name\": \"main\",\n"                                  \
  "      \"message_ids\": [\n"                                   \
  "        \"" U1 "\",\n"                                        \
  "        \"" U2 "\",\n"                                        \
  "        \"" U3 "\"\n"                                         \
  "      ],\n"                                                   \
  "      \"system_prompt\": null,\n"                             \
  "      \"user_prompt\": null\n"                                \
  "    }\n"                                                      \
  "  },\n"                                                       \
  "  \"active_branch_name\": \"main\",\n"                        \
  "  \"current_state\": {\n"                                     \
  "    \"TransientFailure\": {\n"                                \
  "      \"error\": \"timeout\",\n"                              \
  "      \"retry_count\": 1\n"                                   \
  "    }\n"                                                      \
  "  }\n"                                                        \
  "}\n"

/* Something of everything: for tests that make each step fail. */
#define FULL_CONTEXT                                                                               \
  "{\"id\":\"" CTX "\",\"config\":{\"model_id\":\"m\",\"odd\":1,\"system_prompt_id\":\"p q\"},"    \
  "\"message_pool\":{\"" U1 "\":{\"message\":{\"role\":\"User\",\"content\":[{\"type\":\"image\"," \
  "\"url\":\"u\",\"detail\":null},3],\"metadata\":{\"created_at\":\"no\"},\"text\":1}},\"" U2      \
  "\":{\"id\":\"" U2 "\",\"message\":{\"role\":\"Assistant\",\"tool_calls\":[{\"id\":\"c\","       \
  "\"tool_name\":\"t\",\"approval_status\":\"pending\"}]},\"parent_id\":\"" U1 "\"},"              \
  "\"AAAAAAAA-1111-4111-8111-111111111111\":{\"message\":{\"tool_result\":{\"request_id\":\"c\","  \
  "\"result\":1}}},\"aAaaaaaa-2222-4111-8111-111111111111\":{\"message\":{},\"parent_id\":"        \
  "\"aaaaaaaa-2222-4111-8111-111111111111\"}},\"branches\":{\"b\\n\":{\"message_ids\":[\"" U2      \
  "\",\"" U1 "\",\"" U1 "\",\"" U9 "\",\"Aaaaaaaa-1111-4111-8111-111111111111\"],"                 \
  "\"system_prompt\":{\"id\":\"p\",\"content\":\"c\",\"n\":1},\"odd\":[]},\"main\":{\"name\":"     \
  "\"x\",\"message_ids\":[\"" U1 "\",\"" U2 "\"],\"user_prompt\":\"u\"}},\"active_branch_name\":"  \
  "\"gone\",\"current_state\":{\"failed\":{\"error_message\":\"e\"}},\"created_at\":1,"            \
  "\"title\":\"t\",\"odd\":{}}"

#endif

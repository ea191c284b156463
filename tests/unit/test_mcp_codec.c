/* test_mcp_codec.c - what an MCP client reads and writes without a server: src/tool/mcp_rpc.c and
 * src/tool/mcp_config.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "tool/mcp_config.h"
#include "tool/mcp_rpc.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static json_t *
parse(const char *text)
{
  json_t *value = NULL;

  assert_int_equal(qp__json_parse("test", (struct qp_bytes){ text, strlen(text) }, &value, NULL),
                   QP_OK);
  return value;
}

/* ---- messages ---- */

static void
test_messages_are_told_apart(void **state)
{
  static const struct {
    const char *text;
    int kind; /* -1: none */
  } rows[] = {
    { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", QP__RPC_REQUEST },
    { "{\"id\":\"a\",\"method\":\"ping\",\"params\":{}}", QP__RPC_REQUEST },
    { "{\"id\":0,\"method\":\"roots/list\"}", QP__RPC_REQUEST },
    { "{\"method\":\"notifications/x\"}", QP__RPC_NOTIFICATION },
    { "{\"id\":1,\"result\":{}}", QP__RPC_RESULT },
    { "{\"id\":1,\"result\":null}", QP__RPC_RESULT },
    { "{\"id\":1,\"result\":{},\"error\":null}", QP__RPC_RESULT },
    { "{\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no\"}}", QP__RPC_ERROR },
    { "{\"id\":null,\"error\":{\"code\":1}}", QP__RPC_ERROR },
    { "{\"id\":1,\"error\":\"text\"}", -1 },
    { "{\"id\":1}", -1 },
    { "{}", -1 },
    { "[]", -1 },
    { "7", -1 },
    { "{\"id\":{},\"method\":\"x\"}", -1 },
    { "{\"method\":7}", -1 },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    json_t *message = parse(rows[i].text);
    struct qp_err err = { QP_OK, "" };
    struct qp__rpc rpc;
    enum qp_rc rc = qp__rpc_read(message, &rpc, &err);

    if (rc != (rows[i].kind < 0 ? QP_INVALID : QP_OK) || (!rc && (int)rpc.kind != rows[i].kind) ||
        (rc && !err.msg[0]))
      fail_msg("%s: %d", rows[i].text, rc);
    json_decref(message);
  }
}

static void
test_messages_are_written_on_one_line(void **state)
{
  json_t *params = parse("{\"a\":\"x\\ny\"}");
  json_t *id = parse("\"q\\\"1\"");
  struct qp__buf out;

  (void)state;
  qp__buf_init(&out, 4096);
  qp__rpc_request(&out, 7, "tools/call", params);
  assert_string_equal(out.data, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\","
                                "\"params\":{\"a\":\"x\\ny\"}}");
  qp__buf_reset(&out);
  qp__rpc_notification(&out, "notifications/initialized", NULL);
  assert_string_equal(out.data, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  qp__buf_reset(&out);
  qp__rpc_result(&out, id, NULL);
  assert_string_equal(out.data, "{\"jsonrpc\":\"2.0\",\"id\":\"q\\\"1\",\"result\":{}}");
  qp__buf_reset(&out);
  qp__rpc_error(&out, id, -32601, "no\n");
  assert_string_equal(out.data, "{\"jsonrpc\":\"2.0\",\"id\":\"q\\\"1\",\"error\":{\"code\":-32601,"
                                "\"message\":\"no\\n\"}}");
  qp__buf_release(&out);
  json_decref(params);
  json_decref(id);
}

/* ---- lines ---- */

static void
collect(void *arg, const char *line, size_t n)
{
  struct qp__buf *out = arg;

  if (line)
    (void)qp__buf_add(out, line, n);
  (void)qp__buf_add_str(out, line ? "|" : "(long)|");
}

/* However the bytes are cut, the lines are the same. */
static void
test_lines_split_at_every_byte(void **state)
{
  static const char input[] =
      "{\"a\":1}\n\r\n\n{\"b\":\"\xc3\xa9\"}\r\nthis one is far too long for "
      "its limit\n12345678901234567890\nnext\nno end";
  static const char want[] = "{\"a\":1}|{\"b\":\"\xc3\xa9\"}|(long)|12345678901234567890|next|";

  (void)state;
  for (size_t a = 0; a <= sizeof(input) - 1; a++)
    for (size_t b = a; b <= sizeof(input) - 1; b++) {
      struct qp__rpc_lines lines;
      struct qp__buf out;

      qp__buf_init(&out, 4096);
      qp__rpc_lines_init(&lines, 20);
      assert_int_equal(qp__rpc_lines_feed(&lines, input, a, collect, &out), QP_OK);
      assert_int_equal(qp__rpc_lines_feed(&lines, input + a, b - a, collect, &out), QP_OK);
      assert_int_equal(qp__rpc_lines_feed(&lines, input + b, sizeof(input) - 1 - b, collect, &out),
                       QP_OK);
      assert_string_equal(out.data, want);
      qp__rpc_lines_release(&lines);
      qp__buf_release(&out);
    }
}

/* ---- mcp.json ---- */

static enum qp_rc
read_config(const char *text, struct qp__mcp_configs *out, struct qp_err *err)
{
  return qp__mcp_configs_parse("mcp.json", (struct qp_bytes){ text, strlen(text) }, out, err);
}

static void
test_a_standard_file_is_understood(void **state)
{
  static const char text[] =
      "{\"mcpServers\": {"
      "\"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"${QT_NAME}\"], \"cwd\": \"/x\","
      "  \"env\": {\"A\": \"1\", \"B\": \"<${QT_NONE:-other}>\"}, \"type\": \"stdio\"},"
      "\"off\": {\"command\": \"x\", \"disabled\": true},"
      "\"far\": {\"type\": \"http\", \"url\": \"https://h/${QT_NAME}\", \"trusted\": true,"
      "  \"headers\": {\"Authorization\": \"Bearer ${QT_NAME}\", \"X\": \"${input:key}\"}}}}";
  struct qp__mcp_configs c;
  struct qp_err err = { QP_OK, "" };

  (void)state;
  assert_int_equal(setenv("QT_NAME", "value", 1), 0);
  assert_int_equal(unsetenv("QT_NONE"), 0);
  if (read_config(text, &c, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(c.count, 2);
  assert_string_equal(c.at[0].name, "files");
  assert_string_equal(c.at[0].argv[0], "npx");
  assert_string_equal(c.at[0].argv[2], "value");
  assert_null(c.at[0].argv[3]);
  assert_string_equal(c.at[0].env[0], "A=1");
  assert_string_equal(c.at[0].env[1], "B=<other>");
  assert_null(c.at[0].url);
  assert_false(c.at[0].trusted);
  assert_string_equal(c.at[1].name, "far");
  assert_string_equal(c.at[1].url, "https://h/value");
  assert_string_equal(c.at[1].headers[0], "Authorization: Bearer value");
  assert_string_equal(c.at[1].headers[1], "X: ${input:key}");
  assert_null(c.at[1].argv);
  assert_true(c.at[1].trusted);
  qp__mcp_configs_release(&c);
  assert_int_equal(read_config("{\"servers\":{\"a\":{\"command\":\"b\"}}}", &c, &err), QP_OK);
  assert_int_equal(c.count, 1);
  qp__mcp_configs_release(&c);
  assert_int_equal(read_config("{\"mcpServers\":{}}", &c, &err), QP_OK);
  assert_int_equal(c.count, 0);
  qp__mcp_configs_release(&c);
}

static void
test_bad_files_are_refused_with_a_reason(void **state)
{
  static const struct {
    const char *text, *part;
  } rows[] = {
    { "", "mcp.json" },
    { "[]", "mcp.json" },
    { "{}", "no \"mcpServers\"" },
    { "{\"mcpServers\":[]}", "\"mcpServers\" must be an object" },
    { "{\"mcpServers\":{\"a\":1}}", "'a': it must be an object" },
    { "{\"mcpServers\":{\"\":{\"command\":\"x\"}}}", "its name" },
    { "{\"mcpServers\":{\"a\":{}}}", "either \"command\" or \"url\"" },
    { "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"url\":\"http://x\"}}}", "either" },
    { "{\"mcpServers\":{\"a\":{\"command\":\"\"}}}", "\"command\" is empty" },
    { "{\"mcpServers\":{\"a\":{\"command\":7}}}", "\"command\" must be a string" },
    { "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"args\":\"y\"}}}", "\"args\" must be an array" },
    { "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"args\":[1]}}}", "a list of strings" },
    { "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":{\"A=B\":\"1\"}}}}",
      "\"env\" has an invalid name" },
    { "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":{\"A\":1}}}}", "must be a string" },
    { "{\"mcpServers\":{\"a\":{\"command\":\"${QT_NONE}\"}}}", "the environment variable QT_NONE" },
    { "{\"mcpServers\":{\"a\":{\"url\":\"ftp://x\"}}}", "must begin with http" },
    { "{\"mcpServers\":{\"a\":{\"url\":\"http://x y\"}}}", "a space" },
    { "{\"mcpServers\":{\"a\":{\"url\":\"http://x\",\"type\":\"sse\"}}}", "not supported" },
    { "{\"mcpServers\":{\"a\":{\"url\":\"http://x\",\"headers\":{\"A\":\"b\\r\\nC: d\"}}}}",
      "a control character" },
    { "{\"mcpServers\":{\"a\":{\"url\":\"http://x\",\"headers\":{\"A:\":\"b\"}}}}",
      "invalid name or value" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__mcp_configs c = { NULL, 0, { NULL } };
    struct qp_err err = { QP_OK, "" };

    if (read_config(rows[i].text, &c, &err) != QP_INVALID || !strstr(err.msg, rows[i].part))
      fail_msg("%s: %s", rows[i].text, err.msg);
  }
}

static void
test_reading_survives_failing_allocations(void **state)
{
  bool fired = true;

  (void)state;
  for (long n = 1; fired; n++) {
    struct qp__mcp_configs c = { NULL, 0, { NULL } };
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = read_config("{\"mcpServers\":{\"a\":{\"command\":\"x\",\"args\":[\"${QT_NONE:-y}\"],"
                     "\"env\":{\"A\":\"B\"}},\"b\":{\"url\":\"http://x\",\"headers\":{\"A\":"
                     "\"B\"}}}}",
                     &c, NULL);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
    qp__mcp_configs_release(&c);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_messages_are_told_apart),
    cmocka_unit_test(test_messages_are_written_on_one_line),
    cmocka_unit_test(test_lines_split_at_every_byte),
    cmocka_unit_test(test_a_standard_file_is_understood),
    cmocka_unit_test(test_bad_files_are_refused_with_a_reason),
    cmocka_unit_test(test_reading_survives_failing_allocations),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_llm_openai.c - Chat Completions and Ollama's own protocol: golden answers cut at every byte,
 * one test for each way in which servers differ, and the bytes of requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "llm/decoder.h"
#include "llm_test.h"

#define DATA(json) "data: " json "\n\n"
#define CHUNK(choice, usage)                                                               \
  DATA("{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\"," \
       "\"choices\":[" choice "],\"usage\":" usage "}")
#define DELTA(delta) CHUNK("{\"index\":0,\"delta\":{" delta "},\"finish_reason\":null}", "null")
#define CALLS(pieces) DELTA("\"tool_calls\":[" pieces "]")
#define FINISH(reason) CHUNK("{\"index\":0,\"delta\":{},\"finish_reason\":\"" reason "\"}", "null")
#define DONE DATA("[DONE]")
#define STARTED "start id=c model=m\n"

static const struct qp__llm_codec *const codec = &qp__codec_openai;

/* ---- answers by the book ---- */

static void
two_parallel_calls_then_usage(void **state)
{
  (void)state;
  llm_expect(
      codec,
      DELTA(
          "\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"call_a\","
          "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]")
          CALLS("{\"index\":0,\"function\":{\"arguments\":\"{}\"}}") CALLS(
              "{\"index\":1,\"id\":\"call_b\",\"type\":\"function\",\"function\":"
              "{\"name\":\"g\",\"arguments\":\"{}\"}}") FINISH("tool_calls")
              CHUNK("", "{\"prompt_tokens\":9,\"completion_tokens\":5,\"total_tokens\":14}") DONE,
      STARTED "call 0 call_a f\narguments 0 \"{}\"\ncall 1 call_b g\narguments 1 \"{}\"\n"
              "usage in=9 read=0 write=0 out=5\nend 0 {}\nend 1 {}\nstop 2 tool_calls\ncomplete\n");
}

static void
text_with_usage_in_detail(void **state)
{
  (void)state;
  llm_expect(codec,
             DELTA("\"role\":\"assistant\",\"content\":\"\"") DELTA(
                 "\"content\":\"Gr\xc3\xbc\"") DELTA("\"content\":\"\xc3\x9f"
                                                     "e\",\"obfuscation\":\"xyz\"") FINISH("stop")
                 CHUNK("", "{\"prompt_tokens\":100,\"completion_tokens\":50,\"total_tokens\":150,"
                           "\"prompt_tokens_details\":{\"cached_tokens\":64},"
                           "\"completion_tokens_details\":{\"reasoning_tokens\":20}}") DONE,
             STARTED "text 0 \"Gr\xc3\xbc\"\ntext 0 \"\xc3\x9f"
                     "e\"\n"
                     "usage in=36 read=64 write=0 out=50 reasoning=20\nstop 1 stop\ncomplete\n");
}

static void
finish_reasons(void **state)
{
  (void)state;
  llm_expect(codec, DELTA("\"content\":\"a\"") FINISH("length") DONE,
             STARTED "text 0 \"a\"\nstop 3 length\ncomplete\n");
  llm_expect(codec, FINISH("content_filter") DONE, STARTED "stop 5 content_filter\ncomplete\n");
  llm_expect(codec, FINISH("weird") DONE, STARTED "stop 8 weird\ncomplete\n");
  llm_expect(codec, DELTA("\"refusal\":\"No.\"") FINISH("stop") DONE,
             STARTED "text 0 \"No.\"\nstop 5 stop\ncomplete\n");
  llm_expect(codec,
             DELTA("\"function_call\":{\"name\":\"f\",\"arguments\":\"{\"}")
                 DELTA("\"function_call\":{\"arguments\":\"}\"}") FINISH("function_call") DONE,
             STARTED "call 0 call_0 f\narguments 0 \"{\"\narguments 0 \"}\"\nend 0 {}\n"
                     "stop 2 function_call\ncomplete\n");
}

/* ---- answers as they come ---- */

/* ollama#7881, openai-python#2806, vercel/ai#15879 */
static void
quirk_index_is_missing(void **state)
{
  (void)state;
  llm_expect(codec,
             CALLS("{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}")
                 CALLS("{\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}")
                     CALLS("{\"id\":\"a\",\"function\":{\"arguments\":\"}\"}}") FINISH("tool_calls")
                         DONE,
             STARTED "call 0 a f\narguments 0 \"{\"\ncall 1 b g\narguments 1 \"{}\"\n"
                     "arguments 0 \"}\"\nend 0 {}\nend 1 {}\nstop 2 tool_calls\ncomplete\n");
  /* Neither index nor id: by the place in the list, or the newest. */
  llm_expect(codec,
             CALLS("{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}},"
                   "{\"function\":{\"name\":\"g\",\"arguments\":\"[\"}}")
                 CALLS("{\"function\":{\"arguments\":\"}\"}},{\"function\":{\"arguments\":\"]\"}}")
                     FINISH("tool_calls") DONE,
             STARTED "call 0 call_0 f\narguments 0 \"{\"\ncall 1 call_1 g\narguments 1 \"[\"\n"
                     "arguments 0 \"}\"\narguments 1 \"]\"\nend 0 {}\nend 1 []\n"
                     "stop 2 tool_calls\ncomplete\n");
  llm_expect(codec,
             CALLS("{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}")
                 CALLS("{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":\"}}")
                     CALLS("{\"function\":{\"arguments\":\"2}\"}}") FINISH("tool_calls") DONE,
             STARTED "call 0 call_0 f\narguments 0 \"{}\"\ncall 1 call_1 f\n"
                     "arguments 1 \"{\\\"x\\\":\"\narguments 1 \"2}\"\nend 0 {}\nend 1 {\"x\":2}\n"
                     "stop 2 tool_calls\ncomplete\n");
}

/* litellm#33678 */
static void
quirk_every_call_has_index_0(void **state)
{
  (void)state;
  llm_expect(codec,
             CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}")
                 CALLS("{\"index\":0,\"function\":{\"arguments\":\"{}\"}}")
                     CALLS("{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"f\"}}")
                         CALLS("{\"index\":0,\"function\":{\"arguments\":\"[]\"}}")
                             FINISH("tool_calls") DONE,
             STARTED "call 0 a f\narguments 0 \"{}\"\ncall 1 b f\narguments 1 \"[]\"\nend 0 {}\n"
                     "end 1 []\nstop 2 tool_calls\ncomplete\n");
}

/* continue#13225 */
static void
quirk_first_piece_has_no_id(void **state)
{
  (void)state;
  llm_expect(codec,
             CALLS("{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}")
                 CALLS("{\"index\":0,\"id\":\"\",\"function\":{\"arguments\":\"}\"}}")
                     FINISH("tool_calls") DONE,
             STARTED "call 0 call_0 f\narguments 0 \"{\"\narguments 0 \"}\"\nend 0 {}\n"
                     "stop 2 tool_calls\ncomplete\n");
  /* It comes late: before the name is known it counts. */
  llm_expect(codec,
             CALLS("{\"index\":3,\"function\":{\"arguments\":\"{\"}}")
                 CALLS("{\"index\":3,\"id\":\"late\",\"function\":{\"name\":\"f\","
                       "\"arguments\":\"}\"}}") FINISH("tool_calls") DONE,
             STARTED "call 0 late f\narguments 0 \"{}\"\nend 0 {}\nstop 2 tool_calls\ncomplete\n");
}

/* codex#7517 */
static void
quirk_id_only_in_the_first_piece_or_in_all(void **state)
{
  (void)state;
  llm_expect(codec,
             CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}},"
                   "{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"{\"}}")
                 CALLS("{\"index\":1,\"function\":{\"arguments\":\"}\"}}")
                     CALLS("{\"index\":0,\"function\":{\"arguments\":\"}\"}}") FINISH("tool_calls")
                         DONE,
             STARTED "call 0 a f\narguments 0 \"{\"\ncall 1 b g\narguments 1 \"{\"\n"
                     "arguments 1 \"}\"\narguments 0 \"}\"\nend 0 {}\nend 1 {}\n"
                     "stop 2 tool_calls\ncomplete\n");
  llm_expect(
      codec,
      CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}")
          CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"}\"}}")
              FINISH("tool_calls") DONE,
      STARTED "call 0 a f\narguments 0 \"{\"\narguments 0 \"}\"\nend 0 {}\n"
              "stop 2 tool_calls\ncomplete\n");
}

/* vercel/ai#15879 */
static void
quirk_arguments_before_the_name(void **state)
{
  (void)state;
  llm_expect(codec,
             CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"arguments\":\"{\\\"x\\\":\"}}")
                 CALLS("{\"index\":0,\"function\":{\"arguments\":\"1\"}}")
                     CALLS("{\"index\":0,\"function\":{\"name\":\"f\"}}")
                         CALLS("{\"index\":0,\"function\":{\"arguments\":\"}\"}}")
                             FINISH("tool_calls") DONE,
             STARTED "call 0 a f\narguments 0 \"{\\\"x\\\":1\"\narguments 0 \"}\"\n"
                     "end 0 {\"x\":1}\nstop 2 tool_calls\ncomplete\n");
  llm_expect(codec,
             CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"arguments\":\"{}\"}}")
                 FINISH("tool_calls") DONE,
             STARTED
             "call 0 a unnamed\narguments 0 \"{}\"\nend 0 {}\nstop 2 tool_calls\ncomplete\n");
}

/* vLLM */
static void
quirk_choices_beside_usage_are_null_or_absent(void **state)
{
  (void)state;
  llm_expect(codec,
             DELTA("\"content\":\"a\"") FINISH("stop")
                 DATA("{\"choices\":null,\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}")
                     DATA("{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}") DONE,
             STARTED "text 0 \"a\"\nusage in=1 read=0 write=0 out=2\n"
                     "usage in=3 read=0 write=0 out=4\nstop 1 stop\ncomplete\n");
}

/* llama.cpp, DeepSeek, OpenRouter */
static void
quirk_thinking_has_many_names(void **state)
{
  (void)state;
  llm_expect(codec,
             DELTA("\"role\":\"assistant\",\"content\":null")
                 DELTA("\"reasoning_content\":\"h\",\"content\":null")
                     DELTA("\"reasoning_content\":\"m\"") DELTA("\"content\":\"a\"") FINISH("stop")
                         DONE,
             STARTED "thinking 0 \"h\"\nthinking 0 \"m\"\ntext 1 \"a\"\nstop 1 stop\ncomplete\n");
  llm_expect(codec,
             DELTA("\"reasoning\":\"h\"") DELTA("\"reasoning\":null,\"content\":\"a\"")
                 FINISH("stop") DONE,
             STARTED "thinking 0 \"h\"\ntext 1 \"a\"\nstop 1 stop\ncomplete\n");
}

static void
quirk_timings_count_when_usage_is_absent(void **state)
{
  (void)state;
  llm_expect(codec,
             DELTA("\"content\":\"a\"") DATA(
                 "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],"
                 "\"timings\":{\"cache_n\":7,\"prompt_n\":5,\"predicted_n\":3,\"x\":0.5}}") DONE,
             STARTED "text 0 \"a\"\nusage in=5 read=7 write=0 out=3\nstop 1 stop\ncomplete\n");
  llm_expect(codec,
             FINISH("stop") DATA("{\"choices\":[],\"usage\":{\"prompt_tokens\":1,"
                                 "\"completion_tokens\":2},\"timings\":{\"prompt_n\":9}}") DONE,
             STARTED "usage in=1 read=0 write=0 out=2\nstop 1 stop\ncomplete\n");
}

static void
quirk_roles_repeat_and_deltas_are_null(void **state)
{
  (void)state;
  llm_expect(codec,
             ": OPENROUTER PROCESSING\n\n" DELTA("\"role\":\"assistant\",\"content\":\"a\"")
                 CHUNK("{\"delta\":null}", "null") DELTA(
                     "\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]")
                     FINISH("stop") DONE,
             STARTED "text 0 \"a\"\ntext 0 \"b\"\nstop 1 stop\ncomplete\n");
}

/* Gemini and others say "stop" and mean their calls. */
static void
quirk_stop_beside_calls(void **state)
{
  (void)state;
  llm_expect(
      codec,
      CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}")
          FINISH("stop") DONE,
      STARTED "call 0 a f\narguments 0 \"{\\\"x\\\":1}\"\nend 0 {\"x\":1}\nstop 2 stop\n"
              "complete\n");
}

static void
quirk_error_in_a_good_stream(void **state)
{
  (void)state;
  llm_expect(codec,
             DELTA("\"content\":\"a\"") DATA("{\"error\":{\"message\":\"Slow down\","
                                             "\"type\":\"x\",\"code\":\"rate_limit_exceeded\"}}")
                 DONE,
             STARTED "text 0 \"a\"\nfault rate_limit Slow down\n");
  llm_expect(codec, DATA("{\"error\":\"it broke\"}"), "fault server it broke\n");
  llm_expect(codec, DATA("{\"error\":null,\"id\":\"c\",\"model\":\"m\"}") FINISH("stop"),
             STARTED "stop 1 stop\ncomplete\n");
}

/* Either terminator is enough; without both it was cut, and calls without an end are not told. */
static void
an_answer_without_terminator_was_cut(void **state)
{
  (void)state;
  llm_expect(codec, DELTA("\"content\":\"a\"") FINISH("stop"),
             STARTED "text 0 \"a\"\nstop 1 stop\ncomplete\n");
  llm_expect(codec, DELTA("\"content\":\"a\"") DONE, STARTED "text 0 \"a\"\nstop 8 \ncomplete\n");
  llm_expect(codec,
             DELTA("\"content\":\"a\"") CALLS(
                 "{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}"),
             STARTED "text 0 \"a\"\ncall 1 a f\narguments 1 \"{}\"\n"
                     "fault cut the answer ended before it was complete\n");
}

/* Cut by max_tokens (llama.cpp). */
static void
arguments_may_be_no_json(void **state)
{
  (void)state;
  llm_expect(
      codec,
      CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"te\"}}")
          FINISH("length") DONE,
      STARTED "call 0 a f\narguments 0 \"{\\\"te\"\nend 0 {\"te\nstop 3 length\ncomplete\n");
}

static void
a_body_that_comes_at_once(void **state)
{
  static const char body[] =
      "{\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":"
      "\"hi\",\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
      "\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}";
  struct qp__llm_fault fault;
  struct qp__buf log;
  struct qp__decoder *reader = NULL;

  (void)state;
  qp__buf_init(&log, 10000);
  assert_int_equal(
      qp__decoder_open(codec, (struct qp__llm_sink){ llm_log_event, &log }, &reader, NULL), QP_OK);
  assert_int_equal(qp__decoder_whole(reader, (struct qp_bytes){ body, sizeof(body) - 1 }, NULL),
                   QP_OK);
  assert_int_equal(qp__decoder_end(reader, &fault, NULL), QP_OK);
  assert_int_equal(fault.kind, QP__FAULT_NONE);
  assert_string_equal(log.data, STARTED "text 0 \"hi\"\ncall 1 a f\narguments 1 \"{}\"\n"
                                        "usage in=1 read=0 write=0 out=2\nend 1 {}\n"
                                        "stop 2 tool_calls\n");
  qp__decoder_close(reader);
  qp__buf_release(&log);
}

/* ---- requests ---- */

static void
a_request_with_everything(void **state)
{
  static const struct qp__llm_tool tools[] = {
    { "f", "Does.", { "{\"type\":\"object\"}", 17 }, true },
  };
  struct qp__llm_request request = {
    .model = "gpt-x",
    .system = { "Be kind.", 8 },
    .tools = tools,
    .tool_count = 1,
    .params = { .max_tokens = 100, .effort = (char *)"low" },
    .flags = QP__LLM_MAX_COMPLETION,
  };

  (void)state;
  llm_expect_body(
      codec, &request,
      "[{\"role\":\"user\",\"text\":\"q\"},"
      "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"hm\"},{\"type\":"
      "\"text\","
      "\"text\":\"a\"}],\"tool_calls\":[{\"id\":\"t1\",\"tool_name\":\"f\",\"arguments\":{\"x\":1}}"
      ","
      "{\"id\":\"t2\",\"tool_name\":\"f\",\"arguments\":\"{\\\"te\"}]},"
      "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"t1\",\"result\":\"ok\"}},"
      "{\"role\":\"tool\",\"content\":[{\"type\":\"image\",\"url\":\"data:image/"
      "png;base64,AA==\"}],"
      "\"tool_result\":{\"request_id\":\"t2\",\"result\":[1],\"is_error\":true}},"
      "{\"role\":\"user\",\"text\":\"and?\"},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
      "\"t3\","
      "\"tool_name\":\"f\"}]},{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"t3\","
      "\"result\":\"\"}}]",
      "{\"model\":\"gpt-x\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
      "\"max_completion_tokens\":100,\"reasoning_effort\":\"low\",\"tools\":[{\"type\":"
      "\"function\","
      "\"function\":{\"name\":\"f\",\"description\":\"Does.\",\"parameters\":{\"type\":\"object\"},"
      "\"strict\":true}"
      "}],"
      "\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\",\"content\":"
      "\"q\"},{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{\"id\":\"t1\",\"type\":"
      "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},{\"id\":\"t2\","
      "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"te\"}}]},"
      "{\"role\":\"tool\",\"tool_call_id\":\"t1\",\"content\":\"ok\"},{\"role\":\"tool\","
      "\"tool_call_id\":\"t2\",\"content\":\"Error: "
      "[1]\"},{\"role\":\"user\",\"content\":[{\"type\":"
      "\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AA==\"}},{\"type\":\"text\","
      "\"text\":\"and?\"}]},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
      "\"t3\","
      "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
      "{\"role\":\"tool\",\"tool_call_id\":\"t3\",\"content\":\"\"}]}");
}

/* The usual field for everyone but OpenAI, and thinking where a server wants it back. */
static void
a_request_for_other_servers(void **state)
{
  struct qp__llm_request request = {
    .model = "x",
    .params = { .max_tokens = 5 },
    .flags = QP__LLM_SEND_REASONING | QP__LLM_NO_STREAM_OPTIONS,
  };

  (void)state;
  llm_expect_body(
      codec, &request,
      "[{\"role\":\"user\",\"text\":\"q\"},{\"role\":\"assistant\",\"content\":["
      "{\"type\":\"thinking\",\"text\":\"hm\"},{\"type\":\"text\",\"text\":\"a\"}]},"
      "{\"role\":\"user\",\"text\":\"r\"}]",
      "{\"model\":\"x\",\"stream\":true,\"max_tokens\":5,\"messages\":[{\"role\":\"user\","
      "\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\","
      "\"reasoning_content\":\"hm\"},{\"role\":\"user\",\"content\":\"r\"}]}");
}

/* ---- Ollama ---- */

static void
ollama_sends_lines(void **state)
{
  (void)state;
  llm_expect(
      &qp__codec_ollama,
      "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"thinking\":\"h\",\"content\":\"\"},"
      "\"done\":false}\n{\"model\":\"m\",\"message\":{\"content\":\"a\"},\"done\":false}\r\n\n"
      "{\"model\":\"m\",\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":"
      "\"f\","
      "\"arguments\":{\"x\":1}}},{\"function\":{\"name\":\"f\",\"arguments\":{}}}]},\"done\":false}"
      "\n"
      "{\"model\":\"m\",\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\","
      "\"prompt_eval_count\":26,\"eval_count\":9}\n",
      "start id= model=m\nthinking 0 \"h\"\ntext 1 \"a\"\ncall 2 call_2 f\n"
      "arguments 2 \"{\\\"x\\\":1}\"\ncall 3 call_3 f\narguments 3 \"{}\"\nend 2 {\"x\":1}\n"
      "end 3 {}\nusage in=26 read=0 write=0 out=9\nstop 2 stop\ncomplete\n");
  llm_expect(&qp__codec_ollama,
             "{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"error\":\"gone\"}\n",
             "start id= model=\ntext 0 \"a\"\nfault server gone\n");
  llm_expect(&qp__codec_ollama, "{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"mess",
             "start id= model=\ntext 0 \"a\"\nfault cut the answer ended before it was complete\n");
  llm_expect(&qp__codec_ollama, "{\"done\":true,\"done_reason\":\"length\"}",
             "start id= model=\nusage in=0 read=0 write=0 out=0\nstop 3 length\ncomplete\n");
}

static void
ollama_takes_a_window(void **state)
{
  struct qp__llm_request request = { .model = "m",
                                     .params = { .max_tokens = 5, .num_ctx = 16384 } };

  (void)state;
  llm_expect_body(
      &qp__codec_ollama, &request,
      "[{\"role\":\"system\",\"text\":\"S\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
      "\"text\":\"q\"},{\"type\":\"image\",\"url\":\"data:image/png;base64,AA==\"}]},"
      "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"tool_name\":\"f\",\"arguments\":"
      "{\"x\":1}}]},{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"a\",\"result\":\"ok\"}}]",
      "{\"model\":\"m\",\"stream\":true,\"options\":{\"num_ctx\":16384,\"num_predict\":5},"
      "\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"q\","
      "\"images\":[\"AA==\"]},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{"
      "\"function\":"
      "{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},{\"role\":\"tool\",\"tool_name\":\"f\","
      "\"content\":\"ok\"}]}");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_parallel_calls_then_usage),
    cmocka_unit_test(text_with_usage_in_detail),
    cmocka_unit_test(finish_reasons),
    cmocka_unit_test(quirk_index_is_missing),
    cmocka_unit_test(quirk_every_call_has_index_0),
    cmocka_unit_test(quirk_first_piece_has_no_id),
    cmocka_unit_test(quirk_id_only_in_the_first_piece_or_in_all),
    cmocka_unit_test(quirk_arguments_before_the_name),
    cmocka_unit_test(quirk_choices_beside_usage_are_null_or_absent),
    cmocka_unit_test(quirk_thinking_has_many_names),
    cmocka_unit_test(quirk_timings_count_when_usage_is_absent),
    cmocka_unit_test(quirk_roles_repeat_and_deltas_are_null),
    cmocka_unit_test(quirk_stop_beside_calls),
    cmocka_unit_test(quirk_error_in_a_good_stream),
    cmocka_unit_test(an_answer_without_terminator_was_cut),
    cmocka_unit_test(arguments_may_be_no_json),
    cmocka_unit_test(a_body_that_comes_at_once),
    cmocka_unit_test(a_request_with_everything),
    cmocka_unit_test(a_request_for_other_servers),
    cmocka_unit_test(ollama_sends_lines),
    cmocka_unit_test(ollama_takes_a_window),
  };

  return cmocka_run_group_tests_name("openai", tests, NULL, NULL);
}
